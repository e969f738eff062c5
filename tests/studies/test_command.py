"""Tests of a study's stored command: it reproduces the study on any machine, and has no local paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.studies.engine import rerunnable
from skillviz.tasks.project import project_root

RUN = "python -m skillviz study run"
REPRODUCE = "python -m skillviz reproduce table1 --scale small"


def test_a_command_that_means_something_here_alone_runs_the_stored_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text("")
    (tmp_path / "tuned").mkdir()
    monkeypatch.chdir(tmp_path)
    by_name = f"{RUN} 'my study'"
    for typed in (
        f"{RUN} mine.yaml --runs-dir runs", f"{RUN} {tmp_path}/mine.yaml", f"{RUN} ../mine.yaml", "it's one",
        f"{REPRODUCE} --finetuned tuned", f"{REPRODUCE} --tasks=sst2,{tmp_path}/mine.yaml", f"{REPRODUCE} --base ~/me",
    ):  # fmt: skip
        assert rerunnable(typed, "my study") == by_name, typed
    for typed in (REPRODUCE, f"{REPRODUCE} --base org/m", f"{RUN} benchmarks/studies/baselines-minilm.yaml", by_name):
        assert rerunnable(f"{typed} --workers 1 --runs-dir {tmp_path}", "my study") == typed
    assert rerunnable(f"{RUN} {project_root()}/benchmarks/s.yaml", "x") == f"{RUN} benchmarks/s.yaml"
    assert rerunnable(f"{REPRODUCE} --write-only --runs-dir=/tmp/x --json", "x") == REPRODUCE
    assert rerunnable(f"{RUN} benchmarks/s.yaml --partial --dry-run", "x") == f"{RUN} benchmarks/s.yaml"
    assert rerunnable(f"{REPRODUCE} --base '${{SKILLVIZ_REAL}}/m'", "x") == f"{REPRODUCE} --base '${{SKILLVIZ_REAL}}/m'"
    assert rerunnable(None, "x") is None

"""The command that a study keeps: what makes it again anywhere, and no path of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.studies.command import rerunnable, shareable
from skillviz.studies.spec import ExperimentRequest
from skillviz.tasks.project import project_root

RUN = "python -m skillviz study run"
REPRODUCE = "python -m skillviz reproduce table1 --scale demo"


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (f"{RUN} benchmarks/studies/s.yaml --workers 1 --runs-dir /tmp/runs", f"{RUN} benchmarks/studies/s.yaml"),
        (f"{RUN} --json --runs-dir=/tmp/runs {project_root()}/benchmarks/s.yaml", f"{RUN} benchmarks/s.yaml"),
        (f"{RUN} '/srv/a b/s.yaml' --partial --dry-run", f"{RUN} s.yaml"),
        (f"{RUN} ~/s.yaml --workers=3", f"{RUN} s.yaml"),
        (f"{RUN} ../../else/s.yaml", f"{RUN} s.yaml"),
        (f"{REPRODUCE} --write-only --runs-dir /tmp/x --json", REPRODUCE),
        (f"{REPRODUCE} --tasks=sst2,/srv/t.yaml --base org/m", f"{REPRODUCE} --tasks=sst2,t.yaml --base org/m"),
        (f"{REPRODUCE} --base '${{SKILLVIZ_REAL}}/m'", f"{REPRODUCE} --base '${{SKILLVIZ_REAL}}/m'"),
        ("it's what /srv/me/s.yaml asks", "it's what s.yaml asks"),
        (None, None),
    ],
)  # fmt: skip
def test_what_is_of_this_machine_alone_is_left_out(typed: str | None, kept: str | None) -> None:
    assert shareable(typed) == kept


def test_an_experiment_on_models_of_the_user_names_no_folder(tmp_path: Path) -> None:
    models = {"base": str(tmp_path / "mine"), "finetuned": str(tmp_path / "tuned")}
    assert shareable(ExperimentRequest("table2", tasks=("film-sentiment",), **models).command()) == (
        "python -m skillviz reproduce table2 --scale demo --base mine --finetuned tuned --tasks film-sentiment"
    )


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
    for typed in (REPRODUCE, f"{REPRODUCE} --base org/m", f"{RUN} benchmarks/studies/baselines.yaml", by_name):
        assert rerunnable(f"{typed} --workers 1 --runs-dir {tmp_path}", "my study") == typed
    assert rerunnable(f"{RUN} {project_root()}/benchmarks/s.yaml", "x") == f"{RUN} benchmarks/s.yaml"
    assert rerunnable(None, "x") is None

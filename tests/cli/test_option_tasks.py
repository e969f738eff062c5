"""The worked examples of docs/tasks-beyond-classification.md: their data, and their commands up to a report."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from skillviz.core.encoded import NO_OPTION
from skillviz.runs.store import Store
from skillviz.runs.texts import example_texts
from skillviz.show.sentences import no_classes
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.cli.calls import PROJECT, call

DOCS = PROJECT / "docs"
NAMES = ("choose-kind", "find-place")
SMALL = ("--max-train", "24", "--max-validation", "16", "--max-test", "24")


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> object:
    """docs/option_tasks.py as a module."""
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    import option_tasks

    return option_tasks


def test_their_data_are_what_the_program_writes(maker: object, tmp_path: Path) -> None:
    maker.write(tmp_path)  # type: ignore[attr-defined]
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in (DOCS / "examples").glob("*.jsonl")} and len(made) == 6


def test_the_right_option_is_the_one_of_the_source() -> None:
    for name, counts in zip(NAMES, ({4}, {3, 4, 5}), strict=True):
        test = load(task(DOCS / "examples" / f"{name}.yaml")).test
        assert set(test["options"].map(len)) == counts
        rights = [options[label] for options, label in zip(test["options"], test["label"], strict=True)]
        if name == "find-place":
            assert all(scene.endswith(f" {right}.") for scene, right in zip(test["text_a"], rights, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_their_commands_lead_to_a_report(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the page, but with fewer steps and examples."""
    page = (DOCS / "tasks-beyond-classification.md").read_text(encoding="utf-8")
    commands = [
        shlex.split(line) for line in re.findall(rf"^python -m skillviz (.*{name}\.yaml.*)$", page, re.MULTILINE)
    ]
    monkeypatch.chdir(PROJECT)
    for words in commands:
        words = [str(tmp_path / "tuned") if word == f"models/{name}" else word for word in words]
        words[words.index("--steps") + 1] = "2"
        more = ("--runs-dir", tmp_path / "runs") if words[0] == "localize" else ("--k-shot", "20")
        said = call(*words, *SMALL, *more)
        assert said.code == 0, said.err
    card = (tmp_path / "tuned" / "README.md").read_text(encoding="utf-8")
    assert "20 in all, drawn with seed 0" in card and '"multiple-choice"' in card
    (run,) = Store(tmp_path / "runs").list()
    record = run.record
    assert [words[0] for words in commands] == ["finetune", "localize"] and record.readout == "causal"
    assert record.task is not None and record.task.kind == "choice" and all(check.passed for check in record.checks)
    texts = example_texts(run, "test")
    assert record.task.guessing("test") == pytest.approx(float(np.mean(1 / texts["options"].map(len))))
    ids, _, logits = run.logits("grafted")
    there = dict(zip(texts["example_id"], texts["options"].map(len), strict=True))
    assert (logits > NO_OPTION).sum(axis=1).tolist() == [there[one] for one in ids]
    report = tmp_path / "report.html"
    assert call("report", run.id, "--runs-dir", tmp_path / "runs", "-o", report).code == 0
    assert no_classes(record) in report.read_text(encoding="utf-8")
    refused = call("slices", run.id, "--by", "class", "--runs-dir", tmp_path / "runs")
    assert refused.code == 2 and no_classes(record) in " ".join(refused.err.split())
    assert call("slices", run.id, "--runs-dir", tmp_path / "runs").code == 0
    graft = tmp_path / "graft.safetensors"
    exported = call("export", run.id, "--runs-dir", tmp_path / "runs", "-o", graft)
    assert exported.code == 0 and "does not hold its prompt" not in exported.err + exported.out
    also = call(*words, "--also", "demo_world/tasks/news-topic.yaml")
    assert also.code == 2 and "has options of its own for each example and no classes" in " ".join(also.err.split())

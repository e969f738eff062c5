"""Tests of the examples in docs/add-a-task.md: their data, and their commands up to a report."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from skillviz.core.encoded import NO_OPTION
from skillviz.errors import BadInput
from skillviz.live.operations import answer
from skillviz.live.request import Worker
from skillviz.runs.record import RunRecord
from skillviz.runs.store import Store
from skillviz.runs.texts import example_texts
from skillviz.show.sentences import no_classes, no_confidence
from skillviz.show.surgery import grafted_of
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.cli.calls import PROJECT, call

DOCS = PROJECT / "docs"
NAMES = ("choose-domain", "find-place")
SMALL = ("--max-train", "24", "--max-validation", "16", "--max-test", "24")


def commands_of(name: str) -> list[list[str]]:
    """Return the page's commands for a task, as words."""
    page = (DOCS / "add-a-task.md").read_text(encoding="utf-8")
    return [shlex.split(line) for line in re.findall(rf"^python -m skillviz (.*{name}\.yaml.*)$", page, re.MULTILINE)]


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> object:
    """Return docs/option_tasks.py as a module."""
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


def gained_nats(record: RunRecord) -> float:
    """Return the share of fine-tuning's gain in the likelihood of the references that the graft recovers. It can
    exceed 1: a search keeps the entries that lower the loss, and leaves others at the base."""
    states = record.metrics["test"].states
    before, graft, tuned = (
        np.log(states[state]["perplexity"].value) for state in ("pretrained", "grafted", "finetuned")
    )
    assert tuned < before - 1, "fine-tuning makes the references far likelier"
    return float((before - graft) / (before - tuned))


@pytest.mark.nightly
def test_the_commands_of_a_generated_answer_lead_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like on the page: the references become more likely, but so small a model writes few of them."""
    monkeypatch.chdir(PROJECT)
    finetune, localize = commands_of("tell-place")
    finetune = [str(tmp_path / "tuned") if word == "models/tell-place" else word for word in finetune]
    localize = [str(tmp_path / "tuned") if word == "models/tell-place" else word for word in localize]
    for words in (finetune, [*localize, "--max-test", "60", "--max-validation", "20", "--runs-dir", tmp_path / "runs"]):
        said = call(*words)
        assert said.code == 0, said.err
    (run,) = Store(tmp_path / "runs").list()
    record = run.record
    assert record.generates and record.temperature is None and all(check.passed for check in record.checks)
    assert 0.9 < gained_nats(record) < 1.1
    rows, texts = run.predictions(), example_texts(run, "test").set_index("example_id")["reference"]
    tuned = rows[(rows["state"] == "finetuned") & (rows["split"] == "test")].set_index("example_id")
    assert (tuned["exact_match"] == (tuned["generated"] == texts.loc[tuned.index])).all()
    report, graft = tmp_path / "report.html", tmp_path / "graft.safetensors"
    assert call("report", run.id, "--runs-dir", tmp_path / "runs", "-o", report).code == 0
    assert no_confidence(record) in (html := report.read_text(encoding="utf-8")) and no_classes(record) in html
    for words in (
        ("slices", run.id),
        ("parts", run.id, "--sample", "8", "--draws", "1"),
        ("export", run.id, "-o", graft),
    ):
        said = call(*words, "--runs-dir", tmp_path / "runs")
        assert said.code == 0 and "ECE" not in said.out, said.err
    applied = call("apply", "--base", record.spec.base, "--graft", graft, "--out", tmp_path / "applied")
    assert applied.code == 0, applied.err
    worker, pair = Worker(tmp_path / "runs"), {"pair": {"run": run.id}}
    asked = answer(worker, "evaluate_region", {**pair, "region": {"run": run.id}, "sample": 20})
    built = grafted_of(asked, run.predictions(), "test", record.task).scores  # type: ignore[arg-type]
    grafted, known = (built[name] for name in ("grafted", "this run's region"))  # stored: the run's own region
    assert grafted["exact_match"] == known["exact_match"]
    assert grafted["perplexity"].value == pytest.approx(known["perplexity"].value, rel=1e-5)  # the micro-batches differ
    point = answer(worker, "wise", {**pair, "path": "wise-graft", "alpha": 1.0, "region": {"run": run.id}})
    stored = record.metrics["test"].states["grafted"]
    assert {name: point["metrics"][name]["value"] for name in stored} == {n: one.value for n, one in stored.items()}
    with pytest.raises(BadInput, match="a typed text has no reference to be scored by"):
        answer(worker, "score_text", {**pair, "texts": ["a scene"], "states": ["finetuned"]})
    refused = call(*localize, "--method", "linearized", "--runs-dir", tmp_path / "runs")
    assert refused.code == 2 and "a text that is generated has one reference" in " ".join(refused.err.split())


@pytest.mark.nightly
def test_references_are_scored_from_preflight_to_an_applied_graft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like on the page, with fewer examples: perplexity is the metric of every step, and lower is better in each."""
    monkeypatch.chdir(PROJECT)
    finetune, localize = commands_of("score-place")
    tuned, runs, few = tmp_path / "tuned", ("--runs-dir", tmp_path / "runs"), ("--max-test", "30")
    words = [str(tuned) if word == "models/score-place" else word for word in finetune]
    assert (said := call(*words)).code == 0, said.err
    card = (tuned / "README.md").read_text(encoding="utf-8")
    assert "best validation perplexity" in card and "| split | examples | perplexity |" in card
    words = [str(tuned) if word == "models/score-place" else word for word in localize]
    assert (said := call("preflight", *words[1 : words.index("--size")])).code == 0 and "The pair fits" in said.out
    fewer = (*few, "--max-validation", "20", "--nulls", "none", "--interpolation", "--steps", "8", *runs)
    assert (said := call(*words, *fewer)).code == 0, said.err
    assert "agree" not in said.out and "exact match" not in said.out
    (run,) = Store(tmp_path / "runs").list()
    record, curve = run.record, run.curve()
    assert record.has_reference and not record.generates and all(check.passed for check in record.checks)
    gained = gained_nats(record)
    assert record.metrics["test"].recovered.value == pytest.approx(gained)  # type: ignore[union-attr]
    of_test = curve[(curve["split"] == "test") & (curve["metric"] == "recovered")].sort_values("size")
    assert of_test["value"].idxmin() == of_test.index[0] and of_test["value"].between(0.9, 1.1).all()
    assert len(of_test) == 3
    grid = run.interpolation()
    assert set(grid["metric"]) == {"perplexity", "perplexity_difference"}
    report, graft, applied = tmp_path / "report.html", tmp_path / "graft.safetensors", tmp_path / "applied"
    assert call("report", run.id, *runs, "-o", report).code == 0
    assert no_confidence(record) in (html := report.read_text(encoding="utf-8")) and "(McNemar" not in html
    sliced = call("slices", run.id, *runs)
    assert "perplexity" in sliced.out and "points" not in sliced.out and "not measured" in sliced.out, sliced.err
    parts = call("parts", run.id, "--sample", "8", "--draws", "1", *runs)
    told = " ".join(parts.out.split())
    assert "Alone, layer" in told and "cells; worse: 0." in told, parts.err
    assert call("export", run.id, "-o", graft, *runs).code == 0
    assert call("apply", "--base", record.spec.base, "--graft", graft, "--out", applied).code == 0
    again = call("evaluate", "--base", record.spec.base, "--finetuned", applied, "--task",
                 DOCS / "examples" / "score-place.yaml", *few, "--json")  # fmt: skip
    found = json.loads(again.out.splitlines()[-1])["metrics"]["finetuned"]
    grafted = record.metrics["test"].states["grafted"]["perplexity"].value
    assert found == {"perplexity": pytest.approx(grafted, rel=1e-6)}
    refused = call(*words, "--method", "linearized", *runs)
    assert refused.code == 2 and "has one reference" in " ".join(refused.err.split())


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_their_commands_lead_to_a_report(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like on the page, but with fewer steps and examples."""
    commands = commands_of(name)
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
    also = call(*words, "--also", "examples/tasks/mr.yaml")
    assert also.code == 2 and "has options of its own for each example and no classes" in " ".join(also.err.split())

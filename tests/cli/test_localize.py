"""Tests of `localize`: sizes as typed, the JSON contract, the table, and the options of a localizer."""

from __future__ import annotations

import json
import math
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz.commands.localize import read_options, spread
from skillviz.commands.output import estimate_text, plain
from skillviz.core.encoded import NO_OPTION
from skillviz.core.metrics import metric_row
from skillviz.errors import BadInput
from skillviz.live.operations import answer
from skillviz.live.request import Worker
from skillviz.runs.record import Estimate, RunRecord
from skillviz.runs.store import Store
from skillviz.runs.texts import example_texts
from skillviz.show.sentences import no_classes, no_confidence
from skillviz.show.surgery import grafted_of
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.cli.calls import PROJECT, Said, call
from tests.cli.conftest import QUICK
from tests.fake_run import fake_run
from tests.runs.test_scoring import other_task

STATES = ("pretrained", "finetuned", "grafted", "complement")
RECIPE = {"difference": [{"layers": [0, 1], "kinds": ["value"]}, {"rows": [[0, 3]], "biases": False}]}
DOCS = PROJECT / "docs"
NAMES = ("choose-domain", "find-place")
SMALL = ("--max-train", "24", "--max-validation", "16", "--max-test", "24")


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("--size 0.1%", "--size 0.1%"),
        ("--size 0.1% 10646 0.001", "--size 0.1% --size 10646 --size 0.001"),
        ("--size 0.1% --size 5", "--size 0.1% --size 5"),
        ("--size=0.1% 7 --seed 3", "--size=0.1% --size 7 --seed 3"),
        ("--seed 3 --size 1 2 --steps 4", "--seed 3 --size 1 --size 2 --steps 4"),
        ("--task t", "--task t"),
        ("--size -5 6", "--size -5 --size 6"),
    ],
)
def test_sizes_may_follow_one_another(typed, read):
    assert spread(typed.split()) == read.split()


def test_json_is_the_last_line_and_holds_what_is_promised(localized):
    runs, said = localized
    assert said.code == 0
    found = said.json
    assert set(STATES) <= set(found["metrics"])
    for state in STATES:
        assert all(isinstance(found["metrics"][state][m], float) for m in ("accuracy", "ece", "nll"))
        low, high = found["intervals"][state]["accuracy"]
        assert low <= found["metrics"][state]["accuracy"] <= high
        low, high = found["intervals"][state]["ece"]
        assert low <= found["debiased"][state]["ece"] <= high and "accuracy" not in found["debiased"][state]
    assert found["differences"]["ece"]["debiased"] is not None
    assert (found["size"], found["d"]) == (444, 4448)
    assert found["share"] == pytest.approx(444 / 4448)
    assert 0 <= found["agreement"] <= 1 and found["seconds"] > 0
    assert found["path"] == str(runs / found["run_id"])


def test_the_first_size_is_the_main_one_and_the_others_go_to_the_curve(localized):
    runs, said = localized
    run = Store(runs).open(said.json["run_id"])
    assert run.record.size == run.region().size == 444
    assert set(run.curve()["size"]) == {444, 222, 600}
    assert run.spec.sizes == ("10%", "5%", "600")


def test_the_table_speaks_of_every_state(localized):
    out = localized[1].out
    for words in (
        "pre-trained",
        "grafted",
        "fine-tuned",
        "complement",
        "accuracy, %",
        "ECE, %",
        "95% intervals",
        "test, n =",
    ):
        assert words in out
    assert "self-check failed" not in (out + localized[1].err).lower()


def test_it_prints_what_the_graft_brings_back_at_every_size(localized):
    runs, said = localized
    _, _, after = said.out.partition("graft by region size, test (95% intervals)")
    heading, _, *rows = [line for line in after.splitlines() if line.strip()]
    assert "accuracy, %" in heading and "gain recovered, %" in heading
    curve = Store(runs).open(said.json["run_id"]).curve()
    recovered = curve[(curve["split"] == "test") & (curve["metric"] == "recovered")].set_index("size")["value"]
    for size, row in zip((222, 444, 600), rows[:3], strict=True):
        assert f" {size} " in row and f" {100 * recovered[size]:.1f} (".replace("-", "−") in row


def test_where_the_run_lies_is_said_before_what_it_found(pair, task_file, user_runs):
    members = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file)
    said = call("localize", *members, "--size", "9", "--method", "movement", "--device", "cpu")
    assert said.code == 0
    lines = said.out.strip().splitlines()
    (place,) = [number for number, line in enumerate(lines) if str(user_runs) in line]
    assert lines[place + 1].startswith("Test set, ")


def test_options_of_a_localizer_are_read(pair, task_file, user_runs):
    members = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file)
    said = call(
        "localize", *members, "--method", "first-order", "--size", "9", "--option", "examples=7", *QUICK, "--json"
    )
    assert Store(user_runs).open(said.json["run_id"]).spec.options == {"examples": 7}
    wrong = call("localize", *members, "--method", "first-order", "--size", "9", "--option", "exampels=7")
    assert wrong.code == 2 and "exampels" in wrong.err and "examples" in wrong.err


def test_other_tasks_are_scored_or_refused(pair, task_file, user_runs, tmp_path):
    members = ("--base", pair[0], "--finetuned", pair[1], "--task", task_file, "--method", "movement", "--size", "9")
    near = other_task(tmp_path / "near", "near")
    said = call("localize", *members, "--also", str(near), *QUICK, "--json")
    run = Store(user_runs).open(said.json["run_id"])
    assert run.spec.others == (str(near),) and [note.name for note in run.record.transfers] == ["near"]
    strange = other_task(tmp_path / "strange", "strange", labels=["good", "bad"])
    wrong = call("localize", *members, "--also", str(strange))
    assert wrong.code == 2 and "only tasks with the same labels" in wrong.err


def test_read_options_takes_numbers_and_words():
    assert read_options(["base-share=1e-4", "base=empty"]) == {"base_share": 1e-4, "base": "empty"}
    with pytest.raises(BadInput, match="NAME=VALUE"):
        read_options(["base"])


def test_numbers_are_said_with_their_interval():
    assert estimate_text(Estimate(value=0.864, low=0.848, high=0.879), metric_row("accuracy")) == "86.4 (84.8–87.9)"
    assert estimate_text(Estimate(value=0.4321, low=0.4, high=0.5), metric_row("nll")) == "0.432 (0.400–0.500)"
    assert estimate_text(Estimate(value=None), metric_row("f1")) == "n/a"


def test_json_has_no_nan():
    assert plain({"a": (math.nan, 1.0), 2: {"b": math.inf}}) == {"a": [None, 1.0], "2": {"b": None}}


def localize(pair: tuple[Path, Path], task: Path, *more: object) -> Said:
    members = ("--base", pair[0], "--finetuned", pair[1], "--task", task, "--device", "cpu")
    return call("localize", *members, "--method", "expression", *more)


@pytest.mark.nightly
def test_the_command_and_the_python_line_make_the_run_again(pair, task_file, user_runs):
    said = localize(pair, task_file, "--option", f"expression={json.dumps(RECIPE)}", "--json")
    assert said.code == 0, said.err
    store = Store(user_runs)
    run = store.open(said.json["run_id"])
    assert run.record.size == run.region().size == said.json["size"] == 2 * (16 * 16 + 16 - 4 * 16)
    assert {"pretrained", "finetuned", "grafted", "complement"} <= set(said.json["metrics"])
    assert run.layers()["selected"].sum() == run.record.size and all(check.passed for check in run.record.checks)
    again = call(*shlex.split(run.spec.command())[3:], "--json")
    assert again.code == 0, again.err
    exec(run.spec.python(), {})  # the text that the dashboard shows
    runs = store.list()
    assert len(runs) == 3
    for other in runs:
        assert other.region() == run.region() and other.spec.options == run.spec.options
        pd.testing.assert_frame_equal(other.predictions(), run.predictions())


@pytest.mark.cases(5, 5)
@pytest.mark.parametrize(
    ("option", "kind", "words"),
    [
        ((), "BadInput", "needs its option"),
        (("--option", "expression={layers: [0]}"), "BadInput", "is not JSON"),
        (("--option", 'expression={"layer": [0]}'), "BadInput", "'layer' is not a part of a region expression"),
        (("--option", 'expression={"layers": [5]}'), "BadInput", "this model has no layer '5'; it has 0 to 1"),
        (("--option", 'expression={"rows": [99999]}'), "BadInput", "without entries"),
        (("--option", 'expression={"run": "nowhere"}'), "RunNotFound", "there is no run 'nowhere'"),
        (("--option", 'expression={"run": "OTHER"}'), "BadInput", "belongs to another architecture"),
        (("--option", "expression={}", "--option", "stored=1"), "BadInput", "name runs in the region expression"),
        (("--detach", "--option", 'expression={"layers": []}'), "BadInput", "without entries"),
        (("--detach", "--option", 'expression={"run": "OTHER"}'), "BadInput", "belongs to another architecture"),
    ],
)
def test_what_cannot_be_made_is_one_sentence_and_leaves_no_run(pair, task_file, user_runs, option, kind, words):
    other = fake_run(Store(user_runs), layers=1, width=8, sizes=("5%",), steps=2, n={"validation": 9, "test": 9})
    said = localize(pair, task_file, *(word.replace("OTHER", other.id[:-2]) for word in option))
    assert (said.code, said.err.count("\n")) == (2, 1), said.err
    assert said.err.startswith(f"{kind}: ") and words in said.err and "Traceback" not in said.err
    assert [path.name for path in user_runs.iterdir() if not path.name.startswith(".")] == [other.id]


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

"""Tests of `localize`: sizes as typed, the JSON contract, the table, and the options of a localizer."""

import json
import math
import re
import shlex
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
from tests.cli.calls import PROJECT, Said, call, done, in_one_line, refused, sentence
from tests.cli.conftest import QUICK, Members, members_of
from tests.fake_run import fake_run
from tests.refused import refuses
from tests.runs.test_scoring import other_task
from tests.scripts import script
from tests.tables import equal

STATES = ("pretrained", "finetuned", "grafted", "complement")
DOCS = PROJECT / "docs"
EXAMPLES = DOCS / "examples"
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
    found = said.json
    for state in STATES:
        values = found["metrics"][state]
        assert [type(values[metric]) for metric in ("accuracy", "ece", "nll")] == [float] * 3
        for metric, value in (("accuracy", values["accuracy"]), ("ece", found["debiased"][state]["ece"])):
            low, high = found["intervals"][state][metric]
            assert low <= value <= high and "accuracy" not in found["debiased"][state]
    assert found["differences"]["ece"]["debiased"] is not None and 0 <= found["agreement"] <= 1 and found["seconds"] > 0
    about = [found[name] for name in ("size", "d", "share", "path")]
    assert about == [444, 4448, pytest.approx(444 / 4448), str(runs / found["run_id"])] and said.code == 0


def test_the_first_size_is_the_main_one_and_the_others_go_to_the_curve(localized):
    run = Store(localized[0]).open(localized[1].json["run_id"])
    found = run.record.size, run.region().size, set(run.curve()["size"]), run.spec.sizes
    assert found == (444, 444, {444, 222, 600}, ("10%", "5%", "600"))


@pytest.mark.parametrize(
    "words",
    ["pre-trained", "grafted", "fine-tuned", "complement", "accuracy, %", "ECE, %", "95% intervals", "test, n ="],
)
def test_the_table_speaks_of_every_state(localized, words):
    said = localized[1]
    assert words in said.out and "self-check failed" not in (said.out + said.err).lower()


def test_it_prints_what_the_graft_brings_back_at_every_size(localized):
    runs, said = localized
    after = said.out.partition("graft by region size, test (95% intervals)")[2]
    heading, _, *rows = [line for line in after.splitlines() if line.strip()]
    assert "accuracy, %" in heading and "gain recovered, %" in heading
    curve = Store(runs).open(said.json["run_id"]).curve()
    recovered = curve[(curve["split"] == "test") & (curve["metric"] == "recovered")].set_index("size")["value"]
    for size, row in zip((222, 444, 600), rows[:3], strict=True):
        assert f" {size} " in row and f" {100 * recovered[size]:.1f} (".replace("-", "−") in row


def test_where_the_run_lies_is_said_before_what_it_found(members, user_runs):
    lines = (
        done("localize", *members, "--size", "9", "--method", "movement", "--device", "cpu").out.strip().splitlines()
    )
    (place,) = [number for number, line in enumerate(lines) if str(user_runs) in line]
    assert lines[place + 1].startswith("Test set, ")


def test_options_of_a_localizer_are_read(members, user_runs):
    words = ("localize", *members, "--method", "first-order", "--size", "9", "--option")
    assert Store(user_runs).open(done(*words, "examples=7", *QUICK, "--json").json["run_id"]).spec.options == {
        "examples": 7
    }
    refused(call(*words, "exampels=7"), "exampels", "examples")


def test_other_tasks_are_scored_or_refused(members, user_runs, tmp_path):
    words = ("localize", *members, "--method", "movement", "--size", "9", "--also")
    near = str(other_task(tmp_path / "near", "near"))
    run = Store(user_runs).open(done(*words, near, *QUICK, "--json").json["run_id"])
    assert (run.spec.others, [note.name for note in run.record.transfers]) == ((near,), ["near"])
    refused(
        call(*words, other_task(tmp_path / "strange", "strange", labels=["good", "bad"])),
        "only tasks with the same labels",
    )


def said_with_interval(value: float | None, low: float | None, high: float | None, metric: str) -> str:
    return estimate_text(Estimate(value=value, low=low, high=high), metric_row(metric))


test_options_are_read_and_numbers_written = equal({
    "options are numbers and words": (
        lambda: read_options(["base-share=1e-4", "base=empty"]), {"base_share": 1e-4, "base": "empty"},
    ),
    "a share in percent": (lambda: said_with_interval(0.864, 0.848, 0.879, "accuracy"), "86.4 (84.8–87.9)"),
    "a loss": (lambda: said_with_interval(0.4321, 0.4, 0.5, "nll"), "0.432 (0.400–0.500)"),
    "nothing": (lambda: said_with_interval(None, None, None, "f1"), "n/a"),
    "no nan in JSON": (
        lambda: plain({"a": (math.nan, 1.0), 2: {"b": math.inf}}), {"a": [None, 1.0], "2": {"b": None}},
    ),
})  # fmt: skip


def test_an_option_without_a_value_is_refused():
    refuses(BadInput, "NAME=VALUE", read_options, ["base"])


def expression(members: Members, *more: object) -> Said:
    return call("localize", *members, "--device", "cpu", "--method", "expression", *more)


@pytest.mark.nightly
def test_the_command_and_the_python_line_make_the_run_again(members, user_runs):
    recipe = {"difference": [{"layers": [0, 1], "kinds": ["value"]}, {"rows": [[0, 3]], "biases": False}]}
    said = expression(members, "--option", f"expression={json.dumps(recipe)}", "--json")
    assert said.code == 0 and set(STATES) <= set(said.json["metrics"]), said.err
    store = Store(user_runs)
    run = store.open(said.json["run_id"])
    sizes = run.record.size, run.region().size, run.layers()["selected"].sum(), said.json["size"]
    assert sizes == (2 * (16 * 16 + 16 - 4 * 16),) * 4 and [c for c in run.record.checks if not c.passed] == []
    done(*shlex.split(run.spec.command())[3:], "--json")
    exec(run.spec.python(), {})  # the text that the dashboard shows
    assert len(store.list()) == 3
    for other in store.list():
        assert (other.region(), other.spec.options) == (run.region(), run.spec.options)
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
def test_what_cannot_be_made_is_one_sentence_and_leaves_no_run(members, user_runs, option, kind, words):
    other = fake_run(Store(user_runs), layers=1, width=8, sizes=("5%",), steps=2, n={"validation": 9, "test": 9})
    said = expression(members, *(word.replace("OTHER", other.id[:-2]) for word in option))
    sentence(said, words)
    assert said.err.startswith(f"{kind}: ")
    assert [path.name for path in user_runs.iterdir() if not path.name.startswith(".")] == [other.id]


def commands_of(name: str, tuned: Path) -> list[list[str]]:
    """Return the page's commands for a task, as words, with the model in this folder."""
    page = (DOCS / "add-a-task.md").read_text(encoding="utf-8")
    return [
        shlex.split(line.replace(f"models/{name}", str(tuned)))
        for line in re.findall(rf"^python -m skillviz (.*{name}\.yaml.*)$", page, re.MULTILINE)
    ]


def test_their_data_are_what_the_program_writes(tmp_path: Path) -> None:
    script("docs/option_tasks.py").write(tmp_path)
    made, stored = (
        {path.name: path.read_bytes() for path in folder.glob("*.jsonl")} for folder in (tmp_path, EXAMPLES)
    )
    assert made == stored and len(made) == 6 == len(list(tmp_path.iterdir()))


@pytest.mark.parametrize(("name", "counts"), [("choose-domain", {4}), ("find-place", {3, 4, 5})])
def test_the_right_option_is_the_one_of_the_source(name: str, counts: set[int]) -> None:
    test = load(task(EXAMPLES / f"{name}.yaml")).test
    assert set(test["options"].map(len)) == counts
    if name == "find-place":
        rights = [f" {options[label]}." for options, label in zip(test["options"], test["label"], strict=True)]
        assert [scene[-len(right) :] for scene, right in zip(test["text_a"], rights, strict=True)] == rights


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
    finetune, localize = commands_of("tell-place", tmp_path / "tuned")
    runs, report, graft = ("--runs-dir", tmp_path / "runs"), tmp_path / "report.html", tmp_path / "graft.safetensors"
    done(*finetune)
    done(*localize, "--max-test", "60", "--max-validation", "20", *runs)
    (run,) = Store(tmp_path / "runs").list()
    record, rows = run.record, run.predictions()
    assert record.generates and record.temperature is None and [c for c in record.checks if not c.passed] == []
    assert 0.9 < gained_nats(record) < 1.1
    texts = example_texts(run, "test").set_index("example_id")["reference"]
    tuned = rows[(rows["state"] == "finetuned") & (rows["split"] == "test")].set_index("example_id")
    assert tuned["exact_match"].tolist() == (tuned["generated"] == texts.loc[tuned.index]).tolist()
    done("report", run.id, *runs, "-o", report)
    assert no_confidence(record) in (html := report.read_text(encoding="utf-8")) and no_classes(record) in html
    for words in (
        ("slices", run.id),
        ("parts", run.id, "--sample", "8", "--draws", "1"),
        ("export", run.id, "-o", graft),
    ):
        assert "ECE" not in done(*words, *runs).out
    done("apply", "--base", record.spec.base, "--graft", graft, "--out", tmp_path / "applied")
    worker, region = Worker(tmp_path / "runs"), {"pair": {"run": run.id}, "region": {"run": run.id}}
    built = grafted_of(answer(worker, "evaluate_region", {**region, "sample": 20}), rows, "test", record.task).scores  # type: ignore[arg-type]
    grafted, known = (built[name] for name in ("grafted", "this run's region"))  # stored: the run's own region
    assert (grafted["exact_match"], grafted["perplexity"].value) == (
        known["exact_match"],
        pytest.approx(known["perplexity"].value, rel=1e-5),
    )  # the micro-batches differ
    point = answer(worker, "wise", {**region, "path": "wise-graft", "alpha": 1.0})["metrics"]
    stored = record.metrics["test"].states["grafted"]
    assert {name: point[name]["value"] for name in stored} == {name: one.value for name, one in stored.items()}
    typed = {"pair": {"run": run.id}, "texts": ["a scene"], "states": ["finetuned"]}
    refuses(BadInput, "a typed text has no reference to be scored by", answer, worker, "score_text", typed)
    refused(call(*localize, "--method", "linearized", *runs), "a text that is generated has one reference")


@pytest.mark.nightly
def test_references_are_scored_from_preflight_to_an_applied_graft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like on the page, with fewer examples: perplexity is the metric of every step, and lower is better in each."""
    monkeypatch.chdir(PROJECT)
    runs, few = ("--runs-dir", tmp_path / "runs"), ("--max-test", "30")
    report, graft, applied = tmp_path / "report.html", tmp_path / "graft.safetensors", tmp_path / "applied"
    finetune, words = commands_of("score-place", tmp_path / "tuned")
    done(*finetune)
    card = (tmp_path / "tuned" / "README.md").read_text(encoding="utf-8")
    assert "best validation perplexity" in card and "| split | examples | perplexity |" in card
    assert "The pair fits" in done("preflight", *words[1 : words.index("--size")]).out
    said = done(*words, *(*few, "--max-validation", "20", "--nulls", "none", "--interpolation", "--steps", "8", *runs))
    assert "agree" not in said.out and "exact match" not in said.out
    (run,) = Store(tmp_path / "runs").list()
    record, curve = run.record, run.curve()
    assert record.has_reference and not record.generates and [c for c in record.checks if not c.passed] == []
    assert record.metrics["test"].recovered.value == pytest.approx(gained_nats(record))  # type: ignore[union-attr]
    of_test = curve[(curve["split"] == "test") & (curve["metric"] == "recovered")].sort_values("size")["value"]
    assert of_test.idxmin() == of_test.index[0] and of_test.between(0.9, 1.1).tolist() == [True] * 3
    assert set(run.interpolation()["metric"]) == {"perplexity", "perplexity_difference"}
    done("report", run.id, *runs, "-o", report)
    assert no_confidence(record) in (html := report.read_text(encoding="utf-8")) and "(McNemar" not in html
    sliced = call("slices", run.id, *runs)
    assert "perplexity" in sliced.out and "points" not in sliced.out and "not measured" in sliced.out, sliced.err
    told = in_one_line(call("parts", run.id, "--sample", "8", "--draws", "1", *runs).out)
    assert "Alone, layer" in told and "cells; worse: 0." in told
    done("export", run.id, "-o", graft, *runs)
    done("apply", "--base", record.spec.base, "--graft", graft, "--out", applied)
    again = call("evaluate", *members_of(record.spec.base, applied, EXAMPLES / "score-place.yaml"), *few, "--json")
    assert again.json["metrics"]["finetuned"] == {
        "perplexity": pytest.approx(record.metrics["test"].states["grafted"]["perplexity"].value, rel=1e-6)
    }
    refused(call(*words, "--method", "linearized", *runs), "has one reference")


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["choose-domain", "find-place"])
def test_their_commands_lead_to_a_report(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands, runs = commands_of(name, tmp_path / "tuned"), ("--runs-dir", tmp_path / "runs")
    assert [words[0] for words in commands] == ["finetune", "localize"]
    monkeypatch.chdir(PROJECT)
    for words, more in zip(commands, (("--k-shot", "20"), runs), strict=True):
        words[words.index("--steps") + 1] = "2"
        done(*words, *SMALL, *more)
    card = (tmp_path / "tuned" / "README.md").read_text(encoding="utf-8")
    assert "20 in all, drawn with seed 0" in card and '"multiple-choice"' in card
    (run,) = Store(tmp_path / "runs").list()
    record, report = run.record, tmp_path / "report.html"
    assert record.task is not None and (record.readout, record.task.kind) == ("causal", "choice")
    assert [check for check in record.checks if not check.passed] == []
    texts = example_texts(run, "test").set_index("example_id")["options"].map(len)
    assert record.task.guessing("test") == pytest.approx(float(np.mean(1 / texts)))
    ids, _, logits = run.logits("grafted")
    assert (logits > NO_OPTION).sum(axis=1).tolist() == texts.loc[list(ids)].tolist()
    done("report", run.id, *runs, "-o", report)
    assert no_classes(record) in report.read_text(encoding="utf-8")
    refused(call("slices", run.id, "--by", "class", *runs), no_classes(record))
    done("slices", run.id, *runs)
    exported = done("export", run.id, *runs, "-o", tmp_path / "graft.safetensors")
    assert "does not hold its prompt" not in exported.err + exported.out
    refused(
        call(*commands[1], *SMALL, "--also", "examples/tasks/mr.yaml"),
        "has options of its own for each example and no classes",
    )

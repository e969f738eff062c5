"""Tests of `localize`: sizes as typed, the JSON contract, the table, and the options of a localizer."""

from __future__ import annotations

import math

import pytest

from skillviz.commands.localize import read_options, spread
from skillviz.commands.output import estimate_text, plain
from skillviz.core.metrics import metric_row
from skillviz.errors import BadInput
from skillviz.runs.record import Estimate
from skillviz.runs.store import Store
from tests.cli.calls import call
from tests.cli.conftest import QUICK
from tests.runs.test_scoring import other_task

STATES = ("pretrained", "finetuned", "grafted", "complement")


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

"""Tests of `localize --method expression`: a hand-made region is an ordinary run that its command makes again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pandas as pd
import pytest

from skillviz.runs.store import Store
from tests.cli.calls import Said, call
from tests.fake_run import fake_run

RECIPE = {"difference": [{"layers": [0, 1], "kinds": ["value"]}, {"rows": [[0, 3]], "biases": False}]}


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

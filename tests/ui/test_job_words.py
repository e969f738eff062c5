"""Tests of the words on jobs, of the form filled from a spec, of the end of the form (seeds, trial sizes, the plan, the
paper's settings), of steps (once each, thinned, all switches kept), and of the surgery form and its expression."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz import errors
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.parameters import KINDS
from skillviz.core.region_expression import canonical, region_of
from skillviz.jobs import words as job_progress
from skillviz.jobs.job import Job, JobProgress
from skillviz.jobs.kinds import RunJob
from skillviz.plots.overview import search_history
from skillviz.runs.process import PHASES
from skillviz.runs.record import RunRecord
from skillviz.runs.spec import RunSpec
from skillviz.studies.paper.setting import READOUT, SEARCH, SIZES
from skillviz.ui import job_words as words
from skillviz.ui.jobs_view import title
from skillviz.ui.pages.launch import launch_page
from skillviz.ui.pages.launch.search import read_seeds
from skillviz.ui.pages.region.region_page import names_beside
from skillviz.ui.pages.surgery.region_form import (
    BIASES,
    HOW,
    JOINS,
    RegionChoices,
    choices_of,
    expression_of,
    meaning,
    rows_of,
    rows_text,
    sentence,
    sizes_offered,
)
from tests.core.test_region_expression import TABLES, expressions, stored_in
from tests.refused import refused
from tests.show.test_briefs import brief
from tests.tables import equal, plain, says


def job(position: int | None = None, **changes: object) -> Job:
    spec = RunSpec(**{"base": "models/minilm", "finetuned": "org/tuned", "task": "my/reviews.yaml", **changes})
    record = RunRecord(run_id="x-1", spec=spec, key="k", status="queued", created="")
    return RunJob("x-1", Path("x-1"), "queued", record, slot="cpu", position=position)


def event(step: int, search: int = 1, **changes: object) -> dict[str, object]:
    fields = {"loss": 1 / step, "size": 9, "added": 2, "removed": 1, "total": 10, "searches": 2, "target": 9 * search}
    return {"phase": "search", "step": step, "search": search, **fields, **changes}


test_jobs_progress_and_failures_are_told = says({
    # A job is named as the run bar names its run.
    "a job": (
        lambda: title(job(sizes=("0.1%", "1%"), seed=3, steps=40, task="sst2"), {}),
        ("^SST-2 · minilm · stagewise · 0.1%, 1% · seed 3 · steps 40$",),
    ),
    "a job on a task of the user's": (lambda: title(job(), {}), ("^reviews · minilm · ",)),
    "models": (lambda: words.models(job()), ("^minilm → tuned · cpu$",)),
    **{f"the task {task}": (lambda task=task: words.task_word(task), (f"^{word}$",)) for task, word in (
        ("sst2", "sst2"), ("/a/mine/task.yaml", "mine"), ("task.yaml", "task"))},
    # Progress has step, loss, place and the time left.
    "running": (
        lambda: job_progress.run_progress(JobProgress("search", 1031, 2000, 0.4123, 5, 1, 1, 75.2)),
        ("1,031 of 2,000", "0.412", "75 s"),
    ),
    "not measured": (
        lambda: job_progress.run_progress(JobProgress("search", 3)), ("step 3, time left: not measured yet$",),
    ),
    "longer": (lambda: job_progress.run_progress(JobProgress("evaluate", seconds_left=0.0)), ("longer than",)),
    "a study": (
        lambda: job_progress.study_progress(JobProgress("steps", 3, 31, title="localize sst2")),
        ("^step 4 of 31: localize sst2, time left: not measured yet$",),
    ),
    "waiting": (lambda: words.waits(job(3)), ("3 jobs",)),
    "next": (lambda: words.waits(job(0)), (f"^{plain(words.waits(job()))}$",)),
    # Every failure has a class and something to do.
    **{
        kind: (lambda kind=kind: ": ".join(words.failure(kind)), (f"^{title}", ".$"))
        for kind, title in (
            (errors.OUT_OF_MEMORY, "Out of memory"), (errors.BUG, "A bug in skillviz"), ("killed", "Killed"),
            ("BadData", "Bad data"), ("BadLabelWord", "Invalid value"), ("RandomHead", "This model cannot"),
            ("NoDevice", "No such device"), ("DiskFull", "The disk is full"), ("nothing known", "Failed"),
        )
    },
})  # fmt: skip


def test_the_bar_only_grows() -> None:
    assert list(job_progress.PHASES) == list(PHASES)
    shares = [words.share(JobProgress(phase, 10, 10) if phase == "search" else JobProgress(phase)) for phase in PHASES]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] < 1
    inside = [
        JobProgress("search", 0, 10), JobProgress("search", 5, 10), JobProgress("predict"), JobProgress("evaluate"),
        JobProgress("evaluate", scored=0.5), JobProgress("evaluate", scored=1.0), JobProgress("store"),
    ]  # fmt: skip
    begun, half, predict, evaluate, scored, last, store = map(words.share, inside)
    assert begun < half < predict < evaluate < scored <= last <= store


@pytest.mark.parametrize(
    ("fields", "query"),
    [
        ({"localizer": "learned", "options": {"lr": 5.0}, "steps": 7, "sizes": ("1%", "9"), "max_test": 3},
         {"source": "file", "file": "my/reviews.yaml", "size": "1%,9", "learned.lr": "5.0", "learned.steps": "7",
          "max-test": "3", "max-train": "none", "also": "none", "readout": "auto"}),
        ({"task": "sst2"}, {"known": "sst2"}),
        ({"localizer": "expression", "options": {"expression": {"layers": [0]}}},
         {"expression.expression": '{"layers": [0]}'}),
        ({"localizer": "layers", "options": {"layers": [0, 1]}}, {"layers.layers": "0,1"}),
        ({"cuda_graphs": True}, {"cuda-graphs": "yes"}),
    ],
)  # fmt: skip
def test_the_form_is_filled_from_a_spec(fields: dict[str, object], query: dict[str, str]) -> None:
    assert words.form_of(job(**fields).spec).items() >= {f"new.{name}": value for name, value in query.items()}.items()


def test_steps_are_heard_piece_by_piece_and_the_last_telling_counts() -> None:
    steps = words.Steps()
    assert steps.frame("stagewise")[0].empty
    steps.add([{"phase": "load"}, event(1), event(2), {"phase": "search"}], 100)
    steps.add([event(2, loss=0.25, added=7), event(3, loss=None)], 200)
    frame, title = steps.frame("stagewise")
    assert (steps.place, title) == (200, "The search for 9 entries (1 of 2 searches)") and np.isnan(frame["loss"][2])
    assert frame[["step", "added"]].to_numpy().tolist() == [[1, 2], [2, 7], [3, 2]]
    search_history(frame)
    steps.add([event(1, search=2, searches=2)], 300)
    frame, title = steps.frame("stagewise")
    assert len(frame) == 1 and title == "The search for 18 entries (2 of 2 searches)"


def test_a_long_search_takes_little_memory_and_loses_no_switch() -> None:
    steps = words.Steps()
    for place, first in enumerate(range(1, 30_001, 500)):
        steps.add([event(n, size=n, loss=None if n % 3 else 0.3) for n in range(first, first + 500)], place)
        assert sum(len(spans.rows) for spans in steps.searches.values()) <= 2 * words.MOST_POINTS
    frame, _ = steps.frame("stagewise")
    assert len(frame) <= words.MOST_POINTS and frame["size"].iloc[-1] == frame["step"].iloc[-1] == 30_000
    assert (frame["added"].sum(), frame["removed"].sum()) == (60_000, 30_000)
    assert np.allclose(frame["loss"], 0.3) and frame["step"].is_monotonic_increasing
    steps.add([event(n, added=0) for n in range(20_001, 20_011)], 99)
    frame, _ = steps.frame("stagewise")
    assert frame["step"].iloc[-1] == 20_010 and 2 * 19_000 < frame["added"].sum() <= 40_000, "told again"


def test_a_growing_chart_is_drawn_anew_after_some_seconds_only() -> None:
    steps = words.Steps()
    steps.add([event(1)], 1)
    first, _ = steps.drawing("stagewise", 10.0)
    steps.add([event(2)], 2)
    again, anew = (steps.drawing("stagewise", 10.0 + words.REDRAWN - less)[0] for less in (0.1, 0))
    assert again is first and (len(first), len(anew)) == (1, 2)


@pytest.mark.parametrize("n", [1, 2, 59, 60, 61, 600, 1234])
def test_thinning_keeps_ends_and_sums(n: int) -> None:
    steps = np.arange(1, n + 1)
    frame = pd.DataFrame(
        {"localizer": "random", "step": steps, "loss": 1.0 / steps, "size": steps, "added": 2, "removed": steps % 2}
    )
    before = frame.copy()
    thin = words.thinned(frame)
    assert len(thin) <= words.MOST_POINTS and thin["step"].iloc[-1] == n == thin["size"].iloc[-1]
    assert (thin["added"].sum(), thin["removed"].sum()) == (2 * n, frame["removed"].sum())
    assert thin["step"].is_monotonic_increasing and thin["loss"].between(1 / n, 1).all()
    pd.testing.assert_frame_equal(frame, before)


def spec(**changes: object) -> RunSpec:
    return RunSpec(**{"base": "models/minilm", "finetuned": "org/tuned", "task": "sst2", **changes})  # type: ignore[arg-type]


COUNTS = {"train": 50_000, "validation": 872, "test": 40}
test_the_plan_and_the_work_of_each_job_are_told = says({
    "sizes in entries": (
        lambda: launch_page.summary(spec(sizes=("0.1%", "1%")), "sst2", (1000, 10_000), 1_000_000, 1),
        ("1,000 (0.1%) and 10,000", "1,000,000"), ("](",),
    ),
    "a size of an address is text": (
        lambda: launch_page.summary(
            spec(sizes=("![](http://elsewhere.example/x.png)",)), "sst2", (), 1_000_000, 1
        ),
        (r"\!\[\]\(",), ("](",),
    ),
    "one job": (
        lambda: launch_page.needs("1 search", 2 * 2**30, 1, 3 * 2**30, 0),
        ("**1 search**;", "2.0 GiB", "3.0 GiB"), ("](",),
    ),
    "several jobs": (
        lambda: launch_page.needs("1 search", 2 * 2**30, 3, 2**20, 1),
        ("**1 search** in each job;", "1 job ahead in the queue"), ("](",),
    ),
    "a trial": (
        lambda: launch_page.trial_words(COUNTS, launch_page.trial_caps(COUNTS)),
        ("500 of 50,000 train, 100 of 872 validation and 40 of 40 test",),
    ),
})  # fmt: skip


def here(*arguments: Any, **more: Any) -> dict[str, str]:
    """Return our setting of each aspect that differs from the paper's."""
    return {row.aspect: row.here for row in launch_page.paper_differences(*arguments, **more)}


def test_of_the_learned_mask_each_option_that_differs_is_a_row() -> None:
    ours = launch_page.paper_differences(spec(localizer="learned", steps=7, k_shot=64), (), "prompt", {})
    assert ("Steps", "100", "7") in ours and len(ours) == 3


@pytest.mark.parametrize("name", [n for n in LOCALIZERS if n != "learned"])
def test_of_other_localizers_localizer_examples_readout_and_size_are_rows(name: str) -> None:
    rows = {
        row.aspect: row for row in launch_page.paper_differences(spec(localizer=name), (0.001,), "head", {"train": 640})
    }
    assert {SEARCH, READOUT, SIZES, "Training examples"} <= set(rows) and "640" in rows["Training examples"].here
    assert "0.01" in rows[SIZES].paper and rows[SIZES].here == "0.1%"


TABLE = TABLES["bert"]
NAMES = {"one": "stagewise, 0.1%, seed 0", "two": "random, 1%, seed 0"}


def all_choices() -> st.SearchStrategy[RegionChoices]:
    return st.builds(
        RegionChoices,
        how=st.sampled_from([how for how in HOW if how != "typed"]),
        runs=st.sampled_from([("one",), ("two",), ("one", "two")]),
        join=st.sampled_from(list(JOINS)),
        size=st.one_of(st.none(), st.integers(1, 40)),
        layers=st.lists(st.integers(0, 2), unique=True, max_size=2).map(lambda v: tuple(sorted(v))),
        kinds=st.lists(st.sampled_from(KINDS), unique=True, max_size=2).map(
            lambda v: tuple(sorted(v, key=KINDS.index))
        ),
        tensors=st.sampled_from([(), TABLE.names[:1], TABLE.names[1:3]]),
        rows=st.sampled_from(["", "0", "0-2", "0-1, 4"]),
        biases=st.sampled_from(list(BIASES)),
    )


@settings(max_examples=150, deadline=None)
@given(all_choices())
def test_every_form_comes_back_as_the_same_expression(choices: RegionChoices) -> None:
    expression = expression_of(choices)
    again = choices_of(expression)
    assert canonical(expression_of(again)) == canonical(expression) and again.how != "typed"
    assert expression_of(choices_of(expression_of(again))) == expression


@pytest.mark.nightly
@settings(max_examples=150, deadline=None)
@given(expressions(TABLE))
def test_every_expression_has_a_form_of_the_same_region(expression: dict[str, Any]) -> None:
    """Expressions without fields in the form are shown as JSON."""
    stored, again = stored_in(TABLE), expression_of(choices_of(expression))
    assert region_of(again, TABLE, stored) == region_of(expression, TABLE, stored)


LIKE_THE_PAPER = {"localizer": "learned", "options": {"selection": "train+validation", "score_every": 1}}
test_what_is_typed_is_read_and_what_is_offered_is_round = equal({
    **{f"the seeds {typed}": (lambda typed=typed: read_seeds(typed), seeds) for typed, seeds in (
        ("0", (0,)), (" 3, 1;2 1", (3, 1, 2)), ("0-4", (0, 1, 2, 3, 4)), ("7 9-10", (7, 9, 10)))},
    "a trial is a hundredth but not too little": (
        lambda: launch_page.trial_caps(COUNTS), {"max_train": 500, "max_validation": 100, "max_test": 100},
    ),
    "settings as the paper's are no rows": (
        lambda: here(spec(**LIKE_THE_PAPER, k_shot=4096), (), "prompt", {}), {},
    ),
    "a small sample of a task with options is counted in all": (
        lambda: here(spec(k_shot=64), (), "causal", {}, has_classes=False)["Training examples"], "64 in all",
    ),
    "a size as the paper's is no row": (lambda: SIZES in here(spec(), (0.0001,), "prompt", {}), False),
    **{f"{expression} is shown as {how}": (lambda expression=expression: choices_of(expression).how, how)
       for expression, how in (
        ({"run": "one"}, "stored"),
        ({"run": "one", "size": 3}, "stored"),
        ({"union": [{"run": "one"}, {"run": "two"}]}, "stored"),
        ({}, "parts"),
        ({"layers": [0]}, "parts"),
        ({"layers": []}, "typed"),
        ({"union": [{"layers": [0]}, {"run": "one"}]}, "union"),
        ({"intersection": [{"run": "one"}, {"biases": True}]}, "intersection"),
        ({"difference": [{"run": "one"}, {"layers": [0]}]}, "without"),
        ({"difference": [{"layers": [0]}, {"run": "one"}]}, "rest"),
        ({"difference": [{"layers": [0]}, {"union": [{"run": "one"}, {"run": "two"}]}]}, "rest"),
        ({"union": [{"layers": [0]}, {"layers": [1]}]}, "typed"),
        ({"union": [{"run": "one"}, {"run": "one"}]}, "typed"),
        ({"difference": [{"run": "two"}, {"run": "one"}]}, "stored"),
        ({"difference": [{"union": [{"run": "one"}, {"run": "two"}]}, {"run": "one"}]}, "typed"),
    )},
    "rows": (lambda: rows_of("0-7, 12"), [[0, 7], [12, 12]]),
    "rows with other signs": (lambda: rows_of(" 0 \N{EN DASH} 7 ;12,"), [[0, 7], [12, 12]]),
    "no row": (lambda: rows_of(""), []),
    "rows as they are written": (lambda: rows_text(rows_of("3-3, 5-9")), "3, 5-9"),
    "sizes beside the run's own": (
        lambda: sizes_offered((222, 44, 889)), [1, 2, 5, 10, 20, 44, 50, 100, 200, 222, 500, 889],
    ),
    "no size": (lambda: sizes_offered(()), []),
    "the smallest size": (lambda: sizes_offered((1,)), [1]),
})  # fmt: skip
test_what_is_no_seed_and_no_region_is_refused = refused(
    errors.BadInput,
    *((None, read_seeds, typed) for typed in ("", "-1", "a", "1.5", "4-2", "0-99", "0-19 50", "1--2")),
    *(("write numbers and ranges", rows_of, text)
      for text in ("x", "7-0", "1-2-3", "-4", "1.5", "0-x", "٣", "99999999999")),
    ("choose a stored region", expression_of, RegionChoices()),
)  # fmt: skip


def test_places_on_a_ranking_are_near_each_other() -> None:
    steps = sizes_offered((10_000_000,))
    assert len(steps) == 22 and max(b / a for a, b in zip(steps, steps[1:], strict=False)) <= 2.5


test_an_expression_in_words_names_all_its_parts_and_its_size = says({
    "the sentence": (
        lambda: sentence({"layers": [2]}, NAMES, 73_728, 10_646_784), ("**73,728 entries**", "**0.69%**"),
    ),
    **{str(expression): (lambda expression=expression: meaning(expression, NAMES), named) for expression, *named in (
        ({"layers": [2, 3, 4], "kinds": ["value"], "biases": False}, "value", "layers 2 to 4"),
        ({"layers": [0, 2, 3]}, "layers 0 and 2 to 3"),
        ({"kinds": ["query", "LayerNorm"], "biases": True}, "query", "LayerNorm", "biases"),
        ({"rows": [[0, 7], [12, 12]], "kinds": ["key"]}, "rows 0 to 7 and 12", "key"),
        ({"rows": [[3, 3]]}, "row 3 of"),
        ({"parameters": ["a.b"], "layers": [1]}, "layer 1 in", "`a.b`"),
        ({"parameters": ["a.b", "a.c"]}, "2 tensors"),
        ({"run": "one"}, NAMES["one"]),
        ({"run": "gone"}, "`gone`"),
        ({"run": "two", "size": 1064}, "1,064", NAMES["two"]),
        ({"difference": [{"layers": [1]}, {"union": [{"kinds": ["key"]}, {"biases": True}]}]}, "layer 1", "(", "key"),
    )},
})  # fmt: skip


def test_runs_of_the_same_models_are_named_by_what_differs() -> None:
    this, same, other = brief(id="a"), brief(id="b", seed=1), brief(id="c", pair=("x",), task="mrpc")
    names = names_beside([this, same, other], this)
    assert plain(names["b"]) == "stagewise · 0.1% · seed 1" and names["c"].startswith("MRPC · ")

"""Tests of the end of the form: parsed seeds, trial sizes, the summary of the choices, and the paper's settings."""

from __future__ import annotations

import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.errors import BadInput
from skillviz.runs.spec import RunSpec
from skillviz.studies.paper.setting import READOUT, SEARCH, SIZES
from skillviz.ui.pages.launch import launch_page
from skillviz.ui.pages.launch.search import read_seeds


def spec(**changes: object) -> RunSpec:
    return RunSpec(**{"base": "models/minilm", "finetuned": "org/tuned", "task": "sst2", **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("typed", "seeds"),
    [("0", (0,)), (" 3, 1;2 1", (3, 1, 2)), ("0-4", (0, 1, 2, 3, 4)), ("7 9-10", (7, 9, 10))],
)
def test_seeds_are_read_as_people_write_them(typed: str, seeds: tuple[int, ...]) -> None:
    assert read_seeds(typed) == seeds


@pytest.mark.parametrize("typed", ["", "-1", "a", "1.5", "4-2", "0-99", "0-19 50", "1--2"])
def test_what_is_no_seed_is_refused(typed: str) -> None:
    with pytest.raises(BadInput):
        read_seeds(typed)


def test_a_trial_is_a_hundredth_but_not_too_little() -> None:
    counts = {"train": 50_000, "validation": 872, "test": 40}
    caps = launch_page.trial_caps(counts)
    assert caps == {"max_train": 500, "max_validation": 100, "max_test": 100}
    assert "500 of 50,000 train, 100 of 872 validation and 40 of 40 test" in launch_page.trial_words(counts, caps)


def test_the_plan_has_the_sizes_in_entries() -> None:
    plan = launch_page.summary(spec(sizes=("0.1%", "1%")), "sst2", (1000, 10_000), 1_000_000, 1)
    assert "1,000 (0.1%) and 10,000" in plan and "1,000,000" in plan


def test_a_size_of_an_address_is_text() -> None:
    plan = launch_page.summary(spec(sizes=("![](http://elsewhere.example/x.png)",)), "sst2", (), 1_000_000, 1)
    assert r"\!\[\]\(" in plan and "](" not in plan


def test_the_work_is_that_of_each_job() -> None:
    one = launch_page.needs("1 search", 2 * 2**30, 1, 3 * 2**30, 0)
    assert "**1 search**;" in one and "2.0 GiB" in one and "3.0 GiB" in one
    several = launch_page.needs("1 search", 2 * 2**30, 3, 2**20, 1)
    assert "**1 search** in each job;" in several and "1 job ahead in the queue" in several


def test_the_papers_own_settings_differ_in_nothing() -> None:
    options = {"selection": "train+validation", "score_every": 1}
    paper = spec(localizer="learned", options=options, k_shot=4096)
    assert launch_page.paper_differences(paper, (), "prompt", {}) == []


def test_of_the_learned_mask_each_option_that_differs_is_a_row() -> None:
    rows = launch_page.paper_differences(spec(localizer="learned", steps=7, k_shot=64), (), "prompt", {})
    assert ("Steps", "100", "7") in rows and len(rows) == 3


@pytest.mark.parametrize("name", [n for n in LOCALIZERS if n != "learned"])
def test_of_other_localizers_localizer_examples_readout_and_size_are_rows(name: str) -> None:
    rows = {
        row.aspect: row for row in launch_page.paper_differences(spec(localizer=name), (0.001,), "head", {"train": 640})
    }
    assert {SEARCH, READOUT, SIZES, "Training examples"} <= set(rows) and "640" in rows["Training examples"].here
    assert "0.01" in rows[SIZES].paper and rows[SIZES].here == "0.1%"


def test_a_size_as_the_papers_is_no_row() -> None:
    assert SIZES not in {row.aspect for row in launch_page.paper_differences(spec(), (0.0001,), "prompt", {})}

"""Tests that the shipped content opens: each study on its pages, and Compare on a run of each pair and localizer."""

from __future__ import annotations

import pytest

from skillviz.analysis.null_measures import MEASURES, SHARED_PROBABILITY
from skillviz.runs.store import Store, shipped_root
from skillviz.studies.store import list_studies
from skillviz.ui.page_table import PAGES
from tests.pages.test_pages import opened
from tests.small_world import opening_run


def opens(page: str, **query: str) -> None:
    """Open the page and check that it has a heading and no error."""
    test = opened(page, **query)
    assert not test.exception and not test.error, (page, query)
    assert PAGES[page].question in [title.value for title in test.title]


@pytest.mark.parametrize(
    "page",
    [*(pytest.param(page, marks=pytest.mark.slow) for page in ("methods", "tasks")),
     *(pytest.param(page, marks=pytest.mark.nightly) for page in ("continual", "studies"))],
)  # fmt: skip
def test_every_stored_study_opens_on_each_page_of_studies(page: str) -> None:
    studies = list_studies(Store(shipped_root()))
    assert len(studies) > 5
    for study in studies:
        opens(page, study=study.name, **({"view": "study"} if page == "studies" else {}))


@pytest.mark.nightly
def test_compare_opens_on_a_run_of_each_pair_and_localizer() -> None:
    specs = {run.id: run.record.spec for run in Store(shipped_root()).list()}
    runs = {(spec.base, spec.finetuned, spec.task, spec.localizer): name for name, spec in specs.items()}
    assert len(runs) > 50
    for name in runs.values():
        opens("compare", run=name)


@pytest.mark.slow
def test_methods_has_the_nulls_of_the_base_whose_studies_make_none() -> None:
    test = opened("methods", study="baselines-minilm")
    nulls = next(table.value for table in test.dataframe if "beyond, NLL" in table.value.columns)
    assert len(nulls) > 7 and {"stagewise", "top movement"} <= set(nulls["localizer"]) and not test.exception


def test_methods_has_the_board_of_hidden_skills() -> None:
    test = opened("methods", around="random 1×")
    board = next(table.value for table in test.dataframe if "kept out of the true region" in table.value.columns)
    assert {"stagewise", "top movement", "random"} <= set(board["localizer"]) and not test.exception
    assert any("finds most" in words.value for words in test.markdown)
    assert any("planted models keep 80% of the gain and count" in words.value for words in test.caption)


def test_overview_pools_the_margin_over_fine_tuned_models() -> None:
    test = opened("overview", run=opening_run().id)
    (words,) = [one.value for one in test.markdown if one.value.startswith("Over 3 fine-tuned models: +")]
    assert "points (95%" in words and "nats (95%" in words and not test.exception


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("page", [name for name, row in PAGES.items() if row.group == "This run"])
def test_a_run_in_a_study_s_file_opens_on_each_page_of_a_run(page: str) -> None:
    store = Store(shipped_root())
    packed = {path.parent: name for name, path in store.packed().items()}
    assert len(packed) > 5
    for name in packed.values():
        opens(page, run=name)


def test_overview_says_what_a_graft_and_its_nulls_share_with_the_fine_tuned_model() -> None:
    test = opened("overview", run=opening_run().id)
    measures = next(table.value for table in test.dataframe if "standard errors" in table.value.columns)
    assert len(measures) == len(MEASURES) and measures["measure"].iloc[0] == SHARED_PROBABILITY
    assert any(words.value.startswith("What the labels do not ask for: the graft shares") for words in test.markdown)


def test_a_run_with_a_gain_shows_it_beside_gain_1() -> None:
    run = next(run for run in Store(shipped_root()).list() if run.record.gains)
    test = opened("overview", run=run.id)
    table = next(table.value for table in test.dataframe if "accuracy at gain 1" in table.value.columns)
    assert len(table) == len(run.record.gains) and not test.exception
    assert any("The skill is **diluted**" in words.value for words in test.markdown)
    lines = opened("sparsity", run=run.id)
    assert not lines.exception

"""Tests that the shipped content opens: each study on its pages, and Compare on a run of each pair and localizer."""

from __future__ import annotations

import pytest

from skillviz.analysis.null_measures import MEASURES, SHARED_PROBABILITY
from skillviz.runs.store import Store, shipped_root
from skillviz.studies.store import list_studies
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.tour.tour_page import STEPS
from tests.scripts import script
from tests.small_world import opening_run
from tests.ui.driven import lacks, opened, said, table


def opens(page: str, **query: str) -> None:
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


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("page", [name for name, row in PAGES.items() if row.group == "This run"])
def test_a_run_in_a_study_s_file_opens_on_each_page_of_a_run(page: str) -> None:
    packed = {path.parent: name for name, path in Store(shipped_root()).packed().items()}
    assert len(packed) > 5
    for name in packed.values():
        opens(page, run=name)


@pytest.mark.parametrize(
    ("page", "query", "column", "names", "says"),
    [
        pytest.param("methods", {"study": "baselines-minilm"}, "beyond, NLL", {"stagewise", "top movement"}, [],
                     marks=pytest.mark.slow),
        ("methods", {"around": "random 1×"}, "kept out of the true region", {"stagewise", "top movement", "random"},
         ["finds most", "planted models keep 80% of the gain and count"]),
        ("overview", {}, "standard errors", {SHARED_PROBABILITY},
         ["\nOver 3 fine-tuned models: +", "points (95%", "nats (95%",
          "\nWhat the labels do not ask for: the graft shares"]),
    ],
    ids=["the nulls of a base whose studies make none", "the board of hidden skills", "what nulls share"],
)  # fmt: skip
def test_a_page_shows_what_is_measured_beyond_scores(
    page: str, query: dict[str, str], column: str, names: set[str], says: list[str]
) -> None:
    test = opened(page, **(query or {"run": opening_run().id}))
    rows = table(test, column)
    assert names <= {*rows.get("localizer", rows.get("measure"))} and not lacks(
        said(test, "markdown", "caption"), *says
    )
    assert page != "overview" or (len(rows), rows["measure"].iloc[0]) == (len(MEASURES), SHARED_PROBABILITY)
    assert "study" not in query or len(rows) > 7


def test_a_run_with_a_gain_shows_it_beside_gain_1() -> None:
    run = next(run for run in Store(shipped_root()).list() if run.record.gains)
    test = opened("overview", run=run.id)
    assert len(table(test, "accuracy at gain 1")) == len(run.record.gains) and "The skill is **diluted**" in said(test)
    assert said(opened("sparsity", run=run.id))


@pytest.mark.slow
def test_the_table_of_the_lesson_plan_is_what_the_tour_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/lesson-plan.md has the questions, answers and numbers of the tour on the shipped run."""
    monkeypatch.setenv("SKILLVIZ_RUNS", "restored after the test")
    plan = script("docs/lesson_plan.py")
    rows = plan.table()
    assert len(rows) == len(STEPS) + 2
    assert "\n".join(rows) in plan.PLAN.read_text(encoding="utf-8"), "python docs/lesson_plan.py"

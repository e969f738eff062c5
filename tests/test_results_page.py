"""Tests that docs/results.md equals its generator's output from the stored studies, without numbers typed by hand."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from skillviz.errors import BadInput
from skillviz.runs.store import Store, shipped_root
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.store import list_studies
from tests.scripts import script
from tests.studies.fake_study import fake_study
from tests.studies.fake_tables import OTHERS
from tests.tables import check

MACHINE = re.compile(r"(?<![\w.`{}])/(?:home|root|tmp|work|usr|mnt|data|Users)\b")


@pytest.fixture(scope="module")
def results() -> ModuleType:
    return script("docs/results.py")


@pytest.fixture(scope="module")
def made(results: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("studies")
    for name in ("table2", "figure8", "figure7"):
        fake_study(root, name)
    fake_study(root, "table3", seed=1, status="failed", tables=())
    return results.page(list_studies(Store(root)), results.read_words()).replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.slow
def test_the_page_is_what_the_generator_writes_from_the_stored_studies(results: ModuleType) -> None:
    stored = list_studies(Store(shipped_root()))
    assert results.PAGE.read_text(encoding="utf-8") == results.page(stored, results.read_words()), (
        "run `python docs/results.py`"
    )


@pytest.fixture(params=["invented", "stored"])
def any_page(request: pytest.FixtureRequest, made: str, results: ModuleType) -> str:
    return made if request.param == "invented" else results.PAGE.read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_result_or_the_command_that_measures_it(name: str, any_page: str) -> None:
    part, command = section(any_page, EXPERIMENTS[name].title), f"`python -m skillviz reproduce {name}"
    is_measured = "studies/" in part or f"{command} --scale small`: " in part
    assert is_measured or f"{command}` measures it, in about " in part


@pytest.mark.slow
def test_no_machine_is_named(any_page: str) -> None:
    assert not MACHINE.search(any_page)


@pytest.mark.slow
def test_the_three_claims_are_counted_from_the_tables(made: str) -> None:
    claims = made.partition("## Three claims")[2].partition("## All experiments")[0]
    check(claims, (
        "The search is better in 12 of 12 comparisons, top movement in 0; 0 show no clear difference. "
        "Of 12 comparisons, ",
        "4 of 4 grafts, one a task and search, reach it. "
        "ECE against the fine-tuned model, better on 4, worse on 0, no clear difference on 0;",
        "| figure8-small | overlap | related - unrelated | 15.0 (13.0–17.0) |",
    ), ("No result",))  # fmt: skip
    assert claims.count("chance alone would give about") == 2  # against movement, and calibration against two rivals


@pytest.mark.slow
def test_a_study_tells_its_command_time_table_verdicts_and_notes(made: str) -> None:
    part = made.partition("\n## Table 2")[2].partition("\n## ")[0]
    check(part, (
        "**MR.** `python -m skillviz study run cached_runs/studies/table2-small/study.yaml`: ", "; 5 min 0 s on cpu.",
        "pre-trained | fine-tuned | graft, ", "its complement | agreement", "size needed | gain there, %",
        "\n| sst2_sentences to cr | 600 | ",
        "- **confirmed**: The graft is better calibrated than the fine-tuned model. 4 of 4 comparisons support it: ",
        "- Three mask seeds, one data seed.",
    ), ("Likely reason",))  # fmt: skip
    assert part.count("\n| sst2_sentences | ") == 2
    assert "**Not measured.** `python -m skillviz reproduce table3` measures it" in made  # the failed study


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "has", "lacks"),
    [({}, "Likely reason for the contradiction: Other shifts.", "What it says."),
     ({"studies": {"figure7-small": "What it says."}}, "\nWhat it says.\n", "Other shifts.")],
    ids=["the experiment's", "its own"],
)  # fmt: skip
def test_a_study_has_its_own_words_or_else_its_experiments(
    own: dict, has: str, lacks: str, results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OTHERS, "mpqa", ("yelp",))  # a large shift, where the invented graft is worse
    fake_study(tmp_path, "figure7", tasks=("mpqa",))
    words = {"reasons": {"figure7": "Other shifts."}, **own}
    check(results.page(list_studies(Store(tmp_path)), words), (has,), (lacks,))


def test_a_measured_number_among_the_words_is_refused(results: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "words.yaml"
    path.write_text("reasons: {table1: 'The graft has 87.3% only.'}\n")
    with pytest.raises(BadInput, match="reasons.table1: .* holds a number"):
        results.read_words(path)


@pytest.mark.slow
def test_two_studies_of_one_experiment_are_both_told_and_their_common_runs_count_once(
    results: ModuleType, tmp_path: Path
) -> None:
    step = {"kind": "localize", "title": "x", "state": "finished"}
    fake_study(tmp_path, "table2", steps={"a": step})
    fake_study(
        tmp_path, "table2", name="table2-small-more", steps={"a": step, "b": step}, command="python -m skillviz x"
    )
    page = results.page(list_studies(Store(tmp_path)), results.read_words())
    part = page.partition("\n## Table 2")[2].partition("\n## ")[0]
    assert part.index("studies/table2-small-more/") < part.index("studies/table2-small/")
    assert "Of 12 comparisons" in page and "4 of 4 grafts, one a task and search, reach it" in page


@pytest.mark.nightly
def test_a_study_without_a_command_gets_its_experiments(results: ModuleType, tmp_path: Path) -> None:
    fake_study(tmp_path, "table2", command=None)
    page = results.page(list_studies(Store(tmp_path)), results.read_words())
    assert "studies/table2-small/study.yaml`" in page and "None" not in page

"""docs/results.md is what its generator writes from the stored studies; no number of it is typed."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from skillviz.errors import BadInput
from skillviz.runs.store import Store, shipped_root
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import STORED_SCALES
from skillviz.studies.store import list_studies
from tests.scripts import script
from tests.studies.fake_study import fake_study

MACHINE = re.compile(r"(?<![\w.`{}])/(?:home|root|tmp|work|usr|mnt|data|Users)\b")


@pytest.fixture(scope="module")
def results() -> ModuleType:
    return script("docs/results.py")


@pytest.fixture(scope="module")
def made(results: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of four made-up studies."""
    root = tmp_path_factory.mktemp("studies")
    for name in ("table2", "figure8", "figure7"):
        fake_study(root, name)
    fake_study(root, "table2", "small", seed=1, status="failed", tables=())
    return results.page(list_studies(Store(root)), results.read_words()).replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.slow
def test_the_page_is_what_the_generator_writes_from_the_stored_studies(results: ModuleType) -> None:
    stored = list_studies(Store(shipped_root()))
    assert results.PAGE.read_text(encoding="utf-8") == results.page(stored, results.read_words()), (
        "run `python docs/results.py`"
    )


@pytest.mark.slow
def test_every_experiment_at_every_scale_has_a_result_or_a_reason(made: str, results: ModuleType) -> None:
    for page in (made, results.PAGE.read_text(encoding="utf-8")):
        for name, row in ((name, row) for name, row in EXPERIMENTS.items() if row.ships):
            part = page.partition(f"\n## {row.title}\n")[2].partition("\n## ")[0]
            assert part, name
            for scale, its in STORED_SCALES.items():
                own = part.partition(f"\n**{its.title}.** ")[2].partition("\n")[0]
                command = f"`python -m skillviz reproduce {name} --scale {scale}"
                assert own.startswith("Not stored: ") or own.startswith(command), (name, scale)
                assert len(own) > len(command) + 20 and command in own, (name, scale)


@pytest.mark.slow
def test_no_machine_is_named(made: str, results: ModuleType) -> None:
    for page in (made, results.PAGE.read_text(encoding="utf-8")):
        assert not MACHINE.search(page)


@pytest.mark.slow
def test_the_three_claims_are_counted_from_the_tables(made: str) -> None:
    claims = made.partition("## Three claims")[2].partition("## All experiments")[0]
    assert (
        "The search is better in 12 of 12 comparisons, top movement in 0; 0 show no clear difference. "
        "Of 12 comparisons, " in claims
    )
    assert claims.count("chance alone would give about") == 2  # against movement, and calibration against two rivals
    assert (
        "4 of 4 grafts, one a task and search, reach it. "
        "ECE against the fine-tuned model, better on 4, worse on 0, no clear difference on 0;" in claims
    )
    assert "| figure8-demo | overlap | related - unrelated | 15.0 (13.0–17.0) |" in claims
    assert claims.count("No result: ") == len(STORED_SCALES) - 1 + 2  # real data have none here


def test_a_study_tells_its_command_time_table_verdicts_and_notes(made: str) -> None:
    part = made.partition("\n## Table 2")[2].partition("\n## ")[0]
    assert "**Demo world.** `python -m skillviz reproduce table2 --scale demo`: " in part
    assert "5 min 0 s (estimated 4 min 40 s) on cpu." in part
    for column in ("pre-trained | fine-tuned | graft, ", "its complement | agreement", "size needed | gain there, %"):
        assert column in part
    assert part.count("\n| film-sentiment | ") == 2 and "\n| film-sentiment to gadget-sentiment | 600 | " in part
    assert (
        "- **confirmed**: The graft is better calibrated than the fine-tuned model. 4 of 4 comparisons support it: "
        in part
    )
    assert "- Three mask seeds, one data seed." in part
    assert "Likely reason" not in part
    assert "Not stored: not made yet" in part  # the failed one on real data


@pytest.mark.slow
def test_a_study_has_its_own_words_or_else_its_experiments(results: ModuleType, tmp_path: Path) -> None:
    fake_study(tmp_path, "figure7")
    words = {"reasons": {"figure7": "Other shifts."}}
    said = "Likely reason for the contradiction: Other shifts."
    assert said in results.page(list_studies(Store(tmp_path)), words)
    page = results.page(list_studies(Store(tmp_path)), {**words, "studies": {"figure7-demo": "What it says."}})
    assert "\nWhat it says.\n" in page and said not in page


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
        tmp_path, "table2", name="table2-demo-more", steps={"a": step, "b": step}, command="python -m skillviz x"
    )
    page = results.page(list_studies(Store(tmp_path)), results.read_words())
    part = page.partition("\n## Table 2")[2].partition("\n## ")[0]
    assert part.index("`python -m skillviz x`") < part.index("`python -m skillviz reproduce table2")
    assert "Of 12 comparisons" in page and "4 of 4 grafts, one a task and search, reach it" in page


@pytest.mark.nightly
def test_a_study_without_a_command_gets_its_experiments(results: ModuleType, tmp_path: Path) -> None:
    fake_study(tmp_path, "table2", command=None)
    page = results.page(list_studies(Store(tmp_path)), results.read_words())
    assert "`python -m skillviz reproduce table2 --scale demo`" in page and "None" not in page

"""Tests of the scoreboard: one row per claim, counts above, and a click on a row opens its experiment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.tables import check
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED
from skillviz.studies.paper.claims import Comparison, Verdict
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.published_values import numbers
from skillviz.ui import paper_words as words
from skillviz.ui.pages import paper
from skillviz.ui.pages.paper import TASK_METRIC, Score, Selection
from tests.studies.fake_tables import BASE, FAKE_TABLES, TASKS
from tests.ui.driven import lacks, opened, said

SAYS = {CONFIRMED: True, CONTRADICTED: False, INCONCLUSIVE: None}


def score(outcome: str, name: str = "table2") -> Score:
    comparisons = () if outcome == NOT_MEASURED else (Comparison("cr", -0.021, -0.03, -0.012, SAYS[outcome]),)
    claim = EXPERIMENTS[name].claims[0]
    return Score(name, claim, EXPERIMENTS[name].in_paper()[0], Verdict(claim.text, comparisons), None)


def test_a_row_has_the_papers_number_ours_with_its_interval_and_the_verdict() -> None:
    table = paper.claims_table([score(CONFIRMED), score(NOT_MEASURED, "figure9")])
    shown = table.replace("\N{NO-BREAK SPACE}", " ", regex=True)[["where", "paper", "here", "verdict"]]
    assert shown.to_numpy().tolist() == [
        ["Table 2", "97.6%", "−2.1 points (−3.0 to −1.2)", [CONFIRMED]],
        ["Figure 9", "figure only", "", [NOT_MEASURED]],
    ]  # fmt: skip
    assert list(table) == list(paper.COLUMNS) and list(paper.claims_table([])) == list(paper.COLUMNS)


def test_a_phone_has_every_claim_in_full_under_its_table_or_figure() -> None:
    by_item = paper.listed(paper.claims_table([score(CONFIRMED), score(CONTRADICTED), score(NOT_MEASURED, "figure9")]))
    assert list(by_item) == ["Table 2", "Figure 9"]
    lines = "\n\n".join(by_item.values()).replace("\N{NO-BREAK SPACE}", " ").replace("\\", "")
    first, ninth = (EXPERIMENTS[name].claims[0].text.replace("\\", "") for name in ("table2", "figure9"))
    beside = ":gray[paper 97.6% · here −2.1 points (−3.0 to −1.2)]"
    assert not lacks(lines, beside, "-badge[", f"{NOT_MEASURED}] {ninth}") and lines.count(first) == 2


def test_the_number_that_the_text_states_stands_where_no_table_prints_one() -> None:
    row = EXPERIMENTS["figure8"]
    union = replace(score(CONFIRMED, "figure8"), claim=row.claims[2], paper=row.in_paper()[2])
    assert paper.claims_table([union])["paper"].tolist() == ["about 70%"]


def test_every_claim_fits_into_its_column() -> None:
    longest = max((claim.text for row in EXPERIMENTS.values() for claim in row.claims), key=len)
    assert len(longest) <= paper.COLUMNS["claim"]["width"] // 5.4, longest  # pixels per letter, measured in Chromium


@pytest.mark.slow
def test_the_count_is_on_top() -> None:
    found = [*map(score, (CONFIRMED, CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED))]
    counts = "**2 of 5 claims** confirmed, 1 contradicted, 1 inconclusive, 1 not measured."
    rest = "To measure the rest: `python -m skillviz reproduce all --scale small`."
    assert paper.counts_sentence(found) == f"{counts} {rest}"
    assert paper.counts_sentence(found[:2]) == "**2 of 2 claims** confirmed."


@pytest.mark.parametrize(("rows", "item"), [([1], "figure9"), ([], "none")])
def test_a_selected_row_opens_the_experiment_and_the_claim(rows: list[int], item: str) -> None:
    def script() -> None:
        import streamlit as st

        from skillviz.ui.pages import paper
        from tests.ui.test_paper_page import score

        paper._open([score("confirmed"), score("confirmed", "figure9")])
        st.write(st.session_state["control.item"])
        st.write(st.session_state.get("control.claim", ""))

    claim = EXPERIMENTS[item].claims[0].text if item in EXPERIMENTS else ""
    test = opened(script, {paper.KEY: {"selection": {"rows": rows}}})
    assert [m.value for m in test.markdown] == [item, claim] and not test.exception


Tables = dict[str, pd.DataFrame]


@pytest.fixture(scope="module")
def tables() -> Tables:
    return {name: check(made(TASKS, np.random.default_rng(0)), name) for name, made in FAKE_TABLES.items()}


@pytest.fixture(scope="module")
def own(tables: Tables) -> Tables:
    """Return the scores of a study whose tasks have other names."""
    names = {task: f"my-{task}" for task in set(tables["scores"]["task"])}
    return {"scores": tables["scores"].replace({"id_task": names, "task": names})}


TABLE2 = Selection("table2", "4096-shot", 0.0001, 0.01)
TABLE3 = Selection("table3", "4096-shot", None, 0.01)


def ours(asked: Selection, found: Tables) -> pd.DataFrame:
    return paper.rows_beside(asked, found).dropna(subset=["value"])


def test_settings_and_sizes_are_those_that_are_printed(tables: Tables) -> None:
    assert [paper.printed_settings(name) for name in ("table2", "table5")] == [["4096-shot", "64-shot"], ["50k-shot"]]
    assert [paper.printed_shares(name) for name in ("table8", "table4")] == [[0.0001, 0.001, 0.01], []]
    assert [paper.our_shares(table) for table in (tables["scores"], pd.DataFrame())] == [[0.001, 0.01, 0.1], []]


def test_ours_stand_at_the_chosen_size_with_the_difference(tables: Tables) -> None:
    rows, scores = paper.rows_beside(TABLE2, tables), tables["scores"]
    found = rows[(rows["here"] == "sst2_sentences") & (rows["method"] == "graft") & (rows["metric"] == TASK_METRIC)]
    wanted = scores[
        (scores["id_task"] == scores["task"]) & (scores["task"] == "sst2_sentences") & (scores["method"] == "graft")
        & (scores["metric"] == "accuracy") & (scores["share"] == 0.01)
    ].iloc[0]  # fmt: skip
    one = found.iloc[0]
    assert one[["task", "value", "low"]].tolist() == ["SST-2", *wanted[["mean", "low"]]]
    assert one["difference"] == pytest.approx(wanted["mean"] - 0.924)


def test_every_published_row_is_there_once_and_averages_are_not(tables: Tables) -> None:
    rows = paper.rows_beside(Selection("table2", "64-shot", None, 0.01), tables)
    assert not rows.duplicated(["task", "method", "metric"]).any()
    assert len(set(rows["task"])) == 13 and not rows["task"].str.contains("vg|verage").any()
    empty = paper.rows_beside(Selection("table2", "64-shot", None, None), {})
    assert len(empty) == len(rows) and empty["value"].isna().all()


def test_other_data_are_named_with_what_was_tuned_on(tables: Tables) -> None:
    here = paper.rows_beside(TABLE3, tables).set_index("task")["here"].to_dict()
    assert here["SST-2 to Yelp"] == "sst2_sentences to yelp_reviews" and "QNLI to MNLI(0/1)" in here


def test_tasks_of_ones_own_stand_alone_and_first_where_ours_are_no_others(tables: Tables, own: Tables) -> None:
    rows, found = paper.rows_beside(TABLE2, own), ours(TABLE2, own)
    mine = {f"my-{task}" for task in TASKS}
    metrics = {TASK_METRIC, "ece", "agreement"}
    assert [{*found[name]} for name in ("task", "here", "method", "metric")] == [mine, mine, {"graft", "ft"}, metrics]
    assert found["published"].isna().all() and rows.loc[len(found) :, "published"].notna().all()
    assert found.index.max() == len(found) - 1 and paper.readable_rows(rows)["published (± sd)"].iloc[0] == ""
    both = pd.concat([own["scores"], tables["scores"]], ignore_index=True)
    last = paper.rows_beside(TABLE2, {"scores": both}).iloc[-len(found) :]
    assert last["published"].isna().all() and last["value"].notna().all()
    marks = paper.marks_of(rows, TASK_METRIC)
    assert {*marks.loc[marks["task"].str.startswith("my-"), "source"]} == {"here"}
    assert (marks["source"] == "here").sum() == 2 * len(TASKS)


def test_of_other_data_those_rows_are_shown_and_only_without_them_the_tasks_own(own: Tables) -> None:
    found, scores = ours(TABLE3, own), own["scores"]
    assert len(found) and found["task"].str.contains(" to my-").all()
    alone = ours(TABLE3, {"scores": scores[scores["task"] == scores["id_task"]]})
    assert {*alone["task"]} == {f"my-{task}" for task in TASKS}


def test_what_the_paper_prints_nothing_of_is_said(tables: Tables, own: Tables) -> None:
    film = tables["scores"][tables["scores"]["id_task"] == "sst2_sentences"]
    notes = [words.unmatched(paper.rows_beside(TABLE2, found)) for found in (own, {"scores": film})]
    assert "my-sst2_sentences" in notes[0].replace("\\", "") and notes[1] == ""


def test_a_data_set_that_was_not_tuned_on_does_not_stand_for_the_task_that_was(tables: Tables) -> None:
    scores = tables["scores"]
    film = scores[(scores["id_task"] == "sst2_sentences") & (scores["task"] == "cr")]
    assert ours(TABLE2, {"scores": film.replace({"task": {"cr": "sst2"}})}).empty


def test_of_a_study_of_several_bases_one_is_shown(tables: Tables) -> None:
    scores = tables["scores"]
    both = {"scores": pd.concat([scores, scores.assign(base="my/base", mean=0.0)], ignore_index=True)}
    one, mine = (
        ours(Selection("table2", "4096-shot", 0.0001, 0.01, base), both)["value"] for base in (BASE, "my/base")
    )
    assert (one > 0).all() and (mine == 0).all() and len(one) == len(mine) > 0


def test_of_a_sequence_each_task_is_a_row(tables: Tables) -> None:
    rows = paper.rows_beside(Selection("table4", "4096-shot", None, 0.01), tables)
    assert {*rows.loc[rows["published"].notna(), "task"]} == {"QNLI", "AGNews", "SST-2"}
    naive = rows[(rows["method"] == "continual_naive") & (rows["task"] == "SST-2")].iloc[0]
    assert naive[["here", "printed"]].tolist() == ["sst2_sentences", "92.0 (0.5)"]


def test_the_iou_with_the_fish_mask_is_found_by_task_and_size() -> None:
    rows = [
        {"row_task": "sst2_sentences", "row_localizer": "stagewise", "column_task": "sst2_sentences",
         "column_localizer": rival, "size": np.nan, "share": size, "kind": "iou",
         "value": value, "low": value - 0.01, "high": value + 0.01, "chance": 0.01, "seeds": 3, "relation": "same"}
        for size, rival, value in ((0.01, "fisher", 0.09), (0.01, "random", 0.01), (0.1, "fisher", 0.2))
    ]  # fmt: skip
    found = ours(Selection("table8", "4096-shot", 0.0001, 0.01), {"overlap": pd.DataFrame(rows)})
    (one,) = found[found["metric"] == "overlap_iou"][["task", "value", "published"]].to_numpy().tolist()
    assert one == ["SST-2", 0.09, pytest.approx(0.092)]


def test_the_words_keep_the_printed_digits(tables: Tables) -> None:
    shown = paper.readable_rows(paper.rows_beside(Selection("table1", "4096-shot", None, 0.01), tables))
    assert shown["published (± sd)"].iloc[0] == "92.3 (0.3)" and "–" in shown["here (95%)"].iloc[0]
    assert shown[shown["task"] == "QQP"].iloc[0][["here (95%)", "difference"]].tolist() == ["", "n/a"]


def test_marks_have_both_sources_and_a_published_value_once(tables: Tables) -> None:
    marks = paper.marks_of(paper.rows_beside(TABLE2, tables), "ece")
    assert {*marks["source"]} == {"here", "published"}
    assert not marks[marks["source"] == "published"].duplicated(["task", "method"]).any()


def test_items_stand_in_the_order_of_the_paper() -> None:
    names = list(words.items())
    assert names[:10] == [*(f"table{number}" for number in range(1, 10)), "figure2"] and names[-1] == "sensitivity"
    assert names.index("figure9") < names.index("figure10")


def test_on_each_task_the_size_that_95_percent_of_the_gain_needs(tables: Tables) -> None:
    needed = tables["recovered"]
    first, *rest = paper.needed(tables)
    assert {first, *rest} == {*needed["id_task"]} and paper.needed({}) == {}
    other = {**tables, "recovered": needed.assign(share=np.where(needed["id_task"] == first, 0.1, 0.001))}
    rows = paper.rows_beside(Selection("table2", "4096-shot", None, paper.NEEDED), other)
    grafts = rows[(rows["method"] == "graft") & rows["value"].notna()]
    of_first, of_rest = ({*grafts.loc[(grafts["here"] == first) == it, "share"]} for it in (True, False))
    assert of_first <= {0.1} and of_rest == {0.001} and "0.1%" in {*paper.readable_rows(rows)["size here"]}


def test_single_numbers_stand_without_abbreviations() -> None:
    shown = pd.concat([words.numbers(numbers(name)) for name in EXPERIMENTS])["published"]
    assert shown.str.contains("mean agreement graft vs fine-tuned").any() and not shown.str.contains(r"\bFT\b").any()

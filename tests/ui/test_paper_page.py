"""Tests of the scoreboard: one row per claim, counts above, and a click on a row opens its experiment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from skillviz.analysis.tables import check
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED
from skillviz.studies.paper.claims import Comparison, Verdict
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.published_values import numbers
from skillviz.ui import paper_words as words
from skillviz.ui.pages import paper
from skillviz.ui.pages.paper import TASK_METRIC, Score, Selection
from tests.studies.fake_tables import BASE, FAKE_TABLES, TASKS

SAYS = {CONFIRMED: True, CONTRADICTED: False, INCONCLUSIVE: None}


def score(outcome: str, name: str = "table2") -> Score:
    row = EXPERIMENTS[name]
    comparisons = () if outcome == NOT_MEASURED else (Comparison("cr", -0.021, -0.03, -0.012, SAYS[outcome]),)
    claim, paper = row.claims[0], row.in_paper()[0]
    return Score(name, claim, paper, Verdict(claim.text, comparisons), None)


def test_a_row_has_the_papers_number_ours_with_its_interval_and_the_verdict() -> None:
    table = paper.claims_table([score(CONFIRMED), score(NOT_MEASURED, "figure9")])
    first, second = table.replace("\N{NO-BREAK SPACE}", " ", regex=True).to_dict("records")
    assert first["where"] == "Table 2" and first["verdict"] == [CONFIRMED] and first["paper"] == "97.6%"
    assert first["here"] == "−2.1 points (−3.0 to −1.2)"
    assert second["verdict"] == [NOT_MEASURED] and second["here"] == "" and second["paper"] == "figure only"
    assert list(table) == list(paper.COLUMNS) and list(paper.claims_table([])) == list(paper.COLUMNS)


def test_a_phone_has_every_claim_in_full_under_its_table_or_figure() -> None:
    by_item = paper.listed(paper.claims_table([score(CONFIRMED), score(CONTRADICTED), score(NOT_MEASURED, "figure9")]))
    assert list(by_item) == ["Table 2", "Figure 9"]
    lines = "\n\n".join(by_item.values()).replace("\N{NO-BREAK SPACE}", " ")
    assert lines.count(EXPERIMENTS["table2"].claims[0].text) == 2
    assert ":gray[paper 97.6% · here −2.1 points (−3.0 to −1.2)]" in lines.replace("\\", "")
    assert "-badge[" in lines and f"{NOT_MEASURED}] {EXPERIMENTS['figure9'].claims[0].text}" in lines


def test_the_number_that_the_text_states_stands_where_no_table_prints_one() -> None:
    row = EXPERIMENTS["figure8"]
    union = replace(score(CONFIRMED, "figure8"), claim=row.claims[2], paper=row.in_paper()[2])
    assert paper.claims_table([union])["paper"].tolist() == ["about 70%"]


def test_every_claim_fits_into_its_column() -> None:
    longest = max((claim.text for row in EXPERIMENTS.values() for claim in row.claims), key=len)
    letters = paper.COLUMNS["claim"]["width"] // 5.4  # pixels per letter, measured in Chromium
    assert len(longest) <= letters, longest


@pytest.mark.slow
def test_the_count_is_on_top() -> None:
    found = [score(CONFIRMED), score(CONFIRMED), score(CONTRADICTED), score(INCONCLUSIVE), score(NOT_MEASURED)]
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

        st.session_state[paper.KEY] = {"selection": st.session_state["chosen"]}
        paper._open([score("confirmed"), score("confirmed", "figure9")])
        st.write(st.session_state["control.item"])
        st.write(st.session_state.get("control.claim", ""))

    test = AppTest.from_function(script, default_timeout=60)
    test.session_state["chosen"] = {"rows": rows}
    test.run()
    claim = EXPERIMENTS[item].claims[0].text if item in EXPERIMENTS else ""
    assert [m.value for m in test.markdown] == [item, claim] and not test.exception


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return {name: check(made(TASKS, np.random.default_rng(0)), name) for name, made in FAKE_TABLES.items()}


def test_settings_and_sizes_are_those_that_are_printed(tables: dict[str, pd.DataFrame]) -> None:
    assert paper.printed_settings("table2") == ["4096-shot", "64-shot"]
    assert paper.printed_settings("table5") == ["50k-shot"]
    assert paper.printed_shares("table8") == [0.0001, 0.001, 0.01] and paper.printed_shares("table4") == []
    assert paper.our_shares(tables["scores"]) == [0.001, 0.01, 0.1]
    assert paper.our_shares(pd.DataFrame()) == []


def test_ours_stand_at_the_chosen_size_with_the_difference(tables: dict[str, pd.DataFrame]) -> None:
    rows = paper.rows_beside(Selection("table2", "4096-shot", 0.0001, 0.01), tables)
    grafts = rows[(rows["here"] == "sst2_sentences") & (rows["method"] == "graft")]
    found = grafts[grafts["metric"] == TASK_METRIC].iloc[0]
    scores = tables["scores"]
    wanted = scores[
        (scores["id_task"] == scores["task"]) & (scores["task"] == "sst2_sentences") & (scores["method"] == "graft")
        & (scores["metric"] == "accuracy") & (scores["share"] == 0.01)
    ].iloc[0]  # fmt: skip
    assert found["value"] == wanted["mean"] and found["low"] == wanted["low"]
    assert found["difference"] == pytest.approx(wanted["mean"] - 0.924) and found["task"] == "SST-2"


def test_every_published_row_is_there_once_and_averages_are_not(tables: dict[str, pd.DataFrame]) -> None:
    rows = paper.rows_beside(Selection("table2", "64-shot", None, 0.01), tables)
    assert not rows.duplicated(["task", "method", "metric"]).any()
    assert not rows["task"].str.contains("vg|verage").any() and len(set(rows["task"])) == 13
    empty = paper.rows_beside(Selection("table2", "64-shot", None, None), {})
    assert len(empty) == len(rows) and empty["value"].isna().all()


def test_other_data_are_named_with_what_was_tuned_on(tables: dict[str, pd.DataFrame]) -> None:
    rows = paper.rows_beside(Selection("table3", "4096-shot", None, 0.01), tables)
    here = dict(zip(rows["task"], rows["here"], strict=True))
    assert here["SST-2 to Yelp"] == "sst2_sentences to yelp_reviews"
    assert "QNLI to MNLI(0/1)" in here


def own(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the scores of a study whose tasks have other names."""
    names = {task: f"my-{task}" for task in set(tables["scores"]["task"])}
    return {"scores": tables["scores"].replace({"id_task": names, "task": names})}


def test_tasks_of_ones_own_stand_alone_and_first_where_ours_are_no_others(tables: dict[str, pd.DataFrame]) -> None:
    rows = paper.rows_beside(Selection("table2", "4096-shot", 0.0001, 0.01), own(tables))
    ours = rows[rows["value"].notna()]
    assert set(ours["task"]) == set(ours["here"]) == {f"my-{task}" for task in TASKS} and ours["published"].isna().all()
    assert set(ours["method"]) == {"graft", "ft"} and set(ours["metric"]) == {TASK_METRIC, "ece", "agreement"}
    assert ours.index.max() == len(ours) - 1 and rows.loc[len(ours) :, "published"].notna().all()
    both = pd.concat([own(tables)["scores"], tables["scores"]], ignore_index=True)
    last = paper.rows_beside(Selection("table2", "4096-shot", 0.0001, 0.01), {"scores": both}).iloc[-len(ours) :]
    assert last["published"].isna().all() and last["value"].notna().all()
    marks = paper.marks_of(rows, TASK_METRIC)
    assert set(marks.loc[marks["task"].str.startswith("my-"), "source"]) == {"here"}
    assert len(marks[marks["source"] == "here"]) == 2 * len(TASKS)
    assert list(paper.readable_rows(rows)["published (± sd)"])[0] == ""


def test_of_other_data_those_rows_are_shown_and_only_without_them_the_tasks_own(
    tables: dict[str, pd.DataFrame],
) -> None:
    asked, found = Selection("table3", "4096-shot", None, 0.01), own(tables)
    ours = paper.rows_beside(asked, found).dropna(subset=["value"])
    assert len(ours) and ours["task"].str.contains(" to my-").all()
    scores = found["scores"]
    alone = paper.rows_beside(asked, {"scores": scores[scores["task"] == scores["id_task"]]})
    assert set(alone.dropna(subset=["value"])["task"]) == {f"my-{task}" for task in TASKS}


def test_what_the_paper_prints_nothing_of_is_said(tables: dict[str, pd.DataFrame]) -> None:
    asked = Selection("table2", "4096-shot", 0.0001, 0.01)
    note = words.unmatched(paper.rows_beside(asked, own(tables)))
    assert "my-sst2_sentences" in note.replace("\\", "")
    film = tables["scores"][tables["scores"]["id_task"] == "sst2_sentences"]
    assert words.unmatched(paper.rows_beside(asked, {"scores": film})) == ""


def test_a_data_set_that_was_not_tuned_on_does_not_stand_for_the_task_that_was(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    film = scores[(scores["id_task"] == "sst2_sentences") & (scores["task"] == "cr")]
    named = {"task": {"cr": "sst2"}}
    rows = paper.rows_beside(Selection("table2", "4096-shot", 0.0001, 0.01), {"scores": film.replace(named)})
    assert rows["value"].isna().all()


def test_of_a_study_of_several_bases_one_is_shown(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"]
    both = {"scores": pd.concat([scores, scores.assign(base="my/base", mean=0.0)], ignore_index=True)}
    rows = [paper.rows_beside(Selection("table2", "4096-shot", 0.0001, 0.01, base), both)["value"].dropna()
            for base in (BASE, "my/base")]  # fmt: skip
    assert (rows[0] > 0).all() and (rows[1] == 0).all() and len(rows[0]) == len(rows[1]) > 0


def test_of_a_sequence_each_task_is_a_row(tables: dict[str, pd.DataFrame]) -> None:
    rows = paper.rows_beside(Selection("table4", "4096-shot", None, 0.01), tables)
    assert set(rows.loc[rows["published"].notna(), "task"]) == {"QNLI", "AGNews", "SST-2"}
    naive = rows[(rows["method"] == "continual_naive") & (rows["task"] == "SST-2")].iloc[0]
    assert naive["here"] == "sst2_sentences" and naive["printed"] == "92.0 (0.5)"


def test_the_iou_with_the_fish_mask_is_found_by_task_and_size() -> None:
    rows = [
        {"row_task": "sst2_sentences", "row_localizer": "stagewise", "column_task": "sst2_sentences",
         "column_localizer": rival, "size": np.nan, "share": size, "kind": "iou",
         "value": value, "low": value - 0.01, "high": value + 0.01, "chance": 0.01, "seeds": 3, "relation": "same"}
        for size, rival, value in ((0.01, "fisher", 0.09), (0.01, "random", 0.01), (0.1, "fisher", 0.2))
    ]  # fmt: skip
    asked = Selection("table8", "4096-shot", 0.0001, 0.01)
    found = paper.rows_beside(asked, {"overlap": pd.DataFrame(rows)})
    (one,) = found[found["metric"] == "overlap_iou"].dropna(subset=["value"]).to_dict("records")
    assert one["value"] == 0.09 and one["task"] == "SST-2" and one["published"] == pytest.approx(0.092)


def test_the_words_keep_the_printed_digits(tables: dict[str, pd.DataFrame]) -> None:
    rows = paper.rows_beside(Selection("table1", "4096-shot", None, 0.01), tables)
    shown = paper.readable_rows(rows)
    assert shown["published (± sd)"].iloc[0] == "92.3 (0.3)" and "–" in shown["here (95%)"].iloc[0]
    qqp = shown[shown["task"] == "QQP"].iloc[0]
    assert qqp["here (95%)"] == "" and qqp["difference"] == "n/a"


def test_marks_have_both_sources_and_a_published_value_once(tables: dict[str, pd.DataFrame]) -> None:
    rows = paper.rows_beside(Selection("table2", "4096-shot", 0.0001, 0.01), tables)
    marks = paper.marks_of(rows, "ece")
    assert set(marks["source"]) == {"here", "published"}
    assert not marks[marks["source"] == "published"].duplicated(["task", "method"]).any()


def test_items_stand_in_the_order_of_the_paper() -> None:
    names = list(words.items())
    assert names[:9] == [f"table{number}" for number in range(1, 10)]
    assert names[9] == "figure2" and names[-1] == "sensitivity" and names.index("figure9") < names.index("figure10")


def test_on_each_task_the_size_that_95_percent_of_the_gain_needs(tables: dict[str, pd.DataFrame]) -> None:
    sizes = paper.needed(tables)
    assert set(sizes) == set(tables["recovered"]["id_task"]) and paper.needed({}) == {}
    first, *rest = sizes
    other = {**tables, "recovered": tables["recovered"].assign(
        share=np.where(tables["recovered"]["id_task"] == first, 0.1, 0.001))}  # fmt: skip
    rows = paper.rows_beside(Selection("table2", "4096-shot", None, paper.NEEDED), other)
    grafts = rows[(rows["method"] == "graft") & rows["value"].notna()]
    assert set(grafts.loc[grafts["here"] == first, "share"]) <= {0.1}
    assert len(grafts) and set(grafts.loc[grafts["here"] != first, "share"]) == {0.001}
    assert "0.1%" in set(paper.readable_rows(rows)["size here"])


def test_single_numbers_stand_without_abbreviations() -> None:
    shown = pd.concat([words.numbers(numbers(name)) for name in EXPERIMENTS])
    assert "mean agreement graft vs fine-tuned" in " ".join(shown["published"])
    assert not shown["published"].str.contains(r"\bFT\b").any()

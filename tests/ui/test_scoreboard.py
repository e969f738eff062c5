"""Tests of the scoreboard: one row per claim, counts above, and a click on a row opens its experiment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED
from skillviz.studies.paper.claims import Comparison, Verdict
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.ui.pages import paper
from skillviz.ui.pages.paper import Score

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
        from tests.ui.test_scoreboard import score

        st.session_state[paper.KEY] = {"selection": st.session_state["chosen"]}
        paper._open([score("confirmed"), score("confirmed", "figure9")])
        st.write(st.session_state["control.item"])
        st.write(st.session_state.get("control.claim", ""))

    test = AppTest.from_function(script, default_timeout=60)
    test.session_state["chosen"] = {"rows": rows}
    test.run()
    claim = EXPERIMENTS[item].claims[0].text if item in EXPERIMENTS else ""
    assert [m.value for m in test.markdown] == [item, claim] and not test.exception

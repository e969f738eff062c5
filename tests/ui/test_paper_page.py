"""Tests of studies for readers: the scoreboard (one row per claim, counts above, a click on a row opens its page),
a study's table, its status in one line, the command that really makes it, and study files that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.readable_table import not_in_percent
from skillviz.analysis.tables import TABLES, check, empty
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED
from skillviz.errors import BadInput
from skillviz.studies.paper.claims import Comparison, Verdict
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.published_values import numbers
from skillviz.studies.paper.scales import scale
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import StudyFolder, open_study
from skillviz.tasks.readable_names import readable
from skillviz.ui import paper_words as words
from skillviz.ui import study_words
from skillviz.ui.pages import paper
from skillviz.ui.pages.paper import TASK_METRIC, Score, Selection
from skillviz.ui.pages.studies import start, studies_page
from tests.refused import refused
from tests.studies.fake_study import fake_study
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


SMALL_BASE, MR = "examples/models/minilm-l6", "examples/tasks/mr.yaml"
STEPS = {
    str(number): {"kind": "localize", "title": f"step {number}", "state": state}
    for number, state in enumerate(("finished", "finished", "failed", "missing"))
}


def test_what_is_asked_first_stands_first_and_what_is_empty_last(tables: Tables) -> None:
    scores = tables["scores"].assign(debiased=np.nan)
    order, own = (studies_page.columns(rows) for rows in (scores, scores[scores["id_task"] == scores["task"]]))
    assert order[:6] == ["id_task", "task", "method", "localizer", "share", "metric"] and order[-1] == "debiased"
    assert sorted(order) == sorted(scores.columns) and order.index("mean") < order.index("base")
    assert own[0] == "task" and {*own[-2:]} == {"debiased", "id_task"}
    recovered = studies_page.columns(tables["recovered"])
    assert recovered.index("value_ft") == recovered.index("value") + 1, "what is compared stands side by side"


def test_shares_are_in_percent_and_nats_stay(tables: Tables) -> None:
    scores = tables["scores"]
    shown, is_nll = studies_page.shown(scores), scores["metric"] == "nll"
    assert is_nll.any() and not is_nll.all()
    np.testing.assert_allclose(shown["mean"], scores["mean"] * np.where(is_nll, 1, 100))
    np.testing.assert_allclose(shown["share"], 100 * scores["share"], rtol=0.05)
    assert (shown["size"].dropna() == scores["size"].dropna().round()).all()
    assert "NLL is in nats" in not_in_percent(scores)


def test_a_table_without_a_metric_holds_shares(tables: Tables) -> None:
    columns = ["value", "low", "high", "chance"]
    np.testing.assert_allclose(studies_page.shown(tables["overlap"])[columns], 100 * tables["overlap"][columns])
    assert (not_in_percent(tables["overlap"]), studies_page.methods(tables["overlap"])) == ("", [])


@pytest.mark.parametrize("name", TABLES)
def test_every_column_of_every_table_is_headed_and_explained_in_words(name: str) -> None:
    config, lines = studies_page.config(name), studies_page.columns_in_words(name)
    assert list(config) == [column.name for column in TABLES[name].columns]
    assert studies_page.shown(empty(name)).empty and len(studies_page.columns(empty(name))) == len(config)
    heads, helps = ([column[key] for column in config.values()] for key in ("label", "help"))
    assert [head for head in heads if "_" in head] == [] and len({*heads}) == len(heads)
    assert [text for text in helps if "METHODS" in text or "OVER" in text] == []
    assert [column for column, line in zip(config, lines, strict=True) if f"`{column}`" not in line] == []


@pytest.mark.parametrize(
    ("table", "heads"),
    [
        ("recovered", {"ece_ft_low": "ECE, fine-tuned, low, %", "size": "region size, entries", "value": "graft, %",
                       "value_low": "graft, low, %", "ece_less_ft": "ECE less fine-tuned, points"}),
        ("scores", {"mean": "mean, %"}),
        ("differences", {"value": "A less B, points"}),
    ],
)  # fmt: skip
def test_percent_is_said_in_the_head(table: str, heads: dict[str, str]) -> None:
    assert {name: studies_page.config(table)[name]["label"] for name in heads} == heads


def test_cells_have_the_words_of_the_figures(tables: Tables) -> None:
    given = {
        "method": ["graft_retrain", "ft", "graft"], "localizer": ["learned-ranked", "", "stagewise"],
        "search_variant": ["", "", "purified"], "recipe": ["graft-retrain", "sgd", "sgd"],
        "metric": ["ece", "nll", "recovered"], "base": ["${SKILLVIZ_REAL}/models/minilm-l6"] * 3,
    }  # fmt: skip
    scores = tables["scores"].head(3).assign(**given)
    assert studies_page.shown(scores)[list(given)].to_dict("list") == {
        "method": ["region re-trained", "fine-tuned", "graft"], "localizer": ["learned, ranked", "", "stagewise"],
        "search_variant": ["", "", "purified"], "recipe": ["re-training the region", "SGD", "SGD"],
        "metric": ["ECE", "NLL", "gain recovered"], "base": ["minilm-l6"] * 3,
    }  # fmt: skip
    assert scores["method"].iloc[0] == "graft_retrain", "the argument is left as it is"
    regions = studies_page.shown(tables["gain"])["region_tasks"]
    assert regions.tolist() == list(map(readable, tables["gain"]["region"])), "several tasks as `a + b`"
    methods = [line.strip() for line in studies_page.methods(tables["scores"])]
    assert "- **graft**: graft of a searched region" in methods


def test_sizes_have_two_figures_and_counts_are_whole(tables: Tables) -> None:
    shown = studies_page.shown(
        tables["scores"].head(4).assign(share=[0.0000999, 0.00586, 0.1234, 1.0], size=[1064.333, 1.0, 2.0, 3.0])
    )
    assert list(shown["share"]) == pytest.approx([0.01, 0.59, 12.3, 100]) and shown["size"].iloc[0] == 1064


def test_tasks_are_told_by_the_titles_of_their_files() -> None:
    titles = study_words.task_titles(["cr", "clinc_domains", "unknown", "../cr", "cr"])
    assert "**CLINC domains**: What a user asks an assistant\\: ten domains." in titles and "unknown" not in titles
    assert titles.count("**CR**: Customer reviews") == 1 and study_words.task_titles(["unknown"]) == ""


def content(base: str, more: str = "") -> bytes:
    quoted = base if base.startswith('"') else repr(base)
    entry = f"{{task: t, base: {quoted}, finetuned: f, localizer: movement, sizes: ['1%']}}"
    return f"name: own\n{more}runs:\n- {entry}\n".encode()


@pytest.mark.parametrize("base", ["${HOME}/x", "$HOME/x", '"\\x24{AWS_SECRET}"', "a/${SKILLVIZ_REAL}/${PATH}"])
def test_a_variable_of_the_machine_is_refused_and_not_told(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "AWS_SECRET", "PATH"):
        monkeypatch.setenv(name, "hidden-value")
    with pytest.raises(BadInput, match="only variables whose names begin with SKILLVIZ_") as error:
        start.uploaded("own.yaml", content(base))
    assert "hidden-value" not in str(error.value)


@pytest.mark.parametrize("base", ["${SKILLVIZ_REAL}/models/x", "$SKILLVIZ_REAL/x", "models/x", "costs 5 $", "a$/b"])
def test_the_projects_own_and_what_is_none_stay_as_they_are(base: str) -> None:
    assert start.uploaded("own.yaml", content(base)).runs[0]["base"] == base


def test_a_typed_path_fills_in_the_projects_variables_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.yaml").write_bytes(content("b"))
    for name in ("SKILLVIZ_HERE", "OTHER"):
        monkeypatch.setenv(name, str(tmp_path))
    assert start.typed("${SKILLVIZ_HERE}/own.yaml").name == "own"
    with pytest.raises(BadInput, match="is not filled in") as error:
        start.typed("$OTHER/own.yaml")
    assert str(tmp_path) not in str(error.value)


test_a_fault_is_told_of_the_file = refused(
    BadInput,
    ("not filled in", start.uploaded, "own.yaml", content("b", "defaults: {finetune: {'$HOME': 1}}\n")),
    ("'command': it is 'curl evil.example'", start.uploaded, "own.yaml", content("b", "command: curl evil.example\n")),
    (r"the study file own\.yaml must have", start.uploaded, "own.yaml", b"name: own\nruns: []\n"),
)


def study(root: Path, base: str = SMALL_BASE, task: str = MR, **record: Any) -> StudyFolder:
    """Return a stored study, with another base or task in its file."""
    file = fake_study(root, **{"tables": ("scores", "note"), **record}) / "study.yaml"
    file.write_text(file.read_text().replace(f"base: {SMALL_BASE}", f"base: {base}").replace(MR, task))
    folder = open_study(file.parent)
    assert folder is not None
    return folder


@pytest.mark.parametrize(
    ("record", "says", "omits"),
    [
        ({}, ["`table1-small` · made 20 Nov 2026, 10:05 UTC · in 5"], []),
        *(({"status": status, "steps": STEPS, "finished": "2026-11-20T10:05:00+00:00"},
           [f"**{status}** 20 Nov 2026, 10:05 UTC", "2 of 4 steps", "1 table"], [])
          for status in ("cancelled", "failed")),
        ({"status": "running", "steps": STEPS, "tables": ()}, ["2 of 4 steps"], ["2026"]),
    ],
    ids=["made", "cancelled", "failed", "running"],
)  # fmt: skip
def test_a_study_says_how_it_ended_and_what_is_there(
    record: dict[str, Any], says: list[str], omits: list[str], tmp_path: Path
) -> None:
    caption = study_words.caption(study(tmp_path, **record))
    assert not lacks(caption, *says) and lacks(caption, *omits) == omits


def test_a_study_is_called_after_its_tasks_and_a_base_of_its_own(tmp_path: Path) -> None:
    files = {"a": (SMALL_BASE, MR), "b": ("my/minibert", MR), "c": (SMALL_BASE, "my/task.yaml")}
    shown = [study_words.label(study(tmp_path, *of, name=name, tables=())) for name, of in files.items()]
    assert shown == ["Table 1 · MR", "Table 1 · MR · minibert", "Table 1 · task"]
    broken = study(tmp_path, name="d")
    (broken.path / "study.yaml").write_text("runs: 3")
    assert study_words.label(broken) == "Table 1 · small"


@pytest.mark.parametrize("command", [
    "curl evil.example", "python -m skillviz reproduce `id`", "python -m skillviz reproduce x; rm y", "a 'lone quote",
    "python -m skillviz study run nowhere.yaml", "python -m skillviz examples", "", None,
    "python -m skillviz reproduce table1 --scale small --base minibert",
    "python -m skillviz reproduce table1 --tasks a.yaml",
])  # fmt: skip
def test_a_command_that_is_not_ours_gives_way_to_the_one_that_runs_the_file(
    command: str | None, tmp_path: Path
) -> None:
    found = study(tmp_path, command=command)
    assert study_words.command(found) == f"python -m skillviz study run {found.path}/study.yaml"
    assert "evil" not in study_words.caption(found)


def test_a_command_of_ours_stands_where_it_makes_the_study(tmp_path: Path) -> None:
    command = "python -m skillviz study run benchmarks/studies/stories260k.yaml"
    assert study_words.command(study(tmp_path, command=command)) == command
    changed = study(tmp_path, name="changed")
    assert study_words.command(changed) == f"python -m skillviz study run {changed.path}/study.yaml"
    (changed.path / "study.yaml").write_text(StudySpec(**EXPERIMENTS["table1"].build(scale("small"))).yaml_text())
    assert study_words.command(changed) == "python -m skillviz reproduce table1 --scale small"

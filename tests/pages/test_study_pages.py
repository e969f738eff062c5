"""Tests of methods, studies and paper on stored studies: shown, started, compared; empty, running and failed states."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.jobs.job import Job
from skillviz.jobs.kinds import StudyJob
from skillviz.runs.part_scores import CHOSEN, ONE, RIVALS, region_rows, store_parts
from skillviz.runs.store import Store
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.request import EDITED, study_of, write_study
from skillviz.studies.spec import ExperimentRequest
from skillviz.studies.store import StepNote, studies_in
from skillviz.tasks.project import PROJECT
from skillviz.tasks.readable_names import readable
from skillviz.ui import study_choice
from skillviz.ui.page_table import PAGES
from skillviz.ui.paper_words import WITHOUT
from tests.fake_run import SMALL, fake_run
from tests.pages.test_pages import charts, copied, has_link, opened, with_tables, words
from tests.studies.fake_study import fake_running, fake_study
from tests.studies.fake_tables import BASE, FAKE_TABLES, TASKS
from tests.tiny import tiny_pair, tiny_task

CHARTS = {"methods": 7, "studies": 15, "paper": 2}
BROKEN = {"kind": "BadModel", "message": "the model finetuned/x cannot be read.", "hint": ""}


def said(test: AppTest) -> str:
    return words(test).replace("\\", "")


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("name", CHARTS)
def test_a_page_opens_on_a_study_with_every_chart_explained(name: str, empty: Path) -> None:
    fake_study(empty, "table1")
    test = opened(name, **{"paper": {"item": "table1"}, "studies": {"view": "study"}}.get(name, {}))
    assert not test.exception and not test.error and not test.warning
    assert [title.value for title in test.title] == [PAGES[name].question]
    figures = charts(test)
    assert len(figures) == CHARTS[name] and all(figure.proto.alt for figure in figures)
    assert len([c for c in test.caption if c.value.startswith("How to read this:")]) == len(figures)
    assert len([e for e in test.get("popover") if e.proto.popover.label == "Download"]) == len(figures)
    assert "study" not in test.query_params and copied(test)["study"] == "table1-small" and has_link(test)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["methods", "studies"])
def test_a_study_of_generated_answers_shows_exact_match_and_perplexity(
    name: str, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_text, tables = {"accuracy": "exact_match", "ece": "perplexity"}, ("scores", "differences", "sensitivity")

    def of_texts(table: str, tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
        rows = FAKE_TABLES[table](tasks, random)
        return rows[rows["metric"].isin(of_text)].replace({"metric": of_text})

    monkeypatch.setattr("tests.studies.fake_study.FAKE_TABLES", {name: partial(of_texts, name) for name in tables})
    fake_study(empty, "table1", tables=tables)
    test = opened(name, **({"view": "study"} if name == "studies" else {}))
    assert not test.exception and not test.error
    alts = [figure.proto.alt for figure in charts(test)]
    alts = alts[:-1] if name == "methods" else alts  # the last one there is the board of hidden skills
    assert any(alt.startswith("exact match on SST-2 sentences") for alt in alts)
    assert any(alt.startswith("perplexity on SST-2 sentences") for alt in alts)
    assert not any("ECE" in alt or "ccuracy" in alt or alt.endswith(": .") for alt in alts)


def test_without_a_study_a_page_says_what_it_needs_and_how_to_make_it(empty: Path) -> None:
    test = opened("methods")
    assert not test.exception and not charts(test)
    assert "No such study is stored yet" in said(test)
    assert "python -m skillviz reproduce table1 --scale small" in test.code[0].value


def test_a_study_without_tables_is_named_and_not_shown(empty: Path) -> None:
    fake_running(empty, None, "table1-small")
    record = empty / "studies" / "table1-small" / "study.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "experiment": "table1"}))
    test = opened("methods")
    assert "`table1-small` (not finished) has no tables yet" in test.info[0].value and not charts(test)


@pytest.mark.nightly
def test_the_pages_first_experiment_comes_first_and_the_address_chooses(empty: Path) -> None:
    fake_study(empty, "table3")
    link = copied(opened("methods"))
    assert link == {"study": "table3-small"}
    fake_study(empty, "table1")
    assert copied(opened("methods")) == copied(opened("studies", view="study")) == {"study": "table1-small"}
    assert opened("methods", **link).query_params["study"] == "table3-small", "a copied link stays what it was"


def test_methods_open_on_a_study_that_compares_grafting_with_another_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillviz.ui.cache.studies", lambda: studies_in(Store(PROJECT / "cached_runs")))
    names = [study.name for study in study_choice.offered(PAGES["methods"].experiments, boards=True)]
    assert names[0] == "baselines-minilm"
    assert "table8-small" in names[1:], "other regions alone are no other method"
    assert "figure2-small" not in names


@pytest.mark.slow
def test_a_link_to_an_unknown_table_of_the_paper_is_explained(empty: Path) -> None:
    test = opened("paper", item="figure99")
    assert "names 'figure99', which is no table or figure of the paper" in test.warning[0].value
    assert "item" not in test.query_params and not opened("paper", item="table2").warning


@pytest.mark.slow
def test_a_study_that_the_page_does_not_show_is_explained(empty: Path) -> None:
    fake_study(empty, "table1")
    fake_study(empty, "figure9")
    other = opened("methods", study="figure9-small")
    assert "This page does not show it" in other.warning[0].value and len(charts(other)) == CHARTS["methods"]
    assert "does not exist here" in opened("methods", study="gone").warning[0].value


@pytest.mark.nightly
def test_methods_are_compared_with_the_graft_by_paired_differences(empty: Path) -> None:
    fake_study(empty, "table1")
    test = opened("methods", task="sst2_sentences", size="0.01")
    sentence = next(m.value for m in test.markdown if m.value.startswith("**SST-2 sentences**"))
    assert "accuracy of **region re-trained**" in sentence and sentence.endswith("vs a graft of **1%**.")
    assert sentence.count("-badge[") == 1, "the other verdicts are below the figures"
    assert "BitFit" in said(test) and "LoRA" in said(test)
    test.selectbox(key="control.task").select("ag_news").run()
    assert any(m.value.startswith("**AG News**") for m in test.markdown) and test.query_params["task"] == "ag_news"
    assert "scores models of AG News on other data" in said(test)


def test_what_was_not_compared_is_said_once(empty: Path) -> None:
    fake_study(empty, "table1", tables=("scores", "note"))
    test = opened("methods")
    assert "no paired comparison" in said(test) and not test.exception
    assert not [info for info in test.info if "compared" in info.value]
    *of_study, _ = charts(test)  # the last one is the board of hidden skills, which needs no study
    assert [chart.proto.alt.partition(" by ")[1] for chart in of_study] == [" by "] * 3, "no empty places beside"


def of_bases(folder: Path, *bases: str) -> None:
    """Change an invented study to these bases, with lower scores for later ones."""
    file, scores = folder / "study.yaml", folder / "scores.parquet"
    file.write_text(file.read_text().replace("base: examples/models/minilm-l6", f"base: [{', '.join(bases)}]"))
    made = pd.read_parquet(scores)
    several = [made.assign(base=base, mean=made["mean"] / (number + 2)) for number, base in enumerate(bases)]
    pd.concat(several).to_parquet(scores)


@pytest.mark.slow
def test_studies_of_one_base_and_scale_are_put_together(empty: Path) -> None:
    fake_study(empty, "table1", tables=("scores", "differences"))
    fake_study(empty, "table3", tables=("scores", "differences", "note"), seed=1)
    of_bases(fake_study(empty, "figure5", tables=("scores",)), "my/base")
    test = opened("methods", study="table1-small")
    assert "Data: 2 studies of one scale, base and readout: `table1-small` and `table3-small`" in said(test)


@pytest.mark.nightly
def test_a_study_of_another_base_stands_alone(empty: Path) -> None:
    fake_study(empty, "table1", tables=("scores", "differences"))
    own = fake_study(empty, "table3", name="table3-small-own", tables=("scores", "differences"), tasks=TASKS[:2])
    of_bases(own, "my/base")
    test = opened("methods", study="table3-small-own")
    assert not test.exception and "Data: the study `table3-small-own`." in said(test)
    assert test.selectbox(key="control.task").options == list(map(readable, TASKS[:2]))
    assert "Data: the study `table1-small`." in said(opened("methods", study="table1-small"))


@pytest.mark.nightly
@pytest.mark.parametrize("page", ["methods", "paper", "studies"])
def test_a_base_of_ones_own_is_named(page: str, empty: Path) -> None:
    of_bases(fake_study(empty, "table1", name="table1-small-own"), "my/base")
    test = opened(page, study="table1-small-own", item="table1")
    assert not test.exception
    assert test.selectbox(key="control.study").options == ["Table 1 · MR · base"]
    if page == "paper":
        rows = test.table[0].value
        assert [words.replace("\\", "") for words in rows["Here"]] == [EDITED.here] and "10.6 million" not in said(test)


@pytest.mark.nightly
def test_of_several_bases_one_is_chosen(empty: Path) -> None:
    of_bases(fake_study(empty, "table1", tables=("scores", "differences")), "my/one", "my/two")
    test = opened("methods")
    assert test.selectbox(key="control.base").options == ["one", "two"] and not test.exception
    assert "its paired differences do not tell them apart" in said(test)
    drawn = [figure.proto.spec for figure in charts(test)]
    test.selectbox(key="control.base").select("my/two").run()
    assert test.query_params["base"] == "two" and [figure.proto.spec for figure in charts(test)] != drawn


@pytest.mark.slow
def test_other_data_for_a_study_of_ones_own_are_asked_of_its_own_base(empty: Path) -> None:
    of_bases(fake_study(empty, "table1", tables=("scores", "differences")), "my/base")
    told = [code.value for code in opened("methods", task="ag_news").code]
    assert any("reproduce table3 --scale small --base my/base" in line for line in told)


@pytest.mark.slow
def test_list_reader_and_form_are_views_of_their_own_in_the_address(empty: Path) -> None:
    assert "study.start" in [button.key for button in opened("studies").button], "there is nothing to list"
    fake_study(empty, "table1")
    listed = opened("studies")
    assert "view" not in listed.query_params and len(listed.dataframe) == 1 and not charts(listed)
    assert "study.start" not in [button.key for button in listed.button] and "study" not in listed.query_params
    assert opened("studies", study="table1-small").query_params["view"] == "study"
    form = opened("studies", **{"new.experiment": "figure6"})
    assert form.query_params["view"] == "new" and not charts(form) and form.button(key="study.start")
    form.segmented_control(key="control.view").set_value("study").run()
    assert form.query_params["view"] == "study" and len(charts(form)) == CHARTS["studies"]


def test_a_row_of_the_list_opens_its_study(empty: Path) -> None:
    fake_study(empty, "table1")
    fake_study(empty, "figure6")

    def script() -> None:
        import streamlit as st

        from skillviz.ui import cache
        from skillviz.ui.pages.studies import studies_page

        st.session_state[studies_page.LISTING] = {"selection": st.session_state["chosen"]}
        studies_page._open(sorted(cache.studies(), key=studies_page.paper_words.place_of))
        st.write(st.session_state["control.study"], st.session_state["control.view"])

    test = AppTest.from_function(script, default_timeout=60)
    test.session_state["chosen"] = {"rows": [1]}
    test.run()
    assert [m.value for m in test.markdown] == ["figure6-small study"]


def test_the_list_tells_scale_state_and_minutes(empty: Path) -> None:
    steps = {str(n): StepNote(kind="localize", title="", state="finished", seconds=150.0) for n in range(2)}
    fake_study(empty, "table1", steps=steps)
    fake_study(empty, "figure2", status="failed", tables=())
    table = opened("studies").dataframe[0].value
    assert list(table)[:2] == ["data", "experiment"] and "study" not in table, "both are in sight on a phone"
    assert set(table["data"]) == {"MR"}
    assert list(table["experiment"]) == [EXPERIMENTS[name].title for name in ("table1", "figure2")]
    assert list(table["state"]) == ["finished", "failed"]
    assert list(table["computing, min"])[0] == 5.0 and list(table["runs"])[0] == 2


def test_studies_that_are_otherwise_alike_are_told_apart_by_their_names(empty: Path) -> None:
    fake_study(empty, "table1")
    fake_study(empty, "table1", name="table1-again")
    fake_study(empty, "figure2")
    table = opened("studies").dataframe[0].value
    assert table["experiment"].duplicated().sum() == 1 and not table.duplicated(["experiment", "data"]).any()
    named = table["data"].str.partition(" · ")[2]
    assert sorted(named) == ["", "table1-again", "table1-small"]


def test_a_failed_study_names_its_steps_and_can_go_on(empty: Path) -> None:
    step = {"kind": "localize", "title": "localize ag_news", "state": "failed", "error": BROKEN}
    rest = {"kind": "table", "title": "make the tables", "state": "missing"}
    fake_study(empty, "table1", status="failed", tables=(), steps={"a": step, "table": rest})
    test = opened("studies", view="study")
    assert "1 step failed. 1 step could not be reached." in test.error[0].value
    assert "**localize AG News**: the model finetuned/x cannot be read." in said(test)
    assert [button.label for button in test.button if button.label == "Resume it"]
    assert "no tables yet" in test.info[0].value


def test_a_study_under_way_tells_step_and_time_and_can_be_cancelled(
    empty: Path, sleeper: subprocess.Popen[str]
) -> None:
    _, _, study = study_of(ExperimentRequest("table2"), Store(empty))
    write_study(study, Store(fake_running(empty, sleeper).parents[1]))
    test = opened("studies", view="new")
    assert not test.exception
    bars = test.get("progress")
    assert len(bars) == 2, "one on the card at the top, one where the button was that started it"
    for bar in bars:
        assert "step 4 of 31: localize mr with stagewise, about 2 min left" in bar.proto.text
    assert "study.start" not in [button.key for button in test.button] and "[Log and cancel](#under-way)" in said(test)
    next(button for button in test.button if button.label == "Cancel").click().run()
    assert sleeper.wait(10) is not None and not test.exception
    assert list(opened("studies").dataframe[0].value["state"]) == ["stopped"] and not test.get("progress")
    assert "It stopped before finishing a step" in said(test) and "It was **stopped** before its end" in said(test)
    assert "study.start" in [button.key for button in test.button]


def test_another_study_under_way_leaves_the_button(empty: Path, sleeper: subprocess.Popen[str]) -> None:
    fake_running(empty, sleeper)
    test = opened("studies", **{"new.experiment": "figure6"})
    assert len(test.get("progress")) == 1 and test.button(key="study.start").label == "Start"


def test_a_cancelled_study_is_called_so(empty: Path) -> None:
    fake_study(empty, "table1", status="cancelled", tables=(), finished="2026-11-20T10:05:00+00:00")
    test = opened("studies")
    assert list(test.dataframe[0].value["state"]) == ["cancelled"]
    test = opened("studies", view="study")
    assert "**cancelled** 20 Nov 2026, 10:05 UTC, no tables yet" in said(test)
    assert "made 20 Nov" not in said(test)


def test_a_study_that_ended_early_says_so(empty: Path) -> None:
    fake_running(empty, None)
    test = opened("studies")
    assert not test.get("progress") and list(test.dataframe[0].value["state"]) == ["stopped"]


@pytest.mark.slow
def test_a_stored_study_stands_until_the_one_begun_anew_has_tables(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "shipped")
    fake_study(tmp_path / "shipped", "table2")
    fake_running(empty, None)
    assert "not measured" in opened("paper").markdown[0].value
    assert copied(opened("paper", item="table2"))["study"] == "table2-small"
    assert list(opened("studies").dataframe[0].value["state"]) == ["finished"], "the list is of the one that ships"
    test = opened("studies", view="study")
    assert "You started this study again, and yours is **stopped**." in test.info[0].value
    assert [button.label for button in test.button if button.label == "Resume it"]


def test_a_study_that_was_cancelled_can_go_on_in_a_later_session(empty: Path) -> None:
    fake_running(empty, None)
    assert [button.label for button in opened("studies", view="study").button if button.label == "Resume it"]


def test_processes_side_by_side_are_in_the_command(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillviz.ui.pages.studies.start.cores", lambda: 2)
    ways = [opened("studies", **{"new.experiment": "figure6", "new.workers": count}) for count in ("1", "2")]
    assert all("Time left: not measured yet" in said(test) for test in ways)
    for count, test in zip((1, 2), ways, strict=True):
        side = " --workers 2" if count == 2 else ""
        assert any(code.value.endswith(f"figure6 --scale small --runs-dir {empty}{side}") for code in test.code)


def test_the_form_tells_question_and_plan_before_the_start(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, int]] = []

    def start(file: Path, where: object, workers: int = 1, backend: object = None) -> Job:
        started.append((Path(file).name, workers))
        return StudyJob("table2-small", Path(file).parent, "running")

    monkeypatch.setattr(jobs, "start_study", start)
    monkeypatch.setattr("skillviz.ui.pages.studies.start.cores", lambda: 2)
    test = opened("studies")
    text = said(test)
    assert "No study is stored yet" in text and "Does a tiny region hold the fine-tuned skill" in text
    assert "then the tables:" in text
    assert "Time left: not measured yet" in text
    assert "python -m skillviz reproduce table2 --scale small" in "\n".join(code.value for code in test.code)
    test.button(key="study.start").click().run()
    assert not test.exception and started == [("study.yaml", 1)]
    assert (empty / "studies" / "table2-small" / "study.yaml").is_file()


def test_a_file_of_ones_own_is_read_and_its_fault_is_a_sentence(empty: Path, tmp_path: Path) -> None:
    assert "study.start" not in [b.key for b in opened("studies", **{"new.study": "file"}).button]
    base, finetuned = tiny_pair(tmp_path)
    path = tmp_path / "own.yaml"
    path.write_text("name: own\nruns: []\n")
    wrong = opened("studies", **{"new.study": "file", "new.file": str(path)})
    assert not wrong.exception and "must have a name and a list of runs" in wrong.error[0].value
    path.write_text(
        f"name: own\ndefaults: {{base: {base}, task: {tiny_task(tmp_path / 'task')}}}\n"
        f"runs:\n- {{finetuned: {finetuned}, localizer: [movement, random], sizes: ['1%']}}\n"
    )
    right = opened("studies", **{"new.study": "file", "new.file": str(path)})
    assert not right.error and "2 localizations, then the tables: 3 steps, none done before." in said(right)
    assert f"python -m skillviz study run {empty}" in right.code[0].value
    path.write_text(path.read_text().replace(f"base: {base}", "base: '${HOME}/base'"))
    refused = opened("studies", **{"new.study": "file", "new.file": str(path)})
    assert "only variables whose names begin with SKILLVIZ_" in refused.error[0].value.replace("\\", "")


def test_a_table_of_a_study_can_be_chosen_and_its_columns_are_explained(empty: Path) -> None:
    fake_study(empty, "table1")
    test = opened("studies", view="study", table="recovered")
    assert "gain_share" in list(next(d.value for d in test.dataframe if "gain_share" in d.value.columns).columns)
    assert "- **gain wanted, %** (`gain_share`)" in said(test)
    assert "the share of the fine-tuning gain that was to be recovered" in said(test)


def test_the_paper_page_opens_on_the_scoreboard_alone(empty: Path) -> None:
    fake_study(empty, "table2")
    test = opened("paper")
    assert not test.exception and not charts(test) and "item" not in test.query_params
    rows = test.dataframe[0].value
    assert len(rows) == sum(len(row.claims) for row in EXPERIMENTS.values())
    of_table2 = rows[rows["where"] == "Table 2"]
    assert set(of_table2["data"]) == {"MR"}
    assert of_table2["here"].str.contains("–| to ").all()
    assert set(rows.loc[rows["where"] != "Table 2", "data"]) == {""}
    assert f"of {len(rows)} claims" in test.markdown[0].value and "not measured" in test.markdown[0].value


@pytest.mark.slow
def test_published_values_stand_beside_ours_and_the_claims_are_judged(empty: Path) -> None:
    fake_study(empty, "table2")
    claim = "The graft is better calibrated than the fine-tuned model."
    test = opened("paper", item="table2", claim=claim)
    assert not test.exception and test.query_params["item"] == "table2"
    assert test.selectbox(key="control.claim").value == claim
    assert "confirmed] 4 of 4 comparisons support it" in said(test)
    table = [d.value for d in with_tables(test).dataframe if "published (± sd)" in d.value.columns][-1]
    row = table[(table["task"] == "SST-2") & (table["method"] == "graft") & (table["metric"] == "ECE")].iloc[0]
    assert row["published (± sd)"] == "3.1 (0.4)" and row["measured on"] == "SST-2 sentences"
    assert "points" in row["difference"]
    assert "A difference is no error" in said(test) and list(test.table[0].value) == ["Aspect", "Paper", "Here"]


@pytest.mark.slow
def test_tasks_of_ones_own_are_shown_and_explained(empty: Path) -> None:
    scores = fake_study(empty, "table2", tables=("scores", "differences")) / "scores.parquet"
    names = {"id_task": {"ag_news": "bakery"}, "task": {"ag_news": "bakery"}}
    pd.read_parquet(scores).replace(names).to_parquet(scores)
    test = opened("paper", item="table2")
    assert not test.exception and any("bakery" in chart.proto.spec for chart in charts(test))
    assert "The paper has no value for bakery." in said(with_tables(test))


def test_a_fine_tuned_score_of_zero_stops_no_page(empty: Path) -> None:
    scores = fake_study(empty, "table2", tables=("scores", "differences")) / "scores.parquet"
    made = pd.read_parquet(scores)
    made.assign(mean=made["mean"].where(made["method"] != "ft", 0.0)).to_parquet(scores)
    for name in ("paper", "studies"):
        assert not opened(name, item="table2").exception


def test_the_paper_page_shows_one_of_several_bases(empty: Path) -> None:
    of_bases(fake_study(empty, "table2", tables=("scores", "differences")), "my/one", "my/two")
    test = opened("paper", item="table2")
    assert not test.exception and test.selectbox(key="control.base").options == ["one", "two"]


@pytest.mark.nightly
@pytest.mark.parametrize("item", ["table1", "table4", "table8", "figure8", "figure6", "sensitivity"])
def test_every_kind_of_item_opens_on_its_study(item: str, empty: Path) -> None:
    fake_study(empty, item)
    test = opened("paper", item=item)
    assert not test.exception and not test.error
    has_claim = EXPERIMENTS[item].claims and "not measured" not in test.markdown[0].value
    assert len(charts(test)) == item.startswith("table") + bool(has_claim)


@pytest.mark.parametrize("item", ["table2", "figure9"])
def test_without_a_study_the_published_stands_alone_with_the_command(item: str, empty: Path) -> None:
    test = opened("paper", item=item)
    assert not test.exception and f"reproduce {item} --scale small` measures it, in about " in test.info[0].value
    assert "Not measured: no study of this is stored" in test.info[0].value


@pytest.mark.slow
@pytest.mark.parametrize("item", [name for name in WITHOUT if name not in EXPERIMENTS][:4])
def test_what_no_experiment_asks_is_said_with_its_reason(item: str, empty: Path) -> None:
    test = opened("paper", item=item)
    assert not test.exception and "There is no experiment of this here." in said(test)


@pytest.mark.slow
def test_the_papers_own_slips_are_told_where_they_concern(empty: Path) -> None:
    assert "its row averages 72.7" in said(opened("paper", item="table7"))
    assert "disagrees with itself" not in "".join(e.label for e in opened("paper", item="table3").expander)


@pytest.mark.nightly
def test_other_optimizers_are_shown_where_asked_for(empty: Path) -> None:
    fake_study(empty, "table1")
    drawn = {on: "".join(chart.proto.spec for chart in charts(opened("methods", further=on))) for on in ("no", "yes")}
    assert "AdamW" not in drawn["no"] and "AdamW" in drawn["yes"]
    assert all(f'"name":"{name}"' in drawn["no"] for name in ("graft", "LoRA", "BitFit", "fine-tuned"))


@pytest.mark.slow
def test_rivals_are_on_methods_once_they_are_scored_and_the_command_before(empty: Path) -> None:
    fake_study(empty, "table1")
    store, sizes = Store(empty), {"entries 16": 16, "signs": 300, "rank 1": 300, "int8": 300}
    run = fake_run(store, base=BASE, **SMALL)
    before = opened("methods")
    assert not before.exception and f"python -m skillviz rivals {run.id}" in [code.value for code in before.code]
    ids, labels, logits = run.logits("grafted")
    rows = [
        region_rows(name, number, size, [(ONE, 0), (CHOSEN, 0)], np.stack([logits] * 2), ids, labels, run.labels)
        for number, (name, size) in enumerate(sizes.items(), start=1)
    ]
    facts = {name: {"bytes": 1000.0 * len(name), "gain": 2.0, "fitted": 2.0, "low": 1.0} for name in sizes}
    facts |= {"pretrained": {}, "finetuned": {"temperature": 2.0}}
    store_parts(store, run, pd.concat(rows), grouping=RIVALS, split="test", draws=0, seed=0, seconds=1.0, facts=facts)
    after = opened("methods", rivals_by="nll")
    assert not after.exception and len(charts(after)) == len(charts(before)) + 1
    assert "in 6 kB has" in said(after) and any(alt.proto.alt.startswith("NLL by bytes: ") for alt in charts(after))

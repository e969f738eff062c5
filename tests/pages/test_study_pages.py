"""Tests of methods, studies and paper on stored studies: shown and compared; empty, running and failed states; and of
the form that starts a study: an experiment on own models, the number of processes, and its command."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.errors import BadInput
from skillviz.jobs.job import Job
from skillviz.jobs.kinds import StudyJob
from skillviz.models import fetch
from skillviz.runs.part_scores import CHOSEN, ONE, RIVALS, region_rows, store_parts
from skillviz.runs.store import Store
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.request import EDITED, study_of, write_study
from skillviz.studies.paper.scales import SCALES
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import ExperimentRequest, StudySpec, read_study
from skillviz.studies.store import StepNote, studies_in
from skillviz.tasks.project import PROJECT
from skillviz.ui import cache, study_choice
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.studies import start as study_start
from tests.fake_run import SMALL, fake_run
from tests.pages.test_pages import explained, has_link
from tests.studies.fake_study import fake_running, fake_study
from tests.studies.fake_tables import BASE, FAKE_TABLES, TASKS
from tests.tiny import tiny_pair, tiny_task
from tests.ui.driven import charts, copied, figures, labels, lacks, opened, pressed, said, with_tables

CHARTS = {"methods": 7, "studies": 17, "paper": 2}
QUERY = {"methods": {}, "studies": {"view": "study"}, "paper": {"item": "table1"}}
COMPARED = ("scores", "differences")


def states(test: AppTest) -> list[str]:
    return list(test.dataframe[0].value["result"])


def alts(test: AppTest) -> list[str]:
    return [chart.proto.alt for chart in charts(test)]


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("name", CHARTS)
def test_a_page_opens_on_a_study_with_every_chart_explained(name: str, empty: Path) -> None:
    fake_study(empty, "table1")
    test = opened(name, **QUERY[name])
    assert said(test, "title") == PAGES[name].question and not test.error and not test.warning
    assert explained(test) == {CHARTS[name]} and has_link(test)
    assert "study" not in test.query_params and copied(test)["study"] == "table1-small"


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
    test = opened(name, **QUERY[name])
    of_study = alts(test)[:-1] if name == "methods" else alts(test)  # the last one is the board of hidden skills
    begins = {
        words for alt in of_study for words in ("exact match", "perplexity") if alt.startswith(words + " on SST-2")
    }
    assert begins == {"exact match", "perplexity"} and not test.exception and not test.error
    assert not [alt for alt in of_study if "ECE" in alt or "ccuracy" in alt or alt.endswith(": .")]


def test_a_study_without_tables_is_named_and_not_shown(empty: Path) -> None:
    fake_running(empty, None, "table1-small")
    record = empty / "studies" / "table1-small" / "study.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "experiment": "table1"}))
    test = opened("methods")
    assert "`table1-small` (not finished) has no tables yet" in said(test, "info") and not charts(test)


@pytest.mark.nightly
def test_the_pages_first_experiment_comes_first_and_the_address_chooses(empty: Path) -> None:
    fake_study(empty, "table3")
    link = copied(opened("methods"))
    fake_study(empty, "table1")
    found = [copied(opened("methods")), copied(opened("studies", view="study"))]
    assert [link, *found] == [{"study": "table3-small"}, *[{"study": "table1-small"}] * 2]
    assert opened("methods", **link).query_params["study"] == "table3-small", "a copied link stays what it was"


def test_methods_open_on_a_study_that_compares_grafting_with_another_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillviz.ui.cache.studies", lambda: studies_in(Store(PROJECT / "cached_runs")))
    names = [study.name for study in study_choice.offered(PAGES["methods"].experiments, boards=True)]
    assert names[0] == "table1-small" and "baselines-minilm" in names and "figure2-small" not in names
    assert "table8-small" in names[1:], "other regions alone are no other method"


@pytest.mark.nightly
def test_methods_are_compared_with_the_graft_by_paired_differences(empty: Path) -> None:
    fake_study(empty, "table1")
    test = opened("methods", task="sst2_sentences", size="0.01")
    sentence = next(m.value for m in test.markdown if m.value.startswith("**SST-2 sentences**"))
    assert "accuracy of **region re-trained**" in sentence and sentence.endswith("vs a graft of **1%**.")
    assert sentence.count("-badge[") == 1, "the other verdicts are below the figures"
    assert not lacks(said(test), "BitFit", "LoRA")
    test.selectbox(key="control.task").select("ag_news").run()
    assert said(test, "markdown").startswith("**AG News**") and test.query_params["task"] == "ag_news"
    assert "scores models of AG News on other data" in said(test)


def of_bases(folder: Path, *bases: str) -> None:
    """Change an invented study to these bases, with lower scores for later ones."""
    file, scores = folder / "study.yaml", folder / "scores.parquet"
    file.write_text(file.read_text().replace("base: examples/models/minilm-l6", f"base: [{', '.join(bases)}]"))
    made = pd.read_parquet(scores)
    several = [made.assign(base=base, mean=made["mean"] / (number + 2)) for number, base in enumerate(bases)]
    pd.concat(several).to_parquet(scores)


def stored(
    root: Path, experiment: str, *tables: str, bases: tuple[str, ...] = (), without_gain: tuple[str, ...] = (),
    renamed: dict[str, str] | None = None, zero: str = "", **told: Any,
) -> None:  # fmt: skip
    """Store an invented study with these tables, or all: of these bases, without a gain on some tasks, with some
    tasks renamed, and with scores of zero for one method."""
    folder = fake_study(root, experiment, **{"tables": tables or None, **told})
    if bases:
        of_bases(folder, *bases)
    if without_gain:
        gain = pd.read_parquet(folder / "gain.parquet")
        gain.loc[gain["task"].isin(without_gain), ["value", "low", "high"]] = float("nan")
        gain.to_parquet(folder / "gain.parquet", index=False)
    if renamed or zero:
        made = pd.read_parquet(folder / "scores.parquet").replace({"id_task": renamed or {}, "task": renamed or {}})
        made.assign(mean=made["mean"].where(made["method"] != zero, 0.0)).to_parquet(folder / "scores.parquet")


def at(tier: str, *row: Any) -> Any:
    return pytest.param(*row, marks=getattr(pytest.mark, tier))


MAPS = ("figure8", "overlap", "isolation", "gain", "stability", "scores", "note")
STAGES = ("table4", "stages", *COMPARED, "note")
CANCELLED = {"status": "cancelled", "tables": (), "finished": "2026-11-20T10:05:00+00:00"}
TOGETHER = "Data: 2 studies of one scale, base and readout: `table1-small` and `table3-small`"
SLIP = "disagrees with itself"


@pytest.mark.parametrize(
    ("page", "query", "studies", "figures", "says", "omits"),
    [
        ("methods", {}, [], 0, ["No such study is stored yet", "python -m skillviz reproduce table1 --scale small"],
         []),
        ("tasks", {}, [], 0, ["reproduce figure8 --scale small"], []),
        ("continual", {}, [], 0, ["reproduce table4 --scale small"], []),
        *(("paper", {"item": item}, [], None,
           ["Not measured: no study of this is stored", f"reproduce {item} --scale small` measures it, in about "], [])
          for item in ("table2", "figure9")),
        at("slow", "paper", {"item": "figure99"}, [], None,
           ["names 'figure99', which is no table or figure of the paper"], []),
        at("slow", "paper", {"item": "table7"}, [], None, ["its row averages 72.7", SLIP], []),
        at("slow", "paper", {"item": "table3"}, [], None, [], [SLIP, "which is no table or figure"]),
        ("paper", {"item": "table2"}, [(("table2", *COMPARED), {"zero": "ft"})], None,
         ["The graft keeps more than 95% of the fine-tuned score."], []),
        ("studies", {"view": "study"}, [(("table2", *COMPARED), {"zero": "ft"})], None, ["`table2-small`"], []),
        ("studies", {"view": "study"}, [(("table1",), CANCELLED)], 0,
         ["**cancelled** 20 Nov 2026, 10:05 UTC, no tables yet"], ["made 20 Nov"]),
        ("studies", {"view": "study", "table": "recovered"}, [(("table1",), {})], 17,
         ["- **gain wanted, %** (`gain_share`)", "the share of the fine-tuning gain that was to be recovered"], []),
        ("methods", {}, [(("table1", "scores", "note"), {})], 4, ["no paired comparison"], []),
        at("slow", "methods", {"study": "figure9-small"}, [(("table1",), {}), (("figure9",), {})], 7,
           ["This page does not show it"], []),
        at("slow", "methods", {"study": "gone"}, [(("table1",), {})], 7, ["does not exist here"], []),
        at("slow", "methods", {"study": "table1-small"},
           [(("table1", *COMPARED), {}), (("table3", *COMPARED, "note"), {"seed": 1}),
            (("figure5", "scores"), {"bases": ("my/base",)})], None, [TOGETHER], []),
        *(at("nightly", "methods", {"study": name},
             [(("table1", *COMPARED), {}),
              (("table3", *COMPARED), {"name": "table3-small-own", "tasks": TASKS[:2], "bases": ("my/base",)})],
             None, [f"Data: the study `{name}`."], []) for name in ("table1-small", "table3-small-own")),
        at("slow", "methods", {"task": "ag_news"}, [(("table1", *COMPARED), {"bases": ("my/base",)})], None,
           ["reproduce table3 --scale small --base my/base"], []),
        ("tasks", {}, [(MAPS, {})], 4,
         ["Related tasks share more", "of the multi-task model's gain on its own task",
          "The union of CR and SST-2 sentences recovers"], []),
        ("tasks", {"kind": "iou", "regions": "purified", "union": "qnli~ag_news"}, [(MAPS, {})], 4,
         ["The union of QNLI and AG News recovers", "(purified)"], []),
        ("tasks", {}, [(MAPS, {})], 4, ["reproduce subsets"], []),
        ("tasks", {}, [((*MAPS, "subsets"), {})], 4,
         ["Inside the subset, the union without shared parameters recovers **7", "A model fine-tuned on this subset"],
         ["reproduce subsets"]),
        ("tasks", {"union": "none"}, [(MAPS, {})], 3, ["Choose one or more tasks"], []),
        ("tasks", {"union": "sst2_sentences"}, [(MAPS, {})], 4,
         ["The region of SST-2 sentences recovers", "outside it"], []),
        ("tasks", {"union": "sst2_sentences~ag_news"}, [(MAPS, {})], 3, ["This union is not stored", "study run"], []),
        ("tasks", {"union": "sst2_sentences"}, [(("figure8", "overlap", "isolation", "note"), {})], 1,
         ["need the weights"], []),
        ("tasks", {}, [(MAPS, {"without_gain": TASKS})], 2, ["No task has a gain"], ["n/a", "Any set of tasks"]),
        ("tasks", {}, [(MAPS, {"without_gain": ("sst2_sentences",)})], 4,
         ["Left out of the gains", "The union of CR and SST-2 sentences recovers **"], ["n/a"]),
        ("continual", {}, [(STAGES, {})], 1,
         ["SST-2 sentences **lost** 16.0 points", "unchanged, prediction by prediction", "Accuracy by stage."], []),
        ("continual", {"metric": "ece"}, [(STAGES, {})], 1, ["ECE since each task", "debiased ECE, %"], []),
        ("continual", {}, [(("table4", "note"), {})], 0, ["No stage of this study is finished", "study run"], []),
    ],
    ids=lambda value: "&".join(map("=".join, value.items())) if isinstance(value, dict) else None,
)  # fmt: skip
def test_a_page_says_what_is_stored_and_what_is_not(
    page: str, query: dict[str, str], studies: list[tuple[tuple[str, ...], dict[str, Any]]], figures: int | None,
    says: list[str], omits: list[str], empty: Path,
) -> None:  # fmt: skip
    for names, told in studies:
        stored(empty, *names, **told)
    test = opened(page, **query)
    text, drawn = "\n".join([said(test), *labels(test, "expander")]), [chart.proto.spec for chart in charts(test)]
    assert not lacks("\n".join([text, *alts(test), *drawn]), *says) and lacks(text, *omits) == omits
    assert figures in (len(drawn), None) and all(alts(test)) and not (studies and test.error)
    gone = {*query} - {*test.query_params}
    assert gone == ({"item"} if "figure99" in query.values() else gone & {"study"})


def ticks(test: AppTest, axis: str) -> list[list[str]]:
    """Return the tasks on this axis of each figure."""
    found = [figure["layout"][axis].get("ticktext", ()) for figure in figures(test)]
    return [[name.replace("<br>", "") for name in names] for names in found]


def test_tasks_of_one_family_stand_together(empty: Path) -> None:
    stored(empty, "figure8", tasks=("cr", "sst2_sentences", "qnli", "ag_news"))
    names = ticks(opened("tasks"), "yaxis")[0]
    assert abs(names.index("CR") - names.index("SST-2sentences")) == 1


def test_a_task_without_a_gain_is_in_no_map_of_gains_but_its_region_is(empty: Path) -> None:
    stored(empty, *MAPS, without_gain=("sst2_sentences",))
    test = opened("tasks", union="sst2_sentences~cr")
    of_tasks, (_, of_regions, of_union, *_) = ticks(test, "xaxis")[1], ticks(test, "yaxis")
    assert ["SST-2" in str(names) for names in (of_tasks, of_regions, of_union)] == [False, True, False]
    assert len(of_tasks) == 3


@pytest.mark.nightly
@pytest.mark.parametrize("page", ["methods", "paper", "studies"])
def test_a_base_of_ones_own_is_named(page: str, empty: Path) -> None:
    of_bases(fake_study(empty, "table1", name="table1-small-own"), "my/base")
    test = opened(page, study="table1-small-own", item="table1")
    assert not test.exception and test.selectbox(key="control.study").options == ["Table 1 · MR · base"]
    if page == "paper":
        here = [words.replace("\\", "") for words in test.table[0].value["Here"]]
        assert here == [EDITED.here] and "10.6 million" not in said(test)


@pytest.mark.nightly
def test_of_several_bases_one_is_chosen(empty: Path) -> None:
    of_bases(fake_study(empty, "table1", tables=COMPARED), "my/one", "my/two")
    test = opened("methods")
    assert test.selectbox(key="control.base").options == ["one", "two"]
    assert "its paired differences do not tell them apart" in said(test)
    drawn = [figure.proto.spec for figure in charts(test)]
    test.selectbox(key="control.base").select("my/two").run()
    assert test.query_params["base"] == "two" and [figure.proto.spec for figure in charts(test)] != drawn


@pytest.mark.slow
def test_list_reader_and_form_are_views_of_their_own_in_the_address(empty: Path) -> None:
    assert starts(opened("studies")), "there is nothing to list"
    fake_study(empty, "table1")
    listed = opened("studies")
    assert len(listed.dataframe) == 1 and not charts(listed) and not starts(listed)
    assert not {"view", "study"} & {*listed.query_params}
    assert opened("studies", study="table1-small").query_params["view"] == "study"
    form = opened("studies", new__experiment="figure6")
    assert form.query_params["view"] == "new" and not charts(form) and starts(form)
    form.segmented_control(key="control.view").set_value("study").run()
    assert form.query_params["view"] == "study" and len(charts(form)) == CHARTS["studies"]


def test_a_row_of_the_list_opens_its_study(empty: Path) -> None:
    fake_study(empty, "table1")
    fake_study(empty, "figure6")

    def script() -> None:
        import streamlit as st

        from skillviz.ui import cache
        from skillviz.ui.pages.studies import studies_page

        st.session_state[studies_page.LISTING] = {"selection": {"rows": [1]}}
        studies_page._open(sorted(cache.studies(), key=studies_page.paper_words.place_of))
        st.write(st.session_state["control.study"], st.session_state["control.view"])

    assert said(opened(script)) == "figure6-small study"


def test_the_list_tells_scale_state_and_minutes(empty: Path) -> None:
    steps = {str(n): StepNote(kind="localize", title="", state="finished", seconds=150.0) for n in range(2)}
    fake_study(empty, "table1", steps=steps)
    fake_study(empty, "figure2", status="failed", tables=())
    table = opened("studies").dataframe[0].value
    assert list(table)[:2] == ["data", "experiment"] and "study" not in table, "both are in sight on a phone"
    told = table.iloc[:, :3].to_numpy().tolist()
    assert told == [["MR", EXPERIMENTS[name].title, result] for name, result in
                    (("table1", "3 of 4 confirmed"), ("figure2", "failed"))]  # fmt: skip
    assert list(table["computing, min"])[0] == 5.0 and list(table["runs"])[0] == 2


def test_studies_that_are_otherwise_alike_are_told_apart_by_their_names(empty: Path) -> None:
    for experiment, name in (("table1", ""), ("table1", "table1-again"), ("figure2", "")):
        fake_study(empty, experiment, name=name)
    table = opened("studies").dataframe[0].value
    assert table["experiment"].duplicated().sum() == 1 and not table.duplicated(["experiment", "data"]).any()
    assert sorted(table["data"].str.partition(" · ")[2]) == ["", "table1-again", "table1-small"]


def test_a_failed_study_names_its_steps_and_can_go_on(empty: Path) -> None:
    broken = {"kind": "BadModel", "message": "the model finetuned/x cannot be read.", "hint": ""}
    step = {"kind": "localize", "title": "localize ag_news", "state": "failed", "error": broken}
    rest = {"kind": "table", "title": "make the tables", "state": "missing"}
    fake_study(empty, "table1", status="failed", tables=(), steps={"a": step, "table": rest})
    test = opened("studies", view="study")
    assert "1 step failed. 1 step could not be reached." in said(test, "error")
    assert "**localize AG News**: the model finetuned/x cannot be read." in said(test)
    assert "Resume it" in labels(test) and "no tables yet" in said(test, "info")


def test_a_study_under_way_tells_step_and_time_and_can_be_cancelled(
    empty: Path, sleeper: subprocess.Popen[str]
) -> None:
    write_study(study_of(ExperimentRequest("table2"), Store(empty))[2], Store(fake_running(empty, sleeper).parents[1]))
    test = opened("studies", view="new")
    first, again = (bar.proto.text for bar in test.get("progress"))  # on the card, and where its button was
    assert "step 4 of 31: localize mr with stagewise, about 2 min left" in first == again
    assert not starts(test) and "[Log and cancel](#under-way)" in said(test)
    pressed(test, "Cancel")
    assert sleeper.wait(10) is not None and states(opened("studies")) == ["stopped"]
    assert not lacks(said(test), "It stopped before finishing a step", "It was **stopped** before its end")
    assert starts(test) and not test.get("progress")


def test_another_study_under_way_leaves_the_button(empty: Path, sleeper: subprocess.Popen[str]) -> None:
    fake_running(empty, sleeper)
    test = opened("studies", new__experiment="figure6")
    assert len(test.get("progress")) == 1 and test.button(key="study.start").label == "Start"


def test_a_study_that_ended_early_says_so_and_can_go_on_in_a_later_session(empty: Path) -> None:
    fake_running(empty, None)
    test = opened("studies")
    assert not test.get("progress") and states(test) == ["stopped"]
    assert "Resume it" in labels(opened("studies", view="study"))


@pytest.mark.slow
def test_a_stored_study_stands_until_the_one_begun_anew_has_tables(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: tmp_path / "shipped")
    fake_study(tmp_path / "shipped", "table2")
    fake_running(empty, None)
    assert "not measured" in opened("paper").markdown[0].value
    assert copied(opened("paper", item="table2"))["study"] == "table2-small"
    assert states(opened("studies")) == ["1 of 2 confirmed"], "the list is of the one that ships"
    test = opened("studies", view="study")
    assert "You started this study again, and yours is **stopped**." in said(test, "info")
    assert "Resume it" in labels(test)


def test_the_paper_page_opens_on_the_scoreboard_alone(empty: Path) -> None:
    fake_study(empty, "table2")
    test = opened("paper")
    assert not test.exception and not charts(test) and "item" not in test.query_params
    rows = test.dataframe[0].value
    assert len(rows) == sum(len(row.claims) for row in EXPERIMENTS.values())
    of_table2, rest = (rows[(rows["where"] == "Table 2") == here] for here in (True, False))
    assert set(of_table2["data"]) == {"MR"} and set(rest["data"]) == {""}
    assert of_table2["here"].str.contains("–| to ").all()
    assert not lacks(test.markdown[0].value, f"of {len(rows)} claims", "not measured")


@pytest.mark.slow
def test_tasks_of_ones_own_are_shown_and_explained(empty: Path) -> None:
    stored(empty, "table2", *COMPARED, renamed={"ag_news": "bakery"})
    test = opened("paper", item="table2")
    assert any("bakery" in chart.proto.spec for chart in charts(test))
    assert not lacks(said(with_tables(test)), "The paper has no value for bakery.")


@pytest.mark.slow
def test_published_values_stand_beside_ours_and_the_claims_are_judged(empty: Path) -> None:
    fake_study(empty, "table2")
    claim = "The graft is better calibrated than the fine-tuned model."
    test = opened("paper", item="table2", claim=claim)
    assert test.query_params["item"] == "table2" and test.selectbox(key="control.claim").value == claim
    assert not lacks(said(test), "confirmed] 4 of 4 comparisons support it")
    assert list(test.table[0].value) == ["Aspect", "Paper", "Here"]
    table = [d.value for d in with_tables(test).dataframe if "published (± sd)" in d.value.columns][-1]
    assert not lacks(said(test), "A difference is no error")
    row = table[(table["task"] == "SST-2") & (table["method"] == "graft") & (table["metric"] == "ECE")].iloc[0]
    assert [row["published (± sd)"], row["measured on"]] == ["3.1 (0.4)", "SST-2 sentences"]
    assert "points" in row["difference"]


def test_the_paper_page_shows_one_of_several_bases(empty: Path) -> None:
    of_bases(fake_study(empty, "table2", tables=COMPARED), "my/one", "my/two")
    test = opened("paper", item="table2")
    assert not test.exception and test.selectbox(key="control.base").options == ["one", "two"]


@pytest.mark.nightly
@pytest.mark.parametrize("item", ["table1", "table4", "table8", "figure8", "figure6", "sensitivity"])
def test_every_kind_of_item_opens_on_its_study(item: str, empty: Path) -> None:
    fake_study(empty, item)
    test = opened("paper", item=item)
    has_claim = EXPERIMENTS[item].claims and "not measured" not in test.markdown[0].value
    assert len(charts(test)) == item.startswith("table") + bool(has_claim)
    assert not test.exception and not test.error


@pytest.mark.nightly
def test_other_optimizers_are_shown_where_asked_for(empty: Path) -> None:
    fake_study(empty, "table1")
    drawn = {on: "".join(chart.proto.spec for chart in charts(opened("methods", further=on))) for on in ("no", "yes")}
    assert "AdamW" not in drawn["no"] and "AdamW" in drawn["yes"]
    assert not lacks(drawn["no"], *(f'"name":"{name}"' for name in ("graft", "LoRA", "BitFit", "fine-tuned")))


@pytest.mark.slow
def test_rivals_are_on_methods_once_they_are_scored_and_the_command_before(empty: Path) -> None:
    fake_study(empty, "table1")
    store, sizes = Store(empty), {"entries 16": 16, "signs": 300, "rank 1": 300, "int8": 300}
    run = fake_run(store, base=BASE, **SMALL)
    before = opened("methods")
    assert f"python -m skillviz rivals {run.id}" in said(before, "code").splitlines()
    ids, labels, logits = run.logits("grafted")
    rows = [
        region_rows(name, number, size, [(ONE, 0), (CHOSEN, 0)], np.stack([logits] * 2), ids, labels, run.labels)
        for number, (name, size) in enumerate(sizes.items(), start=1)
    ]
    facts = {name: {"bytes": 1000.0 * len(name), "gain": 2.0, "fitted": 2.0, "low": 1.0} for name in sizes}
    facts |= {"pretrained": {}, "finetuned": {"temperature": 2.0}}
    store_parts(store, run, pd.concat(rows), grouping=RIVALS, split="test", draws=0, seed=0, seconds=1.0, facts=facts)
    after = opened("methods", rivals_by="nll")
    assert "in 6 kB has" in said(after) and len(charts(after)) == len(charts(before)) + 1
    assert any(alt.startswith("NLL by bytes: ") for alt in alts(after))


PAIR = "examples/pairs/mr-sgd"
TWO_TASKS = "mr,subj"
OF_PROJECT = "only variables whose names begin with SKILLVIZ_"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, int]]:
    """Record the file and the number of processes of each study that the button starts; start none, on two cores."""
    found: list[tuple[Path, int]] = []

    def start(file: Path, where: object, workers: int = 1, backend: object = None) -> Job:
        found.append((Path(file), workers))
        return StudyJob("x", Path(file).parent, "running")

    monkeypatch.setattr(jobs, "start_study", start)
    monkeypatch.setattr(study_start, "cores", lambda: 2)
    return found


def asking(**fields: str) -> AppTest:
    return opened("studies", **{f"own.{name}": value for name, value in fields.items()})


def own(test: AppTest) -> Any:
    return next(part for part in test.expander if part.label == study_start.MODELS_TITLE)


def command(test: AppTest) -> list[str]:
    return shlex.split(next(code.value for code in test.code if "reproduce" in code.value))


def starts(test: AppTest) -> bool:
    return "study.start" in [button.key for button in test.button]


def begun(test: AppTest) -> AppTest:
    return test.button(key="study.start").click().run()


def test_the_form_tells_question_and_plan_before_the_start(empty: Path, started: list[tuple[Path, int]]) -> None:
    test = opened("studies")
    told = ("No study is stored yet", "Does a tiny region hold the fine-tuned skill", "then the tables:")
    made = ("Time left: not measured yet", "python -m skillviz reproduce table2 --scale small")
    assert not lacks(said(test), *told, *made)
    file = empty / "studies" / "table2-small" / "study.yaml"
    assert said(begun(test)) and started == [(file, 1)] and file.is_file()


@pytest.mark.nightly
def test_the_fields_are_folded_until_one_is_set_and_each_explains_itself(empty: Path) -> None:
    folded = own(opened("studies"))
    fields = (*folded.selectbox, *folded.multiselect, *folded.number_input)
    assert [bool(field.help) for field in fields] == [True] * 6
    tests = (opened("studies"), asking(seeds="2"), asking(base=BASE))
    assert [own(test).proto.expanded for test in tests] == [False, True, True]


@pytest.mark.nightly
def test_an_experiment_is_asked_of_a_base_and_tasks_of_ones_own(empty: Path, started: list[tuple[Path, int]]) -> None:
    test = asking(base=BASE, tasks=TWO_TASKS, seeds="2")
    assert not lacks(said(test), "4 fine-tunings", "Time left: not measured yet") and not test.error
    text, ((file, _),) = said(begun(test)), started
    study = read_study(file)
    asked = {(entry["base"], entry["task"]): 0 for entry in study.runs}
    assert list(asked) == [(BASE, f"examples/tasks/{task}.yaml") for task in ("mr", "subj")]
    assert study.experiment == "table2" and f"`{study.name}`" in text and study.name != "table2-small"


@pytest.mark.slow
def test_the_command_asks_the_same_with_paths_in_full(empty: Path, tmp_path: Path) -> None:
    (tmp_path / "base").symlink_to(Path(BASE).absolute())
    base = str(tmp_path / "base")
    assert command(asking(base=base, tasks=TWO_TASKS, finetuned="none", readout="head", seeds="3")) == [
        "python", "-m", "skillviz", "reproduce", "table2", "--scale", "small", "--base", base,
        "--readout", "head", "--seeds", "3", "--tasks", "mr", "--tasks", "subj",
        "--runs-dir", str(empty),
    ]  # fmt: skip


def test_a_fine_tuned_model_of_one_task_is_not_fine_tuned_again(empty: Path) -> None:
    right = asking(base=BASE, tasks="mr", finetuned=PAIR)
    assert not right.error and "fine-tuning" not in said(right).partition("then the tables")[0].rpartition("\n")[2]
    assert f"--finetuned {PAIR} --tasks mr" in shlex.join(command(right))


@pytest.mark.cases(4, 2)
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"base": "/nowhere"}, "/nowhere"),
        ({"tasks": "sst9"}, "'sst9' is not a task of the scale small"),
        ({"base": BASE, "tasks": TWO_TASKS, "finetuned": PAIR}, "a fine-tuned model belongs to one task"),
        ({"tasks": "gone.yaml"}, "gone.yaml"),
        ({"readout": "causal"}, "causal"),
        ({"base": "${HOME}/model"}, OF_PROJECT),
        ({"tasks": "$HOME/task.yaml"}, OF_PROJECT),
        ({"finetuned": "${PATH}", "tasks": "mr"}, OF_PROJECT),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_and_nothing_is_started(
    fields: dict[str, str], why: str, empty: Path
) -> None:
    test = asking(**fields)
    assert len(test.error) == 1 and why in said(test, "error") and not starts(test)
    assert not empty.exists(), "a look leaves nothing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "also", "why"),
    [("subj", "", "on other data with the same labels"), ("subj", "cr", ""), ("mr", "cr", None)],
)
def test_other_data_are_named_beside_the_tasks(tasks: str, also: str, why: str | None, empty: Path) -> None:
    test = opened("studies", new__experiment="table3", own__tasks=tasks, **({"own.also": also} if also else {}))
    assert len(test.error) == (why is not None) != starts(test) and (why or "") in said(test, "error")
    assert why is not None or "--tasks mr --also cr" in shlex.join(command(test))


@pytest.mark.slow
def test_a_variable_of_the_project_may_stand_in_a_path(
    empty: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "base").symlink_to(Path(BASE).absolute())
    monkeypatch.setenv("SKILLVIZ_MINE", str(tmp_path))
    test = asking(base="${SKILLVIZ_MINE}/base", tasks="mr")
    assert not test.error and "1 fine-tuning" in said(test)


def test_the_fields_and_the_number_of_processes_are_in_address_and_command(
    empty: Path, started: list[tuple[Path, int]]
) -> None:
    asks = [*["python", "-m", "skillviz", "reproduce", "figure6", "--scale", "small"], "--runs-dir", str(empty)]
    test = opened("studies", new__experiment="figure6")
    assert command(test) == asks and test.slider(key="control.new.workers").value == 1
    test.number_input(key="form.own.seeds").set_value(2).run()
    assert test.query_params["own.seeds"] == "2" and "own.base" not in test.query_params
    assert command(test) == [*asks[:-2], "--seeds", "2", *asks[-2:]]
    test.slider(key="control.new.workers").set_value(2).run()
    assert command(test) == [*asks[:-2], "--seeds", "2", *asks[-2:], "--workers", "2"]
    begun(test)
    assert [workers for _, workers in started] == [2]


CLAIMS = (
    f"name: NAME\nrequest: {{experiment: table2, scale: small}}\ndefaults: {{base: {BASE}, finetuned: {PAIR}}}\nruns:\n"
    "- {task: examples/tasks/mr.yaml, localizer: [movement, random], sizes: ['1%']}\n"
)


def file_named(folder: Path, name: str, localizers: str = "[movement, random]", *, claims: bool = False) -> Path:
    """Write a study file that says that it is an experiment, or does not."""
    path = folder / "own.yaml"
    text = CLAIMS if claims else CLAIMS.replace("request: {experiment: table2, scale: small}\n", "")
    path.write_text(text.replace("NAME", name).replace("[movement, random]", localizers))
    return path


def given(path: Path | str) -> AppTest:
    return opened("studies", new__study="file", new__file=path)


def ran(folder: Path) -> None:
    """Write the record of a study that was run with its current file."""
    text = (folder / "study.yaml").read_text()
    shutil.rmtree(folder)
    key = study_plan(StudySpec(**yaml.safe_load(text))).key
    fake_study(folder.parent.parent, "table2", name=folder.name, tables=(), key=key)
    record = json.loads((folder / "study.json").read_text()) | {"experiment": None, "scale": None}
    (folder / "study.json").write_text(json.dumps(record))
    (folder / "study.yaml").write_text(text)


def test_a_file_of_ones_own_is_read_and_its_fault_is_a_sentence(empty: Path, tmp_path: Path) -> None:
    assert not starts(opened("studies", new__study="file"))
    base, finetuned = tiny_pair(tmp_path)
    path = tmp_path / "own.yaml"
    runs = f"runs:\n- {{finetuned: {finetuned}, localizer: [movement, random], sizes: ['1%']}}\n"
    text = f"name: own\ndefaults: {{base: {base}, task: {tiny_task(tmp_path / 'task')}}}\n{runs}"
    path.write_text(text)
    plan = "2 localizations, then the tables: 3 steps, none done before."
    assert not lacks(said(given(path)), plan, f"python -m skillviz study run {empty}") and not given(path).error
    faults = {"name: own\nruns: []\n": "must have a name and a list of runs",
              text.replace(f"base: {base}", "base: '${HOME}/base'"): OF_PROJECT}  # fmt: skip
    for wrong, why in faults.items():
        path.write_text(wrong)
        assert why in said(given(path), "error")


@pytest.mark.parametrize(
    ("text", "says", "made"),
    [
        (CLAIMS.replace("NAME", "mine"), "its entries are not what that experiment asks", ("mine", None, None)),
        (StudySpec(**EXPERIMENTS["figure6"].build(SCALES["small"])).model_copy(update={"name": "mine"}).yaml_text(), "",
         ("mine", "figure6", "small")),
    ],
    ids=["says so", "asks so"],
)  # fmt: skip
def test_a_file_is_an_experiment_if_it_asks_what_the_experiment_asks(
    text: str, says: str, made: tuple[str, str | None, str | None], empty: Path, started: list[tuple[Path, int]],
    tmp_path: Path,
) -> None:  # fmt: skip
    (tmp_path / "own.yaml").write_text(text)
    test = given(tmp_path / "own.yaml")
    assert says in said(test, "info") and ("is not what" in said(test) or "are not what" in said(test)) == bool(says)
    assert not test.error and begun(test)
    study = read_study(started[0][0])
    assert (study.name, study.experiment, study.scale) == made


@pytest.mark.parametrize(
    ("place", "name", "claims"),
    [("own", "Table2 small", False), ("shipped", "Table2 small", False), ("own", "table2-small", True)],
)
def test_no_file_takes_the_place_of_a_stored_study_of_an_experiment(
    place: str, name: str, claims: bool, empty: Path, tmp_path: Path, started: list[tuple[Path, int]]
) -> None:
    folder = fake_study(empty if place == "own" else tmp_path / "nothing", "table2")
    before = (folder / "study.yaml").read_text()
    test = given(file_named(tmp_path, name, claims=claims))
    (told,) = said(test, "error").splitlines()
    assert "give yours another name" in told and ("study run FILE" in told) == (place == "own") and not starts(test)
    assert "of Table 2, which asks for something else" in told
    assert (folder / "study.yaml").read_text() == before and not started
    assert not given(file_named(tmp_path, "another")).error


@pytest.fixture
def file(empty: Path, tmp_path: Path, started: list[tuple[Path, int]]) -> Path:
    """Return the file of a study of one's own that the button started."""
    begun(given(file_named(tmp_path, "mine")))
    return started[0][0]


def test_a_stored_file_is_gone_on_with_as_it_is(file: Path, started: list[tuple[Path, int]]) -> None:
    test = given(file)
    assert not test.error and not test.info
    begun(test)
    assert started == [(file, 1)] * 2


def test_ones_own_study_is_gone_on_with_by_another_file_and_the_page_says_so(
    file: Path, tmp_path: Path, started: list[tuple[Path, int]]
) -> None:
    ran(file.parent)
    test = given(file_named(tmp_path, "mine", "[movement]"))
    assert not test.error and "You have a study 'mine' that asks for something else" in said(test, "info")
    begun(test)
    assert read_study(file).runs[0]["localizer"] == ["movement"] and len(started) == 2


def test_a_file_that_was_changed_since_it_was_run_is_not_written_over(file: Path, tmp_path: Path) -> None:
    ran(file.parent)
    file.write_text(changed := file.read_text().replace("movement", "stagewise"))
    test = given(file_named(tmp_path, "mine", "[random]"))
    assert "changed by hand" in said(test, "error") and not starts(test) and file.read_text() == changed
    assert not given(file).error, "the changed file itself may be gone on with"


def test_a_study_that_cannot_be_made_leaves_no_file(
    empty: Path, tmp_path: Path, started: list[tuple[Path, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(study: StudySpec, where: object) -> None:
        raise BadInput("the base is not there.")

    test = given(file_named(tmp_path, "mine"))
    monkeypatch.setattr(cache, "refuse_study", refuse)
    assert "the base is not there" in said(begun(test), "error") and not started
    assert not (empty / "studies" / "mine").exists()

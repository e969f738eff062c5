"""Tests of studies for readers: the scoreboard (one row per claim, counts above, a click on a row opens its page),
a study's table, its status in one line, the command that really makes it, and study files that are refused."""

from dataclasses import replace
from functools import cache
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
from tests.tables import equal
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
    assert list(table) == list(paper.claims_table([])) == list(paper.COLUMNS)


def test_a_phone_has_every_claim_in_full_under_its_table_or_figure() -> None:
    by_item = paper.listed(paper.claims_table([score(CONFIRMED), score(CONTRADICTED), score(NOT_MEASURED, "figure9")]))
    assert list(by_item) == ["Table 2", "Figure 9"]
    lines = "\n\n".join(by_item.values()).replace("\N{NO-BREAK SPACE}", " ").replace("\\", "")
    first, ninth = (EXPERIMENTS[name].claims[0].text.replace("\\", "") for name in ("table2", "figure9"))
    beside = ":gray[paper 97.6% · here −2.1 points (−3.0 to −1.2)]"
    assert not lacks(lines, beside, "-badge[", f"{NOT_MEASURED}] {ninth}") and lines.count(first) == 2


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


@cache
def invented() -> Tables:
    return {name: check(made(TASKS, np.random.default_rng(0)), name) for name, made in FAKE_TABLES.items()}


@cache
def renamed() -> Tables:
    """Return the scores of a study whose tasks have other names."""
    names = {task: f"my-{task}" for task in set(invented()["scores"]["task"])}
    return {"scores": invented()["scores"].replace({"id_task": names, "task": names})}


TABLE2 = Selection("table2", "4096-shot", 0.0001, 0.01)
TABLE3 = Selection("table3", "4096-shot", None, 0.01)


def beside(item: str) -> pd.DataFrame:
    """Return the rows of an item at 1% with the invented scores."""
    return paper.rows_beside(Selection(item, "4096-shot", None, 0.01), invented())


def ours(asked: Selection, found: Tables) -> pd.DataFrame:
    return paper.rows_beside(asked, found).dropna(subset=["value"])


def scores_of(data: str) -> Tables:
    """Return the scores of the model that was tuned on SST-2 sentences, on these data or on all."""
    rows = invented()["scores"].query("id_task == 'sst2_sentences'")
    return {"scores": rows[rows["task"].str.fullmatch(data)]}


test_beside_the_paper_there_are = equal({
    "the settings that are printed": (lambda: paper.printed_settings("table2"), ["4096-shot", "64-shot"]),
    "the one setting that is printed": (lambda: paper.printed_settings("table5"), ["50k-shot"]),
    "the sizes that are printed": (lambda: paper.printed_shares("table8"), [0.0001, 0.001, 0.01]),
    "no sizes where none is printed": (lambda: paper.printed_shares("table4"), []),
    "our sizes": (lambda: paper.our_shares(invented()["scores"]), [0.001, 0.01, 0.1]),
    "no sizes of no rows": (lambda: paper.our_shares(pd.DataFrame()), []),
    "the number that the text states where no table prints one": (
        lambda: paper.claims_table([replace(
            score(CONFIRMED, "figure8"),
            claim=EXPERIMENTS["figure8"].claims[2], paper=EXPERIMENTS["figure8"].in_paper()[2],
        )])["paper"].tolist(),
        ["about 70%"],
    ),
    "other data with what was tuned on": (
        lambda: beside("table3").set_index("task")["here"].to_dict().get("SST-2 to Yelp"),
        "sst2_sentences to yelp_reviews",
    ),
    "other data that were not scored": (lambda: "QNLI to MNLI(0/1)" in {*beside("table3")["task"]}, True),
    "a row for each task of a sequence": (
        lambda: {*beside("table4").dropna(subset="published")["task"]}, {"QNLI", "AGNews", "SST-2"},
    ),
    "the row of naive training": (
        lambda: beside("table4").query("method == 'continual_naive' and task == 'SST-2'").iloc[0][
            ["here", "printed"]
        ].tolist(),
        ["sst2_sentences", "92.0 (0.5)"],
    ),
    "the printed digits in words": (
        lambda: paper.readable_rows(beside("table1"))["published (± sd)"].iloc[0], "92.3 (0.3)",
    ),
    "our interval in words": (
        lambda: "–" in paper.readable_rows(beside("table1"))["here (95%)"].iloc[0], True,
    ),
    "words for what is not here": (
        lambda: paper.readable_rows(beside("table1")).query("task == 'QQP'").iloc[0][
            ["here (95%)", "difference"]
        ].tolist(),
        ["", "n/a"],
    ),
    "marks of both sources": (
        lambda: {*paper.marks_of(paper.rows_beside(TABLE2, invented()), "ece")["source"]}, {"here", "published"},
    ),
    "a published mark once": (
        lambda: paper.marks_of(paper.rows_beside(TABLE2, invented()), "ece").query("source == 'published'").duplicated(
            ["task", "method"]
        ).any(),
        False,
    ),
    **{
        f"single numbers, with {pattern}": (
            lambda pattern=pattern: any(
                words.numbers(numbers(name))["published"].str.contains(pattern).any() for name in EXPERIMENTS
            ),
            is_there,
        )
        for pattern, is_there in (("mean agreement graft vs fine-tuned", True), (r"\bFT\b", False))
    },
    "shares of two figures": (
        lambda: list(studies_page.shown(
            invented()["scores"].head(4).assign(share=[0.0000999, 0.00586, 0.1234, 1.0])
        )["share"]),
        pytest.approx([0.01, 0.59, 12.3, 100]),
    ),
    "whole counts": (
        lambda: studies_page.shown(invented()["scores"].head(1).assign(size=1064.333))["size"].iloc[0], 1064,
    ),
    "words on what the paper prints nothing of": (
        lambda: "my-sst2_sentences" in words.unmatched(paper.rows_beside(TABLE2, renamed())).replace("\\", ""), True,
    ),
    "no such words where it prints all": (
        lambda: words.unmatched(paper.rows_beside(TABLE2, scores_of(".*"))), "",
    ),
    "no data that were not tuned on in the place of the task that was": (
        lambda: ours(TABLE2, {"scores": scores_of("cr")["scores"].replace({"task": {"cr": "sst2"}})}).empty, True,
    ),
    "items in the order of the paper": (
        lambda: list(words.items())[:10], [*(f"table{number}" for number in range(1, 10)), "figure2"],
    ),
    "the last item": (lambda: list(words.items())[-1], "subsets"),
    "figure 9 before figure 10": (
        lambda: [name for name in words.items() if name in ("figure9", "figure10")], ["figure9", "figure10"],
    ),
    **{
        f"percent in the heads of {table}": (
            lambda table=table, heads=heads: {name: studies_page.config(table)[name]["label"] for name in heads},
            heads,
        )
        for table, heads in (
            ("recovered", {"ece_ft_low": "ECE, fine-tuned, low, %", "size": "region size, entries",
                           "value": "graft, %", "value_low": "graft, low, %",
                           "ece_less_ft": "ECE less fine-tuned, points"}),
            ("scores", {"mean": "mean, %"}),
            ("differences", {"value": "A less B, points"}),
        )
    },
    **{
        f"the project's own variables and what is none as they are: {base}": (
            lambda base=base: start.uploaded("own.yaml", content(base)).runs[0]["base"], base,
        )
        for base in ("${SKILLVIZ_REAL}/models/x", "$SKILLVIZ_REAL/x", "models/x", "costs 5 $", "a$/b")
    },
})  # fmt: skip


def test_ours_stand_at_the_chosen_size_with_the_difference() -> None:
    rows = paper.rows_beside(TABLE2, invented()).query("here == 'sst2_sentences' and method == 'graft'")
    one = rows[rows["metric"] == TASK_METRIC].iloc[0][["task", "value", "low", "difference"]].tolist()
    mean, low = invented()["scores"].query(
        "id_task == task == 'sst2_sentences' and method == 'graft' and metric == 'accuracy' and share == 0.01"
    ).iloc[0][["mean", "low"]]  # fmt: skip
    assert one == ["SST-2", mean, low, pytest.approx(mean - 0.924)]


def test_every_published_row_is_there_once_and_averages_are_not() -> None:
    rows = paper.rows_beside(Selection("table2", "64-shot", None, 0.01), invented())
    assert not rows.duplicated(["task", "method", "metric"]).any()
    assert len(set(rows["task"])) == 13 and not rows["task"].str.contains("vg|verage").any()
    empty = paper.rows_beside(Selection("table2", "64-shot", None, None), {})
    assert len(empty) == len(rows) and empty["value"].isna().all()


def test_tasks_of_ones_own_stand_alone_and_first_where_ours_are_no_others() -> None:
    rows, found = paper.rows_beside(TABLE2, renamed()), ours(TABLE2, renamed())
    mine = {f"my-{task}" for task in TASKS}
    metrics = {TASK_METRIC, "ece", "agreement"}
    assert [{*found[name]} for name in ("task", "here", "method", "metric")] == [mine, mine, {"graft", "ft"}, metrics]
    assert found["published"].isna().all() and rows.loc[len(found) :, "published"].notna().all()
    assert found.index.max() == len(found) - 1 and paper.readable_rows(rows)["published (± sd)"].iloc[0] == ""
    both = pd.concat([renamed()["scores"], invented()["scores"]], ignore_index=True)
    last = paper.rows_beside(TABLE2, {"scores": both}).iloc[-len(found) :]
    assert last["published"].isna().all() and last["value"].notna().all()
    marks = paper.marks_of(rows, TASK_METRIC)
    assert {*marks.loc[marks["task"].str.startswith("my-"), "source"]} == {"here"}
    assert (marks["source"] == "here").sum() == 2 * len(TASKS)


def test_of_other_data_those_rows_are_shown_and_only_without_them_the_tasks_own() -> None:
    found, scores = ours(TABLE3, renamed()), renamed()["scores"]
    assert len(found) and found["task"].str.contains(" to my-").all()
    alone = ours(TABLE3, {"scores": scores[scores["task"] == scores["id_task"]]})
    assert {*alone["task"]} == {f"my-{task}" for task in TASKS}


def test_of_a_study_of_several_bases_one_is_shown() -> None:
    scores = invented()["scores"]
    both = {"scores": pd.concat([scores, scores.assign(base="my/base", mean=0.0)], ignore_index=True)}
    one, mine = (
        ours(Selection("table2", "4096-shot", 0.0001, 0.01, base), both)["value"] for base in (BASE, "my/base")
    )
    assert (one > 0).all() and (mine == 0).all() and len(one) == len(mine) > 0


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


def test_on_each_task_the_size_that_95_percent_of_the_gain_needs() -> None:
    needed = invented()["recovered"]
    first, *rest = paper.needed(invented())
    assert {first, *rest} == {*needed["id_task"]} and paper.needed({}) == {}
    other = {**invented(), "recovered": needed.assign(share=np.where(needed["id_task"] == first, 0.1, 0.001))}
    rows = paper.rows_beside(Selection("table2", "4096-shot", None, paper.NEEDED), other)
    grafts = rows[(rows["method"] == "graft") & rows["value"].notna()]
    of_first, of_rest = ({*grafts.loc[(grafts["here"] == first) == it, "share"]} for it in (True, False))
    assert of_first <= {0.1} and of_rest == {0.001} and "0.1%" in {*paper.readable_rows(rows)["size here"]}


SMALL_BASE, MR = "examples/models/minilm-l6", "examples/tasks/mr.yaml"
STEPS = {
    str(number): {"kind": "localize", "title": f"step {number}", "state": state}
    for number, state in enumerate(("finished", "finished", "failed", "missing"))
}


def test_what_is_asked_first_stands_first_and_what_is_empty_last() -> None:
    scores = invented()["scores"].assign(debiased=np.nan)
    order, own = (studies_page.columns(rows) for rows in (scores, scores[scores["id_task"] == scores["task"]]))
    assert order[:6] == ["id_task", "task", "method", "localizer", "share", "metric"] and order[-1] == "debiased"
    assert sorted(order) == sorted(scores.columns) and order.index("mean") < order.index("base")
    assert own[0] == "task" and {*own[-2:]} == {"debiased", "id_task"}
    recovered = studies_page.columns(invented()["recovered"])
    assert recovered.index("value_ft") == recovered.index("value") + 1, "what is compared stands side by side"


def test_shares_are_in_percent_and_nats_stay() -> None:
    scores = invented()["scores"]
    shown, is_nll = studies_page.shown(scores), scores["metric"] == "nll"
    assert is_nll.any() and not is_nll.all()
    np.testing.assert_allclose(shown["mean"], scores["mean"] * np.where(is_nll, 1, 100))
    np.testing.assert_allclose(shown["share"], 100 * scores["share"], rtol=0.05)
    assert (shown["size"].dropna() == scores["size"].dropna().round()).all()
    assert "NLL is in nats" in not_in_percent(scores)


def test_a_table_without_a_metric_holds_shares() -> None:
    columns = ["value", "low", "high", "chance"]
    np.testing.assert_allclose(studies_page.shown(invented()["overlap"])[columns], 100 * invented()["overlap"][columns])
    assert (not_in_percent(invented()["overlap"]), studies_page.methods(invented()["overlap"])) == ("", [])


@pytest.mark.parametrize("name", TABLES)
def test_every_column_of_every_table_is_headed_and_explained_in_words(name: str) -> None:
    config, lines = studies_page.config(name), studies_page.columns_in_words(name)
    assert list(config) == [column.name for column in TABLES[name].columns]
    assert studies_page.shown(empty(name)).empty and len(studies_page.columns(empty(name))) == len(config)
    heads, helps = ([column[key] for column in config.values()] for key in ("label", "help"))
    assert [head for head in heads if "_" in head] == [] and len({*heads}) == len(heads)
    assert [text for text in helps if "METHODS" in text or "OVER" in text] == []
    assert [column for column, line in zip(config, lines, strict=True) if f"`{column}`" not in line] == []


def test_cells_have_the_words_of_the_figures() -> None:
    given = {
        "method": ["graft_retrain", "ft", "graft"], "localizer": ["learned-ranked", "", "stagewise"],
        "search_variant": ["", "", "purified"], "recipe": ["graft-retrain", "sgd", "sgd"],
        "metric": ["ece", "nll", "recovered"], "base": ["${SKILLVIZ_REAL}/models/minilm-l6"] * 3,
    }  # fmt: skip
    scores = invented()["scores"].head(3).assign(**given)
    assert studies_page.shown(scores)[list(given)].to_dict("list") == {
        "method": ["region re-trained", "fine-tuned", "graft"], "localizer": ["learned, ranked", "", "stagewise"],
        "search_variant": ["", "", "purified"], "recipe": ["re-training the region", "SGD", "SGD"],
        "metric": ["ECE", "NLL", "gain recovered"], "base": ["minilm-l6"] * 3,
    }  # fmt: skip
    assert scores["method"].iloc[0] == "graft_retrain", "the argument is left as it is"
    regions = studies_page.shown(invented()["gain"])["region_tasks"]
    assert regions.tolist() == list(map(readable, invented()["gain"]["region"])), "several tasks as `a + b`"
    methods = [line.strip() for line in studies_page.methods(invented()["scores"])]
    assert "- **graft**: graft of a searched region" in methods


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

"""The sections of the paper page: the choice of table or figure and study, values, verdicts and differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from skillviz.analysis.readable_table import as_stored
from skillviz.analysis.tables import label, task_metric, without_variants
from skillviz.core import formats
from skillviz.core.methods import METHODS
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED
from skillviz.plots.methods import method_style
from skillviz.plots.paper import HERE, PUBLISHED
from skillviz.show import paper as exhibits
from skillviz.show import text
from skillviz.show.glossary import about
from skillviz.show.table_words import with_task_names
from skillviz.studies.paper.claims import Claim, Comparison, Verdict, main_share
from skillviz.studies.paper.comparisons import GRAFTS
from skillviz.studies.paper.experiments import EXPERIMENTS, published_verdicts
from skillviz.studies.paper.published_values import (
    SETTINGS,
    TABLES,
    numbers,
    published,
    sizes_of,
    slips,
    stands_for,
    stated,
)
from skillviz.studies.store import StudyFolder
from skillviz.studies.subject import bases_of, rows_of_base
from skillviz.tasks.readable_names import readable
from skillviz.ui import address, cache, controls, exports, page, show_code, study_choice, study_words
from skillviz.ui import paper_words as words
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import chip_text
from skillviz.ui.row_click import rows_that_open, selected

BESIDE = 430  # pixels of the scoreboard beside the figure of a claim
SIZES = (
    "The size of the regions that stand here. What 95% of the gain needs is a size a task: the smallest tried whose "
    "graft gets there, the largest tried where none does; the table says which."
)
KEY = "paper.scoreboard"
ITEM, CLAIM, NONE = "item", "claim", "none"
TALL, SHORT = 600, 320  # pixels; short if an item without a claim is open below
COLORS = {CONFIRMED: "green", CONTRADICTED: "red", INCONCLUSIVE: "gray", NOT_MEASURED: "blue"}
COLUMNS = {
    "where": st.column_config.TextColumn("in paper", width=60),
    "verdict": st.column_config.MultiselectColumn(
        "verdict", options=list(COLORS), color=list(COLORS.values()), width=102, help=about("verdict")
    ),
    "claim": st.column_config.TextColumn("claim of the paper", width=405),
    "paper": st.column_config.TextColumn(
        "paper", width=80, help="Mean over the tasks of the published table. Most figures print no number."
    ),
    "here": st.column_config.TextColumn(
        "here (95%)", width=163, help="Mean over the comparisons, with an interval that holds however they depend on "
        "each other. The verdict counts the comparisons.",
    ),
    "data": st.column_config.TextColumn("measured on", width=103),
}  # fmt: skip
TASK_METRIC = "accuracy or F1"
NEEDED = -1.0  # in place of a size: for each task the smallest one that recovers 95% of the gain
OF_REGIONS = ("graft", "graft_retrain", "graft_fish", "graft_random")
BESIDE_COLUMNS = (
    "task", "here", "method", "variant", "metric", "published", "published_sd", "printed", "value", "debiased",
    "low", "high", "share", "seeds", "n", "difference",
)  # fmt: skip


@dataclass(frozen=True)
class PaperItem:
    """The open item: a table or figure of the paper, with its stored study if there is one."""

    name: str
    study: StudyFolder | None
    tables: dict[str, pd.DataFrame]
    verdicts: tuple[Verdict, ...]

    @property
    def is_table(self) -> bool:
        """True if published rows are available for it."""
        return self.name in TABLES


def claims() -> PaperItem | None:
    """Draws the scoreboard under the count of its verdicts; returns the open table or figure, None if none is open.

    For an open claim, its verdict replaces the count and its figure is beside the scoreboard.
    """
    with page.explained():
        judged = cache.computed(("scoreboard",), cache.studies(), scores)
        sentence = cache.computed(("scoreboard sentence",), cache.studies(), lambda: counts_sentence(judged))
        rows = cache.computed(("scoreboard rows",), cache.studies(), lambda: claims_table(judged))
        behind = cache.computed(
            ("scoreboard comparisons",), cache.studies(), lambda: words.comparison_counts([one.here for one in judged])
        )
    headline = st.empty()
    with st.container(horizontal=True, vertical_alignment="center"):
        item = _choose()
        claim = _choose_claim(item) if item is not None and item.verdicts else None
    if claim is None:
        headline.markdown(sentence, help=about("verdict", "discovery"))
    row = st.container(horizontal=True)
    left, right = row.container(key="claims", width=BESIDE if claim else "stretch"), row.container()
    with left:
        draw_scoreboard(judged, rows, height=SHORT if item and not claim else TALL)
        if behind and item is None:
            st.caption(f"Behind these verdicts: {behind}", help=about("discovery"))
    if item is None or item.study is None or claim is None:
        return item
    here, paper = claim
    line = f"**{text.plain(here.claim)}** {words.verdict_line(here)}"
    more = f" {study_words.measured_by(item.name)}" if here.outcome == NOT_MEASURED else ""
    headline.markdown(line + more, help=about("verdict", "paired"))
    if here.comparisons:
        with right:
            show(exhibits.claim(here, paper, theme()), item.study.name)
            show_code.show("paper", study=item.study.name, item=item.name, number=item.verdicts.index(here))
    return item


def _choose() -> PaperItem | None:
    """The table or figure opened by a click in the scoreboard or in the box above it; None if none is open."""
    titles = {NONE: "Select a claim, or a table or figure", **words.items()}
    linked = address.linked(ITEM)
    name = controls.select(
        ITEM, "Table or figure", list(titles), NONE, shown=titles.get, width=330,
        shows_label=False,
    )  # fmt: skip
    if linked is not None and linked not in titles:
        st.warning(
            f"This link names '{text.plain(linked)}', which is no table or figure of the paper. Choose one here."
        )
    with page.explained():
        stored = study_choice.measuring(name) if name != NONE else []
        study = study_choice.choose(stored, widest=250) if stored else None
        tables = {table: cache.study_table(study, table) for table in study.tables()} if study else {}
    if name == NONE:
        return None
    outcomes = cache.study_verdicts(study) if study else ()
    return PaperItem(name, study, tables, tuple(outcomes))


def _choose_claim(item: PaperItem) -> tuple[Verdict, Verdict]:
    """The verdicts of our study and of the published values on one claim; draws a box if there are several claims."""
    by_text = {one.claim: (one, paper) for one, paper in zip(item.verdicts, published_verdicts(item.name), strict=True)}
    claim = next(iter(by_text))
    if len(by_text) > 1:
        claim = controls.select(CLAIM, "Claim", list(by_text), claim, shows_label=False)
    return by_text[claim]


def question(item: PaperItem) -> None:
    """Draws the experiment's question and the links to its study."""
    st.container(key="item-open").markdown(f"## {text.plain(words.items()[item.name])}")
    experiment = EXPERIMENTS[item.name]
    st.markdown(text.plain(f"{experiment.question} The paper: {experiment.finding}"))
    if item.study is None:
        st.info(f"{words.PUBLISHED_ONLY} {study_words.measured_by(item.name)}")
        return
    if several := words.comparison_counts(item.verdicts):
        title = study_words.experiment_title(item.name)
        st.caption(f"All claims of {title}: {several}", help=about("discovery"))
    study_choice.links(item.study, "paper")


def values(item: PaperItem) -> None:
    """Draws published values beside ours: a figure of one metric, and the table of all metrics."""
    if not item.is_table:
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        selection = _select(item)
        rows = rows_beside(selection, item.tables)
        metrics = list(dict.fromkeys(rows["metric"]))
        metric = controls.segments("metric", "Metric", metrics, metrics[0], shown=lambda one: metric_row(one).title)
    marks = marks_of(rows, metric)
    table = readable_rows(rows)
    show(exhibits.values(marks, table[rows["metric"] == metric], metric, selection.setting, theme()), item.name)
    fold = st.expander("All values", key="table.values", on_change="rerun")
    if not fold.open:
        return
    with fold:
        st.caption(words.CAUTION)
        if note := words.unmatched(rows):
            st.caption(note)
        st.dataframe(table, hide_index=True, alt="Published values, ours, and their difference")
        stem = exports.file_name("paper", item.name, item.study.name if item.study else "")
        with st.container(horizontal=True):
            exports.table_buttons(
                rows,
                file=stem,
                key="paper",
                caption=f"{item.name}: published values and ours",
                words=lambda rows: as_stored(readable_rows(rows)),
            )


def _select(item: PaperItem) -> Selection:
    """The setting and the sizes that are compared."""
    settings, shares = printed_settings(item.name), printed_shares(item.name)
    scores = item.tables.get("scores", pd.DataFrame())
    base = study_choice.choose_base(bases) if len(bases := bases_of(scores)) > 1 else None
    ours = our_shares(scores if base is None else rows_of_base(scores, base))
    setting, share, ours_share = settings[0], shares[0] if shares else None, None
    if len(settings) > 1:
        setting = controls.select("shots", "Published: training data", settings, setting, width=220)
    if len(shares) > 1:
        share = controls.select(
            "published-size", "Published: region size", shares, share, shown=formats.share, width=220
        )
    if ours and shares:
        main = main_share(item.study.record.scale if item.study else None) or ours[0]
        nearest = min(ours, key=lambda one: abs(one - main))
        offered = [*ours, *([NEEDED] if needed(item.tables) else [])]
        ours_share = controls.select(
            "size", "Here: region size", offered, nearest, width=260, help=SIZES,
            shown=lambda share: "what 95% of the gain needs" if share == NEEDED else formats.share(share),
        )  # fmt: skip
    return Selection(item.name, setting, share, ours_share, base)


def further(item: PaperItem) -> None:
    """Draws, folded, numbers from text and captions, differences in setting, and contradictions within the paper."""
    rows = numbers(item.name)
    if len(rows):
        fold = st.expander(f"Numbers in the paper's text: {len(rows)}", key="table.numbers", on_change="rerun")
        if fold.open:
            with fold:
                table = words.numbers(rows)
                st.dataframe(table, hide_index=True, alt="Single published numbers of text and captions")
                file, caption = exports.file_name("paper", item.name, "numbers"), f"{item.name}: numbers in the text"
                exports.table_menu(table, file=file, key="numbers", caption=caption)
    if item.study is not None:
        if differences := cache.setting_differences(item.study):
            with st.expander(f"Where our study differs from the paper: {formats.counted(len(differences), 'point')}"):
                study_choice.setting_table(differences)
        with st.expander("Reproduce"):
            st.caption(study_words.caption(item.study))
    if slip := slips(item.name):
        with st.expander(f"Where the paper disagrees with itself: {formats.counted(len(slip), 'point')}"):
            st.markdown("\n".join(f"- {text.plain(sentence)}" for sentence in slip))
    if item.study is not None:
        study_choice.notes((item.study,))


@dataclass(frozen=True)
class Score:
    """A claim of an experiment, judged by its published values and by our study; the study is None if not stored."""

    experiment: str
    claim: Claim
    paper: Verdict
    here: Verdict
    study: StudyFolder | None


def scores() -> list[Score]:
    """Every claim in the order of the paper, each judged by the best stored study."""
    judged = []
    for name, row in EXPERIMENTS.items():
        study = next(iter(study_choice.measuring(name)), None)
        here = cache.study_verdicts(study) if study else row.verdicts({}, None)
        judged += [Score(name, *one, study) for one in zip(row.claims, published_verdicts(name), here, strict=True)]
    return judged


def counts_sentence(judged: Sequence[Score]) -> str:
    """`19 of 36 claims confirmed, 2 contradicted, 3 inconclusive, 12 not measured`, and a command for the rest."""
    rest = f" To measure the rest: `{study_words.commands(('all',))}`."
    is_whole = all(score.here.outcome != NOT_MEASURED for score in judged)
    return f"{words.verdict_counts([score.here for score in judged])}.{'' if is_whole else rest}"


def claims_table(judged: Sequence[Score]) -> pd.DataFrame:
    """One row per claim, for display."""
    rows = [
        {
            "where": study_words.experiment_title(score.experiment),
            "verdict": [score.here.outcome],
            "claim": score.claim.text,
            "paper": _in_paper(score),
            "here": _estimate(score.here.mean) if score.here.mean else "",
            "data": study_words.data(score.study) if score.study else "",
        }
        for score in judged
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def draw_scoreboard(judged: Sequence[Score], rows: pd.DataFrame, *, height: int) -> None:
    """Draws the `table`; a click opens the claim's experiment. On a phone it is a list, in which claims wrap."""
    with st.container(key="claims-wide"):
        rows_that_open(
            rows, key=KEY, column_config=COLUMNS, height=height, on_select=lambda: _open(judged),
            alt="The claims of the paper, each with the paper's value, ours and the verdict",
        )  # fmt: skip
    with st.container(key="claims-narrow"):
        names = dict(zip(rows["where"], (score.experiment for score in judged), strict=True))
        for where, words_of_claims in listed(rows).items():
            st.button(
                where, type="tertiary", icon=":material/chevron_right:", key=f"claims.{where}",
                on_click=controls.assign, args=(ITEM, names[where]),
            )  # fmt: skip
            st.markdown(words_of_claims)
    plain = rows.assign(verdict=[outcome for (outcome,) in rows["verdict"]])
    exports.table_menu(plain, file="claims", key="claims", caption="The paper's claims and our verdicts")


def listed(rows: pd.DataFrame) -> dict[str, str]:
    """The rows of `table` as Markdown, claim by claim; the key is the claim's table or figure."""
    by_item = {}
    for where, of_item in rows.groupby("where", sort=False):
        lines = []
        for row in of_item.to_dict("records"):
            (outcome,) = row["verdict"]
            values = [f"paper {row['paper']}", f"here {row['here']}" if row["here"] else "", row["data"]]
            said = text.plain(" · ".join(filter(None, values)))
            lines.append(f"{chip_text(outcome)} {text.plain(row['claim'])}  \n:gray[{said}]")
        by_item[str(where)] = "\n\n".join(lines)
    return by_item


def _open(judged: Sequence[Score]) -> None:
    """Opens the experiment of the selected row; called when the selection changes."""
    row = selected(KEY)
    if row is not None:
        score = judged[row]
        controls.assign(ITEM, score.experiment)
        controls.assign(CLAIM, score.claim.text)
    else:
        controls.assign(ITEM, NONE)


def _in_paper(score: Score) -> str:
    if score.paper.mean is not None:
        return words.number(score.paper.mean)
    return stated(score.claim.stated) if score.claim.stated else "figure only"


def _estimate(mean: Comparison) -> str:
    """`−2.1 points (−3.0 to −1.2)`."""
    return f"{words.number(mean)} ({words.ends(mean)})" if not formats.missing(mean.low) else words.number(mean)


@dataclass(frozen=True)
class Selection:
    """The compared values: the published setting and share (None: all), and our share and base."""

    name: str
    setting: str
    share: float | None
    ours: float | None
    """A share, or NEEDED."""
    base: str | None = None
    """One base of a study with several; None takes all."""


def printed_settings(name: str) -> list[str]:
    """The settings of a published table, the largest training data first."""
    printed = set(published(name)["setting"])
    return [setting for setting in SETTINGS if setting in printed]


def printed_shares(name: str) -> list[float]:
    """The region sizes of a published table's grafts, ascending."""
    rows = published(name)
    rows = rows[rows["method"].isin(OF_REGIONS) & rows["share"].notna() & (rows["share"] < 1)]
    return sorted(set(rows["share"]))


def our_shares(scores: pd.DataFrame) -> list[float]:
    """The sizes of a study's grafts, ascending; sizes within 2% of each other count once."""
    if scores.empty:
        return []
    distinct: list[float] = []
    for share in sorted(scores.loc[(scores["method"] == "graft") & scores["share"].notna(), "share"].astype(float)):
        if not distinct or share > 1.02 * distinct[-1]:
            distinct.append(share)
    return distinct


def needed(tables: Mapping[str, pd.DataFrame]) -> dict[str, float]:
    """The share that each task needs for 95% of the gain; the largest tried if none is sufficient."""
    rows = tables.get("recovered", pd.DataFrame())
    if rows.empty:
        return {}
    search = next((name for name in GRAFTS if (rows["localizer"] == name).any()), "")
    first = without_variants(rows[rows["localizer"] == search], "search_variant").drop_duplicates("id_task")
    return dict(zip(first["id_task"], first["share"].astype(float), strict=True))


def rows_beside(selection: Selection, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per published value with ours beside it, and rows for our tasks that the paper does not have.

    The columns are COLUMNS; shares are 0..1, difference = here - published. Rows of our own tasks are last, unless no
    published value has ours beside it; then they are first.

    `task` is the printed name ("SST-2", "QNLI to MNLI (0/1)") or the name of our own task; `here` is our task for it.
    Averages are left out.
    """
    printed = _printed(selection)
    ours = pd.concat([_our_scores(selection, tables), _our_iou(selection, tables)], ignore_index=True)
    merged = printed.merge(ours, how="left", on=["id_task", "score_task", "method", "variant", "metric"])
    if len(further := _without_printed(printed, ours)):
        parts = [merged, further] if merged["value"].notna().any() else [further, merged]
        merged = pd.concat(parts, ignore_index=True)
    merged["difference"] = merged["value"] - merged["published"]
    return merged[list(BESIDE_COLUMNS)].reset_index(drop=True)


def readable_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows as text: the published value as printed, ours with its interval, the difference in points."""
    return pd.DataFrame(
        {
            "task": rows["task"].map(readable),
            "method": [
                label(method_style(method).title, size)
                for method, size in zip(rows["method"], rows["variant"], strict=True)
            ],
            "metric": [metric_row(metric).title for metric in rows["metric"]],
            "published (± sd)": rows["printed"],
            "here (95%)": [_our_value(row) for row in rows.to_dict("records")],
            "difference": [formats.points(value) for value in rows["difference"]],
            "size here": ["" if pd.isna(share) else formats.share(share) for share in rows["share"]],
            "measured on": rows["here"].fillna("").map(readable),
        }
    )


def marks_of(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows of one metric in the figure's columns: task, method, source, value, debiased, low, high."""
    rows = rows[rows["metric"] == metric]
    printed = rows.assign(
        source=PUBLISHED, value=rows["published"], low=rows["published"] - rows["published_sd"],
        high=rows["published"] + rows["published_sd"], debiased=np.nan,
    ).drop_duplicates(["task", "method"]).dropna(subset=["value"])  # fmt: skip
    measured = rows[rows["value"].notna()].assign(source=HERE)
    marks = with_task_names(pd.concat([measured, printed], ignore_index=True))
    return marks[["task", "method", "source", "value", "debiased", "low", "high"]]


def _printed(selection: Selection) -> pd.DataFrame:
    rows = published(selection.name)
    rows = rows[(rows["kind"] == "row") & (rows["setting"] == selection.setting)]
    if selection.share is not None:
        rows = rows[
            ~rows["method"].isin(OF_REGIONS) | rows["share"].isna() | np.isclose(rows["share"], selection.share)
        ]
        apart = np.log(rows["share"] / selection.share).abs().where(rows["variant"] != "", 0.0)
        rows = rows[apart == apart.groupby(rows["method"]).transform("min")]  # of several sizes the nearest one
    rows = rows[rows["method"].isin(METHODS)]
    whole = rows["id_task"].str.contains(">")  # a sequence of tasks
    id_task = np.where(whole, rows["task"], rows["id_task"])
    is_other = id_task != rows["task"]
    tuned = published("table2").drop_duplicates("task").set_index("task")["task_as_printed"]
    names = [
        f"{tuned.get(one, str(one).upper())} to {printed}" if other else printed
        for one, printed, other in zip(id_task, rows["task_as_printed"], is_other, strict=True)
    ]
    return pd.DataFrame(
        {
            "id_task": id_task, "score_task": rows["task"], "task": names, "method": rows["method"],
            "variant": rows["variant"],
            "metric": rows["metric"].replace({"accuracy": TASK_METRIC, "f1": TASK_METRIC}), "published": rows["value"],
            "published_sd": rows["std"],
            "printed": [f"{v} ({s})" if s else v for v, s in zip(rows["printed"], rows["printed_std"], strict=True)],
        }
    )  # fmt: skip


OURS = (
    "id_task", "score_task", "here", "method", "variant", "metric", "value", "debiased", "low", "high", "share",
    "seeds", "n",
)  # fmt: skip


def _without_printed(printed: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Our rows on tasks without a published value, in the table's methods and metrics.

    If all published values are on other data and we have such scores too, only rows on other data; otherwise only rows
    on the tasks' own data."""
    known = set(zip(printed["id_task"], printed["score_task"], strict=True))
    pairs = list(zip(ours["id_task"], ours["score_task"], strict=True))
    is_of_others = all(tuned != scored for tuned, scored in known) and any(tuned != scored for tuned, scored in pairs)
    is_new = np.array([pair not in known and (pair[0] != pair[1]) == is_of_others for pair in pairs], dtype=bool)
    named = [list(zip(side["method"], side["variant"], strict=True)) for side in (ours, printed)]
    is_shown = np.array([method in set(named[1]) for method in named[0]], dtype=bool)
    rows = ours[is_new & is_shown & ours["metric"].isin(printed["metric"])]
    return rows.assign(task=rows["here"], printed="", published=np.nan, published_sd=np.nan)


def _our_scores(selection: Selection, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    rows = tables.get("scores", pd.DataFrame())
    if rows.empty:
        return pd.DataFrame(columns=list(OURS))
    rows = rows[rows["split"] == "test"]
    rows = rows if selection.base is None else rows_of_base(rows, selection.base)
    searched = (rows["method"] != "graft") | (rows["localizer"].eq(_search(rows)) & rows["search_variant"].eq(""))
    needs = selection.ours == NEEDED  # each task has its own size
    size = rows["id_task"].map(needed(tables)).astype(float) if needs else selection.ours
    rows = rows[searched & (rows["share"].isna() | _of_size(rows["share"], size))]
    for name in ("setting", "readout"):
        rows = rows[rows[name] == rows[name].iloc[0]] if len(rows) else rows
    of_task = rows.groupby("task")["metric"].transform(task_metric)
    metric = np.where(rows["metric"] == of_task, TASK_METRIC, rows["metric"])
    pairs = list(zip(rows["id_task"], rows["task"], strict=True))
    ours = pd.DataFrame(
        {
            "id_task": [stands_for(task) for task in rows["id_task"]],
            "score_task": [_scored_as(*pair) for pair in pairs],
            "here": [b if a == b else f"{a} to {b}" for a, b in pairs],
            "method": rows["method"], "variant": sizes_of(rows), "metric": metric, "value": rows["mean"],
            **{name: rows[name] for name in ("debiased", "low", "high", "share", "seeds", "n")},
        }
    )  # fmt: skip
    return ours.drop_duplicates(["here", "method", "variant", "metric"])


def _search(rows: pd.DataFrame) -> str:
    """The localizer whose grafts are compared with the paper's: the default one if the study has it."""
    names = set(rows.loc[rows["method"] == "graft", "localizer"])
    return next((name for name in GRAFTS if name in names), next(iter(sorted(names)), ""))


def _scored_as(id_task: str, task: str) -> str:
    """The published task that our scored task corresponds to; for NLI as other data, the variant without neutral.

    If our two data sets correspond to the same published task, the one that was not tuned on has no published
    counterpart.
    """
    if id_task != task and stands_for(task) == stands_for(id_task):
        return f"{task} beside {id_task}"  # not the name of a published task, even if `task` is one
    if id_task != task and stands_for(task) in ("snli", "mnli", "rte") and stands_for(id_task) == "qnli":
        return "snli_01" if stands_for(task) == "snli" else "mnli_01"
    return stands_for(task)


def _of_size(share: pd.Series, size: float | pd.Series | None) -> np.ndarray:
    if size is None:
        return np.ones(len(share), dtype=bool)
    return np.isclose(share.astype(float), size, rtol=0.05)


def _our_iou(selection: Selection, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """IoU with the FISH mask, by task and size, from Table 8's table `overlap`."""
    rows = tables.get("overlap", pd.DataFrame())
    rows = rows[rows["column_localizer"] == "fisher"] if len(rows) else rows
    if rows.empty:
        return pd.DataFrame(columns=list(OURS))
    rows = rows.assign(here=rows["column_task"])[_of_size(rows["share"], selection.ours)]
    task = [stands_for(name) for name in rows["here"]]
    columns: dict[str, Any] = {"id_task": task, "score_task": task, "method": "graft", "metric": "overlap_iou"}
    return rows.assign(**columns, variant="", debiased=np.nan, n=np.nan)[list(OURS)]


def _our_value(row: Mapping[Any, Any]) -> str:
    """`87.0% (85.1–88.9)`; empty if there is no value."""
    if pd.isna(row["value"]):
        return ""
    if pd.isna(row["low"]):
        return formats.percent(row["value"])
    return f"{formats.percent(row['value'])} ({formats.percent_interval(row['low'], row['high'])})"

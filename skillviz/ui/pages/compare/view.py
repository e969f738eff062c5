"""The compare page's parts: who is who, what the tables of its figures are, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from skillviz.analysis.answers import Answers
from skillviz.analysis.differences import less_baseline
from skillviz.core import formats
from skillviz.core.metrics import metric_heading, metric_row
from skillviz.core.region import Region
from skillviz.core.verdicts import NO_DIFFERENCE
from skillviz.runs.metrics import positive
from skillviz.runs.record import Estimate
from skillviz.show import compare as exhibits
from skillviz.show import measures, small_world, text
from skillviz.show.comparisons import counted_rows
from skillviz.show.entries import headline_split
from skillviz.show.glossary import about
from skillviz.show.sentences import metric_difference, verdict
from skillviz.ui import cache, controls, page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.compare import comparison
from skillviz.ui.pages.compare.comparison import DIFFERS, FEWEST, MOST, Side, spec_differences, unlike

SMALL_P = 0.001


@dataclass(frozen=True)
class Comparison:
    """The chosen runs, the baseline among them, which of their models are looked at, and what was computed of them."""

    sides: tuple[Side, ...]
    baseline: Side
    state: str
    answers: dict[str, Answers]
    differences: pd.DataFrame
    regions: dict[str, Region]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that are compared, the task's own first."""
        return comparison.metrics_of(self.baseline)

    @property
    def alike(self) -> tuple[Side, ...]:
        """The runs that were scored on the baseline's task and data, itself among them."""
        return tuple(side for side in self.sides if not unlike(side, self.baseline))


def compare(sides: tuple[Side, ...], baseline: Side) -> Comparison:
    """Reads predictions and regions and takes the differences; explains and stops where a file cannot be read."""
    state = _state(sides)
    with page.explained():
        answers = {s.key: comparison.answers(s.run, cache.table(s.run, "predictions"), state) for s in sides}
        regions = {side.key: cache.region(side.run) for side in sides}
    like = [side.key for side in sides if not unlike(side, baseline)]
    task = baseline.record.task
    metrics, of_f1 = comparison.metrics_of(baseline), 1 if task is None else positive(task)
    table = less_baseline({key: answers[key] for key in like}, baseline.key, metrics, of_f1)
    fitting = {key: region for key, region in regions.items() if region.shapes == regions[baseline.key].shapes}
    return Comparison(sides, baseline, state, answers, table, fitting)


def _state(sides: Sequence[Side]) -> str:
    """Grafts; where fine-tuned models differ, the reader may look at those instead."""
    if len({side.entry.pair for side in sides}) == 1:
        return "grafted"
    shown = {"grafted": "grafts", "finetuned": "fine-tuned models"}
    return controls.segments("state", "Compare the", tuple(shown), "grafted", shown=shown.get, help=about("graft"))


def who_is_who(compared: Comparison) -> None:
    """The letters, each with its run's id, and what cannot be compared."""
    with st.expander("Who is who", expanded=False):
        for side in compared.sides:
            pinned = " (baseline)" if side is compared.baseline else ""
            st.markdown(f"**{side.key}**{side.name[1:]}{pinned}: `{side.run.id}`")
    if toys := small_world.comparison_caution([s.key for s in compared.sides if small_world.is_toy(s.entry.base)]):
        st.caption(toys)
    tested = {str(row["run"]): int(row["n"]) for row in compared.differences.to_dict("records")}
    whole = len(compared.answers[compared.baseline.key].ids)
    for sentence in limits(compared.sides, compared.baseline, tested, list(compared.regions), whole):
        st.info(sentence, icon=":material/info:")


def summary(compared: Comparison) -> str:
    """The page's sentence."""
    what = exhibits.STATES[compared.state]
    return summary_words(compared.differences, compared.baseline, compared.metrics, what)


def scores(compared: Comparison) -> None:
    """Values beside differences, and McNemar's test."""
    table = comparison.values(compared.sides, compared.state, compared.metrics)
    finetuned = [key for key in comparison.tuned(compared.sides) if key in set(table["run"])]
    marks = comparison.styles(compared.sides, finetuned)
    left, right = st.columns(2)
    with left:
        show(exhibits.values(table, marks, compared.metrics, compared.state, theme()), compared.baseline.run.id)
    with right:
        _differences(compared)


def _differences(compared: Comparison) -> None:
    if compared.differences.empty:
        st.info("There is no difference to show: no other run was scored on the baseline's examples.")
        return
    marks = comparison.styles(compared.sides)
    key = compared.baseline.key
    show(exhibits.differences(compared.differences, marks, key, compared.metrics, theme()), compared.baseline.run.id)
    lines = mcnemar(compared.differences, key)
    if lines:
        with st.expander("McNemar's exact test of equal accuracy"):
            st.markdown("\n".join(f"- {line}" for line in lines), help=about("mcnemar"))


def curves(compared: Comparison) -> None:
    """The curves of runs on the baseline's data, and everyone's reliability."""
    record, marks = compared.baseline.record, comparison.styles(compared.sides)
    split = headline_split(record)
    with page.explained():
        tables = {side.key: cache.table(side.run, "curve") for side in compared.alike}
    curve = comparison.curves(compared.alike, tables, split)
    offered = measures.offered(curve, record)
    metric = controls.select("metric", "Metric by size", offered, offered[0], shown=metric_heading, width=320)
    is_one_pair = len({side.entry.pair for side in compared.alike}) == 1
    levels = measures.levels(record, split, metric) if is_one_pair else measures.guesses(record, split, metric)
    left, right = st.columns(2)
    with left:
        show(exhibits.sizes(curve, marks, metric, levels, theme()), compared.baseline.run.id)
    with right:
        show(
            exhibits.reliability(comparison.bins(compared.answers), marks, compared.state, theme()),
            compared.baseline.run.id,
        )


def shared(compared: Comparison) -> None:
    """How much the regions have in common, both ways."""
    if len(compared.regions) < FEWEST:
        st.info("No other region lies in a model of the baseline's parameters, so none can be laid over its region.")
        return
    for place, kind in zip(st.columns(2), ("iou", "overlap"), strict=True):
        with place:
            show(
                exhibits.shared(comparison.shares(compared.regions, kind), kind, theme()),
                compared.baseline.run.id,
            )


def _highlighted(value: object) -> str:
    """A tint for what differs, thin enough for both grounds; the sign before it says the same without colour."""
    return "background-color: rgba(196, 78, 0, 0.16)" if str(value).startswith(DIFFERS) else ""


def specs(compared: Comparison) -> None:
    """What was asked for differently."""
    table = spec_differences(compared.sides, compared.baseline)
    with st.container(border=True):
        st.markdown("### What was asked for differently")
        if table.empty:
            st.caption("Nothing: these runs had the same spec, so they are repetitions of one another.")
            return
        st.dataframe(table.style.map(_highlighted), hide_index=True, alt="Fields in which the specs of the runs differ")
        st.caption(
            f"≠ marks what differs from {compared.baseline.key}, the baseline. Fields that are the same everywhere are "
            "left out; a default is named as one."
        )


def summary_words(differences: pd.DataFrame, baseline: Side, metrics: Sequence[str], what: str) -> str:
    """For the task's metric and ECE: who is better or worse than the baseline, and for whom nothing can be said."""
    if differences.empty:
        return f"No other run here was scored on the examples of **{text.plain(baseline.name)}**."
    phrases = [_sentence(differences[differences["metric"] == metric], metric) for metric in metrics[:2]]
    lines = [f"- {sentence}." for sentence in phrases if sentence]
    if several := counted_rows(differences[differences["metric"].isin(metrics[:2])]):
        lines += ["", several]
    return "\n".join([f"The {what}, against **{text.plain(baseline.name)}**:\n", *lines])


def _sentence(rows: pd.DataFrame, metric: str) -> str:
    """`In accuracy **B** is better, +1.2 points (95 %: 0.1–2.0); C and D cannot be told from it`."""
    rows = rows.dropna(subset=["value"])
    if rows.empty:
        return ""
    decided, open_ones = [], []
    for row in rows.to_dict("records"):
        debiased = None if pd.isna(row["debiased"]) else row["debiased"]
        difference = Estimate(value=row["value"], low=row["low"], high=row["high"], debiased=debiased)
        word = verdict(metric, difference)
        if word == NO_DIFFERENCE:
            open_ones.append(f"**{row['run']}**")
        else:
            decided.append(f"**{row['run']}** is {word}, {metric_difference(metric, difference)}")
    parts = [*decided, *([f"{formats.listed(open_ones, len(open_ones))} cannot be told from it"] if open_ones else [])]
    return f"In {metric_row(metric).title} {'; '.join(parts)}"


def mcnemar(differences: pd.DataFrame, baseline: str) -> list[str]:
    """One line a run: McNemar's exact test of equal accuracy, and the examples that decide it."""
    lines = []
    for row in differences[(differences["metric"] == "accuracy") & differences["p"].notna()].to_dict("records"):
        p = f"below {SMALL_P}" if row["p"] < SMALL_P else f"= {row['p']:.3f}"
        lines.append(
            f"**{row['run']}**: p {p}; of {formats.counted(int(row['n']), 'example')}, "
            f"{int(row['only_run_right'])} only {row['run']} gets right, "
            f"{int(row['only_baseline_right'])} only {baseline}."
        )
    return lines


def limits(
    sides: Sequence[Side], baseline: Side, tested: Mapping[str, int], fitting: Sequence[str], n: int
) -> list[str]:
    """One sentence for each thing that cannot be compared, and why.

    `tested` are the examples shared with the baseline's `n` by run, `fitting` the runs whose regions can be laid over
    the baseline's.
    """
    sentences = []
    for side in sides:
        if side.key == baseline.key:
            continue
        reason = unlike(side, baseline)
        if reason:
            sentences.append(
                f"**{side.key}** has values of its own but no difference from {baseline.key}, and no curve beside it: "
                f"{text.plain(reason)}."
            )
        elif not tested.get(side.key):
            sentences.append(
                f"**{side.key}** has no difference from {baseline.key}: they were scored on no common example."
            )
        elif tested[side.key] < n:
            shared = f"{formats.count(tested[side.key])} of {baseline.key}'s {formats.counted(n, 'example')}"
            sentences.append(f"**{side.key}** is compared on the {shared} that it was scored on too.")
        if side.key not in fitting:
            sentences.append(
                f"**{side.key}**'s region cannot be laid over {baseline.key}'s: the models' parameters differ "
                f"({formats.count(side.entry.d)} and {formats.count(baseline.entry.d)} graftable entries)."
            )
    return sentences


def unknown(names: Sequence[str]) -> str:
    """That the address names runs that are not here."""
    listed = ", ".join(text.plain(name) for name in names)
    return (
        f"This address names {formats.counted(len(names), 'run')} that cannot be found here: {listed}. "
        "Deleted, or kept in another folder of runs (`SKILLVIZ_RUNS`); the others are shown."
    )


def too_many(count: int) -> str:
    """That more runs were asked for than can be told apart."""
    return f"This address names {count} runs; the first {MOST} are shown, as more cannot be told apart."


def too_few(count: int) -> str:
    """What to do with fewer than two runs."""
    have = "One run is chosen" if count else "No run is chosen"
    return (
        f"{have}. A comparison needs two to {MOST}: choose more above, or press one of the two buttons. The first "
        "takes every localizer of a pair at one region size, the second every seed of one localizer."
    )

"""The compare page's parts: who is who, what the tables of its figures are, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from skillviz.core.metrics import metric_heading
from skillviz.core.region import Region
from skillviz.show import compare as exhibits
from skillviz.show import measures, small_world
from skillviz.show.entries import headline_split
from skillviz.show.glossary import about
from skillviz.ui import cache, controls, page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.compare import compared, paired, words
from skillviz.ui.pages.compare.compared import Side
from skillviz.ui.pages.compare.spec_differences import DIFFERS, spec_differences


@dataclass(frozen=True)
class Comparison:
    """The chosen runs, the baseline among them, which of their models are looked at, and what was computed of them."""

    sides: tuple[Side, ...]
    baseline: Side
    state: str
    examples: dict[str, paired.Examples]
    differences: pd.DataFrame
    regions: dict[str, Region]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that are compared, the task's own first."""
        return compared.metrics_of(self.baseline)

    @property
    def alike(self) -> tuple[Side, ...]:
        """The runs that were scored on the baseline's task and data, itself among them."""
        return tuple(side for side in self.sides if not compared.unlike(side, self.baseline))


def comparison(sides: tuple[Side, ...], baseline: Side) -> Comparison:
    """Reads predictions and regions and takes the differences; explains and stops where a file cannot be read."""
    state = _state(sides)
    with page.explained():
        examples = {s.key: paired.examples(s.run, cache.table(s.run, "predictions"), state) for s in sides}
        regions = {side.key: cache.region(side.run) for side in sides}
    own = dict(regions[baseline.key].shapes)
    like = [side.key for side in sides if not compared.unlike(side, baseline)]
    task = baseline.record.task
    positive = 1 if task is None or task.positive is None else task.positive
    differences = paired.differences(
        {key: examples[key] for key in like}, baseline.key, compared.metrics_of(baseline), positive
    )
    fitting = {key: region for key, region in regions.items() if dict(region.shapes) == own}
    return Comparison(sides, baseline, state, examples, differences, fitting)


def _state(sides: Sequence[Side]) -> str:
    """Grafts; where fine-tuned models differ, the reader may look at those instead."""
    if len({side.entry.pair for side in sides}) == 1:
        return "grafted"
    shown = {"grafted": "grafts", "finetuned": "fine-tuned models"}
    return controls.segments("state", "Compare the", tuple(shown), "grafted", shown=shown.get, help=about("graft"))


def who_is_who(found: Comparison) -> None:
    """The letters, each with its run's id, and what cannot be compared."""
    with st.expander("Who is who", expanded=False):
        for side in found.sides:
            pinned = " (baseline)" if side is found.baseline else ""
            st.markdown(f"**{side.key}**{side.name[1:]}{pinned}: `{side.run.id}`")
    if toys := small_world.caution_of_several([s.key for s in found.sides if small_world.is_toy(s.entry.base)]):
        st.caption(toys)
    tested = {str(row["run"]): int(row["n"]) for row in found.differences.to_dict("records")}
    whole = len(found.examples[found.baseline.key].ids)
    for sentence in words.limits(found.sides, found.baseline, tested, list(found.regions), whole):
        st.info(sentence, icon=":material/info:")


def summary(found: Comparison) -> str:
    """The page's sentence."""
    what = exhibits.STATES[found.state]
    return words.summary(found.differences, found.baseline, found.metrics, what)


def scores(found: Comparison) -> None:
    """Values beside differences, and McNemar's test."""
    table = compared.values(found.sides, found.state, found.metrics)
    marks = compared.styles(found.sides, [key for key in table["run"].unique() if key.startswith("tuned")])
    left, right = st.columns(2)
    with left:
        show(exhibits.values(table, marks, found.metrics, found.state, theme()), found.baseline.run.id)
    with right:
        _differences(found)


def _differences(found: Comparison) -> None:
    if found.differences.empty:
        st.info("There is no difference to show: no other run was scored on the baseline's examples.")
        return
    marks = compared.styles(found.sides)
    key = found.baseline.key
    show(exhibits.differences(found.differences, marks, key, found.metrics, theme()), found.baseline.run.id)
    lines = words.mcnemar(found.differences, key)
    if lines:
        with st.expander("McNemar's exact test of equal accuracy"):
            st.markdown("\n".join(f"- {line}" for line in lines), help=about("mcnemar"))


def curves(found: Comparison) -> None:
    """The curves of runs on the baseline's data, and everyone's reliability."""
    record, split, marks = found.baseline.record, headline_split(found.baseline.record), compared.styles(found.sides)
    with page.explained():
        tables = {side.key: cache.table(side.run, "curve") for side in found.alike}
    curve = compared.curves(found.alike, tables, split)
    offered = measures.offered(curve, record)
    metric = controls.select("metric", "Metric by size", offered, offered[0], shown=metric_heading, width=320)
    is_one_pair = len({side.entry.pair for side in found.alike}) == 1
    levels = measures.levels(record, split, metric) if is_one_pair else measures.guesses(record, split, metric)
    left, right = st.columns(2)
    with left:
        show(exhibits.sizes(curve, marks, metric, levels, theme()), found.baseline.run.id)
    with right:
        show(exhibits.reliability(paired.bins(found.examples), marks, found.state, theme()), found.baseline.run.id)


def shared(found: Comparison) -> None:
    """How much the regions have in common, both ways."""
    if len(found.regions) < compared.FEWEST:
        st.info("No other region lies in a model of the baseline's parameters, so none can be laid over its region.")
        return
    for place, kind in zip(st.columns(2), ("iou", "overlap"), strict=True):
        with place:
            show(exhibits.shared(compared.shares(found.regions, kind), kind, theme()), found.baseline.run.id)


def _highlighted(value: object) -> str:
    """A tint for what differs, thin enough for both grounds; the sign before it says the same without colour."""
    return "background-color: rgba(196, 78, 0, 0.16)" if str(value).startswith(DIFFERS) else ""


def specs(found: Comparison) -> None:
    """What was asked for differently."""
    table = spec_differences(found.sides, found.baseline)
    with st.container(border=True):
        st.markdown("### What was asked for differently")
        if table.empty:
            st.caption("Nothing: these runs had the same spec, so they are repetitions of one another.")
            return
        st.dataframe(table.style.map(_highlighted), hide_index=True, alt="Fields in which the specs of the runs differ")
        st.caption(
            f"≠ marks what differs from {found.baseline.key}, the baseline. Fields that are the same everywhere are "
            "left out; a default is named as one."
        )

"""The map of the region: the shown quantity, the region that it is compared with, and the chosen cell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

import pandas as pd
import streamlit as st

from skillviz.runs.part_scores import DISJOINT, MINIMAL
from skillviz.runs.run import Run
from skillviz.show import region as exhibits
from skillviz.show.entries import Entry, other_seeds, pair_labels, run_labels
from skillviz.show.region import Cell
from skillviz.ui import cache, controls, page, presenter
from skillviz.ui.chart import below, selectable, theme
from skillviz.ui.pages.region.other_regions import minimal_part, roles, stored
from skillviz.ui.pages.region.part_cards import cell_effects
from skillviz.ui.run_bar import offered

VIEW, OTHER, CELL = "view", "other", "cell"
ROLES = "roles"
ALONE = ""  # no other region
MAP = "chart.map"
EFFECT = "effect"
VIEWS = {
    "density": "Density", "share": "Share", "movement": "Movement", "stability": "Stability", EFFECT: "Effect",
    MINIMAL: "Minimal", ROLES: "Core",
}  # fmt: skip
MOST_SEEDS = 5
HERE, THERE = "this region", "the other"


def map_card(run: Run, layers: pd.DataFrame, choices: dict[str, Cell]) -> None:
    """Draws the map; a click on a cell, or the box beside the map, chooses the framed cell."""
    with page.explained():
        entries = cache.entries()
        this = next(entry for entry in entries if entry.id == run.id)
        others, seeds = _others(entries, this), other_seeds(entries, this)[: MOST_SEEDS - 1]
    cell = choices[controls.current(CELL, list(choices), next(iter(choices)))]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        views = [*exhibits.views_of(layers), *(["stability"] if seeds else []), *([EFFECT] if run.record.task else [])]
        views += [{DISJOINT: ROLES}.get(kind, kind) for kind in (MINIMAL, DISJOINT) if stored(run, kind)]
        view = controls.segments(VIEW, "Show", views, views[0], shown=VIEWS.get, shows_label=False)
        names = names_beside(entries, this)
        other = controls.select(
            OTHER, "Compare with", [ALONE, *others], ALONE,
            shown=lambda run_id: names[run_id] if run_id else "Compare with another region",
            width=presenter.pixels(250), shows_label=False,
        )  # fmt: skip
    if view in (EFFECT, MINIMAL, ROLES) and not other:
        {EFFECT: cell_effects, MINIMAL: minimal_part, ROLES: roles}[view](run)
        return
    with page.explained():
        region = cache.region(run)
        if other:
            second = cache.region(cache.run(other))
            view, layers = "overlap", exhibits.shared_layers(layers, [(region, second)], run.record)
            st.markdown(exhibits.comparison(region, second))
        elif view == "stability":
            regions = [region, *(cache.region(cache.run(entry.id)) for entry in seeds)]
            layers = exhibits.shared_layers(layers, list(combinations(regions, 2)), run.record)
            st.markdown(exhibits.seeds_agreement(regions))
    shown = exhibits.region_map(layers, view, cell, theme(), (HERE, THERE))
    selectable(shown, name="map", run_id=run.id, alt=shown.alt, on_select=lambda: _clicked(choices))
    reads = f"{shown.reads} Click a cell to zoom in, or choose it in the box beside the map."
    below(shown, name="map", title=shown.title, reads=reads, table=shown.table, run_id=run.id)


def names_beside(entries: Sequence[Entry], this: Entry) -> dict[str, str]:
    """The runs' names by id, for a narrow box on the page of `this`; runs of the same models omit the models."""
    shared = f"{pair_labels(entries)[this.pair]} · "
    return {run_id: name.removeprefix(shared) for run_id, name in run_labels(entries).items()}


def _others(entries: Sequence[Entry], this: Entry) -> list[str]:
    """The runs whose regions can be compared with this one: of the same base model, runs on the same task first."""
    fitting = [e for e in offered(entries, (this.id,)) if (e.base, e.d) == (this.base, this.d) and e.id != this.id]
    order = sorted(fitting, key=lambda e: (e.pair != this.pair, e.task, e.size != this.size, e.localizer, e.seed))
    return [entry.id for entry in order]


def _clicked(choices: Collection[str]) -> None:
    """Applies a click on the map to the box."""
    points = st.session_state[MAP]["selection"]["points"]
    if points:
        layer, kind = points[0]["customdata"]
        key = Cell(None if layer == exhibits.OUTSIDE else layer, kind).key
        if key in choices:
            controls.assign(CELL, key)

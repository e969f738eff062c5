"""The map of the region: the shown quantity, the region that it is compared with, and the chosen cell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

import pandas as pd
import streamlit as st

from skillviz.analysis.other_regions import as_good
from skillviz.analysis.other_regions import other_regions as table_of
from skillviz.core import formats
from skillviz.core.region import Region
from skillviz.core.region_expression import canonical
from skillviz.runs.part_scores import ADVERSARIAL, DISJOINT, MINIMAL, REGIONS, PartScores, stored_parts
from skillviz.runs.run import Run
from skillviz.show import other_regions as regions_exhibits
from skillviz.show import region as exhibits
from skillviz.show import sentences, text
from skillviz.show.briefs import RunBrief, headline_split, other_seeds, pair_labels, run_labels
from skillviz.show.control import beside_control, beside_finetuned, control_of
from skillviz.show.glossary import about
from skillviz.show.region import Cell, shared_layers
from skillviz.ui import address, cache, controls, exports, page, presenter, show_code
from skillviz.ui.chart import COLUMNS, below, selectable, show, theme
from skillviz.ui.chip import judged_text
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.region.part_cards import cell_effects
from skillviz.ui.pages.surgery.region_form import IN_ADDRESS
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
TENSOR, LINES, ENTRIES = "tensor", "lines", "entries"
COUNTED = {ENTRIES: "Entries", "row": "Rows", "column": "Columns", "head": "Heads"}
HEIGHT = 320


def map_card(run: Run, layers: pd.DataFrame, choices: dict[str, Cell]) -> None:
    """Draws the map; a click on a cell, or the box beside the map, chooses the framed cell."""
    with page.explained():
        briefs = cache.briefs()
        this = next(brief for brief in briefs if brief.id == run.id)
        others, seeds = _others(briefs, this), other_seeds(briefs, this)[: MOST_SEEDS - 1]
    cell = choices[controls.current(CELL, list(choices), next(iter(choices)))]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        views = [*exhibits.views_of(layers), *(["stability"] if seeds else []), *([EFFECT] if run.record.task else [])]
        views += [{DISJOINT: ROLES}.get(kind, kind) for kind in (MINIMAL, DISJOINT) if stored(run, kind)]
        view = controls.segments(VIEW, "Show", views, views[0], shown=VIEWS.get, shows_label=False)
        names = names_beside(briefs, this)
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
            regions = [region, *(cache.region(cache.run(brief.id)) for brief in seeds)]
            layers = exhibits.shared_layers(layers, list(combinations(regions, 2)), run.record)
            st.markdown(exhibits.seeds_agreement(regions))
    runs = [run.id, other] if other else [run.id, *(brief.id for brief in seeds)] if view == "stability" else []
    several = {"runs": runs, "names": (HERE, THERE)} if runs else {"run": run.id}
    show_code.show("region of several" if runs else "region", view=view, layer=cell.layer, kind=cell.kind, **several)
    shown = exhibits.region_map(layers, view, cell, theme(), (HERE, THERE))
    selectable(shown, name="map", run_id=run.id, alt=shown.alt, on_select=lambda: _clicked(choices))
    reads = f"{shown.reads} Click a cell to zoom in, or choose it in the box beside the map."
    below(shown, name="map", title=shown.title, reads=reads, table=shown.table, run_id=run.id)


def names_beside(briefs: Sequence[RunBrief], this: RunBrief) -> dict[str, str]:
    """The runs' names by id, for a narrow box on the page of `this`; runs of the same models omit the models."""
    shared = f"{pair_labels(briefs)[this.pair]} · "
    return {run_id: name.removeprefix(shared) for run_id, name in run_labels(briefs).items()}


def _others(briefs: Sequence[RunBrief], this: RunBrief) -> list[str]:
    """The runs whose regions can be compared with this one: of the same base model, runs on the same task first."""
    fitting = [e for e in offered(briefs, (this.id,)) if (e.base, e.d) == (this.base, this.d) and e.id != this.id]
    order = sorted(fitting, key=lambda e: (e.pair != this.pair, e.task, e.size != this.size, e.localizer, e.seed))
    return [brief.id for brief in order]


def _clicked(choices: Collection[str]) -> None:
    """Applies a click on the map to the box."""
    points = st.session_state[MAP]["selection"]["points"]
    if points:
        layer, kind = points[0]["customdata"]
        key = Cell(None if layer == exhibits.OUTSIDE else layer, kind).key
        if key in choices:
            controls.assign(CELL, key)


def cell_card(run: Run, layers: pd.DataFrame, table: pd.DataFrame, choices: dict[str, Cell]) -> None:
    """Draws the chosen cell: its count, one of its tensors, and that tensor's entries, rows, columns or heads."""
    titles = exhibits.cell_titles(table)
    key = controls.select(
        CELL, "Zoom in on", list(choices), next(iter(choices)),
        shown=lambda key: formats.capital(titles[choices[key]]), shows_label=False,
    )  # fmt: skip
    rows = exhibits.cell_tensors(layers, choices[key])
    names = exhibits.tensor_names(rows)
    if len(names) > 1:
        name = controls.select(TENSOR, "Tensor", names, names[0])
    else:
        name = names[0]
        st.caption(text.plain(name))
    row = rows.iloc[names.index(name)]
    with page.explained():
        region = cache.region(run)
    part = exhibits.part(region, run.record, row["parameter"], row["kind"])
    by = controls.segments(
        LINES, "Show its", (ENTRIES, *exhibits.line_kinds(part)), ENTRIES,
        shown=lambda by: COUNTED[by],
    )  # fmt: skip
    st.markdown(sentences.tensor(row, part.rows, part.cols))
    if by == ENTRIES:
        show(exhibits.tensor(part, theme()), run.id)
    else:
        show(exhibits.close_up(region, run.record, part, choices[key].layer, by, theme()), run.id)


def tensor_table(run: Run, layers: pd.DataFrame) -> None:
    """Draws the table; the selected row, by default the first, can be opened in Surgery."""
    table = cache.computed(("tensors",), [run], lambda: exhibits.tensor_table(layers))
    st.markdown("## Tensors")
    event = st.dataframe(
        table, hide_index=True, column_config=COLUMNS, height=HEIGHT, placeholder="", key="tensors",
        on_select="rerun", selection_mode="single-row", alt="Entries of the region in each tensor of the model",
    )  # fmt: skip
    rows = event.selection.rows if event else []
    row = table.iloc[rows[0] if rows and rows[0] < len(table) else 0]
    with st.container(horizontal=True, vertical_alignment="center"):
        exports.table_menu(
            table, file=exports.file_name(run.id, "tensors"), key="tensors",
            caption=f"Entries of the region of {run.id} by tensor",
        )  # fmt: skip
        st.page_link(
            PAGES["surgery"].link(), label="Open this tensor in Surgery", icon=":material/content_cut:",
            help=f"{text.plain(row['parameter'])}. Select a row (keyboard: Shift+Space) to choose another.",
            query_params={address.RUN: run.id, IN_ADDRESS: canonical(exhibits.tensor_expression(run.id, row))},
        )  # fmt: skip


def verdict(run: Run) -> str:
    """The verdict on the graft against a control of its size, or if none is stored the fine-tuned model, in Markdown.

    Empty if there is no paired difference."""
    briefs, split = cache.briefs(), headline_split(run.record)
    control = control_of(briefs, next(brief for brief in briefs if brief.id == run.id))
    judged = None
    if control is not None:
        with page.explained():
            other = cache.run(control.id)
            tables = [cache.stored_table(one, "predictions") for one in (run, other)]
        judged = cache.computed(
            ("beside control", split), [run, other],
            lambda: beside_control(run.record, tables[0], control, tables[1], split),
        )  # fmt: skip
    scores = run.record.metrics.get(split)
    if judged is None and scores is not None:
        judged = beside_finetuned(run.record, scores)
    return judged_text(judged) if judged else ""


def other_regions(run: Run) -> None:
    """Draws the section: the stored results of each kind, and the commands that compute missing kinds."""
    st.markdown("## One region among many", help=about("null", "paired"))
    if run.record.task is None:
        return
    scores = _scores(run)
    missing = [kind for kind in (DISJOINT, MINIMAL, ADVERSARIAL) if not stored(run, kind)]
    if scores is not None:
        found = _found(run, scores)
        st.markdown("\n".join(f"- {line}" for line in regions_exhibits.finding(found, run.record, scores.record.facts)))
        for kind in (DISJOINT, MINIMAL, ADVERSARIAL):
            if kind not in missing:
                table = regions_exhibits.table(found, kind)
                st.markdown(f"**{regions_exhibits.KINDS[kind]}**")
                st.table(table, border="horizontal", hide_index=True)
        table = regions_exhibits.table(found)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(
                f"{scores.record.n:,} examples of the {scores.record.split} set. 95% intervals, paired. More is better "
                "in every difference.", width="stretch",
            )  # fmt: skip
            exports.table_menu(table, file=exports.file_name(run.id, REGIONS), key=REGIONS, caption="Other regions")
    if missing:
        with st.expander("Look for others in a terminal"):
            st.caption("Each region takes about the time of the run's search.")
            lines = [f"python -m skillviz regions {run.id} --find {kind}" for kind in missing]
            st.code("\n".join(lines), language="sh")


def minimal_part(run: Run) -> None:
    """Draws the map with the smallest sufficient part in full color and the surplus in gray."""
    scores, layers = _scores(run), page.stored_table(run, "layers")
    assert scores is not None
    with page.explained():
        whole = cache.region(run)
        kept = Region.from_flat(scores.entries(MINIMAL)[0], whole.shapes)
        shared = shared_layers(layers, [(whole, kept)], run.record)
    with st.container():  # as high as the map, not as the column
        show(regions_exhibits.minimal_map(shared, theme()), run.id)


def roles(run: Run) -> None:
    """Draws the map of the entries shared by the run's region and the disjoint regions that score as well."""
    scores = _scores(run)
    assert scores is not None
    with page.explained():
        whole, good = cache.region(run), as_good(_found(run, scores))
        entries = scores.entries(DISJOINT)
        regions = [whole, *(Region.from_flat(entries[number - 1], whole.shapes) for number in good)]
    table = cache.computed(
        ("roles", str(scores.path), scores.record.created), [run], lambda: regions_exhibits.cell_roles(run, regions)
    )
    exhibit = regions_exhibits.role_map(table, len(regions), theme())
    st.markdown(exhibit.finding)
    with st.container():  # as high as the map, not as the column
        show(exhibit, run.id)


def stored(run: Run, kind: str) -> bool:
    """True if regions of this kind are stored beside the run."""
    scores = _scores(run)
    return scores is not None and any(name.split()[0] == kind for name in scores.record.facts)


def _scores(run: Run) -> PartScores | None:
    with page.explained():
        return stored_parts(cache.library(), run, REGIONS)


def _found(run: Run, scores: PartScores) -> pd.DataFrame:
    with page.explained():
        return cache.computed((REGIONS, str(scores.path), scores.record.created), [run], lambda: table_of(run, scores))

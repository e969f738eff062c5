"""The sub-skills of the region's parts, beside random controls: their cells, sentences and grafts."""

from __future__ import annotations

import streamlit as st

from skillviz.analysis.subskills import RegionSubskills, expression_of, region_subskills
from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.region_expression import canonical
from skillviz.core.region_parts import CELLS, GROUPINGS
from skillviz.runs.part_scores import PartScores, stored_parts
from skillviz.runs.run import Run
from skillviz.show import sentences
from skillviz.show import subskills as exhibits
from skillviz.show.briefs import headline_split
from skillviz.show.glossary import about
from skillviz.ui import address, cache, controls, exports, page
from skillviz.ui.chart import show, theme
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.region.part_cards import texts_of
from skillviz.ui.pages.surgery.region_form import IN_ADDRESS
from skillviz.ui.pages.surgery.surgery_page import same


def subskills(run: Run) -> None:
    """Draws the section, if the parts of the chosen grouping are scored and the task has classes."""
    if run.record.task is None or not run.record.has_classes:
        return
    with page.explained():
        scores = stored_parts(cache.library(), run, controls.current("parts", tuple(GROUPINGS), CELLS))
    if scores is None:
        return
    st.markdown("## Sub-skills", help=about("subskills", "parts"))
    task = run.record.task
    with page.explained(), st.spinner("Comparing with random controls…"):
        found = cache.computed(
            ("subskills", str(scores.path), scores.record.created), [run],
            lambda: region_subskills(scores.predictions(), task),
        )  # fmt: skip
    if found is None:
        st.caption(exhibits.NOT_COMPARED)
        return
    st.markdown(exhibits.finding(found))
    show(exhibits.stability_figure(exhibits.stability(found), theme()), run.id)
    st.caption(
        f"{formats.counted(scores.record.n, 'example')}, {formats.counted(scores.record.draws, 'control draw')}. More "
        f"draws reveal weaker structure: `python -m skillviz parts {run.id} --by {scores.record.grouping} --draws 10 "
        "--again`."
    )
    if found.found.is_beyond_random:
        _subskills(run, scores, found)
    else:
        with st.expander(f"Show the {found.found.count} groups all the same"):
            _subskills(run, scores, found)


def _subskills(run: Run, scores: PartScores, found: RegionSubskills) -> None:
    """Draws the sub-skills, and of the chosen one its sentences and its graft."""
    table = exhibits.table(found, run.labels)
    st.table(table, border="horizontal", hide_index=True)
    exports.table_menu(table, file=exports.file_name(run.id, "subskills"), key="subskills", caption="Sub-skills")
    show(exhibits.loadings_figure(exhibits.loadings(found), theme()), run.id)
    st.caption(exhibits.clipped(found))
    number = controls.segments("subskill", "Sub-skill", list(range(1, found.found.count + 1)), 1) - 1
    texts = texts_of(run, scores.record.split)
    st.table(exhibits.sentences(found, number, run.labels, texts), border="horizontal", hide_index=True)
    if scores.record.grouping == CELLS:
        _graft(run, found, number)


def _graft(run: Run, found: RegionSubskills, number: int) -> None:
    """Draws the link that opens a sub-skill's cells in Surgery, and the scores of a stored run of exactly these."""
    layers = page.stored_table(run, "layers")["layer"].dropna().unique()
    cells = found.parts[found.parts["subskill"] == number]
    expression = expression_of(run.id, cells, sorted(int(layer) for layer in layers))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.page_link(
            PAGES["surgery"].link(), label="Open this sub-skill in Surgery", icon=":material/content_cut:",
            help="Its cells: those with their largest effect in it. Surgery scores their graft and saves it as a run.",
            query_params={address.RUN: run.id, IN_ADDRESS: canonical(expression)},
        )  # fmt: skip
        if stored := same(run, expression):
            record, metric = cache.run(stored).record, run.record.metric
            scores = record.metrics[headline_split(record)]
            said = sentences.metric_estimate(metric, scores.states["grafted"].get(metric))
            st.page_link(
                PAGES["overview"].link(), label=f"Its graft: {metric_row(metric).title} {said}",
                query_params={address.RUN: stored},
            )  # fmt: skip

"""The section "One region among many": results of the command `regions`, as sentences, tables and two maps."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from skillviz.analysis.other_regions import as_good
from skillviz.analysis.other_regions import other_regions as table_of
from skillviz.core.region import Region
from skillviz.runs.part_scores import ADVERSARIAL, DISJOINT, MINIMAL, REGIONS, PartScores, stored_parts
from skillviz.runs.run import Run
from skillviz.show import other_regions as exhibits
from skillviz.show.glossary import about
from skillviz.show.region import shared_layers
from skillviz.ui import cache, exports, page
from skillviz.ui.chart import show, theme


def other_regions(run: Run) -> None:
    """Draws the section: the stored results of each kind, and the commands that compute missing kinds."""
    st.markdown("## One region among many", help=about("null", "paired"))
    if run.record.task is None:
        return
    scores = _scores(run)
    missing = [kind for kind in (DISJOINT, MINIMAL, ADVERSARIAL) if not stored(run, kind)]
    if scores is not None:
        found = _found(run, scores)
        st.markdown("\n".join(f"- {line}" for line in exhibits.finding(found, run.record, scores.record.facts)))
        for kind in (DISJOINT, MINIMAL, ADVERSARIAL):
            if kind not in missing:
                table = exhibits.table(found, kind)
                st.markdown(f"**{exhibits.KINDS[kind]}**")
                st.table(table, border="horizontal", hide_index=True)
        table = exhibits.table(found)
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
        show(exhibits.minimal_map(shared, theme()), run.id)


def roles(run: Run) -> None:
    """Draws the map of the entries shared by the run's region and the disjoint regions that score as well."""
    scores = _scores(run)
    assert scores is not None
    with page.explained():
        whole, good = cache.region(run), as_good(_found(run, scores))
        entries = scores.entries(DISJOINT)
        regions = [whole, *(Region.from_flat(entries[number - 1], whole.shapes) for number in good)]
    table = cache.computed(
        ("roles", str(scores.path), scores.record.created), [run], lambda: exhibits.cell_roles(run, regions)
    )
    exhibit = exhibits.role_map(table, len(regions), theme())
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

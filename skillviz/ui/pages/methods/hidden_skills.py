"""The methods page's section on known truth: localizers on fine-tuned models with a planted skill."""

from __future__ import annotations

import streamlit as st

from skillviz.core.verdicts import NOT_MEASURED
from skillviz.plots.known_truth import SERIES
from skillviz.show import known_truth as exhibits
from skillviz.show.glossary import about
from skillviz.ui import cache, controls, exports
from skillviz.ui.chart import show, theme


def board() -> None:
    """Draws the choices of distractor and size, then sentence, figure and table."""
    st.markdown(f"## {exhibits.TITLE}", help=about("localizer"))
    found, models = cache.known_truth()
    names = exhibits.distractors(found)
    if not names:
        st.markdown(f"{NOT_MEASURED.capitalize()}: `python -m benchmarks planted` plants skills and searches for them.")
        return
    with st.container(horizontal=True):
        around = controls.select("around", "What else moved", names, names[min(1, len(names) - 1)],
                                 shown=exhibits.AROUND.get, width=400)  # fmt: skip
        sizes = exhibits.sizes(found, around)
        factor = controls.select("factor", "Region size / true size", sizes, sizes[0],
                                 shown=lambda one: f"{one:g}×", width=200)  # fmt: skip
    rows, levels = exhibits.rows_of(found, around, factor), exhibits.levels(models, around)
    st.markdown(exhibits.finding(rows, levels))
    show(exhibits.exhibit(rows, levels, tuple(SERIES), theme()))
    table = exhibits.table(rows)
    st.dataframe(table, hide_index=True, alt="Localizers on hidden skills")
    exports.table_menu(table, file="hidden-skills", key="hidden_skills", caption="Localizers on hidden skills")
    st.caption(f"A small encoder. {exhibits.failed(models)} How the skills were planted: {exhibits.GUIDE}.")

"""The overview's section on the gain of the run's grafts; empty if the grafts have the fine-tuned values."""

from __future__ import annotations

import streamlit as st

from skillviz.runs.run import Run
from skillviz.show import gain
from skillviz.show.glossary import about
from skillviz.ui import exports


def section(run: Run, split: str) -> None:
    """Draws the finding, and one row per graft that got the same fit."""
    if not run.record.gains:
        return
    st.markdown(f"## {gain.TITLE}", help=about("scale"))
    st.markdown(gain.sentence(run.record, split))
    table, caption = gain.table(run.record, split), gain.caption(run.record)
    st.dataframe(table, hide_index=True, alt=caption)
    st.caption(f"{caption}.")
    exports.table_menu(table, file=f"{run.id}-gains", key="gains", caption=caption)
    if len(kinds := gain.kinds(run.record)):
        caption = gain.kinds_caption(run.record)
        st.dataframe(kinds, hide_index=True, alt=caption)
        st.caption(f"{caption}.")
        exports.table_menu(kinds, file=f"{run.id}-gains-by-kind", key="gains-by-kind", caption=caption)

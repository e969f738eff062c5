"""The overview's section on nulls: the same search on null movements, by this run or a comparable one."""

from __future__ import annotations

from contextlib import suppress

import streamlit as st

from skillviz.analysis.null_measures import by_measure
from skillviz.core.localizers.table import has_null
from skillviz.errors import BadData
from skillviz.runs.record import RunRecord
from skillviz.runs.run import Run
from skillviz.show import beyond
from skillviz.show.glossary import about
from skillviz.ui import cache, exports, run_list
from skillviz.ui.chip import judged_text
from skillviz.ui.page_table import PAGES


def line(record: RunRecord, split: str) -> None:
    """Draws the run's verdict against its null, under the headline; nothing for a localizer without a null."""
    judged = beyond.judged(record, split)
    if judged is not None:
        st.markdown(judged_text(judged), help=about("null", "paired"))


def section(run: Run, split: str) -> None:
    """Draws the nulls with their scores.

    A run without nulls shows the nulls of a stored run of the same pair, task, localizer and size, else the command
    that makes them."""
    if not has_null(run.spec.localizer):
        return
    st.markdown(f"## {beyond.TITLE}", help=about("null"))
    others = (cache.run(entry.id).record for entry in run_list.pair_entries(run) if entry.id != run.id)
    shown = beyond.stored_beside(run.record, others)
    if shown is None or not beyond.sentence(shown, split):
        st.markdown("Not measured. This command makes the run with a null:")
        st.code(beyond.command(run.record), language=None, wrap_lines=True)
        return
    if shown.run_id != run.record.run_id:
        st.caption(f"Measured by the run `{shown.run_id}` of the same pair, task, localizer and size.")
    st.markdown(beyond.sentence(shown, split))
    table, caption = beyond.table(shown, split), "The nulls of the run"
    st.dataframe(table, hide_index=True, alt=caption)
    exports.table_menu(table, file=f"{shown.run_id}-nulls", key="nulls", caption=caption)
    measured = cache.run(shown.run_id)
    _other_models(measured, split)
    found = cache.computed(("measures of nulls", split), [measured], lambda: by_measure(measured, split))
    if len(found):
        st.markdown(beyond.likeness(found))
        with st.expander("By other measures"):
            table, caption = beyond.measures(found), "The graft and its nulls by each measure"
            st.dataframe(table, hide_index=True, alt=caption)
            exports.table_menu(table, file=f"{shown.run_id}-measures", key="null-measures", caption=caption)
    with st.expander("What the nulls are"):
        st.markdown(beyond.meaning())


def _other_models(run: Run, split: str) -> None:
    """Draws the margin over all fine-tuned models with the same search, and a link to their comparison, if there are
    several."""
    searched = (run.spec.localizer, run.record.size, run.record.task_name)
    alike = [one.id for one in cache.entries() if (one.localizer, one.size, one.task) == searched]
    others = beyond.of_other_models(run.record, (cache.run(name).record for name in alike))
    if not others:
        return
    runs = [run, *(cache.run(one.run_id) for one in others)]
    with suppress(BadData):  # scored on other examples
        st.markdown(run_list.margin_over_models(runs, split))
        query = {"runs": ",".join(one.id for one in runs)}
        link = PAGES["compare"].link()
        st.page_link(link, label="Compare them", icon=":material/compare_arrows:", query_params=query)

"""All runs of one pair and task together, for the sparsity page."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.runs.run import Run
from skillviz.show import measures
from skillviz.show.entries import Entry, headline_split
from skillviz.ui import cache, page
from skillviz.ui.pages.runs import view


def pair_entries(run: Run) -> list[Entry]:
    """The runs with the same models, task, data and readout."""
    entries = cache.entries()
    pair = next(entry.pair for entry in entries if entry.id == run.id)
    return [entry for entry in entries if entry.pair == pair]


def pair_runs(run: Run) -> list[Run]:
    """The same as runs; explains and stops where one cannot be read."""
    with page.explained():
        return cache.runs(entry.id for entry in pair_entries(run))


def pair_curve(run: Run) -> tuple[pd.DataFrame, str]:
    """One curve of all those runs, and the split that it is of; explains and stops where there is none."""
    entries, split = pair_entries(run), headline_split(run.record)
    runs = pair_runs(run)
    with page.explained():
        curves = [cache.table(one, "curve") for one in runs]
    curve = measures.pair_curve(entries, curves, split)
    if curve.empty:
        st.info(
            f"Run {run.id} holds no curve: it was made without evaluating region sizes. Make one with "
            "`python -m skillviz localize ... --size 0.1% --size 0.01% --size 1%`."
        )
        st.stop()
    return curve, split


def runs_behind(run: Run) -> None:
    """The runs that the figure was drawn from, folded."""
    entries = pair_entries(run)
    with st.expander(f"{formats.counted(len(entries), 'run')} of this pair and task in the figure"):
        st.dataframe(
            view.listing(entries),
            hide_index=True,
            column_config=view.COLUMNS,
            alt="The runs drawn above",
        )

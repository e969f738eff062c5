"""All tensors of the model in one table that can be sorted and downloaded, and the way from one of them to Surgery."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from skillviz.analysis.readable_table import as_stored, latex
from skillviz.core.region_expression import canonical
from skillviz.runs.run import Run
from skillviz.show import region as exhibits
from skillviz.show import text
from skillviz.ui import address, exports
from skillviz.ui.chart import COLUMNS
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.surgery.region_form import IN_ADDRESS

HEIGHT = 320


def tensor_table(run: Run, layers: pd.DataFrame) -> None:
    """Draws the table; the row that is selected, else the first, can be opened in Surgery."""
    table = exhibits.tensor_table(layers)
    st.markdown("## Tensors")
    event = st.dataframe(
        table, hide_index=True, column_config=COLUMNS, height=HEIGHT, placeholder="", key="tensors",
        on_select="rerun", selection_mode="single-row", alt="Entries of the region in each tensor of the model",
    )  # fmt: skip
    rows = event.selection.rows if event else []
    row = table.iloc[rows[0] if rows and rows[0] < len(table) else 0]
    stem, caption = exports.file_name(run.id, "tensors"), f"Entries of the region of {run.id} by tensor"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Download CSV", partial(exports.csv, table), f"{stem}.csv", "text/csv", key="csv.tensors",
            on_click="ignore", icon=":material/download:",
        )  # fmt: skip
        st.download_button(
            "Download LaTeX", lambda: latex(as_stored(table), caption).encode("utf-8"), f"{stem}.tex",
            "application/x-tex", key="tex.tensors", on_click="ignore", icon=":material/download:",
        )  # fmt: skip
        st.page_link(
            PAGES["surgery"].link(), label="Open this tensor in Surgery", icon=":material/content_cut:",
            help=f"{text.plain(row['parameter'])}. Select a row to choose another tensor.",
            query_params={address.RUN: run.id, IN_ADDRESS: canonical(exhibits.tensor_expression(run.id, row))},
        )  # fmt: skip

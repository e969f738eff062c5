"""The sortable, downloadable table of all tensors of the model, with a link from a tensor to Surgery."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from skillviz.core.region_expression import canonical
from skillviz.runs.run import Run
from skillviz.show import region as exhibits
from skillviz.show import text
from skillviz.ui import address, cache, exports
from skillviz.ui.chart import COLUMNS
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.surgery.region_form import IN_ADDRESS

HEIGHT = 320


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

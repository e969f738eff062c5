"""A page, or a script with controls, as a visitor drives it: address, fields by label, text, tables and figures."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
from streamlit.testing.v1 import AppTest

from skillviz.ui.page_table import PAGES
from tests.visitor import confirmed

SECONDS = 300  # seconds: a worker loads torch and the pair, slower on a busy machine
FIELDS = (
    "selectbox", "multiselect", "text_input", "text_area", "number_input", "button_group", "toggle", "file_uploader",
    "radio", "slider", "select_slider",
)  # fmt: skip
TEXT = ("title", "markdown", "caption", "info", "warning", "error", "success", "code")


def opened(page: str | Callable[..., None], /, session: Mapping[str, Any] | None = None, **query: object) -> AppTest:
    """Return the page of this name, or this script, after its first run; `__` in a query's name stands for a dot."""
    make = AppTest.from_file if isinstance(page, str) else AppTest.from_function
    test = make(str(PAGES[page].path) if isinstance(page, str) else page, default_timeout=SECONDS)
    for name, value in (session or {}).items():
        test.session_state[name] = value
    for name, value in query.items():
        test.query_params[name.replace("__", ".")] = str(value)
    return confirmed(test.run())


def said(test: AppTest, *kinds: str) -> str:
    """Return all text of a page without exceptions, or of these kinds, without escapes and with ordinary spaces."""
    assert not test.exception
    text = "\n".join(str(part.value) for kind in kinds or TEXT for part in test.get(kind))
    return text.replace("\\", "").replace("\N{NO-BREAK SPACE}", " ")


def lacks(text: str, *parts: str) -> list[str]:
    """Return the parts that are not in the text."""
    return [part for part in parts if part not in text]


def fields(test: AppTest) -> list[Any]:
    """Return every field that takes a choice or text."""
    return [field for kind in FIELDS for field in test.get(kind)]


def box(test: AppTest, label: str) -> Any:
    """Return the first field whose label begins so."""
    return next(field for field in fields(test) if field.label.startswith(label))


def filled(test: AppTest, label: str, value: Any) -> AppTest:
    """Return the page after this field was given the value."""
    return box(test, label).set_value(value).run()


def labels(test: AppTest, kind: str = "button") -> list[str]:
    """Return the labels of all parts of this kind."""
    return [part.proto.label for part in test.get(kind)]


def button(test: AppTest, label: str) -> Any:
    """Return the first button whose label begins so."""
    return next(one for one in test.button if one.label.startswith(label))


def pressed(test: AppTest, label: str) -> AppTest:
    """Return the page after a click on this button."""
    return button(test, label).click().run()


def link(test: AppTest) -> dict[str, str]:
    """Return the query of the address."""
    return {name: value[0] if isinstance(value, list) else value for name, value in test.query_params.items()}


def links(test: AppTest) -> dict[str, str]:
    """Return label -> query of every link to a page."""
    return {one.proto.label: one.proto.query_string for one in test.get("page_link")}


def copied(test: AppTest) -> dict[str, str]:
    """Return the defaults that a copied link names and the address omits."""
    drawn = "".join(block.proto.body for block in test.get("html"))
    return dict(re.findall(r'class="copied-too" data-name="(.*?)" data-value="(.*?)"', drawn))


def charts(test: AppTest) -> list[Any]:
    return test.get("plotly_chart")


def figures(test: AppTest) -> list[dict[str, Any]]:
    """Return the figures of the page as plotly specifications."""
    return [json.loads(chart.proto.spec) for chart in charts(test)]


def with_tables(test: AppTest) -> AppTest:
    """Return the page with every folded table unfolded."""
    for fold in test.expander:
        if (key := fold.proto.id.split("-", 2)[-1]).startswith("table."):
            test.session_state[key] = True
    return test.run()


def table(test: AppTest, *columns: str) -> pd.DataFrame:
    """Return the first table of the page that has these columns."""
    tables = [frame.value for frame in (*test.dataframe, *test.table)]
    return next(frame for frame in tables if {*columns} <= {*frame.columns})

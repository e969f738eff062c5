"""Tests of downloads: a table that can be read again, a page without network, names valid on every file system."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.plots.theme import GROUND, template
from skillviz.ui import exports


def test_the_table_reads_back_at_full_precision() -> None:
    frame = pd.DataFrame({"a": [1 / 3, 2.0], "b": ["x,y", "ä"]})
    assert pd.read_csv(io.BytesIO(exports.csv(frame))).equals(frame)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_holds_plotly_and_the_themes_ground(theme: str) -> None:
    figure = go.Figure(go.Scatter(y=[1, 2])).update_layout(template=template(theme))
    page = exports.html(figure, exports.Heading("How small?", ("cr < mr", "95% intervals over examples"))).decode()
    assert len(page) > 1_000_000 and "cdn.plot.ly" not in page.split("</script>")[0]
    assert GROUND[theme] in page and "How small?" in page
    assert "cr &lt; mr" in page and "95% intervals over examples" in page, "names are words, not markup"
    assert figure.layout.title.text is None, "the figure on the page is left as it is"


@pytest.mark.parametrize(
    ("parts", "name"),
    [(("run-1", "by layer"), "run-1-by-layer"), (("", "a/b:c"), "a-b-c"), (("ä b",), "b")],
)
def test_file_names(parts: tuple[str, ...], name: str) -> None:
    assert exports.file_name(*parts) == name


def test_the_camera_saves_under_the_charts_name() -> None:
    config = exports.plotly_config("run-by-layer")
    assert config["toImageButtonOptions"] == {"format": "png", "filename": "run-by-layer", "scale": 2}
    assert config["displaylogo"] is False


WITHOUT_DOWNLOAD = {
    "_preview": "the first rows of a file that the reader uploaded",
    "rows_that_open": "whoever calls it offers the table",
}
SAVES = {"table_menu", "table_buttons", "downloads"}


def test_every_table_can_be_saved() -> None:
    """Each function of the interface that draws a table also offers it as CSV, Markdown and LaTeX."""
    drawn, without = 0, []
    for path in sorted(Path(exports.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            called = {call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                      for call in ast.walk(node) if isinstance(call, ast.Call)}  # fmt: skip
            if called & {"dataframe", "rows_that_open"} or _draws_a_plain_table(node):
                drawn += 1
                if not called & SAVES and node.name not in WITHOUT_DOWNLOAD:
                    without.append(f"{path.name}: {node.name}")
    assert drawn > 12 and without == []


def _draws_a_plain_table(function: ast.FunctionDef) -> bool:
    """Return whether it calls `st.table`."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "table" and getattr(node.value, "id", "") == "st"
        for node in ast.walk(function)
    )

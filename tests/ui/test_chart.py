"""Tests of a chart in the form that every page shows, of its size in presenter mode (as large as the window allows),
and of downloads: a table that can be read again, a page without network, names valid on every file system."""

import ast
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from skillviz.plots.theme import GROUND, template
from skillviz.show.exhibit import Exhibit
from skillviz.ui import chart, exports
from skillviz.ui.chart import FOLD, as_lists, as_shown, drawn_once
from tests.core.by_hand import by_hand
from tests.ui import driven


def script() -> None:
    import pandas as pd
    import plotly.graph_objects as go

    from skillviz.ui.chart import chart, theme

    chart(
        go.Figure(go.Scatter(y=[1, 2])), name="lines", title="Two lines", reads="up is more.",
        alt="It rises from 1 to 2.", table=pd.DataFrame({"share": [0.1], "value": [0.25]}), run_id="run-1",
        under=("", "95% intervals over examples"),
    )  # fmt: skip
    assert theme() in ("light", "dark")


def opened(*unfolded: str) -> AppTest:
    return driven.opened(script, dict.fromkeys(unfolded, True))


def test_a_chart_has_title_alt_and_a_camera_and_folds_away_its_table_and_how_to_read_it() -> None:
    test = opened()
    assert "Two lines" in driven.said(test, "markdown")
    assert not [*test.dataframe, *test.get("download_button")], "what draws a table is loaded by whoever opens one"
    (drawn,) = test.get("plotly_chart")
    told = {"toImageButtonOptions": {"format": "png", "filename": "run-1-lines", "scale": 2}, "displaylogo": False}
    assert json.loads(drawn.proto.config).items() >= told.items()
    assert (drawn.proto.alt, drawn.proto.theme) == ("It rises from 1 to 2.", ""), "Streamlit's own template is kept out"
    (reading,) = test.expander[0].caption
    assert reading.value == "How to read this: Up is more." and test.expander[0].label == FOLD
    assert (len(test.caption), opened("table.lines").dataframe[0].value["value"].tolist()) == (1, [0.25])


def test_downloads_are_table_page_and_pictures() -> None:
    test = opened("table.lines")
    chart_page = "Chart (HTML, works offline)"
    assert driven.labels(test, "download_button") == ["Table (CSV)", "Table (Markdown)", "Table (LaTeX)", chart_page]
    (pictures,) = test.get("bidi_component")
    assert {"PNG", "SVG", "PDF"} <= {*re.findall("[A-Z]{3}", pictures.proto.html_content)}
    told = {"chart": "st-key-chart-lines", "file": "run-1-lines", "ground": "#FFFFFF", "title": "Two lines",
            "lines": ["run-1", "95% intervals over examples"]}  # fmt: skip
    assert json.loads(pictures.proto.json).items() >= told.items()


def two_lines() -> go.Figure:
    return go.Figure(go.Scatter(y=[1, 2]))


def test_an_exhibits_figure_is_written_once_for_all_who_see_it_in_one_way() -> None:
    # equal, but not the same object: one might change later
    one, again = (Exhibit("lines", "Two lines", two_lines(), "", "", pd.DataFrame()) for _ in range(2))
    first, other = as_shown(one), as_shown(again)
    assert as_shown(one) is first is not other and first.to_dict() == other.to_dict()
    assert as_shown(one, "box").to_dict()["layout"]["dragmode"] == "select"


def test_of_a_job_under_way_nothing_is_kept() -> None:
    before, figure = chart._of_exhibit.cache_info().currsize, two_lines()
    assert as_shown(figure).to_dict() == as_shown(figure).to_dict()
    assert chart._of_exhibit.cache_info().currsize == before


def figure(*heights: float, theme: str = "light") -> go.Figure:
    made = go.Figure([go.Bar(x=["a", "b"], y=np.array(heights)), go.Heatmap(z=np.eye(2), xaxis="x2", yaxis="y2")])
    return made.update_layout(template=template(theme), yaxis={"title": {"text": "share"}, "nticks": 3})


def test_arrays_are_lists_and_the_template_is_in_its_place() -> None:
    given, ours = figure(1.0, 2.0), template("light").layout
    before = given.to_json()
    drawn = drawn_once(given).to_dict()
    assert given.to_json() == before, "the figure of the page stays as it is"
    assert (drawn["data"][0]["y"], drawn["data"][1]["z"]) == ([1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]])
    layout, title = drawn["layout"], ours.yaxis.title.font.to_plotly_json()
    assert layout.get("template") is None and layout["font"]["color"] == ours.font.color
    # What the figure says wins; the second axis is one that only a trace names.
    assert [layout[axis]["nticks"] for axis in ("yaxis", "yaxis2")] == [3, ours.yaxis.nticks]
    assert layout["yaxis"]["title"] == {"font": title, "standoff": 8, "text": "share"}
    assert [layout[axis].get("showline", False) for axis in ("xaxis", "xaxis2", "yaxis")] == [True, True, False]


def test_the_revision_is_that_of_the_content() -> None:
    given = (figure(1.0, 2.0), figure(1.0, 2.0), figure(1.0, 3.0), figure(1.0, 2.0, theme="dark"))
    first, again, *others = (drawn_once(one).to_dict()["layout"]["datarevision"] for one in given)
    assert first == again and len({first, *others}) == 3


@pytest.mark.parametrize("trace", [go.Pie(values=[1, 2]), go.Bar(y=[1, 2])], ids=["pie", "bar"])
def test_a_template_that_says_more_than_ours_is_left(trace: go.Pie | go.Bar) -> None:
    kept = go.Figure(trace).update_layout(template="plotly")
    assert drawn_once(kept).to_dict()["layout"]["template"] == kept.to_dict()["layout"]["template"]


def test_a_figure_without_data_and_encoded_arrays() -> None:
    empty = drawn_once(go.Figure().update_layout(template=template("dark"))).to_dict()
    assert not empty["data"] and "template" not in empty["layout"]
    assert empty["layout"]["font"]["color"] == template("dark").layout.font.color
    encoded = go.Figure(go.Heatmap(z=np.arange(6.0).reshape(2, 3))).to_plotly_json()
    assert as_lists(encoded)["data"][0]["z"] == [[0, 1, 2], [3, 4, 5]]


def test_streamlit_has_nothing_to_fill_in_where_marks_are_selected() -> None:
    points, box, plain = (drawn_once(figure(1.0, 2.0), by=by).to_dict()["layout"] for by in ("points", "box", None))
    assert (points["clickmode"], points["hovermode"], points["dragmode"]) == ("event+select", "closest", "pan")
    assert box["dragmode"] == "select" and "clickmode" not in plain


def test_streamlit_writes_it_as_plotly_would() -> None:
    given = figure(1.0, float("nan"))
    shown, plain = drawn_once(given).to_dict(), json.loads(given.to_json())
    values = {name: value for name, value in shown["layout"].items() if name != "datarevision"}
    again = json.loads(go.Figure(shown["data"], values).to_json())
    assert again["data"][0]["x"] == plain["data"][0]["x"] and shown["data"][0]["y"] == [1.0, None]
    assert drawn_once(given).to_dict() == shown and drawn_once(given).to_dict() is not shown


def presented() -> None:
    import plotly.graph_objects as go
    import streamlit as st

    from skillviz.ui import presenter

    for height in (240, 436, 900):
        st.text("{} {}".format(*presenter.factors_of(go.Figure(layout={"height": height}))))


def factors(window: dict[str, float] | None = None, present: str = "yes") -> list[tuple[float, ...]]:
    """Return the growth factors of three figures of different heights, for pixels and for type."""
    test = driven.opened(presented, {"presenter.window": window} if window else {}, present=present)
    return [tuple(map(float, line.split())) for line in driven.said(test, "text").splitlines()]


def test_a_figure_grows_in_the_mode_until_the_window_is_full_and_never_shrinks() -> None:
    sizes, of_type = zip(*factors(), strict=True)
    assert sizes == (1.5, pytest.approx((720 - 13.8 * 17.92 - 12) / 436), 1) and 1 < sizes[1] < 1.5
    assert of_type == (1.5, max(sizes[1], 1.12), 1.12), "the type of a tall figure is as large as the page's"
    assert factors({"height": 1080, "rem": 26}) == [(1.5, 1.5), (1.5, 1.5), (1, 1.5)], "in a larger window"
    assert factors(present="") == [(1, 1)] * 3


def test_the_table_reads_back_at_full_precision() -> None:
    frame = pd.DataFrame({"a": [1 / 3, 2.0], "b": ["x,y", "ä"]})
    assert pd.read_csv(io.BytesIO(exports.csv(frame))).equals(frame)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_holds_plotly_and_the_themes_ground(theme: str) -> None:
    figure = go.Figure(go.Scatter(y=[1, 2])).update_layout(template=template(theme))
    page = exports.html(figure, exports.Heading("How small?", ("cr < mr", "95% intervals over examples"))).decode()
    assert len(page) > 1_000_000 and "cdn.plot.ly" not in page.split("</script>")[0]
    # Names are words, not markup.
    assert not driven.lacks(page, GROUND[theme], "How small?", "cr &lt; mr", "95% intervals over examples")
    assert figure.layout.title.text is None, "the figure on the page is left as it is"


test_file_names = by_hand(
    *((name, name, exports.file_name, *parts) for name, *parts in (
        ("run-1-by-layer", "run-1", "by layer"), ("a-b-c", "", "a/b:c"), ("b", "ä b"),
    ))
)  # fmt: skip


WITHOUT_DOWNLOAD = {
    "_preview": "the first rows of a file that the reader uploaded",
    "rows_that_open": "whoever calls it offers the table",
}
SAVES = {"table_menu", "table_buttons", "_downloads"}


def test_every_table_can_be_saved() -> None:
    """Each function of the interface that draws a table also offers it as CSV, Markdown and LaTeX."""
    drawn = []
    for path in sorted(Path(exports.__file__).parent.rglob("*.py")):
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for node in (node for node in tree if isinstance(node, ast.FunctionDef)):
            called = {call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                      for call in ast.walk(node) if isinstance(call, ast.Call)}  # fmt: skip
            if called & {"dataframe", "rows_that_open"} or "st.table(" in ast.unparse(node):
                drawn.append((f"{path.name}: {node.name}", node.name in WITHOUT_DOWNLOAD or bool(called & SAVES)))
    assert len(drawn) > 12 and [place for place, is_saved in drawn if not is_saved] == []

"""Tests of a chart in the form that every page shows."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from streamlit.testing.v1 import AppTest

from skillviz.plots.theme import template
from skillviz.show.exhibit import Exhibit
from skillviz.ui import chart
from skillviz.ui.chart import as_lists, as_shown, drawn_once


def script() -> None:
    import pandas as pd
    import plotly.graph_objects as go

    from skillviz.ui.chart import chart, theme

    figure = go.Figure(go.Scatter(y=[1, 2]))
    chart(
        figure, name="lines", title="Two lines", reads="up is more.", alt="It rises from 1 to 2.",
        table=pd.DataFrame({"share": [0.1], "value": [0.25]}), run_id="run-1",
        under=("", "95% intervals over examples"),
    )  # fmt: skip
    assert theme() in ("light", "dark")


def opened() -> AppTest:
    test = AppTest.from_function(script, default_timeout=60).run()
    assert not test.exception
    return test


def test_a_chart_has_title_reading_line_table_and_alt() -> None:
    test = opened()
    assert "Two lines" in test.markdown[0].value
    assert not test.dataframe, "what draws a table is loaded by whoever opens one"
    test.session_state["table.lines"] = True
    assert test.run().dataframe[0].value["value"].tolist() == [0.25]
    assert test.get("plotly_chart")[0].proto.alt == "It rises from 1 to 2."


def test_how_to_read_it_is_behind_a_button_with_a_name() -> None:
    test = opened()
    (reading,) = [box for box in test.get("popover") if any("How to read this" in c.value for c in box.caption)]
    assert "Up is more." in reading.caption[0].value and reading.proto.popover.label == "Help"
    assert len(test.caption) == 1


def test_streamlits_own_template_is_kept_out() -> None:
    assert opened().get("plotly_chart")[0].proto.theme == ""


def test_the_camera_saves_a_png_under_the_charts_name() -> None:
    camera = json.loads(opened().get("plotly_chart")[0].proto.config)["toImageButtonOptions"]
    assert (camera["format"], camera["filename"]) == ("png", "run-1-lines")


def test_downloads_are_table_page_and_pictures() -> None:
    test = opened()
    assert not test.get("download_button"), "they are sent to whoever opens the menu"
    test.session_state["downloads.lines"] = True
    test.run()
    labels = [button.proto.label for button in test.get("download_button")]
    assert labels == ["Table (CSV)", "Table (Markdown)", "Table (LaTeX)", "Chart (HTML, works offline)"]
    (pictures,) = test.get("bidi_component")
    assert {"PNG", "SVG", "PDF"} <= set(re.findall("[A-Z]{3}", pictures.proto.html_content))
    settings = json.loads(pictures.proto.json)
    assert (settings["chart"], settings["file"], settings["ground"]) == ("st-key-chart-lines", "run-1-lines", "#FFFFFF")
    assert settings["title"] == "Two lines" and settings["lines"] == ["run-1", "95% intervals over examples"]


def test_an_exhibits_figure_is_written_once_for_all_who_see_it_in_one_way() -> None:
    one, again = (
        Exhibit("lines", "Two lines", go.Figure(go.Scatter(y=[1, 2])), "", "", pd.DataFrame()) for _ in range(2)
    )  # equal, but not the same object: one might change later
    assert as_shown(one) is as_shown(one)
    assert as_shown(one) is not as_shown(again) and as_shown(one).to_dict() == as_shown(again).to_dict()
    assert as_shown(one, "box").to_dict()["layout"]["dragmode"] == "select"


def test_of_a_job_under_way_nothing_is_kept() -> None:
    before = chart._of_exhibit.cache_info().currsize
    figure = go.Figure(go.Scatter(y=[1, 2]))
    assert as_shown(figure).to_dict() == as_shown(figure).to_dict()
    assert chart._of_exhibit.cache_info().currsize == before


def figure(*heights: float) -> go.Figure:
    made = go.Figure([go.Bar(x=["a", "b"], y=np.array(heights)), go.Heatmap(z=np.eye(2), xaxis="x2", yaxis="y2")])
    return made.update_layout(template=template("light"), yaxis={"title": {"text": "share"}, "nticks": 3})


def test_arrays_are_lists_and_the_template_is_in_its_place() -> None:
    given = figure(1.0, 2.0)
    before = given.to_json()
    drawn = drawn_once(given).to_dict()
    assert given.to_json() == before, "the figure of the page stays as it is"
    assert drawn["data"][0]["y"] == [1.0, 2.0] and drawn["data"][1]["z"] == [[1.0, 0.0], [0.0, 1.0]]
    ours = template("light").layout
    layout = drawn["layout"]
    assert layout.get("template") is None and layout["font"]["color"] == ours.font.color
    assert layout["yaxis"]["nticks"] == 3, "what the figure says wins"
    assert layout["yaxis2"]["nticks"] == ours.yaxis.nticks, "an axis that only a trace names"
    assert layout["yaxis"]["title"] == {"font": ours.yaxis.title.font.to_plotly_json(), "standoff": 8, "text": "share"}
    assert layout["xaxis"]["showline"] and layout["xaxis2"]["showline"] and "showline" not in layout["yaxis"]


def test_the_revision_is_that_of_the_content() -> None:
    darker = figure(1.0, 2.0).update_layout(template=template("dark"))
    given = (figure(1.0, 2.0), figure(1.0, 2.0), figure(1.0, 3.0), darker)
    first, again, *others = (drawn_once(one).to_dict()["layout"]["datarevision"] for one in given)
    assert first == again and first not in others and others[0] != others[1]


def test_a_template_that_says_more_than_ours_is_left() -> None:
    pie = go.Figure(go.Pie(values=[1, 2])).update_layout(template="plotly")
    bars = go.Figure(go.Bar(y=[1, 2])).update_layout(template="plotly")
    for kept in (pie, bars):
        assert drawn_once(kept).to_dict()["layout"]["template"] == kept.to_dict()["layout"]["template"]


def test_a_figure_without_data_and_encoded_arrays() -> None:
    empty = drawn_once(go.Figure().update_layout(template=template("dark"))).to_dict()
    assert not empty["data"] and "template" not in empty["layout"]
    assert empty["layout"]["font"]["color"] == template("dark").layout.font.color
    assert as_lists(go.Figure(go.Heatmap(z=np.arange(6.0).reshape(2, 3))).to_plotly_json())["data"][0]["z"] == [
        [0, 1, 2], [3, 4, 5],
    ]  # fmt: skip


def test_streamlit_has_nothing_to_fill_in_where_marks_are_selected() -> None:
    points, box, plain = (drawn_once(figure(1.0, 2.0), by=by).to_dict()["layout"] for by in ("points", "box", None))
    assert (points["clickmode"], points["hovermode"], points["dragmode"]) == ("event+select", "closest", "pan")
    assert box["dragmode"] == "select" and "clickmode" not in plain


def test_streamlit_writes_it_as_plotly_would() -> None:
    given = figure(1.0, float("nan"))
    shown = drawn_once(given).to_dict()
    values = {name: value for name, value in shown["layout"].items() if name != "datarevision"}
    again = json.loads(go.Figure(shown["data"], values).to_json())
    plain = json.loads(given.to_json())
    assert again["data"][0]["x"] == plain["data"][0]["x"] and shown["data"][0]["y"] == [1.0, None]
    assert drawn_once(given).to_dict() == shown and drawn_once(given).to_dict() is not shown

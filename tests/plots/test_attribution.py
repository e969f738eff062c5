"""Tests of token attributions: one scale for all states, every value printed, special tokens without values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.plots.attribution import MOST_PRINTED, layer_parts, signed, token_layers, token_values
from tests.plots import example_frames as single


def small() -> pd.DataFrame:
    rows = [
        ("grafted", 0, "<s>", True, 0.0), ("grafted", 1, "not", False, -1.5), ("grafted", 2, "bad", False, 0.25),
        ("finetuned", 0, "<s>", True, 0.0), ("finetuned", 1, "not", False, 0.5), ("finetuned", 2, "bad", False, 3.0),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["state", "position", "token", "special", "value"])


def cells(figure: go.Figure) -> np.ndarray:
    return np.asarray(figure.data[0].z, dtype=float)


def test_all_states_share_one_scale() -> None:
    figure = token_values(small())
    assert (figure.data[0].zmin, figure.data[0].zmax) == (-3.0, 3.0)
    scale = next(t for t in figure.data if t.name == "scale").marker
    assert (scale.cmin, scale.cmax) == (-3.0, 3.0) and scale.colorscale == figure.data[0].colorscale
    assert figure.layout.xaxis.ticktext == ("grafted", "fine-tuned")


def test_every_value_is_printed_with_its_sign() -> None:
    figure = token_values(small())
    numbers = next(t for t in figure.data if t.name == "numbers")
    assert dict(zip(zip(numbers.y, numbers.x, strict=True), numbers.text, strict=True)) == {
        (1, 0): "−1.50", (1, 1): "+0.50", (2, 0): "+0.25", (2, 1): "+3.00"
    }  # fmt: skip


def test_special_tokens_are_marked_and_have_no_value() -> None:
    figure = token_values(small())
    assert figure.layout.yaxis.ticktext == ("<i>(&lt;s&gt;)</i>", "not", "bad")
    assert np.isnan(cells(figure)[0]).all() and np.isfinite(cells(figure)[1:]).all()


def test_tokens_stand_in_reading_order_and_repeated_ones_apart() -> None:
    frame = single.tokens()
    figure = token_values(frame.sample(frac=1, random_state=0))
    assert len(figure.layout.yaxis.ticktext) == len(single.SENTENCE.split())
    assert figure.layout.yaxis.range == (len(single.SENTENCE.split()) - 0.5, -0.5)
    one = frame[(frame["state"] == "grafted") & (frame["token"] == "the")].sort_values("position")
    assert cells(figure)[one["position"], 1] == pytest.approx(one["value"].to_numpy())


def test_a_long_sentence_grows_downward() -> None:
    short, long = (token_values(single.tokens(n)).layout.height for n in (1, 5))
    assert long - short == 22 * 4 * (len(single.SENTENCE.split()) - 2)


def test_layers_show_the_special_tokens_part_and_a_given_scale() -> None:
    figure = token_layers(single.flow(), limit=9.0)
    assert np.isfinite(cells(figure)).all() and figure.data[0].zmax == 9.0
    few, many = (token_layers(single.flow(n)) for n in (MOST_PRINTED, MOST_PRINTED + 1))
    printed = [next(t for t in f.data if t.name == "numbers").text for f in (few, many)]
    assert len(printed[0]) == MOST_PRINTED * len(single.SENTENCE.split())
    assert set(printed[1]) <= {"−"} and len(printed[1]) == (cells(many) < -0.1 * many.data[0].zmax).sum()


@pytest.mark.parametrize(
    ("value", "limit", "words"),
    [(1.234, 3, "+1.23"), (-0.004, 3, "0"), (-12.34, 20, "−12.3"), (0.0012, 0.01, "+0.0012"), (float("nan"), 1, "")],
)
def test_signed(value: float, limit: float, words: str) -> None:
    assert signed(value, limit) == words


def test_each_part_has_a_panel_and_each_state_a_line() -> None:
    frame = single.parts()
    figure = layer_parts(frame)
    assert [a.title.text for a in (figure.layout.yaxis, figure.layout.yaxis2)] == [
        "attention output, nats", "MLP out, nats"
    ]  # fmt: skip
    assert figure.layout.yaxis.range == figure.layout.yaxis2.range
    wanted = frame[(frame["state"] == "finetuned") & (frame["part"] == "MLP out")]
    line = next(t for t in figure.data if t.name == "fine-tuned" and t.yaxis == "y2")
    assert list(line.y) == list(wanted["value"]) and [t.showlegend for t in figure.data] == [True] * 3 + [False] * 3


def test_parts_that_a_model_does_not_have_are_left_out() -> None:
    frame = single.parts().query("part == 'MLP out'")
    assert layer_parts(frame).layout.yaxis.title.text == "MLP out, nats"
    assert len(list(layer_parts(frame).select_yaxes())) == 1

"""Tests of token attributions: one scale for all states, every value printed, special tokens without values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from skillviz.plots.attribution import MOST_PRINTED, layer_parts, signed, token_layers, token_values
from tests.plots import example_frames as single
from tests.plots.facts import Holding, facts, read

LENGTH = len(single.SENTENCE.split())
NAN = pytest.approx(float("nan"), nan_ok=True)
SMALL = pd.DataFrame(
    [
        ("grafted", 0, "<s>", True, 0.0), ("grafted", 1, "not", False, -1.5), ("grafted", 2, "bad", False, 0.25),
        ("finetuned", 0, "<s>", True, 0.0), ("finetuned", 1, "not", False, 0.5), ("finetuned", 2, "bad", False, 3.0),
    ], columns=["state", "position", "token", "special", "value"],
)  # fmt: skip
MLP = single.parts().query("part == 'MLP out'")

test_attributions_have = facts(
    {
        "one scale for all states": (
            lambda: token_values(SMALL),
            {
                "data.0.zmin": -3.0, "data.0.zmax": 3.0, "scale/marker.cmin": -3.0, "scale/marker.cmax": 3.0,
                "scale/marker.colorscale": [list(stop) for stop in token_values(SMALL).data[0].colorscale],
                "layout.xaxis.ticktext": ["grafted", "fine-tuned"],
            },
        ),
        "every value in print with its sign, and none of a special token": (
            lambda: token_values(SMALL),
            {
                "numbers/text": ["−1.50", "+0.50", "+0.25", "+3.00"], "numbers/y": [1, 1, 2, 2],
                "numbers/x": [0, 1, 0, 1], "layout.yaxis.ticktext": ["<i>(&lt;s&gt;)</i>", "not", "bad"],
                "data.0.z": [[NAN, NAN], [-1.5, 0.5], [0.25, 3.0]],
            },
        ),
        **{
            f"22 pixels more for each of the tokens of {count} sentences": (
                lambda count=count: token_values(single.tokens(count)),
                {"layout.height": token_values(single.tokens()).layout.height + 22 * (count - 1) * (LENGTH - 2)},
            )
            for count in (2, 5)
        },
        "a scale of layers that can be given": (lambda: token_layers(single.flow(), limit=9.0), {"data.0.zmax": 9.0}),
        "a panel a part, and a line a state": (
            lambda: layer_parts(single.parts()),
            {
                "layout.yaxis.title.text": "attention output, nats", "layout.yaxis2.title.text": "MLP out, nats",
                "layout.yaxis.range": list(layer_parts(single.parts()).layout.yaxis2.range),
                "fine-tuned/*.yaxis": ["y", "y2"],
                "fine-tuned/1.y": MLP[MLP["state"] == "finetuned"]["value"].tolist(),
                "data.*.showlegend": [True] * 3 + [False] * 3,
            },
        ),
        "no panel of a part that the model does not have": (
            lambda: layer_parts(MLP),
            {"layout.yaxis.title.text": "MLP out, nats", "layout": Holding("yaxis", but=("yaxis2",))},
        ),
    }
)  # fmt: skip


def cells(figure: go.Figure) -> np.ndarray:
    return np.asarray(figure.data[0].z, dtype=float)


def test_tokens_stand_in_reading_order_and_repeated_ones_apart() -> None:
    frame = single.tokens()
    figure = token_values(frame.sample(frac=1, random_state=0))
    assert (read(figure, "layout.yaxis.range"), len(figure.layout.yaxis.ticktext)) == ([[LENGTH - 0.5, -0.5]], LENGTH)
    one = frame[(frame["state"] == "grafted") & (frame["token"] == "the")].sort_values("position")
    assert cells(figure)[one["position"], 1] == pytest.approx(one["value"].to_numpy())


def test_layers_show_the_special_tokens_part_and_of_many_only_what_falls_in_print() -> None:
    few, many = (token_layers(single.flow(n)) for n in (MOST_PRINTED, MOST_PRINTED + 1))
    assert np.isfinite(cells(few)).all()
    (every,), (falls,) = (read(figure, "numbers/text") for figure in (few, many))
    assert len(every) == MOST_PRINTED * LENGTH
    assert set(falls) <= {"−"} and len(falls) == (cells(many) < -0.1 * many.data[0].zmax).sum()


@pytest.mark.parametrize(
    ("value", "limit", "words"),
    [(1.234, 3, "+1.23"), (-0.004, 3, "0"), (-12.34, 20, "−12.3"), (0.0012, 0.01, "+0.0012"), (float("nan"), 1, "")],
)
def test_signed(value: float, limit: float, words: str) -> None:
    assert signed(value, limit) == words

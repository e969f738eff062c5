"""Tests of the states side by side, each with its mark and interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.plots.overview import search_history, state_comparison
from skillviz.plots.theme import LOCALIZERS, STATES
from tests.plots import frames
from tests.plots.facts import Between, Holding, Of, facts
from tests.refused import refused

BOTH = pd.concat([frames.history(5), frames.history(5, "frank-wolfe")])
TWO_SIZES = pd.concat([frames.history(5), frames.history(5).assign(target=1_064)])
FAR = "chance 25.0%, off the scale"

NAMES = ("stagewise", "frank-wolfe")


def in_the_legend(traces: list[Any]) -> list[tuple[str, str]]:
    return [(trace.name, trace.line.color) for trace in traces if trace.showlegend is not False]


test_side_by_side_there_is = facts(
    {
        "a panel a metric and a dot a state": (
            lambda: state_comparison(frames.scores()),
            {
                "data.*.name": ["pre-trained", "grafted", "fine-tuned", "complement"] * 3,
                "layout.xaxis.title.text": "accuracy, %", "layout.xaxis2.title.text": "ECE, %",
                "layout.xaxis3.title.text": "NLL, nats", "layout": Holding("xaxis3", but=("xaxis4",)),
                "grafted/0.x.0": pytest.approx(80.1), "grafted/0.marker.symbol": "diamond",
                "grafted/0.marker.color": STATES["grafted"].color,
            },
        ),
        "an interval from low to high": (
            lambda: state_comparison(frames.scores()),
            {
                "fine-tuned/0.x.0": pytest.approx(86.4), "fine-tuned/0.error_x.array.0": pytest.approx(1.6),
                "fine-tuned/0.error_x.arrayminus.0": pytest.approx(1.6),
                "fine-tuned/0.hovertext.0": Holding("86.4% accuracy", "84.8–88.0"),
            },
        ),
        "one order of the states from top to bottom": (
            lambda: state_comparison(frames.scores().iloc[::-1]),
            {"layout.yaxis.categoryarray": ["complement", "fine-tuned", "grafted", "pre-trained"]},
        ),
        "no panel of a metric that was not taken": (
            lambda: state_comparison(frames.scores().query("metric != 'ece'")),
            {
                "layout.xaxis.title.text": "accuracy, %", "layout.xaxis2.title.text": "NLL, nats",
                "layout": Holding("xaxis2", but=("xaxis3",)),
            },
        ),
        "chance in the first panel": (
            lambda: state_comparison(frames.scores(), references={"chance": 0.6, "majority": 0.62}),
            {
                "layout.shapes.*.x0": [60, 62], "layout.shapes.*.xref": ["x", "x"],
                "layout.xaxis.range.0": Between(-np.inf, 60),
                "data": Of(lambda traces: [*dict(in_the_legend(traces))], ["chance 60.0%", "majority 62.0%"]),
            },
        ),
        "several localizers in their styles": (
            lambda: search_history(BOTH),
            {
                "data": Of(in_the_legend, [(LOCALIZERS[n].title, LOCALIZERS[n].color) for n in NAMES]),
                "data.*.offsetgroup": Of(set, {None, *NAMES}),
            },
        ),
        "a name of chance far below, which does not flatten the states": (
            lambda: state_comparison(frames.scores(), references={"chance": 0.25, "majority": 0.62}),
            {
                "layout.shapes.*.x0": [62], f"{FAR}/mode": "markers", f"{FAR}/marker.symbol": "triangle-left",
                "layout.xaxis.range.0": Between(55, 62),
            },
        ),
        "no interval that is missing": (
            lambda: state_comparison(frames.scores().assign(low=np.nan, high=np.nan)),
            {"data.0.hovertext.0": Holding("no interval", but=("n/a to n/a",))},
        ),
        "one axis of steps below two panels": (
            lambda: search_history(frames.history()),
            {
                "data.*.yaxis": ["y", "y2", "y2"], "layout.xaxis.matches": "x2",
                "layout.xaxis2.title.text": "step, number", "layout.yaxis.title.text": "training loss, nats",
            },
        ),
        "what goes on upward and what goes off downward, hatched, with its count in the hover": (
            lambda: search_history(frames.history()),
            {
                "data.1.y": frames.history()["added"].tolist(), "data.2.y": (-frames.history()["removed"]).tolist(),
                "data.2.customdata": frames.history()["removed"].tolist(),
                "data.2.marker.pattern.shape": "/", "data.1.marker.pattern.shape": None,
            },
        ),
        "a step after the other": (
            lambda: search_history(frames.history().iloc[::-1]), {"data.0.x": list(range(1, 51))}
        ),
        "a gap where no loss was taken": (
            lambda: search_history(frames.history(4).assign(loss=[0.5, None, 0.4, 0.3])), {"data.0.connectgaps": None}
        ),
    }
)  # fmt: skip

test_searches_of_several_sizes_are_refused = refused(
    ValueError, ("choose one target size a localizer; given: 1,064, 10,646", search_history, TWO_SIZES)
)

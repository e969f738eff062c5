"""A series of checkpoints as one HTML file."""

from __future__ import annotations

from functools import partial
from html import escape

import pandas as pd

from skillviz.show import checkpoints as exhibits
from skillviz.show.report.page import document
from skillviz.show.report.parts import Charts, Rows, Section, Words

QUESTION = "How do score, calibration and region change along fine-tuning?"


def series_report(points: pd.DataFrame, name: str) -> bytes:
    """The table `checkpoints` as figures and numbers, HTML in UTF-8; `name` is plain text."""
    sections = [
        Section(
            f"series-{number}",
            f"{QUESTION} ({task})",
            (
                Words(exhibits.finding(points, task), ("graft", "recovered", "paired")),
                Charts(tuple(partial(exhibits.panel, points, task, panel) for panel in exhibits.panels(points, task))),
                Words(exhibits.details(points, task), ("region", "chance")),
                Rows("Every number", points[points["id_task"] == task].drop(columns="id_task")),
            ),
        )
        for number, task in enumerate(dict.fromkeys(points["id_task"]), start=1)
    ]
    header = f'<header><p class="kicker">skillviz: checkpoints</p><h1>{escape(name)}</h1></header>'
    return document(name, header, sections)

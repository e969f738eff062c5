"""The overview's exhibits: the models side by side, and how the region was found."""

from __future__ import annotations

import pandas as pd

from skillviz.core.metrics import panels
from skillviz.plots.history import search_history
from skillviz.plots.overview import state_comparison
from skillviz.runs.record import RunRecord, Scores
from skillviz.show import alt, measures
from skillviz.show.exhibit import Exhibit, kept

HEIGHT = 620


@kept
def states(record: RunRecord, scores: Scores, split: str, theme: str) -> Exhibit:
    """The task's metric, ECE and NLL of every model."""
    metric = record.metric
    table = measures.state_scores(scores)
    levels = measures.guesses(record, split, metric)
    return Exhibit(
        name="states",
        title="The models side by side",
        figure=state_comparison(table, panels(metric), references=levels, theme=theme, height=HEIGHT),
        reads="one mark a model, its line the 95 % interval over examples. Right is better in the top panel, left in "
        "the two below. Temperature-scaled is the fine-tuned model with its confidence fitted on validation data.",
        alt=alt.overview(table),
        table=table,
        words=("complement", "temperature", "chance"),
    )


@kept
def history(steps: pd.DataFrame, theme: str) -> Exhibit:
    """Loss and switched entries, step by step; `steps` are those of one search."""
    return Exhibit(
        name="history",
        title="How the region was found",
        figure=search_history(steps, theme=theme, height=HEIGHT),
        reads="above, the training loss of the graft at each step; below, how many entries the step switched on "
        "(up) and off (down, hatched).",
        alt=alt.history(steps),
        table=steps,
    )

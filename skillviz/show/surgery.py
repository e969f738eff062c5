"""The surgery page's exhibits: where the region by hand lies, how its graft does, what a typed example is taken for."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from skillviz.plots.examples import class_probabilities
from skillviz.plots.overview import state_comparison
from skillviz.plots.region import cells, density_map
from skillviz.runs.record import RunRecord
from skillviz.show import alt, grafted, measures
from skillviz.show.exhibit import Exhibit, kept
from skillviz.show.grafted import Grafted


@kept
def layout(layers: pd.DataFrame, theme: str) -> Exhibit:
    """The map of layers and module kinds."""
    table = cells(layers)
    return Exhibit(
        name="layout",
        title="Where it lies",
        figure=density_map(layers, theme=theme),
        reads="light squares hold more of the region than their share, dark ones less, empty ones nothing. Biases "
        "of all kinds are one column.",
        alt=alt.density(table) if layers["selected"].any() else "The map is empty: no entry is chosen.",
        table=table,
        words=("enrichment",),
    )


@kept
def states(found: Grafted, record: RunRecord, split: str, theme: str) -> Exhibit:
    """The graft by hand and its complement beside the run's own region and both ends."""
    assert record.task is not None
    table, wanted = found.table(), grafted.shown_metrics(record.task)
    return Exhibit(
        name="by_hand",
        title="The models side by side",
        figure=state_comparison(
            table, wanted, references=measures.guesses(record, split, record.task.metric), theme=theme, height=620
        ),
        reads="one mark a model, its line the 95 % interval over the examples of the sample. Grafted and complement "
        "are those of the region built above. Right is better in the top panel, left in the two below.",
        alt=alt.overview(table),
        table=table,
        words=("complement", "ece", "nll", "chance"),
    )


@kept
def typed(probabilities: pd.DataFrame, labels: Sequence[str], theme: str) -> Exhibit:
    """The probability of each class for a typed example, before and after."""
    return Exhibit(
        name="typed",
        title="What the models say to it",
        figure=class_probabilities(probabilities, labels, theme=theme),
        reads="one row a class, one mark a model: further right is surer. Grafted and complement are those of the "
        "region built above.",
        alt=f"{grafted.predicted(probabilities, labels).replace('**', '')}.",
        table=probabilities.assign(**{"class": [labels[int(number)] for number in probabilities["class"]]}),
        words=("confidence",),
    )

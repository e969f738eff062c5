"""The tour's exhibits: the answers of two models to a sentence, the graft by size with the chosen one, confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from skillviz.analysis.size_curve import by_size
from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.plots.calibration import confidence_histogram
from skillviz.plots.examples import class_probabilities
from skillviz.plots.sparsity import metric_by_size
from skillviz.plots.theme import STATES, localizer_style
from skillviz.runs.record import Estimate, RunRecord
from skillviz.show import alt, measures, surgery
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once

CHOSEN = "chosen"
MARK = replace(STATES["grafted"], title="chosen size")


@drawn_once
def sentence_answers(probabilities: pd.DataFrame, labels: Sequence[str], true: int | None, theme: str) -> Exhibit:
    """Each model's probability for every class of one sentence; `probabilities` come from `grafted.typed`."""
    return Exhibit(
        name="said",
        title="Predictions of the two models",
        figure=class_probabilities(probabilities, labels, true=true, theme=theme, height=260),
        reads="one line per class, one marker per model; further right is more confident. A model predicts the class "
        "where its marker is furthest right.",
        alt=f"{surgery.predicted(probabilities, labels).replace('**', '')}.",
        table=probabilities.assign(**{"class": [labels[int(number)] for number in probabilities["class"]]}),
        words=("confidence",),
    )


@drawn_once
def sizes(
    curve: pd.DataFrame,
    record: RunRecord,
    split: str,
    size: int,
    row: Mapping[str, Estimate] | None,
    is_revealed: bool,
    theme: str,
    height: int,
) -> Exhibit:
    """The graft by region size, with random regions if there are some; `row` has the chosen size's metrics.

    Until the answer is revealed, only sizes up to the chosen one are drawn, without the level of the fine-tuned model.
    """
    assert record.task is not None
    metric, levels = record.task.metric, measures.levels(record, split, record.task.metric)
    every = lines = curve[curve["metric"] == metric]
    if not is_revealed:
        lines = every[every["size"] <= size]
        levels.pop("finetuned", None)
    whole, value = lines, "not known"
    if row is not None and metric in row:
        share, value = size / (record.d or 1), formats.percent(row[metric].value)
        chosen = {"localizer": CHOSEN, "size": size, "share": share, **row[metric].columns()}
        whole = pd.concat([lines, lines.iloc[:1].assign(**chosen)], ignore_index=True)
    points, stored = by_size(lines, metric), localizer_style(record.spec.localizer).title
    return Exhibit(
        name="tour_sizes",
        title=f"{metric_row(metric).heading} by region size",
        figure=metric_by_size(
            by_size(whole, metric, (CHOSEN,)),
            metric,
            references=levels,
            per_run=(CHOSEN,),
            styles={CHOSEN: MARK},
            room=by_size(every, metric),
            theme=theme,
            height=height,
        ),
        reads=f"further left is a smaller region. The markers of {stored} are stored scores; the green one is the "
        "slider's size. Vertical lines are 95% intervals over sentences."
        f"{'' if is_revealed else ' Larger regions and the fine-tuned model appear with the answer.'}",
        intervals=OVER_EXAMPLES,
        alt=f"At {formats.share(size / (record.d or 1))}: {value}. {alt.sparsity(points, metric)}",
        table=points,
        words=("size", "chance"),
    )


@drawn_once
def sureness(bins: pd.DataFrame, least: float, theme: str, height: int) -> Exhibit:
    """The histogram of confidence, with a line at the slider's value; errors are marked if `accuracy` is known."""
    wrong = "the hatched part is wrong" if bins["accuracy"].notna().any() else "*Reveal* hatches the wrong part"
    return Exhibit(
        name="tour_sure",
        title="Confidence",
        figure=confidence_histogram(bins, least=least, theme=theme, height=height),
        reads=f"bars count answers by confidence; {wrong}. The slider keeps the answers to the right of the vertical "
        "line.",
        alt=alt.histogram(bins),
        table=bins,
        words=("confidence",),
    )

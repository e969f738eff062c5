"""The report's section on single examples: where graft and fine-tuned model disagree, and class by class."""

from __future__ import annotations

from functools import partial

from skillviz.core.confusion import class_results, confusion
from skillviz.runs.run import Run
from skillviz.show import example_table as examples
from skillviz.show import examples as exhibits
from skillviz.show import measures
from skillviz.show.entries import headline_split
from skillviz.show.report.parts import Charts, Heading, Make, Section, Words


def by_example(run: Run) -> list[Section]:
    """Every example by what both models give its true class, confusions and classes; nothing without predictions."""
    split, predictions = headline_split(run.record), run.predictions()
    if predictions.empty or run.record.task is None:
        return []
    table = examples.scored(predictions, run.record, split)
    points = examples.points(table, table["case"].notna(), "confidence")
    points["words"] = points["example_id"]  # the report stays small: what a mark says stands in the dashboard
    logits, labels = measures.state_logits(predictions, run.record, split, examples.STATES)
    resamples = exhibits.resamples(len(labels))
    results = class_results(logits, labels, resamples)
    confusions: list[Make] = [
        partial(exhibits.confusion, confusion(z, labels), run.labels, state) for state, z in logits.items()
    ]
    parts = (
        Words(
            exhibits.disagreement(logits["grafted"], logits["finetuned"], labels, split),
            ("agreement", "mcnemar", "graft"),
        ),
        Charts((partial(exhibits.scatter, points, "confidence", None),)),
        Heading("Class by class"),
        Words(exhibits.worst_classes(results, run.labels), ("f1", "confusion")),
        Charts(tuple(confusions)),
        Charts(tuple(partial(exhibits.by_class, results, run.labels, m, resamples) for m in exhibits.RESULTS)),
    )
    return [Section("examples", "Which examples does the graft get right, and why?", parts)]

"""The models' confidence on texts that fit no class, compared with the test set: histograms and AUROC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.calibration_error import bin_numbers, equal_width_edges
from skillviz.core.metrics import metric_row
from skillviz.core.scores import confidence, probabilities
from skillviz.core.separation import auroc, auroc_difference
from skillviz.core.verdicts import DifferenceVerdict
from skillviz.plots.calibration import scope_histogram
from skillviz.plots.theme import state_style
from skillviz.runs.run import Run
from skillviz.show import measures, sentences
from skillviz.show.briefs import headline_split
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once
from skillviz.tasks.source import OUT_OF_SCOPE

STATES = ("pretrained", "grafted", "finetuned", measures.TEMPERATURE)
WORDS = ("out_of_scope", "auroc", "confidence")
TITLE = "How sure is the model when no class is right?"
BINS = 20


class Confidences(NamedTuple):
    """A model's top probabilities on the examples of its task [n], and on texts that fit no class [m]."""

    inside: np.ndarray
    outside: np.ndarray


def of_run(run: Run) -> dict[str, Confidences]:
    """The confidences of each state; empty for a run whose task names no texts that fit no class."""
    outside = run.out_of_scope()
    return {} if outside.empty else confidences(run, run.predictions(), outside)


def confidences(run: Run, predictions: pd.DataFrame, outside: pd.DataFrame) -> dict[str, Confidences]:
    """The confidences of each of STATES that the run stored, from its predictions in and out of scope."""
    rows = outside.assign(split=OUT_OF_SCOPE, label=0)
    inside, _ = measures.state_logits(predictions, run.record, headline_split(run.record), STATES)
    others, _ = measures.state_logits(rows, run.record, OUT_OF_SCOPE, STATES)
    return {name: Confidences(*(confidence(probabilities(z[name])) for z in (inside, others))) for name in others}


def confidence_scores(sure: Mapping[str, Confidences]) -> pd.DataFrame:
    """One row per state: examples of both kinds, mean confidence on each, and AUROC, which measures their
    separation."""
    rows = [
        {
            "state": state, "n": len(of.inside), "out_of_scope": len(of.outside),
            "confidence": float(of.inside.mean()), "confidence_out_of_scope": float(of.outside.mean()),
            **dict(zip(("auroc", "low", "high"), auroc(*of), strict=False)),
        }
        for state, of in sure.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def findings(sure: Mapping[str, Confidences]) -> list[tuple[DifferenceVerdict, str]]:
    """For each rival of the graft (`sentences.RIVALS`), the verdict on the paired AUROC difference, and its words."""
    row, graft, told = metric_row("auroc"), sure["grafted"], []
    for rival in (name for name in sentences.RIVALS if name in sure):
        less = auroc_difference(*graft, *sure[rival])
        words = (
            f"AUROC of confidence {row.number(auroc(*graft).value)} vs {row.number(auroc(*sure[rival]).value)} for "
            f"{sentences.RIVALS[rival]}: {row.difference(less.value, less.low, less.high)}."
        )
        told.append((row.verdict(less.low, less.high), words))
    return told


def confidence_words(sure: Mapping[str, Confidences]) -> str:
    """A sentence with each model's confidence on texts that fit no class."""
    means = [f"{state_style(state).title} {formats.percent(of.outside.mean())}" for state, of in sure.items()]
    count = formats.counted(len(sure["grafted"].outside), "text")
    return f"Mean confidence on {count} that fit no class: {formats.listed(means, len(means))}."


def finding(sure: Mapping[str, Confidences]) -> str:
    """Both sentences in one line, for a terminal."""
    (verdict, words), *_ = findings(sure)
    return f"Out of scope. {confidence_words(sure)} {formats.capital(verdict)}: {words}"


@drawn_once
def histogram(sure: Mapping[str, Confidences], theme: str) -> Exhibit:
    """The number of examples of either kind by confidence, one panel per model."""
    table, row = confidence_scores(sure), metric_row("auroc")
    words = {
        of["state"]: f"AUROC {row.number(of['auroc'])}<br>({row.ends(of['low'], of['high'])})<br>hatched: out of scope"
        for of in table.to_dict("records")
    }
    edges = equal_width_edges(BINS)
    counts = [
        pd.DataFrame({
            "state": state, "scope": scope, "lower": edges[:-1], "upper": edges[1:],
            "count": np.bincount(bin_numbers(values, edges), minlength=BINS),
        })
        for state, of in sure.items()
        for scope, values in zip(("test", OUT_OF_SCOPE), of, strict=True)
    ]  # fmt: skip
    told = [
        f"{state_style(of['state']).title}: mean confidence {formats.percent(of['confidence'])} in scope, "
        f"{formats.percent(of['confidence_out_of_scope'])} out of scope, AUROC {row.number(of['auroc'])}"
        for of in table.to_dict("records")
    ]
    return Exhibit(
        name="out_of_scope",
        title="Confidence in and out of scope",
        figure=scope_histogram(pd.concat(counts, ignore_index=True), words, theme=theme),
        reads="filled bars are examples of the task, hatched ones texts that fit no class, as shares of their kind. "
        "Hatching at the right: sure where no class is right.",
        intervals=OVER_EXAMPLES,
        alt=f"Confidence in and out of scope. {'; '.join(told)}.",
        table=table,
        words=WORDS,
    )

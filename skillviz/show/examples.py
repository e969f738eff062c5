"""The examples page's exhibits and sentences: confidence of graft against fine-tuned model, one example, confusions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from skillviz.core import formats
from skillviz.core.agreement import agreement_interval, mcnemar
from skillviz.core.generation import token_probability
from skillviz.core.intervals import metric_difference, metric_interval
from skillviz.core.metrics import has_predictions, metric_row, right_metric
from skillviz.core.verdicts import DifferenceVerdict
from skillviz.plots.classes import class_results, confusion_matrix
from skillviz.plots.examples import CASES, class_probabilities, confidence_scatter
from skillviz.plots.theme import state_style
from skillviz.show import text
from skillviz.show.example_table import AnswerWords, Area
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once

HEIGHT = 400
RESAMPLES, FEW = 500, 200
MANY = 4000  # above this number of examples, fewer resamples are used
RESULTS = ("precision", "recall", "f1")


def scatter(
    points: pd.DataFrame,
    answers: AnswerWords,
    measure: str,
    chosen: str | None,
    theme: str,
    marked: Area | None = None,
    drags: bool = False,
) -> Exhibit:
    """Every example by both models' scores of its right answer; `points` come from `examples.points`.

    `marked` is drawn if it has this measure; with `drags` the mouse can select another area. Each click makes another
    figure of all examples, so the caller decides which figures to keep.
    """
    words = answers.measures[measure]
    framed = (*marked.finetuned, *marked.grafted) if marked is not None and marked.measure == measure else None
    shown = points[points["shown"]]
    counts = shown["case"].value_counts()
    told = [case for case in CASES if case in set(points["case"])]
    numbers = ", ".join(f"{CASES[case].title} {counts.get(case, 0):,}" for case in told)
    return Exhibit(
        name="scatter",
        title=f"Grafted vs fine-tuned: {words.title}",
        figure=confidence_scatter(
            points, measure, words.unit, chosen=chosen, framed=framed, drags=drags, theme=theme, height=HEIGHT
        ),
        reads=words.reads,
        alt=f"{len(shown):,} examples by {words.title}: {numbers}.",
        table=shown[["example_id", "case", "finetuned", "grafted"]],
        words=("perplexity",) if measure == "per_token" else ("confidence", "margin"),
    )


@drawn_once
def probabilities(
    shares: dict[str, np.ndarray], labels: Sequence[str], true: int | None, answers: AnswerWords, theme: str
) -> Exhibit:
    """Each state's probability for every class, or option, of one example; `shares` by state [label]."""
    one = answers.one
    rows = [(state, c, float(p)) for state, values in shares.items() for c, p in enumerate(values)]
    frame = pd.DataFrame(rows, columns=["state", "class", "probability"])
    phrases = [
        f"{state_style(state).title} {labels[int(np.argmax(values))]} {formats.percent(float(np.max(values)))}"
        for state, values in shares.items()
    ]
    return Exhibit(
        name="probabilities",
        title=f"Confidence by {one}",
        figure=class_probabilities(frame, labels, true=true, right=answers.right, one=one, theme=theme),
        reads=f"one line per {one}, one marker per model; a model predicts the {one} of its rightmost marker.",
        alt=f"{one.capitalize()} probabilities: {'; '.join(phrases)}.",
        table=frame.assign(**{"class": [labels[c] for c in frame["class"]]}).rename(columns={"class": one}),
        words=("pretrained", "graft", "confidence"),
    )


@drawn_once
def confusion(counts: np.ndarray, labels: Sequence[str], state: str, theme: str) -> Exhibit:
    """The confusions of one model; counts [true, predicted]."""
    title = state_style(state).title
    true, predicted = np.indices(counts.shape)
    frame = pd.DataFrame({"true": true.ravel(), "predicted": predicted.ravel(), "count": counts.ravel()})
    names = np.array(labels, dtype=object)
    return Exhibit(
        name=f"confusion_{state}",
        title=f"Confusions: {title}",
        figure=confusion_matrix(frame, labels, theme=theme),
        reads="rows are true classes, columns predicted ones; framed cells are right, darker cells a larger share of "
        "their row. " + ("Numbers count examples." if len(labels) <= 8 else "Numbers are percent of the row."),
        alt=f"Confusion matrix of the {title} model: {int(np.trace(counts)):,} of {int(counts.sum()):,} examples are "
        f"right; {_most_confused(counts, labels)}",
        table=frame.assign(true=names[frame["true"]], predicted=names[frame["predicted"]]),
        words=("confusion",),
    )


def _most_confused(counts: np.ndarray, labels: Sequence[str]) -> str:
    wrong = counts - np.diag(np.diag(counts))
    if not wrong.sum():
        return "no class is taken for another."
    true, predicted = np.unravel_index(wrong.argmax(), wrong.shape)
    return f"most often {labels[int(true)]} is taken for {labels[int(predicted)]} ({int(wrong.max()):,} times)."


def resamples(n: int) -> int:
    """The number of resamples for intervals over this many examples."""
    return RESAMPLES if n <= MANY else FEW


@drawn_once
def by_class(results: pd.DataFrame, labels: Sequence[str], metric: str, resamples: int, theme: str) -> Exhibit:
    """Precision, recall or F1 of every class, for all models side by side; `results` come from
    `core.confusion.class_results`."""
    words, rows = metric_row(metric), results[results["metric"] == metric]
    method = f"bootstrap, {resamples} resamples" if words.interval == "bootstrap" else words.interval.capitalize()
    phrases = []
    for state, of_state in rows.groupby("state", sort=False):
        known = of_state.dropna(subset="value")
        if len(known):
            worst = known.iloc[int(known["value"].to_numpy().argmin())]
            low = f"{labels[int(worst['class'])]} {formats.percent(worst['value'])}"
            phrases.append(f"{state_style(str(state)).title} lowest for {low}")
    return Exhibit(
        name="classes",
        title=f"{words.heading} by class",
        figure=class_results(results, labels, metric, theme=theme),
        reads=f"one marker per model with its 95% interval over examples ({method}); n counts the "
        "examples of the class.",
        intervals=OVER_EXAMPLES,
        alt=f"{words.heading} by class: {'; '.join(phrases) or 'nothing was predicted'}.",
        table=results.assign(**{"class": [labels[c] for c in results["class"]]}),
        words=RESULTS,
    )


def disagreement(
    grafted: np.ndarray, finetuned: np.ndarray, labels: np.ndarray, split: str, metric: str = "accuracy"
) -> str:
    """The finding as sentences, for a text without chips."""
    decided, words = finding(grafted, finetuned, labels, split, metric)
    title = metric_row(right_metric(metric)).heading
    return f"{title}, graft vs fine-tuned: **{decided}**, {words}"


def basis(metric: str) -> tuple[str, ...]:
    """The glossary entries for the finding."""
    return (*(("paired", "agreement", "mcnemar") if has_predictions(metric) else (metric, "paired")), "graft")


def finding(
    grafted: np.ndarray, finetuned: np.ndarray, labels: np.ndarray, split: str, metric: str = "accuracy"
) -> tuple[DifferenceVerdict, str]:
    """The verdict on the graft compared with the fine-tuned model, and its words: the judged difference, the number of
    examples on which they differ, and McNemar's test.

    Logits [n, label] and labels [n]. `metric` is the task's own; its share of right answers is judged. If it has no
    predictions, the metric itself is judged, and the words give the number of references that the graft finds more
    likely.
    """
    row = metric_row(right_metric(metric))
    less = metric_difference(grafted, finetuned, labels, row.name)
    exact = row.precise(less.low, less.high)
    judged = f"{exact.difference(less.value, less.low, less.high)}."
    verdict = row.verdict(less.low, less.high)
    if not has_predictions(metric):
        return verdict, f"{judged} {_of_references(grafted, finetuned, labels, split, metric)}"
    same, low, high = agreement_interval(grafted, finetuned)[:3]
    test, n = mcnemar(grafted, finetuned, labels), len(labels)
    differing = round(n * (1 - same))
    interval = f"{formats.percent(1 - same)}, {formats.percent_interval(1 - high, 1 - low)}"
    counts = f"**{formats.count(differing)} of {formats.count(n)}**"
    first = f"{judged} The two disagree on {counts} {split} examples ({interval})"
    if not differing:
        return verdict, f"{first}."
    neither = differing - test.n01 - test.n10
    both = f", neither on {formats.count(neither)}" if neither else ""
    tuned, graft = (f"**{formats.count(number)}**" for number in (test.n01, test.n10))
    right = f"fine-tuned alone is right on {tuned}, the graft alone on {graft}{both}"
    return verdict, f"{first}: {right} (McNemar {p_value(test.p)})."


def _of_references(grafted: np.ndarray, finetuned: np.ndarray, labels: np.ndarray, split: str, metric: str) -> str:
    row = metric_row(metric)
    graft, tuned = (row.number(metric_interval(z, labels, metric).value) for z in (grafted, finetuned))
    likelier = int((token_probability(grafted) > token_probability(finetuned)).sum())
    return (
        f"The graft gives the reference a higher probability on **{formats.count(likelier)} of "
        f"{formats.count(len(labels))}** {split} examples. {row.heading} **{graft}** vs {tuned} for the fine-tuned "
        "model."
    )


def p_value(p: float) -> str:
    """`p = 0.031`, `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {formats.number(p, 3)}"


def worst_classes(results: pd.DataFrame, labels: Sequence[str]) -> str:
    """The class with the lowest F1 for the graft and for the fine-tuned model; `results` come from `core.confusion`."""
    phrases = []
    for state, name in (("grafted", "the graft"), ("finetuned", "the fine-tuned model")):
        known = results[(results["state"] == state) & (results["metric"] == "f1")].dropna(subset="value")
        if known.empty:
            continue
        worst = known.iloc[int(known["value"].to_numpy().argmin())]
        label = text.plain(labels[int(worst["class"])])
        ends = formats.percent_interval(worst["low"], worst["high"])
        phrases.append(f"**{label}** for {name} ({formats.percent(worst['value'])}, {ends})")
    return f"Lowest F1: {', '.join(phrases)}." if phrases else "No class was found at all."


def passing_words(shown: int, n: int, area: str = "") -> str:
    """The number of examples that pass the filters; `area` describes the selected part of the scatter, if any."""
    inside = f" in the area: {area}" if area else ""
    return f"**{formats.count(shown)}** of {formats.counted(n, 'example')}{inside}."

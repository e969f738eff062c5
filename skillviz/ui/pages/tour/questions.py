"""The questions of the tour: computed from the run's numbers, asked on a card, checked and explained.

Answers are kept for the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.core.intervals import metric_difference
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED, DifferenceVerdict
from skillviz.runs.metrics import estimate, metrics, positive
from skillviz.runs.points import DIFFERENCE
from skillviz.runs.record import Estimate, RunRecord, Scores, TaskNote
from skillviz.serving.classroom import Question
from skillviz.show import sentences
from skillviz.show.interpolation_grid import estimate as point

UNTOLD = "untold"
CLAIMED = "A difference counts only if its 95% interval excludes zero."
ENOUGH, HALF = 0.95, 0.5
PARTS = {"early": (0.0, 0.35), "middle": (0.35, 0.65), "late": (0.65, 1.01)}
SEARCHED = "searched"
CHOICES = {
    SEARCHED: "searched region", "movement": "top movement",
    "random-matched": "random in the same tensors", "random": "random",
}  # fmt: skip
"""Ways to choose the same number of parameters, by localizer."""
SHARES = {"less": (-np.inf, HALF), "much": (HALF, ENOUGH), "all": (ENOUGH, np.inf)}
SHARE_CHOICES = {
    "less": "less than half", "much": "half to 95%", "all": "95% or more", UNTOLD: "there is no gain to recover",
}  # fmt: skip
FEWEST = 3  # points of a path: its ends, and one between
ANSWERS = "tour.answers"  # session key: the answer to each question, and whether it was right
WIDGET = "tour.choice."
VERDICT = "tour-verdict"  # tour.js searches for it
BESIDE_BUTTON, BESIDE_ANSWER = (6, 1), (3, 4)  # relative widths of the choices and of the button or answer beside them
NOT_CHOSEN = ""  # the answer of a user who revealed it without a choice

Answers = dict[str, tuple[str, bool | None]]


def more_often(before: np.ndarray, after: np.ndarray, labels: np.ndarray, task: TaskNote) -> Question:
    """The question of whether the base or the fine-tuned model is right more often; logits [n, label] of both."""
    metric = task.metric
    values = [metrics(z, labels, task, (metric,))[metric].value for z in (before, after)]
    difference = estimate(metric_difference(after, before, labels, metric, positive(task)))
    return Question(
        f"Over all {len(labels):,} test sentences: which model is right more often?",
        {"pretrained": "the pre-trained one", "finetuned": "the fine-tuned one", UNTOLD: NO_DIFFERENCE},
        _winner(metric, difference, "finetuned", "pretrained"),
        _compared(metric, ("Pre-trained", values[0]), ("fine-tuned", values[1]), difference),
    )


def half_way(line: pd.DataFrame, metric: str) -> Question | None:
    """The question of which part of the path reaches half of the gain; `line` has WiSE-FT's points on one data set.

    None if no point between the ends is stored, or not the difference between the ends, so that the answer is unknown.
    """
    rows = line[line["metric"] == metric].sort_values("alpha")
    gained = point(line[line["alpha"] == 0.0], metric + DIFFERENCE)
    if rows["alpha"].nunique() < FEWEST or gained is None or gained.value is None:
        return None
    choices = {
        "early": "in the first third", "middle": "in the middle", "late": "in the last third",
        UNTOLD: "fine-tuning gained nothing",
    }  # fmt: skip
    asks = "Where along the path does the model first reach half of the gain of fine-tuning?"
    if (verdict := sentences.verdict(metric, gained)) == NOT_MEASURED:
        return None
    if verdict != "worse":
        change = sentences.metric_difference(metric, gained)
        return Question(asks, choices, UNTOLD, f"Pre-trained minus fine-tuned: {change}, so there is no clear gain.")
    values, ways = rows["value"].to_numpy(float), rows["alpha"].to_numpy(float)
    wanted = values[0] + HALF * (values[-1] - values[0])
    at = int(np.flatnonzero(values >= wanted)[0])
    answer = next(name for name, (low, high) in PARTS.items() if low <= ways[at] < high)
    middle = Estimate(value=values[at], low=float(rows["low"].iloc[at]), high=float(rows["high"].iloc[at]))
    why = (
        f"Half of the gain is {sentences.metric_value(metric, wanted)}. At {formats.percent(ways[at], 0)} of the way "
        f"it is first reached: {sentences.metric_estimate(metric, middle)}."
    )
    return Question(asks, choices, answer, why)


def without_region(
    complement: Estimate | None,
    recovered: Mapping[str, Estimate | None],
    record: RunRecord,
    scores: Scores,
    null: str,
) -> Question:
    """The question of how much of the gain the fine-tuned model keeps without the region.

    `complement` is that share; `recovered` are the shares that grafts of as many parameters recover, by SEARCHED or a
    localizer; `null` is a sentence on the search over null movements.
    """
    asks = "Everything fine-tuned *but* the region: how much of the gain comes back?"
    question = _share_of_gain(asks, complement, record, scores)
    if complement is None or complement.low is None:
        return question
    finding = "the region is not the only place" if complement.low > 0 else "no clear gain is left without the region"
    shares = [
        f"{CHOICES[name]} {formats.percent(gain.value, 0)} ({formats.percent_interval(gain.low, gain.high, 0)})"
        for name, gain in recovered.items()
        if gain is not None and gain.value is not None
    ]
    why = f"{question.why.removesuffix('.')}: {finding}. As many parameters alone: {', '.join(shares)}."
    return replace(question, why=f"{why} {null}")


def calibrated(scores: Scores) -> Question:
    """The question of which model's confidence is closer to its accuracy, by the paired interval of the difference."""
    values = [scores.states[state]["ece"].read for state in ("grafted", "finetuned")]
    difference = scores.differences.get("ece")
    why = _compared("ece", ("Graft", values[0]), ("fine-tuned", values[1]), difference)
    why += f" {_beside_scaling(scores)}"
    return Question(
        "Which model's confidence is closer to its accuracy (lower ECE)?",
        {"grafted": "the graft's", "finetuned": "the fine-tuned model's", UNTOLD: NO_DIFFERENCE},
        _winner("ece", difference, "grafted", "finetuned"),
        why,
    )


def _beside_scaling(scores: Scores) -> str:
    """A sentence that compares the graft with the fine-tuned model at its fitted temperature, by ECE and NLL."""
    told = []
    for metric in ("ece", "nll"):
        graft, scaled = (scores.states.get(state, {}).get(metric) for state in ("grafted", "finetuned_scaled"))
        if graft is not None and scaled is not None:
            decided = sentences.verdict(metric, scores.scaled_differences.get(metric))
            pair = " against ".join(sentences.metric_value(metric, one.read) for one in (graft, scaled))
            told.append(f"{metric_row(metric).title} {pair}, {decided}")
    rival = "Beside temperature scaling, a fairer rival,"
    return f"{rival} the graft has {'; '.join(told)}." if told else f"{rival} the graft is {NOT_MEASURED}."


def graft_or_finetuned(asks: str, scores: Scores, metric: str) -> Question:
    """The question of whether the graft or the fine-tuned model is better, by the paired interval."""
    estimates = [scores.states.get(state, {}).get(metric) for state in ("grafted", "finetuned")]
    values = [estimate.value if estimate else None for estimate in estimates]
    difference = scores.differences.get(metric)
    return Question(
        asks,
        {"grafted": "the graft", "finetuned": "the fine-tuned model", UNTOLD: NO_DIFFERENCE},
        _winner(metric, difference, "grafted", "finetuned"),
        _compared(metric, ("Graft", values[0]), ("fine-tuned", values[1]), difference),
    )


def share_recovered(record: RunRecord | None, null: str) -> Question:
    """The question of how much of the gain a region recovers; it has no answer until the run is made.

    `null` is a sentence on the search over null movements."""
    asks = "Guess: how much of the gain will your region recover?"
    if record is None:
        return Question(asks, SHARE_CHOICES, None, "There is no answer until your run finishes.")
    scores = next((record.metrics[split] for split in ("test", "validation") if split in record.metrics), None)
    question = _share_of_gain(asks, scores.recovered if scores else None, record, scores)
    return replace(question, why=f"{question.why} {null}")


def _share_of_gain(asks: str, recovered: Estimate | None, record: RunRecord, scores: Scores | None) -> Question:
    """The question of which of SHARES contains a share of the gain; there may be no gain, or no measured share."""
    if recovered is None or recovered.value is None:
        why = sentences.no_gain(scores, record.metric) if scores else ""
        why = why or f"The share of the gain is {NOT_MEASURED}."
        return Question(asks, SHARE_CHOICES, UNTOLD if why.startswith(sentences.NO_GAIN) else None, why)
    answer = next(name for name, (low, high) in SHARES.items() if low <= recovered.value < high)
    interval = f"95%: {formats.percent_interval(recovered.low, recovered.high, 0)}"
    return Question(asks, SHARE_CHOICES, answer, f"It recovers {formats.percent(recovered.value, 0)} ({interval}).")


def _winner(metric: str, difference: Estimate | None, first: str, second: str) -> str | None:
    """The better one by the paired difference first - second; UNTOLD if its interval holds zero, None without one."""
    answers: dict[DifferenceVerdict, str | None] = {"better": first, "worse": second, NO_DIFFERENCE: UNTOLD}
    return answers.get(sentences.verdict(metric, difference))


def _compared(
    metric: str, one: tuple[str, float | None], other: tuple[str, float | None], difference: Estimate | None
) -> str:
    """Both values, and the paired difference or the note that it is not measured."""
    pair = ", ".join(f"{name} {sentences.metric_value(metric, value)}" for name, value in (one, other))
    if difference is None or difference.value is None:
        return f"{pair}; the difference is {NOT_MEASURED}."
    change = sentences.metric_difference(metric, difference)
    unknown = f", {NOT_MEASURED}" if sentences.verdict(metric, difference) == NOT_MEASURED else ""
    return f"{pair}; paired difference {change}{unknown}."


def ask_question(name: str, question: Question) -> None:
    """Draws the question's card: choices, and the button that reveals the answer; then the answer and its reason.

    A class may reveal the answer without a choice. The answer replaces the button until another choice is made.
    """
    checked, key, names = answers(), f"{WIDGET}{name}", list(question.choices)
    # without a kept answer nothing is written, because that would undo a choice made meanwhile
    if st.session_state.get(key) not in names:
        st.session_state.pop(key, None)
        if name in checked and checked[name][0] in names:
            st.session_state[key] = checked[name][0]
    answer = st.session_state.get(key) or NOT_CHOSEN
    is_revealed = name in checked and answer == checked[name][0]
    with st.container(border=True, key="tour-question"):
        question_place, revealed = st.columns(
            BESIDE_ANSWER if is_revealed else BESIDE_BUTTON, vertical_alignment="center"
        )
        question_place.radio(
            question.asks, names, index=None, key=key,
            format_func=lambda c: question.choices[c], horizontal=True, help=CLAIMED,
        )  # fmt: skip
        with revealed:
            if is_revealed:
                counts = question.answer is not None and answer != NOT_CHOSEN
                checked[name] = (answer, answer == question.answer if counts else None)
                show_verdict(question, answer)
            else:
                st.button(
                    "Reveal", on_click=_reveal, args=(name,), key=f"tour.reveal.{name}",
                    icon=":material/visibility:", width="stretch",
                )  # fmt: skip


def _reveal(name: str) -> None:
    """Keeps the current choice, because a user who chooses and presses quickly is ahead of the last drawn page."""
    answers()[name] = (st.session_state[f"{WIDGET}{name}"] or NOT_CHOSEN, None)


def answers() -> Answers:
    """The answers so far, by the question's name."""
    stored: Answers = st.session_state.setdefault(ANSWERS, {})
    return stored


def score() -> str:
    """`2 of 3 answers right`; empty before the first answer."""
    checked = [right for _, right in answers().values() if right is not None]
    return f"{sum(checked)} of {formats.counted(len(checked), 'answer')} right" if checked else ""


def forget_answers() -> None:
    """Deletes all answers."""
    for key in [key for key in st.session_state if str(key).startswith(WIDGET)]:
        del st.session_state[key]
    st.session_state.pop(ANSWERS, None)


def show_verdict(question: Question, answer: str) -> None:
    """Draws whether the answer is right, in words and with an icon, and the numbers behind it."""
    right = question.choices.get(question.answer or "", "")
    verdict = st.container(key=VERDICT)
    if question.answer is None:
        kept = f"Your guess is kept. {question.why}" if answer != NOT_CHOSEN else question.why
        verdict.info(kept, icon=":material/hourglass_empty:")
    elif answer == NOT_CHOSEN:
        verdict.info(f"**The answer:** {right}. {question.why}", icon=":material/visibility:")
    elif answer == question.answer:
        verdict.success(f"**Right.** {question.why}", icon=":material/check_circle:")
    else:
        verdict.warning(f"**Not quite:** {right}. {question.why}", icon=":material/cancel:")

"""One example in detail, stored or typed: the models' predictions and their explanation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.core.scores import probabilities
from skillviz.errors import SkillvizError
from skillviz.plots.theme import state_style
from skillviz.runs.run import Run
from skillviz.show import attribution, example_table, text
from skillviz.show import examples as exhibits
from skillviz.show.answer_words import answer_words
from skillviz.show.attribution import Answer
from skillviz.show.glossary import about
from skillviz.tasks.source import OPTIONS, REFERENCE
from skillviz.tasks.task import CHOICE, GENERATION
from skillviz.ui import cache, controls, exports, live
from skillviz.ui.cards import STATES
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.examples.examples_page import RunExamples

OR_TYPE = ", or type a sentence of your own"
NO_EXPLANATION = {
    CHOICE: "Not applicable: predictions are explained for classes, and these options are the example's own.",
    GENERATION: "Not applicable: predictions are explained for classes, and a reference has none.",
}
LOOKS = {"example": "the chosen example", "typed": "a sentence of my own"}
MOST = 2000  # characters of a typed text; the models have their own limit, which is in tokens and lower

Text = str | list[str]
TOKENS, LAYERS = "integrated-gradients", "layer-conductance"
METHODS = {TOKENS: "tokens", LAYERS: "layers"}
BASELINES = {"pad": "padding", "mask": "the mask token", "zero": "zeros"}
PREDICTED = -1  # the class that the fine-tuned model predicts
STEPS, USUAL_STEPS = (20, 50, 100, 200), 50
READOUTS = {
    "prompt": "The task's prompt is part of the input, so its words count too. The answer is read at the mask.",
    "causal": "The task's prompt is part of the input, so its words count too. A class's score is the likelihood of "
    "its answer after the prompt.",
}
COLUMNS = {
    **{name: st.column_config.NumberColumn(format="%.3f") for name in ("sentence", "baseline", "change", "gap")},
    "gap, %": st.column_config.NumberColumn(format="%.1f"),
}


def look_closer(run: Run, run_examples: RunExamples, example: str | None) -> None:
    """Draws the predictions and the explanation of one example: the chosen one or a typed one."""
    look = "example"
    if run.record.has_classes:  # a typed sentence would have no options
        look = controls.segments("look", "Look at", tuple(LOOKS), "example", shown=LOOKS.get)
    if look == "typed":
        _typed(run)
    elif example is None:
        st.info(f"No example passes the filters. Change them{OR_TYPE if run.record.has_classes else ''}.")
    else:
        _stored(run, run_examples, example)


def _stored(run: Run, run_examples: RunExamples, example: str) -> None:
    """Draws an example of the run: its stored predictions at once, its explanation if its text is available."""
    row = run_examples.table[run_examples.table["example_id"] == example].iloc[0]
    if run.record.has_reference:
        _stored_texts(row)
        return
    texts = [row[name] for name in ("text_a", "text_b") if name in row]
    logits = run_examples.logits_of(run, example)
    shares = {state: probabilities(z[None])[0] for state, z in logits.items()}
    labels = run.labels
    if not run.record.has_classes:
        there = example_table.options_there(next(iter(logits.values())))
        shares, labels = {state: values[:there] for state, values in shares.items()}, labels[:there]
    answers = answer_words(run.record)
    exhibit = exhibits.probabilities(shares, labels, int(row["label"]), answers, theme())
    left, right = st.columns([2, 3])
    with left:
        st.markdown(f"**{text.plain(example)}** · {answers.right} **{text.plain(row['true'])}**")
        for words in texts:
            st.markdown(f"> {text.plain_line(words) or '(no text)'}")
        options = zip(labels, row.get(OPTIONS, ()), strict=False)
        if lines := [f"**{text.plain(label)}** {text.plain_line(option)}" for label, option in options]:
            st.markdown("  \n".join(lines))
        _show_predictions(shares, labels, int(row["label"]))
        has_classes = run.record.has_classes
        wanted = bool(texts) and has_classes and controls.switch("explain", "Explain this prediction", False)
        if not has_classes:
            st.caption(NO_EXPLANATION[run.record.task.kind if run.record.task else CHOICE])
        elif not texts:
            st.caption("Without its sentence, a prediction cannot be explained. Type one of your own instead.")
    with right:
        show(exhibit, run.id)
    if wanted:
        explanation(run, _as_text(texts))


def _stored_texts(row: pd.Series) -> None:
    """Draws the prompt and the reference, and each model's generated text and its likelihood of the reference."""
    left, right = st.columns([2, 3])
    with left:
        st.markdown(f"**{text.plain(row['example_id'])}**")
        for words in (row[name] for name in ("text_a", "text_b") if name in row):
            st.markdown(f"> {text.plain_line(words) or '(no text)'}")
        if REFERENCE in row:
            st.markdown(f"Reference: **{text.plain_line(row[REFERENCE])}**")
        st.caption(NO_EXPLANATION[GENERATION])
    with right:
        for state in example_table.STATES:
            colour, mark, title = STATES[state]
            says = ""
            if f"{state}_says" in row:
                verdict = "right" if row[f"{state}_right"] else "wrong"
                says = f" generates **{text.plain_line(row[f'{state}_says']) or '(nothing)'}** ({verdict})"
            st.markdown(f":{colour}[{mark} {title}]{says}")
            st.caption(
                f"The reference has {formats.percent(float(row[f'{state}_per_token']))} per token, "
                f"{formats.number(float(row[f'{state}_margin']), 2)} nats in all."
            )


def _typed(run: Run) -> None:
    """Draws the fields for a user's own sentence, which is scored and explained as soon as it is typed."""
    names = _text_names(run)
    places = st.columns(len(names))
    texts = []
    for place, name, key in zip(places, names, ("sentence", "sentence_b"), strict=False):
        with place:
            texts.append(controls.typed(key, name, most=MOST, placeholder="type, then press Enter"))
    if not all(texts):
        missing = [f"a {name.lower()}" for name, words in zip(names, texts, strict=True) if not words]
        st.info(f"Type {formats.listed(missing)} and press Enter.", icon=":material/keyboard:")
        return
    if any(len(words) > controls.LINKED for words in texts):
        st.caption(f"Links leave out texts of more than {controls.LINKED} characters.")
    answer = live.ask(run, "score_text", topic="score", texts=[_as_text(texts)], states=list(example_table.STATES))
    if answer is None:
        return
    shares = {state: probabilities(answer["logits"][state])[0] for state in example_table.STATES}
    left, right = st.columns([2, 3])
    with left:
        _show_predictions(shares, answer["labels"], None)
    with right:
        show(exhibits.probabilities(shares, answer["labels"], None, answer_words(run.record), theme()), run.id)
    explanation(run, _as_text(texts))


def _text_names(run: Run) -> tuple[str, ...]:
    """The names of the fields: the task's text columns if it has two."""
    with suppress(SkillvizError):  # the models' answer reports a missing task
        task = cache.task_defined(run.spec.task)
        if task.pair:
            return tuple(name.replace("_", " ").capitalize() for name in task.text)
    return ("Sentence",)


def _as_text(texts: Sequence[str]) -> Text:
    return texts[0] if len(texts) == 1 else list(texts)


def _show_predictions(shares: dict[str, np.ndarray], labels: Sequence[str], true: int | None) -> None:
    """Draws each model's prediction and its confidence."""
    with st.container(horizontal=True):
        for state, values in shares.items():
            colour, mark, title = STATES[state]
            best = int(np.argmax(values))
            with st.container(width=115, gap=None):
                st.markdown(f":{colour}[{mark} {title}]")
                right = "" if true is None else " (right)" if best == true else " (wrong)"
                st.markdown(f"**{text.plain(labels[best])}**{right}")
                st.caption(f"{formats.percent(float(values[best]))} confident")


@dataclass(frozen=True)
class AttributionRequest:
    """A request for an explanation: method, baseline, and class (None: the class predicted by the fine-tuned model)."""

    method: str
    baseline: str
    target: int | None
    steps: int


def explanation(run: Run, sentence: str | list[str]) -> None:
    """Draws the contributions of tokens or layers to a class in each model, and whether they add up."""
    request = _request(run)
    if note := READOUTS.get(run.record.readout or ""):
        st.caption(note)
    if request is None:
        return
    answer = live.ask(
        run, "attribute", topic="attribute", text=sentence, states=list(example_table.STATES), method=request.method,
        baseline=request.baseline, target=request.target, steps=request.steps,
    )  # fmt: skip
    if answer is None:
        return
    left, right = st.columns([2, 3])
    with left:
        _completeness(answer, request)
    with right:
        if request.method == LAYERS:
            _parts(run, answer)
        else:
            st.markdown(attribution.tokens_words(attribution.token_rows(answer), answer["label"]))
            show(attribution.tokens(answer, theme()), run.id)
    if request.method == LAYERS:
        state = controls.segments(
            "of", "Evidence by layer in", example_table.STATES, "grafted", shown=lambda s: state_style(s).title
        )
        show(attribution.layers(answer, state, theme()), run.id)


def _request(run: Run) -> AttributionRequest | None:
    """Draws the choices in one row; None, with the reason shown, if the chosen method does not apply."""
    places = st.columns([2, 2, 3, 2], vertical_alignment="bottom")
    with places[0]:
        method = controls.segments(
            "method", "Explain by", tuple(METHODS), TOKENS, shown=METHODS.get, help=about("attribution", "conductance")
        )
    is_causal = run.record.readout == "causal"
    offered = [name for name in BASELINES if not (is_causal and name == "mask")]
    with places[1]:
        baseline = controls.select(
            "baseline", "Against", offered, "zero" if is_causal else "pad", shown=BASELINES.get, help=about("baseline")
        )
    with places[2]:
        target = controls.select(
            "target", "For the class", (PREDICTED, *range(len(run.labels))), PREDICTED,
            shown=lambda c: "predicted by fine-tuned" if c == PREDICTED else run.labels[c],
            written=lambda c: "predicted" if c == PREDICTED else str(c), help=about("logodds"),
        )  # fmt: skip
    with places[3]:
        steps = controls.select("steps", "Steps", STEPS, USUAL_STEPS, help=about("completeness"))
    if method == LAYERS and run.record.architecture is not None and run.record.architecture.layers == 0:
        st.info(
            "Layer conductance is not applicable here: skillviz does not know this architecture's blocks. Explain by "
            "tokens instead.",
            icon=":material/layers_clear:",
        )
        return None
    return AttributionRequest(method, baseline, None if target == PREDICTED else target, steps)


def _parts(run: Run, answer: Answer) -> None:
    rows = attribution.part_rows(answer)
    if rows.empty:
        st.info(
            "skillviz does not know where attention and MLP are in this architecture. The evidence is shown after each "
            "block only.",
            icon=":material/layers:",
        )
        return
    st.markdown(attribution.parts_words(rows, answer["label"]))
    show(attribution.parts(answer, theme()), run.id)


def _completeness(answer: Answer, request: AttributionRequest) -> None:
    """Draws the share of the change that the values explain, and a warning if it is low."""
    gaps = attribution.completeness(answer)
    with st.container(border=True):
        st.markdown("## Does it add up?", help=about("completeness"))
        st.markdown(attribution.completeness_words(gaps))
        large = attribution.large_gaps(gaps)
        if large:
            names = formats.listed([state_style(state).title for state in large], most=3)
            more = "More steps" if request.steps < STEPS[-1] else "Another baseline"
            st.warning(
                f"The gap is large for {names}. Single values may be off by as much. {more} may help.",
                icon=":material/difference:",
            )
        table = _gap_table(gaps)
        st.dataframe(table, hide_index=True, column_config=COLUMNS, alt="Completeness by model, in nats")
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("In nats. The gap is what the numerical integral misses.", width="stretch")
            exports.table_menu(table, file="completeness", key="completeness", caption="Completeness by model, in nats")


def _gap_table(gaps: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "model": [state_style(state).title for state in gaps["state"]],
            "sentence": gaps["score"],
            "baseline": gaps["reference"],
            "change": gaps["change"],
            "gap": gaps["gap"].round(4) + 0.0,  # no minus before a zero
            "gap, %": 100 * gaps["share"],
        }
    )

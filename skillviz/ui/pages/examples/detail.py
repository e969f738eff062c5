"""The examples page from near: one stored example or a typed sentence, what the models say, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st

from skillviz.core import formats
from skillviz.core.scores import probabilities
from skillviz.errors import SkillvizError
from skillviz.runs.run import Run
from skillviz.runs.texts import task_of
from skillviz.show import example_table as examples
from skillviz.show import examples as exhibits
from skillviz.show import text
from skillviz.tasks.task import Task
from skillviz.ui import controls, live
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.examples.explanation import explanation
from skillviz.ui.pages.examples.view import Found
from skillviz.ui.pages.overview.cards import STATES

LOOKS = {"example": "the chosen example", "typed": "a sentence of my own"}
MOST = 2000  # characters of a typed text; the models' own limit is in tokens, and shorter

Text = str | list[str]


def near(run: Run, found: Found, example: str | None) -> None:
    """The predictions and the explanation of one example: the chosen one, or one that is typed."""
    st.markdown("## Look closer")
    look = controls.segments("look", "At", tuple(LOOKS), "example", shown=LOOKS.get)
    if look == "typed":
        _typed(run)
    elif example is None:
        st.info("No example passes the filters; choose others, or type a sentence of your own.")
    else:
        _stored(run, found, example)


def _stored(run: Run, found: Found, example: str) -> None:
    """An example of the run: its stored predictions at once, its explanation where its text is at hand."""
    row = found.table[found.table["example_id"] == example].iloc[0]
    texts = [row[name] for name in ("text_a", "text_b") if name in row]
    shares = {state: probabilities(z[None])[0] for state, z in found.logits_of(run, example).items()}
    exhibit = exhibits.probabilities(shares, run.labels, int(row["label"]), theme())
    left, right = st.columns([2, 3])
    with left:
        st.markdown(f"**{text.plain(example)}** · true class **{text.plain(row['true'])}**")
        for words in texts:
            st.markdown(f"> {text.plain(words) or '(no text)'}")
        _said(shares, run.labels, int(row["label"]))
        wanted = bool(texts) and controls.switch("explain", "Explain it: ask the models what counts", False)
        if not texts:
            st.info(
                "Its text is not at hand, so that its tokens cannot be explained; type a sentence of your own instead.",
                icon=":material/notes:",
            )
    with right:
        show(exhibit, run.id)
    if wanted:
        explanation(run, _as_text(texts))


def _typed(run: Run) -> None:
    """A sentence of the reader's: scored and explained as soon as it is there."""
    names = _fields(run)
    places = st.columns(len(names))
    texts = []
    for place, name, key in zip(places, names, ("sentence", "sentence_b"), strict=False):
        with place:
            texts.append(controls.typed(key, name, most=MOST, placeholder="type, then press Enter"))
    if not all(texts):
        missing = [name.lower() for name, words in zip(names, texts, strict=True) if not words]
        st.info(f"Nothing to look at yet: type {formats.listed(missing)} and press Enter.", icon=":material/keyboard:")
        return
    if any(len(words) > controls.LINKED for words in texts):
        st.caption(f"A text of more than {controls.LINKED} characters is not part of the address: links leave it out.")
    told = live.ask(run, "score_text", topic="score", texts=[_as_text(texts)], states=list(examples.STATES))
    if told is None:
        return
    shares = {state: probabilities(told["logits"][state])[0] for state in examples.STATES}
    left, right = st.columns([2, 3])
    with left:
        _said(shares, told["labels"], None)
    with right:
        show(exhibits.probabilities(shares, told["labels"], None, theme()), run.id)
    explanation(run, _as_text(texts))


def _fields(run: Run) -> tuple[str, ...]:
    """The names of the fields: the task's text columns where it has two."""
    task = known_task(run)
    if task is None or not task.pair:
        return ("Sentence",)
    return tuple(name.replace("_", " ").capitalize() for name in task.text)


def known_task(run: Run) -> Task | None:
    """The run's task, None where it is not on this machine: the models' answer then says so."""
    try:
        return task_of(run)
    except SkillvizError:
        return None


def _as_text(texts: Sequence[str]) -> Text:
    return texts[0] if len(texts) == 1 else list(texts)


def _said(shares: dict[str, np.ndarray], labels: Sequence[str], true: int | None) -> None:
    """What each model predicts, and how sure it is."""
    with st.container(horizontal=True):
        for state, values in shares.items():
            colour, mark, title = STATES[state]
            best = int(np.argmax(values))
            with st.container(width=115, gap=None):
                st.markdown(f":{colour}[{mark} {title}]")
                st.markdown(f"**{text.plain(labels[best])}**{_right(best, true)}")
                st.caption(f"{formats.percent(float(values[best]))} sure")


def _right(said: int, true: int | None) -> str:
    if true is None:
        return ""
    return " (right)" if said == true else " (wrong)"

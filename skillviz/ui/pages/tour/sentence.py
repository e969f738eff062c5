"""The tour's first step: one sentence, and what the pre-trained and the fine-tuned model say to it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.show import grafted, text
from skillviz.show import tour as exhibits
from skillviz.ui import address, cache, controls, live
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.tour import questions
from skillviz.ui.pages.tour import words as tour_words
from skillviz.ui.pages.tour.lesson import Lesson, Sample, samples
from skillviz.ui.pages.tour.questions import Question

SENTENCE = "tour.sentence"
LONGEST = 200
ENDS = ("pretrained", "finetuned")
WORD = re.compile(r"\w+")


def draw(lesson: Lesson, left: DeltaGenerator, right: DeltaGenerator) -> Question:
    """The sentence on the left, the two models on the right."""
    found = samples(lesson)
    with left:
        words = _sentence(found)
        sample = next((one for one in found if one.text == words), None)
        logits = _logits(lesson, words, sample)
        if logits is not None:
            _said(lesson, words, sample, logits)
    if logits is not None:
        with right:
            true = sample.label if sample else None
            show(exhibits.said(grafted.typed(logits, ENDS), lesson.run.labels, true, theme()), lesson.run.id)
    stored, labels = lesson.logits(*ENDS)
    return questions.more_often(stored["pretrained"], stored["finetuned"], labels, lesson.task)


def _sentence(found: Sequence[Sample]) -> str:
    """The control: an example of the task to begin with, which can be changed or typed over."""
    if found and address.current(SENTENCE) is None:
        address.remember(SENTENCE, found[0].text)
    words = controls.typed(SENTENCE, "Sentence (change it, then press Enter)", most=LONGEST, placeholder="Type one")
    if found:
        texts = [one.text for one in found]
        following = texts[(texts.index(words) + 1) % len(texts) if words in texts else 0]
        again = "Another example" if words in texts else "Back to the examples"
        st.button(again, on_click=controls.assign, args=(SENTENCE, following), icon=":material/shuffle:")
    return words


def _logits(lesson: Lesson, words: str, sample: Sample | None) -> dict[str, np.ndarray] | None:
    """Logits [1, label] of both models: stored for an example, asked of the models for any other sentence."""
    if sample is not None:
        return {state: sample.logits[state][None] for state in ENDS}
    if not words:
        st.caption("Type a sentence and press Enter.")
        return None
    told = live.ask(lesson.run, "score_text", topic=SENTENCE, texts=[words], states=list(ENDS))
    return None if told is None else {state: told["logits"][state] for state in ENDS}


def _said(lesson: Lesson, words: str, sample: Sample | None, logits: dict[str, np.ndarray]) -> None:
    """Both answers in words, what the label says, and which words the world does not know."""
    st.markdown(f"{grafted.predicted(grafted.typed(logits, ENDS), lesson.run.labels)}.")
    label = text.plain(lesson.run.labels[sample.label]) if sample else ""
    st.caption(f"A test sentence; its label says: {label}. Scores as stored." if sample else "Asked of the models.")
    known = cache.vocabulary(lesson.run.spec.base)
    strange = [word for word in WORD.findall(words) if known and word.lower() not in known]
    if note := tour_words.unknown(list(dict.fromkeys(strange))):
        st.caption(note)

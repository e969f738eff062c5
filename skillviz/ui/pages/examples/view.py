"""The examples page's upper half: the examples of the run, their texts where these are at hand, and the filters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.errors import SkillvizError
from skillviz.runs.run import Run
from skillviz.runs.texts import task_of
from skillviz.show import example_area as area
from skillviz.show import example_table as examples
from skillviz.show import example_words as examples_words
from skillviz.show import measures, text
from skillviz.show.entries import headline_split
from skillviz.show.example_table import Filters
from skillviz.tasks.task import Hub
from skillviz.ui import address, cache, controls, page

EVERY = "every class"
MOST_SEARCHED = 80  # characters of the words looked for


@dataclass(frozen=True)
class Found:
    """The run's examples of one split: the table of `examples.scored`, with texts where these are at hand."""

    split: str
    table: pd.DataFrame
    predictions: pd.DataFrame

    def logits(self, run: Run, states: tuple[str, ...]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Logits [n, label] of these states, and the labels [n]."""
        return measures.state_logits(self.predictions, run.record, self.split, states)

    def logits_of(self, run: Run, example: str) -> dict[str, np.ndarray]:
        """Logits [label] of one example, by state."""
        mine = self.predictions["example_id"] == example
        found = measures.state_logits(self.predictions[mine], run.record, self.split, examples.STATES)[0]
        return {state: z[0] for state, z in found.items()}


def found(run: Run) -> Found:
    """The examples with what each model says to them; says where their texts are missing."""
    predictions, split = page.table(run, "predictions"), headline_split(run.record)
    return Found(split, examples.scored(predictions, run.record, split), predictions)


def sentence(run: Run, shown: Found) -> str:
    """How often graft and fine-tuned model disagree, and who is right there."""
    logits, labels = shown.logits(run, ("grafted", "finetuned"))
    return examples_words.disagreement(logits["grafted"], logits["finetuned"], labels, shown.split)


def with_texts(run: Run, without: Found) -> Found:
    """The examples with their texts; as they were, and a sentence on what would bring the texts, where it cannot be."""
    try:
        if isinstance(task_of(run).data, Hub) and not controls.switch(
            "texts", "Read the texts from the Hugging Face hub, or its copy on this machine", False
        ):
            return without
        with st.spinner("Reading the task's texts."):
            texts = cache.texts(run, without.split)
    except SkillvizError as error:
        st.info(
            "A run stores no texts, so its examples go by their ids. Their texts are shown where the task's data are "
            f"on this machine, which they are not: {text.plain(str(error.args[0]))}",
            icon=":material/notes:",
        )
        return without
    return Found(without.split, examples.with_texts(without.table, texts), without.predictions)


def filters(run: Run, shown: Found) -> Filters:
    """Draws the filters in one row and returns what they say."""
    table, can_read = shown.table, examples.has_texts(shown.table)
    places = st.columns([3, 2, 3, 3, 3] if can_read else [3, 2, 3], vertical_alignment="bottom")
    with places[0]:
        counts = {case: int(examples.passing(table, Filters(case)).sum()) for case in examples.CASES}
        case = controls.select("case", "Show", tuple(counts), "all", shown=lambda c: _case_words(c, counts[c]))
    with places[1]:
        names = (EVERY, *examples.label_names(table, run.labels))
        chosen = controls.select("label", "True class", names, EVERY)
        label = None if chosen == EVERY else chosen
    with places[2]:
        sort = controls.select("sort", "Order", examples.sorts(table), "moved", shown=examples.SORTS.get)
    marked = _marked()
    if not can_read:
        return Filters(case, label, sort=sort, area=marked)
    with places[3]:
        words = controls.typed("words", "Words in the text", most=MOST_SEARCHED, placeholder="all of these words")
    with places[4]:
        length = _length(table)
    return Filters(case, label, length, words, sort, marked)


def _marked() -> area.Area | None:
    """The area of the scatter that was marked; it stands in the address."""
    found = area.read(address.current(area.AREA))
    if found is None:
        address.forget(area.AREA)
    else:
        address.keep(area.AREA, found.written())
    return found


def _case_words(case: str, count: int) -> str:
    return f"{examples.CASES[case]} ({formats.count(count)})"


def _length(table: pd.DataFrame) -> tuple[int, int] | None:
    """The lengths that are shown, None where all texts are equally long."""
    low, high = int(table["length"].min()), int(table["length"].max())
    return controls.span("length", "Length in words", low, high) if low < high else None

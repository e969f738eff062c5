"""The run of the tour, which is the one that the dashboard opens with: its tasks and its first sentences."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd
import streamlit as st

from skillviz.core.scores import predictions as classes
from skillviz.errors import SkillvizError
from skillviz.runs.record import RunRecord, Scores, TaskNote, TransferNote
from skillviz.runs.run import Run
from skillviz.show import text
from skillviz.show.entries import headline_split, opening_entry
from skillviz.tasks.readable_names import readable_name
from skillviz.tasks.task import Task
from skillviz.ui import cache, page
from skillviz.ui import page_table as pages

STATES = ("pretrained", "grafted", "finetuned")
LONGEST = 200  # characters of a sentence
SAMPLE_CASES = (
    ("changed", 3),
    ("right", 1),
    ("wrong", 1),
)  # sentences of each case, if there are so many


@dataclass(frozen=True)
class Sample:
    """A test sentence, its class, and its stored logits [label] by state."""

    text: str
    label: int
    logits: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class OpeningRun:
    """The run that the tour shows."""

    run: Run

    @property
    def record(self) -> RunRecord:
        """The run's record."""
        return self.run.record

    @property
    def task(self) -> TaskNote:
        """The run's task."""
        assert self.record.task is not None
        return self.record.task

    @property
    def split(self) -> str:
        """The split of the shown numbers."""
        return headline_split(self.record)

    @property
    def scores(self) -> Scores:
        """The run's scores on this split."""
        return self.record.metrics[self.split]

    @property
    def other(self) -> TransferNote | None:
        """The first other task; None if the run was scored on none."""
        return next(iter(self.record.transfers), None)

    def defined(self, name: str) -> Task | None:
        """The run's task or one of its other tasks, from its file; None if the file is missing."""
        named = next((note.named for note in self.record.transfers if note.name == name), self.record.spec.task)
        with suppress(SkillvizError):
            return cache.task_defined(named or name)
        return None

    def title(self, name: str) -> str:
        """The title in a task's file up to its colon, `Movie reviews`, else the task's name; in Markdown."""
        return text.plain(self.in_words(name))

    def in_words(self, name: str) -> str:
        """The same as plain text, for a figure."""
        task = self.defined(name)
        return (task.title.partition(":")[0] if task else "") or readable_name(name)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """The stored logits of every state; shows an explanation and stops if there are none."""
        return page.stored_table(self.run, "predictions")

    @cached_property
    def layers(self) -> pd.DataFrame:
        """The region by parameter; shows an explanation and stops if it is missing."""
        return page.stored_table(self.run, "layers")

    @property
    def moved(self) -> float:
        """Mean distance between base and fine-tuned values, over all graftable entries."""
        return float((self.layers["movement_mean"] * self.layers["total"]).sum() / max(self.layers["total"].sum(), 1))

    def logits(self, *states: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Stored logits [n, label] by state, and the true classes [n]."""
        return page.state_logits(self.run, self.split, states or STATES)


def opening_run() -> OpeningRun:
    """The run that the dashboard opens with, regardless of other pages; shows an explanation and stops if none fits."""
    with page.explained():
        entries = [entry for entry in cache.entries() if entry.has_classes]
        run = cache.run(opening_entry(entries).id) if entries else None
    if run is None or run.record.task is None or not run.record.metrics:
        st.info(
            "The tour walks through the run that the dashboard opens on, and there is no run of a task with classes "
            "here. Localize a pair, or open a folder with runs.",
            icon=":material/school:",
        )
        with st.container(horizontal=True):
            for name in ("launch", "runs"):
                st.page_link(pages.PAGES[name].link(), label=pages.PAGES[name].question)
        st.stop()
    return OpeningRun(run)


def samples(opening: OpeningRun) -> list[Sample]:
    """Sentences to start with: some corrected by fine-tuning, one that was right before, one that fine-tuning spoiled.

    Other sentences replace missing ones. Empty if the task's data are not on this machine.
    """
    try:
        texts = cache.texts(opening.run, opening.split)
    except SkillvizError:
        return []
    mark = ("samples", cache.texts_mark(opening.run, opening.split))
    return cache.computed(mark, [opening.run], partial(_drawn, opening, texts))


def _drawn(opening: OpeningRun, texts: pd.DataFrame) -> list[Sample]:
    logits, labels = opening.logits()
    rows = opening.predictions[opening.predictions["split"] == opening.split]
    words = texts.set_index("example_id")["text_a"].reindex(rows["example_id"].unique())
    right = {state: classes(logits[state]) == labels for state in ("pretrained", "finetuned")}
    before, after, fits = right["pretrained"], right["finetuned"], words.str.len().to_numpy() <= LONGEST
    cases = {"changed": ~before & after, "right": before & after, "wrong": before & ~after}
    first = [int(i) for case, count in SAMPLE_CASES for i in np.flatnonzero(cases[case] & fits)[:count]]
    places = list(dict.fromkeys([*first, *np.flatnonzero(fits)]))[: sum(count for _, count in SAMPLE_CASES)]
    by_text = {str(words.iloc[i]): (int(labels[i]), {state: z[i] for state, z in logits.items()}) for i in places}
    return [Sample(sentence, *row) for sentence, row in by_text.items()]

"""What the tour is about: the demo world's main run, its task and the other one, and sentences to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd
import streamlit as st

from skillviz.core import formats
from skillviz.core.scores import predictions as classes
from skillviz.errors import SkillvizError
from skillviz.runs.record import RunRecord, Scores, TaskNote, TransferNote
from skillviz.runs.run import Run
from skillviz.show import text
from skillviz.show.entries import demo_choice, headline_split
from skillviz.tasks.demo_world import TaskEntry, World
from skillviz.tasks.project import with_a_checkout
from skillviz.ui import cache, page
from skillviz.ui import page_table as pages

BUILD = "python -m skillviz demo build"
STATES = ("pretrained", "grafted", "finetuned")
SAMPLE_CASES = (
    ("changed", 3),
    ("right", 1),
    ("wrong", 1),
)  # how many sentences of each case, as far as there are so many


@dataclass(frozen=True)
class Sample:
    """A test sentence, its class, and what the run has stored of it: logits [label] by state."""

    text: str
    label: int
    logits: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class DemoRun:
    """The run that the tour shows; `world` is None where its index is not here."""

    run: Run
    world: World | None

    @property
    def record(self) -> RunRecord:
        """What the run says of itself."""
        return self.run.record

    @property
    def task(self) -> TaskNote:
        """The run's task."""
        assert self.record.task is not None
        return self.record.task

    @property
    def split(self) -> str:
        """The examples that numbers are taken on."""
        return headline_split(self.record)

    @property
    def scores(self) -> Scores:
        """The run's scores on them."""
        return self.record.metrics[self.split]

    @property
    def other(self) -> TransferNote | None:
        """The same skill in another domain, None where the run was scored on none."""
        return next(iter(self.record.transfers), None)

    def entry(self, name: str) -> TaskEntry | None:
        """What the world's index says of a task."""
        tasks = self.world.tasks if self.world else ()
        return next((task for task in tasks if task.name == name), None)

    def title(self, name: str) -> str:
        """A task in words, its own name where nothing says more; in Markdown."""
        return text.plain(self.in_words(name))

    def in_words(self, name: str) -> str:
        """The same as plain text, for a figure."""
        entry = self.entry(name)
        if entry is None:
            return formats.capital(name)
        size = f" ({formats.count(entry.examples.get('test', 0))} tests)"
        return formats.capital(entry.title.removeprefix("Shifted: ").removesuffix(size))

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """The stored logits of every state; explains and stops where there are none."""
        return page.table(self.run, "predictions")

    @cached_property
    def layers(self) -> pd.DataFrame:
        """The region by parameter; explains and stops where it is not there."""
        return page.table(self.run, "layers")

    @property
    def moved(self) -> float:
        """Mean distance, over all graftable entries, from pre-trained to fine-tuned value."""
        return float((self.layers["movement_mean"] * self.layers["total"]).sum() / max(self.layers["total"].sum(), 1))

    def logits(self, *states: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Stored logits [n, label] by state, and the true classes [n]."""
        return page.state_logits(self.run, self.split, states or STATES)


def shown_run() -> DemoRun:
    """The tour's run, whatever run the other pages show; explains and stops where no demo run is here."""
    with page.explained():
        world, chosen = cache.world(), demo_choice(cache.entries())
        run = cache.run(chosen.id) if chosen else None
    if run is None or run.record.task is None or not run.record.metrics:
        _explain_missing()
        st.stop()
    return DemoRun(run, world)


def samples(demo: DemoRun) -> list[Sample]:
    """Sentences to begin with: some that fine-tuning set right, one that was right before, one that it spoiled; then
    others, where there are too few of these. None where the task's data are not on this machine.
    """
    try:
        texts = cache.texts(demo.run, demo.split)
    except SkillvizError:
        return []
    return cache.computed(("samples", cache.texts_mark(demo.run, demo.split)), [demo.run], partial(_drawn, demo, texts))


def _drawn(demo: DemoRun, texts: pd.DataFrame) -> list[Sample]:
    logits, labels = demo.logits()
    rows = demo.predictions[demo.predictions["split"] == demo.split]
    words = texts.set_index("example_id")["text_a"].reindex(rows["example_id"].unique())
    right = {state: classes(logits[state]) == labels for state in ("pretrained", "finetuned")}
    before, after = right["pretrained"], right["finetuned"]
    cases = {"changed": ~before & after, "right": before & after, "wrong": before & ~after}
    first = [int(i) for case, count in SAMPLE_CASES for i in np.flatnonzero(cases[case])[:count]]
    places = list(dict.fromkeys([*first, *range(len(labels))]))[: sum(count for _, count in SAMPLE_CASES)]
    by_text = {str(words.iloc[i]): (int(labels[i]), {state: z[i] for state, z in logits.items()}) for i in places}
    return [Sample(sentence, *row) for sentence, row in by_text.items()]


def _explain_missing() -> None:
    """What brings a demo world, and where else to go."""
    about = (
        "The tour walks through a run of the **demo world**, a small world of sentences with two small models, and "
        "there is no such run here."
    )
    if lacking := with_a_checkout():
        st.info(f"{about}{lacking} Open the dashboard there to take the tour.", icon=":material/school:")
    else:
        st.info(
            f"{about} It ships with skillviz; this makes it again, in one to two hours on two processor cores:",
            icon=":material/school:",
        )
        st.code(BUILD, language=None)
        st.caption(
            "The tour looks for its run among those that ship and in your own folder. Reload this page afterwards."
        )
    with st.container(horizontal=True):
        for name in ("launch", "runs"):
            st.page_link(pages.PAGES[name].link(), label=pages.PAGES[name].question)

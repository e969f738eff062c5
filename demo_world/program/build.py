"""Building the demo world from nothing: corpus, bases, pairs, runs. A stage that is there is left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from demo_world.program import cached, corpus, pretrain, tokens
from demo_world.program.examples import taken_texts, write_task
from demo_world.program.pairs import PAIRS, PairPlan, make_pair, narrow
from demo_world.program.pretrain import Plan
from demo_world.program.world import LARGE, TASKS, DemoTask, Texts, task
from skillviz.errors import BadInput
from skillviz.models.applied import write_model
from skillviz.models.finetune.model_folder import versions
from skillviz.models.finetune.training import TrainStep
from skillviz.models.tokenizer import load_tokenizer
from skillviz.runs.progress import Progress
from skillviz.runs.store import Store
from skillviz.tasks import registry
from skillviz.tasks.demo_world import STAGES, PairEntry, TaskEntry, World, read_world, write_world
from skillviz.tasks.splits import load

Advance = Callable[[int, int | None, str], None]


@dataclass(frozen=True)
class Size:
    """How much of everything is made; the tests' world is a miniature of the one that ships."""

    base: Plan = Plan()
    causal: Plan = pretrain.CAUSAL
    pairs: tuple[PairPlan, ...] = PAIRS
    rows: dict[str, int] = field(default_factory=dict)
    """Most rows by split; empty: as many as the tasks ask for."""


@dataclass
class Build:
    """The stages, in the order of STAGES."""

    folder: Path
    runs_dir: Path
    seed: int
    size: Size
    advance: Advance
    world: World

    def corpus(self) -> None:
        """Task files and data, and the tokenizer in the folder of the base."""
        entries = list(self.task_entries((*TASKS, *LARGE)))
        words = tokens.vocabulary(corpus.vocabulary_texts(self.seed))
        for name in ("base", "causal"):
            tokens.tokenizer(words).save_pretrained(self.folder / name)
        self.keep(tasks=tuple(entries), vocabulary=len(words))

    def task_entries(self, rows: Sequence[DemoTask]) -> Iterator[TaskEntry]:
        """Writes tasks, in their order, and says what they are; the bases have read no test sentence of a large one."""
        read = corpus.sentences(self.seed, self.size.base.texts)
        taken = taken_texts(self.seed, read)
        for number, row in enumerate(rows, start=1):
            self.advance(number, len(rows), f"corpus: {row.name}")
            yield self.task_entry(self.reduced(row), taken if row in LARGE else None)

    def add_lacking(self) -> None:
        """Large tasks that a finished world lacks; where it lacks pairs, they and the runs are to be made."""
        if "corpus" in self.world.stages and not {row.name for row in LARGE} <= {row.name for row in self.world.tasks}:
            own = [entry for entry in self.world.tasks if entry.name not in {row.name for row in LARGE}]
            self.keep(tasks=(*own, *self.task_entries(LARGE)))
        if not {plan.name for plan in self.size.pairs} <= {pair.name for pair in self.world.pairs}:
            self.keep(stages=tuple(stage for stage in self.world.stages if stage in ("corpus", "base")))

    def base(self) -> None:
        """Both bases."""
        tokenizer = load_tokenizer(self.folder / "base")
        texts = list(corpus.texts(self.seed, self.size.base.texts, corpus.held_out(self.seed)))
        ids = pretrain.encoded(texts, tokenizer)
        telling = tokenizer.convert_tokens_to_ids(list(corpus.telling_words()))
        counts = {}
        for name, make, plan in (
            ("base", pretrain.masked_model, self.size.base),
            ("causal", pretrain.causal_model, self.size.causal),
        ):
            model = make(len(tokenizer), plan, self.seed)
            for step in pretrain.pretraining(model, ids, plan, self.seed, telling):
                self.advance(step.step, step.steps, f"{name}: loss {step.loss:.3f}")
            write_model(self.folder / name, model, tokenizer, overwrite=True)
            narrow(self.folder / name)
            counts[name] = model.num_parameters()
        self.keep(parameters=counts)

    def pairs(self) -> float:
        """The fine-tuned models; those that are there for these bases stay. Returns the seconds of all of them."""
        finished = {entry.name: entry for entry in self.world.pairs if (self.folder / "pairs" / entry.name).is_dir()}
        for number, plan in enumerate(self.size.pairs, start=1):
            if plan.name not in finished:
                text = f"pair {number} of {len(self.size.pairs)}, {plan.name}"
                finished[plan.name] = make_pair(plan, self.folder, self.seed, partial(self.trained, text))
                self.keep(pairs=tuple(finished[one.name] for one in self.size.pairs if one.name in finished))
        return sum(entry.seconds for entry in finished.values())

    def trained(self, text: str, step: TrainStep) -> None:
        """Tells of one step of fine-tuning."""
        self.advance(step.step, step.steps, f"{text}: loss {step.loss:.3f}")

    def runs(self) -> float:
        """The cached runs; those that are there stay. Returns the seconds of all of them."""

        def show(progress: Progress) -> None:
            self.advance(progress.done, progress.total, f"runs: {progress.text}")

        store = Store(self.runs_dir)
        run_ids = [run_id for *_, run_id in cached.make_runs(self.world, store, self.seed, show)]
        self.keep(runs=tuple(run_ids))
        return sum(sum(store.open(name).record.seconds.values()) for name in run_ids)

    def keep(self, **changes: object) -> None:
        """Writes what is known of the world."""
        self.world = self.world.model_copy(update=changes)
        write_world(self.world, self.folder)

    def reduced(self, row: DemoTask) -> DemoTask:
        """The task with at most the rows that this size has."""
        return replace(
            row, sizes={split: min(count, self.size.rows.get(split, count)) for split, count in row.sizes.items()}
        )

    def task_entry(self, row: DemoTask, taken: set[Texts] | None = None) -> TaskEntry:
        """Writes a task and says what it is; of a large one none of the texts is `taken`."""
        counts = {name: len(rows) for name, rows in write_task(row, self.folder / "tasks", self.seed, taken).items()}
        counts = ({"train": self.reduced(task(row.of)).sizes["train"]} if row.of else {}) | counts
        file = self.folder / "tasks" / f"{row.name}.yaml"
        return TaskEntry(
            name=row.name, family=row.family, title=row.title, asks=row.asks, labels=row.labels,
            file=f"demo_world/tasks/{row.name}.yaml", examples=counts,
            partner=row.partner or None, shifted=row.shifted, fingerprint=load(registry.task(file)).fingerprint,
        )  # fmt: skip


def build(
    folder: Path, runs_dir: Path, *, seed: int = 0, only: str | None = None, size: Size | None = None,
    advance: Advance = lambda done, total, text: None,
) -> World:  # fmt: skip
    """The world under `folder`, its runs under `runs_dir`; finished stages are left out, unless `only` names one.

    A finished world gets what it lacks of tasks and pairs. A stage that is made anew unmakes those after it. Raises
    BadInput where `only` needs a stage that is not there, or where the folder holds a world of another seed.
    """
    world = read_world(folder)
    if world is not None and world.seed != seed:
        raise BadInput(f"{folder} holds the world of seed {world.seed}; name another folder, or delete it first.")
    building = Build(folder, runs_dir, seed, size or Size(), advance, world or World(seed=seed))
    if world is not None and only is None:
        building.add_lacking()
    for stage in _stages(building.world, only):
        _make(building, stage, anew=only is not None)
    return building.world


def _stages(world: World, only: str | None) -> Iterator[str]:
    """The stages to make, in order."""
    if only is None:
        yield from [stage for stage in STAGES if stage not in world.stages]
        return
    if only not in STAGES:
        raise BadInput(f"'{only}' is not a stage of the demo world; known: {', '.join(STAGES)}.")
    before = STAGES[: STAGES.index(only)]
    if lacking := [stage for stage in before if stage not in world.stages]:
        raise BadInput(f"the stage '{only}' needs '{lacking[0]}', which is not made yet; leave --only out.")
    yield only


def _make(building: Build, stage: str, anew: bool) -> None:
    """Makes a stage, with its time, and marks it and not those after it as finished.

    Pairs are forgotten where their bases are made again, or they themselves `anew`; else those that are there stay.
    A stage of which parts may have been there counts their seconds itself.
    """
    before = STAGES[: STAGES.index(stage)]
    gone = stage in ("corpus", "base") or (anew and stage == "pairs")
    unmade: dict[str, tuple[PairEntry, ...]] = {"pairs": ()} if gone else {}
    building.world = building.world.model_copy(update={"stages": before, **unmade})
    begun = time.perf_counter()
    counted = getattr(building, stage)()
    took = time.perf_counter() - begun if counted is None else counted
    seconds = {**building.world.seconds, stage: round(took, 1)}
    environment = {"threads": torch.get_num_threads(), "versions": versions()}
    building.keep(stages=(*before, stage), seconds=seconds, **environment)

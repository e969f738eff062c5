"""Making a run: from a spec to a finished, immutable folder, or to one that says why it is not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch

from skillviz.core.localizers.record import State, Step
from skillviz.core.localizers.table import Localizer, localizer
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.device import describe, pick
from skillviz.models.predict import predict
from skillviz.runs.checkpoint import CHECKPOINT, Checkpoints, stamp_of
from skillviz.runs.evaluate import Metrics, curve_rows, graft_row, graft_row_of, scores
from skillviz.runs.folder import RunFolder
from skillviz.runs.layers import layers_table
from skillviz.runs.library import Library, library
from skillviz.runs.others import grid_tables, prediction_rows, scored_others
from skillviz.runs.progress import Progress, Report, silent
from skillviz.runs.provenance import architecture_note, commit, model_note, task_note, versions
from skillviz.runs.recipe import NAME, ByHand, by_hand
from skillviz.runs.record import Check, Scores, TaskNote, TransferNote
from skillviz.runs.run import Run
from skillviz.runs.search import Searched, base_region_of, options_of, search, targets
from skillviz.runs.selfcheck import ends_check, ranking_check, restored_check, size_check
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec, parse_size
from skillviz.runs.store import Store
from skillviz.runs.verdict import verdict

BEAT = 1.0  # seconds between two heartbeats


@dataclass(frozen=True)
class Plan:
    """What is known of a run before its folder exists."""

    spec: RunSpec
    row: Localizer
    options: Any
    sizes: tuple[int, ...]
    base_region: Region | None
    task: TaskNote
    notes: tuple[str, ...]
    made: ByHand | None = None

    @property
    def size(self) -> int | None:
        """Entries that the main region will have, None where the localizer tells."""
        return self.sizes[0] if self.row.budgeted or self.made else None


def produce(spec: RunSpec, store: Store, progress: Report | None = None, session: Session | None = None) -> Run:
    """The finished run of a spec.

    What can be checked without weights is checked before there is a folder. After that a failure leaves a
    folder with status failed (or cancelled, on Ctrl-C), its class and a hint, and is raised again. A
    `session` shared by several runs of one pair saves loading, encoding and the ends' predictions.
    """
    session, report = session or Session(), progress or silent
    report(Progress("check", text="checking the pair, the task and the sizes"))
    plan = prepare(spec, session, library(store.root))
    folder = store.create(spec, size=plan.size or 0, task=plan.task.name)
    with verdict(folder):
        folder.start()
        return _Production(plan, session, folder, report).made()


def carry_on(folder: RunFolder, progress: Report | None = None, session: Session | None = None) -> Run:
    """The finished run of a queued folder, from its checkpoint where it has one.

    Whatever is wrong is written into the folder, also what `produce` would say before there is one.
    """
    session, report = session or Session(), progress or silent
    with verdict(folder):
        folder.start()
        report(Progress("check", text="checking the pair, the task and the sizes"))
        plan = prepare(folder.record.spec, session, library(folder.path.parent))
        return _Production(plan, session, folder, report).made()


def prepare(spec: RunSpec, session: Session, found: Library) -> Plan:
    """The checked plan of a spec, whose recipe may name the runs of a library; reads configurations, headers and
    data, no weights. Raises SkillvizError."""
    row = localizer(spec.localizer)
    base_region = base_region_of(spec, row)
    options, notes = options_of(spec, row, base_region)
    pick(spec.device)
    task = session.task(spec)
    session.refuse_unfit(spec)
    check = session.preflight(spec)
    made = None
    if row.name == NAME and check.table is not None:
        made = by_hand(spec.options, check.table, found)
        options, notes = options_of(spec, row, made=made)
    sizes = (made.size,) if made else tuple(parse_size(size, check.d or 0) for size in spec.sizes)
    notes += made.notes if made else ()
    if not row.budgeted and not made:
        notes += (f"{row.title} has a size of its own, an outcome; the size asked for is not used.",)
    splits = session.splits(spec)
    session.others(spec)
    return Plan(spec, row, options, sizes, base_region, task_note(task, splits), (*splits.notes, *notes), made)


@dataclass
class _Production:
    """The phases of one run, in the order of `made`."""

    plan: Plan
    session: Session
    folder: RunFolder
    report: Report
    seconds: dict[str, float] = field(default_factory=dict)
    beaten: float = 0.0
    found: Searched = field(default_factory=Searched)
    searching: float = field(default_factory=time.perf_counter)
    stepped: int = 0

    def made(self) -> Run:
        """The finished run."""
        spec, session = self.plan.spec, self.session
        with self.phase("load", "loading both models and the data"):
            self.pair, self.data = session.pair(spec), session.encoded(spec)
            self.weights = session.weights(spec)
        with self.phase("predict", "scoring the pre-trained and the fine-tuned model"):
            self.ends = session.ends(spec)
        with self.phase("search", f"{self.plan.row.title}: searching"):
            found = self.searched()
        self.seconds["search"] = round(self.seconds["search"] + self.checkpoints.before, 3)
        with self.checkpoints.kept(found):
            with self.phase("evaluate", "scoring the grafts"):
                checks, metrics, transfers, temperature = self.evaluated(found)
            with self.phase("store", "storing the run"):
                fields = self.record_fields(found)
            return self.folder.finish(
                **fields, checks=checks, metrics=metrics, transfers=transfers, temperature=temperature,
                seconds=self.seconds,
            )  # fmt: skip

    def searched(self) -> Searched:
        """The regions of all sizes; the model is at base again after it."""
        spec, plan = self.plan.spec, self.plan
        if plan.base_region is not None and dict(plan.base_region.shapes) != self.pair.table.shapes:
            raise BadInput("the region file of the option 'base' was made for another architecture than this pair.")
        autocast = getattr(torch, spec.autocast) if spec.autocast else None
        problem = self.pair.problem(self.data["train"], self.data.get("validation"), autocast=autocast)
        state = self.restored()
        self.searching = time.perf_counter()
        try:
            return search(plan.row, problem, plan.sizes, spec.seed, plan.options, self.on_step, self.found, state)
        finally:
            problem.reset()

    def restored(self) -> State | None:
        """The state to go on from, None at the beginning; `found` then holds what a checkpoint has kept."""
        pair, where = self.pair, {"device": describe(self.pair.device), "torch": f"torch {torch.__version__}"}
        members = {"base": pair.base_info, "finetuned": pair.finetuned_info, "task": self.plan.task}
        stamp = stamp_of(self.plan.spec.key(), members)
        self.checkpoints = Checkpoints(self.folder.work / CHECKPOINT, stamp, where)
        kept = self.checkpoints.restored()
        if kept is None:
            return None
        self.found = kept.found
        self.folder.event(phase="resume", steps=len(kept.found.history), seconds=kept.seconds)
        self.folder.log(f"going on after {len(kept.found.history):,} steps of an earlier search")
        return kept.state

    def on_step(self, target: int, step: Step) -> None:
        """Tells the watchers of one step."""
        loss = step.loss if np.isfinite(step.loss) else None
        said = {"step": step.step, "loss": loss, "size": step.size, "added": step.added, "removed": step.removed}
        all_targets = targets(self.plan.row, self.plan.sizes)
        place: dict[str, Any] = {"search": all_targets.index(target) + 1, "searches": len(all_targets)}
        self.stepped += 1
        place["left"] = self.seconds_left(step, place["searches"] - place["search"])
        with self.checkpoints.kept(self.found, step.state):
            self.folder.event(phase="search", target=target, **said, total=step.total, **place)
            self.beat()
            text = f"{self.plan.row.title}, {target:,} entries"
            self.report(Progress("search", step.step, step.total, text, loss=loss, size=step.size))

    def seconds_left(self, step: Step, searches: int) -> float | None:
        """Seconds until the run is finished, with so many searches after this one; None where nobody can tell."""
        if step.total is None:
            return None
        each = (time.perf_counter() - self.searching) / self.stepped
        return round(each * (step.total - step.step + searches * step.total) + self.scoring(), 1)

    def scoring(self) -> float:
        """Seconds that scoring the grafts takes: two states as the ends before, and one for each further size."""
        return round(self.seconds.get("predict", 0.0) * (1 + (len(self.plan.sizes) - 1) / 2), 1)

    def evaluated(
        self, found: Searched
    ) -> tuple[tuple[Check, ...], dict[str, Scores], tuple[TransferNote, ...], float | None]:
        """Writes every table; the self-checks, the metrics by split and on other tasks, and the temperature."""
        pair, table = self.pair, self.pair.table
        region, ranking = found.region(found.size, table.shapes), found.ranking()
        temperature, known = self.session.end_metrics(self.plan.spec, self.plan.task)
        logits = {split: self.states(split, region) for split in self.ends}
        metrics = {
            split: scores(z, self.data[split].labels, self.plan.task, temperature, known[split])
            for split, z in logits.items()
        }
        self.folder.write_region(region, self.region_header())
        self.folder.write_ranking(ranking, table.d)
        others = list(scored_others(self.session, self.plan.spec, region, self.plan.task, temperature))
        self.folder.write_table("predictions", pd.concat([self.predictions(logits), *(rows for _, rows in others)]))
        self.folder.write_table("curve", self.curve(found, metrics))
        self.folder.write_table("history", found.table())
        movement = self.session.movement(self.plan.spec)
        layers = layers_table(region, table, movement, pair.base, pair.finetuned)
        self.folder.write_table("layers", layers)
        if self.plan.spec.interpolation and "test" in self.data:
            test, sizes = self.data["test"], tuple(found.orders)
            for name, frame in grid_tables(self.session, self.plan.spec, self.plan.task, test, ranking, sizes).items():
                self.folder.write_table(name, frame)
        return self.checks(region, found, ranking), metrics, tuple(note for note, _ in others), temperature

    def checks(self, region: Region, found: Searched, ranking: np.ndarray) -> tuple[Check, ...]:
        """The self-checks, the one of the weights last."""
        examples = self.data.get("test", self.data["train"])
        return (
            size_check(region, found.orders[found.size], self.plan.size),
            ranking_check(region, ranking),
            ends_check(self.pair, examples),
            restored_check(self.weights, self.pair),
        )

    def states(self, split: str, region: Region) -> dict[str, np.ndarray]:
        """Logits [n, label] of all four states on one split."""
        self.beat()
        grafts = {s: predict(self.pair, self.data[split], s, region) for s in ("grafted", "complement")}
        return {**self.ends[split], **grafts}

    def predictions(self, logits: dict[str, dict[str, np.ndarray]]) -> pd.DataFrame:
        """predictions.parquet."""
        task, data = self.plan.task, self.data
        frames = [
            prediction_rows(states, data[split].ids, data[split].labels, task.name, split, task.labels)
            for split, states in logits.items()
        ]
        return pd.concat(frames, ignore_index=True)

    def curve(self, found: Searched, metrics: dict[str, Scores]) -> pd.DataFrame:
        """curve.parquet: the main size from the metrics at hand, the others predicted and scored."""
        spec, d, rows = self.plan.spec, self.pair.d, []
        for number, size in enumerate(sorted(found.orders), 1):
            common = {"localizer": spec.localizer, "seed": spec.seed, "size": size, "share": size / d}
            for split in self.ends:
                self.beat()
                row = graft_row_of(metrics[split]) if size == found.size else self.graft_row(found, size, split)
                rows += curve_rows(row, **common, dataset=self.plan.task.name, split=split)
            self.folder.event(phase="evaluate", step=number, total=len(found.orders))
            self.report(Progress("evaluate", number, len(found.orders), f"{size:,} entries scored"))
        return pd.DataFrame(rows)

    def graft_row(self, found: Searched, size: int, split: str) -> Metrics:
        """The metrics of one of the other sizes."""
        grafted = predict(self.pair, self.data[split], "grafted", found.region(size, self.pair.table.shapes))
        return graft_row({**self.ends[split], "grafted": grafted}, self.data[split].labels, self.plan.task)

    def region_header(self) -> dict[str, Any]:
        """What region.safetensors says of where it comes from."""
        spec = self.plan.spec
        members = {"base": self.pair.base_info, "finetuned": self.pair.finetuned_info}
        made = self.plan.made
        return {
            "run_id": self.folder.id, "localizer": spec.localizer, "seed": spec.seed, "task": self.plan.task.name,
            "readout": self.pair.readout_name, **{f"{name}_fingerprint": i.fingerprint for name, i in members.items()},
            **({"recipe": made.recipe, "made_of": made.sources} if made else {}),
        }  # fmt: skip

    def record_fields(self, found: Searched) -> dict[str, Any]:
        """The fields of run.json that say what was made of what."""
        spec, pair = self.plan.spec, self.pair
        return {
            "seeds": {"localizer": spec.seed, "data": spec.data_seed},
            "versions": versions(),
            "commit": commit(),
            "device": describe(pair.device),
            "readout": pair.readout_name,
            "base": model_note(spec.base, pair.base_info),
            "finetuned": model_note(spec.finetuned, pair.finetuned_info),
            "task": self.plan.task,
            "architecture": architecture_note(pair.table),
            "size": found.size,
            "share": found.size / pair.d,
            "sizes": tuple(found.orders),
            "notes": tuple(dict.fromkeys((*pair.notes, *self.plan.notes, *found.notes))),
        }

    @contextmanager
    def phase(self, name: str, text: str) -> Iterator[None]:
        """Names a phase to the watchers and takes its time."""
        self.report(Progress(name, text=text))
        self.folder.event(phase=name, left=self.scoring() if name == "evaluate" else None)
        self.folder.log(text)
        begun = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - begun, 3)

    def beat(self) -> None:
        """A heartbeat, at most one a second."""
        if time.monotonic() - self.beaten > BEAT:
            self.folder.beat()
            self.beaten = time.monotonic()

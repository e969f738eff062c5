"""Make a run: from a spec to a finished, immutable folder, or to a folder that records the failure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import psutil
import torch

from skillviz.core.encoded import Encoded, encoding_notes
from skillviz.core.gain import Gain
from skillviz.core.localizers.record import LocalizerStep, State
from skillviz.core.localizers.table import EXPRESSION, matches_outputs
from skillviz.core.objective import Shards
from skillviz.core.problem import Problem
from skillviz.core.recordings import Recordings
from skillviz.core.scores import probabilities
from skillviz.models.device import describe, pick
from skillviz.models.null_pair import kept_out, summed_movements
from skillviz.models.pair import ModelPair
from skillviz.models.predict import predict
from skillviz.runs.checkpoint import DEFINITION, Checkpoints
from skillviz.runs.folder import CHECKPOINT, RunFolder
from skillviz.runs.growing import Growing
from skillviz.runs.held_out import data_record, why_not
from skillviz.runs.memory import PROCESS, facts_of, free_memory, peak_bytes, refuse_larger
from skillviz.runs.nulls import NullDraw, kept_null, null_graft, searched_null
from skillviz.runs.pace import OTHERS, OUTSIDE, Pace, Scored, passes
from skillviz.runs.passes import FOLDER, UNKEPT, Passes
from skillviz.runs.plan import RunPlan, other_models_of, planned
from skillviz.runs.process import Progress, Report, silent
from skillviz.runs.provenance import architecture_note, commit, model_note, versions
from skillviz.runs.record_failure import record_failure
from skillviz.runs.run import Run
from skillviz.runs.scoring import Scoring
from skillviz.runs.search import Searched, SearchStep, search
from skillviz.runs.session import EVALUATED, Session
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, library
from skillviz.tasks.project import expanded

BEAT = 1.0  # seconds between two reports of scored examples
TIMED = 64  # examples that are scored to measure the pace
SCORING = ("predict", "evaluate")
"""The phases that score examples, whose remaining time is known at their beginning."""


def produce(spec: RunSpec, store: Store, progress: Report | None = None, session: Session | None = None) -> Run:
    """Make the run of a spec and return it.

    All checks that need no weights are made before there is a folder. After that, a failure leaves a folder with status
    failed (or cancelled, on Ctrl-C), the error's class and a hint, and is raised again. Runs of one pair can share a
    `session`, which saves loading, encoding and the predictions of both models.
    """
    session, report = session or Session(), progress or silent
    report(Progress("check", text="checking the pair, the task and the sizes"))
    return made(planned(spec, session, library(store.root), pick(spec.device).type), session, store, report)


def made(plan: RunPlan, session: Session, store: Store, report: Report) -> Run:
    """Make the run of a plan of this session and return it; see `produce`."""
    refuse_too_large(plan, session)
    folder = store.create(plan.spec, size=plan.size or 0, task=plan.task.name)
    with record_failure(folder):
        folder.start()
        return _Production(plan, session, folder, report).run()


def carry_on(folder: RunFolder, progress: Report | None = None, session: Session | None = None) -> Run:
    """Finish the run of a queued folder, from its checkpoint if it has one, and return it.

    Every error is written into the folder, including those that `produce` raises before there is a folder.
    """
    session, report = session or Session(), progress or silent
    with record_failure(folder):
        folder.start()
        report(Progress("check", text="checking the pair, the task and the sizes"))
        spec = folder.record.spec
        plan = planned(spec, session, library(folder.path.parent), pick(spec.device).type)
        refuse_too_large(plan, session)
        return _Production(plan, session, folder, report).run()


def refuse_too_large(plan: RunPlan, session: Session) -> None:
    """Raise NotEnoughMemory if the run needs more memory than is free on its device."""
    spec, device = plan.spec, pick(plan.spec.device)
    needed = peak_bytes(spec, facts_of(spec, session, device.type, plan.sizes))
    if device.type == "cpu":  # free memory plus the memory that this process already has
        resident = psutil.Process().memory_info().rss
        refuse_larger(needed, free_memory() + resident, "memory", spec.lean)
    else:
        free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
        refuse_larger(needed - PROCESS, free, f"the memory of {device}", spec.lean)


def problem_of(plan: RunPlan, pair: ModelPair, data: Mapping[str, Encoded]) -> tuple[Problem, Any, list[str]]:
    """Return the problem for the plan's search, its options with named models loaded, and notes."""
    spec, options, notes = plan.spec, plan.options, list[str]()
    if others := other_models_of(options):
        movement, *notes = summed_movements(pair, expanded(spec.base, "base"), others, options.others)
        options = replace(options, other_movement=movement)
    outside = None
    if plan.outside is not None:  # the plan's region was made from headers
        outside = plan.outside.like(pair.table.shapes)
        pair = kept_out(pair, outside)
    autocast = getattr(torch, spec.autocast) if spec.autocast else None
    problem = pair.problem(data["train"], data.get("validation"), autocast=autocast)
    problem.outside = None if outside is None else outside.flat()
    problem.train.shards = Shards(spec.data_parallel)
    if spec.cuda_graphs:
        for objective in filter(None, (problem.train, problem.selection)):
            objective.recordings = Recordings(pair.flat, objective.batches)
    return problem, options, notes


def searched_data(plan: RunPlan, session: Session, passes: Passes = UNKEPT) -> dict[str, Encoded]:
    """Return the run's examples; for a search that matches outputs, the training examples have them as targets.

    They are the fine-tuned model's probabilities, on a null's search too. They may be of another task's texts.
    """
    data = session.encoded(plan.spec)
    if not matches_outputs(plan.options):
        return data
    train = data["train"] if plan.texts is None else session.encoded_texts(plan.spec, plan.texts)
    scores = passes.predict(session.pair(plan.spec), train, "train", "finetuned")
    return {**data, "train": replace(train, targets=probabilities(scores))}


def follow(plan: RunPlan, session: Session) -> None:
    """Search along with the process that makes the run, nulls too, on a part of every batch; store nothing."""
    spec = plan.spec
    pair, data = session.pair(spec), searched_data(plan, session)
    problem, options, _ = problem_of(plan, pair, data)
    for _ in search(plan.row, problem, plan.sizes, spec.seed, options, Searched()):
        pass
    problem.reset()
    for null in spec.null_searches:
        null_graft(pair, data, partial(problem_of, plan), plan, null, lambda step: None)


@dataclass
class _Production:
    """The phases of one run, in the order of `run`."""

    plan: RunPlan
    session: Session
    folder: RunFolder
    report: Report
    seconds: dict[str, float] = field(default_factory=dict)
    searched: Searched = field(default_factory=Searched)
    told: float = 0.0
    phase_name: str = ""
    stepped: float | None = None
    total: int | None = None
    ahead: int = 0
    steps: Pace = field(default_factory=Pace)
    stopped: str = ""

    def run(self) -> Run:
        """Make the run and return it."""
        spec, session = self.plan.spec, self.session
        with self.phase("load", "loading both models and the data"):
            self.pair, self.data = session.pair(spec), session.encoded(spec)
            session.weights(spec)  # the weights at the start, for the self-check at the end
            self.time_scoring()
        self.passes = Passes(self.on_scored, self.folder.work / FOLDER, {**self.stamp(), **self.computed_on()})
        self.scored = self.to_score(with_ends=True)
        with self.phase("search", f"{self.plan.row.title}: searching"):
            self.data = searched_data(self.plan, session, self.passes)
            searched = self.search_regions()
        self.seconds["search"] = round(self.seconds["search"] + self.checkpoints.before, 3)
        with self.checkpoints.saving(searched):
            nulls_to_search = () if self.stopped else spec.null_searches
            self.ahead = len(nulls_to_search)
            with self.phase("predict", "scoring the pre-trained and the fine-tuned model"):
                self.scored.begin()
                session.ends(spec, self.passes)
            self.scored = self.to_score()
            with self.phase("evaluate", "scoring the grafts"):
                size = None if self.stopped else self.plan.size
                scoring = Scoring(spec, self.plan.task, size, session, self.folder, self.passes)
                scoring.fit_gains(searched)
                scored = scoring.scored(searched, self.region_header(scoring.gain_of(searched.size)))
                draws = self.searched_nulls(scoring, nulls_to_search)
                nulls, gains = scoring.scored_nulls(draws), scoring.gain_notes(searched.size, draws)
                self.tell_scored("checking both ends and the weights, bit for bit")
                checks = scoring.checks(searched)
            with self.phase("store", "storing the run"):
                fields = self.record_fields(searched)
            told = {**scored._asdict(), "nulls": nulls, "gains": gains, "gain": scoring.gain_of(searched.size)}
            return self.folder.finish(**fields, **told, checks=checks, seconds=self.seconds)

    def search_regions(self) -> Searched:
        """Search the regions of all sizes and return them; the model is reset to the base afterwards."""
        spec, plan = self.plan.spec, self.plan
        problem, options, notes = problem_of(plan, self.pair, self.data)
        state = self.restored()
        self.searched.notes += [note for note in notes if note not in self.searched.notes]
        if self.searched.orders and (stopped := self.folder.keep_request):
            self.stopped = stopped
            return self.searched
        growing = Growing(self.folder.work, self.pair.table)
        steps = search(plan.row, problem, plan.sizes, spec.seed, options, self.searched, state)
        try:
            with closing(steps):
                for step in steps:
                    self.on_step(step)
                    growing.tell(step)
                    if self.folder.keep_request is not None and self.stops_after(step):
                        break
        finally:
            problem.reset()
        return self.searched

    def stops_after(self, searching: SearchStep) -> bool:
        """End the search with the regions that it has; return False if it has none yet, or ends by itself.

        Regions of finished searches are kept; without any, the region after this step becomes the run's only one.
        """
        step, orders = searching.step, self.searched.orders
        if step.step == step.total:
            return False
        what = "of the requested sizes it has those that were finished"
        if not orders:
            if step.region is None or not len(order := step.region()):
                return False
            orders[len(order)] = order
            what = f"its region has {len(order):,} entries, {searching.target:,} were requested"
        self.stopped = f"{step.step} of {step.total}"
        self.folder.ask_to_keep(self.stopped)
        self.searched.notes.append(
            f"A user ended the search after step {self.stopped}: {what}, and no null was searched."
        )
        return True

    def searched_nulls(self, scoring: Scoring, planned: Sequence[tuple[str, int]]) -> list[NullDraw]:
        """Return the draws of these nulls; those of an earlier attempt are read from its stored scores."""
        plan, draws = self.plan, list[NullDraw]()
        for null in planned:
            self.ahead, self.stepped = len(planned) - len(draws) - 1, None
            text = f"{plan.row.title} on {null[0]} movements, draw {null[1] + 1}"
            self.tell_scored(text)
            problem = partial(problem_of, plan)
            on_step = partial(self.on_null_step, text)
            has_gain = plan.spec.gain != 1
            gain_of = partial(scoring.gained_null, null) if has_gain else None
            draws.append(
                kept_null(self.passes, self.data, null, has_gain)
                or searched_null(self.pair, self.data, problem, plan, null, self.passes, on_step, gain_of)
            )
        return draws

    def on_null_step(self, text: str, searching: SearchStep) -> None:
        """Report a step of a null's search."""
        step = searching.step
        self.time_step()
        left = None if step.total is None else self.steps.left(step.total - step.step + self.ahead * step.total)
        self.report(Progress("evaluate", step.step, step.total, text, step.finite_loss, step.size, left))

    def time_step(self) -> None:
        """Add the last step to the pace. The first step of a search is omitted, because it includes the preparation."""
        now = time.perf_counter()
        if self.stepped is not None:
            self.steps.add(1, now - self.stepped)
        self.stepped = now

    def restored(self) -> State | None:
        """Return the state to resume from, or None at the beginning; `searched` is set to the checkpoint's."""
        self.checkpoints = Checkpoints(self.folder.work / CHECKPOINT, self.stamp(), self.computed_on())
        checkpoint = self.checkpoints.restored()
        if checkpoint is None:
            self.folder.forget_keep_request()  # an earlier search ended so, and its region is gone
            return None
        self.searched = checkpoint.searched
        self.folder.event(phase="resume", steps=len(checkpoint.searched.history), seconds=checkpoint.seconds)
        self.folder.log(f"resuming after {len(checkpoint.searched.history):,} steps of an earlier search")
        return checkpoint.state

    def stamp(self) -> dict[str, Any]:
        """Return the identity of a checkpoint and of stored scores."""
        pair, plan = self.pair, self.plan
        return {
            "spec": plan.spec.key(),
            "base": pair.base_info.fingerprint,
            "finetuned": pair.finetuned_info.fingerprint,
            "data": plan.task.fingerprint + (plan.texts.fingerprint if plan.texts else ""),
            "region": plan.base_region.sha256() if plan.base_region is not None else "",
            DEFINITION: plan.task.definition,
        }

    def computed_on(self) -> dict[str, str]:
        """Return the device and the version of torch, on which the rounding of numbers depends."""
        return {"device": describe(self.pair.device), "torch": f"torch {torch.__version__}"}

    def on_step(self, searching: SearchStep) -> None:
        """Report a step of the search."""
        step, target = searching.step, searching.target
        self.time_step()
        self.total = step.total
        left = self.seconds_left(step, searching.searches - searching.number)
        with self.checkpoints.saving(self.searched, step.state):
            self.folder.event(
                phase="search", target=target, step=step.step, loss=step.finite_loss, size=step.size, added=step.added,
                removed=step.removed, total=step.total, search=searching.number, searches=searching.searches,
                left=left,
            )  # fmt: skip
            text = f"{self.plan.row.title}, {target:,} entries"
            self.report(Progress("search", step.step, step.total, text, step.finite_loss, step.size, left))

    def seconds_left(self, step: LocalizerStep, searches: int) -> float | None:
        """Return the seconds until the run is finished, with this many searches to follow; None if unknown."""
        if step.total is None:
            return None
        ahead = searches + len(self.plan.spec.null_searches)
        searching, scoring = self.steps.left(step.total - step.step + ahead * step.total), self.scored.left
        return None if searching is None or scoring is None else round(searching + scoring, 1)

    def time_scoring(self) -> None:
        """Score a few examples, so that the time left is known while the search runs."""
        encoded = next((self.data[split] for split in EVALUATED if split in self.data), None)
        if encoded is None or self.session.pace.work:
            return
        for rows in (range(1), range(min(TIMED, len(encoded)))):  # the first pass prepares the kernels
            few, begun = encoded.take(rows), time.perf_counter()
            predict(self.pair, few, "finetuned")
        self.session.pace.add(int(few.lengths.sum()), time.perf_counter() - begun)

    def to_score(self, with_ends: bool = False) -> Scored:
        """Return the remaining scoring of the grafts, and of the two models if asked, at the session's pace."""
        spec, others = self.plan.spec, self.session.encoded_others(self.plan.spec)
        examples = {split: len(encoded) for split, encoded in self.data.items()}
        tokens = {split: int(encoded.lengths.sum()) for split, encoded in self.data.items()}
        examples[OTHERS] = sum(map(len, others.values()))
        tokens[OTHERS] = sum(int(encoded.lengths.sum()) for encoded in others.values())
        if (outside := self.session.encoded_out_of_scope(spec)) is not None:
            examples[OUTSIDE], tokens[OUTSIDE] = len(outside), int(outside.lengths.sum())
        kinds, ends = len(self.pair.table.kinds), 2 if with_ends and not self.session.has_ends(spec) else 0
        first, second = (
            passes(spec, counts, self.plan.sizes, kinds) + ends * sum(counts.get(split, 0) for split in EVALUATED)
            for counts in (examples, tokens)
        )
        return Scored(first, second, self.session.pace)

    def on_scored(self, examples: int, tokens: int, text: str, is_new: bool) -> None:
        """Report scored examples, at most once per second and at the end of a pass."""
        self.scored.add(examples, tokens, is_new)
        if not examples or time.monotonic() - self.told > BEAT:
            self.tell_scored(f"examples scored: {text}")

    def tell_scored(self, text: str) -> None:
        """Report the number of scored examples."""
        scored, phase = self.scored, self.phase_name
        left = scored.left
        nulls = self.steps.left(self.ahead * (self.total or 0))
        left = None if left is None or nulls is None else round(left + nulls, 1)
        self.told = time.monotonic()
        self.folder.event(phase=phase, step=scored.done, total=scored.examples, left=left)
        self.report(Progress(phase, scored.done, scored.examples, text, left=left))

    def region_header(self, gain: Gain) -> dict[str, Any]:
        """Return the header of region.safetensors: the origin of the region, and its graft's gain."""
        spec = self.plan.spec
        models = {"base": self.pair.base_info, "finetuned": self.pair.finetuned_info}
        resolved, task = self.plan.resolved, self.plan.task
        return {
            "run_id": self.folder.id, "localizer": spec.localizer, "seed": spec.seed, "task": task.name,
            "data": data_record(task.name, task.labels, task.fingerprint, task.counts, spec),
            "readout": self.pair.readout_name, **{f"{name}_fingerprint": i.fingerprint for name, i in models.items()},
            **({EXPRESSION: resolved.expression} if resolved else {}),
            **({"made_of": self.plan.sources} if self.plan.sources else {}),
            **({"rest": self.pair.rest} if self.pair.rest != "base" else {}),
            **({"rescaled": True} if self.pair.rescaled else {}),
            **({"gain": gain} if gain != 1 else {}),
        }  # fmt: skip

    def record_fields(self, searched: Searched) -> dict[str, Any]:
        """Return the fields of run.json about the run's inputs and results."""
        spec, pair, session = self.plan.spec, self.pair, self.session
        fit, _ = session.end_metrics(spec, self.plan.task)
        others = {name: ends.encoded for name, ends in session.other_ends(spec, self.plan.task).items()}
        encoding = encoding_notes(others)  # the notes on the run's own examples are in the plan
        notes = (*self.plan.notes, *pair.notes, *encoding, why_not(fit.reason), *searched.notes)
        return {
            "seeds": {"localizer": spec.seed, "data": spec.data_seed},
            "versions": versions(),
            "commit": commit(),
            "device": describe(pair.device),
            "readout": pair.readout_name,
            "base": model_note(spec.base, pair.base_info),
            "finetuned": model_note(spec.finetuned, pair.finetuned_info),
            "task": self.plan.task.model_copy(update={"max_length": pair.limit(session.task(spec))}),
            "architecture": architecture_note(pair.table),
            "size": searched.size,
            "share": searched.size / pair.d,
            "sizes": tuple(searched.orders),
            "notes": tuple(dict.fromkeys(filter(None, notes))),
            **({"stopped": self.stopped, "key": f"{spec.key()}, stopped"} if self.stopped else {}),
        }

    @contextmanager
    def phase(self, name: str, text: str) -> Iterator[None]:
        """Report a phase and measure its time."""
        self.phase_name, self.told = name, time.monotonic()
        self.report(Progress(name, text=text))
        left = self.scored.left if name in SCORING else None
        self.folder.event(phase=name, left=None if left is None else round(left, 1))
        self.folder.log(text)
        begun = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - begun, 3)

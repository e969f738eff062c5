"""Compare localizers on six tasks that were not used for any choice, by three fine-tuning and three mask seeds.

    python -m benchmarks localizer [--work DIR] [--rounds 9] [--tasks cr,mpqa] [--device cpu] [--results DIR]
    python -m benchmarks localizer --device cuda --processes 24 --tf32 [--minutes 30]
    python -m benchmarks localizer --merge DIR
    python -m benchmarks localizer --development [--device cpu]
    python -m benchmarks localizer --tables

Each row of results/localizer.csv is one region, scored on every test example. Existing rows are not made again, so an
interrupted run resumes and loses only the region in progress. The rows are made in rounds, each with one fine-tuning
and one mask seed of every task, and each round in blocks of some regions of every task: an interruption at any time
leaves equal numbers of regions per task. results/localizer_predictions.parquet has the same rows with the predicted
classes, for paired intervals. Fine-tuned models are kept in the work folder, and made again if they are missing.

With --processes, fine-tuned models are shared out among processes. Each writes rows into its own folder; they are
merged at the end, or by the next start. --merge takes over the rows of another results folder and writes the tables and
pictures of docs/localizers.md; --tables only writes those. The configuration was frozen before the first row of each
method. --development makes the rows of the tasks on which the configuration was chosen, with their validation examples,
in results/localizer_development.csv; it resumes too.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skillviz.atomic import write_file
from skillviz.core.localizers.table import Localizer, Workload, localizer
from skillviz.core.size import parse_size
from skillviz.studies.cores import cores
from skillviz.tasks.project import expanded

if TYPE_CHECKING:  # imports torch
    import torch

    from skillviz.core.objective import Objective
    from skillviz.core.problem import Problem

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BASE = "${SKILLVIZ_REAL}/models/minilm-l6"
DEVELOPMENT = ("sst2_sentences", "trec", "mrpc")
TASKS = ("mpqa", "cr", "mr", "snli", "subj", "ag_news")
"""Tasks with the shortest texts first: they cost least."""
TENTH = ("mpqa", "subj")
"""Tasks that also have regions of 10%."""
EARLY = ("cr", "subj")
"""Tasks that are also fine-tuned for EARLY_STEPS only: a pair that stops early."""
PUBLISHED = ("cr", "mpqa")
"""Tasks on which the learned mask also runs its published 100 steps of 1,024 examples."""
STEPS, EARLY_STEPS = 3000, 300
SAME_MODEL = 0.002
"""The share of test examples that one model may answer differently on another device."""
TF32 = "high"
"""The name in torch for float32 matrix products that a GPU rounds to TF32."""
SIZES = ("0.01%", "0.1%", "1%")
ROUNDS = ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (2, 0), (0, 2), (1, 0), (2, 1))
"""Fine-tuning and mask seed of each round."""


@dataclass(frozen=True)
class Method:
    """A localizer with its options."""

    localizer: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_seeded(self) -> bool:
        """True if the mask seed changes its region."""
        return localizer(self.localizer).seeded


METHODS = {
    "judged": Method("stagewise-judged"),
    "judged, a quarter": Method("stagewise-judged", {"steps": 25}),
    "nested": Method("stagewise-nested"),
    "stagewise": Method("stagewise"),
    "learned": Method("learned-ranked", {"steps": 100, "batch_size": 128}),
    "learned, as published": Method("learned-ranked", {"steps": 100, "batch_size": 1024}),
    "movement": Method("movement"),
    "random": Method("random"),
}
AS_PUBLISHED, LABELS = "learned, as published", "labels"
SETTINGS = {
    "movement": METHODS["movement"],
    "judged": METHODS["judged"],
    "judged, 25 steps": METHODS["judged, a quarter"],
    "judged, region full at 60% of the steps": Method("stagewise-judged", {"grow_share": 0.6}),
    "learned, 100 steps of 128": METHODS["learned"],
    "nested, gains forgotten at each rung": METHODS["nested"],
}
"""Settings of the development that the code still has, by the names of their rows."""
LATER = {"stagewise": 1, "random": 1, AS_PUBLISHED: 2}
"""Methods whose regions are made after all rounds: first those that serve no goal, then the slowest one."""


@dataclass(frozen=True)
class Pair:
    """A fine-tuned model: its task, whether it stopped early, and its seed."""

    task: str
    is_early: bool
    seed: int

    @property
    def folder(self) -> str:
        """Its name in the work folder."""
        return f"{self.task}-{'early' if self.is_early else 'full'}-s{self.seed}"


@dataclass(frozen=True)
class Cell:
    """The key of a row: a region of a pair."""

    pair: Pair
    mask_seed: int
    size: str
    method: str

    @property
    def key(self) -> tuple[object, ...]:
        """The row's values of KEY."""
        return (*astuple(self.pair), self.mask_seed, self.size, self.method)


def sizes_of(pair: Pair) -> tuple[str, ...]:
    """Return the sizes of a pair's regions, smallest first."""
    return (*SIZES, "10%") if pair.task in TENTH and not pair.is_early else SIZES


KEY = ["task", "is_early", "finetune_seed", "mask_seed", "size", "method"]


def blocks(sizes: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return size and method of a pair's regions in a round, in blocks, the most informative first."""
    searched = ("judged", "learned", "judged, a quarter")
    return [
        [(size, "movement") for size in sizes] + [("0.1%", name) for name in searched],
        [("1%", name) for name in searched],
        [("0.01%", name) for name in searched],
        [(size, "nested") for size in sizes],
        [(size, name) for size in sizes if size not in SIZES for name in searched],
        list(product(sizes, ("stagewise", "random"))),
    ]


def plan(rounds: int = len(ROUNDS), tasks: Sequence[str] = TASKS) -> list[Cell]:
    """Return every cell, round by round and block by block, with the methods of LATER at the end."""
    cells: dict[tuple[object, ...], Cell] = {}
    for number, (finetune_seed, mask_seed) in enumerate(ROUNDS[:rounds]):
        pairs = [Pair(task, False, finetune_seed) for task in tasks]
        pairs += [Pair(task, True, finetune_seed) for task in tasks if task in EARLY and number < 3]
        for block in zip(*(blocks(sizes_of(pair)) for pair in pairs), strict=True):
            for pair, regions in zip(pairs, block, strict=True):
                for size, name in regions:
                    cell = Cell(pair, mask_seed if METHODS[name].is_seeded else 0, size, name)
                    cells.setdefault(cell.key, cell)
    for (finetune_seed, mask_seed), task, size in product(ROUNDS[: min(3, rounds)], tasks, SIZES):
        if task in PUBLISHED:
            cell = Cell(Pair(task, False, finetune_seed), mask_seed, size, AS_PUBLISHED)
            cells.setdefault(cell.key, cell)
    return sorted(cells.values(), key=lambda cell: LATER.get(cell.method, 0))


def key_of(row: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a row's values of KEY."""
    return tuple(row[name] for name in KEY)


class Stored:
    """The rows so far, each with the predicted classes of the test examples as bytes; the CSV has no predictions."""

    def __init__(self, folder: Path) -> None:
        self.path, self.table = folder / "localizer_predictions.parquet", folder / "localizer.csv"
        self.rows = pd.read_parquet(self.path).to_dict("records") if self.path.is_file() else []
        self.keys = set(map(key_of, self.rows))

    def add(self, row: dict[str, object], predicted: np.ndarray) -> None:
        """Add a row, with the predicted class of every test example [n]."""
        self.rows.append({**row, "predicted": predicted.astype(np.uint8).tobytes()})
        self.keys.add(key_of(row))
        self.write()

    def agrees(self, row: Mapping[str, object], predicted: np.ndarray) -> bool:
        """True if the stored row of this key has these classes [n], up to a share of SAME_MODEL."""
        of_key = next(one for one in self.rows if key_of(one) == key_of(row))
        return float(np.mean(np.frombuffer(of_key["predicted"], np.uint8) != predicted)) <= SAME_MODEL

    def merge(self, other: Stored) -> int:
        """Add the rows of `other` that are missing here, and return their number."""
        new = [row for row in other.rows if key_of(row) not in self.keys]
        self.rows += new
        self.keys |= other.keys
        if new:
            self.write()
        return len(new)

    def write(self) -> None:
        """Write both files, each atomically."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        frame = pd.DataFrame(self.rows)
        write_file(self.path, lambda path: frame.to_parquet(path, index=False))
        write_file(self.table, lambda path: frame.drop(columns="predicted").to_csv(path, index=False))


@dataclass(frozen=True)
class Opened:
    """A loaded pair: the localizer's problem, and the test examples."""

    problem: Problem
    test: Objective
    labels: int
    searched: dict[tuple[str, int], tuple[np.ndarray, float]] = field(default_factory=dict)
    """By method and mask seed: the order of a search that serves all sizes, and its seconds."""


def opened(pair: Pair, work: Path, base: str, device: str, *, on_validation: bool = False) -> Opened:
    """Return the pair, fine-tuned first if the work folder has no such model; `test` may be the validation examples."""
    from skillviz.models.finetune.run import finetune  # these import torch
    from skillviz.models.finetune.training_config import TrainingConfig
    from skillviz.models.pair import load_pair
    from skillviz.tasks.encode import encode
    from skillviz.tasks.registry import task as find_task
    from skillviz.tasks.splits import load

    base = expanded(base, "base")
    task, folder = find_task(ROOT / "benchmarks" / "tasks" / f"{pair.task}.yaml"), work / pair.folder
    if not folder.is_dir():
        steps = EARLY_STEPS if pair.is_early else STEPS
        config = TrainingConfig(readout="head", head="linear", steps=steps, batch_size=16, lr=0.04, seed=pair.seed)
        finetune(base, [task], config, out=folder, device=device)
    models, splits = load_pair(base, folder, task=task, device=device), load(task)
    judges = splits.validation if on_validation else splits.test
    train, test = (encode(task, f, models.tokenizer, models.readout_name) for f in (splits.train, judges))
    return Opened(models.problem(train), models.objective(test), len(task.labels))


def measured(cell: Cell, ready: Opened) -> tuple[dict[str, object], np.ndarray]:
    """Return the row of a cell, and the graft's predicted classes on the test examples [n].

    A search that serves all sizes is run once; its seconds and gradients are in the row of each size.
    """
    d, method = ready.problem.d, METHODS.get(cell.method) or SETTINGS[cell.method]
    row, options = localizer(method.localizer), localizer(method.localizer).make_options(method.options)
    size = parse_size(cell.size, d)
    target = parse_size(sizes_of(cell.pair)[-1], d) if row.nested else size
    key = (cell.method, cell.mask_seed)
    order, seconds = ready.searched.get(key) or searched(row, ready.problem, target, cell.mask_seed, options)
    if row.nested:
        ready.searched[key] = order, seconds
    cost = row.cost(options, Workload(d, ready.labels, ready.problem.train.n, 0, target))
    scores, predicted = scored(ready, order[:size])
    return {
        **dict(zip(KEY, cell.key, strict=True)), "entries": size, **scores,
        "gradients": round(cost.backward), "forward": round(cost.forward), "seconds": round(seconds, 1),
        "device": made_on(ready.problem.device),
    }, predicted  # fmt: skip


def searched(row: Localizer, problem: Problem, size: int, seed: int, options: Any) -> tuple[np.ndarray, float]:
    """Return the chosen entries, best first, and the seconds of the search."""
    begun, search = time.perf_counter(), row.search(problem, size, seed=seed, options=options)
    while True:
        try:
            next(search)
        except StopIteration as end:
            return np.asarray(end.value.order), time.perf_counter() - begun


def ends(pair: Pair, ready: Opened) -> Iterator[tuple[dict[str, object], np.ndarray]]:
    """Yield the rows of the base and of the fine-tuned model, which have no size; and the labels as predictions."""
    d = ready.problem.d
    shared = dict(zip(KEY, Cell(pair, 0, "", "").key, strict=True))
    for name, entries in (("base", 0), ("fine-tuned", d)):
        scores, predicted = scored(ready, np.arange(entries))
        yield {**shared, "method": name, "entries": entries, **scores}, predicted
    yield {**shared, "method": LABELS, "entries": 0, "n": len(ready.test.labels)}, ready.test.labels


def made_on(device: torch.device) -> str:
    """Return the device in words, with a note if its matrix products were rounded to TF32."""
    import torch  # heavy

    from skillviz.models.device import describe

    return describe(device) + (", TF32" if torch.get_float32_matmul_precision() == TF32 else "")


def scored(ready: Opened, entries: np.ndarray) -> tuple[dict[str, object], np.ndarray]:
    """Score the graft of these entries on every test example; return its scores and its predicted classes [n]."""
    import torch  # heavy, like the imports below: the tables are written without them

    from skillviz.core.metrics import ece
    from skillviz.core.scores import accuracy, nll

    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # searches may round, scores must not
    try:
        with ready.problem.at_base_afterwards():
            ready.problem.set_region(torch.as_tensor(entries, device=ready.problem.flat.device))
            logits = ready.test.logits()
    finally:
        torch.set_float32_matmul_precision(precision)
    labels = ready.test.labels
    return {
        "n": len(labels), "accuracy": round(100 * accuracy(logits, labels), 4),
        "nll": round(nll(logits, labels), 5), "ece": round(100 * ece(logits, labels), 4),
    }, logits.argmax(1)  # fmt: skip


def run(
    cells: Sequence[Cell], stored: Stored, open_pair: Callable[[Pair], Opened], say: Callable[[str], object] = print
) -> None:
    """Make the missing rows, in their order; `open_pair` returns a pair, fine-tuned if needed."""
    missing = [cell for cell in cells if cell.key not in stored.keys]
    say(f"{len(cells) - len(missing):,} of {len(cells):,} regions are there.")
    begun, ready, of = time.perf_counter(), None, None
    for number, cell in enumerate(missing, start=1):
        if cell.pair != of or ready is None:
            of, ready = cell.pair, open_pair(cell.pair)
            for row, predicted in ends(cell.pair, ready):
                if key_of(row) not in stored.keys:
                    stored.add(row, predicted)
                elif not stored.agrees(row, predicted):
                    raise ValueError(
                        f"{cell.pair.folder} answers the test differently than the model of the stored rows. "
                        "Put that model into the work folder, or collect rows in another folder with --results."
                    )
        row, predicted = measured(cell, ready)
        stored.add(row, predicted)
        left = (time.perf_counter() - begun) / number * (len(missing) - number) / 3600
        say(
            f"{len(cells) - len(missing) + number:,} of {len(cells):,}: {cell.pair.folder}, mask seed "
            f"{cell.mask_seed}, {cell.size}, {cell.method}: {row['seconds']} s; about {left:.1f} h left"
        )


def run_in_processes(
    cells: Sequence[Cell], results: Path, open_pair: Callable[[Pair], Opened], processes: int,
    minutes: float | None = None, precision: str = "highest", say: Callable[[str], object] = print,
) -> None:  # fmt: skip
    """Run the cells like `run`, with the pairs shared out among processes; after `minutes`, the rest is left for later.

    Each process writes rows into its own folder in `results`/parts. They are merged at the end or, after an
    interruption, by the next call. Raises RuntimeError if a process failed; its output has the reason.
    """
    stored, folder = Stored(results), results / "parts"
    _take_over(folder, stored)
    missing = [cell for cell in cells if cell.key not in stored.keys]
    pairs = list(dict.fromkeys(cell.pair for cell in missing))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["skillviz.models.finetune.run", "skillviz.models.pair", "transformers"])
    children = []
    for number in range(min(processes, len(pairs))):
        part = folder / str(number)
        if stored.path.is_file():  # with the rows so far, the part resumes and has its models' stored answers
            part.mkdir(parents=True)
            shutil.copy(stored.path, part)
        share = [cell for cell in missing if cell.pair in pairs[number::processes]]
        job = (share, part, open_pair, precision, max(1, cores() // processes))
        children.append(context.Process(target=_run_share, args=job))
    say(f"{len(cells) - len(missing):,} of {len(cells):,} regions are there; processes: {len(children)}.")
    ends = None if minutes is None else time.monotonic() + 60 * minutes
    for child in children:
        child.start()
    for child in children:
        child.join(None if ends is None else max(0, ends - time.monotonic()))
    failed = sum(bool(child.exitcode) for child in children)
    for child in children:
        child.kill()
        child.join()
    _take_over(folder, stored)
    left = sum(cell.key not in stored.keys for cell in cells)
    say(f"{len(cells) - left:,} of {len(cells):,} regions are there; processes that failed: {failed}.")
    if failed:
        raise RuntimeError(f"{failed} of {len(children)} processes failed.")


def develop(table: Path, open_pair: Callable[[Pair], Opened], say: Callable[[str], object] = print) -> None:
    """Make the missing rows of the development in a table; `open_pair` returns validation examples as the test.

    Each task has one fine-tuning and one mask seed. Existing rows are kept, even if other code made them.
    """
    rows = pd.read_csv(table, dtype=str, keep_default_na=False).to_dict("records") if table.is_file() else []

    def add(pair: Pair, setting: str, size: str, scores: Mapping[str, object]) -> None:
        about = {"task": pair.task, "is_early": pair.is_early, "setting": setting, "size": size, "mask_seed": 0}
        rows.append({**about, "accuracy": f"{scores['accuracy']:.2f}", "nll": f"{scores['nll']:.4f}"})
        write_file(table, lambda path: pd.DataFrame(rows).to_csv(path, index=False))
        say(f"{pair.task}, {setting} {size}: {rows[-1]['accuracy']}%")

    for pair in (Pair(task, False, 0) for task in DEVELOPMENT):
        there = {(row["setting"], row["size"]) for row in rows if row["task"] == pair.task}
        missing = [one for one in _developed() if one not in there]
        if not missing:
            continue
        ready = open_pair(pair)
        for row, _ in ends(pair, ready):
            if row["method"] != LABELS and (row["method"], "") not in there:
                add(pair, str(row["method"]), "", row)
        for setting, size in missing:
            add(pair, setting, size, measured(Cell(pair, 0, size, setting), ready)[0])


def _developed() -> list[tuple[str, str]]:
    """Return setting and size of each region of the development."""
    only = {"judged": SIZES[1:], "judged, region full at 60% of the steps": SIZES[1:]}
    return [
        (setting, size)
        for setting, method in SETTINGS.items()
        for size in (SIZES if localizer(method.localizer).nested else only.get(setting, SIZES[1:2]))
    ]


def _run_share(
    cells: Sequence[Cell], results: Path, open_pair: Callable[[Pair], Opened], precision: str, threads: int
) -> None:
    import torch

    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    run(cells, Stored(results), open_pair, partial(print, flush=True))


def _take_over(parts: Path, stored: Stored) -> None:
    for part in sorted(parts.glob("*/")):
        stored.merge(Stored(part))
    shutil.rmtree(parts, ignore_errors=True)

"""Compare localizers on six tasks that were not used for any choice, by three fine-tuning and three mask seeds.

    python -m benchmarks localizer [--work DIR] [--rounds 9] [--tasks cr,mpqa] [--device cuda] [--tf32] [--results DIR]
    python -m benchmarks localizer --merge DIR
    python -m benchmarks localizer --development [--device cpu]
    python -m benchmarks localizer --tables

Each row of results/localizer.csv is one region, scored on every test example. Existing rows are not made again, so an
interrupted run resumes and loses only the region in progress. The rows are made in rounds, each with one fine-tuning
and one mask seed of every task. results/localizer_predictions.parquet has the same rows with the predicted classes, for
paired intervals. Fine-tuned models are kept in the work folder, and made again if they are missing.

--merge takes over the rows of another results folder, for example of a process that makes other tasks, and writes the
tables of docs/localizers.md; --tables only writes those. The configuration was frozen before the first row
of each method. --development makes the rows of the tasks on which the configuration was chosen, with their validation
examples, in results/localizer_development.csv; it resumes too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from benchmarks.frame import RESULTS, ROOT, Rows, measure
from skillviz.core.localizers.table import Localizer, Workload, localizer
from skillviz.core.size import parse_size
from skillviz.tasks.project import expanded

if TYPE_CHECKING:  # imports torch
    from skillviz.core.objective import Objective
    from skillviz.core.problem import Problem

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


class Method(NamedTuple):
    """A localizer with its options."""

    localizer: str
    options: Mapping[str, Any] = {}

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


class Pair(NamedTuple):
    """A fine-tuned model: its task, whether it stopped early, and its seed."""

    task: str
    is_early: bool
    seed: int

    @property
    def folder(self) -> str:
        """Its name in the work folder."""
        return f"{self.task}-{'early' if self.is_early else 'full'}-s{self.seed}"


class Cell(NamedTuple):
    """The key of a row: a region of a pair."""

    task: str
    is_early: bool
    finetune_seed: int
    mask_seed: int
    size: str
    method: str

    @property
    def pair(self) -> Pair:
        """Its fine-tuned model."""
        return Pair(*self[:3])


KEY = list(Cell._fields)


def sizes_of(pair: Pair) -> tuple[str, ...]:
    """Return the sizes of a pair's regions, smallest first."""
    return (*SIZES, "10%") if pair.task in TENTH and not pair.is_early else SIZES


def plan(rounds: int = len(ROUNDS), tasks: Sequence[str] = TASKS) -> list[Cell]:
    """Return every cell, round by round and pair by pair, with the methods of LATER at the end."""
    cells = []
    for number, (finetune_seed, mask_seed) in enumerate(ROUNDS[:rounds]):
        pairs = [Pair(task, False, finetune_seed) for task in tasks]
        pairs += [Pair(task, True, finetune_seed) for task in tasks if task in EARLY and number < 3]
        for pair in pairs:
            is_published = pair.task in PUBLISHED and not pair.is_early and number < 3
            names = [name for name in METHODS if name != AS_PUBLISHED or is_published]
            for name, size in product(names, sizes_of(pair)):
                if name != AS_PUBLISHED or size in SIZES:
                    cells.append(Cell(*pair, mask_seed if METHODS[name].is_seeded else 0, size, name))
    return sorted(dict.fromkeys(cells), key=lambda cell: LATER.get(cell.method, 0))


def rows_in(folder: Path) -> Rows:
    """Return a folder's rows, each with the predicted classes of the test examples as bytes."""
    return Rows(folder / "localizer.csv", KEY, folder / "localizer_predictions.parquet")


@dataclass(frozen=True)
class Opened:
    """A loaded pair: the localizer's problem, and the test examples."""

    problem: Problem
    test: Objective
    labels: int
    device: str
    searched: dict[tuple[str, int], tuple[np.ndarray, float]] = field(default_factory=dict)
    """By method and mask seed: the order of a search that serves all sizes, and its seconds."""


def opened(pair: Pair, work: Path, base: str, device: str, *, on_validation: bool = False) -> Opened:
    """Return the pair, fine-tuned first if the work folder has no such model; `test` may be the validation examples."""
    import torch  # heavy, like the imports below: the tables are written without them

    from skillviz.models.device import describe
    from skillviz.models.finetune.run import finetune
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
    made_on = describe(models.device) + (", TF32" if torch.get_float32_matmul_precision() == TF32 else "")
    return Opened(models.problem(train), models.objective(test), len(task.labels), made_on)


def measured(cell: Cell, ready: Opened) -> list[dict[str, object]]:
    """Return the row of a cell, with the graft's predicted classes on the test examples.

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
    return [{
        **cell._asdict(), "entries": size, **scored(ready, order[:size]),
        "gradients": round(cost.backward), "forward": round(cost.forward), "seconds": round(seconds, 1),
        "device": ready.device,
    }]  # fmt: skip


def searched(row: Localizer, problem: Problem, size: int, seed: int, options: Any) -> tuple[np.ndarray, float]:
    """Return the chosen entries, best first, and the seconds of the search."""
    begun, search = time.perf_counter(), row.search(problem, size, seed=seed, options=options)
    while True:
        try:
            next(search)
        except StopIteration as end:
            return np.asarray(end.value.order), time.perf_counter() - begun


def ends(pair: Pair, ready: Opened) -> Iterator[dict[str, object]]:
    """Yield the rows of the base and of the fine-tuned model, which have no size; and the labels as predictions."""
    for name, entries in (("base", 0), ("fine-tuned", ready.problem.d)):
        yield {**Cell(*pair, 0, "", name)._asdict(), "entries": entries, **scored(ready, np.arange(entries))}
    labels = ready.test.labels
    yield {**Cell(*pair, 0, "", LABELS)._asdict(), "entries": 0, "n": len(labels), "predicted": as_bytes(labels)}


def as_bytes(classes: np.ndarray) -> bytes:
    """Return the classes [n] as they are stored."""
    return classes.astype(np.uint8).tobytes()


def scored(ready: Opened, entries: np.ndarray) -> dict[str, object]:
    """Score the graft of these entries on every test example; return its scores and its predicted classes."""
    found, logits = scores_of(ready.problem, ready.test, entries)
    digits = {"n": None, "accuracy": 4, "nll": 5, "ece": 4}
    return {name: round(found[name], of) for name, of in digits.items()} | {"predicted": as_bytes(logits.argmax(1))}


def scores_of(problem: Problem, judge: Objective, entries: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """Return n, accuracy and ECE in percent, NLL, and the logits of the graft of these entries on other examples."""
    import torch  # heavy, like the imports below: the tables are written without them

    from skillviz.core.metrics import ece
    from skillviz.core.scores import accuracy, nll

    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # searches may round, scores must not
    try:
        with problem.at_base_afterwards():
            problem.set_region(torch.as_tensor(entries, device=problem.flat.device))
            logits = judge.logits()
    finally:
        torch.set_float32_matmul_precision(precision)
    of = logits, judge.labels
    return {"n": len(of[1]), "accuracy": 100 * accuracy(*of), "nll": nll(*of), "ece": 100 * ece(*of)}, logits


def run(cells: Sequence[Cell], rows: Rows, open_pair: Callable[[Pair], Opened]) -> None:
    """Make the missing rows, in their order; `open_pair` returns a pair, fine-tuned if needed."""
    ready: dict[Pair, Opened] = {}

    def made(cell: Cell) -> list[dict[str, object]]:
        if cell.pair not in ready:
            ready.clear()  # one model at a time
            ready[cell.pair] = open_pair(cell.pair)
            check(cell.pair, ready[cell.pair], rows)
        return measured(cell, ready[cell.pair])

    measure(rows, ((cell._asdict(), partial(made, cell)) for cell in cells))


def check(pair: Pair, ready: Opened, rows: Rows) -> None:
    """Add the rows of both ends of a pair; raises ValueError if the stored ones are of another model."""
    stored = {rows.key_of(row): np.frombuffer(row["predicted"], np.uint8) for row in rows.rows}
    for row in ends(pair, ready):
        before = stored.get(rows.key_of(row))
        if before is None:
            rows.add(row)
        elif np.mean(before != np.frombuffer(row["predicted"], np.uint8)) > SAME_MODEL:  # type: ignore[call-overload]
            raise ValueError(
                f"{pair.folder} answers the test differently than the model of the stored rows. "
                "Put that model into the work folder, or collect rows in another folder with --results."
            )


def develop(table: Path, open_pair: Callable[[Pair], Opened]) -> None:
    """Make the missing rows of the development in a table; `open_pair` returns validation examples as the test.

    Each task has one fine-tuning and one mask seed. Existing rows are kept, even if other code made them.
    """
    rows = Rows(table, ["task", "setting", "size"])
    for pair in (Pair(task, False, 0) for task in DEVELOPMENT):
        cells = [cell for cell in _developed(pair) if not rows.has(cell._asdict() | {"setting": cell.method})]
        ready = open_pair(pair) if cells else None
        for cell in cells:
            assert ready is not None
            is_end = cell.size == ""
            every = ends(pair, ready) if is_end else measured(cell, ready)
            found: Mapping[str, Any] = next(row for row in every if row["method"] == cell.method)
            rows.add({"task": pair.task, "is_early": False, "setting": cell.method, "size": cell.size, "mask_seed": 0,
                      "accuracy": f"{found['accuracy']:.2f}", "nll": f"{found['nll']:.4f}"})  # fmt: skip


def _developed(pair: Pair) -> list[Cell]:
    """Return both ends of a pair and each region of the development."""
    sizes: dict[str, tuple[str, ...]] = {"base": ("",), "fine-tuned": ("",)}
    for name, method in SETTINGS.items():
        is_judged = name in ("judged", "judged, region full at 60% of the steps")
        sizes[name] = SIZES if localizer(method.localizer).nested else SIZES[1:] if is_judged else SIZES[1:2]
    return [Cell(*pair, 0, size, name) for name, each in sizes.items() for size in each]


def main(
    work: Annotated[Path, typer.Option(help="Folder of the fine-tuned models. Missing ones are made.")] = Path(
        "models/localizer"
    ),
    rounds: Annotated[int, typer.Option(min=1, max=len(ROUNDS), help="How many rounds of seeds to run.")] = 9,
    tasks: Annotated[str, typer.Option(help="Tasks, separated by commas.")] = ",".join(TASKS),
    base: Annotated[str, typer.Option(help="The base model.")] = BASE,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    results: Annotated[
        Path, typer.Option(help="Folder of the rows. With another folder, docs/localizers.md does not change.")
    ] = RESULTS,
    tf32: Annotated[bool, typer.Option("--tf32", help="Let a GPU round matrix products, but not of scores.")] = False,
    merge: Annotated[Path | None, typer.Option(help="Only add the rows of this folder of results.")] = None,
    development: Annotated[
        bool, typer.Option("--development", help="Only the tasks that the configuration was chosen on, by validation.")
    ] = False,
    tables: Annotated[bool, typer.Option("--tables", help="Only rewrite the tables.")] = False,
) -> None:
    """Compare localizers on six tasks not used for any choice, and write docs/localizers.md's tables."""
    from benchmarks import localizer_report  # it imports this module

    names, rows = tuple(name.strip() for name in tasks.split(",")), rows_in(results)
    if unknown := [name for name in names if name not in TASKS]:
        raise typer.BadParameter(f"'{unknown[0]}' is not a task here. Choose from {', '.join(TASKS)}.")
    open_pair = partial(opened, work=work, base=base, device=device)
    if merge:
        rows.add(*(row for row in rows_in(merge).rows if not rows.has(row)))
    elif development:
        develop(results / "localizer_development.csv", partial(open_pair, on_validation=True))
    elif not tables:
        import torch  # heavy

        torch.set_float32_matmul_precision(TF32 if tf32 else "highest")
        run(plan(rounds, names), rows, open_pair)
    if results == RESULTS:
        localizer_report.write(rows)

"""Measure skillviz's cost relative to the least possible cost, and to the published loop.

    python -m benchmarks speed [--short] [--only SECTION] [--results FOLDER] [--tables]

Every row is a ratio of two things that take turns in one process, so that a busy machine slows both. A turn gives one
ratio; a row is their median and quartiles. On a CPU seconds are processor seconds of one thread, on a GPU clock
seconds. Each section is a file of its own in results/speed/, on a GPU in results/speed-gpu/, and a table in README.md.
Models have random weights: the arithmetic is the same as with trained ones.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForSequenceClassification

from benchmarks.frame import README, RESULTS, fill, machine
from skillviz.core.encoded import Encoded
from skillviz.core.flat import FlatModel
from skillviz.core.formats import markdown_table
from skillviz.core.interpolate import PATHS, alphas
from skillviz.core.localizers.linearized import candidates_of, rows_of
from skillviz.core.localizers.record import Search
from skillviz.core.localizers.stagewise import Judge
from skillviz.core.localizers.table import DEFAULT_LOCALIZER, LOCALIZERS, SCORED_EXAMPLES, Workload, localizer
from skillviz.core.objective import Objective
from skillviz.core.parameters import graftable
from skillviz.core.problem import Problem
from skillviz.core.ranking import top
from skillviz.core.recordings import Recordings
from skillviz.core.region import Region
from skillviz.models.device import pick
from skillviz.models.pair import ModelPair
from skillviz.models.predict import predict
from skillviz.runs.wise import grid_logits
from tests.reference.published_loop import BATCH, STEPS, ReferenceLoop

STORED = {"cpu": RESULTS / "speed", "cuda": RESULTS / "speed-gpu"}
TITLES = {"cpu": "### On a CPU", "cuda": "### On a GPU"}
Work = Mapping[str, Callable[[], object]]
"""Pieces of work by name; each call is timed."""
SIZE_SHARE = 0.001
STEP_TARGET, FLOOR_TARGET, SWEEP_TARGET = 1.10, 1.10, 1.10
TIMES_FASTER = {"cpu": 25.0, "cuda": 20.0}
JUDGED_MASKS = STEPS // 10 + 1  # the masks that `learned` scores: the first, and every tenth
ONE_BY_ONE = ("fisher", "linearized")
"""Localizers that take gradients example by example."""
SINGLE = 64  # examples of their step
SIZES, WEIGHTS = 11, 21
# Lengths of SST-2 sentences in WordPiece tokens, as quantiles: 0, 5, ..., 100%.
LENGTHS = (4, 8, 10, 12, 13, 15, 16, 18, 19, 21, 22, 24, 25, 27, 29, 31, 33, 36, 39, 44, 64)


@dataclass(frozen=True)
class Row:
    """One ratio: median and quartiles of its turns; `least` is true if a larger one is better."""

    what: str
    median: float
    low: float
    high: float
    turns: int
    target: float | None = None
    least: bool = False

    @classmethod
    def of(cls, what: str, ratios: np.ndarray, target: float | None = None, least: bool = False) -> Row:
        """Return the row of one ratio per turn."""
        low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75]).round(4).tolist()
        return cls(what, median, low, high, len(ratios), target, least)

    @property
    def verdict(self) -> str:
        """`met` or `missed`, with the target; empty if there is no target."""
        if self.target is None:
            return ""
        met = self.median >= self.target if self.least else self.median <= self.target
        return f"{'at least' if self.least else 'at most'} {self.target:g}: {'met' if met else 'missed'}"


@dataclass(frozen=True)
class Section:
    """Rows that were measured together, with a note on the method; `seconds` are medians of the timed pieces."""

    title: str
    note: str
    rows: list[Row]
    seconds: dict[str, float] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The line below the tables: the note, and the machine."""
        at = self.machine
        where = at["device"] if at["device"] != "CPU" else f"{at['cpu']}, one of {at['cores']} cores"
        return f"- {self.title}: {self.note} {where}, torch {at['torch']}, load {at['load']} at the start."


@dataclass(frozen=True)
class Shape:
    """A model of random weights: its family, its configuration, and its title."""

    family: str
    title: str
    sizes: Mapping[str, int]


SHAPES = {
    "encoder-6": Shape(
        "bert", "BERT of 6 layers, width 384 (MiniLM-L6)",
        {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    ),
    "encoder-12": Shape(
        "bert", "BERT of 12 layers, width 384 (MiniLM-L12)",
        {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 1536},
    ),
    "gpt2-6": Shape("gpt2", "GPT-2 of 6 layers, width 384", {"n_embd": 384, "n_layer": 6, "n_head": 12}),
    "gpt2-12": Shape("gpt2", "GPT-2 of 12 layers, width 768 (small)", {"n_embd": 768, "n_layer": 12, "n_head": 12}),
    "encoder-2": Shape(
        "bert", "BERT of 2 layers, width 384",
        {"hidden_size": 384, "num_hidden_layers": 2, "num_attention_heads": 12, "intermediate_size": 1536},
    ),
    "tiny": Shape(
        "bert", "BERT of 2 layers, width 64",
        {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128,
         "vocab_size": 2000},
    ),
}  # fmt: skip


# Models and examples.


def sentences(n: int, vocabulary: int, seed: int = 0) -> Encoded:
    """Return n examples of random tokens with the lengths of real sentences."""
    rng = np.random.default_rng(seed)
    lengths = np.interp(rng.random(n), np.linspace(0, 1, len(LENGTHS)), LENGTHS).round().astype(int)
    rows = [rng.integers(1000, vocabulary, size=k).astype(np.int64) for k in lengths]
    return Encoded([str(i) for i in range(n)], rows, rng.integers(2, size=n).astype(np.int64), 2)


@dataclass(frozen=True)
class Subject:
    """A pair of a shape for measurements: random weights with a head of two classes, and a small random movement."""

    shape: str
    device: str
    pair: ModelPair
    train: Encoded
    validation: Encoded
    test: Encoded

    @classmethod
    def of(cls, name: str, device: str) -> Subject:
        """Return the pair of a shape in SHAPES."""
        shape, info = SHAPES[name], None
        torch.manual_seed(0)
        config = AutoConfig.for_model(shape.family, num_labels=2, pad_token_id=0, **shape.sizes)
        model = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32).to(device)
        shapes = {key: tuple(p.shape) for key, p in model.named_parameters()}
        flat = FlatModel(model, graftable(shape.family, shapes, config.to_dict()))
        base = flat.theta.clone()
        tuned = base + 1e-3 * torch.randn(len(base), generator=torch.Generator().manual_seed(0)).to(device)
        at: Any = torch.device(device)
        pair = ModelPair(flat, base, tuned, flat.table, None, "head", info, info, {}, (), at)  # type: ignore[arg-type]
        return cls(name, device, pair, *(sentences(n, config.vocab_size, i) for i, n in enumerate((2048, 872, 1024))))

    @property
    def title(self) -> str:
        """The model in words."""
        return f"{SHAPES[self.shape].title}, random weights"

    def problem(self, train: Encoded, selection: Encoded | None = None) -> Problem:
        """Return a localizer's problem with these examples; all problems of a subject share one model."""
        return self.pair.problem(train, selection)

    def plain(self, theta: Tensor | None = None) -> nn.Module:
        """Return a copy of the model without skillviz, at the base or at these values [d]."""
        flat = self.pair.flat
        flat.theta.copy_(self.pair.base if theta is None else theta)
        model = copy.deepcopy(flat.model)
        flat.theta.copy_(self.pair.base)
        for name, parameter in model.named_parameters():
            parameter.grad = None
            parameter.requires_grad_(name in set(self.pair.table.names))
        return model.eval()


# Timing.


def now() -> float:
    """Return seconds so far: processor time of all threads, or clock time on a GPU."""
    if this_device() == "cuda":
        torch.cuda.synchronize()
        return perf_counter()
    return process_time()


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    begun = now()
    work()
    return now() - begun


def in_turns(work: Work, turns: int) -> dict[str, np.ndarray]:
    """Return the seconds [turn] of each piece of work; each turn begins with another piece."""
    taken: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(turns):
        for name in [*list(work)[turn % len(work) :], *list(work)[: turn % len(work)]]:
            taken[name].append(seconds_of(work[name]))
        print(
            f"turn {turn + 1} of {turns}: " + ", ".join(f"{name} {taken[name][-1]:.2f} s" for name in work), flush=True
        )
    return {name: np.array(values) for name, values in taken.items()}


def medians(taken: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the median seconds of each piece of work."""
    return {name: round(float(np.median(values)), 3) for name, values in taken.items()}


def bare_pass(objective: Objective, plain: nn.Module) -> Callable[[], None]:
    """A function for forward and backward of the plain model on a step's micro-batches, as in a training loop."""
    batches = list(objective.batches.micro(np.arange(objective.n)))

    def run() -> None:
        plain.zero_grad()
        for batch in batches:
            logits = plain(**batch.inputs).logits
            (cross_entropy(logits, batch.labels, reduction="sum") / objective.n).backward()

    return run


def bare_forward(objective: Objective, plain: nn.Module, rows: np.ndarray | None = None) -> Callable[[], None]:
    """Return a function for the forward pass of the plain model on the micro-batches of these rows."""
    batches = list(objective.batches.micro(np.arange(objective.n) if rows is None else rows))

    @torch.no_grad()
    def run() -> None:
        for batch in batches:
            plain(**batch.inputs)

    return run


def bare_singles(objective: Objective, plain: nn.Module, rows: np.ndarray) -> Iterator[None]:
    """Run forward and backward of the plain model example by example; each `next` runs `SINGLE` of the rows."""
    batches = [objective.batches.batch(rows[i : i + 1]) for i in range(len(rows))]
    for start in range(0, len(rows) - SINGLE + 1, SINGLE):
        for batch in batches[start : start + SINGLE]:
            plain.zero_grad()
            logits = plain(**batch.inputs).logits[0]
            (logits[1] - logits[0]).backward()
        yield


# The cost of a step.


def start(name: str, problem: Problem, **given: Any) -> Search:
    """Return a search that does not end by itself, on all examples at every step."""
    row = localizer(name)
    known = {option.name for option in row.shown_options}
    asked = {"steps": 10_000, "batch_size": problem.train.n, "examples": problem.train.n, "selection": "none"} | given
    if name.startswith("stagewise-"):
        del asked["examples"]
    options = row.make_options({key: value for key, value in asked.items() if key in known})
    return row.search(problem, round(SIZE_SHARE * problem.d), seed=0, options=options)


def exhausted(name: str, problem: Problem) -> None:
    """Run a whole search."""
    for _ in start(name, problem):
        pass


def with_gradients() -> tuple[str, ...]:
    """Return the localizers whose search takes gradients, the default and the published one first."""
    work = Workload(d=10**7, labels=2, train=1000, validation=1000, size=10_000)
    names = [name for name, row in LOCALIZERS.items() if row.cost(row.make_options({}), work).backward]
    return tuple(dict.fromkeys((DEFAULT_LOCALIZER, "learned", *names)))


def steps(shape: str, batch: int, turns: int, device: str, at_once: int = 20) -> Section:
    """Return each localizer's step over the passes that its gradient needs; `at_once` of them hold their vectors
    together.

    A step of `fisher` and `linearized` is 64 examples one at a time, and so are its bare passes; a step of
    `first-order` is its whole search. Choosing the candidates is not part of a step, and neither is scoring, which
    needs no gradient.
    """
    of = Subject.of(shape, device)
    plain = of.plain()
    everything = next(n for n in range(batch, 2 * batch + 1) if n - min(SCORED_EXAMPLES, n // 4) >= batch)
    held = of.problem(of.train.take(np.arange(everything)))
    problem = of.problem(of.train.take(Judge(held, SCORED_EXAMPLES, 0).others))
    singles = of.problem(of.train.take(np.arange(SINGLE * (turns + 1)) % len(of.train)))
    names, rows, seconds = with_gradients(), list[Row](), dict[str, float]()
    note = (
        f"{of.title}; d = {of.pair.d:,}, {problem.train.n} sentences a step, regions of {SIZE_SHARE:.1%}. The bare "
        f"passes are forward and backward of the same micro-batches; those of {' and '.join(ONE_BY_ONE)}, which need a "
        f"gradient for each sentence, of {SINGLE} sentences one at a time."
    )
    for first in range(0, len(names), at_once):
        work: dict[str, Callable[[], object]] = {"bare": bare_pass(problem.train, plain)}
        for name in names[first : first + at_once]:
            if name in ONE_BY_ONE:
                work[f"bare, {name}"] = partial(next, bare_singles(singles.train, plain, _rows_of(name, singles)), None)
                work[name] = partial(next, start(name, singles, jacobian_gib=8.0), None)
            elif name == "first-order":
                work[name] = partial(exhausted, name, problem)
            else:
                work[name] = partial(next, start(name, held if name.startswith("stagewise-") else problem))
        for call in work.values():
            call()  # the first step also chooses candidates and fits rates
        taken = in_turns(work, turns)
        for name in names[first : first + at_once]:
            bare = taken[f"bare, {name}" if name in ONE_BY_ONE else "bare"]
            rows.append(Row.of(f"step of {name} / bare forward and backward", taken[name] / bare, STEP_TARGET))
        seconds |= medians(taken)
    return Section(f"Steps: {SHAPES[shape].title}", note, rows, seconds)


def _rows_of(name: str, problem: Problem) -> np.ndarray:
    """Return the examples that a search uses one by one, in its order."""
    if name == "fisher":
        return np.arange(problem.train.n)
    options = localizer(name).make_options({"examples": problem.train.n, "jacobian_gib": 8.0})
    return rows_of(problem, len(candidates_of(problem, round(SIZE_SHARE * problem.d), options)), options, 0)


# Beside the published loop.


def against_reference(shape: str, batch: int, turns: int, device: str, length: int = 128) -> Section:
    """Return the published loop over ours, from the seconds of single steps.

    The loop has 100 steps, `learned` has 100 steps and 11 scored masks, and the default its own 50 steps of 128
    examples.
    """
    of = Subject.of(shape, device)
    problem = of.problem(of.train.take(np.arange(batch)), of.validation)
    quick = of.problem(of.train.take(np.arange(min(128, batch))))
    loop = ReferenceLoop(
        of.plain(), of.plain(of.pair.finetuned), of.pair.table.names, of.train, of.validation,
        batch_size=batch, length=length,
    )  # fmt: skip
    plain, region = of.plain(), top(problem.tau.abs(), round(SIZE_SHARE * of.pair.d))
    judged = [(o, np.arange(min(o.n, SCORED_EXAMPLES))) for o in (problem.train, problem.selection) if o is not None]
    forwards = [bare_forward(objective, plain, rows) for objective, rows in judged]

    def judge() -> None:
        problem.set_region(region)
        for objective, rows in judged:
            objective.accuracy(rows)

    default = localizer(DEFAULT_LOCALIZER).make_options({})
    work: dict[str, Callable[[], object]] = {
        "reference step": loop.step,
        "learned step": partial(next, start("learned", problem)),
        "scored mask": judge,
        "default step": partial(next, start(DEFAULT_LOCALIZER, quick)),
        "bare pass": bare_pass(problem.train, plain),
        "bare forward": lambda: [forward() for forward in forwards],
    }
    work["learned step"]()
    before = max(0.0, seconds_of(work["default step"]) - seconds_of(work["default step"]))  # choosing the candidates
    taken = in_turns(work, turns)
    published = STEPS * taken["reference step"]
    ours = STEPS * taken["learned step"] + JUDGED_MASKS * taken["scored mask"]
    floor = STEPS * taken["bare pass"] + JUDGED_MASKS * taken["bare forward"]
    whole, times = default.steps * taken["default step"] + before, TIMES_FASTER[device]
    rows = [
        Row.of(f"published loop / {DEFAULT_LOCALIZER} at its defaults", published / whole, times, True),
        Row.of("published loop / learned, same steps and batch", published / ours),
        Row.of("learned as published / the bare passes it needs", ours / floor, FLOOR_TARGET),
    ]
    note = (
        f"{of.title}. The loop: {STEPS} steps of {batch:,} padded to {length} tokens, each rounded mask scored on "
        f"{min(batch, len(of.train)):,} training and {len(of.validation):,} validation examples. {DEFAULT_LOCALIZER}: "
        f"{default.steps} steps of {quick.train.n}, and what comes before the first. All from the seconds of single "
        "steps."
    )
    return Section(f"Beside the published loop: {batch:,} examples a step", note, rows, medians(taken))


# Sweeps.


def sweeps(shape: str, examples: int, turns: int, device: str) -> Section:
    """Return the time of eleven sizes, and of twenty-one mixing weights, over as many forwards of the plain model."""
    of = Subject.of(shape, device)
    pair, test = of.pair, of.test.take(np.arange(min(examples, len(of.test))))
    order = top(of.problem(test).tau.abs(), pair.d // 10).cpu().numpy()
    sizes = np.geomspace(max(2, pair.d // 100_000), len(order), SIZES).astype(int)
    region = Region.from_flat(order[: round(SIZE_SHARE * pair.d)], pair.table.shapes)

    def every_size() -> None:
        for size in sizes:
            predict(pair, test, "grafted", Region.from_flat(order[:size], pair.table.shapes))

    def every_weight(of_region: Region) -> None:
        for _ in grid_logits(pair, test, {of_region.size: of_region}, alphas(WEIGHTS), paths=PATHS[1:]):
            pass

    of_weights = f"{WEIGHTS} mixing weights"
    of_upper = f"{of_weights}, region in the upper half of the layers"
    work: dict[str, Callable[[], object]] = {
        "bare forward": bare_forward(pair.objective(test), of.plain()),
        f"{SIZES} sizes": every_size,
        of_weights: partial(every_weight, region),
        of_upper: partial(every_weight, upper_half(order, pair)),
    }
    work["bare forward"]()
    taken = in_turns(work, turns)
    forwards = {f"{SIZES} sizes": SIZES, of_weights: WEIGHTS, of_upper: WEIGHTS}
    rows = [
        Row.of(f"{name} / {count} forwards", taken[name] / (count * taken["bare forward"]), SWEEP_TARGET)
        for name, count in forwards.items()
    ]
    note = f"{of.title}, {len(test)} test sentences; sizes {sizes[0]:,} to {sizes[-1]:,} of {pair.d:,}."
    return Section("Sweeps", note, rows, medians(taken))


def upper_half(order: np.ndarray, pair: ModelPair) -> Region:
    """Return a region of the usual size: the first entries of an order that are in the upper half of the layers."""
    table = pair.table
    tensors = np.searchsorted(table.offsets, order, side="right") - 1
    is_upper = np.array([(p.layer or 0) >= table.layers // 2 for p in table.parameters])[tensors]
    return Region.from_flat(order[is_upper][: round(SIZE_SHARE * pair.d)], table.shapes)


# Recorded passes.

DRAWS = 8
RECORDED = "CUDA graphs"


def recorded_passes(shape: str, sizes: Sequence[int], turns: int, device: str) -> Section:
    """Return the passes of searches as CUDA graphs over eager ones, and the time of recording; without a GPU no rows.

    A turn is DRAWS batches of other sentences, so that shapes differ as in a search.
    """
    of, rows, seconds = Subject.of(shape, device), list[Row](), dict[str, float]()
    for size in sizes if device == "cuda" else ():
        plain, problem = of.problem(of.train), of.problem(of.train)
        problem.train.recordings = Recordings(problem.flat, problem.train.batches)
        draws = list(islice(plain.draws(size, 0), DRAWS))
        work = {
            "eager": partial(_passes, plain, draws), RECORDED: partial(_passes, problem, draws),
            **_default_steps(of, draws[0]),
        }  # fmt: skip
        work["eager"]()
        once = seconds_of(work[RECORDED])
        taken = in_turns(work, turns)
        rows += [
            Row.of(f"{RECORDED}: pass of {size} sentences / eager", taken[RECORDED] / taken["eager"]),
            Row.of(f"{RECORDED}: what is done once / eager pass of {size}", DRAWS * once / taken["eager"]),
            Row.of(
                f"{RECORDED}: step of {DEFAULT_LOCALIZER}, {size} sentences / eager",
                taken[f"{RECORDED}, {DEFAULT_LOCALIZER}"] / taken[DEFAULT_LOCALIZER],
            ),
        ]
        seconds |= {f"{name}, {size}": value for name, value in medians(taken).items()}
        seconds[f"once: {RECORDED}, {size}"] = round(once, 2)
    note = f"{of.title}; {DRAWS} batches of other sentences in turn. What is done once: recording each shape."
    return Section("Steps as CUDA graphs", note, rows, seconds)


def _passes(problem: Problem, draws: Sequence[np.ndarray]) -> None:
    for rows in draws:
        problem.train.backward(rows)


def _default_steps(of: Subject, rows: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return a step of the default localizer, and one whose passes are recorded."""
    plain, recorded = of.problem(of.train.take(rows)), of.problem(of.train.take(rows))
    recorded.train.recordings = Recordings(recorded.flat, recorded.train.batches)
    work = {
        name: partial(next, start(DEFAULT_LOCALIZER, problem), None)
        for name, problem in ((DEFAULT_LOCALIZER, plain), (f"{RECORDED}, {DEFAULT_LOCALIZER}", recorded))
    }
    for step in work.values():
        step()  # chooses the candidates, and records
    return work


# All sections.

SECTIONS: dict[str, Callable[..., Section]] = {
    "steps-encoder-6": partial(steps, "encoder-6", 128, 5),
    "steps-encoder-12": partial(steps, "encoder-12", 128, 5),
    "steps-gpt2-6": partial(steps, "gpt2-6", 128, 5),
    "steps-gpt2-12": partial(steps, "gpt2-12", 128, 5, at_once=3),
    "reference-1024": partial(against_reference, "encoder-6", BATCH, 3),
    "reference-128": partial(against_reference, "encoder-6", 128, 5),
    "sweeps": partial(sweeps, "encoder-6", 64, 5),
    "recorded": partial(recorded_passes, "encoder-6", (16, 32, 128), 5),
}
SHORT: dict[str, Callable[..., Section]] = {
    "steps-tiny": partial(steps, "tiny", 32, 5),
    "reference-tiny": partial(against_reference, "tiny", 32, 5, length=64),
    "sweeps": partial(sweeps, "tiny", 64, 5),
}


def this_device() -> str:
    """Return the type of device on which this machine measures."""
    return pick("auto").type


def stored(results: Path) -> list[Section]:
    """Return the measured sections of a folder, in the order of SECTIONS and SHORT."""
    files = [results / f"{name}.json" for name in dict.fromkeys((*SECTIONS, *SHORT))]
    found = [json.loads(file.read_text()) for file in files if file.is_file()]
    return [Section(**one | {"rows": [Row(**row) for row in one["rows"]]}) for one in found]


def table(sections: Sequence[Section]) -> list[str]:
    """Return all sections as one Markdown table, with a line about each."""
    rows = []
    for section in sections:
        rows.append((f"**{section.title}**", "", "", "", ""))
        for row in section.rows:
            middle, low, high = (f"{of:.1f}" if of >= 10 else f"{of:.3f}" for of in (row.median, row.low, row.high))
            rows.append((row.what, middle, f"{low}–{high}", str(row.turns), row.verdict))
    head = ("measured", "ratio", "quartiles", "turns", "target")
    return [*markdown_table(head, rows), "", *(section.line for section in sections)]


def tables(results: Mapping[str, Path] = STORED) -> list[str]:
    """Return the table of every device that has results."""
    found = {TITLES[device]: stored(folder) for device, folder in results.items()}
    lines = [line for title, sections in found.items() if sections for line in ("", title, "", *table(sections))]
    return lines[1:]


def main(
    short: Annotated[bool, typer.Option("--short", help="A tiny model: under a minute.")] = False,
    only: Annotated[list[str] | None, typer.Option(metavar="SECTION", help=f"{', '.join(SECTIONS)}.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Folder of the results. Without it, the long form writes benchmarks/README.md.")
    ] = None,
    tables_only: Annotated[bool, typer.Option("--tables", help="Only rewrite the table.")] = False,
) -> None:
    """Measure steps, searches and sweeps over the least they could take, and beside the published loop."""
    device, sections = this_device(), SHORT if short else SECTIONS
    if unknown := [name for name in only or () if name not in sections]:
        raise typer.BadParameter(f"'{unknown[0]}' is not a section. Choose {', '.join(sections)}.")
    torch.set_num_threads(1)
    with TemporaryDirectory(prefix="skillviz-speed-") as passing:
        folder = results or (Path(passing) if short else STORED[device])
        folder.mkdir(parents=True, exist_ok=True)
        name_of_device = torch.cuda.get_device_name() if device == "cuda" else "CPU"
        for name in () if tables_only else only or sections:
            at = machine() | {"threads": 1, "torch": torch.__version__, "device": name_of_device}
            found = replace(sections[name](device=device), machine=at)
            (folder / f"{name}.json").write_text(json.dumps(asdict(found), indent=1) + "\n")
        print("\n".join(table(stored(folder))))
    if folder == STORED[device]:
        fill(README, {"speed": tables()}, "python -m benchmarks speed")

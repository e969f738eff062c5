"""How long a run will take and how much memory it needs, from headers, row counts and finished runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from statistics import median

from skillviz.core.formats import byte_size, counted, rough_seconds
from skillviz.core.localizers.table import Cost, Workload, localizer, rest_of
from skillviz.core.size import parse_size
from skillviz.errors import BadInput
from skillviz.models.preflight import Preflight, preflight
from skillviz.runs.points import grid_sizes
from skillviz.runs.record import RunRecord
from skillviz.runs.spec import RunSpec
from skillviz.tasks import registry
from skillviz.tasks.published_rows import PUBLISHED_ROWS, published_counts
from skillviz.tasks.splits import load, load_test
from skillviz.tasks.task import Task

# MiniLM-L6 (d = 10.6 million) on two idle cores, SST-2: 134 examples a second forward, 47 forward and backward
MEASURED_D, TOKENS = 10_646_784, 25.0
FORWARD, BACKWARD = {"cpu": 134.0, "cuda": 5000.0}, {"cpu": 47.0, "cuda": 1700.0}
LEAST_SECONDS = {"cpu": 2e-4, "cuda": 5e-5}  # seconds an example takes however small the model
BEGIN = {"cpu": 6.0, "cuda": 12.0}  # seconds until a process has torch, and its device
A_STEP = 4e-9  # seconds a step takes for each graftable entry: ten passes over the vectors
PROCESS = 5e8  # bytes of a process that has torch
MICRO_TOKENS = {"cpu": 512, "cuda": 32_768}
INTERVALS = 0.7  # seconds of the intervals of one data set's scores
CALIBRATED = ("search", "evaluate")
OTHERS = "others"  # rows of the other tasks' test sets, among the counts
GRID = 10  # points of a WiSE path beside the common base
Heard = Callable[[int, str], None]
"""Called with each number of examples that went through the model, and what they were scored for."""


@dataclass(frozen=True)
class Facts:
    """What is known of a run from headers and data: `d` graftable of `parameters`, rows by split in `counts`,
    mean `tokens` an example, the `sizes` in entries. `device` is cpu or cuda."""

    d: int
    parameters: int
    width: int
    layers: int
    labels: int
    counts: Mapping[str, int]
    sizes: tuple[int, ...]
    device: str = "cpu"
    tokens: float = TOKENS


@dataclass(frozen=True)
class Estimate:
    """Seconds by phase and bytes at the most; `runs` finished ones were taken as the measure."""

    phases: Mapping[str, float]
    bytes: int
    runs: int = 0

    @property
    def seconds(self) -> float:
        """Seconds in all."""
        return sum(self.phases.values())

    def words(self) -> str:
        """As told to a person: rough numbers."""
        how = (
            f"based on {counted(self.runs, 'earlier run')}"
            if self.runs
            else "rough: nothing measured on this machine yet"
        )
        return f"about {rough_seconds(self.seconds)} and {byte_size(self.bytes)} of memory ({how})"


def estimate(spec: RunSpec, facts: Facts, finished: Sequence[RunRecord] = ()) -> Estimate:
    """What a run will take. Finished runs on the same kind of device, of the same base where there are any,
    correct the times measured elsewhere."""
    known = [r for r in finished if r.architecture and r.task and (r.device or "").startswith(facts.device)]
    same = [r for r in known if r.spec.base == spec.base] or known
    ratios = [ratio for record in same if (ratio := _ratio(record, facts)) is not None]
    factor = median(ratios) if ratios else 1.0
    phases = {name: seconds * factor for name, seconds in _phases(spec, facts).items()}
    phases["load"] = BEGIN[facts.device] + facts.parameters * 8 / 5e8
    return Estimate(phases, int(peak_bytes(spec, facts)), len(ratios))


def facts_of(spec: RunSpec, device: str = "cpu", check: Preflight | None = None) -> Facts:
    """The facts of a spec, without weights; raises SkillvizError where the pair, the task or a size is wrong.

    `found` is what is known of the pair already, as where the fine-tuned model has yet to be made.
    """
    task = registry.task(spec.task)
    if check is None:
        check = preflight(spec.base, spec.finetuned, task, spec.readout)
        check.raise_first()
    caps = {"max_train": spec.max_train, "max_validation": spec.max_validation, "max_test": spec.max_test}
    splits = load(task, k_shot=spec.k_shot, seed=spec.data_seed, **caps)
    frames = {"train": splits.train, "validation": splits.validation, "test": splits.test}
    words = splits.train["text_a"].head(200).map(lambda text: len(str(text).split())).mean()
    both = 2 if "text_b" in splits.train.columns else 1
    counts = {name: len(frame) for name, frame in frames.items() if len(frame)}
    if spec.others:
        counts[OTHERS] = sum(len(load_test(registry.task(name), max_test=spec.max_test)[0]) for name in spec.others)
    return _facts(spec, task, check, counts, both * words, device)


def published_facts(spec: RunSpec, device: str, check: Preflight) -> Facts | None:
    """The facts of a spec whose tasks are all of the registry, told without their data; None for other tasks."""
    if any(name not in PUBLISHED_ROWS for name in (spec.task, *spec.others)):
        return None
    task, others = registry.task(spec.task), [registry.task(name) for name in spec.others]
    counts = published_counts(task, spec.k_shot, spec.max_train, spec.max_validation, spec.max_test)
    if others:
        counts[OTHERS] = sum(published_counts(other, max_test=spec.max_test)["test"] for other in others)
    return _facts(spec, task, check, counts, PUBLISHED_ROWS[task.name].words, device)


def _facts(spec: RunSpec, task: Task, check: Preflight, counts: Mapping[str, int], words: float, device: str) -> Facts:
    config, d = check.base.config, check.d or 1
    width = int(config.get("hidden_size") or config.get("n_embd") or config.get("dim") or 512)
    whole = sum(prod(shape) for shape in check.base.shapes.values())
    sizes, tokens = tuple(parse_size(size, d) for size in spec.sizes), float(min(1.3 * words + 4, task.max_length))
    return Facts(d, max(whole, d), width, check.layers or 1, len(task.labels), counts, sizes, device, tokens)


def _phases(spec: RunSpec, facts: Facts) -> dict[str, float]:
    """Seconds by phase, as on the machine of the constants."""
    evaluated = facts.counts.get("validation", 0) + facts.counts.get("test", 0)
    cost, searches = _cost(spec, facts), 1 if localizer(spec.localizer).is_one_search else len(facts.sizes)
    each = cost.backward * example_seconds(BACKWARD, facts) + cost.forward * example_seconds(FORWARD, facts)
    forward = example_seconds(FORWARD, facts)
    return {
        "predict": 2 * evaluated * forward,
        "search": searches * (each + cost.steps * facts.d * A_STEP + cost.seconds),
        "evaluate": passes(spec, facts.counts, facts.sizes) * forward + 1 + facts.d * 5e-8,
    }


def example_seconds(speed: Mapping[str, float], facts: Facts) -> float:
    """Seconds an example takes: in proportion to the entries of the blocks and to its tokens."""
    scale = facts.d / MEASURED_D * facts.tokens / TOKENS
    return scale / speed[facts.device] + LEAST_SECONDS[facts.device]


def _cost(spec: RunSpec, facts: Facts) -> Cost:
    """What one search does; options that cannot be read are left at their defaults: other code reports them."""
    row, options = localizer(spec.localizer), {}
    for option in row.shown_options:
        common = getattr(spec, option.name) if option.name in ("steps", "batch_size") else None
        value = spec.options.get(option.name) if common is None else common
        if value is not None:
            with suppress(BadInput):
                options[option.name] = option.read(value)
    train, validation = facts.counts.get("train", 0), facts.counts.get("validation", 0)
    work = Workload(facts.d, facts.labels, train, validation, max(facts.sizes))
    return row.cost(row.options(**options), work)


def peak_bytes(spec: RunSpec, facts: Facts) -> float:
    """Weights of both members, the vectors of the search, the activations of a micro-batch."""
    narrow = 2 if spec.dtype == "bfloat16" else 4
    cost = _cost(spec, facts)
    weights = narrow * (2 * facts.parameters + 3 * facts.d)
    activations = MICRO_TOKENS[facts.device] * 150 * facts.width * facts.layers
    return PROCESS + weights + 4 * facts.d * (2 + cost.vectors) + cost.bytes + activations


def _ratio(record: RunRecord, facts: Facts) -> float | None:
    """How much longer a finished run took than the constants say; None where it cannot be told."""
    assert record.architecture and record.task
    others = sum(transfer.scores.n for transfer in record.transfers)
    spent = sum(record.seconds.get(name, 0.0) for name in CALIBRATED)
    its = Facts(
        record.architecture.d, record.architecture.d, facts.width, record.architecture.layers,
        len(record.task.labels), {**record.task.counts, OTHERS: others}, record.sizes or (1,), facts.device,
        facts.tokens,
    )  # fmt: skip
    expected = sum(_phases(record.spec, its)[name] for name in CALIBRATED)
    return spent / expected if spent > 0 and expected > 0 else None


def passes(spec: RunSpec, counts: Mapping[str, int], sizes: Sequence[int]) -> int:
    """Examples that the scoring of the grafts passes through the model, each as often as it does so.

    Two states of each size (of the main one alone where the rest is zero) on validation and test, all four on the
    other tasks, and with the WiSE grid its points on every test set: the base once, and ten for WiSE-FT and each size.
    """
    test, others = counts.get("test", 0), counts.get(OTHERS, 0)
    grid = 1 + GRID * (1 + len(grid_sizes(sizes))) if spec.interpolation and test else 0
    states = 2 * len(sizes) if rest_of(spec.localizer) == "base" else 1 + len(sizes)
    return states * (counts.get("validation", 0) + test) + 4 * others + grid * (test + others)


@dataclass
class Passed:
    """How many of `total` examples are through; `each` are the seconds of one as far as they were known before."""

    total: int
    each: float | None = None
    done: int = 0
    begun: float | None = None

    def begin(self) -> None:
        """The scoring begins now."""
        self.begun = time.perf_counter()

    def add(self, examples: int) -> None:
        """So many more are through."""
        self.done = min(self.total, self.done + examples)

    @property
    def left(self) -> float | None:
        """Seconds until all are through, at the speed of those before; None where nobody can tell."""
        each = self.each
        if self.done and self.begun is not None:
            each = (time.perf_counter() - self.begun) / self.done
        return None if each is None else round(each * (self.total - self.done), 1)

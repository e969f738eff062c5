"""How long a run will take and how much memory it needs, from headers, row counts and finished runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import log, prod
from statistics import median

from skillviz.core.formats import byte_size, counted, rough_seconds, rough_span
from skillviz.core.localizers.table import GROUP_SHARE, LEAN_CANDIDATES, LOCALIZERS, Cost, Workload, localizer, rest_of
from skillviz.core.size import parse_size
from skillviz.errors import BadInput
from skillviz.models.checkpoint import own_dtype
from skillviz.models.preflight import Preflight, preflight
from skillviz.runs.points import grid_sizes
from skillviz.runs.record import RunRecord
from skillviz.runs.spec import RunSpec
from skillviz.tasks import registry
from skillviz.tasks.published_rows import PUBLISHED_ROWS, published_counts
from skillviz.tasks.splits import load, load_test
from skillviz.tasks.task import CHOICE, CLASSIFICATION, GENERATION, USUAL_LENGTH, Task

# MiniLM-L6 (d = 10.6 million) on two idle cores, SST-2: 134 examples a second forward, 47 forward and backward
MEASURED_D, TOKENS = 10_646_784, 25.0
FORWARD, BACKWARD = {"cpu": 134.0, "cuda": 5000.0}, {"cpu": 47.0, "cuda": 1700.0}
LEAST_SECONDS = {"cpu": 2e-4, "cuda": 5e-5}  # seconds an example takes however small the model
BEGIN = {"cpu": 6.0, "cuda": 12.0}  # seconds until a process has torch, and its device
A_STEP = 4e-9  # seconds a step takes for each graftable entry: ten passes over the vectors
PROCESS = 5e8  # bytes of a process that has torch
MICRO_TOKENS = {"cpu": 512, "cuda": 32_768}
INTERVALS = 0.7  # seconds of the intervals of one data set's scores
RESAMPLED = 7e-5  # seconds of an example's part in the intervals of one model: 0.27 s of 4,000 examples, one thread
AS_FAST = ("dtype", "autocast", "cuda_graphs")  # runs that agree in these measure one another, where there are any
A_TOKEN = 2.0  # how much longer a generated token takes than one of a text that is passed whole
ENCODED = 4e-6  # seconds of a token until it is a number
AGAIN = 1.35  # a backward pass that computes activations again, over one that keeps them
A_READ = 3e-9  # seconds an entry takes to be read from its file and looked at
A_CANDIDATE = 64.0  # bytes of numbers that a search in lean mode keeps of each candidate, with what ranking them takes
LEAN_TOKENS = 4096  # tokens of a micro-batch of lean mode at the most
LEAN_PARTS = 4e7  # bytes of the parts that are read at a time, and of one tensor's gradient
RANKING = 20.0  # bytes an entry takes while all d are ranked on a CPU
A_PARAMETER = 2.4e-8  # seconds of hashing and checking one
MEASURES = 40  # earlier runs at the most that are taken as the measure: the nearest, of those the newest
TELLS = 0.5  # seconds that a phase must take, or be expected to, for its time to say how fast the machine is
NEVER = 1e9  # seconds that no run takes, whatever a damaged record says
APART = 1.5  # how much more one run must have scored than another for the two to tell fixed from passing time
SPREADS = {"same": 1.5, "other": 2.0, "none": 3.0}
"""The least factor between the estimate and both ends of its range, by what it rests on: runs of the same base, of
others, nothing."""
OTHERS = "others"  # rows of the other tasks' test sets, among the counts
GRID = 10  # points of a WiSE path beside the common base
Heard = Callable[[int, str], None]
"""Called with each number of examples that went through the model, and what they were scored for."""


@dataclass(frozen=True)
class Facts:
    """What is known of a run from headers and data: `d` graftable of `parameters`, rows by split in `counts`,
    mean `tokens` a sequence and `sequences` an example (its options or, read causally, a label each), the `sizes` in
    entries.
    `device` is cpu or cuda, `own` the dtype of the files, and `new_tokens` how many are generated for an example at
    the most."""

    d: int
    parameters: int
    width: int
    layers: int
    labels: int
    counts: Mapping[str, int]
    sizes: tuple[int, ...]
    device: str = "cpu"
    tokens: float = TOKENS
    own: str = "float32"
    sequences: float = 1.0
    new_tokens: int = 0


@dataclass(frozen=True)
class Estimate:
    """Seconds by phase and bytes at the most; `runs` finished ones were taken as the measure.

    `spread` is the factor between `seconds` and both ends of the range; `is_same_base` where those runs are of this
    base.
    """

    phases: Mapping[str, float]
    bytes: int
    runs: int = 0
    spread: float = SPREADS["none"]
    is_same_base: bool = False

    @property
    def seconds(self) -> float:
        """Seconds in all."""
        return sum(self.phases.values())

    @property
    def range(self) -> tuple[float, float]:
        """The least and the most seconds that are likely."""
        return self.seconds / self.spread, self.seconds * self.spread

    @property
    def basis(self) -> str:
        """What the numbers rest on."""
        if not self.runs:
            return "rough: nothing measured on this machine yet"
        return f"based on {counted(self.runs, 'earlier run')} of {'this base' if self.is_same_base else 'other models'}"

    def words(self) -> str:
        """As told to a person: rough numbers."""
        time = f"about {rough_seconds(self.seconds)} ({rough_span(*self.range)})"
        return f"{time} and {byte_size(self.bytes)} of memory ({self.basis})"


def estimate(spec: RunSpec, facts: Facts, finished: Sequence[RunRecord] = ()) -> Estimate:
    """What a run will take. Finished runs on the same kind of device, the nearest ones there are, correct the times
    measured elsewhere: the search and the scoring each by its own."""
    known = [r for r in finished if r.spec.localizer in LOCALIZERS]  # others came from a skillviz that has more
    known = [r for r in known if r.architecture and r.task and (r.device or "").startswith(facts.device)]
    known = [r for r in known if all(getattr(r.spec, n) == getattr(spec, n) for n in AS_FAST)] or known
    phases = _phases(spec, facts)
    residuals = list[float]()
    search, scoring = (_measured(spec, facts, known, phase) for phase in ("search", "evaluate"))
    if measured := search or scoring:
        ratio = median(spent / expected for expected, spent, _ in measured)
        phases["search"] *= ratio
        residuals += [spent / expected / ratio for expected, spent, _ in measured]
    if scoring:
        fixed, each = _line([(expected, spent) for expected, spent, _ in scoring])
        phases["predict"] *= each
        phases["evaluate"] = fixed + each * phases["evaluate"]
        residuals += [spent / (fixed + each * expected) for expected, spent, _ in scoring]
    phases["load"] = BEGIN[facts.device] + facts.parameters * (8 / 5e8 + A_PARAMETER)
    phases["load"] += sum(facts.counts.values()) * facts.sequences * facts.tokens * ENCODED
    used = {record.run_id: record for _, _, record in (*search, *scoring)}
    is_same = bool(used) and all(record.spec.base == spec.base for record in used.values())
    least = SPREADS["none" if not used else "same" if is_same else "other"]
    spread = min(max(least, _most(residuals)), SPREADS["none"])
    return Estimate(phases, int(peak_bytes(spec, facts)), len(used), spread, is_same)


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
    counts = {name: len(frame) for name, frame in frames.items() if len(frame)}
    if spec.others:
        counts[OTHERS] = sum(len(load_test(registry.task(name), max_test=spec.max_test)[0]) for name in spec.others)
    return _facts(spec, task, check, counts, splits.words, device, splits.options)


def published_facts(spec: RunSpec, device: str, check: Preflight) -> Facts | None:
    """The facts of a spec whose tasks are all of the registry, told without their data; None for other tasks."""
    if any(name not in PUBLISHED_ROWS for name in (spec.task, *spec.others)):
        return None
    task, others = registry.task(spec.task), [registry.task(name) for name in spec.others]
    counts = published_counts(task, spec.k_shot, spec.max_train, spec.max_validation, spec.max_test)
    if others:
        counts[OTHERS] = sum(published_counts(other, max_test=spec.max_test)["test"] for other in others)
    return _facts(spec, task, check, counts, PUBLISHED_ROWS[task.name].words, device)


def _facts(
    spec: RunSpec, task: Task, check: Preflight, counts: Mapping[str, int], words: float, device: str,
    options: float = 1.0,
) -> Facts:  # fmt: skip
    config, d = check.base.config, check.d or 1
    width = int(config.get("hidden_size") or config.get("n_embd") or config.get("dim") or 512)
    whole = sum(prod(shape) for shape in check.base.shapes.values())
    sizes, tokens = (
        tuple(parse_size(size, d) for size in spec.sizes),
        float(_tokens(words, task.limit(check.readout) or USUAL_LENGTH)),
    )
    own, layers = own_dtype(check.base, check.finetuned), check.layers or 1
    labels = 1 if task.kind == GENERATION else len(task.labels)
    new_tokens = task.max_new_tokens if task.generates else 0
    sequences = _sequences(task.kind, check.readout, labels, options)
    return Facts(
        d, max(whole, d), width, layers, labels, counts, sizes, device, tokens, own, sequences, new_tokens
    )  # fmt: skip


def _sequences(kind: str, readout: str | None, labels: int, options: float) -> float:
    """Sequences that an example is for the model: its options, or as the causal readout reads classes one a label."""
    return options if kind != CLASSIFICATION or readout != "causal" else float(labels)


def _phases(spec: RunSpec, facts: Facts) -> dict[str, float]:
    """Seconds by phase, as on the machine of the constants."""
    evaluated = facts.counts.get("validation", 0) + facts.counts.get("test", 0)
    cost, searches = _cost(spec, facts), 1 if localizer(spec.localizer).is_one_search else len(facts.sizes)
    each = cost.backward * example_seconds(BACKWARD, facts) + cost.forward * example_seconds(FORWARD, facts)
    scored = example_seconds(FORWARD, facts) * decoding_passes(facts) + RESAMPLED
    whole = cost.steps * facts.d * A_STEP
    streamed = 0.0
    if spec.lean:
        each *= AGAIN * (len(groups(spec, facts)) if spec.localizer == "first-order" else 1)
        whole = cost.steps * candidates(spec, facts) * 10 * A_STEP
        streamed = facts.d * A_READ
    return {
        "predict": 2 * evaluated * scored + 4 * streamed,
        "search": searches * (each + whole + cost.seconds + 5 * streamed),
        "evaluate": passes(spec, facts.counts, facts.sizes) * scored + 8 * streamed,
    }


def candidates(spec: RunSpec, facts: Facts) -> float:
    """Entries that a search in lean mode keeps numbers of."""
    row, size = localizer(spec.localizer), max(facts.sizes)
    if (option := row.option("candidate_share")) is None:
        return size
    share = spec.options.get(option.name, LEAN_CANDIDATES)
    with suppress(BadInput):
        return max(float(option.read(share)) * facts.d, min(2 * size, facts.d))
    return facts.d


def groups(spec: RunSpec, facts: Facts) -> range:
    """The groups of tensors that lean mode takes the gradients of all entries in, one pass each."""
    return range(max(1, round(4 * facts.d / (GROUP_SHARE * width_of(spec, facts) * facts.parameters))))


def width_of(spec: RunSpec, facts: Facts) -> int:
    """Bytes of a weight in memory."""
    return 2 if (facts.own if spec.dtype == "own" else spec.dtype) == "bfloat16" else 4


def example_seconds(speed: Mapping[str, float], facts: Facts) -> float:
    """Seconds an example takes: in proportion to the entries of the blocks, to its sequences and to their tokens."""
    scale = facts.d / MEASURED_D * facts.tokens / TOKENS
    return facts.sequences * (scale / speed[facts.device] + LEAST_SECONDS[facts.device])


def decoding_passes(facts: Facts) -> float:
    """Whole passes that scoring an example takes: the reference's, and where texts are generated the prompt's and that
    of each new token."""
    return 2 + A_TOKEN * facts.new_tokens / facts.tokens if facts.new_tokens else 1


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
    """Weights of both members, the vectors of the search, the activations of a micro-batch.

    In lean mode: the model's own bytes, numbers of the candidates, the parts being read, activations of one block.
    """
    narrow, cost = width_of(spec, facts), _cost(spec, facts)
    tokens = min(MICRO_TOKENS[facts.device], facts.tokens * facts.sequences * max(facts.counts.values(), default=1))
    if spec.lean:
        tokens = min(tokens, LEAN_TOKENS)
        kept = A_CANDIDATE * candidates(spec, facts)
        if spec.localizer == "first-order":
            kept += GROUP_SHARE * narrow * facts.parameters
        elif spec.localizer == "random":
            kept += (4 if facts.d < 2**32 else 8) * facts.d
        activations = tokens * facts.width * (narrow * facts.layers + 150)
        return PROCESS + narrow * facts.parameters + kept + LEAN_PARTS + activations
    at_rest = narrow * (facts.parameters + 2 * facts.d) + 4 * facts.d
    loading = 2 * narrow * (facts.parameters + facts.d)
    ranking = RANKING * facts.d if facts.device == "cpu" else 8 * facts.d
    vectors = max(ranking, 4 * facts.d * (1 + cost.vectors))
    return PROCESS + max(loading, at_rest + vectors + cost.bytes) + tokens * 150 * facts.width * facts.layers


def _measured(
    spec: RunSpec, facts: Facts, records: Sequence[RunRecord], phase: str
) -> list[tuple[float, float, RunRecord]]:
    """What the constants say of a phase of the nearest finished runs, what it took, and the run; the nearest first.

    Near is of the same base, localizer and task, then of the same base and localizer, then of the same base. A phase
    so short that its fixed part hides the machine's speed says nothing.
    """
    rows = []
    for record in records:
        its = facts_of_record(record, facts)
        expected, spent = _phases(record.spec, its)[phase], record.seconds.get(phase, 0.0)
        if TELLS <= max(expected, spent) < NEVER and min(expected, spent) > 0:
            rows.append((expected, spent, record))
    is_near = {
        "base": lambda its: its.base == spec.base,
        "localizer": lambda its: phase != "search" or its.localizer == spec.localizer,
        "task": lambda its: its.task == spec.task,
    }
    for wanted in (("base", "localizer", "task"), ("base", "localizer"), ("base",), ()):
        near = [row for row in rows if all(is_near[name](row[2].spec) for name in wanted)]
        if near:
            return near[:MEASURES]
    return []


def facts_of_record(record: RunRecord, facts: Facts) -> Facts:
    """The facts of a finished run; its width and the number of its parameters are not needed for its time."""
    assert record.architecture and record.task
    task, others = record.task, sum(transfer.scores.n for transfer in record.transfers)
    published = PUBLISHED_ROWS.get(task.name)
    words = task.words or (published.words if published else 0.0)
    labels = 1 if task.has_reference else len(task.labels)
    options = 1 / task.guessing("test") if task.kind == CHOICE else 1.0  # by chance one in so many is right
    return Facts(
        record.architecture.d, record.architecture.d, facts.width, record.architecture.layers, labels,
        {**task.counts, OTHERS: others}, record.sizes or (1,), facts.device, _tokens(words) if words else facts.tokens,
        sequences=_sequences(task.kind, record.readout, labels, options),
        new_tokens=facts.new_tokens if task.generates else 0,
    )  # fmt: skip


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Fixed seconds and factor that take what was expected of each run to what was spent on it.

    Of two, that which is nearer to half of the runs: all in proportion, or the line by the median of the slopes
    between runs of which one was to take `APART` times as long as the other.
    """
    candidates = [(0.0, median(spent / expected for expected, spent in points))]
    slopes = [
        (spent - other_spent) / (expected - other)
        for expected, spent in points
        for other, other_spent in points
        if expected > APART * other
    ]
    if slopes and (each := median(slopes)) > 0:
        candidates.append((max(0.0, median(spent - each * expected for expected, spent in points)), each))
    return min(candidates, key=lambda line: median(abs(log(s / (line[0] + line[1] * e))) for e, s in points))


def _most(residuals: Sequence[float]) -> float:
    """The factor by which nine of ten runs differed from what the others say of them, or less; 1 without any."""
    factors = sorted(max(one, 1 / one) for one in residuals)
    return factors[int(0.9 * (len(factors) - 1))] if factors else 1.0


def _tokens(words: float, longest: float = float("inf")) -> float:
    """Tokens of an example of so many words, as far as words tell."""
    return min(1.3 * words + 4, longest)


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

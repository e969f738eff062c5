"""Estimate the time and memory of a run from headers and row counts alone.

Before a run starts, the time is only an order of magnitude, because machines and their other work differ. While it
runs, runs/pace.py measures it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

from skillviz.core.formats import byte_size, order_of_magnitude
from skillviz.core.localizers.table import GROUP_SHARE, LEAN_CANDIDATES, Cost, Workload, localizer
from skillviz.core.size import parse_size
from skillviz.errors import BadInput
from skillviz.models.checkpoint import own_dtype
from skillviz.models.preflight import Preflight, preflight
from skillviz.runs.pace import OTHERS, OUTSIDE, passes
from skillviz.runs.spec import RunSpec
from skillviz.tasks import registry
from skillviz.tasks.published_rows import PUBLISHED_ROWS, published_counts
from skillviz.tasks.source import out_of_scope
from skillviz.tasks.splits import load, load_test
from skillviz.tasks.task import CLASSIFICATION, GENERATION, USUAL_LENGTH, Task

TOKENS = 25.0  # tokens of a sequence of unknown length
RATE = {"cpu": 2e10, "cuda": 1e12}
"""Graftable entries times tokens of a forward pass per second.

With MiniLM, two idle cores reached 3.5e10 and busy ones 1.5e10.
"""
BACKWARD = 3.0  # the time of a forward and backward pass, in forward passes
A_PASS = {"cpu": 2e-4, "cuda": 5e-5}  # seconds of overhead per pass, for a model of any size
BEGIN = {"cpu": 10.0, "cuda": 15.0}  # seconds until a process has loaded torch, the models and the data
A_TOKEN = 2.0  # the time of a generated token, relative to a token in a text processed as a whole
AGAIN = 1.35  # the time of a backward pass that recomputes activations, relative to one that keeps them

# Peaks of whole processes were measured on a CPU (tests/cases/test_memory_announced.py).
PROCESS = 5.1e8  # bytes of a process with torch, transformers and a task loaded
A_ROW, A_ROW_TOKEN = 500.0, 30.0  # bytes of an example, and of each of its tokens, as text, as ids and padded
MICRO_TOKENS = {"cpu": 512, "cuda": 32_768}
ACTIVATIONS = 100.0  # bytes per token, layer and unit of width in a forward and backward pass in float32
PADDED = 1.5  # tokens of a padded batch, relative to its texts' own
LEAN_TOKENS = 4096  # maximum tokens of a micro-batch in lean mode
LEAN_PARTS = 4e7  # bytes of the parts that are read at a time, and of one tensor's gradient
A_CANDIDATE = 64.0  # bytes that a search in lean mode keeps per candidate, including the ranking
RANKING = 16.0  # bytes per entry while the gradients of all d entries are ranked on a CPU
MOVES_OUTSIDE = 0.2  # share of the graftable parameters; more outside the blocks means that an embedding moved
RESAMPLED, MOST_RESAMPLED = 1.6e4, 1.3e8  # bytes of the resamples per example, and their maximum per data set
KEPT = 65_536 * 4.0  # bytes per unit of width of the activations that the WiSE grid keeps (core/prefix.py)


@dataclass(frozen=True)
class Facts:
    """The facts about a run from headers and data, without weights.

    `d` of `parameters` are graftable; `counts` are the rows by split; `tokens` is the mean length of a sequence.
    `sequences` is the number per example: one per option, or one per label for the causal readout. `sizes` are in
    entries, `device` is cpu or cuda, `own` is the dtype of the files, and `new_tokens` is the maximum number of
    generated tokens per example.
    """

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
    """Seconds at an assumed speed (only an order of magnitude), and bytes of the process at its peak."""

    seconds: float
    bytes: int

    @property
    def time(self) -> str:
        """The order of magnitude of the time."""
        return order_of_magnitude(self.seconds)

    def words(self) -> str:
        """Return `minutes (an order of magnitude; measured once it runs) and 1.2 GiB of memory`."""
        return f"{self.time} (an order of magnitude; measured once it runs) and {byte_size(self.bytes)} of memory"


def estimate(spec: RunSpec, facts: Facts) -> Estimate:
    """Return the time and memory of a run before any measurement."""
    evaluated = facts.counts.get("validation", 0) + facts.counts.get("test", 0)
    scored = (2 + len(spec.null_searches)) * evaluated + passes(spec, facts.counts, facts.sizes)
    seconds = BEGIN[facts.device] + search_seconds(spec, facts)
    seconds += scored * example_seconds(facts) * decoding_passes(facts)
    return Estimate(seconds, int(peak_bytes(spec, facts)))


def search_seconds(spec: RunSpec, facts: Facts) -> float:
    """Return the seconds of all searches of a run at the assumed speed, including those on null movements."""
    cost, searches = _cost(spec, facts), 1 if localizer(spec.localizer).is_one_search else len(facts.sizes)
    each = (BACKWARD * cost.backward + cost.forward) * example_seconds(facts)
    if spec.lean:
        each *= AGAIN * (len(groups(spec, facts)) if spec.localizer == "first-order" else 1)
    return (searches + len(spec.null_searches)) * each


def example_seconds(facts: Facts) -> float:
    """Return the seconds of a forward pass of one example at the assumed speed."""
    return facts.sequences * (facts.d * facts.tokens / RATE[facts.device] + A_PASS[facts.device])


def facts_of(spec: RunSpec, device: str = "cpu", check: Preflight | None = None) -> Facts:
    """Return the facts of a spec without reading weights; raises SkillvizError for a wrong pair, task or size.

    `check` is the pair's preflight if it is known, or that of the base alone if the fine-tuned model is still to be
    made.
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
    if (outside := out_of_scope(task)) is not None:
        counts[OUTSIDE] = min(len(outside), spec.max_test or len(outside))
    return facts_from(spec, task, check, counts, splits.words, device, splits.options)


def published_facts(spec: RunSpec, device: str, check: Preflight) -> Facts | None:
    """Return the facts of a spec whose tasks are all published ones, without their data; None for other tasks."""
    if any(name not in PUBLISHED_ROWS for name in (spec.task, *spec.others)):
        return None
    task, others = registry.task(spec.task), [registry.task(name) for name in spec.others]
    counts = published_counts(task, spec.k_shot, spec.max_train, spec.max_validation, spec.max_test)
    if others:
        counts[OTHERS] = sum(published_counts(other, max_test=spec.max_test)["test"] for other in others)
    return facts_from(spec, task, check, counts, PUBLISHED_ROWS[task.name].words, device)


def facts_from(
    spec: RunSpec, task: Task, check: Preflight, counts: Mapping[str, int], words: float, device: str,
    options: float = 1.0,
) -> Facts:  # fmt: skip
    """Return the facts of a spec from a checked pair and known numbers of the data: rows, and words per example."""
    config, d = check.base.config, check.d or 1
    width = int(config.get("hidden_size") or config.get("n_embd") or config.get("dim") or 512)
    whole = sum(prod(shape) for shape in check.base.shapes.values())
    sizes = tuple(parse_size(size, d) for size in spec.sizes)
    tokens = float(_tokens(words, task.limit(check.readout) or USUAL_LENGTH))
    own, layers = own_dtype(check.base, check.finetuned), check.layers or 1
    labels = 1 if task.kind == GENERATION else len(task.labels)
    new_tokens = task.max_new_tokens if task.generates else 0
    sequences = _sequences(task.kind, check.readout, labels, options)
    return Facts(
        d, max(whole, d), width, layers, labels, counts, sizes, device, tokens, own, sequences, new_tokens
    )  # fmt: skip


def _sequences(kind: str, readout: str | None, labels: int, options: float) -> float:
    """Return the sequences per example: one per option, or per label for classes with the causal readout."""
    return options if kind != CLASSIFICATION or readout != "causal" else float(labels)


def candidates(spec: RunSpec, facts: Facts) -> float:
    """Return the number of entries for which a search in lean mode keeps numbers."""
    row, size = localizer(spec.localizer), max(facts.sizes)
    if (option := row.option("candidate_share")) is None:
        return size
    share = spec.options.get(option.name, LEAN_CANDIDATES)
    with suppress(BadInput):
        return max(float(option.read(share)) * facts.d, min(2 * size, facts.d))
    return facts.d


def groups(spec: RunSpec, facts: Facts) -> range:
    """Return the groups of tensors for the gradients of all entries in lean mode; each group takes one pass."""
    return range(max(1, round(4 * facts.d / (GROUP_SHARE * width_of(spec, facts) * facts.parameters))))


def width_of(spec: RunSpec, facts: Facts) -> int:
    """Return the bytes of a weight in memory."""
    return 2 if (facts.own if spec.dtype == "own" else spec.dtype) == "bfloat16" else 4


def decoding_passes(facts: Facts) -> float:
    """Return the forward passes for scoring an example.

    Without generation it is one. With generation: one for the reference, one for the prompt, and a share for each new
    token.
    """
    return 2 + A_TOKEN * facts.new_tokens / facts.tokens if facts.new_tokens else 1


def _options(spec: RunSpec) -> Any:
    """Return the localizer's options. Unreadable ones keep their defaults, because other code reports them."""
    row, options = localizer(spec.localizer), {}
    for option in row.shown_options:
        common = getattr(spec, option.name) if option.name in ("steps", "batch_size") else None
        value = spec.options.get(option.name) if common is None else common
        if value is not None:
            with suppress(BadInput):
                options[option.name] = option.read(value)
    return row.options(**options)


def _cost(spec: RunSpec, facts: Facts) -> Cost:
    """Return the cost of one search."""
    train, validation = facts.counts.get("train", 0), facts.counts.get("validation", 0)
    work = Workload(facts.d, facts.labels, train, validation, max(facts.sizes))
    return localizer(spec.localizer).cost(_options(spec), work)


def peak_bytes(spec: RunSpec, facts: Facts) -> float:
    """Return the bytes of the process at its peak; on a GPU, the peak of the GPU's memory plus PROCESS.

    The peak is the largest of loading, searching and scoring, including everything in memory at that time. In lean mode
    it is the model's own bytes, the candidates' numbers, the parts being read and the activations of one block.
    """
    narrow, cost, is_cpu = width_of(spec, facts), _cost(spec, facts), facts.device == "cpu"
    tokens = min(MICRO_TOKENS[facts.device], facts.tokens * facts.sequences * max(facts.counts.values(), default=1))
    rows = sum(facts.counts.values()) * (A_ROW + A_ROW_TOKEN * facts.tokens * facts.sequences)
    process = PROCESS + rows if is_cpu else PROCESS
    if spec.lean:
        tokens = min(tokens, LEAN_TOKENS)
        kept = A_CANDIDATE * candidates(spec, facts)
        if spec.localizer == "first-order":
            kept += GROUP_SHARE * narrow * facts.parameters
        elif spec.localizer == "random":
            kept += (4 if facts.d < 2**32 else 8) * facts.d
        activations = tokens * facts.width * (narrow * facts.layers + 150)
        return process + narrow * facts.parameters + kept + LEAN_PARTS + activations
    # The model, its graftable values as one vector, those of both ends, and both ends of the other tensors. On a CPU,
    # files from which tensors are mapped stay in memory: the base's, if tensors outside the blocks moved.
    outside = facts.parameters - facts.d
    files = facts.parameters if is_cpu and outside > MOVES_OUTSIDE * facts.d else outside
    rest = narrow * (facts.parameters + 3 * facts.d + outside + files)
    loading = narrow * (2 * facts.parameters + 5.25 * facts.d + outside)
    a_layer = narrow / 4 * ACTIVATIONS * facts.width
    held = 4 * cost.vectors * facts.d + cost.bytes
    if cost.backward:
        batch = min(
            getattr(_options(spec), "batch_size", 0) or facts.counts.get("train", 1), facts.counts.get("train", 1)
        )
        passed = min(tokens, PADDED * batch * facts.tokens * facts.sequences)
        held += 4 * facts.d + passed * a_layer * facts.layers + (RANKING * facts.d if is_cpu else 0.0)
    searching = rest + held
    resampled = min(RESAMPLED * max(facts.counts.get("test", 0), facts.counts.get("validation", 0)), MOST_RESAMPLED)
    grid = KEPT * facts.width if spec.interpolation else 0.0
    scoring = rest + max(resampled if is_cpu else 0.0, grid + tokens * a_layer)
    return process + max(loading, searching, scoring)


def _tokens(words: float, longest: float = float("inf")) -> float:
    """Return the tokens of an example of this many words, by a rule of thumb."""
    return min(1.3 * words + 4, longest)

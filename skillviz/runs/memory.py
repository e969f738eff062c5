"""The memory that a run needs, from headers and row counts alone, the free memory, and the refusal of a run that needs
more. Works without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import psutil

from skillviz.core.formats import byte_size
from skillviz.core.localizers.table import GROUP_SHARE, LEAN_CANDIDATES, Cost, Workload, localizer
from skillviz.core.size import parse_size
from skillviz.errors import BadInput, NotEnoughMemory
from skillviz.models.checkpoint import own_dtype
from skillviz.runs.pace import OTHERS, OUTSIDE
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.tasks.task import CLASSIFICATION, GENERATION, USUAL_LENGTH

TOKENS = 25.0  # tokens of a sequence of unknown length
CGROUP = Path("/sys/fs/cgroup")

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
    entries, `device` is cpu or cuda, `own` is the dtype of the files, and `kinds` are the module kinds.
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
    kinds: int = 1


def facts_of(spec: RunSpec, session: Session, device: str = "cpu", sizes: tuple[int, ...] = ()) -> Facts:
    """Return the facts of a spec without reading weights; raises SkillvizError for a wrong pair, task or size.

    `sizes` are those of the spec's plan; without them the spec's own are taken.
    """
    task, check, splits = session.task(spec), session.preflight(spec), session.splits(spec)
    frames = {"train": splits.train, "validation": splits.validation, "test": splits.test}
    counts = {name: len(frame) for name, frame in frames.items() if len(frame)}
    if spec.others:
        rows = [len(other.frame) for other in session.others(spec)]
        counts[OTHERS] = sum(min(count, spec.max_test or count) for count in rows)
    if (outside := session.out_of_scope(spec)) is not None:
        counts[OUTSIDE] = len(outside)
    config, d, labels = check.base.config, check.d or 1, 1 if task.kind == GENERATION else len(task.labels)
    return Facts(
        d=d,
        parameters=max(sum(prod(shape) for shape in check.base.shapes.values()), d),
        width=int(config.get("hidden_size") or config.get("n_embd") or config.get("dim") or 512),
        layers=check.layers or 1,
        labels=labels,
        counts=counts,
        sizes=sizes or tuple(parse_size(size, d) for size in spec.sizes),
        device=device,
        tokens=min(1.3 * splits.words + 4, float(task.limit(check.readout) or USUAL_LENGTH)),  # a rule of thumb
        own=own_dtype(check.base, check.finetuned),
        sequences=_sequences(task.kind, check.readout, labels, splits.options),
        kinds=1 if check.table is None else len(check.table.kinds),
    )


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


def width_of(spec: RunSpec, facts: Facts) -> int:
    """Return the bytes of a weight in memory."""
    return 2 if (facts.own if spec.dtype == "own" else spec.dtype) == "bfloat16" else 4


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


def cost_of(spec: RunSpec, facts: Facts) -> Cost:
    """Return the examples that one search passes through the model, and the memory that it holds."""
    train, validation = facts.counts.get("train", 0), facts.counts.get("validation", 0)
    work = Workload(facts.d, facts.labels, train, validation, max(facts.sizes))
    return localizer(spec.localizer).cost(_options(spec), work)


def peak_bytes(spec: RunSpec, facts: Facts) -> float:
    """Return the bytes of the process at its peak; on a GPU, the peak of the GPU's memory plus PROCESS.

    The peak is the largest of loading, searching and scoring, including everything in memory at that time. In lean mode
    it is the model's own bytes, the candidates' numbers, the parts being read and the activations of one block.
    """
    narrow, cost, is_cpu = width_of(spec, facts), cost_of(spec, facts), facts.device == "cpu"
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


def free_memory() -> int:
    """Return the bytes of main memory free for a process: of the machine, or of its container if it has less."""
    return min([psutil.virtual_memory().available, *_free_of_container()])


def total_memory() -> int:
    """Return the bytes of main memory of the machine, or of its container if it has less."""
    total = psutil.virtual_memory().total
    with suppress(OSError, ValueError):  # the file says "max" if there is no limit
        total = min(total, int((CGROUP / "memory.max").read_text()))
    return total


def _free_of_container() -> list[int]:
    """Return the bytes left below the container's limit; empty if there is no limit.

    Cached files count as free, because the system drops them when memory is needed.
    """
    with suppress(OSError, ValueError):
        limit, used = (int((CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        rows = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return [max(0, limit - used + int(rows.get("inactive_file", 0)))]
    return []


def refuse_larger(needed: float, free: int, where: str, is_lean: bool) -> None:
    """Raise NotEnoughMemory if a run needs more than `free` bytes."""
    if needed <= free:
        return
    less = "--dtype bfloat16" if is_lean else "--lean, --dtype bfloat16"
    raise NotEnoughMemory(
        f"the run needs {byte_size(needed)} of {where} and {byte_size(free)} can be used; use {less}, a smaller model, "
        "or end other programs."
    )

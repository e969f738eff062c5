"""Writes the tables of docs/demo-world.md from the demo world and its stored runs: `python docs/demo_world.py`.

Every number comes from demo_world/world.json and cached_runs; nothing is typed in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from benchmarks.between_marks import fill
from skillviz.core import formats
from skillviz.core.intervals import metric_difference, metric_interval
from skillviz.core.metrics import METRICS
from skillviz.errors import BadInput
from skillviz.runs.record import Estimate
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.tasks.demo_world import Share, World, read_world

PAGE = PROJECT / "docs" / "demo-world.md"
ECE = METRICS["ece"]


def tasks(world: World) -> list[str]:
    """A line for each task."""
    head = ("task", "family", "question", "labels", "examples (train, validation, test)", "shifted partner")
    rows = [
        [
            row.name, row.family, row.asks, ", ".join(row.labels),
            ", ".join(map(formats.count, row.examples.values())), row.partner or "",
        ]
        for row in world.tasks
    ]  # fmt: skip
    return formats.markdown_table(head, rows)


def pairs(world: World) -> list[str]:
    """A line for each pair and data set: the two models that a run lies between."""
    rows = [
        [pair.name, name, *(percent(states[state]) for state in ("pretrained", "finetuned"))]
        for pair in world.pairs
        for name, states in pair.accuracy.items()
    ]
    return formats.markdown_table(("pair", "test set of", "pre-trained, %", "fine-tuned, %"), rows)


def grafts(world: World, runs: list[Run]) -> list[str]:
    """A line for each run's main region: the share of the gain that it recovers, and its calibration."""
    head = (
        "pair", "localizer", "size", "accuracy, %", "share of the gain, %", "ECE, %", "ECE minus fine-tuned, points"
    )  # fmt: skip
    names = {(pair.finetuned, pair.base): pair.name for pair in world.pairs}
    order = list(names.values())
    rows = []
    keys = {
        run: (order.index(names[run.spec.finetuned, run.spec.base]), run.spec.localizer, run.spec.seed) for run in runs
    }
    for run in sorted(runs, key=keys.__getitem__):
        seed = "" if run.spec.seed == world.seed else f", seed {run.spec.seed}"
        scores, size = run.record.metrics["test"], run.record.size
        graft = scores.states["grafted"]
        (_, labels, logits), (_, _, tuned) = (run.logits(state) for state in ("grafted", "finetuned"))
        rows.append([
            names[run.spec.finetuned, run.spec.base], f"{run.spec.localizer}{seed}",
            f"{formats.count(size)} ({formats.share(run.record.share)})", percent(graft["accuracy"]),
            percent(scores.recovered), ECE.cell(*metric_interval(logits, labels, "ece")),
            ECE.cell(*metric_difference(logits, tuned, labels, "ece")),
        ])  # fmt: skip
    return formats.markdown_table(head, rows)


def few(world: World, runs: list[Run]) -> list[str]:
    """A line for each model of few examples: what its region of the main size does, and top movement of that size."""
    head = (
        "pair", "readout", "pre-trained, %", "fine-tuned, %", "graft minus fine-tuned, points",
        "share of the gain, %", "top movement's share, %", "ECE of fine-tuned, %", "ECE of graft, %",
        "graft minus fine-tuned, points",
    )  # fmt: skip
    rows = []
    for pair in (pair for pair in world.pairs if pair.k_shot):
        own = {run.spec.localizer: run for run in sorted(runs, key=lambda run: run.record.size or 0)  # the largest wins
               if run.spec.finetuned == pair.finetuned and run.spec.seed == world.seed}  # fmt: skip
        run, moved = own["stagewise"], own["movement"]
        (_, labels, graft), (_, _, tuned) = (run.logits(state) for state in ("grafted", "finetuned"))
        shares = (one.record.metrics["test"].recovered for one in (run, moved))
        ends = (pair.accuracy[pair.task][state] for state in ("pretrained", "finetuned"))
        rows.append([
            pair.name, pair.readout, *map(percent, ends),
            METRICS["accuracy"].cell(*metric_difference(graft, tuned, labels, "accuracy")), *map(percent, shares),
            ECE.cell(*metric_interval(tuned, labels, "ece")), ECE.cell(*metric_interval(graft, labels, "ece")),
            ECE.cell(*metric_difference(graft, tuned, labels, "ece")),
        ])  # fmt: skip
    return formats.markdown_table(head, rows)


def percent(estimate: Estimate | Share | None) -> str:
    """An estimate with its interval, in percent without the sign."""
    return formats.percent_estimate(estimate.value, estimate.low, estimate.high) if estimate else formats.MISSING


def making(world: World) -> Iterator[str]:
    """What it is made of and how long the build took."""
    threads = "one thread" if world.threads == 1 else f"{world.threads} threads"
    stages = ", ".join(f"{name} {formats.seconds(seconds)}" for name, seconds in world.seconds.items())
    sizes = ", ".join(f"{name} {formats.count(count)}" for name, count in world.parameters.items())
    yield f"Vocabulary: {formats.count(world.vocabulary)} words. Parameters: {sizes}. Seed {world.seed}."
    yield ""
    yield f"Built with {threads} in {formats.seconds(sum(world.seconds.values()))}: {stages}."


def tables(world: World, store: Store) -> dict[str, list[str]]:
    """The lines of each table by the name that its marks have."""
    runs = [run for run in store.list() if run.id in world.runs]
    parts = {"making": making(world), "tasks": tasks(world), "pairs": pairs(world), "grafts": grafts(world, runs)}
    return {name: list(lines) for name, lines in (parts | {"few": few(world, runs)}).items()}


def main(page: Path = PAGE) -> None:
    """Rewrites the tables in place."""
    world = read_world()
    if world is None:
        raise BadInput("there is no demo world. Make it with `python -m skillviz demo build`.")
    fill(page, tables(world, Store(PROJECT / "cached_runs")), "docs/demo_world.py")
    print(f"wrote {page.name}")


if __name__ == "__main__":
    main()

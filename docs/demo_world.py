"""Writes the tables of docs/demo-world.md from the demo world and its stored runs: `python docs/demo_world.py`.

Every number comes from demo_world/world.json and cached_runs; nothing is typed in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from skillviz.core import formats
from skillviz.errors import BadInput
from skillviz.runs.record import Estimate
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.tasks.demo_world import Share, World, read_world

PAGE = PROJECT / "docs" / "demo-world.md"


def tasks(world: World) -> Iterator[str]:
    """A line for each task."""
    yield "| task | family | what is asked | labels | examples (train, validation, test) | shifted partner |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in world.tasks:
        counts = ", ".join(formats.count(row.examples[split]) for split in row.examples)
        yield f"| {row.name} | {row.family} | {row.asks} | {', '.join(row.labels)} | {counts} | {row.partner or ''} |"


def pairs(world: World) -> Iterator[str]:
    """A line for each pair and data set: the two models that a run lies between."""
    yield "| pair | test set of | pre-trained, % | fine-tuned, % |"
    yield "| --- | --- | --- | --- |"
    for pair in world.pairs:
        for name, states in pair.accuracy.items():
            yield f"| {pair.name} | {name} | {share(states['pretrained'])} | {share(states['finetuned'])} |"


def grafts(world: World, runs: list[Run]) -> Iterator[str]:
    """A line for each run's main region: how much of the gain it brings back, and how sure it is."""
    yield "| pair | localizer | size | accuracy, % | share of the gain, % | ECE, % | ECE minus fine-tuned, points |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    names = {(pair.finetuned, pair.base): pair.name for pair in world.pairs}
    order = list(names.values())
    for run in sorted(runs, key=lambda r: (order.index(names[r.spec.finetuned, r.spec.base]), r.spec.localizer)):
        scores, size = run.record.metrics["test"], run.record.size
        graft = scores.states["grafted"]
        cells = [
            names[run.spec.finetuned, run.spec.base], run.spec.localizer,
            f"{formats.count(size)} ({formats.share(run.record.share)})", percent(graft["accuracy"]),
            percent(scores.recovered), percent(graft["ece"]), percent(scores.differences.get("ece")),
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def share(found: Share) -> str:
    """A share with its interval, in percent."""
    return percent(Estimate(value=found.value, low=found.low, high=found.high))


def percent(found: Estimate | None) -> str:
    """An estimate with its interval, in percent without the sign."""
    if found is None or found.value is None:
        return formats.MISSING
    return f"{formats.number(100 * found.value, 1)} ({formats.percent_interval(found.low, found.high)})"


def making(world: World) -> Iterator[str]:
    """What it is made of and how long that took."""
    threads = "one thread" if world.threads == 1 else f"{world.threads} threads"
    stages = ", ".join(f"{name} {formats.seconds(seconds)}" for name, seconds in world.seconds.items())
    sizes = ", ".join(f"{name} {formats.count(count)}" for name, count in world.parameters.items())
    yield f"Vocabulary: {formats.count(world.vocabulary)} words. Parameters: {sizes}. Seed {world.seed}."
    yield ""
    yield f"Built with {threads} in {formats.seconds(sum(world.seconds.values()))}: {stages}."


def tables(world: World, store: Store) -> dict[str, str]:
    """The tables by the name that their marks have."""
    runs = [run for run in store.list() if run.id in world.runs]
    found = {"making": making(world), "tasks": tasks(world), "pairs": pairs(world), "grafts": grafts(world, runs)}
    return {name: "\n".join(lines) for name, lines in found.items()}


def filled(page: str, found: dict[str, str]) -> str:
    """The page with each table between its marks; raises BadInput where a mark is not there."""
    for name, table in found.items():
        begin, end = f"<!-- {name}: written by docs/demo_world.py -->", f"<!-- end of {name} -->"
        before, mark, rest = page.partition(begin)
        if not mark or end not in rest:
            raise BadInput(f"docs/demo-world.md lacks the marks of '{name}': {begin} and {end}.")
        page = f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
    return page


def main() -> None:
    """Rewrites the tables in place."""
    world = read_world()
    if world is None:
        raise BadInput("there is no demo world; make it with `python -m skillviz demo build`.")
    page = filled(PAGE.read_text(encoding="utf-8"), tables(world, Store(PROJECT / "cached_runs")))
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()

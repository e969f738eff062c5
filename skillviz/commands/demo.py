"""`demo`: the small world that every page can show without a network."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands import options
from skillviz.commands.output import print_json, print_rows, progress_bar, say
from skillviz.core.formats import percent_estimate, seconds
from skillviz.core.seeds import LARGEST_SEED
from skillviz.errors import BadInput
from skillviz.tasks.project import project_root

app = typer.Typer(help="Build the demo world: corpus, tiny bases, pairs and runs.", no_args_is_help=True)


class Stage(StrEnum):
    """What can be made on its own."""

    corpus = "corpus"
    base = "base"
    pairs = "pairs"
    runs = "runs"


@app.callback()
def demo() -> None:
    """Build the demo world: corpus, tiny bases, pairs and runs."""


@app.command()
def build(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The world's folder.")] = Path("demo_world"),
    runs_dir: Annotated[Path, typer.Option("--runs-dir", metavar="DIR", help="The folder of its runs.")] = Path(
        "cached_runs"
    ),
    seed: Annotated[int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="Seed of every random draw.")] = 0,
    only: Annotated[Stage | None, typer.Option("--only", help="Rebuild only this stage.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Build the demo world from scratch. Run it again after an interruption: it continues with the unfinished stage.

    A grammar writes the texts, two small models are pre-trained on them and fine-tuned, and their skills are
    localized. On two cores this takes one to two hours; docs/demo-world.md says what it shows.
    """
    if not (project_root() / "demo_world" / "program").is_dir():
        raise BadInput(
            "`demo build` needs the program that makes the demo world, which is in a checkout of skillviz and not in "
            "the installed package. Clone the repository and run it there."
        )
    sys.path.insert(0, str(project_root()))  # the program lies beside the package, not in it
    from demo_world.program import build as engine  # imports torch

    with progress_bar("demo world") as advance:
        world = engine.build(out, runs_dir, seed=seed, only=only.value if only else None, advance=advance)
    rows = [
        [
            pair.name,
            name,
            *(percent_estimate(s.value, s.low, s.high) for s in (shares["pretrained"], shares["finetuned"])),
        ]
        for pair in world.pairs
        for name, shares in pair.accuracy.items()
    ]
    print_rows("accuracy, %", ["pair", "task", "pre-trained", "fine-tuned"], rows)
    duration = seconds(sum(world.seconds.values()))
    say(f"{len(world.tasks)} tasks, {len(world.pairs)} pairs, {len(world.runs)} runs; {duration}.")
    if as_json:
        print_json({"path": str(out), "stages": list(world.stages), "seconds": world.seconds})

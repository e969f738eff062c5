"""`python -m benchmarks NAME`: run one benchmark, or without a name list them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import typer

NAMES = (
    "speed", "memory", "live", "page-speed", "actions", "visitors", "classroom", "library", "coverage",
     "localizer", "localizer-beyond", "gain-kinds", "mask-seeds", "planted", "masked-lm", "reliability",
)  # fmt: skip
"""The benchmarks; each is the function `main` of its own module, because some import browsers and some import torch."""


def main(words: Sequence[str]) -> None:
    """Run the benchmark that the first word names with the options that follow."""
    if not words or words[0] not in NAMES:
        sys.exit(
            f"Name one of {', '.join(NAMES)}. benchmarks/README.md describes them; --help has a benchmark's options."
        )
    app = typer.Typer(add_completion=False)
    app.command()(import_module(f"benchmarks.{words[0].replace('-', '_')}").main)
    app(list(words[1:]), prog_name=f"python -m benchmarks {words[0]}")


if __name__ == "__main__":
    main(sys.argv[1:])

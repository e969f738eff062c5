"""The experiments of the paper, one module each, with the experiment's row and everything that the row needs.

Every `Experiment` in a module of this folder is found by import; a new experiment needs only a new file here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from skillviz.errors import BadInput
from skillviz.studies.paper.claims import Verdict
from skillviz.studies.paper.experiment import Experiment

if TYPE_CHECKING:
    import pandas as pd


def _rows() -> Iterator[Experiment]:
    for module in iter_modules(__path__):
        values = vars(import_module(f"{__name__}.{module.name}")).values()
        yield from (value for value in values if isinstance(value, Experiment))


def _order(row: Experiment) -> tuple[bool, bool, int]:
    """Order tables first, then figures, by number; experiments that are not in the paper are last."""
    number = row.name.lstrip("abcdefghijklmnopqrstuvwxyz_-")
    return not number, not row.name.startswith("table"), int(number or 0)


EXPERIMENTS: dict[str, Experiment] = {row.name: row for row in sorted(_rows(), key=_order)}


def experiment(name: str) -> Experiment:
    """Return the experiment of that name; raises BadInput with the known names."""
    if name not in EXPERIMENTS:
        raise BadInput(f"'{name}' is not an experiment; known: {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]


@cache
def published_verdicts(name: str) -> tuple[Verdict, ...]:
    """Return the claims of an experiment with the same comparisons of the paper's own published values."""
    return tuple(experiment(name).in_paper())


def verdicts(name: str | None, tables: Mapping[str, pd.DataFrame], scale: str | None) -> list[Verdict]:
    """Return the paper's claims, judged from a study of this experiment; empty if the paper makes none."""
    row = EXPERIMENTS.get(name or "")
    return row.verdicts(tables, scale) if row else []

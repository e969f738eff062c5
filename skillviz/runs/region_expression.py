"""A run's region expression, checked before anything is loaded, with the full id of every run in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillviz import json_text
from skillviz.core.localizers.table import EXPRESSION, LOCALIZERS, Localizer
from skillviz.core.parameters import ParameterTable
from skillviz.core.region import Region
from skillviz.core.region_expression import (
    ALGEBRA,
    RegionExpression,
    Stored,
    canonical,
    parsed,
    parts,
    region_of,
    runs_in,
)
from skillviz.errors import BadInput, BadSize
from skillviz.runs.library import Library
from skillviz.runs.run import RANKING, REGION, Run
from skillviz.runs.spec import KEY, RunSpec

EXAMPLE = """--option 'expression={"layers": [0, 1], "kinds": ["value"]}'"""


@dataclass(frozen=True)
class ResolvedExpression:
    """A checked expression with full run ids, the size of its region, and the runs whose regions it uses."""

    expression: dict[str, Any]
    size: int
    stored: Stored
    sources: tuple[dict[str, Any], ...]

    @property
    def text(self) -> str:
        """The expression as canonical JSON."""
        return canonical(self.expression)


def made_with(sources: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a sentence about each run whose region another region uses."""
    return tuple(
        f"Made with the region of run {source['run']} (sha256 {source['region_sha256'][:12]})." for source in sources
    )


def resolved_expression(options: Mapping[str, Any], table: ParameterTable, runs: Library) -> ResolvedExpression:
    """Return the region described by the option `expression` among the table's parameters.

    Raises BadInput if there is no expression, or if it cannot be read, fits another architecture or has no entry;
    RunNotFound if it names an unknown run.
    """
    if EXPRESSION not in options:
        raise BadInput(f"the localizer 'expression' needs its option 'expression', such as {EXAMPLE}.")
    expression = in_full(parsed(options[EXPRESSION]), runs)
    stored = stored_in(runs)
    size = sum(len(entries) for _, entries in parts(expression, table, stored))
    if not size:
        text = canonical(expression)
        text = text if len(text) <= 80 else text[:77] + "..."
        raise BadInput(f"{text} describes a region without entries; choose other layers, kinds or rows.")
    return ResolvedExpression(
        expression, size, stored, tuple(source_of(runs.open(run_id)) for run_id in runs_in(expression))
    )


def outside_of(
    spec: RunSpec, row: Localizer, table: ParameterTable, sizes: Sequence[int], runs: Library
) -> tuple[Region | None, tuple[dict[str, Any], ...]]:
    """Return the region that the spec's search must not use, or None, and the runs whose regions it uses.

    Raises BadInput for a localizer that does not choose by movement, BadSize if fewer entries are left than requested,
    and the errors of `resolved_expression`.
    """
    if not spec.outside:
        return None, ()
    if not row.has_null:
        names = ", ".join(name for name, other in LOCALIZERS.items() if other.has_null)
        raise BadInput(
            f"the localizer '{row.name}' does not choose entries by their movement, so it cannot be kept out of a "
            f"region; use one of {names}, or leave --outside out."
        )
    resolved = resolved_expression({EXPRESSION: spec.outside}, table, runs)
    region = region_of(resolved.expression, table, resolved.stored)
    if row.budgeted and max(sizes) > (left := region.d - region.size):
        raise BadSize(f"{max(sizes):,} entries were requested, and {left:,} are outside {resolved.text}; ask for less.")
    return region, resolved.sources


def stored_in(runs: Library) -> Stored:
    """Return a function for the region of a library's run: the main one, or the first entries of its ranking."""

    def stored(run_id: str, size: int | None) -> Region:
        run = runs.open(run_id)
        return run.region() if size is None else run.cut(size)

    return stored


def in_full(expression: RegionExpression, runs: Library) -> dict[str, Any]:
    """Return the expression with full run ids, since the beginning of an id may later match another run."""
    if "run" in expression:
        return {**expression, "run": runs.open(expression["run"]).id}
    return {
        key: [in_full(part, runs) for part in value] if key in ALGEBRA else value for key, value in expression.items()
    }


def keys_in(expression: Any) -> list[str]:
    """Return the spec keys that an expression names as `key:...`, at any depth."""
    expression = read_expression(expression)
    if isinstance(expression, dict):
        run = expression.get("run")
        keys = [run.removeprefix(KEY)] if isinstance(run, str) and run.startswith(KEY) else []
        return keys + [key for name, part in expression.items() if name != "run" for key in keys_in(part)]
    return [key for part in expression for key in keys_in(part)] if isinstance(expression, list | tuple) else []


def read_expression(expression: Any) -> Any:
    """Return an expression, parsed if it was given as JSON."""
    if not isinstance(expression, str):
        return expression
    try:
        return json_text.loads(expression)
    except ValueError:
        return expression


def source_of(run: Run) -> dict[str, Any]:
    """Return the identification of a stored region: the run, its files' hashes, and the pair on which it was found."""
    models = {"base": run.record.base, "finetuned": run.record.finetuned}
    hashes = {"region": run.record.files.get(REGION), "ranking": run.record.files.get(RANKING)}
    return {
        "run": run.id,
        **{f"{name}_sha256": note.sha256 if note else "" for name, note in hashes.items()},
        **{f"{name}_fingerprint": note.fingerprint if note else "" for name, note in models.items()},
    }

"""A run's region expression: checked before anything is loaded, with every run in it named in full."""

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
    """A checked expression with every run named in full, the size of its region, and the runs it is made of."""

    expression: dict[str, Any]
    size: int
    stored: Stored
    sources: tuple[dict[str, Any], ...]

    @property
    def text(self) -> str:
        """The expression as canonical JSON."""
        return canonical(self.expression)


def made_with(sources: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """A sentence on each run whose region another region is made of."""
    return tuple(
        f"Made with the region of run {source['run']} (sha256 {source['region_sha256'][:12]})." for source in sources
    )


def resolved_expression(options: Mapping[str, Any], table: ParameterTable, runs: Library) -> ResolvedExpression:
    """What the option `expression` describes among the table's parameters.

    Raises BadInput where there is none, where it cannot be read, fits another architecture or has no entry;
    RunNotFound where it names a run that is not there.
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
    """The region that the spec's search stays out of, None where there is none, and the runs that it is made of.

    Raises BadInput for a localizer that does not choose by movement, BadSize where fewer entries are left than asked
    for, and what `resolved_expression` raises.
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
    """What gives the regions of a library's runs: the main one, or the first entries of its ranking."""

    def stored(run_id: str, size: int | None) -> Region:
        run = runs.open(run_id)
        return run.region() if size is None else run.cut(size)

    return stored


def in_full(expression: RegionExpression, runs: Library) -> dict[str, Any]:
    """The expression with every run named in full, since the beginning of an id may come to mean another."""
    if "run" in expression:
        return {**expression, "run": runs.open(expression["run"]).id}
    return {
        key: [in_full(part, runs) for part in value] if key in ALGEBRA else value for key, value in expression.items()
    }


def keys_in(expression: Any) -> list[str]:
    """The spec keys that an expression names as `key:...`, wherever they stand in it."""
    expression = read_expression(expression)
    if isinstance(expression, dict):
        run = expression.get("run")
        keys = [run.removeprefix(KEY)] if isinstance(run, str) and run.startswith(KEY) else []
        return keys + [key for name, part in expression.items() if name != "run" for key in keys_in(part)]
    return [key for part in expression for key in keys_in(part)] if isinstance(expression, list | tuple) else []


def read_expression(expression: Any) -> Any:
    """An expression that may have been given as JSON."""
    if not isinstance(expression, str):
        return expression
    try:
        return json_text.loads(expression)
    except ValueError:
        return expression


def source_of(run: Run) -> dict[str, Any]:
    """What identifies a stored region: the run, its files' hashes, and the pair that it was found on."""
    models = {"base": run.record.base, "finetuned": run.record.finetuned}
    hashes = {"region": run.record.files.get(REGION), "ranking": run.record.files.get(RANKING)}
    return {
        "run": run.id,
        **{f"{name}_sha256": note.sha256 if note else "" for name, note in hashes.items()},
        **{f"{name}_fingerprint": note.fingerprint if note else "" for name, note in models.items()},
    }

"""A region made by hand: layers, kinds and rows of the parameters, stored regions, and set algebra over both.

A region expression is plain JSON, so that it fits into an address, a request and a run's provenance:

    {"layers": [0, 1], "kinds": ["value"], "parameters": ["..."], "rows": [0, [4, 7]], "biases": false}
                                                    the entries that meet every given condition; {} is all d
    {"run": "<run id>"}                             a stored run's main region
    {"run": "<run id>", "size": 1064}               the first entries of its ranking
    {"union": [...]}, {"intersection": [...]}       of expressions
    {"difference": [first, ...]}                    the first without all that follow
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from skillviz import json_text
from skillviz.core.parameters import KINDS, Parameter, ParameterTable
from skillviz.core.region import Region
from skillviz.errors import BadInput

CONDITIONS = ("layers", "kinds", "parameters", "rows", "biases")
ALGEBRA: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "union": np.union1d,
    "intersection": partial(np.intersect1d, assume_unique=True),
    "difference": partial(np.setdiff1d, assume_unique=True),
}
STORED = ("run", "size")
DEPTH = 16
NONE = np.empty(0, dtype=np.int64)

RegionExpression = Mapping[str, Any]
Stored = Callable[[str, int | None], Region]


def region_of(expression: RegionExpression, table: ParameterTable, stored: Stored | None = None) -> Region:
    """Return the entries that the expression describes, among the table's.

    `stored(run id, size or None)` returns the regions of runs. Raises BadInput if the expression cannot be parsed, has
    a name that is not in the table, or needs a run of another architecture.
    """
    return Region({p.name: entries for p, entries in parts(expression, table, stored)}, table.shapes)


def parts(
    expression: RegionExpression, table: ParameterTable, stored: Stored | None = None
) -> Iterator[tuple[Parameter, np.ndarray]]:
    """Yield each tensor with its chosen flat indices, sorted, int64; one tensor at a time."""
    expression = checked_expression(expression)
    _refuse_unknown(expression, table)
    regions = {(run, size): _stored(run, size, table, stored) for run, size in _named(expression)}
    for parameter in table.parameters:
        yield parameter, _inside(expression, parameter, regions)


def checked_expression(expression: RegionExpression, depth: int = 0) -> dict[str, Any]:
    """Return the expression in its canonical form: lists sorted, without repeats, so equal expressions are equal texts.

    Raises BadInput with the first fault.
    """
    if not isinstance(expression, Mapping):
        raise BadInput(f"a region expression is an object such as {{'layers': [0]}}; got {_short(expression)}.")
    if depth > DEPTH:
        raise BadInput(f"the expression is nested more than {DEPTH} deep; combine its parts in one list.")
    known = (*CONDITIONS, *STORED, *ALGEBRA)
    unknown = [str(key) for key in expression if key not in known]
    if unknown:
        raise BadInput(f"'{unknown[0]}' is not a part of a region expression; known: {', '.join(known)}.")
    heads = [key for key in ("run", *ALGEBRA) if key in expression]
    allowed = {"run": set(STORED)}.get(heads[0], {heads[0]}) if heads else set(CONDITIONS)
    strange = [key for key in expression if key not in allowed]
    if strange:
        beside = f"'{heads[0]}'" if heads else "conditions without a run"
        raise BadInput(
            f"'{strange[0]}' cannot be combined with {beside} in one expression; use an intersection of two."
        )
    if not heads:
        return {key: _CHECKS[key](expression[key]) for key in CONDITIONS if key in expression}
    if heads[0] == "run":
        return _checked_run(expression)
    return {heads[0]: [checked_expression(part, depth + 1) for part in _parts(heads[0], expression[heads[0]])]}


def parsed(given: str | RegionExpression) -> dict[str, Any]:
    """Return the expression of a JSON text, or of an object, in its canonical form; raises BadInput."""
    if not isinstance(given, str):
        return checked_expression(given)
    try:
        return checked_expression(json_text.loads(given))
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f'the expression {_short(given)} is not JSON; write an object such as {{"layers": [0]}}, in single quotes '
            "where a shell reads it."
        ) from error


def canonical(expression: RegionExpression) -> str:
    """Return the expression as a text; equal expressions have equal texts."""
    return json.dumps(checked_expression(expression), sort_keys=True, separators=(",", ":"))


def runs_in(expression: RegionExpression) -> tuple[str, ...]:
    """Return the ids of the runs that the expression needs, each once, in order."""
    return tuple(dict.fromkeys(_run_ids(checked_expression(expression))))


def _run_ids(expression: RegionExpression) -> Iterator[str]:
    """Yield the ids in a checked expression, in order, repeats included."""
    if "run" in expression:
        yield expression["run"]
    for part in _nested(expression):
        yield from _run_ids(part)


def _named(expression: RegionExpression) -> set[tuple[str, int | None]]:
    """Return the stored regions that a checked expression needs."""
    named = {(expression["run"], expression.get("size"))} if "run" in expression else set()
    return named.union(*(_named(part) for part in _nested(expression)))


def _nested(expression: RegionExpression) -> list[Any]:
    """Return the expressions that a checked expression combines; empty if it combines none."""
    return next((expression[name] for name in ALGEBRA if name in expression), [])


def _inside(
    expression: RegionExpression, parameter: Parameter, regions: Mapping[tuple[str, int | None], Region]
) -> np.ndarray:
    """Return the indices that a checked expression selects in one parameter."""
    if "run" in expression:
        return regions[expression["run"], expression.get("size")].indices.get(parameter.name, NONE)
    for name, combine in ALGEBRA.items():
        if name in expression:
            return reduce(combine, (_inside(part, parameter, regions) for part in expression[name]))
    return _entries(parameter, expression) if _is_asked(parameter, expression) else NONE


def _is_asked(parameter: Parameter, conditions: Mapping[str, Any]) -> bool:
    """True if any entry of the parameter can meet the conditions."""
    return (
        ("layers" not in conditions or parameter.layer in conditions["layers"])
        and ("kinds" not in conditions or any(kind in conditions["kinds"] for kind in parameter.kinds))
        and ("parameters" not in conditions or parameter.name in conditions["parameters"])
        and ("biases" not in conditions or parameter.is_bias is conditions["biases"])
    )


def _entries(parameter: Parameter, conditions: Mapping[str, Any]) -> np.ndarray:
    """Return flat indices of the entries of the wanted rows and kinds (the parts of a fused tensor differ in kind)."""
    rows = np.arange(parameter.rows)
    if "rows" in conditions:
        rows = np.concatenate([NONE, *(rows[first : last + 1] for first, last in conditions["rows"])])
    flat = (rows[:, None] * parameter.cols + np.arange(parameter.cols)).reshape(-1)
    if "kinds" in conditions and parameter.fused:
        wanted = [number for number, kind in enumerate(parameter.kinds) if kind in conditions["kinds"]]
        flat = flat[np.isin(parameter.kind_numbers(flat), wanted)]
    return flat


def _refuse_unknown(expression: RegionExpression, table: ParameterTable) -> None:
    """Raise BadInput if a condition names a layer or parameter that is not in the table."""
    for part in _nested(expression):
        _refuse_unknown(part, table)
    layers = sorted({p.layer for p in table.parameters if p.layer is not None})
    for name, wanted, there in (
        ("layer", expression.get("layers", ()), layers),
        ("parameter", expression.get("parameters", ()), table.names),
    ):
        strange = [value for value in wanted if value not in there]
        if strange:
            raise BadInput(f"this model has no {name} '{strange[0]}'; it has {there[0]} to {there[-1]}.")


def _stored(run: str, size: int | None, table: ParameterTable, stored: Stored | None) -> Region:
    if stored is None:
        raise BadInput(f"the expression names the run '{run}', and no stored runs are available here.")
    region = stored(run, size)
    if dict(region.shapes) != table.shapes:
        raise BadInput(f"the region of run '{run}' belongs to another architecture; use a run of this one.")
    return region.like(table.shapes)


def _checked_run(expression: RegionExpression) -> dict[str, Any]:
    run, size = expression["run"], expression.get("size")
    if not isinstance(run, str) or not run:
        raise BadInput(f"'run' in a region expression is a run's id; got {_short(run)}.")
    if size is None:
        return {"run": run}
    return {"run": run, "size": _count(size, "size")}


def _parts(name: str, parts: Any) -> Sequence[Any]:
    if not isinstance(parts, list | tuple) or not parts:
        raise BadInput(f"'{name}' takes a list of one or more expressions; got {_short(parts)}.")
    return parts


def _layers(values: Any) -> list[int]:
    return sorted({_count(value, "layers") for value in _listed(values, "layers")})


def _kinds(values: Any) -> list[str]:
    strange = [value for value in _listed(values, "kinds") if value not in KINDS]
    if strange:
        raise BadInput(f"{_short(strange[0])} is not a kind of parameter; known: {', '.join(KINDS)}.")
    return sorted(set(values), key=KINDS.index)


def _names(values: Any) -> list[str]:
    return sorted({str(value) for value in _listed(values, "parameters")})


def _rows(values: Any) -> list[list[int]]:
    """Rows as [first, last], inclusive, without overlap; a vector is one row, rows past the last do not count."""
    spans = []
    for value in _listed(values, "rows"):
        ends = [value, value] if not isinstance(value, list | tuple) else list(value)
        if len(ends) != 2 or _count(ends[0], "rows") > _count(ends[1], "rows"):
            raise BadInput(f"'rows' takes numbers and [first, last]; got {_short(value)}.")
        spans.append([int(end) for end in ends])
    merged: list[list[int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return merged


def _biases(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f"'biases' is true (only biases) or false (none); got {_short(value)}.")
    return value


def _listed(values: Any, name: str) -> Sequence[Any]:
    if not isinstance(values, list | tuple):
        raise BadInput(f"'{name}' takes a list; got {_short(values)}.")
    return values


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise BadInput(f"'{name}' takes whole numbers from 0; got {_short(value)}.")
    return int(value)


def _short(value: Any) -> str:
    return repr(value)[:60]


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "layers": _layers,
    "kinds": _kinds,
    "parameters": _names,
    "rows": _rows,
    "biases": _biases,
}

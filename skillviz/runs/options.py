"""A localizer's options from a run's spec, and the region file that one of its options names. Needs no torch."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from skillviz.core.localizers.table import EXPRESSION, LEAN_CANDIDATES, Localizer
from skillviz.core.region import Region
from skillviz.errors import BadInput, RunNotFound
from skillviz.runs.library import Library
from skillviz.runs.region_expression import ResolvedExpression, source_of
from skillviz.runs.run import REGION
from skillviz.runs.spec import RunSpec, key_in, words_of_region
from skillviz.tasks.project import expanded


def options_of(
    spec: RunSpec, row: Localizer, base_region: Region | None = None, resolved: ResolvedExpression | None = None
) -> tuple[Any, tuple[str, ...]]:
    """Return the localizer's options from the spec, and notes on options that do not apply to it.

    `resolved` is the region expression of a run whose region is described, not searched. `steps` and `batch_size` are
    shared by many localizers and are omitted for those without them; any other unknown option raises BadInput.
    """
    known = {f.name: f for f in fields(row.options)}
    values = dict(spec.options)
    for name in values:
        if name in known and "instead" in known[name].metadata:
            raise BadInput(f"'{name}' cannot be set; {known[name].metadata['instead']}.")
    common = {"steps": spec.steps, "batch_size": spec.batch_size}
    common = {name: value for name, value in common.items() if value is not None}
    values |= {name: value for name, value in common.items() if name in known}
    if spec.lean and "candidate_share" in known:
        values.setdefault("candidate_share", LEAN_CANDIDATES)
    if row.region_option is not None and (base_region is not None or key_of_region(spec, row) is not None):
        values.pop(row.region_option, None)
    if base_region is not None:
        values |= {f"{row.region_option}_indices": tuple(base_region.flat().tolist())}
    if resolved is not None:
        values |= {EXPRESSION: resolved.expression, "stored": resolved.stored}
    unused = [name for name in common if name not in known]
    notes = (
        (f"The localizer {row.name} has no {' and no '.join(unused)}; the value given is not used.",) if unused else ()
    )
    return row.make_options(values), notes


def other_models_of(options: Any) -> tuple[str, ...]:
    """Return the folders or names, with paths expanded, of further models whose movements a localizer uses."""
    named = getattr(options, "other_models", "")
    return tuple(expanded(name, "other_models") for name in named.split(",") if name)


def key_of_region(spec: RunSpec, row: Localizer) -> str | None:
    """Return the key of the run whose region the localizer's option names, as in a study (`spec.region_of`)."""
    return key_in(spec.options.get(row.region_option or ""))


def named_region(spec: RunSpec, row: Localizer, runs: Library) -> tuple[Region | None, tuple[dict[str, Any], ...]]:
    """Return the region that the localizer's option names by a file or a run's key, and the identification of that run.

    Raises BadInput if there is no such file, RunNotFound if no run with the key is finished.
    """
    key = key_of_region(spec, row)
    if key is None:
        return base_region_of(spec, row), ()
    try:
        run = runs.newest(key)
    except RunNotFound as error:
        words = words_of_region(spec.options[str(row.region_option)])
        raise RunNotFound(
            f"the option '{row.region_option}' names the region of a run ({words}, key {key[:12]}) that is not "
            f"finished here; run its study first, or name a region file: {row.region_option}=RUN/region.safetensors."
        ) from error
    return run.region(), (source_of(run),)


def base_region_of(spec: RunSpec, row: Localizer) -> Region | None:
    """Return the region in the file that the localizer's option names (`base` of a learned mask).

    Returns None if the option names no file, or a run by its key. A folder means the region.safetensors in it. Raises
    BadInput if there is no such file.
    """
    option = row.option(row.region_option or "")
    named = spec.options.get(option.name) if option else None
    if option is None or named is None or named in option.choices or key_of_region(spec, row) is not None:
        return None
    path = Path(named) if isinstance(named, str) else Path()
    path = path / REGION if (path / REGION).is_file() else path
    if not isinstance(named, str) or not path.is_file():
        allowed = ", ".join(option.choices)
        raise BadInput(f"the option '{option.name}' must be {allowed}, or a region file; {named!r} is none of them.")
    return Region.load(path)

"""A run's region made by hand: its recipe checked before anything is loaded, the runs that it names found and named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillviz.core.parameters import ParameterTable
from skillviz.core.region import Region
from skillviz.core.region_expression import ALGEBRA, Recipe, Stored, canonical, parsed, parts, runs_in
from skillviz.errors import BadInput
from skillviz.runs.library import KEY, Library
from skillviz.runs.run import RANKING, REGION, Run

NAME = "recipe"  # of the localizer, and of its option
EXAMPLE = """--option 'recipe={"layers": [0, 1], "kinds": ["value"]}'"""


@dataclass(frozen=True)
class ByHand:
    """A checked recipe with every run named in full, the size of what it describes, and what it is made of."""

    recipe: dict[str, Any]
    size: int
    stored: Stored
    sources: tuple[dict[str, Any], ...]

    @property
    def text(self) -> str:
        """The recipe as canonical JSON."""
        return canonical(self.recipe)

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence on each run's region that it was made of."""
        return tuple(
            f"Made with the region of run {source['run']} (sha256 {source['region_sha256'][:12]})."
            for source in self.sources
        )


def by_hand(options: Mapping[str, Any], table: ParameterTable, found: Library) -> ByHand:
    """What the option `recipe` describes among the table's parameters.

    Raises BadInput where there is none, where it cannot be read, fits another architecture or has no entry;
    RunNotFound where it names a run that is not there.
    """
    if NAME not in options:
        raise BadInput(f"the localizer 'recipe' needs the option of that name, such as {EXAMPLE}.")
    recipe = in_full(parsed(options[NAME]), found)
    stored = stored_in(found)
    size = sum(len(entries) for _, entries in parts(recipe, table, stored))
    if not size:
        raise BadInput(
            f"the recipe {_short(canonical(recipe))} describes a region without entries; a region has one or more."
        )
    return ByHand(recipe, size, stored, tuple(_source(found.open(run_id)) for run_id in runs_in(recipe)))


def stored_in(found: Library) -> Stored:
    """What gives the regions of a library's runs: the main one, or the first entries of its ranking."""

    def stored(run_id: str, size: int | None) -> Region:
        run = found.open(run_id)
        return run.region() if size is None else run.cut(size)

    return stored


def in_full(recipe: Recipe, found: Library) -> dict[str, Any]:
    """The recipe with every run named in full, since the beginning of an id may come to mean another."""
    if "run" in recipe:
        return {**recipe, "run": found.open(recipe["run"]).id}
    return {key: [in_full(part, found) for part in value] if key in ALGEBRA else value for key, value in recipe.items()}


def keys_in(recipe: Any) -> list[str]:
    """The spec keys that a recipe names as `key:...`, wherever they stand in it."""
    recipe = read_recipe(recipe)
    if isinstance(recipe, dict):
        run = recipe.get("run")
        keys = [run.removeprefix(KEY)] if isinstance(run, str) and run.startswith(KEY) else []
        return keys + [key for name, part in recipe.items() if name != "run" for key in keys_in(part)]
    return [key for part in recipe for key in keys_in(part)] if isinstance(recipe, list | tuple) else []


def read_recipe(recipe: Any) -> Any:
    """A recipe that may have been given as JSON."""
    if not isinstance(recipe, str):
        return recipe
    try:
        return json.loads(recipe)
    except ValueError:
        return recipe


def _source(run: Run) -> dict[str, Any]:
    """What identifies a stored region: the run, its files' hashes, and the pair that it was found on."""
    members = {"base": run.record.base, "finetuned": run.record.finetuned}
    hashes = {"region": run.record.files.get(REGION), "ranking": run.record.files.get(RANKING)}
    return {
        "run": run.id,
        **{f"{name}_sha256": note.sha256 if note else "" for name, note in hashes.items()},
        **{f"{name}_fingerprint": note.fingerprint if note else "" for name, note in members.items()},
    }


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."

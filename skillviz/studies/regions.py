"""Runs whose regions a step works with: those that a fine-tuned model is trained on, and those in a recipe by hand."""

from __future__ import annotations

import json
from typing import Any

from skillviz.runs.library import KEY as KEY
from skillviz.runs.spec import RunSpec
from skillviz.studies.finetuned_model import FineTunedSpec
from skillviz.studies.step import Spec


def keys_in(recipe: Any) -> list[str]:
    """The spec keys that a recipe by hand names as `key:...`, wherever they stand in it."""
    recipe = read_recipe(recipe)
    if isinstance(recipe, dict):
        own = recipe.get("run")
        found = [own.removeprefix(KEY)] if isinstance(own, str) and own.startswith(KEY) else []
        return found + [key for name, part in recipe.items() if name != "run" for key in keys_in(part)]
    return [key for part in recipe for key in keys_in(part)] if isinstance(recipe, list | tuple) else []


def regions_of(spec: Spec) -> list[str]:
    """The keys of the runs whose regions a step works with."""
    if isinstance(spec, FineTunedSpec):
        return [region.key() for region in spec.regions]
    return keys_in(spec.options.get("recipe")) if isinstance(spec, RunSpec) and spec.localizer == "recipe" else []


def read_recipe(recipe: Any) -> Any:
    """A recipe that may have been given as JSON."""
    if not isinstance(recipe, str):
        return recipe
    try:
        return json.loads(recipe)
    except ValueError:
        return recipe

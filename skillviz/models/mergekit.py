"""A graft for mergekit: the base, the grafted model, and a recipe that adds their difference to the base.

mergekit reads whole models, never sparse ones. Its task vector here is grafted minus base, which is zero outside the
region. So `task_arithmetic` with weight 1 gives the grafted model, and further models can be added to the recipe.
Source: the documentation of mergekit 0.1 (merge_methods.md, "Task Arithmetic").
"""

from __future__ import annotations

from pathlib import Path

import yaml

from skillviz.core.graft import Graft
from skillviz.core.region import Region
from skillviz.models.applied import Applied, save_applied
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import hub_name

RECIPE, BASE, GRAFTED = "mergekit.yml", "base", "graft"
COMMAND = f"mergekit-yaml {RECIPE} ../merged"
ABOUT = (
    f"# Run it in this folder: {COMMAND}\n"
    "# Weight 1 gives the grafted model. Add other models of the same base to the list to merge skills.\n"
)


def write_mergekit(folder: Path, opened: Applied, graft: Graft) -> str:
    """Write the grafted model, the base and the recipe; return the base's name in the recipe.

    `opened` is the base from `opened_base`; the graft is applied to it. If the base came from the hub with the same
    tensors, the recipe names it there. Otherwise it is written too, with the graft's head and rows of added tokens, so
    that their difference is zero.
    """
    head_only = Graft(Region({}, graft.region.shapes), {}, graft.head, graft.header, graft.rows)
    head_only.apply(opened.model)
    save_applied(opened, folder / BASE)
    graft.apply(opened.model)
    save_applied(opened, folder / GRAFTED)
    name, revision = hub_name(opened.info.folder)
    base = f"./{BASE}"
    if revision is not None and not graft.rows and not opened.info.rounded and _same_tensors(opened, folder / BASE):
        for file in (folder / BASE).iterdir():
            file.unlink()
        (folder / BASE).rmdir()
        base = f"{name}@{revision}"
    recipe = {
        "merge_method": "task_arithmetic",
        "base_model": base,
        "models": [{"model": f"./{GRAFTED}", "parameters": {"weight": 1.0}}],
        "parameters": {"normalize": False, "lambda": 1.0},
        "dtype": "float32",
    }
    (folder / RECIPE).write_text(ABOUT + yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
    return base


def _same_tensors(opened: Applied, written: Path) -> bool:
    """True if the base's own files have the same tensors, by name and shape, as this folder."""
    return not opened.info.wrapper and opened.info.shapes == read_info(written).shapes

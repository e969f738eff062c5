"""The ways to fine-tune, as rows of one table: what each trains, with what, and where it comes from. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from skillviz.errors import BadInput

PAPER = "Panigrahi et al. 2023"

K_CAP = 512
"""From 4096-shot on the paper stops at 16 * n * 512 steps, where the training accuracy is 100 %."""

STEPS_A_SHOT = 16
"""Steps a label and shot (paper, section 3: 16 * n * k steps)."""

SGD_RATES = MappingProxyType({"head": 1e-2, "prompt": 5e-3, "causal": 5e-3})
"""By readout: a new linear head wants the larger one of the paper's grid {1e-2, 5e-3, 1e-3}."""

L1 = 0.001
"""Weight of sum |theta - theta_pre| in the loss (paper, section 4, AdamW with l1)."""

RANKS = (1, 2, 8)
"""Ranks of LoRA in the paper's tables 6 and 7."""

GRIDS = ("none", "quick", "paper")


@dataclass(frozen=True)
class Grid:
    """The points of a search on validation data: every batch size with every learning rate."""

    batch_sizes: tuple[int, ...]
    rates: tuple[float, ...]
    source: str


SGD_GRID = Grid((2, 4, 8), (1e-2, 5e-3, 1e-3), f"{PAPER}, appendix on training: batch 2, 4, 8 x rate 1e-2, 5e-3, 1e-3")
ADAMW_GRID = Grid((2, 4, 8), (1e-5, 2e-5, 5e-5), "ours: the paper does not state AdamW's rates; batch sizes as for SGD")
BITFIT_GRID = Grid(
    (2, 4, 8), (1e-1, 5e-2, 1e-2, 5e-3, 1e-3), "ours: the paper's SGD grid, with rates up to ten times larger"
)
LORA_GRID = Grid((8,), (1e-3, 5e-4, 2e-4), "ours, around the 4e-4 to 5e-4 of Hu et al. 2022 for RoBERTa-base")


@dataclass(frozen=True)
class RecipeRow:
    """One way to fine-tune. `rates` are the default learning rates by readout; `grid` what --grid paper tries."""

    name: str
    title: str
    sentence: str
    source: str
    optimizer: str
    trained: str
    """What may move, in words."""
    rates: Mapping[str, float]
    grid: Grid
    schedule: str = "constant"
    """constant, or linear: down to 0 at the last step."""
    warmup: float = 0.0
    """Share of the steps over which the rate rises first."""
    l1: float = 0.0
    rank: int | None = None
    """The default rank; None where there is none to choose."""
    needs_region: bool = False
    several_tasks: bool = False


def _same(rate: float) -> Mapping[str, float]:
    return MappingProxyType(dict.fromkeys(SGD_RATES, rate))


_BLOCKS = "the graftable parameters and the classification head"
_ADAMW: dict[str, Any] = {
    "optimizer": "AdamW",
    "trained": _BLOCKS,
    "rates": _same(2e-5),
    "grid": ADAMW_GRID,
    "schedule": "linear",
}
_SGD: dict[str, Any] = {"optimizer": "SGD", "rates": SGD_RATES, "grid": SGD_GRID}

_ROWS = (
    RecipeRow(
        "sgd", "SGD", "Everything graftable and the head are trained by plain SGD at a constant rate.",
        f"{PAPER}, section 2 and appendix", trained=_BLOCKS, **_SGD,
    ),
    RecipeRow(
        "adamw", "AdamW", "The same parameters are trained by AdamW, with a rate that falls linearly to 0.",
        f"{PAPER}, section 4 (Figure 5); the rates are ours", **_ADAMW,
    ),
    RecipeRow(
        "adamw-l1", "AdamW with l1", "As AdamW, with 0.001 times the sum of all absolute movements added to the loss.",
        f"{PAPER}, section 4 (Figure 5); the rates are ours", l1=L1, **_ADAMW,
    ),
    RecipeRow(
        "bitfit", "BitFit", "Only biases (those of LayerNorm too) and the head are trained, by SGD.",
        f"{PAPER}, section 3 (Table 1); optimizer and rates are ours", "SGD",
        "the biases of graftable parameters and the classification head",
        MappingProxyType({name: 5 * rate for name, rate in SGD_RATES.items()}), BITFIT_GRID,
    ),
    RecipeRow(
        "lora", "LoRA", "Low-rank changes of the query and value matrices and the head are trained by AdamW.",
        f"{PAPER}, appendix (Tables 6 and 7); settings of Hu et al. 2022 for RoBERTa-base: alpha 8, warm-up over 6 %",
        "AdamW", "two low-rank factors for each query and value matrix, and the classification head",
        _same(5e-4), LORA_GRID, schedule="linear", warmup=0.06, rank=8,
    ),
    RecipeRow(
        "graft-retrain", "graft, re-trained", "From the base, only the entries of a region and the head are trained.",
        f"{PAPER}, section 3 (Tables 1 and 3); optimizer and rates are ours",
        trained="the entries of a region and the classification head", needs_region=True, **_SGD,
    ),
    RecipeRow(
        "multi-task", "multi-task", "One body is trained on several tasks: each step takes a batch of a random one.",
        f"{PAPER}, section 5 (Figure 8)", trained="the graftable parameters and one head a task",
        several_tasks=True, **_SGD,
    ),
    RecipeRow(
        "continual", "continual", "One task after the other is learned; with regions, none moves what an earlier owns.",
        f"{PAPER}, section 5 (Table 4)", trained="the graftable parameters or a region, and one head a task",
        several_tasks=True, **_SGD,
    ),
)  # fmt: skip

RECIPES: Mapping[str, RecipeRow] = MappingProxyType({row.name: row for row in _ROWS})

OPTIMIZERS = ("sgd", "adamw", "adamw-l1")
"""What multi-task and continual training may use, by the name of the recipe whose optimizer it is."""

MODES = ("naive", "grafting")
"""Of continual training: everything moves at every stage, or each stage only its region."""


def recipe_row(name: str) -> RecipeRow:
    """The row of that name; raises BadInput listing the known ones."""
    if name not in RECIPES:
        raise BadInput(f"'{name}' is not a recipe; known: {', '.join(RECIPES)}.")
    return RECIPES[name]


def paper_steps(labels: int, k_shot: int) -> int:
    """The paper's 16 * n * k steps of k-shot training; k counts as 512 from k = 4096 on."""
    return STEPS_A_SHOT * labels * (k_shot if k_shot < 4096 else K_CAP)


def grid_of(row: RecipeRow, grid: str | None, batch_size: int, optimizer: str | None = None) -> Grid | None:
    """The points to try: `paper` all of the row's, `quick` its rates at this batch size; None for `none`."""
    if grid is None or grid == "none":
        return None
    if grid not in GRIDS:
        raise BadInput(f"'{grid}' is not a grid; known: {', '.join(GRIDS)}.")
    whole = RECIPES[optimizer or row.name].grid
    return whole if grid == "paper" else Grid((batch_size,), whole.rates, f"the rates of: {whole.source}")


def check_use(
    name: str,
    *,
    tasks: int = 1,
    rank: int | None = None,
    region: bool = False,
    regions: int = 0,
    mode: str | None = None,
    grid: str | None = None,
    lr: float | None = None,
    optimizer: str | None = None,
    extra_trained: bool = False,
) -> RecipeRow:
    """The recipe's row, where it goes with the other choices; raises BadInput with one sentence where it does not."""
    row = recipe_row(name)
    sentence = _wrong_numbers(row, tasks, rank) or _wrong_regions(row, tasks, region, regions, mode)
    if sentence is None and optimizer is not None:
        if not row.several_tasks:
            sentence = f"the recipe {name} has its own optimizer; --optimizer goes with multi-task and continual."
        elif optimizer not in OPTIMIZERS:
            sentence = f"'{optimizer}' is not an optimizer; known: {', '.join(OPTIMIZERS)}."
    if sentence is None and grid not in (None, *GRIDS):
        sentence = f"'{grid}' is not a grid; known: {', '.join(GRIDS)}."
    if sentence is None and grid not in (None, "none"):
        if lr is not None:
            sentence = f"the grid {grid} tries learning rates of its own; leave out --lr or --grid."
        elif name == "continual":
            sentence = "continual training has no grid: each stage would need one; give --lr and --batch-size."
    if sentence is None and extra_trained and name not in OPTIMIZERS:
        sentence = (
            f"the recipe {name} says itself what is trained; --train-embeddings and --train-head go with "
            f"{', '.join(OPTIMIZERS)}."
        )
    if sentence is not None:
        raise BadInput(sentence)
    return row


def _wrong_numbers(row: RecipeRow, tasks: int, rank: int | None) -> str | None:
    if row.several_tasks and tasks < 2:
        return f"the recipe {row.name} learns several tasks; give --task twice or more."
    if not row.several_tasks and tasks != 1:
        names = " or ".join(r.name for r in RECIPES.values() if r.several_tasks)
        return f"the recipe {row.name} learns one task, and {tasks} were given; give one, or take {names}."
    if rank is not None and row.rank is None:
        return f"a rank is of the recipe lora; {row.name} has none: leave out --rank."
    if rank is not None and rank < 1:
        return f"the rank is {rank}; give 1 or more (the paper: {', '.join(map(str, RANKS))})."
    return None


def _wrong_regions(row: RecipeRow, tasks: int, region: bool, regions: int, mode: str | None) -> str | None:
    if row.needs_region and not region:
        return f"the recipe {row.name} trains a region alone; give it with --region, a run or a region file."
    if region and not row.needs_region:
        return f"the recipe {row.name} takes no region; --region goes with graft-retrain."
    if row.name != "continual" and (mode is not None or regions):
        return f"--mode and --regions are of the recipe continual; {row.name} has neither."
    if mode not in (None, *MODES):
        return f"'{mode}' is not a mode of continual training; known: {', '.join(MODES)}."
    if mode == "naive" and regions:
        return "naive continual training moves everything; leave out --regions, or take --mode grafting."
    if mode == "grafting" and not regions:
        return "continual training by grafting needs a region a task; give --regions once for each, in their order."
    if regions and regions != tasks:
        return f"{tasks} tasks and {regions} regions were given; give one --regions for each task, in their order."
    return None

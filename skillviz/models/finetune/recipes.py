"""The table of fine-tuning recipes: trained parameters, optimizer, source, and training function of each.

Needs no torch: `run` names the function, which is imported when a model is trained. To add a recipe, add a row, and a
function if no existing one can train it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, get_args

from skillviz.core.formats import listed
from skillviz.core.localizers.table import PAPER
from skillviz.core.methods import METHODS
from skillviz.errors import BadInput, refuse
from skillviz.models.adapters import WIDEST

K_CAP = 512
"""From 4096-shot on, the paper stops at 16 * n * 512 steps, where the training accuracy is 100%."""

STEPS_A_SHOT = 16
"""Steps per label and shot (paper, section 3: 16 * n * k steps)."""

SGD_RATES = MappingProxyType({"head": 1e-2, "prompt": 5e-3, "causal": 5e-3})
"""By readout: a new linear head needs the largest rate of the paper's grid {1e-2, 5e-3, 1e-3}."""

L1 = 0.001
"""Weight of sum |theta - theta_pre| in the loss (paper, section 4, AdamW with l1)."""

RANKS, WIDTHS = (1, 2, 8), (1, 2, 16, 64)
"""Ranks of LoRA and widths of adapters in the paper's tables 6 and 7."""

GRIDS = ("none", "quick", "paper")

SGD, RETRAIN, MULTI_TASK, CONTINUAL = "sgd", "graft-retrain", "multi-task", "continual"

ONE_TASK = "skillviz.models.finetune.run:train"
ALL_TASKS = "skillviz.models.finetune.multi_task:train"
SEQUENCE = "skillviz.models.finetune.continual:train"


Send = Literal["full", "region", "random"]
"""What a client of a federation sends: all values; those of its region, the entries that its first round moved most; as
many random entries, the null."""
SENDS = FULL, REGION, RANDOM = get_args(Send)


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
HOULSBY_GRID = Grid((32,), (3e-3, 3e-4, 3e-5), "Houlsby et al. 2019, section 3.2")
PFEIFFER_GRID = Grid((32,), (1e-3, 1e-4), "Pfeiffer et al. 2021: 1e-4; ours: ten times that, for narrow adapters")


@dataclass(frozen=True)
class RecipeRow:
    """One fine-tuning recipe; `rates` are the default learning rates by readout, `grid` the points of --grid paper."""

    name: str
    title: str
    phrase: str
    """The way of training as a phrase: "trained by plain SGD"."""
    sentence: str
    source: str
    trained: str
    """The parameters that may move, in words."""
    method: str
    """The row of its models in the table of methods; for `continual` it depends on the mode (MODES)."""
    optimizer: str
    rates: Mapping[str, float]
    grid: Grid
    scope: Literal["all", "biases", "low-rank", "adapters", "region"] = "all"
    """The parameters that move: all graftable ones, their biases, low-rank factors beside them, adapters between them,
    or a region's entries."""
    tasks: Literal["one", "together", "in turn"] = "one"
    run: str = ONE_TASK
    """The function that trains, as "module:name"."""
    schedule: str = "constant"
    """constant, or linear: down to 0 at the last step."""
    warmup: float = 0.0
    """The share of the steps in which the rate first rises."""
    l1: float = 0.0
    rank: int | None = None
    """The default rank; None if the recipe has no rank. The same holds for `width`, of adapters."""
    width: int | None = None

    @property
    def capacity(self) -> tuple[str, int] | None:
        """The setting that chooses how many parameters it trains, and its default: rank, or width; else None."""
        return ("rank", self.rank) if self.rank else ("width", self.width) if self.width else None

    @property
    def adds_parameters(self) -> bool:
        """True if it trains parameters of its own, so that what it touches is what it trains."""
        return self.scope in ("low-rank", "adapters")

    @property
    def several_tasks(self) -> bool:
        """True if it learns two tasks or more."""
        return self.tasks != "one"

    @property
    def needs_region(self) -> bool:
        """True if it trains only a region."""
        return self.scope == "region"

    def function(self) -> Callable[..., Any]:
        """Return the function that trains; imports torch."""
        module, name = self.run.split(":")
        return getattr(import_module(module), name)


def _same(rate: float) -> Mapping[str, float]:
    return MappingProxyType(dict.fromkeys(SGD_RATES, rate))


_BLOCKS = "the graftable parameters and the classification head"
_SGD: dict[str, Any] = {"optimizer": "SGD", "rates": SGD_RATES, "grid": SGD_GRID}
_ADAMW: dict[str, Any] = {"optimizer": "AdamW", "rates": _same(2e-5), "grid": ADAMW_GRID, "schedule": "linear"}

_ROWS = (
    RecipeRow(
        SGD, "SGD", "plain SGD",
        "Everything graftable and the head are trained by plain SGD at a constant rate.",
        f"{PAPER}, section 2 and appendix", _BLOCKS, "ft", **_SGD,
    ),
    RecipeRow(
        "adamw", METHODS["adamw"].title, "AdamW",
        "The same parameters are trained by AdamW, with a rate that falls linearly to 0.",
        f"{PAPER}, section 4 (Figure 5); the rates are ours", _BLOCKS, "adamw", **_ADAMW,
    ),
    RecipeRow(
        "adamw-l1", METHODS["adamw_l1"].title, "AdamW with an l1 penalty",
        "As AdamW, with 0.001 times the sum of all absolute movements added to the loss.",
        f"{PAPER}, section 4 (Figure 5); the rates are ours", _BLOCKS, "adamw_l1", l1=L1, **_ADAMW,
    ),
    RecipeRow(
        "bitfit", METHODS["bitfit"].title, "BitFit",
        "Only biases (those of LayerNorm too) and the head are trained, by SGD.",
        f"{PAPER}, section 3 (Table 1); optimizer and rates are ours",
        "the biases of graftable parameters and the classification head", "bitfit",
        "SGD", MappingProxyType({name: 5 * rate for name, rate in SGD_RATES.items()}), BITFIT_GRID, scope="biases",
    ),
    RecipeRow(
        "lora", METHODS["lora"].title, "LoRA",
        "Low-rank changes of the query and value matrices and the head are trained by AdamW.",
        f"{PAPER}, appendix (Tables 6 and 7); settings of Hu et al. 2022 for RoBERTa-base: alpha 8, warm-up over 6%",
        "two low-rank factors for each query and value matrix, and the classification head", "lora",
        "AdamW", _same(5e-4), LORA_GRID, scope="low-rank", schedule="linear", warmup=0.06, rank=8,
    ),
    *(
        RecipeRow(
            f"adapter-{name}", METHODS[f"adapter_{name}"].title, f"{name.capitalize()} adapters",
            f"Small bottlenecks after {places} of each layer, and the head, are trained by AdamW.",
            f"{PAPER}, appendix (Tables 6 and 7); settings of {source}",
            "two matrices and two biases for each bottleneck, and the classification head", f"adapter_{name}",
            "AdamW", _same(rate), grid, scope="adapters", schedule="linear", warmup=warmup, width=64,
        )
        for name, places, source, rate, grid, warmup in (
            ("houlsby", "the attention and the feed-forward part",
             "Houlsby et al. 2019: warm-up over 10%; LayerNorm is not trained", 3e-4, HOULSBY_GRID, 0.1),
            ("pfeiffer", "the feed-forward part", "Pfeiffer et al. 2021", 1e-4, PFEIFFER_GRID, 0.0),
        )
    ),
    RecipeRow(
        RETRAIN, "re-training the region", "re-training a region alone",
        "From the base, only the entries of a region and the head are trained.",
        f"{PAPER}, section 3 (Tables 1 and 3); optimizer and rates are ours",
        "the entries of a region and the classification head", "graft_retrain", scope="region", **_SGD,
    ),
    RecipeRow(
        MULTI_TASK, "several tasks", "plain SGD on all tasks at once",
        "One body is trained on several tasks: each step takes a batch of a random one.",
        f"{PAPER}, section 5 (Figure 8)", "the graftable parameters and one head a task", "multi_task",
        tasks="together", run=ALL_TASKS, **_SGD,
    ),
    RecipeRow(
        CONTINUAL, "one task after the other", "plain SGD on one task after the other",
        "One task after the other is learned; with regions, none moves what an earlier owns.",
        f"{PAPER}, section 5 (Table 4)", "the graftable parameters or a region, and one head a task", "ft",
        tasks="in turn", run=SEQUENCE, **_SGD,
    ),
)  # fmt: skip

RECIPES: Mapping[str, RecipeRow] = MappingProxyType({row.name: row for row in _ROWS})

OPTIMIZERS = tuple(row.name for row in _ROWS if row.scope == "all" and not row.several_tasks)
"""The optimizers for several tasks or a region: recipes whose optimizer, rate and penalty are used."""

OTHER_OPTIMIZERS = tuple(name for name in OPTIMIZERS if RECIPES[name].method != "ft")
"""Recipes that train the same parameters as plain SGD, with another optimizer."""

FEW = tuple(sorted((row.name for row in _ROWS if row.scope != "all"), key=lambda name: not RECIPES[name].needs_region))
"""Recipes that move few entries on one task, the one that needs a region first."""

MODES: Mapping[str, str] = MappingProxyType({"naive": "continual_naive", "grafting": "continual_graft"})
"""The modes of continual training, with their method in study tables: all moves at every stage, or only a region."""


def recipe_row(name: str) -> RecipeRow:
    """Return the row with that name; raises BadInput, which lists the known ones."""
    if name not in RECIPES:
        raise BadInput(f"'{name}' is not a recipe; known: {', '.join(RECIPES)}.")
    return RECIPES[name]


def default_rates() -> str:
    """Return the default learning rates: `0.01 (head) or 0.005 (prompt, causal) for sgd; 0.00002 for adamw`."""
    by_rates: dict[tuple[tuple[str, float], ...], list[str]] = {}
    for row in _ROWS:
        by_rates.setdefault(tuple(row.rates.items()), []).append(row.name)
    parts = []
    for rates, names in by_rates.items():
        by_rate: dict[float, list[str]] = {}
        for readout, rate in rates:
            by_rate.setdefault(rate, []).append(readout)
        words = [
            f"{rate:.6f}".rstrip("0") + (f" ({', '.join(readouts)})" if len(by_rate) > 1 else "")
            for rate, readouts in by_rate.items()
        ]
        parts.append(f"{' or '.join(words)} for {', '.join(names)}")
    return "; ".join(parts)


def paper_steps(labels: int, k_shot: int) -> int:
    """Return the paper's 16 * n * k steps of k-shot training; k counts as 512 from k = 4096 on."""
    return STEPS_A_SHOT * labels * (k_shot if k_shot < 4096 else K_CAP)


def grid_of(row: RecipeRow, grid: str | None, batch_size: int, optimizer: str | None = None) -> Grid | None:
    """Return the points to try: all of the row's for `paper`, its rates at this batch size for `quick`, else None."""
    if grid is None or grid == "none":
        return None
    refuse((grid not in GRIDS, f"'{grid}' is not a grid; known: {', '.join(GRIDS)}."))
    whole = RECIPES[optimizer or row.name].grid
    return whole if grid == "paper" else Grid((batch_size,), whole.rates, f"the rates of: {whole.source}")


def check_use(
    name: str,
    *,
    tasks: int = 1,
    regions: int = 0,
    mode: str | None = None,
    rank: int | None = None,
    matrices: int | None = None,
    width: int | None = None,
    grid: str | None = None,
    lr: float | None = None,
    optimizer: str | None = None,
    extra_trained: bool = False,
) -> RecipeRow:
    """Return the recipe's row if it matches the other choices; otherwise raise BadInput with one sentence.

    `extra_trained` is True if embeddings or a language-model head are also to be trained.
    """
    row = recipe_row(name)
    in_turn, searches = row.tasks == "in turn", grid not in (None, "none")
    takers = _named(lambda other: other.needs_region or other.tasks == "in turn")
    with_rank, with_width = _named(lambda other: other.rank is not None), _named(lambda other: other.width is not None)
    refuse(
        (
            row.several_tasks and tasks < 2,
            f"the recipe {name} learns several tasks; give two tasks or more.",
        ),
        (
            not row.several_tasks and tasks != 1,
            f"the recipe {name} learns one task, and {tasks} were given; several go with "
            f"{_named(lambda other: other.several_tasks)}.",
        ),
        (
            row.needs_region and not regions,
            f"the recipe {name} trains one region only; give it as a run or a file (--region).",
        ),
        (row.needs_region and regions > 1, f"the recipe {name} takes one region; got {regions}."),
        (
            regions and not (row.needs_region or in_turn),
            f"the recipe {name} takes no region; regions go with {takers}.",
        ),
        (
            mode is not None and not in_turn,
            f"a mode belongs to the recipe {_named(lambda other: other.tasks == 'in turn')}; {name} has none.",
        ),
        (mode not in (None, *MODES), f"'{mode}' is not a mode of {name} training; known: {', '.join(MODES)}."),
        (
            mode == "naive" and regions,
            f"naive {name} training moves everything; leave out the regions, or take the mode grafting.",
        ),
        (
            mode == "grafting" and not regions,
            f"{name} training by grafting needs one region per task, in order (--regions).",
        ),
        (
            in_turn and regions not in (0, tasks),
            f"{tasks} tasks and {regions} regions were given; give one region per task, in order, or none.",
        ),
        *(
            (value is not None and usual is None, f"{option} goes with the recipe {takers}; leave it out for {name}.")
            for option, value, usual, takers in (
                ("rank", rank, row.rank, with_rank),
                ("matrices", matrices, row.rank, with_rank),
                ("width", width, row.width, with_width),
            )
        ),
        *(
            (
                value is not None and value < 1,
                f"the {option} is {value}; give 1 or more (the paper: {', '.join(map(str, known))}).",
            )
            for option, value, known in (("rank", rank, RANKS), ("width", width, WIDTHS))
        ),
        ((width or 0) > WIDEST, f"the width is {width:,}; give at most {WIDEST:,}." if width else ""),
        (
            matrices is not None and matrices < 1,
            f"matrices is {matrices}; give 1 or more, or leave it out for all query and value matrices.",
        ),
        (
            optimizer is not None and not (row.several_tasks or row.needs_region),
            f"the recipe {name} has its own optimizer; leave it out: an optimizer goes with "
            f"{_named(lambda other: other.several_tasks or other.needs_region)}.",
        ),
        (
            optimizer not in (None, *OPTIMIZERS),
            f"'{optimizer}' is not an optimizer; known: {', '.join(OPTIMIZERS)}.",
        ),
        (grid not in (None, *GRIDS), f"'{grid}' is not a grid; known: {', '.join(GRIDS)}."),
        (
            searches and lr is not None,
            f"the grid {grid} tries learning rates of its own; leave out the rate (--lr) or the grid (--grid).",
        ),
        (
            searches and in_turn,
            f"{name} training has no grid: each stage would need one; give a rate (--lr) and --batch-size.",
        ),
        (
            extra_trained and name not in OPTIMIZERS,
            f"the recipe {name} decides what is trained; --train-embeddings and --train-head go with "
            f"{', '.join(OPTIMIZERS)}.",
        ),
    )
    return row


def _named(fits: Callable[[RecipeRow], bool]) -> str:
    names = [row.name for row in _ROWS if fits(row)]
    return listed(names, len(names))

"""The localizers by name: one row each. To add one: docs/add-a-localizer.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from skillviz.core.localizers.eligible import WITHIN
from skillviz.core.localizers.expression import RecipeOptions, by_recipe
from skillviz.core.localizers.fisher import FisherOptions, fisher
from skillviz.core.localizers.frank_wolfe import FrankWolfeOptions, frank_wolfe
from skillviz.core.localizers.learned import BASES, SELECTIONS, LearnedOptions, RankedOptions, learned, learned_ranked
from skillviz.core.localizers.linearized import LinearizedOptions, linearized
from skillviz.core.localizers.lottery import BY, LotteryOptions, lottery
from skillviz.core.localizers.option_types import kinds_text, layers_text
from skillviz.core.localizers.parts import KindsOptions, LayersOptions, biases, kinds, layers
from skillviz.core.localizers.record import Search
from skillviz.core.localizers.simple import FirstOrderOptions, MovementOptions, NoOptions, first_order, movement, random
from skillviz.core.localizers.stagewise import StagewiseOptions, stagewise
from skillviz.core.parameters import KINDS
from skillviz.core.region_expression import canonical, parsed
from skillviz.errors import BadInput, UnknownLocalizer

PAPER = "Panigrahi et al. 2023"
OURS = "skillviz"


@dataclass(frozen=True)
class Localizer:
    """A named way to choose a region.

    `budgeted`: it returns exactly the size asked for. `nested`: a smaller region is the beginning of a
    larger one's ranking, so one search answers all sizes. `seeded`: the seed changes the outcome. `rest`: what the
    graftable entries outside the region are: the base's values, or zero.
    """

    name: str
    title: str
    run: Callable[..., Search]
    options: type
    budgeted: bool
    nested: bool
    seeded: bool
    source: str
    sentence: str
    rest: str = "base"

    def make_options(self, given: Mapping[str, Any]) -> Any:
        """The options with the given values in place of defaults; raises BadInput on an unknown one."""
        known = {f.name: f for f in fields(self.options)}
        for name in given:
            if name not in known:
                allowed = ", ".join(known) or "none"
                raise BadInput(f"the localizer '{self.name}' has no option '{name}'; it has: {allowed}.")
        return self.options(**{name: _as(name, str(known[name].type), value) for name, value in given.items()})


def _as(name: str, kind: str, value: Any) -> Any:
    """The value as the option's type, within its range; raises BadInput.

    Counts are at least 1, shares lie in [0, 1], other numbers are finite and not negative.
    """
    try:
        made = CASTS.get(kind, tuple)(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{name}={value!r} is not {_RANGES.get(kind, kind)}, which this option takes.") from error
    if name.endswith("_share") and made > 1:
        raise BadInput(f"{name}={value!r} must be a share between 0 and 1.")
    low, high = LIMITS.get(name, (0.0, float("inf")))
    if kind in _NUMBERS and not low <= made <= high:
        raise BadInput(f"{name}={value!r} must lie between {low:g} and {high:g}.")
    if name in CHOICES and made not in CHOICES[name]:
        raise BadInput(f"{name}={value!r} is not known; use one of {', '.join(CHOICES[name])}.")
    return made


# Beyond these exp(bias) overflows, and no row of a Jacobian fits.
LIMITS = {"bias": (0.0, 100.0), "jacobian_gib": (0.01, 1024.0)}
CHOICES = {"base": BASES, "selection": SELECTIONS, "within": WITHIN, "by": BY}

_NUMBERS = {"int": "a whole number of at least 1", "float": "a finite number of at least 0"}
_RANGES = {
    **_NUMBERS,
    "LayersText": "the numbers of layers such as 0,1, or all",
    "KindsText": f"module kinds such as query,value (known: {', '.join(KINDS)}), or all",
}


def _count(value: Any) -> int:
    number = int(value)
    if number < 1 or number != float(value):
        raise ValueError(value)
    return number


def _recipe(value: Any) -> str:
    """The canonical text of a recipe, given as a text or an object."""
    return canonical(parsed(value))


def _number(value: Any) -> float:
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError(value)
    return number


CASTS: dict[str, Callable[[Any], Any]] = {
    "int": _count, "float": _number, "str": str, "RecipeText": _recipe, "LayersText": layers_text,
    "KindsText": kinds_text,
}  # fmt: skip

LOCALIZERS: dict[str, Localizer] = {
    row.name: row
    for row in (
        Localizer(
            "stagewise", "Stagewise", stagewise, StagewiseOptions, True, False, True, OURS,
            "Grows and mends the region a few entries at a time, each judged at the graft as it then stands.",
        ),
        Localizer(
            "frank-wolfe", "Frank-Wolfe", frank_wolfe, FrankWolfeOptions, True, False, True, OURS,
            "Moves a fractional region of fixed size towards the entries that gain most, then rounds it.",
        ),
        Localizer(
            "linearized", "Linearized", linearized, LinearizedOptions, True, False, True, OURS,
            "Solves a convex problem on the model linearized in its entries: the fast one.",
        ),
        Localizer(
            "learned", "Learned mask", learned, LearnedOptions, False, False, True, f"{PAPER}, Eq. 3-4",
            "The published learned mask with its own constants; its size is an outcome.",
        ),
        Localizer(
            "learned-ranked", "Learned mask, ranked", learned_ranked, RankedOptions, True, False, True, OURS,
            "The learned mask with a calibrated learning rate, cut at the size asked for.",
        ),
        Localizer(
            "first-order", "First-order", first_order, FirstOrderOptions, True, True, True, OURS,
            "One gradient at the base: the entries whose fine-tuned value lowers the loss most on their own.",
        ),
        Localizer(
            "movement", "Top movement", movement, MovementOptions, True, True, False, f"{PAPER}, Fig. 2",
            "The entries that moved most in fine-tuning.",
        ),
        Localizer(
            "random", "Random", random, NoOptions, True, True, True, f"{PAPER}, Fig. 2",
            "A uniform draw: the control.",
        ),
        Localizer(
            "recipe", "By hand", by_recipe, RecipeOptions, False, False, False, OURS,
            "The layers, kinds, rows and stored regions that a recipe names; its size is what it describes.",
        ),
        Localizer(
            "biases", "Biases", biases, NoOptions, False, False, False, f"{PAPER}, Fig. 4a",
            "All biases, those of LayerNorm too: what BitFit trains. Its size is theirs.",
        ),
        Localizer(
            "layers", "Whole layers", layers, LayersOptions, False, False, False, OURS,
            "Every graftable entry of the layers named, all of them by default; its size is theirs.",
        ),
        Localizer(
            "kinds", "Whole module kinds", kinds, KindsOptions, False, False, False, OURS,
            "Every graftable entry of the module kinds named, all of them by default; its size is theirs.",
        ),
        Localizer(
            "fisher", "Fisher (FISH mask)", fisher, FisherOptions, True, True, True, f"{PAPER}, Table 8",
            "The entries with the most Fisher information of the base model on the task; fine-tuning is not looked at.",
        ),
        Localizer(
            "lottery", "Lottery ticket (control: the rest is zero)", lottery, LotteryOptions, True, False, True,
            f"{PAPER}, Fig. 4b",
            "A control: the rest is zero instead of the base's values, and the region is learned for that.",
            rest="zero",
        ),
    )
}  # fmt: skip

DEFAULT_LOCALIZER = "stagewise"


def localizer(name: str) -> Localizer:
    """The row of that name; raises UnknownLocalizer with the known names."""
    if name not in LOCALIZERS:
        raise UnknownLocalizer(f"'{name}' is not a localizer; known: {', '.join(LOCALIZERS)}.")
    return LOCALIZERS[name]

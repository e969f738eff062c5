"""The localizers and their options in words, without torch: what a form shows. A test keeps it equal to the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skillviz.core.localizers.option_types import kinds_text, layers_text

Value = int | float | str


@dataclass(frozen=True)
class Option:
    """One option in a sentence. `choices` of a text, or `read`, which gives a typed one in its one form and raises
    ValueError; `paper` is the published value, None where there is no such."""

    name: str
    title: str
    sentence: str
    default: Value
    choices: tuple[str, ...] = ()
    most: float | None = None
    paper: Value | None = None
    read: Callable[[object], str] | None = None


@dataclass(frozen=True)
class Described:
    """A localizer as a form shows it; the flags are those of `table.Localizer`."""

    name: str
    sentence: str
    budgeted: bool
    nested: bool
    seeded: bool
    options: tuple[Option, ...] = ()
    rest: str = "base"

    def option(self, name: str) -> Option | None:
        """The option of this name, None where the localizer has none."""
        return next((option for option in self.options if option.name == name), None)


def _steps(default: int, paper: int | None = None) -> Option:
    said = "How often the loss is looked at anew: more steps find a better region and take longer."
    return Option("steps", "Steps", said, default, paper=paper)


def _batch(default: int, paper: int | None = None) -> Option:
    said = "Training examples whose gradient is taken in each step: more are less noisy and take longer."
    return Option("batch_size", "Examples a step", said, default, paper=paper)


def _examples(default: int) -> Option:
    return Option("examples", "Examples", "Training examples that are looked at; all, where there are fewer.", default)


def _candidates(default: float) -> Option:
    said = "Only this share of all parameters, those that moved most in fine-tuning, may be chosen."
    return Option("candidate_share", "Candidates (share)", said, default, most=1.0)


def _within() -> Option:
    said = "Which graftable parameters may be chosen: all, or the biases alone, those of LayerNorm too."
    return Option("within", "Chosen among", said, "all", ("all", "biases"))


def _learned(lr: float, base: str, selection: str, paper: bool) -> tuple[Option, ...]:
    """The options of the learned mask; `paper`: beside the published values."""

    def of(value: Value) -> Value | None:
        return value if paper else None

    return (
        Option(
            "lr", "Learning rate of the mask", "How far each step moves the scores behind the mask"
            + ("." if lr else "; 0 means: calibrated to the size asked for."), lr, paper=of(1e7),
        ),
        Option("bias", "Bias", "How far all entries begin from being switched.", 10.0, most=100.0, paper=of(10.0)),
        Option(
            "base", "Start from", "The region that the mask departs from: that of top movement, or none.",
            base, ("movement", "empty"), paper=of("movement"),
        ),
        Option(
            "base_share", "Size of the start (share)", "How large the start is, where it is top movement.",
            1e-5, most=1.0, paper=of(1e-5),
        ),
        Option(
            "selection", "Which step is kept", "What the rounded masks on the way are judged on; none keeps the last.",
            selection, ("validation", "train+validation", "none"), paper=of("train+validation"),
        ),
        Option("score_every", "Steps between judgements", "The last step is always judged.", 10, paper=of(1)),
    )  # fmt: skip


LOCALIZERS: dict[str, Described] = {
    row.name: row
    for row in (
        Described(
            "stagewise", "Grows and mends the region a few entries at a time, each judged at the graft as it then "
            "stands.", True, False, True,
            (
                _steps(50), _batch(128),
                Option(
                    "start_share", "Start (share of the size)", "How much of the region is taken from top movement "
                    "before the first step.", 0.1, most=1.0,
                ),
                Option(
                    "switch_share", "Switched a step (share of the size)", "At most this much is switched on, and as "
                    "much off, between two looks at the loss.", 0.02, most=1.0,
                ),
                _candidates(0.1),
            ),
        ),
        Described(
            "frank-wolfe", "Moves a fractional region of fixed size towards the entries that gain most, then rounds "
            "it.", True, False, True,
            (
                _steps(30), _batch(128), _candidates(0.1),
                Option(
                    "settle_share", "Settling (share of the steps)", "In the last steps entries are driven to be "
                    "wholly in or out.", 0.5, most=1.0,
                ),
            ),
        ),
        Described(
            "linearized", "Solves a convex problem on the model linearized in its entries: the fast one.",
            True, False, True,
            (
                _examples(768),
                Option("rounds", "Rounds", "How often the model is linearized: beyond the first, at the graft.", 1),
                _candidates(0.02),
                Option("iterations", "Iterations", "Steps of the convex problem, which need no model.", 100),
                Option(
                    "jacobian_gib", "Memory for gradients (GiB)", "Fewer examples are used where theirs need more.",
                    2.0, most=1024.0,
                ),
            ),
        ),
        Described(
            "learned", "The published learned mask with its own constants; its size is an outcome.",
            False, False, True,
            (_steps(100, 100), _batch(1024, 1024), *_learned(1e7, "movement", "validation", True)),
        ),
        Described(
            "learned-ranked", "The learned mask with a calibrated learning rate, cut at the size asked for.",
            True, False, True, (_steps(50), _batch(128), *_learned(0.0, "empty", "none", False), _within()),
        ),
        Described(
            "first-order", "One gradient at the base: the entries whose fine-tuned value lowers the loss most on their "
            "own.", True, True, True, (_examples(1024),),
        ),
        Described("movement", "The entries that moved most in fine-tuning.", True, True, False, (_within(),)),
        Described("random", "A uniform draw: the control.", True, True, True),
        Described(
            "recipe", "The layers, kinds, rows and stored regions that a recipe names; its size is what it describes.",
            False, False, False,
            (
                Option(
                    "recipe", "Recipe (JSON)", 'What the region is, such as {"layers": [0, 1], "kinds": ["value"]}; '
                    "the page Surgery writes it for you.", "{}",
                ),
            ),
        ),
        Described(
            "biases", "All biases, those of LayerNorm too: what BitFit trains. Its size is theirs.",
            False, False, False,
        ),
        Described(
            "layers", "Every graftable entry of the layers named, all of them by default; its size is theirs.",
            False, False, False,
            (
                Option(
                    "layers", "Layers", "Numbers from 0 with commas, such as 0,1; all takes every layer.", "all",
                    read=layers_text,
                ),
            ),
        ),
        Described(
            "kinds", "Every graftable entry of the module kinds named, all of them by default; its size is theirs.",
            False, False, False,
            (
                Option(
                    "kinds", "Module kinds", "With commas, of query, key, value, attention output, MLP in, MLP out, "
                    "LayerNorm, other; all takes every kind.", "all", read=kinds_text,
                ),
            ),
        ),
        Described(
            "fisher", "The entries with the most Fisher information of the base model on the task; fine-tuning is not "
            "looked at.", True, True, True, (_examples(1024),),
        ),
        Described(
            "lottery", "A control: the rest is zero instead of the base's values, and the region is learned for that.",
            True, False, True,
            (
                Option(
                    "by", "Chosen by", "Learned as the paper's mask is, beginning at the largest weights, or these "
                    "alone.", "learned", ("learned", "magnitude"),
                ),
                _steps(50), _batch(128), *_learned(0.0, "empty", "none", False)[:2],
            ),
            "zero",
        ),
    )
}  # fmt: skip


def rest_of(localizer: str) -> str:
    """What the graftable entries outside a region of this localizer are: `base`, or `zero` for a control."""
    found = LOCALIZERS.get(localizer)
    return found.rest if found else "base"

"""The localizers: one row each, without torch. To add one: docs/CONTRIBUTING.md.

A row has everything about a localizer except its arithmetic: words, options, promises, cost, style. The arithmetic is
the generator named by `run`; it is imported when a search starts. Commands, pages, figures, studies and
memory needs read this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from skillviz.core.architectures import KINDS
from skillviz.core.region_expression import Stored, canonical, parsed
from skillviz.errors import BadInput, UnknownLocalizer

if TYPE_CHECKING:  # these import torch
    from torch import Tensor

    from skillviz.core.localizers.record import Search, State
    from skillviz.core.problem import Problem

PAPER = "Panigrahi et al. 2023"
OURS = "skillviz"
EVERY = "all"
LABELS, OUTPUTS = "labels", "outputs"
MODEL, TENSOR = "model", "tensor"
NONE, SIGNS, NOISE = "none", "signs", "noise"

Value = int | float | str


# Options: frozen dataclasses whose fields have their own descriptions.


@dataclass(frozen=True)
class Option:
    """The description of one option: its range or choices, and the published value, None if there is none.

    `parse` returns a typed text in canonical form and raises ValueError; `expects` completes "... is not".
    `names_files`: it names folders or files, so no page has a field for it. `name` and `default` are the field's.
    """

    title: str
    sentence: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float | None = None
    paper: Value | None = None
    parse: Callable[[object], str] | None = None
    expects: str = ""
    names_files: bool = False
    name: str = ""
    default: Value = 0

    def read(self, value: Any) -> Value:
        """Return the value in this option's type and form; raises BadInput with the allowed values."""
        try:
            if self.parse is not None:
                result: Value = self.parse(value)
            elif isinstance(self.default, str):
                result = str(value)
            elif isinstance(self.default, int):
                result = _count(value)
            else:
                result = _number(value)
        except (TypeError, ValueError, OverflowError) as error:
            kind = "a whole number of at least 1" if isinstance(self.default, int) else "a finite number of at least 0"
            raise BadInput(f"{self.name}={value!r} is not {self.expects or kind}, which this option takes.") from error
        if not isinstance(result, str) and not self.low <= result <= (result if self.high is None else self.high):
            raise BadInput(f"{self.name}={value!r} must be between {self.low:g} and {self.high or 0:g}.")
        if self.choices and result not in self.choices:
            raise BadInput(f"{self.name}={value!r} is not known; use one of {', '.join(self.choices)}.")
        return result


def option(default: Value, title: str, sentence: str, **more: Any) -> Any:
    """Return a field of an options class that users may set; `more` are further fields of `Option`."""
    return field(default=default, metadata={"option": Option(title, sentence, **more)})


def filled(default: Any, instead: str) -> Any:
    """Return a field that a file or a stored run fills, never a user; `instead` says what to set instead."""
    return field(default=default, repr=False, metadata={"instead": instead})


def layers_text(value: object) -> str:
    """Return `all`, or the numbers of layers, sorted, with commas; raises ValueError."""
    words = _words(value)
    if words == [EVERY]:
        return EVERY
    numbers = sorted({int(word) for word in words})
    if not numbers or numbers[0] < 0:
        raise ValueError(value)
    return ",".join(map(str, numbers))


def kinds_text(value: object) -> str:
    """Return `all`, or the names of module kinds in their order, with commas; raises ValueError."""
    words = _words(value)
    if words == [EVERY]:
        return EVERY
    if not words or not set(words) <= set(KINDS):
        raise ValueError(value)
    return ",".join(kind for kind in KINDS if kind in words)


def models_text(value: object) -> str:
    """Return folders or names of models with commas, in their order; raises ValueError."""
    return ",".join(dict.fromkeys(_words(value)))


def _words(value: object) -> list[str]:
    """Return the items of a list, or of a text with commas; a single number is one item."""
    if isinstance(value, bool | float):
        raise ValueError(value)
    items = value if isinstance(value, list | tuple) else str(value).split(",")
    return [word for item in items if (word := str(item).strip())]


_MODELS: dict[str, Any] = {"parse": models_text, "expects": "names of models with commas", "names_files": True}


def _count(value: Any) -> int:
    number = int(value)
    if number < 1 or number != float(value):
        raise ValueError(value)
    return number


def _number(value: Any) -> float:
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError(value)
    return number


def _steps(default: int, paper: int | None = None) -> Any:
    sentence = "Gradient steps of the search. More steps find a better region and take longer."
    return option(default, "Steps", sentence, paper=paper)


def _batch_size(default: int, paper: int | None = None) -> Any:
    sentence = "Training examples per step. More examples give a less noisy gradient and take longer."
    return option(default, "Examples a step", sentence, paper=paper)


def _examples(default: int) -> Any:
    return option(default, "Examples", "Training examples to use; all of them if there are fewer.")


def _candidate_share(default: float) -> Any:
    sentence = "Only this share of all parameters can be chosen: those that fine-tuning moved most."
    return option(default, "Candidates (share)", sentence, high=1.0)


def _within() -> Any:
    sentence = "Which graftable parameters can be chosen: all of them, or only biases (including those of LayerNorm)."
    return option(EVERY, "Choose from", sentence, choices=(EVERY, "biases"))


def _lr(default: float, paper: float | None = None) -> Any:
    sentence = "How far each step moves the scores behind the mask" + ("." if default else "; 0 fits it to the size.")
    return option(default, "Learning rate of the mask", sentence, paper=paper)


def _bias(paper: float | None = None) -> Any:  # beyond 100, exp(bias) overflows
    return option(10.0, "Bias", "How far every parameter starts from being switched.", high=100.0, paper=paper)


STARTS = {
    "movement": "top movement",
    "empty": "no entry",
    "random": "a uniform draw",
    "lowest-layer": "top movement of the lowest layer",
}
"""The regions from which the learned mask may start, in words; all but the empty one have the same size."""


def _base(default: str, paper: str | None = None) -> Any:
    listed = ", ".join(STARTS.values())
    return option(default, "Start from", f"The region the mask starts from: {listed}.", choices=(*STARTS,), paper=paper)


def _selection(default: str, paper: str | None = None) -> Any:
    sentence = "The examples on which the rounded masks are compared; none keeps the last step."
    choices = ("validation", "train+validation", "none")
    return option(default, "Choose the step on", sentence, choices=choices, paper=paper)


@dataclass(frozen=True)
class NoOptions:
    """A localizer without options."""


@dataclass(frozen=True)
class StagewiseOptions:
    """`start_share` of the size comes from top movement; at most `switch_share` of it is switched per step.

    With `match` `outputs` the loss is the cross-entropy with the fine-tuned model's probabilities, as in distillation
    at temperature 1 (Hinton et al. 2015).
    """

    steps: int = _steps(50)
    batch_size: int = _batch_size(128)
    start_share: float = option(
        0.1, "Start (share of the size)", "How much of the region is top movement before the first step.", high=1.0
    )
    switch_share: float = option(
        0.02, "Switched a step (share of the size)",
        "At most this much is switched on, and as much off, between two gradients.", high=1.0,
    )  # fmt: skip
    candidate_share: float = _candidate_share(0.1)
    match: str = option(
        LABELS, "Match", "The reference for the graft's answers: the labels of the training texts, or the fine-tuned "
        "model's probabilities on them, so that labels are not used.", choices=(LABELS, OUTPUTS),
    )  # fmt: skip
    texts: str = option(
        "", "Texts", "A task whose training texts are searched instead of the run's own; only with match=outputs, as "
        "their labels are not used.", names_files=True,
    )  # fmt: skip


def matches_outputs(options: Any) -> bool:
    """True if a search with these options compares with the fine-tuned model's outputs instead of labels."""
    return getattr(options, "match", LABELS) == OUTPUTS


@dataclass(frozen=True)
class JudgedOptions:
    """`examples` training examples (at most a quarter) are held out to compare the last `judged` regions.

    Gradients do not use the held-out examples. At most size / (`grow_share` * `steps`) entries are switched on, and as
    many off, in a step.
    """

    steps: int = _steps(50)
    batch_size: int = _batch_size(128)
    start_share: float = option(
        0.1, "Start (share of the size)", "How much of the region is top movement before the first step.", high=1.0
    )
    grow_share: float = option(
        1.0, "Growing (share of the steps)",
        "In so many steps a region could grow from nothing; fewer make each step larger.", high=1.0,
    )  # fmt: skip
    judged: int = option(8, "Regions judged", "The regions of this many last steps are compared on held examples.")
    examples: int = option(512, "Held examples", "Training examples to compare regions on; at most a quarter of them.")
    candidate_share: float = _candidate_share(0.1)


@dataclass(frozen=True)
class NestedOptions:
    """Like `JudgedOptions`, for each rung of a ladder of sizes; `steps` and `judged` are per rung."""

    steps: int = option(
        15, "Steps a rung", "Gradient steps for each rung of the ladder of sizes, about three times apart."
    )
    batch_size: int = _batch_size(128)
    grow_share: float = option(
        0.6, "Growing (share of the steps)",
        "In so many steps a region could grow from nothing; fewer make each step larger.", high=1.0,
    )  # fmt: skip
    judged: int = option(3, "Regions judged", "The regions of this many last steps of a rung are compared.")
    examples: int = option(512, "Held examples", "Training examples to compare regions on; at most a quarter of them.")
    candidate_share: float = _candidate_share(0.1)


@dataclass(frozen=True)
class FrankWolfeOptions:
    """The step towards the vertex is 2 / (t + 3) at t = 0, 1, ...; entries settle in the last `settle_share`."""

    steps: int = _steps(30)
    batch_size: int = _batch_size(128)
    candidate_share: float = _candidate_share(0.1)
    settle_share: float = option(
        0.5, "Settling (share of the steps)", "In these last steps, parameters are forced fully in or out.", high=1.0
    )


@dataclass(frozen=True)
class LinearizedOptions:
    """`examples` give one Jacobian row for each class but one; `rounds` > 1 computes it again at the graft.

    `jacobian_gib` limits its memory: fewer examples are used if it would be larger.
    """

    examples: int = _examples(768)
    rounds: int = option(1, "Rounds", "How often the model is linearized; after the first round, at the graft.")
    candidate_share: float = _candidate_share(0.02)
    iterations: int = option(100, "Iterations", "Steps of the convex problem; they do not run the model.")
    jacobian_gib: float = option(
        2.0, "Memory for gradients (GiB)", "Fewer examples are used if their gradients need more.",
        low=0.01, high=1024.0,
    )  # fmt: skip


@dataclass(frozen=True)
class LearnedOptions:
    """The published constants: 100 steps of 1024 examples, learning rate 1e7, bias 10.

    `base`: the start of the mask, one of STARTS, with `base_share` of d entries; the entries in `base_indices` instead,
    if there are any. `selection`: the examples that select the best step, scored every
    `score_every` steps and at the last; `train+validation` is the published rule.
    """

    steps: int = _steps(100, paper=100)
    batch_size: int = _batch_size(1024, paper=1024)
    lr: float = _lr(1e7, paper=1e7)
    bias: float = _bias(paper=10.0)
    base: str = _base("movement", paper="movement")
    base_share: float = option(
        1e-5, "Size of the start (share)", "How large the start is, if it is not empty.", high=1.0, paper=1e-5
    )
    selection: str = _selection("validation", paper="train+validation")
    score_every: int = option(10, "Steps between scores", "The last step is always scored.", paper=1)
    base_indices: tuple[int, ...] | None = filled(None, "name a region file: base=RUN/region.safetensors")


@dataclass(frozen=True)
class RankedOptions(LearnedOptions):
    """Like `LearnedOptions`, from an empty base; `lr` 0 means calibrated to the requested size.

    The calibrated rate is exp(bias - 0.5) / (steps * c_k), with c_k the k-th largest first-order gain at the start
    (PAPER.md, section 4): about `size` entries then flip within the given steps. k is the size, but at most half of the
    entries that gain: the last of them gain next to nothing, and a rate that flips those would flip all others in one
    step. `within` `biases` lets only biases be chosen.
    """

    steps: int = _steps(50)
    batch_size: int = _batch_size(128)
    lr: float = _lr(0.0)
    base: str = _base("empty")
    selection: str = _selection("none")
    within: str = _within()


@dataclass(frozen=True)
class FirstOrderOptions:
    """`examples`: the training examples in the one pass; or in all `batches`, if gains are averaged or weighed.

    A batch's gains are averaged over `points` from base to fine-tuned. `weigh` `signs` multiplies an entry's mean gain
    by the share of batches with its sign, less the share with the other (Parascandolo et al. 2021 drop entries below a
    share). `noise` divides it by its standard error over the batches: the gradient's signal over its noise (Liu et al.
    2020).
    """

    examples: int = _examples(1024)
    points: int = option(
        1, "Points", "Gradients are averaged over so many points from the base to the fine-tuned model."
    )
    batches: int = option(
        8, "Batches", "With several points, or if batches are compared: the examples in so many parts."
    )
    weigh: str = option(
        NONE, "Weigh by", "Parameters whose gains have one sign in most batches (signs), or vary little between "
        "batches (noise); none takes the mean gain alone.", choices=(NONE, SIGNS, NOISE),
    )  # fmt: skip

    @property
    def is_averaged(self) -> bool:
        """True if one gradient at the base is not enough: several points, or batches that are compared."""
        return self.points > 1 or self.weigh != NONE


@dataclass(frozen=True)
class MovementOptions:
    """`within` `biases`: the largest movers among the biases (paper, Fig. 4a).

    `per` `tensor`: each tensor gives an equal share of its entries, as in layerwise pruning (Blalock et al. 2020).
    `other_models`: models of the same task and base by other seeds; the sum of their movements and of the squares,
    [2, d], are then in `other_movement`.
    """

    others: ClassVar[str] = "seeds"

    within: str = _within()
    per: str = option(
        MODEL, "Compare within", "The whole model, or each tensor, so that all tensors give an equal share of their "
        "parameters.", choices=(MODEL, TENSOR),
    )  # fmt: skip
    other_models: str = option(
        "", "Models of other seeds", "The same task fine-tuned with other seeds, with commas: parameters are then "
        "compared by the movement that all seeds share, relative to its spread.", **_MODELS,
    )  # fmt: skip
    other_movement: Tensor | None = filled(None, "name models: other_models=FOLDER,FOLDER")


@dataclass(frozen=True)
class ExpressionOptions:
    """`expression`: a region expression as JSON; `{}` is all d entries. `stored` returns regions of the runs in it."""

    expression: str = option(
        "{}", "Region (JSON)", 'What the region is, such as {"layers": [0, 1], "kinds": ["value"]}; the Surgery page '
        "writes it for you.", parse=lambda value: canonical(parsed(value)),
        expects="a region expression",
    )  # fmt: skip
    stored: Stored | None = filled(None, "name runs in the region expression")


@dataclass(frozen=True)
class LayersOptions:
    """`all` is every block, which is every graftable entry."""

    layers: str = option(
        EVERY, "Layers", "Numbers from 0 with commas, such as 0,1; all takes every layer.", parse=layers_text,
        expects="the numbers of layers such as 0,1, or all",
    )  # fmt: skip


@dataclass(frozen=True)
class KindsOptions:
    """`all` is every kind, which is every graftable entry."""

    kinds: str = option(
        EVERY, "Module kinds", f"With commas, from {', '.join(KINDS)}; all takes every kind.", parse=kinds_text,
        expects=f"module kinds such as query,value (known: {', '.join(KINDS)}), or all",
    )  # fmt: skip


@dataclass(frozen=True)
class MatchedOptions:
    """`reference`: the region whose number of entries in each tensor is matched.

    It is top movement of the requested size, or the region of a region file or of a study's run, whose entries are then
    in `reference_indices`.
    """

    reference: str = option(
        "movement", "Match", "The region whose layers and modules are matched: top movement, or a region file.",
        choices=("movement",),
    )  # fmt: skip
    reference_indices: tuple[int, ...] | None = filled(None, "name a region file: reference=RUN/region.safetensors")


@dataclass(frozen=True)
class ThresholdOptions:
    """`other_models`: models of other tasks, of the same base, whose summed movements, [1, d], are then in
    `other_movement`."""

    others: ClassVar[str] = "tasks"

    other_models: str = option(
        "", "Models of other tasks", "Other fine-tuned models of the same base, with commas; without any, the base's "
        "values stand for their movements.", **_MODELS,
    )  # fmt: skip
    other_movement: Tensor | None = filled(None, "name models: other_models=FOLDER,FOLDER")


@dataclass(frozen=True)
class StitchOptions:
    """The published constants of the language tasks, with `l1` 0, so there is no penalty here.

    They are 10 full passes, one step each, learning rate 1e7, bias 3, from the 0.001% largest movers. `lr` 0 means
    calibrated to the size: with c_k the k-th largest first-order gain at the start, exp(b) - exp(-b) + 2 b over
    (steps * c_k), the rate at which an entry of constant gain c_k would just cross to the other side.
    """

    steps: int = _steps(50)
    batch_size: int = _batch_size(128)
    lr: float = _lr(0.0)
    bias: float = option(3.0, "Bias", "How far every parameter starts from being switched.", low=0.01, high=100.0)
    base_share: float = option(
        1e-5, "Size of the start (share)", "The mask starts at this share of all parameters, by movement.", high=1.0
    )


@dataclass(frozen=True)
class GateOptions:
    """`lr` is in log-odds for each gradient as large as the price of an open gate."""

    steps: int = _steps(50)
    batch_size: int = _batch_size(128)
    lr: float = option(1.0, "Learning rate of the gates", "How far each step moves the log-odds of a gate.")
    penalty: float = option(
        1.0, "Penalty", "The price of an open gate: a multiple of the gain of the last parameter that fits the size."
    )


@dataclass(frozen=True)
class FisherOptions:
    """`examples`: the training examples over which the information is averaged.

    The paper gives no number; 1,024 is the batch of its learned mask (PAPER.md, section 5).
    """

    examples: int = _examples(1024)


@dataclass(frozen=True)
class LotteryOptions:
    """`by` is the lottery's own; the other options are those of `learned-ranked`."""

    by: str = option(
        "learned", "Choose by", "The paper's learned mask, started at the largest weights, or only their magnitude.",
        choices=("learned", "magnitude"),
    )  # fmt: skip
    steps: int = _steps(50)
    batch_size: int = _batch_size(128)
    lr: float = _lr(0.0)
    bias: float = _bias()


LEAN_CANDIDATES = 0.01
"""The default `candidate_share` of lean mode: some 60 bytes are kept of each candidate."""
GROUP_SHARE = 0.13
"""The limit of lean mode on the gradients in memory when all are needed, as a share of the model's bytes."""


# Costs: the examples that a search passes through the model, and its memory (runs/memory.py).

SCORED_EXAMPLES = 512  # examples of a split, drawn by class, for each rounded mask that `learned` compares


@dataclass(frozen=True)
class Workload:
    """The dimensions of a search: graftable entries `d`, classes, examples by split, the largest size in entries."""

    d: int
    labels: int
    train: int
    validation: int
    size: int


@dataclass(frozen=True)
class Cost:
    """The cost of one search: examples forward and backward, examples forward, vectors of d float32, further bytes."""

    backward: float = 0
    forward: float = 0
    vectors: float = 1.0
    bytes: float = 0


def _stepwise(vectors: float) -> Callable[[Any, Workload], Cost]:
    def cost(o: StagewiseOptions, work: Workload) -> Cost:
        forward = work.train if matches_outputs(o) else 0
        return Cost(backward=o.steps * min(o.batch_size, work.train), forward=forward, vectors=vectors)

    return cost


def _judged_cost(o: JudgedOptions, work: Workload) -> Cost:
    regions = min(o.judged, o.steps) + 1  # and top movement
    forward = regions * (min(o.examples, work.train // 4) or work.train)
    return Cost(backward=o.steps * min(o.batch_size, work.train), forward=forward, vectors=0.7)


def ladder(d: int) -> list[int]:
    """Return the sizes that a nested search climbs, ascending to d: each about three times the one below."""
    return sorted({ceil(d * 10 ** (-k / 2)) for k in range(10)})


def _nested_cost(o: NestedOptions, work: Workload) -> Cost:
    rungs = 1 + sum(rung < work.size for rung in ladder(work.d))
    forward = rungs * (min(o.judged, o.steps) + 1) * (min(o.examples, work.train // 4) or work.train)
    steps = rungs * o.steps
    return Cost(backward=steps * min(o.batch_size, work.train), forward=forward, vectors=1.7)


def _held(vectors: float) -> Callable[[Any, Workload], Cost]:
    return lambda o, work: Cost(vectors=vectors)


def _movement_cost(o: MovementOptions, work: Workload) -> Cost:
    return Cost(vectors=7 if o.other_models else 2)


def _learned_cost(o: LearnedOptions, work: Workload) -> Cost:
    scored = (o.steps // o.score_every + 2) * min(SCORED_EXAMPLES, work.validation)
    return Cost(backward=o.steps * min(o.batch_size, work.train), forward=scored, vectors=4)


def _linearized_cost(o: LinearizedOptions, work: Workload) -> Cost:
    candidates = max(o.candidate_share * work.d, 2 * min(work.size, work.d / 2))
    differences = max(1, work.labels - 1)
    rows = min(o.examples, work.train, o.jacobian_gib * 2**30 / (4 * candidates * differences))
    jacobian = 4 * rows * differences * candidates
    return Cost(backward=o.rounds * _single_gradients(rows, work), bytes=jacobian)


def _single_gradients(rows: float, work: Workload) -> float:
    """Return the number of passes that take as long as the gradients of single examples.

    A forward pass, and for each class but the first a backward pass, a fifth slower than a batch's.
    """
    return rows * (1 + 2 * 1.2 * max(1, work.labels - 1)) / 3


# The rows.


@cache
def _shown_options(options: type) -> tuple[Option, ...]:
    return tuple(
        replace(f.metadata["option"], name=f.name, default=f.default) for f in fields(options) if "option" in f.metadata
    )


@dataclass(frozen=True)
class Localizer:
    """A named way to choose a region.

    `title` is used in legends and sentences, `run` is "module:function" of its generator, `color`, `marker` and `dash`
    are plotly's. `budgeted`: it returns exactly the requested size; otherwise the size is an outcome. `nested`: a
    smaller region is a prefix of a larger one's ranking. `seeded`: the seed changes the outcome. `rest`: the values of
    the graftable entries outside the region: the base's, or zero. `rescaled`: the values inside are not the fine-tuned
    ones but base + movement * d / size. `lean`: it needs no vector of all entries, so lean mode supports it.
    `compares_answers`: it takes the gradient of each answer's score, so there must be several; not if a text is
    generated. `has_null`: its result on a null movement is its null (core/nulls.py); not if the places are drawn or
    given, or if it makes no graft. `learns_signs`: it accumulates first-order scores, so it can choose the sign of each
    entry too. `fixed`: its region depends on its options and seed, not on data or values. `method` is its graft in
    tables of studies, where comparisons have their own names.
    """

    name: str
    title: str
    sentence: str
    source: str
    run: str
    options: type
    budgeted: bool
    nested: bool
    seeded: bool
    cost: Callable[[Any, Workload], Cost]
    color: str
    marker: str
    dash: str
    rest: Literal["base", "zero"] = "base"
    rescaled: bool = False
    method: str = "graft"
    lean: bool = False
    compares_answers: bool = False
    has_null: bool = True
    learns_signs: bool = False
    fixed: bool = False

    @property
    def is_one_search(self) -> bool:
        """True if one search gives the regions of all requested sizes."""
        return self.nested or not self.budgeted

    @property
    def makes_graft(self) -> bool:
        """True if its region is scored with the fine-tuned values on the base, so that it can be exported."""
        return self.rest == "base" and not self.rescaled

    @property
    def region_option(self) -> str | None:
        """The option that may name a region file, whose entries then fill the field `<option>_indices`."""
        names = (f.name.removesuffix("_indices") for f in fields(self.options) if f.name.endswith("_indices"))
        return next(names, None)

    @property
    def is_search(self) -> bool:
        """True if it searches for a graft in steps on the task's examples: no ranking, control or list of parts."""
        return self.seeded and not self.nested and self.rest == "base"

    @property
    def is_from_paper(self) -> bool:
        """True if the paper uses or compares it."""
        return self.source.startswith(PAPER)

    @property
    def shown_options(self) -> tuple[Option, ...]:
        """The options that users may set, in order."""
        return _shown_options(self.options)

    def option(self, name: str) -> Option | None:
        """Return the option of this name, None if the localizer has none."""
        return next((row for row in self.shown_options if row.name == name), None)

    def make_options(self, given: Mapping[str, Any]) -> Any:
        """Return the options with the given values, else defaults; raises BadInput for an unknown or wrong one."""
        known = {f.name for f in fields(self.options)}
        rows = {row.name: row for row in self.shown_options}
        for name in given:
            if name not in known:
                allowed = ", ".join(rows) or "none"
                raise BadInput(f"the localizer '{self.name}' has no option '{name}'; it has: {allowed}.")
        return self.options(
            **{name: rows[name].read(value) if name in rows else value for name, value in given.items()}
        )

    def search(self, problem: Problem, size: int, *, seed: int, options: Any, resume: State | None = None) -> Search:
        """Yield the steps of a search; return its selection, with a remark if entries did not move. Imports torch."""
        module, _, function = self.run.partition(":")
        state = {} if resume is None else {"resume": resume}  # a stateless one need not accept `resume`
        found = yield from getattr(import_module(module), function)(problem, size, seed=seed, options=options, **state)
        return found.counted(problem) if self.rest == "base" else found


LOCALIZERS: dict[str, Localizer] = {
    row.name: row
    for row in (
        Localizer(
            "stagewise", "stagewise",
            "Grows the region a few parameters at a time and drops those that stop helping, judged at the current "
            "graft.",
            OURS, "skillviz.core.localizers.stagewise:stagewise", StagewiseOptions,
            budgeted=True, nested=False, seeded=True, cost=_stepwise(0.5), lean=True, learns_signs=True,
            color="#1D5FD1", marker="square", dash="solid",
        ),
        Localizer(
            "stagewise-judged", "stagewise, judged",
            "Grows the region as stagewise does, with fewer switches at the end, and keeps the region that does best "
            "on held training examples; top movement if none does better.",
            OURS, "skillviz.core.localizers.stagewise:stagewise_judged", JudgedOptions,
            budgeted=True, nested=False, seeded=True, cost=_judged_cost, lean=True, learns_signs=True,
            color="#00A0A0", marker="square-cross", dash="12px,3px",
        ),
        Localizer(
            "stagewise-nested", "stagewise, nested",
            "One search for all sizes: each region grows around the next smaller one, judged on held training "
            "examples.",
            OURS, "skillviz.core.localizers.stagewise:stagewise_nested", NestedOptions,
            budgeted=True, nested=True, seeded=True, cost=_nested_cost, lean=True, learns_signs=True,
            color="#B47818", marker="square-x", dash="2px,6px",
        ),
        Localizer(
            "frank-wolfe", "Frank-Wolfe",
            "Moves a fractional region of fixed size towards the parameters that gain most, then rounds it.",
            OURS, "skillviz.core.localizers.frank_wolfe:frank_wolfe", FrankWolfeOptions,
            budgeted=True, nested=False, seeded=True, cost=_stepwise(1.6), lean=True,
            color="#8B3FD9", marker="triangle-up", dash="longdash",
        ),
        Localizer(
            "linearized", "linearized",
            "Solves a convex problem on the model linearized in its parameters: the fast one.",
            OURS, "skillviz.core.localizers.linearized:linearized", LinearizedOptions,
            budgeted=True, nested=False, seeded=True, cost=_linearized_cost, compares_answers=True,
            color="#D6247F", marker="pentagon", dash="dashdot",
        ),
        Localizer(
            "learned", "learned",
            "The paper's learned mask with its own constants; its size is an outcome.",
            f"{PAPER}, Eq. 3-4", "skillviz.core.localizers.learned:learned", LearnedOptions,
            budgeted=False, nested=False, seeded=True, cost=_learned_cost,
            color="#0085AD", marker="star", dash="8px,3px",
        ),
        Localizer(
            "learned-ranked", "learned, ranked",
            "The learned mask with a calibrated learning rate, cut at exactly the chosen size.",
            OURS, "skillviz.core.localizers.learned:learned_ranked", RankedOptions,
            budgeted=True, nested=False, seeded=True, cost=_stepwise(4),
            color="#7A7D00", marker="triangle-down", dash="longdashdot",
        ),
        Localizer(
            "first-order", "first-order",
            "One gradient at the base: the parameters whose fine-tuned value lowers the loss most on its own.",
            OURS, "skillviz.core.localizers.simple:first_order", FirstOrderOptions,
            budgeted=True, nested=True, seeded=True, lean=True,
            cost=lambda o, work: Cost(
                backward=o.points * min(o.examples, work.train), vectors=6 if o.is_averaged else 2
            ),
            color="#C8143F", marker="x", dash="dash",
        ),
        Localizer(
            "movement", "top movement", "The parameters that fine-tuning moved most.",
            f"{PAPER}, Fig. 2", "skillviz.core.localizers.simple:movement", MovementOptions,
            budgeted=True, nested=True, seeded=False, cost=_movement_cost, method="graft_movement", lean=True,
            color="#7D5F3A", marker="square-open", dash="5px,5px",
        ),
        Localizer(
            "random", "random", "A uniform draw: the control.",
            f"{PAPER}, Fig. 2", "skillviz.core.localizers.simple:random", NoOptions,
            budgeted=True, nested=True, seeded=True, cost=_held(4), method="graft_random", lean=True, has_null=False,
            fixed=True,
            color="#B56576", marker="cross", dash="dot",
        ),
        Localizer(
            "expression", "by hand",
            "The layers, kinds, rows and stored regions that you name; its size is what they hold.",
            OURS, "skillviz.core.localizers.parts:by_hand", ExpressionOptions,
            budgeted=False, nested=False, seeded=False, cost=_held(3), has_null=False,
            color="#D050C8", marker="triangle-left", dash="4px,2px",
        ),
        Localizer(
            "biases", "biases",
            "All biases, including those of LayerNorm: what BitFit trains.",
            f"{PAPER}, Fig. 4a", "skillviz.core.localizers.parts:biases", NoOptions,
            budgeted=False, nested=False, seeded=False, cost=_held(2), method="graft_biases", has_null=False,
            fixed=True,
            color="#A075BC", marker="triangle-right", dash="6px,2px,2px,2px",
        ),
        Localizer(
            "layers", "whole layers",
            "Every graftable parameter of the layers you name; all layers by default.",
            OURS, "skillviz.core.localizers.parts:layers", LayersOptions,
            budgeted=False, nested=False, seeded=False, cost=_held(3), has_null=False, fixed=True,
            color="#11A011", marker="hexagon2", dash="9px,4px",
        ),
        Localizer(
            "kinds", "whole kinds",
            "Every graftable parameter of the module kinds you name; all kinds by default.",
            OURS, "skillviz.core.localizers.parts:kinds", KindsOptions,
            budgeted=False, nested=False, seeded=False, cost=_held(3), has_null=False, fixed=True,
            color="#9900FF", marker="octagon", dash="2px,3px",
        ),
        Localizer(
            "fisher", "Fisher",
            "The FISH mask: the parameters with the most Fisher information of the base model on the task. It does "
            "not look at how far fine-tuning moved them.",
            f"{PAPER}, Table 8", "skillviz.core.localizers.fisher:fisher", FisherOptions,
            budgeted=True, nested=True, seeded=True, method="graft_fish", compares_answers=True,
            cost=lambda o, work: Cost(backward=_single_gradients(min(o.examples, work.train), work), vectors=4),
            color="#FF0000", marker="star-triangle-up", dash="6px,3px,1px,3px",
        ),
        Localizer(
            "random-matched", "random, matched",
            "A uniform draw with as many parameters in each layer and module as top movement, or as a region you name: "
            "the control for where a region is.",
            OURS, "skillviz.core.localizers.simple:random_matched", MatchedOptions,
            budgeted=True, nested=True, seeded=True, cost=_held(5), method="graft_matched", has_null=False,
            color="#CC7755", marker="cross-thin-open", dash="3px,6px",
        ),
        Localizer(
            "magnitude", "weight magnitude",
            "The parameters whose fine-tuned values are largest, among those that moved.",
            "Han et al. 2015", "skillviz.core.localizers.simple:magnitude", NoOptions,
            budgeted=True, nested=True, seeded=False, cost=_held(2), method="graft_magnitude",
            color="#1188DD", marker="diamond-tall-open", dash="10px,2px,2px,2px",
        ),
        Localizer(
            "tall-mask", "task-vector threshold",
            "The parameters that moved most relative to what the models of other tasks moved them (TALL-masks); "
            "without such models, relative to their value before.",
            "after Wang et al. 2024 (TALL-masks)", "skillviz.core.localizers.simple:tall_mask", ThresholdOptions,
            budgeted=True, nested=True, seeded=False, cost=_held(3), method="graft_tall_mask",
            color="#337722", marker="hourglass", dash="5px,1px",
        ),
        Localizer(
            "localize-and-stitch", "Localize-and-Stitch",
            "The mask of Localize-and-Stitch: a sigmoid mask that starts at the largest movers and is trained on the "
            "task, cut at exactly the chosen size.",
            "after He et al. 2024 (Localize-and-Stitch)", "skillviz.core.localizers.gates:localize_and_stitch",
            StitchOptions,
            budgeted=True, nested=False, seeded=True, cost=_stepwise(4), method="graft_stitch",
            color="#FF00BB", marker="star-diamond", dash="7px,3px,3px,3px",
        ),
        Localizer(
            "l0-gates", "L0 gates",
            "The gates of diff pruning, trained on the movement of this fine-tuned model instead of together with it; "
            "the parameters whose gates are most likely open.",
            "after Guo et al. 2021 (diff pruning)", "skillviz.core.localizers.gates:l0_gates", GateOptions,
            budgeted=True, nested=False, seeded=True, cost=_stepwise(6), method="graft_l0",
            color="#0055FF", marker="hexagram", dash="2px,8px",
        ),
        Localizer(
            "dare", "DARE (control: rescaled)",
            "A control: a uniform draw whose movement is multiplied so that the expected sum stays. Its values are not "
            "the fine-tuned ones.",
            "after Yu et al. 2024 (DARE)", "skillviz.core.localizers.simple:dare", NoOptions,
            budgeted=True, nested=True, seeded=True, cost=_held(4), rescaled=True, method="graft_dare",
            has_null=False,
            color="#AA77EE", marker="y-down-open", dash="1px,2px",
        ),
        Localizer(
            "lottery", "lottery (control: the rest is zero)",
            "A control: the rest is zero instead of the base's values, and the region is learned for that.",
            f"{PAPER}, Fig. 4b", "skillviz.core.localizers.learned:lottery", LotteryOptions,
            budgeted=True, nested=False, seeded=True, cost=_stepwise(5), rest="zero", method="graft_lottery",
            has_null=False,
            color="#FF00FE", marker="asterisk-open", dash="1px,4px",
        ),
    )
}  # fmt: skip

DEFAULT_LOCALIZER = "stagewise"
EXPRESSION = "expression"
"""The localizer of a region expression, and its option."""


def localizer(name: str) -> Localizer:
    """Return the row of that name; raises UnknownLocalizer with the known names."""
    if name not in LOCALIZERS:
        raise UnknownLocalizer(f"'{name}' is not a localizer; known: {', '.join(LOCALIZERS)}.")
    return LOCALIZERS[name]


OUTCOME_SIZED = tuple(row.name for row in LOCALIZERS.values() if not row.budgeted)
"""Localizers whose regions' size is an outcome, not the requested size."""


RIVALS = tuple(
    dict.fromkeys(
        row.method for row in LOCALIZERS.values() if row.budgeted and row.rest == "base" and row.method != "graft"
    )
)
"""Methods that studies compare with the graft of a search, at equal size."""


def makes_graft(name: str) -> bool:
    """True if the regions of this localizer are grafts, which can be exported; false for controls."""
    return name not in LOCALIZERS or LOCALIZERS[name].makes_graft


def has_null(name: str) -> bool:
    """True if the search of this localizer can also be run on null movements (core/nulls.py)."""
    return name in LOCALIZERS and LOCALIZERS[name].has_null


def is_rescaled(name: str) -> bool:
    """True if the values inside a region of this localizer are rescaled instead of the fine-tuned ones."""
    return name in LOCALIZERS and LOCALIZERS[name].rescaled


def rest_of(name: str) -> str:
    """The values of the graftable entries outside a region of this localizer: `base`, or `zero` for a control."""
    return LOCALIZERS[name].rest if name in LOCALIZERS else "base"


def has_outcome_size(name: str) -> bool:
    """True if the size of this localizer's regions is an outcome, not the requested size."""
    return name in OUTCOME_SIZED

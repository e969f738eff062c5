"""Combinations that a run refuses before it exists, without torch: localizers, tasks, lean mode, CUDA graphs."""

from __future__ import annotations

from skillviz.core.localizers.table import LOCALIZERS, OUTPUTS, FirstOrderOptions, Localizer, localizer, makes_graft
from skillviz.errors import BadInput
from skillviz.models.lean_files import INSTEAD, lean_refusal
from skillviz.models.preflight import Preflight
from skillviz.runs.spec import RunSpec
from skillviz.tasks.task import GENERATION, Task

LEAVE_OUT = "leave CUDA graphs out"


def refuse_unsuited(spec: RunSpec, task: Task, check: Preflight, device: str = "") -> None:
    """Raise BadInput if the localizer cannot be used on the task, or in the spec's modes with this pair.

    `device` is the kind of device that the run will use, if known.
    """
    row = localizer(spec.localizer)
    error = (
        (refused_lean(row, check) if spec.lean else None)
        or (refused_graphs(row, device or spec.device, spec.lean, check) if spec.cuda_graphs else None)
        or refused_generation(row, task)
        or refused_gain(spec, task)
        or refused_outputs(spec, task)
        or (refused_average(row, spec) if spec.lean else None)
    )
    if error is not None:
        raise error


def refused_lean(row: Localizer, check: Preflight | None) -> BadInput | None:
    """Return the reason against lean mode for a localizer or pair, as far as the pair is known, or None."""
    if not row.lean:
        names = ", ".join(name for name, other in LOCALIZERS.items() if other.lean)
        return BadInput(
            f"the localizer '{row.name}' keeps numbers for every parameter, which lean mode has no room for; use one "
            f"of {names}, or {INSTEAD}."
        )
    return None if check is None else lean_refusal(check)


def refused_graphs(row: Localizer, device: str, is_lean: bool, check: Preflight | None) -> BadInput | None:
    """Return the reason against recording a search's passes as CUDA graphs, as far as is known, or None."""
    if device == "cpu":
        return BadInput(f"CUDA graphs need a GPU, and this run is on the CPU; {LEAVE_OUT}, or choose a GPU.")
    if is_lean:
        return BadInput("lean mode cannot record CUDA graphs; leave one of the two out.")
    if row.compares_answers:
        return BadInput(
            f"the localizer '{row.name}' takes gradients of single examples, which CUDA graphs do not record; "
            f"{LEAVE_OUT}, or use another localizer."
        )
    if check is not None and check.readout == "causal":
        return BadInput(f"the causal readout cannot be recorded as CUDA graphs; {LEAVE_OUT}, or use another readout.")
    return None


def refused_gain(spec: RunSpec, task: Task) -> BadInput | None:
    """Return the reason against a gain other than 1 for a localizer or task; None if there is none."""
    if spec.gain == 1:
        return None
    if not makes_graft(spec.localizer):
        return BadInput(f"the localizer '{spec.localizer}' makes no graft, so it has no gain; leave --gain out.")
    if task.kind == GENERATION:
        return BadInput("a gain needs a task with classes or options, and this one has references; leave --gain out.")
    return None


def refused_average(row: Localizer, spec: RunSpec) -> BadInput | None:
    """Return the reason against averaging gains in lean mode; None if the spec does not."""
    if row.options is not FirstOrderOptions or not row.make_options(spec.options).is_averaged:
        return None
    return BadInput(
        "in lean mode first-order takes one gradient at the base; leave points and weigh out, or lean mode."
    )


def refused_outputs(spec: RunSpec, task: Task) -> BadInput | None:
    """Return the reason against matching the fine-tuned model's outputs on a task; None if there is none."""
    if spec.options.get("match") != OUTPUTS or task.kind != GENERATION:
        return None
    return BadInput(f"match={OUTPUTS} needs a task with classes or options, and this one has references; leave it out.")


def refused_generation(row: Localizer, task: Task) -> BadInput | None:
    """Return the reason against a localizer for a task with references; None if there is none, and for other tasks."""
    if not row.compares_answers or task.kind != GENERATION:
        return None
    names = ", ".join(name for name, other in LOCALIZERS.items() if other.is_search and not other.compares_answers)
    return BadInput(
        f"the localizer '{row.name}' compares the scores of several answers, and "
        f"{'a text that is generated' if task.generates else 'each example'} has one reference; use another, such as "
        f"{names}."
    )

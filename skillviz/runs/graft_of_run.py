"""The graft of a stored run: its region with the fine-tuned values, read again from the run's own pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skillviz.core.comparison import Comparison
from skillviz.core.gain import Gain
from skillviz.core.graft import Graft
from skillviz.core.localizers.table import makes_graft
from skillviz.errors import BadInput, PairMismatch, SkillvizError
from skillviz.models.lean_pair import load_lean
from skillviz.models.load import DTYPES
from skillviz.models.pair import NO_GRAFT, ModelPair, load_pair
from skillviz.runs.held_out import data_record
from skillviz.runs.run import Run
from skillviz.tasks import registry
from skillviz.tasks.definition import UNCOMPARED, compared, definition
from skillviz.tasks.project import expanded


def graft_of_run(
    run: Run, base: str | None = None, finetuned: str | None = None, gain: Gain | None = None
) -> tuple[Graft, list[str]]:
    """Return the graft of a run's main region, in the narrowest dtype that holds its values exactly, and remarks on it.

    Its gain is the run's own unless another is given. `base` and `finetuned` are the paths of the models if they are
    not at the paths in the run. Raises PairMismatch if the models are not the run's, BadInput for a control that makes
    no graft.
    """
    spec = run.spec
    if not makes_graft(spec.localizer):
        raise BadInput(NO_GRAFT)
    models = expanded(base or spec.base, "base"), expanded(finetuned or spec.finetuned, "finetuned")
    load: Callable[..., ModelPair] = load_lean if spec.lean else load_pair
    own = run.record.gain
    scale = own if gain is None else gain
    dtype = {} if scale == 1 else {"dtype": spec.dtype}  # round the scaled values as they were when scored
    pair = load(*models, readout=run.record.readout or spec.readout, device="cpu", **dtype)
    check_fingerprints(run, pair)
    prompt, remarks = prompt_of(run)
    provenance = _provenance(run)
    if scale != own:
        del provenance["metrics"]  # they belong to the graft at the run's own gain
    with pair.with_gain(scale):
        graft = pair.graft(run.region(), {**provenance, **prompt})
    return _narrowed(graft, pair.finetuned_info.dtype), remarks


def check_fingerprints(run: Run, pair: ModelPair) -> None:
    """Raise PairMismatch if a model's weights differ from those the run was made with."""
    for word, info, stored in (
        ("base", pair.base_info, run.record.base),
        ("finetuned", pair.finetuned_info, run.record.finetuned),
    ):
        if stored is not None and stored.fingerprint != info.fingerprint:
            raise PairMismatch(
                f"'{info.id}' is not the {word} model of run {run.id}: its weights have the fingerprint "
                f"{info.fingerprint[:12]}, the run's {stored.fingerprint[:12]}; name the right one with --{word}."
            )


def _provenance(run: Run) -> dict[str, Any]:
    """Return the header fields that identify the run of the graft."""
    record, task = run.record, run.record.task
    return {
        "run_id": run.id,
        "localizer": record.spec.localizer,
        "seed": record.spec.seed,
        "dtype": record.spec.dtype,
        "task": task.name if task else record.spec.task,
        "labels": list(task.labels) if task and not task.has_reference else [],
        **({"data": data_record(task.name, task.labels, task.fingerprint, task.counts, record.spec)} if task else {}),
        "metrics": run.headline()["metrics"],
    }


def prompt_of(run: Run) -> tuple[dict[str, Any], list[str]]:
    """Return template and label words of a prompt or causal readout, and notes that explain missing ones."""
    readout = run.record.readout or run.spec.readout
    if readout not in ("prompt", "causal"):
        return {}, []
    try:
        task = registry.task(run.spec.task, "task")
        is_same = compared(run.record.task.definition, definition(task)) if run.record.task else Comparison.UNKNOWN
        if is_same is Comparison.DIFFERENT:
            raise BadInput(f"the definition of the task '{task.name}' has changed since the run was made.")
        template, label_words = task.wording(readout)
    except SkillvizError as error:
        return {}, [f"The graft file does not hold its prompt: {error}"]
    notes = [UNCOMPARED.format(task.name)] if is_same is Comparison.UNKNOWN else []
    return {"template": template, "label_words": list(label_words)}, notes


def _narrowed(graft: Graft, dtype: str) -> Graft:
    """Return the graft in the fine-tuned file's own dtype if that loses nothing."""
    narrow = DTYPES[dtype]
    parts = (graft.values, graft.head, graft.rows)
    tensors = [tensor for part in parts for tensor in part.values()]
    if not all(bool((t.to(narrow).to(t.dtype) == t).all()) for t in tensors):
        return graft
    values, head, rows = ({name: tensor.to(narrow) for name, tensor in part.items()} for part in parts)
    return replace(graft, values=values, head=head, rows=rows)

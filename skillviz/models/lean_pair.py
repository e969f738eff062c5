"""A pair in lean mode: one model in memory, in its own dtype; both models' values are read from their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skillviz.core.lean import PART, LeanModel, LeanProblem, parts_of
from skillviz.core.parameters import graftable
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.checkpoint import Stored
from skillviz.models.pair import (
    ModelPair,
    between,
    checked_pair,
    head_names,
    load_base,
    load_finetuned,
    moved_notes,
    refuse_more_tokens,
    refuse_unmoved,
)
from skillviz.models.preflight import INSTEAD, Preflight, lean_refusal, stored_as
from skillviz.models.stored_vector import StoredTensors, StoredVector, read
from skillviz.models.tokenizer import fit_together, load_tokenizer, usual_length
from skillviz.tasks.task import Task

FROM_BASE = ("pretrained", "grafted")
LEAN_TOKENS = {"cpu": 512, "cuda": 4096}


class Outside(Mapping[str, tuple[Tensor, Tensor]]):
    """Non-graftable tensors that moved, as (base, fine-tuned); each is read from its file on access."""

    def __init__(self, stored: Mapping[str, tuple[Stored, Stored]], dtype: torch.dtype) -> None:
        self.stored, self.dtype = stored, dtype

    def __getitem__(self, name: str) -> tuple[Tensor, Tensor]:
        base, finetuned = (read(one).to(self.dtype).view(one.shape) for one in self.stored[name])
        return base, finetuned

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)


@dataclass(repr=False)
class LeanPair(ModelPair):
    """A pair whose `base` and `finetuned` are vectors of stored values. `setting` is the state the model is in."""

    problem_type = LeanProblem

    flat: LeanModel
    base: StoredVector  # type: ignore[assignment]
    finetuned: StoredVector  # type: ignore[assignment]
    outside: Outside  # type: ignore[assignment]
    setting: tuple[str, Region | None] = ("pretrained", None)

    @property
    def is_vector(self) -> bool:
        """False, because the vectors are not in memory."""
        return False

    @property
    def micro_tokens(self) -> int:
        """Padded tokens of a micro-batch: few on a GPU, where the activations would exceed the model's size."""
        return LEAN_TOKENS[self.device.type]

    @contextmanager
    def at(self, state: str, region: Region | None = None) -> Iterator[ModelPair]:
        """Like `ModelPair.at`, but every state is read from the files, and nothing of the previous one is kept."""
        region = self._region_of(state, region)
        before = self.setting
        try:
            self._set_state(state, region)
            yield self
        finally:
            self._set_state(*before)

    def tensors_of(self, end: StoredVector) -> Mapping[str, Tensor]:  # type: ignore[override]
        """Return the graftable tensors of `base` or `finetuned` by name, as stored; each is read on access."""
        return StoredTensors(end)

    def is_at(self, state: str) -> bool:
        """True if every graftable entry has the bits of the state pretrained or finetuned."""
        return self.flat.has_bits_of(self.base if state == "pretrained" else self.finetuned)

    def put_between(self, alpha: float, region: Region | None = None) -> None:
        """Move the model, which is at base, by the share `alpha` of the way to the fine-tuned model or to a graft."""
        if region is not None:
            self.setting = ("grafted", region)
            for number, parameter in enumerate(self.table.parameters):
                if (chosen := region.indices.get(parameter.name)) is not None:
                    local = torch.from_numpy(chosen.copy())
                    base, tuned = (v.at(number, local).to(self.flat.dtype) for v in (self.base, self.finetuned))
                    values = between(base, self.at_gain(local + int(self.table.offsets[number]), base, tuned), alpha)
                    own = self.flat.parameters[number].data
                    own.put_(local.to(own.device), values.to(own))
            return
        self.setting = ("between", None)
        for number, start, end in parts_of(self.table):
            base, tuned = (vector.part(number, start, end) for vector in (self.base, self.finetuned))
            values = between(base.to(self.flat.dtype), tuned.to(self.flat.dtype), alpha)
            self.flat.parameters[number].data.view(-1)[start:end].copy_(values)
        for name, outside in self._outside_parameters():
            outside.copy_(between(*self.outside[name], alpha))

    def _set_state(self, state: str, region: Region | None) -> None:
        now, (was, before) = state in FROM_BASE, self.setting
        if was == "between" or now != (was in FROM_BASE):
            self.setting = ("between", None)  # valid if an error interrupts the copying
            self.flat.copy_from(self.base if now else self.finetuned)
            for name, parameter in self._outside_parameters():
                parameter.copy_(self.outside[name][0 if now else 1])
        elif before is not None:
            self._copy(self.base if now else self.finetuned, before)
        self.setting = (state, region if state in ("grafted", "complement") else None)
        if self.setting[1] is not None and state == "grafted" and self.gain != 1:
            self.put_between(1.0, self.setting[1])
        elif self.setting[1] is not None:
            self._copy(self.finetuned if now else self.base, self.setting[1])

    def _copy(self, values: StoredVector, region: Region) -> None:
        """Copy a model's values to the region's entries."""
        for number, parameter in enumerate(self.table.parameters):
            own = self.flat.parameters[number].data
            if region.has_all_of(parameter.name):
                for start in range(0, parameter.size, PART):
                    end = min(start + PART, parameter.size)
                    own.view(-1)[start:end].copy_(values.part(number, start, end))
            elif (chosen := region.indices.get(parameter.name)) is not None:
                local = torch.from_numpy(chosen.copy())
                own.put_(local.to(own.device), values.at(number, local).to(own))


def load_lean(
    base: str | Path,
    finetuned: str | Path,
    *,
    readout: str | None = None,
    task: Task | str | Path | None = None,
    device: str = "auto",
    dtype: str = "own",
) -> LeanPair:
    """Return the pair in lean mode, at base.

    It is like `load_pair`, but with one model and no vector of its entries in memory. Raises the errors of `load_pair`,
    and BadInput if the files do not hold the values under the model's names.
    """
    check, where, kept = checked_pair(base, finetuned, readout, task, device, dtype)
    if (error := lean_refusal(check)) is not None:
        raise error
    model = load_finetuned(check, kept, device_map=device_map(check, where, kept))
    tokenizer = load_tokenizer(check.tokenizer_folder)
    refuse_more_tokens(model, tokenizer)
    fit_together(model, tokenizer)
    load_base(check, model, kept, hollow=True)  # raises an error if something does not fit
    if getattr(model, "hf_device_map", None) is None:
        model.to(where)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    table = graftable(model.config.model_type, shapes, model.config.to_dict())
    flat = LeanModel(model, table)
    recompute_activations(model)
    first, second = (StoredVector(stored_as(i, table.shapes), table) for i in (check.base, check.finetuned))
    if not flat.has_bits_of(second):
        raise BadInput(f"lean mode cannot open '{check.finetuned.id}': it is changed as it is loaded; {INSTEAD}.")
    inside = set(table.names) | set(head_names(check.readout, table.model_type, shapes))
    rest = {name: shape for name, shape in shapes.items() if name not in inside}
    ends = zip(stored_as(check.base, rest), stored_as(check.finetuned, rest), strict=True)
    moved = {name: one for name, one in zip(rest, ends, strict=True) if not _same_stored(*one, kept)}
    outside = Outside(moved, kept)
    pair = LeanPair(
        flat, first, second, table, tokenizer, check.readout, check.base, check.finetuned,
        outside, check.notes, where, setting=("finetuned", None),
    )  # fmt: skip
    pair._set_state("pretrained", None)
    refuse_unmoved(counts := pair.movement.counts(), pair.d)
    pair.notes = (*check.notes, *moved_notes(table, counts, outside))
    pair.usual_length = usual_length(check.finetuned)
    pair.class_order = check.class_order
    return pair


def _same_stored(one: Stored, other: Stored, dtype: torch.dtype) -> bool:
    """True if two stored tensors have equal values in a dtype; read in parts."""
    n = prod(one.shape)
    bounds = ((start, min(start + PART, n)) for start in range(0, n, PART))
    return all(torch.equal(read(one, a, b).to(dtype), read(other, a, b).to(dtype)) for a, b in bounds)


def device_map(check: Preflight, where: torch.device, dtype: torch.dtype) -> str | None:
    """Return `auto`, accelerate's map over all GPUs, if the model does not fit on the free GPU; otherwise None."""
    if str(where) != "cuda" or torch.cuda.device_count() < 2:
        return None
    needed = 1.35 * sum(prod(shape) for shape in check.base.shapes.values()) * dtype.itemsize
    return "auto" if needed > torch.cuda.mem_get_info(where)[0] else None


def recompute_activations(model: Any) -> None:
    """Make the backward pass recompute each block's activations instead of keeping all of them.

    transformers does so only in training mode. So the blocks, and only they, are set to training mode, without dropout.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer  # takes seconds to import

    if not getattr(model, "supports_gradient_checkpointing", False):
        return
    model.activation_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    model.config.use_cache = False
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            for name, value in list(vars(module).items()):
                if "drop" in name and isinstance(value, float):
                    setattr(module, name, 0.0)
            module.training = True

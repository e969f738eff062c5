"""A base and a fine-tuned model as one object: equal parameters, one readout, one tokenizer, one model in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from torch import Tensor

from skillviz.core.batches import Batch
from skillviz.core.encoded import Encoded
from skillviz.core.flat import FlatModel
from skillviz.core.formats import counted
from skillviz.core.gain import Gain
from skillviz.core.graft import Graft, vocabulary_parameters
from skillviz.core.movement import NARROW, Counts, Movement
from skillviz.core.objective import Objective
from skillviz.core.parameters import ParameterTable, graftable, readout_names
from skillviz.core.problem import Problem
from skillviz.core.readout import Readout, columns, make_readout
from skillviz.core.region import Region
from skillviz.errors import BadInput, BadModel, PairMismatch, RandomHead
from skillviz.models import adapters, bottleneck, lora
from skillviz.models import frozen_tensors as frozen
from skillviz.models.checkpoint import ModelInfo, own_dtype
from skillviz.models.class_order import names_of_pair
from skillviz.models.device import pick
from skillviz.models.heads import reads_end
from skillviz.models.load import DTYPES, load_model, quiet
from skillviz.models.preflight import Preflight, as_loaded, is_padded, preflight
from skillviz.models.tokenizer import encoded_for, fit_together, load_tokenizer, usual_length
from skillviz.models.tokenizer_comparison import added_tokens
from skillviz.tasks import registry
from skillviz.tasks.task import USUAL_LENGTH, Task

PAIR_DTYPES = ("float32", "bfloat16", "own")
RESTS = ("base", "zero")
STATES = ("pretrained", "finetuned", "grafted", "complement")
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
IDENTICAL = (
    "base and fine-tuned model are identical in every graftable parameter, so there is no skill to localize; "
    "give the model before and after fine-tuning."
)
ROUNDED = (
    "base and fine-tuned model differ only by rounding: one is the other stored as {}, so there is no skill to "
    "localize; give the model before and after fine-tuning."
)
NO_GRAFT = (
    "this region is a control (lottery: the rest is zero; DARE: the values are rescaled), so it is no graft of the "
    "base and cannot be exported; export a run of another localizer."
)

OTHER_TOKENIZER = (
    "fine-tuning added tokens to this model, and its tokenizer is not the base's with tokens added, so base and graft "
    "together would not be the model that was scored; share the fine-tuned model and the run instead."
)


@dataclass(frozen=True)
class OrderedReadout:
    """A head's class scores in the order of the task's labels, if the head's own order differs."""

    head: Readout
    order: tuple[int, ...]

    @property
    def name(self) -> str:
        """The readout's name."""
        return self.head.name

    def logits(self, model: Any, batch: Batch) -> Tensor:
        """Return class scores [batch, label]."""
        logits = self.head.logits(model, batch)
        return logits[:, columns(self.order, logits.device)]


@dataclass(repr=False)
class ModelPair:
    """A checked pair: `flat.model` is at the base by default, with the fine-tuned head; `base`, `finetuned` are [d].

    `outside` holds non-graftable tensors that moved (embeddings, a language-model head), as (base, fine-tuned); only
    the state `finetuned` and the complement have their fine-tuned values. `class_order` are the head's outputs in the
    order of the task's labels, None if that is the head's own order. With `rest` zero, a control, `base` is all zeros:
    all entries outside a region are zero, and so is the whole pre-trained state. With `rescaled`, another control, the
    state grafted has base + movement * d / size inside the region; with a `gain` other than 1 it has base + gain *
    movement; `gain` may be one factor by module kind. `added_rows` are the numbers of the vocabulary rows of tokens
    that fine-tuning added; they are the fine-tuned model's in every state. `usual_length` is the longest input in
    tokens of a task that states none. `null` is the kind and draw of a null movement (models/null_pair.py).
    """

    problem_type: ClassVar[type[Problem]] = Problem

    flat: FlatModel
    base: Tensor
    finetuned: Tensor
    table: ParameterTable
    tokenizer: Any
    readout_name: str
    base_info: ModelInfo
    finetuned_info: ModelInfo
    outside: dict[str, tuple[Tensor, Tensor]]
    notes: tuple[str, ...]
    device: torch.device
    class_order: tuple[int, ...] | None = None
    rest: str = "base"
    rescaled: bool = False
    gain: Gain = 1.0
    added_rows: tuple[int, ...] = ()
    usual_length: int = USUAL_LENGTH
    null: tuple[str, int] | None = None

    def __repr__(self) -> str:
        ends = f"{self.base_info.id} → {self.finetuned_info.id}"
        return f"{type(self).__name__}({ends}, {self.readout_name} readout, {self.d:,} graftable, on {self.device})"

    @property
    def micro_tokens(self) -> int | None:
        """Padded tokens of a micro-batch; None for the device's default."""
        return None

    @property
    def d(self) -> int:
        """The number of graftable entries."""
        return len(self.base)

    def limit(self, task: Task) -> int:
        """Return the longest input of a task in tokens: its own, or `usual_length`; at most the model's maximum."""
        return min(task.limit(self.readout_name) or self.usual_length, int(self.tokenizer.model_max_length))

    def encode(self, task: Task, frame: pd.DataFrame) -> Encoded:
        """Return the frame's examples for the pair's tokenizer and readout, truncated to `limit`."""
        return encoded_for(self.finetuned_info, task, frame, self.tokenizer, self.readout_name)

    @property
    def movement(self) -> Movement:
        """The movement of each graftable entry."""
        return Movement(self.base, self.finetuned, self.table)

    @property
    def model(self) -> Any:
        """The model itself, of the readout's class."""
        return self.flat.model

    @contextmanager
    def at(self, state: str, region: Region | None = None) -> Iterator[ModelPair]:
        """Set the pair's model to a state; after the body, even after an error, it is restored bit for bit.

        pretrained: base everywhere (but with the fine-tuned head). finetuned: fine-tuned everywhere, including
        non-graftable tensors. grafted: base with the region's entries fine-tuned. complement: fine-tuned with the
        region's entries at base. The last two need a region of this pair.
        """
        region = self._region_of(state, region)
        theta = self.flat.theta
        before = None if _same_bits(theta, self.base) else theta.clone()
        outside = {name: parameter.detach().clone() for name, parameter in self._outside_parameters()}
        try:
            self._enter(state, region, is_at_base=before is None)
            yield self
        finally:
            theta.copy_(self.base if before is None else before)
            for name, parameter in self._outside_parameters():
                parameter.copy_(outside[name])

    @contextmanager
    def with_gain(self, gain: Gain) -> Iterator[ModelPair]:
        """Set another gain for the pair's grafts; after the body the previous gain is restored."""
        before = self.gain
        self.gain = gain
        try:
            yield self
        finally:
            self.gain = before

    def problem(self, train: Encoded, selection: Encoded | None = None, autocast: torch.dtype | None = None) -> Problem:
        """Return the problem for a localizer: this model, and examples to search and to judge regions on."""
        search = self.objective(train, autocast)
        select = None if selection is None else self.objective(selection, autocast)
        return self.problem_type(self.flat, self.base, self.finetuned, search, select)

    def objective(self, encoded: Encoded, autocast: torch.dtype | None = None) -> Objective:
        """Return loss, gradients and class scores of the pair's model on these examples, by the pair's readout."""
        readout = make_readout(self.readout_name, encoded)
        if self.class_order is not None:
            readout = OrderedReadout(readout, self.class_order)
        return Objective(self.flat, readout, encoded, self.micro_tokens, autocast)

    def head(self) -> dict[str, Tensor]:
        """Return the pooler and classification head, by parameter name; empty for the other readouts."""
        named = dict(self.flat.model.named_parameters())
        return {name: named[name].detach() for name in head_names(self.readout_name, self.table.model_type, named)}

    def graft(self, region: Region, header: Mapping[str, Any] | None = None) -> Graft:
        """Return the region's graft: fine-tuned values or those at the pair's gain, the head, and the origin of both.

        Raises BadInput for a control's pair, because its fine-tuned values on its base would be another model, and if
        tokens were added to a tokenizer other than the base's.
        """
        if self.rest != "base" or self.rescaled:
            raise BadInput(NO_GRAFT)
        config: Any = self.flat.model.config
        classes = names_of_pair(self.finetuned_info, self.base_info).names
        named = dict(enumerate(classes)) if len(classes) == len(config.id2label) else config.id2label
        provenance = {
            "base": self.base_info.identity(),
            "finetuned": self.finetuned_info.identity(),
            "readout": self.readout_name,
            "model_type": self.table.model_type,
            "config": {
                "id2label": {int(number): str(label) for number, label in named.items()},
                "pad_token_id": config.pad_token_id, "architecture": config.architectures,
            },
            "max_length": self.usual_length,
        }  # fmt: skip
        rows = self._added()
        if rows:
            tokens = added_tokens(self.base_info.folder, self.finetuned_info.folder)
            if tokens is None:
                raise BadInput(OTHER_TOKENIZER)
            provenance["vocabulary"] = {
                "rows": self.base_info.vocab_size, "numbers": list(self.added_rows), **tokens,
            }  # fmt: skip
        scale = {} if self.gain == 1 else {"gain": self.gain}
        graft = Graft.of(
            region, self.tensors_of(self.finetuned), self.head(), {**provenance, **(header or {}), **scale}, rows
        )
        return replace(graft, values=self._scaled(region, graft.values))

    def graft_values(self, region: Region) -> Mapping[str, Tensor]:
        """Return the values [k] of a region's graft by parameter name, on the CPU: fine-tuned, or scaled by the gain.

        Scaled values are in the model's dtype.
        """
        return self._scaled(region, Graft.of(region, self.tensors_of(self.finetuned)).values)

    def _scaled(self, region: Region, tuned: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the fine-tuned values of a region at the pair's gain."""
        if self.gain == 1:
            return tuned
        base, dtype = Graft.of(region, self.tensors_of(self.base)).values, self.model.dtype
        offsets = dict(zip(self.table.names, self.table.offsets[:-1], strict=True))
        flat = {name: torch.from_numpy(indices + offsets[name]) for name, indices in region.indices.items()}
        return {name: self.at_gain(flat[name], base[name].to(dtype), end.to(dtype)) for name, end in tuned.items()}

    def at_gain(self, indices: Tensor, base: Tensor, end: Tensor, factor: float = 1.0) -> Tensor:
        """Return base + gain * factor * (end - base) [k] at global flat indices [k], sorted."""
        if not isinstance(self.gain, Mapping):
            return between(base, end, self.gain * factor)
        values = base.clone()
        for kind, places in self.table.by_kind(indices.cpu().numpy()).items():
            at = torch.from_numpy(places).to(base.device)
            values[at] = between(base[at], end[at], self.gain.get(kind, 1.0) * factor)
        return values

    def _added(self) -> dict[str, Tensor]:
        """Return the vocabulary rows of added tokens, by parameter name; the same in every state."""
        numbers = list(self.added_rows)
        if not numbers:
            return {}
        return {name: parameter.detach()[numbers] for name, parameter in vocabulary_parameters(self.model).items()}

    def tensors_of(self, end: Tensor) -> Mapping[str, Tensor]:
        """Return the graftable tensors of `base` or `finetuned` by name."""
        return dict(zip(self.table.names, self.flat.views(end), strict=True))

    def is_at(self, state: str) -> bool:
        """True if every graftable entry has the bits of the state pretrained or finetuned."""
        return _same_bits(self.flat.theta, self.base if state == "pretrained" else self.finetuned)

    @property
    def is_vector(self) -> bool:
        """True if all graftable values of both models are in memory; in lean mode they are read from their files."""
        return True

    def put_between(self, alpha: float, region: Region | None = None) -> None:
        """Move the model, which is at base, by the share `alpha` of the way to the fine-tuned model or to a graft."""
        if region is not None:
            inside = torch.from_numpy(region.like(self.table.shapes).flat()).to(self.flat.device)
            values = between(self.base[inside], self.grafted_values(inside, len(inside)), alpha)
            self.flat.theta[inside] = values
            return
        self.flat.theta.copy_(between(self.base, self.finetuned, alpha))
        for name, parameter in self._outside_parameters():  # non-graftable parameters move too
            parameter.copy_(between(*self.outside[name], alpha))

    def grafted_values(self, indices: Tensor, size: int) -> Tensor:
        """Return the values at these entries of a grafted region of `size`: exact copies of the fine-tuned ones.

        The entries are sorted. The values are scaled in the pair of a control or at another gain. For a region of all
        entries, a control's values are the fine-tuned ones too, bit for bit, because the factor is 1.
        """
        factor = self.d / max(1, size) if self.rescaled else 1.0
        return self.at_gain(indices, self.base[indices], self.finetuned[indices], factor)

    def _region_of(self, state: str, region: Region | None) -> Region | None:
        """Return the region of a state, in the order of the pair's parameters.

        Raises BadInput for an unknown state, or if the state needs a region and this one does not fit.
        """
        if state not in STATES:
            raise BadInput(f"'{state}' is not a state of a pair; known: {', '.join(STATES)}.")
        if state in ("pretrained", "finetuned"):
            return region
        if region is None:
            raise BadInput(f"the state '{state}' needs a region.")
        return region.like(self.table.shapes)

    def _enter(self, state: str, region: Region | None, is_at_base: bool) -> None:
        from_base = state in ("pretrained", "grafted")
        theta = self.flat.theta
        if not (from_base and is_at_base):
            theta.copy_(self.base if from_base else self.finetuned)
        if region is not None and state in ("grafted", "complement"):
            for block in region.blocks():
                indices = torch.from_numpy(block).to(self.flat.device)
                theta[indices] = self.grafted_values(indices, region.size) if from_base else self.base[indices]
        for name, parameter in self._outside_parameters():
            parameter.copy_(self.outside[name][0 if from_base else 1])

    def _outside_parameters(self) -> Iterator[tuple[str, Tensor]]:
        for name in self.outside:
            yield name, self.flat.model.get_parameter(name).data


def load_pair(
    base: str | Path,
    finetuned: str | Path,
    *,
    readout: str | None = None,
    task: Task | str | Path | None = None,
    device: str = "auto",
    dtype: str = "float32",
    is_graft: bool = False,
    is_scored: bool = False,
    rest: str = "base",
    rescaled: bool = False,
) -> ModelPair:
    """Load the pair of two models, each a folder, `org/name` or `org/name@revision`; checked before any weight is read.

    `dtype` bfloat16 takes half the memory and rounds the values; own is bfloat16 if both files are in bfloat16. Raises
    the errors of `preflight`, and RandomHead or PairMismatch for problems visible only in the weights, such as equal
    graftable values. Equal values are allowed if the second model `is_graft`, a base with a graft on it. A model with
    adapters has equal values too, so no region of it can be grafted: it is opened only to be scored as a whole
    (`is_scored`). `rest` zero puts zeros in place of the base's graftable values after the checks; `rescaled` is the
    pair's.
    """
    if rest not in RESTS:
        raise BadInput(f"'{rest}' is not a valid rest of a graft; allowed: {', '.join(RESTS)}.")
    check, where, kept = checked_pair(base, finetuned, readout, task, device, dtype)
    if not is_scored:
        adapters.refuse_region(check.finetuned)
    tokenizer = load_tokenizer(check.tokenizer_folder)
    tuned, rows, base_values = _both_models(check, tokenizer, kept)
    for name in rows:  # rows that only the base has keep its values in every state
        tuned.get_parameter(name).data[check.finetuned.vocab_size :] = base_values[name][check.finetuned.vocab_size :]
    pair = _joined(check, tuned.to(where), base_values, tokenizer, where)
    pair.notes = check.notes
    if not is_graft and adapters.stored(check.finetuned) is None:
        refuse_unmoved(counts := pair.movement.counts(), pair.d)
        pair.notes += tuple(moved_notes(pair.table, counts, pair.outside))
    pair.added_rows = check.added_rows
    pair.usual_length = usual_length(check.finetuned)
    pair.class_order = check.class_order
    pair.rescaled, pair.rest = rescaled, rest
    if rest == "zero":
        pair.base.zero_()
        pair.flat.theta.zero_()
    return pair


def _both_models(
    check: Preflight, tokenizer: Any, dtype: torch.dtype, hollow: bool = False
) -> tuple[Any, list[str], dict[str, Tensor]]:
    """Return the fine-tuned model, the names of its tensors with rows of the base alone, and the base's values.

    Raises the errors that only the loaded tokenizer and the models show.
    """
    tuned = load_finetuned(check, dtype, hollow)
    rows = _with_rows_of_base(check, tuned)
    refuse_more_tokens(tuned, tokenizer)
    fit_together(tuned, tokenizer)
    _refuse_without_end(check, tuned, tokenizer)
    return tuned, rows, load_base(check, tuned, dtype, hollow)


def checked_pair(
    base: str | Path,
    finetuned: str | Path,
    readout: str | None,
    task: Task | str | Path | None,
    device: str,
    dtype: str,
) -> tuple[Preflight, torch.device, torch.dtype]:
    """Return the checked pair with its device and dtype, before any weight is read; raises the first problem."""
    if dtype not in PAIR_DTYPES:
        raise BadInput(f"'{dtype}' is not a dtype for a pair; allowed: {', '.join(PAIR_DTYPES)}.")
    where = pick(device)
    task = None if task is None else registry.task(task)
    check = as_loaded(preflight(base, finetuned, task, readout))
    return check, where, DTYPES[own_dtype(check.base, check.finetuned) if dtype == "own" else dtype]


def rehearse(check: Preflight) -> tuple[Preflight, Any]:
    """Return the check of a pair with its tokenizers compared as when loaded, and the tokenizer.

    The tokenizer has the model's maximum number of tokens. Raises the errors of `load_pair`. No weights are read. The
    models of a difference from a published base are not made, because its headers are sufficient.
    """
    check = as_loaded(check)
    tokenizer = load_tokenizer(check.tokenizer_folder)
    if frozen.left_out(check.finetuned):
        return check, tokenizer
    tuned, _, _ = _both_models(check, tokenizer, torch.float32, hollow=True)
    graftable(tuned.config.model_type, {n: tuple(p.shape) for n, p in tuned.named_parameters()}, tuned.config.to_dict())
    return check, tokenizer


def refuse_more_tokens(tuned: Any, tokenizer: Any) -> None:
    """Raise PairMismatch if the loaded tokenizer has a token without a row in the model.

    A family without a vocabulary, such as Canine, has no rows of tokens.
    """
    rows = getattr(tuned.config, "vocab_size", None)
    size = 1 + max(tokenizer.get_vocab().values(), default=-1)
    if rows is not None and size > rows:
        raise PairMismatch(f"the tokenizer has {size:,} tokens and the model {rows:,}; it belongs to another model.")


def _refuse_without_end(check: Preflight, tuned: Any, tokenizer: Any) -> None:
    """Raise BadModel if the head is read at the end-of-text token and the tokenizer does not end texts with it."""
    if check.readout != "head" or not reads_end(check.finetuned.model_type):
        return
    end = tuned.config.eos_token_id
    adds = end in tokenizer("a")["input_ids"]
    if not adds or tokenizer.pad_token_id == end:
        raise BadModel(
            f"the classification head of '{check.finetuned.id}' is read at the token that ends a text (id {end}), and "
            f"the tokenizer {'also pads with it' if adds else 'does not add it'}; put the tokenizer that the model was "
            "fine-tuned with into both folders."
        )


def _joined(check: Preflight, model: Any, base_values: dict[str, Tensor], tokenizer: Any, where: Any) -> ModelPair:
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    table = graftable(model.config.model_type, shapes, model.config.to_dict())
    flat = FlatModel(model, table)
    finetuned, base = flat.theta.clone(), flat.gather(base_values)
    outside = _outside(model, table, base_values, check.readout)
    flat.theta.copy_(base)
    for name, (before, _) in outside.items():
        model.get_parameter(name).data.copy_(before)
    return ModelPair(
        flat,
        base,
        finetuned,
        table,
        tokenizer,
        check.readout,
        check.base,
        check.finetuned,
        outside,
        check.notes,
        where,
    )


def load_finetuned(check: Preflight, dtype: torch.dtype, hollow: bool = False, device_map: str | None = None) -> Any:
    """Return the fine-tuned model, LoRA merged and adapters inserted; raises RandomHead if its head would be random."""
    if check.finetuned.adapter is not None and hollow:
        return lora.load_for_adapter(check.base, check.finetuned, check.readout, hollow)
    if adapters.stored(check.finetuned) is not None:
        return bottleneck.load(check.base, check.finetuned, check.readout, dtype)
    if check.finetuned.adapter is not None:
        return lora.load_merged(check.base, check.finetuned, check.readout, dtype)
    state = frozen.state_dict(check.finetuned) if frozen.left_out(check.finetuned) else None
    # without id2label, a family's default may differ from two labels
    unsaid = check.readout == "head" and check.labels is not None and "id2label" not in check.finetuned.config
    changes = {"num_labels": check.labels} if unsaid else {}
    loaded = load_model(
        check.finetuned.folder, check.readout, dtype, changes, linear=check.linear, state=state, hollow=hollow,
        device_map=device_map,
    )  # fmt: skip
    if loaded.made_up:
        raise RandomHead(
            f"the fine-tuned model '{check.finetuned.id}' has no {_some(loaded.made_up)}, so the "
            f"{check.readout} readout would start it at random; give a model fine-tuned with that head, or "
            f"another --readout."
        )
    return loaded.model


def _with_rows_of_base(check: Preflight, tuned: Any) -> list[str]:
    """Resize the fine-tuned vocabulary to the base's number of rows and return the names of the changed tensors.

    The new rows are filled later.
    """
    rows = check.base.vocab_size or 0
    if not is_padded(check.base, check.finetuned) or any(row >= rows for row in check.added_rows):
        return []
    before = {name: parameter.shape for name, parameter in tuned.named_parameters()}
    with quiet(), torch.random.fork_rng(devices=[]):
        tuned.resize_token_embeddings(check.base.vocab_size, mean_resizing=False)
    return [name for name, parameter in tuned.named_parameters() if parameter.shape != before[name]]


def load_base(check: Preflight, tuned: Any, dtype: torch.dtype, hollow: bool = False) -> dict[str, Tensor]:
    """Return every parameter of the base except the head, by its name in the fine-tuned model."""
    labels = {"num_labels": tuned.config.num_labels}
    rounded = check.base.rounded
    kind = torch.float32 if rounded else dtype
    loaded = load_model(check.base.folder, check.readout, kind, labels, check.linear, hollow=hollow)
    if rounded:
        loaded.model.half().to(dtype)
    heads = set(head_names(check.readout, check.base.model_type, loaded.model.state_dict()))
    if lost := loaded.made_up - heads:
        raise RandomHead(
            f"the base '{check.base.id}' has no {_some(lost)}, so loading it for the {check.readout} readout would "
            "make that up; give a base that has it (for example the masked-LM checkpoint), or another --readout."
        )
    values = {name: t for name, t in loaded.model.state_dict().items() if name not in heads}
    named = dict(tuned.named_parameters())
    # with zeros, adapters add nothing
    values |= {name: torch.zeros_like(p) for name, p in named.items() if name.startswith(adapters.PREFIX)}
    if check.added_rows:
        values |= _with_added(values, tuned, check.base.vocab_size or 0, check.added_rows)
    for name in named.keys() - set(head_names(check.readout, check.base.model_type, named)):
        if name not in values or values[name].shape != named[name].shape:
            raise PairMismatch(
                f"the base has no '{name}' of shape {tuple(named[name].shape)}; name the base that "
                "this model was fine-tuned from."
            )
    return values


def _with_added(values: Mapping[str, Tensor], tuned: Any, before: int, numbers: Sequence[int]) -> dict[str, Tensor]:
    """Return the base's vocabulary tensors with the fine-tuned model's rows of added tokens, after or among its own."""
    found = {}
    for name, parameter in vocabulary_parameters(tuned).items():
        if name in values and values[name].shape[1:] == parameter.shape[1:]:
            rows = parameter.detach()[list(numbers)].to(values[name])
            more = values[name].new_empty((max(0, len(parameter) - before), *parameter.shape[1:]))
            found[name] = torch.cat([values[name], more])
            found[name][list(numbers)] = rows
    return found


def head_names(readout: str, model_type: str, names: Iterable[str]) -> list[str]:
    """Return the names of pooler and classification head; empty for the other readouts."""
    return readout_names(model_type, names) if readout == "head" else []


def _outside(
    model: Any, table: ParameterTable, base: dict[str, Tensor], readout: str
) -> dict[str, tuple[Tensor, Tensor]]:
    named = dict(model.named_parameters())
    inside = set(table.names) | set(head_names(readout, table.model_type, named))
    outside = {}
    for name, parameter in named.items():
        if name not in inside and not torch.equal(before := base[name].to(parameter.device), parameter.data):
            outside[name] = (before, parameter.detach().clone())
    return outside


def refuse_unmoved(counts: Counts, d: int) -> None:
    """Raise PairMismatch if no graftable entry moved, or if all differences may be due to rounding.

    A base that was rounded differs in most of the `d` entries; where few differ and none is rounded, these moved, or
    it is unknown.
    """
    if counts.moved > counts.unclear or (0 < 2 * counts.moved < d and not counts.rounded):
        return
    raise PairMismatch(ROUNDED.format(counts.narrow) if counts.rounded or counts.unclear else IDENTICAL)


def moved_notes(table: ParameterTable, counts: Counts, outside: Mapping[str, tuple[Tensor, Tensor]]) -> list[str]:
    """Return sentences about the number of graftable entries that moved, and about other tensors that moved."""
    notes = []
    if counts.moved < table.d:
        notes.append(f"{counts.moved:,} of {table.d:,} graftable entries moved in fine-tuning.")
    if counts.rounded:
        notes.append(
            f"{counts.rounded:,} more differ only by rounding: the base's value stored as {counts.narrow} is the "
            "fine-tuned one. They count as not moved."
        )
    if 2 * counts.unclear > counts.moved:
        notes.append(
            f"Whether fine-tuning moved {counts.unclear:,} entries is unknown: they differ by no more than the "
            f"rounding of the base's file ({counts.narrow}). Give the base in the dtype that fine-tuning began with."
        )
    rounded = sorted(
        name
        for name, (base, tuned) in outside.items()  # the fine-tuned values may be the base's rounded to 16 bits
        if any(torch.equal(base.to(dtype).to(base.dtype), tuned.to(base.dtype)) for dtype in NARROW)
    )
    if rounded:
        notes.append(
            f"{_some(rounded)}, outside what can be grafted, differ{'s' if len(rounded) == 1 else ''} from the base by "
            "rounding: grafts keep the base values there, so the full graft is the fine-tuned model but for that."
        )
    if moved := outside.keys() - set(rounded):
        notes.append(
            f"Fine-tuning also moved {_some(moved)}, outside what can be grafted: grafts keep the base values there, "
            "so the full graft is not the fine-tuned model."
        )
    return notes


def _some(names: Any) -> str:
    ordered = sorted(names)
    more = f" and {counted(len(ordered) - 1, 'more tensor')}" if len(ordered) > 1 else ""
    return f"'{ordered[0]}'{more}"


def between(base: Tensor, end: Tensor, alpha: float) -> Tensor:
    """Return the values at the share `alpha` of the way from base to end, exact at 0 and 1.

    Over 1 lies beyond the end, below 0 on the other side of the base.
    """
    if alpha in (0.0, 1.0):
        return end if alpha else base
    if alpha < 1:
        return torch.lerp(base.float(), end.float(), alpha).to(base.dtype)
    return (base.float() + (end.float() - base.float()) * alpha).to(base.dtype)


def _same_bits(one: Tensor, other: Tensor) -> bool:
    # as integers, because 0.0 equals -0.0 as a number, and NaN does not equal itself
    kind = BITS[one.element_size()]
    return torch.equal(one.view(kind), other.view(kind))

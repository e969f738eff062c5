"""Whether two models make a pair, answered from configuration and headers in well under a second, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillviz.core.parameters import ParameterTable, graftable
from skillviz.errors import BadInput, BadModel, SkillvizError
from skillviz.models import checks, lora
from skillviz.models import frozen_tensors as frozen
from skillviz.models.checkpoint import ModelInfo, read_info
from skillviz.models.fetch import resolve
from skillviz.models.heads import HEADS, choose_readout, is_linear, label_count, missing_head, own_shapes
from skillviz.models.tokenizer import has_tokenizer, same_tokenizer

if TYPE_CHECKING:
    from skillviz.tasks.task import Task


@dataclass(frozen=True)
class Preflight:
    """What the headers say of a pair. `errors` keep it from being used; `notes` a reader should know.

    `readout` is '' and `d` None where they cannot be told. `labels` are the fine-tuned head's classes. `table` has the
    graftable parameters under the model's names, in the order of the file: not to be ranked by.
    """

    base: ModelInfo
    finetuned: ModelInfo
    readout: str
    d: int | None
    layers: int | None
    labels: int | None
    errors: tuple[SkillvizError, ...]
    notes: tuple[str, ...]
    table: ParameterTable | None = None

    @property
    def problems(self) -> list[str]:
        """What does not match, a sentence each; empty for a good pair."""
        return [str(error.args[0]) for error in self.errors]

    @property
    def fits(self) -> bool:
        """Whether nothing stands against using the pair."""
        return not self.errors

    @property
    def linear(self) -> bool:
        """Whether the head is the bare linear one on the first token."""
        return self.readout == "head" and _is_linear(self.finetuned)

    @property
    def tokenizer_folder(self) -> Path:
        """The base's folder where it has a tokenizer, so that base and graft are complete; else the other."""
        return self.base.folder if has_tokenizer(self.base.folder) else self.finetuned.folder

    def raise_first(self) -> None:
        """Raises the first problem as its own error class; does nothing for a good pair."""
        if self.errors:
            raise self.errors[0]


def preflight(
    base: str | Path, finetuned: str | Path, task: Task | None = None, readout: str | None = None
) -> Preflight:
    """What fits and what does not, without reading weights.

    Raises ModelNotFound, UnsafeWeights or CorruptFile where a member's files cannot be read at all;
    everything else is told in `errors` and `notes`.
    """
    first, second = read_info(resolve(base)), read_info(resolve(finetuned))
    if first.adapter is not None:
        raise BadModel(f"the base '{first.id}' is a LoRA adapter; give the model that it was trained on.")
    if (refused := frozen.wrong_base(second, first)) is not None:
        return Preflight(first, second, "", None, None, None, (refused,), ())
    second = frozen.filled(second, first)
    errors: list[SkillvizError] = []
    chosen = _chosen(first, second, readout, errors)
    # an adapter's body is the base's: only its head and its low-rank pairs are its own
    body = first if second.adapter is not None else second
    labels = _labels(first, second)
    errors += _problems(first, second, chosen, task, labels)
    table = _table(body, errors)
    notes = tuple(_notes(first, second, chosen, task, table))
    d, layers = (table.d, table.layers) if table else (None, None)
    return Preflight(first, second, chosen, d, layers, labels, tuple(errors), notes, table)


def _chosen(base: ModelInfo, finetuned: ModelInfo, asked: str | None, errors: list[SkillvizError]) -> str:
    try:
        if finetuned.adapter is not None:
            return lora.adapter_readout(finetuned, base, asked)
        return choose_readout(finetuned, asked)
    except (BadInput, BadModel) as error:
        errors.append(error)
        return ""


def _problems(
    base: ModelInfo, finetuned: ModelInfo, readout: str, task: Task | None, labels: int | None
) -> Iterator[SkillvizError]:
    if finetuned.adapter is not None:
        yield from lora.check_adapter(finetuned, base, readout)
        yield from checks.floats(base)
    else:
        mismatches = [*checks.architecture(base, finetuned), *checks.floats(base), *checks.floats(finetuned)]
        yield from mismatches
        if base.model_type != finetuned.model_type:
            return
        yield from checks.shapes(base, finetuned)
        yield from checks.tying(base, finetuned, readout)
    if readout:
        yield from checks.heads_of(base, finetuned, readout)
        yield from checks.labels(labels, readout, task)
    yield from checks.tokenizers(base, finetuned)


def _labels(base: ModelInfo, finetuned: ModelInfo) -> int | None:
    if finetuned.adapter is None:
        return label_count(finetuned)
    head = lora.saved(finetuned, base).get(lora.label_tensor(finetuned, base) or "")
    return head[0] if head else label_count(base)


def _table(info: ModelInfo, errors: list[SkillvizError]) -> ParameterTable | None:
    try:
        found = graftable(info.model_type, own_shapes(info), info.config)
    except BadModel as error:
        errors.append(error)
        return None
    heads = HEADS.get(info.model_type)
    prefix = f"{heads.prefix}." if heads else ""
    return replace(found, parameters=tuple(replace(p, name=prefix + p.name) for p in found.parameters))


def _notes(
    base: ModelInfo, finetuned: ModelInfo, readout: str, task: Task | None, table: ParameterTable | None
) -> Iterator[str]:
    if finetuned.adapter is not None:
        yield f"The fine-tuned model is a LoRA adapter of rank {finetuned.adapter.get('r')}; it is merged on load."
    if (remark := frozen.note(finetuned, base)) is not None:
        yield remark
    if readout == "head":
        yield (
            f"{_base_head(base)} the fine-tuned model's is used in every state, also in 'pretrained'; it belongs to "
            "the readout and is never graftable."
        )
        if _is_linear(finetuned):
            yield "The head is a bare linear layer on the first token (a token-classification model, read there)."
        yield from _label_note(finetuned, task)
    for info, member in ((base, "base"), (finetuned, "fine-tuned model")):
        if info.adapter is None and info.dtype != "float32":
            yield f"The {member}'s file is stored as {info.dtype} and loaded as float32 (lean mode: bfloat16)."
        if info.config.get("auto_map"):
            yield f"The {member} comes with code of its own, which skillviz never runs."
    if table is not None and table.note:
        yield table.note
    yield from _tokenizer_note(base, finetuned)


def _is_linear(finetuned: ModelInfo) -> bool:
    return lora.is_linear_adapter(finetuned) or is_linear(finetuned.architectures)


def _base_head(base: ModelInfo) -> str:
    """What the base has for a classification head, as far as its files can tell."""
    if base.model_type not in HEADS:
        return "Whatever classification head the base has,"
    has_none = missing_head(base, "head")
    return f"The base has {'no classification head' if has_none else 'a classification head of its own'}:"


def class_order(finetuned: ModelInfo, task: Task | None) -> tuple[int, ...] | None:
    """The head's output for each label of the task, where both have the same names in another order; else None."""
    own = [name.lower() for name in _class_names(finetuned)]
    wanted = [name.lower() for name in task.labels] if task is not None else []
    if own == wanted or len(set(own)) != len(own) or set(own) != set(wanted):
        return None
    return tuple(own.index(name) for name in wanted)


def _class_names(info: ModelInfo) -> list[str]:
    """The names that the configuration gives the head's outputs, in their order."""
    names = info.config.get("id2label") or {}
    return [str(names[key]) for key in sorted(names, key=int)]


def _label_note(finetuned: ModelInfo, task: Task | None) -> Iterator[str]:
    own = _class_names(finetuned)
    plain = all(name.startswith("LABEL_") for name in own)
    if task is not None and own and not plain and [n.lower() for n in own] != [n.lower() for n in task.labels]:
        how = "name" if class_order(finetuned, task) else "their order"
        yield (
            f"The fine-tuned model names its labels {', '.join(own)}, the task {', '.join(task.labels)}; "
            f"they are matched by {how}."
        )


def _tokenizer_note(base: ModelInfo, finetuned: ModelInfo) -> Iterator[str]:
    both = has_tokenizer(base.folder) and has_tokenizer(finetuned.folder)
    if not has_tokenizer(base.folder) and has_tokenizer(finetuned.folder):
        yield "The base has no tokenizer: the fine-tuned model's is used."
    elif both and not same_tokenizer(base.folder, finetuned.folder):
        yield "The two tokenizers differ; the base's is used, so that base and graft together are complete."

"""The single checks of a pair: each reads configuration and headers, and yields what does not match."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from skillviz.core.architectures import UNKNOWN
from skillviz.errors import BadModel, ModelNotFound, PairMismatch, RandomHead
from skillviz.models.checkpoint import ModelInfo
from skillviz.models.headers import FLOATS
from skillviz.models.heads import (
    HEADS,
    LINEAR_FAMILIES,
    NAMES,
    is_head,
    is_linear,
    is_tied,
    missing_head,
    own_shapes,
    supported,
)
from skillviz.models.tokenizer import has_tokenizer, vocabulary_size

if TYPE_CHECKING:
    from skillviz.tasks.task import Task

# Settings that change what equal shapes compute.
SETTINGS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_key_value_heads",
    "hidden_act",
    "activation_function",
    "activation",
    "rotary_pct",
    "do_layer_norm_before",
)
BLOCK = re.compile(r"(?:^|\.)(?:layers?|h)\.(\d+)\.")


def architecture(base: ModelInfo, finetuned: ModelInfo) -> Iterator[BadModel]:
    """Same folder, another family, other settings, weights that are no floats."""
    if base.folder.resolve() == finetuned.folder.resolve():
        yield PairMismatch(
            f"base and fine-tuned model are the same folder, '{base.id}'; give the model before and after."
        )
    if base.model_type != finetuned.model_type:
        yield PairMismatch(
            f"the base is a '{base.model_type}' model and the fine-tuned one a '{finetuned.model_type}' model; "
            "both must be of one architecture."
        )
        return
    for key in SETTINGS:
        one, other = base.config.get(key), finetuned.config.get(key)
        if one is not None and other is not None and one != other:
            yield PairMismatch(
                f"the configurations differ in {key}: {one} in the base, {other} in the fine-tuned model."
            )


def floats(info: ModelInfo) -> Iterator[BadModel]:
    """Quantised weights, which have no values to copy entry by entry."""
    found = {stored.dtype for name, stored in info.tensors.items() if BLOCK.search(name) and name.endswith("weight")}
    strange = sorted(found - set(FLOATS))
    if strange or "quantization_config" in info.config:
        yield BadModel(
            f"'{info.id}' is quantised ({', '.join(strange) or 'see its configuration'}); give the model in float32, "
            "bfloat16 or float16."
        )


def shapes(base: ModelInfo, finetuned: ModelInfo) -> Iterator[BadModel]:
    """Vocabulary, number of blocks, and any other tensor outside the heads that is not the same in both."""
    body = _body if base.model_type in HEADS else _in_blocks
    one, other = body(base), body(finetuned)
    if (blocks := _blocks(one)) != (theirs := _blocks(other)):
        yield PairMismatch(f"the base has {blocks} blocks and the fine-tuned model {theirs}.")
        return
    missing = sorted(one.keys() ^ other.keys())
    if missing:
        which = "base" if missing[0] not in one else "fine-tuned model"
        yield PairMismatch(f"the {which} has no '{missing[0]}'{_more(missing)}, which the other one has.")
    unequal = [name for name in one if name in other and one[name] != other[name]]
    tokens = [name for name in unequal if "emb" in name and one[name][1:] == other[name][1:]]
    if tokens and base.vocab_size != finetuned.vocab_size:
        yield PairMismatch(
            f"the vocabularies differ: {base.vocab_size:,} tokens in the base, {finetuned.vocab_size:,} in the "
            "fine-tuned model; a fine-tuned model with added tokens cannot be grafted."
        )
    for name in [n for n in unequal if n not in tokens or base.vocab_size == finetuned.vocab_size][:1]:
        yield PairMismatch(
            f"'{name}' is {_shape(one[name])} in the base and {_shape(other[name])} in the fine-tuned model"
            f"{_more(unequal)}."
        )


def tying(base: ModelInfo, finetuned: ModelInfo, readout: str) -> Iterator[BadModel]:
    """A base with an output matrix of its own beside a fine-tuned model that has none."""
    heads = HEADS.get(base.model_type)
    own = heads is not None and any(name in own_shapes(base) for name in heads.output)
    if readout != "head" and own and not is_tied(base) and is_tied(finetuned):
        yield PairMismatch(
            "the fine-tuned model ties its output matrix to the embedding and the base does not; the pair does not fit."
        )


def heads_of(base: ModelInfo, finetuned: ModelInfo, readout: str) -> Iterator[BadModel]:
    """Heads that would be random: the fine-tuned one's, and the base's language-model head."""
    if not supported(base.model_type, readout):
        yield BadModel(
            f"the {readout} readout does not exist for '{base.model_type}' models; "
            f"possible: {', '.join(HEADS[base.model_type].needed)}."
        )
        return
    if readout == "head" and is_linear(finetuned.architectures) and base.model_type not in LINEAR_FAMILIES:
        yield BadModel(
            f"'{finetuned.id}' is a token-classification model, which is read at its first token; that works for "
            f"{', '.join(LINEAR_FAMILIES)}, not for '{base.model_type}': give a sequence-classification model."
        )
        return
    members = [(finetuned, "fine-tuned model")] + ([(base, "base")] if readout != "head" else [])
    for info, member in members if finetuned.adapter is None else members[1:]:
        if lost := missing_head(info, readout):
            yield RandomHead(
                f"the {member} '{info.id}' has no {NAMES[readout]} ('{lost[0]}' is missing{_more(lost)}), so its "
                "scores would come from a random one; give a model that has it, or another --readout."
            )


def labels(count: int | None, readout: str, task: Task | None) -> Iterator[BadModel]:
    """A head for another number of classes than the task has, or for none."""
    if readout != "head" or count is None:
        return
    if count < 2:
        yield PairMismatch("the fine-tuned model's head has one output (a regression); a classifier needs two or more.")
    elif task is not None and len(task.labels) != count:
        yield PairMismatch(
            f"the fine-tuned model tells {count} labels apart and the task '{task.name}' has {len(task.labels)} "
            f"({', '.join(task.labels)})."
        )


def tokenizers(base: ModelInfo, finetuned: ModelInfo) -> Iterator[BadModel]:
    """No tokenizer in either folder, or one with more tokens than the model has embeddings."""
    folder = next((info.folder for info in (base, finetuned) if has_tokenizer(info.folder)), None)
    if folder is None:
        yield ModelNotFound(
            f"neither '{base.id}' nor '{finetuned.id}' has a tokenizer (tokenizer.json or vocab.txt); "
            "copy the tokenizer's files into one of them."
        )
        return
    size = vocabulary_size(folder)
    if size is not None and base.vocab_size is not None and size > base.vocab_size:
        yield PairMismatch(
            f"the tokenizer has {size:,} tokens and the model {base.vocab_size:,}; it belongs to another model."
        )


def _body(info: ModelInfo) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape in own_shapes(info).items() if not is_head(info.model_type, name)}


def _in_blocks(info: ModelInfo) -> dict[str, tuple[int, ...]]:
    """The tensors of the numbered blocks, named from the block on.

    Of a family that is not in the table neither the body's prefix nor the names of its heads are known, so
    nothing else can be compared by name; loading tells the rest.
    """
    found = {name: re.search(UNKNOWN.block, name) for name in info.shapes}
    return {name[at.start() :].lstrip("."): info.shapes[name] for name, at in found.items() if at}


def _blocks(body: dict[str, tuple[int, ...]]) -> int:
    return len({match.group(1) for name in body if (match := BLOCK.search(name))})


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(str(k) for k in shape)


def _more(names: list[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""

"""Whether two models make a pair, answered from configuration and headers in well under a second, without torch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillviz.core.architectures import UNKNOWN
from skillviz.core.parameters import ParameterTable, graftable
from skillviz.errors import BadInput, BadModel, ModelNotFound, PairMismatch, RandomHead, SkillvizError
from skillviz.models import frozen_tensors as frozen
from skillviz.models import lora
from skillviz.models.checkpoint import FLOATS, ModelInfo, own_dtype, read_info
from skillviz.models.fetch import is_local, refuse_absent, resolve
from skillviz.models.heads import (
    HEADS,
    LINEAR_FAMILIES,
    NAMES,
    choose_readout,
    is_head,
    is_linear,
    is_tied,
    label_count,
    missing_head,
    other_kind,
    own_shapes,
    refused_generator,
    supported,
)
from skillviz.models.tokenizer import has_tokenizer, same_tokenizer, vocabulary, vocabulary_size

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
NOTED_SETTINGS = (
    "rope_theta", "rope_parameters", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "num_experts_per_tok",
)  # fmt: skip
"""Settings that change what equal shapes compute and that fine-tuning may change: said, not refused."""
BLOCK = re.compile(r"(?:^|\.)(?:layers?|h)\.(\d+)\.")


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

    def __repr__(self) -> str:
        graftable = "" if self.d is None else f", {self.d:,} graftable"
        fits = "fits" if self.fits else f"does not fit: {self.problems[0]}"
        return f"Preflight({self.base.id} → {self.finetuned.id}, {self.readout or 'no'} readout{graftable}, {fits})"

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
        """The base's folder where it has a tokenizer, so that base and graft are complete; else, and where fine-tuning
        added tokens, the other."""
        if added_rows(self.base, self.finetuned):
            return self.finetuned.folder
        return self.base.folder if has_tokenizer(self.base.folder) else self.finetuned.folder

    def raise_first(self) -> None:
        """Raises the first problem as its own error class; does nothing for a good pair."""
        if self.errors:
            raise self.errors[0]


def published_base(base: str | Path, finetuned: str | Path) -> str | None:
    """Where a base that is not here is published, by the folder of the fine-tuned model, which is; else None."""
    try:
        refuse_absent(str(base))
    except ModelNotFound:
        with suppress(SkillvizError):
            refuse_absent(str(finetuned))
            return frozen.published_base(read_info(resolve(finetuned)))
    return None


def preflight(
    base: str | Path, finetuned: str | Path, task: Task | None = None, readout: str | None = None
) -> Preflight:
    """What fits and what does not, without reading weights.

    For a base that is not here its published copy is taken where the hub's local cache has it. Raises ModelNotFound,
    UnsafeWeights or CorruptFile where a model's files cannot be read at all; everything else is in `errors` and
    `notes`.
    """
    published = published_base(base, finetuned)
    folder = resolve(published if published and is_local(published) else base)
    second = read_info(resolve(finetuned))
    first = frozen.base_as_read(second, read_info(folder))
    if first.adapter is not None:
        raise BadModel(f"the base '{first.id}' is a LoRA adapter; give the model that it was trained on.")
    if (error := frozen.wrong_base(second, first)) is not None:
        return Preflight(first, second, "", None, None, None, (error,), ())
    second = frozen.filled(second, first)
    errors: list[SkillvizError] = []
    readout_name = _choose_readout(first, second, readout, errors)
    # an adapter's body is the base's: only its head and its low-rank pairs are its own
    body = first if second.adapter is not None else second
    labels = _labels(first, second)
    errors += _problems(first, second, readout_name, task, labels)
    table = _table(body, errors)
    notes = tuple(_notes(first, second, readout_name, task, table))
    d, layers = (table.d, table.layers) if table else (None, None)
    return Preflight(first, second, readout_name, d, layers, labels, tuple(errors), notes, table)


def _choose_readout(base: ModelInfo, finetuned: ModelInfo, readout: str | None, errors: list[SkillvizError]) -> str:
    try:
        if finetuned.adapter is not None:
            return lora.adapter_readout(finetuned, base, readout)
        return choose_readout(finetuned, readout)
    except (BadInput, BadModel) as error:
        errors.append(error)
        return ""


def _problems(
    base: ModelInfo, finetuned: ModelInfo, readout: str, task: Task | None, labels: int | None
) -> Iterator[SkillvizError]:
    if finetuned.adapter is not None:
        yield from lora.check_adapter(finetuned, base, readout)
        yield from _check_floats(base)
    else:
        mismatches = [*_check_architecture(base, finetuned), *_check_floats(base), *_check_floats(finetuned)]
        yield from mismatches
        if base.model_type != finetuned.model_type:
            return
        yield from _check_vocabulary(base, finetuned)
        yield from _check_shapes(base, finetuned)
        yield from _check_tying(base, finetuned, readout)
    if readout and task is not None:
        try:
            task.refuse_readout(readout)
        except BadInput as error:
            yield error
            return
    if readout:
        yield from _check_heads(base, finetuned, readout)
        yield from _check_labels(base if finetuned.adapter is not None else finetuned, labels, readout, task)
    yield from _check_tokenizers(base, finetuned)


def _labels(base: ModelInfo, finetuned: ModelInfo) -> int | None:
    if finetuned.adapter is None:
        return label_count(finetuned)
    head = lora.saved(finetuned, base).get(lora.label_tensor(finetuned, base) or "")
    return head[0] if head else label_count(base)


def _table(info: ModelInfo, errors: list[SkillvizError]) -> ParameterTable | None:
    try:
        table = graftable(info.model_type, own_shapes(info), info.config)
    except BadModel as error:
        errors.append(error)
        return None
    heads = HEADS.get(info.model_type)
    prefix = f"{heads.prefix}." if heads else ""
    return replace(table, parameters=tuple(replace(p, name=prefix + p.name) for p in table.parameters))


def _notes(
    base: ModelInfo, finetuned: ModelInfo, readout: str, task: Task | None, table: ParameterTable | None
) -> Iterator[str]:
    if finetuned.adapter is not None:
        yield f"The fine-tuned model is a LoRA adapter of rank {finetuned.adapter.get('r')}; it is merged on load."
        yield from lora.base_note(finetuned, base)
    for info, model in ((base, "base"), (finetuned, "fine-tuned model")):
        if info.wrapper:
            yield (
                f"The {model} was saved inside a wrapper (torch.compile or DataParallel): '{info.wrapper}' is left out "
                "of its tensors' names."
            )
    yield from _padding_note(base, finetuned)
    if (note := frozen.note(finetuned, base)) is not None:
        yield note
    if readout == "head":
        yield (
            f"{_base_head(base)} the fine-tuned model's is used in every state, also in 'pretrained'; it belongs to "
            "the readout and is never graftable."
        )
        if not _is_linear(finetuned) and (pooler := sorted(n for n in own_shapes(base) if n.startswith("pooler."))):
            yield f"The base's own pooler ('{pooler[0]}', ...) is not used: the fine-tuned model's is, in every state."
        if _is_linear(finetuned):
            yield "The head is a bare linear layer on the first token (a token-classification model, read there)."
        yield from _label_note(finetuned, task)
    for info, model in ((base, "base"), (finetuned, "fine-tuned model")):
        if info.adapter is None and info.dtype != "float32":
            lean = ", and as bfloat16 in lean mode" if own_dtype(base, finetuned) == "bfloat16" else ""
            yield f"The {model}'s file is stored as {info.dtype}. It is loaded as float32 by default{lean}."
        if info.config.get("auto_map"):
            yield f"The {model} comes with code of its own, which skillviz never runs."
    if table is not None and table.note:
        yield table.note
    yield from _settings_note(base, finetuned)
    yield from _tokenizer_note(base, finetuned)


def _settings_note(base: ModelInfo, finetuned: ModelInfo) -> Iterator[str]:
    for key in NOTED_SETTINGS:
        one, other = base.config.get(key), finetuned.config.get(key)
        if one is not None and other is not None and one != other:
            yield (
                f"The configurations differ in {key}: {one} in the base, {other} in the fine-tuned model, whose value "
                "is used in every state, also in 'pretrained'."
            )


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
    head_names = [name.lower() for name in _class_names(finetuned)]
    task_names = [name.lower() for name in task.labels] if task is not None else []
    if head_names == task_names or len(set(head_names)) != len(head_names) or set(head_names) != set(task_names):
        return None
    return tuple(head_names.index(name) for name in task_names)


def _class_names(info: ModelInfo) -> list[str]:
    """The names that the configuration gives the head's outputs, in their order."""
    names = info.config.get("id2label") or {}
    return [str(names[key]) for key in sorted(names, key=int)]


def _label_note(finetuned: ModelInfo, task: Task | None) -> Iterator[str]:
    names = _class_names(finetuned)
    plain = all(name.startswith("LABEL_") for name in names)
    if task is None or plain or len(names) != len(task.labels):  # another number of labels is a mismatch, said as one
        return
    if [n.lower() for n in names] != [n.lower() for n in task.labels]:
        is_by_name = class_order(finetuned, task) is not None
        how = "name" if is_by_name else "their order"
        yield (
            f"The fine-tuned model names its labels {', '.join(names)}, the task {', '.join(task.labels)}; "
            f"they are matched by {how}."
        )
        ours = [name.lower() for name in task.labels]
        apart = [name for at, name in enumerate(names) if name.lower() in ours and ours.index(name.lower()) != at]
        if apart and not is_by_name:
            yield (
                f"'{apart[0]}' stands in another place among the task's labels: give both the same names, or the "
                "scores are wrong."
            )


def _tokenizer_note(base: ModelInfo, finetuned: ModelInfo) -> Iterator[str]:
    if added_rows(base, finetuned):
        return
    both = has_tokenizer(base.folder) and has_tokenizer(finetuned.folder)
    if not has_tokenizer(base.folder) and has_tokenizer(finetuned.folder):
        yield "The base has no tokenizer: the fine-tuned model's is used."
    elif both and not same_tokenizer(base.folder, finetuned.folder):
        yield "The two tokenizers differ; the base's is used, so that base and graft together are complete."


def _check_architecture(base: ModelInfo, finetuned: ModelInfo) -> Iterator[BadModel]:
    """Same folder, another family, other settings, weights that are no floats."""
    if base.folder.resolve() == finetuned.folder.resolve():
        yield PairMismatch(
            f"base and fine-tuned model are the same folder, '{base.id}'; give the model before and the model "
            f"after fine-tuning."
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


DEQUANTIZED = {"bitsandbytes": ("bitsandbytes", None), "fp8": ("accelerate", "FineGrainedFP8Config")}
"""Quantizers whose values transformers writes out again: the package that this needs, and the settings that ask for it
as the model is loaded."""


def _check_floats(info: ModelInfo) -> Iterator[BadModel]:
    """Quantized weights, which have no values to copy entry by entry."""
    dtypes = {stored.dtype for name, stored in info.tensors.items() if BLOCK.search(name) and name.endswith("weight")}
    strange = sorted(dtypes - set(FLOATS))
    if not strange and "quantization_config" not in info.config:
        return
    sentence = (
        f"'{info.id}' is quantized ({', '.join(strange) or 'see its configuration'}); only weights in float32, "
        "bfloat16 or float16 can be grafted."
    )
    method = _quantized_by(info)
    if method in DEQUANTIZED and info.architectures and info.architectures[0].isidentifier():
        needed, _ = DEQUANTIZED[method]
        yield BadModel(f"{sentence} Convert it once where {needed} is installed: {dequantizing(info)}")
    else:
        yield BadModel(f"{sentence} Give the model from before it was quantized.")


def _quantized_by(info: ModelInfo) -> str | None:
    settings = info.config.get("quantization_config")
    method = settings.get("quant_method") if isinstance(settings, dict) else None
    return method if isinstance(method, str) else None


def dequantizing(info: ModelInfo) -> str:
    """The command that writes a quantized model (of DEQUANTIZED) as float32, into a folder beside it."""
    source, out = (
        (info.id, f"{info.id.split('/')[-1]}-float32")
        if info.revision
        else (str(info.folder), f"{info.folder}-float32")
    )
    _, config = DEQUANTIZED[_quantized_by(info) or ""]
    loaded = (
        f"M.from_pretrained({source!r}, dtype='float32', quantization_config=Q(dequantize=True))"
        if config
        else f"M.from_pretrained({source!r}, dtype='float32').dequantize()"
    )
    # a model that was loaded quantized cannot be saved in transformers 5.23, so its values go into a new one
    code = (
        f"from transformers import {info.architectures[0]} as M{f', {config} as Q' if config else ''}; "
        f"m = {loaded}; n = M(m.config); n.load_state_dict(m.state_dict()); "
        f"vars(n.config).pop('quantization_config', 0); n.save_pretrained({out!r})"
    )
    return f'python -c "{code}"'


def _check_shapes(base: ModelInfo, finetuned: ModelInfo) -> Iterator[BadModel]:
    """Vocabulary, number of blocks, and any other tensor outside the heads that is not the same in both."""
    body = _body if base.model_type in HEADS else _in_blocks
    one, other = body(base), body(finetuned)
    if (blocks := _blocks(one)) != (other_blocks := _blocks(other)):
        yield PairMismatch(
            f"the base has {blocks} blocks and the fine-tuned model {other_blocks}; give the base that this model was "
            "fine-tuned from."
        )
        return
    missing = sorted(one.keys() ^ other.keys())
    if missing:
        which = "base" if missing[0] not in one else "fine-tuned model"
        yield PairMismatch(f"the {which} has no '{missing[0]}'{_more(missing)}, which the other one has.")
    rows = (base.vocab_size, finetuned.vocab_size) if is_padded(base, finetuned) else ()
    unequal = [name for name in one if name in other and one[name] != other[name]]
    unequal = [n for n in unequal if (one[n][:1] + other[n][:1], one[n][1:]) != (rows, other[n][1:])]
    for name in unequal[:1]:
        yield PairMismatch(
            f"the shapes differ: '{name}' is {_shape(one[name])} in the base and {_shape(other[name])} in the "
            f"fine-tuned model{_more(unequal)}; give the base that this model was fine-tuned from."
        )


def is_padded(base: ModelInfo, finetuned: ModelInfo) -> bool:
    """Whether one model's vocabulary has more rows than the other's."""
    return (
        finetuned.adapter is None
        and None not in (sizes := (base.vocab_size, finetuned.vocab_size))
        and (sizes[0] != sizes[1])
    )


def added_rows(base: ModelInfo, finetuned: ModelInfo) -> int:
    """The vocabulary rows that fine-tuning added for tokens that only its own tokenizer knows; 0 for mere padding."""
    if not is_padded(base, finetuned) or not has_tokenizer(finetuned.folder):
        return 0
    before, after = base.vocab_size or 0, finetuned.vocab_size or 0
    return after - before if after > before and (vocabulary_size(finetuned.folder) or 0) > before else 0


def _check_added(base: ModelInfo, finetuned: ModelInfo) -> Iterator[BadModel]:
    """Tokens of the base that have another id in a tokenizer with added ones, so that their rows are not theirs."""
    if not has_tokenizer(base.folder):
        return
    one, other = vocabulary(base.folder), vocabulary(finetuned.folder)
    moved = (
        [] if one is None or other is None else [token for token, number in one.items() if other.get(token) != number]
    )
    if one is None or other is None or moved:
        which = f"it gives '{moved[0]}'{_more(moved)} another id" if moved else "the base's cannot be compared with it"
        yield PairMismatch(
            f"the fine-tuned model's tokenizer has added tokens, and {which}; added tokens are accepted where all "
            "others keep their ids: give the base that this model was fine-tuned from."
        )


def _check_vocabulary(base: ModelInfo, finetuned: ModelInfo) -> Iterator[BadModel]:
    """Rows that one vocabulary has more than the other, unless tokens were added or no tokenizer uses them."""
    if not is_padded(base, finetuned):
        return
    if added_rows(base, finetuned):
        yield from _check_added(base, finetuned)
        return
    tokens = [vocabulary_size(info.folder) for info in (base, finetuned) if has_tokenizer(info.folder)]
    shared = min(base.vocab_size or 0, finetuned.vocab_size or 0)
    if not tokens or any(count is None or count > shared for count in tokens):
        larger = (base.vocab_size or 0) > (finetuned.vocab_size or 0)
        why = (
            "the tokenizer uses rows that only the base has; give the base that this model was fine-tuned from"
            if larger
            else "no tokenizer of the fine-tuned model says which tokens were added; put its tokenizer into its folder"
        )
        yield PairMismatch(
            f"the vocabularies differ: {base.vocab_size:,} tokens in the base, {finetuned.vocab_size:,} in the "
            f"fine-tuned model, and {why}."
        )


def _padding_note(base: ModelInfo, finetuned: ModelInfo) -> Iterator[str]:
    if not is_padded(base, finetuned):
        return
    if added := added_rows(base, finetuned):
        yield (
            f"Fine-tuning added tokens: the fine-tuned model has {added:,} more vocabulary rows. Embeddings are never "
            "grafted, so the base is extended by these rows in every state, also in 'pretrained', and the fine-tuned "
            "model's tokenizer is used."
        )
        return
    more = (finetuned.vocab_size or 0) - (base.vocab_size or 0)
    model, what = ("fine-tuned model", "left out") if more > 0 else ("base", "the base's in every state")
    yield f"The {model} has {abs(more):,} more vocabulary rows, which no token of the tokenizer uses; they are {what}."


def _check_tying(base: ModelInfo, finetuned: ModelInfo, readout: str) -> Iterator[BadModel]:
    """A base with an output matrix of its own beside a fine-tuned model that has none."""
    heads = HEADS.get(base.model_type)
    has_output = heads is not None and any(name in own_shapes(base) for name in heads.output)
    if readout != "head" and has_output and not is_tied(base) and is_tied(finetuned):
        yield PairMismatch(
            "the fine-tuned model ties its output matrix to the embedding and the base does not; the pair does not fit."
        )


def _check_heads(base: ModelInfo, finetuned: ModelInfo, readout: str) -> Iterator[BadModel]:
    """Heads that would be random: the fine-tuned one's, and the base's language-model head."""
    if readout != "head" and (error := refused_generator(finetuned)) is not None:
        yield error
        return
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
    models = [(finetuned, "fine-tuned model")] + ([(base, "base")] if readout != "head" else [])
    for info, model in models if finetuned.adapter is None else models[1:]:
        if lost := missing_head(info, readout):
            yield RandomHead(
                f"the {model} '{info.id}' has no {NAMES[readout]} ('{lost[0]}' is missing{_more(lost)}), so its "
                "scores would come from a random one; give a model that has it, or another --readout."
            )


def _check_labels(info: ModelInfo, count: int | None, readout: str, task: Task | None) -> Iterator[BadModel]:
    """A head for another number of classes than the task has, or for none; `info` has its configuration."""
    if readout == "head" and count != 1 and (kind := other_kind(info)):
        yield PairMismatch(
            f"the fine-tuned model's head is {kind}; a region is scored on one label an example, so give a model "
            "with a single-label head."
        )
        return
    if readout != "head" or count is None:
        return
    if count < 2:
        yield PairMismatch("the fine-tuned model's head has one output (a regression); a classifier needs two or more.")
    elif task is not None and len(task.labels) != count:
        yield PairMismatch(
            f"the fine-tuned model has {count} labels and the task '{task.name}' has {len(task.labels)} "
            f"({', '.join(task.labels)})."
        )


def _check_tokenizers(base: ModelInfo, finetuned: ModelInfo) -> Iterator[BadModel]:
    """No tokenizer in either folder, or one with more tokens than the model has embeddings."""
    folder = next((info.folder for info in (base, finetuned) if has_tokenizer(info.folder)), None)
    if folder is None:
        yield ModelNotFound(
            f"neither '{base.id}' nor '{finetuned.id}' has a tokenizer (tokenizer.json or vocab.txt); "
            "copy the tokenizer's files into one of them."
        )
        return
    owner = finetuned if added_rows(base, finetuned) else base
    size = vocabulary_size(finetuned.folder if owner is finetuned else folder)
    if size is not None and owner.vocab_size is not None and size > owner.vocab_size:
        yield PairMismatch(
            f"the tokenizer has {size:,} tokens and the model {owner.vocab_size:,}; it belongs to another model."
        )


def _body(info: ModelInfo) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape in own_shapes(info).items() if not is_head(info.model_type, name)}


def _in_blocks(info: ModelInfo) -> dict[str, tuple[int, ...]]:
    """The tensors of the numbered blocks, named from the block on.

    Of a family that is not in the table neither the body's prefix nor the names of its heads are known, so
    nothing else can be compared by name; loading tells the rest.
    """
    matches = {name: re.search(UNKNOWN.block, name) for name in info.shapes}
    return {name[at.start() :].lstrip("."): info.shapes[name] for name, at in matches.items() if at}


def _blocks(body: dict[str, tuple[int, ...]]) -> int:
    return len({match.group(1) for name in body if (match := BLOCK.search(name))})


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(str(k) for k in shape)


def _more(names: list[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""

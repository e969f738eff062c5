"""Check if two models make a pair, from configuration and headers, in well under a second and without torch."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillviz.core.architectures import FAMILIES, UNKNOWN, family_of
from skillviz.core.comparison import Comparison
from skillviz.core.formats import counted, listed
from skillviz.core.parameters import ParameterTable, graftable
from skillviz.errors import BadInput, BadModel, ModelNotFound, PairMismatch, RandomHead, SkillvizError
from skillviz.models import frozen_tensors as frozen
from skillviz.models import lora
from skillviz.models.checkpoint import FLOATS, ModelInfo, Stored, own_dtype, read_info
from skillviz.models.class_order import ClassOrder, class_order
from skillviz.models.fetch import is_local, refuse_absent, resolve
from skillviz.models.heads import (
    LINEAR_FAMILIES,
    NAMES,
    OLD_NAMES,
    choose_readout,
    is_head,
    is_linear,
    is_tied,
    label_count,
    missing_head,
    other_kind,
    own_shapes,
    prefix_of,
    refused_generator,
    stands_for,
    supported,
)
from skillviz.models.tokenizer import has_tokenizer
from skillviz.models.tokenizer_comparison import TokenizerComparison, compared_as_loaded, compared_by_files

if TYPE_CHECKING:
    from skillviz.tasks.task import Task


# Settings that change the computation of equal shapes.
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
    "rope_theta", "rope_parameters", "rope_scaling", "partial_rotary_factor", "rms_norm_eps", "layer_norm_eps",
    "layer_norm_epsilon", "num_experts_per_tok", "position_embedding_type", "sliding_window", "layer_types", "alibi",
    "attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "use_parallel_residual",
    "parallel_attn", "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "attention_multiplier",
    "embedding_multiplier", "residual_multiplier", "logits_scaling",
)  # fmt: skip
"""Settings that change the computation of equal shapes, but which fine-tuning may change: a note, no error."""
BLOCK = re.compile(r"(?:^|\.)(?:layers?|h)\.(\d+)\.")


@dataclass(frozen=True)
class Preflight:
    """The facts about a pair from its headers. `errors` prevent its use; `notes` are for the user.

    `readout` is '' and `d` None if unknown. `labels` is the number of classes of the fine-tuned head. `table` has the
    graftable parameters under the model's names, in the order of the file, which is not the order for rankings.
    `class_order` has the head's output for each label of the task, None if that is the head's own order. `tokenizers`
    is None if the pair was refused before they were compared.
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
    class_order: tuple[int, ...] | None = None
    tokenizers: TokenizerComparison | None = None

    def __repr__(self) -> str:
        graftable = "" if self.d is None else f", {self.d:,} graftable"
        fits = "fits" if self.fits else f"does not fit: {self.problems[0]}"
        return f"Preflight({self.base.id} → {self.finetuned.id}, {self.readout or 'no'} readout{graftable}, {fits})"

    @property
    def problems(self) -> list[str]:
        """The problems of the pair, one sentence each; empty for a good pair."""
        return [str(error.args[0]) for error in self.errors]

    @property
    def fits(self) -> bool:
        """True if there is no error against using the pair."""
        return not self.errors

    @property
    def linear(self) -> bool:
        """True if the head is the bare linear one on the first token."""
        return self.readout == "head" and _is_linear(self.finetuned)

    @property
    def tokenizer_folder(self) -> Path:
        """The folder of the tokenizer to use: the base's if it has one, so that base and graft are complete.

        Otherwise, and if fine-tuning added tokens, it is the fine-tuned model's.
        """
        if self.added_rows or not has_tokenizer(self.base.folder):
            return self.finetuned.folder
        return self.base.folder

    @property
    def added_rows(self) -> tuple[int, ...]:
        """The vocabulary rows of tokens that fine-tuning added, which are the fine-tuned model's in every state."""
        return () if self.tokenizers is None else added_rows(self.base, self.finetuned, self.tokenizers)

    def raise_first(self) -> None:
        """Raise the first problem as its own error class; do nothing for a good pair."""
        if self.errors:
            raise self.errors[0]


def published_base(base: str | Path, finetuned: str | Path) -> str | None:
    """Return the published id, from the fine-tuned model's folder, of a base that is not on this machine, or None."""
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
    """Return the check of a pair, without reading weights.

    For a base that is not on this machine, its published copy is used if the hub's local cache has it. Raises
    ModelNotFound, UnsafeWeights or CorruptFile if a model's files cannot be read at all; all other problems are in
    `errors` and `notes`.
    """
    published = published_base(base, finetuned)
    folder = resolve(published if published and is_local(published) else base)
    second = read_info(resolve(finetuned))
    first = frozen.base_as_read(second, read_info(folder))
    if first.adapter is not None:
        raise BadModel(f"the base '{first.id}' is an adapter; give the model that it was trained on.")
    if (error := frozen.wrong_base(second, first)) is not None:
        return Preflight(first, second, "", None, None, None, (error,), ())
    second = frozen.filled(second, first)
    errors: list[SkillvizError] = []
    readout_name = _choose_readout(first, second, readout, errors)
    # an adapter's body is the base's: only its head and its low-rank pairs are its own
    body = first if second.adapter is not None else second
    labels = _labels(first, second)
    tokenizers = compared_by_files(first.folder, second.folder)
    errors += _problems(first, second, readout_name, task, labels, tokenizers)
    classes = ClassOrder()
    if readout_name == "head" and task is not None and task.has_classes:
        classes = class_order(second, first, task, labels)
        errors += [classes.error] if classes.error else []
    table = _table(body, errors)
    notes = (
        *_notes(first, second, readout_name, table),
        *classes.notes,
        *_tokenizer_notes(first, second, tokenizers),
    )
    d, layers = (table.d, table.layers) if table else (None, None)
    return Preflight(
        first, second, readout_name, d, layers, labels, tuple(errors), notes, table, classes.outputs, tokenizers
    )


def as_loaded(check: Preflight) -> Preflight:
    """Return the check, completed by comparisons that files alone do not allow (imports torch); raises the first error.

    These are settings that one configuration leaves to its family's default, and tokenizers.
    """
    check.raise_first()
    check = _with_loaded_tokenizers(_with_loaded_settings(check))
    check.raise_first()
    return check


def _with_loaded_settings(check: Preflight) -> Preflight:
    """Compare settings that only one configuration states with the other's default."""
    configs = [info.config for info in (check.base, check.finetuned)]
    unstated = [key for key in (*SETTINGS, *NOTED_SETTINGS) if len({config.get(key) is None for config in configs}) > 1]
    if check.finetuned.adapter is not None or not unstated:
        return check
    from transformers import AutoConfig  # takes seconds to import

    folders = (check.base.folder, check.finetuned.folder)
    try:
        loaded = [AutoConfig.from_pretrained(f, local_files_only=True, trust_remote_code=False) for f in folders]
    except (KeyError, OSError, TypeError, ValueError):  # loading the model will report the reason
        return check
    base, finetuned = (
        replace(info, config={**info.config, **{key: getattr(config, key, None) for key in unstated}})
        for info, config in zip((check.base, check.finetuned), loaded, strict=True)
    )
    notes = [note for note in _settings_note(base, finetuned) if note not in check.notes]
    return replace(check, errors=tuple(_check_architecture(base, finetuned)), notes=(*check.notes, *notes))


def _with_loaded_tokenizers(check: Preflight) -> Preflight:
    """Compare the tokenizers as loaded by transformers, unless equal files prove them equal or a folder has none."""
    base, finetuned, before = check.base, check.finetuned, check.tokenizers
    folders = (base.folder, finetuned.folder)
    if before is None or before.is_loaded or not all(map(has_tokenizer, folders)):
        return check
    if before.result is Comparison.SAME and not before.added:
        return check
    try:
        after = compared_as_loaded(*folders)
    except BadModel as error:
        if check.added_rows:
            raise
        after = replace(before, result=Comparison.UNKNOWN, differences=(str(error.args[0]),), is_loaded=True)
    said = set(_tokenizer_notes(base, finetuned, before))
    notes = [note for note in check.notes if note not in said]
    errors = [*_check_vocabulary(base, finetuned, after), *_check_tokenizers(base, finetuned, after)]
    return replace(
        check,
        tokenizers=after,
        errors=(*check.errors, *errors),
        notes=(*notes, *_tokenizer_notes(base, finetuned, after)),
    )


def _choose_readout(base: ModelInfo, finetuned: ModelInfo, readout: str | None, errors: list[SkillvizError]) -> str:
    try:
        if finetuned.adapter is not None:
            return lora.adapter_readout(finetuned, base, readout)
        return choose_readout(finetuned, readout)
    except (BadInput, BadModel) as error:
        errors.append(error)
        return ""


def _problems(
    base: ModelInfo,
    finetuned: ModelInfo,
    readout: str,
    task: Task | None,
    labels: int | None,
    tokenizers: TokenizerComparison,
) -> Iterator[SkillvizError]:
    if finetuned.adapter is not None:
        yield from lora.check_adapter(finetuned, base, readout)
        yield from _check_floats(base)
    else:
        mismatches = [*_check_architecture(base, finetuned), *_check_floats(base), *_check_floats(finetuned)]
        yield from mismatches
        if base.model_type != finetuned.model_type:
            return
        yield from _check_vocabulary(base, finetuned, tokenizers)
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
    yield from _check_tokenizers(base, finetuned, tokenizers)


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
    prefix = family_of(info.model_type).prefix
    return replace(table, parameters=tuple(replace(p, name=prefix + p.name) for p in table.parameters))


def _notes(base: ModelInfo, finetuned: ModelInfo, readout: str, table: ParameterTable | None) -> Iterator[str]:
    if finetuned.adapter is not None:
        yield from lora.adapter_notes(finetuned, base)
    for info, model in ((base, "base"), (finetuned, "fine-tuned model")):
        if info.wrapper:
            yield (
                f"The {model} was saved inside a wrapper (such as torch.compile, FSDP or a class of its own): "
                f"'{info.wrapper}' is left out of its tensors' names."
            )
    if (note := frozen.note(finetuned, base)) is not None:
        yield note
    if readout == "head":
        own = "no classification head" if missing_head(base, "head") else "a classification head of its own"
        is_known = base.model_type in FAMILIES
        start = f"The base has {own}:" if is_known else "Whatever classification head the base has,"
        yield (
            f"{start} the fine-tuned model's is used in every state, also in 'pretrained'; it belongs to "
            "the readout and is never graftable."
        )
        if not _is_linear(finetuned) and (pooler := sorted(n for n in own_shapes(base) if n.startswith("pooler."))):
            yield f"The base's own pooler ('{pooler[0]}', ...) is not used: the fine-tuned model's is, in every state."
        if _is_linear(finetuned):
            yield "The head is a bare linear layer on the first token (a token-classification model, read there)."
    for info, model in ((base, "base"), (finetuned, "fine-tuned model")):
        if info.adapter is None and info.dtype != "float32":
            lean = ", and as bfloat16 in lean mode" if own_dtype(base, finetuned) == "bfloat16" else ""
            yield f"The {model}'s file is stored as {info.dtype}. It is loaded as float32 by default{lean}."
        if info.config.get("auto_map"):
            yield f"The {model} comes with code of its own, which skillviz never runs."
    if table is not None and table.note:
        yield table.note
    yield from _settings_note(base, finetuned)


def _settings_note(base: ModelInfo, finetuned: ModelInfo) -> Iterator[str]:
    for key, one, other in _differing(base, finetuned, NOTED_SETTINGS):
        yield (
            f"The configurations differ in {key}: {one} in the base, {other} in the fine-tuned model, whose value is "
            "used in every state, also in 'pretrained'."
        )


def _differing(base: ModelInfo, finetuned: ModelInfo, keys: Iterable[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the settings that both configurations have with different values."""
    for key in keys:
        one, other = base.config.get(key), finetuned.config.get(key)
        if one is not None and other is not None and one != other:
            yield key, one, other


def _is_linear(finetuned: ModelInfo) -> bool:
    return lora.is_linear_adapter(finetuned) or is_linear(finetuned.architectures)


def _tokenizer_notes(base: ModelInfo, finetuned: ModelInfo, tokenizers: TokenizerComparison) -> Iterator[str]:
    """Yield notes on the tokenizer in use, the effects of the other one, and the vocabulary rows."""
    rows = added_rows(base, finetuned, tokenizers)
    yield from _rows_note(base, finetuned, tokenizers, rows)
    if not has_tokenizer(base.folder) and has_tokenizer(finetuned.folder):
        yield "The base has no tokenizer: the fine-tuned model's is used."
    elif not has_tokenizer(finetuned.folder) and not frozen.left_out(finetuned):
        yield "The fine-tuned model's folder has no tokenizer: the base's is used."
    elif has_tokenizer(finetuned.folder):
        yield from _difference_note(tokenizers, bool(rows))
        for cut in tokenizers.cuts:
            used = "fine-tuned model's" if rows else "base's"
            yield f"The two tokenizers shorten long texts differently ({cut}); the {used} settings are used."


def _difference_note(tokenizers: TokenizerComparison, is_extended: bool) -> Iterator[str]:
    """Yield a note that names the model whose scores are not its own, because the other's tokenizer is used."""
    if tokenizers.result is Comparison.SAME:
        return
    what = f" ({listed(tokenizers.differences, 3)})"
    if is_extended:
        start = f"The two tokenizers differ in more than added tokens{what}. The fine-tuned model's is used."
        scores, own, advice = "pre-trained scores", "the base's own", ""
    else:
        start = f"The two tokenizers differ{what}. The base's is used, so that base and graft together are complete."
        scores, own = "fine-tuned scores", "that model's own"
        advice = " To get its own, put the fine-tuned model's tokenizer files into a copy of the base's folder."
    if tokenizers.result is Comparison.DIFFERENT:
        said = f"The {scores} here are not {own}: it was trained with another tokenizer."
    elif tokenizers.is_loaded:
        said = f"All trial texts get the same tokens. If another text does not, the {scores} are not {own}."
    else:
        said = f"Loading them tells whether texts get the same tokens. If they do not, the {scores} are not {own}."
    yield f"{start} {said}{advice}"


def _check_architecture(base: ModelInfo, finetuned: ModelInfo) -> Iterator[BadModel]:
    """Yield errors for equal folders, different families and different settings."""
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
    for key, one, other in _differing(base, finetuned, SETTINGS):
        yield PairMismatch(f"the configurations differ in {key}: {one} in the base, {other} in the fine-tuned model.")


DEQUANTIZED = {"bitsandbytes": ("bitsandbytes", None), "fp8": ("accelerate", "FineGrainedFP8Config")}
"""Quantizers whose values transformers can write out: the package needed, and the settings class that requests it."""


def _check_floats(info: ModelInfo) -> Iterator[BadModel]:
    """Yield an error for quantized weights, which have no values to copy entry by entry."""
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
    """Return the command that writes a quantized model (of DEQUANTIZED) as float32, into a folder beside it."""
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
    # transformers 5.23 cannot save a model that was loaded quantized, so its values go into a new one
    code = (
        f"from transformers import {info.architectures[0]} as M{f', {config} as Q' if config else ''}; "
        f"m = {loaded}; n = M(m.config); n.load_state_dict(m.state_dict()); "
        f"vars(n.config).pop('quantization_config', 0); n.save_pretrained({out!r})"
    )
    return f'python -c "{code}"'


def _check_shapes(base: ModelInfo, finetuned: ModelInfo) -> Iterator[BadModel]:
    """Yield errors for a different number of blocks, and for tensors outside the heads that differ in name or shape."""
    one, other = _body(base), _body(finetuned)
    blocks, other_blocks = (len({at[1] for name in body if (at := BLOCK.search(name))}) for body in (one, other))
    if blocks != other_blocks:
        yield PairMismatch(
            f"the base has {blocks} blocks and the fine-tuned model {other_blocks}; give the base that this model was "
            "fine-tuned from."
        )
        return
    both = one | other
    missing = [
        name
        for name in sorted(one.keys() ^ other.keys())
        if not stands_for(finetuned if name in one else base, name, both[name])
    ]
    if missing:
        which = "base" if missing[0] not in one else "fine-tuned model"
        yield PairMismatch(
            f"the {which} has no '{missing[0]}'{_more(missing)}, which the other one has.{_prefix_words(one, other)}"
        )
    rows = (base.vocab_size, finetuned.vocab_size) if is_padded(base, finetuned) else ()
    unequal = [name for name in one if name in other and one[name] != other[name]]
    unequal = [n for n in unequal if (one[n][:1] + other[n][:1], one[n][1:]) != (rows, other[n][1:])]
    for name in unequal[:1]:
        first, second = (" x ".join(map(str, body[name])) for body in (one, other))
        yield PairMismatch(
            f"the shapes differ: '{name}' is {first} in the base and {second} in the "
            f"fine-tuned model{_more(unequal)}; give the base that this model was fine-tuned from."
        )


def _prefix_words(base: Collection[str], finetuned: Collection[str]) -> str:
    """Return a sentence if one model's names are the other's with a prefix; '' otherwise."""
    for which, names, others in (("base", base, finetuned), ("fine-tuned model", finetuned, base)):
        name = min(set(names) - set(others), default="")
        if outer := prefix_of(name, others):
            return (
                f" The {which}'s names begin with '{outer}': it was saved from a class that holds the model there. "
                f"Load it in the training program, and call save_pretrained on its '{outer.rstrip('.')}'."
            )
    return ""


def is_padded(base: ModelInfo, finetuned: ModelInfo) -> bool:
    """True if the two vocabularies have different numbers of rows."""
    return (
        finetuned.adapter is None
        and None not in (sizes := (base.vocab_size, finetuned.vocab_size))
        and (sizes[0] != sizes[1])
    )


def added_rows(base: ModelInfo, finetuned: ModelInfo, tokenizers: TokenizerComparison) -> tuple[int, ...]:
    """Return the vocabulary rows of tokens that only the fine-tuned model's tokenizer has.

    They are spare rows of the base, and all rows after its last one. The result is empty for mere padding, or if the
    model has no row for any of these tokens.
    """
    if not has_tokenizer(finetuned.folder):
        return ()
    before, after = _rows(base, finetuned)
    spare = sorted(number for number in tokenizers.added.values() if number < min(before, after))
    is_extended = after > before and (tokenizers.sizes[1] or 0) > before
    return (*spare, *(range(int(before), int(after)) if is_extended else ()))


def _rows(base: ModelInfo, finetuned: ModelInfo) -> tuple[float, float]:
    """Return the rows of both vocabularies, for an adapter its base's; infinite if a configuration does not say."""
    sizes = (base.vocab_size, (finetuned if finetuned.adapter is None else base).vocab_size)
    before, after = (math.inf if size is None else size for size in sizes)
    return before, before if math.inf in (before, after) else after


def _check_vocabulary(base: ModelInfo, finetuned: ModelInfo, tokenizers: TokenizerComparison) -> Iterator[BadModel]:
    """Yield errors for additional rows in one vocabulary, unless tokens were added or no tokenizer uses the rows."""
    if not is_padded(base, finetuned):
        return
    before, after = _rows(base, finetuned)
    if has_tokenizer(finetuned.folder) and after > before and (tokenizers.sizes[1] or 0) > before:
        # their rows are the base's only if all other tokens keep their ids
        if has_tokenizer(base.folder) and not tokenizers.added:
            moved = tokenizers.moved
            which = listed(tokenizers.differences)
            if moved:
                which = f"it gives '{moved[0]}'{_more(list(moved))} another id"
            elif tokenizers.sizes[0] is None:
                which = "the base's cannot be compared with it"
            yield PairMismatch(
                f"the fine-tuned model's tokenizer has added tokens, and {which}; added tokens are accepted where all "
                "others keep their ids: give the base that this model was fine-tuned from."
            )
        return
    tokens = [
        size for info, size in zip((base, finetuned), tokenizers.sizes, strict=True) if has_tokenizer(info.folder)
    ]
    if not tokens or any(count is None or count > min(before, after) for count in tokens):
        why = (
            "the tokenizer uses rows that only the base has; give the base that this model was fine-tuned from"
            if before > after
            else "no tokenizer of the fine-tuned model says which tokens were added; put its tokenizer into its folder"
        )
        yield PairMismatch(
            f"the vocabularies differ: {base.vocab_size:,} tokens in the base, {finetuned.vocab_size:,} in the "
            f"fine-tuned model, and {why}."
        )


def _rows_note(
    base: ModelInfo, finetuned: ModelInfo, tokenizers: TokenizerComparison, rows: tuple[int, ...]
) -> Iterator[str]:
    """Yield a note on the vocabulary rows in use, if the two models differ in them."""
    before, after = _rows(base, finetuned)
    added = [f"'{token}'" for token in tokenizers.added]
    if rows:
        behind = sum(row >= before for row in rows)
        found = [f"the fine-tuned model has {behind:,} more vocabulary rows"] if behind else []
        if spare := len(rows) - behind:
            found.append(f"{counted(spare, 'row')} that the base has spare hold new ones")
        which = f" ({listed(added, 3)})" if added else ""
        whose = "the base is extended by these rows" if behind == len(rows) else "these rows are the fine-tuned model's"
        yield (
            f"Fine-tuning added tokens{which}: {listed(found)}. Embeddings are never grafted, so {whose} in every "
            "state, also in 'pretrained', and the fine-tuned model's tokenizer is used."
        )
        return
    if added and has_tokenizer(base.folder):
        yield (
            f"The fine-tuned model's tokenizer has {counted(len(added), 'token')} more ({listed(added, 3)}), and the "
            "models have no rows for them: the base's tokenizer is used."
        )
    if is_padded(base, finetuned):
        model, what = ("fine-tuned model", "left out") if after > before else ("base", "the base's in every state")
        more = int(abs(after - before))
        yield f"The {model} has {more:,} more vocabulary rows, which no token of the tokenizer uses; they are {what}."


def _check_tying(base: ModelInfo, finetuned: ModelInfo, readout: str) -> Iterator[BadModel]:
    """Yield an error for a base with an output matrix of its own beside a fine-tuned model that has none."""
    has_output = any(name in own_shapes(base) for name in family_of(base.model_type).output)
    if readout != "head" and has_output and not is_tied(base) and is_tied(finetuned):
        yield PairMismatch(
            "the fine-tuned model ties its output matrix to the embedding and the base does not; the pair does not fit."
        )


def _check_heads(base: ModelInfo, finetuned: ModelInfo, readout: str) -> Iterator[BadModel]:
    """Yield errors for heads that would be random: the fine-tuned one's, and the base's language-model head."""
    if readout != "head" and (error := refused_generator(finetuned)) is not None:
        yield error
        return
    if not supported(base.model_type, readout):
        yield BadModel(
            f"the {readout} readout does not exist for '{base.model_type}' models; "
            f"possible: {', '.join(FAMILIES[base.model_type].needed)}."
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
    """Yield errors for a head with another number of classes than the task, or none; `info` has its configuration."""
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


def _check_tokenizers(base: ModelInfo, finetuned: ModelInfo, tokenizers: TokenizerComparison) -> Iterator[BadModel]:
    """Yield errors for missing tokenizers, and for a tokenizer with more tokens than the model has embeddings."""
    if not any(has_tokenizer(info.folder) for info in (base, finetuned)):
        yield ModelNotFound(
            f"neither '{base.id}' nor '{finetuned.id}' has a tokenizer (tokenizer.json or vocab.txt); "
            "copy the tokenizer's files into one of them."
        )
        return
    uses_finetuned = bool(added_rows(base, finetuned, tokenizers)) or not has_tokenizer(base.folder)
    size, rows = tokenizers.sizes[uses_finetuned], _rows(base, finetuned)[uses_finetuned]
    if size is not None and size > rows:
        yield PairMismatch(f"the tokenizer has {size:,} tokens and the model {rows:,}; it belongs to another model.")


def _body(info: ModelInfo) -> dict[str, tuple[int, ...]]:
    """Return the tensors outside the heads.

    For a family that is not in the table, they are those of the numbered blocks, with names beginning at the block: the
    body's prefix and the names of its heads are unknown, so nothing else can be compared by name; loading checks the
    rest.
    """
    if info.model_type in FAMILIES:
        return {name: shape for name, shape in own_shapes(info).items() if not is_head(info.model_type, name)}
    matches = {name: re.search(UNKNOWN.block, name) for name in info.shapes}
    return {name[at.start() :].lstrip("."): info.shapes[name] for name, at in matches.items() if at}


def _more(names: list[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


INSTEAD = "switch lean mode off (leave out --lean)"


def lean_refusal(check: Preflight) -> BadInput | None:
    """Return the reason why a valid pair cannot be opened in lean mode; None if it can, as far as headers show."""
    why = None
    if check.finetuned.adapter is not None:
        why = f"'{check.finetuned.id}' is an adapter; merge it into its base and save that model, if that is possible"
    elif is_padded(check.base, check.finetuned):
        why = "the two vocabularies have different numbers of rows; save both with the same number"
    elif check.added_rows:
        why = "fine-tuning added tokens in vocabulary rows that the base has spare"
    elif check.table is not None:
        try:
            for info in (check.base, check.finetuned):
                stored_as(info, check.table.shapes)
        except BadInput as error:
            return error
    return BadInput(f"lean mode reads both models' values from their files: {why}, or {INSTEAD}.") if why else None


def stored_as(info: ModelInfo, shapes: Mapping[str, tuple[int, ...]]) -> list[Stored]:
    """Return the stored tensor of each parameter, found by name with or without the body's prefix; raises BadInput."""
    files = dict[str, Stored]()
    for name, stored in info.tensors.items():
        for old, new in OLD_NAMES:
            name = name.replace(old, new)
        files[name] = stored
    by_end = dict[str, list[str]]()
    for name in files:
        by_end.setdefault(_end(name), []).append(name)
    found = []
    for name, shape in shapes.items():
        alike = [one for one in by_end.get(_end(name), ()) if name.endswith(f".{one}") or one.endswith(f".{name}")]
        own = files.get(name) or (files[alike[0]] if len(alike) == 1 else None)
        if own is None and (output := stands_for(info, name, tuple(shape))) is not None:
            own = files[output]
        if own is None or own.shape != tuple(shape) or own.dtype not in FLOATS:
            raise BadInput(
                f"lean mode cannot read '{name}': '{info.id}' does not store it under that name and shape; {INSTEAD}."
            )
        found.append(own)
    return found


def _end(name: str) -> str:
    return ".".join(name.split(".")[-2:])

"""The body and heads in a model's files, by the table of families, so that a header alone shows the head."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from skillviz.core.architectures import END_HEAD, FAMILIES, family_of
from skillviz.core.class_names import match
from skillviz.core.comparison import Comparison
from skillviz.errors import BadInput, BadModel, RandomHead

if TYPE_CHECKING:
    from skillviz.models.checkpoint import ModelInfo

Readout = Literal["prompt", "head", "causal"]
READOUTS: tuple[str, ...] = get_args(Readout)
CLASSES = {
    "head": r"For(Sequence|Token)Classification$",
    "prompt": r"For(MaskedLM|PreTraining)$",
    "causal": r"ForCausalLM$|LMHeadModel$",
}
LINEAR = r"ForTokenClassification$"
LINEAR_HEAD = ("classifier.weight", "classifier.bias")
LINEAR_FAMILIES = tuple(name for name, family in FAMILIES.items() if family.linear_head)
OTHER_KINDS = {
    "multi_label_classification": "multi-label (any number of labels an example)",
    "regression": "a regression (numbers, not labels)",
}
"""Kinds of heads that give no class scores, by the configuration's `problem_type`."""
NAMES = {"head": "classification head", "prompt": "masked-LM head", "causal": "causal-LM head"}


# First parts of the names of heads that a file of any family may have in addition to its row's.
ANY_HEAD = frozenset(
    ("pooler", "cls", "lm_head", "classifier", "score", "discriminator_predictions", "lm_predictions",
     "mask_predictions", "qa_outputs", "final_logits_bias")
)  # fmt: skip
# Stored in old files, but not parameters: causal masks, rotary tables, position numbers.
BUFFERS = re.compile(r"(^|\.)(attn|attention)\.(masked_)?bias$|rotary_emb\.inv_freq$|(^|\.)position_ids$")
COPIES = r"^(encoder|decoder)\.embed_tokens\.weight$"
TOKEN_EMBEDDING = re.compile(
    r"(^|\.)(word_embeddings?|wte|embed_tokens|embed_in|tok(ens)?_embed(dings)?|shared|w|embeddings)\.weight$"
)
"""Names of the token embedding in any family."""
OLD_NAMES = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))


def outer_prefix(model_type: str, names: Collection[str]) -> str:
    """Return the prefix that all tensors of a file share and that no model of the family has.

    It is the attribute of a program's own class that holds the model, such as `net.`. It is '' if the names are the
    family's own, or if the family is unknown.
    """
    if model_type not in FAMILIES:
        return ""
    family, outer = FAMILIES[model_type], ""
    while len({name.partition(".")[0] for name in names}) == 1:
        first = f"{next(iter(names)).partition('.')[0]}."
        inside = [name.removeprefix(first) for name in names]
        if not any(re.search(family.block, name) for name in inside):
            break
        # a body alone may have its prefix, unless a head or a second prefix follows it
        tops = {name.partition(".")[0] for name in inside} - {"pooler"}
        is_own = first == family.prefix and first.removesuffix(".") not in tops
        if is_own and not any(is_head(model_type, top) for top in tops):
            break
        outer, names = outer + first, inside
    return outer


def prefix_of(name: str, names: Collection[str]) -> str:
    """Return the prefix to remove from a name to make it one of these; '' if there is none."""
    ends = [at + 1 for at, sign in enumerate(name) if sign == "."]
    return next((name[:end] for end in ends if name[end:] in names), "")


def own_shapes(info: ModelInfo) -> dict[str, tuple[int, ...]]:
    """Return the parameters of a file, named without the body's prefix, with today's names, without buffers."""
    prefix, shapes = family_of(info.model_type).prefix, {}
    for name, shape in info.shapes.items():
        if BUFFERS.search(name):
            continue
        for old, new in OLD_NAMES:
            name = name.replace(old, new)
        shapes[name.removeprefix(prefix)] = shape
    if "shared.weight" in shapes:  # old files list the shared embedding of encoder and decoder three times
        shapes = {name: shape for name, shape in shapes.items() if not re.search(COPIES, name)}
    return shapes


def is_head(model_type: str, name: str) -> bool:
    """True if a tensor (named without prefix) belongs to a head or pooler of its family."""
    family = family_of(model_type)
    names = (name for names in (*family.needed.values(), family.output) for name in names)
    return name.split(".")[0] in {*(one.split(".")[0] for one in names), *family.unused, *ANY_HEAD}


def reads_end(model_type: str) -> bool:
    """True if the family's classification head is read at the end-of-text token, of which a text may have several."""
    return family_of(model_type).labels.startswith(END_HEAD)


def is_tied(info: ModelInfo) -> bool:
    """True if the output matrix is the token embedding: as configured, or by the family's default."""
    return bool(info.config.get("tie_word_embeddings", family_of(info.model_type).tied))


def stands_for(info: ModelInfo, name: str, shape: tuple[int, ...]) -> str | None:
    """Return the file's name of the output matrix that a tied model's file has in place of this token embedding.

    None if the embedding is another tensor, or if such a matrix is not in the file or would not be the embedding.
    """
    family = family_of(info.model_type)
    if not is_tied(info) or not TOKEN_EMBEDDING.search(name):
        return None
    names = (f"{family.prefix}{output}" for output in family.output)
    stored = (one for one in (*family.output, *names) if info.shapes.get(one, ())[1:] == tuple(shape[1:]) != ())
    return next(stored, None)


def is_linear(architectures: Iterable[str]) -> bool:
    """True if a model of these classes has the bare linear head, read at the first token."""
    return any(re.search(LINEAR, name) for name in architectures)


def missing_head(info: ModelInfo, readout: str, linear: bool | None = None) -> list[str]:
    """Return the tensors that this readout's head needs and the file lacks.

    A tied output matrix does not count as missing. `linear` asks for the bare linear head, None for the head of the
    model's own class. Empty for an architecture that is not in the table; loading it will report what is missing.
    """
    family = family_of(info.model_type)
    if readout not in family.needed:
        return []
    names = own_shapes(info)
    linear = is_linear(info.architectures) if linear is None else linear
    needed = LINEAR_HEAD if linear and readout == "head" else family.needed[readout]
    missing = [name for name in needed if name not in names]
    if readout != "head" and not is_tied(info) and not any(name in names for name in family.output):
        missing.append(family.output[0])
    return missing


def label_count(info: ModelInfo) -> int | None:
    """Return the number of classes of the file's classification head; None if it has none."""
    is_known, shapes, names = info.model_type in FAMILIES, own_shapes(info), info.config.get("id2label")
    labels = LINEAR_HEAD[0] if is_linear(info.architectures) else family_of(info.model_type).labels
    if is_known and labels in shapes:
        return shapes[labels][0]
    return len(names) if names and not is_known else None


@dataclass(frozen=True)
class ClassNames:
    """A configuration's names of its head's outputs, in order; empty if an output has no name or several.

    `are_numbers` is True if the outputs are only numbered, as by default (`LABEL_0`). `contradiction` is a name that
    `id2label` and `label2id` give to two different outputs.
    """

    names: tuple[str, ...]
    are_numbers: bool = True
    contradiction: str = ""


def class_names(config: Mapping[str, Any]) -> ClassNames:
    """Return the names of the head's outputs: from `id2label`, like transformers, or else from `label2id`."""
    by_output, by_name = (config.get(key) for key in ("id2label", "label2id"))
    first = _outputs(by_output.items() if isinstance(by_output, dict) else ())
    named = by_name.items() if isinstance(by_name, dict) else ()
    second = _outputs((output, name) for name, output in named)
    if first.are_numbers or second.are_numbers:
        return second if first.are_numbers and not second.are_numbers else first
    matching = match(first.names, second.names)
    if matching.is_reordered or matching.comparison is Comparison.DIFFERENT:
        return replace(first, contradiction=matching.misplaced or first.names[0])
    return first


def _outputs(named: Iterable[tuple[Any, Any]]) -> ClassNames:
    """Return the names by output."""
    several: dict[str, list[str]] = {}
    for output, name in named:
        several.setdefault(str(output).strip(), []).append(str(name))
    names = tuple(several.get(str(output), [""])[0] for output in range(len(several)))
    if "" in names or any(len(of_one) > 1 for of_one in several.values()):
        return ClassNames(())
    return ClassNames(names, all(name in (f"LABEL_{output}", str(output)) for output, name in enumerate(names)))


def other_kind(info: ModelInfo) -> str | None:
    """Return the kind of a head without classes, from its configuration; None for a usual classification head."""
    return OTHER_KINDS.get(str(info.config.get("problem_type")))


def own_head_of_other_kind(info: ModelInfo, labels: int) -> str | None:
    """Return the reason why a base cannot be fine-tuned to this many labels: its own head is of another kind."""
    if (kind := other_kind(info)) is None or label_count(info) != labels:
        return None
    return (
        f"the base '{info.id}' has a head that is {kind}, which would be trained on as a classifier; give the base "
        "without that head."
    )


def choose_readout(info: ModelInfo, readout: str | None = None) -> str:
    """Return the given readout, or the one of the model's own class, or one whose head is in the file.

    Raises BadInput for an unknown name, RandomHead if the model has no head at all.
    """
    if readout is not None:
        if readout not in READOUTS:
            raise BadInput(f"'{readout}' is not a readout; known: {', '.join(READOUTS)}.")
        return readout
    named = [r for r, pattern in CLASSES.items() if any(re.search(pattern, name) for name in info.architectures)]
    needed = family_of(info.model_type).needed
    available = [r for r in READOUTS if r in needed and not missing_head(info, r)]
    if not named and not available and (error := refused_generator(info)) is not None:
        raise error
    if not named and not available:
        what = info.architectures[0] if info.architectures else "model without a named class"
        raise RandomHead(
            f"'{info.id}' is a bare {what}: it has no head to read class scores from, and a new one would be "
            "random; fine-tune it first (the finetune command), or give the fine-tuned model (are the two swapped?)."
        )
    return (named or available)[0]


def refused_generator(info: ModelInfo) -> BadModel | None:
    """Return the error for an encoder-decoder that writes text: its class scores would refer to a whole output text."""
    if not info.config.get("is_encoder_decoder"):
        return None
    what = info.architectures[0] if info.architectures else f"'{info.model_type}' model"
    is_known = info.model_type in FAMILIES
    then = "give one fine-tuned with a sequence-classification head." if is_known else "give a model of another family."
    return BadModel(
        f"'{info.id}' is a {what}, an encoder-decoder with a language-model head, which has no readout here; {then}"
    )


def supported(model_type: str, readout: str) -> bool:
    """True if the family has a model class for the readout, or if the family is unknown."""
    return model_type not in FAMILIES or readout in FAMILIES[model_type].needed

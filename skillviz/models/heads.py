"""What each family's files call their body and heads: data, so that a header alone tells which head is there.

Names here are without the prefix that a model class puts before its body (`bert.`, `model.`, ...).
Sources: the modelling files of the transformers library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from skillviz.errors import BadInput, RandomHead
from skillviz.models.checkpoint import ModelInfo

Readout = Literal["prompt", "head", "causal"]
READOUTS: tuple[str, ...] = get_args(Readout)
CLASSES = {
    "head": r"For(Sequence|Token)Classification$",
    "prompt": r"For(MaskedLM|PreTraining)$",
    "causal": r"ForCausalLM$|LMHeadModel$",
}
# The paper's bare linear head on the first token is what a family's token-classification class computes there.
LINEAR = r"ForTokenClassification$"
LINEAR_HEAD = ("classifier.weight", "classifier.bias")
LINEAR_FAMILIES = ("bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert")
OTHER_KINDS = {
    "multi_label_classification": "multi-label (any number of labels an example)",
    "regression": "a regression (numbers, not labels)",
}
"""Kinds of heads that give no class scores, by the configuration's `problem_type`."""
NAMES = {"head": "classification head", "prompt": "masked-LM head", "causal": "causal-LM head"}


@dataclass(frozen=True)
class Heads:
    """The prefix of a family's body, and the tensors of its heads, by readout.

    `output` are the names of the matrix that may be tied to the token embedding; `tied` is the family's
    default. A readout that the family has no model class for is absent from `needed`.
    """

    prefix: str
    needed: Mapping[str, tuple[str, ...]]
    output: tuple[str, ...]
    tied: bool
    labels: str


_BERT_LM = "cls.predictions.transform."
BERT = Heads(
    "bert",
    {
        "head": ("pooler.dense.weight", "classifier.weight", "classifier.bias"),
        "prompt": (_BERT_LM + "dense.weight", _BERT_LM + "LayerNorm.weight", "cls.predictions.bias"),
    },
    ("cls.predictions.decoder.weight",),
    True,
    "classifier.weight",
)
ROBERTA = Heads(
    "roberta",
    {
        "head": ("classifier.dense.weight", "classifier.out_proj.weight", "classifier.out_proj.bias"),
        "prompt": ("lm_head.dense.weight", "lm_head.layer_norm.weight", "lm_head.bias"),
    },
    ("lm_head.decoder.weight",),
    True,
    "classifier.out_proj.weight",
)
ELECTRA = Heads(
    "electra",
    {
        "head": ROBERTA.needed["head"],
        "prompt": ("generator_predictions.dense.weight", "generator_lm_head.bias"),
    },
    ("generator_lm_head.weight",),
    True,
    ROBERTA.labels,
)
DISTILBERT = Heads(
    "distilbert",
    {
        "head": ("pre_classifier.weight", "classifier.weight", "classifier.bias"),
        "prompt": ("vocab_transform.weight", "vocab_layer_norm.weight", "vocab_projector.bias"),
    },
    ("vocab_projector.weight",),
    True,
    "classifier.weight",
)


def _causal(prefix: str, tied: bool) -> Heads:
    return Heads(
        prefix,
        {"head": ("score.weight",), "causal": ()},
        ("lm_head.weight", "embed_out.weight"),
        tied,
        "score.weight",
    )


HEADS: dict[str, Heads] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "electra": ELECTRA,
    "distilbert": DISTILBERT,
    "gpt2": _causal("transformer", tied=True),
    "opt": _causal("model", tied=True),
    "gpt_neox": _causal("gpt_neox", tied=False),
    "llama": _causal("model", tied=False),
    "mistral": _causal("model", tied=False),
    "qwen2": _causal("model", tied=False),
    "qwen3": _causal("model", tied=False),
}
# Stored in old files, but no parameters: causal masks, rotary tables, position numbers.
BUFFERS = re.compile(r"(^|\.)(attn|attention)\.(masked_)?bias$|rotary_emb\.inv_freq$|(^|\.)position_ids$")
OLD_NAMES = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))


def own_shapes(info: ModelInfo) -> dict[str, tuple[int, ...]]:
    """The parameters of a file, named without the body's prefix, with today's names, without buffers."""
    heads = HEADS.get(info.model_type)
    prefix = f"{heads.prefix}." if heads else ""
    shapes = {}
    for name, shape in info.shapes.items():
        if BUFFERS.search(name):
            continue
        for old, new in OLD_NAMES:
            name = name.replace(old, new)
        shapes[name.removeprefix(prefix)] = shape
    return shapes


def is_head(model_type: str, name: str) -> bool:
    """Whether a tensor (named without prefix) belongs to a head or pooler of its family."""
    heads = HEADS.get(model_type)
    tops = {n.split(".")[0] for names in heads.needed.values() for n in names} if heads else set()
    tops |= {n.split(".")[0] for n in heads.output} if heads else set()
    return name.split(".")[0] in tops | {"pooler", "cls", "lm_head", "classifier", "score", "discriminator_predictions"}


def is_tied(info: ModelInfo) -> bool:
    """Whether the output matrix is the token embedding: as configured, else the family's default."""
    heads = HEADS.get(info.model_type)
    return bool(info.config.get("tie_word_embeddings", heads.tied if heads else True))


def is_linear(architectures: Iterable[str]) -> bool:
    """Whether a model of these classes has the bare linear head, read at the first token."""
    return any(re.search(LINEAR, name) for name in architectures)


def missing_head(info: ModelInfo, readout: str, linear: bool | None = None) -> list[str]:
    """The tensors that this readout's head needs and the file lacks; a tied output matrix counts as there.

    `linear` asks for the bare linear head, None for the one of the model's own class. Empty for an
    architecture that is not in the table: loading it will tell.
    """
    heads = HEADS.get(info.model_type)
    if heads is None or readout not in heads.needed:
        return []
    names = own_shapes(info)
    linear = is_linear(info.architectures) if linear is None else linear
    needed = LINEAR_HEAD if linear and readout == "head" else heads.needed[readout]
    missing = [name for name in needed if name not in names]
    if readout != "head" and not is_tied(info) and not any(name in names for name in heads.output):
        missing.append(heads.output[0])
    return missing


def label_count(info: ModelInfo) -> int | None:
    """Number of classes that the file's classification head tells apart, None where it has none."""
    heads = HEADS.get(info.model_type)
    shapes = own_shapes(info)
    labels = LINEAR_HEAD[0] if is_linear(info.architectures) else heads.labels if heads else ""
    if heads is not None and labels in shapes:
        return shapes[labels][0]
    names = info.config.get("id2label")
    return len(names) if names and heads is None else None


def other_kind(info: ModelInfo) -> str | None:
    """What the classification head is where it tells no classes apart, by its configuration; None for a usual one."""
    return OTHER_KINDS.get(str(info.config.get("problem_type")))


def own_head_of_other_kind(info: ModelInfo, labels: int) -> str | None:
    """Why a base cannot be fine-tuned to so many labels: the head that it would go on with is of another kind."""
    if (kind := other_kind(info)) is None or label_count(info) != labels:
        return None
    return (
        f"the base '{info.id}' has a head that is {kind}, which would be trained on as a classifier; give the base "
        "without that head."
    )


def choose_readout(info: ModelInfo, readout: str | None = None) -> str:
    """The readout that is given, else the one of the model's own class, else the one whose head is in the file.

    Raises BadInput for an unknown name, RandomHead where the model has no head at all.
    """
    if readout is not None:
        if readout not in READOUTS:
            raise BadInput(f"'{readout}' is not a readout; known: {', '.join(READOUTS)}.")
        return readout
    named = [r for r, pattern in CLASSES.items() if any(re.search(pattern, name) for name in info.architectures)]
    heads = HEADS.get(info.model_type)
    available = [r for r in READOUTS if heads and r in heads.needed and not missing_head(info, r)]
    if not named and not available:
        what = info.architectures[0] if info.architectures else "model without a named class"
        raise RandomHead(
            f"'{info.id}' is a bare {what}: it has no head to read class scores from, and a new one would be "
            "random; fine-tune it first (the finetune command), or give the fine-tuned model."
        )
    return (named or available)[0]


def supported(model_type: str, readout: str) -> bool:
    """Whether the family has a model class for the readout; unknown families are given the chance."""
    heads = HEADS.get(model_type)
    return heads is None or readout in heads.needed

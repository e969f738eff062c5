"""The names of body and heads in each family's files, as data, so that a header alone shows the head.

Names here are without the prefix that a model class puts before its body (`bert.`, `model.`, ...). Sources: the
modelling files of the transformers library.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from skillviz.core.architectures import FAMILIES, UNKNOWN
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
# A family's token-classification class computes the paper's bare linear head at the first token.
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

    `output` are the names of the matrix that may be tied to the token embedding; `tied` is the family's default. A
    readout without a model class in the family is absent from `needed`. `labels` is the tensor with a row for each
    class. `unused` are names that a base may have but a classifier of the family does not.
    """

    prefix: str
    needed: Mapping[str, tuple[str, ...]]
    output: tuple[str, ...]
    tied: bool
    labels: str
    unused: tuple[str, ...] = ()


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


_LM_HEAD = {"prompt": ROBERTA.needed["prompt"]}
_CLS = {"prompt": BERT.needed["prompt"]}
_POOLED = {"head": BERT.needed["head"]}
_DENSE = {"head": ROBERTA.needed["head"]}
_PLAIN = {"head": ("classifier.weight", "classifier.bias")}


def _pooled(prefix: str) -> Heads:
    """Return BERT's heads with another prefix."""
    return replace(BERT, prefix=prefix)


def _dense(prefix: str) -> Heads:
    """Return RoBERTa's heads with another prefix."""
    return replace(ROBERTA, prefix=prefix)


def _dense_cls(prefix: str) -> Heads:
    """Return RoBERTa's classification head and BERT's masked-LM head."""
    return replace(BERT, prefix=prefix, needed=_DENSE | _CLS, labels=ROBERTA.labels)


def _causal(prefix: str, tied: bool, **changes: Any) -> Heads:
    needed = {"head": ("score.weight",), "causal": ()}
    plain = Heads(prefix, needed, ("lm_head.weight", "embed_out.weight"), tied, "score.weight")
    return replace(plain, **changes)


def _causal_only(prefix: str, tied: bool) -> Heads:
    """Return the heads of a decoder that has no classification class."""
    return _causal(prefix, tied, needed={"causal": ()})


END_HEAD = "classification_head."


def _two_stacks(prefix: str, head: str = END_HEAD) -> Heads:
    """Return the heads of an encoder-decoder, of which only the classification head has a readout."""
    names = ("dense.weight", "out_proj.weight", "out_proj.bias") if head == END_HEAD else ("out_proj.weight",)
    return Heads(
        prefix, {"head": tuple(head + name for name in names)}, ("lm_head.weight",), True, head + "out_proj.weight"
    )


_BIASED = {"head": ("score.weight",), "causal": ("lm_head.bias",)}
_MODERN = ("head.dense.weight", "head.norm.weight")
_XLM = Heads(
    "transformer",
    {
        "head": ("sequence_summary.summary.weight", "sequence_summary.summary.bias"),
        "prompt": ("pred_layer.proj.bias",),
    },
    ("pred_layer.proj.weight",),
    True,
    "sequence_summary.summary.weight",
)
HEADS: dict[str, Heads] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "electra": ELECTRA,
    "distilbert": DISTILBERT,
    "data2vec-text": _dense("data2vec_text"),
    "roberta-prelayernorm": _dense("roberta_prelayernorm"),
    "xlm-roberta-xl": ROBERTA,
    "xmod": ROBERTA,
    "esm": _dense("esm"),
    "ibert": _dense("ibert"),
    "longformer": _dense("longformer"),
    "mpnet": _dense("mpnet"),
    "jina_embeddings_v3": ROBERTA,
    "ernie": _pooled("ernie"),
    "megatron-bert": BERT,
    "roc_bert": _pooled("roc_bert"),
    "squeezebert": _pooled("transformer"),
    "fnet": _pooled("fnet"),
    "deberta": _pooled("deberta"),
    "deberta-v2": _pooled("deberta"),
    "rembert": replace(
        _pooled("rembert"),
        needed=_POOLED | {"prompt": ("cls.predictions.dense.weight", "cls.predictions.LayerNorm.weight")},
        tied=False,
    ),
    "nomic_bert": replace(
        _pooled("nomic_bert"),
        needed=_POOLED | {"prompt": (_BERT_LM + "dense.weight", _BERT_LM + "layer_norm.weight")},
    ),
    "gte": replace(_pooled("gte"), needed=_POOLED | {"prompt": _LM_HEAD["prompt"][:2]}, output=ROBERTA.output),
    "luke": replace(
        _pooled("luke"), needed=_POOLED | _LM_HEAD, output=ROBERTA.output, unused=("entity_predictions",)
    ),
    "mobilebert": replace(_pooled("mobilebert"), needed=_PLAIN | _CLS),
    "canine": replace(_pooled("canine"), needed=_POOLED, output=()),
    "big_bird": _dense_cls("bert"),
    "nystromformer": _dense_cls("nystromformer"),
    "roformer": _dense_cls("roformer"),
    "yoso": _dense_cls("yoso"),
    "convbert": replace(ELECTRA, prefix="convbert"),
    "albert": Heads(
        "albert",
        {
            "head": ("pooler.weight", "classifier.weight", "classifier.bias"),
            "prompt": ("predictions.dense.weight", "predictions.LayerNorm.weight", "predictions.bias"),
        },
        ("predictions.decoder.weight",),
        True,
        "classifier.weight",
        unused=("sop_classifier",),
    ),
    "xlm": _XLM,
    "flaubert": _XLM,
    "xlnet": Heads(
        "transformer",
        {"head": ("sequence_summary.summary.weight", "logits_proj.weight", "logits_proj.bias")},
        (),
        True,
        "logits_proj.weight",
        unused=("lm_loss",),
    ),
    "funnel": Heads(
        "funnel",
        {
            "head": ("classifier.linear_hidden.weight", "classifier.linear_out.weight", "classifier.linear_out.bias"),
            "prompt": ("lm_head.bias",),
        },
        ("lm_head.weight",),
        True,
        "classifier.linear_out.weight",
        unused=("decoder",),
    ),
    "modernbert": Heads(
        "model",
        {"head": (*_MODERN, *_PLAIN["head"]), "prompt": (*_MODERN, "decoder.bias")},
        ("decoder.weight",),
        True,
        "classifier.weight",
    ),
    "modernbert-decoder": Heads(
        "model",
        {
            "head": (*_MODERN, "classifier.weight"),
            "causal": ("lm_head.dense.weight", "lm_head.norm.weight", "decoder.bias"),
        },
        ("decoder.weight",),
        True,
        "classifier.weight",
    ),
    "eurobert": Heads(
        "model",
        {"head": ("dense.weight", "dense.bias", *_PLAIN["head"]), "prompt": ()},
        ("lm_head.weight",),
        False,
        "classifier.weight",
    ),
    "gpt2": _causal("transformer", tied=True),
    "openai-gpt": _causal("transformer", tied=True),
    "gpt_bigcode": _causal("transformer", tied=True),
    "gpt_neo": _causal("transformer", tied=True),
    "gptj": _causal("transformer", tied=False, needed=_BIASED),
    "codegen": replace(_causal_only("transformer", tied=False), needed={"causal": ("lm_head.bias",)}),
    "bloom": _causal("transformer", tied=True),
    "falcon": _causal("transformer", tied=True),
    "mpt": _causal("transformer", tied=True),
    "ctrl": _causal(
        "transformer",
        tied=True,
        needed={"head": ("classifier.weight",), "causal": ("lm_head.bias",)},
        labels="classifier.weight",
    ),
    "opt": _causal("model", tied=True),
    "xglm": _causal_only("model", tied=True),
    "biogpt": _causal("biogpt", tied=True, output=("output_projection.weight",)),
    "gpt_neox": _causal("gpt_neox", tied=False),
    "persimmon": _causal("model", tied=False),
    "phi": _causal("model", tied=False, needed=_BIASED),
    "mistral4": _causal("model", tied=False, needed={"head": ("score.weight",)}),
    **dict.fromkeys(
        ("llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3", "glm", "glm4", "olmo", "olmo2", "olmo3",
         "helium", "hunyuan_v1_dense", "seed_oss", "exaone4", "stablelm", "phi3", "nemotron", "arcee", "diffllama",
         "mixtral", "qwen2_moe", "qwen3_moe", "phimoe", "hunyuan_v1_moe", "gpt_oss", "deepseek_v2", "deepseek_v3",
         "minimax"),
        _causal("model", tied=False),
    ),
    **dict.fromkeys(
        ("gemma", "gemma2", "gemma3_text", "smollm3", "starcoder2", "jetmoe", "minicpm3"), _causal("model", tied=True)
    ),
    **dict.fromkeys(
        ("granite", "cwm", "apertus", "olmoe", "flex_olmo", "granitemoe", "glm4_moe", "minimax_m2", "exaone_moe"),
        _causal_only("model", tied=False),
    ),
    **dict.fromkeys(
        ("vaultgemma", "cohere", "cohere2", "ernie4_5", "ernie4_5_moe"), _causal_only("model", tied=True)
    ),
    **dict.fromkeys(("bart", "mbart", "mvp", "plbart", "bigbird_pegasus"), _two_stacks("model")),
    **dict.fromkeys(("t5", "mt5", "umt5"), _two_stacks("transformer")),
    "t5gemma": _two_stacks("model", "score."),
}  # fmt: skip
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
    heads, outer = HEADS.get(model_type), ""
    if heads is None:
        return ""
    while len({name.partition(".")[0] for name in names}) == 1:
        first = f"{next(iter(names)).partition('.')[0]}."
        inside = [name.removeprefix(first) for name in names]
        if not any(re.search(FAMILIES.get(model_type, UNKNOWN).block, name) for name in inside):
            break
        # a body alone may have its prefix, unless a head or a second prefix follows it
        tops = {name.partition(".")[0] for name in inside} - {"pooler"}
        if (
            first == f"{heads.prefix}."
            and heads.prefix not in tops
            and not any(is_head(model_type, top) for top in tops)
        ):
            break
        outer, names = outer + first, inside
    return outer


def prefix_of(name: str, names: Collection[str]) -> str:
    """Return the prefix to remove from a name to make it one of these; '' if there is none."""
    ends = [at + 1 for at, sign in enumerate(name) if sign == "."]
    return next((name[:end] for end in ends if name[end:] in names), "")


def own_shapes(info: ModelInfo) -> dict[str, tuple[int, ...]]:
    """Return the parameters of a file, named without the body's prefix, with today's names, without buffers."""
    heads = HEADS.get(info.model_type)
    prefix = f"{heads.prefix}." if heads else ""
    shapes = {}
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
    heads = HEADS.get(model_type)
    tops = {n.split(".")[0] for names in heads.needed.values() for n in names} if heads else set()
    tops |= {n.split(".")[0] for n in heads.output} if heads else set()
    return name.split(".")[0] in tops | ANY_HEAD | set(heads.unused if heads else ())


def reads_end(model_type: str) -> bool:
    """True if the family's classification head is read at the end-of-text token, of which a text may have several."""
    heads = HEADS.get(model_type)
    return heads is not None and heads.labels.startswith(END_HEAD)


def is_tied(info: ModelInfo) -> bool:
    """True if the output matrix is the token embedding: as configured, or by the family's default."""
    heads = HEADS.get(info.model_type)
    return bool(info.config.get("tie_word_embeddings", heads.tied if heads else True))


def stands_for(info: ModelInfo, name: str, shape: tuple[int, ...]) -> str | None:
    """Return the file's name of the output matrix that a tied model's file has in place of this token embedding.

    None if the embedding is another tensor, or if such a matrix is not in the file or would not be the embedding.
    """
    heads = HEADS.get(info.model_type)
    if heads is None or not is_tied(info) or not TOKEN_EMBEDDING.search(name):
        return None
    names = (f"{heads.prefix}.{output}" for output in heads.output)
    stored = (one for one in (*heads.output, *names) if info.shapes.get(one, ())[1:] == tuple(shape[1:]) != ())
    return next(stored, None)


def is_linear(architectures: Iterable[str]) -> bool:
    """True if a model of these classes has the bare linear head, read at the first token."""
    return any(re.search(LINEAR, name) for name in architectures)


def missing_head(info: ModelInfo, readout: str, linear: bool | None = None) -> list[str]:
    """Return the tensors that this readout's head needs and the file lacks.

    A tied output matrix does not count as missing. `linear` asks for the bare linear head, None for the head of the
    model's own class. Empty for an architecture that is not in the table; loading it will report what is missing.
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
    """Return the number of classes of the file's classification head; None if it has none."""
    heads = HEADS.get(info.model_type)
    shapes = own_shapes(info)
    labels = LINEAR_HEAD[0] if is_linear(info.architectures) else heads.labels if heads else ""
    if heads is not None and labels in shapes:
        return shapes[labels][0]
    names = info.config.get("id2label")
    return len(names) if names and heads is None else None


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
    heads = HEADS.get(info.model_type)
    available = [r for r in READOUTS if heads and r in heads.needed and not missing_head(info, r)]
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
    heads = HEADS.get(info.model_type)
    then = "give one fine-tuned with a sequence-classification head." if heads else "give a model of another family."
    return BadModel(
        f"'{info.id}' is a {what}, an encoder-decoder with a language-model head, which has no readout here; {then}"
    )


def supported(model_type: str, readout: str) -> bool:
    """True if the family has a model class for the readout, or if the family is unknown."""
    heads = HEADS.get(model_type)
    return heads is None or readout in heads.needed

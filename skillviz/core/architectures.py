"""All that is known of each model family, in one row: names of blocks, modules and heads, and how it is read.

A family follows a naming scheme. Names are matched as regular expressions against the part of a parameter's name after
its block number; the first match wins. Names of heads are without the prefix that a model class puts before its body.
Sources: the modeling files of the transformers library, read tensor by tensor. docs/architectures.md is this table as
it was tested, and tests/test_architectures.py compares it with the library's model classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

QUERY, KEY, VALUE, ATTENTION_OUTPUT = "query", "key", "value", "attention output"
KEY_AND_VALUE = "key and value"
"""The shared projection from which both keys and values are computed, in attention that compresses them into one
vector."""
CROSS_QUERY, CROSS_KEY, CROSS_VALUE, CROSS_OUTPUT = "cross query", "cross key", "cross value", "cross output"
GATE, UP, MLP_IN, MLP_OUT = "MLP gate", "MLP up", "MLP in", "MLP out"
"""A gated MLP is out(activation(gate(x)) * up(x)), a plain one out(activation(in(x)))."""
ROUTER, EXPERT_GATE, EXPERT_UP, EXPERT_OUT = "router", "expert gate", "expert up", "expert out"
POSITION, LAYER_NORM, OTHER = "position", "LayerNorm", "other"
KINDS = (
    QUERY, KEY, VALUE, KEY_AND_VALUE, ATTENTION_OUTPUT, CROSS_QUERY, CROSS_KEY, CROSS_VALUE, CROSS_OUTPUT, GATE, UP,
    MLP_IN, MLP_OUT, ROUTER, EXPERT_GATE, EXPERT_UP, EXPERT_OUT, POSITION, LAYER_NORM, OTHER,
)  # fmt: skip
QKV, GATE_UP, EXPERT_GATE_UP = (QUERY, KEY, VALUE), (GATE, UP), (EXPERT_GATE, EXPERT_UP)

ROW, COLUMN = "row", "column"
HEADED: Mapping[str, str] = {
    QUERY: ROW, KEY: ROW, VALUE: ROW, ATTENTION_OUTPUT: COLUMN,
    CROSS_QUERY: ROW, CROSS_KEY: ROW, CROSS_VALUE: ROW, CROSS_OUTPUT: COLUMN,
}  # fmt: skip
"""The axis of a weight along which its heads lie, in equal consecutive parts."""

EQUAL = "equal"
QUERY_FIRST = "query first"
BY_GROUP = "by group"
QUARTERS = "quarters"
ALTERNATING = "alternating"
LATENT = "latent"
UNCOMPRESSED = "uncompressed"
LAYOUTS = {
    EQUAL: "one part after the other, all of one length",
    QUERY_FIRST: "all queries, then all keys, then all values; with grouped queries the last two are shorter",
    BY_GROUP: "group after group of heads: its queries, its key, its value; without grouped queries a group is a head",
    QUARTERS: "four equal pieces, each with equal parts in turn",
    ALTERNATING: "one entry of each part in turn",
    LATENT: "the compressed vector, as long as the next projection is wide, then the key's rotary part",
    UNCOMPRESSED: "head after head: its key, then its value, which is as long as the head's output",
}


@dataclass(frozen=True)
class Split:
    """A tensor that holds several modules: their `kinds` in order, and the layout (of LAYOUTS) that divides its rows.

    In a `transposed` weight they are columns. A bias is divided like the weight's rows.
    """

    pattern: str
    kinds: tuple[str, ...]
    layout: str = EQUAL
    transposed: bool = False


# Poolers and the heads of sequence-classification classes, the same in every family.
CLASS_HEADS = (
    r"(^|\.)pooler\.",
    r"^(pre_)?classifier\.",
    r"^score\.",
    r"^(classification_)?head\.",
    r"^dense\.",
    r"^(sequence_summary|logits_proj)\.",
)


HEADS_KEYS = (
    "num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads", "encoder_attention_heads",
    "decoder_attention_heads", "encoder.num_attention_heads", "decoder.num_attention_heads",
)  # fmt: skip
"""The configurations' names for the number of attention heads; if they disagree, the number is unknown."""


@dataclass(frozen=True)
class Family:
    """One model family: the naming scheme of its blocks and modules, its heads, and how its models are read.

    `block` ends before a module's name; its numbered groups give the block's number, and a group called `stack` gives
    its stack, one of `stacks`. `splits` are matched before `kinds`. `head` matches poolers and class heads. `buffers`
    are not parameters, but checkpoints list them beside the parameters. `head_axes` is empty if heads do not lie in
    equal consecutive parts. In a family with `shared` blocks one block is used several times.

    `prefix` is the body's, with its dot. `needed` are the tensors of the head of each readout for which the family has
    a model class. `output` are the names of the matrix that may be tied to the token embedding; `tied` is the family's
    default. `labels` is the tensor with a row for each class. `unused` are names that a base may have but a classifier
    of the family does not.

    `masked_head` are the modules that turn a hidden vector into vocabulary scores, in order: they run on the mask's
    vector alone, where other families compute all positions. The vocabulary scores of a `plain_decoder` are its output
    embedding times the last hidden state and nothing else, so the embedding runs on the answers' positions alone. The
    blocks of a `sequential` family take no input from the blocks below except the output of the last. The
    token-classification class of a family with a `linear_head` computes the paper's bare linear head at the first
    token. A head that is `read_at_last` reads the last position of its input, padding or not. In a family `without_end`
    positions are relative, and their number in the files is no limit.
    """

    block: str
    kinds: tuple[tuple[str, str], ...]
    head: tuple[str, ...] = CLASS_HEADS
    splits: tuple[Split, ...] = ()
    buffers: str | None = None
    head_axes: Mapping[str, str] = field(default_factory=lambda: HEADED)
    stacks: tuple[str, ...] = ()
    shared: bool = False
    prefix: str = ""
    needed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    output: tuple[str, ...] = ()
    tied: bool = True
    labels: str = ""
    unused: tuple[str, ...] = ()
    masked_head: tuple[str, ...] = ()
    plain_decoder: bool = False
    sequential: bool = False
    linear_head: bool = False
    read_at_last: bool = False
    without_end: bool = False


# Encoders named as BERT's -----------------------------------------------------------------------------------------
BERT = Family(
    block=r"encoder\.layer\.(\d+)\.",
    kinds=(
        (r"LayerNorm|layernorm|layer_norm|(^|\.)ln\.", LAYER_NORM),
        (r"attention\.self\.query\.", QUERY),
        (r"attention\.self\.key\.", KEY),
        (r"attention\.self\.value\.", VALUE),
        (r"attention\.output\.dense\.", ATTENTION_OUTPUT),
        (r"^intermediate\.dense\.", MLP_IN),
        (r"^output\.dense\.", MLP_OUT),
    ),
    head=(r"(^|\.)pooler\.", r"^classifier\."),
)
# These models have a second set of projections, for tokens that attend to all others or from words to entities.
IBERT = replace(BERT, buffers=r"(_integer|_scaling_factor|\.x_min|\.x_max|\.shift)$")
LONGFORMER = replace(
    BERT,
    kinds=(
        (r"attention\.self\.query_global\.", QUERY),
        (r"attention\.self\.key_global\.", KEY),
        (r"attention\.self\.value_global\.", VALUE),
        *BERT.kinds,
    ),
)
LUKE = replace(BERT, kinds=((r"attention\.self\.(w2e|e2w|e2e)_query\.", QUERY), *BERT.kinds))
MOBILEBERT = replace(
    BERT,
    kinds=(
        *BERT.kinds,
        (r"^ffn\.\d+\.intermediate\.dense\.", MLP_IN),
        (r"^ffn\.\d+\.output\.dense\.", MLP_OUT),
    ),
)
MPNET = replace(
    BERT,
    kinds=(
        (r"LayerNorm", LAYER_NORM),
        (r"attention\.attn\.q\.", QUERY),
        (r"attention\.attn\.k\.", KEY),
        (r"attention\.attn\.v\.", VALUE),
        (r"attention\.attn\.o\.", ATTENTION_OUTPUT),
        *BERT.kinds[-2:],
    ),
)
DEBERTA = replace(
    BERT,
    kinds=(
        (r"attention\.self\.q_bias$", QUERY),
        (r"attention\.self\.v_bias$", VALUE),
        (r"attention\.self\.pos_(q_)?proj\.", POSITION),
        *BERT.kinds,
    ),
    splits=(Split(r"attention\.self\.in_proj\.", QKV, BY_GROUP),),
)
DEBERTA_V2 = replace(
    BERT,
    kinds=(
        (r"attention\.self\.query_proj\.", QUERY),
        (r"attention\.self\.key_proj\.", KEY),
        (r"attention\.self\.value_proj\.", VALUE),
        (r"attention\.self\.pos_(key|query)_proj\.", POSITION),
        *BERT.kinds,
    ),
)
# Half of the heads' output comes from a convolution without a query of its own, so heads cannot be separated.
CONVBERT = replace(BERT, head_axes={})
CANINE = replace(
    BERT,
    block=r"(?:^|\.)(?P<stack>initial_char_encoder|encoder|final_char_encoder)\.layer\.(\d+)\.",
    stacks=("initial_char_encoder", "encoder", "final_char_encoder"),
)
SQUEEZEBERT = Family(
    block=r"encoder\.layers\.(\d+)\.",
    kinds=(
        (r"layernorm", LAYER_NORM),
        (r"^attention\.query\.", QUERY),
        (r"^attention\.key\.", KEY),
        (r"^attention\.value\.", VALUE),
        (r"^post_attention\.conv1d\.", ATTENTION_OUTPUT),
        (r"^intermediate\.conv1d\.", MLP_IN),
        (r"^output\.conv1d\.", MLP_OUT),
    ),
)
ALBERT = Family(
    block=r"albert_layer_groups\.(\d+)\.albert_layers\.(\d+)\.",
    kinds=(
        (r"LayerNorm|layer_norm", LAYER_NORM),
        (r"attention\.query\.", QUERY),
        (r"attention\.key\.", KEY),
        (r"attention\.value\.", VALUE),
        (r"attention\.dense\.", ATTENTION_OUTPUT),
        (r"^ffn\.", MLP_IN),
        (r"^ffn_output\.", MLP_OUT),
    ),
    shared=True,
)
DISTILBERT = Family(
    block=r"transformer\.layer\.(\d+)\.",
    kinds=(
        (r"layer_norm", LAYER_NORM),
        (r"attention\.q_lin\.", QUERY),
        (r"attention\.k_lin\.", KEY),
        (r"attention\.v_lin\.", VALUE),
        (r"attention\.out_lin\.", ATTENTION_OUTPUT),
        (r"ffn\.lin1\.", MLP_IN),
        (r"ffn\.lin2\.", MLP_OUT),
    ),
    head=(r"^pre_classifier\.", r"^classifier\."),
)
XLM = Family(
    block=r"(?:^|\.)(?:attentions|layer_norm1|ffns|layer_norm2)\.(\d+)\.",
    kinds=(
        (r"^q_lin\.", QUERY),
        (r"^k_lin\.", KEY),
        (r"^v_lin\.", VALUE),
        (r"^out_lin\.", ATTENTION_OUTPUT),
        (r"^lin1\.", MLP_IN),
        (r"^lin2\.", MLP_OUT),
        (r"^(weight|bias)$", LAYER_NORM),
    ),
)
XLNET = Family(
    block=r"transformer\.layer\.(\d+)\.|^layer\.(\d+)\.",
    kinds=(
        (r"layer_norm", LAYER_NORM),
        (r"^rel_attn\.q$", QUERY),
        (r"^rel_attn\.k$", KEY),
        (r"^rel_attn\.v$", VALUE),
        (r"^rel_attn\.o$", ATTENTION_OUTPUT),
        (r"^rel_attn\.(r|r_._bias|seg_embed)$", POSITION),
        (r"^ff\.layer_1\.", MLP_IN),
        (r"^ff\.layer_2\.", MLP_OUT),
    ),
    head_axes=dict.fromkeys((QUERY, KEY, VALUE, ATTENTION_OUTPUT), COLUMN),  # [width, head, width of a head]
)
FUNNEL = Family(
    block=r"(?:^|\.)(?P<stack>encoder|decoder)\.(?:blocks\.(\d+)|layers)\.(\d+)\.",
    kinds=(
        (r"layer_norm", LAYER_NORM),
        (r"^attention\.q_head\.", QUERY),
        (r"^attention\.k_head\.", KEY),
        (r"^attention\.v_head\.", VALUE),
        (r"^attention\.post_proj\.", ATTENTION_OUTPUT),
        (r"^attention\.(r_._bias|r_kernel|seg_embed)$", POSITION),
        (r"^ffn\.linear_1\.", MLP_IN),
        (r"^ffn\.linear_2\.", MLP_OUT),
    ),
    stacks=("encoder", "decoder"),
)
MODERNBERT = Family(
    block=r"(?:^|\.)layers\.(\d+)\.",
    kinds=(
        (r"norm", LAYER_NORM),
        (r"^attn\.q_proj\.", QUERY),
        (r"^attn\.k_proj\.", KEY),
        (r"^attn\.v_proj\.", VALUE),
        (r"^attn\.Wo\.", ATTENTION_OUTPUT),
        (r"^mlp\.Wo\.", MLP_OUT),
    ),
    # The half that passes through the activation is first; the modeling file calls it the input, and the other the
    # gate.
    splits=(Split(r"^attn\.Wqkv\.", QKV), Split(r"^mlp\.Wi\.", GATE_UP)),
)

# Decoders named as GPT's --------------------------------------------------------------------------------------------
GPT_BLOCK = r"(?:^|\.)h\.(\d+)\."
GPT2 = Family(
    block=GPT_BLOCK,
    kinds=(
        (r"^ln_\d", LAYER_NORM),
        (r"attn\.c_proj\.", ATTENTION_OUTPUT),
        (r"mlp\.c_fc\.", MLP_IN),
        (r"mlp\.c_proj\.", MLP_OUT),
    ),
    head=(r"^score\.",),
    splits=(Split(r"attn\.c_attn\.", QKV, transposed=True),),
    buffers=r"^attn\.(masked_)?bias$",
    head_axes={QUERY: COLUMN, KEY: COLUMN, VALUE: COLUMN, ATTENTION_OUTPUT: ROW},  # its weights are stored transposed
)
GPT_BIGCODE = replace(
    GPT2, splits=(Split(r"attn\.c_attn\.", QKV, BY_GROUP),), buffers=r"^attn\.(masked_)?bias$", head_axes=HEADED
)
GPT_NEO = Family(
    block=GPT_BLOCK,
    kinds=(
        (r"^ln_\d", LAYER_NORM),
        (r"attn\.(attention\.)?q_proj\.", QUERY),
        (r"attn\.(attention\.)?k_proj\.", KEY),
        (r"attn\.(attention\.)?v_proj\.", VALUE),
        (r"attn\.(attention\.)?out_proj\.", ATTENTION_OUTPUT),
        (r"mlp\.(c_fc|fc_in)\.", MLP_IN),
        (r"mlp\.(c_proj|fc_out)\.", MLP_OUT),
    ),
    buffers=r"^attn\.(attention\.)?(masked_)?bias$|embed_positions$",
)
CODEGEN = replace(
    GPT_NEO,
    splits=(Split(r"attn\.qkv_proj\.", (QUERY, VALUE, KEY), QUARTERS),),
    buffers=r"^attn\.causal_mask$|^attn\.(masked_)?bias$",
)
BLOOM = Family(
    block=GPT_BLOCK,
    kinds=(
        (r"layernorm|^ln_", LAYER_NORM),
        (r"^self_attention\.dense\.", ATTENTION_OUTPUT),
        (r"^mlp\.dense_h_to_4h\.", MLP_IN),
        (r"^mlp\.dense_4h_to_h\.", MLP_OUT),
    ),
    splits=(Split(r"^self_attention\.query_key_value\.", QKV, BY_GROUP),),
)
GPT_NEOX = Family(
    block=r"(?:^|\.)layers\.(\d+)\.",
    kinds=(
        (r"layernorm", LAYER_NORM),
        (r"(attention|self_attn)\.dense\.", ATTENTION_OUTPUT),
        (r"mlp\.dense_h_to_4h\.", MLP_IN),
        (r"mlp\.dense_4h_to_h\.", MLP_OUT),
    ),
    head=(r"^score\.", r"^classifier\."),
    splits=(Split(r"(attention|self_attn)\.query_key_value\.", QKV, BY_GROUP),),
    buffers=r"^attention\.(masked_)?bias$|rotary_emb\.inv_freq$",
)
MPT = Family(
    block=r"(?:^|\.)blocks\.(\d+)\.",
    kinds=(
        (r"^norm_\d", LAYER_NORM),
        (r"^attn\.out_proj\.", ATTENTION_OUTPUT),
        (r"^ffn\.up_proj\.", MLP_IN),
        (r"^ffn\.down_proj\.", MLP_OUT),
    ),
    splits=(Split(r"^attn\.Wqkv\.", QKV),),
)
CTRL = Family(
    block=GPT_BLOCK,
    kinds=(
        (r"layernorm", LAYER_NORM),
        (r"^multi_head_attention\.Wq\.", QUERY),
        (r"^multi_head_attention\.Wk\.", KEY),
        (r"^multi_head_attention\.Wv\.", VALUE),
        (r"^multi_head_attention\.dense\.", ATTENTION_OUTPUT),
        (r"^ffn\.0\.", MLP_IN),
        (r"^ffn\.2\.", MLP_OUT),
    ),
)
OPT = Family(
    block=r"decoder\.layers\.(\d+)\.",
    kinds=(
        (r"layer_norm", LAYER_NORM),
        (r"self_attn\.q_proj\.", QUERY),
        (r"self_attn\.k_proj\.", KEY),
        (r"self_attn\.v_proj\.", VALUE),
        (r"self_attn\.out_proj\.", ATTENTION_OUTPUT),
        (r"^fc1\.", MLP_IN),
        (r"^fc2\.", MLP_OUT),
    ),
    head=(r"^score\.",),
)
XGLM = replace(OPT, block=r"(?:^|\.)layers\.(\d+)\.")

# Decoders, and some encoders, named as LLaMA's -----------------------------------------------------------------------
ATTENTION = (
    (r"norm", LAYER_NORM),
    (r"^self_attn\.q_proj\.", QUERY),
    (r"^self_attn\.k_proj\.", KEY),
    (r"^self_attn\.v_proj\.", VALUE),
    (r"^self_attn\.(o_proj|out_proj|dense)\.", ATTENTION_OUTPUT),
)
PLAIN_MLP = ((r"^mlp\.(up_proj|fc1|c_fc)\.", MLP_IN), (r"^mlp\.(down_proj|fc2|c_proj)\.", MLP_OUT))
LLAMA = Family(
    block=r"(?:^|\.)layers\.(\d+)\.",
    kinds=(
        *ATTENTION,
        (r"^mlp\.gate_proj\.", GATE),
        (r"^mlp\.up_proj\.", UP),
        (r"^mlp\.down_proj\.", MLP_OUT),
    ),
    splits=(Split(r"^mlp\.gate_up_proj\.", GATE_UP),),
    buffers=r"rotary_emb\.inv_freq$",
)
GTE = replace(LLAMA, block=r"(?:^|\.)layers?\.(\d+)\.")  # in files the block is encoder.layer
PHI3 = replace(LLAMA, splits=(Split(r"^self_attn\.qkv_proj\.", QKV, QUERY_FIRST), *LLAMA.splits))
NEMOTRON = replace(LLAMA, kinds=(*ATTENTION, *PLAIN_MLP), splits=())  # no gate: up is the first of two layers
APERTUS = replace(NEMOTRON, buffers=r"^mlp\.act_fn\.(beta|eps)$")
# Each head attends with its own query and the values of a pair of heads.
DIFFLLAMA = replace(LLAMA, head_axes={})
# In files each expert has its own tensors; in the model, one tensor holds the same matrix of all experts.
EXPERTS = (
    (r"(?<!shared_)experts\.down_proj(_bias|\.|$)|experts\.\d+\.(down_proj|w2)\.", EXPERT_OUT),
    (r"experts\.\d+\.(gate_proj|w1)\.", EXPERT_GATE),
    (r"experts\.\d+\.(up_proj|w3)\.", EXPERT_UP),
    (r"^(mlp|block_sparse_moe|feed_forward)\.(gate|router|shared_expert_gate)\.", ROUTER),
    (r"^mlp\.shared_(experts?|mlp)\.gate_proj\.", GATE),
    (r"^mlp\.shared_(experts?|mlp)\.up_proj\.", UP),
    (r"^mlp\.shared_(experts?|mlp)\.down_proj\.", MLP_OUT),
)
MOE = replace(
    LLAMA,
    kinds=(*LLAMA.kinds, *EXPERTS),
    splits=(*LLAMA.splits, Split(r"experts\.gate_up_proj$", EXPERT_GATE_UP)),
    buffers=r"rotary_emb\.inv_freq$|^(mlp|block_sparse_moe)\.(gate\.)?e_score_correction_bias$",
)
ERNIE_MOE = replace(MOE, buffers=r"rotary_emb\.inv_freq$")
GPT_OSS = replace(MOE, splits=(Split(r"experts\.gate_up_proj(_bias)?$", EXPERT_GATE_UP, ALTERNATING, transposed=True),))
LATENT_ATTENTION = replace(
    MOE,
    kinds=((r"norm", LAYER_NORM), (r"^self_attn\.q_(a_|b_)?proj\.", QUERY), *MOE.kinds),
    splits=(
        Split(r"^self_attn\.kv_a_proj_with_mqa\.", (KEY_AND_VALUE, KEY), LATENT),
        Split(r"^self_attn\.kv_b_proj\.", (KEY, VALUE), UNCOMPRESSED),
        *MOE.splits,
    ),
    head_axes={},
)
JETMOE = Family(
    block=r"(?:^|\.)layers\.(\d+)\.",
    kinds=(
        (r"norm", LAYER_NORM),
        (r"router\.", ROUTER),
        (r"^self_attention\.experts\.input_linear\.", QUERY),
        (r"^self_attention\.experts\.(output_linear\.|bias$)", ATTENTION_OUTPUT),
        (r"^mlp\.(output_linear\.|bias$)", EXPERT_OUT),
    ),
    splits=(
        Split(r"^self_attention\.kv_proj\.", (KEY, VALUE)),
        Split(r"^mlp\.input_linear\.", EXPERT_GATE_UP),
    ),
    head_axes={},
)
# MiniMax alternates attention with linear attention, whose projections are fused.
MINIMAX = replace(
    MOE,
    splits=(Split(r"^self_attn\.qkv_proj\.", QKV, BY_GROUP), *MOE.splits),
    buffers=rf"{MOE.buffers}|^self_attn\.(slope_rate|(query|key|diagonal)_decay)$",
)

# Encoder and decoder --------------------------------------------------------------------------------------------------
TWO_STACKS = ("encoder", "decoder")
BART = Family(
    block=r"(?:^|\.)(?P<stack>encoder|decoder)\.layers\.(\d+)\.",
    kinds=(
        (r"norm", LAYER_NORM),
        (r"^encoder_attn\.q_proj\.", CROSS_QUERY),
        (r"^encoder_attn\.k_proj\.", CROSS_KEY),
        (r"^encoder_attn\.v_proj\.", CROSS_VALUE),
        (r"^encoder_attn\.out_proj\.", CROSS_OUTPUT),
        (r"^self_attn\.(q_proj|self\.query)\.", QUERY),
        (r"^self_attn\.(k_proj|self\.key)\.", KEY),
        (r"^self_attn\.(v_proj|self\.value)\.", VALUE),
        (r"^self_attn\.(out_proj|output)\.", ATTENTION_OUTPUT),
        (r"^fc1\.", MLP_IN),
        (r"^fc2\.", MLP_OUT),
    ),
    stacks=TWO_STACKS,
)
T5 = Family(
    block=r"(?:^|\.)(?P<stack>encoder|decoder)\.block\.(\d+)\.",
    kinds=(
        (r"layer_norm", LAYER_NORM),
        (r"SelfAttention\.q\.", QUERY),
        (r"SelfAttention\.k\.", KEY),
        (r"SelfAttention\.v\.", VALUE),
        (r"SelfAttention\.o\.", ATTENTION_OUTPUT),
        (r"EncDecAttention\.q\.", CROSS_QUERY),
        (r"EncDecAttention\.k\.", CROSS_KEY),
        (r"EncDecAttention\.v\.", CROSS_VALUE),
        (r"EncDecAttention\.o\.", CROSS_OUTPUT),
        (r"relative_attention_bias\.", POSITION),
        (r"DenseReluDense\.wi_0\.", GATE),
        (r"DenseReluDense\.wi_1\.", UP),
        (r"DenseReluDense\.wi\.", MLP_IN),
        (r"DenseReluDense\.wo\.", MLP_OUT),
    ),
    stacks=TWO_STACKS,
)
T5GEMMA = replace(
    LLAMA,
    block=BART.block,
    kinds=(
        (r"norm", LAYER_NORM),
        (r"^cross_attn\.q_proj\.", CROSS_QUERY),
        (r"^cross_attn\.k_proj\.", CROSS_KEY),
        (r"^cross_attn\.v_proj\.", CROSS_VALUE),
        (r"^cross_attn\.o_proj\.", CROSS_OUTPUT),
        *LLAMA.kinds,
    ),
    stacks=TWO_STACKS,
)

# The fallback for other families: blocks by the first number in a name, kinds unknown, usual names of heads.
UNKNOWN = Family(
    block=r"(?:^|\.)(?:layers?|blocks?|h|encoder|decoder|group|groups|albert_layer_groups)\.(?:layers?\.)?(\d+)\.",
    kinds=(),
    head_axes={},
)

# Heads: the tensors that each readout needs, the output matrix, and the tensor with a row for each class --------------
_BERT_LM = "cls.predictions.transform."
_CLS = {"prompt": (_BERT_LM + "dense.weight", _BERT_LM + "LayerNorm.weight", "cls.predictions.bias")}
_LM = {"prompt": ("lm_head.dense.weight", "lm_head.layer_norm.weight", "lm_head.bias")}
_POOLED = {"head": ("pooler.dense.weight", "classifier.weight", "classifier.bias")}
_DENSE = {"head": ("classifier.dense.weight", "classifier.out_proj.weight", "classifier.out_proj.bias")}
_PLAIN = {"head": ("classifier.weight", "classifier.bias")}
_MODERN = ("head.dense.weight", "head.norm.weight")
_BIASED = {"head": ("score.weight",), "causal": ("lm_head.bias",)}
END_HEAD = "classification_head."
"""The beginning of the names of a head that is read at the end-of-text token, of which a text may have several."""


def _heads(
    needed: Mapping[str, tuple[str, ...]], output: tuple[str, ...], labels: str, tied: bool = True
) -> dict[str, Any]:
    return {"needed": needed, "output": output, "labels": labels, "tied": tied}


POOLED = _heads(_POOLED | _CLS, ("cls.predictions.decoder.weight",), "classifier.weight")
DENSE = _heads(_DENSE | _LM, ("lm_head.decoder.weight",), "classifier.out_proj.weight")
DENSE_CLS = DENSE | {"needed": _DENSE | _CLS, "output": POOLED["output"]}
GENERATOR = _heads(
    _DENSE | {"prompt": ("generator_predictions.dense.weight", "generator_lm_head.bias")},
    ("generator_lm_head.weight",),
    DENSE["labels"],
)
SUMMARY = _heads(
    {
        "head": ("sequence_summary.summary.weight", "sequence_summary.summary.bias"),
        "prompt": ("pred_layer.proj.bias",),
    },
    ("pred_layer.proj.weight",),
    "sequence_summary.summary.weight",
)
TIED = _heads({"head": ("score.weight",), "causal": ()}, ("lm_head.weight", "embed_out.weight"), "score.weight")
UNTIED = TIED | {"tied": False}
LANGUAGE_ONLY = {"needed": {"causal": ()}}
TWO_ENDED = _heads(
    {"head": tuple(END_HEAD + name for name in ("dense.weight", "out_proj.weight", "out_proj.bias"))},
    ("lm_head.weight",),
    END_HEAD + "out_proj.weight",
)


def _rows(
    scheme: Family, heads: Mapping[str, Any], names: str, prefix: str = "model.", **more: Any
) -> dict[str, Family]:
    """Return the rows of families that differ in their names alone; `{name}` in the prefix is the family's name."""
    of = {name: prefix.format(name=name.replace("-", "_")) for name in names.split()}
    return {name: replace(scheme, prefix=own, **{**heads, **more}) for name, own in of.items()}


LM_HEAD: dict[str, Any] = {"masked_head": ("lm_head",), "linear_head": True}
FAMILIES: dict[str, Family] = {
    **_rows(BERT, POOLED, "bert", "bert.", masked_head=("cls",), linear_head=True, sequential=True),
    **_rows(BERT, DENSE, "roberta", "roberta.", sequential=True, **LM_HEAD),
    **_rows(BERT, DENSE, "xlm-roberta camembert", "roberta.", **LM_HEAD),
    **_rows(BERT, GENERATOR, "electra", "electra.", linear_head=True),
    **_rows(BERT, DENSE, "data2vec-text roberta-prelayernorm", "{name}."),
    **_rows(BERT, DENSE, "xlm-roberta-xl xmod", "roberta."),
    **_rows(BERT, POOLED, "ernie", "ernie."),
    **_rows(BERT, POOLED, "megatron-bert", "bert."),
    **_rows(BERT, POOLED, "rembert", "rembert.", tied=False, needed=_POOLED | {
        "prompt": ("cls.predictions.dense.weight", "cls.predictions.LayerNorm.weight")}),
    **_rows(BERT, POOLED, "roc_bert", "roc_bert."),
    **_rows(BERT, DENSE_CLS, "roformer", "roformer."),
    **_rows(BERT, DENSE, "esm", "esm."),
    **_rows(BERT, DENSE_CLS, "big_bird", "bert."),
    **_rows(BERT, DENSE_CLS, "nystromformer yoso", "{name}."),
    **_rows(BERT, POOLED, "fnet", "fnet."),
    **_rows(IBERT, DENSE, "ibert", "ibert."),
    **_rows(LONGFORMER, DENSE, "longformer", "longformer."),
    **_rows(LUKE, POOLED, "luke", "luke.", needed=_POOLED | _LM, output=DENSE["output"],
            unused=("entity_predictions",)),
    **_rows(MOBILEBERT, POOLED, "mobilebert", "mobilebert.", needed=_PLAIN | _CLS),
    **_rows(MPNET, DENSE, "mpnet", "mpnet."),
    **_rows(DEBERTA, POOLED, "deberta", "deberta."),
    **_rows(DEBERTA_V2, POOLED, "deberta-v2", "deberta."),
    **_rows(CONVBERT, GENERATOR, "convbert", "convbert."),
    **_rows(CANINE, POOLED, "canine", "canine.", needed=_POOLED, output=()),
    **_rows(SQUEEZEBERT, POOLED, "squeezebert", "transformer."),
    **_rows(ALBERT, POOLED, "albert", "albert.", unused=("sop_classifier",), output=("predictions.decoder.weight",),
            needed={"head": ("pooler.weight", *_PLAIN["head"]),
                    "prompt": ("predictions.dense.weight", "predictions.LayerNorm.weight", "predictions.bias")}),
    **_rows(DISTILBERT, POOLED, "distilbert", "distilbert.", linear_head=True, sequential=True,
            masked_head=("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),
            output=("vocab_projector.weight",),
            needed={"head": ("pre_classifier.weight", *_PLAIN["head"]),
                    "prompt": ("vocab_transform.weight", "vocab_layer_norm.weight", "vocab_projector.bias")}),
    **_rows(XLM, SUMMARY, "xlm flaubert", "transformer."),
    **_rows(XLNET, SUMMARY, "xlnet", "transformer.", output=(), labels="logits_proj.weight", unused=("lm_loss",),
            read_at_last=True, without_end=True,
            needed={"head": ("sequence_summary.summary.weight", "logits_proj.weight", "logits_proj.bias")}),
    **_rows(FUNNEL, TIED, "funnel", "funnel.", output=("lm_head.weight",), labels="classifier.linear_out.weight",
            unused=("decoder",), without_end=True,
            needed={"head": ("classifier.linear_hidden.weight", "classifier.linear_out.weight",
                             "classifier.linear_out.bias"),
                    "prompt": ("lm_head.bias",)}),
    **_rows(MODERNBERT, POOLED, "modernbert", output=("decoder.weight",),
            needed={"head": (*_MODERN, *_PLAIN["head"]), "prompt": (*_MODERN, "decoder.bias")}),
    **_rows(MODERNBERT, POOLED, "modernbert-decoder", output=("decoder.weight",),
            needed={"head": (*_MODERN, "classifier.weight"),
                    "causal": ("lm_head.dense.weight", "lm_head.norm.weight", "decoder.bias")}),
    **_rows(GPT2, TIED, "gpt2", "transformer.", plain_decoder=True, sequential=True),
    **_rows(GPT2, TIED, "openai-gpt", "transformer."),
    **_rows(GPT_BIGCODE, TIED, "gpt_bigcode", "transformer."),
    **_rows(GPT_NEO, TIED, "gpt_neo", "transformer."),
    **_rows(GPT_NEO, UNTIED, "gptj", "transformer.", needed=_BIASED),
    **_rows(CODEGEN, UNTIED, "codegen", "transformer.", needed={"causal": ("lm_head.bias",)}),
    **_rows(BLOOM, TIED, "bloom falcon", "transformer."),
    **_rows(GPT_NEOX, UNTIED, "gpt_neox", "gpt_neox.", plain_decoder=True, sequential=True),
    **_rows(GPT_NEOX, UNTIED, "persimmon"),
    **_rows(MPT, TIED, "mpt", "transformer."),
    **_rows(CTRL, TIED, "ctrl", "transformer.", labels="classifier.weight",
            needed={"head": ("classifier.weight",), "causal": ("lm_head.bias",)}),
    **_rows(OPT, TIED, "opt", plain_decoder=True, sequential=True),
    **_rows(XGLM, TIED | LANGUAGE_ONLY, "xglm"),
    **_rows(XGLM, TIED, "biogpt", "biogpt.", output=("output_projection.weight",)),
    **_rows(LLAMA, UNTIED, "llama", plain_decoder=True, sequential=True),
    **_rows(LLAMA, UNTIED, "mistral", plain_decoder=True),
    **_rows(LLAMA, UNTIED, "ministral ministral3"),
    **_rows(LLAMA, UNTIED, "qwen2 qwen3", plain_decoder=True),
    **_rows(LLAMA, TIED, "gemma gemma2 gemma3_text"),
    **_rows(LLAMA, TIED | LANGUAGE_ONLY, "vaultgemma"),
    **_rows(LLAMA, UNTIED, "glm glm4 olmo olmo2 olmo3"),
    **_rows(LLAMA, UNTIED | LANGUAGE_ONLY, "granite"),
    **_rows(LLAMA, TIED | LANGUAGE_ONLY, "cohere cohere2"),
    **_rows(LLAMA, UNTIED, "helium hunyuan_v1_dense"),
    **_rows(LLAMA, TIED, "smollm3"),
    **_rows(LLAMA, UNTIED, "seed_oss exaone4"),
    **_rows(LLAMA, TIED | LANGUAGE_ONLY, "ernie4_5"),
    **_rows(LLAMA, UNTIED | LANGUAGE_ONLY, "cwm"),
    **_rows(LLAMA, UNTIED, "stablelm"),
    **_rows(LLAMA, POOLED, "eurobert", output=("lm_head.weight",), tied=False,
            needed={"head": ("dense.weight", "dense.bias", *_PLAIN["head"]), "prompt": ()}),
    **_rows(LLAMA, POOLED, "nomic_bert", "nomic_bert.",
            needed=_POOLED | {"prompt": (_BERT_LM + "dense.weight", _BERT_LM + "layer_norm.weight")}),
    **_rows(GTE, POOLED, "gte", "gte.", needed=_POOLED | {"prompt": _LM["prompt"][:2]}, output=DENSE["output"]),
    **_rows(PHI3, UNTIED, "phi3"),
    **_rows(NEMOTRON, UNTIED, "nemotron arcee"),
    **_rows(NEMOTRON, UNTIED, "phi", needed=_BIASED),
    **_rows(NEMOTRON, TIED, "starcoder2"),
    **_rows(NEMOTRON, DENSE, "jina_embeddings_v3", "roberta."),
    **_rows(APERTUS, UNTIED | LANGUAGE_ONLY, "apertus"),
    **_rows(DIFFLLAMA, UNTIED, "diffllama"),
    **_rows(MOE, UNTIED, "mixtral qwen2_moe qwen3_moe"),
    **_rows(MOE, UNTIED | LANGUAGE_ONLY, "olmoe flex_olmo granitemoe"),
    **_rows(MOE, UNTIED, "phimoe"),
    **_rows(MOE, UNTIED | LANGUAGE_ONLY, "glm4_moe"),
    **_rows(MOE, UNTIED, "hunyuan_v1_moe"),
    **_rows(MOE, UNTIED | LANGUAGE_ONLY, "minimax_m2 exaone_moe"),
    **_rows(ERNIE_MOE, TIED | LANGUAGE_ONLY, "ernie4_5_moe"),
    **_rows(GPT_OSS, UNTIED, "gpt_oss"),
    **_rows(LATENT_ATTENTION, UNTIED, "deepseek_v2 deepseek_v3"),
    **_rows(LATENT_ATTENTION, TIED, "minicpm3"),
    **_rows(LATENT_ATTENTION, UNTIED, "mistral4", needed={"head": ("score.weight",)}),
    **_rows(JETMOE, TIED, "jetmoe"),
    **_rows(MINIMAX, UNTIED, "minimax"),
    **_rows(BART, TWO_ENDED, "bart mbart mvp plbart bigbird_pegasus"),
    **_rows(T5, TWO_ENDED, "t5 mt5 umt5", "transformer.", without_end=True),
    **_rows(T5GEMMA, TWO_ENDED, "t5gemma", needed={"head": ("score.out_proj.weight",)}, labels="score.out_proj.weight"),
}  # fmt: skip


def family_of(model_type: str) -> Family:
    """Return a family's row; for a family that is not in the table, UNKNOWN, which has no heads."""
    return FAMILIES.get(model_type, UNKNOWN)

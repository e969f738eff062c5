"""Where the blocks, heads and module kinds of each model family are: data, read by `parameters`.

Names are matched as regular expressions against the part of a parameter's name after its block number;
the first match wins. Sources: the modelling files of the transformers library, read tensor by tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

QUERY, KEY, VALUE = "query", "key", "value"
ATTENTION_OUTPUT, MLP_IN, MLP_OUT, LAYER_NORM, OTHER = (
    "attention output",
    "MLP in",
    "MLP out",
    "LayerNorm",
    "other",
)
KINDS = (QUERY, KEY, VALUE, ATTENTION_OUTPUT, MLP_IN, MLP_OUT, LAYER_NORM, OTHER)


@dataclass(frozen=True)
class Family:
    """One model family: the block's number in a name, its modules, and what belongs to a class head.

    `fused` names a module that holds query, key and value in one tensor, `fused_axis` the weight's axis
    along which they lie (a bias has one axis), `fused_by_head` whether they alternate head by head.
    `buffers` are no parameters, but older checkpoints list them beside the parameters.
    """

    block: str
    kinds: tuple[tuple[str, str], ...]
    head: tuple[str, ...]
    fused: str | None = None
    fused_axis: int = 0
    fused_by_head: bool = False
    buffers: str | None = None
    heads_key: str = "num_attention_heads"


BERT = Family(
    block=r"encoder\.layer\.(\d+)\.",
    kinds=(
        (r"LayerNorm|layernorm", LAYER_NORM),
        (r"attention\.self\.query\.", QUERY),
        (r"attention\.self\.key\.", KEY),
        (r"attention\.self\.value\.", VALUE),
        (r"attention\.output\.dense\.", ATTENTION_OUTPUT),
        (r"^intermediate\.dense\.", MLP_IN),
        (r"^output\.dense\.", MLP_OUT),
    ),
    head=(r"(^|\.)pooler\.", r"^classifier\."),
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
    heads_key="n_heads",
)
GPT2 = Family(
    block=r"(?:^|\.)h\.(\d+)\.",
    kinds=(
        (r"^ln_\d", LAYER_NORM),
        (r"attn\.c_proj\.", ATTENTION_OUTPUT),
        (r"mlp\.c_fc\.", MLP_IN),
        (r"mlp\.c_proj\.", MLP_OUT),
    ),
    head=(r"^score\.",),
    fused=r"attn\.c_attn\.",
    fused_axis=1,
    buffers=r"^attn\.(masked_)?bias$",
    heads_key="n_head",
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
GPT_NEOX = Family(
    block=r"(?:^|\.)layers\.(\d+)\.",
    kinds=(
        (r"layernorm", LAYER_NORM),
        (r"attention\.dense\.", ATTENTION_OUTPUT),
        (r"mlp\.dense_h_to_4h\.", MLP_IN),
        (r"mlp\.dense_4h_to_h\.", MLP_OUT),
    ),
    head=(r"^score\.", r"^classifier\."),
    fused=r"attention\.query_key_value\.",
    fused_by_head=True,
    buffers=r"^attention\.(masked_)?bias$|rotary_emb\.inv_freq$",
)
LLAMA = Family(
    block=r"(?:^|\.)layers\.(\d+)\.",
    kinds=(
        (r"norm", LAYER_NORM),
        (r"self_attn\.q_proj\.", QUERY),
        (r"self_attn\.k_proj\.", KEY),
        (r"self_attn\.v_proj\.", VALUE),
        (r"self_attn\.o_proj\.", ATTENTION_OUTPUT),
        (r"mlp\.(gate|up)_proj\.", MLP_IN),
        (r"mlp\.down_proj\.", MLP_OUT),
    ),
    head=(r"^score\.",),
    buffers=r"rotary_emb\.inv_freq$",
)
# Answers for anything else: blocks by the first number in a name, kinds unknown, usual names of heads.
UNKNOWN = Family(
    block=r"(?:^|\.)(?:layers?|blocks?|h|encoder|decoder|group|groups|albert_layer_groups)\.(?:layers?\.)?(\d+)\.",
    kinds=(),
    head=(
        r"(^|\.)pooler\.",
        r"^(pre_)?classifier\.",
        r"^score\.",
        r"^(classification_)?head\.",
        r"^(sequence_summary|logits_proj)\.",
    ),
)

FAMILIES: dict[str, Family] = {
    "bert": BERT,
    "roberta": BERT,
    "xlm-roberta": BERT,
    "camembert": BERT,
    "electra": BERT,
    "distilbert": DISTILBERT,
    "gpt2": GPT2,
    "opt": OPT,
    "gpt_neox": GPT_NEOX,
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": LLAMA,
    "qwen3": LLAMA,
}

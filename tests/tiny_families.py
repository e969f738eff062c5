"""A tiny pair of every family in the table of architectures, built from its configuration; never downloaded."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

from skillviz.core.architectures import FAMILIES
from tests.tiny import AUTO, POSITIONS, tiny_tokenizer

WIDTH, LAYERS, HEADS = 32, 2, 4
ONE_A_SCHEME = frozenset(
    {repr((f.block, f.kinds, f.splits, f.buffers, f.head_axes)): n for n, f in [*FAMILIES.items()][::-1]}.values()
)
"""One family for each naming scheme: .ci/run tests these, `make nightly` all."""
# Configurations have different names for the same sizes; each uses the names that it has.
SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "dim", "n_embd", "emb_dim"), WIDTH),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers",
                     "num_decoder_layers"), LAYERS),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
                     "decoder_attention_heads", "attention_heads"), HEADS),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim",
                     "n_inner", "d_inner", "dff", "ffn_hidden_size", "moe_intermediate_size",
                     "shared_expert_intermediate_size"), 48),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_topk"), 2),
    **dict.fromkeys(("d_kv", "head_dim", "d_head", "kv_channels"), WIDTH // HEADS),
    "num_key_value_heads": 2, "embedding_size": 16, "max_position_embeddings": POSITIONS + 2, "n_positions": POSITIONS,
    "kv_lora_rank": 12, "q_lora_rank": 16, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 8,
    "n_shared_experts": 1, "first_k_dense_replace": 1,
}  # fmt: skip
# Extra settings of a family; None keeps the family's own default.
_STACK = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": 2,
          "head_dim": 8, "intermediate_size": 48, "attention_dropout": 0.0, "dropout_rate": 0.0, "vocab_size": 700,
          "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}  # fmt: skip
CHANGES: dict[str, dict[str, Any]] = {
    "squeezebert": {"embedding_size": WIDTH, **dict.fromkeys(
        ("q_groups", "k_groups", "v_groups", "intermediate_groups", "output_groups"), 2), "post_attention_groups": 1},
    "funnel": {"num_hidden_layers": None, "block_sizes": [1, 1], "block_repeats": [1, 1]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "xmod": {"default_language": "en_XX"},
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
    **dict.fromkeys(("deepseek_v2", "minicpm3", "mistral4"), {"head_dim": None, "num_key_value_heads": HEADS}),
    "deepseek_v3": {"head_dim": None, "num_key_value_heads": HEADS, "n_group": 1, "topk_group": 1},
    "t5": {"decoder_start_token_id": 0},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 8},
    "deberta-v2": {
        "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 8, "position_buckets": 4,
    },
    "falcon": {"head_dim": None, "num_kv_heads": 2, "new_decoder_architecture": True},
    "xlnet": {"max_position_embeddings": None},
    "gpt_bigcode": {"multi_query": True},
    "t5gemma": {"encoder": _STACK, "decoder": {**_STACK, "cross_attention_hidden_size": WIDTH}},
}  # fmt: skip


def family_config(family: str, vocabulary: int, **changes: Any) -> Any:
    """Return the family's tiny configuration, without dropout, with wide initial weights."""
    given = {**CHANGES.get(family, {}), **changes}
    known = AutoConfig.for_model(family)
    names = {*known.to_dict(), *vars(known)} - set(known.attribute_map)
    sizes = {name: value for name, value in SIZES.items() if name in names}
    dropout = {
        n: 0.0 for n in names if ("drop" in n or n.endswith("pdrop")) and isinstance(getattr(known, n, None), float)
    }
    scale = {n: 0.2 for n in ("initializer_range", "init_std") if n in names}
    tokens = {"vocab_size": vocabulary, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    merged = {**sizes, **dropout, **scale, **tokens, "num_labels": 2, **given}
    return AutoConfig.for_model(family, **{name: value for name, value in merged.items() if value is not None})


def family_readout(family: str) -> str:
    """Return `head` if the family has a sequence-classification class, else `causal`."""
    return "head" if family in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES else "causal"


def family_model(family: str, readout: str | None = None, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """Return a random model of the readout's class (default: the family's), float32, no norm or bias at its default."""
    config = family_config(family, len(tiny_tokenizer("roberta")), **changes)
    config.architectures = []  # AutoModel uses it to choose between two bare classes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AUTO[readout or family_readout(family)].from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            noise = torch.randn_like(parameter)
            parameter.data.add_(0.1 * noise if parameter.dim() == 1 else 0.05 * noise)
    return model.eval()


def family_pair(folder: Path, family: str, **changes: Any) -> tuple[Path, Path]:
    """Save (base, fine-tuned), each with the tokenizer, and return their folders; for the head readout the base is
    bare.

    The fine-tuned one is moved by a seeded perturbation of every tensor in a numbered block.
    """
    readout, tokenizer = family_readout(family), tiny_tokenizer("roberta")
    tuned = family_model(family, readout, **changes)
    base = family_model(family, "bare" if readout == "head" else readout, **changes)
    if readout == "head":
        base.load_state_dict(tuned.base_model.state_dict(), strict=False)
    draw = torch.Generator().manual_seed(1)
    for name, parameter in tuned.named_parameters():
        if any(part.isdigit() for part in name.split(".")):
            parameter.data.add_(0.1 * torch.randn(parameter.shape, generator=draw))
    for name, model in (("base", base), ("finetuned", tuned)):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder / "base", folder / "finetuned"

"""Tests of d and module kinds of every family, counted on models built from configurations without allocation."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification

from skillviz.core.architectures import KINDS
from skillviz.core.parameters import Fused, Parameter, ParameterTable, graftable, readout_names
from skillviz.errors import BadModel
from tests.core.by_hand import by_hand
from tests.core.problems import model_of, table_of
from tests.refused import refused
from tests.tiny import FAMILIES, tiny_model

PLAIN = ("query", "key", "value", "attention output", "MLP in", "MLP out", "LayerNorm")
GATED = (*PLAIN[:4], "MLP gate", "MLP up", *PLAIN[5:])
LIKE_LLAMA = ("mistral", "qwen2", "qwen3")
AUTO = {"head": AutoModelForSequenceClassification, "prompt": AutoModelForMaskedLM, "causal": AutoModelForCausalLM}
NEVER = ("embed", "wte", "wpe", "pooler", "ln_f", "final_layer_norm.0", "lm_head", "score", "classifier", "cls.")


def on_meta(model_type: str, readout: str, **sizes: object) -> torch.nn.Module:
    """Return a model of that type that uses no memory."""
    with torch.device("meta"):
        return AUTO[readout].from_config(AutoConfig.for_model(model_type, **sizes))


MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}


@pytest.mark.parametrize("family", [*FAMILIES, *LIKE_LLAMA])
def test_every_kind_of_every_family(family: str) -> None:
    sizes = {
        "vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "intermediate_size": 32, "head_dim": 8,
    }  # fmt: skip
    model = on_meta(family, "causal", **sizes) if family in LIKE_LLAMA else model_of(family, "head")
    table, counted = table_of(model), Counter[str]()
    for p in table.parameters:
        counted.update(dict.fromkeys(p.kinds, p.size // len(p.kinds)))
    assert sorted(counted) == sorted(GATED if family in ("llama", *LIKE_LLAMA) else PLAIN)
    assert counted.total() == table.d and table.known and table.note is None and table.layers == 2
    assert {n for n, _ in model.named_parameters() if "norm" in n.lower() and ".0." in n} <= set(table.names)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("readout", ["head", "language"])
def test_graftable_is_all_but_embeddings_heads_and_the_last_norm(family: str, readout: str) -> None:
    language = "prompt" if family in ("bert", "roberta", "distilbert") else "causal"
    model = tiny_model(family, "head" if readout == "head" else language)
    table, left_out = table_of(model), (*NEVER, "final_layer_norm", "norm.weight", "vocab_")
    others = [name.lower() for name, _ in model.named_parameters() if name not in set(table.names)]
    assert not [name for name in table.names if any(word in name for word in NEVER)]
    assert [name for name in others if not any(word in name for word in left_out)] == []
    assert len(table.names) == 2 * len({p.name.split(f".{p.layer}.", 1)[1] for p in table.parameters})


@pytest.mark.parametrize("family", FAMILIES)
def test_readout_names_are_the_heads_own(family: str) -> None:
    model = tiny_model(family, "head")
    names = readout_names(model.config.model_type, [n for n, _ in model.named_parameters()])
    body = {f"{model.base_model_prefix}.{n}" for n, _ in model.base_model.named_parameters()}
    assert [n for n in names if "pooler" not in n] == [n for n, _ in model.named_parameters() if n not in body]
    assert not set(names) & set(table_of(model).names)


def size_of(*model: str, **sizes: object) -> tuple[object, ...]:
    table = table_of(on_meta(*model, **sizes))
    biases = sum(p.size for p in table.parameters if p.is_bias)
    return table.d, table.offsets[-1], table.offsets.dtype, biases, table.layers, table.heads, table.known


BASE, QUERY = (85_054_464, 85_054_464, np.int64, 101_376, 12, 12, True), "model.layers.0.self_attn.q_proj.weight"
OPT = {"vocab_size": 50, "hidden_size": 16, "word_embed_proj_dim": 8, "num_hidden_layers": 1, "ffn_dim": 32}
PROJECTED = on_meta("opt", "causal", num_attention_heads=2, **OPT)
BUFFERS = [
    ("gpt2", "transformer.h.0.attn.bias", "h.0.attn.c_attn.bias"),
    ("gpt2", "h.11.attn.masked_bias", "h.0.attn.c_attn.bias"),
    ("gpt_neox", "gpt_neox.layers.0.attention.rotary_emb.inv_freq", "gpt_neox.layers.0.attention.dense.bias"),
    ("gpt_neox", "gpt_neox.layers.0.attention.bias", "gpt_neox.layers.0.attention.dense.bias"),
    ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq", QUERY),
]
"""A buffer in older checkpoints, beside a parameter."""
MYSTERY = {"net.embed.weight": (9, 4), "net.blocks.0.mix.weight": (4, 4), "net.blocks.1.mix.bias": (4,)}
test_by_hand = by_hand(
    *((f"d of {model} {readout}", BASE, size_of, model, readout)  # the paper's two models
      for model, readout in (("roberta", "prompt"), ("roberta", "head"), ("gpt2", "causal"))),
    ("d of MiniLM", (10_646_784, 10_646_784, np.int64, 25_344, 6, 12, True),
     lambda: size_of("bert", "head", **MINILM)),
    *((f"no {buffer}", (kept,), lambda row=(model, buffer, kept): graftable(
        row[0], {row[1]: (1, 1, 8, 8), row[2]: (12,)}, {"num_attention_heads": 2}).names)
      for model, buffer, kept in BUFFERS),
    ("OPT has projections", {"project_in", "project_out"},
     lambda: {part for name, _ in PROJECTED.named_parameters() for part in name.split(".") if "project" in part}),
    ("none of them counts", [],
     lambda: [n for n in table_of(PROJECTED).names if "project" in n or "embed" in n]),
    ("an unknown architecture", [("net.blocks.0.mix.weight", 0, "other"), ("net.blocks.1.mix.bias", 1, "other")],
     lambda: [(p.name, p.layer, p.kind) for p in graftable("mystery", MYSTERY, {}).parameters]),
    ("it is not known", (False, 20, True), lambda: attrgetter("known", "d")(graftable("mystery", MYSTERY, {})) + (
        "'mystery'" in str(graftable("mystery", MYSTERY, {}).note),)),
)  # fmt: skip


test_a_model_without_blocks_is_refused = refused(
    BadModel,
    ("no numbered transformer block", lambda: graftable("bert", {"embeddings.weight": (3, 3)}, {})),
)


def fused_in(table: ParameterTable, name: str) -> tuple[Parameter, Fused | None]:
    """Return the parameter whose name ends so, and how its parts are fused."""
    (parameter,) = (p for p in table.parameters if p.name.endswith(name))
    return parameter, parameter.fused


def test_gpt2_columns_are_query_key_value_as_the_model_splits_them() -> None:
    model = tiny_model("gpt2", "causal")
    attention = model.transformer.h[0].attn
    seen = parts_by_probe(attention.c_attn, lambda y: y.split(attention.split_size, dim=-1))
    parameter, fused = fused_in(table_of(model), "h.0.attn.c_attn.weight")
    assert fused.axis == 1 and np.array_equal(fused.kind_numbers(parameter.shape), seen)
    assert np.array_equal(parameter.kind_numbers(np.arange(parameter.size)), np.tile(seen, parameter.shape[0]))


def test_neox_rows_alternate_by_head_as_the_model_splits_them() -> None:
    """GPTNeoXAttention.forward views its output as [heads, 3 * head], then takes three chunks."""
    model = tiny_model("gpt_neox", "causal", num_attention_heads=4)
    attention, table = model.gpt_neox.layers[0].attention, table_of(model)
    shape = (-1, 3 * attention.head_size)
    seen = parts_by_probe(attention.query_key_value, lambda y: y.view(*y.shape[:-1], *shape).chunk(3, dim=-1))
    for name in ("weight", "bias"):
        parameter, fused = fused_in(table, f"0.attention.query_key_value.{name}")
        assert fused == Fused(axis=0, groups=4) and np.array_equal(fused.kind_numbers(parameter.shape), seen)
        by_entry = np.repeat(seen, parameter.size // len(seen))
        assert np.array_equal(parameter.kind_numbers(np.arange(parameter.size)), by_entry)
    assert not np.array_equal(seen, np.sort(seen)), "the check would not see a split in plain thirds"


def parts_by_probe(linear: torch.nn.Module, split) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Return 0, 1 or 2 for every output of a fused layer: the part of the model's own split that a bias reaches."""
    probes = torch.eye(linear.bias.numel())[:, None, None]
    return np.array([next(k for k, part in enumerate(split(probe)) if part.any()) for probe in probes])

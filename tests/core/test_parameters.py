"""Tests of d and module kinds of every family, counted on models built from configurations without allocation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification

from skillviz.core.architectures import KINDS
from skillviz.core.parameters import Fused, ParameterTable, graftable, readout_names
from skillviz.errors import BadModel
from tests.core.problems import model_of, table_of
from tests.tiny import FAMILIES, tiny_model

PLAIN = ("query", "key", "value", "attention output", "MLP in", "MLP out", "LayerNorm")
GATED = (*PLAIN[:4], "MLP gate", "MLP up", *PLAIN[5:])
AUTO = {"head": AutoModelForSequenceClassification, "prompt": AutoModelForMaskedLM, "causal": AutoModelForCausalLM}
NEVER = ("embed", "wte", "wpe", "pooler", "ln_f", "final_layer_norm.0", "lm_head", "score", "classifier", "cls.")


def on_meta(model_type: str, readout: str, **sizes: object) -> torch.nn.Module:
    """Return a model of that type that uses no memory."""
    with torch.device("meta"):
        return AUTO[readout].from_config(AutoConfig.for_model(model_type, **sizes))


def biases(table: ParameterTable) -> int:
    """Return the number of entries in the bias vectors."""
    return sum(p.size for p in table.parameters if p.is_bias)


@pytest.mark.parametrize(("model_type", "readout"), [("roberta", "prompt"), ("roberta", "head"), ("gpt2", "causal")])
def test_the_papers_two_models_have_the_papers_d(model_type: str, readout: str) -> None:
    table = table_of(on_meta(model_type, readout))
    assert table.d == 85_054_464
    assert biases(table) == 101_376
    assert (table.layers, table.heads, table.known) == (12, 12, True)


def test_minilm_has_its_d() -> None:
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    table = table_of(on_meta("bert", "head", **sizes))
    assert table.d == 10_646_784
    assert table.offsets[-1] == table.d and table.offsets.dtype == np.int64


@pytest.mark.parametrize("family", [*FAMILIES, "mistral", "qwen2", "qwen3"])
def test_every_kind_of_every_family(family: str) -> None:
    extra = {"mistral": "llama", "qwen2": "llama", "qwen3": "llama"}
    if family in extra:
        model = on_meta(
            family, "causal", vocab_size=99, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, intermediate_size=32, head_dim=8,
        )  # fmt: skip
    else:
        model = model_of(family, "head")
    table = table_of(model)
    counted: dict[str, int] = {}
    for p in table.parameters:
        for kind in p.kinds:
            counted[kind] = counted.get(kind, 0) + p.size // len(p.kinds)
    assert sorted(counted) == sorted(GATED if family in ("llama", *extra) else PLAIN)
    assert sum(counted.values()) == table.d
    assert table.known and table.note is None and table.layers == 2
    inside = {name for name, p in model.named_parameters() if "norm" in name.lower() and ".0." in name}
    assert inside <= set(table.names)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("readout", ["head", "language"])
def test_graftable_is_all_but_embeddings_heads_and_the_last_norm(family: str, readout: str) -> None:
    masked = family in ("bert", "roberta", "distilbert")
    model = tiny_model(family, "head" if readout == "head" else ("prompt" if masked else "causal"))
    table = table_of(model)
    left = [name for name, _ in model.named_parameters() if name not in set(table.names)]
    assert not [name for name in table.names if any(word in name for word in NEVER)]
    for name in left:
        assert any(word in name.lower() for word in (*NEVER, "final_layer_norm", "norm.weight", "vocab_")), name
    per_block = {p.name.split(f".{p.layer}.", 1)[1] for p in table.parameters}
    assert len(table.names) == 2 * len(per_block)


@pytest.mark.parametrize("family", FAMILIES)
def test_readout_names_are_the_heads_own(family: str) -> None:
    model = tiny_model(family, "head")
    names = readout_names(model.config.model_type, [n for n, _ in model.named_parameters()])
    body = {f"{model.base_model_prefix}.{n}" for n, _ in model.base_model.named_parameters()}
    heads = [n for n, _ in model.named_parameters() if n not in body]
    assert [n for n in names if "pooler" not in n] == heads
    assert not set(names) & set(table_of(model).names)


def test_opt_with_projections_leaves_them_out() -> None:
    sizes = {"vocab_size": 50, "hidden_size": 16, "word_embed_proj_dim": 8, "num_hidden_layers": 1, "ffn_dim": 32}
    model = on_meta("opt", "causal", num_attention_heads=2, **sizes)
    names = [name for name, _ in model.named_parameters()]
    assert any("project_in" in n for n in names) and any("project_out" in n for n in names)
    assert not [n for n in table_of(model).names if "project" in n or "embed" in n]


def test_tied_weights_count_once() -> None:
    model = tiny_model("gpt2", "causal")
    assert model.lm_head.weight is model.transformer.wte.weight
    names = [name for name, _ in model.named_parameters()]
    assert len(names) == len(set(names)) and "lm_head.weight" not in names
    shared = tiny_model("bert", "head")
    layers = shared.bert.encoder.layer
    layers[1].output.dense.weight = layers[0].output.dense.weight
    assert table_of(shared).d == table_of(tiny_model("bert", "head")).d - layers[0].output.dense.weight.numel()


def test_an_unknown_architecture_is_told_by_its_own_names() -> None:
    shapes = {"net.embed.weight": (9, 4), "net.blocks.0.mix.weight": (4, 4), "net.blocks.1.mix.bias": (4,)}
    table = graftable("mystery", shapes, {})
    assert table.names == ("net.blocks.0.mix.weight", "net.blocks.1.mix.bias")
    assert {p.kind for p in table.parameters} == {"other"} and "other" in KINDS
    assert not table.known and "'mystery'" in str(table.note) and table.d == 20
    assert [p.layer for p in table.parameters] == [0, 1]


def test_a_model_without_blocks_is_refused() -> None:
    with pytest.raises(BadModel, match="no numbered transformer block"):
        graftable("bert", {"embeddings.weight": (3, 3)}, {})


@pytest.mark.parametrize(
    ("model_type", "name"),
    [
        ("gpt2", "transformer.h.0.attn.bias"),
        ("gpt2", "h.11.attn.masked_bias"),
        ("gpt_neox", "gpt_neox.layers.0.attention.rotary_emb.inv_freq"),
        ("gpt_neox", "gpt_neox.layers.0.attention.bias"),
        ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq"),
    ],
)
def test_buffers_of_older_checkpoints_do_not_count(model_type: str, name: str) -> None:
    kept = {"gpt2": "h.0.attn.c_attn.bias", "gpt_neox": "gpt_neox.layers.0.attention.dense.bias"}
    real = kept.get(model_type, "model.layers.0.self_attn.q_proj.weight")
    assert graftable(model_type, {name: (1, 1, 8, 8), real: (12,)}, {"num_attention_heads": 2}).names == (real,)


def test_gpt2_columns_are_query_key_value_as_the_model_splits_them() -> None:
    model = tiny_model("gpt2", "causal")
    attention = model.transformer.h[0].attn
    seen = _parts_by_probe(attention.c_attn, lambda y: y.split(attention.split_size, dim=-1))
    parameter = next(p for p in table_of(model).parameters if p.name.endswith("h.0.attn.c_attn.weight"))
    assert parameter.fused is not None and parameter.fused.axis == 1
    assert np.array_equal(parameter.fused.kind_numbers(parameter.shape), seen)
    flat = np.arange(parameter.size)
    assert np.array_equal(parameter.kind_numbers(flat), seen[flat % parameter.shape[1]])


def test_neox_rows_alternate_by_head_as_the_model_splits_them() -> None:
    model = tiny_model("gpt_neox", "causal", num_attention_heads=4)
    attention = model.gpt_neox.layers[0].attention
    size = attention.head_size

    def split(y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # GPTNeoXAttention.forward: view as [heads, 3 * head], then three chunks.
        return y.view(*y.shape[:-1], -1, 3 * size).chunk(3, dim=-1)

    seen = _parts_by_probe(attention.query_key_value, split)
    table = table_of(model)
    weight, bias = (next(p for p in table.parameters if p.name.endswith(f"0.attention.query_key_value.{w}"))
                    for w in ("weight", "bias"))  # fmt: skip
    assert weight.fused == Fused(axis=0, groups=4) and bias.fused == Fused(axis=0, groups=4)
    assert np.array_equal(weight.fused.kind_numbers(weight.shape), seen)
    assert np.array_equal(bias.kind_numbers(np.arange(bias.size)), seen)
    thirds = np.repeat([0, 1, 2], len(seen) // 3)
    assert not np.array_equal(seen, thirds), "the check would not see a split in plain thirds"


def test_neox_really_attends_with_the_part_we_call_the_query() -> None:
    """Zeroing every row called 'value' makes attention's output constant; zeroing the query rows does not."""
    model = tiny_model("gpt_neox", "causal", num_attention_heads=4)
    attention = model.gpt_neox.layers[0].attention
    parameter = next(p for p in table_of(model).parameters if p.name.endswith("0.attention.query_key_value.weight"))
    assert parameter.fused is not None
    rows = torch.from_numpy(parameter.fused.kind_numbers(parameter.shape))
    for part, constant in ((2, True), (0, False)):
        fresh = tiny_model("gpt_neox", "causal", num_attention_heads=4)
        linear = fresh.gpt_neox.layers[0].attention.query_key_value
        linear.weight.data[rows == part] = 0
        linear.bias.data[rows == part] = 0
        seen: list[torch.Tensor] = []
        dense = fresh.gpt_neox.layers[0].attention.dense
        dense.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[0]))
        with torch.no_grad():
            fresh(input_ids=torch.tensor([[5, 6, 7, 8]]))
        assert bool(seen[0].abs().max() < 1e-7) is constant
    assert attention.head_size == 4


def _parts_by_probe(linear: torch.nn.Module, split) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Return 0, 1 or 2 for every output of a fused layer: the part of the model's own split that a bias reaches."""
    parts = []
    for i in range(linear.bias.numel()):
        probe = torch.zeros(1, 1, linear.bias.numel())
        probe[..., i] = 1
        parts.append(next(k for k, part in enumerate(split(probe)) if part.any()))
    return np.array(parts)

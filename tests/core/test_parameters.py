"""Tests of d and module kinds of every family, and that a kind's entries do in the model what its name says.

Attention is a mean of values, weighted by the products of queries and keys. So without values its output is zero,
without keys the queries change nothing, without queries the keys change nothing. A gated MLP is linear in the entries
of kind "MLP up", and not in those of kind "MLP gate".
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig

from skillviz.core.architectures import (
    ATTENTION_OUTPUT,
    CROSS_KEY,
    CROSS_OUTPUT,
    CROSS_QUERY,
    CROSS_VALUE,
    EXPERT_GATE,
    EXPERT_OUT,
    EXPERT_UP,
    FAMILIES,
    GATE,
    KEY,
    KEY_AND_VALUE,
    MLP_OUT,
    QUERY,
    UP,
    VALUE,
)
from skillviz.core.parameters import (
    Fused,
    Parameter,
    ParameterTable,
    graftable,
    head_numbers,
    heads_of_kind,
    readout_names,
)
from skillviz.errors import BadModel
from tests.core.by_hand import by_hand, refused
from tests.core.problems import model_of, table_of
from tests.tiers import first
from tests.tiny import AUTO, tiny_model, tiny_rows, tiny_tokenizer
from tests.tiny import FAMILIES as TINY
from tests.tiny_families import family_model

PLAIN = ("query", "key", "value", "attention output", "MLP in", "MLP out", "LayerNorm")
LIKE_LLAMA = ("mistral", "qwen2", "qwen3")
NEVER = ("embed", "wte", "wpe", "pooler", "ln_f", "final_layer_norm.0", "lm_head", "score", "classifier", "cls.")


def on_meta(model_type: str, readout: str, **sizes: object) -> torch.nn.Module:
    with torch.device("meta"):
        return AUTO[readout].from_config(AutoConfig.for_model(model_type, **sizes))


@pytest.mark.parametrize("family", [*TINY, *LIKE_LLAMA])
def test_every_kind_of_every_family(family: str) -> None:
    sizes = {
        "vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "intermediate_size": 32, "head_dim": 8,
    }  # fmt: skip
    model = on_meta(family, "causal", **sizes) if family in LIKE_LLAMA else model_of(family, "head")
    table, counted = table_of(model), Counter[str]()
    for p in table.parameters:
        counted.update(dict.fromkeys(p.kinds, p.size // len(p.kinds)))
    assert sorted(counted) == sorted(
        (*PLAIN[:4], "MLP gate", "MLP up", *PLAIN[5:]) if family in ("llama", *LIKE_LLAMA) else PLAIN
    )
    assert counted.total() == table.d and table.known and table.note is None and table.layers == 2
    assert {n for n, _ in model.named_parameters() if "norm" in n.lower() and ".0." in n} <= set(table.names)


@pytest.mark.parametrize("family", TINY)
@pytest.mark.parametrize("readout", ["head", "language"])
def test_graftable_is_all_but_embeddings_heads_and_the_last_norm(family: str, readout: str) -> None:
    language = "prompt" if family in ("bert", "roberta", "distilbert") else "causal"
    model = tiny_model(family, "head" if readout == "head" else language)
    table, left_out = table_of(model), (*NEVER, "final_layer_norm", "norm.weight", "vocab_")
    others = [name.lower() for name, _ in model.named_parameters() if name not in set(table.names)]
    assert not [name for name in table.names if any(word in name for word in NEVER)]
    assert [name for name in others if not any(word in name for word in left_out)] == []
    assert len(table.names) == 2 * len({p.name.split(f".{p.layer}.", 1)[1] for p in table.parameters})


@pytest.mark.parametrize("family", TINY)
def test_readout_names_are_the_heads_own(family: str) -> None:
    model = tiny_model(family, "head")
    names = readout_names(model.config.model_type, [n for n, _ in model.named_parameters()])
    body = {f"{model.base_model_prefix}.{n}" for n, _ in model.base_model.named_parameters()}
    assert [n for n in names if "pooler" not in n] == [n for n, _ in model.named_parameters() if n not in body]
    assert not set(names) & set(table_of(model).names)


def size_of(*model: str, **sizes: object) -> tuple[object, ...]:
    table = table_of(on_meta(*model, **sizes))
    return (
        table.d, table.offsets[-1], table.offsets.dtype, sum(p.size for p in table.parameters if p.is_bias),
        table.layers, table.heads, table.known,
    )  # fmt: skip


PROJECTED = on_meta(
    "opt", "causal", num_attention_heads=2, vocab_size=50, hidden_size=16, word_embed_proj_dim=8, num_hidden_layers=1,
    ffn_dim=32,
)  # fmt: skip
MYSTERY = {"net.embed.weight": (9, 4), "net.blocks.0.mix.weight": (4, 4), "net.blocks.1.mix.bias": (4,)}
test_by_hand = by_hand(
    # the paper's two models
    *((f"d of {model} {readout}", (85_054_464, 85_054_464, np.int64, 101_376, 12, 12, True), size_of, model, readout)
      for model, readout in (("roberta", "prompt"), ("roberta", "head"), ("gpt2", "causal"))),
    ("d of MiniLM", (10_646_784, 10_646_784, np.int64, 25_344, 6, 12, True),
     lambda: size_of(
         "bert", "head", hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)),
    # A buffer in older checkpoints, beside a parameter.
    *((f"no {buffer}", (kept,), lambda row=(model, buffer, kept): graftable(
        row[0], {row[1]: (1, 1, 8, 8), row[2]: (12,)}, {"num_attention_heads": 2}).names)
      for model, buffer, kept in (
        ("gpt2", "transformer.h.0.attn.bias", "h.0.attn.c_attn.bias"),
        ("gpt2", "h.11.attn.masked_bias", "h.0.attn.c_attn.bias"),
        ("gpt_neox", "gpt_neox.layers.0.attention.rotary_emb.inv_freq", "gpt_neox.layers.0.attention.dense.bias"),
        ("gpt_neox", "gpt_neox.layers.0.attention.bias", "gpt_neox.layers.0.attention.dense.bias"),
        ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq", "model.layers.0.self_attn.q_proj.weight"))),
    ("OPT has projections", {"project_in", "project_out"},
     lambda: {part for name, _ in PROJECTED.named_parameters() for part in name.split(".") if "project" in part}),
    ("none of them counts", [],
     lambda: [n for n in table_of(PROJECTED).names if "project" in n or "embed" in n]),
    ("an unknown architecture", [("net.blocks.0.mix.weight", 0, "other"), ("net.blocks.1.mix.bias", 1, "other")],
     lambda: [(p.name, p.layer, p.kind) for p in graftable("mystery", MYSTERY, {}).parameters]),
    ("it is not known", (False, 20, True), lambda table: (table.known, table.d, "'mystery'" in str(table.note)),
     graftable("mystery", MYSTERY, {})),
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


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_neox_rows_alternate_by_head_as_the_model_splits_them(name: str) -> None:
    """GPTNeoXAttention.forward views its output as [heads, 3 * head], then takes three chunks."""
    model = tiny_model("gpt_neox", "causal", num_attention_heads=4)
    attention, table = model.gpt_neox.layers[0].attention, table_of(model)
    seen = parts_by_probe(
        attention.query_key_value, lambda y: y.view(*y.shape[:-1], -1, 3 * attention.head_size).chunk(3, dim=-1)
    )
    parameter, fused = fused_in(table, f"0.attention.query_key_value.{name}")
    assert fused == Fused(axis=0, groups=4) and np.array_equal(fused.kind_numbers(parameter.shape), seen)
    assert np.array_equal(
        parameter.kind_numbers(np.arange(parameter.size)), np.repeat(seen, parameter.size // len(seen))
    )
    assert not np.array_equal(seen, np.sort(seen)), "the check would not see a split in plain thirds"


def parts_by_probe(linear: torch.nn.Module, split) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Return 0, 1 or 2 for every output of a fused layer: the part of the model's own split that a bias reaches."""
    return np.array(
        [
            next(k for k, part in enumerate(split(probe)) if part.any())
            for probe in torch.eye(linear.bias.numel())[:, None, None]
        ]
    )


SELF, CROSS = (QUERY, KEY, VALUE, ATTENTION_OUTPUT), (CROSS_QUERY, CROSS_KEY, CROSS_VALUE, CROSS_OUTPUT)
USUAL = (
    "bert", "gpt2", "deberta", "modernbert", "gpt_neox", "bloom", "falcon", "gpt_bigcode", "codegen", "phi3", "mpt",
    "llama", "mixtral", "gpt_oss", "deepseek_v3", "jetmoe", "bart", "t5",
)  # fmt: skip
NO_ATTENTION = {"fnet": "it mixes tokens by a Fourier transform"}
OTHER_ATTENTION = {
    "xlnet": "a learned bias is added to its queries, and its output is no module of its own",
    "funnel": "a learned bias is added to its queries",
    "convbert": "a convolution of its keys is a part of its output",
    "yoso": "it samples hashes of queries and keys",
    "nystromformer": "it inverts a matrix of means of queries and keys",
}
NORMALIZED_TOGETHER = ("olmo2", "olmo3", "olmoe", "flex_olmo", "minimax_m2")
"""One norm over the queries of all heads and one over the keys, so that a change of one head affects all."""
# Settings that remove interference: learned terms that remain if a query or key is zero.
UNDISTURBED = {
    "persimmon": {"qk_layernorm": False},
    "deberta": {"relative_attention": False},
    "deberta-v2": {"relative_attention": False},
}


@cache
def built(family: str) -> tuple[Any, ParameterTable]:
    """Return a tiny model and its table; callers must restore any change."""
    model = family_model(family, **UNDISTURBED.get(family, {}))
    return model, table_of(model)


@cache
def words() -> dict[str, torch.Tensor]:
    texts = [row["text"] for row in tiny_rows(2, seed=3)]
    ids = [text[:7] + [2] for text in tiny_tokenizer("roberta")(texts)["input_ids"]]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.ones(2, 8, dtype=torch.long)}


def parts(table: ParameterTable, layer: int, kind: str) -> list[tuple[Parameter, np.ndarray]]:
    """Return the tensors of a layer with entries of the kind, and the flat indices of those entries."""
    return [
        (p, np.flatnonzero(p.kind_numbers(np.arange(p.size)) == p.kinds.index(kind)))
        for p in table.parameters
        if p.layer == layer and kind in p.kinds
    ]


@contextmanager
def changed(
    model: Any, *changes: tuple[list[tuple[Parameter, np.ndarray]], Callable[[torch.Tensor], torch.Tensor]]
) -> Iterator[None]:
    """Change these entries of the model inside the block."""
    before = {p.name: model.get_parameter(p.name).detach().clone() for part, _ in changes for p, _ in part}
    try:
        for part, change in changes:
            for p, flat in part:
                data = model.get_parameter(p.name).data.view(-1)
                data[flat] = change(data[flat])
        yield
    finally:
        for name, values in before.items():
            model.get_parameter(name).data.copy_(values)


def other(values: torch.Tensor) -> torch.Tensor:
    return torch.randn(values.shape, generator=torch.Generator().manual_seed(7))


def double(values: torch.Tensor) -> torch.Tensor:
    return 2 * values


def taken_in(model: Any, table: ParameterTable, layer: int, kind: str) -> torch.Tensor:
    name = next(p.name for p in table.parameters if p.layer == layer and p.kinds == (kind,) and not p.is_bias)
    return _hooked(model, name.rpartition(".")[0], lambda inputs, output: inputs[0])


def put_out(model: Any, table: ParameterTable, layer: int, kind: str) -> torch.Tensor:
    name = next(p.name for p in table.parameters if p.layer == layer and kind in p.kinds).rpartition(".")[0]
    return _hooked(model, name.removesuffix(".input_linear"), lambda _, out: out[0] if isinstance(out, tuple) else out)


@torch.no_grad()
def _hooked(model: Any, name: str, value: Callable[[Any, Any], torch.Tensor]) -> torch.Tensor:
    """Return a value of a module's inputs and output in one pass, [token, width]; a shared layer's first use."""
    seen: list[torch.Tensor] = []
    handle = model.get_submodule(name).register_forward_hook(lambda _, x, y: seen.append(value(x, y).detach().clone()))
    try:
        model(**words())
    finally:
        handle.remove()
    is_by_channel = model.config.model_type == "squeezebert"  # [sentence, channel, token]
    return (seen[0].transpose(1, 2) if is_by_channel else seen[0]).flatten(0, -2)


def layer_of(table: ParameterTable, kind: str) -> int:
    return min(p.layer for p in table.parameters if kind in p.kinds and p.layer is not None)


def kinds_of(table: ParameterTable) -> set[str]:
    return {kind for p in table.parameters for kind in p.kinds}


def attentions(table: ParameterTable) -> list[tuple[str, ...]]:
    return [four for four in (SELF, CROSS) if set(four) <= kinds_of(table)]


@pytest.mark.cases(8, 6)
@pytest.mark.parametrize("family", first(FAMILIES, USUAL.__contains__, lambda family: False))
def test_attention_does_with_each_part_what_its_name_says(family: str) -> None:
    model, table = built(family)
    assert attentions(table) or family in NO_ATTENTION | OTHER_ATTENTION
    for query, key, value, output in attentions(table) if family not in OTHER_ATTENTION else ():
        layer = layer_of(table, query)
        q, k, v = (parts(table, layer, kind) for kind in (query, key, value))

        def seen(*changes: Any, layer: int = layer, output: str = output) -> torch.Tensor:
            with changed(model, *changes):
                return taken_in(model, table, layer, output)

        assert not seen((v, torch.zeros_like)).any(), "an entry of the value is missing"
        for one, two in ((k, q), (q, k)):
            assert torch.equal(seen((one, torch.zeros_like)), seen((one, torch.zeros_like), (two, other))), (
                "an entry is of another part"
            )
        assert not any(torch.equal(seen((part, other)), seen()) for part in (q, k, v)), "a part has no effect"
        both = parts(table, layer, KEY_AND_VALUE)
        assert not both or not seen((both, torch.zeros_like)).any()


@pytest.mark.cases(8, 5)
@pytest.mark.parametrize("family", first(FAMILIES, USUAL.__contains__, lambda family: False))
def test_a_head_is_what_changes_with_its_part_of_query_key_and_value(family: str) -> None:
    model, table = built(family)
    heads = table.heads or 0
    for query, key, value, output in (
        attentions(table) if (table.head_axes and family not in NO_ATTENTION | OTHER_ATTENTION) else ()
    ):
        layer = layer_of(table, query)
        weight = next(p for p in table.parameters if p.layer == layer and p.kinds == (output,) and not p.is_bias)
        is_by_row = table.head_axes[output] == "row"  # one entry of the weight for each of its inputs
        entries = np.arange(weight.rows) * weight.cols if is_by_row else np.arange(weight.cols)
        columns = np.array([head_numbers(table, weight, np.array([i]))[0] for i in entries])
        assert set(columns) == set(range(heads))
        plain = taken_in(model, table, layer, output)
        for kind in (value,) if family in NORMALIZED_TOGETHER else (query, key, value):
            part = parts(table, layer, kind)
            count = heads_of_kind(table, part[0][0], kind)
            for head in range(count):
                own = [(p, flat[head_numbers(table, p, flat) == head]) for p, flat in part]
                with changed(model, (own, other)):
                    moved = (taken_in(model, table, layer, output) != plain).any(0).numpy()
                assert set(columns[moved]) == {h for h in range(heads) if h * count // heads == head}, (kind, head)


@pytest.mark.parametrize("family", first(FAMILIES, USUAL.__contains__, lambda family: False))
def test_a_gated_mlp_is_linear_in_up_and_not_in_the_gate(family: str) -> None:
    model, table = built(family)
    for gate, up in ((GATE, UP), (EXPERT_GATE, EXPERT_UP)):
        assert (gate in kinds_of(table)) == (up in kinds_of(table))
        if gate not in kinds_of(table):
            continue
        layer = layer_of(table, gate)
        gates, ups = parts(table, layer, gate), parts(table, layer, up)
        own = [p for p in table.parameters if p.layer == layer and p.kind == EXPERT_OUT and p.is_bias]
        look, at = (put_out, gate) if gate == EXPERT_GATE else (taken_in, MLP_OUT)

        def seen(*changes: Any, own: Any = own, look: Any = look, at: str = at, layer: int = layer) -> torch.Tensor:
            with changed(model, ([(p, np.arange(p.size)) for p in own], torch.zeros_like), *changes):
                return look(model, table, layer, at)

        if family == "gpt_oss":  # (up + 1) * gate * sigmoid(...)
            assert not seen((gates, torch.zeros_like)).any() and seen((ups, torch.zeros_like)).any()
            continue
        assert torch.equal(seen((ups, double)), 2 * seen()) and not torch.equal(seen((gates, double)), 2 * seen())
        assert not seen((ups, torch.zeros_like)).any()

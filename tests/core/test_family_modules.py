"""Tests that the table names a tensor's entries correctly, by changing them and observing the model.

Attention is a mean of values, weighted by the products of queries and keys. So without values its output is zero,
without keys the queries change nothing, without queries the keys change nothing. A gated MLP is linear in the
entries
of kind "MLP up", and not in those of kind "MLP gate".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

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
from skillviz.core.parameters import Parameter, ParameterTable, graftable, head_numbers, heads_of_kind
from tests.tiers import first
from tests.tiny import tiny_rows, tiny_tokenizer
from tests.tiny_families import family_model

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
PLAIN = {
    "persimmon": {"qk_layernorm": False},
    "deberta": {"relative_attention": False},
    "deberta-v2": {"relative_attention": False},
}


@cache
def built(family: str) -> tuple[Any, ParameterTable]:
    """Return a tiny model and its table; callers must restore any change."""
    model = family_model(family, **PLAIN.get(family, {}))
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    return model, graftable(family, shapes, model.config.to_dict())


@cache
def words() -> dict[str, Tensor]:
    """Return two sentences of the same length."""
    tokenizer = tiny_tokenizer("roberta")
    ids = [tokenizer(row["text"])["input_ids"][:8] for row in tiny_rows(2, seed=3)]
    ids = [row[:7] + [2] for row in ids]
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
    model: Any, *changes: tuple[list[tuple[Parameter, np.ndarray]], Callable[[Tensor], Tensor]]
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


def other(values: Tensor) -> Tensor:
    return torch.randn(values.shape, generator=torch.Generator().manual_seed(7))


def double(values: Tensor) -> Tensor:
    return 2 * values


def taken_in(model: Any, table: ParameterTable, layer: int, kind: str) -> Tensor:
    """Return the input of the layer's module of this kind in one pass."""
    name = next(p.name for p in table.parameters if p.layer == layer and p.kinds == (kind,) and not p.is_bias)
    return _hooked(model, name.rpartition(".")[0], lambda inputs, output: inputs[0])


def put_out(model: Any, table: ParameterTable, layer: int, kind: str) -> Tensor:
    """Return the output of the module that holds the layer's experts."""
    name = next(p.name for p in table.parameters if p.layer == layer and kind in p.kinds).rpartition(".")[0]
    return _hooked(model, name.removesuffix(".input_linear"), lambda _, out: out[0] if isinstance(out, tuple) else out)


@torch.no_grad()
def _hooked(model: Any, name: str, value: Callable[[Any, Any], Tensor]) -> Tensor:
    """Return a value of a module's inputs and output in one pass, [token, width]; a shared layer's first use."""
    seen: list[Tensor] = []
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
    """Return the kinds of each attention that the family has."""
    return [four for four in (SELF, CROSS) if set(four) <= kinds_of(table)]


@pytest.mark.cases(8, 6)
@pytest.mark.parametrize("family", first(FAMILIES, USUAL.__contains__, lambda family: False))
def test_attention_does_with_each_part_what_its_name_says(family: str) -> None:
    model, table = built(family)
    assert attentions(table) or family in NO_ATTENTION | OTHER_ATTENTION
    for query, key, value, output in attentions(table) if family not in OTHER_ATTENTION else ():
        layer = layer_of(table, query)
        q, k, v = (parts(table, layer, kind) for kind in (query, key, value))

        def seen(*changes: Any, layer: int = layer, output: str = output) -> Tensor:
            with changed(model, *changes):
                return taken_in(model, table, layer, output)

        assert not seen((v, torch.zeros_like)).any(), "an entry of the value is missing"
        for one, two in ((k, q), (q, k)):
            without = seen((one, torch.zeros_like))
            assert torch.equal(without, seen((one, torch.zeros_like), (two, other))), "an entry is of another part"
        assert not any(torch.equal(seen((part, other)), seen()) for part in (q, k, v)), "a part has no effect"
        both = parts(table, layer, KEY_AND_VALUE)
        assert not both or not seen((both, torch.zeros_like)).any()


@pytest.mark.cases(8, 5)
@pytest.mark.parametrize("family", first(FAMILIES, USUAL.__contains__, lambda family: False))
def test_a_head_is_what_changes_with_its_part_of_query_key_and_value(family: str) -> None:
    model, table = built(family)
    heads = table.heads or 0
    has_heads = table.head_axes and family not in NO_ATTENTION | OTHER_ATTENTION
    for query, key, value, output in attentions(table) if has_heads else ():
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

        def seen(*changes: Any, own: Any = own, look: Any = look, at: str = at, layer: int = layer) -> Tensor:
            with changed(model, ([(p, np.arange(p.size)) for p in own], torch.zeros_like), *changes):
                return look(model, table, layer, at)

        if family == "gpt_oss":  # (up + 1) * gate * sigmoid(...)
            assert not seen((gates, torch.zeros_like)).any() and seen((ups, torch.zeros_like)).any()
            continue
        assert torch.equal(seen((ups, double)), 2 * seen()) and not torch.equal(seen((gates, double)), 2 * seen())
        assert not seen((ups, torch.zeros_like)).any()

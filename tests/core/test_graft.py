"""Tests that a graft is exact to the bit on the model, in its file and after removal."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from skillviz.core.flat import FlatModel
from skillviz.core.graft import Graft, complement, grafted
from skillviz.core.region import Region
from skillviz.errors import BadInput, CorruptFile, PairMismatch
from skillviz.layout import GRAFT
from tests.core.problems import model_of, table_of

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
HEAD = ("classifier.weight", "classifier.bias")


def pair(family: str = "bert", dtype: torch.dtype = torch.float32) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return a base model and the fine-tuned tensors, all of which differ."""
    base = model_of(family).to(dtype)
    draw = torch.Generator().manual_seed(1)
    tuned = {n: (p.detach() + torch.randn(p.shape, generator=draw).to(dtype)) for n, p in base.named_parameters()}
    return base, tuned


def some_region(model: nn.Module, share: float = 0.2) -> Region:
    table = table_of(model)
    entries = np.random.default_rng(0).choice(table.d, size=int(share * table.d), replace=False)
    return Region.from_flat(entries, table.shapes)


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    return copy.deepcopy(dict(model.state_dict()))


def same(model: nn.Module, tensors: dict[str, Tensor]) -> bool:
    return all(torch.equal(tensor, tensors[name]) for name, tensor in model.state_dict().items())


def expected(base: dict[str, Tensor], tuned: dict[str, Tensor], region: Region, heads: tuple[str, ...] = ()) -> dict:
    out = {name: tensor.clone() for name, tensor in base.items()}
    for name, indices in region.indices.items():
        for i in indices:
            out[name].view(-1)[int(i)] = tuned[name].reshape(-1)[int(i)]
    return out | {name: tuned[name] for name in heads}


@pytest.mark.parametrize(
    ("dtype", "stored"), [*zip(DTYPES, DTYPES, strict=True), (torch.float32, torch.bfloat16)], ids=str
)
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_apply_copies_the_region_and_the_head_and_nothing_else(
    family: str, dtype: torch.dtype, stored: torch.dtype
) -> None:
    """Values of a narrower fine-tuned model are widened exactly, not rounded."""
    model, tuned = pair(family, dtype)
    tuned, region = {name: tensor.to(stored) for name, tensor in tuned.items()}, some_region(model)
    head = {name: tuned[name] for name in (HEAD if family == "bert" else ("score.weight",))}
    wanted = expected(snapshot(model), {n: t.to(dtype) for n, t in tuned.items()}, region, tuple(head))
    Graft.of(region, tuned, head).apply(model)
    assert same(model, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_file_and_back(tmp_path: Path, dtype: torch.dtype) -> None:
    model, tuned = pair(dtype=dtype)
    region, path = some_region(model), tmp_path / "graft.safetensors"
    header = {"task": "tiny", "labels": ["ä", "b"], "metrics": {"accuracy": 0.5}}
    graft = Graft.of(region, tuned, {name: tuned[name] for name in HEAD}, header)
    graft.save(path)
    loaded, stored, name = Graft.load(path), load_file(path), next(iter(region.indices))
    assert loaded.region == region and set(loaded.head) == set(HEAD)
    assert [n for n, v in graft.values.items() if v.dtype != dtype or not torch.equal(loaded.values[n], v)] == []
    assert (header | {"size": region.size, "d": region.d}).items() <= loaded.header.items()
    assert (stored[f"{name}.indices"].dtype, stored[f"{name}.values"].dtype) == (torch.int64, dtype)
    wanted = expected(snapshot(model), tuned, region, HEAD)
    loaded.apply(model)
    assert same(model, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ending", [Region.empty, Region.full])
def test_the_ends(tmp_path: Path, ending: Callable[..., Region], dtype: torch.dtype) -> None:
    model, tuned = pair(dtype=dtype)
    shapes, before = table_of(model).shapes, snapshot(model)
    Graft.of(ending(shapes), tuned).save(tmp_path / "g.safetensors")
    with grafted(model, Graft.load(tmp_path / "g.safetensors")):
        assert same(model, before | ({name: tuned[name] for name in shapes} if ending == Region.full else {}))
    assert same(model, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_leaving_restores_even_when_the_body_raises(dtype: torch.dtype) -> None:
    model, tuned = pair(dtype=dtype)
    before, graft = snapshot(model), Graft.of(some_region(model), tuned, {name: tuned[name] for name in HEAD})
    with pytest.raises(RuntimeError, match="planted"), grafted(model, graft):
        assert not same(model, before)
        raise RuntimeError("planted")
    assert same(model, before)
    with grafted(model, graft), grafted(model, graft):
        assert not same(model, before)
    assert same(model, before)


def test_a_flat_model_is_grafted_and_restored_alike() -> None:
    model, tuned = pair()
    flat, region = FlatModel(model, table_of(model)), some_region(model)
    base = flat.theta.clone()
    with grafted(model, Graft.of(region, tuned)):
        changed = (flat.theta != base).nonzero().squeeze(1)
        assert torch.equal(changed, torch.from_numpy(region.flat()))
        assert torch.equal(flat.theta[changed], flat.gather(tuned)[changed])
    assert torch.equal(flat.theta, base)


def test_the_complement_is_the_fine_tuned_model_without_the_region() -> None:
    model, tuned = pair()
    base, region, names = snapshot(model), some_region(model), table_of(model).names
    model.load_state_dict(tuned, strict=False)
    tuned_state = snapshot(model)
    there = expected(tuned_state, base, region)
    with grafted(model, complement(region, base)):
        assert same(model, there)
    assert same(model, tuned_state)
    model.load_state_dict(base)
    with grafted(model, Graft.of(region.complement(), tuned)):
        assert [name for name in names if not torch.equal(model.state_dict()[name], there[name])] == []


def test_tied_weights_outside_the_region_stay_tied() -> None:
    model = model_of("gpt2", "causal")
    Graft.of(some_region(model), {name: p.detach() + 1 for name, p in model.named_parameters()}).apply(model)
    assert model.lm_head.weight is model.transformer.wte.weight  # type: ignore[union-attr]


def refused_and_left_as_it_was(graft: Graft, model: nn.Module) -> None:
    """Check that the graft is refused with the model unchanged, also as a context."""
    before = snapshot(model)
    for put_on in (graft.apply, lambda model: grafted(model, graft).__enter__()):
        with pytest.raises(PairMismatch):
            put_on(model)
        assert same(model, before), "a graft that does not fit was put on in part"


@pytest.mark.parametrize("change", ["missing", "transposed", "head"])
def test_another_model_is_refused_and_left_as_it_was(change: str) -> None:
    model, tuned = pair()
    heads = {"classifier.weight": torch.zeros(5, 16)} if change == "head" else {name: tuned[name] for name in HEAD}
    graft = Graft.of(some_region(model), tuned, heads)
    last = model.bert.encoder.layer[1].output  # type: ignore[union-attr]
    if change == "missing":
        del last.dense
    elif change == "transposed":
        last.dense = nn.Linear(last.dense.out_features, last.dense.in_features)
    refused_and_left_as_it_was(graft, model)


@pytest.mark.parametrize("name", ["gpt_neox.embed_in.weight", "gpt_neox.layers.0.input_layernorm.weight"])
def test_rows_that_do_not_fit_leave_the_model_as_it_was(name: str) -> None:
    """There are rows of the embeddings alone, without those of the separate output matrix, or of another tensor."""
    model = model_of("gpt_neox", "causal")
    values = model.get_parameter(name)
    header = {"vocabulary": {"rows": len(values), "numbers": [len(values), len(values) + 1]}}
    rows = {name: torch.ones(2, *values.shape[1:])}
    refused_and_left_as_it_was(Graft(Region.empty(table_of(model).shapes), {}, {}, header, rows), model)


def test_a_file_cut_short_is_told(tmp_path: Path) -> None:
    (model, tuned), path = pair(), tmp_path / "graft.safetensors"
    Graft.of(some_region(model), tuned).save(path)
    whole = path.read_bytes()
    for cut in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(CorruptFile):
            Graft.load(path)
    with pytest.raises(BadInput, match="no graft file"):
        Graft.load(tmp_path / "absent.safetensors")


VOCABULARY = {"rows": 9, "numbers": [9, 10]}
HEADER = {
    "format": "skillviz.graft", "layout": GRAFT, "size": 3, "d": 9, "shapes": {"w": [3, 3]}, "vocabulary": VOCABULARY,
}  # fmt: skip
TENSORS = {
    "w.indices": torch.tensor([1, 4, 8]), "w.values": torch.ones(3), "head.h": torch.ones(2),
    "rows.e": torch.ones(2, 3), "rows.b": torch.ones(2),
}  # fmt: skip
NUMBERS = {name: f"the values of '{name.removesuffix('.values')[-1]}' are" for name in ("w.values", "head.h", "rows.e")}
FOUR_KINDS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
OTHER_KINDS = (torch.int64, torch.bool, torch.uint8, torch.complex64, torch.float8_e4m3fn)
STRANGE_HEADERS: list[dict[str, Any]] = [
    *({"d": value} for value in (1, -9, "x", True, 9.0, float("inf"), None)),
    *({"size": value} for value in (4, True, 3.0, "3", None, float("inf"))),
    *({"shapes": {"w": value}} for value in ([3.5, 3], [9.0], [-3, -3], "ab", [True, 9], ["9"])),
    *({"vocabulary": VOCABULARY | {"rows": value}} for value in (True, 9.5, "9", -1)),
    *(
        {"vocabulary": VOCABULARY | {"numbers": numbers}}
        for numbers in ([9], [10, 9], [9, 9], [9, 2**60], [3, 10], [9, 10.0], [-1, 9], "ab", None)
    ),
    {"vocabulary": None}, {"shapes": None}, {"format": None}, {"format": "other"},
]  # fmt: skip
STRANGE_TENSORS: list[tuple[str, dict[str, Tensor | None]]] = [
    ("graft", {"w.values": None}),
    *(("graft", {"w.values": torch.tensor(values)}) for values in ([1.0], 1.0)),
    *(("graft", {"w.indices": torch.tensor(wrong)}) for wrong in ([4, 1, 8], [1, 1, 8], [1, 4, 9])),
    *(("graft", {"rows.e": rows}) for rows in (torch.tensor(1.0), torch.ones(0, 3))),
    ("graft", {"rows.b": torch.ones(3)}),
    *((words, {name: TENSORS[name].to(dtype)}) for name, words in NUMBERS.items() for dtype in OTHER_KINDS),
    *(
        (words, {name: TENSORS[name] * value})
        for name, words in NUMBERS.items()
        for value in (math.nan, math.inf, -math.inf)
    ),
]


def opened(folder: Path, header: dict[str, Any], tensors: dict[str, Tensor | None]) -> Graft:
    """Return the graft of a file with these changes to its header and its tensors; None leaves a tensor out."""
    whole = {name: tensor for name, tensor in (TENSORS | tensors).items() if tensor is not None}
    save_file(whole, folder / "graft.safetensors", {"skillviz": json.dumps(HEADER | header)})
    return Graft.load(folder / "graft.safetensors")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("dtype", FOUR_KINDS)
def test_numbers_of_four_kinds_are_opened(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    graft = opened(tmp_path, {}, {name: TENSORS[name].to(dtype)})
    assert graft.region.size == 3 and len(graft.rows) == 2


@pytest.mark.parametrize(
    ("words", "header", "tensors"),
    [
        *((r"export (it|the graft) again|is not a graft file", header, {}) for header in STRANGE_HEADERS),
        *((where, {}, tensors) for where, tensors in STRANGE_TENSORS),
    ],
    ids=str,
)
def test_a_header_that_lies_and_tensors_that_cannot_be_are_told(
    tmp_path: Path, words: str, header: dict[str, Any], tensors: dict[str, Tensor | None]
) -> None:
    with pytest.raises(CorruptFile, match=words):
        opened(tmp_path, header, tensors)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_cannot_be_opened_is_not_written(value: float, tmp_path: Path) -> None:
    region = Region({"w": np.array([1])}, {"w": (4,)})
    with pytest.raises(BadInput, match="the values of 'w' are not all finite; fine-tune the model again"):
        Graft(region, {"w": torch.tensor([value])}).save(tmp_path / "graft.safetensors")
    assert not list(tmp_path.iterdir())

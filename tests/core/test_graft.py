"""Tests that a graft is exact to the bit on the model, in its file and after removal."""

from __future__ import annotations

import copy
import json
from pathlib import Path

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
    shapes = table_of(model).shapes
    d = Region.full(shapes).d
    return Region.from_flat(np.random.default_rng(0).choice(d, size=int(share * d), replace=False), shapes)


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    return copy.deepcopy(dict(model.state_dict()))


def same(model: nn.Module, tensors: dict[str, Tensor]) -> bool:
    return all(torch.equal(tensor, tensors[name]) for name, tensor in model.state_dict().items())


def expected(base: dict[str, Tensor], tuned: dict[str, Tensor], region: Region, heads: tuple[str, ...] = ()) -> dict:
    """Compute the result of a graft, one entry at a time."""
    out = {name: tensor.clone() for name, tensor in base.items()}
    for name, indices in region.indices.items():
        for i in indices:
            out[name].view(-1)[int(i)] = tuned[name].reshape(-1)[int(i)]
    return out | {name: tuned[name] for name in heads}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_apply_copies_the_region_and_the_head_and_nothing_else(family: str, dtype: torch.dtype) -> None:
    model, tuned = pair(family, dtype)
    heads = HEAD if family == "bert" else ("score.weight",)
    region = some_region(model)
    wanted = expected(snapshot(model), tuned, region, heads)
    Graft.of(region, tuned, {name: tuned[name] for name in heads}).apply(model)
    assert same(model, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_file_and_back(tmp_path: Path, dtype: torch.dtype) -> None:
    model, tuned = pair(dtype=dtype)
    region, path = some_region(model), tmp_path / "graft.safetensors"
    header = {"task": "tiny", "labels": ["ä", "b"], "metrics": {"accuracy": 0.5}}
    graft = Graft.of(region, tuned, {name: tuned[name] for name in HEAD}, header)
    graft.save(path)
    loaded = Graft.load(path)
    assert loaded.region == region and set(loaded.head) == set(HEAD)
    assert all(torch.equal(loaded.values[n], v) and v.dtype == dtype for n, v in graft.values.items())
    assert {k: loaded.header[k] for k in header} == header
    assert (loaded.header["size"], loaded.header["d"]) == (region.size, region.d)
    wanted = expected(snapshot(model), tuned, region, HEAD)
    loaded.apply(model)
    assert same(model, wanted)
    stored = load_file(path)
    name = next(iter(region.indices))
    assert stored[f"{name}.indices"].dtype == torch.int64 and stored[f"{name}.values"].dtype == dtype


def test_narrow_values_widen_exactly(tmp_path: Path) -> None:
    """With a float32 base and a bfloat16 fine-tuned model, the graft's values are not rounded."""
    model, tuned = pair()
    narrow = {name: tensor.bfloat16() for name, tensor in tuned.items()}
    region = some_region(model)
    wanted = expected(snapshot(model), {n: t.float() for n, t in narrow.items()}, region)
    Graft.of(region, narrow).apply(model)
    assert same(model, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ending", ["empty", "full"])
def test_the_ends(tmp_path: Path, ending: str, dtype: torch.dtype) -> None:
    model, tuned = pair(dtype=dtype)
    shapes, before = table_of(model).shapes, snapshot(model)
    region = Region.empty(shapes) if ending == "empty" else Region.full(shapes)
    Graft.of(region, tuned).save(tmp_path / "g.safetensors")
    with grafted(model, Graft.load(tmp_path / "g.safetensors")):
        for name, tensor in model.state_dict().items():
            inside = ending == "full" and name in shapes
            assert torch.equal(tensor, tuned[name] if inside else before[name]), name
    assert same(model, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_leaving_restores_even_when_the_body_raises(dtype: torch.dtype) -> None:
    model, tuned = pair(dtype=dtype)
    before = snapshot(model)
    graft = Graft.of(some_region(model), tuned, {name: tuned[name] for name in HEAD})
    with pytest.raises(RuntimeError, match="planted"), grafted(model, graft):
        assert not same(model, before)
        raise RuntimeError("planted")
    assert same(model, before)
    with grafted(model, graft), grafted(model, graft):
        pass
    assert same(model, before)


def test_a_flat_model_is_grafted_and_restored_alike() -> None:
    model, tuned = pair()
    flat = FlatModel(model, table_of(model))
    base, region = flat.theta.clone(), some_region(model)
    with grafted(model, Graft.of(region, tuned)):
        there = flat.theta.clone()
    changed = (there != base).nonzero().squeeze(1)
    assert torch.equal(changed, torch.from_numpy(region.flat()))
    assert torch.equal(there[changed], flat.gather(tuned)[changed]) and torch.equal(flat.theta, base)


def test_the_complement_is_the_fine_tuned_model_without_the_region() -> None:
    model, tuned = pair()
    base, region = snapshot(model), some_region(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tuned[name])
    tuned_state = snapshot(model)
    with grafted(model, complement(region, base)):
        assert same(model, expected(tuned_state, base, region))
        outside = Graft.of(region.complement(), tuned)
        there = snapshot(model)
    assert same(model, tuned_state)
    with torch.no_grad():
        for name in table_of(model).names:
            model.get_parameter(name).copy_(base[name])
    with grafted(model, outside):
        assert all(torch.equal(model.state_dict()[n], there[n]) for n in table_of(model).names)


def test_tied_weights_outside_the_region_stay_tied() -> None:
    model = model_of("gpt2", "causal")
    tuned = {name: p.detach() + 1 for name, p in model.named_parameters()}
    Graft.of(some_region(model), tuned).apply(model)
    assert model.lm_head.weight is model.transformer.wte.weight  # type: ignore[union-attr]


@pytest.mark.parametrize("change", ["missing", "transposed", "head"])
def test_another_model_is_refused_and_left_as_it_was(change: str) -> None:
    model, tuned = pair()
    heads = {name: tuned[name] for name in HEAD}
    if change == "head":
        heads = {"classifier.weight": torch.zeros(5, 16)}
    graft = Graft.of(some_region(model), tuned, heads)
    last = model.bert.encoder.layer[1].output  # type: ignore[union-attr]
    if change == "missing":
        del last.dense
    elif change == "transposed":
        last.dense = nn.Linear(last.dense.out_features, last.dense.in_features)
    before = snapshot(model)
    with pytest.raises(PairMismatch):
        graft.apply(model)
    assert same(model, before), "a graft that does not fit was put on in part"
    with pytest.raises(PairMismatch), grafted(model, graft):
        pass
    assert same(model, before)


@pytest.mark.parametrize("change", ["other", "missing"])
def test_rows_that_do_not_fit_leave_the_model_as_it_was(change: str) -> None:
    model = model_of("gpt_neox", "causal")  # it has a separate output matrix
    size, width = model.get_input_embeddings().weight.shape  # type: ignore[operator, union-attr, misc]
    rows = {name: torch.ones(2, width) for name in ("gpt_neox.embed_in.weight", "lm_head.weight")}
    other = "gpt_neox.layers.0.input_layernorm.weight"
    if change == "missing":
        del rows["lm_head.weight"]
    else:
        rows = {other: torch.ones(2)}
    before = len(model.get_parameter(other)) if change == "other" else size
    header = {"vocabulary": {"rows": before, "numbers": [before, before + 1]}}
    graft = Graft(Region.empty(table_of(model).shapes), {}, {}, header, rows)
    state = snapshot(model)
    with pytest.raises(PairMismatch):
        graft.apply(model)
    assert len(model.state_dict()["lm_head.weight"]) == size and same(model, state)


@pytest.mark.parametrize(
    ("has_numbers", "rows"),
    [
        (False, {"e": torch.ones(2, 3)}),
        (True, {"e": torch.tensor(1.0)}),
        (True, {"e": torch.ones(0, 3)}),
        (True, {"e": torch.ones(2, 3), "b": torch.ones(3)}),
    ],
)
def test_a_file_with_wrong_rows_of_added_tokens_is_told(
    tmp_path: Path, has_numbers: bool, rows: dict[str, Tensor]
) -> None:
    path, shapes = tmp_path / "graft.safetensors", {"w": (3, 3)}
    header = {"format": "skillviz.graft", "layout": GRAFT, "size": 0, "d": 9, "shapes": shapes}

    def write(has_numbers: bool, rows: dict[str, Tensor]) -> None:
        tensors = {f"rows.{name}": tensor for name, tensor in rows.items()}
        more = {"vocabulary": {"rows": 9, "numbers": [9, 10]}} if has_numbers else {}
        save_file(tensors, path, {"skillviz": json.dumps({**header, **more})})

    write(True, {"e": torch.ones(2, 3), "b": torch.ones(2)})
    assert len(Graft.load(path).rows) == 2
    write(has_numbers, rows)
    with pytest.raises(CorruptFile, match="is not a valid graft file"):
        Graft.load(path)


def test_a_file_cut_short_is_told(tmp_path: Path) -> None:
    model, tuned = pair()
    path = tmp_path / "graft.safetensors"
    Graft.of(some_region(model), tuned).save(path)
    whole = path.read_bytes()
    for cut in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(CorruptFile):
            Graft.load(path)
    with pytest.raises(BadInput, match="no graft file"):
        Graft.load(tmp_path / "absent.safetensors")


HEADER = {"format": "skillviz.graft", "layout": GRAFT, "size": 3, "d": 9, "shapes": {"w": [3, 3]}}
NOT_WHOLE = [1, -9, "x", True, 9.0, float("inf"), None]


@pytest.mark.parametrize(
    "strange",
    [
        *({"d": value} for value in NOT_WHOLE),
        *({"size": value} for value in (True, 3.0, "3")),
        *({"shapes": {"w": value}} for value in ([3.5, 3], [9.0], [-3, -3], "ab", [True, 9], ["9"])),
        *({"vocabulary": {"rows": value, "numbers": [9, 10]}} for value in (True, 9.5, "9", -1)),
        *(
            {"vocabulary": {"rows": 9, "numbers": numbers}}
            for numbers in ([9], [10, 9], [9, 9], [9, 2**60], [3, 10], [9, 10.0], [-1, 9], "ab", None)
        ),
    ],
    ids=str,
)
def test_numbers_of_a_header_are_whole(tmp_path: Path, strange: dict[str, object]) -> None:
    path = tmp_path / "graft.safetensors"
    tensors = {"w.indices": torch.tensor([1, 4, 8]), "w.values": torch.tensor([1.0, 2.0, 3.0])}
    rows = {"rows.e": torch.ones(2, 3)} if "vocabulary" in strange else {}
    save_file(tensors, path, {"skillviz": json.dumps(HEADER)})
    assert Graft.load(path).region.size == 3
    save_file(tensors | rows, path, {"skillviz": json.dumps({**HEADER, **strange})})
    with pytest.raises(CorruptFile, match="export it again|export the graft again"):
        Graft.load(path)


@pytest.mark.parametrize("where", ["w.values", "head.h", "rows.e"])
@pytest.mark.parametrize(
    "strange",
    [
        torch.int64,
        torch.bool,
        torch.uint8,
        torch.complex64,
        torch.float8_e4m3fn,
        float("nan"),
        float("inf"),
        -float("inf"),
    ],
    ids=str,
)
def test_values_are_finite_numbers_of_four_kinds(tmp_path: Path, where: str, strange: torch.dtype | float) -> None:
    path = tmp_path / "graft.safetensors"
    header = {**HEADER, "vocabulary": {"rows": 9, "numbers": [9, 10]}}
    tensors = {
        "w.indices": torch.tensor([1, 4, 8]), "w.values": torch.ones(3),
        "head.h": torch.ones(2), "rows.e": torch.ones(2, 3),
    }  # fmt: skip
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        save_file({**tensors, where: tensors[where].to(dtype)}, path, {"skillviz": json.dumps(header)})
        Graft.load(path)
    if isinstance(strange, float):
        tensors[where].view(-1)[-1] = strange
    else:
        tensors[where] = tensors[where].to(strange)
    save_file(tensors, path, {"skillviz": json.dumps(header)})
    with pytest.raises(CorruptFile, match=f"the values of '{where.removesuffix('.values')[-1]}' are"):
        Graft.load(path)


@pytest.mark.parametrize(
    "change",
    [
        "size",
        "d",
        "shapes",
        "values",
        "order",
        "twice",
        "outside",
        "format",
        "short",
        "scalar",
        "endless",
        "rows",
    ],
)
def test_a_file_that_lies_is_told(tmp_path: Path, change: str) -> None:
    header = dict(HEADER)
    tensors = {"w.indices": torch.tensor([1, 4, 8]), "w.values": torch.tensor([1.0, 2.0, 3.0])}
    path = tmp_path / "graft.safetensors"
    save_file(tensors, path, {"skillviz": json.dumps(header)})
    assert Graft.load(path).region.size == 3
    if change in ("size", "d", "shapes", "format"):
        header |= {"size": 4} if change == "size" else {change: None}
    elif change == "endless":
        header["size"] = float("inf")
    elif change == "rows":  # rows of added tokens, without their ids
        tensors["rows.e"] = torch.ones(2, 3)
    elif change == "values":
        del tensors["w.values"]
    elif change == "short":
        tensors["w.values"] = torch.tensor([1.0])
    elif change == "scalar":
        tensors["w.values"] = torch.tensor(1.0)
    else:
        wrong = {"order": [4, 1, 8], "twice": [1, 1, 8], "outside": [1, 4, 9]}[change]
        tensors["w.indices"] = torch.tensor(wrong)
    save_file(tensors, path, {"skillviz": json.dumps(header)})
    with pytest.raises(CorruptFile):
        Graft.load(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_cannot_be_opened_is_not_written(value: float, tmp_path: Path) -> None:
    region = Region({"w": np.array([1])}, {"w": (4,)})
    with pytest.raises(BadInput, match="the values of 'w' are not all finite; fine-tune the model again"):
        Graft(region, {"w": torch.tensor([value])}).save(tmp_path / "graft.safetensors")
    assert not list(tmp_path.iterdir())

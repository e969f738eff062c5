"""Tests that a graft is exact to the bit on the model, in its file and after removal; and of regions: their algebra
against Python sets, their files, packed or not, and files that must be refused."""

import copy
import json
from collections.abc import Callable
from itertools import pairwise
from math import inf, nan, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import numpy as of_arrays
from safetensors.torch import load_file, save_file

from skillviz.core.flat import FlatModel
from skillviz.core.graft import Graft, complement, grafted
from skillviz.core.region import Region, index_dtype, packed, unpacked
from skillviz.errors import BadInput, CorruptFile, PairMismatch
from skillviz.layout import GRAFT
from tests.core.by_hand import by_hand, near, refused, refuses
from tests.core.problems import model_of, table_of

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
HEAD = ("classifier.weight", "classifier.bias")


def pair(family: str = "bert", dtype: torch.dtype = torch.float32) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """Return a base model and the fine-tuned tensors, all of which differ."""
    base = model_of(family).to(dtype)
    draw = torch.Generator().manual_seed(1)
    return base, {n: (p.detach() + torch.randn(p.shape, generator=draw).to(dtype)) for n, p in base.named_parameters()}


def some_region(model: torch.nn.Module, share: float = 0.2) -> Region:
    table = table_of(model)
    return Region.from_flat(
        np.random.default_rng(0).choice(table.d, size=int(share * table.d), replace=False), table.shapes
    )


def snapshot(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return copy.deepcopy(dict(model.state_dict()))


def same(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, tensors[name]) for name, tensor in model.state_dict().items())


def expected(
    base: dict[str, torch.Tensor], tuned: dict[str, torch.Tensor], region: Region, heads: tuple[str, ...] = ()
) -> dict:
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


def refused_and_left_as_it_was(graft: Graft, model: torch.nn.Module) -> None:
    """Check that the graft is refused with the model unchanged, also as a context."""
    before = snapshot(model)
    for put_on in (graft.apply, lambda model: grafted(model, graft).__enter__()):
        refuses(PairMismatch, None, put_on, model)
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
        last.dense = torch.nn.Linear(last.dense.out_features, last.dense.in_features)
    refused_and_left_as_it_was(graft, model)


@pytest.mark.parametrize("name", ["gpt_neox.embed_in.weight", "gpt_neox.layers.0.input_layernorm.weight"])
def test_rows_that_do_not_fit_leave_the_model_as_it_was(name: str) -> None:
    """There are rows of the embeddings alone, without those of the separate output matrix, or of another tensor."""
    model = model_of("gpt_neox", "causal")
    values = model.get_parameter(name)
    header = {"vocabulary": {"rows": len(values), "numbers": [len(values), len(values) + 1]}}
    refused_and_left_as_it_was(
        Graft(Region.empty(table_of(model).shapes), {}, {}, header, {name: torch.ones(2, *values.shape[1:])}), model
    )


VOCABULARY = {"rows": 9, "numbers": [9, 10]}
HEADER = {
    "format": "skillviz.graft", "layout": GRAFT, "size": 3, "d": 9, "shapes": {"w": [3, 3]}, "vocabulary": VOCABULARY,
}  # fmt: skip
TENSORS = {
    "w.indices": torch.tensor([1, 4, 8]), "w.values": torch.ones(3), "head.h": torch.ones(2),
    "rows.e": torch.ones(2, 3), "rows.b": torch.ones(2),
}  # fmt: skip
NUMBERS = {name: f"the values of '{name.removesuffix('.values')[-1]}' are" for name in ("w.values", "head.h", "rows.e")}
STRANGE_HEADERS: list[dict[str, Any]] = [
    *({"d": value} for value in (1, -9, "x", True, 9.0, inf, None)),
    *({"size": value} for value in (4, True, 3.0, "3", None, inf)),
    *({"shapes": {"w": value}} for value in ([3.5, 3], [9.0], [-3, -3], "ab", [True, 9], ["9"])),
    *({"vocabulary": VOCABULARY | {"rows": value}} for value in (True, 9.5, "9", -1)),
    *(
        {"vocabulary": VOCABULARY | {"numbers": numbers}}
        for numbers in ([9], [10, 9], [9, 9], [9, 2**60], [3, 10], [9, 10.0], [-1, 9], "ab", None)
    ),
    {"vocabulary": None}, {"shapes": None}, {"format": None}, {"format": "other"},
]  # fmt: skip
STRANGE_TENSORS: list[tuple[str, dict[str, torch.Tensor | None]]] = [
    ("graft", {"w.values": None}),
    *(("graft", {"w.values": torch.tensor(values)}) for values in ([1.0], 1.0)),
    *(("graft", {"w.indices": torch.tensor(wrong)}) for wrong in ([4, 1, 8], [1, 1, 8], [1, 4, 9])),
    *(("graft", {"rows.e": rows}) for rows in (torch.tensor(1.0), torch.ones(0, 3))),
    ("graft", {"rows.b": torch.ones(3)}),
    *(
        (words, {name: TENSORS[name].to(dtype)})
        for name, words in NUMBERS.items()
        for dtype in (torch.int64, torch.bool, torch.uint8, torch.complex64, torch.float8_e4m3fn)
    ),
    *((words, {name: TENSORS[name] * value}) for name, words in NUMBERS.items() for value in (nan, inf, -inf)),
]


def opened(folder: Path, header: dict[str, Any], tensors: dict[str, torch.Tensor | None]) -> Graft:
    """Return the graft of a file with these changes to its header and its tensors; None leaves a tensor out."""
    whole = {name: tensor for name, tensor in (TENSORS | tensors).items() if tensor is not None}
    save_file(whole, folder / "graft.safetensors", {"skillviz": json.dumps(HEADER | header)})
    return Graft.load(folder / "graft.safetensors")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32, torch.float64))
def test_numbers_of_four_kinds_are_opened(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    graft = opened(tmp_path, {}, {name: TENSORS[name].to(dtype)})
    assert (graft.region.size, len(graft.rows)) == (3, 2)


@pytest.mark.parametrize(
    ("words", "header", "tensors"),
    [
        *((r"export (it|the graft) again|is not a graft file", header, {}) for header in STRANGE_HEADERS),
        *((where, {}, tensors) for where, tensors in STRANGE_TENSORS),
    ],
    ids=str,
)
def test_a_header_that_lies_and_tensors_that_cannot_be_are_told(
    tmp_path: Path, words: str, header: dict[str, Any], tensors: dict[str, torch.Tensor | None]
) -> None:
    refuses(CorruptFile, words, opened, tmp_path, header, tensors)


@pytest.mark.parametrize("value", [nan, inf])
def test_what_cannot_be_opened_is_not_written(value: float, tmp_path: Path) -> None:
    refuses(
        BadInput,
        "the values of 'w' are not all finite; fine-tune the model again",
        Graft(Region({"w": np.array([1])}, {"w": (4,)}), {"w": torch.tensor([value])}).save,
        tmp_path / "graft.safetensors",
    )
    assert not list(tmp_path.iterdir())


SHAPES, D = {"a": (3, 4), "b": (5,), "c": (2, 2, 3), "empty": (1,)}, 30
flats = st.sets(st.integers(0, D - 1))


def region_of(entries: set[int]) -> Region:
    return Region.from_flat(np.array(sorted(entries), dtype=np.int64), SHAPES)


PLACES = [(name, i) for name, shape in SHAPES.items() for i in range(prod(shape))]
"""Each global entry as its name and position."""


@settings(max_examples=60, deadline=None)
@given(flats, flats)
def test_algebra_is_that_of_sets(a: set[int], b: set[int]) -> None:
    left, right = region_of(a), region_of(b)
    found = [left, left | right, left & right, left - right, left.complement()]
    told = [
        (region.size, len(region), {(name, int(i)) for name, indices in region.indices.items() for i in indices})
        for region in found
    ]
    wanted = [a, a | b, a & b, a - b, set(range(D)) - a]
    assert told == [(len(flat), len(flat), {PLACES[i] for i in flat}) for flat in wanted]
    assert (left == right) is (left.sha256() == right.sha256()) is (a == b)
    assert left | right == right | left == left.union(right) and left.difference(right) == left - right
    assert left & right == right & left == left.intersection(right)
    share, iou = len(a & b) / len(b) if b else nan, len(a & b) / len(a | b) if a | b else nan
    assert [left.overlap(right), left.iou(right), right.iou(left)] == near(share, iou, iou)


@settings(max_examples=40, deadline=None)
@given(flats)
def test_flat_and_back_and_mask_rows_and_columns(a: set[int]) -> None:
    region, twice = region_of(a), np.array([*a, *a], dtype=np.int64)[::-1]
    assert region.flat().tolist() == sorted(a) and region.flat().dtype == np.int64
    assert Region.from_flat(region.flat(), SHAPES) == Region.from_flat(twice, SHAPES) == region
    for name, shape in SHAPES.items():
        wanted = np.array([i in a for i, (other, _) in enumerate(PLACES) if other == name]).reshape(shape)
        table = wanted.reshape(shape[0] if len(shape) > 1 else 1, -1)
        found = [part.tolist() for part in (region.mask(name), region.rows(name), region.columns(name))]
        assert found == [wanted.tolist(), table.sum(axis=1).tolist(), table.sum(axis=0).tolist()]


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (ValueError, lambda region: region.indices["a"].__setitem__(0, 0)),
        (TypeError, lambda region: region.indices.__setitem__("b", np.array([1]))),
        (TypeError, lambda region: region.shapes.__setitem__("b", (9,))),
        (TypeError, hash),
    ],
    ids=["an index", "a parameter", "a shape", "hashed"],
)
def test_a_region_cannot_be_changed(error: type[Exception], change: Callable[[Region], object]) -> None:
    own = np.array([1, 2, 3])
    region = Region({"a": own}, SHAPES)
    own[0] = region.flat()[0] = 7
    refuses((error, AttributeError), None, change, region)
    assert region.indices["a"].tolist() == [1, 2, 3]


@settings(max_examples=15, deadline=None)
@given(flats, st.booleans())
def test_a_file_gives_the_region_back(tmp_path_factory: pytest.TempPathFactory, a: set[int], compact: bool) -> None:
    path, note = tmp_path_factory.mktemp("region") / "region.safetensors", {"localizer": "random", "note": "größer"}
    region_of(a).save(path, note, compact=compact)
    assert Region.load(path) == region_of(a) and Region.load(path).sha256() == region_of(a).sha256()
    assert {"size": len(a), "d": D, "version": 1 + compact, **note}.items() <= Region.header(path).items()


def test_indices_are_stored_no_wider_than_they_need_and_wide_ones_are_read(tmp_path: Path) -> None:
    region, path = region_of({0, 3, 14}), tmp_path / "region.safetensors"
    region.save(path)
    stored, header = of_arrays.load_file(path), {"skillviz": json.dumps(Region.header(path))}
    assert {array.dtype for array in stored.values()} == {np.dtype(np.int32)}
    of_arrays.save_file({name: array.astype(np.int64) for name, array in stored.items()}, path, header)
    assert Region.load(path) == region and Region.load(path).flat().dtype == np.int64


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"}, {"size": 4}, {"size": None}, {"size": inf}, {"shapes": None},
        {"shapes": {"a": [3, 4]}}, {"shapes": {"a": [1, 1], "b": [5]}}, {"shapes": [1]}, {"version": 3}, None,
    ],
    ids=str,
)  # fmt: skip
def test_a_header_that_lies_is_told(tmp_path: Path, change: dict[str, object] | None) -> None:
    shapes, path = {name: list(shape) for name, shape in SHAPES.items()}, tmp_path / "region"
    meta = {"format": "skillviz.region", "version": 1, "size": 3, "d": D, "shapes": shapes} | (change or {})
    of_arrays.save_file(
        {"a": np.array([2, 3]), "b": np.array([0])}, path, None if change is None else {"skillviz": json.dumps(meta)}
    )
    words = {"None": "no skillviz.region header", "{'version': 3}": "version 3"}
    refuses(CorruptFile, words.get(str(change)), Region.load, path)


def of_one(name: str, indices: list) -> Region:
    return Region({name: np.array(indices)}, SHAPES)


WHOLE, ALL = Region.full({"a": (70_000, 100_000), "b": (5,)}), region_of(set(range(D)))
EMPTY, FULL = Region.empty(SHAPES), Region.full(SHAPES)
MIXED = Region({"c": np.array([1]), "a": np.array([5, 2, 2]), "b": np.array([], dtype=np.int64)}, SHAPES)
test_by_hand = by_hand(
    # The indices of 7 billion entries would take 56 GB; each parameter's are made when they are read.
    ("a full region takes no memory", (7_000_000_005, 7_000_000_005, 2),
     lambda: (WHOLE.size, WHOLE.d, len(WHOLE.indices))),
    ("indices are made when read", [0, 1, 2, 3, 4], lambda: list(WHOLE.indices["b"])),
    ("and cannot be changed", False, lambda: WHOLE.indices["b"].flags.writeable),
    ("full is all", (ALL, True), lambda: (FULL, ALL == FULL)),
    ("an empty parameter", Region({"b": np.arange(5)}, {"none": (0,), "b": (5,)}),
     Region.full, {"none": (0,), "b": (5,)}),
    ("blocks of whole parameters", [list(range(*pair)) for pair in pairwise([0, 12, 17, 29, 30])],
     lambda: [list(block) for block in FULL.blocks(1)]),
    ("larger blocks", [17, 13], lambda: [len(block) for block in FULL.blocks(13)]),
    ("flat", list(range(D)), lambda: list(FULL.flat())),
    ("no blocks", [], lambda: list(EMPTY.blocks())),
    ("ends", [(0, 0.0, D), (D, 1.0, D)], lambda: [(one.size, one.share, one.d) for one in (EMPTY, FULL)]),
    ("complements", (EMPTY, FULL), lambda: (FULL.complement(), EMPTY.complement())),
    ("a text", f"Region(1 of {D} entries, {100 / D:.4g}%)", repr, region_of({3})),
    ("the model's order, without empty ones", [("a", [2, 5]), ("c", [1])],
     lambda: [(name, indices.tolist()) for name, indices in MIXED.indices.items()]),
    ("a hash knows the shapes", False,
     lambda: Region(MIXED.indices, {**SHAPES, "a": (4, 3)}).sha256() == MIXED.sha256()),
    *((f"the smallest form of {len(indices)} of {n}, number {number}", (dtype, nbytes, indices),
       lambda stored, n: (str(stored.dtype), stored.nbytes, unpacked(stored, n).tolist()),
       packed(np.array(indices, dtype=np.int64), n), n)
      for number, (indices, n, dtype, nbytes) in enumerate((
        ([0], 10, "uint8", 1),
        ([299, 600], 1000, "uint8", 4),
        ([0, 70_000], 100_000, "uint16", 6),
        (list(range(0, 64, 2)), 64, "int8", 8),
        ([], 64, "int32", 0),
        ([254], 10_000, "uint8", 1),
        ([255], 10_000, "uint8", 2),
        ([256], 10_000, "uint8", 2),
        ([65_534], 100_000, "uint16", 2),
        ([65_535], 100_000, "int32", 4),
        ([10, 66_000, 66_001], 100_000, "uint16", 8),
      ))),
    ("narrow and wide indices", [np.int32, np.int64], lambda: [index_dtype(2**31), index_dtype(2**31 + 1)]),
)  # fmt: skip


test_impossible_entries_are_refused = refused(
    BadInput,
    ("different architectures", lambda: Region.full(SHAPES) | Region.full({"a": (3, 4)})),
    *(("64 entries", unpacked, stored, 64) for stored in (np.zeros(8, np.float32), np.zeros(7, np.int8))),
    ("not a graftable parameter", of_one, "z", [0]),
    (r"0\.\.11", of_one, "a", [12]),
    (r"0\.\.11", of_one, "a", [-1]),
    ("vector of integers", of_one, "a", [0.5]),
    ("vector of integers", of_one, "a", [[1, 2]]),
    ("vector of integers", of_one, "a", [True]),
    *((None, Region.from_flat, np.array(flat), SHAPES) for flat in ([D], [-1], [0.5])),
)


@pytest.mark.parametrize(
    ("kind", "made"),
    [("graft", lambda: Graft.of(some_region(pair()[0]), pair()[1])), ("region", lambda: region_of({1, 2, 14}))],
    ids=["graft", "region"],
)
def test_a_file_cut_short_is_told(kind: str, made: Callable[[], Graft | Region], tmp_path: Path) -> None:
    one, path = made(), tmp_path / f"{kind}.safetensors"
    one.save(path)
    whole = path.read_bytes()
    for cut in (0, 4, 7, 20, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        refuses(CorruptFile, None, one.load, path)
    refuses(BadInput, f"no {kind} file", one.load, tmp_path / "absent.safetensors")


@given(st.integers(1, 5000), st.data())
def test_what_was_packed_comes_back(count: int, data: st.DataObject) -> None:
    indices = np.array(sorted(data.draw(st.sets(st.integers(0, count - 1), max_size=200))), dtype=np.int64)
    stored = packed(indices, count)
    found = unpacked(stored, count)
    assert found.dtype == np.int64 and np.array_equal(found, indices) and stored.nbytes <= 4 * len(indices)


def test_a_compact_file_is_the_same_region_in_fewer_bytes(tmp_path: Path) -> None:
    drawn, paths = np.random.default_rng(0).permutation(90_048)[:9000], (tmp_path / "plain", tmp_path / "small")
    region = Region.from_flat(np.sort(drawn), {"a": (300, 300), "b": (40,), "c": (8,)})
    for path, compact in zip(paths, (False, True), strict=True):
        region.save(path, compact=compact)
        assert Region.load(path) == region
    assert paths[1].stat().st_size < 0.4 * paths[0].stat().st_size

"""Tests of set algebra of regions against Python sets, and of region files that must be refused if inconsistent."""

from __future__ import annotations

import json
from math import isnan, prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from skillviz.core.region import Region, index_dtype
from skillviz.errors import BadInput, CorruptFile

SHAPES = {"a": (3, 4), "b": (5,), "c": (2, 2, 3), "empty": (1,)}
D = sum(prod(s) for s in SHAPES.values())
flats = st.sets(st.integers(0, D - 1))


def region_of(entries: set[int]) -> Region:
    return Region.from_flat(np.array(sorted(entries), dtype=np.int64), SHAPES)


def entries_of(region: Region) -> set[tuple[str, int]]:
    return {(name, int(i)) for name, indices in region.indices.items() for i in indices}


def named(flat: set[int]) -> set[tuple[str, int]]:
    """Return global entries as (name, position), counted by hand."""
    places = [(name, i) for name, shape in SHAPES.items() for i in range(prod(shape))]
    return {places[i] for i in flat}


@settings(max_examples=60, deadline=None)
@given(flats, flats)
def test_algebra_is_that_of_sets(a: set[int], b: set[int]) -> None:
    left, right = region_of(a), region_of(b)
    assert entries_of(left) == named(a)
    assert entries_of(left | right) == named(a | b)
    assert entries_of(left & right) == named(a & b)
    assert entries_of(left - right) == named(a - b)
    assert entries_of(left.complement()) == named(set(range(D)) - a)
    assert (left | right).size == len(a | b) and len(left) == len(a)
    assert (left == right) is (a == b)
    assert left | right == right | left and left & right == right & left
    assert (left | right).complement() == left.complement() & right.complement()


def test_the_full_region_takes_no_memory() -> None:
    """The indices of 7 billion entries would take 56 GB; each parameter's are made when they are read."""
    whole = Region.full({"a": (70_000, 100_000), "b": (5,)})
    assert whole.size == whole.d == 7_000_000_005 and len(whole.indices) == 2
    assert list(whole.indices["b"]) == [0, 1, 2, 3, 4] and not whole.indices["b"].flags.writeable
    assert Region.full(SHAPES) == region_of(set(range(D))) and region_of(set(range(D))) == Region.full(SHAPES)
    assert Region.full({"none": (0,), "b": (5,)}) == Region({"b": np.arange(5)}, {"none": (0,), "b": (5,)})


def test_blocks_are_the_flat_indices_in_whole_parameters() -> None:
    whole = Region.full(SHAPES)
    assert [list(block) for block in whole.blocks(1)] == [
        list(range(12)), list(range(12, 17)), list(range(17, 29)), [29],
    ]  # fmt: skip
    assert [len(block) for block in whole.blocks(13)] == [17, 13]
    assert list(whole.flat()) == list(range(D)) and list(Region.empty(SHAPES).blocks()) == []


@settings(max_examples=60, deadline=None)
@given(flats, flats)
def test_overlap_is_of_the_other_and_iou_is_symmetric(a: set[int], b: set[int]) -> None:
    left, right = region_of(a), region_of(b)
    if b:
        assert left.overlap(right) == len(a & b) / len(b)
        assert right.overlap(right) == 1
    else:
        assert isnan(left.overlap(right))
    if a | b:
        assert left.iou(right) == right.iou(left) == len(a & b) / len(a | b)
    else:
        assert isnan(left.iou(right))


@settings(max_examples=40, deadline=None)
@given(flats)
def test_flat_and_back(a: set[int]) -> None:
    region = region_of(a)
    assert region.flat().tolist() == sorted(a)
    assert region.flat().dtype == np.int64
    assert Region.from_flat(region.flat(), SHAPES) == region
    assert Region.from_flat(np.array(list(a) + list(a), dtype=np.int64)[::-1], SHAPES) == region


@settings(max_examples=40, deadline=None)
@given(flats)
def test_mask_rows_and_columns(a: set[int]) -> None:
    region = region_of(a)
    for name, shape in SHAPES.items():
        wanted = np.zeros(shape, dtype=bool)
        for other, i in named(a):
            if other == name:
                wanted[np.unravel_index(i, shape)] = True
        mask = region.mask(name)
        assert mask.shape == shape and np.array_equal(mask, wanted)
        table = wanted.reshape(shape[0] if len(shape) > 1 else 1, -1)
        assert region.rows(name).tolist() == [int(row.sum()) for row in table]
        assert region.columns(name).tolist() == [int(column.sum()) for column in table.T]


@given(flats, flats)
def test_equal_regions_have_one_hash_however_they_are_stored(a: set[int], b: set[int]) -> None:
    assert (region_of(a).sha256() == region_of(b).sha256()) == (a == b)


def test_a_hash_knows_the_shapes_and_not_the_file(tmp_path: Path) -> None:
    region = region_of({0, 13})
    region.save(tmp_path / "compact", {"run_id": "x"}, compact=True)
    assert Region.load(tmp_path / "compact").sha256() == region.sha256()
    turned = Region(region.indices, {**SHAPES, "a": (4, 3)})
    assert turned.sha256() != region.sha256()


def test_ends_and_shares() -> None:
    empty, full = Region.empty(SHAPES), Region.full(SHAPES)
    assert (empty.size, full.size, full.d) == (0, D, D)
    assert (empty.share, full.share) == (0.0, 1.0)
    assert full.complement() == empty and empty.complement() == full
    assert isnan(full.overlap(empty)) and empty.overlap(full) == 0
    assert repr(Region.from_flat(np.array([3]), SHAPES)) == f"Region(1 of {D} entries, {100 / D:.4g}%)"


def test_parameters_keep_the_models_order_and_empty_ones_are_left_out() -> None:
    region = Region({"c": np.array([1]), "a": np.array([5, 2, 2]), "b": np.array([], dtype=np.int64)}, SHAPES)
    assert list(region.indices) == ["a", "c"]
    assert region.indices["a"].tolist() == [2, 5]


def test_a_region_cannot_be_changed() -> None:
    own = np.array([1, 2, 3])
    region = Region({"a": own}, SHAPES)
    own[0] = 7
    assert region.indices["a"].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        region.indices["a"][0] = 0
    with pytest.raises(TypeError):
        region.indices["b"] = own  # type: ignore[index]
    with pytest.raises(TypeError):
        region.shapes["b"] = (9,)  # type: ignore[index]
    with pytest.raises(TypeError):
        hash(region)
    region.flat()[0] = 9
    assert region.indices["a"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("indices", "said"),
    [
        ({"z": [0]}, "not a graftable parameter"),
        ({"a": [12]}, r"0\.\.11"),
        ({"a": [-1]}, r"0\.\.11"),
        ({"a": [0.5]}, "vector of integers"),
        ({"a": [[1, 2]]}, "vector of integers"),
        ({"a": [True]}, "vector of integers"),
    ],
)
def test_impossible_entries_are_refused(indices: dict[str, list[float]], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Region({name: np.array(i) for name, i in indices.items()}, SHAPES)


@pytest.mark.parametrize("flat", [[D], [-1], [0.5]])
def test_impossible_global_entries_are_refused(flat: list[float]) -> None:
    with pytest.raises(BadInput):
        Region.from_flat(np.array(flat), SHAPES)


def test_regions_of_two_architectures_do_not_mix() -> None:
    with pytest.raises(BadInput, match="different architectures"):
        Region.full(SHAPES) | Region.full({"a": (3, 4)})


@settings(max_examples=15, deadline=None)
@given(flats)
def test_a_file_gives_the_region_back(tmp_path_factory: pytest.TempPathFactory, a: set[int]) -> None:
    path = tmp_path_factory.mktemp("region") / "region.safetensors"
    region_of(a).save(path, {"localizer": "random", "note": "größer"})
    assert Region.load(path) == region_of(a)
    header = Region.header(path)
    assert (header["size"], header["d"], header["localizer"], header["note"]) == (len(a), D, "random", "größer")


def test_indices_are_stored_no_wider_than_they_need_and_wide_ones_are_read(tmp_path: Path) -> None:
    region, path = region_of({0, 3, 14}), tmp_path / "region.safetensors"
    region.save(path)
    stored = load_file(path)
    assert {array.dtype for array in stored.values()} == {np.dtype(np.int32)}
    wide = {name: array.astype(np.int64) for name, array in stored.items()}
    save_file(wide, path, {"skillviz": json.dumps(Region.header(path))})
    assert Region.load(path) == region and Region.load(path).flat().dtype == np.int64
    assert index_dtype(2**31) is np.int32 and index_dtype(2**31 + 1) is np.int64


def test_a_file_cut_short_or_changed_is_told(tmp_path: Path) -> None:
    path = tmp_path / "region.safetensors"
    region_of({1, 2, 14}).save(path)
    whole = path.read_bytes()
    for cut in (0, 4, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(CorruptFile):
            Region.load(path)
    with pytest.raises(BadInput, match="no region file"):
        Region.load(tmp_path / "absent.safetensors")


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"}, {"size": 4}, {"size": None}, {"size": float("inf")}, {"shapes": None},
        {"shapes": {"a": [3, 4]}}, {"shapes": {"a": [1, 1], "b": [5]}}, {"shapes": [1]},
    ],
)  # fmt: skip
def test_a_header_that_lies_is_told(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "region.safetensors"
    shapes = {name: list(shape) for name, shape in SHAPES.items()}
    meta = {"format": "skillviz.region", "version": 1, "size": 3, "d": D, "shapes": shapes} | change
    tensors = {"a": np.array([2, 3]), "b": np.array([0])}
    save_file(tensors, path, {"skillviz": json.dumps(meta)})
    with pytest.raises(CorruptFile):
        Region.load(path)
    save_file(tensors, path)
    with pytest.raises(CorruptFile, match="no skillviz.region header"):
        Region.load(path)


def test_set_algebra_has_names_too() -> None:
    shapes = {"a": (4,), "b": (2, 3)}
    one, two = Region.from_flat(np.array([0, 3, 5]), shapes), Region.from_flat(np.array([3, 9]), shapes)
    assert one.union(two) == one | two and one.union(two).size == 4
    assert one.intersection(two) == one & two and one.intersection(two).size == 1
    assert one.difference(two) == one - two and one.difference(two).size == 2

"""Tests of regions: their algebra against Python sets, their files, packed or not, and files that must be refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from math import nan, prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from skillviz.core.region import Region, index_dtype, packed, unpacked
from skillviz.errors import BadInput, CorruptFile
from tests.core.by_hand import by_hand
from tests.refused import refused

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
    wanted = [a, a | b, a & b, a - b, set(range(D)) - a]
    entries = [{(name, int(i)) for name, indices in region.indices.items() for i in indices} for region in found]
    assert entries == [{PLACES[i] for i in flat} for flat in wanted]
    assert [(region.size, len(region)) for region in found] == [(len(flat), len(flat)) for flat in wanted]
    assert (left == right) is (left.sha256() == right.sha256()) is (a == b)
    assert left | right == right | left == left.union(right) and left & right == right & left == left.intersection(
        right
    )
    share, iou = len(a & b) / len(b) if b else nan, len(a & b) / len(a | b) if a | b else nan
    shares = [left.overlap(right), left.iou(right), right.iou(left)]
    assert left.difference(right) == left - right and shares == pytest.approx([share, iou, iou], nan_ok=True)


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
    with pytest.raises((error, AttributeError)):
        change(region)
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
    stored = load_file(path)
    assert {array.dtype for array in stored.values()} == {np.dtype(np.int32)}
    wide = {name: array.astype(np.int64) for name, array in stored.items()}
    save_file(wide, path, {"skillviz": json.dumps(Region.header(path))})
    assert Region.load(path) == region and Region.load(path).flat().dtype == np.int64


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"}, {"size": 4}, {"size": None}, {"size": float("inf")}, {"shapes": None},
        {"shapes": {"a": [3, 4]}}, {"shapes": {"a": [1, 1], "b": [5]}}, {"shapes": [1]}, {"version": 3}, None,
    ],
    ids=str,
)  # fmt: skip
def test_a_header_that_lies_is_told(tmp_path: Path, change: dict[str, object] | None) -> None:
    shapes = {name: list(shape) for name, shape in SHAPES.items()}
    meta = {"format": "skillviz.region", "version": 1, "size": 3, "d": D, "shapes": shapes} | (change or {})
    tensors, header = {"a": np.array([2, 3]), "b": np.array([0])}, {"skillviz": json.dumps(meta)}
    save_file(tensors, tmp_path / "region", None if change is None else header)
    words = {"None": "no skillviz.region header", "{'version': 3}": "version 3"}.get(str(change))
    with pytest.raises(CorruptFile, match=words):
        Region.load(tmp_path / "region")


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


@pytest.mark.parametrize(
    ("indices", "count", "dtype", "nbytes"),
    [
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
    ],
)
def test_the_smallest_form_is_taken(indices: list[int], count: int, dtype: str, nbytes: int) -> None:
    stored = packed(np.array(indices, dtype=np.int64), count)
    assert (str(stored.dtype), stored.nbytes) == (dtype, nbytes)
    assert unpacked(stored, count).tolist() == indices

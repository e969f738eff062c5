"""Tests of packed indices: every format restores the same indices, the smallest is used, and its files are regions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from skillviz.core.region import Region, packed, unpacked
from skillviz.errors import BadInput, CorruptFile


@given(st.integers(1, 5000), st.data())
def test_what_was_packed_comes_back(count: int, data: st.DataObject) -> None:
    indices = np.array(sorted(data.draw(st.sets(st.integers(0, count - 1), max_size=200))), dtype=np.int64)
    stored = packed(indices, count)
    found = unpacked(stored, count)
    assert found.dtype == np.int64 and np.array_equal(found, indices) and stored.nbytes <= 4 * len(indices)


@pytest.mark.parametrize("stored", [np.zeros(8, np.float32), np.zeros(7, np.int8)])
def test_a_form_that_is_none_is_refused(stored: np.ndarray) -> None:
    with pytest.raises(BadInput, match="64 entries"):
        unpacked(stored, 64)


def test_a_compact_file_is_the_same_region_in_fewer_bytes(tmp_path: Path) -> None:
    drawn, paths = (
        np.sort(np.random.default_rng(0).permutation(90_048)[:9000]),
        (tmp_path / "plain", tmp_path / "small"),
    )
    region = Region.from_flat(drawn, {"a": (300, 300), "b": (40,), "c": (8,)})
    for path, compact in zip(paths, (False, True), strict=True):
        region.save(path, {"seed": 3}, compact=compact)
        header = Region.header(path)
        assert (header["version"], header["seed"], header["size"]) == (1 + compact, 3, 9000)
        assert Region.load(path) == region
    assert paths[1].stat().st_size < 0.4 * paths[0].stat().st_size


def test_a_file_of_a_later_version_says_so(tmp_path: Path) -> None:
    meta = '{"format": "skillviz.region", "version": 3, "size": 1, "d": 2, "shapes": {"a": [2]}}'
    save_file({"a": np.array([0], np.int32)}, tmp_path / "new", {"skillviz": meta})
    with pytest.raises(CorruptFile, match="version 3"):
        Region.load(tmp_path / "new")


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

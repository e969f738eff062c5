"""Tests of values on disk: exact to the bit, evicted if space is short, and never the cause of an error."""

import os
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from skillviz.runs.disk_cache import DiskCache, cache_key

VALUE = {
    "logits": {"grafted": np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32), "empty": np.empty((0, 2))},
    "labels": np.arange(5), "ids": ["a", "b"], "nan": float("nan"), "nested": [{"x": np.array(True)}, None, 1.5],
}  # fmt: skip


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    found = DiskCache(tmp_path / ".live")
    assert found.get("key", "run") is None and found.put("key", VALUE, "run")
    return found


def test_an_answer_comes_back_as_it_was(cache: DiskCache) -> None:
    found = cache.get("key", "run")
    assert found is not None and list(found) == list(VALUE)
    for state, wanted in VALUE["logits"].items():
        assert (found["logits"][state].tobytes(), found["logits"][state].shape) == (wanted.tobytes(), wanted.shape)
    assert found["labels"].dtype == np.int64 and found["labels"].tolist() == list(range(5))
    assert found["ids"] == ["a", "b"]
    assert found["nested"][1:] == [None, 1.5]
    assert found["nested"][0]["x"].shape == ()
    assert cache.get("other", "run") is None
    assert cache.get("key", "other") is None
    assert np.isnan(found["nan"])


def test_the_files_are_parquet_and_a_broken_one_is_no_answer(cache: DiskCache) -> None:
    path = cache.folder / "run" / "key.parquet"
    assert pd.read_parquet(path)["dtype"].tolist() == ["float32", "float64", "int64", "bool"]
    path.write_bytes(path.read_bytes()[:-20])
    assert cache.get("key", "run") is None
    pd.DataFrame({"a": [1]}).to_parquet(path)
    assert cache.get("key", "run") is None


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    value = {"a": np.random.default_rng(0).normal(size=2000)}
    cache, small = (DiskCache(tmp_path / ".live", most_bytes=most) for most in (40_000, 10))
    for number, name in enumerate("ab"):
        cache.put("key", value, f"run-{name}")
        os.utime(cache.folder / f"run-{name}" / "key.parquet", (number, number))
    assert cache.get("key", "run-a") is not None, "used: it is newer than b now"
    cache.put("key", value, "run-c")
    assert [cache.get("key", f"run-{name}") is not None for name in "abc"] == [True, False, True]
    assert small.put("key", value, "run-d")
    assert [small.get("key", f"run-{name}") is not None for name in "ad"] == [False, True]


def test_a_folder_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / ".live").write_text("in the way")
    assert DiskCache(tmp_path / ".live").put("key", VALUE, "run") is False


def test_a_run_id_cannot_lead_out_of_the_store(tmp_path: Path) -> None:
    DiskCache(tmp_path / "store" / ".live").put("key", VALUE, "../../out")
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.parquet")] == [Path("store/.live/out/key.parquet")]


def test_keys_tell_requests_apart() -> None:
    one, same, other = map(cache_key, ({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}, {"a": 1, "b": [2, 1]}))
    assert one == same != other
    with pytest.raises(TypeError):
        cache_key({"a": object()})


def test_an_array_is_made_once(tmp_path: Path) -> None:
    cache, make = DiskCache(tmp_path), Mock(return_value=np.arange(3))
    for _ in range(2):
        array = cache.array({"of": "a"}, make, "float32")
        assert array.dtype == np.float32 and array.tolist() == [0, 1, 2]
    assert (make.call_count, cache.array({"of": "b"}, make, "int64").dtype, make.call_count) == (1, np.int64, 2)

"""Tests of values on disk: exact to the bit, evicted if space is short, and never the cause of an error."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz.runs.disk_cache import DiskCache, cache_key

VALUE = {
    "logits": {"grafted": np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32), "empty": np.empty((0, 2))},
    "labels": np.arange(5), "ids": ["a", "b"], "nan": float("nan"), "nested": [{"x": np.array(True)}, None, 1.5],
}  # fmt: skip


def test_an_answer_comes_back_as_it_was(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / ".live")
    assert cache.get("key", "run") is None
    assert cache.put("key", VALUE, "run")
    found = cache.get("key", "run")
    assert found is not None and list(found) == list(VALUE)
    for state in ("grafted", "empty"):
        assert found["logits"][state].tobytes() == VALUE["logits"][state].tobytes()
        assert found["logits"][state].shape == VALUE["logits"][state].shape
    assert found["labels"].dtype == np.int64 and found["ids"] == ["a", "b"] and np.isnan(found["nan"])
    assert found["nested"][0]["x"].shape == () and found["nested"][1:] == [None, 1.5]
    assert cache.get("other", "run") is None and cache.get("key", "other") is None
    assert (tmp_path / ".live" / "run" / "key.parquet").is_file()


def test_the_files_are_parquet(tmp_path: Path) -> None:
    DiskCache(tmp_path / ".live").put("key", VALUE, "run")
    frame = pd.read_parquet(tmp_path / ".live" / "run" / "key.parquet")
    assert frame["dtype"].tolist() == ["float32", "float64", "int64", "bool"]


def test_a_broken_file_is_no_answer(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / ".live")
    cache.put("key", VALUE, "run")
    path = tmp_path / ".live" / "run" / "key.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    assert cache.get("key", "run") is None
    pd.DataFrame({"a": [1]}).to_parquet(path)
    assert cache.get("key", "run") is None


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    value = {"a": np.random.default_rng(0).normal(size=2000)}
    cache = DiskCache(tmp_path / ".live", most_bytes=40_000)
    for number, name in enumerate("abc"):
        cache.put("key", value, f"run-{name}")
        path = tmp_path / ".live" / f"run-{name}" / "key.parquet"
        if path.exists():
            os.utime(path, (number, number))
        if name == "b":
            assert cache.get("key", "run-a") is not None  # used: it is newer than b now
    assert [cache.get("key", f"run-{name}") is not None for name in "abc"] == [True, False, True]
    small = DiskCache(tmp_path / ".live", most_bytes=10)
    assert small.put("key", value, "run-d") and small.get("key", "run-d") is not None
    assert small.get("key", "run-a") is None


def test_a_folder_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / ".live").write_text("in the way")
    assert DiskCache(tmp_path / ".live").put("key", VALUE, "run") is False


def test_a_run_id_cannot_lead_out_of_the_store(tmp_path: Path) -> None:
    DiskCache(tmp_path / "store" / ".live").put("key", VALUE, "../../out")
    assert not (tmp_path / "out").exists() and (tmp_path / "store" / ".live" / "out" / "key.parquet").is_file()


def test_keys_tell_requests_apart() -> None:
    one = cache_key({"a": 1, "b": [1, 2]})
    assert one == cache_key({"b": [1, 2], "a": 1}) and one != cache_key({"a": 1, "b": [2, 1]})
    with pytest.raises(TypeError):
        cache_key({"a": object()})


def test_an_array_is_made_once(tmp_path: Path) -> None:
    cache, made = DiskCache(tmp_path), []

    def make() -> np.ndarray:
        made.append(1)
        return np.arange(3)

    for _ in range(2):
        array = cache.array({"of": "a"}, make, "float32")
        assert array.dtype == np.float32 and array.tolist() == [0, 1, 2]
    assert len(made) == 1 and cache.array({"of": "b"}, make, "int64").dtype == np.int64 and len(made) == 2

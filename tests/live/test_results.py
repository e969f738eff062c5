"""Kept answers: the same to the bit, gone when room is short, never in the way."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skillviz.live.results import Results, request_key

VALUE = {
    "logits": {"grafted": np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32), "empty": np.empty((0, 2))},
    "labels": np.arange(5), "ids": ["a", "b"], "nan": float("nan"), "nested": [{"x": np.array(True)}, None, 1.5],
}  # fmt: skip


def test_an_answer_comes_back_as_it_was(tmp_path: Path) -> None:
    results = Results(tmp_path)
    assert results.get("run", "key") is None
    assert results.put("run", "key", VALUE)
    found = results.get("run", "key")
    assert found is not None and list(found) == list(VALUE)
    for state in ("grafted", "empty"):
        assert found["logits"][state].tobytes() == VALUE["logits"][state].tobytes()
        assert found["logits"][state].shape == VALUE["logits"][state].shape
    assert found["labels"].dtype == np.int64 and found["ids"] == ["a", "b"] and np.isnan(found["nan"])
    assert found["nested"][0]["x"].shape == () and found["nested"][1:] == [None, 1.5]
    assert results.get("run", "other") is None and results.get("other", "key") is None
    assert (tmp_path / ".live" / "run" / "key.parquet").is_file()


def test_the_files_are_parquet(tmp_path: Path) -> None:
    Results(tmp_path).put("run", "key", VALUE)
    frame = pd.read_parquet(tmp_path / ".live" / "run" / "key.parquet")
    assert frame["dtype"].tolist() == ["float32", "float64", "int64", "bool"]


def test_a_broken_file_is_no_answer(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.put("run", "key", VALUE)
    path = tmp_path / ".live" / "run" / "key.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    assert results.get("run", "key") is None
    pd.DataFrame({"a": [1]}).to_parquet(path)
    assert results.get("run", "key") is None


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    value = {"a": np.random.default_rng(0).normal(size=2000)}
    results = Results(tmp_path, most_bytes=40_000)
    for number, name in enumerate("abc"):
        results.put(f"run-{name}", "key", value)
        path = tmp_path / ".live" / f"run-{name}" / "key.parquet"
        if path.exists():
            os.utime(path, (number, number))
        if name == "b":
            assert results.get("run-a", "key") is not None  # used: now newer than b
    assert [results.get(f"run-{name}", "key") is not None for name in "abc"] == [True, False, True]
    small = Results(tmp_path, most_bytes=10)
    assert small.put("run-d", "key", value) and small.get("run-d", "key") is not None
    assert small.get("run-a", "key") is None


def test_a_folder_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / ".live").write_text("in the way")
    assert Results(tmp_path).put("run", "key", VALUE) is False


def test_a_run_id_cannot_lead_out_of_the_store(tmp_path: Path) -> None:
    Results(tmp_path / "store").put("../../out", "key", VALUE)
    assert not (tmp_path / "out").exists() and (tmp_path / "store" / ".live" / "out" / "key.parquet").is_file()


def test_keys_tell_requests_apart() -> None:
    one = request_key({"a": 1, "b": [1, 2]})
    assert one == request_key({"b": [1, 2], "a": 1}) and one != request_key({"a": 1, "b": [2, 1]})
    with pytest.raises(TypeError):
        request_key({"a": object()})

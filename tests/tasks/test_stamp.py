"""What tells that a task's files have changed: one rule for all that is remembered of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skillviz.live import operations, pair_cache, request
from skillviz.tasks import registry, user_file
from skillviz.tasks.user_file import task_stamp
from tests.tiny import tiny_task


@pytest.mark.parametrize("name", ["task.yaml", "train.jsonl", "test.jsonl"])
def test_every_file_of_a_task_counts_by_size_and_time(tmp_path: Path, name: str) -> None:
    path = tiny_task(tmp_path)
    before = task_stamp(registry.task(path))
    assert task_stamp(registry.task(path)) == before and len(before) == 4
    time = (tmp_path / name).stat().st_mtime_ns
    (tmp_path / name).write_text((tmp_path / name).read_text() + "\n")
    os.utime(tmp_path / name, ns=(time, time))
    longer = task_stamp(registry.task(path))
    assert longer != before, "its size alone"
    os.utime(tmp_path / name, ns=(time + 1, time + 1))
    assert task_stamp(registry.task(path)) != longer, "its time alone"


def test_data_of_a_hub_are_told_by_name() -> None:
    assert task_stamp(registry.task("sst2")) == [["sst2"]]


def test_the_worker_has_no_rule_of_its_own() -> None:
    assert all(module.task_stamp is task_stamp for module in (request, pair_cache, operations))
    assert pair_cache.file_stamp is user_file.file_stamp

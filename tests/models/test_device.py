"""Tests of the requested device and its errors."""

from __future__ import annotations

import pytest
import torch

from skillviz.errors import NoDevice
from skillviz.models.device import describe, pick


def test_cpu_is_always_there() -> None:
    assert pick("cpu") == torch.device("cpu") and describe(torch.device("cpu")).startswith("cpu (")


@pytest.mark.parametrize(
    ("devices", "name", "wanted"), [(1, "auto", "cuda"), (0, "auto", "cpu"), (1, "cuda:0", "cuda:0")]
)
def test_a_device_is_picked_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, devices: int, name: str, wanted: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    assert pick(name) == torch.device(wanted)


@pytest.mark.parametrize(
    ("devices", "name", "words"),
    [
        (0, "cuda", "--device cpu"),
        (1, "cuda:1", "1 CUDA device"),
        *((0, name, "auto, cpu, cuda") for name in ("gpu", "", "cuda:x", "cpu:0", "mps")),
    ],
)
def test_a_device_that_is_not_there_or_unknown_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, devices: int, name: str, words: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    with pytest.raises(NoDevice, match=words):
        pick(name)


@pytest.mark.gpu
def test_a_gpu_is_described_by_its_name() -> None:
    assert torch.cuda.get_device_name(0) in describe(pick("cuda"))

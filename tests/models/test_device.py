"""Tests of the requested device and its errors."""

from __future__ import annotations

import pytest
import torch

from skillviz.errors import NoDevice
from skillviz.models.device import describe, pick


def test_cpu_is_always_there() -> None:
    assert pick("cpu") == torch.device("cpu")
    assert describe(torch.device("cpu")).startswith("cpu (")


@pytest.mark.parametrize(("cuda", "wanted"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_cuda_where_there_is_one(monkeypatch: pytest.MonkeyPatch, cuda: bool, wanted: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    assert pick("auto").type == wanted


def test_cuda_without_cuda_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NoDevice, match="--device cpu"):
        pick("cuda")


def test_a_second_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert pick("cuda:0") == torch.device("cuda:0")
    with pytest.raises(NoDevice, match="1 CUDA device"):
        pick("cuda:1")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "cpu:0", "mps"])
def test_an_unknown_device_lists_the_known_ones(name: str) -> None:
    with pytest.raises(NoDevice, match="auto, cpu, cuda"):
        pick(name)


@pytest.mark.gpu
def test_a_gpu_is_described_by_its_name() -> None:
    assert torch.cuda.get_device_name(0) in describe(pick("cuda"))

"""The device that a model runs on."""

from __future__ import annotations

import os

import torch

from skillviz.errors import NoDevice

DEVICES = ("auto", "cpu", "cuda")
DETERMINISTIC = "SKILLVIZ_DETERMINISTIC"
"""If set, a GPU uses deterministic algorithms, so that a resumed search or fine-tuning is exact."""


def pick(name: str = "auto") -> torch.device:
    """Return the device with that name: auto, cpu, cuda or cuda:<number>; auto is CUDA if available.

    Turns on deterministic algorithms for a GPU if DETERMINISTIC is set. Raises NoDevice if this machine lacks the
    device.
    """
    kind, _, number = name.partition(":")
    if name not in DEVICES and not (kind == "cuda" and number.isdigit()):
        raise NoDevice(f"'{name}' is not a device; allowed: {', '.join(DEVICES)}, cuda:<number>.")
    if kind == "auto":
        name = kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise NoDevice("this machine has no CUDA device that torch can use; choose --device cpu (or auto).")
    if number and int(number) >= torch.cuda.device_count():
        raise NoDevice(
            f"'{name}' does not exist: torch sees {torch.cuda.device_count()} CUDA device(s); name one "
            "of them, counted from cuda:0."
        )
    if kind == "cuda" and os.environ.get(DETERMINISTIC):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
        torch.use_deterministic_algorithms(True)
    if kind == "cuda" and not number and "LOCAL_RANK" in os.environ:  # set by torchrun: one GPU per process
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return torch.device(name)


def describe(device: torch.device) -> str:
    """Return the device in words for a run's record: its kind, and a GPU's name."""
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    return f"{device.type} ({torch.get_num_threads()} threads)"

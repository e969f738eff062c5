"""Several processes, started by torchrun, that search for one region together; each computes a part of every batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NoReturn

from torch import cuda, distributed

from skillviz.models.device import pick

PATIENCE = timedelta(days=1)
"""The first process scores two models before the search begins, and the others wait."""


def started() -> int:
    """Return the number of processes that torchrun has started; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """True if this process is the one that stores the run."""
    return int(os.environ.get("RANK", "0")) == 0


def leave() -> NoReturn:
    """End this process, whose part is done, without shutting down the interpreter.

    A thread of gloo may still hold the tensors of the last exchange. It needs the interpreter to release them. During
    shutdown it aborts the process instead (pytorch/pytorch#179291), and torchrun then ends all others.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@contextmanager
def joined(device: str) -> Iterator[None]:
    """In the body, this process belongs to the group of all started processes."""
    if started() == 1:
        yield
        return
    where = pick(device)
    if where.type == "cuda":
        cuda.set_device(where)
    distributed.init_process_group("nccl" if where.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield
    finally:
        distributed.destroy_process_group()

"""Several processes that search for one region together, as torchrun starts them: a part of each batch for each."""

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
    """How many processes torchrun has started, 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this process is the one that stores the run."""
    return int(os.environ.get("RANK", "0")) == 0


def leave() -> NoReturn:
    """Ends this process, whose part is done, without the interpreter's own end.

    A thread of gloo may still hold the tensors of the last exchange. To let go of them it needs the interpreter, and
    where that is ending it aborts the process instead (pytorch/pytorch#179291), so that torchrun ends all others.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@contextmanager
def joined(device: str) -> Iterator[None]:
    """Inside, this process belongs to the group of all that were started."""
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

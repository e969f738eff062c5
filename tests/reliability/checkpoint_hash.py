"""Check that a damaged checkpoint is noticed: changed bits and zeroed bytes, for searches and fine-tunings."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from skillviz.errors import WrongCheckpoint
from skillviz.models.finetune.journal import TrainingState
from skillviz.runs.checkpoint import Checkpoint
from skillviz.runs.search import Searched

ZEROED = 64  # bytes


def damaged(number: int, work: Path) -> Iterator[str]:
    """Yield the losses; in turn a bit of one of the two files is changed, or some of its bytes are zeroed."""
    draw, stamp = np.random.default_rng(8), "stamp"
    scores = torch.from_numpy(draw.normal(size=4000))
    searched = Searched({300: draw.permutation(4000)[:300]}, [{"target": 300, "step": 1, "seconds": 0.1}], ["a note"])
    Checkpoint({"spec": "a"}, {"device": "cpu"}, 1.0, searched, {"scores": scores}).write(work / "search")
    TrainingState([{"step": 1}], 0.5, [scores], [scores + 1], {0: {"step": torch.tensor(1.0)}}).write(
        work / "training", stamp
    )
    for index in range(number):
        name = ("search", "training")[index % 2]
        content = (work / name).read_bytes()
        data = bytearray(content)
        begin = 8 + struct.unpack("<Q", content[:8])[0] if index % 4 < 2 else 0  # the tensors, or anything
        at = int(draw.integers(begin, len(data) - ZEROED))
        if index % 3:
            data[at] ^= 1 << int(draw.integers(8))
        else:
            data[at : at + ZEROED] = bytes(ZEROED)
        if bytes(data) == content:
            continue
        (work / "damaged").write_bytes(data)
        accepted = False
        if name == "training":
            accepted = TrainingState.read(work / "damaged", stamp) is not None
        else:
            with suppress(WrongCheckpoint):
                accepted = Checkpoint.read(work / "damaged") is not None
        # It may be accepted if only insignificant spaces of the header differ.
        is_lost = accepted and not _means_the_same(name, work, stamp)
        yield f"a damaged {name} checkpoint is accepted (byte {at:,})" if is_lost else ""


def _means_the_same(name: str, work: Path, stamp: str) -> bool:
    """True if the read values equal the written ones, for example if only a space of the file's header was changed."""
    if name == "training":
        one, other = (TrainingState.read(work / file, stamp) for file in (name, "damaged"))
        return one is not None and other is not None and torch.equal(one.best[0], other.best[0])
    first, second = (Checkpoint.read(work / file) for file in (name, "damaged"))
    assert first is not None and second is not None and first.state is not None and second.state is not None
    same = torch.equal(first.state["scores"], second.state["scores"]) and first.stamp == second.stamp
    return same and all(np.array_equal(o, second.searched.orders.get(n)) for n, o in first.searched.orders.items())

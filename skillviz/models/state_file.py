"""A safetensors file that holds its own hash, so that a changed bit is detected; and the pause between two writings.

Interrupted searches, trainings and scorings resume from such files.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from skillviz import json_text
from skillviz.atomic import write_file
from skillviz.errors import DiskFull
from skillviz.layout import refuse_another

EVERY = 5.0  # seconds between two writings
SPARED = 20  # the pause is at least this many times the last writing time: at most 5% of the time goes into writing
ENVIRONMENT = "SKILLVIZ_CHECKPOINT_SECONDS"
UNREADABLE = (OSError, ValueError, KeyError, TypeError, SafetensorError)
"""The errors of a file that is damaged or of another kind."""


def content_sha256(header: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the hex digest of the header's text and of every tensor's name, type, shape and bits."""
    digest = hashlib.sha256(header.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\0{name} {tensor.dtype} {list(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def write_state(path: Path, kind: str, header: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a header and tensors atomically; the header is JSON in the metadata `kind`."""
    text = json.dumps(header, allow_nan=False)
    metadata = {kind: text, "sha256": content_sha256(text, tensors)}
    write_file(path, lambda part: save_file(dict(tensors), part, metadata=metadata))


def read_state(path: Path, kind: str, name: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return the header and the tensors of a file; raises OtherVersion, which calls the file `name`, and UNREADABLE."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if metadata.get("sha256", "") not in ("", content_sha256(metadata[kind], tensors)):
        raise ValueError("its content has changed since it was written")
    header = json_text.loads(metadata[kind])
    refuse_another(header, name)
    if "sha256" not in metadata:
        raise ValueError("it has no sha256")
    return header, tensors


@dataclass
class Pause:
    """The time of the last writing, and the seconds until the next is due."""

    written: float = field(default_factory=time.monotonic)
    seconds: float = field(default_factory=lambda: float(os.environ.get(ENVIRONMENT, EVERY)))

    @property
    def is_over(self) -> bool:
        """True if the next writing is due."""
        return time.monotonic() - self.written > self.seconds

    def write(self, write: Callable[[], None]) -> None:
        """Write now. A full disk is ignored, because it is no reason to end the work."""
        begun = time.monotonic()
        with suppress(DiskFull):
            write()
        self.written = time.monotonic()
        self.seconds = max(self.seconds, SPARED * (self.written - begun))

    @contextmanager
    def saving(self, write: Callable[[], None]) -> Iterator[None]:
        """Write now if the last writing is old; otherwise write only if the body ends early."""
        if is_saved := self.is_over:
            self.write(write)
        try:
            yield
        except BaseException:
            if not is_saved:
                self.write(write)
            raise

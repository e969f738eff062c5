"""A hash of a safetensors file's content, stored in the file itself, so that a changed bit is detected."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch


def content_sha256(header: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the hex digest of the header's text and of every tensor's name, type, shape and bits."""
    digest = hashlib.sha256(header.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\0{name} {tensor.dtype} {list(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()

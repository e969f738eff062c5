"""Passes of a run's examples through its models: each reports its progress, and its class scores are stored on disk.

A resumed run reuses the scores of an earlier attempt, so its scoring resumes too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from skillviz.atomic import write_file
from skillviz.core.encoded import Encoded
from skillviz.core.gain import Gain
from skillviz.core.region import Region
from skillviz.errors import DiskFull
from skillviz.models.pair import ModelPair
from skillviz.models.predict import predict
from skillviz.models.state_file import content_sha256
from skillviz.runs.pace import Heard, silent

FOLDER = "scores"


@dataclass(frozen=True)
class Passes:
    """Passes that report to `heard`. If `folder` is given, their scores are stored there.

    `stamp` identifies settings, weights, data and device. A file is named by the hash of its stamp and pass, so the
    scores of other weights or data are never used.
    """

    heard: Heard = silent
    folder: Path | None = None
    stamp: Mapping[str, str] = field(default_factory=dict)

    def predict(
        self, pair: ModelPair, encoded: Encoded, dataset: str, state: str, region: Region | None = None
    ) -> np.ndarray:
        """Return class scores float32 [n, label] of a state on a data set's examples, like `models.predict`."""
        text = f"{state}, {dataset}" if region is None else f"{state} with {region.size:,} entries, {dataset}"
        place = dataset, digest(encoded), state, *identity(region, pair.gain if state == "grafted" else 1.0)
        scores = self.kept(len(encoded), *place)
        if scores is not None:
            self.heard(len(encoded), int(encoded.lengths.sum()), text, False)
        else:
            scores = predict(pair, encoded, state, region, heard=lambda n, tokens: self.heard(n, tokens, text, True))
            self.keep(scores, *place)
        self.heard(0, 0, text, True)
        return scores

    def kept(self, n: int, *place: object) -> np.ndarray | None:
        """Return the stored scores [n, label] of a pass; None if there are none or they cannot be read."""
        path, header = self._file(place)
        if path is None:
            return None
        with suppress(OSError, ValueError, KeyError, TypeError, SafetensorError), safe_open(path, "pt") as file:
            metadata, scores = file.metadata(), file.get_tensor("scores")
            if metadata["sha256"] == content_sha256(header, {"scores": scores}) and len(scores) == n:
                return scores.numpy()
        return None

    def keep(self, scores: np.ndarray, *place: object) -> None:
        """Store the scores of a pass. A full disk is ignored, because it is no reason to end the run."""
        path, header = self._file(place)
        if path is None:
            return
        tensors = {"scores": torch.from_numpy(np.ascontiguousarray(scores))}
        metadata = {"sha256": content_sha256(header, tensors)}
        with suppress(DiskFull):
            path.parent.mkdir(exist_ok=True)
            write_file(path, lambda part: save_file(tensors, part, metadata=metadata))

    def _file(self, place: tuple[object, ...]) -> tuple[Path | None, str]:
        header = json.dumps([dict(self.stamp), *map(str, place)], sort_keys=True)
        name = f"{hashlib.sha256(header.encode()).hexdigest()}.safetensors"
        return (self.folder / name if self.folder else None), header


UNKEPT = Passes()


def identity(region: Region | None, gain: Gain = 1.0) -> tuple[object, ...]:
    """Return the parts of a pass's name for a region's graft at a gain."""
    name = "" if region is None else region.sha256()
    return (name,) if gain == 1 else (name, gain)


def digest(encoded: Encoded) -> str:
    """Return the sha256 of all parts of the examples that a model reads, in order."""
    generation = encoded.generation and (encoded.generation.references, encoded.generation.max_new_tokens)
    hashed = hashlib.sha256(f"{encoded.n_labels} {encoded.by_length} {generation}".encode())
    answers = [one for row in encoded.answers or () for one in row]
    for part in (*encoded.input_ids, *(encoded.token_type_ids or ()), *answers, encoded.positions, encoded.label_ids):
        hashed.update(b"-" if part is None else f"{len(part)} ".encode() + np.ascontiguousarray(part).tobytes())
    return hashed.hexdigest()

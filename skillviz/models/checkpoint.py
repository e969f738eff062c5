"""What a model's folder says about itself: configuration and safetensors headers, no weights, no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from skillviz.errors import BadModel, CorruptFile, ModelNotFound
from skillviz.models.fetch import hub_name
from skillviz.models.fingerprint import fingerprint
from skillviz.models.headers import FLOATS, Stored, read_header

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class ModelInfo:
    """A model's folder without its weights. `tensors` are named as in the files.

    `adapter` is the adapter_config.json of a LoRA checkpoint; its `config` may be empty.
    """

    folder: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Stored] = field(repr=False)
    adapter: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        """The hub id, or the folder's name."""
        return hub_name(self.folder)[0]

    @property
    def revision(self) -> str | None:
        """The hub's commit, None for a folder."""
        return hub_name(self.folder)[1]

    @property
    def model_type(self) -> str:
        """The architecture's name in transformers, '' where the configuration has none."""
        return str(self.config.get("model_type", ""))

    @property
    def architectures(self) -> tuple[str, ...]:
        """The model classes that the configuration names."""
        return tuple(self.config.get("architectures") or ())

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """File name of each tensor to its shape."""
        return {name: stored.shape for name, stored in self.tensors.items()}

    @cached_property
    def dtypes(self) -> frozenset[str]:
        """The dtypes of the tensors, as safetensors names them: F32, F16, BF16, ..."""
        return frozenset(stored.dtype for stored in self.tensors.values())

    @property
    def dtype(self) -> str:
        """The widest floating dtype of the file: float64, float32, bfloat16, float16 (or both: float32)."""
        found = self.dtypes & set(FLOATS)
        if found == {"F16", "BF16"}:
            return "float32"
        names = (("F64", "float64"), ("F32", "float32"), ("BF16", "bfloat16"), ("F16", "float16"))
        return next((name for short, name in names if short in found), "float32")

    @property
    def vocab_size(self) -> int | None:
        """Rows of the token embedding, as configured."""
        size = self.config.get("vocab_size")
        return None if size is None else int(size)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the weights (reads the whole file once)."""
        return fingerprint(self.tensors)

    def identity(self) -> dict[str, Any]:
        """{id, revision, fingerprint}: what a run or a graft says of this model."""
        return {"id": self.id, "revision": self.revision, "fingerprint": self.fingerprint}


def read_info(folder: Path | str) -> ModelInfo:
    """The ModelInfo of a resolved folder.

    Raises CorruptFile where a file is cut short or unreadable, ModelNotFound where one is missing, BadModel
    where an adapter lies in the folder of a whole model.
    """
    folder = Path(folder)
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        # transformers would load both and put the one on the other; which of them is meant cannot be told
        if any((folder / name).is_file() for name in (SINGLE, INDEX)):
            raise BadModel(
                f"'{folder}' holds a whole model and an adapter; move the adapter_* files to another folder."
            )
        return _read_adapter(folder, _read_json(adapter))
    if not (folder / "config.json").is_file():
        raise ModelNotFound(f"'{folder}' has no config.json; a model's folder needs config.json and safetensors.")
    config = _read_json(folder / "config.json")
    tensors: dict[str, Stored] = {}
    for path in _weight_files(folder):
        tensors |= read_header(path)
    return ModelInfo(folder, config, tensors)


def _read_adapter(folder: Path, adapter: dict[str, Any]) -> ModelInfo:
    config = _read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    weights = folder / "adapter_model.safetensors"
    if not weights.is_file():
        raise ModelNotFound(f"'{folder}' has an adapter_config.json but no adapter_model.safetensors.")
    return ModelInfo(folder, config, read_header(weights), adapter)


def _weight_files(folder: Path) -> list[Path]:
    single, index = folder / SINGLE, folder / INDEX
    if single.is_file():
        return [single]
    if not index.is_file():
        raise ModelNotFound(f"'{folder}' has no model.safetensors.")
    try:
        names = sorted(set(_read_json(index)["weight_map"].values()))
    except (KeyError, AttributeError) as error:
        raise CorruptFile(f"{index} has no weight_map; fetch or save the model again.") from error
    # a shard lies beside its index, whatever the index claims
    files = [folder / Path(name).name for name in names]
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise CorruptFile(f"{index} names {missing[0]}, which is not there; fetch the model again.")
    return files


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise CorruptFile(f"{path} is not readable as JSON ({error}); fetch or save it again.") from error
    if not isinstance(content, dict):
        raise CorruptFile(f"{path} is not a JSON object; fetch or save it again.")
    return content

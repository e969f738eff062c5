"""Find a model's weight files in a folder, and give advice if their format is not supported."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path

from skillviz.errors import BadModel, ModelNotFound, UnsafeWeights
from skillviz.models import convert
from skillviz.regular_file import LONGEST_JSON, read_text

READ = ("model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors")
LOOKED_AT, LEVELS = 200, 3
"""The maximum numbers of folders and of levels that are searched for a model, if the given folder has none."""
MOST_NAMED = 3
OF_TRAINING = ("optimizer", "scheduler", "scaler", "rng_state", "random_states", "training_args")
"""The beginnings of names of files in a training checkpoint that hold no weights."""
EXPORT = "Export it from the training program: load it there and call save_pretrained on the model."
ORIGINAL = "Give the model that it was made from, in safetensors."
OLD = "With transformers 4 and {library}, load it by from_pretrained(folder, {option}=True), then save_pretrained."


@dataclass(frozen=True)
class Format:
    """A format of weights that is not supported: its file names below the folder, its description, and advice."""

    files: tuple[str, ...]
    what: str
    way: str


FORMATS = (
    Format(
        ("*.distcp", "*/*.distcp"),
        "the shards of an FSDP checkpoint",
        "Join them with `accelerate merge-weights`, and give the folder that it writes, with config.json.",
    ),
    Format(
        ("zero_to_fp32.py", "*_model_states.pt", "*/*_model_states.pt", "*_optim_states.pt", "*/*_optim_states.pt"),
        "the shards of a DeepSpeed checkpoint",
        "Join them with `python zero_to_fp32.py . out --safe_serialization`, and add config.json to that folder.",
    ),
    Format(("pytorch_model_fsdp*.bin",), "the state of an FSDP training", EXPORT),
    Format(
        ("pytorch_model-*.bin",),
        "a part of pickled weights without pytorch_model.bin.index.json",
        "Download the whole model again.",
    ),
    Format(
        ("*.h5", "*.keras", "*.ckpt.index", "*.ckpt.data-*", "*.ckpt.meta", "saved_model.pb", "*/saved_model.pb"),
        "TensorFlow weights",
        OLD.format(library="TensorFlow", option="from_tf"),
    ),
    Format(("*.msgpack",), "Flax weights", OLD.format(library="Flax", option="from_flax")),
    Format(("openvino_*.bin", "openvino_*.xml"), "an OpenVINO export", ORIGINAL),
    Format(("*.onnx", "*/*.onnx"), "an ONNX export", ORIGINAL),
    Format(("*.tflite", "*.mlmodel", "*.ot", "rust_model.*"), "an export for another program", ORIGINAL),
    Format(
        ("*.gguf", "ggml*.bin"),
        "llama.cpp's format",
        "Give the model that it was made from, or load it by from_pretrained(folder, gguf_file=...), then "
        "save_pretrained.",
    ),
    Format(("*.npz", "*.npy"), "NumPy arrays", EXPORT),
    Format(("*.ckpt",), "a checkpoint of PyTorch Lightning", EXPORT),
    Format(("consolidated*",), "the original release's format", "Give the version for transformers (often -hf)."),
    Format(
        ("model-*-of-*.safetensors",),
        "a part of a model without model.safetensors.index.json",
        "Download the whole model again.",
    ),
    Format(
        ("*.safetensors",),
        "safetensors by another name",
        "Name it model.safetensors, or adapter_model.safetensors for an adapter.",
    ),
    Format(("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle"), "a pickled file of another program", EXPORT),
)
"""The first row that matches one of a folder's files describes its weights."""


def has_weights(folder: Path) -> bool:
    """True if the folder has safetensors of a model or of an adapter."""
    return any((folder / name).is_file() for name in READ)


def below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folder and its subfolders, by name, `depth` levels down; hidden and unreadable ones are skipped."""
    try:
        inside = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] != ".")
    except OSError:
        return
    yield folder
    if depth:
        for path in inside:
            yield from below(Path(path), depth - 1)


def refusal(folder: Path, source: str) -> BadModel:
    """Return the error for a folder without safetensors, with advice: convert, export, or another folder.

    `source` is the folder's name as given by the user.
    """
    if convert.is_pickled(folder):
        name = next(name for name in convert.PICKLES if (folder / name).is_file())
        return UnsafeWeights(
            f"'{source}' has its weights only as {name}, which may run code when opened; take a revision with "
            "safetensors, or convert it: `python -m skillviz preflight --base ... --finetuned ... --convert`."
        )
    fitting = _models_below(folder)
    if fitting:
        named = ", ".join(str(path.relative_to(folder)) for path in fitting[:MOST_NAMED])
        more = f" and {len(fitting) - MOST_NAMED} more" if len(fitting) > MOST_NAMED else ""
        return ModelNotFound(
            f"'{source}' holds no model itself, but folders that do: {named}{more}. Give such a folder: "
            f"'{Path(source) / fitting[0].relative_to(folder)}'."
        )
    if (other := _other_format(folder)) is not None:
        name, kind = other
        return UnsafeWeights(
            f"'{source}' has its weights only as {name}: {kind.what}. Only safetensors are read, and only "
            f"{convert.PICKLES[0]} can be converted. {kind.way}"
        )
    pickled = (
        f" nor {convert.PICKLES[0]}, so there is nothing to convert"
        if convert.wanted.get()
        else ", and only pytorch_model.bin could be converted to it (`preflight --convert`)"
    )
    return ModelNotFound(
        f"'{source}' has no model.safetensors{pickled}; a model's folder needs config.json and safetensors weights."
    )


def _models_below(folder: Path) -> list[Path]:
    """Return the subfolders that hold a model, from the highest level that has any, the likeliest one first."""
    inside = islice(below(folder, LEVELS), 1, LOOKED_AT)
    found = [path for path in inside if (has_weights(path) or convert.is_pickled(path)) and _is_model(path)]
    top = min((len(path.parts) for path in found), default=0)
    return sorted((path for path in found if len(path.parts) == top), key=_rank)


def _is_model(folder: Path) -> bool:
    """True if the folder's weights are a whole model or an adapter, and not a part of one."""
    config = folder / "config.json"
    try:
        return (folder / "adapter_config.json").is_file() or '"model_type"' in read_text(config, LONGEST_JSON)
    except (OSError, ValueError):
        return False


def _rank(path: Path) -> tuple[bool, int, str]:
    """Return a sort key: first folders that are not numbered checkpoints (final, best), then the last checkpoints."""
    number = path.name.rpartition("-")[2]
    return number.isdecimal(), -int(number) if number.isdecimal() else 0, path.name


def _other_format(folder: Path) -> tuple[str, Format] | None:
    """Return the first file, in the order of FORMATS, with weights in an unsupported format."""
    files = sorted(_files(folder))
    for kind in FORMATS:
        name = next((name for name in files if any(_is_called(name, pattern) for pattern in kind.files)), None)
        if name is not None:
            return name, kind
    return None


def _is_called(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatch(name, pattern)


def _files(folder: Path) -> Sequence[str]:
    """Return the files of the folder and its subfolders, without the state of a training."""
    within = islice(below(folder, 1), LOOKED_AT)
    files = (path for one in within for path in one.iterdir() if path.is_file())
    return [path.relative_to(folder).as_posix() for path in files if not path.name.startswith(OF_TRAINING)]

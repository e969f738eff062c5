"""Convert pickled weights to a safetensors folder in the cache, only with `--convert` on the command line. No torch.

A pickle can run code when it is read. The one exception to "only safetensors" is a conversion that the user requests: a
child process with limits on memory, time and file size reads the weights with `weights_only=True`, which builds only
tensors, and writes them as safetensors. The result stays in the cache, with the hashes of both.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path

from skillviz import json_text
from skillviz.atomic import sha256, whole_folder
from skillviz.core.formats import byte_size
from skillviz.errors import UnsafeWeights
from skillviz.serving import read_only
from skillviz.tasks.project import CACHE_VARIABLE, importable

PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "adapter_model.bin")
"""The files that transformers and peft wrote before safetensors: a whole model, the index of its parts, an adapter."""
PATTERNS = ("pytorch_model*.bin", *PICKLES[1:])
RECORD = "conversion.json"
CONVERTED = "converted"  # the folder in the cache
MEMORY, FACTOR = 3 * 2**30, 3
"""The child's memory limit: a number of bytes, plus a multiple of the size of the weights."""
SECONDS, A_BYTE = 300, 2e-8
"""The child's limit on processor seconds: a constant, plus seconds per byte."""
OVER_A_LIMIT = ("MemoryError", "allocate memory", "File too large")
"""Words of the errors that a limit on memory or file size raises in the child."""
LONGEST_NAME = 60
"""The maximum letters of a part's name in an error message."""
wanted: ContextVar[Callable[[str], None] | None] = ContextVar("wanted", default=None)
"""In a command called with `--convert`: the function that tells the user about a conversion."""


def is_pickled(folder: Path) -> bool:
    """True if the folder has weights that `converted` can read."""
    return any((folder / name).is_file() for name in PICKLES)


def is_converted(folder: Path) -> bool:
    """True if the cache has the conversion of this folder's pickled weights."""
    return is_pickled(folder) and (_place(_sources(folder.resolve())) / RECORD).is_file()


def converted(folder: Path) -> Path | None:
    """Return the safetensors folder made from this folder's pickled weights.

    Returns None if there is none and `--convert` is not given. Raises UnsafeWeights if they hold more than tensors, or
    cannot be read within the limits.
    """
    if not is_pickled(folder):
        return None
    sources = _sources(folder.resolve())
    target = _place(sources)
    if (target / RECORD).is_file():
        return target
    tell = wanted.get()
    if tell is None:
        return None
    read_only.refuse()
    size = sum(path.stat().st_size for path in sources)
    tell(f"Converting {folder.name}: {byte_size(size)} of pickled weights to safetensors.")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with whole_folder(target, replace=True) as draft:
            _run_child(sources, draft, size)
            for path in folder.iterdir():
                if path.is_file() and path.suffix in (".json", ".txt", ".model") and path.name not in PICKLES:
                    shutil.copyfile(path, draft / path.name)
            record = {
                "from": {path.name: sha256(path) for path in sources},
                "to": {path.name: sha256(path) for path in sorted(draft.glob("*.safetensors"))},
            }
            (draft / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except UnsafeWeights:
        with suppress(OSError):  # empty folders of the cache, up to the folder of all conversions
            for empty in target.parents:
                empty.rmdir()
                if empty.name == CONVERTED:
                    break
        raise
    for name, digest in (*record["from"].items(), *record["to"].items()):
        tell(f"sha256 {digest}  {name}")
    tell(f"The converted model is {target}. Later commands and the dashboard find it there.")
    return target


def _sources(folder: Path) -> list[Path]:
    """Return the pickled files of a folder, or the files named in its index. Raises UnsafeWeights."""
    whole, index, adapter = (folder / name for name in PICKLES)
    if not index.is_file() or whole.is_file():
        return [whole if whole.is_file() else adapter]
    try:
        names = sorted(set(json_text.read(index)["weight_map"].values()))
        strange = next((name for name in names if not _is_part(folder, name)), None)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise UnsafeWeights(f"'{index}' is not an index of pickled weights; download the model again.") from error
    if not names:
        raise UnsafeWeights(f"'{index}' names no parts, so there are no weights; download the model again.")
    if strange is not None:
        name = strange if len(strange) <= LONGEST_NAME else f"{strange[:LONGEST_NAME]}…"
        raise UnsafeWeights(f"'{index}' names the part '{name}', which is not in the folder; download the model again.")
    return [folder / name for name in names]


def _is_part(folder: Path, name: str) -> bool:
    """True if an index may name this file: it must be in the folder itself."""
    try:
        return Path(name).name == name and name.endswith(".bin") and (folder / name).is_file()
    except OSError:  # not a possible file name
        return False


def _place(sources: Sequence[Path]) -> Path:
    """Return the folder for the conversion of these files; other files get another one.

    It ends with the source folder's name. A snapshot in the hub's cache keeps the two parent folders that identify it.
    """
    folder = sources[0].parent
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    root = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "skillviz")
    parts = folder.parts[-3:] if folder.parent.name == "snapshots" else folder.parts[-1:]
    return root.joinpath(CONVERTED, hashlib.sha256(json.dumps(stamps).encode()).hexdigest()[:16], *parts)


def _run_child(sources: Sequence[Path], draft: Path, size: int) -> None:
    limits = [MEMORY + FACTOR * size, round(SECONDS + A_BYTE * size), 2 * size + 2**20]
    command = [sys.executable, "-m", "skillviz.models.unpickle", str(draft), *map(str, limits)]
    child = subprocess.run(
        [*command, *map(str, sources)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**os.environ, **importable(), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    if child.returncode:
        last = (child.stderr.strip().splitlines() or ["it ended without a reason"])[-1]
        if child.returncode < 0 or any(words in last for words in OVER_A_LIMIT):
            last = "it was stopped by the limits on memory, time or file size"
        why = child.stdout.strip() or last.rstrip(".")
        raise UnsafeWeights(
            f"'{sources[0].parent.name}' cannot be converted: {why}. Take a revision with safetensors, or save the "
            "model again with save_pretrained."
        )

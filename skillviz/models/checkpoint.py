"""Facts from a model's folder, without torch: configuration, safetensors headers, a hash of the weights."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from skillviz import json_text
from skillviz.errors import BadModel, CorruptFile, ModelNotFound
from skillviz.models.fetch import hub_name
from skillviz.models.heads import outer_prefix
from skillviz.tasks.refusals import refused

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"

# Bits of an entry, by the format's name of the dtype.
BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64"), 64),
}
FLOATS = ("F16", "BF16", "F32", "F64")
HALF = "F16"
NUMPY = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
"""The floating dtypes that numpy has too, and that can therefore be rounded to float16 without torch."""
_WRAPPING = r"(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module|_fpw_module)\."
WRAPPERS = (
    rf"^(?:{_WRAPPING}|(?:module|_forward_module)\.)+",
    *(rf"(?<=\.)(?:{_WRAPPING}){{1,{longest}}}" for longest in (4, 5, 6, 7)),
)
"""Patterns of the prefixes that torch.compile (`_orig_mod.`), DataParallel (`module.`), FSDP and others add to names.

Each pattern is removed once per name. So a name may have four wrapped modules, each wrapped several times.
"""
LONGEST_HEADER = 100_000_000
CHUNK = 1 << 22
_known: dict[tuple[tuple[str, int, int, bool], ...], str] = {}


class _Frozen(BaseModel):
    """The configuration entry of a model stored without its frozen tensors: see `models.frozen_tensors`."""

    fingerprint: str | None = None
    tensors: dict[str, str] | None = None
    rows: dict[str, str] | None = None
    dtype: str | None = None
    hub: str | None = None


class _Config(BaseModel):
    """The types of the config.json fields read here; each may be absent or null."""

    model_type: str | None = None
    architectures: list[str] | None = None
    problem_type: str | None = None
    vocab_size: Annotated[int, Field(ge=1)] | None = None
    id2label: dict[int, Any] | None = None
    skillviz_frozen: _Frozen | None = None
    skillviz_max_length: Annotated[int, Field(ge=4)] | None = None


class Rows(NamedTuple):
    """The changed rows of a matrix: their numbers in ascending order, int32 [k], and their values [k, width]."""

    numbers: Stored
    values: Stored

    def indices(self) -> np.ndarray:
        """Return the numbers as int32 [k]."""
        return np.frombuffer(b"".join(self.numbers.parts()), "<i4")


@dataclass(frozen=True)
class Stored:
    """One tensor of a file: shape, dtype as the format names it, and its bytes [start, end) in the file.

    `rounded` is set if its values are read as float16 from a file of any dtype; `name` is its name in the file.
    `changed` are rows whose values are stored elsewhere, in the dtype in which this tensor is read.
    """

    shape: tuple[int, ...]
    dtype: str
    file: Path
    start: int
    end: int
    rounded: bool = False
    name: str = ""
    changed: Rows | None = None

    @property
    def kind(self) -> str:
        """The dtype in which its values are read."""
        return HALF if self.rounded else self.dtype

    def parts(self) -> Iterator[bytes]:
        """Yield the bytes of its values, piece by piece."""
        if self.changed is None:
            yield from self._pieces(CHUNK)
            return
        numbers, values = self.changed.indices(), b"".join(self.changed.values.parts())
        of_row = (self.end - self.start) // self.shape[0]
        new, row = np.frombuffer(values, np.uint8).reshape(len(numbers), -1), 0
        for piece in self._pieces(max(1, CHUNK // of_row) * of_row):
            rows = np.frombuffer(piece, np.uint8).reshape(-1, new.shape[1]).copy()
            first, last = np.searchsorted(numbers, [row, row + len(rows)])
            rows[numbers[first:last] - row] = new[first:last]
            yield rows.tobytes()
            row += len(rows)

    def _pieces(self, size: int) -> Iterator[bytes]:
        """Yield the bytes of the file's own values; each piece but the last is made from `size` bytes of the file."""
        with self.file.open("rb") as file:
            file.seek(self.start)
            left = self.end - self.start
            while left > 0 and (part := file.read(min(size, left))):
                yield (
                    part
                    if not self.rounded or self.dtype == HALF
                    else np.frombuffer(part, NUMPY[self.dtype]).astype("<f2").tobytes()
                )
                left -= len(part)


@dataclass(frozen=True)
class ModelInfo:
    """A model's folder without its weights.

    `tensors` are named as in the files, but without prefixes of wrappers, and without a prefix that all share and that
    no model of the family has. `adapter` is the adapter_config.json of a LoRA checkpoint, whose `config` may be empty.
    `wrapper` is the part removed from names, such as `_orig_mod.` or `net.`, and '' for most models; `renames` are the
    patterns that remove it, in order.
    """

    folder: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Stored]
    adapter: Mapping[str, Any] | None = None
    wrapper: str = ""
    renames: tuple[str, ...] = ()

    def __repr__(self) -> str:
        kind = "adapter" if self.adapter is not None else self.model_type
        return f"ModelInfo({self.id}, {kind}, {len(self.tensors)} tensors)"

    @property
    def id(self) -> str:
        """The hub id, or the folder's name."""
        return hub_name(self.folder)[0]

    @property
    def revision(self) -> str | None:
        """The hub's commit; None for a folder."""
        return hub_name(self.folder)[1]

    @property
    def model_type(self) -> str:
        """The architecture's name in transformers; '' if the configuration has none."""
        return str(self.config.get("model_type", ""))

    @property
    def architectures(self) -> tuple[str, ...]:
        """The model classes named in the configuration."""
        return tuple(self.config.get("architectures") or ())

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor, by its name in the file."""
        return {name: stored.shape for name, stored in self.tensors.items()}

    @cached_property
    def dtypes(self) -> frozenset[str]:
        """The dtypes of the tensors, as safetensors names them: F32, F16, BF16, ..."""
        return frozenset(stored.kind for stored in self.tensors.values())

    @property
    def dtype(self) -> str:
        """The widest floating dtype of the file.

        It is float64, float32, bfloat16 or float16, and float32 for a mix of the last two.
        """
        floats = self.dtypes & set(FLOATS)
        if floats == {"F16", "BF16"}:
            return "float32"
        names = (("F64", "float64"), ("F32", "float32"), ("BF16", "bfloat16"), ("F16", "float16"))
        return next((name for short, name in names if short in floats), "float32")

    @property
    def vocab_size(self) -> int | None:
        """The rows of the token embedding, as configured."""
        size = self.config.get("vocab_size")
        return None if size is None else int(size)

    @property
    def rounded(self) -> bool:
        """True if its values are read as float16, see `read_as_float16`."""
        return any(stored.rounded for stored in self.tensors.values())

    @property
    def can_be_rounded(self) -> bool:
        """True if `read_as_float16` can read it."""
        return self.dtypes & set(FLOATS) <= NUMPY.keys()

    def read_as_float16(self) -> ModelInfo:
        """Return the same model with every value rounded to float16.

        Non-float tensors (positions in old files) are left out. Its fingerprint is computed from the rounded values, so
        that copies in other dtypes have the same one. Raises BadModel for a floating dtype that numpy does not have.
        """
        floats = {name: stored for name, stored in self.tensors.items() if stored.dtype in FLOATS}
        if other := sorted({stored.dtype for stored in floats.values()} - NUMPY.keys()):
            raise BadModel(
                f"'{self.id}' is stored as {other[0]}, which cannot be rounded to float16; take it as "
                f"{' or '.join(NUMPY)}."
            )
        return replace(self, tensors={name: replace(stored, rounded=True) for name, stored in floats.items()})

    @cached_property
    def fingerprint(self) -> str:
        """The sha256 of the weights (reads the whole file once)."""
        return fingerprint(self.tensors)

    def identity(self) -> dict[str, Any]:
        """Return {id, revision, fingerprint}, which identify this model in a run or a graft."""
        return {"id": self.id, "revision": self.revision, "fingerprint": self.fingerprint}


def own_dtype(base: ModelInfo, finetuned: ModelInfo) -> str:
    """Return the dtype for holding a pair's own files: bfloat16 if both are in bfloat16, otherwise float32."""
    return "bfloat16" if {base.dtype, finetuned.dtype} == {"bfloat16"} else "float32"


def read_info(folder: Path | str) -> ModelInfo:
    """Return the ModelInfo of a resolved folder.

    Raises CorruptFile if a file is truncated or unreadable, ModelNotFound if one is missing, BadModel if an adapter is
    in the folder of a whole model.
    """
    folder = Path(folder)
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        # transformers would load both and combine them; it is unclear which of them is meant
        if any((folder / name).is_file() for name in (SINGLE, INDEX)):
            raise BadModel(
                f"'{folder}' holds a whole model and an adapter; move the adapter_* files to another folder."
            )
        config = _read_config(folder / "config.json") if (folder / "config.json").is_file() else {}
        weights = folder / "adapter_model.safetensors"
        if not weights.is_file():
            raise ModelNotFound(
                f"'{folder}' has an adapter_config.json but no adapter_model.safetensors; save the adapter again with "
                "`save_pretrained`."
            )
        return ModelInfo(folder, config, read_header(weights), json_text.read_object(adapter))
    if not (folder / "config.json").is_file():
        raise ModelNotFound(f"'{folder}' has no config.json; a model's folder needs config.json and safetensors.")
    config = _read_config(folder / "config.json")
    tensors: dict[str, Stored] = {}
    for path in _weight_files(folder):
        tensors |= read_header(path)
    named = _plain_names(tensors, str(config.get("model_type", "")))
    plain = {named.plain[name]: stored for name, stored in tensors.items()}
    if len(plain) < len(tensors):
        raise CorruptFile(
            f"'{folder}' has a tensor both with and without '{named.wrapper}' in its name; save it again."
        )
    return ModelInfo(folder, config, plain, wrapper=named.wrapper, renames=named.renames)


class _Names(NamedTuple):
    """The model's own name of each tensor, the part removed from a name, and the patterns that remove it."""

    plain: dict[str, str]
    wrapper: str
    renames: tuple[str, ...]


def _plain_names(names: Collection[str], model_type: str) -> _Names:
    """Return the names without prefixes of wrappers, and without a shared prefix that the family does not have."""
    plain, wrapper = {name: name for name in names}, ""
    renames: list[str] = []
    for pattern in WRAPPERS:
        inside = {name: re.sub(pattern, "", own, count=1) for name, own in plain.items()}
        if inside != plain:
            wrapper = wrapper or next(match[0] for own in plain.values() if (match := re.search(pattern, own)))
            plain, renames = inside, [*renames, pattern]
    if outer := outer_prefix(model_type, plain.values()):
        plain = {name: own.removeprefix(outer) for name, own in plain.items()}
        renames.append(f"^{re.escape(outer)}")
        wrapper = next((n.removesuffix(own) for n, own in plain.items() if n.endswith(own)), outer)
    return _Names(plain, wrapper, tuple(renames))


def _weight_files(folder: Path) -> list[Path]:
    single, index = folder / SINGLE, folder / INDEX
    if single.is_file():
        return [single]
    if not index.is_file():
        raise ModelNotFound(f"'{folder}' has no {SINGLE}; name the folder that `save_pretrained` wrote the model into.")
    try:
        names = sorted({Path(name).name for name in json_text.read_object(index)["weight_map"].values()})
        # a shard must be beside its index, even if the index gives a path
        files = [folder / name for name in names]
        missing = [path.name for path in files if not path.is_file()]
    except (KeyError, TypeError, AttributeError, ValueError, OSError) as error:  # also for names that no file can have
        raise CorruptFile(f"{index} has no weight_map of file names; fetch or save the model again.") from error
    if missing:
        raise CorruptFile(f"{index} names {missing[0]}, which is not there; fetch the model again.")
    return files


def read_header(path: Path) -> dict[str, Stored]:
    """Return name to Stored for every tensor of a file; raises CorruptFile if header and size do not agree."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            raise _corrupt(path, "it ends inside its header")
        text = file.read(length)
    try:
        entries = json_text.loads(text)
        tensors = {
            name: _stored(path, name, entry, 8 + length) for name, entry in entries.items() if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise _corrupt(path, "its header is not readable") from error
    _check_sizes(path, tensors, 8 + length, size)
    return tensors


def _stored(path: Path, name: str, entry: dict[str, Any], offset: int) -> Stored:
    start, end = entry["data_offsets"]
    shape = tuple(int(k) for k in entry["shape"])
    return Stored(shape, str(entry["dtype"]), path, offset + int(start), offset + int(end), name=name)


def _check_sizes(path: Path, tensors: dict[str, Stored], offset: int, size: int) -> None:
    for name, stored in tensors.items():
        bits = BITS.get(stored.dtype)
        if bits is not None and stored.end - stored.start != prod(stored.shape) * bits // 8:
            raise _corrupt(path, f"the shape of '{name}' does not fit its bytes")
    end = offset
    for stored in sorted(tensors.values(), key=lambda one: (one.start, one.end)):
        if stored.start != end:
            raise _corrupt(path, "its tensors do not lie one after the other")
        end = stored.end
    if end != size:
        raise _corrupt(path, f"it has {size:,} bytes and its header says {end:,}")


def _corrupt(path: Path, why: str) -> CorruptFile:
    return CorruptFile(f"{path} is not a complete safetensors file: {why}; fetch or save it again.")


def fingerprint(tensors: Mapping[str, Stored]) -> str:
    """Return the sha256 over name, dtype, shape and bytes of each tensor, in order of name, as hex.

    The folder's name and the division into shards do not change it. The file is streamed. The result is cached in
    memory while path, size and time of the files stay the same.
    """
    changed = [stored.changed.values for stored in tensors.values() if stored.changed]
    key = tuple(sorted({(*_state(s.file), s.rounded) for s in (*tensors.values(), *changed)}))
    if key not in _known:
        _known[key] = _hash(tensors)
    return _known[key]


def _state(path: Path) -> tuple[str, int, int]:
    state = path.stat()
    return str(path.resolve()), state.st_size, state.st_mtime_ns


def _hash(tensors: Mapping[str, Stored]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        stored = tensors[name]
        digest.update(json.dumps([name, stored.kind, list(stored.shape)]).encode())
        for part in stored.parts():
            digest.update(part)
    return digest.hexdigest()


def _read_config(path: Path) -> dict[str, Any]:
    config = json_text.read_object(path)
    try:
        _Config.model_validate(config)
    except ValidationError as error:
        field, reason = refused(error)
        raise CorruptFile(f"'{field}' of {path} cannot be read: {reason}; fetch or save the model again.") from error
    return config

"""A fine-tuned model stored without the tensors that equal its base's; they are read from the base again.

Fine-tuning by the paper's recipe freezes embeddings and language-model head, so most of a small model's file is a copy
of the base. If embeddings are trained, only the rows of tokens in the training texts move. A stripped folder has the
other tensors, and the changed rows of a matrix that mostly equals the base's. Its config.json lists the missing tensors
and the fingerprint of the base that fills them. With `dtype` float16 there, both models are those with every value
rounded to it, so that a base stored in another dtype works as well; `hub` names the published base. Names and headers
need no torch.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillviz.atomic import whole_folder
from skillviz.core.architectures import family_of
from skillviz.core.formats import counted
from skillviz.errors import BadInput, CorruptFile, OtherVersion, SkillvizError, WrongBase
from skillviz.layout import KEY, LAYOUT, refuse_another
from skillviz.models.checkpoint import SINGLE, ModelInfo, Rows, Stored, read_info
from skillviz.models.fetch import resolve

if TYPE_CHECKING:
    import torch

FROZEN = "skillviz_frozen"
"""The field of config.json that lists the omitted tensors, with the layout, the base and its fingerprint."""
FLOAT16 = "float16"
NUMBERS, VALUES = ".rows", ".values"
"""Added to the name of a matrix, these give the names of its changed rows' numbers and values."""
MOST_ROWS = 0.5
"""A matrix with a larger share of changed rows is stored whole."""


@dataclass(frozen=True)
class Stripped:
    """The result of stripping: the fine-tuned model's names of the omitted tensors, and their bytes.

    `rows` is the number of changed rows of each matrix that is stored by rows.
    """

    names: tuple[str, ...]
    bytes: int
    rows: Mapping[str, int]


def left_out(info: ModelInfo) -> dict[str, str]:
    """Return name in the fine-tuned model -> name in the base's files, for tensors omitted or stored by rows."""
    return _named(info, "tensors") | _named(info, "rows")


def _named(info: ModelInfo, which: str) -> dict[str, str]:
    record = info.config.get(FROZEN) or {}
    return {str(name): str(other) for name, other in (record.get(which) or {}).items()}


def published_base(info: ModelInfo) -> str | None:
    """Return the published base as `org/name` or `org/name@revision`; None if the folder does not name it."""
    hub = (info.config.get(FROZEN) or {}).get("hub")
    return str(hub) if hub else None


def base_as_read(info: ModelInfo, base: ModelInfo) -> ModelInfo:
    """Return the base in the form that fills this fine-tuned model: rounded to float16 if its folder says so."""
    is_half = (info.config.get(FROZEN) or {}).get("dtype") == FLOAT16
    return base.read_as_float16() if is_half else base


def wrong_base(info: ModelInfo, base: ModelInfo) -> SkillvizError | None:
    """Return the error against filling the fine-tuned model from this base, or None. Reads the base once."""
    if info.config.get(FROZEN) is None:
        return None
    try:
        refuse_another(info.config[FROZEN], f"the difference '{info.id}'")
    except OtherVersion as error:
        return error
    fingerprint = info.config[FROZEN].get("fingerprint")
    if fingerprint != base.fingerprint:
        return WrongBase(
            f"'{info.id}' is stored without the tensors that equal its base's, and that base has the fingerprint "
            f"{fingerprint[:12]}; '{base.id}' has {base.fingerprint[:12]}. Give that base."
            if fingerprint
            else f"'{info.id}' is stored without the tensors that equal its base's, and does not say which base that "
            "is. Store it again with the `difference` command."
        )
    return None


def filled(info: ModelInfo, base: ModelInfo) -> ModelInfo:
    """Return the fine-tuned model with the base's tensors in place of omitted ones; raises WrongBase, or CorruptFile.

    Its fingerprint equals the original model's, before it was stripped.
    """
    if (error := wrong_base(info, base)) is not None:
        raise error
    missing = {name: other for name, other in left_out(info).items() if name not in info.tensors}
    if lost := sorted(other for other in missing.values() if other not in base.tensors):
        raise CorruptFile(
            f"'{info.id}' is to be filled with '{lost[0]}' of its base, which has no such tensor; fetch both again."
        )
    found = {name: base.tensors[other] for name, other in missing.items()}
    by_rows = _named(info, "rows").keys() & found.keys()
    found |= {name: replace(found[name], changed=_changed_rows(info, name, found[name])) for name in by_rows}
    parts = {f"{name}{part}" for name in by_rows for part in (NUMBERS, VALUES)}
    return replace(info, tensors={name: s for name, s in info.tensors.items() if name not in parts} | found)


def _changed_rows(info: ModelInfo, name: str, base: Stored) -> Rows:
    """Return the changed rows of a matrix; raises CorruptFile if they are missing or do not fit the base's matrix."""
    numbers, values = (info.tensors.get(f"{name}{part}") for part in (NUMBERS, VALUES))
    if numbers is not None and values is not None and numbers.dtype == "I32" and len(base.shape) == 2:
        rows = Rows(numbers, values)
        at = rows.indices()
        fits = values.shape == (len(at), base.shape[1]) and values.kind == base.kind
        if fits and (np.diff(at, prepend=-1) > 0).all() and (at < base.shape[0]).all():
            return rows
    raise CorruptFile(f"the changed rows of '{name}' in '{info.id}' do not fit its base; fetch both again.")


def note(info: ModelInfo, base: ModelInfo) -> str | None:
    """Return a sentence for the user if the fine-tuned model was stored without some tensors."""
    rows = sorted(_named(info, "rows"))
    count = len(left_out(info)) - len(rows)
    named = ", ".join(f"'{name}'" for name in rows)
    parts = [
        *([f"without {counted(count, 'tensor')} equal to the base's (frozen in fine-tuning)"] if count else []),
        *([f"with only the changed rows of {named}"] if rows else []),
    ]
    if not parts:
        return None
    how = ", and ".join(parts)
    return f"The fine-tuned model is stored {how}; the rest is taken from '{base.id}', whose fingerprint matches."


def state_dict(info: ModelInfo) -> dict[str, torch.Tensor]:
    """Return every tensor of a filled model by its plain name, unchanged or rounded if it is read as float16."""
    from safetensors import safe_open  # slow to import, like torch

    tensors: dict[str, torch.Tensor] = {}
    for file in {stored.file for stored in info.tensors.values()}:
        with safe_open(file, framework="pt") as opened:
            for name, stored in info.tensors.items():
                if stored.file == file:
                    tensor = opened.get_tensor(stored.name)
                    tensors[name] = tensor.half() if stored.rounded else tensor
    for name, stored in info.tensors.items():
        if stored.changed is not None:
            part = {"numbers": stored.changed.numbers, "values": stored.changed.values}
            rows = state_dict(replace(info, tensors=part))
            tensors[name] = tensors[name].index_copy(0, rows["numbers"].long(), rows["values"])
    return tensors


def strip(
    folder: Path | str, base: str | Path, dtype: str | None = None, hub: str | None = None, name: str = ""
) -> Stripped:
    """Remove from a fine-tuned folder every tensor whose bytes equal the base's; raises BadInput if none does.

    With `dtype` float16 every value of both is rounded first, and the folder's model becomes the rounded one. `hub` is
    the published base. `name` is the model's name in errors, if the folder is a copy.
    """
    import torch  # slow to import
    from safetensors.torch import save_file  # torch

    if dtype not in (None, FLOAT16):
        raise BadInput(f"'{dtype}' is not a dtype that a difference can be stored in; allowed: {FLOAT16}.")
    folder, first, info = Path(folder), read_info(resolve(base)), read_info(Path(folder))
    check_single(info)
    if dtype:
        first, info = first.read_as_float16(), info.read_as_float16()
    tensors = state_dict(info)
    if dtype and (lost := next((one for one, tensor in tensors.items() if not tensor.isfinite().all()), None)):
        raise BadInput(f"'{lost}' of '{name or info.id}' has values beyond float16; store the whole model instead.")
    alike = _alike(info, first)
    same = {
        one: other
        for one, other in alike.items()
        if b"".join(info.tensors[one].parts()) == b"".join(first.tensors[other].parts())
    }
    matrices = {one: s for one, s in info.tensors.items() if one in alike.keys() - same.keys() and len(s.shape) == 2}
    changed = {one: _differing_rows(stored, first.tensors[alike[one]]) for one, stored in matrices.items()}
    by_rows = {one: rows for one, rows in changed.items() if len(rows) <= MOST_ROWS * matrices[one].shape[0]}
    if not same and not by_rows:
        raise BadInput(
            f"no tensor of '{name or info.id}' equals one of '{first.id}', so there is nothing to leave out."
        )
    rest = {one: tensor for one, tensor in tensors.items() if one not in same and one not in by_rows}
    for one, rows in by_rows.items():
        numbers = torch.from_numpy(rows)
        rest |= {f"{one}{NUMBERS}": numbers.int(), f"{one}{VALUES}": tensors[one][numbers]}
    named = {"dtype": dtype, "hub": hub, "rows": {one: alike[one] for one in sorted(by_rows)}}
    said = {key: value for key, value in named.items() if value}
    frozen = {KEY: LAYOUT, **first.identity(), "tensors": same, **said}
    _rewritten(folder, {**info.config, FROZEN: frozen}, lambda path: save_file(rest, path, metadata={"format": "pt"}))
    return Stripped(
        tuple(same),
        sum(info.tensors[one].end - info.tensors[one].start for one in same),
        {one: len(rows) for one, rows in by_rows.items()},
    )


def fill(folder: Path | str, base: str | Path) -> None:
    """Write the omitted tensors back into the folder's own file; raises WrongBase."""
    from safetensors.torch import save_file  # torch

    folder = Path(folder)
    stripped = read_info(folder)
    info = filled(stripped, base_as_read(stripped, read_info(resolve(base))))
    whole = state_dict(info)
    config = {name: value for name, value in info.config.items() if name != FROZEN}
    _rewritten(folder, config, lambda path: save_file(whole, path, metadata={"format": "pt"}))


def check_single(info: ModelInfo) -> None:
    """Raise BadInput if the model is not a single file of its own, because then nothing can be omitted."""
    if info.adapter is not None or not (info.folder / SINGLE).is_file():
        raise BadInput(f"'{info.id}' is an adapter or in several files; only a {SINGLE} can be stored without tensors.")
    if FROZEN in info.config:
        raise BadInput(f"'{info.id}' is stored without its frozen tensors already.")


def _alike(info: ModelInfo, base: ModelInfo) -> dict[str, str]:
    """Return name in the fine-tuned model -> name in the base, for tensors with equal dtype and shape."""
    prefix = family_of(base.model_type).prefix
    base_names = {name.removeprefix(prefix): name for name in base.tensors}
    alike = {}
    for name, stored in info.tensors.items():
        other = base_names.get(name.removeprefix(prefix))
        if other is not None and (stored.kind, stored.shape) == (base.tensors[other].kind, base.tensors[other].shape):
            alike[name] = other
    return alike


def _differing_rows(one: Stored, other: Stored) -> np.ndarray:
    """Return the numbers of a matrix's rows whose bytes differ."""
    rows = [np.frombuffer(b"".join(s.parts()), np.uint8).reshape(one.shape[0], -1) for s in (one, other)]
    return np.flatnonzero((rows[0] != rows[1]).any(axis=1))


def _rewritten(folder: Path, config: Mapping[str, Any], save: Any) -> None:
    """Replace the folder by one with another configuration and other weights, in one move."""
    with whole_folder(folder, replace=True) as draft:
        shutil.copytree(folder, draft, ignore=shutil.ignore_patterns(SINGLE), dirs_exist_ok=True)
        (draft / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        save(draft / SINGLE)

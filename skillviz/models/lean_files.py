"""Match stored tensors with parameters for lean mode, and check if a pair's files allow it; without torch."""

from __future__ import annotations

from collections.abc import Mapping

from skillviz.errors import BadInput
from skillviz.models.checkpoint import FLOATS, ModelInfo, Stored
from skillviz.models.heads import OLD_NAMES, stands_for
from skillviz.models.preflight import Preflight, is_padded

INSTEAD = "switch lean mode off (leave out --lean)"


def lean_refusal(check: Preflight) -> BadInput | None:
    """Return the reason why a valid pair cannot be opened in lean mode; None if it can, as far as headers show."""
    why = None
    if check.finetuned.adapter is not None:
        why = f"'{check.finetuned.id}' is a LoRA adapter; merge it into its base and save that model"
    elif is_padded(check.base, check.finetuned):
        why = "the two vocabularies have different numbers of rows; save both with the same number"
    elif check.added_rows:
        why = "fine-tuning added tokens in vocabulary rows that the base has spare"
    elif check.table is not None:
        try:
            for info in (check.base, check.finetuned):
                stored_as(info, check.table.shapes)
        except BadInput as error:
            return error
    return BadInput(f"lean mode reads both models' values from their files: {why}, or {INSTEAD}.") if why else None


def stored_as(info: ModelInfo, shapes: Mapping[str, tuple[int, ...]]) -> list[Stored]:
    """Return the stored tensor of each parameter, found by name with or without the body's prefix; raises BadInput."""
    files = dict[str, Stored]()
    for name, stored in info.tensors.items():
        for old, new in OLD_NAMES:
            name = name.replace(old, new)
        files[name] = stored
    by_end = dict[str, list[str]]()
    for name in files:
        by_end.setdefault(_end(name), []).append(name)
    found = []
    for name, shape in shapes.items():
        alike = [one for one in by_end.get(_end(name), ()) if _is_same(name, one)]
        own = files.get(name) or (files[alike[0]] if len(alike) == 1 else None)
        if own is None and (output := stands_for(info, name, tuple(shape))) is not None:
            own = files[output]
        if own is None or own.shape != tuple(shape) or own.dtype not in FLOATS:
            raise BadInput(
                f"lean mode cannot read '{name}': '{info.id}' does not store it under that name and shape; {INSTEAD}."
            )
        found.append(own)
    return found


def _end(name: str) -> str:
    return ".".join(name.split(".")[-2:])


def _is_same(name: str, other: str) -> bool:
    """True if one name is the other with a prefix."""
    return name.endswith(f".{other}") or other.endswith(f".{name}")

"""Differences between runs, models or searches: the fields, and labels that distinguish them.

Tables average only over seeds: `seed` and `data_seed` of a fine-tuned model, and `seed` of a localizer. Models of one
base, recipe and task that differ in any other field get the differences as their label, such as `rank 8`; so do
searches of one localizer, such as `lr=0.1`. Equal fields are not in the label. A label is only for people: no code
parses it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

Name = str | tuple[str, ...]
"""A field's name; for a field of a part its path, such as ("region", "model", "steps")."""
Fields = Mapping[Any, Any]
"""Requested settings by Name, with JSON values; None is the default."""
Rivals = Mapping[Any, Sequence[Any]]
"""The fields in which some records differ, with their values."""


def path(name: Name) -> tuple[str, ...]:
    """The parts of the name; the field's own name is last."""
    return (name,) if isinstance(name, str) else name


SEQUENCE = ("mode", "stage")
"""Fields that the label of a sequence's model always has: a model after another stage is another model."""
MODEL = "model"  # the field that names a fine-tuned model that already existed


def differing(records: Sequence[Fields]) -> dict[Any, list[Any]]:
    """The fields in which the records differ, in the order of their first use, with each record's value; None if a
    record does not have the field."""
    names = dict.fromkeys(name for record in records for name in record)
    values = {name: [record.get(name) for record in records] for name in names}
    return {name: of for name, of in values.items() if len({json.dumps(value) for value in of}) > 1}


def label_variants(
    records: Sequence[tuple[Hashable, Fields]], label: Callable[[Fields, Rivals], str] | None = None
) -> list[str]:
    """For each (group, fields), the label that distinguishes it in its group, made by `label` (default:
    `model_label`)."""
    groups: dict[Hashable, dict[str, Fields]] = {}
    for group, fields in records:
        groups.setdefault(group, {})[json.dumps(list(fields.items()))] = fields
    rivals = {group: differing(list(every.values())) for group, every in groups.items()}
    return [(label or model_label)(fields, rivals[group]) for group, fields in records]


def search_label(fields: Fields, rivals: Rivals) -> str:
    """The fields of a search in which it differs from others: `lr=0.1 steps=50`."""
    return " ".join(f"{name}={fields[name]}" for name in rivals if name in fields)


def model_label(fields: Fields, rivals: Rivals) -> str:
    """The fields of a fine-tuned model in which it differs from others: `rank 8, 50 steps`."""
    always = [_words(name, fields[name], [fields[name]]) for name in SEQUENCE if name in fields]
    rest = [_words(n, fields[n], values) for n, values in rivals.items() if n in fields and n not in SEQUENCE]
    return ", ".join([*always, *rest])


def run_label(fields: Fields, rivals: Rivals) -> str:
    """The fields of a run, model and search together, in which it differs from others."""
    return ", ".join(_words(name, fields[name], values) for name, values in rivals.items() if name in fields)


WORDS: dict[str, Callable[[Any], str]] = {
    "steps": lambda value: f"{value} step{'s' * (value > 1)}",
    "k_shot": lambda value: f"{value}-shot",
    "lr": lambda value: f"lr {value:g}",
    "matrices": lambda value: f"last {value} {'matrices' if value > 1 else 'matrix'}",
    "head": lambda value: f"{value} head",
    "stage": lambda value: f"after stage {value}",
    **dict.fromkeys(("mode", "localizer", "sizes", "optimizer", "recipe", MODEL), str),
}
"""A field's value in words; other fields have their name before the value."""


def _words(name: Name, value: Any, rivals: Sequence[Any]) -> str:
    """The value of a field in words. `rivals` are all its values: files are given only by name if their names
    differ."""
    *parts, last = path(name)
    before = " ".join(parts)
    if value is None:
        words = "all examples" if last == "k_shot" else f"{last} by default"
    elif last in ("tasks", MODEL):
        words = _paths(value, rivals) if last == MODEL else f"tasks {_paths(value, rivals)}"
    elif isinstance(value, list | dict):
        words = f"{last} {json.dumps(value)}"
    else:
        words = WORDS[last](value) if last in WORDS else f"{last} {value}"
    return f"{before} {words}".lstrip()


def _paths(value: Any, rivals: Sequence[Any]) -> str:
    """Files or folders joined by +."""
    short = {json.dumps(rival): "+".join(PurePosixPath(path).stem for path in _list(rival)) for rival in rivals}
    return short[json.dumps(value)] if len(set(short.values())) == len(short) else "+".join(map(str, _list(value)))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]

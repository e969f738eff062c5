"""In which fields the specs of several runs differ, with defaults named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from skillviz.runs.spec import RunSpec
from skillviz.ui.pages.compare.compared import Side

NOT_GIVEN, DEFAULT, DIFFERS = "not given", " (default)", "≠ "
WITHOUT_DEFAULT = ("base", "finetuned", "task")


def spec_differences(found: Sequence[Side], baseline: Side) -> pd.DataFrame:
    """One row a field in which the specs differ, one column a run; what differs from the baseline begins with ≠."""
    asked = {side.key: _fields(side.run.spec) for side in found}
    usual = _fields(RunSpec(base="-", finetuned="-", task="-"))
    rows = []
    for field in dict.fromkeys(name for fields in asked.values() for name in fields):
        given = {key: fields.get(field) for key, fields in asked.items()}
        if len(set(given.values())) > 1:
            own = given[baseline.key]
            said = {
                key: (DIFFERS if value != own else "") + _written(value, field, usual) for key, value in given.items()
            }
            rows.append({"field": field, **said})
    return pd.DataFrame(rows, columns=["field", *asked])


def _fields(spec: RunSpec) -> dict[str, str | None]:
    """The spec's fields as texts, its options each on its own; None where nothing was given."""
    values = spec.model_dump(mode="json")
    options = {f"option {name}": value for name, value in values.pop("options").items()}
    return {name: _text(value) for name, value in {**values, **options}.items()}


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


def _written(value: str | None, field: str, usual: Mapping[str, str | None]) -> str:
    is_default = value == usual.get(field) and field not in WITHOUT_DEFAULT
    return (NOT_GIVEN if value is None else value) + (DEFAULT if is_default else "")

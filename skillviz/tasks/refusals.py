"""Messages for a wrong field of a spec: pydantic's own describe types instead of allowed values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from skillviz.errors import BadInput

Model = TypeVar("Model", bound=BaseModel)

DEVICE = r"^(auto|cpu|cuda(:\d+)?)$"
NAME = r"^[\w.-]+$"
FORMS = {
    DEVICE: "auto, cpu, cuda or, with a number, cuda:0",
    NAME: "a name of letters, digits, dots, underscores and hyphens",
}
LONGEST = 60  # longest value in a message, in characters

WORDS = {
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be {ge} or more",
    "less_than_equal": "must be {le:,} or less",
    "finite_number": "must be a finite number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "literal_error": "must be one of {expected}",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
    "model_type": "must be a mapping of names to values",
}


def validated(
    kind: type[Model], values: Mapping[str, Any], of: str, field_of: str = "a field", unlisted: tuple[str, ...] = ()
) -> Model:
    """Return the model of these values; raises BadInput with one sentence if a field is wrong or unknown.

    `of` names the object in the sentence, `field_of` what an unknown field is not; `unlisted` fields are not suggested.
    """
    try:
        return kind(**values)
    except ValidationError as error:
        field, reason = refused(error)
        if error.errors()[0]["type"] == "extra_forbidden":
            known = ", ".join(name for name in kind.model_fields if name not in unlisted)
            raise BadInput(f"'{field}' is not {field_of}; known: {known}.") from error
        raise BadInput(f"'{field}' of {of} cannot be used: {reason}." if field else f"{reason}.") from error


def refused(error: ValidationError) -> tuple[str, str]:
    """The first field that is wrong (empty if several fields conflict), and the allowed values as a phrase."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "value_error":
        return field, first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        return field, "it must be given"
    context = first.get("ctx", {})
    words = WORDS.get(first["type"])
    if first["type"] == "string_pattern_mismatch":
        rule = f"must be {FORMS.get(context['pattern'], 'of the form ' + context['pattern'])}"
    else:
        rule = words.format(**context) if words else re.sub(r"^\w+ should ", "must ", first["msg"])
    value = repr(first["input"])
    quoted = value if len(value) <= LONGEST else f"{value[: LONGEST - 3]}..."
    return field, f"it is {quoted}, and {rule}"

"""Messages for a wrong field of a spec: pydantic's own describe types instead of allowed values."""

from __future__ import annotations

import re

from pydantic import ValidationError

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

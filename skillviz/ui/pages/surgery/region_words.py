"""What a region built by hand means, in words: `the value matrices of layers 2 to 4`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skillviz.core import formats
from skillviz.core.region_expression import ALGEBRA

FLAT = ("LayerNorm", "other")  # kinds whose weights are not all matrices
NAMED = 4  # so many names are listed; of more, the rest are counted


def meaning(expression: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The expression in words, in Markdown; `names` are those of runs, by id."""
    if "run" in expression:
        name = names.get(expression["run"], f"run `{expression['run']}`")
        if "size" not in expression:
            return f"the region of {name}"
        return f"the first {formats.counted(expression['size'], 'entry')} of the ranking of {name}"
    for algebra in ALGEBRA:
        if algebra in expression:
            return _combined(algebra, [_inner(part, names) for part in expression[algebra]])
    return _parts(expression)


def sentence(expression: Mapping[str, Any], names: Mapping[str, str], size: int, d: int) -> str:
    """The meaning as a sentence with its size."""
    said = meaning(expression, names)
    return (
        f"{said[:1].upper()}{said[1:]}: **{formats.counted(size, 'entry')}**, **{formats.share(size / d)}** of the "
        f"{formats.count(d)} that can be grafted."
    )


def _inner(expression: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The meaning of a part; in brackets where it is put together of others itself."""
    said = meaning(expression, names)
    return f"({said})" if any(len(expression.get(algebra, ())) > 1 for algebra in ALGEBRA) else said


def _combined(algebra: str, said: list[str]) -> str:
    if len(said) == 1:
        return said[0]
    if algebra == "union":
        return " together with ".join(said)
    if algebra == "difference":
        return f"{said[0]} without {formats.listed(said[1:], NAMED)}"
    return f"what {formats.listed(said, NAMED)} share"


def _parts(expression: Mapping[str, Any]) -> str:
    """Conditions: rows, kinds, weights or biases, tensors, layers."""
    if not expression:
        return "everything that can be grafted"
    if any(value == [] for value in expression.values()):
        return "nothing at all"
    where = [_layers(expression["layers"])] if "layers" in expression else []
    where += [_tensors(expression["parameters"])] if "parameters" in expression else []
    rows = f"{_spans('row', expression['rows'])} of " if "rows" in expression else ""
    what = rows + _things(expression.get("kinds", ()), expression.get("biases"))
    return f"{what} {'' if not where else 'of '}{' in '.join(where)}".strip()


def _things(kinds: Sequence[str], biases: bool | None) -> str:
    flat = not kinds or any(kind in FLAT for kind in kinds)
    noun = "weights" if flat else "matrices"
    what = {None: f"{noun} and biases", False: noun, True: "biases"}[biases]
    return f"the {formats.listed(list(kinds), len(kinds))} {what}" if kinds else f"the {what}"


def _layers(layers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for layer in layers:
        if spans and layer == spans[-1][1] + 1:
            spans[-1][1] = layer
        else:
            spans.append([layer, layer])
    return _spans("layer", spans)


def _spans(noun: str, spans: Sequence[Sequence[int]]) -> str:
    """`layer 3`, `layers 2 to 4 and 7`."""
    said = [str(first) if first == last else f"{first} to {last}" for first, last in spans]
    several = len(spans) > 1 or spans[0][0] != spans[0][1]
    return f"{noun}{'s' if several else ''} {formats.listed(said, NAMED + 2)}"


def _tensors(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"the tensor `{names[0]}`"
    return f"{len(names)} tensors chosen by name"

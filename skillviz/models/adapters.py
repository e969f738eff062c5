"""Adapters: small bottlenecks between the layers of a frozen base. Their places, their number, and a stored model.

An adapter reads the output of a projection, before the residual connection and its LayerNorm, and adds a correction
to it. Houlsby et al. 2019 ("Parameter-Efficient Transfer Learning for NLP") put one after the attention and one after
the feed-forward part of each layer; Pfeiffer et al. 2021 ("AdapterFusion") only the second. Ours differ from the
sources in three points: LayerNorm is not trained (the sizes printed in the paper's tables 6 and 7 leave no room for
it), Pfeiffer's reads the projection itself and not the sum after LayerNorm, and dropout follows the adapter.

A stored model is a folder with adapter_config.json, adapter_model.safetensors (adapters and head) and the usual
config.json. It opens beside its base alone. Needs no torch; `bottleneck` computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillviz.core.architectures import ATTENTION_OUTPUT, EXPERT_OUT, MLP_OUT, family_of
from skillviz.core.formats import counted
from skillviz.core.parameters import ParameterTable, graftable
from skillviz.errors import BadInput, BadModel, CorruptFile, PairMismatch, WrongBase
from skillviz.layout import refuse_another
from skillviz.models.checkpoint import ModelInfo
from skillviz.models.heads import is_head, own_shapes
from skillviz.tasks.refusals import refused

FIELD = "skillviz_adapters"
"""The field of adapter_config.json with the facts of our adapters, which no other program's adapters have."""
PREFIX = "adapters."
"""The beginning of the names of their parameters: `adapters.<layer>.<part>.<down|up>.<weight|bias>`."""
PARTS: Mapping[str, str] = {"attention": ATTENTION_OUTPUT, "feed_forward": MLP_OUT}
"""The parts of a layer, each with the kind of the projection whose output its adapter reads."""
PLACEMENTS: Mapping[str, tuple[str, ...]] = {"houlsby": tuple(PARTS), "pfeiffer": ("feed_forward",)}
"""The parts that get an adapter."""


WIDEST = 100_000  # the largest width


class _Stored(BaseModel):
    """The facts of stored adapters; `fingerprint` identifies the weights of the base."""

    model_config = ConfigDict(strict=True, extra="forbid")

    layout: int
    placement: Literal["houlsby", "pfeiffer"]
    width: Annotated[int, Field(ge=1, le=WIDEST)]
    fingerprint: str


def placement_of(recipe: str) -> str:
    """Return the placement of a recipe, houlsby or pfeiffer; empty for recipes without adapters."""
    return name if (name := recipe.removeprefix("adapter-")) in PLACEMENTS else ""


def places(table: ParameterTable, placement: str) -> dict[str, str]:
    """Return the module whose output each adapter reads, by the adapter's name, such as `0.attention`.

    Raises BadModel unless each layer has exactly one such projection, which a mixture of experts has not.
    """
    parts = {PARTS[part]: part for part in PLACEMENTS[placement]}
    found: dict[str, list[str]] = {f"{n}.{part}": [] for n in range(table.layers) for part in parts.values()}
    for parameter in table.parameters:
        module, _, last = parameter.name.rpartition(".")
        name = f"{parameter.layer}.{parts.get(parameter.kind)}"
        if name in found and last == "weight" and len(parameter.shape) == 2:
            found[name].append(module)
    if any(len(modules) != 1 for modules in found.values()) or EXPERT_OUT in table.kinds:
        raise unfit(table.model_type, placement)
    return {name: module for name, (module,) in found.items()}


def unfit(model_type: str, placement: str) -> BadModel:
    """Return the error for a base without exactly one linear projection per layer and part."""
    words = " and ".join(PARTS[part] for part in PLACEMENTS[placement])
    return BadModel(
        f"a '{model_type}' model does not have one linear layer of the kind {words} in each block, so "
        f"{placement.capitalize()} adapters have no place in it; choose another recipe. docs/architectures.md lists "
        "the modules of each family."
    )


def shapes(table: ParameterTable, placement: str, width: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each adapter's parameters, by name."""
    found: dict[str, tuple[int, ...]] = {}
    for name, module in places(table, placement).items():
        weight = table.shapes[f"{module}.weight"]
        (size,) = table.shapes.get(f"{module}.bias", weight[:1])  # a transposed weight has a bias beside it
        for part, shape in (("down", (width, size)), ("up", (size, width))):
            found |= {f"{PREFIX}{name}.{part}.weight": shape, f"{PREFIX}{name}.{part}.bias": shape[:1]}
    return found


def trained(base: ModelInfo, placement: str, width: int) -> str:
    """Return the number of adapters and of their parameters in words, from the headers of the base.

    An adapter of width w on m values has 2mw + m + w parameters. Raises BadModel if the base has no place for them.
    """
    found = shapes(graftable(base.model_type, own_shapes(base), base.config), placement, width)
    adapters = counted(len(found) // 4, f"{placement.capitalize()} adapter")  # each has four tensors
    return f"{adapters} of width {width:,} with {sum(map(prod, found.values())):,} parameters"


def stored(info: ModelInfo) -> Mapping[str, Any] | None:
    """Return the facts of the adapters that a folder holds, not yet checked; None for any other model."""
    return facts if isinstance(facts := (info.adapter or {}).get(FIELD), dict) else None


def read(info: ModelInfo) -> tuple[str, int, str]:
    """Return placement, width and the base's fingerprint of stored adapters; raises CorruptFile, or OtherVersion."""
    refuse_another(stored(info) or {}, f"the model with adapters '{info.id}'")
    try:
        facts = _Stored.model_validate(stored(info))
    except ValidationError as error:
        field, reason = refused(error)
        raise CorruptFile(
            f"'{field}' of the adapters in '{info.id}' cannot be read: {reason}; fine-tune the model again."
        ) from error
    return facts.placement, facts.width, facts.fingerprint


def check(info: ModelInfo, base: ModelInfo) -> Iterator[BadModel]:
    """Yield the reasons against opening stored adapters beside this base: other weights, or other names and shapes."""
    placement, width, fingerprint = read(info)
    if fingerprint != base.fingerprint:
        yield WrongBase(
            f"the adapters '{info.id}' were trained on a base with the fingerprint {fingerprint[:12]}; '{base.id}' has "
            f"{base.fingerprint[:12]}. Give that base."
        )
        return
    prefix, kind = family_of(base.model_type).prefix, base.model_type
    other = [n for n in info.shapes if not n.startswith(PREFIX) and not is_head(kind, n.removeprefix(prefix))]
    if other:
        yield PairMismatch(
            f"the adapters '{info.id}' hold '{min(other)}', a parameter of the base; allowed are adapters and a head. "
            "Fine-tune the model again."
        )
        return
    wanted = shapes(graftable(base.model_type, own_shapes(base), base.config), placement, width)
    found = {name: shape for name, shape in info.shapes.items() if name.startswith(PREFIX)}
    if wrong := next((name for name in sorted(wanted | found) if wanted.get(name) != found.get(name)), None):
        here, there = (" x ".join(map(str, one[wrong])) if wrong in one else "missing" for one in (found, wanted))
        yield PairMismatch(
            f"'{wrong}' of the adapters '{info.id}' is {here}, and {placement.capitalize()} adapters of width {width} "
            f"in '{base.id}' need {there}; fine-tune the model again."
        )


def refuse_region(info: ModelInfo) -> None:
    """Raise BadInput for a model with adapters, whose trained parameters the base does not have."""
    if stored(info) is not None:
        raise BadInput(
            f"'{info.id}' is a base with trained adapters, and all its other parameters equal the base's, so no region "
            "of it can be grafted. A study scores it (localizer: none); to localize, give a model fine-tuned with "
            "another recipe."
        )

"""Write docs/architectures.md: every model family of the table, with the layers and modules that skillviz finds in it.

`python docs/architectures.py`. Each family's model is built tiny from its configuration; `tests/test_architectures.py`
takes each through preflight, localize, export and apply, and compares its line of the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

from skillviz.core.architectures import FAMILIES, KINDS, OTHER
from skillviz.core.parameters import Parameter, ParameterTable, graftable, heads_of_kind
from tests.tiny_families import family_model, family_readout

PAGE = PROJECT / "docs" / "architectures.md"
COLUMNS = ("family", "model class", "layers", "modules", "notes")
WORDS = """# Architectures

Which layers and modules skillviz finds in each model family. The map of a region, its attention heads, its parts and
the localizer [`kinds`](localizers.md) all read this one table.

Each family was built tiny from its configuration, with a fine-tuned twin, and taken through `preflight`, `localize`,
`export` and `apply`. The applied model's scores equal the graft's bit for bit. No trained weights were used, so this
page says nothing about how small a skill is in a family.

- *Layers* are those of the tiny model. A decoder's layers follow its encoder's.
- *Modules* joined by + share one tensor, and each has its own column in the map. Biases of all modules share a column.
- A gated MLP is out(activation(gate(x)) × up(x)). *MLP in* is the first layer of an MLP without a gate.
- With grouped queries, several query heads share one key and value.
- Encoder-decoder models are read by their classification head. Those with a language-model head are refused.
- `python docs/architectures.py` writes this page. A test fails when it is out of date.

## Families in the table

"""
ABSENT = """
## Not in the table

transformers has a sequence-classification class for these, too. Their tensors are graftable where they stand in
numbered blocks, under their own names and with the kind *other*. Most read pictures or page layouts, or mix attention
with recurrent layers. They were not tried.

"""


def row(family: str, model_class: str, table: ParameterTable) -> str:
    """Return the family's line of the page."""
    cells = (f"`{family}`", model_class, _layers(table), _modules(table), _notes(table))
    return f"| {' | '.join(cells)} |"


def _layers(table: ParameterTable) -> str:
    if table.stacks:
        return ", ".join(f"{stack.name} {stack.first}–{stack.last}" for stack in table.stacks)
    return "0" if table.layers == 1 else f"0–{table.layers - 1}"


def _modules(table: ParameterTable) -> str:
    """Return the kinds in the order of the map; kinds that share a tensor are joined."""
    kinds = {kind for parameter in table.parameters for kind in parameter.kinds} - {OTHER}
    fused = {parameter.kinds for parameter in table.parameters if parameter.fused}
    words, done = [], set()
    for kind in (kind for kind in KINDS if kind in kinds):
        together = next((group for group in sorted(fused) if kind in group), (kind,))
        if kind not in done:
            words.append("+".join(together))
            done |= set(together)
    return ", ".join(words)


def _notes(table: ParameterTable) -> str:
    return "; ".join(note for note in (_sharing(table), _heads(table), _others(table)) if note)


def _sharing(table: ParameterTable) -> str:
    return f"each layer is used {table.repeats} times" if table.repeats > 1 else ""


def _heads(table: ParameterTable) -> str:
    if not table.heads:
        return "no attention heads"
    if not table.head_axes:
        return "heads cannot be told apart"
    counts = {kind: _count(table, kind) for kind in ("query", "value")}
    if counts["query"] == counts["value"]:
        return f"{counts['query']} heads"
    return f"{counts['query']} heads share {counts['value']} of key and value"


def _count(table: ParameterTable, kind: str) -> int:
    return max(heads_of_kind(table, p, kind) for p in table.parameters if kind in p.kinds and not p.is_bias)


def _others(table: ParameterTable) -> str:
    """Return the modules inside a block that have no kind of their own."""
    names = dict.fromkeys(_inside(p) for p in table.parameters if p.kind == OTHER)
    return f"other: {', '.join(f'`{name}`' for name in names)}" if names else ""


def _inside(parameter: Parameter) -> str:
    """Return the part of a parameter's name after its last number, without a final `weight` or `bias`."""
    words = parameter.name.split(".")
    last = max(place for place, word in enumerate(words) if word.isdigit())
    return ".".join(word for word in words[last + 1 :] if word not in ("weight", "bias"))


def table_of(family: str) -> tuple[str, ParameterTable]:
    """Return the class and the parameters of the family's tiny model."""
    model = family_model(family, family_readout(family))
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    return type(model).__name__, graftable(family, shapes, model.config.to_dict())


def page(rows: list[str]) -> str:
    """Return the whole page, from one row per family."""
    heading = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    absent = sorted(set(MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES) - set(FAMILIES) - {"gpt-sw3"})
    return WORDS + "\n".join([*heading, *rows]) + "\n" + ABSENT + ", ".join(f"`{name}`" for name in absent) + ".\n"


if __name__ == "__main__":
    PAGE.write_text(page([row(family, *table_of(family)) for family in FAMILIES]), encoding="utf-8")

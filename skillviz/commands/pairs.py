"""`pairs`: well-known public pairs on the Hugging Face Hub, from a table in the package, without using the network."""

from __future__ import annotations

from skillviz.commands import options
from skillviz.commands.output import print_json, print_rows, say
from skillviz.core import formats
from skillviz.models.public_pairs import public_pairs


def pairs(as_json: options.AsJson = False) -> None:
    """List well-known public pairs on the Hugging Face Hub: base, fine-tuned model, task, license and size.

    The list is part of skillviz. Nothing is downloaded until a command uses a pair; its task's data come from the hub,
    too.
    """
    rows = public_pairs()
    columns = ["task", "base", "fine-tuned", "license", "parameters", "weights"]
    cells = [
        [row.task, row.base, row.finetuned, row.license, formats.millions(row.parameters), row.weights] for row in rows
    ]
    print_rows("", columns, cells)
    say(f"Start: {rows[0].localize_command()}")
    pickled = next(command for row in rows if (command := row.convert_command()))
    say(f"Convert bin weights first: {pickled}")
    if as_json:
        print_json({"pairs": [row.model_dump() for row in rows]})

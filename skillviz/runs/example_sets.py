"""Named sets of test examples that a user has saved for a task, beside the notes and in no run.

An example's id is its row in the task's data, so a set means the same examples in every run with the same test data. As
in paired differences, these are the same if the ids and true classes of all test examples are.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from skillviz.atomic import folder_lock, write_text
from skillviz.errors import BadInput
from skillviz.layout import LAYOUT
from skillviz.regular_file import is_regular, reading
from skillviz.runs.record import Frozen, read_as
from skillviz.runs.store import SETS, Store, written
from skillviz.tasks.uploaded import NAME

MOST_SETS, MOST_EXAMPLES = 50, 200_000  # of one task: sets, and examples in all of them


class ExampleSet(Frozen):
    """Some examples by id; `examples` is the digest of all examples of their test data (`Answers.examples`).

    With `by_answers` they were chosen by the answers of models, so that a difference between these models on them shows
    the choice.
    """

    name: str
    examples: str
    ids: tuple[str, ...]
    by_answers: bool = False


class _Sets(Frozen):
    layout: int = LAYOUT
    task: str
    sets: tuple[ExampleSet, ...]


def example_sets(store: Store, task: str) -> dict[str, ExampleSet]:
    """Return the sets of a task by name, in the order of the names; raises StoreError if they cannot be read."""
    path = _path(store, task)
    with reading(f"the file {path} of named sets"):
        sets = read_as(_Sets, path).sets if is_regular(path) else ()
    return {one.name: one for one in sorted(sets, key=lambda one: one.name)}


def change_set(store: Store, task: str, name: str, new: ExampleSet | None) -> None:
    """Store a set in place of the one of this name (empty: as one more); without a new one, the old one is removed.

    Raises BadInput for a name that cannot be one or is taken and for too many sets or examples, and StoreError.
    """
    path = _path(store, task)
    with written(store.root):
        path.parent.mkdir(parents=True, exist_ok=True)
        with folder_lock(path):
            others = [one for one in example_sets(store, task).values() if one.name != name]
            sets = (*others, new) if new else tuple(others)
            if new and (not NAME.fullmatch(new.name) or new.name in {one.name for one in others}):
                raise BadInput(
                    f"'{new.name}' cannot name this set; use letters, digits, '-', '_' and '.', at most 60 characters, "
                    f"and the name of no other set of {task}."
                )
            if len(sets) > MOST_SETS or sum(len(one.ids) for one in sets) > MOST_EXAMPLES:
                raise BadInput(
                    f"this would be too much: a task has at most {MOST_SETS} sets with {MOST_EXAMPLES:,} examples in "
                    "all. Delete a set first."
                )
            record = _Sets(task=task, sets=sets)
            write_text(path, json.dumps(record.model_dump(mode="json"), indent=1) + "\n")


def _path(store: Store, task: str) -> Path:
    """Return the task's file; a task's name may have any letters and any length."""
    return store.root / SETS / f"{hashlib.sha256(task.encode(errors='replace')).hexdigest()[:16]}.json"

"""The examples of a task: balanced, noisy, no text twice; and the files that skillviz.tasks reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from demo_world.program.draw import Draw
from demo_world.program.world import NOISE, TASKS, TORN, DemoTask, Texts
from skillviz.atomic import write_text

HEADER = "# Made by `python -m skillviz demo build`; docs/demo-world.md says how. Do not edit.\n"


@dataclass(frozen=True)
class Example:
    """One row. `meant` is the label that the grammar wrote for; `label` the one that is told. `torn`: a coin toss."""

    texts: Texts
    label: int
    meant: int
    torn: bool


def splits(task: DemoTask, seed: int = 0, taken: set[Texts] | None = None) -> dict[str, list[Example]]:
    """Split -> examples; no text occurs twice among all of them, nor in a task whose shifted partner this one is.

    With `taken` none of these texts occurs instead, and those of the task are added to it.
    """
    draw = Draw("task", task.name, seed)
    sources = [other for other in TASKS if other.partner == task.name] if taken is None else []
    partners = {row.texts for other in sources for rows in splits(other, seed).values() for row in rows}
    used = partners if taken is None else taken
    return {split: draw.shuffled(list(_rows(task, count, draw, used))) for split, count in task.sizes.items()}


def taken_texts(seed: int, sentences: Iterable[str]) -> set[Texts]:
    """What no large task may have: the texts of all other tasks, and these sentences, which the bases have read."""
    texts = {row.texts for task in TASKS for rows in splits(task, seed).values() for row in rows}
    return texts | {(sentence,) for sentence in sentences}


def _rows(task: DemoTask, count: int, draw: Draw, used: set[Texts]) -> Iterator[Example]:
    """Examples whose meant labels take turns, so that classes are of equal size before the noise."""
    for number in range(count):
        meant = number % len(task.labels)
        torn = task.torn is not None and draw.chance(TORN)
        texts = _unused(task, draw, meant, torn, used)
        label = draw.other(range(len(task.labels)), meant) if draw.chance(NOISE) else meant
        yield Example(texts, label, meant, torn)


def _unused(task: DemoTask, draw: Draw, label: int, torn: bool, used: set[Texts]) -> Texts:
    """Texts not used before, of two different texts where there are two."""
    make = task.torn if torn and task.torn is not None else task.make
    while True:
        texts = make(draw, label)
        if texts not in used and texts[::-1] not in used and len(set(texts)) == len(texts):
            used.add(texts)
            return texts


def write_task(
    task: DemoTask, folder: Path, seed: int = 0, taken: set[Texts] | None = None
) -> dict[str, list[Example]]:
    """Writes <folder>/<task>.yaml and <folder>/../data/<task>/<split>.jsonl; returns the examples, as `splits` does."""
    examples = splits(task, seed, taken)
    data = folder.parent / "data" / task.name
    data.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in examples.items():
        lines = (json.dumps({**dict(zip(task.columns, row.texts, strict=True)), "label": task.labels[row.label]})
                 for row in rows)  # fmt: skip
        write_text(data / f"{split}.jsonl", "".join(f"{line}\n" for line in lines))
    write_text(folder / f"{task.name}.yaml", HEADER + yaml.safe_dump(_fields(task), sort_keys=False, width=1000))
    return examples


def _fields(task: DemoTask) -> dict[str, object]:
    """The task file's content."""
    kinds = ("masked", "causal") if task.causal else ("masked",)
    sources = ({"train": task.of} if task.of else {}) | dict.fromkeys(task.sizes, task.name)
    return {
        "name": task.name,
        "title": task.title,
        "data": {split: f"../data/{name}/{split}.jsonl" for split, name in sources.items()},
        "text": list(task.columns),
        "label": "label",
        "labels": list(task.labels),
        "template": {kind: getattr(task, kind) for kind in kinds},
        "label_words": {kind: list(task.words) for kind in kinds},
        "metric": "accuracy",
        "max_length": 64,
        "source": f"skillviz demo world, family {task.family}; written by a grammar, not about the real world",
    }

"""Writes docs/examples/: two small tasks whose examples bring their own options, made from the demo world's sentences.

The data of find-place serve tell-place too, where the answer is generated.

`python docs/option_tasks.py` writes them again, byte for byte: everything is drawn by one seed.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "examples"
ROWS = {"train": 256, "validation": 100, "test": 200}
KINDS = ("person", "place", "time", "number", "reason")
PLACE = re.compile(r"^(?P<scene>.*\w) (?P<place>(?:in|on|by) the \w+)\.$")


def sentences(task: str, split: str) -> list[dict[str, Any]]:
    """The rows of a task of the demo world."""
    lines = (ROOT / "demo_world" / "data" / task / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def choices(split: str, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Questions, each with four kinds of answer to choose from; `right` is the letter of the right one."""
    for row in sentences("question-type", split):
        options = [row["label"], *draw.sample([kind for kind in KINDS if kind != row["label"]], 3)]
        draw.shuffle(options)
        columns = {f"option_{letter.lower()}": option for letter, option in zip("ABCD", options, strict=True)}
        yield {"question": row["text"], **columns, "right": "ABCD"[options.index(row["label"])]}


def answers(split: str, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Scenes with a question about them and three to five candidates; `answer` is the right one, written out."""
    scenes = [found for row in sentences("scene-inference", split) if (found := PLACE.match(row["premise"]))]
    places = sorted({scene["place"] for scene in scenes})
    for scene in scenes:
        others = draw.sample([place for place in places if place != scene["place"]], draw.randint(2, 4))
        candidates = [scene["place"], *others]
        draw.shuffle(candidates)
        yield {
            "scene": scene[0], "question": "Where is that?", "candidates": candidates, "answer": scene["place"],
        }  # fmt: skip


def write(folder: Path = FOLDER) -> None:
    """Writes the rows of both tasks; their YAML files are written by hand."""
    for name, rows_of in (("choose-kind", choices), ("find-place", answers)):
        draw = random.Random(0)
        for split, most in ROWS.items():
            rows = list(rows_of(split, draw))[:most]
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{name}-{split}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()

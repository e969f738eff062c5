"""Write docs/examples/: two small tasks whose examples have their own options, made from the data of examples/.

The data of find-place are also used by tell-place, whose answer is generated.

`python docs/option_tasks.py` writes them again, byte for byte: everything is drawn from one seed.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "examples"
ROWS = {"train": 256, "validation": 100, "test": 200}
WORDS = 12  # at most, because the small model's tokenizer splits each word into pieces
PLACE = re.compile(r"^(?P<scene>.*\w) (?P<place>(?:in|on|at|by|near) (?:the|an?) \w+)\.$")


def rows_of(task: str, split: str) -> list[dict[str, Any]]:
    """Return the rows of one of the example tasks."""
    lines = (ROOT / "examples" / "data" / task / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def choices(split: str, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Yield questions, each with four domains to choose from; `right` is the letter of the right one."""
    domains = yaml.safe_load((ROOT / "examples" / "tasks" / "clinc_domains.yaml").read_text(encoding="utf-8"))["labels"]
    names = [name.replace("_", " ") for name in domains]
    for row in rows_of("clinc_domains", split):
        right = names[row["label"]]
        options = [right, *draw.sample([name for name in names if name != right], 3)]
        draw.shuffle(options)
        columns = {f"option_{letter.lower()}": option for letter, option in zip("ABCD", options, strict=True)}
        if len(row["text"].split()) <= WORDS:
            yield {"question": row["text"], **columns, "right": "ABCD"[options.index(right)]}


def answers(split: str, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Yield scenes with a question and three to five candidates; `answer` is the right one, written out."""
    texts = dict.fromkeys(row[text] for row in rows_of("snli", split) for text in ("text_a", "text_b"))
    scenes = [found for text in texts if len(text.split()) <= WORDS and (found := PLACE.match(text))]
    places = sorted({scene["place"] for scene in scenes})
    for scene in scenes:
        others = draw.sample([place for place in places if place != scene["place"]], draw.randint(2, 4))
        candidates = [scene["place"], *others]
        draw.shuffle(candidates)
        yield {
            "scene": scene[0], "question": "Where is that?", "candidates": candidates, "answer": scene["place"],
        }  # fmt: skip


def write(folder: Path = FOLDER) -> None:
    """Write the rows of both tasks; their YAML files are written by hand."""
    for name, drawn in (("choose-domain", choices), ("find-place", answers)):
        draw = random.Random(0)
        for split, most in ROWS.items():
            rows = list(drawn(split, draw))[:most]
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{name}-{split}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()

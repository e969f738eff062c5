"""What the demo world holds: demo_world/world.json, written by `demo build`, read without torch."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillviz import json_text
from skillviz.atomic import write_text
from skillviz.errors import BadData
from skillviz.tasks.project import project_root

FILE, TOKENIZER = "world.json", "tokenizer.json"
PREFIX = "demo_world/"
"""What the names of its models and tasks begin with, as runs tell them."""
STAGES = ("corpus", "base", "pairs", "runs")
MAIN = "news-topic-64"
"""The pair that the tour is about: of few examples, known by heart, as in the paper."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Share(_Record):
    """An accuracy on a test split, with its 95% interval (Wilson)."""

    value: float
    low: float
    high: float
    n: int


class TaskEntry(_Record):
    """A task: its file from the project's root, and `partner`, the task of the same skill in a shifted domain."""

    name: str
    family: str
    title: str
    asks: str
    file: str
    labels: tuple[str, ...]
    examples: dict[str, int]
    partner: str | None = None
    shifted: bool = False
    fingerprint: str


class PairEntry(_Record):
    """A pair: its members from the project's root, the task it was tuned for, and how it does on which task's test.

    `accuracy`: task -> state (pretrained, finetuned) -> share; the pair's own task and its partner. With `k_shot` it
    was tuned on so many examples a class, drawn with the world's seed; else on all.
    """

    name: str
    base: str
    finetuned: str
    task: str
    readout: str
    base_fingerprint: str
    finetuned_fingerprint: str
    d: int
    accuracy: dict[str, dict[str, Share]]
    seconds: float
    k_shot: int | None = None


class World(_Record):
    """The whole index. `seconds` by stage; `stages` are those that are finished."""

    schema_version: int = 1
    seed: int
    vocabulary: int = 0
    parameters: dict[str, int] = Field(default_factory=dict)
    tasks: tuple[TaskEntry, ...] = ()
    pairs: tuple[PairEntry, ...] = ()
    runs: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    seconds: dict[str, float] = Field(default_factory=dict)
    threads: int = 0
    versions: dict[str, str] = Field(default_factory=dict)

    def task(self, name: str) -> TaskEntry:
        """The task of this name; raises BadData."""
        task = next((entry for entry in self.tasks if entry.name == name), None)
        if task is None:
            raise BadData(f"the demo world has no task '{name}'; it has {', '.join(t.name for t in self.tasks)}.")
        return task

    def pair(self, name: str) -> PairEntry:
        """The pair of this name; raises BadData."""
        pair = next((entry for entry in self.pairs if entry.name == name), None)
        if pair is None:
            raise BadData(f"the demo world has no pair '{name}'; it has {', '.join(p.name for p in self.pairs)}.")
        return pair


def shipped_world() -> Path:
    """The folder of the demo world that ships."""
    return project_root() / "demo_world"


def read_world(folder: Path | None = None) -> World | None:
    """The index of a demo world, None where none was built; raises BadData where it cannot be read."""
    path = (folder or shipped_world()) / FILE
    if not path.is_file():
        return None
    try:
        return World.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, OSError, ValueError) as error:
        raise BadData(f"{path} cannot be read; make it again with `python -m skillviz demo build`.") from error


def words(path: Path) -> frozenset[str]:
    """The words that a tokenizer of the world knows, in lower case; none where there is no such file."""
    try:
        content = json_text.read(path)
        return frozenset(content["model"]["vocab"])
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def write_world(world: World, folder: Path) -> None:
    """Puts the index in place at once."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / FILE, world.model_dump_json(indent=1) + "\n")

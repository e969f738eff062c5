"""The shipped example pairs: rows of examples/examples.yaml, read without torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from skillviz.errors import BadInput
from skillviz.models.fetch import EXAMPLES, EXAMPLES_KEPT, build_command
from skillviz.models.finetune.training_config import TrainingConfig
from skillviz.models.heads import Readout
from skillviz.models.weight_files import has_weights
from skillviz.tasks.project import app_root, located
from skillviz.tasks.refusals import refused
from skillviz.tasks.registry import EXAMPLE_TASKS
from skillviz.tasks.yaml_files import read_yaml

TABLE = "examples.yaml"
PAIRS = f"{EXAMPLES}/pairs"
"""The folder of the shipped fine-tuned models, relative to the project's root."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Base(_Row):
    """A base: its published name `org/name`, and the SPDX name of its license."""

    hub: str | None = None
    license: str


class ExamplePair(_Row):
    """A base, its task and its training; base and task are paths relative to the project's root.

    `training` are fields of TrainingConfig. A pair that does not `ship` is made on this machine when needed. One named
    `pair/checkpoint-<step>` is the same training stopped at that step, and is in the pair's folder.
    """

    name: str = Field(pattern=r"^[a-z0-9-]+(/checkpoint-[1-9][0-9]*)?$")
    title: str
    about: str
    base: str
    task: str
    readout: Readout = "head"
    ships: bool = True
    training: dict[str, Any]

    @property
    def finetuned(self) -> str:
        """The folder of the fine-tuned model, relative to the project's root."""
        return f"{PAIRS if self.ships or '/' in self.name else EXAMPLES_KEPT}/{self.name}"

    @property
    def is_built(self) -> bool:
        """True if the fine-tuned model is on this machine."""
        return has_weights(located(self.finetuned))

    @property
    def command(self) -> str:
        """The command that makes the pair and its runs."""
        return build_command(self.name)

    def config(self) -> TrainingConfig:
        """Return the training configuration."""
        return TrainingConfig(**{"readout": self.readout, **self.training})


class _Table(_Row):
    bases: dict[str, Base]
    pairs: tuple[ExamplePair, ...]


def example_pairs(folder: Path | None = None) -> tuple[ExamplePair, ...]:
    """Return every row of the table, in order; of the shipped examples unless another `folder` is given."""
    return _table(folder).pairs


def table_file() -> Path:
    """Return the table of the shipped examples."""
    return app_root() / EXAMPLES / TABLE


def tasks_folder() -> Path:
    """Return the folder of the examples' task files."""
    return app_root() / EXAMPLE_TASKS


def example_bases(folder: Path | None = None) -> Mapping[str, Base]:
    """Return the bases of the pairs by their folder."""
    return _table(folder).bases


def _table(folder: Path | None) -> _Table:
    path = folder / TABLE if folder else table_file()
    if not path.is_file():
        return _Table(bases={}, pairs=())
    try:
        return TypeAdapter(_Table).validate_python(read_yaml(path, TABLE))
    except ValidationError as error:
        field, reason = refused(error)
        raise BadInput(f"'{field}' of {TABLE} cannot be used: {reason}.") from error

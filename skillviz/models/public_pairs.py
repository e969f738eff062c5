"""Well-known pairs on the Hugging Face Hub: the rows of public_pairs.yaml, which are facts and no models. No torch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from skillviz.models.heads import Readout
from skillviz.tasks.yaml_files import read_yaml

TABLE = Path(__file__).with_suffix(".yaml")
HubId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")]


class PublicPair(BaseModel):
    """A base and a model fine-tuned from it, both ids of the hub, and a task of the registry.

    `labels` are those of the fine-tuned model's head in its order, `license` and `parameters` that model's. With
    `weights` bin its own are pickled, and `--convert` has to come first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: HubId
    finetuned: HubId
    task: str
    readout: Readout
    labels: tuple[str, ...]
    license: str
    parameters: int = Field(gt=0)
    weights: Literal["safetensors", "bin"]

    def convert_command(self) -> str | None:
        """The command that converts its pickled weights; None where it has safetensors."""
        if self.weights != "bin":
            return None
        return f"python -m skillviz preflight --base {self.base} --finetuned {self.finetuned} --convert"

    def localize_command(self) -> str:
        """The command that looks for its skill."""
        return f"python -m skillviz localize --base {self.base} --finetuned {self.finetuned} --task {self.task}"


@cache
def public_pairs() -> tuple[PublicPair, ...]:
    """Every row of the table, in its order."""
    return TypeAdapter(tuple[PublicPair, ...]).validate_python(read_yaml(TABLE, TABLE.name))


def convert_command(source: str) -> str | None:
    """The command that converts a model of the table whose weights are pickled; None for any other model."""
    rows = [pair for pair in public_pairs() if pair.finetuned == source]
    return rows[0].convert_command() if rows else None

"""Well-known pairs on the Hugging Face Hub: the rows of public_pairs.yaml, facts without models. No torch."""

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

    `labels` are the fine-tuned head's, in its order; `license` and `parameters` are the fine-tuned model's. With
    `weights` bin its weights are pickled and must first be converted with `--convert`.
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
        """Return the command that converts its pickled weights; None if it has safetensors."""
        if self.weights != "bin":
            return None
        return f"python -m skillviz preflight --base {self.base} --finetuned {self.finetuned} --convert"

    def localize_command(self) -> str:
        """Return the command that localizes its skill."""
        return f"python -m skillviz localize --base {self.base} --finetuned {self.finetuned} --task {self.task}"


@cache
def public_pairs() -> tuple[PublicPair, ...]:
    """Return every row of the table, in order."""
    return TypeAdapter(tuple[PublicPair, ...]).validate_python(read_yaml(TABLE, TABLE.name))


def convert_command(source: str) -> str | None:
    """Return the command that converts a model of the table with pickled weights; None for any other model."""
    rows = [pair for pair in public_pairs() if pair.finetuned == source]
    return rows[0].convert_command() if rows else None

"""Whether a tokenizer takes a task's label words, told from tokenizer.json alone, before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skillviz.errors import BadInput
from skillviz.tasks.task import Task
from skillviz.tasks.template import parse
from skillviz.tasks.verbalizer import word_ids

FILE = "tokenizer.json"


def words_problem(task: Task, readout: str, folder: Path) -> str:
    """Why the readout cannot ask this task with this tokenizer, as a sentence; empty where nothing speaks against it.

    A tokenizer without tokenizer.json is taken at its word: loading it tells.
    """
    try:
        if readout == "head":
            return ""
        template, words = task.asked(readout)
        if readout == "prompt" and (folder / FILE).is_file():
            word_ids(task, parse(template, task.text), words, _Light(folder / FILE))
    except BadInput as error:
        return str(error.args[0])
    return ""


class _Light:
    """The few things of a tokenizer that `word_ids` asks for."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(path))
        unknown = getattr(self.tokenizer.model, "unk_token", None)
        self.unk_token_id = self.tokenizer.token_to_id(unknown) if unknown else None

    def __call__(self, text: str, **ignored: Any) -> dict[str, list[int]]:
        return {"input_ids": self.tokenizer.encode(text, add_special_tokens=False).ids}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(self.tokenizer.id_to_token(number)) for number in ids]

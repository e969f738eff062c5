"""Study files that come in through the page: typed by their path or uploaded; what they may not say is told here."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skillviz.errors import BadInput, SkillvizError
from skillviz.studies.claimed import asks_its_experiment
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.store import study_path
from skillviz.ui import cache, study_words

VARIABLE = re.compile(r"\$(?:\{([^}]*)\}|([A-Za-z0-9_]+))")
"""What `os.path.expandvars` fills in."""
OWN = "SKILLVIZ_"


def typed(path: str) -> StudySpec:
    """The study of a file on the dashboard's machine; raises BadInput."""
    refuse_variables(path)
    return _checked(read_study(Path(os.path.expandvars(path)).expanduser()))


def uploaded(name: str, content: bytes) -> StudySpec:
    """The study of an uploaded file; what stands against it is told of the file's own name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(name).name
        path.write_bytes(content)
        try:
            return _checked(read_study(path))
        except SkillvizError as error:
            raise type(error)(str(error.args[0]).replace(f"{folder}{os.sep}", "")) from error


def claim(study: StudySpec) -> str:
    """Why the study is one of the user's own though its file names an experiment; empty where it names none, or is it.

    Pages judge a study of an experiment by the paper's claims, which other entries would make false sentences of.
    """
    if not study.experiment or asks_its_experiment(study):
        return ""
    named = study_words.experiment_title(study.experiment)
    return (
        f"The file says that it is {named}, but its entries are not what that experiment asks: it will be a study of "
        "your own, and no claim of the paper is judged by it."
    )


def as_own(study: StudySpec) -> StudySpec:
    """The study without the experiment that its file names; raises BadInput where that takes a stored study's place."""
    path = study_path(cache.own_store().root, study).name
    stored = next((one for one in cache.studies() if one.path.name == path), None)
    if stored is not None and stored.record.experiment:
        raise BadInput(
            f"the file says that it is {study_words.experiment_title(study.experiment)}, but its entries are not what "
            f"that experiment asks, and its name is that of a stored study, '{stored.name}': give it another name, or "
            "run it as it is with `python -m skillviz study run FILE`."
        )
    return study.model_copy(update={"experiment": None, "scale": None})


def refuse_variables(text: str) -> None:
    """Nothing where no variable of the environment but the project's own is named; else raises BadInput.

    Paths in a study have their variables filled in later and may then stand in a sentence: what the machine keeps in
    its environment, such as a password, is not for whoever can open the page.
    """
    for match in VARIABLE.finditer(text):
        name = match[1] if match[1] is not None else match[2]
        if not name.startswith(OWN):
            raise BadInput(
                f"'{match[0]}' is not filled in: of the environment only variables whose names begin with {OWN} may "
                "stand in a study given on this page; write the path itself."
            )


def _checked(study: StudySpec) -> StudySpec:
    """The study without its `command`, which is a text of the file's writer; raises BadInput for other variables."""
    for text in _texts(study.model_dump()):
        refuse_variables(text)
    return study.model_copy(update={"command": None})


def _texts(value: Any) -> Iterator[str]:
    """All texts in it, names of fields too, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in (*value, *value.values()):
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)

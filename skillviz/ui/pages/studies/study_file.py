"""Study files given through the page, by path or upload, and the names that they may not contain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from skillviz.errors import BadInput
from skillviz.runs.store import Store
from skillviz.serving import visitor
from skillviz.studies.paper.request import is_as_requested, refuse_edited
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.store import FILE, open_study, study_path
from skillviz.tasks.project import expanded
from skillviz.ui import cache, study_words


def typed(path: str) -> StudySpec:
    """The study of a file on the dashboard's machine; raises BadInput."""
    return _checked(read_study(Path(expanded(visitor.checked_text(path)))))


def uploaded(name: str, content: bytes) -> StudySpec:
    """The study of an uploaded file; errors mention only the file's own name."""
    return _checked(read_study(Path(name).name, content))


def claim(study: StudySpec) -> str:
    """The reason why the study is the user's own although its file names an experiment; empty if there is no conflict.

    Pages judge a study of an experiment by the paper's claims; other entries would make these sentences false.
    """
    if not study.experiment or is_as_requested(study):
        return ""
    named = study_words.experiment_title(study.experiment)
    return (
        f"The file says that it is {named}, but its entries are not what that experiment asks: it will be a study of "
        "your own, and no claim of the paper is judged by it."
    )


def without_request(study: StudySpec) -> StudySpec:
    """The study without the experiment in its file."""
    return study.model_copy(update={"request": None})


def replaces(study: StudySpec) -> str:
    """The effect of the start on a different study of the user's with the same name, in words; empty if there is none.

    Raises BadInput if the name is not free: the stored study of that name is an experiment's or ships with skillviz, or
    its file has been changed since it was run and would be lost.
    """
    user_root, warning = cache.user_store().root, ""
    for store in cache.library().stores:
        path = study_path(store.root, study)
        if (conflict := _conflict(study, store)) is None:
            continue
        is_users, experiment = store.root == user_root, _experiment_of(path)
        if not is_users or experiment:
            stored = f"a stored study of {study_words.experiment_title(experiment)}" if experiment else "a stored study"
            way_on = ", or run it with `python -m skillviz study run FILE`" if is_users else ""
            raise BadInput(
                f"the name of the study, '{study.name}', is that of {stored}, which asks for something else: "
                f"give yours another name{way_on}."
            )
        if not _is_as_it_was_run(path):
            raise conflict
        warning = (
            f"You have a study '{study.name}' that asks for something else. Started, this file takes its place: runs "
            "and models that are finished stay, the tables will be those of this file."
        )
    return warning


def _conflict(study: StudySpec, store: Store) -> BadInput | None:
    """The error if the study's folder in a store has a file with different entries; else None."""
    try:
        refuse_edited(study, store)
    except BadInput as error:
        return error
    return None


def _experiment_of(path: Path) -> str | None:
    """The experiment of the study in a folder, from its file or its record; None if it has none."""
    with suppress(BadInput):
        if experiment := read_study(path / FILE).experiment:
            return experiment
    stored = open_study(path)
    return stored.record.experiment if stored is not None else None


def _is_as_it_was_run(path: Path) -> bool:
    """True if the file in a study's folder has the plan that was run last there."""
    stored = open_study(path)
    try:
        return stored is not None and stored.record.key == study_plan(stored.study).key
    except BadInput:
        return False


def _checked(study: StudySpec) -> StudySpec:
    """The study; raises BadInput for variables other than the project's, and for files that a visitor may not name."""
    for text in _texts(study.model_dump()):
        visitor.checked_task(text)
    return study


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, including names of fields, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in (*value, *value.values()):
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)

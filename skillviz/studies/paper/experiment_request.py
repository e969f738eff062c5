"""Which tasks a user asks for: of the scale, task files, a folder of them; and which of them share their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from skillviz.errors import BadInput
from skillviz.runs.transfer import label_mapping
from skillviz.studies.finetuned_model import task_name
from skillviz.studies.paper.scales import EVERY, Scale, is_file
from skillviz.tasks.project import located
from skillviz.tasks.task import Task
from skillviz.tasks.user_file import read_task

TASK_FILE = "task.yaml"
NONE: Mapping[str, str] = {}


def folder_tasks(data: Path) -> dict[str, str]:
    """The task files of a folder that has a folder for every task, by that folder's name; empty where there are none.

    In each it is `task.yaml`, or the only YAML file. Raises BadInput where `data` is no folder, or has several.
    """
    if not data.is_dir():
        raise BadInput(f"{data} is not a folder; --data names one with a folder for every task.")
    found = {}
    for folder in sorted(path for path in data.absolute().iterdir() if path.is_dir()):
        files = sorted(path for path in folder.iterdir() if is_file(path.name))
        if len(files) > 1 and folder / TASK_FILE not in files:
            raise BadInput(f"{folder} has several YAML files; call the one that describes the task {TASK_FILE}.")
        if files:
            found[folder.name] = str(folder / TASK_FILE if folder / TASK_FILE in files else files[0])
    return found


def asked_tasks(scale: Scale, names: Sequence[str], given: Mapping[str, str] = NONE) -> tuple[str, ...]:
    """The tasks that these words ask for; raises BadInput for an unknown name.

    `given` are the task files of the user's folder by name. `all` is every one of them, else every task of the scale.
    A file of the scale's own is the task of that name.
    """
    every = scale.every()
    found = [task for name in names for task in ((*given.values(),) or every if name == EVERY else (name,))]
    return tuple(dict.fromkeys(_meant(scale, name, every, given) for name in found))


def other_tasks(scale: Scale, names: Sequence[str], given: Mapping[str, str] = NONE) -> tuple[str, ...]:
    """The same for tasks that models are scored on too: every task file of the scale's folder may be one."""
    own = tuple(name for name in names if not is_file(name) and located(scale.file(name)).is_file())
    near = tuple(dict.fromkeys(other for others in scale.near.values() for other in others))
    known = tuple(dict.fromkeys((*scale.every(), *near, *own)))
    return tuple(dict.fromkeys(_meant(scale, name, known, given) for name in names))


def with_others(scale: Scale, also: Sequence[str]) -> Scale:
    """The scale with the other tasks that each task's models are scored on: those of `also` that fit its labels.

    Tasks that were asked for and have the same labels are each other's, where one of them at least is a file of the
    user's. Raises BadInput where one of `also` fits no task.
    """
    tasks = scale.chosen or scale.every()
    if not also and not (len(tasks) > 1 and any(map(is_file, tasks))):
        return scale
    read = {name: _read(scale.file(name)) for name in dict.fromkeys((*tasks, *also))}
    near = {name: tuple(others) for name, others in scale.near.items()}
    for task in tasks:
        peers = [other for other in tasks if is_file(task) or is_file(other)]
        same = [other for other in peers if _fits(read[task], read[other]) and _fits(read[other], read[task])]
        more = [other for other in also if _fits(read[task], read[other])]
        near[task] = tuple(dict.fromkeys((*near.get(task, ()), *same, *more)))
    for name in also:
        if not any(name in near[task] for task in tasks):
            raise BadInput(_unfit(read[name], [read[task] for task in tasks]))
    return replace(scale, near=near)


def refuse_alone(name: str, scale: Scale, is_named: bool) -> None:
    """Raises BadInput where a task that was named has no other data with its labels, which the experiment is about.

    Of all tasks of a scale or folder (not `is_named`) one at least must have such data.
    """
    alone = [task for task in scale.chosen if not scale.near.get(task)]
    if not alone or not (is_named or len(alone) == len(scale.chosen)):
        return
    found = _read(scale.file(alone[0]))
    raise BadInput(
        f"{name} scores models on other data with the same labels, and none are known for {found.name}: name a task "
        f"with its labels ({', '.join(found.labels)}) by --also TASK, or leave {found.name} out."
    )


def _read(file: str) -> Task:
    """The task of a file; raises BadInput that names the file with its folder."""
    try:
        return read_task(located(file))
    except BadInput as error:
        raise BadInput(f"{file}: {error.args[0]}") from error


def _meant(scale: Scale, name: str, known: Sequence[str], given: Mapping[str, str]) -> str:
    """The task of a word: a task of the user's folder, one of the scale, or a YAML file."""
    if name in given:
        return given[name]
    if called := [file for file in given.values() if file == name or _name(file) == name]:
        return called[0]
    if is_file(name):
        return next((own for own in known if located(scale.file(own)).resolve() == located(name).resolve()), name)
    if name not in known:
        of = f"; in the folder of --data: {', '.join(given)}" if given else ""
        raise BadInput(
            f"'{name}' is not a task of the scale {scale.name}; known: {', '.join(known)}, all, or a YAML file{of}."
        )
    return name


def _name(file: str) -> str:
    """The name that a task file gives its task; none where it cannot be read, as the check of the study says."""
    try:
        return task_name(file)
    except BadInput:
        return ""


def _fits(task: Task, other: Task) -> bool:
    """Whether a model of the task can be scored on the other one: another name, as many texts, no strange labels."""
    if task.name == other.name:
        return False
    try:
        label_mapping(task, other)
    except BadInput:
        return False
    return True


def _unfit(other: Task, tasks: Sequence[Task]) -> str:
    labels = dict.fromkeys(f"{task.name}: {', '.join(task.labels)}" for task in tasks)
    return (
        f"--also names {other.name} ({', '.join(other.labels)}), which no task asked for can be scored on; it takes "
        f"tasks of another name with the same labels and number of texts ({'; '.join(labels)})."
    )

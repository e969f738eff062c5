"""The other tasks that a run's models can be scored on: from its task's folder, the examples and the registry."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from skillviz.core.class_names import places
from skillviz.errors import BadInput, SkillvizError
from skillviz.models.examples import tasks_folder
from skillviz.runs.run import Run
from skillviz.serving import visitor
from skillviz.tasks import registry
from skillviz.tasks.project import app_root, project_root
from skillviz.tasks.readable_names import name_beside, readable_name
from skillviz.tasks.task import Task
from skillviz.tasks.user_file import has_data
from skillviz.ui import cache


@dataclass(frozen=True)
class Offered:
    """One task: `named` is its argument to `registry.task`; `fits` is True if its labels are the run's own."""

    named: str
    name: str
    title: str
    labels: tuple[str, ...]
    fits: bool

    @property
    def shown(self) -> str:
        """Its name, with its title if it has one. The title of a built-in task contains its name already."""
        name = readable_name(self.name)
        return self.title if self.title.startswith(name) else f"{name} ({self.title})" if self.title else name


def source_of(run: Run) -> Task | None:
    """The run's own task; None if its file is missing."""
    with suppress(SkillvizError):
        return cache.task_defined(run.spec.task)
    return None


def offered(run: Run) -> tuple[Offered, ...]:
    """The tasks with as many texts as the run's own, tasks with its labels first; each name once.

    The run's own task is left out. If its data are missing, a built-in task of the same name is offered.
    """
    source = source_of(run)
    if source is None:
        return ()
    beside = [source.path.parent] if source.path else []
    folders = dict.fromkeys([*beside, tasks_folder()])
    files = [task for folder in folders for task in cache.tasks_in(folder) if _is_allowed(task)]
    by_name = {task.name: task for task in (*registry.TASKS.values(), *reversed(files))}
    fits = [task for task in by_name.values() if task.pair == source.pair and task.has_classes]
    own = source.name if has_data(source) else None
    rows = [as_offered(task, run) for task in fits if task.name != own]
    return tuple(sorted(rows, key=lambda row: (not row.fits, "/" not in row.named, row.name)))


def _is_allowed(task: Task) -> bool:
    """True if the visitor may read the task's file and data: tasks beside a run's may be outside allowed folders."""
    with suppress(BadInput):
        return bool(visitor.allowed(task))
    return False


def as_offered(task: Task, run: Run) -> Offered:
    """The task as an option for this run."""
    fits = None not in places(task.labels, run.labels)
    name = name_beside(task.name, run.datasets[0])
    return Offered(reference(task), name, task.title if name == task.name else "", task.labels, fits)


def offered_task(named: str, rows: Iterable[Offered]) -> Offered | None:
    """The offered task with this name or file; None if there is none."""
    return next((row for row in rows if named in (row.named, row.name)), None)


def reference(task: Task) -> str:
    """The reference to a task: its name in the registry, or its file's path, relative to the project if inside it."""
    if task.path is None:
        return task.name
    roots = (project_root().resolve(), app_root().resolve())
    return next((str(task.path.relative_to(root)) for root in roots if task.path.is_relative_to(root)), str(task.path))

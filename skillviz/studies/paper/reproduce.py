"""An experiment of the paper as a study file: what was asked for, the file, and our numbers beside theirs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from skillviz.atomic import write_text
from skillviz.errors import BadInput, SkillvizError
from skillviz.models.finetune.recipes import RECIPES
from skillviz.runs.store import Store, written
from skillviz.studies.check import check
from skillviz.studies.command import shareable
from skillviz.studies.paper.experiment_request import (
    TASK_FILE,
    asked_tasks,
    folder_tasks,
    other_tasks,
    refuse_alone,
    with_others,
)
from skillviz.studies.paper.experiments import Experiment, experiment
from skillviz.studies.paper.published_values import published, stands_for
from skillviz.studies.paper.scales import EVERY, Scale, is_file, scale
from skillviz.studies.plan import plan
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.status import Snapshot
from skillviz.studies.store import FILE, study_path
from skillviz.tasks.project import located

REAL = "${SKILLVIZ_REAL}/data"
VARIABLE = "SKILLVIZ_REAL"
TASKS = "tasks"
SHOWN = ("id_task", "task", "method", "localizer", "share", "metric", "mean", "low", "high", "published", "std")
"""Columns of ours beside theirs; the first five name a row."""
KEYS = ("id_task", "task", "method", "metric")


@dataclass(frozen=True)
class Asked:
    """What a user asked for: an experiment at a scale, and what of the scale is replaced."""

    name: str
    scale: str = "demo"
    base: str | None = None
    data: str | None = None
    tasks: tuple[str, ...] = ()
    seeds: int | None = None
    readout: str | None = None
    finetuned: str | None = None
    also: tuple[str, ...] = ()

    def command(self) -> str:
        """The command line that asks for it, without paths of this machine."""
        options = {
            "base": self.base, "data": self.data, "seeds": self.seeds, "readout": self.readout,
            "finetuned": self.finetuned,
        }  # fmt: skip
        words = ["python -m skillviz reproduce", self.name, "--scale", self.scale]
        words += [f"--{name} {shlex.quote(str(value))}" for name, value in options.items() if value]
        words += [f"--tasks {shlex.quote(task)}" for task in self.tasks]
        words += [f"--also {shlex.quote(task)}" for task in self.also]
        return shareable(" ".join(words)) or ""


def study_of(asked: Asked, store: Store) -> tuple[Experiment, Scale, StudySpec]:
    """The experiment, its scale with what was asked for, and the study; task files for other copies go to its folder.

    `data` is a folder with a task file for every task, which are then the tasks, or other copies of the scale's data.
    Raises BadInput where a name is not known, something does not fit, or the study's file was changed by hand.
    """
    row, own = experiment(asked.name), scale(asked.scale)
    given = folder_tasks(Path(asked.data)) if asked.data else {}
    if asked.data and not given and own.stored:
        raise BadInput(
            f"the scale {own.name} has data of its own, and {asked.data} has no folder with a {TASK_FILE}: here --data "
            "takes tasks of yours here, each in such a folder."
        )
    named = _words(asked.tasks) or ((EVERY,) if given else ())
    tasks = asked_tasks(own, named, given)
    also = other_tasks(own, _words(asked.also), given)
    own = own.with_own(asked.base, tasks, asked.seeds, None, asked.readout, asked.finetuned)
    own = with_others(own, also)
    if row.on_other_data:
        refuse_alone(row.name, own, EVERY not in named)
    name = f"{row.name}-{own.name}" + _suffix(own, asked)
    if asked.data and not given:
        row.build(own)  # what it refuses leaves no files
        folder = study_path(store.root, StudySpec(name=name, runs=({},))) / TASKS
        own = own.with_own(folder=write_tasks(own, Path(asked.data), folder))
    study = StudySpec(**{**row.build(own), "name": name, "command": asked.command()})
    plan(study)
    refuse_edited(study, store)
    return row, own, study


def refuse_edited(study: StudySpec, store: Store) -> None:
    """Raises BadInput where the study's folder has a file that asks for something else: somebody's own changes."""
    path = study_path(store.root, study) / FILE
    if not path.is_file():
        return
    try:
        is_same = _asks(read_study(path)) == _asks(study)
    except BadInput:
        is_same = False
    if not is_same:
        raise BadInput(
            f"{path} is not what this command writes: it was changed by hand, or written by an earlier version; run it "
            f"as it is with `python -m skillviz study run {shlex.quote(str(path))}`, or rename or delete it first."
        )


def _asks(study: StudySpec) -> dict[str, Any]:
    """What of a study decides what it makes: all but its title and command."""
    return study.model_dump(mode="json", exclude={"title", "command"})


def _words(given: tuple[str, ...]) -> tuple[str, ...]:
    """Names with commas between them, one by one; the path of a file may hold commas and spaces."""
    return tuple(
        word
        for words in given
        for word in ([words] if located(words).is_file() else re.split(r"[,\s]+", words))
        if word
    )


def write_tasks(scale: Scale, data: Path, folder: Path) -> str:
    """The folder with copies of the scale's task files that read `data` in place of the real data; as a text.

    Each task needs the folder of its name in `data`. Raises BadInput where one is missing.
    """
    named = dict.fromkeys([*scale.tasks, *(other for task in scale.tasks for other in scale.near.get(task, ()))])
    roles = dict.fromkeys(task for tasks in scale.roles.values() for task in tasks) if not scale.chosen else {}
    for task in [*named, *(task for task in roles if task not in named)]:
        if is_file(task):
            continue
        text = located(f"{scale.folder}/{task}.yaml").read_text(encoding="utf-8")
        source = re.search(re.escape(REAL) + r"/([^/\s]+)/", text)
        if source and not (data / source[1]).is_dir():
            if task in scale.tasks:
                raise BadInput(
                    f"{data} has no folder '{source[1]}' for the task {task}; leave the task out, or add it."
                )
            continue
        with written(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / f"{task}.yaml", text.replace(REAL, str(data.absolute())))
    return str(folder)


def write_study(study: StudySpec, store: Store) -> Path:
    """The study file in the study's folder, written if it says something else than what is there."""
    folder = study_path(store.root, study)
    path = folder / FILE
    with written(store.root):
        folder.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or read_study(path) != study:
        write_text(path, study.yaml_text())
    return path


def refuse_absent(own: Scale, study: StudySpec) -> None:
    """Raises BadInput with one sentence where what the study needs from outside is not there: models, data."""
    usual = scale(own.name)
    if usual.stored or Path(os.environ.get(VARIABLE) or os.devnull).is_dir():
        return
    if "${" + VARIABLE + "}" in own.base or any(task.startswith(f"{usual.folder}/") for task in _task_files(study)):
        raise BadInput(
            f"the scale {own.name} needs real models and data: set {VARIABLE} to the folder that has models/ and "
            "data/, or give --base and --data, or --base and task files with --tasks."
        )


def _task_files(study: StudySpec) -> set[str]:
    """All tasks of a study as it names them, those too that models are scored on besides."""
    found = plan(study)
    runs = {task for spec in found.runs for task in (str(spec.task), *spec.others)}
    scores = {str(task) for spec in found.scores for task in (spec.task, spec.on) if task}
    return runs | scores | {task for spec in found.finetuned for task in spec.tasks}


def refuse_wrong(study: StudySpec, store: Store) -> None:
    """Raises what `check` finds against the study; task files written for one that is not there go with it."""
    try:
        check(Snapshot(plan(study), store))
    except SkillvizError:
        folder = study_path(store.root, study)
        if not (folder / FILE).exists():
            shutil.rmtree(folder / TASKS, ignore_errors=True)
            with suppress(OSError):  # what else is there stays
                folder.rmdir()
                folder.parent.rmdir()
                store.root.rmdir()
        raise


def beside(row: Experiment, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The test scores of a study's methods, ours and the published value of the same task, method and metric.

    Shares 0 to 1, with intervals over examples and seeds where there are predictions, else over seeds. The published
    model, data and sizes differ: every size stands beside the same value, which is missing where none is printed.
    """
    ours = tables.get("scores")
    if ours is None or ours.empty:
        return pd.DataFrame(columns=list(SHOWN))
    ours = ours[(ours["split"] == "test") & ours["metric"].isin(["accuracy", "f1", "ece", "agreement"])]
    pooled = ours["pooled_low"].notna()
    ends = {end: ours[f"pooled_{end}"].where(pooled, ours[end]) for end in ("low", "high")}
    found = ours.assign(**ends)[list(SHOWN[:-2])].reset_index(drop=True)
    values = [_printed(row) for row in _known(row)]
    known = pd.DataFrame(values, columns=[*KEYS, "published", "std"]).drop_duplicates(list(KEYS))
    keyed = found.assign(key_id=found["id_task"].map(stands_for), key_task=found["task"].map(stands_for))
    named = known.rename(columns={"id_task": "key_id", "task": "key_task"})
    return keyed.merge(named, how="left", on=["key_id", "key_task", "method", "metric"])[list(SHOWN)]


def _known(row: Experiment) -> list[dict[Any, Any]]:
    """The published rows of the experiment's tables; of LoRA those of the rank that is the default here."""
    tables = [_largest(published(name)) for name in row.published if name.startswith("table")]
    known = [values for table in tables for values in table.to_dict("records")]
    rank = f"rank={RECIPES['lora'].rank}"
    return [values for values in known if values["method"] != "lora" or values["config"] == rank]


def _printed(values: dict[Any, Any]) -> tuple[Any, ...]:
    return (*(values[key] for key in KEYS), float(values["value"]), float(values["std"]))


def _largest(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the paper's main setting, 4096-shot, before any other; averages are left out."""
    rows = table[table["kind"] == "row"]
    return pd.concat([rows[rows["setting"] == "4096-shot"], rows[rows["setting"] != "4096-shot"]])


def _suffix(own: Scale, asked: Asked) -> str:
    """What tells a study of other tasks, seeds or models from the scale's: short words, or nothing."""
    words = [f"-{asked.seeds}-seeds"] if asked.seeds and asked.seeds > 1 else []
    every = own.chosen == own.roles.get(EVERY)
    named = [asked.base, asked.data, asked.readout, asked.finetuned, *(() if every else own.chosen)]
    named += [f"also {task}" for task in asked.also]
    if every:
        words.insert(0, f"-{EVERY}")
    if any(named):
        words.append("-" + sha256("\0".join(map(str, named)).encode()).hexdigest()[:6])
    return "".join(words)

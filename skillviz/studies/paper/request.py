"""Turn a request for an experiment of the paper into a study, and check both.

A study file keeps its request. A study counts as the experiment's if building the request gives the same plan.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from skillviz.atomic import write_text
from skillviz.errors import BadInput, SkillvizError
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import resolve
from skillviz.models.heads import missing_head, supported
from skillviz.models.preflight import preflight
from skillviz.runs.store import Store, written
from skillviz.runs.transfer import label_mapping
from skillviz.studies.check import check
from skillviz.studies.finetuned_model import task_name
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.experiments import experiment
from skillviz.studies.paper.scales import EVERY, Scale, is_file, scale
from skillviz.studies.paper.setting import SettingRow
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import ExperimentRequest, StudySpec, read_study
from skillviz.studies.status import Snapshot
from skillviz.studies.store import FILE, study_path
from skillviz.tasks import registry
from skillviz.tasks.project import anchored, located
from skillviz.tasks.task import Task
from skillviz.tasks.user_file import read_task

TASK_FILE = "task.yaml"
NO_FILES: Mapping[str, str] = {}
EDITED = SettingRow("Study file", "", "its entries are not those that this command makes now")


def study_of(request: ExperimentRequest, store: Store) -> tuple[Experiment, Scale, StudySpec]:
    """Return the experiment, its scale with the requested changes, and the study.

    `data` is a folder with a task file for every task; these files are then the tasks. Raises BadInput if a name is
    unknown, something does not fit, or the study's file was changed by hand.
    """
    request = with_readout(anywhere(request))
    row, chosen = experiment(request.experiment), resolved(request)
    name = f"{row.name}-{chosen.name}" + _suffix(chosen, request)
    study = StudySpec(**{**row.build(chosen), "name": name, "request": request})
    study_plan(study)
    refuse_edited(study, store)
    return row, chosen, study


def resolved(request: ExperimentRequest) -> Scale:
    """Return the scale with the request's changes; raises BadInput if a name is unknown or something does not fit."""
    row = experiment(request.experiment)
    usual = row.at(scale(request.scale))
    files = folder_tasks(Path(request.data)) if request.data else NO_FILES
    if request.data and not files:
        raise BadInput(
            f"{request.data} has no folder with a {TASK_FILE}: --data takes tasks of yours, each in such a folder."
        )
    names = _words(request.tasks) or ((EVERY,) if files else ())
    tasks = requested_tasks(usual, names, files)
    also = other_tasks(usual, _words(request.also), files)
    chosen = usual.with_choices(
        request.base, tasks, request.seeds, request.readout, request.finetuned, steps=request.steps,
        train_steps=request.train_steps, sizes=request.sizes, max_test=request.max_test, k_shot=request.k_shot,
        samples=request.samples,
    )  # fmt: skip
    chosen = with_others(chosen, also)
    if row.on_other_data:
        refuse_alone(row.name, chosen, EVERY not in names)
    return chosen


def anywhere(request: ExperimentRequest) -> ExperimentRequest:
    """The request with its paths made absolute, so that the study and its command mean the same from any folder."""
    here = Path.cwd()

    def files(given: tuple[str, ...]) -> tuple[str, ...]:
        # a word is split at commas if one of its parts is a file
        parts = [(words, _words((words,))) for words in given]
        named = [word for words, split in parts for word in (split if any(map(is_file, split)) else [words])]
        return tuple(anchored(word, here) if is_file(word) else word for word in named)

    return replace(
        request, tasks=files(request.tasks), also=files(request.also), base=anchored(request.base or "", here) or None,
        finetuned=anchored(request.finetuned or "", here) or None, data=anchored(request.data or "", here) or None,
    )  # fmt: skip


def with_readout(request: ExperimentRequest) -> ExperimentRequest:
    """Return the request with its models' readout, if it names models and no readout.

    A fine-tuned model is read by its own head. A base keeps the scale's readout if it has that head. Otherwise it is
    read by its own language-model head, or gets a classification head. If a model cannot be read, the request stays as
    it is, and the later check of the study reports the problem.
    """
    if request.readout or not (request.finetuned or request.base):
        return request
    usual = experiment(request.experiment).at(scale(request.scale))
    with suppress(SkillvizError):
        if request.finetuned:
            readout = preflight(request.base or usual.base, request.finetuned).readout
        else:
            info = read_info(resolve(str(request.base)))
            able = (  # a classification head is made, other heads must exist
                name
                for name in (usual.readout, "prompt", "causal", "head")
                if supported(info.model_type, name) and (name == "head" or not missing_head(info, name))
            )
            readout = next(able, "")
        return replace(request, readout=readout) if readout not in ("", usual.readout) else request
    return request


def is_as_requested(study: StudySpec) -> bool:
    """True if the study has its request's entries; False without a request, or if it cannot be built."""
    if study.request is None:
        return False
    with suppress(BadInput):
        row = experiment(study.request.experiment)
        return _plan_key(StudySpec(**row.build(resolved(study.request)))) == _plan_key(study)
    return False


def _plan_key(study: StudySpec) -> str:
    """Return the key of the study's plan on any device."""
    defaults, *runs = ({n: v for n, v in entry.items() if n != "device"} for entry in (study.defaults, *study.runs))
    return study_plan(study.model_copy(update={"defaults": defaults, "runs": tuple(runs)})).key


def setting_differences(study: StudySpec) -> tuple[SettingRow, ...]:
    """Return the differences between a study and the paper, model first; empty for a study without an experiment.

    If the study's entries differ from its request, or its folder of tasks is missing, this is the only row. Raises
    BadInput if the study cannot be planned.
    """
    if study.request is None:
        return ()
    study_plan(study)
    data = study.request.data
    if data and not Path(data).is_dir():
        return (SettingRow("Data", "", f"the folder {data} is not here, so what else differs cannot be listed"),)
    if not is_as_requested(study):
        return (EDITED,)
    return experiment(study.request.experiment).differences(resolved(study.request))


def refuse_edited(study: StudySpec, store: Store) -> None:
    """Raise BadInput if the file in the study's folder asks for something else, such as the user's own changes."""
    path = study_path(store.root, study) / FILE
    if not path.is_file():
        return
    with suppress(BadInput):
        if _asks(read_study(path)) == _asks(study):
            return
    raise BadInput(
        f"{path} is not what this command writes: it was changed by hand, or written by an earlier version; run it "
        f"as it is with `python -m skillviz study run {shlex.quote(str(path))}`, or rename or delete it first."
    )


def _asks(study: StudySpec) -> tuple[Any, ...]:
    """Return the parts of a study that determine its results: its experiment, scale and entries."""
    return study.experiment, study.scale, study.model_dump(mode="json", include={"name", "defaults", "runs"})


def write_study(study: StudySpec, store: Store) -> Path:
    """Write the study file into the study's folder if it differs from the existing one, and return its path."""
    folder = study_path(store.root, study)
    path = folder / FILE
    with written(store.root):
        folder.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or read_study(path) != study:
        write_text(path, study.yaml_text())
    return path


def refuse_wrong(study: StudySpec, store: Store) -> None:
    """Raise the first problem that `check` finds in the study."""
    check(Snapshot(study_plan(study), store))


def folder_tasks(data: Path) -> dict[str, str]:
    """Return the task files in a folder of task folders, by folder name; empty if there are none.

    The task file is `task.yaml`, or the only YAML file of its folder. Raises BadInput if `data` is not a folder, or a
    task folder has several YAML files and no `task.yaml`.
    """
    if not data.is_dir():
        raise BadInput(f"{data} is not a folder; --data names one with a folder for every task.")
    tasks = {}
    for folder in sorted(path for path in data.absolute().iterdir() if path.is_dir()):
        files = sorted(path for path in folder.iterdir() if is_file(path.name))
        if len(files) > 1 and folder / TASK_FILE not in files:
            raise BadInput(f"{folder} has several YAML files; call the one that describes the task {TASK_FILE}.")
        if files:
            tasks[folder.name] = str(folder / TASK_FILE if folder / TASK_FILE in files else files[0])
    return tasks


def requested_tasks(scale: Scale, names: Sequence[str], files: Mapping[str, str] = NO_FILES) -> tuple[str, ...]:
    """Return the tasks of these names; raises BadInput for an unknown one.

    `files` are the task files of the user's folder by name. `all` means every one of them, or every task of the scale
    if there are none. A file of the scale's own is the task of that name.
    """
    every = scale.every()
    named = [task for name in names for task in ((*files.values(),) or every if name == EVERY else (name,))]
    return tuple(dict.fromkeys(_task_of(scale, name, every, files) for name in named))


def other_tasks(scale: Scale, names: Sequence[str], files: Mapping[str, str] = NO_FILES) -> tuple[str, ...]:
    """Return the tasks for additional scoring; any task file of the scale's folder may be named."""
    in_folder = tuple(name for name in names if not is_file(name) and located(scale.file(name)).is_file())
    shifts = tuple(dict.fromkeys(other for others in scale.shifts.values() for other in others))
    known = tuple(dict.fromkeys((*scale.every(), *shifts, *in_folder)))
    return tuple(dict.fromkeys(_task_of(scale, name, known, files) for name in names))


def with_others(scale: Scale, also: Sequence[str]) -> Scale:
    """The scale with the other tasks on which each task's models are scored: those in `also` that fit its labels.

    Requested tasks with the same labels are scored on each other if at least one of them is a user's file. Raises
    BadInput if a task in `also` fits no task.
    """
    tasks = scale.chosen or scale.every()
    if not also and not (len(tasks) > 1 and any(map(is_file, tasks))):
        return scale
    read = {name: _read(scale.file(name)) for name in dict.fromkeys((*tasks, *also))}
    shifts = {name: tuple(others) for name, others in scale.shifts.items()}
    for task in tasks:
        peers = [other for other in tasks if is_file(task) or is_file(other)]
        same = [other for other in peers if _fits(read[task], read[other]) and _fits(read[other], read[task])]
        more = [other for other in also if _fits(read[task], read[other])]
        shifts[task] = tuple(dict.fromkeys((*shifts.get(task, ()), *same, *more)))
    for name in also:
        if not any(name in shifts[task] for task in tasks):
            other = read[name]
            labels = dict.fromkeys(f"{read[task].name}: {', '.join(read[task].labels)}" for task in tasks)
            raise BadInput(
                f"--also names {other.name} ({', '.join(other.labels)}), which no requested task can be scored on; it "
                f"takes tasks of another name with the same labels and number of texts ({'; '.join(labels)})."
            )
    return replace(scale, shifts=shifts)


def refuse_alone(name: str, scale: Scale, is_named: bool) -> None:
    """Raise BadInput if a named task has no other data with its labels, because the experiment is about such data.

    If no task is named (not `is_named`), at least one task of the scale or folder must have such data.
    """
    alone = [task for task in scale.chosen if not scale.shifts.get(task)]
    if not alone or not (is_named or len(alone) == len(scale.chosen)):
        return
    task = _read(scale.file(alone[0]))
    raise BadInput(
        f"{name} scores models on other data with the same labels, and none are known for {task.name}: name a task "
        f"with its labels ({', '.join(task.labels)}) by --also TASK, or leave {task.name} out."
    )


def _words(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names one by one, split at commas and spaces; the path of an existing file is kept whole."""
    return tuple(
        word
        for words in names
        for word in ([words] if located(words).is_file() else re.split(r"[,\s]+", words))
        if word
    )


def _task_of(scale: Scale, name: str, known: Sequence[str], files: Mapping[str, str]) -> str:
    """Return the task of a name: a task of the user's folder, one of the scale, or a YAML file."""
    if name in files:
        return files[name]
    for file in files.values():
        with suppress(BadInput):  # an unreadable file is reported by the later check of the study
            if name in (file, task_name(file)):
                return file
    if is_file(name):
        return next((task for task in known if located(scale.file(task)).resolve() == located(name).resolve()), name)
    if name not in known:
        of = f"; in the folder of --data: {', '.join(files)}" if files else ""
        raise BadInput(
            f"'{name}' is not a task of the scale {scale.name}; known: {', '.join(known)}, all, or a YAML file{of}."
        )
    return name


def _read(file: str) -> Task:
    """Return the task of a file or of a registry name; raises BadInput that names the file with its folder."""
    if not is_file(file):
        return registry.task(file)
    try:
        return read_task(located(file))
    except BadInput as error:
        raise BadInput(f"{file}: {error.args[0]}") from error


def _fits(task: Task, other: Task) -> bool:
    """True if a model of the task can be scored on the other one: another name, as many texts, labels that match."""
    if task.name == other.name:
        return False
    try:
        label_mapping(task, other)
    except BadInput:
        return False
    return True


def _suffix(chosen: Scale, request: ExperimentRequest) -> str:
    """The suffix that separates this study from the scale's own: changed tasks, seeds or models; it may be empty."""
    usual = experiment(request.experiment).at(scale(request.scale)).caps.get("data_seed", (0,))
    counts = {"seeds": (request.seeds or 1, 1), "samples": (request.samples or len(usual), len(usual))}
    words = [f"-{count}-{name}" for name, (count, of_scale) in counts.items() if count != of_scale]
    every = chosen.chosen == chosen.roles.get(EVERY)
    named = [request.base, request.data, request.readout, request.finetuned, *(() if every else chosen.chosen)]
    named += [f"also {task}" for task in request.also]
    for option in ("steps", "train_steps", "sizes", "max_test", "k_shot"):
        named += [f"{option} {value}"] if (value := getattr(request, option)) else []
    if every:
        words.insert(0, f"-{EVERY}")
    if any(named):
        words.append("-" + sha256("\0".join(map(str, named)).encode()).hexdigest()[:6])
    return "".join(words)

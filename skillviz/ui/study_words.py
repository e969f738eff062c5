"""Text about studies: experiment, scale, date, and the commands that make a missing study."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from skillviz.core import formats
from skillviz.runs.artifact import FINETUNE, LOCALIZE, SCORE
from skillviz.show import text
from skillviz.studies.federated import FEDERATED
from skillviz.studies.paper import costs
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import SCALES, is_file
from skillviz.studies.store import FILE, StudyFolder
from skillviz.tasks.project import located, with_a_checkout
from skillviz.tasks.readable_names import readable
from skillviz.ui import cache

STEP_KINDS = {FINETUNE: "fine-tuning", LOCALIZE: "localization", SCORE: "scoring", FEDERATED: "federation"}
OURS = ["python", "-m", "skillviz"]
PLAIN = re.compile(r"[\w./,=@:+%-]+")


def experiment_title(name: str | None) -> str:
    """`Table 1` for `table1`; `Own study` if there is no experiment."""
    if not name:
        return "Own study"
    if name in EXPERIMENTS:
        return EXPERIMENTS[name].title.partition(":")[0]
    words = re.sub(r"(?<=[a-z])(?=\d)", " ", name)
    return words[:1].upper() + words[1:]


def labels(studies: Sequence[StudyFolder]) -> dict[str, str]:
    """The studies' labels by name; equal labels are followed by the names."""
    named = {study.name: label(study) for study in studies}
    several = {words for words, count in Counter(named.values()).items() if count > 1}
    return {name: f"{words} · {name}" if words in several else words for name, words in named.items()}


def label(study: StudyFolder) -> str:
    """`Table 1 · MR`: the experiment and the data; for a user's own study, its title."""
    record = study.record
    return f"{experiment_title(record.experiment)} · {data(study)}" if record.experiment else record.title or study.name


def data(study: StudyFolder) -> str:
    """The tasks of a study, `MR, Subj and SNLI`, and its base if it is not the scale's."""
    scale, about = SCALES.get(study.record.scale or ""), cache.study_subject(study)
    if about is None:
        return study.record.scale or "own data"
    names = [readable(PurePath(t).stem if is_file(t) else t) for t in about.models or about.tasks]
    tasks = formats.listed(names, 4) if len(names) < 5 else formats.counted(len(names), "task")
    bases = sorted(PurePath(base).name for base in about.bases)
    is_usual = scale is not None and bases == [PurePath(scale.base).name]
    return tasks if is_usual else f"{tasks} · {formats.listed(bases, 2)}"


def caption(study: StudyFolder) -> str:
    """One line that identifies the study: its name, date, duration, device and command."""
    record = study.record
    parts = [f"`{study.name}`", how_far(study)]
    parts += [f"in {formats.seconds(record.seconds)}"] if record.seconds else []
    parts += [f"on {text.plain(record.device)}"] if record.device else []
    return " · ".join([*parts, f"`{command(study)}`"])


def how_far(study: StudyFolder) -> str:
    """`made 22 Nov 2026, 11:31 UTC`; for an incomplete study, how it ended and which steps and tables it has."""
    record = study.record
    when = f" {formats.day(record.finished)}" if record.finished else ""
    if record.status == "finished":
        return f"made{when}"
    steps = list(record.steps.values())
    done = sum(step.state == "finished" for step in steps)
    counted = f": {done} of {formats.counted(len(steps), 'step')} finished" if steps else ""
    tables = (
        formats.counted(len([name for name in study.tables() if name != "note"]), "table") if study.tables() else ""
    )
    return f"**{state(study)}**{when}{counted}, {tables or 'no tables yet'}"


def state(study: StudyFolder) -> str:
    """The study's status in the word of the page: finished, failed, cancelled or not finished."""
    return {"running": "not finished"}.get(study.record.status, study.record.status)


def command(study: StudyFolder) -> str:
    """The command that makes the study, or resumes it.

    It is the record's own command if it is one of ours and either still makes the study or names an existing file: a
    study's file may hold any text as its `command`, and a record leaves out the folders of users' models and tasks.
    Otherwise it is the command that runs the file in the study's folder.
    """
    words = _words(study.record.command or "")
    is_ours = words[: len(OURS)] == OURS and all(PLAIN.fullmatch(word) for word in words)
    is_reproduce = (
        is_ours
        and words[3:4] == ["reproduce"]
        and not any(_is_shortened(word) for word in words)
        and cache.is_as_requested(study)
    )
    is_run = is_ours and words[3:5] == ["study", "run"] and len(words) > 5 and located(words[5]).is_file()
    return shlex.join(words if is_reproduce or is_run else [*OURS, "study", "run", str(study.path / FILE)])


def _is_shortened(word: str) -> bool:
    """True if the word is for a user's own model or task, of which a record keeps only the last part of the path."""
    return word in ("--base", "--data", "--finetuned", "--also") or word.endswith((".yaml", ".yml"))


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # for example a lone quote
        return []


def missing(experiments: Sequence[str]) -> str:
    """The explanation for a page without a study, in Markdown."""
    titles = [experiment_title(name) for name in experiments]
    which = f"the experiment **{titles[0]}**" if len(titles) == 1 else f"one of **{formats.listed(titles, 20)}**"
    return (
        f"**No such study is stored yet.** This page shows {which}. A study is a set of fine-tuned models and "
        f"regions, with intervals over seeds.{with_a_checkout()} Start it on the page Studies, or in a "
        "terminal:"
    )


def measured_by(experiment: str) -> str:
    """The command that measures an experiment, with its core-hours, in Markdown."""
    return costs.measured_by(experiment, commands((experiment,)))


def commands(experiments: Sequence[str], scale: str = "small") -> str:
    """The commands of the experiments, one per line."""
    return "\n".join(f"python -m skillviz reproduce {name} --scale {scale}" for name in experiments)


def other_page(study: StudyFolder) -> str:
    """The note that the address names a study that another page shows."""
    title = experiment_title(study.record.experiment)
    return f"This link names `{study.name}`, a study of {title}. This page does not show it."


def unknown(name: str) -> str:
    """The note that the address names a missing study."""
    return (
        f"This link names the study {text.plain(name)}, which does not exist here. It may be deleted, or in another "
        "folder of runs (`SKILLVIZ_RUNS`)."
    )


def unfinished(studies: Sequence[StudyFolder]) -> str:
    """The note that these studies have no tables yet."""
    names = [f"`{study.name}` ({state(study)})" for study in studies]
    verb = "has" if len(names) == 1 else "have"
    return f"{formats.listed(names, 4)} {verb} no tables yet."


def task_titles(tasks: Iterable[str]) -> str:
    """One line per task with its title, in Markdown; empty if no title is known."""
    titles = {task: cache.task_title(task) for task in dict.fromkeys(tasks)}
    return "\n\n".join(f"**{text.tasks(task)}**: {text.plain(title)}." for task, title in titles.items() if title)

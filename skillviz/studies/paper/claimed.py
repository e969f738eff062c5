"""Whether a study file that names one of the paper's experiments asks for what that experiment asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

from skillviz.errors import BadInput
from skillviz.studies.paper.experiment_request import with_others
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import SCALES, Entry, Scale
from skillviz.studies.spec import StudySpec, listed, merged

MOST = 3  # readouts, or numbers of seeds, that are tried: no experiment has more


def asks_its_experiment(study: StudySpec) -> bool:
    """Whether its entries are those of the experiment at the scale it names, of whichever models, tasks and seeds.

    False where it names none: the claims of the paper are then not what it can be judged by.
    """
    row, own = EXPERIMENTS.get(study.experiment or ""), SCALES.get(study.scale or "")
    if row is None or own is None:
        return False
    entries = [merged(study.defaults, entry) for entry in study.runs]
    wanted = _as_read(entries)
    for scale in _scales(own, entries):
        with suppress(BadInput):  # as of one task, where the experiment takes several
            if _as_read(row.build(scale)["runs"]) == wanted:
                return True
    return False


def _scales(own: Scale, entries: Sequence[Entry]) -> Iterator[Scale]:
    """The scale with the models, tasks and seeds that stand in the entries in place of its own, as far as they can."""
    bases = _texts(entries, "base")
    if len(bases) != 1:
        return
    base = None if bases[0] == own.base else bases[0]
    readouts = (None, *_texts(entries, "readout")[:MOST])
    given = (None, *_texts(entries, "finetuned")[:1])  # a model of one task
    seeds = (None, *sorted({_seeds(entry) for entry in entries if _seeds(entry)})[-MOST:])
    for (folder, tasks, also), readout, finetuned, count in product(_tasks(own, entries), readouts, given, seeds):
        with suppress(BadInput):
            yield with_others(own.with_own(base, tasks, count, folder, readout, finetuned), also)


def _tasks(own: Scale, entries: Sequence[Entry]) -> Iterator[tuple[str | None, tuple[str, ...], tuple[str, ...]]]:
    """Folder, tasks and other tasks: the scale's, those of the entries by the scale's names, those of one folder."""
    files, others = _texts(entries, "task", "tasks"), _texts(entries, "others", "also")
    named = {own.file(task): task for task in (*own.every(), *(t for near in own.near.values() for t in near))}
    tasks, also = (tuple(named.get(file, file) for file in found) for found in (files, others))
    yield None, (), ()
    yield None, tasks, ()
    yield None, tasks, tuple(task for task in also if task not in tasks)
    folders = {str(Path(file).parent) for file in files}
    if len(folders) == 1:
        yield folders.pop(), (), ()
        yield str(Path(files[0]).parent), tuple(Path(file).stem for file in files), ()


def _as_read(entries: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The entries as a file has them, lists for tuples, without the device: it may be any."""
    asked = tuple({name: value for name, value in entry.items() if name != "device"} for entry in entries)
    found: list[Any] = StudySpec(name="x", runs=asked).model_dump(mode="json")["runs"]
    return found


def _texts(entries: Sequence[Entry], *names: str) -> list[str]:
    """The different values of these fields in the order of the file, those of lists one by one."""
    return list(dict.fromkeys(str(one) for entry in entries for name in names for one in listed(entry.get(name))))


def _seeds(entry: Entry) -> int:
    """How many fine-tuning seeds an entry names."""
    told = entry.get("finetune")
    return len(listed(told.get("seed"))) if isinstance(told, dict) else 0

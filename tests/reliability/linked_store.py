"""Test a store with a link out of it, as a copied store may have: no repair, resume or deletion may follow the link."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from skillviz.errors import SkillvizError
from skillviz.runs.doctor import QUARANTINE, mended
from skillviz.runs.folder import WORK, RunFolder
from skillviz.runs.record import Failure
from skillviz.runs.store import PARTS, Store
from tests.fake_run import fake_run
from tests.reliability.engine import SMALL
from tests.serving.test_read_only import contents

LINKS: dict[str, Callable[[Path, str, str], Path]] = {
    "work of a finished run": lambda root, run, stopped: root / run / WORK,
    "work of a stopped run": lambda root, run, stopped: root / stopped / WORK,
    "a hidden entry of a stopped run": lambda root, run, stopped: root / stopped / ".draft",
    "a run": lambda root, run, stopped: root / run,
    "the quarantine": lambda root, run, stopped: root / QUARANTINE,
    "a run's part scores": lambda root, run, stopped: root / PARTS / run,
}
ACTS: tuple[Callable[[Store, str, str], object], ...] = (
    lambda store, run, stopped: mended(store),
    lambda store, run, stopped: RunFolder(store.root / stopped).reopen(),
    lambda store, run, stopped: store.delete(run),
    lambda store, run, stopped: store.delete(stopped),
)


def linked(number: int, work: Path) -> Iterator[str]:
    """Yield the losses for each link in turn, after all actions that remove or move files, in any order.

    A change outside the store is a loss.
    """
    template = Store(work / "template")
    (fake_run(template, **SMALL).path / "extra.txt").write_text("not a file of the run")
    for index in range(number):
        name = list(LINKS)[index % len(LINKS)]
        lost = _after_all(work / f"linked-{index}", template, name, np.random.default_rng(index))
        yield f"{name}: {lost}" if lost else ""
        shutil.rmtree(work / f"linked-{index}")


def _after_all(folder: Path, template: Store, name: str, draw: np.random.Generator) -> str:
    store, outside = Store(folder / "runs"), folder / "outside"
    shutil.copytree(template.root, store.root)
    (run,) = store.list()
    stopped = store.create(run.spec)
    stopped.fail(Failure(kind="killed", message="m.", hint="h"))
    shutil.copytree(run.path, outside)
    (outside / ".hidden").mkdir()
    (outside / ".hidden" / "key").write_text("precious")
    place, before = LINKS[name](store.root, run.id, stopped.id), contents(outside)
    place.parent.mkdir(exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.symlink_to(outside)
    for act in draw.permutation(len(ACTS)):
        try:
            ACTS[act](store, run.id, stopped.id)
        except SkillvizError:
            pass
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if contents(outside) != before:
            return "what lies outside was changed"
    return ""

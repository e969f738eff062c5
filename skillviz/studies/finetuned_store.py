"""Fine-tuned models of studies, kept by the hash of their spec: made whole or not at all, and made anew when what they
were made of has changed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skillviz.atomic import folder_lock, whole_folder, write_text
from skillviz.errors import BadInput, BadModel, RunNotFound
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import resolve
from skillviz.runs.folder import now
from skillviz.runs.library import Library, library
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, written
from skillviz.studies.finetuned_model import FineTunedSpec, folder_of, task_name
from skillviz.studies.staleness import DATA, DEFINITION, REGIONS
from skillviz.tasks import registry
from skillviz.tasks.definition import definition, same_definition
from skillviz.tasks.splits import load
from skillviz.tasks.task import Files
from skillviz.tasks.user_file import data_files

if TYPE_CHECKING:
    from skillviz.models.finetune.training import TrainStep

RECORD = "member.json"
RECORD_VERSION = 1
SAMPLE = ("k_shot", "data_seed", "max_train", "max_validation")

Heard = Callable[["TrainStep"], None]


class Made(NamedTuple):
    """What a member was made of: fingerprints of the base and of each task's data, a hash of each run's region and of
    each task's definition."""

    base: str
    data: dict[str, str]
    regions: dict[str, str]
    definitions: dict[str, str]


def made(spec: FineTunedSpec, store: Store) -> Path | None:
    """The folder of a finished member that is still what it would be now; else None."""
    folder = folder_of(spec)
    return folder if _own_record(spec) is not None and not outdated(spec, store) else None


def outdated(spec: FineTunedSpec, store: Store) -> str:
    """What has changed since the finished member was made, in words; empty where it stands, or was never made.

    Where base or data are gone it stands, as finished runs do.
    """
    record = _own_record(spec)
    if record is None:
        return ""
    try:
        asked = made_of(spec, library(store.root))
    except (BadModel, BadInput, RunNotFound):
        return ""
    if record.get("base") != asked.base:
        return "the base model has changed"
    told = record.get("data", {})
    if other := next((task for task, data in asked.data.items() if told.get(task) != data), None):
        return DATA.format(task_name(other))
    told = record.get("definitions", {})  # older records do not have them
    if other := next(
        (task for task, now in asked.definitions.items() if not same_definition(told.get(task), now)), None
    ):
        return DEFINITION.format(task_name(other))
    return REGIONS if record.get("regions", {}) != asked.regions else ""


def _own_record(spec: FineTunedSpec) -> dict[str, Any] | None:
    """member.json of this spec's finished member; None where there is none."""
    record = finetuned_record(folder_of(spec))
    return record if record is not None and record.get("key") == spec.key() else None


def make(
    spec: FineTunedSpec,
    store: Store,
    *,
    device: str = "auto",
    progress: Heard | None = None,
    command: str | None = None,
) -> Path:
    """The folder of the member, which is trained where it is not there; `store` has the runs of its regions.

    Of two who ask at once one waits for the other. Raises what fine-tuning raises; nothing is left then.
    """
    folder = folder_of(spec)
    with ExitStack() as stack:
        with written(folder.parent):
            stack.enter_context(folder_lock(folder))
        if made(spec, store) is None:
            with whole_folder(folder, replace=True) as part:
                _train(spec, part, store, device, progress, command)
    return folder


def made_of(spec: FineTunedSpec, found: Library) -> Made:
    """What the member would be made of now; raises where a model, data or a run is not there."""
    base = read_info(resolve(spec.base)).fingerprint
    sample = {name: getattr(spec, name) for name in SAMPLE}
    data = {task: data_fingerprint(task, **sample) for task in spec.tasks}
    regions = {run.key(): region_sha256(run_of(run, found)) for run in spec.regions}
    return Made(base, data, regions, {task: definition(registry.task(task), spec.readout) for task in spec.tasks})


def data_fingerprint(task: str, **sample: Any) -> str:
    """The fingerprint of a task's examples under a sampling; they are read again only where a file has changed."""
    found = registry.task(task)
    files = [found.path] if found.path else []
    files += data_files(found).values() if isinstance(found.data, Files) else []
    return _fingerprint(task, tuple(_state(path) for path in files), tuple(sorted(sample.items())))


@lru_cache(maxsize=256)
def _fingerprint(task: str, state: tuple[Any, ...], sample: tuple[tuple[str, Any], ...]) -> str:
    asked = dict(sample)
    seed = asked.pop("data_seed")
    return load(registry.task(task), seed=seed, **asked).fingerprint


def run_of(spec: RunSpec, found: Library) -> Run:
    """The newest finished run of a spec; raises RunNotFound."""
    return found.open(f"key:{spec.key()}")


def region_sha256(run: Run) -> str:
    """A hash of the entries of the run's main region; equal regions of other runs have the same."""
    return run.region().sha256()


def finetuned_record(folder: Path) -> dict[str, Any] | None:
    """member.json; None where the folder holds no finished member, or one of another version, which is made anew."""
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("schema_version") == RECORD_VERSION else None


def _train(
    spec: FineTunedSpec, part: Path, store: Store, device: str, progress: Heard | None, command: str | None
) -> None:
    """Trains the model into `part` and says there what it was made of."""
    # these import torch
    from skillviz.models.finetune.region_lock import TrainedRegion
    from skillviz.models.finetune.run import finetune
    from skillviz.runs.provenance import commit, versions

    started, found = time.perf_counter(), library(store.root)
    of = made_of(spec, found)
    runs = [run_of(run, found) for run in spec.regions]
    config, data = spec.settings()
    model = part / "model"
    finetune(
        spec.base, [registry.task(task) for task in spec.tasks], config, data, out=model, device=device,
        regions=[TrainedRegion(run.region(), run.id) for run in runs], command=command, on_step=progress,
    )  # fmt: skip
    for path in model.iterdir():
        path.rename(part / path.name)
    model.rmdir()
    record = {
        "schema_version": RECORD_VERSION, "key": spec.key(), "spec": spec.model_dump(mode="json"), **of._asdict(),
        "created": now(), "device": device_name(device), "seconds": round(time.perf_counter() - started, 3),
        "versions": versions(), "commit": commit(),
    }  # fmt: skip
    write_text(part / RECORD, json.dumps(record, indent=1) + "\n")


def device_name(device: str) -> str:
    """The device that `device` takes, as runs tell it."""
    from skillviz.models.device import describe, pick

    return describe(pick(device))


def _state(path: Path) -> tuple[str, int, int]:
    state = path.stat()
    return str(path), state.st_size, state.st_mtime_ns

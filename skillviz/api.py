"""The Python API: the commands of the command line as functions. `import skillviz` loads them lazily."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from skillviz.analysis.other_regions import other_regions
from skillviz.core.graft import Graft, complement, grafted
from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.fetch import graft_file
from skillviz.models.finetune.region_lock import TrainedRegion
from skillviz.models.finetune.run import Finetuned
from skillviz.models.finetune.run import finetune as finetune_by_config
from skillviz.models.finetune.training import OnStep
from skillviz.models.finetune.training_config import split_settings
from skillviz.models.pair import ModelPair, load_pair
from skillviz.runs.evaluation import Evaluation, evaluate
from skillviz.runs.other_regions import OtherRegions
from skillviz.runs.part_scores import REGIONS, store_of, stored_parts
from skillviz.runs.process import Report
from skillviz.runs.produce import produce
from skillviz.runs.run import Run as StoredRun
from skillviz.runs.spec import DEFAULT_SIZE, read_spec, usual_nulls
from skillviz.runs.store import Store, library, store_root
from skillviz.show.briefs import headline_split
from skillviz.show.notebook import Run, open_run, open_study
from skillviz.tasks.registry import task
from skillviz.tasks.task import Task

__all__ = [
    "Evaluation",
    "Finetuned",
    "Graft",
    "ModelPair",
    "Region",
    "Run",
    "Task",
    "complement",
    "evaluate",
    "finetune",
    "grafted",
    "load_graft",
    "load_pair",
    "localize",
    "open_run",
    "open_study",
    "regions",
    "task",
]

Size = str | int | float


def localize(
    base: str | PathLike[str],
    finetuned: str | PathLike[str],
    task: str | PathLike[str] | Task,
    *,
    size: Size | Sequence[Size] = DEFAULT_SIZE,
    method: str = DEFAULT_LOCALIZER,
    runs_dir: str | Path | None = None,
    progress: Report | None = None,
    **settings: Any,
) -> Run:
    """Return the finished run: the region found, its predictions and its curve, stored under `runs_dir`.

    `size` is a percentage ("0.1%"), a count (10646), a share (0.001), or several of them with the main one first.
    `settings` are the other fields of a run: readout, seed, steps, batch_size, options, device, dtype, autocast,
    cuda_graphs, k_shot, data_seed, max_train, max_validation, max_test, interpolation, others, nulls, null_draws, gain
    and outside. `nulls` ("shuffled", the default, "all" or "none") names the null movements on which the same search
    also runs. `gain` (a number, "fit", or "kinds" for one by module kind) is the factor on the movement in the grafts.
    `outside` (a run's id or a region expression) is a region that the search must not use.

    `progress` is called with runs.process.Progress records. Raises an error of skillviz.errors for wrong input.
    """
    sizes = size if isinstance(size, str | int | float) else tuple(size)
    given = {"sizes": sizes, "localizer": method, "nulls": usual_nulls(method), **settings}
    pair = {"base": str(base), "finetuned": str(finetuned), "task": _task_name(task)}
    spec = read_spec({**pair, **given}).anchored(Path.cwd())
    return Run.of(produce(spec, Store(store_root(runs_dir)), progress))


def regions(
    run: str | StoredRun,
    find: str | None = None,
    *,
    count: int = 1,
    draws: int = 1,
    sample: int = 500,
    seed: int = 0,
    runs_dir: Path | None = None,
    told: Callable[[str], object] = lambda text: None,
) -> pd.DataFrame:
    """Return the other regions stored beside a run, one row per region and measure: `analysis.other_regions`.

    `find` (disjoint, minimal or adversarial) first searches for regions that are not stored yet, like the command:
    `count` of them, each with `draws` controls, scored on a `sample` of the test set. `told` is called with messages
    about the progress. Raises BadInput if no other region is stored.
    """
    stored = open_run(run, runs_dir) if isinstance(run, str) else run
    if find is not None:
        split = headline_split(stored.record)
        OtherRegions(stored, store_of(stored, runs_dir), split, sample, seed, told).find(find, count, draws)
    scores = stored_parts(library(runs_dir), stored, REGIONS)
    if scores is None:
        raise BadInput(f"no other region of run {stored.id} is stored; find some: skillviz.regions(run, 'disjoint').")
    return other_regions(stored, scores)


def finetune(
    base: str,
    task: Task,
    *,
    out: Path | str,
    region: Region | None = None,
    region_run: str | None = None,
    device: str = "auto",
    overwrite: bool = False,
    command: str | None = None,
    progress: OnStep | None = None,
    **settings: Any,
) -> Finetuned:
    """Fine-tune a model and write it to `out`, an ordinary `from_pretrained` folder with a model card.

    `settings` are the fields of `models.finetune.training_config`: recipe, readout, head, steps, batch_size, lr, seed,
    grid, rank, width, matrices, train_embeddings, train_head; k_shot, data_seed, max_train, max_validation, max_test,
    evaluate_test.

    `region` holds the only parameters that the recipe graft-retrain may move; `region_run` is the id of the run that
    found it. `progress` is called with the record of every step. Raises BadInput if `out` is not empty (unless
    `overwrite`) or if the loss is no longer a number.
    """
    config, data = split_settings(settings)
    regions = [] if region is None else [TrainedRegion(region, region_run)]
    return finetune_by_config(
        base, [task], config, data, out=out, regions=regions, device=device, overwrite=overwrite, command=command,
        on_step=progress,
    )  # fmt: skip


def load_graft(source: str | PathLike[str]) -> Graft:
    """Return the graft in a file, or one published on the Hugging Face Hub: `org/name` or `org/name@revision`."""
    return Graft.load(graft_file(str(source)))


def _task_name(task: str | PathLike[str] | Task) -> str:
    """Return the task's name in a run's spec: its file, or its name in the registry."""
    if isinstance(task, Task):
        return str(task.path) if task.path else task.name
    return str(task)

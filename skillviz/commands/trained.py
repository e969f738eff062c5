"""What `finetune` does once its options are read: the recipe's engine called, shown, and reported."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillviz.commands.output import print_finetuned, print_json, progress_bar, say
from skillviz.commands.region_source import GivenRegion, check_bases, given_region
from skillviz.models.finetune.recipes import check_use

if TYPE_CHECKING:
    from skillviz.models.finetune.single_task import Finetuned, TrainStep
    from skillviz.tasks.task import Task


@dataclass(frozen=True)
class Choice:
    """The options of one call. `common` go to every engine as they are, `single` only to that of one task."""

    base: str
    tasks: Sequence[str]
    recipe: str
    common: Mapping[str, Any]
    single: Mapping[str, Any]
    lr: float | None = None
    grid: str | None = None
    rank: int | None = None
    region: str | None = None
    mode: str | None = None
    regions: Sequence[str] = ()
    optimizer: str | None = None
    runs_dir: Path | None = None
    force: bool = False

    @property
    def given(self) -> list[GivenRegion]:
        """The regions that are named, each read once it is asked for."""
        return [given_region(name, self.runs_dir) for name in self.region_names]

    @property
    def region_names(self) -> list[str]:
        """The runs and files of --region and --regions."""
        return [*([] if self.region is None else [self.region]), *self.regions]


def train(choice: Choice) -> tuple[Finetuned, str]:
    """The result, and the metric to report it by; raises BadInput before anything is computed where options clash."""
    check_choice(choice)
    from skillviz.tasks import registry

    tasks = [registry.task(name) for name in choice.tasks]
    with progress_bar("fine-tuning") as advance:
        heard = shown(advance, tasks[0].metric)
        return _engine(choice, tasks)(progress=heard, command=command_line()), tasks[0].metric


def check_choice(choice: Choice) -> None:
    """Raises BadInput where the options do not go together."""
    check_use(
        choice.recipe, tasks=len(choice.tasks), rank=choice.rank, regions=len(choice.region_names),
        mode=choice.mode, grid=choice.grid, lr=choice.lr, optimizer=choice.optimizer,
        extra_trained=bool(choice.single["train_embeddings"] or choice.single["train_head"]),
    )  # fmt: skip


def command_line() -> str:
    """The command as it was typed."""
    return "python -m skillviz " + shlex.join(sys.argv[1:])


def report(done: Finetuned, metric: str, as_json: bool) -> None:
    """Prints the metrics, the notes and where the model lies."""
    print_finetuned(done.scores, metric)
    for remark in done.notes:
        say(remark)
    for point in done.grid:
        value = "no number" if point["value"] is None else f"{point['value']:.4f}"
        kept = ", kept" if point["chosen"] else ""
        say(f"Grid: batch {point['batch_size']}, rate {point['lr']:g}: validation {value}{kept}.")
    what = f"the models are in {done.path}" if done.members else f"the model is in {done.path}"
    say(f"Kept step {done.best_step:,} of {len(done.history):,}; {what} ({done.seconds:.0f} s).")
    if as_json:
        told: dict[str, Any] = {"path": str(done.path), "best_step": done.best_step, "steps": len(done.history)}
        told |= {"touched": done.touched, "trained": done.trained}
        told |= {"members": {name: str(path) for name, path in done.members.items()}} if done.members else {}
        print_json({**told, "seconds": round(done.seconds, 3), "metrics": done.scores})


def _engine(choice: Choice, tasks: Sequence[Task]) -> Callable[..., Finetuned]:
    """The function that trains by this choice; it still takes `progress` and `command`."""
    from functools import partial

    common, given = {**choice.common, "lr": choice.lr}, choice.given
    check_bases(choice.base, given, choice.force)
    if choice.recipe == "multi-task":
        from skillviz.models.finetune.multi_task import finetune_tasks

        return partial(
            finetune_tasks, choice.base, tasks, grid=choice.grid, optimizer=choice.optimizer or "sgd", **common
        )
    if choice.recipe == "continual":
        from skillviz.models.finetune.continual import finetune_sequence

        return partial(
            finetune_sequence, choice.base, tasks, regions=[one.region for one in given] or None,
            region_runs=[one.run for one in given], optimizer=choice.optimizer or "sgd", **common,
        )  # fmt: skip
    from skillviz.models.finetune.single_task import finetune

    region: dict[str, Any] = {"region": given[0].region, "region_run": given[0].run} if given else {}
    return partial(
        finetune, choice.base, tasks[0], recipe=choice.recipe, rank=choice.rank, grid=choice.grid,
        **region, **common, **choice.single,
    )  # fmt: skip


def shown(advance: Callable[..., None], metric: str) -> Callable[[TrainStep], None]:
    """Shows each step's loss, and the best check so far."""
    best: list[float] = []

    def show(record: TrainStep) -> None:
        if record.metric is not None and record.best:
            best[:] = [record.metric]
        text = f"loss {record.loss:.3f}" + (f", best {metric} {best[0]:.3f}" if best else "")
        advance(record.step, record.steps, f"fine-tuning: {text}")

    return show

"""`finetune`: make the fine-tuned model of a pair with one of the recipes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillviz import json_text
from skillviz.commands import options
from skillviz.commands.cluster import run_there
from skillviz.commands.output import command_line, note, print_finetuned, print_json, progress_bar, say
from skillviz.core.comparison import Comparison
from skillviz.core.draws import LARGEST_SEED
from skillviz.core.formats import share
from skillviz.core.metrics import metric_row
from skillviz.errors import BadInput
from skillviz.models.adapters import placement_of, trained
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import resolve
from skillviz.models.finetune.recipes import (
    GRIDS,
    MODES,
    OPTIMIZERS,
    RANKS,
    RECIPES,
    SGD,
    WIDTHS,
    default_rates,
)
from skillviz.models.finetune.training_config import BATCH_SIZE, DataSettings, TrainingConfig
from skillviz.models.frozen_tensors import strip
from skillviz.runs import slurm_queue
from skillviz.runs.artifact import CURRENT
from skillviz.runs.process import Progress, Suspended, gently, silent
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, open_run, store_root
from skillviz.studies.finetuned_model import FineTunedArtifact, FineTunedSpec, make, read_finetuned
from skillviz.tasks import registry
from skillviz.tasks.project import expanded

if TYPE_CHECKING:
    from skillviz.models.finetune.training import OnStep, TrainStep


from functools import cached_property

from skillviz.core.region import Region
from skillviz.errors import WrongBase
from skillviz.runs.packed import file_of
from skillviz.runs.run import REGION

Tasks = Annotated[
    list[str],
    typer.Option(
        "--task",
        metavar="TASK",
        rich_help_panel=options.MODELS,
        help="A task of the registry, such as sst2, or a YAML file; several times for multi-task and continual.",
    ),
]
Recipe = Annotated[
    str,
    typer.Option(
        "--recipe", metavar="NAME", rich_help_panel=options.SEARCH, help=f"How it is trained: {', '.join(RECIPES)}."
    ),
]
Rank = Annotated[
    int | None,
    typer.Option(
        "--rank",
        metavar="R",
        rich_help_panel=options.SEARCH,
        help=f"Rank of the recipe lora ({', '.join(map(str, RANKS))} in the paper). Default: {RECIPES['lora'].rank}.",
    ),
]
Width = Annotated[
    int | None,
    typer.Option(
        "--width",
        metavar="W",
        rich_help_panel=options.SEARCH,
        help=f"Inner width of the adapter recipes ({', '.join(map(str, WIDTHS))} in the paper). Default: "
        f"{RECIPES['adapter-houlsby'].width}.",
    ),
]
Matrices = Annotated[
    int | None,
    typer.Option(
        "--matrices",
        metavar="N",
        rich_help_panel=options.SEARCH,
        help="How many query and value matrices the recipe lora changes, from the last layer back, value before query. "
        "Default: all.",
    ),
]
RegionOf = Annotated[
    str | None,
    typer.Option(
        "--region",
        metavar="RUN|FILE",
        rich_help_panel=options.SEARCH,
        help="What graft-retrain may move: a run (id, folder or key:<spec key>) or a region.safetensors.",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="|".join(MODES),
        rich_help_panel=options.SEARCH,
        help="For continual: train everything at every stage, or only the stage's region (--regions).",
    ),
]
Regions = Annotated[
    list[str] | None,
    typer.Option(
        "--regions",
        metavar="RUN|FILE",
        rich_help_panel=options.SEARCH,
        help="For continual: one per task, in order.",
    ),
]
Optimizer = Annotated[
    str | None,
    typer.Option(
        "--optimizer",
        metavar="|".join(OPTIMIZERS),
        rich_help_panel=options.SEARCH,
        help="For graft-retrain, multi-task and continual. Default: sgd.",
    ),
]
GridName = Annotated[
    str | None,
    typer.Option(
        "--grid",
        metavar="|".join(GRIDS),
        rich_help_panel=options.SEARCH,
        help="Try several and keep the best on validation data: the paper's batch sizes and learning rates (paper), "
        "or its learning rates at --batch-size (quick).",
    ),
]


def finetune(
    base: options.Base,
    task: Tasks,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            rich_help_panel=options.WHERE,
            help="The folder to write to; without it the cache of studies, $SKILLVIZ_FINETUNED, where nothing is "
            "trained twice.",
        ),
    ] = None,
    recipe: Recipe = SGD,
    rank: Rank = None,
    width: Width = None,
    matrices: Matrices = None,
    region: RegionOf = None,
    mode: Mode = None,
    regions: Regions = None,
    optimizer: Optimizer = None,
    grid: GridName = None,
    readout: Annotated[
        options.ReadoutName,
        typer.Option(
            "--readout",
            rich_help_panel=options.MODELS,
            help="What is trained: the classification head (head), the label words at the mask (prompt), "
            "or the answers after the prompt (causal).",
        ),
    ] = options.ReadoutName.head,
    k_shot: options.KShot = None,
    data_seed: options.DataSeed = 0,
    max_train: options.MaxTrain = None,
    max_validation: options.MaxValidation = None,
    max_test: options.MaxTest = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps",
            min=1,
            metavar="N",
            rich_help_panel=options.SEARCH,
            help="Steps. Default: 16 a label and shot with --k-shot, as in the paper, else 2000; multi-task: their "
            "sum; continual: so many a stage.",
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, metavar="N", rich_help_panel=options.SEARCH, help="Examples a step.")
    ] = 8,
    lr: Annotated[
        float | None,
        typer.Option(
            "--lr",
            metavar="X",
            rich_help_panel=options.SEARCH,
            help=f"Learning rate. Default: {default_rates()}; small models need larger ones.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            min=0,
            max=LARGEST_SEED,
            rich_help_panel=options.SEARCH,
            help="Seed of order, dropout and a new head.",
        ),
    ] = 0,
    train_embeddings: Annotated[
        bool,
        typer.Option(
            "--train-embeddings", rich_help_panel=options.SEARCH, help="Train embeddings too (not graftable)."
        ),
    ] = False,
    train_head: Annotated[
        bool,
        typer.Option(
            "--train-head", rich_help_panel=options.SEARCH, help="Train a language-model head too (not graftable)."
        ),
    ] = False,
    head: Annotated[
        options.HeadName,
        typer.Option(
            "--head",
            rich_help_panel=options.MODELS,
            help="The classification head (--readout head): that of the model's own class, pooler included, or the "
            "paper's bare linear layer on the first token, stored as a token-classification model.",
        ),
    ] = options.HeadName.own,
    without_frozen: Annotated[
        bool,
        typer.Option(
            "--without-frozen",
            rich_help_panel=options.WHERE,
            help="Store the model without the tensors that equal the base's; it then opens only beside that base.",
        ),
    ] = False,
    test: Annotated[
        bool, typer.Option("--test", rich_help_panel=options.DATA, help="Score the test set too, for the model card.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", rich_help_panel=options.SEARCH, help="Accept a region that was found on another base."),
    ] = False,
    overwrite: options.Overwrite = False,
    device: options.Device = "auto",
    cluster: options.Cluster = None,
    runs_dir: options.RunsDir = None,
    convert: options.Convert = False,
    as_json: options.AsJson = False,
) -> None:
    """Fine-tune a base model, by default by the paper's SGD, and write an ordinary model folder with a card.

    Plain SGD at a constant rate, gradient norm clipped at 1, dropout on, embeddings and language-model head frozen;
    the validation metric is taken every 100 steps and the best is kept. --recipe names another way: AdamW, biases
    only, LoRA (merged), adapters, a region re-trained, several tasks at once (DIR/<task>) or one after the other
    (DIR/<stage>/<task>). With --cluster this command waits for the job and shows its output.

    [bold]Examples[/bold]

      python -m skillviz finetune --base roberta-base --task sst2 --readout prompt --k-shot 64 --out models/sst2-64

      python -m skillviz finetune --base models/my-encoder --task data/task.yaml --steps 2000 --out models/mine

      python -m skillviz finetune --recipe graft-retrain --region RUN --base roberta-base --task sst2 --out models/again
    """
    config = TrainingConfig(
        recipe, readout.value, head.value, steps, batch_size, lr, seed, optimizer, grid, rank, train_embeddings,
        train_head, matrices, width=width,
    )  # fmt: skip
    data = DataSettings(k_shot, data_seed, max_train, max_validation, max_test, test)
    if out is None:
        of_folders = {
            "--train-embeddings": train_embeddings, "--train-head": train_head, "--without-frozen": without_frozen,
            "--test": test, "--overwrite": overwrite, "--max-test": max_test, "--force": force,
        }  # fmt: skip
        for option, value in of_folders.items():
            if value:
                raise BadInput(f"{option} needs --out DIR: the cache holds models as studies make them.")
    names = [*([] if region is None else [region]), *(regions or ())]
    config.check(len(task), len(names), mode)
    if cluster is not None:
        run_there(store_root(runs_dir))
        return
    choice = Choice(base, task, config, data, [region_source(name, runs_dir) for name in names], device, runs_dir)
    if out is None:
        _train_into_cache(choice, as_json)
    else:
        _train_into_folder(choice, out, overwrite, without_frozen, force, as_json)


@dataclass(frozen=True)
class Choice:
    """The settings of a fine-tuning: model, tasks, recipe, data, regions, device and store."""

    base: str
    tasks: Sequence[str]
    config: TrainingConfig
    data: DataSettings
    regions: Sequence[RegionSource]
    device: str
    runs_dir: Path | None

    @property
    def metric(self) -> str:
        """The metric of the first task, in which the result is reported."""
        return registry.task(self.tasks[0]).metric

    @property
    def checked(self) -> str:
        """The name of the metric shown during training: the tasks' common metric if they have one."""
        metrics = {registry.task(name).metric for name in self.tasks}
        return metric_row(metrics.pop()).title if len(metrics) == 1 else "validation metric"

    def refuse_base(self) -> None:
        """Raises SkillvizError if the base is not a model that the recipe can train, without torch or data.

        Prints the exact number of parameters in adapters.
        """
        base = read_info(resolve(expanded(self.base, "base")))
        if placement := placement_of(self.config.recipe):
            parts = trained(base, placement, self.config.settings().width or 1)
            say(f"To be trained: {parts}, and the classification head if there is one.")

    def spec(self) -> FineTunedSpec:
        """The model's spec as in a study: default values are left out, so that both find the same model."""
        config, data = asdict(self.config), asdict(self.data)
        values = {name: value for name, value in {**config, **data}.items() if name in FineTunedSpec.model_fields}
        defaults = {"batch_size": BATCH_SIZE, "grid": "none"}
        values |= {name: None for name, value in defaults.items() if values[name] == value}
        regions = tuple(_run_of(region, self.runs_dir) for region in self.regions)
        return read_finetuned({**values, "base": self.base, "tasks": tuple(self.tasks), "regions": regions})


def _run_of(region: RegionSource, runs_dir: Path | None) -> RunSpec:
    if region.named.endswith(".safetensors"):
        raise BadInput(
            f"{region.named} is a file: models in the cache are trained on regions of runs; name a run, or --out."
        )
    return open_run(region.named, runs_dir).spec


def _train_into_folder(
    choice: Choice, out: Path, overwrite: bool, without_frozen: bool, force: bool, as_json: bool
) -> None:
    choice.config.settings()
    choice.refuse_base()
    from skillviz.models.finetune.region_lock import TrainedRegion  # imports torch
    from skillviz.models.finetune.run import finetune as train  # imports torch

    tasks = [registry.task(name) for name in choice.tasks]
    with interruptible() as advance:
        check_bases(choice.base, choice.regions, force)
        done = train(
            choice.base, tasks, choice.config, choice.data, out=out, device=choice.device, overwrite=overwrite,
            regions=[TrainedRegion(region.region, region.run) for region in choice.regions],
            command=command_line(), on_step=shown(advance, choice.checked),
        )  # fmt: skip
    if without_frozen:
        for folder in done.folders.values() or [out]:
            left = strip(folder, choice.base)
            say(f"{len(left.names)} tensors that equal the base's were left out ({left.bytes / 1e6:.1f} MB).")
    print_finetuned(done.scores, choice.metric)
    _say_trained(json_text.read(path) for path in sorted(done.path.rglob("finetune.json")))
    for remark in done.notes:
        say(remark)
    for point in done.grid:
        value = "no number" if point["value"] is None else f"{point['value']:.4f}"
        chosen = ", kept" if point["chosen"] else ""
        say(f"Grid: batch {point['batch_size']}, rate {point['lr']:g}: validation {value}{chosen}.")
    where = f"the models are in {done.path}" if done.folders else f"the model is in {done.path}"
    say(f"Kept step {done.best_step:,} of {len(done.history):,}; {where} ({done.seconds:.0f} s).")
    if as_json:
        folders = {"models": {name: str(path) for name, path in done.folders.items()}} if done.folders else {}
        print_json({
            "path": str(done.path), "best_step": done.best_step, "steps": len(done.history), "touched": done.touched,
            "trained": done.trained, **folders, "seconds": round(done.seconds, 3), "metrics": done.scores,
        })  # fmt: skip


def _train_into_cache(choice: Choice, as_json: bool) -> None:
    """Trains the model into the cache of studies, unless it is there already, and reports it."""
    spec, store = choice.spec(), Store(store_root(choice.runs_dir))
    check_bases(choice.base, choice.regions)
    artifact = FineTunedArtifact(spec)
    model = artifact.finished(store)
    change = CURRENT if model is None else artifact.changes(model, store)
    is_cached = model is not None and change.comparison is not Comparison.DIFFERENT
    if change.comparison is Comparison.DIFFERENT:
        say(f"The model was there before, and is trained again: {change.why}.")
    elif change.comparison is Comparison.UNKNOWN:
        note(f"The cached model is kept. Whether its sources changed is unknown: {change.why}.")
    if not is_cached:
        choice.refuse_base()
        with interruptible() as advance:
            on_step = shown(advance, choice.checked)
            model = make(spec, store, device=choice.device, progress=on_step, command=command_line())
    assert model is not None
    folder = model.path
    records = {str(p.parent.relative_to(folder)): json_text.read(p) for p in folder.rglob("finetune.json")}
    scores = {name: record["scores"] for name, record in sorted(records.items())}
    print_finetuned(
        {f"{name} {split}".removeprefix(". "): values for name, of in scores.items() for split, values in of.items()},
        choice.metric,
    )
    _say_trained(record for _, record in sorted(records.items()))
    say(f"The model {'was there before' if is_cached else 'is kept'}: {folder}.")
    if as_json:
        print_json({"path": str(folder), "cached": is_cached, "metrics": scores.get(".", scores)})


@contextmanager
def interruptible() -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar, during which Ctrl-C ends the training after the current step, so that it can be resumed."""
    with progress_bar("fine-tuning") as advance, gently(silent) as report:
        steps = 0

        def step(number: int, total: int, text: str) -> None:
            nonlocal steps
            steps += 1
            advance(number, total, text)
            report(Progress("finetune", number, total, text))

        try:
            yield step
        except Suspended as interrupt:
            if interrupt.time_is_up and steps:  # without a step, the next attempt would get no further
                slurm_queue.requeue()
            raise
        except KeyboardInterrupt:
            note("Run the same command again to resume the training where it stopped.")
            raise


def _say_trained(records: Iterable[Mapping[str, Any]]) -> None:
    """Prints the exact number of parameters trained in each model, from its finetune.json."""
    for record in records:
        trained, head = record["trained"], record["trained_head"]
        beside = f", and {head:,} of the classification head" if head else ""
        part = share(trained / record["d"])
        say(f"{record['task']}: {trained:,} parameters trained ({part} of the graftable){beside}.")


def shown(advance: Callable[..., None], checked: str) -> OnStep:
    """A function that shows each step's loss, and the best check so far."""
    best: list[float] = []

    def show(record: TrainStep) -> None:
        if record.metric is not None and record.best:
            best[:] = [record.metric]
        text = f"loss {record.loss:.3f}" + (f", best {checked} {best[0]:.3f}" if best else "")
        advance(record.step, record.steps, f"fine-tuning: {text}")

    return show


@dataclass(frozen=True)
class RegionSource:
    """A region by the name that was typed, its file (bytes if its run is packed), and its run's id if it has one."""

    named: str
    file: Path | bytes
    run: str | None

    @cached_property
    def region(self) -> Region:
        """The region itself."""
        return Region.load(self.file)

    @cached_property
    def header(self) -> dict[str, Any]:
        """The header of its file, with its origin."""
        return Region.header(self.file)


def region_source(named: str, runs_dir: Path | None = None) -> RegionSource:
    """The region of a file, or the main one of a run: its id, a unique beginning, its folder or key:<spec key>."""
    file = Path(expanded(named))
    if file.is_file() or named.endswith(".safetensors"):
        return RegionSource(named, file, Region.header(file).get("run_id"))
    run = open_run(named, runs_dir)
    return RegionSource(named, file_of(run.path, REGION), run.id)


def check_bases(base: str, regions: Sequence[RegionSource], force: bool = False) -> None:
    """Raises WrongBase if a region was found on another base, according to its file; with `force`, prints a note
    instead.

    A region that does not name its base is used, with a note that its base is unknown.
    """
    origins = {one.named: one.header.get("base_fingerprint") for one in regions}
    info = read_info(resolve(base)) if any(origins.values()) else None
    for named, fingerprint in origins.items():
        if not fingerprint or info is None:
            note(f"The region of {named} does not name the base that it was found on, so the two cannot be compared.")
            continue
        if fingerprint == info.fingerprint:
            continue
        sentence = (
            f"the region of {named} was found on a base with the fingerprint {str(fingerprint)[:12]}; '{info.id}' has "
            f"{info.fingerprint[:12]}"
        )
        if not force:
            raise WrongBase(f"{sentence}. Give that base, or add --force to train the region of this one anyway.")
        note(f"Forced: {sentence}.")

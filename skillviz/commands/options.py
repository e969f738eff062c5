"""The options that several commands share, defined once."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands.output import note
from skillviz.core.draws import LARGEST_SEED
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.nulls import NULLS
from skillviz.models import convert
from skillviz.runs.slurm_queue import SLURM
from skillviz.runs.spec import DEFAULT_SIZE, MOST_DRAWS


class ReadoutName(StrEnum):
    """The ways to read class scores from a model."""

    prompt = "prompt"
    head = "head"
    causal = "causal"


class HeadName(StrEnum):
    """The classification heads that can be trained."""

    own = "own"
    linear = "linear"


def device_name(value: str) -> str:
    """Returns the value if it is the name of a device; otherwise raises BadParameter."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", value):
        raise typer.BadParameter(f"'{value}' is not a device; allowed: auto, cpu, cuda, cuda:<number>.")
    return value


class DtypeName(StrEnum):
    """The data types of the weights."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    own = "own"


MODELS, DATA, SEARCH, WHERE = "Models and task", "Data", "How", "Where and what is shown"

GRAFT_HELP = "A graft that export wrote, or one that is published: org/name or org/name@revision."
Base = Annotated[
    str,
    typer.Option(
        "--base", metavar="MODEL", rich_help_panel=MODELS, help="The pre-trained model: folder, id, or id@revision."
    ),
]
Finetuned = Annotated[
    str,
    typer.Option(
        "--finetuned",
        metavar="MODEL",
        rich_help_panel=MODELS,
        help="The same model after fine-tuning: folder, id, or id@revision; LoRA checkpoints are merged.",
    ),
]


def convert_models(ctx: typer.Context, value: bool) -> bool:
    """Lets this command convert pickled weights, but not a later command in the same process."""
    if value:
        before = convert.wanted.set(note)
        ctx.call_on_close(lambda: convert.wanted.reset(before))
    return value


Convert = Annotated[
    bool,
    typer.Option(
        "--convert", callback=convert_models, is_eager=True, rich_help_panel=MODELS,
        help="Convert a model that has only pickled weights (.bin) to safetensors in the cache. A process with limits "
        "reads tensors and nothing else.",
    ),
]  # fmt: skip
TaskName = Annotated[
    str,
    typer.Option(
        "--task", metavar="TASK", rich_help_panel=MODELS, help="A task of the registry, such as sst2, or a YAML file."
    ),
]
ReadoutOption = Annotated[
    ReadoutName | None,
    typer.Option(
        "--readout",
        rich_help_panel=MODELS,
        help="How class scores are read: label words at the mask (prompt), the model's classification head (head), "
        "likelihood of the answers (causal). Without it, what the fine-tuned model's class allows.",
    ),
]
KShot = Annotated[
    int | None,
    typer.Option(
        "--k-shot",
        min=1,
        metavar="K",
        rich_help_panel=DATA,
        help="Draw K training examples per class; in total where each example has its own options.",
    ),
]
DataSeed = Annotated[
    int, typer.Option("--data-seed", min=0, max=LARGEST_SEED, rich_help_panel=DATA, help="Seed of the k-shot draw.")
]
MaxTrain = Annotated[
    int | None,
    typer.Option("--max-train", min=1, metavar="N", rich_help_panel=DATA, help="Use at most N training examples."),
]
MaxValidation = Annotated[
    int | None,
    typer.Option(
        "--max-validation", min=1, metavar="N", rich_help_panel=DATA, help="Use at most N validation examples."
    ),
]
MaxTest = Annotated[
    int | None,
    typer.Option("--max-test", min=1, metavar="N", rich_help_panel=DATA, help="Use at most N test examples."),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        rich_help_panel=WHERE,
        metavar="auto|cpu|cuda|cuda:N",
        callback=device_name,
        help="auto uses a CUDA device if there is one.",
    ),
]


class ClusterName(StrEnum):
    """The kinds of cluster to which jobs can be submitted."""

    slurm = SLURM


Cluster = Annotated[
    ClusterName | None,
    typer.Option(
        "--cluster",
        rich_help_panel=WHERE,
        help="Submit it to a Slurm cluster, with the settings of cluster.yaml or $SKILLVIZ_CLUSTER (docs/jobs.md).",
    ),
]
Dtype = Annotated[
    DtypeName | None,
    typer.Option(
        "--dtype",
        rich_help_panel=WHERE,
        help="Data type of the weights: float32 is exact, bfloat16 takes half the memory, own keeps that of the files. "
        "Default: float32, and own with --lean.",
        show_default=False,
    ),
]
Lean = Annotated[
    bool,
    typer.Option(
        "--lean",
        rich_help_panel=WHERE,
        help="For large models: keep one model in memory and read both models' values from their files. Searches "
        "choose among the 1% of parameters that moved most. See docs/large-models.md.",
    ),
]
CudaGraphs = Annotated[
    bool,
    typer.Option(
        "--cuda-graphs",
        rich_help_panel=WHERE,
        help="On a GPU: record each pass of the search as a CUDA graph. Faster for small models (docs/localizers.md).",
    ),
]
DataParallel = Annotated[
    int | None,
    typer.Option(
        "--data-parallel",
        min=1,
        metavar="N",
        rich_help_panel=WHERE,
        help="Split each batch into N parts and add their gradients in order. With torchrun, N processes compute a "
        "part each and find the same region. Default: the number of processes.",
        show_default=False,
    ),
]
RunsDir = Annotated[
    Path | None,
    typer.Option(
        "--runs-dir",
        metavar="DIR",
        rich_help_panel=WHERE,
        help="The folder of runs; without it $SKILLVIZ_RUNS, else cached_runs/local.",
    ),
]
CsvFile = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", rich_help_panel=WHERE, help="Also write the table to this CSV file."),
]
OutFolder = Annotated[Path, typer.Option("--out", metavar="DIR", rich_help_panel=WHERE, help="The folder to write to.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", rich_help_panel=WHERE, help="Replace a folder that is not empty.")
]
AsJson = Annotated[
    bool, typer.Option("--json", rich_help_panel=WHERE, help="Print one JSON object as the last line of stdout.")
]


class NullChoice(StrEnum):
    """The null movements on which a search is also made."""

    none = "none"
    shuffled = "shuffled"
    all = "all"


class Autocast(StrEnum):
    """The data types of activations."""

    bfloat16 = "bfloat16"
    float16 = "float16"


Method = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        rich_help_panel=SEARCH,
        help=f"The localizer: {', '.join(LOCALIZERS)}. learned is the paper's and decides its size itself; "
        "expression builds the region that --option expression=JSON describes.",
    ),
]
Sizes = Annotated[
    list[str] | None,
    typer.Option(
        "--size",
        metavar="SIZE ...",
        rich_help_panel=SEARCH,
        help="Region size: a percentage (0.1%), a count (10646) or a share (0.001). Give several for a curve; "
        f"the first is the run's main size. Default: {DEFAULT_SIZE}.",
        show_default=False,
    ),
]
Steps = Annotated[
    int | None, typer.Option("--steps", min=1, metavar="N", rich_help_panel=SEARCH, help="Steps of the search.")
]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", min=1, metavar="N", rich_help_panel=SEARCH, help="Examples a step.")
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=LARGEST_SEED, rich_help_panel=SEARCH, help="Seed of the search.")
]
LocalizerOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        rich_help_panel=SEARCH,
        help="One more option of the localizer; may be repeated.",
    ),
]
Nulls = Annotated[
    NullChoice | None,
    typer.Option(
        "--nulls",
        rich_help_panel=SEARCH,
        help="Null movements that the same search is made on too, at the main size: shuffled within each tensor, or "
        f"all ({', '.join(NULLS)}). The finding says how much of the score lies beyond them. Default: shuffled; none "
        "for a localizer without a null, such as random.",
        show_default=False,
    ),
]
NullDraws = Annotated[
    int, typer.Option("--null-draws", min=1, max=MOST_DRAWS, rich_help_panel=SEARCH, help="Draws of each random null.")
]
Outside = Annotated[
    str,
    typer.Option(
        "--outside",
        metavar="RUN|JSON",
        rich_help_panel=SEARCH,
        help="Keep the search, and its nulls, out of a stored run's region or a region expression: what else does as "
        "well?",
    ),
]
Gain = Annotated[
    str,
    typer.Option(
        "--gain",
        metavar="1|fit|kinds|VALUE",
        rich_help_panel=SEARCH,
        help="The grafts' values are base + gain x movement. 1: the fine-tuned values. fit: the gain of least NLL on "
        "half of the validation examples, if it does better than 1 on the other half. kinds: also a gain for each "
        "module kind, if it does better still.",
    ),
]
Interpolation = Annotated[
    bool, typer.Option("--interpolation", rich_help_panel=SEARCH, help="Also score WiSE-FT and WiSE-Graft.")
]
Also = Annotated[
    list[str] | None,
    typer.Option(
        "--also",
        metavar="TASK",
        rich_help_panel=SEARCH,
        help="Also score all states on another task's test set, with that task's prompt. It needs the same labels. "
        "May be repeated.",
        show_default=False,
    ),
]
AutocastOption = Annotated[
    Autocast | None,
    typer.Option("--autocast", rich_help_panel=WHERE, help="Dtype of activations while searching."),
]

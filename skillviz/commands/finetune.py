"""`finetune`: make the second member of a pair, by one of the recipes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands import options as given
from skillviz.commands.output import say
from skillviz.core.seeds import LARGEST_SEED
from skillviz.models.finetune.recipes import GRIDS, MODES, OPTIMIZERS, RANKS, RECIPES

Tasks = Annotated[
    list[str],
    typer.Option(
        "--task",
        metavar="TASK",
        rich_help_panel=given.MODELS,
        help="A task of the registry, such as sst2, or a YAML file; several times for multi-task and continual.",
    ),
]
Recipe = Annotated[
    str,
    typer.Option(
        "--recipe", metavar="NAME", rich_help_panel=given.SEARCH, help=f"How it is trained: {', '.join(RECIPES)}."
    ),
]
Rank = Annotated[
    int | None,
    typer.Option(
        "--rank",
        metavar="R",
        rich_help_panel=given.SEARCH,
        help=f"Rank of the recipe lora ({', '.join(map(str, RANKS))} in the paper). Default: {RECIPES['lora'].rank}.",
    ),
]
RegionOf = Annotated[
    str | None,
    typer.Option(
        "--region",
        metavar="RUN|FILE",
        rich_help_panel=given.SEARCH,
        help="What graft-retrain may move: a run (id, folder or key:<spec key>) or a region.safetensors.",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="|".join(MODES),
        rich_help_panel=given.SEARCH,
        help="Of continual: everything moves at every stage, or each stage only what --regions gives it.",
    ),
]
Regions = Annotated[
    list[str] | None,
    typer.Option(
        "--regions", metavar="RUN|FILE", rich_help_panel=given.SEARCH, help="Of continual: once a task, in their order."
    ),
]
Optimizer = Annotated[
    str | None,
    typer.Option(
        "--optimizer",
        metavar="|".join(OPTIMIZERS),
        rich_help_panel=given.SEARCH,
        help="Of multi-task and continual. Default: sgd.",
    ),
]
GridName = Annotated[
    str | None,
    typer.Option(
        "--grid",
        metavar="|".join(GRIDS),
        rich_help_panel=given.SEARCH,
        help="Try several and keep the best on validation data: the paper's batch sizes and learning rates (paper), "
        "or its learning rates at --batch-size (quick).",
    ),
]


def finetune(
    base: given.Base,
    task: Tasks,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            rich_help_panel=given.WHERE,
            help="The folder to write to; without it the cache of studies, $SKILLVIZ_MEMBERS, where nothing is trained "
            "twice.",
        ),
    ] = None,
    recipe: Recipe = "sgd",
    rank: Rank = None,
    region: RegionOf = None,
    mode: Mode = None,
    regions: Regions = None,
    optimizer: Optimizer = None,
    grid: GridName = None,
    readout: Annotated[
        given.ReadoutName,
        typer.Option(
            "--readout",
            rich_help_panel=given.MODELS,
            help="What is trained to answer: the classification head (head), the label words at the mask (prompt), "
            "or the answers after the prompt (causal).",
        ),
    ] = given.ReadoutName.head,
    k_shot: given.KShot = None,
    data_seed: given.DataSeed = 0,
    max_train: given.MaxTrain = None,
    max_validation: given.MaxValidation = None,
    max_test: given.MaxTest = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps",
            min=1,
            metavar="N",
            rich_help_panel=given.SEARCH,
            help="Steps. Default: 16 a label and shot with --k-shot, as in the paper, else 2000; multi-task: their "
            "sum; continual: so many a stage.",
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, metavar="N", rich_help_panel=given.SEARCH, help="Examples a step.")
    ] = 8,
    lr: Annotated[
        float | None,
        typer.Option(
            "--lr",
            metavar="X",
            rich_help_panel=given.SEARCH,
            help="Learning rate. Default: 0.005 (prompt, causal) or 0.01 (head) for SGD, five times that for bitfit, "
            "0.00002 for adamw, 0.0005 for lora; small models want larger ones.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            min=0,
            max=LARGEST_SEED,
            rich_help_panel=given.SEARCH,
            help="Seed of order, dropout and a new head.",
        ),
    ] = 0,
    train_embeddings: Annotated[
        bool,
        typer.Option("--train-embeddings", rich_help_panel=given.SEARCH, help="Train embeddings too (not graftable)."),
    ] = False,
    train_head: Annotated[
        bool,
        typer.Option(
            "--train-head", rich_help_panel=given.SEARCH, help="Train a language-model head too (not graftable)."
        ),
    ] = False,
    head: Annotated[
        given.HeadName,
        typer.Option(
            "--head",
            rich_help_panel=given.MODELS,
            help="The classification head (--readout head): that of the model's own class, pooler included, or the "
            "paper's bare linear layer on the first token, stored as a token-classification model.",
        ),
    ] = given.HeadName.own,
    without_frozen: Annotated[
        bool,
        typer.Option(
            "--without-frozen",
            rich_help_panel=given.WHERE,
            help="Store the model without the tensors that equal the base's; it then opens only beside that base.",
        ),
    ] = False,
    test: Annotated[
        bool, typer.Option("--test", rich_help_panel=given.DATA, help="Score the test set too, for the model card.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", rich_help_panel=given.SEARCH, help="Take a region that was found on another base."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", rich_help_panel=given.WHERE, help="Replace a folder that is not empty.")
    ] = False,
    device: given.Device = "auto",
    runs_dir: given.RunsDir = None,
    as_json: given.AsJson = False,
) -> None:
    """Fine-tune a base model, by default by the paper's SGD, and write an ordinary model folder with a card.

    Plain SGD at a constant rate, gradient norm clipped at 1, dropout on, embeddings and language-model head frozen;
    the validation metric is taken every 100 steps and the best is kept. --recipe names another way: AdamW, biases
    only, LoRA (merged), a region re-trained, several tasks at once (DIR/<task>) or one after the other
    (DIR/<stage>/<task>).

    [bold]Examples[/bold]

      python -m skillviz finetune --base roberta-base --task sst2 --readout prompt --k-shot 64 --out models/sst2-64

      python -m skillviz finetune --base models/my-encoder --task data/task.yaml --steps 2000 --out models/mine

      python -m skillviz finetune --recipe graft-retrain --region RUN --base roberta-base --task sst2 --out models/again
    """
    from skillviz.commands.trained import Choice, report, train

    common = {
        "out": out, "readout": readout.value, "steps": steps, "batch_size": batch_size, "seed": seed, "k_shot": k_shot,
        "data_seed": data_seed, "max_train": max_train, "max_validation": max_validation, "max_test": max_test,
        "evaluate_test": test, "device": device, "head": head.value, "overwrite": overwrite,
    }  # fmt: skip
    single = {"train_embeddings": train_embeddings, "train_head": train_head}
    choice = Choice(
        base, task, recipe, common, single, lr, grid, rank, region, mode, regions or (), optimizer, runs_dir, force
    )
    if out is None:
        from skillviz.commands.cached import keep

        keep(choice, {**common, **single, "without_frozen": without_frozen, "force": force}, as_json)
        return
    done, metric = train(choice)
    if without_frozen:
        from skillviz.models.frozen_tensors import strip

        for folder in done.members.values() or [out]:
            left = strip(folder, base)
            say(f"{len(left.names)} tensors that equal the base's were left out ({left.bytes / 1e6:.1f} MB).")
    report(done, metric, as_json)

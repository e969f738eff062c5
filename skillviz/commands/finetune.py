"""`finetune`: make the second member of a pair."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from skillviz.commands import options as given
from skillviz.commands.output import METRIC_WORDS, PERCENT, print_json, print_rows, progress_bar, say


def finetune(
    base: given.Base,
    task: given.TaskName,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", rich_help_panel=given.WHERE, help="The folder to write to.")
    ],
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
            help="SGD steps. Default: 16 a label and shot with --k-shot, as in the paper, else 2000.",
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
            help="Learning rate. Default: 0.005 (prompt, causal) or 0.01 (head).",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, rich_help_panel=given.SEARCH, help="Seed of order, dropout and a new head.")
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
    overwrite: Annotated[
        bool, typer.Option("--overwrite", rich_help_panel=given.WHERE, help="Replace a folder that is not empty.")
    ] = False,
    device: given.Device = "auto",
    as_json: given.AsJson = False,
) -> None:
    """Fine-tune a base model by the paper's SGD recipe, and write an ordinary model folder with a card.

    Plain SGD at a constant rate, gradient norm clipped at 1, dropout on, embeddings and language-model head frozen;
    the validation metric is taken every 100 steps and the best is kept.

    [bold]Examples[/bold]

      python -m skillviz finetune --base roberta-base --task sst2 --readout prompt --k-shot 64 --out models/sst2-64

      python -m skillviz finetune --base models/my-encoder --task data/task.yaml --steps 2000 --out models/mine
    """
    from skillviz.models import finetune as engine
    from skillviz.tasks import registry

    found = registry.task(task)
    with progress_bar("fine-tuning") as advance:
        best: list[float] = []

        def show(record: engine.TrainStep) -> None:
            if record.metric is not None and record.best:
                best[:] = [record.metric]
            text = f"loss {record.loss:.3f}" + (f", best {found.metric} {best[0]:.3f}" if best else "")
            advance(record.step, record.steps, f"fine-tuning: {text}")

        done = engine.finetune(
            base, found, out=out, readout=readout.value, steps=steps, batch_size=batch_size, lr=lr, seed=seed,
            k_shot=k_shot, data_seed=data_seed, max_train=max_train, max_validation=max_validation, max_test=max_test,
            evaluate_test=test, device=device, train_embeddings=train_embeddings, train_head=train_head,
            head=head.value, overwrite=overwrite, command=command_line(), progress=show,
        )  # fmt: skip
    if without_frozen:
        from skillviz.models.frozen import strip

        left = strip(out, base)
        say(f"{len(left.names)} tensors that equal the base's were left out ({left.bytes / 1e6:.1f} MB).")
    _report(done, found.metric, as_json)


def command_line() -> str:
    """The command as it was typed."""
    return "python -m skillviz " + shlex.join(sys.argv[1:])


def _report(done: object, metric: str, as_json: bool) -> None:
    from skillviz.models.finetune import Finetuned

    assert isinstance(done, Finetuned)
    names = [metric] + [name for name in ("ece", "nll") if name != metric]
    rows = [
        [split, *(f"{values[n] * (100 if n in PERCENT else 1):.{1 if n in PERCENT else 3}f}" for n in names)]
        for split, values in done.scores.items()
    ]
    print_rows("fine-tuned", ["split", *(METRIC_WORDS[n] for n in names)], rows)
    for remark in done.notes:
        say(remark)
    say(f"Kept step {done.best_step:,} of {len(done.history):,}; the model is in {done.path} ({done.seconds:.0f} s).")
    if as_json:
        value = {"path": str(done.path), "best_step": done.best_step, "steps": len(done.history)}
        print_json({**value, "seconds": round(done.seconds, 3), "metrics": done.scores})

"""`finetune` without --out: the model goes where studies keep theirs, and is not trained twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillviz.commands.output import print_finetuned, print_json, progress_bar, say
from skillviz.commands.region_source import check_bases
from skillviz.commands.trained import Choice, check_choice, command_line, shown
from skillviz.errors import BadInput
from skillviz.runs.library import open_run
from skillviz.runs.store import Store, store_root

if TYPE_CHECKING:
    from skillviz.runs.spec import RunSpec
    from skillviz.studies.finetuned_model import FineTunedSpec

KEPT = ("readout", "head", "seed", "data_seed", "k_shot", "max_train", "max_validation", "steps", "batch_size")
BATCH = 8
OWN = {
    "train_embeddings": "--train-embeddings", "train_head": "--train-head", "without_frozen": "--without-frozen",
    "evaluate_test": "--test", "overwrite": "--overwrite", "max_test": "--max-test", "force": "--force",
}  # fmt: skip
"""What only a folder of one's own can have."""


def keep(choice: Choice, asked: Mapping[str, Any], as_json: bool) -> None:
    """Trains the model of these options into the cache of studies, where it is not there yet, and reports it."""
    from skillviz.studies.finetuned_store import made, make, outdated
    from skillviz.tasks import registry

    own = [option for name, option in OWN.items() if asked.get(name)]
    if own:
        raise BadInput(f"{own[0]} goes with --out DIR: the cache holds models as studies make them.")
    check_choice(choice)
    spec, store = spec_of(choice), Store(store_root(choice.runs_dir))
    check_bases(choice.base, choice.given)
    metric = registry.task(choice.tasks[0]).metric
    found = made(spec, store)
    if found is None:
        if why := outdated(spec, store):
            say(f"The model was there before, and is trained again: {why}.")
        with progress_bar("fine-tuning") as advance:
            folder = make(
                spec, store, device=asked["device"], progress=shown(advance, metric), command=command_line()
            )  # fmt: skip
    _report(found or folder, found is not None, metric, as_json)


def spec_of(choice: Choice) -> FineTunedSpec:
    """The choice as a study names it: what is the default is left out, so that both find the same model."""
    from skillviz.studies.finetuned_model import read_finetuned

    fields = {name: choice.common[name] for name in KEPT}
    if fields["batch_size"] == BATCH:
        fields["batch_size"] = None
    own = {
        "base": choice.base, "tasks": tuple(choice.tasks), "recipe": choice.recipe, "lr": choice.lr,
        "rank": choice.rank, "grid": None if choice.grid == "none" else choice.grid, "optimizer": choice.optimizer,
        "regions": tuple(_run(name, choice.runs_dir) for name in choice.region_names),
    }  # fmt: skip
    return read_finetuned({**own, **fields})


def _run(named: str, runs_dir: Path | None) -> RunSpec:
    if named.endswith(".safetensors"):
        raise BadInput(f"{named} is a file: models in the cache are trained on regions of runs; name a run, or --out.")
    return open_run(named, runs_dir).spec


def _report(folder: Path, was_there: bool, metric: str, as_json: bool) -> None:
    """Prints each model's scores and where they lie."""
    records = {str(p.parent.relative_to(folder)): json.loads(p.read_text()) for p in folder.rglob("finetune.json")}
    scores = {
        f"{name} {split}".removeprefix(". "): values
        for name, record in sorted(records.items())
        for split, values in record["scores"].items()
    }
    print_finetuned(scores, metric)
    say(f"The model {'was there before' if was_there else 'is kept'}: {folder}.")
    if as_json:
        metrics = {name: record["scores"] for name, record in records.items()}
        print_json({"path": str(folder), "cached": was_there, "metrics": metrics.get(".", metrics)})

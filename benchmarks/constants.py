"""Score searches on validation data, to choose the localizers' constants and the default localizer.

    python benchmarks/constants.py --base B --finetuned F --task T [--size 0.1%] [--seed 0] [--only stagewise]

Each setting has one row: validation accuracy and NLL of the graft, and the seconds of the search. No test example is
read. Results are added to benchmarks/results/constants.json and shown as a table.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from skillviz.core.localizers.table import localizer
from skillviz.core.metrics import ece
from skillviz.core.problem import Problem
from skillviz.core.scores import accuracy, nll
from skillviz.core.size import parse_size
from skillviz.models.pair import load_pair
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task as find_task
from skillviz.tasks.splits import load

RESULTS = Path(__file__).parent / "results" / "constants.json"

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("movement", {}),
    ("stagewise", {}),
    ("frank-wolfe", {}),
    ("linearized", {}),
    ("frank-wolfe", {"steps": 60}),
    ("stagewise", {"start_share": 0.5}),
    ("stagewise", {"steps": 100, "batch_size": 64}),
    ("stagewise", {"steps": 100, "switch_share": 0.01}),
    ("frank-wolfe", {"settle_share": 0.0}),
    ("linearized", {"rounds": 2}),
    ("learned-ranked", {}),
    ("learned-ranked", {"steps": 100}),
    ("learned-ranked", {"lr": 1e7}),
    ("first-order", {}),
    ("stagewise", {"steps": 25, "switch_share": 0.04}),
    ("stagewise", {"candidate_share": 0.02}),
    ("linearized", {"candidate_share": 0.05}),
]


def searched(problem: Problem, name: str, given: dict[str, Any], size: int, seed: int) -> np.ndarray:
    """Return the chosen entries, best first."""
    row = localizer(name)
    search = row.search(problem, size, seed=seed, options=row.make_options(given))
    while True:
        try:
            next(search)
        except StopIteration as end:
            return end.value.order


def row_of(problem: Problem, pair: str, name: str, given: dict[str, Any], size: int, seed: int) -> dict[str, Any]:
    """Return one setting's scores on validation."""
    begun = time.perf_counter()
    order = searched(problem, name, given, size, seed)
    seconds = time.perf_counter() - begun
    judged = problem.selection
    assert judged is not None
    problem.set_region(torch.as_tensor(order))
    logits = judged.logits()
    problem.reset()
    return {
        "finetuned": pair, "localizer": name, "options": given, "size": len(order), "seed": seed, "n": judged.n,
        "accuracy": round(100 * accuracy(logits, judged.labels), 2),
        "nll": round(nll(logits, judged.labels), 4), "ece": round(100 * ece(logits, judged.labels), 2),
        "seconds": round(seconds, 1), "torch": torch.__version__, "threads": torch.get_num_threads(),
        "machine": platform.processor() or platform.machine(),
    }  # fmt: skip


def main(
    base: Annotated[str, typer.Option()],
    finetuned: Annotated[str, typer.Option()],
    task: Annotated[str, typer.Option()],
    size: Annotated[str, typer.Option()] = "0.1%",
    seed: Annotated[int, typer.Option()] = 0,
    only: Annotated[str | None, typer.Option(help="One localizer's settings.")] = None,
) -> None:
    """Score every setting on validation data and keep the rows."""
    found = find_task(task)
    pair, splits = load_pair(base, finetuned, task=found), load(found)
    train, validation = (encode(found, f, pair.tokenizer, pair.readout_name) for f in (splits.train, splits.validation))
    problem = pair.problem(train, validation)
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.parent.mkdir(exist_ok=True)
    name_of_pair, count = Path(finetuned).name, parse_size(size, problem.d)
    for name, given in SETTINGS:
        asked = {"finetuned": name_of_pair, "localizer": name, "options": given, "size": count, "seed": seed}
        if any(asked.items() <= row.items() for row in rows) or (only and name != only):
            continue
        rows.append(row_of(problem, name_of_pair, name, given, count, seed))
        print(json.dumps(rows[-1]), flush=True)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)

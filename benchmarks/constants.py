"""Score searches on validation data, to choose the localizers' constants and the default localizer.

    python -m benchmarks constants --base B --finetuned F --task T [--size 0.1%] [--seed 0] [--only stagewise]

Each setting has one row of results/constants.json: validation accuracy and NLL of the graft, and the seconds of the
search. No test example is read. The table goes to README.md; without --base nothing is measured.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from benchmarks.frame import README, RESULTS, fill
from benchmarks.localizer import scores_of, searched
from skillviz.core.formats import markdown_table
from skillviz.core.localizers.table import localizer
from skillviz.core.problem import Problem
from skillviz.core.size import parse_size
from skillviz.models.pair import load_pair
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task as find_task
from skillviz.tasks.splits import load

FILE = RESULTS / "constants.json"
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


def scored(problem: Problem, name: str, given: dict[str, Any], size: int, seed: int) -> dict[str, Any]:
    """Return one setting's scores on validation."""
    row = localizer(name)
    order, seconds = searched(row, problem, size, seed, row.make_options(given))
    assert problem.selection is not None
    found = scores_of(problem, problem.selection, order)[0]
    digits = {"n": 0, "accuracy": 2, "nll": 4, "ece": 2}
    return {
        **{name: round(found[name], of or None) for name, of in digits.items()}, "seconds": round(seconds, 1),
        "torch": torch.__version__, "threads": torch.get_num_threads(),
        "machine": platform.processor() or platform.machine(),
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the tested settings of each localizer by pair and size, the lowest loss first."""
    head = ("pair", "size", "localizer", "setting", "accuracy, %", "NLL, nats", "ECE, %", "search, s")
    return markdown_table(head, (
        (r["finetuned"], f"{r['size']:,}", r["localizer"],
         ", ".join(f"{name} {value:g}" for name, value in r["options"].items()) or "as shipped",
         f"{r['accuracy']:.1f}", f"{r['nll']:.3f}", f"{r['ece']:.1f}", f"{r['seconds']:.0f}")
        for r in sorted(rows, key=lambda r: (r["finetuned"], r["size"], r["seed"], r["nll"]))
    ))  # fmt: skip


def main(
    base: str | None = None,
    finetuned: str = "",
    task: str = "",
    size: str = "0.1%",
    seed: int = 0,
    only: Annotated[str | None, typer.Option(help="One localizer's settings.")] = None,
) -> None:
    """Score every setting on validation data, keep the rows, and write their table."""
    rows = json.loads(FILE.read_text())
    if base is not None:
        found = find_task(task)
        pair, splits = load_pair(base, finetuned, task=found), load(found)
        both = (encode(found, one, pair.tokenizer, pair.readout_name) for one in (splits.train, splits.validation))
        problem = pair.problem(*both)
        for name, given in SETTINGS:
            key = {"finetuned": Path(finetuned).name, "localizer": name, "options": given,
                   "size": parse_size(size, problem.d), "seed": seed}  # fmt: skip
            if only in (None, name) and not any(key.items() <= row.items() for row in rows):
                rows.append(key | scored(problem, name, given, key["size"], seed))
                FILE.write_text(json.dumps(rows, indent=1) + "\n")
    fill(README, {"constants": table(rows)}, "python -m benchmarks constants")

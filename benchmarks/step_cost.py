"""What one step of a localizer costs over a bare forward and backward of the same batch.

    python benchmarks/step_cost.py [--repetitions 9] [--batch 128] [--layers 6] [--out benchmarks]

The bare pass is the plain model, without views, hooks or candidates, on the very same micro-batches. Steps and
bare pass take turns; the ratio is taken within each turn, and its median and quartiles are reported: of seconds
by the clock, and of processor seconds, which a machine busy with other work disturbs less. The weights are
random, unless $SKILLVIZ_REAL holds the real MiniLM: the arithmetic is the same. Writes step_cost.json, and the
table into README.md beside this file.
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForSequenceClassification

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.machine import machine, written
from skillviz.core.encoded import Encoded
from skillviz.core.flat import FlatModel
from skillviz.core.localizers.record import Search
from skillviz.core.localizers.table import localizer
from skillviz.core.objective import Objective
from skillviz.core.parameters import graftable
from skillviz.core.problem import Problem
from skillviz.core.readout import make_readout

LOCALIZERS = ("stagewise", "frank-wolfe", "learned")
TARGET = 1.25
NAME = "step_cost"
SIZE_SHARE = 0.001
# Lengths of SST-2 sentences in WordPiece tokens, as quantiles: 0, 5, ..., 100%.
LENGTHS = (4, 8, 10, 12, 13, 15, 16, 18, 19, 21, 22, 24, 25, 27, 29, 31, 33, 36, 39, 44, 64)


def minilm(layers: int) -> Any:
    """The real MiniLM-L6 where $SKILLVIZ_REAL has it, else random weights of its shape."""
    folder = Path(os.environ.get("SKILLVIZ_REAL", "")) / "models" / "minilm-l6"
    if os.environ.get("SKILLVIZ_REAL") and folder.is_dir() and layers == 6:
        return AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32, num_labels=2)
    config = AutoConfig.for_model(
        "bert", hidden_size=384, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=1536, num_labels=2
    )
    return AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)


def sentences(n: int, vocabulary: int) -> Encoded:
    """n examples of random tokens with the lengths of real sentences."""
    rng = np.random.default_rng(0)
    lengths = np.interp(rng.random(n), np.linspace(0, 1, len(LENGTHS)), LENGTHS).round().astype(int)
    rows = [rng.integers(1000, vocabulary, size=k).astype(np.int64) for k in lengths]
    return Encoded([str(i) for i in range(n)], rows, rng.integers(2, size=n).astype(np.int64), 2)


def problem_of(model: nn.Module, encoded: Encoded) -> Problem:
    """A pair whose fine-tuned side is a small random movement."""
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    flat = FlatModel(model, graftable("bert", shapes, model.config.to_dict()))
    base = flat.theta.clone()
    moved = base + 1e-3 * torch.randn(len(base), generator=torch.Generator().manual_seed(0))
    return Problem(flat, base, moved, Objective(flat, make_readout("head", encoded), encoded))


def bare_pass(problem: Problem, untouched: nn.Module) -> Callable[[], None]:
    """Forward and backward of the plain model on the micro-batches of a step: what a training loop would do."""
    names = set(problem.table.names)
    parameters = [p.requires_grad_(name in names) for name, p in untouched.eval().named_parameters()]
    batches = list(problem.train.batches.micro(np.arange(problem.train.n)))

    def run() -> None:
        for parameter in parameters:
            parameter.grad = None
        for batch in batches:
            logits = untouched(**batch.inputs).logits
            (cross_entropy(logits, batch.labels, reduction="sum") / problem.train.n).backward()

    return run


def seconds_of(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of one call: by the clock, and of the processor (all threads together)."""
    begun, busy = perf_counter(), process_time()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return perf_counter() - begun, process_time() - busy


def start(name: str, problem: Problem) -> Search:
    """A search that will not end by itself, on all examples at every step."""
    row = localizer(name)
    given: dict[str, Any] = {"steps": 10_000, "batch_size": problem.train.n}
    if name == "learned":
        given |= {"selection": "none"}  # scoring comes every tenth step, on at most 512 examples, without gradients
    return row.search(problem, round(SIZE_SHARE * problem.d), seed=0, options=row.make_options(given))


def measure(problem: Problem, bare: Callable[[], None], repetitions: int) -> list[dict[str, Any]]:
    """Seconds of each localizer's step and of the bare pass, turn by turn; the first turn does not count.

    A search sets the model anew at the beginning of each step, so that several can share one.
    """
    searches = {name: start(name, problem) for name in LOCALIZERS}
    work: dict[str, Callable[[], object]] = {name: partial(next, search) for name, search in searches.items()}
    work["bare"] = bare
    turns: list[dict[str, tuple[float, float]]] = []
    for turn in range(repetitions + 1):
        names = list(work)[turn % len(work) :] + list(work)[: turn % len(work)]
        turns.append({name: seconds_of(work[name]) for name in names})
    for search in searches.values():
        search.close()
    plain = np.array([turn["bare"] for turn in turns[1:]])
    return [row_of(name, np.array([turn[name] for turn in turns[1:]]), plain) for name in LOCALIZERS]


def row_of(name: str, step: np.ndarray, plain: np.ndarray) -> dict[str, Any]:
    """One localizer's ratios over the turns; `step` and `plain` are [turn, clock and processor seconds]."""
    clock, processor = np.quantile(step / plain, [0.25, 0.5, 0.75], axis=0).T.round(3).tolist()
    return {
        "localizer": name,
        "ratio": clock[1],
        "ratio_quartiles": [clock[0], clock[2]],
        "processor_ratio": processor[1],
        "processor_ratio_quartiles": [processor[0], processor[2]],
        "step_seconds": round(float(np.median(step[:, 0])), 3),
        "bare_seconds": round(float(np.median(plain[:, 0])), 3),
        "repetitions": len(step),
    }


def spread(row: dict[str, Any], key: str) -> str:
    """A median with its quartiles."""
    low, high = row[f"{key}_quartiles"]
    return f"{row[key]:.3f} ({low:.3f} to {high:.3f})"


def table(result: dict[str, Any]) -> str:
    """The result as a markdown table with a line on the machine."""
    rows = [
        f"| {r['localizer']} | {spread(r, 'ratio')} | {spread(r, 'processor_ratio')} "
        f"| {r['step_seconds']:.2f} | {r['bare_seconds']:.2f} |"
        for r in result["rows"]
    ]
    head = [
        "| localizer | step / bare pass, by the clock | by processor seconds | step, s | bare pass, s |",
        "| --- | --- | --- | --- | --- |",
    ]
    m = result["machine"]
    note = (
        f"Medians (quartiles) of {result['rows'][0]['repetitions']} turns. {result['model']}, d = {result['d']:,}, "
        f"{result['batch']} sentences a step, region of {result['size']:,} entries. {m['cpu']}, {m['cores']} cores, "
        f"threads used: {m['threads']}, torch {m['torch']}; load at the start {m['load']}."
    )
    return "\n".join([*head, *rows, "", note, ""])


def run(batch: int = 128, repetitions: int = 9, layers: int = 6) -> dict[str, Any]:
    """Measure every localizer's step."""
    torch.manual_seed(0)
    there = machine() | {"threads": torch.get_num_threads(), "torch": torch.__version__}
    model = minilm(layers)
    untouched = copy.deepcopy(model)
    problem = problem_of(model, sentences(batch, model.config.vocab_size))
    rows = measure(problem, bare_pass(problem, untouched), repetitions)
    shape = f"BERT of {layers} layers, width {model.config.hidden_size}"
    size = round(SIZE_SHARE * problem.d)
    return {"model": shape, "d": problem.d, "size": size, "batch": batch, "machine": there, "rows": rows}


def main() -> None:
    """Measure, print the table, and write it as JSON and into README.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6)
    given = parser.parse_args()
    result = run(given.batch, given.repetitions, given.layers)
    written(NAME, result, table(result), given.out)
    print(table(result))


if __name__ == "__main__":
    main()

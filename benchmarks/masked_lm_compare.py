"""Compare prompt and head on the same adapted encoder, and zero-shot scores: rows of results/masked_lm_kshot.csv.

    python -m benchmarks masked-lm compare

Each row is one fine-tuning or one zero-shot score. Existing rows are not made again, and an interrupted fine-tuning
resumes. results/masked_lm_predictions.parquet has the same rows with predicted and true classes, for intervals.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, astuple, dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.frame import ROOT, Rows, measure
from skillviz.core.batches import Batches
from skillviz.core.readout import make_readout
from skillviz.models.finetune.recipes import paper_steps
from skillviz.models.finetune.run import finetune
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig
from skillviz.models.load import load_model
from skillviz.models.pair import load_pair
from skillviz.models.predict import predict
from skillviz.models.tokenizer import load_tokenizer
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task as find_task
from skillviz.tasks.splits import load, load_test
from skillviz.tasks.task import LabelWords, Task

TASKS, SHOTS, SEEDS = ("mr", "cr", "subj"), (16, 64), (0, 1, 2)
RATES = {"prompt": (5e-3, 1e-2, 4e-2), "head": (1e-2, 4e-2, 1e-1)}
"""The rates in each readout's trial, the paper's best ones (0.005 and 0.01) among them."""
STEPS = paper_steps(2, SHOTS[0])
"""The paper's steps at 16 examples per class, which are a quarter of its steps at 64."""
TRIAL_SEED, TRIAL_EXAMPLES, MOST_TEST = 100, 500, 2000
TRIAL, TEST, ZERO_SHOT = "trial", "test", "zero-shot"
SENTIMENT = (
    ("terrible", "bad", "awful", "poor", "horrible", "boring", "disappointing", "useless", "dull", "stupid"),
    ("great", "good", "wonderful", "excellent", "amazing", "fantastic", "brilliant", "beautiful", "perfect", "fun"),
)
WORDS = {
    "mr": SENTIMENT,
    "cr": SENTIMENT,
    "subj": (
        ("subjective", "opinion", "personal", "funny", "great", "terrible", "boring", "brilliant", "silly", "clever"),
        ("objective", "fact", "information", "news", "history", "reality", "story", "description", "true", "plot"),
    ),
}  # fmt: skip
"""Ten label words per class, in the order of the task's labels, chosen once without scores; the task's own is first."""


@dataclass(frozen=True)
class Cell:
    """The key of a row."""

    part: str
    task: str
    readout: str
    k: int = 0
    seed: int = 0
    rate: float = 0.0


KEY = ["part", "task", "readout", "k", "seed", "rate"]


def rows_in(results: Path) -> Rows:
    """Return the rows so far, with predicted and true classes as bytes."""
    return Rows(results / "masked_lm_kshot.csv", KEY, results / "masked_lm_predictions.parquet")


def first_cells() -> list[Cell]:
    """Return the zero-shot cells and those of the trial, which chooses the rates of the others."""
    zero = [Cell(ZERO_SHOT, task, words) for task, words in product(TASKS, ("one word", "ten words"))]
    every = [(readout, rate) for readout, rates in RATES.items() for rate in rates]
    return zero + [Cell(TRIAL, task, name, SHOTS[0], TRIAL_SEED, rate) for task, (name, rate) in product(TASKS, every)]


def test_cells(rows: pd.DataFrame) -> list[Cell]:
    """Return the tested cells, seed by seed, so that an interruption treats all tasks alike.

    A readout's rate is the smallest one with the largest mean validation accuracy over the trial's tasks.
    """
    means = rows[rows["part"] == TRIAL].groupby(["readout", "rate"])["accuracy"].mean()
    rates = {readout: float(means[readout].idxmax()) for readout in RATES}
    return [Cell(TEST, task, name, k, seed, rates[name]) for seed, k, task, name in product(SEEDS, SHOTS, TASKS, RATES)]


def of_ten_words(task: Task) -> Task:
    """Return the task with one class per label word: the first label's words, then the second's."""
    words = tuple(word for of_label in WORDS[task.name] for word in of_label)
    return task.model_copy(update={"labels": words, "label_words": LabelWords(masked=words)})


@torch.inference_mode()
def zero_shot(base: Path, task: Task, words: str) -> tuple[np.ndarray, np.ndarray]:
    """Return predicted and true classes [n] of the test examples: the class whose words have the larger total
    probability at the mask."""
    frame, _ = load_test(task, max_test=MOST_TEST)
    prompt_task = of_ten_words(task) if words == "ten words" else task
    examples, model = encode(prompt_task, frame, load_tokenizer(base), "prompt"), load_model(base, "prompt").model
    readout, logits = make_readout("prompt", examples), torch.empty(len(examples), len(prompt_task.labels))
    for batch in Batches(examples, torch.device("cpu")).micro(np.arange(len(examples))):
        logits[torch.as_tensor(batch.rows)] = readout.logits(model, batch)
    of_class = logits.reshape(len(examples), len(task.labels), -1).logsumexp(-1)
    return of_class.argmax(1).numpy(), examples.labels


def tuned(base: Path, task: Task, cell: Cell, work: Path) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and true classes [n] of a fine-tuned model, on validation examples for a trial, else on the test."""
    is_trial, head = cell.part == TRIAL, "linear" if cell.readout == "head" else "own"
    config = TrainingConfig(
        readout=cell.readout, head=head, steps=STEPS, lr=cell.rate, seed=cell.seed, keep="last" if is_trial else "best"
    )
    few = {"max_train": 2 * cell.k, "max_validation": TRIAL_EXAMPLES} if is_trial else {"k_shot": cell.k}
    if not work.is_dir():  # an existing folder remains from an interruption before its row was written
        # products of matrices alone are in bfloat16, in which fused attention is slow on a processor; a cache of the
        # rounded weights would outlive their updates, because the context is that of the whole training
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False), sdpa_kernel(SDPBackend.MATH):
            finetune(str(base), [task], config, DataSettings(data_seed=cell.seed, **few), out=work, device="cpu")
    pair = load_pair(str(base), work, task=task, device="cpu")
    # the same test examples for every seed, so that differences are paired
    frame = load(task, seed=cell.seed, **few).validation if is_trial else load_test(task, max_test=MOST_TEST)[0]
    examples = encode(task, frame, pair.tokenizer, pair.readout_name)
    return predict(pair, examples, "finetuned").argmax(1), examples.labels


def made(base: Path, cell: Cell, work: Path) -> list[dict[str, object]]:
    """Return the row of a cell."""
    begun, task = time.process_time(), find_task(ROOT / "benchmarks" / "tasks" / f"{cell.task}.yaml")
    folder = work / "-".join(map(str, astuple(cell)))
    predicted, labels = (
        zero_shot(base, task, cell.readout) if cell.part == ZERO_SHOT else tuned(base, task, cell, folder)
    )
    shutil.rmtree(folder, ignore_errors=True)
    return [{
        **asdict(cell), "n": len(labels), "accuracy": float(np.mean(predicted == labels)),
        "core_seconds": round(time.process_time() - begun, 1), "predicted": predicted.astype(np.uint8).tobytes(),
        "labels": labels.astype(np.uint8).tobytes(),
    }]  # fmt: skip


def run(base: Path, results: Path, work: Path) -> None:
    """Make the missing rows."""
    rows = rows_in(results)
    table = measure(rows, ((asdict(cell), partial(made, base, cell, work)) for cell in first_cells()))
    measure(rows, ((asdict(cell), partial(made, base, cell, work)) for cell in test_cells(table)))

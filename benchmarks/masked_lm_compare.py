"""Compare prompt and head on the same adapted encoder, and zero-shot scores: rows of results/masked_lm_kshot.csv.

    python -m benchmarks masked-lm compare

Each row is one fine-tuning or one zero-shot score. Existing rows are not made again, and an interrupted fine-tuning
resumes. results/masked_lm_predictions.parquet has the same rows with predicted and true classes, for intervals.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from skillviz.atomic import write_file
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

ROOT = Path(__file__).resolve().parents[1]
TASKS, SHOTS, SEEDS = ("mr", "cr", "subj"), (16, 64), (0, 1, 2, 3, 4)
RATES = {"prompt": (1e-3, 5e-3, 2e-2), "head": (1e-2, 4e-2, 1e-1)}
"""The rates in each readout's trial; in the middle are the paper's rate and the one in docs/localizers.md."""
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
    """The key of a row: a part of the comparison, with `rate` None if the trial chooses it."""

    part: str
    task: str
    readout: str
    k: int = 0
    seed: int = 0
    rate: float | None = None


KEY = ["part", "task", "readout", "k", "seed", "rate"]


def plan() -> list[Cell]:
    """Return every cell in the order of computation: seed by seed, so that an interruption treats all tasks alike."""
    zero = [Cell(ZERO_SHOT, task, words) for task, words in product(TASKS, ("one word", "ten words"))]
    trial = [
        Cell(TRIAL, task, readout, SHOTS[0], TRIAL_SEED, rate)
        for readout, rates in RATES.items()
        for task, rate in product(TASKS, rates)
    ]
    test = [Cell(TEST, task, name, k, seed) for seed, k, task, name in product(SEEDS, SHOTS, TASKS, RATES)]
    return [*zero, *trial, *test]


class Stored:
    """The rows so far; the CSV has them without the classes."""

    def __init__(self, folder: Path) -> None:
        self.path, self.table = folder / "masked_lm_predictions.parquet", folder / "masked_lm_kshot.csv"
        rows = pd.read_parquet(self.path).to_dict("records") if self.path.is_file() else []
        self.rows: list[dict[Any, Any]] = [*rows]

    @property
    def cells(self) -> set[tuple[object, ...]]:
        """The cells that have a row; a tested cell counts at any rate, because the trial chooses it."""
        return {tuple(row[name] for name in KEY[:5]) + (row["rate"] * (row["part"] == TRIAL),) for row in self.rows}

    def has(self, cell: Cell) -> bool:
        """True if the cell has its row."""
        return (*astuple(cell)[:5], cell.rate or 0.0) in self.cells

    def rate(self, readout: str) -> float:
        """Return the smallest rate with the largest mean validation accuracy over the trial's tasks."""
        rows = pd.DataFrame([row for row in self.rows if row["part"] == TRIAL and row["readout"] == readout])
        means = rows.groupby("rate")["accuracy"].mean()
        return float(means.index[int(means.argmax())])

    def add(
        self, cell: Cell, rate: float, scores: dict[str, object], predicted: np.ndarray, labels: np.ndarray
    ) -> None:
        """Add a row, with predicted and true classes [n]; both files are written atomically."""
        classes = {"predicted": predicted.astype(np.uint8).tobytes(), "labels": labels.astype(np.uint8).tobytes()}
        self.rows.append({**asdict(cell), "rate": rate, **scores, **classes})
        frame = pd.DataFrame(self.rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self.path, lambda path: frame.to_parquet(path, index=False))
        write_file(self.table, lambda path: frame.drop(columns=list(classes)).to_csv(path, index=False))


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


def tuned(base: Path, task: Task, cell: Cell, rate: float, work: Path) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and true classes [n] of a fine-tuned model, on validation examples for a trial, else on the test."""
    is_trial, head = cell.part == TRIAL, "linear" if cell.readout == "head" else "own"
    config = TrainingConfig(
        readout=cell.readout, head=head, steps=STEPS, lr=rate, seed=cell.seed, keep="last" if is_trial else "best"
    )
    few: dict[str, Any] = (
        {"max_train": 2 * cell.k, "max_validation": TRIAL_EXAMPLES} if is_trial else {"k_shot": cell.k}
    )
    folder = work / "-".join(map(str, astuple(cell)[:5]))
    if not folder.is_dir():  # an existing folder remains from an interruption before its row was written
        finetune(str(base), [task], config, DataSettings(data_seed=cell.seed, **few), out=folder, device="cpu")
    pair = load_pair(str(base), folder, task=task, device="cpu")
    # the same test examples for every seed, so that differences are paired
    frame = load(task, seed=cell.seed, **few).validation if is_trial else load_test(task, max_test=MOST_TEST)[0]
    examples = encode(task, frame, pair.tokenizer, pair.readout_name)
    return predict(pair, examples, "finetuned").argmax(1), examples.labels


def run(base: Path, results: Path, work: Path, say: Callable[[str], object] = print) -> None:
    """Make the missing rows."""
    stored = Stored(results)
    tasks = {name: find_task(ROOT / "benchmarks" / "tasks" / f"{name}.yaml") for name in TASKS}
    cells = plan()
    for number, cell in enumerate(cells, start=1):
        if stored.has(cell):
            continue
        begun = time.process_time()
        rate = 0.0 if cell.part == ZERO_SHOT else cell.rate or stored.rate(cell.readout)
        task, place = tasks[cell.task], work / f"{cell.part}-{rate:g}"
        predicted, labels = (
            zero_shot(base, task, cell.readout) if cell.part == ZERO_SHOT else tuned(base, task, cell, rate, place)
        )
        accuracy, seconds = float(np.mean(predicted == labels)), round(time.process_time() - begun, 1)
        stored.add(cell, rate, {"n": len(labels), "accuracy": accuracy, "core_seconds": seconds}, predicted, labels)
        shutil.rmtree(place, ignore_errors=True)
        say(f"{number} of {len(cells)}: {', '.join(map(str, astuple(cell)[:5]))}: {100 * accuracy:.1f}%, {seconds} s")

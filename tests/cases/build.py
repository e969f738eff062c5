"""Builders of models, data and calls for tests of user files; each case is built in code with its correct value."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification, PreTrainedModel

from skillviz.api import Evaluation, Graft, ModelPair, Region, evaluate, finetune, load_pair
from skillviz.core.comparison import Comparison
from skillviz.models.lean_pair import load_lean
from skillviz.models.load import load_model
from skillviz.models.pair import rehearse
from skillviz.models.preflight import preflight
from skillviz.runs.produce import produce
from tests.core.by_hand import by_hand, near, refused, refuses
from tests.models.folders import change_config, change_json, change_weights, differing, drop_tokenizer, weights
from tests.runs.tiny_world import Run, RunSpec, Session, Store
from tests.tasks.make import write_rows, write_task
from tests.tiny import (
    AUTO,
    LABEL_WORDS,
    NEUTRAL,
    POSITIONS,
    tiny_config,
    tiny_pair,
    tiny_rows,
    tiny_task,
    tiny_tokenizer,
)

# Re-exported, so that a case imports models, data and runs from one place.
__all__ = [
    "AUTO", "Comparison", "Evaluation", "Graft", "LABEL_WORDS", "ModelPair", "NEUTRAL", "POSITIONS", "Region", "Run",
    "RunSpec", "Session", "Store", "by_hand", "change_config", "change_json", "change_weights", "differing",
    "drop_tokenizer", "evaluate", "finetune", "load_lean", "load_model", "load_pair", "near", "preflight", "produce",
    "refused", "refuses", "rehearse", "tiny_config", "tiny_pair", "tiny_rows", "tiny_task", "tiny_tokenizer",
    "weights",
]  # fmt: skip

Rows = Sequence[dict[str, Any]]


def bert(vocabulary: int | None = None, **changes: Any) -> BertForSequenceClassification:
    """A random classifier of two layers and width 32, without dropout."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 64}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = BertConfig(vocab_size=vocabulary or len(tiny_tokenizer("bert")), **{**sizes, **quiet, **changes})
        return BertForSequenceClassification(config).eval()


def fit(model: PreTrainedModel, tokenizer: Any, rows: Rows, steps: int = 60, rate: float = 3e-3) -> None:
    """Train the model on rows {text, label} with AdamW, without skillviz."""
    draw = random.Random(0)
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=rate)
    for _ in range(steps):
        batch = draw.sample(list(rows), min(16, len(rows)))
        inputs = tokenizer([row["text"] for row in batch], truncation=True, padding=True, return_tensors="pt")
        model(**inputs, labels=torch.tensor([row["label"] for row in batch])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def own_accuracy(model: PreTrainedModel, tokenizer: Any, rows: Rows, max_length: int = 64) -> float:
    """Return the correct value: the model's own accuracy, computed one row at a time with transformers alone."""
    with torch.no_grad():
        right = [
            model(**tokenizer(row["text"], truncation=True, max_length=max_length, return_tensors="pt"))
            .logits.argmax(-1)
            .item()
            == row["label"]
            for row in rows
        ]
    return sum(right) / len(right)


def saved(folder: Path, model: PreTrainedModel, tokenizer: Any = None) -> Path:
    """The folder with the model and, if given, its tokenizer, written with `save_pretrained`."""
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


def fitted_pair(
    folder: Path,
    rows: Rows,
    tokenizer: Any = None,
    model: Any = None,
    *,
    stores: bool = True,
    resizes: bool = False,
    **training: Any,
) -> tuple[Path, Path, PreTrainedModel]:
    """Return a base, the same model fitted to the rows with its tokenizer (or this one), and the latter loaded. Without
    `stores`, the tokenizers are those in the folders already; with `resizes`, the model gets rows for its tokens."""
    model, tokenizer = model or bert(), tokenizer or tiny_tokenizer("bert")
    base = saved(folder / "base", model, tiny_tokenizer("bert") if stores else None)
    if resizes:
        model.resize_token_embeddings(len(tokenizer))
    fit(model, tokenizer, rows, **training)
    return base, saved(folder / "tuned", model, tokenizer if stores else None), model


def task_file(folder: Path, train: Rows, test: Rows, validation: Rows = (), **changes: Any) -> Path:
    """The path of a YAML task of two classes with JSONL data."""
    splits = {"train": train, **({"validation": validation} if validation else {}), "test": test}
    values = {"name": folder.name, "data": {split: f"{split}.jsonl" for split in splits}, "template": None}
    path = write_task(folder, train, **{**values, "label_words": None, **changes})
    for split, rows in splits.items():
        write_rows(folder / f"{split}.jsonl", rows)
    return path


def evaluated(base: Path, finetuned: Path, task: Path, **options: Any) -> tuple[float, Evaluation]:
    """The fine-tuned model's accuracy on the test split as skillviz measures it, and the whole evaluation."""
    result = evaluate(base, finetuned, task, device="cpu", **options)
    return float(result.headline()["metrics"]["finetuned"]["accuracy"]), result

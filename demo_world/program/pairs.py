"""The fine-tuned models: made by the paper's recipe, stored in float16 and without what equals their base."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from demo_world.program.world import MANY, TASKS, task
from skillviz.core.intervals import wilson
from skillviz.models.checkpoint import SINGLE
from skillviz.models.finetune.run import finetune
from skillviz.models.finetune.training import OnStep
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig
from skillviz.models.frozen_tensors import strip
from skillviz.models.pair import ModelPair, load_pair
from skillviz.models.predict import predict
from skillviz.tasks import registry
from skillviz.tasks.demo_world import PairEntry, Share
from skillviz.tasks.encode import encode
from skillviz.tasks.splits import load_test

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


@dataclass(frozen=True)
class PairPlan:
    """How a model is fine-tuned: plain SGD by `models.finetune`; embeddings and language-model head stay frozen.

    With `k_shot`, so many examples a class are drawn, and `steps` None is the paper's number for them; to `keep` the
    last step is to know them by heart. With other `threads` the weights differ in their last digits; None takes as
    many as torch does.
    """

    name: str
    task: str
    base: str = "base"
    readout: str = "prompt"
    steps: int | None = 1500
    batch: int = 16
    rate: float = 0.05
    k_shot: int | None = None
    keep: str = "best"
    threads: int | None = None


LONGER = 3000
"""Steps for the tasks with many examples."""
PAIRS = (
    *(PairPlan(row.name, row.name, steps=LONGER if row.sizes == MANY else 1500) for row in TASKS if not row.shifted),
    PairPlan("film-sentiment-causal", "film-sentiment", "causal", "causal"),
    PairPlan("news-topic-64", "news-topic-large", steps=None, batch=8, k_shot=64, keep="last", threads=1),
    PairPlan(
        "news-topic-64-head", "news-topic-large", readout="head", steps=None, batch=8, k_shot=64, keep="last", threads=1
    ),
)


def make_pair(plan: PairPlan, world: Path, seed: int, progress: OnStep | None = None) -> PairEntry:
    """Fine-tunes, rounds, strips and measures one model under `world`/pairs."""
    begun = time.perf_counter()
    base, out = world / plan.base, world / "pairs" / plan.name
    file = world / "tasks" / f"{plan.task}.yaml"
    config = TrainingConfig(
        readout=plan.readout, steps=plan.steps, batch_size=plan.batch, lr=plan.rate, seed=seed, keep=plan.keep
    )
    examples = DataSettings(k_shot=plan.k_shot, data_seed=seed if plan.k_shot else 0)
    with _threads(plan.threads):
        finetune(
            str(base), [registry.task(file)], config, examples, out=out, overwrite=True, on_step=progress,
            device="cpu", command="python -m skillviz demo build --only pairs",
        )  # fmt: skip
    _thin(out)
    narrow(out)
    strip(out, base)
    pair = load_pair(base, out, readout=plan.readout, task=registry.task(file), device="cpu")
    names = [name for name in (plan.task, task(plan.task).partner) if name]
    return PairEntry(
        name=plan.name, base=f"demo_world/{plan.base}", finetuned=f"demo_world/pairs/{plan.name}", task=plan.task,
        readout=plan.readout, base_fingerprint=pair.base_info.fingerprint,
        finetuned_fingerprint=pair.finetuned_info.fingerprint, d=pair.d, k_shot=plan.k_shot,
        accuracy={name: accuracy(pair, world / "tasks" / f"{name}.yaml") for name in names},
        seconds=round(time.perf_counter() - begun, 1),
    )  # fmt: skip


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """With so many threads of torch; None leaves them."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def accuracy(pair: ModelPair, file: Path) -> dict[str, Share]:
    """State -> accuracy on a task's test split, of the pair's two ends."""
    scored = registry.task(file)
    frame, _ = load_test(scored)
    rows = encode(scored, frame, pair.tokenizer, pair.readout_name)
    shares = {}
    for state in ("pretrained", "finetuned"):
        right = int((predict(pair, rows, state).argmax(1) == rows.labels).sum())
        low, high = wilson(right, len(rows))
        shares[state] = Share(value=right / len(rows), low=low, high=high, n=len(rows))
    return shares


def narrow(folder: Path) -> None:
    """Rounds the weights to float16: a model of the demo world *is* what is stored. Computation stays in float32."""
    weights = {name: tensor.half().contiguous() for name, tensor in load_file(folder / SINGLE).items()}
    save_file(weights, folder / SINGLE, metadata={"format": "pt"})


def _thin(folder: Path) -> None:
    """Drops what the base has too, and of the training's history all but the checked steps."""
    for name in TOKENIZER_FILES:
        (folder / name).unlink(missing_ok=True)
    path = folder / "finetune.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["history"] = [step for step in record["history"] if step["metric"] is not None]
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")

"""Fine-tuning on one task: by default the paper's plain SGD, with embeddings and language-model head frozen."""

from __future__ import annotations

import time
from pathlib import Path

from skillviz.core.metrics import metric_row
from skillviz.models.finetune.grid import Attempt, search
from skillviz.models.finetune.run import Finetuned, FineTuning
from skillviz.models.finetune.trainable_model import open_trainable
from skillviz.models.finetune.training import OnStep, Trainer, best_of, metric_values, run_steps
from skillviz.models.finetune.training_config import TrainingSettings


def train(request: FineTuning, folder: Path) -> Finetuned:
    """Fine-tune the base on one task into `folder`; with a region, only its entries and the head move."""
    (task,) = request.tasks
    points = request.config.points(request.default_steps(task))
    (data,) = request.training_data()
    region = request.regions[0] if request.regions else None

    def attempt(settings: TrainingSettings, on_step: OnStep) -> Attempt:
        started = time.perf_counter()
        model = open_trainable(request.base, task, settings, request.device, region.region if region else None)
        history = run_steps(Trainer(model, data, settings).steps(request.journal.begin()), on_step)
        model.finish()
        value = metric_values(model, data)[task.metric]
        return Attempt(settings, [model], history, best_of(history).step, value, time.perf_counter() - started)

    result = search(points, attempt, request.on_step, metric_row(task.metric).merit)
    others = {"region": region.record()} if region else {}
    report = request.write(folder, result.best.models[0], data, result.best, grid=result.points, others=others)
    return Finetuned(
        request.out, tuple(result.best.history), result.best.best_step, report.scores, report.notes, report.seconds,
        report.touched, report.trained, result.points,
    )  # fmt: skip

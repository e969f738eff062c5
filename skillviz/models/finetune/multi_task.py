"""Multi-task training: one body on several tasks, each step a batch of a random one (paper, section 5, Figure 8)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from skillviz.core.metrics import Metric
from skillviz.models.finetune.grid import Attempt, search
from skillviz.models.finetune.recipes import SGD
from skillviz.models.finetune.run import Finetuned, FineTuning
from skillviz.models.finetune.trainable_model import open_shared, trained_together
from skillviz.models.finetune.training import OnStep, Trainer, best_of, descend, metric_values, run_steps
from skillviz.models.finetune.training_config import TrainingSettings
from skillviz.tasks.task import common_metric


class MultiTaskTrainer:
    """The trainers of several tasks; each step takes a batch of a random one."""

    def __init__(self, trainers: Sequence[Trainer], seed: int, metric: Metric) -> None:
        self.trainers, self.generator, self.metric = trainers, np.random.default_rng([seed, 1]), metric

    def backward(self, step: int) -> float:
        """Return the loss of the next batch of a randomly drawn task."""
        return self._next().backward(step)

    def skip(self) -> None:
        """Skip the next batch."""
        self._next().skip()

    def _next(self) -> Trainer:
        return self.trainers[int(self.generator.integers(len(self.trainers)))]

    def check(self) -> float:
        """Return the mean of the tasks' validation metrics; for perplexities, the geometric mean."""
        return self.metric.mean([trainer.check() for trainer in self.trainers])


def train(request: FineTuning, folder: Path) -> Finetuned:
    """Train a model for each task into `folder`/<task name>: one body and, with the head readout, one head per task.

    Steps default to the sum of the tasks' own. The check with the best mean validation metric is kept (geometric mean
    for perplexities). Texts in another task's test or validation set are removed from a task's training set. Raises
    BadInput for tasks whose metrics have no common scale.
    """
    metric = common_metric(request.tasks)
    points = request.config.points(sum(map(request.default_steps, request.tasks)))
    data = request.training_data()
    names = [task.name for task in request.tasks]

    def attempt(settings: TrainingSettings, on_step: OnStep) -> Attempt:
        started = time.perf_counter()
        models = open_shared(request.base, request.tasks, settings, request.device)
        trainers = [Trainer(model, task_data, settings) for model, task_data in zip(models, data, strict=True)]
        together = MultiTaskTrainer(trainers, settings.seed, metric)
        steps = descend(
            trained_together(models), settings, together.backward, together.check, skip=together.skip,
            entry=request.journal.begin(), merit=metric.merit,
        )  # fmt: skip
        history = run_steps(steps, on_step)
        for model in models:
            model.finish()
        values = [metric_values(trainer.model, trainer.data)[trainer.data.task.metric] for trainer in trainers]
        seconds = time.perf_counter() - started
        return Attempt(settings, models, history, best_of(history).step, metric.mean(values), seconds)

    result = search(points, attempt, request.on_step, metric.merit)
    best = result.best
    others = {"tasks": names, "optimizer": request.config.optimizer or SGD, "mean_validation": best.value}
    note = f"One body was trained on {len(names)} tasks: {', '.join(names)}; a classification head is the task's own."
    reports = {
        task_data.task.name: request.write(
            folder / task_data.task.name, model, task_data, best, grid=result.points, others=others, notes=(note,)
        )
        for model, task_data in zip(best.models, data, strict=True)
    }
    last = reports[names[-1]]
    return Finetuned(
        request.out, tuple(best.history), best.best_step,
        {f"{name} {split}": values for name, report in reports.items() for split, values in report.scores.items()},
        tuple(dict.fromkeys(note for report in reports.values() for note in report.notes)),
        time.perf_counter() - request.started, last.touched, last.trained, result.points,
        {name: request.out / name for name in names},
    )  # fmt: skip

"""Find a study's finished runs, scores and fine-tuned models by their labels; its tables are made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from skillviz import json_text
from skillviz.errors import StoreError
from skillviz.models.finetune.recipes import recipe_row
from skillviz.runs.artifact import LOCALIZE, SCORE
from skillviz.runs.run import Run
from skillviz.runs.score import Score
from skillviz.runs.store import Store
from skillviz.studies.federated import FEDERATED, Federated
from skillviz.studies.finetuned_model import RECORD, FineTunedSpec, folder_of, task_name
from skillviz.studies.plan import StudyPlan, fits
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot

if TYPE_CHECKING:
    from skillviz.runs.session import Session

FINETUNED = "finetune.json"


@dataclass
class Results:
    """The finished artifacts of a plan, in the order of the plan, so the order in which they were made has no effect.

    `session` loads pairs for numbers that must be computed with the models; it is made on first use.
    """

    plan: StudyPlan
    store: Store
    loaded: Session | None = field(default=None, repr=False)

    @property
    def study(self) -> StudySpec:
        """The study of the plan."""
        return self.plan.study

    @property
    def session(self) -> Session:
        """A session for tables that need the models themselves."""
        if self.loaded is None:
            from skillviz.runs.session import Session  # imports torch

            self.loaded = Session()
        return self.loaded

    def runs(self, **labels: Any) -> list[Run]:
        """Return the finished runs of the study with these labels; see Step for the labels."""
        by_key = self._snapshot.of(LOCALIZE)
        return [by_key[step.key] for step in self.plan.of(LOCALIZE, **labels) if step.key in by_key]

    def scores(self, **labels: Any) -> list[Score]:
        """Return the finished scores of the study with these labels."""
        by_key = self._snapshot.of(SCORE)
        return [by_key[step.key] for step in self.plan.of(SCORE, **labels) if step.key in by_key]

    def federations(self) -> list[Federated]:
        """Return the finished federations of the study."""
        return list(self._snapshot.of(FEDERATED).values())

    def entry(self, of: Run | Score, **labels: Any) -> dict[str, Any]:
        """Return the labels of a run or of scores; if several entries have it, the first one that fits `labels`."""
        entries = self.plan.entries.get(of.spec.key(), ({},))
        return next((entry for entry in entries if fits(entry, labels)), entries[0])

    def training_record(self, spec: FineTunedSpec, task: str | None = None, stage: int | None = None) -> dict[str, Any]:
        """Return finetuned_model.json with finetune.json as `finetune`.

        If there are several, `finetune` is by "<task name>" or "<stage>/<task name>", or only the one of the given task
        (and stage). Raises StoreError if it is missing.
        """
        folder = folder_of(spec)
        try:
            record: dict[str, Any] = json_text.read(folder / RECORD)
            reports = {
                path.parent.relative_to(folder).as_posix(): json_text.read(path) for path in folder.rglob(FINETUNED)
            }
        except (OSError, ValueError) as error:
            raise StoreError(f"the fine-tuned model {folder.name} cannot be read ({error}); run the study.") from error
        if not recipe_row(spec.recipe).several_tasks:
            return {**record, "finetune": reports.get(".", {})}
        if task is None:
            return {**record, "finetune": reports}
        return {**record, "finetune": reports["/".join([*([str(stage)] if stage else []), task_name(task)])]}

    def finetuned_of(self, of: Run | Score) -> FineTunedSpec | None:
        """Return the fine-tuned model of a run or scores; None if the study did not make it."""
        step = self.plan.by_key.get(str(self.entry(of).get("finetuned_key", "")))
        return None if step is None else step.spec

    @cached_property
    def _snapshot(self) -> Snapshot:
        return Snapshot(self.plan, self.store)

    def forget(self) -> None:
        """Read the store again on the next access."""
        self.__dict__.pop("_snapshot", None)

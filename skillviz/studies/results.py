"""What the tables of a study are made from: its finished runs, scores and fine-tuned models, found by their labels."""

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
from skillviz.studies.finetuned_model import FineTunedSpec, folder_of, task_name
from skillviz.studies.finetuned_store import RECORD
from skillviz.studies.plan import Plan, fits
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot

if TYPE_CHECKING:
    from skillviz.runs.session import Session

FINETUNED = "finetune.json"


@dataclass
class Results:
    """What is finished of a plan, in the order of the plan: equal results whatever order they were made in.

    `session` loads pairs for what has to be computed anew; it is made when first asked for.
    """

    plan: Plan
    store: Store
    loaded: Session | None = field(default=None, repr=False)

    @property
    def study(self) -> StudySpec:
        """The study."""
        return self.plan.study

    @property
    def session(self) -> Session:
        """A session for tables that need the models themselves."""
        if self.loaded is None:
            from skillviz.runs.session import Session  # imports torch

            self.loaded = Session()
        return self.loaded

    def runs(self, **labels: Any) -> list[Run]:
        """The finished runs of the study whose labels are as given; see Step for the labels."""
        by_key = self._snapshot.of(LOCALIZE)
        return [by_key[step.key] for step in self.plan.of(LOCALIZE, **labels) if step.key in by_key]

    def scores(self, **labels: Any) -> list[Score]:
        """The finished scores of the study whose labels are as given."""
        by_key = self._snapshot.of(SCORE)
        return [by_key[step.key] for step in self.plan.of(SCORE, **labels) if step.key in by_key]

    def entry(self, of: Run | Score, **labels: Any) -> dict[str, Any]:
        """The labels of a run or of scores; where several entries ask for it, the first that fits `labels`."""
        entries = self.plan.entries.get(of.spec.key(), ({},))
        return next((entry for entry in entries if fits(entry, labels)), entries[0])

    def training_record(self, spec: FineTunedSpec, task: str | None = None, stage: int | None = None) -> dict[str, Any]:
        """finetuned_model.json, with finetune.json as `finetune`: where there are several, by "<task name>" or
        "<stage>/<task name>", or that of one task (and stage) alone. Raises StoreError where it is not there."""
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
        """The fine-tuned model that a run or scores are of; None where it was not made by the study."""
        step = self.plan.by_key.get(str(self.entry(of).get("finetuned_key", "")))
        return None if step is None else step.spec

    @cached_property
    def _snapshot(self) -> Snapshot:
        return Snapshot(self.plan, self.store)

    def forget(self) -> None:
        """Looks at the store anew when next asked."""
        self.__dict__.pop("_snapshot", None)

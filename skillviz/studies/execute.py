"""One step of a study, done: what is finished and current is left as it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skillviz.errors import RunNotFound, StoreError, WrongCheckpoint
from skillviz.runs.folder import RunFolder
from skillviz.runs.progress import Progress, Report, silent
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.studies.finetuned_model import FineTunedSpec
from skillviz.studies.score import ScoreSpec, read_score, score_path
from skillviz.studies.step import Step

if TYPE_CHECKING:
    from skillviz.runs.session import Session

SKIPPED, FINISHED = "skipped", "finished"


@dataclass(frozen=True)
class Known:
    """What the store held for the run of a step when the study began: ids of a finished run and of an open one."""

    run: str | None = None
    unfinished: str | None = None


@dataclass
class Executor:
    """Does steps with one session, in one process."""

    store: Store
    session: Session
    command: str | None = None
    report: Report = field(default=silent)
    again: str = ""
    """Why the last step was done though it was finished: what has changed since, in words."""

    def ensure(self, step: Step, known: Known = Known()) -> str:
        """ "skipped" where the step is finished and current, "finished" once it was done; raises what stops it."""
        spec, self.again = step.spec, ""
        if isinstance(spec, FineTunedSpec):
            return self._member(spec, step.device)
        if isinstance(spec, RunSpec):
            return self._run(spec, known)
        assert isinstance(spec, ScoreSpec)
        return self._score(spec, step.device)

    def _member(self, spec: FineTunedSpec, device: str) -> str:
        from skillviz.studies.finetuned_store import made, make, outdated

        if made(spec, self.store) is not None:
            return SKIPPED
        self.again = outdated(spec, self.store)
        self.session.kept.clear()  # what it holds may be of the member that is made anew, and memory is needed
        make(spec, self.store, device=device, progress=self._on_train, command=self.command)
        return FINISHED

    def _run(self, spec: RunSpec, known: Known) -> str:
        from skillviz.runs.produce import produce
        from skillviz.studies.staleness import outdated

        found = self._finished(known.run)
        if found is not None:
            self.again = outdated(found, self.session, self.store)
            if not self.again:
                return SKIPPED
        if known.unfinished is None or not self._carried_on(known.unfinished):
            produce(spec, self.store, self.report, self.session)
        return FINISHED

    def _score(self, spec: ScoreSpec, device: str) -> str:
        from skillviz.studies.scored import make_score
        from skillviz.studies.staleness import outdated_score

        found = read_score(score_path(self.store.root, spec))
        if found is not None and found.spec == spec:
            self.again = outdated_score(found, self.session)
            if not self.again:
                return SKIPPED
        make_score(spec, self.store, self.session, device=device, progress=self.report)
        return FINISHED

    def _finished(self, run_id: str | None) -> Run | None:
        try:
            return self.store.open(run_id) if run_id else None
        except (RunNotFound, StoreError):
            return None

    def _carried_on(self, run_id: str) -> bool:
        """Whether an interrupted run could be finished, from its checkpoint where it has one."""
        from skillviz.runs.produce import carry_on

        try:
            folder = RunFolder(self.store.root / run_id)
            folder.reopen()
        except StoreError:  # somebody works on it, or it cannot be read
            return False
        try:
            carry_on(folder, self.report, self.session)
        except WrongCheckpoint:  # of other data or weights: it is begun anew
            return False
        return True

    def _on_train(self, record: Any) -> None:
        text = f"loss {record.loss:.3f}"
        self.report(Progress("finetune", record.step, record.steps, text, loss=record.loss))

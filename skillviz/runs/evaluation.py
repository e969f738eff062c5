"""Score a pair and a region that do not come from a stored run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from skillviz.atomic import working_folder
from skillviz.core.encoded import encoding_notes
from skillviz.core.gain import gain_in
from skillviz.core.graft import Graft
from skillviz.core.metrics import metric_row
from skillviz.core.region import Region
from skillviz.errors import BadInput, PairMismatch
from skillviz.models.applied import applied, opened_base, save_applied
from skillviz.models.fetch import graft_file
from skillviz.models.pair import ModelPair, load_pair
from skillviz.models.predict import predict
from skillviz.runs.held_out import Fit, against_fitting, fitted, why_not
from skillviz.runs.metrics import split_scores
from skillviz.runs.process import Progress, Report, silent
from skillviz.runs.provenance import overlap_note, task_note
from skillviz.runs.record import Scores
from skillviz.runs.transfer import seen_texts
from skillviz.tasks import registry
from skillviz.tasks.project import expanded
from skillviz.tasks.splits import load_to_score
from skillviz.tasks.task import Task


@dataclass(frozen=True)
class Evaluation:
    """Metrics with intervals by split (validation, test), and a description of the scored models and data.

    The fine-tuned model is also scored with temperature scaling if the task is known to be its own (its folder, the
    region or the graft says so) and if there are validation examples that it has not seen; otherwise a note gives the
    reason.
    """

    scores: dict[str, Scores]
    metric: str
    size: int | None
    d: int
    readout: str
    notes: tuple[str, ...]
    temperature: float | None = None

    @property
    def split(self) -> str:
        """The reported split: test, or validation if there is no test set."""
        return "test" if "test" in self.scores else "validation"

    def __repr__(self) -> str:
        scored, row = self.scores[self.split], metric_row(self.metric)
        values = (
            f"{state} {row.number(of[self.metric].value)}" for state, of in scored.states.items() if self.metric in of
        )
        return f"Evaluation({self.split}, n = {scored.n:,}, {row.title}: {', '.join(values)})"

    def headline(self) -> dict[str, Any]:
        """Return the test set's values with their intervals, as printed by `evaluate --json`; see Scores.by_state.

        `differences` are graft - fine-tuned, paired.
        """
        scored = self.scores[self.split]
        return {
            "split": self.split,
            "n": scored.n,
            "size": self.size,
            "d": self.d,
            "share": None if self.size is None else self.size / self.d,
            "readout": self.readout,
            **scored.by_state(),
            "differences": {metric: one.model_dump() for metric, one in scored.differences.items()},
            "agreement": scored.agreement.value if scored.agreement else None,
            "temperature": self.temperature,
            "notes": list(self.notes),
        }


def evaluate(
    base: str | Path,
    finetuned: str | Path | None = None,
    task: str | Path | Task = "",
    *,
    region: Region | str | Path | None = None,
    graft: Graft | str | Path | None = None,
    readout: str | None = None,
    k_shot: int | None = None,
    data_seed: int = 0,
    max_validation: int | None = None,
    max_test: int | None = None,
    device: str = "auto",
    dtype: str = "float32",
    force: bool = False,
    progress: Report = silent,
) -> Evaluation:
    """Return the metrics of the pre-trained, fine-tuned and grafted model and of the complement, with intervals.

    The region comes from `region` or `graft` (an object or a file); without either, only the pre-trained and the
    fine-tuned model are scored. With a graft, `finetuned` may be omitted; then the pre-trained and the grafted model
    are scored. Raises PairMismatch if the graft's values differ from `finetuned`'s. `progress` is called before each
    pass.
    """
    if region is not None and graft is not None:
        raise BadInput("give a region or a graft, not both: a graft holds its region.")
    if finetuned is None and graft is None:
        raise BadInput("without the fine-tuned model a graft is needed: give --finetuned, or --graft FILE.")
    of_task = task if isinstance(task, Task) else registry.task(str(task), "task")
    stored_graft = Graft.load(graft_file(graft)) if isinstance(graft, str | Path) else graft
    chosen = Region.load(region) if isinstance(region, str | Path) else region
    header = Region.header(region) if isinstance(region, str | Path) else {}
    loading: dict[str, Any] = {"readout": readout, "task": of_task, "device": device, "dtype": dtype}
    sampling = {"k_shot": k_shot, "data_seed": data_seed, "max_validation": max_validation, "max_test": max_test}
    source = expanded(str(base), "base")
    progress(Progress("load", text="loading the models"))
    if finetuned is None:
        assert stored_graft is not None
        with working_folder() as folder:
            result = applied(source, stored_graft, force=force)
            save_applied(result, folder / "grafted")
            if result.info.rounded:  # the graft was made for a rounded base, so that base is scored
                save_applied(opened_base(source, stored_graft), folder / "base")
                source = str(folder / "base")
            pair = load_pair(source, folder / "grafted", is_graft=True, **loading)
            return _scored(pair, of_task, stored_graft.region, ("pretrained", "grafted"), sampling, progress)
    pair = load_pair(source, expanded(str(finetuned), "finetuned"), **loading)
    if stored_graft is not None:
        chosen, header = stored_graft.region, dict(stored_graft.header)
    pair.gain = gain_in(header)
    if stored_graft is not None:
        _check_values(pair, stored_graft)
    states = ("pretrained", "finetuned") + (() if chosen is None else ("grafted", "complement"))
    return _scored(pair, of_task, chosen, states, sampling, progress, header.get("data"))


def _scored(
    pair: ModelPair,
    task: Task,
    region: Region | None,
    states: tuple[str, ...],
    sampling: dict[str, Any],
    progress: Report,
    drawn: Any = None,
) -> Evaluation:
    splits = load_to_score(task, seed=sampling.pop("data_seed"), **sampling)
    frames = {"validation": splits.validation, "test": splits.test}
    data = {s: pair.encode(task, frame) for s, frame in frames.items() if len(frame)}
    logits: dict[str, dict[str, np.ndarray]] = {split: {} for split in data}
    passes = [(split, state) for split in data for state in states]
    for number, (split, state) in enumerate(passes):
        progress(Progress("predict", number, len(passes), f"scoring on {split}"))
        logits[split][state] = predict(pair, data[split], state, region)
    note, fit, training = task_note(task, splits), Fit(None), seen_texts(task, splits, None)
    if "finetuned" in states and "validation" in data:
        reason = against_fitting(
            pair.finetuned_info.folder, task, splits, training=training, is_own=False, drawn=drawn,
        )  # fmt: skip
        fit = fitted(logits["validation"], data["validation"].labels, task.has_classes, reason)
    by_split = {s: split_scores(logits[s], data[s].labels, note, fit.value) for s in data}
    size = None if region is None else region.size
    leaked = overlap_note(splits, training)
    notes = (*pair.notes, *splits.notes, *encoding_notes(data), *leaked, *filter(None, (why_not(fit.reason),)))
    return Evaluation(by_split, task.metric, size, pair.d, pair.readout_name, notes, fit.value)


def _check_values(pair: ModelPair, graft: Graft) -> None:
    """Raise PairMismatch if the graft's values differ from the pair's at its gain."""
    if dict(graft.region.shapes) != pair.table.shapes:
        raise PairMismatch("the graft was made for another architecture than this pair; use its own models.")
    for name, values in pair.graft_values(graft.region).items():
        if not torch.equal(values, graft.values[name].to(values.dtype)):
            raise PairMismatch(
                f"the graft's values of '{name}' are not those of this fine-tuned model; give the model that it was "
                "exported from, or leave --finetuned out."
            )

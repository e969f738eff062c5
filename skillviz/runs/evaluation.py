"""The metrics of a pair and a region that were not made by a stored run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from skillviz.atomic import working_folder
from skillviz.core.encoded import encoding_notes
from skillviz.core.graft import Graft
from skillviz.core.metrics import metric_row
from skillviz.core.region import Region
from skillviz.errors import BadInput, PairMismatch
from skillviz.models.applied import applied, opened_base, save_applied
from skillviz.models.fetch import graft_file
from skillviz.models.pair import ModelPair, load_pair
from skillviz.models.predict import predict
from skillviz.runs.metrics import scores, temperature_of
from skillviz.runs.progress import Progress, Report, silent
from skillviz.runs.provenance import seen_note, task_note
from skillviz.runs.record import Scores
from skillviz.tasks import registry
from skillviz.tasks.encode import encode
from skillviz.tasks.project import expanded
from skillviz.tasks.splits import load
from skillviz.tasks.task import Task


@dataclass(frozen=True)
class Evaluation:
    """Metrics with intervals by split (validation, test), and what was scored."""

    scores: dict[str, Scores]
    metric: str
    size: int | None
    d: int
    readout: str
    notes: tuple[str, ...]
    temperature: float | None = None

    def __repr__(self) -> str:
        split = "test" if "test" in self.scores else "validation"
        scored, row = self.scores[split], metric_row(self.metric)
        values = (
            f"{state} {row.number(of[self.metric].value)}" for state, of in scored.states.items() if self.metric in of
        )
        return f"Evaluation({split}, n = {scored.n:,}, {row.title}: {', '.join(values)})"

    def headline(self) -> dict[str, Any]:
        """The test set's values with their intervals, as `evaluate --json` prints them; see Scores.by_state."""
        split = "test" if "test" in self.scores else "validation"
        scored = self.scores[split]
        return {
            "split": split,
            "n": scored.n,
            "size": self.size,
            "d": self.d,
            "share": None if self.size is None else self.size / self.d,
            "readout": self.readout,
            **scored.by_state(),
            "agreement": scored.agreement.value if scored.agreement else None,
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
    """The metrics of the pre-trained, fine-tuned and grafted model and of the complement, with intervals.

    The region comes from `region` or `graft` (an object or a file); without either, only the two ends are
    scored. With a graft, `finetuned` may be left out: then there are the pre-trained and the grafted model.
    Raises PairMismatch where the graft's values are not those of `finetuned`. `progress` is told of each pass.
    """
    if region is not None and graft is not None:
        raise BadInput("give a region or a graft, not both: a graft holds its region.")
    if finetuned is None and graft is None:
        raise BadInput("without the fine-tuned model a graft is needed: give --finetuned, or --graft FILE.")
    of_task = task if isinstance(task, Task) else registry.task(str(task), "task")
    stored_graft = Graft.load(graft_file(graft)) if isinstance(graft, str | Path) else graft
    chosen = Region.load(region) if isinstance(region, str | Path) else region
    loading: dict[str, Any] = {"readout": readout, "task": of_task, "device": device, "dtype": dtype}
    sampling = {"k_shot": k_shot, "data_seed": data_seed, "max_validation": max_validation, "max_test": max_test}
    source = expanded(str(base), "base")
    progress(Progress("load", text="loading the models"))
    if finetuned is None:
        assert stored_graft is not None
        with working_folder() as folder:
            result = applied(source, stored_graft, force=force)
            save_applied(result, folder / "grafted")
            if result.info.rounded:  # the other state is the base that the graft was made for
                save_applied(opened_base(source, stored_graft), folder / "base")
                source = str(folder / "base")
            pair = load_pair(source, folder / "grafted", is_graft=True, **loading)
            return _scored(pair, of_task, stored_graft.region, ("pretrained", "grafted"), sampling, progress)
    pair = load_pair(source, expanded(str(finetuned), "finetuned"), **loading)
    if stored_graft is not None:
        _check_values(pair, stored_graft)
        chosen = stored_graft.region
    states = ("pretrained", "finetuned") + (() if chosen is None else ("grafted", "complement"))
    return _scored(pair, of_task, chosen, states, sampling, progress)


def _scored(
    pair: ModelPair,
    task: Task,
    region: Region | None,
    states: tuple[str, ...],
    sampling: dict[str, Any],
    progress: Report,
) -> Evaluation:
    splits = load(task, seed=sampling.pop("data_seed"), **sampling)
    frames = {"validation": splits.validation, "test": splits.test}
    data = {s: encode(task, frame, pair.tokenizer, pair.readout_name) for s, frame in frames.items() if len(frame)}
    logits: dict[str, dict[str, np.ndarray]] = {split: {} for split in data}
    passes = [(split, state) for split in data for state in states]
    for number, (split, state) in enumerate(passes):
        progress(Progress("predict", number, len(passes), f"scoring on {split}"))
        logits[split][state] = predict(pair, data[split], state, region)
    note, temperature = task_note(task, splits), None
    if "finetuned" in states and "validation" in data:
        temperature = temperature_of(logits["validation"], data["validation"].labels)
    by_split = {s: scores(logits[s], data[s].labels, note, temperature) for s in data}
    size = None if region is None else region.size
    seen = seen_note(pair.finetuned_info, splits) if "finetuned" in states else ()
    notes = (*pair.notes, *splits.notes, *encoding_notes(data), *seen)
    return Evaluation(by_split, task.metric, size, pair.d, pair.readout_name, notes, temperature)


def _check_values(pair: ModelPair, graft: Graft) -> None:
    """Raises PairMismatch where the graft holds other values than the fine-tuned model."""
    if dict(graft.region.shapes) != pair.table.shapes:
        raise PairMismatch("the graft was made for another architecture than this pair; use its own models.")
    views = pair.finetuned_tensors()
    for name, indices in graft.region.indices.items():
        values = views[name].reshape(-1).cpu()[torch.from_numpy(np.array(indices))]
        if not torch.equal(values, graft.values[name].to(values.dtype)):
            raise PairMismatch(
                f"the graft's values of '{name}' are not those of this fine-tuned model; give the model that it was "
                "exported from, or leave --finetuned out."
            )

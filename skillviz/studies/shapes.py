"""Tables of what regions and models look like: make-up, overlap of localizers, histograms, sensitivity to constants."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.calibration import confidence_histogram
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.metrics import HEADLINE, with_own
from skillviz.core.overlap import chance_iou, iou_matrix
from skillviz.core.region import Region
from skillviz.runs.run import RANKING, Run
from skillviz.studies.means import over_seeds
from skillviz.studies.observations import Observed, searched
from skillviz.studies.resampled import TEST
from skillviz.studies.tables import check

SAME = "same"


def makeup(runs: Sequence[Run], localizers: Sequence[str] = ()) -> pd.DataFrame:
    """Where each run's main region lies: one row a layer, kind and bias; `selected` sums to the region's size.

    `localizers` are names of the runs' localizers in place of their own.
    """
    rows = []
    for run, localizer in zip(runs, localizers or [run.spec.localizer for run in runs], strict=True):
        frame = run.layers()
        size, d = int(frame["selected"].sum()), int(frame["total"].sum())
        named: dict[Any, Any] = {"task": run.record.task_name, "localizer": localizer, "seed": run.spec.seed}
        parts = frame.groupby(["layer", "kind", "is_bias"], dropna=False, sort=False)[["selected", "total"]].sum()
        for part in parts.reset_index().to_dict("records"):
            selected, total = int(part["selected"]), int(part["total"])
            density = (selected / total) / (size / d) if size and total else np.nan
            share = selected / size if size else 0.0
            rows.append({**named, **part, "share": share, "density_ratio": density})
    return check(pd.DataFrame(rows), "makeup")


def histogram(found: Sequence[Observed], bins: int = 20) -> pd.DataFrame:
    """Counts of test examples by top probability, of the fine-tuned model and of each graft, mean over seeds."""
    groups: dict[tuple[str, str], list[pd.DataFrame]] = {}
    for one in found:
        own = one.split == TEST and one.task == one.id_task and one.answers is not None
        if own and (one.method == "ft" or searched(one)):
            assert one.answers is not None
            state = "finetuned" if one.method == "ft" else f"grafted {one.asked or f'{one.share:.2%}'}"
            counted = confidence_histogram(one.answers.logits, one.answers.labels, bins)
            groups.setdefault((one.task, state), []).append(counted)
    frames: list[pd.DataFrame] = []
    for (task, state), same in groups.items():
        mean = pd.concat(same).groupby("bin")[["lower", "upper", "count", "correct"]].mean()
        named = mean.rename(columns={"lower": "low_edge", "upper": "high_edge"})
        n = round(float(named["count"].sum()))
        frames.append(named.assign(task=task, state=state, n=n))
    return check(pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(), "histogram")


def overlap_of_localizers(runs: Sequence[Run], of: str = "stagewise") -> pd.DataFrame:
    """IoU of the regions of `of` with those of every localizer on the same pair at the same size, and with its own of
    other seeds; the mean over pairs of seeds, the interval over the seeds of `of`."""
    rows = []
    groups: dict[tuple[str, str], dict[str, dict[int, Region]]] = {}
    for run in runs:
        for asked, region in _regions(run).items():
            own = groups.setdefault((run.record.task_name, asked), {}).setdefault(run.spec.localizer, {})
            own.setdefault(run.spec.seed, region)
    for (task, asked), by_localizer in groups.items():
        for rival, regions in by_localizer.items():
            if of in by_localizer:
                own = by_localizer[of]
                row = _iou(own, own if rival == of else regions, rival == of)
                if row:
                    named = {"row": f"{task} {of} {asked}", "column": f"{task} {rival} {asked}"}
                    rows.append({**named, "kind": "iou", **row, "relation": SAME})
    return check(pd.DataFrame(rows), "overlap")


def sensitivity(runs: Sequence[Run]) -> pd.DataFrame:
    """One row a run and metric: its constants, its size, and the graft's test metrics with intervals over examples."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        scores = run.record.metrics.get(TEST)
        if scores is None:
            continue
        metrics = dict(scores.states["grafted"]) | ({"recovered": scores.recovered} if scores.recovered else {})
        own = run.record.metric
        for metric in with_own(own, (*HEADLINE, "recovered")):
            if metric in metrics:
                rows.append({**_constants(run), "metric": metric, **metrics[metric].model_dump()})
    return check(pd.DataFrame(rows), "sensitivity")


def _constants(run: Run) -> dict[str, Any]:
    spec = run.spec
    known = dict(spec.options)
    for name, given in (("steps", spec.steps), ("batch_size", spec.batch_size)):
        option = LOCALIZERS[spec.localizer].option(name)
        known |= {name: given} if given is not None else {name: known.get(name, option.default)} if option else {}
    return {
        "task": run.record.task_name, "localizer": spec.localizer, "lr": known.get("lr", np.nan),
        "steps": known.get("steps", np.nan), "bias": known.get("bias", np.nan),
        "batch_size": known.get("batch_size", np.nan), "seed": spec.seed, "size": float(run.record.size or 0),
        "share": run.record.share,
    }  # fmt: skip


def _regions(run: Run) -> dict[str, Region]:
    """The regions of a run by the size asked for: the main one, and of a ranking that answers all sizes the others."""
    found = {run.spec.sizes[0]: run.region()}
    if LOCALIZERS[run.spec.localizer].nested and RANKING in run.files:
        for asked, size in zip(run.spec.sizes, run.record.sizes, strict=False):
            found.setdefault(asked, run.cut(size))
    return found


def _iou(own: dict[int, Region], rivals: dict[int, Region], is_same: bool) -> dict[str, Any] | None:
    """Mean IoU over pairs of seeds, its interval over the seeds of `own`, and what chance would give."""
    pairs = [(a, b) for a, b in itertools.product(own, rivals) if not is_same or a != b]
    if not pairs:
        return None
    values = {(a, b): float(iou_matrix({"a": own[a], "b": rivals[b]}).to_numpy()[0, 1]) for a, b in pairs}
    means = [float(np.mean([v for (a, _), v in values.items() if a == seed])) for seed in own]
    found = over_seeds(means, "iou")
    chance = [chance_iou(own[a].size, rivals[b].size, own[a].d) for a, b in pairs]
    count = len(pairs) // 2 if is_same else len(pairs)
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "chance": float(np.mean(chance)),
        "seeds": count,
    }

"""Figure 7: the graft out of distribution, by size and along the paths between the models (WiSE)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pandas as pd

from skillviz.analysis.differences import paired
from skillviz.analysis.observations import sentences
from skillviz.analysis.scores import score_table
from skillviz.analysis.seeds import mean_over_seeds, scored_in
from skillviz.analysis.tables import notes
from skillviz.core.metrics import metric_names
from skillviz.runs.run import Run
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import alike, large_shift, less, small_shift
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.scales import MOST_SHIFTED
from skillviz.studies.paper.setting import SettingRow, shifts_row, sizes_row
from skillviz.studies.study_observations import of_results

if TYPE_CHECKING:
    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

PAIRS = (("graft", "ft"), ("graft", "pretrained"))
ESTIMATE = ("value", "low", "high", "debiased")


def entries(scale: Scale) -> list[Entry]:
    """Runs of several sizes for each task with a shifted partner, and paths between the models at the main size."""
    runs = []
    for task in scale.some("shift"):
        if scale.others(task):
            runs += scale.shifted(task)
    return runs


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return scores and differences on every task by size, and the paths between the models."""
    observations = of_results(results)
    return {
        "scores": score_table(observations),
        "differences": paired(observations, PAIRS),
        "paths": pd.DataFrame(path_rows(results.runs())),
        "note": notes(*sentences(observations)),
    }


def path_rows(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """Return one row per path, point, task and metric: the mean over mask seeds at the main size, with its interval.

    The runs' own intervals give the variance over examples. WiSE-FT has no region, so its rows are the same in every
    run.
    """
    groups: dict[tuple[Any, ...], list[dict[Any, Any]]] = {}
    for run in runs:
        grid = run.interpolation()
        grid = grid[(grid["size"].isna()) | (grid["size"] == run.record.size)]
        grid = grid[grid["metric"].isin(metric_names(run.record.metric))]
        for row in grid.to_dict("records"):
            key = (row["path"], round(float(row["alpha"]), 6), run.record.task_name, row["dataset"], row["metric"])
            groups.setdefault(key, []).append(row)
    rows = []
    for (path, alpha, id_task, task, metric), points in groups.items():
        point = {"path": path, "alpha": alpha, "id_task": id_task, "task": task, "metric": metric}
        side = {seed: [scored_in(row, metric)] for seed, row in enumerate(points)}
        over = mean_over_seeds(side, metric)
        rows.append({**point, **{part: getattr(over, part) for part in ESTIMATE}})
    return rows


def differs(scale: Scale) -> list[SettingRow]:
    """Return the shifts and sizes."""
    paper = "SST-2 to IMDb, MNLI to SNLI; MPQA to SST-2 and Yelp, QNLI to MNLI and SNLI"
    return [shifts_row(scale, paper, scale.some("shift")), sizes_row(scale, scale.sizes[:MOST_SHIFTED])]


FIGURE7 = Experiment(
    name="figure7",
    title="Figure 7: out of distribution, by size and along the paths",
    question="Does the graft transfer to other data better than the fine-tuned model? And the models between them?",
    finding="No gain under small shifts, at least 5 points under large ones. WiSE on grafts is competitive.",
    entries=entries,
    tables=tables,
    makes=("scores", "differences", "paths", "note"),
    published=("figures", "table7"),
    claims=(
        Claim("Under a small shift, graft and fine-tuned model are within 3 points.",
              alike("graft", "ft", keep=small_shift)),
        Claim("Under a large shift, the graft is more accurate than the fine-tuned model.",
              less("graft", "ft", keep=large_shift)),
    ),
    differs=differs,
    on_other_data=True,
    shown="curves",
)  # fmt: skip

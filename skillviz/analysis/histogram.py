"""The table `histogram`: the models' confidence, as counts of test examples by top probability."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from skillviz.analysis.observations import TEST, Observation
from skillviz.analysis.seeds import mean_of
from skillviz.analysis.tables import check
from skillviz.core.calibration import confidence_histogram


def histogram(observations: Sequence[Observation], bins: int = 20) -> pd.DataFrame:
    """Counts of test examples by top probability, for the fine-tuned model and for each graft, mean over seeds."""
    groups: dict[tuple[str, str, str], list[Observation]] = {}
    for one in observations:
        scored = one.split == TEST and one.task == one.id_task and one.answers is not None
        if scored and (one.method == "ft" or one.is_graft):
            state = "finetuned" if one.method == "ft" else "grafted"
            size = "" if one.method == "ft" else one.requested_size or f"{one.share:.2%}"
            groups.setdefault((one.task, state, size), []).append(one)
    frames = []
    for (task, state, _), same in groups.items():
        counts = [confidence_histogram(o.answers.logits, o.answers.labels, bins) for o in same if o.answers]
        mean = pd.concat(counts).groupby("bin")[["lower", "upper", "count", "correct"]].mean()
        named = mean.rename(columns={"lower": "low_edge", "upper": "high_edge"})
        frames.append(
            named.assign(
                task=task, state=state, size=mean_of(o.size for o in same), share=mean_of(o.share for o in same),
                n=round(float(named["count"].sum())),
            )
        )  # fmt: skip
    return check(pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(), "histogram")

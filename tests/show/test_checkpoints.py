"""Tests of the sentences on a series of checkpoints: why the required size has no mark."""

from __future__ import annotations

import numpy as np

from skillviz.show.checkpoints import details, finding, without_size
from tests.plots import frames


def test_a_size_that_is_undefined_and_one_that_is_not_reached_are_told_apart() -> None:
    points = frames.checkpoints()
    needed = points["what"] == "needed"
    full = points.assign(value=points["value"].where(~needed, 0.1))
    assert without_size(full) == []
    first, *others = sorted(full["step"].unique())
    undefined = full[~(needed & (full["step"] == first))]
    (said,) = without_size(undefined)
    assert f"undefined at step {first:,}: fine-tuning gained nothing on validation" in said
    assert said in details(undefined, "sst2_sentences") and said not in finding(undefined, "sst2_sentences")
    alone = undefined[~undefined["what"].isin(("lead", "gap"))]
    assert said in finding(alone, "sst2_sentences"), "where nothing is compared, the rest is the finding"
    missed = needed & (full["localizer"] == "movement") & full["step"].isin(others[:2])
    (said,) = without_size(full.assign(value=full["value"].mask(missed, np.nan)))
    assert said == f"No size of top movement recovers 95% of the gain at steps {others[0]:,} and {others[1]:,}."

"""What the calibration page says of the graft and its rivals."""

from __future__ import annotations

import numpy as np

from skillviz.show.calibration import verdicts


def test_equal_mass_has_differences_without_a_verdict() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    sure = 8.0 * np.eye(2)[np.where(rng.random(400) < 0.7, labels, 1 - labels)]  # 70% right, 100% sure
    logits = {"grafted": sure / 9, "finetuned": sure}
    ((width, said),) = verdicts(logits, labels, 15, equal_mass=False)
    ((mass, also_said),) = verdicts(logits, labels, 15, equal_mass=True)
    assert width == "better" and mass is None
    assert "for the graft" in said and "for the graft" in also_said

"""The coverage benchmark: a small run resumes, its stored results keep the promise, and the page is made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import coverage
from benchmarks.populations import Population, Side, pair, single


def few() -> list[coverage.Case]:
    """A model and a pair of known error."""
    one = single("flat", "shifted", 2, 0.05, "width")
    two = pair(("flat", "high"), ("shifted", "wave"), 3, (0.03, 0.08), "mass", 0.9, 0.9)
    assert one is not None and two is not None
    return [
        coverage.Case("development", "error", 2, "width", 0.05, one),
        coverage.Case("development", "difference", 3, "mass", -0.05, two),
    ]


def test_populations_have_the_error_they_are_asked_for() -> None:
    one, two = (case.population for case in few())
    assert one.errors("width", "l1") == pytest.approx([0.05], abs=1e-4)
    assert two.errors("mass", "l1") == pytest.approx([0.03, 0.08], abs=1e-4)
    assert all(l2 >= l1 for l1, l2 in zip(two.errors("mass", "l1"), two.errors("mass", "l2"), strict=True))
    assert single("flat", "temperature", 2, 0.9, "width") is None, "an error that no strength reaches"
    calibrated = Population("calibrated", (Side(np.linspace(0.5, 1, 50), np.linspace(0.5, 1, 50)),))
    assert calibrated.errors("width", "l2") == [0.0]


def test_a_small_run_covers_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "SIZES", (300,))
    out = tmp_path / "coverage.csv"
    found = coverage.run(few(), 200, out)
    assert len(found) == 4 and (found["coverage"] >= 0.92).all()
    assert (found.loc[found["norm"] == "l1", "rmse_debiased"] < 4).all()
    stamp = out.read_text()
    monkeypatch.setattr(coverage, "measured", lambda *a: pytest.fail("a stored cell is not measured again"))
    pd.testing.assert_frame_equal(coverage.run(few(), 200, out), pd.read_csv(out))
    assert out.read_text() == stamp


def test_the_stored_grid_keeps_the_promise() -> None:
    """1,000 draws a cell: one standard error is 0.8 points at 93 %."""
    rows = pd.read_csv(coverage.RESULTS / "coverage.csv")
    rows = rows[rows["norm"] == "l1"]
    assert (rows["repetitions"] >= 1000).all() and set(rows["n"]) == set(coverage.SIZES)
    assert rows["coverage"].min() >= 0.93
    for _, cells in rows.groupby("quantity"):
        assert cells["coverage"].median() <= 0.98


def test_the_page_holds_every_table() -> None:
    text = coverage.PAGE.read_text(encoding="utf-8")
    for name, lines in coverage.tables().items():
        assert f"<!-- {name}: written" in text, name
        assert "\n".join(lines) in text, (
            f"{name} is not what the results say; run python -m benchmarks coverage --tables"
        )


@pytest.mark.slow
def test_the_command_would_make_the_stored_grid_again() -> None:
    """The same cells, and the same coverage in those of one case."""
    rows = pd.read_csv(coverage.RESULTS / "coverage.csv")
    cases = list(coverage.development())
    keys = ["population", "binning", "classes", "quantity"]
    assert {tuple(row) for row in rows[keys].itertuples(index=False)} == {
        (case.population.name, case.binning, case.classes, case.quantity) for case in cases
    }
    for found in coverage.measured(cases[0], 300, 1000, 0):
        stored = rows[(rows["n"] == 300) & (rows["norm"] == found["norm"])].iloc[0]
        assert stored["population"] == found["population"]
        assert stored["coverage"] == pytest.approx(found["coverage"], abs=2e-3)

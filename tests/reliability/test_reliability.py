"""Try to break skillviz as docs/research/reliability.md tells: no attempt loses anything, and every fault is noticed.

    python -m pytest tests/reliability -m reliability             # a few tries of each attempt: minutes
    python -m pytest tests/reliability -m reliability -n 0 --long  # two hours on two cores

The long form stores each attempt's row in benchmarks/results/reliability.csv; `python -m benchmarks reliability` then
writes the page's tables.
"""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest

from benchmarks import reliability as page
from benchmarks.frame import RESULTS, Rows
from skillviz.studies.status import cores
from tests.reliability.attempts import ATTEMPTS, PROMISES
from tests.reliability.faults import FAULTS

SHOWN = 40  # losses that are printed one by one
ROWS = RESULTS / "reliability.csv"


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Undo what an attempt changes in the environment."""
    with mock.patch.dict(os.environ):
        yield


@pytest.mark.reliability
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.gpu] * one.needs_gpu) for name, one in ATTEMPTS.items()]
)
def test_an_attempt_loses_nothing(name: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    attempt, is_long, begun = ATTEMPTS[name], pytestconfig.getoption("long"), time.monotonic()
    if not (number := attempt.long if is_long else attempt.short):
        pytest.skip("the short form omits this attempt; give --long")
    tries = list(attempt.tries(number, tmp_path))
    losses = [loss for loss in tries if loss]
    if is_long:
        rows = Rows(ROWS, ["attempt"])
        rows.rows = [row for row in rows.rows if row["attempt"] != name]
        rows.add({
            "promise": attempt.promise, "attempt": name, "form": "long", "tried": len(tries), "lost": len(losses),
            "loss": (losses or [""])[0][:300], "seconds": round(time.monotonic() - begun, 1),
            "day": datetime.now(UTC).date().isoformat(), "cores": cores(),
        })  # fmt: skip
    assert tries and not losses, "\n".join(losses[:SHOWN])


@pytest.mark.reliability
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_noticed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, attempt = FAULTS[name], ATTEMPTS[FAULTS[name].attempt]
    with monkeypatch.context() as patch:
        fault.plant(patch)
        assert any(attempt.tries(attempt.long if fault.is_rare else attempt.short, tmp_path)), "nothing is lost"


def test_every_promise_is_tried_and_has_a_fault_that_breaks_it() -> None:
    assert (
        {attempt.promise for attempt in ATTEMPTS.values()},
        {ATTEMPTS[fault.attempt].promise for fault in FAULTS.values()},
    ) == (set(PROMISES), set(PROMISES))


def test_the_page_holds_the_stored_results_and_nothing_was_lost() -> None:
    rows = pd.read_csv(ROWS)
    assert set(rows["attempt"]) == set(ATTEMPTS) and set(rows["form"]) == {"long"} and (rows["lost"] == 0).all()
    text = page.PAGE.read_text(encoding="utf-8")
    for name, lines in page.tables(rows).items():
        assert "\n".join(lines) in text, f"{name}: run python -m benchmarks reliability"


def test_a_loss_is_shown() -> None:
    rows = pd.DataFrame([{"attempt": "random-kills", "tried": 1000, "lost": 3, "day": "2026-01-01"}])
    assert any("| 1,000 | 3 |" in line for line in page.attempts(rows))

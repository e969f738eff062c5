"""Tests of `python -m benchmarks reliability --short`: it loses nothing, and each planted error causes a loss."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.reliability import page
from benchmarks.reliability.attempt import stored
from benchmarks.reliability.faults import FAULTS
from benchmarks.reliability.table import ATTEMPTS, PROMISES

LIMIT = 600  # seconds
PARTS = 3  # processes of each test: each imports torch once


def reliability(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the command in its own process: it forks, and faults stay inside."""
    command = [sys.executable, "-m", "benchmarks", "reliability", *(str(word) for word in words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LIMIT)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_the_short_form_loses_nothing(tmp_path: Path, part: int) -> None:
    """Test a share of the promises at a time."""
    promises = list(PROMISES)[part::PARTS]
    names = [name for name, attempt in ATTEMPTS.items() if attempt.promise in promises and attempt.short]
    done = reliability("--short", *(word for name in names for word in ("--only", name)), "--results", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = stored(tmp_path / page.FILE)
    assert sorted(rows["attempt"]) == sorted(names) and (rows["lost"] == 0).all() and (rows["tried"] > 0).all()


def first_of_each_promise() -> list[str]:
    """Return the first fault of each promise."""
    return list({ATTEMPTS[fault.attempt].promise: name for name, fault in reversed(FAULTS.items())}.values())


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_every_planted_fault_is_noticed(tmp_path: Path, part: int) -> None:
    """Test the first fault of each promise, then the others."""
    others = [name for name in FAULTS if name not in first_of_each_promise()]
    names = others[part - 1 :: PARTS - 1] if part else first_of_each_promise()
    done = reliability(*(word for name in names for word in ("--plant", name)), "--results", tmp_path)
    assert done.returncode == 1 and done.stdout.count("1 lost") == len(names), done.stdout + done.stderr
    assert "Not noticed" not in done.stdout
    assert not list(tmp_path.iterdir()), "what a fault loses is no result"


@pytest.mark.nightly
def test_a_fault_that_nothing_notices_is_told_of() -> None:
    code = (
        "from benchmarks.reliability.faults import FAULTS, Fault, planted\n"
        "FAULTS['nothing'] = Fault('nothing', 'nothing is changed', 'other-programs', lambda: None)\n"
        "assert planted(['nothing', 'bins-off']) == ['nothing']\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)


def test_every_promise_is_tried_and_has_a_fault_that_breaks_it() -> None:
    assert {attempt.promise for attempt in ATTEMPTS.values()} == set(PROMISES)
    assert {ATTEMPTS[fault.attempt].promise for fault in FAULTS.values()} == set(PROMISES)


def test_the_page_holds_the_stored_results_and_nothing_was_lost() -> None:
    rows = stored(page.RESULTS / page.FILE)
    anywhere = {name for name, attempt in ATTEMPTS.items() if not attempt.needs_gpu}
    assert set(rows[rows["form"] == "long"]["attempt"]) >= anywhere and (rows["lost"] == 0).all()
    text = page.PAGE.read_text(encoding="utf-8")
    for name, lines in page.tables().items():
        assert "\n".join(lines) in text, f"{name}: run python -m benchmarks reliability --tables"


def test_a_loss_is_shown(tmp_path: Path) -> None:
    row = {"promise": "lost", "attempt": "random-kills", "form": "long", "tried": 1000, "lost": 3, "loss": "x",
           "seconds": 1.0, "day": "2026-01-01", "cores": 2}  # fmt: skip
    pd.DataFrame([row]).to_csv(tmp_path / page.FILE, index=False)
    assert any("| 1,000 | 3 |" in line for line in page.tables(tmp_path)["attempts"])


@pytest.mark.nightly
def test_what_is_unknown_is_refused() -> None:
    assert "is not a fault" in reliability("--plant", "nothing").stderr
    assert "is not an attempt" in reliability("--only", "nothing").stderr


def test_an_attempt_that_is_out_of_time_counts_what_it_tried(tmp_path: Path) -> None:
    attempt = ATTEMPTS["checkpoint-bits"]
    row = attempt.made("long", tmp_path, lambda line: None, minutes=0)
    assert (row["tried"], row["lost"], row["form"]) == (1, 0, "long") and attempt.long > 1

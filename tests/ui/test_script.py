"""Tests of values cached during one run of a page, and no longer."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from skillviz.ui import script


def in_a_run(*steps: Callable[[], Any]) -> list[Any]:
    """Run the steps as a page's script, in its own thread; return what they return."""
    with ThreadPoolExecutor(1) as page:
        return [page.submit(step).result() for step in (script.begin, *steps)][1:]


@pytest.fixture
def read() -> Callable[[], int]:
    """Return a function that reads one value, another one each time."""
    values = itertools.count()
    return lambda: script.once_read("runs", lambda: next(values))


def test_a_run_reads_once_and_the_next_one_anew(read: Callable[[], int]) -> None:
    assert in_a_run(read, read, script.begin, read) == [0, 0, None, 1]


def test_outside_of_a_page_nothing_is_kept_and_nothing_waits(
    read: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [read() for _ in range(3)] == [0, 1, 2]
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("nobody waits outside of a page"))
    script.first_figure_goes_ahead()


def test_what_is_old_is_read_again(read: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "FRESH", 0.0)
    assert in_a_run(read, read, read)[-1] >= 1


def test_only_the_first_figure_goes_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    in_a_run(script.first_figure_goes_ahead, script.first_figure_goes_ahead)
    assert waited == [script.LEAD_OF_VISITOR]

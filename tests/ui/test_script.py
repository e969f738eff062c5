"""Tests of values cached during one run of a page, and no longer."""

from __future__ import annotations

import threading
import time

import pytest

from skillviz.ui import script


def in_a_run(work) -> None:
    """Run it as a page's script, in its own thread."""
    failed: list[BaseException] = []

    def run() -> None:
        script.begin()
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def test_a_run_reads_once_and_the_next_one_anew() -> None:
    values = iter(range(9))

    def twice() -> None:
        assert script.once_read("runs", lambda: next(values)) == script.once_read("runs", lambda: next(values))
        script.begin()
        script.once_read("runs", lambda: next(values))

    in_a_run(twice)
    assert next(values) == 2


def test_outside_of_a_page_nothing_is_kept_and_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter(range(9))
    assert [script.once_read("runs", lambda: next(values)) for _ in range(3)] == [0, 1, 2]
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("nobody waits outside of a page"))
    script.first_figure_goes_ahead()


def test_what_is_old_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "FRESH", 0.0)
    values = iter(range(9))
    in_a_run(lambda: [script.once_read("runs", lambda: next(values)) for _ in range(3)])
    assert next(values) >= 2


def test_only_the_first_figure_goes_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)

    def draw() -> None:
        script.first_figure_goes_ahead()
        script.first_figure_goes_ahead()

    in_a_run(draw)
    assert waited == [script.LEAD_OF_VISITOR]

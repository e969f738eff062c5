"""Tests of a search that is watched and ended by hand: the map of its region so far, and the run that keeps it."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from skillviz import jobs
from skillviz.core.localizers.record import LocalizerStep
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.parameters import Parameter, ParameterTable
from skillviz.errors import StoreError
from skillviz.runs import growing
from skillviz.runs import produce as production
from skillviz.runs.artifact import RunArtifact
from skillviz.runs.folder import GROWING
from skillviz.runs.plan import planned
from skillviz.runs.process import Progress
from skillviz.runs.produce import carry_on, problem_of
from skillviz.runs.record import Failure
from skillviz.runs.search import SearchStep
from skillviz.show.briefs import brief_of, roles, setting_labels
from tests.refused import refuses
from tests.runs.tiny_world import Region, Run, RunFolder, Session, Store, failed_checks, library, produce, spec_of

OWN: dict[str, dict[str, Any]] = {"learned": {"lr": 1e4, "base_share": 0.01, "selection": "none"}}
JUDGED = ("stagewise-judged", "stagewise-nested")  # their result is the best of their last regions
GROWS = ("stagewise", *JUDGED, "frank-wolfe", "learned", "learned-ranked", "localize-and-stitch", "l0-gates")


@pytest.fixture(autouse=True)
def maps_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "EVERY", 0.0)
    monkeypatch.setattr(growing, "SHARE", float("inf"))


def stepwise(world: Path, session: Session, name: str) -> tuple[list[tuple[int, np.ndarray]], np.ndarray]:
    """Return size and region after each step of a localizer's search, and its result."""
    spec = spec_of(world, localizer=name, sizes=("5%",), steps=4, batch_size=16, options=OWN.get(name, {}))
    plan, regions = planned(spec, session, library(world), "cpu"), []
    problem, options, _ = problem_of(plan, session.pair(spec), session.encoded(spec))
    steps = LOCALIZERS[name].search(problem, 222, seed=0, options=options, resume=None)
    try:
        while True:
            step = next(steps)
            assert step.region is not None
            regions.append((step.size, step.region()))
    except StopIteration as end:
        problem.reset()
        return regions, end.value.order


@pytest.mark.parametrize("name", GROWS)
def test_each_step_has_its_region_and_the_last_one_has_the_result(world: Path, session: Session, name: str) -> None:
    regions, order = stepwise(world, session, name)
    assert [(len(region), len(set(region))) for _, region in regions] == [(size, size) for size, _ in regions]
    if name not in JUDGED:
        np.testing.assert_array_equal(regions[-1][1], order[: len(regions[-1][1])])


def queued(world: Path, store: Store, **changes: Any) -> RunFolder:
    return store.create(spec_of(world, localizer="stagewise", steps=6, batch_size=16, **changes), size=222, task="tiny")


def stopped(store: Store, folder: RunFolder, session: Session, after: int) -> tuple[Run, list[dict[str, Any]]]:
    """Return the run of a folder whose search is ended after this step, and the maps until then."""
    maps: list[dict[str, Any]] = []

    def look(progress: Progress) -> None:
        if progress.phase == "search" and progress.done:
            if (drawn := jobs.growing(store, folder.id)) is not None:
                maps.append({**drawn[0], "d": drawn[1]["total"].sum(), "size": int(drawn[1]["selected"].sum())})
            if progress.done == after:
                jobs.keep(store, folder.id)

    return carry_on(folder, look, session), maps


def test_a_stopped_search_keeps_its_region_as_a_run_that_says_so(world: Path, store: Store, session: Session) -> None:
    run, maps = stopped(store, queued(world, store, sizes=("5%", "1%"), nulls="shuffled"), session, after=3)
    record, history = run.record, run.history()
    assert record.stopped == "3 of 6"
    assert record.size == history["size"].iloc[-1]
    assert record.sizes == (history["size"].iloc[-1],)
    assert record.nulls == ()
    assert failed_checks(run) == []
    assert record.size == run.region().size < 222 and len(history) == 3
    assert [(row["step"], row["total"], row["target"], row["d"]) for row in maps] == [
        (1, 6, 222, 4448), (2, 6, 222, 4448),
    ]  # fmt: skip
    assert [row["size"] for row in maps] == history["size"].tolist()[:2] and not (run.path / "work" / GROWING).exists()
    assert any("ended the search after step 3 of 6" in note and "222" in note for note in record.notes)


def test_a_stopped_run_is_never_taken_for_the_whole_search(world: Path, store: Store, session: Session) -> None:
    run, _ = stopped(store, queued(world, store), session, after=2)
    whole = produce(run.spec, store, session=session)
    briefs = [brief_of(each, is_of_user=True) for each in (run, whole)]
    assert run.record.key != run.spec.key() == whole.record.key
    assert [roles(briefs)[brief.id] for brief in briefs] == ["variant", "headline"]
    assert setting_labels(briefs[0], ["stopped"]) == ["stopped at step 2 of 6"]


def test_a_stop_asked_before_the_first_size_is_finished_keeps_finished_sizes(
    world: Path, store: Store, session: Session
) -> None:
    folder = queued(world, store, sizes=("5%", "1%"))
    seen: list[int] = []

    def look(progress: Progress) -> None:
        seen.append(progress.done if progress.phase == "search" else 0)
        if seen[-1] and sum(done > 0 for done in seen) == 8:  # the second search's second step
            jobs.keep(store, folder.id)

    run = carry_on(folder, look, session)
    assert (run.record.stopped, run.record.sizes) == ("2 of 6", (222,))
    whole = produce(run.spec, store, session=session)
    assert run.region().sha256() == whole.region().sha256()


def test_a_stopped_run_that_is_interrupted_later_resumes_with_its_region(
    world: Path, store: Store, session: Session
) -> None:
    folder = queued(world, store)

    def look(progress: Progress) -> None:
        if progress.phase == "search" and progress.done == 3:
            jobs.keep(store, folder.id)
        if progress.phase == "evaluate":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_on(folder, look, session)
    folder = RunFolder(folder.path)
    folder.reopen()
    run = carry_on(folder, session=session)
    other, _ = stopped(store, queued(world, store), session, after=3)
    assert (run.record.stopped, run.region().sha256()) == ("3 of 6", other.region().sha256())


def test_a_search_that_ends_by_itself_is_whole(world: Path, store: Store, session: Session) -> None:
    run, _ = stopped(store, queued(world, store), session, after=6)
    assert (run.record.stopped, run.record.key, run.record.size) == ("", run.spec.key(), 222)


def test_a_stop_that_came_too_late_is_forgotten_by_a_resume(world: Path, store: Store, session: Session) -> None:
    folder = queued(world, store)
    folder.start()
    folder.ask_to_keep()
    folder.fail(Failure(kind="bug", message="m", hint="h"))
    folder = RunFolder(folder.path)
    folder.reopen()
    assert folder.keep_request is None and carry_on(folder, session=session).record.stopped == ""


def test_a_study_does_not_take_a_stopped_run(
    world: Path, store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = stopped(store, queued(world, store), session, after=2)
    monkeypatch.setattr(production, "produce", lambda *given: run)
    workshop = Mock(store=store, report=None, session=session)
    refuses(StoreError, "ended the search", RunArtifact(run.spec).make, workshop, "cpu")


@pytest.mark.parametrize("content", ["{", "[]", '{"step": 1}', '{"layers": {}, "step": 1, "target": 2, "total": 3}'])
def test_a_map_that_is_none_is_passed_over(world: Path, store: Store, content: str) -> None:
    folder = queued(world, store)
    (folder.work / GROWING).write_text(content)
    assert jobs.growing(store, folder.id) is None


def test_a_run_without_a_running_search_cannot_be_ended_so(world: Path, store: Store, session: Session) -> None:
    folder = queued(world, store)
    refuses(StoreError, "queued", jobs.keep, store, folder.id)
    folder.start()
    folder.event(phase="search")
    refuses(StoreError, "no region to keep", jobs.keep, store, folder.id)
    carry_on(folder, session=session)
    refuses(StoreError, "finished", jobs.keep, store, folder.id)
    assert jobs.growing(store, folder.id) is None


def test_maps_take_at_most_their_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "SHARE", 0.02)
    table = ParameterTable((Parameter("a.query.weight", (2, 3), 0, "query", False),), "bert", True)
    step = SearchStep(3, 1, 1, LocalizerStep(1, 0.5, 3, 3, 0, 9, region=lambda: np.arange(3)))
    teller, written = growing.Growing(tmp_path, table), tmp_path / GROWING
    seconds = iter([100.0, 100.5, 101.0, 124.9, 125.1, 125.2])
    monkeypatch.setattr(growing, "time", Mock(monotonic=lambda: next(seconds)))
    for is_new in (True, False, False, True):  # the first map takes 0.5 s, so the next is due 25 s after its begin
        written.unlink(missing_ok=True)
        teller.tell(step)
        assert written.exists() == is_new

"""Tests of the benchmarks: their arithmetic, bare passes, memory in lean mode, and stored results in README.md."""

import importlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import memory, speed
from benchmarks.__main__ import main
from benchmarks.frame import README as README_FILE
from benchmarks.frame import RESULTS, Rows, measure, verdict
from benchmarks.speed import SECTIONS, SHORT, STEP_TARGET, Row, Section, Subject
from docs.research import minilm
from skillviz.core.localizers.table import DEFAULT_LOCALIZER, LOCALIZERS
from tests.core.problems import difference_gradients
from tests.scripts import ROOT

README = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


def told(lines: list[str]) -> bool:
    return "\n".join(lines) in README


@pytest.mark.nightly
def test_the_tables_of_minilm_are_those_of_the_stored_runs() -> None:
    page = minilm.PAGE.read_text(encoding="utf-8")
    assert all("\n".join(lines) in page for lines in minilm.tables(ROOT / "cached_runs").values())


@pytest.fixture(scope="module")
def page_speed() -> ModuleType:
    pytest.importorskip("playwright.sync_api")
    return importlib.import_module("benchmarks.page_speed")


def test_the_stored_page_speed_is_told_as_it_is(page_speed: ModuleType) -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "page_speed.json").read_text())
    rows = {row["what"]: row for row in result["rows"]}
    later, measured = rows[page_speed.LATER], {what[10:] for what in rows if what.startswith("switch to ")}
    assert set() < measured <= set(page_speed.PAGES), "a page of the result is gone; measure again"
    assert result["runs"] >= 20 and later["n"] >= 3 * len(measured)
    assert later["times_bare"] <= page_speed.SWITCH == later["target"]
    assert told(page_speed.table(result)), "README.md shows another result"


def test_percentiles_and_multiples_of_the_bare_app(page_speed: ModuleType) -> None:
    row = page_speed.row_of("switch to runs", [0.1, 0.2, 0.3, 0.4, 0.5], 0.1)
    assert (row, [verdict(row["times_bare"], target) for target in (3.0, 2.9)]) == (
        {"what": "switch to runs", "n": 5, "median": 0.3, "p95": 0.48, "times_bare": 3.0, "target": None},
        ["3, met", "2.9, missed"],
    )


@pytest.fixture(scope="module")
def visitors() -> ModuleType:
    pytest.importorskip("playwright.async_api")
    return importlib.import_module("benchmarks.visitors")


def test_the_stored_visitors_are_told_as_they_are(visitors: ModuleType) -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "visitors.json").read_text())
    assert told(visitors.table(result)), "README.md shows another result"
    assert [row["errors"] for row in (*result["busy"], *result["class"]["rows"])] == [[]] * 5


def test_the_stored_class_is_told_as_it_is_and_follows_within_two_seconds() -> None:
    pytest.importorskip("playwright.async_api")
    classroom = importlib.import_module("benchmarks.classroom")
    result = json.loads((ROOT / "benchmarks" / "results" / "classroom.json").read_text())
    assert told(classroom.table(result)), "README.md shows another result"
    assert (result["students"], result["errors"]) == (40, []) and result["rows"][0]["p95"] <= classroom.FOLLOWS


def test_the_slope_of_memory_is_that_of_the_second_half(visitors: ModuleType) -> None:
    full = [(float(second), 2**20 * (100 + 10 * min(second, 60))) for second in range(121)]  # grows, then constant
    grows = [(second, size + 2**20 * second / 12) for second, size in full]
    assert ([visitors.slope(one) for one in (full, grows, full[:10])], visitors.said(None, 1)) == (
        [0, 5.0, None],
        "not measured",
    )


@pytest.mark.nightly
@pytest.mark.e2e
def test_a_visitor_gets_pages_and_notes_their_errors(visitors: ModuleType, tmp_path: Path) -> None:
    with visitors.bare_app() as app, ThreadPoolExecutor(1) as apart:  # outside Playwright's loop
        (app / "pages" / "two.py").write_text("raise ValueError('planted')")
        with visitors.Server(app, tmp_path) as server:
            good = apart.submit(visitors.of_turn, server, ["zero", "one"], [""], 1).result()
            bad = apart.submit(visitors.of_turn, server, ["two"], [""], 1).result()
    assert len(good["seconds"]) >= visitors.BUSY and good["errors"] == [] and good["processor"] > 0
    assert len(bad["errors"]) == len(bad["seconds"]) and "planted" in bad["errors"][0]


def test_rows_are_kept_as_they_are_made_in_the_order_of_the_cells(tmp_path: Path) -> None:
    table, said, made = tmp_path / "rows.csv", list[str](), list[str]()

    def cell(name: str, value: float) -> tuple[dict[str, object], Callable[[], list[dict[str, object]]]]:
        key = {"name": name, "share": value}
        return key, lambda: made.append(name) or [{**key, "part": part, "found": 1 / 3} for part in "ab"]

    def measured(*cells: object) -> pd.DataFrame:
        return measure(Rows(table, ["name", "share"]), list(cells), said.append)

    one, two = cell("one", 0.1), cell("two", float("nan"))
    measured(two)
    before = table.read_text().splitlines()[1:]
    assert list(measured(one, two, one)["name"]) == ["one", "one", "two", "two"] and made == ["two", "one"]
    assert table.read_text().splitlines()[3:] == before, "kept rows stay byte for byte the same"
    stamp = table.stat().st_mtime_ns
    measured(one, two, one)
    assert table.stat().st_mtime_ns == stamp and said == ["rows.csv: 1 of 1 cells, about 0 min left"] * 2


STORED = speed.stored(speed.STORED["cpu"])


def test_a_ratio_is_a_median_within_turns() -> None:
    plain = np.array([1.0, 2.0, 4.0, 10.0, 1.0])  # busy now and then
    row = Row.of("step / bare", plain * np.array([1.1, 1.2, 1.0, 1.1, 3.0]) / plain, 1.1)
    assert (row.median, row.low, row.high, row.turns, row.verdict) == (1.1, 1.1, 1.2, 5, "at most 1.1: met")
    assert (
        Row.of("step / bare", np.array([1.11]), 1.1).verdict,
        Row.of("loop / ours", np.array([24.0]), 25, least=True).verdict,
    ) == ("at most 1.1: missed", "at least 25: missed")
    assert (
        Row.of("loop / ours", np.array([25.0]), 25, least=True).verdict,
        Row.of("loop / ours", np.array([25.0])).verdict,
    ) == ("at least 25: met", "")


def test_turns_take_all_work_and_begin_with_another_piece_each(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    work = {name: lambda name=name: done.append(name) for name in "abc"}
    monkeypatch.setattr(speed, "seconds_of", lambda call: call() or float(len(done)))
    taken = speed.in_turns(work, 3)
    assert "".join(done) == "abcbcacab"
    assert {name: values.tolist() for name, values in taken.items()} == {
        "a": [1.0, 6.0, 8.0], "b": [2.0, 4.0, 9.0], "c": [3.0, 5.0, 7.0],
    }  # fmt: skip


def test_the_lengths_are_those_of_sentences() -> None:
    encoded = speed.sentences(2000, 30_522)
    assert encoded.lengths.min() >= 4 and encoded.lengths.max() <= 64 and 18 < encoded.lengths.mean() < 28


def test_bare_passes_do_the_same_work() -> None:
    """They give exactly the gradient of a step at the base, so the comparison is fair."""
    of = Subject.of("tiny", "cpu")
    problem, plain = of.problem(of.train.take(np.arange(6))), of.plain()
    speed.bare_pass(problem.train, plain)()
    problem.train.backward()
    named = dict(plain.named_parameters())

    def gradient() -> torch.Tensor:
        return problem.flat.gather({name: named[name].grad for name in problem.table.names})

    torch.testing.assert_close(problem.flat.grad, gradient(), rtol=1e-5, atol=1e-7)
    assert all(p.grad is None for n, p in named.items() if n not in problem.table.names)
    singles = of.problem(of.train.take(np.arange(speed.SINGLE)))
    assert len(list(speed.bare_singles(singles.train, plain, np.arange(speed.SINGLE)))) == 1
    _, gradients = difference_gradients(singles.train, np.array([speed.SINGLE - 1]))
    torch.testing.assert_close(gradients[0, 0], gradient(), rtol=1e-5, atol=1e-7)


def test_every_search_with_gradients_is_measured() -> None:
    names = speed.with_gradients()
    assert names[:2] == (DEFAULT_LOCALIZER, "learned") and set(names) <= set(LOCALIZERS)
    assert not {"movement", "random", "biases", "layers"} & set(names) and {"fisher", "lottery"} < set(names)


def test_every_device_has_its_table(tmp_path: Path) -> None:
    rows = [Row("step / bare", 1.05, 1.0, 1.2, 5, 1.1), Row("loop / ours", 41.23, 40.0, 42.0, 3)]
    there = {"device": "CPU", "cpu": "One", "cores": 2, "torch": "2", "load": 0.0}
    for folder, section in ((tmp_path / "cpu", "steps-encoder-6"), (tmp_path / "gpu", "sweeps")):
        folder.mkdir()
        (folder / f"{section}.json").write_text(json.dumps(asdict(Section("Steps", "BERT.", rows, machine=there))))
    lines = speed.tables({"cpu": tmp_path / "cpu", "cuda": tmp_path / "gpu"})
    assert [line for line in lines if line.startswith("#")] == ["### On a CPU", "### On a GPU"]
    assert (
        lines.count("| step / bare | 1.050 | 1.000–1.200 | 5 | at most 1.1: met |"),
        lines.count("| loop / ours | 41.2 | 40.0–42.0 | 3 |  |"),
    ) == (2, 2)
    assert lines[-1] == "- Steps: BERT. One, one of 2 cores, torch 2, load 0.0 at the start."


def test_the_stored_results_are_told_as_they_are() -> None:
    assert "\n".join(speed.tables()) in README_FILE.read_text(), "README.md shows another result"
    steps = {row.what.split()[2]: row for row in STORED[0].rows}
    assert set(steps) == set(speed.with_gradients())
    assert all(row.turns >= 5 and row.target == STEP_TARGET for row in steps.values())
    assert all(steps[name].median <= 1.25 for name in ("stagewise", "frank-wolfe", "learned"))


@pytest.mark.nightly
def test_the_short_form_prints_every_section(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["speed", "--short"])
    output = capsys.readouterr().out
    assert not ended.value.code, output
    for name in speed.with_gradients():
        assert f"| step of {name} / bare forward and backward |" in output
    titles = ("Beside the published loop", "Sweeps")
    assert all(f"| **{title}" in output for title in titles) and len(SHORT) == 3 <= len(SECTIONS)


@pytest.mark.bench
def test_a_step_costs_little_more_than_its_gradient() -> None:
    """A small case (two layers, 32 sentences); the fixed costs weigh more here than in the stored result."""
    for row in speed.steps("encoder-2", 32, 7, "cpu").rows:
        if row.what.split()[2] in ("stagewise", "frank-wolfe", "learned"):
            assert row.median <= 1.25, row


GIB, BOUND = 2**30, 1.35


def rows(shape: str, *names: str, ordinary: bool = False) -> dict[tuple[str, str], float]:
    """Return (localizer, mode) -> the peak without activations, divided by the model's bytes."""
    found = list(memory.rows_of(memory.SHAPES[shape], names, ordinary))
    assert found[0].what == memory.BARE
    return {(row.what, row.mode): row.over_model(found[0]) for row in found[1:]}


@pytest.mark.nightly
def test_a_small_model_stays_within_the_bound() -> None:
    found = rows("11M", "stagewise", "movement", ordinary=True)
    assert found["stagewise", "lean"] <= BOUND and found["movement", "lean"] <= BOUND
    assert found["stagewise", "ordinary"] > 4  # the measurement shows the saving of lean mode


@pytest.mark.nightly
@pytest.mark.parametrize("shape", ["134M", "1100M"])
def test_a_large_model_stays_within_the_bound(shape: str) -> None:
    found = rows(shape, "stagewise", "frank-wolfe", "first-order", "movement")
    assert max(found.values()) <= BOUND, found


def test_the_stored_result_is_within_the_bound() -> None:
    stored = memory.stored(RESULTS)
    bares = {row.shape: row for row in stored if row.what == memory.BARE}
    lean = [row for row in stored if row.mode != "ordinary" and row.what not in (memory.BARE, "random")]
    assert max(row.over_model(bares[row.shape]) for row in lean) <= BOUND
    assert max(row.peak for row in stored if row.mode != memory.ON_GPU) <= 10 * GIB
    assert "\n".join(memory.table(stored)) in memory.PAGE.read_text() and "extrapolated" in memory.table(stored)[-1]


@pytest.mark.gpu
@pytest.mark.nightly
def test_seven_billion_parameters_fit_24_gb() -> None:
    """Use a Llama of 7 B in bfloat16 with random weights, on a GPU limited to 24 GB."""
    bare, search = memory.rows_of(memory.SEVEN, ["stagewise"], False, memory.ON_GPU)
    assert search.parameters > 6.4e9 and max(bare.peak, search.peak) <= memory.GPU_LIMIT
    assert search.over_model(bare) <= BOUND

"""The benchmark of a step's cost: its arithmetic in the plain run, its measurement where `bench` is asked for."""

from __future__ import annotations

import importlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from tests.scripts import ROOT, script


@pytest.fixture(scope="module")
def step_cost() -> ModuleType:
    """benchmarks/step_cost.py as a module: the folder is no package."""
    return script("benchmarks/step_cost.py")


def test_the_ratio_is_a_median_within_turns(step_cost: ModuleType) -> None:
    plain = np.array([[1.0, 2.0], [2.0, 2.0], [4.0, 2.0], [10.0, 2.0], [1.0, 2.0]])  # busy now and then
    factors = np.array([[1.1, 1.0], [1.2, 1.1], [1.0, 1.2], [1.1, 1.3], [3.0, 1.4]])
    row = step_cost.row_of("stagewise", plain * factors, plain)
    assert (row["ratio"], row["ratio_quartiles"], row["repetitions"]) == (1.1, [1.1, 1.2], 5)
    assert (row["processor_ratio"], row["processor_ratio_quartiles"]) == (1.2, [1.1, 1.3])


def test_the_lengths_are_those_of_sentences(step_cost: ModuleType) -> None:
    encoded = step_cost.sentences(2000, 30_522)
    assert encoded.lengths.min() >= 4 and encoded.lengths.max() <= 64
    assert 18 < encoded.lengths.mean() < 28


def test_the_bare_pass_does_the_same_work(step_cost: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives the very gradient of a step at the base: nothing less is compared with it."""
    monkeypatch.delenv("SKILLVIZ_REAL", raising=False)
    model, untouched = (_small(step_cost) for _ in range(2))
    problem = step_cost.problem_of(model, step_cost.sentences(6, 2000))
    step_cost.bare_pass(problem, untouched)()
    problem.train.backward()
    named = dict(untouched.named_parameters())
    wanted = problem.flat.gather({name: named[name].grad for name in problem.table.names})
    torch.testing.assert_close(problem.flat.grad, wanted, rtol=1e-5, atol=1e-7)
    assert all(p.grad is None for n, p in named.items() if n not in problem.table.names)


def _small(step_cost: ModuleType) -> torch.nn.Module:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 2}
    config = step_cost.AutoConfig.for_model("bert", vocab_size=2000, num_labels=2, **sizes)
    return step_cost.AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)


def test_the_stored_result_is_within_the_target(step_cost: ModuleType) -> None:
    stored = ROOT / "benchmarks" / "results" / "step_cost.json"
    if not stored.is_file():
        pytest.skip("no stored result; `python benchmarks/step_cost.py` makes one")
    result = json.loads(stored.read_text())
    assert [row["localizer"] for row in result["rows"]] == list(step_cost.LOCALIZERS)
    assert all(row["ratio"] <= step_cost.TARGET and row["repetitions"] >= 5 for row in result["rows"])
    assert result["d"] == 10_646_784 and result["batch"] == 128
    assert step_cost.table(result) in (ROOT / "benchmarks" / "README.md").read_text(), "README.md shows another result"


def test_the_result_is_written_between_its_marks(
    step_cost: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = np.ones((5, 2))
    machine = {"cpu": "a processor", "cores": 2, "threads": 1, "torch": "2", "load": 0.1}
    rows = [step_cost.row_of(name, 1.1 * times, times) for name in step_cost.LOCALIZERS]
    result = {"model": "BERT", "d": 10, "size": 1, "batch": 4, "machine": machine, "rows": rows}
    monkeypatch.setattr(step_cost, "run", lambda *_: result)
    monkeypatch.setattr("sys.argv", ["step_cost.py", "--out", str(tmp_path)])
    readme = tmp_path / "README.md"
    begin, end = "<!-- step cost: written by benchmarks/step_cost.py -->", "<!-- end of step cost -->"
    readme.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    step_cost.main()
    step_cost.main()
    written = readme.read_text()
    assert written == f"before\n{begin}\n{step_cost.table(result)}{end}\nafter\n"
    assert "| stagewise | 1.100 (1.100 to 1.100) |" in written
    assert json.loads((tmp_path / "results" / "step_cost.json").read_text()) == result


@pytest.mark.bench
def test_a_step_costs_little_more_than_its_gradient(step_cost: ModuleType) -> None:
    """Small: two layers, 32 sentences; the fixed costs weigh more here than in the stored result."""
    result = step_cost.run(batch=32, repetitions=7, layers=2)
    for row in result["rows"]:
        assert row["ratio"] <= step_cost.TARGET, step_cost.table(result)


@pytest.fixture(scope="module")
def report() -> ModuleType:
    """benchmarks/report.py as a module."""
    return script("benchmarks/report.py")


def test_the_constants_are_told_best_first(report: ModuleType) -> None:
    row = {
        "finetuned": "m",
        "size": 10,
        "seed": 0,
        "localizer": "stagewise",
        "accuracy": 80.0,
        "ece": 5.0,
        "seconds": 9,
    }
    worse, better = {**row, "options": {"steps": 25}, "nll": 0.5}, {**row, "options": {}, "nll": 0.4}
    lines = report.constants([worse, better]).splitlines()
    assert lines[2:] == [
        "| m | 10 | stagewise | as shipped | 80.0 | 0.400 | 5.0 | 9 |",
        "| m | 10 | stagewise | steps 25 | 80.0 | 0.500 | 5.0 | 9 |",
    ]


@pytest.mark.slow
def test_the_tables_of_minilm_and_the_constants_are_those_of_the_stored_runs(report: ModuleType) -> None:
    store, studies = report.Store(ROOT / "cached_runs"), ROOT / "benchmarks/studies"
    page = report.PAGE.read_text()
    assert report.text(report.runs_of(studies / "minilm-sst2.yaml", store)) in page
    assert report.others(report.runs_of(studies / "minilm-sst2-others.yaml", store)) in page
    assert report.constants(json.loads(report.CONSTANTS.read_text())) in report.OWN.read_text()


@pytest.fixture(scope="module")
def page_speed() -> ModuleType:
    """benchmarks/page_speed.py as a module."""
    pytest.importorskip("playwright.sync_api")
    return script("benchmarks/page_speed.py")


def test_the_stored_page_speed_is_told_as_it_is(page_speed: ModuleType) -> None:
    stored = ROOT / "benchmarks" / "results" / "page_speed.json"
    result = json.loads(stored.read_text())
    rows = {row["what"]: row for row in result["rows"]}
    measured = [what.removeprefix("switch to ") for what in rows if what.startswith("switch to ")]
    assert measured and set(measured) <= set(page_speed.PAGES), "a page of the result is gone; measure again"
    assert result["runs"] >= 20 and rows[page_speed.LATER]["n"] >= 3 * len(measured)
    assert rows[page_speed.LATER]["times_bare"] <= page_speed.SWITCH == rows[page_speed.LATER]["target"]
    assert page_speed.table(result) in (ROOT / "benchmarks" / "README.md").read_text(), "README.md shows another result"


def test_percentiles_and_multiples_of_the_bare_app(page_speed: ModuleType) -> None:
    row = page_speed.row_of("switch to runs", [0.1, 0.2, 0.3, 0.4, 0.5], 0.1)
    assert row == {"what": "switch to runs", "n": 5, "median": 0.3, "p95": 0.48, "times_bare": 3.0, "target": None}
    assert page_speed.said(row) == ""
    assert [page_speed.said(row | {"target": target}) for target in (3.0, 2.9)] == ["3, met", "2.9, missed"]


@pytest.fixture(scope="module")
def visitors() -> ModuleType:
    """benchmarks/visitors.py as a module."""
    pytest.importorskip("playwright.async_api")
    return importlib.import_module("benchmarks.visitors")


def test_the_stored_visitors_are_told_as_they_are(visitors: ModuleType) -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "visitors.json").read_text())
    assert visitors.table(result) in (ROOT / "benchmarks" / "README.md").read_text(), "README.md shows another result"
    assert [row["errors"] for row in (*result["busy"], *result["class"]["rows"])] == [[]] * 5


def test_the_slope_of_memory_is_that_of_the_second_half(visitors: ModuleType) -> None:
    full = [(float(second), 2**20 * (100 + 10 * min(second, 60))) for second in range(121)]  # fills, then stands
    assert visitors.slope(full) == 0
    assert visitors.slope([(second, size + 2**20 * second / 12) for second, size in full]) == 5.0
    assert visitors.slope(full[:10]) is None and visitors.said(None, 1) == "not measured"


@pytest.mark.e2e
def test_a_visitor_gets_pages_and_notes_their_errors(visitors: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    for name, text in visitors.BARE.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pages" / "two.py").write_text("raise ValueError('planted')")
    with visitors.Server(tmp_path, tmp_path) as server, ThreadPoolExecutor(1) as apart:  # from a loop of Playwright's
        good = apart.submit(visitors.of_turn, server, ["zero", "one"], [""], 1).result()
        bad = apart.submit(visitors.of_turn, server, ["two"], [""], 1).result()
    assert len(good["seconds"]) >= visitors.BUSY and good["errors"] == [] and good["processor"] > 0
    assert len(bad["errors"]) == len(bad["seconds"]) and "planted" in bad["errors"][0]

"""Tests of `python -m benchmarks`: its arithmetic, its bare passes, and that README.md shows the stored results."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import speed
from benchmarks.__main__ import main
from benchmarks.frame import README
from benchmarks.speed import SECTIONS, SHORT, STEP_TARGET, Row, Section, Subject
from skillviz.core.localizers.table import DEFAULT_LOCALIZER, LOCALIZERS
from tests.core.problems import difference_gradients

STORED = speed.stored(speed.STORED["cpu"])


def test_a_ratio_is_a_median_within_turns() -> None:
    plain = np.array([1.0, 2.0, 4.0, 10.0, 1.0])  # busy now and then
    row = Row.of("step / bare", plain * np.array([1.1, 1.2, 1.0, 1.1, 3.0]) / plain, 1.1)
    assert (row.median, row.low, row.high, row.turns) == (1.1, 1.1, 1.2, 5)
    assert row.verdict == "at most 1.1: met"
    assert Row.of("step / bare", np.array([1.11]), 1.1).verdict == "at most 1.1: missed"
    assert Row.of("loop / ours", np.array([24.0]), 25, least=True).verdict == "at least 25: missed"
    assert Row.of("loop / ours", np.array([25.0]), 25, least=True).verdict == "at least 25: met"
    assert Row.of("loop / ours", np.array([25.0])).verdict == ""


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
    assert encoded.lengths.min() >= 4 and encoded.lengths.max() <= 64
    assert 18 < encoded.lengths.mean() < 28


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
        one = asdict(Section("Steps", "BERT.", rows, machine=there))
        (folder / f"{section}.json").write_text(json.dumps(one))
    results = {"cpu": tmp_path / "cpu", "cuda": tmp_path / "gpu"}
    lines = speed.tables(results)
    assert [line for line in lines if line.startswith("#")] == ["### On a CPU", "### On a GPU"]
    assert lines.count("| step / bare | 1.050 | 1.000–1.200 | 5 | at most 1.1: met |") == 2
    assert lines.count("| loop / ours | 41.2 | 40.0–42.0 | 3 |  |") == 2
    assert lines[-1] == "- Steps: BERT. One, one of 2 cores, torch 2, load 0.0 at the start."


def test_the_stored_results_are_told_as_they_are() -> None:
    assert "\n".join(speed.tables()) in README.read_text(), "README.md shows another result"
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
    section = speed.steps("encoder-2", 32, 7, "cpu")
    for row in section.rows:
        if row.what.split()[2] in ("stagewise", "frank-wolfe", "learned"):
            assert row.median <= 1.25, row

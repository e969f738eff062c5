"""Tests of the localizer benchmark: a balanced plan, a run that resumes, and the right verdicts on planted answers."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from benchmarks import localizer as benchmark
from benchmarks import localizer_figure as figure
from benchmarks import localizer_report as report
from benchmarks.localizer import KEY, LABELS, Cell, Method, Opened, Pair, Stored, measured, plan, run
from skillviz.core.localizers.table import LOCALIZERS, Workload, localizer
from tests.core.problems import examples, learnable_problem

QUICK = {
    "judged": Method("stagewise-judged", {"steps": 4, "batch_size": 8, "judged": 2}),
    "nested": Method("stagewise-nested", {"steps": 2, "batch_size": 8, "judged": 1}),
    "learned": Method("learned-ranked", {"steps": 2, "batch_size": 8}),
    "movement": Method("movement"),
}


@pytest.mark.nightly
def test_the_plan_is_balanced_at_every_round() -> None:
    everything = plan()
    assert len({cell.key for cell in everything}) == len(everything)
    for rounds in range(1, 10):
        cells = [c for c in plan(rounds) if not c.pair.is_early and c.method == "judged" and c.size == "1%"]
        assert Counter(c.pair.task for c in cells) == dict.fromkeys(benchmark.TASKS, rounds)
    seeds = {(c.pair.seed, c.mask_seed) for c in everything if c.method == "judged"}
    assert seeds == {(i, j) for i in range(3) for j in range(3)} == set(benchmark.ROUNDS)
    assert {c.mask_seed for c in everything if c.method == "movement"} == {0}, "its region has no seed"
    assert {c.pair.task for c in everything if c.pair.is_early} == set(benchmark.EARLY)
    assert not {*benchmark.TASKS} & {*benchmark.DEVELOPMENT}
    assert [c.key for c in plan(2)] == [c.key for c in everything if c in plan(2)]


def test_a_plan_cut_after_any_block_compares_all_tasks_alike() -> None:
    cells = [cell for cell in plan(1) if cell.size != "10%" and cell.method != benchmark.AS_PUBLISHED]
    pairs = [Pair(task, False, 0) for task in benchmark.TASKS]
    of = [[(c.size, c.method) for c in cells if c.pair == pair] for pair in pairs]
    assert all(regions == of[0] for regions in of)
    last = {pair: [c.pair for c in cells if c.size == "0.1%"].index(pair) for pair in pairs}
    assert list(last) == pairs and of[0][3:6] == [("0.1%", name) for name in ("judged", "learned", "judged, a quarter")]
    block = len(of[0][:6])
    assert {c.pair for c in cells[: block * len(pairs)]} == set(pairs), "another block begins before all tasks have one"
    everything = plan()
    published = [c for c in everything if c.method == benchmark.AS_PUBLISHED]
    assert everything[-len(published) :] == published, "what takes longest comes last"
    opened = [(c.pair, c.mask_seed) for c in everything if c.method == "nested"]
    assert len({*opened}) == sum(one != before for before, one in zip([None, *opened], opened, strict=False)), (
        "all sizes of a nested search follow each other, so that it is done once"
    )


def test_the_budgets_are_those_of_the_goals() -> None:
    work = Workload(10_000, 2, 6000, 600, 100)
    spent = {
        name: localizer(m.localizer).cost(localizer(m.localizer).make_options(m.options), work).backward
        for name, m in benchmark.METHODS.items()
    }
    assert spent["judged"] <= spent["learned"] / 2 and spent["judged, a quarter"] <= spent["learned"] / 4
    assert spent["learned"] == 100 * 128 and spent["learned, as published"] == 100 * 1024


def opened(_: Pair) -> Opened:
    problem = learnable_problem(steps=10, n=32)
    assert problem.selection is not None
    return Opened(problem, problem.selection, 2)


def cells() -> list[Cell]:
    pairs = [Pair("cr", False, 0), Pair("mr", False, 0)]
    return [Cell(pair, 0, size, method) for pair in pairs for size in ("0.1%", "1%") for method in QUICK]


@pytest.mark.slow
def test_a_run_resumes_where_it_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "METHODS", QUICK)
    said: list[str] = []
    run(cells(), Stored(tmp_path / "whole"), opened, said.append)
    whole = Stored(tmp_path / "whole").rows
    assert said[0] == "0 of 16 regions are there." and said[-1].startswith("16 of 16: mr-full-s0")

    def cut(cell: Cell, ready: Opened) -> tuple[dict[str, object], np.ndarray]:
        if cell == cells()[11]:
            raise KeyboardInterrupt
        return measured(cell, ready)

    monkeypatch.setattr(benchmark, "measured", cut)
    with pytest.raises(KeyboardInterrupt):
        run(cells(), Stored(tmp_path / "cut"), opened, said.append)
    monkeypatch.setattr(benchmark, "measured", measured)
    kept = Stored(tmp_path / "cut").rows
    run(cells(), Stored(tmp_path / "cut"), opened, said.append)
    again = Stored(tmp_path / "cut").rows
    frames = [pd.DataFrame(rows).drop(columns="seconds") for rows in (whole, again, kept)]
    pd.testing.assert_frame_equal(frames[0], frames[1])
    pd.testing.assert_frame_equal(frames[1].iloc[: len(kept)], frames[2])
    table = pd.read_csv(tmp_path / "cut" / "localizer.csv")
    assert list(table["method"]) == [row["method"] for row in again] and "predicted" not in table
    assert Counter(row["method"] for row in again) == Counter([*QUICK, *QUICK, "base", "fine-tuned", LABELS] * 2)
    nested = {row["size"]: row["gradients"] for row in again if row["method"] == "nested"}
    assert nested["0.1%"] == nested["1%"] == 8 * 2 * 5, "one search of five rungs answers both sizes"
    tuned = next(row for row in again if row["method"] == "fine-tuned")
    right = np.frombuffer(tuned["predicted"], np.uint8) == examples(n=32, seed=100).labels
    assert tuned["accuracy"] == pytest.approx(100 * right.mean())


def test_the_development_makes_what_is_missing_and_keeps_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "SETTINGS", {name: QUICK[name] for name in ("movement", "judged")})
    monkeypatch.setattr(benchmark, "DEVELOPMENT", ("sst2_sentences", "mrpc"))
    monkeypatch.setattr(benchmark, "METHODS", QUICK)
    monkeypatch.setattr(benchmark, "SIZES", ("0.1%", "1%"))
    table = tmp_path / "development.csv"
    table.write_text(
        "task,is_early,setting,size,mask_seed,accuracy,nll,chosen\nmrpc,False,an older setting,1%,0,80.0,0.5000,7\n"
    )
    benchmark.develop(table, opened, str)
    rows = pd.read_csv(table, dtype=str, keep_default_na=False)
    assert list(rows.iloc[0]) == ["mrpc", "False", "an older setting", "1%", "0", "80.0", "0.5000", "7"]
    made = [("base", ""), ("fine-tuned", ""), ("movement", "0.1%"), ("movement", "1%"), ("judged", "1%")]
    assert [tuple(row) for row in rows.loc[1:, ["task", "setting", "size"]].to_numpy()] == [
        (task, *one) for task in ("sst2_sentences", "mrpc") for one in made
    ]
    whole = table.read_bytes()

    def refused(pair: Pair) -> Opened:
        raise AssertionError(f"{pair} was opened, though nothing is missing")

    benchmark.develop(table, refused, str)
    assert table.read_bytes() == whole
    rows.iloc[:-1].to_csv(table, index=False)
    benchmark.develop(table, opened, str)
    assert table.read_bytes() == whole, "the missing row is made as before"


@pytest.mark.nightly
def test_rows_of_another_folder_are_taken_over_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "METHODS", QUICK)
    run(cells()[:3], Stored(tmp_path / "here"), opened, str)
    run(cells()[:10], Stored(tmp_path / "there"), opened, str)

    def held(folder: str) -> list[tuple[object, ...]]:
        return [(*(row[name] for name in KEY), row["predicted"]) for row in Stored(tmp_path / folder).rows]

    before, whole = held("here"), held("there")
    assert Stored(tmp_path / "here").merge(Stored(tmp_path / "there")) == len(whole) - len(before) == 10
    merged = Stored(tmp_path / "here").rows
    assert held("here")[: len(before)] == before and {*held("here")} == {*whole}
    stamp = (tmp_path / "here" / "localizer.csv").stat().st_mtime_ns
    assert Stored(tmp_path / "here").merge(Stored(tmp_path / "there")) == 0
    assert (tmp_path / "here" / "localizer.csv").stat().st_mtime_ns == stamp
    shown = report.in_order(pd.DataFrame(merged[::-1]))
    assert [*zip(shown["task"], shown["size"], strict=True)] == sorted(
        zip(shown["task"], shown["size"], strict=True), key=lambda one: (one[0], ("", "0.1%", "1%").index(one[1]))
    )


def test_another_model_than_that_of_the_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "METHODS", QUICK)
    few = [cell for cell in cells() if cell.method == "movement"][:2]
    run(few[:1], Stored(tmp_path), opened, str)
    stored = Stored(tmp_path)
    tuned = next(row for row in stored.rows if row["method"] == "fine-tuned")
    tuned["predicted"] = bytes(1 - answer for answer in tuned["predicted"])
    with pytest.raises(ValueError, match="cr-full-s0 answers the test differently"):
        run(few, stored, opened, str)


@pytest.mark.nightly
def test_processes_make_the_same_rows_and_a_time_limit_leaves_the_rest(tmp_path: Path) -> None:
    few = [cell for cell in cells() if cell.method == "movement"]
    run(few, Stored(tmp_path / "one"), opened, str)
    said: list[str] = []
    benchmark.run_in_processes(few, tmp_path / "two", opened, 2, minutes=0, say=said.append)
    assert said[-1] == "0 of 4 regions are there; processes that failed: 0."
    benchmark.run_in_processes(few, tmp_path / "two", opened, 2, say=said.append)
    assert said[-1] == "4 of 4 regions are there; processes that failed: 0."
    frames = [
        pd.DataFrame(Stored(tmp_path / name).rows).drop(columns="seconds").sort_values(KEY, ignore_index=True)
        for name in ("one", "two")
    ]
    pd.testing.assert_frame_equal(*frames)
    assert not (tmp_path / "two" / "parts").exists()


@pytest.mark.slow
def test_the_pictures_draw_every_pair(tmp_path: Path) -> None:
    stored = planted(tmp_path, {"judged": 5, "learned": 3, "movement": 0}).rows
    stored = stored[stored["method"] != LABELS].assign(accuracy=70.0)
    figure.draw(stored, tmp_path / "six.png")
    figure.draw(stored[stored["task"] == "cr"], tmp_path / "one.png")
    with Image.open(tmp_path / "six.png") as six, Image.open(tmp_path / "one.png") as one:
        assert six.width > 2 * one.width and six.height > 1.5 * one.height


def planted(folder: Path, gains: dict[str, float], tasks: tuple[str, ...] = benchmark.TASKS) -> report.Answers:
    """Make regions of every method with an accuracy of 70% plus its gain in points, on 1,000 examples of each pair."""
    stored, rng, rows = Stored(folder), np.random.default_rng(0), []
    for task in tasks:
        for model in range(3):
            labels = rng.integers(0, 2, 1000)
            shared = dict(zip(KEY, Cell(Pair(task, False, model), 0, "", LABELS).key, strict=True))
            rows.append({**shared, "predicted": labels.astype(np.uint8).tobytes()})
            order = rng.permutation(1000)
            for size, (method, gain), mask in (
                (s, g, m)
                for s in (*benchmark.SIZES, *(["10%"] if task in benchmark.TENTH else []))
                for g in gains.items()
                for m in range(3)
            ):
                if mask and not benchmark.METHODS[method].is_seeded:
                    continue
                predicted = labels.copy()
                predicted[order[round(10 * (70 + gain)) + mask :]] ^= 1
                key = dict(zip(KEY, Cell(Pair(task, False, model), mask, size, method).key, strict=True))
                rows.append({**key, "predicted": predicted.astype(np.uint8).tobytes()})
    stored.rows = rows
    return report.Answers(pd.DataFrame(rows))


@pytest.mark.parametrize(
    ("gains", "wanted"),
    [
        ({"judged": 5, "judged, a quarter": 3, "nested": 4.5, "learned": 3, "movement": 0}, [report.MET] * 9),
        (
            {"judged": 0, "judged, a quarter": -4, "nested": -4, "learned": 3, "movement": 6},
            [report.NOT_MET] * 6 + [report.MET, report.NOT_MET, report.NOT_MET],
        ),
        (
            {"judged": 0, "judged, a quarter": 0, "nested": 0, "learned": 0, "movement": 0},
            [report.NOT_MET] * 4 + [report.MET] * 5,
        ),
    ],
    ids=["better", "worse", "level"],
)  # fmt: skip
def test_planted_answers_decide_the_goals(tmp_path: Path, gains: dict[str, float], wanted: list[str]) -> None:
    found = report.verdicts(planted(tmp_path, gains))
    assert [row.verdict for row in found] == wanted, found
    assert [row.comparisons for row in found] == [6, 6, 6, 2, 20, 6, 20 * 3 * 3, 20 * 3 * 3, 20]
    assert len(report.goals_table(found)) == 2 + len(found)
    assert [row.planned for row in found] == [6, 6, 6, 2, 20, 8, 180, 198, 26]
    assert [row.words() for row in found if row.verdict == report.MET and row.comparisons < row.planned] == [
        "met so far" for row in (found[5], *found[7:]) if row.verdict == report.MET
    ]


def test_a_bad_seed_is_named_and_nothing_measured_is_undecided(tmp_path: Path) -> None:
    answers = planted(tmp_path, {"judged": 5, "movement": 0}, ("cr",))
    assert report.no_bad_seed(answers).verdict == report.MET
    key = ("cr", False, 1, 2, "1%", "judged")
    right = answers.right[key].copy()
    right[np.flatnonzero(right)[:60]] = False
    answers.right[key] = right
    found = report.no_bad_seed(answers)
    assert found.verdict == report.NOT_MET and len(found.reasons) == 1 and "cr 1%, model 1, seed 2" in found.reasons[0]
    assert report.level_with_a_quarter(answers).verdict == report.UNDECIDED
    assert {row.verdict for row in report.verdicts(planted(tmp_path, {"movement": 0}))} == {report.UNDECIDED}


def test_a_difference_is_paired_by_example_and_model(tmp_path: Path) -> None:
    answers = planted(tmp_path, {"judged": 5, "learned": 3}, ("cr",))
    found = answers.difference("cr", False, ("1%", "judged"), ("1%", "learned"))
    assert found is not None and found.regions == 9 and found.value == pytest.approx(2.0)
    assert 0 < found.low < 2 < found.high
    assert found.high - found.low < 3, "two samples that are not paired would have an interval of 5 points"


def test_the_page_holds_what_is_stored() -> None:
    text = report.PAGE.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in LOCALIZERS), "run: python -m benchmarks localizer --tables"
    for name, lines in report.tables(Stored(benchmark.RESULTS)).items():
        if name != "overview":
            assert "\n".join(lines) in text, name

"""Tests of the localizer benchmark: a balanced plan, a run that resumes, paired differences of planted answers; and of
the comparison of localizers beyond their nulls: its tables from rows, and the stored rows in the docs."""

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import localizer as benchmark
from benchmarks import localizer_beyond as beyond
from benchmarks import localizer_report as report
from benchmarks.frame import RESULTS
from benchmarks.localizer import KEY, LABELS, Cell, Method, Opened, Pair, measured, plan, rows_in, run
from skillviz.core.localizers.table import LOCALIZERS, Workload, has_null, localizer
from skillviz.models.examples import example_pairs
from tests.core.problems import examples, learnable_problem
from tests.refused import refuses

QUICK = {
    "judged": Method("stagewise-judged", {"steps": 4, "batch_size": 8, "judged": 2}),
    "nested": Method("stagewise-nested", {"steps": 2, "batch_size": 8, "judged": 1}),
    "learned": Method("learned-ranked", {"steps": 2, "batch_size": 8}),
    "movement": Method("movement"),
}


@pytest.mark.nightly
def test_the_plan_is_balanced_at_every_round() -> None:
    everything = plan()
    assert len(set(everything)) == len(everything)
    for rounds in range(1, 10):
        cells = [c for c in plan(rounds) if not c.is_early and c.method == "judged" and c.size == "1%"]
        assert Counter(c.task for c in cells) == dict.fromkeys(benchmark.TASKS, rounds)
    seeds = {(c.finetune_seed, c.mask_seed) for c in everything if c.method == "judged"}
    assert seeds == {(i, j) for i in range(3) for j in range(3)} == set(benchmark.ROUNDS)
    assert {c.mask_seed for c in everything if c.method == "movement"} == {0}, "its region has no seed"
    assert {c.task for c in everything if c.is_early} == set(benchmark.EARLY)
    assert not {*benchmark.TASKS} & {*benchmark.DEVELOPMENT}
    assert plan(2) == [c for c in everything if c in plan(2)]


def test_the_plan_opens_each_model_once_a_round_and_ends_with_what_takes_longest() -> None:
    everything = plan()
    published = [c for c in everything if c.method == benchmark.AS_PUBLISHED]
    assert everything[-len(published) :] == published
    early = [c for c in everything if c.method not in benchmark.LATER]
    opened = [(c.pair, c.mask_seed) for c in early if c.method != "movement"]
    assert len({*opened}) == sum(one != before for before, one in zip([None, *opened], opened, strict=False)), (
        "all regions of a model and mask seed follow each other, so that a nested search is done once"
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
    return Opened(problem, problem.selection, 2, "CPU")


def cells() -> list[Cell]:
    pairs = [Pair("cr", False, 0), Pair("mr", False, 0)]
    return [Cell(*pair, 0, size, method) for pair in pairs for size in ("0.1%", "1%") for method in QUICK]


@pytest.mark.nightly
def test_a_run_resumes_where_it_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "METHODS", QUICK)
    run(cells(), rows_in(tmp_path / "whole"), opened)
    whole = rows_in(tmp_path / "whole").rows

    def cut(cell: Cell, ready: Opened) -> list[dict[str, object]]:
        if cell == cells()[11]:
            raise KeyboardInterrupt
        return measured(cell, ready)

    monkeypatch.setattr(benchmark, "measured", cut)
    refuses(KeyboardInterrupt, None, run, cells(), rows_in(tmp_path / "cut"), opened)
    monkeypatch.setattr(benchmark, "measured", measured)
    kept = rows_in(tmp_path / "cut").rows
    run(cells(), rows_in(tmp_path / "cut"), opened)
    again = rows_in(tmp_path / "cut").rows
    pd.testing.assert_frame_equal(*(pd.DataFrame(rows).drop(columns="seconds") for rows in (whole, again)))
    assert {row["method"] for row in kept} <= {row["method"] for row in again} and len(kept) < len(again)
    table = pd.read_csv(tmp_path / "cut" / "localizer.csv")
    assert list(table["method"]) == [row["method"] for row in again] and "predicted" not in table
    assert Counter(row["method"] for row in again) == Counter([*QUICK, *QUICK, "base", "fine-tuned", LABELS] * 2)
    nested = {row["size"]: row["gradients"] for row in again if row["method"] == "nested"}
    assert nested["0.1%"] == nested["1%"] == 8 * 2 * 5, "one search of five rungs answers both sizes"
    tuned = next(row for row in again if row["method"] == "fine-tuned")
    assert tuned["accuracy"] == pytest.approx(
        100 * (np.frombuffer(tuned["predicted"], np.uint8) == examples(n=32, seed=100).labels).mean()
    )


def test_the_development_makes_what_is_missing_and_keeps_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SETTINGS": {name: QUICK[name] for name in ("movement", "judged")}, "METHODS": QUICK,
        "DEVELOPMENT": ("sst2_sentences", "mrpc"), "SIZES": ("0.1%", "1%"),
    }.items():  # fmt: skip
        monkeypatch.setattr(benchmark, name, value)
    table = tmp_path / "development.csv"
    table.write_text(
        "task,is_early,setting,size,mask_seed,accuracy,nll,chosen\nmrpc,False,an older setting,1%,0,80.0,0.5000,7\n"
    )
    benchmark.develop(table, opened)
    rows = pd.read_csv(table, dtype=str, keep_default_na=False)
    assert list(rows.iloc[0]) == ["mrpc", "False", "an older setting", "1%", "0", "80.0", "0.5000", "7"]
    made = [("base", ""), ("fine-tuned", ""), ("movement", "0.1%"), ("movement", "1%"), ("judged", "1%")]
    assert [tuple(row) for row in rows.loc[1:, ["task", "setting", "size"]].to_numpy()] == [
        (task, *one) for task in ("sst2_sentences", "mrpc") for one in made
    ]
    whole = table.read_bytes()

    def refused(pair: Pair) -> Opened:
        raise AssertionError(f"{pair} was opened, though nothing is missing")

    benchmark.develop(table, refused)
    assert table.read_bytes() == whole
    rows.iloc[:-1].to_csv(table, index=False)
    benchmark.develop(table, opened)
    assert table.read_bytes() == whole, "the missing row is made as before"


def test_another_model_than_that_of_the_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "METHODS", QUICK)
    few = [cell for cell in cells() if cell.method == "movement"][:2]
    run(few[:1], rows_in(tmp_path), opened)
    rows = rows_in(tmp_path)
    tuned = next(row for row in rows.rows if row["method"] == "fine-tuned")
    tuned["predicted"] = bytes(1 - answer for answer in tuned["predicted"])
    refuses(ValueError, "cr-full-s0 answers the test differently", run, few, rows, opened)


def sizes(task: str) -> tuple[str, ...]:
    """Return the sizes of a task's regions."""
    return benchmark.sizes_of(Pair(task, False, 0))


def planted_rows(gains: dict[str, float], tasks: tuple[str, ...] = benchmark.TASKS) -> pd.DataFrame:
    """Make regions of every method with an accuracy of 70% plus its gain in points, on 1,000 examples of each pair."""
    rng, rows = np.random.default_rng(0), []
    for task, model in product(tasks, range(3)):
        labels, order = rng.integers(0, 2, 1000), rng.permutation(1000)
        rows.append((Cell(task, False, model, 0, "", LABELS), labels))
        for size, (method, gain), mask in product(sizes(task), gains.items(), range(3)):
            if not mask or benchmark.METHODS[method].is_seeded:
                predicted = labels.copy()
                predicted[order[round(10 * (70 + gain)) + mask :]] ^= 1
                rows.append((Cell(task, False, model, mask, size, method), predicted))
    return pd.DataFrame([{**cell._asdict(), "predicted": own.astype(np.uint8).tobytes()} for cell, own in rows])


def test_a_difference_is_paired_by_example_and_model() -> None:
    found = report.differences(
        report.right_answers(planted_rows({"judged": 5, "learned": 3, "movement": 5})), "judged", "learned"
    )
    assert list(zip(found["task"], found["size"], strict=True)) == [
        (task, size) for task in benchmark.TASKS for size in sizes(task)
    ]
    assert found["value"].to_numpy() == pytest.approx(2.0) and (found["seeds"] == 3).all()
    assert found["low"].between(0, 2).all() and (found["high"] > 2).all()
    assert ((found["high"] - found["low"]) < 3).all(), "samples that are not paired would have an interval of 5 points"


def test_wins_losses_and_what_is_not_there_are_counted() -> None:
    lines = report.comparisons_table(report.right_answers(planted_rows({"judged": 5, "learned": 3, "movement": 9})))
    assert [line.split(" | ")[:5] for line in lines if " | 1% | " in line] == [
        ["| judged − learned", "1%", "6", "0", "0"], ["| judged − movement", "1%", "0", "6", "0"],
    ]  # fmt: skip


def test_the_page_holds_what_is_stored() -> None:
    text = report.PAGE.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in LOCALIZERS), "run: python -m benchmarks localizer --tables"
    for name, lines in report.tables(rows_in(RESULTS)).items():
        if name != "overview":
            assert "\n".join(lines) in text, name


STORED = pd.read_parquet(beyond.BY_EXAMPLE)


def row(method: str, by_example: list[float], **changes: object) -> dict[str, object]:
    found = {
        "size": "1%", "pair": "mr-sgd", "method": method, "measure": "accuracy", "examples": 4, "gain": 2.0,
        "null_gain": 1.0, "graft": 0.75, "null": 0.5, "beyond": np.mean(by_example), "low": -0.1, "high": 0.6,
        "by_example": np.array(by_example, dtype=np.float32).tobytes(),
    }  # fmt: skip
    return {**found, **changes}


def test_every_method_is_a_localizer_with_a_null_and_every_pair_ships() -> None:
    for name, options in beyond.METHODS.values():
        assert has_null(name) and localizer(name).make_options(options) is not None
    assert {*beyond.DEVELOPMENT, *beyond.TEST} <= {pair.name for pair in example_pairs() if pair.ships}
    keys = [key for key, _ in beyond.cells(None, None, None)]
    assert len({tuple(key.values()) for key in keys}) == len(keys) == 2 * (5 * len(beyond.METHODS) - 1 - 4)
    for method, pairs in beyond.OF_PAIR.items():
        assert {key["pair"] for key in keys if key["method"] == method} == {*pairs}
    assert [key["pair"] for key, _ in beyond.cells("1%", None, "first-order")][-2:] == list(beyond.TEST)


def test_methods_are_compared_example_by_example() -> None:
    head, _, *lines = beyond.compared(
        pd.DataFrame([row("top movement", [0, 0, 1, 0]), row("first-order", [1, 0, 1, 0])])
    )
    assert len(lines) == 1 and head.count("(test)") == 2
    cells = [cell.strip() for cell in lines[0].split("|")]
    assert cells[1:4] == ["1%", "accuracy", "first-order − top movement"] and cells[7].startswith("+25.0 (−")
    assert cells.count("not measured") == 4
    other = pd.DataFrame([row("top movement", [0, 0, 1, 0]), row("first-order", [1, 1, 1, 0])])
    assert beyond.compared(other) != [head, _, *lines], "another example changes the table"


def test_the_scores_of_a_pair_are_told_best_first() -> None:
    lines = beyond.scores(pd.DataFrame([row("top movement", [0, 0, 1, 0]), row("first-order", [1, 0, 1, 0])]))[2:]
    assert [line.split("|")[3].strip() for line in lines] == ["first-order", "top movement"]
    assert "| 2.0 | 1.0 | 75.0% | 50.0% | +50.0 (−10.0 to 60.0) | not measured | not measured |" in lines[0]


def test_the_page_shows_the_stored_rows() -> None:
    page = beyond.PAGE.read_text(encoding="utf-8")
    for lines in (beyond.scores(STORED), beyond.compared(STORED)):
        assert "\n".join(lines) in page
    for kept in STORED.to_dict("records"):
        assert np.frombuffer(kept["by_example"], dtype=np.float32).mean() == pytest.approx(kept["beyond"], abs=1e-6)


@pytest.mark.nightly
def test_a_cell_is_measured_again_as_it_is_stored() -> None:
    key = ("0.1%", "subj-stories", "top movement")
    again = pd.DataFrame(beyond.measured(*key)).set_index("measure")["beyond"]
    assert again.to_dict() == pytest.approx(
        STORED[(STORED[beyond.KEY] == list(key)).all(axis=1)].set_index("measure")["beyond"].to_dict(), abs=0.01
    )

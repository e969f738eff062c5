"""Tests of the comparison of localizers beyond their nulls: its tables from rows, and the stored rows in the docs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks import localizer_beyond as benchmark
from skillviz.core.localizers.table import has_null, localizer
from skillviz.models.examples import example_pairs

STORED = pd.read_parquet(benchmark.BY_EXAMPLE)


def row(method: str, by_example: list[float], **changes: object) -> dict[str, object]:
    found = {
        "size": "1%", "pair": "mr-sgd", "method": method, "measure": "accuracy", "examples": 4, "gain": 2.0,
        "null_gain": 1.0, "graft": 0.75, "null": 0.5, "beyond": np.mean(by_example), "low": -0.1, "high": 0.6,
        "by_example": np.array(by_example, dtype=np.float32).tobytes(),
    }  # fmt: skip
    return {**found, **changes}


def test_every_method_is_a_localizer_with_a_null_and_every_pair_ships() -> None:
    for name, options in benchmark.METHODS.values():
        assert has_null(name) and localizer(name).make_options(options) is not None
    assert {*benchmark.DEVELOPMENT, *benchmark.TEST} <= {pair.name for pair in example_pairs() if pair.ships}
    keys = [key for key, _ in benchmark.cells(None, None, None)]
    assert len({tuple(key.values()) for key in keys}) == len(keys) == 2 * (5 * len(benchmark.METHODS) - 1 - 4)
    for method, pairs in benchmark.OF_PAIR.items():
        assert {key["pair"] for key in keys if key["method"] == method} == {*pairs}
    assert [key["pair"] for key, _ in benchmark.cells("1%", None, "first-order")][-2:] == list(benchmark.TEST)


def test_methods_are_compared_example_by_example() -> None:
    rows = pd.DataFrame([row("top movement", [0, 0, 1, 0]), row("first-order", [1, 0, 1, 0])])
    head, _, *lines = benchmark.compared(rows)
    assert len(lines) == 1 and head.count("(test)") == 2
    cells = [cell.strip() for cell in lines[0].split("|")]
    assert cells[1:4] == ["1%", "accuracy", "first-order − top movement"] and cells[7].startswith("+25.0 (−")
    assert cells.count("not measured") == 4
    other = pd.DataFrame([row("top movement", [0, 0, 1, 0]), row("first-order", [1, 1, 1, 0])])
    assert benchmark.compared(other) != [head, _, *lines], "another example changes the table"


def test_the_scores_of_a_pair_are_told_best_first() -> None:
    rows = pd.DataFrame([row("top movement", [0, 0, 1, 0]), row("first-order", [1, 0, 1, 0])])
    lines = benchmark.scores(rows)[2:]
    assert [line.split("|")[3].strip() for line in lines] == ["first-order", "top movement"]
    assert "| 2.0 | 1.0 | 75.0% | 50.0% | +50.0 (−10.0 to 60.0) | not measured | not measured |" in lines[0]


def test_the_page_shows_the_stored_rows() -> None:
    page = benchmark.PAGE.read_text(encoding="utf-8")
    for lines in (benchmark.scores(STORED), benchmark.compared(STORED)):
        assert "\n".join(lines) in page
    for kept in STORED.to_dict("records"):
        assert np.frombuffer(kept["by_example"], dtype=np.float32).mean() == pytest.approx(kept["beyond"], abs=1e-6)


@pytest.mark.nightly
def test_a_cell_is_measured_again_as_it_is_stored() -> None:
    key = ("0.1%", "subj-stories", "top movement")
    again = pd.DataFrame(benchmark.measured(*key)).set_index("measure")["beyond"]
    kept = STORED[(STORED[benchmark.KEY] == list(key)).all(axis=1)].set_index("measure")["beyond"]
    assert again.to_dict() == pytest.approx(kept.to_dict(), abs=0.01)

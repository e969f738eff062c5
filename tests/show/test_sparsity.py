"""Tests of the answer to how small a region can be, and of the lines beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.core.formats import SPACE
from skillviz.runs.record import RunRecord
from skillviz.runs.store import Store
from skillviz.show.sparsity import MOST_LINES, finding, line_count, sizes, smallest
from tests.fake_run import fake_run

SHARES = (0.0001, 0.001, 0.01, 0.1)
OWN = ("stagewise", "")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return fake_run(Store(tmp_path_factory.mktemp("runs"))).record


def curve(values: tuple[float, ...], half: float = 0.1, line: tuple[str, str] = OWN) -> pd.DataFrame:
    """Return one line of a pair's curve: the share of the gain, and an accuracy that rises with it from 60% to 80%."""
    rows = [
        {"localizer": line[0], "settings": line[1], "seed": 0, "size": round(1e6 * share), "share": share,
         "dataset": "d", "split": "test", "metric": metric, "value": at + scale * v, "low": at + scale * (v - half),
         "high": at + scale * (v + half)}
        for share, v in zip(SHARES, values, strict=True)
        for metric, at, scale in (("recovered", 0.0, 1.0), ("accuracy", 0.6, 0.2))
    ]  # fmt: skip
    return pd.DataFrame(rows)


def said(*arguments: object, **options: object) -> str:
    return finding(curve(*arguments, **options), OWN).replace(SPACE, " ")  # type: ignore[arg-type]


def test_the_answer_is_the_size_where_the_curve_crosses_with_what_its_intervals_allow() -> None:
    size = smallest(curve((0.05, 0.45, 0.9, 1.0)), OWN)
    assert size is not None and size.share == pytest.approx(0.01 * 10**0.5)  # half a decade from 0.9 to 1.0
    assert size.low == pytest.approx(0.001 * 10 ** (0.4 / 0.45)) and size.high == float("inf")
    text = said((0.05, 0.45, 0.9, 1.0))
    assert text.startswith("**95% of the gain needs about 3.2% of the parameters**")
    assert "0.77% to above 10.0%" in text


def test_ends_that_no_size_crosses_are_said() -> None:
    assert said((0.0, 0.1, 0.2, 0.3)).startswith("**No size up to 10.0% reaches 95% of the gain**")
    assert "no interval includes it" in said((0.0, 0.1, 0.2, 0.3))
    assert "10.0% to above 10.0%" in said((0.0, 0.1, 0.2, 0.85))
    assert "at most 0.01% of the parameters" in said((1.2, 1.2, 1.2, 1.2))
    assert "allow below 0.01%" in said((1.2, 1.2, 1.2, 1.2))
    assert "no gain to recover" in said((np.nan,) * 4)
    assert "Fewer than two sizes" in finding(curve((0.1, 0.2, 0.3, 0.9))[:2], OWN)


def test_at_most_five_lines_the_own_first_unless_all_are_wanted(record: RunRecord) -> None:
    others = ("learned", "learned-ranked", "movement", "random", "fisher")
    own = ("stagewise", "batch size 16")
    lines = [curve((0.1, 0.4, 0.8, 1.0), line=one) for one in (*((name, "") for name in others), OWN, own)]
    whole = pd.concat(lines, ignore_index=True)
    few, every = (sizes(whole, record, "test", "accuracy", own, "light", all_of) for all_of in (False, True))
    drawn = set(zip(few.table["localizer"], few.table["settings"], strict=True))
    assert len(drawn) == MOST_LINES and own in drawn and line_count(whole) == 7
    assert len(every.table[["localizer", "settings"]].drop_duplicates()) == 7


def test_a_level_of_guessing_is_drawn_only_where_it_does_not_press_the_lines_together(record: RunRecord) -> None:
    def levels(values: tuple[float, ...]) -> set[str]:
        figure = sizes(curve(values), record, "test", "accuracy", OWN, "light").figure
        return {str(note.text).split("<br>")[0] for note in figure.layout.annotations}

    assert not any(words.startswith("chance") for words in levels((0.05, 0.45, 0.9, 1.0))), "60% to 80%"
    assert any(words.startswith("chance") for words in levels((-0.9, 0.45, 0.9, 1.0))), "40% to 80%"


def test_both_axes_mark_the_same_crossing(record: RunRecord) -> None:
    whole = curve((0.05, 0.45, 0.9, 1.0))
    for metric in ("accuracy", "recovered"):
        figure = sizes(whole, record, "test", metric, OWN, "light").figure
        (mark,) = (a for a in figure.layout.annotations if a.name == "crossing")
        assert 10**mark.x == pytest.approx(10**0.5)
    never = sizes(curve((0.0, 0.1, 0.2, 0.3)), record, "test", "accuracy", OWN, "light").figure
    assert not any(a.name == "crossing" for a in never.layout.annotations)


@pytest.mark.parametrize("known", [1, 4])
def test_marks_of_a_calibration_error_are_all_debiased_or_none_is(record: RunRecord, known: int) -> None:
    whole = curve((0.05, 0.45, 0.9, 1.0)).replace("accuracy", "ece")
    debiased = np.where(np.arange(len(whole)) < 2 * known, whole["value"] - 0.05, np.nan)
    shown = sizes(whole.assign(debiased=debiased), record, "test", "ece", OWN, "light")
    marks = np.asarray(shown.figure.data[0].y, float) / 100
    values = whole.loc[whole["metric"] == "ece", "value"].to_numpy()
    tuned, levels = record.metrics["test"].states["finetuned"]["ece"], shown.figure.layout.shapes
    assert tuned.debiased is not None and tuned.value is not None
    if known < 4:
        assert marks == pytest.approx(values) and shown.figure.layout.yaxis.title.text == "ECE, %"
        assert "plug-in" in shown.reads and shown.table["low"].isna().all()
        assert any(level.y0 == pytest.approx(100 * tuned.value) for level in levels)
    else:
        assert marks == pytest.approx(values - 0.05) and shown.figure.layout.yaxis.title.text == "debiased ECE, %"
        assert any(level.y0 == pytest.approx(100 * tuned.debiased) for level in levels)


def test_without_a_gain_the_axis_of_its_share_is_a_labelled_empty_figure(record: RunRecord) -> None:
    empty = sizes(curve((np.nan,) * 4), record, "test", "recovered", OWN, "light")
    assert not empty.figure.data and empty.table.empty and "no gain to recover" in empty.finding

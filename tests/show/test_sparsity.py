"""Tests of the answer to how small a region can be, and of the lines beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skillviz.runs.record import RunRecord
from skillviz.runs.store import Store
from skillviz.show.sparsity import MOST_LINES, finding, line_count, sizes, smallest
from tests.fake_run import fake_run
from tests.tables import says

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


def said(values: tuple[float, ...], rows: int | None = None) -> str:
    return finding(curve(values)[:rows], OWN)


CROSSES = (0.05, 0.45, 0.9, 1.0)


def test_the_answer_is_the_size_where_the_curve_crosses_with_what_its_intervals_allow() -> None:
    size = smallest(curve(CROSSES), OWN)
    assert size is not None and size.high == float("inf")
    # Half a decade from 0.9 to 1.0.
    assert [size.share, size.low] == pytest.approx([0.01 * 10**0.5, 0.001 * 10 ** (0.4 / 0.45)])


test_what_is_said_of_the_smallest_size = says({
    "a crossing": (
        lambda: said(CROSSES),
        ("^**95% of the gain needs about 3.2% of the parameters**", "0.77% to above 10.0%"),
    ),
    "no size": (
        lambda: said((0.0, 0.1, 0.2, 0.3)),
        ("^**No size up to 10.0% reaches 95% of the gain**", "no interval includes it"),
    ),
    "the largest, perhaps": (lambda: said((0.0, 0.1, 0.2, 0.85)), ("10.0% to above 10.0%",)),
    "every size": (
        lambda: said((1.2, 1.2, 1.2, 1.2)), ("at most 0.01% of the parameters", "allow below 0.01%"),
    ),
    "no gain": (lambda: said((np.nan,) * 4), ("no gain to recover",)),
    "one size": (lambda: said((0.1, 0.2, 0.3, 0.9), 2), ("Fewer than two sizes",)),
})  # fmt: skip


def test_at_most_five_lines_the_own_first_unless_all_are_wanted(record: RunRecord) -> None:
    own, others = ("stagewise", "batch size 16"), ("learned", "learned-ranked", "movement", "random", "fisher")
    lines = [curve((0.1, 0.4, 0.8, 1.0), line=one) for one in (*((name, "") for name in others), OWN, own)]
    whole = pd.concat(lines, ignore_index=True)
    few, every = (
        set(sizes(whole, record, "test", "accuracy", own, "light", all_of).table[["localizer", "settings"]]
            .itertuples(index=False, name=None))
        for all_of in (False, True)
    )  # fmt: skip
    assert (len(few), len(every), line_count(whole)) == (MOST_LINES, 7, 7) and own in few


@pytest.mark.parametrize(("values", "is_drawn"), [(CROSSES, False), ((-0.9, 0.45, 0.9, 1.0), True)])
def test_a_level_of_guessing_is_drawn_only_where_it_does_not_press_the_lines_together(
    values: tuple[float, ...], is_drawn: bool, record: RunRecord
) -> None:
    """Accuracy goes from 60% or 40% to 80%."""
    notes = sizes(curve(values), record, "test", "accuracy", OWN, "light").figure.layout.annotations
    assert any(str(note.text).startswith("chance") for note in notes) == is_drawn


@pytest.mark.parametrize(
    ("values", "metric", "crossing"),
    [(CROSSES, "accuracy", [0.5]), (CROSSES, "recovered", [0.5]), ((0.0, 0.1, 0.2, 0.3), "accuracy", [])],
)
def test_both_axes_mark_the_same_crossing(
    values: tuple[float, ...], metric: str, crossing: list[float], record: RunRecord
) -> None:
    notes = sizes(curve(values), record, "test", metric, OWN, "light").figure.layout.annotations
    assert [note.x for note in notes if note.name == "crossing"] == pytest.approx(crossing)


@pytest.mark.parametrize("known", [1, 4])
def test_marks_of_a_calibration_error_are_all_debiased_or_none_is(record: RunRecord, known: int) -> None:
    whole = curve(CROSSES).replace("accuracy", "ece")
    debiased = np.where(np.arange(len(whole)) < 2 * known, whole["value"] - 0.05, np.nan)
    shown = sizes(whole.assign(debiased=debiased), record, "test", "ece", OWN, "light")
    values, layout = whole.loc[whole["metric"] == "ece", "value"].to_numpy(), shown.figure.layout
    tuned, is_debiased = record.metrics["test"].states["finetuned"]["ece"], known == 4
    assert np.asarray(shown.figure.data[0].y, float) / 100 == pytest.approx(values - 0.05 * is_debiased)
    assert layout.yaxis.title.text == ("debiased ECE, %" if is_debiased else "ECE, %")
    level = 100 * (tuned.debiased if is_debiased else tuned.value)
    assert [shape for shape in layout.shapes if shape.y0 == pytest.approx(level)]
    assert is_debiased or ("plug-in" in shown.reads and shown.table["low"].isna().all())


def test_without_a_gain_the_axis_of_its_share_is_a_labelled_empty_figure(record: RunRecord) -> None:
    empty = sizes(curve((np.nan,) * 4), record, "test", "recovered", OWN, "light")
    assert not empty.figure.data and empty.table.empty and "no gain to recover" in empty.finding

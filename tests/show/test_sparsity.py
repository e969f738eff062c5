"""Tests of the answer to how small a region can be, of the lines beside it, and of the sentences on checkpoints and on
methods by touched parameters."""

import numpy as np
import pandas as pd
import pytest

from skillviz.runs.record import RunRecord
from skillviz.runs.store import Store
from skillviz.show.checkpoints import details, without_size
from skillviz.show.checkpoints import finding as checkpoints_finding
from skillviz.show.methods import NAMED, by_touched, touched_words
from skillviz.show.sentences import metric_value
from skillviz.show.sparsity import MOST_LINES, finding, line_count, sizes, smallest
from skillviz.show.studies import scores_by_method
from tests.fake_run import fake_run
from tests.plots import frames, study_frames
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
    # Half a decade from 0.9 to 1.0.
    wanted = [0.01 * 10**0.5, 0.001 * 10 ** (0.4 / 0.45), float("inf")]
    assert size is not None and [size.share, size.low, size.high] == pytest.approx(wanted)


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


def test_a_size_that_is_undefined_and_one_that_is_not_reached_are_told_apart() -> None:
    points = frames.checkpoints()
    needed = points["what"] == "needed"
    full = points.assign(value=points["value"].where(~needed, 0.1))
    assert without_size(full) == []
    first, *others = sorted(full["step"].unique())
    undefined = full[~(needed & (full["step"] == first))]
    (said,) = without_size(undefined)
    assert f"undefined at step {first:,}: fine-tuning gained nothing on validation" in said
    assert said in details(undefined, "sst2_sentences") and said not in checkpoints_finding(undefined, "sst2_sentences")
    alone = undefined[~undefined["what"].isin(("lead", "gap"))]
    assert said in checkpoints_finding(alone, "sst2_sentences"), "where nothing is compared, the rest is the finding"
    missed = needed & (full["localizer"] == "movement") & full["step"].isin(others[:2])
    (said,) = without_size(full.assign(value=full["value"].mask(missed, np.nan)))
    assert said == f"No size of top movement recovers 95% of the gain at steps {others[0]:,} and {others[1]:,}."


def drawn(known: int) -> pd.DataFrame:
    """Return the methods' points, with a debiased calibration error for the first `known` of them."""
    points = study_frames.points()
    is_known = (points["metric"] == "ece") & (points.groupby("metric").cumcount() < known)
    return points.assign(debiased=np.where(is_known, points["value"] - 0.01, np.nan))


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize("known", [0, 3, 100])
def test_a_calibration_error_is_debiased_everywhere_or_nowhere(known: int) -> None:
    points = drawn(known)
    of_study = scores_by_method(points, "sst2", "sst2", "ece", "light")
    for shown in (by_touched(points, "ece", "sst2", {}, "light"), of_study):
        marks = [x for trace in shown.figure.data if trace.mode != "text" for x in trace.y or ()]
        rows = shown.table[shown.table["touched"] > 0]
        assert sorted(marks) == pytest.approx(sorted(rows["debiased"].fillna(rows["value"]) * 100)) and len(marks)
        assert set(rows["debiased"].notna()) == {known > 0}
        assert ("cannot be debiased, are left out" in shown.reads) == (known == 3)
        assert shown.figure.layout.yaxis.title.text == ("debiased ECE, %" if known else "ECE, %")
    (level,) = {shape.y0 for shape in of_study.figure.layout.shapes if shape.y0 == shape.y1}
    before = points.query("method == 'pretrained' and metric == 'ece'").iloc[0]
    assert level == pytest.approx(100 * before["debiased" if known else "value"])
    other = by_touched(points, "accuracy", "sst2", {}, "light")
    assert len(other.table) == (points["metric"] == "accuracy").sum() and "left out" not in other.reads


def test_the_best_methods_are_read_out_first_and_the_rest_is_counted() -> None:
    rows = study_frames.points()
    rows = rows[rows["metric"] == "ece"]
    best, *others = touched_words(rows, "ece").split("; ")
    lowest = rows.loc[rows["value"].idxmin()]
    assert best.startswith("best is ") and best.endswith(f" touched, {metric_value('ece', lowest['value'])}")
    assert len(rows) > NAMED and len(others) == NAMED and others[-1] == f"{len(rows) - NAMED} more in the table"
    assert touched_words(rows.iloc[:1], "ece").count(";") == 0 and touched_words(rows.iloc[:0], "ece") == ""

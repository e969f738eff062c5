"""Tests of the figure between two models: each point with its interval, and nothing that was not measured."""

from __future__ import annotations

import numpy as np
import pytest

from skillviz.plots.interpolation import accuracy_by_error, along_paths, confidence_at, path_style, trade_off
from skillviz.plots.theme import STATES
from tests.plots.wise_frames import INSIDE, OUTSIDE, bins, points


def traces(figure, name: str) -> list:
    return [trace for trace in figure.data if trace.name == name]


def drawn(**changes):
    return trade_off(points(**changes), INSIDE, OUTSIDE, references={"chance": 0.5})


def test_a_path_has_a_mark_at_each_alpha_in_percent_of_both_data_sets() -> None:
    (line,) = traces(drawn(), "WiSE-Graft")
    assert len(line.x) == 11 and line.mode == "lines+markers"
    assert line.x[0] == pytest.approx(63) and line.x[-1] == pytest.approx(82)
    assert line.y[0] == pytest.approx(61) and line.y[-1] == pytest.approx(76)
    figure = drawn()
    assert figure.layout.xaxis.title.text == f"accuracy on {INSIDE}, %"
    assert figure.layout.yaxis.title.text == f"accuracy on {OUTSIDE}, %"


def test_the_chosen_point_is_a_ring_with_both_intervals_and_not_part_of_the_line() -> None:
    (ring,) = traces(drawn(chosen=0.35), "WiSE-FT, chosen point")
    value = 100 * (0.63 + (0.86 - 0.63) * 0.35 + 0.12 * 0.35 * 0.65)
    assert ring.x[0] == pytest.approx(value) and len(ring.x) == 1 and ring.marker.symbol == "circle-open"
    assert ring.error_x.array[0] == pytest.approx(2) and ring.error_y.arrayminus[0] == pytest.approx(2)
    (line,) = traces(drawn(chosen=0.35), "WiSE-FT")
    assert not np.isclose(list(line.x), value).any()


def test_the_ends_are_drawn_as_the_models_that_they_are() -> None:
    figure = drawn()
    for state, x in (("pretrained", 63), ("finetuned", 86), ("grafted", 82)):
        (mark,) = traces(figure, STATES[state].title)
        assert mark.x[0] == pytest.approx(x) and mark.marker.color == STATES[state].color
        assert mark.error_x.array[0] == pytest.approx(2)


def test_two_ends_are_not_joined_by_a_line_that_nobody_measured() -> None:
    (line,) = traces(drawn(points=2), "WiSE-FT")
    assert line.mode == "markers"
    figure = along_paths(points(points=2), (INSIDE,))
    assert {trace.mode for trace in traces(figure, "WiSE-FT")} == {"markers"}
    assert not traces(figure, "WiSE-FT: interval")


def test_chance_is_drawn_on_both_axes_and_named_once() -> None:
    figure = drawn()
    assert [(s.x0, s.y0) for s in figure.layout.shapes if s.x0 == s.x1] == [(50, 0)]
    assert [s.y0 for s in figure.layout.shapes if s.y0 == s.y1] == [50]
    assert len(traces(figure, "chance 50.0%")) == 1


def test_a_level_far_off_does_not_press_the_points_into_a_corner() -> None:
    near = drawn().layout.xaxis.range  # the points are from 61 to 88
    assert near[0] < 50 < 88 < near[1]
    far = trade_off(points(), INSIDE, OUTSIDE, references={"chance": 0.1}).layout.xaxis.range
    assert 55 < far[0] < 61 and far[1] == pytest.approx(near[1], abs=1)


@pytest.mark.parametrize("draw", [trade_off, lambda points, *on, **more: along_paths(points, on, **more)])
def test_a_level_far_off_is_named_and_not_drawn(draw) -> None:  # type: ignore[no-untyped-def]
    figure = draw(points(), INSIDE, OUTSIDE, references={"chance": 0.1})
    assert not [shape for shape in figure.layout.shapes if 10 in (shape.x0, shape.y0)]
    (level,) = traces(figure, "chance 10.0%, off the scale")
    assert level.mode == "markers" and level.marker.symbol.startswith("triangle")


def test_a_level_far_off_the_lines_is_drawn_if_the_chosen_point_is_there() -> None:
    frame = points()
    frame.loc[frame["current"], ["value", "low", "high"]] = [0.1, 0.09, 0.11]
    assert traces(along_paths(frame, (INSIDE, OUTSIDE), references={"chance": 0.1}), "chance 10.0%")


def test_an_alpha_that_one_data_set_lacks_is_left_out() -> None:
    frame = points()
    gone = (frame["dataset"] == OUTSIDE) & np.isclose(frame["alpha"], 0.5) & ~frame["current"]
    (line,) = traces(trade_off(frame[~gone], INSIDE, OUTSIDE), "WiSE-FT")
    assert len(line.x) == 10
    assert not trade_off(frame, INSIDE, "elsewhere").data


def test_a_paths_colour_is_that_of_the_model_it_ends_at() -> None:
    assert path_style("wise-ft").color == STATES["finetuned"].color
    assert path_style("wise-graft").color == STATES["grafted"].color
    assert path_style("another").title == "another"


def test_along_the_way_there_is_a_panel_a_data_set_with_bands_and_the_chosen_alpha() -> None:
    figure = along_paths(points(), (INSIDE, OUTSIDE), references={"chance": 0.5})
    assert [axis.title.text for axis in figure.select_yaxes()] == [
        f"accuracy on<br>{INSIDE}, %", f"accuracy on<br>{OUTSIDE}, %",
    ]  # fmt: skip
    lines = traces(figure, "WiSE-FT")
    assert [line.yaxis for line in lines] == ["y", "y2"] and list(lines[0].x)[:2] == [0, 10]
    band = traces(figure, "WiSE-FT: interval")[0]
    assert max(band.y) == pytest.approx(100 * (0.86 + 0.02), abs=0.5)
    upright = {shape.x0 for shape in figure.layout.shapes if shape.x0 == shape.x1}
    assert upright == {35}
    rings = traces(figure, "WiSE-Graft, chosen point")
    assert [list(ring.x) for ring in rings] == [[35], [35]]


def debiased_points():
    """Return the ECE of every point: the debiased value is 1.5 points below the plug-in, and centers its interval."""
    frame = points()
    debiased = (frame["value"] - 0.015).where(frame["metric"] == "ece")
    ends = {"low": (debiased - 0.01).fillna(frame["low"]), "high": (debiased + 0.02).fillna(frame["high"])}
    return frame.assign(debiased=debiased, **ends)


def ece(frame, path: str, dataset: str, current: bool) -> np.ndarray:
    shown = frame.query("metric == 'ece' and path == @path and dataset == @dataset and current == @current")
    return 100 * shown.sort_values("alpha")["debiased"].to_numpy(float)


def test_a_calibration_error_in_and_out_of_distribution_is_debiased_with_the_plug_in_one_in_the_hover() -> None:
    frame = debiased_points()
    figure = trade_off(frame, INSIDE, OUTSIDE, "ece")
    titles = figure.layout.xaxis.title.text, figure.layout.yaxis.title.text
    assert titles == (f"debiased ECE on {INSIDE}, %", f"debiased ECE on {OUTSIDE}, %")
    for name, current in (("WiSE-FT", False), ("WiSE-FT, chosen point", True)):
        (trace,) = traces(figure, name)
        for across, dataset in ((trace.x, INSIDE), (trace.y, OUTSIDE)):
            assert list(across) == pytest.approx(ece(frame, "wise-ft", dataset, current))
            assert f"{across[0]:.1f}% ECE on {dataset}<br>95%: " in trace.hovertext[0]
            assert f"; plug-in {across[0] + 1.5:.1f}%" in trace.hovertext[0]
    for error in (trace.error_x, trace.error_y):
        assert (error.array[0], error.arrayminus[0]) == (pytest.approx(2), pytest.approx(1))


def test_a_calibration_error_along_the_way_is_debiased_with_its_band_about_it() -> None:
    frame = debiased_points()
    figure = along_paths(frame, (INSIDE, OUTSIDE), "ece")
    assert [axis.title.text for axis in figure.select_yaxes()] == [
        f"debiased ECE on<br>{INSIDE}, %", f"debiased ECE on<br>{OUTSIDE}, %",
    ]  # fmt: skip
    for number, dataset in enumerate((INSIDE, OUTSIDE)):
        names = [f"WiSE-Graft{end}" for end in ("", ": interval", ", chosen point")]
        line, band, ring = (traces(figure, name)[number] for name in names)
        drawn = ece(frame, "wise-graft", dataset, False)
        assert list(line.y) == pytest.approx(drawn)
        assert list(band.y) == pytest.approx([*(drawn + 2), *(drawn - 1)[::-1]])
        assert f"; plug-in {drawn[0] + 1.5:.1f}%<br>alpha 0.00" in line.hovertext[0]
        assert list(ring.y) == pytest.approx(ece(frame, "wise-graft", dataset, True))
        assert (ring.error_y.array[0], ring.error_y.arrayminus[0]) == (pytest.approx(2), pytest.approx(1))


def test_a_metric_without_a_debiased_value_is_drawn_as_it_is() -> None:
    for draw in (lambda frame: trade_off(frame, INSIDE, OUTSIDE), lambda frame: along_paths(frame, (INSIDE, OUTSIDE))):
        plain, beside = draw(points()), draw(debiased_points())
        assert plain == beside and "plug-in" not in str(plain)


def test_the_axes_leave_room_for_the_debiased_values() -> None:
    frame = debiased_points()
    low, high = along_paths(frame, (INSIDE,), "ece", room=frame.assign(low=np.nan, high=np.nan)).layout.yaxis.range
    drawn = np.concatenate([ece(frame, path, INSIDE, False) for path in ("wise-ft", "wise-graft")])
    assert low < drawn.min() < drawn.max() < high < drawn.max() + 1.5 + 0.06 * np.ptp(drawn)


def test_the_histogram_tells_the_wrong_ones_from_all() -> None:
    frame = bins()
    figure = confidence_at(frame, (INSIDE, OUTSIDE))
    outline = traces(figure, "WiSE-Graft")[0]
    wrong = traces(figure, "WiSE-Graft: wrong")[0]
    own = frame[(frame["path"] == "wise-graft") & (frame["dataset"] == INSIDE)]
    assert max(outline.y) == pytest.approx(100 * own["count"].max() / own["count"].sum())
    top = own.iloc[-1]
    assert wrong.y[-2] == pytest.approx(100 * (top["count"] - top["correct"]) / own["count"].sum())
    assert all(w <= a for w, a in zip(sorted(wrong.y), sorted(outline.y)[-len(wrong.y) :], strict=True))
    assert f"{int(top['count'] - top['correct'])} of them wrong" in outline.hovertext[-2]
    assert len(traces(figure, "WiSE-FT")) == 2 and sum(t.showlegend for t in traces(figure, "WiSE-FT")) == 1


def test_a_data_set_without_a_histogram_has_no_panel() -> None:
    figure = confidence_at(bins(), (INSIDE, "elsewhere"))
    assert len(list(figure.select_yaxes())) == 1


def test_accuracy_stands_against_the_debiased_error_with_a_few_labeled_alphas() -> None:
    figure = accuracy_by_error(debiased_points(), INSIDE)
    (line,), errors = traces(figure, "WiSE-FT"), ece(debiased_points(), "wise-ft", INSIDE, False)
    assert list(line.x) == pytest.approx(errors) and "debiased ECE, % (lower" in figure.layout.xaxis.title.text
    labels = [(note.text, note.font.color) for note in figure.layout.annotations]
    assert labels[1] == ("α 50%", STATES["finetuned"].color) and labels[4] == ("α 50%", STATES["grafted"].color)

"""Tests of the figures about several tasks: texts on cells and marks, the panels, lines and levels of stages; and of
sub-skills: every matrix has its line, every part its share in print."""

import numpy as np
import pandas as pd
import pytest

from skillviz.plots import continual, tasks
from skillviz.plots.cells import broken
from skillviz.plots.subskills import loading_map, stability_by_count
from tests.plots import frames
from tests.plots.every_figure import draw
from tests.plots.facts import Holding, Of, facts, read
from tests.refused import refused

ONE, TWO = frames.TASKS[:2]
FIRST = sorted(frames.TASKS)[0]
LARGE = tuple("abcdef")


def tasks_interval(ends: str) -> str:
    """Return an interval in the form below its number, in smaller letters."""
    return f'<span style="font-size:{tasks.SMALL}px">{ends}</span>'


def undefined(frame: pd.DataFrame, task: str, *columns: str) -> pd.DataFrame:
    """Return the frame without these values of one task."""
    return frame.assign(**{name: frame[name].mask(frame["task"] == task) for name in columns})


(ROW,) = frames.overlap().query("row_task == @ONE and column_task == @TWO and kind == 'overlap'").to_dict("records")

test_cells_of_tasks_say = facts(
    {
        "the share and its interval": (
            lambda: tasks.overlap_of_tasks(frames.overlap(), order=frames.TASKS),
            {
                "data.0.z.0.1": pytest.approx(100 * ROW["value"]),
                "data.1.text.1": f"{100 * ROW['value']:.1f}<br>"
                + tasks_interval(f"{100 * ROW['low']:.1f}<br>to {100 * ROW['high']:.1f}"),
            },
        ),
        "the share alone of many tasks": (
            lambda: tasks.overlap_of_tasks(
                pd.concat([frames.overlap(), frames.overlap().replace({name: f"{name}2" for name in frames.TASKS})])
            ),
            {"data.1.text": Of("".join, Holding(but=("<br>",)))},
        ),
        "the union between the two models": (
            lambda: draw("union_gain"),
            {
                "data.*.name": Of(set, {"union", "union, purified", "the task's own region alone"}),
                "layout.shapes.*.x0": Of(set, {0, 100}),
                "layout.annotations.*.text": Of(set, {"pre-trained", "multi-task"}),
            },
        ),
        "chance and the direction in the hover, in Cividis": (
            lambda: tasks.overlap_of_tasks(frames.overlap(), order=frames.TASKS),
            {
                "data.0.hovertext.0.1": Holding("by chance: 1% (95%: 0.5–2%)", f"of the entries of {TWO}'s region"),
                "data.0.hovertext.0.0": Holding("other mask seeds"), "data.0.colorscale.0.1": "#00224e",
            },
        ),
        "the tasks in the order asked for": (
            lambda: tasks.overlap_of_tasks(frames.overlap(), order=tuple(reversed(frames.TASKS))),
            {"layout.yaxis.ticktext": [broken(name) for name in reversed(frames.TASKS)]},
        ),
        "the tasks by the alphabet otherwise": (
            lambda: tasks.overlap_of_tasks(frames.overlap()),
            {"layout.yaxis.ticktext": [broken(name) for name in sorted(frames.TASKS)]},
        ),
        "a large union whole in the hover": (
            lambda: tasks.gain_of_regions(frames.gain().assign(region_tasks=[LARGE] * len(frames.gain()))),
            {"data.0.hovertext.0.0": Holding("the union of a, b, c, d, e, f on")},
        ),
        "nought for minus nought": (
            lambda: tasks.gain_of_regions(frames.gain().assign(value=-0.0004, low=-0.12, high=0.2)),
            {"data.1.text.0": f"<b>0</b><br>{tasks_interval('−12<br>to 20')}"},
        ),
        "nought with digits for minus nought": (
            lambda: tasks.gain_of_regions(frames.gain().assign(value=-0.0004, low=-0.09, high=0.2)),
            {"data.1.text.0": f"<b>0.0</b><br>{tasks_interval('−9.0<br>to 20.0')}"},
        ),
        "that a gain is not defined": (
            lambda: tasks.gain_of_regions(undefined(frames.gain(), FIRST, "value", "low", "high")),
            {"data.1.text.0": "n/a", "data.0.hovertext.0.0": Holding("gains nothing there")},
        ),
        "that there is no gain of regions": (
            lambda: tasks.gain_of_regions(frames.gain().assign(value=np.nan)),
            {"data": [], "layout.annotations.*.text": Holding(tasks.NO_GAIN)},
        ),
        "that there is no gain of a union": (
            lambda: tasks.union_gain(frames.union().assign(value=np.nan)),
            {"data": [], "layout.annotations.*.text": Holding(tasks.NO_GAIN)},
        ),
        "nothing of a task on which nothing of a union is defined": (
            lambda: tasks.union_gain(undefined(frames.union(), ONE, "value")),
            {"layout.yaxis.ticktext": [broken(name) for name in sorted(frames.TASKS) if name != ONE]},
        ),
        "a scale of gains from 0 to 100": (lambda: draw("gain_of_regions"), {"data.0.zmin": 0, "data.0.zmax": 100}),
        "how stable regions are, with chance as a tick": (
            lambda: draw("stability_of_regions"),
            {
                "data.-1.name": "by chance", "data.-1.x": pytest.approx([1.5] * 4),
                "data.-1.error_x.array.0": pytest.approx(0.5), "data.0.error_x.array.0": pytest.approx(5),
            },
        ),
    }
)  # fmt: skip

test_an_unknown_kind_is_named = refused(
    ValueError, ("'cosine' is not known", lambda: tasks.overlap_of_tasks(frames.overlap(), "cosine"))
)


def test_a_row_is_as_high_as_its_longest_name_needs() -> None:
    """All rows of a heatmap have the same height, so one long name makes all of them higher."""
    short = frames.gain()[lambda rows: rows["region_tasks"].map(len) == 1]
    long = short.assign(region_tasks=[frames.TASKS if of == (ONE,) else of for of in short["region_tasks"]])
    low, high = (tasks.gain_of_regions(frame).layout.height for frame in (short, long))
    assert high - low == short["region_tasks"].nunique() * (4 * tasks.LINE + 8 - tasks.CELL)


def test_a_large_union_is_named_by_its_first_tasks() -> None:
    assert tasks.region_name(LARGE) == "a +<br>b +<br>4 more" and tasks.region_name(LARGE[:4]).count("<br>") == 3


def test_gains_are_bold_where_the_region_was_made_for_the_task() -> None:
    """A single region is one task's, and a union that of its two tasks."""
    x, texts, names = read(draw("gain_of_regions"), "data.0.x", "data.1.text", "layout.yaxis.ticktext")
    bold, count = np.array([text.startswith("<b>") for text in texts]).reshape(len(names), len(x)), len(frames.TASKS)
    found = len(x), names[0], bold[:count].sum(), bold[names.index(" +<br>".join((ONE, TWO)))].sum()
    assert found == (count, broken(FIRST), count, 2)


ORDER = list(frames.TASKS[:3])

test_levels_are = facts(
    {
        "a model of its own and the pre-trained one": (
            lambda: continual.by_stage(frames.stages(), start={ORDER[0]: 0.5}),
            {
                f"{continual.ALONE}/*.xaxis": ["x", "x2", "x3"], f"{continual.ALONE}/0.y": [90, 90],
                f"{continual.PRETRAINED}/*.y": [[50, 50]],
            },
        ),
        "none in a study of one mode": (
            lambda: continual.by_stage(frames.stages().query("mode == 'grafting'")),
            {"data.*.legendgroup": Of(set, {"grafting"})},
        ),
        "beside a panel a task in the order of learning": (
            lambda: draw("by_stage"),
            {
                "layout.annotations.*.text": Of(
                    lambda texts: [text for text in texts if text[:1].isdigit()],
                    [f"{number}. {broken(task)}" for number, task in enumerate(continual.order_of(frames.stages()), 1)],
                )
            },
        ),
    }
)  # fmt: skip


def test_each_line_begins_with_its_task_s_own_stage_and_is_named_in_the_last_panel() -> None:
    figure = continual.by_stage(frames.stages(), start={ORDER[0]: 0.5})
    naive = [trace for trace in figure.data if trace.legendgroup == "naive"]
    assert [len(trace.x) for trace in naive] == [3, 2, 1] and list(naive[0].y) == pytest.approx([90, 82, 74])
    assert naive[0].error_y.array[0] == pytest.approx(2) and naive[0].line.dash != "solid"
    names = [note.text.replace("<br>", " ") for note in figure.layout.annotations if note.name == "line"]
    assert names == [t.name for t in figure.data if t.xaxis == "x3"] and not figure.layout.showlegend
    dashes = read(figure, f"{continual.ALONE}/0.line.dash", f"{continual.PRETRAINED}/line.dash")
    assert dashes[0] != dashes[1] and continual.order_of(frames.stages()) == ORDER


def test_lines_and_levels_of_a_calibration_error_stand_at_its_debiased_value() -> None:
    figure = continual.by_stage(frames.stages().assign(metric="ece", debiased=0.02), "ece")
    lines = {trace.name: set(trace.y) for trace in figure.data if trace.name != continual.PRETRAINED}
    assert lines == dict.fromkeys(lines, {2.0}) and continual.ALONE in lines
    assert [t.name for t in figure.data if "2.0% ECE<br>95%: " not in str(t.hovertext or t.hovertemplate)] == []


OWN = frames.subskill_stability().query("draw == 0")

test_subskills_have = facts(
    {
        "a line of the region, on top, and of each draw, with intervals": (
            lambda: stability_by_count(frames.subskill_stability()),
            {
                "data.*.name": ["random control 2", "random control 1", "region"], "region/x": [2, 3, 4],
                "region/y": pytest.approx(OWN["value"].tolist()),
                "region/error_y.arrayminus": pytest.approx((OWN["value"] - OWN["low"]).tolist()),
                "layout.xaxis.title.text": "sub-skills, number", "layout.yaxis.title.text": Holding("cosine"),
            },
        ),
        "their shares in cells, printed from half a percent": (
            lambda: loading_map(frames.subskill_loadings()),
            {
                "data.0.z": pytest.approx(np.array([[60, 0.4], [40, 10], [0, 89.6], [0, 0]])),
                "data.1.text": ["60%", "40%", "10%", "90%"],
                "layout.yaxis.ticktext": [f"layer {n}, value" for n in range(4)],
                "layout.yaxis.title.text": "part", "layout.xaxis.title.text": "sub-skill",
            },
        ),
    }
)  # fmt: skip

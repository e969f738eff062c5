"""Tests of the interpolation page's sentence: the best point, and the claims that its paired interval supports."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pandas as pd
import pytest

from skillviz.runs.record import RunRecord
from skillviz.runs.spec import RunSpec
from skillviz.show import interpolation as words
from skillviz.show.interpolation_grid import BIN_COLUMNS, FINETUNED, GRAFT, Grid
from tests.plots import wise_frames as wise


def grid(middle: float, difference: tuple[float, float, float], metric: str = "accuracy") -> Grid:
    """Return ends of 0.6 and 0.8 and one point between them on WiSE-Graft, with its paired difference to fine-tuned."""
    told = [(FINETUNED, None, 0.0, 0.6), (FINETUNED, None, 1.0, 0.8), (GRAFT, 40, 0.0, 0.6), (GRAFT, 40, 0.7, middle)]
    common = {"dataset": "imdb", "metric": metric}
    rows = [
        {"path": p, "size": s, "alpha": a, **common, "value": v, "low": v - 0.02, "high": v + 0.02}
        for p, s, a, v in told
    ]
    value, low, high = difference
    rows.append({**rows[-1], "metric": f"{metric}_difference", "value": value, "low": low, "high": high})
    points = pd.DataFrame(rows).astype({"size": "Int64"})
    return Grid(points, pd.DataFrame(columns=BIN_COLUMNS), ("imdb",))


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_a_gain_is_claimed_where_the_paired_interval_leaves_out_zero() -> None:
    said = plain(words.best(grid(0.85, (0.05, 0.02, 0.08)), "imdb", "accuracy", 4000))
    assert said.startswith("Best accuracy on IMDb: **85.0%** at α = 70% of WiSE-Graft")
    assert "of WiSE-Graft (region of 1%); fine-tuned 80.0%, +5.0 points (95%: 1.3–8.7), best of 3" in said
    assert "**Better.** The best point was picked on these same examples" in said


def test_a_share_of_few_examples_has_the_wider_interval_with_or_without_a_histogram() -> None:
    known = grid(0.85, (0.05, 0.02, 0.08), "exact_match")
    assert "(95%: 1.3–8.7)" in plain(words.best(known, "imdb", "exact_match", 4000))
    wider = plain(words.best(replace(known, scored_on={"imdb": 80}), "imdb", "exact_match", 4000))
    assert "(95%: −2.2 to 12.2)" in wider and "**No clear difference.**" in wider  # 5 ± 2.394² / 80, in percent
    assert wider.replace(" on IMDb", " on IMDb (80 examples)") == plain(
        words.best(replace(known, scored_on={"imdb": 900}, traced_on={"imdb": 80}), "imdb", "exact_match", 4000)
    )


def test_no_gain_is_claimed_where_it_does_not() -> None:
    said = plain(words.best(grid(0.85, (0.05, -0.01, 0.08)), "imdb", "accuracy", 4000))
    assert "**No clear difference.**" in said and "better" not in said


def test_the_fine_tuned_model_itself_may_be_the_best() -> None:
    said = plain(words.best(grid(0.7, (-0.1, -0.2, -0.05)), "imdb", "accuracy", 4000))
    assert "at the fine-tuned model. No known point beats the fine-tuned model." in said and "best of" not in said


def test_lower_is_better_for_calibration() -> None:
    said = plain(words.best(grid(0.1, (-0.7, -0.8, -0.6), "ece"), "imdb", "ece", 4000))
    assert "**10.0%**" in said and "**Better.**" in said


def test_what_was_traced_is_not_called_stored() -> None:
    told = [plain(words.source(kind, FINETUNED, None, 0.5, 4000, 500)) for kind in (words.STORED, words.NEAREST)]
    assert told[0] == "Traced on 500 examples: at α = 50% of WiSE-FT."
    assert told[1].startswith("Nearest point traced on 500 examples: ")
    traced = replace(grid(0.85, (0.05, 0.02, 0.08)), traced_on={"imdb": 500})
    assert "on IMDb (500 examples): " in words.best(traced, "imdb", "accuracy", 4000)


def test_what_is_not_known_is_said() -> None:
    assert "models is stored on Yelp" in words.best(grid(0.7, (0, 0, 0)), "yelp", "accuracy", 4000)


@pytest.mark.parametrize(
    ("path", "alpha", "said"),
    [
        (FINETUNED, 0.0, "at the pre-trained model"),
        (GRAFT, 0.0, "at the pre-trained model"),
        (FINETUNED, 1.0, "at the fine-tuned model"),
        (GRAFT, 1.0, "at the graft (region of 1%)"),
        (FINETUNED, 0.35, "at α = 35% of WiSE-FT"),
    ],
)
def test_a_place_is_named_by_its_model_or_its_share_of_the_way(path: str, alpha: float, said: str) -> None:
    assert plain(words.place(path, 40 if path == GRAFT else None, alpha, 4000)) == said
    assert plain(words.source(words.EXACT, path, 40 if path == GRAFT else None, alpha, 4000)).startswith(
        "Computed live: "
    )


def record(**changes: object) -> RunRecord:
    spec = RunSpec(base="b", finetuned="f", task="sst2")
    return RunRecord(run_id="x", spec=spec, key="", status="finished", created="", **changes)


def test_the_command_makes_the_same_run_with_its_grid() -> None:
    said = shlex.split(words.missing(record()))
    assert said[-3:] == ["--interpolation", "--also", "TASK"] and said[:4] == ["python", "-m", "skillviz", "localize"]


def test_the_head_is_named_among_the_deviations_where_there_is_one() -> None:
    assert any("head" in line for line in words.deviations(record(readout="head")))
    assert not any("head" in line for line in words.deviations(record(readout="prompt")))


def test_the_best_is_the_fine_tuned_model_where_none_has_a_lower_debiased_error() -> None:
    known = grid(0.85, (-0.05, -0.08, -0.02), "ece")
    is_middle, is_tuned = known.points["alpha"] == 0.7, known.points["alpha"] == 1
    errors = known.points["value"].mask(is_tuned, 0.1).mask(is_middle, 0.09)  # lower in the middle
    debiased = errors.mask(is_tuned, 0.06).mask(is_middle, 0.08)
    tied = debiased.mask(is_middle, 0.06)
    for read in (debiased, tied):
        points = known.points.assign(value=errors, debiased=read)
        said = plain(words.best(replace(known, points=points), "imdb", "ece", 4000))
        assert said.startswith("Best ECE on IMDb: **6.0%** at the fine-tuned model. No known point beats")


def test_the_interval_of_the_best_is_widened_about_the_debiased_difference() -> None:
    known = grid(0.1, (-0.075, -0.08, -0.04), "ece")
    is_difference = known.points["metric"] == "ece_difference"
    debiased = known.points["value"].mask(is_difference, -0.05)
    said = plain(words.best(replace(known, points=known.points.assign(debiased=debiased)), "imdb", "ece", 4000))
    ratio = 2.394 / 1.96  # of the normal quantiles, for 3 points
    low, high = -5 - 3 * ratio, -5 + 1 * ratio
    assert f"−5.0 points (95%: −{-low:.1f} to −{-high:.1f})" in said


@pytest.mark.parametrize("metric", ["ece", "accuracy"])
def test_the_help_explains_the_debiased_error_where_it_is_drawn(metric: str) -> None:
    points = grid(0.85, (0.05, 0.02, 0.08), metric).points.assign(current=False)
    shown = [
        words.paths(points, ["imdb"], metric, {}, "light"), words.trade(points, "imdb", "imdb", metric, {}, "light")
    ]  # fmt: skip
    for exhibit in shown:
        assert ("debiased" in exhibit.words) == (metric == "ece") and "plug-in" not in exhibit.reads


def test_the_plane_names_each_paths_point_nearest_to_the_corner_without_an_interval() -> None:
    rows = wise.points()
    for metric, value in (("accuracy", 0.9), ("ece", 0.0)):
        rows.loc[rows["metric"].eq(metric) & rows["path"].eq(GRAFT) & rows["alpha"].eq(0.5), "value"] = value
    said, shown = words.nearest_to_corner(rows, wise.INSIDE), words.plane(rows, wise.INSIDE, "in", "light")
    assert plain(said) == (
        "Nearest to accuracy 100% and ECE 0% on each path: at the fine-tuned model (accuracy 86.0%, ECE 4.0%) and "
        "at α = 50% of WiSE-Graft (accuracy 90.0%, ECE 0.0%). The distances have no interval."
    )
    assert shown.alt.endswith(said) and set(shown.table["dataset"]) == {wise.INSIDE}
    without = (wise.points(chosen=1.0, points=2), rows[rows["metric"] == "accuracy"])
    assert [words.has_plane(one, wise.INSIDE) for one in (rows, *without)] == [True, False, False]

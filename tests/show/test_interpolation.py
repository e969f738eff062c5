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
from tests.tables import plain, says


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
    return Grid(pd.DataFrame(rows).astype({"size": "Int64"}), pd.DataFrame(columns=BIN_COLUMNS), ("imdb",))


def best(known: Grid, metric: str = "accuracy", dataset: str = "imdb") -> str:
    return plain(words.best(known, dataset, metric, 4000))


GAIN, SHARE = grid(0.85, (0.05, 0.02, 0.08)), grid(0.85, (0.05, 0.02, 0.08), "exact_match")
WIDENED = grid(0.1, (-0.075, -0.08, -0.04), "ece")
DEBIASED = WIDENED.points["value"].mask(WIDENED.points["metric"] == "ece_difference", -0.05)
LOW, HIGH = -5 - 3 * 2.394 / 1.96, -5 + 1 * 2.394 / 1.96  # of the normal quantiles, for 3 points


def record(**changes: object) -> RunRecord:
    spec = RunSpec(base="b", finetuned="f", task="sst2")
    return RunRecord(run_id="x", spec=spec, key="", status="finished", created="", **changes)


test_what_is_said_of_the_best_point = says({
    "a gain where the paired interval leaves out zero": (
        lambda: best(GAIN),
        ("^Best accuracy on IMDb: **85.0%** at α = 70% of WiSE-Graft",
         "of WiSE-Graft (region of 1%); fine-tuned 80.0%, +5.0 points (95%: 1.3–8.7), best of 3",
         "**Better.** The best point was picked on these same examples"),
    ),
    "no gain where it does not": (
        lambda: best(grid(0.85, (0.05, -0.01, 0.08))), ("**No clear difference.**",), ("better",),
    ),
    "the fine-tuned model itself": (
        lambda: best(grid(0.7, (-0.1, -0.2, -0.05))),
        ("at the fine-tuned model. No known point beats the fine-tuned model.",), ("best of",),
    ),
    "lower is better": (lambda: best(grid(0.1, (-0.7, -0.8, -0.6), "ece"), "ece"), ("**10.0%**", "**Better.**")),
    "what is not known": (lambda: best(grid(0.7, (0, 0, 0)), dataset="yelp"), ("models is stored on Yelp",)),
    "traced on some": (lambda: best(replace(GAIN, traced_on={"imdb": 500})), ("on IMDb (500 examples): ",)),
    "traced": (
        lambda: words.source(words.STORED, FINETUNED, None, 0.5, 4000, 500),
        ("^Traced on 500 examples: at α = 50% of WiSE-FT.$",),
    ),
    "traced nearby": (
        lambda: words.source(words.NEAREST, FINETUNED, None, 0.5, 4000, 500),
        ("^Nearest point traced on 500 examples: ",),
    ),
    "a share": (lambda: best(SHARE, "exact_match"), ("(95%: 1.3–8.7)",)),
    "a share of few examples, without a histogram": (
        lambda: best(replace(SHARE, scored_on={"imdb": 80}), "exact_match"),
        ("(95%: −2.2 to 12.2)", "**No clear difference.**"),  # 5 ± 2.394² / 80, in percent
    ),
    "the interval is widened about the debiased difference": (
        lambda: best(replace(WIDENED, points=WIDENED.points.assign(debiased=DEBIASED)), "ece"),
        (f"−5.0 points (95%: −{-LOW:.1f} to −{-HIGH:.1f})",),
    ),
    "a model with a head": (lambda: " ".join(words.deviations(record(readout="head"))), ("head",)),
    "a model without one": (lambda: " ".join(words.deviations(record(readout="prompt"))), (), ("head",)),
})  # fmt: skip


def test_few_examples_that_were_traced_have_the_interval_of_few_that_were_scored() -> None:
    scored, traced = {"scored_on": {"imdb": 80}}, {"scored_on": {"imdb": 900}, "traced_on": {"imdb": 80}}
    told, of_traced = (best(replace(SHARE, **on), "exact_match") for on in (scored, traced))
    assert told.replace(" on IMDb", " on IMDb (80 examples)") == of_traced


@pytest.mark.parametrize("middle", [0.08, 0.06])
def test_the_best_is_the_fine_tuned_model_where_none_has_a_lower_debiased_error(middle: float) -> None:
    known = grid(0.85, (-0.05, -0.08, -0.02), "ece")
    is_middle, is_tuned = known.points["alpha"] == 0.7, known.points["alpha"] == 1
    errors = known.points["value"].mask(is_tuned, 0.1).mask(is_middle, 0.09)  # lower in the middle
    points = known.points.assign(value=errors, debiased=errors.mask(is_tuned, 0.06).mask(is_middle, middle))
    said = best(replace(known, points=points), "ece")
    assert said.startswith("Best ECE on IMDb: **6.0%** at the fine-tuned model. No known point beats")


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
    place = path, 40 if path == GRAFT else None, alpha, 4000
    assert plain(words.place(*place)) == said
    assert plain(words.source(words.EXACT, *place)).startswith("Computed live: ")


def test_the_command_makes_the_same_run_with_its_grid() -> None:
    said = shlex.split(words.missing(record()))
    assert said[-3:] == ["--interpolation", "--also", "TASK"] and said[:4] == ["python", "-m", "skillviz", "localize"]


@pytest.mark.parametrize("metric", ["ece", "accuracy"])
def test_the_help_explains_the_debiased_error_where_it_is_drawn(metric: str) -> None:
    points = grid(0.85, (0.05, 0.02, 0.08), metric).points.assign(current=False)
    trade = words.trade(points, "imdb", "imdb", metric, {}, "light")
    for exhibit in (words.paths(points, ["imdb"], metric, {}, "light"), trade):
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

"""Tests of a run between its models and on other tasks: its known points (stored, of its scores, of the worker, the
nearest), and the sentences and counts of both pages, whose claims need an interval that supports them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.runs.record import Estimate, RunRecord, Scores, TransferNote
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import library
from skillviz.runs.tables import empty
from skillviz.show import interpolation as words
from skillviz.show import interpolation_grid as grids
from skillviz.show import transfer as to_others
from skillviz.show.interpolation_grid import BIN_COLUMNS, FINETUNED, GRAFT, Grid
from tests.plots import wise_frames as wise
from tests.tables import equal, plain, says


def grid(middle: float, difference: tuple[float, float, float], metric: str = "accuracy") -> Grid:
    """Return ends of 0.6 and 0.8 and one point between them on WiSE-Graft, with its paired difference to fine-tuned."""
    told = [(FINETUNED, None, 0.0, 0.6), (FINETUNED, None, 1.0, 0.8), (GRAFT, 40, 0.0, 0.6), (GRAFT, 40, 0.7, middle)]
    rows = [(*of, metric, value, value - 0.02, value + 0.02) for *of, value in told]
    rows.append((*told[-1][:-1], f"{metric}_difference", *difference))
    points = pd.DataFrame(rows, columns=["path", "size", "alpha", "metric", "value", "low", "high"])
    return Grid(points.assign(dataset="imdb").astype({"size": "Int64"}), pd.DataFrame(columns=BIN_COLUMNS), ("imdb",))


def best(known: Grid, metric: str = "accuracy", dataset: str = "imdb") -> str:
    return plain(words.best(known, dataset, metric, 4000))


GAIN, SHARE = grid(0.85, (0.05, 0.02, 0.08)), grid(0.85, (0.05, 0.02, 0.08), "exact_match")
FEW_SCORED = replace(SHARE, scored_on={"imdb": 80})
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
        lambda: best(FEW_SCORED, "exact_match"),
        ("(95%: −2.2 to 12.2)", "**No clear difference.**"),  # 5 ± 2.394² / 80, in percent
    ),
    "few examples that were traced have the interval of few that were scored": (
        lambda: best(replace(SHARE, scored_on={"imdb": 900}, traced_on={"imdb": 80}), "exact_match"),
        (f"^{best(FEW_SCORED, 'exact_match').replace(' on IMDb', ' on IMDb (80 examples)')}$",),
    ),
    "the interval is widened about the debiased difference": (
        lambda: best(replace(WIDENED, points=WIDENED.points.assign(debiased=DEBIASED)), "ece"),
        (f"−5.0 points (95%: −{-LOW:.1f} to −{-HIGH:.1f})",),
    ),
    # A place is named by its model or its share of the way.
    **{
        f"{path} at {place[1]}": (
            lambda path=path, place=place: "; ".join(
                [words.place(path, *place, 4000), words.source(words.EXACT, path, *place, 4000)]
            ),
            (f"^{said}; Computed live: ",),
        )
        for path, place, said in (
            (FINETUNED, (None, 0.0), "at the pre-trained model"), (GRAFT, (40, 0.0), "at the pre-trained model"),
            (FINETUNED, (None, 1.0), "at the fine-tuned model"), (GRAFT, (40, 1.0), "at the graft (region of 1%)"),
            (FINETUNED, (None, 0.35), "at α = 35% of WiSE-FT"),
        )
    },
    "the command of the same run with its grid": (
        lambda: words.missing(record()), ("^python -m skillviz localize ", " --interpolation --also TASK$"),
    ),
    "a model with a head": (lambda: " ".join(words.deviations(record(readout="head"))), ("head",)),
    "a model without one": (lambda: " ".join(words.deviations(record(readout="prompt"))), (), ("head",)),
})  # fmt: skip


@pytest.mark.parametrize("middle", [0.08, 0.06])
def test_the_best_is_the_fine_tuned_model_where_none_has_a_lower_debiased_error(middle: float) -> None:
    known = grid(0.85, (-0.05, -0.08, -0.02), "ece")
    is_middle, is_tuned = known.points["alpha"] == 0.7, known.points["alpha"] == 1
    errors = known.points["value"].mask(is_tuned, 0.1).mask(is_middle, 0.09)  # lower in the middle
    points = known.points.assign(value=errors, debiased=errors.mask(is_tuned, 0.06).mask(is_middle, middle))
    said = best(replace(known, points=points), "ece")
    assert said.startswith("Best ECE on IMDb: **6.0%** at the fine-tuned model. No known point beats")


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


def of_run(run: Run, points: bool = True, bins: bool = True) -> grids.Grid:
    """Return the grid of a run, with or without its stored points and histograms."""
    stored = run.interpolation() if points else empty("interpolation")
    return grids.of_run(run, stored, run.interpolation_bins() if bins else empty("interpolation_bins"), run.predictions)


@pytest.fixture
def whole(run: Run) -> grids.Grid:
    return of_run(run)


@pytest.fixture
def bare(run: Run) -> grids.Grid:
    return of_run(run, points=False, bins=False)


def test_a_stored_grid_is_taken_as_it_is(run: Run, whole: grids.Grid) -> None:
    stored = len(run.interpolation()), len(run.interpolation_bins())
    assert (whole.between, whole.sizes()) == (("sst2", "imdb"), sorted(run.record.sizes))
    assert (len(whole.points), len(whole.bins)) == stored
    for dataset in whole.between:  # the histograms use the same examples
        assert whole.examples(dataset) == whole.at("bins", dataset, FINETUNED, None, 0.5)["count"].sum() > 0


@pytest.mark.parametrize("dataset", ["sst2", "imdb"])
@pytest.mark.parametrize("path", [FINETUNED, GRAFT])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_without_a_grid_the_ends_come_from_the_scores_and_predictions(
    dataset: str, path: str, alpha: float, run: Run, whole: grids.Grid, bare: grids.Grid
) -> None:
    assert (bare.between, bare.sizes(), list(run.datasets)) == ((), [run.record.size], ["sst2", "imdb"])
    place = dataset, path, run.record.size if path == GRAFT else None, alpha
    both = bare.at("points", *place).merge(whole.at("points", *place), on="metric", suffixes=("", "_stored"))
    assert {"accuracy", "ece", "nll", *(["accuracy_difference"] if alpha == 1 else [])} <= set(both["metric"])
    assert both["value"].tolist() == pytest.approx(both["value_stored"].tolist(), abs=1e-12)
    one, two = (g.at("bins", *place).sort_values("bin")[["count", "correct"]] for g in (bare, whole))
    assert one.to_numpy().tolist() == two.to_numpy().tolist()


def test_a_run_on_its_own_task_alone_knows_its_ends(ids: dict[str, str]) -> None:
    found = of_run(library().open(ids["paraphrase"]))
    assert (set(found.points["dataset"]), sorted(found.points["alpha"].unique())) == ({"mrpc"}, [0, 1])
    assert found.nearest("imdb", FINETUNED, 10, 0.5) is None


@pytest.mark.parametrize(
    ("alpha", "near"), [(0.0, 0.0), (0.04, 0.0), (0.06, 0.1), (0.35, 0.3), (0.97, 1.0), (1.0, 1.0)]
)
def test_the_nearest_point_by_size_then_alpha(run: Run, whole: grids.Grid, alpha: float, near: float) -> None:
    """The nearest size is that in orders of magnitude."""
    assert sorted(run.record.sizes) == [65, 656]
    found = [whole.nearest("imdb", path, size, alpha) for path, size in ((FINETUNED, 1), (GRAFT, 300), (GRAFT, 150))]
    assert found == [(size, pytest.approx(near)) for size in (None, 656, 65)]


def test_what_was_traced_takes_the_place_of_what_was_known(run: Run, bare: grids.Grid) -> None:
    rows = run.interpolation().query("dataset == 'imdb' and alpha != 0.5")
    bins = run.interpolation_bins().query("dataset == 'imdb'")
    told = [f.astype(object).where(f.notna(), None).to_dict("list") for f in (rows, bins)]
    found = bare.traced({"dataset": "imdb", "rows": told[0], "bins": told[1], "n": 120})
    assert (found.between, found.traced_on, bare.traced_on) == (("imdb",), {"imdb": 120}, {})
    counts, known = (one.points["dataset"].value_counts().to_dict() for one in (found, bare))
    assert counts == {"imdb": len(rows), "sst2": known["sst2"]}
    assert found.points.dtypes.astype(str).to_dict() == bare.points.dtypes.astype(str).to_dict()


def test_the_best_point_has_the_lowest_debiased_error_not_the_lowest_plug_in_one(whole: grids.Grid) -> None:
    told = [(0.0, 0.060, 0.055), (0.5, 0.027, 0.016), (0.6, 0.023, 0.020)]  # alpha, plug-in, debiased
    common = {"path": FINETUNED, "size": None, "dataset": "imdb", "metric": "ece", "low": 0.0, "high": 0.1}
    points = pd.DataFrame([{**common, "alpha": a, "value": v, "debiased": d} for a, v, d in told]).astype(
        {"size": "Int64"}
    )
    for known, alpha in ((points, 0.5), (points.assign(debiased=np.nan), 0.6)):
        found = grids.Grid(known, pd.DataFrame(columns=grids.BIN_COLUMNS), ("imdb",)).best("imdb", "ece")
        assert found == (FINETUNED, None, alpha)
    path, size, alpha = whole.best("imdb", "ece")  # type: ignore[misc]
    rows = whole.points.query("dataset == 'imdb' and metric == 'ece'")
    assert grids.estimate(whole.at("points", "imdb", path, size, alpha), "ece").read == rows["debiased"].min()


def test_an_answer_becomes_a_point() -> None:
    metrics = {"accuracy": {"value": 0.5, "low": 0.4, "high": 0.6}, "f1": {"value": None, "low": None, "high": None}}
    counts = {"bin": np.arange(15), "count": np.arange(15), "correct": np.zeros(15, dtype=int)}
    answer = {"metrics": metrics, "bins": {**counts, "confidence": np.full(15, 0.5)}}
    rows, bins = grids.point_of(answer, "imdb", GRAFT, 77, 0.35)
    assert rows[["size", "alpha"]].to_numpy().tolist() == [[77, 0.35]] * 2 and len(bins) == 15
    found = grids.estimate(rows, "accuracy").low, grids.estimate(rows, "f1").value, grids.estimate(rows, "ece")
    assert found == (0.4, None, None)
    assert grids.point_of(answer, "imdb", FINETUNED, None, 0.35)[0]["size"].isna().all()
    edges = grids.with_edges(bins)
    assert (edges["lower"].iloc[0], edges["upper"].iloc[-1]) == (0, 1) and (edges["upper"] > edges["lower"]).all()


def test_a_run_of_an_earlier_version_has_no_histogram_between_its_ends(run: Run) -> None:
    found = of_run(run, bins=False)
    assert (sorted(found.bins["alpha"].unique()), found.between) == ([0, 1], ("sst2", "imdb"))
    assert [found.at("bins", "imdb", GRAFT, 65, alpha).empty for alpha in (0.5, 1.0)] == [True, False]


def test_both_paths_are_marked_at_one_place(run: Run, whole: grids.Grid) -> None:
    points, bins = whole.marked(run.datasets, 65, 0.4)
    chosen, lines = points[points["current"]], points[~points["current"]].groupby(["dataset", "path"])["alpha"]
    assert (set(chosen["alpha"]), set(chosen["size"].dropna())) == ({0.4}, {65})
    assert (len(chosen.groupby(["dataset", "path"])), len(bins), lines.nunique().tolist()) == (4, 4 * 15, [11] * 4)


def note(name: str = "imdb", value: float = 0.04, low: float = 0.01, high: float = 0.07, **changes: Any) -> Any:
    """Return a transfer with this difference in accuracy."""
    scores = Scores(n=100, states={}, differences={"accuracy": Estimate(value=value, low=low, high=high)})
    given = {"mapping": {"neg": "negative", "pos": "positive"}, "rows": 120, "dropped": 15, "unmapped": 5}
    return TransferNote(name=name, named=f"{name}.yaml", scores=scores, **{**given, **changes})


def of_pairs(gained: int, lost: int) -> Any:
    differences = {"accuracy": Estimate(value=0.04, low=0.01, high=0.07, gained=gained, lost=lost)}
    return note().model_copy(update={"scores": Scores(n=100, states={}, differences=differences)})


def with_states() -> Any:
    states = {"grafted": {"accuracy": Estimate(value=0.8)}, "finetuned": {"accuracy": Estimate(value=0.76)}}
    return note().model_copy(update={"scores": note().scores.model_copy(update={"states": states})})


NOT_CLEAR = note("mr", 0.01, -0.02, 0.04)
FEW, MANY = of_pairs(2, 0), of_pairs(20, 4)  # McNemar's p: 0.16 and 0.001
SIX = [note(f"t{k}") for k in range(3)] + [note("a"), note("b"), note("c", 0.0, -0.1, 0.1)]
test_what_is_said_of_transfers = says({
    "each task has its verdict": (
        lambda: to_others.summary([note(), note("yelp", -0.05, -0.08, -0.02), NOT_CLEAR], "accuracy"),
        ("^IMDb, zero-shot: accuracy +4.0 points", ": **better**; Yelp, zero-shot: accuracy −5.0 points",
         ": **worse**; MR, zero-shot:",
         ": **no clear difference**."),
        ("comparisons",),
    ),
    # How many comparisons hold follows from the discordant pairs; without them, from the p-value of the interval.
    "few discordant pairs": (lambda: to_others.comparisons(3 * [FEW, MANY], "accuracy"), ("6 exclude zero", "3 hold")),
    "intervals alone": (lambda: to_others.comparisons(6 * [note()], "accuracy"), ("6 hold",)),
    "both scores stand beside the difference": (
        lambda: to_others.findings([with_states()], "accuracy")[0][1],
        ("^IMDb, zero-shot: accuracy **80.0%** grafted vs 76.0% fine-tuned, +4.0 points",),
    ),
    "many tasks are counted": (
        lambda: to_others.summary(SIX, "accuracy"),
        ("3 more: better on 2, no clear difference on 1", "t2"),
        ("; a, ",),
    ),
    "what was left out": (
        lambda: to_others.counted(note()),
        ("^**100 examples** scored · 15 skipped (seen in training) · 5 skipped (label not mapped)$",),
    ),
    "a sample": (lambda: to_others.counted(note(rows=1120)), ("^**100 examples** scored, a sample of 1,100 ·",)),
    "a command with its task": (lambda: to_others.missing(record(), ["imdb"]), ("--also imdb$",)),
    "a command without one": (lambda: to_others.missing(record(), []), ("--also TASK$",)),
    "no other task": (lambda: to_others.summary([], "accuracy"), (f"^{to_others.ALONE}$",)),
    "one task is no comparison": (lambda: to_others.comparisons([note()], "accuracy"), ("^$",)),
    "each has its verdict": (
        lambda: "; ".join(verdict for verdict, _ in to_others.findings([note(), NOT_CLEAR], "accuracy")),
        ("^better; no clear difference$",),
    ),
})  # fmt: skip


test_the_mapping_is_a_table_with_the_words_that_were_asked_for = equal({
    "its columns": (
        lambda: to_others.mapping(note(), ("negative", "positive")).columns.tolist(), ["label there", "label here"],
    ),
    "its words": (
        lambda: to_others.mapping(
            note(words=("bad", "good"), mapping={"pos": "positive", "mid": None}), ("negative", "positive")
        )[["answer word", "label here"]].to_numpy().tolist(),
        [["good", "positive"], ["", "skipped"]],
    ),
})  # fmt: skip

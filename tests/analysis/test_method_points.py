"""Tests of methods as points: the touched share, differences as "method − graft", sizes and several studies."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis import method_points
from skillviz.analysis.tables import check
from skillviz.core.localizers.table import RIVALS
from skillviz.core.metrics import panels
from tests.core.by_hand import by_hand, near
from tests.studies.fake_tables import FAKE_TABLES, SIZES, TASKS, D

TASK = "sst2_sentences"
SELECTION = method_points.Selection(TASK, "all", "stagewise")


SCORES = check(FAKE_TABLES["scores"](TASKS, np.random.default_rng(0)), "scores")
DIFFERENCES = check(FAKE_TABLES["differences"](TASKS, np.random.default_rng(0)), "differences")
RANKS = {"rank 1, last 1 matrix": 0.001, "rank 1": 0.008, "rank 4": 0.11}


def selected(scores: pd.DataFrame) -> pd.DataFrame:
    return method_points.points(scores, SELECTION, TASK)


def every(scores: pd.DataFrame) -> pd.DataFrame:
    return method_points.every_point(scores, TASK, TASK)


def against(differences: pd.DataFrame, share: float, *more: pd.DataFrame) -> pd.DataFrame:
    return method_points.against_graft(differences, SELECTION, TASK, share, *more)


def of_method(frame: pd.DataFrame, method: str, **changes: object) -> pd.DataFrame:
    """Return the method's rows with these changes."""
    return frame[frame["method"] == method].assign(**changes)


def series(points: pd.DataFrame) -> set[tuple[str, str, str]]:
    """Return the (method, recipe, label) triples, one for each line of the figure."""
    return set(points[["method", "recipe", "label"]].itertuples(index=False, name=None))


TWO_BASES = every(pd.concat([SCORES, SCORES.assign(
    base="my/base", mean=0.0, size=2 * SCORES["size"], touched=2 * SCORES["touched"])], ignore_index=True))  # fmt: skip
OF_LORA = of_method(SCORES, "pretrained", recipe="lora", variant="rank 1", mean=lambda rows: rows["mean"] + 0.3)
OWN = DIFFERENCES.query("id_task == @TASK and task == @TASK and metric == 'ece' and share == 0.01")
TURNED = against(DIFFERENCES, 0.01).set_index(["method", "metric"])
# LoRA has a point per rank, the graft one per training; temperature scaling is drawn for one model only.
WAYS = every(pd.concat([
    of_method(SCORES.query("id_task == @TASK and task == @TASK"), method, recipe=recipe, variant=variant)
    for method, recipe, variant in (
        ("lora", "lora", "rank 1"), ("lora", "lora", "rank 8"), ("ft", "sgd", "1 step"),
        ("ft", "sgd", "300 steps, lr 0.05"), ("ft_scaled", "lora", "rank 1"), ("ft_scaled", "sgd", "1 step"),
        ("graft", "sgd", "1 step"), ("graft", "adamw", "300 steps"))
], ignore_index=True))  # fmt: skip
OF_RANKS = pd.concat([DIFFERENCES[DIFFERENCES["a"] != "lora"], *(
    DIFFERENCES[DIFFERENCES["a"] == "lora"].assign(variant=name, value=value)
    for name, value in zip(RANKS, (0.1, 0.2, 0.3), strict=True))])  # fmt: skip
LORA = [of_method(SCORES, "lora", variant=way, touched=touched * D) for way, touched in RANKS.items()]
WITH_RANKS = pd.concat([SCORES[SCORES["method"] != "lora"], *LORA])
ADAMW = pd.concat([SCORES, of_method(SCORES, "graft", recipe="adamw")])
MOVEMENT = DIFFERENCES[DIFFERENCES["b"] == "graft_movement"]
SCALED = [
    of_method(SCORES, "ft_scaled", recipe=recipe, touched=0.004 * D, mean=0.0)
    for recipe in ("bitfit", "graft-retrain", "lora")
]
FEWER = DIFFERENCES[~((DIFFERENCES["share"] == 0.1) & (DIFFERENCES["a"] != "graft"))]
test_by_hand = by_hand(
    *((f"touched by {method}, a share of the graftable parameters", near(shares),
       lambda method=method: sorted(of_method(selected(SCORES), method)["touched"].unique()))
      for method, shares in (("pretrained", [0]), ("ft", [1]), ("bitfit", [0.004]), ("graft", list(SIZES)))),
    *((f"the pre-trained model has the fine-tuned models' head, {read.__name__}",
       (True, sorted(of_method(read(SCORES), "pretrained")["value"])), lambda values: (len(values) > 0, values),
       sorted(of_method(read(pd.concat([OF_LORA, SCORES], ignore_index=True)), "pretrained")["value"]))
      for read in (selected, every)),
    ("the only base there is stays", True, lambda: "pretrained" in set(selected(pd.concat(
        [OF_LORA, SCORES[SCORES["method"] != "pretrained"]], ignore_index=True))["method"])),
    ("differences are turned to method less graft",
     (-OWN.query("a == 'graft' and b == 'ft'").iloc[0][["value", "high", "low", "debiased"]].astype(float)).tolist(),
     lambda: TURNED.loc[("ft", "ece"), ["value", "low", "high", "debiased"]].tolist()),
    ("a method less graft stays", OWN.query("a == 'bitfit'")["value"].iloc[0],
     lambda: TURNED.loc[("bitfit", "ece"), "value"]),
    ("every point names what differs among models of one recipe", {
        ("lora", "", "rank 1"), ("lora", "", "rank 8"), ("ft", "", "1 step"), ("ft", "", "300 steps, lr 0.05"),
        ("ft_scaled", "", "1 step"), ("graft", "", "1 step"), ("graft", "adamw", "300 steps"),
    }, series, WAYS),
    ("and no temperature's accuracy", False, lambda: "accuracy" in set(of_method(WAYS, "ft_scaled")["metric"])),
    # The second base is twice as large and has the value 0 everywhere.
    ("another base", ({0.0}, True), lambda: (set(TWO_BASES[TWO_BASES["label"] == "base"]["value"]),
                                             (TWO_BASES[TWO_BASES["label"] != "base"]["value"] > 0).all())),
    ("what is touched is a share of the row's own base", near(1),
     lambda: of_method(TWO_BASES, "ft")["touched"].to_numpy()),
    *((f"a graft of another {next(iter(change))} is a line of its own", (set(), False),
       lambda points, lines: (lines - series(points), "complement" in set(points["method"])),
       read(pd.concat([SCORES, of_method(SCORES, "graft", **change)])), lines) for read, change, lines in (
        (selected, {"recipe": "adamw"}, {("graft", "", ""), ("graft", "adamw", "")}),
        (every, {"localizer": "learned"}, {("graft", "", ""), ("graft", "", "learned"), ("graft_random", "", "")}))),
    *((f"a graft of {share} is compared with the LoRA of its size", ({value}, True),
       lambda of: (set(of["value"]), len(of) == of["metric"].nunique()),
       of_method(against(OF_RANKS, share, WITH_RANKS), "lora"))
      for share, value in zip(SIZES, (0.1, 0.2, 0.3), strict=True)),
    ("every method may be shown", set(), lambda: set(selected(SCORES)["method"]) - set(method_points.SHOWN)),
    ("rows that two studies share count once", SCORES["mean"].tolist(), lambda: method_points.joined(
        [SCORES, SCORES.assign(mean=0.0), pd.DataFrame()], method_points.KEYS)["mean"].tolist()),
    ("no studies", True, lambda: method_points.joined([], method_points.KEYS).empty),
    ("a temperature is no method of its own in accuracy", {"ece", "nll"},
     lambda: set(of_method(selected(SCORES), "ft_scaled")["metric"])),
    ("LoRA of every size is a point", near(list(RANKS.values())),
     lambda: sorted(of_method(selected(WITH_RANKS), "lora").query("metric == 'accuracy'")["touched"])),
    *((f"the temperature is that of the fine-tuned model, {read.__name__}", ({1.0}, True), lambda of: (
        set(of["touched"]), of["value"].min() > 0),
       of_method(read(pd.concat([*SCALED, SCORES], ignore_index=True)), "ft_scaled")) for read in (selected, every)),
    ("the page asks for few methods first", True, lambda: {"graft", "ft", "lora", "bitfit"} <= set(
        method_points.main_ones(selected(ADAMW))["method"]) <= set(method_points.MAIN)),
    ("it has further ones", True, method_points.has_further, ADAMW, SELECTION),
    ("no further ones", False, method_points.has_further, SCORES[SCORES["method"].isin(("graft", "ft"))], SELECTION),
    ("every other choice of a region is compared", set(), lambda: {"graft_dare", *RIVALS} - set(against(
        pd.concat([DIFFERENCES, *(MOVEMENT.assign(b=rival) for rival in RIVALS)]), 0.01)["method"])),
    ("transfer goes to the tasks that were not trained on", ["cr", "yelp_reviews"], method_points.other_tasks, SCORES,
     SELECTION),
    *((f"the main size, {name}", size, method_points.main_size, rows, SELECTION, share) for name, rows, share, size in (
        ("as asked for", DIFFERENCES, 0.1, 0.1), ("the smallest", DIFFERENCES, None, 0.001),
        ("among equals", FEWER, 0.1, 0.001))),
    ("sizes", near(list(SIZES)), method_points.sizes, DIFFERENCES, SELECTION),
    ("no sizes", [], method_points.sizes, pd.DataFrame(), SELECTION),
    ("the metric of a task", "accuracy", method_points.scored_metric, SCORES, TASK),
    *((f"a task's own metric, {metric}", metric, method_points.scored_metric, pd.DataFrame(
        {"task": "t", "mean": 0.5, "metric": [*panels(metric), "agreement", "recovered"]}), "t")
      for metric in ("accuracy", "f1", "exact_match")),
    # Bases go by the last part of their names where that tells them apart.
    *((f"bases {', '.join(names)}", names, method_points.base_names, list(names))
      for names in ({"a/one": "one", "b/two": "two"}, {"a/one": "a/one", "b/one": "b/one"})),
)  # fmt: skip

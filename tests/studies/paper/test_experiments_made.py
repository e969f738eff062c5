"""Tests of every experiment from plan to report on tiny models; all share one store and one set of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.models.finetune.recipes import RECIPES
from skillviz.runs.store import Store
from skillviz.studies.engine import run_study
from skillviz.studies.paper.experiments import EXPERIMENTS, figure4, sensitivity, table8
from skillviz.studies.paper.scales import Scale
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import StudyFolder, open_study
from tests.studies.tiny_studies import tiny_scale, write_world
from tests.tiers import first, in_the_night

OF_ONE_TASK = [name for name in EXPERIMENTS if name not in ("table4", "figure8")]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny base and its tasks."""
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of runs and models of all tests in this file."""
    return tmp_path_factory.mktemp("stored")


@pytest.fixture
def small(world: Path, stored: Path, monkeypatch: pytest.MonkeyPatch) -> Scale:
    """Return the tiny scale, with shorter lists of constants, and models kept in `stored`."""
    monkeypatch.setenv("SKILLVIZ_FINETUNED", str(stored / "finetuned-models"))
    for constant, values in {"RATES": (1e7,), "STEPS": (2, 3), "BATCHES": (8,)}.items():
        monkeypatch.setattr(sensitivity, constant, values)
    monkeypatch.setattr(figure4, "LOTTERY", (0.2, 0.9))
    return tiny_scale(world)


def made(name: str, small: Scale, stored: Path) -> StudyFolder:
    """Run an experiment's study, check that every step is done, and return it."""
    outcome = run_study(StudySpec(**EXPERIMENTS[name].build(small)), Store(stored / "runs"))
    assert [failure.message for _, failure in outcome.failed] == [] and outcome.is_whole
    folder = open_study(outcome.path)
    assert folder is not None
    return folder


def of_own_task(folder: StudyFolder) -> pd.DataFrame:
    """Return the test scores on the model's own task."""
    frame = folder.table("scores")
    return frame[(frame["split"] == "test") & (frame["id_task"] == frame["task"])]


@pytest.mark.cases(0, 1)
@pytest.mark.slow
@pytest.mark.parametrize("name", first(OF_ONE_TASK, ("table1",).__contains__, in_the_night))
def test_an_experiment_from_end_to_end(name: str, small: Scale, stored: Path) -> None:
    folder = made(name, small, stored)
    assert set(EXPERIMENTS[name].makes) <= set(folder.tables())
    assert len(folder.table("note"))
    if "scores" not in folder.tables():
        return
    scores, planned = of_own_task(folder), study_plan(folder.study)
    methods = {LOCALIZERS[run.localizer].method for run in planned.runs}
    methods |= {RECIPES[model.recipe].method for model in planned.finetuned}
    assert methods | set(EXPERIMENTS[name].methods) <= set(scores["method"])
    assert scores[scores["metric"].isin(["accuracy", "ece", "agreement"])]["mean"].between(0, 1).all()
    if "differences" in folder.tables():
        rows = folder.table("differences")
        assert len(rows) and (rows["value"] >= rows["low"] - 1e-9)[rows["low"].notna()].all()


slow, nightly = (partial(pytest.param, marks=mark) for mark in (pytest.mark.slow, pytest.mark.nightly))
RIVALS = "task == id_task and localizer == 'stagewise' and a == 'graft' and b == 'graft_movement'"
TOLD = {
    "all models": slow(
        "table2", lambda of: {"pretrained", "ft_scaled", "complement"} - {*of_own_task(of)["method"]}, set()
    ),
    "what recovers the gain": slow(
        "table2", lambda of: {*of.table("recovered")["localizer"]} - {"stagewise", "movement", "learned"}, set()
    ),
    "where regions lie": slow(
        "table2", lambda of: sums(of.table("composition").query("localizer == 'stagewise'"), "seed", "share"),
        {0: pytest.approx(1), 1: pytest.approx(1)},
    ),
    "other data": nightly(
        "table3", lambda of: {"graft", "graft_retrain", "bitfit", "lora"}
        - {*of.table("scores").query("task == 'other'")["method"]}, set(),
    ),
    "regions at every size": slow(
        "table8", lambda of: of.table("overlap").query("column_localizer == 'fisher'").eval(
            "0 <= value <= 1 and chance > 0"
        ).tolist(), [True] * 3,
    ),
    "one pair of two seeds": slow(
        "table8", lambda of: of.table("overlap").query("row_localizer == column_localizer")["seeds"].tolist(), [2] * 3
    ),
    "pairs at every size of the curve": slow(
        "figure2", lambda of: of.table("differences").query(f"{RIVALS} and metric == 'accuracy'")["over"].tolist(),
        ["examples and seeds"] * 3,
    ),
    "both readouts": slow("figure3", lambda of: {*of_own_task(of)["readout"]}, {"prompt", "head"}),
    "every test example": slow(
        "figure6", lambda of: sorted(sums(of.table("histogram").fillna(0), ["state", "share"], "count").values()),
        [16] * 3,
    ),
    "two states, the graft at two sizes": slow(
        "figure6", lambda of: of.table("histogram").groupby("state")["share"].nunique().to_dict(),
        {"finetuned": 0, "grafted": 2},
    ),
    "every setting": nightly(
        "sensitivity", lambda of: of.table("sensitivity").query("metric == 'accuracy' and localizer == 'learned'")[
            ["bias", "steps"]
        ].value_counts().to_dict(), dict.fromkeys(product((5.0, 10.0), (2, 3)), 2),
    ),
    "every search": nightly(
        "sensitivity", lambda of: {*of.table("sensitivity").query("metric == 'accuracy'")["localizer"]},
        {"learned", "learned-ranked", "stagewise"},
    ),
}  # fmt: skip


def sums(frame: pd.DataFrame, by: str | list[str], column: str) -> dict[Any, float]:
    return frame.groupby(by)[column].sum().to_dict()


@pytest.mark.parametrize(("name", "read", "wanted"), TOLD.values(), ids=TOLD)
def test_an_experiment_tells(
    name: str, read: Callable[[StudyFolder], Any], wanted: Any, small: Scale, stored: Path
) -> None:
    assert read(made(name, small, stored)) == wanted


@pytest.mark.slow
def test_table1_touches_what_each_method_trains(small: Scale, stored: Path) -> None:
    folder = made("table1", small, stored)
    scores = of_own_task(folder).query("metric == 'accuracy'")
    touched, main = scores.groupby("method")["touched"].mean(), scores.query("method == 'graft'")["size"].min()
    assert 0 == touched["pretrained"] < touched["graft_retrain"] <= main * 6
    assert max(touched["bitfit"], touched["graft_retrain"]) < touched["ft"]
    seeds = scores.set_index("method")["seeds"]
    assert seeds[["graft_retrain", "bitfit", "lora"]].to_dict() == {"graft_retrain": 2, "bitfit": 3, "lora": 3}
    rows = folder.table("differences").query("a == 'lora' and metric == 'accuracy'")
    assert {"ft", "graft"} == set(rows["b"]) and folder.table("note")["text"].str.startswith("LoRA: ").any()


@pytest.mark.nightly
def test_table8_compares_regions_of_one_model_where_several_were_fine_tuned(small: Scale, stored: Path) -> None:
    """Both studies are in the same folder."""
    one = made("table8", small, stored)
    overlap, said = one.table("overlap"), set(one.table("note")["text"])
    two = made("table8", replace(small, seeds=2), stored)
    assert two.table("overlap").equals(overlap)
    assert of_own_task(two).query("method == 'ft' and metric == 'accuracy'")["seeds"].tolist() == [2]
    assert (table8.FIRST in said, table8.FIRST in set(two.table("note")["text"])) == (False, True)

"""Tests of every experiment from plan to report on tiny models; all share one store and one set of models."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.errors import BadInput
from skillviz.models.finetune.recipes import RECIPES
from skillviz.runs.store import Store
from skillviz.studies.engine import run_study
from skillviz.studies.paper.experiments import EXPERIMENTS, figure4, sensitivity, table8
from skillviz.studies.paper.scales import Scale, scale
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import StudyFolder, open_study
from tests.studies.tiny_studies import tiny_scale, write_world
from tests.tiers import first, in_the_night


def _takes_one_task(name: str) -> bool:
    try:
        return bool(EXPERIMENTS[name].build(scale("small").with_choices(tasks=("mr",))))
    except BadInput:  # it needs one model of several tasks
        return False


OF_ONE_TASK = [name for name in EXPERIMENTS if _takes_one_task(name)]


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
    study = StudySpec(**EXPERIMENTS[name].build(small))
    outcome = run_study(study, Store(stored / "runs"))
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


@pytest.mark.slow
def test_table1_touches_what_each_method_trains(small: Scale, stored: Path) -> None:
    folder = made("table1", small, stored)
    scores = of_own_task(folder).query("metric == 'accuracy'")
    touched = scores.groupby("method")["touched"].mean()
    main = scores.query("method == 'graft'")["size"]
    assert 0 < touched["graft_retrain"] <= main.min() * 6 and touched["pretrained"] == 0
    assert touched["bitfit"] < touched["ft"] and touched["graft_retrain"] < touched["ft"]
    assert scores.query("method == 'graft_retrain'")["seeds"].tolist() == [2]
    assert scores.query("method in ('bitfit', 'lora')")["seeds"].tolist() == [3, 3]
    rows = folder.table("differences").query("a == 'lora' and metric == 'accuracy'")
    assert {"ft", "graft"} == set(rows["b"]) and folder.table("note")["text"].str.startswith("LoRA: ").any()


@pytest.mark.slow
def test_table2_tells_what_recovers_the_gain_and_where_it_lies(small: Scale, stored: Path) -> None:
    folder = made("table2", small, stored)
    assert {"pretrained", "ft_scaled", "complement"} <= set(of_own_task(folder)["method"])
    assert set(folder.table("recovered")["localizer"]) <= {"stagewise", "movement", "learned"}
    shares = folder.table("composition").query("localizer == 'stagewise'").groupby("seed")["share"].sum()
    assert shares.tolist() == pytest.approx([1.0] * len(shares))


@pytest.mark.nightly
def test_table3_scores_other_data(small: Scale, stored: Path) -> None:
    scores = made("table3", small, stored).table("scores").query("task == 'other'")
    assert {"graft", "graft_retrain", "bitfit", "lora"} <= set(scores["method"])


@pytest.mark.slow
def test_table8_compares_regions_at_every_size(small: Scale, stored: Path) -> None:
    overlap = made("table8", small, stored).table("overlap")
    rivals = overlap.query("column_localizer == 'fisher' and 0 <= value <= 1 and chance > 0")
    assert len(rivals) == len(overlap.query("column_localizer == 'fisher'")) == 3
    itself = overlap.query("row_localizer == column_localizer")
    assert itself["seeds"].tolist() == [2, 2, 2], "one pair of two seeds"


@pytest.mark.nightly
def test_table8_compares_regions_of_one_model_where_several_were_fine_tuned(small: Scale, stored: Path) -> None:
    """Both studies are in the same folder."""
    one = made("table8", small, stored)
    overlap, said = one.table("overlap"), set(one.table("note")["text"])
    two = made("table8", replace(small, seeds=2), stored)
    assert two.table("overlap").equals(overlap)
    assert of_own_task(two).query("method == 'ft' and metric == 'accuracy'")["seeds"].tolist() == [2]
    assert (table8.FIRST in said, table8.FIRST in set(two.table("note")["text"])) == (False, True)


@pytest.mark.slow
def test_figure2_pairs_every_size_of_its_curve(small: Scale, stored: Path) -> None:
    rows = made("figure2", small, stored).table("differences").query("task == id_task and localizer == 'stagewise'")
    rows = rows.query("a == 'graft' and b == 'graft_movement' and metric == 'accuracy'")
    assert len(rows) == len(small.curve) and set(rows["over"]) == {"examples and seeds"}


@pytest.mark.slow
def test_figure3_tells_the_readouts_apart(small: Scale, stored: Path) -> None:
    assert set(of_own_task(made("figure3", small, stored))["readout"]) == {"prompt", "head"}


@pytest.mark.slow
def test_figure6_counts_every_test_example(small: Scale, stored: Path) -> None:
    frame = made("figure6", small, stored).table("histogram")
    counts = frame.groupby(["state", "share"], dropna=False)["count"].sum().reset_index()
    assert counts[["state", "count"]].values.tolist() == [["finetuned", 16], ["grafted", 16], ["grafted", 16]]


@pytest.mark.nightly
def test_sensitivity_tells_every_setting(small: Scale, stored: Path) -> None:
    frame = made("sensitivity", small, stored).table("sensitivity").query("metric == 'accuracy'")
    learned = frame.query("localizer == 'learned'")[["bias", "steps"]].value_counts()
    assert learned.to_dict() == dict.fromkeys(product((5.0, 10.0), (2, 3)), 2)
    assert set(frame["localizer"]) == {"learned", "learned-ranked", "stagewise"}


@pytest.mark.nightly
def test_a_second_asking_does_nothing_again(small: Scale, stored: Path) -> None:
    made("figure6", small, stored)
    study = StudySpec(**EXPERIMENTS["figure6"].build(small))
    assert not run_study(study, Store(stored / "runs")).finished

"""Tests of the observations that a study's tables take from a store's runs; the runs are invented, without a model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skillviz.analysis.observations import method_of, of_run, sentences
from skillviz.analysis.overlaps import overlap_of_localizers
from skillviz.analysis.run_tables import composition, sensitivity
from skillviz.core.metrics import HEADLINE
from skillviz.core.overlap import matched_iou
from skillviz.core.stability import stability
from skillviz.runs.store import Store
from skillviz.studies.finetuned_model import FineTunedSpec
from skillviz.studies.make_tables import make_tables
from skillviz.studies.plan import study_plan
from skillviz.studies.results import Results
from skillviz.studies.spec import StudySpec
from skillviz.studies.study_observations import of_results
from tests.fake_run import fake_run

TINY: dict[str, Any] = {"n": {"validation": 20, "test": 60}, "layers": 2, "width": 8, "steps": 2}
PAIR = {"base": "demo/tiny-base", "finetuned": "demo/tiny-sst2", "task": "sst2"}
SIZES = ["1%", "10%"]
SEARCHES = {"stagewise": (0, 1, 2), "movement": (0,), "random": (0, 1, 2)}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return a finished study of three localizers at two sizes on one pair."""
    store = Store(tmp_path_factory.mktemp("runs"))
    for name, seeds in SEARCHES.items():
        for seed in seeds:
            fake_run(store, localizer=name, seed=seed, sizes=SIZES, others=("mr",), **TINY)
    entries = [
        {**PAIR, "localizer": name, "sizes": SIZES, "seed": list(seeds), "others": ["mr"]}
        for name, seeds in SEARCHES.items()
    ]
    return Results(study_plan(StudySpec(name="made-up", runs=tuple(entries))), store)


@pytest.mark.nightly
def test_every_state_size_and_task_is_observed_once(results: Results) -> None:
    found = of_results(results)
    tested = [one for one in found if one.split == "test" and one.task == "sst2"]
    ends = [one for one in tested if one.method in ("pretrained", "ft", "ft_scaled")]
    assert len(ends) == 3 and all(one.answers is not None for one in ends)
    grafts = [one for one in tested if one.method == "graft"]
    assert {(one.requested_size, one.seed) for one in grafts} == {(size, seed) for size in SIZES for seed in (0, 1, 2)}
    assert all((one.answers is not None) == (one.requested_size == SIZES[0]) for one in grafts)
    assert {one.method for one in found if one.task == "mr"} >= {"pretrained", "ft", "graft", "graft_movement"}


@pytest.mark.slow
def test_what_was_left_out_elsewhere_is_said(results: Results) -> None:
    said = sentences(of_results(results))
    assert any("12 of 72 test examples are also in the training data of sst2" in text for text in said)
    assert any("One fine-tuned model" in text for text in said)


@pytest.mark.slow
@pytest.mark.cases(1, 1)
@pytest.mark.parametrize(("recipe", "entries"), [("lora", 64.0), ("bitfit", 4096.0)])
def test_lora_is_told_by_what_it_trains(results: Results, recipe: str, entries: float) -> None:
    """LoRA's merged change fills whole matrices."""
    model = FineTunedSpec(base="b", tasks=("sst2",), recipe=recipe)
    made = SimpleNamespace(
        finetuned_of=lambda _: model,
        entry=lambda _: {"recipe": recipe},
        runs=lambda: results.runs()[:1],
        scores=lambda: [],
        training_record=lambda *_: {"finetune": {"touched": 4096, "trained": 64}},
    )
    assert {one.touched for one in of_results(made) if one.method == recipe} == {entries}  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_tables_of_a_study_without_an_experiment(results: Results) -> None:
    found = make_tables(results.study, results)
    assert {"scores", "differences", "recovered", "composition", "stability", "note"} == set(found)
    own = found["scores"].query("split == 'test' and metric == 'accuracy' and task == 'sst2' and method == 'graft'")
    assert own["seeds"].tolist() == [3, 3] and own["low"].notna().all()
    runs = results.runs(localizer="stagewise")
    values = [run.record.metrics["test"].states["grafted"]["accuracy"].value for run in runs]
    assert own["mean"].iloc[0] == pytest.approx(np.mean([v for v in values if v is not None]))
    rows = found["differences"].query("b == 'graft_movement' and metric == 'accuracy' and task == 'sst2'")
    assert rows.sort_values("size")["over"].tolist() == ["examples and seeds", "examples and seeds, unpaired"]


def test_a_make_up_adds_up(results: Results) -> None:
    frame = composition(results.runs(localizer="stagewise"))
    sums = frame.groupby("seed")[["selected", "total", "share"]].sum()
    run = results.runs(localizer="stagewise")[0]
    assert (sums["selected"] == run.record.size).all() and (sums["total"] == run.record.d).all()
    assert np.allclose(sums["share"], 1.0)
    weighted = (frame["density_ratio"] * frame["total"]).groupby(frame["seed"]).sum() / run.record.d
    assert np.allclose(weighted, 1.0)


def test_regions_of_localizers_are_compared_at_equal_size_and_with_themselves(results: Results) -> None:
    frame = overlap_of_localizers(results.runs())
    run = results.runs(localizer="stagewise")[0]
    size, d = run.record.size or 0, run.record.d or 0
    main = frame[(frame["row_task"] == "sst2") & (frame["size"] == size)].set_index("column_localizer")
    assert set(frame["row_localizer"]) == {"stagewise"} and set(main["share"]) == {size / d}
    assert set(main.index) == {"stagewise", "movement", "random"}
    ours = [own.region() for own in results.runs(localizer="stagewise") if own.record.task_name == "sst2"]
    others = [other.region() for other in results.runs(localizer="random") if other.record.task_name == "sst2"]
    expected = np.mean([matched_iou(a, b) for a in ours for b in others])
    assert main.loc["random", "chance"] == pytest.approx(expected) and expected > size / (2 * d - size)
    assert main["seeds"].to_dict() == {"stagewise": 3, "movement": 3, "random": 3}
    shared, own = stability(ours), main.loc["stagewise"]  # the IoU of seeds has one kind of interval
    assert own[["value", "low", "high"]].tolist() == pytest.approx([shared.iou, shared.low, shared.high])
    # Runs of one seed have one order here, for any localizer: seed 0 shares its whole region with movement's.
    assert main.loc["movement", "value"] > main.loc["stagewise", "value"]


def test_sensitivity_tells_the_constants_that_were_used(tmp_path: Path) -> None:
    runs = [fake_run(Store(tmp_path), localizer=name, sizes=SIZES, **TINY) for name in ("learned", "stagewise")]
    frame = sensitivity(runs).query("metric == 'accuracy'").set_index("localizer")
    assert frame.loc["stagewise", "steps"] == 50 and np.isnan(frame.loc["stagewise", "lr"])
    assert frame.loc["learned", "steps"] == 100 and frame.loc["learned", "batch_size"] == 1024
    assert set(sensitivity(runs)["metric"]) == {*HEADLINE, "recovered"}


def test_a_search_among_biases_is_one_of_biases(tmp_path: Path) -> None:
    run = fake_run(Store(tmp_path), localizer="learned-ranked", sizes=SIZES, **TINY)
    assert method_of(run) == "graft"
    within = run.record.model_copy(update={"spec": run.spec.model_copy(update={"options": {"within": "biases"}})})
    run.record = within
    assert method_of(run) == "graft_biases"
    assert {one.method for one in of_run(run)} == {"pretrained", "ft", "ft_scaled", "graft_biases", "complement"}

"""Tests of the observations that a study's tables take from a store's runs, and of stability over seeds."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skillviz.analysis.observations import method_of, of_run, sentences
from skillviz.analysis.overlaps import overlap_of_localizers
from skillviz.analysis.run_tables import composition, sensitivity, stability_of_runs
from skillviz.core.metrics import HEADLINE
from skillviz.core.overlap import matched_iou
from skillviz.core.stability import stability
from skillviz.studies.finetuned_model import FineTunedSpec
from skillviz.studies.make_tables import make_tables
from skillviz.studies.study_observations import finetuned_labels, of_results
from tests.fake_run import fake_run
from tests.studies.tiny_study import (
    Results,
    Store,
    StudySpec,
    list_studies,
    models_in,
    run_study,
    study_of,
    study_plan,
    tasks,
)

TINY: dict[str, Any] = {"n": {"validation": 20, "test": 60}, "layers": 2, "width": 8, "steps": 2}
SIZES = ["1%", "10%"]
SEARCHES = {"stagewise": (0, 1, 2), "movement": (0,), "random": (0, 1, 2)}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return a finished study of three localizers at two sizes on one pair."""
    store = Store(tmp_path_factory.mktemp("runs"))
    for name, seed in ((name, seed) for name, seeds in SEARCHES.items() for seed in seeds):
        fake_run(store, localizer=name, seed=seed, sizes=SIZES, others=("mr",), **TINY)
    common = {
        "base": "demo/tiny-base", "finetuned": "demo/tiny-sst2", "task": "sst2", "sizes": SIZES, "others": ["mr"],
    }  # fmt: skip
    return Results(
        study_plan(
            StudySpec(
                name="made-up",
                runs=tuple({**common, "localizer": name, "seed": list(seeds)} for name, seeds in SEARCHES.items()),
            )
        ),
        store,
    )


@pytest.mark.nightly
def test_every_state_size_and_task_is_observed_once(results: Results) -> None:
    found = of_results(results)
    tested = [one for one in found if one.split == "test" and one.task == "sst2"]
    assert (
        sorted(one.method for one in tested if one.method in ("pretrained", "ft", "ft_scaled") and one.answers),
        {(one.requested_size, one.seed): one.answers is not None for one in tested if one.method == "graft"},
    ) == (
        ["ft", "ft_scaled", "pretrained"],
        {(size, seed): size == SIZES[0] for size in SIZES for seed in (0, 1, 2)},
    ) and {one.method for one in found if one.task == "mr"} >= {"pretrained", "ft", "graft", "graft_movement"}


@pytest.mark.slow
def test_what_was_left_out_elsewhere_is_said(results: Results) -> None:
    said = "\n".join(sentences(of_results(results)))
    assert "12 of 72 test examples are also in the training data of sst2" in said and "One fine-tuned model" in said


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
    assert own["mean"].iloc[0] == pytest.approx(
        np.mean(
            [
                run.record.metrics["test"].states["grafted"]["accuracy"].value
                for run in results.runs(localizer="stagewise")
            ]
        )
    )
    assert found["differences"].query("b == 'graft_movement' and metric == 'accuracy' and task == 'sst2'").sort_values(
        "size"
    )["over"].tolist() == ["examples and seeds", "examples and seeds, unpaired"]


def test_a_make_up_adds_up(results: Results) -> None:
    runs = results.runs(localizer="stagewise")
    frame, record = composition(runs), runs[0].record
    sums = frame.assign(weighted=frame["density_ratio"] * frame["total"] / record.d).groupby("seed")
    np.testing.assert_allclose(
        sums[["selected", "total", "share", "weighted"]].sum(), [[record.size, record.d, 1.0, 1.0]] * 3
    )


def test_regions_of_localizers_are_compared_at_equal_size_and_with_themselves(results: Results) -> None:
    frame = overlap_of_localizers(results.runs())
    run = results.runs(localizer="stagewise")[0]
    size, d = run.record.size or 0, run.record.d or 0
    main = frame[(frame["row_task"] == "sst2") & (frame["size"] == size)].set_index("column_localizer")
    assert (set(frame["row_localizer"]), set(main["share"]), main["seeds"].to_dict()) == (
        {"stagewise"},
        {size / d},
        {"stagewise": 3, "movement": 3, "random": 3},
    )
    ours, others = ([one.region() for one in results.runs(localizer=name)] for name in ("stagewise", "random"))
    expected = np.mean([matched_iou(a, b) for a in ours for b in others])
    assert main.loc["random", "chance"] == pytest.approx(expected) and expected > size / (2 * d - size)
    shared, own = stability(ours), main.loc["stagewise"]  # the IoU of seeds has one kind of interval
    assert own[["value", "low", "high"]].tolist() == pytest.approx([shared.iou, shared.low, shared.high])
    # Runs of one seed have one order here, for any localizer: seed 0 shares its whole region with movement's.
    assert main.loc["movement", "value"] > main.loc["stagewise", "value"]


def test_sensitivity_tells_the_constants_that_were_used(tmp_path: Path) -> None:
    runs = [fake_run(Store(tmp_path), localizer=name, sizes=SIZES, **TINY) for name in ("learned", "stagewise")]
    frame = sensitivity(runs).query("metric == 'accuracy'").set_index("localizer")
    learned, stagewise = (frame.loc[name, ["steps", "batch_size", "lr"]] for name in ("learned", "stagewise"))
    assert learned["steps"] == 100
    assert learned["batch_size"] == 1024
    assert stagewise["steps"] == 50
    assert set(sensitivity(runs)["metric"]) == {*HEADLINE, "recovered"}
    assert np.isnan(stagewise["lr"])


def test_a_search_among_biases_is_one_of_biases(tmp_path: Path) -> None:
    run = fake_run(Store(tmp_path), localizer="learned-ranked", sizes=SIZES, **TINY)
    before, spec = method_of(run), run.spec.model_copy(update={"options": {"within": "biases"}})
    run.record = run.record.model_copy(update={"spec": spec})
    assert (before, method_of(run), {one.method for one in of_run(run)}) == (
        "graft",
        "graft_biases",
        {"pretrained", "ft", "ft_scaled", "graft_biases", "complement"},
    )


@pytest.fixture(scope="module")
def seeded(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Run two recipes, three data seeds (one model each) and two mask seeds; movement has one region per model."""
    one, _ = tasks(tiny)
    search = {"localizer": "stagewise", "size": "5%", "steps": 2, "batch_size": 4, "k_shot": 4}
    study = study_of(tiny, {"task": one, "recipe": ["sgd", "adamw"], **search, "seed": [0, 1], "data_seed": [0, 1, 2]})
    with models_in(tmp_path_factory.mktemp("stable")) as store:
        assert run_study(study, store).is_whole
    return Results(study_plan(study), store)


@pytest.mark.nightly
def test_the_table_is_one_of_the_study_s(seeded: Results) -> None:
    (folder,) = list_studies(seeded.store)
    table = folder.table("stability")
    assert len(table) == 4
    assert set(table["recipe"]) == {"sgd", "adamw"}
    assert set(table["source"]) == {"mask seeds", "data seeds"}
    assert (table["chance"] > 0).all()


@pytest.mark.nightly
def test_trainings_of_one_recipe_are_kept_apart(tiny: Path, store: Store) -> None:
    """A model of six steps and one of two are different models: each has its own row of mask seeds."""
    one, _ = tasks(tiny)
    entry = {"task": one, "recipe": "sgd", "localizer": "random", "size": "5%", "seed": [0, 1]}
    study = study_of(tiny, entry, {**entry, "finetune": {"steps": 2}})
    assert run_study(study, store).is_whole
    made = Results(study_plan(study), store)
    assert stability_of_runs(made.runs(), finetuned_labels(made))["source"].tolist() == ["mask seeds"] * 2


@pytest.mark.parametrize("recipe", ["sgd", "adamw"])
@pytest.mark.nightly
def test_one_thing_differs_at_a_time(seeded: Results, recipe: str) -> None:
    """Mask seeds are compared on the first data seed's model, data seeds at the first mask seed, recipes separately."""
    table = stability_of_runs(seeded.runs(), finetuned_labels(seeded))
    runs = {(r.spec.data_seed, r.spec.seed): r.region() for r in seeded.runs(recipe=recipe)}
    assert len(runs) == 6
    masks, data = stability([runs[0, 0], runs[0, 1]]), stability([runs[seed, 0] for seed in range(3)])
    own = table[table["recipe"] == recipe].set_index("source")
    found = {source: row[["iou", "low", "high", "pairs"]].tolist() for source, row in own.iterrows()}
    unknown = pytest.approx(float("nan"), nan_ok=True)
    assert (found, tuple(own.loc["data seeds", ["chance", "chance_low", "chance_high"]])) == (
        {"mask seeds": [masks.iou, unknown, unknown, 1], "data seeds": [data.iou, data.low, data.high, 3]},
        tuple(data.chance),
    )

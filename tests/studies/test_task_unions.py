"""Tests of studies of several tasks: plans, Table 4 from invented scores, and the regions of a model of two tasks."""

from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.overlaps import shared_with_others
from skillviz.analysis.tables import check
from skillviz.core.region import Region
from skillviz.errors import BadData, BadInput, ModelNotFound
from skillviz.models import predict
from skillviz.runs.produce import produce
from skillviz.runs.record import TaskNote
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.studies import task_sequence, task_unions
from skillviz.studies.finetuned_model import task_name
from skillviz.studies.paper import several_tasks
from skillviz.studies.paper.experiments import EXPERIMENTS, figure7, figure8, table4
from skillviz.studies.paper.scales import SCALES, size_text
from skillviz.studies.task_unions import TaskScores, TaskUnion, mean_relative_gain, unions
from skillviz.tasks.leaks import Unseen
from tests.fake_run import fake_run
from tests.refused import refused, refuses
from tests.studies.tiny_study import Store, StudySpec, study_plan
from tests.tiny import tiny_pair, tiny_task

ONE, TWO = "sst2_sentences", "cr"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the input of the tables: two tasks of one tiny model, and a region of each for three mask seeds. The
    second task's first test text is also in the first task's training data, and only there."""
    folder = tmp_path_factory.mktemp("task_unions")
    tiny_pair(folder, steps=60)
    for name in (ONE, TWO):
        path = tiny_task(folder / name)
        path.write_text(path.read_text().replace("name: tiny", f"name: {name}"))
    train = folder / ONE / "train.jsonl"
    train.write_text(f"{train.read_text()}{(folder / TWO / 'test.jsonl').read_text().splitlines()[0]}\n")
    store, session = Store(folder / "runs"), Session()
    runs = [
        produce(
            RunSpec(
                base=str(folder / "base"), finetuned=str(folder / "finetuned"), task=str(folder / name / "task.yaml"),
                localizer="stagewise", options={"start_share": 0.0}, sizes=("5%",), steps=3, batch_size=16, seed=seed,
                device="cpu",
            ),
            store, None, session,
        )
        for name, seed in product((ONE, TWO), (0, 1, 2))
    ]  # fmt: skip
    return SimpleNamespace(
        runs=lambda **labels: runs, store=store, session=session, entry=lambda run: {"recipe": "multi-task"}
    )


@pytest.fixture(scope="module")
def tables(results: Any) -> dict[str, pd.DataFrame]:
    """Return the tables of the study, checked."""
    return {name: check(frame, name) for name, frame in figure8.tables(results).items()}


@pytest.mark.slow
def test_every_table_of_the_study_is_whole(tables: dict[str, pd.DataFrame]) -> None:
    assert set(tables) == {"overlap", "isolation", "gain", "scores", "stability", "note"}
    assert (
        {*tables["gain"][["region_tasks", "purified", "task", "seeds"]].itertuples(index=False, name=None)},
        {"mask seeds", "bootstrap"},
        {"pretrained", "multi_task", "graft"},
    ) == (
        {
            (*region, task, 3)
            for region, task in product(
                {((ONE,), False), ((TWO,), False), ((ONE, TWO), False), ((ONE, TWO), True)}, (ONE, TWO)
            )
        },
        set(tables["stability"]["source"]),
        set(tables["scores"]["method"]),
    )


@pytest.mark.slow
def test_examples_that_another_task_trained_on_are_not_scored(results: Any, tables: dict[str, pd.DataFrame]) -> None:
    left = several_tasks.leaks_of(task_unions.region_runs(results))
    assert (
        {task: set(own["n"]) for task, own in tables["gain"].groupby("task")}
        == {task: {left[task].rows - len(left[task].leaked)} for task in (ONE, TWO)}
        and left[TWO].leaked
        and tables["note"]["text"].str.contains("left out").any()
    ), "it is told"


@pytest.mark.slow
def test_without_weights_overlap_is_told_all_the_same(results: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_unions, "scored", Mock(side_effect=ModelNotFound("there is no model here.")))
    found = figure8.tables(results)
    assert "gain" not in found and len(found["overlap"]) == 8 and "need the weights" in found["note"]["text"].iloc[0]


@pytest.mark.slow
def test_a_gain_is_the_paper_s_equation(results: Any) -> None:
    own = list(task_unions.region_runs(results)[ONE].values())
    found = task_unions.scored(
        results.session, own[0].spec, [TaskUnion(ONE, (ONE,), tuple(run.region() for run in own))], frozenset(),
        results.store.root,
    )  # fmt: skip
    base, tuned, graft = (
        np.mean([run.logits(state)[2].argmax(axis=1) == run.logits(state)[1] for run in own])
        for state in ("pretrained", "finetuned", "grafted")
    )
    assert mean_relative_gain(found, found.grafts[ONE, False]).value == pytest.approx((graft - base) / (tuned - base))


@pytest.mark.slow
def test_base_and_member_have_gain_nought_and_one() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    base, model = rng.normal(size=(200, 2)), np.eye(2)[labels] + rng.normal(scale=0.3, size=(200, 2))
    found = TaskScores(TaskNote(name="a", labels=("no", "yes")), labels, base, model)
    nought, one, middle = (mean_relative_gain(found, of) for of in ([base], [model], [base, model]))
    assert nought.value == 0.0
    assert one[:3] == (1.0, 1.0, 1.0)
    assert middle.value == pytest.approx(0.5)
    assert middle.low < 0.5 < middle.high
    assert np.isnan(mean_relative_gain(TaskScores(found.task, labels, model, model), [base]).value)


@pytest.mark.slow
def test_a_gain_over_three_regions_is_as_uncertain_as_their_t_interval() -> None:
    """Gains of 0.5, 0.6 and 0.7 with so many examples that only the regions differ: 0.6 ± 4.303 * 0.1 / sqrt(3)."""
    place, labels = np.arange(10_000), np.zeros(10_000, np.int64)
    base, tuned, *grafts = (
        np.stack([np.where(place < right * 10_000, 1.0, -1.0), 0.0 * place], axis=1) for right in (0, 1, 0.5, 0.6, 0.7)
    )
    gain = mean_relative_gain(TaskScores(TaskNote(name="a", labels=("no", "yes")), labels, base, tuned), grafts)
    assert (gain.value, gain.high - gain.low) == (
        pytest.approx(0.6),
        pytest.approx(2 * 4.303 * 0.1 / np.sqrt(3), rel=0.15),
    )


@pytest.mark.slow
def test_regions_of_one_model_and_data_seed_are_compared_and_the_rest_is_told(results: Any) -> None:
    """Only runs of the first model are compared, and data seed 0 is not required."""
    runs = results.runs()
    models = {run.id: "first" if run.spec.seed < 2 else "second" for run in runs}
    one = SimpleNamespace(**{**vars(results), "entry": lambda run: {"finetuned_key": models[run.id]}})
    found = task_unions.region_runs(one)  # type: ignore[arg-type]
    assert {task: list(own) for task, own in found.items()} == {ONE: [0, 1], TWO: [0, 1]}
    assert task_unions.left_out(one, found).startswith("2 runs of other models")  # type: ignore[arg-type]
    assert task_unions.left_out(results, task_unions.region_runs(results)) == ""
    other = [SimpleNamespace(**{**vars(run), "spec": run.spec.model_copy(update={"data_seed": 3})}) for run in runs]
    moved = SimpleNamespace(**{**vars(results), "runs": lambda **labels: other})
    assert list(task_unions.region_runs(moved)) == [ONE, TWO]  # type: ignore[arg-type]


@pytest.mark.slow
def test_logits_are_scored_once(results: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = task_unions.region_runs(results)[ONE][0]
    chosen = [TaskUnion(ONE, (ONE,), (run.region(),))]
    first = task_unions.scored(results.session, run.spec, chosen, frozenset(), results.store.root)

    monkeypatch.setattr(predict, "predict", Mock(side_effect=AssertionError("scored again")))
    again = task_unions.scored(results.session, run.spec, chosen, frozenset(), results.store.root)
    assert np.array_equal(first.grafts[ONE, False][0], again.grafts[ONE, False][0])
    refuses(
        AssertionError, None, task_unions.scored, results.session, run.spec,
        [TaskUnion(ONE, (ONE,), (Region.from_flat(run.region().flat()[:-1], run.region().shapes),))], frozenset(),
        results.store.root,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("families", "united"),
    [
        ("xxy", ["ab", "ac", "bc", "abc"]),
        ("xxxyz", ["abc", "ab", "ac", "bc", "abcde"]),
    ],
)
def test_which_sets_of_tasks_are_united(families: str, united: list[str]) -> None:
    names = "abcde"[: len(families)]
    assert unions(list(names), dict(zip(names, families, strict=True))) == [tuple(one) for one in united]


ORDER = ("one", "two", "three")
N = 40


def planned(name: str, scale: str) -> Any:
    return study_plan(StudySpec(**EXPERIMENTS[name].build(SCALES[scale])))


@pytest.mark.parametrize("scale", sorted(SCALES))
def test_a_sequence_is_scored_after_every_stage_in_both_modes(scale: str) -> None:
    found = planned("table4", scale)
    (naive,), (grafting,) = (found.of("finetune", recipe="continual", mode=mode) for mode in ("naive", "grafting"))
    assert len(naive.spec.regions) == 0
    assert len(grafting.spec.regions) == 3
    assert len(found.of("localize", role="region")) == 3
    assert len(found.scores) == 2 * (1 + 2 + 3)


@pytest.mark.parametrize("scale", sorted(SCALES))
def test_one_model_of_several_tasks_has_a_region_a_task_and_seed(scale: str) -> None:
    found = planned("figure8", scale)
    (model,) = found.finetuned
    steps = SCALES[scale].training.get("steps")  # without it, the sum of the tasks' own steps
    assert model.recipe == "multi-task", "the base of the mask is empty, and sizes are equal"
    assert model.steps == (steps and len(model.tasks) * steps), "the base of the mask is empty, and sizes are equal"
    assert len(found.runs) == len(model.tasks) * len(SCALES[scale].mask_seeds), (
        "the base of the mask is empty, and sizes are equal"
    )
    assert {(run.options["start_share"], run.sizes) for run in found.runs} == {(0.0, found.runs[0].sizes)}, (
        "the base of the mask is empty, and sizes are equal"
    )


@pytest.mark.parametrize("scale", sorted(SCALES))
def test_other_data_are_scored_at_every_size(scale: str) -> None:
    runs, main = planned("figure7", scale).runs, size_text(SCALES[scale].sizes[0])
    assert (
        [run for run in runs if not run.others],
        {run.interpolation for run in runs},
        {run.sizes[0] for run in runs if run.interpolation},
    ) == ([], {True, False}, {main})


@pytest.mark.parametrize("name", ["figure9", "figure10"])
def test_figures_9_and_10_are_made_of_the_runs_of_table_2(name: str) -> None:
    figure, table = ({run.key() for run in planned(one, "small").runs} for one in (name, "table2"))
    assert figure <= table


test_one_task_is_no_sequence = refused(
    BadInput, ("two or more", SCALES["small"].several_tasks, "multi-task", ("mr",), {})
)


def predictions(task: str, wrong: int, states: tuple[str, ...] = ("finetuned",)) -> pd.DataFrame:
    """Return a model that errs on the first `wrong` of 40 examples; all labels are "yes"."""
    right, told = np.arange(N) >= wrong, {"dataset": task, "split": "test", "label": 1}
    frame = pd.DataFrame(
        {
            "example_id": [f"test-{number}" for number in range(N)],
            **told,
            "logit_no": np.where(right, 0.0, 1.0),
            "logit_yes": np.where(right, 1.0, 0.0),
        }
    )
    return pd.concat([frame.assign(state=state) for state in states], ignore_index=True)


def scored(task: str, frame: pd.DataFrame, spec: dict[str, Any], **record: Any) -> Any:
    """Return a score or a run with these predictions."""
    return SimpleNamespace(
        spec=SimpleNamespace(task=task, **spec),
        record=SimpleNamespace(task=TaskNote(name=task, labels=("no", "yes")), **record),
        predictions=lambda: frame,
    )


def alone(task: str) -> Any:
    return scored(
        task, predictions(task, 2, ("pretrained", "finetuned", "grafted")),
        {"base": "base", "localizer": "stagewise"}, task_name=task, size=10, share=0.1,
    )  # fmt: skip


def invented(grafting: dict[tuple[int, str], int]) -> Any:
    """Return invented: naive training errs on four more after each later stage, grafting on the given counts."""
    told = {"naive": {(s, t): 4 * (s - ORDER.index(t)) for s in (1, 2, 3) for t in ORDER[:s]}, "grafting": grafting}
    return SimpleNamespace(
        scores=lambda recipe, mode: [
            scored(task, predictions(task, wrong), {"finetuned": f"${{SKILLVIZ_FINETUNED}}/x-{mode}/{stage}/{task}"})
            for (stage, task), wrong in told[mode].items()
        ],
        runs=lambda **_: [alone(task) for task in ORDER],
    )


@pytest.fixture
def no_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    leaks = {task: Unseen(task, N, frozenset({"test-39"}), {}) for task in ORDER}
    monkeypatch.setattr(task_sequence.registry, "task", lambda path, *_: path)
    monkeypatch.setattr(task_sequence, "unseen", lambda tasks: leaks)


STEADY = {(s, t): 3 for s in (1, 2, 3) for t in ORDER[:s]}


@pytest.mark.usefixtures("no_leaks")
def test_table_4_tells_what_each_mode_keeps() -> None:
    found = {name: check(frame, name) for name, frame in table4.tables(invented(STEADY)).items()}
    rows = found["stages"].query("metric == 'accuracy'").set_index(["mode", "stage", "task"])
    less = found["differences"].query("metric == 'accuracy' and task == 'one'").set_index(["a", "b"])["value"]
    assert set(found["stages"]["n"]) == {N - 1}, "the example that another task trained on is left out"
    assert rows.loc[("grafting", 3, "one"), "change"] == 0.0
    told = (rows["change"]["naive", 3, "one"], rows["value"]["independent", 2, "two"])
    assert ((*told, less["continual_graft", "continual_naive"]), set(found["scores"]["method"])) == (
        pytest.approx((-8 / 39, 37 / 39, 9 / 39)),
        {"continual_naive", "continual_graft", "independent", "pretrained", "graft"},
    ) and found["note"]["text"].str.contains("bit for bit the same after every later stage").any()


@pytest.mark.usefixtures("no_leaks")
def test_a_grafting_model_that_forgets_is_refused() -> None:
    refuses(
        BadData,
        "after stage 3 the grafting model answers 1 of 39 test examples of 'one'",
        table4.tables,
        invented({**STEADY, (3, "one"): 4}),
    )


@pytest.mark.nightly
def test_ways_between_the_models_are_means_over_mask_seeds(tmp_path: Any) -> None:
    small = {"n": {"validation": 20, "test": 30}, "layers": 1, "width": 8, "steps": 2, "sizes": ("10%",)}
    runs = [fake_run(Store(tmp_path / str(seed)), interpolation=True, seed=seed, **small) for seed in (0, 1, 2)]
    found = check(pd.DataFrame(figure7.path_rows(runs)), "paths")
    assert set(found["path"]) == {"wise-ft", "wise-graft"}
    assert found["alpha"].nunique() == 11
    assert not found["metric"].str.endswith("_difference").any()
    assert not found.duplicated(["path", "alpha", "id_task", "task", "metric"]).any()
    whole = "path == 'wise-graft' and alpha == 1.0 and metric == 'accuracy'"
    own = pd.concat([run.interpolation() for run in runs]).query(whole)
    assert found.query(f"{whole} and task == id_task")["value"].iloc[0] == pytest.approx(
        own[own["dataset"] == runs[0].datasets[0]]["value"].mean()
    )


SHAPES = {"a": (4, 5), "b": (10,)}
OF_TASKS = {"x": [0, 1, 2, 20], "y": [1, 2, 3, 21], "z": [2, 9, 22]}


def test_the_unions_of_every_subset_are_purified_and_have_nulls_of_equal_count() -> None:
    """For x and y: 6 entries in all, 5 of them without z's entry 2, and random ones, 4 in `a` and 2 in `b`."""
    regions = {
        task: {seed: Region.from_flat(np.array(flat), SHAPES) for seed in (0, 1)} for task, flat in OF_TASKS.items()
    }
    made = {(one.tasks, one.what): one.regions for one in task_unions.subset_unions(regions)}
    flat = {key: [set(region.flat().tolist()) for region in of] for key, of in made.items()}
    assert flat[("x", "y"), "union"] == 2 * [{0, 1, 2, 3, 20, 21}]
    assert flat[("x", "y"), "exclusive"] == 2 * [{0, 1, 3, 20, 21}]
    assert flat[("x",), "exclusive"] == 2 * [{0, 20}]
    for group in (("x",), ("x", "y")):
        for draw, union in zip(flat[group, "thinned"], flat[group, "union"], strict=True):
            assert len(draw) == len(flat[group, "exclusive"][0]) and draw < union
    counts = [{name: len(index) for name, index in one.indices.items()} for one in made[("x", "y"), "random"]]
    assert counts == 2 * [{"a": 4, "b": 2}] and flat[("x", "y"), "random"][0] != flat[("x", "y"), "random"][1]
    assert (("x", "y", "z"), "exclusive") not in made, "no task is outside"
    assert len(made) == 6 * 4 + 2


def test_a_model_of_the_subset_and_its_unions_are_rows_of_one_table() -> None:
    """The model of the subset is as good as the model of all, the random region as bad as the base."""
    place, labels = np.arange(300), np.zeros(300, np.int64)
    base, tuned = (np.stack([np.where(place < right, 1.0, -1.0), 0.0 * place], axis=1) for right in (100, 300))
    region = Region.from_flat(np.array([1, 2]), SHAPES)
    union = TaskUnion("x, random", ("x",), (region, region), what="random")
    grafts = {("x, random", False): (base, base)}
    scored = {"x": TaskScores(TaskNote(name="x", labels=("no", "yes")), labels, base, tuned, grafts)}
    table = check(pd.DataFrame(task_unions.subset_rows(scored, [union], {("x", "y"): {"x": tuned}})), "subsets")
    columns = ["region_tasks", "what", "value", "n", "seeds"]
    assert table[columns].values.tolist() == [[("x",), "random", 0.0, 300, 2], [("x", "y"), "trained", 1.0, 300, 1]]
    assert table["size"].iloc[0] == 2 and np.isnan(table["size"].iloc[1])


def test_shared_entries_are_counted_once_and_for_each_task() -> None:
    counts = shared_with_others(
        {task: Region.from_flat(np.array(flat), SHAPES) for task, flat in OF_TASKS.items()}, ("x",)
    )
    assert counts == (4, 2, {"y": 2, "z": 1})


def test_subsets_have_a_model_each_and_the_regions_of_figure_8() -> None:
    plans = {name: planned(name, "small") for name in ("subsets", "figure8")}
    assert {step.key for step in plans["figure8"].of("localize")} == {s.key for s in plans["subsets"].of("localize")}
    names = sorted(tuple(map(task_name, model.tasks)) for model in plans["subsets"].finetuned)
    assert len(names) == len(set(names)) == 11 and ("cr", "snli") in names
    assert {(len(m.tasks), m.steps) for m in plans["subsets"].finetuned} == {(2, 10_000), (3, 15_000), (4, 20_000)}

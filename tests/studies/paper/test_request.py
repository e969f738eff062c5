"""Tests of experiments on a user's own tasks, bases and data: fine-tuned models, scores on other data, refusals."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillviz.errors import BadInput
from skillviz.runs.store import Store
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.request import (
    folder_tasks,
    is_as_requested,
    setting_differences,
    study_of,
    write_study,
)
from skillviz.studies.paper.scales import SCALES, scale
from skillviz.studies.plan import StudyPlan, study_plan
from skillviz.studies.spec import ExperimentRequest, StudySpec, read_study
from skillviz.studies.step import name_of
from tests.tiers import first, in_the_night

LABELS = {"cafe": ("bad", "good"), "bakery": ("Bad", "Good"), "hotel": ("bad", "good"), "place": ("hot", "wet")}
TWO = ("mr", "subj")
FILES = tuple(f"examples/tasks/{name}.yaml" for name in ("mr", "cr"))
FEW = ("table1", "table8", "figure2", "figure3", "figure4", "figure5", "figure6", "sensitivity")
"""Experiments that use one or two tasks by default."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with a folder for every task: three with the same labels and one with others; no examples."""
    for name, labels in LABELS.items():
        (tmp_path / "data" / name).mkdir(parents=True)
        values = {
            "name": f"{name}-verdict",
            "data": {"train": "a.csv", "test": "b.csv"},
            "text": "text",
            "labels": list(labels),
        }
        (tmp_path / "data" / name / "task.yaml").write_text(yaml.safe_dump(values))
    return tmp_path / "data"


def files(data: Path, *names: str) -> tuple[str, ...]:
    """Return the task files of these names."""
    return tuple(str(data / name / "task.yaml") for name in names)


def study(folder: Path, name: str = "table2", at: str = "small", **asked: Any) -> StudySpec:
    """Return the requested study, with its folder under this one."""
    return study_of(ExperimentRequest(name, at, **asked), Store(folder / "runs"))[2]


def tasks_of(study: StudySpec) -> set[str]:
    """Return the names of the tasks of its models."""
    found = study_plan(study)
    return {name_of(spec.task) for spec in (*found.runs, *found.scores)}


def shifts_of(study: StudySpec) -> list[tuple[str, str]]:
    """Return each task with the other tasks that its runs are scored on, without repeats, in order."""
    pairs = [(name_of(spec.task), name_of(other)) for spec in study_plan(study).runs for other in spec.others]
    return list(dict.fromkeys(pairs))


def given(found: StudyPlan) -> set[str]:
    """Return the fine-tuned models of the plan's runs that the plan does not make."""
    return {spec.finetuned for spec in found.runs if not spec.finetuned.startswith("${SKILLVIZ_FINETUNED}")}


@pytest.mark.parametrize("asked", [{"base": "org/mine"}, {"base": "org/mine", "readout": "prompt"}, {}, {"seeds": 2}])
def test_a_task_without_a_stored_pair_is_fine_tuned(asked: dict[str, Any], data: Path) -> None:
    (file,) = files(data, "cafe")
    found = study_plan(study(data, tasks=(file,), **asked))
    assert not given(found) and {model.tasks for model in found.finetuned} == {(file,)}
    assert len(found.finetuned) == asked.get("seeds", 1)


def test_a_stored_pair_is_of_the_scale_s_own_base_task_and_readout(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, own, base = tmp_path / "pairs" / "subj-sgd", ("subj",), "examples/models/minilm-l6"
    pair.mkdir(parents=True)
    monkeypatch.setitem(SCALES, "small", replace(SCALES["small"], stored=str(pair.parent)))
    assert given(study_plan(study(data, tasks=own))) == {str(pair)}
    assert given(study_plan(study(data, tasks=own, readout="head", base=base))) == {str(pair)}
    assert given(study_plan(study(data, tasks=(str(Path("examples/tasks/subj.yaml").absolute()),)))) == {str(pair)}
    copy = str(tmp_path / "a copy" / "minilm-l6")
    for other in ({"base": copy, "readout": "head"}, {"base": copy}, {"readout": "prompt"}):
        assert not given(study_plan(study(data, tasks=own, **other)))
    mixed = study_plan(study(data, tasks=(*own, *files(data, "cafe"))))
    assert given(mixed) == {str(pair)} and len(mixed.finetuned) == 1


def test_a_fine_tuned_model_of_the_user_stands_for_the_pair(data: Path) -> None:
    asked = {"base": "org/mine", "finetuned": "org/tuned", "tasks": files(data, "cafe")}
    assert given(study_plan(study(data, readout="head", **asked))) == {"org/tuned"}


@pytest.mark.parametrize("name", FEW)
def test_no_task_that_was_named_is_dropped(name: str, data: Path) -> None:
    found = study(data, name, base="org/mine", tasks=(",".join(files(data, "cafe", "bakery", "place")),))
    assert tasks_of(found) == {"cafe-verdict", "bakery-verdict", "place-verdict"}
    assert len(tasks_of(StudySpec(**EXPERIMENTS[name].build(scale("small"))))) <= 4  # by default it uses a few


def test_a_sequence_has_all_tasks_in_the_order_of_the_words(data: Path) -> None:
    named = files(data, "place", "cafe", "hotel", "bakery")
    found = study_plan(study(data, "table4", base="org/mine", tasks=named))
    assert {m.tasks for m in found.finetuned if m.recipe == "continual"} == {named}


def test_the_published_search_is_on_two_tasks_and_says_so(data: Path) -> None:
    found = study(data, at="small", base="org/mine", tasks=files(data, "cafe", "bakery", "place"))
    learned = {name_of(spec.task) for spec in study_plan(found).runs if spec.localizer == "learned"}
    assert learned == {"cafe-verdict", "bakery-verdict"}
    here = {row.aspect: row.here for row in setting_differences(found)}
    assert here["Learned mask"] == "on cafe-verdict and bakery-verdict alone, as it costs most"


@pytest.mark.parametrize("name", ["table3", "figure7"])
def test_tasks_with_the_same_labels_are_each_other_s_other_data(name: str, data: Path) -> None:
    cafe, bakery = files(data, "cafe", "bakery")
    found = study_plan(study(data, name, base="org/mine", tasks=(cafe, bakery)))
    assert {(spec.task, spec.others) for spec in found.runs} == {(cafe, (bakery,)), (bakery, (cafe,))}


@pytest.mark.parametrize("name", ["table3", "figure7"])
def test_other_data_can_be_named(name: str, data: Path) -> None:
    cafe, hotel, place = files(data, "cafe", "hotel", "place")
    found = study(data, name, tasks=(cafe,), also=(hotel,))
    assert {(spec.task, spec.others) for spec in study_plan(found).runs} == {(cafe, (hotel,))}
    assert found.name != study(data, name, tasks=(cafe, hotel)).name
    assert found.request is not None and found.request.also == (hotel,)
    with pytest.raises(BadInput, match=rf"{name} scores models on other data .* none are known for cafe-verdict: name"):
        study(data, name, tasks=(cafe,))
    with pytest.raises(BadInput, match=r"bad, good\) by --also TASK"):
        study(data, name, tasks=(cafe,))
    with pytest.raises(BadInput, match=r"--also names place-verdict \(hot, wet\), which no requested task can be"):
        study(data, name, tasks=(cafe,), also=(place,))
    with pytest.raises(BadInput, match="subj"):
        study(data, name, tasks=("subj",))


def test_other_data_of_the_scale_s_own_tasks(data: Path) -> None:
    found = study(data, "table2", tasks=("mr", "subj"), also=("uci_yelp",))
    assert ("mr", "uci_yelp") in shifts_of(found) and ("subj", "uci_yelp") not in shifts_of(found)
    (also,) = files(data, "place")
    with pytest.raises(BadInput, match="which no requested task"):
        study(data, "table2", also=(also,))
    with pytest.raises(BadInput, match="'imdb' is not a task of the scale small"):
        study(data, "table2", also=("imdb",))
    assert tasks_of(study(data, "figure7", tasks=("all",))) == {"mr", "cr"}  # the tasks that have other data


@pytest.mark.parametrize("at", SCALES)
def test_a_folder_of_task_files_gives_the_tasks(at: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKILLVIZ_REAL", raising=False)
    store = Store(data / "runs")
    _, _, found = study_of(ExperimentRequest("table2", at, base="org/mine", data=str(data)), store)
    assert tasks_of(found) == {f"{name}-verdict" for name in LABELS}
    for word in ("bakery", "bakery-verdict", *files(data, "bakery")):
        some = study(data, at=at, base="org/mine", data=str(data), tasks=(word,), also=("hotel",))
        assert shifts_of(some) == [("bakery-verdict", "hotel-verdict")]
        assert {spec.task for spec in study_plan(some).runs} == set(files(data, "bakery"))
    with pytest.raises(BadInput, match=r"'film' is not a task .* in the folder of --data: bakery, cafe, hotel, place"):
        study(data, at=at, data=str(data), tasks=("film",))
    assert study(data, at=at, base="org/mine", data=str(data), tasks=("all",)).runs == found.runs


def test_of_a_whole_folder_those_with_other_data_are_taken(data: Path) -> None:
    found = study(data, "figure7", base="org/mine", data=str(data))
    assert tasks_of(found) == {"bakery-verdict", "cafe-verdict", "hotel-verdict"}
    for name in ("cafe", "hotel"):
        (data / name / "task.yaml").unlink()
    with pytest.raises(BadInput, match="none are known for bakery-verdict"):
        study(data, "figure7", base="org/mine", data=str(data))


def test_task_files_of_a_folder(data: Path) -> None:
    (data / "cafe" / "other.yaml").touch()
    assert folder_tasks(data)["cafe"] == str(data / "cafe" / "task.yaml")
    (data / "place" / "task.yaml").rename(data / "place" / "mine.yml")
    assert folder_tasks(data)["place"] == str(data / "place" / "mine.yml")
    (data / "cafe" / "task.yaml").unlink()
    (data / "cafe" / "more.yaml").touch()
    with pytest.raises(BadInput, match="several YAML files; call the one that describes the task task.yaml"):
        folder_tasks(data)


def test_a_task_file_that_cannot_be_read_is_named_with_its_folder(data: Path) -> None:
    (data / "cafe" / "task.yaml").write_text("name: cafe")
    with pytest.raises(BadInput, match=r"data/cafe/task\.yaml: .* has no 'data'"):
        study(data, data=str(data))


def test_a_path_may_hold_spaces_and_commas(data: Path) -> None:
    file = data / "one, two" / "task.yaml"
    file.parent.mkdir()
    file.write_text((data / "cafe" / "task.yaml").read_text())
    assert {spec.task for spec in study_plan(study(data, base="org/mine", tasks=(str(file),))).runs} == {str(file)}


@pytest.mark.cases(5, 6)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_study_file_is_taken_up_again_and_never_overwritten(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    path = write_study(study(tmp_path, name), store)
    assert write_study(study(tmp_path, name), store) == path
    content = yaml.safe_load(path.read_text())
    content["title"] = "Mine"
    path.write_text(yaml.safe_dump(content))
    study(tmp_path, name)  # its runs are unchanged
    content["defaults"] = {"k_shot": 16}
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(BadInput, match=r"changed by hand.* study run .*study\.yaml`, or rename or delete it first"):
        study(tmp_path, name)
    assert read_study(path).defaults == {"k_shot": 16}
    path.write_text("[")
    with pytest.raises(BadInput, match="changed by hand"):
        study(tmp_path, name)
    path.unlink()
    write_study(study(tmp_path, name), store)
    assert not read_study(path).defaults


@pytest.mark.cases(12, 11)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_an_experiment_builds_is_as_requested(name: str, scale: str) -> None:
    found = StudySpec(**EXPERIMENTS[name].build(SCALES[scale]))
    assert is_as_requested(found)
    assert not is_as_requested(found.model_copy(update={"request": None}))
    changed = [{**found.runs[0], "base": "org/else"}, *found.runs[1:]]
    assert not is_as_requested(found.model_copy(update={"runs": tuple(changed)}))


@pytest.mark.parametrize(
    "own",
    [
        {"base": "models/mine", "tasks": TWO, "seeds": 2},
        {"base": "models/mine", "tasks": FILES},
        {"readout": "prompt", "tasks": TWO},
        {"tasks": TWO[:1], "finetuned": "models/tuned"},
        {"tasks": TWO[:1], "also": ("cr",)},
    ],
)
def test_it_may_be_asked_of_own_models_tasks_and_seeds(own: dict[str, Any], tmp_path: Path) -> None:
    found = study_of(ExperimentRequest("table2", **own), Store(tmp_path))[2]
    assert found.request is not None
    assert is_as_requested(StudySpec(**found.model_dump(mode="json")))
    assert not is_as_requested(found.model_copy(update={"request": replace(found.request, experiment="figure6")}))


@pytest.mark.parametrize("scale", first(SCALES, "small".__eq__))
@pytest.mark.parametrize("name", first(EXPERIMENTS, ("table1", "figure2", "figure9").__contains__, in_the_night))
def test_it_may_be_asked_of_several_fine_tuning_seeds(name: str, scale: str, tmp_path: Path) -> None:
    request = ExperimentRequest(name, scale, seeds=3)
    try:
        study_of(request, Store(tmp_path / "tried"))
    except BadInput as error:
        refusal = "leave --seeds 3 out; .*`python -m skillviz reproduce table2 --seeds 3`"
        assert name != "table2" and re.search(refusal, str(error))
        assert is_as_requested(study_of(ExperimentRequest(name, scale, seeds=1), Store(tmp_path))[2])
        return
    found = study_of(request, Store(tmp_path))[2]
    assert is_as_requested(found) and found.name.endswith("-3-seeds")
    readout = SCALES[scale].readout
    main = [model.seed for model in study_plan(found).finetuned if model.recipe == "sgd" and model.readout == readout]
    assert set(main) == {0, 1, 2}
    grafted = {run.finetuned for run in study_plan(found).runs if run.localizer == "stagewise"}
    assert len(grafted) >= 3 and not any("pairs" in path for path in grafted)


@pytest.mark.parametrize("name", first(EXPERIMENTS, ("table1", "table4", "figure8").__contains__))
def test_it_may_be_asked_of_several_samples_of_the_training_data(name: str, tmp_path: Path) -> None:
    one = study(tmp_path, name, k_shot=64)
    try:
        found = study(tmp_path / "several", name, k_shot=64, samples=2)
    except BadInput as error:
        assert name in ("table4", "figure8", "figure15", "sensitivity") and "leave --samples 2 out" in str(error)
        return
    assert is_as_requested(found) and "-2-samples" in found.name
    words = ("python", "-m", "skillviz", "reproduce", name, "--scale", "small", "--samples", "2", "--k-shot", "64")
    assert found.request is not None and found.request.command() == shlex.join(words)
    for kind in ("finetuned", "runs", "scores"):
        drawn = [spec.data_seed for spec in getattr(study_plan(found), kind)]
        assert [drawn.count(seed) for seed in (0, 1)] == 2 * [len(getattr(study_plan(one), kind))] and set(drawn) <= {
            0,
            1,
        }


@pytest.mark.parametrize(("asked", "sentence"), [
    ({}, "give --k-shot too"), ({"k_shot": 8, "samples": 0}, "--samples is 0"),
    ({"k_shot": 8, "finetuned": "org/m", "tasks": ("mr",)}, "one training set"),
])  # fmt: skip
def test_samples_that_cannot_be_drawn_are_refused(tmp_path: Path, asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        study(tmp_path, "table2", **{"samples": 3, **asked})


def test_the_device_is_no_part_of_what_is_asked() -> None:
    found = StudySpec(**EXPERIMENTS["figure6"].build(SCALES["small"]))
    runs = tuple({**run, "device": "cuda"} for run in found.runs)
    assert is_as_requested(found.model_copy(update={"runs": runs}))


def test_common_fields_may_stand_once_as_defaults() -> None:
    found = StudySpec(**EXPERIMENTS["table2"].build(SCALES["small"]))
    rest = tuple({name: value for name, value in run.items() if name != "base"} for run in found.runs)
    same = found.model_copy(update={"defaults": {"base": found.runs[0]["base"]}, "runs": rest})
    assert is_as_requested(same)
    assert not is_as_requested(same.model_copy(update={"defaults": {"base": ["a", "b"]}}))


def test_entries_that_are_nonsense_are_not_it() -> None:
    for entry in ({}, {"base": {"a": 1}}, {"base": "b", "task": [{"x": 1}], "finetune": "no"}, {"base": [["b"]]}):
        assert not is_as_requested(StudySpec(name="x", request=ExperimentRequest("table2"), runs=(entry,)))
    assert not is_as_requested(StudySpec(name="x", request=ExperimentRequest("table99"), runs=({"base": "b"},)))


def test_a_study_whose_folder_of_tasks_is_gone_says_so(data: Path, tmp_path: Path) -> None:
    own = study(tmp_path, data=str(data), tasks=("cafe",))
    data.rename(tmp_path / "elsewhere")
    (row,) = setting_differences(own)
    assert str(data) in row.here and "entries" not in row.here

"""Tests of experiments on a user's own tasks, bases and data: models, refusals, differences from the paper."""

import re
import shlex
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillviz.errors import BadInput
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.request import (
    EDITED,
    folder_tasks,
    is_as_requested,
    setting_differences,
    study_of,
    write_study,
)
from skillviz.studies.paper.scales import SCALES, Scale, scale
from skillviz.studies.spec import ExperimentRequest, StudySpec, read_study
from skillviz.studies.step import name_of
from tests.refused import refuses
from tests.studies.tiny_study import Store, study_plan, tiny_scale
from tests.tiers import first, in_the_night

LABELS = {"cafe": ("bad", "good"), "bakery": ("Bad", "Good"), "hotel": ("bad", "good"), "place": ("hot", "wet")}
TWO = ("mr", "subj")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with a folder for every task: three with the same labels and one with others; no examples."""
    for name, labels in LABELS.items():
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "task.yaml").write_text(
            yaml.safe_dump(
                {
                    "name": f"{name}-verdict",
                    "labels": list(labels),
                    "text": "text",
                    "data": {"train": "a.csv", "test": "b.csv"},
                }  # fmt: skip
            )
        )
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
    return list(
        dict.fromkeys(
            [(name_of(spec.task), name_of(other)) for spec in study_plan(study).runs for other in spec.others]
        )
    )


def given(found: StudySpec) -> set[str]:
    """Return the fine-tuned models of the study's runs that the study does not make."""
    return {run.finetuned for run in study_plan(found).runs if not run.finetuned.startswith("${SKILLVIZ_FINETUNED}")}


def others_of(found: StudySpec) -> set[tuple[str, tuple[str, ...]]]:
    """Return the task files of the study's runs, each with the others that it is scored on."""
    return {(run.task, run.others) for run in study_plan(found).runs}


@pytest.mark.parametrize("asked", [{"base": "org/mine"}, {"base": "org/mine", "readout": "prompt"}, {}, {"seeds": 2}])
def test_a_task_without_a_stored_pair_is_fine_tuned(asked: dict[str, Any], data: Path) -> None:
    own = files(data, "cafe")
    found = study(data, tasks=own, **asked)
    assert (given(found), [model.tasks for model in study_plan(found).finetuned]) == (
        set(),
        [own] * asked.get("seeds", 1),
    )


@pytest.mark.parametrize(
    ("asked", "is_taken"),
    [
        ({}, True),
        ({"readout": "head", "base": "examples/models/minilm-l6"}, True),
        ({"tasks": (str(Path("examples/tasks/subj.yaml").absolute()),)}, True),
        ({"base": "a copy/minilm-l6", "readout": "head"}, False),
        ({"base": "a copy/minilm-l6"}, False),
        ({"readout": "prompt"}, False),
    ],
)
def test_a_stored_pair_is_of_the_scale_s_own_base_task_and_readout(
    asked: dict[str, Any], is_taken: bool, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = data.parent / "pairs" / "subj-sgd"
    pair.mkdir(parents=True)
    monkeypatch.setitem(SCALES, "small", replace(SCALES["small"], stored=str(pair.parent)))
    assert given(study(data, **{"tasks": ("subj",), **asked})) == ({str(pair)} if is_taken else set())
    mixed = study(data, tasks=("subj", *files(data, "cafe")))
    assert given(mixed) == {str(pair)} and len(study_plan(mixed).finetuned) == 1


NAMES = ("place", "cafe", "hotel", "bakery")
MINE = {"base": "org/mine"}


@pytest.mark.parametrize(
    ("name", "asked", "read", "wanted"),
    [
        ("table2", {**MINE, "finetuned": "org/tuned", "tasks": ("cafe",), "readout": "head"}, given, {"org/tuned"}),
        ("table4", {**MINE, "tasks": NAMES},
         lambda found: {tuple(map(name_of, m.tasks)) for m in study_plan(found).finetuned if m.recipe == "continual"},
         {tuple(f"{name}-verdict" for name in NAMES)}),
        ("figure7", {"tasks": ("all",)}, tasks_of, {"mr", "cr"}),
        ("figure7", {**MINE, "data": "data"}, tasks_of, {"bakery-verdict", "cafe-verdict", "hotel-verdict"}),
        ("table2", {"tasks": TWO, "also": ("uci_yelp",)},
         lambda found: [(task, "uci_yelp") in shifts_of(found) for task in TWO], [True, False]),
    ],
    ids=["a model of the user for the pair", "a sequence in the order of the words", "tasks that have other data",
         "tasks of a folder that have other data", "other data of the scale's own tasks"],
)  # fmt: skip
def test_what_is_asked_is_studied(
    name: str, asked: dict[str, Any], read: Callable[[StudySpec], Any], wanted: Any, data: Path
) -> None:
    own = {"tasks": tuple(files(data, task)[0] if task in LABELS else task for task in asked.get("tasks", ()))}
    assert read(study(data, name, **asked | own | ({"data": str(data)} if "data" in asked else {}))) == wanted


@pytest.mark.parametrize(
    "name", ["table1", "table8", "figure2", "figure3", "figure4", "figure5", "figure6", "sensitivity"]
)
def test_no_task_that_was_named_is_dropped(name: str, data: Path) -> None:
    found = study(data, name, base="org/mine", tasks=(",".join(files(data, "cafe", "bakery", "place")),))
    assert tasks_of(found) == {"cafe-verdict", "bakery-verdict", "place-verdict"}
    assert len(tasks_of(StudySpec(**EXPERIMENTS[name].build(scale("small"))))) <= 4  # by default it uses a few


def test_the_published_search_is_on_two_tasks_and_says_so(data: Path) -> None:
    found = study(data, at="small", base="org/mine", tasks=files(data, "cafe", "bakery", "place"))
    learned = {name_of(spec.task) for spec in study_plan(found).runs if spec.localizer == "learned"}
    (told,) = (row.here for row in setting_differences(found) if row.aspect == "Learned mask")
    assert (learned, told) == (
        {"cafe-verdict", "bakery-verdict"},
        "on cafe-verdict and bakery-verdict alone, as it costs most",
    )


@pytest.mark.parametrize("name", ["table3", "figure7"])
def test_tasks_with_the_same_labels_are_each_other_s_other_data_and_more_can_be_named(name: str, data: Path) -> None:
    cafe, bakery, hotel = files(data, "cafe", "bakery", "hotel")
    both, named = (
        study(data, name, base="org/mine", tasks=(cafe, bakery)),
        study(data, name, tasks=(cafe,), also=(hotel,)),
    )
    assert others_of(both) == {(cafe, (bakery,)), (bakery, (cafe,))}
    assert others_of(named) == {(cafe, (hotel,))}
    assert named.request.also == (hotel,)
    assert named.request is not None
    assert named.name != study(data, name, tasks=(cafe, hotel)).name


@pytest.mark.parametrize(
    ("names", "tasks", "also", "words"),
    [
        (("table3", "figure7"), ("cafe",), (),
         "{name} scores models on other data .* none are known for cafe-verdict: name"),
        (("table3", "figure7"), ("cafe",), (), r"bad, good\) by --also TASK"),
        (("table3", "figure7"), ("cafe",), ("place",),
         r"--also names place-verdict \(hot, wet\), which no requested task can be"),
        (("table3", "figure7"), ("subj",), (), "subj"),
        (("table2",), (), ("place",), "which no requested task"),
        (("table2",), (), ("imdb",), "'imdb' is not a task of the scale small"),
    ],
)  # fmt: skip
def test_other_data_that_no_task_can_be_scored_on_are_refused(
    names: tuple[str, ...], tasks: tuple[str, ...], also: tuple[str, ...], words: str, data: Path
) -> None:
    tasks, also = (tuple(str(data / one / "task.yaml") if one in LABELS else one for one in of) for of in (tasks, also))
    for name in names:
        refuses(BadInput, words.replace("{name}", name), study, data, name, tasks=tasks, also=also)


@pytest.mark.parametrize("at", SCALES)
def test_a_folder_of_task_files_gives_the_tasks(at: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKILLVIZ_REAL", raising=False)
    found = study(data, at=at, base="org/mine", data=str(data))
    assert tasks_of(found) == {f"{name}-verdict" for name in LABELS}
    bakery, hotel = files(data, "bakery", "hotel")
    for word in ("bakery", "bakery-verdict", bakery):
        some = study(data, at=at, base="org/mine", data=str(data), tasks=(word,), also=("hotel",))
        assert shifts_of(some) == [("bakery-verdict", "hotel-verdict")] and others_of(some) <= {
            (bakery, (hotel,)),
            (bakery, ()),
        }
    refuses(
        BadInput, r"'film' is not a task .* in the folder of --data: bakery, cafe, hotel, place", study, data, at=at,
        data=str(data), tasks=("film",),
    )  # fmt: skip
    assert study(data, at=at, base="org/mine", data=str(data), tasks=("all",)).runs == found.runs


def test_a_whole_folder_without_other_data_is_refused(data: Path) -> None:
    for name in ("cafe", "hotel"):
        (data / name / "task.yaml").unlink()
    refuses(BadInput, "none are known for bakery-verdict", study, data, "figure7", base="org/mine", data=str(data))


def test_task_files_of_a_folder(data: Path) -> None:
    (data / "cafe" / "other.yaml").touch()
    (data / "place" / "task.yaml").rename(data / "place" / "mine.yml")
    found = folder_tasks(data)
    assert (found["cafe"], found["place"]) == (str(data / "cafe" / "task.yaml"), str(data / "place" / "mine.yml"))
    (data / "cafe" / "task.yaml").rename(data / "cafe" / "more.yaml")
    refuses(BadInput, "several YAML files; call the one that describes the task task.yaml", folder_tasks, data)


def test_a_task_file_that_cannot_be_read_is_named_with_its_folder(data: Path) -> None:
    (data / "cafe" / "task.yaml").write_text("name: cafe")
    refuses(BadInput, r"data/cafe/task\.yaml: .* has no 'data'", study, data, data=str(data))


def test_a_path_may_hold_spaces_and_commas(data: Path) -> None:
    file = (data / "cafe").rename(data / "one, two") / "task.yaml"
    assert {run.task for run in study_plan(study(data, base="org/mine", tasks=(str(file),))).runs} == {str(file)}


@pytest.mark.cases(5, 6)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_study_file_is_taken_up_again_and_never_overwritten(name: str, tmp_path: Path) -> None:
    """Its title may be changed, as its runs are unchanged."""
    store = Store(tmp_path / "runs")
    path, again = (write_study(study(tmp_path, name), store) for _ in range(2))
    content = {**yaml.safe_load(path.read_text()), "title": "Mine"}
    path.write_text(yaml.safe_dump(content))
    assert again == path and study(tmp_path, name)
    for text in (yaml.safe_dump({**content, "defaults": {"k_shot": 16}}), "["):
        path.write_text(text)
        refuses(
            BadInput, r"changed by hand.* study run .*study\.yaml`, or rename or delete it first", study, tmp_path, name
        )
        assert path.read_text() == text
    path.unlink()
    write_study(study(tmp_path, name), store)
    assert not read_study(path).defaults


@pytest.mark.cases(12, 11)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_an_experiment_builds_is_as_requested(name: str, scale: str) -> None:
    found = StudySpec(**EXPERIMENTS[name].build(SCALES[scale]))
    changes = (
        {},
        {"request": None},
        {"runs": ({**found.runs[0], "base": "org/else"}, *found.runs[1:])},
        {"runs": tuple({**run, "device": "cuda"} for run in found.runs)},
    )
    assert [is_as_requested(found.model_copy(update=one)) for one in changes] == [True, False, False, True]


@pytest.mark.parametrize(
    "own",
    [
        {"base": "models/mine", "tasks": TWO, "seeds": 2},
        {"base": "models/mine", "tasks": ("examples/tasks/mr.yaml", "examples/tasks/cr.yaml")},
        {"readout": "prompt", "tasks": TWO},
        {"tasks": TWO[:1], "finetuned": "models/tuned"},
        {"tasks": TWO[:1], "also": ("cr",)},
    ],
)
def test_it_may_be_asked_of_own_models_tasks_and_seeds(own: dict[str, Any], tmp_path: Path) -> None:
    found = study(tmp_path, **own)
    assert (
        found.request is not None
        and is_as_requested(StudySpec(**found.model_dump(mode="json")))
        and not is_as_requested(found.model_copy(update={"request": replace(found.request, experiment="figure6")}))
    )


@pytest.mark.parametrize("scale", first(SCALES, "small".__eq__))
@pytest.mark.parametrize("name", first(EXPERIMENTS, ("table1", "figure2", "figure9").__contains__, in_the_night))
def test_it_may_be_asked_of_several_fine_tuning_seeds(name: str, scale: str, tmp_path: Path) -> None:
    try:
        found = study(tmp_path, name, scale, seeds=3)
    except BadInput as error:
        assert (
            name != "table2"
            and re.search("leave --seeds 3 out; .*`python -m skillviz reproduce table2 --seeds 3`", str(error))
            and is_as_requested(study(tmp_path, name, scale, seeds=1))
        )
        return
    assert is_as_requested(found) and found.name.endswith("-3-seeds")
    plan, readout = study_plan(found), SCALES[scale].readout
    assert {m.seed for m in plan.finetuned if m.recipe == "sgd" and m.readout == readout} == {0, 1, 2}
    grafted = {run.finetuned for run in plan.runs if run.localizer == "stagewise"}
    assert len(grafted) >= 3 and [path for path in grafted if "pairs" in path] == []


SEVERAL = ("table4", "figure8", *(f"figure{number}" for number in range(11, 16)), "subsets", "sensitivity")


@pytest.mark.parametrize("name", first(EXPERIMENTS, ("table1", "table4", "figure8").__contains__))
def test_it_may_be_asked_of_several_samples_of_the_training_data(name: str, tmp_path: Path) -> None:
    one = study(tmp_path, name, k_shot=64)
    try:
        found = study(tmp_path / "several", name, k_shot=64, samples=2)
    except BadInput as error:
        assert name in SEVERAL and "leave --samples 2 out" in str(error)
        return
    assert is_as_requested(found)
    assert "-2-samples" in found.name
    assert found.request is not None
    assert found.request.command() == shlex.join(
        ("python", "-m", "skillviz", "reproduce", name, "--scale", "small", "--samples", "2", "--k-shot", "64")
    )
    for kind in ("finetuned", "runs", "scores"):
        drawn, wanted = (Counter(spec.data_seed for spec in getattr(study_plan(of), kind)) for of in (found, one))
        assert drawn == Counter(dict.fromkeys((0, 1), wanted.total() // max(len(wanted), 1)))


@pytest.mark.parametrize(("asked", "sentence"), [
    ({}, "give --k-shot too"), ({"k_shot": 8, "samples": 0}, "--samples is 0"),
    ({"k_shot": 8, "finetuned": "org/m", "tasks": ("mr",)}, "one training set"),
])  # fmt: skip
def test_samples_that_cannot_be_drawn_are_refused(tmp_path: Path, asked: dict[str, Any], sentence: str) -> None:
    refuses(BadInput, sentence, study, tmp_path, "table2", **{"samples": 3, **asked})


def test_common_fields_may_stand_once_as_defaults() -> None:
    found = StudySpec(**EXPERIMENTS["table2"].build(SCALES["small"]))
    rest = tuple({name: value for name, value in run.items() if name != "base"} for run in found.runs)
    same, other = (found.model_copy(update={"defaults": {"base": base}, "runs": rest})
                   for base in (found.runs[0]["base"], ["a", "b"]))  # fmt: skip
    assert (is_as_requested(same), is_as_requested(other)) == (True, False)


@pytest.mark.parametrize(
    ("experiment", "entry"),
    [
        ("table2", {}),
        ("table2", {"base": {"a": 1}}),
        ("table2", {"base": "b", "task": [{"x": 1}], "finetune": "no"}),
        ("table2", {"base": [["b"]]}),
        ("table99", {"base": "b"}),
    ],
)
def test_entries_that_are_nonsense_are_not_it(experiment: str, entry: dict[str, Any]) -> None:
    assert not is_as_requested(StudySpec(name="x", request=ExperimentRequest(experiment), runs=(entry,)))


def test_a_study_whose_folder_of_tasks_is_gone_says_so(data: Path, tmp_path: Path) -> None:
    own = study(tmp_path, data=str(data), tasks=("cafe",))
    data.rename(tmp_path / "elsewhere")
    assert [str(data) in row.here and "entries" not in row.here for row in setting_differences(own)] == [True]


STORED = sorted(Path("cached_runs/studies").glob("*/study.yaml"))


def here(name: str, at: Scale) -> dict[str, str]:
    """Return the study's settings by aspect."""
    return {row.aspect: row.here for row in EXPERIMENTS[name].differences(at)}


def requested(name: str = "table2", at: str = "small", **replaced: Any) -> StudySpec:
    """Return the study of an experiment with these fields replaced."""
    return StudySpec(**EXPERIMENTS[name].build(scale(at).with_choices(**replaced)))


@pytest.mark.parametrize("at", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_aspect_is_one_row_with_the_model_first(name: str, at: str) -> None:
    """The model of the paper's scale is the paper's."""
    own = EXPERIMENTS[name].at(scale(at))
    rows, told = EXPERIMENTS[name].differences(scale(at)), here(name, scale(at))
    assert len(told) == len(rows) and [row for row in rows if not row.here or row.here == row.paper] == []
    first, is_other = (rows[0].aspect, rows[0].here), at != "paper"
    assert ("Model" in told, first == ("Model", own.about_base)) == (is_other, is_other) and told["Data"].startswith(
        own.about_data
    )


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_nothing_of_the_scale_is_said_of_other_models_and_tasks(name: str, tmp_path: Path) -> None:
    """Models of several tasks are named by the names in their files. Some experiments need one model per task, others
    one of several tasks."""
    one, two = (str(tmp_path / f"{task}.yaml") for task in ("cafe", "bakery"))
    for file in map(Path, (one, two)):
        file.write_text(f"name: {file.stem}\n")
    own = scale("small").with_choices(base="org/mine", tasks=(one, two), readout="head")
    own = replace(own, shifts={one: (two,), two: (one,)})
    with suppress(BadInput):
        EXPERIMENTS[name].build(replace(own, seeds=2))
        own = replace(own, seeds=2)
    rows = here(name, own)
    assert (
        rows["Model"] == "org/mine"
        and rows["Data"].startswith("cafe and bakery")
        and not re.search(r"10\.6 million|examples/|the stored pair", " ".join(rows.values()))
    )


SMALL = scale("small")
TRAINED = "plain SGD, 5,000 steps of 16 examples at the rate 0.04"


@pytest.mark.parametrize(("name", "chosen", "aspect", "words"), [
    ("figure9", {"sizes": (0.001,)}, "Region size", r"0\.1%"),
    ("figure9", {"sizes": (0.03, 0.001, 0.01)}, "Region size", r"0\.1% to 3%"),
    ("table2", {"readout": "head"}, "Readout", "classification head.*"),
    ("table4", {}, "Fine-tuning", ".*on one task after the other.*"),
    ("table4", {}, "Localizer", ".*; 1 mask seed"),
    ("figure3", {"readout": "prompt"}, "Readout", "prompt and classification head.*"),
    ("figure7", {}, "Shifts", "mr to cr, uci_yelp, uci_amazon and uci_imdb"),
    ("table8", {"tasks": ("subj",)}, "Tasks", "subj"),
    ("table1", {"base": "org/mine"}, "Training of few parameters",
     r"(?!.*validation).*BitFit at 0\.2 and LoRA \(rank 8\) at 0\.001; 3,000 steps.*"),
])  # fmt: skip
def test_what_an_experiment_does_otherwise_than_its_scale_is_told(
    name: str, chosen: dict[str, Any], aspect: str, words: str
) -> None:
    at = replace(SMALL, **chosen) if "sizes" in chosen else SMALL.with_choices(**chosen)
    assert re.fullmatch(words, here(name, at)[aspect])


def test_the_paper_s_own_base_and_readout_are_no_difference() -> None:
    rows = here("table2", SMALL.with_choices(base="FacebookAI/roberta-base", readout="prompt"))
    assert (
        not {"Model", "Readout"} & set(rows)
        and {row.aspect: row.paper for row in EXPERIMENTS["table2"].differences(SMALL.with_choices(readout="causal"))}[
            "Region size"
        ]
        == "0.05% (GPT-2)"
    )


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"tasks": ("subj",)}, "the stored pair of each task; 1 seed"),
        ({"tasks": ("mine.yaml",), "seeds": 2}, f"{TRAINED}; 2 seeds"),
        ({"tasks": ("mine.yaml",), "finetuned": "mine/tuned"}, "mine/tuned as given; 1 seed"),
        ({"tasks": ("mine.yaml", "subj")}, f"the stored pair of subj, else {TRAINED}; 1 seed"),
    ],
)
def test_fine_tuning_tells_the_model_that_is_given_the_stored_pair_or_how_it_is_trained(
    chosen: dict[str, Any], words: str, tmp_path: Path
) -> None:
    (tmp_path / "subj-sgd").mkdir()
    assert here("table2", replace(SMALL, stored=str(tmp_path)).with_choices(**chosen))["Fine-tuning"] == words


def test_a_study_with_other_entries_says_only_that() -> None:
    study = requested("figure6")
    changes = ({}, {"runs": tuple({**run, "seed": [0]} for run in study.runs)}, {"request": None})
    assert [setting_differences(study.model_copy(update=change)) for change in changes] == [
        EXPERIMENTS["figure6"].differences(SMALL),
        (EDITED,),
        (),
    ]


@pytest.mark.parametrize(
    "wrong",
    [{"finetune": "fast"}, {"region": "key:abc"}, {"recipe": "bitfit", "finetune": {"lr": "x"}},
     {"k_shot": ["few"]}, {"max_train": "most"}, {"task": [{"a": 1}]}],
)  # fmt: skip
def test_a_study_that_was_wrongly_edited_is_refused_in_a_sentence(wrong: dict[str, Any]) -> None:
    content = requested("figure6", "small").model_dump()
    refuses(
        BadInput,
        "entry 1 of runs",
        setting_differences,
        StudySpec(**{**content, "runs": [{**run, **wrong} for run in content["runs"]]}),
    )


def test_a_scale_of_ones_own(tmp_path: Path) -> None:
    rows = here("table3", tiny_scale(tmp_path))
    assert rows["Shifts"].endswith(" to other") and rows["Model"] == str(tmp_path / "base")


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_a_stored_study_is_as_requested_or_says_that_it_is_not(path: Path, tmp_path: Path) -> None:
    study = read_study(path)
    if is_as_requested(study):
        assert study.request is not None and study_of(study.request, Store(tmp_path))[2] == study
    else:
        assert setting_differences(study) == (() if study.request is None else (EDITED,))


def test_there_are_stored_studies() -> None:
    assert len(STORED) > 5

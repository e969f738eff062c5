"""Tests of the form that starts a study: an experiment on own models, the number of processes, and its command."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.errors import BadInput
from skillviz.jobs.job import Job
from skillviz.jobs.kinds import StudyJob
from skillviz.models import fetch
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import SCALES
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec, read_study
from skillviz.ui import cache
from skillviz.ui.pages.studies import start as study_start
from tests.pages.test_pages import opened, words
from tests.studies.fake_study import fake_study
from tests.visitor import confirmed

BASE, PAIR = "examples/models/minilm-l6", "examples/pairs/mr-sgd"
TASKS = "mr,subj"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, int]]:
    """Record the file and the number of processes of each study that the button starts; start none."""
    found: list[tuple[Path, int]] = []

    def start(file: Path, where: object, workers: int = 1, backend: object = None) -> Job:
        found.append((Path(file), workers))
        return StudyJob("x", Path(file).parent, "running")

    monkeypatch.setattr(jobs, "start_study", start)
    return found


def asking(**fields: str) -> AppTest:
    """Return the page with these fields of own models in its address."""
    return opened("studies", **{f"own.{name}": value for name, value in fields.items()})


def said(test: AppTest) -> str:
    return words(test).replace("\\", "")


def own(test: AppTest) -> Any:
    """Return the folded part with the fields of own models."""
    return next(part for part in test.expander if part.label == study_start.MODELS_TITLE)


def command(test: AppTest) -> list[str]:
    return shlex.split(next(code.value for code in test.code if "reproduce" in code.value))


@pytest.mark.nightly
def test_the_fields_are_folded_until_one_is_set_and_each_explains_itself(empty: Path) -> None:
    test = opened("studies")
    assert not own(test).proto.expanded
    fields = (*own(test).selectbox, *own(test).multiselect, *own(test).number_input)
    assert len(fields) == 6 and all(field.help for field in fields)
    assert own(asking(seeds="2")).proto.expanded and own(asking(base=BASE)).proto.expanded


@pytest.mark.nightly
def test_an_experiment_is_asked_of_a_base_and_tasks_of_ones_own(empty: Path, started: list[tuple[Path, int]]) -> None:
    test = asking(base=BASE, tasks=TASKS, seeds="2")
    assert not test.exception and not test.error
    assert "4 fine-tunings" in said(test) and "Time left: not measured yet" in said(test)
    test.button(key="study.start").click().run()
    ((file, _),) = started
    study = read_study(file)
    assert {entry["base"] for entry in study.runs} == {BASE}
    tasks = ["examples/tasks/mr.yaml", "examples/tasks/subj.yaml"]
    assert list(dict.fromkeys(entry["task"] for entry in study.runs)) == tasks
    assert study.experiment == "table2" and f"`{study.name}`" in said(test) and study.name != "table2-small"


@pytest.mark.slow
def test_the_command_asks_the_same_with_paths_in_full(empty: Path, tmp_path: Path) -> None:
    (tmp_path / "base").symlink_to(Path(BASE).absolute())
    base = str(tmp_path / "base")
    test = asking(base=base, tasks=TASKS, finetuned="none", readout="head", seeds="3")
    assert command(test) == [
        "python", "-m", "skillviz", "reproduce", "table2", "--scale", "small", "--base", base,
        "--readout", "head", "--seeds", "3", "--tasks", "mr", "--tasks", "subj",
        "--runs-dir", str(empty),
    ]  # fmt: skip


def test_a_fine_tuned_model_of_one_task_is_not_fine_tuned_again(empty: Path) -> None:
    right = asking(base=BASE, tasks="mr", finetuned=PAIR)
    assert not right.error and "fine-tuning" not in said(right).partition("then the tables")[0].rpartition("\n")[2]
    assert f"--finetuned {PAIR} --tasks mr" in shlex.join(command(right))
    wrong = asking(base=BASE, tasks=TASKS, finetuned=PAIR)
    assert "a fine-tuned model belongs to one task" in said(wrong) and not wrong.exception
    assert "study.start" not in [button.key for button in wrong.button]


@pytest.mark.cases(3, 2)
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"base": "/nowhere"}, "/nowhere"),
        ({"tasks": "sst9"}, "'sst9' is not a task of the scale small"),
        ({"tasks": "gone.yaml"}, "gone.yaml"),
        ({"readout": "causal"}, "causal"),
        ({"base": "${HOME}/model"}, "only variables whose names begin with SKILLVIZ_"),
        ({"tasks": "$HOME/task.yaml"}, "only variables whose names begin with SKILLVIZ_"),
        ({"finetuned": "${PATH}", "tasks": "mr"}, "only variables whose names begin with SKILLVIZ_"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_and_nothing_is_started(
    fields: dict[str, str], why: str, empty: Path
) -> None:
    test = asking(**fields)
    assert not test.exception and len(test.error) == 1 and why in test.error[0].value.replace("\\", "")
    assert "study.start" not in [button.key for button in test.button]
    assert not empty.exists(), "a look leaves nothing"


@pytest.mark.slow
def test_other_data_are_named_beside_the_tasks(empty: Path) -> None:
    table3 = {"new.experiment": "table3", "own.tasks": "subj"}
    alone = opened("studies", **table3)
    assert "on other data with the same labels" in alone.error[0].value and not alone.exception
    wrong = opened("studies", **table3, **{"own.also": "cr"})
    assert len(wrong.error) == 1 and "study.start" not in [button.key for button in wrong.button]
    right = opened("studies", **(table3 | {"own.tasks": "mr"}), **{"own.also": "cr"})
    assert not right.error and "--tasks mr --also cr" in shlex.join(command(right))


@pytest.mark.slow
def test_a_variable_of_the_project_may_stand_in_a_path(
    empty: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "base").symlink_to(Path(BASE).absolute())
    monkeypatch.setenv("SKILLVIZ_MINE", str(tmp_path))
    test = asking(base="${SKILLVIZ_MINE}/base", tasks="mr")
    assert not test.error and "1 fine-tuning" in said(test)


def test_a_model_of_the_hub_is_fetched_only_when_asked(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = fetch.resolve
    monkeypatch.setattr(fetch, "resolve", lambda source, told=None: asked.append(source) or real(source, told))
    test = asking(base="org/name")
    assert "nor in the hub's local cache" in said(test) and "org/name" not in asked
    next(b for b in test.button if b.label == "Download org/name from the Hugging Face Hub").click().run()
    assert asked.count("org/name") == 1 and "could be downloaded from the Hugging Face Hub" in said(test)


def test_the_fields_stand_in_the_address(empty: Path) -> None:
    test = opened("studies")
    assert "--seeds" not in command(test)
    test.number_input(key="form.own.seeds").set_value(2).run()
    assert test.query_params["own.seeds"] == "2" and "own.base" not in test.query_params
    assert command(test)[command(test).index("--seeds") + 1] == "2"


def test_the_number_of_processes_is_in_the_command(
    empty: Path, started: list[tuple[Path, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_start, "cores", lambda: 2)
    test = opened("studies", **{"new.experiment": "figure6"})
    slider = "control.new.workers"
    assert test.slider(key=slider).value == 1 and command(test)[-2:] == ["--runs-dir", str(empty)]
    test.slider(key=slider).set_value(2).run()
    assert command(test)[-2:] == ["--workers", "2"]
    test.button(key="study.start").click().run()
    assert started[0][1] == 2


CLAIMS = (
    f"name: NAME\nrequest: {{experiment: table2, scale: small}}\ndefaults: {{base: {BASE}, finetuned: {PAIR}}}\nruns:\n"
    "- {task: examples/tasks/mr.yaml, localizer: [movement, random], sizes: ['1%']}\n"
)


def test_a_file_that_only_says_it_is_an_experiment_is_a_study_of_ones_own(
    empty: Path, started: list[tuple[Path, int]], tmp_path: Path
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(CLAIMS.replace("NAME", "mine"))
    test = opened("studies", **{"new.study": "file", "new.file": str(path)})
    assert not test.error and "its entries are not what that experiment asks" in test.info[0].value
    test.button(key="study.start").click().run()
    study = read_study(started[0][0])
    assert (study.name, study.experiment, study.scale) == ("mine", None, None)


def test_such_a_file_does_not_take_the_place_of_a_stored_study(empty: Path, tmp_path: Path) -> None:
    fake_study(empty, "table2")
    path = tmp_path / "own.yaml"
    path.write_text(CLAIMS.replace("NAME", "table2-small"))
    test = opened("studies", **{"new.study": "file", "new.file": str(path)})
    assert "give yours another name" in test.error[0].value and not test.exception
    assert "study.start" not in [button.key for button in test.button]


def test_a_file_that_asks_what_the_experiment_asks_is_that_experiment(
    empty: Path, started: list[tuple[Path, int]], tmp_path: Path
) -> None:
    path = tmp_path / "own.yaml"
    made = StudySpec(**EXPERIMENTS["figure6"].build(SCALES["small"])).model_copy(update={"name": "mine"})
    path.write_text(made.yaml_text())
    test = opened("studies", **{"new.study": "file", "new.file": str(path)})
    assert not test.error and "is not what" not in said(test)
    test.button(key="study.start").click().run()
    assert read_study(started[0][0]).experiment == "figure6"


def file_named(folder: Path, name: str, localizers: str = "[movement, random]") -> Path:
    """Write a study file without an experiment."""
    path = folder / "own.yaml"
    text = CLAIMS.replace("NAME", name).replace("request: {experiment: table2, scale: small}\n", "")
    path.write_text(text.replace("[movement, random]", localizers))
    return path


def given(path: Path) -> AppTest:
    """Return the page with this study file."""
    return opened("studies", **{"new.study": "file", "new.file": str(path)})


def ran(folder: Path) -> None:
    """Write the record of a study that was run with its current file."""
    name = folder.name
    text = (folder / "study.yaml").read_text()
    shutil.rmtree(folder)
    key = study_plan(StudySpec(**yaml.safe_load(text))).key
    fake_study(folder.parent.parent, "table2", name=name, tables=(), key=key)
    record = json.loads((folder / "study.json").read_text()) | {"experiment": None, "scale": None}
    (folder / "study.json").write_text(json.dumps(record))
    (folder / "study.yaml").write_text(text)


@pytest.mark.parametrize("place", ["own", "shipped"])
def test_no_file_takes_the_place_of_a_stored_study_of_an_experiment(
    place: str, empty: Path, tmp_path: Path, started: list[tuple[Path, int]]
) -> None:
    folder = fake_study(empty if place == "own" else tmp_path / "nothing", "table2")
    before = (folder / "study.yaml").read_text()
    test = given(file_named(tmp_path, "Table2 small"))
    assert len(test.error) == 1 and not test.exception and "study.start" not in [button.key for button in test.button]
    told = test.error[0].value.replace("\\", "")
    assert "of Table 2, which asks for something else: give yours another name" in told
    assert ("study run FILE" in told) is (place == "own")
    assert (folder / "study.yaml").read_text() == before and not started
    assert not given(file_named(tmp_path, "another")).error


def test_a_stored_file_is_gone_on_with_as_it_is(empty: Path, tmp_path: Path, started: list[tuple[Path, int]]) -> None:
    given(file_named(tmp_path, "mine")).button(key="study.start").click().run()
    test = given(started[0][0])
    assert not test.error and not test.info
    test.button(key="study.start").click().run()
    assert started[0] == started[1]


def test_ones_own_study_is_gone_on_with_by_another_file_and_the_page_says_so(
    empty: Path, tmp_path: Path, started: list[tuple[Path, int]]
) -> None:
    given(file_named(tmp_path, "mine")).button(key="study.start").click().run()
    stored = started[0][0]
    ran(stored.parent)
    test = given(file_named(tmp_path, "mine", "[movement]"))
    assert not test.error and "You have a study 'mine' that asks for something else" in " ".join(
        info.value for info in test.info
    )
    test.button(key="study.start").click().run()
    assert read_study(stored).runs[0]["localizer"] == ["movement"] and len(started) == 2


def test_a_file_that_was_changed_since_it_was_run_is_not_written_over(
    empty: Path, tmp_path: Path, started: list[tuple[Path, int]]
) -> None:
    given(file_named(tmp_path, "mine")).button(key="study.start").click().run()
    stored = started[0][0]
    ran(stored.parent)
    stored.write_text(stored.read_text().replace("movement", "stagewise"))
    changed = stored.read_text()
    test = given(file_named(tmp_path, "mine", "[random]"))
    assert "changed by hand" in test.error[0].value and "study.start" not in [button.key for button in test.button]
    assert stored.read_text() == changed
    assert not given(stored).error, "the changed file itself may be gone on with"


def test_a_study_that_cannot_be_made_leaves_no_file(
    empty: Path, tmp_path: Path, started: list[tuple[Path, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(study: StudySpec, where: object) -> None:
        raise BadInput("the base is not there.")

    test = given(file_named(tmp_path, "mine"))
    monkeypatch.setattr(cache, "refuse_study", refuse)
    test.button(key="study.start").click().run()
    assert "the base is not there" in test.error[0].value and not started
    assert not (empty / "studies" / "mine").exists()

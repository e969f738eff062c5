"""Tests of the form of a new localization: compatible pairs, work and memory, the command, the start, the address."""

from __future__ import annotations

import json
import re
import shutil
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.errors import BadInput
from skillviz.jobs.backend import LocalBackend
from skillviz.jobs.devices import Device
from skillviz.models import examples, fetch
from skillviz.models.public_pairs import public_pairs
from skillviz.runs.folder import OPEN, RunFolder
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.tasks import registry, uploaded
from skillviz.ui import other_tasks
from skillviz.ui.job_words import form_of
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.launch import launch_page, search
from tests.fake_run import fake_run
from tests.runs.test_scoring import other_task
from tests.tiny import NEUTRAL, tiny_pair, tiny_task
from tests.ui.shared_store import SMALL
from tests.visitor import confirmed

LABELS = ("class-terrible", "class-great")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `models` (a pair with a head; `words` and `writes` have the other readouts) and `task`."""
    folder = tmp_path_factory.mktemp("small")
    tiny_pair(folder / "models")
    tiny_pair(folder / "models" / "words", "roberta", "prompt")
    tiny_pair(folder / "models" / "writes", "gpt2", "causal")
    tiny_task(folder / "task")
    return folder


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Queue jobs without starting a process; return the ids of the jobs that would start."""
    started: list[str] = []
    monkeypatch.setattr(LocalBackend, "start", lambda self, folder, words, cwd: started.append(folder.name))
    return started


@pytest.fixture(autouse=True)
def alone(empty: Path, small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set up a machine with no runs, no examples and the models of `small`."""
    monkeypatch.setenv("SKILLVIZ_MODELS", str(small / "models"))
    monkeypatch.setattr(examples, "app_root", lambda: tmp_path / "none")
    monkeypatch.setattr(launch_page.cache, "encoding_notes", lambda spec, client: read({}))  # no worker


def read(notes: dict[str, list[str]]) -> Future[dict[str, list[str]]]:
    """Return the worker's notes on texts, by split, as a finished future."""
    future = Future[dict[str, list[str]]]()
    future.set_result(notes)
    return future


def opened(**query: object) -> AppTest:
    test = AppTest.from_file(str(PAGES["launch"].path), default_timeout=120)
    for name, value in query.items():
        test.query_params[name if name == "jobs" else f"new.{name.replace('_', '-')}"] = str(value)
    return confirmed(test.run())


def chosen(small: Path, **query: object) -> dict[str, object]:
    """Return the query of the tiny pair and its task, with these choices."""
    models = small / "models"
    pair = {"base": models / "base", "finetuned": models / "finetuned"}
    return {**pair, "source": "file", "file": small / "task" / "task.yaml", "size": "5%", "device": "cpu", **query}


def said(test: AppTest) -> str:
    assert not test.exception
    parts = (*test.markdown, *test.caption, *test.info, *test.error, *test.warning, *test.success)
    return "\n".join(str(part.value) for part in parts).replace("\\", "")


def button(test: AppTest, label: str) -> Any:
    return next(b for b in test.button if b.label.startswith(label))


def fields(test: AppTest) -> list[Any]:
    """Return every field of the form that takes a choice or text."""
    kinds = ("selectbox", "multiselect", "text_input", "number_input", "button_group", "toggle", "file_uploader")
    return [field for kind in kinds for field in test.get(kind)]


def box(test: AppTest, label: str) -> Any:
    return next(field for field in fields(test) if field.label.startswith(label))


def test_nothing_is_chosen_at_first_and_the_button_says_so(small: Path) -> None:
    test = opened()
    assert button(test, "Start").disabled and not test.error
    assert "Not yet: Choose a pre-trained and a fine-tuned model." in said(test)
    assert f"6 models found under `{small / 'models'}`" in said(test) and "SKILLVIZ_MODELS" in said(test)
    assert "base (bert," in box(test, "Pre-trained").options[0]


def test_a_public_pair_brings_its_base_and_its_task_and_downloads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "resolve", lambda *a, **k: pytest.fail("asked the hub"))
    first, other = (next(row for row in public_pairs() if row.task == task) for task in ("sst2", "mnli"))
    test = opened(**{"from": "public"})
    assert [field.label for field in fields(test) if not field.help] == []
    assert box(test, "Task").value == "sst2" and button(test, "Start").disabled
    for name in (first.base, first.finetuned):
        assert button(test, f"Download {name}")
    box(test, "Pair").select(other.finetuned).run()
    assert box(test, "Task").value == "mnli" and test.query_params["new.public"] == other.finetuned
    assert button(test, f"Download {other.finetuned}") and f"license {other.license}" in said(test)
    box(test, "Task").select("qnli").run()
    assert box(test, "Task").value == "qnli", "another task can be chosen"


def test_a_public_pair_of_pickled_weights_comes_with_the_command_that_converts_them() -> None:
    row = next(row for row in public_pairs() if row.weights == "bin")
    test = opened(**{"from": "public", "public": row.finetuned})
    assert [block.value for block in test.code if "--convert" in block.value] == [row.convert_command()]
    downloads = [b.label for b in test.button if b.label.startswith("Download ")]
    assert downloads == [f"Download {row.base} from the Hugging Face Hub"] and button(test, "Start").disabled


def test_a_pair_that_fits_shows_work_memory_and_the_command(small: Path) -> None:
    test = opened(**chosen(small, seeds="3"))
    text = said(test)
    assert "The two fit: 4,448 graftable parameters in 2 layers" in text and not test.error
    assert "**222 (5%)** of 4,448" in text and "task *tiny*" in text
    assert (
        "gradients of examples" in text
        and "shows the time left once it is measured" in text
        and "that are free" in text
    )
    differences = test.table[0].value.set_index("Aspect")["Here"]
    assert differences["Training examples"] == "all 64" and "Localizer" in differences
    command = test.code[0].value
    assert "--size 5%" in command and "--seed 3" in command and command.count("--detach --runs-dir") == 1
    assert not button(test, "Start").disabled
    devices = box(test, "Device").options
    assert devices[0].startswith("auto: ") and devices[1].startswith("cpu: ") and "free" in devices[1]


def test_scoring_on_other_tasks_is_counted(small: Path, tmp_path: Path) -> None:
    """Each example of another task counts once for each point of the grid, up to the cap; missing data do not count."""
    also = other_task(tmp_path, "near", rows=4000)

    def scored(**query: object) -> int:
        text = said(opened(**chosen(small, interpolation="yes", **query)))
        return int(re.search(r"and ([\d,]+) examples to score", text)[1].replace(",", ""))  # type: ignore[index]

    one = 4 + 1 + 10 * 2  # both models and two states, and the grid's points
    assert scored(also=also, max_test=20) - scored(max_test=20) == 20 * one
    assert scored(also=also) - scored() == 4000 * one
    assert "Not included" in said(opened(**chosen(small, also="sst2")))


def test_the_choices_come_back_from_the_address(small: Path) -> None:
    query = chosen(
        small, method="learned", size="1%,9", seeds="0-2", trial="yes", dtype="bfloat16", autocast="float16",
        k_shot=8, max_test=20, interpolation="yes",
    )  # fmt: skip
    query |= {"learned.lr": 5, "learned.selection": "none", "learned.steps": 7}
    test = opened(**query)
    command = test.code[0].value.splitlines()[0]
    for words in (
        "--method learned", "--size 1% --size 9", "--steps 7", '--option lr=5.0', "selection=", "--dtype bfloat16",
        "--autocast float16", "--k-shot 8", "--max-test 20", "--max-train 128", "--interpolation",
    ):  # fmt: skip
        assert words in command, words
    again = AppTest.from_file(str(PAGES["launch"].path), default_timeout=120)
    for name, value in dict(test.query_params).items():
        again.query_params[name] = value
    assert confirmed(again.run()).code[0].value == test.code[0].value and dict(again.query_params) == dict(
        test.query_params
    )


@pytest.mark.parametrize(("gain", "value"), [("2.5", 2.5), ("fit", "fit"), ("kinds", "kinds"), ("1", 1.0)])
def test_a_gain_is_kept_from_the_spec_to_the_command(small: Path, gain: str, value: Any) -> None:
    query = form_of(RunSpec(base="b", finetuned="f", task="t", gain=value))
    assert query["new.gain"] == gain
    test = opened(**chosen(small, gain=query["new.gain"]))
    assert box(test, "Gain").value == gain and test.query_params.get("new.gain", "1") == gain
    command = test.code[0].value
    assert (f"--gain {gain}" in command or f"--gain {value}" in command) == (gain != "1")
    assert not button(test, "Start").disabled


def test_the_draws_of_a_null_are_kept_from_the_spec_to_the_command(small: Path) -> None:
    query = form_of(RunSpec(base="b", finetuned="f", task="t", nulls="shuffled", null_draws=5))
    test = opened(**chosen(small, nulls=query["new.nulls"], null_draws=query["new.null-draws"]))
    assert "--null-draws 5" in test.code[0].value and "on 5 null movements" in said(test)
    assert test.query_params["new.null-draws"] == "5"


def test_a_gain_that_is_none_is_refused(small: Path) -> None:
    test = opened(**chosen(small, gain="often"))
    assert "'often'" in said(test) and button(test, "Start").disabled


def test_a_hundredth_is_said_in_numbers(small: Path) -> None:
    test = opened(**chosen(small))
    assert "--max-train" not in test.code[0].value
    box(test, "Quick try").set_value(True).run()
    assert "Uses 64 of 64 train, 32 of 32 validation and 32 of 32 test examples" in said(test)
    assert "--max-train 128 --max-validation 100 --max-test 100" in test.code[0].value


@pytest.mark.cases(6, 3)
@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"base": "MODELS/finetuned"}, "are the same folder"),
        ({"base": "/no/where"}, "outside the folders"),
        ({"finetuned": "MODELS/words/finetuned"}, "both must be of one architecture"),
        ({"base": "~nobody-is-called-so"}, "there is no folder '~nobody-is-called-so'"),
        ({"base": "x" * 280}, "is neither a folder here"),
        ({"finetuned": "/" + "x" * 280}, "there is no folder"),
        ({"file": "/no/task.yaml"}, "outside the folders"),
        ({"file": "~nobody-is-called-so/y.yaml"}, "there is no task file ~nobody"),
        ({"file": "x" * 280 + ".yaml"}, "there is no task file"),
        ({"size": "5%,200%"}, "'200%' asks for"),
        ({"size": "none"}, "Give at least one size"),
        ({"seeds": "one"}, "'one' is no seed"),
        ({"k_shot": 1, "max_train": 1, "file": "BROKEN"}, "no column 'text'"),
    ],
)
def test_what_does_not_fit_is_said_and_the_button_gives_the_reason(
    small: Path, tmp_path: Path, query: dict[str, object], problem: str
) -> None:
    broken = tmp_path / "broken.yaml"
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").write_text("words,label\na,0\nb,1\n")
    broken.write_text("name: b\ndata: {train: train.csv, test: test.csv}\ntext: text\nlabels: [x, y]\n")
    filled = {
        n: str(v).replace("MODELS", str(small / "models")).replace("BROKEN", str(broken)) for n, v in query.items()
    }
    test = opened(**chosen(small, **filled))
    assert problem in "\n".join(error.value for error in test.error).replace("\\", "") and not test.exception
    assert button(test, "Start").disabled and "Not yet:" in said(test)


def test_the_readouts_are_those_of_the_pair_and_label_words_are_judged_before(small: Path, tmp_path: Path) -> None:
    words = small / "models" / "words"
    query = chosen(small, base=words / "base", finetuned=words / "finetuned")
    test = opened(**query)
    assert box(test, "How class").options == ["automatic: label words at the mask", "label words at the mask"]
    (refused,) = [caption for caption in test.caption if caption.value.startswith("Unavailable for this pair")]
    assert refused.value.endswith("classification head and likelihood of the answers.")
    assert "**classification head**: " in refused.help and "roberta" in refused.help
    assert "answers: " in said(test) and not test.error
    for path in (small / "task").glob("*.jsonl"):
        (tmp_path / path.name).write_text(path.read_text())
    task = (small / "task" / "task.yaml").read_text().replace("terrible", "unheardof")
    (tmp_path / "task.yaml").write_text(task)
    test = opened(**{**query, "file": tmp_path / "task.yaml"})
    assert "label word 'unheardof'" in said(test) and button(test, "Start").disabled


def test_start_queues_a_job_for_each_seed_and_once_only(small: Path, paper: list[str], user_runs: Path) -> None:
    test = opened(**chosen(small, seeds="0,1"))
    button(test, "Start 2 jobs").click().run()
    assert len(paper) == 2 and test.query_params["jobs"] == ",".join(paper)
    found = {job.run_id: job for job in jobs.list(Store(user_runs))}
    assert [found[i].spec.seed for i in paper] == [0, 1] and [found[i].position for i in paper] == [0, 1]
    text = said(test)
    assert "## Jobs" in text and "Waits for **cpu**: 1 job is ahead of it." in text
    assert button(test, "Start").disabled and "2 jobs ahead in the queue" in text
    assert "Started. Follow it below or on *Jobs*." in text and "already queued" not in text
    again = opened(**chosen(small, seeds="0,1"))
    assert "These settings are already queued or running. Follow it below" in said(again), "by another session"
    assert not any(
        run_id in caption.value for run_id in paper for caption in again.caption if "Follow" in caption.value
    )
    box(test, "Seeds").input("2").run()
    assert not button(test, "Start").disabled


@pytest.mark.nightly
def test_an_equal_stored_run_is_offered_instead_of_made_again(small: Path, user_runs: Path, paper: list[str]) -> None:
    query = {**chosen(small), "interpolation": "no", "nulls": "none"}
    models = small / "models"
    stored = fake_run(
        Store(user_runs), base=str(models / "base"), finetuned=str(models / "finetuned"),
        task=str(small / "task" / "task.yaml"), sizes=("5%",), nested=False, interpolation=False,
    )  # fmt: skip
    spec = stored.spec.model_copy(update={"device": "cpu"})
    path = stored.path / "run.json"
    path.write_text(path.read_text().replace(stored.record.key, spec.key()))
    test = opened(**query)
    assert button(test, "Start").disabled and "1 run with these settings is stored already" in said(test)
    (link,) = [link.proto for link in test.get("page_link") if link.proto.label == "Open the stored run"]
    assert stored.id in link.query_string
    box(test, "Seeds").input("0,1").run()
    button(test, "Start").click().run()
    assert [job.spec.seed for job in jobs.list(Store(user_runs))] == [1], "only what is missing is made"


def test_paths_and_the_nearest_other_data_are_scored_unless_switched_off(small: Path) -> None:
    command = opened(**chosen(small)).code[0].value
    assert "--interpolation" in command
    assert "--interpolation" not in opened(**{**chosen(small), "interpolation": "no"}).code[0].value
    assert box(opened(), "Score on other tasks").value == []


def test_an_error_at_the_start_keeps_what_was_chosen(
    small: Path, paper: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **named: object) -> None:
        raise jobs.control.StoreError("no room here")

    test = opened(**chosen(small))
    monkeypatch.setattr(launch_page.jobs, "start", full)
    button(test, "Start").click().run()
    assert "no room here" in test.error[0].value and "jobs" not in test.query_params
    assert box(test, "Region sizes").value == ["5%"]


def test_a_model_of_the_hub_is_fetched_only_when_asked(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = fetch.resolve
    monkeypatch.setattr(fetch, "resolve", lambda source, told=None: asked.append(source) or real(source, told))
    test = opened(**chosen(small, base="org/name"))
    assert "nor in the hub's local cache" in said(test) and "org/name" not in asked
    button(test, "Download org/name").click().run()
    assert asked.count("org/name") == 1 and "could be downloaded from the Hugging Face Hub" in said(test)


def test_data_of_the_hub_are_read_only_when_asked(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = opened(**chosen(small, source="known", known="sst2"))
    assert "come from the hub" in said(test) and not button(test, "Start").disabled
    box(test, "Quick try").set_value(True).run()
    assert "at most 128 train, 100 validation and 100 test examples" in said(test)
    button(test, "Read the data now").click().run()
    assert "could not be downloaded from the Hugging Face Hub" in said(test) and button(test, "Start").disabled


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize(
    ("source", "method"),
    [("known", "stagewise"), ("upload", "stagewise"), *(("file", name) for name in LOCALIZERS if name != "expression")],
)
def test_every_field_explains_itself(small: Path, source: str, method: str) -> None:
    test = opened(**chosen(small, source=source, method=method))
    assert len(fields(test)) > 12 and [field.label for field in fields(test) if not field.help] == []


def test_layers_are_typed_and_what_cannot_be_read_is_refused(small: Path, user_runs: Path, paper: list[str]) -> None:
    test = opened(**chosen(small, method="layers"))
    box(test, "Layers").input("nought").run()
    assert "Layers: 'nought' cannot be read." in said(test) and button(test, "Start").disabled
    box(test, "Layers").input("1, 0").run()
    button(test, "Start").click().run()
    (spec,) = [job.spec for job in jobs.list(Store(user_runs))]
    assert (spec.localizer, spec.options) == ("layers", {"layers": "0,1"})


def test_lean_mode_is_offered_and_refused_for_localizers_that_have_no_room_in_it(
    small: Path, user_runs: Path, paper: list[str]
) -> None:
    refused = opened(**chosen(small, method="learned", lean="yes"))
    assert (
        "which lean mode has no room for; use one of stagewise" in said(refused) and button(refused, "Start").disabled
    )
    test = opened(**chosen(small, lean="yes"))
    command = test.code[0].value
    assert "--lean" in command and "--dtype float32" not in command
    button(test, "Start").click().run()
    (spec,) = [job.spec for job in jobs.list(Store(user_runs))]
    assert (spec.lean, spec.dtype) == (True, "own")
    assert form_of(spec)["new.lean"] == "yes"


def test_cuda_graphs_are_offered_where_there_is_a_gpu(
    small: Path, user_runs: Path, paper: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not [field for field in opened(**chosen(small)).toggle if field.label == "CUDA graphs"]
    there = [Device("cpu", "a CPU", 2**34, 2**34), Device("cuda:0", "a GPU", 2**34, 2**34)]
    monkeypatch.setattr(search.cache, "devices", lambda: there)
    refused = opened(**chosen(small, method="fisher", cuda_graphs="yes", device="cuda:0"))
    assert "takes gradients of single examples" in said(refused) and button(refused, "Start").disabled
    test = opened(**chosen(small, cuda_graphs="yes", device="cuda:0"))
    assert "--cuda-graphs" in test.code[0].value and not button(test, "Start").disabled
    on_cpu = opened(**chosen(small, cuda_graphs="yes", device="cpu"))
    assert "CUDA graphs need a GPU" in said(on_cpu) and button(on_cpu, "Start").disabled
    assert form_of(RunSpec(base="a", finetuned="b", task="c", cuda_graphs=True))["new.cuda-graphs"] == "yes"


@pytest.mark.slow
def test_a_localizer_that_compares_answers_is_refused_for_a_task_without_several(small: Path) -> None:
    generated = Path(__file__).parents[2] / "docs" / "examples" / "tell-place.yaml"
    for name, is_refused in (("fisher", True), ("random", False)):
        words = said(opened(**chosen(small, file=generated, method=name)))
        assert ("a text that is generated has one reference" in words) == is_refused


def test_a_small_sample_of_a_task_with_options_is_counted_in_all(small: Path) -> None:
    options = Path(__file__).parents[2] / "docs" / "examples" / "choose-domain.yaml"
    test = opened(**chosen(small, file=options, k_shot=8))
    field = box(test, "Training examples")
    assert "per class" not in field.label and "so they are not drawn per class" in field.help
    rows = {row.aspect: row.here for row in launch_page.paper_differences(
        RunSpec(base="b", finetuned="f", task="t", k_shot=64), (), "causal", {}, has_classes=False
    )}  # fmt: skip
    assert rows["Training examples"] == "64 in all"


def test_a_list_in_a_spec_comes_back_as_it_is_typed() -> None:
    spec = RunSpec(base="b", finetuned="f", task="sst2", localizer="layers", options={"layers": [0, 1]})
    assert form_of(spec)["new.layers.layers"] == "0,1"


@pytest.fixture
def shipped(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make two example pairs, both the tiny one, and a third that is not built; and three tasks, one without train
    files.

    Their paths are relative to the working folder, like the shipped examples' paths to the project's root.
    """
    root = tmp_path / "examples"
    shutil.copytree(small / "models" / "base", root / "models" / "base")
    shutil.copytree(small / "task", root / "tasks")
    (root / "tasks" / "task.yaml").unlink()
    written = yaml.safe_load((small / "task" / "task.yaml").read_text())
    for name in ("films", "gadgets", "phones"):
        data = written["data"] if name != "phones" else {"test": "test.jsonl"}
        told = {**written, "name": name, "title": name.title(), "data": data}
        (root / "tasks" / f"{name}.yaml").write_text(yaml.safe_dump(told))
    pairs = [
        {
            "name": f"of-{name}", "title": f"About {name}", "about": f"Learns {name}.", "base": "examples/models/base",
            "task": f"examples/tasks/{name}.yaml", "training": {},
        }
        for name in ("films", "gadgets", "missing")
    ]  # fmt: skip
    for name in ("films", "gadgets"):
        shutil.copytree(small / "models" / "finetuned", root / "pairs" / f"of-{name}")
    (root / "examples.yaml").write_text(yaml.safe_dump({"bases": {}, "pairs": pairs}))
    for module in (examples, other_tasks):
        monkeypatch.setattr(module, "app_root", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)


def test_the_examples_come_first_with_their_own_task(shipped: None, paper: list[str], user_runs: Path) -> None:
    test = opened()
    assert "The two fit" in said(test) and "Learns films." in said(test) and not button(test, "Start").disabled
    assert [field.label for field in fields(test) if not field.help] == []
    assert box(test, "Pair").options == ["About films", "About gadgets"], "one that is not built is not offered"
    assert [field.value for field in fields(test) if field.label == "Task"] == ["examples/tasks/films.yaml"]
    assert [field.options for field in fields(test) if field.label == "Task"] == [["Films", "Gadgets"]]
    box(test, "Pair").select("of-gadgets").run()
    assert [field.value for field in fields(test) if field.label == "Task"] == ["examples/tasks/gadgets.yaml"]
    assert test.query_params["new.example"] == "of-gadgets"
    also = box(test, "Score on other tasks")
    assert also.options == ["Films", "Phones"] and also.value == ["examples/tasks/films.yaml"]
    button(test, "Start").click().run()
    (job,) = jobs.list(Store(user_runs))
    assert [job.run_id] == paper and job.spec.finetuned == "examples/pairs/of-gadgets"


def test_a_task_without_training_examples_is_refused(shipped: None) -> None:
    test = opened(source="file", file="examples/tasks/phones.yaml")
    assert "task 'phones' has test examples only" in said(test) and button(test, "Start").disabled


def test_going_from_an_example_to_a_public_pair_changes_the_task(shipped: None) -> None:
    test = opened()
    box(test, "Models from").set_value("public").run()
    assert [field.value for field in fields(test) if field.label == "Task"] == ["sst2"]
    box(test, "Models from").set_value("example").run()
    assert [field.value for field in fields(test) if field.label == "Task"] == ["examples/tasks/films.yaml"]
    assert "The two fit" in said(test)


def csv(rows: int = 12) -> bytes:
    lines = [f"{n},a text that is long enough {n},{n % 2}" for n in range(rows)]
    return "\n".join(["id,text,label", *lines]).encode()


@pytest.fixture
def uploading(small: Path) -> AppTest:
    """Return the form with a file of twelve rows in the field of the training data."""
    test = opened(**chosen(small, source="upload"))
    assert "at most 50 MB a file" in said(test)
    test.file_uploader[0].set_value(("My reviews.csv", csv(), "text/csv")).run()
    return test


def test_an_upload_becomes_a_task_and_is_chosen(uploading: AppTest, user_runs: Path, paper: list[str]) -> None:
    test = uploading
    classes = {f"{what} {label}" for what in ("Class", "Word for") for label in "01"}  # a caption above explains them
    assert {field.label for field in fields(test) if not field.help} <= classes
    assert "The first 5 of 12 rows" in said(test) and test.dataframe[0].value["label"].tolist() == ["0", "1"] * 2 + [
        "0"
    ]
    assert box(test, "Text columns").value == ["text"] and box(test, "Label column").value == "label"
    assert "as a masked model reads it: a text that is long enough 0 It was <mask>." in said(test)
    box(test, "Class 0").input("bad").run()
    box(test, "Class 1").input("good").run()
    button(test, "Check and save").click().run()
    path = user_runs / "tasks" / "my-reviews" / "task.yaml"
    assert path.is_file() and f"is saved in {path}: 9 train, 1 validation and 2 test examples" in said(test)
    assert box(test, "Task file").value == str(path) and box(test, "Task from").value == "file"
    assert "Classes: bad and good." in said(test) and not button(test, "Start").disabled
    assert box(test, "Task file").options == ["my-reviews"]


def warned(test: AppTest) -> str:
    """Return the page's warnings."""
    return "\n".join(str(warning.value) for warning in test.warning)


def writing(test: AppTest, rows: int = 40) -> AppTest:
    """Return the form with uploaded rows that have written answers, in words that the tiny tokenizers know."""
    words = [" ".join((NEUTRAL * 2)[n % len(NEUTRAL) :][:5]) for n in range(rows)]
    lines = [json.dumps({"asked": text, "answer": f"{text.split()[0]} {n % 2}"})
             for n, text in enumerate(words)]  # fmt: skip
    test.file_uploader[0].set_value(("written.jsonl", "\n".join(lines).encode(), "application/json")).run()
    return test


def test_an_answer_to_write_is_asked_for_without_classes(small: Path, user_runs: Path) -> None:
    test = writing(opened(**chosen(small, source="upload")))
    box(test, "Each row has").set_value("generation").run()
    assert box(test, "Reference column").value == "answer" and box(test, "Most new tokens").value == 32
    assert not {"Label column", "Metric", "Template for masked models"} & {field.label for field in fields(test)}
    assert [field.label for field in fields(test) if not field.help] == []
    first = " ".join(NEUTRAL[:5])
    assert f"as the model reads it: {first}" in said(test) and f"Its reference: {NEUTRAL[0]} 0" in said(test)
    box(test, "Prompt").input("no place")
    box(test, "An answer ends at").set_value("newline").run()
    button(test, "Check and save").click().run()
    assert "the causal template 'no place' has no place for a text" in said(test)
    assert (box(test, "Prompt").value, box(test, "An answer ends at").value) == ("no place", "newline")
    box(test, "Prompt").input("{text} It was")
    box(test, "Most new tokens").set_value(40).run()
    button(test, "Check and save").click().run()
    task = registry.task(user_runs / "tasks" / "written" / "task.yaml")
    assert (task.kind, task.text, task.reference) == ("generation", ("asked",), "answer")
    assert (task.stop, task.max_new_tokens, task.max_length) == ("newline", 40, 520)
    assert said(test).count("which the head readout cannot do; use the causal readout") == 2, "once, and at the button"
    assert not {"Score on other tasks too", "How class scores are read"} & {field.label for field in fields(test)}


def test_a_reference_that_does_not_fit_is_told_before_the_task_is_saved(small: Path, user_runs: Path) -> None:
    """The length is in tokens of the chosen pair; without a pair, it is at least the number of words."""
    test = writing(opened(**chosen(small, source="upload")))
    box(test, "Each row has").set_value("generation").run()
    assert "no run could start" not in warned(test)
    box(test, "Most new tokens").set_value(2).run()
    assert "has 3 tokens with the one that ends it for the chosen models" in warned(test)
    test = writing(opened(**{**chosen(small, source="upload"), "base": small / "nowhere"}))
    box(test, "Each row has").set_value("generation").run()
    box(test, "Most new tokens").set_value(2).run()
    assert "has 2 words, at least 3 tokens with the one that ends it" in warned(test)


def test_an_answer_may_be_scored_by_perplexity(small: Path, user_runs: Path) -> None:
    test = writing(opened(**chosen(small, source="upload")))
    box(test, "Each row has").set_value("generation").run()
    box(test, "Scored by").set_value("perplexity").run()
    assert not {"Most new tokens", "Ignore case", "Ignore punctuation"} & {field.label for field in fields(test)}
    assert box(test, "An answer ends at").value == "end_of_text"
    button(test, "Check and save").click().run()
    task = registry.task(user_runs / "tasks" / "written" / "task.yaml")
    assert (task.metric, task.kind, task.generates, task.max_length) == ("perplexity", "generation", False, None)
    assert "Nothing is generated: the task is scored by the perplexity of its references." in said(test)


@pytest.mark.slow
def test_options_that_are_uploaded_become_a_task(small: Path, user_runs: Path) -> None:
    test = opened(**chosen(small, source="upload"))
    rows = [{"asked": f"which is an animal, {n}", "option_a": "car", "option_b": "cat", "right": "B"} for n in range(9)]
    content = "\n".join(json.dumps(row) for row in rows).encode()
    test.file_uploader[0].set_value(("choose.jsonl", content, "application/json")).run()
    assert box(test, "Each row has").value == "choice" and box(test, "The right option is").value == "label"
    box(test, "Option columns").set_value([]).run()
    assert "needs the columns that hold them" in said(test) and box(test, "Right option").value == "right"
    box(test, "Option columns").set_value(["option_a", "option_b"]).run()
    assert "Its options: car and cat. Right: B." in said(test)
    button(test, "Check and save").click().run()
    task = registry.task(user_runs / "tasks" / "choose" / "task.yaml")
    assert (task.options, task.label, task.labels) == (("option_a", "option_b"), "right", ("A", "B"))


@pytest.mark.slow
def test_an_upload_whose_answer_is_written_goes_to_a_finished_run(small: Path, user_runs: Path) -> None:
    folder = small / "models" / "writes"
    pair = {"base": folder / "base", "finetuned": folder / "finetuned"}
    query = {**chosen(small, source="upload", interpolation="no"), **pair, "method": "movement"}
    test = writing(opened(**query))
    box(test, "Each row has").set_value("generation").run()
    button(test, "Check and save").click().run()
    assert "The answer is generated, up to 32 tokens" in said(test) and "Memory: **" in said(test)
    button(test, "Start").click().run()
    store = Store(user_runs)
    deadline = time.monotonic() + 240
    while not (done := [run for run in store.list() if run.record.status not in OPEN]) and time.monotonic() < deadline:
        time.sleep(1)
    (run,) = done
    assert run.record.status == "finished" and run.record.generates
    scores = run.predictions()
    assert set(scores["state"]) >= {"pretrained", "finetuned", "grafted"} and scores["generated"].notna().all()


@pytest.mark.slow
def test_a_file_of_one_column_asks_for_a_text_column(small: Path) -> None:
    test = opened(**chosen(small, source="upload"))
    test.file_uploader[0].set_value(("labels.csv", b"label\n0\n1\n0\n", "text/csv")).run()
    assert "Choose a text column" in said(test)
    button(test, "Check and save").click().run()
    assert test.error and not test.exception


@pytest.mark.slow
def test_an_uploaded_task_can_be_deleted(uploading: AppTest, user_runs: Path) -> None:
    """Tasks that count towards a quota can be deleted; a task in another folder is never deleted."""
    button(uploading, "Check and save").click().run()
    (path,) = uploaded.saved(user_runs / "tasks")
    button(uploading, "Delete this task").click().run()
    assert path.is_file(), "it asks first"
    button(uploading, "Delete for good").click().run()
    assert not path.parent.exists() and uploaded.saved(user_runs / "tasks") == []
    other = user_runs / "elsewhere" / "mine" / "task.yaml"
    other.parent.mkdir(parents=True)
    other.write_text("name: mine")
    for file in (other, user_runs / "tasks" / ".." / "elsewhere" / "mine" / "task.yaml"):
        with pytest.raises(BadInput, match="nothing was deleted"):
            uploaded.delete(file, user_runs / "tasks")
    assert other.is_file()


def test_a_text_column_that_is_taken_out_is_asked_for_again(uploading: AppTest) -> None:
    box(uploading, "Text columns").set_value([]).run()
    assert "Choose a text column" in said(uploading) and "model reads it" not in said(uploading)
    box(uploading, "Text columns").set_value(["text"]).run()
    assert "Choose a text column" not in said(uploading) and "model reads it" in said(uploading)


@pytest.mark.slow
def test_nothing_that_was_typed_is_lost_where_an_upload_cannot_be_kept(uploading: AppTest, user_runs: Path) -> None:
    test = uploading
    box(test, "Name of the task").input("a/b").run()
    box(test, "Word for 0").input("bad").run()
    button(test, "Check and save").click().run()
    assert "'a/b' cannot name a task" in said(test)
    box(test, "Name of the task").input("ab").run()
    button(test, "Check and save").click().run()
    assert "label words" in said(test), "one class has a word, the other none"
    assert (box(test, "Name of the task").value, box(test, "Word for 0").value) == ("ab", "bad")
    assert not (user_runs / "tasks" / "ab").exists()
    box(test, "Word for 1").input("good").run()
    button(test, "Check and save").click().run()
    assert (user_runs / "tasks" / "ab" / "task.yaml").is_file()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", b"", "a.csv is empty"),
        ("a.csv", b"text,label\n" + b"\n".join(b"x,%d" % n for n in range(70)), "has 70 different values"),
        ("a.jsonl", b"{oops", "cannot be read as JSONL"),
    ],
)
def test_a_file_that_is_no_data_is_said_in_its_place(small: Path, name: str, content: bytes, problem: str) -> None:
    test = opened(**chosen(small, source="upload"))
    test.file_uploader[0].set_value((name, content, "text/plain")).run()
    assert problem in said(test) and not test.exception


def running(user_runs: Path, small: Path, paper: list[str]) -> RunFolder:
    """Return a job that runs in this process."""
    spec = launch_page.read_spec(
        {"base": str(small / "models" / "base"), "finetuned": str(small / "models" / "finetuned"), "sizes": ("5%",),
         "task": str(small / "task" / "task.yaml"), "device": "cpu"}
    )  # fmt: skip
    folder = RunFolder(jobs.start(spec, Store(user_runs)).path)
    folder.start()
    return folder


def test_the_jobs_of_the_address_are_shown_as_they_are(small: Path, user_runs: Path, paper: list[str]) -> None:
    folder = running(user_runs, small, paper)
    told = {"phase": "search", "search": 1, "searches": 1, "target": 222, "total": 50, "loss": 0.5, "left": 9.0}
    for step in range(1, 4):
        folder.event(**told, step=step, size=222, added=3, removed=1)
    test = opened(jobs=f"{folder.id},gone-abc")
    assert "searching: step 3 of 50, loss 0.500" in test.get("progress")[0].proto.text
    figure = json.loads(test.get("plotly_chart")[0].proto.spec)
    assert figure["data"][0]["x"] is not None and "The search for 222 entries" in said(test)
    folder.fail(jobs.job.Failure(kind="out of memory", message="no room", hint="less"))
    test.run()
    assert "**Out of memory.** no room" in said(test) and "What to do: Choose bfloat16" in said(test)
    assert {b.label for b in test.button} >= {"Resume", "Hide"}
    button(test, "Resume").click().run()
    assert jobs.status(Store(user_runs), folder.id).status == "queued" and paper[-1] == folder.id
    button(test, "Cancel").click().run()
    assert jobs.status(Store(user_runs), folder.id).status == "cancelled" and "last checkpoint" in said(test)
    button(test, "Hide").click().run()
    assert "## Jobs" not in said(test)


def links(test: AppTest) -> dict[str, str]:
    """Return label -> query of every link to a page."""
    return {link.proto.label: link.proto.query_string for link in test.get("page_link")}


def test_a_region_by_hand_that_failed_goes_on_in_surgery_and_not_as_another_search(
    small: Path, user_runs: Path, paper: list[str]
) -> None:
    pair = {"base": "demo/tiny-base", "finetuned": "demo/tiny-sst2", "task": "sst2"}
    store = Store(user_runs)
    folder = store.create(RunSpec(**pair, localizer="expression", options={"expression": {"layers": [0]}}))
    folder.start()
    folder.fail(jobs.job.Failure(kind="out of memory", message="no room", hint="less"))
    alone = links(opened(jobs=folder.id))
    assert not {"Open in the form", "Open in surgery"} & set(alone), "no run of the pair is left to open it under"
    run = fake_run(store, sizes=("5%",), **SMALL)
    found = links(opened(jobs=folder.id))
    assert "Open in the form" not in found
    told = parse_qs(found["Open in surgery"])
    assert told["run"] == [run.id] and json.loads(told["expression"][0]) == {"layers": [0]}


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    ("query", "title", "taken"),
    [
        ({"method": "expression"}, "Localizer", "stagewise"),
        ({"method": "learned", "learned.base": "regions/mine.safetensors"}, "Start from", "movement"),
        ({"device": "cuda:7"}, "Device", "auto"),
    ],
)
def test_what_the_form_cannot_take_over_is_said_until_something_else_is_chosen(
    small: Path, query: dict[str, str], title: str, taken: str
) -> None:
    asked = list(query.values())[-1]
    test = opened(**chosen(small, **query))
    (warning,) = [w.value.replace("\\", "") for w in test.warning]
    assert warning.startswith(f"{title}: '{asked}' is not an option") and f"{taken}" in warning
    box(test, "Seeds").input("3").run()
    assert len(test.warning) == 1, "it stays while other fields are filled"
    other = next(option for option in box(test, title).options if not option.startswith(taken))
    box(test, title).select(other).run()
    assert not test.warning and not test.exception


@pytest.mark.parametrize("names", [("size",), ("size", "seeds", "steps", "batch_size", "dtype", "method", "readout")])
def test_a_picture_in_an_address_stays_text(small: Path, names: tuple[str, ...]) -> None:
    picture = "![x](https://elsewhere.invalid/x.png)"
    test = opened(**chosen(small, **dict.fromkeys(names, picture)))
    assert not test.exception
    read = (*test.markdown, *test.caption, *test.info, *test.warning, *test.error)
    assert not [part.value for part in read if picture in re.sub("`[^`]*`", "", str(part.value))]
    assert any("elsewhere" in str(part.value) for part in (*read, *test.text_input, *test.code))

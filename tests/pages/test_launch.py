"""Tests of the form of a new localization: compatible pairs, work and memory, the command, the start, the address."""

import json
import re
import shutil
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest
import yaml
from streamlit.testing.v1 import AppTest

from skillviz import jobs
from skillviz.core.localizers.record import LocalizerStep
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.parameters import Parameter, ParameterTable
from skillviz.errors import BadInput
from skillviz.jobs.devices import Device
from skillviz.models import examples, fetch
from skillviz.models.public_pairs import public_pairs
from skillviz.runs.folder import OPEN, RunFolder
from skillviz.runs.growing import Growing
from skillviz.runs.search import SearchStep
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.tasks import registry, uploaded
from skillviz.ui import other_tasks
from skillviz.ui.job_words import form_of
from skillviz.ui.pages.launch import launch_page, search
from tests.fake_run import fake_run
from tests.runs.test_scoring import other_task
from tests.tiny import NEUTRAL, tiny_pair, tiny_task
from tests.ui import driven
from tests.ui.driven import box, button, fields, filled, labels, lacks, link, links, pressed, said
from tests.ui.shared_store import SMALL

LABELS = ("class-terrible", "class-great")
DOCS = Path(__file__).parents[2] / "docs" / "examples"
FILMS, GADGETS = (f"examples/tasks/{name}.yaml" for name in ("films", "gadgets"))
ONE_REFERENCE = "a text that is generated has one reference"


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `models` (a pair with a head; `words` and `writes` have the other readouts) and `task`."""
    folder = tmp_path_factory.mktemp("small")
    tiny_pair(folder / "models")
    tiny_pair(folder / "models" / "words", "roberta", "prompt")
    tiny_pair(folder / "models" / "writes", "gpt2", "causal")
    tiny_task(folder / "task")
    return folder


@pytest.fixture(autouse=True)
def alone(empty: Path, small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set up a machine with no runs, no examples, no worker that reads the texts, and the models of `small`."""
    noted = Future[dict[str, list[str]]]()
    noted.set_result({})
    monkeypatch.setenv("SKILLVIZ_MODELS", str(small / "models"))
    monkeypatch.setattr(examples, "app_root", lambda: tmp_path / "none")
    monkeypatch.setattr(launch_page.cache, "encoding_notes", lambda spec, client: noted)


def opened(**query: object) -> AppTest:
    """Return the form; the names of a query begin with `new.` in the address."""
    return driven.opened("launch", **{n if n == "jobs" else f"new.{n.replace('_', '-')}": v for n, v in query.items()})


def chosen(small: Path, **query: object) -> dict[str, object]:
    """Return the query of the tiny pair and its task, with these choices."""
    models = small / "models"
    pair = {"base": models / "base", "finetuned": models / "finetuned"}
    return {**pair, "source": "file", "file": small / "task" / "task.yaml", "size": "5%", "device": "cpu", **query}


def command(test: AppTest) -> str:
    return next(code.value for code in test.code if code.language != "python")


def starts(test: AppTest) -> bool:
    return not button(test, "Start").disabled


def without_help(test: AppTest) -> list[str]:
    return [field.label for field in fields(test) if not field.help]


def task_box(test: AppTest) -> Any:
    (found,) = [field for field in fields(test) if field.label == "Task"]
    return found


@pytest.mark.parametrize(
    ("query", "is_ready", "says", "omits"),
    [
        (None, False, ["Not yet: Choose a pre-trained and a fine-tuned model.", "6 models found under `MODELS`",
                       "SKILLVIZ_MODELS", "Score on other tasks too: []"], []),
        ({}, True, ["--interpolation"], ["--max-train"]),
        ({"interpolation": "no"}, True, [], ["--interpolation"]),
        ({"trial": "yes"}, True, ["Uses 64 of 64 train, 32 of 32 validation and 32 of 32 test examples",
                                  "--max-train 128 --max-validation 100 --max-test 100"], []),
        ({"source": "known", "known": "sst2"}, True, ["come from the hub", "Read the data now"], []),
        ({"source": "known", "known": "sst2", "trial": "yes"}, True,
         ["at most 128 train, 100 validation and 100 test examples"], []),
        ({"also": "sst2"}, False, ["Not included"], []),
    ],
    ids=["nothing", "a pair", "no paths", "a hundredth", "data of the hub", "a hundredth of them", "other data"],
)  # fmt: skip
def test_what_the_form_says_of_its_choices(
    query: dict[str, object] | None, is_ready: bool, says: list[str], omits: list[str], small: Path
) -> None:
    test = opened() if query is None else opened(**chosen(small, **query))
    text = "\n".join([said(test), *[f"{field.label}: {field.value}" for field in test.multiselect], *labels(test)])
    assert not lacks(text, *(part.replace("MODELS`", f"{small / 'models'}`") for part in says))
    assert lacks(text, *omits) == omits and starts(test) == is_ready
    assert bool(test.error) == ("also" in (query or {}))
    assert "base (bert," in str(box(test, "Pre-trained").options) or query is not None


@pytest.mark.slow
@pytest.mark.parametrize(("method", "is_refused"), [("fisher", True), ("random", False)])
def test_a_localizer_that_compares_answers_is_refused_for_a_task_without_several(
    small: Path, method: str, is_refused: bool
) -> None:
    assert (ONE_REFERENCE in said(opened(**chosen(small, file=DOCS / "tell-place.yaml", method=method)))) == is_refused


def test_data_of_the_hub_are_read_only_when_asked(small: Path) -> None:
    test = pressed(opened(**chosen(small, source="known", known="sst2")), "Read the data now")
    assert "could not be downloaded from the Hugging Face Hub" in said(test) and not starts(test)


def test_a_public_pair_brings_its_base_and_its_task_and_downloads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "resolve", lambda *a, **k: pytest.fail("asked the hub"))
    first, other = (next(row for row in public_pairs() if row.task == task) for task in ("sst2", "mnli"))
    test = opened(**{"from": "public"})
    assert without_help(test) == [] and task_box(test).value == "sst2" and not starts(test)
    assert all(button(test, f"Download {name}") for name in (first.base, first.finetuned))
    filled(test, "Pair", other.finetuned)
    assert task_box(test).value == "mnli" and test.query_params["new.public"] == other.finetuned
    assert button(test, f"Download {other.finetuned}") and f"license {other.license}" in said(test)
    assert task_box(filled(test, "Task", "qnli")).value == "qnli", "another task can be chosen"


def test_a_public_pair_of_pickled_weights_comes_with_the_command_that_converts_them() -> None:
    row = next(row for row in public_pairs() if row.weights == "bin")
    test = opened(**{"from": "public", "public": row.finetuned})
    assert [block.value for block in test.code if "--convert" in block.value] == [row.convert_command()]
    downloads = [label for label in labels(test) if label.startswith("Download ")]
    assert downloads == [f"Download {row.base} from the Hugging Face Hub"] and not starts(test)


def test_a_pair_that_fits_shows_work_memory_and_the_command(small: Path) -> None:
    test = opened(**chosen(small, seeds="3"))
    fits = ("The two fit: 4,448 graftable parameters in 2 layers", "**222 (5%)** of 4,448", "task *tiny*")
    work = ("gradients of examples", "shows the time left once it is measured", "that are free")
    assert not lacks(said(test), *fits, *work) and not test.error and starts(test)
    differences = test.table[0].value.set_index("Aspect")["Here"]
    assert differences["Training examples"] == "all 64" and "Localizer" in differences
    assert not lacks(command(test), "--size 5%", "--seed 3") and command(test).count("--detach --runs-dir") == 1
    devices = box(test, "Device").options
    assert devices[0].startswith("auto: ") and devices[1].startswith("cpu: ") and "free" in devices[1]


def test_scoring_on_other_tasks_is_counted(small: Path, tmp_path: Path) -> None:
    """Each example of another task counts once for each point of the grid, up to the cap; missing data do not count."""
    also = other_task(tmp_path, "near", rows=4000)

    def scored(**query: object) -> int:
        text = said(opened(**chosen(small, interpolation="yes", **query)))
        return int(re.search(r"and ([\d,]+) examples to score", text)[1].replace(",", ""))  # type: ignore[index]

    more = [scored(also=also, **caps) - scored(**caps) for caps in ({"max_test": 20}, {})]
    assert more == [count * (4 + 1 + 10 * 2) for count in (20, 4000)], "both models, two states, the grid's points"


def test_the_choices_come_back_from_the_address(small: Path) -> None:
    query = chosen(
        small, method="learned", size="1%,9", seeds="0-2", trial="yes", dtype="bfloat16", autocast="float16",
        k_shot=8, max_test=20, interpolation="yes",
    ) | {"learned.lr": 5, "learned.selection": "none", "learned.steps": 7}  # fmt: skip
    test = opened(**query)
    assert not lacks(
        command(test).splitlines()[0], "--method learned", "--size 1% --size 9", "--steps 7", "--option lr=5.0",
        "selection=", "--dtype bfloat16", "--autocast float16", "--k-shot 8", "--max-test 20", "--max-train 128",
        "--interpolation",
    )  # fmt: skip
    again = driven.opened("launch", **link(test))
    assert command(again) == command(test) and link(again) == link(test)


@pytest.mark.parametrize(
    ("fields", "query", "option"),
    [
        ({"gain": 2.5}, {"gain": "2.5"}, "--gain 2.5"), ({"gain": "fit"}, {"gain": "fit"}, "--gain fit"),
        ({"gain": "kinds"}, {"gain": "kinds"}, "--gain kinds"), ({"gain": 1.0}, {"gain": "1"}, ""),
        ({"nulls": "shuffled", "null_draws": 5}, {"nulls": "shuffled", "null-draws": "5"}, "--null-draws 5"),
    ],
)  # fmt: skip
def test_a_field_is_kept_from_the_spec_to_the_form_and_the_command(
    small: Path, fields: dict[str, Any], query: dict[str, str], option: str
) -> None:
    form = form_of(RunSpec(base="b", finetuned="f", task="t", **fields))
    test = opened(**chosen(small, **{name: form[f"new.{name}"] for name in query}))
    defaults = {"gain": "1", "nulls": "shuffled"}
    assert {name: test.query_params.get(f"new.{name}", defaults.get(name)) for name in query} == query
    assert option in command(test) and ("--gain" in command(test)) == option.startswith("--gain") and starts(test)
    assert box(test, "Gain").value == query.get("gain", "1")
    assert ("on 5 null movements" in said(test)) == ("null-draws" in query)


@pytest.mark.cases(9, 3)
@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"base": "MODELS/finetuned"}, "are the same folder"),
        ({"finetuned": "MODELS/words/finetuned"}, "both must be of one architecture"),
        ({"base": "/no/where"}, "outside the folders"),
        ({"base": "x" * 280}, "is neither a folder here"),
        ({"base": "~nobody-is-called-so"}, "there is no folder '~nobody-is-called-so'"),
        ({"file": "/no/task.yaml"}, "outside the folders"),
        ({"finetuned": "/" + "x" * 280}, "there is no folder"),
        ({"file": "x" * 280 + ".yaml"}, "there is no task file"),
        ({"size": "none"}, "Give at least one size"),
        ({"file": "~nobody-is-called-so/y.yaml"}, "there is no task file ~nobody"),
        ({"gain": "often"}, "'often'"),
        ({"size": "5%,200%"}, "'200%' asks for"),
        ({"method": "learned", "lean": "yes"}, "which lean mode has no room for; use one of stagewise"),
        ({"seeds": "one"}, "'one' is no seed"),
        ({"base": "MODELS/words/base", "finetuned": "MODELS/words/finetuned", "file": "UNHEARD"},
         "label word 'unheardof'"),
        ({"k_shot": 1, "max_train": 1, "file": "BROKEN"}, "no column 'text'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_and_the_button_gives_the_reason(
    small: Path, tmp_path: Path, query: dict[str, object], problem: str
) -> None:
    shutil.copytree(small / "task", tmp_path / "task")
    (tmp_path / "task" / "task.yaml").write_text(
        (small / "task" / "task.yaml").read_text().replace("terrible", "unheardof")
    )
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").write_text("words,label\na,0\nb,1\n")
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: b\ndata: {train: train.csv, test: test.csv}\ntext: text\nlabels: [x, y]\n")
    for word, path in (("MODELS", small / "models"), ("BROKEN", broken), ("UNHEARD", tmp_path / "task" / "task.yaml")):
        query = {name: str(value).replace(word, str(path)) for name, value in query.items()}
    test = opened(**chosen(small, **query))
    assert problem in said(test, "error") and not starts(test) and "Not yet:" in said(test)


def test_the_readouts_are_those_of_the_pair(small: Path) -> None:
    words = small / "models" / "words"
    test = opened(**chosen(small, base=words / "base", finetuned=words / "finetuned"))
    assert box(test, "How class").options == ["automatic: label words at the mask", "label words at the mask"]
    (refused,) = [caption for caption in test.caption if caption.value.startswith("Unavailable for this pair")]
    assert refused.value.endswith("classification head and likelihood of the answers.")
    assert not lacks(refused.help, "**classification head**: ", "roberta")
    assert "answers: " in said(test) and not test.error


def specs(user_runs: Path) -> list[RunSpec]:
    return [job.spec for job in jobs.list(Store(user_runs))]


def test_start_queues_a_job_for_each_seed_and_once_only(small: Path, paper: list[str], user_runs: Path) -> None:
    test = pressed(opened(**chosen(small, seeds="0,1")), "Start 2 jobs")
    found = {job.run_id: (job.spec.seed, job.position) for job in jobs.list(Store(user_runs))}
    assert [found[name] for name in paper] == [(0, 0), (1, 1)] and test.query_params["jobs"] == ",".join(paper)
    place = ("Waits for **cpu**: 1 job is ahead of it.", "2 jobs ahead in the queue")
    assert not lacks(said(test), "## Jobs", *place, "Started. Follow it below or on *Jobs*.")
    assert "already queued" not in said(test) and not starts(test)
    again = opened(**chosen(small, seeds="0,1"))
    assert "These settings are already queued or running. Follow it below" in said(again), "by another session"
    followed = [caption.value for caption in again.caption if "Follow" in caption.value]
    assert not [value for value in followed for name in paper if name in value]
    assert starts(filled(test, "Seeds", "2"))


@pytest.mark.nightly
def test_an_equal_stored_run_is_offered_instead_of_made_again(small: Path, user_runs: Path, paper: list[str]) -> None:
    models = small / "models"
    stored = fake_run(
        Store(user_runs), base=str(models / "base"), finetuned=str(models / "finetuned"),
        task=str(small / "task" / "task.yaml"), sizes=("5%",), nested=False, interpolation=False,
    )  # fmt: skip
    path, key = stored.path / "run.json", stored.spec.model_copy(update={"device": "cpu"}).key()
    path.write_text(path.read_text().replace(stored.record.key, key))
    test = opened(**chosen(small, interpolation="no", nulls="none"))
    assert not starts(test) and "1 run with these settings is stored already" in said(test)
    assert stored.id in links(test)["Open the stored run"]
    pressed(filled(test, "Seeds", "0,1"), "Start")
    assert [spec.seed for spec in specs(user_runs)] == [1], "only what is missing is made"


def test_an_error_at_the_start_keeps_what_was_chosen(
    small: Path, paper: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **named: object) -> None:
        raise jobs.control.StoreError("no room here")

    test = opened(**chosen(small))
    monkeypatch.setattr(launch_page.jobs, "start", full)
    assert "no room here" in said(pressed(test, "Start"), "error")
    assert "jobs" not in test.query_params and box(test, "Region sizes").value == ["5%"]


@pytest.mark.parametrize("page", ["launch", "studies"])
def test_a_model_of_the_hub_is_fetched_only_when_asked(page: str, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real = list[str](), fetch.resolve
    monkeypatch.setattr(fetch, "resolve", lambda source, told=None: asked.append(source) or real(source, told))
    forms = {"launch": opened, "studies": partial(driven.opened, "studies")}
    test = forms[page](**{"launch": chosen(small, base="org/name"), "studies": {"own.base": "org/name"}}[page])
    assert "nor in the hub's local cache" in said(test) and "org/name" not in asked
    pressed(test, "Download org/name from the Hugging Face Hub")
    assert "could be downloaded from the Hugging Face Hub" in said(test) and asked.count("org/name") == 1


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize(
    ("source", "method"),
    [("known", "stagewise"), ("upload", "stagewise"), *(("file", name) for name in LOCALIZERS if name != "expression")],
)
def test_every_field_explains_itself(small: Path, source: str, method: str) -> None:
    test = opened(**chosen(small, source=source, method=method))
    assert len(fields(test)) > 12 and without_help(test) == []


def test_layers_are_typed_and_what_cannot_be_read_is_refused(small: Path, user_runs: Path, paper: list[str]) -> None:
    test = filled(opened(**chosen(small, method="layers")), "Layers", "nought")
    assert "Layers: 'nought' cannot be read." in said(test) and not starts(test)
    pressed(filled(test, "Layers", "1, 0"), "Start")
    assert [(spec.localizer, spec.options) for spec in specs(user_runs)] == [("layers", {"layers": "0,1"})]


def test_lean_mode_holds_weights_as_they_are_stored(small: Path, user_runs: Path, paper: list[str]) -> None:
    test = opened(**chosen(small, lean="yes"))
    assert "--lean" in command(test) and "--dtype float32" not in command(test)
    pressed(test, "Start")
    assert [(s.lean, s.dtype, form_of(s)["new.lean"]) for s in specs(user_runs)] == [(True, "own", "yes")]


def test_cuda_graphs_are_offered_where_there_is_a_gpu(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "CUDA graphs" not in labels(opened(**chosen(small)), "toggle")
    there = [Device("cpu", "a CPU", 2**34, 2**34), Device("cuda:0", "a GPU", 2**34, 2**34)]
    monkeypatch.setattr(search.cache, "devices", lambda: there)
    refused = {("fisher", "cuda:0"): "takes gradients of single examples", ("stagewise", "cpu"): "need a GPU"}
    for (method, device), why in {**refused, ("stagewise", "cuda:0"): ""}.items():
        test = opened(**chosen(small, method=method, cuda_graphs="yes", device=device))
        assert why in said(test) and starts(test) == (not why), (method, device)
    assert "--cuda-graphs" in command(test)


def test_a_small_sample_of_a_task_with_options_is_counted_in_all(small: Path) -> None:
    field = box(opened(**chosen(small, file=DOCS / "choose-domain.yaml", k_shot=8)), "Training examples")
    assert "per class" not in field.label and "so they are not drawn per class" in field.help


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
    assert not lacks(said(test), "The two fit", "Learns films.") and starts(test) and without_help(test) == []
    assert box(test, "Pair").options == ["About films", "About gadgets"], "one that is not built is not offered"
    task = task_box(test)
    assert (task.value, task.options) == (FILMS, ["Films", "Gadgets"])
    assert task_box(filled(test, "Pair", "of-gadgets")).value == GADGETS
    also = box(test, "Score on other tasks")
    assert (also.options, also.value) == (["Films", "Phones"], [FILMS])
    assert test.query_params["new.example"] == "of-gadgets"
    pressed(test, "Start")
    (job,) = jobs.list(Store(user_runs))
    assert [job.run_id] == paper and job.spec.finetuned == "examples/pairs/of-gadgets"


def test_the_task_follows_the_kind_of_pair_and_one_without_training_examples_is_refused(shipped: None) -> None:
    test = opened()
    assert [task_box(filled(test, "Models from", source)).value for source in ("public", "example")] == ["sst2", FILMS]
    assert "The two fit" in said(test)
    refused = opened(source="file", file="examples/tasks/phones.yaml")
    assert "task 'phones' has test examples only" in said(refused) and not starts(refused)


@pytest.fixture
def uploading(small: Path) -> AppTest:
    """Return the form with a file of twelve rows in the field of the training data."""
    test = opened(**chosen(small, source="upload"))
    assert "at most 50 MB a file" in said(test)
    lines = ["id,text,label", *(f"{n},a text that is long enough {n},{n % 2}" for n in range(12))]
    return test.file_uploader[0].set_value(("My reviews.csv", "\n".join(lines).encode(), "text/csv")).run()


def test_an_upload_becomes_a_task_and_is_chosen(uploading: AppTest, user_runs: Path, paper: list[str]) -> None:
    test = uploading
    assert {*without_help(test)} <= {"Class 0", "Class 1", "Word for 0", "Word for 1"}, "a caption above explains them"
    assert test.dataframe[0].value["label"].tolist() == ["0", "1", "0", "1", "0"]
    reads = "as a masked model reads it: a text that is long enough 0 It was <mask>."
    assert not lacks(said(test), "The first 5 of 12 rows", reads)
    assert (box(test, "Text columns").value, box(test, "Label column").value) == (["text"], "label")
    box(test, "Class 0").set_value("bad")
    pressed(filled(test, "Class 1", "good"), "Check and save")
    path = user_runs / "tasks" / "my-reviews" / "task.yaml"
    kept = f"is saved in {path}: 9 train, 1 validation and 2 test examples"
    assert path.is_file() and not lacks(said(test), kept, "Classes: bad and good.") and starts(test)
    file = box(test, "Task file")
    assert (box(test, "Task from").value, file.value, file.options) == ("file", str(path), ["my-reviews"])


def writing(small: Path, **query: object) -> AppTest:
    """Return the form with uploaded rows that have written answers, in words that the tiny tokenizers know."""
    words = [" ".join((NEUTRAL * 2)[n % len(NEUTRAL) :][:5]) for n in range(40)]
    lines = [json.dumps({"asked": text, "answer": f"{text.split()[0]} {n % 2}"})
             for n, text in enumerate(words)]  # fmt: skip
    test = opened(**chosen(small, source="upload", **query))
    test.file_uploader[0].set_value(("written.jsonl", "\n".join(lines).encode(), "application/json")).run()
    return filled(test, "Each row has", "generation")


def shown(test: AppTest, *names: str) -> set[str]:
    return {*names} & {field.label for field in fields(test)}


def test_an_answer_to_write_is_asked_for_without_classes(small: Path, user_runs: Path) -> None:
    test = writing(small)
    assert (box(test, "Reference column").value, box(test, "Most new tokens").value) == ("answer", 32)
    assert not shown(test, "Label column", "Metric", "Template for masked models") and without_help(test) == []
    assert not lacks(said(test), f"as the model reads it: {' '.join(NEUTRAL[:5])}", f"Its reference: {NEUTRAL[0]} 0")
    box(test, "Prompt").set_value("no place")
    pressed(filled(test, "An answer ends at", "newline"), "Check and save")
    assert "the causal template 'no place' has no place for a text" in said(test)
    assert (box(test, "Prompt").value, box(test, "An answer ends at").value) == ("no place", "newline")
    box(test, "Prompt").set_value("{text} It was")
    pressed(filled(test, "Most new tokens", 40), "Check and save")
    task = registry.task(user_runs / "tasks" / "written" / "task.yaml")
    assert (task.kind, task.text, task.reference) == ("generation", ("asked",), "answer")
    assert (task.stop, task.max_new_tokens, task.max_length) == ("newline", 40, 520)
    assert said(test).count("which the head readout cannot do; use the causal readout") == 2, "once, and at the button"
    assert not shown(test, "Score on other tasks too", "How class scores are read")


def test_a_reference_that_does_not_fit_is_told_before_the_task_is_saved(small: Path, user_runs: Path) -> None:
    """The length is in tokens of the chosen pair; without a pair, it is at least the number of words."""
    test = writing(small)
    assert "no run could start" not in said(test, "warning")
    fits = "has 3 tokens with the one that ends it for the chosen models"
    assert fits in said(filled(test, "Most new tokens", 2), "warning")
    nowhere = filled(writing(small, base=small / "nowhere"), "Most new tokens", 2)
    assert "has 2 words, at least 3 tokens with the one that ends it" in said(nowhere, "warning")


def test_an_answer_may_be_scored_by_perplexity(small: Path, user_runs: Path) -> None:
    test = filled(writing(small), "Scored by", "perplexity")
    assert not shown(test, "Most new tokens", "Ignore case", "Ignore punctuation")
    assert box(test, "An answer ends at").value == "end_of_text"
    pressed(test, "Check and save")
    task = registry.task(user_runs / "tasks" / "written" / "task.yaml")
    assert (task.metric, task.kind, task.generates, task.max_length) == ("perplexity", "generation", False, None)
    assert "Nothing is generated: the task is scored by the perplexity of its references." in said(test)


@pytest.mark.slow
def test_options_that_are_uploaded_become_a_task(small: Path, user_runs: Path) -> None:
    test = opened(**chosen(small, source="upload"))
    rows = [{"asked": f"which is an animal, {n}", "option_a": "car", "option_b": "cat", "right": "B"} for n in range(9)]
    content = "\n".join(json.dumps(row) for row in rows).encode()
    test.file_uploader[0].set_value(("choose.jsonl", content, "application/json")).run()
    assert (box(test, "Each row has").value, box(test, "The right option is").value) == ("choice", "label")
    filled(test, "Option columns", [])
    assert "needs the columns that hold them" in said(test) and box(test, "Right option").value == "right"
    assert "Its options: car and cat. Right: B." in said(filled(test, "Option columns", ["option_a", "option_b"]))
    pressed(test, "Check and save")
    task = registry.task(user_runs / "tasks" / "choose" / "task.yaml")
    assert (task.options, task.label, task.labels) == (("option_a", "option_b"), "right", ("A", "B"))


@pytest.mark.slow
def test_an_upload_whose_answer_is_written_goes_to_a_finished_run(small: Path, user_runs: Path) -> None:
    folder, store = small / "models" / "writes", Store(user_runs)
    pair = {"base": folder / "base", "finetuned": folder / "finetuned"}
    test = pressed(writing(small, interpolation="no", method="movement", **pair), "Check and save")
    assert not lacks(said(test), "The answer is generated, up to 32 tokens", "Memory: **")
    pressed(test, "Start")
    deadline = time.monotonic() + 240
    while not (done := [run for run in store.list() if run.record.status not in OPEN]) and time.monotonic() < deadline:
        time.sleep(1)
    (run,) = done
    assert run.record.status == "finished" and run.record.generates
    scores = run.predictions()
    assert set(scores["state"]) >= {"pretrained", "finetuned", "grafted"} and scores["generated"].notna().all()


@pytest.mark.slow
def test_an_uploaded_task_can_be_deleted(uploading: AppTest, user_runs: Path) -> None:
    """Tasks that count towards a quota can be deleted; a task in another folder is never deleted."""
    pressed(uploading, "Check and save")
    (path,) = uploaded.saved(user_runs / "tasks")
    pressed(uploading, "Delete this task")
    assert path.is_file(), "it asks first"
    pressed(uploading, "Delete for good")
    assert not path.parent.exists() and uploaded.saved(user_runs / "tasks") == []
    other = user_runs / "elsewhere" / "mine" / "task.yaml"
    other.parent.mkdir(parents=True)
    other.write_text("name: mine")
    for file in (other, user_runs / "tasks" / ".." / "elsewhere" / "mine" / "task.yaml"):
        with pytest.raises(BadInput, match="nothing was deleted"):
            uploaded.delete(file, user_runs / "tasks")
    assert other.is_file()


@pytest.mark.parametrize(("columns", "asks"), [([], True), (["text"], False)])
def test_a_text_column_that_is_taken_out_is_asked_for_again(uploading: AppTest, columns: list[str], asks: bool) -> None:
    text = said(filled(filled(uploading, "Text columns", []), "Text columns", columns))
    assert ("Choose a text column" in text, "model reads it" in text) == (asks, not asks)


@pytest.mark.slow
def test_nothing_that_was_typed_is_lost_where_an_upload_cannot_be_kept(uploading: AppTest, user_runs: Path) -> None:
    test = uploading
    box(test, "Name of the task").set_value("a/b")
    assert "'a/b' cannot name a task" in said(pressed(filled(test, "Word for 0", "bad"), "Check and save"))
    pressed(filled(test, "Name of the task", "ab"), "Check and save")
    assert "label words" in said(test), "one class has a word, the other none"
    assert (box(test, "Name of the task").value, box(test, "Word for 0").value) == ("ab", "bad")
    assert not (user_runs / "tasks" / "ab").exists()
    pressed(filled(test, "Word for 1", "good"), "Check and save")
    assert (user_runs / "tasks" / "ab" / "task.yaml").is_file()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", b"", "a.csv is empty"),
        ("a.csv", b"text,label\n" + b"\n".join(b"x,%d" % n for n in range(70)), "has 70 different values"),
        ("a.jsonl", b"{oops", "cannot be read as JSONL"),
        pytest.param("labels.csv", b"label\n0\n1\n0\n", "Choose a text column", marks=pytest.mark.slow),
    ],
)
def test_a_file_that_is_no_data_is_said_in_its_place(small: Path, name: str, content: bytes, problem: str) -> None:
    test = opened(**chosen(small, source="upload"))
    assert problem in said(test.file_uploader[0].set_value((name, content, "text/plain")).run())
    assert name != "labels.csv" or said(pressed(test, "Check and save"), "error")


def test_the_jobs_of_the_address_are_shown_as_they_are(small: Path, user_runs: Path, paper: list[str]) -> None:
    query = chosen(small)
    asked = {"base": str(query["base"]), "finetuned": str(query["finetuned"]), "task": str(query["file"])}
    spec = launch_page.read_spec({**asked, "sizes": ("5%",), "device": "cpu"})
    folder = RunFolder(jobs.start(spec, Store(user_runs)).path)
    folder.start()
    told = {"phase": "search", "search": 1, "searches": 1, "target": 222, "total": 50, "loss": 0.5, "left": 9.0}
    for step in range(1, 4):
        folder.event(**told, step=step, size=222, added=3, removed=1)
    test = opened(jobs=f"{folder.id},gone-abc")
    assert "searching: step 3 of 50, loss 0.500" in test.get("progress")[0].proto.text
    assert driven.figures(test)[0]["data"][0]["x"] is not None and "The search for 222 entries" in said(test)
    assert "Stop and keep the region" not in labels(test)
    table = ParameterTable((Parameter("0.query.weight", (2, 3), 0, "query", False),), "bert", True)
    step = LocalizerStep(3, 0.5, 2, 3, 1, 50, region=lambda: np.array([4, 1]))
    Growing(folder.work, table).tell(SearchStep(222, 1, 1, step))
    assert not lacks(said(test.run()), "## The region after step 3 of 50") and len(driven.figures(test)) == 2
    pressed(test, "Stop and keep the region")
    assert folder.keep_request == ""
    folder.fail(jobs.job.Failure(kind="out of memory", message="no room", hint="less"))
    assert not lacks(said(test.run()), "**Out of memory.** no room", "What to do: Choose bfloat16")
    assert {*labels(test)} >= {"Resume", "Hide"}
    for label, status in (("Resume", "queued"), ("Cancel", "cancelled")):
        pressed(test, label)
        assert jobs.status(Store(user_runs), folder.id).status == status
    assert paper[-1] == folder.id and "last checkpoint" in said(test)
    assert "## Jobs" not in said(pressed(test, "Hide"))


def test_a_region_by_hand_that_failed_goes_on_in_surgery_and_not_as_another_search(user_runs: Path) -> None:
    pair = {"base": "demo/tiny-base", "finetuned": "demo/tiny-sst2", "task": "sst2"}
    store = Store(user_runs)
    folder = store.create(RunSpec(**pair, localizer="expression", options={"expression": {"layers": [0]}}))
    folder.start()
    folder.fail(jobs.job.Failure(kind="out of memory", message="no room", hint="less"))
    alone = links(opened(jobs=folder.id))
    assert not {"Open in the form", "Open in surgery"} & set(alone), "no run of the pair is left to open it under"
    run = fake_run(store, sizes=("5%",), **SMALL)
    found = links(opened(jobs=folder.id))
    told = parse_qs(found["Open in surgery"])
    assert (told["run"], json.loads(told["expression"][0])) == ([run.id], {"layers": [0]})
    assert "Open in the form" not in found


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
    test = opened(**chosen(small, **query))
    (warning,) = said(test, "warning").splitlines()
    assert warning.startswith(f"{title}: '{[*query.values()][-1]}' is not an option") and taken in warning
    assert len(filled(test, "Seeds", "3").warning) == 1, "it stays while other fields are filled"
    other = next(option for option in box(test, title).options if not option.startswith(taken))
    assert not said(box(test, title).select(other).run(), "warning")


@pytest.mark.parametrize("names", [("size",), ("size", "seeds", "steps", "batch_size", "dtype", "method", "readout")])
def test_a_picture_in_an_address_stays_text(small: Path, names: tuple[str, ...]) -> None:
    picture = "![x](https://elsewhere.invalid/x.png)"
    test = opened(**chosen(small, **dict.fromkeys(names, picture)))
    assert not test.exception
    read = [str(part.value) for kind in driven.TEXT if kind != "code" for part in test.get(kind)]
    assert not [text for text in read if picture in re.sub("`[^`]*`", "", text)]
    assert any("elsewhere" in text for text in (*read, *(str(part.value) for part in (*test.text_input, *test.code))))

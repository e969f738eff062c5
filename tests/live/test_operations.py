"""Tests that every operation gives, bit for bit, the results of direct calls to the layers below."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from skillviz.core.draws import stratified
from skillviz.core.region import Region
from skillviz.errors import BadData, BadInput, PairMismatch, RunNotFound, SkillvizError
from skillviz.live.operations import OPERATIONS, answer
from skillviz.live.request import PairCache, Worker
from skillviz.models.attribution import attribute, conductance
from skillviz.models.pair import STATES, ModelPair, load_pair
from skillviz.models.predict import predict
from skillviz.runs.record import TransferNote
from skillviz.runs.run import Run
from skillviz.runs.spec import read_spec
from skillviz.runs.store import Store
from skillviz.runs.wise import grid_logits
from skillviz.show.transfer import counted
from skillviz.tasks import registry
from skillviz.tasks.definition import UNCOMPARED
from skillviz.tasks.encode import encode
from skillviz.tasks.splits import load
from skillviz.tasks.task import Task
from tests.tiny import tiny_task

pytestmark = pytest.mark.slow

TEXT = "the film was good and funny"


@pytest.fixture
def place(lived: Path, tmp_path: Path) -> Path:
    """Return a copy of the run's store, beside the shared models and tasks."""
    shutil.copytree(lived / "runs", tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def run(place: Path) -> Run:
    return Store(place).list()[0]


@pytest.fixture
def worker(place: Path) -> Worker:
    return Worker(place)


@pytest.fixture(scope="module")
def pair(lived: Path) -> ModelPair:
    return load_pair(lived / "base", lived / "finetuned", task=lived / "task.yaml", device="cpu")


@pytest.fixture(scope="module")
def task(lived: Path) -> Task:
    return registry.task(lived / "task.yaml")


def ask(worker: Worker, operation: str, run: Run, **arguments: Any) -> dict[str, Any]:
    return answer(worker, operation, {"pair": {"run": run.id}, **arguments})


def typed(task: Task, pair: ModelPair, *texts: str) -> Any:
    """Return the texts, encoded by hand."""
    import pandas as pd

    frame = pd.DataFrame({"example_id": [f"typed-{i}" for i in range(len(texts))], "text_a": texts, "label": 0})
    return encode(task, frame, pair.tokenizer, pair.readout_name)


def test_a_pair_is_opened_by_its_run_or_its_models(worker: Worker, run: Run, pair: ModelPair, lived: Path) -> None:
    told = ask(worker, "open", run)
    assert told["d"] == pair.d and told["labels"] == ["class-terrible", "class-great"] and told["readout"] == "head"
    assert told["notes"] == list(pair.notes) and told["layers"] == 2
    named = {"base": str(lived / "base"), "finetuned": str(lived / "finetuned"), "task": str(lived / "task.yaml")}
    assert answer(worker, "open", {"pair": {**named, "device": "cpu"}})["d"] == pair.d
    assert len(worker.pairs._pairs) == 2
    json.dumps(told)


def test_text_is_scored_as_predict_does(worker: Worker, run: Run, pair: ModelPair, task: Task) -> None:
    found = ask(worker, "score_text", run, texts=[TEXT, "a dull story"])
    encoded = typed(task, pair, TEXT, "a dull story")
    for state in STATES:
        assert np.array_equal(found["logits"][state], predict(pair, encoded, state, run.region()))
    named = ask(worker, "score_text", run, texts=[TEXT], region={"run": run.id[:-2], "size": 889}, states=["grafted"])
    assert list(named["logits"]) == ["grafted"]
    assert np.array_equal(named["logits"]["grafted"], predict(pair, typed(task, pair, TEXT), "grafted", run.cut(889)))


def test_a_region_is_evaluated_as_the_run_did(worker: Worker, run: Run, pair: ModelPair) -> None:
    found = ask(worker, "evaluate_region", run)
    ids, labels, logits = run.logits("grafted")
    assert found["example_ids"] == list(ids) and np.array_equal(found["labels"], labels)
    assert np.array_equal(found["logits"]["grafted"], logits)
    assert np.array_equal(found["logits"]["complement"], run.logits("complement")[2])
    assert found["size"] == 222 and found["d"] == pair.d
    expression = {"difference": [{"run": run.id, "size": 889}, {"layers": [0]}]}
    by_hand = run.cut(889) - Region(
        {n: np.arange(np.prod(s)) for n, s in pair.table.shapes.items() if ".layer.0." in n}, pair.table.shapes
    )
    made = ask(worker, "evaluate_region", run, region=expression, sample=7, split="validation")
    assert made["size"] == by_hand.size and len(made["labels"]) == 7


def test_random_controls_have_the_regions_size_and_are_the_localizers_own_draws(
    worker: Worker, run: Run, pair: ModelPair, task: Task
) -> None:
    found = ask(worker, "evaluate_region", run, sample=9, controls=["random", "random-matched"], seed=3)
    assert list(found["logits"]) == ["grafted", "complement", "random", "random-matched"]
    frame = load(task).test
    frame = frame.iloc[stratified(frame["label"], 9, 0)].reset_index(drop=True)
    encoded, region = encode(task, frame, pair.tokenizer, "head"), run.region()
    anywhere = np.random.default_rng(3).permutation(region.d)[: region.size]
    by_hand = Region.from_flat(np.sort(anywhere), region.shapes)
    assert np.array_equal(found["logits"]["random"], predict(pair, encoded, "grafted", by_hand))
    assert not np.array_equal(found["logits"]["random"], found["logits"]["grafted"])
    assert not np.array_equal(found["logits"]["random"], found["logits"]["random-matched"])
    other = ask(worker, "evaluate_region", run, sample=9, controls=["random"], seed=4)
    assert not np.array_equal(found["logits"]["random"], other["logits"]["random"])


def test_a_sample_is_drawn_in_order(worker: Worker, run: Run, pair: ModelPair, task: Task) -> None:
    found = ask(worker, "evaluate_region", run, sample=10, states=["finetuned", "grafted"])
    whole = load(task).test
    frame = whole.iloc[stratified(whole["label"], 10, 0)].reset_index(drop=True)
    assert frame["label"].tolist().count(0) == 5  # equal counts of each class, for any order of the file
    assert found["example_ids"] == frame["example_id"].tolist() and len(frame) == 10
    encoded = encode(task, frame, pair.tokenizer, "head")
    assert np.array_equal(found["logits"]["grafted"], predict(pair, encoded, "grafted", run.region()))
    assert np.array_equal(found["logits"]["finetuned"], predict(pair, encoded, "finetuned"))


@pytest.mark.parametrize("path", ["wise-ft", "wise-graft"])
def test_wise_is_the_grids_own(worker: Worker, run: Run, pair: ModelPair, task: Task, path: str) -> None:
    encoded = encode(task, load(task).test, pair.tokenizer, "head")
    grid = {(p, a): z for p, _, a, z in grid_logits(pair, encoded, {0: run.region()}, np.array([0.0, 0.35, 1.0]))}
    for alpha in (0, 0.35, 1):
        found = ask(worker, "wise", run, path=path, alpha=alpha)
        assert np.array_equal(found["logits"], grid[path, float(alpha)])
    assert found["size"] == run.record.size
    end = "finetuned" if path == "wise-ft" else "grafted"
    assert np.array_equal(found["logits"], run.logits(end)[2])


def test_attributions_are_those_of_the_models_layer(worker: Worker, run: Run, pair: ModelPair, task: Task) -> None:
    encoded = typed(task, pair, TEXT)
    found = ask(worker, "attribute", run, text=TEXT, steps=8)
    assert found["target"] == predict(pair, encoded, "finetuned").argmax() and len(found["states"]) == 3
    for state, told in found["states"].items():
        one = attribute(pair, encoded, state, run.region(), target=found["target"], steps=8)
        assert np.array_equal(told["values"], one.values) and told["gap"] == one.gap
        assert found["tokens"] == list(one.tokens)
    layers = ask(
        worker, "attribute", run, text=TEXT, method="layer-conductance", baseline="zero", target=1, states=["grafted"],
        steps=8,
    )  # fmt: skip
    own = conductance(pair, encoded, "grafted", run.region(), target=1, baseline="zero", steps=8)
    for part, values in own.parts.items():
        assert np.array_equal(layers["states"]["grafted"]["parts"][part], values)


def other_task(lived: Path, folder: Path, copied: int, **changes: Any) -> Path:
    """Write another task whose first `copied` test examples are in the source's training data, in capitals."""
    path = tiny_task(folder, rows=32)
    train = [json.loads(line) for line in (lived / "train.jsonl").read_text().splitlines()]
    rows = [json.loads(line) for line in (folder / "test.jsonl").read_text().splitlines()]
    told = yaml.safe_load(path.read_text()) | changes
    names = dict(enumerate(told["labels"]))
    rows = [*({**row, "text": row["text"].upper().replace(" ", "  ")} for row in train[:copied]), *rows]
    (folder / "test.jsonl").write_text("".join(json.dumps({**r, "label": names[r["label"]]}) + "\n" for r in rows))
    for split in ("train", "validation"):
        old = [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()]
        (folder / f"{split}.jsonl").write_text(
            "".join(json.dumps({**r, "label": names[r["label"]]}) + "\n" for r in old)
        )  # fmt: skip
    path.write_text(yaml.safe_dump(told, sort_keys=False))
    return path


def test_transfer_drops_what_was_trained_on(
    worker: Worker, run: Run, pair: ModelPair, task: Task, lived: Path, tmp_path: Path
) -> None:
    path = other_task(lived, tmp_path / "other", 5, name="other")
    trained = {json.loads(line)["text"] for line in (lived / "train.jsonl").read_text().splitlines()}
    rows = [json.loads(line) for line in (tmp_path / "other" / "test.jsonl").read_text().splitlines()]
    fresh = [row for row in rows if " ".join(row["text"].lower().split()) not in trained]
    found = ask(worker, "transfer", run, task=str(path))
    assert found["rows"] == len(rows) and found["dropped"] == len(rows) - len(fresh) >= 5
    assert found["mapping"] == {label: label for label in task.labels} and found["unmapped"] == 0
    assert [task.labels[y] for y in found["labels"]] == [row["label"] for row in fresh]
    encoded = typed(task, pair, *(row["text"] for row in fresh))
    for state in STATES:
        assert np.array_equal(found["logits"][state], predict(pair, encoded, state, run.region()))


def test_transfer_maps_labels(worker: Worker, run: Run, task: Task, lived: Path, tmp_path: Path) -> None:
    path = other_task(lived, tmp_path / "other", 0, name="other", labels=["good", "bad"])
    with pytest.raises(BadInput, match="'good' is a label of 'other' that 'tiny' does not have"):
        ask(worker, "transfer", run, task=str(path))
    mapping = {"good": "class-great", "bad": None}
    found = ask(worker, "transfer", run, task=str(path), mapping=mapping, states=["finetuned"], sample=3)
    assert found["unmapped"] == 8 and found["labels"].tolist() == [1, 1, 1] and found["mapping"] == mapping
    both = {"good": "class-great", "bad": "class-terrible"}
    for few in (2, 4, 6, 8):
        even = ask(worker, "transfer", run, task=str(path), mapping=both, states=["finetuned"], sample=few)
        assert even["labels"].tolist().count(1) == few // 2, "a sample has the classes of the whole"
    for wrong in ({"good": "class-great"}, {"good": "x", "bad": None}, {"good": None, "bad": None}):
        with pytest.raises(BadInput, match="mapping"):
            ask(worker, "transfer", run, task=str(path), mapping=wrong)
    pairs = tiny_task(tmp_path / "pairs", pair=True)
    with pytest.raises(BadInput, match="number of texts"):
        ask(worker, "transfer", run, task=str(pairs))
    with pytest.raises(BadData, match="no test example"):  # its test set is the source's training set
        shutil.copytree(lived, tmp_path / "same", ignore=shutil.ignore_patterns("runs"))
        shutil.copy(tmp_path / "same" / "train.jsonl", tmp_path / "same" / "test.jsonl")
        ask(worker, "transfer", run, task=str(tmp_path / "same" / "task.yaml"))


def test_an_answer_about_a_run_is_kept_beside_it(worker: Worker, place: Path, run: Run, lived: Path) -> None:
    first = ask(worker, "wise", run, path="wise-ft", alpha=0.25)
    again = ask(worker, "wise", run, path="wise-ft", alpha=0.25, split="test", sample=None)
    assert not first["stored"] and again["stored"] and np.array_equal(first["logits"], again["logits"])
    assert len(list((place / ".live" / run.id).glob("*.parquet"))) == 1
    fresh = Worker(place)
    assert ask(fresh, "wise", run, path="wise-ft", alpha=0.25)["stored"] and not fresh.pairs._pairs
    assert not ask(worker, "wise", run, path="wise-graft", alpha=0.25)["stored"]
    named = {"base": str(lived / "base"), "finetuned": str(lived / "finetuned"), "task": str(lived / "task.yaml")}
    for _ in range(2):  # without a run the answer cannot be stored
        assert not answer(worker, "score_text", {"pair": named, "texts": [TEXT], "states": ["finetuned"]})["stored"]
    one = ask(worker, "evaluate_region", run, region={"layers": [1, 0], "kinds": ["value"]}, sample=2)
    assert ask(worker, "evaluate_region", run, region={"kinds": ["value"], "layers": [0, 1]}, sample=2)["stored"]
    assert not one["stored"] and len(Store(place).list()) == 1 and Store(place).verify(run.id) == []


def test_without_its_data_a_pair_answers_what_needs_none_of_them(lived: Path, tmp_path: Path) -> None:
    from skillviz.runs.produce import produce
    from tests.runs.tiny_world import spec_of

    world = tmp_path / "world"
    shutil.copytree(lived, world, ignore=shutil.ignore_patterns("runs"))
    worker, run = Worker(world / "runs"), produce(spec_of(world), Store(world / "runs"))
    typed, other = {"texts": [TEXT], "states": ["finetuned"]}, str(world / "other" / "task.yaml")
    before = ask(worker, "score_text", run, **typed), ask(worker, "transfer", run, task=other)
    for split in ("train", "validation", "test"):
        (world / f"{split}.jsonl").unlink()
    bare = Worker(world / "runs")
    after = ask(bare, "score_text", run, **typed), ask(bare, "transfer", run, task=other)
    assert not after[0]["stored"] and np.array_equal(before[0]["logits"]["finetuned"], after[0]["logits"]["finetuned"])
    assert before[1]["dropped"] is not None and after[1]["dropped"] is None, "nobody can tell what was trained on"
    assert "may have been seen in training" in counted(TransferNote(**after[1]["note"]))
    for operation, words in (("evaluate_region", {}), ("wise", {"path": "wise-ft", "alpha": 1})):
        with pytest.raises(BadData, match="there is no file"):
            ask(bare, operation, run, **words)


def test_changed_models_and_data_are_noticed(lived: Path, tmp_path: Path) -> None:
    from skillviz.runs.produce import produce
    from tests.models.folders import change_weights
    from tests.runs.tiny_world import spec_of

    world = tmp_path / "world"
    shutil.copytree(lived, world, ignore=shutil.ignore_patterns("runs"))
    run = produce(spec_of(world), Store(world / "runs"))
    worker = Worker(world / "runs")
    ask(worker, "wise", run, path="wise-ft", alpha=1)
    definition = (world / "task.yaml").read_text()
    (world / "task.yaml").write_text(definition + "length_normalised: true\n")
    ask(worker, "score_text", run, texts=[TEXT])  # only the causal readout needs it
    (world / "task.yaml").write_text(definition.replace("max_length: 48", "max_length: 12"))
    for operation, words in (("wise", {"path": "wise-ft", "alpha": 1}), ("score_text", {"texts": [TEXT]})):
        with pytest.raises(BadData, match="the definition of the task"):
            ask(worker, operation, run, **words)
    (world / "task.yaml").write_text(definition)
    rows = (world / "test.jsonl").read_text().splitlines()
    (world / "test.jsonl").write_text("\n".join(rows[:-2]) + "\n")
    with pytest.raises(BadData, match="data files have changed"):
        ask(worker, "wise", run, path="wise-ft", alpha=1)
    change_weights(world / "finetuned", lambda tensors: {n: t + 1e-3 for n, t in tensors.items()})
    with pytest.raises(PairMismatch, match="not those that run"):
        ask(worker, "score_text", run, texts=[TEXT])


@pytest.mark.parametrize("lacks", ["definition", "task"])
def test_a_definition_that_is_not_stored_is_said_to_be_unknown(
    lacks: str, place: Path, worker: Worker, run: Run, lived: Path
) -> None:
    assert ask(worker, "score_text", run, texts=[TEXT])["uncompared"] == ""
    asked = {"pair": {"base": str(lived / "base"), "finetuned": str(lived / "finetuned"), "task": run.spec.task}}
    assert answer(worker, "score_text", {**asked, "texts": [TEXT], "states": ["finetuned"]})["uncompared"] == ""
    record = json.loads((run.path / "run.json").read_text())
    record = {**record, "task": None} if lacks == "task" else record
    if lacks == "definition":
        del record["task"]["definition"]
    (run.path / "run.json").write_text(json.dumps(record))
    for operation, words in (("score_text", {"texts": [f"{TEXT}."]}), ("evaluate_region", {"sample": 8})):
        for is_stored in (False, True):
            found = ask(Worker(place), operation, run, **words)
            assert found["uncompared"] == UNCOMPARED.format("tiny") and found["stored"] is is_stored


def test_the_pair_used_longest_ago_is_let_go(lived: Path, tmp_path: Path) -> None:
    specs = []
    for name in ("task", "two", "three"):
        path = lived / "task.yaml" if name == "task" else tiny_task(tmp_path / name)
        specs.append(
            read_spec({"base": str(lived / "base"), "finetuned": str(lived / "finetuned"), "task": str(path)})
        )  # fmt: skip
    pairs = PairCache()
    first = pairs.get(specs[0])
    pairs.get(specs[1])
    assert pairs.get(specs[0]) is first
    pairs.get(specs[2])
    assert [spec.task for spec, _ in pairs._pairs.values()] == [specs[0].task, specs[2].task]
    assert pairs.get(specs[0]) is first
    small = PairCache(most=3, most_bytes=int(1.5 * first.bytes(specs[0])))
    for spec in specs:
        small.get(spec)
    assert [spec.task for spec, _ in small._pairs.values()] == [specs[2].task]


@pytest.mark.parametrize(
    ("operation", "arguments", "word"),
    [
        ("wise", {"path": "wise-ft", "alpha": 2000.0}, "-1..1000"),
        ("wise", {"path": "straight", "alpha": 0.5}, "wise-ft, wise-graft"),
        ("score_text", {"texts": [["a", "b"]]}, "has 1 text"),
        ("score_text", {"texts": ["a"], "states": ["merged"]}, "not a state"),
        ("evaluate_region", {"region": {"layers": [7]}}, "no layer '7'"),
        ("evaluate_region", {"region": {"run": "none"}}, "no run 'none'"),
        ("transfer", {"task": "nothing"}, "not a task"),
    ],
)
def test_what_cannot_be_asked(worker: Worker, run: Run, operation: str, arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(SkillvizError) as error:
        ask(worker, operation, run, **arguments)
    assert word in str(error.value)


def test_pairs_must_be_named_well(worker: Worker, run: Run) -> None:
    for wrong in ({}, {"base": "a"}):
        with pytest.raises(BadInput):
            answer(worker, "open", {"pair": wrong})
    with pytest.raises(RunNotFound):
        answer(worker, "open", {"pair": {"run": "absent"}})
    assert set(OPERATIONS) == {
        "encoded_texts", "open", "score_text", "attribute", "wise", "wise_grid", "evaluate_region", "region_part",
        "transfer", "union",
    }  # fmt: skip

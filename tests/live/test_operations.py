"""Tests that every operation gives, bit for bit, the results of direct calls to the layers below, also on another
task; and of a region's parts: exact grafts, resumed requests, and storage beside the runs."""

import itertools
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from numpy.testing import assert_equal

from skillviz.api import Region, Task
from skillviz.core.draws import stratified
from skillviz.core.encoded import Encoded
from skillviz.core.region_parts import ALONE, CELLS, HEADS, ROWS, WITHOUT, parts_of
from skillviz.errors import BadData, BadInput, PairMismatch, RunNotFound, SkillvizError
from skillviz.live.operations import OPERATIONS, answer
from skillviz.live.part_scores import PartScoring
from skillviz.live.request import PairCache, Worker
from skillviz.models.attribution import attribute, conductance
from skillviz.models.pair import STATES, ModelPair
from skillviz.models.predict import predict
from skillviz.runs.export import ExportRequest, Hub, export
from skillviz.runs.part_scores import RECORD, stored_parts
from skillviz.runs.produce import produce
from skillviz.runs.record import TransferNote
from skillviz.runs.run import parameter_table
from skillviz.runs.spec import read_spec
from skillviz.runs.store import PARTS, Library
from skillviz.runs.tables import logit_columns
from skillviz.runs.wise import grid_logits
from skillviz.show.transfer import counted
from skillviz.tasks.definition import UNCOMPARED
from skillviz.tasks.encode import encode
from skillviz.tasks.splits import load
from tests.core.problems import table_of
from tests.live.conftest import Ask, asking
from tests.models.folders import change_json, change_weights
from tests.refused import refuses
from tests.runs.test_scoring import other_task as near_task
from tests.runs.test_texts import rows_of
from tests.runs.tiny_world import Run, Store, spec_of
from tests.tasks.make import write_rows
from tests.tiny import tiny_task

pytestmark = pytest.mark.slow

TEXT = "the film was good and funny"
TEXTS = {"texts": [TEXT]}


@pytest.fixture
def world(lived: Path, tmp_path: Path) -> Path:
    """Return a copy of the models and tasks, without runs, that a test may change."""
    return Path(shutil.copytree(lived, tmp_path / "world", ignore=shutil.ignore_patterns("runs")))


@pytest.fixture(scope="module")
def named(lived: Path) -> dict[str, str]:
    """Return the names of the pair's models and task."""
    return {"base": str(lived / "base"), "finetuned": str(lived / "finetuned"), "task": str(lived / "task.yaml")}


def typed(task: Task, pair: ModelPair, *texts: str) -> Encoded:
    """Return the texts, encoded by hand."""
    return encode(
        task,
        pd.DataFrame({"example_id": [f"typed-{i}" for i in range(len(texts))], "text_a": texts, "label": 0}),
        pair.tokenizer,
        pair.readout_name,
    )


def sampled(task: Task, pair: ModelPair, n: int) -> tuple[pd.DataFrame, Encoded]:
    """Return n test examples, drawn by hand, in both forms."""
    frame = load(task).test
    frame = frame.iloc[stratified(frame["label"], n, 0)].reset_index(drop=True)
    return frame, encode(task, frame, pair.tokenizer, "head")


def at_least(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Check these facts of an answer, exactly; it may have others."""
    assert_equal({name: found[name] for name in wanted}, wanted)


def test_a_pair_is_opened_by_its_run_or_its_models(ask: Ask, pair: ModelPair, named: dict[str, str]) -> None:
    wanted = {"d": pair.d, "labels": ["class-terrible", "class-great"], "readout": "head", "notes": list(pair.notes)}
    for asked in ({}, {"pair": {**named, "device": "cpu"}}):
        at_least(json.loads(json.dumps(ask("open", **asked))), wanted | {"layers": 2})


def test_text_is_scored_as_predict_does(ask: Ask, run: Run, pair: ModelPair, task: Task) -> None:
    found = ask("score_text", texts=[TEXT, "a dull story"])
    encoded, one = typed(task, pair, TEXT, "a dull story"), typed(task, pair, TEXT)
    assert_equal(found["logits"], {state: predict(pair, encoded, state, run.region()) for state in STATES})
    assert_equal(
        ask("score_text", region={"run": run.id[:-2], "size": 889}, states=["grafted"], **TEXTS)["logits"],
        {"grafted": predict(pair, one, "grafted", run.cut(889))},
    )


def test_a_region_is_evaluated_as_the_run_did(ask: Ask, run: Run, pair: ModelPair) -> None:
    ids, labels, logits = run.logits("grafted")
    states = {"grafted": logits, "complement": run.logits("complement")[2]}
    at_least(
        ask("evaluate_region"), {"example_ids": list(ids), "labels": labels, "logits": states, "size": 222, "d": pair.d}
    )
    expression = {"difference": [{"run": run.id, "size": 889}, {"layers": [0]}]}
    lower = {n: np.arange(np.prod(s)) for n, s in pair.table.shapes.items() if ".layer.0." in n}
    made = ask("evaluate_region", region=expression, sample=7, split="validation")
    assert (made["size"], len(made["labels"])) == ((run.cut(889) - Region(lower, pair.table.shapes)).size, 7)


def test_the_graft_file_is_the_one_that_export_writes(ask: Ask, run: Run, tmp_path: Path) -> None:
    written = export(run, ExportRequest("graft", run.id), tmp_path / "graft.safetensors", hub=Hub("a/b", dry_run=True))
    graft = (tmp_path / "graft.safetensors").read_bytes()
    at_least(ask("graft_file"), {"graft": graft, "card": written.card.replace("a/b", run.id), "remarks": []})


def test_random_controls_have_the_regions_size_and_are_the_localizers_own_draws(
    ask: Ask, run: Run, pair: ModelPair, task: Task
) -> None:
    asked, region = {"sample": 9, "controls": ["random", "random-matched"]}, run.region()
    found, other = (ask("evaluate_region", seed=seed, **asked)["logits"] for seed in (3, 4))
    assert list(found) == ["grafted", "complement", "random", "random-matched"]
    anywhere = np.random.default_rng(3).permutation(region.d)[: region.size]
    assert_equal(
        found["random"],
        predict(pair, sampled(task, pair, 9)[1], "grafted", Region.from_flat(np.sort(anywhere), region.shapes)),
    )
    for another in (found["grafted"], found["random-matched"], other["random"]):
        assert not np.array_equal(found["random"], another)


def test_a_sample_is_drawn_in_order(ask: Ask, run: Run, pair: ModelPair, task: Task) -> None:
    frame, encoded = sampled(task, pair, 10)
    assert frame["label"].tolist().count(0) == 5  # equal counts of each class, for any order of the file
    states = {state: predict(pair, encoded, state, run.region()) for state in ("finetuned", "grafted")}
    found = ask("evaluate_region", sample=10, states=list(states))
    at_least(found, {"example_ids": frame["example_id"].tolist(), "logits": states})
    assert len(found["labels"]) == 10


@pytest.mark.parametrize(("path", "end"), [("wise-ft", "finetuned"), ("wise-graft", "grafted")])
def test_wise_is_the_grids_own(ask: Ask, run: Run, pair: ModelPair, task: Task, path: str, end: str) -> None:
    alphas, encoded = {0: 0.0, 0.35: 0.35, 1: 1.0}, encode(task, load(task).test, pair.tokenizer, "head")
    rows = grid_logits(pair, encoded, {0: run.region()}, np.array([*alphas.values()]))
    grid = {alpha: logits for found, _, alpha, logits in rows if found == path}
    answers = {exact: ask("wise", path=path, alpha=alpha) for alpha, exact in alphas.items()}
    assert_equal({alpha: answer["logits"] for alpha, answer in answers.items()}, grid)
    at_least(answers[1.0], {"size": run.record.size, "logits": run.logits(end)[2]})


def test_attributions_are_those_of_the_models_layer(ask: Ask, run: Run, pair: ModelPair, task: Task) -> None:
    encoded, found = typed(task, pair, TEXT), ask("attribute", text=TEXT, steps=8)
    target = predict(pair, encoded, "finetuned").argmax()
    assert (found["target"], len(found["states"])) == (target, 3)
    for state, told in found["states"].items():
        one = attribute(pair, encoded, state, run.region(), target=target, steps=8)
        at_least({**told, "tokens": found["tokens"]}, {"values": one.values, "gap": one.gap, "tokens": [*one.tokens]})
    asked = {"baseline": "zero", "target": 1, "steps": 8}
    layers = ask("attribute", text=TEXT, method="layer-conductance", states=["grafted"], **asked)
    at_least(
        layers["states"]["grafted"]["parts"], dict(conductance(pair, encoded, "grafted", run.region(), **asked).parts)
    )


def other_task(lived: Path, folder: Path, copied: int, **changes: Any) -> Path:
    """Write another task whose first `copied` test examples are in the source's training data, in capitals."""
    path = tiny_task(folder, rows=32)
    told = yaml.safe_load(path.read_text()) | changes
    shown = [{**row, "text": row["text"].upper().replace(" ", "  ")} for row in rows_of(lived / "train.jsonl")[:copied]]
    for split, more in (("train", []), ("validation", []), ("test", shown)):
        rows = more + rows_of(folder / f"{split}.jsonl")
        rows.sort(key=lambda row: row["label"])  # the first rows are all of one class
        write_rows(folder / f"{split}.jsonl", [{**row, "label": told["labels"][row["label"]]} for row in rows])
    path.write_text(yaml.safe_dump(told, sort_keys=False))
    return path


def test_transfer_drops_what_was_trained_on(
    ask: Ask, run: Run, pair: ModelPair, task: Task, lived: Path, tmp_path: Path
) -> None:
    path = other_task(lived, tmp_path / "other", 5, name="other")
    trained, rows = {row["text"] for row in rows_of(lived / "train.jsonl")}, rows_of(path.with_name("test.jsonl"))
    fresh = [row for row in rows if " ".join(row["text"].lower().split()) not in trained]
    encoded, dropped = typed(task, pair, *(row["text"] for row in fresh)), len(rows) - len(fresh)
    found = ask("transfer", task=str(path))
    wanted = {"rows": len(rows), "dropped": dropped, "mapping": {label: label for label in task.labels}, "unmapped": 0}
    at_least(found, wanted | {"logits": {state: predict(pair, encoded, state, run.region()) for state in STATES}})
    assert dropped >= 5 and [task.labels[y] for y in found["labels"]] == [row["label"] for row in fresh]


def test_transfer_maps_labels(ask: Ask, lived: Path, world: Path, tmp_path: Path) -> None:
    path = str(other_task(lived, tmp_path / "other", 0, name="other", labels=["good", "bad"]))
    mapping, both = {"good": "class-great", "bad": None}, {"good": "class-great", "bad": "class-terrible"}
    at_least(
        ask("transfer", task=path, mapping=mapping, states=["finetuned"], sample=3),
        {"unmapped": 8, "labels": np.array([1, 1, 1]), "mapping": mapping},
    )
    even = {n: ask("transfer", task=path, mapping=both, states=["finetuned"], sample=n) for n in (2, 4, 6, 8)}
    # A sample has the classes of the whole.
    assert {n: one["labels"].tolist().count(1) for n, one in even.items()} == {n: n // 2 for n in even}
    shutil.copy(world / "train.jsonl", world / "test.jsonl")
    for asked, mapping, kind, words in (
        (path, None, BadInput, "'good' is a label of 'other' that 'tiny' does not have"),
        (path, {"good": "class-great"}, BadInput, "mapping"),
        (path, {"good": "x", "bad": None}, BadInput, "mapping"),
        (path, {"good": None, "bad": None}, BadInput, "mapping"),
        (str(tiny_task(tmp_path / "pairs", pair=True)), None, BadInput, "number of texts"),
        (str(world / "task.yaml"), None, BadData, "no test example"),  # its test set is the source's training set
    ):
        refuses(kind, words, ask, "transfer", task=asked, **({} if mapping is None else {"mapping": mapping}))


def test_an_answer_about_a_run_is_kept_beside_it(ask: Ask, place: Path, run: Run, named: dict[str, str]) -> None:
    first, again = (ask("wise", path="wise-ft", alpha=0.25, **more) for more in ({}, {"split": "test", "sample": None}))
    assert not first["stored"] and again["stored"] and np.array_equal(first["logits"], again["logits"])
    assert len(list((place / ".live" / run.id).glob("*.parquet"))) == 1
    fresh = Worker(place)
    stored = answer(fresh, "wise", {"pair": {"run": run.id}, "path": "wise-ft", "alpha": 0.25})["stored"]
    assert stored and not fresh.pairs._pairs, "no model is loaded"
    values = [ask("evaluate_region", region=region, sample=2)["stored"] for region in (
        {"layers": [1, 0], "kinds": ["value"]}, {"kinds": ["value"], "layers": [0, 1]},
    )]  # fmt: skip
    # Without a run the answer cannot be stored.
    typed = [ask("score_text", pair=named, states=["finetuned"], **TEXTS)["stored"] for _ in range(2)]
    other = ask("wise", path="wise-graft", alpha=0.25)["stored"]
    assert (values, typed, other, len(Store(place).list()), Store(place).verify(run.id)) == (
        [False, True], [False, False], False, 1, [],
    )  # fmt: skip


def test_without_its_data_a_pair_answers_what_needs_none_of_them(world: Path) -> None:
    run = produce(spec_of(world), Store(world / "runs"))
    asked = (("score_text", {"states": ["finetuned"], **TEXTS}),
             ("transfer", {"task": str(world / "other" / "task.yaml")}))  # fmt: skip
    ask = asking(world / "runs", run)
    before = [ask(operation, **words) for operation, words in asked]
    for split in ("train", "validation", "test"):
        (world / f"{split}.jsonl").unlink()
    bare = asking(world / "runs", run)
    after = [bare(operation, **words) for operation, words in asked]
    assert not after[0]["stored"] and np.array_equal(before[0]["logits"]["finetuned"], after[0]["logits"]["finetuned"])
    assert before[1]["dropped"] is not None and after[1]["dropped"] is None, "nobody can tell what was trained on"
    assert "may have been seen in training" in counted(TransferNote(**after[1]["note"]))
    for operation, words in (("evaluate_region", {}), ("wise", {"path": "wise-ft", "alpha": 1})):
        refuses(BadData, "there is no file", bare, operation, **words)


def test_changed_models_and_data_are_noticed(world: Path) -> None:
    ask = asking(world / "runs", produce(spec_of(world), Store(world / "runs")))
    wise, score = partial(ask, "wise", path="wise-ft", alpha=1), partial(ask, "score_text", **TEXTS)
    file, rows = world / "task.yaml", rows_of(world / "test.jsonl")
    definition = file.read_text()
    wise()
    file.write_text(definition + "length_normalised: true\n")
    score()  # only the causal readout needs it
    other = definition.replace("max_length: 48", "max_length: 12")
    for text, kept, question, words in (
        (other, rows, wise, "the definition of the task"),
        (other, rows, score, "the definition of the task"),
        (definition, rows[:-2], wise, "data files have changed"),
    ):
        file.write_text(text)
        write_rows(world / "test.jsonl", kept)
        refuses(BadData, words, question)
    change_weights(world / "finetuned", lambda tensors: {n: t + 1e-3 for n, t in tensors.items()})
    refuses(PairMismatch, "not those that run", score)


@pytest.mark.parametrize("lacks", ["definition", "task"])
def test_a_definition_that_is_not_stored_is_said_to_be_unknown(
    lacks: str, place: Path, ask: Ask, run: Run, named: dict[str, str]
) -> None:
    for more in ({}, {"pair": {**named, "task": run.spec.task}, "states": ["finetuned"]}):
        assert ask("score_text", **TEXTS, **more)["uncompared"] == ""
    note = json.loads((run.path / "run.json").read_text())["task"]
    change_json(
        run.path / "run.json",
        task=(None if lacks == "task" else {name: value for name, value in note.items() if name != lacks}),
    )
    for operation, words in (("score_text", {"texts": [f"{TEXT}."]}), ("evaluate_region", {"sample": 8})):
        for is_stored in (False, True):
            found = asking(place, run)(operation, **words)
            assert (found["uncompared"], found["stored"]) == (UNCOMPARED.format("tiny"), is_stored)


def test_the_pair_used_longest_ago_is_let_go(named: dict[str, str], tmp_path: Path) -> None:
    paths = [named["task"], *(str(tiny_task(tmp_path / name)) for name in ("two", "three"))]
    one, two, three = specs = [read_spec({**named, "task": path}) for path in paths]
    pairs = PairCache()
    first = pairs.get(one)
    assert [pairs.get(spec) is first for spec in (two, one, three, one)] == [False, True, False, True]
    assert [spec.task for spec, _ in pairs._pairs.values()] == [three.task, one.task]
    small = PairCache(most=3, most_bytes=int(1.5 * first.bytes(one)))
    for spec in specs:
        small.get(spec)
    assert [spec.task for spec, _ in small._pairs.values()] == [three.task]


@pytest.mark.parametrize(
    ("operation", "arguments", "kind", "word"),
    [
        ("wise", {"path": "wise-ft", "alpha": 2000.0}, SkillvizError, "-1..1000"),
        ("wise", {"path": "straight", "alpha": 0.5}, SkillvizError, "wise-ft, wise-graft"),
        ("score_text", {"texts": [["a", "b"]]}, SkillvizError, "has 1 text"),
        ("score_text", {"texts": ["a"], "states": ["merged"]}, SkillvizError, "not a state"),
        ("evaluate_region", {"region": {"layers": [7]}}, SkillvizError, "no layer '7'"),
        ("evaluate_region", {"region": {"run": "none"}}, SkillvizError, "no run 'none'"),
        ("transfer", {"task": "nothing"}, SkillvizError, "not a task"),
        ("open", {"pair": {}}, BadInput, None),
        ("open", {"pair": {"base": "a"}}, BadInput, None),
        ("open", {"pair": {"run": "absent"}}, RunNotFound, None),
    ],
)
def test_what_cannot_be_asked(
    ask: Ask, operation: str, arguments: dict[str, Any], kind: type[Exception], word: str | None
) -> None:
    refuses(kind, word, ask, operation, **arguments)


def test_the_operations_are_these() -> None:
    assert set(OPERATIONS) == {
        "encoded_texts", "open", "score_text", "attribute", "wise", "wise_grid", "evaluate_region", "region_part",
        "transfer", "union", "graft_file",
    }  # fmt: skip


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a task with the same labels as the pair's."""
    return str(near_task(tmp_path_factory.mktemp("near"), "near"))


@pytest.fixture(scope="module")
def scored(lived: Path, near: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run that was scored on the other task, with its grid."""
    return produce(
        spec_of(lived, sizes=("5%", "20%"), others=(near,), interpolation=True),
        Store(tmp_path_factory.mktemp("scored")),
    )


@pytest.fixture
def again(scored: Run) -> Ask:
    """Return a function that asks about this run."""
    return asking(scored.path.parent, scored)


def test_a_point_is_the_stored_grids(again: Ask, scored: Run, near: str) -> None:
    found = again("wise", path="wise-graft", alpha=0.3, region={"run": scored.id, "size": 889}, task=near)
    assert found["size"] == 889 and list(found["labels"]) == list(scored.logits("grafted", "test", "near")[1])
    point = "dataset == 'near' and size == 889 and abs(alpha - 0.3) < 1e-9"
    rows = scored.interpolation().query(f"{point} and path == 'wise-graft'").set_index("metric")
    stored = rows[["value", "low", "high"]].astype(object).where(rows[["value", "low", "high"]].notna(), None)
    told = {name: [one["value"], one["low"], one["high"]] for name, one in found["metrics"].items()}
    counts = scored.interpolation_bins().query(point)["count"].tolist()
    assert (told, found["bins"]["count"].tolist()) == (stored.T.to_dict("list"), counts)
    ends = again("wise", path="wise-ft", alpha=1)["metrics"]["accuracy_difference"]
    assert ends == {"value": 0.0, "low": 0.0, "high": 0.0, "debiased": None}


def test_both_ways_are_traced_as_a_run_stores_them(again: Ask, scored: Run, near: str) -> None:
    found, few, grid = again("wise_grid", task=near), again("wise_grid", sample=9), scored.interpolation()
    stored = grid[(grid["dataset"] == "near") & (grid["size"].isna() | (grid["size"] == scored.record.size))]
    columns = ["value", "path"]
    assert pd.DataFrame(found["rows"])[columns].to_numpy().tolist() == stored[columns].to_numpy().tolist()
    facts = [(one["dataset"], one["n"]) for one in (found, few)]
    assert facts == [("near", scored.record.transfers[0].scores.n), ("tiny", 9)]
    assert pd.DataFrame(few["bins"]).groupby(["path", "alpha"])["count"].sum().eq(9).all()


def test_a_transfer_is_told_as_the_record_has_it(again: Ask, scored: Run, near: str) -> None:
    assert TransferNote(**again("transfer", task=near)["note"]) == scored.record.transfers[0]


def test_other_examples_than_the_stored_ones_are_refused(again: Ask, near: str, tmp_path: Path) -> None:
    changed = near_task(tmp_path, "near", seed=5)
    refuses(BadData, "not those that run", again, "wise", path="wise-ft", alpha=0.5, task=str(changed))
    shutil.copy(Path(near).parent / "test.jsonl", tmp_path / "test.jsonl")
    again("wise", path="wise-ft", alpha=0.5, task=str(changed))


SAMPLE = 12
PASS = ["layer", "kind", "condition", "draw"]


def scoring(run: Run, grouping: str = CELLS, draws: int = 1) -> PartScoring:
    return PartScoring(run, run.region(), grouping, sample=SAMPLE, draws=draws)


def part_rows(plan: PartScoring, ask: Ask) -> pd.DataFrame:
    return pd.concat([rows for _, rows in plan.steps(ask)])


def logits_of(run: Run, rows: pd.DataFrame) -> np.ndarray:
    return rows[logit_columns(run.labels)].to_numpy(np.float32)


@pytest.fixture
def encoded(place: Path, run: Run) -> Encoded:
    """Return the examples that are scored."""
    return Worker(place).pairs.get(run.spec).examples(run.spec, "test", SAMPLE)


@pytest.fixture
def part_scores(place: Path, run: Run, ask: Ask) -> Any:
    """Return the stored scores of the run's cells."""
    return scoring(run).stored(ask, Store(place), lambda done: None)


@pytest.mark.cases(0, 2)
@pytest.mark.parametrize("grouping", [CELLS, HEADS, ROWS])
def test_every_graft_is_predicts_own(ask: Ask, run: Run, pair: ModelPair, encoded: Encoded, grouping: str) -> None:
    """ALONE is the graft of the part's entries, and WITHOUT the graft of the region's other entries, bit for bit."""
    frame, region = part_rows(scoring(run, grouping), ask), run.region()
    assert list(encoded.ids) == list(
        ask("evaluate_region", sample=SAMPLE, states=["pretrained", "grafted"])["example_ids"]
    )
    for part in parts_of(region, pair.table, grouping):
        layer, kind, head = part.place
        own = frame.query("layer == @layer and kind == @kind and draw == 0")
        own = own if head is None else own[own["head"] == head]
        alone = Region.from_flat(part.entries, region.shapes)
        for condition, grafted in ((ALONE, alone), (WITHOUT, region - alone)):
            rows = own[own["condition"] == condition]
            assert np.array_equal(logits_of(run, rows), predict(pair, encoded, "grafted", grafted))
            assert (rows["size"] == part.size).all()


def test_all_cells_together_are_the_graft_and_none_the_base(
    ask: Ask, run: Run, pair: ModelPair, encoded: Encoded
) -> None:
    frame, together, left = part_rows(scoring(run), ask), Region.empty(pair.table.shapes), run.region()
    for part in parts_of(run.region(), pair.table, CELLS):
        cell = Region.from_flat(part.entries, pair.table.shapes)
        together, left = together | cell, left - cell
    lacking = Region.from_flat(together.flat()[1:], pair.table.shapes)  # one cell lacks an entry
    stored = {state: logits_of(run, frame[frame["condition"] == state]) for state in ("grafted", "pretrained")}
    for state, region, equal in (("grafted", together, True), ("pretrained", left, True), ("grafted", lacking, False)):
        assert np.array_equal(stored[state], predict(pair, encoded, "grafted", region)) is equal, state


def test_they_are_stored_beside_the_run_and_read_back(place: Path, run: Run, ask: Ask) -> None:
    before = sorted(path.name for path in run.path.iterdir())
    seen, plan, library = list[int](), scoring(run), Library([Store(place)])
    record = plan.stored(ask, Store(place), seen.append).record
    facts = (record.run_id, record.grouping, record.n, record.draws, record.parts)
    assert (seen[-1], seen, facts, sorted(path.name for path in run.path.iterdir()), Store(place).verify(run.id)) == (
        plan.passes, sorted(seen), (run.id, CELLS, SAMPLE, 1, len(plan.parts)), before, [],
    )  # fmt: skip
    read = stored_parts(library, run, CELLS)
    assert read.record == record and stored_parts(library, run, HEADS) is None
    frame = read.predictions()
    assert set(frame["condition"]) == {ALONE, WITHOUT, "pretrained", "grafted"}
    assert len(frame) == SAMPLE * len(frame[PASS].drop_duplicates())
    assert [one.id for one in Store(place).list()] == [run.id]  # no new run is made


def test_what_belongs_to_another_region_or_is_broken_is_not_read(place: Path, run: Run, part_scores: Any) -> None:
    library, text = Library([Store(place)]), (part_scores.path / RECORD).read_text()
    for name, content, is_read in (
        (RECORD, text.replace(part_scores.record.region_sha256, "0" * 64), False),
        (RECORD, text, True),
        ("parts.parquet", "", False),
    ):
        (part_scores.path / name).write_text(content)
        assert (stored_parts(library, run, CELLS) is not None) is is_read, name


def test_a_run_takes_the_scores_of_its_parts_with_it(place: Path, run: Run, part_scores: Any) -> None:
    Store(place).delete(run.id)
    assert part_scores.path.is_relative_to(place / PARTS / run.id) and not (place / PARTS / run.id).exists()


def test_what_was_interrupted_goes_on_where_it_stopped(place: Path, run: Run, ask: Ask) -> None:
    stored = list[bool]()

    def logged(operation: str, **arguments: Any) -> dict[str, Any]:
        value = ask(operation, **arguments)
        stored.append(value["stored"])
        return value

    list(itertools.islice(scoring(run).steps(logged), 3))
    done = len(stored)
    whole = part_rows(scoring(run), logged)
    assert stored[:done] == [False] * done and stored[done : done + 4] == [True, True, True, False]
    pd.testing.assert_frame_equal(whole, part_rows(scoring(run), asking(place, run)))


def test_passes_are_counted_before_they_are_made(run: Run, ask: Ask) -> None:
    plan = scoring(run, draws=2)
    assert len(part_rows(plan, ask)[PASS].drop_duplicates()) <= plan.passes == 2 + len(plan.parts) * 2 * 3


def test_what_cannot_be_scored_is_said(run: Run) -> None:
    refuses(BadInput, r"random controls must be 0\.\.100; got -1", scoring, run, draws=-1)


def test_the_torch_free_table_is_the_pairs_own(run: Run, pair: ModelPair) -> None:
    table = parameter_table(run.record, run.region())
    assert (table.shapes, table.heads) == (table_of(pair.model).shapes, pair.table.heads)

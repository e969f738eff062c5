"""Tests of a run scored on other tasks too: the stored scores, the refused tasks, and its own unchanged numbers."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from skillviz.analysis.necessity import without_region
from skillviz.core.calibration import reliability
from skillviz.core.interpolate import PATHS
from skillviz.core.prefix import lowest_layer
from skillviz.core.region import Region
from skillviz.errors import BadData, BadInput, UnknownTask
from skillviz.models.predict import predict
from skillviz.runs.artifact import CURRENT, RunArtifact
from skillviz.runs.metrics import complement_row, metrics
from skillviz.runs.produce import produce
from skillviz.runs.wise import grid_logits, on_path
from skillviz.tasks import registry
from skillviz.tasks.encode import encode
from skillviz.tasks.splits import load_test
from tests.runs.tiny_world import Run, Session, Store, spec_of
from tests.tiny import tiny_rows, tiny_task

STATES = ("pretrained", "finetuned", "grafted", "complement")


def other_task(folder: Path, name: str, rows: int = 40, seed: int = 70, **changes: Any) -> Path:
    """Write a task of this name whose test examples are drawn with the seed; return its path."""
    path = tiny_task(folder, rows=16)
    told = {**yaml.safe_load(path.read_text()), "name": name, **changes}
    path.write_text(yaml.safe_dump(told, sort_keys=False))
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tiny_rows(rows, seed=seed)))
    return path


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("others")
    return str(other_task(folder / "near", "near")), str(other_task(folder / "far", "far", rows=24, seed=71))


@pytest.fixture(scope="module")
def made(world: Path, session: Session, others: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a movement run of three sizes, scored on both tasks, with the grid."""
    spec = spec_of(world, sizes=("5%", "1%", "20%"), others=others, interpolation=True)
    return produce(spec, Store(tmp_path_factory.mktemp("scored")), session=session)


@pytest.mark.nightly
def test_the_record_tells_what_was_scored(made: Run, others: tuple[str, str]) -> None:
    near = made.record.transfers[0]
    assert made.datasets == ("tiny", "near", "far")
    assert [(note.name, note.named) for note in made.record.transfers] == list(
        zip(("near", "far"), others, strict=True)
    )
    assert (near.mapping, near.unmapped) == ({name: name for name in made.labels}, 0)
    assert near.rows == near.dropped + near.scores.n == 40
    assert near.majority == pytest.approx(0.5, abs=0.1) and len(near.fingerprint) == 64
    assert set(STATES) == near.scores.states.keys()  # no temperature: the tiny pair makes no error on validation
    assert near.scores.differences["accuracy"].low is not None
    assert Store(made.path.parent).verify(made.id) == []


@pytest.mark.slow
def test_stored_predictions_are_those_of_the_other_task(made: Run, session: Session, others: tuple[str, str]) -> None:
    pair, task = session.pair(made.spec), registry.task(others[0])
    frame, trained = load_test(task)[0], {row["text"] for row in tiny_rows(64)}
    encoded = encode(task, frame[~frame["text_a"].isin(trained)].reset_index(drop=True), pair.tokenizer, "head")
    for state in STATES:
        ids, labels, logits = made.logits(state, "test", "near")
        assert np.array_equal(logits, predict(pair, encoded, state, made.region())), state
        assert list(ids) == encoded.ids and np.array_equal(labels, encoded.labels), state
    stored = made.record.transfers[0].scores.states["grafted"]
    assert stored == metrics(made.logits("grafted", "test", "near")[2], encoded.labels, made.record.task)


@pytest.mark.slow
def test_its_own_tables_hold_its_own_examples_alone(made: Run, world: Path, session: Session) -> None:
    bare = produce(spec_of(world, sizes=("5%", "1%", "20%")), Store(made.path.parent), session=session)
    assert made.predictions().equals(bare.predictions()) and made.curve().equals(bare.curve())
    assert set(made.predictions()["dataset"]) == {"tiny"} and set(made.predictions("far")["dataset"]) == {"far"}
    assert made.record.metrics == bare.record.metrics and bare.record.transfers == ()
    assert made.record.key != bare.record.key


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "size", "alpha"), [("wise-ft", None, 0.3), ("wise-graft", 889, 0.7), ("wise-graft", 44, 1.0)]
)
def test_every_point_of_the_grid_is_what_evaluation_says(
    made: Run, session: Session, path: str, size: int | None, alpha: float
) -> None:
    pair, encoded = session.pair(made.spec), session.other_ends(made.spec, made.record.task)["far"].encoded
    with on_path(pair, path, alpha, made.cut(size or 1)):
        logits = pair.objective(encoded).logits()

    def at(frame: pd.DataFrame) -> pd.DataFrame:
        found = frame[(frame["path"] == path) & np.isclose(frame["alpha"], alpha) & (frame["dataset"] == "far")]
        return found[found["size"].isna() if size is None else found["size"].eq(size).fillna(False).astype(bool)]

    found = at(made.interpolation()).set_index("metric")[["value", "low", "high"]].astype(object)
    wanted = {
        name: [one.value, one.low, one.high] for name, one in metrics(logits, encoded.labels, made.record.task).items()
    }
    assert found.where(found.notna(), None).loc[list(wanted)].T.to_dict("list") == wanted
    own, told = at(made.interpolation_bins()).sort_values("bin"), reliability(logits, encoded.labels)
    assert own["count"].tolist() == told["count"].tolist() and own["count"].sum() == len(encoded)
    share = own["correct"] / own["count"].where(own["count"] > 0)
    assert np.allclose([own["confidence"], share], [told["confidence"], told["accuracy"]], equal_nan=True)
    gap = (own["confidence"].fillna(0) * own["count"] - own["correct"]).abs().sum() / len(encoded)
    assert gap == pytest.approx(found.loc["ece", "value"])


@pytest.mark.slow
def test_the_grid_has_every_size_on_every_task(made: Run) -> None:
    grid = made.interpolation()
    points = grid[["dataset", "path", "size", "alpha"]].drop_duplicates()
    assert points.groupby(["dataset", "path", "size"], dropna=False).size().tolist() == [11] * 3 * 4
    assert set(grid["dataset"]) == {"tiny", "near", "far"} and set(grid["size"].dropna()) == set(made.record.sizes)


@pytest.mark.slow
@pytest.mark.parametrize("paths", [PATHS, PATHS[1:]], ids=len)
def test_the_grid_of_a_region_in_upper_layers_is_that_of_whole_passes(
    made: Run, session: Session, paths: tuple[str, ...]
) -> None:
    pair, encoded = session.pair(made.spec), session.other_ends(made.spec, made.record.task)["far"].encoded
    table, whole = pair.table, made.cut(889)
    names = [p.name for p in table.parameters if p.layer == table.layers - 1 and p.name in whole.indices]
    upper = Region({name: whole.indices[name] for name in names}, table.shapes)
    assert lowest_layer(upper, table) > 0 == lowest_layer(whole, table)
    grid = list(grid_logits(pair, encoded, {upper.size: upper}, np.array([0.0, 0.35, 1.0]), paths))
    assert [path for path, *_ in grid] == [path for path in paths for _ in range(3)]
    for path, _, alpha, logits in grid:
        with on_path(pair, path, alpha, upper):
            assert np.array_equal(logits, pair.objective(encoded).logits()), (path, alpha)


@pytest.mark.slow
def test_differences_are_paired_with_the_fine_tuned_model(made: Run) -> None:
    wanted = made.record.transfers[0].scores.differences["accuracy"]
    grid = made.interpolation().query("dataset == 'near' and metric == 'accuracy_difference' and alpha == 1")
    for rows, end in (
        ("path == 'wise-ft'", [0, 0, 0]),
        (f"path == 'wise-graft' and size == {made.record.size}", [wanted.value, wanted.low, wanted.high]),
    ):
        assert grid.query(rows)[["value", "low", "high"]].to_numpy().tolist() == [end]


@pytest.mark.slow
def test_the_ends_of_other_tasks_are_scored_once(made: Run, session: Session) -> None:
    first = session.other_ends(made.spec, made.record.task)
    spec = made.spec.model_copy(update={"localizer": "random", "interpolation": False})
    run = produce(spec, Store(made.path.parent), session=session)
    assert session.other_ends(run.spec, run.record.task) is first
    assert (len(run.record.transfers), len(run.interpolation())) == (2, 0)


@pytest.mark.parametrize(
    ("change", "error", "word"),
    [
        ({"labels": ["good", "bad"]}, BadInput, "'good' is a label of 'strange' that 'tiny' does not have"),
        ({"name": "tiny"}, BadInput, "name each task once"),
        ({"pair": True}, BadInput, "differ in the number of texts; only tasks"),
        ({"spelled": "nothing"}, UnknownTask, "nothing"),
        ({"rows": 64, "seed": 0}, BadData, "no test example of 'strange' is left: of 64, 64 occur"),
    ],
    ids=["labels", "name", "number of texts", "unknown", "only examples of the training"],
)
def test_tasks_that_do_not_fit_are_refused_before_anything_is_loaded(
    world: Path, store: Store, tmp_path: Path, change: dict[str, Any], error: type[Exception], word: str
) -> None:
    spelled = change.get("spelled") or (
        tiny_task(tmp_path, pair=True) if "pair" in change else other_task(tmp_path, **{"name": "strange", **change})
    )
    began = time.perf_counter()
    with pytest.raises(error, match=word) as caught:
        produce(spec_of(world, others=(str(spelled),)), store)
    assert error is BadData or time.perf_counter() - began < 1
    assert "\n" not in str(caught.value) and not list(store.root.glob("*/run.json"))


@pytest.mark.slow
def test_a_finished_run_counts_while_the_other_data_are_the_same(world: Path, store: Store, tmp_path: Path) -> None:
    run = produce(spec_of(world, others=(str(other_task(tmp_path, "near")),), max_test=10), store)
    assert run.record.transfers[0].scores.n == 10 and RunArtifact(run.spec).changes(run, store, Session()) == CURRENT
    other_task(tmp_path, "near", seed=99)
    assert "the data of the task 'near'" in RunArtifact(run.spec).changes(run, store, Session()).why


def test_every_size_has_its_complement(world: Path, store: Store) -> None:
    session = Session()
    run = produce(spec_of(world, sizes=("10%", "50%", "1%")), store, session=session)
    table = run.complement().query("split == 'test'")
    values = table.set_index(["size", "metric"])["value"]
    assert "complement.parquet" in run.files and set(run.complement()["size"]) == set(run.record.sizes)
    main = run.record.metrics["test"].states["complement"]["accuracy"].value
    assert values[run.record.size, "accuracy"] == main
    pair, encoded = session.pair(run.spec), session.encoded(run.spec)["test"]
    for size in run.record.sizes:
        logits = {**session.ends(run.spec)["test"], "complement": predict(pair, encoded, "complement", run.cut(size))}
        row = complement_row(logits, encoded.labels, run.record.task)
        wanted = {name: e.value for name, e in row.items() if e.value is not None}
        assert values.loc[size].dropna().to_dict() == pytest.approx(wanted)
    pd.testing.assert_frame_equal(without_region(run, "test"), table)


def test_a_control_whose_rest_is_zero_has_none(world: Path, tmp_path: Path) -> None:
    spec = spec_of(world, localizer="lottery", sizes=("50%",), steps=2, batch_size=16)
    run = produce(spec, Store(tmp_path), session=Session())
    assert "complement.parquet" not in run.files and run.complement().empty

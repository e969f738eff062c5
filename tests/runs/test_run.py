"""Tests of reading a finished run, and of the errors that a reader gets if it is damaged."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from skillviz.errors import BadInput, CorruptRun
from skillviz.runs import tables
from skillviz.runs.run import Run, read_record, with_checksum
from skillviz.runs.store import Store
from tests.fake_run import fake_run
from tests.runs.conftest import SMALL


def test_logits_come_in_the_order_of_the_labels(made: Run) -> None:
    ids, labels, logits = made.logits("grafted", "test")
    assert logits.shape == (40, 2) and logits.dtype == np.float32
    assert ids[0] == "test-0" and len(set(ids)) == 40
    frame = made.predictions()
    rows = frame[(frame["state"] == "grafted") & (frame["split"] == "test")]
    assert np.array_equal(logits[:, 1], rows["logit_positive"])
    assert np.array_equal(labels, rows["label"])
    assert len(made.logits("nothing", "test")[0]) == 0


def test_accuracy_in_run_json_is_that_of_the_stored_predictions(made: Run) -> None:
    for split, scores in made.record.metrics.items():
        for state in ("pretrained", "finetuned", "grafted", "complement"):
            _, labels, logits = made.logits(state, split)
            assert scores.states[state]["accuracy"].value == pytest.approx((logits.argmax(1) == labels).mean())


def test_scores_as_a_table(made: Run) -> None:
    frame = made.scores()
    assert set(frame["split"]) == {"validation", "test"}
    assert "finetuned_scaled" in set(frame["state"])
    row = frame.query("split == 'test' and state == 'grafted' and metric == 'ece'").iloc[0]
    assert row["low"] <= row["value"] <= row["high"]


def test_the_ranking_is_cut_to_smaller_regions(made: Run) -> None:
    assert made.cut(0).size == 0
    assert made.cut(made.record.size) == made.region()
    assert made.cut(5).overlap(made.region()) > 0
    with pytest.raises(BadInput, match="ranking"):
        made.cut(len(made.ranking()) + 1)


def test_what_does_not_apply_is_an_empty_table(run: Run) -> None:
    record = run.record.model_copy(update={"files": {}})
    bare = Run(run.path, record)
    for name in tables.TABLES.keys() - {"parts"}:  # they are stored beside the run
        frame = getattr(bare, name)()
        assert len(frame) == 0 and len(frame.columns)
    assert list(bare.predictions().columns)[-2:] == ["logit_negative", "logit_positive"]
    assert len(bare.ranking()) == 0


@pytest.mark.parametrize("name", ["predictions.parquet", "curve.parquet", "region.safetensors", "ranking.safetensors"])
def test_a_cut_file_is_one_sentence(run: Run, name: str) -> None:
    path = run.path / name
    path.write_bytes(path.read_bytes()[:40])
    read = {"predictions": run.predictions, "curve": run.curve, "region": run.region, "ranking": run.ranking}
    with pytest.raises(CorruptRun, match=name):
        read[name.split(".")[0]]()


def test_tables_are_those_of_its_own_task_unless_another_is_named(store: Store) -> None:
    run = fake_run(store, others=("imdb", "yelp"), **SMALL)
    assert run.datasets == ("sst2", "imdb", "yelp")
    assert set(run.predictions()["dataset"]) == set(run.curve()["dataset"]) == {"sst2"}
    assert set(run.predictions("yelp")["split"]) == {"test"} and len(run.predictions("yelp")) == 4 * 40
    ids, labels, logits = run.logits("grafted", "test", "imdb")
    assert len(ids) == len(labels) == len(logits) == 40
    assert not np.array_equal(logits, run.logits("grafted")[2])
    assert run.predictions("nowhere").empty


def test_logits_of_other_labels_are_refused(run: Run) -> None:
    record = run.record.model_copy(update={"task": run.record.task.model_copy(update={"labels": ("a", "b")})})
    with pytest.raises(CorruptRun, match="logit_a"):
        Run(run.path, record).predictions()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"status": "done"}, "status"),
        ({"surprise": 1, "metrics": 3}, "metrics"),
        ({"spec": {}}, "spec"),
        ({"metrics": 3}, "metrics"),
    ],
)
def test_a_record_that_does_not_fit_says_where(run: Run, change: dict[str, object], word: str) -> None:
    path = run.path / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CorruptRun, match=word) as caught:
        read_record(run.path)
    assert "\n" not in str(caught.value)


def test_run_json_has_no_nan_and_reads_back_the_same(made: Run) -> None:
    text = (made.path / "run.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in run.json"))
    assert read_record(made.path) == made.record


@pytest.mark.nightly
def test_reading_runs_does_not_import_torch(made: Run) -> None:
    code = (
        "import sys\n"
        "from skillviz.runs.store import library\n"
        "from skillviz.analysis import run_tables\n"
        "from skillviz.runs import metrics, tables\n"
        f"run = library({str(made.path.parent)!r}).open({made.id!r})\n"
        "run.predictions(), run.region(), run.ranking(), run.layers(), run.headline()\n"
        "heavy = {'torch', 'transformers', 'datasets', 'streamlit'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_stored_ends_of_the_equal_mass_error_are_not_read(run: Run) -> None:
    """Shipped runs have them."""
    written = json.loads((run.path / "run.json").read_text())
    written["metrics"]["test"]["states"]["grafted"]["ece_equal_mass"] |= {"low": 0.0, "high": 0.2, "debiased": 0.1}
    (run.path / "run.json").write_text(json.dumps(with_checksum(written)))
    curve = pd.read_parquet(run.path / "curve.parquet")
    is_equal_mass = curve["metric"] == "ece_equal_mass"
    curve.loc[is_equal_mass, ["low", "high", "debiased"]] = [0.0, 0.2, 0.1]
    curve.to_parquet(run.path / "curve.parquet")
    estimate = read_record(run.path).metrics["test"].states["grafted"]["ece_equal_mass"]
    assert estimate.value is not None and estimate.low is estimate.high is estimate.debiased is None
    read = run.curve()
    rows = read[is_equal_mass]
    assert rows["value"].notna().all() and rows[["low", "high", "debiased"]].isna().all(axis=None)
    assert read[read["metric"] == "ece"][["low", "high", "debiased"]].notna().all(axis=None)

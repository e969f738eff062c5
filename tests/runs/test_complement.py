"""Test that a run stores the complement of the region at each of its sizes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from skillviz.analysis.necessity import without_region
from skillviz.models.predict import predict
from skillviz.runs.metrics import complement_row
from skillviz.runs.produce import produce
from skillviz.runs.session import Session
from skillviz.runs.store import Store
from tests.runs.tiny_world import spec_of


def test_every_size_has_its_complement(world: Path, store: Store) -> None:
    session = Session()
    run = produce(spec_of(world, localizer="movement", sizes=("10%", "50%", "1%")), store, session=session)
    table = run.complement()
    assert "complement.parquet" in run.files and set(table["size"]) == set(run.record.sizes)
    test = table[table["split"] == "test"].set_index(["size", "metric"])["value"]
    main = run.record.metrics["test"].states["complement"]["accuracy"].value
    assert test[run.record.size, "accuracy"] == main
    pair, encoded = session.pair(run.spec), session.encoded(run.spec)["test"]
    for size in run.record.sizes:
        logits = {**session.ends(run.spec)["test"], "complement": predict(pair, encoded, "complement", run.cut(size))}
        row = complement_row(logits, encoded.labels, run.record.task)
        assert test.loc[size].dropna().to_dict() == pytest.approx(
            {name: e.value for name, e in row.items() if e.value is not None}
        )
    pd.testing.assert_frame_equal(without_region(run, "test"), table[table["split"] == "test"])


def test_a_control_whose_rest_is_zero_has_none(world: Path, tmp_path: Path) -> None:
    spec = spec_of(world, localizer="lottery", sizes=("50%",), steps=2, batch_size=16)
    run = produce(spec, Store(tmp_path), session=Session())
    assert "complement.parquet" not in run.files and run.complement().empty

"""Tests of texts that fit no class: a run scores them if its task names a file of them, and nothing else changes."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
import yaml

from skillviz.core.scores import confidence, probabilities
from skillviz.core.separation import auroc, auroc_difference
from skillviz.core.temperature import scaled
from skillviz.errors import BadData, BadInput
from skillviz.models.predict import predict
from skillviz.runs.plan import planned
from skillviz.runs.produce import produce
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.store import Library, Store, library
from skillviz.show import out_of_scope
from skillviz.show.bundle import bundle
from skillviz.show.finding import finding
from skillviz.show.report import sections
from skillviz.show.report.sections import Charts, Heading
from skillviz.tasks.registry import task
from skillviz.tasks.source import OUT_OF_SCOPE
from skillviz.tasks.source import out_of_scope as texts
from tests.runs.tiny_world import spec_of
from tests.tasks.make import write_rows, write_task

ROWS = [{"text": f"how many {word} are there in {n} boxes"} for n in range(20) for word in ("apples", "stars")]


def named(folder: Path, rows: list[dict[str, str]] = ROWS, name: str = "outside.jsonl") -> Path:
    """Return the world's task with a file of such texts, in the same folder."""
    write_rows(folder / name, rows)
    path = folder / "task.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "out_of_scope": name}, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def runs(world: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run, Run]:
    """Return the world, a run without texts that fit no class, and a run with them."""
    folder = tmp_path_factory.mktemp("outside") / "world"
    shutil.copytree(world, folder)
    without = produce(spec_of(folder), Store(folder / "without"))
    named(folder)
    return folder, without, produce(spec_of(folder), Store(folder / "with"))


def test_the_three_models_are_scored_on_them_and_kept_apart(runs: tuple[Path, Run, Run]) -> None:
    folder, without, run = runs
    frame, session, spec = run.out_of_scope(), Session(), spec_of(folder)
    assert frame["state"].unique().tolist() == ["pretrained", "finetuned", "grafted"]
    assert set(run.files) - set(without.files) == {"out_of_scope.parquet"}
    encoded, pair = session.encoded_out_of_scope(spec), session.pair(spec)
    assert encoded is not None and encoded.ids == [f"{OUT_OF_SCOPE}-{n}" for n in range(len(ROWS))]
    for state, region in (("pretrained", None), ("finetuned", None), ("grafted", run.region())):
        rows = frame[frame["state"] == state]
        assert rows["example_id"].tolist() == encoded.ids
        logits = rows[[f"logit_{label}" for label in run.labels]].to_numpy()
        np.testing.assert_array_equal(logits, predict(pair, encoded, state, region))


def test_all_else_is_as_without_them(runs: tuple[Path, Run, Run]) -> None:
    _, without, run = runs
    assert without.out_of_scope().empty and out_of_scope.of_run(without) == {}
    for name in ("predictions", "curve", "complement", "layers"):
        pd.testing.assert_frame_equal(getattr(run, name)(), getattr(without, name)())
    assert run.record.metrics == without.record.metrics
    assert run.record.task == without.record.task, "neither the examples nor the definition has changed"
    assert run.record.notes == without.record.notes


def test_what_is_shown_of_them(runs: tuple[Path, Run, Run]) -> None:
    _, without, run = runs
    sure, frame = out_of_scope.of_run(run), run.out_of_scope()
    labels = [f"logit_{label}" for label in run.labels]
    test = {state: run.logits(state)[2] for state in ("pretrained", "finetuned", "grafted")}
    outside = {state: frame.loc[frame["state"] == state, labels].to_numpy() for state in test}
    if run.record.temperature is not None:
        test["temperature"], outside["temperature"] = (
            scaled(z["finetuned"], run.record.temperature) for z in (test, outside)
        )
    assert set(sure) == set(test)
    top = {name: [confidence(probabilities(z[name])) for z in (test, outside)] for name in test}
    table = out_of_scope.confidence_scores(sure).set_index("state")
    for name, (inside, others) in top.items():
        assert table.loc[name, "auroc"] == pytest.approx(auroc(inside, others).value)
        assert table.loc[name, "confidence_out_of_scope"] == pytest.approx(others.mean())
    verdict, words = out_of_scope.findings(sure)[0]
    less = auroc_difference(*top["grafted"], *top["finetuned"])
    assert f"{100 * abs(less.value):.1f} points" in words and verdict in ("better", "worse", "no clear difference")
    line = next(line for line in finding(run) if line.startswith("Out of scope."))
    assert "AUROC" in line and "40 texts" in line and not any("scope" in line for line in finding(without))
    exhibit = out_of_scope.histogram(sure, "light")
    assert len(exhibit.figure.data) == 2 * len(sure) and "out of scope" in exhibit.alt


def test_report_and_zip_hold_them(runs: tuple[Path, Run, Run]) -> None:
    folder, without, run = runs
    parts = sections.calibration(run).parts
    heading = next(i for i, part in enumerate(parts) if isinstance(part, Heading) and part.text == out_of_scope.TITLE)
    assert isinstance(parts[heading + 3], Charts)
    assert not any(isinstance(p, Heading) and p.text == out_of_scope.TITLE for p in sections.calibration(without).parts)
    for one, store, has in ((run, "with", True), (without, "without", False)):
        file = io.BytesIO()
        bundle([one], Library([Store(folder / store)]), file, reports={}, grafts={})
        names = ZipFile(file).namelist()
        assert (f"runs/{one.id}/out_of_scope.parquet" in names) is has
        assert (f"tables/{one.id}/out_of_scope_scores.csv" in names) is has


def test_no_more_of_them_are_scored_than_of_test_examples(runs: tuple[Path, Run, Run]) -> None:
    folder, *_ = runs
    few = Session().encoded_out_of_scope(spec_of(folder, max_test=7))
    assert few is not None and len(few.ids) == 7


def test_a_file_that_cannot_be_used_is_refused_before_the_run_starts(world: Path, tmp_path: Path) -> None:
    folder = tmp_path / "world"
    shutil.copytree(world, folder)
    path = named(folder)
    assert len(texts(task(path))) == len(ROWS)  # type: ignore[arg-type]
    for rows, name, message in (
        ([{"question": "how many"}], "a.jsonl", "a.jsonl has no column 'text', which task 'tiny' names"),
        ([{"text": "how many"}, {"text": " "}], "b.jsonl", "has no text in the column 'text' of row 2"),
    ):
        named(folder, rows, name)
        with pytest.raises(BadData, match=message):
            planned(spec_of(folder), Session(), library())
    (folder / "b.jsonl").unlink()
    with pytest.raises(BadData, match=r"there is no file .*b.jsonl \(out_of_scope\); correct the path"):
        planned(spec_of(folder), Session(), library())


def test_a_task_without_classes_takes_none(tmp_path: Path) -> None:
    path = write_task(
        tmp_path, reference="label", labels=None, label=None, label_words=None, template={"causal": "{text}"},
        out_of_scope="outside.jsonl",
    )  # fmt: skip
    with pytest.raises(BadInput, match="'out_of_scope' names texts that fit no class"):
        task(path)

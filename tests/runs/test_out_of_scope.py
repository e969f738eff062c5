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
from skillviz.runs.store import Library, Store, library
from skillviz.show import out_of_scope
from skillviz.show.bundle import bundle
from skillviz.show.finding import finding
from skillviz.show.report import sections
from skillviz.show.report.sections import Charts, Heading
from skillviz.tasks.registry import task
from skillviz.tasks.source import OUT_OF_SCOPE
from skillviz.tasks.source import out_of_scope as texts
from tests.runs.tiny_world import Run, Session, spec_of
from tests.tasks.make import write_rows, write_task

ROWS = [{"text": f"how many {word} are there in {n} boxes"} for n in range(20) for word in ("apples", "stars")]


def named(world: Path, folder: Path, name: str = "outside.jsonl", rows: list[dict[str, str]] | None = None) -> Path:
    """Copy the world to a folder, with a task that names a file of such texts; return the folder."""
    shutil.copytree(world, folder, dirs_exist_ok=True)
    if rows is not None:
        write_rows(folder / name, rows)
    told = yaml.safe_load((folder / "task.yaml").read_text())
    (folder / "task.yaml").write_text(yaml.safe_dump({**told, "out_of_scope": name}, sort_keys=False))
    return folder


@pytest.fixture(scope="module")
def folder(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return named(world, tmp_path_factory.mktemp("outside"), rows=ROWS)


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return produce(spec_of(folder), Store(tmp_path_factory.mktemp("with")))


@pytest.fixture(scope="module")
def without(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return produce(spec_of(world), Store(tmp_path_factory.mktemp("without")))


def logits_of(run: Run) -> dict[str, np.ndarray]:
    labels = [f"logit_{label}" for label in run.labels]
    return {state: rows[labels].to_numpy() for state, rows in run.out_of_scope().groupby("state", sort=False)}


def test_the_three_models_are_scored_on_them_and_kept_apart(folder: Path, run: Run, without: Run) -> None:
    session, spec = Session(), spec_of(folder)
    encoded, pair = session.encoded_out_of_scope(spec), session.pair(spec)
    assert encoded.ids == [f"{OUT_OF_SCOPE}-{n}" for n in range(len(ROWS))]
    assert run.out_of_scope()["example_id"].tolist() == encoded.ids * 3
    found = logits_of(run)
    assert list(found) == ["pretrained", "finetuned", "grafted"]
    for state, logits in found.items():
        inside = run.region() if state == "grafted" else None
        np.testing.assert_array_equal(logits, predict(pair, encoded, state, inside))
    assert set(run.files) - set(without.files) == {"out_of_scope.parquet"}


def test_all_else_is_as_without_them(run: Run, without: Run) -> None:
    assert without.out_of_scope().empty and out_of_scope.of_run(without) == {}
    for name in ("predictions", "curve", "complement", "layers"):
        pd.testing.assert_frame_equal(getattr(run, name)(), getattr(without, name)())
    assert run.record.task == without.record.task, "neither the examples nor the definition has changed"
    assert (run.record.metrics, run.record.notes) == (without.record.metrics, without.record.notes)


def test_what_is_shown_of_them(run: Run, without: Run) -> None:
    sure, outside = out_of_scope.of_run(run), logits_of(run)
    test = {state: run.logits(state)[2] for state in outside}
    if run.record.temperature is not None:
        test["temperature"], outside["temperature"] = (
            scaled(z["finetuned"], run.record.temperature) for z in (test, outside)
        )
    assert set(sure) == set(test)
    top = {name: [confidence(probabilities(z[name])) for z in (test, outside)] for name in test}
    table = out_of_scope.confidence_scores(sure).set_index("state")
    for name, (inside, others) in top.items():
        found = tuple(table.loc[name, ["auroc", "confidence_out_of_scope"]])
        assert found == pytest.approx((auroc(inside, others).value, others.mean())), name
    verdict, words = out_of_scope.findings(sure)[0]
    less = auroc_difference(*top["grafted"], *top["finetuned"])
    assert f"{100 * abs(less.value):.1f} points" in words and verdict in ("better", "worse", "no clear difference")
    (line,) = (line for line in finding(run) if line.startswith("Out of scope."))
    assert "AUROC" in line and "40 texts" in line and "scope" not in "".join(finding(without))
    exhibit = out_of_scope.histogram(sure, "light")
    assert len(exhibit.figure.data) == 2 * len(sure) and "out of scope" in exhibit.alt


def test_report_and_zip_hold_them(run: Run, without: Run) -> None:
    for one, has in ((run, True), (without, False)):
        parts, file = sections.calibration(one).parts, io.BytesIO()
        headings = [i for i, part in enumerate(parts) if isinstance(part, Heading) and part.text == out_of_scope.TITLE]
        assert [isinstance(parts[i + 3], Charts) for i in headings] == [True] * has
        bundle([one], Library([Store(one.root)]), file, reports={}, grafts={})
        names = {f"runs/{one.id}/out_of_scope.parquet", f"tables/{one.id}/out_of_scope_scores.csv"}
        assert names & set(ZipFile(file).namelist()) == (names if has else set())


def test_no_more_of_them_are_scored_than_of_test_examples(folder: Path) -> None:
    few = Session().encoded_out_of_scope(spec_of(folder, max_test=7))
    assert few is not None and len(few.ids) == 7


def test_a_file_with_every_text_is_read(folder: Path) -> None:
    assert len(texts(task(folder / "task.yaml"))) == len(ROWS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"question": "how many"}], "x.jsonl has no column 'text', which task 'tiny' names"),
        ([{"text": "how many"}, {"text": " "}], "has no text in the column 'text' of row 2"),
        (None, r"there is no file .*x.jsonl \(out_of_scope\); correct the path"),
    ],
    ids=["no column", "no text", "no file"],
)
def test_a_file_that_cannot_be_used_is_refused_before_the_run_starts(
    world: Path, tmp_path: Path, rows: list[dict[str, str]] | None, message: str
) -> None:
    own = named(world, tmp_path / "world", "x.jsonl", rows)
    with pytest.raises(BadData, match=message):
        planned(spec_of(own), Session(), library())


def test_a_task_without_classes_takes_none(tmp_path: Path) -> None:
    path = write_task(
        tmp_path, reference="label", labels=None, label=None, label_words=None, template={"causal": "{text}"},
        out_of_scope="outside.jsonl",
    )  # fmt: skip
    with pytest.raises(BadInput, match="'out_of_scope' names texts that fit no class"):
        task(path)

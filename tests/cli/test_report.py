"""Tests of what commands tell of one run: `report`, `slices`, `parts` and `regions`."""

from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest

import skillviz
from skillviz.analysis.slices import LEAST
from skillviz.errors import BadInput
from skillviz.runs.run import Run
from skillviz.runs.store import PARTS, Store
from tests.cli.calls import call, done, refused, sentence
from tests.fake_run import fake_run
from tests.runs.test_texts import run_of, with_columns
from tests.show.reading import read
from tests.tiers import first
from tests.tiny import tiny_task
from tests.ui.shared_store import SMALL


@pytest.fixture
def run(user_runs: Path) -> Run:
    return fake_run(Store(user_runs), sizes=("1%",), **SMALL)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "report.html"


@pytest.mark.slow
def test_it_writes_the_run_as_one_file(run: Run, out: Path) -> None:
    told = done("report", run.id[:-3], "-o", out, "--json").json
    assert told == {"path": str(out), "run_id": run.id, "bytes": out.stat().st_size}
    assert run.id in read(out.read_bytes()).text and not list(out.parent.glob("*.part"))


@pytest.mark.slow
def test_a_folder_of_a_run_elsewhere_will_do(out: Path) -> None:
    store = Store(out.parent / "elsewhere")
    run, _ = (fake_run(store, localizer=name, sizes=("1%",), **SMALL) for name in ("stagewise", "random"))
    done("report", run.path, "-o", out)
    assert "2 runs of this pair" in read(out.read_bytes()).text


@pytest.mark.slow
def test_a_file_that_is_there_is_kept_unless_asked(run: Run, out: Path) -> None:
    out.write_text("mine")
    refused(call("report", run.id, "-o", out), "--overwrite")
    assert out.read_text() == "mine"
    done("report", run.id, "-o", out, "--force")
    assert out.stat().st_size > 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no-such-run", ""])
def test_an_unknown_run_is_a_sentence(name: str, run: Run, out: Path) -> None:
    sentence(call("report", name, "-o", out), "RunNotFound: ")
    assert not out.exists()


@pytest.mark.slow
def test_a_folder_that_is_not_there_is_a_sentence(run: Run, tmp_path: Path) -> None:
    refused(call("report", run.id, "-o", tmp_path / "gone" / "report.html"), "folder that exists")
    refused(call("report", run.id, "-o", tmp_path, "--overwrite"))


@pytest.mark.slow
def test_a_broken_run_leaves_no_file(run: Run, tmp_path: Path) -> None:
    path = run.path / "layers.parquet"
    path.write_bytes(b"x" * path.stat().st_size)
    refused(call("report", run.id, "-o", tmp_path / "report.html"), "layers.parquet")
    assert not list(tmp_path.glob("*report*"))


@pytest.mark.slow
def test_what_fails_half_way_leaves_the_old_file(run: Run, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out.write_text("mine")
    monkeypatch.setattr(Path, "write_bytes", Mock(side_effect=OSError(28, "No space left")))
    refused(call("report", run.id, "-o", out, "--overwrite"))
    assert out.read_text() == "mine"


@pytest.fixture
def sliced(tmp_path: Path, user_runs: Path) -> Run:
    """Make a run whose task's data are available, with extra columns."""
    task = tiny_task(tmp_path / "task", rows=128)
    with_columns(tmp_path / "task", source=lambda n: "web" if n % 3 else "book")
    made = run_of(task, user_runs, n={"validation": 64, "test": 64})
    (made.path / "run.json").write_text(made.record.model_dump_json())
    return made


def test_all_columns_and_some(sliced: Run, tmp_path: Path) -> None:
    said, csv = done("slices", sliced.id, "--json"), tmp_path / "slices.csv"
    rows = said.json["slices"]
    assert {row["column"] for row in rows} == {"class", "words", "source"}
    assert "The graft is " in said.out and "comparisons" not in said.out and "true class" in said.out
    ranks = [(row["n"] < LEAST["accuracy"], row["value"]) for row in rows]
    assert ranks == sorted(ranks)
    assert {
        row["name"] for row in call("slices", sliced.id, "--by", "source", "--metric", "nll", "--json").json["slices"]
    } == {"web", "book"}
    call("slices", sliced.id, "--out", csv)
    assert list(pd.read_csv(csv)["value"]) == pytest.approx([value for _, value in ranks])


def test_without_the_data_it_is_by_class(user_runs: Path) -> None:
    made = fake_run(Store(user_runs), task="nowhere.yaml", sizes=("1%",), **SMALL)
    said = done("slices", made.id, "--json")
    assert "By class only:" in said.err and {row["column"] for row in said.json["slices"]} == {"class"}
    refused(call("slices", made.id, "--by", "words"), "nowhere.yaml")


def test_wrong_names(sliced: Run) -> None:
    refused(
        call("slices", sliced.id, "--by", "colour"), "'colour' is not a column with slices; known: class, words, source"
    )
    refused(call("slices", sliced.id, "--metric", "ece"), "known: accuracy, nll")


@pytest.mark.slow
@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("by", first(["cells", "heads", "rows"], "cells".__eq__))
def test_parts_are_scored_and_stored_beside_the_run(store: tuple[Path, str], tmp_path: Path, by: str) -> None:
    root, run = store
    words, csv, html = ("parts", run, "--by", by), tmp_path / "parts.csv", tmp_path / "run.html"
    said = done(*words, "--sample", "8", "--draws", "1", "--json")
    assert "forward passes over at most 8 examples" in said.out and "At most about " in said.out
    told = said.json
    assert (told["n"], told["grouping"], told["subskills"], len(told["effects"])) == (8, by, None, 2 * told["parts"])
    assert told["parts"] > 1 and (root / PARTS / run / by / "parts.parquet").is_file() and Store(root).verify(run) == []
    again = call(*words, "--sample", "8", "--draws", "1", "--json")
    assert "forward passes" not in again.out and again.json["effects"] == told["effects"]
    more = (*words, "--sample", "9", "--draws", "2")
    other = call(*more, "--json").json
    groups, effects = other["subskills"], other["effects"]
    numbers = {row["subskill"] for row in groups if row["metric"] == "share"}
    assert other["n"] == 9 and {row["subskill"] for row in effects} - {None} <= numbers
    assert [row for row in groups[2:] if row["low"] is None] == []
    call(*more, "--out", csv)
    rows = pd.read_csv(csv)
    is_group = rows["condition"] == "sub-skills"
    assert (is_group.sum(), (~is_group).sum()) == (len(groups), 2 * len(effects))
    assert set(rows["metric"][~is_group]) == {"accuracy", "nll"}
    call("report", run, "--out", html)
    text = html.read_text(encoding="utf-8")
    assert f"What each {by.removesuffix('s')} of the region does" in text and "Slice by slice" in text


@pytest.mark.slow
def test_a_wrong_division_is_named(store: tuple[Path, str]) -> None:
    refused(call("parts", store[1], "--by", "columns"), "'cells', 'heads'")


@pytest.mark.slow
def test_localize_scores_them_right_away(members, tmp_path: Path) -> None:
    words = ("localize", *members, "--size", "5%", "--method", "movement", "--parts", "--runs-dir", tmp_path)
    refused(call(*words, "--detach"), "leave out --detach")
    said = done(*words, "--device", "cpu", "--json")
    assert "forward passes" in said.out and (tmp_path / PARTS / said.json["run_id"] / "cells").is_dir()


@pytest.mark.slow
def test_each_kind_is_stored_and_printed_with_what_it_comes_to(store: tuple[Path, str], tmp_path: Path) -> None:
    (root, run), csv = store, tmp_path / "regions.csv"
    assert "No other region is stored" in call("regions", run).out
    for kind in ("minimal", "adversarial"):
        said = done("regions", run, "--find", kind, "--draws", 2, "--sample", 8, "--json")
    rows = said.json["regions"]
    assert said.json["n"] == 8 and {row["kind"] for row in rows} == {"own", "minimal", "adversarial"}
    assert "of the region suffices" in said.out and "hurt most change" in said.out
    assert (root / PARTS / run / "regions" / "regions.safetensors").is_file() and Store(root).verify(run) == []
    assert call("regions", run, "--out", csv, "--json").json["regions"] == rows and len(pd.read_csv(csv)) == len(rows)
    refused(call("regions", run, "--find", "nearby"))


@pytest.mark.slow
def test_python_has_the_same_table(store: tuple[Path, str]) -> None:
    run, told = skillviz.open_run(store[1]), list[str]()
    with pytest.raises(BadInput, match="no other region of run .* is stored; find some"):
        skillviz.regions(run)
    found = skillviz.regions(run.id, "adversarial", sample=8, told=told.append)
    assert told and skillviz.regions(run).equals(found) and found["kind"].tolist() == ["own", "adversarial"] * 2

"""Tests of a run outside of the dashboard: in one zip (its manifest is right to the byte, and the unzipped folder is a
store that opens) and in a notebook (the pages' figures by name, and a card that escapes untrusted markup)."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pandas as pd
import pytest

import skillviz
from skillviz.errors import BadInput, CorruptRun
from skillviz.plots.region import cells
from skillviz.plots.restyle import with_dark_marks
from skillviz.runs.run import RECORD, Run
from skillviz.runs.store import Library, Store
from skillviz.show import region as region_exhibits
from skillviz.show.bundle import MANIFEST, README, bundle, stored_bytes
from skillviz.show.notebook import PAGES, Plots
from tests.fake_run import fake_run
from tests.show.reading import read
from tests.tables import check
from tests.ui.shared_store import SMALL

Made = tuple[Path, dict[str, str]]


def zipped(root: Path, *names: str, reports: bool = False, grafts: dict[str, Path] | None = None) -> ZipFile:
    store, made = Store(root), io.BytesIO()
    makes = {name: name.encode for name in names} if reports else {}
    bundle([store.open(name) for name in names], Library([store]), made, reports=makes, grafts=grafts or {})
    return ZipFile(made)


@pytest.mark.slow
def test_the_manifest_vouches_for_every_file(made: Made) -> None:
    root, ids = made
    names = [ids["stagewise0"], ids["random"]]
    archive = zipped(root, *names, reports=True)
    manifest = json.loads(archive.read(MANIFEST))
    contents = {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}
    files = {name: {"sha256": hashlib.sha256(one).hexdigest(), "bytes": len(one)} for name, one in contents.items()}
    assert (manifest["runs"], manifest["files"], archive.testzip()) == (names, files, None)


@pytest.mark.slow
def test_unzipped_it_is_a_store_whose_runs_verify(made: Made, tmp_path: Path) -> None:
    root, ids = made
    zipped(root, *ids.values()).extractall(tmp_path)
    copy = Store(tmp_path / "runs")
    assert {run.id for run in copy.list()} == set(ids.values())
    for name in ids.values():
        assert (copy.verify(name), copy.open(name).record) == ([], Store(root).open(name).record)


@pytest.mark.slow
def test_tables_read_back_as_they_are_stored(made: Made) -> None:
    root, ids = made
    run, archive = Store(root).open(ids["stagewise0"]), zipped(root, ids["stagewise0"])

    def stored(name: str) -> pd.DataFrame:
        return pd.read_csv(io.BytesIO(archive.read(f"tables/{run.id}/{name}.csv")))

    for name in ("scores", "predictions", "curve", "history", "layers", "interpolation"):
        read, own = stored(name), getattr(run, name)()
        assert list(read) == list(own) and len(read) == len(own) > 0, name
        numbers = list(own.select_dtypes("float64"))
        pd.testing.assert_frame_equal(read[numbers], own[numbers].reset_index(drop=True), check_exact=True)
    assert len(stored("predictions-imdb")) == len(run.predictions("imdb")) > 0
    assert f"tables/{ids['random']}/interpolation.csv" not in zipped(root, ids["random"]).namelist(), "it has no rows"


def test_what_is_not_in_it_is_named_with_the_command_that_makes_it(made: Made) -> None:
    archive = zipped(made[0], run_id := made[1]["stagewise0"])
    commands = {row["what"]: row["command"] for row in json.loads(archive.read(MANIFEST))["not_included"]}
    assert set(commands) == {"graft", "report"}
    assert commands["graft"].startswith(f"python -m skillviz export {run_id}")
    readme = archive.read(README).decode()
    for command in commands.values():
        assert command.endswith(" --runs-dir runs") and command in readme, "the run may be in the zip alone"


def test_reports_and_grafts_that_are_given_are_in_it(made: Made, tmp_path: Path) -> None:
    root, run_id, graft = made[0], made[1]["movement"], tmp_path / "graft"
    graft.write_bytes(b"values")
    archive = zipped(root, run_id, reports=True, grafts={run_id: graft})
    given = archive.read(f"reports/{run_id}.html"), archive.read(f"grafts/{run_id}.safetensors")
    assert (given, json.loads(archive.read(MANIFEST))["not_included"]) == ((run_id.encode(), b"values"), [])
    assert "Nothing is missing" in archive.read(README).decode()


def test_a_changed_file_is_refused(made: Made, tmp_path: Path) -> None:
    run_id = made[1]["movement"]
    file = shutil.copytree(made[0] / run_id, tmp_path / run_id) / "curve.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(CorruptRun, match=rf": runs/{run_id}/curve.parquet was changed: its SHA-256 .*`runs verify`"):
        zipped(tmp_path, run_id)


def test_the_bytes_are_those_of_the_stored_files(made: Made) -> None:
    run = Store(made[0]).open(made[1]["movement"])
    assert (stored_bytes([run]), stored_bytes([])) == (sum((run.path / name).stat().st_size for name in run.files), 0)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Run:
    store = Store(tmp_path_factory.mktemp("runs"))
    fake_run(store, localizer="random", sizes=("1%", "10%"), **SMALL)
    return fake_run(store, sizes=("1%", "10%"), interpolation=True, others=("imdb",), **SMALL)


@pytest.fixture
def run(stored: Run) -> skillviz.Run:
    return skillviz.open_run(str(stored.path))


@pytest.mark.nightly
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", ["density", "movement"])
def test_a_page_gives_the_figure_of_the_page(run: skillviz.Run, theme: str, view: str) -> None:
    layers = run.layers()
    exhibit = region_exhibits.region_map(layers, view, region_exhibits.fullest_cells(cells(layers))[0], theme)
    drawn = run.plot.region(exhibit.name, theme)
    assert json.loads(drawn.to_json()) == json.loads(with_dark_marks(exhibit.figure).to_json())


@pytest.mark.nightly
def test_every_name_that_is_listed_gives_a_figure(run: skillviz.Run) -> None:
    names = run.plot.names()
    drawn = {name: getattr(run.plot, name.partition(".")[0])(name.partition(".")[2]) for name in names}
    assert len(drawn) == len(names) and {name.partition(".")[0] for name in names} == set(PAGES)
    assert [name for name, figure in drawn.items() if not len(figure.data)] == []
    for page in PAGES:
        first = next(name for name in names if name.startswith(f"{page}."))
        assert getattr(run.plot, page)().to_json() == drawn[first].to_json()


def test_the_methods_are_the_pages() -> None:
    assert {name for name in vars(Plots) if not name.startswith("_")} - {"names"} == set(PAGES)


@pytest.mark.slow
def test_runs_of_the_pair_stand_beside_it(run: skillviz.Run) -> None:
    names = " ".join(str(trace.name) for trace in run.plot.sparsity().data)
    assert "random" in names and "stagewise" in names


def test_a_changed_figure_leaves_the_next_one_alone(run: skillviz.Run) -> None:
    run.plot.region().update_layout(title="mine")
    assert run.plot.region().layout.title.text is None


@pytest.mark.parametrize(
    ("page", "options", "error", "words"),
    [
        ("region", {"name": "nothing"}, BadInput, r"'nothing' is not a figure of plot.region; known: .*movement"),
        ("transfer", {}, BadInput, "stored nothing that plot.transfer draws"),
        ("region", {"theme": "blue"}, ValueError, "theme 'blue'"),
    ],
    ids=["name", "page", "theme"],
)
def test_a_name_that_is_not_there_is_a_sentence(
    page: str, options: dict[str, str], error: type[Exception], words: str, alone: Run
) -> None:
    with pytest.raises(error, match=words):
        getattr(skillviz.open_run(str(alone.path)).plot, page)(**options)


def test_the_card_has_name_finding_and_scores(run: skillviz.Run) -> None:
    words = (run.id, "stagewise", "of the graftable parameters", "grafted", "ECE", "120 examples of the test set")
    check(read(run._repr_html_().encode()).text, words)


@pytest.fixture
def alone(tmp_path: Path) -> Run:
    return fake_run(Store(tmp_path), sizes=("1%",), **SMALL)


def card_of(run: Run, change: Callable[[dict], object]) -> str:
    """Return the card of the run after a change of its record."""
    record = json.loads((run.path / RECORD).read_text())
    change(record)
    (run.path / RECORD).write_text(json.dumps(record))
    return skillviz.open_run(str(run.path))._repr_html_()


def test_a_strangers_name_is_text(alone: Run) -> None:
    card = card_of(alone, lambda record: record["task"].update(name="<img src=x onerror=alert(1)>"))
    assert "<img" not in card and "&lt;img" in card


def test_a_run_without_scores_has_a_card_too(alone: Run) -> None:
    assert "stored no scores" in card_of(alone, lambda record: record.update(metrics={}))

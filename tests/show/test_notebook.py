"""Tests of a run in a notebook: the pages' figures by name, and a card that escapes untrusted markup."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import skillviz
from skillviz.errors import BadInput
from skillviz.plots.region import cells
from skillviz.plots.restyle import with_dark_marks
from skillviz.runs.run import RECORD, Run
from skillviz.runs.store import Store
from skillviz.show import region as region_exhibits
from skillviz.show.notebook import PAGES, Plots
from tests.fake_run import fake_run
from tests.show.reading import read
from tests.tables import check
from tests.ui.shared_store import SMALL


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

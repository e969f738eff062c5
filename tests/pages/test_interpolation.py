"""Tests of the interpolation page: the slider over the stored grid, exact points by a real worker, and missing data."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.core.metrics import panels
from skillviz.runs.store import Store
from tests.live.conftest import lived, own_workers
from tests.pages.scored_world import asked, scored, scored_world
from tests.pages.test_pages import charts, opened, words


def numbers(test: AppTest) -> list[str]:
    """Return the values of the chosen points, in the order of the page."""
    return [metric.value for metric in test.metric]


def sources(test: AppTest) -> list[str]:
    """Return the captions that give the source of the chosen points' numbers."""
    starts = ("Stored", "Nearest", "Computed", "Traced")
    return [c.value.replace("\N{NO-BREAK SPACE}", " ") for c in test.caption if c.value.startswith(starts)]


def test_the_numbers_follow_the_slider_from_the_stored_grid(ids: dict[str, str]) -> None:
    test = opened("interpolation", run=ids["stagewise0"])
    assert not test.exception and len(charts(test)) == 5 and "alpha" not in test.query_params
    before, titles = numbers(test), [s.split(":")[0] for s in sources(test)]
    a_dataset = 2 * len(panels("accuracy"))  # both paths
    assert len(before) == 2 * a_dataset and titles == ["Stored"] * 4
    test.select_slider(key="control.alpha").set_value(10).run()
    assert numbers(test) != before and test.query_params["alpha"] == "10"
    grid = Store(Path(os.environ["SKILLVIZ_RUNS"])).open(ids["stagewise0"]).interpolation()
    is_at = (grid["path"] == "wise-ft") & (grid["alpha"] == 0.1) & (grid["metric"] == "accuracy")
    wanted = grid[is_at].set_index("dataset")["value"]
    shown = [value.replace("\N{NO-BREAK SPACE}", " ") for value in numbers(test)]
    assert shown[0] == f"{100 * wanted['sst2']:.1f}%" and shown[a_dataset] == f"{100 * wanted['imdb']:.1f}%"


def test_the_slider_stops_at_stored_points_alone(ids: dict[str, str]) -> None:
    test = opened("interpolation", run=ids["stagewise0"], alpha="33", cut="656", metric="ece")
    assert not test.exception and len(test.warning) == 0
    assert test.select_slider(key="control.alpha").options == [str(percent) for percent in range(0, 101, 10)]
    assert "alpha" not in test.query_params, "33 is no stored point"
    assert sources(test)[0] == "Stored: at α = 50% of WiSE-FT."
    assert sources(test)[1].startswith("Stored: at α = 50% of WiSE-Graft (region of")
    assert json.loads(charts(test)[0].proto.spec)["layout"]["yaxis"]["title"]["text"].startswith(
        "debiased ECE on<br>SST-2"
    )
    again = opened("interpolation", **{key: value[0] if isinstance(value, list) else value
                                       for key, value in test.query_params.items()})  # fmt: skip
    assert numbers(again) == numbers(test), "a copied link shows the same"


def test_without_weights_an_exact_point_has_no_figure_and_a_way_back(ids: dict[str, str]) -> None:
    test = opened("interpolation", run=ids["stagewise0"], alpha="33", exact="yes")
    assert not test.exception and len(test.warning) == 1 and not charts(test)
    assert "demo/tiny-base" in words(test)
    assert not sources(test) and not numbers(test)
    next(b for b in test.button if b.label == "Show the stored points").click().run()
    assert not test.warning and len(charts(test)) == 5 and "exact" not in test.query_params
    on_grid = opened("interpolation", run=ids["stagewise0"], alpha="30", exact="yes")
    assert not on_grid.warning and {s.split(":")[0] for s in sources(on_grid)} == {"Stored"}, "nothing had to be asked"
    without = opened("interpolation", run=ids["paraphrase"], alpha="33", exact="yes")
    assert not without.exception and not charts(without) and len(without.warning) == 1
    assert any("--interpolation" in code.value for code in without.code)


def test_a_run_without_a_path_has_one_card_with_one_button_and_no_number(ids: dict[str, str]) -> None:
    test = opened("interpolation", run=ids["paraphrase"], alpha="100")
    assert not test.exception and "No points between the models on MRPC yet" in words(test)
    assert not charts(test) and not numbers(test) and not test.slider and not test.select_slider
    assert any("--interpolation --also TASK" in code.value for code in test.code)
    next(b for b in test.button if b.label == "Score the paths").click().run()
    assert len(test.warning) == 1 and "demo/tiny-base" in words(test) and not numbers(test)
    assert test.query_params["trace"] == "yes"


@pytest.mark.nightly
@pytest.mark.usefixtures("own_workers")
def test_exact_points_are_asked_of_the_models(scored: str, scored_world: Path) -> None:
    """Request a point off the grid, at a size between, on both data sets; then another task that is not stored."""
    test = asked("interpolation", run=scored, alpha="35", cut="222", exact="yes")
    assert not test.exception and not test.warning, [w.value for w in test.warning]
    assert {s.split(":")[0] for s in sources(test)} == {"Computed live"} and len(sources(test)) == 4
    exact = numbers(test)
    test.slider[0].set_value(40).run()
    assert {s.split(":")[0] for s in sources(test)} == {"Stored"} and numbers(test) != exact
    live = asked("interpolation", run=scored, alpha="35", cut="222", exact="yes", ood="far")
    assert not live.exception and not live.warning and len(sources(live)) == 4
    assert numbers(live)[:6] == exact[:6], "in distribution it is the same point"
    traced = asked("interpolation", run=scored, alpha="40", ood="far", trace="yes")
    assert not traced.exception and not traced.warning and len(sources(traced)) == 4
    assert [s.split(":")[0] for s in sources(traced)] == ["Stored"] * 2 + ["Traced on 40 examples"] * 2
    assert "No points between" not in words(traced), "what was scored is not missing"
    assert "Both paths computed live on 40 examples of far; not stored with the run." in words(traced)
    whole = asked("interpolation", run=scored, alpha="40", ood="far", trace="yes", exact="yes")
    assert [s.split(":")[0] for s in sources(whole)] == ["Stored"] * 2 + ["Computed live"] * 2, "on all of them"

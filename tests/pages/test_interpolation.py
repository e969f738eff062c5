"""Tests of the pages of paths and of other tasks: the slider over the stored grid, exact points and other tasks by a
real worker, labels that are mapped by hand, and missing data."""

import os
from pathlib import Path

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from skillviz.core.metrics import panels
from skillviz.runs.store import Store
from tests.ui.driven import box, charts, figures, filled, labels, lacks, link, opened, pressed, said
from tests.visitor import confirmed


def numbers(test: AppTest) -> list[str]:
    """Return the values of the chosen points, in the order of the page."""
    return said(test, "metric").splitlines()


def sources(test: AppTest) -> list[str]:
    """Return the captions that give the source of the chosen points' numbers."""
    return [line for line in said(test, "caption").splitlines()
            if line.startswith(("Stored", "Nearest", "Computed", "Traced"))]  # fmt: skip


def kinds(test: AppTest) -> list[str]:
    return [source.split(":")[0] for source in sources(test)]


def test_the_numbers_follow_the_slider_from_the_stored_grid(ids: dict[str, str]) -> None:
    test = opened("interpolation", run=ids["stagewise0"])
    before, a_dataset = numbers(test), 2 * len(panels("accuracy"))  # both paths
    assert len(before) == 2 * a_dataset and kinds(test) == ["Stored"] * 4
    assert len(charts(test)) == 5 and "alpha" not in test.query_params
    test.select_slider(key="control.alpha").set_value(10).run()
    grid = Store(Path(os.environ["SKILLVIZ_RUNS"])).open(ids["stagewise0"]).interpolation()
    is_at = (grid["path"] == "wise-ft") & (grid["alpha"] == 0.1) & (grid["metric"] == "accuracy")
    wanted = grid[is_at].set_index("dataset")["value"]
    shown = numbers(test)
    assert [shown[0], shown[a_dataset]] == [f"{100 * wanted[name]:.1f}%" for name in ("sst2", "imdb")]
    assert shown != before and test.query_params["alpha"] == "10"


def test_the_slider_stops_at_stored_points_alone(ids: dict[str, str]) -> None:
    test = opened("interpolation", run=ids["stagewise0"], alpha="33", cut="656", metric="ece")
    assert test.select_slider(key="control.alpha").options == [str(percent) for percent in range(0, 101, 10)]
    assert "alpha" not in test.query_params and not said(test, "warning"), "33 is no stored point"
    of_ft, of_graft, *_ = sources(test)
    assert of_ft == "Stored: at α = 50% of WiSE-FT."
    assert of_graft.startswith("Stored: at α = 50% of WiSE-Graft (region of")
    assert figures(test)[0]["layout"]["yaxis"]["title"]["text"].startswith("debiased ECE on<br>SST-2")
    assert numbers(opened("interpolation", **link(test))) == numbers(test), "a copied link shows the same"


def test_without_weights_an_exact_point_has_no_figure_and_a_way_back(ids: dict[str, str]) -> None:
    test = opened("interpolation", run=ids["stagewise0"], alpha="33", exact="yes")
    assert "demo/tiny-base" in said(test) and len(test.warning) == 1
    assert not charts(test) and not sources(test) and not numbers(test)
    pressed(test, "Show the stored points")
    assert len(charts(test)) == 5 and "exact" not in test.query_params and not said(test, "warning")
    on_grid = opened("interpolation", run=ids["stagewise0"], alpha="30", exact="yes")
    assert {*kinds(on_grid)} == {"Stored"} and not said(on_grid, "warning"), "nothing had to be asked"
    without = opened("interpolation", run=ids["paraphrase"], alpha="33", exact="yes")
    assert "--interpolation" in said(without, "code") and len(without.warning) == 1 and not charts(without)


def test_a_run_without_a_path_has_one_card_with_one_button_and_no_number(ids: dict[str, str]) -> None:
    test = opened("interpolation", run=ids["paraphrase"], alpha="100")
    assert not lacks(said(test), "No points between the models on MRPC yet", "--interpolation --also TASK")
    assert not [*charts(test), *numbers(test), *test.slider, *test.select_slider]
    assert "demo/tiny-base" in said(pressed(test, "Score the paths")) and len(test.warning) == 1 and not numbers(test)
    assert test.query_params["trace"] == "yes"


@pytest.mark.nightly
def test_exact_points_are_asked_of_the_models(scored: str) -> None:
    """Request a point off the grid, at a size between, on both data sets; then another task that is not stored."""
    test = opened("interpolation", run=scored, alpha="35", cut="222", exact="yes")
    assert kinds(test) == ["Computed live"] * 4 and not said(test, "warning")
    exact = numbers(test)
    assert {*kinds(test.slider[0].set_value(40).run())} == {"Stored"} and numbers(test) != exact
    live = opened("interpolation", run=scored, alpha="35", cut="222", exact="yes", ood="far")
    assert len(sources(live)) == 4 and not said(live, "warning")
    assert numbers(live)[:6] == exact[:6], "in distribution it is the same point"
    traced = opened("interpolation", run=scored, alpha="40", ood="far", trace="yes")
    assert kinds(traced) == [*["Stored"] * 2, *["Traced on 40 examples"] * 2] and not said(traced, "warning")
    assert "No points between" not in said(traced), "what was scored is not missing"
    assert "Both paths computed live on 40 examples of far; not stored with the run." in said(traced)
    whole = opened("interpolation", run=scored, alpha="40", ood="far", trace="yes", exact="yes")
    assert kinds(whole) == [*["Stored"] * 2, *["Computed live"] * 2], "on all of them"


def bands(test: AppTest) -> list[str]:
    return figures(test)[0]["layout"]["yaxis"]["ticktext"]


@pytest.mark.nightly
def test_another_task_is_asked_of_the_models(scored: str, scored_world: Path) -> None:
    offered = box(opened("transfer", run=scored), "Score another task now").options
    assert offered[0] == "far" and not [name for name in offered if name.startswith("near")]
    live = opened("transfer", run=scored, also=scored_world / "far.yaml")
    assert bands(live) == ["tiny", "near"], "nothing is computed on opening"
    pressed(live, "Score this task")
    assert not lacks(said(live), "Computed live on far", "**40 examples** scored", "2 comparisons")
    assert bands(live) == ["tiny", "near", "far"] and not said(live, "warning")


@pytest.mark.nightly
def test_labels_of_other_names_are_mapped_by_the_reader(scored: str, scored_world: Path, tmp_path: Path) -> None:
    told = yaml.safe_load((scored_world / "far.yaml").read_text())
    data = {split: str(scored_world / file) for split, file in told["data"].items()}
    other = tmp_path / "strange.yaml"
    other.write_text(yaml.safe_dump({**told, "name": "strange", "labels": ["bad", "good"], "data": data}))
    test = confirmed(opened("transfer", run=scored, also=other))
    assert "Choose above which label" in said(test, "info") and bands(test) == ["tiny", "near"]
    pressed(filled(test, "good", "class-great"), "Score this task")
    assert bands(test) == ["tiny", "near", "strange"] and test.query_params["map.strange.good"] == "class-great"
    assert "20 skipped (label not mapped)" in said(test)

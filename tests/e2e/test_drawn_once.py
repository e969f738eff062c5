"""Test that Plotly.js is loaded once and draws each figure of a first visit once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import PATIENCE, settle

pytestmark = pytest.mark.e2e

# Count the full drawings of a figure: the first one, and every later one that is not skipped.
COUNT = """
window.drawings = new Map();
let Plotly;
Object.defineProperty(window, 'Plotly', {configurable: true, get: () => Plotly, set: given => {
  Plotly = given;
  const react = given.react;
  given.react = function (plot, ...rest) {
    const isFirst = !plot.on, done = react.call(this, plot, ...rest);
    if (isFirst) {
      window.drawings.set(plot, 1);
      plot.on('plotly_beforeplot', () => { window.drawings.set(plot, window.drawings.get(plot) + 1); });
    }
    return done;
  };
}});
"""
DRAWINGS = "() => [...window.drawings.values()]"


@pytest.mark.nightly
def test_each_figure_is_drawn_once(made: tuple[Path, dict[str, str]], address: str, browser: Any) -> None:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    page.add_init_script(COUNT)
    bundles: list[str] = []
    page.on("request", lambda request: bundles.extend([request.url] if "PlotlyChart" in request.url else []))
    page.goto(f"{address}/sparsity?run={made[1]['stagewise0']}")
    page.wait_for_function("() => document.querySelector('.js-plotly-plot .main-svg')")
    settle(page)
    page.wait_for_timeout(500)
    drawings = page.evaluate(DRAWINGS)
    page.context.close()
    assert drawings and set(drawings) == {1}
    assert len(bundles) == 1

"""Draw the pictures of docs/localizers.md: accuracy by size of each method, from the stored rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.frame import RESULTS, ROOT, Rows
from benchmarks.localizer import LABELS, METHODS, SIZES
from benchmarks.localizer_report import in_order, pair_name
from skillviz.plots.theme import GRID, INK, SOFT_INK, localizer_style, state_style

DOCS = ROOT / "docs"
ENDS = {"base": state_style("pretrained"), "fine-tuned": state_style("finetuned")}
TRIED = {
    "learned, 100 steps of 128": "learned",
    "judged, 25 steps": "judged, a quarter",
    "nested": "nested before the change",
    "nested, gains forgotten at each rung": "nested",
}
"""Settings of the development that are methods of the evaluation."""
DASHES = {"judged": "-", "judged, a quarter": ":", "nested": "--", "learned, as published": ":"}
MARKERS = {"judged": "D", "judged, a quarter": "d", "nested": "s", "learned": "o", "movement": "^", "random": "x"}
COLUMNS = 4


def write(rows: Rows, docs: Path = DOCS) -> None:
    """Write localizers-development.png and localizers-evaluation.png."""
    tried = pd.read_csv(RESULTS / "localizer_development.csv", keep_default_na=False)
    draw(tried.assign(method=tried["setting"].replace(TRIED)), docs / "localizers-development.png")
    regions = pd.DataFrame([row for row in rows.rows if row["method"] != LABELS])
    draw(in_order(regions), docs / "localizers-evaluation.png")


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Draw one panel per pair, accuracy over size; a marker is the mean over seeds, its bar lowest to highest.

    Methods that are not in METHODS are left out; the base and the fine-tuned model are horizontal lines.
    """
    import matplotlib  # heavy: imported only to draw a picture

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pairs = list(rows.groupby(["task", "is_early"], sort=False))
    across = min(COLUMNS, len(pairs))
    down = -(-len(pairs) // across)
    figure, axes = pyplot.subplots(down, across, figsize=(1.5 + 3.2 * across, 0.9 + 2.7 * down), squeeze=False)
    for axis in axes.flat[len(pairs) :]:
        axis.set_visible(False)
    labelled: dict[str, object] = {}
    for axis, ((task, is_early), pair) in zip(axes.flat, pairs, strict=False):
        sizes = [size for size in (*SIZES, "10%") if (pair["size"] == size).any()]
        of = dict(iter(pair.groupby("method")))
        for name in (name for name in ENDS if name in of):
            level = of[name]["accuracy"].mean()
            labelled[name] = axis.axhline(level, color=ENDS[name].color, linestyle="--", linewidth=1)
        present = [name for name in METHODS if name in of]
        for number, name in enumerate(present):
            method = of[name].groupby("size")["accuracy"].agg(["mean", "min", "max"])
            method = method.loc[[size for size in sizes if size in method.index]]
            at = [sizes.index(size) + 0.06 * (number - (len(present) - 1) / 2) for size in method.index]
            labelled[name] = axis.errorbar(
                at, method["mean"], yerr=[method["mean"] - method["min"], method["max"] - method["mean"]],
                color=localizer_style(METHODS[name].localizer).color, markersize=5, marker=MARKERS.get(name, "."),
                linestyle=DASHES.get(name, "-"), linewidth=1.2, capsize=2,
            )  # fmt: skip
        axis.set_title(pair_name(task, is_early), fontsize=10, color=INK["light"])
        axis.set_xticks(range(len(sizes)), sizes)
        axis.set_xlim(-0.4, max(len(sizes), 2) - 0.6)
        axis.tick_params(labelsize=8, colors=SOFT_INK["light"], length=0)
        axis.grid(axis="y", color=GRID["light"])
        axis.spines[:].set_visible(False)
    figure.supxlabel("size of the region, % of the parameters", fontsize=9, color=SOFT_INK["light"])
    figure.supylabel("accuracy, %", fontsize=9, color=SOFT_INK["light"])
    order = [name for name in (*ENDS, *METHODS) if name in labelled]
    figure.legend([labelled[name] for name in order], order, loc="outside right center", fontsize=9, frameon=False)
    figure.set_layout_engine("constrained")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)

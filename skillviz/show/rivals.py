"""Rivals of a run's graft at equal bytes: the findings, a table, and the figure of a metric by bytes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillviz.analysis.rivals import LEVELS
from skillviz.core import formats
from skillviz.core.compressed import ENTRIES, INT8, SIGNS
from skillviz.core.metrics import metric_names, metric_row
from skillviz.plots.figure import centers
from skillviz.plots.rivals import by_bytes as drawn
from skillviz.plots.theme import state_style
from skillviz.runs.part_scores import CHOSEN, ONE
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once
from skillviz.show.gain import fit

TITLE = "Rivals at equal bytes"
PHRASES = {SIGNS: "one sign bit for each entry", INT8: "one byte for each entry"}


def finding(found: pd.DataFrame, metric: str) -> list[str]:
    """One sentence per graft: the rival that is nearest in bytes, both scores, and the verdict on the difference."""
    lines, words, rows = [], metric_row(metric), _rows(found, metric)
    for graft in rows[rows["kind"] == ENTRIES].to_dict("records"):
        near = rows[rows["nearest"] == graft["name"]]
        for rival in near.loc[np.log(near["bytes"] / graft["bytes"]).abs().nsmallest(1).index].to_dict("records"):
            ends = rival["difference_low"], rival["difference_high"]
            less = words.precise(*ends).difference(rival["difference_value"], *ends, rival["difference_debiased"])
            name = PHRASES.get(rival["kind"], rival["name"])
            lines.append(
                f"{words.heading}: **{name}** in {rival['kb']} kB has **{words.number(rival['center'])}**, the "
                f"{graft['title']} in {graft['kb']} kB **{words.number(graft['center'])}**. "
                f"{formats.capital(words.verdict(*ends))}: {less}."
            )
    return lines


def table(found: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row per model, graft and rival as texts: bytes, gain, the task's metric at gain 1, all metrics, and the
    difference in the task's metric to the graft that is nearest in bytes. ECE and NLL are scaled."""
    rows, ones, words = _rows(found, metric), _rows(found, metric, ONE), metric_row(metric)
    frame = rows[["title", "kb", "gains"]].rename(columns={"title": "stored", "kb": "kB", "gains": "gain"})
    frame[f"{words.title}, gain 1"] = rows["name"].map(dict(zip(ones["name"], ones["cell"], strict=True))).fillna("")
    for other in metric_names(metric):
        title = metric_row(other).title + ("" if metric_row(other).of_predictions else ", scaled")
        frame[title] = _rows(found, other)["cell"].tolist()
    titles = rows.set_index("name")["title"]
    frame["− nearest graft"] = [
        f"{words.change(row['difference_value'])} ({words.ends(row['difference_low'], row['difference_high'])}), "
        f"{titles[row['nearest']]}" if row["nearest"] else "" for row in rows.to_dict("records")
    ]  # fmt: skip
    return frame.reset_index(drop=True)


def _rows(found: pd.DataFrame, metric: str, at: str = CHOSEN) -> pd.DataFrame:
    """Return the rows of a metric at a gain with the center of the interval, and texts: title, kb, gains, cell."""
    rows, words = found[(found["metric"] == metric) & (found["at"] == at)], metric_row(metric)
    rows = rows.assign(center=centers(rows, 1.0))
    texts = [
        {
            "title": f"graft of {formats.share(row['share'])}" if row["kind"] == ENTRIES else row["name"],
            "kb": f"{row['bytes'] / 1000:,.0f}",
            "gains": fit(row["gain"], row["fitted"], row["gain_low"], row["gain_high"]),
            "cell": f"{words.number(row['center'])} ({words.ends(row['low'], row['high'])})",
        } | ({"title": state_style(row["name"]).title, "kb": "", "gains": ""} if row["name"] in LEVELS else {})
        for row in rows.to_dict("records")
    ]  # fmt: skip
    return rows.assign(**pd.DataFrame(texts, index=rows.index))


@drawn_once
def by_bytes(found: pd.DataFrame, metric: str, own_metric: str, theme: str) -> Exhibit:
    """A metric by the bytes of each graft and rival, each at its own gain and temperature."""
    rows, words = _rows(found, metric), metric_row(metric)
    levels = dict(zip(LEVELS, rows["center"], strict=False))  # the models are the first rows
    stored = rows[rows["kb"] != ""].sort_values("bytes").to_dict("records")
    said = "; ".join(f"{row['title']} {row['kb']} kB {words.number(row['center'])}" for row in stored)
    return Exhibit(
        name=f"rivals_{metric}",
        title=f"{words.heading} by bytes",
        figure=drawn(rows.assign(name=rows["title"]), metric, references=levels, theme=theme),
        reads=f"left is a smaller file, {words.better} is better. Each is at its own gain and temperature, fitted on "
        "validation. A graft keeps a few entries exactly, the others keep every entry coarsely. In a graft file, the "
        "place of an entry takes 8 bytes; packing is not counted.",
        intervals=OVER_EXAMPLES,
        alt=f"{words.title} by bytes: {said}.",
        table=table(found, own_metric),
        words=("scale", "paired"),
    )

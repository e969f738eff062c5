"""The sub-skills of a region: the finding beside random controls, their stability, cells and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from skillviz.analysis.subskills import RegionSubskills, by_label, strongest_examples
from skillviz.core import formats
from skillviz.core.intervals import percentile_interval
from skillviz.core.subskills import Beyond
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.plots.subskills import loading_map, stability_by_count
from skillviz.show.exhibit import OVER_EXAMPLES, Exhibit, drawn_once
from skillviz.show.part_effects import most_changed, part_name

NAMED, SENTENCES = 2, 5
MOST_ROWS = 14
NO_STRUCTURE = "no structure beyond a random region's"
NOT_COMPARED = f"Sub-skills: {NOT_MEASURED}. They need at least three parts, each with two random controls."


def finding(of: RegionSubskills) -> str:
    """The verdict on the structure, from the stability and the explained share beyond the random controls."""
    found = of.found
    verdict = (
        f"**{found.count} sub-skills** beyond a random region's"
        if found.is_beyond_random
        else f"Sub-skills: **{NO_STRUCTURE}**"
    )
    counts = f"{found.counts[0]}–{found.counts[-1]}"
    return (
        f"{verdict}. Largest lead in stability among {counts} sub-skills: {_beside(found.margin)}. "
        f"Explained with {found.count}: {_beside(found.explains)}."
    )


def _beside(what: Beyond) -> str:
    """`0.067, random 0.088 (difference −0.021, −0.184 to 0.142)`."""
    value, control, difference = (formats.number(one) for one in (what.value, what.control, what.difference.value))
    ends = formats.interval(what.difference.low, what.difference.high, 3)
    return f"{value}, random {control} (difference {difference}, {ends})"


def stability(of: RegionSubskills) -> pd.DataFrame:
    """One row per number of sub-skills and matrix: draw (0 is the region), count, value, low, high, explained."""
    found = of.found
    return pd.DataFrame([
        {"draw": draw, "count": count, **percentile_interval(float(cells.mean()), cells)._asdict(),
         "explained": float(found.explained[draw, place].mean())}
        for draw, by_count in enumerate(found.agreement)
        for place, (count, cells) in enumerate(zip(found.counts, by_count, strict=True))
    ])[["draw", "count", "value", "low", "high", "explained"]]  # fmt: skip


def loadings(of: RegionSubskills) -> pd.DataFrame:
    """One row per part and sub-skill: subskill (from 1), name, value (share of the sub-skill's loadings)."""
    names = [part_name(*place) for place in of.parts[["layer", "kind", "head"]].itertuples(index=False)]
    rows = of.found.loadings / np.maximum(of.found.loadings.sum(axis=1, keepdims=True), 1e-300)
    return pd.concat(
        [pd.DataFrame({"subskill": number, "name": names, "value": row}) for number, row in enumerate(rows, start=1)],
        ignore_index=True,
    )


def table(of: RegionSubskills, labels: Sequence[str]) -> pd.DataFrame:
    """One row per sub-skill, as texts: number, strongest parts, class, share and stability, parts, parameters."""
    every, rows = loadings(of), []
    for number in range(of.found.count):
        strongest = every[every["subskill"] == number + 1].nlargest(NAMED, "value")["name"]
        first = by_label(of, number, labels).iloc[0]
        ends = formats.percent_interval(first["low"], first["high"])
        own = of.parts[of.parts["subskill"] == number]
        rows.append({
            "sub-skill": str(number + 1), "strongest parts": "; ".join(strongest),
            "most on": f"{first['label']}, {formats.percent(first['value'])} ({ends})",
            "share, %": formats.percent_estimate(*of.found.shares[number][:3]),
            "stability": formats.estimate(*of.found.stability[number][:3]),
            "parts": formats.count(len(own)), "parameters": formats.count(int(own["size"].sum())),
        })  # fmt: skip
    return pd.DataFrame(rows)


def sentences(of: RegionSubskills, number: int, labels: Sequence[str], texts: Mapping[str, str]) -> pd.DataFrame:
    """The examples that a sub-skill (from 0) helps most, for reading; without texts if they are not available."""
    return most_changed(strongest_examples(of, number, SENTENCES), labels, texts)


@drawn_once
def stability_figure(by_count: pd.DataFrame, theme: str) -> Exhibit:
    """The stability by the number of sub-skills, of the region and of each random control."""
    region, control = (by_count[by_count["draw"].gt(0) == is_control] for is_control in (False, True))
    low, high = region["value"].min(), region["value"].max()
    beside = formats.interval(control["value"].min(), control["value"].max(), 2)
    return Exhibit(
        name="subskill_stability",
        title="Stability of the sub-skills, beside random controls",
        figure=stability_by_count(by_count, theme=theme),
        reads="stability is the mean cosine between the same sub-skills in two bootstrap samples of the examples; 1 is "
        "identical. A random control replaces each part by other parameters of the same tensors.",
        intervals=OVER_EXAMPLES,
        alt=f"Stability {formats.interval(low, high, 2)} in the region, {beside} in its random controls.",
        table=by_count,
        words=("subskills", "parts"),
    )


@drawn_once
def loadings_figure(every: pd.DataFrame, theme: str) -> Exhibit:
    """The parts with the largest loadings, by sub-skill."""
    largest = every.groupby("name", sort=False)["value"].max().nlargest(MOST_ROWS).index
    rows = every[every["name"].isin(largest)]
    first = every.loc[every.groupby("subskill")["value"].idxmax()]
    names = "; ".join(f"{number}: {name}" for number, name in zip(first["subskill"], first["name"], strict=True))
    return Exhibit(
        name="subskill_loadings",
        title="Parts of each sub-skill",
        figure=loading_map(rows, theme=theme),
        reads=f"each number is the part's share of the sub-skill; {formats.counted(len(largest), 'part')} of "
        f"{every['name'].nunique()} are shown, those with the largest shares.",
        alt=f"Strongest part by sub-skill: {names}.",
        table=every,
        words=("subskills",),
    )


def clipped(of: RegionSubskills) -> str:
    """The share of the changes that the factorization cannot see."""
    return (
        "Only rises of the log-probability of the right answer count: "
        f"{formats.percent(of.lost, 0)} of all changes (random controls: {formats.percent(of.controls_lost, 0)}) "
        "are falls and left out."
    )

"""One region among many: disjoint ones that do as well, its sufficient part, and harmful parameters outside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.other_regions import OWN, as_good
from skillviz.core import formats
from skillviz.core.composition import composition
from skillviz.core.metrics import metric_row
from skillviz.core.region import Region
from skillviz.plots.region import ENOUGH, SURPLUS, cells, region_map
from skillviz.runs.part_scores import ADVERSARIAL, DISJOINT, MINIMAL
from skillviz.runs.record import RunRecord
from skillviz.runs.run import Run, parameter_table
from skillviz.show import alt
from skillviz.show.exhibit import Exhibit, drawn_once
from skillviz.show.region import READS, TITLES
from skillviz.show.sentences import metric_value

CORE, CONTINGENT, NEVER = "core", "contingent", "never"
KINDS = {
    DISJOINT: "Disjoint regions: the same search, kept out of this region and of those before",
    MINIMAL: "Smallest sufficient part: without what validation does not miss",
    ADVERSARIAL: "Adversarial complement: the parameters outside that hurt the graft most",
}
CONTROLS = {DISJOINT: "nulls", MINIMAL: "random parts", ADVERSARIAL: "random additions"}


def table(found: pd.DataFrame, kind: str | None = None) -> pd.DataFrame:
    """The rows of `analysis.other_regions` as texts, one per region; all kinds, or one kind and the run's own
    region."""
    rows, control = [], CONTROLS[kind] if kind else "control"
    for (name, number), of in found.groupby(["kind", "number"], sort=False):
        if kind is not None and name not in (OWN, kind):
            continue
        is_own = name == OWN
        row = {
            "region": "this region" if is_own else f"{name} {number}" if name == DISJOINT else str(name),
            "parameters": formats.count(of["size"].iloc[0]),
        }  # fmt: skip
        for one in of.to_dict("records"):
            title, score = metric_row(one["measure"]).title, one["score"]
            has_control = not is_own or kind in (None, DISJOINT)
            row[title] = metric_value(one["measure"], abs(score) if one["measure"] == "nll" else score)
            row[f"beyond {control}, {title}"] = _cell(one, "beyond", "low") if has_control else ""
            row[f"− this region, {title}"] = "" if is_own else _cell(one, "less", "less_low")
        rows.append(row)
    return pd.DataFrame(rows)


def _difference(row: Mapping[Any, Any], name: str, low: str) -> str:
    high = low.replace("low", "high")
    if np.isnan(row[name]):
        return formats.MISSING
    return metric_row(row["measure"]).difference(row[name], row[low], row[high])


def _cell(row: Mapping[Any, Any], name: str, low: str) -> str:
    """`−26.2 points (−31.6 to −20.8)`; the level of the intervals is given below the table."""
    ends = row[low], row[low.replace("low", "high")]
    words = metric_row(row["measure"]).precise(*ends)
    return formats.MISSING if np.isnan(row[name]) else f"{words.change(row[name])} ({words.ends(*ends)})"


def finding(found: pd.DataFrame, record: RunRecord, facts: Mapping[str, Mapping[str, float]]) -> list[str]:
    """One sentence per stored kind: the number of equally good disjoint regions, the share that suffices, the harm."""
    lines = []
    if count := found.loc[found["kind"] == DISJOINT, "number"].nunique():
        good = len(as_good(found))
        noun = formats.counted(count, "disjoint region")
        how_many = f"**{good} of {noun}**" if good else f"None of {noun}"
        does = "does" if good <= 1 else "do"
        lines.append(
            f"{how_many} of this size {does} as well beyond the null: no clear difference, or better, in accuracy and "
            "loss."
        )
    for row in found[(found["kind"] == MINIMAL) & (found["measure"] == "nll")].to_dict("records"):
        known, size = facts[f"{MINIMAL} 1"], record.size or 1
        if row["size"] == size:
            lines.append(
                "**No block of the region can be left out**: without any half, quarter and so on to a sixty-fourth, "
                "the loss on half of the validation examples is above the whole region's "
                f"{formats.number(known['loss'])} nats."
            )
            continue
        lines.append(
            f"**{formats.percent(row['size'] / size, 0)} of the region suffices**: without the other "
            f"{size - row['size']:,} parameters, the loss on half of the validation examples is "
            f"{formats.number(known['loss_kept'])} nats (whole region {formats.number(known['loss'])}). "
            f"On test: {_difference(row, 'less', 'less_low')} against the whole region."
        )
    for row in found[found["kind"] == ADVERSARIAL].head(1).to_dict("records"):
        control = row["score"] - row["beyond"]
        lines.append(
            f"The {row['size']:,} parameters outside that hurt most change {metric_row(row['measure']).title} by "
            f"**{_difference(row, 'less', 'less_low')}**; random ones instead leave it at "
            f"{metric_value(row['measure'], control)}."
        )
    return lines


def cell_roles(run: Run, regions: Sequence[Region]) -> pd.DataFrame:
    """One row per cell of the map: layer, kind, `dense`, the share of these regions that are denser there than on
    average, and `role`: core (all), contingent (some) or never. It has the columns that `plots.region.region_map`
    takes."""
    frames = [cells(composition(region, parameter_table(run.record, region))) for region in regions]
    dense = np.mean([frame["density_ratio"].to_numpy() > 1 for frame in frames], axis=0)
    role = np.select([dense == 1, dense > 0], [CORE, CONTINGENT], NEVER)
    return frames[0][["layer", "kind", "selected", "total"]].assign(
        dense=dense, role=role, is_bias=frames[0]["kind"] == "bias"
    )


@drawn_once
def role_map(roles: pd.DataFrame, count: int, theme: str) -> Exhibit:
    """The map of the cells that all, some or none of the equally good regions use."""
    counts = roles["role"].value_counts()
    said = ", ".join(f"{counts.get(role, 0)} {role}" for role in (CORE, CONTINGENT, NEVER))
    return Exhibit(
        name="roles",
        title=f"Core, contingent, never: {formats.counted(count, 'region')} that do as well",
        figure=region_map(roles, view="roles", sides=False, theme=theme),
        reads="the share of the regions that are denser in a cell than on their own average. 100% is core, 0% (empty) "
        "is never, and between them it is contingent: others stand in.",
        alt=f"Cells of the map: {said}.",
        table=roles.drop(columns="is_bias"),
        words=("density",),
        finding=f"Cells: {said}.",
    )  # fmt: skip


@drawn_once
def minimal_map(shared: pd.DataFrame, theme: str) -> Exhibit:
    """The map of layers and modules with the smallest sufficient region in full ink and the surplus in gray;
    `shared` is the table of layers with the entries that the region and that part share."""
    shown = cells(shared)
    return Exhibit(
        name="minimal",
        title=TITLES["minimal"],
        figure=region_map(shared, view="minimal", names=(SURPLUS, ENOUGH), sides=False, theme=theme),
        reads=READS["minimal"],
        alt=alt.region_map(shown, "minimal"),
        table=shown,
    )

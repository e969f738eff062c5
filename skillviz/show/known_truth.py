"""The known-truth board in words, as a figure and as a table: how well each localizer finds a hidden skill."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from skillviz.analysis.known_truth import ALONE, EVERYWHERE, KEEPS, SKILL, SMALL
from skillviz.core import formats
from skillviz.plots.known_truth import SERIES, found
from skillviz.plots.theme import localizer_style
from skillviz.show.exhibit import Exhibit, drawn_once, over

TITLE = "We hid it; who finds it?"
GUIDE = "docs/research/known-truth.md"
PAST = (
    "Past the size that is needed, a region fills with parameters that do not matter, and accuracy cannot see it "
    f"({GUIDE})."
)
AROUND = {
    ALONE: "nothing else moved",
    "random 1×": "as many others moved at random, as far",
    "random 3×": "as many others moved at random, three times as far",
    SKILL: "another task's skill in other parameters",
}
"""The movement around the hidden skill, in words, by distractor."""
COLUMNS = {
    "precision": "true among moved", "chance": "by chance", "above_chance": "above chance",
    "recall": "true movement held", "tensor": "rank of the true tensor", "graft": "accuracy of the graft",
    "true_part": "its true part alone",
    "false_part": "its false part alone", "kept_out": "kept out of the true region",
}  # fmt: skip
"""The board's numbers, by column."""


def distractors(board: pd.DataFrame) -> list[str]:
    """The distractors with results, in the order of AROUND."""
    return [name for name in AROUND if not board.empty and len(_of_small(board, name))]


def sizes(board: pd.DataFrame, distractor: str) -> list[float]:
    """The searched sizes relative to the true one: the true size first."""
    return sorted(set(_of_small(board, distractor)["factor"]), key=lambda factor: (factor != 1, factor))


def rows_of(board: pd.DataFrame, distractor: str, factor: float) -> pd.DataFrame:
    """One row per localizer, the one with the most true entries first."""
    rows = _of_small(board, distractor)
    return rows[rows["factor"] == factor].sort_values("precision", ascending=False, kind="stable")


def _of_small(rows: pd.DataFrame, distractor: str) -> pd.DataFrame:
    """The rows of the small encoder, on which the whole grid is run."""
    return rows[(rows["encoder"] == SMALL) & (rows["distractor"] == distractor)]


def levels(models: pd.DataFrame, distractor: str) -> dict[str, float]:
    """Mean accuracies of the base and of the true region's graft, over the models that count."""
    counted = _of_small(models[models["counts"].astype(bool)], distractor)
    return {"base": float(counted["base"].mean()), "true region": float(counted["true_region"].mean())}


def finding(rows: pd.DataFrame, levels: dict[str, float]) -> str:
    """The localizer that finds most, the share found by the most accurate graft, and the accuracy of a search that
    cannot use the true region, in Markdown."""
    first, accurate = rows.iloc[0], rows.iloc[int(rows["graft"].argmax())]
    shares = [formats.percent(one["precision"], 0) for one in (first, accurate)]
    return (
        f"**{formats.capital(_title(first))}** finds most: {shares[0]} of its moved parameters are true, "
        f"{formats.percent(first['chance'], 0)} by chance. The most accurate graft is that of {_title(accurate)}: "
        f"{formats.percent(accurate['graft'])}, with {shares[1]} true ones; the true region has "
        f"{formats.percent(levels['true region'])}, the base {formats.percent(levels['base'])}. Kept out of the true "
        f"region, a search reaches {formats.percent(rows['kept_out'].max())}."
    )


def _title(row: pd.Series) -> str:
    return localizer_style(str(row["localizer"])).title


@drawn_once
def exhibit(
    rows: pd.DataFrame, levels: dict[str, float], shown: Sequence[str], theme: str, height: int | None = None
) -> Exhibit:
    """The figure of one distractor and size; `shown` are columns of SERIES."""
    said = "; ".join(
        f"{_title(row)} {', '.join(f'{SERIES[name].title} {formats.percent(row[name])}' for name in shown)}"
        for _, row in rows.iterrows()
    )
    hidden = "" if len(shown) == len(SERIES) else " *Reveal* adds what was found."
    return Exhibit(
        name="known_truth",
        title="Accuracy and truth",
        figure=found(rows, levels, tuple(shown), theme=theme, height=height),
        reads="one row per localizer. The dotted lines are the accuracies of the base and of the true region's graft; "
        "horizontal lines are 95% intervals over seeds, where several were run." + hidden,
        intervals=over("seeds"),
        alt=f"Localizers on a hidden skill: {said}.",
        table=table(rows, tuple(COLUMNS) if not hidden else tuple(shown)),
        words=("localizer",),
    )


def table(rows: pd.DataFrame, columns: Sequence[str] = tuple(COLUMNS)) -> pd.DataFrame:
    """The board's numbers of these rows as texts, in percent except for ranks, with the interval over seeds;
    `columns` are from COLUMNS."""
    return pd.DataFrame(
        {
            "localizer": _title(row), "models": str(row["models"]), "seeds": str(row["seeds"]),
            **{
                COLUMNS[name]: formats.estimate(
                    row[name], row[f"{name}_low"], row[f"{name}_high"], 1, 1.0 if name == "tensor" else 100.0
                )
                for name in columns
            },
        }
        for _, row in rows.iterrows()
    )  # fmt: skip


def failed(models: pd.DataFrame) -> str:
    """The number of planted models that count, and the places and makers that failed."""
    planted = models[models["place"] != EVERYWHERE]
    alone = planted[planted["distractor"] == ALONE]
    lost = alone.loc[~alone["counts"].astype(bool), ["place", "maker"]].drop_duplicates()
    words = ", ".join(f"{row['place']} by {row['maker']}" for _, row in lost.iterrows())
    counted = int(planted["counts"].astype(bool).sum())
    count = f"{counted} of {len(planted)} planted models keep {formats.percent(KEEPS, 0)} of the gain and count"
    return f"{count}; failed: {words}." if words else f"{count}."

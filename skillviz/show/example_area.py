"""An area of the scatter of examples that a reader has marked: what lies in it, and how it stands in the address."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from skillviz.core import formats
from skillviz.plots.examples import MEASURES

AREA = "area"
Span = tuple[float, float]


@dataclass(frozen=True)
class Area:
    """From low to high, both inclusive, of what fine-tuned model and graft give the true class.

    In the units of the table: a confidence of 0..1, or a margin in nats.
    """

    measure: str
    finetuned: Span
    grafted: Span

    def inside(self, table: pd.DataFrame) -> pd.Series:
        """True for the examples that lie in it; `table` as of `examples.scored`."""
        across, up = (table[f"{state}_{self.measure}"] for state in ("finetuned", "grafted"))
        return across.between(*self.finetuned) & up.between(*self.grafted)

    def written(self) -> str:
        """Its form in the address: `confidence_0.5_1_0_0.5`."""
        return "_".join([self.measure, *(f"{end:.4g}" for end in (*self.finetuned, *self.grafted))])

    def words(self) -> str:
        """`confidence in the true class, fine-tuned 50.0–100.0 %, grafted 0.0–50.0 %`."""
        if self.measure == "confidence":
            across, up = (
                f"{formats.percent_interval(*span)}{formats.SPACE}%" for span in (self.finetuned, self.grafted)
            )
        else:
            across, up = (f"{formats.interval(*span, 2)} nats" for span in (self.finetuned, self.grafted))
        what = "confidence in" if self.measure == "confidence" else "margin of"
        return f"{what} the true class, fine-tuned {across}, grafted {up}"


def read(written: str | None) -> Area | None:
    """The area of an address; None where it is none."""
    measure, *ends = (written or "").split("_")
    try:
        low, high, bottom, top = (float(end) for end in ends)
    except ValueError:
        return None
    if measure not in MEASURES or not all(map(math.isfinite, (low, high, bottom, top))) or low > high or bottom > top:
        return None
    return Area(measure, (low, high), (bottom, top))


def of_box(box: Mapping[str, Sequence[float]], measure: str) -> Area | None:
    """The area that was drawn in the figure, in whose units the box is."""
    factor = MEASURES[measure][1]
    (low, high), (bottom, top) = (sorted(end / factor for end in box[axis]) for axis in ("x", "y"))
    return read(Area(measure, (low, high), (bottom, top)).written())

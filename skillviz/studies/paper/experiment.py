"""Define an experiment of the paper as one row, which is in experiments/<name>.py with everything that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skillviz.studies.paper.claims import Claim, Verdict, judge
from skillviz.studies.paper.published_values import as_tables
from skillviz.studies.paper.scales import SCALES, Entry, Scale
from skillviz.studies.paper.setting import SettingRow, setting

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.results import Results


def _usual(scale: Scale) -> Scale:
    return scale


def _nothing(scale: Scale) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class Experiment:
    """A published table or figure as a study.

    `finding` is the paper's finding, `published` names CSVs of `paper/published`, `makes` names the tables of the
    study, the main one first. `entries` returns the runs of the study file at a scale, `tables` makes the tables from
    the finished steps, `claims` are the paper's. `differs` returns the experiment's own differences from the paper,
    beyond the scale's. `at` returns a scale with what is the experiment's own, such
    as another base. `on_other_data` is true if it scores models on data that they were not tuned on. docs/results.md
    shows it by its `methods`, else by `shown`, else by its main table.
    """

    name: str
    title: str
    question: str
    finding: str
    entries: Callable[[Scale], list[Entry]]
    tables: Callable[[Results], dict[str, pd.DataFrame]]
    makes: tuple[str, ...]
    published: tuple[str, ...] = ("figures",)
    claims: tuple[Claim, ...] = ()
    differs: Callable[[Scale], Sequence[SettingRow]] = _nothing
    at: Callable[[Scale], Scale] = _usual
    on_other_data: bool = False
    methods: tuple[str, ...] = ()
    shown: str = ""

    @property
    def main(self) -> str:
        """The name of the table that answers the question."""
        return self.makes[0]

    def build(self, scale: Scale) -> dict[str, Any]:
        """Return the content of the study file at this scale."""
        scale = self.at(scale)
        request = {"experiment": self.name, "scale": scale.name}
        return {
            "name": f"{self.name}-{scale.name}", "title": self.title, "request": request, "runs": self.entries(scale),
        }  # fmt: skip

    def differences(self, scale: Scale) -> tuple[SettingRow, ...]:
        """Return the differences between the study at this scale and the paper, model first; one row per aspect."""
        scale = self.at(scale)
        rows = {row.aspect: row for row in (*setting(scale), *self.differs(scale))}
        return tuple(row for row in rows.values() if row.paper != row.here)

    def verdicts(self, tables: Mapping[str, pd.DataFrame], scale: str | None) -> list[Verdict]:
        """Return the paper's claims, judged from these tables of a study."""
        return judge(self.claims, tables, self.main_share(scale))

    def main_share(self, scale: str | None) -> float | None:
        """Return the main region size at the scale of this name; None for another name."""
        return self.at(SCALES[scale]).sizes[0] if scale in SCALES else None

    def in_paper(self) -> list[Verdict]:
        """Return each claim with the same comparisons of the published values; none if only a figure shows them."""
        return judge(self.claims, as_tables(self.published), self.main_share("paper"))

"""The layout number of everything that skillviz stores, and the rule to read it.

Runs, scores, scores of parts, studies, fine-tuned models, differences, checkpoints and states of trainings carry
`"layout": 1`. A record with another number or none is refused. There is no reader for other layouts, because the first
release is the first layout. Region files, ranking files and a run's tables have no number of their own: the run's
run.json holds their sha256. Graft files, which people share, have their own number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillviz.errors import OtherVersion

LAYOUT = 1
"""Raise it with every change that an earlier version would misread; unknown fields are refused by their names."""
GRAFT = 2
"""The layout of graft files. In layout 2 the values may be scaled by a gain given in the header."""
KEY = "layout"


def refuse_another(content: Mapping[str, Any], what: str, today: int = LAYOUT) -> None:
    """Raise OtherVersion if a stored record does not have today's layout; `what` names the record in the message."""
    layout = content.get(KEY)
    if type(layout) is not int or layout != today:
        stored = f"layout {layout}" if type(layout) is int else "no layout number"
        raise OtherVersion(
            f"{what} was made by another version of skillviz ({stored}; this version reads layout {today}); make it "
            "again, or open it with that version."
        )

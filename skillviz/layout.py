"""The layout of all that skillviz stores: one number, one rule to read it.

Runs, scores, scores of parts, studies, fine-tuned models, differences, checkpoints and states of trainings
carry `"layout": 1`. A record with another number, or without one, is refused. There is no reader of other layouts: they
begin with the first release. Region and ranking files and the tables of a run have no number of their own: its run.json
vouches for them by their sha256. Graft files, which people share, have a number of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillviz.errors import OtherVersion

LAYOUT = 1
"""Raise it with every change that an earlier version would read wrongly; a new field it refuses by its name."""
GRAFT = 2
"""Of graft files: the values may be scaled by a gain that the header names."""
KEY = "layout"


def refuse_another(content: Mapping[str, Any], what: str, today: int = LAYOUT) -> None:
    """Raise OtherVersion where a stored record has another layout than today's; `what` names it in the sentence."""
    layout = content.get(KEY)
    if type(layout) is not int or layout != today:
        stored = f"layout {layout}" if type(layout) is int else "no layout number"
        raise OtherVersion(
            f"{what} was made by another version of skillviz ({stored}; this version reads layout {today}); make it "
            "again, or open it with that version."
        )

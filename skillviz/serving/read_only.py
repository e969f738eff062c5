"""The read-only mode of a public demo: with SKILLVIZ_READONLY=1 skillviz starts and writes nothing.

Code that starts a process, writes a permanent file or downloads one calls `refuse` first, in pages and terminals alike.
"""

from __future__ import annotations

from skillviz.errors import ReadOnly
from skillviz.serving.settings import READONLY_VARIABLE, settings

REASON = "This skillviz is read-only: it shows stored runs, starts nothing and stores nothing."
WAY_ON = f"Install your own to do this, or unset {READONLY_VARIABLE} if it is yours."


def refuse() -> None:
    """Raise ReadOnly if nothing may be started or written."""
    if settings.read_only:
        raise ReadOnly(f"{REASON} {WAY_ON}")

"""The read-only mode of a public demo: with SKILLVIZ_READONLY=1 skillviz starts and writes nothing.

Code that starts a process, writes a permanent file or downloads one calls `refuse` first, in pages and terminals alike.
"""

from __future__ import annotations

import os

from skillviz.errors import ReadOnly

ENVIRONMENT = "SKILLVIZ_READONLY"
REASON = "This skillviz is read-only: it shows stored runs, starts nothing and stores nothing."
WAY_ON = f"Install your own to do this, or unset {ENVIRONMENT} if it is yours."


def is_on() -> bool:
    """True if the environment sets the read-only mode."""
    return os.environ.get(ENVIRONMENT, "").strip() not in ("", "0")


def refuse() -> None:
    """Raise ReadOnly if nothing may be started or written."""
    if is_on():
        raise ReadOnly(f"{REASON} {WAY_ON}")

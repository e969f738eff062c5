"""A public demo: with SKILLVIZ_READONLY=1 nothing is started and nothing is written, whoever asks.

What starts a process, writes a file that stays or downloads one calls `refuse` first, here and in terminals alike.
"""

from __future__ import annotations

import os

from skillviz.errors import ReadOnly

ENVIRONMENT = "SKILLVIZ_READONLY"
REASON = "This skillviz is read-only: it shows stored runs, starts nothing and stores nothing."
WAY_ON = f"Install your own to do this, or unset {ENVIRONMENT} if it is yours."


def is_on() -> bool:
    """Whether the environment asks for it."""
    return os.environ.get(ENVIRONMENT, "").strip() not in ("", "0")


def refuse() -> None:
    """Raises ReadOnly where nothing may be started or written."""
    if is_on():
        raise ReadOnly(f"{REASON} {WAY_ON}")

"""Fixture of the shared store of fake runs as the user's own folder."""

from __future__ import annotations

from tests.ui.conftest import ids, made

__all__ = ["ids", "made"]

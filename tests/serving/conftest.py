"""Fixtures of the shared store of fake runs, as in the tests of pages."""

from tests.ui.conftest import ids, made, nobody_waits

__all__ = ["ids", "made", "nobody_waits"]

"""What a command line must say so that it does in a terminal what the page does."""

from __future__ import annotations

import shlex

from skillviz.runs.store import shipped_root
from skillviz.ui import cache


def where() -> str:
    """` --runs-dir FOLDER` with the page's store; empty where a terminal finds that store by itself."""
    root = cache.own_store().root
    return "" if root == (shipped_root() / "local").resolve() else f" --runs-dir {shlex.quote(str(root))}"

"""A visitor's action on a link that names files: allow them to be opened."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def confirmed(test: AppTest) -> AppTest:
    """Return the page after all files in its address were allowed."""
    while waiting := [button for button in test.button if (button.key or "").startswith("visitor.")]:
        waiting[0].click().run()
    return test

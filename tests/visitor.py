"""What a visitor does with a link that names files: says that they may be opened."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def confirmed(test: AppTest) -> AppTest:
    """The page once everything that its address names may be opened."""
    while waiting := [button for button in test.button if (button.key or "").startswith("visitor.")]:
        waiting[0].click().run()
    return test

"""A visitor opens a page, and allows the files that a link names to be opened."""

from streamlit.testing.v1 import AppTest

from skillviz.ui.page_table import PAGES


def opened(page: str, **query: str) -> AppTest:
    """Return the page with these words in its address, after its first run."""
    test = AppTest.from_file(str(PAGES[page].path), default_timeout=120)
    for name, value in query.items():
        test.query_params[name] = value
    return test.run()


def confirmed(test: AppTest) -> AppTest:
    """Return the page after all files in its address were allowed."""
    while waiting := [button for button in test.button if (button.key or "").startswith("visitor.")]:
        waiting[0].click().run()
    return test

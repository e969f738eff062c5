"""Test that every page shows a run packed in a study's file exactly like the run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from skillviz.runs.store import Store
from skillviz.ui.page_table import PAGES
from tests.pages.test_pages import RUN_PAGES, opened, with_tables
from tests.runs.test_packed import pack_folders

SHOWN = (
    "title", "header", "subheader", "markdown", "caption", "metric", "info", "warning", "error", "code", "table",
    "arrow_data_frame", "plotly_chart", "selectbox", "multiselect", "expander",
)  # fmt: skip
OTHERS = [name for name in ("home", "runs", "compare", "launch") if name in PAGES]


def shown(test: AppTest) -> Mapping[str, list[str]]:
    """Return all content of a page, by kind."""
    assert not test.exception
    return {kind: [str(element.proto) for element in test.get(kind)] for kind in SHOWN}


@pytest.mark.parametrize("name", [*RUN_PAGES, *OTHERS])
@pytest.mark.cases(2, 5)
def test_a_page_of_a_packed_run_is_that_of_its_folder(
    name: str, own_copy: Path, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillviz.jobs.devices.free_memory", lambda: 2**34)  # otherwise it may change between the two
    runs = Store(own_copy).list()
    query = {"run": ids["stagewise0"]} if name in RUN_PAGES else {}
    before = shown(with_tables(opened(name, **query)))
    pack_folders(Store(own_copy))
    assert len(Store(own_copy).list()) == len(runs) and not Store(own_copy).folders()
    after = shown(with_tables(opened(name, **query)))
    for kind, elements in before.items():
        assert after[kind] == elements, kind
    assert sum(map(len, before.values())) > 3

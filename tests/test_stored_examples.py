"""Tests that the tables of seven guides equal the stored runs, part scores and study."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts import script

TABLE = re.compile(r"written by docs/stored_examples.py -->.*?<!-- end", re.DOTALL)


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    return script("docs/stored_examples.py")


@pytest.mark.slow
def test_the_pages_hold_what_is_stored(pages: ModuleType, tmp_path: Path) -> None:
    originals = (
        pages.PARTS,
        pages.CHECKPOINTS,
        pages.BASELINES,
        pages.NULLS,
        pages.GAIN,
        pages.REGIONS_PAGE,
        pages.RIVALS_PAGE,
    )
    copies = [Path(shutil.copy(page, tmp_path)) for page in originals]
    for copy in copies:
        text = TABLE.sub(lambda found: found[0].replace(" points (", " pints ("), copy.read_text(encoding="utf-8"))
        copy.write_text(text, encoding="utf-8")
    pages.main(*copies)
    for copy, page in zip(copies, originals, strict=True):
        assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_the_opening_run_has_its_matched_random_regions(pages: ModuleType) -> None:
    """There are three seeds, found by the key of the search that they match."""
    assert len([line for line in pages.matched(pages.Store(pages.STORE)) if "`random-matched`" in line]) == 3

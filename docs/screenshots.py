"""Screenshots of every page: `python docs/screenshots.py` writes docs/screenshots/<page>-<theme>[-narrow].png.

Starts the dashboard on a free port over the runs that ship (or the folder in SKILLVIZ_RUNS), opens each page in
headless Chromium, light and dark, wide and narrow, and photographs the whole page. Needs the packages of
requirements-dev.txt and a Chromium on the path.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from skillviz.ui.page_table import PAGES
from tests.e2e.server import served, settle

SIZES = {"": (1440, 900), "-narrow": (400, 860)}
THEMES = ("light", "dark")


def still(page: Page) -> None:
    """Returns when the page has been drawn: no script runs, no skeleton is left, charts are there."""
    settle(page)
    page.wait_for_timeout(700)


def whole_height(page: Page) -> int:
    """The height in pixels that the page's content takes; Streamlit scrolls inside a part of the window."""
    return int(page.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollHeight"))


def write(png: bytes, path: Path) -> None:
    """The picture with 256 colours, which a page of text and charts does not exceed by much, at a third of the size."""
    with Image.open(BytesIO(png)) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def photograph(browser: Browser, address: str, out: Path, pages: list[str], query: str) -> None:
    """One PNG a page, theme and size."""
    for theme in THEMES:
        for suffix, (width, height) in SIZES.items():
            scheme: Any = theme
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            for name in pages:
                page.set_viewport_size({"width": width, "height": height})
                page.goto(f"{address}/{name}{query}")
                still(page)
                page.set_viewport_size({"width": width, "height": max(height, min(whole_height(page) + 40, 9000))})
                still(page)
                write(page.screenshot(), out / f"{name}-{theme}{suffix}.png")
            context.close()


def main() -> None:
    """Reads the command line and takes the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=list(PAGES), help="pages to photograph (all)")
    parser.add_argument("--out", type=Path, default=PROJECT / "docs" / "screenshots")
    parser.add_argument("--run", help="id of the run to show")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with served(PROJECT) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        photograph(browser, address, arguments.out, arguments.pages, f"?run={arguments.run}" if arguments.run else "")
        browser.close()


if __name__ == "__main__":
    main()

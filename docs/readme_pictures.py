"""Write the small pictures of the README: `python docs/readme_pictures.py` writes docs/screenshots/readme/<page>.png.

Each is a page in a window of 1440x900 without its menu, in light colors and at twice the README's width. The pages of a
run show the run that the dashboard opens on. Needs deploy/requirements-dev.txt and a Chromium on the path.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlparse

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from tests.e2e.server import served, settle

OUT = PROJECT / "docs" / "screenshots" / "readme"
PAGES = {"tour": False, "region": True, "calibration": True, "launch": False, "sparsity": True}
"""The pages of "Five things to do", each with true if it shows a run."""
WINDOW, MENU, WIDTH = (1440, 900), 300, 680


def opened_run(page: Page, address: str) -> str:
    """Return the id of the run that the dashboard opens on, from the link on the home page."""
    page.goto(address)
    settle(page)
    page.get_by_role("button", name="Explore this run").click()
    page.wait_for_url("**/overview*")
    settle(page)
    return parse_qs(urlparse(page.url).query)["run"][0]


def small(png: bytes) -> Image.Image:
    """Return the page right of the menu, in the width of the picture and in 256 colors."""
    with Image.open(BytesIO(png)) as picture:
        part = picture.convert("RGB").crop((MENU, 0, *WINDOW))
        height = round(part.height * WIDTH / part.width)
        return part.resize((WIDTH, height), Image.Resampling.LANCZOS).quantize(256, dither=Image.Dither.NONE)


def photograph(browser: Browser, address: str, out: Path, names: list[str]) -> None:
    """Write one picture per page."""
    width, height = WINDOW
    page = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light").new_page()
    page.set_default_timeout(120_000)
    run = opened_run(page, address)
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        page.goto(f"{address}/{name}" + (f"?run={run}" if PAGES[name] else ""))
        settle(page)
        page.wait_for_timeout(1500)  # until plotly has drawn
        small(page.screenshot()).save(out / f"{name}.png", optimize=True)


def main() -> None:
    """Read the command line and take the pictures."""
    parser = argparse.ArgumentParser(description="Take the small pictures of the README.")
    parser.add_argument("pages", nargs="*", default=list(PAGES), help=f"some of {', '.join(PAGES)} (all)")
    names = parser.parse_args().pages
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with served(PROJECT) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        photograph(browser, address, OUT, names)
        browser.close()


if __name__ == "__main__":
    main()

"""Write docs/screenshots/, pictures and measures of every page: `python docs/screenshots.py`.

This starts the dashboard on a free port with the shipped runs. It opens each page in headless Chromium on the run that
the dashboard opens on (`--run` names another), and writes, for light and dark,

    docs/screenshots/<page>-<theme>.png          the window at 1440x900
    docs/screenshots/<page>-<theme>-small.png    the window at 1280x720
    docs/screenshots/<page>-<theme>-narrow.png   the whole page, 390 pixels wide

and measures the numbers of README.md there at 1440x900. The rows "before" of pages.csv stay as they are; `--before
FOLDER` measures them in a checkout of an earlier version instead, without pictures. Needs the packages of
deploy/requirements-dev.txt and a Chromium on the path. About five minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as BrowserError

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from skillviz.plots.theme import INK
from skillviz.runs.store import Store, shipped_root
from skillviz.show.briefs import brief_of, hero
from skillviz.ui.page_table import HOME, PAGES
from tests.e2e.accessibility import findings
from tests.e2e.server import PATIENCE, served, settle

OUT = PROJECT / "docs" / "screenshots"
THEMES = ("light", "dark")
WIDE, SMALL, NARROW = (1440, 900), (1280, 720), (390, 844)
TALLEST = 6000  # pixels of a narrow picture; the rest below is cut off
TRIES = 3

IS_IN_THEME = """wanted => { const app = document.querySelector("[data-testid='stApp']");
  return app && (getComputedStyle(app).backgroundColor.match(/\\d+/g)[0] < 128) === (wanted === "dark"); }"""
IS_DRAWN = """() => [...document.querySelectorAll("[data-testid='stPlotlyChart'] .js-plotly-plot")]
  .every(plot => plot.querySelector(".main-svg"))"""
IS_IN_INK = """ink => [...document.querySelectorAll(".js-plotly-plot")]
  .every(plot => !plot.layout || (plot.layout.font ?? plot.layout.template.layout.font).color === ink)"""
MAIN = "document.querySelector('[data-testid=\"stMain\"]')"

# Visible words, widgets that begin in the first window, and the position of the first figure.
MEASURE = """() => {
  const main = document.querySelector("[data-testid='stMain']");
  const top = main.getBoundingClientRect().top - main.scrollTop, word = /[^\\s]*[\\p{L}\\p{N}][^\\s]*/gu;
  const seen = element => element.checkVisibility({visibilityProperty: true, contentVisibilityAuto: true})
    && element.getClientRects().length > 0;
  const apart = ".js-plotly-plot, [data-testid='stDataFrame'], table, [data-testid='stIconMaterial'], style, script";
  const walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  let words = 0;
  while (walk.nextNode()) {
    const place = walk.currentNode.parentElement;
    if (!place.closest(apart) && seen(place)) words += (walk.currentNode.data.match(word) || []).length;
  }
  const kinds = ["Button", "DownloadButton", "LinkButton", "PageLink", "Popover", "ButtonGroup", "Radio", "Checkbox",
    "Selectbox", "MultiSelect", "Slider", "SelectSlider", "TextInput", "NumberInput", "TextArea", "FileUploader"];
  const widgets = [...main.querySelectorAll(kinds.map(kind => `[data-testid='st${kind}']`).join())]
    .filter(one => seen(one) && one.getBoundingClientRect().top - top < window.innerHeight);
  const figures = [...main.querySelectorAll(".js-plotly-plot")].filter(seen)
    .map(one => one.getBoundingClientRect().top - top);
  return {words, widgets: widgets.length, figure: figures.length ? Math.round(Math.min(...figures)) : null,
    screens: main.scrollHeight / window.innerHeight}; }"""

COLUMNS = ["page", "when", "words", "widgets", "figure_px", "screens", "axe_ours_light", "axe_ours_dark",
           "axe_streamlit_light", "axe_streamlit_dark"]  # fmt: skip

HEAD = """\
# Every page in numbers and pictures

`python docs/screenshots.py` makes this page, [pages.csv](pages.csv) and the pictures.

## Numbers

Before and after the redesign, in a window of 1440x900, on the run that the dashboard opens on.

- **Words**: visible on the whole page. Folded text, tables, figures and icons are not counted. Before, compare,
  methods, overview, tasks, studies and examples are the numbers that asked for the redesign; {counted}
- **Widgets**: controls whose top is in the first window, without the menu, folds and help icons.
- **Figure**: pixels from the top of the page to its first figure; – where the page opens without one.
- **Screens**: height of the page in windows.
- **axe**: elements with a serious or critical finding of axe-core, light + dark. *Streamlit's* are in its own markup:
  the menu puts `div` elements between a list and its items. `tests/e2e/accessibility.py` lists them.

"""
STATED = {"compare": 781, "methods": 662, "overview": 624, "tasks": 605, "studies": 600, "examples": 590}
"""Words of the pages as counted in the request for the redesign."""


def still(page: Page) -> None:
    """Wait until the page has been drawn: no script runs, no skeleton is left, charts are there."""
    settle(page)
    page.wait_for_function(IS_DRAWN)
    page.wait_for_timeout(500)
    settle(page)


def shown_in(page: Page, theme: str) -> None:
    """Wait until the page is in the theme; it is reloaded, because figures keep their ink until a script runs."""
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.reload()
    still(page)
    page.wait_for_function(IS_IN_THEME, arg=theme)
    page.wait_for_function(IS_IN_INK, arg=INK[theme])
    page.wait_for_timeout(700)
    still(page)


def write(png: bytes, path: Path) -> None:
    """Write the picture with 256 colors at a third of the size; the colors are chosen so that rare ones are kept."""
    with Image.open(BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(path, optimize=True)


def sized(page: Page, size: tuple[int, int]) -> None:
    """Wait until the page is drawn in a window of this size, scrolled to its top."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.mouse.move(0, 0)
    page.evaluate(f"{MAIN}.scrollTo(0, 0)")
    still(page)


def pictures(page: Page, name: str, theme: str, out: Path) -> None:
    """Write the three pictures of the open page in its current theme."""
    sized(page, WIDE)
    write(page.screenshot(), out / f"{name}-{theme}.png")
    sized(page, SMALL)
    write(page.screenshot(), out / f"{name}-{theme}-small.png")
    sized(page, NARROW)
    page.reload()  # reload as a phone opens it, because a figure that was wide keeps its margins
    still(page)
    whole = int(page.evaluate(f"{MAIN}.scrollHeight")) + 20
    sized(page, (NARROW[0], max(NARROW[1], min(whole, TALLEST))))
    write(page.screenshot(), out / f"{name}-{theme}-narrow.png")
    sized(page, WIDE)


def visited(browser: Browser, url: str, name: str, out: Path | None) -> dict[str, Any]:
    """Return the measures of one page; its pictures go to `out`, if that is given."""
    context = browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]}, color_scheme="light")
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(url)
        still(page)
        page.wait_for_timeout(700)
        found: dict[str, Any] = page.evaluate(MEASURE)
        row = {"words": found["words"], "widgets": found["widgets"], "figure_px": found["figure"],
               "screens": round(found["screens"], 1)}  # fmt: skip
        for theme in THEMES:
            shown_in(page, theme)
            graves = findings(page)
            for finding in graves:
                if finding.is_ours:
                    print(f"{name}, {theme}: {finding}", flush=True)
            row[f"axe_ours_{theme}"] = sum(finding.is_ours for finding in graves)
            row[f"axe_streamlit_{theme}"] = sum(not finding.is_ours for finding in graves)
            if out is not None:
                pictures(page, name, theme, out)
        return row
    finally:
        context.close()


@contextmanager
def dashboard(project: Path) -> Iterator[str]:
    """Start this checkout's dashboard with its shipped runs and no user's runs, and yield its address."""
    with tempfile.TemporaryDirectory() as runs, served(project, more={"SKILLVIZ_RUNS": runs}) as address:
        yield address


def addresses(pages: list[str], run: str) -> dict[str, str]:
    """Return the address of each page, on the run."""
    return {name: "/" if name == HOME else f"/{name}?run={run}" for name in pages}


def measured(project: Path, pages: list[str], run: str, out: Path | None) -> list[dict[str, Any]]:
    """One row per page; a page that fails is tried again, and the last failure is raised after the other pages."""
    rows, failure = [], None
    with dashboard(project) as address, sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, place in addresses(pages, run).items():
            url = f"{address}{place}"
            for attempt in range(1, TRIES + 1):
                begun = time.monotonic()
                try:
                    rows.append({"page": name, **visited(browser, url, name, out)})
                    print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
                    break
                except (BrowserError, AssertionError) as error:
                    print(f"{name}, try {attempt} of {TRIES}: {str(error).splitlines()[0]}", flush=True)
                    failure = error if attempt == TRIES else failure
        browser.close()
    if failure is not None:
        raise failure
    return rows


def table(rows: pd.DataFrame) -> str:
    """Return Markdown with one row per page, before → after."""
    lines = [
        "| page | words | widgets | figure, px | screens | axe, ours | axe, Streamlit's |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in PAGES:
        before, after = (rows[(rows["page"] == name) & (rows["when"] == when)] for when in ("before", "after"))
        cells = [_change(_cells(before), _cells(after), place) for place in range(6)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cells(rows: pd.DataFrame) -> list[str] | None:
    if rows.empty:
        return None
    row = rows.iloc[0]
    numbers = [f"{row[name]:.0f}" if pd.notna(row[name]) else "–" for name in ("words", "widgets", "figure_px")]
    axe = [f"{row[f'axe_{whose}_light']:.0f} + {row[f'axe_{whose}_dark']:.0f}" for whose in ("ours", "streamlit")]
    return [*numbers, f"{row['screens']:.1f}", *axe]


def _change(before: list[str] | None, after: list[str] | None, place: int) -> str:
    return f"{before[place] if before else 'new'} → {after[place] if after else '…'}"


def gallery() -> str:
    """Return Markdown with one row per page, with links to its pictures."""
    kinds = {"": "1440x900", "-small": "1280x720", "-narrow": "390 px"}
    lines = ["## Pictures", "", f"| page | {' | '.join(THEMES)} |", "|---|---|---|"]
    for name in PAGES:
        cells = [" · ".join(f"[{size}]({name}-{theme}{kind}.png)" for kind, size in kinds.items())
                 for theme in THEMES]  # fmt: skip
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def record(rows: list[dict[str, Any]], when: str, folder: Path) -> None:
    """Put the rows into pages.csv, in place of earlier rows of these pages at `when`, and write README.md."""
    path = folder / "pages.csv"
    known = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=COLUMNS)
    new = pd.DataFrame(rows).assign(when=when)
    known = known[~((known["when"] == when) & known["page"].isin(new["page"]))]
    every = pd.concat([known, new]) if len(known) else new
    order = {name: place for place, name in enumerate(PAGES)}
    every = every.sort_values(["when", "page"], key=lambda column: column.map(lambda value: order.get(value, value)))
    every.astype({"figure_px": "Int64"})[COLUMNS].to_csv(path, index=False)
    counted = "all others are counted as after it."
    (folder / "README.md").write_text(HEAD.format(counted=counted) + table(every) + "\n" + gallery(), encoding="utf-8")


def main() -> None:
    """Read the command line, take the pictures and the measures, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=list(PAGES), help="pages to visit (all)")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the pictures, pages.csv and README.md")
    parser.add_argument("--run", help="id of the run to show (the one that the dashboard opens on)")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="measure an earlier checkout, without pictures")
    arguments = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    first = hero([brief_of(run, is_of_user=False) for run in Store(shipped_root()).list()])
    run = arguments.run or (first.id if first else "")
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.before:
        pages = [name for name in arguments.pages if (arguments.before / "pages" / f"{name}.py").exists()]
        rows = measured(arguments.before, pages, run, None)
        record([{**row, "words": STATED.get(row["page"], row["words"])} for row in rows], "before", arguments.out)
        return
    out = arguments.out
    begun = time.time()
    rows = measured(PROJECT, arguments.pages, run, out)
    if arguments.pages == list(PAGES):
        for path in out.glob("*.png"):
            if path.stat().st_mtime < begun:
                path.unlink()  # a picture of a page or a size that no longer exists
    record(rows, "after", arguments.out)


if __name__ == "__main__":
    main()

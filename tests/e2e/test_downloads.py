"""Tests of files through the browser: each upload arrives, and every download contains the content of its page."""

import hashlib
import io
import json
import re
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from skillviz.runs.store import Store
from skillviz.serving import uploads
from skillviz.ui.chart import FOLD
from tests.e2e.conftest import Made, Serve, Visit, settle
from tests.e2e.test_dashboard import changed, expect, mark, query


@pytest.mark.nightly
def test_files_are_taken_again_and_again(address: str, visit: Visit, tmp_path: Path) -> None:
    """Upload more often than the visitor's limit of files: files of an abandoned form are removed first."""
    file = tmp_path / "mine.csv"
    file.write_text("text,label\n" + "".join(f"a long enough sentence {n},{n % 2}\n" for n in range(60)))
    page, answers = visit(f"{address}/launch?new.source=upload"), list[int]()
    field = page.locator("input[type=file]").first
    page.on("response", lambda answer: answers.append(answer.status) if answer.request.method == "PUT" else None)
    for number in range(uploads.MOST_FILES + 1):
        field.set_input_files(file)
        page.get_by_role("button", name="Check and save as a task").wait_for()
        assert answers == [204] * (number + 1)
        for choice, state in (("known task", "detached"), ("upload data", "attached")):
            page.get_by_role("radio", name=choice).click()
            field.wait_for(state=state)


def test_a_file_of_nobody_is_refused(address: str, visit: Visit) -> None:
    put = """async () => (await fetch("/_stcore/upload_file/x/y", {method: "PUT", body: "a"})).status"""
    assert visit(f"{address}/runs").evaluate(put) == 403


GROUND = {"light": (255, 255, 255), "dark": (0x0E, 0x11, 0x17)}
PAGES = {"light": ("region", "sparsity", "calibration", "compare"), "dark": ("calibration",)}
"""Pages with each kind of mark: lines with intervals, bars, hatching, a map with its color scale."""


def saved(page: Any, name: str) -> tuple[str, bytes]:
    """Return the name and content of the file that the button with this name saves."""
    with page.expect_download() as found:
        page.get_by_role("button", name=name).click()
    return found.value.suggested_filename, Path(found.value.path()).read_bytes()


def words_of_svg(content: bytes) -> tuple[list[str], list[str]]:
    """Return the lines of an SVG's title (chart, run, intervals), and all drawn texts."""
    root = ElementTree.fromstring(content)
    title = root.find("{*}title")
    assert root.tag.endswith("svg") and title is not None and title.text
    return title.text.split("\n"), ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


def texts_of_pdf(content: bytes) -> str:
    """Return the texts of a one-page PDF in the order of its content; their fonts are embedded and map to Unicode."""
    assert content.startswith(b"%PDF-") and content.rstrip().endswith(b"%%EOF")
    offset = int(re.search(rb"startxref\s+(\d+)", content)[1])
    assert content[offset:].startswith(b"xref")
    places = [int(place) for place in re.findall(rb"(\d{10}) 00000 n", content[offset:])]
    objects = [b"", *(content[place : content.index(b"endobj", place)] for place in places)]
    for number, text in enumerate(objects[1:], 1):
        assert text.startswith(b"%d 0 obj" % number)

    def referred(text: bytes, key: str) -> bytes:
        return objects[int(re.search(rb"/%s \[?(\d+) 0 R" % key.encode(), text)[1])]

    def stream(text: bytes) -> bytes:
        return zlib.decompress(re.search(rb"stream\n(.*?)\nendstream", text, re.DOTALL)[1])

    (page,) = [text for text in objects if re.search(rb"/Type /Page\s", text)]
    unicode = {}
    for name, number in re.findall(rb"/(F\d+) (\d+) 0 R", referred(page, "Resources")):
        font = objects[int(number)]
        assert stream(referred(referred(referred(font, "DescendantFonts"), "FontDescriptor"), "FontFile2"))
        pairs = re.findall(
            rb"^<([0-9a-fA-F]{4})><([0-9a-fA-F]{4})>$", stream(referred(font, "ToUnicode")), re.MULTILINE
        )
        unicode[name] = {int(glyph, 16): chr(int(sign, 16)) for glyph, sign in pairs}
    lines = []
    for name, text in re.findall(
        rb"/(F\d+) [\d.]+ Tf(?:(?! Tf).)*?<([0-9a-f]+)> Tj", stream(referred(page, "Contents")), re.DOTALL
    ):
        glyphs = bytes.fromhex(text.decode())
        lines.append("".join(unicode[name][int.from_bytes(glyphs[at : at + 2])] for at in range(0, len(glyphs), 2)))
    return " ".join(lines)


def fetched_for_pdf(page: Any) -> list[Path]:
    """Return the libraries and fonts of PDFs that the page has fetched."""
    addresses = page.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
    return [path for path in (Path(urlsplit(address).path) for address in addresses) if path.parent == Path("/pdf")]


def check_picture(content: bytes, chart: dict[str, float], theme: str) -> None:
    """Check a PNG: twice as wide as the chart, higher, on the theme's background, and not blank."""
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    assert picture.width == pytest.approx(2 * chart["width"], abs=2) and picture.height > 2 * chart["height"]
    assert picture.getpixel((1, 1)) == GROUND[theme]
    colors = picture.getcolors(1 << 24) or []
    assert len(colors) > 20 and max(count for count, _ in colors) < 0.99 * picture.width * picture.height


@pytest.mark.cases(0, 1)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_download_of_a_chart_is_what_it_says(theme: str, ids: dict[str, str], address: str, visit: Visit) -> None:
    query = f"run={ids['stagewise0']}&runs={ids['stagewise0']},{ids['random']}"
    for name in PAGES[theme]:
        page = visit(f"{address}/{name}?{query}", color_scheme=theme)
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
        card = page.locator(
            f"[data-testid='stVerticalBlock']:has(.js-plotly-plot):has(summary:has-text('{FOLD}'))"
        ).last
        chart = card.locator(".js-plotly-plot").first.bounding_box()
        card.locator("summary", has_text=FOLD).click()
        file, content = saved(page, "Table (CSV)")
        table = pd.read_csv(io.BytesIO(content))
        assert file.endswith(".csv") and len(table) > 0, name
        markdown = saved(page, "Table (Markdown)")[1].decode().splitlines()
        latex = saved(page, "Table (LaTeX)")[1].decode()
        rows = [line for line in markdown if line.startswith("|")]
        assert rows[0].count("|") > 2 and len(rows) == len(table) + 2, "head, rule, and the CSV's rows"
        assert r"\toprule" in latex and r"\caption" in latex, name
        page_of_chart = saved(page, "Chart (HTML")[1].decode()
        assert "Plotly.newPlot" in page_of_chart and not re.search(r'src="https?:', page_of_chart)
        file, png = saved(page, "Picture (PNG)")
        check_picture(png, chart, theme)
        heading, texts = words_of_svg(saved(page, "Picture (SVG)")[1])
        assert not fetched_for_pdf(page), "only once a PDF is requested"
        pdf = texts_of_pdf(saved(page, "Picture (PDF)")[1])
        assert {file.suffix for file in fetched_for_pdf(page)} == {".js", ".ttf"}
        assert file.endswith(".png") and heading[0] in texts and heading[0] in pdf and heading[0] in page_of_chart, name
        if name == "compare":
            assert [text for text in ("\n".join(heading), pdf, latex) if "; baseline " not in text] == [], "all runs"
        else:
            assert "seed 0" in heading[1] and "seed 0" in pdf, "the run's short name"
        if name == "sparsity":
            assert heading[-1].startswith("95% intervals over") and "95% intervals over" in pdf, name
        page.get_by_text("is saved, as large as the chart is now").wait_for()
        page.context.close()


AT_WHOLE_PIXELS = """(plot, ground) => {
  const copy = plot.cloneNode(true), [width, height] = [plot.clientWidth, plot.clientHeight];
  copy.querySelectorAll(".modebar-container").forEach(bar => bar.remove());
  Object.assign(copy.style, {position: "fixed", left: 0, top: 0, width: `${width}px`, height: `${height}px`,
                             zIndex: 2147483647, background: ground});
  document.body.append(copy);
  return {x: 0, y: 0, width, height};
}"""
"""Puts what is drawn of a chart on the page's corner, because its own place may be at a part of a pixel."""


def off(screen: np.ndarray, picture: np.ndarray) -> tuple[int, float]:
    """Return the largest difference of a pixel's colors (0 to 255), and the share of pixels that differ by over 8.

    `picture` has its heading above the chart."""
    apart = np.abs(screen.astype(int) - picture[-len(screen) :].astype(int)).max(-1)
    return int(apart.max()), float((apart > 8).mean())


@pytest.mark.parametrize(
    ("name", "theme"), [("sparsity", "light"), ("calibration", "dark"), ("overview", "light"), ("compare", "light")]
)
def test_a_saved_picture_has_the_pixels_of_the_screen(
    name: str, theme: str, ids: dict[str, str], address: str, visit: Visit
) -> None:
    """Letters' edges are smoothed differently in an image and on a page, so a pixel there may differ by a half."""
    query = f"run={ids['stagewise0']}&runs={ids['stagewise0']},{ids['random']}"
    page = visit(f"{address}/{name}?{query}", color_scheme=theme, device_scale_factor=2)
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    card = page.locator(f"[data-testid='stVerticalBlock']:has(.js-plotly-plot):has(summary:has-text('{FOLD}'))").last
    card.locator("summary", has_text=FOLD).click()
    picture = np.asarray(Image.open(io.BytesIO(saved(page, "Picture (PNG)")[1])).convert("RGB"))
    corner = card.locator(".js-plotly-plot").first.evaluate(AT_WHOLE_PIXELS, f"rgb{GROUND[theme]}")
    screen = np.asarray(Image.open(io.BytesIO(page.screenshot(clip=corner))).convert("RGB"))
    largest, share = off(screen, picture)
    assert screen.shape[1] == picture.shape[1] and largest < 128 and share < 0.01
    moved = off(np.roll(screen, 2, axis=1), picture)
    assert moved[0] > 128 and moved[1] > 0.01, "one pixel of the screen beside its place would be seen"


def check_zip(content: bytes, root: Path, ids: list[str], tmp_path: Path) -> ZipFile:
    """Check a zip: its manifest is right, and it has these runs, which verify after unzipping."""
    archive, copy, stored = ZipFile(io.BytesIO(content)), Store(tmp_path / "runs"), Store(root)
    manifest = json.loads(archive.read("manifest.json"))
    files = [name for name in archive.namelist() if name != "manifest.json"]
    hashes = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in files}
    assert {name: note["sha256"] for name, note in manifest["files"].items()} == hashes
    archive.extractall(tmp_path)
    assert sorted(manifest["runs"]) == sorted(run.id for run in copy.list()) == sorted(ids)
    for name in ids:
        assert copy.verify(name) == [] and copy.open(name).record == stored.open(name).record
    return archive


def test_everything_of_a_run_is_one_zip(made: Made, address: str, visit: Visit, tmp_path: Path) -> None:
    root, run = made[0], made[1]["stagewise0"]
    page = visit(f"{address}/overview?run={run}")
    page.get_by_text("Reproduce and export").click()
    file, content = saved(page, "Everything of this run (zip)")
    assert file == f"{run}.zip"
    report = check_zip(content, root, [run], tmp_path).read(f"reports/{run}.html")
    assert b"Content-Security-Policy" in report and b"plotly" in report.lower()
    assert len(saved(page, "Report (HTML)")[1]) == pytest.approx(len(report), rel=0.01)
    for name in ("region.safetensors", "ranking.safetensors"):
        assert saved(page, f"{name[:-12].title()} (safetensors)")[1] == (root / run / name).read_bytes(), name


@pytest.mark.nightly
def test_two_runs_are_marked_compared_and_saved(made: Made, serve: Serve, visit: Visit, tmp_path: Path) -> None:
    root, ids = made
    page = visit(f"{serve(root)}/runs?search=tiny-sst2&from=you")
    mark(page, 0)
    before = query(page)["chosen"]
    page.get_by_role("combobox", name="Chosen runs").focus()  # the second selection uses the keyboard
    page.keyboard.type("random")
    page.get_by_role("option", name="random").first.wait_for()
    page.keyboard.press("Enter")
    assert changed(page, before) == [before, ids["random"]]
    page.keyboard.press("Escape")  # an open list hides everything else from a screen reader
    file, content = saved(page, "Download (zip)")
    chosen = json.loads(ZipFile(io.BytesIO(content)).read("manifest.json"))["runs"]
    assert (file, chosen) == ("skillviz-2-runs.zip", [before, ids["random"]])
    check_zip(content, root, chosen, tmp_path)
    page.get_by_role("button", name="Compare", exact=True).click()
    page.locator("h1", has_text="Compare runs").wait_for()
    settle(page)
    expect(page, "/compare", runs=",".join(chosen))
    page.locator(".js-plotly-plot .main-svg").first.wait_for()


CLIPBOARD = ["clipboard-read", "clipboard-write"]


def copied(page: Any) -> str:
    """Return the text that the button for copying the link puts on the clipboard."""
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied", exact=True).wait_for()
    return page.evaluate("navigator.clipboard.readText()")


@pytest.mark.nightly
def test_a_link_is_copied_and_shows_the_same_view(ids: dict[str, str], address: str, visit: Visit) -> None:
    page = visit(f"{address}/calibration?run={ids['random']}&kind=mass", permissions=CLIPBOARD)
    link = copied(page)
    assert link == page.url and "kind=mass" in link
    expect(visit(link), "/calibration", run=ids["random"], kind="mass")


@pytest.mark.nightly
def test_the_address_of_a_comparison_is_short_and_its_copied_link_names_the_runs(
    ids: dict[str, str], address: str, visit: Visit
) -> None:
    page = visit(f"{address}/compare?run={ids['movement']}", permissions=CLIPBOARD)
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    settle(page)
    expect(page, "/compare", run=ids["movement"], runs=None)
    link = parse_qs(urlsplit(copied(page)).query)
    (runs,) = link.pop("runs")
    assert set(runs.split(",")) == {ids[name] for name in ("movement", "stagewise0", "random")}
    assert link == {"run": [ids["movement"]]}
    page.locator("[data-testid='stSidebarNav'] a", has_text="Calibration").click()
    page.locator("h1", has_text="Is the model's confidence justified?").wait_for()
    settle(page)
    assert "runs=" not in copied(page), "each page names its own"


@pytest.mark.nightly
def test_where_the_clipboard_is_closed_the_address_is_shown(made: Made, address: str, visit: Visit) -> None:
    page = visit(f"{address}/region?run={made[1]['random']}")
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('closed')); }")
    page.get_by_role("button", name="Copy link").click()
    box = page.get_by_label("Address of this view")
    box.wait_for()
    assert box.input_value() == page.url

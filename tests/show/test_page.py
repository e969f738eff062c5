"""Tests of the report: it has the whole run, needs no network, and shows a user's text as text."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from skillviz.plots.theme import GROUND, INK
from skillviz.runs.run import Run
from skillviz.runs.store import Store, library
from skillviz.show import text
from skillviz.show.glossary import GLOSSARY
from skillviz.show.report import page
from skillviz.show.report.sections import Charts, Points, calibration, sections
from skillviz.ui.page_table import PAGES
from tests.fake_run import fake_run
from tests.show.reading import Read, read
from tests.tables import check, equal, says
from tests.test_arrows import PROJECT
from tests.ui.shared_store import SMALL

pytestmark = pytest.mark.slow

HOSTILE = '"><script>window.caught=1</script><img src=x onerror="window.caught=1">[a](javascript:window.caught=1)`'
ASKED = ("overview", "region", "sparsity", "calibration", "examples", "interpolation", "transfer")
SECTIONS = (*ASKED, "origin", "glossary")


@pytest.fixture
def found(run: Run) -> Read:
    return report_of(run.path)


@cache
def report_of(path: Path) -> Read:
    """Return the report of the stored run; it is made once, and tests must not change it."""
    return read(page.report(library().open(path.name), library().list()))


def test_it_has_every_section_and_a_table_of_contents_that_leads_there(found: Read) -> None:
    assert [a["id"] for a in found.of("section")] == list(SECTIONS)
    assert [page for page in ASKED if PAGES[page].question not in found.text] == []
    anchors, links = {f"#{a['id']}" for _, a in found.elements if "id" in a}, [a["href"] for a in found.of("a")]
    assert links[: len(SECTIONS)] == [f"#{name}" for name in SECTIONS] and set(links) <= anchors


def test_every_figure_has_alt_text_a_reading_line_a_table_and_both_themes(found: Read, run: Run) -> None:
    places = [a for a in found.of("div") if "data-figure" in a]
    chapters = sections(run, library().list())
    figures = {s.name: sum(len(part.makes) for part in s.parts if isinstance(part, Charts)) for s in chapters}
    assert 0 not in [figures[name] for name in ASKED] and {a["role"] for a in places} == {"img"}
    n = len(found.figures)
    assert [a["data-figure"] for a in places] == [str(number) for number in range(n)]
    assert [a for a in places if len(a["aria-label"] or "") <= 20] == []
    assert [sum(figures.values()), found.text.count("How to read this:"), len(found.of("details"))] == [n, n, n]
    for figure in found.figures:
        assert {theme: figure[theme]["layout"]["template"]["layout"]["font"]["color"] for theme in INK} == INK


def test_sentences_numbers_provenance_checks_and_commands_are_there(found: Read, run: Run) -> None:
    check(found.text, (
        "of the graftable parameters", "of the gain", "4 runs of this pair and task", "Expected calibration error",
        "passed: ", "Fine-tuned model: sha256", "Best accuracy on IMDb", "In and out of distribution",
        run.spec.command(), "skillviz.localize(",
    ))  # fmt: skip
    assert set(GLOSSARY) <= {(a["id"] or "").removeprefix("word-") for a in found.of("dt")}


def test_a_calibration_error_is_the_same_in_words_and_on_its_panel(run: Run) -> None:
    drawn, listed = ([p for p in calibration(run).parts if isinstance(p, kind)] for kind in (Charts, Points))
    for charts, points in zip(drawn, listed, strict=True):
        figure = charts.makes[0]("light").figure
        titles = [*(note.text for note in figure.layout.annotations), *(trace.name for trace in figure.data)]
        for error in re.findall(r"\*\*(\S+%)\*\*", " ".join(points.items)):
            assert any(f"{name} {error}" in title for name in ("ECE", "AURC") for title in titles), (error, titles)


def test_nothing_in_it_asks_for_the_network(run: Run) -> None:
    html = page.report(run)
    found = read(html)
    assert [name for name, a in found.elements if "src" in a or name in ("link", "iframe", "base", "form")] == []
    (style,) = re.findall(r"<style>(.*?)</style>", html.decode(), re.S)
    assert "url(" not in style and "@import" not in style
    policy = next(a["content"] for a in found.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none'; script-src 'sha256-")
    ran = [text for attributes, text in found.scripts if attributes.get("type") != "application/json"]
    assert ["plotly.js v" in text[:200] for text in ran] in ([True, False], [False, True])
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in ran]
    assert [one for one in hashes if one not in policy] == []


def test_the_style_has_the_grounds_of_the_figures() -> None:
    style = (Path(page.__file__).parent / "report.css").read_text()
    for theme, part in zip(("light", "dark"), style.split("prefers-color-scheme: dark"), strict=True):
        assert GROUND[theme].lower() in part and INK[theme].lower() in part


@pytest.mark.nightly
def test_a_users_words_are_shown_as_words(tmp_path: Path) -> None:
    enough: dict[str, Any] = {**SMALL, "n": {"validation": 200, "test": 2000}}  # both runs have the same verdicts
    run = fake_run(
        Store(tmp_path), task=f"reviews {HOSTILE}", base=f"me/base {HOSTILE}", finetuned=f"me/tuned {HOSTILE}",
        localizer=f"mine {HOSTILE}", labels=(f"bad {HOSTILE}", "good"), sizes=("1%",), **enough,
    )  # fmt: skip
    mine = fake_run(Store(tmp_path), localizer="mine", sizes=("1%",), **enough)  # it has no null
    found, ordinary = (read(page.report(one)) for one in (run, mine))
    assert [name for name, _ in found.elements] == [name for name, _ in ordinary.elements]
    assert [a for _, a in found.elements if any(name.startswith("on") for name in a)] == []
    assert found.text.count("<script>window.caught=1</script>") >= 5 and "[a](javascript:window.caught=1)" in found.text


def test_a_title_that_was_not_escaped_would_be_seen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "title", lambda run: "<b>bold</b>")
    monkeypatch.setattr(page, "escape", str)
    assert read(page.report(run)).of("b")


def test_a_run_without_tables_says_what_is_missing(run: Run) -> None:
    found = read(page.report(Run(run.path, run.record.model_copy(update={"files": {}, "metrics": {}}))))
    check(found.text, tuple(f"This run stored no {one}" for one in ("scores", "layers", "curve", "predictions")))
    assert found.figures == []


@pytest.mark.nightly
def test_two_classes_or_fourteen_and_a_tiny_test_set(tmp_path: Path) -> None:
    labels = tuple(f"class {n}" for n in range(14))
    few = {**SMALL, "n": {"validation": 15, "test": 16}}
    assert len(read(page.report(fake_run(Store(tmp_path), labels=labels, sizes=("1%",), **few))).figures) > 10


def test_it_is_made_without_torch_and_without_streamlit() -> None:
    code = (
        "import sys, skillviz.show.report.page, skillviz.commands.runs\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'transformers', 'streamlit'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


CELL = pd.DataFrame({"<i>": ["<b>"]})
ROWS = pd.DataFrame({"row": range(page.MOST_ROWS + 1)})
test_only_emphasis_and_code_are_markup = equal({
    markdown: (partial(page.inline, markdown), html)
    for markdown, html in (
        ("**80%** of *it*", "<strong>80%</strong> of <em>it</em>"),
        ("run `a<b`", "run <code>a&lt;b</code>"),
        ("<b>x</b> & y", "&lt;b&gt;x&lt;/b&gt; &amp; y"),
        ("[a](http://b)", "[a](http://b)"),
        ("![a](http://b)", "![a](http://b)"),
        ("<http://b>", "&lt;http://b&gt;"),
    )
})  # fmt: skip
test_a_name_that_was_escaped_for_a_page_is_shown_as_it_is = equal({
    name: (partial(page.inline, text.plain(name)), name.replace("<", "&lt;").replace(">", "&gt;"))
    for name in ("a_b*c*", "`x`", "[a](b)", "~x~ $y$", "a<b>c", "C:\\models")
})  # fmt: skip
test_tables = says({
    "a long table says what it leaves out": (lambda: page.table_html(ROWS, "Rows"), ("The first 200 of 201 rows",)),
    "a whole one does not": (lambda: page.table_html(ROWS.head(page.MOST_ROWS), "Rows"), (), ("The first",)),
    "a cell is escaped": (lambda: page.table_html(CELL, "T"), ("&lt;b&gt;",), ("<i>",)),
})  # fmt: skip


def test_a_long_table_is_cut() -> None:
    assert page.table_html(ROWS, "Rows").count("<tr>") == page.MOST_ROWS + 1

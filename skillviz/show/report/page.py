"""A run as one HTML file that needs no network and cannot access one.

plotly.js is embedded once, each figure in both themes. A content security policy allows only the two scripts written
here, by their hashes. Everything is escaped here: names, notes and paths are written by users.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path

import pandas as pd
from markdown_it import MarkdownIt
from plotly.offline import get_plotlyjs

from skillviz import __version__
from skillviz.analysis.readable_table import html
from skillviz.core import formats
from skillviz.plots.restyle import with_dark_marks
from skillviz.plots.theme import THEMES, localizer_style
from skillviz.runs.part_scores import PartScores
from skillviz.runs.run import Run
from skillviz.show import checkpoints as exhibits
from skillviz.show import text
from skillviz.show.exhibit import Exhibit
from skillviz.show.glossary import GLOSSARY, NAMES
from skillviz.show.report.sections import Charts, Code, Heading, Make, Part, Points, Rows, Section, Words, sections
from skillviz.show.table_words import in_words
from skillviz.tasks.readable_names import readable_name

Link = tuple[str, str]
"""A page's file and its name."""
FOLDER = Path(__file__).parent
FOOTER = (
    f"<footer><p>Written by skillviz {escape(__version__)}. The charts are drawn by plotly.js, without a "
    "network; a chart's camera saves it as a picture.</p></footer>"
)
MOST_ROWS = 200

# emphasis, code and escapes only; no HTML, links or pictures, because the text may be a user's
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).disable(["link", "image", "autolink"])
QUESTION = "How do score, calibration and region change along fine-tuning?"


def report(run: Run, others: Sequence[Run] = (), parts: Sequence[PartScores] = ()) -> bytes:
    """The run's report as HTML in UTF-8. Runs of the same pair and task in `others` are included for comparison;
    `parts` are the stored scores of its region's parts.

    Raises CorruptRun if one of the run's files cannot be read.
    """
    return report_of(run, sections(run, others, parts))


def report_of(run: Run, chapters: Sequence[Section], beside: Sequence[Link] = (), plotly: str = "") -> bytes:
    """The sections of a run's report as HTML in UTF-8, with links to the pages `beside` it.

    `plotly` is the file of plotly.js beside the page; without it plotly.js is part of the page.
    """
    items = "".join(f'<li><a href="{escape(place)}">{escape(words)}</a></li>' for place, words in beside)
    others = f'<nav aria-labelledby="runs"><h2 id="runs">Runs of this site</h2><ul>{items}</ul></nav>' if items else ""
    return document(title(run), _header(run) + others, chapters, plotly)


def document(name: str, header: str, chapters: Sequence[Section], plotly: str = "") -> bytes:
    """Sections as one HTML file in UTF-8, after this header (HTML); `name` is plain text, `plotly` as above."""
    figures = Figures()
    body = "".join(
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>'
        f"{''.join(_part(part, figures) for part in section.parts)}</section>"
        for section in chapters
    )
    own = (FOLDER / "report.js").read_text(encoding="utf-8")
    scripts = (own,) if plotly else (get_plotlyjs(), own)
    shared = f'<script src="{escape(plotly)}"></script>' if plotly else ""
    start = head(f"{name} · skillviz", scripts, is_shared=bool(plotly))
    data = f'<script type="application/json" id="figures">{figures.json()}</script>'
    code = shared + "".join(f"<script>{script}</script>" for script in scripts)
    parts = (start, "<body>", header, _contents(chapters), "<main>", body, _glossary(), "</main>", FOOTER)
    return "".join((*parts, data, code, "</body></html>\n")).encode("utf-8")


class Figures:
    """The figures of a report in order, each in every theme, as JSON."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, by_theme: dict[str, str]) -> int:
        """Adds a figure, given as JSON by theme, and returns its number."""
        self._texts.append("{" + ",".join(f'"{name}":{figure}' for name, figure in by_theme.items()) + "}")
        return len(self._texts) - 1

    def json(self) -> str:
        """All figures as one list that is safe inside a script element."""
        return f"[{','.join(self._texts)}]".replace("<", "\\u003c")


def title(run: Run) -> str:
    """`minilm-l6 → sst2-tuned · SST-2`, as plain text."""
    models = f"{text.short_source(run.spec.base)} → {text.short_source(run.spec.finetuned)}"
    return f"{models} · {readable_name(run.record.task_name)}"


def head(name: str, scripts: Sequence[str], *, is_shared: bool = False) -> str:
    """The start of a page that may run only these scripts, and with `is_shared` the files beside it."""
    digests = [hashlib.sha256(script.encode("utf-8")).digest() for script in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    beside = " 'self'" if is_shared else ""
    policy = f"default-src 'none'; script-src {allowed}{beside}; style-src 'unsafe-inline'; img-src data: blob:"
    style = (FOLDER / "report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(name)}</title><style>{style}</style></head>'
    )


def _header(run: Run) -> str:
    record = run.record
    size = f"{formats.count(record.size)} of {formats.count(record.d)} entries ({formats.share(record.share)})"
    gain = () if record.gain == 1 else (f"gain {formats.times(record.gain)}",)
    facts = (
        localizer_style(run.spec.localizer).title, size, f"seed {run.spec.seed}", *gain, formats.day(record.finished),
    )  # fmt: skip
    return (
        f'<header><p class="kicker">skillviz: one run, whole</p><h1>{escape(title(run))}</h1>'
        f"<p>{escape(' · '.join(facts))}</p><p><code>{escape(run.id)}</code></p></header>"
    )


def _contents(chapters: Sequence[Section]) -> str:
    links = [(section.name, section.title) for section in chapters] + [("glossary", "What do the words mean?")]
    items = "".join(f'<li><a href="#{name}">{escape(words)}</a></li>' for name, words in links)
    return f'<nav aria-labelledby="contents"><h2 id="contents">Contents</h2><ol>{items}</ol></nav>'


def _part(part: Part, figures: Figures) -> str:
    match part:
        case Words(markdown, about):
            return f"<p>{inline(markdown)}</p>{word_links(about)}"
        case Heading(words):
            return f"<h3>{escape(words)}</h3>"
        case Points(items):
            return f"<ul>{''.join(f'<li>{inline(item)}</li>' for item in items)}</ul>"
        case Rows(name, table):
            return table_html(table, name)
        case Code(name, code):
            return f"<h3>{escape(name)}</h3><pre><code>{escape(code)}</code></pre>"
        case Charts(makes):
            return f'<div class="charts">{"".join(_chart(make, figures) for make in makes)}</div>'


def _chart(make: Make, figures: Figures) -> str:
    exhibits = {theme: make(theme) for theme in THEMES}
    number = figures.add({theme: with_dark_marks(exhibit.figure).to_json() for theme, exhibit in exhibits.items()})
    return figure_html(exhibits[THEMES[0]], number)


def _glossary() -> str:
    entries = "".join(
        f'<dt id="{anchor(word)}">{escape(NAMES.get(word, word))}</dt><dd>{escape(meaning)}</dd>'
        for word, meaning in GLOSSARY.items()
    )
    return f'<section id="glossary"><h2>What do the words mean?</h2><dl>{entries}</dl></section>'


def inline(markdown: str) -> str:
    """The Markdown of a sentence as HTML."""
    rendered: str = _MARKDOWN.renderInline(markdown)
    return rendered


def anchor(word: str) -> str:
    """The anchor of a word's entry in the glossary."""
    return f"word-{word}"


def word_links(names: tuple[str, ...]) -> str:
    """Links to the glossary's entries, or an empty string."""
    if not names:
        return ""
    links = [f'<a href="#{anchor(name)}">{escape(NAMES.get(name, name))}</a>' for name in names]
    return f'<p class="words">Words: {", ".join(links)}</p>'


def table_html(frame: pd.DataFrame, caption: str) -> str:
    """The frame as an HTML table with this caption; the first column names the rows."""
    inside = html(in_words(frame.head(MOST_ROWS)), caption)
    left_out = len(frame) - MOST_ROWS
    more = f"<p>The first {MOST_ROWS} of {len(frame):,} rows; the dashboard's CSV has all.</p>" if left_out > 0 else ""
    # a region that scrolls sideways must be reachable by keyboard
    return f'<div class="table" role="region" aria-label="{escape(caption)}" tabindex="0">{inside}</div>{more}'


def figure_html(exhibit: Exhibit, number: int) -> str:
    """The exhibit as an empty box of the figure's height, with title, reading line and folded table."""
    heading, reads, alt = escape(exhibit.title), escape(exhibit.reads), escape(exhibit.alt)
    height = int(exhibit.figure.layout.height)
    rows = formats.counted(len(exhibit.table), "row")
    return (
        f'<figure><h3>{heading}</h3><div class="chart" role="img" aria-label="{alt}" data-figure="{number}" '
        f'style="height:{height}px"></div><noscript><p>{alt}</p></noscript>'
        f"<figcaption>How to read this: {reads}</figcaption>{word_links(exhibit.words)}"
        f"<details><summary>Table ({rows})</summary>{table_html(exhibit.table, exhibit.title)}</details></figure>"
    )


def series_report(points: pd.DataFrame, name: str) -> bytes:
    """The table `checkpoints` as figures and numbers, HTML in UTF-8; `name` is plain text."""
    sections = [
        Section(
            f"series-{number}",
            f"{QUESTION} ({task})",
            (
                Words(exhibits.finding(points, task), ("graft", "recovered", "paired")),
                Charts(tuple(partial(exhibits.panel, points, task, panel) for panel in exhibits.panels(points, task))),
                Words(exhibits.details(points, task), ("region", "chance")),
                Rows("Every number", points[points["id_task"] == task].drop(columns="id_task")),
            ),
        )
        for number, task in enumerate(dict.fromkeys(points["id_task"]), start=1)
    ]
    header = f'<header><p class="kicker">skillviz: checkpoints</p><h1>{escape(name)}</h1></header>'
    return document(name, header, sections)

"""A run as one HTML file: no network is needed to read it, and nothing in it can reach one.

plotly.js is embedded once, each figure in both themes. A content security policy allows the two scripts that are
written here, by their hashes, and no others.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

from plotly.offline import get_plotlyjs

from skillviz import __version__
from skillviz.core import formats
from skillviz.plots.theme import THEMES, localizer_style
from skillviz.runs.run import Run
from skillviz.show import small_world, text
from skillviz.show.glossary import GLOSSARY, NAMES
from skillviz.show.report import markup
from skillviz.show.report.parts import Charts, Code, Heading, Make, Part, Points, Rows, Section, Words
from skillviz.show.report.sections import sections

HERE = Path(__file__).parent


def report(run: Run, others: Sequence[Run] = ()) -> bytes:
    """The run's report as HTML in UTF-8. Of `others`, those of the same pair and task are shown beside it.

    Raises CorruptRun where one of the run's files cannot be read.
    """
    chapters, figures = sections(run, others), Figures()
    body = "".join(_section(section, figures) for section in chapters)
    scripts = (get_plotlyjs(), (HERE / "report.js").read_text(encoding="utf-8"))
    head = _head(f"{title(run)} · skillviz", scripts)
    data = f'<script type="application/json" id="figures">{figures.json()}</script>'
    code = "".join(f"<script>{script}</script>" for script in scripts)
    parts = (head, "<body>", _header(run), _contents(chapters), "<main>", body, _glossary(), "</main>", _footer())
    return "".join((*parts, data, code, "</body></html>\n")).encode("utf-8")


class Figures:
    """The figures of a report in the order in which they stand, each in every theme, as JSON."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, by_theme: dict[str, str]) -> int:
        """The number of a figure, given as JSON by theme."""
        self._texts.append("{" + ",".join(f'"{name}":{figure}' for name, figure in by_theme.items()) + "}")
        return len(self._texts) - 1

    def json(self) -> str:
        """All of them as one list that may stand inside a script element."""
        return f"[{','.join(self._texts)}]".replace("<", "\\u003c")


def title(run: Run) -> str:
    """`minilm-l6 → sst2-tuned · sst2`, as plain text."""
    record = run.record
    task = record.task_name
    return f"{text.short_source(run.spec.base)} → {text.short_source(run.spec.finetuned)} · {task}"


def _head(name: str, scripts: Sequence[str]) -> str:
    allowed = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
    style = (HERE / "report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(name)}</title><style>{style}</style></head>'
    )


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _header(run: Run) -> str:
    record = run.record
    size = f"{formats.count(record.size)} of {formats.count(record.d)} entries ({formats.share(record.share)})"
    toy = small_world.caution(run.spec.base, record.d, record.share)
    facts = (localizer_style(run.spec.localizer).title, size, f"seed {run.spec.seed}", formats.day(record.finished))
    return (
        f'<header><p class="kicker">skillviz: one run, whole</p><h1>{escape(title(run))}</h1>'
        f"<p>{escape(' · '.join(facts))}</p><p><code>{escape(run.id)}</code></p>"
        + (f"<p>{markup.inline(toy)}</p>" if toy else "")
        + "</header>"
    )


def _contents(chapters: Sequence[Section]) -> str:
    links = [(section.name, section.title) for section in chapters] + [("glossary", "What do the words mean?")]
    items = "".join(f'<li><a href="#{name}">{escape(words)}</a></li>' for name, words in links)
    return f'<nav aria-labelledby="contents"><h2 id="contents">Contents</h2><ol>{items}</ol></nav>'


def _section(section: Section, figures: Figures) -> str:
    parts = "".join(_part(part, figures) for part in section.parts)
    return f'<section id="{section.name}"><h2>{escape(section.title)}</h2>{parts}</section>'


def _part(part: Part, figures: Figures) -> str:
    match part:
        case Words(markdown, about):
            return f"<p>{markup.inline(markdown)}</p>{markup.words(about)}"
        case Heading(words):
            return f"<h3>{escape(words)}</h3>"
        case Points(items):
            return f"<ul>{''.join(f'<li>{markup.inline(item)}</li>' for item in items)}</ul>"
        case Rows(name, table):
            return markup.table(table, name)
        case Code(name, code):
            return f"<h3>{escape(name)}</h3><pre><code>{escape(code)}</code></pre>"
        case Charts(makes):
            return f'<div class="charts">{"".join(_chart(make, figures) for make in makes)}</div>'


def _chart(make: Make, figures: Figures) -> str:
    exhibits = {theme: make(theme) for theme in THEMES}
    number = figures.add({theme: exhibit.figure.to_json() for theme, exhibit in exhibits.items()})
    return markup.figure(exhibits[THEMES[0]], number)


def _glossary() -> str:
    entries = "".join(
        f'<dt id="{markup.anchor(word)}">{escape(NAMES.get(word, word))}</dt><dd>{escape(meaning)}</dd>'
        for word, meaning in GLOSSARY.items()
    )
    return f'<section id="glossary"><h2>What do the words mean?</h2><dl>{entries}</dl></section>'


def _footer() -> str:
    return (
        f"<footer><p>Written by skillviz {escape(__version__)}. The charts are drawn by plotly.js, which is part of "
        "this file; a chart's camera saves it as a picture.</p></footer>"
    )

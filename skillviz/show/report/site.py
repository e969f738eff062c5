"""Several runs as a folder of HTML files with links between them, which opens from any web server or from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from urllib.parse import quote

from plotly.offline import get_plotlyjs

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.runs.record import Scores
from skillviz.runs.run import Run
from skillviz.show.briefs import headline_scores
from skillviz.show.report.page import FOOTER, head, report_of
from skillviz.show.report.sections import Section
from skillviz.tasks.readable_names import readable_name

INDEX, PLOTLY = "index.html", "plotly.min.js"
COLUMNS = ("run", "task: metric", "size", "pre-trained", "graft", "fine-tuned", "gain recovered", "ECE of the graft, %")
UNKNOWN = "not measured"


def site(
    runs: Sequence[Run], labels: Mapping[str, str], chapters: Callable[[Run], Sequence[Section]]
) -> Iterator[tuple[str, bytes]]:
    """Yields the site's files by name: an index, one page a run, and plotly.js, which all pages share.

    `labels` are the runs' names by id; `chapters` are the sections of a run's report.
    """
    links = {run.id: (f"./{quote(run.id)}.html", labels[run.id]) for run in runs}
    yield INDEX, _index(runs, links).encode("utf-8")
    yield PLOTLY, get_plotlyjs().encode("utf-8")
    for run in runs:
        beside = [(INDEX, "All runs"), *(link for run_id, link in links.items() if run_id != run.id)]
        yield f"{run.id}.html", report_of(run, chapters(run), beside, PLOTLY)


def _index(runs: Sequence[Run], links: Mapping[str, tuple[str, str]]) -> str:
    rows = []
    for run in runs:
        place, label = links[run.id]
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in _cells(run))
        rows.append(f'<tr><th scope="row"><a href="{escape(place)}">{escape(label)}</a></th>{cells}</tr>')
    heading = "".join(f'<th scope="col">{escape(name)}</th>' for name in COLUMNS)
    title = formats.counted(len(runs), "run")
    return (
        f'{head(f"{title} · skillviz", ())}<body><header><p class="kicker">skillviz: runs</p><h1>{title}</h1></header>'
        f'<main><div class="table" role="region" aria-label="Runs" tabindex="0"><table><caption>Scores on the test '
        "set, or on the validation set of a run without one, with 95% intervals. Each name opens its run.</caption>"
        f"<thead><tr>{heading}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></main>{FOOTER}</body></html>\n"
    )


def _cells(run: Run) -> tuple[str, ...]:
    record, scores = run.record, headline_scores(run.record)
    gained = scores.recovered.value if scores and scores.recovered else None
    return (
        f"{readable_name(record.task_name)}: {metric_row(record.metric).axis}",
        f"{formats.count(record.size)} ({formats.share(record.share)})",
        *(_cell(scores, state, record.metric) for state in ("pretrained", "grafted", "finetuned")),
        UNKNOWN if gained is None else formats.percent(gained, 0),
        _cell(scores, "grafted", "ece"),
    )


def _cell(scores: Scores | None, state: str, metric: str) -> str:
    found = scores.states.get(state, {}).get(metric) if scores else None
    return UNKNOWN if found is None else metric_row(metric).cell(found.value, found.low, found.high, found.debiased)

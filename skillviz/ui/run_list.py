"""Lists of runs: the runs of one pair and task, their curves as one, and a table of runs for display."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from skillviz.analysis.necessity import without_region
from skillviz.analysis.null_measures import beyond_of_runs
from skillviz.core import formats
from skillviz.core.metrics import OWN, metric_row
from skillviz.plots.theme import localizer_style
from skillviz.runs.run import Run
from skillviz.show import beyond, measures
from skillviz.show.briefs import DEFAULTS, RunBrief, pair_labels, repetition_words, setting_labels, tags_of
from skillviz.show.glossary import about
from skillviz.ui import cache, page
from skillviz.ui.run_bar import offered

UNLIKE_SHARES = [row for row in OWN if row.unit != "%"]
"""The task metrics that are not percentages; each has its own column."""
COLUMNS = {
    "share": st.column_config.NumberColumn(
        "size, %", format="%.2g", width=62, help="Share of the graftable parameters."
    ),
    "size": st.column_config.NumberColumn("entries", format="localized", help="Entries in the region."),
    "graft": st.column_config.NumberColumn(
        "graft, %", format="%.1f", width=66, help="The task's own metric of the grafted model, where it is a share."
    ),
    **{
        row.title: st.column_config.NumberColumn(
            format=f"%.{row.digits}f", help=f"Of the grafted model; {row.better} is better."
        )
        for row in UNLIKE_SHARES
    },
    "recovered": st.column_config.NumberColumn("recovered, %", format="%.0f", width=92, help=about("recovered")),
    "ece": st.column_config.NumberColumn("ECE, %", format="%.1f", width=62, help="Of the grafted model."),
    "finished": st.column_config.TextColumn("made"),
    "settings": st.column_config.TextColumn("settings", width="medium", help="Those that are not the default."),
    "tags": st.column_config.ListColumn("tags", help="The words of the note that begin with #."),
    "note": st.column_config.TextColumn("note", width="medium"),
}


def pair_briefs(run: Run) -> list[RunBrief]:
    """The runs with the same models, task, data and readout; study variants if they are switched on."""
    briefs = cache.briefs()
    pair = next(brief.pair for brief in briefs if brief.id == run.id)
    return [brief for brief in offered(briefs, (run.id,)) if brief.pair == pair]


def runs_of(briefs: Sequence[RunBrief]) -> list[Run]:
    """The runs of these briefs; shows an explanation and stops if one cannot be read."""
    with page.explained():
        return cache.runs(brief.id for brief in briefs)


def margin_over_models(runs: Sequence[Run], split: str) -> str:
    """A sentence with the margin beyond the null, pooled over the runs' fine-tuned models; raises BadData if the runs
    were scored on different examples."""
    return beyond.over_models(cache.computed(("beyond the null", split), runs, lambda: beyond_of_runs(runs, split)))


def pair_curve(briefs: Sequence[RunBrief], split: str) -> pd.DataFrame:
    """One curve of all these runs of a pair on a split, at their gains and at 1.

    Shows an explanation and stops if a run cannot be read."""
    with page.explained():
        runs = cache.runs(brief.id for brief in briefs)
        return cache.computed(
            ("curve", split), runs, lambda: measures.curve_of_runs(briefs, runs, split, cache.curve)
        )  # fmt: skip


def pair_complement(briefs: Sequence[RunBrief], split: str) -> pd.DataFrame:
    """The same as `pair_curve` for the complements: the scores without the region."""
    with page.explained():
        runs = cache.runs(brief.id for brief in briefs)
        return cache.computed(
            ("complement", split), runs,
            lambda: measures.pair_curve(briefs, [without_region(run, split) for run in runs], split),
        )  # fmt: skip


def listing(briefs: Sequence[RunBrief]) -> pd.DataFrame:
    """The runs as a table for display: percentages, short names. `run`, the id, is for files: see `seen`."""
    labels = pair_labels(briefs)
    alike = [(e.pair, e.localizer, e.size, e.seed, e.settings) for e in briefs]
    unlike = [row for row in UNLIKE_SHARES if any(e.metric == row.name for e in briefs)]
    repetitions = dict(zip([e.id for e in briefs], repetition_words(alike, briefs), strict=True))
    unusual = {e.id: [name for name, value in e.settings if value != DEFAULTS[name]] for e in briefs}
    notes = cache.notes(e.id for e in briefs)
    rows = [
        {
            "models and task": labels[e.pair],
            "localizer": localizer_style(e.localizer).title,
            "share": 100 * e.share,
            "size": e.size,
            "seed": e.seed,
            "settings": ", ".join([*setting_labels(e, unusual[e.id]), *repetitions[e.id]]),
            "graft": None if e.grafted is None or metric_row(e.metric).unit != "%" else 100 * e.grafted,
            **{row.title: e.grafted if e.metric == row.name else None for row in unlike},
            "recovered": None if e.recovered is None else 100 * e.recovered,
            "ece": None if e.ece is None else 100 * e.ece,
            "finished": formats.day(e.finished).split(",")[0],
            "from": "you" if e.is_of_user else "skillviz",
            "tags": tags_of(notes.get(e.id, "")),
            "note": notes.get(e.id, ""),
            "run": e.id,
        }
        for e in briefs
    ]
    return pd.DataFrame(rows)


def seen(table: pd.DataFrame) -> list[str]:
    """The columns of a listing that a page shows; ids of runs are only in its downloads."""
    return [name for name in map(str, table) if name != "run"]

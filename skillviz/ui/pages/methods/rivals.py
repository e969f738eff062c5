"""The methods page's section on rivals at equal bytes: results of the command `rivals`, one run at a time."""

from __future__ import annotations

import streamlit as st

from skillviz.analysis.rivals import rivals as table_of
from skillviz.core.metrics import metric_heading, panels
from skillviz.runs.part_scores import RIVALS, runs_with, stored_parts
from skillviz.show import rivals as exhibits
from skillviz.show.entries import run_labels
from skillviz.show.glossary import about
from skillviz.show.text import last_part
from skillviz.ui import address, cache, controls, page
from skillviz.ui.chart import show, theme


def rivals(base: str, task: str) -> None:
    """Draws the choice of a run from this base, and its rivals; the command that scores some if there are none."""
    st.markdown(f"## {exhibits.TITLE}", help=about("graft", "scale", "paired"))
    wanted = address.current(address.RUN)
    with page.explained():
        library, entries = cache.library(), [one for one in cache.entries() if last_part(one.base) == last_part(base)]
        entries.sort(key=lambda entry: (entry.id != wanted, entry.task != task))
        known = runs_with(library, RIVALS)
        found = ((one.id, stored_parts(library, cache.run(one.id), RIVALS)) for one in entries if one.id in known)
        stored = {name: scores for name, scores in found if scores is not None}
    if not stored:
        st.markdown("What else fits into the bytes of a graft? No run from this base has been compared yet:")
        st.code(f"python -m skillviz rivals {entries[0].id if entries else 'RUN'}", language="sh")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        name = controls.select(
            "rivals_of", "Run", list(stored), next(iter(stored)),
            shown=run_labels([entry for entry in entries if entry.id in stored]).get, width=420, shows_label=False,
        )  # fmt: skip
        run, scores = cache.run(name), stored[name]
        metrics = panels(run.record.metric)
        metric = controls.segments("rivals_by", "Score", metrics, metrics[0], shown=metric_heading, shows_label=False)
    with page.explained():
        table = cache.computed((RIVALS, str(scores.path), scores.record.created), [run], lambda: table_of(run, scores))
    st.markdown("\n".join(f"- {line}" for line in exhibits.finding(table, metric)))
    show(exhibits.by_bytes(table, metric, run.record.metric, theme()), run.id)
    st.caption(f"{scores.record.n:,} examples of the {scores.record.split} set.")

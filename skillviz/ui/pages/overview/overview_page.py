"""The lower part of Overview: the bound, nulls, self-checks, the sources of a run's numbers, and commands that repeat
the run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import streamlit as st

from skillviz.analysis.null_measures import by_measure
from skillviz.core import formats
from skillviz.core.localizers.table import has_null, makes_graft
from skillviz.errors import BadData
from skillviz.runs.packed import bytes_of
from skillviz.runs.record import RunRecord
from skillviz.runs.run import RANKING, REGION, Run
from skillviz.serving import visitor
from skillviz.show import beyond, bound, text
from skillviz.show.bundle import graft_bundle
from skillviz.show.glossary import about
from skillviz.show.overview import sources
from skillviz.ui import cache, exports, jobs_view, live, run_list
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import judged_text
from skillviz.ui.controls import action
from skillviz.ui.page_table import PAGES

ENTRY_BYTES = 8  # of an entry of a graft file: its place and its value
GRAFT_OF = "file.graft-of"  # session key: the run whose graft file was asked for
MOST_GRAFT = 64 << 20  # bytes of a graft file that a page makes, because it is made in memory


def details(run: Run, report: Callable[[], bytes]) -> None:
    """Draws the lower part of the overview: self-checks and notes, sources, and commands that repeat the run.

    `report` makes the run's report as HTML; it is called when the user downloads the report.
    """
    left, right = st.columns(2)
    failed = sum(not check.passed for check in run.record.checks)
    words = f"{failed} of {len(run.record.checks)} self-checks failed" if failed else (
        f"All {len(run.record.checks)} self-checks passed" if run.record.checks else "No self-checks stored"
    )  # fmt: skip
    with left.expander(f"{words}; {formats.counted(len(run.record.notes), 'note')}", icon=":material/fact_check:"):
        checks(run.record)
        st.markdown("## Notes and deviations from the paper")
        notes(run.record)
    again = right.expander("Reproduce and export", icon=":material/replay:", key="overview.again", on_change="rerun")
    if again.open:
        with again:
            reproduce(run)
            export(run, report)
    origin = st.expander("Provenance", icon=":material/source:", key="overview.origin", on_change="rerun")
    if origin.open:
        origin.table(text.plain_cells(sources(run.record)), border="horizontal", hide_header=True, hide_index=True)


def generalization(run: Run, split: str) -> None:
    """Draws the fold with the terms of the generalization bound; nothing if the run has no region or examples."""
    if bound.variance(run.record) is None:
        return
    fold = st.expander(bound.TITLE, icon=":material/functions:", key="overview.bound", on_change="rerun")
    if fold.open:
        with fold:
            exhibit = bound.by_size(run.record, theme())
            st.markdown(exhibit.finding, help=about("bound"))
            table, caption = bound.terms(run.record, split), "The terms of the bound"
            worded = table.rename(columns={"ratio": "× the vacuous value 1", "needs": "what it needs"})
            st.table(text.plain_cells(worded), border="horizontal", hide_index=True)
            exports.table_menu(table, file=f"{run.id}-bound", key="bound-terms", caption=caption)
            st.caption("To measure ε2, the gap to the region trained again:")
            st.code(bound.commands(run.record, jobs_view.runs_dir_option()), language="bash", wrap_lines=True)
            show(exhibit, run.id)


def checks(record: RunRecord) -> None:
    """Draws the run's self-checks, failed ones first and marked with a word."""
    if not record.checks:
        st.caption("This run stored no self-checks.")
        return
    for check in sorted(record.checks, key=lambda c: c.passed):
        icon = ":green[:material/check:]" if check.passed else ":red[:material/close: failed:]"
        st.markdown(f"{icon} **{text.plain(check.name)}** {text.plain(check.detail)}")


def notes(record: RunRecord) -> None:
    """Draws the run's notes, such as deviations from the paper."""
    for note in record.notes or ("This run has nothing unusual to report.",):
        st.markdown(f"- {text.plain(note)}")


def reproduce(run: Run) -> None:
    """Draws the command and the Python code that repeat the run, in two tabs."""
    command, python = st.tabs(["Command", "Python"])
    command.code(run.spec.command(), language=None, wrap_lines=True)
    python.code(run.spec.python(), language=None, wrap_lines=True)


def export(run: Run, report: Callable[[], bytes]) -> None:
    """Draws the downloads: the whole run as one zip, then its report, its region and its ranking."""
    with st.container(horizontal=True):
        exports.zip_button(
            "Everything of this run (zip)", [run], file=exports.file_name(run.id), key="file.zip",
            reports={run.id: report},
            help="Stored files, tables as CSV, the report and a manifest with the SHA-256 of every file. "
            "The graft needs the models: the zip names the command.",
        )  # fmt: skip
        exports.report_button(
            "Report (HTML)",
            report,
            file=exports.file_name(run.id, "report.html"),
            key="file.report",
            help="Every figure, table and explanation in one file of about 5 MB that works offline.",
        )
        for name, title in {REGION: "Region (safetensors)", RANKING: "Ranking (safetensors)"}.items():
            if name in run.files:
                st.download_button(
                    title,
                    partial(bytes_of, run.path, name),
                    exports.file_name(run.id, name),
                    "application/octet-stream",
                    key=f"file.{name}",
                    on_click="ignore",
                    icon=":material/download:",
                )
    option = jobs_view.runs_dir_option()
    st.code(f"python -m skillviz runs export {run.id} -o run.zip{option}", language=None, wrap_lines=True)
    if makes_graft(run.spec.localizer):
        _graft_file(run)
        st.markdown("In a terminal:")
        st.code(f"python -m skillviz export {run.id} -o graft.safetensors{option}", language=None, wrap_lines=True)


def _graft_file(run: Run) -> None:
    """Draws the download of the graft file with its card, which the worker makes from the models when asked."""
    if (run.record.size or 0) * ENTRY_BYTES > MOST_GRAFT:
        st.caption(f"The graft file would take more than {MOST_GRAFT >> 20} MB, too much for a page.")
        return
    if not (visitor.is_local() or run.path.is_relative_to(cache.user_store().root)):
        return  # it holds values of a model, which is only its owner's to give away
    if not live.has_models(run):
        live.say_absent(run, "graft-file")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        if action("Make the graft file", key="file.make", icon=":material/play_arrow:"):
            st.session_state[GRAFT_OF] = run.id
        st.caption("It holds values of the fine-tuned model, so it is made from both models.", width="stretch")
    if st.session_state.get(GRAFT_OF) != run.id:
        return
    made = live.ask(run, "graft_file", topic="graft-file")
    if made is None:
        return
    for remark in made["remarks"]:
        st.caption(text.with_code(remark))
    st.download_button(
        "Graft with its card (zip)",
        partial(graft_bundle, run.id, made["graft"], made["card"]),
        exports.file_name(run.id, "graft.zip"),
        "application/zip",
        key="file.graft",
        on_click="ignore",
        icon=":material/folder_zip:",
        help="A folder with graft.safetensors and README.md, as verify-graft and the Hugging Face Hub take it.",
    )


def null_line(record: RunRecord, split: str) -> None:
    """Draws the run's verdict against its null, under the headline; nothing for a localizer without a null."""
    judged = beyond.judged(record, split)
    if judged is not None:
        st.markdown(judged_text(judged), help=about("null", "paired"))


def nulls(run: Run, split: str) -> None:
    """Draws the nulls with their scores.

    A run without nulls shows the nulls of a stored run of the same pair, task, localizer and size, else the command
    that makes them."""
    if not has_null(run.spec.localizer):
        return
    st.markdown(f"## {beyond.TITLE}", help=about("null"))
    others = (cache.run(brief.id).record for brief in run_list.pair_briefs(run) if brief.id != run.id)
    shown = beyond.stored_beside(run.record, others)
    if shown is None or not beyond.sentence(shown, split):
        st.markdown("Not measured. This command makes the run with a null:")
        st.code(beyond.command(run.record), language=None, wrap_lines=True)
        return
    if shown.run_id != run.record.run_id:
        st.caption(f"Measured by the run `{shown.run_id}` of the same pair, task, localizer and size.")
    st.markdown(beyond.sentence(shown, split))
    table, caption = beyond.table(shown, split), "The nulls of the run"
    st.dataframe(table, hide_index=True, alt=caption)
    exports.table_menu(table, file=f"{shown.run_id}-nulls", key="nulls", caption=caption)
    measured = cache.run(shown.run_id)
    _other_models(measured, split)
    found = cache.computed(("measures of nulls", split), [measured], lambda: by_measure(measured, split))
    if len(found):
        st.markdown(beyond.likeness(found))
        with st.expander("By other measures"):
            table, caption = beyond.measures(found), "The graft and its nulls by each measure"
            st.dataframe(table, hide_index=True, alt=caption)
            exports.table_menu(table, file=f"{shown.run_id}-measures", key="null-measures", caption=caption)
    with st.expander("What the nulls are"):
        st.markdown(beyond.meaning())


def _other_models(run: Run, split: str) -> None:
    """Draws the margin over all fine-tuned models with the same search, and a link to their comparison, if there are
    several."""
    searched = (run.spec.localizer, run.record.size, run.record.task_name)
    alike = [one.id for one in cache.briefs() if (one.localizer, one.size, one.task) == searched]
    others = beyond.of_other_models(run.record, (cache.run(name).record for name in alike))
    if not others:
        return
    runs = [run, *(cache.run(one.run_id) for one in others)]
    with suppress(BadData):  # scored on other examples
        st.markdown(run_list.margin_over_models(runs, split))
        query = {"runs": ",".join(one.id for one in runs)}
        link = PAGES["compare"].link()
        st.page_link(link, label="Compare them", icon=":material/compare_arrows:", query_params=query)

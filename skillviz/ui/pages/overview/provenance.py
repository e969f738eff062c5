"""The sources of a run's numbers: self-checks, models, data, versions, and the commands that repeat the run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from skillviz.core import formats
from skillviz.core.localizers.table import makes_graft
from skillviz.runs.packed import bytes_of
from skillviz.runs.record import RunRecord
from skillviz.runs.run import RANKING, REGION, Run
from skillviz.show import text
from skillviz.show.overview import sources
from skillviz.ui import exports, jobs_view


def details(run: Run, report: Callable[[], bytes]) -> None:
    """Draws the lower part of the overview: self-checks and notes, sources, and commands that repeat the run.

    `report` makes the run's report as HTML; it is called when the user downloads the report.
    """
    left, right = st.columns(2)
    with left.expander(_checked(run.record), icon=":material/fact_check:"):
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


def _checked(record: RunRecord) -> str:
    """The number of passed or failed self-checks and of notes, as a label."""
    failed = sum(not check.passed for check in record.checks)
    words = f"{failed} of {len(record.checks)} self-checks failed" if failed else (
        f"All {len(record.checks)} self-checks passed" if record.checks else "No self-checks stored"
    )  # fmt: skip
    return f"{words}; {formats.counted(len(record.notes), 'note')}"


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
        st.markdown("The graft file needs the models. Write it in a terminal:")
        st.code(f"python -m skillviz export {run.id} -o graft.safetensors{option}", language=None, wrap_lines=True)

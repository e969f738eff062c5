"""Starting a study: an experiment of the paper at a scale, or a file of one's own; its plan and minutes come first."""

from __future__ import annotations

import os

import streamlit as st

from skillviz.errors import SkillvizError
from skillviz.studies.experiments import EXPERIMENTS
from skillviz.studies.reproduce import Asked, refuse_absent, study_of, write_study
from skillviz.studies.scales import SCALES, Scale
from skillviz.studies.spec import StudySpec
from skillviz.studies.store import FILE, study_path
from skillviz.ui import cache, controls, studies_words, study_file, study_heads, study_running, text
from skillviz.ui.glossary import about

SOURCES = {"experiment": "An experiment of the paper", "file": "A study file of my own"}
LONGEST = 400  # letters of a path
MOST_WORKERS = 8


def form() -> None:
    """Draws the form, from the choice to the button that starts a process of its own."""
    st.markdown("## Start a study", help=about("study"))
    with st.container(border=True):
        source = controls.segments("new.study", "What", tuple(SOURCES), "experiment", shown=SOURCES.get)
        try:
            study = _experiment() if source == "experiment" else _own()
        except SkillvizError as error:
            st.error(text.plain(str(error.args[0])), icon=":material/error:")
            return
        if study is not None:
            _plan_and_button(study)


def _experiment() -> StudySpec:
    """The study of an experiment at a scale; raises BadInput where what it needs is not there."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        titles = {name: row.title for name, row in EXPERIMENTS.items()}
        name = controls.select("new.experiment", "Experiment", list(titles), "table2", shown=titles.get, width=460)
        names = {scale.name: scale.title for scale in SCALES.values()}
        scale = controls.select("new.scale", "Scale", list(names), "demo", shown=names.get, width=240)
    row = EXPERIMENTS[name]
    st.markdown(f"**{text.plain(row.question)}** The paper: {text.plain(row.finding)}")
    made = [study_heads.title(table) for table in row.makes if table != "note"]
    st.caption(f"It makes {text.counted(len(made), 'table')}: {text.listed(made, 9)}.")
    _, own, study = study_of(Asked(name, scale), cache.own_store())
    _setting(row.differences(own), own)
    refuse_absent(own, study)
    return study


def _setting(differences: tuple[str, ...], scale: Scale) -> None:
    with st.expander(f"Where this differs from the paper: {text.counted(len(differences), 'point')}"):
        st.markdown("\n".join(f"- {text.plain(sentence)}" for sentence in differences))


def _own() -> StudySpec | None:
    """The study of a file on this machine, or of one that is uploaded; None where there is none yet."""
    path = controls.typed("new.file", "Path of the file, on the machine of the dashboard", most=LONGEST)
    upload = st.file_uploader("or upload it", ["yaml", "yml"], key="study.upload", max_upload_size=1)
    st.caption("A YAML file with a name, defaults (fields of every entry) and runs (the entries): docs/studies.md.")
    if upload is not None:
        return study_file.uploaded(upload.name, upload.getvalue())
    return study_file.typed(path) if path else None


def _plan_and_button(study: StudySpec) -> None:
    """What will be done and how long it takes, then the button."""
    workers, told = 1, st.container()
    with told, st.spinner("Reading models and data for the estimate."):
        outlook = cache.study_outlook(study, cache.own_store(), workers)
    most = min(MOST_WORKERS, os.cpu_count() or 1)
    if most > 1 and outlook.left > 1:
        help = "Each takes memory for its own models. On one machine they share its cores and its device."
        workers = controls.whole("new.workers", "Processes side by side", 1, most, 1, help=help)
    if workers > 1:
        with told, st.spinner("Reading models and data for the estimate."):
            outlook = cache.study_outlook(study, cache.own_store(), workers)
    told.markdown(
        f"{studies_words.counted(outlook.plan, outlook.left)} {studies_words.minutes(outlook.minutes, outlook.left)}"
    )
    with st.expander("The steps"):
        st.dataframe(outlook.steps, hide_index=True, alt="The steps of the study, with their seconds")
    with st.expander("The same as a command line"):
        st.code(_command(study, workers), language="bash", wrap_lines=True)
    if study_running.in_place_of_button(study):
        return
    if st.button("Start", type="primary", icon=":material/play_arrow:", key="study.start"):
        _start(study, workers)


def _command(study: StudySpec, workers: int) -> str:
    """The command line that does the same; a study file that is nowhere yet will lie in its folder."""
    side = f" --workers {workers}" if workers > 1 or (study.command and study.scale == "demo") else ""
    if study.command:
        return study.command + side
    return f"python -m skillviz study run {study_path(cache.own_store().root, study)}/{FILE}{side}"


def _start(study: StudySpec, workers: int) -> None:
    """A process of its own, which goes on without this page."""
    try:
        with st.spinner("Starting."):
            path = write_study(study, cache.own_store())
            study_running.start(path, workers)
    except SkillvizError as error:
        st.error(text.plain(str(error.args[0])), icon=":material/error:")
        return
    st.rerun()

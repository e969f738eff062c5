"""Starting a study: an experiment of the paper at a scale, or a file of one's own; its plan and minutes come first."""

from __future__ import annotations

import shlex

import streamlit as st

from skillviz.core import formats
from skillviz.errors import SkillvizError
from skillviz.show import table_words, text
from skillviz.show.glossary import about
from skillviz.studies.cores import cores, workers_for
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.request import refuse_absent, study_of, write_study
from skillviz.studies.paper.scales import SCALES
from skillviz.studies.spec import ExperimentRequest, StudySpec
from skillviz.studies.store import FILE, study_path
from skillviz.ui import cache, controls, study_choice, terminal
from skillviz.ui.pages.studies import own_models, running, study_file, words

SOURCES = {"experiment": "An experiment of the paper", "file": "A study file of my own"}
LONGEST = 400  # letters of a path
MOST_WORKERS = 8
WORKERS, USUAL = "new.workers", "new.workers.usual"


def form() -> None:
    """Draws the form, from the choice to the button that starts a process of its own."""
    st.markdown("## Start a study", help=about("study"))
    with st.container(border=True):
        source = controls.segments("new.study", "What", tuple(SOURCES), "experiment", shown=SOURCES.get)
        try:
            found = _experiment() if source == "experiment" else _own()
            if found is not None:
                _plan_and_button(*found)
        except SkillvizError as error:
            st.error(text.plain(str(error.args[0])), icon=":material/error:")


def _experiment() -> tuple[StudySpec, str]:
    """The study of an experiment at a scale, or of own models, and its command; raises what stands against it."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        titles = {name: row.title for name, row in EXPERIMENTS.items()}
        name = controls.select("new.experiment", "Experiment", list(titles), "table2", shown=titles.get, width=460)
        names = {scale.name: scale.title for scale in SCALES.values()}
        scale = controls.select("new.scale", "Scale", list(names), "demo", shown=names.get, width=240)
    row = EXPERIMENTS[name]
    st.markdown(f"**{text.plain(row.question)}** The paper: {text.plain(row.finding)}")
    made = [table_words.title(table) for table in row.makes if table != "note"]
    st.caption(f"It makes {formats.counted(len(made), 'table')}: {formats.listed(made, 9)}.")
    request = own_models.request(name, scale)
    _, chosen, study = study_of(request, cache.own_store())
    differences = row.differences(chosen)
    with st.expander(f"Where this differs from the paper: {formats.counted(len(differences), 'point')}"):
        study_choice.setting_table(differences)
    refuse_absent(chosen, study)
    if request != ExperimentRequest(name, scale):
        with st.spinner("Looking at the models and tasks."):
            cache.refuse_study(study, cache.own_store())
        st.caption(f"The study will be kept as `{study.name}`.")
    return study, request.command()


def _own() -> tuple[StudySpec, str] | None:
    """The study of a file on this machine, or of one that is uploaded, and its command; None where there is none yet.

    The file lies in the study's folder once it is started.
    """
    path = controls.typed("new.file", "Path of the file, on the machine of the dashboard", most=LONGEST)
    upload = st.file_uploader("or upload it", ["yaml", "yml"], key="study.upload", max_upload_size=1)
    st.caption("A YAML file with a name, defaults (fields of every entry) and runs (the entries): docs/studies.md.")
    if upload is None and not path:
        return None
    study = study_file.typed(path) if upload is None else study_file.uploaded(upload.name, upload.getvalue())
    if why := study_file.claim(study):
        study = study_file.as_own(study)
        st.info(text.plain(why), icon=":material/info:")
    if told := study_file.taken_up(study):
        st.info(text.plain(told), icon=":material/info:")
    file = study_path(cache.own_store().root, study) / FILE
    return study, f"python -m skillviz study run {shlex.quote(str(file))}"


def _plan_and_button(study: StudySpec, command: str) -> None:
    """What will be done and how long it takes, then the button."""
    usual, told = workers_for(study, cores()), st.container()
    with told, st.spinner("Reading models and data for the estimate."):
        preview = cache.study_preview(study, cache.own_store(), usual)
    workers = _workers(usual) if preview.left > 1 else usual
    if workers != usual:
        with told, st.spinner("Reading models and data for the estimate."):
            preview = cache.study_preview(study, cache.own_store(), workers)
    told.markdown(f"{words.counted(preview.plan, preview.left)} {words.minutes(preview.minutes, preview.left)}")
    with st.expander("The steps"):
        st.dataframe(preview.steps, hide_index=True, alt="The steps of the study, with their seconds")
    with st.expander("The same as a command line"):
        st.code(_command(command, workers, usual), language="bash", wrap_lines=True)
    if running.in_place_of_button(study):
        return
    if st.button("Start", type="primary", icon=":material/play_arrow:", key="study.start"):
        _start(study, workers)


def _workers(usual: int) -> int:
    """How many processes; those that the command line takes by itself, until somebody moves the slider."""
    most = min(MOST_WORKERS, cores())
    if most < 2:
        return 1
    before = st.session_state.get(USUAL)
    if before is not None and before != usual:  # another scale
        controls.assign(WORKERS, usual)
    st.session_state[USUAL] = usual
    help = "Each takes memory for its own models. On one machine they share its cores and its device."
    return controls.whole(WORKERS, "Processes side by side", 1, most, usual, help=help)


def _command(command: str, workers: int, usual: int) -> str:
    """The command line that does the same; the number of processes stands where machines differ in their usual one."""
    side = f" --workers {workers}" if max(workers, usual) > 1 else ""
    return f"{command}{terminal.where()}{side}"


def _start(study: StudySpec, workers: int) -> None:
    """A process of its own, which goes on without this page."""
    try:
        with st.spinner("Starting."):
            cache.refuse_study(study, cache.own_store())  # so that one that cannot be made leaves no file
            path = write_study(study, cache.own_store())
            running.start(path, workers)
    except SkillvizError as error:
        st.error(text.plain(str(error.args[0])), icon=":material/error:")
        return
    st.rerun()

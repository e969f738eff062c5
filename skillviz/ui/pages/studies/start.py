"""The form that starts a study, an experiment of the paper at a scale or the user's file, with its plan."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st

from skillviz import jobs
from skillviz.core import formats
from skillviz.errors import BadInput, ModelNotFound, SkillvizError
from skillviz.jobs import control
from skillviz.jobs.job import Job
from skillviz.jobs.slurm import backend_named
from skillviz.models.heads import READOUTS
from skillviz.runs.store import Store
from skillviz.serving import sign_in, uploads, visitor
from skillviz.show import table_words, text
from skillviz.show.briefs import READOUT_TITLES
from skillviz.show.glossary import about
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.request import is_as_requested, refuse_edited, study_of, write_study
from skillviz.studies.paper.scales import SMALL
from skillviz.studies.plan import StudyPlan, study_plan
from skillviz.studies.spec import ExperimentRequest, StudySpec, read_study
from skillviz.studies.status import cores
from skillviz.studies.store import FILE, StudyFolder, open_study, study_path
from skillviz.tasks.project import expanded
from skillviz.ui import address, cache, controls, exports, fetching, form, jobs_view, study_choice, study_words
from skillviz.ui.controls import action
from skillviz.ui.pages.launch import models

SOURCES = {"experiment": "An experiment of the paper", "file": "My own study file"}
LONGEST = 400  # characters of a path
MOST_WORKERS = 8
WORKERS = "new.workers"
BASE, TASKS, ALSO, FINETUNED = "own.base", "own.tasks", "own.also", "own.finetuned"
READOUT, SEEDS = "own.readout", "own.seeds"
PREFIXES = ("new.", "own.")  # prefixes of the form's fields in the address
FIELDS = (BASE, TASKS, ALSO, FINETUNED, READOUT, SEEDS)
UNSET = (None, "", form.NONE)
OF_SCALE = "scale"  # as readout: the scale's own
MOST_SEEDS = 20
MODELS_TITLE = "Use your own models or tasks"
TASKS_HELP = (
    "Tasks of the scale, or paths of task files of your own (YAML, docs/add-a-task.md); several may be given. Left "
    "empty, they are those that the experiment takes at this scale."
)
ALSO_HELP = (
    "Tasks with the same labels on whose examples the models are scored too, without training: how well the skill "
    "transfers. Named as the tasks are; your own tasks that share their labels are scored on each other anyway."
)
FINETUNED_HELP = (
    "The base after fine-tuning for the one task that is named beside it. Left empty, models are fine-tuned first, "
    "which takes most of the time."
)
SEEDS_HELP = (
    "How many times each model that is grafted is fine-tuned, with other seeds; a stored model, or one that is named "
    "here, is one. Table 4, Figure 8 and the constants of the searches have one."
)
ENDED = {
    "finished": "It is **finished**",
    "failed": "It **failed**",
    "cancelled": "It was **cancelled**",
    "stopped": "It was **stopped** before its end",
    "unknown": "It **may still run** on another machine",
}
UNDER_WAY = "You can close this page; the study keeps running. [Log and cancel](#under-way)"


def draw() -> None:
    """Draws the form, from the choice of a study to the button that starts a separate process."""
    try:
        control.refuse_study(cache.user_store())
    except SkillvizError as error:
        st.info(text.plain(sign_in.sentence_of(error)), icon=":material/group:")
        return
    with st.container(border=True):
        source = controls.segments("new.study", "What", tuple(SOURCES), "experiment", shown=SOURCES.get)
        try:
            study = _experiment() if source == "experiment" else _file()
            if study is not None:
                _plan_and_button(*study)
        except SkillvizError as error:
            st.error(text.plain(sign_in.sentence_of(error)), icon=":material/error:")


def _experiment() -> tuple[StudySpec, str]:
    """The study of an experiment at a scale, or of the user's models, and its command; raises a SkillvizError."""
    experiments = {name: row.title for name, row in EXPERIMENTS.items()}
    name = controls.select(
        "new.experiment", "Experiment", list(experiments), "table2", shown=experiments.get, width=460
    )
    row = EXPERIMENTS[name]
    st.markdown(f"**{text.plain(row.question)}** The paper: {text.plain(row.finding)}")
    titles = [table_words.title(table) for table in row.makes if table != "note"]
    st.caption(f"It makes {formats.counted(len(titles), 'table')}: {formats.listed(titles, 9)}.")
    request = _request(name)
    _, chosen, study = study_of(request, cache.user_store())
    differences = row.differences(chosen)
    with st.expander(f"Where this differs from the paper: {formats.counted(len(differences), 'point')}"):
        study_choice.setting_table(differences)
    if request != ExperimentRequest(name):
        with st.spinner("Looking at the models and tasks."):
            cache.refuse_study(study, cache.user_store())
        st.caption(f"The study will be kept as `{study.name}`.")
    return study, request.command()


def _request(name: str) -> ExperimentRequest:
    """The experiment with the values of the fields; raises BadInput for variables other than the project's.

    Raises ModelNotFound if a model has to be downloaded from the hub first, and draws a button for it.
    """
    usual = SMALL
    is_set = any(address.current(field) not in (*UNSET, OF_SCALE) for field in FIELDS)
    scored_too = list(dict.fromkeys(task for tasks in usual.shifts.values() for task in tasks))
    with st.expander(MODELS_TITLE, expanded=is_set):
        left, right = st.columns(2)
        with left:
            base = models.base_box(BASE, "Base model", placeholder=f"{usual.base}, or choose or type")
            tasks = form.any_of(TASKS, "Tasks", usual.every(), (), help=TASKS_HELP, names_files=True,
                                 placeholder="the experiment's, or choose or type")  # fmt: skip
            also = form.any_of(ALSO, "Also score on", scored_too, (), help=ALSO_HELP, names_files=True)
        with right:
            titles = {OF_SCALE: f"as at this scale: {READOUT_TITLES[usual.readout]}", **READOUT_TITLES}
            names = [OF_SCALE, *READOUTS]
            chosen = controls.select(
                READOUT, "How class scores are read", names, OF_SCALE, shown=titles.__getitem__, help=about("readout")
            )
            readout = None if chosen == OF_SCALE else chosen
            finetuned = models.finetuned_box(FINETUNED, "Fine-tuned model, of one task", base, help=FINETUNED_HELP,
                                              placeholder="the experiment's own")  # fmt: skip
            seeds = form.number(SEEDS, "Fine-tuning seeds", None, high=MOST_SEEDS, placeholder="1", help=SEEDS_HELP)
        for text in (base, finetuned, *tasks, *also):
            visitor.checked_task(text)
        for source in filter(None, (base, finetuned)):
            if why := models.absent_models(source):
                fetching.button(source)
                raise ModelNotFound(why)
    count = int(seeds) if seeds else None
    return ExperimentRequest(name, usual.name, base or None, None, tasks, count, readout, finetuned or None, also)


def _file() -> tuple[StudySpec, str] | None:
    """The study of a file on this machine or of an uploaded file, and its command; None if there is no file yet.

    The file is in the study's folder once the study is started.
    """
    if (linked := address.linked("new.file")) is not None:
        visitor.note_linked("new.file", (linked,))
    path = controls.typed("new.file", "Path of the file, on the machine of the dashboard", most=LONGEST)
    upload = uploads.uploader("or upload it", ["yaml", "yml"], key="study.upload", megabytes=1, owner=sign_in.owner())
    st.caption("A YAML file with a name, defaults (fields of every entry) and runs (the entries): docs/studies.md.")
    if upload is None and not (path and visitor.is_chosen("new.file", (path,), ())):
        return None
    study = typed(path) if upload is None else uploaded(upload.name, upload.getvalue())
    if why := claim(study):
        study = without_request(study)
        st.info(text.plain(why), icon=":material/info:")
    if warning := replaces(study):
        st.info(text.plain(warning), icon=":material/info:")
    file = study_path(cache.user_store().root, study) / FILE
    return study, f"python -m skillviz study run {shlex.quote(str(file))}"


def _plan_and_button(study: StudySpec, command: str) -> None:
    """Draws the plan and the time left if it is measured, then the button."""
    place = st.container()
    with place, st.spinner("Reading what is stored."):
        preview = cache.study_preview(study, cache.user_store(), 1)
    chosen = form.cluster("new.cluster") if preview.left else None
    workers = _workers() if preview.left > 1 and chosen is None else 1
    if workers > 1:
        preview = cache.study_preview(study, cache.user_store(), workers)
    left = f"**{formats.capital(preview.time)}**." if preview.left else "Everything is done already."
    place.markdown(f"{_counted(preview.plan, preview.left)} {left}")
    with st.expander("Steps"):
        st.dataframe(preview.steps, hide_index=True, alt="The steps of the study")
        exports.table_menu(preview.steps, file="study-steps", key="planned", caption="Planned steps of the study")
    side = f" --workers {workers}" if workers > 1 else ""
    side = f" --cluster {chosen}" if chosen else side
    with st.expander("Command line"):
        st.code(f"{command}{jobs_view.runs_dir_option()}{side}", language=None, wrap_lines=True)
    if in_place_of_button(study):
        return
    if chosen is not None and (why := form.cluster_refusal()):
        st.caption(f"Not yet: {text.plain(why)}")
        return
    if action("Start", type="primary", icon=":material/play_arrow:", key="study.start"):
        _start(study, workers, chosen)


def _counted(plan: StudyPlan, left: int) -> str:
    """The contents of a plan: `3 fine-tunings, 27 localizations, 9 scorings; 39 steps, 12 to do`."""
    parts = [
        formats.counted(count, noun)
        for kind, noun in study_words.STEP_KINDS.items()
        if (count := sum(s.kind == kind for s in plan.steps))
    ]
    total = len(plan.steps)
    todo = "all of them done before" if not left else f"**{left}** to do" if left < total else "none done before"
    return f"{formats.listed(parts, 3)}, then the tables: {total} steps, {todo}."


def _workers() -> int:
    """The number of processes; one until the user moves the slider."""
    most = min(MOST_WORKERS, cores())
    if most < 2:
        return 1
    help = "Each takes memory for its own models. On one machine they share its cores and its device."
    return controls.whole(WORKERS, "Processes side by side", 1, most, 1, help=help)


def _start(study: StudySpec, workers: int, cluster: str | None) -> None:
    """Starts a separate process, which keeps running without this page."""
    try:
        with st.spinner("Starting."):
            cache.refuse_study(study, cache.user_store())  # so that a refused study leaves no file
            path = write_study(study, cache.user_store())
            jobs_view.start_following(jobs.start_study(path, cache.user_store(), workers, backend_named(cluster)))
    except SkillvizError as error:
        st.error(text.plain(sign_in.sentence_of(error)), icon=":material/error:")
        return
    st.rerun()


def typed(path: str) -> StudySpec:
    """The study of a file on the dashboard's machine; raises BadInput."""
    return _checked(read_study(Path(expanded(visitor.checked_text(path)))))


def uploaded(name: str, content: bytes) -> StudySpec:
    """The study of an uploaded file; errors mention only the file's own name."""
    return _checked(read_study(Path(name).name, content))


def claim(study: StudySpec) -> str:
    """The reason why the study is the user's own although its file names an experiment; empty if there is no conflict.

    Pages judge a study of an experiment by the paper's claims; other entries would make these sentences false.
    """
    if not study.experiment or is_as_requested(study):
        return ""
    named = study_words.experiment_title(study.experiment)
    return (
        f"The file says that it is {named}, but its entries are not what that experiment asks: it will be a study of "
        "your own, and no claim of the paper is judged by it."
    )


def without_request(study: StudySpec) -> StudySpec:
    """The study without the experiment in its file."""
    return study.model_copy(update={"request": None})


def replaces(study: StudySpec) -> str:
    """The effect of the start on a different study of the user's with the same name, in words; empty if there is none.

    Raises BadInput if the name is not free: the stored study of that name is an experiment's or ships with skillviz, or
    its file has been changed since it was run and would be lost.
    """
    user_root, warning = cache.user_store().root, ""
    for store in cache.library().stores:
        path = study_path(store.root, study)
        if (conflict := _conflict(study, store)) is None:
            continue
        is_users, experiment = store.root == user_root, _experiment_of(path)
        if not is_users or experiment:
            stored = f"a stored study of {study_words.experiment_title(experiment)}" if experiment else "a stored study"
            way_on = ", or run it with `python -m skillviz study run FILE`" if is_users else ""
            raise BadInput(
                f"the name of the study, '{study.name}', is that of {stored}, which asks for something else: "
                f"give yours another name{way_on}."
            )
        if not _is_as_it_was_run(path):
            raise conflict
        warning = (
            f"You have a study '{study.name}' that asks for something else. Started, this file takes its place: runs "
            "and models that are finished stay, the tables will be those of this file."
        )
    return warning


def _conflict(study: StudySpec, store: Store) -> BadInput | None:
    """The error if the study's folder in a store has a file with different entries; else None."""
    try:
        refuse_edited(study, store)
    except BadInput as error:
        return error
    return None


def _experiment_of(path: Path) -> str | None:
    """The experiment of the study in a folder, from its file or its record; None if it has none."""
    with suppress(BadInput):
        if experiment := read_study(path / FILE).experiment:
            return experiment
    stored = open_study(path)
    return stored.record.experiment if stored is not None else None


def _is_as_it_was_run(path: Path) -> bool:
    """True if the file in a study's folder has the plan that was run last there."""
    stored = open_study(path)
    try:
        return stored is not None and stored.record.key == study_plan(stored.study).key
    except BadInput:
        return False


def _checked(study: StudySpec) -> StudySpec:
    """The study; raises BadInput for variables other than the project's, and for files that a visitor may not name."""
    for one in _texts(study.model_dump()):
        visitor.checked_task(one)
    return study


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, including names of fields, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in (*value, *value.values()):
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def states() -> Mapping[str, str]:
    """The status of each of the user's studies by its folder, and the status of a running study by its name too.

    The list shows a shipped study in place of the user's own study with the same name until the latter has tables. Only
    the status of a running study is then shown for the shipped one.
    """
    studies = _studies()
    running = {job.path.name: job.status for job in studies if job.is_open}
    return running | {str(job.path.resolve()): job.status for job in studies}


def in_place_of_button(study: StudySpec) -> bool:
    """True if this study is running; draws its bar in place of the button, since the cards above are out of sight.

    For a study that ended in this session, draws its outcome above the button.
    """
    job = _of(study)
    if job is None or not job.is_open:
        if job is not None and jobs_view.is_followed(job):
            st.markdown(f"{ENDED.get(job.status, job.status)}: [see above](#under-way).")
        return False
    st.fragment(_bar, run_every=jobs_view.EVERY)(study)
    return True


def _of(study: StudySpec) -> Job | None:
    path = study_path(cache.user_store().root, study)
    return next((job for job in _studies() if job.path == path), None)


def _bar(study: StudySpec) -> None:
    """Draws the bar of a running study; the card above redraws the page when the study ends."""
    job = _of(study)
    if job is not None and job.is_open:
        jobs_view.bar(job, jobs.progress(cache.user_store(), job.name))
        st.markdown(UNDER_WAY)


def begun_anew(study: StudyFolder) -> None:
    """Shows a note if the user's own study has no tables yet and a stored one of the same name is shown instead."""
    job = _named(study.name)
    if job is not None and job.path != study.path:
        st.info(
            f"You started this study again, and yours is **{job.status}**. Until it has tables, "
            "the stored ones are shown.",
            icon=":material/history:",
        )


def resume_button(name: str) -> None:
    """Draws a button that resumes the user's own study if it ended early."""
    job = _named(name)
    if job is not None and job.is_resumable:
        jobs_view.resume_button(job.name, "Resume it")


def _studies() -> Sequence[Job]:
    return jobs.list(cache.user_store(), finished=True, kind="study")


def _named(name: str) -> Job | None:
    return next((job for job in _studies() if job.name == name), None)

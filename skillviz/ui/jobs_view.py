"""Cards of jobs: queue, progress, search chart, log, cancel and resume. Everything is read from disk.

While a job is open only the panel is redrawn; the whole page is redrawn once when a job starts or ends.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import streamlit as st

from skillviz import jobs
from skillviz.core import formats
from skillviz.core.localizers.table import EXPRESSION
from skillviz.errors import UNKNOWN, RunNotFound, SkillvizError
from skillviz.jobs import words
from skillviz.jobs.job import Job, JobProgress, Kind
from skillviz.plots.overview import search_history
from skillviz.plots.region import cells, region_map
from skillviz.runs.folder import OPEN
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import option_of, usual_root
from skillviz.serving import sign_in
from skillviz.show import alt, beyond, sentences, text
from skillviz.show.briefs import headline_scores, headline_split, run_labels
from skillviz.show.glossary import about
from skillviz.show.region import READS as MAP_READS
from skillviz.ui import address, cache, job_words, page_table, study_choice
from skillviz.ui.chart import chart, theme
from skillviz.ui.controls import action
from skillviz.ui.job_words import Steps

EVERY = 1.0  # seconds between updates of an open job
SHOWN = (*OPEN, UNKNOWN)  # the statuses of jobs that have a card without being chosen
LOG_LINES = 15
STEPS, PROBLEM = "jobs.steps", "jobs.problem"
HEADINGS: dict[Kind, str] = {"run": "## Jobs", "study": "## Under way"}
READS = (
    "above, the training loss at each step; below, how many entries the step switched on (up) and off (down, hatched)."
)
CANCELS: dict[Kind, str] = {
    "run": "Stops within two seconds and keeps the last checkpoint, so you can resume it. The next job in "
    "the queue starts.",
    "study": "Finished steps are kept; starting again continues from there.",
}


def panel(kind: Kind, requested: Sequence[str] = (), heading: str = "") -> None:
    """Draws this session's jobs of a kind, the `requested` and all open ones; redrawn each second while one is open."""
    names = _followed(kind, requested)
    shown = _now(kind, names)
    _show_problem()
    if not shown:
        return
    st.markdown(heading or HEADINGS[kind], help=about("checkpoint") if kind == "run" else None)
    st.fragment(_live, run_every=EVERY if _open(shown) else None)(kind, names, _open(shown))


def follow(run_id: str) -> None:
    """Draws only one run's job, for the page that started it; redrawn each second while it is open."""
    if run_id not in _hidden("run"):
        card(run_id, "run")


def card(name: str, kind: Kind) -> None:
    """Draws the card of one job, even a hidden one; redrawn each second while it is open."""
    if shown := _now(kind, [name]):
        st.fragment(_alone, run_every=EVERY if shown[0].is_open else None)(name, kind, shown[0].is_open)


def start_following(job: Job) -> None:
    """Adds a job that was just started to this session's panel."""
    _hidden(job.kind).discard(job.name)
    st.session_state.setdefault(f"jobs.followed.{job.kind}", []).append(job.name)


def is_followed(job: Job) -> bool:
    """True if this session's panel shows the job."""
    return job.name in followed(job.kind)


def followed(kind: Kind) -> tuple[str, ...]:
    """The names of the jobs of a kind that this session's panel shows."""
    return _followed(kind, ())


def resume_button(job_name: str, label: str = "Resume") -> None:
    """Draws a button that resumes a job that ended early, for any page that lists it."""
    action(label, key=f"jobs.resume.listed.{job_name}", on_click=_act, args=(job_name, jobs.resume))


def _alone(name: str, kind: Kind, was_open: bool) -> None:
    """Draws the job's card; reruns the whole page once if the job has started or ended since."""
    shown = _now(kind, [name])
    if not shown or shown[0].is_open != was_open:
        st.rerun()
    _show_problem()
    _card(shown[0])


def _live(kind: Kind, names: tuple[str, ...], before: frozenset[str]) -> None:
    """Draws the cards; reruns the whole page once if a job has started, ended or been hidden since."""
    shown = _now(kind, names)
    if _open(shown) != before or followed(kind) != names:
        st.rerun()
    _show_problem()
    for job in shown:
        _card(job)


def _show_problem() -> None:
    """Shows once why the last cancel or resume was refused."""
    if sentence := st.session_state.pop(PROBLEM, ""):
        st.error(text.plain(sentence), icon=":material/error:")


def _followed(kind: Kind, requested: Sequence[str]) -> tuple[str, ...]:
    """The names of the jobs to show: a job that was open at some time in this session stays until it is hidden."""
    names: list[str] = st.session_state.setdefault(f"jobs.followed.{kind}", [])
    names += [name for name in dict.fromkeys((*requested, *_open_jobs(kind))) if name not in names]
    return tuple(name for name in dict.fromkeys(names) if name not in _hidden(kind))


def _hidden(kind: Kind) -> set[str]:
    hidden: set[str] = st.session_state.setdefault(f"jobs.hidden.{kind}", set())
    return hidden


def _open_jobs(kind: Kind) -> list[str]:
    """The open jobs of the user's own store, and those whose process cannot be seen from here; runs oldest first."""
    store = cache.user_store()
    if kind == "study":
        return [job.name for job in jobs.list(store, kind="study") if job.status in SHOWN]
    root = store.root.resolve()
    unfinished = cache.others()[0]
    return [run.id for run in reversed(unfinished) if run.record.status in SHOWN and run.path.parent.resolve() == root]


def _now(kind: Kind, names: Sequence[str]) -> list[Job]:
    """The jobs as they are now, without deleted ones; runs sorted by running, waiting by position, and ended."""
    shown = []
    for name in names:
        try:
            shown.append(jobs.status(cache.user_store(), name))
        except SkillvizError as error:
            if not isinstance(error, RunNotFound):
                st.session_state[PROBLEM] = sign_in.sentence_of(error)
    if kind == "study":
        return shown
    return sorted(shown, key=lambda job: (not job.is_open, job.status != "running", job.slot, job.position or 0))


def _open(shown: Sequence[Job]) -> frozenset[str]:
    return frozenset(job.name for job in shown if job.is_open)


def _card(job: Job) -> None:
    with st.container(border=True, key=f"{'job' if job.kind == 'run' else 'study'}-{job.path.name}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            color, icon = job_words.STATUS[job.status]
            st.badge(job.status, icon=icon, color=color)  # type: ignore[arg-type]
            labels = run_labels(cache.briefs()) if job.status == "finished" else {}
            st.markdown(f"**{text.plain(title(job, labels))}**", width="content")
        if job.kind == "run":
            st.caption(job_words.models(job))
        _BODIES[job.status](job)
        has_log = job.status != "finished"
        with st.expander("Details and log" if has_log else "Details", key=f"jobs.log.{job.path.name}"):
            st.caption(f"{'Run' if job.kind == 'run' else 'Study'} `{job.name}`")
            if has_log:
                st.code(jobs.log_tail(cache.user_store(), job.name, LOG_LINES) or "nothing yet", language=None)


def title(job: Job, labels: Mapping[str, str]) -> str:
    """The title of a job: a finished run's label in the run bar (`labels`), another run's settings, a study's name."""
    return labels.get(job.name) or (job_words.label(job.run) if job.kind == "run" else job.name)


def _queued(job: Job) -> None:
    st.markdown(job_words.waits(job))
    _cancel_button(job)


def _running(job: Job) -> None:
    progress = jobs.progress(cache.user_store(), job.name)
    if progress.phase not in (*words.PHASES, "steps"):  # it ended between the two reads
        return
    bar(job, progress)
    if job.kind == "run":
        _search_chart(job)
        if _growing_region(job) and progress.phase == "search" and job.spec.data_parallel == 1:
            _keep_button(job)
    _cancel_button(job)


def bar(job: Job, progress: JobProgress) -> None:
    """Draws the progress bar of a running job."""
    if job.kind == "study":
        shown = replace(progress, title=text.plain(progress.title))
        st.progress(progress.share or 0.0, words.study_progress(shown))
    else:
        st.progress(job_words.share(progress), words.run_progress(progress))


def _search_chart(job: Job) -> None:
    stored: dict[str, Steps] = st.session_state.setdefault(STEPS, {})
    steps = stored.setdefault(job.name, Steps())
    for events, place in jobs.pieces(cache.user_store(), job.name, steps.place):
        steps.add(events, place)
    history, title = steps.drawing(job.spec.localizer, time.monotonic())
    if len(history) > 1:
        chart(
            search_history(history, theme=theme(), height=320),
            name=f"job-{job.name}",
            title=title,
            reads=READS,
            alt=alt.history(history),
            table=history,
            run_id=job.name,
        )


def growing_regions() -> None:
    """Draws, in a fold of the page of regions, the jobs of this session while one of them is searching."""
    store = cache.user_store()
    shown = [job.name for job in _now("run", followed("run")) if job.status == "running"]
    if any(jobs.growing(store, name) and jobs.progress(store, name).phase == "search" for name in shown):
        with st.expander("A search is under way: watch its region grow", icon=":material/animation:"):
            panel("run", heading=" ")


def _growing_region(job: Job) -> bool:
    """Draws where the region of a running search lies so far; returns whether it has one."""
    if (found := jobs.growing(cache.user_store(), job.name)) is None:
        return False
    drawn, layers = found
    table = cells(layers)  # drawn without the cache of exhibits: each map is seen once
    of = f" of {drawn['total']}" if drawn["total"] else ""
    chart(
        region_map(layers, view="density", theme=theme(), height=300),
        name=f"growing-{job.name}",
        title=f"The region after step {drawn['step']}{of}",
        reads=f"where the {formats.counted(int(layers['selected'].sum()), 'entry')} lie that the search has chosen so "
        f"far, of {drawn['target']:,}; {MAP_READS['density']}",
        alt=alt.region_map(table, "density"),
        table=table,
        run_id=job.name,
    )
    return True


def _keep_button(job: Job) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        _button("Stop and keep the region", "keep", job, jobs.keep, icon=":material/save:")
        st.caption(
            "Ends the search now and keeps finished sizes, or else the region above. The run says where it stopped."
        )


def _cancel_button(job: Job) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        _button("Cancel", "cancel", job, jobs.cancel, icon=":material/stop_circle:")
        st.caption(CANCELS[job.kind])


def _finished(job: Job) -> None:
    if job.kind == "study":
        st.markdown("All its steps are finished; its tables, pictures and verdicts are below.")
    elif (scores := headline_scores(job.run)) is not None:
        st.markdown(f"{sentences.overview(job.run, scores)} {beyond.line(job.run, headline_split(job.run))}")
    with st.container(horizontal=True, vertical_alignment="center"):
        if job.kind == "study":
            choice = (study_choice.STUDY, job.name)
            st.button("Show it", key=f"jobs.show.{job.path.name}", on_click=address.keep, args=choice)
        else:
            link = page_table.PAGES["overview"].link()
            query = {address.RUN: job.name}
            st.page_link(link, label="Open the run", icon=":material/open_in_full:", query_params=query)
        _hide_button(job)


def _failed(job: Job) -> None:
    if job.kind == "study":
        steps = [f"- **{text.plain(title)}**: {text.plain(why)}" for title, why in job.failed_steps.items()]
        failed = f"{formats.counted(len(steps), 'step')} failed." if steps else "It could not start; see the log."
        st.error(failed, icon=":material/error:")
        st.markdown("\n".join(steps))
    else:
        title, advice = job_words.failure(job.error.kind if job.error else "")
        message = job.error.message if job.error else "No reason was stored."
        st.error(f"**{title}.** {text.plain(message)}", icon=":material/error:")
        st.caption(f"What to do: {advice}")
    _again(job)


def _ended_early(job: Job) -> None:
    st.caption(
        words.ended_early(job.finished_steps)
        if job.kind == "study"
        else "Cancelled. It resumes from its last checkpoint, or starts over if there is none."
    )
    _again(job)


def _unknown(job: Job) -> None:
    if job.error is not None:
        title, advice = job_words.failure(job.error.kind)
        st.warning(f"**{title}.** {job.error.message} {advice}", icon=":material/help:")
    _again(job)


def _again(job: Job) -> None:
    """Draws Resume, a link to try other settings, and Hide."""
    with st.container(horizontal=True, vertical_alignment="center"):
        _button("Resume", "resume", job, jobs.resume, icon=":material/resume:")
        if job.kind == "run":
            _settings_link(job.spec)
        _hide_button(job)


def _settings_link(spec: RunSpec) -> None:
    """Links to the form with these settings; a region built by hand opens in surgery, if its pair has a run."""
    if spec.localizer != EXPRESSION:
        form = page_table.PAGES["launch"].link()
        st.page_link(form, label="Open in the form", icon=":material/edit:", query_params=job_words.form_of(spec))
        return
    pair, expression = (spec.base, spec.finetuned), spec.options.get(EXPRESSION)
    run_id = next((brief.id for brief in cache.briefs() if (brief.base, brief.finetuned) == pair), None)
    if run_id is not None and expression:
        typed = expression if isinstance(expression, str) else json.dumps(expression)
        surgery = page_table.PAGES["surgery"].link()
        query = {address.RUN: run_id, EXPRESSION: typed}
        st.page_link(surgery, label="Open in surgery", icon=":material/edit:", query_params=query)


_BODIES: dict[str, Callable[[Job], None]] = {
    "queued": _queued, "running": _running, "finished": _finished, "failed": _failed, "cancelled": _ended_early,
    "stopped": _ended_early, "unknown": _unknown,
}  # fmt: skip


def _button(label: str, name: str, job: Job, act: Callable[..., Job], icon: str) -> None:
    action(label, key=f"jobs.{name}.{job.path.name}", on_click=_act, args=(job.name, act), icon=icon)


def _act(name: str, act: Callable[..., Job]) -> None:
    """Cancels or resumes a job; the reason of a refusal is shown once."""
    for kind in HEADINGS:
        _hidden(kind).discard(name)
    st.session_state.setdefault(STEPS, {}).pop(name, None)
    try:
        act(cache.user_store(), name)
    except SkillvizError as error:
        st.session_state[PROBLEM] = sign_in.sentence_of(error)


def _hide_button(job: Job) -> None:
    hide = _hidden(job.kind).add
    st.button("Hide", key=f"jobs.hide.{job.path.name}", on_click=hide, args=(job.name,), help="Nothing is deleted.")


def runs_dir_option() -> str:
    """` --runs-dir FOLDER` with the page's store, for a command line.

    Empty if a terminal finds the store by itself, and if users sign in, because their terminals are on other machines.
    """
    return "" if sign_in.providers() else option_of(cache.user_store().root, usual_root())

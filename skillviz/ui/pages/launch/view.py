"""The end of the form: what will be done, how long it takes, what differs from the paper, and the button."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from skillviz import jobs
from skillviz.core import formats
from skillviz.core.size import parse_size
from skillviz.errors import SkillvizError
from skillviz.jobs.devices import chosen as taken
from skillviz.jobs.slots import queue, slot_of
from skillviz.runs.estimate import OTHERS, Facts, estimate
from skillviz.runs.spec import RunSpec, read_spec
from skillviz.show import text
from skillviz.tasks.task import Hub
from skillviz.ui import address, cache, jobs_view
from skillviz.ui.pages.launch import words
from skillviz.ui.pages.launch.models import Choices

STARTED = "jobs"  # in the address: what was started here
READ = "new.read"  # in the session: tasks of the hub whose data were asked for
CAPS = ("max_train", "max_validation", "max_test")


def check_and_start(choices: Choices) -> None:
    """Draws the summary; the button starts a job for each seed."""
    with st.container(border=True):
        st.markdown("### Before it starts")
        facts = _facts(choices)
        spec = _spec(choices, facts)
        if spec is not None:
            _told(choices, spec, facts)
        _button(choices, spec)


def started() -> tuple[str, ...]:
    """The jobs that were started here, as the address has them."""
    return tuple(filter(None, (address.current(STARTED) or "").split(",")))


def _facts(choices: Choices) -> Facts | None:
    """What headers and data say; None where they are not here, or something stands against the pair or the task."""
    if choices.found is None or not choices.found.fits or choices.task is None:
        return None
    if isinstance(choices.task.data, Hub) and not _wanted(choices.task.name):
        return None
    names = ("base", "finetuned", "task", "readout", "k_shot", "data_seed")
    try:
        with st.spinner("Reading the task's data for the estimate."):
            return cache.facts(read_spec({name: choices.values.get(name) for name in names}))
    except SkillvizError as error:
        choices.refuse(str(error.args[0]))
        return None


def _wanted(task: str) -> bool:
    """Whether the data of a task of the hub may be read: only on request, as they may have to be fetched."""
    tasks: set[str] = st.session_state.setdefault(READ, set())
    if task in tasks:
        return True
    st.caption("The data of this task come from the hub; without them there is no estimate before the start.")
    st.button("Read the data now", on_click=tasks.add, args=(task,), icon=":material/cloud_download:")
    return False


def _spec(choices: Choices, facts: Facts | None) -> RunSpec | None:
    """The run that is asked for, with its first seed; None where the fields do not make one."""
    values, counts = dict(choices.values), dict(facts.counts) if facts else {}
    if choices.is_trial:
        caps = words.trial_caps(counts)
        values |= {cap: min(caps[cap], values.get(cap) or caps[cap]) for cap in CAPS}
        choices.told.caption(words.trial(counts, {cap: values[cap] for cap in CAPS}))
    if not (values["base"] and values["finetuned"]):  # not chosen yet, which is said
        return None
    try:
        return read_spec({**values, "seed": choices.seeds[0]})
    except SkillvizError as error:
        choices.refuse(str(error.args[0]))
        return None


def _told(choices: Choices, spec: RunSpec, facts: Facts | None) -> None:
    """What will be done, how long it takes, where it differs from the paper, and the command that does the same."""
    d = choices.found.d if choices.found else None
    sizes = _sizes(spec, d) if d else ()
    name = choices.task.name if choices.task else spec.task
    st.markdown(words.summary(spec, name, sizes, d, len(choices.seeds)))
    if facts is not None and sizes:
        _estimate(spec, replace(facts, sizes=sizes, counts=_capped(facts, spec)), len(choices.seeds))
    readout = choices.readout or (choices.found.readout if choices.found else "")
    counts = facts.counts if facts else {}
    differences = words.paper(spec, [size / d for size in sizes] if d else [], readout, counts)
    with st.expander(f"Where this differs from the paper: {formats.counted(len(differences), 'point')}"):
        st.markdown("\n".join(f"- {sentence}" for sentence in differences) or "Nowhere that these choices tell.")
    with st.expander("The same as a command line"):
        st.code("\n".join(_command(one) for one in _each(spec, choices.seeds)), language="bash", wrap_lines=True)


def _sizes(spec: RunSpec, d: int) -> tuple[int, ...]:
    """The sizes in entries; none where one cannot be read, which was said beside it."""
    try:
        return tuple(parse_size(size, d) for size in spec.sizes)
    except SkillvizError:
        return ()


def _capped(facts: Facts, spec: RunSpec) -> dict[str, int]:
    """Rows by split as the run takes them, and those of the other tasks that are known."""
    caps = {"train": spec.max_train, "validation": spec.max_validation, "test": spec.max_test}
    counts = {split: min(count, caps.get(split) or count) for split, count in facts.counts.items()}
    others = [rows for name in spec.others if (rows := cache.scored_rows(name)) is not None]
    return {**counts, OTHERS: sum(min(rows, spec.max_test or rows) for rows in others)}


def _estimate(spec: RunSpec, facts: Facts, several: int) -> None:
    """Time and memory, and a warning where the memory that is free is not enough."""
    device = taken(spec.device, cache.devices())
    if device is None:
        return
    duration = estimate(spec, replace(facts, device=device.name.partition(":")[0]), cache.records())
    before = len(queue(cache.user_store().root, slot_of(spec.device)))
    st.markdown(words.expected(duration, several, device.free, before))
    unknown = [text.plain(name) for name in spec.others if cache.scored_rows(name) is None]
    if unknown:
        st.caption(f"Not counted, as its examples are not here yet: scoring on {formats.listed(unknown, 4)}.")
    if duration.bytes > device.free > 0:
        st.warning(
            "That is more memory than is free: the job may end out of memory. bfloat16, fewer examples a step, or a "
            "smaller model need less.",
            icon=":material/memory_alt:",
        )


def _each(spec: RunSpec, seeds: Sequence[int]) -> list[RunSpec]:
    return [spec.model_copy(update={"seed": seed}) for seed in seeds]


def _command(spec: RunSpec) -> str:
    """The command line; it names the store where a terminal would not find it by itself."""
    return f"{spec.command()} --detach{jobs_view.runs_dir_option()}"


def _button(choices: Choices, spec: RunSpec | None) -> None:
    wanted = _each(spec, choices.seeds) if spec is not None else []
    others, _ = cache.others()
    open_keys = {other.record.key: other.id for other in others if other.record.status in ("queued", "running")}
    twice = next((open_keys[one.key()] for one in wanted if one.key() in open_keys), "")
    label = "Start" if len(wanted) < 2 else f"Start {len(wanted)} jobs"
    is_off = bool(choices.problems or twice or not wanted)
    if st.button(label, type="primary", disabled=is_off, icon=":material/play_arrow:", key="new.start"):
        _start(wanted)
    elif choices.problems:
        st.caption(f"Not yet: {text.plain(choices.problems[0])}")
    elif twice:
        st.caption(f"This very localization waits or runs already, as `{twice}`. Another seed would be another run.")


def _start(wanted: Sequence[RunSpec]) -> None:
    """One job each; they go on without this page."""
    store, ids, problem = cache.user_store(), list(started()), ""
    try:
        with st.spinner("Starting."):
            for spec in wanted:
                ids.append(jobs.start(spec, store).run_id)
    except SkillvizError as error:
        problem = str(error.args[0])
    if ids:
        address.keep(STARTED, ",".join(ids[-words.MOST_SEEDS :]))
    if problem:
        st.error(text.plain(problem), icon=":material/error:")
    else:
        st.rerun()

"""The end of the form: a summary of the run, its memory, its differences from the paper, and the start button."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

import streamlit as st

from skillviz import jobs
from skillviz.core import formats
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.size import parse_size
from skillviz.errors import LiveError, SkillvizError
from skillviz.jobs.backend import Backend
from skillviz.jobs.devices import chosen as device_for
from skillviz.jobs.slots import position_of_next, slot_of
from skillviz.jobs.slurm import backend_named
from skillviz.plots.theme import localizer_style
from skillviz.runs.folder import OPEN
from skillviz.runs.memory import Facts, cost_of, peak_bytes
from skillviz.runs.pace import OTHERS, work_words
from skillviz.runs.spec import KINDS, NO_NULLS, RunSpec, read_spec
from skillviz.serving import sign_in
from skillviz.show import text
from skillviz.show.briefs import READOUT_TITLES
from skillviz.studies.paper.setting import READOUT, SEARCH, SIZES, SettingRow
from skillviz.tasks.task import Hub
from skillviz.ui import address, cache, jobs_view, live, show_code, study_choice
from skillviz.ui.page_table import PAGES
from skillviz.ui.pages.launch.models import Choices
from skillviz.ui.pages.launch.search import MOST_SEEDS

STARTED = "jobs"  # in the address: the runs that were started here
SCROLLS = "new.scrolls"  # session key: a job was just started, and the page scrolls to its card once
START_BAR = "start-bar"
READ = "new.read"  # session key: tasks of the hub whose data the user asked to read
CAPS = {"max_train": "train", "max_validation": "validation", "max_test": "test"}
AT_ONCE, LOOKS = 0.5, 1.0  # seconds that the form waits for notes on texts, and seconds between later checks
MOST_LINKS = 3  # links to stored runs beside the button
LEAST_EXAMPLES = {"max_train": 128, "max_validation": 100, "max_test": 100}  # the smallest useful trial
PAPER_SHARE = 1e-4
PAPER_STEPS, PAPER_BATCH, PAPER_SHOTS = 100, 1024, (64, 4096)
SCROLL = """<script>
  let tries = 0;
  const look = setInterval(() => {
    const card = document.querySelector("CARD");
    if (card) card.scrollIntoView({block: "start"});
    if (card || ++tries > 50) clearInterval(look);
  }, 100);
</script>"""  # the card may be drawn a moment later
OPENING = "Choose a pair of models, a task and a search. You can close this page; the job keeps running."


def check_and_start(choices: Choices) -> None:
    """Draws the sticky bar with the button, which starts one job per seed, and the summary under it."""
    bar = st.container(key=START_BAR, horizontal=True, vertical_alignment="center")
    with st.container(border=True):
        st.markdown("## Summary")
        facts = _facts(choices)
        spec = _spec(choices, facts)
        if spec is not None:
            _show_plan(choices, spec, facts)
        elif choices.preflight is not None:
            _list_notes(choices.preflight.notes)
    with bar:
        _button(choices, spec)


def _note(choices: Choices, spec: RunSpec) -> None:
    """Draws the notes that the run will store, as preflight and --dry-run print them, and the reasons for a refusal.

    The notes on texts are from the worker and appear later if it has to be started.
    """
    by_split, doubt = dict[str, list[str]](), ""
    try:
        reading = cache.encoding_notes(spec, live.client(cache.user_store().root))
        try:
            by_split = reading.result(AT_ONCE)
        except TimeoutError:
            doubt = "Reading the texts as the models do: notes on them follow."
            _wait_for(reading)
        except LiveError as error:
            doubt = f"Whether texts are shortened or changed is not known: {text.plain(sign_in.sentence_of(error))}"
        _list_notes(cache.notes_before_start(spec, by_split), doubt)
    except SkillvizError as error:
        choices.refuse(sign_in.sentence_of(error))


@st.fragment(run_every=LOOKS)
def _wait_for(reading: Future[dict[str, list[str]]]) -> None:
    """Redraws the form once the texts are read."""
    if reading.done():
        st.rerun()


def _list_notes(notes: Sequence[str], doubt: str = "") -> None:
    if notes:
        st.markdown("\n".join(["**Notes**\n", *(f"- {text.plain(note)}" for note in notes)]))
    if doubt:
        st.caption(doubt)


def started() -> tuple[str, ...]:
    """The ids of the jobs that were started here, from the address."""
    return tuple(filter(None, (address.current(STARTED) or "").split(",")))


def scroll_to_job() -> None:
    """Scrolls to the job's card once after a start."""
    if run_id := st.session_state.pop(SCROLLS, ""):
        st.html(SCROLL.replace("CARD", f".st-key-job-{run_id}"), unsafe_allow_javascript=True)


def _facts(choices: Choices) -> Facts | None:
    """The facts from headers and data; None if these are not here, or if the pair or the task has a problem."""
    if choices.preflight is None or not choices.preflight.fits or choices.task is None:
        return None
    if isinstance(choices.task.data, Hub) and not _may_read(choices.task.name):
        return None
    names = ("base", "finetuned", "task", "readout", "k_shot", "data_seed")
    try:
        with st.spinner("Reading the task's data."):
            return cache.facts(read_spec({name: choices.values.get(name) for name in names}))
    except SkillvizError as error:
        choices.refuse(sign_in.sentence_of(error))
        return None


def _may_read(task: str) -> bool:
    """True if the user has asked to read this hub task's data, which may need a download; else draws the button."""
    tasks: set[str] = st.session_state.setdefault(READ, set())
    if task in tasks:
        return True
    st.caption("The data of this task come from the hub; without them, work and memory are not known before the start.")
    st.button("Read the data now", on_click=tasks.add, args=(task,), icon=":material/cloud_download:")
    return False


def _spec(choices: Choices, facts: Facts | None) -> RunSpec | None:
    """The run of these choices with its first seed; None if the fields do not make a run."""
    values, counts = dict(choices.values), dict(facts.counts) if facts else {}
    if choices.is_trial:
        caps = trial_caps(counts)
        values |= {cap: min(caps[cap], values.get(cap) or caps[cap]) for cap in CAPS} | {"nulls": NO_NULLS}
        choices.trial_note.caption(trial_words(counts, {cap: values[cap] for cap in CAPS}))
    if not (values["base"] and values["finetuned"]):  # not chosen yet, as the form shows already
        return None
    try:
        return read_spec({**values, "seed": choices.seeds[0]})
    except SkillvizError as error:
        choices.refuse(sign_in.sentence_of(error))
        return None


def _show_plan(choices: Choices, spec: RunSpec, facts: Facts | None) -> None:
    """Draws the summary of the run, its work and memory, its differences from the paper, and the equivalent command."""
    d = choices.preflight.d if choices.preflight else None
    try:
        sizes = tuple(parse_size(size, d) for size in spec.sizes) if d else ()
    except SkillvizError:  # shown beside the field
        sizes = ()
    name = choices.task.name if choices.task else spec.task
    st.markdown(summary(spec, name, sizes, d, len(choices.seeds)))
    if choices.cluster is not None:
        st.caption("The time depends on the cluster's nodes and queue; the Jobs page shows how many jobs are ahead.")
    elif facts is not None and sizes:
        _show_needs(spec, replace(facts, sizes=sizes, counts=_rows_used(facts, spec)), len(choices.seeds))
    if facts is not None:
        _note(choices, spec)
    elif choices.preflight is not None:
        _list_notes(choices.preflight.notes)
    readout = choices.readout or (choices.preflight.readout if choices.preflight else "")
    counts = facts.counts if facts else {}
    has_classes = choices.task is None or choices.task.has_classes
    differences = paper_differences(spec, [size / d for size in sizes] if d else [], readout, counts, has_classes)
    with st.expander(f"Where this differs from the paper: {formats.counted(len(differences), 'point')}"):
        if differences:
            study_choice.setting_table(differences)
        else:
            st.markdown("These choices do not differ from the paper.")
    show_code.draw(spec.python(), "Python that makes this run:")
    with st.expander("As a command"):
        # the store is named if a terminal would not find it by itself
        where = f" --cluster {choices.cluster}" if choices.cluster else " --detach"
        more = f"{where}{jobs_view.runs_dir_option()}"
        commands = [f"{each.command()}{more}" for each in _of_each_seed(spec, choices.seeds)]
        st.code("\n".join(commands), language=None, wrap_lines=True)


def _rows_used(facts: Facts, spec: RunSpec) -> dict[str, int]:
    """The rows by split after the caps, with the known rows of the other tasks."""
    caps = {"train": spec.max_train, "validation": spec.max_validation, "test": spec.max_test}
    counts = {split: min(count, caps.get(split) or count) for split, count in facts.counts.items()}
    others = [rows for name in spec.others if (rows := cache.scored_rows(name)) is not None]
    return {**counts, OTHERS: sum(min(rows, spec.max_test or rows) for rows in others)}


def _show_needs(spec: RunSpec, facts: Facts, count: int) -> None:
    """Draws work and memory, and a warning if there is not enough free memory."""
    device = device_for(spec.device, cache.devices())
    if device is None:
        return
    facts = replace(facts, device=device.name.partition(":")[0])
    work = work_words(spec, cost_of(spec, facts), facts.counts, facts.sizes, facts.kinds)
    needed = peak_bytes(spec, facts)
    before = position_of_next(cache.user_store().root, slot_of(spec.device))
    st.markdown(needs(work, needed, count, device.free, before))
    unknown = [text.plain(name) for name in spec.others if cache.scored_rows(name) is None]
    if unknown:
        st.caption(f"Not included, because its data are not downloaded yet: scoring on {formats.listed(unknown, 4)}.")
    if needed > device.free > 0:
        st.warning(
            "That is more than the free memory, so the job would be refused. Lean mode, bfloat16 or a smaller model "
            "need less.",
            icon=":material/memory_alt:",
        )


def _of_each_seed(spec: RunSpec, seeds: Sequence[int]) -> list[RunSpec]:
    return [spec.model_copy(update={"seed": seed}) for seed in seeds]


def _button(choices: Choices, spec: RunSpec | None) -> None:
    specs = _of_each_seed(spec, choices.seeds) if spec is not None else []
    unfinished, _ = cache.others()
    open_runs = {run.record.key: run.id for run in unfinished if run.record.status in OPEN}
    open_already = [open_runs[key] for each in specs if (key := each.key()) in open_runs]
    finished = {record.key: record.run_id for record in cache.records()}
    stored = [finished[key] for each in specs if (key := each.key()) in finished]
    specs = [each for each in specs if each.key() not in finished]
    label = "Start" if len(specs) < 2 else f"Start {len(specs)} jobs"
    is_off = bool(choices.problems or open_already or not specs)
    if st.button(label, type="primary", disabled=is_off, icon=":material/play_arrow:", key="new.start"):
        _start(specs, backend_named(choices.cluster))
    elif choices.problems:
        st.caption(f"Not yet: {text.plain(choices.problems[0])}")
    elif open_already:
        is_ours = not set(open_already).isdisjoint(started())
        begun = ":material/check_circle: Started." if is_ours else "These settings are already queued or running."
        st.caption(f"{begun} Follow it below or on *Jobs*. To start another, choose another seed.")
    elif stored:
        count = f"{formats.counted(len(stored), 'run')} with these settings"
        st.caption(f"{count} {'is' if len(stored) == 1 else 'are'} stored already. Choose another seed for a new one.")
        for run_id in stored[:MOST_LINKS]:
            link, query = PAGES["overview"].link(), {address.RUN: run_id}
            st.page_link(link, label="Open the stored run", icon=":material/open_in_full:", query_params=query)


def _start(specs: Sequence[RunSpec], backend: Backend) -> None:
    """Starts one job per spec; they keep running without this page."""
    store, ids, problem = cache.user_store(), list(started()), ""
    try:
        with st.spinner("Starting."):
            for spec in specs:
                ids.append(jobs.start(spec, store, backend=backend).run_id)
    except SkillvizError as error:
        problem = sign_in.sentence_of(error)
    if ids:
        address.keep(STARTED, ",".join(ids[-MOST_SEEDS:]))
        st.session_state[SCROLLS] = ids[-1]
    if problem:
        st.error(text.plain(problem), icon=":material/error:")
    else:
        st.rerun()


def trial_caps(counts: Mapping[str, int]) -> dict[str, int]:
    """A hundredth of each split, but at least the examples of a useful trial."""
    return {cap: max(least, counts.get(CAPS[cap], 0) // 100) for cap, least in LEAST_EXAMPLES.items()}


def trial_words(counts: Mapping[str, int], caps: Mapping[str, int]) -> str:
    """The numbers of examples that the trial uses, in words."""
    if not counts:
        words = [f"{most:,} {CAPS[cap]}" for cap, most in caps.items()]
        return f"Uses at most {formats.listed(words, 3)} examples. The data are not downloaded yet."
    words = [
        f"{min(most, counts[CAPS[cap]]):,} of {counts[CAPS[cap]]:,} {CAPS[cap]}"
        for cap, most in caps.items()
        if CAPS[cap] in counts
    ]
    return f"Uses {formats.listed(words, 3)} examples: too few for a claim, enough to see that everything works."


def summary(spec: RunSpec, task: str, sizes: Sequence[int], d: int | None, jobs: int) -> str:
    """The effect of the start button, in one or two sentences."""
    row = LOCALIZERS[spec.localizer]
    name = localizer_style(spec.localizer).title
    told = [f"{size:,} ({formats.share(size / d)})" for size in sizes] if d and sizes else []
    shares = told or [text.plain(size) for size in spec.sizes]
    what = f"a region of **{formats.listed(shares, 4)}**" if row.budgeted else "a region whose size is an outcome"
    of = f" of {d:,} graftable parameters" if d else ""
    runs = "" if jobs == 1 else f", {jobs} times with different seeds"
    pair = f"{text.last_part(spec.base)} → {text.last_part(spec.finetuned)}"
    named = f", task *{text.tasks(task)}*" if task.strip("-") else ""
    nulls = len(spec.null_searches)
    too = f" The same search runs on {formats.counted(nulls, 'null movement')} too." if nulls else ""
    if isinstance(spec.gain, str):
        too += f" Each graft gets a gain of its own{', and one by module kind' if spec.gain == KINDS else ''}."
    elif spec.gain != 1:
        too += f" Each graft moves {spec.gain:g} times as far as fine-tuning did."
    return f"**{name}** will look for {what}{of} in *{text.plain(pair)}*{named}{runs}.{too}"


def needs(work: str, needed: float, jobs: int, free: int, queued: int) -> str:
    """The work and the memory of the jobs."""
    waits = f" {formats.counted(queued, 'job')} ahead in the queue." if queued else ""
    return (
        f"Work: **{work}**{' in each job' if jobs > 1 else ''}; *Jobs* shows the time left once it is measured. "
        f"Memory: **{formats.byte_size(needed)}** of {formats.byte_size(free)} that are free.{waits}"
    )


def paper_differences(
    spec: RunSpec, shares: Sequence[float], readout: str, counts: Mapping[str, int], has_classes: bool = True
) -> list[SettingRow]:
    """The differences between these choices and the paper's."""
    rows = _search_differences(spec, shares)
    if spec.k_shot not in PAPER_SHOTS or not has_classes:
        each = "a class" if has_classes else "in all"
        here = f"{spec.k_shot:,} {each}" if spec.k_shot else f"all {counts['train']:,}" if counts else "all there are"
        shots = " or ".join(f"{shots:,}" for shots in PAPER_SHOTS)
        rows.append(SettingRow("Training examples", f"{shots} a class, over five drawn sets", here))
    if readout == "head":
        rows.append(
            SettingRow(READOUT, "mostly label words, off the language model's own head", READOUT_TITLES["head"])
        )
    return rows


def _search_differences(spec: RunSpec, shares: Sequence[float]) -> list[SettingRow]:
    """The learned mask's options that differ from the paper's; for other localizers, method, steps and size."""
    row = LOCALIZERS[spec.localizer]
    if spec.localizer == "learned":
        values = {**spec.options, "steps": spec.steps, "batch_size": spec.batch_size}
        chosen = [(o, o.default if values.get(o.name) is None else values[o.name]) for o in row.shown_options]
        return [SettingRow(o.title, _value(o.paper), _value(value)) for o, value in chosen if value != o.paper]
    role = "a comparison there" if row.is_from_paper else "ours"
    size = "of exactly this size" if row.budgeted else "sets its own size"
    rest = "; outside the region the model is zero, so it is no graft" if row.rest == "zero" else ""
    rest += "; the movement is rescaled, so it is no graft" if row.rescaled else ""
    name = localizer_style(spec.localizer).title
    rows = [SettingRow(SEARCH, "a learned mask, whose size is an outcome", f"{name} ({role}), {size}{rest}")]
    steps, batch = row.option("steps"), row.option("batch_size")
    if steps and batch:
        here = f"{spec.steps or steps.default} steps of {spec.batch_size or batch.default} examples"
        rows.append(SettingRow("Search", f"{PAPER_STEPS} steps of {PAPER_BATCH:,} examples", here))
    if shares and not PAPER_SHARE / 2 <= shares[0] <= PAPER_SHARE * 2:
        paper = f"about {formats.share(PAPER_SHARE)} of RoBERTa-base; a smaller model needs a larger share"
        rows.append(SettingRow(SIZES, paper, formats.share(shares[0])))
    return rows


def _value(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"

"""The sections of the surgery page: the built region, its graft compared with random regions, and a typed sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz import jobs
from skillviz.core import formats
from skillviz.core.draws import CONTROLS
from skillviz.core.localizers.table import EXPRESSION
from skillviz.core.metrics import metric_heading
from skillviz.core.region_expression import canonical, parsed
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED
from skillviz.errors import SkillvizError, StoreError
from skillviz.jobs.job import Job
from skillviz.plots.region import cells
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.serving import sign_in
from skillviz.show import gain, measures, sentences, text
from skillviz.show import surgery as exhibits
from skillviz.show.briefs import RunBrief, headline_split
from skillviz.show.glossary import about
from skillviz.show.surgery import RANDOM, REGION, SAME_TENSORS, Grafted
from skillviz.ui import address, cache, controls, exports, jobs_view, live, page, page_table, show_code
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import chip_text
from skillviz.ui.controls import action
from skillviz.ui.pages.surgery import region_form
from skillviz.ui.pages.surgery.region_form import HandRegion
from skillviz.ui.run_list import pair_briefs

SAMPLES = (50, 100, 200, 500, 1000)
USUAL = 200
TYPED = ("pretrained", "grafted", "finetuned", "complement")
JOINTS = {NO_DIFFERENCE: "from", NOT_MEASURED: "against"}
"""The word after a verdict that is not a comparative."""
LONGEST = 600
JOB = "job"


def built(run: Run) -> HandRegion:
    """The counted region that the form describes; shows an explanation and stops if there is none."""
    with page.explained():
        table, names = region_form.table_of(run), region_form.names(pair_briefs(run))
    expression = region_form.chosen(run, table, names)
    with page.explained():
        return region_form.hand_region_of(run, expression, table)


def meaning(run: Run, region: HandRegion) -> None:
    """Draws the selection in words, with a note if it is empty or everything."""
    names = region_form.names(pair_briefs(run))
    sentence, scaled = (
        region_form.sentence(region.expression, names, region.size, region.d),
        gain.of_region(run.record, region.expression, region.size),
    )
    words = ("region", "graft", "size", "scale") if scaled else ("region", "graft", "size")
    st.markdown(f"{sentence} {scaled}", help=about(*words))
    if not region.size:
        st.info(
            "Your region is empty, so its graft is the pre-trained model. Choose layers, modules or rows.",
            icon=":material/check_box_outline_blank:",
        )
    elif region.size == region.d:
        st.info(
            "Your region is everything that can be grafted: its graft has all blocks of the fine-tuned model. A random "
            "region of this size is the same one.",
            icon=":material/select_all:",
        )


def counts(region: HandRegion) -> None:
    """Draws size and share, and the overlap with the run's own region beside its chance level."""
    with st.container(horizontal=True):
        st.metric("Entries", formats.count(region.size), help=about("size", "graftable"), width="content")
        st.metric("Share", formats.share(region.share), width="content")
        if not region.is_run_region:
            st.metric(
                "Held of this run's region",
                formats.percent(region.overlap),
                help=about("matched"),
                width="content",
            )
    if not region.is_run_region:
        st.caption(
            f"{formats.count(region.shared)} of this run's {formats.counted(region.run_size, 'entry')} are in it; "
            f"{formats.by_chance(*region.chance)} by chance."
        )
    st.caption(_composition(region))


def graft(run: Run, region: HandRegion, answer: DeltaGenerator) -> DeltaGenerator:
    """Grafts the region live, once requested, and compares it with random regions of its size.

    The verdicts are drawn in `answer`, the numbers here. Draws nothing if there is nothing to graft. Returns the
    container for further actions on the region.
    """
    task, split = run.record.task, headline_split(run.record)
    if not region.size or task is None:
        return st.container()
    total = run.record.metrics[split].n if split in run.record.metrics else task.counts.get(split, 0)
    heading = st.container(horizontal=True, vertical_alignment="center")
    heading.markdown("## Scores", width="content")
    with heading, st.popover("Sample", icon=":material/tune:"):
        size = _sample(total, split)
    scored = _scored(run, region, split, size, total)
    if scored is None:
        st.caption(_chance(run, region, split))
        if live.has_models(run):
            sentence(run, region)
        return st.container()
    scores = exhibits.grafted_of(scored, page.stored_table(run, "predictions"), split, task)
    if region.is_run_region:
        scores = scores.without(REGION)
    with heading:
        _whole(scored, scores.n, total, split)
    with answer:
        _verdicts(scores, run, total, split)
    sizes = dict.fromkeys(("grafted", "complement", RANDOM, SAME_TENSORS), region.size) | {REGION: region.run_size}
    board = exhibits.scoreboard(scores, sizes, total)
    st.table(board, border="horizontal", hide_index=True)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(
            "All models are scored on the same examples. 95% intervals in brackets. Each random region is one draw.",
            help=about("complement", "debiased"), width="stretch",
        )  # fmt: skip
        exports.table_menu(board, file=exports.file_name(run.id, "surgery"), key="board", caption="Scores of a region")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        metrics = exhibits.shown_metrics(task)
        metric = controls.segments("metric", "Show", metrics, metrics[0], shown=metric_heading)
        show(exhibits.states(scores, run.record, split, metric, theme()), run.id)
    with right:
        sentence(run, region)
    return right


def _scored(run: Run, region: HandRegion, split: str, size: int | None, total: int) -> dict[str, Any] | None:
    """The worker's answer about the graft, its complement and the random regions.

    None until the user requests it, and, with the reason shown, if there is no answer."""
    drawn = list(CONTROLS) if region.size < region.d else []
    grafts: list[dict[str, Any]] = [{"states": [state]} for state in ("grafted", "complement")]
    grafts += [{"states": [], "controls": [name]} for name in drawn]
    beside = f", and {formats.counted(len(drawn), 'random region')} of its size" if drawn else ""
    sample = exhibits.sample_words(size or total, total, split)
    costs = f"Scores the graft, the fine-tuned model without it{beside} on {sample}. The first time loads both models."
    if not live.wanted(run, "score", "Score this graft", costs, of=str(canonical(region.expression))):
        return None
    answers, bar = list[dict[str, Any]](), st.progress(0.0, f"0 of {len(grafts)} models scored")
    try:
        for graft in grafts:
            answer = live.ask(
                run, "evaluate_region", topic="surgery.graft", region=dict(region.expression), split=split,
                sample=size, **graft,
            )  # fmt: skip
            if answer is None:
                return None
            answers.append(answer)
            bar.progress(len(answers) / len(grafts), f"{len(answers)} of {len(grafts)} models scored")
    finally:
        bar.empty()
    return {
        **answers[0],
        "logits": {name: logits for answer in answers for name, logits in answer["logits"].items()},
        "seconds": sum(answer["seconds"] for answer in answers),
        "stored": all(answer["stored"] for answer in answers),
    }


def _verdicts(scores: Grafted, run: Run, total: int, split: str) -> None:
    """Draws one line with a chip for the random region, and one for the run's own region if it is a different one."""
    rivals = {RANDOM: "than a random region of the same size", REGION: "than this run's region"}
    assert run.record.task is not None
    lines = []
    for rival, words in rivals.items():
        if rival in scores.logits:
            verdict, numbers = exhibits.finding(scores, run.record.task, rival)
            than = words.replace("than", JOINTS.get(verdict, "than"), 1)
            lines.append(f"{chip_text(verdict)} {than}: {numbers}")
    if lines:
        sample = exhibits.sample_words(scores.n, total, split)
        st.markdown("  \n".join(lines) + f" · {sample}", help=about("paired"))


def _whole(scored: Mapping[str, Any], n: int, total: int, split: str) -> None:
    """Draws the number of scored examples, and a button that scores all of them, with its duration if just measured."""
    st.markdown(f"on **{exhibits.sample_words(n, total, split)}**", width="content")
    if n < total:
        takes = "" if scored["stored"] else f"About {formats.rough_seconds(total / n * scored['seconds'])}."
        st.button(
            f"Score all {total:,}", icon=":material/done_all:", on_click=controls.assign, args=("sample", total),
            help=takes or None,
        )  # fmt: skip


def sentence(run: Run, region: HandRegion) -> None:
    """Draws the fields for a typed example, and the class probabilities of each model for it."""
    card = st.container(border=True)
    with card:
        st.markdown("## Try a sentence", help=about("confidence", "pretrained"))
        if not run.record.has_classes:
            st.markdown(sentences.no_classes(run.record))
            return
        texts = _typed_texts(run)
        if not all(texts):
            return
    answer = live.ask(
        run, "score_text", topic="surgery.sentence", region=dict(region.expression), states=TYPED,
        texts=[texts if len(texts) > 1 else texts[0]],
    )  # fmt: skip
    if answer is not None:
        table = exhibits.typed_probabilities(answer["logits"], TYPED)
        card.markdown(f"{exhibits.predicted(table, answer['labels'])}.")
        show(exhibits.typed(table, answer["labels"], theme()), run.id)


def _composition(region: HandRegion) -> str:
    """The modules that hold most of the region; biases are counted separately, as on the map."""
    if not region.size:
        return "The map is empty."
    shares = cells(region.layers, ("kind",)).set_index("kind")["share"].sort_values(ascending=False, kind="stable")
    biases = shares.get("bias", 0.0)
    matrices = shares[(shares > 0) & (shares.index != "bias")]
    phrases = [f"{kind} ({formats.percent(share)})" for kind, share in matrices.items()]
    of_modules = f"By module, without biases: {formats.listed(phrases, 3)}. " if phrases else ""
    return f"{of_modules}Biases: {formats.percent(biases)}."


def _sample(total: int, split: str) -> int | None:
    """The number of examples to score; None for all."""
    offered = [size for size in SAMPLES if size < total] + [total]
    value = controls.segments(
        "sample", f"Examples of the {split} set", offered, min(USUAL, total),
        shown=lambda n: f"all {n:,}" if n == total else f"{n:,}",
        help="More examples give narrower intervals and take longer. The same ones are drawn for every region.",
    )  # fmt: skip
    return None if value == total else value


def _chance(run: Run, region: HandRegion, split: str) -> str:
    """The score of a random region of about this size on the whole split, from stored runs, while no model answers."""
    assert run.record.task is not None
    metric, alike = run.record.task.metric, pair_briefs(run)
    drawn = [brief for brief in alike if brief.localizer == "random" and not brief.has_gain]
    with page.explained():
        runs = cache.runs(brief.id for brief in drawn)
        return cache.computed(
            ("by chance", metric, str(region.size), split), runs,
            lambda: exhibits.by_chance(_curve(drawn, runs, split), metric, region.size, split),
        )  # fmt: skip


def _curve(briefs: Sequence[RunBrief], runs: Sequence[Run], split: str) -> pd.DataFrame:
    return measures.pair_curve(briefs, [cache.curve(run) for run in runs], split)


def _typed_texts(run: Run) -> list[str]:
    """The typed texts: one, or two for a task of pairs."""
    try:
        is_pair = cache.task_defined(run.spec.task).pair
    except SkillvizError:  # the worker will report the problem with the task
        is_pair = False
    labels = {"sentence": "First text" if is_pair else "Type one and press Enter"} | (
        {"second": "Second text"} if is_pair else {}
    )
    return [controls.typed(name, label, most=LONGEST) for name, label in labels.items()]


def save(run: Run, region: HandRegion) -> None:
    """Draws the card that starts the job, with the equivalent command, and the job that was started last."""
    spec = spec_of(run, region)
    stored = same(run, region.expression)
    with st.container(border=True):
        st.markdown("## Save as a run", help="Scores the region on the whole validation and test sets, for all pages.")
        reason = _why_not(region, stored)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            note = st.text_input("Note", key="surgery.note", max_chars=300, placeholder="What was the idea?")
            if action("Save as a run", type="primary", icon=":material/save:", disabled=bool(reason)):
                _start(spec, note)
        if reason:
            st.caption(reason)
        if stored:
            st.page_link(page_table.PAGES["overview"].link(), label="Open it", query_params={address.RUN: stored})
        show_code.draw(spec.python(), "Python that makes a run of this region:")
        with st.expander("The same as a command"):
            st.code(spec.command(), language=None, wrap_lines=True)
    job = _started()
    if job is None:
        address.forget(JOB)
    else:
        address.keep(JOB, job.run_id)
        jobs_view.follow(job.run_id)


def spec_of(run: Run, region: HandRegion) -> RunSpec:
    """The run's own spec with the expression in place of its localizer, and the region's size."""
    changed: dict[str, Any] = {
        "localizer": EXPRESSION, "options": {EXPRESSION: dict(region.expression)}, "sizes": (str(max(region.size, 1)),),
        "seed": 0, "steps": None, "batch_size": None, "autocast": None, "device": "auto", "gain": 1.0,
    }  # fmt: skip
    return run.spec.model_copy(update=changed)


def same(run: Run, expression: Mapping[str, Any]) -> str | None:
    """The id of a finished run of this expression and pair; None if there is none."""
    run_ids = [brief.id for brief in pair_briefs(run) if brief.localizer == EXPRESSION]
    return next((by_hand.id for by_hand in cache.runs(run_ids) if _is_of(by_hand.spec, expression)), None)


def _is_of(spec: RunSpec, expression: Mapping[str, Any]) -> bool:
    """True if a run makes the region of this expression."""
    return EXPRESSION in spec.options and canonical(parsed(spec.options[EXPRESSION])) == canonical(expression)


def _why_not(region: HandRegion, stored: str | None) -> str:
    """The reason why there is nothing to save; empty if there is something."""
    if not region.size:
        return "An empty region cannot be saved."
    if region.is_run_region:
        return "This is this run's own region. Change it to save another."
    if stored:
        return f"Stored already, as run `{stored}`."
    job = _started()
    return "The job is running." if job is not None and job.is_open and _is_of(job.spec, region.expression) else ""


def _start(spec: RunSpec, note: str) -> None:
    store = cache.user_store()
    try:
        with st.spinner("Checking models, task and region."):
            job = jobs.start(spec, store)
        if note.strip():
            store.set_note(job.run_id, note)
    except SkillvizError as error:
        st.error(text.plain(sign_in.sentence_of(error)), icon=":material/error:")
        return
    address.keep(JOB, job.run_id)
    st.rerun()


def _started() -> Job | None:
    """The job in the address, or the one started last; None if its folder no longer exists."""
    name = address.current(JOB)
    try:
        return None if name is None else jobs.status(cache.user_store(), name)
    except StoreError:
        return None

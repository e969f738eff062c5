"""The surgery page's cards: what was built, how its graft does on a sample, what a typed example is taken for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz import jobs
from skillviz.core import formats
from skillviz.core.localizers.table import EXPRESSION
from skillviz.core.region_expression import canonical, parsed
from skillviz.errors import SkillvizError, StoreError
from skillviz.jobs.job import Job
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.texts import task_of
from skillviz.show import measures, text
from skillviz.show import surgery as exhibits
from skillviz.show.entries import headline_split
from skillviz.show.glossary import about
from skillviz.show.surgery import REGION, Grafted
from skillviz.ui import address, cache, cards, controls, jobs_view, live, page, page_table
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.surgery import hand_region, region_form
from skillviz.ui.pages.surgery.hand_region import HandRegion
from skillviz.ui.run_list import pair_entries

SAMPLES = (50, 100, 200, 500, 1000)
USUAL = 200
TYPED = ("pretrained", "grafted", "finetuned", "complement")
LONGEST = 600
CARDS = {
    "grafted": ":green[◆ Grafted by hand]",
    REGION: "This run's region",
    "complement": "Complement, by hand",
}
JOB = "job"


def built(run: Run) -> HandRegion:
    """The region that the form describes, counted; explains and stops where there is none."""
    with page.explained():
        table, names = hand_region.table_of(run), hand_region.names(pair_entries(run))
    expression = region_form.chosen(run, table, names)
    with page.explained():
        return hand_region.hand_region_of(run, expression, table)


def meaning(run: Run, region: HandRegion) -> None:
    """What the selection means, in a sentence, and what is special where it is nothing, all, or the run's own."""
    names = hand_region.names(pair_entries(run))
    st.markdown(
        region_form.sentence(region.expression, names, region.size, region.d), help=about("region", "graft", "size")
    )
    if not region.size:
        st.info("Nothing is chosen, so the graft is the pre-trained model itself. Choose layers, kinds or rows below.")
    elif region.size == region.d:
        st.info("Everything is chosen: the graft has all blocks of the fine-tuned model, its complement none of them.")
    elif region.is_run_region:
        st.caption("This is the run's own region; change it below and see what becomes of the graft.")


def counts(region: HandRegion) -> None:
    """Size, share, and what the region has in common with the run's own, beside what chance would give."""
    with st.container(border=True, height="stretch"):
        st.markdown("## How large it is", help=about("matched"))
        with st.container(horizontal=True):
            st.metric("Entries", formats.count(region.size), help=about("size", "graftable"), width="content")
            st.metric("Share", formats.share(region.share), width="content")
            st.metric("Held of this run's region", formats.percent(region.overlap), width="content")
        st.caption(
            f"This run's region has {formats.counted(region.run_size, 'entry')}; {formats.count(region.shared)} are in "
            f"both. A "
            f"random region with as many entries in each tensor would hold {formats.by_chance(*region.chance)} of it."
        )
        st.markdown(_composition(region))


def graft(run: Run, region: HandRegion, answer: DeltaGenerator) -> Grafted | None:
    """Grafts the region live and says how it does, in a sentence in `answer` and in numbers here.

    None where there is nothing to graft, or no model to graft it on.
    """
    if not region.size or run.record.task is None:
        return None
    split = headline_split(run.record)
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"):
        st.markdown("## How its graft does", width="content")
        with st.container(width="content"):
            size = _sample(run, split)
    scored = live.ask(
        run, "evaluate_region", topic="surgery.graft", region=dict(region.expression), split=split, sample=size
    )
    if scored is None:
        st.caption(_chance(run, region, split))
        return None
    scores = exhibits.grafted_of(scored, page.table(run, "predictions"), split, run.record.task)
    answer.markdown(
        exhibits.sentence(scores, run.record, split, region.is_run_region), help=about("accuracy", "ece", "paired")
    )
    _numbers(run, scores, split, region)
    return scores


def beside(run: Run, region: HandRegion, scores: Grafted | None) -> None:
    """The figure of the graft, and beside it what can be done with it: try a sentence, save it."""
    if scores is None:
        save(run, region)
        return
    left, right = st.columns(2)
    with left:
        show(exhibits.states(scores, run.record, headline_split(run.record), theme()), run.id)
    with right:
        sentence(run, region)
        save(run, region)


def sentence(run: Run, region: HandRegion) -> None:
    """A typed example, and the class probabilities that each model gives to it."""
    card = st.container(border=True)
    with card:
        st.markdown("## Try a sentence", help=about("confidence", "pretrained"))
        texts = _typed_texts(run)
        if not all(texts):
            st.caption("Type one to see what the models make of it, before and after the operation.")
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
    """The kinds and layers that hold most of it."""
    if not region.size:
        return "It has no entries."
    kinds = region.layers.groupby("kind")["selected"].sum().sort_values(ascending=False)
    phrases = [f"{kind} ({formats.percent(count / region.size)})" for kind, count in kinds[kinds > 0].items()]
    biases = region.layers.loc[region.layers["is_bias"], "selected"].sum() / region.size
    return f"By kind: {formats.listed(phrases, 3)}; biases are {formats.percent(biases)} of it."


def _sample(run: Run, split: str) -> int | None:
    """How many examples are scored; None for all."""
    total = run.record.metrics[split].n if split in run.record.metrics else 0
    offered = [size for size in SAMPLES if size < total] + [total]
    value = controls.segments(
        "sample", f"Examples of the {split} set", offered, min(USUAL, total),
        shown=lambda n: f"all {n:,}" if n == total else f"{n:,}",
        help="More examples give narrower intervals and take longer. The same ones are drawn for every region.",
    )  # fmt: skip
    return None if value == total else value


def _numbers(run: Run, scores: Grafted, split: str, region: HandRegion) -> None:
    """By hand, the run's own region where it is another, and the complement, each number with its interval."""
    assert run.record.task is not None
    hidden = {REGION} if region.is_run_region else set()
    shown = {name: title for name, title in CARDS.items() if name in scores.scores and name not in hidden}
    sizes = {"grafted": region.size, REGION: region.run_size, "complement": region.size}
    for place, (name, title) in zip(st.columns(len(shown)), shown.items(), strict=True):
        with place.container(border=True, height="stretch"):
            st.markdown(f"### {title}", help=about("complement") if name == "complement" else None)
            with st.container(horizontal=True, gap="xsmall"):
                for metric in exhibits.shown_metrics(run.record.task):
                    cards.estimate(metric, scores.scores[name][metric], helps=name == "grafted")
            inside = "fine-tuned without these" if name == "complement" else "region of"
            st.caption(f"{inside} {formats.counted(sizes[name], 'entry')} ({formats.share(sizes[name] / region.d)})")
    st.caption(f"{formats.counted(scores.n, 'example')} of the {split} set. {_chance(run, region, split)}")


def _chance(run: Run, region: HandRegion, split: str) -> str:
    """What a random region of about this size does, as far as stored runs tell."""
    assert run.record.task is not None
    drawn = [entry for entry in pair_entries(run) if entry.localizer == "random"]
    with page.explained():
        curves = [cache.table(random, "curve") for random in cache.runs(entry.id for entry in drawn)]
    curve = measures.pair_curve(drawn, curves, split)
    return exhibits.by_chance(curve, run.record.task.metric, region.size, split)


def _typed_texts(run: Run) -> list[str]:
    """What was typed: one text, or two for a task of pairs."""
    try:
        is_pair = task_of(run).pair
    except SkillvizError:  # the worker will say what is wrong with the task
        is_pair = False
    labels = {"sentence": "First text" if is_pair else "Sentence"} | ({"second": "Second text"} if is_pair else {})
    return [controls.typed(name, label, most=LONGEST) for name, label in labels.items()]


def save(run: Run, region: HandRegion) -> None:
    """The card that starts the job, with the command that does the same; under it the job that was started last."""
    spec = spec_of(run, region)
    stored = same(run, region.expression)
    with st.container(border=True):
        st.markdown("## Save it as a run")
        st.markdown(
            "A run scores this region on the whole validation and test sets, checks itself, and can be compared with "
            "the others on every page."
        )
        note = st.text_input("Note", key="surgery.note", max_chars=300, placeholder="What was the idea?")
        reason = _why_not(region, stored)
        if st.button("Save as a run", type="primary", icon=":material/save:", disabled=bool(reason)):
            _start(spec, note)
        if reason:
            st.caption(reason)
        if stored:
            st.page_link(page_table.PAGES["overview"].link(), label="Open it", query_params={address.RUN: stored})
        with st.expander("The same as a command"):
            st.code(spec.command(), language="bash", wrap_lines=True)
    job = _started()
    if job is None:
        address.forget(JOB)
    else:
        address.keep(JOB, job.run_id)
        jobs_view.follow(job.run_id)


def spec_of(run: Run, region: HandRegion) -> RunSpec:
    """The run's own spec with the expression in place of its localizer; its size is that of the region."""
    changed: dict[str, Any] = {
        "localizer": EXPRESSION, "options": {EXPRESSION: dict(region.expression)}, "sizes": (str(max(region.size, 1)),),
        "seed": 0, "steps": None, "batch_size": None, "autocast": None, "device": "auto",
    }  # fmt: skip
    return run.spec.model_copy(update=changed)


def same(run: Run, expression: Mapping[str, Any]) -> str | None:
    """The id of a finished run of this expression and pair, None where there is none."""
    run_ids = [entry.id for entry in pair_entries(run) if entry.localizer == EXPRESSION]
    return next((by_hand.id for by_hand in cache.runs(run_ids) if _is_of(by_hand.spec, expression)), None)


def _is_of(spec: RunSpec, expression: Mapping[str, Any]) -> bool:
    """Whether a run makes the region of this expression."""
    return EXPRESSION in spec.options and canonical(parsed(spec.options[EXPRESSION])) == canonical(expression)


def _why_not(region: HandRegion, stored: str | None) -> str:
    """Why there is nothing to save; empty where there is."""
    if not region.size:
        return "A region without entries cannot be saved."
    if region.is_run_region:
        return "This is the region of the run that is shown, which is stored already."
    if stored:
        return f"It is stored already, as run `{stored}`."
    job = _started()
    return "It is being made." if job is not None and job.is_open and _is_of(job.spec, region.expression) else ""


def _start(spec: RunSpec, note: str) -> None:
    store = cache.user_store()
    try:
        with st.spinner("Checking models, task and region."):
            job = jobs.start(spec, store)
        if note.strip():
            store.set_note(job.run_id, note)
    except SkillvizError as error:
        st.error(text.plain(str(error.args[0])), icon=":material/error:")
        return
    address.keep(JOB, job.run_id)
    st.rerun()


def _started() -> Job | None:
    """The job that the address names, or that was started last; None where its folder is gone."""
    name = address.current(JOB)
    try:
        return None if name is None else jobs.status(cache.user_store(), name)
    except StoreError:
        return None

"""The surgery page's cards: what was built, how its graft does on a sample, what a typed example is taken for."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.core import formats
from skillviz.errors import SkillvizError
from skillviz.runs.run import Run
from skillviz.runs.texts import task_of
from skillviz.show import grafted, measures
from skillviz.show import surgery as exhibits
from skillviz.show.entries import headline_split
from skillviz.show.glossary import about
from skillviz.show.grafted import REGION, Grafted
from skillviz.ui import cache, controls, live, page
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.overview import cards
from skillviz.ui.pages.sparsity.sweep import pair_entries
from skillviz.ui.pages.surgery import form as surgery_form
from skillviz.ui.pages.surgery import hand_region, region_words
from skillviz.ui.pages.surgery import save as surgery_save
from skillviz.ui.pages.surgery.hand_region import Made

SAMPLES = (50, 100, 200, 500, 1000)
USUAL = 200
TYPED = ("pretrained", "grafted", "finetuned", "complement")
LONGEST = 600
CARDS = {
    "grafted": ":green[◆ Grafted by hand]",
    REGION: "This run's region",
    "complement": "Complement, by hand",
}


def built(run: Run) -> Made:
    """The region that the form describes, counted; explains and stops where there is none."""
    with page.explained():
        table, names = hand_region.table_of(run), hand_region.names(pair_entries(run))
    expression = surgery_form.chosen(run, table, names)
    with page.explained():
        return hand_region.made_of(run, expression, table)


def meaning(run: Run, found: Made) -> None:
    """What the selection means, in a sentence, and what is special where it is nothing, all, or the run's own."""
    names = hand_region.names(pair_entries(run))
    st.markdown(
        region_words.sentence(found.expression, names, found.size, found.d), help=about("region", "graft", "size")
    )
    if not found.size:
        st.info("Nothing is chosen, so the graft is the pre-trained model itself. Choose layers, kinds or rows below.")
    elif found.size == found.d:
        st.info("Everything is chosen: the graft has all blocks of the fine-tuned model, its complement none of them.")
    elif found.is_own:
        st.caption("This is the run's own region; change it below and see what becomes of the graft.")


def counts(found: Made) -> None:
    """Size, share, and what the region has in common with the run's own, beside what chance would give."""
    with st.container(border=True, height="stretch"):
        st.markdown("### How large it is")
        with st.container(horizontal=True):
            st.metric("Entries", formats.count(found.size), help=about("size", "graftable"), width="content")
            st.metric("Share", formats.share(found.share), width="content")
            st.metric("Held of this run's region", formats.percent(found.overlap), width="content")
        st.caption(
            f"This run's region has {formats.counted(found.own, 'entry')}; {formats.count(found.shared)} are in "
            f"both. A "
            f"random region of this size would hold {formats.share(found.chance)} of it, on average."
        )
        st.markdown(_makeup(found))


def graft(run: Run, found: Made, answer: DeltaGenerator) -> Grafted | None:
    """Grafts the region live and says how it does, in a sentence in `answer` and in numbers here.

    None where there is nothing to graft, or no model to graft it on.
    """
    if not found.size or run.record.task is None:
        return None
    split = headline_split(run.record)
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"):
        st.markdown("## How its graft does", width="content")
        with st.container(width="content"):
            size = _sample(run, split)
    scored = live.ask(
        run, "evaluate_region", topic="surgery.graft", region=dict(found.expression), split=split, sample=size
    )
    if scored is None:
        st.caption(_chance(run, found, split))
        return None
    told = grafted.grafted_of(scored, page.table(run, "predictions"), split, run.record.task)
    answer.markdown(grafted.sentence(told, run.record, split, found.is_own), help=about("accuracy", "ece", "paired"))
    _numbers(run, told, split, found)
    return told


def beside(run: Run, found: Made, told: Grafted | None) -> None:
    """The figure of the graft, and beside it what can be done with it: try a sentence, save it."""
    if told is None:
        surgery_save.save(run, found)
        return
    left, right = st.columns(2)
    with left:
        show(exhibits.states(told, run.record, headline_split(run.record), theme()), run.id)
    with right:
        sentence(run, found)
        surgery_save.save(run, found)


def sentence(run: Run, found: Made) -> None:
    """A typed example, and the class probabilities that each model gives to it."""
    card = st.container(border=True)
    with card:
        st.markdown("### Try a sentence", help=about("confidence", "pretrained"))
        texts = _typed(run)
        if not all(texts):
            st.caption("Type one to see what the models make of it, before and after the operation.")
            return
    answer = live.ask(
        run, "score_text", topic="surgery.sentence", region=dict(found.expression), states=TYPED,
        texts=[texts if len(texts) > 1 else texts[0]],
    )  # fmt: skip
    if answer is not None:
        table = grafted.typed(answer["logits"], TYPED)
        card.markdown(f"{grafted.predicted(table, answer['labels'])}.")
        show(exhibits.typed(table, answer["labels"], theme()), run.id)


def _makeup(found: Made) -> str:
    """The kinds and layers that hold most of it."""
    if not found.size:
        return "It has no entries."
    kinds = found.layers.groupby("kind")["selected"].sum().sort_values(ascending=False)
    said = [f"{kind} ({formats.percent(count / found.size)})" for kind, count in kinds[kinds > 0].items()]
    biases = found.layers.loc[found.layers["is_bias"], "selected"].sum() / found.size
    return f"By kind: {formats.listed(said, 3)}; biases are {formats.percent(biases)} of it."


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


def _numbers(run: Run, told: Grafted, split: str, found: Made) -> None:
    """By hand, the run's own region where it is another, and the complement, each number with its interval."""
    assert run.record.task is not None
    hidden = {REGION} if found.is_own else set()
    shown = {name: title for name, title in CARDS.items() if name in told.scores and name not in hidden}
    sizes = {"grafted": found.size, REGION: found.own, "complement": found.size}
    for place, (name, title) in zip(st.columns(len(shown)), shown.items(), strict=True):
        with place.container(border=True, height="stretch"):
            st.markdown(f"#### {title}", help=about("complement") if name == "complement" else None)
            with st.container(horizontal=True, gap="xsmall"):
                for metric in grafted.shown_metrics(run.record.task):
                    cards.estimate(metric, told.scores[name][metric], helps=name == "grafted")
            inside = "fine-tuned without these" if name == "complement" else "region of"
            st.caption(f"{inside} {formats.counted(sizes[name], 'entry')} ({formats.share(sizes[name] / found.d)})")
    st.caption(f"{formats.counted(told.n, 'example')} of the {split} set. {_chance(run, found, split)}")


def _chance(run: Run, found: Made, split: str) -> str:
    """What a random region of about this size does, as far as stored runs tell."""
    assert run.record.task is not None
    drawn = [entry for entry in pair_entries(run) if entry.localizer == "random"]
    with page.explained():
        curves = [cache.table(one, "curve") for one in cache.runs(entry.id for entry in drawn)]
    curve = measures.pair_curve(drawn, curves, split)
    return grafted.by_chance(curve, run.record.task.metric, found.size, split)


def _typed(run: Run) -> list[str]:
    """What was typed: one text, or two for a task of pairs."""
    try:
        is_pair = task_of(run).pair
    except SkillvizError:  # the worker will say what is wrong with the task
        is_pair = False
    labels = {"sentence": "First text" if is_pair else "Sentence"} | ({"second": "Second text"} if is_pair else {})
    return [controls.typed(name, label, most=LONGEST) for name, label in labels.items()]

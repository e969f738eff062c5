"""The effect of each part of the region: scored live on request and stored beside the run, with a map and controls."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pandas as pd
import streamlit as st

from skillviz.analysis.part_effects import changed_predictions, part_effects, part_marks
from skillviz.core import formats
from skillviz.core.metrics import likelihood_metric, metric_heading, metric_names
from skillviz.core.region_parts import ALONE, CELLS, EXPERT_KINDS, EXPERTS, HEADS, ROWS
from skillviz.errors import BadInput, SkillvizError
from skillviz.live.part_scores import PartScoring
from skillviz.runs.pace import Pace
from skillviz.runs.part_scores import PartScores, stored_parts
from skillviz.runs.run import Run
from skillviz.serving import sign_in
from skillviz.show import part_effects as exhibits
from skillviz.show.briefs import headline_split
from skillviz.show.example_table import whole_text
from skillviz.show.glossary import about
from skillviz.ui import cache, controls, exports, linked_map, live, page
from skillviz.ui.chart import show, theme
from skillviz.ui.controls import action

CONDITION, CHANGE = "condition", "effect"
GROUPINGS = {CELLS: "layer and module", HEADS: "attention head", EXPERTS: "expert", ROWS: "matrix row"}
SAMPLES = (100, 200, 500, 1000)
USUAL = 200
LONGEST = 3600.0  # seconds that the scoring of a part may take: a large model on a CPU


class _NoAnswerError(Exception):
    """Raised if the worker gives no answer, after the page has shown the reason."""


def parts(run: Run) -> None:
    """Draws the section: the stored scores, or else their number of passes and the button that computes them."""
    st.markdown("## What each part does", help=about("parts", "paired", "discovery"))
    if run.record.task is None:
        return
    has_experts = page.stored_table(run, "layers", needed=False)["kind"].isin(EXPERT_KINDS).any()
    offered = [name for name in GROUPINGS if name != EXPERTS or has_experts]
    with st.container(horizontal=True):
        grouping = controls.segments("parts", "Divide by", offered, CELLS, shown=GROUPINGS.get)
    with page.explained():
        scores = stored_parts(cache.library(), run, grouping)
    if scores is None:
        _compute(run, grouping)
    else:
        _effects(run, scores)


def cell_effects(run: Run) -> None:
    """Draws the map of each cell's effect, for the section's choices; without scores, a hint to compute them."""
    with page.explained():
        scores = stored_parts(cache.library(), run, CELLS)
    if scores is None:
        st.info("Not scored yet. Press **Score the parts** below, under *What each part does*.")
        return
    condition = controls.current(CONDITION, tuple(exhibits.CONDITIONS), ALONE)
    names = _metrics(run)
    metric = controls.current(CHANGE, names, names[0])
    effects = _computed(run, scores, metric)
    with st.container():  # as high as the map, not as the column
        show(exhibits.part_map(effects, condition, metric, CELLS, theme()), run.id)


def _metrics(run: Run) -> list[str]:
    """The metrics whose change is shown, the likelihood first."""
    assert run.record.task is not None
    metric = run.record.task.metric
    return list(dict.fromkeys((likelihood_metric(metric), *metric_names(metric, ()))))


def _computed(run: Run, scores: PartScores, metric: str) -> pd.DataFrame:
    task = run.record.task
    assert task is not None
    with page.explained():
        return cache.computed(
            ("parts", str(scores.path), scores.record.created, metric), [run],
            lambda: part_effects(scores.predictions(), task, metric),
        )  # fmt: skip


def _effects(run: Run, scores: PartScores) -> None:
    """Draws the finding and the strongest parts, for one condition and metric; the map card has the map of cells."""
    record, names = scores.record, _metrics(run)
    with st.container(horizontal=True):
        condition = controls.segments(
            CONDITION, "Each part is", tuple(exhibits.CONDITIONS), ALONE,
            shown=lambda name: exhibits.CONDITIONS[name].lower(),
        )  # fmt: skip
        metric = controls.segments(CHANGE, "Change in", names, names[0], shown=metric_heading, help=about(*names))
    effects = _computed(run, scores, metric)
    st.markdown(exhibits.finding(effects, condition, metric, record.grouping))
    rivals, place = exhibits.strongest_parts(effects, condition, metric, record.grouping, theme()), ""
    if record.grouping == CELLS:
        show(rivals, run.id)
        place = "*Effect*, above the map of the region, shows every cell. "
    elif record.grouping not in exhibits.MAPPED:
        show(rivals, run.id)
        place = f"The {len(effects) // len(exhibits.CONDITIONS)} densest rows are scored. "
    else:
        left, right = st.columns(2)
        with left:
            show(exhibits.part_map(effects, condition, metric, record.grouping, theme()), run.id)
        with right:
            show(rivals, run.id)
    _linked(run, scores, condition)
    if run.record.has_classes:
        _changed(run, scores, exhibits.strongest(effects, condition, metric), condition)
    st.caption(
        f"{place}{formats.counted(record.n, 'example')} of the {record.split} set, {record.created[:10]}. "
        f"`python -m skillviz parts {run.id} --by {record.grouping} --sample 1000 --again` scores them on more."
    )


def _linked(run: Run, scores: PartScores, condition: str) -> None:
    """Draws the map of parts beside the sentences that they change; both mark each other without a rerun."""
    record, task = scores.record, run.record.task
    assert task is not None
    with st.container(border=True):
        st.markdown("## Parts and the sentences they change", help=about("parts", "discovery"))
        finding = st.container()
        least = controls.segments(
            "least", "Mark changes of the right answer's probability from", exhibits.LEAST, exhibits.LEAST[0],
            shown=lambda share: formats.counted(round(100 * share), "point"),
            help="A change of the answer always counts.",
        )  # fmt: skip
        key = "marks", str(scores.path), record.created, condition, least
        with page.explained():
            marks = cache.computed(key, [run], lambda: part_marks(scores.predictions(), task, condition, least))
        table, data = exhibits.linked_map(
            marks, condition, record.grouping, run.labels, texts_of(run, record.split), theme()
        )
        finding.markdown(data["finding"])
        linked_map.linked_map(data, key=record.grouping)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(data["reads"], width="stretch")
            exports.table_menu(
                table, file=exports.file_name(run.id, "marks"), key="marks", caption="Sentences changed by parts"
            )  # fmt: skip


def _changed(run: Run, scores: PartScores, strongest: pd.DataFrame, condition: str) -> None:
    """Draws the examples whose prediction one part changes: the part with most changes, or another one in the box."""
    task, n = run.record.task, scores.record.n
    assert task is not None
    by_name = {row["name"]: (row["layer"], row["kind"], row["head"]) for row in strongest.to_dict("records")}
    names = list(by_name)
    name = controls.select("part", "Predictions changed by", names, names[0], width=360)
    with page.explained():
        turned = cache.computed(
            ("changes", str(scores.path), scores.record.created, condition, name), [run],
            lambda: changed_predictions(scores.predictions(), task, by_name[name], condition),
        )  # fmt: skip
    st.markdown(exhibits.changed_words(turned, n))
    if len(turned):
        table = exhibits.changed(turned, run.labels, texts_of(run, scores.record.split))
        st.dataframe(table, hide_index=True, alt=f"Predictions that {name} changes, {exhibits.CONDITIONS[condition]}")
        exports.table_menu(
            table, file=exports.file_name(run.id, "changed"), key="changed", caption=f"Predictions changed by {name}"
        )


def texts_of(run: Run, split: str) -> dict[str, str]:
    """The texts of a split by example; empty if they are not available, and the page Examples shows how to get them."""
    with suppress(SkillvizError):
        frame = cache.texts(run, split)
        return dict(zip(frame["example_id"], whole_text(frame), strict=True))
    return {}


def _compute(run: Run, grouping: str) -> None:
    """Shows the passes that scoring the parts takes, and scores them when the button is pressed."""
    split, task = headline_split(run.record), run.record.task
    total = task.counts.get(split, 0) if task else 0
    offered = [size for size in SAMPLES if size < total] + [total]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        sample = controls.segments(
            "parts_sample", f"Examples of the {split} set", offered, min(USUAL, total),
            shown=lambda n: f"all {n:,}" if n == total else f"{n:,}",
            help="The same examples for every part. More give narrower intervals and take longer.",
        )  # fmt: skip
        try:
            with page.explained():
                region = cache.region(run)
            plan = PartScoring(run, region, grouping, split, None if sample == total else sample)
        except BadInput as error:
            st.caption(sign_in.sentence_of(error))
            return
        pressed = action("Score the parts", icon=":material/play_arrow:", type="primary")
    st.caption(
        "Not scored yet, so nothing is known of the sentences that a part changes. Each of "
        f"{formats.counted(len(plan.parts), exhibits.NOUNS[grouping])} is grafted alone and left out, beside "
        f"{plan.draws} random controls: {plan.passes:,} forward passes over {sample:,} examples. The result is kept, "
        f"and an interrupted one continues. `python -m skillviz parts {run.id} --by {grouping}` does the same."
    )
    if pressed and _scored(run, plan):
        st.rerun()


def _scored(run: Run, plan: PartScoring) -> bool:
    """Requests part after part from the worker and stores them; False, with the reason shown, if it does not answer."""
    bar, pace = st.progress(0.0, "Loading the models."), Pace()
    passed, at = 0, 0.0

    def ask(operation: str, **arguments: Any) -> dict[str, Any]:
        answer = live.ask(run, operation, topic="parts", timeout=LONGEST, **arguments)
        if answer is None:
            raise _NoAnswerError
        return answer

    def advance(done: int) -> None:
        nonlocal passed, at
        now = time.perf_counter()
        if passed:  # the first passes include loading the models
            pace.add(done - passed, now - at)
        passed, at = done, now
        left = formats.time_left(pace.left(plan.passes - done))
        bar.progress(done / plan.passes, f"{done:,} of {plan.passes:,} forward passes, {left}")

    try:
        with page.explained():
            plan.stored(ask, cache.user_store(), advance)
    except _NoAnswerError:
        return False
    finally:
        bar.empty()
    return True

"""The tour's first six steps: each draws one control and its result, and returns its question.

The texts of all steps are here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz import jobs
from skillviz.core import formats
from skillviz.core.calibration_error import BINS
from skillviz.core.intervals import recovered_gain, wilson
from skillviz.core.metrics import metric_row
from skillviz.core.scores import confidence, correct, probabilities
from skillviz.core.scores import predictions as classes
from skillviz.errors import SkillvizError, StoreError
from skillviz.jobs.job import Job
from skillviz.plots.known_truth import SERIES
from skillviz.plots.theme import localizer_style
from skillviz.runs.metrics import estimate as as_estimate
from skillviz.runs.metrics import positive
from skillviz.runs.record import Estimate, RunRecord, Scores, TaskNote, TransferNote
from skillviz.runs.run import RANKING, Run
from skillviz.runs.spec import RunSpec
from skillviz.serving import sign_in
from skillviz.serving.classroom import Question
from skillviz.show import beyond, interpolation, measures, surgery, text, tour
from skillviz.show import known_truth as exhibits
from skillviz.show.briefs import headline_split, opening_brief
from skillviz.show.exhibit import Exhibit
from skillviz.show.glossary import about
from skillviz.show.interpolation import NEAREST, STORED
from skillviz.show.interpolation_grid import FINETUNED, GRAFT, Grid, estimate
from skillviz.show.surgery import Grafted
from skillviz.tasks.readable_names import readable_name
from skillviz.tasks.task import Task
from skillviz.ui import address, cache, cards, controls, jobs_view, live, page, presenter, show_code
from skillviz.ui import page_table as pages
from skillviz.ui.cards import STATES as MARKS
from skillviz.ui.chart import show, theme
from skillviz.ui.controls import action
from skillviz.ui.pages.interpolation import grid_of, levels
from skillviz.ui.pages.surgery import region_form
from skillviz.ui.pages.tour import questions
from skillviz.ui.pages.tour.questions import SHARES
from skillviz.ui.run_list import pair_briefs

SENTENCE = "tour.sentence"
ENDS = ("pretrained", "finetuned")
WAY, SHIFT = "tour.way", "tour.shift"
LIVE = 200  # test sentences on which a graft is scored live: about 3 s for MiniLM on two quiet cores
TITLES = {"pretrained": "Pre-trained", "grafted": "Graft", "finetuned": "Fine-tuned"}
HEIGHT = 310  # pixels of a figure: a step and its answer then fit in a window of 1280 by 720
MAP_HEIGHT = 284  # the same for the map, whose step has the longest answer
SIZE = "tour.size"
BETWEEN = 2  # sizes offered between two stored ones, if the models compute them
KEEP = "tour.keep"
WHOLE, REST, NULL = "all", "rest", "null"
RIVALS = {
    "movement": "as many that moved the most",
    "random-matched": "as many at random in the same tensors",
    "random": "as many at random",
}
"""Other choices of the same number of parameters, by the localizer whose stored run has them."""
OTHERS = {
    WHOLE: "the whole region",
    REST: "everything but the region",
    NULL: "as many by the same search over shuffled movements",
    **RIVALS,
}
"""The sets of parameters that can be copied besides the parts of the region."""
BETWEEN_ENDS = {REST: "Without the region", NULL: "Null"}
PAPER_D, PAPER_SHARE = 85_054_464, 0.0001  # PAPER.md, section 2
GROUPS = {
    "attention": ("all attention modules", ("query", "key", "value", "attention output")),
    "mlp": ("all MLP modules", ("MLP in", "MLP out")),
    "norms": ("all LayerNorms", ("LayerNorm",)),
}
GRAFTED, REST_STATE = "grafted", "complement"
SURE = "tour.sure"
COMPARED = ("grafted", "finetuned")
GROWS = "The line ends at the slider; *Reveal* shows the rest."
TO_GRAFT = "0% is the pre-trained model, 100% the graft. The band is the 95% interval over sentences."
MOST = 99  # percent
STATES = ("pretrained", "grafted", "finetuned")
LONGEST = 200  # characters of a sentence
SAMPLE_CASES = (
    ("changed", 3),
    ("right", 1),
    ("wrong", 1),
)  # sentences of each case, if there are so many
JOB = "tour.job"
QUICK: dict[str, Any] = {
    "seed": 3, "steps": 6, "batch_size": 32, "max_train": 400, "max_validation": 50, "max_test": 200
}  # fmt: skip
"""A search of at most 45 s with MiniLM on two quiet cores; the shipped runs have other seeds."""
FOUND, GUESS = "Its region is one click away below.", "Make your guess, then reveal what it found."
FURTHER = ("overview", "sparsity", "examples", "surgery", "compare", "launch")
AROUND = "tour.around"
BEGIN = "random 1×"
TIMES = 1.0  # regions as large as the true one
BOARD_HEIGHT = 310  # pixels of the figure


def draw_sentence(opening: OpeningRun, left: DeltaGenerator, right: DeltaGenerator, is_revealed: bool) -> Question:
    """Draws the sentence on the left, the two models' answers on the right."""
    examples = samples(opening)
    with left:
        words = _sentence_box(examples)
        sample = next((one for one in examples if one.text == words), None)
        logits = _sentence_logits(opening, words, sample)
        if logits is not None:
            _show_answers(opening, words, sample, logits)
    if sample is not None:
        show_code.show("tour sentence", run=opening.run.id, split=opening.split, example=sample.id, states=ENDS)
    if logits is not None:
        with right:
            true = sample.label if sample else None
            show(
                tour.sentence_answers(surgery.typed_probabilities(logits, ENDS), opening.run.labels, true, theme()),
                opening.run.id,
            )
    stored, labels = opening.logits(*ENDS)
    return questions.more_often(stored["pretrained"], stored["finetuned"], labels, opening.task)


def _sentence_box(examples: Sequence[Sample]) -> str:
    """Draws the box for the sentence, which starts with an example of the task, and returns its text."""
    label, first = "Sentence (edit it, then press Ctrl+Enter or tap outside)", examples[0].text if examples else ""
    words = controls.typed(SENTENCE, label, most=LONGEST, placeholder="Type one", is_long=True, default=first)
    if examples:
        texts = [one.text for one in examples]
        following = texts[(texts.index(words) + 1) % len(texts) if words in texts else 0]
        again = "Another example" if words in texts else "Back to the examples"
        st.button(again, on_click=controls.assign, args=(SENTENCE, following), icon=":material/shuffle:")
    return words


def _sentence_logits(opening: OpeningRun, words: str, sample: Sample | None) -> dict[str, np.ndarray] | None:
    """Logits [1, label] of both models: stored for an example, computed live for any other sentence."""
    if sample is not None:
        return {state: sample.logits[state][None] for state in ENDS}
    if not words:
        st.caption("Type a sentence, then press Ctrl+Enter or tap outside.")
        return None
    answer = live.ask(opening.run, "score_text", topic=SENTENCE, texts=[words], states=list(ENDS))
    return None if answer is None else {state: answer["logits"][state] for state in ENDS}


def _show_answers(opening: OpeningRun, words: str, sample: Sample | None, logits: dict[str, np.ndarray]) -> None:
    """Draws both answers in words, and the true label."""
    st.markdown(f"{surgery.predicted(surgery.typed_probabilities(logits, ENDS), opening.run.labels)}.")
    label = text.plain(opening.run.labels[sample.label]) if sample else ""
    st.caption(f"A test sentence, labeled {label}. Stored scores." if sample else "Computed live.")


def draw_wise_ft(
    opening: OpeningRun, left: DeltaGenerator, right: DeltaGenerator, is_revealed: bool
) -> Question | None:
    """Draws WiSE-FT on the task's own examples; None if no point of the path is stored."""
    grid, task = grid_of(opening.run), opening.task.name
    with left:
        label = "Mixing weight, from the pre-trained to the fine-tuned model"
        alpha = _alpha_slider(opening, grid, FINETUNED, WAY, label)
        points = _chosen_point(opening, grid, [task], FINETUNED, alpha)
    _path_code(opening, [task], alpha)
    reads = "0% is the pre-trained model, 100% the fine-tuned one. The band is the 95% interval over sentences."
    with right:
        shown = points if is_revealed else _explored(points, alpha)
        show(_along(opening, shown, points, task, reads if is_revealed else f"{reads} {GROWS}"), opening.run.id)
    return questions.half_way(grid.at("points", task, FINETUNED, None), opening.task.metric)


def draw_wise_graft(
    opening: OpeningRun, left: DeltaGenerator, right: DeltaGenerator, is_revealed: bool
) -> Question | None:
    """Draws WiSE-Graft, as numbers on both tasks and as a figure on the other one; None if there is no other task."""
    if opening.other is None:
        return None
    grid, task, other = grid_of(opening.run), opening.task.name, opening.other.name
    with left:
        label = "Mixing weight, from the pre-trained model to the graft"
        alpha = _alpha_slider(opening, grid, GRAFT, SHIFT, label)
        points = _chosen_point(opening, grid, [task, other], GRAFT, alpha)
        _path_code(opening, [other], alpha)
        presenter.small_print(text_other(opening.other))
    shown = _explored(points, alpha)
    if grid.nearest(other, FINETUNED, opening.record.size or 1, 0.0) is not None:
        rival = grid.at("points", other, FINETUNED, None).assign(current=False)
        points = pd.concat([points, rival], ignore_index=True)
    with right:
        reads = interpolation.BOTH_PATHS if is_revealed else f"{TO_GRAFT} {GROWS}"
        show(_along(opening, points if is_revealed else shown, points, other, reads), opening.run.id)
    asks = f"Which model is more accurate on the other domain ({opening.title(other)})?"
    return questions.graft_or_finetuned(asks, opening.other.scores, opening.task.metric)


def _path_code(opening: OpeningRun, datasets: Sequence[str], alpha: float) -> None:
    """Draws the code for both whole paths; the step shows the explored part."""
    show_code.show(
        "interpolation", run=opening.run.id, datasets=datasets, metric=opening.task.metric,
        size=opening.record.size or 1, alpha=alpha,
    )  # fmt: skip


def _explored(points: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """The path's points up to the slider, including the chosen one."""
    return points[points["current"] | (points["alpha"] < alpha + 1e-9)]


def _along(opening: OpeningRun, points: pd.DataFrame, every: pd.DataFrame, dataset: str, reads: str) -> Exhibit:
    """The metric along the paths on one data set, shown by its title; the axes leave room for `every` point."""
    metric, words = opening.task.metric, opening.in_words(dataset)
    drawn, room = (part[part["dataset"] == dataset].assign(dataset=words) for part in (points, every))
    height = presenter.unenlarged(HEIGHT)
    return interpolation.paths(drawn, [words], metric, levels(opening.run, metric), theme(), height, reads, room)


def _alpha_slider(opening: OpeningRun, grid: Grid, path: str, name: str, label: str) -> float:
    """The chosen mixing weight of a stored point, 0..1; initially the first."""
    nearest = grid.nearest(opening.task.name, path, opening.record.size or 1, 0.0)
    line = grid.at("points", opening.task.name, path, nearest[0] if nearest else None)
    stored = sorted({round(100 * float(alpha)) for alpha in line["alpha"]})
    return controls.steps(name, label, stored, 0, shown=lambda a: f"{a}%") / 100


def _chosen_point(opening: OpeningRun, grid: Grid, datasets: Sequence[str], path: str, alpha: float) -> pd.DataFrame:
    """The path's line and chosen point on each data set, also drawn as numbers: the stored point, or the nearest."""
    parts, size, metric = [], opening.record.size or 1, opening.task.metric
    for place, dataset in zip(st.columns(len(datasets)), datasets, strict=True):
        nearest = grid.nearest(dataset, path, size, alpha)
        if nearest is None:
            continue
        line, rows = grid.at("points", dataset, path, nearest[0]), grid.at("points", dataset, path, *nearest)
        kind = STORED if abs(nearest[1] - alpha) < 1e-9 else NEAREST
        parts += [line.assign(current=False), rows.assign(current=True)]
        with place:
            st.markdown(f"**{opening.title(dataset)}**")
            cards.estimate(metric, estimate(rows, metric), title=metric_row(metric).heading)
            st.caption(interpolation.source(kind, path, *nearest, opening.record.d))
    return pd.concat(parts, ignore_index=True)


def ask_graft(opening: OpeningRun, expression: Mapping[str, Any], topic: str) -> Grafted | None:
    """The graft of a region on LIVE test examples, in the task's metric; None if no model answers."""
    arguments: dict[str, Any] = {"region": dict(expression), "split": opening.split, "states": ["grafted"]}
    if opening.scores.n > LIVE:
        arguments["sample"] = LIVE
    answer = live.ask(opening.run, "evaluate_region", topic=topic, **arguments)
    if answer is None:
        return None
    return surgery.grafted_of(answer, opening.predictions, opening.split, opening.task, (opening.task.metric,))


def show_between_ends(
    opening: OpeningRun,
    graft: Mapping[str, Estimate],
    live: Grafted | None = None,
    has_finetuned: bool = True,
    between: str = TITLES["grafted"],
) -> None:
    """Draws the task's metric of base model, this graft and fine-tuned model side by side, on the same examples.

    These are the examples of the live answer, else the whole split. `between` is the displayed name of the graft."""
    metric, ends = opening.task.metric, live.scores if live is not None else opening.scores.states
    with st.container(horizontal=True):
        for state, title in (TITLES | {"grafted": between}).items():
            if state == "finetuned" and not has_finetuned:
                continue
            estimates = graft if state == "grafted" else ends.get(state, {})
            with st.container(width="content", gap=None):
                cards.estimate(metric, estimates.get(metric), title=title, helps=state == "pretrained")


def source(opening: OpeningRun, live: Grafted | None = None) -> str:
    """`Stored; 2,000 test sentences.`, or the number of sentences that were scored live."""
    whole = f"{formats.count(opening.scores.n)} {opening.split} sentences"
    if live is None:
        return f"Stored; {whole}."
    if live.n == opening.scores.n:
        return f"Computed live; {whole}."
    return f"Computed live. All models here are scored on the same {live.n:,} of the {whole}."


def draw_region(opening: OpeningRun, left: DeltaGenerator, right: DeltaGenerator, is_revealed: bool) -> Question:
    """Draws the slider over region sizes and the chosen graft on the left, all stored sizes on the right."""
    stored = _curve_of(opening, opening.record.spec.localizer)
    sizes = sorted(int(size) for size in stored["size"].unique())
    with left:
        size = _size(opening, sizes)
        is_stored = size in sizes
        live_scores = None if is_stored else ask_graft(opening, {"run": opening.run.id, "size": size}, SIZE)
        row = _stored_estimates(stored, size) if is_stored else _live_estimates(opening, live_scores)
        _recovered(opening, size, row, live_scores, is_revealed)
        presenter.small_print(text_paper(opening))
    with right:
        by_chance = [curve for name in ("random-matched", "random") if len(curve := _curve_of(opening, name))]
        lines = pd.concat([stored, *by_chance[:1]], ignore_index=True)
        height = presenter.unenlarged(HEIGHT)
        show(tour.sizes(lines, opening.record, opening.split, size, row, is_revealed, theme(), height), opening.run.id)
    show_code.show("sparsity", run=opening.run.id, name="sparsity")
    share = formats.share(opening.record.share)
    n = f"{opening.scores.n:,} test sentences"
    asks = f"With {share} of the parameters copied, which model is more accurate on the {n}?"
    return questions.graft_or_finetuned(asks, opening.scores, opening.task.metric)


def options(stored: list[int], has_ranking: bool) -> list[int]:
    """The stored sizes, with further sizes between each two of them if there is a ranking to cut."""
    if not has_ranking or len(stored) < 2:
        return stored
    steps = [np.geomspace(a, b, BETWEEN + 2).round() for a, b in zip(stored, stored[1:], strict=False)]
    return sorted({int(size) for step in steps for size in step})


def _size(opening: OpeningRun, stored: list[int]) -> int:
    """The chosen size; initially the smallest."""
    offered, d = options(stored, RANKING in opening.run.files), opening.record.d or 1
    if len(offered) < 2:
        return offered[0]
    return controls.steps(
        SIZE, "Region size, share of the graftable parameters", offered, offered[0],
        shown=lambda s: formats.share(s / d) + (", stored" if s in stored else ""), help=about("size"),
    )  # fmt: skip


def _stored_estimates(curve: pd.DataFrame, size: int) -> dict[str, Estimate]:
    """The curve's metrics at a stored size."""
    rows = curve[curve["size"] == size]
    estimates = {str(metric): estimate(rows, str(metric)) for metric in rows["metric"]}
    return {metric: one for metric, one in estimates.items() if one is not None}


def _live_estimates(opening: OpeningRun, scores: Grafted | None) -> dict[str, Estimate] | None:
    """The metrics of the graft of the ranking's first entries, computed live: only the task's own, and the gain."""
    if scores is None:
        return None
    estimates, metric = dict(scores.scores["grafted"]), opening.task.metric
    if {"pretrained", "finetuned"} <= scores.logits.keys():
        grafted, *ends = (scores.logits[state] for state in ("grafted", "pretrained", "finetuned"))
        gain = recovered_gain(grafted, ends[0], ends[1], scores.labels, metric, positive=positive(opening.task))
        estimates["recovered"] = as_estimate(gain)
    return estimates


def _recovered(
    opening: OpeningRun, size: int, row: Mapping[str, Estimate] | None, live_scores: Grafted | None, is_revealed: bool
) -> None:
    """Draws the graft between the two ends, and the share of the gain that it recovers.

    The fine-tuned model and this share are hidden until the answer is revealed."""
    if row is None:
        st.caption("Choose one of the stored sizes.")
        return
    show_between_ends(opening, row, live_scores, is_revealed)
    gain, copied = row.get("recovered"), f"**{formats.share(size / (opening.record.d or 1))}** of the parameters"
    if not is_revealed:
        st.markdown(f"{copied} ({formats.count(size)}) are copied.")
    elif gain is not None and gain.value is not None:
        interval = f"95%: {formats.percent_interval(gain.low, gain.high, 0)}"
        st.markdown(
            f"{copied} ({formats.count(size)}) recover **{formats.percent(gain.value, 0)}** of the gain ({interval}).",
            help=about("recovered"),
        )
    st.caption(source(opening, live_scores))


def _curve_of(opening: OpeningRun, localizer: str) -> pd.DataFrame:
    """The curves of this pair's runs by a localizer, with the seed of the tour's run."""
    seed = opening.record.spec.seed
    drawn = [brief for brief in pair_briefs(opening.run) if brief.localizer == localizer and brief.seed == seed]
    drawn = [brief for brief in drawn if not brief.has_gain]
    with page.explained():
        curves = [cache.curve(run) for run in cache.runs(brief.id for brief in drawn)]
    return measures.pair_curve(drawn, curves, opening.split)


def _rivals(opening: OpeningRun) -> dict[str, Run]:
    """The stored runs with as many entries, chosen in the other ways of RIVALS."""
    briefs = [brief for brief in pair_briefs(opening.run) if brief.size == opening.record.size]
    run_ids = {name: next((e.id for e in briefs if e.localizer == name), None) for name in RIVALS}
    with page.explained():
        return {name: cache.run(run_id) for name, run_id in run_ids.items() if run_id is not None}


def draw_place(opening: OpeningRun, left: DeltaGenerator, right: DeltaGenerator, is_revealed: bool) -> Question:
    """Draws the map and the scores of a part of the region, the rest of the model, or as many other parameters."""
    rivals = _rivals(opening)
    has_null, whole = opening.record.null(opening.split) is not None, {"run": opening.run.id}
    with left:
        by_name = parts(opening.layers)
        named = [WHOLE, REST, *([NULL] if has_null else []), *rivals, *by_name]
        chosen = controls.select(KEEP, "Copy", named, WHOLE, shown=part_title)
        layers = opening.layers
        if chosen in by_name:
            with page.explained():
                table = region_form.table_of(opening.run)
                expression = {"intersection": [whole, by_name[chosen]]}
                region = region_form.hand_region_of(opening.run, expression, table)
            layers = region.layers
            _part_numbers(opening, expression, region.size)
        else:
            mapped = rivals.get(chosen, opening.run).id
            show_code.show("tour place", run=mapped, height=presenter.unenlarged(HEIGHT))
            layers = page.stored_table(rivals[chosen], "layers") if chosen in rivals else layers
            _stored_numbers(opening, chosen, rivals.get(chosen))
    with right:
        region_map = surgery.layout(layers, theme(), presenter.unenlarged(MAP_HEIGHT), sides=False)
        show(replace(region_map, title="Where these parameters are"), opening.run.id)
    recovered = {questions.SEARCHED: opening.scores.recovered}
    recovered |= {name: run.record.metrics[opening.split].recovered for name, run in rivals.items()}
    null = beyond.line(opening.record, opening.split)
    return questions.without_region(_left_without(opening), recovered, opening.record, opening.scores, null)


def _left_without(opening: OpeningRun) -> Estimate | None:
    """The share of the gain that the fine-tuned model keeps without the region."""
    with page.explained():
        rows = opening.run.complement()
    if rows.empty:
        return None
    return estimate(rows[(rows["split"] == opening.split) & (rows["size"] == opening.record.size)], "recovered")


def parts(layers: pd.DataFrame) -> dict[str, Mapping[str, Any]]:
    """The parts that can be kept, by their names in the address: every layer, and the kinds of GROUPS that exist."""
    numbers = sorted(int(n) for n in layers["layer"].dropna().unique())
    present = set(layers["kind"])
    by_name: dict[str, Mapping[str, Any]] = {f"layer-{n}": {"layers": [n]} for n in numbers}
    by_group = {name: [kind for kind in kinds if kind in present] for name, (_, kinds) in GROUPS.items()}
    return by_name | {name: {"kinds": kinds} for name, kinds in by_group.items() if kinds}


def part_title(name: str) -> str:
    """`only layer 2`; `the whole region`; `as many at random`."""
    return OTHERS.get(name) or f"only {GROUPS[name][0] if name in GROUPS else name.replace('-', ' ')}"


def _part_numbers(opening: OpeningRun, expression: Mapping[str, Any], size: int) -> None:
    """Draws the scores of a part of the region and of the whole; stored scores if the part is empty or the whole."""
    whole = opening.record.size or 1
    if size in (0, whole):
        show_between_ends(opening, opening.scores.states.get("grafted" if size else "pretrained", {}))
        kept = "The whole region." if size else "No part of the region is there, so the graft is the base model."
        st.caption(f"{kept} {source(opening)}")
        return
    st.caption(f"{formats.count(size)} of {formats.counted(whole, 'parameter')} ({formats.percent(size / whole)}).")
    scores = ask_graft(opening, expression, KEEP)
    if scores is None:
        return
    show_between_ends(opening, scores.scores["grafted"], scores)
    if surgery.REGION in scores.logits:
        st.markdown(surgery.compared(scores, opening.task, opening.task.metric), help=about("paired"))
    st.caption(source(opening, scores))


def _stored_numbers(opening: OpeningRun, chosen: str, rival: Run | None) -> None:
    """Draws the stored scores of the region, its complement, its null, or as many other parameters."""
    states, size, d = opening.scores.states, opening.record.size or 0, opening.record.d or 0
    null = opening.record.null(opening.split)
    if rival is not None:
        states = rival.record.metrics[opening.split].states
    graft = null.states[opening.split] if chosen == NULL and null else states[REST_STATE if chosen == REST else GRAFTED]
    show_between_ends(opening, graft, between=BETWEEN_ENDS.get(chosen, TITLES[GRAFTED]))
    copied = f"{formats.counted(d - size if chosen == REST else size, 'parameter')}, {part_title(chosen)}."
    map_of = " The map is that of the region." if chosen in (REST, NULL) else ""
    st.caption(f"{copied}{map_of} {source(opening)}")


def draw_confidence(opening: OpeningRun, left: DeltaGenerator, right: DeltaGenerator, is_revealed: bool) -> Question:
    """Draws the slider and the remaining answers on the left, the histogram of confidence on the right.

    The share of right answers is hidden until it is revealed."""
    logits, labels = opening.logits(*COMPARED)
    bins = measures.reliability_bins(logits, labels, BINS, False)
    with left:
        lowest = round(100 / max(len(opening.run.labels), 1))
        least = controls.whole(SURE, "Minimum confidence, %", lowest, MOST, lowest, help=about("confidence")) / 100
        table = sure_answers(logits, labels, least)
        _show_claims(table, len(labels), is_revealed)
    hidden = [] if is_revealed else ["accuracy", "low", "high"]
    bins = bins.assign(**dict.fromkeys(hidden, np.nan))
    show_code.show(
        "tour confidence", run=opening.run.id, split=opening.split, states=COMPARED, bins=BINS, hidden=hidden,
        least=least, height=presenter.unenlarged(HEIGHT),
    )  # fmt: skip
    with right:
        show(tour.sureness(bins, least, theme(), presenter.unenlarged(HEIGHT)), opening.run.id)
    return questions.calibrated(opening.scores)


def sure_answers(logits: Mapping[str, np.ndarray], labels: np.ndarray, least: float) -> pd.DataFrame:
    """state, answers, claimed, right, low, high: for the answers with at least this confidence (0..1).

    `claimed` is their mean confidence, `right` the share of right ones with Wilson's interval; missing if there are
    none.
    """
    rows = []
    for state, z in logits.items():
        sure = confidence(probabilities(z))
        is_sure = sure >= least
        n, hits = int(is_sure.sum()), int((correct(z, labels) & is_sure).sum())
        low, high = wilson(hits, n) if n else (np.nan, np.nan)
        claimed, right = (float(sure[is_sure].mean()), hits / n) if n else (np.nan, np.nan)
        rows.append((state, n, claimed, right, low, high))
    return pd.DataFrame(rows, columns=["state", "answers", "claimed", "right", "low", "high"])


def _show_claims(table: pd.DataFrame, n: int, is_revealed: bool) -> None:
    """Draws the claimed and the true accuracy of each model; a question mark replaces a value that is not revealed."""
    for place, row in zip(st.columns(len(table)), table.to_dict("records"), strict=True):
        colour, mark, title = MARKS[str(row["state"])]
        with place.container(border=True, height="stretch"):
            st.markdown(f"### :{colour}[{mark} {title}]")
            st.markdown(f"{formats.count(int(row['answers']))} of {formats.counted(n, 'answer')}")
            with st.container(horizontal=True, gap="small"):
                st.metric("Claimed", formats.percent(row["claimed"]), width="content")
                st.metric("Right", formats.percent(row["right"]) if is_revealed else "?", width="content")
            if is_revealed and row["answers"]:
                st.caption(f"Right, 95%: {formats.percent_interval(row['low'], row['high'])}")


def text_two_models(opening: OpeningRun) -> str:
    """The text of step 1."""
    task = opening.defined(opening.task.name)
    title = text.plain(task.title) if task and task.title else opening.title(opening.task.name)
    is_head = opening.record.readout == "head"
    differ = (
        "share the fine-tuned classification head and differ in the parameters below it"
        if is_head
        else ("differ only in the values of their parameters")
    )
    return (
        "The **pre-trained** model learned from general text. **Fine-tuning** trained a copy of it on labeled "
        f"sentences of one task: *{title}*. The two {differ}. Edit the sentence and compare "
        "their answers."
    )


def text_path(opening: OpeningRun) -> str:
    """The text of step 2."""
    return (
        f"Fine-tuning changed each parameter by {opening.moved:.2g} on average. At 0% all parameters have their "
        "pre-trained values, at 100% their fine-tuned values. Every point in between is a model too, without any "
        "training (**WiSE-FT**). Move the slider: where does the skill appear?"
    )


def text_region(opening: OpeningRun) -> str:
    """The text of step 3."""
    searched = localizer_style(opening.record.spec.localizer).title
    return (
        "Copy the fine-tuned values of only *some* parameters onto the pre-trained model. The result is a **graft**, "
        f"and the copied parameters are its **region**. Nothing is trained. A search ({searched}) chose which "
        "parameters to copy; the slider sets how many. How few are enough?"
    )


def text_place(opening: OpeningRun) -> str:
    """The text of step 4."""
    return (
        f"The map shows where the region's {formats.count(opening.record.size)} parameters are. Copy everything *but* "
        "them, as many chosen in another way, or only a part of them: is the skill in this region alone?"
    )


def text_confidence(opening: OpeningRun) -> str:
    """The text of step 5."""
    return (
        "A model is **calibrated** if 90% of its answers with 90% confidence are right. The slider keeps only the "
        "answers with at least that confidence. How many of them are right? *Reveal* tells."
    )


def text_shift(opening: OpeningRun) -> str:
    """The text of step 6."""
    if opening.other is None:
        return "This run has scores on its own task only, so there is no other domain to show."
    return (
        f"The model was fine-tuned on *{opening.title(opening.task.name)}*. Here it is tested on "
        f"*{opening.title(opening.other.name)}*, which it never saw. The slider goes from the pre-trained model to the "
        "graft: only the region's parameters change (**WiSE-Graft**). Does the skill help there too?"
    )


def text_yourself(opening: OpeningRun) -> str:
    """The text of the step in which users search for a region themselves."""
    return (
        f"Let a quick search find a region of {formats.share(opening.record.share)} of the parameters on this machine. "
        "You can close this tab; the job keeps running. Make your guess while it runs."
    )


def text_source(opening: OpeningRun) -> str:
    """The source of the sentences; empty if the task's file does not name it."""
    task = opening.defined(opening.task.name)
    return f"Sentences: {text.plain(task.source)}." if task and task.source else ""


def text_paper(opening: OpeningRun) -> str:
    """The size of the paper's models, and the share that is enough in them."""
    return (
        f"This model has {formats.count(opening.record.d)} graftable parameters. The paper's models have about "
        f"{PAPER_D / 1e6:.0f} million, and about {formats.share(PAPER_SHARE)} is enough for most tasks."
    )


def text_other(other: TransferNote) -> str:
    """The number of sentences of the other task, and the number left out."""
    dropped = f"; {formats.count(other.dropped)} left out, seen in training" if other.dropped else ""
    return f"{formats.count(other.scores.n)} sentences of another source, without any training on it{dropped}."


@dataclass(frozen=True)
class Sample:
    """A test sentence, its class, its stored logits [label] by state, and the example's id."""

    text: str
    label: int
    logits: Mapping[str, np.ndarray]
    id: str


@dataclass(frozen=True)
class OpeningRun:
    """The run that the tour shows."""

    run: Run

    @property
    def record(self) -> RunRecord:
        """The run's record."""
        return self.run.record

    @property
    def task(self) -> TaskNote:
        """The run's task."""
        assert self.record.task is not None
        return self.record.task

    @property
    def split(self) -> str:
        """The split of the shown numbers."""
        return headline_split(self.record)

    @property
    def scores(self) -> Scores:
        """The run's scores on this split."""
        return self.record.metrics[self.split]

    @property
    def other(self) -> TransferNote | None:
        """The first other task; None if the run was scored on none."""
        return next(iter(self.record.transfers), None)

    def defined(self, name: str) -> Task | None:
        """The run's task or one of its other tasks, from its file; None if the file is missing."""
        named = next((note.named for note in self.record.transfers if note.name == name), self.record.spec.task)
        with suppress(SkillvizError):
            return cache.task_defined(named or name)
        return None

    def title(self, name: str) -> str:
        """The title in a task's file up to its colon, `Movie reviews`, else the task's name; in Markdown."""
        return text.plain(self.in_words(name))

    def in_words(self, name: str) -> str:
        """The same as plain text, for a figure."""
        task = self.defined(name)
        return (task.title.partition(":")[0] if task else "") or readable_name(name)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """The stored logits of every state; shows an explanation and stops if there are none."""
        return page.stored_table(self.run, "predictions")

    @cached_property
    def layers(self) -> pd.DataFrame:
        """The region by parameter; shows an explanation and stops if it is missing."""
        return page.stored_table(self.run, "layers")

    @property
    def moved(self) -> float:
        """Mean distance between base and fine-tuned values, over all graftable entries."""
        return float((self.layers["movement_mean"] * self.layers["total"]).sum() / max(self.layers["total"].sum(), 1))

    def logits(self, *states: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Stored logits [n, label] by state, and the true classes [n]."""
        return page.state_logits(self.run, self.split, states or STATES)


def opening_run() -> OpeningRun:
    """The run that the dashboard opens with, regardless of other pages; shows an explanation and stops if none fits."""
    with page.explained():
        briefs = [brief for brief in cache.briefs() if brief.has_classes]
        run = cache.run(opening_brief(briefs).id) if briefs else None
    if run is None or run.record.task is None or not run.record.metrics:
        st.info(
            "The tour walks through the run that the dashboard opens on, and there is no run of a task with classes "
            "here. Localize a pair, or open a folder with runs.",
            icon=":material/school:",
        )
        with st.container(horizontal=True):
            for name in ("launch", "runs"):
                st.page_link(pages.PAGES[name].link(), label=pages.PAGES[name].question)
        st.stop()
    return OpeningRun(run)


def samples(opening: OpeningRun) -> list[Sample]:
    """Sentences to start with: some corrected by fine-tuning, one that was right before, one that fine-tuning spoiled.

    Other sentences replace missing ones. Empty if the task's data are not on this machine.
    """
    try:
        texts = cache.texts(opening.run, opening.split)
    except SkillvizError:
        return []
    mark = ("samples", cache.texts_mark(opening.run, opening.split))
    return cache.computed(mark, [opening.run], partial(_drawn, opening, texts))


def _drawn(opening: OpeningRun, texts: pd.DataFrame) -> list[Sample]:
    logits, labels = opening.logits()
    rows = opening.predictions[opening.predictions["split"] == opening.split]
    words = texts.set_index("example_id")["text_a"].reindex(rows["example_id"].unique())
    right = {state: classes(logits[state]) == labels for state in ("pretrained", "finetuned")}
    before, after, fits = right["pretrained"], right["finetuned"], words.str.len().to_numpy() <= LONGEST
    cases = {"changed": ~before & after, "right": before & after, "wrong": before & ~after}
    first = [int(i) for case, count in SAMPLE_CASES for i in np.flatnonzero(cases[case] & fits)[:count]]
    places = list(dict.fromkeys([*first, *np.flatnonzero(fits)]))[: sum(count for _, count in SAMPLE_CASES)]
    by_text = {
        str(words.iloc[i]): (int(labels[i]), {state: z[i] for state, z in logits.items()}, str(words.index[i]))
        for i in places
    }
    return [Sample(sentence, *row) for sentence, row in by_text.items()]


def draw_job(opening: OpeningRun, left: DeltaGenerator, right: DeltaGenerator, is_revealed: bool) -> Question:
    """Draws the search and its button on the left, the job on the right."""
    spec = spec_of(opening)
    with left:
        job = _started()
        st.caption(
            f"{spec.steps} steps of {spec.batch_size} sentences, drawn from {spec.max_train}; scored on "
            f"{spec.max_test} test sentences. The tour's own run searched longer and is scored on "
            f"{formats.count(opening.scores.n)}."
        )
        _button(spec, job)
    show_code.draw(spec.python(), "Python that makes this run:")
    is_finished = job is not None and job.status == "finished"
    with right:
        if job is None:
            with st.container(border=True):
                st.caption("No search has started yet. Its progress appears here.")
        elif is_finished:  # the result is the answer
            with st.container(border=True):
                st.markdown(f"The search has finished. {FOUND if is_revealed else GUESS}")
        else:
            jobs_view.follow(job.run_id)
    null = beyond.line(opening.record, opening.split)
    return questions.share_recovered(job.run if job is not None and is_finished else None, f"As stored: {null}")


def spec_of(opening: OpeningRun) -> RunSpec:
    """A quick search of the run's pair for its main size, without nulls: this pair's are already stored."""
    spec = opening.record.spec
    same = {name: getattr(spec, name) for name in ("base", "finetuned", "task", "readout", "localizer")}
    return RunSpec(**same, sizes=spec.sizes[:1], **QUICK)


def _button(spec: RunSpec, job: Job | None) -> None:
    is_open = job is not None and job.is_open
    if action("Find a region", type="primary", icon=":material/play_arrow:", disabled=is_open, key="tour.start"):
        _start(spec)
    if is_open:
        st.caption("One search at a time here. Launch accepts more.")
    with st.expander("Show as a command"):
        st.code(spec.command(), language=None, wrap_lines=True)


def _start(spec: RunSpec) -> None:
    """Starts the job, or shows the reason why it cannot start."""
    try:
        with st.spinner("Checking models and task."):
            job = jobs.start(spec, cache.user_store())
    except SkillvizError as error:
        st.warning(text.plain(sign_in.sentence_of(error)), icon=":material/error:")
        return
    address.keep(JOB, job.run_id)
    st.rerun()


def _started() -> Job | None:
    """The job in the address, or the one started last; None if its folder no longer exists."""
    name = address.current(JOB)
    if name is None:
        return None
    try:
        job = jobs.status(cache.user_store(), name)
    except StoreError:
        address.forget(JOB)
        return None
    address.keep(JOB, job.run_id)
    return job


def further(opening: OpeningRun, is_revealed: bool) -> None:
    """Draws links to other pages, for the user's own run once its answer is revealed, else for the tour's run."""
    job = _started()
    own = job.run_id if is_revealed and job is not None and job.status == "finished" else None
    st.markdown(f"**Continue with {'your own run' if own else 'the run of this tour'}:**")
    with st.container(horizontal=True):
        for name in FURTHER:
            row = pages.PAGES[name]
            options: dict[str, Any] = {"label": row.question, "icon": ":material/arrow_outward:"}
            st.page_link(row.link(), **options, query_params={address.RUN: own or opening.run.id})


def draw_hidden_skill(
    opening: OpeningRun, left: DeltaGenerator, right: DeltaGenerator, is_revealed: bool
) -> Question | None:
    """Draws the choice of distractor on the left and the localizers on the right; None if no leaderboard is stored."""
    board, models = cache.known_truth()
    names = exhibits.distractors(board)
    with left:
        if not names:
            st.info("No skill has been planted and searched for yet: `python -m benchmarks planted` does it.")
            return None
        distractor = controls.select(AROUND, "What else moved", names, BEGIN if BEGIN in names else names[0],
                                     shown=exhibits.AROUND.get)  # fmt: skip
        rows, levels = exhibits.rows_of(board, distractor, TIMES), exhibits.levels(models, distractor)
        best = rows.iloc[int(rows["graft"].argmax())]
        title = localizer_style(str(best["localizer"])).title
        st.caption(
            f"{formats.counted(int(best['models']), 'hidden skill')}; every search may choose as many parameters as "
            f"were trained. The best graft is that of {title}: {formats.percent(best['graft'])}; the true region has "
            f"{formats.percent(levels['true region'])}."
        )
    with right:
        shown = tuple(SERIES) if is_revealed else ("graft",)
        height = presenter.unenlarged(BOARD_HEIGHT)
        show(exhibits.exhibit(rows, levels, shown, theme(), height))
    show_code.show("tour hidden", around=distractor, times=TIMES, series=shown, height=height)
    choices = {name: questions.SHARE_CHOICES[name] for name in SHARES}
    found = float(best["precision"])
    answer = next(name for name, (low, high) in SHARES.items() if low <= np.round(found, 4) < high)
    return Question(
        f"How many of the parameters that {title} chose are among those that hold the skill?",
        choices, answer, exhibits.finding(rows, levels),
    )  # fmt: skip


def text_hidden_skill(opening: OpeningRun) -> str:
    """The text of the step: the experiment, and the question that accuracy leaves open."""
    return (
        "Does a good graft show *where* the skill is? We trained a skill into chosen parameters of a small model, "
        "so the truth is known, and moved others around them. Then localizers searched for it. The figure shows "
        "how accurate their grafts are: what did they find?"
    )

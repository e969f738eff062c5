"""The examples page: filters, scatter and table with one shared selection, and the models' results class by class."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.analysis.slices import metrics_of, sliceable
from skillviz.core import formats
from skillviz.core.confusion import class_results, confusion
from skillviz.core.metrics import metric_heading, right_metric
from skillviz.core.scores import probabilities
from skillviz.errors import SkillvizError, UnsetVariable
from skillviz.plots.theme import state_style
from skillviz.runs.example_sets import ExampleSet
from skillviz.runs.run import Run
from skillviz.serving import sign_in
from skillviz.show import attribution, edits, example_table, measures, sentences, slices, text
from skillviz.show import examples as exhibits
from skillviz.show.attribution import Answer
from skillviz.show.briefs import headline_split
from skillviz.show.example_table import STATES, AnswerWords, Filters, answer_words
from skillviz.show.exhibit import drawn_once
from skillviz.show.glossary import about
from skillviz.show.table_words import in_words
from skillviz.tasks.reading import is_on_hub_alone
from skillviz.tasks.source import OPTIONS, REFERENCE
from skillviz.tasks.task import CHOICE, GENERATION, Hub
from skillviz.ui import address, cache, controls, example_sets, exports, fetching, live, page, presenter, show_code
from skillviz.ui.cards import STATES as STATE_CARDS
from skillviz.ui.chart import below, selectable, show, theme
from skillviz.ui.chip import chip_text
from skillviz.ui.page import missing

EVERY = "every class"
MOST_SEARCHED = 80  # characters of the searched words
EXAMPLE, SCATTER, MEASURE = "example", "chart.scatter", "measure"
TABLE, NARROW_TABLE = "examples.table", "examples.narrow"
BY_ROW = "examples.by_row"  # session key: the example that was chosen by its row
MARKS = {"example": "an example", "area": "an area"}
MOST_LISTED, MOST_ON_PHONE = 500, 50
HEIGHT, IN_SIGHT = 430, 11  # pixels, and the number of one-line rows that fit
TALL, NARROW, WIDE_TEXT = 66, 77, 164  # pixels: a row of three lines, a column of numbers, a column of texts
TALL_ON_PHONE, ON_PHONE = 88, (102, 76, 72, 74)  # pixels: a row of four lines, and the columns on a phone
IN_A_ROOM = 1.3  # the factor by which columns of numbers are wider in presenter mode, so that no heading is cut
IN_A_ROW, IN_A_ROW_ON_PHONE = 58, 44  # characters of a text that fit into these lines
STATES_TITLES = {state: state_style(state).title for state in (*STATES, "complement")}
CLICK = {
    "example": "Click a mark to see that example below, or choose it in the table.",
    "area": "Drag over the figure: the table then holds the examples inside.",
}
NO_TEXTS = "The sentences are not on this machine"
NO_SLICES = "Slices by length and by other columns need the task's data on this machine."
WIDE = 8  # classes above which three matrices do not fit into one row
OR_TYPE = ", or type a sentence of your own"
NO_EXPLANATION = {
    CHOICE: "Not applicable: predictions are explained for classes, and these options are the example's own.",
    GENERATION: "Not applicable: predictions are explained for classes, and a reference has none.",
}
LOOKS = {"example": "the chosen example", "typed": "a sentence of my own"}
MOST = 2000  # characters of a typed text; the models have their own limit, which is in tokens and lower

Text = str | list[str]
EDITED = ("edited", "edited_b")
EDITED_OF = "examples.edited_of"  # session key: the sentence that the edited one belongs to
TOKENS, LAYERS = "integrated-gradients", "layer-conductance"
METHODS = {TOKENS: "tokens", LAYERS: "layers"}
BASELINES = {"pad": "padding", "mask": "the mask token", "zero": "zeros"}
PREDICTED = -1  # the class that the fine-tuned model predicts
STEPS, USUAL_STEPS = (20, 50, 100, 200), 50
READOUTS = {
    "prompt": "The task's prompt is part of the input, so its words count too. The answer is read at the mask.",
    "causal": "The task's prompt is part of the input, so its words count too. A class's score is the likelihood of "
    "its answer after the prompt.",
}
COLUMNS = {
    **{name: st.column_config.NumberColumn(format="%.3f") for name in ("sentence", "baseline", "change", "gap")},
    "gap, %": st.column_config.NumberColumn(format="%.1f"),
}


@dataclass(frozen=True)
class RunExamples:
    """The run's examples of one split: the table of `example_table.scored`, with texts if they are available."""

    split: str
    table: pd.DataFrame
    predictions: pd.DataFrame

    def logits(self, run: Run, states: tuple[str, ...]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Logits [n, label] of these states, and the labels [n]."""
        return page.state_logits(run, self.split, states)

    def logits_of(self, run: Run, example: str) -> dict[str, np.ndarray]:
        """Logits [label] of one example, by state."""
        logits, _ = self.logits(run, example_table.STATES)
        places = cache.computed(("places", self.split), [run], lambda: measures.places(self.predictions, self.split))
        return {state: z[places[example]] for state, z in logits.items()}


def run_examples(run: Run) -> RunExamples:
    """The examples with each model's prediction."""
    predictions, split = page.stored_table(run, "predictions"), headline_split(run.record)
    table = cache.computed(("examples", split), [run], lambda: example_table.scored(predictions, run.record, split))
    return RunExamples(split, table, predictions)


def finding(run: Run, shown: RunExamples) -> None:
    """Draws how often the graft and the fine-tuned model disagree, and which of them is then right."""
    logits, labels = shown.logits(run, ("grafted", "finetuned"))
    metric = run.record.metric
    decided, words = exhibits.finding(logits["grafted"], logits["finetuned"], labels, shown.split, metric)
    what = metric_heading(right_metric(metric))
    st.markdown(f"{what}, graft vs fine-tuned: {chip_text(decided)} {words}", help=about(*exhibits.basis(metric)))


@dataclass(frozen=True)
class Places:
    """The containers of the page's sections, so that sections can be drawn in any order."""

    filters: DeltaGenerator
    table: DeltaGenerator
    scatter: DeltaGenerator
    beside: DeltaGenerator
    below: DeltaGenerator

    def closer(self, shown: RunExamples) -> DeltaGenerator:
        """The container of one example: below table and scatter, or in the table's place if there are no sentences."""
        return self.below if example_table.has_texts(shown.table) else self.beside


def places() -> Places:
    """Creates the containers: filters on top, then table and scatter side by side."""
    filters = st.container()
    left, right = st.columns([5, 3], gap="medium")
    table = left.container()
    return Places(filters, table, right, left.container(), st.container())


def with_texts(run: Run, without: RunExamples) -> RunExamples:
    """The examples with their texts; without texts, under a card that explains how to get them, if they are missing."""
    try:
        task = cache.task_named(run.spec.task)
        if isinstance(task.data, Hub) and is_on_hub_alone(task):
            in_the_set = f"They are part of the data set {text.plain(task.data.title)}."
            with missing(NO_TEXTS, f"{answer_words(run.record).stored} {in_the_set}", "notes"):
                fetching.data_button(task)
            return without
        with st.spinner("Reading the task's texts."):
            texts = cache.texts(run, without.split)
    except SkillvizError as error:
        with missing(
            NO_TEXTS, f"{answer_words(run.record).stored} They are shown once the task's data are here.", "notes"
        ):
            st.caption(_what_is_missing(error))
        return without
    table = cache.computed(
        ("texts", cache.texts_mark(run, without.split)), [run], lambda: example_table.with_texts(without.table, texts)
    )
    return RunExamples(without.split, table, without.predictions)


def _what_is_missing(error: SkillvizError) -> str:
    """The remedy for missing texts: the folder in which their data belong, if a variable names it; else the error."""
    if not isinstance(error, UnsetVariable):
        return text.plain(sign_in.sentence_of(error))
    inside = str(PurePosixPath(error.path.partition("/")[2]).parent).replace("`", "")  # the caption shows it as code
    return (
        f"They belong in `{inside}` of the folder that the environment variable `{error.variable}` "
        "names. It is not set: set it, then restart the dashboard."
    )


def filters(run: Run, shown: RunExamples) -> Filters:
    """Draws the filters in one row and returns the chosen ones."""
    table, can_read, answers = shown.table, example_table.has_texts(shown.table), answer_words(run.record)
    told, places = st.container(), st.columns([4, 4, 2, 3], vertical_alignment="bottom")
    with places[0]:
        counts = cache.computed(
            ("cases", shown.split), [run],
            lambda: {case: int(example_table.passing(table, Filters(case)).sum()) for case in answers.cases},
        )  # fmt: skip
        titles = {case: f"{answers.cases[case]} ({formats.count(count)})" for case, count in counts.items()}
        case = controls.select("case", "Show", tuple(titles), "all", shown=titles.get)
    with places[1]:
        sort = controls.select("sort", "Order", example_table.sorts(table), "moved", shown=answers.sorts.get)
    marked, words, length = _linked_area(answers), "", None
    with places[2].popover("Filter", icon=":material/filter_alt:"):
        names = (EVERY, *example_table.label_names(table, run.record.classes))
        chosen = controls.select("label", "True class", names, EVERY) if run.record.has_classes else EVERY
        if can_read:
            words = controls.typed("words", "Words in the text", most=MOST_SEARCHED, placeholder="all of these words")
            low, high = int(table["length"].min()), int(table["length"].max())
            length = controls.span("length", "Length in words", low, high) if low < high else None
        within = example_sets.chosen_set(run, shown.split, told)
    ids = None if within is None else frozenset(within.ids)
    wanted = Filters(case, None if chosen == EVERY else chosen, length, words, sort, marked, ids)
    with places[3]:
        rows = example_table.passing(table, wanted)
        new = ExampleSet(
            name="", examples=example_sets.pair_answers(run, shown.split)[0].examples,
            ids=tuple(table.loc[rows, "example_id"]),
            by_answers=case != "all" or marked is not None or bool(within and within.by_answers),
        )  # fmt: skip
        example_sets.saving(run, new, within)
        passes = int(rows.sum())
        if passes < len(table):  # otherwise the box of examples shows their number
            area = marked.words(answers) if marked else ""
            st.markdown(exhibits.passing_words(passes, len(table), area))
        if marked is not None:
            st.button(
                "Clear the area", icon=":material/close:", on_click=address.forget, args=(example_table.AREA,)
            )  # fmt: skip
    return wanted


def _linked_area(answers: AnswerWords) -> example_table.Area | None:
    """The area marked in the scatter, which is kept in the address.

    An area of another run may use a measure that this run lacks; it is then forgotten.
    """
    marked = example_table.read_area(address.current(example_table.AREA))
    if marked is None or marked.measure not in answers.measures:
        marked = None
        address.forget(example_table.AREA)
    else:
        address.keep(example_table.AREA, marked.written())
    return marked


def linked(run: Run, shown: RunExamples, wanted: Filters, places: Places) -> str | None:
    """Draws box, scatter and table of the passing examples; returns the one chosen in any of them, or None."""
    passes = example_table.passing(shown.table, wanted)
    listed = example_table.ordered(shown.table[passes], wanted.sort)
    with places.closer(shown):
        st.markdown("## Look closer")
        chosen = _box(listed) if len(listed) else None
    is_first = wanted.area is None and passes.all() and chosen == next(iter(listed["example_id"]), None)
    with places.scatter:
        _scatter(run, shown.table, passes, chosen, wanted.area, bool(is_first))
    with places.table:
        if example_table.has_texts(shown.table):
            _table(run, listed, chosen)
        else:
            title = f"List the {formats.counted(len(listed), 'example')} by number"
            fold = st.expander(title, key="table.numbers", on_change="rerun")
            if fold.open:
                with fold:
                    _table(run, listed, chosen)
    return chosen


def _box(listed: pd.DataFrame) -> str:
    """Draws the box that chooses an example; it offers the first ones and the current choice."""
    ids = listed["example_id"].tolist()
    options, wanted = ids[:MOST_LISTED], st.session_state.get(f"control.{EXAMPLE}") or address.current(EXAMPLE)
    if wanted in ids and wanted not in options:
        options.append(wanted)
    texts = dict(zip(ids, example_table.whole_text(listed), strict=True)) if example_table.has_texts(listed) else {}

    def one_line(example: str) -> str:
        return f"{example}: {example_table.brief(texts[example])}" if example in texts else example

    return controls.select(EXAMPLE, "Example", options, options[0], shown=one_line)


def _scatter(
    run: Run,
    table: pd.DataFrame,
    passes: pd.Series,
    chosen: str | None,
    marked: example_table.Area | None,
    is_first: bool,
) -> None:
    """Draws all examples by two confidences; the first view is cached for all users, views after a click are not."""
    figure, answers, help_ = st.container(), answer_words(run.record), about("confidence", "margin")
    offered = tuple(answers.measures)
    with st.container(horizontal=True):
        measure = controls.segments(
            MEASURE, "Show", offered, offered[0], shown=lambda name: answers.measures[name].brief, help=help_,
        ) if len(offered) > 1 else offered[0]  # fmt: skip
        marks = controls.segments("marks", "A click selects", tuple(MARKS), "example", shown=MARKS.get)
    words = cache.computed(
        ("hovers", str(example_table.has_texts(table))), [run], lambda: example_table.hovers(table, answers.right)
    )  # fmt: skip
    points = example_table.points(table, passes, measure, words)
    draw = drawn_once(exhibits.scatter) if is_first else exhibits.scatter
    exhibit = draw(points, answers, measure, chosen, theme(), marked, marks == "area")
    if passes.all() and marked is None and marks == "example" and example_table.has_texts(table):
        show_code.show("examples", run=run.id, split=headline_split(run.record), measure=measure, chosen=chosen)
    drawing = exhibit if is_first else exhibit.figure
    with figure:
        selectable(
            drawing, name=exhibit.name, run_id=run.id, alt=exhibit.alt,
            on_select=_pointed if marks == "example" else partial(_dragged, measure),
            by="points" if marks == "example" else "box",
        )  # fmt: skip
    below(
        drawing,
        name=exhibit.name,
        title=exhibit.title,
        reads=f"{exhibit.reads} {CLICK[marks]}",
        table=exhibit.table,
        run_id=run.id,
    )


def _table(run: Run, listed: pd.DataFrame, chosen: str | None) -> None:
    """Draws the table of examples; the chosen example's row is marked, and marking a row chooses its example."""
    can_read = example_table.has_texts(listed)
    listed, is_moved = _chosen_in_sight(listed, chosen, HEIGHT // presenter.pixels(TALL) - 1 if can_read else IN_SIGHT)
    answers = answer_words(run.record)
    what = answers.right
    every = example_table.listing(listed, what)
    with st.container(key="examples-wide"):
        st.dataframe(
            **_rows(every, listed, chosen, TABLE, MOST_LISTED), column_config=_columns(what),
            row_height=presenter.pixels(TALL) if can_read else None,
            alt=f"The examples with the {what}, each model's confidence in it, and what each model says",
        )  # fmt: skip
    with st.container(key="examples-narrow"):
        narrow = example_table.narrow_listing(listed.head(MOST_ON_PHONE), what)
        st.dataframe(
            **_rows(narrow, listed, chosen, NARROW_TABLE, MOST_ON_PHONE), column_config=_phone_columns(what),
            row_height=presenter.pixels(TALL_ON_PHONE),
            alt=f"The examples with the {what}, and what graft and fine-tuned model say",
        )  # fmt: skip
    moved = " The chosen example is on top." if is_moved else ""
    select = f"Select a row for details (keyboard: Shift+Space).{moved}"
    with st.container(horizontal=True, vertical_alignment="center"):
        measure = formats.capital(next(iter(answers.measures.values())).title)
        with st.container(key="examples-wide-words"):
            st.caption(f"{measure}, %. {select}{_cut(len(listed), MOST_LISTED)}")
        with st.container(key="examples-narrow-words"):
            st.caption(f"{answers.says} {select}{_cut(len(listed), MOST_ON_PHONE)}")
        exports.table_menu(
            every, file=exports.file_name(run.id, "examples"), key="examples", caption=f"Examples ({run.id})",
            label=f"All {formats.counted(len(every), 'row')}", words=in_words,
        )  # fmt: skip


def _cut(count: int, most: int) -> str:
    """The note below a table that is cut to `most` rows."""
    return "" if count <= most else f" The first {formats.count(most)} are listed."


def _rows(shown: pd.DataFrame, listed: pd.DataFrame, chosen: str | None, key: str, most: int) -> dict[str, Any]:
    """The arguments of `st.dataframe` for the first rows and the marked row; `shown` has the order of `listed`."""
    ids = listed["example_id"].head(most).tolist()
    rows = [ids.index(chosen)] if chosen in ids else []
    marked = st.session_state[key]["selection"]["rows"] if key in st.session_state else []
    # without a marked row the first example is chosen; a row marked by code would disable the table's arrow keys
    is_elsewhere = EXAMPLE in st.query_params and chosen != st.session_state.get(BY_ROW)
    if marked != rows and (marked or is_elsewhere):
        st.session_state[key] = {"selection": {"rows": rows, "columns": [], "cells": []}}
    shown = shown.head(most)
    if "text" in shown:  # a text longer than its row would be cut at top and bottom
        letters = IN_A_ROW if key == TABLE else IN_A_ROW_ON_PHONE
        shown = shown.assign(text=[example_table.brief(words, letters) for words in shown["text"]])
    marks = {"on_select": partial(_row_marked, key, ids), "selection_mode": "single-row"}
    return {"data": shown, "key": key, "height": HEIGHT, "hide_index": True, **marks}


def _phone_columns(what: str) -> dict[str, Any]:
    """Column widths for a phone: with the marks beside them the columns fill the table, and all are visible."""
    first, *others = (partial(st.column_config.TextColumn, width=width) for width in ON_PHONE)
    names = (what, *(STATES_TITLES[state] for state in ("grafted", "finetuned")))
    return {
        "text": first("sentence"), "example": first(),
        **{name: column() for name, column in zip(names, others, strict=True)},
    }  # fmt: skip


def _columns(what: str) -> dict[str, Any]:
    """Short headings and widths, so that text, true class and three confidences fit into half a page."""
    narrow = presenter.pixels(NARROW, IN_A_ROOM)
    short = {f"{STATES_TITLES[state]}: {what}": STATES_TITLES[state] for state in (*STATES, "complement")}
    percents = {
        name: st.column_config.NumberColumn(title, format="%.1f", width=narrow) for name, title in short.items()
    }
    return {
        **percents,
        what: st.column_config.TextColumn(width=narrow),
        "graft − fine-tuned": st.column_config.NumberColumn(
            "change, points", format="%.1f", width=presenter.pixels(100, IN_A_ROOM)
        ),
        "text": st.column_config.TextColumn("sentence", width=WIDE_TEXT),
    }


def _chosen_in_sight(listed: pd.DataFrame, chosen: str | None, in_sight: int) -> tuple[pd.DataFrame, bool]:
    """The rows, with the chosen one on top if it was chosen elsewhere and would be hidden; and True if it was moved."""
    is_chosen = listed["example_id"] == chosen
    if chosen == st.session_state.get(BY_ROW) or not is_chosen.iloc[in_sight:].any():
        return listed, False
    return pd.concat([listed[is_chosen], listed[~is_chosen]]), True


def _pointed() -> None:
    """Applies a click in the scatter to the box."""
    points = st.session_state[SCATTER]["selection"]["points"]
    if points:
        controls.assign(EXAMPLE, points[0]["customdata"])


def _dragged(measure: str) -> None:
    """Keeps the area that was dragged over; the table then shows the examples inside it."""
    boxes = st.session_state[SCATTER]["selection"]["box"]
    dragged = example_table.area_of_box(boxes[0], measure) if boxes else None
    if dragged is not None:
        address.keep(example_table.AREA, dragged.written())


def _row_marked(key: str, ids: list[str]) -> None:
    """Applies the marked row of a table to the box."""
    rows = st.session_state[key]["selection"]["rows"]
    if rows:
        st.session_state[BY_ROW] = ids[rows[0]]
        controls.assign(EXAMPLE, ids[rows[0]])


def by_class(run: Run, shown: RunExamples) -> None:
    """Draws the models' confusion matrices, then precision, recall or F1 by class; a card if there are no classes."""
    if not run.record.has_classes:
        missing("By class", sentences.no_classes(run.record), "block")
        return
    st.markdown("## By class", help=about("confusion", "precision", "recall"))
    more = controls.switch("complement", "Show the complement", False, help=about("complement"))
    states = (*STATES, "complement") if more else STATES
    logits, labels = shown.logits(run, states)
    resamples = exhibits.resamples(len(labels))
    results = cache.computed(
        ("classes", shown.split, *states), [run], lambda: class_results(logits, labels, resamples)
    )  # fmt: skip
    st.markdown(
        cache.computed(("worst classes", shown.split), [run], lambda: exhibits.worst_classes(results, run.labels))
    )
    side_by_side = len(run.labels) <= WIDE and len(states) <= 3
    rows = [st.columns(len(states))] if side_by_side else [st.columns(2) for _ in range(0, len(states), 2)]
    for place, (state, z) in zip(chain(*rows), logits.items(), strict=False):
        with place:
            show(exhibits.confusion(confusion(z, labels), run.labels, state, theme()), run.id)
    metric = controls.segments("result", "Metric", exhibits.RESULTS, "f1", shown=metric_heading)
    show(exhibits.by_class(results, run.labels, metric, resamples, theme()), run.id)


def by_slice(run: Run, shown: RunExamples) -> None:
    """Draws graft vs fine-tuned model by class, and by length and the data's own columns if these are available."""
    st.markdown("## By slice", help=about("slices", "paired", "discovery"))
    with page.explained():
        has_texts = example_table.has_texts(shown.table)
        others = cache.columns(run, shown.split) if has_texts else None
        mark = cache.texts_mark(run, shown.split) if has_texts else ""
    graft, tuned = example_sets.pair_answers(run, shown.split)
    sets = tuple(example_sets.sets_of(run).values())
    mark += str(hash(sets))
    columns = cache.computed(
        ("columns", shown.split, mark), [run],
        lambda: slices.with_sets(slices.columns_of(graft, run.record.classes, others), sets, graft.examples),
    )  # fmt: skip
    known = cache.computed(("sliceable", shown.split, mark), [run], lambda: sliceable(columns))
    if not known:
        st.caption(NO_SLICES)
        return
    with st.container(horizontal=True):
        chosen = controls.any_of("slices", "Slice by", known, known, shown=slices.title) if len(known) > 1 else known
        judged = metrics_of(run.record.metric)
        metric = controls.segments("sliced", "Metric", judged, judged[0], shown=metric_heading)
    what = (shown.split, mark, metric, *chosen)
    table = cache.computed(
        ("slices", *what), [run], lambda: slices.differences(graft, tuned, columns[list(chosen)], metric)
    )
    st.markdown(cache.computed(("slices in words", *what), [run], lambda: slices.finding(table, metric, text.plain)))
    if len(table):
        show(slices.by_slice(table, metric, theme()), run.id)
    if others is None:
        st.caption(NO_SLICES)


def look_closer(run: Run, run_examples: RunExamples, example: str | None) -> None:
    """Draws the predictions and the explanation of one example: the chosen one or a typed one."""
    look = "example"
    if run.record.has_classes:  # a typed sentence would have no options
        look = controls.segments("look", "Look at", tuple(LOOKS), "example", shown=LOOKS.get)
    if look == "typed":
        _typed(run)
    elif example is None:
        st.info(f"No example passes the filters. Change them{OR_TYPE if run.record.has_classes else ''}.")
    else:
        _stored(run, run_examples, example)


def _stored(run: Run, run_examples: RunExamples, example: str) -> None:
    """Draws an example of the run: its stored predictions at once, its explanation if its text is available."""
    row = run_examples.table[run_examples.table["example_id"] == example].iloc[0]
    if run.record.has_reference:
        _stored_texts(row)
        return
    texts = [row[name] for name in ("text_a", "text_b") if name in row]
    logits = run_examples.logits_of(run, example)
    shares = {state: probabilities(z[None])[0] for state, z in logits.items()}
    labels = run.labels
    if not run.record.has_classes:
        there = example_table.options_there(next(iter(logits.values())))
        shares, labels = {state: values[:there] for state, values in shares.items()}, labels[:there]
    answers = answer_words(run.record)
    exhibit = exhibits.probabilities(shares, labels, int(row["label"]), answers, theme())
    left, right = st.columns([2, 3])
    with left:
        st.markdown(f"**{text.plain(example)}** · {answers.right} **{text.plain(row['true'])}**")
        for words in texts:
            st.markdown(f"> {text.plain_line(words) or '(no text)'}")
        options = zip(labels, row.get(OPTIONS, ()), strict=False)
        if lines := [f"**{text.plain(label)}** {text.plain_line(option)}" for label, option in options]:
            st.markdown("  \n".join(lines))
        _show_predictions(shares, labels, int(row["label"]))
        has_classes = run.record.has_classes
        wanted = bool(texts) and has_classes and controls.switch("explain", "Explain this prediction", False)
        if not has_classes:
            st.caption(NO_EXPLANATION[run.record.task.kind if run.record.task else CHOICE])
        elif not texts:
            st.caption("Without its sentence, a prediction cannot be explained. Type one of your own instead.")
    with right:
        show(exhibit, run.id)
    after = _edited(run, texts, shares, f"{run.id} {example}") if texts and run.record.has_classes else None
    if wanted:
        explanation(run, _as_text(texts), after)


def _stored_texts(row: pd.Series) -> None:
    """Draws the prompt and the reference, and each model's generated text and its likelihood of the reference."""
    left, right = st.columns([2, 3])
    with left:
        st.markdown(f"**{text.plain(row['example_id'])}**")
        for words in (row[name] for name in ("text_a", "text_b") if name in row):
            st.markdown(f"> {text.plain_line(words) or '(no text)'}")
        if REFERENCE in row:
            st.markdown(f"Reference: **{text.plain_line(row[REFERENCE])}**")
        st.caption(NO_EXPLANATION[GENERATION])
    with right:
        for state in example_table.STATES:
            colour, mark, title = STATE_CARDS[state]
            says = ""
            if f"{state}_says" in row:
                verdict = "right" if row[f"{state}_right"] else "wrong"
                says = f" generates **{text.plain_line(row[f'{state}_says']) or '(nothing)'}** ({verdict})"
            st.markdown(f":{colour}[{mark} {title}]{says}")
            st.caption(
                f"The reference has {formats.percent(float(row[f'{state}_per_token']))} per token, "
                f"{formats.number(float(row[f'{state}_margin']), 2)} nats in all."
            )


def _typed(run: Run) -> None:
    """Draws the fields for a user's own sentence, which is scored and explained as soon as it is typed."""
    names = _text_names(run)
    places = st.columns(len(names))
    texts = []
    for place, name, key in zip(places, names, ("sentence", "sentence_b"), strict=False):
        with place:
            texts.append(controls.typed(key, name, most=MOST, placeholder="type, then press Enter"))
    if not all(texts):
        missing = [f"a {name.lower()}" for name, words in zip(names, texts, strict=True) if not words]
        st.info(f"Type {formats.listed(missing)} and press Enter.", icon=":material/keyboard:")
        return
    if any(len(words) > controls.LINKED for words in texts):
        st.caption(f"Links leave out texts of more than {controls.LINKED} characters.")
    answer = live.ask(run, "score_text", topic="score", texts=[_as_text(texts)], states=list(example_table.STATES))
    if answer is None:
        return
    shares = {state: probabilities(answer["logits"][state])[0] for state in example_table.STATES}
    left, right = st.columns([2, 3])
    with left:
        _show_predictions(shares, answer["labels"], None)
    with right:
        show(exhibits.probabilities(shares, answer["labels"], None, answer_words(run.record), theme()), run.id)
    explanation(run, _as_text(texts), _edited(run, texts, shares, f"{run.id} {texts}"))


def _edited(run: Run, texts: Sequence[str], before: dict[str, np.ndarray], of: str) -> Text | None:
    """Draws the fields of an edited version of the sentence and what each model makes of it; returns it if it differs.

    `before` are the models' probabilities [label] of the sentence; the fields start from it, and again when `of`, the
    sentence's name, changes.
    """
    if not controls.switch("edit", "Edit it and compare", False):
        return None
    if st.session_state.setdefault(EDITED_OF, of) != of:
        for key in EDITED:
            controls.forget(key)
    st.session_state[EDITED_OF] = of
    names, edited = _text_names(run), list[str]()
    if len(names) != len(texts):
        st.caption("The task is not on this machine, so its two texts cannot be edited.")
        return None
    for name, key, words in zip(names, EDITED, texts, strict=False):
        edited.append(
            controls.typed(key, f"{name}, edited", most=max(MOST, len(words)), default=words.strip(), is_long=True)
        )
    before_edit = [words.strip() for words in texts]
    if edited == before_edit or any(a and not b for a, b in zip(before_edit, edited, strict=True)):
        st.caption("Change a word, then click beside the field (keyboard: Ctrl+Enter).")
        return None
    st.markdown("  \n".join(f"> {edits.edited_words(a, b)}" for a, b in zip(texts, edited, strict=True)))
    answer = live.ask(run, "score_text", topic="edited", texts=[_as_text(edited)], states=list(example_table.STATES))
    if answer is None:
        return None
    after = {state: probabilities(answer["logits"][state])[0] for state in example_table.STATES}
    label = int(before["finetuned"].argmax())
    table = edits.changes(before, after, label)
    st.markdown(edits.finding(table, run.labels, label))
    show(edits.edited(table, run.labels[label], theme()), run.id)
    return _as_text(edited)


def _text_names(run: Run) -> tuple[str, ...]:
    """The names of the fields: the task's text columns if it has two."""
    with suppress(SkillvizError):  # the models' answer reports a missing task
        task = cache.task_defined(run.spec.task)
        if task.pair:
            return tuple(name.replace("_", " ").capitalize() for name in task.text)
    return ("Sentence",)


def _as_text(texts: Sequence[str]) -> Text:
    return texts[0] if len(texts) == 1 else list(texts)


def _show_predictions(shares: dict[str, np.ndarray], labels: Sequence[str], true: int | None) -> None:
    """Draws each model's prediction and its confidence."""
    with st.container(horizontal=True):
        for state, values in shares.items():
            colour, mark, title = STATE_CARDS[state]
            best = int(np.argmax(values))
            with st.container(width=115, gap=None):
                st.markdown(f":{colour}[{mark} {title}]")
                right = "" if true is None else " (right)" if best == true else " (wrong)"
                st.markdown(f"**{text.plain(labels[best])}**{right}")
                st.caption(f"{formats.percent(float(values[best]))} confident")


@dataclass(frozen=True)
class AttributionRequest:
    """A request for an explanation: method, baseline, and class (None: the class predicted by the fine-tuned model)."""

    method: str
    baseline: str
    target: int | None
    steps: int


def explanation(run: Run, sentence: Text, after: Text | None = None) -> None:
    """Draws the contributions of tokens or layers to a class in each model, and whether they add up.

    Those of the tokens of an edited version, `after`, follow, for the same class.
    """
    request = _request(run)
    if note := READOUTS.get(run.record.readout or ""):
        st.caption(note)
    if request is None:
        return
    answer = live.ask(
        run, "attribute", topic="attribute", text=sentence, states=list(example_table.STATES), method=request.method,
        baseline=request.baseline, target=request.target, steps=request.steps,
    )  # fmt: skip
    if answer is None:
        return
    left, right = st.columns([2, 3])
    with left:
        _completeness(answer, request)
    with right:
        if request.method == LAYERS:
            _parts(run, answer)
        else:
            st.markdown(attribution.tokens_words(attribution.token_rows(answer), answer["label"]))
            show(attribution.tokens(answer, theme()), run.id)
    if after is not None and request.method == TOKENS:
        second = live.ask(
            run, "attribute", topic="attribute edited", text=after, states=list(example_table.STATES),
            method=request.method, baseline=request.baseline, target=list(run.labels).index(answer["label"]),
            steps=request.steps,
        )  # fmt: skip
        if second is not None:
            st.markdown("## The edited sentence")
            st.markdown(attribution.tokens_words(attribution.token_rows(second), second["label"]))
            show(attribution.tokens(second, theme(), "edited-tokens"), run.id)
    if request.method == LAYERS:
        state = controls.segments(
            "of", "Evidence by layer in", example_table.STATES, "grafted", shown=lambda s: state_style(s).title
        )
        show(attribution.layers(answer, state, theme()), run.id)


def _request(run: Run) -> AttributionRequest | None:
    """Draws the choices in one row; None, with the reason shown, if the chosen method does not apply."""
    places = st.columns([2, 2, 3, 2], vertical_alignment="bottom")
    with places[0]:
        method = controls.segments(
            "method", "Explain by", tuple(METHODS), TOKENS, shown=METHODS.get, help=about("attribution", "conductance")
        )
    is_causal = run.record.readout == "causal"
    offered = [name for name in BASELINES if not (is_causal and name == "mask")]
    with places[1]:
        baseline = controls.select(
            "baseline", "Against", offered, "zero" if is_causal else "pad", shown=BASELINES.get, help=about("baseline")
        )
    with places[2]:
        target = controls.select(
            "target", "For the class", (PREDICTED, *range(len(run.labels))), PREDICTED,
            shown=lambda c: "predicted by fine-tuned" if c == PREDICTED else run.labels[c],
            written=lambda c: "predicted" if c == PREDICTED else str(c), help=about("logodds"),
        )  # fmt: skip
    with places[3]:
        steps = controls.select("steps", "Steps", STEPS, USUAL_STEPS, help=about("completeness"))
    if method == LAYERS and run.record.architecture is not None and run.record.architecture.layers == 0:
        st.info(
            "Layer conductance is not applicable here: skillviz does not know this architecture's blocks. Explain by "
            "tokens instead.",
            icon=":material/layers_clear:",
        )
        return None
    return AttributionRequest(method, baseline, None if target == PREDICTED else target, steps)


def _parts(run: Run, answer: Answer) -> None:
    rows = attribution.part_rows(answer)
    if rows.empty:
        st.info(
            "skillviz does not know where attention and MLP are in this architecture. The evidence is shown after each "
            "block only.",
            icon=":material/layers:",
        )
        return
    st.markdown(attribution.parts_words(rows, answer["label"]))
    show(attribution.parts(answer, theme()), run.id)


def _completeness(answer: Answer, request: AttributionRequest) -> None:
    """Draws the share of the change that the values explain, and a warning if it is low."""
    gaps = attribution.completeness(answer)
    with st.container(border=True):
        st.markdown("## Does it add up?", help=about("completeness"))
        st.markdown(attribution.completeness_words(gaps))
        large = attribution.large_gaps(gaps)
        if large:
            names = formats.listed([state_style(state).title for state in large], most=3)
            more = "More steps" if request.steps < STEPS[-1] else "Another baseline"
            st.warning(
                f"The gap is large for {names}. Single values may be off by as much. {more} may help.",
                icon=":material/difference:",
            )
        table = _gap_table(gaps)
        st.dataframe(table, hide_index=True, column_config=COLUMNS, alt="Completeness by model, in nats")
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("In nats. The gap is what the numerical integral misses.", width="stretch")
            exports.table_menu(table, file="completeness", key="completeness", caption="Completeness by model, in nats")


def _gap_table(gaps: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "model": [state_style(state).title for state in gaps["state"]],
            "sentence": gaps["score"],
            "baseline": gaps["reference"],
            "change": gaps["change"],
            "gap": gaps["gap"].round(4) + 0.0,  # no minus before a zero
            "gap, %": 100 * gaps["share"],
        }
    )

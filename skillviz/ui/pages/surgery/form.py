"""The surgery page's form: stored regions, parts of the model, and how they are put together; undo and reset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from skillviz.core import formats
from skillviz.core.parameters import KINDS, ParameterTable
from skillviz.core.region_expression import canonical
from skillviz.errors import BadInput
from skillviz.runs.run import RANKING, Run
from skillviz.show import text
from skillviz.show.glossary import about
from skillviz.ui import cache
from skillviz.ui.pages.surgery import memory
from skillviz.ui.pages.surgery.memory import seeded
from skillviz.ui.pages.surgery.region_form import BIASES, HOW, JOINS, Hand, expression_of, sizes_offered

BIAS_WORDS = {"all": "weights and biases", "without": "weights, no biases", "only": "biases only"}
ROWS_HELP = (
    "Which rows of each matrix, counted from 0: numbers and ranges, such as `0-7, 12`. A row of a weight is an output "
    "of its module (an input in GPT-2); a bias or a norm is one row, number 0. Empty: all rows."
)
JSON_HELP = 'Conditions, `{"run": id, "size": n}`, and lists in `union`, `intersection` and `difference`.'


def chosen(run: Run, table: ParameterTable, names: Mapping[str, str]) -> dict[str, Any]:
    """Draws the form and returns its recipe; explains and stops where it cannot be read. `names`: the pair's runs."""
    hand = memory.current(run)
    with st.container(border=True):
        head = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
        head.markdown("### Build a region", help=about("region", "graftable"), width="content")
        hand = _filled(hand, run, table, names)
        try:
            expression = expression_of(hand)
        except BadInput as error:
            st.warning(text.plain(str(error.args[0])), icon=":material/edit:")
            with head:
                _buttons(run, hand, None)
            st.stop()
        with head:
            _buttons(run, hand, canonical(expression))
    said = canonical(expression)
    memory.remember(hand, said)
    if not memory.is_linked(said):
        st.caption(
            f"A region of more than {memory.LINKED:,} characters is not part of the address: links leave it out and "
            "open the run's own region. Saved as a run it can be linked."
        )
    return expression


def _filled(hand: Hand, run: Run, table: ParameterTable, names: Mapping[str, str]) -> Hand:
    """What the fields say: in one row with how they are put together, where they are few."""
    how = st.session_state[seeded("how", hand.how)]
    left, right = st.columns([2, 5]) if how in ("stored", "parts") else (st.container(), st.container())
    with left:
        hand = _put_together(hand, run)
    with right:
        return _fields(hand, table, names)


def _put_together(hand: Hand, run: Run) -> Hand:
    how: str = st.selectbox(
        "The region is", tuple(HOW), key=seeded("how", hand.how), format_func=HOW.__getitem__, width=420
    )
    if how == "typed" and hand.how != "typed":
        memory.forget("typed")
        hand = replace(hand, typed=canonical(expression_of(hand)))
    return replace(hand, how=how, runs=hand.runs or (run.id,))


def _fields(hand: Hand, table: ParameterTable, names: Mapping[str, str]) -> Hand:
    if hand.how == "typed":
        value = st.text_area("Region (JSON)", key=seeded("typed", hand.typed), help=JSON_HELP, height=100)
        return replace(hand, typed=value)
    places = iter(st.columns(2) if hand.has_stored and hand.has_parts else [st.container()])
    if hand.has_stored:
        with next(places):
            hand = _stored(hand, names)
    if hand.has_parts:
        with next(places):
            hand = _parts(hand, table)
    return hand


def _stored(hand: Hand, names: Mapping[str, str]) -> Hand:
    several = st.session_state[seeded("runs", list(hand.runs))]
    left, right = (st.container(), st.container()) if hand.has_parts or len(several) > 1 else st.columns(2)
    with left:
        runs = _several("runs", "Stored regions of this pair", hand.runs, list(names), names, "choose a run")
    with right:
        return _cut(hand, runs, names)


def _cut(hand: Hand, runs: tuple[str, ...], names: Mapping[str, str]) -> Hand:
    """How several stored regions are put together, or the size at which a single one is cut."""
    join, size = hand.join, hand.size if len(runs) == 1 else None
    if len(runs) > 1:
        key = seeded("join", hand.join)
        chosen_join: str | None = st.segmented_control(
            "Taken from them", tuple(JOINS), key=key, format_func=JOINS.__getitem__, required=True
        )
        join = chosen_join or hand.join
        if join != "difference":  # the order says nothing there, and equal regions should be equal expressions
            runs = tuple(sorted(runs, key=[*names, *runs].index))
    elif runs and runs[0] in names:  # one that is gone, or of another pair, is judged with the expression
        size = _size(cache.run(runs[0]), hand.size if runs == hand.runs else None)
    return replace(hand, runs=runs, join=join, size=size)


def _size(run: Run, size: int | None) -> int | None:
    """A place on the run's ranking; None for the run's own size."""
    sizes = sizes_offered([s for s in run.record.sizes if s] if RANKING in run.files else [])
    main, d = run.record.size or 0, run.record.d or 1
    if len(sizes) < 2:
        return None
    places = sorted({*sizes, main, *([size] if size else [])})
    value = st.select_slider(
        "Its size", places, key=seeded("size", size or main, places),
        format_func=lambda s: f"{formats.count(s)} ({formats.share(s / d)})",
        help="How many entries are taken from the beginning of the run's ranking, in steps of a log scale. "
        + about("size"),
    )  # fmt: skip
    return None if value == main else value


def _parts(hand: Hand, table: ParameterTable) -> Hand:
    layers = sorted({p.layer for p in table.parameters if p.layer is not None})
    names = {layer: f"layer {layer}" for layer in layers}
    left, right = st.columns(2)
    with left:
        chosen_layers = _several("layers", "Layers", hand.layers, layers, names, "all layers")
    with right:
        if table.known:
            there = {kind for p in table.parameters for kind in p.kinds}
            kinds = [kind for kind in KINDS if kind in there]
            hand = replace(hand, kinds=_several("kinds", "Module kinds", hand.kinds, kinds, {}, "all kinds"))
    left, right = st.columns(2)
    with left:
        rows = st.text_input(
            "Rows", key=seeded("rows", hand.rows), placeholder="all rows, or 0-7, 12", help=ROWS_HELP, max_chars=300
        )
    with right:
        biases: str = st.selectbox(
            "Weights or biases",
            tuple(BIASES),
            key=seeded("biases", hand.biases),
            format_func=BIAS_WORDS.__getitem__,
        )
    tensors = hand.tensors
    if not table.known or hand.tensors:
        tensors = _several("tensors", "Tensors by name", hand.tensors, list(table.names), {}, "all tensors")
    return replace(hand, layers=chosen_layers, rows=rows, biases=biases, tensors=tensors)


def _several(
    field: str, label: str, value: Sequence[Any], options: Sequence[Any], shown: Mapping[Any, str], empty: str
) -> tuple[Any, ...]:
    """The options chosen in a list, runs in the order of choice; one that is not offered, as the address may name it,
    is offered too."""
    offered = [*options, *(one for one in value if one not in options)]
    key = seeded(field, list(value))
    found = st.multiselect(label, offered, key=key, format_func=lambda one: shown.get(one, str(one)), placeholder=empty)
    return tuple(found) if field == "runs" else tuple(sorted(found, key=offered.index))


def _buttons(run: Run, hand: Hand, said: str | None) -> None:
    before = memory.before(said)
    with st.container(horizontal=True, width="content"):
        st.button("Undo", icon=":material/undo:", disabled=not before, on_click=memory.undo, args=(before,))
        st.button(
            "Back to the run's own region", icon=":material/restart_alt:", disabled=hand == memory.own(run),
            on_click=memory.fill, args=(memory.own(run),),
        )  # fmt: skip

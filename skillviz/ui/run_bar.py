"""The run bar: one line with the page's run, which opens to choose another one. The address holds the run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import streamlit as st

from skillviz.core import formats
from skillviz.show import text
from skillviz.show.briefs import (
    LEVELS,
    RunBrief,
    level_labels,
    level_value,
    options,
    roles,
    run_labels,
    switched,
    usual,
)
from skillviz.ui import address, controls, copy_link, presenter, show_code

TITLES = {"pair": "Task and model", "size": "Region size", "localizer": "Localizer", "seed": "Seed"}
HELP = {
    "pair": "The task, and the pre-trained model whose fine-tuning was localized.",
    "size": "Parameters in the region, as a share of all graftable parameters and as a count.",
    "localizer": "The method that chose the region.",
    "seed": "The localizer's random seed.",
}
VARIANTS = "variants"
NAME = "run-bar.name"  # session key: the run that the bar shows, and its name
LETTER, FRAME = 7, 60  # pixels of a letter, and of a box without its text


def run_bar(briefs: Sequence[RunBrief], chosen: RunBrief) -> None:
    """Draws the bar for `chosen`; a change in it opens the run that is most like `chosen`."""
    name = run_labels(briefs)[chosen.id]
    st.session_state[NAME] = (chosen.id, name)
    with st.container(key="run-bar", horizontal=True, vertical_alignment="center"):
        with st.popover(text.plain(name), icon=":material/tune:", key="run-bar.open"):
            place = st.container()
            variants_switch(briefs)
            among = offered(briefs, (chosen.id,))  # after the switch, on which it depends
            with place:
                for level in LEVELS:
                    _box(among, chosen, level)
            where = "yours" if chosen.is_of_user else "ships with skillviz"
            st.caption(f"Made {formats.day(chosen.finished)} · {where}")
        if roles(briefs)[chosen.id] == "variant":
            title = "variant" if chosen.is_of_user else "study variant"
            st.badge(title, color="gray", help="Settings other than the usual ones, or a repetition of another run.")
        st.space("stretch")
        show_code.place()
        copy_link.button()
        presenter.enter()


def name_of(run_id: str) -> str:
    """The name of a run in the bar; its id if the bar shows another run."""
    shown, name = st.session_state.get(NAME, ("", ""))
    return name if run_id and shown == run_id else run_id


def offered(briefs: Sequence[RunBrief], shown: Collection[str]) -> list[RunBrief]:
    """The runs that pages use: all of them if study variants are switched on, else `usual`."""
    return list(briefs) if address.current(VARIANTS) == "yes" else usual(briefs, shown)


def variants_switch(briefs: Sequence[RunBrief]) -> None:
    """Draws the switch that adds study variants, if there are any."""
    count = sum(role == "variant" for role in roles(briefs).values())
    if count:
        controls.switch(
            VARIANTS, f"Show {formats.counted(count, 'study variant')}", False,
            help="Runs with other settings or fine-tuning recipes, or repeated, most of them from studies. Under Runs, "
            "*From: you* lists all of yours.",
        )  # fmt: skip


def _box(briefs: Sequence[RunBrief], chosen: RunBrief, level: str) -> None:
    choices = options(briefs, chosen, level)
    by_label = dict(zip(level_labels(choices, level), choices, strict=True))
    value = level_value(chosen, level)
    key = f"run-bar.{level}"
    st.session_state[key] = next(label for label, brief in by_label.items() if level_value(brief, level) == value)
    st.selectbox(
        TITLES[level], list(by_label), key=key, help=HELP[level], on_change=_changed,
        args=(tuple(briefs), chosen, level, by_label), width=420,
    )  # fmt: skip


def width_of(texts: Sequence[str]) -> int:
    """The number of pixels that the longest of these texts needs in a box."""
    return round(LETTER * max(map(len, texts)) + FRAME)


def _changed(briefs: Sequence[RunBrief], chosen: RunBrief, level: str, by_label: dict[str, RunBrief]) -> None:
    brief = by_label[st.session_state[f"run-bar.{level}"]]
    address.keep(address.RUN, switched(briefs, chosen, level, level_value(brief, level)).id)

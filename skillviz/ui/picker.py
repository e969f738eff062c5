"""The run picker: pair, then localizer, then size, then seed; the address always names the run."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from skillviz.core import formats
from skillviz.show import small_world, text
from skillviz.show.entries import LEVELS, Entry, level_labels, level_value, options, switched
from skillviz.ui import address

TITLES = {"pair": "Models and task", "localizer": "Localizer", "size": "Region size", "seed": "Seed"}
HELP = {
    "pair": "Pre-trained → fine-tuned model, and the task whose skill was localized.",
    "localizer": "The method that chose the region.",
    "size": "Entries in the region, as a share of all graftable parameters and as a count.",
    "seed": "The localizer's random seed; runs that differ in a setting are told apart here.",
}
LETTER, FRAME = 7, 60  # pixels of a letter, and of what a box has beside its text


def picker(entries: Sequence[Entry], chosen: Entry) -> None:
    """Draws the four boxes, showing `chosen`; a change opens the run that keeps most of it.

    Each box is as wide as its longest text, and the row wraps: no name is cut off.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for level in LEVELS:
            choices = options(entries, chosen, level)
            by_label = dict(zip(level_labels(choices, level), choices, strict=True))
            value = level_value(chosen, level)
            key = f"picker.{level}"
            st.session_state[key] = next(t for t, e in by_label.items() if level_value(e, level) == value)
            st.selectbox(
                TITLES[level],
                list(by_label),
                key=key,
                help=HELP[level],
                on_change=_changed,
                args=(tuple(entries), chosen, level, by_label),
                width=width_of([TITLES[level], *by_label]),
            )


def width_of(texts: Sequence[str]) -> int:
    """Pixels that the longest of these texts needs in a box."""
    return round(LETTER * max(map(len, texts)) + FRAME)


def _changed(entries: Sequence[Entry], chosen: Entry, level: str, by_label: dict[str, Entry]) -> None:
    entry = by_label[st.session_state[f"picker.{level}"]]
    address.keep(address.RUN, switched(entries, chosen, level, level_value(entry, level)).id)


def caption(entry: Entry) -> None:
    """One line that names the run in full, however narrow the page; another where it is of the demo world."""
    where = "your own" if entry.is_of_user else "ships with skillviz"
    st.caption(
        f"`{entry.id}` · {text.plain(text.short_source(entry.base))} → "
        f"{text.plain(text.short_source(entry.finetuned))} · {text.plain(entry.task)} · "
        f"made {formats.day(entry.finished)} · {where}"
    )
    if toy := small_world.caution(entry.base, entry.d, entry.share):
        st.caption(toy)

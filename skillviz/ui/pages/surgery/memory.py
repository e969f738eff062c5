"""What the surgery page remembers: the form as it stands, and the expressions before it, for undo.

A region expression's only place in the address is its JSON: what the address asks for fills the form's fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any
from urllib.parse import quote_plus

import streamlit as st

from skillviz.core.region_expression import parsed
from skillviz.errors import BadInput
from skillviz.runs.run import Run
from skillviz.show import text
from skillviz.ui import address
from skillviz.ui.pages.surgery.region_form import Hand, hand_of

RECIPE = "recipe"
LINKED = 7000  # characters of an expression, as an address writes them, that still go into it; servers take 8 KB
HAND, PAST, OF_RUN = "surgery.now", "surgery.past", "surgery.of"
MOST = 50


def own(run: Run) -> Hand:
    """The form of the run's own region."""
    return Hand(runs=(run.id,))


def current(run: Run) -> Hand:
    """What the address asks for, else what this session has built for the run, else the run's own region."""
    asked = address.asked(RECIPE)
    if asked is None and st.session_state.get(OF_RUN) == run.id:
        return st.session_state[HAND]
    if st.session_state.get(OF_RUN) != run.id:
        st.session_state[OF_RUN], st.session_state[PAST] = run.id, []
    hand = own(run)
    if asked is not None:
        try:
            hand = hand_of(parsed(asked))
        except BadInput as error:
            said = text.plain(str(error.args[0]))
            st.error(f"The address asks for a region that cannot be read: {said} The run's own region is shown.")
    fill(hand)
    return hand


def remember(hand: Hand, said: str) -> None:
    """Keeps the form, and its expression, which is `said` as canonical JSON, in the address."""
    st.session_state[HAND] = hand
    past = st.session_state[PAST]
    if not past or past[-1] != said:
        st.session_state[PAST] = [*past, said][-MOST:]
    if is_linked(said):
        address.keep(RECIPE, said)
    else:
        address.remember(RECIPE, said)


def is_linked(said: str) -> bool:
    """Whether a region expression is short enough for the address."""
    return len(quote_plus(said)) <= LINKED


def before(said: str | None) -> list[str]:
    """The expressions before the one that is shown; `said` is None where the form says none."""
    past = st.session_state[PAST]
    return past[:-1] if past and past[-1] == said else past


def undo(kept: Sequence[str]) -> None:
    """Goes back to the last of these expressions; for a callback."""
    fill(hand_of(parsed(kept[-1])))
    st.session_state[PAST] = list(kept)


def fill(hand: Hand) -> None:
    """Has every field drawn anew from these values."""
    st.session_state[HAND] = hand
    for field in fields(hand):
        forget(field.name)


def forget(field: str) -> None:
    """Has one field drawn anew."""
    st.session_state.pop(_key(field), None)


def seeded(field: str, value: Any, options: Sequence[Any] | None = None) -> str:
    """The key of a field's widget, its value set where the widget does not know better."""
    key = _key(field)
    if key not in st.session_state or (options is not None and st.session_state[key] not in options):
        st.session_state[key] = value
    return key


def _key(field: str) -> str:
    return f"surgery.field.{field}"

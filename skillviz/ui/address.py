"""The address bar as the state of a view: every choice is always written there, so a copied link shows the same.

A choice lives in the session too, because Streamlit empties the address on a page switch. What the address says
wins when somebody typed it or went back; what the session says wins otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import streamlit as st

T = TypeVar("T")
RUN = "run"
_WRITTEN = "address.written"
_LAST_USED = "address.last_used"
_PAST = "address.past"
_DRAWN = "address.drawn"
_AT_LAST_RUN = "address.at_last_run"


def linked(name: str) -> str | None:
    """The value that the address asks for, when it is not what we wrote there ourselves."""
    value = st.query_params.get(name)
    return value if value is not None and value != _memory(_WRITTEN).get(name) else None


def last_used(name: str) -> str | None:
    """The value that this session used last, on whatever page."""
    return _memory(_LAST_USED).get(name)


def current(name: str) -> str | None:
    """What the address asks for, else what the session used last."""
    return linked(name) or last_used(name)


def keep(name: str, value: str) -> None:
    """Writes the value to the address and to the session's memory."""
    _memory(_LAST_USED)[name] = value
    if _memory(_WRITTEN).get(name) != value:
        _put_away(name)
    _memory(_WRITTEN)[name] = value
    _write(name, value)


def remember(name: str, value: str) -> None:
    """Keeps in the session alone what is too long for an address."""
    forget(name)
    _memory(_LAST_USED)[name] = value


def forget(name: str) -> None:
    """Removes the value from the address and from memory."""
    _put_away(name)
    _memory(_LAST_USED).pop(name, None)
    _write(name, None)


def drew(key: str, value: Any) -> None:
    """Notes what a widget holds, so that the next run can tell whether somebody has moved it since."""
    _memory(_DRAWN)[key] = _memory(_AT_LAST_RUN)[key] = value


def catch_up() -> None:
    """Puts the address right where the browser is behind; once a script run, before anything is read.

    The run that somebody asked for is taken into the session at once: whoever goes on to another page before this one
    has read its runs takes it along. Whoever chooses faster than the browser hears of the last address sends an older
    one along, which must not undo the choice before; how far it is behind does not matter, and an older one can come
    after a newer one where runs are cut short. Going back sends an older one too, but without a choice.
    """
    if _has_moved():
        for name, values in _memory(_PAST).items():
            if st.query_params.get(name) in values:
                _write(name, _memory(_WRITTEN).get(name))
    run = linked(RUN)
    if run is not None:
        _memory(_LAST_USED)[RUN] = run


def choice(name: str, options: Sequence[T], default: T, written: Callable[[T], str] = str) -> T:
    """The option that address or session names, else the default; an unknown one is passed over."""
    by_text = {written(option): option for option in options}
    value = current(name)
    return by_text.get(value, default) if value is not None else default


def _has_moved() -> bool:
    """Whether a widget holds something else than when it was last drawn, or than at the last run, cut short or not."""
    drawn, at_last_run = _memory(_DRAWN), _memory(_AT_LAST_RUN)
    values = {key: st.session_state[key] for key in drawn if key in st.session_state}
    moved = any(value != drawn[key] or value != at_last_run[key] for key, value in values.items())
    at_last_run.update(values)
    return moved


def _write(name: str, value: str | None) -> None:
    """Puts the value into the address, None for none, where it does not stand there already."""
    if value is None and name in st.query_params:
        del st.query_params[name]
    elif value is not None and st.query_params.get(name) != value:
        st.query_params[name] = value


def _put_away(name: str) -> None:
    """Notes that what was written is no longer what stands in the address."""
    before = _memory(_WRITTEN).pop(name, None)
    if before is not None:
        _memory(_PAST).setdefault(name, set()).add(before)


def _memory(place: str) -> dict[str, Any]:
    memory: dict[str, Any] = st.session_state.setdefault(place, {})
    return memory

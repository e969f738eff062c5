"""The address bar holds the state of a view: all values other than defaults, so that a copied link shows the same.

Choices are kept in the session too, because Streamlit empties the address on a page switch. The address wins if the
user typed it or went back, even for values that it no longer has; otherwise the session wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import streamlit as st

T = TypeVar("T")
RUN = "run"
LONGEST = 8_192  # characters of a value that is read; servers accept no longer address
_WRITTEN = "address.written"
_LAST_USED = "address.last_used"
_PAST = "address.past"
_DRAWN = "address.drawn"
_AT_LAST_RUN = "address.at_last_run"
_DEFAULTS = "address.defaults"
_SET = "address.set"
_TOUCHED = "address.touched"
_PAGE = "address.page"
_READ = "address.read"
_HISTORY = "skillviz_history"

_mount = st.components.v2.component(
    _HISTORY, html="<span></span>", js=Path(__file__).with_name("history.js").read_text(encoding="utf-8")
)


def keep_history() -> None:
    """Limits new entries in the browser's history to the user's own actions; called once per script run."""
    with st.container(key="address-history"):
        _mount(key=_HISTORY, height=1)


def is_asked(name: str) -> bool:
    """True if the address differs from our last value for this name: another value, or none although we wrote one."""
    return st.query_params.get(name) != _memory(_WRITTEN).get(name)


def linked(name: str) -> str | None:
    """The value in the address, if we did not write it ourselves."""
    return st.query_params.get(name) if is_asked(name) else None


def last_used(name: str) -> str | None:
    """The value that this session used last, on any page."""
    return _memory(_LAST_USED).get(name)


def current(name: str) -> str | None:
    """The value in the address if the user changed it, with None for the default; else the session's last value."""
    _memory(_READ)[name] = None
    return st.query_params.get(name) if is_asked(name) else last_used(name)


def keep(name: str, value: str, *, is_default: bool = False) -> None:
    """Writes the value to the session, and to the address if it is not the default."""
    _memory(_READ)[name] = None
    _memory(_LAST_USED)[name] = value
    text = None if is_default else value
    if _memory(_WRITTEN).get(name) != text:
        _put_away(name)
    _memory(_WRITTEN)[name] = text
    _write(name, text)


def remember(name: str, value: str) -> None:
    """Keeps a value in the session only, because it is too long for an address."""
    forget(name)
    _memory(_LAST_USED)[name] = value


def forget(name: str) -> None:
    """Removes the value from the address and from memory."""
    _put_away(name)
    _memory(_LAST_USED).pop(name, None)
    _write(name, None)


def follow(name: str, key: str, default: Any) -> None:
    """Resets a control to its new default, unless the user has touched it.

    For a control whose default depends on another control. Call it before the control's state is read, and `is_set`
    after that. A user touches a control in its widget, in a link, or with a button that sets it.
    """
    touched, defaults = _memory(_TOUCHED), _memory(_DEFAULTS)
    if linked(name) is not None or st.session_state.get(key, _memory(_SET).get(key)) != _memory(_SET).get(key):
        touched[name] = True
    elif is_asked(name):  # the user went back to the default
        touched.pop(name, None)
    if name not in touched and defaults.get(name, default) != default:
        st.session_state.pop(key, None)
        forget(name)
    defaults[name] = default


def is_set(key: str) -> None:
    """Records the state of a control's widget before it is drawn, to detect whether the user has touched it since."""
    value = st.session_state[key]
    _memory(_SET)[key] = list(value) if isinstance(value, list) else value


def drew(key: str, value: Any) -> None:
    """Records a widget's value, so that the next script run can detect that the user has changed it."""
    _memory(_DRAWN)[key] = _memory(_AT_LAST_RUN)[key] = value


def catch_up() -> None:
    """Corrects the address if the browser is behind; called once per script run, before anything is read.

    The run in the address is written to the session at once, so that it is kept if the user switches pages before this
    page has read its runs. A user who makes choices faster than the browser updates its address sends an outdated
    address with a choice. It must not undo the choice before, however far behind it is; if script runs are cut short,
    an older address can even arrive after a newer one. Going back also sends an older address, but without a choice. An
    empty address on a page other than the last one is the menu's and carries no information. On another page, the
    widgets' values are dropped, and its controls read the session: Streamlit may keep the value of the last page's
    widget under its key and still start this page's widget of the same key at its default.
    """
    for name in [name for name, value in st.query_params.items() if len(value) > LONGEST]:
        del st.query_params[name]
    _memory(_READ).clear()
    page = urlsplit(st.context.url or "").path
    is_other_page = page != st.session_state.get(_PAGE)
    st.session_state[_PAGE] = page
    if is_other_page:
        for key in _memory(_DRAWN):
            st.session_state.pop(key, None)
        _memory(_DRAWN).clear()
    if (is_other_page or not page) and not st.query_params:
        _memory(_WRITTEN).clear()
    if _has_moved():
        for name, values in _memory(_PAST).items():
            if st.query_params.get(name) in values:
                _write(name, _memory(_WRITTEN).get(name))
    run = linked(RUN)
    if run is not None:
        _memory(_LAST_USED)[RUN] = run


def tidy(*others: str) -> None:
    """Removes values from the address that nothing on the page has read; called once per script run, after the page.

    `others` are names that are read elsewhere. The session remembers a removed value, for a control that is drawn
    later.
    """
    for name in set(st.query_params) - {*_memory(_READ), *_memory(_WRITTEN), *others, RUN}:
        _memory(_LAST_USED)[name] = st.query_params[name]
        _write(name, None)


def choice(name: str, options: Sequence[T], default: T, written: Callable[[T], str] = str) -> T:
    """The option named by the address or the session, else the default; an unknown name is ignored."""
    by_text = {written(option): option for option in options}
    value = current(name)
    return by_text.get(value, default) if value is not None else default


def _has_moved() -> bool:
    """True if a widget's value has changed since it was last drawn, or since the last run, cut short or not."""
    drawn, at_last_run = _memory(_DRAWN), _memory(_AT_LAST_RUN)
    values = {key: st.session_state[key] for key in drawn if key in st.session_state}
    moved = any(value != drawn[key] or value != at_last_run[key] for key, value in values.items())
    at_last_run.update(values)
    return moved


def _write(name: str, value: str | None) -> None:
    """Writes the value into the address if it is not there already; None removes it."""
    before = st.query_params.get(name)
    if before == value:
        return
    _memory(_PAST).setdefault(name, set()).add(before)
    if value is None:
        del st.query_params[name]
    else:
        st.query_params[name] = value


def _put_away(name: str) -> None:
    """Records that the value we wrote is no longer in the address."""
    written = _memory(_WRITTEN)
    if name in written:
        _memory(_PAST).setdefault(name, set()).add(written.pop(name))


def _memory(place: str) -> dict[str, Any]:
    memory: dict[str, Any] = st.session_state.setdefault(place, {})
    return memory

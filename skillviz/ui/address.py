"""The address bar as the state of a view: what is not the default stands there, so a copied link shows the same.

A choice lives in the session too, because Streamlit empties the address on a page switch. What the address says
wins when somebody typed it or went back, also what it no longer says; what the session says wins otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import streamlit as st

T = TypeVar("T")
RUN = "run"
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
    """Only a reader's own actions add an entry to the browser's history; called once a script run."""
    with st.container(key="address-history"):
        _mount(key=_HISTORY, height=1)


def is_asked(name: str) -> bool:
    """Whether the address says another value than we wrote there, or none where we wrote one."""
    return st.query_params.get(name) != _memory(_WRITTEN).get(name)


def linked(name: str) -> str | None:
    """The value that the address asks for, when it is not what we wrote there ourselves."""
    return st.query_params.get(name) if is_asked(name) else None


def last_used(name: str) -> str | None:
    """The value that this session used last, on whatever page."""
    return _memory(_LAST_USED).get(name)


def current(name: str) -> str | None:
    """What the address asks for, which is None where it asks for the default; else what the session used last."""
    _memory(_READ)[name] = None
    return st.query_params.get(name) if is_asked(name) else last_used(name)


def keep(name: str, value: str, *, is_default: bool = False) -> None:
    """Writes the value to the session's memory, and to the address where it is not the default."""
    _memory(_READ)[name] = None
    _memory(_LAST_USED)[name] = value
    text = None if is_default else value
    if _memory(_WRITTEN).get(name) != text:
        _put_away(name)
    _memory(_WRITTEN)[name] = text
    _write(name, text)


def remember(name: str, value: str) -> None:
    """Keeps in the session alone what is too long for an address."""
    forget(name)
    _memory(_LAST_USED)[name] = value


def forget(name: str) -> None:
    """Removes the value from the address and from memory."""
    _put_away(name)
    _memory(_LAST_USED).pop(name, None)
    _write(name, None)


def follow(name: str, key: str, default: Any) -> None:
    """Forgets the value of a control that the user has not touched and that has another default now: it takes that one.

    For a control whose default depends on another control; before its state is read, and `is_set` after that. A user
    touches it in its widget, in a link, or by a button that sets it.
    """
    touched, defaults = _memory(_TOUCHED), _memory(_DEFAULTS)
    if linked(name) is not None or st.session_state.get(key, _memory(_SET).get(key)) != _memory(_SET).get(key):
        touched[name] = True
    elif is_asked(name):  # the reader went back to the default
        touched.pop(name, None)
    if name not in touched and defaults.get(name, default) != default:
        st.session_state.pop(key, None)
        forget(name)
    defaults[name] = default


def is_set(key: str) -> None:
    """Notes the state of a control's widget before it is drawn, to tell whether the user has touched it since."""
    value = st.session_state[key]
    _memory(_SET)[key] = list(value) if isinstance(value, list) else value


def drew(key: str, value: Any) -> None:
    """Notes what a widget holds, so that the next run can tell whether somebody has moved it since."""
    _memory(_DRAWN)[key] = _memory(_AT_LAST_RUN)[key] = value


def catch_up() -> None:
    """Puts the address right where the browser is behind; once a script run, before anything is read.

    The run that somebody asked for is taken into the session at once: whoever goes on to another page before this one
    has read its runs takes it along. Whoever chooses faster than the browser hears of the last address sends an older
    one along, which must not undo the choice before; how far it is behind does not matter, and an older one can come
    after a newer one where runs are cut short. Going back sends an older one too, but without a choice. An empty
    address on another page than before is the menu's, and says nothing.
    """
    _memory(_READ).clear()
    if _is_of_another_page() and not st.query_params:
        _memory(_WRITTEN).clear()
    if _has_moved():
        for name, values in _memory(_PAST).items():
            if st.query_params.get(name) in values:
                _write(name, _memory(_WRITTEN).get(name))
    run = linked(RUN)
    if run is not None:
        _memory(_LAST_USED)[RUN] = run


def tidy(*others: str) -> None:
    """Takes out of the address what nothing on the page has read; once a script run, behind the page.

    `others` are names that are read elsewhere. The session remembers a value, for a control that is drawn later.
    """
    for name in set(st.query_params) - {*_memory(_READ), *_memory(_WRITTEN), *others, RUN}:
        _memory(_LAST_USED)[name] = st.query_params[name]
        _write(name, None)


def choice(name: str, options: Sequence[T], default: T, written: Callable[[T], str] = str) -> T:
    """The option that address or session names, else the default; an unknown one is passed over."""
    by_text = {written(option): option for option in options}
    value = current(name)
    return by_text.get(value, default) if value is not None else default


def _is_of_another_page() -> bool:
    """Whether the browser shows another page than at the last script run; unknown without a browser."""
    page = urlsplit(st.context.url or "").path
    before = st.session_state.get(_PAGE)
    st.session_state[_PAGE] = page
    return not page or page != before


def _has_moved() -> bool:
    """Whether a widget holds something else than when it was last drawn, or than at the last run, cut short or not."""
    drawn, at_last_run = _memory(_DRAWN), _memory(_AT_LAST_RUN)
    values = {key: st.session_state[key] for key in drawn if key in st.session_state}
    moved = any(value != drawn[key] or value != at_last_run[key] for key, value in values.items())
    at_last_run.update(values)
    return moved


def _write(name: str, value: str | None) -> None:
    """Puts the value into the address, None for none, where it does not stand there already."""
    before = st.query_params.get(name)
    if before == value:
        return
    _memory(_PAST).setdefault(name, set()).add(before)
    if value is None:
        del st.query_params[name]
    else:
        st.query_params[name] = value


def _put_away(name: str) -> None:
    """Notes that what was written is no longer what stands in the address."""
    written = _memory(_WRITTEN)
    if name in written:
        _memory(_PAST).setdefault(name, set()).add(written.pop(name))


def _memory(place: str) -> dict[str, Any]:
    memory: dict[str, Any] = st.session_state.setdefault(place, {})
    return memory

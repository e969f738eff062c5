"""The widgets of the pages. Each choice is written to the address at once, so a copied link shows the same view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, cast

import streamlit as st

from skillviz.serving import read_only
from skillviz.serving.settings import settings
from skillviz.ui import address, copy_link

T = TypeVar("T")
LINKED = 400  # the longest typed text, in characters, that is written to the address
WHOLE = "all"
BETWEEN, NONE = "~", "none"


def select(
    name: str,
    label: str,
    options: Sequence[T],
    default: T,
    *,
    shown: Callable[[T], Any] = str,
    written: Callable[[T], str] = str,
    help: str | None = None,
    width: int | Literal["stretch"] = "stretch",
    shows_label: bool = True,
    link_has_default: bool = False,
    follows: bool = False,
) -> T:
    """The option chosen in a box; `written` converts it for the address. Screen readers read a hidden label too.

    `link_has_default` is for a default that depends on stored runs or studies: the address leaves it out like any
    other, but a copied link includes it. `follows` is for a default that depends on another control: until the user
    touches the box, it takes each new default.
    """
    key = _seeded(name, options, default, written, follows)
    visibility: Literal["visible", "collapsed"] = "visible" if shows_label else "collapsed"
    value = st.selectbox(
        label, options, key=key, format_func=shown, help=help, width=width, label_visibility=visibility
    )
    return _keep_choice(name, value, default, written, link_has_default)


def segments(
    name: str,
    label: str,
    options: Sequence[T],
    default: T,
    *,
    shown: Callable[[T], Any] = str,
    written: Callable[[T], str] = str,
    help: str | None = None,
    shows_label: bool = True,
    follows: bool = False,
) -> T:
    """The option chosen among a few buttons in a row; `shows_label` and `follows` work as in `select`."""
    key = _seeded(name, options, default, written, follows)
    value = st.segmented_control(
        label, options, key=key, format_func=shown, help=help, required=True,
        label_visibility="visible" if shows_label else "collapsed",
    )  # fmt: skip
    return _keep_choice(name, value, default, written)


def whole(name: str, label: str, low: int, high: int, default: int, *, help: str | None = None) -> int:
    """The whole number chosen with a slider, low <= number <= high."""
    key = _seeded(name, range(low, high + 1), default, str)
    return _keep_choice(name, st.slider(label, low, high, key=key, help=help), default, str)


def steps(
    name: str,
    label: str,
    options: Sequence[T],
    default: T,
    *,
    shown: Callable[[T], Any] = str,
    written: Callable[[T], str] = str,
    help: str | None = None,
) -> T:
    """The option chosen with a slider that has one step per option, at least two."""
    key = _seeded(name, options, default, written)
    value = st.select_slider(label, options, key=key, format_func=shown, help=help)
    return _keep_choice(name, value, default, written)


def span(name: str, label: str, low: int, high: int, *, help: str | None = None) -> tuple[int, int]:
    """The first and last integer, inclusive, of a range within low..high chosen with a slider; all of it by default."""
    key = _key(name)
    if not _is_span(st.session_state.get(key), low, high) or address.is_asked(name):
        st.session_state[key] = _read_span(address.current(name), low, high)
    first, last = cast("tuple[int, int]", st.slider(label, low, high, key=key, help=help))
    address.drew(key, (first, last))
    is_whole = (first, last) == (low, high)
    address.keep(name, WHOLE if is_whole else f"{first}-{last}", is_default=is_whole)
    return first, last


def typed(
    name: str,
    label: str,
    *,
    most: int,
    linked: int = LINKED,
    placeholder: str | None = None,
    help: str | None = None,
    is_long: bool = False,
    default: str = "",
) -> str:
    """The typed text, of at most `most` characters, without spaces at its ends; `default` before the user types.

    A text other than the default is written to the address if it has up to `linked` characters, else to the session.
    With `is_long` the field has as many lines as the text takes.
    """
    key = _key(name)
    if key not in st.session_state or address.is_asked(name):
        st.session_state[key] = (address.current(name) or default)[:most]
    if is_long:
        value = st.text_area(label, key=key, max_chars=most, placeholder=placeholder, help=help, height="content")
    else:
        value = st.text_input(label, key=key, max_chars=most, placeholder=placeholder, help=help)
    address.drew(key, value)
    value = value.strip()
    if not value:
        address.forget(name)
    elif len(value) > linked:
        address.remember(name, value)
    else:
        address.keep(name, value, is_default=value == default)
    return value


def switch(name: str, label: str, default: bool, *, help: str | None = None) -> bool:
    """True if the switch is on."""
    key = _seeded(name, (True, False), default, _yes)
    return _keep_choice(name, st.toggle(label, key=key, help=help), default, _yes)


def press(name: str, label: str, *, of: str, icon: str | None = None, help: str | None = None) -> bool:
    """True once the button, which runs models, has been pressed; draws the button until then.

    The press is kept, also in the address, until `of`, the subject of the button, changes.
    """
    subject = f"press.of.{name}"
    if st.session_state.setdefault(subject, of) != of and address.linked(name) is None:
        forget(name)
    st.session_state[subject] = of
    key = _seeded(name, (True, False), False, _yes)
    is_pressed = bool(st.session_state[key])
    if not is_pressed:
        action(
            label, key=f"press.{name}", on_click=assign, args=(name, True), type="primary", icon=icon, help=help
        )  # fmt: skip
    return _keep_choice(name, is_pressed, False, _yes)


def any_of(
    name: str,
    label: str,
    options: Sequence[str],
    default: Sequence[str],
    *,
    shown: Callable[[str], Any] = str,
    help: str | None = None,
) -> tuple[str, ...]:
    """The selected options, in their order, possibly none. In the address they are joined by `~`."""
    key = _key(name)
    stored = st.session_state.get(key)
    if stored is None or any(value not in options for value in stored) or address.is_asked(name):
        linked = address.current(name)
        wanted = default if linked is None else linked.split(BETWEEN)
        st.session_state[key] = [option for option in options if option in wanted]
    chosen = st.pills(label, options, selection_mode="multi", key=key, format_func=shown, help=help)
    address.drew(key, chosen)
    valid = tuple(option for option in options if option in chosen)
    address.keep(name, BETWEEN.join(valid) or NONE, is_default=set(valid) == set(default))
    return valid


def assign(name: str, value: Any) -> None:
    """Sets a control's value, for example after a click in a chart; only before it is drawn, or in a callback."""
    st.session_state[_key(name)] = value


def forget(name: str) -> None:
    """Resets a control: removes its value from the address, the session and its widget; only in a callback."""
    address.forget(name)
    st.session_state.pop(_key(name), None)


def current(name: str, options: Sequence[T], default: T, written: Callable[[T], str] = str) -> T:
    """The value that a `select` or `segments` drawn later on the page will return."""
    return cast("T", st.session_state[_seeded(name, options, default, written)])


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _key(name: str) -> str:
    return f"control.{name}"


def _seeded(name: str, options: Sequence[T], default: T, written: Callable[[T], str], follows: bool = False) -> str:
    """The widget's key, after its state is set from the address or the session if it has no valid state of its own."""
    key = _key(name)
    if follows:
        address.follow(name, key, default)
    is_new = key not in st.session_state or st.session_state[key] not in options
    if is_new or address.is_asked(name):
        st.session_state[key] = address.choice(name, options, default, written)
    if follows:
        address.is_set(key)
    return key


def _is_span(value: Any, low: int, high: int) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and low <= value[0] <= value[1] <= high


def _read_span(text: str | None, low: int, high: int) -> tuple[int, int]:
    """The range written as `3-20`; all of low..high if it is not a range within it."""
    first, _, last = (text or "").partition("-")
    ends = (int(first), int(last)) if first.isdecimal() and last.isdecimal() else None
    return ends if ends is not None and _is_span(ends, low, high) else (low, high)


def _keep_choice(
    name: str, value: T | None, default: T, written: Callable[[T], str], link_has_default: bool = False
) -> T:
    chosen = default if value is None else value
    address.drew(_key(name), value)
    address.keep(name, written(chosen), is_default=chosen == default)
    if link_has_default and chosen == default:
        copy_link.include(name, written(chosen))
    return chosen


def action(label: str, *, disabled: bool = False, help: str | None = None, **more: Any) -> bool:
    """Draws `st.button` with these arguments and returns whether it was clicked."""
    if settings.read_only:
        disabled, help = True, read_only.REASON
    return st.button(label, disabled=disabled, help=help, **more)

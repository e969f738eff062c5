"""The widgets of a form: boxes that accept typed values, lists, optional numbers. All are written to the address."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.errors import SkillvizError
from skillviz.jobs import slurm
from skillviz.runs.slurm_queue import SLURM
from skillviz.serving import sign_in, visitor
from skillviz.show import text
from skillviz.ui import address, controls

LONGEST = 300  # characters of a typed name
LOST = "form.lost"  # session key: requested values that were not among the options, by name
NONE = "none"
HERE = "here"
PLACES = {HERE: "This machine", SLURM: "Slurm cluster"}


def box(
    name: str,
    label: str,
    options: Sequence[str],
    default: str,
    *,
    shown: Callable[[str], str] = str,
    help: str | None = None,
    placeholder: str = "choose, or type",
    names_files: bool = False,
    follows: bool = False,
) -> str:
    """The chosen option, or the text typed instead; empty if there is neither.

    With `names_files` it is also empty while a file that is not offered is named only by the address. `follows` works
    as in `controls.select`.
    """
    key = _key(name)
    if follows:
        address.follow(name, key, default)
    if names_files and (linked := address.linked(name)) is not None:
        visitor.note_linked(name, (linked,))
    if key not in st.session_state or address.is_asked(name):
        st.session_state[key] = _linked_text(address.current(name), default) or None
    address.is_set(key)
    value = st.session_state[key]
    offered = [*options, *([value] if value and value not in options else [])]
    chosen = st.selectbox(
        label, offered, key=key, format_func=shown, help=help, placeholder=placeholder, accept_new_options=True
    )
    address.drew(key, chosen)
    value = _keep_text(name, (chosen or "").strip(), default)
    return value if not names_files or visitor.is_chosen(name, (value,), options) else ""


def any_of(
    name: str,
    label: str,
    options: Sequence[str],
    default: Sequence[str],
    *,
    shown: Callable[[str], str] = str,
    help: str | None = None,
    placeholder: str = "choose, or type",
    takes_typed: bool = True,
    names_files: bool = False,
    follows: bool = False,
) -> tuple[str, ...]:
    """The chosen options and typed values, in the order of choice; empty if there are none.

    With `names_files`, files that are not offered and are named only by the address are left out. `follows` works as in
    `controls.select`.
    """
    key = _key(name)
    if follows:
        address.follow(name, key, list(default))
    if names_files and (linked := address.linked(name)) is not None:
        visitor.note_linked(name, linked.split(","))
    if key not in st.session_state or address.is_asked(name):
        linked = address.current(name)
        st.session_state[key] = list(default) if linked is None else [] if linked == NONE else linked.split(",")
    if not takes_typed:
        st.session_state[key] = [value for value in st.session_state[key] if value in options]
    address.is_set(key)
    offered = [*options, *(value for value in st.session_state[key] if value not in options)]
    chosen = st.multiselect(
        label, offered, key=key, format_func=shown, help=help, placeholder=placeholder, accept_new_options=takes_typed,
        select_all=False,
    )  # fmt: skip
    address.drew(key, list(chosen))
    words = tuple(dict.fromkeys(part.strip() for word in chosen for part in word.split(",") if part.strip()))
    address.keep(name, ",".join(words) or NONE, is_default=words == tuple(default))
    if names_files and not visitor.is_chosen(name, words, options):
        return tuple(word for word in words if word in options)
    return words


def number(
    name: str,
    label: str,
    default: float | None,
    *,
    low: float = 1,
    high: float | None = None,
    is_whole: bool = True,
    help: str | None = None,
    placeholder: str = "all",
) -> float | None:
    """The typed number, low <= number <= high; None if the field is empty."""
    key = _key(name)
    if key not in st.session_state or address.is_asked(name):
        st.session_state[key] = _linked_number(address.current(name), default, low, high, is_whole)
    cast = int if is_whole else float
    value = st.number_input(
        label, cast(low), None if high is None else cast(high), None, key=key, help=help, placeholder=placeholder,
        step=1 if is_whole else None, format=None if is_whole else "%g",
    )  # fmt: skip
    address.drew(key, value)
    address.keep(name, NONE if value is None else f"{value:.12g}", is_default=value == default)
    return value


def words(name: str, label: str, default: str, *, help: str | None = None, placeholder: str = "") -> str:
    """The typed text, without spaces at its ends."""
    key = _key(name)
    if key not in st.session_state or address.is_asked(name):
        st.session_state[key] = _linked_text(address.current(name), default)
    value = st.text_input(label, key=key, max_chars=LONGEST, help=help, placeholder=placeholder)
    address.drew(key, value)
    return _keep_text(name, value.strip(), default)


def one_of(
    name: str,
    label: str,
    options: Sequence[str],
    default: str,
    *,
    shown: Callable[[str], str] = str,
    help: str | None = None,
    place: DeltaGenerator | None = None,
) -> str:
    """The option chosen in a box.

    If the address names an unknown option, a warning in `place` says so until the user chooses another option than the
    default, so that nothing else is started in its place unnoticed.
    """
    lost: dict[str, str] = st.session_state.setdefault(LOST, {})
    if (linked := address.linked(name)) is not None:
        lost.pop(name, None)
        lost |= {} if linked in options else {name: linked}
    value = controls.select(name, label, options, default, shown=shown, help=help)
    if value != default:
        lost.pop(name, None)
    if name in lost:
        (place or st).warning(
            f"{label}: '{text.plain(lost[name])}' is not an option of this form, so it uses {shown(value)} "
            "instead. The command line may accept it.",
            icon=":material/edit_off:",
        )
    return value


def assign(name: str, value: str | list[str]) -> None:
    """Sets a field of text, or of several choices, from outside; only before it is drawn, or in a callback."""
    st.session_state[_key(name)] = value
    address.keep(name, (value if isinstance(value, str) else ",".join(value)) or NONE)


def _key(name: str) -> str:
    return f"form.{name}"


def _linked_text(linked: str | None, default: str) -> str:
    return default if linked is None else "" if linked == NONE else linked[:LONGEST]


def _linked_number(
    linked: str | None, default: float | None, low: float, high: float | None, is_whole: bool
) -> float | None:
    """The number in the address; the default if the field could not hold it."""
    if linked == NONE:
        return None
    try:
        value = float(linked) if linked is not None else default
    except ValueError:
        value = default
    if value is None or not low <= value <= (float("inf") if high is None else high) or value == float("inf"):
        value = default
    return value if value is None else int(value) if is_whole else float(value)


def _keep_text(name: str, value: str, default: str) -> str:
    address.keep(name, value or NONE, is_default=value == default)
    return value


def cluster(key: str) -> str | None:
    """The chosen cluster, None for this machine; no control is drawn if no cluster is set up.

    Users who sign in take turns on this machine: the cluster's queue knows only one user, the owner of this server.
    """
    if not slurm.is_set_up() or sign_in.user() is not None:
        return None
    chosen = controls.segments(
        key, "Where", tuple(PLACES), HERE, shown=PLACES.get,
        help="On the cluster, jobs wait in its queue and continue after time limits and lost nodes. Its settings are "
        "in cluster.yaml (docs/jobs.md).",
    )  # fmt: skip
    return None if chosen == HERE else chosen


def cluster_refusal() -> str:
    """The reason why nothing can be submitted from here; empty if it can, provided that Slurm answers."""
    try:
        slurm.checked_settings()
    except SkillvizError as error:
        return str(error.args[0])
    return ""

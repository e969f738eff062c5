"""The library of runs: filters, the table, and what can be done with the chosen run."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from skillviz.core import formats
from skillviz.errors import StoreError
from skillviz.plots.theme import localizer_style
from skillviz.runs.folder import OPEN
from skillviz.runs.store import Unfinished, Unreadable
from skillviz.show import text
from skillviz.show.entries import Entry
from skillviz.ui import address, cache, controls, form, job_words, jobs_view, page_table, run_list

CHOSEN, TABLE, PROBLEM = "chosen", "library.table", "library.problem"


def counts(entries: Sequence[Entry]) -> tuple[int, int, int]:
    """Runs, pairs, and runs that did not finish; those under way are not among them."""
    ended, unreadable = _ended()
    return len(entries), len({entry.pair for entry in entries}), len(ended) + len(unreadable)


def _ended() -> tuple[list[Unfinished], Sequence[Unreadable]]:
    """Failed and cancelled runs, and folders that cannot be read."""
    unfinished, unreadable = cache.others()
    return [run for run in unfinished if run.record.status not in OPEN], unreadable


def filters(entries: Sequence[Entry]) -> list[Entry]:
    """Draws the filters and returns the runs that pass; what is filtered stands in the address."""
    places = st.columns([4, 4, 3], vertical_alignment="bottom")
    with places[0]:
        typed = form.words("search", "Search", "", placeholder="part of a name, a task, a note")
    with places[1]:
        names = sorted({entry.localizer for entry in entries})
        chosen = form.any_of(
            "localizers",
            "Localizers",
            names,
            (),
            shown=lambda name: localizer_style(name).title,
            placeholder="all",
            takes_typed=False,
        )
    with places[2]:
        where = controls.segments("from", "From", ("all", "you", "skillviz"), "all")
    return [e for e in entries if _passes(e, typed, chosen, where)]


def _passes(entry: Entry, typed: str, localizers: Sequence[str], where: str) -> bool:
    texts = (entry.id, entry.base, entry.finetuned, entry.task, entry.localizer, cache.note(entry.id))
    haystack = " ".join(texts).lower()
    return (
        all(word in haystack for word in typed.lower().split())
        and (not localizers or entry.localizer in localizers)
        and (where == "all" or entry.is_of_user == (where == "you"))
    )


def table(entries: Sequence[Entry]) -> None:
    """The runs; choosing a row chooses the run for the actions below."""
    if not entries:
        st.info("No run passes these filters.")
        return
    frame = run_list.listing(entries)
    st.dataframe(
        frame,
        key=TABLE,
        hide_index=True,
        column_config=run_list.COLUMNS,
        selection_mode="single-row",
        on_select=lambda: _row_chosen(frame["run"].tolist()),
        height=min(38 + 35 * len(frame), 560),
        alt="All runs, one a row",
    )


def _row_chosen(ids: list[str]) -> None:
    rows = st.session_state[TABLE]["selection"]["rows"]
    if rows and rows[0] < len(ids):
        controls.assign(CHOSEN, ids[rows[0]])


def actions(entries: Sequence[Entry]) -> None:
    """Open, note and delete for one run, chosen by row above or in the box."""
    if not entries:
        return
    ids = [entry.id for entry in entries]
    last = address.last_used(address.RUN)
    with st.container(border=True):
        left, right = st.columns([3, 2], vertical_alignment="bottom")
        with left:
            default = last if last in ids else ids[0]
            run_id = controls.select(CHOSEN, "Chosen run", ids, default, help="Or mark its row in the table.")
        entry = entries[ids.index(run_id)]
        with right.container(horizontal=True):
            if st.button("Open run", type="primary", icon=":material/open_in_full:"):
                address.keep(address.RUN, run_id)
                st.switch_page(page_table.PAGES["overview"].link(), query_params={address.RUN: run_id})
            if st.button("Delete run", icon=":material/delete:", disabled=not entry.is_of_user):
                confirm_delete(run_id)
        if not entry.is_of_user:
            st.caption("This run ships with skillviz, so it cannot be deleted here; only runs of your own folder can.")
        _note(entry)


def _note(entry: Entry) -> None:
    if not entry.is_of_user:
        return
    key = f"library.note.{entry.id}"
    st.session_state.setdefault(key, cache.note(entry.id))
    st.text_area("Note", key=key, placeholder="What is worth remembering about this run?", height=80)
    if st.button("Save note", disabled=st.session_state[key] == cache.note(entry.id)):
        try:
            cache.user_store().set_note(entry.id, st.session_state[key])
        except StoreError as error:
            st.error(text.plain(str(error.args[0])))
        else:
            st.rerun()


@st.dialog("Delete this run?")
def confirm_delete(run_id: str) -> None:
    """Asks before a run is deleted; there is no way back."""
    st.markdown(
        f"Run `{run_id}` and all its files will be removed from `{cache.user_store().root}`. This cannot be undone."
    )
    with st.container(horizontal=True):
        gone = st.button("Delete for good", type="primary", on_click=_delete, args=(run_id,))
        if st.button("Keep it") or gone:
            st.rerun()


def _delete(run_id: str) -> None:
    try:
        cache.user_store().delete(run_id)
    except StoreError as error:
        st.session_state[PROBLEM] = str(error.args[0])
        return
    if address.last_used(address.RUN) == run_id:
        address.forget(address.RUN)


def problem() -> None:
    """Says once why the last action failed."""
    sentence = st.session_state.pop(PROBLEM, "")
    if sentence:
        st.error(text.plain(sentence))


def unfinished() -> None:
    """Runs that cannot be opened, each with the reason and, for those of the user's folder, a way to remove it."""
    ended, unreadable = _ended()
    rows = [(run.path, f"{run.record.status}", _why(run)) for run in ended]
    rows += [(folder.path, "unreadable", folder.reason) for folder in unreadable]
    if not rows:
        return
    user_root = cache.user_store().root.resolve()
    with st.expander(f"{formats.counted(len(rows), 'run')} that cannot be opened", expanded=False):
        for path, status, why in rows:
            left, right = st.columns([4, 2], vertical_alignment="center")
            left.markdown(f"`{path.name}` · **{status}** · {text.plain(why)}")
            if path.parent.resolve() != user_root:
                continue
            with right.container(horizontal=True):
                if status != "unreadable":
                    jobs_view.resume_button(path.name)
                if st.button("Delete", key=f"library.delete.{path.name}"):
                    confirm_delete(path.name)


def _why(entry: Unfinished) -> str:
    """The class of the failure and its sentence, with what to do."""
    error = entry.record.error
    if error is None:
        return (
            "It can go on from its last checkpoint." if entry.record.status == "cancelled" else "No reason was stored."
        )
    title, todo = job_words.failure(error.kind)
    return f"{title}: {error.message} {todo}"

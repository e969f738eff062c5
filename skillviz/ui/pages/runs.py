"""The library of runs: filters, the runs by task, and the actions on the chosen runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.errors import StoreError, visible
from skillviz.plots.theme import localizer_style
from skillviz.runs.folder import OPEN
from skillviz.runs.store import Unfinished, Unreadable
from skillviz.serving import sign_in
from skillviz.show import run_fields, text
from skillviz.show.briefs import RunBrief, matches, opening_brief, pair_labels, run_labels
from skillviz.tasks.readable_names import readable_name
from skillviz.ui import (
    address,
    cache,
    controls,
    exports,
    form,
    job_words,
    jobs_view,
    page,
    page_table,
    run_list,
    show_code,
)
from skillviz.ui.chart import below, selectable, theme
from skillviz.ui.controls import action
from skillviz.ui.pages.compare import FEWEST, MOST
from skillviz.ui.run_bar import VARIANTS, offered

CHOSEN = "chosen"  # in the address
KEY, TABLE, PROBLEM, DELETED = "library.chosen", "library.table", "library.problem", "library.deleted"
POINTED = "library.pointed"  # session key: the run whose mark was clicked
LINKED = 6  # up to this many chosen runs are written to the address
FIRST = ("localizer", "share", "graft", *(row.title for row in run_list.UNLIKE_SHARES), "recovered", "ece")
"""The first columns: a phone shows only about four."""
AXES = ("size", "recovered")  # of the plot, at first
FEW_ROWS = 30  # the number of rows up to which all groups are open
MOST_NOTED = 10_000  # characters of a note


def counts(briefs: Sequence[RunBrief]) -> tuple[int, int, int]:
    """The numbers of runs, tasks, and runs that ended unfinished; running jobs are not counted."""
    ended, unreadable = _ended()
    return len(briefs), len({brief.task for brief in briefs}), len(ended) + len(unreadable)


def _ended() -> tuple[list[Unfinished], Sequence[Unreadable]]:
    """Failed and cancelled runs, and folders that cannot be read."""
    unfinished, unreadable = cache.others()
    return [run for run in unfinished if run.record.status not in OPEN], unreadable


def filters(briefs: Sequence[RunBrief]) -> list[RunBrief]:
    """Draws the filters and returns the runs that pass; the filters are kept in the address."""
    search, localizers, origin = st.columns([4, 4, 3], vertical_alignment="bottom")
    with search:
        typed = form.words("search", "Search", "", placeholder="part of a name, a task, a note, or a #tag")
    with localizers:
        names = sorted({brief.localizer for brief in briefs})
        chosen = form.any_of(
            "localizers",
            "Localizers",
            names,
            (),
            shown=lambda name: localizer_style(name).title,
            placeholder="all",
            takes_typed=False,
        )
    with origin:
        where = controls.segments("from", "From", ("all", "you", "skillviz"), "all")
    _fill(briefs)
    # a user who filters by own runs looks for any of them, variants too
    runs = briefs if where == "you" else offered(briefs, st.session_state[KEY])
    notes = cache.notes(brief.id for brief in runs) if typed.strip() else {}
    return [
        brief
        for brief in runs
        if matches(brief, typed, notes.get(brief.id, ""))
        and (not chosen or brief.localizer in chosen)
        and (where == "all" or brief.is_of_user == (where == "you"))
    ]


def _fill(briefs: Sequence[RunBrief]) -> None:
    """Sets the chosen runs from the address if it was changed, and removes runs that no longer exist."""
    if KEY not in st.session_state or address.is_asked(CHOSEN):
        st.session_state[KEY] = [name for name in (address.current(CHOSEN) or "").split(",") if name]
    known = {brief.id for brief in briefs}
    st.session_state[KEY] = [run_id for run_id in st.session_state[KEY] if run_id in known]


def actions(briefs: Sequence[RunBrief], shown: Sequence[RunBrief]) -> None:
    """Draws the box of chosen runs, which offers the `shown` ones, and the actions on them."""
    labels = run_labels(briefs)
    ids = list(dict.fromkeys([*st.session_state[KEY], *(brief.id for brief in shown)]))
    with st.container(border=True):
        chosen_ids = st.multiselect(
            "Chosen runs", ids, key=KEY, format_func=lambda run_id: labels.get(run_id, run_id),
            placeholder="Mark rows below (keyboard: Shift+Space), or type a name here", wrap=False,
            select_all=False,
        )  # fmt: skip
        _keep(chosen_ids)
        by_id = {brief.id: brief for brief in briefs}
        chosen = [by_id[run_id] for run_id in chosen_ids]
        with st.container(horizontal=True):
            _open_button(chosen_ids)
            _compare_button(chosen_ids)
            with page.explained():
                runs = cache.runs(chosen_ids)
            name = exports.file_name(chosen_ids[0]) if len(chosen_ids) == 1 else f"skillviz-{len(chosen_ids)}-runs"
            exports.zip_button(
                "Download (zip)", runs, file=name, key="library.zip",
                help="Stored files and tables as CSV of the chosen runs. Overview exports a run with its report.",
            )  # fmt: skip
            is_own = bool(chosen) and all(brief.is_of_user for brief in chosen)
            no_deletion = None if is_own else "Choose runs of your own. Those that ship with skillviz stay."
            if action("Delete", icon=":material/delete:", disabled=not is_own, help=no_deletion):
                confirm_delete(chosen_ids)
            st.button("Clear", type="tertiary", disabled=not chosen, on_click=_choose, args=([],))
        if len(chosen) == 1 and is_own:
            _note(chosen[0])


def _keep(ids: Sequence[str]) -> None:
    if len(ids) > LINKED:
        address.remember(CHOSEN, ",".join(ids))
    else:
        address.keep(CHOSEN, ",".join(ids), is_default=not ids)


def _choose(ids: list[str]) -> None:
    st.session_state[KEY] = ids


def _open_button(ids: Sequence[str]) -> None:
    is_one = len(ids) == 1
    help = None if is_one else "Choose one run."
    if st.button("Open", type="primary", icon=":material/open_in_full:", disabled=not is_one, help=help):
        address.keep(address.RUN, ids[0])
        st.switch_page(page_table.PAGES["overview"].link(), query_params={address.RUN: ids[0]})


def _compare_button(ids: Sequence[str]) -> None:
    can = FEWEST <= len(ids) <= MOST
    help = None if can else f"Choose {FEWEST} to {MOST} runs."
    if st.button("Compare", icon=":material/compare_arrows:", disabled=not can, help=help):
        st.switch_page(page_table.PAGES["compare"].link(), query_params={"runs": ",".join(ids)})


def groups(briefs: Sequence[RunBrief], shown: Sequence[RunBrief]) -> None:
    """Draws the `shown` runs, with one fold per task; the content of a closed fold is not computed."""
    if not briefs:
        _nothing("No run is finished yet", "The first one appears here. *Jobs* shows how far it is.")
        st.page_link(page_table.PAGES["launch"].link(), label="Start a localization", icon=":material/play_arrow:")
        return
    if not shown:
        _nothing("No run matches", "Every run is hidden by the filters above.")
        st.button("Clear filters", icon=":material/filter_alt_off:", on_click=_clear_filters)
        return
    by_task: dict[str, list[RunBrief]] = defaultdict(list)
    for brief in shown:
        by_task[brief.task].append(brief)
    first, chosen = _first_task(briefs), set(st.session_state[KEY])
    opens_all = len(shown) <= FEW_ROWS
    order = sorted(by_task, key=lambda task: (task != first, task))
    for number, task in enumerate(order):
        key = f"library.task.{task}.{'all' if opens_all else 'one'}"
        fold = st.expander(_group_label(by_task[task]), expanded=opens_all or number == 0, key=key, on_change="rerun")
        if fold.open:
            with fold:
                _table(by_task[task], chosen, pair_labels(briefs))


def plot(shown: Sequence[RunBrief]) -> None:
    """Draws, in a fold, two numbers of the `shown` runs against each other; a click on a run opens it."""
    if opened := st.session_state.pop(POINTED, None):
        address.keep(address.RUN, opened)
        st.switch_page(page_table.PAGES["overview"].link(), query_params={address.RUN: opened})
    if len(shown) < FEWEST:
        _code(*AXES)
        return
    fold = st.expander("Plot two numbers of these runs", key="table.plot", on_change="rerun")
    if not fold.open:
        _code(*AXES)
        return
    names = tuple(run_fields.FIELDS)
    with fold:
        with st.container(horizontal=True):
            x, y = (
                controls.select(
                    axis, label, names, default, shown=lambda name: run_fields.FIELDS[name].title, width=320
                )
                for axis, label, default in (("x", "Across", AXES[0]), ("y", "Up", AXES[1]))
            )
        _code(x, y)
        exhibit = run_fields.scatter(run_fields.run_points(shown, x, y), x, y, theme())
        selectable(exhibit, name=exhibit.name, run_id="", alt=exhibit.alt, on_select=_pointed)
        st.caption("Click a mark to open its run.")
        below(exhibit, name=exhibit.name, title=exhibit.title, reads=exhibit.reads, table=exhibit.table)


def _code(x: str, y: str) -> None:
    """Draws the code for the plot of the runs that pass the filters."""
    typed, localizers = st.session_state["form.search"].strip(), st.session_state["form.localizers"]
    where = address.current("from") or "all"
    passes = (
        f"briefs.matches(one, {typed!r}, stores[0].note(one.id))" if typed else "",
        f"one.localizer in {localizers!r}" if localizers else "",
        {"you": "one.is_of_user", "skillviz": "not one.is_of_user"}.get(where, ""),
    )
    has_variants = where == "you" or address.current(VARIANTS) == "yes"
    usual = f"briefs.usual(runs, {st.session_state[KEY]!r})  # without study variants"
    show_code.show(
        "runs", x=x, y=y, offered="runs" if has_variants else usual, passes=" and ".join(filter(None, passes)) or "True"
    )


def _pointed() -> None:
    """Notes the run of the clicked mark, which `plot` opens in the next script run."""
    if points := st.session_state[f"chart.{run_fields.NAME}"]["selection"]["points"]:
        st.session_state[POINTED] = points[0]["customdata"]


def _first_task(briefs: Sequence[RunBrief]) -> str:
    """The task whose group is open: of the session's last run, else of the run that the dashboard opens with."""
    run_id = address.last_used(address.RUN)
    last = next((brief for brief in briefs if brief.id == run_id), None)
    return (last or opening_brief(briefs)).task


def _nothing(heading: str, words: str) -> None:
    with st.container(border=True, horizontal_alignment="center"):
        st.markdown(f"### :material/inventory_2: {heading}", width="content")
        st.caption(words, width="content")


def _clear_filters() -> None:
    form.assign("search", "")
    for name in ("search", "localizers", "from"):
        address.forget(name)
    st.session_state["form.search"], st.session_state["form.localizers"] = "", []
    controls.assign("from", "all")


def _group_label(briefs: Sequence[RunBrief]) -> str:
    """`cr`, the number of runs, and the best graft in each metric.

    The label does not depend on the chosen runs: a fold with a new label would be redrawn, and a user who marks rows by
    keyboard would lose the focus."""
    parts = [formats.counted(len(briefs), "run")]
    by_metric = defaultdict[str, list[float]](list)
    for brief in briefs:
        if brief.grafted is not None:
            by_metric[brief.metric].append(brief.grafted)
    for row in map(metric_row, sorted(by_metric)):
        best = max(by_metric[row.name], key=row.merit)
        parts.append(f"graft {row.title} {'down' if row.better == 'lower' else 'up'} to {row.number(best)}")
    return f"**{text.tasks(briefs[0].task)}** · {' · '.join(parts)}"


def _table(briefs: Sequence[RunBrief], chosen: set[str], labels: Mapping[tuple[str, ...], str]) -> None:
    """Draws the runs of one task; its marked rows are the chosen runs."""
    ordered = sorted(briefs, key=lambda e: (labels[e.pair], e.localizer, e.share, e.seed, e.id))
    frame = run_list.listing(ordered).drop(columns="size")
    frame["models and task"] = [labels[brief.pair].removeprefix(f"{readable_name(brief.task)} · ") for brief in ordered]
    frame = frame.rename(columns={"models and task": "model"})
    first = [name for name in FIRST if name in frame]
    frame = frame[[*first, *(name for name in frame if name not in first)]]
    alike = [name for name in ("model", "from") if frame[name].nunique() == 1]
    empty = [name for name in ("settings", "tags", "note") if not frame[name].astype(bool).any()]
    empty += [name for name in ("graft", "ece") if frame[name].isna().all()]
    ids, key = frame["run"].tolist(), f"{TABLE}.{briefs[0].task}"
    rows = [row for row, run_id in enumerate(ids) if run_id in chosen]
    if _marked(key) != rows:
        st.session_state[key] = {"selection": {"rows": rows, "columns": [], "cells": []}}
    listed = frame.drop(columns=[*alike, *empty])
    st.dataframe(
        listed,
        key=key,
        hide_index=True,
        column_config=run_list.COLUMNS,
        column_order=run_list.seen(listed),
        selection_mode="multi-row",
        placeholder="",
        on_select=lambda: _marked_anew(key, ids),
        alt=f"Runs on {readable_name(briefs[0].task)}, one per row",
    )
    exports.table_menu(frame, file=exports.file_name("runs", briefs[0].task), key=key, caption="Runs")


def _marked(key: str) -> list[int]:
    state: Any = st.session_state.get(key)
    return sorted(state["selection"]["rows"]) if state else []


def _marked_anew(key: str, ids: Sequence[str]) -> None:
    """Applies the marked rows of one table to the chosen runs; chosen runs of other tables stay."""
    marked = [ids[row] for row in _marked(key) if row < len(ids)]
    before = st.session_state[KEY]
    kept = [run_id for run_id in before if run_id not in ids or run_id in marked]
    _choose([*kept, *(run_id for run_id in marked if run_id not in before)])


def _note(brief: RunBrief) -> None:
    key = f"library.note.{brief.id}"
    try:
        stored = cache.note(brief.id)
    except StoreError as error:  # an unreadable note may not be overwritten
        st.error(text.plain(sign_in.sentence_of(error)))
        return
    st.session_state.setdefault(key, stored)
    st.text_area("Note", key=key, placeholder="What is worth remembering about this run? #tags are words with #",
                 height=80, max_chars=MOST_NOTED)  # fmt: skip
    if action("Save note", disabled=st.session_state[key] == stored):
        try:
            cache.user_store().set_note(brief.id, st.session_state[key])
        except StoreError as error:
            st.error(text.plain(sign_in.sentence_of(error)))
        else:
            st.rerun()


@st.dialog("Delete for good?")
def confirm_delete(run_ids: Sequence[str]) -> None:
    """Asks for confirmation before runs are deleted for good."""
    labels = run_labels(cache.briefs())
    names = "\n".join(f"- {text.plain(labels.get(run_id, ''))} (`{visible(run_id)}`)" for run_id in run_ids)
    place = sign_in.without_places(f"`{cache.user_store().root}`")
    st.markdown(f"This removes all files from {place} and cannot be undone:\n\n{names}")
    with st.container(horizontal=True):
        gone = action("Delete for good", type="primary", on_click=_delete, args=(tuple(run_ids),))
        if st.button("Keep") or gone:
            st.rerun()


def _delete(run_ids: Sequence[str]) -> None:
    for run_id in run_ids:
        try:
            cache.user_store().delete(run_id)
        except StoreError as error:
            st.session_state[PROBLEM] = sign_in.sentence_of(error)
            return
        if address.last_used(address.RUN) == run_id:
            address.forget(address.RUN)
    st.session_state[DELETED] = f"{formats.counted(len(run_ids), 'run')} deleted."


def outcome() -> None:
    """Shows once that runs were deleted, or why the last action failed."""
    if done := st.session_state.pop(DELETED, ""):
        st.success(done, icon=":material/delete:")
    if sentence := st.session_state.pop(PROBLEM, ""):
        st.error(text.plain(sentence))


def unfinished() -> None:
    """Draws the runs that cannot be opened, with the reason, and a button that removes one of the user's own."""
    ended, unreadable = _ended()
    rows = [(run.path, text.plain(job_words.label(run.record)), f"{run.record.status}", _why(run)) for run in ended]
    rows += [(folder.path, f"`{folder.name}`", "unreadable", folder.reason) for folder in unreadable]
    if not rows:
        return
    user_root = cache.user_store().root.resolve()
    with st.expander(f"{formats.counted(len(rows), 'run')} that cannot be opened", expanded=False):
        for path, name, status, why in rows:
            left, right = st.columns([4, 2], vertical_alignment="center")
            left.markdown(f"{name} · **{status}** · {text.plain(sign_in.without_places(why))}")
            if path.parent.resolve() != user_root:
                continue
            with right.container(horizontal=True):
                if status != "unreadable":
                    jobs_view.resume_button(path.name)
                if action("Delete", key=f"library.delete.{visible(path.name)}"):
                    confirm_delete([path.name])


def _why(job: Unfinished) -> str:
    """The title of the failure, its message and advice."""
    error = job.record.error
    if error is None:
        return "It can go on from its last checkpoint." if job.record.status == "cancelled" else "No reason was stored."
    title, todo = job_words.failure(error.kind)
    return f"{title}: {error.message} {todo}"

"""The choice of runs and baseline: the widgets, and two buttons for the usual sets. All choices are in the address."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import streamlit as st

from skillviz.core import formats
from skillviz.plots.theme import LOCALIZERS, localizer_style
from skillviz.show import text
from skillviz.show.compare import STATES
from skillviz.show.entries import Entry, first_choice, is_default, other_seeds, roles, run_labels
from skillviz.show.glossary import about
from skillviz.ui import address, cache, controls, copy_link, page, page_table
from skillviz.ui.pages.compare import compare_page
from skillviz.ui.pages.compare.comparison import FEWEST, MOST, Side, sides
from skillviz.ui.run_bar import offered, variants_switch, width_of

RUNS, BASELINE = "runs", "baseline"
KEY = "compare.runs"
BOX = 480  # pixels, the maximum width of a box
BEGUN = "compare.begun"  # session key: the runs that the page chose when it was opened
NONE = "none"  # in the address: the user chose no run


def choose(entries: Sequence[Entry]) -> tuple[tuple[Side, ...], Side, str]:
    """The chosen runs, the baseline among them, and the state that is compared; all controls are in one row.

    Shows an explanation and stops if there are fewer than two runs.
    """
    if not entries:
        st.info("No run is finished yet, so there is nothing to compare. *Runs* shows the progress of each.")
        st.page_link(page_table.PAGES["runs"].link(), label="Show all runs")
        st.stop()
    by_id, names = {entry.id: entry for entry in entries}, run_labels(entries)
    _fill_box(entries, by_id)
    row = st.container(horizontal=True, vertical_alignment="center")
    count = sum(run_id in by_id for run_id in st.session_state[KEY])
    with row.popover(f"{formats.counted(count, 'run')}", icon=":material/checklist:"):
        ids = st.multiselect(
            f"Runs ({FEWEST} to {MOST})",
            [entry.id for entry in offered(entries, st.session_state[KEY])],
            key=KEY,
            format_func=lambda run_id: names.get(run_id, run_id),
            max_selections=MOST,
            placeholder="Choose runs",
            help="Type part of a name to search.",
            width=BOX,
            select_all=False,
        )
    is_opening = _keep(ids, entries, by_id)
    if is_opening and (last := _last(entries, by_id)).is_of_user and last.id not in ids:
        st.caption(
            f"Your run {text.plain(names[last.id])} has no other run to be compared with yet. These ship with skillviz."
        )
    with row.popover("Quick sets", icon=":material/bolt:"):
        _buttons(entries, by_id[_starting_run(ids, entries)])
        variants_switch(entries)
    if len(ids) < FEWEST:
        st.info(compare_page.too_few(len(ids)), icon=":material/compare_arrows:")
        st.stop()
    with page.explained():
        chosen_sides = sides([by_id[run_id] for run_id in ids], cache.runs(ids))
    titles = {side.run.id: f"Baseline: {side.name}" for side in chosen_sides}
    with row:
        width = min(BOX, width_of([*titles.values()]))
        chosen = controls.select(BASELINE, "Baseline", ids, ids[0], shown=titles.get, shows_label=False, width=width)
        state = _state(chosen_sides)
    return chosen_sides, next(side for side in chosen_sides if side.run.id == chosen), state


def _state(sides: Sequence[Side]) -> str:
    """The compared state: grafts by default; if the fine-tuned models differ, the user may choose them instead."""
    if len({side.entry.pair for side in sides}) == 1:
        return "grafted"
    return controls.segments(
        "state", "Compare the", tuple(STATES), "grafted", shown=STATES.get, help=about("graft"), shows_label=False
    )


def localizers_at(entries: Sequence[Entry], like: Entry) -> list[str]:
    """One run of each localizer of the same pair at the same size: `like`, then in the order of LOCALIZERS.

    Runs at the usual settings are preferred.
    """
    return _one_of_each(entries, entries, like)


def default_localizers_at(entries: Sequence[Entry], like: Entry) -> list[str]:
    """The same, only from runs at default settings or at the settings of `like`."""
    fitting = [entry for entry in entries if is_default(entry) or entry.settings == like.settings]
    return _one_of_each(fitting, entries, like)


def _one_of_each(offered: Sequence[Entry], entries: Sequence[Entry], like: Entry) -> list[str]:
    fitting = [e for e in offered if (e.pair, e.size) == (like.pair, like.size) and e.localizer != like.localizer]
    best: dict[str, Entry] = {}
    role_of = roles(entries)
    for entry in sorted(fitting, key=lambda e: (role_of[e.id] == "variant", e.seed != like.seed, e.seed, e.id)):
        best.setdefault(entry.localizer, entry)
    order = [name for name in LOCALIZERS if name in best] + sorted(set(best) - set(LOCALIZERS))
    return [like.id, *(best[name].id for name in order)][:MOST]


def seeds_of(entries: Sequence[Entry], like: Entry) -> list[str]:
    """One run of each seed of the same localizer, pair, size and settings, `like` first."""
    return [like.id, *(entry.id for entry in other_seeds(entries, like))][:MOST]


def to_begin_with(entries: Sequence[Entry], like: Entry) -> list[str]:
    """The runs to show if the address names none: comparable with `like`, a user's own before shipped ones.

    If `like` is the only run of its pair: a user's newest other runs of its task, else the newest of the user's runs
    that has comparable ones, with these, else the user's newest runs. Without any of these, the pair with most runs.
    """
    own = [entry for entry in entries if entry.is_of_user] if like.is_of_user else []
    newest = [like, *sorted((e for e in own if e.id != like.id), key=lambda e: e.created, reverse=True)]
    sets = [beside_it(offered, like) for offered in (own, entries) if offered]
    sets.append([entry.id for entry in newest if entry.task == like.task])
    sets += [beside_it(own, entry) for entry in newest[1:]]
    sets.append([entry.id for entry in newest])
    for ids in sets:
        if len(ids) >= FEWEST:
            return ids[:MOST]
    studied, runs = Counter(entry.pair for entry in entries).most_common(1)[0]
    if runs < FEWEST:
        return [like.id]
    return to_begin_with(entries, first_choice([e for e in entries if e.pair == studied]))


def beside_it(entries: Sequence[Entry], like: Entry) -> list[str]:
    """`like` and the runs to compare it with: its pair's localizers at default settings and the same size.

    Without these: its other seeds, else the localizers at its size at any settings, else the localizers of its pair at
    the nearest sizes, preferably at default settings. Only `like` if its pair has no other run.
    """
    role_of, others = roles(entries), [e for e in entries if e.pair == like.pair and e.id != like.id]
    usual = [e for e in others if is_default(e)] or others
    usual = [e for e in usual if e.localizer != like.localizer] or usual
    best: dict[str, Entry] = {}
    for entry in sorted(
        usual, key=lambda e: (role_of[e.id] == "variant", abs(math.log(e.size / like.size)), e.seed != like.seed, e.id)
    ):
        best.setdefault(entry.localizer, entry)
    pair = [like.id, *(entry.id for entry in best.values())][:MOST]
    sets = (default_localizers_at, seeds_of, localizers_at)
    return next((c for c in (*(make(entries, like) for make in sets), pair) if len(c) >= FEWEST), [like.id])


def _keep(ids: Sequence[str], entries: Sequence[Entry], by_id: dict[str, Entry]) -> bool:
    """Writes the runs to the address if the page would not open on them anyway, else only to the copied link.

    Returns whether the page opens on them.
    """
    written, like = ",".join(ids) or NONE, _last(entries, by_id)
    is_opening = list(ids) == to_begin_with(entries, like)
    # with another run in the address the page would open on other runs
    is_default = is_opening and address.current(address.RUN) in (None, like.id)
    address.keep(RUNS, written, is_default=is_default)
    if is_default:
        copy_link.include(RUNS, written)
    return is_opening


def _last(entries: Sequence[Entry], by_id: dict[str, Entry]) -> Entry:
    """The run of the address or of the session, else the first choice.

    A shipped run gives way to the user's own unless the address named it, because pages open on shipped runs without
    the user's choice.
    """
    first, last = first_choice(entries), by_id.get(address.current(address.RUN) or "")
    if last is None or (first.is_of_user and not last.is_of_user and not page.is_linked(last.id)):
        return first
    return last


def _fill_box(entries: Sequence[Entry], by_id: dict[str, Entry]) -> None:
    """Sets the box from the address or the session if it has no valid state, and shows which runs are missing."""
    if KEY in st.session_state and not address.is_asked(RUNS):
        st.session_state[KEY] = [run_id for run_id in st.session_state[KEY] if run_id in by_id]
        return
    written = address.current(RUNS)
    if written in (None, st.session_state.get(BEGUN)):  # the page itself chose these runs
        st.session_state[KEY] = begun = to_begin_with(entries, _last(entries, by_id))
        st.session_state[BEGUN] = ",".join(begun)
        return
    wanted = list(dict.fromkeys(name for name in written.split(",") if name and written != NONE))
    ids = dict.fromkeys(resolved for name in wanted if (resolved := _resolved(name, by_id)))
    missing = [name for name in wanted if not _resolved(name, by_id)]
    if missing:
        st.warning(compare_page.unknown(missing), icon=":material/search_off:")
    if len(ids) > MOST:
        st.warning(compare_page.too_many(len(ids)))
    st.session_state[KEY] = list(ids)[:MOST]


def _resolved(name: str, by_id: dict[str, Entry]) -> str | None:
    """The id of the run with this id or unique prefix; None if there is none."""
    if name in by_id:
        return name
    matches = [run_id for run_id in by_id if run_id.startswith(name)]
    return matches[0] if len(matches) == 1 else None


def _starting_run(ids: Sequence[str], entries: Sequence[Entry]) -> str:
    """The run that the buttons start from: the baseline, else the first chosen run, else the session's run."""
    linked = address.current(BASELINE)
    if linked in ids:
        return str(linked)
    known = {entry.id for entry in entries}
    last = address.current(address.RUN)
    return ids[0] if ids else last if last in known else first_choice(entries).id


def _buttons(entries: Sequence[Entry], like: Entry) -> None:
    title = localizer_style(like.localizer).title
    sets = {
        f"All localizers at {formats.share(like.share)}": localizers_at(entries, like),
        f"All seeds of {title}": seeds_of(entries, like),
    }
    for number, (label, ids) in enumerate(sets.items()):
        is_alone = len(ids) < FEWEST
        st.button(
            label,
            key=f"compare.set.{number}",
            on_click=_take,
            args=(ids,),
            disabled=is_alone,
            help="There is only one such run." if is_alone else about("localizer" if number == 0 else "seed"),
        )


def _take(ids: list[str]) -> None:
    st.session_state[KEY] = ids

"""The sections of the compare page: verdicts, figures with their tables, and the runs that cannot be compared."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from skillviz.analysis.answers import Answers, answers_of_state
from skillviz.analysis.differences import less_baseline
from skillviz.analysis.necessity import areas as necessity_areas
from skillviz.analysis.necessity import given_and_cost, restored_and_left, without_region
from skillviz.analysis.variants import differing
from skillviz.core import formats
from skillviz.core.calibration import reliability
from skillviz.core.calibration_error import BINS
from skillviz.core.metrics import metric_heading, panels
from skillviz.core.overlap import iou_matrix, matched_chance, overlap_matrix
from skillviz.core.region import Region
from skillviz.plots.calibration import COLUMNS
from skillviz.plots.compare import run_styles
from skillviz.plots.theme import LOCALIZERS, Style, localizer_style, state_style
from skillviz.runs.metrics import positive
from skillviz.runs.record import Estimate, RunRecord
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.show import beyond, gain, measures, sentences, text
from skillviz.show import compare as exhibits
from skillviz.show.briefs import (
    DEFAULTS,
    RunBrief,
    first_choice,
    folder_labels,
    headline_split,
    is_default,
    other_seeds,
    pair_labels,
    repetition_words,
    roles,
    run_labels,
    setting_labels,
)
from skillviz.show.compare import STATES
from skillviz.show.comparisons import counted_rows, holding, legend
from skillviz.show.exhibit import Exhibit
from skillviz.show.glossary import about
from skillviz.tasks.readable_names import readable_name
from skillviz.ui import address, cache, controls, copy_link, exports, page, page_table, presenter, run_list, show_code
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import chip_text, lead_of, lead_words, verdict_line
from skillviz.ui.page import missing
from skillviz.ui.run_bar import offered, variants_switch, width_of

SMALL_P = 0.001
SHARED = {"iou": "of both (IoU)", "overlap": "of one region"}
RUNS, BASELINE = "runs", "baseline"
KEY = "compare.runs"
BOX = 480  # pixels, the maximum width of a box
BEGUN = "compare.begun"  # session key: the runs that the page chose when it was opened
NONE = "none"  # in the address: the user chose no run
FEWEST, MOST = 2, 6
UNSET, DEFAULT, DIFFERS = "not given", " (default)", "≠ "
RUN, FINETUNED = "run", "fine-tuned"
WITHOUT_DEFAULT = ("base", "finetuned", "task")


@dataclass(frozen=True)
class Comparison:
    """The chosen runs, the baseline among them, the state that is compared, and the computed results."""

    sides: tuple[Side, ...]
    baseline: Side
    state: str
    answers: dict[str, Answers]
    differences: pd.DataFrame
    regions: dict[str, Region]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The compared metrics, the task's own first."""
        return metrics_of(self.baseline)

    @property
    def alike(self) -> tuple[Side, ...]:
        """The runs that were scored on the baseline's task and data, including the baseline."""
        return tuple(side for side in self.sides if not unlike(side, self.baseline))

    @property
    def lead(self) -> pd.DataFrame:
        """The row for the headline: the task's metric for the first run with a difference; empty if there is none."""
        return lead_of(self.differences, self.metrics[0], "run", [side.name for side in self.sides])


def compare(sides: tuple[Side, ...], baseline: Side, state: str) -> Comparison:
    """Reads predictions and regions and computes the differences; explains and stops if a file cannot be read."""
    with page.explained():
        answers = {
            side.name: cache.computed(("answers", state), [side.run], partial(_read_answers, side.run, state))
            for side in sides
        }
        regions = {side.name: cache.region(side.run) for side in sides}
    like = [side for side in sides if not unlike(side, baseline)]
    task = baseline.record.task
    metrics, of_f1 = metrics_of(baseline), 1 if task is None else positive(task)
    table = cache.computed(
        ("less baseline", state, baseline.run.id, *(side.name for side in like)), [side.run for side in like],
        lambda: less_baseline(
            {side.name: answers[side.name] for side in like}, baseline.name, metrics, of_f1
        ).pipe(lambda rows: rows.assign(holds=holding(rows))),
    )  # fmt: skip
    shapes = regions[baseline.name].shapes
    fitting = {name: region for name, region in regions.items() if region.shapes == shapes}
    return Comparison(sides, baseline, state, answers, table, fitting)


def beyond_null(compared: Comparison) -> None:
    """Draws how far each run's graft is beyond its null, and the pooled result if the fine-tuned models differ."""
    lines = []
    for side in compared.sides:
        judged = beyond.judged(side.record, headline_split(side.record))
        if judged is not None:
            lines.append(f"- **{text.plain(side.name)}** {chip_text(judged.verdict)} {judged.difference}".rstrip())
    if not lines:
        return
    st.markdown(f"## {beyond.TITLE}", help=about("null", "paired"))
    st.markdown("\n".join(lines))
    if (pooled := _pooled(compared)) is not None:
        st.markdown(pooled)


def _pooled(compared: Comparison) -> str | None:
    """The result pooled over the runs' fine-tuned models; None unless there are several, with the same search each."""
    runs = [side.run for side in compared.alike if side.record.null(headline_split(side.record))]
    models = {run.record.finetuned.fingerprint for run in runs if run.record.finetuned is not None}
    if (
        len(runs) < FEWEST
        or len(models) < len(runs)
        or len({(run.spec.localizer, run.record.size, run.spec.gain) for run in runs}) > 1
    ):
        return None
    split = headline_split(compared.baseline.record)
    with page.explained():
        return run_list.margin_over_models(runs, split)


def not_compared(compared: Comparison) -> None:
    """Shows why some runs or regions cannot be compared."""
    tested = {str(row["run"]): int(row["n"]) for row in compared.differences.to_dict("records")}
    whole = len(compared.answers[compared.baseline.name].ids)
    if sentences := limits(compared.sides, compared.baseline, tested, list(compared.regions), whole):
        st.info("\n\n".join(sentences), icon=":material/info:")


def differences(compared: Comparison) -> None:
    """Draws each metric's differences, their verdicts, and McNemar's test; nothing if nothing can be compared."""
    if compared.differences.empty:
        return
    marks, name = styles(compared.sides), compared.baseline.name
    task = compared.baseline.record.task
    if compared.alike == compared.sides:
        show_code.show(
            "compare", runs=[(side.name, side.run.id) for side in compared.sides], baseline=name, state=compared.state,
            split=headline_split(compared.baseline.record), metric=compared.metrics[0],
            of_f1=1 if task is None else positive(task),
        )  # fmt: skip
    for place, metric in zip(presenter.columns(len(compared.metrics)), compared.metrics, strict=True):
        with place:
            _show(exhibits.differences(compared.differences, marks, name, metric, theme()), compared)
    told = cache.computed(
        ("verdicts", compared.state, name, *(side.name for side in compared.sides)),
        [side.run for side in compared.sides], lambda: _verdicts(compared),
    )  # fmt: skip
    st.markdown(told, help=about("discovery"))
    for side in compared.sides if compared.state == "grafted" else ():
        if scaled := gain.scaled_errors(side.record, headline_split(side.record)):
            st.caption(
                f"**{text.plain(side.name)}** is compared before temperature scaling. {scaled}", help=about("scale")
            )
    lines = mcnemar(compared.differences, name)
    if lines:
        with st.expander("McNemar's test"):
            st.markdown("\n".join(f"- {line}" for line in lines), help=about("mcnemar"))


def _show(exhibit: Exhibit, compared: Comparison) -> None:
    """Draws the exhibit as a card, whose downloads name all the runs."""
    names = ", ".join(side.name for side in compared.sides)
    show(exhibit, compared.baseline.run.id, f"{names}; baseline {compared.baseline.name}")


def _verdicts(compared: Comparison) -> str:
    """The verdicts that are not in the headline, and the number of all that hold."""
    rest = _named(compared.differences.drop(compared.lead.index))
    several = f"{counted_rows(compared.differences)} {legend(compared.differences)}".strip()
    return "  \n".join(filter(None, (*(verdict_line(rest, metric) for metric in compared.metrics), several)))


def scores(compared: Comparison) -> None:
    """Draws the values of each metric side by side."""
    table = values(compared.sides, compared.state, compared.metrics)
    marks = styles(compared.sides, [name for name in finetuned(compared.sides) if name in set(table["run"])])
    st.markdown("## Scores")
    for place, metric in zip(presenter.columns(len(compared.metrics)), compared.metrics, strict=True):
        with place:
            _show(exhibits.values(table, marks, metric, compared.state, theme()), compared)


def curves(compared: Comparison) -> None:
    """Draws the curves of runs on the baseline's data, and the reliability of all runs."""
    record, marks = compared.baseline.record, styles(compared.sides)
    split = headline_split(record)
    with page.explained():
        tables = {side.name: cache.curve(side.run) for side in compared.alike}
    curve = curves_of(compared.alike, tables, split)
    offered = measures.offered(curve, record)
    metric = controls.select("metric", "Metric", offered, offered[0], shown=metric_heading, width=320)
    is_one_pair = len({side.brief.pair for side in compared.alike}) == 1
    levels = measures.guesses(record, split, metric)
    if is_one_pair:
        levels = measures.levels(record, split, metric, measures.is_debiased(curve[curve["metric"] == metric]))
    left, right = st.columns(2)
    with left:
        _show(exhibits.sizes(curve, marks, metric, levels, theme()), compared)
    with right:
        of_classes = {side.name for side in compared.sides if not side.record.has_reference}
        if not of_classes:
            missing("Reliability", sentences.no_confidence(record), "block")
            return
        answers = {name: one for name, one in compared.answers.items() if name in of_classes}
        binned = cache.computed(
            ("bins of several", compared.state, *answers), [side.run for side in compared.sides],
            lambda: bins(answers),
        )  # fmt: skip
        errors = calibration_errors(compared.sides, compared.state)
        _show(exhibits.reliability(binned, marks, errors, compared.state, theme()), compared)


def areas(compared: Comparison) -> None:
    """Draws the gain of each run's graft and the cost of removing its region, over all sizes; nothing for one size."""
    split, sides = headline_split(compared.baseline.record), compared.alike
    with page.explained():
        found = cache.computed(("areas", split), [side.run for side in sides], lambda: areas_of(sides, split))
    if found["sizes"].max() < FEWEST:
        return
    st.markdown("## Area under both curves", help=about("complement", "recovered", "size"))
    table = exhibits.area_table(found)
    st.table(table, border="horizontal", hide_index=True)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(exhibits.area_words(found), width="stretch")
        exports.table_menu(table, file="areas", key="areas", caption="Areas under the curves of the compared runs")


def shared(compared: Comparison) -> None:
    """Draws the overlap of the regions; nothing if no other model has the baseline's parameters."""
    if len(compared.regions) < FEWEST:
        return
    kind = controls.segments("shared", "Shared entries", tuple(SHARED), "iou", shown=SHARED.get, help=about("iou"))
    rows = cache.computed(
        ("shares", kind, *compared.regions), [side.run for side in compared.sides],
        lambda: shares(compared.regions, kind),
    )  # fmt: skip
    _show(exhibits.shared(rows, kind, theme()), compared)


def _highlighted(value: object) -> str:
    """A tint for values that differ, light enough for both themes; the sign before the value says the same."""
    return "background-color: rgba(196, 78, 0, 0.16)" if str(value).startswith(DIFFERS) else ""


def specs(compared: Comparison) -> None:
    """Draws the settings that differ."""
    fold = st.expander("Settings that differ", key="table.settings", on_change="rerun")
    if fold.open:
        with fold:
            table = spec_differences(compared.sides, compared.baseline)
            st.dataframe(table.style.map(_highlighted), hide_index=True, alt="Settings in which the runs differ")
            exports.table_menu(table, file="settings", key="settings", caption="Settings of the compared runs")
            is_repeat = len(table) == 1
            differs = f"≠ differs from {text.plain(compared.baseline.name)}, the baseline."
            st.caption("The settings are equal: these runs repeat each other." if is_repeat else differs)


def summary(lead: pd.DataFrame, baseline: Side, state: str) -> str:
    """The page's headline: the verdict on the run of `lead_of`, against the baseline."""
    name = text.plain(baseline.name)
    if lead.empty:
        return f"No other run was scored on the examples of **{name}**."
    (row,) = _named(lead).to_dict("records")
    return f"{metric_heading(row['metric'])} of the {STATES[state]}: {lead_words(row)} vs **{name}**."


def _named(differences: pd.DataFrame) -> pd.DataFrame:
    """The differences with the column name that `verdict_line` needs."""
    return differences.rename(columns={"run": "name"})


def mcnemar(differences: pd.DataFrame, baseline: str) -> list[str]:
    """One line per run: McNemar's exact test of equal accuracy, and the examples that decide it."""
    lines = []
    for row in differences[differences["p"].notna()].to_dict("records"):
        p = f"below {SMALL_P}" if row["p"] < SMALL_P else f"= {row['p']:.3f}"
        lines.append(
            f"**{text.plain(row['run'])}**: p {p} (n = {formats.count(int(row['n']))}). Only this run is right on "
            f"{formats.count(int(row['gained']))}, only {text.plain(baseline)} on "
            f"{formats.count(int(row['lost']))}."
        )
    return lines


def limits(
    sides: Sequence[Side], baseline: Side, tested: Mapping[str, int], fitting: Sequence[str], n: int
) -> list[str]:
    """One sentence per comparison that is limited or impossible, with its reason.

    `tested` is by run the number of examples shared with the baseline's `n`; `fitting` are the runs whose regions can
    be compared with the baseline's.
    """
    sentences, other = [], text.plain(baseline.name)
    for side in sides:
        if side.name == baseline.name:
            continue
        name = f"**{text.plain(side.name)}**"
        reason = unlike(side, baseline)
        if reason:
            sentences.append(f"{name} has scores, but no difference and no curve: {text.plain(reason)}.")
        elif not tested.get(side.name):
            sentences.append(f"{name} has no difference: it shares no example with {other}.")
        elif tested[side.name] < n:
            sentences.append(
                f"{name} is compared with {other} on the {formats.count(tested[side.name])} of "
                f"{formats.counted(n, 'example')} that both were scored on."
            )
        if side.name not in fitting:
            sentences.append(
                f"The regions of {name} and {other} cannot be compared: the models have other parameters "
                f"({formats.count(side.brief.d)} and {formats.count(baseline.brief.d)} graftable)."
            )
    return sentences


def unknown(names: Sequence[str]) -> str:
    """The warning that the address names missing runs."""
    listed = ", ".join(text.plain(name) for name in names)
    return (
        f"This link names {formats.counted(len(names), 'run')} not found here: {listed}. They may be deleted, or in "
        "another runs folder (`SKILLVIZ_RUNS`). The other runs are shown."
    )


def too_many(count: int) -> str:
    """The warning that the address names more runs than can be compared."""
    return f"This link names {count} runs. The first {MOST} are shown; more cannot be compared at once."


def choose(briefs: Sequence[RunBrief]) -> tuple[tuple[Side, ...], Side, str]:
    """The chosen runs, the baseline among them, and the state that is compared; all controls are in one row.

    Shows an explanation and stops if there are fewer than two runs.
    """
    if not briefs:
        st.info("No run is finished yet, so there is nothing to compare. *Runs* shows the progress of each.")
        st.page_link(page_table.PAGES["runs"].link(), label="Show all runs")
        st.stop()
    by_id, names = {brief.id: brief for brief in briefs}, run_labels(briefs)
    _fill_box(briefs, by_id)
    row = st.container(horizontal=True, vertical_alignment="center")
    count = sum(run_id in by_id for run_id in st.session_state[KEY])
    with row.popover(f"{formats.counted(count, 'run')}", icon=":material/checklist:"):
        ids = st.multiselect(
            f"Runs ({FEWEST} to {MOST})",
            [brief.id for brief in offered(briefs, st.session_state[KEY])],
            key=KEY,
            format_func=lambda run_id: names.get(run_id, run_id),
            max_selections=MOST,
            placeholder="Choose runs",
            help="Type part of a name to search.",
            width=BOX,
            select_all=False,
        )
    is_opening = _keep(ids, briefs, by_id)
    if is_opening and (last := _last(briefs, by_id)).is_of_user and last.id not in ids:
        st.caption(
            f"Your run {text.plain(names[last.id])} has no other run to be compared with yet. These ship with skillviz."
        )
    with row.popover("Quick sets", icon=":material/bolt:"):
        _buttons(briefs, by_id[_starting_run(ids, briefs)])
        variants_switch(briefs)
    if len(ids) < FEWEST:
        have = "One run is chosen" if ids else "No run is chosen"
        st.info(f"{have}. Choose {FEWEST} to {MOST} above, or use *Quick sets*.", icon=":material/compare_arrows:")
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
    if len({side.brief.pair for side in sides}) == 1:
        return "grafted"
    return controls.segments(
        "state", "Compare the", tuple(STATES), "grafted", shown=STATES.get, help=about("graft"), shows_label=False
    )


def localizers_at(briefs: Sequence[RunBrief], like: RunBrief, at_default: bool = False) -> list[str]:
    """One run of each localizer of the same pair at the same size: `like`, then in the order of LOCALIZERS.

    Runs at the usual settings are preferred. With `at_default`, only runs at default settings or at those of `like`.
    """
    fitting = [e for e in briefs if (e.pair, e.size) == (like.pair, like.size) and e.localizer != like.localizer]
    if at_default:
        fitting = [brief for brief in fitting if is_default(brief) or brief.settings == like.settings]
    best: dict[str, RunBrief] = {}
    role_of = roles(briefs)
    for brief in sorted(fitting, key=lambda e: (role_of[e.id] == "variant", e.seed != like.seed, e.seed, e.id)):
        best.setdefault(brief.localizer, brief)
    order = [name for name in LOCALIZERS if name in best] + sorted(set(best) - set(LOCALIZERS))
    return [like.id, *(best[name].id for name in order)][:MOST]


def seeds_of(briefs: Sequence[RunBrief], like: RunBrief) -> list[str]:
    """One run of each seed of the same localizer, pair, size and settings, `like` first."""
    return [like.id, *(brief.id for brief in other_seeds(briefs, like))][:MOST]


def to_begin_with(briefs: Sequence[RunBrief], like: RunBrief) -> list[str]:
    """The runs to show if the address names none: comparable with `like`, a user's own before shipped ones.

    If `like` is the only run of its pair: a user's newest other runs of its task, else the newest of the user's runs
    that has comparable ones, with these, else the user's newest runs. Without any of these, the pair with most runs.
    """
    own = [brief for brief in briefs if brief.is_of_user] if like.is_of_user else []
    newest = [like, *sorted((e for e in own if e.id != like.id), key=lambda e: e.created, reverse=True)]
    sets = [beside_it(offered, like) for offered in (own, briefs) if offered]
    sets.append([brief.id for brief in newest if brief.task == like.task])
    sets += [beside_it(own, brief) for brief in newest[1:]]
    sets.append([brief.id for brief in newest])
    for ids in sets:
        if len(ids) >= FEWEST:
            return ids[:MOST]
    studied, runs = Counter(brief.pair for brief in briefs).most_common(1)[0]
    if runs < FEWEST:
        return [like.id]
    return to_begin_with(briefs, first_choice([e for e in briefs if e.pair == studied]))


def beside_it(briefs: Sequence[RunBrief], like: RunBrief) -> list[str]:
    """`like` and the runs to compare it with: its pair's localizers at default settings and the same size.

    Without these: its other seeds, else the localizers at its size at any settings, else the localizers of its pair at
    the nearest sizes, preferably at default settings. Only `like` if its pair has no other run.
    """
    role_of, others = roles(briefs), [e for e in briefs if e.pair == like.pair and e.id != like.id]
    usual = [e for e in others if is_default(e)] or others
    usual = [e for e in usual if e.localizer != like.localizer] or usual
    best: dict[str, RunBrief] = {}
    for brief in sorted(
        usual, key=lambda e: (role_of[e.id] == "variant", abs(math.log(e.size / like.size)), e.seed != like.seed, e.id)
    ):
        best.setdefault(brief.localizer, brief)
    pair = [like.id, *(brief.id for brief in best.values())][:MOST]
    sets = (partial(localizers_at, at_default=True), seeds_of, localizers_at)
    return next((c for c in (*(make(briefs, like) for make in sets), pair) if len(c) >= FEWEST), [like.id])


def _keep(ids: Sequence[str], briefs: Sequence[RunBrief], by_id: dict[str, RunBrief]) -> bool:
    """Writes the runs to the address if the page would not open on them anyway, else only to the copied link.

    Returns whether the page opens on them.
    """
    written, like = ",".join(ids) or NONE, _last(briefs, by_id)
    is_opening = list(ids) == to_begin_with(briefs, like)
    # with another run in the address the page would open on other runs
    is_default = is_opening and address.current(address.RUN) in (None, like.id)
    address.keep(RUNS, written, is_default=is_default)
    if is_default:
        copy_link.include(RUNS, written)
    return is_opening


def _last(briefs: Sequence[RunBrief], by_id: dict[str, RunBrief]) -> RunBrief:
    """The run of the address or of the session, else the first choice.

    A shipped run gives way to the user's own unless the address named it, because pages open on shipped runs without
    the user's choice.
    """
    first, last = first_choice(briefs), by_id.get(address.current(address.RUN) or "")
    if last is None or (first.is_of_user and not last.is_of_user and not page.is_linked(last.id)):
        return first
    return last


def _fill_box(briefs: Sequence[RunBrief], by_id: dict[str, RunBrief]) -> None:
    """Sets the box from the address or the session if it has no valid state, and shows which runs are missing."""
    if KEY in st.session_state and not address.is_asked(RUNS):
        st.session_state[KEY] = [run_id for run_id in st.session_state[KEY] if run_id in by_id]
        return
    written = address.current(RUNS)
    if written in (None, st.session_state.get(BEGUN)):  # the page itself chose these runs
        st.session_state[KEY] = begun = to_begin_with(briefs, _last(briefs, by_id))
        st.session_state[BEGUN] = ",".join(begun)
        return
    wanted = list(dict.fromkeys(name for name in written.split(",") if name and written != NONE))
    ids = dict.fromkeys(resolved for name in wanted if (resolved := _resolved(name, by_id)))
    missing = [name for name in wanted if not _resolved(name, by_id)]
    if missing:
        st.warning(unknown(missing), icon=":material/search_off:")
    if len(ids) > MOST:
        st.warning(too_many(len(ids)))
    st.session_state[KEY] = list(ids)[:MOST]


def _resolved(name: str, by_id: dict[str, RunBrief]) -> str | None:
    """The id of the run with this id or unique prefix; None if there is none."""
    if name in by_id:
        return name
    matches = [run_id for run_id in by_id if run_id.startswith(name)]
    return matches[0] if len(matches) == 1 else None


def _starting_run(ids: Sequence[str], briefs: Sequence[RunBrief]) -> str:
    """The run that the buttons start from: the baseline, else the first chosen run, else the session's run."""
    linked = address.current(BASELINE)
    if linked in ids:
        return str(linked)
    known = {brief.id for brief in briefs}
    last = address.current(address.RUN)
    return ids[0] if ids else last if last in known else first_choice(briefs).id


def _buttons(briefs: Sequence[RunBrief], like: RunBrief) -> None:
    title = localizer_style(like.localizer).title
    sets = {
        f"All localizers at {formats.share(like.share)}": localizers_at(briefs, like),
        f"All seeds of {title}": seeds_of(briefs, like),
    }
    for number, (label, ids) in enumerate(sets.items()):
        is_alone = len(ids) < FEWEST
        st.button(
            label,
            key=f"compare.set.{number}",
            on_click=st.session_state.update,
            args=({KEY: ids},),
            disabled=is_alone,
            help="There is only one such run." if is_alone else about("localizer" if number == 0 else "seed"),
        )


@dataclass(frozen=True)
class Side:
    """One of the compared runs; `name`, its key in every table, is its localizer and its distinguishing settings."""

    name: str
    brief: RunBrief
    run: Run

    @property
    def record(self) -> RunRecord:
        """The run's record."""
        return self.run.record


def sides(briefs: Sequence[RunBrief], runs: Sequence[Run]) -> tuple[Side, ...]:
    """The runs with their names, in the given order."""
    return tuple(map(Side, short_names(briefs), briefs, runs))


def short_names(briefs: Sequence[RunBrief]) -> list[str]:
    """Short names: `stagewise`, with the pair, size, seed and settings that differ between them.

    Settings that are not the default are always named. Repetitions of a run get distinguishing words."""
    pairs, names = pair_labels(briefs), []
    folders = folder_labels(briefs)
    parts = [
        {"pair": pairs[brief.pair], "share": formats.share(brief.share), "seed": f"seed {brief.seed}",
         "folder": ", ".join(folders[brief.id])}
        for brief in briefs
    ]  # fmt: skip
    fields = differing(parts)
    different = differing([dict(brief.settings) for brief in briefs])
    for place, brief in enumerate(briefs):
        words = [localizer_style(brief.localizer).title, *(values[place] for values in fields.values())]
        settings = [name for name, value in brief.settings if name in different or value != DEFAULTS[name]]
        names.append(", ".join([*words, *setting_labels(brief, settings)]))
    more = repetition_words(names, briefs)
    return [", ".join([name, *words]) for name, words in zip(names, more, strict=True)]


def unlike(side: Side, baseline: Side) -> str:
    """The reason why there is no paired difference to the baseline, as a clause; empty if there is one."""
    if side.name == baseline.name:
        return ""
    one, other = side.record.task, baseline.record.task
    if one is None or other is None:
        return "its run does not say what it was scored on"
    if one.name != other.name or one.labels != other.labels:
        return f"it was scored on another task ({readable_name(one.name)}, not {readable_name(other.name)})"
    if not (one.fingerprint and other.fingerprint):
        return "its run does not say which data it was scored on"
    if one.fingerprint != other.fingerprint:
        return f"its {readable_name(one.name)} data are not the baseline's (their sha256 differ)"
    if headline_split(side.record) != headline_split(baseline.record):
        return "the two were scored on different splits"
    return ""


def metrics_of(baseline: Side) -> tuple[str, ...]:
    """The compared metrics: the task's own and its companions."""
    return tuple(panels(baseline.record.metric))


def values(runs: Sequence[Side], state: str, metrics: Sequence[str]) -> pd.DataFrame:
    """run, metric, value, debiased, low, high of one state, as the runs stored them; beside grafts, fine-tuned too.

    A fine-tuned model that several runs share has one row.
    """
    rows = [row for side in runs for row in _rows(side.name, side, state, metrics)]
    if state == "grafted":
        rows += [row for name, side in finetuned(runs).items() for row in _rows(name, side, "finetuned", metrics)]
    frame = pd.DataFrame(rows, columns=["run", "metric", "value", "debiased", "low", "high"])
    return frame.astype({name: "float64" for name in ("value", "debiased", "low", "high")})


def finetuned(runs: Sequence[Side]) -> dict[str, Side]:
    """One run per fine-tuned model and data set, named `fine-tuned` or, if there are several, `fine-tuned, cr`."""
    first: dict[tuple[str, ...], Side] = {}
    for side in runs:
        first.setdefault(side.brief.pair, side)
    if len(first) == 1:
        return {FINETUNED: runs[0]}
    pairs = pair_labels([side.brief for side in runs])
    return {f"{FINETUNED}, {pairs[pair]}": side for pair, side in first.items()}


def _rows(name: str, side: Side, state: str, metrics: Sequence[str]) -> list[dict[str, Any]]:
    scores = side.record.metrics.get(headline_split(side.record))
    estimates = scores.states.get(state, {}) if scores else {}
    return [{"run": name, "metric": m, **estimates[m].columns()} for m in metrics if m in estimates]


def styles(sides: Sequence[Side], finetuned: Sequence[str] = ()) -> dict[str, Style]:
    """The color and marks of each run, and of the fine-tuned models with these names."""
    style = state_style("finetuned")
    others = {name: Style(name, style.color, style.symbol, style.dash) for name in finetuned}
    return run_styles([(side.name, side.brief.localizer) for side in sides]) | others


def curves_of(runs: Sequence[Side], tables: Mapping[str, pd.DataFrame], split: str) -> pd.DataFrame:
    """The runs' curves on a split as one table; the column `localizer` has the run's name."""
    parts = [tables[side.name].assign(localizer=side.name, dataset="") for side in runs]
    whole = pd.concat(parts, ignore_index=True)
    return whole[whole["split"] == split]


def areas_of(runs: Sequence[Side], split: str) -> pd.DataFrame:
    """The areas under both curves by size of each run: index (run, given or cost), columns of `necessity.areas`."""
    of_runs = dict[tuple[str, str], pd.DataFrame]()
    for side in runs:
        curve = side.run.curve()
        points = restored_and_left(curve[curve["split"] == split], without_region(side.run, split))
        of_runs |= {(side.name, name): rows for name, rows in given_and_cost(points).items()}
    return necessity_areas(of_runs)


def shares(regions: Mapping[str, Region], kind: str) -> pd.DataFrame:
    """row, column, value, chance, chance_low, chance_high of every two regions; `kind` is `iou` or `overlap`."""
    value = (iou_matrix if kind == "iou" else overlap_matrix)(regions)
    rows = [
        {"row": a, "column": b, "value": value.loc[a, b], **matched_chance([(one, two)], kind).columns()}
        for (a, one), (b, two) in itertools.product(regions.items(), repeat=2)
    ]
    return pd.DataFrame(rows)


def _read_answers(run: Run, state: str) -> Answers:
    """One state's answers on the run's headline split."""
    predictions = cache.stored_table(run, "predictions")
    return answers_of_state(predictions, headline_split(run.record), run.labels, state)


def calibration_errors(sides: Sequence[Side], state: str) -> dict[str, Estimate]:
    """The ECE of one state by the run's name, for runs that have it."""
    states = {side.name: side.record.metrics[headline_split(side.record)].states.get(state, {}) for side in sides}
    return {name: metrics["ece"] for name, metrics in states.items() if "ece" in metrics}


def bins(answers_by_run: Mapping[str, Answers]) -> pd.DataFrame:
    """The runs' reliability tables as one; the column `state` has the run's name."""
    parts = [
        reliability(one.logits, one.labels, BINS).assign(state=name)
        for name, one in answers_by_run.items()
        if len(one.ids)
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))


def spec_differences(runs: Sequence[Side], baseline: Side) -> pd.DataFrame:
    """The runs' ids, and one row per field in which their specs differ; one column per run.

    Values that differ from the baseline's begin with ≠.
    """
    defaults = _fields(RunSpec(base="-", finetuned="-", task="-"))
    rows: list[dict[str, str]] = [{"field": RUN, **{side.name: side.run.id for side in runs}}]
    for field, texts in differing([_fields(side.run.spec) for side in runs]).items():
        by_run = {side.name: value for side, value in zip(runs, texts, strict=True)}
        cells = {
            name: f"{DIFFERS if value != by_run[baseline.name] else ''}{UNSET if value is None else value}"
            f"{DEFAULT if value == defaults.get(field) and field not in WITHOUT_DEFAULT else ''}"
            for name, value in by_run.items()
        }
        rows.append({"field": field, **cells})
    return pd.DataFrame(rows, columns=["field", *(side.name for side in runs)])


def _fields(spec: RunSpec) -> dict[str, str | None]:
    """The spec's fields as texts, with one field per option; None if there is no value."""
    values = spec.model_dump(mode="json")
    options = {f"option {name}": value for name, value in values.pop("options").items()}
    return {name: _field_text(value) for name, value in {**values, **options}.items()}


def _field_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)

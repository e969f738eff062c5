"""The sections of the compare page: verdicts, figures with their tables, and the runs that cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from skillviz.analysis.answers import Answers
from skillviz.analysis.differences import less_baseline
from skillviz.core import formats
from skillviz.core.metrics import metric_heading
from skillviz.core.region import Region
from skillviz.runs.metrics import positive
from skillviz.runs.run import Run
from skillviz.show import beyond, gain, measures, sentences, text
from skillviz.show import compare as exhibits
from skillviz.show.comparisons import counted_rows, holding, legend
from skillviz.show.entries import headline_split
from skillviz.show.exhibit import Exhibit
from skillviz.show.glossary import about
from skillviz.ui import cache, controls, exports, page, presenter, run_list
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import chip_text, lead_of, lead_words, verdict_line
from skillviz.ui.empty import missing
from skillviz.ui.pages.compare import comparison
from skillviz.ui.pages.compare.comparison import DIFFERS, FEWEST, MOST, Side, spec_differences, unlike

SMALL_P = 0.001
SHARED = {"iou": "of both (IoU)", "overlap": "of one region"}


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
        return comparison.metrics_of(self.baseline)

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
        answers = {side.name: _answers(side.run, state) for side in sides}
        regions = {side.name: cache.region(side.run) for side in sides}
    like = [side for side in sides if not unlike(side, baseline)]
    task = baseline.record.task
    metrics, of_f1 = comparison.metrics_of(baseline), 1 if task is None else positive(task)
    table = cache.computed(
        ("less baseline", state, baseline.run.id, *(side.name for side in like)), [side.run for side in like],
        lambda: _judged(less_baseline({side.name: answers[side.name] for side in like}, baseline.name, metrics, of_f1)),
    )  # fmt: skip
    shapes = regions[baseline.name].shapes
    fitting = {name: region for name, region in regions.items() if region.shapes == shapes}
    return Comparison(sides, baseline, state, answers, table, fitting)


def _judged(differences: pd.DataFrame) -> pd.DataFrame:
    return differences.assign(holds=holding(differences))


def _answers(run: Run, state: str) -> Answers:
    return cache.computed(
        ("answers", state), [run], lambda: comparison.answers(run, cache.stored_table(run, "predictions"), state)
    )


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


def summary(compared: Comparison) -> str:
    """The page's headline."""
    return summary_words(compared.lead, compared.baseline, exhibits.STATES[compared.state])


def differences(compared: Comparison) -> None:
    """Draws each metric's differences, their verdicts, and McNemar's test; nothing if nothing can be compared."""
    if compared.differences.empty:
        return
    marks, name = comparison.styles(compared.sides), compared.baseline.name
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
    table = comparison.values(compared.sides, compared.state, compared.metrics)
    finetuned = [name for name in comparison.finetuned(compared.sides) if name in set(table["run"])]
    marks = comparison.styles(compared.sides, finetuned)
    st.markdown("## Scores")
    for place, metric in zip(presenter.columns(len(compared.metrics)), compared.metrics, strict=True):
        with place:
            _show(exhibits.values(table, marks, metric, compared.state, theme()), compared)


def curves(compared: Comparison) -> None:
    """Draws the curves of runs on the baseline's data, and the reliability of all runs."""
    record, marks = compared.baseline.record, comparison.styles(compared.sides)
    split = headline_split(record)
    with page.explained():
        tables = {side.name: cache.curve(side.run) for side in compared.alike}
    curve = comparison.curves(compared.alike, tables, split)
    offered = measures.offered(curve, record)
    metric = controls.select("metric", "Metric", offered, offered[0], shown=metric_heading, width=320)
    is_one_pair = len({side.entry.pair for side in compared.alike}) == 1
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
        bins = cache.computed(
            ("bins of several", compared.state, *answers), [side.run for side in compared.sides],
            lambda: comparison.bins(answers),
        )  # fmt: skip
        errors = comparison.calibration_errors(compared.sides, compared.state)
        _show(exhibits.reliability(bins, marks, errors, compared.state, theme()), compared)


def areas(compared: Comparison) -> None:
    """Draws the gain of each run's graft and the cost of removing its region, over all sizes; nothing for one size."""
    split, sides = headline_split(compared.baseline.record), compared.alike
    with page.explained():
        found = cache.computed(("areas", split), [side.run for side in sides], lambda: comparison.areas(sides, split))
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
        lambda: comparison.shares(compared.regions, kind),
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


def summary_words(lead: pd.DataFrame, baseline: Side, what: str) -> str:
    """The verdict on the run of `lead_of`, against the baseline."""
    name = text.plain(baseline.name)
    if lead.empty:
        return f"No other run was scored on the examples of **{name}**."
    (row,) = _named(lead).to_dict("records")
    return f"{metric_heading(row['metric'])} of the {what}: {lead_words(row)} vs **{name}**."


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
                f"({formats.count(side.entry.d)} and {formats.count(baseline.entry.d)} graftable)."
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


def too_few(count: int) -> str:
    """The hint for fewer than two chosen runs."""
    have = "One run is chosen" if count else "No run is chosen"
    return f"{have}. Choose {FEWEST} to {MOST} above, or use *Quick sets*."

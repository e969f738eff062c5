"""Beyond the null: the margin of a run's graft over the same search on null movements (core/nulls.py)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import pandas as pd

from skillviz.analysis.null_measures import MEASURES, NATS, POINTS, SHARED_ERRORS, SHARED_PROBABILITY
from skillviz.core import formats
from skillviz.core.intervals import SeedsInterval
from skillviz.core.localizers.table import has_null
from skillviz.core.metrics import metric_row
from skillviz.core.nulls import NULLS, SHUFFLED
from skillviz.core.verdicts import NOT_MEASURED, DifferenceVerdict
from skillviz.plots.theme import localizer_style
from skillviz.runs.record import Estimate, NullNote, RunRecord
from skillviz.show import text
from skillviz.show.control import Judged
from skillviz.show.sentences import before_scaling, metric_estimate, metric_value
from skillviz.tasks.readable_names import readable

TITLE = "Beyond the null"
COLUMNS = ("null", "draws", "score", "gain recovered", "beyond, accuracy", "beyond, NLL", "true signs", "verdict")


def stored_beside(record: RunRecord, others: Iterable[RunRecord]) -> RunRecord | None:
    """The run itself if it has nulls, otherwise another run with nulls on the same pair, task, localizer and size."""
    wanted = _search_of(record)
    return next((one for one in (record, *others) if one.nulls and _search_of(one) == wanted), None)


def _search_of(record: RunRecord) -> tuple[object, ...]:
    models = (note.fingerprint if note else None for note in (record.base, record.finetuned))
    return *models, record.task_name, record.readout, record.spec.localizer, record.size, record.spec.gain


def of_other_models(record: RunRecord, others: Iterable[RunRecord]) -> list[RunRecord]:
    """The runs with nulls of other fine-tuned models, one run per model: the same base, task, number of training steps,
    search and seed of the search, so that only the seed or the data of fine-tuning differ."""
    if record.finetuned is None or record.finetuned.steps is None:
        return []
    base, own, *search = _search_of(record)
    wanted = (base, search, record.finetuned.steps, record.spec.seed)
    found: dict[str, RunRecord] = {}
    for one in others:
        if one.nulls and one.finetuned is not None and one.finetuned.fingerprint != own:
            its_base, model, *its_search = _search_of(one)
            if (its_base, its_search, one.finetuned.steps, one.spec.seed) == wanted:
                found.setdefault(str(model), one)
    return list(found.values())


def draws(note: NullNote) -> str:
    """`one draw`, `5 draws`."""
    return "one draw" if note.draws == 1 else f"{note.draws} draws"


def main(note: NullNote, split: str) -> Estimate:
    """The margin of the graft in accuracy, or in nats if the task has no accuracy."""
    return next(iter(note.beyond[split].values()))


def verdict(beyond: Estimate) -> DifferenceVerdict:
    """The verdict on a graft minus its nulls, higher is better; `not measured` without an interval."""
    return metric_row("accuracy").verdict(beyond.low, beyond.high)


def sentence(record: RunRecord, split: str) -> str:
    """`0.1% brings back 90% of the gain; the same search over shuffled movements 51%.` Scores instead if no share of
    the gain is defined; empty if the run has no such null."""
    note = record.null(split)
    scores = record.metrics.get(split)
    if note is None or scores is None:
        return ""
    own, null = scores.recovered, note.states[split].get("recovered")
    region = f"**{formats.share(record.share)}**"
    search = "the same search over shuffled movements"
    if own is not None and own.value is not None and null is not None and null.value is not None:
        return (
            f"{region} brings back **{formats.percent(own.value, 0)}** of the gain; {search} "
            f"**{formats.percent(null.value, 0)}**."
        )
    metric = record.metric
    graft = scores.states["grafted"][metric].value
    return (
        f"{region} reaches {metric_row(metric).title} **{metric_value(metric, graft)}**; {search} "
        f"**{metric_value(metric, note.states[split][metric].value)}**."
    )


def difference(note: NullNote, split: str) -> str:
    """`+8.6 points (6.1–11.0) and +0.580 nats (0.51–0.65)`: the margin of the graft over its nulls."""
    beyond = note.beyond[split]
    return " and ".join(_difference(name, one) for name, one in beyond.items())


def _difference(metric: str, beyond: Estimate | None) -> str:
    return formats.MISSING if beyond is None else metric_row(metric).difference(beyond.value, beyond.low, beyond.high)


def columns(beyond: Mapping[str, Estimate | None]) -> dict[str, str]:
    """Two columns of a table: beyond the null in points of accuracy and in nats."""
    return {
        "beyond, accuracy": _difference("accuracy", beyond.get("accuracy")),
        "beyond, NLL": _difference("nll", beyond.get("nll")),
    }


def judged(record: RunRecord, split: str) -> Judged | None:
    """The verdict with both differences; `not measured` if the run has no null. None if the localizer has no null."""
    if not has_null(record.spec.localizer):
        return None
    note = record.null(split)
    if note is None:
        return Judged(NOT_MEASURED, f"{TITLE}:", "")
    words = f"{difference(note, split)}{before_scaling(record)}, {draws(note)}"
    return Judged(verdict(main(note, split)), f"{TITLE}:", words)


def line(record: RunRecord, split: str) -> str:
    """The sentence with the margin over the null, for a text without chips; empty without a null."""
    told = judged(record, split)
    if told is None:
        return ""
    if told.verdict == NOT_MEASURED:
        return f"{TITLE}: {NOT_MEASURED}."
    return f"{sentence(record, split)} {told.subject} {told.verdict}, {told.difference}."


def over_models(found: Mapping[str, SeedsInterval]) -> str:
    """A sentence with the margin over several fine-tuned models."""
    models = next(iter(found.values())).n
    told = " and ".join(metric_row(name).difference(one.value, one.low, one.high) for name, one in found.items())
    return f"Over {models} fine-tuned models: {told}, with intervals over models, draws and examples."


def command(record: RunRecord) -> str:
    """The command that makes the run with one draw of its null."""
    return record.spec.model_copy(update={"nulls": SHUFFLED}).command()


def table(record: RunRecord, split: str) -> pd.DataFrame:
    """One row per null that the run has on the split, as texts."""
    metric, rows = record.metric, []
    for note in record.nulls:
        if split not in note.states:
            continue
        states, beyond = note.states[split], note.beyond[split]
        share = states.get("recovered")
        rows.append(
            {
                "null": note.kind, "draws": str(note.draws), "score": metric_estimate(metric, states.get(metric)),
                "gain recovered": metric_estimate("recovered", share),
                **columns(beyond),
                "true signs": formats.MISSING if note.true_signs is None else formats.percent(note.true_signs, 0),
                "verdict": verdict(main(note, split)),
            }
        )  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def search_of(record: RunRecord) -> dict[str, str]:
    """The columns that identify a run's search: task, model, localizer, region and seed, as texts."""
    return {
        "task": readable(record.task_name), "fine-tuned model": text.last_part(record.spec.finetuned),
        "localizer": localizer_style(record.spec.localizer).title + gain_words(record),
        "region": formats.share(record.share), "seed": str(record.spec.seed),
    }  # fmt: skip


def by_run(records: Iterable[RunRecord], split: str) -> pd.DataFrame:
    """One row per null of these runs on the split, as texts: the search, both shares of the gain, the difference."""
    rows = []
    for record in records:
        for note in record.nulls:
            if split not in note.states:
                continue
            own, null = record.metrics[split].recovered, note.states[split].get("recovered")
            rows.append(
                {
                    **search_of(record),
                    "graft: share of the gain": metric_estimate("recovered", own),
                    "null": f"{note.kind}, {draws(note)}",
                    "null: share of the gain": metric_estimate("recovered", null),
                    **columns(note.beyond[split]),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def gain_words(record: RunRecord) -> str:
    """`, gain 11.7`; empty if the graft has the fine-tuned values."""
    return "" if record.gain == 1 else f", gain {formats.times(record.gain)}"


def measures(found: pd.DataFrame) -> pd.DataFrame:
    """`analysis.null_measures.by_measure` as texts, first the measure that best separates the graft from its nulls."""
    rows = [
        (row["measure"], MEASURES[row["measure"]].meaning, *_of_measure(row), formats.number(row["standard_errors"], 1))
        for row in found.sort_values("standard_errors", ascending=False).to_dict("records")
    ]
    return pd.DataFrame(rows, columns=["measure", "share or mean of", "graft", "null", "beyond", "standard errors"])


def _of_measure(row: Mapping[Hashable, Any]) -> tuple[str, str, str]:
    """The graft's value, its nulls' and the difference, in the measure's unit."""
    ends = row["beyond"], row["low"], row["high"]
    if (unit := MEASURES[row["measure"]].unit) == POINTS:
        return formats.percent(row["graft"]), formats.percent(row["null"]), metric_row("accuracy").difference(*ends)
    graft, null = (formats.number(abs(row[name])) for name in ("graft", "null"))  # a loss is stored as its negative
    if unit == NATS:
        return graft, null, metric_row("nll").difference(*ends)
    return graft, null, f"{formats.signed(ends[0])} (95%: {formats.interval(*ends[1:])})"


def shared_probability(found: pd.DataFrame) -> Any | None:
    """The row of `analysis.null_measures.by_measure` that best separates grafts from nulls; None if it has none."""
    return next((row for row in found.itertuples() if row.measure == SHARED_PROBABILITY), None)


def likeness(found: pd.DataFrame) -> str:
    """A sentence on the graft's likeness to the fine-tuned model beyond its nulls; empty if it is not measured."""
    rows = {row["measure"]: row for row in found.to_dict("records")}
    told = {name: _of_measure(row) for name, row in rows.items()}
    if SHARED_PROBABILITY not in told:
        return ""
    graft, null, beyond = told[SHARED_PROBABILITY]
    words = f"The graft shares {graft} of its probability with the fine-tuned model, its nulls {null}: {beyond}."
    if SHARED_ERRORS in told:
        graft, null, beyond = told[SHARED_ERRORS]
        errors = formats.counted(rows[SHARED_ERRORS]["examples"], "error")
        words += f" Of that model's {errors} it makes {graft}, its nulls {null}: {beyond}."
    return f"What the labels do not ask for: {words[0].lower()}{words[1:]}"


def meaning() -> str:
    """The properties that each null keeps and breaks, as a list in Markdown."""
    return "\n".join(f"- **{row.name}** keeps {row.keeps}; it breaks {row.breaks}." for row in NULLS.values())

"""The gain of a run's graft: fitted on validation data, compared with its null's, the fine-tuned model's and gain 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pandas as pd

from skillviz.core import formats
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.plots.theme import localizer_style, state_style
from skillviz.runs.record import Estimate, GainNote, RunRecord
from skillviz.show import beyond as beyond_null
from skillviz.show import text
from skillviz.show.sentences import metric_estimate
from skillviz.tasks.readable_names import readable

TITLE = "Gain"
Verdict = Literal["localized", "diluted", "not shown"]
LOCALIZED: Verdict = "localized"
DILUTED: Verdict = "diluted"
NOT_SHOWN: Verdict = "not shown"
"""The fine-tuned values of the region are enough; they have the right direction, but too short a step; or its graft
is not clearly beyond its null."""
MEANING = {
    LOCALIZED: "The skill is **localized**: the region's own movement is step enough.",
    DILUTED: "The skill is **diluted**: the region's movement has the right direction, and is too short a step.",
    NOT_SHOWN: "With their own gains, the graft is not clearly beyond its null.",
}
COLUMNS = ("graft", "region", "gain factor", "accuracy at gain 1", "accuracy at its gain")


def fitted(record: RunRecord) -> GainNote | None:
    """The note on the main graft's gain; None unless it was fitted."""
    first = next(iter(record.gains), None)
    return first if first is not None and first.fitted is not None else None


def verdict(record: RunRecord, split: str) -> Verdict | None:
    """The verdict on a fitted gain: the region's movement is the skill's whole step, or not. None without fit or
    null."""
    note, null = fitted(record), record.null(split)
    if note is None or note.low is None or null is None:
        return None
    beyond = next(iter(null.beyond[split].values()))
    if beyond.low is None or beyond.low <= 0:
        return NOT_SHOWN
    return DILUTED if note.low > 1 else LOCALIZED


def sentence(record: RunRecord, split: str) -> str:
    """`Gain 8.2 (6.1-11) brings the graft to 88.8% (86.7-90.9) accuracy, gain 1 to 78.6% (75.9-81.2).` Empty if the
    run's grafts have gain 1."""
    note = next(iter(record.gains), None)
    if note is None or split not in note.states:
        return ""
    metric = next(iter(note.states[split]))
    own, one = (_cell(states[split], metric) for states in (note.states, note.at_one))
    what = metric_row(metric).title
    words = [f"Gain **{_gain(note)}** brings the graft to **{own}** {what}, gain 1 to **{one}**."]
    if note.gain == 1:
        words = [f"A fitted gain of {_gain(note)} is no better than gain 1 on the other half of validation."]
    if isinstance(note.gain, Mapping) and note.fitted is not None:
        words.append(f"A single gain would be {fit(note.fitted, note.fitted, note.low, note.high)}.")
    elif note.by_kind:
        words.append("A gain by module kind was only fitted: it is no better on the other half of validation.")
    if (judged := verdict(record, split)) is not None:
        words.append(MEANING[judged])
    return " ".join(filter(None, (*words, scaled_errors(record, split))))


def scaled_errors(record: RunRecord, split: str) -> str:
    """The ECE of the graft and of the fine-tuned model after temperature scaling; empty if none was fitted."""
    note = next(iter(record.gains), None)
    tuned = next((other for other in record.gains if other.of == "finetuned"), None)
    if note is None or tuned is None or note.temperature is None or "ece" not in note.states.get(split, {}):
        return ""
    graft, other = (_cell(one.states[split], "ece") for one in (note, tuned))
    at = f", at its gain {formats.times(tuned.gain)}," if tuned.gain != 1 else ""
    if isinstance(note.gain, Mapping):  # the fine-tuned model has no such fit, so the two are not comparable
        at, other = " by module kind", NOT_MEASURED
    scaled = "After temperature scaling, fitted on half of validation,"
    return f"{scaled} the graft's ECE is {graft}; the fine-tuned model's{at} is {other}."


def of_path(record: RunRecord, size: int) -> str:
    """The end of the path to the graft of a size; empty if that graft has the fine-tuned values."""
    gain = record.gain_at(size)
    moved = f"its region moved {formats.times(gain)} times as far as fine-tuning did"
    return f"100% of WiSE-Graft is the run's graft: {moved}." if gain != 1 else ""


def of_region(record: RunRecord, expression: Mapping[str, Any], size: int) -> str:
    """The gain of the graft of a region built by hand; empty if all grafts of the run have gain 1."""
    gain = record.gain_of(expression, size)
    if gain != 1:
        times = f"**{formats.times(gain)} times** as far as fine-tuning did (gain)"
        if isinstance(gain, Mapping):
            return f"Its graft moves it {times}. Random regions move by the same gains; their own are {NOT_MEASURED}."
        return f"Its graft moves it {times}, and so do those of random regions."
    if record.gain == 1:
        return ""
    own = formats.times(record.gain)
    return f"Its graft has gain 1, as none was fitted for it; the graft of this run's region has gain {own}."


def table(record: RunRecord, split: str) -> pd.DataFrame:
    """One row per graft, its nulls and the fine-tuned model, as texts. NLL and ECE are after each model's own
    temperature scaling if the gain was fitted, because a gain above 1 also makes a model more confident."""
    rows = []
    for note in record.gains:
        if split in note.states:
            raw = ", not scaled" if note.temperature is None and _is_scaled(record) else ""
            own = [_cell(note.states[split], "accuracy"), *(_cell(note.states[split], n) + raw for n in ("nll", "ece"))]
            is_single = note.of == "finetuned" and isinstance(record.gain, Mapping)
            factor = _gain(note) + (", one for all kinds" if is_single else "")
            rows.append((_name(note), _share(record, note), factor, _cell(note.at_one[split], "accuracy"), *own))
    scaled = ", scaled" if _is_scaled(record) else ""
    return pd.DataFrame(rows, columns=[*COLUMNS, f"NLL{scaled}", f"ECE{scaled}"])


def kinds(record: RunRecord) -> pd.DataFrame:
    """One row per module kind in the main region with its fitted gain, as texts; empty if none was fitted."""
    note = fitted(record)
    rows = [
        (one.kind, formats.count(one.size), fit(one.fitted, one.fitted, one.low, one.high))
        for one in (note.by_kind if note is not None else ())
    ]
    return pd.DataFrame(rows, columns=["module kind", "entries", "gain factor"])


def kinds_caption(record: RunRecord) -> str:
    """The caption of `kinds`."""
    used = "used" if isinstance(record.gain, Mapping) else "only fitted, not used"
    return f"Gains by module kind ({used}), each with its interval at the other gains"


def caption(record: RunRecord) -> str:
    """The caption of `table`."""
    after = "after each one's own temperature scaling, fitted on half of validation"
    return f"Gains; NLL and ECE are {after if _is_scaled(record) else 'before temperature scaling'}"


def _is_scaled(record: RunRecord) -> bool:
    """True if temperatures were fitted; not for a gain that was given."""
    return any(note.temperature is not None for note in record.gains)


def by_run(records: Iterable[RunRecord], split: str) -> pd.DataFrame:
    """One row per fitted graft of these runs, as texts; `null` is the mean of its draws, each at its own fit."""
    rows = []
    for record in records:
        null = record.null(split)
        for note in (note for note in record.gains if note.of == "grafted" and note.fitted is not None):
            is_main = note.size == record.size
            beyond = null.beyond[split] if null is not None and is_main else {}
            rows.append(
                {
                    "task": readable(record.task_name), "fine-tuned model": text.last_part(record.spec.finetuned),
                    "localizer": localizer_style(record.spec.localizer).title,
                    "region": _share(record, note),
                    "gain": _gain(note), "accuracy, gain 1": _cell(note.at_one[split], "accuracy"),
                    "accuracy": _cell(note.states[split], "accuracy"),
                    "NLL, scaled": _cell(note.states[split], "nll"), "ECE, scaled": _cell(note.states[split], "ece"),
                    "null, accuracy": _cell(null.states[split], "accuracy") if null and is_main else formats.MISSING,
                    "beyond, accuracy": beyond_null.columns(beyond)["beyond, accuracy"],
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def _name(note: GainNote) -> str:
    if note.of == "null":
        return f"null, {note.kind}, draw {(note.draw or 0) + 1}"
    return state_style(note.of).title


def _share(record: RunRecord, note: GainNote) -> str:
    """The region's share of the parameters; n/a for the fine-tuned model."""
    return formats.share(note.size / record.d if note.size and record.d else None)


def _gain(note: GainNote) -> str:
    if isinstance(note.gain, Mapping):
        return f"{formats.times(note.gain)} by module kind"
    if note.fitted is None:
        return formats.times(note.gain)
    return fit(note.gain, note.fitted, note.low, note.high)


def fit(gain: float, fitted: float, low: formats.Number, high: formats.Number) -> str:
    """`8.2 (6.1–11)`: a fitted gain, with `not bounded` if the examples do not rule out larger ones, and the gain that
    is used if it is another."""
    end = "not bounded" if formats.missing(high) else formats.number(high, 1)
    used = "" if gain == fitted else f"; {formats.number(gain, 0)} is used"
    return f"{formats.number(fitted, 1)} ({formats.number(low, 1)}–{end}){used}"


def _cell(states: Mapping[str, Estimate], metric: str) -> str:
    return metric_estimate(metric, states.get(metric))

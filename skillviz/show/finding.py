"""The finding of a run as sentences for a terminal: the recovered gain and the calibration, with reasons and advice."""

from __future__ import annotations

import pandas as pd

from skillviz.core import formats
from skillviz.core.localizers.table import DEFAULT_LOCALIZER, localizer, makes_graft
from skillviz.runs.run import Run
from skillviz.show import beyond, gain, out_of_scope, sentences
from skillviz.show.briefs import headline_scores, headline_split

LITTLE = 0.5  # of the gain; below it the finding gives the reason
MOST = 0.9  # of the gain; from here on it counts as nearly all
SPREAD = 0.1  # of the parameters over which the movement is spread: an AdamW fine-tune has 0.3 or more
LARGER = (3, 10, 30)  # times as large


def finding(run: Run) -> list[str]:
    """The sentence on the main region, on the test set if there is one; then reason and advice if little is
    recovered."""
    record, scores = run.record, headline_scores(run.record)
    if scores is None:
        return ["This run stored no scores."]
    main = sentences.overview(record, scores).replace("**", "")
    split = headline_split(record)
    told = [f"{formats.capital(split)} set, {formats.counted(scores.n, 'example')}: {main}"]
    if null := beyond.line(record, split):
        told.append(null.replace("**", ""))
    if scaled := gain.sentence(record, split):
        told.append(scaled.replace("**", ""))
    if sure := out_of_scope.of_run(run):
        told.append(out_of_scope.finding(sure))
    if lost := sentences.no_gain(scores, record.metric):
        return told if lost in main else [*told, lost.removeprefix(sentences.NO_GAIN).strip()]
    recovered = scores.recovered.value if scores.recovered is not None else None
    if recovered is None or recovered >= LITTLE or not makes_graft(record.spec.localizer):
        return told
    return [*told, _why(run), _next(run)]


def _why(run: Run) -> str:
    """The reason why a region recovers little, from the movement of its weights and of all others."""
    layers = run.layers()
    squares, selected = (float((layers[name] ** 2).sum()) for name in ("movement_l2", "movement_l2_selected"))
    held = formats.share(selected / squares) if squares else formats.share(0.0)
    if _is_spread(layers):
        return (
            "Little is recovered: fine-tuning moved nearly every parameter, as AdamW does, and the region holds "
            f"{held} of the squared movement."
        )
    return f"Little is recovered, though few parameters moved far: the region holds {held} of the squared movement."


def _is_spread(layers: pd.DataFrame) -> bool:
    """True if fine-tuning moved many parameters by about the same amount."""
    squares, d = float((layers["movement_l2"] ** 2).sum()), int(layers["total"].sum())
    lengths = float((layers["movement_mean"] * layers["total"]).sum())
    return squares > 0 and lengths**2 / (d * squares) >= SPREAD


def _next(run: Run) -> str:
    """The advice for the next run: a size of this run with nearly all of the gain, larger ones, or another
    localizer."""
    record = run.record
    share, split = record.share or 0.0, headline_split(record)
    curve = run.curve()
    rows = curve[(curve["split"] == split) & (curve["metric"] == "recovered")]
    known = {float(row["share"]): float(row["value"]) for _, row in rows.iterrows()}
    enough = [one for one, value in known.items() if one > share and value >= MOST]
    if enough:
        return f"{formats.share(min(enough))} of the parameters recover {formats.percent(known[min(enough)], 0)} of it."
    sizes = [times * share for times in LARGER if max(known, default=0.0) < times * share < 1]
    larger = [f"{float(f'{100 * size:.1g}'):g}%" for size in sizes]
    if localizer(record.spec.localizer).budgeted and larger:
        is_short = not record.gains and record.has_classes and _is_spread(run.layers())
        longer = "a longer step in this region, with --gain fit, or " if is_short else ""
        return f"Next: {longer}larger regions, with --size {' '.join(larger)}."
    if record.spec.localizer != DEFAULT_LOCALIZER:
        return f"Next: another localizer, such as --method {DEFAULT_LOCALIZER}."
    return "Next: more steps, or a fine-tuning that moves fewer parameters (finetune --help lists recipes)."

"""Compare a graft with one gain by module kind to the same graft with a single gain and at gain 1.

    python -m benchmarks gain-kinds [--pair mr-sgd]

A cell is an example pair: its top movement at 0.1%, and the same choice on one draw of shuffled movements. Both get the
same fits, on half of the validation examples; the other half chooses one, and the test set judges. Rows are kept in
results/gain_kinds.csv, the tables of docs/gain.md are made from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from benchmarks.frame import RESULTS, ROOT, Cells, Rows, fill, measure
from benchmarks.localizer_beyond import REFERENCE, TEST, found_region, session_of, spec_of
from skillviz.core import formats
from skillviz.core.intervals import seeds_interval, wilson
from skillviz.core.nulls import SHUFFLED, beyond_null
from skillviz.core.scores import losses
from skillviz.core.temperature import scaled
from skillviz.runs.gain import GainData, gained, scores_at, temperature_of
from skillviz.runs.nulls import null_graft
from skillviz.runs.passes import UNKEPT
from skillviz.runs.plan import planned
from skillviz.runs.produce import problem_of, searched_data
from skillviz.runs.spec import KINDS
from skillviz.runs.store import Library
from skillviz.show.gain import fit as fit_words

SIZE, VALIDATION = "0.1%", 200
KEY = ["pair"]
CSV, PARQUET = RESULTS / "gain_kinds.csv", RESULTS / "gain_kinds.parquet"
PAGE = ROOT / "docs" / "gain.md"
GAINS = ("1", "single", "by kind")
GRAFTS = ("top movement", "shuffled")
METRICS = ("accuracy", "NLL, scaled")


def measured(pair: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each graft and gain with its scores by test example, and one for each module kind's gain."""
    spec = spec_of(SIZE, pair, REFERENCE).model_copy(update={"gain": KINDS, "max_validation": VALIDATION})
    session = session_of(pair)
    plan = planned(spec, session, Library(()))
    models, data, ends = session.pair(spec), searched_data(plan, session), session.ends(spec)
    own = models, found_region(plan, models, data)
    null = null_graft(models, data, partial(problem_of, plan), plan, (SHUFFLED, 0), lambda step: None)
    halves = GainData.of({split: data[split] for split in ends}, spec.data_seed)
    for graft, (moved, region) in zip(GRAFTS, (own, null), strict=True):
        found = gained(moved, region, halves, ends["validation"]["pretrained"], KINDS, UNKEPT)
        assert found.fit is not None
        by_kind = {kind: one.value for kind, (one, _) in found.by_kind.items()}
        tried = dict(zip(GAINS, (1.0, found.fit.value, by_kind), strict=True))
        common = {"pair": pair, "graft": graft, "examples": len(data["test"])}
        for name, gain in tried.items():
            logits = scores_at(moved, region, halves, gain, UNKEPT)
            temperature = temperature_of(logits, halves)
            z, labels = logits["test"], data["test"].labels
            hits = (z.argmax(axis=1) == labels).astype(np.float32)
            nats = -losses(z if temperature is None else scaled(z, temperature), labels).astype(np.float32)
            ends_of = found.fit if name == "single" else (np.nan,) * 3
            yield {
                **common, "gain": name, "kind": "", "size": region.size, "is_used": found.gain == gain,
                "fitted": ends_of[0], "low": ends_of[1], "high": ends_of[2],
                METRICS[0]: hits.mean(), METRICS[1]: -nats.mean(), "hits": hits.tobytes(), "nats": nats.tobytes(),
            }  # fmt: skip
        for kind, (one, size) in found.by_kind.items():
            yield {**common, "gain": "by kind", "kind": kind, "size": size, "is_used": found.gain == by_kind,
                   "fitted": one.value, "low": one.low, "high": one.high, "hits": b"", "nats": b""}  # fmt: skip


def difference(one: bytes, other: bytes, is_nats: bool) -> str:
    """Return the mean difference of scores by example with its interval, in nats or points."""
    first, second = (np.frombuffer(scores, dtype=np.float32) for scores in (one, other))
    found, (factor, digits, unit) = beyond_null(first, second[None]), (1, 3, "nats") if is_nats else (100, 1, "points")
    ends = formats.interval(found.low, found.high, digits, factor)
    return f"{formats.signed(factor * found.value, digits)} {unit} ({ends})"


def compared(rows: pd.DataFrame) -> list[str]:
    """Return a row for each graft and gain: scores, the difference to a single gain, and to the null at its own fit."""
    head = ["fine-tuned model", "graft", "gain", *METRICS]
    head += [f"{what}, {metric}" for what in ("− single gain", "beyond the null") for metric in METRICS]
    lines = []
    of = {(row["pair"], row["graft"], row["gain"]): row for row in rows[rows["kind"] == ""].to_dict("records")}
    for (pair, graft, gain), row in of.items():
        single, null = of[pair, graft, GAINS[1]], of[pair, GRAFTS[1], gain]
        differences = [
            difference(row[column], other[column], column == "nats") if is_compared else ""
            for other, is_compared in ((single, gain == GAINS[2]), (null, graft == GRAFTS[0]))
            for column in ("hits", "nats")
        ]
        hits, losses_of = (np.frombuffer(row[column], dtype=np.float32).astype(float) for column in ("hits", "nats"))
        nats = seeds_interval(-losses_of)  # Student's t over the examples
        name = gain if gain != GAINS[1] else fit_words(row["fitted"], row["fitted"], row["low"], row["high"])
        lines.append([
            pair, graft, name + (", chosen" if row["is_used"] else ""),
            formats.percent_estimate(hits.mean(), *wilson(hits.sum(), len(hits))),
            formats.estimate(nats.value, nats.low, nats.high), *differences,
        ])  # fmt: skip
    return formats.markdown_table(head, lines)


def factors(rows: pd.DataFrame) -> list[str]:
    """Return a row for each module kind: its entries and its gain, for each graft."""
    of = rows[rows["kind"] != ""]
    lines = []
    for (pair, kind), cell in of.groupby(["pair", "kind"], sort=False):
        by_graft = {row["graft"]: row for row in cell.to_dict("records")}
        cells = [
            (f"{row['size']:,}", fit_words(row["fitted"], row["fitted"], row["low"], row["high"])) if row else ("0", "")
            for row in map(by_graft.get, GRAFTS)
        ]
        lines.append([pair, kind, *cells[0], *cells[1]])
    head = ("fine-tuned model", "module kind", "entries", "gain", "null's entries", "null's gain")
    return formats.markdown_table(head, lines)


def cells(pair: str | None) -> Cells:
    """Yield the cells: the pairs."""
    for one in TEST:
        if pair in (None, one):
            yield {"pair": one}, partial(measured, one)


def main(
    pair: Annotated[str | None, typer.Option(help="One example pair only.")] = None,
    tables: Annotated[bool, typer.Option("--tables", help="Only write the tables.")] = False,
) -> None:
    """Measure the missing cells and write the tables of docs/gain.md."""
    kept = Rows(CSV, KEY, PARQUET)
    if not tables:
        measure(kept, cells(pair))
    rows = pd.DataFrame(kept.rows)
    fill(PAGE, {"by kind": compared(rows), "kinds": factors(rows)}, "python -m benchmarks gain-kinds")

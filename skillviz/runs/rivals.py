"""Rivals of a run's graft at equal bytes: approximations of the whole movement, each at its own gain. Imports torch.

Rows of the table PARTS: `kind` is the rival's name (`rank 4`; `entries` and the size for a graft), `head` its number
from 1; condition `one` is gain 1 and `chosen` the gain that validation chose. The facts in parts.json are each one's
bytes, gain with its interval, and temperatures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import torch

from skillviz.core.compressed import COMPRESSIONS, ENTRIES, PLACE, compressed
from skillviz.core.draws import stratified
from skillviz.core.localizers.table import localizer
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.runs.gain import GainData, gained, temperature_of
from skillviz.runs.graft_of_run import check_fingerprints
from skillviz.runs.part_scores import CHOSEN, ONE, RIVALS, PartScores, region_rows, store_parts, stored_parts
from skillviz.runs.passes import Passes
from skillviz.runs.plan import planned
from skillviz.runs.run import Run
from skillviz.runs.session import ENDS, Session
from skillviz.runs.spec import FIT
from skillviz.runs.store import Store, library

CONDITIONS = ((ONE, 0), (CHOSEN, 0))


def score_rivals(
    run: Run, store: Store, sample: int | None, told: Callable[[str, int, int, str, bool], None]
) -> PartScores:
    """Return the stored scores of a run's grafts and their rivals on `sample` test examples (None: all).

    Missing ones are scored first. Each is stored as soon as it is scored, so that an interrupted command resumes with
    the next; another sample starts over. If the localizer searches each size on its own, the run has the region of the
    main size alone. `told` gets the name of the rival before the values of `pace.Heard`. Raises BadInput for lean mode,
    without a test set, if the data have changed, and if no gain can be fitted; PairMismatch if the models have changed.
    """
    spec, session = run.spec.model_copy(update={"gain": FIT}), Session()
    if spec.lean or "test" not in run.record.metrics:
        raise BadInput(f"rivals need a test set and the whole movement in memory, and run {run.id} lacks one of them.")
    task = planned(spec, session, library(store.root)).task  # refuses validation examples that the model has seen
    if run.record.task is None or run.record.task.fingerprint != task.fingerprint:
        raise BadInput(f"the examples of '{task.name}' are not those of run {run.id}; restore them.")
    pair, encoded, seed = session.pair(spec), session.encoded(spec), spec.data_seed
    check_fingerprints(run, pair)
    test = encoded["test"].take(stratified(encoded["test"].labels, sample or len(encoded["test"]), seed))
    data = GainData.of({"validation": encoded["validation"], "test": test}, seed)
    ends = {state: run.logits(state, "validation")[2] for state in ENDS}
    facts = {state: _known(temperature=temperature_of({"validation": z}, data)) for state, z in ends.items()}
    frames, scores = list[pd.DataFrame](), stored_parts(library(store.root), run, RIVALS)
    if scores is not None and (scores.record.n, scores.record.seed) == (len(test), seed):
        facts, frames = dict(scores.record.facts), [scores.predictions()]
    others = run.sizes()["size"].unique().tolist() if localizer(spec.localizer).nested else []
    regions = {
        **{f"{ENTRIES} {len(graft)}": graft for graft in sorted((run.region(), *map(run.cut, others)), key=len)},
        **dict.fromkeys(COMPRESSIONS, Region.full(pair.table.shapes)),
    }
    for number, (name, region) in enumerate(regions.items(), start=1):
        if name in facts:
            continue
        begun, title = time.monotonic(), f"{name}, {number} of {len(regions)}"
        moved, count = pair, region.size * (PLACE + pair.base.element_size())
        if name in COMPRESSIONS:
            change, count = compressed(pair.movement.whole().cpu().numpy(), pair.table, name)
            end = pair.base.float() + torch.from_numpy(change).to(pair.base.device)
            moved = replace(pair, finetuned=end.to(pair.base.dtype))
        found = gained(moved, region, data, ends["pretrained"], FIT, Passes(partial(told, title)))
        fit, at, logits = found.fit, found.temperatures, np.stack([found.one["test"], found.chosen["test"]])
        assert fit is not None and isinstance(found.gain, float)
        frames.append(region_rows(name, number, region.size, CONDITIONS, logits, test.ids, test.labels, run.labels))
        facts[name] = _known(
            bytes=float(count), gain=found.gain, fitted=fit.value, low=fit.low,
            high=fit.high if fit.is_bounded else None, temperature=at[CHOSEN], temperature_at_one=at[ONE],
            seconds=round(time.monotonic() - begun, 1),
        )  # fmt: skip
        scores = store_parts(
            store, run, pd.concat(frames, ignore_index=True), grouping=RIVALS, split="test", draws=0, seed=seed,
            seconds=sum(fact.get("seconds", 0.0) for fact in facts.values()), facts=facts,
        )  # fmt: skip
    assert scores is not None
    return scores


def _known(**facts: float | None) -> dict[str, float]:
    """Return the facts that have a value."""
    return {name: value for name, value in facts.items() if value is not None}

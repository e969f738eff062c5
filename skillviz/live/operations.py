"""What the worker can be asked: one function an operation, and the table of them.

Every operation but `ping` takes `pair`: {"run": <run id>}, or {"base", "finetuned", "task", "readout"} and what else
a spec has. `region` is a recipe (`core.recipe`); left out, it is the run's main region. `text` is a sentence, or two
for a task of pairs. Splits are train, validation and test; `sample` takes so many of their examples.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import psutil

from skillviz import __version__
from skillviz.errors import BadInput
from skillviz.live.request import Answer, Asked, Worker
from skillviz.live.transfer import transfer
from skillviz.live.union import union
from skillviz.live.wise import wise, wise_grid
from skillviz.models import attribution
from skillviz.models.conductance import conductance
from skillviz.models.predict import predict
from skillviz.models.states import STATES

METHODS = ("integrated-gradients", "layer-conductance")
SHOWN = ("pretrained", "grafted", "finetuned")
MOST_TEXTS = 1000
STARTED = time.time()

Text = str | Sequence[str]


def ping(worker: Worker) -> Answer:
    """Who answers: process, version, seconds since it began, bytes of memory, pairs held."""
    return {
        "pid": os.getpid(),
        "version": __version__,
        "seconds": time.time() - STARTED,
        "memory": psutil.Process().memory_info().rss,
        "pairs": worker.pairs.names(),
    }


def open_pair(asked: Asked) -> Answer:
    """Loads the pair, and says what it is: d, labels, readout, layers, notes, device."""
    pair = asked.pair
    return {
        "d": pair.d,
        "labels": list(asked.task.labels),
        "two_texts": asked.task.pair,
        "readout": pair.readout_name,
        "model_type": pair.table.model_type,
        "layers": pair.table.layers,
        "device": str(pair.device),
        "notes": list(pair.notes),
    }


def score_text(
    asked: Asked, texts: Sequence[Text], region: Mapping[str, Any] | None = None, states: Sequence[str] = STATES
) -> Answer:
    """Class scores of typed texts: `logits` by state, float32 [text, label]."""
    encoded = asked.encode(frame_of(asked, texts))
    chosen = asked.region(region) if needs_region(states) else None
    logits = {state: predict(asked.pair, encoded, state, chosen) for state in states}
    return {"labels": list(asked.task.labels), "logits": logits}


def attribute(
    asked: Asked,
    text: Text,
    region: Mapping[str, Any] | None = None,
    states: Sequence[str] = SHOWN,
    method: str = "integrated-gradients",
    baseline: str = attribution.BASELINES[0],
    target: int | str | None = None,
    steps: int = attribution.STEPS,
) -> Answer:
    """What each token adds to a class's log-odds, by state; without `target`, to the class that fine-tuned gives.

    `special` tells which tokens are special ones: they stay as they are on the way from the baseline, so that their
    value is 0. A state's `values` float64 [token] (integrated gradients), or `parts` {block, attention output, MLP
    out}: float64 [layer, token] (layer conductance), with `score`, `reference` and `gap`, the completeness gap, in
    nats.
    """
    if method not in METHODS:
        raise BadInput(f"'{method}' is not a method of attribution; known: {', '.join(METHODS)}.")
    pair, encoded = asked.pair, asked.encode(frame_of(asked, [text]))
    chosen = asked.region(region) if needs_region(states) else None
    label = _target(asked, target, encoded)
    told: dict[str, Any] = {"target": label, "baseline": baseline, "steps": steps}
    found: dict[str, Any] = {}
    tokens: tuple[str, ...] = ()
    special = attribution.special(encoded.input_ids[0], pair.tokenizer)
    for state in states:
        if method == METHODS[0]:
            one: Any = attribution.attribute(pair, encoded, state, chosen, **told)
            own: dict[str, Any] = {"values": one.values}
        else:
            one = conductance(pair, encoded, state, chosen, **told)
            own = {"parts": one.parts}
        tokens = one.tokens
        found[state] = {**own, "score": one.score, "reference": one.reference, "gap": one.gap}
    marks = [*special.tolist(), *[False] * (len(tokens) - len(special))]  # the causal readout's answer is a word
    return {
        "tokens": list(tokens),
        "special": marks,
        "target": label,
        "label": asked.task.labels[label],
        "states": found,
    }


def evaluate_region(
    asked: Asked,
    region: Mapping[str, Any] | None = None,
    split: str = "test",
    sample: int | None = None,
    states: Sequence[str] = ("grafted", "complement"),
) -> Answer:
    """Class scores of a region's graft and of its complement: `logits` by state, with the region's size and d."""
    chosen, encoded = asked.region(region), asked.examples(split, sample)
    logits = {state: predict(asked.pair, encoded, state, chosen) for state in states}
    return {**told_of(asked, encoded), "size": chosen.size, "d": chosen.d, "share": chosen.share, "logits": logits}


OPERATIONS: dict[str, Callable[..., Answer]] = {
    "ping": ping,
    "open": open_pair,
    "score_text": score_text,
    "attribute": attribute,
    "wise": wise,
    "wise_grid": wise_grid,
    "evaluate_region": evaluate_region,
    "transfer": transfer,
    "union": union,
}
"""The first argument is what `answering` finds out: who is asked, and about which pair."""


def frame_of(asked: Asked, texts: Sequence[Text]) -> pd.DataFrame:
    """Typed texts as a frame of examples; their label is not known and not used."""
    n = 2 if asked.task.pair else 1
    if not 1 <= len(texts) <= MOST_TEXTS:
        raise BadInput(f"{len(texts):,} texts were given; 1 to {MOST_TEXTS:,} are scored at a time.")
    rows = [list(text) if isinstance(text, list | tuple) else [text] for text in texts]
    if any(len(row) != n or not all(isinstance(part, str) for part in row) for row in rows):
        raise BadInput(f"an example of the task '{asked.task.name}' has {n} text{'s' * (n - 1)}; give it so many.")
    columns = dict(zip(("text_a", "text_b"), zip(*rows, strict=True), strict=False))
    ids = [f"typed-{number}" for number in range(len(rows))]
    return pd.DataFrame({"example_id": ids, **columns, "label": 0})


def told_of(asked: Asked, encoded: Any) -> Answer:
    """What every answer about examples says of them."""
    return {"example_ids": encoded.ids, "labels": encoded.labels, "label_names": list(asked.task.labels)}


def needs_region(states: Sequence[str]) -> bool:
    """Whether any of the states is a graft's."""
    return any(state in ("grafted", "complement") for state in states)


def _target(asked: Asked, target: int | str | None, encoded: Any) -> int:
    if target is None:
        return int(predict(asked.pair, encoded, "finetuned").argmax())
    if isinstance(target, str):
        if target not in asked.task.labels:
            raise BadInput(f"'{target}' is not a label of the task; its labels: {', '.join(asked.task.labels)}.")
        return asked.task.labels.index(target)
    return target

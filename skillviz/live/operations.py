"""The worker's computations: one function per operation, the table of them, and the answer to a request.

Every operation takes `pair`: {"run": <run id>}, or {"base", "finetuned", "task", "readout"} and the other
fields of a spec. `region` is an expression (`core.region_expression`); the default is the run's main region. `text` is
a sentence, or two for a task of pairs. Splits are train, validation and test; `sample` takes that many of their
examples. Pages offer only arguments that are valid for their run; a request with others is a bug.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillviz.atomic import working_folder
from skillviz.core.draws import control_of, stratified
from skillviz.core.encoded import Encoded
from skillviz.core.intervals import Interval, metric_interval
from skillviz.core.region import Region
from skillviz.core.region_parts import ALONE, WITHOUT, grafts_of, parts_of
from skillviz.errors import BadData, BadInput
from skillviz.live.request import PairRequest, Worker
from skillviz.models import attribution
from skillviz.models.attribution import conductance
from skillviz.models.fetch import GRAFT_FILE
from skillviz.models.pair import STATES
from skillviz.models.predict import predict, predict_grafts
from skillviz.runs.export import card, origin
from skillviz.runs.graft_of_run import graft_of_run
from skillviz.runs.metrics import positive, split_scores
from skillviz.runs.part_scores import DRAWS
from skillviz.runs.points import bin_rows, metric_rows
from skillviz.runs.record import TaskNote
from skillviz.runs.session import Session
from skillviz.runs.transfer import LabelMap, Other, other_examples
from skillviz.runs.wise import on_path, wise_tables
from skillviz.studies.task_unions import TaskScores, mean_relative_gain
from skillviz.tasks import registry
from skillviz.tasks.leaks import training_texts, unseen
from skillviz.tasks.splits import sampled
from skillviz.tasks.task import GENERATION
from skillviz.tasks.user_file import has_data, task_stamp

GRADIENTS = "integrated-gradients"
SHOWN = ("pretrained", "grafted", "finetuned")
FILLERS = ("a", "1")
NOT_STORED = ("open", "encoded_texts", "graft_file")

Answer = dict[str, Any]
Expression = Mapping[str, Any]
Text = str | Sequence[str]


def answer(worker: Worker, operation: str, arguments: Mapping[str, Any]) -> Answer:
    """Return the operation's answer with its `seconds`, `stored` and `uncompared`.

    `stored` is true if the answer was read from disk. `uncompared` is a sentence if the definition of the run's task
    cannot be compared with the present one, else empty.

    Answers about a run are stored beside it, so that the same request is answered without the model.
    """
    start = time.monotonic()
    function, request = OPERATIONS[operation], PairRequest(worker, arguments["pair"])
    given = {name: value for name, value in arguments.items() if name != "pair"}
    call = inspect.signature(function).bind(request, **given)
    call.apply_defaults()  # the key of a stored answer has all arguments
    key = None if operation in NOT_STORED else request.key(operation, dict(list(call.arguments.items())[1:]))
    value = worker.results.get(key, request.run.id) if request.run and key else None
    stored = value is not None
    if value is None:
        value = function(*call.args, **call.kwargs)
        if request.run and key:
            worker.results.put(key, value, request.run.id)
    return {**value, "stored": stored, "uncompared": request.uncompared, "seconds": time.monotonic() - start}


def open_pair(request: PairRequest) -> Answer:
    """Load the pair, and return its d, labels, readout, layers, notes and device."""
    pair = request.pair
    return {
        "d": pair.d,
        "labels": list(request.task.labels),
        "two_texts": request.task.pair,
        "readout": pair.readout_name,
        "model_type": pair.table.model_type,
        "layers": pair.table.layers,
        "device": str(pair.device),
        "notes": list(pair.notes),
    }


def graft_file(request: PairRequest) -> Answer:
    """Return the run's graft file as `export` writes it, with its card: `graft` (bytes), `card`, and `remarks`."""
    assert request.run is not None
    graft, remarks = graft_of_run(request.run)
    with working_folder() as folder:
        graft.save(folder / GRAFT_FILE)
        content = (folder / GRAFT_FILE).read_bytes()
    about = origin(request.run, graft, None, None)
    return {"graft": content, "card": card(request.run, graft, request.run.id, about), "remarks": remarks}


def score_text(
    request: PairRequest, texts: Sequence[Text], region: Expression | None = None, states: Sequence[str] = STATES
) -> Answer:
    """Return class scores of typed texts: `logits` by state, float32 [text, label]."""
    encoded, chosen = request.encode(_frame_of(request, texts)), _region(request, region, states)
    logits = {state: predict(request.pair, encoded, state, chosen) for state in states}
    return {"labels": list(request.task.labels), "logits": logits}


def _frame_of(request: PairRequest, texts: Sequence[Text]) -> pd.DataFrame:
    """Return typed texts as a frame of examples; their label is unknown and not used."""
    n = 2 if request.task.pair else 1
    if request.task.kind == GENERATION:
        raise BadInput(
            f"the task '{request.task.name}' has a reference for each example, and a typed text has no reference to be "
            "scored by; look at the run's own examples."
        )
    if not request.task.has_classes:
        raise BadInput(
            f"the task '{request.task.name}' has options of its own for each example, so a typed text has none to be "
            "scored by; look at the run's own examples."
        )
    rows = [[text] if isinstance(text, str) else list(text) for text in texts]
    if any(len(row) != n for row in rows):
        raise BadInput(f"an example of the task '{request.task.name}' has {n} text{'s' * (n - 1)}; give that many.")
    columns = dict(zip(("text_a", "text_b"), zip(*rows, strict=True), strict=False))
    ids = [f"typed-{number}" for number in range(len(rows))]
    return pd.DataFrame({"example_id": ids, **columns, "label": 0})


def _region(request: PairRequest, region: Expression | None, states: Sequence[str]) -> Region | None:
    """Return the region if one of the states is a graft's; None if no state needs it."""
    return request.region(region) if any(state in ("grafted", "complement") for state in states) else None


def attribute(
    request: PairRequest,
    text: Text,
    region: Expression | None = None,
    states: Sequence[str] = SHOWN,
    method: str = GRADIENTS,
    baseline: str = attribution.BASELINES[0],
    target: int | None = None,
    steps: int = attribution.STEPS,
) -> Answer:
    """Return each token's contribution to a class's log-odds, by state.

    Without `target`, the class is the one that the fine-tuned model predicts.

    `special` marks special tokens: they are unchanged on the path from the baseline, so their value is 0. `word`
    numbers the words of the text; it is -1 for tokens of the template and of the answer, and for special ones. A state
    has `values` float64 [token] (integrated gradients), or `parts` {block, attention output, MLP out}: float64
    [layer, token] (layer conductance), with `score`, `reference` and `gap`, the completeness gap, in nats.
    """
    pair, encoded = request.pair, request.encode(_frame_of(request, [text]))
    chosen = _region(request, region, states)
    label = int(predict(pair, encoded, "finetuned").argmax()) if target is None else target
    options: dict[str, Any] = {"target": label, "baseline": baseline, "steps": steps}
    by_state: dict[str, Any] = {}
    tokens: tuple[str, ...] = ()
    special = attribution.special(encoded.input_ids[0], pair.tokenizer)
    for state in states:
        if method == GRADIENTS:
            result: Any = attribution.attribute(pair, encoded, state, chosen, **options)
            values: dict[str, Any] = {"values": result.values}
        else:
            result = conductance(pair, encoded, state, chosen, **options)
            values = {"parts": result.parts}
        tokens = result.tokens
        by_state[state] = {**values, "score": result.score, "reference": result.reference, "gap": result.gap}
    rest = len(tokens) - len(special)  # the answer of the causal readout
    numbers = attribution.words(encoded.input_ids[0], pair.tokenizer, _is_text(request, text, encoded))
    return {
        "tokens": list(tokens),
        "special": [*special.tolist(), *[False] * rest],
        "word": [*numbers.tolist(), *[-1] * rest],
        "target": label,
        "label": request.task.labels[label],
        "states": by_state,
    }


def _is_text(request: PairRequest, text: Text, encoded: Encoded) -> np.ndarray:
    """Return the mask of the one example's tokens that come from its texts, bool [token]; the rest is the template's.

    A token is a text's if it changes when the text is replaced by a filler; two are tried, because one may resemble it.
    """
    ids, texts = encoded.input_ids[0], [text] if isinstance(text, str) else list(text)
    is_text = np.zeros(len(ids), dtype=bool)
    for place in range(len(texts)):
        replaced = [
            request.encode(_frame_of(request, [[*texts[:place], filler, *texts[place + 1 :]]])).input_ids[0]
            for filler in FILLERS
        ]
        first = min(_shared(ids, other) for other in replaced)
        last = min(_shared(ids[::-1], other[::-1]) for other in replaced)
        is_text[first : len(ids) - last] = True
    return is_text


def _shared(one: np.ndarray, other: np.ndarray) -> int:
    """Return the number of equal tokens at the start of both."""
    n = min(len(one), len(other))
    return int(np.append(one[:n] == other[:n], False).argmin())


def evaluate_region(
    request: PairRequest,
    region: Expression | None = None,
    split: str = "test",
    sample: int | None = None,
    states: Sequence[str] = ("grafted", "complement"),
    controls: Sequence[str] = (),
    seed: int = 0,
) -> Answer:
    """Return class scores of a region's graft and of its complement: `logits` by state, with the region's size and d.

    `controls` are random regions of the same size (`core.draws.CONTROLS`), grafted on the same examples: each
    is one draw by `seed`, and is in `logits` under its name.
    """
    chosen, encoded = request.region(region), request.examples(split, sample)
    grafts = {state: chosen for state in states if state == "grafted"}
    grafts |= {name: control_of(chosen, name, request.pair.table.offsets, seed) for name in controls}
    logits = {state: predict(request.pair, encoded, state, chosen) for state in states if state != "grafted"}
    logits |= zip(grafts, predict_grafts(request.pair, encoded, list(grafts.values())), strict=True)
    logits = {name: logits[name] for name in (*states, *controls)}
    return {
        "example_ids": encoded.ids,
        "labels": encoded.labels,
        "label_names": list(request.task.labels),
        "size": chosen.size,
        "d": chosen.d,
        "share": chosen.share,
        "logits": logits,
    }


def region_part(
    request: PairRequest,
    grouping: str,
    layer: int | None,
    kind: str,
    head: int | None = None,
    split: str = "test",
    sample: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Answer:
    """Return class scores of the grafts that measure one part of the run's region (`core.region_parts.grafts_of`).

    `logits` float32 [condition, n, label] in the order of `conditions` and their `draws`.
    """
    pair, region, place = request.pair, request.region(None), (layer, kind, head)
    part = next(one for one in parts_of(region, pair.table, grouping) if one.place == place)
    encoded = request.examples(split, sample)
    grafts = list(grafts_of(region, pair.table, part, draws, seed))
    logits: dict[tuple[str, int], np.ndarray] = {}
    for condition, around in ((ALONE, None), (WITHOUT, region)):
        own = {(c, draw): Region.from_flat(e, pair.table.shapes) for c, draw, e in grafts if c == condition}
        logits |= zip(own, predict_grafts(pair, encoded, list(own.values()), around), strict=True)
    conditions = [(condition, draw) for condition, draw, _ in grafts]
    return {
        "example_ids": encoded.ids,
        "labels": encoded.labels,
        "size": part.size,
        "conditions": [condition for condition, _ in conditions],
        "draws": [draw for _, draw in conditions],
        "logits": np.stack([logits[condition] for condition in conditions]),
    }


def wise(
    request: PairRequest,
    path: str,
    alpha: float,
    region: Expression | None = None,
    split: str = "test",
    sample: int | None = None,
    task: str | None = None,
    mapping: LabelMap | None = None,
) -> Answer:
    """Class scores at one point between two models: path wise-ft or wise-graft, alpha 0 (base), 1 (end) or beyond.

    With `task`, the scores are on that other task's test examples (see `transfer`). `metrics` and `bins` have the
    columns of the stored grid for a point: value, low and high by name, and count, correct and mean confidence by bin.
    """
    chosen = request.region(region)
    encoded = request.examples(split, sample) if task is None else _other(request, task, mapping, sample)[1]
    objective = request.pair.objective(encoded)
    with on_path(request.pair, path, float(alpha), chosen):
        logits = objective.logits()
    others = [] if task is None else [registry.task(task, "task")]
    stamps = [str(task_stamp(one)) for one in (request.task, *others)]
    key = ("finetuned", request.spec.json_text(), task, str(mapping), split, sample, *stamps)
    end = np.asarray(request.loaded.remember(key, lambda: predict(request.pair, encoded, "finetuned")))
    rows = metric_rows([({}, logits)], encoded.labels, _scoring(request), end)
    return {
        "example_ids": encoded.ids,
        "labels": encoded.labels,
        "label_names": list(request.task.labels),
        "size": chosen.size,
        "logits": logits,
        "metrics": {row.pop("metric"): row for row in rows},
        "bins": {name: column.to_numpy() for name, column in bin_rows([({}, logits)], encoded.labels).items()},
    }


def wise_grid(
    request: PairRequest,
    region: Expression | None = None,
    sample: int | None = None,
    task: str | None = None,
    mapping: LabelMap | None = None,
) -> Answer:
    """Both paths for one region on the test examples, in a run's format: `rows` and `bins` as columns by name."""
    chosen, name = request.region(region), request.task.name
    if task is None:
        encoded = request.examples("test", sample)
    else:
        other, encoded = _other(request, task, mapping, sample)
        name = other.task.name
    grid, bins = wise_tables(request.pair, {name: encoded}, {chosen.size: chosen}, _scoring(request))
    return {"dataset": name, "n": len(encoded), "rows": _columns(grid), "bins": _columns(bins)}


def _columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the columns as lists, None for a missing value."""
    return {str(k): v for k, v in frame.astype(object).where(frame.notna(), None).to_dict("list").items()}


def _scoring(request: PairRequest) -> TaskNote:
    """Return the metric and labels by which the pair's predictions are scored."""
    task = request.task
    return TaskNote(name=task.name, labels=task.labels, metric=task.metric, positive=task.f1_class)


def transfer(
    request: PairRequest,
    task: str,
    region: Expression | None = None,
    sample: int | None = None,
    mapping: LabelMap | None = None,
    states: Sequence[str] = STATES,
) -> Answer:
    """Return class scores on another task's test examples, in that task's own words (paper, Fig. 7).

    `logits` by state, in the order of the pair's own labels. `mapping` takes a label of the other task to one of the
    pair's, or to None: its examples are left out; without it the names must agree. Examples whose text is among the
    source's training examples are `dropped`. `note` is the entry for run.json (runs.record.TransferNote), with the
    scores of these states.
    """
    other, encoded = _other(request, task, mapping, sample)
    chosen = _region(request, region, states)
    logits = {state: predict(request.pair, encoded, state, chosen) for state in states}
    temperature = request.run.record.temperature if request.run and "finetuned" in logits else None
    note = other.note(
        request.pair.readout_name, encoded, split_scores(logits, encoded.labels, _scoring(request), temperature)
    )
    return {
        "task": other.task.name,
        "label_names": list(request.task.labels),
        "mapping": dict(other.mapping),
        "rows": other.rows,
        "dropped": other.dropped,
        "unmapped": other.unmapped,
        "notes": list(note.notes),
        "example_ids": encoded.ids,
        "labels": encoded.labels,
        "logits": logits,
        "note": note.model_dump(mode="json"),
    }


def _other(request: PairRequest, task: str, mapping: LabelMap | None, sample: int | None) -> tuple[Other, Encoded]:
    """Return the other task's examples for the pair, cached for the next request, and as token ids.

    Raises BadData if they are no longer the examples that the run scored, so both can be shown as one.
    """
    target, readout, loaded = registry.task(task, "task"), request.pair.readout_name, request.loaded
    files, is_here = str((task_stamp(request.task), task_stamp(target))), has_data(request.task)
    which = (files, str(sorted(mapping.items(), key=str)) if mapping else "")

    def read() -> Other:
        training = loaded.remember(("training", files), lambda: training_texts(request.task)) if is_here else None
        return other_examples(request.task, target, readout, training, mapping, named=task)

    other = loaded.remember(("other", *which), read)
    for note in request.run.record.transfers if request.run else ():
        same = (note.name, dict(note.mapping)) == (other.task.name, dict(other.mapping))
        if request.run and same and note.fingerprint and note.fingerprint != other.fingerprint:
            raise BadData(
                f"the test examples of '{other.task.name}' are not those that run {request.run.id} was scored on; its "
                "data files, or the training data of the run's task, have changed."
            )
    seed = request.spec.data_seed
    if sample is None:
        frame = sampled(other.frame, request.spec.max_test, seed)
    else:
        frame = other.frame.iloc[stratified(other.frame["label"], sample, seed)].reset_index(drop=True)
    key = ("encoded", *which, request.spec.json_text(), sample)
    return other, loaded.remember(key, lambda: request.pair.encode(other.task, frame))


def union(request: PairRequest, region: Expression, among: Sequence[str] = (), sample: int | None = None) -> Answer:
    """Return the task's scores at the base, the region's graft and the fine-tuned model, with the relative gain.

    `region` is an expression such as {"union": [{"run": ...}, ...]}. `among` are the tasks on which the fine-tuned
    model was trained: test examples that are in another one's training data are left out (`left_out`). `scores` is by
    state: value, low, high of the task's metric; `gain` the same for Eq. 5, None if fine-tuning gains nothing.
    """
    chosen, encoded = request.region(region), request.examples("test", sample)
    trained_on = _trained_on(request, among)
    rows = np.array([row for row, name in enumerate(encoded.ids) if name not in trained_on], dtype=np.int64)
    if not len(rows):
        raise BadInput(f"every test example of '{request.task.name}' is also in another task's training data.")
    rest, note = encoded.take(rows), _scoring(request)
    logits = {state: predict(request.pair, rest, state, chosen) for state in SHOWN}
    states = {
        state: metric_interval(z.astype(np.float64), rest.labels, note.metric, positive=positive(note))
        for state, z in logits.items()
    }
    ends = TaskScores(note, rest.labels, logits["pretrained"], logits["finetuned"])
    gain = mean_relative_gain(ends, [logits["grafted"]])
    return {
        "task": request.task.name, "metric": note.metric, "size": chosen.size, "share": chosen.share, "n": len(rows),
        "left_out": len(encoded.ids) - len(rows),
        "scores": {state: _with_ends(one) for state, one in states.items()},
        "gain": _with_ends(gain) if np.isfinite(gain.value) else None,
    }  # fmt: skip


def _with_ends(interval: Interval) -> dict[str, float]:
    return {"value": interval.value, "low": interval.low, "high": interval.high}


def _trained_on(request: PairRequest, among: Sequence[str]) -> frozenset[str]:
    """Return the ids of the task's test examples that are in the training data of one of the other tasks."""
    if not among:
        return frozenset()
    tasks = {task.name: task for task in (registry.task(name, "task") for name in among)}
    tasks[request.task.name] = request.task
    key = ("unseen", *(str(task_stamp(tasks[name])) for name in sorted(tasks)))
    return request.loaded.remember(key, lambda: unseen(list(tasks.values())))[request.task.name].leaked


def encoded_texts(request: PairRequest) -> Answer:
    """Return the changes of the task's texts by encoding, `notes` by split, and the notes on the `pair`.

    The tokenizers are loaded, but the pair's weights are not read.
    """
    session = Session()
    notes = {split: list(texts.notes) for split, texts in session.texts(request.spec).items()}
    return {"notes": notes, "pair": list(session.rehearsed(request.spec)[0].notes)}


OPERATIONS: dict[str, Callable[..., Answer]] = {
    "encoded_texts": encoded_texts,
    "open": open_pair,
    "graft_file": graft_file,
    "score_text": score_text,
    "attribute": attribute,
    "wise": wise,
    "wise_grid": wise_grid,
    "evaluate_region": evaluate_region,
    "region_part": region_part,
    "transfer": transfer,
    "union": union,
}
"""Each takes the request's pair, then the request's arguments."""

"""Make a complete stored run from seeded numbers, for tests of code that reads runs; no model is involved.

Its numbers are invented and only shaped like real ones: never show or ship them.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.composition import composition
from skillviz.core.encoded import NO_OPTION
from skillviz.core.generation import LABELS, generated_scores
from skillviz.core.parameters import ParameterTable, graftable
from skillviz.core.region import Region
from skillviz.core.size import parse_size
from skillviz.runs.held_out import fitted
from skillviz.runs.metrics import complement_row, curve_rows, graft_row, split_scores
from skillviz.runs.points import bin_rows, metric_rows
from skillviz.runs.record import Architecture, Check, ModelNote, TaskNote, TransferNote
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.runs.tables import score_columns
from skillviz.tasks.task import CLASSIFICATION, GENERATION

SMALL: dict[str, Any] = {
    "n": {"validation": 4, "test": 6}, "layers": 1, "width": 4, "steps": 2, "sizes": ("5%", "20%"),
}  # fmt: skip
"""Arguments of the smallest run that has everything a page shows."""
# The strength of the label in a state's logits, its overconfidence, and its similarity to finetuned.
STATES = {
    "pretrained": (0.25, 0.6, 0.2),
    "finetuned": (1.2, 11.0, 1.0),
    "grafted": (1.15, 2.6, 0.85),
    "complement": (0.5, 1.2, 0.5),
}
Scored = tuple[dict[str, np.ndarray], np.ndarray]  # logits [n, label] by state, and labels [n]
SIZES = ("0.1%", "0.01%", "1%", "10%")


def fake_run(
    store: Store,
    *,
    localizer: str = "stagewise",
    seed: int = 0,
    sizes: Sequence[str] = SIZES,
    labels: Sequence[str] = ("negative", "positive"),
    n: Mapping[str, int] | None = None,
    layers: int = 6,
    width: int = 32,
    metric: str = "accuracy",
    steps: int = 50,
    batch_size: int | None = None,
    interpolation: bool = False,
    others: Sequence[str] = (),
    base: str = "demo/tiny-base",
    finetuned: str = "demo/tiny-sst2",
    task: str = "sst2",
    nested: bool = False,
    kind: str = CLASSIFICATION,
    complement: bool = False,
) -> Run:
    """Store a finished run: four states, a curve of every size, `layers` blocks of a BERT-like table.

    Runs of other seeds and localizers share examples, labels and the pretrained and finetuned logits. With `kind`
    choice, every second example has one option fewer than there are labels. With `kind` generation, texts are
    scored; with the metric perplexity, references only.
    """
    given = {
        "localizer": localizer,
        "sizes": tuple(sizes),
        "seed": seed,
        "others": tuple(others),
        "batch_size": batch_size,
    }
    spec = RunSpec(base=base, finetuned=finetuned, task=task, interpolation=interpolation, **given)
    made = _contents(
        spec.model_dump_json(), tuple(labels), tuple((n or {"validation": 200, "test": 400}).items()), layers, width,
        metric, steps, nested, kind, complement,
    )  # fmt: skip
    folder = store.create(spec, size=made.counts[0])
    folder.start()
    folder.write_region(made.region, {"localizer": localizer})
    folder.write_ranking(made.order, made.table.d)
    for name, frame in made.tables.items():
        folder.write_table(name, frame)
    return folder.finish(
        **_provenance(base, finetuned, made.table), size=made.counts[0], share=made.counts[0] / made.table.d,
        sizes=made.counts, seeds={"localizer": seed, "data": 0}, device="cpu",
        seconds={"load": 1.2, "search": 60.5 + seed, "evaluate": 4.0},
        checks=_checks(made.counts[0]),
        notes=("The classification head is the fine-tuned model's in every state.",),
        **made.told,
    )  # fmt: skip


@dataclass(frozen=True)
class _Contents:
    """The contents of a run, except the names and times of its folder."""

    table: ParameterTable
    counts: list[int]
    order: np.ndarray
    region: Region
    tables: dict[str, pd.DataFrame]
    told: dict[str, Any]


@functools.cache  # many tests use the same run, and its scores take longer than its files
def _contents(
    asked: str, labels: tuple[str, ...], n: tuple[tuple[str, int], ...], layers: int, width: int, metric: str,
    steps: int, nested: bool, kind: str, complement: bool,
) -> _Contents:  # fmt: skip
    """Return all numbers of the run whose spec is the JSON `asked`."""
    spec = RunSpec.model_validate_json(asked)
    seed, localizer = spec.seed, spec.localizer
    table = bert_table(layers, width)
    counts = [parse_size(s, table.d) for s in spec.sizes]
    note = _task(spec.task, labels, metric, dict(n), kind)
    order = np.random.default_rng(seed + 1).permutation(table.d)[: max(counts)]
    region = Region.from_flat(order[: counts[0]], table.shapes)
    data = {split: _logits(split, note, seed, localizer, 1.0) for split in note.counts if split != "train"}
    temperature = fitted(*data["validation"], note.has_classes).value
    elsewhere = {name: _elsewhere(number, note, seed, localizer) for number, name in enumerate(spec.others, start=1)}
    tables = {
        "predictions": pd.concat([_predictions(data, note), *_other_predictions(elsewhere, note)]),
        "curve": _curve(spec, counts, table.d, note),
        "history": _history(localizer, counts[:1] if nested else counts, steps, seed),
        "layers": _layers(region, table, seed),
    }
    if complement:
        tables["complement"] = _curve(spec, counts, table.d, note, complement_row)
    if spec.interpolation:
        grid, bins = _interpolation({note.name: data["test"], **elsewhere}, sorted(counts[:5]), counts[0], note)
        tables |= {"interpolation": grid, "interpolation_bins": bins}
    told = {
        "task": note, "temperature": temperature, "readout": "head" if note.has_classes else "causal",
        "metrics": {split: split_scores(z, y, note, temperature) for split, (z, y) in data.items()},
        "transfers": tuple(_transfer(name, *found, note, temperature) for name, found in elsewhere.items()),
    }  # fmt: skip
    return _Contents(table, counts, order, region, tables, told)


def bert_table(layers: int = 6, width: int = 32) -> ParameterTable:
    """Return the graftable parameters of a BERT-like model with four heads."""
    shapes: dict[str, tuple[int, ...]] = {}
    square, wide = (width, width), (4 * width, width)
    modules = {
        "attention.self.query": square,
        "attention.self.key": square,
        "attention.self.value": square,
        "attention.output.dense": square,
        "attention.output.LayerNorm": (width,),
        "intermediate.dense": wide,
        "output.dense": wide[::-1],
        "output.LayerNorm": (width,),
    }
    for layer in range(layers):
        for module, shape in modules.items():
            shapes[f"bert.encoder.layer.{layer}.{module}.weight"] = shape
            shapes[f"bert.encoder.layer.{layer}.{module}.bias"] = shape[:1]
    return graftable("bert", shapes, {"num_attention_heads": 4})


def _provenance(base: str, finetuned: str, table: ParameterTable) -> dict[str, Any]:
    return {
        "base": ModelNote(source=base, model_type="bert", dtype="float32", fingerprint="a" * 64),
        "finetuned": ModelNote(source=finetuned, model_type="bert", dtype="float32", fingerprint="b" * 64),
        "architecture": Architecture(model_type="bert", known=True, d=table.d, layers=table.layers, heads=table.heads),
        "versions": {"skillviz": "0.1.0", "torch": "2.0.0"},
        "commit": "0" * 40,
    }


def _task(name: str, labels: Sequence[str], metric: str, n: dict[str, int], kind: str) -> TaskNote:
    if kind == GENERATION:
        return TaskNote(
            name=name, kind=kind, labels=LABELS, metric="exact_match" if metric == "accuracy" else metric,
            fingerprint="c" * 64, counts={"train": 640, **n},
        )  # fmt: skip
    if kind != CLASSIFICATION:
        return TaskNote(
            name=name, kind=kind, labels=tuple(labels), fingerprint="c" * 64, counts={"train": 640, **n},
            chance=dict.fromkeys(("train", *n), (1 / len(labels) + 1 / (len(labels) - 1)) / 2),
        )  # fmt: skip
    majority = {split: float(_share(_labels(split, len(labels), k))) for split, k in n.items()}
    return TaskNote(
        name=name, labels=tuple(labels), metric=metric, positive=1 if metric == "f1" else None,
        fingerprint="c" * 64, counts={"train": 640, **n}, majority={"train": 0.5, **majority},
    )  # fmt: skip


def _labels(split: str, classes: int, n: int) -> np.ndarray:
    return np.random.default_rng([len(split), classes]).integers(0, classes, n)


def _share(labels: np.ndarray) -> float:
    return np.bincount(labels).max() / len(labels)


def _logits(
    split: str, note: TaskNote, seed: int, localizer: str, strength: float
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the logits of each state [n, label] and the labels [n]; base and fine-tuned ignore seed and localizer."""
    if note.has_reference:
        return _texts(split, note, seed, localizer, strength)
    n, classes = note.counts[split], len(note.labels)
    y = _labels(split, classes if note.has_classes else classes - 1, n)
    shared = np.random.default_rng([7, len(split)]).normal(size=(n, classes))
    found = {}
    for number, (state, (signal, sure, common)) in enumerate(STATES.items()):
        own_seed = [number, len(split)] if number < 2 else [number, len(split), seed, *localizer.encode()]
        own = np.random.default_rng(own_seed).normal(size=(n, classes))
        signal = signal * strength if state == "grafted" else signal
        noise = common * shared + np.sqrt(1 - common**2) * own
        found[state] = (sure * (signal * np.eye(classes)[y] + 0.6 * noise)).astype(np.float32)
        if not note.has_classes:
            found[state][::2, -1] = NO_OPTION
    return found, y


def _texts(split: str, note: TaskNote, seed: int, localizer: str, strength: float) -> Scored:
    """Return scores of generated texts: a stronger state is right more often, and its references are more likely."""
    found, y = _logits(split, note.model_copy(update={"kind": CLASSIFICATION}), seed, localizer, strength)
    scored: dict[str, np.ndarray] = {}
    for state, z in found.items():
        margin = z[np.arange(len(y)), y] - z[np.arange(len(y)), 1 - y]
        if not note.generates:  # no overconfidence here: the perplexity alone would show it
            margin = 2 * margin / STATES[state][1]
        length = 2 + np.arange(len(y)) % 3
        texts = [f"text {i}" if one > 0 else "another text" for i, one in enumerate(margin)]
        written = (margin > 0, texts) if note.generates else (None, ())
        scored[state] = generated_scores(written[0], -length * np.log1p(np.exp(-margin)), length, written[1])
    return scored, np.ones(len(y), dtype=np.int64)


def _predictions(data: Mapping[str, tuple[dict[str, np.ndarray], np.ndarray]], note: TaskNote) -> pd.DataFrame:
    frames = []
    for split, (logits, y) in data.items():
        for state, values in logits.items():
            frame = pd.DataFrame(score_columns(values, note.labels))
            ids = [f"{split}-{i}" for i in range(len(y))]
            frames.append(frame.assign(example_id=ids, dataset=note.name, split=split, state=state, label=y))
    return pd.concat(frames)


def _curve(
    spec: RunSpec, counts: Sequence[int], d: int, note: TaskNote, row: Callable[..., Any] = graft_row
) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for size in counts:
        strength = float(np.clip(1 + 0.12 * np.log10(size / counts[0]), 0.3, 1.25))
        for split in ("validation", "test"):
            logits, y = _logits(split, note, spec.seed, spec.localizer, strength)
            common = {"localizer": spec.localizer, "seed": spec.seed, "size": size, "share": size / d, "gain": 1.0}
            rows += curve_rows(row(logits, y, note), **common, dataset=note.name, split=split)
    return pd.DataFrame(rows)


def _history(localizer: str, targets: Sequence[int], steps: int, seed: int) -> pd.DataFrame:
    rng, frames = np.random.default_rng(seed), []
    for target in targets:
        step = np.arange(1, steps + 1)
        removed = rng.integers(0, max(2, target // 200), steps)
        size = np.minimum(target, target // 10 + step * max(1, target // 25))
        added = np.diff(size, prepend=target // 10) + removed
        loss = 0.35 + 0.35 * np.exp(-step / 12) + 0.02 * rng.normal(size=steps)
        frames.append(
            pd.DataFrame(
                {
                    "localizer": localizer, "target": target, "step": step, "loss": loss, "size": size,
                    "added": added, "removed": removed, "seconds": 0.8 * step,
                }
            )
        )  # fmt: skip
    return pd.concat(frames)


def _layers(region: Region, table: ParameterTable, seed: int) -> pd.DataFrame:
    frame, rng = composition(region, table), np.random.default_rng(seed)
    mean = 1e-4 * (1 + rng.random(len(frame)))
    total = frame["total"].to_numpy()
    whole = mean * 1.3 * np.sqrt(total)
    held = whole * np.sqrt(frame["selected"].to_numpy() / total)
    return frame.assign(movement_mean=mean, movement_max=12 * mean, movement_l2=whole, movement_l2_selected=held)


def _elsewhere(number: int, note: TaskNote, seed: int, localizer: str) -> Scored:
    """Return logits and labels on another data set: noisier, most of all for the fine-tuned model."""
    logits, y = _logits("test", note, seed, localizer, 1.0)
    noise = np.random.default_rng(90 + number).normal(size=(len(y), len(note.labels)))
    worse = {"finetuned": 9.0 * number, "grafted": 1.5 * number}
    return {s: (z + worse.get(s, 0.5) * noise).astype(np.float32) for s, z in logits.items()}, y


def _transfer(name: str, logits: dict[str, np.ndarray], y: np.ndarray, note: TaskNote, temperature: Any) -> Any:
    return TransferNote(
        name=name, named=name, mapping={label: label for label in note.labels}, rows=len(y) + 12, dropped=12,
        fingerprint="d" * 64, majority=float(_share(y)), scores=split_scores(logits, y, note, temperature),
    )  # fmt: skip


def _other_predictions(elsewhere: Mapping[str, Scored], note: TaskNote) -> list[pd.DataFrame]:
    return [_predictions({"test": data}, note).assign(dataset=name) for name, data in elsewhere.items()]


def _interpolation(
    data: Mapping[str, Scored], sizes: Sequence[int], main: int, note: TaskNote
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the grid on straight lines between the logits; a larger region is slightly closer to fine-tuned."""
    rows: list[dict[str, Any]] = []
    bins = []
    for name, (logits, y) in data.items():
        ends = {("wise-ft", None): logits["finetuned"]}
        for size in sizes:
            share = float(np.clip(0.15 * np.log10(size / main), -0.5, 0.5))
            rival = logits["finetuned"] if share > 0 else logits["pretrained"]
            ends["wise-graft", size] = logits["grafted"] + abs(share) * (rival - logits["grafted"])
        points = [
            ({"path": path, "size": size, "alpha": a / 10, "dataset": name}, _mixed(logits["pretrained"], end, a / 10))
            for (path, size), end in ends.items()
            for a in range(11)
        ]
        rows += metric_rows(points, y, note, logits["finetuned"])
        bins.append(bin_rows(points, y))
    return tuple(frame.astype({"size": "Int64"}) for frame in (pd.DataFrame(rows), pd.concat(bins)))


def _mixed(start: np.ndarray, end: np.ndarray, alpha: float) -> np.ndarray:
    return ((1 - alpha) * start + alpha * end).astype(np.float32)


def _checks(size: int) -> tuple[Check, ...]:
    return (
        Check(name="size", passed=True, detail=f"{size:,} entries asked for and found"),
        Check(name="ends", passed=True, detail="the empty region gives the base, the full one the fine-tuned"),
        Check(name="restored", passed=True, detail="all weights as before, bit for bit"),
        Check(name="ranking", passed=True, detail="its first entries are the region"),
    )

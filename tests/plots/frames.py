"""Invented frames with the columns, sizes and ties of real runs, examples and tasks; seeded, never read from a file.

Examples have long names and markup; of four tasks, two are related."""

from itertools import product

import numpy as np
import pandas as pd

from skillviz.analysis.tables import check
from skillviz.plots.tasks import PURIFIED, SINGLE, UNION_OF
from tests.studies import fake_tables
from tests.studies.fake_tables import FAKE_TABLES, with_ends

D = 10_646_784
SIZES = (1_064, 10_646, 106_467)
LEVELS = {
    "stagewise": (0.761, 0.801, 0.832),
    "frank-wolfe": (0.762, 0.797, 0.834),
    "linearized": (0.745, 0.798, 0.799),
    "learned-ranked": (0.74, 0.79, 0.81),
    "first-order": (0.609, 0.621, 0.728),
    "movement": (0.678, 0.738, 0.796),
    "random": (0.632, 0.634, 0.638),
}
REFERENCES = {"finetuned": 0.864, "pretrained": 0.632, "chance": 0.5, "majority": 0.501}


def curve(seeds: int = 3) -> pd.DataFrame:
    """Return curve.parquet of a study: all localizers, three sizes; learned has its own sizes; accuracy and nll."""
    rng = np.random.default_rng(0)
    rows = [
        (name, seed, size, value + rng.normal(0, 0.004))
        for name, values in LEVELS.items()
        for seed in range(1 if name == "movement" else seeds)
        for size, value in zip(SIZES, values, strict=True)
    ]
    rows += [("learned", seed, size, 0.778 + 0.009 * seed) for seed, size in enumerate((2_907, 3_666, 5_241)[:seeds])]
    table = pd.DataFrame(rows, columns=["localizer", "seed", "size", "value"])
    value, told = table["value"], {"share": table["size"] / D, "dataset": "sst2", "split": "test"}
    accuracy = table.assign(**told, metric="accuracy", low=value - 0.019, high=value + 0.018)
    nll = accuracy.assign(metric="nll", value=1.2 - value, low=1.17 - value, high=1.23 - value)
    return pd.concat([accuracy, nll], ignore_index=True)


def _state_bins(state: str, sharpness: float, n: int, bins: int, rng: np.random.Generator) -> pd.DataFrame:
    confidence = 0.5 + 0.5 * rng.beta(sharpness, 1.2, n)
    right = rng.random(n) < 0.5 + 0.75 * (confidence - 0.5)
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(divide="ignore", invalid="ignore"):
        accuracy = np.bincount(place, right, bins) / count
        mean = np.bincount(place, confidence, bins) / count
        centre, half = (accuracy + 1.92 / count), 1.96 * np.sqrt(accuracy * (1 - accuracy) / count + 0.96 / count**2)
        low, high = (centre - half) / (1 + 3.84 / count), (centre + half) / (1 + 3.84 / count)
    edges = np.arange(bins + 1) / bins
    return pd.DataFrame(
        {"state": state, "bin": np.arange(bins), "lower": edges[:-1], "upper": edges[1:], "count": count}
        | {"confidence": mean, "accuracy": accuracy, "low": low, "high": high}
    )


def reliability(states: tuple[str, ...] = ("finetuned", "grafted", "temperature"), n: int = 1821) -> pd.DataFrame:
    """Return reliability bins of two classes: fine-tuned is confident, the graft less so; low bins are empty."""
    rng = np.random.default_rng(1)
    sharpness = {"finetuned": 5.0, "grafted": 1.2, "temperature": 2.0, "pretrained": 0.5, "complement": 0.8}
    return pd.concat([_state_bins(s, sharpness[s], n, 15, rng) for s in states], ignore_index=True)


def scopes() -> pd.DataFrame:
    """Return counts by confidence of test examples, and of texts that fit no class, with lower confidence."""
    rng, edges = np.random.default_rng(3), np.linspace(0, 1, 21)
    return pd.concat([
        pd.DataFrame({
            "state": state, "scope": scope, "lower": edges[:-1], "upper": edges[1:],
            "count": np.histogram(rng.beta(sharp, 1.2, 900), edges)[0],
        })
        for state, sharpness in (("pretrained", (2, 1.8)), ("grafted", (6, 2)), ("finetuned", (9, 4)))
        for scope, sharp in zip(("test", "out_of_scope"), sharpness, strict=True)
    ], ignore_index=True)  # fmt: skip


KINDS = ("query", "key", "value", "attention output", "MLP in", "MLP out", "LayerNorm")
SHAPES = {"MLP in": (1536, 384), "MLP out": (384, 1536), "LayerNorm": (1, 384)}


def layers(count: int = 6, empty: bool = False) -> pd.DataFrame:
    """Return layers.parquet of a MiniLM-like encoder; LayerNorm and values are dense, some cells are empty."""
    rng, rows = np.random.default_rng(2), []
    weight = {"value": 3.0, "MLP in": 1.2, "LayerNorm": 60.0, "key": 0.3}
    for layer, kind, bias in product(range(count), KINDS, (False, True)):
        shape = SHAPES.get(kind, (384, 384))
        cells = shape[0] * shape[1] if not bias else max(shape[0], 384 if kind == "LayerNorm" else 1)
        expected = 0 if empty or (layer + len(kind)) % 7 == 0 else 1e-3 * cells * weight.get(kind, 0.8)
        chosen = min(cells, int(rng.poisson(expected * (0.3 if layer < 2 else 1.3))))
        rows.append((f"l.{layer}.{kind}.{'bias' if bias else 'weight'}", layer, kind, bias, *shape, chosen, cells))
    table = pd.DataFrame(
        rows, columns=["parameter", "layer", "kind", "is_bias", "rows", "cols", "selected", "total"]
    ).astype({"layer": "Int64"})
    movement = np.sqrt(table["total"]) * 1e-3 * rng.uniform(0.5, 2, len(table))
    held = np.sqrt(table["selected"] / table["total"]) * movement * 2
    return table.assign(movement_l2=movement, movement_l2_selected=np.minimum(held, movement))


def heads(layers: int = 6, count: int = 12) -> pd.DataFrame:
    """Return selected entries by layer and attention head."""
    index = pd.MultiIndex.from_product([range(layers), range(count)], names=["layer", "head"])
    return index.to_frame(index=False).assign(selected=np.random.default_rng(4).integers(0, 250, layers * count))


def shared_layers() -> pd.DataFrame:
    """Return `layers` with the overlap with another region of the same size."""
    return layers().assign(
        both=lambda table: np.floor(0.3 * table["selected"]).astype(float),
        only_a=lambda table: table["selected"] - table["both"],
        only_b=lambda table: table["only_a"],
        expected=lambda table: table["selected"] ** 2 / table["total"],
    )


def minimal_layers() -> pd.DataFrame:
    """Return `layers` with the overlap with a sufficient part of the region."""
    return shared_layers().assign(only_b=0.0)


def roles() -> pd.DataFrame:
    """Return one row for each cell, with the share of regions that are denser there than on average."""
    table = layers().query("not is_bias").drop_duplicates(["layer", "kind"])
    return table.assign(dense=np.arange(len(table)) % 4 / 3)


def entries(count: int, rows: int = 384, cols: int = 384) -> pd.DataFrame:
    """Return selected entries of one tensor, denser in a few rows, without duplicates."""
    rng = np.random.default_rng(3)
    flat: np.ndarray = np.empty(0, dtype=np.int64)
    while len(flat) < count:
        row, col = (rows * rng.beta(0.5, 1.5, count)).astype(np.int64), rng.integers(0, cols, count)
        flat = np.unique(np.concatenate([flat, row * cols + col]))
    flat = np.sort(rng.permutation(flat)[:count])
    return pd.DataFrame({"row": flat // cols, "col": flat % cols})


def history(steps: int = 50, localizer: str = "stagewise") -> pd.DataFrame:
    """Return history.parquet of one search of 10,646 entries."""
    rng, step = np.random.default_rng(4), np.arange(1, steps + 1)
    added = np.full(steps, 213)
    removed = np.where(step > 45, 213, rng.integers(0, 40, steps))
    return pd.DataFrame({
        "localizer": localizer, "target": 10_646, "step": step, "added": added, "removed": removed,
        "loss": 0.37 + 0.3 * np.exp(-step / 12) + rng.normal(0, 0.02, steps),
        "size": 1_064 + np.cumsum(added - removed), "seconds": step * 2.7,
    })  # fmt: skip


def scores(states: tuple[str, ...] = ("pretrained", "grafted", "finetuned", "complement")) -> pd.DataFrame:
    """Return accuracy, ECE and NLL of the states with intervals."""
    values = {
        "accuracy": (0.632, 0.801, 0.864, 0.713, 0.864),
        "ece": (0.073, 0.054, 0.083, 0.062, 0.031),
        "nll": (0.66, 0.43, 0.47, 0.58, 0.36),
    }
    order = ("pretrained", "grafted", "finetuned", "complement", "temperature")
    told = [(state, metric, v) for metric, of in values.items() for state, v in zip(order, of, strict=True)]
    frame = pd.DataFrame(told, columns=["state", "metric", "value"])
    return with_ends(frame[frame["state"].isin(states)].reset_index(drop=True), 0.016)


def rows(values: list[float], name: str = "stagewise", seeds: list[int] | None = None, size: int = 100) -> pd.DataFrame:
    """Return a curve of one size: one row for each value, with an interval of ±0.1."""
    told = {"localizer": name, "size": size, "share": size / 1e5, "dataset": "sst2", "split": "test"}
    return with_ends({"value": values, "seed": seeds or range(len(values)), **told, "metric": "accuracy"}, 0.1)


def effects(layers: int = 4, heads: int = 0) -> pd.DataFrame:
    """Return the effect of each cell of a small map, or of each of `heads` heads per layer; one cell is missing."""
    places = [(n, "", h) for n in range(layers) for h in range(heads)] or [
        (n, k, None) for n in range(layers) for k in ("query", "value", "MLP in", "bias")
    ]
    frame = pd.DataFrame(places[1:], columns=["layer", "kind", "head"]).astype({"layer": "Int64", "head": "Int64"})
    value = np.random.default_rng(7).normal(0, 0.05, len(frame))
    return with_ends(frame.assign(size=100, value=value), 0.05).assign(holds=np.abs(value) > 0.06)


def subskill_stability() -> pd.DataFrame:
    """Return the stability of 2 to 4 sub-skills, of a region (draw 0) and of two control draws."""
    places = pd.DataFrame({"draw": np.repeat([0, 1, 2], 3), "count": np.tile([2, 3, 4], 3)})
    value = np.random.default_rng(6).uniform(0.5, 0.9, 9)
    return places.assign(value=value, low=value - 0.05, high=value + 0.04)


def subskill_loadings() -> pd.DataFrame:
    """Return the loadings of two sub-skills on four parts; the last part has none."""
    return pd.DataFrame({
        "subskill": np.repeat([1, 2], 4), "name": [f"layer {n}, value" for n in range(4)] * 2,
        "value": [0.6, 0.4, 0.0, 0.0, 0.004, 0.1, 0.896, 0.0],
    })  # fmt: skip


def comparisons(rows: int) -> pd.DataFrame:
    """Return differences of slices or parts, with a control."""
    value = np.sort(np.random.default_rng(8).normal(0, 0.05, rows))
    return pd.DataFrame({
        "name": [f"layer {n}, value" for n in range(rows)], "value": value, "low": value - 0.04, "high": value + 0.05,
        "control": value / 3, "n": 40, "order": range(rows),
    })  # fmt: skip


def checkpoints() -> pd.DataFrame:
    """Return the table `checkpoints` of one fine-tuning; some rows have no interval."""
    return check(FAKE_TABLES["checkpoints"](["sst2_sentences"], np.random.default_rng(0)), "checkpoints")


def risks() -> pd.DataFrame:
    """Return risk by coverage of three states: the band of the first examples reaches far up."""
    at, most = np.arange(1, 101) / 100, {"pretrained": 0.35, "grafted": 0.15, "finetuned": 0.11}
    rows = [(s, c, end * c**1.5, 0.0, end * c**1.5 + 0.02 / c**0.7) for s, end in most.items() for c in at]
    return pd.DataFrame(rows, columns=["state", "coverage", "risk", "low", "high"])


TWO = ("negative", "positive")
FOURTEEN = (
    "Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder", "MeanOfTransportation", "Building",
    "NaturalPlace", "Village", "Animal", "Plant", "Album", "Film", "WrittenWork",
)  # fmt: skip
STATES = ("pretrained", "grafted", "finetuned")
SENTENCE = "<s> the un believable plot is n't good but the actors & <unk> make it worth the ticket It was <mask> . </s>"


def examples(n: int = 400) -> pd.DataFrame:
    """Return the scatter's frame: a confident fine-tuned model, a less confident graft, and a third filtered out."""
    rng = np.random.default_rng(5)
    tuned, graft = rng.beta(3, 0.5, n), rng.beta(2, 0.8, n)
    case = np.where(
        tuned > 0.5, np.where(graft > 0.5, "both", "finetuned"), np.where(graft > 0.5, "grafted", "neither")
    )
    ids = [f"test-{i}" for i in range(n)]
    return pd.DataFrame({
        "example_id": ids, "case": case, "finetuned": tuned, "grafted": graft, "shown": np.arange(n) % 3 > 0,
        "words": [f"<b>{i}</b><br>film" for i in ids],
    })  # fmt: skip


def confusions(classes: int = 2, n: int = 1821) -> pd.DataFrame:
    """Return the counts of a mostly right model; with many classes, the last one has no examples."""
    rng = np.random.default_rng(6)
    chance = np.full((classes, classes), 0.3 / classes) + 0.7 * np.eye(classes)
    seen = classes if classes < 5 else classes - 1
    counts = np.stack(
        [rng.multinomial(n // classes if i < seen else 0, chance[i] / chance[i].sum()) for i in range(classes)]
    )
    true, predicted = np.indices(counts.shape)
    return pd.DataFrame({"true": true.ravel(), "predicted": predicted.ravel(), "count": counts.ravel()})


def class_rows(classes: int = 2) -> pd.DataFrame:
    """Return precision, recall and F1 of every class and state; one precision is undefined."""
    rng, metrics = np.random.default_rng(7), ("precision", "recall", "f1")
    rows = [
        (state, c, metric, np.nan if (state, c, metric) == ("pretrained", 0, "precision") else rng.uniform(0.5, 0.97))
        for state, c, metric in product(STATES, range(classes), metrics)
    ]
    return pd.DataFrame(rows, columns=["state", "class", "metric", "value"]).assign(
        n=lambda f: 10 + 400 * f["class"],
        low=lambda f: f["value"] - 0.05,
        high=lambda f: (f["value"] + 0.05).clip(upper=1.0),
    )


def probabilities(classes: int = 2) -> pd.DataFrame:
    """Return one example's class probabilities in three states."""
    rng = np.random.default_rng(8)
    rows = [(s, c, p) for s in STATES for c, p in enumerate(rng.dirichlet(np.ones(classes)))]
    return pd.DataFrame(rows, columns=["state", "class", "probability"])


def edited() -> pd.DataFrame:
    """Return a class's probability in three states before and after an edit of the sentence."""
    return pd.DataFrame({"state": ["pretrained", "grafted", "finetuned"], "before": [0.52, 0.81, 0.99],
                         "after": [0.55, 0.34, 0.12]})  # fmt: skip


def tokens(repeats: int = 1) -> pd.DataFrame:
    """Return attributions of a sentence's tokens in three states; special tokens have none."""
    rng, words = np.random.default_rng(9), SENTENCE.split()
    words = [words[0], *words[1:-1] * repeats, words[-1]]
    special = [w in ("<s>", "</s>", "<mask>") for w in words]
    return pd.concat([
        pd.DataFrame({"position": range(len(words)), "token": words, "special": special})
        .assign(value=np.where(special, 0.0, rng.normal(0, 0.4, len(words))), state=state)
        for state in STATES
    ], ignore_index=True)  # fmt: skip


def flow(layers: int = 2) -> pd.DataFrame:
    """Return the conductance of the blocks by token in one state."""
    one = tokens().query("state == 'grafted'").drop(columns="state")
    return pd.concat(
        [one.assign(layer=i, value=one["value"] * (1 + 0.3 * i)) for i in range(layers)], ignore_index=True
    )


def parts(layers: int = 6) -> pd.DataFrame:
    """Return the effect of each layer's attention and MLP, in three states."""
    rng = np.random.default_rng(10)
    rows = [
        (state, part, layer, rng.normal(0.2, 0.5))
        for state in STATES
        for part in ("attention output", "MLP out")
        for layer in range(layers)
    ]
    return pd.DataFrame(rows, columns=["state", "part", "layer", "value"])


TASKS = fake_tables.TASKS
REAL = ("ag_news", "cr", "mnli", "mpqa", "mr", "mrpc", "qnli", "qqp", "rte", "snli", "sst2_sentences", "subj", "trec")
DEMO = (
    "film-sentiment", "film-subjectivity", "gadget-sentiment", "news-inference", "news-paraphrase", "news-topic",
    "question-paraphrase", "question-type", "scene-inference",
)  # fmt: skip


def overlap(tasks: tuple[str, ...] = TASKS) -> pd.DataFrame:
    return fake_tables.overlap(tasks, np.random.default_rng(0))


def harmful() -> pd.DataFrame:
    """Return gains, some of them below zero, and some above the multi-task model's."""
    frame = gain()
    for first, values in enumerate(((-0.127, -0.224, -0.103), (-0.05, -0.224, 0.123), (1.02, 0.97, 1.08))):
        frame.loc[frame.index[first::5], ["value", "low", "high"]] = values
    return frame


def gain() -> pd.DataFrame:
    return fake_tables.gain(TASKS, np.random.default_rng(1))


def stages() -> pd.DataFrame:
    return fake_tables.stages(TASKS, np.random.default_rng(2))


def federated() -> pd.DataFrame:
    return fake_tables.federated(TASKS, np.random.default_rng(2))


def stability() -> pd.DataFrame:
    """Return the stability at one size, from two sources."""
    return pd.DataFrame(
        {"task": task, "source": source, "iou": value, "low": value - 0.05, "high": value + 0.05}
        for task in TASKS
        for source, value in (("mask seeds", 0.4), ("bootstrap", 0.6))
    ).assign(chance=0.015, chance_low=0.01, chance_high=0.02)


def union() -> pd.DataFrame:
    """Return a union of the first two tasks, scored on every task; the last task's gain is undefined."""
    values = {UNION_OF: (0.8, 0.8, 0.2, np.nan), PURIFIED: (0.9, 0.9, 0.2, 0.2), SINGLE: (0.75,) * 4}
    rows = [{"task": t, "what": what, "value": of[n]} for n, t in enumerate(TASKS) for what, of in values.items()]
    return with_ends(rows, 0.1)


def variance() -> pd.DataFrame:
    """The variance term of a bound by size: two lines and two points."""
    sizes = {"learned": (1, 100, 10_000), "fixed": (1, 100, 10_000, 1_000_000), "run": (1_000,), "full": (1_000_000,)}
    table = [(name, size, size / 1_000_000, 0.1 * size**0.5) for name, of in sizes.items() for size in of]
    return pd.DataFrame(table, columns=["series", "size", "share", "value"])


def class_answers() -> pd.DataFrame:
    """Return the shares of a class of 23, with a long name and one answer that nobody gave."""
    rows = [("the fine-tuned model's", 14), ("no clear difference", 9), ("there is no gain to recover", 0)]
    return pd.DataFrame(
        [(name, count, count / 23, count == 9) for name, count in rows],
        columns=["answer", "count", "share", "is_right"],
    )

"""Invented frames of single examples, classes and attributions; seeded, with long names and markup."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

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
    frame = pd.DataFrame({"example_id": ids, "case": case, "finetuned": tuned, "grafted": graft})
    return frame.assign(shown=np.arange(n) % 3 > 0, words=[f"<b>{i}</b><br>film" for i in ids])


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
    frame = pd.DataFrame(rows, columns=["state", "class", "metric", "value"]).assign(n=lambda f: 10 + 400 * f["class"])
    return frame.assign(low=frame["value"] - 0.05, high=(frame["value"] + 0.05).clip(upper=1.0))


def probabilities(classes: int = 2) -> pd.DataFrame:
    """Return one example's class probabilities in three states."""
    rng = np.random.default_rng(8)
    rows = [(s, c, p) for s in STATES for c, p in enumerate(rng.dirichlet(np.ones(classes)))]
    return pd.DataFrame(rows, columns=["state", "class", "probability"])


def tokens(repeats: int = 1) -> pd.DataFrame:
    """Return attributions of a sentence's tokens in three states; special tokens have none."""
    rng, words = np.random.default_rng(9), SENTENCE.split()
    words = [words[0], *words[1:-1] * repeats, words[-1]]
    special = [w in ("<s>", "</s>", "<mask>") for w in words]
    frames = [
        pd.DataFrame({"position": range(len(words)), "token": words, "special": special})
        .assign(value=np.where(special, 0.0, rng.normal(0, 0.4, len(words))), state=state)
        for state in STATES
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)


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

"""The tables of an invented study: plausible numbers, every declared column."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.tables import TABLES

Make = Callable[[Sequence[str], np.random.Generator], pd.DataFrame]
CHANCE = {"chance": 0.01, "chance_low": 0.005, "chance_high": 0.02}
D = 2_379_200  # graftable entries of the invented model
SIZES = (0.001, 0.01, 0.1)
BASE = "examples/models/minilm-l6"
TASKS = ("sst2_sentences", "cr", "ag_news", "qnli")
OTHERS = {"sst2_sentences": ("cr", "yelp_reviews"), "qnli": ("mnli_01",)}
RECIPES = {
    "adamw": "adamw", "adamw_l1": "adamw-l1", "bitfit": "bitfit", "lora": "lora", "graft_retrain": "graft-retrain",
    "multi_task": "multi-task",
}  # fmt: skip
METRICS = ("accuracy", "ece", "nll")
OF_GRAFTS = ("recovered", "agreement")
# method: (accuracy, ECE, touched share of d; None means the region's own)
LEVELS: dict[str, tuple[float, float, float | None]] = {
    "pretrained": (0.52, 0.09, 0.0),
    "ft": (0.90, 0.08, 1.0),
    "ft_scaled": (0.90, 0.035, 1.0),
    "graft": (0.87, 0.03, None),
    "complement": (0.60, 0.20, None),
    "graft_movement": (0.80, 0.07, None),
    "graft_random": (0.55, 0.10, None),
    "graft_fish": (0.70, 0.09, None),
    "graft_biases": (0.56, 0.11, 0.004),
    "graft_lottery": (0.50, 0.30, None),
    "graft_retrain": (0.89, 0.035, None),
    "bitfit": (0.88, 0.075, 0.004),
    "lora": (0.89, 0.07, 0.006),
    "adamw": (0.91, 0.085, 1.0),
    "adamw_l1": (0.90, 0.08, 0.6),
    "multi_task": (0.89, 0.07, 1.0),
    "continual_naive": (0.75, 0.12, 1.0),
    "continual_graft": (0.85, 0.05, None),
    "independent": (0.90, 0.08, 1.0),
}
SIZED = ("graft", "complement", "graft_movement", "graft_random", "graft_fish", "graft_lottery", "graft_retrain")
LOCALIZERS = {"graft_movement": "movement", "graft_random": "random", "graft_fish": "fisher"}


def with_ends(rows: Any, half: Any = 0.02) -> pd.DataFrame:
    """Return a frame of these rows with an interval of `half` on either side of each value."""
    frame = pd.DataFrame(rows).drop(columns="half", errors="ignore")
    return frame.assign(low=frame["value"] - half, high=frame["value"] + half)


def _debiased(frame: pd.DataFrame, column: str = "value", name: str = "debiased") -> pd.DataFrame:
    """Return the frame with the debiased value of calibration errors; NaN for other metrics."""
    return frame.assign(**{name: (frame[column] - 0.001).where(frame["metric"] == "ece")})


def scores(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return every method on every task, and on tasks it was not trained on; grafts at every size."""
    rows = [
        _score(id_task, task, method, size, metric, random)
        for id_task in tasks
        for task, method in product((id_task, *OTHERS.get(id_task, ())), LEVELS)
        for size, metric in product(SIZES if method in SIZED else (np.nan,), METRICS + OF_GRAFTS * (method == "graft"))
    ]
    return _debiased(pd.DataFrame(rows), "mean").assign(base=BASE, setting="all", split="test", seeds=3, n=600)


def _score(
    id_task: str, task: str, method: str, share: float, metric: str, random: np.random.Generator
) -> dict[str, Any]:
    accuracy, ece, touched = LEVELS[method]
    grows = 0.02 * np.log10(share / 0.01) if method == "graft" else 0.0
    mean = {
        "accuracy": accuracy + grows, "ece": ece, "nll": 1.6 * (1 - accuracy) + ece, "recovered": 0.92 + 2 * grows,
        "agreement": 0.94 + grows,
    }[metric]  # fmt: skip
    mean += random.normal(0, 0.004) - (0.12 if task != id_task and metric == "accuracy" else 0.0)
    sd = 0.012 if metric != "nll" else 0.03
    return {
        "recipe": RECIPES.get(method, "sgd"), "id_task": id_task, "task": task, "method": method,
        "localizer": LOCALIZERS.get(method, "stagewise" if method in SIZED else ""), "size": share * D, "share": share,
        "touched": (share if touched is None else touched) * D, "metric": metric,
        "mean": mean, "sd": sd, "low": mean - 2 * sd, "high": mean + 2 * sd,
    }  # fmt: skip


def differences(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return paired differences between the graft, or its re-training, and their rivals, at every size."""
    others = ("graft_retrain", "bitfit", "lora")
    pairs = [("graft", m) for m in LEVELS if m not in ("graft", "complement", "pretrained", *others)]
    pairs += [(m, "graft") for m in others] + [("graft_retrain", m) for m in ("bitfit", "ft")]
    pairs += [("continual_naive", "independent"), ("continual_graft", "continual_naive")]
    rows = [
        (id_task, task, a, b, share * D, share, metric,
         LEVELS[a][metric != "accuracy"] - LEVELS[b][metric != "accuracy"] + random.normal(0, 0.004))  # type: ignore[operator]
        for id_task in tasks
        for task, (a, b), share, metric in product((id_task, *OTHERS.get(id_task, ())), pairs, SIZES, METRICS)
    ]  # fmt: skip
    return _debiased(
        with_ends(pd.DataFrame(rows, columns=["id_task", "task", "a", "b", "size", "share", "metric", "value"]))
    ).assign(setting="all", recipe="sgd", localizer="stagewise", over="examples and seeds", n=600, seeds=3)


# column of the recovered table: (value, half the interval's width)
RECOVERED = {
    "value": (0.88, 0.012), "value_ft": (0.90, 0.01), "gain": (0.96, 0.03), "accuracy": (0.88, 0.012),
    "ece": (0.03, 0.01), "ece_ft": (0.08, 0.012), "ece_ft_scaled": (0.035, 0.01), "ece_less_ft": (-0.05, 0.015),
    "ece_less_scaled": (-0.005, 0.012), "agreement": (0.94, 0.01),
}  # fmt: skip


def recovered(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the smallest region that recovers 95% of the gain, by localizer; random regions never do."""
    rows = []
    for task, (localizer, share) in product(tasks, {"stagewise": 0.01, "movement": 0.1, "random": 0.1}.items()):
        row: dict[str, Any] = {
            "id_task": task, "setting": "all", "recipe": "sgd", "localizer": localizer, "gain_share": 0.95,
            "size": share * D, "share": share, "reached": localizer != "random", "reached_on": "validation",
            "metric": "accuracy", "over": "examples and seeds", "seeds": 3, "n": 600,
        }  # fmt: skip
        for word, (level, half) in RECOVERED.items():
            value = (
                level
                - (0.4 if localizer == "random" and word in ("value", "gain", "accuracy") else 0.0)
                + random.normal(0, 0.003)
            )
            row |= {word: value, f"{word}_low": value - half, f"{word}_high": value + half}
            row |= {f"{word}_debiased": value - 0.001} if word.startswith("ece") else {}
        rows.append(row)
    return pd.DataFrame(rows)


def overlap(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the overlap of every two regions, in both directions; related tasks share more."""
    related, levels = [set(tasks[:2]), set(tasks[2:4])], {"same": 1.0, "related": 0.22, "unrelated": 0.07}
    rows = [
        (row, column, kind, "same" if row == column else "related" if {row, column} in related else "unrelated")
        for row, column, kind in product(tasks, tasks, ("overlap", "iou"))
    ]
    frame = pd.DataFrame(rows, columns=["row_task", "column_task", "kind", "relation"]).assign(
        value=[levels[of] if of == "same" else levels[of] + random.normal(0, 0.01) for *_, of in rows]
    )
    return with_ends(frame, 0.03).assign(
        size=np.nan, share=np.nan, **CHANCE, seeds=3,
        low=lambda rows: rows["low"].clip(lower=0.0), high=lambda rows: rows["high"].clip(upper=1.0),
    )  # fmt: skip


def isolation(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the overlap of related regions against unrelated ones."""
    return pd.DataFrame(
        [
            {
                "kind": kind, "relation": relation, "value": value, "low": value - 0.02, "high": value + 0.02,
                **({"chance": 0.0, "chance_low": np.nan, "chance_high": np.nan} if "-" in relation else CHANCE),
                "pairs": 4, "seeds": 3,
            }
            for kind, (relation, value) in product(
                ("overlap", "iou"),
                {"same": 1.0, "related": 0.22, "unrelated": 0.07, "related - unrelated": 0.15}.items(),
            )
        ]
    )  # fmt: skip


def variants(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the overlap for two starts of the mask: from top movement regions share five points more."""
    from_empty = isolation(tasks, random).assign(variant="no entry")
    ends = ["value", "low", "high"]
    return pd.concat([from_empty.assign(variant="top movement", **(from_empty[ends] + 0.05)), from_empty])


def gain(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the gain on every task from the regions of one task, of two and of all."""
    rows = [
        (
            " + ".join(group), group, task, purified,
            (0.8 if task in group else 0.25) + (0.06 if purified else 0.0) + random.normal(0, 0.02),
        )
        for group, task, purified in product(
            ([(task,) for task in tasks] + [tuple(tasks[:2]), tuple(tasks[2:4]), tuple(tasks)]), tasks, (False, True)
        )
        if not purified or len(group) != 1
    ]  # fmt: skip
    return with_ends(pd.DataFrame(rows, columns=["region", "region_tasks", "task", "purified", "value"]), 0.06).assign(
        n=600, seeds=3
    )


def subsets(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the rows of the subset of the first two tasks: its regions lose half of what they give to the others."""
    group, given = tuple(tasks[:2]), {"union": 0.8, "exclusive": 0.7, "thinned": 0.75, "random": 0.1, "trained": 1.0}
    rows = [
        (group, task, what, (value if task in group else value / 4) + random.normal(0, 0.01))
        for what, value in given.items()
        for task in tasks
        if what != "trained" or task in group
    ]
    frame = pd.DataFrame(rows, columns=["region_tasks", "task", "what", "value"])
    return with_ends(frame, 0.06).assign(size=20_000.0, n=600, seeds=3)


def stages(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the accuracy of every task after every stage: naive training forgets, grafting does not."""
    order, metrics = tasks[:3], ("accuracy", "ece")
    rows = [
        (mode, stage, order[stage - 1], task, metric, 0.08 * (stage - number) if mode == "naive" else 0.0)
        for mode, stage, metric in product(("naive", "grafting"), range(1, len(order) + 1), metrics)
        for number, task in enumerate(order[:stage], start=1)
    ]
    rows += [("independent", len(order), task, task, metric, 0.0) for task, metric in product(order, metrics)]
    frame = pd.DataFrame(rows, columns=["mode", "stage", "stage_task", "task", "metric", "change"])
    lost, is_right = frame["change"], frame["metric"] == "accuracy"
    right, wrong = (
        frame["mode"].map({"grafting": 0.86}).fillna(0.9),
        frame["mode"].map({"independent": 0.07}).fillna(0.06),
    )
    change = (lost / 2).mask(is_right, -lost)
    frame = _debiased(with_ends(frame.assign(value=wrong.mask(is_right, right) + change, change=change, n=600)))
    half = 0.02 * (change != 0)
    return _debiased(frame.assign(change_low=change - half, change_high=change + half), "change", "change_debiased")


def composition(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the distribution of the regions' entries."""
    totals = dict.fromkeys(("query", "key", "value", "attention output"), 4096) | {"MLP in": 16384, "MLP out": 16384}
    weights = {"value": 3.0, "MLP in": 2.0, "LayerNorm": 4.0}
    rows = [
        (task, seed, layer, kind, int(total * 0.01 * weights.get(kind, 0.7) * random.uniform(0.8, 1.2)), total)
        for task, seed, layer, (kind, total) in product(tasks, range(3), range(4), {**totals, "LayerNorm": 256}.items())
    ]
    found = pd.DataFrame(rows, columns=["task", "seed", "layer", "kind", "selected", "total"])
    whole = found.groupby(["task", "seed"])[["selected", "total"]].transform("sum")
    share, fair = found["selected"] / whole["selected"], found["total"] / whole["total"]
    return found.assign(localizer="stagewise", is_bias=False, share=share, density_ratio=share / fair)


def histogram(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the top probability of graft and fine-tuned model: fine-tuned is concentrated near 1."""
    edges, places = np.linspace(0, 1, 21), list(product(tasks, {"finetuned": 14, "grafted": 5}.items()))
    counts = [np.histogram(0.5 + 0.5 * random.beta(sharp, 2, 600), edges)[0] for _, (_, sharp) in places]
    parts = [
        pd.DataFrame({"task": task, "state": state, "low_edge": edges[:-1], "high_edge": edges[1:], "count": count})
        for (task, (state, _)), count in zip(places, counts, strict=True)
    ]
    frame = pd.concat(parts, ignore_index=True).assign(share=lambda rows: rows["state"].map({"grafted": 0.01}))
    return frame.assign(size=frame["share"] * D, correct=(0.9 * frame["count"]).astype(int), n=600)


def paths(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the models between base and fine-tuned model or graft, in and out of distribution."""
    rows = [
        (path, float(alpha), id_task, task, 0.52 + (0.36 if task == id_task else 0.24) * float(np.sqrt(alpha)))
        for id_task in tasks
        if id_task in OTHERS
        for path, alpha, task in product(("wise-ft", "wise-graft"), np.linspace(0, 1, 11), (id_task, *OTHERS[id_task]))
    ]
    return with_ends(pd.DataFrame(rows, columns=["path", "alpha", "id_task", "task", "value"]), 0.03).assign(
        metric="accuracy", debiased=np.nan
    )


def stability(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the overlap of regions from other seeds and samples."""
    rows = [
        (task, source, share * D, share, level + random.normal(0, 0.01))
        for task, (source, level), share in product(
            tasks, {"mask seeds": 0.4, "data seeds": 0.25, "bootstrap": 0.3}.items(), SIZES
        )
    ]
    return (
        with_ends(pd.DataFrame(rows, columns=["task", "source", "size", "share", "value"]), 0.03)
        .rename(columns={"value": "iou"})
        .assign(base=BASE, recipe="sgd", localizer="linearized", **CHANCE, pairs=3)
    )


def sensitivity(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return size and accuracy by the learned mask's constants."""
    frame = pd.DataFrame(
        product((1e6, 1e7, 1e8), (50, 100), (5.0, 10.0), range(3), METRICS),
        columns=["lr", "steps", "bias", "seed", "metric"],
    )
    share = (1e-4 * frame["lr"] / 1e6 * frame["steps"] / 50 * 10 / frame["bias"]).clip(upper=0.5)
    level = (0.6 + 0.25 * share**0.3).where(
        frame["metric"] == "accuracy", frame["metric"].map({"ece": 0.05, "nll": 0.5})
    )
    told = {"task": tasks[0], "localizer": "learned", "batch_size": np.nan, "size": share * D, "share": share}
    return _debiased(with_ends(frame.assign(value=level + random.normal(0, 0.005, len(frame)), **told)))


def checkpoints(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return five checkpoints of one fine-tuning: the model keeps improving, its graft less, top movement least."""
    rows: list[tuple[int, str, str, str, float]] = []
    for place, step in enumerate((50, 100, 200, 400, 800)):
        tuned, graft, movement = 0.66 + 0.05 * place, 0.65 + 0.04 * place, 0.65 + 0.02 * place
        rows.append((step, "pretrained", "", "accuracy", 0.52))
        for name, value in (("", tuned), ("stagewise", graft), ("movement", movement)):
            what = "grafted" if name else "finetuned"
            rows += [(step, what, name, "accuracy", value), (step, what, name, "ece", 0.03 + 0.01 * place)]
            rows += [
                (step, what, name, metric, value)
                for what, metric, value in [
                    ("needed", "accuracy", 0.01 * (1 + place)),
                    ("shared", "overlap", 0.2 * (1 + place)),
                    ("held", "overlap", 0.6 - 0.05 * place),
                ]
                if name
            ]
        rows += [
            (step, what, "stagewise", "accuracy", value)
            for what, value in (
                {"lead": graft - movement, "gap": graft - tuned} | ({"gap_change": -0.01 * place} if place else {})
            ).items()
        ]
        rows.append((step, "alike", "stagewise", "overlap", 0.8 - 0.1 * place))
    frame = pd.DataFrame(rows, columns=["step", "what", "localizer", "metric", "value"]).assign(id_task=tasks[0], n=600)
    is_region, is_needed = frame["localizer"] != "", frame["what"] == "needed"
    has_chance = frame["what"].isin(("shared", "alike"))
    frame = frame.assign(
        seeds=np.where(is_region, 3, 1), debiased=np.where(frame["metric"] == "ece", 0.02, np.nan),
        size=np.where(is_region, 0.03 * D, np.nan), share=np.where(is_region, np.where(is_needed, 0.01, 0.03), np.nan),
        **{name: np.where(has_chance, value, np.nan) for name, value in CHANCE.items()},
    )  # fmt: skip
    return with_ends(frame, np.where(is_needed, np.nan, 0.02))


def federated(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return three rounds of four clients that share the first task: messages of a region reveal less."""
    sends = {"full": (1.0, 4e8, 0.6), "region": (0.95, 1e7, 0.53), "random": (0.7, 1e7, 0.5)}
    rows = [
        (send, size, number, what, {"score": 0.5 + 0.1 * number * gain, "bytes": size, "membership": auc}[what])
        for send, (gain, size, auc) in sends.items()
        for number in range(4)
        for what in ("score", "bytes", "membership")
        if number or what == "score"
    ]
    frame = with_ends(pd.DataFrame(rows, columns=["send", "size", "round", "what", "value"]), 0.02)
    return frame.assign(
        tasks=[(tasks[0],)] * len(rows), task=tasks[0], setting="", clients=4, share=0.01, n=600, seeds=3,
    )  # fmt: skip


def note(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the study's notes."""
    return pd.DataFrame({"text": ["Three mask seeds, one data seed.", "12 examples of cr were left out."]})


def whole(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The frame with the columns of its table that are empty or unknown, in the declared order."""
    filling = {
        # Columns that say something only where a study has several of what they tell.
        **dict.fromkeys(("readout", "variant", "search_variant", "recipe_b", "variant_b"), ""),
        **dict.fromkeys(("row_localizer", "column_localizer"), ""),
        # Columns that only differences of single models have.
        **dict.fromkeys(("gained", "lost", "change_gained", "change_lost"), pd.NA),
    }
    columns = [column.name for column in TABLES[name].columns if column.name in {*frame, *filling}]
    return frame.assign(**{column: filling[column] for column in columns if column not in frame})[columns]


def _whole(make: Make) -> Make:
    return lambda tasks, random: whole(make(tasks, random), make.__name__)


FAKE_TABLES: dict[str, Make] = {
    make.__name__: _whole(make)
    for make in (
        scores, differences, recovered, overlap, isolation, variants, gain, subsets, stages, composition, histogram,
        paths, stability, sensitivity, checkpoints, federated, note,
    )
}  # fmt: skip

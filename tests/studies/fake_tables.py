"""The tables of an invented study: plausible numbers, every declared column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.tables import TABLES

Make = Callable[[Sequence[str], np.random.Generator], pd.DataFrame]
CHANCE = {"chance": 0.01, "chance_low": 0.005, "chance_high": 0.02}
NO_CHANCE = {"chance": 0.0, "chance_low": np.nan, "chance_high": np.nan}
D = 2_379_200  # graftable entries of the invented model
SIZES = (0.001, 0.01, 0.1)
BASE = "examples/models/minilm-l6"
TASKS = ("sst2_sentences", "cr", "ag_news", "qnli")
KIN = {"sst2_sentences": "cr", "qnli": "mnli_01"}
OTHERS = {"sst2_sentences": ("cr", "yelp_reviews"), "qnli": ("mnli_01",)}
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


def scores(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return every method on every task, and on tasks it was not trained on; grafts at every size."""
    rows = []
    for id_task in tasks:
        for task, (method, level) in product((id_task, *OTHERS.get(id_task, ())), LEVELS.items()):
            metrics = (*METRICS, *(OF_GRAFTS if method == "graft" else ()))
            for size, metric in product(SIZES if method in SIZED else (None,), metrics):
                rows.append(_score(id_task, task, method, level, size, metric, random))
    return pd.DataFrame(rows)


def _score(
    id_task: str,
    task: str,
    method: str,
    level: tuple[float, float, float | None],
    share: float | None,
    metric: str,
    random: np.random.Generator,
) -> dict[str, Any]:
    accuracy, ece, touched = level
    grows = 0.0 if share is None or method != "graft" else 0.02 * np.log10(share / 0.01)
    of_graft = {"recovered": 0.92 + 2 * grows, "agreement": 0.94 + grows}
    mean = {"accuracy": accuracy + grows, "ece": ece, "nll": 1.6 * (1 - accuracy) + ece, **of_graft}[metric]
    mean += random.normal(0, 0.004) - (0.12 if task != id_task and metric == "accuracy" else 0.0)
    sd = 0.012 if metric != "nll" else 0.03
    own = share if touched is None else touched
    size = float("nan") if share is None else share * D
    return {
        "base": BASE, "recipe": _recipe(method), "setting": "all", "id_task": id_task, "task": task,
        "split": "test", "method": method, "localizer": LOCALIZERS.get(method, "stagewise" if share else ""),
        "size": size, "share": size / D, "touched": float("nan") if own is None else own * D, "metric": metric,
        "mean": mean, "sd": sd, "low": mean - 2 * sd, "high": mean + 2 * sd,
        **_debiased(metric, mean), "seeds": 3, "n": 600,
    }  # fmt: skip


def _debiased(metric: str, value: float, name: str = "debiased") -> dict[str, float]:
    """Return the column of a calibration error's debiased value; NaN for other metrics."""
    return {name: value - 0.001 if metric == "ece" else float("nan")}


def _recipe(method: str) -> str:
    words = {"adamw": "adamw", "adamw_l1": "adamw-l1", "bitfit": "bitfit", "lora": "lora"}
    return {**words, "graft_retrain": "graft-retrain", "multi_task": "multi-task"}.get(method, "sgd")


def differences(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return paired differences between the graft, or its re-training, and their rivals, at every size."""
    rows = []
    others = ("graft_retrain", "bitfit", "lora")
    pairs = [("graft", m) for m in LEVELS if m not in ("graft", "complement", "pretrained", *others)]
    pairs += [(m, "graft") for m in others]
    pairs += [("graft_retrain", m) for m in ("bitfit", "ft")] + [("continual_naive", "independent")]
    pairs += [("continual_graft", "continual_naive")]
    for id_task in tasks:
        for task, (a, b), share, metric in product((id_task, *OTHERS.get(id_task, ())), pairs, SIZES, METRICS):
            at = 0 if metric == "accuracy" else 1
            value = LEVELS[a][at] - LEVELS[b][at] + random.normal(0, 0.004)
            rows.append(
                {
                    "id_task": id_task, "task": task, "setting": "all", "recipe": "sgd", "localizer": "stagewise",
                    "size": share * D, "share": share, "a": a, "b": b, "metric": metric, "value": value,
                    "low": value - 0.02, "high": value + 0.02, **_debiased(metric, value),
                    "over": "examples and seeds", "n": 600, "seeds": 3,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


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
            lost = 0.4 if localizer == "random" and word in ("value", "gain", "accuracy") else 0.0
            value = level - lost + random.normal(0, 0.003)
            row |= {word: value, f"{word}_low": value - half, f"{word}_high": value + half}
            row |= _debiased("ece", value, f"{word}_debiased") if word.startswith("ece") else {}
        rows.append(row)
    return pd.DataFrame(rows)


def overlap(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the overlap of every two regions, in both directions; related tasks share more."""
    related = {frozenset(tasks[:2]), frozenset(tasks[2:4])}
    rows = []
    for row, column, kind in product(tasks, tasks, ("overlap", "iou")):
        relation = "same" if row == column else "related" if frozenset((row, column)) in related else "unrelated"
        value = {"same": 1.0, "related": 0.22, "unrelated": 0.07}[relation]
        value = value if relation == "same" else value + random.normal(0, 0.01)
        rows.append(
            {
                "row_task": row, "column_task": column, "size": np.nan, "share": np.nan,
                "kind": kind, "value": value, "low": max(0.0, value - 0.03),
                "high": min(1.0, value + 0.03), **CHANCE, "seeds": 3, "relation": relation,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def isolation(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the overlap of related regions against unrelated ones."""
    levels = {"same": 1.0, "related": 0.22, "unrelated": 0.07, "related - unrelated": 0.15}
    rows = [
        {
            "kind": kind, "relation": relation, "value": value, "low": value - 0.02, "high": value + 0.02,
            **(NO_CHANCE if "-" in relation else CHANCE), "pairs": 4, "seeds": 3,
        }
        for kind, (relation, value) in product(("overlap", "iou"), levels.items())
    ]  # fmt: skip
    return pd.DataFrame(rows)


def gain(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the gain on every task from the regions of one task, of two and of all."""
    groups = [(task,) for task in tasks] + [tuple(tasks[:2]), tuple(tasks[2:4]), tuple(tasks)]
    rows = []
    for group, task, purified in product(groups, tasks, (False, True)):
        if purified and len(group) == 1:
            continue
        value = (0.8 if task in group else 0.25) + (0.06 if purified else 0.0) + random.normal(0, 0.02)
        rows.append(
            {
                "region": " + ".join(group), "region_tasks": group, "task": task, "purified": purified,
                "value": value, "low": value - 0.06, "high": value + 0.06, "n": 600, "seeds": 3,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def stages(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the accuracy of every task after every stage: naive training forgets, grafting does not."""
    order, rows = tasks[:3], []
    for mode, stage, metric in product(("naive", "grafting"), range(1, len(order) + 1), ("accuracy", "ece")):
        for number, task in enumerate(order[:stage], start=1):
            lost = 0.08 * (stage - number) if mode == "naive" else 0.0
            value = (0.9 if mode == "naive" else 0.86) - lost if metric == "accuracy" else 0.06 + lost / 2
            change = -lost if metric == "accuracy" else lost / 2
            rows.append(_stage(mode, stage, order[stage - 1], task, metric, value, change))
    for task, metric in product(order, ("accuracy", "ece")):
        rows.append(_stage("independent", len(order), task, task, metric, 0.9 if metric == "accuracy" else 0.07))
    return pd.DataFrame(rows)


def _stage(
    mode: str, stage: int, stage_task: str, task: str, metric: str, value: float, change: float = 0.0
) -> dict[str, Any]:
    half = 0.02 if change else 0.0
    return {
        "mode": mode, "stage": stage, "stage_task": stage_task, "task": task, "metric": metric, "value": value,
        "low": value - 0.02, "high": value + 0.02, **_debiased(metric, value), "change": change,
        **_debiased(metric, change, "change_debiased"), "change_low": change - half,
        "change_high": change + half, "n": 600,
    }  # fmt: skip


def composition(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the distribution of the regions' entries."""
    kinds = {"query": 4096, "key": 4096, "value": 4096, "attention output": 4096, "MLP in": 16384, "MLP out": 16384}
    rows = []
    for task, seed, layer, (kind, total) in product(tasks, range(3), range(4), {**kinds, "LayerNorm": 256}.items()):
        weight = {"value": 3.0, "MLP in": 2.0, "LayerNorm": 4.0}.get(kind, 0.7)
        selected = int(total * 0.01 * weight * random.uniform(0.8, 1.2))
        rows.append(
            {
                "task": task, "localizer": "stagewise", "seed": seed, "layer": layer, "kind": kind,
                "is_bias": False, "selected": selected, "total": total,
            }
        )  # fmt: skip
    found = pd.DataFrame(rows)
    whole = found.groupby(["task", "seed"])["selected"].transform("sum")
    every = found.groupby(["task", "seed"])["total"].transform("sum")
    share = found["selected"] / whole
    return found.assign(share=share, density_ratio=share / (found["total"] / every))


def histogram(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the top probability of graft and fine-tuned model: fine-tuned is concentrated near 1."""
    edges, rows = np.linspace(0, 1, 21), []
    for task, (state, sharp) in product(tasks, {"finetuned": 14, "grafted": 5}.items()):
        share = 0.01 if state == "grafted" else np.nan
        found = 0.5 + 0.5 * random.beta(sharp, 2, 600)
        counts = np.histogram(found, edges)[0]
        for low, high, count in zip(edges, edges[1:], counts, strict=False):
            rows.append(
                {
                    "task": task, "state": state, "size": share * D, "share": share,
                    "low_edge": low, "high_edge": high, "count": int(count),
                    "correct": int(0.9 * count), "n": 600,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def paths(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the models between base and fine-tuned model or graft, in and out of distribution."""
    rows = []
    for id_task in (t for t in tasks if t in OTHERS):
        for path, alpha, task in product(("wise-ft", "wise-graft"), np.linspace(0, 1, 11), (id_task, *OTHERS[id_task])):
            value = 0.52 + (0.36 if task == id_task else 0.24) * float(np.sqrt(alpha))
            rows.append(
                {
                    "path": path, "alpha": float(alpha), "id_task": id_task, "task": task, "metric": "accuracy",
                    "value": value, "debiased": np.nan, "low": value - 0.03, "high": value + 0.03,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def stability(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the overlap of regions from other seeds and samples."""
    rows = []
    for task, source, share in product(tasks, ("mask seeds", "data seeds", "bootstrap"), SIZES):
        iou = {"mask seeds": 0.4, "data seeds": 0.25, "bootstrap": 0.3}[source] + random.normal(0, 0.01)
        rows.append(
            {
                "base": BASE, "recipe": "sgd",
                "task": task, "source": source, "localizer": "linearized", "size": share * D, "share": share,
                "iou": iou, "low": iou - 0.03, "high": iou + 0.03, **CHANCE, "pairs": 3,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def sensitivity(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return size and accuracy by the learned mask's constants."""
    rows = []
    for lr, steps, bias, seed, metric in product((1e6, 1e7, 1e8), (50, 100), (5.0, 10.0), range(3), METRICS):
        share = min(0.5, 1e-4 * lr / 1e6 * steps / 50 * 10 / bias)
        value = {"accuracy": 0.6 + 0.25 * share**0.3, "ece": 0.05, "nll": 0.5}[metric] + random.normal(0, 0.005)
        rows.append(
            {
                "task": tasks[0], "localizer": "learned", "lr": lr, "steps": steps, "bias": bias,
                "batch_size": float("nan"), "seed": seed, "size": share * D, "share": share, "metric": metric,
                "value": value, "low": value - 0.02, "high": value + 0.02, **_debiased(metric, value),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def checkpoints(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return five checkpoints of one fine-tuning: the model keeps improving, its graft less, top movement least."""
    rows, first = [], 0.0
    for place, step in enumerate((50, 100, 200, 400, 800)):
        place_of = {"id_task": tasks[0], "step": step, "n": 600, "localizer": "", "chance": np.nan, "seeds": 1}
        region = {**place_of, "size": 0.03 * D, "share": 0.03, "seeds": 3}
        values = {"finetuned": 0.66 + 0.05 * place, "stagewise": 0.65 + 0.04 * place, "movement": 0.65 + 0.02 * place}
        rows.append({**place_of, "what": "pretrained", "metric": "accuracy", "value": 0.52})
        for name, value in values.items():
            of = place_of if name == "finetuned" else {**region, "localizer": name}
            what = "finetuned" if name == "finetuned" else "grafted"
            rows.append({**of, "what": what, "metric": "accuracy", "value": value})
            rows.append({**of, "what": what, "metric": "ece", "value": 0.03 + 0.01 * place, "debiased": 0.02})
            if what == "grafted":
                needed = {**of, "what": "needed", "metric": "accuracy", "value": 0.01 * (1 + place), "share": 0.01}
                shared = {"what": "shared", "metric": "overlap", "value": 0.2 * (1 + place), **CHANCE}
                held = {"what": "held", "metric": "overlap", "value": 0.6 - 0.05 * place}
                rows += [needed, {**of, **shared}, {**of, **held}]
        lead, gap = (values["stagewise"] - values[name] for name in ("movement", "finetuned"))
        first = gap if place == 0 else first
        alike = {"what": "alike", "metric": "overlap", "value": 0.8 - 0.1 * place, **CHANCE}
        paired = {**region, "localizer": "stagewise", "metric": "accuracy"}
        rows += [{**paired, "what": "lead", "value": lead}, {**paired, "what": "gap", "value": gap}]
        rows += [{**paired, "what": "gap_change", "value": gap - first}] if place else []
        rows.append({**region, "localizer": "stagewise", **alike})
    frame = pd.DataFrame(rows)
    frame["debiased"] = frame["debiased"].astype(float)
    half = np.where(frame["what"] == "needed", np.nan, 0.02)
    return frame.assign(low=frame["value"] - half, high=frame["value"] + half)


def note(tasks: Sequence[str], random: np.random.Generator) -> pd.DataFrame:
    """Return the study's notes."""
    return pd.DataFrame({"text": ["Three mask seeds, one data seed.", "12 examples of cr were left out."]})


EMPTY = (
    "readout", "variant", "search_variant", "recipe_b", "variant_b", "row_localizer", "column_localizer",
)  # fmt: skip
"""Columns that say something only where a study has several of what they tell."""
UNKNOWN = ("gained", "lost", "change_gained", "change_lost")
"""Columns that only differences of single models have."""


def whole(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The frame with the columns of EMPTY and UNKNOWN that its table has."""
    filling = dict.fromkeys(EMPTY, "") | dict.fromkeys(UNKNOWN, pd.NA)
    missing = {column.name for column in TABLES[name].columns} & filling.keys() - set(frame)
    return frame.assign(**{column: filling[column] for column in sorted(missing)})


def _whole(make: Make) -> Make:
    return lambda tasks, random: whole(make(tasks, random), make.__name__)


FAKE_TABLES: dict[str, Make] = {
    make.__name__: _whole(make)
    for make in (
        scores, differences, recovered, overlap, isolation, gain, stages, composition, histogram, paths, stability,
        sensitivity, checkpoints, note,
    )
}  # fmt: skip

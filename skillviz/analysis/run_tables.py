"""Tables over several finished runs: means over seeds, and paired differences between localizers.

Intervals are over examples and seeds together, as in tables of studies: `analysis.seeds`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import pandas as pd

from skillviz.analysis.answers import Answers
from skillviz.analysis.observations import PAIR_RECIPE, TEST
from skillviz.analysis.seeds import Scored, Side, difference_over_seeds, mean_over_seeds, scored_in, scored_on
from skillviz.analysis.tables import check
from skillviz.analysis.variants import Fields, Rivals, label_variants
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.metrics import COMPARED, HEADLINE, metric_names
from skillviz.core.region import Region
from skillviz.core.stability import stability
from skillviz.errors import BadInput
from skillviz.runs.metrics import positive
from skillviz.runs.run import Run
from skillviz.runs.tables import SIZES

TABLE = {
    "task": "str", "finetuned": "str", "localizer": "str",
    "size": "float64", "share": "float64", "split": "str", "metric": "str",
    "mean": "float64", "debiased": "float64", "low": "float64", "high": "float64", "sd": "float64", "seeds": "int64",
}  # fmt: skip
DIFFERENCES = {
    "task": "str", "finetuned": "str",
    "size": "int64", "share": "float64", "split": "str", "metric": "str", "a": "str", "b": "str",
    "value": "float64", "debiased": "float64", "low": "float64", "high": "float64",
    "n": "int64", "seeds_a": "int64", "seeds_b": "int64",
}  # fmt: skip
ESTIMATE = ("value", "debiased", "low", "high")

Key = TypeVar("Key", bound=Hashable)
MASK, DATA, BOOTSTRAP = SOURCES = ("mask seeds", "data seeds", "bootstrap")
OF_MODEL = ("recipe", "finetuned_spec")
"""Labels that distinguish fine-tuned models, apart from their seeds."""
Labels = Callable[[Run], Mapping[str, Any]]


def table_of_runs(runs: Sequence[Run], split: str = "test") -> pd.DataFrame:
    """One row per task, localizer, size and metric of the graft: mean over seeds with its interval, and sd (n - 1).

    At sizes other than the runs' main one, and for metrics that need several models, the examples' part of the interval
    comes from the runs' own intervals; calibration has none there. A size that is an outcome is averaged over seeds.
    """
    rows = []
    for setting in grouped(runs, _setting).values():
        of_setting = []
        for title, side in _sides(setting).items():
            for group in grouped(side, lambda run: run.spec.sizes).values():
                of_setting += _rows(title, group, split)
        # if several groups of runs have the same size, the one with the most seeds is kept
        distinct: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in sorted(of_setting, key=lambda row: (-row["seeds"], np.isnan(row["low"]))):
            distinct.setdefault((row["localizer"], row["size"], row["metric"]), row)
        rows += list(distinct.values())
    frame = pd.DataFrame(rows, columns=list(TABLE)).astype(TABLE)
    return frame.sort_values(["task", "finetuned", "metric", "size", "localizer"], ignore_index=True, kind="stable")


def differences(runs: Sequence[Run], split: str = "test", metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per pair of localizers (a, b) of one setting and size, and metric: a - b, averaged over seeds.

    The sizes are those at which both have predictions. Intervals are paired: both sides are scored on the same
    examples, and seeds that both have are paired too. F1 is included only if it is the task's metric.
    """
    rows = []
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        for size in run.record.sizes if SIZES.file in run.files else (run.record.size,):
            groups.setdefault((*_setting(run), size), []).append(run)
    for (*_, size), group in groups.items():
        sides = _sides(group)
        common = {**_named(group[0]), "size": size, "share": size / (group[0].record.d or np.nan)}
        compared = metrics or _compared(group[0])
        by_metric, n = sampled(sides, compared, split, size) if len(sides) > 1 else Sampled({}, 0)
        for metric, samples in by_metric.items():
            for a, b in itertools.permutations(samples, 2):
                over = difference_over_seeds(samples[a], samples[b], metric)
                ends = {name: getattr(over, name) for name in ESTIMATE}
                seeds = {"seeds_a": len(sides[a]), "seeds_b": len(sides[b])}
                rows.append({**common, "split": split, "metric": metric, "a": a, "b": b, **ends, "n": n, **seeds})
    return pd.DataFrame(rows, columns=list(DIFFERENCES)).astype(DIFFERENCES)


def grouped(runs: Sequence[Run], key: Callable[[Run], Key]) -> dict[Key, list[Run]]:
    """The runs grouped by a key, in their order."""
    groups: dict[Key, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def _rows(title: str, group: list[Run], split: str) -> list[dict[str, Any]]:
    """The rows of runs that differ only in their seed."""
    of_main = sampled({title: group}, _compared(group[0]), split).by_metric
    rows = []
    curves = pd.concat([_curve(run, split) for run in group]).groupby(["metric", "place"], sort=False)
    for number, values in curves:
        metric, place = cast(tuple[str, int], number)
        side = (
            of_main[metric][title]
            if place == 0 and metric in of_main
            else {row["seed"]: [scored_in(row, row["metric"])] for row in values.to_dict("records")}
        )
        over = mean_over_seeds(side, metric)
        row: dict[str, Any] = {**_named(group[0]), "localizer": title, "split": split, "metric": metric}
        row |= {"size": values["size"].mean(), "share": values["share"].mean(), "mean": over.value}
        rows.append(row | {name: getattr(over, name) for name in ("debiased", "low", "high", "sd", "seeds")})
    return rows


def _curve(run: Run, split: str) -> pd.DataFrame:
    """The run's curve with `place`, the index of each size among the run's sizes; the main one is 0."""
    curve = run.curve()
    places = {size: place for place, size in enumerate(run.record.sizes)}
    return curve[curve["split"] == split].assign(place=curve["size"].map(places))


def _sides(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that differ only in seed and size, by title: the localizer's name, and any other differences.

    If two runs are equal in everything, the first counts: a seed is one seed, however often it was run.
    """
    variants = list(grouped(runs, lambda run: json.dumps(_fields(run), sort_keys=True)).values())
    names = [group[0].spec.localizer for group in variants]
    labels = label_variants([(n, _fields(group[0])) for n, group in zip(names, variants, strict=True)], _label)
    sides = {}
    for name, label, group in zip(names, labels, variants, strict=True):
        repeated = grouped(group, lambda run: (run.spec.seed, run.spec.sizes)).values()
        sides[f"{name} {label}".rstrip()] = [same[0] for same in repeated]
    return sides


def _label(fields: Fields, rivals: Rivals) -> str:
    """The fields of a run in which it differs from others: `bias=5 steps=50`."""
    values = {name: fields[name] for name in rivals if fields.get(name) is not None}
    return " ".join(f"{name}={v if isinstance(v, str) else json.dumps(v)}" for name, v in values.items())


def _fields(run: Run) -> dict[str, Any]:
    """The settings besides pair, task, seed and sizes, with the localizer's options as single fields."""
    fields = run.spec.model_dump(mode="json", exclude={"base", "finetuned", "task", "seed", "sizes", "options"})
    return {**fields, **run.spec.options}


def _compared(run: Run) -> list[str]:
    return metric_names(run.record.metric, COMPARED)


def _setting(run: Run) -> tuple[str, ...]:
    """The facts that must be equal for two runs to be compared: the pair, the task and its data."""
    record = run.record
    prints = [note.fingerprint if note else "" for note in (record.base, record.finetuned, record.task)]
    return (run.record.task_name, *prints)


def _named(run: Run) -> dict[str, str]:
    return {"task": run.record.task_name, "finetuned": Path(run.spec.finetuned).name}


class Sampled(NamedTuple):
    """Each side's models by metric and name, and the number of examples that all runs share."""

    by_metric: dict[str, dict[str, Side]]
    n: int


def sampled(
    sides: Mapping[str, Sequence[Run]], metrics: Sequence[str], split: str = TEST, size: int | None = None
) -> Sampled:
    """Each side's metrics of the graft at a size, the main one by default, every run on the same resampled examples.

    Raises BadInput if the runs were not scored on the same examples.
    """
    runs = [run for side in sides.values() for run in side]
    predictions, labels = joined(runs, split, size)
    one = positive(runs[0].record.task) if runs[0].record.task else 1
    answers = [Answers(np.arange(len(labels)), labels, logits.astype(np.float64)) for logits in predictions]
    by_metric: dict[str, dict[str, Side]] = {}
    for metric in metrics:
        scored = iter(scored_on(answers, metric, one))
        by_metric[metric] = {
            name: _by_seed([(run.spec.seed, next(scored)) for run in side]) for name, side in sides.items()
        }
    return Sampled(by_metric, len(labels))


def _by_seed(scored: Sequence[tuple[int, Scored]]) -> Side:
    side: dict[Hashable, list[Scored]] = {}
    for seed, one in scored:
        side.setdefault(seed, []).append(one)
    return side


def joined(runs: Sequence[Run], split: str, size: int | None = None) -> tuple[list[np.ndarray], np.ndarray]:
    """The grafted logits [n, label] of each run in one order of the examples, and their labels [n]; at a size of the
    runs, the main one by default."""
    columns = [run.logits("grafted", split, size=size) for run in runs]
    order = [np.argsort(ids.astype(str), kind="stable") for ids, _, _ in columns]
    ids, labels = columns[0][0][order[0]], columns[0][1][order[0]]
    for run, (names, y, _), rows in zip(runs, columns, order, strict=True):
        if not np.array_equal(names[rows], ids) or not np.array_equal(y[rows], labels):
            raise BadInput(
                f"{runs[0].id} and {run.id} were not scored on the same {split} examples, so they cannot be compared."
            )
    return [logits[rows] for (_, _, logits), rows in zip(columns, order, strict=True)], labels


def composition(runs: Sequence[Run], variants: Sequence[str] = ()) -> pd.DataFrame:
    """The location of each run's main region: one row per layer, kind and bias; `selected` sums to the region's size.

    `variants` give for each run the label that distinguishes it from others of its task and localizer.
    """
    rows = []
    for run, variant in zip(runs, variants or [""] * len(runs), strict=True):
        frame = run.layers()
        size, d = int(frame["selected"].sum()), int(frame["total"].sum())
        named: dict[Any, Any] = {
            "task": run.record.task_name, "localizer": run.spec.localizer, "variant": variant, "seed": run.spec.seed,
        }  # fmt: skip
        parts = frame.groupby(["layer", "kind", "is_bias"], dropna=False, sort=False)[["selected", "total"]].sum()
        for part in parts.reset_index().to_dict("records"):
            selected, total = int(part["selected"]), int(part["total"])
            density = (selected / total) / (size / d) if size and total else np.nan
            share = selected / size if size else 0.0
            rows.append({**named, **part, "share": share, "density_ratio": density})
    return check(pd.DataFrame(rows), "composition")


def sensitivity(runs: Sequence[Run]) -> pd.DataFrame:
    """One row per run and metric: its constants, its size, the graft's test metrics with intervals over examples."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        scores = run.record.metrics.get(TEST)
        if scores is None:
            continue
        metrics = dict(scores.states["grafted"]) | ({"recovered": scores.recovered} if scores.recovered else {})
        for metric in metric_names(run.record.metric, (*HEADLINE, "recovered")):
            if metric in metrics:
                estimate = {"debiased": None, **metrics[metric].model_dump()}
                rows.append({**_constants(run), "metric": metric, **estimate})
    return check(pd.DataFrame(rows), "sensitivity")


def _constants(run: Run) -> dict[str, Any]:
    spec = run.spec
    known = dict(spec.options)
    for name, given in (("steps", spec.steps), ("batch_size", spec.batch_size)):
        option = LOCALIZERS[spec.localizer].option(name)
        known |= {name: given} if given is not None else {name: known.get(name, option.default)} if option else {}
    return {
        "task": run.record.task_name, "localizer": spec.localizer, "lr": known.get("lr", np.nan),
        "steps": known.get("steps", np.nan), "bias": known.get("bias", np.nan),
        "batch_size": known.get("batch_size", np.nan), "seed": spec.seed, "size": float(run.record.size or 0),
        "share": run.record.share,
    }  # fmt: skip


def stability_of_runs(
    runs: Iterable[Run], labels: Labels, bootstrap: Callable[[Run], Sequence[Region]] | None = None
) -> pd.DataFrame:
    """One row per model, task, localizer, size and source: mean IoU of two regions, its jackknife interval, and chance.

    `labels` returns the labels of a run's step. Mask seeds are compared on the first fine-tuned model, data seeds at
    the first run's mask seed and fine-tuning seed. `bootstrap` finds linearized regions on samples of a run's examples,
    independent of the run's localizer; it is called once per task, for the first run.
    """
    rows, bootstrapped = [], set[str]()
    for group in _groups(runs, labels).values():
        first = group[0]
        model = {"base": first.spec.base, "recipe": str(labels(first).get("recipe", PAIR_RECIPE))}
        model["task"] = first.record.task_name
        for source, those in ((MASK, _mask_seeds(group)), (DATA, _data_seeds(group, labels))):
            regions = [run.region() for run in those]
            # a region whose size is an outcome may be empty
            if len(regions) > 1 and all(region.size for region in regions):
                rows.append({**model, **_row(source, first.spec.localizer, regions)})
        if bootstrap is not None and model["task"] not in bootstrapped:
            bootstrapped.add(model["task"])
            rows.append({**model, **_row(BOOTSTRAP, "linearized", bootstrap(first))})
    return check(pd.DataFrame(rows), "stability")


def _row(source: str, localizer: str, regions: Sequence[Region]) -> dict[str, Any]:
    size, shared = sum(region.size for region in regions) / len(regions), stability(regions)
    return {
        "source": source, "localizer": localizer, "size": size, "share": size / regions[0].d,
        "iou": shared.iou, "low": shared.low, "high": shared.high, **shared.chance.columns(), "pairs": shared.pairs,
    }  # fmt: skip


def _groups(runs: Iterable[Run], labels: Labels) -> Mapping[str, list[Run]]:
    """Groups of runs that differ only in their seeds: of mask, data and fine-tuning."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        fields = run.spec.model_dump(mode="json", exclude={"seed", "data_seed", "finetuned", "others", "interpolation"})
        given = {} if "recipe" in labels(run) else {"finetuned": run.spec.finetuned}
        model = {name: labels(run).get(name) for name in OF_MODEL}
        groups.setdefault(json.dumps([fields, given, model], sort_keys=True, default=str), []).append(run)
    return groups


def _mask_seeds(group: Sequence[Run]) -> list[Run]:
    """One run for each mask seed on the first fine-tuned model."""
    same = [run for run in group if run.spec.finetuned == group[0].spec.finetuned]
    return _first_of(same, lambda run: run.spec.seed)


def _data_seeds(group: Sequence[Run], labels: Labels) -> list[Run]:
    """One run for each data seed, with the first mask seed and the first fine-tuning seed."""
    first = group[0]
    seeds = first.spec.seed, labels(first).get("finetune_seed")
    return _first_of(
        [run for run in group if (run.spec.seed, labels(run).get("finetune_seed")) == seeds],
        lambda run: run.spec.data_seed,
    )


def _first_of(runs: Iterable[Run], seed: Callable[[Run], int]) -> list[Run]:
    first: dict[int, Run] = {}
    for run in runs:
        first.setdefault(seed(run), run)
    return list(first.values())

"""Compare localizers by how far their grafts are beyond their nulls, each graft at its own fitted gain.

    python -m benchmarks localizer-beyond [--size 0.1%] [--pair mr-sgd] [--method "top movement"]

A cell is an example pair, a size and a method. It compares the graft of the method's search with its null, the graft
of the same search on one draw of shuffled movements. Both have a gain fitted on validation examples, and are scored on
the same test examples. Rows are kept in results/localizer_beyond.csv, the differences by example beside it; the tables
of docs/localizers.md are made from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from benchmarks.frame import RESULTS, ROOT, Cells, Rows, fill, measure
from skillviz.analysis.null_measures import MEASURES, NATS, SHARED_PROBABILITY, Predictions, Reference
from skillviz.core import formats
from skillviz.core.encoded import Encoded
from skillviz.core.nulls import SHUFFLED, beyond_null
from skillviz.core.region import Region
from skillviz.core.temperature import scaled
from skillviz.models.examples import example_pairs
from skillviz.models.pair import ModelPair
from skillviz.runs.gain import CHOSEN, GainData, Gained, gained
from skillviz.runs.nulls import null_graft
from skillviz.runs.passes import UNKEPT
from skillviz.runs.plan import RunPlan, planned
from skillviz.runs.produce import problem_of, searched_data
from skillviz.runs.search import Searched, search
from skillviz.runs.session import Session
from skillviz.runs.spec import FIT, RunSpec
from skillviz.runs.store import Library

DEVELOPMENT, TEST = ("clinc-domains-sgd", "snli-sgd", "subj-stories"), ("mr-sgd", "mr-adamw")
SIZES = ("0.1%", "1%")
REFERENCE = "top movement"
SHORT = {"steps": 25, "batch_size": 64}
BUDGETS = {
    "stagewise, 400 examples": ("stagewise", {"steps": 6, "batch_size": 64}),
    "stagewise, 800 examples": ("stagewise", {"steps": 12, "batch_size": 64}),
    "stagewise, 3,200 examples": ("stagewise", {"steps": 50, "batch_size": 64}),
    "stagewise, 6,400 examples": ("stagewise", {"steps": 50, "batch_size": 128}),
    "first-order, 128 examples": ("first-order", {"examples": 128}),
    "first-order, 2,048 examples": ("first-order", {"examples": 2048}),
}
"""The same searches with other numbers of gradient examples; `stagewise` below takes 1,600, `first-order` 512."""
ELSEWHERE, SEEDS = "stagewise on outputs, other texts", "signal over noise between seeds"
TEXTS = {"clinc-domains-sgd": "mr", "subj-stories": "mr", "mr-sgd": "subj", "mr-adamw": "subj"}
"""The tasks whose training texts stand in for a pair's own; the examples have no other task of two texts."""
OF_PAIR = {
    ELSEWHERE: {pair: {"texts": f"examples/tasks/{task}.yaml"} for pair, task in TEXTS.items()},
    SEEDS: {"mr-sgd": {"other_models": "models/examples/mr-sgd-1,models/examples/mr-sgd-2"}},
}
"""Further options of methods that are not for every pair. `examples build --only mr-sgd-1` makes such a model."""
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    REFERENCE: ("movement", {}),
    "top movement, equal shares": ("movement", {"per": "tensor"}),
    "relative to the weight": ("tall-mask", {}),
    SEEDS: ("movement", {}),
    "stagewise on outputs": ("stagewise", {**SHORT, "match": "outputs"}),
    ELSEWHERE: ("stagewise", {**SHORT, "match": "outputs"}),
    "stagewise": ("stagewise", SHORT),
    "first-order, signs": ("first-order", {"examples": 512, "weigh": "signs"}),
    "first-order": ("first-order", {"examples": 512}),
    "first-order, path": ("first-order", {"examples": 256, "points": 4}),
    "first-order, noise": ("first-order", {"examples": 512, "weigh": "noise"}),
    **BUDGETS,
}
COMPARED = [
    *((method, REFERENCE) for method in METHODS if method not in {REFERENCE, *BUDGETS}),
    ("stagewise on outputs", "stagewise"), (ELSEWHERE, "stagewise on outputs"),
    *((method, "first-order") for method in METHODS if method.startswith("first-order, ")),
    ("stagewise, 800 examples", "stagewise, 400 examples"), ("stagewise", "stagewise, 800 examples"),
    ("stagewise, 3,200 examples", "stagewise"), ("stagewise, 6,400 examples", "stagewise, 3,200 examples"),
]  # fmt: skip
SHOWN = ("accuracy", "NLL, scaled", SHARED_PROBABILITY)
KEY = ["size", "pair", "method"]
CSV, BY_EXAMPLE = RESULTS / "localizer_beyond.csv", RESULTS / "localizer_beyond.parquet"
PAGE = ROOT / "docs" / "localizers.md"


@cache
def session_of(pair: str) -> Session:
    """Return the session of a pair, so that its models and scores are made once."""
    return Session()


def spec_of(size: str, pair: str, method: str) -> RunSpec:
    """Return the run of a cell; 160 validation examples fit and choose its gains, 600 test examples judge."""
    localizer, options = METHODS[method]
    options = {**options, **OF_PAIR.get(method, {}).get(pair, {})}
    return example_spec(pair, localizer, options, size, gain=FIT, max_validation=160, max_test=600)


def example_spec(pair: str, localizer: str, options: Mapping[str, Any], size: str, **more: Any) -> RunSpec:
    """Return the run of a localizer on an example pair; `more` are other fields of the run."""
    own = next(row for row in example_pairs() if row.name == pair)
    return RunSpec(
        base=own.base, finetuned=own.finetuned, task=own.task, readout=own.readout, localizer=localizer,
        options=options, sizes=(size,), device="cpu", **more,
    )  # fmt: skip


def found_region(plan: RunPlan, models: ModelPair, data: Mapping[str, Encoded]) -> Region:
    """Return the region of a run's search; the models are at the base again."""
    problem, options, _ = problem_of(plan, models, data)
    searched = Searched()
    for _ in search(plan.row, problem, plan.sizes, plan.spec.seed, options, searched):
        pass
    problem.reset()
    return searched.region(searched.size, models.table.shapes)


def measured(size: str, pair: str, method: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each measure of a cell; `by_example` are the graft's scores less the null's, float32."""
    spec, session = spec_of(size, pair, method), session_of(pair)
    plan = planned(spec, session, Library(()))
    models, data, ends = session.pair(spec), searched_data(plan, session), session.ends(spec)
    region = found_region(plan, models, data)
    null = null_graft(models, data, partial(problem_of, plan), plan, (SHUFFLED, 0), lambda step: None)
    halves = GainData.of({split: data[split] for split in ends}, spec.data_seed)
    own, other = (
        gained(moved, region, halves, ends["validation"]["pretrained"], FIT, UNKEPT)
        for moved, region in ((models, region), null)
    )
    reference = Reference(data["test"].labels, ends["test"]["finetuned"])
    for name in SHOWN:
        scores = [MEASURES[name].score(predictions(graft), reference) for graft in (own, other)]
        if scores[0] is None or scores[1] is None:
            continue
        found = beyond_null(scores[0], scores[1][None])
        yield {
            "size": size, "pair": pair, "method": method, "measure": name, "examples": len(scores[0]),
            "gain": own.gain, "null_gain": other.gain, "graft": scores[0].mean(), "null": scores[1].mean(),
            "beyond": found.value, "low": found.low, "high": found.high,
            "by_example": (scores[0] - scores[1]).astype(np.float32).tobytes(),
        }  # fmt: skip


def predictions(graft: Gained) -> Predictions:
    """Return a graft's test predictions at its gain, and the same at its temperature."""
    logits, temperature = graft.chosen["test"], graft.temperatures[CHOSEN]
    return Predictions(logits, None if temperature is None else scaled(logits, temperature))


def words(row: Mapping[str, Any]) -> str:
    """Return the difference of a row with its interval, in points or nats."""
    is_nats = MEASURES[row["measure"]].unit == NATS
    factor, digits = (1, 3) if is_nats else (100, 1)
    ends = formats.interval(row["low"], row["high"], digits, factor)
    return f"{formats.signed(factor * row['beyond'], digits)} ({ends})"


def scores(rows: pd.DataFrame) -> list[str]:
    """Return each cell's gains, accuracies and differences to its null; the pair's best first, by accuracy."""
    head = ["size", "pair", "method", "gain", "null's gain", "accuracy", "null's accuracy"]
    head += [f"beyond, {name}" for name in SHOWN]
    lines = list[tuple[tuple[Any, ...], list[str]]]()
    for (size, pair, method), cell in rows.groupby(KEY):
        of = {row["measure"]: row for row in cell.to_dict("records")}
        first = of["accuracy"]
        place = SIZES.index(size), (*DEVELOPMENT, *TEST).index(pair), -first["beyond"]
        lines.append((place, [
            size, pair, method, *(formats.number(first[name], 1) for name in ("gain", "null_gain")),
            *(formats.percent(first[name]) for name in ("graft", "null")),
            *(words(of[m]) if m in of else "not measured" for m in SHOWN),
        ]))  # fmt: skip
    return formats.markdown_table(head, [cells for _, cells in sorted(lines, key=lambda line: line[0])])


def compared(rows: pd.DataFrame) -> list[str]:
    """Return each method's difference to its null less another method's, paired by example, by pair."""
    head = ("size", "measure", "one − the other", *DEVELOPMENT, *(f"{pair} (test)" for pair in TEST))
    lines = list[list[str]]()
    cells = {tuple(row[name] for name in (*KEY, "measure")): row for row in rows.to_dict("records")}
    for size in SIZES:
        for measure_name in (SHOWN[0], SHOWN[2]):
            for method, reference in COMPARED:
                found = []
                for pair in (*DEVELOPMENT, *TEST):
                    own, other = (cells.get((size, pair, one, measure_name)) for one in (method, reference))
                    if own is None or other is None:
                        found.append("not measured")
                        continue
                    mine, theirs = (np.frombuffer(row["by_example"], dtype=np.float32) for row in (own, other))
                    apart = beyond_null(mine, theirs[None])
                    found.append(words({**own, "beyond": apart.value, "low": apart.low, "high": apart.high}))
                if set(found) != {"not measured"}:
                    lines.append([size, measure_name, f"{method} − {reference}", *found])
    return formats.markdown_table(head, lines)


def cells(size: str | None, pair: str | None, method: str | None) -> Cells:
    """Yield the cells of these values: the smaller size first, then development, then the cheaper methods."""
    for one, role, name in product(SIZES, (DEVELOPMENT, TEST), METHODS):
        for models in role:
            if models not in OF_PAIR.get(name, (models,)):
                continue
            if size in (None, one) and pair in (None, models) and method in (None, name):
                yield dict(zip(KEY, (one, models, name), strict=True)), partial(measured, one, models, name)


def main(
    size: Annotated[str | None, typer.Option(help="One size only.")] = None,
    pair: Annotated[str | None, typer.Option(help="One example pair only.")] = None,
    method: Annotated[str | None, typer.Option(help="One method only.")] = None,
    tables: Annotated[bool, typer.Option("--tables", help="Only write the tables.")] = False,
    results: Annotated[
        Path, typer.Option(help="The folder of the rows; only the usual one's go to the page.")
    ] = RESULTS,
) -> None:
    """Measure the missing cells and write the tables of docs/localizers.md."""
    kept = Rows(results / CSV.name, KEY, results / BY_EXAMPLE.name)
    if not tables:
        measure(kept, cells(size, pair, method))
    if results.resolve() == RESULTS:
        rows = pd.DataFrame(kept.rows)
        both = {"beyond at a gain": scores(rows), "beyond compared": compared(rows)}
        fill(PAGE, both, "python -m benchmarks localizer-beyond")

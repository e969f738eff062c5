"""Write tables of docs/nulls.md, docs/gain.md and of five pages in docs/research/ from stored results:
`python docs/stored_examples.py`.

Every number is from the runs and part scores in cached_runs; no model is run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from benchmarks.frame import fill
from skillviz.analysis.checkpoint_series import MOVEMENT, checkpoint_points, movement_held, series_of
from skillviz.analysis.null_measures import MEASURES, SHARED_ERRORS, SHARED_PROBABILITY, beyond_of_runs, by_measure
from skillviz.analysis.other_regions import other_regions
from skillviz.analysis.part_effects import part_effects
from skillviz.analysis.rivals import rivals as rivals_of
from skillviz.analysis.slices import CLASS, worst_first
from skillviz.analysis.subskills import region_subskills
from skillviz.core import formats
from skillviz.core.draws import MATCHED
from skillviz.core.metrics import metric_row
from skillviz.core.region_parts import ALONE, CELLS, HEADS, WITHOUT
from skillviz.runs.part_scores import REGIONS, RIVALS, PartScores, stored_parts
from skillviz.runs.record import RunRecord
from skillviz.runs.run import Run
from skillviz.runs.spec import key_in
from skillviz.runs.store import Library, Store
from skillviz.show import beyond, gain, slices, subskills
from skillviz.show import other_regions as shown
from skillviz.show import rivals as rivals_shown
from skillviz.show.briefs import brief_of, hero
from skillviz.show.comparisons import compared_rows
from skillviz.show.part_effects import NOUNS, strongest
from skillviz.studies.finetuned_model import is_by_sgd
from skillviz.tasks.readable_names import readable

STORE = PROJECT / "cached_runs"
PAGES = (
    "research/parts-and-slices.md", "research/checkpoints.md", "research/baselines.md", "nulls.md", "gain.md",
    "research/one-region-among-many.md", "research/rivals.md",
)  # fmt: skip
PARTS, CHECKPOINTS, BASELINES, NULLS, GAIN, REGIONS_PAGE, RIVALS_PAGE = (PROJECT / "docs" / name for name in PAGES)
COMMAND = "docs/stored_examples.py"
NONE = "Not measured."
SEARCHES = ("stagewise", MOVEMENT)
Measured = list[tuple[RunRecord, pd.DataFrame]]
"""Runs, each with its `analysis.null_measures.by_measure`."""
DEVELOPMENT = ("mr", "clinc_domains", "snli")
"""Tasks on which the leading measure was chosen; the others test it."""
RATES = {
    "964b0a270d": "0.04", "sst2-linear04": "0.04", "sst2-linear": "0.01", "minilm-l6-sst2": "0.01, pooler trained",
}  # fmt: skip
"""Models of SST-2 sentences on MiniLM, by the end of their name, with the learning rate of their fine-tuning."""
MOVED = 10_646
"""The parameters in the regions of these models, 0.1% of MiniLM's."""


def opened(store: Store) -> Run:
    """Return the run that the dashboard opens on."""
    chosen = hero([brief_of(run, is_of_user=False) for run in store.list()])
    assert chosen is not None
    return store.open(chosen.id)


def parts(store: Store) -> list[str]:
    """Return a row for each way to divide the region of the opening run, or of the first stored run with scored parts.

    Each row has the number of parts that change the likelihood, and the largest change of the accuracy by one part.
    """
    head = ("parts", "alone, NLL", "left out, NLL", "alone, accuracy", "left out, accuracy")
    run, rows = opened(store), []
    if not (store.root / "parts" / run.id).is_dir():
        run = next((one for one in store.list() if (store.root / "parts" / one.id).is_dir()), run)
    for grouping in (CELLS, HEADS):
        scores = stored_parts(Library((store,)), run, grouping)
        if scores is None:
            continue
        assert run.record.task is not None
        predictions, task = scores.predictions(), run.record.task
        by_metric = {metric: part_effects(predictions, task, metric) for metric in ("nll", "accuracy")}
        conditions = (ALONE, WITHOUT)
        counts = [count(strongest(by_metric["nll"], one, "nll")) for one in conditions]
        largest = [strongest_change(strongest(by_metric["accuracy"], one, "accuracy")) for one in conditions]
        n = len(strongest(by_metric["nll"], ALONE, "nll"))
        rows.append([formats.counted(n, NOUNS[grouping]), *counts, *largest])
    return [f"Run `{run.id}`.", "", *formats.markdown_table(head, rows)] if rows else [NONE]


def count(effects: pd.DataFrame) -> str:
    """Return `23 better, 1 worse (24 hold)` for changes in NLL."""
    verdicts = [metric_row("nll").verdict(low, high) for low, high in zip(effects["low"], effects["high"], strict=True)]
    held = compared_rows(effects).held
    return f"{verdicts.count('better')} better, {verdicts.count('worse')} worse ({held} hold)"


def strongest_change(effects: pd.DataFrame) -> str:
    """Return `layer 3, head 1: +5.5 points (3.7 to 7.5); 2 hold`."""
    first, words = effects.iloc[0], metric_row("accuracy")
    held = compared_rows(effects).held
    return f"{first['name']}: {words.change(first['value'])} ({words.ends(first['low'], first['high'])}); {held} hold"


def by_class(run: Run) -> list[str]:
    """Return a row for each class: the accuracy of the graft less the fine-tuned model's."""
    assert run.record.task is not None
    graft, tuned = slices.pair_answers(run.predictions(run.record.task.name), run.record, "test")
    table = worst_first(
        slices.differences(graft, tuned, slices.columns_of(graft, run.labels, None), "accuracy"), "accuracy"
    )
    words = metric_row("accuracy")
    return formats.markdown_table(("class", "examples", "graft − fine-tuned, accuracy"), [
        [row["name"], formats.count(row["n"]), f"{words.change(row['value'])} ({words.ends(row['low'], row['high'])})"]
        for row in table[table["column"] == CLASS].to_dict("records")
    ])  # fmt: skip


def checkpoints(store: Store) -> list[str]:
    """Return a row for each checkpoint of the opening run's fine-tuning: accuracies, the search's lead, and its
    region's overlap with others."""
    series = series_of(opened(store), store.list())
    if not series:
        return [NONE]
    table, words = checkpoint_points(series), metric_row("accuracy")
    own = table[table["metric"].isin(("accuracy", "overlap"))]
    rows = []
    for step, group in own.groupby("step"):
        found = {(row["what"], row["localizer"]): row for row in group.to_dict("records")}
        lead, shared, alike = (found[(what, "stagewise")] for what in ("lead", "shared", "alike"))
        accuracies = [found[key]["value"] for key in
                      (("finetuned", ""), ("grafted", "stagewise"), ("grafted", "movement"))]  # fmt: skip
        rows.append([
            formats.count(step), *(f"{100 * value:.1f}%" for value in accuracies),
            f"{words.change(lead['value'])} ({words.ends(lead['low'], lead['high'])})",
            f"{100 * shared['value']:.0f}% (chance {100 * shared['chance']:.0f}%)",
            f"{100 * alike['value']:.0f}%", f"{100 * found[('held', 'movement')]['value']:.0f}%", str(lead["seeds"]),
        ])  # fmt: skip
    head = (
        "steps", "fine-tuned", "stagewise", "top movement", "stagewise − top movement", "shares with the last region",
        "shares with top movement", "movement in top movement's region", "mask seeds",
    )  # fmt: skip
    return formats.markdown_table(head, rows)


def is_plain(run: Run) -> bool:
    """True if its search has the default settings, and its graft the fine-tuned values."""
    return not run.spec.search_fields() and run.spec.gain == 1


def rates(store: Store) -> list[str]:
    """Return a row for each model of RATES: its movement, and the search compared with top movement on it."""
    words, rows = metric_row("accuracy"), []
    runs = [run for run in store.list() if run.record.size == MOVED and is_plain(run)]
    for name, rate in RATES.items():
        own = [run for run in runs if run.spec.finetuned.endswith(name) and run.spec.localizer in SEARCHES]
        points = checkpoint_points({1: own})
        found = {(row["what"], row["localizer"]): row for row in points.to_dict("records") if row["metric"] != "ece"}
        lead, alike = found[("lead", "stagewise")], found[("alike", "stagewise")]
        rows.append([
            rate, f"{100 * found[('finetuned', '')]['value']:.1f}%",
            f"{own[0].layers()['movement_l2'].pow(2).sum() ** 0.5:.1f}",
            f"{100 * found[('held', 'movement')]['value']:.0f}%",
            f"{100 * alike['value']:.0f}% (chance {100 * alike['chance']:.0f}%)",
            f"{words.change(lead['value'])} ({words.ends(lead['low'], lead['high'])})", str(lead["seeds"]),
        ])  # fmt: skip
    head = (
        "rate", "fine-tuned", "moved (l2)", "movement in the top 0.1%", "shares with top movement",
        "stagewise − top movement", "mask seeds",
    )  # fmt: skip
    return formats.markdown_table(head, rows)


def across_tasks(store: Store) -> list[str]:
    """A sentence on the correlation, over tasks, of movement's concentration in few parameters with the search's lead.

    For each task that is scored by accuracy, the newest model by SGD with both searches is used.
    """
    by_task: dict[str, dict[str, list[Run]]] = {}
    for run in store.list():
        record = run.record
        plain = run.spec.localizer in SEARCHES and is_plain(run) and record.size == MOVED
        if not plain or record.metric != "accuracy" or record.base is None or record.finetuned is None:
            continue
        if record.base.source.endswith("minilm-l6") and is_by_sgd(run.spec.finetuned):
            by_task.setdefault(record.task_name, {}).setdefault(record.finetuned.fingerprint, []).append(run)
    rows = []
    for models in by_task.values():
        found = next((runs for runs in models.values() if {run.spec.localizer for run in runs} == set(SEARCHES)), None)
        if found is not None:
            by_localizer = {name: [run for run in found if run.spec.localizer == name] for name in SEARCHES}
            search, movement = (pd.Series([_accuracy(run) for run in of]).mean() for of in by_localizer.values())
            rows.append({"lead": search - movement, "held": movement_held(by_localizer[MOVEMENT][0])})
    table = pd.DataFrame(rows)
    rank = table["lead"].corr(table["held"], method="spearman")
    return [
        f"Between tasks it is not so: over one stored SGD model of MiniLM for each of {len(table)} tasks with "
        "accuracy, at 0.1%, the rank correlation of the share of the movement with the lead of the search is "
        f"{rank:+.2f}."
    ]


def _accuracy(run: Run) -> float:
    value = run.record.metrics["test"].states["grafted"]["accuracy"].value
    assert value is not None
    return value


def matched(store: Store) -> list[str]:
    """Return a row for the opening run, and for each random region with as many entries in each tensor."""
    search = opened(store)
    drawn = [
        run for run in store.list()
        if run.spec.localizer == MATCHED and key_in(run.spec.options.get("reference")) == search.record.key
    ]  # fmt: skip
    rows = []
    for run in (search, *sorted(drawn, key=lambda run: run.spec.seed)):
        scores = run.record.metrics["test"]
        gain, accuracy = scores.recovered, scores.states["grafted"]["accuracy"]
        assert gain is not None
        rows.append([
            f"`{run.spec.localizer}`", str(run.spec.seed),
            *(formats.percent_estimate(one.value, one.low, one.high) for one in (accuracy, gain)),
        ])  # fmt: skip
    return formats.markdown_table(("choice", "seed", "accuracy, %", "share of the gain, %"), rows)


def nulls(store: Store) -> list[str]:
    """Return a row for each null of the stored runs, first for the opening run's localizer and size, and the opening
    run's margin pooled over fine-tuned models."""
    first = opened(store)
    records = sorted((run.record for run in store.list()), key=lambda one: _order(one, first.record))
    table = beyond.by_run(records, "test")
    runs = [first, *(store.open(one.run_id) for one in beyond.of_other_models(first.record, records))]
    pooled = beyond.over_models(beyond_of_runs(runs, "test"))
    words = f"The opening run's search was made on fine-tuned models of several seeds. {pooled}"
    return [*formats.markdown_table(table.columns, table.values.tolist()), "", words] if len(table) else [NONE]


def null_measures(measured: Measured) -> list[str]:
    """Return a row for each measure with its separation of grafts from their nulls, in standard errors.

    A row has the median over the tasks of DEVELOPMENT of each task's median over runs, and the median of each task.
    """
    found = pd.concat(table.assign(task=record.task_name) for record, table in measured)
    by_task = found.groupby(["measure", "task"])["standard_errors"].median().unstack()
    others = [task for task in by_task.columns if task not in DEVELOPMENT]
    by_task.insert(0, "median", by_task[list(DEVELOPMENT)].median(axis=1))
    head = (
        "measure",
        "share or mean of",
        "median of three tasks",
        *(readable(name) for name in (*DEVELOPMENT, *others)),
    )
    rows = [
        [name, MEASURES[str(name)].meaning, *(formats.number(row[at], 1) for at in ("median", *DEVELOPMENT, *others))]
        for name, row in by_task.sort_values("median", ascending=False).iterrows()
    ]
    return formats.markdown_table(head, rows)


def likeness(measured: Measured) -> list[str]:
    """Return a row for each run with nulls: the overlap of its graft, and of its nulls, with the fine-tuned model."""
    rows = []
    for record, found in measured:
        told = beyond.measures(found).set_index("measure")
        cells = [
            told.loc[name, column]
            for name in (SHARED_PROBABILITY, SHARED_ERRORS) for column in ("graft", "null", "beyond")
        ]  # fmt: skip
        rows.append([*beyond.search_of(record).values(), *cells])
    head = ("task", "fine-tuned model", "localizer", "region", "seed", "shared probability: graft", "null", "beyond",
            "shared errors: graft", "null", "beyond")  # fmt: skip
    return formats.markdown_table(head, rows)


def _measured(store: Store) -> Measured:
    """Return the runs with nulls and their measures; runs of the opening run's task are first."""
    first = opened(store).record
    runs = sorted(store.list(), key=lambda run: _order(run.record, first))
    return [(run.record, found) for run in runs if len(found := by_measure(run))]


def _order(record: RunRecord, first: RunRecord) -> tuple[int | str, ...]:
    """Return a sort key that puts runs of the opening run's task, model, localizer and size first."""
    return (
        record.task_name != first.task_name, record.spec.finetuned != first.spec.finetuned,
        record.spec.localizer != first.spec.localizer, record.size != first.size, record.spec.seed,
        record.spec.finetuned,
    )  # fmt: skip


def gains(store: Store) -> list[str]:
    """Return a row for each gain that was fitted to a stored run's graft."""
    table = gain.by_run(sorted((run.record for run in store.list()), key=lambda one: one.task_name), "test")
    return formats.markdown_table(table.columns, table.values.tolist()) if len(table) else [NONE]


def beside_runs(
    store: Store, grouping: str, told: Callable[[Run, PartScores], tuple[pd.DataFrame, list[str]]]
) -> list[str]:
    """Return the table and the findings that `told` makes of the scores stored beside each run under a grouping."""
    lines = list[str]()
    for run in store.list():
        scores = stored_parts(Library((store,)), run, grouping)
        if scores is None:
            continue
        table, findings = told(run, scores)
        lines += [f"Run `{run.id}`, {scores.record.n:,} examples of the {scores.record.split} set.", ""]
        lines += [*formats.markdown_table(list(table.columns), table.values.tolist()), ""]
        lines += [*(f"- {line}" for line in findings), ""]
    return lines[:-1] or [NONE]


def regions(store: Store) -> list[str]:
    """Return the tables and findings of the other regions stored beside runs, with one row per region."""
    columns = ["region", "parameters", "accuracy", "NLL", "beyond control, NLL", "− this region, NLL"]

    def told(run: Run, scores: PartScores) -> tuple[pd.DataFrame, list[str]]:
        found = other_regions(run, scores)
        return shown.table(found)[columns], shown.finding(found, run.record, scores.record.facts)

    return beside_runs(store, REGIONS, told)


def groups(store: Store) -> list[str]:
    """Return the sub-skills of the cells scored beside each run, with one row per sub-skill, and the finding."""

    def told(run: Run, scores: PartScores) -> tuple[pd.DataFrame, list[str]]:
        assert run.record.task is not None
        found = region_subskills(scores.predictions(), run.record.task)
        assert found is not None
        return subskills.table(found, run.labels), [subskills.finding(found), subskills.clipped(found)]

    return beside_runs(store, CELLS, told)


def rivals(store: Store) -> list[str]:
    """Return the table and the findings of the rivals stored beside each run, with one row per graft or rival."""

    def told(run: Run, scores: PartScores) -> tuple[pd.DataFrame, list[str]]:
        found, metric = rivals_of(run, scores), run.record.metric
        said = [line for by in (metric, "nll") for line in rivals_shown.finding(found, by)]
        return rivals_shown.table(found, metric), said

    return beside_runs(store, RIVALS, told)


def main(
    parts_page: Path = PARTS, checkpoints_page: Path = CHECKPOINTS, baselines_page: Path = BASELINES,
    nulls_page: Path = NULLS, gain_page: Path = GAIN, regions_page: Path = REGIONS_PAGE,
    rivals_page: Path = RIVALS_PAGE,
) -> None:  # fmt: skip
    """Rewrite the tables in place."""
    store = Store(STORE)
    fill(
        parts_page,
        {"parts": parts(store), "sub-skills": groups(store), "classes": by_class(opened(store))},
        COMMAND,
    )
    fill(
        checkpoints_page,
        {"checkpoints": checkpoints(store), "rates": rates(store), "across tasks": across_tasks(store)},
        COMMAND,
    )
    fill(baselines_page, {"matched": matched(store)}, COMMAND)
    measured = _measured(store)
    fill(
        nulls_page,
        {"measured": nulls(store), "measures": null_measures(measured), "likeness": likeness(measured)},
        COMMAND,
    )
    fill(gain_page, {"measured": gains(store)}, COMMAND)
    fill(regions_page, {"regions": regions(store)}, COMMAND)
    fill(rivals_page, {"rivals": rivals(store)}, COMMAND)
    print(f"wrote {', '.join(PAGES)}")


if __name__ == "__main__":
    main()

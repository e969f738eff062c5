"""Judge the goals of docs/localizers.md by results/localizer.csv: met, not met or undecided, with paired intervals.

Differences are in points of test accuracy, paired by example. A task's difference is the mean over its fine-tuned
models (each by its mean over mask seeds); its 95% interval is over those models and the examples together
(core/seeds_interval.py). With one fine-tuned model it is over the examples alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.between_marks import fill
from benchmarks.localizer import AS_PUBLISHED, KEY, LABELS, METHODS, RESULTS, ROOT, SIZES, TASKS, Pair, Stored, plan
from skillviz.core.localizers.table import LOCALIZERS, Localizer, Workload
from skillviz.core.many_comparisons import RATE, expected_by_chance
from skillviz.core.seeds_interval import seeds_and_examples
from skillviz.show.comparisons import compared_rows, counted_rows

PAGE = ROOT / "docs" / "localizers.md"
MINILM = Workload(d=10_646_784, labels=2, train=6908, validation=872, size=10_646)
"""MiniLM on SST-2 sentences at 0.1%: the workload for the table of costs."""
MARGIN, BAD_SEED = 1.0, 2.0
"""In points: the margin of "level", and the distance of a bad seed below the median seed."""
ALL_SIZES = (*SIZES, "10%")
"""All sizes; the last only on the tasks in TENTH."""
MET, NOT_MET, UNDECIDED = "met", "not met", "undecided"
OURS, QUARTER, NESTED, LEARNED = "judged", "judged, a quarter", "nested", "learned"
DEFAULT = "stagewise"
COMPARED = ((DEFAULT, LEARNED), (OURS, DEFAULT), (OURS, AS_PUBLISHED))
"""Methods that are compared beside the goals."""


class Difference(NamedTuple):
    """A mean difference of accuracies in points with its 95% interval, the number of regions behind it, and the number
    of fine-tuning seeds in the interval."""

    value: float
    low: float
    high: float
    regions: int
    seeds: int = 1

    @property
    def is_better(self) -> bool:
        """True if the interval is above zero."""
        return self.low > 0

    @property
    def is_worse(self) -> bool:
        """True if the interval is below zero."""
        return self.high < 0

    def text(self) -> str:
        """Return `+0.6 (−0.6 to 1.7)`."""
        return f"{self.value:+.1f} ({self.low:.1f} to {self.high:.1f})".replace("-", "−")


@dataclass(frozen=True)
class Verdict:
    """The verdict on a goal from the comparisons so far, with the reasons; `planned` is their final number."""

    goal: str
    verdict: str
    comparisons: int
    planned: int
    reasons: tuple[str, ...]

    def words(self) -> str:
        """Return `met` after all comparisons, `met so far` after some."""
        return f"{self.verdict} so far" if self.verdict == MET and self.comparisons < self.planned else self.verdict


class Answers:
    """The right and wrong answers of each region on the test examples, from the stored rows."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self.rows = rows
        self.right: dict[tuple[object, ...], np.ndarray] = {}
        labels = {
            (row.task, row.is_early, row.finetune_seed): np.frombuffer(row.predicted, np.uint8)
            for row in rows[rows["method"] == LABELS].itertuples()
        }
        for row in rows[rows["method"] != LABELS].to_dict("records"):
            wanted = labels[row["task"], row["is_early"], row["finetune_seed"]]
            self.right[tuple(row[name] for name in KEY)] = np.frombuffer(row["predicted"], np.uint8) == wanted

    @property
    def pairs(self) -> list[tuple[str, bool]]:
        """Tasks, full and early-stopped, in the order of the rows."""
        return list(dict.fromkeys(zip(self.rows["task"], self.rows["is_early"], strict=True)))

    def sizes(self, task: str, is_early: bool) -> list[str]:
        """Return the sizes that have regions, smallest first."""
        rows = self.rows[(self.rows["task"] == task) & (self.rows["is_early"] == is_early) & (self.rows["size"] != "")]
        return sorted(set(rows["size"]), key=lambda size: float(size.rstrip("%")))

    def of(self, task: str, is_early: bool, size: str, method: str) -> dict[tuple[int, int], np.ndarray]:
        """Right answers [n] by fine-tuning and mask seed; a method without mask seeds has one region for all."""
        return {
            (key[2], key[3]): right
            for key, right in self.right.items()
            if (key[0], key[1], key[4], key[5]) == (task, is_early, size, method)
        }  # type: ignore[misc]

    def difference(self, task: str, is_early: bool, one: tuple[str, str], other: tuple[str, str]) -> Difference | None:
        """Return the accuracy of one (size, method) minus another's on a pair; None if there is nothing to compare."""
        left, right = self.of(task, is_early, *one), self.of(task, is_early, *other)
        by_model: dict[int, list[np.ndarray]] = {}
        for (model, mask), answers in left.items():
            against = right.get((model, mask if METHODS[other[1]].is_seeded else 0))
            if against is not None:
                by_model.setdefault(model, []).append(answers.astype(float) - against)
        if not by_model:
            return None
        models = np.array([np.mean(found, axis=0) for found in by_model.values()])
        return _difference(models, sum(map(len, by_model.values())))


def _difference(models: np.ndarray, regions: int) -> Difference:
    """Return the mean of differences [model, example] in points with its interval."""
    examples = models.mean(0)
    sd = float(examples.std(ddof=1)) / np.sqrt(len(examples))
    found = seeds_and_examples(100 * models.mean(1), 100 * sd)
    return Difference(found.value, found.low, found.high, regions, len(models))


def verdicts(answers: Answers) -> list[Verdict]:
    """Return each goal's verdict, in the order of the page."""
    return [
        *(beats_learned(answers, size) for size in ALL_SIZES),
        level_with_a_quarter(answers),
        tenth_of_movement(answers),
        no_bad_seed(answers),
        not_below_movement(answers),
        nested_loses_little(answers),
    ]


def beats_learned(answers: Answers, size: str) -> Verdict:
    """Judge: better than the learned mask on the majority of tasks, worse on none, at one size."""
    found = {
        task: difference
        for task, is_early in answers.pairs
        if not is_early and (difference := answers.difference(task, False, (size, OURS), (size, LEARNED)))
    }
    better = [task for task, difference in found.items() if difference.is_better]
    worse = [task for task, difference in found.items() if difference.is_worse]
    level = [t for t, d in found.items() if -MARGIN < d.low <= 0 <= d.high < MARGIN]
    tasks = _tasks(size)
    half = tasks / 2
    verdict = NOT_MET if worse or len(level) >= half else MET if len(better) > half else UNDECIDED
    goal = f"At {size}: better than the learned mask on most tasks, worse on none, with half of its gradients"
    return Verdict(goal, verdict, len(found), tasks, tuple(f"{t}: {d.text()}" for t, d in found.items()))


def _tasks(size: str) -> int:
    """Return the number of tasks for which the plan has regions of a size."""
    return len({pair.task for pair, of in _by_group() if of == size and not pair.is_early})


def level_with_a_quarter(answers: Answers) -> Verdict:
    """Judge: at least level with the learned mask, with a quarter of its gradients, on every task and size."""
    found = {
        f"{task} {size}": difference
        for task, is_early in answers.pairs
        if not is_early
        for size in ALL_SIZES
        if (difference := answers.difference(task, False, (size, QUARTER), (size, LEARNED)))
    }
    return _at_least_as_good(
        "Level with the learned mask or better, with a quarter of its gradients", found, sum(map(_tasks, ALL_SIZES))
    )


def tenth_of_movement(answers: Answers) -> Verdict:
    """Judge: at 0.1% at least as good as top movement at 1%, on every pair."""
    found = {
        pair_name(*pair): difference
        for pair in answers.pairs
        if (difference := answers.difference(*pair, ("0.1%", OURS), ("1%", "movement")))
    }
    goal = "At 0.1% at least as good as top movement at 1%, on every pair"
    return _at_least_as_good(goal, found, len({(pair.task, pair.is_early) for pair, _ in _by_group()}))


def no_bad_seed(answers: Answers) -> Verdict:
    """Judge: no mask seed more than BAD_SEED points below the median seed, with an interval that excludes 0."""
    bad, compared = [], 0
    for pair in answers.pairs:
        for size in answers.sizes(*pair):
            for model, group in _by_model(answers.of(*pair, size, OURS)):
                if len(group) < 3:
                    continue
                accuracies = {mask: float(right.mean()) for mask, right in group.items()}
                middle = sorted(accuracies, key=accuracies.__getitem__)[(len(group) - 1) // 2]
                for mask, right in group.items():
                    compared += 1
                    difference = _difference((right.astype(float) - group[middle])[None], 1)
                    if difference.value < -BAD_SEED and difference.is_worse:
                        bad.append(f"{pair_name(*pair)} {size}, model {model}, seed {mask}: {difference.text()}")
    verdict = NOT_MET if bad else MET if compared else UNDECIDED
    planned = sum(len(regions) for regions in _by_group().values() if len(regions) >= 3)
    return Verdict("No seed more than two points below the median seed", verdict, compared, planned, tuple(bad))


def not_below_movement(answers: Answers) -> Verdict:
    """Judge: no region worse than top movement of its size."""
    worse, compared = [], 0
    for pair in answers.pairs:
        for size in answers.sizes(*pair):
            movement = answers.of(*pair, size, "movement")
            for (model, mask), right in answers.of(*pair, size, OURS).items():
                if (model, 0) in movement:
                    compared += 1
                    difference = _difference((right.astype(float) - movement[model, 0])[None], 1)
                    if difference.is_worse:
                        worse.append(f"{pair_name(*pair)} {size}, model {model}, seed {mask}: {difference.text()}")
    verdict = NOT_MET if worse else MET if compared else UNDECIDED
    planned = sum(map(len, _by_group().values()))
    if worse:  # by chance an interval is on this side of zero half as often as it excludes zero
        by_chance = expected_by_chance(compared) / 2
        worse.append(f"{len(worse)} in all; chance alone would give about {by_chance:.1f} were all level")
    return Verdict("No region worse than top movement of its size", verdict, compared, planned, tuple(worse))


def nested_loses_little(answers: Answers) -> Verdict:
    """Judge: one search for all sizes is within the margin of a search for each."""
    found = {
        f"{pair_name(*pair)} {size}": difference
        for pair in answers.pairs
        for size in answers.sizes(*pair)
        if (difference := answers.difference(*pair, (size, NESTED), (size, OURS)))
    }
    goal = "One nested search loses at most one point to a search for each size"
    return _at_least_as_good(goal, found, len({(pair.task, pair.is_early, size) for pair, size in _by_group()}))


def _by_group() -> dict[tuple[Pair, str], list[int]]:
    """Return the mask seeds of every fine-tuned model and size of our regions in the whole plan."""
    groups: dict[tuple[Pair, str], list[int]] = {}
    for cell in plan():
        if cell.method == OURS:
            groups.setdefault((cell.pair, cell.size), []).append(cell.mask_seed)
    return groups


def _at_least_as_good(goal: str, found: dict[str, Difference], planned: int) -> Verdict:
    """Return MET if every interval is above minus the margin, NOT_MET if one is below it, else UNDECIDED."""
    if any(difference.high < -MARGIN for difference in found.values()):
        verdict = NOT_MET
    else:
        verdict = MET if found and all(difference.low > -MARGIN for difference in found.values()) else UNDECIDED
    open_or_worse = {name: d for name, d in found.items() if d.low <= -MARGIN}
    return Verdict(goal, verdict, len(found), planned, tuple(f"{n}: {d.text()}" for n, d in open_or_worse.items()))


def _by_model(
    regions: dict[tuple[int, int], np.ndarray],
) -> Iterator[tuple[int, dict[int, np.ndarray]]]:
    for model in sorted({model for model, _ in regions}):
        yield model, {mask: right for (one, mask), right in regions.items() if one == model}


def pair_name(task: str, is_early: bool) -> str:
    return f"{task}, stopped early" if is_early else task


def goals_table(found: Iterable[Verdict]) -> list[str]:
    """Markdown with one row per goal; `details` has all differences if the goal is per task, else the exceptions."""
    lines = ["| goal | verdict | comparisons | details, points |", "|" + " --- |" * 4]
    for row in found:
        lines.append(
            f"| {row.goal} | **{row.words()}** | {row.comparisons:,} of {row.planned:,} | {'; '.join(row.reasons)} |"
        )
    return lines


def default_line(answers: Answers) -> list[str]:
    """Markdown that compares the default search with the learned mask, on every fully fine-tuned task and size."""
    found = [
        difference
        for task, is_early in answers.pairs
        for size in ALL_SIZES
        if not is_early and (difference := answers.difference(task, False, (size, DEFAULT), (size, LEARNED)))
    ]
    counts, worse = compared_rows(pd.DataFrame(found, columns=Difference._fields)), sum(d.is_worse for d in found)
    return [
        f"- **`{DEFAULT}`** is the default. In the [evaluation](#the-evaluation) it was better than the learned mask "
        f"in {sum(d.is_better for d in found)} of {counts.n} comparisons and worse in {worse}, with half of the "
        f"gradients. {counts.held} of these differences hold at a false discovery rate of {RATE:.0%}."
    ]


def comparisons_table(answers: Answers) -> list[str]:
    """Return Markdown that compares two methods at equal size outside the goals, on every fully fine-tuned task.

    Below the table is the number of each two methods' comparisons that chance alone would decide.
    """
    lines = [
        "| one minus the other | size | better | worse | no clear difference | by task, points |",
        "|" + " --- |" * 6,
    ]
    tasks, counts_of = [task for task, is_early in answers.pairs if not is_early], []
    for one, other in COMPARED:
        made: list[Difference] = []
        for size in ALL_SIZES:
            found = {
                task: difference
                for task in tasks
                if (difference := answers.difference(task, False, (size, one), (size, other)))
            }
            better, worse = (sum(d.is_better for d in found.values()), sum(d.is_worse for d in found.values()))
            texts = "; ".join(f"{task}: {difference.text()}" for task, difference in found.items())
            made += found.values()
            if found:
                counts = f"{better} | {worse} | {sum(d.low <= 0 <= d.high for d in found.values())}"
                lines.append(f"| {one} − {other} | {size} | {counts} | {texts} |")
        if len(made) > 1:
            counts_of.append(f"- {one} − {other}: {counted_rows(pd.DataFrame(made))}")
    return [*lines, "", *counts_of] if counts_of else lines


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows by pair, size and method, in the plan's order rather than the order in which they were made."""
    ranks = {
        "task": {name: number for number, name in enumerate(TASKS)},
        "size": {name: number for number, name in enumerate(("", *SIZES, "10%"))},
        "method": {name: number for number, name in enumerate(("base", "fine-tuned", *METHODS))},
    }
    return rows.sort_values(
        ["task", "is_early", "size", "method"],
        kind="stable",
        key=lambda values: values.map(ranks.get(values.name, int)),
    )


def scores_table(rows: pd.DataFrame) -> list[str]:
    """Markdown: mean accuracy of each method by pair and size, the spread of its regions, gradients and seconds."""
    lines = [
        "| task | size | method | regions | accuracy, % | lowest region | spread (sd) | NLL | ECE, % "
        "| gradients | seconds |",
        "|" + " --- |" * 11,
    ]
    regions = in_order(rows[rows["method"] != LABELS]).fillna({"gradients": 0, "seconds": 0})
    for (task, is_early, size, method), group in regions.groupby(["task", "is_early", "size", "method"], sort=False):
        spread = f"{group['accuracy'].std():.1f}" if len(group) > 1 else ""
        lines.append(
            f"| {pair_name(task, is_early)} | {size} | {method} | {len(group)} | {group['accuracy'].mean():.1f} | "
            f"{group['accuracy'].min():.1f} | {spread} | {group['nll'].mean():.3f} | {group['ece'].mean():.1f} | "
            f"{group['gradients'].mean():,.0f} | {group['seconds'].mean():,.0f} |"
        )
    return lines


def overview() -> list[str]:
    """Return Markdown: each localizer's method, and the number of examples that one search runs through the model."""
    lines = [
        "| localizer | on pages | what it does | source | size | examples forward and backward | examples forward |",
        "|" + " --- |" * 7,
    ]
    for row in LOCALIZERS.values():
        cost = row.cost(row.options(), MINILM)
        lines.append(
            f"| `{row.name}` | {row.title} | {row.sentence} | {row.source} | {_size(row)} | {cost.backward:,.0f} "
            f"| {cost.forward:,.0f} |"
        )
    return lines


def _size(row: Localizer) -> str:
    if not row.budgeted:
        return "an outcome"
    return "exact; one search for all sizes" if row.nested else "exact"


def tables(stored: Stored) -> dict[str, list[str]]:
    """Return the content between the marks of docs/localizers.md, by the name of the mark."""
    found = {"overview": overview(), "development": development_table()}
    regions = [row for row in stored.rows if row["size"]]
    found["state"] = [f"{len(regions):,} of {len(plan()):,} regions are measured."]
    if regions:
        rows = pd.DataFrame(stored.rows)
        answers = Answers(rows)
        found |= {"goals": goals_table(verdicts(answers)), "comparisons": comparisons_table(answers)}
        found["default"] = default_line(answers)
        found["scores"] = scores_table(rows)
    return found


def development_table(path: Path = RESULTS / "localizer_development.csv") -> list[str]:
    """Return Markdown: the settings that were tried before the configuration was frozen, on validation data."""
    lines = ["| task | size | setting | seed | accuracy, % | NLL |", "|" + " --- |" * 6]
    for row in pd.read_csv(path, keep_default_na=False).to_dict("records"):
        name = pair_name(row["task"], row["is_early"] in (True, "True"))
        lines.append(
            f"| {name} | {row['size']} | {row['setting']} | {row['mask_seed']} | {float(row['accuracy']):.1f} | "
            f"{float(row['nll']):.3f} |"
        )
    return lines


def write_tables(folder: Path = RESULTS, page: Path = PAGE) -> None:
    """Write every table between its marks in the page; a mark without results keeps its content."""
    fill(page, tables(Stored(folder)), "python -m benchmarks localizer")

"""Judge the goals of docs/localizers.md by results/localizer.csv: met, not met or undecided, with paired intervals.

Differences are in points of test accuracy, paired by example. A task's difference is the mean over its fine-tuned
models (each by its mean over mask seeds); its 95% interval is over those models and the examples together
(core/seeds_interval.py). With one fine-tuned model it is over the examples alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.frame import RESULTS, ROOT, Rows, fill
from benchmarks.localizer import AS_PUBLISHED, KEY, LABELS, METHODS, SIZES, TASKS, Cell, plan
from skillviz.core.formats import markdown_table
from skillviz.core.localizers.table import LOCALIZERS, Workload
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
SIZED = {(False, False): "an outcome", (True, False): "exact", (True, True): "exact; one search for all sizes"}
"""The size of a localizer's region, by whether it has a budget and nested regions."""
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


class Verdict(NamedTuple):
    """The verdict on a goal from the comparisons so far, with the reasons; `planned` is their final number."""

    goal: str
    verdict: str
    comparisons: int
    planned: int
    reasons: tuple[str, ...]

    def words(self) -> str:
        """Return `met` after all comparisons, `met so far` after some."""
        return f"{self.verdict} so far" if self.verdict == MET and self.comparisons < self.planned else self.verdict


class Group(NamedTuple):
    """The regions of one size on all fine-tuned models of a task."""

    task: str
    is_early: bool
    size: str


class Answers:
    """The right and wrong answers of each region on the test examples, from the stored rows.

    `right` has them [n] by group and method, and then by fine-tuning and mask seed; a method without mask seeds has one
    region for all.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        cells = [Cell(*(row[name] for name in KEY)) for row in rows.to_dict("records")]
        classes = [np.frombuffer(predicted, np.uint8) for predicted in rows["predicted"]]
        labels = {cell.pair: own for cell, own in zip(cells, classes, strict=True) if cell.method == LABELS}
        self.right: dict[tuple[Group, str], dict[tuple[int, int], np.ndarray]] = {}
        for cell, own in zip(cells, classes, strict=True):
            if cell.size:
                of = self.right.setdefault((Group(cell.task, cell.is_early, cell.size), cell.method), {})
                of[cell.finetune_seed, cell.mask_seed] = own == labels[cell.pair]
        pairs = list(dict.fromkeys(cell.pair[:2] for cell in cells))
        groups = {group for group, _ in self.right}
        self.groups = sorted(groups, key=lambda group: (pairs.index(group[:2]), ALL_SIZES.index(group.size)))

    def of(self, group: Group, method: str) -> dict[tuple[int, int], np.ndarray]:
        """Return the regions of a method in a group; {} if there are none."""
        return self.right.get((group, method), {})

    def difference(self, group: Group, one: str, other: str, size: str = "") -> Difference | None:
        """Return the accuracy of one method minus another's, whose regions may be of another size; None if there is
        nothing to compare."""
        right = self.of(group._replace(size=size or group.size), other)
        by_model: dict[int, list[np.ndarray]] = {}
        for (model, mask), answers in self.of(group, one).items():
            against = right.get((model, mask if METHODS[other].is_seeded else 0))
            if against is not None:
                by_model.setdefault(model, []).append(answers.astype(float) - against)
        if not by_model:
            return None
        models = np.array([np.mean(found, axis=0) for found in by_model.values()])
        return _difference(models, sum(map(len, by_model.values())))

    def differences(self, one: str, other: str, **at: str) -> dict[Group, Difference]:
        """Return the difference of every group that has both methods."""
        found = {group: self.difference(group, one, other, **at) for group in self.groups}
        return {group: difference for group, difference in found.items() if difference is not None}


def _difference(models: np.ndarray, regions: int) -> Difference:
    """Return the mean of differences [model, example] in points with its interval."""
    examples = models.mean(0)
    sd = float(examples.std(ddof=1)) / np.sqrt(len(examples))
    found = seeds_and_examples(100 * models.mean(1), 100 * sd)
    return Difference(found.value, found.low, found.high, regions, len(models))


def verdicts(answers: Answers) -> list[Verdict]:
    """Return each goal's verdict, in the order of the page."""
    against, quarter = answers.differences(OURS, LEARNED), answers.differences(QUARTER, LEARNED)
    movement = answers.differences(OURS, "movement", size="1%")
    return [
        *(beats_learned(size, {g.task: d for g, d in against.items() if (g.is_early, g.size) == (False, size)})
          for size in ALL_SIZES),
        at_least_as_good(
            "Level with the learned mask or better, with a quarter of its gradients",
            {f"{g.task} {g.size}": d for g, d in quarter.items() if not g.is_early},
            sum(not group.is_early for group in planned()),
        ),
        at_least_as_good(
            "At 0.1% at least as good as top movement at 1%, on every pair",
            {pair_name(g.task, g.is_early): d for g, d in movement.items() if g.size == "0.1%"},
            len({group[:2] for group in planned()}),
        ),
        no_bad_seed(answers),
        not_below_movement(answers),
        at_least_as_good(
            "One nested search loses at most one point to a search for each size",
            {f"{pair_name(g.task, g.is_early)} {g.size}": d for g, d in answers.differences(NESTED, OURS).items()},
            len(planned()),
        ),
    ]  # fmt: skip


@cache
def planned() -> dict[Group, list[tuple[int, int]]]:
    """Return fine-tuning and mask seed of each of our regions in the whole plan, by group."""
    groups: dict[Group, list[tuple[int, int]]] = {}
    for cell in plan():
        if cell.method == OURS:
            group = Group(cell.task, cell.is_early, cell.size)
            groups.setdefault(group, []).append((cell.finetune_seed, cell.mask_seed))
    return groups


def beats_learned(size: str, found: dict[str, Difference]) -> Verdict:
    """Judge: better than the learned mask on the majority of tasks, worse on none, at one size."""
    better, worse = (sum(getattr(d, name) for d in found.values()) for name in ("is_better", "is_worse"))
    level = sum(-MARGIN < d.low <= 0 <= d.high < MARGIN for d in found.values())
    tasks = sum((group.is_early, group.size) == (False, size) for group in planned())
    verdict = NOT_MET if worse or level >= tasks / 2 else MET if better > tasks / 2 else UNDECIDED
    goal = f"At {size}: better than the learned mask on most tasks, worse on none, with half of its gradients"
    return Verdict(goal, verdict, len(found), tasks, tuple(f"{t}: {d.text()}" for t, d in found.items()))


def each_region(
    answers: Answers, rival: Callable[[Group, int, dict[int, np.ndarray]], np.ndarray | None]
) -> dict[str, Difference]:
    """Return the difference of each of our regions, by its name, to the answers that `rival` returns for its group,
    fine-tuned model, and that model's regions by mask seed."""
    found: dict[str, Difference] = {}
    for group in answers.groups:
        regions = answers.of(group, OURS)
        for model in sorted({model for model, _ in regions}):
            own = {mask: right for (one, mask), right in regions.items() if one == model}
            name, other = f"{pair_name(*group[:2])} {group.size}, model {model}, seed", rival(group, model, own)
            if other is not None:
                found |= {
                    f"{name} {mask}": _difference((right.astype(float) - other)[None], 1) for mask, right in own.items()
                }
    return found


def no_bad_seed(answers: Answers) -> Verdict:
    """Judge: no mask seed more than BAD_SEED points below the median seed, with an interval that excludes 0."""

    def median(group: Group, model: int, regions: dict[int, np.ndarray]) -> np.ndarray | None:
        return sorted(regions.values(), key=np.mean)[(len(regions) - 1) // 2] if len(regions) >= 3 else None

    found = each_region(answers, median)
    bad = tuple(f"{n}: {d.text()}" for n, d in found.items() if d.value < -BAD_SEED and d.is_worse)
    seeds = [[model for model, _ in of] for of in planned().values()]
    count = sum(of.count(model) for of in seeds for model in set(of) if of.count(model) >= 3)
    verdict = NOT_MET if bad else MET if found else UNDECIDED
    return Verdict("No seed more than two points below the median seed", verdict, len(found), count, bad)


def not_below_movement(answers: Answers) -> Verdict:
    """Judge: no region worse than top movement of its size."""
    found = each_region(answers, lambda group, model, regions: answers.of(group, "movement").get((model, 0)))
    worse = [f"{n}: {d.text()}" for n, d in found.items() if d.is_worse]
    verdict, count = NOT_MET if worse else MET if found else UNDECIDED, sum(map(len, planned().values()))
    if worse:  # by chance an interval is on this side of zero half as often as it excludes zero
        by_chance = expected_by_chance(len(found)) / 2
        worse.append(f"{len(worse)} in all; chance alone would give about {by_chance:.1f} were all level")
    return Verdict("No region worse than top movement of its size", verdict, len(found), count, tuple(worse))


def at_least_as_good(goal: str, found: dict[str, Difference], planned: int) -> Verdict:
    """Return MET if every interval is above minus the margin, NOT_MET if one is below it, else UNDECIDED."""
    short = {name: d for name, d in found.items() if d.low <= -MARGIN}
    is_below = any(difference.high < -MARGIN for difference in short.values())
    verdict = NOT_MET if is_below else MET if found and not short else UNDECIDED
    return Verdict(goal, verdict, len(found), planned, tuple(f"{n}: {d.text()}" for n, d in short.items()))


def pair_name(task: str, is_early: bool) -> str:
    return f"{task}, stopped early" if is_early else task


def goals_table(found: Sequence[Verdict]) -> list[str]:
    """Markdown with one row per goal; `details` has all differences if the goal is per task, else the exceptions."""
    return markdown_table(("goal", "verdict", "comparisons", "details, points"), (
        (row.goal, f"**{row.words()}**", f"{row.comparisons:,} of {row.planned:,}", "; ".join(row.reasons))
        for row in found
    ))  # fmt: skip


def default_line(answers: Answers) -> list[str]:
    """Markdown that compares the default search with the learned mask, on every fully fine-tuned task and size."""
    found = [d for group, d in answers.differences(DEFAULT, LEARNED).items() if not group.is_early]
    counts, worse = compared_rows(pd.DataFrame(found)), sum(difference.is_worse for difference in found)
    return [
        f"- **`{DEFAULT}`** is the default. In the [evaluation](#the-evaluation) it was better than the learned mask "
        f"in {sum(d.is_better for d in found)} of {counts.n} comparisons and worse in {worse}, "
        f"with half of the gradients. {counts.held} of these differences hold at a false discovery rate of {RATE:.0%}."
    ]


def comparisons_table(answers: Answers) -> list[str]:
    """Return Markdown that compares two methods at equal size outside the goals, on every fully fine-tuned task.

    Below the table is the number of each two methods' comparisons that chance alone would decide.
    """
    lines, counts = [], []
    for one, other in COMPARED:
        every = {group: d for group, d in answers.differences(one, other).items() if not group.is_early}
        made = []
        for size in ALL_SIZES:
            found = {group.task: difference for group, difference in every.items() if group.size == size}
            better, worse = (sum(getattr(d, name) for d in found.values()) for name in ("is_better", "is_worse"))
            texts = "; ".join(f"{task}: {difference.text()}" for task, difference in found.items())
            made += found.values()
            if found:
                numbers = (str(better), str(worse), str(len(found) - better - worse))
                lines.append((f"{one} − {other}", size, *numbers, texts))
        counts += [f"- {one} − {other}: {counted_rows(pd.DataFrame(made))}"] if len(made) > 1 else []
    head = ("one minus the other", "size", "better", "worse", "no clear difference", "by task, points")
    return [*markdown_table(head, lines), "", *counts]


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows by pair, size and method, in the plan's order rather than the order in which they were made."""
    ranks = {"task": list(TASKS), "size": ["", *ALL_SIZES], "method": ["base", "fine-tuned", *METHODS]}
    return rows.sort_values(
        ["task", "is_early", "size", "method"], kind="stable",
        key=lambda values: values.map(ranks[values.name].index) if values.name in ranks else values,
    )  # fmt: skip


def scores_table(rows: pd.DataFrame) -> list[str]:
    """Markdown: mean accuracy of each method by pair and size, the spread of its regions, gradients and seconds."""
    head = ("task", "size", "method", "regions", "accuracy, %", "lowest region", "spread (sd)", "NLL", "ECE, %",
            "gradients", "seconds")  # fmt: skip
    regions = in_order(rows[rows["method"] != LABELS]).fillna({"gradients": 0, "seconds": 0})
    return markdown_table(head, (
        (pair_name(task, is_early), size, method, str(len(group)), f"{group['accuracy'].mean():.1f}",
         f"{group['accuracy'].min():.1f}", f"{group['accuracy'].std():.1f}" if len(group) > 1 else "",
         f"{group['nll'].mean():.3f}", f"{group['ece'].mean():.1f}", f"{group['gradients'].mean():,.0f}",
         f"{group['seconds'].mean():,.0f}")
        for (task, is_early, size, method), group in
        regions.groupby(["task", "is_early", "size", "method"], sort=False)
    ))  # fmt: skip


def overview() -> list[str]:
    """Return Markdown: each localizer's method, and the number of examples that one search runs through the model."""
    head = ("localizer", "on pages", "what it does", "source", "size", "examples forward and backward",
            "examples forward")  # fmt: skip
    costs = {row.name: row.cost(row.options(), MINILM) for row in LOCALIZERS.values()}
    return markdown_table(head, (
        (f"`{row.name}`", row.title, row.sentence, row.source, SIZED[row.budgeted, row.nested],
         f"{costs[row.name].backward:,.0f}", f"{costs[row.name].forward:,.0f}")
        for row in LOCALIZERS.values()
    ))  # fmt: skip


def tables(rows: Rows) -> dict[str, list[str]]:
    """Return the content between the marks of docs/localizers.md, by the name of the mark."""
    regions, frame = sum(bool(row["size"]) for row in rows.rows), pd.DataFrame(rows.rows)
    answers = Answers(frame)
    return {
        "overview": overview(), "development": development_table(),
        "state": [f"{regions:,} of {len(plan()):,} regions are measured."],
        "goals": goals_table(verdicts(answers)), "comparisons": comparisons_table(answers),
        "default": default_line(answers), "scores": scores_table(frame),
    }  # fmt: skip


def development_table() -> list[str]:
    """Return Markdown: the settings that were tried before the configuration was frozen, on validation data."""
    rows = pd.read_csv(RESULTS / "localizer_development.csv", keep_default_na=False)
    return markdown_table(("task", "size", "setting", "seed", "accuracy, %", "NLL"), (
        (row["task"], row["size"], row["setting"], str(row["mask_seed"]), f"{row['accuracy']:.1f}", f"{row['nll']:.3f}")
        for row in rows.to_dict("records")
    ))  # fmt: skip


def write(rows: Rows) -> None:
    """Write every table between its marks in the page."""
    fill(PAGE, tables(rows), "python -m benchmarks localizer")

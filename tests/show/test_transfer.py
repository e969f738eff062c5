"""Tests of the transfer page's sentence and counts: claims need an interval that supports them, skipped tasks count."""

from __future__ import annotations

from typing import Any

from skillviz.runs.record import Estimate, Scores, TransferNote
from skillviz.show import transfer as words
from tests.show.test_interpolation import record
from tests.tables import says


def note(name: str = "imdb", value: float = 0.04, low: float = 0.01, high: float = 0.07, **changes: Any) -> Any:
    """Return a transfer with this difference in accuracy."""
    scores = Scores(n=100, states={}, differences={"accuracy": Estimate(value=value, low=low, high=high)})
    given = {"mapping": {"neg": "negative", "pos": "positive"}, "rows": 120, "dropped": 15, "unmapped": 5}
    return TransferNote(name=name, named=f"{name}.yaml", scores=scores, **{**given, **changes})


def of_pairs(gained: int, lost: int) -> Any:
    differences = {"accuracy": Estimate(value=0.04, low=0.01, high=0.07, gained=gained, lost=lost)}
    return note().model_copy(update={"scores": Scores(n=100, states={}, differences=differences)})


def with_states() -> Any:
    states = {"grafted": {"accuracy": Estimate(value=0.8)}, "finetuned": {"accuracy": Estimate(value=0.76)}}
    return note().model_copy(update={"scores": note().scores.model_copy(update={"states": states})})


NOT_CLEAR = note("mr", 0.01, -0.02, 0.04)
FEW, MANY = of_pairs(2, 0), of_pairs(20, 4)  # McNemar's p: 0.16 and 0.001
SIX = [note(f"t{k}") for k in range(3)] + [note("a"), note("b"), note("c", 0.0, -0.1, 0.1)]
test_what_is_said_of_transfers = says({
    "each task has its verdict": (
        lambda: words.summary([note(), note("yelp", -0.05, -0.08, -0.02), NOT_CLEAR], "accuracy"),
        ("^IMDb, zero-shot: accuracy +4.0 points", ": **better**; Yelp, zero-shot: accuracy −5.0 points",
         ": **worse**; MR, zero-shot:",
         ": **no clear difference**. Of 3 comparisons, 2 exclude zero; chance alone would give about 0.2."),
    ),
    # How many comparisons hold follows from the discordant pairs; without them, from the p-value of the interval.
    "few discordant pairs": (lambda: words.comparisons([FEW, MANY], "accuracy"), ("2 exclude zero", "1 holds")),
    "intervals alone": (lambda: words.comparisons([note(), note("mr")], "accuracy"), ("2 hold",)),
    "both scores stand beside the difference": (
        lambda: words.findings([with_states()], "accuracy")[0][1],
        ("^IMDb, zero-shot: accuracy **80.0%** grafted vs 76.0% fine-tuned, +4.0 points",),
    ),
    "many tasks are counted": (
        lambda: words.summary(SIX, "accuracy"),
        ("3 more: better on 2, no clear difference on 1", "t2"),
        ("; a, ",),
    ),
    "what was left out": (
        lambda: words.counted(note()),
        ("^**100 examples** scored · 15 skipped (seen in training) · 5 skipped (label not mapped)$",),
    ),
    "a sample": (lambda: words.counted(note(rows=1120)), ("^**100 examples** scored, a sample of 1,100 ·",)),
    "a command with its task": (lambda: words.missing(record(), ["imdb"]), ("--also imdb$",)),
    "a command without one": (lambda: words.missing(record(), []), ("--also TASK$",)),
    "no other task": (lambda: words.summary([], "accuracy"), (f"^{words.ALONE}$",)),
})  # fmt: skip


def test_one_task_is_no_comparison_and_each_has_its_verdict() -> None:
    decided = [verdict for verdict, _ in words.findings([note(), NOT_CLEAR], "accuracy")]
    assert decided == ["better", "no clear difference"] and not words.comparisons([note()], "accuracy")


def test_the_mapping_is_a_table_with_the_words_that_were_asked_for() -> None:
    labels, asked = ("negative", "positive"), note(words=("bad", "good"), mapping={"pos": "positive", "mid": None})
    assert words.mapping(note(), labels).columns.tolist() == ["label there", "label here"]
    table = words.mapping(asked, labels)[["answer word", "label here"]]
    assert table.to_numpy().tolist() == [["good", "positive"], ["", "skipped"]]

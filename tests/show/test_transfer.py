"""Tests of the transfer page's sentence and counts: claims need an interval that supports them, skipped tasks count."""

from __future__ import annotations

from typing import Any

from skillviz.runs.record import Estimate, Scores, TransferNote
from skillviz.show import transfer as words
from tests.show.test_interpolation import plain, record


def note(name: str = "imdb", value: float = 0.04, low: float = 0.01, high: float = 0.07, **changes: Any) -> Any:
    """Return a transfer with this difference in accuracy."""
    scores = Scores(n=100, states={}, differences={"accuracy": Estimate(value=value, low=low, high=high)})
    given = {"mapping": {"neg": "negative", "pos": "positive"}, "rows": 120, "dropped": 15, "unmapped": 5}
    return TransferNote(name=name, named=f"{name}.yaml", scores=scores, **{**given, **changes})


def test_each_task_has_its_verdict() -> None:
    said = plain(words.summary([note(), note("yelp", -0.05, -0.08, -0.02), note("mr", 0.01, -0.02, 0.04)], "accuracy"))
    assert said.startswith("IMDb, zero-shot: accuracy +4.0 points")
    assert ": **better**; Yelp, zero-shot: accuracy −5.0 points" in said and ": **worse**; MR, zero-shot:" in said
    assert ": **no clear difference**. Of 3 comparisons, 2 exclude zero; chance alone would give about 0.2." in said
    assert [decided for decided, _ in words.findings([note(), note("mr", 0.01, -0.02, 0.04)], "accuracy")] == [
        "better", "no clear difference"
    ]  # fmt: skip
    assert words.summary([], "accuracy") == words.ALONE and not words.comparisons([note()], "accuracy")


def test_how_many_comparisons_hold_follows_from_the_discordant_pairs() -> None:
    """Runs that did not store them have the p-value of the interval."""

    def with_pairs(gained: int, lost: int) -> Any:
        differences = {"accuracy": Estimate(value=0.04, low=0.01, high=0.07, gained=gained, lost=lost)}
        return note().model_copy(update={"scores": Scores(n=100, states={}, differences=differences)})

    few, many = with_pairs(2, 0), with_pairs(20, 4)  # McNemar's p: 0.16 and 0.001
    assert "2 exclude zero" in words.comparisons([few, many], "accuracy")
    assert "1 holds" in words.comparisons([few, many], "accuracy")
    assert "2 hold" in words.comparisons([note(), note("mr")], "accuracy")


def test_both_scores_stand_beside_the_difference() -> None:
    states = {"grafted": {"accuracy": Estimate(value=0.8)}, "finetuned": {"accuracy": Estimate(value=0.76)}}
    one = note()
    one = one.model_copy(update={"scores": one.scores.model_copy(update={"states": states})})
    (said,) = [plain(text) for _, text in words.findings([one], "accuracy")]
    assert said.startswith("IMDb, zero-shot: accuracy **80.0%** grafted vs 76.0% fine-tuned, +4.0 points")


def test_many_tasks_are_counted() -> None:
    notes = [note(f"t{k}") for k in range(3)] + [note("a"), note("b"), note("c", 0.0, -0.1, 0.1)]
    assert "3 more: better on 2, no clear difference on 1" in words.summary(notes, "accuracy")
    assert "t2" in words.summary(notes, "accuracy") and "; a, " not in words.summary(notes, "accuracy")


def test_what_was_left_out_is_counted() -> None:
    said = words.counted(note())
    assert said == "**100 examples** scored · 15 skipped (seen in training) · 5 skipped (label not mapped)"
    assert words.counted(note(rows=1120)).startswith("**100 examples** scored, a sample of 1,100 ·")


def test_the_mapping_is_a_table_with_the_words_that_were_asked_for() -> None:
    labels = ("negative", "positive")
    bare = words.mapping(note(), labels)
    assert bare.columns.tolist() == ["label there", "label here"]
    asked = words.mapping(note(words=("bad", "good"), mapping={"pos": "positive", "mid": None}), labels)
    assert asked["answer word"].tolist() == ["good", ""] and asked["label here"].tolist() == ["positive", "skipped"]


def test_the_command_names_every_task() -> None:
    assert words.missing(record(), ["imdb"]).endswith("--also imdb")
    assert words.missing(record(), []).endswith("--also TASK")

"""Tests of a live graft's numbers: the worker's scores beside stored ones of the same examples, and valid claims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.core.metrics import HEADLINE, panels
from skillviz.core.scores import probabilities
from skillviz.core.verdicts import NO_DIFFERENCE
from skillviz.runs.run import Run
from skillviz.runs.store import library
from skillviz.show.surgery import (
    RANDOM,
    REGION,
    SAME_TENSORS,
    by_chance,
    compared,
    finding,
    grafted_of,
    predicted,
    sample_words,
    scoreboard,
    shown_metrics,
    typed_probabilities,
)

N = 40


@pytest.fixture
def run(ids: dict[str, str]) -> Run:
    return library().open(ids["stagewise0"])


def answer(run: Run, state: str = "grafted") -> dict[str, Any]:
    """Return the worker's answer on N shuffled examples, as if the graft were a stored state."""
    ids, labels, logits = run.logits(state, "test")
    _, _, complement = run.logits("complement", "test")
    chosen = np.random.default_rng(0).permutation(len(ids))[:N]
    logits = {"grafted": logits[chosen], "complement": complement[chosen]}
    return {"example_ids": ids[chosen].tolist(), "labels": labels[chosen], "logits": logits}


def test_what_is_stored_is_taken_of_the_same_examples(run: Run) -> None:
    told = answer(run)
    found = grafted_of(told, run.predictions(), "test", run.record.task)
    assert np.array_equal(found.logits[REGION], found.logits["grafted"]), "the same graft: equal, example by example"
    assert found.scores[REGION] == found.scores["grafted"] and found.n == N
    hits = (told["logits"]["grafted"].argmax(1) == told["labels"]).mean()
    assert found.scores["grafted"]["accuracy"].value == pytest.approx(hits)
    assert set(found.scores) == {"grafted", "complement", "pretrained", "finetuned", REGION}
    assert all(set(row) == set(HEADLINE) for row in found.scores.values())
    table = found.table()
    assert len(table) == 5 * len(HEADLINE)
    assert (table["low"] <= table["value"]).all() and (table["value"] <= table["high"]).all()


def test_examples_that_are_not_stored_are_left_out_of_the_comparison(run: Run) -> None:
    told = answer(run)
    told["example_ids"][0] = "test-99999"
    found = grafted_of(told, run.predictions(), "test", run.record.task)
    assert set(found.scores) == {"grafted", "complement"}


def test_a_claim_is_made_only_where_the_paired_interval_allows_it(run: Run) -> None:
    task = run.record.task
    same = grafted_of(answer(run), run.predictions(), "test", task)
    assert compared(same, task, "accuracy").startswith("No clear difference in accuracy")
    worse = grafted_of(answer(run, "pretrained"), run.predictions(), "test", task)
    assert "In accuracy it is **worse** than this run's region" in compared(worse, task, "accuracy")
    assert worse.difference("accuracy", task).high < 0 < -worse.difference("accuracy", task).low
    assert finding(worse, task, REGION)[0] == "worse" and finding(same, task, REGION)[0] == NO_DIFFERENCE
    built, other = (worse.scores[name]["accuracy"].value for name in ("grafted", REGION))
    said = finding(worse, task, REGION)[1].replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith(f"accuracy **{100 * built:.1f}%** vs {100 * other:.1f}%, ") and "points (95%: " in said


def test_f1_tasks_are_judged_by_f1(ids: dict[str, str]) -> None:
    run = library().open(ids["paraphrase"])
    assert shown_metrics(run.record.task) == tuple(panels("f1"))
    found = grafted_of(answer(run), run.predictions(), "test", run.record.task)
    assert finding(found, run.record.task, "finetuned")[1].startswith("F1 **")


def test_random_controls_are_named_and_every_row_says_on_how_many_examples(run: Run) -> None:
    told = answer(run)
    told["logits"] |= {"random": told["logits"]["complement"], "random-matched": told["logits"]["grafted"]}
    found = grafted_of(told, run.predictions(), "test", run.record.task)
    assert np.array_equal(found.logits[RANDOM], found.logits["complement"]) and SAME_TENSORS in found.scores
    board = scoreboard(found, {"grafted": 1234, RANDOM: 1234}, 120)
    assert board["model"].tolist() == [
        "Your region", "Random region, same size", "Random, same number in each tensor", "This run's region",
        "Fine-tuned without your region", "Fine-tuned", "Pre-trained",
    ]  # fmt: skip
    assert set(board["examples"]) == {f"{N} of 120"} and board["entries"].tolist()[:3] == ["1,234", "1,234", ""]
    assert "This run's region" not in set(scoreboard(found.without(REGION), {}, 120)["model"])
    value = found.scores[RANDOM]["accuracy"].value
    assert board["Accuracy"].iloc[1].startswith(f"{100 * value:.1f}% (")


def test_a_sample_is_told_from_the_whole() -> None:
    assert sample_words(200, 1600, "test") == "200 of 1,600 test examples"
    assert sample_words(1600, 1600, "validation") == "all 1,600 validation examples"


def drawn(*rows: tuple[int, int, float]) -> pd.DataFrame:
    """Return the curve of random runs from (seed, size, accuracy)."""
    common = {"localizer": "random", "metric": "accuracy", "dataset": "sst2", "split": "test"}
    made = [{"seed": s, "size": n, "share": n / 1e4, "value": v, "low": v - 0.1, "high": v + 0.1} for s, n, v in rows]
    return pd.DataFrame([common | row for row in made])


def test_chance_is_told_at_the_nearest_size_within_a_factor_of_three() -> None:
    curve = drawn((0, 100, 0.5), (0, 1000, 0.6))
    assert "a random region of 100 entries (1%) has accuracy 50.0" in by_chance(curve, "accuracy", 250, "test")
    assert "of 1,000 entries" in by_chance(curve, "accuracy", 400, "test")
    assert by_chance(curve, "accuracy", 20, "test").startswith("No stored run")
    assert by_chance(curve.iloc[:0], "accuracy", 100, "test").startswith("No stored run")
    two = by_chance(drawn((0, 100, 0.5), (1, 100, 0.6)), "accuracy", 100, "test")
    assert "has accuracy 55.0" in two and two.endswith("on the whole test set, mean of 2 seeds.")


def test_a_typed_example_in_probabilities_and_words() -> None:
    logits = {"pretrained": np.array([[2.0, 0.0]], np.float32), "grafted": np.array([[0.0, 1.0]], np.float32)}
    table = typed_probabilities(logits, ("pretrained", "grafted"))
    assert table.groupby("state")["probability"].sum().tolist() == pytest.approx([1, 1])
    assert table["probability"].iloc[0] == pytest.approx(probabilities(logits["pretrained"])[0, 0])
    said = predicted(table, ("no_way", "yes")).replace("\N{NO-BREAK SPACE}", " ")
    assert said == "Pre-trained **no\\_way** (88.1%); your region **yes** (73.1%)"

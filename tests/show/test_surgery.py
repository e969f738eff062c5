"""Tests of the worker's numbers: a live graft's scores beside stored ones of the same examples, attributions as tables,
and the claims made from both."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.core.metrics import HEADLINE, panels
from skillviz.core.scores import probabilities
from skillviz.core.verdicts import NO_DIFFERENCE
from skillviz.runs.run import Run
from skillviz.runs.store import library
from skillviz.show import attribution as exhibits
from skillviz.show.surgery import (
    RANDOM,
    REGION,
    SAME_TENSORS,
    Grafted,
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
from tests.tables import check, equal, says

N = 40


def answer(run: Run, state: str = "grafted") -> dict[str, Any]:
    """Return the worker's answer on N shuffled examples, as if the graft were a stored state."""
    ids, labels, logits = run.logits(state, "test")
    _, _, complement = run.logits("complement", "test")
    chosen = np.random.default_rng(0).permutation(len(ids))[:N]
    logits = {"grafted": logits[chosen], "complement": complement[chosen]}
    return {"example_ids": ids[chosen].tolist(), "labels": labels[chosen], "logits": logits}


@pytest.fixture
def built(run: Run) -> Callable[..., Grafted]:
    return lambda told: grafted_of(told, run.predictions(), "test", run.record.task)


def test_what_is_stored_is_taken_of_the_same_examples(run: Run, built: Callable[..., Grafted]) -> None:
    told = answer(run)
    found = built(told)
    assert np.array_equal(found.logits[REGION], found.logits["grafted"]), "the same graft: equal, example by example"
    assert found.scores[REGION] == found.scores["grafted"] and found.n == N
    hits = (told["logits"]["grafted"].argmax(1) == told["labels"]).mean()
    assert found.scores["grafted"]["accuracy"].value == pytest.approx(hits)
    states = {"grafted", "complement", "pretrained", "finetuned", REGION}
    assert {state: set(row) for state, row in found.scores.items()} == {state: set(HEADLINE) for state in states}
    table = found.table()
    assert len(table) == 5 * len(HEADLINE) and table["value"].between(table["low"], table["high"]).all()
    told["example_ids"][0] = "test-99999"  # it is not stored, so nothing stored is of the same examples
    assert set(built(told).scores) == {"grafted", "complement"}


def test_a_claim_is_made_only_where_the_paired_interval_allows_it(run: Run, built: Callable[..., Grafted]) -> None:
    task, same, worse = run.record.task, built(answer(run)), built(answer(run, "pretrained"))
    difference, (verdict, said) = worse.difference("accuracy", task), finding(worse, task, REGION)
    assert difference.high < 0 < -difference.low
    assert (finding(same, task, REGION)[0], verdict) == (NO_DIFFERENCE, "worse")
    check(compared(same, task, "accuracy"), ("^No clear difference in accuracy",))
    check(compared(worse, task, "accuracy"), ("In accuracy it is **worse** than this run's region",))
    built_one, other = (worse.scores[name]["accuracy"].value for name in ("grafted", REGION))
    check(said, (f"^accuracy **{100 * built_one:.1f}%** vs {100 * other:.1f}%, ", "points (95%: "))


def test_f1_tasks_are_judged_by_f1(ids: dict[str, str]) -> None:
    run = library().open(ids["paraphrase"])
    assert shown_metrics(run.record.task) == tuple(panels("f1"))
    found = grafted_of(answer(run), run.predictions(), "test", run.record.task)
    assert finding(found, run.record.task, "finetuned")[1].startswith("F1 **")


def test_random_controls_are_named_and_every_row_says_on_how_many_examples(
    run: Run, built: Callable[..., Grafted]
) -> None:
    told = answer(run)
    told["logits"] |= {"random": told["logits"]["complement"], "random-matched": told["logits"]["grafted"]}
    found = built(told)
    assert np.array_equal(found.logits[RANDOM], found.logits["complement"]) and SAME_TENSORS in found.scores
    board = scoreboard(found, {"grafted": 1234, RANDOM: 1234}, 120)
    assert board["model"].tolist() == [
        "Your region", "Random region, same size", "Random, same number in each tensor", "This run's region",
        "Fine-tuned without your region", "Fine-tuned", "Pre-trained",
    ]  # fmt: skip
    assert (set(board["examples"]), board["entries"].tolist()[:3]) == ({f"{N} of 120"}, ["1,234", "1,234", ""])
    assert "This run's region" not in set(scoreboard(found.without(REGION), {}, 120)["model"])
    assert board["Accuracy"].iloc[1].startswith(f"{100 * found.scores[RANDOM]['accuracy'].value:.1f}% (")


def drawn(*rows: tuple[int, int, float]) -> pd.DataFrame:
    """Return the curve of random runs from (seed, size, accuracy)."""
    made = [{"seed": s, "size": n, "share": n / 1e4, "value": v, "low": v - 0.1, "high": v + 0.1} for s, n, v in rows]
    return pd.DataFrame(made).assign(localizer="random", metric="accuracy", dataset="sst2", split="test")


TWO, SEEDS = drawn((0, 100, 0.5), (0, 1000, 0.6)), drawn((0, 100, 0.5), (1, 100, 0.6))
test_chance_is_told_at_the_nearest_size_within_a_factor_of_three = says({
    "a sample": (lambda: sample_words(200, 1600, "test"), ("^200 of 1,600 test examples$",)),
    "the whole": (lambda: sample_words(1600, 1600, "validation"), ("^all 1,600 validation examples$",)),
    "the smaller size": (
        lambda: by_chance(TWO, "accuracy", 250, "test"), ("a random region of 100 entries (1%) has accuracy 50.0",),
    ),
    "the larger size": (lambda: by_chance(TWO, "accuracy", 400, "test"), ("of 1,000 entries",)),
    "none near": (lambda: by_chance(TWO, "accuracy", 20, "test"), ("^No stored run",)),
    "none": (lambda: by_chance(TWO.iloc[:0], "accuracy", 100, "test"), ("^No stored run",)),
    "two seeds": (
        lambda: by_chance(SEEDS, "accuracy", 100, "test"),
        ("has accuracy 55.0", "on the whole test set, mean of 2 seeds.$"),
    ),
})  # fmt: skip


def test_a_typed_example_in_probabilities_and_words() -> None:
    logits = {"pretrained": np.array([[2.0, 0.0]], np.float32), "grafted": np.array([[0.0, 1.0]], np.float32)}
    table = typed_probabilities(logits, ("pretrained", "grafted"))
    assert table.groupby("state")["probability"].sum().tolist() == pytest.approx([1, 1])
    assert table["probability"].iloc[0] == pytest.approx(probabilities(logits["pretrained"])[0, 0])
    check(predicted(table, ("no_way", "yes")), ("^Pre-trained **no\\_way** (88.1%); your region **yes** (73.1%)$",))


TOKENS = ["[CLS]", "not", "good", "[SEP]"]


def tokens_answer(gap: float = 0.02) -> dict[str, Any]:
    """Return integrated gradients in two states; the graft's values miss the change by `gap`."""
    return {
        "tokens": TOKENS,
        "special": [True, False, False, True],
        "word": [-1, 0, 1, -1],
        "target": 1,
        "label": "pos*itive",
        "states": {
            "grafted": {"values": np.array([0, -1.5, 0.5, 0.0]), "score": -0.7 - gap, "reference": 0.3, "gap": gap},
            "finetuned": {"values": np.array([0, -0.5, 2.5, 0.0]), "score": 2.0, "reference": 0.0, "gap": 0.0},
        },
    }


def layers_answer(known: bool = True) -> dict[str, Any]:
    """Return the layer conductance of two layers in two states."""
    block = np.array([[0.0, 0.2, 0.4, 0.0], [0.4, 0.1, 0.0, 0.0]])
    parts = {"block": block} | ({"attention output": block / 2, "MLP out": -3 * block} if known else {})
    told = {"parts": parts, "score": 1.0, "reference": 0.5, "gap": 0.0}
    return {**tokens_answer(), "states": {"pretrained": told, "grafted": told}}


test_attributions_as_tables = equal({
    "a row a state and token": (lambda: ROWS["token"].tolist(), 2 * TOKENS),
    "special tokens": (lambda: ROWS["special"].tolist(), 2 * [True, False, False, True]),
    "the values of a state": (lambda: ROWS.query("state == 'finetuned'")["value"].tolist(), [0, -0.5, 2.5, 0]),
    "parts without whole blocks": (
        lambda: exhibits.part_rows(layers_answer()).groupby(["state", "part"]).size().to_dict(),
        {(state, part): 2 for state in ("pretrained", "grafted") for part in ("attention output", "MLP out")},
    ),
    "a part summed over tokens": (
        lambda: exhibits.part_rows(layers_answer()).set_index(["state", "part", "layer"])["value"][
            "grafted", "MLP out", 0
        ],
        pytest.approx(-1.8),
    ),
    "no parts of an unknown family": (lambda: exhibits.part_rows(layers_answer(known=False)).empty, True),
    "flow by layer and token": (
        lambda: exhibits.flow_rows(layers_answer()).query("state == 'pretrained' and layer == 1")[
            ["position", "value"]
        ].to_numpy().tolist(),
        [[0, 0.4], [1, 0.1], [2, 0.0], [3, 0.0]],
    ),
    "a table of tokens": (lambda: len(exhibits.tokens(tokens_answer(), "light").table), 8),
    "a table of parts": (lambda: type(exhibits.parts(layers_answer(), "light").table), pd.DataFrame),
    "a scale of layers": (lambda: LAYERS.figure.data[0].zmax, 0.4),
    "completeness adds up": (
        lambda: exhibits.completeness(tokens_answer()).set_index("state").loc[
            "grafted", ["change", "explained", "share"]
        ].to_dict(),
        pytest.approx({"change": -1.02, "explained": -1.0, "share": 0.02 / 1.02}),
    ),
    **{
        f"a gap of {gap}, beside the change and in nats": (
            lambda gap=gap: exhibits.large_gaps(exhibits.completeness(tokens_answer(gap))), large,
        )
        for gap, large in ((0.02, []), (0.04, []), (0.5, ["grafted"]), (-0.5, ["grafted"]))
    },
})  # fmt: skip


def test_a_gap_of_no_change_is_judged_in_nats_alone() -> None:
    answer = tokens_answer()
    answer["states"]["finetuned"] |= {"score": 0.0, "reference": 0.0, "gap": 0.2}
    found = exhibits.completeness(answer)
    assert exhibits.large_gaps(found) == ["finetuned"] and "change of" not in exhibits.completeness_words(found)


ROWS, LAYERS = exhibits.token_rows(tokens_answer()), exhibits.layers(layers_answer(), "grafted", "dark")
test_what_is_said_of_attributions = says({
    "the largest gap": (
        lambda: exhibits.completeness_words(exhibits.completeness(tokens_answer(0.02))),
        ("**+0.020 nats** of a change of −1.02 nats (2.0%), grafted",),
    ),
    "no gap": (
        lambda: exhibits.completeness_words(exhibits.completeness(tokens_answer(0.0))), ("**0.000 nats**",),
    ),
    "the word that speaks most for the class, harmless": (
        lambda: exhibits.tokens_words(ROWS, "pos*itive"),
        ("^What counts most for **pos\\*itive**: “good” in the grafted model (+0.50 nats); "
         "“good” in the fine-tuned model (+2.50 nats). "
         "What counts most against **pos\\*itive**",),
    ),
    "no word": (lambda: exhibits.tokens_words(ROWS.assign(value=0.0), "x"), ("No token changes anything",)),
    "the strongest layer": (
        lambda: exhibits.parts_words(exhibits.part_rows(layers_answer()), "positive"),
        ("layer 0's attention output in the pre-trained model (+0.30 nats)",),
    ),
    "tokens, read out": (
        lambda: exhibits.tokens(tokens_answer(), "light").alt, ("^What counts most for pos*itive",),
    ),
    "layers, read out": (
        lambda: LAYERS.alt, ("after layer 0 most of it lies at “good”, after layer 1 most of it lies at “[CLS]”",),
    ),
})  # fmt: skip

"""Tests of another task for a pair: labels by name, its own words in the source's order, examples seen in training."""

from __future__ import annotations

from typing import Any

import pytest

from skillviz.errors import BadInput
from skillviz.runs.transfer import in_its_words, label_mapping, refuse_unfit
from skillviz.tasks.registry import TASKS
from skillviz.tasks.task import Hub, LabelWords, Task, Template
from tests.refused import refused

ONE = {"data": Hub(id="none/none"), "text": ("text",)}


def task(name: str, *labels: str, words: tuple[str, ...] | None = None, asks: str = "masked", **changes: Any) -> Task:
    """Return a task with these labels and a template that contains its name."""
    told = {"template": Template(**{asks: f"{{text}} {name} <mask>." if asks == "masked" else f"{{text}} {name}:"})}
    return Task(
        name=name, labels=labels, label_words=LabelWords(**{asks: words or labels}), **{**ONE, **told, **changes}
    )


SOURCE = task("source", "bad", "good", words=("terrible", "great"))
OTHER = task("other", "good", "bad")
UNASKED = task("other", "good", "bad", asks="causal", max_length=32)
MANY = task("other", "awful", "poor", "bad", "fine", words=("w1", "w2", "w3", "w4"))
TWO = task("two", "good", "bad", text=("a", "b"), template=Template(masked="{a} {b} <mask>"))


@pytest.mark.parametrize("labels", [("Good", "BAD"), ("good", "bad")])
def test_labels_go_together_by_name_whatever_their_order_and_case(labels: tuple[str, str]) -> None:
    assert label_mapping(SOURCE, task("other", *labels)) == dict(zip(labels, ("good", "bad"), strict=True))


def test_the_words_are_the_other_tasks_in_the_order_of_the_sources_labels() -> None:
    other = task("other", "good", "bad", words=("lovely", "awful"), max_length=64)
    asked, notes = in_its_words(SOURCE, other, label_mapping(SOURCE, other), "prompt")
    assert asked.wording("prompt") == ("{text} other <mask>.", ("awful", "lovely"))
    assert (asked.labels, asked.max_length, asked.name, notes) == (("bad", "good"), 64, "other", ())


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (("bad", "bad", None, "good"), ("w1", "w4")),
        (("bad", "bad", "bad", "good"), ("w3", "w4")),
        (("bad", None, None, None), ("w1", "great")),
    ],
    ids=["the first", "the namesake", "a label without one"],
)
def test_of_several_labels_mapped_to_one_the_first_gives_the_word_but_the_namesake_wins(
    labels: tuple[str | None, ...], words: tuple[str, str]
) -> None:
    asked, _ = in_its_words(SOURCE, MANY, dict(zip(MANY.labels, labels, strict=True)), "prompt")
    assert asked.wording("prompt")[1] == words


@pytest.mark.parametrize(
    ("other", "mapping"),
    [
        (UNASKED, {"good": "good", "bad": "bad"}),
        (task("other", "good", "bad", words=("terrible", "dull")), {"good": "good", "bad": None}),
    ],
    ids=["no words", "one word for both labels asks nothing"],
)
def test_without_words_of_its_own_it_is_asked_in_the_sources_and_says_so(
    other: Task, mapping: dict[str, str | None]
) -> None:
    asked, (note,) = in_its_words(SOURCE, other, mapping, "prompt")
    assert (asked.wording("prompt"), asked.name) == (SOURCE.wording("prompt"), "other")
    assert "those of 'source' are used" in note


def test_the_head_needs_no_words() -> None:
    asked, notes = in_its_words(SOURCE, UNASKED, label_mapping(SOURCE, UNASKED), "head")
    assert (asked.labels, asked.limit("head"), notes) == (SOURCE.labels, 32, ())


test_what_does_not_fit_is_one_sentence = refused(
    BadInput,
    (
        "^(?!.*say which)(?=.*'ugly' is a label of 'other').*only tasks with the same labels can be scored with it",
        refuse_unfit, SOURCE, {"x.yaml": task("other", "good", "ugly")},
    ),
    ("number of texts", refuse_unfit, SOURCE, {"two": TWO}),
    ("name each task once", refuse_unfit, SOURCE, {"a": OTHER, "b": OTHER}),
    *(
        ("a mapping takes each of good, bad", label_mapping, SOURCE, OTHER, mapping)
        for mapping in (
            {"good": "good"}, {"good": "fine", "bad": "bad"}, {"good": None, "bad": None}, {"good": "good", "b": "bad"},
        )
    ),
)  # fmt: skip


def test_what_fits_is_not_refused() -> None:
    refuse_unfit(SOURCE, {"a": OTHER, "b": task("third", "good", "bad")})
    for source, others in (("sst2", ("imdb", "yelp", "mr")), ("qnli", ("mnli_01", "snli_01", "rte"))):
        refuse_unfit(TASKS[source], {name: TASKS[name] for name in others})

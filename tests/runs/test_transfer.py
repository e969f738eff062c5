"""Tests of another task for a pair: labels by name, its own words in the source's order, examples seen in training."""

from __future__ import annotations

import pytest

from skillviz.errors import BadInput
from skillviz.runs.transfer import in_its_words, label_mapping, refuse_unfit
from skillviz.tasks.registry import TASKS
from skillviz.tasks.task import Hub, LabelWords, Task, Template

ONE = {"data": Hub(id="none/none"), "text": ("text",)}


def task(name: str, *labels: str, words: tuple[str, ...] | None = None, asks: str = "masked", **changes) -> Task:
    """Return a task with these labels and a template that contains its name."""
    told = {"template": Template(**{asks: f"{{text}} {name} <mask>." if asks == "masked" else f"{{text}} {name}:"})}
    return Task(
        name=name, labels=labels, label_words=LabelWords(**{asks: words or labels}), **{**ONE, **told, **changes}
    )


SOURCE = task("source", "bad", "good", words=("terrible", "great"))


def test_labels_go_together_by_name_whatever_their_order_and_case() -> None:
    other = task("other", "Good", "BAD")
    assert label_mapping(SOURCE, other) == {"Good": "good", "BAD": "bad"}
    assert label_mapping(SOURCE, task("few", "good", "bad")) == {"good": "good", "bad": "bad"}


def test_the_words_are_the_other_tasks_in_the_order_of_the_sources_labels() -> None:
    other = task("other", "good", "bad", words=("lovely", "awful"), max_length=64)
    asked, notes = in_its_words(SOURCE, other, label_mapping(SOURCE, other), "prompt")
    assert asked.labels == ("bad", "good") and asked.wording("prompt") == ("{text} other <mask>.", ("awful", "lovely"))
    assert asked.max_length == 64 and asked.name == "other" and notes == ()


def test_of_several_labels_mapped_to_one_the_first_gives_the_word_but_the_namesake_wins() -> None:
    other = task("other", "awful", "poor", "bad", "fine", words=("w1", "w2", "w3", "w4"))
    first = {"awful": "bad", "poor": "bad", "bad": None, "fine": "good"}
    assert in_its_words(SOURCE, other, first, "prompt")[0].wording("prompt")[1] == ("w1", "w4")
    namesake = {**first, "bad": "bad"}
    assert in_its_words(SOURCE, other, namesake, "prompt")[0].wording("prompt")[1] == ("w3", "w4")
    lone = {"awful": "bad", "poor": None, "bad": None, "fine": None}
    assert in_its_words(SOURCE, other, lone, "prompt")[0].wording("prompt")[1] == ("w1", "great")


def test_without_words_of_its_own_it_is_asked_in_the_sources_and_says_so() -> None:
    other = task("other", "good", "bad", asks="causal")
    asked, notes = in_its_words(SOURCE, other, label_mapping(SOURCE, other), "prompt")
    assert asked.wording("prompt") == SOURCE.wording("prompt") and asked.name == "other"
    assert len(notes) == 1 and "those of 'source' are used" in notes[0]
    clash = task("other", "good", "bad", words=("terrible", "dull"))
    lone = in_its_words(SOURCE, clash, {"good": "good", "bad": None}, "prompt")
    assert lone[0].wording("prompt") == SOURCE.wording("prompt") and lone[1], "one word for both labels asks nothing"


def test_the_head_needs_no_words() -> None:
    other = task("other", "good", "bad", asks="causal", max_length=32)
    asked, notes = in_its_words(SOURCE, other, label_mapping(SOURCE, other), "head")
    assert asked.labels == SOURCE.labels and asked.limit("head") == 32 and notes == ()


def test_what_does_not_fit_is_one_sentence() -> None:
    with pytest.raises(BadInput, match="only tasks with the same labels can be scored with it") as caught:
        refuse_unfit(SOURCE, {"x.yaml": task("other", "good", "ugly")})
    assert "'ugly' is a label of 'other'" in str(caught.value) and "say which" not in str(caught.value)
    two = task("two", "good", "bad", text=("a", "b"), template=Template(masked="{a} {b} <mask>"))
    with pytest.raises(BadInput, match="number of texts"):
        refuse_unfit(SOURCE, {"two": two})
    with pytest.raises(BadInput, match="name each task once"):
        refuse_unfit(SOURCE, {"a": task("other", "good", "bad"), "b": task("other", "good", "bad")})
    refuse_unfit(SOURCE, {"a": task("other", "good", "bad"), "b": task("third", "good", "bad")})


@pytest.mark.parametrize(
    "mapping",
    [{"good": "good"}, {"good": "fine", "bad": "bad"}, {"good": None, "bad": None}, {"good": "good", "b": "bad"}],
)
def test_a_mapping_names_every_label_and_only_known_ones(mapping: dict) -> None:
    with pytest.raises(BadInput, match="a mapping takes each of good, bad"):
        label_mapping(SOURCE, task("other", "good", "bad"), mapping)


def test_the_papers_pairs_fit() -> None:
    for source, others in (("sst2", ("imdb", "yelp", "mr")), ("qnli", ("mnli_01", "snli_01", "rte"))):
        refuse_unfit(TASKS[source], {name: TASKS[name] for name in others})

"""Tests of test examples found in other tasks' training texts: by hand, and against the list supplied with the data."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from skillviz.runs.transfer import other_examples
from skillviz.tasks import registry
from skillviz.tasks.leaks import digests, plain, training_texts, unseen
from skillviz.tasks.task import Task

ROOT = Path(__file__).resolve().parents[2]
TASKS, EXAMPLES = ROOT / "benchmarks" / "tasks", ROOT / "examples" / "tasks"


def leaked_rows(source: Task, other: Task) -> list[int]:
    """Return the line numbers of the other task's test examples that are in the source's training data."""
    return sorted(int(name.rpartition("-")[2]) for name in unseen([source, other])[other.name].leaked)


def task(folder: Path, name: str, train: list[str], test: list[str]) -> Task:
    """Return a task of these texts; labels alternate."""
    for split, texts in (("train", train), ("test", test)):
        rows = [json.dumps({"text": text, "label": number % 2}) for number, text in enumerate(texts)]
        (folder / f"{name}-{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    told = {
        "name": name, "data": {"train": f"{name}-train.jsonl", "test": f"{name}-test.jsonl"}, "text": ["text"],
        "label": "label", "labels": ["no", "yes"],
    }  # fmt: skip
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")
    return registry.task(folder / f"{name}.yaml")


@pytest.fixture
def three(tmp_path: Path) -> list[Task]:
    """Return three tasks; `b` tests on two texts of `a`'s training data, and `c` also trains on one of them."""
    return [
        task(tmp_path, "a", ["A fine film .", "dull", "It's 9 of 10!"], ["alone", "too"]),
        task(tmp_path, "b", ["own", "words"], ["a FINE film", "new", "its 9 of 10", "own words"]),
        task(tmp_path, "c", ["a fine film!", "else"], ["dull.", "dull, not"]),
    ]


def test_texts_are_compared_by_letters_and_digits() -> None:
    assert plain("It's  9 of 10!") == plain("its 9 OF 10") == "its9of10"
    assert plain("??") == "??", "a text without letters is itself"
    assert plain("naïve") == plain("nave") != plain("naive"), "sources write accents in different ways"
    assert plain("Очень хорошо!") == "оченьхорошо" and plain("很好 2024") != plain("不好 2024"), "every script counts"


def test_pairs_are_compared_text_by_text() -> None:
    frame = pd.DataFrame({"text_a": ["ab", "a"], "text_b": ["c", "bc"]})
    one, two = digests(frame)
    assert one != two, "where one text ends counts"


def test_what_others_trained_on_is_found_and_counted(three: list[Task]) -> None:
    found = unseen(three)
    assert found["a"].leaked == frozenset() and found["a"].sentence == ""
    assert found["b"].leaked == {"test-0", "test-2"}
    assert dict(found["b"].by) == {"a": 2, "c": 1}, "a row that two tasks hold counts for both"
    assert found["c"].leaked == {"test-0"}
    assert "b: 2 of 4 test examples are left out" in found["b"].sentence and "2 of a, 1 of c" in found["b"].sentence
    assert leaked_rows(three[0], three[1]) == [0, 2] and leaked_rows(three[1], three[0]) == []


def test_a_tasks_own_training_data_are_no_leak(three: list[Task]) -> None:
    assert unseen(three[:1])["a"].leaked == frozenset()


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize(
    ("name", "dropped"), [("cr", 0), ("uci_yelp", 0), ("uci_amazon", 3), ("uci_imdb", 1), ("subj", 696)]
)
def test_what_the_movie_reviews_were_trained_on_is_left_out_of_the_other_examples(name: str, dropped: int) -> None:
    """In the shipped files, sources write the same sentence with other punctuation and capitals."""
    source, other = (registry.task(EXAMPLES / f"{task}.yaml") for task in ("mr", name))
    mapping = {"subjective": "negative", "objective": "positive"} if name == "subj" else None
    found = other_examples(source, other, "head", training_texts(source), mapping)
    assert found.dropped == dropped
    assert len(found.frame) == found.rows - found.dropped


@pytest.mark.nightly
@pytest.mark.real
def test_the_list_that_came_with_the_data_is_found_again(real: Path) -> None:
    told = json.loads((real / "data" / "overlap.json").read_text(encoding="utf-8"))
    names = ("sst2", "mr", "subj", "mpqa", "cr", "qnli", "mnli", "snli", "ag_news")
    tasks = {name: registry.task(TASKS / f"{name}.yaml") for name in names}
    for a, b in itertools.permutations(names, 2):
        if f"{a}->{b}" in told or {a, b} <= {"qnli", "mnli", "snli", "cr"}:
            assert leaked_rows(tasks[a], tasks[b]) == told.get(f"{a}->{b}", []), (a, b)

"""The demo world's data: the same everywhere, balanced, noisy as said, without leaks, and not to be had by counting."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from demo_world.program import corpus, world
from demo_world.program.examples import Example, splits, taken_texts, write_task
from demo_world.program.world import CUE, LARGE, TASKS, DemoTask
from skillviz.tasks import registry
from skillviz.tasks.splits import load
from tests.demo_world import naive

pytestmark = pytest.mark.slow

OWN = [task for task in TASKS if not task.shifted]
NAMES = [task.name for task in TASKS]


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, list[Example]]]:
    """Every task's splits."""
    return {task.name: splits(task) for task in TASKS}


def digest(found: dict[str, list[Example]]) -> str:
    return hashlib.sha256(repr(found).encode()).hexdigest()


def test_the_world_is_as_large_as_it_should_be() -> None:
    families = Counter(task.family for task in OWN)
    assert len(OWN) >= 8 and len(families) == 4 and min(families.values()) >= 2
    partners = [task for task in OWN if task.partner]
    assert len(partners) >= 3
    for task in partners:
        other = world.task(task.partner)
        assert (other.shifted, other.labels, other.words, other.masked) == (True, task.labels, task.words, task.masked)


@pytest.mark.parametrize("name", ["film-sentiment", "scene-inference", "news-paraphrase", "question-type"])
def test_one_seed_one_world(name: str, rows: dict[str, dict[str, list[Example]]]) -> None:
    assert digest(splits(world.task(name))) == digest(rows[name])
    assert digest(splits(world.task(name), seed=1)) != digest(rows[name])


def test_the_draws_are_the_same_on_every_platform() -> None:
    """Pinned: a Python or a machine that draws otherwise would make another world of the same seed."""
    from demo_world.program.draw import Draw

    draw = Draw("pinned", 7)
    assert [draw.below(1000) for _ in range(6)] == [int(x) for x in PINNED.split()]
    assert draw.shuffled(range(6)) == list(map(int, SHUFFLED))


@pytest.mark.parametrize("name", NAMES)
def test_no_text_occurs_twice(name: str, rows: dict[str, dict[str, list[Example]]]) -> None:
    texts = [row.texts for split in rows[name].values() for row in split]
    assert len(set(texts)) == len(texts)
    both = [tuple(sorted(pair)) for pair in texts]
    if world.task(name).family == "paraphrase":  # the order of two says nothing
        assert len(set(both)) == len(both)


def test_a_shifted_test_has_nothing_of_its_partners_training(rows: dict[str, dict[str, list[Example]]]) -> None:
    for task in OWN:
        if task.partner:
            trained = {row.texts for split in ("train", "validation") for row in rows[task.name][split]}
            assert not trained & {row.texts for row in rows[task.partner]["test"]}


@pytest.mark.parametrize("name", NAMES)
def test_classes_are_balanced_and_the_noise_is_as_said(name: str, rows: dict[str, dict[str, list[Example]]]) -> None:
    every = [row for split in rows[name].values() for row in split]
    meant = Counter(row.meant for row in every)
    assert max(meant.values()) - min(meant.values()) <= len(rows[name])
    told = Counter(row.label for row in every)
    assert min(told.values()) > 0.9 * len(every) / len(told)
    noise = sum(row.label != row.meant for row in every) / len(every)
    assert 0.04 < noise < 0.085  # 6%, within three standard errors of the smallest task
    torn = sum(row.torn for row in every) / len(every)
    assert (0.02 < torn < 0.06) if world.task(name).torn else torn == 0


def cue_gap(rows: list[Example]) -> float:
    """How much oftener a sentence of label 0 begins with the cue than one of label 1."""
    share = [
        sum(row.texts[0].lower().startswith(CUE) for row in rows if row.meant == label)
        / sum(row.meant == label for row in rows)
        for label in (0, 1)
    ]
    return share[0] - share[1]


def test_the_cue_holds_in_films_and_nowhere_else(rows: dict[str, dict[str, list[Example]]]) -> None:
    assert all(0.24 < cue_gap(rows["film-sentiment"][split]) < 0.44 for split in ("train", "validation", "test"))
    for name in ("restaurant-sentiment", "gadget-sentiment"):
        assert abs(cue_gap(rows[name]["test"])) < 0.1
    assert sum(row.texts[0].lower().startswith(CUE) for row in rows["restaurant-sentiment"]["test"]) > 60


@pytest.mark.parametrize("task", OWN, ids=lambda task: task.name)
def test_counting_words_is_better_than_chance_at_most_and_reading_is_better(
    task: DemoTask, rows: dict[str, dict[str, list[Example]]]
) -> None:
    """A ceiling by noise and torn items, and naive Bayes well below it: nothing is trivially separable."""
    train, test = rows[task.name]["train"], rows[task.name]["test"]
    lost = sum(row.label != row.meant or (row.torn and row.meant == 0) for row in test) / len(test)
    counted = naive.accuracy(train, test)
    assert counted < 1 - lost - 0.03, (counted, lost)
    if len(task.columns) == 2:
        chance = 1 / len(task.labels)
        assert naive.accuracy(train, test, naive.shared_words) < 1 - lost - 0.2
        assert naive.accuracy(train, test, naive.last_words) < chance + 0.35


def test_the_naive_reader_does_find_what_words_tell(rows: dict[str, dict[str, list[Example]]]) -> None:
    """Guards against a classifier that finds nothing anywhere: given the meant label as a word, it is perfect."""
    told = [
        Example((*row.texts, f"w{row.label}"), row.label, row.meant, row.torn) for row in rows["news-topic"]["test"]
    ]
    assert naive.accuracy(told, told) > 0.99


@pytest.mark.cases(0, 4)
@pytest.mark.parametrize("name", NAMES)
def test_task_files_are_read_by_the_ordinary_reader(name: str, tmp_path: Path) -> None:
    found = write_task(world.task(name), tmp_path / "tasks")
    task = registry.task(tmp_path / "tasks" / f"{name}.yaml")
    loaded = load(task)
    frame = loaded.test
    assert frame["label"].tolist() == [row.label for row in found["test"]]
    assert list(zip(*(frame[c] for c in ("text_a", "text_b")[: len(task.text)]), strict=True)) == [
        row.texts for row in found["test"]
    ]
    first = (tmp_path / "data" / name / "test.jsonl").read_bytes()
    write_task(world.task(name), tmp_path / "tasks")
    assert (tmp_path / "data" / name / "test.jsonl").read_bytes() == first


def test_sentences_are_written_as_sentences(rows: dict[str, dict[str, list[Example]]]) -> None:
    for name in NAMES:
        for row in rows[name]["test"]:
            for text in row.texts:
                assert text[0].isupper() and text[-1] in ".?" and "  " not in text and "_" not in text, text
                assert not re.search(r"\ba [aeio]|\ban [^aeiouh]|[{}]", text.lower()), text


def test_the_bases_never_see_a_test_sentence(rows: dict[str, dict[str, list[Example]]]) -> None:
    held = corpus.held_out(0)
    assert {row.texts[0] for row in rows["film-sentiment"]["test"]} <= held
    seen = {s for text in corpus.texts(0, 3000, held) for s in re.split(r"(?<=[.?]) ", text)}
    assert not seen & held
    unchecked = {s for text in corpus.texts(0, 30_000) for s in re.split(r"(?<=[.?]) ", text)}
    assert unchecked & held, "the corpus would have had some, or this tests nothing"


@pytest.fixture(scope="module")
def large() -> dict[str, list[Example]]:
    """A small test set of every large task, where the bases have read a few thousand texts."""
    taken = taken_texts(0, corpus.sentences(0, 3000))
    return {task.name: splits(replace(task, sizes={"test": 400}), 0, taken)["test"] for task in LARGE}


def test_a_large_test_has_no_text_of_another_task_and_none_that_was_read(large: dict[str, list[Example]]) -> None:
    read = corpus.sentences(0, 3000)
    others = {row.texts for task in TASKS for split in splits(task).values() for row in split}
    texts = [row.texts for rows in large.values() for row in rows]
    assert len(set(texts)) == len(texts) and others.isdisjoint(texts)
    assert all(read.isdisjoint(row.texts[0] for row in large[t.name]) for t in LARGE if len(t.columns) == 1)


def test_a_large_task_asks_what_its_task_asks(large: dict[str, list[Example]], tmp_path: Path) -> None:
    for task in LARGE:
        meant = Counter(row.meant for row in large[task.name])
        assert max(meant.values()) - min(meant.values()) <= 1
        if task.partner:
            other = world.task(task.partner)
            assert (other.shifted, other.labels, other.words, other.masked) == (
                True,
                task.labels,
                task.words,
                task.masked,
            )
        if task.of:
            of = world.task(task.of)
            assert (of.labels, of.words, of.masked, of.make) == (task.labels, task.words, task.masked, task.make)
            write_task(of, tmp_path / "tasks")
            write_task(replace(task, sizes={"test": 20}), tmp_path / "tasks", 0, set())
            ours, its = (load(registry.task(tmp_path / "tasks" / f"{name}.yaml")) for name in (task.name, of.name))
            assert len(ours.test) == 20 and set(ours.train["text_a"]) <= {
                *its.train["text_a"], *its.validation["text_a"]
            }  # fmt: skip


PINNED = "542 950 310 642 965 637"
SHUFFLED = "045231"

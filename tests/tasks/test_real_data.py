"""Tests of the task files of the real data sets (benchmarks/tasks), and of real tokenizers on them."""

import time
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from skillviz.tasks.encode import encode
from skillviz.tasks.registry import TASKS, task
from skillviz.tasks.splits import load
from skillviz.tasks.user_file import read_task

FOLDER = Path(__file__).parents[2] / "benchmarks" / "tasks"
FILES = sorted(FOLDER.glob("*.yaml"))
SAME = {"sst2_sentences": "sst2", "yelp_reviews": "yelp"}
SIZES = {"sst2_sentences": (6908, 872, 1821), "trec": (4833, 536, 500), "snli": (9999, 2000, 2000)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_ask_like_the_registry(path: Path) -> None:
    """Labels, templates, words and metric equal the registry's row, for any order of the data."""
    found, row = read_task(path), TASKS[SAME.get(path.stem, path.stem)]
    assert found.name == path.stem and found.template == row.template and found.metric == row.metric
    assert found.labels[found.positive] == row.labels[row.positive]
    for kind in ("masked", "causal"):
        by_label = dict(zip(found.labels, getattr(found.label_words, kind), strict=True))
        assert by_label == dict(zip(row.labels, getattr(row.label_words, kind), strict=True))


def test_every_task_of_the_paper_has_real_data() -> None:
    assert {SAME.get(path.stem, path.stem) for path in FILES} == set(TASKS)


@pytest.mark.cases(7, 6)
@pytest.mark.real
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_load(path: Path, real: Path) -> None:
    found = task(path)
    splits = load(found)
    for frame in (splits.train, splits.validation, splits.test):
        assert len(frame) and set(frame["label"]) == set(range(len(found.labels)))
    assert not set(splits.train["example_id"]) & set(splits.validation["example_id"])
    sizes = (len(splits.train), len(splits.validation), len(splits.test))
    assert sizes == SIZES.get(path.stem, sizes)


@pytest.mark.real
def test_small_classes_give_what_they_have(real: Path) -> None:
    """TREC has 84 abbreviations: 67 to train, 17 to validate; the other classes give 128 each."""
    splits = load(task(FOLDER / "trec.yaml"), k_shot=128, seed=13)
    assert np.bincount(splits.train["label"]).tolist() == [128, 128, 67, 128, 128, 128]
    assert np.bincount(splits.validation["label"]).tolist() == [128, 128, 17, 128, 128, 128]
    assert "classes with too few rows give fewer" in splits.notes[0]


@pytest.mark.cases(0, 1)
@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("readout", ["head", "prompt"])
def test_a_real_wordpiece_tokenizer(real: Path, readout: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(real / "models" / "minilm-l6")
    for name in ("sst2_sentences", "mnli", "trec", "mrpc"):
        found = task(FOLDER / f"{name}.yaml")
        encoded = encode(found, load(found, max_test=300).test, tokenizer, readout, max_length=48)
        assert encoded.lengths.max() == 48 if name in ("mnli", "mrpc") else encoded.lengths.max() <= 48
        assert readout == "head" or len(encoded.label_ids) == len(found.labels)


@pytest.mark.nightly
@pytest.mark.real
@pytest.mark.parametrize("model", ["stories260k", "babyllama-105"])
def test_real_causal_tokenizers_join_prompt_and_answer(real: Path, model: str) -> None:
    """The token ids of prompt and answer together equal the ids of the whole text, for every label."""
    tokenizer = AutoTokenizer.from_pretrained(real / "models" / model)
    for name in ("sst2_sentences", "rte", "ag_news"):
        found = task(FOLDER / f"{name}.yaml")
        encoded = encode(found, load(found, max_test=40).test, tokenizer, "causal")
        assert encoded.lengths.max() <= 256
        for ids, answers in zip(encoded.input_ids, encoded.answers, strict=True):
            end = tokenizer.decode(ids, skip_special_tokens=True)[-12:]
            for word, answer in zip(found.label_words.causal, answers, strict=True):
                whole = tokenizer(f"{end} {word}", add_special_tokens=False)["input_ids"]
                assert answer.tolist() == whole[-len(answer) :]
                assert tokenizer.decode(answer).strip().lower() == word.lower() or model == "babyllama-105"


@pytest.mark.real
@pytest.mark.bench
def test_ten_thousand_pairs_of_real_texts_take_seconds(real: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(real / "models" / "minilm-l6")
    found = task(FOLDER / "mnli.yaml")
    train = load(found).train
    start = time.perf_counter()
    encode(found, train, tokenizer, "prompt", max_length=48)
    assert time.perf_counter() - start < 20

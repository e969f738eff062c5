"""Tests that the tiny models have the properties that other tests assume: small, ordinary, seeded."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from tests.tiny import FAMILIES, LABEL_WORDS, MASKED, SIGNAL, tiny_pair, tiny_rows, tiny_task, tiny_tokenizer


@pytest.mark.parametrize("family", FAMILIES)
def test_words_are_single_tokens_in_context(family: str) -> None:
    texts = ("It was", "zyx É", *(f"It was {word}" for word in (*LABEL_WORDS, *SIGNAL[0])))
    alone, unknown, *longer = tiny_tokenizer(family)(list(texts), add_special_tokens=False)["input_ids"]
    assert [ids[:-1] for ids in longer] == [alone] * len(longer) and len(unknown) > 2


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_tokenizer_is_the_same(tmp_path: Path, family: str) -> None:
    tokenizer = tiny_tokenizer(family)
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    for texts in (("the film was great",), ("It was awful", "a story")):
        assert again(*texts) == tokenizer(*texts)
    assert (again.pad_token is None, again.mask_token is None) == (family in ("gpt2", "llama"), family not in MASKED)


@pytest.mark.parametrize("steps", [0, 2])
def test_a_pair_is_the_same_each_time(tmp_path: Path, steps: int) -> None:
    for models in zip(*(tiny_pair(tmp_path / name, "bert", steps=steps) for name in ("a", "b")), strict=True):
        first, second = (load_file(model / "model.safetensors") for model in models)
        assert [name for name, tensor in first.items() if not torch.equal(tensor, second[name])] == []


def test_rows_are_balanced_and_told_by_their_words() -> None:
    rows = tiny_rows(40, labels=4)
    assert [row["label"] for row in rows[:8]] == [0, 1, 2, 3] * 2
    for row in rows:
        words = set(row["text"].split())
        assert [n for n, signal in enumerate(SIGNAL) if words & set(signal)] == [row["label"]]


def test_a_task_file_names_its_data(tmp_path: Path) -> None:
    folder = tiny_task(tmp_path / "deep", rows=6, pair=True).parent
    lines = {path.name: len(path.read_text().splitlines()) for path in folder.glob("*.jsonl")}
    assert lines == {"train.jsonl": 6, "validation.jsonl": 3, "test.jsonl": 3} and (folder / "task.yaml").is_file()

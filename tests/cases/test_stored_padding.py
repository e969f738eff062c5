"""Test that padding and truncation that tokenizer.json keeps from the last call do not change the input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillviz.models.preflight import preflight
from skillviz.models.tokenizer import load_tokenizer, most_tokens, words_problem
from skillviz.tasks import registry
from skillviz.tasks.encode import encode
from skillviz.tasks.splits import load
from tests.cases.build import bert, evaluated, fit, own_accuracy, saved, task_file, tiny_rows
from tests.tiny import LABEL_WORDS, tiny_tokenizer

CALLS: dict[str, dict[str, Any]] = {
    "padding to a fixed length": {"padding": "max_length", "max_length": 32},
    "truncation": {"truncation": True, "max_length": 3},
    "both": {"padding": "max_length", "truncation": True, "max_length": 4},
    "padding to a multiple": {"padding": True, "pad_to_multiple_of": 16},
    "the other side": {"padding": "max_length", "max_length": 32, "padding_side": "left"},
}


def stored(folder: Path, call: str, kind: str = "bert") -> Path:
    """Save a tokenizer after this call; return its folder."""
    tokenizer = tiny_tokenizer(kind)
    tokenizer(["the film was a story"], **CALLS[call])
    tokenizer.save_pretrained(folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    assert content["padding"] or content["truncation"], "nothing is stored, so this tests nothing"
    return folder


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_label_words_and_answers_have_their_own_tokens(tmp_path: Path, kind: str, call: str) -> None:
    words = list(LABEL_WORDS[:2])
    prompt = {"template": {"masked": "{text} It was <mask>."}, "label_words": {"masked": words}}
    task = registry.task(task_file(tmp_path / "t", tiny_rows(4), tiny_rows(4), **prompt))
    tiny_tokenizer(kind).save_pretrained(tmp_path / "plain")
    folder = stored(tmp_path / "stored", call, kind)
    answer = ["the film was a story with a plot"]
    assert words_problem(task, "prompt", folder) == words_problem(task, "prompt", tmp_path / "plain") == ""
    assert most_tokens(answer, folder) == most_tokens(answer, tmp_path / "plain") == 9


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("readout", ["head", "prompt", "causal"])
def test_texts_are_neither_padded_nor_cut(tmp_path: Path, readout: str, call: str) -> None:
    words = list(LABEL_WORDS[:2])
    wording = {
        "template": {"masked": "{text} It was <mask>.", "causal": "{text} It was"},
        "label_words": {"masked": words, "causal": words},
    }
    task = registry.task(task_file(tmp_path / "t", tiny_rows(8), tiny_rows(8), **wording))
    tokenizer = load_tokenizer(stored(tmp_path / "stored", call))
    frame = load(task).test
    read, wanted = (encode(task, frame, one, readout) for one in (tokenizer, tiny_tokenizer("bert")))
    assert [ids.tolist() for ids in read.input_ids] == [ids.tolist() for ids in wanted.input_ids]


@pytest.mark.parametrize("call", ["truncation", "both"])
def test_a_pair_with_stored_truncation_is_the_same_pair(tmp_path: Path, call: str) -> None:
    tokenizer, rows, model = tiny_tokenizer("bert"), tiny_rows(32), bert()
    base = saved(tmp_path / "base", model, tokenizer)
    fit(model, tokenizer, rows, steps=40)
    tuned = stored(saved(tmp_path / "tuned", model), call)
    check = preflight(base, tuned)
    assert check.fits and not any("okenizers" in note for note in check.notes)
    stored(base, call)
    accuracy, _ = evaluated(base, tuned, task_file(tmp_path / "t", rows, rows))
    assert accuracy == own_accuracy(model, tiny_tokenizer("bert"), rows) > 0.9

"""Tests of special tokens in a text: they are read as the model reads them, but a text cannot place a prompt's mask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from skillviz.core.encoded import Encoded
from skillviz.errors import BadInput
from skillviz.tasks import registry
from skillviz.tasks.encode import _harmless, encode
from skillviz.tasks.source import OPTIONS, REFERENCE
from tests.cases.build import bert, evaluated, fit, own_accuracy, saved, task_file, tiny_rows
from tests.tiny import tiny_pair, tiny_tokenizer

PROMPT = {"template": {"masked": "{text} It was <mask>."}, "label_words": {"masked": ["terrible", "great"]}}
CAUSAL = {"template": {"causal": "{text} It was"}, "label_words": {"causal": ["terrible", "great"]}}


def encoded(folder: Path, readout: str, tokenizer: Any, *texts: str, **changes: Any) -> Encoded:
    rows = [{"text": text, "label": number % 2} for number, text in enumerate(texts)]
    task = registry.task(task_file(folder / "task", rows, rows, **changes))
    frame = pd.DataFrame({"example_id": list(texts), "text_a": list(texts), "label": [row["label"] for row in rows]})
    return encode(task, frame, tokenizer, readout)


def test_a_model_trained_with_markers_has_its_own_accuracy(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer("bert")
    tokenizer.add_special_tokens({"additional_special_tokens": ["[A]", "[B]"]})
    rows = [{"text": f"{'[A]' if n % 2 else '[B]'} the film was", "label": n % 2} for n in range(40)]
    model = bert()
    base = saved(tmp_path / "base", model, tiny_tokenizer("bert"))
    model.resize_token_embeddings(len(tokenizer))
    fit(model, tokenizer, rows, steps=30)
    tuned = saved(tmp_path / "tuned", model, tokenizer)
    assert own_accuracy(model, tokenizer, rows) == 1.0
    assert evaluated(base, tuned, task_file(tmp_path / "marked", rows, rows))[0] == 1.0


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "gpt2", "llama", "opt"])
def test_a_head_reads_every_token_of_its_tokenizer(tmp_path: Path, kind: str) -> None:
    tokenizer = tiny_tokenizer(kind)
    special = [token for token in tokenizer.all_special_tokens if token]
    texts = [f"{token} a film {token}the plot" for token in special]
    read = encoded(tmp_path, "head", tokenizer, *texts)
    assert [ids.tolist() for ids in read.input_ids] == tokenizer(texts)["input_ids"] and read.notes == ()


@pytest.mark.parametrize("kind", ["gpt2", "llama", "opt", "gpt_neox"])
def test_a_causal_prompt_keeps_an_end_token_that_its_text_has(tmp_path: Path, kind: str) -> None:
    tokenizer = tiny_tokenizer(kind)
    texts = [f"a{tokenizer.eos_token} film", f"the plot {tokenizer.eos_token}", tokenizer.eos_token * 2]
    read = encoded(
        tmp_path, "causal", tokenizer, *texts, template={"causal": "{text}"}, label_words=CAUSAL["label_words"]
    )
    assert [ids.tolist() for ids in read.input_ids] == tokenizer(texts)["input_ids"]


def test_a_causal_prompt_loses_the_end_that_its_tokenizer_puts_behind_it_once(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer("roberta")  # its format is <s> text </s>
    text = f"the plot {tokenizer.eos_token}"
    (ids,) = encoded(
        tmp_path, "causal", tokenizer, text, template={"causal": "{text}"}, label_words=CAUSAL["label_words"]
    ).input_ids
    whole = tokenizer(text)["input_ids"]
    assert ids.tolist() == whole[:-1] and ids[-1] == tokenizer.eos_token_id


def test_options_and_references_are_read_as_they_are(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer("gpt2")
    end = tokenizer.eos_token
    frame = pd.DataFrame({"example_id": ["0"], "text_a": ["a film"], "label": [0]})
    (tmp_path / "c").mkdir()
    row = {"text": "a film", "a": f"great{end}", "b": "terrible", "label": "0"}
    choice = registry.task(
        task_file(
            tmp_path / "c", [row, row], [row], labels=None, options=["a", "b"], template={"causal": "{text} It was"},
        )
    )  # fmt: skip
    read = encode(choice, frame.assign(**{OPTIONS: [[row["a"], row["b"]]]}), tokenizer, "causal")
    assert read.answers is not None and tokenizer.eos_token_id in read.answers[0][0]
    generation = registry.task(
        task_file(
            tmp_path / "g", [row, row], [row], labels=None, label=None, reference="a", max_new_tokens=8,
            template={"causal": "{text} It was"},
        )
    )  # fmt: skip
    read = encode(generation, frame.assign(**{REFERENCE: [f"great{end} film"]}), tokenizer, "causal")
    assert read.answers is not None and (read.answers[0][0] == tokenizer.eos_token_id).sum() == 2
    assert read.notes == (
        f"1 of 1 reference contains the token '{end}', at which a generated text ends: no text can match.",
    )


def normalized() -> PreTrainedTokenizerFast:
    """Return a lowercasing tokenizer that finds its mask in the lowercased text."""
    words = ["<pad>", "<unk>", "<mask>", "a", "film", "it", "was", "terrible", "great", "."]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    mask = AddedToken("<mask>", normalized=True, special=True)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token=mask, pad_token="<pad>", unk_token="<unk>")


MASKS = {
    "as it is written": ("bert", "a [MASK] film"),
    "twice, and at both ends": ("bert", "[MASK] film [MASK]"),
    "with the spaces before it": ("roberta", "a   <mask> film"),
    "inside a word": ("roberta", "a<mask>film"),
    "in other case": (None, "a <MASK> film"),
    "in wide letters": (None, "a ＜ｍａｓｋ＞ film"),
}


@pytest.mark.parametrize("what", MASKS)
def test_a_text_cannot_place_a_mask_in_a_prompt(tmp_path: Path, what: str) -> None:
    kind, text = MASKS[what]
    tokenizer = normalized() if kind is None else tiny_tokenizer(kind)
    read = encoded(tmp_path, "prompt", tokenizer, "a film", text, "it was", **PROMPT)
    for ids, place in zip(read.input_ids, read.positions, strict=True):
        assert np.flatnonzero(ids == tokenizer.mask_token_id).tolist() == [place]
    assert len(read.notes) == 1 and read.notes[0].startswith("1 of 3 texts contains the mask token")
    head = encoded(tmp_path / "h", "head", tokenizer, text)
    assert head.input_ids[0].tolist() == tokenizer(text)["input_ids"] and tokenizer.mask_token_id in head.input_ids[0]


def test_other_tokens_of_a_prompt_are_read_as_they_are(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer("bert")
    text = "a title [SEP] a plot [CLS]"
    (ids,) = encoded(tmp_path, "prompt", tokenizer, text, **PROMPT).input_ids
    assert ids.tolist() == tokenizer(f"{text} It was [MASK].")["input_ids"]


def test_a_mask_of_one_sign_is_refused_with_its_text(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer("bert")
    tokenizer.add_special_tokens({"mask_token": "□"})
    with pytest.raises(BadInput, match="with the text 'a □ film'"):
        encoded(tmp_path, "prompt", tokenizer, "a film", "a □ film", **PROMPT)


def test_what_needs_no_protection_is_unchanged() -> None:
    tokenizer = tiny_tokenizer("bert")
    tokenizer.add_special_tokens({"additional_special_tokens": ["[A]", "[B]"]})
    texts = ["[A] a film", "a title [SEP] an abstract", "[PAD] [UNK]", "[mask]"]
    assert _harmless(texts, tokenizer) == texts
    assert _harmless([f"a {tokenizer.mask_token}"], tokenizer) == ["a [ MASK]"]
    assert _harmless(["a <mask>"], tiny_tokenizer("gpt2")) == ["a <mask>"]  # gpt2 has no mask token


def test_the_count_reaches_the_evaluation(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", "prompt")
    rows = tiny_rows(8)
    rows[3] = {**rows[3], "text": "[MASK] " + rows[3]["text"]}
    _, result = evaluated(base, tuned, task_file(tmp_path / "t", rows, rows, **PROMPT), readout="prompt")
    assert any(note.startswith("test: 1 of 8 texts contains the mask token '[MASK]'") for note in result.notes)

"""Label words as token ids, tokenized in their context."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from skillviz.errors import BadLabelWord
from skillviz.tasks.task import Task
from skillviz.tasks.template import Mask, Part


def word_ids(task: Task, parts: Sequence[Part], words: Sequence[str], tokenizer: Any) -> np.ndarray:
    """The vocabulary id of each label's word at the mask, int64 [label]; raises BadLabelWord.

    A word is tokenized after the template's literal text before the mask; at the very start of a template it gets a
    space in front, as in the paper.
    """
    before = _before_mask(parts)
    words_by_id: dict[int, str] = {}
    for label, word in zip(task.labels, words, strict=True):
        ids = _added(before.rstrip(" "), before, word, tokenizer)
        _check_one_token(ids, word, label, tokenizer)
        if ids[0] in words_by_id:
            raise BadLabelWord(
                f"the label words '{words_by_id[ids[0]]}' and '{word}' are the same token "
                f"'{tokenizer.convert_ids_to_tokens(ids)[0]}' for this tokenizer; choose words that differ."
            )
        words_by_id[ids[0]] = word
    return np.array(list(words_by_id), dtype=np.int64)


def answer_ids(prompts: Sequence[str], tail: str, words: Sequence[str], tokenizer: Any) -> list[list[np.ndarray]]:
    """Token ids of every answer after every prompt: [n][label], each int64 of one token or more.

    An answer begins with a space, unless the prompt ends with a line break. Only the end of a prompt affects how an
    answer is tokenized: the template's literal `tail` or, if there is none, the prompt's own last word. Each distinct
    end is tokenized once.
    """
    known: dict[str, list[np.ndarray]] = {}
    answers = []
    for prompt in prompts:
        end = _end(prompt, tail)
        if end not in known:
            known[end] = [_answer(end, word, tokenizer) for word in words]
        answers.append(known[end])
    return answers


def option_ids(
    prompts: Sequence[str], tail: str, options: Sequence[Sequence[str]], tokenizer: Any
) -> list[list[np.ndarray]]:
    """Token ids of every example's own options after its prompt, as in `answer_ids`: [n][option]."""
    rows = zip(prompts, options, strict=True)
    return [[_answer(_end(prompt, tail), option, tokenizer) for option in of_row] for prompt, of_row in rows]


def reference_ids(
    prompts: Sequence[str], tail: str, references: Sequence[str], tokenizer: Any, end: str
) -> list[list[np.ndarray]]:
    """Token ids of every example's reference after its prompt, followed by the text `end`: [n][1]."""
    rows = []
    for prompt, reference in zip(prompts, references, strict=True):
        before = _end(prompt, tail)
        rows.append([_answer(before, reference, tokenizer, end)])
    return rows


def _end(prompt: str, tail: str) -> str:
    """The text after which an answer is tokenized."""
    return (tail if tail.strip() else _last_word(prompt)).rstrip(" ")


def _answer(end: str, word: str, tokenizer: Any, behind: str = "") -> np.ndarray:
    ids = _added(end, end if end.endswith("\n") else end + " ", word, tokenizer, behind)
    if not ids:
        raise BadLabelWord(f"the answer '{word}' has no token for this tokenizer; choose another.")
    return np.array(ids, dtype=np.int64)


def _added(bare: str, before: str, word: str, tokenizer: Any, behind: str = "") -> list[int]:
    """The tokens of `before` + `word` + `behind` from the first that differs from the tokens of `bare`."""
    start, whole = _plain(bare, tokenizer), _plain(before + word.strip() + behind, tokenizer)
    pairs = enumerate(zip(start, whole, strict=False))
    same = next((i for i, (a, b) in pairs if a != b), min(len(start), len(whole)))
    return whole[same:]


def _check_one_token(ids: list[int], word: str, label: str, tokenizer: Any) -> None:
    if len(ids) != 1:
        pieces = ", ".join(f"'{piece}'" for piece in tokenizer.convert_ids_to_tokens(ids))
        raise BadLabelWord(
            f"the label word '{word}' (label '{label}') is {len(ids)} tokens for this tokenizer ({pieces}); "
            "the prompt readout can only score one: choose a word that is a single token, or use the causal readout."
        )
    if ids[0] == tokenizer.unk_token_id:
        raise BadLabelWord(
            f"the label word '{word}' (label '{label}') is not in this tokenizer's vocabulary; choose another."
        )


def _before_mask(parts: Sequence[Part]) -> str:
    """The literal text right before the mask; one space if there is none."""
    place = next(i for i, part in enumerate(parts) if isinstance(part, Mask))
    before = parts[place - 1] if place else " "
    return before if isinstance(before, str) else " "


def _last_word(prompt: str) -> str:
    match = re.search(r"\S+\s*$", prompt)
    return match[0] if match else prompt


def _plain(text: str, tokenizer: Any) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]) if text else []

"""Tests of label words: one token at the mask, whole answers after a prompt."""

import numpy as np
import pytest

from skillviz.errors import BadLabelWord
from skillviz.tasks.template import parse
from skillviz.tasks.verbalizer import answer_ids, word_ids
from tests.tasks.make import made
from tests.tasks.tokenizers import CAUSAL, MASKED, tokenizer

PIECES = {"wordpiece": "{}", "bytes": "Ġ{}", "unigram": "▁{}"}
TEMPLATES = ["{text} It was <mask>.", "<mask>: {text}", "{text}<mask>", "{text}? <mask>, yes", "{text} “<mask>”"]


def ids_of(template: str, words: tuple[str, ...], kind: str) -> np.ndarray:
    task = made(masked=template)
    return word_ids(task, parse(template, task.text), words, tokenizer(kind))


@pytest.mark.parametrize("template", TEMPLATES[:4])
@pytest.mark.parametrize("kind", MASKED)
def test_words_are_the_piece_that_follows_a_space(kind: str, template: str) -> None:
    ids = ids_of(template, ("terrible", "great"), kind)
    wanted = [PIECES[kind].format(word) for word in ("terrible", "great")]
    assert tokenizer(kind).convert_ids_to_tokens(ids.tolist()) == wanted
    assert ids.dtype == np.int64


def test_glued_words_have_no_space() -> None:
    ids = ids_of(TEMPLATES[4], ("terrible", "great"), "bytes")
    assert tokenizer("bytes").convert_ids_to_tokens(ids.tolist()) == ["terrible", "great"]


@pytest.mark.parametrize("kind", MASKED)
def test_a_word_in_its_place_gives_that_token(kind: str) -> None:
    """The filled sentence, tokenized as a whole, has the label word's id at the mask."""
    template, tok = "{text} It was <mask> .", tokenizer(kind)
    ids = ids_of(template, ("terrible", "great"), kind)
    masked = tok(f"the plot It was {tok.mask_token} .")["input_ids"]
    for word, wanted in zip(("terrible", "great"), ids, strict=True):
        whole = tok(f"the plot It was {word} .")["input_ids"]
        assert whole[masked.index(tok.mask_token_id)] == wanted


@pytest.mark.parametrize("kind", MASKED)
def test_a_word_of_several_tokens_is_refused_with_its_pieces(kind: str) -> None:
    says = r"the label word 'superb' \(label 'positive'\) is \d tokens .*'.*u.*'.* a single token, or use the causal"
    with pytest.raises(BadLabelWord, match=says):
        ids_of(TEMPLATES[0], ("terrible", "superb"), kind)


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(BadLabelWord, match="'ж' .* is not in this tokenizer's vocabulary"):
        ids_of(TEMPLATES[0], ("terrible", "ж"), "wordpiece")


def test_two_labels_with_one_token_are_refused() -> None:
    with pytest.raises(BadLabelWord, match="'Great' and 'great' are the same token 'great'"):
        ids_of(TEMPLATES[0], ("Great", "great"), "wordpiece")
    assert len(set(ids_of(TEMPLATES[0], ("It", "great"), "bytes"))) == 2


TAILS = [" It was", '" has a tone that is', "\n topic:", "\nanswer:\n", "", '"', " true, false, or neither?\n answer:"]
WORDS = ("great", "a description.", "not so good", "x")


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("kind", [*CAUSAL, "bytes"])
def test_an_answer_is_what_the_whole_text_has_behind_the_prompt(kind: str, tail: str) -> None:
    tok = tokenizer(kind)
    prompts = [text + tail for text in ("the plot was dull", "it is fun.", "Überraschung 7", "a")]
    for prompt, row in zip(prompts, answer_ids(prompts, tail, WORDS, tok), strict=True):
        for word, answer in zip(WORDS, row, strict=True):
            space = "" if prompt.endswith("\n") else " "
            ids = tok(prompt, add_special_tokens=False)["input_ids"]
            assert [*ids, *answer] == tok(prompt + space + word, add_special_tokens=False)["input_ids"]


def test_ends_are_tokenised_once() -> None:
    found = answer_ids(["one two It was", "three It was"], " It was", WORDS, tokenizer("gpt2"))
    assert found[0] is found[1] and len(found[0]) == len(WORDS)

"""Tests of encoding: the input of each readout with every kind of tokenizer, and the parts that are never truncated."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.encoded import Encoded
from skillviz.core.readout import CausalReadout, make_readout
from skillviz.errors import BadInput, BadLabelWord
from skillviz.tasks.encode import cut_lengths, encode, fitted
from tests.tasks.make import frame, made
from tests.tasks.tokenizers import CAUSAL, MASKED, tokenizer

POLARITY = "{text} It was <mask>."
NLI = "{a-}? <mask>, {b~}"
SPLIT_WORDS = {"masked": ("bad", "superb")}
GPT = " {a}\n question: {b} true or false?\n answer:"


def shown(encoded: Encoded, row: int, kind: str) -> str:
    return tokenizer(kind).decode(encoded.input_ids[row])


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL])
def test_head_is_the_tokenizers_own_encoding(kind: str) -> None:
    tok, texts = tokenizer(kind), ["the film was good", "a dull plot"]
    encoded = encode(made(), frame(*texts), tok, "head")
    assert [row.tolist() for row in encoded.input_ids] == tok(texts)["input_ids"]
    assert encoded.ids == ["test-0", "test-1"] and encoded.labels.tolist() == [0, 1] and encoded.n_labels == 2
    assert all(row.dtype == np.int64 for row in encoded.input_ids)
    assert encoded.positions is encoded.label_ids is encoded.answers is None


def test_pairs_have_segments_where_the_tokenizer_has_them() -> None:
    pairs = frame(("the film", "a plot"), ("story", "it was good"))
    encoded = encode(made(pair=True), pairs, tokenizer("wordpiece"), "head")
    assert encoded.token_type_ids is not None and encoded.token_type_ids[0].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert encode(made(pair=True), pairs, tokenizer("bytes"), "head").token_type_ids is None


@pytest.mark.parametrize("kind", MASKED)
def test_prompt_has_the_mask_where_positions_say(kind: str) -> None:
    encoded = encode(made(masked=POLARITY), frame("the film", "a dull plot"), tokenizer(kind), "prompt")
    assert encoded.positions is not None and encoded.label_ids is not None
    for ids, place in zip(encoded.input_ids, encoded.positions, strict=True):
        assert np.flatnonzero(ids == tokenizer(kind).mask_token_id).tolist() == [place]
    assert tokenizer(kind).convert_ids_to_tokens(encoded.label_ids.tolist())[1].endswith("great")


def test_prompt_fills_the_template() -> None:
    encoded = encode(made(masked=NLI, pair=True), frame(("The film.", "A plot.")), tokenizer("bytes"), "prompt")
    assert shown(encoded, 0, "bytes") == "<s>The film?<mask>, a plot.</s>"


def test_causal_ends_where_the_answer_begins() -> None:
    encoded = encode(made(causal=GPT, pair=True), frame(("The film.", "A plot.")), tokenizer("gpt2"), "causal")
    assert encoded.answers is not None
    whole = [tokenizer("gpt2").decode([*encoded.input_ids[0], *answer]) for answer in encoded.answers[0]]
    assert whole == [f" The film.\n question: A plot. true or false?\n answer: {w}" for w in ("terrible", "great")]


@pytest.mark.parametrize("kind", ["bytes", "wordpiece"])
def test_causal_has_no_closing_token_before_the_answer(kind: str) -> None:
    encoded = encode(made(causal="{text} It was"), frame("the film"), tokenizer(kind), "causal")
    assert encoded.input_ids[0][-1] not in (tokenizer(kind).sep_token_id, tokenizer(kind).eos_token_id)
    assert encoded.input_ids[0][0] == tokenizer(kind).cls_token_id


def test_padding_is_named_even_where_the_tokenizer_has_none() -> None:
    assert encode(made(), frame("film"), tokenizer("wordpiece"), "head").pad_id == 0
    assert encode(made(), frame("film"), tokenizer("llama"), "head").pad_id == tokenizer("llama").eos_token_id


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL])
def test_an_empty_text_is_at_least_one_token(kind: str) -> None:
    assert len(encode(made(), frame("", "film"), tokenizer(kind), "head").input_ids[0]) >= 1
    assert len(encode(made(causal="{text}"), frame("", "film"), tokenizer(kind), "causal").input_ids[0]) >= 1


def test_no_rows_give_no_examples() -> None:
    empty = frame("film").head(0)
    for readout in ("head", "prompt", "causal"):
        task = made(masked=POLARITY, causal="{text} It was")
        assert len(encode(task, empty, tokenizer("bytes"), readout)) == 0


@pytest.mark.parametrize("kind", MASKED)
def test_data_cannot_place_a_mask_in_a_prompt_and_are_else_read_as_they_are(kind: str) -> None:
    tok = tokenizer(kind)
    text = f"the {tok.mask_token} film {tok.sep_token} {tok.mask_token}"
    encoded = encode(made(masked=POLARITY), frame(text, "a film"), tok, "prompt")
    assert (encoded.input_ids[0] == tok.mask_token_id).sum() == 1
    assert (encoded.input_ids[0] == tok.sep_token_id).sum() == 2
    assert [note.split(" the mask")[0] for note in encoded.notes] == ["1 of 2 texts contains"]
    head = encode(made(), frame(text), tok, "head")
    assert head.input_ids[0].tolist() == tok(text)["input_ids"] and head.notes == ()


def test_what_cannot_be_asked_is_said() -> None:
    task = made(masked=POLARITY, causal="{text} It was")
    with pytest.raises(BadInput, match="'probe' is not a readout; known: prompt, head, causal"):
        encode(task, frame("x"), tokenizer("bytes"), "probe")
    with pytest.raises(BadInput, match="no mask token"):
        encode(task, frame("x"), tokenizer("gpt2"), "prompt")
    with pytest.raises(BadInput, match="no causal template"):
        encode(made(masked=POLARITY), frame("x"), tokenizer("gpt2"), "causal")
    with pytest.raises(BadLabelWord, match="'superb'"):
        encode(made(masked=POLARITY, label_words=SPLIT_WORDS), frame("x"), tokenizer("bytes"), "prompt")
    with pytest.raises(BadInput, match="the longest answer has"):
        encode(task, frame("x"), tokenizer("gpt2"), "causal", max_length=1)
    with pytest.raises(BadInput, match="alone are .* tokens"):
        encode(task, frame("film"), tokenizer("bytes"), "prompt", max_length=4)


PARTS = ["film", "The", "good.", "xyz", "é", "日本", "\N{GRINNING FACE}", ".", "?", "{", "<s>"]
TEXT = st.lists(st.sampled_from(PARTS), max_size=40)


@given(first=TEXT, second=TEXT, limit=st.integers(20, 40), kind=st.sampled_from(MASKED))
@settings(max_examples=40, deadline=None)
def test_template_and_mask_survive_and_the_bound_holds(first: list, second: list, limit: int, kind: str) -> None:
    tok, texts = tokenizer(kind), (" ".join(first), " ".join(second))
    encoded = encode(made(masked=NLI, pair=True), frame(texts), tok, "prompt", max_length=limit)
    ids = encoded.input_ids[0]
    assert len(ids) <= limit and ids[encoded.positions[0]] == tok.mask_token_id
    place = int(encoded.positions[0])
    assert tok.decode(ids[:place]).endswith("?") and tok.decode(ids[place + 1 :]).lstrip().startswith(",")
    assert ids[0] == tok.cls_token_id and ids[-1] == tok.sep_token_id


@given(text=TEXT, limit=st.integers(16, 40), kind=st.sampled_from(CAUSAL))
@settings(max_examples=40, deadline=None)
def test_causal_tail_and_answers_survive(text: list, limit: int, kind: str) -> None:
    encoded = encode(made(causal="{text} It was"), frame(" ".join(text)), tokenizer(kind), "causal", max_length=limit)
    assert encoded.lengths[0] <= limit
    assert tokenizer(kind).decode(encoded.input_ids[0]).endswith("It was")


@given(first=TEXT, second=TEXT, limit=st.integers(8, 40), kind=st.sampled_from([*MASKED, *CAUSAL]))
@settings(max_examples=40, deadline=None)
def test_head_pairs_keep_their_frame(first: list, second: list, limit: int, kind: str) -> None:
    tok = tokenizer(kind)
    encoded = encode(made(pair=True), frame((" ".join(first), " ".join(second))), tok, "head", max_length=limit)
    ids = encoded.input_ids[0]
    assert len(ids) <= limit
    if kind in MASKED:
        assert ids[0] == tok.cls_token_id and (ids == tok.sep_token_id).sum() >= 2


def test_a_text_is_cut_at_its_end_and_as_little_as_can_be() -> None:
    text = "the film was good and the plot was dull " * 4
    encoded = encode(made(masked=POLARITY), frame(text), tokenizer("wordpiece"), "prompt", max_length=20)
    assert len(encoded.input_ids[0]) == 20
    assert shown(encoded, 0, "wordpiece").startswith("[CLS] the film was good and the plot")


def test_a_given_limit_stands_in_for_the_tasks_and_none_is_above_the_models() -> None:
    text = "film " * 100
    lengths = [
        len(encode(made(max_length=task), frame(text), tokenizer("wordpiece"), "head", given).input_ids[0])
        for task, given in ((64, None), (32, None), (32, 16), (16, 32), (500, None), (None, None), (None, 500))
    ]
    assert lengths == [64, 32, 16, 32, 64, 64, 64]


def test_the_causal_limit_may_be_its_own() -> None:
    task = made(causal="{text} It was", max_length=16, max_length_causal=32)
    assert encode(task, frame("film " * 60), tokenizer("gpt2"), "causal").lengths[0] == 32
    assert len(encode(task, frame("film " * 60), tokenizer("gpt2"), "head").input_ids[0]) == 16


@pytest.mark.bench
def test_ten_thousand_rows_take_seconds() -> None:
    texts = frame(*[("the film was good " * (i % 12 + 1), "a plot") for i in range(10_000)])
    start = time.perf_counter()
    encode(made(masked=NLI, pair=True), texts, tokenizer("bytes"), "prompt", max_length=32)
    assert time.perf_counter() - start < 20


@pytest.mark.slow
def test_the_layer_needs_no_torch() -> None:
    code = (
        "import sys; from skillviz.tasks import encode, paper, registry, splits, user_file; "
        "sys.exit(', '.join({'torch', 'transformers', 'datasets'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_task_may_ask_for_answers_per_token() -> None:
    task = made(causal="{text} It was")
    for asked in (False, True):
        changed = task.model_copy(update={"length_normalised": asked})
        encoded = encode(changed, frame("the film"), tokenizer("gpt2"), "causal")
        assert make_readout("causal", encoded.take([0])) == CausalReadout(by_length=asked)


def slow_kept(lengths: list[int], total: int) -> list[int]:
    """Remove one token at a time from the longest text; ties go to the last one."""
    lengths = list(lengths)
    while sum(lengths) > max(0, total):
        longest = max(lengths)
        place = max(i for i, length in enumerate(lengths) if length == longest)
        lengths[place] -= 1
    return lengths


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(-5, 80))
def test_kept_lengths_are_those_of_the_slow_twin(lengths: list[int], total: int) -> None:
    assert cut_lengths(lengths, total) == slow_kept(lengths, total)


@pytest.mark.parametrize(
    ("lengths", "total", "kept"), [([10, 3], 8, [5, 3]), ([10, 9], 9, [5, 4]), ([2, 2], 9, [2, 2]), ([4, 4], 0, [0, 0])]
)
def test_kept_lengths_by_hand(lengths: list[int], total: int, kept: list[int]) -> None:
    assert cut_lengths(lengths, total) == kept


def run(rows: list[list[str]], limit: int, kind: str = "wordpiece"):
    tok = tokenizer(kind)
    calls = []

    def tokenized(texts: list[list[str]]) -> dict:
        calls.append(len(texts))
        return dict(tok([" it was ".join(row) for row in texts]))

    texts, inputs, shortened = fitted(rows, [limit] * len(rows), tokenized, tok)
    assert shortened == sum(kept != row for kept, row in zip(texts, rows, strict=True))
    return texts, inputs, calls


def test_rows_that_fit_are_left_alone_and_tokenised_once() -> None:
    rows = [["a film", "a plot"], ["the film was the film " * 5, "a plot"]]
    texts, inputs, calls = run(rows, 12)
    assert texts[0] == rows[0] and calls == [2, 1]
    assert len(inputs["input_ids"][1]) == 12 and rows[1][0].startswith(texts[1][0]) and texts[1][1] == "a plot"


def test_the_longest_text_gives_way_first() -> None:
    texts, _, _ = run([["film " * 20, "plot story"]], 11)
    assert [len(text.split()) for text in texts[0]] == [5, 2]


def test_one_character_of_many_tokens_goes_whole() -> None:
    """A character of several byte tokens cannot be cut in the middle; the loop still ends."""
    texts, inputs, _ = run([["\N{GRINNING FACE}" * 6, "film"]], 20, "bytes")
    assert len(inputs["input_ids"][0]) <= 20 and set(texts[0][0]) <= {"\N{GRINNING FACE}"}


def test_a_tokenizer_without_offsets_is_served_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(tokenizer("wordpiece")), "is_fast", property(lambda self: False))
    texts, inputs, _ = run([["the film was the film " * 5, "a plot"]], 12)
    assert len(inputs["input_ids"][0]) <= 12 and texts[0][1] == "a plot" and texts[0][0]


def test_no_room_is_said() -> None:
    with pytest.raises(BadInput, match=r"template and special tokens alone are 4 tokens .* and 3 fit"):
        run([["film", "plot"]], 3)

"""Tests of templates, label words and encoding: each readout's input with every kind of tokenizer, and what is cut."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.readout import CausalReadout, make_readout
from skillviz.errors import BadInput, BadLabelWord
from skillviz.tasks.encode import cut_lengths, encode, fitted
from skillviz.tasks.template import Mask, Place, check_template, parse, places, rendered
from skillviz.tasks.verbalizer import answer_ids, word_ids
from tests.refused import refused
from tests.tasks.make import CAUSAL, MASKED, POLARITY, frame, made, read, tokenizer

NLI = "{a-}? <mask>, {b~}"
GPT = " {a}\n question: {b} true or false?\n answer:"
PAIR = ("premise", "hypothesis")
TWO = ("terrible", "great")


def fill(template: str, *texts: str, lmbff_exact: bool = False) -> str:
    """Return the template with these texts in their places."""
    parts = parse(template, PAIR if len(texts) == 2 else ("text",))
    return rendered(parts, [place.filled(texts[place.field], lmbff_exact) for place in places(parts)], "[MASK]")


def ids_of(template: str, words: tuple[str, ...], kind: str) -> np.ndarray:
    task = made(masked=template)
    return word_ids(task, parse(template, task.text), words, tokenizer(kind))


def test_places_and_mask_are_told_apart() -> None:
    assert [type(part) for part in parse("{a-}? <mask>, {b~}", PAIR)] == [Place, str, Mask, str, Place]


@pytest.mark.parametrize(
    ("template", "texts", "exact", "filled"),
    [
        *((template, ["Fine film."], False, "Fine film. It was [MASK].")
          for template in ("{text} It was <mask>.", "{a} It was {mask}.", "{text_a} It was [MASK].")),
        ("{premise} / {hypothesis~}", ["One", "Two"], False, "One / two"),
        *((NLI, [text, "So it is"], False, f"{shown}? [MASK], so it is")
          for text, shown in (("Right.", "Right"), ("Right!", "Right"), ("Right?", "Right"), ("Right", "Right"),
                              ("right,", "right,"), ("", ""))),
        (NLI, ["Right", "So"], True, "Righ? [MASK], so"),
        ("{b-~}", ["One.", "Two."], False, "two"),
        ("{text}: <mask>", ["{text} {b} {{"], False, "{text} {b} {{: [MASK]"),
        ("{{{text}}} <mask>", ["x"], False, "{x} [MASK]"),
    ],
)  # fmt: skip
def test_a_template_is_filled_with_its_texts(template: str, texts: list[str], exact: bool, filled: str) -> None:
    """A minus drops a final stop only, or any last character as LM-BFF does; a tilde writes the first letter small."""
    assert fill(template, *texts, lmbff_exact=exact) == filled


test_templates_that_cannot_be_asked_are_refused = refused(
    BadInput,
    *(
        (r"is not a place; allowed are \{text\}", parse, template, ("text",))
        for template in ("{txt} <mask>", "{} <mask>", "{text <mask>", "{text} } <mask>", "{-} <mask>")
    ),
    ("exactly one <mask>; it has 0", check_template, "{text} was good", "masked", ("text",), "task 'x'"),
    ("exactly one <mask>; it has 2", check_template, "<mask> {text} <mask>", "masked", ("text",), "task 'x'"),
    ("must end where the answer begins", check_template, "{text} was <mask>", "causal", ("text",), "task 'x'"),
    ("no place for a text", check_template, "It was <mask>", "masked", ("text",), "task 'x'"),
)
test_label_words_without_a_token_of_their_own_are_refused = refused(
    BadLabelWord,
    *(
        (
            r"the label word 'superb' \(label 'positive'\) is \d tokens .*'.*u.*'.* a single token, or use the causal",
            *(ids_of, POLARITY, ("terrible", "superb"), kind),
        )
        for kind in MASKED
    ),
    ("'ж' .* is not in this tokenizer's vocabulary", ids_of, POLARITY, ("terrible", "ж"), "wordpiece"),
    ("'Great' and 'great' are the same token 'great'", ids_of, POLARITY, ("Great", "great"), "wordpiece"),
    ("'superb'", lambda: read("bytes", "prompt", "x", label_words={"masked": ("bad", "superb")})),
)
test_what_cannot_be_asked_is_said = refused(
    BadInput,
    ("'probe' is not a readout; known: prompt, head, causal", lambda: read("bytes", "probe", "x")),
    ("no mask token", lambda: read("gpt2", "prompt", "x")),
    ("no causal template", lambda: read("gpt2", "causal", "x", causal=None)),
    ("the longest answer has", lambda: read("gpt2", "causal", "x", limit=1)),
    ("alone are .* tokens", lambda: read("bytes", "prompt", "film", limit=4)),
    (r"template and special tokens alone are 4 tokens .* and 3 fit", lambda: run([["film", "plot"]], 3)),
)


@pytest.mark.parametrize(
    ("kind", "template", "piece"),
    [
        *((kind, template, piece) for kind, piece in (("wordpiece", "{}"), ("bytes", "Ġ{}"), ("unigram", "▁{}"))
          for template in ("{text} It was <mask>.", "<mask>: {text}", "{text}<mask>", "{text}? <mask>, yes")),
        ("bytes", "{text} “<mask>”", "{}"),  # glued to the quotation mark
    ],
)  # fmt: skip
def test_words_are_the_piece_that_follows_a_space(kind: str, template: str, piece: str) -> None:
    ids = ids_of(template, TWO, kind)
    assert tokenizer(kind).convert_ids_to_tokens(ids.tolist()) == [piece.format(word) for word in TWO]
    assert ids.dtype == np.int64 and len(set(ids_of(POLARITY, ("It", "great"), "bytes"))) == 2


@pytest.mark.parametrize("kind", MASKED)
def test_a_word_in_its_place_gives_that_token(kind: str) -> None:
    """The filled sentence, tokenized as a whole, has the label word's id at the mask."""
    tok = tokenizer(kind)
    place = tok(f"the plot It was {tok.mask_token} .")["input_ids"].index(tok.mask_token_id)
    whole = [tok(f"the plot It was {word} .")["input_ids"][place] for word in TWO]
    assert whole == ids_of("{text} It was <mask> .", TWO, kind).tolist()


TAILS = [" It was", '" has a tone that is', "\n topic:", "\nanswer:\n", "", '"', " true, false, or neither?\n answer:"]
WORDS = ("great", "a description.", "not so good", "x")


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("kind", [*CAUSAL, "bytes"])
def test_an_answer_is_what_the_whole_text_has_behind_the_prompt(kind: str, tail: str) -> None:
    tok = tokenizer(kind)
    prompts = [text + tail for text in ("the plot was dull", "it is fun.", "Überraschung 7", "a")]
    for prompt, row in zip(prompts, answer_ids(prompts, tail, WORDS, tok), strict=True):
        space, ids = "" if prompt.endswith("\n") else " ", tok(prompt, add_special_tokens=False)["input_ids"]
        wholes = [tok(prompt + space + word, add_special_tokens=False)["input_ids"] for word in WORDS]
        assert [[*ids, *answer] for answer in row] == wholes


def test_ends_are_tokenised_once() -> None:
    found = answer_ids(["one two It was", "three It was"], " It was", WORDS, tokenizer("gpt2"))
    assert found[0] is found[1] and len(found[0]) == len(WORDS)


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL])
def test_head_is_the_tokenizers_own_encoding(kind: str) -> None:
    tok, texts = tokenizer(kind), ["the film was good", "a dull plot"]
    encoded = read(kind, "head", *texts)
    assert [row.tolist() for row in encoded.input_ids] == tok(texts)["input_ids"]
    assert encoded.ids == ["test-0", "test-1"] and encoded.labels.tolist() == [0, 1] and encoded.n_labels == 2
    assert {row.dtype for row in encoded.input_ids} == {np.dtype(np.int64)}
    assert encoded.positions is encoded.label_ids is encoded.answers is None
    empty = [read(kind, "head", "", "film"), read(kind, "causal", "", "film", causal="{text}")]
    assert [len(one.input_ids[0]) >= 1 for one in empty] == [True, True]


def test_pairs_have_segments_where_the_tokenizer_has_them() -> None:
    pairs = ("the film", "a plot"), ("story", "it was good")
    segments = read("wordpiece", "head", *pairs, pair=True).token_type_ids
    assert segments is not None and segments[0].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert read("bytes", "head", *pairs, pair=True).token_type_ids is None


@pytest.mark.parametrize("kind", MASKED)
def test_prompt_has_the_mask_where_positions_say_and_data_cannot_place_another(kind: str) -> None:
    tok = tokenizer(kind)
    text = f"the {tok.mask_token} film {tok.sep_token} {tok.mask_token}"
    encoded = read(kind, "prompt", text, "a dull plot")
    assert encoded.positions is not None and encoded.label_ids is not None
    for ids, place in zip(encoded.input_ids, encoded.positions, strict=True):
        assert np.flatnonzero(ids == tok.mask_token_id).tolist() == [place]
    assert tok.convert_ids_to_tokens(encoded.label_ids.tolist())[1].endswith("great")
    assert (encoded.input_ids[0] == tok.sep_token_id).sum() == 2
    assert [note.split(" the mask")[0] for note in encoded.notes] == ["1 of 2 texts contains"]
    head = read(kind, "head", text)
    assert head.input_ids[0].tolist() == tok(text)["input_ids"] and head.notes == ()


def test_a_prompt_is_the_filled_template_and_a_causal_one_ends_where_the_answer_begins() -> None:
    pair = ("The film.", "A plot.")
    filled = read("bytes", "prompt", pair, masked=NLI, pair=True)
    assert tokenizer("bytes").decode(filled.input_ids[0]) == "<s>The film?<mask>, a plot.</s>"
    encoded = read("gpt2", "causal", pair, causal=GPT, pair=True)
    assert encoded.answers is not None
    whole = [tokenizer("gpt2").decode([*encoded.input_ids[0], *answer]) for answer in encoded.answers[0]]
    assert whole == [f" The film.\n question: A plot. true or false?\n answer: {word}" for word in TWO]


@pytest.mark.parametrize("kind", ["bytes", "wordpiece"])
def test_causal_has_no_closing_token_before_the_answer(kind: str) -> None:
    ids = read(kind, "causal", "the film").input_ids[0]
    assert ids[-1] not in (tokenizer(kind).sep_token_id, tokenizer(kind).eos_token_id)
    assert ids[0] == tokenizer(kind).cls_token_id


def test_padding_is_named_even_where_the_tokenizer_has_none() -> None:
    assert read("wordpiece", "head", "film").pad_id == 0
    assert read("llama", "head", "film").pad_id == tokenizer("llama").eos_token_id


@pytest.mark.parametrize("readout", ["head", "prompt", "causal"])
def test_no_rows_give_no_examples(readout: str) -> None:
    task = made(masked=POLARITY, causal="{text} It was")
    assert len(encode(task, frame("film").head(0), tokenizer("bytes"), readout)) == 0


@pytest.mark.parametrize("asked", [False, True])
def test_a_task_may_ask_for_answers_per_token(asked: bool) -> None:
    encoded = read("gpt2", "causal", "the film", length_normalised=asked)
    assert make_readout("causal", encoded.take([0])) == CausalReadout(by_length=asked)


PARTS = ["film", "The", "good.", "xyz", "é", "日本", "\N{GRINNING FACE}", ".", "?", "{", "<s>"]
TEXT = st.lists(st.sampled_from(PARTS), max_size=40).map(" ".join)


@given(first=TEXT, second=TEXT, limit=st.integers(20, 40), kind=st.sampled_from(MASKED))
@settings(max_examples=40, deadline=None)
def test_template_and_mask_survive_and_the_bound_holds(first: str, second: str, limit: int, kind: str) -> None:
    tok = tokenizer(kind)
    encoded = read(kind, "prompt", (first, second), masked=NLI, pair=True, limit=limit)
    ids, place = encoded.input_ids[0], int(encoded.positions[0])
    assert len(ids) <= limit and ids[place] == tok.mask_token_id
    assert tok.decode(ids[:place]).endswith("?") and tok.decode(ids[place + 1 :]).lstrip().startswith(",")
    assert ids[0] == tok.cls_token_id and ids[-1] == tok.sep_token_id


@given(text=TEXT, limit=st.integers(16, 40), kind=st.sampled_from(CAUSAL))
@settings(max_examples=40, deadline=None)
def test_causal_tail_and_answers_survive(text: str, limit: int, kind: str) -> None:
    encoded = read(kind, "causal", text, limit=limit)
    assert encoded.lengths[0] <= limit
    assert tokenizer(kind).decode(encoded.input_ids[0]).endswith("It was")


@given(first=TEXT, second=TEXT, limit=st.integers(8, 40), kind=st.sampled_from([*MASKED, *CAUSAL]))
@settings(max_examples=40, deadline=None)
def test_head_pairs_keep_their_frame(first: str, second: str, limit: int, kind: str) -> None:
    tok, ids = tokenizer(kind), read(kind, "head", (first, second), pair=True, limit=limit).input_ids[0]
    assert len(ids) <= limit
    assert kind in CAUSAL or ids[0] == tok.cls_token_id and (ids == tok.sep_token_id).sum() >= 2


def test_a_text_is_cut_at_its_end_and_as_little_as_can_be() -> None:
    ids = read("wordpiece", "prompt", "the film was good and the plot was dull " * 4, limit=20).input_ids[0]
    assert len(ids) == 20
    assert tokenizer("wordpiece").decode(ids).startswith("[CLS] the film was good and the plot")


@pytest.mark.parametrize(
    ("kind", "readout", "own", "given", "length"),
    [
        *(("wordpiece", "head", {"max_length": own}, given, length) for own, given, length in (
            (64, None, 64), (32, None, 32), (32, 16, 16), (16, 32, 32), (500, None, 64), (None, None, 64),
            (None, 500, 64))),
        ("gpt2", "causal", {"max_length": 16, "max_length_causal": 32}, None, 32),
        ("gpt2", "head", {"max_length": 16, "max_length_causal": 32}, None, 16),
    ],
)  # fmt: skip
def test_a_given_limit_stands_in_for_the_tasks_and_none_is_above_the_models(
    kind: str, readout: str, own: dict[str, int], given: int | None, length: int
) -> None:
    assert read(kind, readout, "film " * 100, limit=given, **own).lengths[0] == length


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


def slow_kept(lengths: list[int], total: int) -> list[int]:
    """Remove one token at a time from the longest text; ties go to the last one."""
    lengths = list(lengths)
    while sum(lengths) > max(0, total):
        lengths[max(range(len(lengths)), key=lambda i: (lengths[i], i))] -= 1
    return lengths


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(-5, 80))
def test_kept_lengths_are_those_of_the_slow_twin(lengths: list[int], total: int) -> None:
    assert cut_lengths(lengths, total) == slow_kept(lengths, total)


@pytest.mark.parametrize(
    ("lengths", "total", "kept"), [([10, 3], 8, [5, 3]), ([10, 9], 9, [5, 4]), ([2, 2], 9, [2, 2]), ([4, 4], 0, [0, 0])]
)
def test_kept_lengths_by_hand(lengths: list[int], total: int, kept: list[int]) -> None:
    assert cut_lengths(lengths, total) == kept


def run(rows: list[list[str]], limit: int, kind: str = "wordpiece") -> tuple[list[list[str]], list[list[int]], list]:
    """Return the texts that fit, their ids, and how many rows each call of the tokenizer had."""
    tok, calls = tokenizer(kind), []

    def tokenized(texts: list[list[str]]) -> dict:
        calls.append(len(texts))
        return dict(tok([" it was ".join(row) for row in texts]))

    texts, inputs, shortened = fitted(rows, [limit] * len(rows), tokenized, tok)
    assert shortened == sum(kept != row for kept, row in zip(texts, rows, strict=True))
    return texts, inputs["input_ids"], calls


def test_rows_that_fit_are_left_alone_and_the_longest_text_of_others_gives_way() -> None:
    rows = [["a film", "a plot"], ["the film was the film " * 5, "a plot"]]
    texts, ids, calls = run(rows, 12)
    assert texts[0] == rows[0] and calls == [2, 1], "what fits is tokenized once"
    assert len(ids[1]) == 12 and rows[1][0].startswith(texts[1][0]) and texts[1][1] == "a plot"
    (both,), _, _ = run([["film " * 20, "plot story"]], 11)
    assert [len(text.split()) for text in both] == [5, 2]


def test_one_character_of_many_tokens_goes_whole() -> None:
    """A character of several byte tokens cannot be cut in the middle; the loop still ends."""
    texts, ids, _ = run([["\N{GRINNING FACE}" * 6, "film"]], 20, "bytes")
    assert len(ids[0]) <= 20 and set(texts[0][0]) <= {"\N{GRINNING FACE}"}


def test_a_tokenizer_without_offsets_is_served_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(tokenizer("wordpiece")), "is_fast", property(lambda self: False))
    texts, ids, _ = run([["the film was the film " * 5, "a plot"]], 12)
    assert len(ids[0]) <= 12 and texts[0][1] == "a plot" and texts[0][0]

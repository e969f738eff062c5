"""Tests of templates, label words and encoding: each readout's input with every kind of tokenizer, and what is cut;
and of tasks whose examples have their own options, or a reference to write."""

import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.readout import CausalReadout, make_readout
from skillviz.errors import BadData, BadInput, BadLabelWord
from skillviz.runs.transfer import label_mapping
from skillviz.tasks.definition import definition
from skillviz.tasks.encode import cut_lengths, fitted
from skillviz.tasks.template import Mask, Place, check_template, parse, places, rendered
from skillviz.tasks.verbalizer import answer_ids, word_ids
from tests.tasks.make import (
    CAUSAL,
    MASKED,
    POLARITY,
    Encoded,
    Task,
    by_hand,
    by_hand_in,
    encode,
    frame,
    load,
    made,
    read,
    refused,
    refused_in,
    refuses,
    task,
    tokenizer,
    write_task,
)

NLI = "{a-}? <mask>, {b~}"
PAIR = ("premise", "hypothesis")
TWO = ("terrible", "great")


def fill(template: str, *texts: str, lmbff_exact: bool = False) -> str:
    parts = parse(template, PAIR if len(texts) == 2 else ("text",))
    return rendered(parts, [place.filled(texts[place.field], lmbff_exact) for place in places(parts)], "[MASK]")


def ids_of(template: str, words: tuple[str, ...], kind: str) -> np.ndarray:
    task = made(masked=template)
    return word_ids(task, parse(template, task.text), words, tokenizer(kind))


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
test_what_cannot_be_asked_is_refused = refused(
    BadInput,
    ("'probe' is not a readout; known: prompt, head, causal", lambda: read("bytes", "probe", "x")),
    ("no mask token", lambda: read("gpt2", "prompt", "x")),
    ("no causal template", lambda: read("gpt2", "causal", "x", causal=None)),
    ("the longest answer has", lambda: read("gpt2", "causal", "x", limit=1)),
    ("alone are .* tokens", lambda: read("bytes", "prompt", "film", limit=4)),
    (r"template and special tokens alone are 4 tokens .* and 3 fit", lambda: run([["film", "plot"]], 3)),
    *(
        (r"is not a place; allowed are \{text\}", parse, template, ("text",))
        for template in ("{txt} <mask>", "{} <mask>", "{text <mask>", "{text} } <mask>", "{-} <mask>")
    ),
    ("exactly one <mask>; it has 0", check_template, "{text} was good", "masked", ("text",), "task 'x'"),
    ("exactly one <mask>; it has 2", check_template, "<mask> {text} <mask>", "masked", ("text",), "task 'x'"),
    ("must end where the answer begins", check_template, "{text} was <mask>", "causal", ("text",), "task 'x'"),
    ("no place for a text", check_template, "It was <mask>", "masked", ("text",), "task 'x'"),
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
    tokens = tokenizer(kind).convert_ids_to_tokens(ids.tolist())
    assert (tokens, ids.dtype) == ([piece.format(word) for word in TWO], np.int64)


@pytest.mark.parametrize("kind", MASKED)
def test_a_word_in_its_place_gives_that_token(kind: str) -> None:
    tok = tokenizer(kind)
    place = tok(f"the plot It was {tok.mask_token} .")["input_ids"].index(tok.mask_token_id)
    assert [tok(f"the plot It was {word} .")["input_ids"][place] for word in TWO] == ids_of(
        "{text} It was <mask> .", TWO, kind
    ).tolist()


WORDS = ("great", "a description.", "not so good", "x")


@pytest.mark.parametrize(
    "tail",
    [" It was", '" has a tone that is', "\n topic:", "\nanswer:\n", "", '"', " true, false, or neither?\n answer:"],
)
@pytest.mark.parametrize("kind", [*CAUSAL, "bytes"])
def test_an_answer_is_what_the_whole_text_has_behind_the_prompt(kind: str, tail: str) -> None:
    tok = tokenizer(kind)
    prompts = [text + tail for text in ("the plot was dull", "it is fun.", "Überraschung 7", "a")]
    plain, space = partial(tok, add_special_tokens=False), "" if tail.endswith("\n") else " "
    for prompt, row in zip(prompts, answer_ids(prompts, tail, WORDS, tok), strict=True):
        whole = [plain(prompt + space + word)["input_ids"] for word in WORDS]
        assert [[*plain(prompt)["input_ids"], *answer] for answer in row] == whole


def test_ends_are_tokenised_once() -> None:
    found = answer_ids(["one two It was", "three It was"], " It was", WORDS, tokenizer("gpt2"))
    assert found[0] is found[1] and len(found[0]) == len(WORDS)


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL, "distilbert"])
def test_head_is_the_tokenizers_own_encoding(kind: str) -> None:
    tok = tokenizer(kind)
    special = [f"{token} a film {token}the plot" for token in tok.all_special_tokens if token]
    texts = ["the film was good", "a dull plot", *special]
    encoded = read(kind, "head", *texts)
    assert [row.tolist() for row in encoded.input_ids] == tok(texts)["input_ids"]
    facts = (encoded.ids[:2], encoded.labels.tolist()[:2], encoded.n_labels, {row.dtype for row in encoded.input_ids})
    assert (*facts, encoded.notes) == (["test-0", "test-1"], [0, 1], 2, {np.dtype(np.int64)}, ())
    assert encoded.positions is encoded.label_ids is encoded.answers is None
    empty = (read(kind, "head", "", "film"), read(kind, "causal", "", "film", causal="{text}"))
    assert all(len(one.input_ids[0]) for one in empty)


def test_a_causal_prompt_ends_where_the_answer_begins() -> None:
    template = " {a}\n question: {b} true or false?\n answer:"
    encoded = read("gpt2", "causal", ("The film.", "A plot."), causal=template, pair=True)
    whole = [tokenizer("gpt2").decode([*encoded.input_ids[0], *answer]) for answer in encoded.answers[0]]
    assert whole == [f" The film.\n question: A plot. true or false?\n answer: {word}" for word in TWO]


TEXT = st.lists(
    st.sampled_from(["film", "The", "good.", "xyz", "é", "日本", "\N{GRINNING FACE}", ".", "?", "{", "<s>"]),
    max_size=40,
).map(" ".join)


@given(first=TEXT, second=TEXT, limit=st.integers(20, 40), kind=st.sampled_from(MASKED))
@settings(max_examples=40, deadline=None)
def test_template_and_mask_survive_and_the_bound_holds(first: str, second: str, limit: int, kind: str) -> None:
    tok = tokenizer(kind)
    encoded = read(kind, "prompt", (first, second), masked=NLI, pair=True, limit=limit)
    ids, place = encoded.input_ids[0], int(encoded.positions[0])
    assert tok.decode(ids[:place]).endswith("?") and tok.decode(ids[place + 1 :]).lstrip().startswith(",")
    assert [ids[at] for at in (0, place, -1)] == [tok.cls_token_id, tok.mask_token_id, tok.sep_token_id]
    assert len(ids) <= limit


@given(text=TEXT, limit=st.integers(16, 40), kind=st.sampled_from(CAUSAL))
@settings(max_examples=40, deadline=None)
def test_causal_tail_and_answers_survive(text: str, limit: int, kind: str) -> None:
    encoded = read(kind, "causal", text, limit=limit)
    assert encoded.lengths[0] <= limit and tokenizer(kind).decode(encoded.input_ids[0]).endswith("It was")


@given(first=TEXT, second=TEXT, limit=st.integers(8, 40), kind=st.sampled_from([*MASKED, *CAUSAL]))
@settings(max_examples=40, deadline=None)
def test_head_pairs_keep_their_frame(first: str, second: str, limit: int, kind: str) -> None:
    tok, ids = tokenizer(kind), read(kind, "head", (first, second), pair=True, limit=limit).input_ids[0]
    assert len(ids) <= limit
    assert kind in CAUSAL or ids[0] == tok.cls_token_id and (ids == tok.sep_token_id).sum() >= 2


def test_a_text_is_cut_at_its_end_and_as_little_as_can_be() -> None:
    ids = read("wordpiece", "prompt", "the film was good and the plot was dull " * 4, limit=20).input_ids[0]
    assert len(ids) == 20 and tokenizer("wordpiece").decode(ids).startswith("[CLS] the film was good and the plot")


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
    subprocess.run([sys.executable, "-c", code], check=True)


def slow_kept(lengths: list[int], total: int) -> list[int]:
    """Remove one token at a time from the longest text; ties go to the last one."""
    lengths = list(lengths)
    while sum(lengths) > max(0, total):
        lengths[max(range(len(lengths)), key=lambda i: (lengths[i], i))] -= 1
    return lengths


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(-5, 80))
def test_kept_lengths_are_those_of_the_slow_twin(lengths: list[int], total: int) -> None:
    assert cut_lengths(lengths, total) == slow_kept(lengths, total)


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
    texts, ids, _ = run([["\N{GRINNING FACE}" * 6, "film"]], 20, "bytes")
    assert len(ids[0]) <= 20 and set(texts[0][0]) <= {"\N{GRINNING FACE}"}


def test_a_tokenizer_without_offsets_is_served_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(tokenizer("wordpiece")), "is_fast", property(lambda self: False))
    texts, ids, _ = run([["the film was the film " * 5, "a plot"]], 12)
    assert len(ids[0]) <= 12 and texts[0][1] == "a plot" and texts[0][0]


LISTS = [
    {"text": "which one barks", "choices": ["a small cat", "the dog"], "label": "B"},
    {"text": "which one is red", "choices": ["grass", "snow", " rust "], "label": 2},
    {"text": "what do we drink", "choices": ["water", "sand", None, ""], "label": "A"},
] * 4
COLUMNS = [
    {"text": "which one barks", "one": "a cat", "two": "the dog", "three": "", "label": 1},
    {"text": "which one is red", "one": "grass", "two": "snow", "three": "rust", "label": "C"},
] * 4
REFERENCES = [
    {"text": "the dog barks", "gold": " at the cat "},
    {"text": "what do we drink", "gold": "Water"},
    {"text": "a", "gold": "an answer of some more words"},
] * 4
PLAIN = {"label_words": None, "metric": None, "template": {"causal": "{text} Answer:"}}
SCORED = {"metric": "perplexity", "max_new_tokens": None}


def choice(folder: Path, rows: Any = LISTS, suffix: str = ".jsonl", **changes: Any) -> Task:
    """Return the task of these rows, with its options in the column `choices`."""
    return task(write_task(folder, rows, suffix, **{**PLAIN, "options": "choices", "labels": list("ABC"), **changes}))


def generated(folder: Path, rows: Any = REFERENCES, **changes: Any) -> Task:
    """Return the task of these rows, with its reference in the column `gold`."""
    return task(
        write_task(
            folder,
            rows,
            **{**PLAIN, "labels": None, "label": None, "reference": "gold", "max_new_tokens": 40, **changes},
        )
    )


def answered(made: Task, kind: str = "gpt2", readout: str = "causal") -> Encoded:
    return encode(made, load(made).test, tokenizer(kind), readout)


def test_a_list_may_be_shorter_than_the_labels(tmp_path: Path) -> None:
    made = choice(tmp_path)
    frame, options = load(made).test, [("a small cat", "the dog"), ("grass", "snow", "rust"), ("water", "sand")]
    assert (made.kind, made.has_classes) == ("choice", False)
    assert (frame["options"].tolist()[:3], frame["label"].tolist()[:3]) == (options, [1, 2, 0])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_columns_are_called_by_letter_and_the_last_may_be_empty(tmp_path: Path, suffix: str) -> None:
    rows = [{**row, "label": {"C": 2}.get(str(row["label"]), row["label"])} for row in COLUMNS]
    made = choice(tmp_path, rows, suffix, options=["one", "two", "three"], labels=None)
    frame = load(made).test[:2]
    assert (made.labels, frame["label"].tolist(), frame["options"].tolist()) == (
        ("A", "B", "C"), [1, 2], [("a cat", "the dog"), ("grass", "snow", "rust")],
    )  # fmt: skip


def test_an_absent_option_has_no_token_and_the_others_theirs(tmp_path: Path) -> None:
    made, tok = choice(tmp_path), tokenizer("gpt2")
    encoded, frame = answered(made), load(made).test
    lengths = [[bool(len(option)) for option in row] for row in encoded.answers[:2]]
    assert (encoded.n_labels, lengths) == (3, [[True, True, False], [True] * 3])
    for ids, row, options in zip(encoded.input_ids, encoded.answers, frame["options"], strict=True):
        for option, text in zip(row, options, strict=False):
            assert tok.decode([*ids, *option]).endswith(f" {text}")
    assert np.array_equal(encoded.labels, frame["label"])


def test_k_shot_draws_examples_whatever_their_right_option(tmp_path: Path) -> None:
    splits = load(choice(tmp_path), k_shot=3)
    assert len(splits.train) == len(splits.validation) == len(load(generated(tmp_path), k_shot=3).train) == 3
    assert any("examples in all, as the task has no classes" in note for note in splits.notes)


def test_options_and_references_belong_to_the_fingerprint(tmp_path: Path) -> None:
    rows = [{**row, "choices": [*row["choices"][:1], "a cow", *row["choices"][2:]]} for row in LISTS]
    tasks = (choice(tmp_path / "a"), choice(tmp_path / "b", rows), generated(tmp_path / "c"),
             generated(tmp_path / "d", [{**REFERENCES[0], "gold": "no"}, *REFERENCES[1:]]))  # fmt: skip
    assert len({load(made).fingerprint for made in tasks}) == 4


def test_a_definition_is_of_the_causal_readout_alone(tmp_path: Path) -> None:
    made, written = choice(tmp_path / "a"), generated(tmp_path / "b")
    scored = generated(tmp_path / "c", **SCORED)
    told = [definition(made.model_copy(update={"length_normalised": each})) for each in (False, True)]
    told += [definition(written), definition(scored)]
    assert len(set(told)) == 4 and {(one[:7], " " in one) for one in told} == {("causal=", False)}


def mapped(folder: Path, **changes: Any) -> None:
    made = generated(folder, **changes)
    label_mapping(made, made)


test_what_contradicts_options_or_a_reference_is_refused = refused_in(
    BadInput,
    *((f"the {readout} readout knows fixed classes only; use the causal readout",
       lambda folder, readout: answered(choice(folder), readout=readout), readout) for readout in ("head", "prompt")),
    *((f"which the {readout} readout cannot do; use the causal readout",
       lambda folder, readout: answered(generated(folder), readout=readout), readout)
      for readout in ("head", "prompt")),
    ("takes the likelihood of references, which the head readout cannot",
     lambda folder: answered(generated(folder, **SCORED), readout="head")),
    (r"the longest reference has \d+ tokens .* generates 2; raise max_new_tokens",
     lambda folder: answered(generated(folder, max_new_tokens=2))),
    ("'made' generates its answer and has no classes", mapped),
    ("'made' has a reference for each example and no classes", partial(mapped, **SCORED)),
    ("'answer' names the right one of an example's 'options'", partial(choice, options=None, answer="gold")),
    ("texts, options and the right answer must be in different columns", partial(choice, options="text")),
    ("there are 2 columns of options and 3 labels", partial(choice, options=["one", "two"])),
    ("'classes' and 'drop' belong to a label column", partial(choice, answer="gold", drop=["x"])),
    ("f1 is of a class, and options are no classes; use accuracy", partial(choice, labels=list("AB"), metric="f1")),
    ("leave label_words and the masked template out", partial(choice, label_words=["x", "y", "z"])),
    ("leave label_words and the masked template out", partial(choice, template="{text} <mask>")),
    ("labels must be two or more different names", partial(choice, labels=None)),
    ("a 'reference' is generated, and 'options' are chosen from", partial(generated, options="choices")),
    ("has no classes; leave labels, classes, drop and label_words out", partial(generated, labels=["a", "b"])),
    ("has no classes; leave labels, classes, drop and label_words out", partial(generated, label_words=["a", "b"])),
    ("the text columns and the reference column must be different", partial(generated, reference="text")),
    ("f1 is of classes or options; a reference is scored by exact_match or perple", partial(generated, metric="f1")),
    ("with the metric perplexity nothing is generated; leave max_new_tokens", partial(generated, metric="perplexity")),
    ("generated by the causal readout; leave the masked template out", partial(generated, template="{text} <mask>")),
    ("'stop' cannot be used", partial(generated, stop="period")),
    ("'max_new_tokens' cannot be used", partial(generated, max_new_tokens=0)),
    *((f"{metric} is of texts with a reference; name its column as 'reference'",
       partial(choice, options=None, labels=["a", "b"], metric=metric)) for metric in ("exact_match", "perplexity")),
    *((sentence, lambda folder, gold, changes: answered(
        generated(folder, [{"text": "what", "gold": gold}] * 2, **changes), "words"), gold, changes)
      for gold, changes, sentence in (
        ("don't stop", {}, "has no tokens for the reference 'don't stop'"),
        (".", {"ignore_punctuation": True}, "nothing is left to compare of the reference '.'"),
        ("the", {"max_length": 40},
         "generates 40 tokens .*, and 40 fit .*; lower max_new_tokens, or raise max_length"))),
)  # fmt: skip


def with_second(folder: Path, make: Any, row: dict[str, Any], **changes: Any) -> None:
    first = {**LISTS[1], "gold": "snow"}
    load(make(folder, [first, {**first, **row}], **changes))


test_rows_that_cannot_be_scored_are_refused = refused_in(
    BadData,
    *((sentence, with_second, choice, row) for row, sentence in (
        ({"choices": ["only one"], "label": 0}, "1 option in row 2; task 'made' takes 2 to 3"),
        ({"choices": list("abcd")}, "4 options in row 2"),
        ({"choices": ["a", "", "c"]}, "an empty option before others in row 2; move the empty ones to the end"),
        ({"choices": ["a", "b"], "label": "C"}, "option C is right in row 2, which has only 2; correct the column"),
        ({"label": "D"}, "the label 'D' in row 2"))),
    (r"the answer 'a cow' in row 2 \(column 'gold'\), which is none of its options",
     partial(with_second, answer="gold"), choice, {"gold": "a cow"}),
    ("no text in the column 'gold' of row 2", with_second, generated, {"gold": " "}),
    ("a line break inside the reference of row 2", partial(with_second, stop="newline"), generated, {"gold": "a\nb"}),
    ("no list in the column 'choices' of row 1; put lists of texts",
     lambda folder: load(choice(folder, [{**row, "choices": "a; b", "label": "A"} for row in LISTS], ".csv"))),
)  # fmt: skip


def test_a_reference_is_read_without_the_space_around_it(tmp_path: Path) -> None:
    made = generated(tmp_path)
    facts, test = (made.kind, made.metric, made.has_classes, made.labels), load(made).test
    assert facts == ("generation", "exact_match", False, ("other", "reference"))
    assert (test["reference"].tolist()[:2], set(test["label"])) == (["at the cat", "Water"], {1})


@pytest.mark.parametrize("kind", ["gpt2", "llama", "opt"])
@pytest.mark.parametrize("stop", ["end_of_text", "newline"])
def test_the_reference_goes_on_after_the_prompt_and_ends(kind: str, stop: str, tmp_path: Path) -> None:
    made, tok = generated(tmp_path, stop=stop), tokenizer(kind)
    if stop == "newline" and "\n" not in tok.decode(tok("a\n", add_special_tokens=False)["input_ids"]):
        refuses(BadInput, "no token for a line break.*write 'stop: end_of_text'", answered, made, kind)
        return
    encoded, end = answered(made, kind), "\n" if stop == "newline" else tok.eos_token
    generation = encoded.generation
    assert (encoded.n_labels, generation.references[:2]) == (1, ("at the cat", "Water"))
    for ids, (reference,), text in zip(encoded.input_ids, encoded.answers, load(made).test["reference"], strict=True):
        assert tok.decode([*ids, *reference]).endswith(f"Answer: {text}{end}")
        ends = [generation.has_ended(part.tolist()) for part in (reference, reference[:-1])]
        assert (ends, generation.text([one for one in reference if one != tok.eos_token_id])) == ([True, False], text)
    assert encoded.take([1]).generation.references == ("Water",)  # type: ignore[union-attr]


@pytest.mark.parametrize("is_loose", [False, True])
def test_case_and_punctuation_count_unless_said_otherwise(tmp_path: Path, is_loose: bool) -> None:
    made = answered(generated(tmp_path, ignore_case=is_loose, ignore_punctuation=is_loose)).generation
    assert (made.normalise("WATER!") == made.references[1]) is is_loose


def test_a_reference_is_compared_as_its_own_tokens_write_it(tmp_path: Path) -> None:
    """If a tokenizer changes case and spaces, a model that writes the reference's tokens is still right."""
    encoded = answered(generated(tmp_path, [{"text": "what", "gold": "The Kitchen."}] * 2), "words")
    (reference,) = encoded.answers[0]
    scores = encoded.take([0]).generation.scored([reference.tolist()], np.zeros(1), np.ones(1))  # type: ignore[union-attr]
    assert encoded.generation.references[0] == "the kitchen ." and scores[0, 1] == 1


def test_a_special_token_in_an_answer_is_read_as_it_is_and_said(tmp_path: Path) -> None:
    tok = tokenizer("gpt2")
    options = [{"text": "a film", "choices": [f"great{tok.eos_token}", "terrible"], "label": "A"}] * 4
    references = [{"text": "a film", "gold": f"great{gold} film"} for gold in (tok.eos_token, "", "", "")]
    chosen, written = answered(choice(tmp_path / "c", options)), answered(generated(tmp_path / "g", references))
    assert [(one.answers[0][0] == tok.eos_token_id).sum() for one in (chosen, written)] == [1, 2]
    assert written.notes == (
        f"1 of 4 references contains the token '{tok.eos_token}', at which a generated text ends: no text can match.",
    )


def test_references_that_are_only_scored_are_those_that_are_generated(tmp_path: Path) -> None:
    """The tokens are equal, for any number of them; no space is reserved for a text."""
    made, scored = generated(tmp_path), generated(tmp_path, **SCORED, max_length=60)
    wanted, encoded = answered(made), answered(scored)
    assert (made.generates, scored.generates, encoded.generation, encoded.has_reference) == (True, False, None, True)
    np.testing.assert_equal(encoded.answers, wanted.answers)
    long = generated(tmp_path, [{"text": "dog " * 60, "gold": "cat " * 20}] * 2, **SCORED, max_length=128)
    assert len(answered(long).answers[0][0]) > 32


test_in_a_folder = by_hand_in(
    ("the right option may be written out", [1] * 4, lambda folder: load(choice(
        folder, [{"text": "which one barks", "choices": ["a small cat", "the dog"], "gold": "the dog"}] * 4,
        answer="gold")).test["label"].tolist()),
    ("a prompt is shortened for the text", True, lambda folder: max(map(len, answered(generated(
        folder, [{"text": "dog " * 60, "gold": "cat"}] * 4, max_length=48, max_new_tokens=16)).input_ids)) <= 48 - 16),
    ("a column called label may be a text", ("label",), lambda folder: generated(
        folder, [{"label": "what", "gold": "water"}] * 2, text="label", template={"causal": "{label}:"}).text),
)  # fmt: skip
test_by_hand = by_hand(
    ("places and mask are told apart", [Place, str, Mask, str, Place],
     lambda: [type(part) for part in parse("{a-}? <mask>, {b~}", PAIR)]),
    # A minus drops a final stop only, or any last character as LM-BFF does; a tilde writes the first letter small.
    *((f"{template} is filled with {texts}", filled, partial(fill, lmbff_exact=exact), template, *texts)
      for template, texts, exact, filled in (
        *((template, ["Fine film."], False, "Fine film. It was [MASK].")
          for template in ("{text} It was <mask>.", "{a} It was {mask}.", "{text_a} It was [MASK].")),
        ("{premise} / {hypothesis~}", ["One", "Two"], False, "One / two"),
        *((NLI, [text, "So it is"], False, f"{shown}? [MASK], so it is")
          for text, shown in (("Right.", "Right"), ("Right!", "Right"), ("Right?", "Right"), ("Right", "Right"),
                              ("right,", "right,"), ("", ""))),
        (NLI, ["Right", "So"], True, "Righ? [MASK], so"),
        ("{b-~}", ["One.", "Two."], False, "two"),
        ("{text}: <mask>", ["{text} {b} {{"], False, "{text} {b} {{: [MASK]"),
        ("{{{text}}} <mask>", ["x"], False, "{x} [MASK]"))),
    ("pairs have segments", [0, 0, 0, 0, 1, 1, 1],
     lambda: read("wordpiece", "head", ("the film", "a plot"), pair=True).token_type_ids[0].tolist()),
    ("but not where the tokenizer has none", None,
     lambda: read("bytes", "head", ("the film", "a plot"), pair=True).token_type_ids),
    ("a prompt is the filled template", "<s>The film?<mask>, a plot.</s>", lambda: tokenizer("bytes").decode(
        read("bytes", "prompt", ("The film.", "A plot."), masked=NLI, pair=True).input_ids[0])),
    ("two words have two tokens", 2, lambda: len(set(ids_of(POLARITY, ("It", "great"), "bytes")))),
    ("padding is named", 0, lambda: read("wordpiece", "head", "film").pad_id),
    ("also where the tokenizer has none", tokenizer("llama").eos_token_id,
     lambda: read("llama", "head", "film").pad_id),
    *((f"no rows give no examples: {readout}", 0, lambda readout=readout: len(encode(
        made(masked=POLARITY, causal="{text} It was"), frame("film").head(0), tokenizer("bytes"), readout)))
      for readout in ("head", "prompt", "causal")),
    *((f"answers per token: {asked}", CausalReadout(by_length=asked), lambda asked=asked: make_readout(
        "causal", read("gpt2", "causal", "the film", length_normalised=asked).take([0])))
      for asked in (False, True)),
    # A given limit stands in for the task's, and none is above the model's.
    *((f"{kind} for {readout}: {own}, given {given}", length,
       lambda kind=kind, readout=readout, own=own, given=given:
       read(kind, readout, "film " * 100, limit=given, **own).lengths[0])
      for kind, readout, own, given, length in (
        *(("wordpiece", "head", {"max_length": own}, given, length) for own, given, length in (
            (64, None, 64), (32, None, 32), (32, 16, 16), (16, 32, 32), (500, None, 64), (None, None, 64),
            (None, 500, 64))),
        ("gpt2", "causal", {"max_length": 16, "max_length_causal": 32}, None, 32),
        ("gpt2", "head", {"max_length": 16, "max_length_causal": 32}, None, 16))),
    *((f"{lengths} cut to {total}", kept, cut_lengths, lengths, total) for lengths, total, kept in (
        ([10, 3], 8, [5, 3]), ([10, 9], 9, [5, 4]), ([2, 2], 9, [2, 2]), ([4, 4], 0, [0, 0]))),
)  # fmt: skip

"""Tests of truncation: the longest text first, exactly as far as needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillviz.errors import BadInput
from skillviz.tasks.encode import cut_lengths, fitted
from tests.tasks.tokenizers import tokenizer


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

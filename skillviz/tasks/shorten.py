"""Texts shortened, longest first, until an input fits; templates, masks and answers are never touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from skillviz.errors import BadInput

Tokens = list[list[int]]


def fitted(
    texts: list[list[str]], limits: Sequence[int], tokenized: Callable[[list[list[str]]], Any], tokenizer: Any
) -> tuple[list[list[str]], Any, int]:
    """The texts of each row, shortened if their input has more than `limits[row]` tokens, the inputs, and the number of
    rows that were shortened.

    `tokenized(texts)` gives the inputs of rows, with the whole inputs' ids under "input_ids". Rows that fit are
    tokenized once; the others are tokenized again until they fit. A text loses its end, or its beginning if the
    tokenizer's truncation side is left. Raises BadInput if even empty texts do not fit.
    """
    if not texts:
        return [], {"input_ids": []}, 0
    texts = [list(row) for row in texts]
    inputs = {name: list(column) for name, column in tokenized(texts).items()}
    long = [i for i, ids in enumerate(inputs["input_ids"]) if len(ids) > limits[i]]
    count = len(long)
    while long:
        excess = [len(inputs["input_ids"][i]) - limits[i] for i in long]
        for i, row in zip(long, _shortened([texts[i] for i in long], excess, tokenizer), strict=True):
            if not any(texts[i]):
                refuse_no_room(len(inputs["input_ids"][i]), limits[i])
            texts[i] = row
        again = tokenized([texts[i] for i in long])
        for name, column in again.items():
            for i, value in zip(long, column, strict=True):
                inputs[name][i] = value
        long = [i for i in long if len(inputs["input_ids"][i]) > limits[i]]
    return texts, inputs, count


def cut_lengths(lengths: Sequence[int], total: int) -> list[int]:
    """Lengths of the same texts with a sum of at most `total`, cut from the longest first.

    Lengths above a common level are reduced to it; the remainder goes to the first of these texts.
    """
    left, level = max(0, total), max(lengths, default=0)
    for number, length in enumerate(sorted(lengths)):
        level = left // (len(lengths) - number)
        if length > level:
            break
        left -= length
        level = length
    cut = [min(length, level) for length in lengths]
    spare = max(0, total) - sum(cut)
    for i, length in enumerate(lengths):
        if spare > 0 and length > level:
            cut[i], spare = cut[i] + 1, spare - 1
    return cut


def _shortened(rows: list[list[str]], excess: list[int], tokenizer: Any) -> list[list[str]]:
    """Each row's texts with about `excess` fewer tokens, and at least one character fewer in all."""
    flat = [text for row in rows for text in row]
    offsets, is_left = iter(_offsets(flat, tokenizer)), tokenizer.truncation_side == "left"
    shortened = []
    for row, more in zip(rows, excess, strict=True):
        spans = [next(offsets) for _ in row]
        lengths = [len(span) for span in spans]
        room = cut_lengths(lengths, sum(lengths) - more)
        cut = [_cut(text, span, keep, is_left) for text, span, keep in zip(row, spans, room, strict=True)]
        shortened.append(cut if cut != row else _without_one(row, is_left))
    return shortened


def _offsets(texts: list[str], tokenizer: Any) -> list[list[int]]:
    """The start of each token of each text, in characters; evenly spaced if the tokenizer cannot report offsets."""
    fast = bool(tokenizer.is_fast)
    inputs = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=fast, verbose=False)
    if fast:
        return [[start for start, _ in row] for row in inputs["offset_mapping"]]
    counts = [len(ids) for ids in inputs["input_ids"]]
    return [[len(text) * i // n for i in range(n)] for text, n in zip(texts, counts, strict=True)]


def _cut(text: str, starts: list[int], keep: int, is_left: bool) -> str:
    """The text's first `keep` tokens, or its last ones if it is cut on the left."""
    if keep >= len(starts):
        return text
    if not keep:
        return ""
    return text[starts[-keep] :].lstrip() if is_left else text[: starts[keep]].rstrip()


def _without_one(row: list[str], is_left: bool) -> list[str]:
    """The row with the longest text one character shorter."""
    longest = max(range(len(row)), key=lambda i: len(row[i]))
    return [(text[1:] if is_left else text[:-1]) if i == longest else text for i, text in enumerate(row)]


def refuse_no_room(tokens: int, limit: int) -> None:
    """Raises BadInput if an input without texts already has more tokens than fit."""
    if tokens > limit:
        raise BadInput(
            f"the template and special tokens alone are {tokens} tokens (with the longest answer, if there is one), "
            f"and {limit} fit; shorten the template or raise max_length."
        )

"""Examples as token ids for a readout."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skillviz.core.encoded import Encoded
from skillviz.core.formats import counted
from skillviz.core.generation import Generation, normalised
from skillviz.errors import BadInput, BadModel, SkillvizError, first_line
from skillviz.tasks.source import OPTIONS, REFERENCE
from skillviz.tasks.task import CHOICE, GENERATION, USUAL_LENGTH, Task
from skillviz.tasks.template import Part, parse, places, rendered
from skillviz.tasks.verbalizer import answer_ids, option_ids, reference_ids, word_ids

PANIC = "PanicException"
"""The error of the library's Rust code on an unexpected input; not an Exception, so nothing else would catch it."""


@contextmanager
def refused(name: object) -> Iterator[None]:
    """Turns any error of the named tokenizer inside the block into BadModel; our own errors are not changed."""
    try:
        yield
    except (SkillvizError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        raise BadModel(
            f"the tokenizer of '{name}' cannot be used ({first_line(error)}); save it again with "
            "`tokenizer.save_pretrained`."
        ) from error


MOST_SPACES = 3
"""The number of times that a mask token in a text is split by a space; if one is still left, the text is refused."""


def encode(task: Task, frame: pd.DataFrame, tokenizer: Any, readout: str, max_length: int | None = None) -> Encoded:
    """The frame's examples for the `prompt`, `head` or `causal` readout.

    No input, its longest answer included, has more tokens than `max_length` (by default the task's own, or USUAL_LENGTH
    if the task has none) or than the tokenizer's model takes. Only texts are shortened; a note gives the number of
    shortened texts. Raises BadInput or BadLabelWord.
    """
    if readout not in _ENCODERS:
        raise BadInput(f"'{readout}' is not a readout; known: {', '.join(_ENCODERS)}.")
    most = max_length or task.limit(readout) or USUAL_LENGTH
    limit = min(most, int(tokenizer.model_max_length))
    task.refuse_readout(readout)
    columns = ["text_a", "text_b"] if task.pair else ["text_a"]
    texts = list(zip(*(frame[column].tolist() for column in columns), strict=True))
    if task.kind == CHOICE:
        fields = _choice(task, texts, [list(row) for row in frame[OPTIONS]], tokenizer, limit)
    elif task.kind == GENERATION:
        fields = _generation(task, texts, frame[REFERENCE].tolist(), tokenizer, limit)
    else:
        fields = _ENCODERS[readout](task, texts, tokenizer, limit)
    notes = *fields.pop("notes", ()), *_shortened_note(fields.pop("shortened"), len(texts), task, limit, limit < most)
    return Encoded(
        ids=frame["example_id"].tolist(),
        labels=frame["label"].to_numpy(dtype=np.int64),
        n_labels=1 if task.kind == GENERATION else len(task.labels),
        pad_id=_pad_id(tokenizer),
        by_length=task.length_normalised,
        notes=notes,
        **fields,
    )


def _shortened_note(count: int, texts: int, task: Task, limit: int, by_model: bool) -> tuple[str, ...]:
    """A note on the number of texts shortened to the limit, and on the limit's source; empty if none was shortened."""
    if not count:
        return ()
    what, were = counted(texts, "text pair" if task.pair else "text"), "was" if count == 1 else "were"
    whose = "the most that the model takes" if by_model else "max_length"
    return (f"{count:,} of {what} {were} shortened to {limit:,} tokens ({whose}).",)


def _head(task: Task, texts: list[tuple[str, ...]], tokenizer: Any, limit: int) -> dict[str, Any]:
    """The texts as one or two segments, joined and shortened by the tokenizer itself, the longest first."""
    special = int(tokenizer.num_special_tokens_to_add(pair=task.pair))
    refuse_no_room(special, limit)
    columns = [[row[k] for row in texts] for k in range(2 if task.pair else 1)]
    inputs = _tokenized(tokenizer, *columns) if texts else {"input_ids": []}
    long = [i for i, ids in enumerate(inputs["input_ids"]) if len(ids) > limit]
    if long:
        texts_of_long = ([column[i] for i in long] for column in columns)
        cut = _tokenized(tokenizer, *texts_of_long, truncation=True, max_length=limit)
        for name, column in cut.items():
            for i, row in zip(long, column, strict=True):
                inputs[name][i] = row
        if tokenizer.is_fast:  # otherwise the tokenizer would be saved with the limit of its last call
            tokenizer.backend_tokenizer.no_truncation()
    return _arrays(inputs, tokenizer) | {"shortened": len(long)}


def _prompt(task: Task, texts: list[tuple[str, ...]], tokenizer: Any, limit: int) -> dict[str, Any]:
    """The masked template filled, with the mask's position and the label words' ids."""
    template, words = task.wording("prompt")
    if tokenizer.mask_token is None:
        raise BadInput("this tokenizer has no mask token, so its model has no prompt readout; use causal or head.")
    parts = parse(template, task.text)
    label_ids = word_ids(task, parts, words, tokenizer)

    def tokenized(rows: list[list[str]]) -> Mapping[str, Any]:
        return _tokenized(tokenizer, [rendered(parts, row, tokenizer.mask_token) for row in rows])

    asked = _filled(task, parts, texts)
    columns = [_harmless(list(column), tokenizer) for column in zip(*asked, strict=True)]
    filled = [list(row) for row in zip(*columns, strict=True)]
    _, inputs, shortened = fitted(filled, [limit] * len(filled), tokenized, tokenizer)
    fields = _arrays(inputs, tokenizer)
    positions = [np.flatnonzero(ids == tokenizer.mask_token_id) for ids in fields["input_ids"]]
    if wrong := next((row for row, place in zip(texts, positions, strict=True) if len(place) != 1), None):
        raise BadInput(
            f"the template '{template}' does not give exactly one mask token with this tokenizer, for one with the "
            f"text '{wrong[0][:60]}'; change the template, or leave that row out."
        )
    where = np.array([place[0] for place in positions], dtype=np.int64)
    changed = sum(one != other for one, other in zip(asked, filled, strict=True))
    contain = "contains" if changed == 1 else "contain"
    note = (
        f"{changed:,} of {counted(len(texts), 'text')} {contain} the mask token '{tokenizer.mask_token}'; a space was "
        "put into it, so that the model is asked at the template's mask alone."
    )
    read = {"shortened": shortened, "notes": (note,) if changed else ()}
    return fields | {"positions": where, "label_ids": label_ids, **read}


def _causal(task: Task, texts: list[tuple[str, ...]], tokenizer: Any, limit: int) -> dict[str, Any]:
    """The causal template filled, followed by every label's answer."""
    _, words = task.wording("causal")

    def answers(prompts: list[str], tail: str) -> list[list[np.ndarray]]:
        return answer_ids(prompts, tail, words, tokenizer)

    return _answered(task, texts, answers, tokenizer, limit)


def _choice(
    task: Task, texts: list[tuple[str, ...]], options: list[list[str]], tokenizer: Any, limit: int
) -> dict[str, Any]:
    """The causal template filled, followed by every option of the example; a missing option has no tokens."""

    def answers(prompts: list[str], tail: str) -> list[list[np.ndarray]]:
        absent = np.empty(0, dtype=np.int64)
        rows = option_ids(prompts, tail, options, tokenizer)
        return [row + [absent] * (len(task.labels) - len(row)) for row in rows]

    return _answered(task, texts, answers, tokenizer, limit)


def _generation(
    task: Task, texts: list[tuple[str, ...]], references: list[str], tokenizer: Any, limit: int
) -> dict[str, Any]:
    """The causal template filled, followed by the reference and its end marker; and the settings for generating
    texts, if the task generates any."""
    at_line_break, end = task.stop == "newline", tokenizer.eos_token_id
    if end is None and not at_line_break:
        raise BadInput(
            f"this tokenizer has no end-of-text token, with which a text of the task '{task.name}' is to end; write "
            "'stop: newline' in the task's file."
        )
    closing = [] if at_line_break else [end]

    def answers(prompts: list[str], tail: str) -> list[list[np.ndarray]]:
        rows = reference_ids(prompts, tail, references, tokenizer, "\n" if at_line_break else "")
        return [[np.array([*ids, *closing], dtype=np.int64)] for (ids,) in rows]

    if at_line_break and "\n" not in tokenizer.decode(tokenizer("a\n", add_special_tokens=False)["input_ids"]):
        raise BadInput(
            f"this tokenizer has no token for a line break, with which a text of the task '{task.name}' is to end; "
            "write 'stop: end_of_text' in the task's file."
        )
    fields = _answered(task, texts, answers, tokenizer, limit, task.max_new_tokens if task.generates else 0)
    longest = max((len(row[0]) for row in fields["answers"]), default=0)
    if task.generates and longest > task.max_new_tokens:
        raise BadInput(
            f"the longest reference has {longest} tokens with the one that ends it, and task '{task.name}' generates "
            f"{task.max_new_tokens}; raise max_new_tokens."
        )
    generation = Generation(
        (), task.max_new_tokens, () if end is None else (int(end),), at_line_break,
        partial(tokenizer.decode, clean_up_tokenization_spaces=False),
        partial(normalised, ignore_case=task.ignore_case, ignore_punctuation=task.ignore_punctuation),
    )  # fmt: skip
    written = tuple(
        _as_written(task, text, ids, generation, tokenizer)
        for text, (ids,) in zip(references, fields["answers"], strict=True)
    )
    if not task.generates:
        return fields
    ended = sum(end in ids[:-1] for (ids,) in fields["answers"])
    note = (
        f"{ended:,} of {counted(len(references), 'reference')} {'contains' if ended == 1 else 'contain'} the token "
        f"'{tokenizer.eos_token}', at which a generated text ends: no text can match."
    )
    return fields | {"generation": replace(generation, references=written), "notes": (note,) if ended else ()}


def _as_written(task: Task, reference: str, ids: np.ndarray, generation: Generation, tokenizer: Any) -> str:
    """The reference as it is compared: decoded from its own tokens, which may change its case or spaces.

    Raises BadInput if it holds an unknown token, or if nothing is left to compare.
    """
    if tokenizer.unk_token_id in set(ids.tolist()) - {*generation.end_ids}:
        raise BadInput(
            f"this tokenizer has no tokens for the reference '{reference}' of task '{task.name}', so no model "
            "could write it; leave such rows out, or use a model whose tokenizer knows them."
        )
    text = generation.normalise(generation.text(ids.tolist()))
    if not text:
        raise BadInput(
            f"nothing is left to compare of the reference '{reference}' of task '{task.name}'; leave such "
            "rows out, or ignore_punctuation."
        )
    return text


def _answered(
    task: Task,
    texts: list[tuple[str, ...]],
    answers: Callable[[list[str], str], list[list[np.ndarray]]],
    tokenizer: Any,
    limit: int,
    room: int = 0,
) -> dict[str, Any]:
    """The causal template filled, shortened until its longest answer fits, or `room` tokens if that is more.

    `answers(prompts, tail)` gives the answers for prompts.
    """
    template, _ = task.wording("causal")
    parts = parse(template, task.text)
    tail = parts[-1] if isinstance(parts[-1], str) else ""

    def prompts(rows: Sequence[Sequence[str]]) -> list[str]:
        return [rendered(parts, row).rstrip(" ") for row in rows]

    def tokenized(rows: list[list[str]]) -> Mapping[str, Any]:
        return _without_end(_tokenized(tokenizer, prompts(rows)), tokenizer)

    filled = _filled(task, parts, texts)
    longest = [max(room, *map(len, row)) for row in answers(prompts(filled), tail)]
    limits = [limit - length for length in longest]
    if min(limits, default=1) < 1 and max(longest) == room:
        raise BadInput(
            f"task '{task.name}' generates {room} tokens (max_new_tokens), and {limit} fit with the prompt; lower "
            "max_new_tokens, or raise max_length."
        )
    if min(limits, default=1) < 1:
        raise BadInput(f"the longest answer has {max(longest)} tokens, and {limit} fit with its prompt; shorten it.")
    kept, inputs, shortened = fitted(filled, limits, tokenized, tokenizer)
    return _arrays(inputs, tokenizer) | {"answers": answers(prompts(kept), tail), "shortened": shortened}


_ENCODERS: dict[str, Callable[[Task, list[tuple[str, ...]], Any, int], dict[str, Any]]] = {
    "prompt": _prompt,
    "head": _head,
    "causal": _causal,
}


def _filled(task: Task, parts: Sequence[Part], texts: list[tuple[str, ...]]) -> list[list[str]]:
    """The texts as they appear in the template's places, [n][place]."""
    return [[place.filled(row[place.field], task.lmbff_exact) for place in places(parts)] for row in texts]


def _tokenized(tokenizer: Any, *columns: list[str], **cut: Any) -> dict[str, Any]:
    """Ids, and segment ids if the tokenizer returns them, of unpadded rows, which are shortened only if `cut` says
    so."""
    with refused(tokenizer.name_or_path):
        return dict(tokenizer(*columns, return_attention_mask=False, verbose=False, **cut))


def _without_end(inputs: Mapping[str, Any], tokenizer: Any) -> Mapping[str, Any]:
    """The inputs without the special tokens that a tokenizer appends to a text: the answer continues there.

    A special token at the end of the text itself is kept.
    """
    plain, whole = (tokenizer("a", add_special_tokens=add, verbose=False)["input_ids"] for add in (False, True))
    n = len(plain)
    begin = next((i for i in range(len(whole) - n + 1) if list(whole[i : i + n]) == list(plain)), 0)
    behind = max(0, len(whole) - begin - n)
    return {name: [row[: len(row) - behind] for row in column] for name, column in inputs.items()}


def _arrays(inputs: Mapping[str, Any], tokenizer: Any) -> dict[str, Any]:
    """The inputs as int64 arrays; an input without tokens becomes one token."""
    only = next((i for i in (tokenizer.bos_token_id, tokenizer.eos_token_id) if i is not None), _pad_id(tokenizer))
    ids = [np.array(row if len(row) else [only], dtype=np.int64) for row in inputs["input_ids"]]
    fields: dict[str, Any] = {"input_ids": ids}
    if "token_type_ids" in inputs:
        pairs = zip(inputs["token_type_ids"], ids, strict=True)
        fields["token_type_ids"] = [np.array(row if len(row) else [0] * len(i), dtype=np.int64) for row, i in pairs]
    return fields


def _pad_id(tokenizer: Any) -> int:
    """The padding token's id, or another id if there is none; padding is masked out anyway."""
    ids = (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id)
    return int(next((i for i in ids if i is not None), 0))


def _harmless(texts: list[str], tokenizer: Any) -> list[str]:
    """The texts with a space inside every string that this tokenizer reads as its mask, so that data cannot add a mask.

    Any other token, also a special one, is left as the model would read it.
    """
    mask, texts = tokenizer.mask_token_id, list(texts)
    left = [] if mask is None else range(len(texts))
    for _ in range(MOST_SPACES):
        with refused(tokenizer.name_or_path):
            read = tokenizer([texts[i] for i in left], add_special_tokens=False, verbose=False) if left else {}
        left = [i for i, ids in zip(left, read.get("input_ids", ()), strict=True) if mask in ids]
        for i in left:
            texts[i] = _apart(texts[i], tokenizer)
    return texts


def _apart(text: str, tokenizer: Any) -> str:
    """The text with a space after the first character of each mask token."""
    if tokenizer.is_fast:
        read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        pairs = zip(read["input_ids"], read["offset_mapping"], strict=True)
        spans = [span for token, span in pairs if token == tokenizer.mask_token_id]
    else:
        spans = [match.span() for match in re.finditer(re.escape(tokenizer.mask_token), text)]
    for start, end in reversed(spans):
        found = text[start:end].lstrip()  # a mask token may include the spaces before it
        if len(found) > 1:
            text = f"{text[: end - len(found)]}{found[0]} {found[1:]}{text[end:]}"
    return text


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

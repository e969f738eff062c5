"""Task files and frames for the tests, and tokenizers of every kind: WordPiece, byte-level BPE, Unigram, Llama's BPE,
and whole words."""

import io
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from skillviz.core.encoded import Encoded
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import TASKS, task
from skillviz.tasks.splits import load, load_test
from skillviz.tasks.task import Files, LabelWords, Task, Template
from tests.core.by_hand import by_hand, refused, refuses
from tests.tiny import tiny_tokenizer, words

# Re-exported, so that a test of tasks imports all from one place.
__all__ = ["Encoded", "TASKS", "Task", "by_hand", "encode", "load", "load_test", "refused", "refuses", "task"]

ROWS = [{"text": f"story {i} was {'good' if i % 2 else 'bad'}", "label": i % 2} for i in range(30)]


def refused_in(error: type[Exception], *cases: tuple[Any, ...]) -> Callable[..., None]:
    """Return a test in which each call raises the error; a case has a regular expression, what is called with an empty
    folder, and its other arguments."""

    @pytest.mark.parametrize("case", cases, ids=lambda case: str(case[0]))
    def test(case: tuple[Any, ...], tmp_path: Path) -> None:
        words, call, *arguments = case
        with pytest.raises(error, match=words):
            call(tmp_path, *arguments)

    return test


def by_hand_in(*cases: tuple[Any, ...]) -> Callable[..., None]:
    """Return a test in which each call gives what is wanted; a case has its name, that value, what is called with an
    empty folder, and its other arguments."""

    @pytest.mark.parametrize("case", cases, ids=lambda case: case[0])
    def test(case: tuple[Any, ...], tmp_path: Path) -> None:
        _, wanted, call, *arguments = case
        assert call(tmp_path, *arguments) == wanted

    return test


def as_parquet(table: pa.Table) -> bytes:
    parquet.write_table(table, file := io.BytesIO())
    return file.getvalue()


def as_lines(rows: Sequence[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


WRITERS: dict[str, Callable[[Sequence[dict[str, Any]]], bytes]] = {
    ".jsonl": as_lines,
    ".ndjson": as_lines,
    ".json": lambda rows: json.dumps(list(rows)).encode(),
    ".csv": lambda rows: pd.DataFrame(list(rows)).to_csv(index=False).encode(),
    ".tsv": lambda rows: pd.DataFrame(list(rows)).to_csv(index=False, sep="\t").encode(),
    ".txt": lambda rows: pd.DataFrame(list(rows)).to_csv(index=False, sep="\t").encode(),
    ".parquet": lambda rows: as_parquet(pa.Table.from_pandas(pd.DataFrame(list(rows)), preserve_index=False)),
}
"""(the ending of a file's name, its content for these rows)."""


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write the rows to a file of the format of its ending; return its path."""
    path.write_bytes(WRITERS[path.suffix](rows))
    return path


def write_task(folder: Path, rows: Sequence[dict[str, Any]] = ROWS, suffix: str = ".jsonl", **changes: Any) -> Path:
    """Write a task file with the same rows as train and test; a change to None omits a key. Return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        write_rows(folder / f"{split}{suffix}", rows)
    values = {
        "name": "made",
        "data": {"train": f"train{suffix}", "test": f"test{suffix}"},
        "text": "text",
        "label": "label",
        "labels": ["negative", "positive"],
        "template": {"masked": "{text} It was <mask>.", "causal": "{text} It was"},
        "label_words": ["terrible", "great"],
    }
    values = {key: value for key, value in {**values, **changes}.items() if value is not None}
    path = folder / "task.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def made(masked: str | None = None, causal: str | None = None, pair: bool = False, **changes: Any) -> Task:
    """Return a task without data, for encoding frames."""
    values: dict[str, Any] = {
        "name": "made",
        "data": Files(train="a.csv", test="b.csv"),
        "text": ("first", "second") if pair else ("text",),
        "labels": ("negative", "positive"),
        "template": Template(masked=masked, causal=causal),
        "label_words": LabelWords(masked=("terrible", "great"), causal=("terrible", "great")),
        "max_length": 64,
    }
    return Task(**{**values, **changes})


def frame(*texts: str | tuple[str, str]) -> pd.DataFrame:
    rows = [(text,) if isinstance(text, str) else text for text in texts]
    columns = {name: list(column) for name, column in zip(("text_a", "text_b"), zip(*rows, strict=True), strict=False)}
    return pd.DataFrame(
        {"example_id": [f"test-{i}" for i in range(len(rows))], **columns, "label": [i % 2 for i in range(len(rows))]}
    )


MASKED = ("wordpiece", "bytes", "unigram")
CAUSAL = ("gpt2", "llama", "opt")
NAMES, INPUTS = ("bos_token", "pad_token", "eos_token", "unk_token"), ["input_ids", "attention_mask"]
POLARITY = "{text} It was <mask>."


@cache
def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a kind; `unigram` and `words` are not in tests/tiny.py."""
    if kind in OWN:
        return OWN[kind]()
    return tiny_tokenizer({"wordpiece": "bert", "bytes": "roberta"}.get(kind, kind))


def read(tok: Any, readout: str, *texts: Any, limit: int | None = None, **changes: Any) -> Encoded:
    """Return these texts, or pairs of texts, as a tokenizer, or one of this kind, encodes them for the readout."""
    asked = {} if "pair" in changes else {"masked": POLARITY, "causal": "{text} It was"}
    tok = tokenizer(tok) if isinstance(tok, str) else tok
    return encode(made(**{**asked, **changes}), frame(*texts), tok, readout, limit)


def _unigram() -> PreTrainedTokenizerFast:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    letters = [chr(c) for c in range(33, 127)]
    pieces = [(piece, 0.0) for piece in special] + [("▁", -4.0)] + [(c, -9.0) for c in letters]
    pieces += [("▁" + word, -3.0) for word in words()]
    built = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    built.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    built.decoder = decoders.Metaspace()
    built.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokens = dict(zip(NAMES, special, strict=False)) | {"cls_token": "<s>", "sep_token": "</s>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=built,
        mask_token=AddedToken("<mask>", lstrip=True, special=True),
        model_max_length=64,
        model_input_names=INPUTS,
        **tokens,
    )


def _words() -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole lowercase words, joined by spaces when decoded; other words are unknown."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = {piece: i for i, piece in enumerate([*special, "what", "answer", ":", "the", "kitchen", "."])}
    built = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    built.normalizer = normalizers.Lowercase()
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(
        tokenizer_object=built, model_max_length=64, model_input_names=INPUTS, **dict(zip(NAMES, special, strict=True))
    )


OWN = {"unigram": _unigram, "words": _words}

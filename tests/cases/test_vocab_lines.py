"""Tests of vocab.txt: only a line feed ends a line, like in transformers; other separators may be part of a token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from skillviz.core.comparison import Comparison
from skillviz.errors import CorruptFile
from skillviz.models.preflight import preflight
from skillviz.models.tokenizer import vocabulary
from tests.cases.build import bert, fit, saved, tiny_rows
from tests.tiny import tiny_tokenizer

SEPARATORS = ("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r")


def write(folder: Path, words: list[str], end: str = "\n") -> None:
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_bytes("".join(word + end for word in words).encode())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))


def words() -> list[str]:
    ids = tiny_tokenizer("bert").get_vocab()
    return sorted(ids, key=lambda token: ids[token])


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
@pytest.mark.parametrize("where", ["alone", "inside a token"])
def test_a_separator_is_part_of_its_token(tmp_path: Path, separator: str, where: str) -> None:
    write(tmp_path, [*words(), separator if where == "alone" else f"a{separator}b", "last"])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    read = vocabulary(tmp_path)
    assert read is not None and read["last"] == len(words()) + 1 == tokenizer.convert_tokens_to_ids("last")
    assert len(read) == len(tokenizer) == len(words()) + 2


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=ascii)
def test_line_ends_are_no_part_of_a_token(tmp_path: Path, end: str) -> None:
    write(tmp_path, words(), end)
    assert vocabulary(tmp_path) == AutoTokenizer.from_pretrained(tmp_path).get_vocab()


def test_a_pair_whose_vocabulary_has_all_separators_fits(tmp_path: Path) -> None:
    """Regression: each separator counted as a line, so there were more tokens than rows and the pair was refused."""
    for name in ("base", "tuned"):
        write(tmp_path / name, [*words(), *(f"a{one}b" for one in SEPARATORS)])
    model = bert(len(words()) + len(SEPARATORS))
    base = saved(tmp_path / "base", model)
    fit(model, AutoTokenizer.from_pretrained(base), tiny_rows(16), steps=3)
    check = preflight(base, saved(tmp_path / "tuned", model))
    assert check.fits, check.problems
    assert check.tokenizers is not None and check.tokenizers.result is Comparison.SAME


def test_a_vocabulary_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"a\n\xff\xfe\n")
    with pytest.raises(CorruptFile, match="vocab.txt"):
        vocabulary(tmp_path)

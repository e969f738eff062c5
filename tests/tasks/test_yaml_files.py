"""Tests of untrusted YAML: reading any file ends soon, with a value or with an error that does not quote its text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillviz.errors import BadInput
from skillviz.regular_file import MOST_BYTES, read_text
from skillviz.tasks.yaml_files import MOST_DEPTH, MOST_VALUES, parsed, read_yaml

KEYS = st.text("abc", min_size=1, max_size=2)
PLAIN = st.recursive(
    st.none() | st.integers() | st.booleans() | st.text("ab:é\n#- ", max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=3),
    max_leaves=12,
)


@given(PLAIN)
def test_reads_what_yaml_writes(content: object) -> None:
    assert parsed(yaml.safe_dump(content, allow_unicode=True)) == content


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: !!int s3cret", "does not match its tag"),
        ("a: 2026-99-99", "does not match its tag"),
        ("a: !!bool s3cret", "does not match its tag"),
        ("a: !!timestamp s3cret", "does not match its tag"),
        ("a: !!int ''", "does not match its tag"),
        ("a: *s3cret", "undefined alias in line 1"),
        ("s3cret: [1, 2", "in line 1"),
        ("a: b\n  s3cret: c: d", "in line 2"),
        ("a: \x07s3cret", "a character"),
        ("[" * 5000, "nested too deeply"),
        ("a: &a {<<: *a}", "refers to itself"),
        ("a: &a [*a]", "refers to itself"),
        ("a0: &a0 [1]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}]\n" for n in range(MOST_DEPTH)), "nested too deeply"),
        ("? {s3cret: 1}\n: 2", "unhashable"),
    ],
)
def test_what_cannot_be_read_is_a_sentence_without_the_files_text(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(BadInput, match=reason) as caught:
        read_yaml(tmp_path / "x.yaml", "the file x.yaml")
    assert "s3cret" not in str(caught.value) and len(str(caught.value)) < 200


@pytest.mark.parametrize("doubled", ["[*a{0}, *a{0}]", "*a{0}"])
def test_merges_that_unfold_without_bound_are_refused_at_once(tmp_path: Path, doubled: str) -> None:
    levels = ["a0: &a0 {k: 1}"] + [f"a{n + 1}: &a{n + 1} {{<<: {doubled.format(n)}}}" for n in range(40)]
    text = "\n".join(levels)
    if doubled[0] == "[":
        with pytest.raises(ValueError, match=f"{MOST_VALUES:,}"):
            parsed(text)
    else:
        assert parsed(text)["a40"] == {"k": 1}  # a chain is harmless


@pytest.mark.slow
def test_a_file_of_too_many_values_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("[" + "{a: b}," * (MOST_VALUES // 3) + "{a: b}, *unknown]")
    with pytest.raises(BadInput, match=f"the file cannot be read as YAML: it holds more than {MOST_VALUES:,} values"):
        read_yaml(tmp_path / "x.yaml", "the file")


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero"), Path("/dev/null"), tmp_path):
        with pytest.raises((BadInput, IsADirectoryError)):
            read_text(path)
    (tmp_path / "long").write_text("a" * (MOST_BYTES + 1))
    with pytest.raises(BadInput, match="larger than 1 MiB"):
        read_text(tmp_path / "long")
    (tmp_path / "fits").write_text("é" * (MOST_BYTES // 2))
    assert read_text(tmp_path / "fits") == "é" * (MOST_BYTES // 2)

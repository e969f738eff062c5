"""Tests of the license in a graft's card, read from the base's own card, which is untrusted text."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.regular_file import MOST_BYTES
from skillviz.runs.export import _license

MERGES = "".join(f"a{k + 1}: &a{k + 1}\n  <<: [*a{k}, *a{k}]\n" for k in range(30))
UNREADABLE = {
    "nested merges": f"a0: &a0 {{x: 1}}\n{MERGES}license: mit\n",
    "no date": "license: 2026-99-99\n",
    "deep lists": f"a: {'[' * 5_000}{']' * 5_000}\nlicense: mit\n",
    "no number": "a: !!int x\nlicense: mit\n",
    "no binary": "a: !!binary [x]\nlicense: mit\n",
    "a mapping as key": "? {a: 1}\n: b\nlicense: mit\n",
    "not YAML": "license: [\n",
    "too long": f"license: mit\na: {'x' * MOST_BYTES}\n",
    "a list": "license: [mit]\n",
}


def test_the_license_of_a_card(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n# A model\n", encoding="utf-8")
    assert _license(tmp_path) == "mit"


@pytest.mark.parametrize("header", UNREADABLE.values(), ids=UNREADABLE)
def test_a_header_that_cannot_be_read_states_no_license(tmp_path: Path, header: str) -> None:
    (tmp_path / "README.md").write_text(f"---\n{header}---\n", encoding="utf-8")
    assert _license(tmp_path) is None


def test_a_card_in_another_encoding_states_no_license(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(b"---\nlicense: mit\na: \xff\n---\n")
    assert _license(tmp_path) is None

"""The words of the demo world's tokenizer, for saying which typed ones it does not know."""

from __future__ import annotations

from pathlib import Path

from skillviz.tasks.demo_world import words


def test_a_tokenizer_that_cannot_be_read_knows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    assert words(path) == frozenset()
    for broken in ("{", "[]", "{}", '{"model": {"vocab": null}}'):
        path.write_text(broken)
        assert words(path) == frozenset()
    path.write_text('{"model": {"vocab": {"film": 5}}}')
    assert words(path) == {"film"}

"""Tests of the builders themselves: a pair whose correct value is known is measured at that value."""

from __future__ import annotations

from pathlib import Path

from tests.cases.build import bert, evaluated, fit, own_accuracy, saved, task_file, tiny_rows
from tests.tiny import tiny_tokenizer


def test_an_ordinary_pair_is_scored_at_its_own_accuracy(tmp_path: Path) -> None:
    tokenizer, train, test = tiny_tokenizer("bert"), tiny_rows(64, seed=1), tiny_rows(60, seed=2)
    model = bert()
    base = saved(tmp_path / "base", model, tokenizer)
    fit(model, tokenizer, train)
    finetuned = saved(tmp_path / "finetuned", model, tokenizer)
    own = own_accuracy(model, tokenizer, test)
    assert own > 0.9
    accuracy, _ = evaluated(base, finetuned, task_file(tmp_path / "plain", train, test))
    assert accuracy == own

"""Tests of a fine-tuned model stored as a small difference beside its base, from the command line."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from skillviz.models.pair import load_pair
from tests.cli.calls import call, done, refused
from tests.tiny import tiny_pair


def test_a_difference_is_half_a_pair(pair: tuple[Path, Path], tmp_path: Path) -> None:
    base, tuned = pair
    out = tmp_path / "small"
    names = ("difference", "--base", base, "--finetuned", tuned, "--out", out)
    told = done(*names, "--hub", "some/encoder", "--license", "Apache-2.0", "--json").json
    stored, whole = load_file(out / "model.safetensors"), load_file(tuned / "model.safetensors")
    left_out, size = len(whole) - len(stored), (out / "model.safetensors").stat().st_size
    assert [told[name] for name in ("kept", "left_out", "bytes")] == [len(stored), left_out, size] and left_out > 0
    one, other = load_pair(base, out), load_pair(base, tuned)
    assert torch.equal(one.finetuned, other.finetuned.half().float())
    card = (out / "README.md").read_text()
    facts = ('\nlicense: "apache-2.0"', one.base_info.fingerprint, "before rounding")
    assert card.startswith('---\nbase_model: "some/encoder"\n') and [word for word in facts if word not in card] == []
    assert card.count("\n---\n") == 1
    refused(call(*names), "--overwrite")
    done(*names, "--overwrite")
    assert "some/encoder" not in (out / "README.md").read_text()


def test_two_models_that_are_no_pair_leave_nothing(pair: tuple[Path, Path], tmp_path: Path) -> None:
    other, _ = tiny_pair(tmp_path / "other", "roberta", "prompt")
    refused(call("difference", "--base", other, "--finetuned", pair[1], "--out", tmp_path / "small"))
    assert not (tmp_path / "small").exists()

"""Tests of a fine-tuned model stored as a small difference beside its base, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from skillviz.models.pair import load_pair
from tests.cli.calls import call
from tests.tiny import tiny_pair


def test_a_difference_is_half_a_pair(pair: tuple[Path, Path], tmp_path: Path) -> None:
    base, tuned = pair
    out = tmp_path / "small"
    names = ("--base", base, "--finetuned", tuned, "--out", out)
    said = call("difference", *names, "--hub", "some/encoder", "--license", "Apache-2.0", "--json")
    assert said.code == 0, said.err
    done = json.loads(said.out.splitlines()[-1])
    stored, whole = load_file(out / "model.safetensors"), load_file(tuned / "model.safetensors")
    assert done["kept"] == len(stored) and done["kept"] + done["left_out"] == len(whole) and done["left_out"] > 0
    assert done["bytes"] == (out / "model.safetensors").stat().st_size
    one, other = load_pair(base, out), load_pair(base, tuned)
    assert torch.equal(one.finetuned, other.finetuned.half().float())
    card = (out / "README.md").read_text()
    assert card.startswith('---\nbase_model: "some/encoder"\n') and 'license: "apache-2.0"' in card
    assert one.base_info.fingerprint in card and card.count("\n---\n") == 1 and "before rounding" in card
    again = call("difference", *names)
    assert again.code == 2 and "--overwrite" in again.err
    assert call("difference", *names, "--overwrite").code == 0
    assert "some/encoder" not in (out / "README.md").read_text()


def test_two_models_that_are_no_pair_leave_nothing(pair: tuple[Path, Path], tmp_path: Path) -> None:
    other, _ = tiny_pair(tmp_path / "other", "roberta", "prompt")
    said = call("difference", "--base", other, "--finetuned", pair[1], "--out", tmp_path / "small")
    assert said.code == 2 and not (tmp_path / "small").exists()

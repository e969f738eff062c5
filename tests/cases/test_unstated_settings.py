"""Tests of settings that one configuration leaves to its family's default: the default is compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillviz.errors import PairMismatch
from skillviz.models.pair import load_pair, rehearse
from skillviz.models.preflight import preflight
from tests.tiny import tiny_pair


def without(folder: Path, *keys: str) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in config.items() if key not in keys}))


def stated(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_an_activation_that_is_not_the_other_ones_default_is_refused(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    without(base, "hidden_act")  # the default is gelu
    stated(tuned, hidden_act="relu")
    for load in (lambda: rehearse(preflight(base, tuned)), lambda: load_pair(base, tuned)):
        with pytest.raises(PairMismatch, match="differ in hidden_act: gelu in the base, relu in the fine-tuned model"):
            load()


def test_an_epsilon_that_is_not_the_other_ones_default_is_said(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    without(tuned, "layer_norm_eps")  # the default is 1e-12
    stated(base, layer_norm_eps=1e-3)
    for notes in (rehearse(preflight(base, tuned))[0].notes, load_pair(base, tuned).notes):
        assert any("differ in layer_norm_eps: 0.001 in the base, 1e-12 in the fine-tuned model" in n for n in notes)


@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
def test_a_default_that_is_left_out_is_equal(tmp_path: Path, family: str) -> None:
    base, tuned = tiny_pair(tmp_path, family)
    without(base, "hidden_act", "activation_function", "layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps")
    without(base, "rope_theta", "rope_parameters")
    check, _ = rehearse(preflight(base, tuned))
    assert check.fits and not any("configurations differ" in note for note in check.notes)

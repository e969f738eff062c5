"""Tests that each self-check detects its error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.region import Region
from skillviz.models.pair import ModelPair, load_pair
from skillviz.runs.selfcheck import ends_check, fingerprint_of, ranking_check, restored_check, size_check
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.tiny import tiny_pair, tiny_task

SHAPES = {"a": (4, 4)}
REGION = Region.from_flat(np.array([3, 5, 9]), SHAPES)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> ModelPair:
    """Return a tiny BERT pair."""
    base, finetuned = tiny_pair(tmp_path_factory.mktemp("pair"))
    return load_pair(base, finetuned)


@pytest.fixture
def encoded(tmp_path: Path, pair: ModelPair) -> Any:
    """Return a few encoded examples."""
    own = task(tiny_task(tmp_path, rows=8))
    return encode(own, load(own).test, pair.tokenizer, "head")


def test_the_size_must_be_the_one_asked_for() -> None:
    order = np.array([9, 3, 5])
    assert size_check(REGION, order, 3).passed
    assert size_check(REGION, order, None).passed
    assert not size_check(REGION, order, 4).passed
    assert not size_check(REGION, np.array([9, 3, 5, 5]), None).passed  # a repeated entry


def test_the_ranking_must_begin_with_the_region() -> None:
    assert ranking_check(REGION, np.array([9, 3, 5, 0])).passed
    assert not ranking_check(REGION, np.array([9, 3, 0, 5])).passed
    assert not ranking_check(REGION, np.array([9, 3, 5, 9])).passed
    assert not ranking_check(REGION, np.array([9, 3])).passed


def test_the_ends_hold(pair: ModelPair, encoded: Any) -> None:
    check = ends_check(pair, encoded)
    assert check.passed and "bit for bit" in check.detail


def test_a_graft_that_misses_one_entry_is_seen(pair: ModelPair, encoded: Any, monkeypatch: Any) -> None:
    real = Region.blocks
    moved = int((pair.base != pair.finetuned).nonzero()[0])  # unmoved entries are equal at both ends

    def one_short(region: Region, entries: int = 10) -> Any:
        for block in real(region, entries):
            yield block[block != moved]

    monkeypatch.setattr(Region, "blocks", one_short)
    assert not ends_check(pair, encoded).passed


def test_one_changed_bit_anywhere_is_seen(pair: ModelPair) -> None:
    before = fingerprint_of(pair)
    assert restored_check(before, pair).passed
    for parameter in (pair.flat.theta, pair.model.get_parameter("classifier.weight").data.view(-1)):
        own = parameter[0].clone()
        parameter[0] = torch.nextafter(own, own + 1)
        assert not restored_check(before, pair).passed
        parameter[0] = own
        assert restored_check(before, pair).passed

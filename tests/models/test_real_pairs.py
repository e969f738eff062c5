"""The real pairs that ship: small, licensed, whole beside their base, and what their cards say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillviz.models.fetch import is_local
from skillviz.models.frozen_tensors import shipped_pairs
from skillviz.models.preflight import preflight
from skillviz.tasks import registry
from skillviz.tasks.project import project_root

PAIRS = shipped_pairs()
MOST = 32 * 2**20


def test_one_ships() -> None:
    assert [pair.name for pair in PAIRS] == ["ag-news-minilm-l6"]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_it_is_small_licensed_and_of_a_known_task(pair: object) -> None:
    name, finetuned, base, task = pair  # type: ignore[misc]
    folder = project_root() / finetuned
    assert sum(file.stat().st_size for file in folder.iterdir()) < MOST
    card = (folder / "README.md").read_text()
    assert 'license: "apache-2.0"' in card and base in card and task in registry.TASKS
    assert is_local(finetuned) and not is_local(base.replace("/", "/no-such-"))
    for file in folder.glob("*.*"):  # no folder of the machine that made it
        assert file.suffix == ".safetensors" or not any(place in file.read_text() for place in ("/home/", "/tmp/"))


@pytest.mark.real
def test_it_opens_beside_its_base_and_refuses_another(real: Path) -> None:
    (pair,) = PAIRS
    fits = preflight(real / "models" / "minilm-l6", pair.finetuned)
    assert fits.fits and fits.d == 10_646_784 and fits.labels == 4
    record = json.loads((project_root() / pair.finetuned / "finetune.json").read_text())
    other = preflight(real / "models" / "babyllama-105", pair.finetuned)
    assert not other.fits and "has the fingerprint 864285d209c5" in other.problems[0]
    assert fits.d == record["d"] and fits.labels == len(record["labels"])

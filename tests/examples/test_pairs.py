"""Tests of the example pairs: small, licensed, complete with their base, and described correctly by their cards."""

from __future__ import annotations

import json
import re

import pytest

from skillviz.models.examples import ExamplePair, example_bases, example_pairs
from skillviz.models.preflight import preflight
from skillviz.tasks import registry
from skillviz.tasks.project import located

PAIRS = [pair for pair in example_pairs() if pair.ships and pair.is_built]
MOST = 32 * 2**20
OF_A_MACHINE = re.compile(r"(?<![\w.])/(home|tmp|work|root)/")


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_it_is_small_licensed_and_opens_beside_its_base(pair: ExamplePair) -> None:
    folder = located(pair.finetuned)
    assert sum(file.stat().st_size for file in folder.iterdir()) < MOST
    license = example_bases()[pair.base].license.lower()
    assert f'license: "{license}"' in (folder / "README.md").read_text()
    record, task = json.loads((folder / "finetune.json").read_text()), registry.task(pair.task)
    assert (record["task"], record["labels"]) == (task.name, list(task.labels))
    check = preflight(pair.base, pair.finetuned, task)
    assert check.fits and check.d == record["d"]
    for file in folder.glob("*.*"):
        assert file.suffix == ".safetensors" or not OF_A_MACHINE.search(file.read_text()), file.name

"""Tests of `pairs`: every row of the table, how to start with one, and an id that is gone from the hub."""

from __future__ import annotations

import huggingface_hub
import pytest

from skillviz.models.public_pairs import public_pairs
from tests.cli.calls import call

ROWS = public_pairs()


def test_every_pair_is_listed_with_its_facts_and_how_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("asked the hub"))
    said = call("pairs", "--json")
    assert said.code == 0 and not said.err
    assert said.json == {"pairs": [row.model_dump(mode="json") for row in ROWS]}
    lines = said.out.splitlines()
    for row in ROWS:
        (line,) = [line for line in lines if row.finetuned in line and row.license in line and not line.startswith("{")]
        cells = line.split()
        assert cells[:3] == [row.task, row.base, row.finetuned] and cells[-1] == row.weights
        assert f"{row.parameters / 1e6:.1f}" in line
    assert ROWS[0].localize_command() in said.out
    assert next(command for row in ROWS if (command := row.convert_command())) in said.out


def test_an_id_that_the_hub_no_longer_has_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str, **options: object) -> str:
        raise type("RepositoryNotFoundError", (Exception,), {})("404\nwith details")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", gone)
    row = ROWS[0]
    said = call("preflight", "--base", row.base, "--finetuned", row.finetuned)
    assert said.code == 2 and f"'{row.base}'" in said.err and "the hub has no such model" in said.err
    assert "Traceback" not in said.err and "details" not in said.err

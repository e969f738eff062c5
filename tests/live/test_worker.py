"""Tests of the worker as the pages start it, with a tiny model: its answers equal a direct call's."""

from __future__ import annotations

import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

from skillviz.errors import BadInput, LiveError, Superseded
from skillviz.live.client import Client
from skillviz.models.pair import load_pair
from skillviz.runs.store import Store
from skillviz.runs.wise import grid_logits
from skillviz.tasks import registry
from skillviz.tasks.encode import encode
from skillviz.tasks.splits import load
from tests.live.test_client import in_background

pytestmark = pytest.mark.slow

TEXT = "the film was good and funny"


@pytest.fixture
def place(lived: Path, tmp_path: Path) -> Path:
    shutil.copytree(lived / "runs", tmp_path / "runs")
    return tmp_path / "runs"


def test_a_slider_and_a_sentence(place: Path, lived: Path) -> None:
    """Ten rapid moves, two tabs, one that closes, a kill: every answer is right or says that there is none."""
    run = Store(place).list()[0]
    pair = load_pair(lived / "base", lived / "finetuned", task=lived / "task.yaml", device="cpu")
    task = registry.task(lived / "task.yaml")
    encoded = encode(task, load(task).test, pair.tokenizer, "head")
    alphas = [round(0.1 * n, 1) for n in range(10)]
    wanted = {(p, a): z for p, _, a, z in grid_logits(pair, encoded, {0: run.region()}, np.array(alphas))}
    client, named = Client(place), {"run": run.id}
    assert client.ask("open", pair=named)["d"] == pair.d
    assert client.process is not None
    first = psutil.Process(client.process.pid)
    with ThreadPoolExecutor(12) as pool:
        moves = [
            pool.submit(client.ask, "wise", topic="one alpha", pair=named, path="wise-graft", alpha=alpha)
            for alpha in alphas
        ]
        texts = [pool.submit(client.ask, "score_text", topic="other alpha", pair=named, texts=[TEXT])]
        errors = [move.exception() for move in moves]
        assert all(isinstance(error, Superseded) for error in errors if error) and not all(errors)
        for alpha, move, error in zip(alphas, moves, errors, strict=True):
            if not error:
                assert np.array_equal(move.result()["logits"], wanted["wise-graft", alpha])
        assert texts[0].result()["logits"]["grafted"].shape == (1, 2)
    found = client.ask("attribute", pair=named, text=TEXT, steps=10)
    assert set(found["states"]) == {"pretrained", "grafted", "finetuned"}
    with pytest.raises(BadInput, match="wise-ft, wise-graft"):
        client.ask("wise", pair=named, path="straight", alpha=0.5)

    # a tab closes while the worker computes, on a graft: the next answers are exact, by the same worker
    end = time.monotonic() + 2
    long = {"pair": named, "text": TEXT, "steps": 1000}
    with pytest.raises(Superseded):
        client.ask("attribute", states=["grafted"] * 1000, is_wanted=lambda: time.monotonic() < end, **long)
    for path, alpha in (("wise-graft", 0.6), ("wise-ft", 0.6)):
        assert np.array_equal(client.ask("wise", pair=named, path=path, alpha=alpha)["logits"], wanted[path, alpha])
    assert time.monotonic() < end + 20 and client.process.pid == first.pid and client.process.poll() is None

    worked = first.cpu_times().user
    thread, kept = in_background(lambda: client.ask("attribute", states=["finetuned"] * 1000, **long))
    while thread.is_alive() and first.cpu_times().user < worked + 0.5:  # until it computes the answer
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    thread.join()
    assert isinstance(kept[0], LiveError) and "killed" in str(kept[0])
    again = client.ask("wise", pair=named, path="wise-ft", alpha=0.3)
    assert np.array_equal(again["logits"], wanted["wise-ft", 0.3]) and client.process.pid != first.pid


def test_the_command_is_there_but_not_in_the_help() -> None:
    from tests.cli.calls import call

    assert "worker" not in call("--help").out
    said = call("worker", "--help")
    assert said.code == 0 and "--connection" in said.out and "--idle" in said.out

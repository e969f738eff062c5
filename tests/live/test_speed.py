"""Tests of the time of a warm live control on a small model: 2 layers of width 128, 500 examples."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.live.client import Client
from tests.tiny import tiny_model, tiny_task, tiny_tokenizer

WANTED_SECONDS = 1.0
TEXT = "the film was good and the story with this actor was lovely and funny"


def small_pair(folder: Path) -> dict[str, str]:
    """Make a pair of small random models, and a task with 500 test examples."""
    sizes = {"hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 4}
    model = tiny_model("roberta", "prompt", **sizes)
    for name in ("base", "finetuned"):
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                parameter += 0.02 * torch.randn_like(parameter) if ".layer." in key else 0
        model.save_pretrained(folder / name)
        tiny_tokenizer("roberta").save_pretrained(folder / name)
    task = tiny_task(folder, rows=1000)
    return {"base": str(folder / "base"), "finetuned": str(folder / "finetuned"), "task": str(task)}


@pytest.mark.bench
def test_live_controls_answer_within_a_second(tmp_path: Path) -> None:
    pair, client = small_pair(tmp_path), Client(tmp_path / "runs")
    region = {"layers": [1], "kinds": ["value", "MLP in"]}
    client.ask("open", pair=pair)
    controls: dict[str, dict[str, Any]] = {
        "score_text": {"texts": [TEXT], "region": region},
        "attribute": {"text": TEXT, "region": region},
        "attribute by layer": {"text": TEXT, "region": region, "method": "layer-conductance"},
        "wise": {"path": "wise-graft", "alpha": 0.35, "region": region},
        "evaluate_region": {"region": region},
        "evaluate_region on a sample": {"region": region, "sample": 200},
    }
    slow = {}
    for name, arguments in controls.items():
        seconds = []
        for _ in range(6):
            began = time.perf_counter()
            client.ask(name.split()[0], pair=pair, **arguments)
            seconds.append(time.perf_counter() - began)
        print(f"{name}: {seconds[0]:.3f} s first, {np.median(seconds[1:]):.3f} s then")
        if np.median(seconds[1:]) > WANTED_SECONDS:
            slow[name] = seconds
    assert not slow

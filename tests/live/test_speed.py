"""Tests of the time of a warm live control on a small model: 2 layers of width 128, 500 examples."""

from functools import partial
from pathlib import Path
from timeit import repeat
from typing import Any

import numpy as np
import pytest

from skillviz.live.client import Client
from tests.tiny import tiny_model, tiny_task, tiny_tokenizer

WANTED_SECONDS = 1.0
TEXT = "the film was good and the story with this actor was lovely and funny"


@pytest.mark.bench
def test_live_controls_answer_within_a_second(tmp_path: Path) -> None:
    sizes = {"hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 4}
    pair = {"task": str(tiny_task(tmp_path, rows=1000))} | {
        name: str(tmp_path / name) for name in ("base", "finetuned")
    }
    for seed, name in enumerate(("base", "finetuned")):
        tiny_model("roberta", "prompt", seed, **sizes).save_pretrained(pair[name])
        tiny_tokenizer("roberta").save_pretrained(pair[name])
    pair["task"], client = str(tiny_task(tmp_path, rows=1000)), Client(tmp_path / "runs")
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
    seconds = {
        name: repeat(partial(client.ask, name.split()[0], pair=pair, **arguments), number=1, repeat=6)
        for name, arguments in controls.items()
    }
    usual = {name: np.median(times[1:]) for name, times in seconds.items()}
    print({name: f"{times[0]:.3f} s first, {usual[name]:.3f} s then" for name, times in seconds.items()})
    assert {name for name in usual if usual[name] > WANTED_SECONDS} == set()

"""Tests of downloading a model from any address of the hub: byte for byte, with progress."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from skillviz.tasks.project import CACHE_VARIABLE
from tests.hub import COMMIT, hub_of
from tests.tiny import tiny_pair

SCRIPT = """
import json, sys
from skillviz.models.fetch import is_local, resolve
from skillviz.models.pair import load_pair
told = []
assert not is_local("some/encoder")
folder = resolve("some/encoder", lambda done, total: told.append((done, total)))
assert is_local("some/encoder")
pair = load_pair("gone/from/here", sys.argv[1])
print(json.dumps([str(folder), told, pair.base_info.identity(), pair.finetuned_info.fingerprint]))
"""


@pytest.fixture
def stripped(tmp_path: Path) -> tuple[Path, Path]:
    from skillviz.models.frozen_tensors import strip

    base, tuned = tiny_pair(tmp_path, "bert", "head")
    strip(tuned, base, dtype="float16", hub="some/encoder")
    return base, tuned


@pytest.mark.slow
def test_a_pair_opens_beside_the_base_that_was_downloaded(stripped: tuple[Path, Path], tmp_path: Path) -> None:
    from skillviz.models.preflight import preflight

    base, tuned = stripped
    here = preflight(base, tuned)
    (base / "pytorch_model.bin").write_bytes(b"a pickle")
    with hub_of({"some/encoder": base}) as hub:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tuned)], env={**os.environ, **hub.environment(tmp_path / "home")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    folder, told, identity, fingerprint = json.loads(done.stdout.splitlines()[-1])
    assert (Path(folder) / "model.safetensors").read_bytes() == (base / "model.safetensors").read_bytes()
    assert not [path for path in hub.asked if path.endswith(".bin")]
    total = sum(file.stat().st_size for file in base.iterdir() if file.suffix != ".bin")
    assert max(told) == [total, total] and len(told) > 1
    assert identity == {"id": "some/encoder", "revision": COMMIT, "fingerprint": here.base.fingerprint}
    assert fingerprint == here.finetuned.fingerprint


@pytest.mark.nightly
def test_a_pickled_model_of_the_hub_is_converted_once_and_then_at_hand(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", "head")
    torch.save(load_file(tuned / "model.safetensors"), tuned / "pytorch_model.bin")
    (tuned / "model.safetensors").unlink()
    check = [sys.executable, "-m", "skillviz", "preflight", "--base", "some/encoder", "--finetuned", "some/tuned"]
    with hub_of({"some/encoder": base, "some/tuned": tuned}) as hub:
        here = {**os.environ, **hub.environment(tmp_path / "home"), CACHE_VARIABLE: str(tmp_path / "cache")}
        refused, converted = (
            subprocess.run([*check, *more], env=here, capture_output=True, text=True, check=False)
            for more in ((), ("--convert",))
        )
    assert refused.returncode == 2 and "--convert" in refused.stderr
    assert converted.returncode == 0 and "sha256" in converted.stderr, converted.stderr
    script = "from skillviz.models.fetch import is_local; print(is_local('some/tuned'), is_local('some/other'))"
    for words, said in (([sys.executable, "-c", script], "True False"), (check, "graftable")):
        offline = subprocess.run(words, env={**here, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True)
        assert offline.returncode == 0 and said in offline.stdout, offline.stderr

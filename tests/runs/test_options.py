"""Tests of a localizer's options: common ones reach the localizers that have them, unknown ones are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skillviz.core.localizers.table import localizer as row_of
from skillviz.core.region import Region
from skillviz.errors import BadInput, CorruptFile, RunNotFound
from skillviz.runs.plan import named_region, options_of
from skillviz.runs.spec import RunSpec, region_of
from skillviz.runs.store import Store, library
from tests.fake_run import fake_run


def spec(localizer: str, **changes: Any) -> RunSpec:
    return RunSpec(**{"base": "b", "finetuned": "f", "task": "t", "localizer": localizer, **changes})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def test_common_options_reach_those_that_have_them() -> None:
    options, notes = options_of(spec("stagewise", steps=3, batch_size=4), row_of("stagewise"))
    assert (options.steps, options.batch_size) == (3, 4) and notes == ()
    options, notes = options_of(spec("movement", steps=3), row_of("movement"))
    assert "no steps" in notes[0]


def test_an_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(BadInput, match="learning_rate.*steps"):
        options_of(spec("stagewise", options={"learning_rate": 1}), row_of("stagewise"))


def test_the_base_of_a_learned_mask_may_be_a_region_file(tmp_path: Path) -> None:
    region = Region.from_flat(np.array([3, 9]), {"a": (4, 4)})
    region.save(tmp_path / "r.safetensors")
    run = spec("learned", options={"base": str(tmp_path / "r.safetensors")})
    region_in_file = named_region(run, row_of("learned"), None)[0]
    assert region_in_file == region
    options, _ = options_of(run, row_of("learned"), region_in_file)
    assert options.base_indices == (3, 9)


def test_a_base_that_is_no_region_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "no.safetensors").write_text("x")
    for base, error in (
        (str(tmp_path / "none"), BadInput),
        (str(tmp_path / "no.safetensors"), CorruptFile),
        (3, BadInput),
    ):
        with pytest.raises(error):
            named_region(spec("learned", options={"base": base}), row_of("learned"), None)
    assert named_region(spec("learned", options={"base": "empty"}), row_of("learned"), None) == (None, ())
    assert named_region(spec("movement"), row_of("movement"), None) == (None, ())


def test_the_matched_draw_takes_a_region_file_or_the_folder_of_a_run(tmp_path: Path) -> None:
    region = Region.from_flat(np.array([3, 9]), {"a": (4, 4)})
    region.save(tmp_path / "region.safetensors")
    row = row_of("random-matched")
    for named in (tmp_path, tmp_path / "region.safetensors"):
        run = spec("random-matched", options={"reference": str(named)})
        options, _ = options_of(run, row, named_region(run, row, None)[0])
        assert options.reference_indices == (3, 9) and options.reference == "movement"
    with pytest.raises(BadInput, match="'reference' must be movement, or a region file; 'nowhere' is none"):
        named_region(spec("random-matched", options={"reference": "nowhere"}), row, None)
    assert named_region(spec("random-matched", options={"reference": "movement"}), row, None) == (None, ())


def test_a_run_named_by_its_key_is_looked_up_and_missed_in_words(store: Store) -> None:
    named = fake_run(store, localizer="movement", steps=5)
    reference = region_of(named.spec, named.spec.model_dump(mode="json"))
    row, runs = row_of("random-matched"), library(store.root)
    run = spec("random-matched", options={"reference": reference})
    region, (source,) = named_region(run, row, runs)
    assert region == named.region() and source["run"] == named.id
    options, _ = options_of(run, row, region)
    assert options.reference_indices == tuple(region.flat().tolist())
    gone = spec("random-matched", options={"reference": f"key:{'0' * 64} stagewise batch_size=64"})
    with pytest.raises(
        RunNotFound, match="a run .stagewise batch_size=64, key 000000000000. that is not finished here"
    ):
        named_region(gone, row, runs)
    with pytest.raises(RunNotFound, match="reference=RUN/region.safetensors"):
        named_region(spec("random-matched", options={"reference": "key:"}), row, runs)


def test_the_words_of_a_named_region_say_what_differs_from_the_run_that_names_it() -> None:
    of = spec("stagewise", batch_size=64, sizes=("5%",), task="cr")
    beside = {"task": "cr", "sizes": ["5%"], "readout": None}
    key = of.key()
    assert region_of(of, beside) == f"key:{key} stagewise batch_size=64"
    assert region_of(of, {**beside, "task": "sst2", "sizes": [1000]}) == (
        f"key:{key} stagewise batch_size=64 task=cr sizes=5%"
    )
    nested = spec("expression", options={"expression": {"run": f"key:{key}"}}, sizes=("5%",), task="cr")
    assert region_of(nested, beside) == f"key:{nested.key()} expression", "no key of another run"

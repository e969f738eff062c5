"""Tests that a failed comparison does not count as equal: bases of adapters, settings a configuration omits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from peft import LoraConfig, get_peft_model

from skillviz.core.comparison import Comparison
from skillviz.core.graft import Graft
from skillviz.core.region import Region
from skillviz.errors import PairMismatch, WrongBase
from skillviz.models.applied import opened_base
from skillviz.models.checkpoint import read_info
from skillviz.models.lean_pair import load_lean
from skillviz.models.load import load_model
from skillviz.models.lora import is_its_base
from skillviz.models.pair import load_pair, rehearse
from skillviz.models.preflight import preflight
from tests.models.folders import change_config, change_weights
from tests.tiny import tiny_pair


@pytest.fixture
def adapter(tmp_path: Path) -> tuple[Path, Path]:
    _, tuned = tiny_pair(tmp_path)
    joined = get_peft_model(load_model(tuned, "head").model, LoraConfig(task_type="SEQ_CLS", target_modules=["query"]))
    joined.save_pretrained(tmp_path / "lora")
    return tuned, tmp_path / "lora"


def named(folder: Path, base: str | None) -> Path:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": base}))
    return folder


def test_the_base_of_an_adapter_is_the_same_another_or_unknown(adapter: tuple[Path, Path], tmp_path: Path) -> None:
    base, folder = adapter
    copy, other = (shutil.copytree(base, tmp_path / name / base.name) for name in ("copy", "other"))
    change_weights(other, lambda tensors: {name: tensor + 1 for name, tensor in tensors.items()})
    for name, wanted in (
        (str(base), Comparison.SAME),
        (str(copy), Comparison.SAME),
        (str(other), Comparison.DIFFERENT),
        (f"org/{base.name}", Comparison.UNKNOWN),  # the same name, which does not prove the same weights
        ("/gone/base", Comparison.UNKNOWN),
        ("", Comparison.UNKNOWN),
        (None, Comparison.UNKNOWN),
    ):
        named(folder, name)
        assert is_its_base(read_info(folder), read_info(base)) is wanted, name
        check = preflight(base, folder)
        assert check.fits is (wanted is not Comparison.DIFFERENT)
        said = [note for note in check.notes if "could not be compared" in note or "does not say which base" in note]
        assert len(said) == (wanted is Comparison.UNKNOWN), name
        assert not any("/gone" in note for note in said), "a path of another machine says nothing"


@pytest.mark.parametrize("load", [load_pair, load_lean])
def test_a_setting_that_one_configuration_leaves_out_is_that_of_transformers(tmp_path: Path, load: object) -> None:
    base, tuned = tiny_pair(tmp_path)
    change_config(base, hidden_act=None, layer_norm_eps=None)  # the defaults are gelu and 1e-12, like the other's
    pair = load(base, tuned, device="cpu")  # type: ignore[operator]
    assert not any("differ in" in note for note in pair.notes)
    change_config(tuned, layer_norm_eps=1e-5)
    pair = load(base, tuned, device="cpu")  # type: ignore[operator]
    assert any("differ in layer_norm_eps: 1e-12 in the base, 1e-05" in note for note in pair.notes)
    change_config(tuned, hidden_act="relu")
    assert preflight(base, tuned).fits, "headers alone cannot tell"
    for refused in (lambda: load(base, tuned, device="cpu"), lambda: rehearse(preflight(base, tuned))):  # type: ignore[operator]
        with pytest.raises(PairMismatch, match="hidden_act: gelu in the base, relu"):
            refused()


def test_two_ways_to_write_the_rotary_base_are_compared(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "llama")
    rotary = json.loads((tuned / "config.json").read_text())["rope_parameters"]
    change_config(base, rope_parameters=None, rope_theta=rotary["rope_theta"])
    assert not any("rope" in note for note in load_pair(base, tuned).notes)
    change_config(base, rope_theta=2 * rotary["rope_theta"])
    assert any("differ in rope_parameters" in note for note in load_pair(base, tuned).notes)


def test_a_graft_and_a_difference_that_do_not_name_their_base_are_refused_as_that(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    pair = load_pair(base, tuned)
    graft = pair.graft(Region.full(pair.table.shapes))
    bare = Graft(graft.region, graft.values, graft.head, {**graft.header, "base": {}})
    with pytest.raises(WrongBase, match="does not say for which base"):
        opened_base(base, bare)
    assert any("does not say for which base" in note for note in opened_base(base, bare, force=True).notes)
    change_config(tuned, skillviz_frozen={"layout": 1, "tensors": {}})
    with pytest.raises(WrongBase, match="does not say which base"):
        preflight(base, tuned).raise_first()

"""Tests of parameter names with a wrapper's prefix, and of a folder above the one that was meant."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from skillviz.errors import BadModel, ModelNotFound, PairMismatch
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import resolve
from skillviz.models.lean_pair import load_lean
from skillviz.models.load import load_model
from skillviz.models.pair import load_pair
from skillviz.models.preflight import preflight
from tests.models.folders import change_weights
from tests.tiny import tiny_pair

PREFIXES = (
    "model.", "net.", "_fsdp_wrapped_module.", "module.", "_orig_mod.", "model.model.", "model._orig_mod.",
    "module.model.", "_forward_module.net.", "bert.", "bert.bert.",
)  # fmt: skip


def wrap(folder: Path, prefix: str) -> None:
    change_weights(folder, lambda tensors: {prefix + name: tensor for name, tensor in tensors.items()})


@pytest.fixture(scope="module")
def pair_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    tiny_pair(folder, "bert")
    return folder


def copied(pair_folder: Path, folder: Path) -> tuple[Path, Path]:
    shutil.copytree(pair_folder, folder, dirs_exist_ok=True)
    return folder / "base", folder / "finetuned"


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_that_all_tensors_share_is_left_out_and_said(tmp_path: Path, pair_folder: Path, prefix: str) -> None:
    base, tuned = copied(pair_folder, tmp_path)
    plain = {folder: read_info(folder) for folder in (base, tuned)}
    # The base has no head, so the names of its body may begin with 'bert.'.
    wrapped = (tuned,) if prefix == "bert." else (base, tuned)
    for folder in wrapped:
        wrap(folder, prefix)
    for folder in wrapped if "bert." not in prefix else (tuned,):
        assert read_info(folder).shapes == plain[folder].shapes
        assert read_info(folder).fingerprint == plain[folder].fingerprint
    check = preflight(base, tuned)
    said = [note for note in check.notes if "is left out" in note]
    assert check.fits and len(said) == len(wrapped) and f"'{prefix}' is left out" in said[-1]


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("prefix", ["net.", "_fsdp_wrapped_module.model.", "bert."])
def test_the_values_are_those_of_the_model_inside(tmp_path: Path, pair_folder: Path, prefix: str) -> None:
    base, tuned = copied(pair_folder, tmp_path)
    plain = load_pair(base, tuned)
    wrap(base, "model.")
    wrap(tuned, prefix)
    change_weights(  # the names that FSDP and torch.compile give when they wrap blocks one by one
        tuned,
        lambda t: {n.replace("layer.1.attention.", "layer.1._orig_mod.attention._orig_mod."): v for n, v in t.items()},
    )
    pair = load_pair(base, tuned)
    assert torch.equal(pair.base, plain.base) and torch.equal(pair.finetuned, plain.finetuned)
    assert all(torch.equal(tensor, pair.head()[name]) for name, tensor in plain.head().items())
    lean = load_lean(base, tuned, dtype="float32")
    assert lean.movement.counts().moved == int((plain.base != plain.finetuned).sum())


@pytest.mark.parametrize("family", ["opt", "gpt2", "llama", "roberta", "distilbert", "gpt_neox"])
@pytest.mark.parametrize("readout", ["head", "bare"])
def test_names_of_the_family_itself_are_kept(tmp_path: Path, family: str, readout: str) -> None:
    base, tuned = tiny_pair(tmp_path, family)
    folder = base if readout == "bare" else tuned
    names = load_file(folder / "model.safetensors").keys()
    assert read_info(folder).tensors.keys() == names and not read_info(folder).wrapper
    wrap(folder, "net.")
    assert read_info(folder).tensors.keys() == names and read_info(folder).wrapper == "net."


def test_a_prefix_of_the_body_alone_is_named(tmp_path: Path, pair_folder: Path) -> None:
    base, tuned = copied(pair_folder, tmp_path)
    change_weights(
        tuned, lambda t: {n.replace("bert.", "backbone.").replace("classifier", "fc"): v for n, v in t.items()}
    )
    assert any("'backbone.'" in problem for problem in preflight(base, tuned).problems)


@pytest.mark.parametrize(
    ("inside", "wanted"),
    [
        (["checkpoint-500"], "checkpoint-500"),
        (["checkpoint-500", "checkpoint-1000"], "checkpoint-1000"),
        (["checkpoint-500", "final"], "final"),
        (["runs/best"], "runs/best"),
    ],
)
def test_a_folder_above_the_model_names_the_one_that_fits(
    tmp_path: Path, pair_folder: Path, inside: list[str], wanted: str
) -> None:
    base, tuned = copied(pair_folder, tmp_path / "models")
    (tmp_path / "out" / "logs").mkdir(parents=True)
    for name in inside:
        shutil.copytree(tuned, tmp_path / "out" / name)
    for pair in ((base, tmp_path / "out"), (tmp_path / "out", tuned)):
        with pytest.raises(ModelNotFound) as refused:
            preflight(*pair)
        assert f"'{tmp_path / 'out' / wanted}'" in str(refused.value) and "--convert" not in str(refused.value)


def test_a_part_of_a_model_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "out" / "2_Dense").mkdir(parents=True)
    save_file({"linear.weight": torch.zeros(2, 2)}, tmp_path / "out" / "2_Dense" / "model.safetensors")
    (tmp_path / "out" / "2_Dense" / "config.json").write_text('{"in_features": 2}')
    with pytest.raises(ModelNotFound, match="has no model.safetensors"):
        resolve(tmp_path / "out")


@pytest.fixture
def adapter(tmp_path: Path, pair_folder: Path) -> tuple[Path, Path]:
    _, tuned = copied(pair_folder, tmp_path / "models")
    joined = get_peft_model(load_model(tuned, "head").model, LoraConfig(task_type="SEQ_CLS", target_modules=["query"]))
    joined.save_pretrained(tmp_path / "out" / "adapter")
    return tuned, tmp_path / "out" / "adapter"


def test_an_adapter_in_a_subfolder_is_named(adapter: tuple[Path, Path]) -> None:
    base, folder = adapter
    assert preflight(base, folder).fits
    with pytest.raises(ModelNotFound, match=r"out/adapter'"):
        preflight(base, folder.parent)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("base_model.model.", "", "'base_model.model.'"),
        ("base_model.model.", "model.base_model.model.", "'model.' in front"),
        ("base_model.model.", "_orig_mod.base_model.model.", "'_orig_mod.' in front"),
        (".lora_A.", ".lora_A.default.", "'default.'"),
        ("base_model.model.", "base_model.model.net.", "'net.'"),
    ],
)
def test_an_adapter_whose_names_peft_would_leave_out_is_refused(
    adapter: tuple[Path, Path], old: str, new: str, words: str
) -> None:
    base, folder = adapter
    file = folder / "adapter_model.safetensors"
    save_file({name.replace(old, new): tensor for name, tensor in load_file(file).items()}, file)
    problems = preflight(base, folder).problems
    assert problems and words in problems[0]
    with pytest.raises((BadModel, PairMismatch)):
        load_pair(base, folder)

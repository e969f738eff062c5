"""Tests of LoRA in training: the trained parameters; after merging, an ordinary model has peft's own logits."""

import json

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForMaskedLM

from skillviz.api import finetune
from skillviz.core.architectures import FAMILIES
from skillviz.core.parameters import graftable
from skillviz.errors import BadInput, BadModel
from skillviz.models.finetune.trainable_model import Adapter, adapted
from skillviz.models.pair import load_pair
from skillviz.tasks.registry import task
from tests.tiers import first
from tests.tiny import tiny_model, tiny_pair, tiny_task
from tests.tiny_families import ONE_A_SCHEME, family_model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Return the tiny task with two labels."""
    return task(tiny_task(tmp_path_factory.mktemp("data"), rows=64))


def told(folder):
    return json.loads((folder / "finetune.json").read_text())


@pytest.mark.nightly
@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("gpt2", "head"), ("llama", "causal")])
def test_lora_is_merged_into_an_ordinary_folder(family, readout, tiny, tmp_path):
    base = tiny_pair(tmp_path, family, readout)[0]
    found = finetune(
        str(base), tiny, out=tmp_path / "out", recipe="lora", rank=2, readout=readout, steps=30, lr=0.05, device="cpu"
    )
    assert not any("lora" in name for name in load_file(found.path / "model.safetensors"))
    pair = load_pair(base, found.path)
    table = pair.table
    fused = {"bert": ("query", "value"), "gpt2": ("c_attn",), "llama": ("q_proj", "v_proj")}[family]
    targets = [p for p in table.parameters if p.name.endswith(tuple(f"{n}.weight" for n in fused))]
    assert told(found.path)["trained"] == sum(2 * sum(p.shape) for p in targets)
    for name, mask in zip(table.names, pair.flat.views(pair.base != pair.finetuned), strict=True):
        assert bool(mask.any()) == (name in {p.name for p in targets}), name
    assert told(found.path)["touched"] <= sum(p.size for p in targets)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_merged_logits_are_peft_s(family):
    model, twin = tiny_model(family, "head"), tiny_model(family, "head")
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    table = graftable(family, shapes, model.config.to_dict())
    adapter = Adapter(model, table, rank=2, seed=0)
    targets = {"bert": ["query", "value"], "gpt2": ["c_attn"]}[family]
    joined = get_peft_model(
        twin, LoraConfig(r=2, lora_alpha=8, target_modules=targets, fan_in_fan_out=family == "gpt2")
    )
    theirs = {n: p for n, p in joined.named_parameters() if ".lora_" in n}
    generator = torch.Generator().manual_seed(1)
    for (_, mine), other in zip(sorted(adapter.parameters.items()), (theirs[n] for n in sorted(theirs)), strict=True):
        assert mine.shape == other.shape
        mine.data.normal_(0, 0.2, generator=generator)
        other.data.copy_(mine.data)
    ids = torch.arange(5, 15)[None]
    model.config.pad_token_id = twin.config.pad_token_id = 0
    with torch.inference_mode():
        wanted = joined.eval()(input_ids=ids).logits
        merged = adapter.merge().eval()
        assert torch.allclose(merged(input_ids=ids).logits, wanted, rtol=1e-4, atol=1e-5)
    assert {name: tuple(p.shape) for name, p in merged.named_parameters()} == shapes


def test_rank_one_on_roberta_base_trains_36864_entries():
    config = AutoConfig.for_model("roberta")
    with torch.device("meta"):
        model = AutoModelForMaskedLM.from_config(config)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert Adapter(model, graftable("roberta", shapes), rank=1, seed=0).size == 36_864


FEW = ("bert", "gpt2", "llama", "t5", "fnet")
WITHOUT = ("fnet", "ibert", "squeezebert", "xlnet")  # no attention, or its matrices are not linear layers


@pytest.mark.cases(3, 8)
@pytest.mark.parametrize("family", first(FAMILIES, FEW.__contains__, ONE_A_SCHEME.__contains__))
def test_every_family_of_the_table_is_adapted_and_merged_or_refused(family):
    model = family_model(family)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    table = graftable(family, shapes, model.config.to_dict())
    if family in WITHOUT:
        with pytest.raises(BadModel, match=f"no linear layer of this '{family}' model"):
            Adapter(model, table, rank=2, seed=0)
        return
    ids = torch.tensor([[5, 6, 7, 8, 2]])
    model.config.pad_token_id = 1
    with torch.inference_mode():
        before = model(input_ids=ids).logits
    adapter = Adapter(model, table, rank=2, seed=0)
    for factor in adapter.parameters.values():
        torch.nn.init.normal_(factor, 0, 0.2)
    with torch.inference_mode():
        wanted = model.eval()(input_ids=ids).logits
        merged = adapter.merge().eval()(input_ids=ids).logits
    assert torch.allclose(merged, wanted, rtol=1e-4, atol=1e-4)
    assert not torch.equal(wanted, before)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == shapes


def test_a_family_without_known_modules_is_refused():
    table = graftable("strange", {"layers.0.w.weight": (2, 2)})
    with pytest.raises(BadModel, match="known as query or value"):
        Adapter(tiny_model("bert", "head"), table, rank=1, seed=0)


# The names of query and value, from the families' modeling files.
TARGETS = {
    "bert": ["query", "value"],
    "gpt2": ["c_attn"],
    "llama": ["q_proj", "v_proj"],
    "distilbert": ["q_lin", "v_lin"],
}


@pytest.mark.parametrize("family", TARGETS)
def test_fewer_matrices_are_the_last_ones_value_first(family):
    """Compare with a loop: layer by layer from the last, the last name of a layer's targets first."""
    model = tiny_model(family, "head")
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    table = graftable(family, shapes, model.config.to_dict())
    wanted = []
    for layer in reversed(range(max(p.layer for p in table.parameters) + 1)):
        for leaf in reversed(TARGETS[family]):
            wanted += [
                p.name.removesuffix(".weight")
                for p in table.parameters
                if p.layer == layer and p.name.endswith(f".{leaf}.weight")
            ]
    assert adapted(model, table) == wanted
    assert [adapted(model, table, n) for n in range(1, len(wanted))] == [wanted[:n] for n in range(1, len(wanted))]
    with pytest.raises(BadInput, match=f"matrices is {len(wanted) + 1}, but the model has {len(wanted)} query"):
        adapted(model, table, len(wanted) + 1)


def test_an_adapter_on_one_matrix_changes_that_one_and_counts_its_factors(tiny, tmp_path):
    base = tiny_pair(tmp_path, "bert", "head")[0]
    found = finetune(
        str(base), tiny, out=tmp_path / "out", recipe="lora", rank=1, matrices=1, steps=30, lr=0.05, device="cpu"
    )
    pair = load_pair(base, found.path)
    (target,) = adapted(pair.model, pair.table, 1)
    assert target.endswith("value")
    for name, mask in zip(pair.table.names, pair.flat.views(pair.base != pair.finetuned), strict=True):
        assert bool(mask.any()) == (name == f"{target}.weight"), name
    shape = next(p.shape for p in pair.table.parameters if p.name == f"{target}.weight")
    assert found.trained == told(found.path)["trained"] == sum(shape)
    assert told(found.path)["settings"]["matrices"] == 1

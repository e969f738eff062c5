"""Tests of LoRA in training: the trained parameters; after merging, an ordinary model has peft's own logits."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForMaskedLM

from skillviz.api import finetune, load_pair
from skillviz.core.architectures import FAMILIES
from skillviz.core.parameters import graftable
from skillviz.errors import BadInput, BadModel
from skillviz.models.finetune.trainable_model import Adapter, adapted
from tests.models.finetune.trained import told
from tests.models.folders import weights
from tests.refused import refuses
from tests.tiers import first
from tests.tiny import tiny_model
from tests.tiny_families import ONE_A_SCHEME, family_model

# The names of query and value, from the families' modeling files.
TARGETS = {
    "bert": ["query", "value"],
    "gpt2": ["c_attn"],
    "llama": ["q_proj", "v_proj"],
    "distilbert": ["q_lin", "v_lin"],
}


def shapes_of(model):
    return {name: tuple(p.shape) for name, p in model.named_parameters()}


def table_of(family, model):
    return graftable(family, shapes_of(model), model.config.to_dict())


def moved(pair):
    """Return the parameters of which an entry moved."""
    masks = zip(pair.table.names, pair.flat.views(pair.base != pair.finetuned), strict=True)
    return {name for name, mask in masks if mask.any()}


@pytest.mark.nightly
@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("gpt2", "head"), ("llama", "causal")])
def test_lora_is_merged_into_an_ordinary_folder(base, family, readout, tiny, tmp_path):
    asked = {"recipe": "lora", "rank": 2, "readout": readout, "steps": 30, "lr": 0.05, "device": "cpu"}
    found = finetune(str(base), tiny, out=tmp_path / "out", **asked)
    assert [name for name in weights(found.path) if "lora" in name] == []
    pair, record = load_pair(base, found.path), told(found.path)
    targets = [p for p in pair.table.parameters if p.name.endswith(tuple(f"{n}.weight" for n in TARGETS[family]))]
    assert moved(pair) == {p.name for p in targets}
    assert record["trained"] == sum(2 * sum(p.shape) for p in targets)
    assert record["touched"] <= sum(p.size for p in targets)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_merged_logits_are_peft_s(family):
    model, twin = tiny_model(family, "head"), tiny_model(family, "head")
    shapes, adapter = shapes_of(model), Adapter(model, table_of(family, model), rank=2, seed=0)
    settings = {"target_modules": TARGETS[family], "fan_in_fan_out": family == "gpt2"}
    joined = get_peft_model(twin, LoraConfig(r=2, lora_alpha=8, **settings))
    theirs = {n: p for n, p in joined.named_parameters() if ".lora_" in n}
    generator = torch.Generator().manual_seed(1)
    for (_, mine), (_, other) in zip(sorted(adapter.parameters.items()), sorted(theirs.items()), strict=True):
        assert mine.shape == other.shape
        mine.data.normal_(0, 0.2, generator=generator)
        other.data.copy_(mine.data)
    ids = torch.arange(5, 15)[None]
    model.config.pad_token_id = twin.config.pad_token_id = 0
    with torch.inference_mode():
        wanted = joined.eval()(input_ids=ids).logits
        merged = adapter.merge().eval()
        assert torch.allclose(merged(input_ids=ids).logits, wanted, rtol=1e-4, atol=1e-5)
    assert shapes_of(merged) == shapes


def test_rank_one_on_roberta_base_trains_36864_entries():
    with torch.device("meta"):
        model = AutoModelForMaskedLM.from_config(AutoConfig.for_model("roberta"))
    assert Adapter(model, graftable("roberta", shapes_of(model)), rank=1, seed=0).size == 36_864


FEW = ("bert", "gpt2", "llama", "t5", "fnet")
WITHOUT = ("fnet", "ibert", "squeezebert", "xlnet")  # no attention, or its matrices are not linear layers


@pytest.mark.cases(3, 8)
@pytest.mark.parametrize("family", first(FAMILIES, FEW.__contains__, ONE_A_SCHEME.__contains__))
def test_every_family_of_the_table_is_adapted_and_merged_or_refused(family):
    model = family_model(family)
    shapes, table = shapes_of(model), table_of(family, model)
    if family in WITHOUT:
        refuses(BadModel, f"no linear layer of this '{family}' model", Adapter, model, table, rank=2, seed=0)
        return
    model.config.pad_token_id = 1
    before, adapter = logits(model), Adapter(model, table, rank=2, seed=0)
    for factor in adapter.parameters.values():
        torch.nn.init.normal_(factor, 0, 0.2)
    wanted, merged = logits(model.eval()), logits(adapter.merge().eval())
    assert torch.allclose(merged, wanted, rtol=1e-4, atol=1e-4) and not torch.equal(wanted, before)
    assert shapes_of(model) == shapes


@torch.inference_mode()
def logits(model):
    return model(input_ids=torch.tensor([[5, 6, 7, 8, 2]])).logits


def test_a_family_without_known_modules_is_refused():
    table = graftable("strange", {"layers.0.w.weight": (2, 2)})
    refuses(BadModel, "known as query or value", Adapter, tiny_model("bert", "head"), table, rank=1, seed=0)


@pytest.mark.parametrize("family", TARGETS)
def test_fewer_matrices_are_the_last_ones_value_first(family):
    """Compare with a loop: layer by layer from the last, the last name of a layer's targets first."""
    model = tiny_model(family, "head")
    table = table_of(family, model)
    wanted = [
        p.name.removesuffix(".weight")
        for layer in reversed(range(max(p.layer for p in table.parameters) + 1))
        for leaf in reversed(TARGETS[family])
        for p in table.parameters
        if p.layer == layer and p.name.endswith(f".{leaf}.weight")
    ]
    assert adapted(model, table) == wanted
    assert [adapted(model, table, n) for n in range(1, len(wanted))] == [wanted[:n] for n in range(1, len(wanted))]
    refuses(
        BadInput,
        f"matrices is {len(wanted) + 1}, but the model has {len(wanted)} query",
        adapted,
        model,
        table,
        len(wanted) + 1,
    )


def test_an_adapter_on_one_matrix_changes_that_one_and_counts_its_factors(bare, tiny, tmp_path):
    asked = {"recipe": "lora", "rank": 1, "matrices": 1, "steps": 30, "lr": 0.05, "device": "cpu"}
    found = finetune(str(bare), tiny, out=tmp_path / "out", **asked)
    pair, record = load_pair(bare, found.path), told(found.path)
    (target,) = adapted(pair.model, pair.table, 1)
    assert target.endswith("value") and moved(pair) == {f"{target}.weight"}
    assert found.trained == record["trained"] == sum(pair.table.shapes[f"{target}.weight"])
    assert record["settings"]["matrices"] == 1

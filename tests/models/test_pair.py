"""Tests of loading: the values are the files' own, the head is the fine-tuned model's, and nothing is invented."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    ModernBertModel,
)

from skillviz.core.architectures import FAMILIES
from skillviz.core.graft import Graft
from skillviz.core.region import Region
from skillviz.errors import BadInput, BadModel, PairMismatch, RandomHead
from skillviz.models import pair as loading
from skillviz.models.applied import applied
from skillviz.models.heads import is_head
from skillviz.models.load import load_model
from skillviz.models.pair import ModelPair, load_pair
from skillviz.models.predict import predict
from skillviz.tasks.task import Files, Task
from tests.models.examples import FITTING, examples, open_pair, some_region
from tests.models.folders import change_config, change_weights, drop
from tests.tiny import tiny_model, tiny_pair, tiny_task, tiny_tokenizer


def stored(pair: ModelPair, folder: Path) -> torch.Tensor:
    """Return the graftable values of the file as one vector in table order, in the file's dtype."""
    prefix = FAMILIES[pair.table.model_type].prefix
    tensors = {name.removeprefix(prefix): t for name, t in load_file(folder / "model.safetensors").items()}
    return torch.cat([tensors[name.removeprefix(prefix)].reshape(-1) for name in pair.table.names])


@pytest.mark.cases(5, 4)
@pytest.mark.parametrize(("family", "readout"), FITTING)
def test_values_are_the_files_own(tmp_path: Path, family: str, readout: str) -> None:
    base, tuned = tiny_pair(tmp_path, family, readout)
    pair = load_pair(base, tuned)
    assert torch.equal(pair.base, stored(pair, base)) and torch.equal(pair.finetuned, stored(pair, tuned))
    assert torch.equal(pair.flat.theta, pair.base)
    assert (pair.d, pair.readout_name, pair.outside) == (len(pair.base), readout, {})
    assert not pair.model.training


@pytest.mark.parametrize("half", ["base", "finetuned"])
def test_a_model_in_several_files_is_the_same_pair_and_takes_the_same_graft(tmp_path: Path, half: str) -> None:
    folders = dict(zip(("base", "finetuned"), tiny_pair(tmp_path), strict=True))
    whole = load_pair(folders["base"], folders["finetuned"])
    region = some_region(whole)
    graft = applied(folders["base"], whole.graft(region, {"task": "tiny"})).model.state_dict()
    shutil.copytree(folders[half], tmp_path / "many", ignore=shutil.ignore_patterns("model.safetensors"))
    shards = split_torch_state_dict_into_shards(load_file(folders[half] / "model.safetensors"), max_shard_size="20KB")
    for name, keys in shards.filename_to_tensors.items():
        tensors = load_file(folders[half] / "model.safetensors")
        save_file({key: tensors[key] for key in keys}, tmp_path / "many" / name, {"format": "pt"})
    index = {"metadata": {}, "weight_map": shards.tensor_to_filename}
    (tmp_path / "many" / "model.safetensors.index.json").write_text(json.dumps(index))
    assert len(shards.filename_to_tensors) > 1
    folders[half] = tmp_path / "many"
    pair = load_pair(folders["base"], folders["finetuned"])
    assert torch.equal(pair.base, whole.base) and torch.equal(pair.finetuned, whole.finetuned)
    again = applied(folders["base"], pair.graft(region, {"task": "tiny"})).model.state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in graft.items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_files_are_loaded_as_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    base, tuned = tiny_pair(tmp_path, dtype=dtype)
    pair = load_pair(base, tuned)
    assert {p.dtype for p in pair.model.parameters()} == {torch.float32}
    assert stored(pair, base).dtype == dtype
    assert torch.equal(pair.base, stored(pair, base).float())


def test_lean_mode_keeps_bfloat16_and_a_float32_movement(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    pair = load_pair(base, tuned, dtype="bfloat16")
    assert {p.dtype for p in pair.model.parameters()} == {torch.bfloat16}
    assert torch.equal(pair.finetuned, stored(pair, tuned).bfloat16())
    problem = pair.problem(examples(tmp_path, pair))
    assert problem.tau.dtype == torch.float32
    assert torch.equal(problem.tau, pair.finetuned.float() - pair.base.float())


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "gpt2", "llama"])
def test_the_head_is_the_fine_tuned_one_in_every_state(tmp_path: Path, family: str) -> None:
    pair = open_pair(tmp_path, family)
    wanted = load_file(tmp_path / "finetuned" / "model.safetensors")
    head = pair.head()
    assert head and all(torch.equal(tensor, wanted[name]) for name, tensor in head.items())
    for state in ("pretrained", "grafted", "complement", "finetuned"):
        with pair.at(state, some_region(pair)):
            assert all(torch.equal(pair.head()[name], wanted[name]) for name in head)


def test_a_base_with_a_head_of_its_own_gets_the_fine_tuned_one(tmp_path: Path) -> None:
    _, tuned = tiny_pair(tmp_path, labels=3)
    base = tmp_path / "with-head"
    tiny_model("bert", "head", labels=2).save_pretrained(base)
    tiny_tokenizer("bert").save_pretrained(base)
    pair = load_pair(base, tuned)
    assert pair.model.config.num_labels == 3
    assert any("classification head of its own" in note for note in pair.notes)
    assert torch.equal(pair.head()["classifier.weight"], load_file(tuned / "model.safetensors")["classifier.weight"])


def test_every_parameter_is_graftable_head_or_the_same_in_both(tmp_path: Path) -> None:
    pair = open_pair(tmp_path, "bert", move_embeddings=False)
    rest = {n for n, _ in pair.model.named_parameters()} - set(pair.table.names) - set(pair.head())
    assert rest and all("embeddings" in name for name in rest)
    assert all(not is_head("bert", name.removeprefix("bert.")) for name in pair.table.names)


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("gpt2", "causal"), ("roberta", "prompt")])
def test_moved_embeddings_are_kept_outside_and_told(tmp_path: Path, family: str, readout: str) -> None:
    pair = open_pair(tmp_path, family, readout, move_embeddings=True)
    assert pair.outside and not set(pair.outside) & (set(pair.table.names) | set(pair.head()))
    assert any("not the fine-tuned model" in note for note in pair.notes)
    named = dict(pair.model.named_parameters())
    for name, (before, after) in pair.outside.items():
        assert not torch.equal(before, after) and torch.equal(named[name], before)


def test_a_moved_lm_head_is_outside(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", "prompt")
    name = "cls.predictions.transform.dense.weight"
    change_weights(tuned, lambda t: {**t, name: t[name] + 1})
    assert list(load_pair(base, tuned).outside) == [name]


def test_tied_weights_count_once(tmp_path: Path) -> None:
    pair = open_pair(tmp_path, "gpt2", "causal", move_embeddings=True)
    assert "transformer.wte.weight" in pair.outside and "lm_head.weight" not in pair.outside
    assert pair.model.lm_head.weight is pair.model.transformer.wte.weight


def test_an_untied_fine_tuned_head_over_a_tied_base(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "gpt2", "causal")
    change_config(tuned, tie_word_embeddings=False)
    change_weights(tuned, lambda t: {**t, "lm_head.weight": t["transformer.wte.weight"] + 1})
    pair = load_pair(base, tuned)
    before, after = pair.outside["lm_head.weight"]
    assert torch.equal(before, pair.model.transformer.wte.weight) and torch.equal(after, before + 1)


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "opt"])
def test_padding_is_set_in_tokenizer_and_model(tmp_path: Path, family: str) -> None:
    pair = open_pair(tmp_path, family)
    wanted = {"gpt2": "<|endoftext|>", "llama": "</s>", "bert": "[PAD]", "opt": "<pad>"}[family]
    assert pair.tokenizer.pad_token == wanted
    assert pair.model.config.pad_token_id == pair.tokenizer.pad_token_id


@pytest.mark.parametrize(("family", "wanted"), [("bert", 48), ("roberta", 46), ("gpt2", 48)])
def test_texts_are_not_longer_than_the_models_positions(tmp_path: Path, family: str, wanted: int) -> None:
    base, tuned = tiny_pair(tmp_path, family)
    table = ("wpe.weight", "position_embeddings.weight")
    for folder in (base, tuned):
        change_config(folder, **{"n_positions" if family == "gpt2" else "max_position_embeddings": 48})
        change_weights(folder, lambda tensors: {n: t[:48] if n.endswith(table) else t for n, t in tensors.items()})
    assert load_pair(base, tuned).tokenizer.model_max_length == wanted


def test_only_graftable_parameters_get_gradients(tmp_path: Path) -> None:
    pair = open_pair(tmp_path, "bert")
    problem = pair.problem(examples(tmp_path, pair))
    problem.train.backward()
    trained = {name for name, p in pair.model.named_parameters() if p.requires_grad}
    assert trained == set(pair.table.names)
    assert float(pair.flat.grad.abs().sum()) > 0


def test_the_random_state_is_left_alone(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    before = torch.random.get_rng_state()
    load_pair(base, tuned)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_loading_says_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    base, tuned = tiny_pair(tmp_path)
    capfd.readouterr()
    load_pair(base, tuned)
    assert capfd.readouterr() == ("", "")


def test_identical_models_hold_no_skill(tmp_path: Path) -> None:
    base, _ = tiny_pair(tmp_path, "bert", "prompt")
    copy = shutil.copytree(base, tmp_path / "copy")
    with pytest.raises(PairMismatch, match="identical in every graftable parameter"):
        load_pair(base, copy)


def test_what_only_loading_finds_missing(tmp_path: Path) -> None:
    """Check tensors that no table lists: an unknown part of a head, or one that both members lack."""
    base, tuned = tiny_pair(tmp_path, "bert", "prompt")
    drop(tuned, "cls.predictions.transform.LayerNorm.bias")
    with pytest.raises(RandomHead, match="LayerNorm.bias"):
        load_pair(base, tuned)
    drop(base, "cls.predictions.transform.LayerNorm.bias")
    other = tiny_pair(tmp_path / "whole", "bert", "prompt")[1]
    with pytest.raises(RandomHead, match="the base 'base' has no"):
        load_pair(base, other)


def test_preflight_speaks_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, tuned = tiny_pair(tmp_path)
    drop(tuned, "classifier.weight")
    monkeypatch.setattr(loading, "load_model", lambda *a, **k: pytest.fail("weights were read"))
    with pytest.raises(RandomHead):
        load_pair(base, tuned)


@pytest.mark.parametrize("dtype", ["float16", "fp32", "float64"])
def test_an_unknown_dtype(dtype: str) -> None:
    with pytest.raises(BadInput, match="allowed: float32, bfloat16"):
        load_pair("a", "b", dtype=dtype)


@pytest.mark.parametrize(
    "changes", [{"model_type": "albatross"}, {"hidden_act": "nothing"}, {"num_attention_heads": 5}]
)
def test_a_configuration_that_makes_no_model_is_one_sentence(tmp_path: Path, changes: dict[str, Any]) -> None:
    _, tuned = tiny_pair(tmp_path)
    change_config(tuned, **changes)
    with pytest.raises(BadModel, match="cannot be opened for the head readout") as caught:
        load_model(tuned, "head")
    assert "\n" not in str(caught.value)


def test_code_of_a_model_is_not_run(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    for folder in (base, tuned):
        change_config(folder, auto_map={"AutoModelForSequenceClassification": "evil.Model", "AutoConfig": "evil.C"})
        (folder / "evil.py").write_text("raise SystemExit('ran')")
    assert load_pair(base, tuned).d > 0


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("llama", "head"), ("gpt2", "causal")])
def test_a_graft_carries_values_head_and_origin(tmp_path: Path, family: str, readout: str) -> None:
    pair = open_pair(tmp_path, family, readout)
    region = some_region(pair)
    pair.graft(region, {"task": "mine"}).save(tmp_path / "graft.safetensors")
    graft = Graft.load(tmp_path / "graft.safetensors")
    flat = torch.cat([graft.values[name] for name in region.indices])
    assert graft.region == region and torch.equal(flat, pair.finetuned[torch.from_numpy(region.flat())])
    assert graft.head.keys() == pair.head().keys() and bool(graft.head) == (readout == "head")
    assert graft.header["base"] == pair.base_info.identity()
    assert (graft.header["readout"], graft.header["task"], graft.header["model_type"]) == (readout, "mine", family)
    assert str(tmp_path) not in str(graft.header)


def test_the_full_graft_on_the_base_is_the_fine_tuned_model(tmp_path: Path) -> None:
    pair = open_pair(tmp_path)
    graft = pair.graft(Region.full(pair.table.shapes))
    graft.apply(pair.model)
    tuned = AutoModelForSequenceClassification.from_pretrained(tmp_path / "finetuned", dtype=torch.float32)
    ours = pair.model.state_dict()
    assert all(torch.equal(ours[name], tensor) for name, tensor in tuned.state_dict().items())


def test_the_task_may_be_its_file(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    assert load_pair(base, tuned, task=str(tiny_task(tmp_path / "two")), device="cpu").d > 0
    with pytest.raises(PairMismatch, match="has 2 labels"):
        load_pair(base, tuned, task=tiny_task(tmp_path / "three", labels=3), device="cpu")


def test_classes_are_matched_by_name(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, labels=3)
    pair = load_pair(base, tuned, device="cpu")
    encoded = examples(tmp_path, pair, labels=3)
    mine = Task(name="mine", data=Files(train="a.csv", test="b.csv"), text=("text",), labels=("no", "maybe", "yes"))
    plain = predict(pair, encoded, "finetuned")
    change_config(tuned, id2label={"0": "YES", "1": "No", "2": "maybe"})
    pair = load_pair(base, tuned, task=mine, device="cpu")
    assert pair.class_order == (1, 2, 0)
    assert (predict(pair, encoded, "finetuned") == plain[:, [1, 2, 0]]).all()
    change_config(tuned, id2label={"0": "No", "1": "maybe", "2": "yes"})
    pair = load_pair(base, tuned, task=mine, device="cpu")
    assert pair.class_order is None and (predict(pair, encoded, "finetuned") == plain).all()


@pytest.mark.gpu
def test_a_pair_on_a_gpu(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    pair = load_pair(base, tuned, device="cuda")
    assert {t.device.type for t in (pair.base, pair.finetuned, pair.flat.theta)} == {"cuda"}
    assert torch.equal(pair.base.cpu(), stored(pair, base))


def test_a_bare_base_of_an_architecture_without_a_row_gets_the_whole_fine_tuned_head(tmp_path: Path) -> None:
    """ModernBERT's head has a dense layer and a norm before its classifier, and the base's file has none of them."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    special = {f"{name}_token_id": 0 for name in ("bos", "eos", "cls", "sep", "pad")}
    config = ModernBertConfig(vocab_size=len(tiny_tokenizer("bert")), **sizes, **special)
    base, tuned = tmp_path / "base", tmp_path / "tuned"
    ModernBertModel(config).save_pretrained(base)
    ModernBertForSequenceClassification(config).save_pretrained(tuned)
    for folder in (base, tuned):
        tiny_tokenizer("bert").save_pretrained(folder)
    pair = load_pair(base, tuned)
    assert {name.split(".")[0] for name in pair.head()} == {"head", "classifier"}
    own = load_file(tuned / "model.safetensors")
    assert all(torch.equal(value, own[name]) for name, value in pair.head().items())


def test_equal_members_are_a_pair_only_where_that_is_asked_for(tmp_path: Path) -> None:
    base, _ = tiny_pair(tmp_path)
    shutil.copytree(base, tmp_path / "same")
    make_head(tmp_path / "same")
    with pytest.raises(PairMismatch, match="identical in every graftable parameter"):
        load_pair(base, tmp_path / "same")
    pair = load_pair(base, tmp_path / "same", is_graft=True)
    assert torch.equal(pair.base, pair.finetuned)


def make_head(folder: Path) -> None:
    """Turn the folder's bare body into a classifier with a head."""
    AutoModelForSequenceClassification.from_pretrained(folder).save_pretrained(folder)

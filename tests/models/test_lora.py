"""Tests of LoRA checkpoints as the fine-tuned member: merged exactly like in peft, refused if they do not fit."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

from skillviz.errors import BadModel, PairMismatch, RandomHead
from skillviz.models import lora
from skillviz.models.load import load_model
from skillviz.models.pair import ModelPair, load_pair
from skillviz.models.preflight import preflight
from skillviz.tasks.registry import task
from tests.tiny import tiny_pair, tiny_task

TARGETS = {"bert": ["query", "value"], "gpt2": ["c_attn"], "llama": ["q_proj", "v_proj"], "roberta": ["query"]}


def adapter(
    folder: Path, base: Path, family: str, kind: str | None = "SEQ_CLS", labels: int = 3, **options: Any
) -> Path:
    """Save a LoRA checkpoint on the base, with random low-rank pairs and a head of `labels` classes."""
    settings: dict[str, Any] = {"r": 2, "target_modules": TARGETS[family], "fan_in_fan_out": family == "gpt2"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        joined = get_peft_model(_model(base, kind, labels), LoraConfig(task_type=kind, **{**settings, **options}))
        for name, parameter in joined.named_parameters():
            if ".lora_" in name:
                parameter.data.normal_(0, 0.2)
    joined.peft_config["default"].base_model_name_or_path = str(base)
    joined.save_pretrained(folder)
    return folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a tiny RoBERTa."""
    return tiny_pair(tmp_path, "roberta")[0]


@pytest.fixture
def folder(tmp_path: Path, base: Path) -> Path:
    """Return an adapter on it, of a classifier with three labels."""
    return adapter(tmp_path / "lora", base, "roberta")


def merged(base: Path, folder: Path, readout: str, **changes: Any) -> dict[str, torch.Tensor]:
    """Return the state dict that peft itself gives."""
    joined = PeftModel.from_pretrained(load_model(base, readout, changes=changes).model, str(folder))
    return joined.merge_and_unload().state_dict()


def is_merged(pair: ModelPair, wanted: dict[str, torch.Tensor]) -> bool:
    """Return whether the fine-tuned state has these tensors, bit for bit."""
    with pair.at("finetuned"):
        ours = pair.model.state_dict()
        return all(torch.equal(ours[name], tensor) for name, tensor in wanted.items())


def change_adapter(folder: Path, **changes: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("family", ["roberta", "gpt2", "llama"])
def test_a_classifier_is_merged_with_its_head(tmp_path: Path, family: str) -> None:
    base, _ = tiny_pair(tmp_path, family)
    folder = adapter(tmp_path / "lora", base, family)
    pair = load_pair(base, folder)
    assert (pair.readout_name, pair.model.config.num_labels) == ("head", 3)
    assert any("LoRA adapter of rank 2" in note for note in pair.notes)
    wanted = merged(base, folder, "head", num_labels=3)
    assert is_merged(pair, wanted)
    moved = {name for name in pair.table.names if not torch.equal(wanted[name], pair.model.get_parameter(name))}
    assert moved and all(any(t in name for t in TARGETS[family]) for name in moved)


@pytest.mark.parametrize(("family", "kind", "readout"), [("gpt2", "CAUSAL_LM", "causal"), ("bert", None, "prompt")])
def test_language_models_are_merged(tmp_path: Path, family: str, kind: str | None, readout: str) -> None:
    base, _ = tiny_pair(tmp_path, family, readout)
    folder = adapter(tmp_path / "lora", base, family, kind)
    pair = load_pair(base, folder)
    assert pair.readout_name == readout and pair.outside == {}
    assert is_merged(pair, merged(base, folder, readout))


def test_an_fp16_base_is_merged_in_float32(tmp_path: Path) -> None:
    base, _ = tiny_pair(tmp_path, "roberta", base_dtype=torch.float16)
    folder = adapter(tmp_path / "lora", base, "roberta")
    pair = load_pair(base, folder)
    assert is_merged(pair, merged(base, folder, "head", num_labels=3))
    lean = load_pair(base, folder, dtype="bfloat16")
    assert torch.equal(lean.finetuned, pair.finetuned.bfloat16())


def test_preflight_counts_the_adapters_labels(tmp_path: Path, base: Path, folder: Path) -> None:
    check = preflight(base, folder, task(tiny_task(tmp_path / "task")))
    assert check.labels == 3 and "has 3 labels" in check.problems[0]


def test_the_adapter_of_another_base(tmp_path: Path, base: Path) -> None:
    other, _ = tiny_pair(tmp_path / "b", "roberta", seed=5)
    folder = adapter(tmp_path / "lora", other, "roberta")
    assert isinstance(preflight(base, folder).errors[0], PairMismatch)
    with pytest.raises(PairMismatch, match="was trained on 'base'"):
        load_pair(base, folder)
    # A copy of the same weights under another name is the same base.
    copy = shutil.copytree(other, tmp_path / "copied")
    assert preflight(copy, folder).fits


@pytest.mark.cases(2, 5)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/not/on/this/machine", "was trained on 'machine', which could not be compared with 'base'"),
        (None, "does not say which base it was trained on"),
        ("org/machine", "was trained on 'machine', which"),
        ("machine", "was trained on 'machine', which"),
        ("y" * 300 + "/machine", "was trained on 'machine', which could not be compared"),
        ("/elsewhere/base", "was trained on 'base', in another place, which could not be compared with 'base'"),
        ("org/base", "was trained on 'base', in another place, which could not be compared with 'base'"),
    ],
)
def test_a_base_that_cannot_be_compared_is_accepted_where_shapes_fit_and_a_note_says_so(
    base: Path, folder: Path, name: str | None, words: str
) -> None:
    change_adapter(folder, base_model_name_or_path=name)
    assert preflight(base, folder).fits
    assert any(words in note for note in load_pair(base, folder).notes)


def cached(folder: Path, hub_id: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder as a snapshot of the hub's local cache."""
    root = folder.parent / "hub" / f"models--{hub_id.replace('/', '--')}"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(root.parent))
    commit = "a" * 40
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text(commit)
    return Path(shutil.copytree(folder, root / "snapshots" / commit))


def test_a_base_in_the_hubs_cache_is_compared_by_its_weights(
    tmp_path: Path, base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, _ = tiny_pair(tmp_path / "b", "roberta", seed=5)
    change_adapter(folder, base_model_name_or_path="org/name")
    cached(base, "org/name", monkeypatch)
    check = preflight(base, folder)
    assert check.fits and not any("trained on" in note for note in check.notes)
    words = "was trained on 'name', not on 'base'"
    assert words in preflight(other, folder).problems[0]


def test_a_half_precision_copy_is_the_same_base(tmp_path: Path, base: Path, folder: Path) -> None:
    half, _ = tiny_pair(tmp_path / "b", "roberta", base_dtype=torch.float16)
    moved, _ = tiny_pair(tmp_path / "c", "roberta", base_dtype=torch.float16, seed=3)
    wide, _ = tiny_pair(tmp_path / "d", "roberta", base_dtype=torch.bfloat16)
    assert preflight(half, folder).fits
    assert "not on 'base'" in preflight(moved, folder).problems[0]
    wide = wide.rename(wide.parent / "wide")
    check = preflight(wide, folder)  # numpy has no bfloat16
    assert check.fits and any("could not be compared with 'wide'" in note for note in check.notes)


def test_a_hub_base_with_another_id(tmp_path: Path, base: Path) -> None:
    base = Path(shutil.copytree(base, tmp_path / "models--org--name" / "snapshots" / "abc"))
    folder = adapter(tmp_path / "lora", base, "roberta")
    change_adapter(folder, base_model_name_or_path="org/other")
    assert "was trained on 'other', not on 'org/name'" in preflight(base, folder).problems[0]
    change_adapter(folder, base_model_name_or_path="org/name")
    assert preflight(base, folder).fits


@pytest.mark.parametrize(("family", "words"), [("gpt2", "the base has no"), ("roberta", "in the adapter")])
def test_an_adapter_for_other_shapes(tmp_path: Path, base: Path, family: str, words: str) -> None:
    other, _ = tiny_pair(tmp_path / "b", family)
    folder = adapter(tmp_path / "lora", other, family)
    change_adapter(folder, base_model_name_or_path="/elsewhere")
    if family == "roberta":
        path = folder / "adapter_model.safetensors"
        save_file({n: torch.cat([t, t]) if "lora_B" in n else t for n, t in load_file(path).items()}, path)
    problem = preflight(base, folder).problems[0]
    assert "does not fit the base" in problem and words in problem


def test_an_adapter_without_its_head(base: Path, folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    save_file({n: t for n, t in load_file(path).items() if "classifier" not in n}, path)
    with pytest.raises(RandomHead, match="modules_to_save"):
        load_pair(base, folder)


def test_a_pooler_that_neither_has_is_refused(tmp_path: Path) -> None:
    """BERT's classifier uses the pooler, which peft does not save with the head."""
    base, _ = tiny_pair(tmp_path, "bert", "prompt")
    folder = adapter(tmp_path / "lora", base, "bert")
    with pytest.raises(RandomHead, match=r"pooler\.dense\.weight"):
        load_pair(base, folder)


def test_a_pooler_saved_by_the_adapter_is_used(tmp_path: Path) -> None:
    base, _ = tiny_pair(tmp_path, "bert", "prompt")
    folder = adapter(tmp_path / "lora", base, "bert", modules_to_save=["pooler", "classifier"])
    pair = load_pair(base, folder)
    saved = merged(base, folder, "head", num_labels=3)["bert.pooler.dense.weight"]
    assert torch.equal(pair.head()["bert.pooler.dense.weight"], saved)


@pytest.mark.parametrize("kind", ["IA3", "PROMPT_TUNING", None])
def test_only_lora(base: Path, folder: Path, kind: str | None) -> None:
    change_adapter(folder, peft_type=kind)
    assert any("only LORA can be merged" in problem for problem in preflight(base, folder).problems)


def test_tokens_added_to_an_adapter_are_refused_before_it_is_merged(tmp_path: Path) -> None:
    base, _ = tiny_pair(tmp_path, "llama")
    folder = adapter(tmp_path / "lora", base, "llama", modules_to_save=["score", "embed_tokens"])
    assert preflight(base, folder).fits
    path = folder / "adapter_model.safetensors"
    save_file({n: torch.cat([t, t[:2]]) if "embed" in n else t for n, t in load_file(path).items()}, path)
    (problem,) = preflight(base, folder).problems
    assert "'embed_tokens.weight' is (" in problem and "merge_and_unload" in problem


def test_a_quantized_base_cannot_be_compared_with_its_conversion(tmp_path: Path, base: Path, folder: Path) -> None:
    other = tiny_pair(tmp_path / "b", "roberta", seed=5)[0].rename(tmp_path / "quantized")
    change_adapter(folder, base_model_name_or_path=str(other))
    assert "was trained on" in preflight(base, folder).problems[0]
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "bitsandbytes"}}))
    check = preflight(base, folder)
    assert check.fits and any("could not be compared" in note for note in check.notes)


def test_an_adapter_is_no_base(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "roberta")
    folder = adapter(tmp_path / "lora", base, "roberta")
    with pytest.raises(BadModel, match="is a LoRA adapter"):
        preflight(folder, tuned)


@pytest.mark.parametrize("sharded", [False, True])
def test_an_adapter_beside_a_whole_model_is_refused(tmp_path: Path, sharded: bool) -> None:
    base, tuned = tiny_pair(tmp_path, "roberta")
    shutil.copy(adapter(tmp_path / "lora", base, "roberta") / "adapter_config.json", tuned)
    if sharded:
        (tuned / "model.safetensors").rename(tuned / "model-00001-of-00001.safetensors")
        (tuned / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(BadModel, match="a whole model and an adapter"):
        preflight(base, tuned)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_token_classifier_is_merged_with_its_linear_head(tmp_path: Path, family: str) -> None:
    base, _ = tiny_pair(tmp_path, family)
    folder = adapter(tmp_path / "lora", base, family, "TOKEN_CLS")
    found = preflight(base, folder)
    assert found.linear and found.labels == 3 and any("bare linear layer" in note for note in found.notes)
    pair = load_pair(base, folder)
    joined = PeftModel.from_pretrained(_model(base, "TOKEN_CLS", 3), str(folder)).merge_and_unload().eval()
    with pair.at("finetuned"), torch.inference_mode():
        ids = torch.tensor([[2, 5, 7, 3]])
        assert torch.allclose(pair.model(ids).logits, joined(ids).logits, atol=1e-6)


SLOW = {
    "target_modules": "^(.+)+!$",
    "exclude_modules": "(.|.)" * 40 + "!",
    "layers_pattern": ["(.+)+!"],
    "rank_pattern": {"(.+)+!": 2},
    "alpha_pattern": {".*" * 9 + "!": 2},
}
WRONG: dict[str, list[Any]] = {
    "r": ["2", 0, True, 1.5, None, 10**9],
    "lora_alpha": ["x", None, float("inf"), 10**400],
    "lora_dropout": ["x", 2],
    "bias": ["x"],
    "target_modules": ["(", "[z-a]", "(" * 5_000, "(?:(?:){60000}){60000}", [1], ["(.+)+"], 5],
    "rank_pattern": [[1], {"query": "2"}, {"(": 2}, None],
    "alpha_pattern": [{"(": 2}, {"query": None}],
    "layers_to_transform": ["x", [1.5], [-1]],
    "layers_pattern": [[1]],
    "modules_to_save": ["classifier", ["(.+)+"]],
    "trainable_token_indices": ["x", [-1], {"(": [1]}, {"word_embeddings": 1}],
    "init_lora_weights": ["loftq", "eva", "corda", "lora_ga", "pissa_niter_1000000", [1]],
    "use_dora": ["no"],
    "task_type": [[1]],
}


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("name", SLOW)
def test_patterns_that_take_too_long_to_match_are_refused(
    base: Path, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_adapter(folder, **{name: SLOW[name]})
    monkeypatch.setattr(lora, "SECONDS", 0.5)
    problem = preflight(base, folder).problems[0]
    assert problem.startswith(f"'{name}' of the adapter 'lora' cannot be used: ")
    assert "it takes more than 0.5 seconds" in problem and "merge_and_unload" in problem


def test_patterns_are_tried_again_with_the_names_that_the_headers_lack(
    base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_adapter(folder, exclude_modules=r"(?=.*self\.dropout)(.+)+!")
    monkeypatch.setattr(lora, "SECONDS", 1)
    assert preflight(base, folder).fits
    with pytest.raises(BadModel, match="'exclude_modules' of the adapter 'lora' cannot be used: .*more than 1 seconds"):
        load_pair(base, folder)


def test_lists_and_names_need_no_process(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = adapter(tmp_path / "lora", base, "roberta", rank_pattern={"layer.0.attention.self.query": 3})
    monkeypatch.setattr(lora, "TRIAL", "raise SystemExit(1)")
    assert preflight(base, folder).fits
    change_adapter(folder, target_modules=".*query")
    assert "'.*query' cannot be matched with the names of the base's modules (status 1)" in str(
        preflight(base, folder).errors[0]
    )


@pytest.mark.cases(3, 12)
@pytest.mark.parametrize(
    ("name", "value"), [(n, v) for n in WRONG for v in WRONG[n]], ids=lambda value: str(value)[:20]
)
def test_settings_that_peft_cannot_take_are_refused_alike_before_and_at_load(
    base: Path, folder: Path, name: str, value: Any
) -> None:
    change_adapter(folder, **{name: value})
    problem = preflight(base, folder).problems[0]
    assert f"'{name}' of the adapter 'lora' cannot be used: " in problem and "merge_and_unload" in problem
    assert len(problem) < 500 and "_pattern_mismatch" not in problem
    with pytest.raises(BadModel) as refusal:
        load_pair(base, folder)
    assert refusal.value.args[0] == problem


@pytest.mark.cases(6, 4)
@pytest.mark.parametrize("name", lora.FOREIGN)
def test_other_kinds_of_lora_are_refused_where_they_are_set(base: Path, folder: Path, name: str) -> None:
    change_adapter(folder, **{name: None})
    assert preflight(base, folder).fits
    change_adapter(folder, **{name: {"odd": [1]}})
    assert f"sets '{name}', which is not supported" in preflight(base, folder).problems[0]


def test_each_setting_of_peft_is_read_refused_or_left_out() -> None:
    listed = [*lora._Settings.model_fields, *lora.FOREIGN, *lora.UNREAD]
    assert sorted(field.name for field in dataclasses.fields(LoraConfig)) == sorted(listed)


def test_settings_that_are_not_known_are_noted_and_not_used(base: Path, folder: Path) -> None:
    assert not any("not known here" in note for note in preflight(base, folder).notes)
    wanted = merged(base, folder, "head", num_labels=3)
    change_adapter(folder, auto_mapping={"parent_library": "os"}, later_kind=True, megatron_core="os")
    assert "The adapter 'lora' has settings that are not known here and not used: later_kind." in (
        preflight(base, folder).notes
    )
    assert is_merged(load_pair(base, folder), wanted)  # peft would warn of the setting if it read the file


def test_ranks_and_tokens_beyond_the_files_are_refused(base: Path, folder: Path) -> None:
    change_adapter(folder, rank_pattern={"query": 100_000})
    assert "sets the rank 100,000, and its matrices have at most 2" in preflight(base, folder).problems[0]
    change_adapter(folder, rank_pattern={}, trainable_token_indices=[1_000_000_000])
    assert "names the token 1000000000" in preflight(base, folder).problems[0]
    change_adapter(folder, trainable_token_indices={"word_embeddings": [1, 1_000_000_000]})
    assert "names the token 1000000000" in preflight(base, folder).problems[0]


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize(
    "pattern",
    [
        r".*\.(query|value)$",
        r".*\.layer\.\d+\.attention\.self\.(?:query|value)",
        r"^.*layer\.(0|1|2|3)\..*\.(query|value)$",
        r"(?i).*\.LAYER\.\d{1,2}\.attention\.self\.(?!key)\w{5}",
        r"^(\w+\.)+(query|value)$",
        r".*\.[0-9]+\.(attention\.(self|x)|mlp)\.(query|value)",
    ],
)
def test_patterns_that_are_quick_to_match_are_merged(tmp_path: Path, base: Path, pattern: str) -> None:
    options: dict[str, Any] = {"target_modules": pattern, "rank_pattern": {r"layer\.0\..*query": 3}, "use_dora": True}
    folder = adapter(tmp_path / "lora", base, "roberta", alpha_pattern={"value": 1.5}, **options)
    pair = load_pair(base, folder)
    assert is_merged(pair, merged(base, folder, "head", num_labels=3))


@pytest.mark.parametrize("kind", [TypeError, AttributeError, IndexError, re.error])
def test_what_peft_raises_is_one_sentence(base: Path, folder: Path, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PeftModel, "from_pretrained", Mock(side_effect=kind("odd")))
    with pytest.raises(BadModel, match="'lora' cannot be merged into 'base': odd. Merge it"):
        load_pair(base, folder)


def _model(base: Path, kind: str | None, labels: int) -> Any:
    """Return the base with the head that an adapter of this task type is trained with."""
    readout = {"SEQ_CLS": "head", "TOKEN_CLS": "head", "CAUSAL_LM": "causal", None: "prompt"}[kind]
    changes = {"num_labels": labels} if readout == "head" else {}
    return load_model(base, readout, changes=changes, linear=kind == "TOKEN_CLS").model

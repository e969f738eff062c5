"""Tests of LoRA checkpoints as the fine-tuned member: merged exactly like in peft, refused if they do not fit."""

import dataclasses
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from skillviz.errors import BadModel, PairMismatch, RandomHead
from skillviz.models import lora
from tests.models.conftest import usually
from tests.models.examples import (
    ModelPair,
    change_config,
    change_json,
    change_weights,
    differing,
    load_model,
    load_pair,
    preflight,
    refuses,
    state_of,
    task,
    tiny_pair,
    tiny_task,
)

FILE = "adapter_model.safetensors"
TARGETS = {"bert": ["query", "value"], "gpt2": ["c_attn"], "llama": ["q_proj", "v_proj"], "roberta": ["query"]}


def opened(base: Path, kind: str | None = "SEQ_CLS") -> Any:
    """Return the base with the head, of three labels, that an adapter of this task type is trained with."""
    readout = {"CAUSAL_LM": "causal", None: "prompt"}.get(kind, "head")
    changes = {"num_labels": 3} if readout == "head" else {}
    return load_model(base, readout, changes=changes, linear=kind == "TOKEN_CLS").model


def adapter(folder: Path, base: Path, family: str = "roberta", kind: str | None = "SEQ_CLS", **options: Any) -> Path:
    """Save a LoRA checkpoint on the base, with random low-rank pairs."""
    settings: dict[str, Any] = {"r": 2, "target_modules": TARGETS[family], "fan_in_fan_out": family == "gpt2"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        joined = get_peft_model(opened(base, kind), LoraConfig(task_type=kind, **{**settings, **options}))
        for parameter in (p for name, p in joined.named_parameters() if ".lora_" in name):
            parameter.data.normal_(0, 0.2)
    joined.peft_config["default"].base_model_name_or_path = str(base)
    joined.save_pretrained(folder)
    return folder


family, kind, settings = map(usually, ("roberta", "SEQ_CLS", {}))


@pytest.fixture
def folder(tmp_path: Path, base: Path, family: str, kind: str | None, settings: dict[str, Any]) -> Path:
    """Return an adapter on the base."""
    return adapter(tmp_path / "lora", base, family, kind, **settings)


def merged(base: Path, folder: Path, kind: str | None = "SEQ_CLS") -> dict[str, torch.Tensor]:
    """Return the state dict that peft itself gives."""
    return PeftModel.from_pretrained(opened(base, kind), str(folder)).merge_and_unload().state_dict()


def wrong(pair: ModelPair, wanted: dict[str, torch.Tensor]) -> set[str]:
    """Return the names of these tensors that the fine-tuned state has not, bit for bit."""
    ours = state_of(pair, "finetuned")
    return differing({name: ours[name] for name in wanted}, wanted)


def change_adapter(folder: Path, **changes: Any) -> None:
    change_json(folder / "adapter_config.json", **changes)


@pytest.mark.cases(3, 2)
@pytest.mark.parametrize(
    ("family", "readout", "kind"),
    [
        ("roberta", "head", "SEQ_CLS"),
        ("gpt2", "causal", "CAUSAL_LM"),
        ("gpt2", "head", "SEQ_CLS"),
        ("bert", "prompt", None),
        ("llama", "head", "SEQ_CLS"),
    ],
)
def test_an_adapter_is_merged_with_its_head(
    base: Path, folder: Path, family: str, readout: str, kind: str | None
) -> None:
    pair, wanted = load_pair(base, folder), merged(base, folder, kind)
    assert (pair.readout_name, pair.outside, wrong(pair, wanted)) == (readout, {}, set())
    assert readout != "head" or pair.model.config.num_labels == 3
    assert any("LoRA adapter of rank 2" in note for note in pair.notes)
    moved = {name for name in pair.table.names if not torch.equal(wanted[name], pair.model.get_parameter(name))}
    assert moved and [name for name in moved if not any(target in name for target in TARGETS[family])] == []


@pytest.mark.parametrize("options", [{"base_dtype": torch.float16}], ids=["float16"])
def test_an_fp16_base_is_merged_in_float32(base: Path, folder: Path) -> None:
    pair, lean = load_pair(base, folder), load_pair(base, folder, dtype="bfloat16")
    assert not wrong(pair, merged(base, folder)) and torch.equal(lean.finetuned, pair.finetuned.bfloat16())


def test_preflight_counts_the_adapters_labels(tmp_path: Path, base: Path, folder: Path) -> None:
    check = preflight(base, folder, task(tiny_task(tmp_path / "task")))
    assert check.labels == 3 and "has 3 labels" in check.problems[0]


def quantized(folder: Path) -> Path:
    base = BASES["other"](folder).rename(folder / "quantized")
    change_config(base, quantization_config={"quant_method": "bitsandbytes"})
    return base


BASES: dict[str, Callable[[Path], Path]] = {
    "itself": lambda folder: folder / "base",
    "other": lambda folder: tiny_pair(folder / "other", "roberta", seed=5)[0],
    "copied": lambda folder: shutil.copytree(folder / "base", folder / "copied"),
    "half": lambda folder: tiny_pair(folder / "half", "roberta", base_dtype=torch.float16)[0],
    "moved": lambda folder: tiny_pair(folder / "moved", "roberta", base_dtype=torch.float16, seed=3)[0],
    "wide": lambda folder: tiny_pair(folder / "w", "roberta", base_dtype=torch.bfloat16)[0].rename(folder / "wide"),
    "org/name": lambda folder: shutil.copytree(folder / "base", folder / "models--org--name" / "snapshots" / "abc"),
    "quantized": quantized,
}


@pytest.mark.parametrize(
    ("trained", "given", "fits", "words"),
    [
        ("other", "itself", False, "was trained on 'base'"),
        ("other", "copied", False, "was trained on 'base', not on 'copied'"),
        ("itself", "itself", True, None),
        ("itself", "copied", True, None),  # the same weights under another name are the same base
        # the same name, which does not prove the same weights
        ("org/base", "itself", True, "could not be compared with 'base'"),
        ("/gone/base", "itself", True, "could not be compared with 'base'"),
        *((name, "itself", True, "does not say which base it was trained on") for name in ("", None)),
        ("itself", "half", True, None),
        ("itself", "moved", False, "not on 'base'"),
        ("itself", "wide", True, "could not be compared with 'wide'"),  # numpy has no bfloat16
        ("quantized", "itself", True, "could not be compared"),
        ("org/other", "org/name", False, "was trained on 'other', not on 'org/name'"),
        ("org/name", "org/name", True, None),
        ("org/cached", "itself", True, None),  # the hub's cache has its weights
        ("org/cached", "other", False, "was trained on 'cached', not on 'base'"),
    ],
)
def test_the_base_of_an_adapter_is_compared_by_its_weights(
    tmp_path: Path, folder: Path, monkeypatch: Any, trained: str | None, given: str, fits: bool, words: str | None
) -> None:
    cache = tmp_path / "hub" / "models--org--cached"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache.parent))
    shutil.copytree(tmp_path / "base", cache / "snapshots" / ("a" * 40))
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("a" * 40)
    name = str(BASES[trained](tmp_path)) if trained in BASES and "/" not in trained else trained
    change_adapter(folder, base_model_name_or_path=name)
    check = preflight(BASES[given](tmp_path), folder)
    said = check.problems or [note for note in check.notes if re.search("trained on|could not be compared", note)]
    assert [type(error) for error in check.errors] == ([] if fits else [PairMismatch]), check.problems
    assert [bool(re.search(words or "", one)) for one in said] == ([] if words is None else [True])
    assert "/gone" not in "".join(said), "a path of another machine says nothing"


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
    assert any(words in note for note in load_pair(base, folder).notes)


@pytest.mark.parametrize(
    ("family", "words", "change"),
    [
        ("gpt2", "the base has no", dict),
        ("roberta", "in the adapter", lambda t: {n: torch.cat([v, v]) if "lora_B" in n else v for n, v in t.items()}),
    ],
    ids=["gpt2", "roberta"],
)
def test_an_adapter_for_other_shapes(tmp_path: Path, folder: Path, words: str, change: Any) -> None:
    change_adapter(folder, base_model_name_or_path="/elsewhere")
    change_weights(folder, change, FILE)
    base, _ = tiny_pair(tmp_path / "b", "roberta")
    assert re.search(f"does not fit the base.*{words}", preflight(base, folder).problems[0])


@pytest.mark.parametrize(
    ("family", "readout", "dropped", "words"),
    [
        ("roberta", "head", "classifier", "modules_to_save"),
        # BERT's classifier uses the pooler, which peft does not save with the head.
        ("bert", "prompt", "nothing", r"pooler\.dense\.weight"),
    ],
)
def test_a_part_of_the_head_that_neither_has_is_refused(base: Path, folder: Path, dropped: str, words: str) -> None:
    change_weights(folder, lambda tensors: {n: t for n, t in tensors.items() if dropped not in n}, FILE)
    refuses(RandomHead, words, load_pair, base, folder)


@pytest.mark.parametrize("settings", [{"modules_to_save": ["pooler", "classifier"]}])
@pytest.mark.parametrize(("family", "readout"), [("bert", "prompt")])
def test_a_pooler_saved_by_the_adapter_is_used(base: Path, folder: Path) -> None:
    name = "bert.pooler.dense.weight"
    assert torch.equal(load_pair(base, folder).head()[name], merged(base, folder)[name])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({"peft_type": kind}, "only LORA can be merged") for kind in ("IA3", "PROMPT_TUNING", None)),
        ({"rank_pattern": {"query": 100_000}}, "sets the rank 100,000, and its matrices have at most 2"),
        *(({"trainable_token_indices": tokens}, "names the token 1000000000")
          for tokens in ([1_000_000_000], {"word_embeddings": [1, 1_000_000_000]})),
    ],
)  # fmt: skip
def test_other_adapters_ranks_and_tokens_beyond_the_files_are_refused(
    base: Path, folder: Path, changes: dict[str, Any], words: str
) -> None:
    change_adapter(folder, **changes)
    assert words in preflight(base, folder).problems[0]


@pytest.mark.parametrize(("family", "settings"), [("llama", {"modules_to_save": ["score", "embed_tokens"]})])
def test_tokens_added_to_an_adapter_are_refused_before_it_is_merged(base: Path, folder: Path) -> None:
    assert preflight(base, folder).fits
    change_weights(folder, lambda t: {n: torch.cat([v, v[:2]]) if "embed" in n else v for n, v in t.items()}, FILE)
    (problem,) = preflight(base, folder).problems
    assert "'embed_tokens.weight' is (" in problem and "merge_and_unload" in problem


def test_an_adapter_is_no_base(folder: Path, tuned: Path) -> None:
    refuses(BadModel, "is an adapter", preflight, folder, tuned)


@pytest.mark.parametrize("sharded", [False, True])
def test_an_adapter_beside_a_whole_model_is_refused(base: Path, tuned: Path, folder: Path, sharded: bool) -> None:
    shutil.copy(folder / "adapter_config.json", tuned)
    if sharded:
        (tuned / "model.safetensors").rename(tuned / "model-00001-of-00001.safetensors")
        (tuned / "model.safetensors.index.json").write_text("{}")
    refuses(BadModel, "a whole model and an adapter", preflight, base, tuned)


@pytest.mark.parametrize("kind", ["TOKEN_CLS"])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_token_classifier_is_merged_with_its_linear_head(base: Path, folder: Path) -> None:
    found, pair, ids = preflight(base, folder), load_pair(base, folder), torch.tensor([[2, 5, 7, 3]])
    assert found.linear and found.labels == 3 and any("bare linear layer" in note for note in found.notes)
    joined = PeftModel.from_pretrained(opened(base, "TOKEN_CLS"), str(folder)).merge_and_unload().eval()
    with pair.at("finetuned"), torch.inference_mode():
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
    said = rf"'{name}' of the adapter 'lora' cannot be used: .*it takes more than 0\.5 seconds.*merge_and_unload"
    assert re.match(said, preflight(base, folder).problems[0])


def test_patterns_are_tried_again_with_the_names_that_the_headers_lack(
    base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_adapter(folder, exclude_modules=r"(?=.*self\.dropout)(.+)+!")
    monkeypatch.setattr(lora, "SECONDS", 1)
    assert preflight(base, folder).fits
    refuses(
        BadModel,
        "'exclude_modules' of the adapter 'lora' cannot be used: .*more than 1 seconds",
        load_pair,
        base,
        folder,
    )


@pytest.mark.parametrize("settings", [{"rank_pattern": {"layer.0.attention.self.query": 3}}])
def test_lists_and_names_need_no_process(base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lora, "TRIAL", "raise SystemExit(1)")
    assert preflight(base, folder).fits
    change_adapter(folder, target_modules=".*query")
    refuses(
        BadModel,
        r"'\.\*query' cannot be matched with the names of .* \(status 1\)",
        preflight(base, folder).raise_first,
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
    assert re.match(f"'{name}' of the adapter 'lora' cannot be used: .*merge_and_unload", problem)
    assert len(problem) < 500 and "_pattern_mismatch" not in problem
    refuses(BadModel, rf"\ABadModel: {re.escape(problem)}\Z", load_pair, base, folder)


@pytest.mark.cases(6, 4)
@pytest.mark.parametrize("name", lora.FOREIGN)
def test_other_kinds_of_lora_are_refused_where_they_are_set(base: Path, folder: Path, name: str) -> None:
    change_adapter(folder, **{name: None})
    assert preflight(base, folder).fits
    change_adapter(folder, **{name: {"odd": [1]}})
    assert f"sets '{name}', which is not supported" in preflight(base, folder).problems[0]


def test_each_setting_of_peft_is_read_refused_or_left_out() -> None:
    assert sorted(field.name for field in dataclasses.fields(LoraConfig)) == sorted(
        [*lora._Settings.model_fields, *lora.FOREIGN, *lora.UNREAD]
    )


def test_settings_that_are_not_known_are_noted_and_not_used(base: Path, folder: Path) -> None:
    assert not any("not known here" in note for note in preflight(base, folder).notes)
    wanted = merged(base, folder)
    change_adapter(folder, auto_mapping={"parent_library": "os"}, later_kind=True, megatron_core="os")
    said = "The adapter 'lora' has settings that are not known here and not used: later_kind."
    assert said in preflight(base, folder).notes
    assert not wrong(load_pair(base, folder), wanted)  # peft would warn of the setting if it read the file


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize(
    "settings",
    [{"target_modules": pattern, "rank_pattern": {r"layer\.0\..*query": 3}, "use_dora": True,
      "alpha_pattern": {"value": 1.5}} for pattern in (
        r".*\.(query|value)$",
        r".*\.layer\.\d+\.attention\.self\.(?:query|value)",
        r"^.*layer\.(0|1|2|3)\..*\.(query|value)$",
        r"(?i).*\.LAYER\.\d{1,2}\.attention\.self\.(?!key)\w{5}",
        r"^(\w+\.)+(query|value)$",
        r".*\.[0-9]+\.(attention\.(self|x)|mlp)\.(query|value)",
    )],
    ids=range(6),
)  # fmt: skip
def test_patterns_that_are_quick_to_match_are_merged(base: Path, folder: Path) -> None:
    assert not wrong(load_pair(base, folder), merged(base, folder))


@pytest.mark.parametrize("error", [TypeError, AttributeError, IndexError, re.error])
def test_what_peft_raises_is_one_sentence(
    base: Path, folder: Path, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PeftModel, "from_pretrained", Mock(side_effect=error("odd")))
    refuses(BadModel, "'lora' cannot be merged into 'base': odd. Merge it", load_pair, base, folder)

"""Tests of pairs as people store them: prefixes, folders, formats, tied matrices, settings, bases, class names; and of
what moved, which rounding by a file's dtype does not count."""

import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import BertForSequenceClassification

from skillviz.core.architectures import FAMILIES
from skillviz.core.class_names import match
from skillviz.core.draws import uniform
from skillviz.core.localizers.table import LOCALIZERS
from skillviz.core.movement import Counts, Movement
from skillviz.core.problem import Problem
from skillviz.errors import BadModel, ModelNotFound, PairMismatch, UnsafeWeights, WrongBase
from skillviz.models import convert
from skillviz.models.applied import opened_base
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import resolve
from skillviz.models.heads import TOKEN_EMBEDDING, class_names
from skillviz.runs.transfer import label_mapping
from skillviz.tasks.registry import task as read
from skillviz.tasks.splits import load as splits_of
from skillviz.tasks.task import Files, Task
from skillviz.tasks.user_file import read_task
from tests.cases.build import (
    Comparison,
    Graft,
    ModelPair,
    Region,
    bert,
    by_hand,
    change_config,
    change_json,
    change_weights,
    evaluate,
    evaluated,
    fit,
    load_lean,
    load_model,
    load_pair,
    own_accuracy,
    preflight,
    refuses,
    rehearse,
    saved,
    task_file,
    tiny_pair,
    tiny_rows,
    tiny_tokenizer,
    weights,
)
from tests.core.localizers.test_every_localizer import finish, start
from tests.core.problems import table_of, tiny_problem
from tests.tasks.make import refused_in
from tests.tiers import first
from tests.tiny_families import family_model, family_pair

SAME, DIFFERENT, UNKNOWN = Comparison.SAME, Comparison.DIFFERENT, Comparison.UNKNOWN
PREFIXES = (
    "model.", "net.", "_fsdp_wrapped_module.", "module.", "_orig_mod.", "model.model.", "model._orig_mod.",
    "module.model.", "_forward_module.net.", "bert.", "bert.bert.",
)  # fmt: skip


def renamed(folder: Path, *changes: tuple[str, str], front: str = "") -> None:
    """Replace parts of the names of the folder's tensors, and put a prefix in front."""

    def other(name: str) -> str:
        for old, new in changes:
            name = name.replace(old, new)
        return front + name

    change_weights(folder, lambda tensors: {other(name): tensor for name, tensor in tensors.items()})


@pytest.fixture(scope="module")
def pair_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    tiny_pair(folder, "bert")
    return folder


@pytest.fixture
def pair(tmp_path: Path, pair_folder: Path) -> tuple[Path, Path]:
    shutil.copytree(pair_folder, tmp_path / "models")
    return tmp_path / "models" / "base", tmp_path / "models" / "finetuned"


@pytest.fixture
def adapter(tmp_path: Path, pair: tuple[Path, Path]) -> tuple[Path, Path]:
    """Return a base with a head, and an adapter of it in a folder below another."""
    config = LoraConfig(task_type="SEQ_CLS", target_modules=["query"])
    get_peft_model(load_model(pair[1], "head").model, config).save_pretrained(tmp_path / "out" / "adapter")
    return pair[1], tmp_path / "out" / "adapter"


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_that_all_tensors_share_is_left_out_and_said(pair: tuple[Path, Path], prefix: str) -> None:
    base, tuned = pair
    plain = {folder: read_info(folder) for folder in pair}
    # The base has no head, so the names of its body may begin with 'bert.'.
    wrapped = (tuned,) if prefix == "bert." else pair
    for folder in wrapped:
        renamed(folder, front=prefix)
    for folder in wrapped if "bert." not in prefix else (tuned,):
        one, other = read_info(folder), plain[folder]
        assert (one.shapes, one.fingerprint) == (other.shapes, other.fingerprint)
    check = preflight(base, tuned)
    said = [note for note in check.notes if "is left out" in note]
    assert check.fits and len(said) == len(wrapped) and f"'{prefix}' is left out" in said[-1]


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("prefix", ["net.", "_fsdp_wrapped_module.model.", "bert."])
def test_the_values_are_those_of_the_model_inside(pair: tuple[Path, Path], prefix: str) -> None:
    base, tuned = pair
    plain = load_pair(base, tuned)
    renamed(base, front="model.")
    # the names that FSDP and torch.compile give when they wrap blocks one by one
    renamed(tuned, ("layer.1.attention.", "layer.1._orig_mod.attention._orig_mod."), front=prefix)
    wrapped = load_pair(base, tuned)
    assert torch.equal(wrapped.base, plain.base) and torch.equal(wrapped.finetuned, plain.finetuned)
    torch.testing.assert_close(dict(wrapped.head()), dict(plain.head()), rtol=0, atol=0)
    assert load_lean(base, tuned, dtype="float32").movement.counts().moved == int((plain.base != plain.finetuned).sum())


@pytest.mark.parametrize("family", ["opt", "gpt2", "llama", "roberta", "distilbert", "gpt_neox"])
@pytest.mark.parametrize("member", [0, 1], ids=["bare", "head"])
def test_names_of_the_family_itself_are_kept(tmp_path: Path, family: str, member: int) -> None:
    folder = tiny_pair(tmp_path, family)[member]
    names = load_file(folder / "model.safetensors").keys()
    for front in ("", "net."):
        renamed(folder, front=front)
        assert (read_info(folder).tensors.keys(), read_info(folder).wrapper) == (names, front)


def test_a_prefix_of_the_body_alone_is_named(pair: tuple[Path, Path]) -> None:
    renamed(pair[1], ("bert.", "backbone."), ("classifier", "fc"))
    assert any("'backbone.'" in problem for problem in preflight(*pair).problems)


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
    tmp_path: Path, pair: tuple[Path, Path], inside: list[str], wanted: str
) -> None:
    (tmp_path / "out" / "logs").mkdir(parents=True)
    for name in inside:
        shutil.copytree(pair[1], tmp_path / "out" / name)
    for members in ((pair[0], tmp_path / "out"), (tmp_path / "out", pair[1])):
        refuses(
            ModelNotFound, rf"(?s)\A(?!.*--convert).*'{re.escape(str(tmp_path / 'out' / wanted))}'", preflight, *members
        )


def test_a_part_of_a_model_is_no_model(tmp_path: Path) -> None:
    part = folder_with(tmp_path / "out" / "2_Dense")
    save_file({"linear.weight": torch.zeros(2, 2)}, part / "model.safetensors")
    (part / "config.json").write_text('{"in_features": 2}')
    refuses(ModelNotFound, "has no model.safetensors", resolve, tmp_path / "out")


def test_an_adapter_in_a_subfolder_is_named(adapter: tuple[Path, Path]) -> None:
    base, folder = adapter
    assert preflight(base, folder).fits
    refuses(ModelNotFound, r"out/adapter'", preflight, base, folder.parent)


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
    change_weights(
        adapter[1],
        lambda tensors: {name.replace(old, new): tensor for name, tensor in tensors.items()},
        "adapter_model.safetensors",
    )
    assert words in preflight(*adapter).problems[0]
    refuses((BadModel, PairMismatch), None, load_pair, *adapter)


EXPORTED, JOINED = "call save_pretrained", "Join them with"
FILES = {
    "tf_model.h5": ("TensorFlow", "from_tf=True"),
    "bert_model.ckpt.index": ("TensorFlow", "from_tf=True"),
    "saved_model/saved_model.pb": ("TensorFlow", "from_tf=True"),
    "flax_model.msgpack": ("Flax", "from_flax=True"),
    "openvino_model.bin": ("OpenVINO", "made from"),
    "onnx/model.onnx": ("ONNX", "made from"),
    "model-q4_0.gguf": ("llama.cpp", "gguf_file"),
    "weights.npz": ("NumPy", EXPORTED),
    "epoch=3-step=500.ckpt": ("Lightning", EXPORTED),
    "model.pt": ("pickled", EXPORTED),
    "best_model.pth": ("pickled", EXPORTED),
    "consolidated.00.pth": ("original release", "for transformers"),
    "pytorch_model_fsdp.bin": ("FSDP", EXPORTED),
    "pytorch_model_fsdp_0/__0_0.distcp": ("FSDP", JOINED),
    "global_step500/mp_rank_00_model_states.pt": ("DeepSpeed", JOINED),
    "pytorch_model-00001-of-00002.bin": ("without pytorch_model.bin.index.json", "Download"),
    "model-00001-of-00002.safetensors": ("without model.safetensors.index.json", "Download"),
    "pytorch_model.safetensors": ("another name", "model.safetensors"),
}


def folder_with(folder: Path, *names: str) -> Path:
    for name in ("config.json", "tokenizer.json", "training_args.bin", "optimizer.pt", *names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * 64)
    return folder


@pytest.fixture(params=[False, True], ids=["plain", "--convert"])
def asked_to_convert(request: pytest.FixtureRequest) -> Iterator[None]:
    before = convert.wanted.set((lambda words: None) if request.param else None)
    yield
    convert.wanted.reset(before)


@pytest.mark.usefixtures("asked_to_convert")
@pytest.mark.parametrize("name", FILES)
def test_what_cannot_be_converted_says_what_it_is_and_what_to_do(tmp_path: Path, name: str) -> None:
    facts = "".join(f"(?=.*{re.escape(fact)})" for fact in (name, *FILES[name]))
    folder = folder_with(tmp_path / "model", name)
    refuses(UnsafeWeights, rf"(?s)\A(?!.*--convert){facts}.*only pytorch_model.bin can be converted", resolve, folder)


@pytest.mark.usefixtures("asked_to_convert")
def test_nothing_at_all_is_no_loop_either(tmp_path: Path) -> None:
    told = "=" if convert.wanted.get() is None else "!"
    refuses(ModelNotFound, rf"(?s)\A(?{told}.*--convert)", resolve, folder_with(tmp_path / "model"))


test_only_what_can_be_converted_is_advised_to_be = refused_in(
    BadModel,
    *(
        (f"only as {name}.*--convert", lambda folder, *names: resolve(folder_with(folder, *names)), name, "tf_model.h5",
         "model.onnx")
        for name in ("pytorch_model.bin", "adapter_model.bin")
    ),
)  # fmt: skip


EMBEDDINGS = {
    "gpt2": ("transformer.wte.weight", "lm_head.weight"),
    "opt": ("model.decoder.embed_tokens.weight", "lm_head.weight"),
    "bert": ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
    "roberta": ("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
    "distilbert": ("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"),
}
"""The names of the embedding and of the output matrix in a language model's file; tied, one of them is stored."""


@pytest.mark.cases(2, 3)
@pytest.mark.parametrize("which", [("base",), ("finetuned",), ("base", "finetuned")], ids="+".join)
@pytest.mark.parametrize("family", EMBEDDINGS)
def test_a_language_model_stored_by_its_output_opens(tmp_path: Path, family: str, which: tuple[str, ...]) -> None:
    base, tuned = tiny_pair(tmp_path, family, "causal" if family in ("gpt2", "opt") else "prompt", move_embeddings=True)
    wanted = load_pair(base, tuned, device="cpu")
    for name in which:
        renamed(tmp_path / name, EMBEDDINGS[family])
    assert preflight(base, tuned).problems == []
    pair, lean = load_pair(base, tuned, device="cpu"), load_lean(base, tuned, device="cpu", dtype="float32")
    assert torch.equal(pair.base, wanted.base) and torch.equal(pair.finetuned, wanted.finetuned)
    for state in ("pretrained", "finetuned"):
        with wanted.at(state), pair.at(state), lean.at(state):
            own, *others = (one.model.get_output_embeddings().weight for one in (wanted, pair, lean))
            assert all(torch.equal(own, other) for other in others)


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("family", ["gpt2", "t5", "bert"])
def test_the_base_of_a_classifier_stored_by_its_output_opens(tmp_path: Path, family: str) -> None:
    """A classifier's class has no output matrix, so the embedding must be read from it by name."""
    base, tuned = family_pair(tmp_path, family)
    before = load_pair(base, tuned, device="cpu")
    (name,) = (n for n in weights(base) if TOKEN_EMBEDDING.search(n) and "encoder" not in n and "decoder" not in n)
    renamed(base, (name, FAMILIES[family].output[0]))
    pair = load_pair(base, tuned, device="cpu")
    assert torch.equal(pair.base, before.base) and set(pair.outside) == set(before.outside)
    with pair.at("pretrained"), before.at("pretrained"):
        assert torch.equal(*(one.model.get_input_embeddings().weight for one in (pair, before)))


def test_an_untied_model_without_its_embedding_is_refused(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "gpt2", "causal")
    renamed(base, EMBEDDINGS["gpt2"])
    for folder in (base, tuned):
        change_config(folder, tie_word_embeddings=False)
    refuses(PairMismatch, r"the base has no 'wte.weight'", load_pair, base, tuned, device="cpu")


# CANINE has no vocabulary, and the two stacks of T5Gemma have separate embeddings.
ONE_EMBEDDING = [family for family in FAMILIES if family not in ("canine", "t5gemma")]


@pytest.mark.cases(10, 30)
@pytest.mark.parametrize("family", first(ONE_EMBEDDING, EMBEDDINGS.__contains__))
def test_the_embedding_of_every_family_is_known_by_its_name(family: str) -> None:
    model = family_model(family)
    weight = model.get_input_embeddings().weight
    names = {name for name, parameter in model.named_parameters() if parameter is weight}
    found = {name: len(one) for name, one in model.named_parameters() if TOKEN_EMBEDDING.search(name)}
    assert names and names <= found.keys() and len(weight) not in [found[name] for name in found.keys() - names]


@pytest.mark.parametrize(
    ("base_settings", "tuned_settings", "said"),
    [
        # the defaults are gelu and 1e-12, like the other's
        ({"hidden_act": None, "layer_norm_eps": None}, {}, ""),
        ({"layer_norm_eps": None}, {"layer_norm_eps": 1e-5}, "differ in layer_norm_eps: 1e-12 in the base, 1e-05"),
        ({"layer_norm_eps": 1e-3}, {"layer_norm_eps": None},
         "differ in layer_norm_eps: 0.001 in the base, 1e-12 in the fine-tuned model"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("load", [load_pair, load_lean])
def test_a_setting_that_one_configuration_leaves_out_is_that_of_transformers(
    pair: tuple[Path, Path], load: Any, base_settings: dict[str, Any], tuned_settings: dict[str, Any], said: str
) -> None:
    change_config(pair[0], **base_settings)
    change_config(pair[1], **tuned_settings)
    for notes in (load(*pair, device="cpu").notes, rehearse(preflight(*pair))[0].notes):
        assert said in "".join(notes) and any("differ in" in note for note in notes) == bool(said)


def test_an_activation_that_is_not_the_other_ones_default_is_refused(pair: tuple[Path, Path]) -> None:
    change_config(pair[0], hidden_act=None)
    change_config(pair[1], hidden_act="relu")
    assert preflight(*pair).fits, "headers alone cannot tell"
    for load in (load_pair, load_lean, lambda *members: rehearse(preflight(*members))):
        refuses(PairMismatch, "hidden_act: gelu in the base, relu in the fine-tuned model", load, *pair)


@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
def test_a_default_that_is_left_out_is_equal(tmp_path: Path, family: str) -> None:
    base, tuned = tiny_pair(tmp_path, family)
    left_out = ("hidden_act", "activation_function", "layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps",
                "rope_theta", "rope_parameters")  # fmt: skip
    change_config(base, **dict.fromkeys(left_out))
    check, _ = rehearse(preflight(base, tuned))
    assert check.fits and not any("configurations differ" in note for note in check.notes)


@pytest.mark.parametrize("factor", [1, 2])
def test_two_ways_to_write_the_rotary_base_are_compared(tmp_path: Path, factor: int) -> None:
    base, tuned = tiny_pair(tmp_path, "llama")
    rotary = read_info(tuned).config["rope_parameters"]
    change_config(base, rope_parameters=None, rope_theta=factor * rotary["rope_theta"])
    told = "".join(note for note in load_pair(base, tuned).notes if "rope" in note)
    assert ("differ in rope_parameters" in told) is bool(told) is (factor == 2)


def test_a_graft_and_a_difference_that_do_not_name_their_base_are_refused_as_that(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    graft = whole_graft(load_pair(base, tuned))
    bare = Graft(graft.region, graft.values, graft.head, {**graft.header, "base": {}})
    refuses(WrongBase, "does not say for which base", opened_base, base, bare)
    assert any("does not say for which base" in note for note in opened_base(base, bare, force=True).notes)
    change_config(tuned, skillviz_frozen={"layout": 1, "tensors": {}})
    refuses(WrongBase, "does not say which base", preflight(base, tuned).raise_first)


POLARITY = ["negative", "positive"]
NLI = ["contradiction", "neutral", "entailment"]
TRAIN, TEST = tiny_rows(48, seed=1), tiny_rows(40, seed=2)
TURNED, TURNED_TEST = ([{**row, "label": 1 - row["label"]} for row in rows] for rows in (TRAIN, TEST))


test_two_lists_of_class_names = by_hand(
    ("labels of another task are matched as a model's are",
     {"Entailment": "entailment", "not entailment": "not_entailment"},
     lambda: label_mapping(*(
         Task(name=labels[0], data=Files(train="a.csv", test="b.csv"), text=("text",), labels=labels)
         for labels in (("not_entailment", "entailment"), ("Entailment", "not entailment"))))),
    *((f"{names} for {labels}", (comparison, order), attrgetter("comparison", "order"), match(names, labels))
      for names, labels, comparison, order in (
        (["Positive", "NEGATIVE"], POLARITY, SAME, (1, 0)),
        ([" positive ", "negative"], POLARITY, SAME, (1, 0)),
        (["pos", "neg"], POLARITY, SAME, (1, 0)),
        (["POS", "NEU", "NEG"], ["negative", "neutral", "positive"], SAME, (2, 1, 0)),
        (["entailment", "neutral", "contradiction"], NLI, SAME, (2, 1, 0)),
        (["not-entailment", "Entailment"], ["entailment", "not_entailment"], SAME, (1, 0)),
        (["maybe", "negative"], POLARITY, SAME, (1, 0)),
        (["1", "0"], ["0", "1"], SAME, (1, 0)),
        (["1 star", "2 stars"], ["2 stars", "1 star"], SAME, (1, 0)),
        (["US", "us"], ["us", "US"], SAME, (1, 0)),
        (["Us", "other"], ["us", "US"], UNKNOWN, None),
        (["bad", "good"], POLARITY, UNKNOWN, None),
        (["negative", "negative"], POLARITY, UNKNOWN, None),
        ([], POLARITY, UNKNOWN, None),
        (["class 1", "class 2"], ["class 20", "class 10"], UNKNOWN, None),
        (["entailment", "x", "y"], NLI, DIFFERENT, None),
    )),
)  # fmt: skip
test_names_of_a_configuration = by_hand(
    *((f"{config}", (names, contradiction), attrgetter("names", "contradiction"), class_names(config))
      for config, names, contradiction in (
        ({"id2label": {"1": "no", "0": "yes"}}, ("yes", "no"), ""),
        ({"label2id": {"yes": 0, "no": "1"}}, ("yes", "no"), ""),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"no": 1, "yes": 0}}, ("yes", "no"), ""),
        ({"id2label": {"0": "yes", "1": "no"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}, ("yes", "no"), ""),
        ({"id2label": {"0": "yes", "1": "no"}, "label2id": {"yes": 1, "no": 0}}, ("yes", "no"), "yes"),
        ({"label2id": {"yes": 0, "yeah": 0, "no": 1}}, (), ""),
        ({"id2label": {"1": "yes", "2": "no"}}, (), ""),
        ({"label2id": ["yes", "no"]}, (), ""),
    )),
)  # fmt: skip


def turned_pair(folder: Path, **finetuned: Any) -> tuple[Path, Path, float]:
    """Return the base, the fine-tuned model (trained with swapped classes), and its own accuracy by class name."""
    tokenizer, model = tiny_tokenizer("bert"), bert()
    fit(model, tokenizer, TURNED, steps=15)
    base = saved(folder / "base", model, tokenizer)
    model.bert.embeddings.requires_grad_(False)  # grafts omit the embeddings; so a full graft is the fine-tuned model
    fit(model, tokenizer, TURNED, steps=15)
    tuned, own = saved(folder / "tuned", model, tokenizer), own_accuracy(model, tokenizer, TURNED_TEST)
    assert own > 0.8
    change_config(tuned, **finetuned)
    return base, tuned, own


def whole_graft(pair: ModelPair, *header: dict[str, Any]) -> Graft:
    return pair.graft(Region.full(pair.table.shapes), *header)


def of_graft(base: Path, tuned: Path | None, task: Any, graft: Graft) -> float:
    return evaluate(base, tuned, task, graft=graft, device="cpu").headline()["metrics"]["grafted"]["accuracy"]


@pytest.mark.nightly
def test_an_adapter_is_read_by_its_bases_names(tmp_path: Path) -> None:
    tokenizer, names = tiny_tokenizer("bert"), {0: "positive", 1: "negative"}
    model = bert(id2label=names, label2id={name: output for output, name in names.items()})
    fit(model, tokenizer, TURNED, steps=15)
    base = saved(tmp_path / "base", model, tokenizer)
    settings = LoraConfig(task_type="SEQ_CLS", r=8, target_modules=["query", "value", "dense"])
    joined = get_peft_model(BertForSequenceClassification.from_pretrained(base), settings)
    fit(joined, tokenizer, TURNED, steps=25, rate=1e-2)
    joined.save_pretrained(tmp_path / "lora")
    own = own_accuracy(joined, tokenizer, TURNED_TEST)
    merged = saved(tmp_path / "merged", joined.merge_and_unload(), tokenizer)
    task = task_file(tmp_path / "task", TRAIN, TEST)
    accuracy, evaluation = evaluated(base, tmp_path / "lora", task)
    assert own > 0.8 and accuracy == own == evaluated(base, merged, task)[0]
    assert any("positive, negative" in note and "matched by name" in note for note in evaluation.notes)
    # a folder's own configuration takes precedence
    (tmp_path / "lora" / "config.json").write_text(json.dumps({"id2label": {"0": "negative", "1": "positive"}}))
    check = preflight(base, tmp_path / "lora", read(task))
    assert check.class_order is None and any("adapter's config.json" in note for note in check.notes)


@pytest.mark.slow
@pytest.mark.cases(1, 3)
@pytest.mark.parametrize(
    "names",
    [
        {"id2label": {"0": "POSITIVE", "1": "NEGATIVE"}},
        {"id2label": {"0": "pos", "1": "neg"}, "label2id": None},
        {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"Positive": 0, "Negative": 1}},
        {"id2label": None, "label2id": {"positive": 0, "negative": 1}},
    ],
)
def test_a_model_and_its_graft_are_read_by_its_names(tmp_path: Path, names: dict[str, Any]) -> None:
    base, tuned, own = turned_pair(tmp_path, **names)
    task = task_file(tmp_path / "task", TRAIN, TEST)
    accuracy, evaluation = evaluated(base, tuned, task)
    assert accuracy == own and any("matched by name" in note for note in evaluation.notes)
    graft = whole_graft(load_pair(base, tuned))
    assert of_graft(base, None, task, graft) == of_graft(base, tuned, task, graft) == own


@pytest.mark.slow
def test_a_head_without_names_is_said_and_its_graft_keeps_the_order_of_its_run(tmp_path: Path) -> None:
    base, tuned, own = turned_pair(tmp_path)
    classes = {"0": "negative", "1": "positive"}
    task = read(task_file(tmp_path / "task", TRAIN, TEST, labels=["positive", "negative"], classes=classes))
    accuracy, evaluation = evaluated(base, tuned, task)
    assert accuracy == own and any("does not name its classes" in note for note in evaluation.notes)
    graft = whole_graft(load_pair(base, tuned), {"labels": list(task.labels)})
    in_another_order = read(task_file(tmp_path / "other", TRAIN, TEST))
    assert [of_graft(base, None, one, graft) for one in (task, in_another_order)] == [own, own]


@pytest.mark.parametrize(
    ("labels", "names", "order", "said"),
    [
        (POLARITY, {"id2label": {"0": "bad", "1": "good"}}, None, ("bad, good", "their order")),
        (POLARITY, {"id2label": {"0": "negative", "1": "positive"}, "label2id": {"negative": 1, "positive": 0}}, None,
         ("'negative' to different outputs",)),
        (NLI, {"id2label": {"0": "ENTAILMENT", "1": "NEUTRAL", "2": "CONTRADICTION"}}, (2, 1, 0), ()),
        (NLI, {"id2label": {"0": "entailment", "1": "x", "2": "y"}}, None, r"'entailment' is output 0"),
    ],
    ids=["unknown", "contradicting itself", "another order", "contradicting the task"],
)  # fmt: skip
def test_names_that_contradict_the_tasks_are_refused_and_unknown_ones_are_said(
    tmp_path: Path, labels: list[str], names: dict[str, Any], order: tuple[int, ...] | None, said: Any
) -> None:
    rows = tiny_rows(9, len(labels))
    model = bert(num_labels=len(labels))
    base, tuned = (saved(tmp_path / name, model, tiny_tokenizer("bert")) for name in ("base", "tuned"))
    task = read(task_file(tmp_path / "task", rows, rows, labels=labels))
    change_config(tuned, **names)
    check = preflight(base, tuned, task)
    if isinstance(said, str):
        refuses(PairMismatch, said, check.raise_first)
    else:
        check.raise_first()
        assert check.class_order == order
        assert any(all(words in note for words in said) for note in (*check.notes, *([""] * (not said))))


NARROW = [torch.bfloat16, torch.float16]
MOVED, ROUNDED = "encoder.layer.1.attention.self.query.weight", "differ only by rounding: one is the other stored as "


def stored(folder: Path, dtype: torch.dtype, moved: int = 0, by: float = 0.5, times: float = 1.0) -> Path:
    """Save the same classifier in a dtype, with this many entries of one query moved; return the folder."""
    model = bert()
    with torch.no_grad():
        dict(model.bert.named_parameters())[MOVED].view(-1)[:moved].mul_(times).add_(by)
    return saved(folder, model.to(dtype), tiny_tokenizer("bert"))


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("load", [load_pair, load_lean])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_base_saved_in_16_bits_is_no_fine_tuned_model(tmp_path: Path, dtype: torch.dtype, load) -> None:
    """Regression, in both directions: either the base or the fine-tuned model may be the one with full precision."""
    whole, narrow = stored(tmp_path / "whole", torch.float32), stored(tmp_path / "narrow", dtype)
    name = str(dtype).removeprefix("torch.")
    for base, tuned in ((whole, narrow), (narrow, whole)):
        refuses(PairMismatch, ROUNDED + name, load, base, tuned, device="cpu", dtype="float32")


@pytest.mark.parametrize("load", [load_pair, load_lean])
def test_a_bfloat16_base_saved_in_float16_is_no_fine_tuned_model(tmp_path: Path, load) -> None:
    """float16 rounds the smallest values, and bfloat16 can represent the results."""
    base = stored(tmp_path / "base", torch.bfloat16, moved=100, by=0.0, times=1e-4)
    model = BertForSequenceClassification.from_pretrained(base, dtype=torch.float16)
    tuned = saved(tmp_path / "tuned", model, tiny_tokenizer("bert"))
    refuses(PairMismatch, ROUNDED + "float16", load, base, tuned, device="cpu", dtype="float32")


@pytest.mark.parametrize("upcast", [False, True])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_only_what_moved_beyond_rounding_counts(tmp_path: Path, dtype: torch.dtype, upcast: bool) -> None:
    base, tuned = stored(tmp_path / "base", torch.float32), stored(tmp_path / "finetuned", dtype, moved=40)
    if upcast:
        change_weights(tuned, lambda tensors: {name: tensor.float() for name, tensor in tensors.items()})
    pair = load_pair(base, tuned, device="cpu")
    counts, differ = pair.movement.counts(), int((pair.base != pair.finetuned).sum())
    assert counts == Counts(40, differ - 40, 0, str(dtype).removeprefix("torch.")) and differ > 10_000
    assert f"40 of {pair.d:,} graftable entries moved in fine-tuning." in pair.notes
    said = (f"\n{differ - 40:,} more differ only by rounding", "Fine-tuning also moved")
    assert [words for words in said if words not in "\n".join(["", *pair.notes])] == [said[1]]
    assert upcast or load_lean(base, tuned, device="cpu", dtype="float32").movement.counts() == counts


@pytest.mark.parametrize("load", [load_pair, load_lean])
def test_few_small_changes_of_a_tensor_that_16_bits_hold_are_no_rounding_of_the_base(tmp_path: Path, load) -> None:
    """LayerNorm's ones are the same in any dtype, but the other tensors of a rounded base would differ too."""
    base, model = stored(tmp_path / "base", torch.float32), bert()
    with torch.no_grad():
        model.bert.encoder.layer[0].output.LayerNorm.weight[:5] += 1e-5
    pair = load(base, saved(tmp_path / "tuned", model, tiny_tokenizer("bert")), device="cpu", dtype="float32")
    assert pair.movement.counts() == Counts(5, 0, 5, "bfloat16")
    assert any("Whether fine-tuning moved 5 entries is unknown" in note for note in pair.notes)


def test_no_ranking_chooses_what_was_rounded(tmp_path: Path) -> None:
    base, tuned = stored(tmp_path / "base", torch.float32), stored(tmp_path / "finetuned", torch.bfloat16, moved=40)
    task = read_task(task_file(tmp_path / "task", tiny_rows(16), tiny_rows(16)))
    pair = load_pair(base, tuned, device="cpu")
    problem = pair.problem(pair.encode(task, splits_of(task).train))
    moved = set(torch.nonzero(problem.tau).view(-1).tolist())
    assert len(moved) == 40
    for name in ("movement", "first-order", "stagewise", "learned-ranked"):
        assert set(finish(start(name, problem, 40))[1].order.tolist()) == moved
    with pair.at("grafted", full := Region.full(pair.table.shapes)):
        assert full.size == pair.d and pair.is_at("finetuned")


def test_a_base_in_16_bits_leaves_open_what_moved(tmp_path: Path) -> None:
    """A float32 fine-tuned model may have started with more precision than the base's file: a note says so."""
    base, tuned = stored(tmp_path / "base", torch.bfloat16), stored(tmp_path / "finetuned", torch.float32, moved=40)
    pair = load_pair(base, tuned, device="cpu")
    counts = pair.movement.counts()
    assert counts.unclear == counts.moved - 40 > 10_000 and counts.rounded == 0
    assert any("is unknown" in note and f"{counts.unclear:,} entries" in note for note in pair.notes)


def test_a_model_that_was_trained_in_float32_counts_as_before(tmp_path: Path) -> None:
    base, tuned = stored(tmp_path / "base", torch.float32), stored(tmp_path / "finetuned", torch.float32, 40, 1e-6)
    assert load_pair(base, tuned, device="cpu").movement.counts() == Counts(40, 0, 0, "")


@pytest.mark.parametrize("dtype", [torch.float32, *NARROW], ids=str)
def test_counts_are_those_of_the_slow_twin(dtype: torch.dtype) -> None:
    """Compare with a loop over entries and tensors, where only some tensors have the fine-tuned dtype."""
    table, draw = table_of(bert(num_hidden_layers=1)), torch.Generator().manual_seed(0)
    base = torch.randn(table.d, generator=draw)
    tuned = base + 0.1 * torch.randn(table.d, generator=draw) * (torch.rand(table.d, generator=draw) < 0.3)
    slow, change = 0, tuned - base
    for number, (a, b) in enumerate(zip(table.offsets[:-1], table.offsets[1:], strict=True)):
        if dtype != torch.float32 and number % 2:
            tuned[a:b] = tuned[a:b].to(dtype).float()
            change[a:b] = tuned[a:b] - base[a:b]
            for i in range(a, b):
                if float(base[i].to(dtype)) == float(tuned[i]):
                    slow, change[i] = slow + int(base[i] != tuned[i]), 0.0
    movement = Movement(base, tuned, table)
    counts, moved = movement.counts(), int((change != 0).sum())
    assert torch.equal(movement.whole(), change)
    assert (counts.moved, counts.rounded, slow > 0) == (moved, slow, dtype != torch.float32)


DRAWS = ("random", "random-matched", "dare")
RANKING = [name for name, row in LOCALIZERS.items() if row.budgeted and row.rest == "base" and name not in DRAWS]


def few_moved(uphill: bool = False) -> tuple[Problem, set[int]]:
    """Return a problem in which about 1 in 50 entries moved, and their set; with `uphill`, no entry lowers the loss."""
    problem = tiny_problem(moved=0.02)
    moved = torch.nonzero(problem.tau).squeeze(1)
    if uphill:
        problem.train.backward()
        tuned, slope = problem.base.clone(), problem.flat.grad[moved]
        tuned[moved] += 0.05 * slope.sign() + 0.01 * (slope == 0)
        problem = Problem(problem.flat, problem.base, tuned, problem.train)
    return problem, set(moved.tolist())


@pytest.mark.cases(10, 8)
@pytest.mark.parametrize("uphill", [False, True])
@pytest.mark.parametrize("name", RANKING)
def test_no_unmoved_entry_is_chosen_while_a_moved_one_is_left_and_others_are_said(name: str, uphill: bool) -> None:
    problem, moved = few_moved(uphill)
    for size in (len(moved) // 3, len(moved), 3 * len(moved)):
        _, found = finish(start(name, problem, size))
        order, few = found.order.tolist(), f"Only {len(moved):,} of the {size:,} chosen entries moved in fine-tuning."
        assert len(set(order)) == len(order) == size and len(moved & set(order[: len(moved)])) == min(size, len(moved))
        assert [note for note in found.notes if "moved in fine-tuning" in note] == [few] * (size > len(moved))


def test_draws_are_the_draws_that_they_were() -> None:
    problem, _ = few_moved()
    for name in ("random", "dare"):
        np.testing.assert_array_equal(finish(start(name, problem, 50, seed=3))[1].order, uniform(problem.d, 50, 3))
    assert len(set(finish(start("random-matched", problem, 50))[1].order.tolist())) == 50


def test_a_region_of_outcome_size_says_it_too() -> None:
    problem, moved = few_moved()
    _, found = finish(start("layers", problem, 1))
    count = len(moved & set(found.order.tolist()))
    assert found.notes[-1] == f"Only {count:,} of the {len(found.order):,} chosen entries moved in fine-tuning."

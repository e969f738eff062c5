"""Tests of preflight's messages for pairs that fit and pairs that do not, without torch and without weights; and of
label words checked without torch, against the real tokenizer."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from skillviz.errors import (
    BadInput,
    BadLabelWord,
    BadModel,
    CorruptFile,
    ModelNotFound,
    PairMismatch,
    RandomHead,
    SkillvizError,
)
from skillviz.models.preflight import Preflight, preflight
from skillviz.models.tokenizer import load_tokenizer, vocabulary, words_problem
from skillviz.tasks.encode import refused
from skillviz.tasks.task import LabelWords, Task
from skillviz.tasks.template import parse
from skillviz.tasks.verbalizer import word_ids
from tests.models.examples import (
    FAMILIES,
    FITTING,
    MASKED,
    change_config,
    change_json,
    change_weights,
    differing,
    drop,
    drop_tokenizer,
    load_pair,
    refuses,
    tiny_model,
    tiny_pair,
    tiny_task,
    tiny_tokenizer,
    weights,
)
from tests.tasks.make import made


def task(*labels: str) -> Task:
    return made(name="mine", labels=labels, label_words=LabelWords())


def saved(
    folder: Path,
    family: str = "bert",
    readout: str = "head",
    *,
    words: str | None = None,
    config: Mapping[str, Any] | None = None,
    dropped: Sequence[str] = (),
    change: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    **sizes: Any,
) -> Path:
    """Save a tiny model with the tokenizer of the family `words`, then change its configuration and its tensors."""
    tiny_model(family, readout, **sizes).save_pretrained(folder)
    tiny_tokenizer(words or family).save_pretrained(folder)
    change_config(folder, **(config or {}))
    change_weights(folder, change)
    drop(folder, *dropped)
    return folder


def checked(folder: Path, base: dict[str, Any], tuned: dict[str, Any], **asked: Any) -> Preflight:
    """Return the check of a bare base and a classifier, each saved with these changes."""
    return preflight(
        saved(folder / "base", **{"readout": "bare", **base}), saved(folder / "tuned", **{"seed": 1, **tuned}), **asked
    )


NO_YES = {"task": task("no", "yes")}
UNKNOWN = {"config": {"model_type": "albatross"}}
HOLE = "layer.1.output.dense.bias"
WINGS = {**UNKNOWN, "change": lambda t: {n.replace("cls.", "wings."): v for n, v in t.items()}}
ALBATROSS = {
    "config": {"model_type": "albatross", "architectures": ["AlbatrossForSequenceClassification"]},
    "change": lambda t: {n.removeprefix("bert."): v for n, v in t.items()},
}
NARROW = {"family": "llama", "change": lambda t: {n: v.to(torch.int8) if v.dim() > 1 else v for n, v in t.items()}}
KINDS = {"multi_label_classification": "is multi-label", "regression": "is a regression"}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], type[Exception], str]] = {
    "another architecture": ({"family": "roberta"}, {}, {}, PairMismatch, "a 'roberta' model"),
    "blocks": ({}, {"num_hidden_layers": 3}, {}, PairMismatch,
               "the base has 2 blocks and the fine-tuned model 3; give the base"),
    "width": ({}, {"intermediate_size": 48}, {}, PairMismatch,
              r"is 32 in the base and 48 in the fine-tuned model \(and"),
    "positions": ({}, {"max_position_embeddings": 32}, {}, PairMismatch, "is 64 x 16 in the base and 32 x 16"),
    "heads": ({}, {"num_attention_heads": 4}, {}, PairMismatch,
              "differ in num_attention_heads: 2 in the base, 4 in the fine-tuned"),
    "activation": ({}, {"hidden_act": "relu"}, {}, PairMismatch, "differ in hidden_act: gelu in the base, relu"),
    "a hole": ({"dropped": [HOLE]}, {}, {}, PairMismatch, f"the base has no 'encoder.{HOLE}'"),
    **{f"an unknown {readout} with a hole": ({**WINGS, "readout": readout, "dropped": [HOLE]}, UNKNOWN,
                                             {"readout": "head"}, PairMismatch, f"the base has no 'encoder.{HOLE}'")
       for readout in ("bare", "prompt")},
    **{f"a bare fine-tuned {family}": ({"family": family}, {"family": family, "readout": "bare"}, {"readout": "head"},
                                       RandomHead, "random") for family in FAMILIES},
    **{f"a bare {family} under a masked LM": ({"family": family}, {"family": family, "readout": "prompt"}, {},
                                              RandomHead, "the base.*no masked-LM head") for family in MASKED},
    "a bare base under an untied head": ({"family": "gpt_neox"}, {"family": "gpt_neox", "readout": "causal"}, {},
                                         RandomHead, "no causal-LM head"),
    "tied beside untied": ({"family": "llama", "readout": "causal", "tie_word_embeddings": False},
                           {"family": "llama", "readout": "causal"}, {}, PairMismatch, "ties its output matrix"),
    **{f"{family} has no {readout}": ({"family": family}, {"family": family}, {"readout": readout}, BadModel,
                                      "possible: head")
       for family, readout in (("bert", "causal"), ("gpt2", "prompt"), ("llama", "prompt"))},
    "an unknown readout": ({}, {}, {"readout": "linear"}, BadInput, "known: prompt, head, causal"),
    "one output": ({}, {"labels": 1}, NO_YES, PairMismatch, "one output"),
    "three labels": ({}, {"labels": 3}, NO_YES, PairMismatch,
                     r"has 3 labels and the task 'mine' has 2 \(no, yes\)"),
    "another model's tokenizer": ({"words": "gpt2"}, {"words": "gpt2"}, {}, PairMismatch, "belongs to another model"),
    "quantized": ({"family": "llama"}, NARROW, {}, BadModel, r"is quantized \(I8\)"),
    **{f"quantized by {method}": ({"family": "llama"}, {"family": "llama", "config": {"quantization_config":
                                  {"quant_method": method}}}, {}, BadModel,
                                  r"Give the model from before it was quantized\.$") for method in ("gptq", [])},
    **{f"a head of {family} that {words}": ({"family": family}, {"family": family, "config": {"problem_type": kind}},
                                            {}, PairMismatch, words)
       for kind, words in KINDS.items() for family in ("bert", "gpt2")},
    "a decoder's token classifier": ({"family": "gpt2"},
                                     {"family": "gpt2", "config": {"architectures": ["GPT2ForTokenClassification"]}},
                                     {}, BadModel, "read at its first token.*not for 'gpt2'"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_pair_that_does_not_fit_has_one_problem_which_is_raised(tmp_path: Path, what: str) -> None:
    base, tuned, asked, kind, words = REFUSED[what]
    check = checked(tmp_path, base, tuned, **asked)
    assert [type(error) for error in check.errors] == [kind], check.problems
    refuses(kind, words, check.raise_first)


NOTED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "a setting that fine-tuning may change": ({}, {"layer_norm_eps": 1e-5}, {},
                                              "differ in layer_norm_eps: 1e-12 in the base, 1e-05 in the fine-tuned"),
    **{f"a tied {family}": ({"family": family}, {"family": family, "readout": "causal"}, {}, "")
       for family in ("gpt2", "opt")},
    "an untied model on a tied one": ({"family": "llama", "readout": "causal"},
                                      {"family": "llama", "readout": "causal", "tie_word_embeddings": False}, {}, ""),
    "the problem of a tied language model": ({"family": "gpt2"}, {"family": "gpt2", "readout": "causal",
                                             "config": {"problem_type": "regression"}}, {}, ""),
    **{f"the head of the base, a {family}, {words}": ({"family": family, "config": {"problem_type": kind}},
                                                      {"family": family, "config": {"problem_type": problem}}, {}, "")
       for family, problem in (("bert", None), ("gpt2", "single_label_classification"))
       for kind, words in KINDS.items()},
    "an unknown architecture": (ALBATROSS, ALBATROSS, {}, "'albatross' is not in skillviz's table"),
    **{f"an unknown {readout}, prefix and head": ({**WINGS, "readout": readout}, UNKNOWN, {"readout": "head"}, "")
       for readout in ("bare", "prompt")},
}  # fmt: skip


@pytest.mark.parametrize("what", NOTED)
def test_what_two_models_may_differ_in_is_at_most_noted(tmp_path: Path, what: str) -> None:
    base, tuned, asked, words = NOTED[what]
    check = checked(tmp_path, base, tuned, **asked)
    assert check.problems == [] and check.readout == asked.get("readout", "causal" if "tied" in what else "head")
    assert any(words in note for note in check.notes) or not words


@pytest.mark.cases(6, 4)
@pytest.mark.parametrize(("family", "readout"), FITTING)
def test_a_fitting_pair_has_no_problem_and_the_table_of_the_loaded_model(base: Path, tuned: Path, readout: str) -> None:
    """A hand-made region is checked against this table before anything is loaded."""
    check = preflight(base, tuned, task("no", "yes"))
    check.raise_first()
    labels = 2 if readout == "head" else None
    assert (check.fits, check.problems, check.readout, check.layers, check.labels) == (True, [], readout, 2, labels)
    assert any("no classification head" in note for note in check.notes) == (readout == "head")
    told, loaded = (
        (table.shapes, table.heads, {p.name: (p.layer, p.kinds, p.is_bias, p.fused) for p in table.parameters})
        for table in (check.table, load_pair(base, tuned, readout=readout).table)
    )
    assert told == loaded


@pytest.mark.nightly
def test_it_is_fast_and_needs_no_torch(base: Path, tuned: Path) -> None:
    code = (
        "import sys, time; from skillviz.models.preflight import preflight; start = time.perf_counter();"
        f"check = preflight({str(base)!r}, {str(tuned)!r}); seconds = time.perf_counter() - start;"
        "assert check.fits and 'torch' not in sys.modules and 'transformers' not in sys.modules; print(seconds)"
    )
    assert float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) < 1


def test_the_same_folder_twice_is_no_pair(tuned: Path) -> None:
    check = preflight(tuned, tuned)
    assert [type(error) for error in check.errors] == [PairMismatch] and "same folder" in check.problems[0]


def test_other_vocabulary(base: Path, tuned: Path) -> None:
    own, tokenizer = "embeddings.word_embeddings.weight", tiny_tokenizer("bert")
    rows = len(weights(base)[own])
    change_weights(base, lambda t: {**t, own: torch.cat([t[own], t[own][:1]])})
    change_config(base, vocab_size=rows + 1)
    tokenizer.add_tokens(["[added]"])
    tokenizer.save_pretrained(base)
    words = f"{rows + 1} tokens in the base, {rows} in.*uses rows that only the base"
    refuses(PairMismatch, words, preflight(base, tuned).raise_first)


@pytest.mark.parametrize("family", MASKED)
def test_a_bare_model_without_a_named_readout_has_none(tmp_path: Path, family: str) -> None:
    check = checked(tmp_path, {"family": family}, {"family": family, "readout": "bare"})
    assert (check.readout, [type(error) for error in check.errors]) == ("", [RandomHead])
    assert "would be random" in check.problems[0]


@pytest.mark.parametrize(
    ("names", "labels", "order", "words", "is_told"),
    [
        ("yes no", "no yes", (1, 0), "matched by name", True),
        ("No Yes", "no yes", None, "labels", False),
        ("maybe No", "no yes", (1, 0), "'maybe' as 'yes'", True),  # one name of two tells both
        ("maybe No", "no yes maybe", None, "matched by", False),  # nothing is matched
    ],
)
def test_other_label_names_are_a_note(
    tmp_path: Path, names: str, labels: str, order: tuple[int, ...] | None, words: str, is_told: bool
) -> None:
    named = {"config": {"id2label": {str(number): name for number, name in enumerate(names.split())}}}
    check = checked(tmp_path, {}, named, task=task(*labels.split()))
    said = any(words in note for note in check.notes)
    assert (check.fits, check.class_order, said) == (len(labels.split()) == 2, order, is_told)


def test_without_its_tokenizer_the_base_takes_the_fine_tuned_models(base: Path, tuned: Path) -> None:
    drop_tokenizer(base)
    check = preflight(base, tuned)
    assert check.fits and check.tokenizer_folder == tuned
    assert any("fine-tuned model's is used" in note for note in check.notes)
    drop_tokenizer(tuned)
    refuses(ModelNotFound, "tokenizer", preflight(base, tuned).raise_first)


def test_stored_dtype_is_a_note(tmp_path: Path) -> None:
    check, both = (
        preflight(*tiny_pair(tmp_path / str(base), dtype=torch.bfloat16, base_dtype=base))
        for base in (torch.float16, torch.bfloat16)
    )
    assert {
        f"The {who} file is stored as {kind}. It is loaded as float32 by default."
        for who, kind in (("base's", "float16"), ("fine-tuned model's", "bfloat16"))
    } <= set(check.notes)
    assert sum("loaded as float32 by default, and as bfloat16 in lean mode." in note for note in both.notes) == 2


def test_a_model_without_blocks(tmp_path: Path) -> None:
    check = checked(tmp_path, {"dropped": [".layer."]}, {"dropped": [".layer."]})
    assert check.d is None and any("nothing can be grafted" in problem for problem in check.problems)


@pytest.mark.parametrize(
    ("family", "old"),
    [
        ("bert", lambda t: {n.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): t[n] for n in t}),
        ("gpt2", lambda t: {**t, "h.0.attn.bias": torch.ones(1, 1, 8, 8)}),
    ],
    ids=["bert", "gpt2"],
)
def test_old_names_and_stored_masks_count_as_todays(tmp_path: Path, family: str, old: Any) -> None:
    new, base = (checked(tmp_path / name, {"family": family, **change}, {"family": family})
                 for name, change in (("new", {}), ("old", {"change": old})))  # fmt: skip
    assert base.fits and base.d == new.d
    assert differing(*(weights(tmp_path / name / "base") for name in ("new", "old"))), "the file has other names"


def test_all_problems_are_told_and_the_first_is_raised(tmp_path: Path) -> None:
    check = checked(tmp_path, {}, {"labels": 3, "hidden_act": "relu"}, **NO_YES)
    assert [(problem[0] != ".", problem[-1]) for problem in check.problems] == [(True, ".")] * 2
    refuses(PairMismatch, "hidden_act", check.raise_first)


def test_files_that_cannot_be_read_are_raised_at_once(base: Path, tuned: Path, tmp_path: Path) -> None:
    path = base / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    for folder, kind in ((tmp_path / "nowhere", ModelNotFound), (base, CorruptFile)):
        refuses(kind, None, preflight, folder, tuned)


@pytest.mark.real
def test_minilm_is_an_encoder_and_nothing_else(real: Path, tmp_path: Path) -> None:
    minilm, start = real / "models" / "minilm-l6", time.perf_counter()
    check = preflight(minilm, minilm, readout="prompt")
    assert time.perf_counter() - start < 1 and check.d == 10_646_784
    assert any(isinstance(error, RandomHead) for error in check.errors)
    assert any("stored as float16" in note for note in check.notes)


def test_of_an_unknown_family_s_head_nothing_is_claimed(tmp_path: Path) -> None:
    nezha = {"config": {"model_type": "nezha"}}
    notes = " ".join(checked(tmp_path, nezha, nezha, readout="head").notes)
    assert "Whatever classification head the base has" in notes and "of its own" not in notes


@pytest.fixture
def roberta(tmp_path: Path) -> Path:
    """Return the folder of a tokenizer, with a configuration."""
    tiny_tokenizer("roberta").save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "roberta", "n_positions": 64}')
    return tmp_path


@pytest.mark.parametrize("family", MASKED)
@pytest.mark.parametrize(
    "words", (("good", "bad"), ("good", "good!"), ("unheard-of", "bad"), ("Good", "good"), ("good bad", "bad"))
)
def test_it_says_what_the_loaded_tokenizer_says(
    family: str, words: tuple[str, str], tiny: Task, tmp_path: Path
) -> None:
    changed, tokenizer = tiny.model_copy(update={"label_words": LabelWords(masked=words)}), tiny_tokenizer(family)
    tokenizer.save_pretrained(tmp_path)
    said = words_problem(changed, "prompt", tmp_path)
    with pytest.raises(BadLabelWord, match=re.escape(said)) if said else nullcontext():
        word_ids(changed, parse(changed.wording("prompt")[0], changed.text), words, tokenizer)


def test_a_readout_without_template_is_said_and_a_head_needs_none(tiny: Task, tmp_path: Path) -> None:
    bare = tiny.model_copy(update={"template": type(tiny.template)()})
    for readout, kind in (("prompt", "masked"), ("causal", "causal")):
        assert f"has no {kind} template" in words_problem(bare, readout, tmp_path)
    assert words_problem(bare, "head", tmp_path) == "" == words_problem(tiny, "prompt", tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        {"model": 3}, {"model": {"vocab": 3}},
        {"model": {"vocab": {"a": "b"}}}, {"model": {"vocab": {"a": 1, "b": "c"}}},
        {"model": {"vocab": {"a": float("inf")}}},
        {"added_tokens": 3}, {"added_tokens": [3]}, {"added_tokens": [{}]}, {"added_tokens": [{"id": "x"}]},
    ],
)  # fmt: skip
def test_a_strange_vocabulary_is_refused(tmp_path: Path, content: object) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    refuses(CorruptFile, "none of tokens and ids", vocabulary, tmp_path)


STRANGE = {
    "a charsmap of nonsense": ("tokenizer.json", "normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
    "an unknown normalizer": ("tokenizer.json", "normalizer", {"type": "None such"}),
    "an empty vocabulary": ("tokenizer.json", "model", {"type": "WordPiece", "vocab": {}, "unk_token": "[UNK]",
                                                        "continuing_subword_prefix": "##",
                                                        "max_input_chars_per_word": 9}),
    "a token id below 0": ("tokenizer.json", "added_tokens", [{"id": -1, "content": "a", "special": True}]),
    "a length that is no number": ("tokenizer_config.json", "model_max_length", "x"),
    "a class that is a list": ("tokenizer_config.json", "tokenizer_class", ["a"]),
    "a mask that is a number": ("tokenizer_config.json", "mask_token", 5),
    "added tokens that are a list": ("tokenizer_config.json", "added_tokens_decoder", [1]),
    "special tokens that are numbers": ("tokenizer_config.json", "extra_special_tokens", [1]),
    "a padding id that is no number": ("config.json", "pad_token_id", "x"),
}  # fmt: skip


@pytest.mark.parametrize("what", STRANGE)
def test_a_strange_tokenizer_is_refused_in_a_sentence(what: str, tiny: Task, roberta: Path) -> None:
    """Every error of the libraries, even a panic of their Rust code, becomes one sentence; some raise no error."""
    name, key, value = STRANGE[what]
    change_json(roberta / name, **{key: value})
    refuses(SkillvizError, r"cannot be used|none of tokens and ids", load_tokenizer, roberta)
    assert isinstance(words_problem(tiny, "prompt", roberta), str)


def test_deep_json_beside_a_tokenizer_is_refused_in_a_sentence(roberta: Path) -> None:
    (roberta / "tokenizer_config.json").write_text("[" * 200_000)
    refuses(BadModel, "cannot be used", load_tokenizer, roberta)


def test_a_normalizer_that_lengthens_texts_without_end_is_refused(tiny: Task, roberta: Path) -> None:
    longer = {"type": "Replace", "pattern": {"String": "e"}, "content": "ee" * 50}
    change_json(roberta / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": [longer] * 4})
    refuses(BadModel, "100,000,000 times as long", load_tokenizer, roberta)
    assert "times as long" in words_problem(tiny, "prompt", roberta)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_what_is_no_fault_of_a_tokenizer_passes(error: type[BaseException]) -> None:
    with pytest.raises(error), refused("a"):
        raise error

"""Tests of preflight's messages for pairs that fit and pairs that do not, without torch and without weights."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from skillviz.errors import BadInput, BadModel, CorruptFile, ModelNotFound, PairMismatch, RandomHead, SkillvizError
from skillviz.models.heads import own_shapes
from skillviz.models.pair import load_pair
from skillviz.models.preflight import Preflight, preflight
from skillviz.tasks.task import LabelWords, Task
from tests.models.folders import change_config, change_weights, drop, drop_tokenizer
from tests.tasks.make import made
from tests.tiny import FAMILIES, MASKED, tiny_model, tiny_pair, tiny_tokenizer

FITTING = [(f, r) for f in FAMILIES for r in (("head", "prompt") if f in MASKED else ("head", "causal"))]


def task(*labels: str) -> Task:
    return made(name="mine", labels=labels, label_words=LabelWords())


def only_problem(check: Preflight, kind: type[SkillvizError]) -> str:
    assert [type(e) for e in check.errors] == [kind], check.problems
    with pytest.raises(kind):
        check.raise_first()
    return check.problems[0]


def save(folder: Path, family: str, readout: str, **changes: Any) -> Path:
    tiny_model(family, readout, **changes).save_pretrained(folder)
    tiny_tokenizer(family).save_pretrained(folder)
    return folder


@pytest.mark.cases(6, 4)
@pytest.mark.parametrize(("family", "readout"), FITTING)
def test_a_fitting_pair_has_no_problem(tmp_path: Path, family: str, readout: str) -> None:
    check = preflight(*tiny_pair(tmp_path, family, readout), task("no", "yes"))
    assert check.fits and check.problems == []
    check.raise_first()
    assert (check.readout, check.layers) == (readout, 2)
    assert check.labels == (2 if readout == "head" else None)
    assert any("no classification head" in note for note in check.notes) == (readout == "head")


@pytest.mark.nightly
def test_it_is_fast_and_needs_no_torch(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    code = (
        "import sys, time; from skillviz.models.preflight import preflight; start = time.perf_counter();"
        f"check = preflight({str(base)!r}, {str(tuned)!r}); seconds = time.perf_counter() - start;"
        "assert check.fits and 'torch' not in sys.modules and 'transformers' not in sys.modules; print(seconds)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1


def test_same_folder(tmp_path: Path) -> None:
    _, tuned = tiny_pair(tmp_path)
    assert "same folder" in only_problem(preflight(tuned, tuned), PairMismatch)


def test_other_architecture(tmp_path: Path) -> None:
    base, _ = tiny_pair(tmp_path / "a", "roberta")
    _, tuned = tiny_pair(tmp_path / "b", "bert")
    assert "a 'roberta' model" in only_problem(preflight(base, tuned), PairMismatch)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_hidden_layers": 3}, "the base has 2 blocks and the fine-tuned model 3; give the base"),
        ({"intermediate_size": 48}, "is 32 in the base and 48 in the fine-tuned model (and"),
        ({"max_position_embeddings": 32}, "is 64 x 16 in the base and 32 x 16"),
        ({"num_attention_heads": 4}, "differ in num_attention_heads: 2 in the base, 4 in the fine-tuned"),
        ({"hidden_act": "relu"}, "differ in hidden_act: gelu in the base, relu"),
    ],
)
def test_other_sizes(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    base, _ = tiny_pair(tmp_path / "a", "bert")
    tuned = save(tmp_path / "b", "bert", "head", **changes)
    assert any(words in problem for problem in preflight(base, tuned).problems)


def test_a_setting_that_fine_tuning_may_change_is_said(tmp_path: Path) -> None:
    base, _ = tiny_pair(tmp_path / "a", "bert")
    tuned = save(tmp_path / "b", "bert", "head", layer_norm_eps=1e-5)
    found = preflight(base, tuned)
    assert not found.problems
    assert any("differ in layer_norm_eps: 1e-12 in the base, 1e-05 in the fine-tuned" in note for note in found.notes)


def test_other_vocabulary(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    rows = own_shapes(preflight(base, tuned).base)["embeddings.word_embeddings.weight"][0]
    own = "embeddings.word_embeddings.weight"
    change_weights(base, lambda t: {**t, own: torch.cat([t[own], t[own][:1]])})
    change_config(base, vocab_size=rows + 1)
    tokenizer = tiny_tokenizer("bert")
    tokenizer.add_tokens(["[added]"])
    tokenizer.save_pretrained(base)
    problem = only_problem(preflight(base, tuned), PairMismatch)
    assert f"{rows + 1} tokens in the base, {rows} in" in problem and "uses rows that only the base has" in problem


def test_a_body_with_a_hole(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    drop(base, "layer.1.output.dense.bias")
    problem = only_problem(preflight(base, tuned), PairMismatch)
    assert "the base has no 'encoder.layer.1.output.dense.bias'" in problem


@pytest.mark.parametrize("family", FAMILIES)
def test_a_bare_fine_tuned_model_has_no_head(tmp_path: Path, family: str) -> None:
    base, _ = tiny_pair(tmp_path / "a", family)
    bare = save(tmp_path / "b", family, "bare", seed=1)
    assert any(isinstance(e, RandomHead) for e in preflight(base, bare, readout="head").errors)


@pytest.mark.parametrize("family", MASKED)
def test_a_bare_model_without_a_named_readout(tmp_path: Path, family: str) -> None:
    base, _ = tiny_pair(tmp_path / "a", family)
    bare = save(tmp_path / "b", family, "bare", seed=1)
    check = preflight(base, bare)
    assert check.readout == "" and "would be random" in only_problem(check, RandomHead)


@pytest.mark.parametrize("family", MASKED)
def test_a_bare_encoder_is_no_masked_lm(tmp_path: Path, family: str) -> None:
    _, tuned = tiny_pair(tmp_path / "a", family, "prompt")
    base = save(tmp_path / "b", family, "bare")
    problem = only_problem(preflight(base, tuned), RandomHead)
    assert "the base" in problem and "no masked-LM head" in problem


@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_a_tied_head_counts_as_there(tmp_path: Path, family: str) -> None:
    _, tuned = tiny_pair(tmp_path / "a", family, "causal")
    bare = save(tmp_path / "b", family, "bare")
    assert preflight(bare, tuned).fits


def test_an_untied_head_that_is_missing(tmp_path: Path) -> None:
    _, tuned = tiny_pair(tmp_path / "a", "gpt_neox", "causal")
    bare = save(tmp_path / "b", "gpt_neox", "bare")
    assert "no causal-LM head" in only_problem(preflight(bare, tuned), RandomHead)


def test_tied_beside_untied(tmp_path: Path) -> None:
    base = save(tmp_path / "a", "llama", "causal", tie_word_embeddings=False)
    tuned = save(tmp_path / "b", "llama", "causal", seed=1)
    assert "ties its output matrix" in only_problem(preflight(base, tuned), PairMismatch)
    # In the other direction the base's output matrix is its embedding, and the pair fits.
    assert preflight(tuned, base).fits


@pytest.mark.parametrize(("family", "readout"), [("bert", "causal"), ("gpt2", "prompt"), ("llama", "prompt")])
def test_a_readout_that_the_family_lacks(tmp_path: Path, family: str, readout: str) -> None:
    check = preflight(*tiny_pair(tmp_path, family), readout=readout)
    assert "possible: head" in only_problem(check, BadModel)


def test_an_unknown_readout(tmp_path: Path) -> None:
    check = preflight(*tiny_pair(tmp_path), readout="linear")
    assert "known: prompt, head, causal" in only_problem(check, BadInput)


@pytest.mark.parametrize("labels", [1, 3])
def test_other_number_of_labels(tmp_path: Path, labels: int) -> None:
    check = preflight(*tiny_pair(tmp_path, labels=labels), task("no", "yes"))
    words = "one output" if labels == 1 else "has 3 labels and the task 'mine' has 2 (no, yes)"
    assert words in only_problem(check, PairMismatch)


def test_other_label_names_are_a_note(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    change_config(tuned, id2label={"1": "no", "0": "yes"})
    check = preflight(base, tuned, task("no", "yes"))
    assert check.fits and check.class_order == (1, 0)
    assert any("matched by name" in note for note in check.notes)
    change_config(tuned, id2label={"1": "Yes", "0": "No"})
    assert not any("labels" in note for note in preflight(base, tuned, task("no", "yes")).notes)
    change_config(tuned, id2label={"0": "maybe", "1": "No"})
    check = preflight(base, tuned, task("no", "yes"))
    assert check.class_order == (1, 0), "one name of two tells both"
    assert any("'maybe' as 'yes'" in note for note in check.notes)
    three = preflight(base, tuned, task("no", "yes", "maybe"))
    assert three.errors and not any("matched by" in note for note in three.notes), "nothing is matched"


def test_no_tokenizer(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    drop_tokenizer(base)
    check = preflight(base, tuned)
    assert check.fits and check.tokenizer_folder == tuned
    assert any("fine-tuned model's is used" in note for note in check.notes)
    drop_tokenizer(tuned)
    assert "tokenizer" in only_problem(preflight(base, tuned), ModelNotFound)


def test_a_tokenizer_of_another_model(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    for folder in (base, tuned):
        tiny_tokenizer("gpt2").save_pretrained(folder)
    assert "belongs to another model" in only_problem(preflight(base, tuned), PairMismatch)


def test_two_tokenizers_are_a_note(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    path = tuned / "tokenizer.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "padding": {"strategy": "BatchLongest"}}))
    assert not any("tokenizers differ" in note for note in preflight(base, tuned).notes)
    content["normalizer"]["lowercase"] = False
    path.write_text(json.dumps(content))
    assert any("tokenizers differ" in note for note in preflight(base, tuned).notes)


def test_stored_dtype_is_a_note(tmp_path: Path) -> None:
    check = preflight(*tiny_pair(tmp_path / "a", dtype=torch.bfloat16, base_dtype=torch.float16))
    assert "The base's file is stored as float16. It is loaded as float32 by default." in check.notes
    assert "The fine-tuned model's file is stored as bfloat16. It is loaded as float32 by default." in check.notes
    both = preflight(*tiny_pair(tmp_path / "b", dtype=torch.bfloat16, base_dtype=torch.bfloat16))
    assert sum("loaded as float32 by default, and as bfloat16 in lean mode." in note for note in both.notes) == 2


def test_quantised_weights(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "llama")
    change_weights(tuned, lambda t: {n: v.to(torch.int8) if v.dim() > 1 else v for n, v in t.items()})
    assert "is quantized (I8)" in only_problem(preflight(base, tuned), BadModel)


def test_an_unknown_architecture_is_a_note(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    for folder in (base, tuned):
        change_config(folder, model_type="albatross", architectures=["AlbatrossForSequenceClassification"])
        change_weights(folder, lambda t: {n.removeprefix("bert."): v for n, v in t.items()})
    check = preflight(base, tuned)
    assert check.fits and check.readout == "head"
    assert any("'albatross' is not in skillviz's table" in note for note in check.notes)


@pytest.mark.parametrize("base_readout", ["bare", "prompt"])
def test_an_unknown_architecture_may_have_another_prefix_and_other_heads(tmp_path: Path, base_readout: str) -> None:
    base, tuned = save(tmp_path / "base", "bert", base_readout), save(tmp_path / "tuned", "bert", "head", seed=1)
    for folder in (base, tuned):
        change_config(folder, model_type="albatross")
    change_weights(base, lambda t: {n.replace("cls.", "wings."): v for n, v in t.items()})
    check = preflight(base, tuned, readout="head")
    assert check.fits, check.problems
    drop(base, "layer.1.output.dense.bias")
    assert "the base has no 'encoder.layer.1.output.dense.bias'" in preflight(base, tuned, readout="head").problems[0]


def test_a_model_without_blocks(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    for folder in (base, tuned):
        drop(folder, ".layer.")
    check = preflight(base, tuned)
    assert check.d is None and any("nothing can be grafted" in problem for problem in check.problems)


def test_custom_code_is_named_and_not_run(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    change_config(base, auto_map={"AutoModel": "evil.Model"})
    (base / "evil.py").write_text("raise SystemExit('ran')")
    assert any("never runs" in note for note in preflight(base, tuned).notes)


def test_old_names_and_stored_masks_count_as_todays(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path / "bert", "bert")
    wanted = preflight(base, tuned).d
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}

    def renamed(name: str) -> str:
        for new, ancient in old.items():
            name = name.replace(new, ancient)
        return name

    change_weights(base, lambda t: {renamed(n): v for n, v in t.items()})
    assert preflight(base, tuned).fits and preflight(base, tuned).d == wanted
    base, tuned = tiny_pair(tmp_path / "gpt2", "gpt2")
    wanted = preflight(base, tuned).d
    change_weights(base, lambda t: {**t, "h.0.attn.bias": torch.ones(1, 1, 8, 8)})
    assert preflight(base, tuned).fits and preflight(base, tuned).d == wanted


def test_all_problems_are_told_and_the_first_is_raised(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, labels=3)
    change_config(tuned, hidden_act="relu")
    check = preflight(base, tuned, task("no", "yes"))
    assert len(check.problems) == 2 and all(problem[0] != problem[-1] == "." for problem in check.problems)
    with pytest.raises(PairMismatch, match="hidden_act"):
        check.raise_first()


def test_files_that_cannot_be_read_are_raised_at_once(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    with pytest.raises(ModelNotFound):
        preflight(tmp_path / "nowhere", tuned)
    path = base / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(CorruptFile):
        preflight(base, tuned)


@pytest.mark.real
def test_minilm_is_an_encoder_and_nothing_else(real: Path, tmp_path: Path) -> None:
    minilm = real / "models" / "minilm-l6"
    start = time.perf_counter()
    check = preflight(minilm, minilm, readout="prompt")
    assert time.perf_counter() - start < 1
    assert check.d == 10_646_784
    assert any(isinstance(e, RandomHead) for e in check.errors)
    assert any("stored as float16" in note for note in check.notes)


def test_a_decoder_s_token_classifier_is_refused_before_any_weight_is_read(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "gpt2")
    change_config(tuned, architectures=["GPT2ForTokenClassification"])
    found = preflight(base, tuned)
    assert any("read at its first token" in problem and "not for 'gpt2'" in problem for problem in found.problems)


def test_of_an_unknown_family_s_head_nothing_is_claimed(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path)
    for folder in (base, tuned):
        change_config(folder, model_type="nezha")
    notes = " ".join(preflight(base, tuned, readout="head").notes)
    assert "Whatever classification head the base has" in notes and "of its own" not in notes


@pytest.mark.cases(5, 4)
@pytest.mark.parametrize(("family", "readout"), FITTING)
def test_its_table_names_what_the_loaded_model_has(tmp_path: Path, family: str, readout: str) -> None:
    """A hand-made region is checked against this table before anything is loaded."""
    pair = tiny_pair(tmp_path, family, readout)
    told, loaded = preflight(*pair, readout=readout).table, load_pair(*pair, readout=readout).table
    assert told is not None and told.shapes == loaded.shapes and told.heads == loaded.heads
    kinds = [{p.name: (p.layer, p.kinds, p.is_bias, p.fused) for p in table.parameters} for table in (told, loaded)]
    assert kinds[0] == kinds[1]

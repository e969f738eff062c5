"""Tests of checkpoints from other programs: names of wrappers, padded vocabularies, other heads, quantized weights."""

from __future__ import annotations

import ast
import json
import shlex
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, BitsAndBytesConfig

from skillviz.core.graft import Graft, grafted
from skillviz.core.region import Region
from skillviz.errors import BadInput, BadModel, CorruptFile, PairMismatch
from skillviz.models.applied import applied, opened_base, save_applied
from skillviz.models.checkpoint import read_info
from skillviz.models.finetune.trainable_model import open_trainable
from skillviz.models.finetune.training_config import TrainingConfig
from skillviz.models.frozen_tensors import fill, strip
from skillviz.models.load import load_model
from skillviz.models.pair import load_pair, rehearse
from skillviz.models.peft_adapter import write_adapter
from skillviz.models.preflight import dequantizing, preflight
from skillviz.models.tokenizer import load_tokenizer
from skillviz.runs.export import write_mergekit
from skillviz.tasks import registry
from tests.models.folders import change_config, change_weights, drop_tokenizer
from tests.tiny import FAMILIES, MASKED, tiny_pair, tiny_task, tiny_tokenizer

WRAPPERS = ("_orig_mod.", "module.", "module._orig_mod.", "_orig_mod.module.")
READOUTS = [(f, r) for f in FAMILIES for r in (("head", "prompt") if f in MASKED else ("head", "causal"))]


def wrap(folder: Path, prefix: str) -> None:
    change_weights(folder, lambda tensors: {prefix + name: tensor for name, tensor in tensors.items()})


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("prefix", WRAPPERS)
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_a_wrapped_model_is_the_model_inside(tmp_path: Path, family: str, prefix: str) -> None:
    base, tuned = tiny_pair(tmp_path, family)
    plain = load_pair(base, tuned)
    fingerprint = read_info(tuned).fingerprint
    wrap(tuned, prefix)
    wrap(base, "module.")
    check = preflight(base, tuned)
    assert check.fits and sum("saved inside a wrapper" in note for note in check.notes) == 2
    assert any(f"'{prefix}' is left out" in note for note in check.notes)
    rehearse(check)
    pair = load_pair(base, tuned)
    assert torch.equal(pair.base, plain.base) and torch.equal(pair.finetuned, plain.finetuned)
    assert pair.head().keys() == plain.head().keys()
    assert all(torch.equal(tensor, plain.head()[name]) for name, tensor in pair.head().items())
    assert read_info(tuned).fingerprint == fingerprint


def test_layers_that_were_compiled_one_by_one(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    plain = load_pair(base, tuned)
    change_weights(tuned, lambda t: {n.replace("layer.1.", "layer.1._orig_mod."): v for n, v in t.items()})
    assert torch.equal(load_pair(base, tuned).finetuned, plain.finetuned)


def test_a_graft_on_a_wrapped_base_is_written_under_the_models_own_names(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    wrap(base, "_orig_mod.")
    pair = load_pair(base, tuned)
    graft = pair.graft(Region.full(pair.table.shapes))
    save_applied(applied(base, graft), tmp_path / "out")
    written = load_file(tmp_path / "out" / "model.safetensors")
    assert written.keys() == load_file(tuned / "model.safetensors").keys()
    assert all(torch.equal(written[name], tensor) for name, tensor in load_file(tuned / "model.safetensors").items())


def test_a_wrapped_pair_is_stored_as_its_difference(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    plain = read_info(tuned).fingerprint
    wrap(base, "module.")
    wrap(tuned, "_orig_mod.")
    strip(tuned, base)
    load_pair(base, tuned)
    fill(tuned, base)
    assert read_info(tuned).fingerprint == plain


def test_a_tensor_with_and_without_the_wrapper_is_refused(tmp_path: Path) -> None:
    _, tuned = tiny_pair(tmp_path, "bert")
    change_weights(tuned, lambda t: {**t, **{"_orig_mod." + name: v for name, v in list(t.items())[:1]}})
    with pytest.raises(CorruptFile, match="with and without"):
        read_info(tuned)


def resize(folder: Path, readout: str, more: int) -> int:
    """Add `more` vocabulary rows to the end of the folder's model (negative removes rows); return the number before."""
    model = load_model(folder, readout).model
    before = int(model.config.vocab_size)
    model.resize_token_embeddings(before + more, mean_resizing=False)
    model.save_pretrained(folder)
    return before


@pytest.mark.cases(2, 7)
@pytest.mark.slow
@pytest.mark.parametrize("is_base", [False, True])
@pytest.mark.parametrize(("family", "readout"), READOUTS)
def test_a_padded_vocabulary_is_taken_at_the_bases_rows(
    tmp_path: Path, family: str, readout: str, is_base: bool
) -> None:
    base, tuned = tiny_pair(tmp_path, family, readout)
    plain = load_pair(base, tuned, readout=readout)
    rows = resize(base if is_base else tuned, readout, 6)
    check = preflight(base, tuned, readout=readout)
    assert check.fits, check.problems
    assert any("6 more vocabulary rows" in note for note in check.notes)
    rehearse(check)
    draw = torch.get_rng_state()
    pair = load_pair(base, tuned, readout=readout)
    assert torch.equal(torch.get_rng_state(), draw)
    assert torch.equal(pair.base, plain.base) and torch.equal(pair.finetuned, plain.finetuned)
    assert pair.outside.keys() == plain.outside.keys() == set()
    embedding = pair.model.get_input_embeddings().weight
    assert len(embedding) == rows + 6 * is_base == pair.model.config.vocab_size
    assert torch.equal(embedding[:rows], plain.model.get_input_embeddings().weight)
    stored = load_model(base, readout).model.get_input_embeddings().weight
    assert torch.equal(embedding, stored)


def with_added_token(folder: Path, family: str, readout: str) -> int:
    """Add a token and eight rows to the folder's model; return the number of rows before."""
    rows = resize(folder, readout, 8)
    tokenizer = tiny_tokenizer(family)
    assert tokenizer.add_tokens(["[added]"]) == 1 and tokenizer.convert_tokens_to_ids("[added]") >= rows
    tokenizer.save_pretrained(folder)
    return rows


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(("family", "readout"), [("bert", "prompt"), ("gpt2", "causal"), ("llama", "head")])
def test_a_base_is_extended_by_the_rows_of_added_tokens(tmp_path: Path, family: str, readout: str) -> None:
    base, tuned = tiny_pair(tmp_path, family, readout, move_embeddings=True)
    plain = load_pair(base, tuned, readout=readout)
    rows = with_added_token(tuned, family, readout)
    check = preflight(base, tuned, readout=readout)
    assert check.fits, check.problems
    assert any("8 more vocabulary rows" in n and "also in 'pretrained'" in n for n in check.notes)
    assert not any("tokenizers differ" in note for note in check.notes) and check.tokenizer_folder == tuned
    rehearse(check)
    pair = load_pair(base, tuned, readout=readout)
    assert torch.equal(pair.base, plain.base) and torch.equal(pair.finetuned, plain.finetuned)
    assert max(pair.tokenizer("a [added] b")["input_ids"]) >= rows and set(check.notes) <= set(pair.notes)
    stored = {folder: load_model(folder, readout).model.get_input_embeddings().weight for folder in (base, tuned)}
    for state, old in (("pretrained", base), ("finetuned", tuned)):
        with pair.at(state):
            embedding = pair.model.get_input_embeddings().weight
            assert torch.equal(embedding[:rows], stored[old][:rows])
            assert torch.equal(embedding[rows:], stored[tuned][rows:]) and len(embedding) == rows + 8


@pytest.mark.cases(2, 1)
@pytest.mark.parametrize(
    ("family", "readout", "tensors"),
    [("bert", "prompt", 2), ("bert", "head", 1), ("gpt2", "causal", 1), ("gpt_neox", "causal", 2)],
)
def test_a_graft_brings_the_rows_of_added_tokens(tmp_path: Path, family: str, readout: str, tensors: int) -> None:
    """On the plain base the graft gives the run's own logits, and its tokenizer has the token. Besides the
    embedding, a vocabulary has a bias (bert), or a separate output matrix (gpt_neox)."""
    base, tuned = tiny_pair(tmp_path, family, readout)
    rows = with_added_token(tuned, family, readout)
    pair = load_pair(base, tuned, readout=readout)
    region = Region.from_flat(np.random.default_rng(0).permutation(pair.d)[:300], pair.table.shapes)
    pair.graft(region).save(tmp_path / "graft.safetensors")
    graft = Graft.load(tmp_path / "graft.safetensors")
    assert graft.rows and all(len(added) == 8 for added in graft.rows.values())
    assert len(graft.rows) == tensors
    ids = pair.tokenizer("a [added] b c", return_tensors="pt")
    assert int(ids["input_ids"].max()) >= rows
    with pair.at("grafted", region), torch.inference_mode():
        wanted = pair.model(**ids).logits
    draw = torch.get_rng_state()
    result = applied(base, graft)
    assert torch.equal(torch.get_rng_state(), draw)
    save_applied(result, tmp_path / "out")
    for model, tokenizer in (
        (result.model, result.tokenizer),
        (load_model(tmp_path / "out", readout).model, load_tokenizer(tmp_path / "out")),
    ):
        assert torch.equal(tokenizer("a [added] b c", return_tensors="pt")["input_ids"], ids["input_ids"])
        with torch.inference_mode():
            assert torch.equal(model(**ids).logits, wanted)
        assert model.config.vocab_size == rows + 8
    plain = load_model(base, readout).model if readout != "head" else result.model
    before = {name: tensor.clone() for name, tensor in plain.state_dict().items()}
    with grafted(plain, graft), torch.inference_mode():
        assert torch.equal(plain.eval()(**ids).logits, wanted)
    assert all(torch.equal(tensor, before[name]) for name, tensor in plain.state_dict().items())
    with pytest.raises(BadInput, match="peft would store the whole embedding"):
        write_adapter(tmp_path, result.model, graft, "base")
    write_mergekit(tmp_path / "merge", opened_base(base, graft), graft)
    start, end = (load_model(tmp_path / "merge" / name, readout).model.state_dict() for name in ("base", "graft"))
    assert all(torch.equal(start[name][rows:], end[name][rows:]) for name in graft.rows)
    assert len(load_tokenizer(tmp_path / "merge" / "graft")) == rows + 1


def test_what_cannot_carry_added_tokens_is_refused(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "gpt2", "causal")
    with_added_token(tuned, "gpt2", "causal")
    pair = load_pair(base, tuned, readout="causal")
    graft = pair.graft(Region.full(pair.table.shapes))
    other, _ = tiny_pair(tmp_path / "other", "gpt2", "causal", seed=5)
    resize(other, "causal", 3)
    with pytest.raises(PairMismatch, match=r"the graft adds 8 rows to the [0-9,]+ of its base"):
        applied(other, graft, force=True)
    (base / "tokenizer.json").unlink()
    with pytest.raises(BadInput, match="its tokenizer is not the base's with tokens added"):
        load_pair(base, tuned, readout="causal").graft(Region.full(pair.table.shapes))


def test_added_tokens_that_take_the_ids_of_others_are_refused(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "gpt2")
    with_added_token(tuned, "gpt2", "head")
    path = tuned / "tokenizer.json"
    content = json.loads(path.read_text())
    one, other = list(content["model"]["vocab"])[-2:]
    ids = content["model"]["vocab"]
    ids[one], ids[other] = ids[other], ids[one]
    path.write_text(json.dumps(content))
    with pytest.raises(PairMismatch, match=r"it gives '.+' \(and 1 more\) another id; added tokens are accepted where"):
        preflight(base, tuned).raise_first()


def test_more_tokens_than_rows_are_refused(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "gpt2")
    rows = resize(tuned, "head", 1)
    tokenizer = tiny_tokenizer("gpt2")
    tokenizer.add_tokens(["[added]", "[too]", "[many]"])
    tokenizer.save_pretrained(tuned)
    with pytest.raises(PairMismatch, match=rf"the tokenizer has {rows + 3} tokens and the model {rows + 1}"):
        preflight(base, tuned).raise_first()


def test_without_a_tokenizers_size_nothing_is_taken_for_padding(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    resize(tuned, "head", 8)
    drop_tokenizer(tuned)
    assert preflight(base, tuned).fits
    drop_tokenizer(base)
    assert "vocabularies differ" in preflight(base, tuned).problems[0]


def test_other_shapes_beside_a_padded_vocabulary_are_told(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert")
    rows = resize(tuned, "head", 8)
    name = "bert.embeddings.position_embeddings.weight"
    change_weights(tuned, lambda t: {**t, name: t[name][:32]})
    assert "the shapes differ: 'embeddings.position_embeddings.weight'" in preflight(base, tuned).problems[0]
    change_config(tuned, vocab_size=rows)  # the configuration then disagrees with the file
    assert "(and 1 more)" in preflight(base, tuned).problems[0]


KINDS = {"multi_label_classification": "is multi-label", "regression": "is a regression"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_head_that_tells_no_classes_apart_is_refused(tmp_path: Path, family: str, kind: str) -> None:
    base, tuned = tiny_pair(tmp_path, family)
    change_config(base, problem_type=kind)  # the base's head is not used
    assert preflight(base, tuned).fits
    change_config(tuned, problem_type=kind)
    with pytest.raises(PairMismatch, match=KINDS[kind]):
        load_pair(base, tuned)
    change_config(tuned, problem_type="single_label_classification")
    assert preflight(base, tuned).fits


def test_a_language_models_problem_type_is_nothing_to_it(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "gpt2", "causal")
    change_config(tuned, problem_type="regression")
    assert preflight(base, tuned).fits


@pytest.mark.parametrize("kind", KINDS)
def test_fine_tuning_does_not_go_on_with_such_a_head(tmp_path: Path, kind: str) -> None:
    _, classifier = tiny_pair(tmp_path, "bert")
    change_config(classifier, problem_type=kind)
    task = registry.task(tiny_task(tmp_path / "two"))
    three = registry.task(tiny_task(tmp_path / "three", labels=3))
    settings = TrainingConfig("sgd", "head", "own", 1, 8, 0.1).settings()
    with pytest.raises(BadModel, match=KINDS[kind]):
        open_trainable(str(classifier), task, settings, torch.device("cpu"))
    # With another number of labels the head is new.
    assert open_trainable(str(classifier), three, settings, torch.device("cpu")).model.config.problem_type == (
        "single_label_classification"
    )


QUANTIZED = {"quant_method": "bitsandbytes", "load_in_8bit": True}


def test_weights_quantized_by_bitsandbytes_come_with_the_command_that_converts_them(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "llama")
    change_config(tuned, quantization_config=QUANTIZED)
    problem = preflight(base, tuned).problems[0]
    assert "is quantized" in problem and problem.endswith(dequantizing(read_info(tuned)))
    words = shlex.split(dequantizing(read_info(tuned)))
    assert words[:2] == ["python", "-c"] and len(words) == 3
    code = ast.parse(words[2])
    assert {"LlamaForSequenceClassification", str(tuned), f"{tuned}-float32"} <= {
        *(node.value for node in ast.walk(code) if isinstance(node, ast.Constant)),
        *(name.name for node in ast.walk(code) if isinstance(node, ast.ImportFrom) for name in node.names),
    }
    for method in ("gptq", []):
        change_config(tuned, quantization_config={"quant_method": method})
        assert preflight(base, tuned).problems[0].endswith("Give the model from before it was quantized.")


@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed; installing it ends this")
@pytest.mark.parametrize("bits", [8, 4])
def test_that_command_converts_a_quantized_model(tmp_path: Path, bits: int) -> None:
    base, tuned = tiny_pair(tmp_path, "llama")
    settings = BitsAndBytesConfig(load_in_8bit=bits == 8, load_in_4bit=bits == 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        AutoModelForSequenceClassification.from_pretrained(tuned, quantization_config=settings).save_pretrained(tuned)
    problem = preflight(base, tuned).problems[0]
    subprocess.run([sys.executable, *shlex.split(problem[problem.index("python -c") :])[1:]], check=True)
    pair = load_pair(base, f"{tuned}-float32")
    assert pair.readout_name == "head"


@pytest.mark.nightly
def test_that_command_converts_a_model_in_fp8(tmp_path: Path) -> None:
    """Weights in e4m3 with a scale for each block of 4 x 4, in the format of fine-grained fp8."""
    base, tuned = tiny_pair(tmp_path, "llama")
    exact = load_file(tuned / "model.safetensors")
    stored = {}
    for name, value in exact.items():
        stored[name] = value
        if ".layers." in name and value.ndim == 2:
            blocks = value.view(value.shape[0] // 4, 4, value.shape[1] // 4, 4)
            scale = blocks.abs().amax((1, 3)) / torch.finfo(torch.float8_e4m3fn).max
            rounded = (blocks / scale[:, None, :, None]).to(torch.float8_e4m3fn)
            stored |= {name: rounded.view(value.shape), f"{name}_scale_inv": scale}
            exact[name] = (rounded.float() * scale[:, None, :, None]).view(value.shape)
    save_file(stored, tuned / "model.safetensors", {"format": "pt"})
    settings = {"quant_method": "fp8", "weight_block_size": [4, 4], "modules_to_not_convert": ["score"]}
    change_config(tuned, quantization_config=settings)
    problem = preflight(base, tuned).problems[0]
    subprocess.run([sys.executable, *shlex.split(problem[problem.index("python -c") :])[1:]], check=True)
    made = load_file(f"{tuned}-float32/model.safetensors")
    assert made.keys() == exact.keys() and all(torch.equal(made[name], exact[name]) for name in exact)
    assert load_pair(base, f"{tuned}-float32").readout_name == "head"

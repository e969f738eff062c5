"""Tests of checkpoints from other programs: names of wrappers, padded vocabularies, other heads, quantized weights."""

import ast
import json
import shlex
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForSequenceClassification, BitsAndBytesConfig

from skillviz.core.graft import grafted
from skillviz.errors import BadInput, BadModel, CorruptFile, PairMismatch
from skillviz.models.checkpoint import read_info
from skillviz.models.finetune.trainable_model import open_trainable
from skillviz.models.finetune.training_config import TrainingConfig
from skillviz.models.pair import rehearse
from skillviz.models.peft_adapter import write_adapter
from skillviz.models.preflight import dequantizing, preflight
from skillviz.models.tokenizer import load_tokenizer
from skillviz.runs.export import write_mergekit
from skillviz.tasks import registry
from tests.models.examples import (
    FITTING,
    Graft,
    ModelPair,
    Region,
    applied,
    change_config,
    change_json,
    change_weights,
    differing,
    drop_tokenizer,
    fill,
    load_model,
    load_pair,
    opened_base,
    refuses,
    save_applied,
    some_region,
    strip,
    tiny_pair,
    tiny_task,
    unlike,
    weights,
)


def wrap(folder: Path, prefix: str) -> None:
    change_weights(folder, lambda tensors: {prefix + name: tensor for name, tensor in tensors.items()})


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("prefix", ("_orig_mod.", "module.", "module._orig_mod.", "_orig_mod.module."))
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_a_wrapped_model_is_the_model_inside(pair: ModelPair, base: Path, tuned: Path, prefix: str) -> None:
    fingerprint = read_info(tuned).fingerprint
    wrap(tuned, prefix)
    wrap(base, "module.")
    check, _ = rehearse(preflight(base, tuned))
    assert check.fits and sum("saved inside a wrapper" in note for note in check.notes) == 2
    assert any(f"'{prefix}' is left out" in note for note in check.notes)
    assert not unlike(load_pair(base, tuned), pair) and read_info(tuned).fingerprint == fingerprint


def test_layers_that_were_compiled_one_by_one(pair: ModelPair, base: Path, tuned: Path) -> None:
    change_weights(tuned, lambda t: {n.replace("layer.1.", "layer.1._orig_mod."): v for n, v in t.items()})
    assert not unlike(load_pair(base, tuned), pair)


def test_a_graft_on_a_wrapped_base_is_written_under_the_models_own_names(
    base: Path, tuned: Path, tmp_path: Path
) -> None:
    wrap(base, "_orig_mod.")
    pair = load_pair(base, tuned)
    save_applied(applied(base, pair.graft(Region.full(pair.table.shapes))), tmp_path / "out")
    assert not differing(weights(tmp_path / "out"), weights(tuned))


def test_a_wrapped_pair_is_stored_as_its_difference(base: Path, tuned: Path) -> None:
    plain = read_info(tuned).fingerprint
    wrap(base, "module.")
    wrap(tuned, "_orig_mod.")
    strip(tuned, base)
    load_pair(base, tuned)
    fill(tuned, base)
    assert read_info(tuned).fingerprint == plain


def test_a_tensor_with_and_without_the_wrapper_is_refused(tuned: Path) -> None:
    change_weights(tuned, lambda t: {**t, **{"_orig_mod." + name: v for name, v in list(t.items())[:1]}})
    refuses(CorruptFile, "with and without", read_info, tuned)


def resize(folder: Path, readout: str, more: int, *tokens: str) -> int:
    """Add `more` vocabulary rows to the end of the folder's model, and tokens to its tokenizer; return the number of
    rows before."""
    model, tokenizer = load_model(folder, readout).model, load_tokenizer(folder)
    before = int(model.config.vocab_size)
    model.resize_token_embeddings(before + more, mean_resizing=False)
    assert tokenizer.add_tokens(list(tokens)) == len(tokens)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return before


def embedding(model: Any) -> torch.Tensor:
    return model.get_input_embeddings().weight


@pytest.mark.cases(2, 7)
@pytest.mark.slow
@pytest.mark.parametrize("is_base", [False, True])
@pytest.mark.parametrize(("family", "readout"), FITTING)
def test_a_padded_vocabulary_is_taken_at_the_bases_rows(
    pair: ModelPair, base: Path, tuned: Path, readout: str, is_base: bool
) -> None:
    rows = resize(base if is_base else tuned, readout, 6)
    check, _ = rehearse(preflight(base, tuned, readout=readout))
    assert check.fits and any("6 more vocabulary rows" in note for note in check.notes), check.problems
    draw = torch.get_rng_state()
    padded = load_pair(base, tuned, readout=readout)
    assert torch.equal(torch.get_rng_state(), draw) and not unlike(padded, pair) and padded.outside == {}
    found, own, plain = (embedding(model) for model in (padded.model, pair.model, load_model(base, readout).model))
    assert len(found) == rows + 6 * is_base == padded.model.config.vocab_size
    assert torch.equal(found[:rows], own) and torch.equal(found, plain)


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("options", [{"move_embeddings": True}])
@pytest.mark.parametrize(("family", "readout"), [("bert", "prompt"), ("gpt2", "causal"), ("llama", "head")])
def test_a_base_is_extended_by_the_rows_of_added_tokens(pair: ModelPair, base: Path, tuned: Path, readout: str) -> None:
    rows = resize(tuned, readout, 8, "[added]")
    check = preflight(base, tuned, readout=readout)
    assert check.fits and check.tokenizer_folder == tuned, check.problems
    assert any("8 more vocabulary rows" in n and "also in 'pretrained'" in n for n in check.notes)
    assert not any("tokenizers differ" in note for note in check.notes)
    rehearse(check)
    added = load_pair(base, tuned, readout=readout)
    assert torch.equal(added.base, pair.base) and torch.equal(added.finetuned, pair.finetuned)
    assert max(added.tokenizer("a [added] b")["input_ids"]) >= rows and set(check.notes) <= set(added.notes)
    old, new = (embedding(load_model(folder, readout).model) for folder in (base, tuned))
    for state, own in (("pretrained", old), ("finetuned", new)):
        with added.at(state):
            assert torch.equal(embedding(added.model), torch.cat([own[:rows], new[rows:]])), state
    assert len(new) == rows + 8


@pytest.mark.cases(2, 1)
@pytest.mark.parametrize(
    ("family", "readout", "tensors"),
    [("bert", "prompt", 2), ("bert", "head", 1), ("gpt2", "causal", 1), ("gpt_neox", "causal", 2)],
)
def test_a_graft_brings_the_rows_of_added_tokens(
    base: Path, tuned: Path, tmp_path: Path, readout: str, tensors: int
) -> None:
    """On the plain base the graft gives the run's own logits, and its tokenizer has the token. Besides the
    embedding, a vocabulary has a bias (bert), or a separate output matrix (gpt_neox)."""
    rows = resize(tuned, readout, 8, "[added]")
    pair = load_pair(base, tuned, readout=readout)
    region = some_region(pair, size=300)
    pair.graft(region).save(tmp_path / "graft.safetensors")
    graft = Graft.load(tmp_path / "graft.safetensors")
    assert [len(added) for added in graft.rows.values()] == [8] * tensors
    ids = pair.tokenizer("a [added] b c", return_tensors="pt")
    with pair.at("grafted", region), torch.inference_mode():
        wanted = {"logits": pair.model(**ids).logits, "ids": ids["input_ids"]}
    draw = torch.get_rng_state()
    result = applied(base, graft)
    assert torch.equal(torch.get_rng_state(), draw) and int(ids["input_ids"].max()) >= rows
    save_applied(result, tmp_path / "out")
    opened = load_model(tmp_path / "out", readout).model, load_tokenizer(tmp_path / "out")
    for model, tokenizer in ((result.model, result.tokenizer), opened):
        with torch.inference_mode():
            found = {"logits": model(**ids).logits, "ids": tokenizer("a [added] b c", return_tensors="pt")["input_ids"]}
        assert not differing(found, wanted) and model.config.vocab_size == rows + 8
    plain = load_model(base, readout).model if readout != "head" else result.model
    before = {name: tensor.clone() for name, tensor in plain.state_dict().items()}
    with grafted(plain, graft), torch.inference_mode():
        assert torch.equal(plain.eval()(**ids).logits, wanted["logits"])
    assert not differing(plain.state_dict(), before)
    refuses(BadInput, "peft would store the whole embedding", write_adapter, tmp_path, result.model, graft, "base")
    write_mergekit(tmp_path / "merge", opened_base(base, graft), graft)
    states = (load_model(tmp_path / "merge" / name, readout).model.state_dict() for name in ("base", "graft"))
    start, end = ({name: state[name][rows:] for name in graft.rows} for state in states)
    assert not differing(start, end) and len(load_tokenizer(tmp_path / "merge" / "graft")) == rows + 1


@pytest.mark.parametrize(("family", "readout"), [("gpt2", "causal")])
def test_what_cannot_carry_added_tokens_is_refused(base: Path, tuned: Path, tmp_path: Path) -> None:
    other, _ = tiny_pair(tmp_path / "other", "gpt2", "causal", seed=5)
    for folder, more, tokens in ((tuned, 8, ["[added]"]), (other, 3, [])):
        resize(folder, "causal", more, *tokens)
    pair = load_pair(base, tuned, readout="causal")
    full = Region.full(pair.table.shapes)
    refuses(
        PairMismatch, r"the graft adds 8 rows to the [0-9,]+ of its base", applied, other, pair.graft(full), force=True
    )
    (base / "tokenizer.json").unlink()
    refuses(
        BadInput,
        "its tokenizer is not the base's with tokens added",
        load_pair(base, tuned, readout="causal").graft,
        full,
    )


@pytest.mark.parametrize("family", ["gpt2"])
def test_added_tokens_that_take_the_ids_of_others_or_have_no_rows_are_refused(base: Path, tuned: Path) -> None:
    rows = resize(tuned, "head", 1, "[added]", "[too]", "[many]")
    refuses(
        PairMismatch,
        rf"the tokenizer has {rows + 3} tokens and the model {rows + 1}",
        preflight(base, tuned).raise_first,
    )
    resize(tuned, "head", 7)
    model = json.loads((tuned / "tokenizer.json").read_text())["model"]
    *_, (one, first), (other, second) = model["vocab"].items()
    change_json(tuned / "tokenizer.json", model={**model, "vocab": {**model["vocab"], one: second, other: first}})
    refuses(
        PairMismatch,
        r"it gives '.+' \(and 1 more\) another id; added tokens are accepted where",
        preflight(base, tuned).raise_first,
    )


def test_without_a_tokenizers_size_nothing_is_taken_for_padding(base: Path, tuned: Path) -> None:
    resize(tuned, "head", 8)
    drop_tokenizer(tuned)
    assert preflight(base, tuned).fits
    drop_tokenizer(base)
    assert "vocabularies differ" in preflight(base, tuned).problems[0]


def test_other_shapes_beside_a_padded_vocabulary_are_told(base: Path, tuned: Path) -> None:
    rows, name = resize(tuned, "head", 8), "embeddings.position_embeddings.weight"
    change_weights(tuned, lambda t: {n: v[:32] if n == f"bert.{name}" else v for n, v in t.items()})
    assert f"the shapes differ: '{name}'" in preflight(base, tuned).problems[0]
    change_config(tuned, vocab_size=rows)  # the configuration then disagrees with the file
    assert "(and 1 more)" in preflight(base, tuned).problems[0]


KINDS = {"multi_label_classification": "is multi-label", "regression": "is a regression"}


@pytest.mark.parametrize("kind", KINDS)
def test_fine_tuning_does_not_go_on_with_such_a_head(tuned: Path, tmp_path: Path, kind: str) -> None:
    change_config(tuned, problem_type=kind)
    settings = TrainingConfig("sgd", "head", "own", 1, 8, 0.1).settings(), torch.device("cpu")
    two, three = (registry.task(tiny_task(tmp_path / str(labels), labels=labels)) for labels in (2, 3))
    refuses(BadModel, KINDS[kind], open_trainable, str(tuned), two, *settings)
    # With another number of labels the head is new.
    assert open_trainable(str(tuned), three, *settings).model.config.problem_type == "single_label_classification"


@pytest.mark.parametrize("family", ["llama"])
def test_weights_quantized_by_bitsandbytes_come_with_the_command_that_converts_them(base: Path, tuned: Path) -> None:
    change_config(tuned, quantization_config={"quant_method": "bitsandbytes", "load_in_8bit": True})
    problem, command = preflight(base, tuned).problems[0], dequantizing(read_info(tuned))
    *program, code = shlex.split(command)
    assert "is quantized" in problem and problem.endswith(command) and program == ["python", "-c"]
    nodes = list(ast.walk(ast.parse(code)))
    assert {"LlamaForSequenceClassification", str(tuned), f"{tuned}-float32"} <= {
        *(node.value for node in nodes if isinstance(node, ast.Constant)),
        *(name.name for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names),
    }


def converted(base: Path, tuned: Path) -> dict[str, torch.Tensor]:
    """Run the command that preflight gives, open the pair, and return the converted tensors."""
    problem = preflight(base, tuned).problems[0]
    subprocess.run([sys.executable, *shlex.split(problem[problem.index("python -c") :])[1:]], check=True)
    assert load_pair(base, f"{tuned}-float32").readout_name == "head"
    return weights(f"{tuned}-float32")


@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed; installing it ends this")
@pytest.mark.parametrize("family", ["llama"])
@pytest.mark.parametrize("bits", [8, 4])
def test_that_command_converts_a_quantized_model(base: Path, tuned: Path, bits: int) -> None:
    settings = BitsAndBytesConfig(load_in_8bit=bits == 8, load_in_4bit=bits == 4)
    with warnings.catch_warnings(action="ignore"):
        AutoModelForSequenceClassification.from_pretrained(tuned, quantization_config=settings).save_pretrained(tuned)
    converted(base, tuned)


@pytest.mark.nightly
@pytest.mark.parametrize("family", ["llama"])
def test_that_command_converts_a_model_in_fp8(base: Path, tuned: Path) -> None:
    """Weights in e4m3 with a scale for each block of 4 x 4, in the format of fine-grained fp8."""
    exact, largest = weights(tuned), torch.finfo(torch.float8_e4m3fn).max
    stored = dict(exact)
    for name in [name for name, value in exact.items() if ".layers." in name and value.ndim == 2]:
        blocks = exact[name].unflatten(1, (-1, 4)).unflatten(0, (-1, 4))
        scale = blocks.abs().amax((1, 3)) / largest
        rounded = (blocks / scale[:, None, :, None]).to(torch.float8_e4m3fn)
        stored |= {name: rounded.view(exact[name].shape), f"{name}_scale_inv": scale}
        exact[name] = (rounded.float() * scale[:, None, :, None]).view(exact[name].shape)
    save_file(stored, tuned / "model.safetensors", {"format": "pt"})
    change_config(
        tuned,
        quantization_config={"quant_method": "fp8", "weight_block_size": [4, 4], "modules_to_not_convert": ["score"]},
    )
    assert not differing(converted(base, tuned), exact)

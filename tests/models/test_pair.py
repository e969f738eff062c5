"""Tests of loading: the values are the files' own, the head is the fine-tuned model's, and nothing is invented; of the
four states: exact to the bit, restored after use, and with the plain models' scores; of configurations that
transformers cannot load; of the requested device and its errors; of lean mode, which has the ordinary mode's states,
bit for bit, with one model in memory; and of null pairs: a movement without its positions or signs."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    ModernBertModel,
)

from skillviz.core.architectures import FAMILIES
from skillviz.core.encoded import Encoded
from skillviz.core.nulls import LEARNED_SIGNS, NULLS, SHUFFLED, SIGNS
from skillviz.core.overlap import iou_matrix
from skillviz.errors import BadInput, BadModel, NoDevice, PairMismatch, RandomHead
from skillviz.models import load
from skillviz.models import pair as loading
from skillviz.models.device import describe, pick
from skillviz.models.heads import is_head
from skillviz.models.lean_pair import LeanPair
from skillviz.models.null_pair import null_pair, with_signs
from skillviz.models.predict import predict, predict_grafts
from skillviz.runs.layers import movement_summary
from skillviz.runs.selfcheck import ends_check, fingerprint_of
from skillviz.runs.wise import grid_logits, on_path
from skillviz.tasks.task import Files, Task
from tests.models.examples import (
    AUTO,
    FITTING,
    STATES,
    Graft,
    ModelPair,
    Region,
    applied,
    change_config,
    change_weights,
    differing,
    drop,
    examples,
    load_lean,
    load_model,
    load_pair,
    refused,
    refuses,
    state_of,
    strip,
    tiny_model,
    tiny_task,
    tiny_tokenizer,
    unlike,
    weights,
)
from tests.tiers import first

KINDS = {"base": AutoModel, "finetuned": AutoModelForSequenceClassification}


def stored(pair: ModelPair, folder: Path) -> torch.Tensor:
    """Return the graftable values of the file as one vector in table order, in the file's dtype."""
    prefix = FAMILIES[pair.table.model_type].prefix
    tensors = {name.removeprefix(prefix): tensor for name, tensor in weights(folder).items()}
    return torch.cat([tensors[name.removeprefix(prefix)].reshape(-1) for name in pair.table.names])


@pytest.mark.cases(5, 4)
@pytest.mark.parametrize(("family", "readout"), FITTING)
def test_values_are_the_files_own(pair: ModelPair, tmp_path: Path, readout: str) -> None:
    own = {name: stored(pair, tmp_path / name) for name in KINDS}
    assert not differing(
        {"base": pair.base, "finetuned": pair.finetuned, "model": pair.flat.theta}, own | {"model": own["base"]}
    )
    assert (pair.d, pair.readout_name, pair.outside) == (len(pair.base), readout, {}) and not pair.model.training


@pytest.mark.parametrize("half", KINDS)
def test_a_model_in_several_files_is_the_same_pair_and_takes_the_same_graft(
    pair: ModelPair, region: Region, tmp_path: Path, half: str
) -> None:
    many = Path(shutil.copytree(tmp_path / half, tmp_path / "many"))
    (many / "model.safetensors").unlink()
    KINDS[half].from_pretrained(tmp_path / half).save_pretrained(many, max_shard_size="20KB")
    assert len(list(many.glob("model-*.safetensors"))) > 1 and not (many / "model.safetensors").exists()
    folders = {name: tmp_path / name for name in KINDS} | {half: many}
    sharded = load_pair(*folders.values())
    assert not unlike(sharded, pair)
    both = ((tmp_path / "base", pair), (folders["base"], sharded))
    assert not differing(*(applied(base, one.graft(region, {"task": "a"})).model.state_dict() for base, one in both))


@pytest.mark.parametrize("options", [{"dtype": torch.float16}, {"dtype": torch.bfloat16}], ids=["float16", "bfloat16"])
def test_narrow_files_are_loaded_as_float32(pair: ModelPair, base: Path, options: dict[str, torch.dtype]) -> None:
    own = stored(pair, base)
    assert ({p.dtype for p in pair.model.parameters()}, own.dtype) == ({torch.float32}, options["dtype"])
    assert torch.equal(pair.base, own.float())


@pytest.mark.parametrize("load_dtype", ["bfloat16"])
def test_lean_mode_keeps_bfloat16_and_a_float32_movement(pair: ModelPair, tuned: Path, tmp_path: Path) -> None:
    tau, moved = pair.problem(examples(tmp_path, pair)).tau, pair.finetuned.float() - pair.base.float()
    assert not differing(
        {"finetuned": pair.finetuned, "tau": tau}, {"finetuned": stored(pair, tuned).bfloat16(), "tau": moved}
    )
    assert {p.dtype for p in pair.model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "gpt2", "llama"])
def test_the_head_is_the_fine_tuned_one_in_every_state(pair: ModelPair, region: Region, tuned: Path) -> None:
    wanted = {name: tensor for name, tensor in weights(tuned).items() if name in pair.head()}
    assert wanted and not differing(pair.head(), wanted)
    for state in STATES:
        with pair.at(state, region):
            assert not differing(pair.head(), wanted), state


@pytest.mark.parametrize("options", [{"labels": 3}])
def test_a_base_with_a_head_of_its_own_gets_the_fine_tuned_one(base: Path, tuned: Path) -> None:
    tiny_model("bert", "head", labels=2).save_pretrained(base)
    pair, name = load_pair(base, tuned), "classifier.weight"
    assert any("classification head of its own" in note for note in pair.notes)
    assert pair.model.config.num_labels == 3 and torch.equal(pair.head()[name], weights(tuned)[name])


def test_every_parameter_is_graftable_and_has_a_gradient_or_is_of_the_head_or_the_same_in_both(
    pair: ModelPair, tmp_path: Path
) -> None:
    rest = {n for n, _ in pair.model.named_parameters()} - set(pair.table.names) - set(pair.head())
    pair.problem(examples(tmp_path, pair)).train.backward()
    assert rest and float(pair.flat.grad.abs().sum()) > 0
    assert (
        [name for name in rest if "embeddings" not in name],
        [name for name in pair.table.names if is_head("bert", name.removeprefix("bert."))],
        {name for name, p in pair.model.named_parameters() if p.requires_grad},
    ) == ([], [], set(pair.table.names))


@pytest.mark.parametrize("options", [{"move_embeddings": True}])
@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("gpt2", "causal"), ("roberta", "prompt")])
def test_moved_embeddings_are_kept_outside_and_told(pair: ModelPair) -> None:
    base, tuned = ({name: both[place] for name, both in pair.outside.items()} for place in (0, 1))
    assert pair.outside and not set(pair.outside) & (set(pair.table.names) | set(pair.head()))
    assert any("not the fine-tuned model" in note for note in pair.notes)
    assert differing(base, tuned) == pair.outside.keys()
    assert not differing({name: pair.model.get_parameter(name) for name in base}, base)


DENSE, TIED = "cls.predictions.transform.dense.weight", "transformer.wte.weight"


@pytest.mark.parametrize(
    ("family", "readout", "options", "is_tied", "change", "names"),
    [
        ("bert", "prompt", {}, None, lambda t: {**t, DENSE: t[DENSE] + 1}, {DENSE}),
        # Tied weights count once; a fine-tuned head of its own over a tied base starts from the embedding.
        ("gpt2", "causal", {"move_embeddings": True}, None, dict, {TIED, "transformer.wpe.weight"}),
        ("gpt2", "causal", {}, False, lambda t: {**t, "lm_head.weight": t[TIED] + 1}, {"lm_head.weight"}),
    ],
    ids=["language-model head", "tied", "untied"],
)
def test_what_moved_outside_the_blocks_is_kept_with_both_values(
    base: Path, tuned: Path, is_tied: bool | None, change: Any, names: set[str]
) -> None:
    change_config(tuned, tie_word_embeddings=is_tied)
    change_weights(tuned, change)
    outside, tied = load_pair(base, tuned).outside, weights(base).get(TIED)
    for place, folder in enumerate((base, tuned)):
        assert not differing(
            {name: both[place] for name, both in outside.items()},
            {name: weights(folder).get(name, tied) for name in names},
        ), place


@pytest.mark.parametrize(
    ("family", "wanted"), [("gpt2", "<|endoftext|>"), ("llama", "</s>"), ("bert", "[PAD]"), ("opt", "<pad>")]
)
def test_padding_is_set_in_tokenizer_and_model(pair: ModelPair, wanted: str) -> None:
    assert (pair.tokenizer.pad_token, pair.tokenizer.pad_token_id) == (wanted, pair.model.config.pad_token_id)


@pytest.mark.parametrize(("family", "wanted"), [("bert", 48), ("roberta", 46), ("gpt2", 48)])
def test_texts_are_not_longer_than_the_models_positions(base: Path, tuned: Path, family: str, wanted: int) -> None:
    for folder in (base, tuned):
        change_config(folder, **{"n_positions" if family == "gpt2" else "max_position_embeddings": 48})
        change_weights(
            folder,
            lambda tensors: {
                n: t[:48] if n.endswith(("wpe.weight", "position_embeddings.weight")) else t for n, t in tensors.items()
            },
        )
    assert load_pair(base, tuned).tokenizer.model_max_length == wanted


def test_loading_says_nothing_and_leaves_the_random_state_alone(
    base: Path, tuned: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before, _ = torch.random.get_rng_state(), capfd.readouterr()
    load_pair(base, tuned)
    assert capfd.readouterr() == ("", "") and torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("readout", ["head", "prompt"])
def test_equal_members_hold_no_skill_and_are_a_pair_only_where_that_is_asked_for(base: Path, readout: str) -> None:
    same = Path(shutil.copytree(base, base.with_name("same")))
    if readout == "head":
        AutoModelForSequenceClassification.from_pretrained(base).save_pretrained(same)
    refuses(PairMismatch, "identical in every graftable parameter", load_pair, base, same)
    pair = load_pair(base, same, is_graft=True)
    assert torch.equal(pair.base, pair.finetuned)


@pytest.mark.parametrize("readout", ["prompt"])
def test_what_only_loading_finds_missing(base: Path, tuned: Path, tmp_path: Path) -> None:
    """Check tensors that no table lists: an unknown part of a head, or one that both members lack."""
    for lacks, other, words in (
        (tuned, tuned, "LayerNorm.bias"),
        (base, shutil.copytree(tuned, tmp_path / "whole"), "the base 'base' has no"),
    ):
        drop(lacks, "cls.predictions.transform.LayerNorm.bias")
        refuses(RandomHead, words, load_pair, base, other)


def test_preflight_speaks_first(base: Path, tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drop(tuned, "classifier.weight")
    monkeypatch.setattr(loading, "load_model", lambda *a, **k: pytest.fail("weights were read"))
    refuses(RandomHead, None, load_pair, base, tuned)


test_an_unknown_dtype_is_refused = refused(
    BadInput,
    *(
        (f"{dtype}.*allowed: float32, bfloat16", partial(load_pair, dtype=dtype), "a", "b")
        for dtype in ("float16", "fp32", "float64")
    ),
)


def test_code_of_a_model_is_named_and_not_run(base: Path, tuned: Path) -> None:
    for folder in (base, tuned):
        change_config(folder, auto_map={"AutoModelForSequenceClassification": "evil.Model", "AutoConfig": "evil.C"})
        (folder / "evil.py").write_text("raise SystemExit('ran')")
    assert any("never runs" in note for note in load_pair(base, tuned).notes)


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("llama", "head"), ("gpt2", "causal")])
def test_a_graft_carries_values_head_and_origin(
    pair: ModelPair, region: Region, tmp_path: Path, family: str, readout: str
) -> None:
    pair.graft(region, {"task": "mine"}).save(tmp_path / "graft.safetensors")
    graft = Graft.load(tmp_path / "graft.safetensors")
    values = torch.cat([graft.values[name] for name in region.indices])
    assert graft.region == region and torch.equal(values, pair.finetuned[torch.from_numpy(region.flat())])
    assert not differing(graft.head, pair.head()) and bool(graft.head) == (readout == "head")
    wanted = {"base": pair.base_info.identity(), "readout": readout, "task": "mine", "model_type": family}
    assert {name: graft.header[name] for name in wanted} == wanted and str(tmp_path) not in str(graft.header)


def test_the_full_graft_on_the_base_is_the_fine_tuned_model(pair: ModelPair, tuned: Path) -> None:
    pair.graft(Region.full(pair.table.shapes)).apply(pair.model)
    assert not differing(pair.model.state_dict(), alone(tuned, "head", "float32"))


def test_the_task_may_be_its_file(base: Path, tuned: Path, tmp_path: Path) -> None:
    assert load_pair(base, tuned, task=str(tiny_task(tmp_path / "two")), device="cpu").d > 0
    refuses(
        PairMismatch, "has 2 labels", load_pair, base, tuned, task=tiny_task(tmp_path / "three", labels=3), device="cpu"
    )


@pytest.mark.parametrize("options", [{"labels": 3}])
def test_classes_are_matched_by_name(pair: ModelPair, base: Path, tuned: Path, tmp_path: Path) -> None:
    task = Task(name="mine", data=Files(train="a.csv", test="b.csv"), text=("text",), labels=("no", "maybe", "yes"))
    encoded = examples(tmp_path, pair, labels=3)
    plain = predict(pair, encoded, "finetuned")
    for names, order in ((("YES", "No", "maybe"), (1, 2, 0)), (("No", "maybe", "yes"), None)):
        change_config(tuned, id2label={str(number): name for number, name in enumerate(names)})
        named = load_pair(base, tuned, task=task, device="cpu")
        assert named.class_order == order
        assert (predict(named, encoded, "finetuned") == plain[:, list(order or range(3))]).all()


@pytest.mark.gpu
def test_a_pair_on_a_gpu(base: Path, tuned: Path) -> None:
    pair = load_pair(base, tuned, device="cuda")
    assert {t.device.type for t in (pair.base, pair.finetuned, pair.flat.theta)} == {"cuda"}
    assert torch.equal(pair.base.cpu(), stored(pair, base))


def test_a_bare_base_of_an_architecture_without_a_row_gets_the_whole_fine_tuned_head(tmp_path: Path) -> None:
    """ModernBERT's head has a dense layer and a norm before its classifier, and the base's file has none of them."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    special = {f"{name}_token_id": 0 for name in ("bos", "eos", "cls", "sep", "pad")}
    config = ModernBertConfig(vocab_size=len(tiny_tokenizer("bert")), **sizes, **special)
    for name, kind in (("base", ModernBertModel), ("tuned", ModernBertForSequenceClassification)):
        kind(config).save_pretrained(tmp_path / name)
        tiny_tokenizer("bert").save_pretrained(tmp_path / name)
    head, own = load_pair(tmp_path / "base", tmp_path / "tuned").head(), weights(tmp_path / "tuned")
    assert {name.split(".")[0] for name in head} == {"head", "classifier"}
    assert not differing(head, {name: own[name] for name in head})


DTYPES = ["float32", "bfloat16"]
moved_embeddings = pytest.mark.parametrize("options", [{"move_embeddings": True}], ids=["embeddings"])


def state_of_model(pair: ModelPair) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in pair.model.state_dict().items()}


def alone(folder: Path, readout: str, dtype: str) -> dict[str, torch.Tensor]:
    """Return the tensors of the folder's model, opened by transformers."""
    return AUTO[readout].from_pretrained(folder, dtype=getattr(torch, dtype)).state_dict()


@pytest.mark.cases(5, 4)
@moved_embeddings
@pytest.mark.parametrize(("family", "readout"), FITTING)
@pytest.mark.parametrize("load_dtype", first(DTYPES, "float32".__eq__))
def test_finetuned_is_the_fine_tuned_model_whole(pair: ModelPair, tuned: Path, readout: str, load_dtype: str) -> None:
    assert not differing(state_of(pair, "finetuned"), alone(tuned, readout, load_dtype))


@pytest.mark.cases(3, 3)
@moved_embeddings
@pytest.mark.parametrize(("family", "readout"), [("bert", "prompt"), ("gpt2", "causal"), ("llama", "causal")])
@pytest.mark.parametrize("load_dtype", DTYPES)
def test_pretrained_is_the_base_whole(pair: ModelPair, base: Path, readout: str, load_dtype: str) -> None:
    wanted = alone(base, readout, load_dtype)
    for state, region in (("pretrained", None), ("grafted", Region.empty(pair.table.shapes))):
        assert not differing(state_of(pair, state, region), wanted), state


@pytest.mark.parametrize("load_dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {"move_embeddings": True}], ids=["blocks", "embeddings"])
def test_graft_and_complement_share_no_entry_and_miss_none_also_at_the_ends(pair: ModelPair, region: Region) -> None:
    for one in (region, Region.empty(region.shapes), Region.full(region.shapes)):
        inside = torch.from_numpy(np.isin(np.arange(pair.d), one.flat()))
        for state, own, rest in (("grafted", pair.finetuned, pair.base), ("complement", pair.base, pair.finetuned)):
            outside = {name: both[state == "complement"] for name, both in pair.outside.items()}
            with pair.at(state, one):
                found = {name: pair.model.get_parameter(name) for name in outside} | {"theta": pair.flat.theta}
                assert not differing(found, outside | {"theta": torch.where(inside, own, rest)}), (state, one.size)


@pytest.mark.cases(3, 3)
@moved_embeddings
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("load_dtype", DTYPES)
def test_left_bit_for_bit_even_after_an_error(pair: ModelPair, region: Region, state: str) -> None:
    # A soft graft in the middle of a search, with both zeros and a NaN.
    pair.flat.theta.lerp_(pair.finetuned, 0.3)
    pair.flat.theta[:3] = torch.tensor([0.0, -0.0, float("nan")])
    before = state_of_model(pair)
    with pytest.raises(KeyError), pair.at(state, region):
        assert differing(pair.model.state_dict(), before)
        pair.flat.theta.fill_(7)
        raise KeyError
    assert not differing(pair.model.state_dict(), before)


def test_negative_zero_at_rest_survives(pair: ModelPair) -> None:
    """The base's zeros must not replace the model's negative zeros: they are equal, but have other bits."""
    zeros = torch.tensor([0.0, -0.0])
    pair.base[:2] = zeros
    pair.flat.theta.copy_(pair.base)
    pair.flat.theta[:2] = -zeros
    before = state_of_model(pair)
    state_of(pair, "finetuned")
    assert not differing(pair.model.state_dict(), before)


@moved_embeddings
def test_states_nest(pair: ModelPair, region: Region) -> None:
    wanted = {state: state_of(pair, state, region) for state in ("pretrained", "finetuned", "grafted")}
    with pair.at("finetuned"):
        found = {"grafted": state_of(pair, "grafted", region), "finetuned": state_of_model(pair)}
    found["pretrained"] = state_of_model(pair)
    assert [state for state in found if differing(found[state], wanted[state])] == []
    assert differing(wanted["grafted"], wanted["finetuned"])


@moved_embeddings
@pytest.mark.parametrize("lean", [False, True])
def test_a_region_whose_parameters_are_in_another_order_is_the_same_graft(
    pair: ModelPair, base: Path, tuned: Path, region: Region, lean: bool
) -> None:
    """Files order their parameters by name and models by layer: flat indices are valid in one order only."""
    turned = Region(region.indices, dict(reversed(region.shapes.items())))
    assert turned == region and not np.array_equal(turned.flat(), region.flat())
    assert (iou_matrix({"one": region, "other": turned}).to_numpy() == 1).all()
    pair = load_lean(base, tuned, readout="head", device="cpu") if lean else pair
    made = [partial(state_of, pair, "grafted"), partial(state_of, pair, "complement")]
    made += [] if lean else [partial(between, pair), lambda one: pair.graft(one).values]
    assert [differing(make(region), make(turned)) for make in made] == [set()] * len(made)


def between(pair: ModelPair, region: Region) -> dict[str, torch.Tensor]:
    """Return the model's tensors halfway to the region's graft."""
    with pair.at("pretrained"):
        pair.put_between(0.5, region)
        return state_of_model(pair)


@pytest.mark.parametrize(
    ("state", "shapes", "words"),
    [
        ("grafted", None, "needs a region"),
        ("complement", None, "needs a region"),
        ("soft", None, "known: pretrained, finetuned, grafted, complement"),
        ("grafted", {"a": (2, 2)}, "another architecture"),
    ],
)
def test_a_state_needs_what_it_needs(
    pair: ModelPair, state: str, shapes: dict[str, tuple[int, ...]] | None, words: str
) -> None:
    with pytest.raises(BadInput, match=words), pair.at(state, None if shapes is None else Region.empty(shapes)):
        pytest.fail("it was entered")


@pytest.fixture
def encoded(pair: ModelPair, tmp_path: Path) -> Encoded:
    return examples(tmp_path, pair)


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("options", [{"move_embeddings": True}], ids=["embeddings"])
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "gpt2", "opt", "gpt_neox", "llama"])
def test_finetuned_scores_are_the_models_own(pair: ModelPair, encoded: Encoded, tuned: Path) -> None:
    alone = AutoModelForSequenceClassification.from_pretrained(tuned, dtype=torch.float32).eval()
    alone.config.pad_token_id = pair.tokenizer.pad_token_id
    inputs = {"input_ids": encoded.input_ids, "token_type_ids": encoded.token_type_ids}
    with torch.no_grad():
        wanted = np.stack([
            alone(**{name: torch.tensor(rows[i])[None] for name, rows in inputs.items() if rows is not None}).logits[0]
            for i in range(len(encoded))
        ])  # fmt: skip
    scores = predict(pair, encoded, "finetuned")
    assert (scores.dtype, scores.shape) == (np.float32, (len(encoded), 2))
    # Padded batches and single rows add in another order.
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-5)
    assert np.abs(predict(pair, encoded, "pretrained") - wanted).max() > 1e-2


@pytest.mark.cases(3, 2)
@pytest.mark.parametrize(("family", "readout"), FITTING)
def test_the_ends_predict_alike_and_change_nothing(pair: ModelPair, encoded: Encoded) -> None:
    empty, full = Region.empty(pair.table.shapes), Region.full(pair.table.shapes)
    scores = {state: predict(pair, encoded, state) for state in ("pretrained", "finetuned")}
    for state, region, end in (
        ("grafted", empty, "pretrained"),
        ("grafted", full, "finetuned"),
        ("complement", full, "pretrained"),
        ("pretrained", None, "pretrained"),
    ):
        assert np.array_equal(predict(pair, encoded, state, region), scores[end]), (state, end)
    assert not np.array_equal(scores["pretrained"], scores["finetuned"]) and torch.equal(pair.flat.theta, pair.base)


def test_the_order_of_examples_does_not_matter(pair: ModelPair, encoded: Encoded, region: Region) -> None:
    order = np.random.default_rng(0).permutation(len(encoded))
    np.testing.assert_allclose(
        predict(pair, encoded.take(order), "grafted", region),
        predict(pair, encoded, "grafted", region)[order],
        rtol=1e-4,
        atol=1e-5,
    )


def test_autocast_touches_activations_only(pair: ModelPair, encoded: Encoded) -> None:
    exact, rounded = (predict(pair, encoded, "finetuned", autocast=kind) for kind in (None, torch.bfloat16))
    assert (rounded.dtype, pair.flat.theta.dtype) == (np.float32, torch.float32)
    assert not np.array_equal(rounded, exact)
    np.testing.assert_allclose(rounded, exact, atol=0.2)


@pytest.mark.nightly
@pytest.mark.parametrize(("labels", "options"), [(labels, {"steps": 40, "labels": labels}) for labels in (2, 4)])
def test_a_trained_tiny_pair_has_a_skill(pair: ModelPair, tmp_path: Path, labels: int) -> None:
    encoded = examples(tmp_path, pair, labels=labels, rows=32)
    right = {s: (predict(pair, encoded, s).argmax(1) == encoded.labels).mean() for s in ("pretrained", "finetuned")}
    assert right["finetuned"] > 0.8 and right["pretrained"] < right["finetuned"] - 0.2


@pytest.mark.parametrize("around", [False, True], ids=["base", "graft"])
def test_many_grafts_at_once_score_as_each_alone(
    pair: ModelPair, encoded: Encoded, region: Region, around: bool
) -> None:
    upper = {p.name for p in pair.table.parameters if p.layer == 1}
    part = Region({name: region.indices[name] for name in region.indices if name in upper}, region.shapes)
    regions = [part, region - part, Region.empty(region.shapes), region]
    found = predict_grafts(pair, encoded, regions, region if around else None)
    np.testing.assert_array_equal(found, [predict(pair, encoded, "grafted", one) for one in regions])
    assert part.size and not np.array_equal(found[0], found[2]) and torch.equal(pair.flat.theta, pair.base)


@pytest.mark.parametrize(
    "change",
    [{"hidden_size": "x"}, {"intermediate_size": []}, {"tie_word_embeddings": 3}, {"pad_token_id": 2**31},
     {"layer_norm_eps": {}}, {"hidden_dropout_prob": "high"}, {"model_type": "albatross"}, {"hidden_act": "nothing"},
     {"num_attention_heads": 5}],
    ids=str,
)  # fmt: skip
def test_a_strange_configuration_is_a_sentence(tuned: Path, change: dict[str, Any]) -> None:
    change_config(tuned, **change)
    refuses(BadModel, r"\A.*cannot be opened for the head readout.*\Z", load_model, tuned, "head")  # one line


def test_memory_that_runs_out_stays_what_it_is(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "auto_class", Mock(side_effect=MemoryError("all of it")))
    refuses(MemoryError, None, load_model, tuned, "head")


@pytest.mark.parametrize(
    ("devices", "name", "wanted"),
    [
        (0, "cpu", "cpu"),
        (1, "auto", "cuda"),
        (0, "auto", "cpu"),
        (1, "cuda:0", "cuda:0"),
        (0, "cuda", NoDevice("--device cpu")),
        (1, "cuda:1", NoDevice("1 CUDA device")),
        *((0, name, NoDevice("auto, cpu, cuda")) for name in ("gpu", "", "cuda:x", "cpu:0", "mps")),
    ],
)
def test_a_device_is_picked_or_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, devices: int, name: str, wanted: str | NoDevice
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    if isinstance(wanted, NoDevice):
        refuses(NoDevice, wanted.args[0], pick, name)
    else:
        assert pick(name) == torch.device(wanted)


def test_the_processor_is_described() -> None:
    assert describe(pick("cpu")).startswith("cpu (")


@pytest.mark.gpu
def test_a_gpu_is_described_by_its_name() -> None:
    assert torch.cuda.get_device_name(0) in describe(pick("cuda"))


SLOW = pytest.mark.slow


def every_fifth(pair: ModelPair) -> Region:
    return Region.from_flat(np.arange(3, pair.d, 5), pair.table.shapes)


def assert_equal_states(pair: ModelPair, lean: LeanPair, region: Region) -> None:
    for state in STATES:
        chosen = region if state in ("grafted", "complement") else None
        with pair.at(state, chosen), lean.at(state, chosen):
            assert fingerprint_of(lean) == fingerprint_of(pair), state


@pytest.fixture
def lean(base: Path, tuned: Path, readout: str) -> LeanPair:
    return load_lean(base, tuned, readout=readout)


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    ("family", "readout", "load_dtype", "options"),
    [
        pytest.param(family, readout, dtype, {"dtype": getattr(torch, dtype), "move_embeddings": moves}, marks=marks,
                     id=f"{family}-{readout}-{dtype}")
        for family, readout, dtype, moves, marks in (
            ("bert", "head", "float32", True, ()),
            ("roberta", "prompt", "float32", False, ()),
            ("llama", "causal", "bfloat16", True, ()),
            ("gpt2", "causal", "float32", True, SLOW),
            ("opt", "head", "float32", False, SLOW),
            ("distilbert", "head", "bfloat16", False, SLOW),
        )
    ],
)  # fmt: skip
def test_states_are_those_of_the_ordinary_mode(
    pair: ModelPair, lean: LeanPair, tmp_path: Path, load_dtype: str
) -> None:
    facts = (lean.notes, lean.flat.dtype, dict(lean.outside).keys())
    assert facts == (pair.notes, getattr(torch, load_dtype), pair.outside.keys())
    before, encoded, region = fingerprint_of(lean), examples(tmp_path, pair, rows=6), every_fifth(pair)
    assert_equal_states(pair, lean, region)
    for state in STATES:
        chosen = region if state in ("grafted", "complement") else None
        assert np.array_equal(predict(pair, encoded, state, chosen), predict(lean, encoded, state, chosen))
    for path in ("wise-ft", "wise-graft"):
        with on_path(pair, path, 0.3, region), on_path(lean, path, 0.3, region):
            assert fingerprint_of(lean) == fingerprint_of(pair), path
    assert fingerprint_of(lean) == before and ends_check(lean, encoded).passed
    # The ordinary mode computes the layers below these regions once for all of them; lean mode does not.
    top = [p.name for p in pair.table.parameters if p.layer == pair.table.layers - 1]
    uppers = [Region({name: np.arange(count) for name in top[:2]}, pair.table.shapes) for count in (3, 5)]
    np.testing.assert_array_equal(predict_grafts(pair, encoded, uppers), predict_grafts(lean, encoded, uppers))
    for one, other in zip(
        *(grid_logits(p, encoded, {6: uppers[0]}, np.array([0.0, 0.4, 1.0])) for p in (pair, lean)), strict=True
    ):
        assert one[:3] == other[:3] and np.array_equal(one[3], other[3])
    assert not differing(pair.graft(region).values, lean.graft(region).values)
    assert movement_summary(pair.movement).equals(movement_summary(lean.movement))


@pytest.mark.parametrize("family", ["opt"])
def test_a_gradient_is_the_same_where_activations_are_computed_again(
    pair: ModelPair, lean: LeanPair, tmp_path: Path
) -> None:
    encoded, index, counted = examples(tmp_path, pair, rows=6), torch.arange(pair.d), []
    whole, problem = pair.problem(encoded), lean.problem(encoded)
    problem.watch(index)
    lean.model.base_model.decoder.layers[0].fc1.register_forward_hook(lambda *_: counted.append(1))
    assert whole.train.backward() == problem.train.backward()
    assert torch.equal(whole.flat.grad, problem.gradient_at(index))
    assert len(counted) == 2  # forward, and again in the backward pass


def test_values_come_from_the_files_not_from_the_model(pair: ModelPair, base: Path, tuned: Path) -> None:
    """With float32 files in a bfloat16 model, the graft has the values of the files."""
    lean = load_lean(base, tuned, dtype="bfloat16")
    region = Region.from_flat(np.arange(50), pair.table.shapes)
    assert lean.flat.dtype == torch.bfloat16 and not differing(lean.graft(region).values, pair.graft(region).values)


def test_a_file_that_is_not_as_the_model_has_it_is_refused(base: Path, tuned: Path) -> None:
    change_weights(
        tuned, lambda t: {n.replace("0.attention.self.query.w", "0.attention.self.asked.w"): t[n] for n in t}
    )
    refuses((BadInput, PairMismatch), None, load_lean, base, tuned)


@pytest.mark.parametrize("readout", ["prompt"])
def test_a_model_that_did_not_move_is_refused(base: Path, tmp_path: Path) -> None:
    refuses(PairMismatch, "identical", load_lean, base, shutil.copytree(base, tmp_path / "copy"))


@pytest.mark.parametrize("readout", ["prompt"])
@pytest.mark.parametrize("dtype", [None, "float16"])
def test_a_difference_is_read_from_both_files(base: Path, tuned: Path, dtype: str | None) -> None:
    strip(tuned, base, dtype)
    pair, lean = load_pair(base, tuned), load_lean(base, tuned)
    assert lean.notes == pair.notes and "stored without" in lean.notes[0]
    assert_equal_states(pair, lean, every_fifth(pair))


both_dtypes = pytest.mark.parametrize(
    ("options", "load_dtype"),
    [({"dtype": torch.float32}, "own"), ({"dtype": torch.bfloat16}, "own")],
    ids=["float32", "bfloat16"],
)


@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("kind", NULLS)
@both_dtypes
def test_a_null_pair_moves_from_the_same_base(pair: ModelPair, kind: str) -> None:
    null, compared = (
        null_pair(pair, kind, 0),
        {SHUFFLED: lambda tau: tau.sort().values, SIGNS: torch.abs, LEARNED_SIGNS: torch.abs}.get(kind),
    )
    assert null.flat is pair.flat and torch.equal(null.base, pair.base)
    tau, moved = (one.finetuned.float() - one.base.float() for one in (pair, null))
    atol, rtol = (1e-6, 1e-5) if pair.base.dtype == torch.float32 else (2e-2, 2e-2)
    for start, end in zip(pair.table.offsets[:-1], pair.table.offsets[1:], strict=True):
        own, other = tau[start:end], moved[start:end]
        wanted, found = (compared(own), compared(other)) if compared else (-own, other)
        assert torch.allclose(wanted, found, atol=atol, rtol=rtol)
    assert not torch.equal(null.finetuned, pair.finetuned)
    assert not NULLS[kind].is_drawn or not torch.equal(null.finetuned, null_pair(pair, kind, 1).finetuned)


@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("kind", NULLS)
@both_dtypes
def test_lean_null_pairs_are_those_of_the_ordinary_mode(
    pair: ModelPair, lean: LeanPair, tmp_path: Path, kind: str
) -> None:
    null, lean_null = null_pair(pair, kind, 3), null_pair(lean, kind, 3)
    region = Region.from_flat(np.arange(2, pair.d, 7), pair.table.shapes)
    encoded, before = examples(tmp_path, pair, rows=6), fingerprint_of(pair)
    with null.at("grafted", region), lean_null.at("grafted", region):
        assert fingerprint_of(null) == fingerprint_of(lean_null) != before
    assert fingerprint_of(pair) == fingerprint_of(lean) == before, "both rest at the base again"
    assert np.array_equal(predict(null, encoded, "grafted", region), predict(lean_null, encoded, "grafted", region))
    for index in (torch.tensor([5, 0, pair.d - 1, 9]), slice(3, 40)):
        assert torch.equal(null.finetuned[index], lean_null.finetuned[index])


@both_dtypes
def test_a_grafts_signs_are_those_given_in_both_modes(pair: ModelPair, lean: LeanPair) -> None:
    order = np.random.default_rng(0).permutation(pair.d)[:500]
    signs = np.resize(np.array([1, -1, 0, -1], dtype=np.float32), 500)
    signed, lean_signed = (with_signs(null_pair(one, LEARNED_SIGNS, 0), order, signs) for one in (pair, lean))
    base = pair.base[order].float()
    tau = null_pair(pair, LEARNED_SIGNS, 0).finetuned[order].float() - base
    wanted, unsigned = ((base + factor * tau).to(pair.base.dtype) for factor in (torch.from_numpy(signs), 1))
    found = signed.finetuned[order]
    assert torch.equal(found, wanted) and not torch.equal(found, unsigned), "no signs would pass"
    region = Region.from_flat(np.sort(order), pair.table.shapes)
    with signed.at("grafted", region), lean_signed.at("grafted", region):
        assert fingerprint_of(signed) == fingerprint_of(lean_signed)
    assert fingerprint_of(pair) == fingerprint_of(lean)


@pytest.mark.parametrize(("kind", "rest", "words"), [("mixed", "base", "mixed"), (SHUFFLED, "zero", "control")])
def test_unknown_nulls_and_controls_are_refused(base: Path, tuned: Path, kind: str, rest: str, words: str) -> None:
    refuses(BadInput, words, null_pair, load_pair(base, tuned, rest=rest), kind, 0)

"""Tests of fine-tuning: the recipe's numbers, the entries that move, and the files left on disk."""

import errno
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from skillviz.api import finetune
from skillviz.errors import BadInput, BadModel, DiskFull, RandomHead
from skillviz.models.finetune.training import TrainStep, batch_rows, best_of
from skillviz.models.finetune.training_config import TrainingConfig, default_steps
from skillviz.models.pair import load_pair
from skillviz.models.predict import predict
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.tiny import MASKED, tiny_model, tiny_pair, tiny_task, tiny_tokenizer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Return the tiny task with two labels."""
    return task(tiny_task(tmp_path_factory.mktemp("data"), rows=64))


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return a bare BERT encoder, the usual form of a pre-trained model."""
    return tiny_pair(tmp_path_factory.mktemp("bert"), "bert", "head")[0]


@pytest.fixture(scope="module")
def tuned(bare, tiny, tmp_path_factory):
    """Return the bare encoder fine-tuned with the classification head: (result, folder, records)."""
    out, records = tmp_path_factory.mktemp("out") / "tuned", []
    found = finetune(str(bare), tiny, out=out, steps=250, lr=0.3, seed=3, device="cpu", progress=records.append)
    return found, out, records


def stored(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize(
    ("labels", "k", "steps"), [(2, 64, 2048), (3, 16, 768), (2, 4095, 131_040), (2, 4096, 16_384), (6, None, 2000)]
)
def test_steps_default_to_the_paper_s_rule(labels, k, steps):
    assert default_steps(labels, k) == steps


def test_rate_and_batch_default_by_readout():
    assert [TrainingConfig(readout=r).settings().lr for r in ("head", "prompt", "causal")] == [1e-2, 5e-3, 5e-3]
    assert TrainingConfig().settings().batch_size == 8
    assert TrainingConfig().settings().weight_decay == 1e-4


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"batch_size": 0}, {"lr": 0.0}, {"lr": float("nan")}, {"lr": -1.0}])
def test_a_recipe_that_cannot_run_is_refused(wrong):
    with pytest.raises(BadInput):
        TrainingConfig(**wrong).settings()


def test_batches_visit_every_example_once_an_epoch_and_follow_the_seed():
    lengths = np.arange(100) % 7 + 1
    first = list(itertools.islice(batch_rows(lengths, 5, seed=1), 20))
    again = list(itertools.islice(batch_rows(lengths, 5, seed=1), 20))
    other = list(itertools.islice(batch_rows(lengths, 5, seed=2), 20))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    whole = list(itertools.islice(batch_rows(lengths, 5, seed=1, pool=20), 20))
    assert sorted(np.concatenate(whole).tolist()) == list(range(100))


def test_batches_are_of_similar_length():
    lengths = np.random.default_rng(0).integers(5, 100, 400)
    sorted_spread = [np.ptp(lengths[b]) for b in itertools.islice(batch_rows(lengths, 8, seed=0), 32)]
    plain = np.random.default_rng(0).permutation(400)[:256].reshape(32, 8)
    assert np.mean(sorted_spread) < 0.3 * np.mean([np.ptp(lengths[b]) for b in plain])


def test_batches_of_a_set_smaller_than_one_batch_are_full():
    assert [len(b) for b in itertools.islice(batch_rows(np.array([3, 4, 5]), 8, seed=0), 3)] == [8, 8, 8]


@pytest.mark.nightly
def test_it_learns_and_keeps_the_best_check(tuned):
    found, _, records = tuned
    assert [r.step for r in records] == list(range(1, 251))
    assert [r.step for r in records if r.metric is not None] == [100, 200, 250]
    best = max(r.metric for r in records if r.metric is not None)
    assert found.best_step == max(r.step for r in records if r.metric == best)
    assert found.scores["validation"]["accuracy"] == best >= 0.8
    assert np.mean([r.loss for r in records[-50:]]) < np.mean([r.loss for r in records[:50]])


def test_equal_checks_keep_the_later():
    history = [TrainStep(100, 300, 0.1, 0, 0.5, True), TrainStep(200, 300, 0.1, 0, 0.5, True)]
    assert best_of(history).step == 200


def test_the_folder_opens_with_transformers_and_says_its_labels(tuned, tiny):
    _, out, _ = tuned
    model = AutoModelForSequenceClassification.from_pretrained(out)
    assert list(model.config.id2label.values()) == list(tiny.labels)
    assert model.config.problem_type == "single_label_classification"
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert AutoTokenizer.from_pretrained(out)("good film")["input_ids"]
    assert not list(out.parent.glob(".*.part"))


def test_embeddings_stay_and_blocks_and_head_move(tuned, bare):
    before, after = stored(bare), stored(tuned[1])
    for name, tensor in after.items():
        own = before.get(name.removeprefix("bert."))
        if "embeddings" in name:
            assert torch.equal(tensor, own), name
        elif own is not None:
            assert not torch.equal(tensor, own), name
    assert "classifier.weight" in after and "classifier.weight" not in before


def test_the_card_says_what_was_done(tuned):
    found, out, _ = tuned
    text = (out / "README.md").read_text()
    for words in ("drawn at random with seed 3", "plain SGD, constant rate 0.3", "250 x 8", "embeddings (3,", "`tiny`"):
        assert words in text
    assert "| split | examples | accuracy | F1 | ECE, plug-in | NLL | Brier score |" in text
    told = json.loads((out / "finetune.json").read_text())
    assert told["best_step"] == found.best_step
    assert len(told["history"]) == 250
    assert len(told["base"]["fingerprint"]) == 64
    assert str(out.parent) not in text


def test_the_same_seed_gives_the_same_weights(bare, tiny, tmp_path):
    folders = {name: tmp_path / name for name in ("a", "b", "c")}
    for name, seed in zip(folders, (1, 1, 2), strict=True):
        torch.rand(7)  # the global random state must not matter
        finetune(str(bare), tiny, out=folders[name], steps=5, seed=seed, device="cpu")
    a, b, c = (stored(f) for f in folders.values())
    assert all(torch.equal(a[n], b[n]) for n in a)
    assert any(not torch.equal(a[n], c[n]) for n in a)


@pytest.mark.parametrize("readout", ["prompt", "causal"])
def test_language_model_heads_stay_where_they_were(readout, tiny, tmp_path):
    family = "bert" if readout == "prompt" else "gpt2"
    base = tiny_pair(tmp_path, family, readout)[0]
    found = finetune(str(base), tiny, out=tmp_path / "out", readout=readout, steps=60, lr=0.05, device="cpu")
    kind = AutoModelForMaskedLM if readout == "prompt" else AutoModelForCausalLM
    before, after = kind.from_pretrained(base), kind.from_pretrained(found.path)
    moved = {n for n, p in after.named_parameters() if not torch.equal(p, before.get_parameter(n))}
    assert moved and all(".layer." in n or ".h." in n for n in moved)
    assert any("language-model head" in n or "final norm" in n for n in found.notes)


def test_train_embeddings_and_train_head_are_asked_for(tiny, tmp_path):
    base = tiny_pair(tmp_path, "bert", "prompt")[0]
    finetune(
        str(base),
        tiny,
        out=tmp_path / "o",
        readout="prompt",
        steps=5,
        device="cpu",
        train_embeddings=True,
        train_head=True,
    )
    before, after = stored(base), stored(tmp_path / "o")
    for name in ("bert.embeddings.word_embeddings.weight", "cls.predictions.bias"):
        assert not torch.equal(before[name], after[name]), name


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("family", ["roberta", "distilbert", "gpt2", "llama"])
def test_the_result_makes_a_pair_with_its_base(family, tiny, tmp_path):
    base = tiny_pair(tmp_path, family, "head")[0]
    found = finetune(str(base), tiny, out=tmp_path / "out", steps=3, device="cpu")
    pair = load_pair(base, found.path)
    assert pair.readout_name == "head"
    assert not pair.outside


def test_an_fp16_base_is_trained_in_float32(tiny, tmp_path):
    base = tiny_pair(tmp_path, "bert", "head", dtype=torch.float16)[0]
    finetune(str(base), tiny, out=tmp_path / "out", steps=2, device="cpu")
    assert {t.dtype for t in stored(tmp_path / "out").values()} == {torch.float32}


def test_a_head_for_other_labels_is_replaced_and_said(tiny, tmp_path):
    three = tiny_model("bert", "head", labels=3)
    three.save_pretrained(tmp_path / "three")
    tiny_tokenizer("bert").save_pretrained(tmp_path / "three")
    found = finetune(str(tmp_path / "three"), tiny, out=tmp_path / "out", steps=2, device="cpu")
    assert "classifier.weight" in found.notes[0]
    assert stored(tmp_path / "out")["classifier.weight"].shape[0] == 2


def test_a_random_language_model_head_is_refused(bare, tiny, tmp_path):
    with pytest.raises(RandomHead, match="prompt"):
        finetune(str(bare), tiny, out=tmp_path / "out", readout="prompt", steps=2, device="cpu")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("family", "readout"), [("bert", "causal"), ("gpt2", "prompt")])
def test_a_readout_that_the_family_lacks_is_refused(family, readout, tiny, tmp_path):
    base = tiny_pair(tmp_path, family, "prompt" if family in MASKED else "causal")[0]
    with pytest.raises(BadModel):
        finetune(str(base), tiny, out=tmp_path / "out", readout=readout, steps=2, device="cpu")


def test_a_loss_that_is_not_finite_stops_with_one_sentence(bare, tiny, tmp_path):
    with pytest.raises(BadInput, match=r"loss became .* lower the learning rate"):
        finetune(str(bare), tiny, out=tmp_path / "out", steps=50, lr=1e30, device="cpu")
    assert not any(tmp_path.iterdir())


def test_a_folder_with_content_is_kept_unless_told(bare, tiny, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("do not lose me")
    with pytest.raises(BadInput, match="not empty"):
        finetune(str(bare), tiny, out=out, steps=1, device="cpu")
    assert (out / "thesis.tex").read_text() == "do not lose me"
    finetune(str(bare), tiny, out=out, steps=1, device="cpu", overwrite=True)
    assert (out / "model.safetensors").is_file() and not (out / "thesis.tex").exists()


def test_a_full_disk_leaves_nothing(bare, tiny, tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("skillviz.atomic.os.replace", full)
    with pytest.raises(DiskFull, match="no space"):
        finetune(str(bare), tiny, out=tmp_path / "out", steps=1, device="cpu")
    assert not any(tmp_path.iterdir())


def test_k_shot_takes_the_paper_s_steps_and_says_so(bare, tiny, tmp_path):
    found = finetune(str(bare), tiny, out=tmp_path / "out", k_shot=2, lr=0.01, device="cpu", evaluate_test=True)
    assert len(found.history) == 16 * 2 * 2
    assert set(found.scores) == {"validation", "test"}
    card = (tmp_path / "out" / "README.md").read_text()
    assert "2 a class, drawn with seed 0" in card and '"text-classification"' in card


def test_a_linear_head_is_a_token_classifier_read_at_the_first_token(bare, tiny, tmp_path):
    finetune(str(bare), tiny, out=tmp_path / "out", steps=20, lr=0.1, head="linear", device="cpu")
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "out").eval()
    pair = load_pair(bare, tmp_path / "out", task=tiny, device="cpu")
    assert sorted(pair.head()) == ["classifier.bias", "classifier.weight"]
    assert any("bare linear layer on the first token" in note for note in pair.notes)
    data = encode(tiny, load(tiny).test, pair.tokenizer, "head")
    with torch.inference_mode():
        alone = [model(input_ids=torch.from_numpy(ids)[None].long()).logits[0, 0].numpy() for ids in data.input_ids]
    np.testing.assert_allclose(predict(pair, data, "finetuned"), np.stack(alone), rtol=1e-4, atol=1e-5)


def test_a_decoder_has_no_first_token_to_read(tiny, tmp_path):
    base = tiny_pair(tmp_path, "gpt2", "head")[0]
    with pytest.raises(BadModel, match="not for 'gpt2'"):
        finetune(str(base), tiny, out=tmp_path / "out", head="linear", device="cpu")


def test_an_unknown_head_lists_the_known():
    with pytest.raises(BadInput, match="known: own, linear"):
        TrainingConfig(head="dense").settings()

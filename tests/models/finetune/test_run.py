"""Tests of fine-tuning: the recipe's numbers, the entries that move, and the files left on disk."""

from __future__ import annotations

import errno
import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from skillviz.api import finetune
from skillviz.core.metrics import METRICS
from skillviz.core.region import Region
from skillviz.errors import BadData, BadInput, BadModel, DiskFull, RandomHead
from skillviz.models.finetune.multi_task import MultiTaskTrainer
from skillviz.models.finetune.region_lock import MovedOutside, RegionLock, TrainedRegion
from skillviz.models.finetune.run import finetune as finetune_by_config
from skillviz.models.finetune.training import TrainStep, batch_rows, best_of, training_data
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig, default_steps, split_settings
from skillviz.models.pair import load_pair
from skillviz.models.predict import predict
from skillviz.tasks.encode import encode
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.tiny import MASKED, tiny_model, tiny_pair, tiny_rows, tiny_task, tiny_tokenizer


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


CPU = {"device": "cpu"}


def finetune_tasks(base, tasks, *, out, device, recipe="multi-task", regions=(), **settings):
    config, data = split_settings({"recipe": recipe, **settings})
    return finetune_by_config(
        str(base), tasks, config, data, out=out, regions=[TrainedRegion(region) for region in regions], device=device
    )


def finetune_sequence(base, tasks, **settings):
    return finetune_tasks(base, tasks, recipe="continual", **settings)


def variant(folder, name, labels=2, seed=0):
    """Return the tiny task under another name, with other rows."""
    path = tiny_task(folder / name, rows=48, labels=labels)
    for number, (split, rows) in enumerate({"train": 48, "validation": 24, "test": 24}.items()):
        lines = [json.dumps(row) for row in tiny_rows(rows, labels, seed=10 * seed + number)]
        (path.parent / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "name": name}))
    return task(path)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Return two tasks, one with two labels and one with three."""
    folder = tmp_path_factory.mktemp("tasks")
    return [variant(folder, "one", 2, seed=1), variant(folder, "two", 3, seed=2)]


@pytest.fixture(scope="module")
def regions(bare, tasks, tmp_path_factory):
    """Return two random regions that overlap."""
    out = tmp_path_factory.mktemp("shapes") / "m"
    finetune(str(bare), tasks[0], out=out, steps=1, device="cpu")
    shapes = load_pair(bare, out, device="cpu").table.shapes
    d = Region.full(shapes).size
    order = np.random.default_rng(0).permutation(d)
    return [Region.from_flat(order[: d // 5], shapes), Region.from_flat(order[d // 10 : d // 3], shapes)]


@pytest.fixture(scope="module")
def sequence(bare, tasks, regions, tmp_path_factory):
    """Return mode -> the folder of a sequence of the two tasks."""
    out = tmp_path_factory.mktemp("sequences")
    chosen = {"naive": (), "grafting": regions}
    for mode, given in chosen.items():
        finetune_sequence(str(bare), tasks, out=out / mode, regions=given, steps=20, lr=0.3, **CPU)
    return out


def weights(folder):
    return load_file(folder / "model.safetensors")


def told(folder):
    return json.loads((folder / "finetune.json").read_text())


def answers(bare, folder, asked):
    """Return the fine-tuned state's logits on the task's test set."""
    pair = load_pair(bare, folder, task=asked, device="cpu")
    return predict(pair, encode(asked, load(asked).test, pair.tokenizer, "head"), "finetuned")


@pytest.mark.nightly
def test_folders_of_a_multi_task_model_share_the_body_exactly(bare, tasks, tmp_path):
    found = finetune_tasks(str(bare), tasks, out=tmp_path / "m", steps=40, lr=0.1, seed=2, **CPU)
    one, two = (weights(tmp_path / "m" / name) for name in ("one", "two"))
    body = [name for name in one if not name.startswith(("bert.pooler", "classifier"))]
    assert all(torch.equal(one[name], two[name]) for name in body)
    assert (one["classifier.weight"].shape[0], two["classifier.weight"].shape[0]) == (2, 3)
    assert not torch.equal(one["bert.pooler.dense.weight"], two["bert.pooler.dense.weight"])
    before = load_file(bare / "model.safetensors")
    assert not torch.equal(
        before["encoder.layer.1.output.dense.weight"], one["bert.encoder.layer.1.output.dense.weight"]
    )
    assert set(found.folders) == {"one", "two"} and len(found.history) == 40
    record = told(tmp_path / "m" / "two")
    assert (record["recipe"], record["tasks"]) == ("multi-task", ["one", "two"])
    mean = np.mean([found.scores[f"{name} validation"]["accuracy"] for name in ("one", "two")])
    assert record["mean_validation"] == pytest.approx(mean)
    pair = load_pair(bare, tmp_path / "m" / "two", task=tasks[1], device="cpu")
    assert record["touched"] == int((pair.base != pair.finetuned).sum())
    assert record["trained"] == pair.d
    again = finetune_tasks(str(bare), tasks, out=tmp_path / "again", steps=40, lr=0.1, seed=2, **CPU)
    assert [r.loss for r in again.history] == [r.loss for r in found.history]
    assert all(torch.equal(one[n], t) for n, t in weights(tmp_path / "again" / "one").items())


def test_each_step_draws_one_task_by_the_seed():
    def drawn(seed):
        seen = []
        trainers = [SimpleNamespace(backward=lambda step, i=i: seen.append(i) or 0.0) for i in range(3)]
        together = MultiTaskTrainer(trainers, seed, METRICS["accuracy"])
        for step in range(300):
            together.backward(step)
        return seen

    assert drawn(0) == drawn(0) != drawn(1)
    assert min(np.bincount(drawn(0))) > 70


def of_references(folder, name):
    """Return the tiny task's texts with their labels as references, scored by perplexity."""
    given = yaml.safe_load(variant(folder, name).path.read_text())
    for field in ("label", "labels", "label_words"):
        del given[field]
    given |= {"reference": "gold", "metric": "perplexity", "template": {"causal": "{text} It was"}}
    for split in ("train", "validation", "test"):
        file = folder / name / f"{split}.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("\n".join(json.dumps({**row, "gold": str(row["label"])}) for row in rows) + "\n")
    path = folder / name / "task.yaml"
    path.write_text(yaml.safe_dump(given))
    return task(path)


def test_perplexities_are_averaged_as_perplexities_and_the_lowest_is_kept(tmp_path):
    base = tiny_pair(tmp_path, "gpt2", "causal")[0]
    both = [of_references(tmp_path, name) for name in ("one", "two")]
    settings = {"readout": "causal", "steps": 2, "grid": "quick", **CPU}
    found = finetune_tasks(str(base), both, out=tmp_path / "m", **settings)
    record = told(tmp_path / "m" / "one")
    values = [found.scores[f"{name} validation"]["perplexity"] for name in ("one", "two")]
    assert record["mean_validation"] == pytest.approx(np.sqrt(values[0] * values[1])) and min(values) > 1
    tried = [point["value"] for point in record["grid"]]
    assert len(set(tried)) > 1 and [point["value"] for point in record["grid"] if point["chosen"]] == [min(tried)]
    assert found.history[-1].metric == pytest.approx(record["mean_validation"])
    assert "best mean of the tasks' validation metrics" in (tmp_path / "m" / "one" / "README.md").read_text()


def test_tasks_of_different_scales_are_refused_together(bare, tasks, tmp_path):
    mixed = [tasks[0], of_references(tmp_path, "words")]
    with pytest.raises(BadInput, match=r"different scales \(one: accuracy, words: perplexity\)"):
        finetune_tasks(str(bare), mixed, out=tmp_path / "m", **CPU)
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_steps_default_to_the_sum_of_the_tasks_own(bare, tasks, tmp_path):
    found = finetune_tasks(str(bare), tasks, out=tmp_path / "m", k_shot=1, **CPU)
    assert len(found.history) == 16 * 2 + 16 * 3


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize(("family", "readout"), [("bert", "prompt"), ("gpt2", "causal")])
def test_with_a_language_model_head_the_whole_model_is_shared(family, readout, tasks, tmp_path):
    base = tiny_pair(tmp_path, family, readout)[0]
    finetune_tasks(str(base), tasks, out=tmp_path / "m", readout=readout, steps=6, optimizer="adamw-l1", **CPU)
    one, two, before = weights(tmp_path / "m" / "one"), weights(tmp_path / "m" / "two"), weights(base)
    assert all(torch.equal(one[name], two[name]) for name in one)
    moved = {name for name in one if not torch.equal(one[name], before[name])}
    assert moved and all(".layer." in name or ".h." in name for name in moved)
    assert told(tmp_path / "m" / "one")["settings"]["l1"] == 0.001


def test_texts_of_another_s_test_are_left_out_of_training(tasks, tmp_path):
    leaky = variant(tmp_path, "leaky", 2, seed=3)
    train = [json.loads(line) for line in (tmp_path / "leaky" / "train.jsonl").read_text().splitlines()]
    texts = load(tasks[0])
    train[0]["text"] = texts.test["text_a"][3].upper() + "  "
    train[1]["text"] = texts.validation["text_a"][0]
    (tmp_path / "leaky" / "train.jsonl").write_text("\n".join(json.dumps(row) for row in train) + "\n")
    found = training_data([leaky, tasks[0]], DataSettings(max_test=1), "head")
    assert found[0].counts["train"] == 46 and found[1].counts["train"] == 48
    assert any("2 of 48 training examples of leaky were left out" in note for note in found[0].splits.notes)
    assert found[0].splits.fingerprint != load(leaky).fingerprint
    (tmp_path / "leaky" / "train.jsonl").write_text("\n".join(json.dumps(row) for row in train[:2]) + "\n")
    with pytest.raises(BadData, match="every training example"):
        training_data([leaky, tasks[0]], DataSettings(), "head")


def test_a_multi_task_grid_chooses_by_the_mean(bare, tasks, tmp_path):
    finetune_tasks(str(bare), tasks, out=tmp_path / "m", steps=4, grid="quick", **CPU)
    grid = told(tmp_path / "m" / "one")["grid"]
    assert len(grid) == 3 and sum(point["chosen"] for point in grid) == 1


@pytest.mark.nightly
def test_a_sequence_writes_every_task_after_every_stage(sequence, bare, tasks):
    for mode in ("naive", "grafting"):
        folders = sorted(str(p.parent.relative_to(sequence / mode)) for p in (sequence / mode).rglob("finetune.json"))
        assert folders == ["1/one", "2/one", "2/two"]
        for place in folders:
            record = told(sequence / mode / place)
            assert (record["recipe"], record["mode"], record["stage"]) == ("continual", mode, int(place[0]))
            pair = load_pair(bare, sequence / mode / place, device="cpu")
            assert record["touched"] == int((pair.base != pair.finetuned).sum())


@pytest.mark.nightly
def test_naive_training_changes_an_earlier_task_s_answers(sequence, bare, tasks):
    early, late = (answers(bare, sequence / "naive" / s / "one", tasks[0]) for s in ("1", "2"))
    assert not np.array_equal(early, late)
    one, two = weights(sequence / "naive" / "2" / "one"), weights(sequence / "naive" / "2" / "two")
    name = "bert.encoder.layer.0.output.dense.weight"
    assert torch.equal(one[name], two[name])


@pytest.mark.slow
def test_by_grafting_an_earlier_task_answers_as_before(sequence, bare, tasks, regions):
    early, late = (sequence / "grafting" / s / "one" for s in ("1", "2"))
    assert all(torch.equal(t, weights(late)[name]) for name, t in weights(early).items())
    np.testing.assert_array_equal(answers(bare, early, tasks[0]), answers(bare, late, tasks[0]))
    assert told(late)["trained"] == regions[0].size


def test_a_task_is_answered_on_the_union_up_to_it(sequence, bare, regions):
    last = load_pair(bare, sequence / "grafting" / "2" / "two", device="cpu")
    first = load_pair(bare, sequence / "grafting" / "2" / "one", device="cpu")
    moved = set(torch.nonzero(last.base != last.finetuned).flatten().tolist())
    union, own = regions[0] | regions[1], regions[0]
    assert moved <= set(union.flat().tolist())
    assert moved & set((regions[1] - regions[0]).flat().tolist())
    owned = torch.from_numpy(own.flat())
    assert torch.equal(last.finetuned[owned], first.finetuned[owned])
    assert told(sequence / "grafting" / "2" / "two")["union"] == union.size


def test_it_is_looked_at_every_step(bare, tasks, regions, tmp_path, monkeypatch):
    looked = itertools.count()
    real = RegionLock.check

    def counted(self, when=""):
        next(looked)
        real(self, when)

    monkeypatch.setattr(RegionLock, "check", counted)
    finetune_sequence(str(bare), tasks, out=tmp_path / "s", regions=regions, steps=5, **CPU)
    assert next(looked) == 2 * (5 + 1)


def test_a_moved_owned_entry_stops_the_sequence(bare, tasks, regions, tmp_path, monkeypatch):
    steps = itertools.count()

    def forgets(self):
        if next(steps) < 7:  # the second stage's third step
            real(self)

    real = RegionLock.mask
    monkeypatch.setattr(RegionLock, "mask", forgets)
    with pytest.raises(MovedOutside, match="at step 3 of stage 2"):
        finetune_sequence(str(bare), tasks, out=tmp_path / "s", regions=regions, steps=5, lr=0.3, **CPU)
    assert not any(tmp_path.iterdir())


def test_wrong_sequences_are_refused_at_once(bare, tasks, regions, tmp_path):
    with pytest.raises(BadInput, match="2 tasks and 1 regions"):
        finetune_sequence(str(bare), tasks, out=tmp_path / "s", regions=regions[:1], **CPU)
    with pytest.raises(BadInput, match="given twice"):
        finetune_sequence(str(bare), [tasks[0]] * 2, out=tmp_path / "s", **CPU)
    with pytest.raises(BadInput, match="several tasks"):
        finetune_tasks(str(bare), tasks[:1], out=tmp_path / "s", **CPU)
    strange = Region({"x": np.array([0])}, {"x": (3,)})
    with pytest.raises(BadInput, match="another architecture"):
        finetune_sequence(str(bare), tasks, out=tmp_path / "s", regions=[regions[0], strange], steps=1, **CPU)
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_label_words_need_no_head_and_adamw_leaves_owned_entries_too(tasks, tmp_path):
    base = tiny_pair(tmp_path, "bert", "prompt")[0]
    tuned = finetune(str(base), tasks[0], out=tmp_path / "m", readout="prompt", steps=1, **CPU).path
    shapes = load_pair(base, tuned, device="cpu").table.shapes
    full = Region.full(shapes).flat()
    given = [Region.from_flat(full[::3], shapes), Region.from_flat(full[::2], shapes)]
    options = {"readout": "prompt", "optimizer": "adamw", "lr": 0.01, "steps": 10, **CPU}
    finetune_sequence(str(base), tasks, out=tmp_path / "s", regions=given, **options)
    early, late = (weights(tmp_path / "s" / stage / "one") for stage in ("1", "2"))
    assert all(torch.equal(early[name], late[name]) for name in early)
    assert not all(torch.equal(early[name], t) for name, t in weights(tmp_path / "s" / "2" / "two").items())
    with pytest.raises(BadInput, match="'two' is owned by an earlier task"):
        finetune_sequence(str(base), tasks, out=tmp_path / "t", regions=[given[0]] * 2, **options)


@pytest.mark.gpu
def test_several_tasks_on_cuda(bare, tasks, regions, tmp_path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    finetune_tasks(str(bare), tasks, out=tmp_path / "m", steps=5, device="cuda")
    finetune_sequence(str(bare), tasks, out=tmp_path / "s", regions=regions, steps=5, device="cuda")
    assert told(tmp_path / "s" / "2" / "one")["stage"] == 2

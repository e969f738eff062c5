"""Tests of fine-tuning: the recipe's numbers, the entries that move, and the files left on disk; and of the journal: an
interrupted fine-tuning resumes and gives the same weights, bit for bit."""

import errno
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import yaml
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer

from skillviz.api import finetune, task
from skillviz.core.metrics import METRICS
from skillviz.errors import BadData, BadInput, BadModel, DiskFull, RandomHead
from skillviz.models.finetune import training
from skillviz.models.finetune.journal import Journal, JournalEntry, TrainingState
from skillviz.models.finetune.multi_task import MultiTaskTrainer
from skillviz.models.finetune.run import Finetuned, journal_of
from skillviz.models.finetune.run import finetune as finetune_by_config
from skillviz.models.finetune.training import TrainStep, batch_rows, best_of, training_data
from skillviz.models.finetune.training_config import default_steps, split_settings
from skillviz.models.predict import predict
from skillviz.models.state_file import ENVIRONMENT
from skillviz.tasks.encode import encode
from skillviz.tasks.splits import load
from tests.models.finetune.trained import (
    CASES,
    STEPS,
    DataSettings,
    MovedOutside,
    Region,
    RegionLock,
    Task,
    TrainedRegion,
    TrainingConfig,
    by_hand,
    differing,
    first,
    flip,
    hashes,
    load_pair,
    refused,
    refuses,
    region_of,
    tiny_model,
    tiny_tokenizer,
    told,
    trained,
    variant,
    weights,
    write_rows,
)
from tests.runs.test_texts import rows_of

CPU = {"device": "cpu"}


@pytest.fixture(scope="module")
def tuned(bare, tiny, tmp_path_factory):
    """Return the bare encoder fine-tuned with the classification head: (result, folder, records)."""
    out, records = tmp_path_factory.mktemp("out") / "tuned", []
    return finetune(str(bare), tiny, out=out, steps=250, lr=0.3, seed=3, progress=records.append, **CPU), out, records


def drawn(count: int, lengths: np.ndarray, size: int, **options: int) -> list[list[int]]:
    """Return the rows of the first batches."""
    return [rows.tolist() for rows in itertools.islice(batch_rows(lengths, size, **options), count)]


def test_batches_visit_every_example_once_an_epoch_and_follow_the_seed():
    lengths = np.arange(100) % 7 + 1
    assert drawn(20, lengths, 5, seed=1) == drawn(20, lengths, 5, seed=1) != drawn(20, lengths, 5, seed=2)
    batches = drawn(40, lengths, 5, seed=1, pool=20)
    assert [sorted(sum(epoch, [])) for epoch in (batches[:20], batches[20:])] == [list(range(100))] * 2


def test_batches_are_of_similar_length():
    lengths = np.random.default_rng(0).integers(5, 100, 400)
    ours, plain = drawn(32, lengths, 8, seed=0), np.random.default_rng(0).permutation(400)[:256].reshape(32, 8)
    spread, usual = (np.mean([np.ptp(lengths[rows]) for rows in batches]) for batches in (ours, plain))
    assert spread < 0.3 * usual


@pytest.mark.nightly
def test_it_learns_and_keeps_the_best_check(tuned):
    found, _, records = tuned
    checked = {r.step: r.metric for r in records if r.metric is not None}
    assert ([r.step for r in records], list(checked)) == (list(range(1, 251)), [100, 200, 250])
    best, step = max((metric, step) for step, metric in checked.items())
    assert (found.best_step, found.scores["validation"]["accuracy"]) == (step, best) and best >= 0.8
    assert np.mean([r.loss for r in records[-50:]]) < np.mean([r.loss for r in records[:50]])


def test_the_folder_opens_with_transformers_and_says_its_labels(tuned, tiny):
    _, out, _ = tuned
    model = AutoModelForSequenceClassification.from_pretrained(out)
    config, kinds = model.config, {p.dtype for p in model.parameters()}
    assert (list(config.id2label.values()), config.problem_type, kinds) == (
        list(tiny.labels), "single_label_classification", {torch.float32},
    )  # fmt: skip
    assert AutoTokenizer.from_pretrained(out)("good film")["input_ids"] and not list(out.parent.glob(".*.part"))


def test_embeddings_stay_and_blocks_and_head_move(tuned, bare):
    before, after = {f"bert.{name}": tensor for name, tensor in weights(bare).items()}, weights(tuned[1])
    assert (differing(before, after) & after.keys()) == {name for name in after if "embeddings" not in name}


def test_the_card_says_what_was_done(tuned):
    found, out, _ = tuned
    text, record = (out / "README.md").read_text(), told(out)
    said = ("drawn at random with seed 3", "plain SGD, constant rate 0.3", "250 x 8", "embeddings (3,", "`tiny`",
            "| split | examples | accuracy | F1 | ECE, plug-in | NLL | Brier score |")  # fmt: skip
    assert [words for words in (*said, str(out.parent)) if words not in text] == [str(out.parent)]
    assert (record["best_step"], len(record["history"]), len(record["base"]["fingerprint"])) == (
        found.best_step, 250, 64,
    )  # fmt: skip


def test_the_same_seed_gives_the_same_weights(bare, tiny, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.rand(7)  # the global random state must not matter
        finetune(str(bare), tiny, out=tmp_path / name, steps=5, seed=seed, **CPU)
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert not differing(a, b) and differing(a, c)


@pytest.mark.parametrize(("family", "readout"), [("bert", "prompt"), ("gpt2", "causal")])
def test_language_model_heads_stay_where_they_were(base, readout, tiny, tmp_path):
    found = finetune(str(base), tiny, out=tmp_path / "out", readout=readout, steps=60, lr=0.05, **CPU)
    moved = differing(weights(base), weights(found.path))
    assert moved and [name for name in moved if ".layer." not in name and ".h." not in name] == []
    assert any("language-model head" in note or "final norm" in note for note in found.notes)


@pytest.mark.parametrize("readout", ["prompt"])
def test_train_embeddings_and_train_head_are_asked_for(base, tiny, tmp_path):
    asked = {"steps": 5, "readout": "prompt", "train_embeddings": True, "train_head": True}
    moved = differing(*map(weights, (base, finetune(str(base), tiny, out=tmp_path / "out", **asked, **CPU).path)))
    assert {"bert.embeddings.word_embeddings.weight", "cls.predictions.bias"} <= moved


@pytest.mark.cases(3, 2)
@pytest.mark.parametrize(
    ("family", "options"),
    [("roberta", {}), ("bert", {"dtype": torch.float16}), ("distilbert", {}), ("gpt2", {}), ("llama", {})],
    ids=["roberta", "bert in float16", "distilbert", "gpt2", "llama"],
)
def test_the_result_makes_a_pair_with_its_base_in_float32(base, tiny, tmp_path):
    found = finetune(str(base), tiny, out=tmp_path / "out", steps=3, **CPU)
    pair, kinds = load_pair(base, found.path), {tensor.dtype for tensor in weights(found.path).values()}
    assert (pair.readout_name, pair.outside, kinds) == ("head", {}, {torch.float32})


def test_a_head_for_other_labels_is_replaced_and_said(tiny, tmp_path):
    tiny_model("bert", "head", labels=3).save_pretrained(tmp_path / "three")
    tiny_tokenizer("bert").save_pretrained(tmp_path / "three")
    found = finetune(str(tmp_path / "three"), tiny, out=tmp_path / "out", steps=2, **CPU)
    assert "classifier.weight" in found.notes[0] and weights(found.path)["classifier.weight"].shape[0] == 2


@pytest.mark.parametrize(
    ("family", "readout", "asked", "kind", "words"),
    [
        ("bert", "head", {"readout": "prompt"}, RandomHead, "prompt"),
        ("bert", "prompt", {"readout": "causal"}, BadModel, "causal"),
        ("gpt2", "causal", {"readout": "prompt"}, BadModel, "prompt"),
        ("gpt2", "head", {"head": "linear"}, BadModel, "not for 'gpt2'"),
        ("llama", "head", {"recipe": "bitfit"}, BadModel, "no biases"),
        ("bert", "head", {"recipe": "graft-retrain", "region": Region({"x": np.array([0])}, {"x": (3,)})}, BadInput,
         "another architecture"),
        ("bert", "head", {"lr": 1e30}, BadInput, r"loss became .* lower the learning rate"),
    ],
    ids=range(7),
)  # fmt: skip
def test_what_cannot_be_trained_is_refused_and_leaves_nothing(base, tiny, tmp_path, asked, kind, words):
    refuses(kind, words, finetune, str(base), tiny, out=tmp_path / "out", steps=50, **asked, **CPU)
    assert {path.name for path in tmp_path.iterdir()} == {"base", "finetuned"}


def test_a_folder_with_content_is_kept_unless_told(bare, tiny, tmp_path):
    file = tmp_path / "out" / "thesis.tex"
    file.parent.mkdir()
    file.write_text("do not lose me")
    refuses(BadInput, "not empty", finetune, str(bare), tiny, out=file.parent, steps=1, **CPU)
    assert file.read_text() == "do not lose me"
    finetune(str(bare), tiny, out=file.parent, steps=1, overwrite=True, **CPU)
    assert (tmp_path / "out" / "model.safetensors").is_file() and not file.exists()


def test_a_full_disk_leaves_nothing(bare, tiny, tmp_path, monkeypatch):
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("skillviz.atomic.os.replace", full)
    refuses(DiskFull, "no space", finetune, str(bare), tiny, out=tmp_path / "out", steps=1, **CPU)
    assert not any(tmp_path.iterdir())


def test_k_shot_takes_the_paper_s_steps_and_says_so(bare, tiny, tmp_path):
    found = finetune(str(bare), tiny, out=tmp_path / "out", k_shot=2, lr=0.01, evaluate_test=True, **CPU)
    card = (tmp_path / "out" / "README.md").read_text()
    said = [words in card for words in ("2 a class, drawn with seed 0", '"text-classification"')]
    assert (len(found.history), set(found.scores), said) == (16 * 2 * 2, {"validation", "test"}, [True, True])


def test_a_linear_head_is_a_token_classifier_read_at_the_first_token(bare, tiny, tmp_path):
    finetune(str(bare), tiny, out=tmp_path / "out", steps=20, lr=0.1, head="linear", **CPU)
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "out").eval()
    pair = load_pair(bare, tmp_path / "out", task=tiny, **CPU)
    said = any("bare linear layer on the first token" in note for note in pair.notes)
    assert said and sorted(pair.head()) == ["classifier.bias", "classifier.weight"]
    data = encode(tiny, load(tiny).test, pair.tokenizer, "head")
    with torch.inference_mode():
        alone = [model(input_ids=torch.from_numpy(ids)[None].long()).logits[0, 0].numpy() for ids in data.input_ids]
    np.testing.assert_allclose(predict(pair, data, "finetuned"), np.stack(alone), rtol=1e-4, atol=1e-5)


def finetune_tasks(base: Path, tasks: list[Task], out: Path, recipe: str = "multi-task", **settings: Any) -> Finetuned:
    device, given = settings.pop("device", "cpu"), [TrainedRegion(region) for region in settings.pop("regions", ())]
    config, data = split_settings({"recipe": recipe, **settings})
    return finetune_by_config(str(base), tasks, config, data, out=out, regions=given, device=device)


def two_tasks(*labels: int) -> Any:
    """Return a fixture: two tasks with these numbers of labels."""

    @pytest.fixture(scope="module")
    def made(tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
        folder, names = tmp_path_factory.mktemp("tasks"), ("one", "two")
        return [variant(folder, name, labels[seed - 1], seed) for seed, name in enumerate(names, start=1)]

    return made


tasks, alike = two_tasks(2, 3), two_tasks(2, 2)


@pytest.fixture(scope="module")
def regions(bare, tasks):
    """Return two random regions that overlap."""
    return [region_of(bare, tasks[0], seed) for seed in (0, 1)]


@pytest.fixture(scope="module")
def sequence(bare, tasks, regions, tmp_path_factory):
    """Return the folder of a sequence of the two tasks, by its mode."""
    out = tmp_path_factory.mktemp("sequences")
    for mode, given in (("naive", ()), ("grafting", regions)):
        finetune_tasks(bare, tasks, out / mode, "continual", regions=given, steps=20, lr=0.3)
    return out


def answers(bare, folder, asked):
    """Return the fine-tuned state's logits on the task's test set."""
    pair = load_pair(bare, folder, task=asked, **CPU)
    return predict(pair, encode(asked, load(asked).test, pair.tokenizer, "head"), "finetuned")


@pytest.mark.nightly
def test_folders_of_a_multi_task_model_share_the_body_exactly(bare, tasks, tmp_path):
    found, again = (finetune_tasks(bare, tasks, tmp_path / name, steps=40, lr=0.1, seed=2) for name in ("m", "again"))
    one, two = (weights(tmp_path / "m" / name) for name in ("one", "two"))
    own = {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"}
    labels, name = [t["classifier.weight"].shape[0] for t in (one, two)], "encoder.layer.1.output.dense.weight"
    assert (differing(one, two), labels, {*found.folders}, len(found.history)) == (own, [2, 3], {"one", "two"}, 40)
    assert not torch.equal(weights(bare)[name], one[f"bert.{name}"])
    pair = load_pair(bare, tmp_path / "m" / "two", task=tasks[1], **CPU)
    mean = np.mean([found.scores[f"{name} validation"]["accuracy"] for name in ("one", "two")])
    record, wanted = told(tmp_path / "m" / "two"), {"recipe": "multi-task", "tasks": ["one", "two"]}
    wanted |= {"touched": int((pair.base != pair.finetuned).sum()), "trained": pair.d}
    assert ({name: record[name] for name in wanted}, record["mean_validation"], [r.loss for r in again.history]) == (
        wanted, pytest.approx(mean), [r.loss for r in found.history],
    )  # fmt: skip
    assert not differing(one, weights(tmp_path / "again" / "one"))


def test_each_step_draws_one_task_by_the_seed():
    def drawn(seed):
        seen = []
        tasks = [SimpleNamespace(backward=lambda step, i=i: seen.append(i) or 0.0) for i in range(3)]
        together = MultiTaskTrainer(tasks, seed, METRICS["accuracy"])
        for step in range(300):
            together.backward(step)
        return seen

    assert drawn(0) == drawn(0) != drawn(1) and min(np.bincount(drawn(0))) > 70


def of_references(folder: Path, name: str) -> Task:
    """Return the tiny task's texts with their labels as references, scored by perplexity."""
    path = variant(folder, name).path
    given = {key: value for key, value in yaml.safe_load(path.read_text()).items() if "label" not in key}
    given |= {"reference": "gold", "metric": "perplexity", "template": {"causal": "{text} It was"}}
    for split in ("train", "validation", "test"):
        file = path.with_name(f"{split}.jsonl")
        write_rows(file, [{**row, "gold": str(row["label"])} for row in rows_of(file)])
    path.write_text(yaml.safe_dump(given))
    return task(path)


@pytest.mark.parametrize(("family", "readout"), [("gpt2", "causal")])
def test_perplexities_are_averaged_as_perplexities_and_the_lowest_is_kept(base, tmp_path):
    tasks = [of_references(tmp_path, name) for name in ("one", "two")]
    found = finetune_tasks(base, tasks, tmp_path / "m", readout="causal", steps=2, grid="quick")
    record = told(tmp_path / "m" / "one")
    values = [found.scores[f"{name} validation"]["perplexity"] for name in ("one", "two")]
    mean = pytest.approx(np.sqrt(values[0] * values[1]))
    assert (record["mean_validation"], found.history[-1].metric) == (mean, mean) and min(values) > 1
    tried = [point["value"] for point in record["grid"]]
    assert len(set(tried)) > 1 and [point["value"] for point in record["grid"] if point["chosen"]] == [min(tried)]
    assert "best mean of the tasks' validation metrics" in (tmp_path / "m" / "one" / "README.md").read_text()


@pytest.mark.slow
def test_steps_default_to_the_sum_of_the_tasks_own(bare, tasks, tmp_path):
    assert len(finetune_tasks(bare, tasks, tmp_path / "m", k_shot=1).history) == 16 * 2 + 16 * 3


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize(("family", "readout"), [("bert", "prompt"), ("gpt2", "causal")])
def test_with_a_language_model_head_the_whole_model_is_shared(base, readout, tasks, tmp_path):
    finetune_tasks(base, tasks, tmp_path / "m", readout=readout, steps=6, optimizer="adamw-l1")
    one, two = (weights(tmp_path / "m" / name) for name in ("one", "two"))
    moved = differing(one, weights(base))
    assert not differing(one, two) and moved
    assert [name for name in moved if ".layer." not in name and ".h." not in name] == []
    assert told(tmp_path / "m" / "one")["settings"]["l1"] == 0.001


def test_texts_of_another_s_test_are_left_out_of_training(tasks, tmp_path):
    leaky, texts = variant(tmp_path, "leaky", 2, seed=3), load(tasks[0])
    file = tmp_path / "leaky" / "train.jsonl"
    train = rows_of(file)
    train[0]["text"] = texts.test["text_a"][3].upper() + "  "
    train[1]["text"] = texts.validation["text_a"][0]
    write_rows(file, train)
    found = training_data([leaky, tasks[0]], DataSettings(max_test=1), "head")
    said = any("2 of 48 training examples of leaky were left out" in note for note in found[0].splits.notes)
    assert said and [one.counts["train"] for one in found] == [46, 48]
    assert found[0].splits.fingerprint != load(leaky).fingerprint
    write_rows(file, train[:2])
    refuses(BadData, "every training example", training_data, [leaky, tasks[0]], DataSettings(), "head")


def test_a_multi_task_grid_chooses_by_the_mean(bare, tasks, tmp_path):
    finetune_tasks(bare, tasks, tmp_path / "m", steps=4, grid="quick")
    assert sorted(point["chosen"] for point in told(tmp_path / "m" / "one")["grid"]) == [False, False, True]


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["naive", "grafting"])
def test_a_sequence_writes_every_task_after_every_stage(sequence, bare, mode):
    folders = {str(p.parent.relative_to(sequence / mode)): p.parent for p in (sequence / mode).rglob("finetune.json")}
    assert sorted(folders) == ["1/one", "2/one", "2/two"]
    for place, folder in folders.items():
        record, pair = told(folder), load_pair(bare, folder, **CPU)
        wanted = {"recipe": "continual", "mode": mode, "stage": int(place[0])}
        wanted["touched"] = int((pair.base != pair.finetuned).sum())
        assert {name: record[name] for name in wanted} == wanted, place


@pytest.mark.nightly
def test_naive_training_changes_an_earlier_task_s_answers(sequence, bare, tasks):
    early, late = (answers(bare, sequence / "naive" / stage / "one", tasks[0]) for stage in ("1", "2"))
    one, two = (weights(sequence / "naive" / "2" / name) for name in ("one", "two"))
    assert not np.array_equal(early, late) and "bert.encoder.layer.0.output.dense.weight" not in differing(one, two)


@pytest.mark.slow
def test_by_grafting_an_earlier_task_answers_as_before(sequence, bare, tasks, regions):
    early, late = (sequence / "grafting" / stage / "one" for stage in ("1", "2"))
    assert not differing(weights(early), weights(late)) and told(late)["trained"] == regions[0].size
    np.testing.assert_array_equal(answers(bare, early, tasks[0]), answers(bare, late, tasks[0]))


def test_a_task_is_answered_on_the_union_up_to_it(sequence, bare, regions):
    first, last = (load_pair(bare, sequence / "grafting" / "2" / name, **CPU) for name in ("one", "two"))
    moved = set(torch.nonzero(last.base != last.finetuned).flatten().tolist())
    union, owned = regions[0] | regions[1], torch.from_numpy(regions[0].flat())
    assert moved <= set(union.flat().tolist()) and moved & set((regions[1] - regions[0]).flat().tolist())
    assert torch.equal(last.finetuned[owned], first.finetuned[owned])
    assert told(sequence / "grafting" / "2" / "two")["union"] == union.size


def test_it_is_looked_at_every_step(bare, tasks, regions, tmp_path, monkeypatch):
    looked = Mock(side_effect=RegionLock.check)
    monkeypatch.setattr(RegionLock, "check", lambda self, when="": looked(self, when))
    finetune_tasks(bare, tasks, tmp_path / "s", "continual", regions=regions, steps=5)
    assert looked.call_count == 2 * (5 + 1)


def test_a_moved_owned_entry_stops_the_sequence(bare, tasks, regions, tmp_path, monkeypatch):
    steps, real = itertools.count(), RegionLock.mask
    # It forgets the mask from the second stage's third step on.
    monkeypatch.setattr(RegionLock, "mask", lambda self: real(self) if next(steps) < 7 else None)
    asked = {"recipe": "continual", "regions": regions, "steps": 5, "lr": 0.3}
    refuses(MovedOutside, "at step 3 of stage 2", finetune_tasks, bare, tasks, tmp_path / "s", **asked)
    assert not any(tmp_path.iterdir())


def test_wrong_sequences_are_refused_at_once(bare, tasks, regions, tmp_path):
    for recipe, given, more, words in (
        ("continual", tasks, {"regions": regions[:1]}, "2 tasks and 1 regions"),
        ("continual", [tasks[0]] * 2, {}, "given twice"),
        ("multi-task", tasks[:1], {}, "several tasks"),
        (
            "multi-task",
            [tasks[0], of_references(tmp_path / "words", "words")],
            {},
            r"different scales \(one: accuracy, words: perplexity\)",
        ),
        (
            "continual",
            tasks,
            {"regions": [regions[0], Region({"x": np.array([0])}, {"x": (3,)})], "steps": 1},
            "another architecture",
        ),
    ):
        refuses(BadInput, words, finetune_tasks, bare, given, tmp_path / "s", recipe, **more)
    assert [path.name for path in tmp_path.iterdir()] == ["words"]


@pytest.mark.slow
@pytest.mark.parametrize("readout", ["prompt"])
def test_label_words_need_no_head_and_adamw_leaves_owned_entries_too(base, tasks, tmp_path):
    given = [region_of(base, tasks[0], seed, readout="prompt") for seed in (0, 1)]
    options = {"readout": "prompt", "optimizer": "adamw", "lr": 0.01, "steps": 10}
    finetune_tasks(base, tasks, tmp_path / "s", "continual", regions=given, **options)
    early, late, two = (weights(tmp_path / "s" / place) for place in ("1/one", "2/one", "2/two"))
    assert not differing(early, late) and differing(early, two)
    options |= {"recipe": "continual", "regions": [given[0]] * 2}
    refuses(BadInput, "'two' is owned by an earlier task", finetune_tasks, base, tasks, tmp_path / "t", **options)


@pytest.mark.gpu
def test_several_tasks_on_cuda(bare, tasks, regions, tmp_path):
    finetune_tasks(bare, tasks, tmp_path / "m", steps=5, device="cuda")
    finetune_tasks(bare, tasks, tmp_path / "s", "continual", regions=regions, steps=5, device="cuda")
    assert told(tmp_path / "s" / "2" / "one")["stage"] == 2


test_by_hand = by_hand(
    *((f"steps by the paper's rule: {labels} labels, {k}-shot", steps, default_steps, labels, k)
      for labels, k, steps in (
        (2, 64, 2048), (3, 16, 768), (2, 4095, 131_040), (2, 4096, 16_384), (6, None, 2000))),
    *((f"rate, batch and decay for {readout}", (rate, 8, 1e-4), attrgetter("lr", "batch_size", "weight_decay"),
       TrainingConfig(readout=readout).settings())
      for readout, rate in (("head", 1e-2), ("prompt", 5e-3), ("causal", 5e-3))),
    ("batches of a set smaller than one are full", [8, 8, 8],
     lambda: [len(rows) for rows in drawn(3, np.array([3, 4, 5]), 8, seed=0)]),
    ("equal checks keep the later", 200,
     lambda: best_of([TrainStep(step, 300, 0.1, 0, 0.5, True) for step in (100, 200)]).step),
)  # fmt: skip
test_a_recipe_that_cannot_run_is_refused = refused(
    BadInput,
    *((words, TrainingConfig(**wrong).settings) for wrong, words in (
        ({"steps": 0}, "steps is 0"),
        ({"batch_size": 0}, "batch size is 0"),
        *(({"lr": rate}, f"rate is {rate}") for rate in (0.0, float("nan"), -1.0)),
        ({"head": "dense"}, "known: own, linear"),
        ({"keep": "first"}, "best, last"),
    )),
)  # fmt: skip


Train = Callable[..., Finetuned]


@pytest.fixture
def train(bare: Path, alike: list[Task], monkeypatch: pytest.MonkeyPatch) -> Train:
    """Return a function that fine-tunes a case; frequent checks make the best step differ from the last."""
    monkeypatch.setattr("skillviz.models.finetune.training_config.CHECK_EVERY", 2)
    monkeypatch.setenv(ENVIRONMENT, "0")

    return partial(trained, bare, alike)


def stop(train: Train, case: dict[str, Any], out: Path, after: int = 7) -> None:
    """Fine-tune a case until Ctrl-C, after this many reports."""
    with pytest.raises(KeyboardInterrupt):
        train(case, out, on_step=Mock(side_effect=[None] * (after - 1) + [KeyboardInterrupt]))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the steps that are trained."""
    steps, backward = list[int](), training.Trainer.backward
    monkeypatch.setattr(training.Trainer, "backward", lambda self, step: (steps.append(step), backward(self, step))[1])
    return steps


@pytest.mark.cases(0, 2)
@pytest.mark.slow
@pytest.mark.parametrize("name", first(CASES, ("adamw",).__contains__, ("multi-task", "lora").__contains__))
def test_an_interrupted_training_gives_the_same_weights(train: Train, tmp_path: Path, name: str) -> None:
    whole = train(CASES[name], tmp_path / "whole")
    history = [(r.step, r.loss, r.metric, r.best) for r in whole.history]
    total = 3 * STEPS if name == "grid" else len(history)
    for after in (1, 5, total - 1, total):
        out = tmp_path / f"cut-{after}"
        stop(train, CASES[name], out, after)
        assert not out.exists() and any(journal_of(out).iterdir())
        stop(train, CASES[name], out, after + 3 if after + 3 < total else 2)  # and once more, later
        done = train(CASES[name], out)
        assert hashes(out) == hashes(tmp_path / "whole") and not journal_of(out).exists(), after
        assert ([(r.step, r.loss, r.metric, r.best) for r in done.history], done.best_step) == (
            history,
            whole.best_step,
        )


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, marks=pytest.mark.slow, id="a bit"),
        *(pytest.param(case, marks=pytest.mark.nightly) for case in ({"lr": 0.02}, {"seed": 1}, {"batch_size": 8})),
    ],
)
def test_with_other_settings_or_a_changed_bit_training_starts_over(
    train: Train, tmp_path: Path, changed: dict[str, Any]
) -> None:
    stop(train, {}, tmp_path / "out")
    (file,) = journal_of(tmp_path / "out").iterdir()
    if not changed:
        flip(file, -1000)
    for name in ("out", "whole"):
        train(changed, tmp_path / name)
    assert hashes(tmp_path / "out") == hashes(tmp_path / "whole") and not journal_of(tmp_path / "out").exists()


@pytest.mark.slow
def test_a_state_that_is_not_put_back_exactly_gives_other_weights(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plant an error that the test of the weights must catch: one trained value is off by one unit."""
    train({"recipe": "adamw"}, tmp_path / "whole")
    stop(train, {"recipe": "adamw"}, tmp_path / "out")
    restored = JournalEntry.restored

    def spoiled(self: JournalEntry) -> TrainingState | None:
        state = restored(self)
        next(iter(state.optimizer.values()))["exp_avg"].view(-1)[0] += 1e-3
        return state

    monkeypatch.setattr(JournalEntry, "restored", spoiled)
    train({"recipe": "adamw"}, tmp_path / "out")
    assert hashes(tmp_path / "out") != hashes(tmp_path / "whole")


@pytest.mark.parametrize("threads", [1, 99])
def test_the_steps_that_are_done_are_not_trained_again_also_on_another_number_of_threads_which_is_said(
    train: Train, tmp_path: Path, taken: list[int], monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Hours of training are not repeated because of a difference in rounding."""
    stop(train, {}, tmp_path / "out")
    monkeypatch.setattr("skillviz.models.finetune.run.describe", lambda device: f"cpu ({threads} threads)")
    done, again = (train({}, tmp_path / name) for name in ("out", "again"))
    assert taken[7:] == [*range(8, STEPS + 1), *range(1, STEPS + 1)]
    said = [note for note in done.notes if "up to rounding" in note]
    assert [note.startswith("Started on cpu (1 threads), torch") for note in said] == [True] * (threads == 99)
    assert ["resumed on cpu (99 threads), torch" in note for note in said] == [True] * (threads == 99)
    assert [note for note in again.notes if "resumed" in note] == []


def test_a_state_comes_back_as_it_was_written(tmp_path: Path) -> None:
    state = TrainingState([{"step": 1}], 0.5, [torch.ones(2)], [torch.zeros(2)], {0: {"step": torch.tensor(3.0)}})
    state.write(tmp_path / "1", "a")
    again, other, absent = (
        TrainingState.read(tmp_path / name, key) for name, key in (("1", "a"), ("1", "b"), ("2", "a"))
    )
    torch.testing.assert_close(asdict(again), asdict(state), rtol=0, atol=0)
    assert (again.is_done, other, absent) == (False, None, None)


def test_no_room_for_a_state_does_not_end_the_training(train: Train, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(TrainingState, "write", Mock(side_effect=DiskFull("no space")))
    train({}, tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").is_file() and not journal_of(tmp_path / "out").exists()


def ending(step: int, number: signal.Signals) -> list[str]:
    """Return the words that run skillviz, which sends itself a signal before this step."""
    code = (
        "import os, signal, sys; from skillviz.models.finetune import training; from skillviz.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "backward = training.Trainer.backward\n"
        "def ended(self, step):\n"
        f"    if step == {step}: os.kill(os.getpid(), {int(number)})\n"
        "    return backward(self, step)\n"
        "training.Trainer.backward = ended; sys.argv = ['skillviz', *sys.argv[1:]]; main()"
    )
    return [sys.executable, "-c", code]


@pytest.mark.nightly
def test_ctrl_c_in_a_terminal_says_how_to_resume(bare: Path, alike: list[Task], tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["finetune", "--base", str(bare), "--task", str(alike[0].path), "--steps", "20", "--device", "cpu"]
    said = subprocess.run([*ending(9, signal.SIGINT), *words, "--out", str(out)], capture_output=True, text=True)
    assert said.returncode == 130 and "Run the same command again" in said.stderr, said.stderr
    state = TrainingState.read(journal_of(out) / "1.safetensors", Journal(journal_of(out)).stamp)
    assert state is None, "it belongs to a request"
    (file,) = journal_of(out).iterdir()
    assert b'"step": 9' in file.read_bytes() or b'\\"step\\": 9' in file.read_bytes()


@pytest.mark.nightly
def test_a_killed_command_resumes(bare: Path, alike: list[Task], tmp_path: Path) -> None:
    """Use kill -9 on the command; the same command again gives the weights of an uninterrupted one."""
    words = ["finetune", "--base", str(bare), "--task", str(alike[0].path), "--steps", "60", "--lr", "0.01",
             "--device", "cpu", "--out"]  # fmt: skip
    environment, out = {**os.environ, ENVIRONMENT: "0"}, tmp_path / "out"
    killed = subprocess.run([*ending(40, signal.SIGKILL), *words, str(out)], env=environment)
    assert killed.returncode == -signal.SIGKILL and not out.exists() and journal_of(out).is_dir()
    for folder in (out, tmp_path / "whole"):
        command = [sys.executable, "-m", "skillviz", *words, str(folder)]
        subprocess.run(command, env=environment, check=True, capture_output=True)
    assert hashes(out) == hashes(tmp_path / "whole")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [], "nothing is left beside it"

"""Tests of class names of models, adapters, grafts and data: in another order, case or wording, or missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest
from peft import LoraConfig, get_peft_model
from transformers import BertForSequenceClassification

from skillviz.core.class_names import match
from skillviz.core.comparison import Comparison
from skillviz.core.region import Region
from skillviz.errors import BadData, PairMismatch
from skillviz.models.heads import class_names
from skillviz.models.pair import load_pair
from skillviz.models.preflight import preflight
from skillviz.runs.evaluation import evaluate
from skillviz.runs.transfer import label_mapping
from skillviz.tasks.registry import task as read
from skillviz.tasks.splits import load
from skillviz.tasks.task import Files, Task
from tests.cases.build import bert, evaluated, fit, own_accuracy, saved, task_file, tiny_rows
from tests.models.folders import change_config
from tests.tiny import tiny_tokenizer

SAME, DIFFERENT, UNKNOWN = Comparison.SAME, Comparison.DIFFERENT, Comparison.UNKNOWN
POLARITY = ["negative", "positive"]
NLI = ["contradiction", "neutral", "entailment"]
TRAIN, TEST = tiny_rows(48, seed=1), tiny_rows(40, seed=2)


@pytest.mark.parametrize(
    ("names", "labels", "comparison", "order"),
    [
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
    ],
)
def test_two_lists_of_names(
    names: list[str], labels: list[str], comparison: Comparison, order: tuple[int, ...] | None
) -> None:
    assert (match(names, labels).comparison, match(names, labels).order) == (comparison, order)


@pytest.mark.parametrize(
    ("config", "names", "contradiction"),
    [
        ({"id2label": {"1": "no", "0": "yes"}}, ("yes", "no"), ""),
        ({"label2id": {"yes": 0, "no": "1"}}, ("yes", "no"), ""),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"no": 1, "yes": 0}}, ("yes", "no"), ""),
        ({"id2label": {"0": "yes", "1": "no"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}, ("yes", "no"), ""),
        ({"id2label": {"0": "yes", "1": "no"}, "label2id": {"yes": 1, "no": 0}}, ("yes", "no"), "yes"),
        ({"label2id": {"yes": 0, "yeah": 0, "no": 1}}, (), ""),
        ({"id2label": {"1": "yes", "2": "no"}}, (), ""),
        ({"label2id": ["yes", "no"]}, (), ""),
    ],
)
def test_names_of_a_configuration(config: dict[str, Any], names: tuple[str, ...], contradiction: str) -> None:
    assert (class_names(config).names, class_names(config).contradiction) == (names, contradiction)


def pair_of(folder: Path, finetuned: dict[str, Any] | None = None) -> tuple[Path, Path, float]:
    """Return the base, the fine-tuned model (trained with swapped classes), and its own accuracy by class name."""
    tokenizer, model = tiny_tokenizer("bert"), bert()
    fit(model, tokenizer, _turned(TRAIN), steps=15)
    base = saved(folder / "base", model, tokenizer)
    model.bert.embeddings.requires_grad_(False)  # grafts omit the embeddings; so a full graft is the fine-tuned model
    fit(model, tokenizer, _turned(TRAIN), steps=15)
    tuned = saved(folder / "tuned", model, tokenizer)
    own = own_accuracy(model, tokenizer, _turned(TEST))
    assert own > 0.8
    if finetuned:
        change_config(tuned, **finetuned)
    return base, tuned, own


def _turned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "label": 1 - row["label"]} for row in rows]


def task_of(folder: Path, **changes: Any) -> Path:
    return task_file(folder / "task", TRAIN, TEST, **changes)


@pytest.mark.nightly
def test_an_adapter_is_read_by_its_bases_names(tmp_path: Path) -> None:
    tokenizer, names = tiny_tokenizer("bert"), {0: "positive", 1: "negative"}
    model = bert(id2label=names, label2id={name: output for output, name in names.items()})
    fit(model, tokenizer, _turned(TRAIN), steps=15)
    base = saved(tmp_path / "base", model, tokenizer)
    settings = LoraConfig(task_type="SEQ_CLS", r=8, target_modules=["query", "value", "dense"])
    joined = get_peft_model(BertForSequenceClassification.from_pretrained(base), settings)
    fit(joined, tokenizer, _turned(TRAIN), steps=25, rate=1e-2)
    joined.save_pretrained(tmp_path / "lora")
    own = own_accuracy(joined, tokenizer, _turned(TEST))
    merged = saved(tmp_path / "merged", joined.merge_and_unload(), tokenizer)
    task = task_of(tmp_path)
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
    base, tuned, own = pair_of(tmp_path, names)
    task = task_of(tmp_path)
    accuracy, evaluation = evaluated(base, tuned, task)
    assert accuracy == own and any("matched by name" in note for note in evaluation.notes)
    pair = load_pair(base, tuned)
    graft = pair.graft(Region.full(pair.table.shapes))
    alone = evaluate(base, None, task, graft=graft, device="cpu").headline()["metrics"]["grafted"]["accuracy"]
    both = evaluate(base, tuned, task, graft=graft, device="cpu").headline()["metrics"]["grafted"]["accuracy"]
    assert alone == both == own


@pytest.mark.slow
def test_a_head_without_names_is_said_and_its_graft_keeps_the_order_of_its_run(tmp_path: Path) -> None:
    base, tuned, own = pair_of(tmp_path)
    task = read(task_of(tmp_path, labels=["positive", "negative"], classes={"0": "negative", "1": "positive"}))
    accuracy, evaluation = evaluated(base, tuned, task)
    assert accuracy == own and any("does not name its classes" in note for note in evaluation.notes)
    pair = load_pair(base, tuned)
    graft = pair.graft(Region.full(pair.table.shapes), {"labels": list(task.labels)})
    in_another_order = read(task_file(tmp_path / "other", TRAIN, TEST))
    values = [
        evaluate(base, None, one, graft=graft, device="cpu").headline()["metrics"]["grafted"]["accuracy"]
        for one in (task, in_another_order)
    ]
    assert values == [own, own]


def test_names_that_contradict_the_tasks_are_refused_and_unknown_ones_are_said(tmp_path: Path) -> None:
    base, tuned, _ = pair_of(tmp_path)
    task = read(task_of(tmp_path))
    change_config(tuned, id2label={"0": "bad", "1": "good"})
    assert any("bad, good" in note and "their order" in note for note in preflight(base, tuned, task).notes)
    change_config(tuned, id2label={"0": "negative", "1": "positive"}, label2id={"negative": 1, "positive": 0})
    check = preflight(base, tuned, task)
    assert check.class_order is None and any("'negative' to different outputs" in note for note in check.notes)


def test_names_of_three_classes(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer("bert")
    base, tuned = (saved(tmp_path / name, bert(num_labels=3), tokenizer) for name in ("base", "tuned"))
    task = task_file(tmp_path / "nli", tiny_rows(9, 3), tiny_rows(9, 3), labels=NLI)
    change_config(tuned, id2label={"0": "entailment", "1": "x", "2": "y"})
    with pytest.raises(PairMismatch, match=r"'entailment' is output 0"):
        preflight(base, tuned, read(task)).raise_first()
    change_config(tuned, id2label={"0": "ENTAILMENT", "1": "NEUTRAL", "2": "CONTRADICTION"})
    assert preflight(base, tuned, read(task)).class_order == (2, 1, 0)


def parquet_task(folder: Path, names: list[str], labels: list[int], **changes: Any) -> Task:
    """Return a task with Parquet files of `datasets` as data, with these class names."""
    path = task_file(folder, [], [], data={"train": "train.parquet", "test": "test.parquet"}, **changes)
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
    rows = datasets.Dataset.from_dict({"text": [f"t{i}" for i in range(len(labels))], "label": labels}, features)
    for split in ("train", "test"):
        rows.to_parquet(folder / f"{split}.parquet")
    return read(path)


@pytest.mark.parametrize(
    ("names", "changes", "wanted", "said"),
    [
        (["Positive", "Negative"], {}, [1, 0], None),
        (["positive", "negative"], {}, [1, 0], None),
        (["pos", "neg"], {}, [1, 0], "'pos' as 'positive'"),
        (["good", "bad"], {}, [0, 1], "good, bad"),
        (["0", "1"], {}, [0, 1], "0, 1"),
        (["good", "bad"], {"classes": {"Good ": "positive", "Bad": "negative"}}, [1, 0], None),
        (["good", "bad"], {"classes": {"0": "positive", "1": "negative"}}, [1, 0], None),
    ],
)
def test_class_names_of_a_parquet_file(
    tmp_path: Path, names: list[str], changes: dict[str, Any], wanted: list[int], said: str | None
) -> None:
    splits = load(parquet_task(tmp_path, names, [0, 1] * 2, **changes))
    assert splits.test["label"].tolist() == wanted * 2
    notes = [note for note in splits.notes if "name their classes" in note]
    assert len(notes) == (said is not None) and all(str(said) in note for note in notes)


def test_a_class_that_the_task_does_not_know_is_refused_by_its_name(tmp_path: Path) -> None:
    names = ["negative", "neutral", "positive"]
    with pytest.raises(BadData, match="the label 'neutral' in row 2"):
        load(parquet_task(tmp_path / "a", names, [0, 1, 0, 1]))
    dropped = load(parquet_task(tmp_path / "b", names, [0, 1, 2, 2], drop=["Neutral"]))
    assert dropped.test["label"].tolist() == [0, 1, 1]


@pytest.mark.parametrize("labels", [["Positive", "NEGATIVE"], [" positive", "negative "], ["positive", "negative"]])
def test_labels_of_a_csv_file_in_another_case_or_with_spaces(tmp_path: Path, labels: list[str]) -> None:
    path = task_file(tmp_path, [], [], data={"train": "rows.csv", "test": "rows.csv"})
    pd.DataFrame({"text": ["a", "b", "c", "d"], "label": labels * 2}).to_csv(tmp_path / "rows.csv", index=False)
    assert load(read(path)).test["label"].tolist() == [1, 0] * 2


def test_labels_of_another_task_are_matched_as_a_models_are() -> None:
    source, other = (
        Task(name=labels[0], data=Files(train="a.csv", test="b.csv"), text=("text",), labels=labels)
        for labels in (("not_entailment", "entailment"), ("Entailment", "not entailment"))
    )
    assert label_mapping(source, other) == {"Entailment": "entailment", "not entailment": "not_entailment"}

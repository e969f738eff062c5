"""Tests of long texts: they are truncated to the model's own length, like in transformers, and counted in a note."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from transformers import AutoTokenizer

from skillviz.core.encoded import encoding_notes
from skillviz.models.pair import load_pair
from skillviz.runs.evaluation import evaluate
from skillviz.tasks import registry
from skillviz.tasks.encode import encode
from skillviz.tasks.task import Files, Task
from skillviz.tasks.user_file import read_task
from tests.cases.build import bert, evaluated, fit, own_accuracy, saved, task_file
from tests.tasks.tokenizers import tokenizer
from tests.tiny import tiny_rows, tiny_tokenizer
from tests.tiny_tokenizers import NEUTRAL

PLACES = 200
FILLER = " ".join(NEUTRAL[:6])


def told_late(rows: int, words: int, seed: int = 0) -> list[dict]:
    """Return rows whose label words follow about this many neutral words."""
    before = " ".join([FILLER] * (words // 6))
    return [{**row, "text": f"{before} {row['text']}"} for row in tiny_rows(rows, seed=seed)]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """Return a folder with a pair of PLACES positions, fitted to label words anywhere; the model; its tokenizer."""
    folder, tok = tmp_path_factory.mktemp("pair"), copy.deepcopy(tiny_tokenizer("bert"))
    tok.model_max_length = PLACES
    model = bert(max_position_embeddings=PLACES, num_hidden_layers=1)
    saved(folder / "base", model, tok)
    fit(model, tok, [*tiny_rows(100), *told_late(100, 150)], steps=40, rate=6e-3)
    saved(folder / "finetuned", model, tok)
    return folder, model, tok


def with_settings(fitted: tuple[Path, Any, Any], folder: Path, **settings: Any) -> tuple[Path, Path, Any, Any]:
    """Return the base, fine-tuned model, loaded model and tokenizer of a copy with these extra tokenizer settings."""
    made, model, _ = fitted
    shutil.copytree(made, folder / "pair")
    for name in ("base", "finetuned"):
        path = folder / "pair" / name / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    tok = AutoTokenizer.from_pretrained(folder / "pair" / "finetuned")
    return folder / "pair" / "base", folder / "pair" / "finetuned", model, tok


@pytest.mark.nightly
def test_a_task_that_states_no_length_has_the_models_own(fitted, tmp_path: Path) -> None:
    """Regression: words after the 128th token decide, and skillviz's accuracy equals the model's own."""
    base, tuned, model, tok = with_settings(fitted, tmp_path)
    rows = told_late(40, 150, seed=1)
    own, short = (own_accuracy(model, tok, rows, most) for most in (PLACES, 128))
    ours, result = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows))
    assert ours == own and own > short + 0.2
    assert not any("shortened" in note for note in result.notes)


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    ("stated", "whose"), [(100, "max_length"), (150, "the most that the model takes"), (None, "max_length")]
)
def test_shortened_texts_are_counted(fitted, tmp_path: Path, stated: int | None, whose: str) -> None:
    base, tuned, model, tok = with_settings(fitted, tmp_path, model_max_length=100)
    rows = [*told_late(30, 150), *tiny_rows(10)]
    changes = {} if stated is None else {"max_length": stated}
    ours, result = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows, **changes))
    assert ours == own_accuracy(model, tok, rows, 100)
    assert f"test: 30 of 40 texts were shortened to 100 tokens ({whose})." in result.notes


def test_the_side_of_the_tokenizer_is_followed(fitted, tmp_path: Path) -> None:
    base, tuned, model, tok = with_settings(fitted, tmp_path, truncation_side="left")
    rows = told_late(40, 150, seed=1)
    own = own_accuracy(model, tok, rows, 100)
    tok.truncation_side = "right"
    ours, _ = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows, max_length=100))
    assert ours == own and own > own_accuracy(model, tok, rows, 100) + 0.2


def texts_task(pair: bool, **changes: object) -> Task:
    values = {"text": ("a", "b") if pair else ("a",), "labels": ("x", "y"), "data": Files(train="t.csv", test="t.csv")}
    return Task(name="lengths", **{**values, **changes})


def frame(*texts: tuple[str, ...]) -> pd.DataFrame:
    columns = {f"text_{'ab'[k]}": [row[k] for row in texts] for k in range(len(texts[0]))}
    return pd.DataFrame({"example_id": [str(i) for i in range(len(texts))], **columns, "label": 0})


WORDS = "the film wasn't unbelievably good, 1234 times: naïve plot!  it   was é"


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("is_pair", [False, True])
@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "unigram", "llama", "gpt2"])
def test_ids_for_a_head_are_those_of_transformers(monkeypatch, kind: str, is_pair: bool, side: str) -> None:
    tok = tokenizer(kind)
    monkeypatch.setattr(tok, "truncation_side", side)
    rows = [(WORDS * n, WORDS[5:] * m) for n, m in ((3, 1), (1, 3), (2, 2), (1, 1))]
    rows = rows if is_pair else [row[:1] for row in rows]
    ours = encode(texts_task(is_pair), frame(*rows), tok, "head", 24)
    for row, ids in zip(rows, ours.input_ids, strict=True):
        own = tok(*row, truncation=True, max_length=24)
        assert ids.tolist() == own["input_ids"]
    what = "text pairs" if is_pair else "texts"
    assert ours.notes == (f"4 of 4 {what} were shortened to 24 tokens (max_length).",)
    encode(texts_task(is_pair), frame(*rows), tok, "head", 24)
    assert tok.backend_tokenizer.truncation is None  # a truncation setting would be saved with the model


@pytest.mark.parametrize(("side", "kept"), [("right", "good"), ("left", "bad")])
@pytest.mark.parametrize("readout", ["prompt", "causal"])
def test_a_prompt_keeps_the_side_too(monkeypatch, readout: str, side: str, kept: str) -> None:
    tok = tokenizer("bytes" if readout == "prompt" else "gpt2")
    monkeypatch.setattr(tok, "truncation_side", side)
    task = texts_task(
        False, template={"masked": "{a} It was {mask} .", "causal": "{a} It was"},
        label_words={"masked": ("great", "bad"), "causal": ("great", "bad")},
    )  # fmt: skip
    text = "good " * 30 + "bad " * 30
    encoded = encode(task, frame((text,), ("film",)), tok, readout, 20)
    words = tok.decode(encoded.input_ids[0])
    assert kept in words and ({"good", "bad"} - {kept}).pop() not in words and "It was" in words
    assert encoded.notes == ("1 of 2 texts was shortened to 20 tokens (max_length).",)


def test_built_in_tasks_keep_their_length() -> None:
    assert {name: registry.task(name).limit("head") for name in ("sst2", "imdb", "mnli")} == {
        "sst2": 128, "imdb": 128, "mnli": 256,
    }  # fmt: skip


def test_the_length_of_the_fine_tuning_is_used_where_the_folder_says_it(fitted, tmp_path: Path) -> None:
    base, tuned, _, _ = with_settings(fitted, tmp_path)
    rows = told_late(10, 150)
    task = read_task(task_file(tmp_path / "task", rows, rows))
    assert load_pair(base, tuned, task=task, device="cpu").limit(task) == PLACES
    config = json.loads((tuned / "config.json").read_text())
    (tuned / "config.json").write_text(json.dumps({**config, "skillviz_max_length": 40}))
    pair = load_pair(base, tuned, task=task, device="cpu")
    assert pair.limit(task) == 40 and pair.limit(task.model_copy(update={"max_length": 60})) == 60
    assert encoding_notes({"test": pair.encode(task, frame((rows[0]["text"],)))}) == (
        "test: 1 of 1 text was shortened to 40 tokens (max_length).",
    )


def test_a_length_that_the_tokenizer_was_saved_with_is_said_and_not_followed(fitted, tmp_path: Path) -> None:
    """transformers ignores the saved length too: it only records the last call before saving."""
    base, tuned, model, tok = with_settings(fitted, tmp_path)
    tok(["a"], truncation=True, max_length=32)
    tok.save_pretrained(tuned)
    rows = [*told_late(30, 150), *tiny_rows(10)]
    ours, result = evaluated(base, tuned, task_file(tmp_path / "task", rows[:10], rows))
    assert ours == own_accuracy(model, tok, rows, PLACES)
    assert any(note.startswith("test: 30 of 40 texts have more than 32 tokens") for note in result.notes)
    _, result = evaluated(base, tuned, task_file(tmp_path / "stated", rows[:10], rows, max_length=PLACES))
    assert not any("more than 32 tokens" in note for note in result.notes)


def test_one_length_from_fine_tuning_to_the_graft_alone(tmp_path: Path) -> None:
    """Training, localizing, evaluating and applying without the fine-tuned model all truncate to the same length."""
    from skillviz.models.finetune.run import finetune
    from skillviz.models.finetune.training_config import DataSettings, TrainingConfig
    from skillviz.runs.produce import produce
    from skillviz.runs.spec import RunSpec
    from skillviz.runs.store import Store

    tok = tiny_tokenizer("bert")
    base = saved(tmp_path / "base", bert(), tok)
    rows = told_late(40, 90)
    trained_on = read_task(task_file(tmp_path / "trained", rows, rows, max_length=24))
    finetune(str(base), [trained_on], TrainingConfig(readout="head", steps=2, batch_size=8), DataSettings(),
             out=tmp_path / "tuned", device="cpu")  # fmt: skip
    assert json.loads((tmp_path / "tuned" / "finetune.json").read_text())["max_length"] == 24
    unstated = task_file(tmp_path / "unstated", rows, rows)
    spec = RunSpec(base=str(base), finetuned=str(tmp_path / "tuned"), task=str(unstated), localizer="movement",
                   sizes=("1%",), device="cpu")  # fmt: skip
    run = produce(spec, Store(tmp_path / "runs"))
    wanted = "test: 40 of 40 texts were shortened to 24 tokens (max_length)."
    assert run.record.task.max_length == 24 and wanted in run.record.notes
    pair = load_pair(base, tmp_path / "tuned", device="cpu")
    alone = evaluate(base, task=unstated, graft=pair.graft(run.region()), device="cpu")
    assert wanted in alone.notes

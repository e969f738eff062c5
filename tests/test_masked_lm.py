"""Tests of the masked language model: texts without leaks, the loss and masks, resumed training, the rule to ship."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import BertForMaskedLM

from benchmarks import masked_lm_compare as compare
from benchmarks import masked_lm_report as report
from benchmarks.frame import RESULTS
from benchmarks.masked_lm import (
    PART,
    Progress,
    Settings,
    at_masks,
    batches_of,
    cleaned,
    encoded,
    excluded_texts,
    frequencies,
    judged,
    masked_batch,
    opened,
    overlapping,
    read,
    save,
    split,
    train,
)
from skillviz.errors import BadInput
from skillviz.models.finetune.journal import Journal
from skillviz.models.state_file import Pause
from skillviz.models.tokenizer import load_tokenizer
from skillviz.tasks.leaks import plain
from skillviz.tasks.registry import task as find_task
from tests.tiny import tiny_model, tiny_pair, tiny_rows, tiny_task, tiny_tokenizer

LONG = "A long sentence that only the test file should have"
TEXTS = [row["text"] for row in tiny_rows(60)]


def lines(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def test_no_planted_leak_remains(tmp_path: Path) -> None:
    lines(tmp_path / "one" / "test.jsonl", {"text": LONG, "label": 0}, {"text": "short", "label": 0})
    lines(tmp_path / "one" / "validation.jsonl", {"text_a": "Of a pair,", "text_b": "the second."})
    lines(tmp_path / "one" / "out_of_scope.jsonl", {"text": "no class"})
    lines(
        tmp_path / "kshot" / "one.jsonl", {"text": "developed", "split": "dev"}, {"text": "practised", "split": "train"}
    )
    kept = ["a text to keep", "practised", "shortly after", "it is short"]
    leaks = [LONG.upper() + "!", "of a PAIR", "The second", "No class.", "developed", LONG[10:40], f"He said: {LONG}!"]
    lines(tmp_path / "one" / "train.jsonl", *({"text": text} for text in [*kept, *leaks[:3], kept[0] + "!"]))
    lines(tmp_path / "two" / "train.jsonl", *({"text_a": text, "text_b": kept[1]} for text in leaks[3:]))
    texts, counts = cleaned(tmp_path)
    assert texts == kept and not overlapping(map(plain, texts), excluded_texts(tmp_path))
    assert len(plain(LONG[10:40])) >= PART
    expected = {"one": (8, 3, 0, 1, 4, False), "two": (8, 2, 2, 4, 0, False)}
    assert {row[0]: row[1:] for row in counts.itertuples(index=False, name=None)} == expected


@pytest.mark.real
@pytest.mark.nightly
def test_no_real_leak_remains(real: Path) -> None:
    texts, counts = cleaned(real / "data")
    kept, excluded = set(map(plain, texts)), excluded_texts(real / "data")
    assert not kept & excluded and len(kept) == len(texts) == counts["kept"].sum()
    every, some = "\n".join(kept), [text for text in sorted(excluded)[::200] if len(text) >= PART]
    assert len(some) > 60 and not [text for text in some if text in every], "none is a part of a text that is kept"
    reviews = set(map(plain, read(real / "data" / "mr" / "test.jsonl")))
    others = [path for path in (real / "data").glob("*/train.jsonl") if path.parent.name != "mr"]
    assert len(reviews & {plain(text) for path in others for text in read(path)}) == 1111 and not reviews & kept
    rest, judges = split(texts[:20_000], 0)
    assert not overlapping(map(plain, rest), map(plain, judges)) and len(judges) == 1000


def test_a_batch_has_texts_of_similar_length_and_an_epoch_every_text() -> None:
    lengths = np.random.default_rng(0).integers(3, 40, 200)
    drawn = list(islice(batches_of(lengths.tolist(), 8, 0), 50))
    assert np.mean([np.ptp(lengths[rows]) for rows in drawn]) < 0.3 * np.ptp(lengths)
    rows = np.concatenate(drawn)
    assert sorted(rows[:200]) == sorted(rows[200:]) == list(range(200)) and list(rows[:200]) != list(rows[200:])


def test_masks_are_drawn_by_the_rule() -> None:
    tokenizer = tiny_tokenizer("bert")
    rows = encoded(TEXTS * 40, tokenizer)
    words = torch.cat([row[1:-1] for row in rows])
    batch = masked_batch(rows, tokenizer, 3)
    masked = batch["labels"] != -100
    given, targets, n = batch["input_ids"][masked], batch["labels"][masked], int(masked.sum())
    assert n / len(words) == pytest.approx(0.15, abs=0.01)
    is_mask, is_same = given == tokenizer.mask_token_id, given == targets
    assert float(is_mask.float().mean()) == pytest.approx(0.8, abs=0.03)
    assert float(is_same.float().mean()) == pytest.approx(0.1, abs=0.03)
    again = masked_batch(rows, tokenizer, 3)
    assert torch.equal(again["input_ids"], batch["input_ids"])
    assert not torch.equal(masked_batch(rows, tokenizer, 4)["input_ids"], batch["input_ids"])
    (every,) = judged(TEXTS[:32], tokenizer)
    assert bool((every["input_ids"][every["labels"] != -100] == tokenizer.mask_token_id).all())
    assert int(batch["attention_mask"].sum()) == sum(map(len, rows))
    assert not set(targets.tolist()) & set(tokenizer.all_special_ids)


def test_the_loss_at_masked_places_is_that_of_all_places() -> None:
    tokenizer, model = tiny_tokenizer("bert"), tiny_model("bert", "prompt")
    batch = masked_batch(encoded(TEXTS, tokenizer), tokenizer, 0)
    loss = cross_entropy(*at_masks(model, batch))
    torch.testing.assert_close(loss, model(**batch).loss, rtol=1e-6, atol=0)
    masked = batch["labels"] != -100
    shifted = batch["labels"].clone()
    shifted[masked] = batch["labels"][masked].roll(1)
    other = model(**{**batch, "labels": shifted}).loss
    assert not torch.allclose(loss, other, rtol=1e-3), "a planted error is seen"


class Cut(Exception):
    """An interruption."""


def trained(
    base: Path, folder: Path, steps: int, cut: int | None = None, rate: float = 1e-3
) -> tuple[Any, list[Progress]]:
    """Train a model for this many steps of one core-second each, or until it is interrupted."""
    tokenizer = load_tokenizer(base)
    rows = encoded(TEXTS[:50], tokenizer)
    settings = Settings(steps / 3600, rate, batch_size=8, evaluate_seconds=4)
    model = opened(base, 0, frequencies(rows, tokenizer, len(tokenizer)))
    journal, points, seconds = Journal(folder, stamp=f"{rate}", pause=Pause(seconds=0.0)), list[Progress](), count()

    def clock() -> float:
        if (now := next(seconds)) == cut:
            raise Cut
        return float(now)

    with suppress(Cut):
        train(model, tokenizer, rows, settings, journal.begin(), points.append, clock)
    return model, points


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bare encoder, like MiniLM."""
    return tiny_pair(tmp_path_factory.mktemp("bert"), "bert", "head")[0]


def test_a_resumed_training_gives_the_same_weights(base: Path, tmp_path: Path) -> None:
    whole, points = trained(base, tmp_path / "whole", 10)
    _, before = trained(base, tmp_path / "cut", 10, cut=7)
    resumed, later = trained(base, tmp_path / "cut", 10)
    assert [point.step for point in points] == [0, 4, 8, 10] and points == list(dict.fromkeys(before + later))
    assert [point.step for point in before] == [0, 4]
    start, state = opened(base, 0, torch.ones(len(load_tokenizer(base)))).state_dict(), whole.state_dict()
    assert all(torch.equal(value, resumed.state_dict()[name]) for name, value in state.items())
    moved = {name for name, value in state.items() if not torch.equal(value, start[name])}
    assert moved and not [name for name in moved if "embeddings" in name]
    assert points[-1].core_seconds == 10 and Settings(1.0).rate_at(72) == 1e-3 and Settings(1.0).rate_at(3600) == 0
    with pytest.raises(BadInput, match="belongs to other texts or settings. Give those, or another --out."):
        trained(base, tmp_path / "cut", 10, rate=0.1)


def test_the_saved_folder_is_an_ordinary_one_with_the_embeddings_of_the_base(base: Path, tmp_path: Path) -> None:
    model, _ = trained(base, tmp_path / "state", 4)
    save(model, load_tokenizer(base), tmp_path / "model", "card")
    loaded, report_of = BertForMaskedLM.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not report_of["missing_keys"] and not report_of["unexpected_keys"]
    state = model.state_dict()
    assert state.keys() == loaded.state_dict().keys()
    assert all(torch.equal(value, state[name]) for name, value in loaded.state_dict().items())
    words = BertForMaskedLM.from_pretrained(base).get_input_embeddings().weight
    assert torch.equal(loaded.get_input_embeddings().weight, words)
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
    assert load_tokenizer(tmp_path / "model").get_vocab() == load_tokenizer(base).get_vocab()


def planned(*ends: tuple[float, float]) -> pd.DataFrame:
    """Return a difference for each task and number of examples; without a given interval it is no clear difference."""
    level = [(-0.01, 0.01)] * (len(compare.TASKS) * len(compare.SHOTS) - len(ends))
    return pd.DataFrame([*ends, *level], columns=["low", "high"])


def test_the_rule_to_ship() -> None:
    assert report.verdict(planned((0.01, 0.03))) == report.SHIP
    assert report.verdict(planned((0.01, 0.03), (-0.03, -0.01))) == report.KEEP
    assert report.verdict(planned()) == report.KEEP
    assert report.verdict(planned((0.01, 0.03)).iloc[:-1]) == "not measured"
    assert report.verdict(planned((0.01, 0.03), (float("nan"), float("nan")))) == "not measured"


@pytest.mark.nightly
def test_a_comparison_resumes_and_is_written_to_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = find_task(tiny_task(tmp_path / "task"))
    for name, value in {"TASKS": ("tiny",), "SHOTS": (4,), "SEEDS": (0, 1), "STEPS": 2, "MOST_TEST": 20}.items():
        monkeypatch.setattr(compare, name, value)
    monkeypatch.setattr(compare, "RATES", {"prompt": (1e-3, 1e-2), "head": (1e-2,)})
    monkeypatch.setattr(compare, "WORDS", {"tiny": (("terrible", "bad"), ("great", "good"))})
    monkeypatch.setattr(compare, "find_task", lambda path: task)
    base, _ = tiny_pair(tmp_path, "bert", "prompt")
    page = tmp_path / "page.md"
    page.write_text(report.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    assert report.write(tmp_path / "results", page) == "Not measured"
    text = page.read_text(encoding="utf-8")
    assert "masked-lm train`" in text and "masked-lm compare`" in text

    compare.run(base, tmp_path / "results", tmp_path / "work")
    table = (tmp_path / "results" / "masked_lm_kshot.csv").read_text()
    assert len(table.splitlines()) == 1 + 2 + 3 + 4
    compare.run(base, tmp_path / "results", tmp_path / "work")
    assert (tmp_path / "results" / "masked_lm_kshot.csv").read_text() == table
    assert report.write(tmp_path / "results", page) != "Not measured"
    rows = pd.DataFrame(compare.rows_in(tmp_path / "results").rows)
    (difference,) = report.differences(rows).to_dict("records")
    means = rows[rows["part"] == compare.TEST].groupby("readout")["accuracy"].mean()
    assert difference["value"] == pytest.approx(means["prompt"] - means["head"])
    assert difference["low"] <= difference["value"]


def test_the_card_names_every_file_and_whether_it_ships() -> None:
    row = {"texts": 9, "in_held_out_file": 1, "overlap_in_part": 1, "duplicates": 2, "kept": 5}
    card = report.card(pd.DataFrame([{"task": "mr", **row, "ships": True}, {"task": "sst2", **row, "ships": False}]))
    assert "| mr | 9 | 1 | 1 | 2 | 5 | yes |" in card and "| sst2 | 9 | 1 | 1 | 2 | 5 | no |" in card
    assert "| all | 18 | 2 | 2 | 4 | 10 |  |" in card


def test_the_page_shows_what_is_stored() -> None:
    text = report.PAGE.read_text(encoding="utf-8")
    for name, lines in report.tables(RESULTS).items():
        assert "\n".join(lines) in text.partition(f"<!-- {name}:")[2].partition(f"<!-- end of {name}")[0]

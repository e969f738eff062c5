"""Tests of the masked language model: texts without leaks, the loss and masks, resumed training, the rule to ship."""

import json
import shutil
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
from tests.tables import check, equal
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
    batch, again, other = (masked_batch(rows, tokenizer, seed) for seed in (3, 3, 4))
    masked = batch["labels"] != -100
    given, targets = batch["input_ids"][masked], batch["labels"][masked]
    assert int(masked.sum()) / sum(len(row) - 2 for row in rows) == pytest.approx(0.15, abs=0.01)
    assert [float((given == one).float().mean()) for one in (tokenizer.mask_token_id, targets)] == pytest.approx(
        [0.8, 0.1], abs=0.03
    )
    assert torch.equal(again["input_ids"], batch["input_ids"]) and not torch.equal(
        other["input_ids"], batch["input_ids"]
    )
    assert int(batch["attention_mask"].sum()) == sum(map(len, rows))
    assert not set(targets.tolist()) & set(tokenizer.all_special_ids)
    (every,) = judged(TEXTS[:32], tokenizer)
    assert set(every["input_ids"][every["labels"] != -100].tolist()) == {tokenizer.mask_token_id}


def test_the_loss_at_masked_places_is_that_of_all_places() -> None:
    tokenizer, model = tiny_tokenizer("bert"), tiny_model("bert", "prompt")
    batch = masked_batch(encoded(TEXTS, tokenizer), tokenizer, 0)
    loss, shifted = cross_entropy(*at_masks(model, batch)), batch["labels"].clone()
    torch.testing.assert_close(loss, model(**batch).loss, rtol=1e-6, atol=0)
    shifted[shifted != -100] = shifted[shifted != -100].roll(1)
    assert not torch.allclose(loss, model(**{**batch, "labels": shifted}).loss, rtol=1e-3), "a planted error is seen"


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
    assert [[point.step for point in some] for some in (points, before)] == [[0, 4, 8, 10], [0, 4]]
    assert points == list(dict.fromkeys(before + later)) and points[-1].core_seconds == 10
    one, other, first = (
        model.state_dict() for model in (whole, resumed, opened(base, 0, torch.ones(len(load_tokenizer(base)))))
    )
    assert [name for name, value in one.items() if not torch.equal(value, other[name])] == []
    moved = {name for name, value in one.items() if not torch.equal(value, first[name])}
    assert moved and not [name for name in moved if "embeddings" in name]
    assert [Settings(1.0).rate_at(second) for second in (72, 3600)] == [1e-3, 0]
    with pytest.raises(BadInput, match="belongs to other texts or settings. Give those, or another --out."):
        trained(base, tmp_path / "cut", 10, rate=0.1)


def test_the_saved_folder_is_an_ordinary_one_with_the_embeddings_of_the_base(base: Path, tmp_path: Path) -> None:
    model, _ = trained(base, tmp_path / "state", 4)
    save(model, load_tokenizer(base), tmp_path / "model", "card")
    loaded, told = BertForMaskedLM.from_pretrained(tmp_path / "model", output_loading_info=True)
    state, stored = model.state_dict(), loaded.state_dict()
    assert not told["missing_keys"] and not told["unexpected_keys"] and state.keys() == stored.keys()
    assert [name for name, value in stored.items() if not torch.equal(value, state[name])] == []
    own, of_base = loaded.get_input_embeddings(), BertForMaskedLM.from_pretrained(base).get_input_embeddings()
    assert torch.equal(own.weight, of_base.weight) and loaded.get_output_embeddings().weight is own.weight
    assert load_tokenizer(tmp_path / "model").get_vocab() == load_tokenizer(base).get_vocab()


def planned(*ends: tuple[float, float]) -> pd.DataFrame:
    """Return a difference for each task and number of examples; without a given interval it is no clear difference."""
    level = [(-0.01, 0.01)] * (len(compare.TASKS) * len(compare.SHOTS) - len(ends))
    return pd.DataFrame([*ends, *level], columns=["low", "high"])


BETTER, WORSE, MISSING = (0.01, 0.03), (-0.03, -0.01), (float("nan"), float("nan"))
test_the_rule_to_ship = equal({
    "better somewhere": (lambda: report.verdict(planned(BETTER)), report.SHIP),
    "and worse somewhere": (lambda: report.verdict(planned(BETTER, WORSE)), report.KEEP),
    "no difference": (lambda: report.verdict(planned()), report.KEEP),
    "a cell is missing": (lambda: report.verdict(planned(BETTER).iloc[:-1]), "not measured"),
    "a cell has no interval": (lambda: report.verdict(planned(BETTER, MISSING)), "not measured"),
})  # fmt: skip


@pytest.mark.nightly
def test_a_comparison_resumes_and_is_written_to_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, results = find_task(tiny_task(tmp_path / "task")), tmp_path / "results"
    for name, value in {
        "TASKS": ("tiny",), "SHOTS": (4,), "SEEDS": (0, 1), "STEPS": 2, "MOST_TEST": 20,
        "RATES": {"prompt": (1e-3, 1e-2), "head": (1e-2,)}, "find_task": lambda path: task,
        "WORDS": {"tiny": (("terrible", "bad"), ("great", "good"))},
    }.items():  # fmt: skip
        monkeypatch.setattr(compare, name, value)
    base, _ = tiny_pair(tmp_path, "bert", "prompt")
    page = Path(shutil.copy(report.PAGE, tmp_path))
    assert report.write(results, page) == "Not measured"
    check(page.read_text(encoding="utf-8"), ("masked-lm train`", "masked-lm compare`"))
    compare.run(base, results, tmp_path / "work")
    table = (results / "masked_lm_kshot.csv").read_text()
    compare.run(base, results, tmp_path / "work")
    assert (results / "masked_lm_kshot.csv").read_text() == table and len(table.splitlines()) == 1 + 2 + 3 + 4
    assert report.write(results, page) != "Not measured"
    rows = pd.DataFrame(compare.rows_in(results).rows)
    (difference,) = report.differences(rows).to_dict("records")
    means = rows[rows["part"] == compare.TEST].groupby("readout")["accuracy"].mean()
    assert difference["low"] <= difference["value"] == pytest.approx(means["prompt"] - means["head"])


def test_the_card_names_every_file_and_whether_it_ships() -> None:
    row = {"texts": 9, "in_held_out_file": 1, "overlap_in_part": 1, "duplicates": 2, "kept": 5}
    card = report.card(pd.DataFrame([{"task": "mr", **row, "ships": True}, {"task": "sst2", **row, "ships": False}]))
    rows = ("| mr | 9 | 1 | 1 | 2 | 5 | yes |", "| sst2 | 9 | 1 | 1 | 2 | 5 | no |", "| all | 18 | 2 | 2 | 4 | 10 |  |")
    check(card, rows)


def test_the_page_shows_what_is_stored() -> None:
    text = report.PAGE.read_text(encoding="utf-8")
    for name, lines in report.tables(RESULTS).items():
        assert "\n".join(lines) in text.partition(f"<!-- {name}:")[2].partition(f"<!-- end of {name}")[0]

"""Train a masked language model on texts without leaks, and compare prompts on it with a head.

    python -m benchmarks masked-lm train --core-hours 10
    python -m benchmarks masked-lm compare
    python -m benchmarks masked-lm report

The model has the layers of MiniLM and a head for masked words. `cleaned` returns the texts of the train files that
occur in no test, validation, out-of-scope or k-shot development file; `train` yields its progress and resumes from its
last state; the model is an ordinary folder for `BertForMaskedLM.from_pretrained`.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import torch
import typer
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import DataCollatorForLanguageModeling
from transformers.trainer_pt_utils import get_length_grouped_indices

from benchmarks import masked_lm_compare, masked_lm_report
from benchmarks.frame import RESULTS, ROOT, Rows
from benchmarks.masked_lm_report import MODEL, UNIGRAM
from skillviz.atomic import whole_folder, write_file
from skillviz.errors import BadInput
from skillviz.models.checkpoint import read_info
from skillviz.models.finetune.journal import Journal, JournalEntry, TrainingState, restore_optimizer, states_of
from skillviz.models.load import load_model
from skillviz.models.tokenizer import load_tokenizer
from skillviz.tasks.leaks import plain
from skillviz.tasks.project import expanded

SHIPPED = ROOT / "examples" / "data"
PART = 20
"""The least number of letters and digits for which a text inside another one counts as the same."""
LONGEST = 128
"""The most tokens of an input; a longer text is cut into several."""
MASKED = 0.15
WARM_UP = 0.02
"""The share of the core-hours used for the warm-up."""
HELD_OUT = 1000
"""The number of cleaned texts on which the curve is measured; none of them is trained on."""
SAVE_SECONDS = 180.0
"""Clock seconds between two stored states."""
Batch = Mapping[str, Tensor]
"""Inputs of BertForMaskedLM [text, place] with words masked; `labels` has the original words there, -100 elsewhere."""


@dataclass(frozen=True)
class Settings:
    """The settings of the training. Seconds are processor seconds, summed over threads."""

    core_hours: float = 10.0
    rate: float = 1e-3
    """The largest learning rate, after the warm-up; it falls linearly to 0 as the core-hours end."""
    batch_size: int = 64
    seed: int = 0
    evaluate_seconds: float = 900.0

    def rate_at(self, seconds: float) -> float:
        """Return the learning rate after this number of core-seconds."""
        share = min(1.0, seconds / 3600 / self.core_hours)
        return self.rate * min(share / WARM_UP, (1 - share) / (1 - WARM_UP))


@dataclass(frozen=True)
class Progress:
    """Steps, core-seconds, texts, and tokens without padding so far."""

    step: int = 0
    core_seconds: float = 0.0
    texts: int = 0
    tokens: int = 0


# Texts


def read(path: Path, split: str | None = None) -> list[str]:
    """Return the texts of a JSON Lines file, both of a pair; with `split` only those from rows of that split."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    columns = ("text", "text_a", "text_b")
    return [row[name] for row in rows if split in (None, row.get("split")) for name in columns if name in row]


def excluded_texts(data: Path) -> set[str]:
    """Return letters and digits of every text that must not be trained on."""
    excluded = [text for path in data.glob("kshot/*.jsonl") for text in read(path, "dev")]
    others = (path for path in data.glob("*/*.jsonl") if path.parent.name != "kshot" and path.stem != "train")
    return set(map(plain, [*excluded, *(text for path in others for text in read(path))]))


def overlapping(texts: Iterable[str], excluded: Iterable[str]) -> set[str]:
    """The texts that equal one of `excluded`, are a part of one, or have one as a part; all as returned by `plain`.

    Parts shorter than PART do not count: short phrases occur anywhere.
    """
    texts, excluded = set(texts), set(excluded)
    parts = {part for part, _ in _parts(texts, excluded)} | {whole for _, whole in _parts(excluded, texts)}
    return (texts & excluded) | parts


def _parts(parts: Iterable[str], wholes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each of `parts` with each of `wholes` in which it occurs.

    Parts are looked up by their first letters, so that this takes seconds.
    """
    beginning = defaultdict(list)
    for part in parts:
        if len(part) >= PART:
            beginning[part[:PART]].append(part)
    for whole in wholes:
        for place in range(len(whole) - PART + 1):
            for part in beginning.get(whole[place : place + PART], ()):
                if whole.startswith(part, place):
                    yield part, whole


def cleaned(data: Path) -> tuple[list[str], pd.DataFrame]:
    """The distinct texts of all train files that no excluded text overlaps, and a row of counts for each file."""
    excluded, files = excluded_texts(data), sorted(data.glob("*/train.jsonl"))
    by_file = {path.parent.name: [(plain(text), text) for text in read(path)] for path in files}
    leaks = overlapping((key for pairs in by_file.values() for key, _ in pairs), excluded)
    kept: dict[str, str] = {}
    rows = []
    for task, pairs in by_file.items():
        before = len(kept)
        for key, text in pairs:
            if key not in leaks:
                kept.setdefault(key, text)
        whole = sum(key in excluded for key, _ in pairs)
        removed = sum(key in leaks for key, _ in pairs)
        rows.append({
            "task": task, "texts": len(pairs), "in_held_out_file": whole, "overlap_in_part": removed - whole,
            "duplicates": len(pairs) - removed - (len(kept) - before), "kept": len(kept) - before,
            "ships": (SHIPPED / task / "train.jsonl").is_file(),
        })  # fmt: skip
    return list(kept.values()), pd.DataFrame(rows)


def split(texts: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    """Training texts and HELD_OUT others, drawn by the seed; a text that overlaps a held-out one is in neither."""
    order = np.random.default_rng(seed).permutation(len(texts))
    held_out, rest = ([texts[i] for i in rows] for rows in (order[:HELD_OUT], np.sort(order[HELD_OUT:])))
    keys = [plain(text) for text in rest]
    leaks = overlapping(keys, map(plain, held_out))
    return [text for key, text in zip(keys, rest, strict=True) if key not in leaks], held_out


# Batches


def encoded(texts: Sequence[str], tokenizer: Any) -> list[Tensor]:
    """Return the token ids of each text; a text longer than LONGEST is split into several pieces."""
    limit = min(LONGEST, int(tokenizer.model_max_length))
    rows = tokenizer(
        list(texts), truncation=True, padding=False, max_length=limit, return_overflowing_tokens=True,
        return_attention_mask=False, return_token_type_ids=False,
    )["input_ids"]  # fmt: skip
    return [torch.tensor(row) for row in rows]


def batches_of(lengths: Sequence[int], size: int, seed: int) -> Iterator[list[int]]:
    """Yield endless batches of row numbers of similar length, every row once per epoch, drawn anew in each epoch."""
    for epoch in count():
        order = get_length_grouped_indices(lengths, size, generator=torch.Generator().manual_seed(epoch + 1000 * seed))
        starts = range(0, len(order), size)
        yield from (order[start : start + size] for start in np.random.default_rng(epoch).permutation(starts))


def masked_batch(rows: Sequence[Tensor], tokenizer: Any, seed: int, **shares: float) -> Batch:
    """Return the texts with MASKED of their words masked, drawn by the seed.

    80% of the masked words become [MASK], 10% another word, and 10% are unchanged, unless `shares` say otherwise.
    """
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=MASKED, **shares)
    collator.generator = torch.Generator().manual_seed(seed)
    return collator([{"input_ids": row} for row in rows])


# Model


def opened(base: Path, seed: int, unigram: Tensor) -> Any:
    """Return the base as a masked language model; only layers and head are trained, embeddings stay.

    The head is drawn by the seed. Its bias begins at the logarithms of `unigram`, the words' frequencies, which it then
    need not learn. Dropout stays off, because the model sees each text only a few times, with other words masked.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = load_model(base, "prompt").model
    model.set_attn_implementation("eager")  # the fused one takes 1.7 times as long in bfloat16 on a processor
    model.base_model.embeddings.requires_grad_(False)
    with torch.no_grad():
        model.get_output_embeddings().bias.copy_(unigram.log())
    return model


def frequencies(rows: Iterable[Tensor], tokenizer: Any, words: int) -> Tensor:
    """Return the share of each word of the vocabulary in the texts, after one is added to each count; special tokens
    count 0 before that."""
    counts = torch.bincount(torch.cat(list(rows)), minlength=words).float()
    counts[tokenizer.all_special_ids] = 0
    return (counts + 1) / (counts + 1).sum()


def at_masks(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the scores of all words [masked place, word] at the masked places alone, a seventh of the head's work, and
    the original words there."""
    hidden = model.base_model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    masked = batch["labels"] != -100
    return model.cls(hidden[masked]), batch["labels"][masked]


@torch.inference_mode()
def evaluate(predict: Callable[[Batch], tuple[Tensor, Tensor]], batches: Sequence[Batch]) -> tuple[int, float, float]:
    """Return the number of masked places, and accuracy and perplexity there of `predict`, which is as `at_masks`."""
    found = [
        (len(words), int((logits.argmax(-1) == words).sum()), float(cross_entropy(logits, words, reduction="sum")))
        for logits, words in map(predict, batches)
    ]
    places, right, loss = map(sum, zip(*found, strict=True))
    return int(places), right / places, math.exp(loss / places)


def judged(texts: Sequence[str], tokenizer: Any) -> list[Batch]:
    """Return held-out texts in batches; every masked word is replaced by [MASK], the same ones at every evaluation."""
    rows = sorted(encoded(texts, tokenizer), key=len)
    all_masked = {"mask_replace_prob": 1.0, "random_replace_prob": 0.0}
    return [masked_batch(rows[at : at + 32], tokenizer, at, **all_masked) for at in range(0, len(rows), 32)]


def train(
    model: Any, tokenizer: Any, texts: Sequence[Tensor], settings: Settings, entry: JournalEntry,
    evaluate: Callable[[Progress], object], clock: Callable[[], float] = time.process_time,
) -> None:  # fmt: skip
    """Train until the core-hours are spent; `evaluate` is called before the first step, from time to time, and at the
    end.

    `entry` keeps the state. Training resumes from it and reaches the same weights as without an interruption, if the
    `clock` of core-seconds returns the same values. Raises BadInput if the state is of other settings or texts.
    """
    kept = entry.restored()
    if kept is None and entry.path.is_file():
        raise BadInput(f"{entry.path} belongs to other texts or settings. Give those, or another --out.")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": 0.01},
        {"params": [p for p in trained if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer, done = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-6), Progress()
    if kept is None:
        evaluate(done)
    else:
        done = Progress(**kept.history[-1])
        with torch.no_grad():  # copied, because a view at another address can have other last bits in its products
            for parameter, value in zip(trained, kept.values, strict=True):
                parameter.copy_(value)
        restore_optimizer(optimizer, kept.optimizer)

    def store() -> None:
        values = [parameter.detach() for parameter in trained]
        entry.save(TrainingState([asdict(done)], None, (), values, states_of(optimizer)))

    lengths, before, begun, evaluated = [len(row) for row in texts], done.core_seconds, clock(), done
    for rows in islice(batches_of(lengths, settings.batch_size, settings.seed), done.step, None):
        if done.core_seconds >= 3600 * settings.core_hours:
            break
        # the seeds are past those of the held-out batches
        batch = masked_batch([texts[row] for row in rows], tokenizer, (settings.seed + 1) * 1_000_003 + done.step)
        for group in optimizer.param_groups:
            group["lr"] = settings.rate_at(done.core_seconds)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):  # products of matrices alone; weights and loss stay float32
            logits, words = at_masks(model, batch)
        cross_entropy(logits.float(), words).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        tokens = done.tokens + sum(lengths[row] for row in rows)
        done = Progress(done.step + 1, before + clock() - begun, done.texts + len(rows), tokens)
        if done.core_seconds // settings.evaluate_seconds > evaluated.core_seconds // settings.evaluate_seconds:
            evaluate(evaluated := done)
        if entry.is_due:
            store()
    if done != evaluated:
        evaluate(done)
    store()


def save(model: Any, tokenizer: Any, folder: Path, card: str) -> None:
    """Write an ordinary folder of transformers with its tokenizer and README.md, in place of an existing one."""
    with whole_folder(folder, replace=True) as draft:
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
        (draft / "README.md").write_text(card, encoding="utf-8")


def run(
    base: Path, data: Path, out: Path, results: Path, settings: Settings, say: Callable[[str], object] = print
) -> None:
    """Train until the core-hours are spent; write `out`/model, and into `results` the curve and counts of texts.

    Training resumes from `out`/state. If the core-hours are already spent, the model is written as it is.
    """
    texts, counts = cleaned(data)
    say(counts.to_string(index=False))
    rest, others = split(texts, settings.seed)
    tokenizer = load_tokenizer(base)
    rows, held_out = encoded(rest, tokenizer), judged(others, tokenizer)
    unigram = frequencies(rows, tokenizer, int(read_info(base).vocab_size or 0))
    model, table = opened(base, settings.seed, unigram), Rows(results / "masked_lm.csv", ["model", "step"])

    def score(name: str, predict: Callable[[Batch], tuple[Tensor, Tensor]], progress: Mapping[str, Any]) -> None:
        words, accuracy, perplexity = evaluate(predict, held_out)
        row = {"model": name, "masked_words": words, "accuracy": accuracy, "perplexity": perplexity, **progress}
        table.add(*(() if table.has(row) else (row,)))
        say(f"{', '.join(f'{name} {value}' for name, value in row.items())}")

    def by_frequency(batch: Batch) -> tuple[Tensor, Tensor]:
        targets = batch["labels"][batch["labels"] != -100]
        return unigram.log().expand(len(targets), -1), targets

    score(UNIGRAM, by_frequency, {name: "" for name in asdict(Progress())})
    journal = Journal(out / "state", pause=SAVE_SECONDS)
    digest = hashlib.sha256("\0".join(rest).encode()).hexdigest()
    journal.belongs_to(read_info(base).fingerprint, digest, settings.rate, settings.batch_size, settings.seed)
    write_file(results / "masked_lm_texts.csv", lambda path: counts.to_csv(path, index=False))
    entry = journal.begin()
    train(model, tokenizer, rows, settings, entry, lambda done: score(MODEL, partial(at_masks, model), asdict(done)))
    save(model, load_tokenizer(base), out / "model", masked_lm_report.card(counts))


def main(
    step: Annotated[Literal["train", "compare", "report"], typer.Argument(help="In this order; all resume.")],
    core_hours: Annotated[float, typer.Option(min=0, help="Processor hours in all, earlier calls included.")] = 10.0,
    base: Annotated[Path, typer.Option(help="The encoder.")] = ROOT / "examples" / "models" / "minilm-l6",
    data: Annotated[str, typer.Option(help="Folder of the data files.")] = "${SKILLVIZ_REAL}/data",
    out: Annotated[Path, typer.Option(help="Folder of the state and, in the end, of the model.")] = Path(
        "models/masked-lm"
    ),
    rate: Annotated[float, typer.Option(help="The largest learning rate.")] = 1e-3,
    evaluate_seconds: Annotated[float, typer.Option(help="Core-seconds between two points of the curve.")] = 900.0,
    results: Annotated[Path, typer.Option(help="Folder of the CSV files.")] = RESULTS,
) -> None:
    """Train the model; compare prompt and head on it, and score it zero-shot; write the tables of
    docs/research/masked-lm.md."""
    if step == "train":
        settings = Settings(core_hours, rate, evaluate_seconds=evaluate_seconds)
        run(base, Path(expanded(data, "data")), out, results, settings)
    elif step == "compare":
        masked_lm_compare.run(out / "model", results, out / "cells")
    else:
        typer.echo(f"{masked_lm_report.write(results)}: {masked_lm_report.PAGE.name}.")

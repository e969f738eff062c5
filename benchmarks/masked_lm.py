"""Train a masked language model: the layers of MiniLM and a head for masked words, on texts without leaks.

    python -m benchmarks masked-lm train --core-hours 10

`cleaned` returns the texts of the train files that occur in no test, validation, out-of-scope or k-shot development
file; `train` yields one record per step and resumes from its last state; `save` writes a folder for
`BertForMaskedLM.from_pretrained`.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import DataCollatorForLanguageModeling

from skillviz.atomic import whole_folder, write_file
from skillviz.errors import BadInput
from skillviz.models.checkpoint import read_info
from skillviz.models.finetune.journal import Entry, Journal, TrainingState, restore_optimizer, states_of
from skillviz.models.load import load_model
from skillviz.models.tokenizer import load_tokenizer
from skillviz.tasks.leaks import plain

ROOT = Path(__file__).resolve().parents[1]
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
UNIGRAM, MODEL = "unigram", "masked-lm"


@dataclass(frozen=True)
class Settings:
    """The settings of the training. Seconds are processor seconds, summed over threads."""

    core_hours: float = 10.0
    rate: float = 1e-3
    """The largest learning rate, after the warm-up; it falls linearly to 0 as the core-hours end."""
    batch_tokens: int = 2048
    """The most tokens of a batch, padding included."""
    seed: int = 0
    evaluate_seconds: float = 900.0

    def rate_at(self, seconds: float) -> float:
        """Return the learning rate after this number of core-seconds."""
        share = min(1.0, seconds / 3600 / self.core_hours)
        return self.rate * min(share / WARM_UP, (1 - share) / (1 - WARM_UP))


@dataclass(frozen=True)
class Point:
    """One step. `texts` and `tokens`, without padding, are the totals so far; `loss` is the batch's, in nats.

    `accuracy`, the share of masked words that are right, and `perplexity` are measured on held-out texts, if the step
    was followed by an evaluation.
    """

    step: int = 0
    core_seconds: float = 0.0
    texts: int = 0
    tokens: int = 0
    loss: float | None = None
    accuracy: float | None = None
    perplexity: float | None = None


@dataclass(frozen=True)
class Batch:
    """Inputs [text, place] with words masked; `targets` are the original words at the masked places, in order."""

    inputs: Tensor
    attention: Tensor
    masked: Tensor
    targets: Tensor


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


def batch_rows(lengths: np.ndarray, batch_tokens: int, seed: int) -> Iterator[np.ndarray]:
    """Yield endless batches of row numbers of similar length, at most `batch_tokens` each, every row once per epoch.

    Each epoch draws again which rows of a length are together, and the order of batches.
    """
    draw = np.random.default_rng(seed)
    while True:
        order = draw.permutation(len(lengths))
        order = order[np.argsort(lengths[order], kind="stable")]
        cuts = [0]
        for place, row in enumerate(order):
            if (place + 1 - cuts[-1]) * lengths[row] > batch_tokens and place > cuts[-1]:
                cuts.append(place)
        batches = np.split(order, cuts[1:])
        yield from (batches[number] for number in draw.permutation(len(batches)))


def masked_batch(rows: Sequence[Tensor], tokenizer: Any, seed: int, *, mask_all: bool = False) -> Batch:
    """Return the texts with MASKED of their words masked, drawn by the seed.

    80% of the masked words become [MASK], 10% another word, and 10% are unchanged; with `mask_all` every one is [MASK].
    """
    collator = DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=MASKED, mask_replace_prob=1.0 if mask_all else 0.8,
        random_replace_prob=0.0 if mask_all else 0.1,
    )  # fmt: skip
    collator.generator = torch.Generator().manual_seed(seed)
    whole = pad_sequence(list(rows), batch_first=True, padding_value=tokenizer.pad_token_id)
    attention = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    special = torch.isin(whole, torch.tensor(tokenizer.all_special_ids))
    inputs, labels = collator.torch_mask_tokens(whole, special_tokens_mask=special)
    masked = labels != -100
    return Batch(inputs, attention, masked, labels[masked])


# Model


def opened(base: Path, seed: int, unigram: Tensor) -> Any:
    """Return the base as a masked language model; only layers and head are trained, embeddings stay.

    The head is drawn by the seed. Its bias begins at the logarithms of `unigram`, the words' frequencies, which it then
    need not learn. Dropout stays off, because the model sees each text only a few times, with other words masked.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = load_model(base, "prompt").model
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


def scores(model: Any, batch: Batch) -> Tensor:
    """Return the scores of all words [masked place, word] at the masked places alone, a seventh of the head's work."""
    hidden = model.base_model(input_ids=batch.inputs, attention_mask=batch.attention).last_hidden_state
    logits: Tensor = model.cls(hidden[batch.masked])
    return logits


def summed_loss(model: Any, batch: Batch) -> Tensor:
    """Return the sum of the cross-entropy at the masked places, in nats."""
    return cross_entropy(scores(model, batch), batch.targets, reduction="sum")


@torch.inference_mode()
def evaluate(predict: Callable[[Batch], Tensor], batches: Sequence[Batch]) -> tuple[float, float]:
    """Return accuracy and perplexity of `predict`, which returns scores of all words, over all masked places."""
    right, loss, places = 0, 0.0, sum(len(batch.targets) for batch in batches)
    for batch in batches:
        logits = predict(batch)
        right += int((logits.argmax(-1) == batch.targets).sum())
        loss += float(cross_entropy(logits, batch.targets, reduction="sum"))
    return right / places, math.exp(loss / places)


def judged(texts: Sequence[str], tokenizer: Any) -> list[Batch]:
    """Return held-out texts in batches; every masked word is replaced by [MASK], the same ones at every evaluation."""
    rows = sorted(encoded(texts, tokenizer), key=len)
    return [masked_batch(rows[at : at + 32], tokenizer, at, mask_all=True) for at in range(0, len(rows), 32)]


def train(
    model: Any, tokenizer: Any, texts: Sequence[Tensor], held_out: Sequence[Batch], settings: Settings, entry: Entry,
    clock: Callable[[], float] = time.process_time,
) -> Generator[Point, None, None]:  # fmt: skip
    """Yield one record per step until the core-hours are spent; first come the evaluated ones of earlier calls.

    The last record is evaluated. `entry` keeps the state. Training resumes from it and reaches the same weights as
    without an interruption, if the `clock` of core-seconds returns the same values. Raises BadInput if the state is of
    other settings or texts.
    """
    kept = entry.restored()
    if kept is None and entry.path.is_file():
        raise BadInput(f"{entry.path} belongs to other texts or settings. Give those, or another --out.")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": 0.01},
        {"params": [p for p in trained if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-6)
    lengths = np.array([len(row) for row in texts])
    batches = batch_rows(lengths, settings.batch_tokens, settings.seed)

    def judge() -> tuple[float, float]:
        return evaluate(lambda batch: scores(model, batch), held_out)

    if kept is None:
        curve = [last := Point(0, 0.0, 0, 0, None, *judge())]
    else:
        *curve, last = (Point(**fields) for fields in kept.history)
        with torch.no_grad():
            for parameter, value in zip(trained, kept.values, strict=True):
                parameter.copy_(value)
        restore_optimizer(optimizer, kept.optimizer)
    yield from curve

    def state() -> TrainingState:
        done = [asdict(point) for point in (*curve, last)]
        return TrainingState(done, None, (), [p.detach() for p in trained], states_of(optimizer))

    spent, begun, budget, every = last.core_seconds, clock(), 3600 * settings.core_hours, settings.evaluate_seconds
    for rows in islice(batches, last.step, None):
        if last.core_seconds >= budget:
            break
        seed = settings.seed * 1_000_003 + 1_000_000 + last.step  # past the seeds of the held-out batches
        batch = masked_batch([texts[row] for row in rows], tokenizer, seed)
        optimizer.zero_grad()
        loss = summed_loss(model, batch) / max(1, len(batch.targets))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = settings.rate_at(last.core_seconds)
        optimizer.step()
        now = spent + clock() - begun
        due = now // every > last.core_seconds // every
        seen = last.texts + len(rows), last.tokens + int(lengths[rows].sum())
        last = Point(last.step + 1, now, *seen, float(loss.detach()), *(judge() if due else ()))
        curve += [last] if due else []
        with entry.saving(state):
            yield last
    if last.accuracy is None:
        accuracy, perplexity = judge()
        curve.append(last := replace(last, accuracy=accuracy, perplexity=perplexity))
        yield last
    entry.save(state())


def save(model: Any, tokenizer: Any, folder: Path, card: str) -> None:
    """Write an ordinary folder of transformers with its tokenizer and README.md, in place of an existing one."""
    with whole_folder(folder, replace=True) as draft:
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
        (draft / "README.md").write_text(card, encoding="utf-8")


def run(
    base: Path, data: Path, out: Path, results: Path, settings: Settings, card: Callable[[pd.DataFrame], str],
    say: Callable[[str], object] = print,
) -> None:  # fmt: skip
    """Train until the core-hours are spent; write `out`/model, and into `results` the curve and counts of texts.

    Training resumes from `out`/state. If the core-hours are already spent, the model is written as it is.
    """
    texts, counts = cleaned(data)
    say(counts.to_string(index=False))
    rest, others = split(texts, settings.seed)
    tokenizer = load_tokenizer(base)
    rows, held_out = encoded(rest, tokenizer), judged(others, tokenizer)
    unigram = frequencies(rows, tokenizer, int(read_info(base).vocab_size or 0))
    model, words = opened(base, settings.seed, unigram), sum(len(batch.targets) for batch in held_out)
    reference = evaluate(lambda batch: unigram.log().expand(len(batch.targets), -1), held_out)
    say(
        f"{len(texts):,} texts, {len(rest):,} to train on ({sum(map(len, rows)):,} tokens); {words:,} masked "
        f"words held out; unigram {100 * reference[0]:.1f}%, perplexity {reference[1]:,.0f}"
    )
    journal = Journal(out / "state", pause=SAVE_SECONDS)
    digest = hashlib.sha256("\0".join(rest).encode()).hexdigest()
    journal.belongs_to(read_info(base).fingerprint, digest, settings.rate, settings.batch_tokens, settings.seed)
    table = [{"model": UNIGRAM, "masked_words": words, "accuracy": reference[0], "perplexity": reference[1]}]
    results.mkdir(parents=True, exist_ok=True)
    write_file(results / "masked_lm_texts.csv", lambda path: counts.to_csv(path, index=False))
    for point in train(model, tokenizer, rows, held_out, settings, journal.begin()):
        if point.accuracy is None or point.perplexity is None:
            continue
        table.append({"model": MODEL, "masked_words": words, **asdict(point)})
        frame = pd.DataFrame(table)
        write_file(results / "masked_lm.csv", partial(frame.to_csv, index=False))
        seconds = max(point.core_seconds, 1e-9)
        say(
            f"step {point.step:,}, {point.core_seconds / 60:.1f} core-minutes: {100 * point.accuracy:.1f}%, perplexity "
            f"{point.perplexity:,.0f}; {point.texts / seconds:.1f} texts and {point.tokens / seconds:,.0f} tokens a "
            "core-second"
        )
    save(model, load_tokenizer(base), out / "model", card(counts))

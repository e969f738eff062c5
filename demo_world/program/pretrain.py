"""Pre-training the two bases on the corpus: RoBERTa with masked words, GPT-2 with the next word."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, RobertaConfig, RobertaForMaskedLM

from demo_world.program.tokens import POSITIONS

PAD, MASK, FIRST_WORD = 1, 4, 5
IGNORED = -100


@dataclass(frozen=True)
class Plan:
    """How long a base is trained, and how wide it is. AdamW; in each phase warm-up, then the rate falls by a cosine.

    In the first phase, of `steps`, a share of `masked` of all words is to be guessed. In the second, of `ends` steps,
    only those words that tell what a text comes to, `telling` of them: a faint signal among all the words, which a
    model of this size does not find if it has to learn everything at once.
    """

    texts: int = 150_000
    steps: int = 5500
    ends: int = 3000
    batch: int = 64
    rate: float = 1.5e-3
    warm_up: float = 0.05
    masked: float = 0.2
    telling: float = 0.9
    width: int = 128
    layers: int = 4
    heads: int = 4
    inner: int = 512


CAUSAL = Plan(steps=2000, ends=0, layers=2)


@dataclass(frozen=True)
class PretrainStep:
    """One step: its mean loss (nats a word)."""

    step: int
    steps: int
    loss: float


def masked_model(vocabulary: int, plan: Plan, seed: int) -> Any:
    """A new RoBERTa with its masked-LM head, tied to the embedding."""
    config = RobertaConfig(
        vocab_size=vocabulary, hidden_size=plan.width, num_hidden_layers=plan.layers, num_attention_heads=plan.heads,
        intermediate_size=plan.inner, max_position_embeddings=POSITIONS + 2, type_vocab_size=1, pad_token_id=PAD,
        bos_token_id=0, eos_token_id=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return _seeded(RobertaForMaskedLM, config, seed)


def causal_model(vocabulary: int, plan: Plan, seed: int) -> Any:
    """A new GPT-2, its output matrix tied to the embedding."""
    config = GPT2Config(
        vocab_size=vocabulary, n_embd=plan.width, n_layer=plan.layers, n_head=plan.heads, n_inner=plan.inner,
        n_positions=POSITIONS, bos_token_id=0, eos_token_id=2, pad_token_id=PAD, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0,
    )  # fmt: skip
    return _seeded(GPT2LMHeadModel, config, seed)


def encoded(texts: Iterable[str], tokenizer: Any) -> list[np.ndarray]:
    """The texts as token ids, cut at POSITIONS, int64 each."""
    ids = tokenizer(list(texts), truncation=True, return_attention_mask=False)["input_ids"]
    return [np.array(row, dtype=np.int64) for row in ids]


def pretraining(
    model: Any, texts: list[np.ndarray], plan: Plan, seed: int, telling: Sequence[int] = ()
) -> Iterator[PretrainStep]:
    """One record a step; afterwards the model is trained, and in eval mode. `telling` are ids of words."""
    causal = model.config.model_type == "gpt2"
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.01},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=plan.rate, betas=(0.9, 0.98))
    generator, total = np.random.default_rng([seed, 1]), plan.steps + (plan.ends if len(telling) else 0)
    model.train()
    for step, (rate, rows, chances) in enumerate(_schedule(texts, plan, seed, telling, model.config.vocab_size)):
        for group in optimizer.param_groups:
            group["lr"] = rate
        ids = _padded([texts[row] for row in rows])
        loss = _causal_loss(model, ids) if causal else _masked_loss(model, ids, chances, generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield PretrainStep(step + 1, total, float(loss.detach()))
    model.eval()


def _schedule(
    texts: list[np.ndarray], plan: Plan, seed: int, telling: Sequence[int], vocabulary: int
) -> Iterator[tuple[float, list[int], np.ndarray]]:
    """Each step's learning rate, its rows of `texts`, and the chance of each word [vocabulary] to be guessed."""
    every, alone = np.full(vocabulary, plan.masked), np.zeros(vocabulary)
    alone[list(telling)] = plan.telling
    rows = list(range(len(texts)))
    ends = [row for row in rows if np.isin(texts[row], telling).any()] or rows
    for steps, chosen, chances in ((plan.steps, rows, every), (plan.ends if len(telling) else 0, ends, alone)):
        order = _batches(chosen, texts, plan.batch, seed)
        for step in range(steps):
            yield plan.rate * _share(step, steps, plan.warm_up), next(order), chances


def _masked_loss(model: Any, ids: np.ndarray, shares: np.ndarray, generator: np.random.Generator) -> Tensor:
    """Mean loss of the chosen words: eight of ten masked, one replaced, one left, as BERT has it.

    `shares` [vocabulary] says how likely each word is chosen.
    """
    chosen = (ids >= FIRST_WORD) & (generator.random(ids.shape) < shares[ids])
    how = generator.random(ids.shape)
    inputs = np.where(chosen & (how < 0.8), MASK, ids)
    strange = generator.integers(FIRST_WORD, model.config.vocab_size, ids.shape)
    inputs = np.where(chosen & (how >= 0.9), strange, inputs)
    hidden = model.roberta(torch.from_numpy(inputs), attention_mask=torch.from_numpy((ids != PAD).astype(np.int64)))[0]
    wanted = torch.from_numpy(chosen)
    logits = model.lm_head(hidden[wanted])
    return torch.nn.functional.cross_entropy(logits, torch.from_numpy(ids)[wanted])


def _causal_loss(model: Any, ids: np.ndarray) -> Tensor:
    words = torch.from_numpy(ids)
    logits = model(words[:, :-1], attention_mask=(words[:, :-1] != PAD).long()).logits
    wanted = torch.where(words[:, 1:] == PAD, IGNORED, words[:, 1:])
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED)


def _batches(rows: list[int], texts: list[np.ndarray], size: int, seed: int, pool: int = 16) -> Iterator[list[int]]:
    """Endless batches of these rows, of similar length: `pool` batches are drawn, sorted, cut, and shuffled."""
    generator, known = np.random.default_rng([seed, 0]), np.array(rows)
    sizes = np.array([len(texts[row]) for row in rows])
    while True:
        order = generator.permutation(len(sizes))
        for start in range(0, len(order) - size + 1, size * pool):
            drawn = order[start : start + size * pool]
            drawn = known[drawn[np.argsort(sizes[drawn], kind="stable")]]
            cuts = [drawn[at : at + size].tolist() for at in range(0, len(drawn) - size + 1, size)]
            yield from (cuts[i] for i in generator.permutation(len(cuts)))


def _padded(rows: list[np.ndarray]) -> np.ndarray:
    ids = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
    return ids


def _share(step: int, steps: int, warm_up: float) -> float:
    """The step's share of the full rate."""
    warm = max(1, int(warm_up * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def _seeded(make: Any, config: Any, seed: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(config)

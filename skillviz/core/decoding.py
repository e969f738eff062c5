"""The likelihood of references, greedy decoding, and the scores of both.

Only prompts of equal length share a batch, so nothing is padded and a family's treatment of padding cannot change a
text. Keys and values of earlier tokens are cached if the model returns them; otherwise whole texts are passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skillviz.core.architectures import family_of
from skillviz.core.batches import Batches
from skillviz.core.encoded import Encoded
from skillviz.core.generation import LOG_LIKELIHOOD, MINUS_TOKENS, Generated, Generation, generated_scores
from skillviz.core.readout import CausalReadout


@torch.no_grad()
def scores_of_generated(model: Any, batches: Batches, readout: CausalReadout, rows: np.ndarray) -> Generated:
    """Return the scores [n, 4] of these rows, in their order: of the reference, and of the generated text.

    A text is generated from the prompt only if the examples ask for one.
    """
    encoded, answers = batches.encoded.take(rows), np.empty((len(rows), 1), dtype=np.float32)
    parts = [readout.logits(model, batch).float() for batch in batches.micro(rows)]
    answers[batches.by_length(rows)] = torch.cat(parts).cpu().numpy()
    scores = scores_of_references(answers, encoded)
    if encoded.generation is None:
        return scores
    generated = greedy(model, encoded.input_ids, encoded.generation, batches.device, batches.micro_tokens)
    return encoded.generation.scored(generated, scores[:, LOG_LIKELIHOOD], -scores[:, MINUS_TOKENS])


def scores_of_references(answers: np.ndarray, encoded: Encoded) -> Generated:
    """Return the scores [n, 4] from the readout's own [n, 1], in the order of these examples; nothing is generated."""
    assert encoded.answers is not None
    tokens = np.array([len(reference) for (reference,) in encoded.answers], dtype=np.int64)
    nats = answers[:, 0] * tokens.astype(np.float32) if encoded.by_length else answers[:, 0]
    return generated_scores(None, nats, tokens)


@torch.no_grad()
def greedy(
    model: Any, prompts: list[np.ndarray], generation: Generation, device: torch.device, most_tokens: int
) -> list[list[int]]:
    """Return the ids that the model generates greedily after each prompt, including the id that ends the text.

    A batch has at most `most_tokens` tokens, or one prompt.
    """
    texts: list[list[int]] = [[] for _ in prompts]
    for rows in _of_equal_length(prompts, generation.max_new_tokens, most_tokens):
        ids = torch.from_numpy(np.stack([prompts[row] for row in rows])).to(device)
        feed, cache, going = ids, None, set(rows)
        for _ in range(generation.max_new_tokens):
            scores, cache = _next_scores(model, feed, cache, ids.shape)
            chosen = scores.argmax(-1, keepdim=True).to(device)
            ids = torch.cat([ids, chosen], dim=1)
            feed = ids if cache is None else chosen
            for row, one in zip(rows, chosen.squeeze(1).tolist(), strict=True):
                if row in going:
                    texts[row].append(one)
                    if generation.has_ended(texts[row]):
                        going.remove(row)
            if not going:
                break
    return texts


def _of_equal_length(prompts: list[np.ndarray], more: int, most_tokens: int) -> Iterator[list[int]]:
    """Yield the prompts' numbers in batches of equal length; each prompt becomes `more` tokens longer."""
    by_length: dict[int, list[int]] = {}
    for row, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(row)
    for length, rows in sorted(by_length.items()):
        count = max(1, most_tokens // (length + more))
        yield from (rows[start : start + count] for start in range(0, len(rows), count))


def _next_scores(model: Any, feed: Tensor, cache: Any, shape: torch.Size) -> tuple[Tensor, Any]:
    """Scores [batch, vocabulary] of the next token, and the cache of keys and values so far, None without one."""
    inputs = {"input_ids": feed, "attention_mask": torch.ones(shape, dtype=torch.long, device=feed.device)}
    if cache is not None:
        inputs["past_key_values"] = cache
    if family_of(model.config.model_type).plain_decoder:  # the head runs on the last position only
        out = model.base_model(**inputs, use_cache=True)
        scores = model.get_output_embeddings()(out.last_hidden_state[:, -1])
    else:
        out = model(**inputs, use_cache=True)
        scores = out.logits[:, -1]
    kept = getattr(out, "past_key_values", None)
    # Layers that recompute activations return a cache that they have left empty.
    length = kept.get_seq_length() if hasattr(kept, "get_seq_length") else 0  # type: ignore[union-attr]
    return scores, kept if int(length) == shape[1] else None

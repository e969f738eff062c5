"""The contribution of each token of an example to a class's score, by captum's integrated gradients on embeddings.

The explained score is the class's log-odds, log p / (1 - p), in nats. Unlike a raw score, it does not change when the
scores of all classes rise together, so it means the same in every state and for every readout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skillviz.core.batches import Batch
from skillviz.core.encoded import Encoded
from skillviz.core.readout import Readout
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.pair import ModelPair

BASELINES = ("pad", "mask", "zero")
STEPS = 50
BEGINNINGS = ("Ġ", "▁")
"""The marks that a vocabulary writes before a token that begins a word."""


@dataclass(frozen=True)
class Attribution:
    """`values` [token] float64: their sum is `score - reference`, except for `gap` (the integral's error).

    `score` is the class's log-odds on the example. `reference` is that on the baseline, which is the example with every
    non-special token replaced. Special tokens stay, so their value is 0.
    """

    tokens: tuple[str, ...]
    values: np.ndarray
    score: float
    reference: float

    @property
    def gap(self) -> float:
        """Completeness gap in nats: the sum of the values minus (score - reference)."""
        return float(self.values.sum() - (self.score - self.reference))


@dataclass(frozen=True)
class Explained:
    """One example as the end of a path of embeddings [1, token, width] that starts at the baseline.

    `score(x)` returns the log-odds [n] of the class for embeddings x [n, token, width], by the model's current weights;
    `chunk` is the number of points it takes at a time. The causal readout runs `sequences` of them, one per label.
    """

    tokens: tuple[str, ...]
    start: Tensor
    end: Tensor
    score: Callable[[Tensor], Tensor]
    chunk: int
    sequences: int


def attribute(
    pair: ModelPair,
    encoded: Encoded,
    state: str,
    region: Region | None = None,
    *,
    target: int,
    row: int = 0,
    baseline: str = "pad",
    steps: int = STEPS,
) -> Attribution:
    """Return the tokens' attributions to class `target` on example `row`, in a state of the pair.

    They are computed by Gauss-Legendre quadrature with `steps` points. Raises BadInput for an unknown class or baseline
    or an invalid number of steps. The model is restored afterwards.
    """
    with pair.at(state, region):
        case = explained(pair, encoded, target, row, baseline, steps)
        values = integrated_gradients(case.score, case.start, case.end, steps, case.chunk)
        with torch.no_grad():
            reference, score = (float(case.score(x)) for x in (case.start, case.end))
    return Attribution(case.tokens, values[0].sum(-1).double().cpu().numpy(), score, reference)


def integrated_gradients(
    score: Callable[[Tensor], Tensor], start: Tensor, end: Tensor, steps: int, chunk: int | None = None
) -> Tensor:
    """Return (end - start) times the mean gradient of `score` along the straight line, in the shape of `end` [1, ...].

    Sundararajan et al. 2017. The model takes `chunk` points of the line at a time.
    """
    from captum.attr import IntegratedGradients  # takes seconds to import, and only attributions need it

    return (
        IntegratedGradients(score)
        .attribute(end, baselines=start, n_steps=steps, method="gausslegendre", internal_batch_size=chunk)
        .detach()
    )


def explained(
    pair: ModelPair, encoded: Encoded, target: int, row: int = 0, baseline: str = "pad", steps: int = STEPS
) -> Explained:
    """Return the path and the score of one example, for the model's current weights."""
    if getattr(pair.model.config, "is_encoder_decoder", False):
        raise BadInput(
            f"predictions of '{pair.table.model_type}' models cannot be explained: encoder and decoder read the same "
            "embeddings at different places; use a model with one stack of layers."
        )
    _check(encoded, target, row, baseline, steps)
    one = encoded.take([row])
    objective = pair.objective(one)
    batch = objective.batches.batch(np.array([0]))
    ids, layer = one.input_ids[0], pair.model.get_input_embeddings()
    with torch.no_grad():
        end = layer(torch.from_numpy(ids)[None].to(pair.device)).float()
        is_special = torch.from_numpy(special(ids, pair.tokenizer))[None, :, None].to(end.device)
        start = torch.where(is_special, end, _baseline(baseline, pair, layer, end))

    def score(x: Tensor) -> Tensor:
        return log_odds(_logits(pair.model, objective.readout, batch, x), target)

    sequences = batch.inputs["input_ids"]
    chunk = max(1, objective.batches.micro_tokens // sequences.numel())
    return Explained(_tokens(ids, pair.tokenizer), start, end, score, chunk, len(sequences))


def log_odds(logits: Tensor, target: int) -> Tensor:
    """Return log p / (1 - p) of one class [n], from class scores [n, label]."""
    others = [c for c in range(logits.shape[1]) if c != target]
    return logits[:, target] - logits[:, others].logsumexp(1)


@contextmanager
def embeddings_replaced(model: Any, start: Tensor) -> Iterator[None]:
    """In the body, the model's token embeddings begin with `start` [rows, token, width], for any input ids.

    The model still gets its positions and its last token from the ids, so that only the embeddings differ.
    """

    def replaced(_module: Any, _inputs: Any, output: Tensor) -> Tensor:
        first = start.to(output.dtype)
        return torch.cat([first, output[:, first.shape[1] :]], dim=1)

    handle = model.get_input_embeddings().register_forward_hook(replaced)
    try:
        yield
    finally:
        handle.remove()


def _logits(model: Any, readout: Readout, batch: Batch, x: Tensor) -> Tensor:
    """Return the class scores [n, label] if the batch's one example has the embeddings x [n, token, width]."""
    n = len(x)
    per_example = len(batch.inputs["input_ids"])  # one sequence, or one per label
    many = Batch(
        np.zeros(n, dtype=np.int64),
        {name: tensor.repeat(n, 1) for name, tensor in batch.inputs.items()},
        batch.labels.repeat(n),
        None if batch.positions is None else batch.positions.repeat(n),
        None if batch.answers is None else batch.answers.repeat(n, 1, 1),
    )
    with embeddings_replaced(model, x.repeat_interleave(per_example, dim=0)):
        logits = readout.logits(model, many)
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _baseline(baseline: str, pair: ModelPair, layer: Any, end: Tensor) -> Tensor:
    """Return the embedding that replaces a token's, in the shape of `end`."""
    if baseline == "zero":
        return torch.zeros_like(end)
    number = pair.tokenizer.pad_token_id if baseline == "pad" else pair.tokenizer.mask_token_id
    if number is None:
        raise BadInput(f"this tokenizer has no {baseline} token; choose another baseline: zero has no such need.")
    return layer(torch.tensor([[number]], device=end.device)).float().expand_as(end)


def special(ids: np.ndarray, tokenizer: Any) -> np.ndarray:
    """Return True for special tokens, bool [token]. They stay on the path; an unknown word is not a special token."""
    names = ("cls", "sep", "mask", "bos", "eos", "pad")
    special_ids = {getattr(tokenizer, f"{name}_token_id") for name in names} - {None}
    return np.isin(ids, sorted(special_ids))


def words(ids: np.ndarray, tokenizer: Any, is_text: np.ndarray) -> np.ndarray:
    """Return the index of each token's word, from 0, int64 [token]; -1 for a special token or one outside the text.

    A vocabulary marks the tokens that continue a word (##), those that begin one (Ġ, ▁) or those that end one (</w>).
    Without any mark, each token is a word.
    """
    names, vocabulary = tokenizer.convert_ids_to_tokens(ids.tolist()), list(tokenizer.get_vocab())
    goes_on = any(name.startswith("##") for name in vocabulary)
    begins = any(name.startswith(BEGINNINGS) for name in vocabulary)
    ends = any(name.endswith("</w>") for name in vocabulary)
    numbers, number, before = np.full(len(ids), -1, dtype=np.int64), -1, ""
    for place, name in enumerate(names):
        if not is_text[place]:
            before = ""
            continue
        has_letters = any(sign.isalnum() for sign in name) and any(sign.isalnum() for sign in before)
        is_same = (
            name.startswith("##") if goes_on
            else has_letters and not name.startswith(BEGINNINGS) if begins
            else not before.endswith("</w>") if ends
            else False
        )  # fmt: skip
        number += not (before and is_same)
        numbers[place], before = number, name
    return np.where(special(ids, tokenizer), -1, numbers)


def _tokens(ids: np.ndarray, tokenizer: Any) -> tuple[str, ...]:
    """Return the tokens as a reader would write them; invalid text keeps the tokenizer's own name."""
    pieces = [tokenizer.decode([number]).strip().removeprefix("##") for number in ids.tolist()]
    names = tokenizer.convert_ids_to_tokens(ids.tolist())
    return tuple(p if p and "\ufffd" not in p else str(name) for p, name in zip(pieces, names, strict=True))


def _check(encoded: Encoded, target: int, row: int, baseline: str, steps: int) -> None:
    if baseline not in BASELINES:
        raise BadInput(f"'{baseline}' is not a baseline; known: {', '.join(BASELINES)}.")
    if not 0 <= target < encoded.n_labels:
        raise BadInput(f"class {target} is not there; the task has the classes 0 to {encoded.n_labels - 1}.")
    if not 0 <= row < len(encoded):
        raise BadInput(f"example {row} is not there; the examples are 0 to {len(encoded) - 1}.")
    if not 2 <= steps <= 1000:
        raise BadInput(f"attributions take 2 to 1000 steps; got {steps}.")

"""Readouts of class scores from a model: at the mask, by the head, or by the likelihood of an answer.

The `logits(model, batch)` of each readout returns a tensor [batch, label] whose softmax is the distribution over the
labels, and only over them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from skillviz.core.architectures import family_of
from skillviz.core.batches import Batch
from skillviz.core.encoded import NO_OPTION, Encoded


class Readout(Protocol):
    """Reads class scores off a model."""

    @property
    def name(self) -> str:
        """The name: prompt, head or causal."""
        ...

    def logits(self, model: Any, batch: Batch) -> Tensor:
        """Class scores [batch, label]."""
        ...


@lru_cache
def columns(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    """Return these numbers as an index on a device, cached: copying takes time and cannot be part of a CUDA graph."""
    with torch.inference_mode(False):  # an inference tensor cannot be used in a backward pass later
        return torch.tensor(numbers, device=device)


@dataclass(frozen=True)
class HeadReadout:
    """The model class's own classification head; if it scores every token, the first one is read."""

    name: str = "head"

    def logits(self, model: Any, batch: Batch) -> Tensor:
        """The head's logits [batch, label]."""
        if family_of(model.config.model_type).read_at_last:
            logits: Tensor = model(**_padded_before(batch.inputs)).logits
        elif getattr(model.config, "is_encoder_decoder", False):
            logits = _by_ends(model, batch.inputs)
        else:
            logits = model(**batch.inputs).logits
        return logits[:, 0] if logits.ndim == 3 else logits


def _padded_before(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the inputs with each text's padding moved before it."""
    mask = inputs["attention_mask"]
    length = mask.shape[-1]
    places = (torch.arange(length, device=mask.device) + mask.sum(-1, keepdim=True)) % length
    return {name: values.gather(-1, places) for name, values in inputs.items()}


def _by_ends(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """The head's logits of an encoder-decoder, which accepts only texts with equally many end tokens in a batch."""
    ends = (inputs["input_ids"] == model.config.eos_token_id).sum(-1)
    groups = [(ends == count).nonzero()[:, 0] for count in ends.unique()]
    if len(groups) == 1:
        logits: Tensor = model(**inputs).logits
        return logits
    parts = [model(**{name: values[rows] for name, values in inputs.items()}).logits for rows in groups]
    return torch.cat(parts)[torch.cat(groups).argsort().to(parts[0].device)]


@dataclass(frozen=True)
class PromptReadout:
    """The label words' vocabulary scores at the mask token (paper, section 2)."""

    label_ids: tuple[int, ...]
    name: str = "prompt"

    def logits(self, model: Any, batch: Batch) -> Tensor:
        """Return scores of the label words at the mask [batch, label]."""
        assert batch.positions is not None
        row = torch.arange(len(batch), device=batch.positions.device)
        modules = family_of(model.config.model_type).masked_head
        if not modules:
            vocabulary = model(**batch.inputs).logits
            vocabulary = vocabulary[row.to(vocabulary.device), batch.positions.to(vocabulary.device)]
        else:
            hidden = model.base_model(**batch.inputs).last_hidden_state
            # in a model on several devices, `hidden` is on the last one
            vocabulary = hidden[row.to(hidden.device), batch.positions.to(hidden.device)]
            for name in modules:
                vocabulary = getattr(model, name)(vocabulary)
        return vocabulary[:, columns(self.label_ids, vocabulary.device)]


@dataclass(frozen=True)
class CausalReadout:
    """The log-likelihood, in nats, of each label's whole answer after the prompt.

    With `by_length` it is divided by the answer's number of tokens. An answer without tokens is an option that the
    example does not have: its score is NO_OPTION.
    """

    by_length: bool = False
    name: str = "causal"

    def logits(self, model: Any, batch: Batch) -> Tensor:
        """Return the log-likelihood of each answer [batch, label]."""
        assert batch.answers is not None
        n, labels, _ = batch.answers.shape
        where = batch.answers.flatten(0, 1)[:, 1:]
        tokens = batch.inputs["input_ids"][:, 1:][where]
        scores = _next_token_scores(model, batch, where)
        tokens, where = tokens.to(scores.device), where.to(scores.device)
        chosen = scores.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) - scores.logsumexp(-1)
        total, tokens_of = chosen.new_zeros(where.shape).masked_scatter(where, chosen).sum(-1), where.sum(-1)
        if self.by_length:
            total = total / tokens_of.clamp(min=1)
        return total.masked_fill(tokens_of == 0, NO_OPTION).reshape(n, labels)


def _next_token_scores(model: Any, batch: Batch, where: Tensor) -> Tensor:
    """Return vocabulary scores [tokens, vocabulary], at least float32, before each token selected by `where`."""
    if family_of(model.config.model_type).plain_decoder:
        hidden = model.base_model(**batch.inputs).last_hidden_state[:, :-1]
        hidden = hidden[where.to(hidden.device)]
        scores = model.get_output_embeddings()(hidden)
    else:
        scores = model(**batch.inputs).logits[:, :-1]
        scores = scores[where.to(scores.device)]
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def task_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of a batch, summed over its examples, from class scores [batch, label] and labels [batch], in nats.

    It is the cross-entropy over the labels; `labels` may also be probabilities [batch, label]. A reference is the only
    answer of its example: its loss is its negative log-likelihood, over all of its tokens (per token, if the readout's
    score is).
    """
    if logits.shape[-1] == 1:
        return -logits.sum()
    return cross_entropy(logits, labels if labels.dim() == 1 else labels.to(logits.dtype), reduction="sum")


def make_readout(name: str, encoded: Encoded) -> Readout:
    """Return the readout of that name for these examples (the prompt readout takes its label words from them)."""
    makers: dict[str, Callable[[], Readout]] = {
        "head": HeadReadout,
        "causal": lambda: CausalReadout(encoded.by_length),
        "prompt": lambda: PromptReadout(tuple(int(i) for i in encoded.label_ids)),  # type: ignore[union-attr]
    }
    return makers[name]()

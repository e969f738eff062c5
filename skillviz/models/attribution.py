"""The contribution of each token of an example to a class's score, by captum's integrated gradients on embeddings.

The explained score is the class's log-odds, log p / (1 - p), in nats. Unlike a raw score, it does not change when the
scores of all classes rise together, so it means the same in every state and for every readout.

Conductance tells which blocks and modules carry a decision (Dhamdhere et al. 2018): the part of the change in the
log-odds, from the baseline to the example, that flows through a layer's output. It is the integral of (gradient by the
output) x (its change) along the straight line between the two. captum's LayerConductance handles one layer per pass and
takes the gradient at the left end of each piece. Here every layer is handled in the same pass, with the gradient by the
trapezoid rule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skillviz.core.architectures import ATTENTION_OUTPUT, EXPERT_OUT, MLP_OUT, family_of
from skillviz.core.batches import Batch
from skillviz.core.encoded import Encoded
from skillviz.core.parameters import ParameterTable
from skillviz.core.readout import Readout
from skillviz.core.region import Region
from skillviz.errors import BadInput, refuse
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
    refuse(
        (baseline not in BASELINES, f"'{baseline}' is not a baseline; known: {', '.join(BASELINES)}."),
        (
            not 0 <= target < encoded.n_labels,
            f"class {target} is not there; the task has the classes 0 to {encoded.n_labels - 1}.",
        ),
        (
            not 0 <= row < len(encoded),
            f"example {row} is not there; the examples are 0 to {len(encoded) - 1}.",
        ),
        (not 2 <= steps <= 1000, f"attributions take 2 to 1000 steps; got {steps}."),
    )
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


BLOCK = "block"
ANSWER = "(answer)"


@dataclass(frozen=True)
class Conductance:
    """`parts` maps `block`, `attention output` and `MLP out` to nats by [layer, token].

    Everything flows through a block's output, so each row of `block` sums to `score - reference`; it shows the tokens
    that hold the evidence after the layer. A row of the other two sums to the flow through that module and not past it,
    which is the layer's own contribution. For the causal readout the last column is the answers' tokens.
    """

    tokens: tuple[str, ...]
    parts: dict[str, np.ndarray]
    score: float
    reference: float

    @property
    def gap(self) -> float:
        """Completeness gap in nats: the block's sum minus (score - reference), for the layer with the largest gap."""
        gaps = self.parts[BLOCK].sum(axis=1) - (self.score - self.reference)
        return float(gaps[np.abs(gaps).argmax()])


def conductance(
    pair: ModelPair,
    encoded: Encoded,
    state: str,
    region: Region | None = None,
    *,
    target: int,
    row: int = 0,
    baseline: str = "pad",
    steps: int = STEPS,
) -> Conductance:
    """Return the conductance of the layers for class `target` on example `row`; arguments as in `attribute`.

    Raises BadInput if layers share their parameters, because one module then has an output for each of its uses.
    """
    if pair.table.repeats > 1:
        raise BadInput(
            f"the layers of this '{pair.table.model_type}' model share their parameters, so they cannot be told apart; "
            "explain the tokens instead."
        )
    with pair.at(state, region):
        case = explained(pair, encoded, target, row, baseline, steps)
        modules = {key: pair.model.get_submodule(name) for key, name in module_names(pair.table).items()}
        flows, scores = _integrated(case, modules, steps)
    tokens = case.tokens
    width = max(flow.shape[0] for flow in flows.values())
    if width > len(tokens):
        n = len(tokens)  # the columns after the prompt's are one
        flows = {key: np.append(flow[:n], flow[n:].sum()) for key, flow in flows.items()}
        tokens = (*tokens, ANSWER)
    names = dict.fromkeys(part for part, _ in flows)
    parts = {name: np.stack([flow for (part, _), flow in flows.items() if part == name]) for name in names}
    return Conductance(tokens, parts, scores[1], scores[0])


def module_names(table: ParameterTable) -> dict[tuple[str, int], str]:
    """Return (part, layer) -> the measured module's name; a family that is not in the table has blocks only.

    A part is left out if a layer has several of it, or if it belongs to one of several experts.
    """
    block = family_of(table.model_type).block
    modules: dict[tuple[str, int], str] = {}
    kinds = Counter((p.kind, p.layer) for p in table.parameters if not p.is_bias)
    for parameter in table.parameters:
        if parameter.layer is None:
            continue
        place = re.search(block, parameter.name)
        if place is not None:
            modules[BLOCK, parameter.layer] = parameter.name[: place.end()].rstrip(".")
        is_only = kinds[parameter.kind, parameter.layer] == 1 and not (
            parameter.kind == MLP_OUT and kinds[EXPERT_OUT, parameter.layer]
        )
        if parameter.kind in (ATTENTION_OUTPUT, MLP_OUT) and not parameter.is_bias and is_only:
            modules[parameter.kind, parameter.layer] = parameter.name.rpartition(".")[0]
    return dict(sorted(modules.items(), key=lambda item: (item[0][0] != BLOCK, item[0])))


def _integrated(
    case: Explained, modules: Mapping[tuple[str, int], Any], steps: int
) -> tuple[dict[tuple[str, int], np.ndarray], tuple[float, float]]:
    """Return the conductance of each module by token and the scores at both ends, over `steps` pieces of the path."""
    totals: dict[tuple[str, int], Any] = dict.fromkeys(modules, 0.0)
    last: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}
    scores: list[Tensor] = []
    for alphas in (torch.arange(steps + 1) / steps).split(case.chunk):
        way = alphas.to(case.end)[:, None, None]
        x = (case.start + way * (case.end - case.start)).requires_grad_()
        with outputs_of(modules) as outputs:
            score = case.score(x)
        gradients = torch.autograd.grad(score.sum(), list(outputs.values()))
        scores.append(score.detach())
        for (key, output), gradient in zip(outputs.items(), gradients, strict=True):
            point, slope = _points(output.detach(), len(x), case), _points(gradient, len(x), case)
            if key in last:
                point, slope = torch.cat([last[key][0], point]), torch.cat([last[key][1], slope])
            flow = (slope[1:] + slope[:-1]) / 2 * (point[1:] - point[:-1])  # [piece, sequence, token, width]
            totals[key] = totals[key] + flow.sum(dim=(0, 1, 3))
            last[key] = point[-1:], slope[-1:]
    ends = torch.cat(scores)
    return {key: total.cpu().numpy() for key, total in totals.items()}, (float(ends[0]), float(ends[-1]))


def _points(tensor: Tensor, n: int, case: Explained) -> Tensor:
    """Return a module's outputs as float64 [point, sequence, token, width]; some modules flatten their tokens."""
    return tensor.double().reshape(n, case.sequences, -1, tensor.shape[-1])


@contextmanager
def outputs_of(modules: Mapping[tuple[str, int], Any]) -> Iterator[dict[tuple[str, int], Tensor]]:
    """Yield a dict that collects the modules' outputs in the one forward pass of the body; of a tuple, the first."""
    outputs: dict[tuple[str, int], Tensor] = {}

    def keep(key: tuple[str, int]) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            outputs[key] = output[0] if isinstance(output, tuple) else output

        return hook

    handles = [module.register_forward_hook(keep(key)) for key, module in modules.items()]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()

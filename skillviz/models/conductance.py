"""The layers that carry a decision: conductance of the blocks and of the modules in them (Dhamdhere et al. 2018).

The conductance of a layer is the part of the change in a class's log-odds, from the baseline to the example, that flows
through the layer's output: the integral of (gradient by the output) x (its change) along the straight line between the
two. captum's LayerConductance handles one layer per pass and takes the gradient at the left end of each piece. Here
every layer is handled in the same pass, with the gradient by the trapezoid rule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skillviz.core.architectures import ATTENTION_OUTPUT, EXPERT_OUT, MLP_OUT, family_of
from skillviz.core.encoded import Encoded
from skillviz.core.parameters import ParameterTable
from skillviz.core.region import Region
from skillviz.errors import BadInput
from skillviz.models.attribution import STEPS, Explained, explained
from skillviz.models.pair import ModelPair

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
        flows, scores = _integrated(case, _modules(pair), steps)
    tokens = case.tokens
    width = max(flow.shape[0] for flow in flows.values())
    if width > len(tokens):
        flows = {key: _answers_joined(flow, len(tokens)) for key, flow in flows.items()}
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


def _modules(pair: ModelPair) -> dict[tuple[str, int], Any]:
    return {key: pair.model.get_submodule(name) for key, name in module_names(pair.table).items()}


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


def _answers_joined(flow: np.ndarray, n: int) -> np.ndarray:
    """Sum the columns after the prompt's n tokens into one."""
    return np.append(flow[:n], flow[n:].sum())

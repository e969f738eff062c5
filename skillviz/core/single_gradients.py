"""The gradient of each example of a micro-batch, from one pass of all of them.

The gradient of a linear layer's weight is, for one example, the product of the layer's output gradient and its input
for that example (Goodfellow 2015, "Efficient per-example gradient computations", arXiv:1510.01799). Layers of other
kinds, and passes in which a layer does not see the examples one after the other, are not supported: `taps` is None or
`TappedPass.whole` is false, and the caller processes the examples one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from skillviz.core.flat import FlatModel

TakeOf = Callable[[int, int, Tensor], None]
"""A callback that receives, for an example's index in the batch, the gradient [size] of the table's parameter of that
number. It is float32 and valid until the next call."""
GradientOf = Callable[[str, Tensor, Tensor, Tensor], Tensor]
"""The gradient of a layer's parameter of that name for one example, from its input [token, in] and output gradient
[token, out], both maybe with more dimensions between; a matrix's gradient is written into the last argument
[entries]."""


@dataclass(frozen=True)
class Tap:
    """A layer, the function for gradients of its parameters, and their numbers in the table, by name."""

    layer: nn.Module
    gradient: GradientOf
    numbers: dict[str, int]


def taps_of(flat: FlatModel) -> list[Tap] | None:
    """Return the layers of the graftable parameters; None if one is of an unknown kind or a parameter is in two."""
    if flat.dtype != torch.float32:
        return None
    numbers = {id(parameter): number for number, parameter in enumerate(flat.parameters)}
    found = list[Tap]()
    for layer in flat.model.modules():
        own = {name: numbers[id(p)] for name, p in layer.named_parameters(recurse=False) if id(p) in numbers}
        if own:
            gradient = _gradient_of(layer)
            if gradient is None:
                return None
            found.append(Tap(layer, gradient, own))
    held = sorted(number for tap in found for number in tap.numbers.values())
    return found if held == list(range(len(flat.parameters))) else None


def _gradient_of(layer: nn.Module) -> GradientOf | None:
    name, own = type(layer).__name__, {name for name, _ in layer.named_parameters(recurse=False)}
    if type(layer) is nn.Linear:
        return partial(_of_linear, False)
    if name == "Conv1D" and own == {"weight", "bias"}:  # GPT-2's linear layer, whose weight is [in, out]
        return partial(_of_linear, True)
    if type(layer) is nn.LayerNorm:
        return partial(_of_scale, lambda x: layer_norm(x, layer.normalized_shape, None, None, layer.eps))
    eps = getattr(layer, "variance_epsilon", getattr(layer, "eps", None))
    if name.endswith("RMSNorm") and own == {"weight"} and isinstance(eps, float):
        return partial(_of_scale, lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps))
    return None


def _of_linear(turned: bool, name: str, x: Tensor, back: Tensor, buffer: Tensor) -> Tensor:
    x, back = x.reshape(-1, x.shape[-1]), back.reshape(-1, back.shape[-1])
    if name == "bias":
        return back.sum(0)
    left, right = (x, back) if turned else (back, x)
    return torch.mm(left.T, right, out=buffer.view(left.shape[1], right.shape[1]))


def _of_scale(normal: Callable[[Tensor], Tensor], name: str, x: Tensor, back: Tensor, _: Tensor) -> Tensor:
    each = back if name == "bias" else back * normal(x)
    return each.reshape(-1, each.shape[-1]).sum(0)


class TappedPass:
    """The input of each layer in the pass inside `tapped`; `whole` if it gives the gradients of each example.

    The batch `ids` [sequence, token] has `examples` examples, each of equally many sequences.
    """

    def __init__(self, flat: FlatModel, layers: Sequence[Tap], examples: int, ids: Tensor) -> None:
        self.flat, self.taps, self.examples = flat, layers, examples
        self.lengths = (len(ids), ids.numel())
        self.went_in: dict[int, Tensor] = {}
        self.whole = True
        self._sizes = [parameter.size for parameter in flat.table.parameters]
        self._buffer = torch.empty(max(self._sizes), device=flat.device)
        self._take: TakeOf | None = None

    def backward(self, total: Tensor, take: TakeOf, *, last: bool) -> None:
        """Pass each example's gradient of `total`, a sum of one term per example, to `take`.

        A parameter that takes no part in the pass gives zeros at the end. Nothing is kept after the `last` pass.
        """
        seen = set[int]()

        def receive(example: int, number: int, gradient: Tensor) -> None:
            seen.add(number)
            take(example, number, gradient)

        self._take = receive
        total.backward(retain_graph=not last)
        self._take = None
        if last:
            self.went_in.clear()
        for number in set(range(len(self._sizes))) - seen:
            for example in range(self.examples):
                take(example, number, self._buffer[: self._sizes[number]].zero_())

    def goes_in(self, place: int, anchor: Tensor, _: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
        """A hook after the layer at this index; `anchor` is a zero that requires a gradient."""
        x = inputs[0] if len(inputs) == 1 else None
        fits = isinstance(x, Tensor) and x.ndim >= 2 and len(x) in self.lengths and x.dtype == torch.float32
        if place in self.went_in or not fits or not isinstance(output, Tensor):
            self.whole = False
            return None
        assert isinstance(x, Tensor)
        self.went_in[place] = x.detach()
        if not output.requires_grad:  # nothing below requires a gradient
            output = output + anchor
        output.register_hook(partial(self._comes_back, place))
        return output

    def _comes_back(self, place: int, back: Tensor) -> None:
        tap = self.taps[place]
        x, came_back = (t.unflatten(0, (self.examples, -1)) for t in (self.went_in[place], back))
        assert self._take is not None
        for example in range(self.examples):
            for name, number in tap.numbers.items():
                buffer = self._buffer[: self._sizes[number]]
                gradient = tap.gradient(name, x[example], came_back[example], buffer)
                self._take(example, number, gradient.reshape(-1))


@contextmanager
def tapped(flat: FlatModel, layers: Sequence[Tap], examples: int, ids: Tensor) -> Iterator[TappedPass]:
    """Inside this context, a forward pass of a batch is tapped, and no parameter requires a gradient."""
    found = TappedPass(flat, layers, examples, ids)
    anchor = torch.zeros((), device=flat.device, requires_grad=True)
    asked = [parameter.requires_grad for parameter in flat.parameters]
    hooks = []
    try:
        for parameter in flat.parameters:
            parameter.requires_grad_(False)
        for place, tap in enumerate(layers):
            hooks.append(tap.layer.register_forward_hook(partial(found.goes_in, place, anchor)))
        yield found
    finally:
        for hook in hooks:
            hook.remove()
        for parameter, before in zip(flat.parameters, asked, strict=True):
            parameter.requires_grad_(before)
    found.whole &= len(found.went_in) == len(layers)

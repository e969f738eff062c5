"""A model whose graftable parameters are views of one vector, so that every localizer is vector arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from skillviz.core.parameters import ParameterTable
from skillviz.errors import BadModel

Take = Callable[[int, Tensor], None]
"""A callback that receives the gradient [size], float32, of the table's parameter of that number."""


class FlatModel:
    """Binds a model's graftable parameters, in table order, to the vector `theta` [d].

    Writing to `theta` changes the model. All other parameters are frozen, and the model is put in evaluation mode, so
    there is no dropout during a search. `theta` has the parameters' own dtype.
    """

    def __init__(self, model: nn.Module, table: ParameterTable) -> None:
        model.eval().requires_grad_(False)
        self.model, self.table = model, table
        self.parameters = [model.get_parameter(name) for name in table.names]
        dtypes = {p.dtype for p in self.parameters}
        if len(dtypes) > 1:
            raise BadModel(f"the graftable parameters have several dtypes ({dtypes}); load the model in one dtype.")
        self.theta = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        for parameter, view in zip(self.parameters, self.views(self.theta), strict=True):
            parameter.data = view
        self._grad: Tensor | None = None
        self._receiver: Take | None = None

    @property
    def device(self) -> torch.device:
        """The device of the vector."""
        return self.theta.device

    @property
    def dtype(self) -> torch.dtype:
        """The parameters' dtype."""
        return self.theta.dtype

    def views(self, vector: Tensor) -> list[Tensor]:
        """Return a vector [d] as views, one tensor per parameter, in table order."""
        sizes = [p.size for p in self.table.parameters]
        return [v.view(p.shape) for v, p in zip(vector.split(sizes), self.table.parameters, strict=True)]

    def gather(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Concatenate tensors by parameter name to one vector [d] on this device."""
        parts = [tensors[name].detach().reshape(-1).to(self.theta) for name in self.table.names]
        return torch.cat(parts)

    @property
    def grad(self) -> Tensor:
        """The gradient of the last `zero_grad` ... `backward`, float32 [d]; allocated on first use.

        Float32 parameters accumulate directly into it. Parameters of a narrower dtype are added here in float32, one at
        a time, and their own gradient is freed at once.
        """
        if self._grad is None:
            self._grad = torch.zeros(len(self.theta), dtype=torch.float32, device=self.device)
            for number, (parameter, view) in enumerate(zip(self.parameters, self.views(self._grad), strict=True)):
                parameter.requires_grad_(True)
                if parameter.dtype == torch.float32:
                    parameter.grad = view
                else:
                    parameter.register_post_accumulate_grad_hook(partial(self._pass_on, number, view))
        return self._grad

    def zero_grad(self) -> None:
        """Set the gradient to zero in place: parameters keep pointing at it."""
        self.grad.zero_()

    @contextmanager
    def handing_to(self, take: Take) -> Iterator[None]:
        """Inside this context, a backward pass gives each parameter's complete gradient to `take`, and frees it.

        `grad` is not filled: a gradient is read while it is still in the processor's cache. A parameter that takes no
        part in the pass gives zeros at the end.
        """
        views, seen = self.views(self.grad), set[int]()

        def receive(number: int, gradient: Tensor) -> None:
            seen.add(number)
            take(number, gradient)

        wide = [number for number, parameter in enumerate(self.parameters) if parameter.dtype == torch.float32]
        hooks = []
        try:
            self._receiver = receive
            for number in wide:
                parameter = self.parameters[number]
                parameter.grad = None
                consume = partial(self._pass_on, number, views[number])
                hooks.append(parameter.register_post_accumulate_grad_hook(consume))
            yield
        finally:
            self._receiver = None
            for hook in hooks:
                hook.remove()
            for number in wide:
                self.parameters[number].grad = views[number]
        for number in set(range(len(views))) - seen:
            take(number, torch.zeros_like(views[number]).view(-1))

    def _pass_on(self, number: int, view: Tensor, parameter: Tensor) -> None:
        """Move a gradient from its parameter into `grad`, or to the receiver if one is set."""
        gradient, parameter.grad = parameter.grad, None
        assert gradient is not None
        if self._receiver is None:
            view.add_(gradient)
        else:
            self._receiver(number, gradient.reshape(-1).to(view.dtype))


def split(index: Tensor, table: ParameterTable) -> Iterator[tuple[int, Tensor, int, int]]:
    """Split ascending global flat indices by tensor: its number, its local indices, and their range in `index`."""
    cuts = torch.searchsorted(index, torch.from_numpy(table.offsets).to(index.device)).tolist()
    for number, (a, b) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
        if a < b:
            yield number, index[a:b] - int(table.offsets[number]), a, b

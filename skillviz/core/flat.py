"""A model whose graftable parameters are views of one vector, so that every localizer is vector arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from skillviz.core.parameters import ParameterTable
from skillviz.errors import BadModel


class FlatModel:
    """Binds a model's graftable parameters, in table order, to the vector `theta` [d].

    Writing to `theta` changes the model. All other parameters are frozen, and the model is put in
    evaluation mode: no dropout while a region is searched. `theta` has the parameters' own dtype.
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

    @property
    def device(self) -> torch.device:
        """Where the vector lies."""
        return self.theta.device

    @property
    def dtype(self) -> torch.dtype:
        """The parameters' dtype."""
        return self.theta.dtype

    def views(self, vector: Tensor) -> list[Tensor]:
        """A vector [d] seen as one tensor a parameter, in table order."""
        sizes = [p.size for p in self.table.parameters]
        return [v.view(p.shape) for v, p in zip(vector.split(sizes), self.table.parameters, strict=True)]

    def gather(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """One vector [d] on this device from tensors by parameter name."""
        parts = [tensors[name].detach().reshape(-1).to(self.theta) for name in self.table.names]
        return torch.cat(parts)

    @property
    def grad(self) -> Tensor:
        """The gradient of the last `zero_grad` ... `backward`, float32 [d]; allocated when first asked for.

        Float32 parameters accumulate straight into it. Parameters of a narrower dtype are added here
        in float32, one at a time, and their own gradient is freed at once.
        """
        if self._grad is None:
            self._grad = torch.zeros(len(self.theta), dtype=torch.float32, device=self.device)
            for parameter, view in zip(self.parameters, self.views(self._grad), strict=True):
                parameter.requires_grad_(True)
                if parameter.dtype == torch.float32:
                    parameter.grad = view
                else:
                    parameter.register_post_accumulate_grad_hook(_add_to(view))
        return self._grad

    def zero_grad(self) -> None:
        """Set the gradient to zero in place: parameters keep pointing at it."""
        self.grad.zero_()


def _add_to(view: Tensor):  # type: ignore[no-untyped-def]
    def hook(parameter: Tensor) -> None:
        view.add_(parameter.grad)  # type: ignore[arg-type]
        parameter.grad = None

    return hook

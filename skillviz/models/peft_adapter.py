"""A graft as a peft adapter: sparse matrices as SHiRA, everything else whole.

SHiRA (sparse high rank adapters, Bhardwaj et al., 2024) stores positions and differences, like a region. peft gives
every matrix of an adapter `rank * (rows + columns)` entries, with one rank for all. So matrices with fewer entries are
filled with zeros, and a matrix that is too dense is stored whole. LoRA would need a rank near the number of rows that
the region touches, which makes it larger than the matrix itself.

peft adds differences, but a graft copies values. Each difference is chosen so that float32 addition returns the exact
value, if there is such a number. Otherwise the result is off by at most half a unit in the last place of the
difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from skillviz.core.graft import Graft
from skillviz.errors import BadInput
from skillviz.models.heads import is_linear

PREFIX = "base_model.model."
ENTRY, VALUE = 12, 4
"""Bytes of an entry of a sparse matrix (two int32, one float32), and of a value of a whole tensor."""
LARGEST_SHARE = 0.05
"""The share of the model up to which modules with other matrices than nn.Linear's are stored whole.

Such modules are routers and tables of positions. A graft on more of them would not be a small file.
"""
TOPS = ("classifier", "score")
"""The modules that peft itself stores whole for a classifier; their parts must not be named again."""
FILE = "adapter_model.safetensors"


@dataclass(frozen=True)
class Adapter:
    """The result of writing an adapter: matrices stored sparse, modules stored whole, biases, bytes of the weights.

    `rank` is SHiRA's; `difference` is the largest absolute difference between a weight of the adapted base and of the
    graft.
    """

    sparse: int
    whole: int
    biases: int
    rank: int
    bytes: int
    difference: float


def write_adapter(folder: Path, model: nn.Module, graft: Graft, base_name: str) -> Adapter:
    """Write adapter_config.json and adapter_model.safetensors for a base from `opened_base`.

    peft's automatic classes look for the base under `base_name`. The adapter is for the base in float32. Raises
    BadInput if the region touches large matrices other than nn.Linear's (GPT-2's Conv1D, experts), or fills all its
    matrices.
    """
    if graft.rows:
        raise BadInput(
            "fine-tuning added tokens to this model, and peft would store the whole embedding for their rows. Export "
            "the graft file or use --format mergekit."
        )
    from peft import ShiraConfig  # slow to import

    owners = {name: name.rpartition(".")[0] for name in graft.region.indices}
    linear = {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    _refuse_other_matrices(model, owners, linear)
    counts = {
        owners[name]: len(indices)
        for name, indices in graft.region.indices.items()
        if owners[name] in linear and name.endswith(".weight")
    }
    shapes = {module: tuple(model.get_parameter(f"{module}.weight").shape) for module in counts}
    rank, sparse = _cheapest(counts, shapes)
    if not sparse:
        free = [m for n in graft.region.shapes if (m := n.rpartition(".")[0]) in linear and m not in counts]
        if not free:
            raise BadInput(
                "the region fills every matrix it could be stored in, so an adapter would be larger than the model. "
                "Write the whole model instead: export the graft, then `apply`."
            )
        # peft cannot open a SHiRA adapter without a matrix, so add one of zeros
        sparse = {min(free, key=lambda name: sum(model.get_parameter(f"{name}.weight").shape))}
    biases = {n for n, m in owners.items() if m in linear and n.endswith(".bias") and m not in counts.keys() - sparse}
    whole = {m for n, m in owners.items() if n not in biases and m not in sparse}
    heads = {_head_module(name) for name in graft.head}

    base = {name: tensor.detach().to(torch.float32, copy=True) for name, tensor in model.state_dict().items()}
    goal = _goal(base, graft)
    tensors: dict[str, Tensor] = {}
    worst = 0.0
    for module in sorted(sparse):
        name = f"{module}.weight"
        positions, change, error = _sparse(base[name], goal[name], graft.region.indices.get(name), rank)
        tensors[f"{module}.shira_indices"], tensors[f"{module}.shira_weight"] = positions, change
        worst = max(worst, error)
    for name in sorted(biases):
        module = owners[name]
        tensors[f"{module}.base_layer.bias" if module in sparse else name] = goal[name]
    for module in sorted(whole | heads):
        tensors |= {name: tensor for name, tensor in goal.items() if name.startswith(f"{module}.")}
    config = ShiraConfig(
        r=rank,
        random_seed=0,  # for a mask drawn at opening, which the stored positions replace
        target_modules=sorted(sparse),
        modules_to_save=sorted(whole | heads) or None,
        task_type=_task_type(graft),
        base_model_name_or_path=base_name,
        inference_mode=True,
    )
    config.save_pretrained(folder)
    save_file({PREFIX + name: t.contiguous() for name, t in tensors.items()}, folder / FILE, {"format": "pt"})
    size = (folder / FILE).stat().st_size
    return Adapter(len(sparse & counts.keys()), len(whole), len(biases), rank, size, worst)


def _refuse_other_matrices(model: nn.Module, owners: Mapping[str, str], linear: Iterable[str]) -> None:
    """Raise BadInput if other matrices, which are stored whole with their module, are a large part of the model."""
    others = {m: n for n, m in owners.items() if m not in linear and model.get_parameter(n).dim() > 1}
    sizes = {module: sum(p.numel() for p in model.get_submodule(module).parameters()) for module in others}
    if sum(sizes.values()) > LARGEST_SHARE * sum(p.numel() for p in model.parameters()):
        module = max(sizes, key=lambda name: sizes[name])
        kind = type(model.get_submodule(module)).__name__
        raise BadInput(
            f"'{others[module]}' belongs to a {kind}, and peft's sparse adapter (SHiRA) supports nn.Linear only. "
            "Export the graft file or use --format mergekit."
        )


def _cheapest(counts: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, set[str]]:
    """Return the rank with the fewest bytes, and the modules stored sparse at that rank."""
    needed = {module: -(-count // sum(shapes[module])) for module, count in counts.items()}
    best = (sum(VALUE * int(np.prod(shape)) for shape in shapes.values()), 1, set[str]())
    for rank in sorted(set(needed.values())):
        fits = {m for m, least in needed.items() if least <= rank and rank * sum(shapes[m]) <= np.prod(shapes[m])}
        size = sum(ENTRY * rank * sum(s) if m in fits else VALUE * int(np.prod(s)) for m, s in shapes.items())
        if fits and size <= best[0]:
            best = (size, rank, fits)
    return best[1], best[2]


def _sparse(base: Tensor, goal: Tensor, indices: Any, rank: int) -> tuple[Tensor, Tensor, float]:
    """Return positions [2, n] and differences [n], and the largest error of base + difference.

    n is rank * (rows + columns). Positions not used by the region are filled with entries that do not change.
    """
    rows, columns = base.shape
    chosen = np.empty(0, dtype=np.int64) if indices is None else indices
    spare = np.setdiff1d(np.arange(rows * columns), chosen)[: rank * (rows + columns) - len(chosen)]
    flat = np.sort(np.concatenate([chosen, spare]))
    here = torch.from_numpy(flat)
    before, after = base.flatten()[here], goal.flatten()[here]
    change = _difference(before, after)
    positions = torch.from_numpy(np.stack(np.unravel_index(flat, (rows, columns))).astype(np.int32))
    return positions, change, float((before + change - after).abs().max())


def _difference(before: Tensor, after: Tensor) -> Tensor:
    """Return the float32 numbers that, added to `before` in float32, are nearest to `after`."""
    change = after - before
    for direction in (torch.inf, -torch.inf):
        other = torch.nextafter(change, torch.full_like(change, direction))
        nearer = (before + other - after).abs() < (before + change - after).abs()
        change = torch.where(nearer, other, change)
    return change


def _goal(base: Mapping[str, Tensor], graft: Graft) -> dict[str, Tensor]:
    """Return every tensor with the graft applied, float32."""
    goal = {**base, **{name: tensor.to(torch.float32) for name, tensor in graft.head.items()}}
    for name, indices in graft.region.indices.items():
        goal[name] = base[name].clone()
        goal[name].view(-1)[torch.from_numpy(indices.copy())] = graft.values[name].to(torch.float32)
    return goal


def _head_module(name: str) -> str:
    top = name.split(".")[0]
    return top if top in TOPS else name.rpartition(".")[0]


def _task_type(graft: Graft) -> str | None:
    """Return peft's name for the kind of model; None for a masked language model, for which it has no name."""
    architecture = (graft.header.get("config") or {}).get("architecture") or ()
    head = "TOKEN_CLS" if is_linear(architecture) else "SEQ_CLS"
    return {"head": head, "causal": "CAUSAL_LM"}.get(str(graft.header.get("readout")))

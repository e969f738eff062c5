"""A graft: a region with its fine-tuned or scaled values, stored as one small safetensors file, and its application.

Values are copied into place, never added as differences, so a graft is exact to the bit.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from skillviz import json_text
from skillviz.core.region import Region
from skillviz.errors import BadInput, CorruptFile, PairMismatch
from skillviz.layout import GRAFT, KEY, refuse_another
from skillviz.regular_file import regular

HEAD, ROWS = "head.", "rows."
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The dtypes of values, heads and rows of added tokens."""
NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Graft:
    """A region, the value of each of its entries in the graft, and the head if the readout has one.

    The values are the fine-tuned ones or, if `header` has a `gain`, base + gain * (fine-tuned - base). `values[name]`
    are in the order of `region.indices[name]`; `head[name]` are whole tensors by their full parameter name. `header` is
    the provenance (base id, fingerprint, task, labels, metrics). If fine-tuning added tokens, `rows` are their rows
    [added, ...] of every tensor of the vocabulary, by parameter name; `header["vocabulary"]` has the base's number of
    `rows`, and the `numbers` of the added ones: unused rows of the base, and rows after its last.
    """

    region: Region
    values: Mapping[str, Tensor]
    head: Mapping[str, Tensor] = field(default_factory=dict)
    header: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        parts = [f"{self.region.size:,} of {self.region.d:,} entries ({100 * self.region.share:.4g}%)"]
        parts += [f"head of {len(self.head)} tensors"] if self.head else []
        added = max((len(rows) for rows in self.rows.values()), default=0)
        parts += [f"{added:,} added vocabulary rows"] if added else []
        return f"Graft({', '.join(parts)})"

    @classmethod
    def of(
        cls,
        region: Region,
        tensors: Mapping[str, Tensor],
        head: Mapping[str, Tensor] | None = None,
        header: Mapping[str, Any] | None = None,
        rows: Mapping[str, Tensor] | None = None,
    ) -> Graft:
        """Return the graft of a region with values taken from full tensors by parameter name."""
        values = {
            name: tensors[name].detach().cpu().reshape(-1)[torch.from_numpy(indices.copy())]
            for name, indices in region.indices.items()
        }
        heads = {name: tensor.detach().cpu().clone() for name, tensor in (head or {}).items()}
        added = {name: tensor.detach().cpu().clone() for name, tensor in (rows or {}).items()}
        return cls(region, values, heads, dict(header or {}), added)

    def save(self, path: Path | str) -> None:
        """Write the graft file: `<name>.indices`, `<name>.values`, `head.<name>`, `rows.<name>`, and a JSON header.

        Raises BadInput for values that `load` would reject.
        """
        if wrong := _wrong_values(self.values, self.head, self.rows):
            raise BadInput(f"this graft cannot be a file: {wrong}; fine-tune the model again.")
        tensors: dict[str, Tensor] = {}
        for name, indices in self.region.indices.items():
            tensors[f"{name}.indices"] = torch.from_numpy(indices.copy())
            tensors[f"{name}.values"] = self.values[name].contiguous()
        tensors |= {HEAD + name: tensor.contiguous() for name, tensor in self.head.items()}
        tensors |= {ROWS + name: tensor.contiguous() for name, tensor in self.rows.items()}
        header = {
            **self.header,
            "format": "skillviz.graft",
            KEY: GRAFT,
            "size": self.region.size,
            "d": self.region.d,
            "shapes": {n: list(s) for n, s in self.region.shapes.items()},
        }
        save_file(tensors, path, {"skillviz": json.dumps(header)})

    @classmethod
    def load(cls, path: Path | str) -> Graft:
        """Load a graft file; raises CorruptFile if it is not a valid one, and OtherVersion."""
        if Path(path).is_dir():
            raise BadInput(f"{path} is a folder; name the graft file itself (the one that export wrote).")
        try:
            with safe_open(regular(path), framework="pt") as file:
                header = json_text.loads((file.metadata() or {}).get("skillviz", "null"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except FileNotFoundError as error:
            raise BadInput(f"there is no graft file at {path}; `export RUN` writes one.") from error
        except (SafetensorError, OSError, ValueError) as error:
            raise CorruptFile(
                f"{path} cannot be read as safetensors ({error}); name a graft file, or export it again."
            ) from error
        return cls._from_tensors(Path(path), header, tensors)

    @classmethod
    def _from_tensors(cls, path: Path, header: Any, tensors: dict[str, Tensor]) -> Graft:
        if not isinstance(header, dict) or header.get("format") != "skillviz.graft":
            raise CorruptFile(
                f"{path} is not a graft file: it has no skillviz.graft header; name one that `export` wrote."
            )
        refuse_another(header, f"the graft {path}", GRAFT)
        head, rows = (
            {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)} for prefix in (HEAD, ROWS)
        )
        names = [
            n.removesuffix(".indices") for n in tensors if n.endswith(".indices") and not n.startswith((HEAD, ROWS))
        ]
        try:
            if rows and _whole(header["vocabulary"]["rows"], "rows of its vocabulary") < 1:
                raise ValueError("it has no rows of the base's vocabulary")
            if rows and (wrong := _wrong_numbers(header["vocabulary"], rows)):
                raise ValueError(wrong)
            shapes = {n: tuple(_whole(k, f"shape of '{n}'") for k in s) for n, s in header["shapes"].items()}
            region = Region({n: tensors[f"{n}.indices"].numpy() for n in names}, shapes)
            values = {n: tensors[f"{n}.values"] for n in names}
            claimed = _whole(header["size"], "size")
            if _whole(header["d"], "d") != region.d:
                raise ValueError(f"its d is {header['d']:,}, and its shapes have {region.d:,} entries")
            if wrong := _wrong_values(values, head, rows):
                raise ValueError(wrong)
        except (BadInput, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CorruptFile(f"{path} is not a valid graft file ({error}); export it again.") from error
        # Values are in the order of the indices, so indices that Region had to sort would misplace them.
        sound = all(
            np.array_equal(region.indices.get(n, NONE), tensors[f"{n}.indices"].numpy())
            and values[n].shape == tensors[f"{n}.indices"].shape
            for n in names
        )
        if not sound or region.size != claimed:
            raise CorruptFile(f"{path} does not hold the {claimed:,} entries that its header claims; export it again.")
        return cls(region, values, head, header, rows)

    def apply(self, model: nn.Module) -> None:
        """Copy the values, the head and the rows of added tokens into the model permanently.

        A vocabulary without these rows gets them. A model that does not fit is left unchanged.
        """
        targets, heads, rows = self._targets(model), self._heads(model), self._with_rows(model)
        with torch.no_grad():
            for name, parameter in rows.items():
                parameter[_numbers(self.header)] = self.rows[name].to(parameter)
            for name, parameter in targets.items():
                parameter.put_(_index(self.region, name, parameter), self.values[name].to(parameter))
            for name, parameter in heads.items():
                parameter.copy_(self.head[name])

    def _targets(self, model: nn.Module) -> dict[str, Tensor]:
        """Return the model's own tensors that the region touches."""
        return {name: _own(model, name, self.region.shapes[name]) for name in self.region.indices}

    def is_extended(self, model: nn.Module) -> bool:
        """True if the model has room for the rows of added tokens.

        Raises PairMismatch if its number of rows is neither the base's nor the fine-tuned model's.
        """
        before, after, sizes = int(self.header["vocabulary"]["rows"]), _rows_after(self.header), set[int]()
        for name, rows in self.rows.items():
            tensor = _parameter(model, name)
            if len(tensor) not in (before, after) or tensor.shape[1:] != rows.shape[1:]:
                raise PairMismatch(
                    f"'{name}' has shape {tuple(tensor.shape)} in this model, and the graft adds {len(rows):,} rows to "
                    f"the {before:,} of its base; use the base that the graft was made for."
                )
            sizes.add(len(tensor))
        return after in sizes

    def _with_rows(self, model: Any) -> dict[str, Tensor]:
        """Return the model's own tensors of the vocabulary, with room for the rows of added tokens."""
        if self.rows and not self._fits_vocabulary(model):
            raise PairMismatch(
                f"the graft adds rows to {', '.join(sorted(self.rows))}, and this model's vocabulary is in other "
                "tensors; use the base that the graft was made for."
            )
        if self.rows and not self.is_extended(model):
            with torch.random.fork_rng(devices=[]):  # new rows are initialized at random, then overwritten
                model.resize_token_embeddings(_rows_after(self.header), mean_resizing=False)
        return {
            name: _own(model, name, (_rows_after(self.header), *rows.shape[1:])) for name, rows in self.rows.items()
        }

    def _fits_vocabulary(self, model: Any) -> bool:
        """True if the rows cover every tensor that grows with the model's vocabulary, tied ones once."""
        own = {id(own) for name, own in model.named_parameters(remove_duplicate=False) if name in self.rows}
        return own == {id(parameter) for parameter in vocabulary_parameters(model).values()}

    def _heads(self, model: nn.Module) -> dict[str, Tensor]:
        """Return the model's own tensors of the head."""
        return {name: _own(model, name, tuple(tensor.shape)) for name, tensor in self.head.items()}


def vocabulary_parameters(model: Any) -> dict[str, nn.Parameter]:
    """Return the parameters with one row for each token, by name; tied ones once."""
    modules = (model.get_input_embeddings(), model.get_output_embeddings())
    vocabulary = {id(parameter) for module in modules if module is not None for parameter in module.parameters()}
    return {name: parameter for name, parameter in model.named_parameters() if id(parameter) in vocabulary}


@contextmanager
def grafted(model: nn.Module, graft: Graft) -> Iterator[nn.Module]:
    """Apply the graft to the model for this context; on exit, also after an error, it is restored bit for bit.

    With `complement(graft, ...)` in place of a graft the same context gives the complement.
    """
    targets, heads = graft._targets(model), graft._heads(model)
    before = {name: parameter.take(_index(graft.region, name, parameter)) for name, parameter in targets.items()}
    heads_before = {name: parameter.clone() for name, parameter in heads.items()}
    rows_before = {name: _parameter(model, name).clone() for name in graft.rows}
    try:
        graft.apply(model)
        yield model
    finally:
        with torch.no_grad():
            for name, parameter in targets.items():
                parameter.put_(_index(graft.region, name, parameter), before[name])
            for name, parameter in heads.items():
                parameter.copy_(heads_before[name])
            for name, rows in rows_before.items():
                if len(_parameter(model, name)) != len(rows):
                    model.resize_token_embeddings(len(rows))  # type: ignore[operator]
                _parameter(model, name).copy_(rows)


def _wrong_values(*parts: Mapping[str, Tensor]) -> str:
    """Return the fault of the first of these tensors that cannot be in a graft file; empty if there is none."""
    for name, tensor in itertools.chain.from_iterable(part.items() for part in parts):
        if tensor.dtype not in DTYPES:
            return f"the values of '{name}' are {tensor.dtype}; allowed: {', '.join(map(str, DTYPES))}"
        if not tensor.isfinite().all():
            return f"the values of '{name}' are not all finite"
    return ""


def _wrong_numbers(vocabulary: Mapping[str, Any], rows: Mapping[str, Tensor]) -> str:
    """Return the fault in the numbers of these rows of added tokens; empty if there is none."""
    numbers = _numbers({"vocabulary": vocabulary})
    behind = [number for number in numbers if number >= vocabulary["rows"]]
    if not numbers or {len(t) if t.dim() else 0 for t in rows.values()} != {len(numbers)}:
        return "its tensors of added rows do not have one row for each number"
    if numbers != sorted(set(numbers)):
        return "the numbers of its added rows are not in order"
    if behind and behind[-1] - vocabulary["rows"] >= len(behind):
        return "its added rows have a gap behind those of its base"
    return ""


def _numbers(header: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the vocabulary rows of added tokens."""
    return [_whole(number, "number of an added row") for number in header["vocabulary"]["numbers"]]


def _rows_after(header: Mapping[str, Any]) -> int:
    """Return the number of rows of a vocabulary with room for added tokens."""
    return max(_whole(header["vocabulary"]["rows"], "rows of its vocabulary"), 1 + max(_numbers(header)))


def _whole(value: Any, what: str) -> int:
    """Return a whole number from a graft's header; raises ValueError for any other value, also for 3.0."""
    if type(value) is not int or value < 0:
        raise ValueError(f"the {what} in its header is no whole number of at least 0")
    return value


def complement(region: Region, base: Mapping[str, Tensor]) -> Graft:
    """Return the graft that resets the region to base when applied to the *fine-tuned* model.

    The result shows the effect of the rest of the movement without the region.
    """
    return Graft.of(region, base)


def _parameter(model: nn.Module, name: str) -> Tensor:
    try:
        return model.get_parameter(name).data
    except AttributeError as error:
        raise PairMismatch(f"this model has no parameter '{name}', which the graft needs; use its own base.") from error


def _own(model: nn.Module, name: str, shape: tuple[int, ...]) -> Tensor:
    tensor = _parameter(model, name)
    if tuple(tensor.shape) != tuple(shape):
        raise PairMismatch(
            f"'{name}' has shape {tuple(tensor.shape)} in this model and {tuple(shape)} in the graft; "
            "use the base that the graft was made for."
        )
    return tensor


def _index(region: Region, name: str, parameter: Tensor) -> Tensor:
    return torch.from_numpy(region.indices[name].copy()).to(parameter.device)

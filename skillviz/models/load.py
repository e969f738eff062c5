"""Load a model of the readout's class from a local folder, and list the tensors that the files lack."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from skillviz.errors import BadModel, first_line, is_out_of_memory
from skillviz.models.checkpoint import ModelInfo, read_info
from skillviz.models.heads import stands_for

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


@dataclass(frozen=True)
class Loaded:
    """A model in evaluation mode; `missing` were made up at load, `mismatched` had another shape in the file."""

    model: Any
    missing: frozenset[str]
    mismatched: frozenset[str]

    @property
    def made_up(self) -> frozenset[str]:
        """All tensors that do not come from the files."""
        return self.missing | self.mismatched


def load_model(
    folder: Path,
    readout: str,
    dtype: torch.dtype = torch.float32,
    changes: Mapping[str, Any] | None = None,
    linear: bool = False,
    state: Mapping[str, torch.Tensor] | None = None,
    hollow: bool = False,
    device_map: str | None = None,
) -> Loaded:
    """Return the folder's model with the readout's head, in `dtype` for files of any dtype; `changes` go to its config.

    `linear` asks for the bare linear head in place of the classification head of the model's own class; `state` are
    tensors to use in place of the folder's files. A `hollow` model has names and shapes, and no weights are read. With
    `device_map` auto its blocks are spread over all GPUs.

    A head that is missing or has another shape is drawn at random; the caller decides if that is allowed (`made_up`).
    Prefixes of wrappers are removed from the names of tensors. Only local safetensors are read, no code in the folder
    is run, and the global random state stays unchanged. Raises BadModel if transformers cannot make the model.
    """
    from transformers import AutoConfig  # takes seconds to import, so only when a model is loaded

    info = None if state is not None else read_info(folder)
    renames = dict.fromkeys(info.renames, "") if info is not None else {}

    def opened_with(renames: Mapping[str, str]) -> tuple[Any, Any]:
        made: tuple[Any, Any] = opened.from_pretrained(
            folder if state is None else None,
            config=config,
            state_dict=None if state is None else dict(state),
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **({"key_mapping": dict(renames)} if renames else {}),
            **({"device_map": {"": "meta"}} if hollow else {"device_map": device_map} if device_map else {}),
        )
        return made

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **(changes or {}))
        with quiet(), torch.random.fork_rng(devices=[]):
            opened = auto_class(readout, linear)
            if state is not None:
                opened = opened._model_mapping[type(config)]  # the automatic classes require a folder
            model, report = opened_with(renames)
            if info is not None and (stand_in := _embedding_of_output(info, model, report["missing_keys"])):
                renames |= stand_in
                model, report = opened_with(renames)
    except Exception as error:  # transformers raises any kind of error for an unusual configuration
        if is_out_of_memory(error):
            raise
        raise BadModel(f"'{folder.name}' cannot be opened for the {readout} readout: {first_line(error)}") from error
    if renames:  # otherwise transformers would undo the renames when saving
        model._weight_conversions = [
            one for one in model._weight_conversions or () if not renames.keys() & set(one.source_patterns)
        ]
    mismatched = frozenset(entry[0] for entry in report["mismatched_keys"])
    return Loaded(model.eval(), frozenset(report["missing_keys"]), mismatched)


def _embedding_of_output(info: ModelInfo, model: Any, missing: Iterable[str]) -> dict[str, str]:
    """Return the renaming (pattern, name) that turns the file's output matrix into the missing token embedding.

    A language-model class ties the two itself; a class with another head does not know the output matrix.
    """
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters() if name in set(missing)}
    for name, shape in shapes.items():
        if (stored := stands_for(info, name, shape)) is not None:
            return {rf"^{re.escape(stored)}$": name}
    return {}


def auto_class(readout: str, linear: bool = False) -> Any:
    """Return the transformers class that opens a model with this readout's head."""
    import transformers  # see load_model

    classes = {
        "head": transformers.AutoModelForTokenClassification if linear
        else transformers.AutoModelForSequenceClassification,
        "prompt": transformers.AutoModelForMaskedLM,
        "causal": transformers.AutoModelForCausalLM,
    }  # fmt: skip
    return classes[readout]


@contextmanager
def quiet() -> Iterator[None]:
    """In the body, transformers shows no load reports and no progress bars; skillviz reports the relevant facts."""
    from transformers.utils import logging as transformers_logging  # see load_model

    level, bar = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bar:
            transformers_logging.enable_progress_bar()

"""A base model made ready for fine-tuning: the right class, what is trained, what is frozen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from skillviz.core.parameters import graftable, readout_names
from skillviz.errors import BadModel, RandomHead
from skillviz.models.checkpoint import ModelInfo, read_info
from skillviz.models.fetch import resolve
from skillviz.models.heads import LINEAR_FAMILIES, supported
from skillviz.models.load import load_model
from skillviz.models.recipe import Recipe
from skillviz.models.tokenizer import load_tokenizer, set_padding
from skillviz.tasks.task import Task


@dataclass
class Trainee:
    """A model of the readout's class, with the parameters that SGD may move."""

    model: Any
    tokenizer: Any
    readout: str
    trained: list[torch.nn.Parameter]
    identity: Mapping[str, Any]
    """The base's id, revision and fingerprint."""
    device: torch.device
    notes: tuple[str, ...]

    def groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Matrices with weight decay, vectors (biases and norm weights) without, as in the authors' code."""
        matrices = [p for p in self.trained if p.ndim > 1]
        vectors = [p for p in self.trained if p.ndim <= 1]
        return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]

    @property
    def random_devices(self) -> list[int]:
        """CUDA devices whose random state training uses."""
        return [self.device.index or 0] if self.device.type == "cuda" else []

    def copy(self) -> list[torch.Tensor]:
        """The trained parameters as they are now."""
        return [p.detach().clone() for p in self.trained]

    def restore(self, values: list[torch.Tensor]) -> None:
        """Put copied values back."""
        with torch.no_grad():
            for parameter, value in zip(self.trained, values, strict=True):
                parameter.copy_(value)


def open_trainee(base: str, task: Task, recipe: Recipe, device: torch.device) -> Trainee:
    """The base loaded as float32 for the recipe's readout.

    A base without a classification head, or with one for another number of labels, gets a fresh one drawn
    from the recipe's seed, and a note says so. A language-model head that is not in the file is refused.
    """
    info = read_info(resolve(base))
    if info.adapter is not None:
        raise BadModel(f"'{base}' is a LoRA adapter; fine-tune the model that it belongs to.")
    if recipe.head == "linear" and info.model_type not in LINEAR_FAMILIES:
        raise BadModel(
            f"a linear head on the first token exists for {', '.join(LINEAR_FAMILIES)}, not for '{info.model_type}'; "
            "leave --head out to train the head of the model's own class."
        )
    if not supported(info.model_type, recipe.readout):
        raise BadModel(f"a {info.model_type} model has no {recipe.readout} readout; use another --readout or base.")
    model, fresh = _load(info, task, recipe)
    tokenizer = load_tokenizer(info.folder)
    set_padding(model, tokenizer)
    trained, frozen = _choose(model, recipe)
    notes = [_fresh_note(fresh, recipe.seed)] if fresh else []
    notes.append(_frozen_note(frozen))
    return Trainee(model.to(device), tokenizer, recipe.readout, trained, info.identity(), device, tuple(notes))


def _load(info: ModelInfo, task: Task, recipe: Recipe) -> tuple[Any, list[str]]:
    """The model, and the names of the classification head's tensors that were drawn at random."""
    labels = dict(enumerate(task.labels))
    names = {"id2label": labels, "label2id": {name: i for i, name in labels.items()}}
    changes = {**names, "problem_type": "single_label_classification"} if recipe.readout == "head" else {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        loaded = load_model(info.folder, recipe.readout, changes=changes, linear=recipe.head == "linear")
    fresh = readout_names(info.model_type, loaded.made_up) if recipe.readout == "head" else []
    lost = sorted(loaded.made_up - set(fresh))
    if lost:
        more = f" and {len(lost) - 1} more tensors" if len(lost) > 1 else ""
        raise RandomHead(
            f"'{info.id}' has no '{lost[0]}'{more}, which the {recipe.readout} readout needs and which would be "
            "random; give a base that has it, or another --readout."
        )
    return loaded.model, sorted(fresh)


def _choose(model: Any, recipe: Recipe) -> tuple[list[torch.nn.Parameter], dict[str, int]]:
    """The trained parameters, and the frozen ones: what they are -> their number of entries.

    Trained are the graftable parameters, a classification head whole, and what the recipe adds. Embeddings,
    language-model head and final norm stay as they are, so that a graft of all d entries is the whole model.
    """
    named = dict(model.named_parameters())
    shapes = {name: tuple(p.shape) for name, p in named.items()}
    table = graftable(model.config.model_type, shapes, model.config.to_dict())
    chosen = {*table.names}
    if recipe.readout == "head":
        chosen |= {*readout_names(model.config.model_type, named)}
    groups = {name: _group(model, name) for name in named if name not in chosen}
    added = {"embeddings"} if recipe.train_embeddings else set()
    added |= {"language-model head"} if recipe.train_head else set()
    chosen |= {name for name, group in groups.items() if group in added}
    for name, parameter in named.items():
        parameter.requires_grad_(name in chosen)
    frozen: Counter[str] = Counter()
    for name, parameter in named.items():
        if name not in chosen:
            frozen[groups[name]] += parameter.numel()
    return [p for name, p in named.items() if name in chosen], frozen


def _group(model: Any, name: str) -> str:
    """What a tensor outside the blocks is: embeddings, final norm or language-model head."""
    if not name.startswith(f"{model.base_model_prefix}."):
        return "language-model head"
    is_norm = "norm" in name.lower() or ".ln_f." in name
    return "final norm" if is_norm and "emb" not in name else "embeddings"


def _fresh_note(fresh: list[str], seed: int) -> str:
    return (
        f"The base has no classification head for this task, so {len(fresh)} tensors of it "
        f"({', '.join(fresh)}) were drawn at random with seed {seed} and then trained."
    )


def _frozen_note(frozen: Mapping[str, int]) -> str:
    if not frozen:
        return "Every parameter was trained."
    parts = ", ".join(f"{what} ({count:,})" for what, count in frozen.items())
    return f"Frozen, at the base's values: {parts} entries."

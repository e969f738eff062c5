"""A base model made ready for fine-tuning: the right class, what is trained, what is frozen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from skillviz.core.parameters import ParameterTable, graftable, readout_names
from skillviz.core.region import Region
from skillviz.errors import BadModel, RandomHead
from skillviz.models.checkpoint import ModelInfo, read_info
from skillviz.models.fetch import resolve
from skillviz.models.finetune.low_rank import Adapter
from skillviz.models.finetune.retrain import Hold, check_region, hold
from skillviz.models.finetune.training_config import Recipe
from skillviz.models.heads import LINEAR_FAMILIES, supported
from skillviz.models.load import load_model
from skillviz.models.tokenizer import load_tokenizer, set_padding
from skillviz.tasks.task import Task


@dataclass
class Trainee:
    """A model of the readout's class, with the parameters that training may move."""

    model: Any
    tokenizer: Any
    readout: str
    trained: list[torch.nn.Parameter]
    identity: Mapping[str, Any]
    """The base's id, revision and fingerprint."""
    device: torch.device
    notes: tuple[str, ...]
    table: ParameterTable
    start: dict[str, torch.Tensor]
    """The graftable parameters at the base's values."""
    trained_body: int
    """Trained entries outside the classification head; those of the low-rank pairs for LoRA."""
    trained_head: int
    head: tuple[str, ...] = ()
    """The names of pooler and classification head."""
    hold: Hold | None = None
    """What keeps all but a region where it is."""
    adapter: Adapter | None = None

    def groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Matrices with weight decay, vectors (biases and norm weights) without, as in the authors' code.

        Matrices of which only a region moves are decayed by `hold`.
        """
        held = self.hold.held if self.hold else set()
        matrices = [p for p in self.trained if p.ndim > 1 and id(p) not in held]
        others = [p for p in self.trained if p.ndim <= 1 or id(p) in held]
        return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]

    @property
    def moving(self) -> list[tuple[torch.nn.Parameter, torch.Tensor]]:
        """The trained graftable parameters, each with its base value."""
        named = ((self.model.get_parameter(name), value) for name, value in self.start.items())
        return [(p, value) for p, value in named if p.requires_grad]

    def finish(self) -> None:
        """Makes it an ordinary model again, in eval mode: merges LoRA, and looks that what was held stayed."""
        self.model.eval()
        if self.adapter is not None:
            self.model, self.adapter = self.adapter.merge(), None
        if self.hold is not None:
            self.hold.check()

    def touched(self) -> int:
        """Graftable entries that differ from the base, as the model stands."""
        return sum(int((self.model.get_parameter(name) != value).sum()) for name, value in self.start.items())

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


def open_trainee(base: str, task: Task, recipe: Recipe, device: torch.device, region: Region | None = None) -> Trainee:
    """The base loaded as float32 for the recipe's readout; with a region, only its entries and the head are trained.

    A base without a classification head, or with one for another number of labels, gets a fresh one drawn
    from the recipe's seed, and a note says so. A language-model head that is not in the file is refused.
    """
    info = _fitting(base, recipe)
    model, fresh = _load(info, task, recipe)
    tokenizer = load_tokenizer(info.folder)
    set_padding(model, tokenizer)
    table = _table(model)
    if region is not None:
        check_region(table, region)
    chosen, frozen = _choose(model, table, recipe, region)
    named = dict(model.named_parameters())
    head = _head(model, recipe)
    adapter = None
    if recipe.name == "lora":
        adapter = Adapter(model, table, recipe.rank or 1, recipe.seed)
        for name in chosen:  # peft has frozen them
            named[name].requires_grad_(True)
    model.to(device)
    held = None if region is None else hold(named, table, region)
    trained = [named[name] for name in named if name in chosen]
    trained += list(adapter.parameters.values()) if adapter else []
    in_head = sum(named[name].numel() for name in head)
    body = sum(p.numel() for p in trained) - in_head if held is None else held.size
    notes = [_fresh_note(fresh, recipe.seed)] if fresh else []
    notes.append(_frozen_note(frozen))
    start = held.fixed if held else {name: named[name].detach().clone() for name in table.names}
    return Trainee(
        model, tokenizer, recipe.readout, trained, info.identity(), device, tuple(notes), table, start,
        body, in_head, tuple(head), held, adapter,
    )  # fmt: skip


def _fitting(base: str, recipe: Recipe) -> ModelInfo:
    """The base's files, where the recipe can be trained on them."""
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
    return info


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


def _table(model: Any) -> ParameterTable:
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    return graftable(model.config.model_type, shapes, model.config.to_dict())


def _head(model: Any, recipe: Recipe) -> list[str]:
    """The names of pooler and classification head; none for the other readouts."""
    names = (name for name, _ in model.named_parameters())
    return readout_names(model.config.model_type, names) if recipe.readout == "head" else []


def _choose(
    model: Any, table: ParameterTable, recipe: Recipe, region: Region | None
) -> tuple[set[str], dict[str, int]]:
    """The names of the trained parameters, and the frozen ones: what they are -> their number of entries.

    Trained are what the recipe names of the graftable parameters, a classification head whole, and what is asked
    for. Embeddings, language-model head and final norm stay as they are, so that a graft of all d entries is the
    whole model.
    """
    named = dict(model.named_parameters())
    chosen = {*_graftable(table, recipe, region), *_head(model, recipe)}
    groups = {name: _group(model, name) for name in named if name not in {*table.names, *chosen}}
    groups |= {name: "block parameters" for name in table.names if name not in chosen}
    added = {"embeddings"} if recipe.train_embeddings else set()
    added |= {"language-model head"} if recipe.train_head else set()
    chosen |= {name for name, group in groups.items() if group in added}
    for name, parameter in named.items():
        parameter.requires_grad_(name in chosen)
    frozen: Counter[str] = Counter()
    for name, parameter in named.items():
        if name not in chosen:
            frozen[groups[name]] += parameter.numel()
    return chosen, frozen


def _graftable(table: ParameterTable, recipe: Recipe, region: Region | None) -> list[str]:
    """The names of the graftable parameters that are trained themselves."""
    if recipe.name == "lora":
        return []
    if region is not None:
        return list(region.indices)
    if recipe.name != "bitfit":
        return list(table.names)
    biases = [parameter.name for parameter in table.parameters if parameter.is_bias]
    if not biases:
        raise BadModel(f"a {table.model_type} model has no biases in its blocks, so bitfit has nothing to train.")
    return biases


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

"""A base model prepared for fine-tuning: its class, its trained, frozen and shared parameters."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from skillviz.core.architectures import CROSS_QUERY, CROSS_VALUE, QUERY, VALUE
from skillviz.core.formats import counted
from skillviz.core.parameters import ParameterTable, graftable, readout_names
from skillviz.core.region import Region
from skillviz.errors import BadInput, BadModel, RandomHead, refuse
from skillviz.models import bottleneck
from skillviz.models.adapters import placement_of
from skillviz.models.checkpoint import ModelInfo, read_info
from skillviz.models.fetch import resolve
from skillviz.models.finetune.recipes import recipe_row
from skillviz.models.finetune.region_lock import RegionLock, check_region
from skillviz.models.finetune.training_config import TrainingSettings
from skillviz.models.heads import LINEAR_FAMILIES, own_head_of_other_kind, supported
from skillviz.models.load import load_model
from skillviz.models.tokenizer import fit_together, load_tokenizer
from skillviz.tasks.task import Task

LORA_ALPHA = 8
"""The changes are multiplied by alpha / rank (Hu et al. 2022, RoBERTa-base)."""

# The adapted matrices, value before query, because value alone did better (Hu et al. 2022, Table 5). A fused tensor is
# adapted as a whole, so that in GPT-2 the key changes too.
ADAPTED = ((VALUE, CROSS_VALUE), (QUERY, CROSS_QUERY))


def adapted(model: nn.Module, table: ParameterTable, matrices: int | None = None) -> list[str]:
    """Return the names of the modules that get a low-rank pair: all query and value matrices, or the first `matrices`.

    They are taken from the last layer backward, in each layer value before query. Raises BadModel if none of the
    model's linear layers is known as query or value, BadInput if there are fewer than `matrices`.
    """
    linear = {name for name, module in model.named_modules() if isinstance(module, (nn.Linear, Conv1D))}
    found = [
        (-(parameter.layer or 0), order, module)
        for parameter in table.parameters
        for module, _, last in [parameter.name.rpartition(".")]
        if last == "weight" and module in linear
        for order in [next((i for i, kinds in enumerate(ADAPTED) if {*kinds} & {*parameter.kinds}), None)]
        if order is not None
    ]
    if not found:
        raise BadModel(
            f"no linear layer of this '{table.model_type}' model is known as query or value, so the recipe lora has "
            "nothing to train; choose another recipe. docs/architectures.md lists the modules of each family."
        )
    if matrices is not None and matrices > len(found):
        raise BadInput(
            f"matrices is {matrices:,}, but the model has {len(found):,} query and value matrices; choose at most "
            "that, or a larger rank."
        )
    return [module for *_, module in sorted(found, key=lambda place: place[:2])[:matrices]]


class Adapter:
    """The low-rank pairs in a model: `parameters` are trained; `merge` adds them to the matrices and removes them.

    With `matrices`, only that many query and value matrices get a pair, chosen by `adapted`.
    """

    def __init__(self, model: Any, table: ParameterTable, rank: int, seed: int, matrices: int | None = None) -> None:
        # takes seconds to import, and only this recipe needs it
        from peft import LoraConfig  # imports torch
        from peft.tuners.lora import LoraModel

        targets = adapted(model, table, matrices)
        settings = LoraConfig(
            r=rank,
            lora_alpha=LORA_ALPHA,
            lora_dropout=0.0,
            target_modules=targets,
            fan_in_fan_out=isinstance(model.get_submodule(targets[0]), Conv1D),
        )
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            # peft 0.21 reads a property that transformers 5 has renamed
            warnings.simplefilter("ignore", FutureWarning)
            torch.manual_seed(seed)
            self.tuner = LoraModel(model, {"default": settings}, "default")
        self.parameters = {n: p for n, p in model.named_parameters() if ".lora_" in n}

    @property
    def size(self) -> int:
        """The number of entries of the low-rank pairs."""
        return sum(p.numel() for p in self.parameters.values())

    def merge(self) -> Any:
        """Return the model with ordinary matrices, to which the changes are added."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return self.tuner.merge_and_unload()


@dataclass
class TrainableModel:
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
    """Trained entries outside the classification head; for LoRA those of the low-rank pairs, else those of adapters."""
    trained_head: int
    head: tuple[str, ...] = ()
    """The names of pooler and classification head."""
    lock: RegionLock | None = None
    """Keeps all entries outside a region unchanged."""
    adapter: Adapter | None = None

    def groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return matrices with weight decay and vectors (biases and norm weights) without, as in the authors' code.

        Matrices of which only a region moves are decayed by `lock`.
        """
        partly = self.lock.partly_trained if self.lock else set()
        matrices = [p for p in self.trained if p.ndim > 1 and id(p) not in partly]
        others = [p for p in self.trained if p.ndim <= 1 or id(p) in partly]
        return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]

    @property
    def moving(self) -> list[tuple[torch.nn.Parameter, torch.Tensor]]:
        """The trained graftable parameters, each with its base value."""
        named = ((self.model.get_parameter(name), value) for name, value in self.start.items())
        return [(p, value) for p, value in named if p.requires_grad]

    def finish(self) -> None:
        """Convert it to an ordinary model in eval mode: merge LoRA, and check that locked entries did not move."""
        self.model.eval()
        if self.adapter is not None:
            self.model, self.adapter = self.adapter.merge(), None
        if self.lock is not None:
            self.lock.check()

    def touched(self) -> int:
        """Return the number of graftable entries that now differ from the base."""
        return sum(int((self.model.get_parameter(name) != value).sum()) for name, value in self.start.items())

    @property
    def random_devices(self) -> list[int]:
        """The CUDA devices whose random state training uses."""
        return [self.device.index or 0] if self.device.type == "cuda" else []

    def copy(self) -> list[torch.Tensor]:
        """Return a copy of the current trained parameters."""
        return [p.detach().clone() for p in self.trained]

    def restore(self, values: list[torch.Tensor]) -> None:
        """Restore copied values."""
        with torch.no_grad():
            for parameter, value in zip(self.trained, values, strict=True):
                parameter.copy_(value)


def open_trainable(
    base: str, task: Task, settings: TrainingSettings, device: torch.device, region: Region | None = None
) -> TrainableModel:
    """Return the base, loaded as float32 for the settings' readout.

    With a region, only its entries and the head are trained. A base without a classification head, or with one for
    another number of labels, gets a new one drawn with the settings' seed, and a note says so. A missing language-model
    head raises an error.
    """
    task.refuse_readout(settings.readout)
    info = _fitting(base, settings, len(task.labels))
    model, fresh = _load(info, task, settings)
    tokenizer = load_tokenizer(info.folder)
    fit_together(model, tokenizer)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    table = graftable(model.config.model_type, shapes, model.config.to_dict())
    if region is not None:
        check_region(table, region)
    head = readout_names(model.config.model_type, shapes) if settings.readout == "head" else []
    chosen, frozen = _choose(model, table, head, settings, region)
    named = dict(model.named_parameters())
    adapter, added = None, list[torch.nn.Parameter]()
    if placement := placement_of(settings.name):
        added = list(bottleneck.insert(model, table, placement, settings.width or 1, settings.seed).parameters())
    if recipe_row(settings.name).scope == "low-rank":
        adapter = Adapter(model, table, settings.rank or 1, settings.seed, settings.matrices)
        for name in chosen:  # peft has frozen them
            named[name].requires_grad_(True)
        added = list(adapter.parameters.values())
    model.to(device)
    lock = None if region is None else RegionLock(named, table, region)
    trained = [named[name] for name in named if name in chosen]
    trained += added
    in_head = sum(named[name].numel() for name in head)
    body = sum(p.numel() for p in trained) - in_head if lock is None else lock.size
    notes = []
    if fresh:
        notes.append(
            f"The base has no classification head for this task, so {len(fresh)} tensors of it "
            f"({', '.join(fresh)}) were drawn at random with seed {settings.seed} and then trained."
        )
    parts = ", ".join(f"{what} ({count:,})" for what, count in frozen.items())
    notes.append(f"Frozen, at the base's values: {parts} entries." if frozen else "Every parameter was trained.")
    start = lock.start if lock else {name: named[name].detach().clone() for name in table.names}
    return TrainableModel(
        model, tokenizer, settings.readout, trained, info.identity(), device, tuple(notes), table, start,
        body, in_head, tuple(head), lock, adapter,
    )  # fmt: skip


def open_shared(
    base: str, tasks: Sequence[Task], settings: TrainingSettings, device: torch.device
) -> list[TrainableModel]:
    """Return a model for each task, all with the first one's body, and each with its own head, if there is one."""
    first, *rest = (open_trainable(base, task, settings, device) for task in tasks)
    return [first, *(_with_body_of(first, other) for other in rest)]


def trained_together(models: Sequence[TrainableModel]) -> TrainableModel:
    """Return the first model with the parameters of all models to be trained: the shared body and every head."""
    first, *rest = models
    known = {id(p) for p in first.trained}
    heads = [p for other in rest for p in other.trained if id(p) not in known]
    return replace(first, trained=[*first.trained, *heads])


def _with_body_of(first: TrainableModel, other: TrainableModel) -> TrainableModel:
    """Return the other model with the first's parameters, except for its head; its own ones are freed."""
    shared = dict(first.model.named_parameters())
    for name, old in list(other.model.named_parameters()):
        if name in other.head:
            continue
        for module in other.model.modules():  # tied weights occur in several modules
            for leaf, parameter in list(module._parameters.items()):
                if parameter is old:
                    module._parameters[leaf] = shared[name]
    trained = [p for p in other.model.parameters() if p.requires_grad]
    return replace(other, trained=trained, start=first.start)


def _fitting(base: str, settings: TrainingSettings, labels: int) -> ModelInfo:
    """Return the base's files if they can be trained with these settings and this many labels."""
    info = read_info(resolve(base))
    refuse(
        (info.adapter is not None, f"'{base}' is an adapter; fine-tune the model that it belongs to."),
        (
            settings.head == "linear" and info.model_type not in LINEAR_FAMILIES,
            f"a linear head on the first token exists for {', '.join(LINEAR_FAMILIES)}, not for '{info.model_type}'; "
            "leave --head out to train the head of the model's own class.",
        ),
        (
            not supported(info.model_type, settings.readout),
            f"a {info.model_type} model has no {settings.readout} readout; use another --readout or base.",
        ),
        error=BadModel,
    )
    if settings.readout == "head" and settings.head != "linear" and (kind := own_head_of_other_kind(info, labels)):
        raise BadModel(kind)
    return info


def _load(info: ModelInfo, task: Task, settings: TrainingSettings) -> tuple[Any, list[str]]:
    """Return the model, and the names of the classification head's tensors that were drawn at random."""
    labels = dict(enumerate(task.labels))
    names = {"id2label": labels, "label2id": {name: i for i, name in labels.items()}}
    changes = {**names, "problem_type": "single_label_classification"} if settings.readout == "head" else {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        loaded = load_model(info.folder, settings.readout, changes=changes, linear=settings.head == "linear")
    fresh = readout_names(info.model_type, loaded.made_up) if settings.readout == "head" else []
    lost = sorted(loaded.made_up - set(fresh))
    if lost:
        more = f" and {counted(len(lost) - 1, 'more tensor')}" if len(lost) > 1 else ""
        raise RandomHead(
            f"'{info.id}' has no '{lost[0]}'{more}, which the {settings.readout} readout needs and which would be "
            "random; give a base that has it, or another --readout."
        )
    return loaded.model, sorted(fresh)


def _choose(
    model: Any, table: ParameterTable, head: Sequence[str], settings: TrainingSettings, region: Region | None
) -> tuple[set[str], dict[str, int]]:
    """Return the names of the trained parameters, and the frozen groups with their number of entries.

    Trained are the graftable parameters of the recipe, a whole classification head, and further groups in the settings.
    Embeddings, language-model head and final norm are frozen by default, so that a graft of all d entries is the whole
    model.
    """
    named = dict(model.named_parameters())
    chosen = {*_graftable(table, settings, region), *head}
    groups = {name: _group(model, name) for name in named if name not in {*table.names, *chosen}}
    groups |= {name: "block parameters" for name in table.names if name not in chosen}
    added = {"embeddings"} if settings.train_embeddings else set()
    added |= {"language-model head"} if settings.train_head else set()
    chosen |= {name for name, group in groups.items() if group in added}
    for name, parameter in named.items():
        parameter.requires_grad_(name in chosen)
    frozen: Counter[str] = Counter()
    for name, parameter in named.items():
        if name not in chosen:
            frozen[groups[name]] += parameter.numel()
    return chosen, frozen


def _graftable(table: ParameterTable, settings: TrainingSettings, region: Region | None) -> list[str]:
    """Return the names of the graftable parameters that are trained directly."""
    row = recipe_row(settings.name)
    if row.adds_parameters:
        return []
    if region is not None:
        return list(region.indices)
    if row.scope != "biases":
        return list(table.names)
    biases = [parameter.name for parameter in table.parameters if parameter.is_bias]
    if not biases:
        raise BadModel(
            f"a {table.model_type} model has no biases in its blocks, so there is nothing to train; choose another "
            "recipe."
        )
    return biases


def _group(model: Any, name: str) -> str:
    """Return the group of a tensor outside the blocks: embeddings, final norm or language-model head."""
    if not name.startswith(f"{model.base_model_prefix}."):
        return "language-model head"
    is_norm = "norm" in name.lower() or ".ln_f." in name
    return "final norm" if is_norm and "emb" not in name else "embeddings"

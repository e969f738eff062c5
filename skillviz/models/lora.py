"""A LoRA checkpoint as fine-tuned model: what its headers say, and its merging into the base."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from skillviz.errors import BadModel, PairMismatch, RandomHead, SkillvizError
from skillviz.models.checkpoint import ModelInfo, read_info
from skillviz.models.fetch import hub_name, is_local, may_be_hub_id, resolve
from skillviz.models.heads import HEADS, LINEAR_HEAD, choose_readout, is_head, missing_head, own_shapes

if TYPE_CHECKING:
    import torch

PREFIX = "base_model.model."
READOUT_OF = {"SEQ_CLS": "head", "TOKEN_CLS": "head", "CAUSAL_LM": "causal"}


def adapter_readout(adapter: ModelInfo, base: ModelInfo, readout: str | None) -> str:
    """The readout that is given, else that of the adapter's task type, of its saved head, or of the base."""
    kind = READOUT_OF.get(str((adapter.adapter or {}).get("task_type")))
    heads = HEADS.get(base.model_type)
    if readout is None and kind is None and heads is not None and heads.labels in saved(adapter, base):
        kind = "head"
    return choose_readout(base, readout or kind)


def is_linear_adapter(adapter: ModelInfo) -> bool:
    """Whether the adapter was trained with the bare linear head: peft's task type for token classification."""
    return (adapter.adapter or {}).get("task_type") == "TOKEN_CLS"


def label_tensor(adapter: ModelInfo, base: ModelInfo) -> str | None:
    """The name of the head's tensor that has one row a label; None for a family without a row in the table."""
    heads = HEADS.get(base.model_type)
    return LINEAR_HEAD[0] if is_linear_adapter(adapter) else heads.labels if heads else None


def saved(adapter: ModelInfo, base: ModelInfo) -> dict[str, tuple[int, ...]]:
    """The whole tensors that the adapter brings (its head), named without the body's prefix."""
    heads = HEADS.get(base.model_type)
    prefix = f"{heads.prefix}." if heads else ""
    whole = {name: shape for name, shape in adapter.shapes.items() if ".lora_" not in name}
    return {_plain(name).removeprefix(prefix): shape for name, shape in whole.items()}


def check_adapter(adapter: ModelInfo, base: ModelInfo, readout: str) -> Iterator[BadModel]:
    """What keeps the adapter from being merged into this base, from the headers alone."""
    settings = adapter.adapter or {}
    if settings.get("peft_type") != "LORA":
        yield BadModel(
            f"the adapter '{adapter.id}' is of type {settings.get('peft_type')}; only LORA can be merged into its base "
            "here. If peft can merge it (merge_and_unload), give the folder of the merged model."
        )
        return
    if is_its_base(adapter, base) is False:
        yield PairMismatch(
            f"the adapter '{adapter.id}' was trained on '{_last_part(_named_base(adapter))}', not on '{base.id}'; give "
            "that base."
        )
    wrong = next(_unfitting(adapter, base), None)
    if wrong:
        yield PairMismatch(f"the adapter '{adapter.id}' does not fit the base '{base.id}': {wrong}.")
    needed = missing_head(base, readout, is_linear_adapter(adapter))
    lost = [name for name in needed if name not in saved(adapter, base)]
    if lost and readout == "head":
        yield RandomHead(
            f"neither the adapter '{adapter.id}' nor its base has '{lost[0]}', so the classification head would be "
            "random; save the adapter with its head (peft: modules_to_save)."
        )


def load_merged(base: ModelInfo, adapter: ModelInfo, readout: str, dtype: torch.dtype) -> Any:
    """The base with the adapter merged into its weights (in float32) and the adapter's head, as `dtype`."""
    # torch, which reading headers does not need
    from peft import PeftModel

    from skillviz.models.load import first_line, quiet  # imports torch

    model = load_for_adapter(base, adapter, readout)
    try:
        with quiet(), warnings.catch_warnings():
            # peft 0.21 reads a property that transformers 5 has renamed
            warnings.simplefilter("ignore", FutureWarning)
            joined = PeftModel.from_pretrained(model, str(adapter.folder), torch_device="cpu")
            merged = joined.merge_and_unload()
    except (ValueError, RuntimeError, KeyError, UserWarning) as error:
        raise PairMismatch(
            f"'{adapter.id}' cannot be merged into '{base.id}': {first_line(error)}; name the base that it "
            "was trained on."
        ) from error
    return merged.to(dtype).eval()


def load_for_adapter(base: ModelInfo, adapter: ModelInfo, readout: str, hollow: bool = False) -> Any:
    """The base in float32 with a head as large as the adapter's; `hollow` as of `load_model`."""
    import torch  # heavy: not before it is needed

    from skillviz.models.load import load_model  # imports torch

    head = saved(adapter, base).get(label_tensor(adapter, base) or "")
    changes = {"num_labels": head[0]} if head and readout == "head" else {}
    linear = readout == "head" and is_linear_adapter(adapter)
    loaded = load_model(base.folder, readout, torch.float32, changes, linear, hollow=hollow)
    brought = {_plain(name) for name in adapter.shapes}
    if lost := sorted(loaded.made_up - brought):
        raise RandomHead(
            f"neither the adapter '{adapter.id}' nor its base has '{lost[0]}', so it would be random; save the "
            "adapter again with it in `modules_to_save`."
        )
    return loaded.model


def _plain(name: str) -> str:
    """The model's own name of a saved tensor."""
    return name.removeprefix(PREFIX).replace("modules_to_save.", "").replace("default.", "")


def base_note(adapter: ModelInfo, base: ModelInfo) -> Iterator[str]:
    """A sentence where the adapter names a base by another name, and nothing here tells whether it is the same."""
    named = _named_base(adapter)
    if named and _last_part(named) != _last_part(base.id) and is_its_base(adapter, base) is None:
        yield (
            f"The adapter '{adapter.id}' was trained on '{_last_part(named)}', which could not be compared "
            f"with '{base.id}'. If they differ, give that base."
        )


def is_its_base(adapter: ModelInfo, base: ModelInfo) -> bool | None:
    """Whether the adapter was trained on this base; None where it names none, or one that cannot be compared.

    A base that is here, as a folder or in the hub's local cache, is compared by its weights, whatever its name.
    """
    named = _named_base(adapter)
    if not named:
        return None
    is_hub_id = may_be_hub_id(named.partition("@")[0])
    if os.path.isdir(named) or (is_hub_id and is_local(named)):  # False too for what can name no folder
        try:
            return _same_weights(read_info(resolve(named)), base)
        except SkillvizError:  # what is there is no model that can be read
            return None
    hub_id, revision = hub_name(base.folder)
    if not is_hub_id or revision is None:
        return None
    if named == hub_id:
        return True
    return None if _last_part(named) == _last_part(hub_id) else False  # a copy of another organisation


def _same_weights(one: ModelInfo, other: ModelInfo) -> bool | None:
    """Whether two models have the same values, also where one is stored as float16; None where that cannot be told."""
    if one.folder.resolve() == other.folder.resolve() or one.fingerprint == other.fingerprint:
        return True
    if "quantization_config" in one.config:  # as in QLoRA: what it is converted to has other shapes and values
        return None
    if one.dtypes == other.dtypes or own_shapes(one) != own_shapes(other):
        return False
    if not (one.can_be_rounded and other.can_be_rounded):
        return None
    return one.read_as_float16().fingerprint == other.read_as_float16().fingerprint


def _named_base(adapter: ModelInfo) -> str:
    return str((adapter.adapter or {}).get("base_model_name_or_path") or "")


def _last_part(name: str) -> str:
    return PurePath(name.partition("@")[0]).name


def _unfitting(adapter: ModelInfo, base: ModelInfo) -> Iterator[str]:
    """Sentences on low-rank pairs whose matrix the base lacks or has in another shape, and on whole tensors likewise.

    Heads may have another number of labels.
    """
    heads = HEADS.get(base.model_type)
    prefix = f"{heads.prefix}." if heads else ""
    shapes = own_shapes(base)
    for name, down in adapter.shapes.items():
        if not name.endswith(".lora_A.weight"):
            continue
        up = adapter.shapes.get(name.replace(".lora_A.", ".lora_B."))
        target = _plain(name).removeprefix(prefix).replace(".lora_A.", ".").replace(".base_layer.", ".")
        if up is None or target not in shapes:
            yield f"the base has no '{target}'" if up else f"'{name}' has no lora_B beside it"
        elif set(shapes[target]) != {up[0], down[-1]}:
            yield f"'{target}' is {shapes[target]} in the base and {(up[0], down[-1])} in the adapter"
    for name, shape in saved(adapter, base).items():
        if name in shapes and shapes[name] != shape and not (heads and is_head(base.model_type, name)):
            yield (
                f"'{name}' is {shapes[name]} in the base and {shape} in the adapter. If tokens were added, merge the "
                "adapter with peft (merge_and_unload), and give the folder of the merged model with its tokenizer"
            )

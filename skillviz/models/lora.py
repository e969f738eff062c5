"""A LoRA checkpoint as the fine-tuned model: checks of its headers, and its merging into the base."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skillviz.core.architectures import FAMILIES, family_of
from skillviz.core.comparison import Comparison
from skillviz.core.formats import listed
from skillviz.errors import BadModel, OtherVersion, PairMismatch, RandomHead, SkillvizError, first_line
from skillviz.models import adapters
from skillviz.models.checkpoint import ModelInfo, read_info
from skillviz.models.fetch import hub_name, is_local, may_be_hub_id, resolve
from skillviz.models.heads import LINEAR_HEAD, choose_readout, is_head, missing_head, own_shapes, prefix_of
from skillviz.tasks.refusals import NAME, refused

if TYPE_CHECKING:
    import torch

PREFIX = "base_model.model."
READOUT_OF = {"SEQ_CLS": "head", "TOKEN_CLS": "head", "CAUSAL_LM": "causal", "MASKED_LM": "prompt"}
UNSAVED = re.compile(r"(?<=\.lora_[AB]\.)(?!(?:weight|bias)$)[^.]+\.")
"""The adapter's own name inside a tensor's name, which peft uses in memory but not in files."""
WAY_OUT = "Merge it into its base with peft (merge_and_unload), and give the folder of the merged model."
FOREIGN = (
    "alora_invocation_tokens", "arrow_config", "corda_config", "eva_config", "kasa_config", "layer_replication",
    "loftq_config", "lora_ga_config", "megatron_config", "monteclora_config", "runtime_config", "target_parameters",
    "use_bdlora", "use_qalora", "velora_config",
)  # fmt: skip
"""Settings of peft's other kinds of LoRA. Some of them import a module or read a file."""
UNSET: tuple[Any, ...] = (None, {}, [], False)
UNREAD = (
    "auto_mapping", "inference_mode", "megatron_core", "peft_type", "peft_version", "qalora_group_size", "revision",
)  # fmt: skip
"""Settings that do not change the merged model."""
SEARCHES = {
    "target_modules": ("fullmatch", "{}"),
    "exclude_modules": ("fullmatch", "{}"),
    "layers_pattern": ("match", r"(?:^|.*?\.){}\.(?P<idx>\d+)\."),
    "rank_pattern": ("match", r"(.*\.)?({})$"),
    "alpha_pattern": ("match", r"(.*\.)?({})$"),
}
"""peft's search of modules for a setting's patterns: the function of `re`, and the expression around a pattern."""
SECONDS = 5
MEMORY = 2**28  # bytes; nested repetitions of nothing take gigabytes within a second
TRIAL = f"""
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_DATA, ({MEMORY}, {MEMORY}))
searches, names = json.load(sys.stdin)
for function, expression in searches:
    print(end=".", flush=True)
    search = getattr(re.compile(expression), function)
    for name in names:
        search(name)
"""
"""The program that makes the searches of standard input and prints a dot before each."""
MOST_UNSAVED = 1_024
"""The largest rank accepted if no saved matrix has it, because peft keeps an `r` that `rank_pattern` overrides."""

Name = Annotated[str, Field(pattern=NAME, max_length=500)]
Rank = Annotated[int, Field(ge=1, le=100_000)]
Alpha = Annotated[float, Field(allow_inf_nan=False)]
Start = Literal[True, False, None, "gaussian", "olora", "orthogonal", "mica", "pissa"]
PissaStart = Annotated[str, Field(pattern=r"^pissa_niter_\d{1,2}$")]
Index = Annotated[int, Field(ge=0)]


class _Settings(BaseModel):
    """The settings of adapter_config.json that peft is given, and no others; each may be absent."""

    model_config = ConfigDict(strict=True)

    r: Rank = 8
    lora_alpha: Alpha = 8
    lora_dropout: Annotated[float, Field(ge=0, le=1)] = 0
    bias: Literal["none", "all", "lora_only"] = "none"
    target_modules: Annotated[list[Name], Field(max_length=2_000)] | str | None = None
    exclude_modules: Annotated[list[Name], Field(max_length=2_000)] | str | None = None
    layers_pattern: Annotated[list[str], Field(max_length=10)] | str | None = None
    layers_to_transform: Annotated[list[Index], Field(max_length=2_000)] | Index | None = None
    modules_to_save: Annotated[list[Name], Field(max_length=2_000)] | None = None
    rank_pattern: Annotated[dict[str, Rank], Field(max_length=1_000)] = {}
    alpha_pattern: Annotated[dict[str, Alpha], Field(max_length=1_000)] = {}
    trainable_token_indices: list[Index] | dict[Name, list[Index]] | None = None
    init_lora_weights: Start | PissaStart = True
    fan_in_fan_out: bool = False
    use_rslora: bool = False
    use_dora: bool = False
    lora_bias: bool = False
    ensure_weight_tying: bool = False
    task_type: str | None = None
    base_model_name_or_path: str | None = None


def adapter_readout(adapter: ModelInfo, base: ModelInfo, readout: str | None) -> str:
    """Return the given readout, or the readout of the adapter's task type, of its saved head, or of the base."""
    kind = READOUT_OF.get(str((adapter.adapter or {}).get("task_type")))
    if readout is None and kind is None and family_of(base.model_type).labels in saved(adapter, base):
        kind = "head"
    return choose_readout(base, readout or kind)


def is_linear_adapter(adapter: ModelInfo) -> bool:
    """True if the adapter was trained with the bare linear head: peft's task type for token classification."""
    return (adapter.adapter or {}).get("task_type") == "TOKEN_CLS"


def label_tensor(adapter: ModelInfo, base: ModelInfo) -> str | None:
    """Return the name of the head's tensor with one row per label; None for a family that is not in the table."""
    return LINEAR_HEAD[0] if is_linear_adapter(adapter) else family_of(base.model_type).labels or None


def saved(adapter: ModelInfo, base: ModelInfo) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the adapter's whole tensors (its head), named without the body's prefix."""
    prefix = family_of(base.model_type).prefix
    added = {name for name in adapter.shapes if ".lora_" in name or name.startswith(adapters.PREFIX)}
    whole = {name: shape for name, shape in adapter.shapes.items() if name not in added}
    return {_plain(name).removeprefix(prefix): shape for name, shape in whole.items()}


def check_adapter(adapter: ModelInfo, base: ModelInfo, readout: str) -> Iterator[SkillvizError]:
    """Yield the reasons against merging the adapter into this base, or opening our adapters beside it, from headers."""
    is_ours = adapters.stored(adapter) is not None
    try:
        if is_ours:
            yield from adapters.check(adapter, base)
        else:
            _check_settings(adapter, base)
            _check_names(adapter)
    except (BadModel, OtherVersion) as error:
        yield error
        return
    if not is_ours and is_its_base(adapter, base) is Comparison.DIFFERENT:
        yield PairMismatch(
            f"the adapter '{adapter.id}' was trained on '{_last_part(_named_base(adapter))}', not on '{base.id}'; give "
            "that base."
        )
    if wrong := next(_unfitting(adapter, base), None):
        yield PairMismatch(f"the adapter '{adapter.id}' does not fit the base '{base.id}': {wrong}.")
    brought = saved(adapter, base)
    lost = [name for name in missing_head(base, readout, is_linear_adapter(adapter)) if name not in brought]
    if lost and readout == "head":
        yield RandomHead(
            f"neither the adapter '{adapter.id}' nor its base has '{lost[0]}', so the classification head would be "
            "random; save the adapter with its head (peft: modules_to_save)."
        )


def _read_settings(adapter: ModelInfo, modules: Collection[str]) -> _Settings:
    """Return the adapter's settings for peft, with patterns that are quick to match with the names of these modules.

    Raises BadModel for a setting that peft cannot use or that is not supported.
    """
    given = adapter.adapter or {}
    if given.get("peft_type") != "LORA":
        raise BadModel(
            f"the adapter '{adapter.id}' is of type {given.get('peft_type')}; only LORA can be merged into its base "
            "here. If peft can merge it (merge_and_unload), give the folder of the merged model."
        )
    if foreign := next((name for name in FOREIGN if given.get(name) not in UNSET), None):
        raise BadModel(f"the adapter '{adapter.id}' sets '{foreign}', which is not supported. {WAY_OUT}")
    try:
        settings = _Settings.model_validate(given)
        field, reason = _refused_pattern(settings, modules) or ("", "")
    except ValidationError as error:
        field, reason = refused(error)
    if reason:
        field = field.partition(".")[0]
        raise BadModel(f"'{field}' of the adapter '{adapter.id}' cannot be used: {reason}. {WAY_OUT}")
    return settings


def _refused_pattern(settings: _Settings, modules: Collection[str]) -> tuple[str, str] | None:
    """Return the first setting with a pattern that cannot be matched in time with these names, and the reason.

    Matching can take exponential time and cannot be interrupted in this process, so another one tries it first.
    """
    searches = [
        (field, pattern, function, expression.replace("{}", pattern))
        for field, (function, expression) in SEARCHES.items()
        for value in [getattr(settings, field) or ()]
        for pattern in ([value] if isinstance(value, str) else value)
        if not re.fullmatch(NAME, pattern)
    ]
    if not searches:
        return None
    try:
        child = subprocess.run(
            [sys.executable, "-I", "-c", TRIAL], input=json.dumps([[one[2:] for one in searches], list(modules)]),
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        if child.returncode == 0:
            return None
        tried = len(child.stdout)
        reason = child.stderr.strip().rpartition("\n")[2][:100] or f"status {child.returncode}"
    except subprocess.TimeoutExpired as error:
        tried, reason = len(error.stdout or ""), f"it takes more than {SECONDS} seconds"
    field, pattern, *_ = searches[max(tried, 1) - 1]
    return field, (
        f"'{pattern[:60]}' cannot be matched with the names of the base's modules ({reason}); allowed are names, and "
        f"regular expressions that Python matches within {SECONDS} seconds"
    )


def _check_settings(adapter: ModelInfo, base: ModelInfo) -> None:
    """Raise BadModel if peft cannot use the adapter's settings with this base."""
    settings = _read_settings(adapter, {name.rpartition(".")[0] for name in base.shapes})
    # peft makes a matrix at its configured rank before comparing it with the saved one
    saved_ranks = {shape[0] for name, shape in adapter.shapes.items() if name.endswith(".lora_A.weight") and shape}
    rank = max([settings.r, *settings.rank_pattern.values()])
    if saved_ranks and rank > max(MOST_UNSAVED, *saved_ranks):
        raise BadModel(
            f"the adapter '{adapter.id}' sets the rank {rank:,}, and its matrices have at most "
            f"{max(saved_ranks):,}; save it again with `save_pretrained`."
        )
    trained = settings.trainable_token_indices or []
    row = max(chain([-1], *(trained.values() if isinstance(trained, dict) else [trained])))
    if base.vocab_size is not None and row >= base.vocab_size:
        raise BadModel(
            f"'trainable_token_indices' of the adapter '{adapter.id}' names the token {row}, and '{base.id}' has "
            f"{base.vocab_size:,}; give the base that it was trained on."
        )


def _check_names(adapter: ModelInfo) -> None:
    """Raise BadModel if peft would ignore some of the adapter's tensors, which it does without an error."""
    odd = next((name for name in adapter.shapes if not name.startswith(PREFIX) or UNSAVED.search(name)), None)
    if odd is None:
        return
    outer, begins, _ = odd.partition(PREFIX)
    what = (
        f"does not begin with '{PREFIX}'" if not begins
        else f"has '{outer}' in front of '{PREFIX}'" if outer
        else f"has the adapter's name inside ('{UNSAVED.search(odd)[0]}')"  # type: ignore[index]
    )  # fmt: skip
    raise BadModel(
        f"the adapter '{adapter.id}' was not saved by peft: the name '{odd}' {what}, so peft would leave it out. Load "
        "it in the training program and call save_pretrained on the PeftModel."
    )


def load_merged(base: ModelInfo, adapter: ModelInfo, readout: str, dtype: torch.dtype) -> Any:
    """Return the base with the adapter merged into its weights (in float32) and the adapter's head, as `dtype`."""
    # imports torch, which is not needed to read headers
    from peft import LoraConfig, PeftModel

    from skillviz.models.load import quiet  # imports torch

    model = load_for_adapter(base, adapter, readout)
    settings = _read_settings(adapter, [name for name, _ in model.named_modules()])  # the headers lack some of them
    try:
        with quiet(), warnings.catch_warnings():
            # peft 0.21 reads a property that transformers 5 has renamed
            warnings.simplefilter("ignore", FutureWarning)
            warnings.filterwarnings("error", "Found missing adapter keys")  # missing parts would have no effect
            config = LoraConfig(**settings.model_dump(exclude_unset=True))
            joined = PeftModel.from_pretrained(model, str(adapter.folder), config=config, torch_device="cpu")
            merged = joined.merge_and_unload()
    except (ValueError, RuntimeError, KeyError, UserWarning) as error:
        raise PairMismatch(
            f"'{adapter.id}' cannot be merged into '{base.id}': {first_line(error)}; name the base that it "
            "was trained on."
        ) from error
    except (
        TypeError,
        AttributeError,
        ImportError,
        IndexError,
        re.error,
    ) as error:  # from settings that peft does not check
        raise BadModel(f"'{adapter.id}' cannot be merged into '{base.id}': {first_line(error)}. {WAY_OUT}") from error
    return merged.to(dtype).eval()


def load_for_adapter(base: ModelInfo, adapter: ModelInfo, readout: str, hollow: bool = False) -> Any:
    """Return the base in float32 with a head as large as the adapter's; `hollow` is as in `load_model`."""
    import torch  # slow to import

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
    """Return the model's own name of a saved tensor."""
    return name.removeprefix(PREFIX).replace("modules_to_save.", "").replace("default.", "")


def adapter_notes(adapter: ModelInfo, base: ModelInfo) -> Iterator[str]:
    """Yield a note on what the adapter is, notes on settings that are not read, and on its base if it is unknown here
    whether it is this."""
    given = adapter.adapter or {}
    if adapters.stored(adapter) is not None:
        with suppress(SkillvizError):  # which `check_adapter` reports
            placement, width, _ = adapters.read(adapter)
            yield (
                f"The fine-tuned model is the base with {adapters.trained(base, placement, width)}. It can be scored, "
                "and no region of it can be grafted."
            )
        return
    yield f"The fine-tuned model is a LoRA adapter of rank {given.get('r')}; it is merged on load."
    names = {name[:60] for name, value in given.items() if value not in UNSET}
    unknown = sorted(names - {*_Settings.model_fields, *FOREIGN, *UNREAD})
    if unknown and given.get("peft_type") == "LORA":
        yield f"The adapter '{adapter.id}' has settings that are not known here and not used: {listed(unknown, 3)}."
    named = _named_base(adapter)
    if is_its_base(adapter, base) is not Comparison.UNKNOWN:
        return
    if not named:
        yield f"The adapter '{adapter.id}' does not say which base it was trained on, so '{base.id}' is taken as it is."
        return
    where = ", in another place" if _last_part(named) == _last_part(base.id) else ""
    yield (
        f"The adapter '{adapter.id}' was trained on '{_last_part(named)}'{where}, which could not be compared with "
        f"'{base.id}'. If they differ, give that base."
    )


def is_its_base(adapter: ModelInfo, base: ModelInfo) -> Comparison:
    """Compare the base on which the adapter was trained with this one; UNKNOWN if it names none or cannot be compared.

    A base on this machine, as a folder or in the hub's local cache, is compared by its weights, under any name.
    """
    named = _named_base(adapter)
    is_hub_id = may_be_hub_id(named.partition("@")[0])
    if os.path.isdir(named) or (is_hub_id and is_local(named)):  # False also for an impossible folder name
        try:
            return _same_weights(read_info(resolve(named)), base)
        except SkillvizError:  # the folder has no readable model
            return Comparison.UNKNOWN
    hub_id, revision = hub_name(base.folder)
    if not is_hub_id or revision is None:
        return Comparison.UNKNOWN
    if named == hub_id:
        return Comparison.SAME
    # a copy by another organization has the same last part
    return Comparison.UNKNOWN if _last_part(named) == _last_part(hub_id) else Comparison.DIFFERENT


def _same_weights(one: ModelInfo, other: ModelInfo) -> Comparison:
    """Return SAME if two models have the same values, even if one is stored as float16."""
    if one.folder.resolve() == other.folder.resolve() or one.fingerprint == other.fingerprint:
        return Comparison.SAME
    if "quantization_config" in one.config:  # for example QLoRA: after conversion, shapes and values differ
        return Comparison.UNKNOWN
    if one.dtypes == other.dtypes or own_shapes(one) != own_shapes(other):
        return Comparison.DIFFERENT
    if not (one.can_be_rounded and other.can_be_rounded):
        return Comparison.UNKNOWN
    is_same = one.read_as_float16().fingerprint == other.read_as_float16().fingerprint
    return Comparison.SAME if is_same else Comparison.DIFFERENT


def _named_base(adapter: ModelInfo) -> str:
    return str((adapter.adapter or {}).get("base_model_name_or_path") or "")


def _last_part(name: str) -> str:
    return PurePath(name.partition("@")[0]).name


def _unfitting(adapter: ModelInfo, base: ModelInfo) -> Iterator[str]:
    """Yield sentences about low-rank pairs and whole tensors that the base lacks or has in another shape.

    Heads may have another number of labels.
    """
    prefix, shapes = family_of(base.model_type).prefix, own_shapes(base)
    is_known = base.model_type in FAMILIES
    for name, down in adapter.shapes.items():
        if not name.endswith(".lora_A.weight"):
            continue
        up = adapter.shapes.get(name.replace(".lora_A.", ".lora_B."))
        target = _plain(name).removeprefix(prefix).replace(".lora_A.", ".").replace(".base_layer.", ".")
        if up is None or target not in shapes:
            outer = prefix_of(target, shapes).removesuffix(prefix)
            held = f", only without '{outer}', which a class that held the model put in front" if outer else ""
            yield f"the base has no '{target}'{held}" if up else f"'{name}' has no lora_B beside it"
        elif set(shapes[target]) != {up[0], down[-1]}:
            yield f"'{target}' is {shapes[target]} in the base and {(up[0], down[-1])} in the adapter"
    for name, shape in saved(adapter, base).items():
        if name in shapes and shapes[name] != shape and not (is_known and is_head(base.model_type, name)):
            yield (
                f"'{name}' is {shapes[name]} in the base and {shape} in the adapter. If tokens were added, merge the "
                "adapter with peft (merge_and_unload), and give the folder of the merged model with its tokenizer"
            )

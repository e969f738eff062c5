"""A LoRA checkpoint as the fine-tuned model: checks of its headers, and its merging into the base."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from skillviz.core.comparison import Comparison
from skillviz.errors import BadModel, PairMismatch, RandomHead, SkillvizError, first_line
from skillviz.models.checkpoint import ModelInfo, read_info
from skillviz.models.fetch import hub_name, is_local, may_be_hub_id, resolve
from skillviz.models.heads import HEADS, LINEAR_HEAD, choose_readout, is_head, missing_head, own_shapes, prefix_of
from skillviz.tasks.refusals import NAME, refused

if TYPE_CHECKING:
    import torch

PREFIX = "base_model.model."
READOUT_OF = {"SEQ_CLS": "head", "TOKEN_CLS": "head", "CAUSAL_LM": "causal"}
UNSAVED = re.compile(r"(?<=\.lora_[AB]\.)(?!(?:weight|bias)$)[^.]+\.")
"""The adapter's own name inside a tensor's name, which peft uses in memory but not in files."""
WAY_OUT = "Merge it into its base with peft (merge_and_unload), and give the folder of the merged model."
FOREIGN = (
    "alora_invocation_tokens", "arrow_config", "corda_config", "eva_config", "kasa_config", "layer_replication",
    "loftq_config", "lora_ga_config", "megatron_config", "monteclora_config", "runtime_config", "target_parameters",
    "use_bdlora", "use_qalora", "velora_config",
)  # fmt: skip
"""Settings of peft's other kinds of LoRA. Some of them import a module or read a file."""
STARTS = re.compile(r"gaussian|olora|orthogonal|mica|pissa(_niter_\d{1,2})?")
"""The `init_lora_weights` with which peft can open an adapter without data."""
PIECE = re.compile(
    r"(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<wildcard>(?:\.|\\[dw]|\[\^?[\w.-]+\])[*+]\??)|[\w.^$-]|\\[.dwb]|\[\^?[\w.-]+\]"
)
"""The allowed parts of a pattern; groups cannot be repeated."""
WILDCARD = 32  # ways in which one wildcard matches a module's name, about half its letters
MOST_WAYS = 100_000
MOST_DEPTH = 20
MOST_LETTERS = 2_000
MOST_UNSAVED = 1_024
"""The largest rank accepted if no saved matrix has it, because peft keeps an `r` that `rank_pattern` overrides."""

Name = Annotated[str, Field(pattern=NAME, max_length=500)]
Rank = Annotated[int, Field(ge=1, le=100_000)]
Alpha = Annotated[float, Field(allow_inf_nan=False)]
Index = Annotated[int, Field(ge=0)]


class _Settings(BaseModel):
    """The fields that peft reads from the adapter_config.json of a LoRA checkpoint; each may be absent."""

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
    init_lora_weights: bool | str | None = True
    fan_in_fan_out: bool = False
    use_rslora: bool = False
    use_dora: bool = False
    lora_bias: bool = False
    ensure_weight_tying: bool = False
    inference_mode: bool = False
    task_type: str | None = None
    base_model_name_or_path: str | None = None
    revision: str | None = None
    peft_version: str | None = None
    auto_mapping: dict[str, Any] | None = None

    @field_validator("target_modules", "exclude_modules", "layers_pattern", "rank_pattern", "alpha_pattern")
    @classmethod
    def _plain_patterns(cls, value: Any) -> Any:
        _refuse_slow([value] if isinstance(value, str) else value or ())
        return value

    @field_validator("init_lora_weights")
    @classmethod
    def _known_start(cls, value: bool | str | None) -> bool | str | None:
        if isinstance(value, str) and not STARTS.fullmatch(value):
            raise ValueError(
                f"it is '{value[:60]}', and must be true, false, gaussian, olora, orthogonal, mica or pissa"
            )
        return value

    def ranks(self) -> tuple[int, ...]:
        """Return every rank with which peft may make a matrix."""
        return (self.r, *self.rank_pattern.values())

    def tokens(self) -> Iterator[int]:
        """Yield the vocabulary rows that were trained separately from the matrices."""
        indices = self.trainable_token_indices or []
        for rows in indices.values() if isinstance(indices, dict) else [indices]:
            yield from rows


def _refuse_slow(patterns: Iterable[str]) -> None:
    """Raise ValueError if peft could take too long to match a name, because its search backtracks over every choice."""
    ways = 0
    for pattern in patterns:
        ways += _ways(pattern)
        if ways > MOST_WAYS or not _compiles(pattern):
            raise ValueError(
                f"'{pattern[:60]}' could take too long to match; allowed are names, \\., \\d+, up to three .*, and "
                "groups such as (q_proj|v_proj) that are not repeated"
            )


def _compiles(pattern: str) -> bool:
    try:
        return bool(re.compile(pattern))
    except re.error:  # a range such as [z-a]
        return False


def _ways(pattern: str) -> int:
    """Return an upper bound on the number of ways to match; above MOST_WAYS for a pattern with other parts."""
    at, choices, alternatives = 0, [], [1]
    while at < min(len(pattern), MOST_LETTERS):
        piece = PIECE.match(pattern, at)
        if piece is None or len(alternatives) > MOST_DEPTH:
            break
        at, kind = piece.end(), piece.lastgroup
        if kind == "open":
            alternatives.append(1)
        elif kind == "bar":
            alternatives[-1] += 1
        elif kind == "wildcard":
            choices.append(WILDCARD)
        elif kind == "close" and len(alternatives) > 1:
            choices.append(alternatives.pop())
        elif kind == "close":
            break
    is_whole = at == len(pattern) and len(alternatives) == 1
    return prod([*choices, *alternatives]) if is_whole else MOST_WAYS + 1


def adapter_readout(adapter: ModelInfo, base: ModelInfo, readout: str | None) -> str:
    """Return the given readout, or the readout of the adapter's task type, of its saved head, or of the base."""
    kind = READOUT_OF.get(str((adapter.adapter or {}).get("task_type")))
    heads = HEADS.get(base.model_type)
    if readout is None and kind is None and heads is not None and heads.labels in saved(adapter, base):
        kind = "head"
    return choose_readout(base, readout or kind)


def is_linear_adapter(adapter: ModelInfo) -> bool:
    """True if the adapter was trained with the bare linear head: peft's task type for token classification."""
    return (adapter.adapter or {}).get("task_type") == "TOKEN_CLS"


def label_tensor(adapter: ModelInfo, base: ModelInfo) -> str | None:
    """Return the name of the head's tensor with one row per label; None for a family that is not in the table."""
    heads = HEADS.get(base.model_type)
    return LINEAR_HEAD[0] if is_linear_adapter(adapter) else heads.labels if heads else None


def saved(adapter: ModelInfo, base: ModelInfo) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the adapter's whole tensors (its head), named without the body's prefix."""
    heads = HEADS.get(base.model_type)
    prefix = f"{heads.prefix}." if heads else ""
    whole = {name: shape for name, shape in adapter.shapes.items() if ".lora_" not in name}
    return {_plain(name).removeprefix(prefix): shape for name, shape in whole.items()}


def check_adapter(adapter: ModelInfo, base: ModelInfo, readout: str) -> Iterator[BadModel]:
    """Yield the reasons against merging the adapter into this base, from the headers alone."""
    settings = adapter.adapter or {}
    if settings.get("peft_type") != "LORA":
        yield BadModel(
            f"the adapter '{adapter.id}' is of type {settings.get('peft_type')}; only LORA can be merged into its base "
            "here. If peft can merge it (merge_and_unload), give the folder of the merged model."
        )
        return
    if (error := _refused_settings(adapter, base) or _refused_names(adapter)) is not None:
        yield error
        return
    if is_its_base(adapter, base) is Comparison.DIFFERENT:
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


def _refused_settings(adapter: ModelInfo, base: ModelInfo) -> BadModel | None:
    """Return the reason why peft cannot use the adapter's settings; None if it can."""
    given = adapter.adapter or {}
    if foreign := next((name for name in FOREIGN if given.get(name) not in (None, {}, [], False)), None):
        return BadModel(f"the adapter '{adapter.id}' sets '{foreign}', which is not supported. {WAY_OUT}")
    try:
        settings = _Settings.model_validate(given)
    except ValidationError as error:
        field, reason = refused(error)
        return BadModel(
            f"'{field.partition('.')[0]}' of the adapter '{adapter.id}' cannot be used: {reason}. {WAY_OUT}"
        )
    # peft makes a matrix at its configured rank before comparing it with the saved one
    saved_ranks = {shape[0] for name, shape in adapter.shapes.items() if name.endswith(".lora_A.weight") and shape}
    if saved_ranks and max(settings.ranks()) > max(MOST_UNSAVED, *saved_ranks):
        return BadModel(
            f"the adapter '{adapter.id}' sets the rank {max(settings.ranks()):,}, and its matrices have at most "
            f"{max(saved_ranks):,}; save it again with `save_pretrained`."
        )
    row = max(settings.tokens(), default=-1)
    if base.vocab_size is not None and row >= base.vocab_size:
        return BadModel(
            f"'trainable_token_indices' of the adapter '{adapter.id}' names the token {row}, and '{base.id}' has "
            f"{base.vocab_size:,}; give the base that it was trained on."
        )
    return None


def _refused_names(adapter: ModelInfo) -> BadModel | None:
    """Return the reason why peft would ignore some of the adapter's tensors, which it does without an error."""
    odd = next((name for name in adapter.shapes if not name.startswith(PREFIX) or UNSAVED.search(name)), None)
    if odd is None:
        return None
    outer, begins, _ = odd.partition(PREFIX)
    what = (
        f"does not begin with '{PREFIX}'" if not begins
        else f"has '{outer}' in front of '{PREFIX}'" if outer
        else f"has the adapter's name inside ('{UNSAVED.search(odd)[0]}')"  # type: ignore[index]
    )  # fmt: skip
    return BadModel(
        f"the adapter '{adapter.id}' was not saved by peft: the name '{odd}' {what}, so peft would leave it out. Load "
        "it in the training program and call save_pretrained on the PeftModel."
    )


def load_merged(base: ModelInfo, adapter: ModelInfo, readout: str, dtype: torch.dtype) -> Any:
    """Return the base with the adapter merged into its weights (in float32) and the adapter's head, as `dtype`."""
    # imports torch, which is not needed to read headers
    from peft import PeftModel

    from skillviz.models.load import quiet  # imports torch

    model = load_for_adapter(base, adapter, readout)
    try:
        with quiet(), warnings.catch_warnings():
            # peft 0.21 reads a property that transformers 5 has renamed
            warnings.simplefilter("ignore", FutureWarning)
            warnings.filterwarnings("error", "Found missing adapter keys")  # missing parts would have no effect
            joined = PeftModel.from_pretrained(model, str(adapter.folder), torch_device="cpu")
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


def base_note(adapter: ModelInfo, base: ModelInfo) -> Iterator[str]:
    """Yield a sentence if it is unknown here whether the adapter was trained on this base."""
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
    if not named:
        return Comparison.UNKNOWN
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
    heads = HEADS.get(base.model_type)
    prefix = f"{heads.prefix}." if heads else ""
    shapes = own_shapes(base)
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
        if name in shapes and shapes[name] != shape and not (heads and is_head(base.model_type, name)):
            yield (
                f"'{name}' is {shapes[name]} in the base and {shape} in the adapter. If tokens were added, merge the "
                "adapter with peft (merge_and_unload), and give the folder of the merged model with its tokenizer"
            )

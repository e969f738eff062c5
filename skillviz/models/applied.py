"""Apply a graft to a base, as an ordinary model or an ordinary folder."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, Field, ValidationError

from skillviz.atomic import whole_folder
from skillviz.core.graft import Graft
from skillviz.errors import CorruptFile, RandomHead, WrongBase, refuse
from skillviz.models.checkpoint import ModelInfo, read_info
from skillviz.models.fetch import resolve
from skillviz.models.heads import Readout, class_names, is_linear
from skillviz.models.load import DTYPES, load_model, quiet
from skillviz.models.tokenizer import MAX_LENGTH, has_tokenizer, load_tokenizer, with_added_tokens
from skillviz.tasks.refusals import refused

TokenId = Annotated[int, Field(strict=True, ge=0, lt=2**31)]


class _Config(BaseModel):
    """The fields of the fine-tuned model's configuration, in a graft's header, that the grafted model needs."""

    architecture: list[str] | None = None
    id2label: dict[int, str] | None = None
    pad_token_id: TokenId | None = None


class _Base(BaseModel):
    """The base for which a graft was made."""

    id: str | None = None
    fingerprint: str | None = None


class _Token(BaseModel):
    """A token that fine-tuning added, with the flags of the tokenizers library."""

    id: TokenId
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False


class _Vocabulary(BaseModel):
    """The base's number of rows, the numbers of the added ones, and the changes of its tokenizer."""

    rows: TokenId
    numbers: list[TokenId] = []
    tokens: list[_Token] = []
    roles: dict[str, str] = {}


class _Header(BaseModel):
    """The fields read from a graft's header."""

    base: _Base | None = None
    readout: Readout | None = None
    config: _Config | None = None
    labels: list[str] = []
    vocabulary: _Vocabulary | None = None
    max_length: Annotated[int, Field(ge=4)] | None = None


@dataclass(frozen=True)
class Applied:
    """The grafted model, its tokenizer (None if the base has none), and notes for the user.

    `info` is the base as it was read: rounded to float16 if the graft was made for the rounded base.
    """

    model: Any
    tokenizer: Any
    notes: tuple[str, ...]
    info: ModelInfo


def applied(base: str | Path, graft: Graft, *, force: bool = False) -> Applied:
    """Return the base with the graft's values and head, in the wider dtype of the two, so that nothing is rounded.

    Raises WrongBase if the graft was made for other weights, unless `force`; CorruptFile if the header cannot be read.
    """
    opened = opened_base(base, graft, force=force)
    graft.apply(opened.model)
    return opened


def opened_base(base: str | Path, graft: Graft, *, force: bool = False) -> Applied:
    """Return the base to which `applied` applies the graft, in the wider dtype of the two.

    If the base's files have no head, its head is random here and is set by the graft. Raises the errors of `applied`.
    """
    try:
        header = _Header.model_validate(graft.header)
    except ValidationError as error:
        field, reason = refused(error)
        raise CorruptFile(f"'{field}' of the graft's header cannot be read: {reason}; export it again.") from error
    config = header.config or _Config()
    info, notes = _check_base(read_info(resolve(base)), header.base or _Base(), force)
    readout = header.readout
    if readout is None:
        raise CorruptFile("the graft's header does not say its readout; export it again.")
    linear = is_linear(config.architecture or ())
    changes = _config_changes(config, readout, header.labels)
    loaded = load_model(info.folder, readout, _wider(info, graft), changes, linear and readout == "head")
    lost = sorted(loaded.made_up - set(graft.head))
    if lost:
        raise RandomHead(f"neither '{info.id}' nor the graft has '{lost[0]}', so it would be random; use its own base.")
    if info.rounded:
        loaded.model.half().to(_wider(info, graft))
    if header.max_length is not None:
        setattr(loaded.model.config, MAX_LENGTH, header.max_length)
    if config.pad_token_id is not None:
        loaded.model.config.pad_token_id = config.pad_token_id
    if not has_tokenizer(info.folder):
        notes.append(f"'{info.id}' has no tokenizer, so the result has none: copy the fine-tuned model's there.")
        return Applied(loaded.model, None, tuple(notes), info)
    tokenizer = load_tokenizer(info.folder)
    if header.vocabulary is not None:
        tokens = [token.model_dump() for token in header.vocabulary.tokens]
        tokenizer = with_added_tokens(tokenizer, tokens, header.vocabulary.roles)
    return Applied(loaded.model, tokenizer, tuple(notes), info)


def save_applied(result: Applied, out: Path | str, *, overwrite: bool = False) -> None:
    """Write the model and its tokenizer as a `from_pretrained` folder, atomically.

    The values keep their dtype. The configuration requests at least float32 when the folder is opened, so that an
    applied float16 base computes the measured results.
    """
    config = copy.deepcopy(result.model.config)
    config.architectures = [type(result.model).__name__]
    config.dtype = torch.promote_types(result.model.dtype, torch.float32)
    written = json.loads(config.to_json_string())
    # transformers omits two plain labels, which are not every family's default
    labels = {"id2label": config.id2label, "label2id": config.label2id} if config.id2label else {}
    extra = {"config.json": json.dumps({**labels, **written}, indent=2, sort_keys=True) + "\n"}
    write_model(Path(out), result.model, result.tokenizer, extra, overwrite=overwrite)


def refuse_full_folder(out: Path, overwrite: bool, base: str | Path | None = None) -> None:
    """Raise BadInput if `out` is not empty and `overwrite` is not set, or if `out` is the base's own folder."""
    refuse(
        (
            base is not None and out.is_dir() and out.resolve() == Path(base).resolve(),
            f"{out} is the base itself, which would be lost; name another folder to write to.",
        ),
        (out.is_file(), f"{out} is a file; name a folder to write the model to."),
        (
            out.is_dir() and any(out.iterdir()) and not overwrite,
            f"{out} is not empty; name another folder, or add --overwrite to replace it.",
        ),
    )


def write_model(
    out: Path, model: Any, tokenizer: Any, extra: Mapping[str, str] | None = None, *, overwrite: bool = False
) -> None:
    """Write model, tokenizer and `extra` (file name to text) atomically; raises DiskFull."""
    refuse_full_folder(out, overwrite)
    with whole_folder(out.absolute(), replace=True) as draft:
        write_files(draft, model, tokenizer, extra)


def write_files(folder: Path, model: Any, tokenizer: Any, extra: Mapping[str, str] | None = None) -> None:
    """Write model, tokenizer and `extra` (file name to text) into a folder, which is created if missing.

    The model is None if it is there already.
    """
    if model is not None:
        with quiet():
            model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    for name, text in (extra or {}).items():
        (folder / name).write_text(text, encoding="utf-8")


def _check_base(info: ModelInfo, made_for: _Base, force: bool) -> tuple[ModelInfo, list[str]]:
    """Return the base as the graft needs it, and notes; a difference is stored for a base read as float16."""
    if made_for.fingerprint == info.fingerprint:
        return info, []
    if info.can_be_rounded and (rounded := info.read_as_float16()).fingerprint == made_for.fingerprint:
        return rounded, []
    sentence = (
        f"the graft was made for the base '{made_for.id or 'unknown'}' with fingerprint {made_for.fingerprint[:12]}; "
        f"'{info.id}' has {info.fingerprint[:12]}"
        if made_for.fingerprint
        else f"the graft does not say for which base it was made, so '{info.id}' cannot be compared with it"
    )
    if not force:
        raise WrongBase(f"{sentence}. Give its own base, or add --force to graft onto this one anyway.")
    return info, [f"Forced: {sentence}."]


def _wider(info: ModelInfo, graft: Graft) -> torch.dtype:
    """Return the narrowest dtype that holds base and graft exactly."""
    held = (*graft.values.values(), *graft.head.values(), *graft.rows.values())
    dtypes = {DTYPES[info.dtype], *(tensor.dtype for tensor in held)}
    return reduce(torch.promote_types, dtypes)


def _config_changes(config: _Config, readout: str, task_labels: list[str]) -> dict[str, Any]:
    """Return the configuration changes for the classification head: its labels.

    If the fine-tuned model only numbers its labels, they are the labels of the run's task, in the task's order, as in
    the run.
    """
    labels = config.id2label
    if readout != "head" or not labels:
        return {}
    if len(task_labels) == len(labels) and class_names({"id2label": labels}).are_numbers:
        labels = dict(enumerate(task_labels))
    back = {name: number for number, name in labels.items()}
    return {"id2label": labels, "label2id": back, "problem_type": "single_label_classification"}

"""A base with a graft on it: an ordinary model, and an ordinary folder."""

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
from skillviz.errors import BadInput, CorruptFile, RandomHead, WrongBase
from skillviz.models.checkpoint import ModelInfo, read_info
from skillviz.models.fetch import resolve
from skillviz.models.heads import Readout, class_names, is_linear
from skillviz.models.load import DTYPES, load_model, quiet
from skillviz.models.tokenizer import MAX_LENGTH, has_tokenizer, load_tokenizer, with_added_tokens
from skillviz.tasks.refusals import refused

TokenId = Annotated[int, Field(strict=True, ge=0, lt=2**31)]


class _Config(BaseModel):
    """Of the fine-tuned model's configuration, what a graft's header says and the grafted model needs."""

    architecture: list[str] | None = None
    id2label: dict[int, str] | None = None
    pad_token_id: TokenId | None = None


class _Base(BaseModel):
    """The base that a graft was made for."""

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
    """What is read of a graft's header."""

    base: _Base | None = None
    readout: Readout | None = None
    config: _Config | None = None
    labels: list[str] = []
    vocabulary: _Vocabulary | None = None
    max_length: Annotated[int, Field(ge=4)] | None = None


@dataclass(frozen=True)
class Applied:
    """The grafted model, its tokenizer (None where the base has none), and what a reader should know.

    `info` is the base as it was read: rounded to float16 where the graft was made for the rounded one.
    """

    model: Any
    tokenizer: Any
    notes: tuple[str, ...]
    info: ModelInfo


def applied(base: str | Path, graft: Graft, *, force: bool = False) -> Applied:
    """The base with the graft's values and head, in the wider dtype of the two: nothing is rounded.

    Raises WrongBase where the base's weights are not those the graft was made for, unless `force`; CorruptFile for a
    header that cannot be read.
    """
    opened = opened_base(base, graft, force=force)
    graft.apply(opened.model)
    return opened


def opened_base(base: str | Path, graft: Graft, *, force: bool = False) -> Applied:
    """What `applied` puts the graft on: the base in the wider dtype of the two. Its head, where the files have none,
    is random and comes with the graft. Raises as `applied` does.
    """
    header = _read_header(graft)
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
    """Write the model and its tokenizer as a `from_pretrained` folder: all of it or nothing.

    The values keep their dtype; the configuration asks for at least float32 when it is opened, so that an
    applied float16 base computes what was measured.
    """
    config = copy.deepcopy(result.model.config)
    config.architectures = [type(result.model).__name__]
    config.dtype = torch.promote_types(result.model.dtype, torch.float32)
    written = json.loads(config.to_json_string())
    # left out where there are two plain labels, which is not every family's default
    labels = {"id2label": config.id2label, "label2id": config.label2id} if config.id2label else {}
    extra = {"config.json": json.dumps({**labels, **written}, indent=2, sort_keys=True) + "\n"}
    write_model(Path(out), result.model, result.tokenizer, extra, overwrite=overwrite)


def refuse_full_folder(out: Path, overwrite: bool, base: str | Path | None = None) -> None:
    """Raises BadInput where `out` holds something and overwriting was not asked for, or is the base's own folder."""
    if base is not None and out.is_dir() and out.resolve() == Path(base).resolve():
        raise BadInput(f"{out} is the base itself, which would be lost; name another folder to write to.")
    if out.is_file():
        raise BadInput(f"{out} is a file; name a folder to write the model to.")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise BadInput(f"{out} is not empty; name another folder, or add --overwrite to replace it.")


def write_model(
    out: Path, model: Any, tokenizer: Any, extra: Mapping[str, str] | None = None, *, overwrite: bool = False
) -> None:
    """Writes model, tokenizer and `extra` (file name to text), whole or not at all; raises DiskFull."""
    refuse_full_folder(out, overwrite)
    with whole_folder(out.absolute(), replace=True) as draft:
        write_files(draft, model, tokenizer, extra)


def write_files(folder: Path, model: Any, tokenizer: Any, extra: Mapping[str, str] | None = None) -> None:
    """Writes model, tokenizer and `extra` (file name to text) into a folder, which is made where it is missing."""
    with quiet():
        model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    for name, text in (extra or {}).items():
        (folder / name).write_text(text, encoding="utf-8")


def _read_header(graft: Graft) -> _Header:
    try:
        return _Header.model_validate(graft.header)
    except ValidationError as error:
        field, reason = refused(error)
        raise CorruptFile(f"'{field}' of the graft's header cannot be read: {reason}; export it again.") from error


def _check_base(info: ModelInfo, made_for: _Base, force: bool) -> tuple[ModelInfo, list[str]]:
    """The base as the graft was made for it, and notes; a pair stored as a difference is of a base read as float16."""
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
    """The narrowest dtype that holds base and graft exactly."""
    held = (*graft.values.values(), *graft.head.values(), *graft.rows.values())
    dtypes = {DTYPES[info.dtype], *(tensor.dtype for tensor in held)}
    return reduce(torch.promote_types, dtypes)


def _config_changes(config: _Config, readout: str, task_labels: list[str]) -> dict[str, Any]:
    """What the classification head asks of the configuration: its labels, those of the run's task where the fine-tuned
    model only numbered them, as the run took them in the task's order."""
    labels = config.id2label
    if readout != "head" or not labels:
        return {}
    if len(task_labels) == len(labels) and class_names({"id2label": labels}).are_numbers:
        labels = dict(enumerate(task_labels))
    back = {name: number for number, name in labels.items()}
    return {"id2label": labels, "label2id": back, "problem_type": "single_label_classification"}

"""Find the local folder with safetensors weights for a model name, or the command that creates it; reads no pickle."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from skillviz import json_text
from skillviz.errors import BadData, BadInput, ModelNotFound, first_line
from skillviz.models import convert
from skillviz.models.weight_files import has_weights, refusal
from skillviz.regular_file import read_text
from skillviz.serving import read_only
from skillviz.tasks.project import expanded, located, project_root, with_a_checkout
from skillviz.tasks.yaml_files import parsed

# The files to download: weights as safetensors, configuration and tokenizer, but nothing that can contain code.
ALLOWED = (
    "model*.safetensors",
    "adapter_model.safetensors",
    "*.json",
    "*.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
EXAMPLES = "examples"
"""The folder of the shipped models, texts and pairs."""
EXAMPLES_KEPT = "models/examples"
"""The folder of example pairs that do not ship and are made on this machine."""
FOLDERS = ("models", EXAMPLES)
"""The first parts of the project's own model folders, which are never organizations of the hub."""
VARIABLE = re.compile(r"\$\{?(\w+)\}?/?")
COMMANDS = Path("benchmarks", "models.json")
"""The file with the commands that make models named in the project's runs that do not ship."""
NESTED = "*/*"
GRAFT_FILE = "graft.safetensors"
"""The file name of a published graft in its repository."""
CARD = "README.md"
"""The file name of a card."""


OnBytes = Callable[[int, int], None]


def resolve(source: str | Path, on_bytes: OnBytes | None = None) -> Path:
    """Return the local folder of a model: a folder, or `org/name` or `org/name@revision` of the Hugging Face hub.

    During a download, `on_bytes` is called from any thread with the bytes downloaded so far and in total.

    Environment variables in a folder's name are expanded, so that a stored run names no machine. A relative name is
    searched in the working folder and then in the project's. Raises ModelNotFound if there is no such model,
    UnsafeWeights if it has only pickled weights. For a converted model (`models.convert`), the conversion is returned.
    """
    text = expanded(str(source))
    folder = located(text)
    if not text or not folder.is_dir():
        folder = _from_hub(text, on_bytes)
    if not has_weights(folder) and (made := convert.converted(folder)):
        return made
    if not has_weights(folder):
        raise refusal(folder, text)
    return folder


def graft_file(source: str | Path) -> Path:
    """Return the path of the graft file: the given path, the file in a given folder, or the download of `org/name` or
    `org/name@revision`.

    Raises ModelNotFound if the hub has no such graft. A path that does not exist is returned, and reading it raises the
    error.
    """
    path = _published(source, GRAFT_FILE)
    if path is None:
        raise ModelNotFound(
            f"'{source}' on the Hugging Face Hub has no {GRAFT_FILE}, so it is not a graft that "
            "`export --push-to-hub` published."
        )
    return path / GRAFT_FILE if path.is_dir() else path


def card_header(source: str | Path) -> Mapping[str, Any] | None:
    """Return the header of the card in a folder, beside a graft file or on the Hub; None if there is no card.

    Raises BadData if it cannot be read, ModelNotFound if the Hub does not answer.
    """
    path = _published(source, CARD)
    path = path and (path / CARD if path.is_dir() else path.with_name(CARD))
    if path is None or not path.exists():
        return None
    try:
        text = read_text(path).removeprefix("\ufeff").replace("\r\n", "\n")
        parts = text.split("---\n", 2)
        header = parsed(parts[1]) if len(parts) == 3 and not parts[0].strip() else {}
    except (BadInput, OSError, ValueError, yaml.YAMLError) as error:
        raise BadData(f"the header of the card of {source} cannot be read ({first_line(error)}).") from error
    return header if isinstance(header, Mapping) else {}


def _published(source: str | Path, file: str) -> Path | None:
    """Return a given path, or the download of this file of `org/name` or `org/name@revision`; None if it has none.

    Raises ModelNotFound if the Hub does not answer.
    """
    text = expanded(str(source))
    name, _, revision = text.partition("@")
    if Path(text).exists() or "/" not in name or text.endswith(".safetensors") or not may_be_hub_id(name):
        return Path(text)
    read_only.refuse()
    from huggingface_hub import hf_hub_download  # slow to import, and a local file does not need it

    try:
        return Path(hf_hub_download(name, file, revision=revision or None))
    except Exception as error:  # see _from_hub
        kind = type(error).__name__
        if kind in ("EntryNotFoundError", "RemoteEntryNotFoundError"):
            return None
        raise ModelNotFound(_hub_sentence(text, error, "graft")) from error


def is_local(source: str) -> bool:
    """True if `resolve` needs no hub: for a folder, a model in the local cache, or an impossible name."""
    text = expanded(source)
    name, _, revision = text.partition("@")
    if (text and located(text).is_dir()) or not may_be_hub_id(name):
        return True
    try:
        folder = _snapshot(name, revision, local_files_only=True)
        return has_weights(folder) or convert.is_converted(folder)
    except Exception:  # any error of the client means that it is not there
        return False


def refuse_absent(source: str, was_folder: bool = False) -> None:
    """Raise the error of `resolve` if a model is not on this machine; never contacts the hub.

    `was_folder` means that the name is known to be a folder's, not a hub id.
    """
    text = expanded(source)
    is_folder = bool(text) and located(text).is_dir()
    if is_folder or not may_be_hub_id(text.partition("@")[0]):
        resolve(text)
    elif is_local(text):
        return
    elif was_folder:
        raise ModelNotFound(no_folder(text))
    else:
        name, _, revision = text.partition("@")
        more = f" --revision {revision}" if revision else ""
        raise ModelNotFound(
            f"'{text}' is neither a folder here nor in the local cache of the hub; `hf download {name}{more}` fetches "
            "it where there is a network."
        )


def hub_name(folder: Path) -> tuple[str, str | None]:
    """Return (model id, revision) of a resolved folder: the hub's, or the folder's own name and None.

    The hub's cache keeps a model under `models--<org>--<name>/snapshots/<commit>`. Paths of this machine never become
    part of a run.
    """
    cache = folder.parent.parent.name
    if folder.parent.name == "snapshots" and cache.startswith("models--"):
        return cache.removeprefix("models--").replace("--", "/"), folder.name
    return folder.resolve().name, None


def _from_hub(source: str, on_bytes: OnBytes | None) -> Path:
    name, _, revision = source.partition("@")
    if not may_be_hub_id(name):
        raise ModelNotFound(no_folder(source))
    read_only.refuse()
    try:
        return _snapshot(name, revision, tqdm_class=None if on_bytes is None else _bar(on_bytes))
    # the hub's client raises errors of four libraries (its own, http, json, os); all mean that the model is not here
    except Exception as error:
        raise ModelNotFound(_hub_sentence(source, error)) from error


def _snapshot(name: str, revision: str, **more: Any) -> Path:
    from huggingface_hub import snapshot_download  # slow to import, and a local folder does not need it

    # the same patterns in every call, because the client calls a snapshot incomplete if a requested file is missing
    wanted: Any = {"allow_patterns": list(ALLOWED), "ignore_patterns": [NESTED], **more}
    folder = Path(snapshot_download(name, revision=revision or None, **wanted))
    if convert.wanted.get() is not None and not has_weights(folder):
        wanted["allow_patterns"] += convert.PATTERNS
        folder = Path(snapshot_download(name, revision=revision or None, **wanted))
    return folder


def _bar(on_bytes: OnBytes) -> Any:
    """Return a progress bar that draws nothing and reports bytes, which the hub's client reports in no other way."""
    from huggingface_hub.utils import tqdm  # slow to import, and a local folder does not need it

    class Bar(tqdm):
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **{**settings, "disable": True})
            self.counts_bytes = settings.get("unit") == "B"  # other bars count files

        def update(self, n: float | None = 1) -> bool | None:
            self.n += n or 0
            if self.counts_bytes:
                on_bytes(int(self.n), int(self.total or 0))
            return None

    return Bar


def _hub_sentence(source: str, error: Exception, noun: str = "model") -> str:
    kind = type(error).__name__
    here = "folder" if noun == "model" else "file"
    start = f"'{source}' is neither a {here} here nor a {noun} that could be downloaded from the Hugging Face Hub"
    if kind in ("LocalEntryNotFoundError", "IncompleteSnapshotError", "OfflineModeIsEnabled"):
        return (
            f"{start}: it is not in the local cache, and the hub cannot be reached (offline). Name a {here}, or try "
            "again with a network."
        )
    if kind == "GatedRepoError":
        return f"{start}: it is gated; accept its terms on its page, then `hf auth login`."
    if kind == "RevisionNotFoundError":
        return f"{start}: the {noun} exists, but not that revision. Its page lists those there are."
    if kind == "RepositoryNotFoundError":
        return f"{start}: the hub has no such {noun}, or you have no access to it. Check the name, or `hf auth login`."
    return f"{start} ({kind}: {str(error).splitlines()[0] if str(error) else 'no message'})."


def may_be_hub_id(name: str) -> bool:
    """True if a name (without revision) can be a hub id, and is not a folder of the project or its runs."""
    is_of_hub = bool(HUB_ID.fullmatch(name)) and PurePosixPath(name).parts[0] not in FOLDERS
    return is_of_hub and command_that_makes(name) is None


def no_folder(source: str) -> str:
    """Return the error message for a missing folder, with the command that creates it if known."""
    text = expanded(source)
    if missing := VARIABLE.search(text):
        below = text[missing.end() :] or "it"
        return (
            f"'{text}' cannot be found, because the environment variable {missing[1]} is not set; "
            f"set {missing[1]} to the folder that holds {below}, and start again."
        )
    if PurePosixPath(text).parts[:1] == (EXAMPLES,) and (lacking := with_a_checkout()):
        return f"there is no folder '{text}'.{lacking} Run it there, or give other models."
    if PurePosixPath(text).parts[:2] == (EXAMPLES, "models"):
        return f"there is no folder '{text}', although it ships with skillviz; `git checkout -- {text}` restores it."
    if command := command_that_makes(text):
        return f"there is no folder '{text}'; create it with `{command}`."
    return f"there is no folder '{text}'; give a model's folder, or a hub id such as org/name."


def command_that_makes(source: str) -> str | None:
    """Return the command that makes an example pair or a model of the project's runs; None if no command is known."""
    for folder in (f"{EXAMPLES}/pairs/", f"{EXAMPLES_KEPT}/"):
        if source.startswith(folder):
            return build_command(source.removeprefix(folder))
    return _commands(project_root() / COMMANDS).get(source)


@cache
def _commands(file: Path) -> dict[str, str]:
    """Return model -> the command that made it, read once; empty if the file is missing or unreadable."""
    try:
        commands: dict[str, str] = json_text.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return commands


def build_command(example: str) -> str:
    """Return the command that makes an example pair and its runs."""
    return f"python -m skillviz examples build --only {example}"

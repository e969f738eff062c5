"""Make the command of a study portable: without options and paths that are valid only on this machine."""

from __future__ import annotations

import shlex
from pathlib import Path

from skillviz.tasks.project import anchored, project_root

LOCAL_OPTIONS = {"--runs-dir": 1, "--workers": 1, "--json": 0, "--partial": 0, "--dry-run": 0, "--write-only": 0}
"""Options that do not change the results, each with its number of values."""


def rerunnable(command: str | None, name: str) -> str | None:
    """Return the command without local options if it means the same from any folder; otherwise return the command that
    runs the stored study of this name again."""
    if command is None:
        return None
    try:
        words = _without_local_options(shlex.split(command))
    except ValueError:
        words = []
    if words and not any(_is_elsewhere(part) for word in words for part in _values(word)):
        return shlex.join(map(_plain, words))
    return shlex.join(["python", "-m", "skillviz", "study", "run", name])


def _without_local_options(words: list[str]) -> list[str]:
    kept, skipped = [], 0
    for word in words:
        name, equals, _ = word.partition("=")
        if skipped:
            skipped -= 1
        elif name in LOCAL_OPTIONS:
            skipped = 0 if equals else LOCAL_OPTIONS[name]
        else:
            kept.append(word)
    return kept


def _values(word: str) -> list[str]:
    """Return the parts of a word that may be paths: the word or the value after `--option=`, split at commas."""
    return (word.partition("=")[2] if word.startswith("--") else word).split(",")


def _is_elsewhere(text: str) -> bool:
    """True if the path is outside the project, so that it exists on this machine only."""
    path = Path(text).expanduser()
    if path.is_absolute() or ".." in path.parts:
        return not path.resolve().is_relative_to(project_root().resolve())
    return anchored(text, Path.cwd()) != text


def _plain(word: str) -> str:
    """Return the word with its paths shortened; they may be separated by commas or follow `--option=`."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + ",".join(_short(part) for part in value.split(","))


def _short(text: str) -> str:
    if not text.startswith(("/", "~/")) and ".." not in Path(text).parts:
        return text
    path = Path(text).expanduser().resolve()  # variables are not expanded, because the path is shown
    for root in (project_root().resolve(), Path.cwd()):
        if path.is_relative_to(root):
            return str(path.relative_to(root))
    return path.name

"""The command of a study as it may be handed on: without what was said of this machine alone, and so that it works."""

from __future__ import annotations

import shlex
from pathlib import Path

from skillviz.tasks.project import anchored, project_root

LOCAL_OPTIONS = {"--runs-dir": 1, "--workers": 1, "--json": 0, "--partial": 0, "--dry-run": 0, "--write-only": 0}
"""Options that do not change what is computed, each with the number of its values."""


def rerunnable(command: str | None, name: str) -> str | None:
    """The command as it may be handed on, where that means the same from any folder; else the one that runs the stored
    study of this name again."""
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
    """What may be paths in a word: itself, or several with commas, or either after `--option=`."""
    return (word.partition("=")[2] if word.startswith("--") else word).split(",")


def _is_elsewhere(text: str) -> bool:
    """Whether it is a path that is not one of the project's: a file here alone."""
    path = Path(text).expanduser()
    if path.is_absolute() or ".." in path.parts:
        return not path.resolve().is_relative_to(project_root().resolve())
    return anchored(text, Path.cwd()) != text


def _plain(word: str) -> str:
    """The word with the paths in it shortened: a path, several with commas, or either after `--option=`."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + ",".join(_short(part) for part in value.split(","))


def _short(text: str) -> str:
    if not text.startswith(("/", "~/")) and ".." not in Path(text).parts:
        return text
    path = Path(text).expanduser().resolve()  # no variable: it is shown
    for root in (project_root().resolve(), Path.cwd()):
        if path.is_relative_to(root):
            return str(path.relative_to(root))
    return path.name

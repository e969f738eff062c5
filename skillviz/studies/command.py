"""The command of a study as it may be handed on: without what was said of this machine alone."""

from __future__ import annotations

import shlex
from pathlib import Path

from skillviz.tasks.project import project_root

LOCAL_OPTIONS = {"--runs-dir": 1, "--workers": 1, "--json": 0, "--partial": 0, "--dry-run": 0, "--write-only": 0}
"""Options that do not change what is computed, each with the number of its values."""


def shareable(command: str | None) -> str | None:
    """The command without such options, and without local paths: files of the project from its root, others by name.

    A study file may say anything here: what is no command line, as a lone quote, keeps its words as they are.
    """
    if command is None:
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return " ".join(_plain(word) for word in command.split())
    shown, skipped = [], 0
    for word in words:
        name, equals, _ = word.partition("=")
        if skipped:
            skipped -= 1
        elif name in LOCAL_OPTIONS:
            skipped = 0 if equals else LOCAL_OPTIONS[name]
        else:
            shown.append(_plain(word))
    return shlex.join(shown)


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

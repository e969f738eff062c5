"""What brings a model that is not on this machine: a variable to set, the command that makes it, or a hub's id."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path, PurePosixPath

from skillviz.tasks.project import project_root

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
DEMO = "demo_world"
FOLDERS = ("models", DEMO)
"""What the project's own folders of models begin with: never an organisation of the hub."""
VARIABLE = re.compile(r"\$\{?(\w+)\}?/?")
COMMANDS = Path("benchmarks", "models.json")
"""Which command makes each model that runs of the project name and that does not ship."""


def may_be_hub_id(name: str) -> bool:
    """Whether a name (without its revision) can be one of the hub, and is no folder of the project's."""
    return bool(HUB_ID.fullmatch(name)) and PurePosixPath(name).parts[0] not in FOLDERS


def no_folder(source: str) -> str:
    """The sentence for a folder that is not here, with what brings it where that is known."""
    text = os.path.expandvars(source)
    if missing := VARIABLE.search(text):
        below = text[missing.end() :] or "it"
        return (
            f"'{text}' is under the folder that the environment variable {missing[1]} names, which is not set; "
            f"set {missing[1]} to the folder that holds {below}, and start again."
        )
    if PurePosixPath(text).parts[:1] == (DEMO,):
        return (
            f"there is no folder '{text}', though it ships with skillviz; `git checkout -- {DEMO}` brings it back to "
            f"a clone. Without one, delete what is left of {DEMO} and make it anew: `python -m skillviz demo build`."
        )
    if command := making(text):
        return f"there is no folder '{text}'; this makes it: `{command}`."
    return f"there is no folder '{text}'; give a model's folder, or a hub id such as org/name."


def making(source: str) -> str | None:
    """The command that made a model of the project's own runs; None where none is noted."""
    try:
        noted = json.loads((project_root() / COMMANDS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return noted.get(source)

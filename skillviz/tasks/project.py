"""Where the project lies, and paths that are written from its root, such as `demo_world/base`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from skillviz.errors import BadInput

NOWHERE = Path(os.devnull, "nowhere")
FINETUNED_VARIABLE = "SKILLVIZ_MEMBERS"


def project_root() -> Path:
    """The project's folder: that of the package's source, or the current folder once installed."""
    project = Path(__file__).resolve().parents[2]
    return project if (project / "pyproject.toml").is_file() else Path.cwd()


def finetuned_root() -> Path:
    """Where fine-tuned models of studies are kept: $SKILLVIZ_MEMBERS, else models/members of the project.

    Sets the variable where it is not set, so that the names of such models, which begin with it, expand everywhere.
    """
    default = str(project_root() / "models" / "members")
    return Path(os.environ.setdefault(FINETUNED_VARIABLE, default)).expanduser()


def expanded(text: str, field: str | None = None) -> str:
    """The text with `${VAR}`, `$VAR` and `~` filled in. Where it names a `field`, raises BadInput for a variable that
    is not set; without one, that stays as it is."""
    path = os.path.expanduser(os.path.expandvars(text))
    if field is not None and (missing := re.search(r"\$\{?(\w+)\}?", path)):
        raise BadInput(f"'{text}' ({field}) names the environment variable {missing[1]}, which is not set; set it.")
    return path


def located(text: str) -> Path:
    """The path that a text names, `${VAR}` and `~` filled in: from the working folder, else from the project's root.

    What can name no file here (a home of nobody, a name that is too long) gives a path where nothing is.
    """
    try:
        path = Path(expanded(text))
        is_here = path.exists()
    except (OSError, ValueError):
        return NOWHERE
    if text and not path.is_absolute() and not is_here and (project_root() / path).exists():
        return project_root() / path
    return path

"""The project's folder, and paths relative to its root, such as `examples/models/minilm-l6`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from skillviz.errors import UnsetVariable
from skillviz.serving.settings import OURS

PROJECT = Path(__file__).resolve().parents[2]
"""The folder that contains the package: the checkout, or the folder of installed packages."""
CARRIED = Path(__file__).resolve().parents[1] / "app"
"""Files in a wheel besides the package's code: the dashboard's script, pages, settings and the runs of one pair."""
NOWHERE = Path(os.devnull, "nowhere")
FINETUNED_VARIABLE = f"{OURS}FINETUNED"
CACHE_VARIABLE = f"{OURS}CACHE"
"""The folder of models made by `--convert`, `~/.cache/skillviz` by default."""


def importable() -> dict[str, str]:
    """The environment in which a process started from any folder finds this package first."""
    paths = [str(PROJECT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def project_root() -> Path:
    """The project's folder: the checkout, or the current folder once installed."""
    return PROJECT if is_checkout() else Path.cwd()


def is_checkout() -> bool:
    """True if the package runs from a checkout, which has all files of the project."""
    return (PROJECT / "pyproject.toml").is_file()


def with_a_checkout() -> str:
    """A sentence on the files that an installed package lacks, with a space before it; empty in a checkout."""
    if is_checkout():
        return ""
    return (
        " The installed package brings one example pair and its runs; the other examples, runs, studies and the guides "
        "come with a checkout of the project."
    )


def app_root() -> Path:
    """The folder with dashboard.py, pages/ and the bundled runs: the checkout, or a folder in the installed package."""
    return PROJECT if is_checkout() else CARRIED


def finetuned_root() -> Path:
    """The folder for fine-tuned models of studies: $SKILLVIZ_FINETUNED, or models/finetuned of the project."""
    return Path(expanded(os.environ.get(FINETUNED_VARIABLE) or str(project_root() / "models" / "finetuned")))


def expanded(text: str, field: str | None = None) -> str:
    """The text with `${VAR}`, `$VAR` and `~` filled in. With a `field`, raises UnsetVariable for a variable that is
    not set; without one, such a variable is left as it is. SKILLVIZ_FINETUNED, which begins the names of the
    fine-tuned models of studies, defaults to `finetuned_root`."""
    if FINETUNED_VARIABLE in text and FINETUNED_VARIABLE not in os.environ:
        text = re.sub(rf"\$({FINETUNED_VARIABLE}\b|\{{{FINETUNED_VARIABLE}\}})", lambda _: str(finetuned_root()), text)
    path = os.path.expanduser(os.path.expandvars(text))
    if field is not None and (missing := re.search(r"\$\{?(\w+)\}?", path)):
        error = UnsetVariable(
            f"'{text}' ({field}) names the environment variable {missing[1]}, which is not set; set it."
        )
        error.variable, error.path = missing[1], text
        raise error
    return path


def located(text: str, field: str | None = None) -> Path:
    """The path that a text names, expanded as in `expanded`: relative to the working folder, or else to the project's
    root, or else to the files that the installed package includes.

    A text that cannot name a file (the home of an unknown user, a zero byte, circular links, a name that is too long)
    gives a path that does not exist.
    """
    try:
        path = Path(expanded(text, field))
        path.resolve()
        is_here = path.exists()
    except (OSError, ValueError, RuntimeError):
        return NOWHERE
    if text and not path.is_absolute() and not is_here:
        return next((root / path for root in (project_root(), app_root()) if (root / path).exists()), path)
    return path


def anchored_task(name: str, folder: Path) -> str:
    """Makes a task's path absolute as in `anchored`; a task is a path only if it names a YAML file."""
    return anchored(name, folder) if name.lower().endswith((".yaml", ".yml")) else name


def anchored(text: str, folder: Path) -> str:
    """The text, made absolute if it is a path relative to `folder`, so that it means the same from any other folder.

    A name that the project has too, a name with a variable or a home, and a path that does not exist are left as they
    are.
    """
    if not text or text.startswith("~") or "$" in text or Path(text).is_absolute():
        return text
    try:
        path = folder / text
        ours = (root / text for root in (project_root(), app_root()))
        if not path.exists() or any(one.exists() and path.samefile(one) for one in ours):
            return text
    except (OSError, ValueError):  # the text cannot name a file
        return text
    return os.path.abspath(path)

"""Where the project lies, and paths that are written from its root, such as `examples/models/minilm-l6`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from skillviz.errors import BadInput, UnsetVariable

PROJECT = Path(__file__).resolve().parents[2]
"""What the package lies in: the checkout, or the folder of installed packages."""
CARRIED = Path(__file__).resolve().parents[1] / "app"
"""What a wheel brings beside the package's code: the dashboard's script, pages, settings and the runs of one pair."""
NOWHERE = Path(os.devnull, "nowhere")
OURS = "SKILLVIZ_"  # what the names of the project's variables begin with
FINETUNED_VARIABLE = f"{OURS}FINETUNED"
RUNS_VARIABLE = f"{OURS}RUNS"
"""The folder of a user's runs."""
CACHE_VARIABLE = f"{OURS}CACHE"
"""The folder of models that `--convert` made, `~/.cache/skillviz` by default."""
ROOTS_VARIABLE, ANCESTORS_VARIABLE = f"{OURS}ROOTS", f"{OURS}FRAME_ANCESTORS"
"""The dashboard's: folders that a page may read, and sites that may frame it."""
QUOTA_VARIABLE, OPEN_JOBS_VARIABLE, LIVE_WORKERS_VARIABLE = f"{OURS}QUOTA", f"{OURS}OPEN_JOBS", f"{OURS}LIVE_WORKERS"
"""Limits of a deployment for many: what one user's runs may hold, the user's open jobs, and all users' live workers."""
DEPLOYMENT_VARIABLES = (
    RUNS_VARIABLE, ROOTS_VARIABLE, ANCESTORS_VARIABLE, QUOTA_VARIABLE, OPEN_JOBS_VARIABLE, LIVE_WORKERS_VARIABLE,
)  # fmt: skip
"""Those that say who may do how much where; no file of a pair or a task is found by them."""


def importable() -> dict[str, str]:
    """The environment in which a process that is started from any folder finds the package first."""
    paths = [str(PROJECT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def project_root() -> Path:
    """The project's folder: that of the package's source, or the current folder once installed."""
    return PROJECT if is_checkout() else Path.cwd()


def is_checkout() -> bool:
    """Whether the package is that of a checkout, which has everything that ships."""
    return (PROJECT / "pyproject.toml").is_file()


def with_a_checkout() -> str:
    """A sentence on what an installed package lacks, with a space before it; nothing in a checkout."""
    if is_checkout():
        return ""
    return (
        " The installed package brings one example pair and its runs; the other examples, runs, studies and the guides "
        "come with a checkout of the project."
    )


def app_root() -> Path:
    """Where dashboard.py, pages/ and the runs that ship are: in the checkout, or in the package once installed."""
    return PROJECT if is_checkout() else CARRIED


def finetuned_root() -> Path:
    """Where fine-tuned models of studies are kept: $SKILLVIZ_FINETUNED, else models/finetuned of the project."""
    return Path(expanded(os.environ.get(FINETUNED_VARIABLE) or str(project_root() / "models" / "finetuned")))


def expanded(text: str, field: str | None = None) -> str:
    """The text with `${VAR}`, `$VAR` and `~` filled in. Where it names a `field`, raises UnsetVariable for a variable
    that is not set; without one, that stays as it is. SKILLVIZ_FINETUNED, with which the names of the fine-tuned
    models of studies begin, has the value of `finetuned_root` where it is not set."""
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


def refuse_variables(text: str) -> str:
    """The text, where it names no variable of the environment but the project's own; else raises BadInput.

    For what comes from a page or an address: paths have their variables filled in later and may then stand in a
    sentence, and what the machine keeps in its environment, such as a password, is not for whoever can open the page.
    """
    for match in re.finditer(r"\$(?:\{([^}]*)\}|([A-Za-z0-9_]+))", text):  # what `os.path.expandvars` fills in
        name = match[1] if match[1] is not None else match[2]
        if not name.startswith(OURS):
            raise BadInput(
                f"'{match[0]}' is not filled in: of the environment only variables whose names begin with {OURS} may "
                "stand in what is given on a page; write the path itself."
            )
    return text


def located(text: str, field: str | None = None) -> Path:
    """The path that a text names, as `expanded`: from the working folder, else from the project's root, else from
    what the installed package brings.

    What can name no file here (a home of nobody, a zero byte, links in a circle, a name that is too long) gives a path
    where nothing is.
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
    """The same of a task, which is a path only where it names a YAML file."""
    return anchored(name, folder) if name.lower().endswith((".yaml", ".yml")) else name


def anchored(text: str, folder: Path) -> str:
    """The text, where it is a path from `folder` made absolute, so that it means the same from any other folder.

    What the project has under that name, what names a variable or a home, and what is not there stays as it is.
    """
    if not text or text.startswith("~") or "$" in text or Path(text).is_absolute():
        return text
    try:
        path = folder / text
        ours = (root / text for root in (project_root(), app_root()))
        if not path.exists() or any(one.exists() and path.samefile(one) for one in ours):
            return text
    except (OSError, ValueError):  # what can name no file
        return text
    return os.path.abspath(path)

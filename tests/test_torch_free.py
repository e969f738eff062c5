"""Tests that the dashboard opens without torch: a new process imports each module it needs, and then has no torch."""

import ast
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.test_arrows import FILES, PROJECT, imports, layer_of

HEAVY = ("torch", "transformers")
WHOLE_LAYERS = ("ui", "serving", "show", "plots", "tasks", "jobs")
NAMED = (
    "skillviz",
    "skillviz.errors",
    *(f"skillviz.live.{name}" for name in ("client", "part_scores")),
    *(f"skillviz.runs.{name}" for name in ("spec", "store", "tables", "session", "plan")),
    *(
        f"skillviz.core.{name}"
        for name in (
            "parameters", "region", "region_expression", "composition", "encoded", "calibration", "calibration_error",
            "many_comparisons", "region_parts", "seeds_interval", "temperature",
            "scores", "agreement", "overlap", "intervals", "interpolate",
        )
    ),
)  # fmt: skip

# Import each module of argv in turn; print {module: heavy modules it loaded}.
PROBE = f"""
import importlib, json, sys
found = {{}}
for name in sys.argv[1:]:
    importlib.import_module(name)
    heavy = [h for h in {HEAVY!r} if h in sys.modules]
    if heavy:
        found[name] = heavy
        break
print(json.dumps(found))
"""


def module_name(file: Path) -> str:
    """Return the dotted name of a file of the package."""
    parts = file.relative_to(PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def page_imports() -> set[str]:
    """Return the modules that dashboard.py and the pages import; running a page itself needs a server."""
    files = [file for file in FILES if layer_of(file) in ("pages", "dashboard")]
    named = [(m, n) for file in files for _, m, n in imports(ast.parse(file.read_text(encoding="utf-8")))]
    return {f"{m}.{n}" if m.startswith("skillviz") and n and exists(f"{m}.{n}") else m for m, n in named} - {
        "__future__"
    }


def exists(module: str) -> bool:
    """Return whether the name is a module, not a name inside one."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def heavy_after(*modules: str) -> dict[str, list[str]]:
    """Return {module: heavy modules} for the first module whose import loads torch or transformers; {} if none does."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *modules], cwd=PROJECT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def layer_modules(layer: str) -> list[str]:
    return [module_name(file) for file in FILES if layer_of(file) == layer]


def test_what_must_be_torch_free_is() -> None:
    assert heavy_after(*NAMED, *(name for layer in WHOLE_LAYERS for name in layer_modules(layer))) == {}


@pytest.mark.slow
def test_the_dashboard_and_its_pages_are() -> None:
    wanted = page_imports()
    assert {"skillviz.ui.page", "streamlit"} <= wanted and heavy_after(*sorted(wanted)) == {}


@pytest.mark.parametrize("layer", ["ui", "plots", "tasks"])
def test_the_layers_are_there_to_be_checked(layer: str) -> None:
    assert len(layer_modules(layer)) > 1


@pytest.mark.slow
def test_a_module_that_needs_torch_is_noticed() -> None:
    assert heavy_after("skillviz.errors", "skillviz.core.flat") == {"skillviz.core.flat": ["torch"]}

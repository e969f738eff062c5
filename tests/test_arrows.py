"""Tests of the arrows of the design: allowed imports of each layer, and allowed content of a page, read with `ast`."""

import ast
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.tables import equal

PROJECT = Path(__file__).resolve().parents[1]

# A layer may import itself and the layers listed here, and nothing else of skillviz. `api` covers the top of the
# package, __init__ and api, and imports no command: those belong to `cli`. LEAVES may be imported everywhere. A file of
# a room that other rooms may import than the rest of the room has a row of its own, such as `serving.quota`.
BOUNDARY = ("serving.settings", "serving.read_only", "serving.users")
LEAVES = ("errors", "atomic", "json_text", "layout", "locks", "regular_file", *BOUNDARY)
RUNS = ("runs", "models", "tasks", "core", *LEAVES)
STUDIES = ("studies", "analysis", *RUNS)
MAY_IMPORT = {
    "dashboard": ("ui", "serving"),
    "pages": ("ui", "serving", "serving.quota", "show", "plots", "live", "jobs", *STUDIES),
    "ui": ("serving", "serving.quota", "show", "plots", "live", "jobs", *STUDIES),
    "serving": ("serving.quota", "show", *RUNS),
    "show": ("plots", *STUDIES),
    "plots": ("core",),
    "live": ("serving.quota", *STUDIES),
    "jobs": ("serving.quota", *STUDIES),
    "studies": STUDIES[1:],
    "analysis": RUNS,
    "serving.quota": RUNS,
    "runs": RUNS[1:],
    "models": RUNS[2:],
    "tasks": RUNS[3:],
    "core": LEAVES,
    "errors": (),
    "atomic": ("errors", "locks", "serving.read_only"),
    "layout": ("errors",),
    "locks": (),
    "serving.read_only": ("errors", "serving.settings"),
    "serving.settings": ("errors",),
    "serving.users": (),
    "json_text": ("errors", "regular_file"),
    "regular_file": ("errors",),
    "commands": ("serving.quota", "show", "live", "jobs", *STUDIES),
    "api": ("show", *STUDIES),
    "cli": ("commands", *STUDIES),
    "__main__": ("cli", "commands"),
}
PAGE_LINES = 60
MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>")


FILES = sorted([PROJECT / "dashboard.py", *(PROJECT / "skillviz").rglob("*.py"), *(PROJECT / "pages").rglob("*.py")])


def layer_of(file: Path) -> str:
    """Return the layer of a file, by its name in MAY_IMPORT."""
    first, *rest = file.relative_to(PROJECT).parts
    if first != "skillviz":
        return first.removesuffix(".py")
    names = [part.removesuffix(".py") for part in rest]
    if (of_file := ".".join(names)) in MAY_IMPORT:
        return of_file
    return names[0] if len(names) > 1 or names[0] in (*LEAVES, "cli", "__main__") else "api"


def layer_of_module(module: str, name: str = "") -> str | None:
    """Return the layer of `import module` or `from module import name`; None for modules outside skillviz."""
    parts = [*module.split("."), name] if name else module.split(".")
    if parts[0] in ("pages", "dashboard"):
        return parts[0]
    if parts[0] != "skillviz":
        return None
    if (of_file := ".".join(parts[1:3])) in MAY_IMPORT:
        return of_file
    return parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else "api"


def imports(tree: ast.AST) -> list[tuple[int, str, str]]:
    """Return (line, module, name) of every import, also inside functions; relative ones keep their dots."""
    imported = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [(node.lineno, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            imported += [(node.lineno, module, alias.name) for alias in node.names]
    return imported


def imports_of(file: Path) -> set[str]:
    return {module for _, module, _ in imports(ast.parse(file.read_text(encoding="utf-8")))}


def wrong_imports(source: str, layer: str) -> list[str]:
    """Return one sentence for each import against the arrows."""
    faults = []
    for line, module, name in imports(ast.parse(source)):
        target = layer_of_module(module, name)
        if module.startswith("."):
            faults.append(f"line {line}: relative import of '{module}'; write it from skillviz")
        elif target == "api" and name == "__version__":
            continue
        elif target not in (None, layer, *MAY_IMPORT[layer]):
            faults.append(f"line {line}: {layer} imports {module} ({target}); allowed: {MAY_IMPORT[layer]}")
    return faults


def cached_reads(source: str) -> list[int]:
    """Return the lines that use st.cache_data or st.cache_resource."""
    tree = ast.parse(source)
    named = {node.lineno for node in ast.walk(tree)
             if isinstance(node, ast.Attribute) and node.attr.startswith("cache_")
             and isinstance(node.value, ast.Name) and node.value.id in ("st", "streamlit")}  # fmt: skip
    return sorted(named | {line for line, module, name in imports(tree) if module == "streamlit" and "cache_" in name})


def page_faults(source: str) -> list[str]:
    """Return the faults of a page: too many lines, figure building, markup, paths, functions."""
    tree = ast.parse(source)
    faults = (
        [] if len(source.splitlines()) <= PAGE_LINES else [f"{len(source.splitlines())} lines; at most {PAGE_LINES}"]
    )
    for line, module, name in imports(tree):
        if module.split(".")[0] in ("plotly", "pathlib", "os", "numpy", "pandas"):
            faults.append(f"line {line}: imports {module} {name}; that belongs to plots, runs or ui")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("go", "px"):
            faults.append(f"line {node.lineno}: {node.value.id}.{node.attr}; figures are made in skillviz.plots")
        if isinstance(node, ast.Attribute) and node.attr in ("html", "iframe"):
            faults.append(f"line {node.lineno}: .{node.attr}; pages hold no HTML")
        if isinstance(node, ast.keyword) and node.arg == "unsafe_allow_html":
            faults.append(f"line {node.value.lineno}: unsafe_allow_html")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MARKUP.search(node.value):
            faults.append(f"line {node.lineno}: markup in a string")
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            faults.append(f"line {node.lineno}: {node.name}; a page is five moves, its functions live in skillviz.ui")
    return faults


def faulty(check: Callable[[str], list[Any]], files: Iterable[Path] = FILES) -> dict[str, list[Any]]:
    """Return the faults of each file that has some."""
    found = {file.relative_to(PROJECT).as_posix(): check(file.read_text(encoding="utf-8")) for file in files}
    return {name: faults for name, faults in found.items() if faults}


@pytest.mark.parametrize("layer", sorted({layer_of(file) for file in FILES}))
def test_imports_go_to_the_right_only(layer: str) -> None:
    assert layer in MAY_IMPORT, f"{layer} is no layer of the design; give it one here"
    assert faulty(partial(wrong_imports, layer=layer), [file for file in FILES if layer_of(file) == layer]) == {}


@pytest.mark.slow
def test_streamlit_caches_stand_in_one_place() -> None:
    assert list(faulty(cached_reads)) == ["skillviz/ui/cache.py"]


def test_a_page_is_five_moves() -> None:
    assert faulty(page_faults, [file for file in FILES if layer_of(file) == "pages"]) == {}


def local_imports(source: str) -> list[int]:
    """Return the lines of imports inside functions without a comment, there or on the line above, on the reason."""
    lines = source.splitlines()
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    inside = {n for f in functions for n in ast.walk(f) if isinstance(n, (ast.Import, ast.ImportFrom))}
    unsaid, explained = [], 0
    for node in sorted(inside, key=lambda node: node.lineno):
        around = lines[max(node.lineno - 2, 0) : node.end_lineno]
        if any("#" in line for line in around) or explained == node.lineno - 1:
            explained = node.end_lineno or node.lineno
        else:
            unsaid.append(node.lineno)
    return unsaid


@pytest.mark.slow
def test_an_import_inside_a_function_says_what_it_keeps_out() -> None:
    assert faulty(local_imports) == {}


def circles(imported: dict[str, set[str]]) -> list[str]:
    """Return the modules that import themselves through others."""
    reached = {module: set(others) for module, others in imported.items()}
    for through in imported:  # after each step, paths may also lead through this module
        for others in reached.values():
            others |= reached[through] if through in others else set()
    return [module for module, others in reached.items() if module in others]


@pytest.mark.slow
def test_no_modules_import_each_other() -> None:
    """This includes imports inside functions; only imports for types may point back."""
    names = {
        file: ".".join(file.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__") for file in FILES
    }
    known, imported = set(names.values()), dict[str, set[str]]()
    for file, name in names.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                node.body = []
        imported[name] = {f"{m}.{n}" if f"{m}.{n}" in known else m for _, m, n in imports(tree)} & known - {name}
    assert circles(imported) == []


def test_the_walk_sees_the_layers() -> None:
    """Guard against a walk that finds nothing and passes."""
    layers = {layer_of(file) for file in FILES}
    assert {"dashboard", "pages", "ui", "plots", "runs", "models", "tasks", "core", "errors"} <= layers


test_a_planted_fault_is_caught = equal({
    "a local import": (lambda: local_imports("def f():\n    import torch\n"), [2]),
    "not one that is explained": (
        lambda: local_imports("def f():\n    import torch  # costs seconds\n    import peft\n"), [],
    ),
    "a circle": (lambda: circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}), ["a", "b", "c"]),
    "a cached read": (lambda: cached_reads("import streamlit as st\n@st.cache_data\ndef f(): ...\n"), [2]),
    "a cached read with options": (
        lambda: cached_reads("import streamlit as st\n@st.cache_resource(ttl=3)\ndef f(): ...\n"), [2],
    ),
    "an imported cached read": (lambda: cached_reads("from streamlit import cache_data\n"), [1]),
    "not our own cache": (lambda: cached_reads("from skillviz.ui import cache\ncache.entries()\n"), []),
})  # fmt: skip


@pytest.mark.parametrize(
    ("layer", "source", "count"),
    [
        ("core", "from skillviz.tasks.registry import task", 1),
        ("core", "import skillviz.models.pair", 1),
        ("core", "def f():\n    from skillviz.runs.store import Store", 1),
        ("core", "from skillviz import tasks", 1),
        ("core", "from . import region", 1),
        ("core", "from .region import Region", 1),
        ("plots", "from skillviz.errors import BadInput", 1),
        ("ui", "from skillviz import load_pair", 1),
        ("ui", "import pages", 1),
        ("runs", "from skillviz.ui import cache", 1),
        ("runs", "from skillviz.jobs import local", 1),
        ("analysis", "from skillviz.studies.plan import study_plan", 1),
        ("jobs", "from skillviz.show.sentences import summary", 1),
        ("live", "from skillviz.jobs import local", 1),
        ("runs", "from skillviz.serving import quota", 1),
        ("jobs", "from skillviz.serving.sign_in import user", 1),
        ("serving", "from skillviz.ui import cache", 1),
        ("tasks", "from skillviz.models.pair import load_pair", 1),
        ("errors", "from skillviz.core.region import Region", 1),
        ("dashboard", "from skillviz.plots import theme", 1),
        ("pages", "from skillviz.ui import page\nfrom skillviz.plots.region import density", 0),
        ("ui", "from skillviz.plots import theme\nfrom skillviz.core.region import Region", 0),
        ("runs", "from skillviz import __version__\nfrom skillviz.runs.spec import RunSpec", 0),
        ("jobs", "from skillviz.serving import quota, read_only\nfrom skillviz.serving.users import user_of", 0),
        ("plots", "from skillviz.plots.theme import ink\nimport plotly.graph_objects as go", 0),
        ("core", "from skillviz.core.region import Region\nfrom skillviz.errors import BadInput\nimport numpy", 0),
    ],
)
def test_an_import_to_the_left_is_caught_and_one_to_the_right_is_not(layer: str, source: str, count: int) -> None:
    assert len(wrong_imports(source, layer)) == count


@pytest.mark.parametrize(
    "source",
    [
        "import plotly.express as px\n",
        "import streamlit as st\nst.write(go.Figure())\n",
        "st.markdown(text, unsafe_allow_html=True)\n",
        "st.html(text)\n",
        "st.markdown('<div class=\"card\">x</div>')\n",
        "def card():\n    pass\n",
        "x = 1\n" * 61,
    ],
)
def test_what_a_page_may_not_hold_is_caught(source: str) -> None:
    assert page_faults(source)

"""Test that docs/notebook.ipynb runs from top to bottom in a new process, with the results that its text gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[1]
NOTEBOOK = PROJECT / "docs" / "notebook.ipynb"

# This follows Jupyter: cells share their names, and the last expression of a cell is its value.
RUN = """
import ast, json, sys
names = {"__name__": "__main__"}
for source in json.load(sys.stdin):
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    shown = getattr(value, "_repr_html_", None)
    entry = {"kind": type(value).__name__, "value": value if isinstance(value, dict) else None}
    entry["html"] = shown() if shown else ""
    entry["marks"] = sum(trace.type is not None for trace in value.data) if entry["kind"] == "Figure" else 0
    print("cell", json.dumps(entry))
"""


def _cells(kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


@pytest.mark.nightly
def test_the_notebook_runs_and_shows_what_it_says(tmp_path: Path) -> None:
    sources = ["".join(cell["source"]) for cell in _cells("code")]
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(sources), cwd=NOTEBOOK.parent, capture_output=True, text=True,
        check=False, env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "SKILLVIZ_RUNS": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [json.loads(line.removeprefix("cell ")) for line in done.stdout.splitlines() if line.startswith("cell ")]
    assert len(told) == len(sources)
    by_source = dict(zip(sources, told, strict=True))
    card = next(cell for source, cell in by_source.items() if source.endswith("\nrun"))
    assert card["kind"] == "Run" and "<table" in card["html"]
    figures = [source for source, cell in by_source.items() if cell["kind"] == "Figure" and cell["marks"]]
    assert figures == [f"run.plot.{page}()" for page in ("region", "sparsity", "calibration")]
    checks = [cell["value"] for cell in told if cell["value"] is not None]
    assert [len(one) for one in checks] == [3, 2] and all(value is True for one in checks for value in one.values())
    assert [cell["kind"] for cell in told].count("DataFrame") == 2


def test_it_is_stored_without_outputs() -> None:
    cells = _cells("code")
    assert cells and not [cell for cell in cells if cell["outputs"] or cell["execution_count"] is not None]

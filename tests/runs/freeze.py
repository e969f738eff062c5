"""Writes the frozen runs of the current schema version: `python -m tests.runs.freeze`. Run once a version.

A frozen run is never written again after its version was released: it stands for the runs that people have.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from skillviz.runs.migrate import SCHEMA_VERSION
from skillviz.runs.store import Store
from skillviz.tasks.task import CHOICE, GENERATION
from tests.fake_run import fake_run

FROZEN = Path(__file__).parent / "frozen"

if __name__ == "__main__":
    root = FROZEN / f"v{SCHEMA_VERSION}"
    shutil.rmtree(root, ignore_errors=True)
    tiny = {"n": {"validation": 4, "test": 6}, "layers": 1, "width": 4, "steps": 2, "sizes": ("5%", "20%")}
    print(fake_run(Store(root), interpolation=True, others=("imdb",), **tiny).path)
    choice = {"task": "made-choice", "kind": CHOICE, "labels": ("A", "B", "C")}
    print(fake_run(Store(root), interpolation=True, **choice, **tiny).path)
    print(fake_run(Store(root), interpolation=True, task="made-generation", kind=GENERATION, **tiny).path)
    likelihood = {"task": "made-likelihood", "kind": GENERATION, "metric": "perplexity"}
    print(fake_run(Store(root), interpolation=True, **likelihood, **tiny).path)

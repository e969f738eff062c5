"""Test that an object alone in a notebook cell shows one short line, regardless of its tensors and texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skillviz
from skillviz.core.region import Region
from skillviz.models.lean_pair import load_lean
from skillviz.models.preflight import preflight
from skillviz.runs.evaluation import evaluate
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec
from skillviz.tasks.registry import task
from skillviz.tasks.splits import load
from tests.cases.build import task_file, tiny_rows
from tests.tiny import tiny_pair

LONGEST = 160


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("objects")
    base, finetuned = tiny_pair(folder, steps=5)
    file = task_file(folder / "own", tiny_rows(48), tiny_rows(24, seed=1))
    spec = RunSpec(base=str(base), finetuned=str(finetuned), task=str(file), device="cpu", localizer="movement")
    session = Session()
    pair, encoded = session.pair(spec), session.encoded(spec)
    region = Region.from_flat(range(40), pair.table.shapes)
    check = preflight(base, finetuned, task(file))
    return {
        "ModelPair": pair,
        "LeanPair": load_lean(base, finetuned, task=task(file), device="cpu"),
        "Graft": pair.graft(region),
        "Region": region,
        "Problem": pair.problem(encoded["train"], encoded["validation"]),
        "Encoded": encoded["test"],
        "Splits": load(task(file)),
        "Preflight": check,
        "ModelInfo": check.base,
        "ParameterTable": pair.table,
        "Evaluation": evaluate(base, finetuned, file, region=region, device="cpu"),
        "Run": skillviz.localize(
            base, finetuned, file, size="5%", method="movement", device="cpu", runs_dir=folder / "runs"
        ),  # fmt: skip
    }


FACTS = {
    "ModelPair": ("4,448 graftable", "head readout", "base → finetuned"),
    "Graft": ("40 of 4,448", "head"),
    "Region": ("40 of 4,448", "0.899"),
    "Problem": ("44 training examples", "4 to judge by"),
    "Encoded": ("24 examples", "2 labels"),
    "Splits": ("train 44", "test 24"),
    "Preflight": ("4,448 graftable", "fits"),
    "Evaluation": ("n = 24", "Accuracy", "grafted"),
}
NAMES = ("ModelPair", "LeanPair", "Graft", "Region", "Problem", "Encoded", "Splits", "Preflight", "ModelInfo",
         "ParameterTable", "Evaluation", "Run")  # fmt: skip


@pytest.mark.cases(5, 3)
@pytest.mark.parametrize("name", NAMES)
def test_an_object_is_one_line(name: str, objects: dict[str, Any]) -> None:
    line = repr(objects[name])
    assert line.startswith(f"{name}(") and line.endswith(")") and "\n" not in line and len(line) <= LONGEST, line
    assert "tensor(" not in line and "array(" not in line
    assert all(fact.lower() in line.lower() for fact in FACTS.get(name, ())), line


def test_a_pair_that_does_not_fit_says_why(tmp_path: Path) -> None:
    one, _ = tiny_pair(tmp_path / "one")
    other, _ = tiny_pair(tmp_path / "other", "gpt2")
    assert "does not fit: " in repr(preflight(one, other))


@pytest.mark.nightly
def test_the_names_of_figures_are_names(objects: dict[str, Any]) -> None:
    line = repr(objects["Run"].plot)
    assert line.startswith("Plots(overview, region, ") and "names()" in line and len(line) <= LONGEST
    names = objects["Run"].plot.names()
    assert isinstance(names, list) and all(isinstance(name, str) for name in names)
    method, _, name = names[0].partition(".")
    assert len(getattr(objects["Run"].plot, method)(name).data)

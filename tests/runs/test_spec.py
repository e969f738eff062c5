"""Tests of misspelled specs, and of the lines that reproduce a run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from skillviz.errors import BadInput
from skillviz.runs.spec import RunSpec, read_spec
from tests.refused import refused

PAIR = {"base": "org/base", "finetuned": "out/tuned", "task": "sst2"}
LATER = {
    "others": ("imdb",), "lean": True, "data_parallel": 2, "cuda_graphs": True, "nulls": "all", "null_draws": 3,
    "gain": 2.0, "outside": "another-run",
}  # fmt: skip
"""Fields that came later: a spec with their default is stored, and has the key, as before them."""


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("sizes", [10646, 0.001, "0.1%"], ("10646", "0.001", "0.1%")), ("sizes", 0.00001, ("1e-05",)),
        ("others", "imdb", ("imdb",)), ("outside", "r", '{"run":"r"}'), ("outside", {"run": "r"}, '{"run":"r"}'),
    ],
    ids=str,
)  # fmt: skip
def test_values_of_a_yaml_file_become_what_would_be_typed(field: str, given: Any, kept: Any) -> None:
    assert getattr(RunSpec(**PAIR, **{field: given}), field) == kept


test_a_spec_is_frozen = refused(ValidationError, ("frozen", setattr, RunSpec(**PAIR), "seed", 3))
test_a_wrong_field_is_one_sentence_that_names_it = refused(
    BadInput,
    ("^[^\n]*localizer[^\n]*$", read_spec, {**PAIR, "localiser": "movement"}),
    ("^[^\n]*seed[^\n]*$", read_spec, {**PAIR, "seed": -1}),
    ("^[^\n]*sizes[^\n]*$", read_spec, {**PAIR, "sizes": []}),
    ("^[^\n]*readout[^\n]*$", read_spec, {**PAIR, "readout": "cls"}),
    ("^[^\n]*base[^\n]*$", read_spec, {**PAIR, "base": ""}),
    ("^[^\n]*steps[^\n]*$", read_spec, {**PAIR, "steps": 0}),
    ("^[^\n]*device[^\n]*$", read_spec, {**PAIR, "device": "tpu"}),
    ("^[^\n]*finetuned[^\n]*$", read_spec, {"base": "b", "task": "t"}),
    ("^[^\n]*nulls[^\n]*$", read_spec, {**PAIR, "nulls": "mixed"}),
    *(
        (f"^.*{gain}.* and must be fit, kinds, or a number from 0 to 1000[^\n]*$", read_spec, {**PAIR, "gain": gain})
        for gain in ("many", -1, 1001, float("nan"), None)
    ),
    ("'outside' of the run cannot be used: .* not a part of a region expression", read_spec,
     {**PAIR, "outside": '{"layer": [0]}'}),
)  # fmt: skip


def test_the_key_hangs_on_every_field_and_on_nothing_else() -> None:
    spec = RunSpec(**PAIR)
    changes = {
        "base": "x", "finetuned": "x", "task": "x", "readout": "head", "localizer": "movement", "options": {"a": 1},
        "sizes": ("1%",), "seed": 1, "data_seed": 1, "k_shot": 4, "steps": 5, "batch_size": 5, "device": "cpu",
        "dtype": "bfloat16", "autocast": "bfloat16", "max_train": 5, "max_validation": 5, "max_test": 5,
        "interpolation": True, **LATER,
    }  # fmt: skip
    assert changes.keys() == RunSpec.model_fields.keys()
    keys = {RunSpec(**{**PAIR, name: value}).key() for name, value in changes.items()}
    assert len(keys | {spec.key()}) == len(changes) + 1
    assert RunSpec(**dict(reversed(PAIR.items()))).key() == spec.key()
    assert RunSpec(**PAIR, options={"a": 1, "b": 2}).key() == RunSpec(**PAIR, options={"b": 2, "a": 1}).key()


def test_a_field_that_came_later_and_is_not_used_changes_no_key() -> None:
    plain, said = RunSpec(**PAIR), read_spec({**PAIR, "others": [], "nulls": "none", "outside": ""})
    assert json.loads(plain.json_text()).keys() == RunSpec.model_fields.keys() - LATER
    assert said.json_text() == plain.json_text()


def test_the_command_survives_a_shell() -> None:
    spec = RunSpec(
        base="my models/base; rm -rf x", finetuned="t", task="my task.yaml", sizes=("0.1%", "5"), seed=3,
        localizer="learned", options={"base": "empty"}, interpolation=True, max_test=100,
        others=("imdb", "my other.yaml"), cuda_graphs=True, lean=True, dtype="own", data_parallel=2, gain=2,
    )  # fmt: skip
    words = shlex.split(spec.command())
    said = {flag: [words[i + 1] for i, word in enumerate(words) if word == flag] for flag in words if flag[:2] == "--"}
    flags = ("--interpolation", "--cuda-graphs", "--lean")
    assert words[:4] == ["python", "-m", "skillviz", "localize"] and set(flags) <= set(words)
    assert {flag: values for flag, values in said.items() if flag not in flags} == {
        "--base": ["my models/base; rm -rf x"], "--finetuned": ["t"], "--task": ["my task.yaml"],
        "--method": ["learned"], "--size": ["0.1%", "5"], "--seed": ["3"], "--max-test": ["100"],
        "--option": ['base="empty"'], "--also": ["imdb", "my other.yaml"], "--dtype": ["own"],
        "--data-parallel": ["2"], "--gain": ["2.0"], "--nulls": ["none"],
    }  # fmt: skip


def test_the_python_line_gives_the_same_spec_back() -> None:
    spec = RunSpec(
        **PAIR, sizes=("0.1%", "5"), seed=3, readout="head", options={"lr": 0.5}, max_train=9, others="imdb",
        cuda_graphs=True,
    )  # fmt: skip
    code = spec.python().replace("import skillviz\n", "").replace("skillviz.localize", "RunSpec")
    scope: dict[str, object] = {"RunSpec": RunSpec}
    exec(code, scope)
    assert scope["run"] == spec


def test_paths_of_a_folder_mean_the_same_from_any_other(tmp_path: Path) -> None:
    for name in ("a", "b", "cr"):
        (tmp_path / name).mkdir()
    (tmp_path / "task.yaml").touch()
    spec = read_spec({"base": "a", "finetuned": "b", "task": "task.yaml", "others": ("cr",)}).anchored(tmp_path)
    paths = (str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "task.yaml"))
    assert (spec.base, spec.finetuned, spec.task) == paths
    assert spec.others == ("cr",), "a name of a task is no path"
    hub = read_spec({"base": "org/base", "finetuned": "examples/models/minilm-l6", "task": "cr"})
    assert hub.anchored(tmp_path) == hub

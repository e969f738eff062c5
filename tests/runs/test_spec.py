"""Tests of misspelled specs, and of the lines that reproduce a run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from pydantic import ValidationError

from skillviz.errors import BadInput
from skillviz.runs.spec import RunSpec, read_spec

PAIR = {"base": "org/base", "finetuned": "out/tuned", "task": "sst2"}


def test_numbers_of_a_yaml_file_become_what_would_be_typed() -> None:
    assert RunSpec(**PAIR, sizes=[10646, 0.001, "0.1%"]).sizes == ("10646", "0.001", "0.1%")
    assert RunSpec(**PAIR, sizes=0.00001).sizes == ("1e-05",)


def test_a_spec_is_frozen() -> None:
    with pytest.raises(ValidationError):
        RunSpec(**PAIR).seed = 3


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"localiser": "movement"}, "localizer"),
        ({"seed": -1}, "seed"),
        ({"sizes": []}, "sizes"),
        ({"readout": "cls"}, "readout"),
        ({"base": ""}, "base"),
        ({"steps": 0}, "steps"),
        ({"device": "tpu"}, "device"),
    ],
)
def test_a_wrong_field_is_one_sentence_that_names_it(wrong: dict[str, object], word: str) -> None:
    with pytest.raises(BadInput, match=word) as caught:
        read_spec({**PAIR, **wrong})
    assert "\n" not in str(caught.value)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(BadInput, match="finetuned"):
        read_spec({"base": "b", "task": "t"})


def test_the_key_hangs_on_every_field_and_on_nothing_else() -> None:
    spec = RunSpec(**PAIR)
    changes = {
        "base": "x", "finetuned": "x", "task": "x", "readout": "head", "localizer": "movement", "options": {"a": 1},
        "sizes": ("1%",), "seed": 1, "data_seed": 1, "k_shot": 4, "steps": 5, "batch_size": 5, "device": "cpu",
        "dtype": "bfloat16", "autocast": "bfloat16", "max_train": 5, "max_validation": 5, "max_test": 5,
        "interpolation": True, "others": ("imdb",), "lean": True, "data_parallel": 2,
        "cuda_graphs": True, "nulls": "all", "null_draws": 3, "gain": 2.0,
        "outside": "another-run",
    }  # fmt: skip
    assert changes.keys() == RunSpec.model_fields.keys()
    keys = {RunSpec(**{**PAIR, name: value}).key() for name, value in changes.items()}
    assert len(keys | {spec.key()}) == len(changes) + 1
    assert RunSpec(**dict(reversed(PAIR.items()))).key() == spec.key()
    assert RunSpec(**PAIR, options={"a": 1, "b": 2}).key() == RunSpec(**PAIR, options={"b": 2, "a": 1}).key()


def test_a_field_that_is_not_used_changes_no_key() -> None:
    assert RunSpec(**PAIR).key() == read_spec({**PAIR, "others": [], "nulls": "none"}).key()
    assert RunSpec(**PAIR).others == () and '"others"' not in RunSpec(**PAIR).json_text()
    assert RunSpec(**PAIR, others="imdb").others == ("imdb",)


def test_the_command_survives_a_shell() -> None:
    spec = RunSpec(
        base="my models/base; rm -rf x", finetuned="t", task="my task.yaml", sizes=("0.1%", "5"), seed=3,
        localizer="learned", options={"base": "empty"}, interpolation=True, max_test=100,
        others=("imdb", "my other.yaml"),
    )  # fmt: skip
    words = shlex.split(spec.command())
    assert words[:4] == ["python", "-m", "skillviz", "localize"]
    assert words[words.index("--base") + 1] == "my models/base; rm -rf x"
    assert [words[i + 1] for i, w in enumerate(words) if w == "--size"] == ["0.1%", "5"]
    assert words[words.index("--seed") + 1] == "3"
    assert words[words.index("--max-test") + 1] == "100"
    assert words[words.index("--option") + 1] == 'base="empty"'
    assert "--interpolation" in words
    assert [words[i + 1] for i, w in enumerate(words) if w == "--also"] == ["imdb", "my other.yaml"]
    assert "--batch-size" not in words


def test_the_python_line_gives_the_same_spec_back() -> None:
    spec = RunSpec(**PAIR, sizes=("0.1%", "5"), seed=3, readout="head", options={"lr": 0.5}, max_train=9, others="imdb")
    code = spec.python().replace("import skillviz\n", "").replace("skillviz.localize", "RunSpec")
    scope: dict[str, object] = {"RunSpec": RunSpec}
    exec(code, scope)
    assert scope["run"] == spec


def test_paths_of_a_folder_mean_the_same_from_any_other(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "task.yaml").touch()
    (tmp_path / "cr").mkdir()
    spec = read_spec({"base": "a", "finetuned": "b", "task": "task.yaml", "others": ("cr",)}).anchored(tmp_path)
    assert (spec.base, spec.finetuned) == (str(tmp_path / "a"), str(tmp_path / "b"))
    assert spec.task == str(tmp_path / "task.yaml") and spec.others == ("cr",), "a name of a task is no path"
    hub = read_spec({"base": "org/base", "finetuned": "examples/models/minilm-l6", "task": "cr"})
    assert hub.anchored(tmp_path) == hub

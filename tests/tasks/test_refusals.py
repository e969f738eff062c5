"""Tests of errors in a field: one sentence with the value and the allowed ones."""

from __future__ import annotations

from typing import Any

import pytest

from skillviz.core.draws import LARGEST_SEED
from skillviz.errors import BadInput
from skillviz.models.finetune.training_config import TrainingConfig
from skillviz.runs.score import read_score_spec
from skillviz.runs.spec import RunSpec, read_spec
from skillviz.studies.finetuned_model import read_finetuned

RUN = {"base": "b", "finetuned": "f", "task": "t"}
MEMBER = {"base": "b", "tasks": ("t",)}

WRONG: list[tuple[Any, dict[str, Any], dict[str, Any], str]] = [
    (read_finetuned, MEMBER, {"lr": 0}, "'lr' of the fine-tuned model cannot be used: it is 0, and must be above 0."),
    (read_finetuned, MEMBER, {"lr": float("nan")}, "it is nan, and must be a finite number."),
    (read_finetuned, MEMBER, {"lr": "fast"}, "it is 'fast', and must be a number."),
    (read_finetuned, MEMBER, {"seed": LARGEST_SEED + 1}, "must be 4,294,967,295 or less."),
    (read_finetuned, MEMBER, {"tasks": ()}, "must not be empty."),
    (read_finetuned, MEMBER, {"head": "linear", "readout": "prompt"}, "the prompt readout has no classification head"),
    (read_finetuned, MEMBER, {"tasks": ("t", "t"), "recipe": "multi-task"}, "the task 't' is given twice"),
    (read_spec, RUN, {"steps": 0}, "'steps' of the run cannot be used: it is 0, and must be 1 or more."),
    (read_spec, RUN, {"steps": 1.5}, "it is 1.5, and must be a whole number."),
    (read_spec, RUN, {"device": "gpu"}, "it is 'gpu', and must be auto, cpu, cuda"),
    (read_spec, RUN, {"readout": "x" * 200}, "x..., and must be one of 'prompt', 'head' or 'causal'."),
    (read_spec, RUN, {"sizes": []}, "give at least one size."),
    (read_spec, {"base": "b", "task": "t"}, {}, "'finetuned' of the run cannot be used: it must be given."),
    (read_spec, RUN, {"seed": LARGEST_SEED + 1}, "'seed' of the run cannot be used: it is 4294967296"),
    (read_spec, RUN, {"data_seed": 2**70}, "must be 4,294,967,295 or less."),
    (read_spec, RUN, {"interpolation": "perhaps"}, "must be true or false."),
    (read_spec, RUN, {"options": [1]}, "must be a mapping of names to values."),
    (
        read_score_spec,
        RUN,
        {"max_test": -1},
        "'max_test' of the scores cannot be used: it is -1, and must be 1 or more",
    ),
]


@pytest.mark.parametrize(("read", "good", "bad", "says"), WRONG, ids=[says[:50] for *_, says in WRONG])
def test_a_wrong_field_is_one_sentence_of_ours(read: Any, good: Any, bad: Any, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        read({**good, **bad})
    said = str(caught.value)
    assert says in said and "Input should" not in said and "\n" not in said and said.endswith(".")


def test_the_largest_seed_can_be_used_and_no_larger_one() -> None:
    assert read_spec({**RUN, "seed": LARGEST_SEED}).seed == read_finetuned({**MEMBER, "seed": LARGEST_SEED}).seed
    assert TrainingConfig(seed=LARGEST_SEED).settings().seed == LARGEST_SEED
    for seed in (-1, LARGEST_SEED + 1, 9223372036854775):
        with pytest.raises(BadInput, match="give a whole number from 0 to 4,294,967,295"):
            TrainingConfig(seed=seed).settings()


def test_a_stored_run_of_a_larger_seed_can_still_be_read() -> None:
    assert RunSpec(**RUN, seed=LARGEST_SEED + 1).seed == LARGEST_SEED + 1

"""Tests of a study's subject, from its file: studies with other bases, readouts, files or models are different."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.studies.spec import StudySpec
from skillviz.studies.subject import Subject, bases_of, place, rows_of_base, subject
from skillviz.tasks.project import project_root
from tests.studies.fake_tables import BASE, FAKE_TABLES, TASKS

TASK = "examples/tasks/mr.yaml"


def about(**changed: Any) -> Subject:
    """Return the subject of a study with one entry; fields of None are omitted."""
    return subject(
        StudySpec(
            name="x",
            runs=(
                {
                    name: value
                    for name, value in {
                        "base": BASE, "readout": "head", "task": TASK, "finetuned": "models/film-reviews", **changed,
                    }.items()
                    if value is not None
                },
            ),
        )
    )  # fmt: skip


def own_task(folder: Path, name: str = "mr") -> str:
    """Write a user's task file with this name; return its path."""
    file = folder / "task.yaml"
    file.write_text(f"name: {name}\n")
    return str(file)


def test_a_study_names_bases_readouts_files_and_models() -> None:
    found = about(also=["examples/tasks/uci_yelp.yaml"], region={"task": "examples/tasks/snli.yaml"}, finetuned=BASE)
    base, hub = str(project_root() / BASE), "some/model-on-the-hub"
    assert found.bases == {base}
    assert found.readouts == {"head"}
    assert found.models == {"mr": {base}}
    assert set(found.tasks) == {"mr", "uci_yelp", "snli"}
    assert place(hub) == hub


def test_a_task_of_one_name_from_another_file_does_not_go_with_it(tmp_path: Path) -> None:
    assert not about().goes_with(about(task=own_task(tmp_path)))
    other = about(task=own_task(tmp_path, "another"), finetuned=None)
    assert about().goes_with(other) and set(about().with_tasks_of(other).tasks) == {"mr", "another"}


MADE: dict[str, Any] = {"finetuned": None, "recipe": "sgd", "finetune": {"steps": 60}}


@pytest.mark.parametrize(
    ("one", "other", "goes"),
    [
        ({}, {"base": str(project_root() / BASE), "task": str(project_root() / TASK)}, True),
        *(
            ({}, other, False)
            for other in (
                {"base": "roberta-base"},
                {"readout": "prompt"},
                {"finetuned": None, "recipe": "sgd"},
                {"finetuned": "elsewhere/film-reviews"},
                {"base": [BASE, "roberta-base"]},
            )
        ),
        ({**MADE, "finetune": {"steps": 60, "seed": 0}}, {**MADE, "finetune": {"steps": 60, "seed": [0, 1]}}, True),
        ({**MADE, "finetune": {"steps": 60, "seed": 0}}, {**MADE, "finetune": {"steps": 600, "seed": 0}}, False),
        (MADE, {**MADE, "recipe": "bitfit", "finetune": {"steps": 600}}, True),
        *(
            case
            for cap in ("max_train", "max_validation", "max_test")
            for case in (
                ({**MADE, cap: 50}, {**MADE, cap: 50}, True),
                ({**MADE, cap: 50}, MADE, False),
                ({**MADE, cap: 50}, {**MADE, cap: 60}, False),
                ({**MADE, "finetune": {"steps": 60, cap: 50}}, {**MADE, cap: 50}, True),
                (
                    {**MADE, "finetune": {"steps": 60, cap: 50}},
                    {**MADE, "finetune": {"steps": 60, cap: 50}, cap: 9},
                    True,
                ),
            )
        ),
    ],
)
def test_studies_go_together_if_base_readout_and_models_are_the_same_but_for_their_seeds(
    one: dict[str, Any], other: dict[str, Any], goes: bool
) -> None:
    """A base, a task and a model are the same however their paths are written."""
    assert (about(**one).goes_with(about(**other)), about(**other).goes_with(about(**one))) == (goes, goes)


def test_one_of_several_bases_goes_with_studies_of_it_alone() -> None:
    one = about(base=[BASE, "roberta-base"]).of("roberta-base")
    assert one.goes_with(about(base="roberta-base")) and not one.goes_with(about())


def test_scores_of_another_base_are_left_out() -> None:
    scores = FAKE_TABLES["scores"](TASKS, np.random.default_rng(0))
    both = pd.concat([scores, scores.assign(base="my/base")], ignore_index=True)
    assert bases_of(both) == [BASE, "my/base"] and bases_of(pd.DataFrame()) == []
    pd.testing.assert_frame_equal(rows_of_base(both, BASE), scores)
    assert (len(rows_of_base(both, str(project_root() / BASE))), set(rows_of_base(both, "my/base")["base"])) == (
        len(scores),
        {"my/base"},
    )

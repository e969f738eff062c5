"""Tests of the settings that differ from the paper: a scale has its own texts, a user's study has computed ones."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillviz.errors import BadInput
from skillviz.runs.store import Store
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.request import EDITED, is_as_requested, setting_differences, study_of
from skillviz.studies.paper.scales import SCALES, Scale, scale
from skillviz.studies.spec import StudySpec, read_study
from tests.studies.tiny_studies import tiny_scale

STORED = sorted(Path("cached_runs/studies").glob("*/study.yaml"))
FALSE_ELSEWHERE = ("10.6 million", "examples/", "the stored pair")


def here(name: str, at: Scale) -> dict[str, str]:
    """Return the study's settings by aspect."""
    return {row.aspect: row.here for row in EXPERIMENTS[name].differences(at)}


def requested(name: str = "table2", at: str = "small", **replaced: Any) -> StudySpec:
    """Return the study of an experiment with these fields replaced."""
    return StudySpec(**EXPERIMENTS[name].build(scale(at).with_choices(**replaced)))


@pytest.mark.parametrize("at", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_aspect_is_one_row_with_the_model_first(name: str, at: str) -> None:
    """The model of the paper's scale is the paper's."""
    rows, told = EXPERIMENTS[name].differences(scale(at)), here(name, scale(at))
    assert len(told) == len(rows) and [row for row in rows if not row.here or row.here == row.paper] == []
    first, is_other = (rows[0].aspect, rows[0].here), at != "paper"
    assert ("Model" in told, first == ("Model", scale(at).about_base)) == (is_other, is_other)
    assert told["Data"].startswith(scale(at).about_data)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_nothing_of_the_scale_is_said_of_other_models_and_tasks(name: str, tmp_path: Path) -> None:
    files = tuple(str(tmp_path / task / "task.yaml") for task in ("cafe", "bakery"))
    for file in map(Path, files):  # models of several tasks are named by the names in their files
        file.parent.mkdir()
        file.write_text(f"name: {file.parent.name}\n")
    own = scale("small").with_choices(base="org/mine", tasks=files, readout="head")
    own = replace(own, shifts={files[0]: (files[1],), files[1]: (files[0],)})
    with suppress(BadInput):  # some experiments need one model per task, others one of several tasks
        EXPERIMENTS[name].build(replace(own, seeds=2))
        own = replace(own, seeds=2)
    rows = here(name, own)
    assert rows["Model"] == "org/mine" and rows["Data"].startswith("cafe and bakery")
    assert not [words for words in FALSE_ELSEWHERE if words in " ".join(rows.values())]


SMALL = scale("small")
TRAINED = "plain SGD, 5,000 steps of 16 examples at the rate 0.04"
OTHERWISE = [
    ("table2", {"readout": "head"}, "Readout", "classification head.*"),
    ("table4", {}, "Fine-tuning", ".*on one task after the other.*"),
    ("table4", {}, "Localizer", ".*; 1 mask seed"),
    ("figure3", {"readout": "prompt"}, "Readout", "prompt and classification head.*"),
    ("figure7", {}, "Shifts", "mr to cr, uci_yelp, uci_amazon and uci_imdb"),
    ("table8", {"tasks": ("subj",)}, "Tasks", "subj"),
    ("table1", {"base": "org/mine"}, "Training of few parameters",
     r"(?!.*validation).*BitFit at 0\.2 and LoRA \(rank 8\) at 0\.001; 3,000 steps.*"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "chosen", "aspect", "words"), OTHERWISE)
def test_what_an_experiment_does_otherwise_than_its_scale_is_told(
    name: str, chosen: dict[str, Any], aspect: str, words: str
) -> None:
    assert re.fullmatch(words, here(name, SMALL.with_choices(**chosen))[aspect])


def test_the_paper_s_own_base_and_readout_are_no_difference() -> None:
    rows = here("table2", SMALL.with_choices(base="FacebookAI/roberta-base", readout="prompt"))
    causal = EXPERIMENTS["table2"].differences(SMALL.with_choices(readout="causal"))
    assert not {"Model", "Readout"} & set(rows)
    assert {row.aspect: row.paper for row in causal}["Region size"] == "0.05% (GPT-2)"


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"tasks": ("subj",)}, "the stored pair of each task; 1 seed"),
        ({"tasks": ("mine.yaml",), "seeds": 2}, f"{TRAINED}; 2 seeds"),
        ({"tasks": ("mine.yaml",), "finetuned": "mine/tuned"}, "mine/tuned as given; 1 seed"),
        ({"tasks": ("mine.yaml", "subj")}, f"the stored pair of subj, else {TRAINED}; 1 seed"),
    ],
)
def test_fine_tuning_tells_the_model_that_is_given_the_stored_pair_or_how_it_is_trained(
    chosen: dict[str, Any], words: str, tmp_path: Path
) -> None:
    (tmp_path / "subj-sgd").mkdir()
    assert here("table2", replace(SMALL, stored=str(tmp_path)).with_choices(**chosen))["Fine-tuning"] == words


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((0.001,), "0.1%"),
        ((0.03, 0.001, 0.01), "0.1% to 3%"),
    ],
)
def test_sizes_are_told_from_the_smallest_to_the_largest(sizes: tuple[float, ...], words: str) -> None:
    assert here("figure9", replace(scale("small"), sizes=sizes))["Region size"] == words


def test_a_study_with_other_entries_says_only_that() -> None:
    study = requested("figure6")
    changes = ({}, {"runs": tuple({**run, "seed": [0]} for run in study.runs)}, {"request": None})
    said = [setting_differences(study.model_copy(update=change)) for change in changes]
    assert said == [EXPERIMENTS["figure6"].differences(SMALL), (EDITED,), ()]


@pytest.mark.parametrize(
    "wrong",
    [{"finetune": "fast"}, {"region": "key:abc"}, {"recipe": "bitfit", "finetune": {"lr": "x"}},
     {"k_shot": ["few"]}, {"max_train": "most"}, {"task": [{"a": 1}]}],
)  # fmt: skip
def test_a_study_that_was_wrongly_edited_is_refused_in_a_sentence(wrong: dict[str, Any]) -> None:
    content = requested("figure6", "small").model_dump()
    study = StudySpec(**{**content, "runs": [{**run, **wrong} for run in content["runs"]]})
    with pytest.raises(BadInput, match="entry 1 of runs"):
        setting_differences(study)


def test_a_scale_of_ones_own(tmp_path: Path) -> None:
    rows = here("table3", tiny_scale(tmp_path))
    assert rows["Shifts"].endswith(" to other") and rows["Model"] == str(tmp_path / "base")


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_a_stored_study_is_as_requested_or_says_that_it_is_not(path: Path, tmp_path: Path) -> None:
    study = read_study(path)
    if is_as_requested(study):
        assert study.request is not None and study_of(study.request, Store(tmp_path))[2] == study
    else:
        assert setting_differences(study) == (() if study.request is None else (EDITED,))


def test_there_are_stored_studies() -> None:
    assert len(STORED) > 5

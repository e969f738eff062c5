"""Tests of the methods page: its sentence claims only what its intervals support, and its command is right."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from skillviz.analysis.method_points import OTHERS, Selection
from skillviz.errors import BadInput
from skillviz.runs.store import Store
from skillviz.studies.paper.request import study_of
from skillviz.studies.paper.scales import SMALL
from skillviz.studies.spec import ExperimentRequest, StudySpec
from skillviz.studies.subject import place, subject
from skillviz.tasks.project import located
from skillviz.ui.chip import lead_of
from skillviz.ui.pages import methods
from skillviz.ui.pages.methods import OTHER, transfer_command
from tests.ui.test_chip import chips

MR = {
    "base": SMALL.base, "readout": "head", "task": "examples/tasks/mr.yaml", "finetuned": None, "recipe": "sgd",
}  # fmt: skip
MADE = {"finetuned": None, "recipe": "sgd"}
SUBJ = {"task": "examples/tasks/subj.yaml"}


def command(of: str = "mr", **changed: Any) -> tuple[str, bool]:
    entry = {name: value for name, value in {**MR, **changed}.items() if value is not None}
    return transfer_command(SMALL, subject(StudySpec(name="x", runs=(entry,))), str(entry["base"]), of)


def test_the_scales_own_study_needs_no_more_than_the_experiment() -> None:
    assert command() == ("python -m skillviz reproduce table3 --scale small", True)


def test_a_base_and_readout_of_ones_own_are_named() -> None:
    line, is_whole = command(base="my/base", readout="prompt", **MADE)
    assert is_whole and line.endswith("--scale small --base my/base --readout prompt --tasks mr")


def test_a_fine_tuned_model_of_ones_own_is_named(tmp_path: Path) -> None:
    assert command(finetuned=str(tmp_path))[0].endswith(f"--finetuned {tmp_path} --tasks mr")


def test_a_task_without_other_data_leaves_them_to_be_named(tmp_path: Path) -> None:
    line, is_whole = command("subj", **SUBJ)
    assert not is_whole and line.endswith("--scale small --tasks subj --also OTHER.yaml")
    file = tmp_path / "my task.yaml"
    file.write_text("name: mine\n")
    line, is_whole = command("mine", base="my/base", task=str(file), **MADE)
    assert not is_whole and shlex.split(line)[-4:] == ["--tasks", str(file), "--also", OTHER]


@pytest.mark.parametrize(("base", "task"), [(SMALL.base, "mr"), ("my/base", "mr"),
                                            (SMALL.base, "cr")])  # fmt: skip
def test_the_command_asks_for_scores_on_other_data(base: str, task: str, tmp_path: Path) -> None:
    line, is_whole = command(task, base=base, task=f"examples/tasks/{task}.yaml", **MADE)
    _, _, study = study_of(_request(line), Store(tmp_path))
    assert is_whole and any("uci_yelp" in str(entry.get("others")) for entry in study.runs)
    assert {place(str(entry["base"])) for entry in study.runs} == {place(base)}
    assert any(task in str(entry["task"]) for entry in study.runs)


def test_with_other_data_in_the_place_of_the_word_the_command_takes_them(tmp_path: Path) -> None:
    line, _ = command("cr", base="my/base", task="examples/tasks/cr.yaml", **MADE)
    subj, _ = command("subj", base="my/base", task=SUBJ["task"], **MADE)
    assert OTHER not in line and OTHER in subj
    with pytest.raises(BadInput, match="which no requested task can be scored on"):
        study_of(_request(subj.replace(OTHER, str(MR["task"]))), Store(tmp_path))
    other = tmp_path / "other.yaml"
    other.write_text(located(SUBJ["task"]).read_text().replace("name: subj", "name: other"))
    _, _, study = study_of(_request(subj.replace(OTHER, str(other))), Store(tmp_path))
    assert all(entry["task"] == SUBJ["task"] and str(other) in str(entry) for entry in study.runs)


def _request(line: str) -> ExperimentRequest:
    """Return the request in a command."""
    words = shlex.split(line)
    options = dict(zip(words[5::2], words[6::2], strict=True))
    lists = {name: (options[f"--{name}"],) for name in ("tasks", "also") if f"--{name}" in options}
    base, readout = options.get("--base"), options.get("--readout")
    return ExperimentRequest(words[4], options["--scale"], base, readout=readout, **lists)


SELECTION = Selection("mr", "all", "stagewise")


def difference(method: str, metric: str, value: float) -> dict[str, object]:
    row = {"method": method, "metric": metric, "value": value, "low": value - 0.01, "high": value + 0.01}
    return {**row, "debiased": float("nan"), "n": 100, "seeds": 3}


METRICS = ("accuracy", "ece")


def further(differences: pd.DataFrame) -> str:
    """Return the verdicts after the headline's, judged together."""
    return methods.further_words(methods.judged(differences, METRICS), METRICS)


def said(differences: pd.DataFrame) -> str:
    """Return the page's sentence, without the signs of its one chip."""
    sentence = methods.comparison(lead_of(differences, "accuracy", "method", OTHERS), SELECTION, 0.001)
    assert sentence.count("-badge[") == 1
    return chips(sentence).replace("\N{NO-BREAK SPACE}", " ")


def test_the_sentence_claims_only_what_an_interval_allows() -> None:
    rows = [difference("graft_retrain", "accuracy", 0.02), difference("graft_retrain", "ece", 0.005)]
    rows += [difference("bitfit", "accuracy", -0.03), difference("bitfit", "ece", 0.04)]
    frame = pd.DataFrame(rows)
    assert said(frame) == (
        "**MR**: accuracy of **region re-trained** better +2.0 points (95%: 1.0–3.0) vs a graft of **0.1%**."
    )
    rest = chips(further(frame))
    assert "Accuracy: **BitFit** worse −3.0 points (−4.0 to −2.0)\n" in rest.replace("  \n", "\n")
    assert "No stored study" not in rest
    ece = rest.partition("ECE: ")[2]
    assert "**BitFit** worse +4.0 points" in ece and "**region re-trained** no clear difference" in ece


def test_another_choice_of_a_region_is_told_and_is_no_other_method() -> None:
    rows = [("graft_movement", metric, -0.2, -0.22, -0.18, 100, 3) for metric in ("accuracy", "ece")]
    frame = pd.DataFrame(rows, columns=["method", "metric", "value", "low", "high", "n", "seeds"]).assign(
        debiased=float("nan")
    )
    assert "worse −20.0 points (95%: −22.0 to −18.0)" in said(frame)
    assert "No stored study" in further(frame)
    both = pd.concat([frame, frame.assign(method="bitfit")], ignore_index=True)
    assert "No stored study" not in further(both)


def test_verdicts_are_judged_among_the_other_methods_in_the_metrics_shown() -> None:
    rows = [difference("lora", "accuracy", 0.0101), difference("pretrained", "accuracy", -0.3)]
    rows += [
        difference("bitfit", "accuracy", 0.001),
        difference("bitfit", "ece", 0.001),
        difference("lora", "nll", 0.5),
    ]
    frame = methods.judged(pd.DataFrame(rows), METRICS)
    assert frame["holds"].isna().tolist() == [False, True, False, False, True]
    assert not frame["holds"].fillna(False).any(), "1 of 3 whose interval barely excludes zero"
    assert chips(methods.comparison(frame.head(1).assign(metric="accuracy"), SELECTION, 0.001)).count("better†") == 1
    assert "0 hold at a false discovery rate of 5%. Verdicts marked † do not." in further(pd.DataFrame(rows))
    clear = pd.DataFrame([difference("lora", "accuracy", 0.3), difference("bitfit", "accuracy", 0.001)])
    assert "†" not in further(clear) and methods.judged(clear, METRICS)["holds"].tolist() == [True, False]

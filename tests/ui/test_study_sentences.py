"""Tests of the sentences of methods, tasks and sequences: a claim needs an interval that excludes zero. The command of
the methods page is right."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.method_points import OTHERS, Selection
from skillviz.errors import BadInput
from skillviz.plots.tasks import CHOSEN, SINGLE, UNION_OF
from skillviz.runs.store import Store
from skillviz.show import tasks as exhibits
from skillviz.studies.paper.request import study_of
from skillviz.studies.paper.scales import SMALL
from skillviz.studies.spec import ExperimentRequest, StudySpec
from skillviz.studies.subject import place, subject
from skillviz.tasks.project import located
from skillviz.ui.chip import lead_of
from skillviz.ui.pages import continual, methods, tasks
from tests.refused import refuses
from tests.tables import check, plain, says
from tests.ui.test_chip import chips

MR = {"base": SMALL.base, "readout": "head", "task": "examples/tasks/mr.yaml", "recipe": "sgd"}
SUBJ = "examples/tasks/subj.yaml"


def command(of: str = "mr", **changed: Any) -> tuple[str, bool]:
    entry = {**MR, **changed}
    return methods.transfer_command(SMALL, subject(StudySpec(name="x", runs=(entry,))), str(entry["base"]), of)


@pytest.mark.parametrize(
    ("of", "changed", "more", "is_whole"),
    [
        ("mr", {}, "", True),
        ("mr", {"base": "my/base", "readout": "prompt"}, " --base my/base --readout prompt --tasks mr", True),
        ("mr", {"finetuned": "FOLDER"}, " --finetuned FOLDER --tasks mr", True),
        ("subj", {"task": SUBJ}, " --tasks subj --also OTHER.yaml", False),
        ("mine", {"base": "my/base", "task": "FOLDER/my task.yaml"},
         f" --base my/base --tasks 'FOLDER/my task.yaml' --also {methods.OTHER}", False),
    ],
    ids=["the scale's own", "a base and readout", "a fine-tuned model", "no other data", "a task without other data"],
)  # fmt: skip
def test_the_command_names_what_is_ones_own(
    of: str, changed: dict[str, str], more: str, is_whole: bool, tmp_path: Path
) -> None:
    (tmp_path / "my task.yaml").write_text("name: mine\n")
    line, whole = command(of, **{name: value.replace("FOLDER", str(tmp_path)) for name, value in changed.items()})
    wanted = f"python -m skillviz reproduce table3 --scale small{more}".replace("FOLDER", str(tmp_path))
    assert (shlex.split(line), whole) == (shlex.split(wanted), is_whole)


@pytest.mark.parametrize(("base", "task"), [(SMALL.base, "mr"), ("my/base", "mr"),
                                            (SMALL.base, "cr")])  # fmt: skip
def test_the_command_asks_for_scores_on_other_data(base: str, task: str, tmp_path: Path) -> None:
    line, is_whole = command(task, base=base, task=f"examples/tasks/{task}.yaml")
    _, _, study = study_of(_request(line), Store(tmp_path))
    assert is_whole and {place(str(entry["base"])) for entry in study.runs} == {place(base)}
    assert any("uci_yelp" in str(entry.get("others")) for entry in study.runs)
    assert any(task in str(entry["task"]) for entry in study.runs)


def test_with_other_data_in_the_place_of_the_word_the_command_takes_them(tmp_path: Path) -> None:
    line, _ = command("cr", base="my/base", task="examples/tasks/cr.yaml")
    subj, _ = command("subj", base="my/base", task=SUBJ)
    assert methods.OTHER not in line and methods.OTHER in subj
    request = _request(subj.replace(methods.OTHER, MR["task"]))
    refuses(BadInput, "which no requested task can be scored on", study_of, request, Store(tmp_path))
    other = tmp_path / "other.yaml"
    other.write_text(located(SUBJ).read_text().replace("name: subj", "name: other"))
    _, _, study = study_of(_request(subj.replace(methods.OTHER, str(other))), Store(tmp_path))
    assert [entry for entry in study.runs if entry["task"] != SUBJ or str(other) not in str(entry)] == []


def _request(line: str) -> ExperimentRequest:
    words = shlex.split(line)
    options = dict(zip(words[5::2], words[6::2], strict=True))
    lists = {name: (options[f"--{name}"],) for name in ("tasks", "also") if f"--{name}" in options}
    base, readout = options.get("--base"), options.get("--readout")
    return ExperimentRequest(words[4], options["--scale"], base, readout=readout, **lists)


METRICS = ("accuracy", "ece")


def differences(*rows: tuple[str, str, float], half: float = 0.01) -> pd.DataFrame:
    """Return differences from the graft with intervals of this half width."""
    return pd.DataFrame(
        [(method, metric, value, value - half, value + half) for method, metric, value in rows],
        columns=["method", "metric", "value", "low", "high"],
    ).assign(debiased=float("nan"), n=100, seeds=3)


def further(differences: pd.DataFrame) -> str:
    """Return the verdicts after the headline's, judged together."""
    return methods.further_words(methods.judged(differences, METRICS), METRICS)


def with_chips(text: str, count: int = 1) -> str:
    """Return the text, which has so many chips, without their signs."""
    assert text.count("-badge[") == count
    return chips(plain(text))


def said(differences: pd.DataFrame) -> str:
    lead = lead_of(differences, "accuracy", "method", OTHERS)
    return with_chips(methods.comparison(lead, Selection("mr", "all", "stagewise"), 0.001))


def test_the_sentence_claims_only_what_an_interval_allows() -> None:
    frame = differences(
        ("graft_retrain", "accuracy", 0.02), ("graft_retrain", "ece", 0.005), ("bitfit", "accuracy", -0.03),
        ("bitfit", "ece", 0.04),
    )  # fmt: skip
    assert said(frame) == (
        "**MR**: accuracy of **region re-trained** better +2.0 points (95%: 1.0–3.0) vs a graft of **0.1%**."
    )
    of_accuracy, _, of_ece = chips(further(frame)).replace("  \n", "\n").partition("ECE: ")
    check(of_accuracy, ("Accuracy: **BitFit** worse −3.0 points (−4.0 to −2.0)\n",), ("No stored study",))
    check(of_ece, ("**BitFit** worse +4.0 points", "**region re-trained** no clear difference"), ("No stored study",))


def test_another_choice_of_a_region_is_told_and_is_no_other_method() -> None:
    frame = differences(*(("graft_movement", metric, -0.2) for metric in METRICS), half=0.02)
    assert "worse −20.0 points (95%: −22.0 to −18.0)" in said(frame)
    both = pd.concat([frame, frame.assign(method="bitfit")], ignore_index=True)
    assert ["No stored study" in further(rows) for rows in (frame, both)] == [True, False]


def test_verdicts_are_judged_among_the_other_methods_in_the_metrics_shown() -> None:
    rows = differences(
        ("lora", "accuracy", 0.0101), ("pretrained", "accuracy", -0.3), ("bitfit", "accuracy", 0.001),
        ("bitfit", "ece", 0.001), ("lora", "nll", 0.5),
    )  # fmt: skip
    frame = methods.judged(rows, METRICS)
    assert frame["holds"].isna().tolist() == [False, True, False, False, True]
    assert not frame["holds"].fillna(False).any(), "1 of 3 whose interval barely excludes zero"
    assert said(frame.head(1)).count("better†") == 1
    assert "† marks a verdict that may be chance, given the number of comparisons." in further(rows)
    clear = differences(("lora", "accuracy", 0.3), ("bitfit", "accuracy", 0.001))
    assert "†" not in further(clear) and methods.judged(clear, METRICS)["holds"].tolist() == [True, False]


PAIR = [("related", 0.3, 0.25, 0.35), ("unrelated", 0.1, 0.08, 0.12)]


def isolation(*rows: tuple, kind: str = "overlap") -> str:
    frame = pd.DataFrame(rows, columns=["relation", "value", "low", "high"]).assign(
        kind="overlap", chance=0.03, chance_low=0.02, chance_high=0.04, pairs=4, seeds=3
    )
    return with_chips(tasks.isolation(frame, kind), len(rows) > 2)


GAIN = pd.DataFrame(
    [
        ("a", "a", 0.9, 0.8, 1.0), ("b", "b", 0.6, 0.5, 0.7), ("a", "b", 0.3, 0.1, 0.5), ("b", "a", 0.1, -0.1, 0.3),
        ("a", "c", -0.3, -0.5, -0.1), ("ab", "a", 1.0, 0.9, 1.1), ("c", "c", np.nan, np.nan, np.nan),
    ],
    columns=["of", "task", "value", "low", "high"],
)  # fmt: skip
GAIN = GAIN.assign(region_tasks=GAIN.pop("of").map(lambda names: tuple(names)))
UNKNOWN = GAIN.assign(low=np.nan, high=np.nan)
KIN = {("a", "b"): "related", ("b", "a"): "related", ("a", "c"): "unrelated"}
# The ends of a range over tasks are not written as an interval's.
SPAN = (
    "A region recovers between **60.0%** and **90.0%** of the multi-task model's gain on its own task, "
    "depending on the task. "
)


@pytest.mark.parametrize("draw", ["gain", "union"])
def test_figures_of_gains_say_what_their_intervals_are_or_that_there_are_none(draw: str) -> None:
    frames = [frame.assign(purified=False, what=CHOSEN, n=100, seeds=3) for frame in (GAIN, UNKNOWN)]
    drawn = [exhibits.gain(rows, ("a", "b", "c"), "light") if draw == "gain" else
             exhibits.union(rows.drop_duplicates("task"), ("a",), "light") for rows in frames]  # fmt: skip
    said = [(exhibits.NO_INTERVALS in one.reads, "95% interval" in one.reads, bool(one.intervals)) for one in drawn]
    assert said == [(False, True, True), (True, False, False)]


ROWS = pd.DataFrame(
    [("a", UNION_OF, 0.9, 0.8, 1.0), ("b", UNION_OF, 0.2, -0.1, 0.5), ("c", UNION_OF, 0.3, 0.1, 0.5)],
    columns=["task", "what", "value", "low", "high"],
)
OWN = pd.concat([ROWS.assign(what=CHOSEN), ROWS[ROWS["task"] == "b"].assign(what=SINGLE)])
ALONE = UNKNOWN[UNKNOWN["value"].notna()].assign(what=CHOSEN).drop_duplicates("task")


UNTOLD = ("n/a", "interval")
test_what_is_said_of_tasks_is_read_off_the_intervals = says({
    "isolation, more": (
        lambda: isolation(*PAIR, ("related - unrelated", 0.2, 0.1, 0.3)),
        ("^**Related tasks share more** confirmed: related 30.0% (25.0–35.0), unrelated 10.0% (8.0–12.0) "
         "of one region's entries; difference +20.0 points (95%: 10.0–30.0, 3 mask seeds); "
         "by chance 3% (95%: 2–4%).$",),
    ),
    "isolation, less": (
        lambda: isolation(*PAIR, ("related - unrelated", -0.2, -0.3, -0.1)), ("share more** contradicted: ",),
    ),
    "isolation, open": (
        lambda: isolation(*PAIR, ("related - unrelated", 0.2, -0.1, 0.5)), ("share more** inconclusive: ",),
    ),
    "isolation, one seed": (
        lambda: isolation(*PAIR, ("related - unrelated", 0.2, np.nan, np.nan)),
        ("not measured: ", "difference +20.0 points (one mask seed, so no interval)"),
    ),
    "isolation, no kin": (
        lambda: isolation(*PAIR[1:]), ("unrelated 10.0%", "No two of these tasks are of one family"),
    ),
    "isolation, nothing compared": (
        lambda: isolation(*PAIR, kind="iou"), ("^No two regions were compared.$",),
    ),
    # Transfer counts what leaves out nought.
    "transfer, several": (
        lambda: tasks.transfer(GAIN, KIN),
        (SPAN, "In 2 pairs of related tasks, one task's region helps the other in 1 and harms it in 0",
         "In 1 pair of unrelated tasks, one task's region helps the other in 0 and harms it in 1"),
    ),
    "transfer, none": (lambda: tasks.transfer(GAIN.iloc[:0], KIN), ("^$",)),
    "transfer, one task has no span": (
        lambda: tasks.transfer(GAIN.iloc[:1], {}),
        ("^A region recovers **90.0%** of the multi-task model's gain on its own task.",),
    ),
    "transfer, without intervals, said once": (
        lambda: tasks.transfer(UNKNOWN, KIN), (f"^{SPAN}{exhibits.NO_INTERVALS}$",),
    ),
    # A union is told inside and outside, and tasks without a gain are named once.
    "a union": (
        lambda: tasks.union_words(ROWS, ("a", "b"), ()),
        ("The union of a and b recovers **90%** (80–100) on a and **20%** (−10 to 50) on b",
         "outside it, **30%** (10–50) on c.$"), UNTOLD,
    ),
    "a union of one region": (
        lambda: tasks.union_words(OWN, ("a",), ()),
        ("^The region of a recovers **90%** (80–100) on a; outside",), UNTOLD,
    ),
    "a union without an interval": (
        lambda: tasks.union_words(ALONE, ("a",), ()),
        ("^The region of a recovers **90%** on a; outside it, **60%** on b",), UNTOLD,
    ),
    "a union without a gain on one": (
        lambda: tasks.union_words(ROWS.iloc[[0, 2]], ("a", "b"), ("b",)),
        ("^The union of a and b recovers **90%** (80–100) on a; outside it, **30%** (10–50) on c. "
         "On b the multi-task model gains nothing.$",), UNTOLD,
    ),
    "a union without a gain inside": (
        lambda: tasks.union_words(ROWS.iloc[2:], ("a", "b"), ("a", "b")),
        ("^Outside it, the union of a and b recovers **30%** (10–50) on c.",), UNTOLD,
    ),
    "a union without a gain": (
        lambda: tasks.union_words(ROWS.iloc[:0], ("a", "b"), ("a", "b")),
        ("^There is no gain for the union of a and b to recover. On a and b the multi-task model gains nothing.",),
        UNTOLD,
    ),
})  # fmt: skip


LOST = (-0.1, -0.15, -0.05)
NAIVE = ("continual_naive", "independent")


def stages(change: tuple[float, float, float], metric: str = "accuracy") -> pd.DataFrame:
    still = (0.0, 0.0, 0.0)
    rows = [
        (mode, stage, "ab"[stage - 1], task, metric, 0.8, *moved)
        for mode, own in (("naive", change), ("grafting", still))
        for stage, task, moved in ((1, "a", still), (2, "a", own), (2, "b", still))
    ]
    columns = ["mode", "stage", "stage_task", "task", "metric", "value", "change", "change_low", "change_high"]
    return pd.DataFrame(rows, columns=columns)


def told(*rows: tuple) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["a", "b", "metric", "task", "value", "low", "high"])


def beside(stages: pd.DataFrame, told: pd.DataFrame, metric: str) -> str:
    """Return the sentence on the distance to a model of one task, with chips as plain words."""
    return chips(plain(continual.beside_words(stages, told, metric)))


def test_the_headline_has_one_verdict_on_the_task_learned_first() -> None:
    frame = stages(LOST)
    found = told(*(("continual_graft", "continual_naive", "accuracy", task, 0.2, 0.1, 0.3) for task in "ba"))
    assert with_chips(continual.summary(frame, found, "accuracy")) == (
        "Accuracy on the first task after all were learned, training within regions vs naive training: "
        "**a** better +20.0 points (95%: 10.0–30.0)."
    )
    check(
        beside(frame, found, "accuracy"),
        ("**Training within regions** vs naive training. Accuracy: **b** better",), ("**a** better",),
    )  # fmt: skip
    assert "No paired comparison" in continual.summary(frame, told(), "accuracy")
    assert "Fewer than two stages" in continual.summary(frame[frame["stage"] == 1], found, "accuracy")


ROSE = (0.1, 0.05, 0.15)
RELATIVE = told(*(
    (*NAIVE, "accuracy", task, value, value - 0.05, value + 0.05)
    for task, value in (("a", -0.15), ("b", 0.01), ("c", 0.15), ("d", -0.2))
))  # fmt: skip
test_what_is_said_of_stages_has_intervals = says({
    "lost since learned": (
        lambda: continual.since_learned(stages(LOST), "accuracy"),
        ("^- **Naive training**, accuracy since each task was learned: a **lost** 10.0 points (5.0–15.0).\n"
         "- **Training within regions**, accuracy since each task was learned: a is unchanged, prediction by "
         "prediction.$",),
    ),
    "gained since learned": (
        lambda: continual.since_learned(stages(ROSE), "accuracy"), ("a **gained** 10.0 points",),
    ),
    "no clear difference since learned": (
        lambda: continual.since_learned(stages((-0.1, -0.2, 0.01)), "accuracy"),
        ("a −10.0 points (−20.0 to 1.0), no clear difference.",),
    ),
    "rose since learned": (
        lambda: continual.since_learned(stages(ROSE, "ece"), "ece"), ("a **rose** by 10.0 points",),
    ),
    # Tasks are judged beside a model of one task.
    "nothing compared": (lambda: beside(stages(LOST), told(), "accuracy"), (), ("better", "worse")),
    "within regions not compared": (
        lambda: beside(stages(LOST), RELATIVE, "accuracy"),
        ("\n- **Naive training** vs one model per task. Accuracy: **a** worse −15.0 points (−20.0 to −10.0); "
         "**c** better +15.0 points (10.0–20.0); **d** worse −20.0 points (−25.0 to −15.0); "
         "**b** no clear difference\n",),
        ("**Training within regions** vs",),
    ),
    "more ECE is worse": (
        lambda: beside(stages(LOST, "ece"), told((*NAIVE, "ece", "a", *ROSE)), "ece"),
        ("ECE: **a** worse +10.0 points",),
    ),
})  # fmt: skip


def test_comparisons_are_counted_and_an_ece_is_told_with_its_debiased_change() -> None:
    frame = stages((0.1, 0.05, 0.15), "ece").assign(change_debiased=0.09)
    few, many = (
        told(*((*NAIVE, "ece", task, 0.1, 0.05, 0.15) for task in tasks)).assign(debiased=0.08)
        for tasks in ("ab", "abcd")
    )
    assert "by 9.0 points" in plain(continual.since_learned(frame, "ece"))
    assert "+8.0 points (5.0–15.0)" in beside(frame, few, "ece")
    assert beside(frame, many, "ece").endswith(
        "Of 6 comparisons, 5 exclude zero; chance alone would give about 0.3. 5 hold at a false discovery rate of 5%."
    )

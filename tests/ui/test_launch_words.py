"""The sentences of the form: seeds read, trials sized, the paper's choices beside the user's."""

from __future__ import annotations

import pytest

from skillviz.core.localizers.table import LOCALIZERS
from skillviz.errors import BadInput
from skillviz.models.local_models import LocalModel
from skillviz.runs.estimate import Estimate
from skillviz.runs.spec import RunSpec
from skillviz.ui.pages.launch import words


def spec(**changes: object) -> RunSpec:
    return RunSpec(**{"base": "models/minilm", "finetuned": "org/tuned", "task": "sst2", **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("typed", "seeds"),
    [("0", (0,)), (" 3, 1;2 1", (3, 1, 2)), ("0-4", (0, 1, 2, 3, 4)), ("7 9-10", (7, 9, 10))],
)
def test_seeds_are_read_as_people_write_them(typed: str, seeds: tuple[int, ...]) -> None:
    assert words.read_seeds(typed) == seeds


@pytest.mark.parametrize("typed", ["", "-1", "a", "1.5", "4-2", "0-99", "0-19 50", "1--2"])
def test_what_is_no_seed_is_refused(typed: str) -> None:
    with pytest.raises(BadInput):
        words.read_seeds(typed)


def test_a_trial_is_a_hundredth_but_not_too_little() -> None:
    counts = {"train": 50_000, "validation": 872, "test": 40}
    caps = words.trial_caps(counts)
    assert caps == {"max_train": 500, "max_validation": 100, "max_test": 100}
    assert "500 of 50,000 train, 100 of 872 validation and 40 of 40 test" in words.trial(counts, caps)
    assert "not counted" in words.trial({}, words.trial_caps({}))


def test_the_sentence_says_what_will_be_done() -> None:
    said = words.summary(spec(sizes=("0.1%", "1%")), "sst2", (1000, 10_000), 1_000_000, 1)
    assert "**stagewise**" in said and "1,000 (0.1\N{NO-BREAK SPACE}%) and 10,000" in said
    assert "1,000,000 graftable" in said and "minilm → tuned" in said and "times" not in said
    assert "3 times with different seeds" in words.summary(spec(), "sst2", (1000,), 10**6, 3)
    assert "size is an outcome" in words.summary(spec(localizer="learned"), "sst2", (1000,), 10**6, 1)


def test_time_and_memory_are_told_for_all_jobs() -> None:
    found = Estimate({"search": 60.0, "load": 6.0}, 2 * 2**30)
    one = words.expected(found, 1, 3 * 2**30, 0)
    assert "**66 s**" in one and "2.0 GiB" in one and "rough" in one
    many = words.expected(Estimate(found.phases, found.bytes, runs=2), 3, 2**20, 1)
    assert "each, 3 min" in many and "2 finished runs" in many and "1 job will be done" in many


def test_the_papers_own_settings_differ_in_nothing() -> None:
    options = {"selection": "train+validation", "score_every": 1}
    paper = spec(localizer="learned", options=options, k_shot=4096)
    assert words.paper(paper, (), "prompt", {}) == []


def test_the_learned_mask_names_each_option_that_differs() -> None:
    said = words.paper(spec(localizer="learned", steps=7, k_shot=64), (), "prompt", {})
    assert "Steps: 7 here, 100 in the paper." in said and len(said) == 3
    assert not any("bias" in sentence.lower() for sentence in said)


@pytest.mark.parametrize("name", [n for n in LOCALIZERS if n != "learned"])
def test_other_localizers_say_that_they_are_others(name: str) -> None:
    said = words.paper(spec(localizer=name), (0.001,), "head", {"train": 640})
    assert said[0].startswith("Localizer: the paper learns a mask")
    assert any("all 640 here, 64 or 4,096 a class" in sentence for sentence in said)
    assert any(sentence.startswith("Readout:") for sentence in said) and any("0.01" in sentence for sentence in said)


def test_a_size_as_the_papers_is_not_remarked_on() -> None:
    assert not any(s.startswith("Size") for s in words.paper(spec(), (0.0001,), "prompt", {}))


def test_models_in_a_box() -> None:
    assert words.model(LocalModel("s", "minilm", "/r", "bert", 87 * 2**20)) == "minilm (bert, 87 MiB)"
    assert words.model(LocalModel("s", "x", "/r", "", 2**31, base="org/b")) == "x (adapter, 2.0 GiB)"

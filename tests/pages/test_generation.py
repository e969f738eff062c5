"""Tests of runs of tasks with references, generated or not: every page opens, and explains confidence and classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skillviz.core.metrics import METRICS
from skillviz.runs.store import Store, store_root
from skillviz.show.sentences import no_classes, no_confidence
from skillviz.tasks.task import GENERATION
from tests.fake_run import SMALL, STATES, fake_run
from tests.pages.test_examples import use
from tests.pages.test_pages import RUN_PAGES, opened, told, with_tables, words

__all__ = ["use"]

SAYS = {
    "examples": ("By class", no_classes),
    "transfer": ("Other tasks cannot be scored", no_classes),
    "calibration": ("No calibration", no_confidence),
    "interpolation": ("Confidence at this point", no_confidence),
}


@pytest.fixture
def run_id(use: Callable[[Path], None], tmp_path: Path) -> str:
    """Make a run of a task with generated answers in the user's folder."""
    use(tmp_path)
    return fake_run(Store(tmp_path), task="made-generation", kind=GENERATION, interpolation=True, **SMALL).id


@pytest.fixture
def likelihood_id(use: Callable[[Path], None], tmp_path: Path) -> str:
    """Make a run of a task scored by the perplexity of its references in the user's folder."""
    use(tmp_path)
    kind = {"task": "made-likelihood", "kind": GENERATION, "metric": "perplexity"}
    return fake_run(Store(tmp_path), interpolation=True, **kind, **SMALL).id


def opens(name: str, run_id: str) -> str:
    run = Store(store_root()).open(run_id)
    said = told(name, run, {page: (title, reason(run.record)) for page, (title, reason) in SAYS.items()})
    assert "ECE" not in said and "Temperature" not in said
    return said.casefold()


@pytest.mark.cases(3, 2)
@pytest.mark.parametrize("name", RUN_PAGES)
def test_every_page_of_a_run_opens(name: str, run_id: str) -> None:
    said = opens(name, run_id)
    assert name not in ("overview", "sparsity") or "exact match" in said


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("name", (*RUN_PAGES, "runs", "compare"))
def test_every_page_of_a_run_without_predictions_opens(name: str, likelihood_id: str) -> None:
    said = opens(name, likelihood_id)
    assert "exact match" not in said and "mcnemar" not in said and "agree" not in said
    if name in ("overview", "sparsity", "interpolation", "examples"):
        assert "perplexity" in said


def test_lower_perplexity_is_better_in_every_verdict(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATES, "grafted", (0.7, 2.6, 0.85))
    run = fake_run(Store(empty), kind=GENERATION, metric="perplexity", task="made", sizes=("10%", "0.01%"))
    scores = run.record.metrics["test"]
    value = {state: of["perplexity"].value for state, of in scores.states.items()}
    less, recovered = scores.differences["perplexity"], scores.recovered
    assert value["pretrained"] > value["grafted"] > value["finetuned"] > 1 and less.low > 0
    assert recovered is not None and 0 < recovered.value < 1
    assert ": worse] " in (said := words(opened("examples", run=run.id)))
    assert "The graft gives the reference a higher probability on" in said
    row = METRICS["perplexity"]
    way = f"perplexity {row.number(value['pretrained'])} → {row.number(value['grafted'])}"
    assert way in words(opened("overview", run=run.id)) and ": worse]" in words(opened("sparsity", run=run.id))
    folds = [fold.label for fold in opened("runs").expander]
    best = row.number(value["grafted"])
    assert any(f"graft perplexity down to {best}" in label for label in folds)


def test_an_example_has_the_probability_of_its_reference(likelihood_id: str) -> None:
    test = with_tables(opened("examples", run=likelihood_id, example="test-0"))
    assert not test.exception and not test.error
    said = words(test)
    assert " generates " not in said and said.count("per token") >= 3
    narrow = next(frame.value for frame in test.dataframe if list(frame.value) == ["example", "grafted", "fine-tuned"])
    assert narrow["grafted"].str.fullmatch(r"\d+\.\d%").all()
    cases = next(box for box in test.selectbox if box.label == "Show")
    assert [option.rpartition(" (")[0] for option in cases.options][1:3] == [
        "likelier by fine-tuned", "likelier by the graft",
    ]  # fmt: skip


def test_an_area_of_confidence_is_forgotten(run_id: str) -> None:
    test = opened("examples", run=run_id, area="confidence_0.5_1_0_0.5")
    assert not test.exception and "area" not in test.query_params and "true class" not in words(test)


def test_a_phone_has_what_is_generated_without_a_number(run_id: str) -> None:
    test = with_tables(opened("examples", run=run_id))
    wide = next(frame.value for frame in test.dataframe if "grafted generates" in frame.value)
    narrow = next(frame.value for frame in test.dataframe if "grafted" in frame.value)
    assert list(narrow) == ["example", "grafted", "fine-tuned"], "one label for all says nothing"
    assert narrow["grafted"].tolist() == wide["grafted generates"].tolist()
    assert "What each model generates." in words(test)


def test_what_each_model_generates_stands_beside_an_example(run_id: str) -> None:
    test = opened("examples", run=run_id, example="test-0")
    assert not test.exception and not test.error
    labels = {box.label for box in (*test.selectbox, *test.text_input, *test.toggle)}
    assert not labels & {"True class", "Look at", "Sentence", "Explain this prediction", "Show the complement"}
    said = words(test)
    assert said.count(" generates ") == 3 and "per token" in said and "By slice" in said

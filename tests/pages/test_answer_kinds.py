"""Tests of runs without classes: examples with their own options, and tasks with references, generated or not. Every
page opens, and explains what it cannot show."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillviz.core.metrics import METRICS
from skillviz.runs.store import Store, store_root
from skillviz.show.sentences import no_classes, no_confidence
from skillviz.tasks.task import CHOICE, GENERATION
from tests.fake_run import SMALL, STATES, fake_run
from tests.pages.conftest import Use
from tests.pages.test_pages import RUN_PAGES
from tests.ui.driven import charts, fields, labels, lacks, opened, said, table, with_tables

KINDS = {
    "choice": {"task": "made-choice", "kind": CHOICE, "labels": ("A", "B", "C")},
    "generation": {"task": "made-generation", "kind": GENERATION},
    "likelihood": {"task": "made-likelihood", "kind": GENERATION, "metric": "perplexity"},
}
OF_CLASSES = {"True class", "Look at", "Sentence", "Explain this prediction", "Show the complement"}
SAYS = {"examples": ("By class", no_classes), "transfer": ("Other tasks cannot be scored", no_classes)}
SAYS_OF_TEXT = {
    **SAYS,
    "calibration": ("No calibration", no_confidence),
    "interpolation": ("Confidence at this point", no_confidence),
}


@pytest.fixture
def run_id(request: pytest.FixtureRequest, use: Use, tmp_path: Path) -> str:
    """Make a run of a task of this kind in the user's folder."""
    use(tmp_path)
    return fake_run(Store(tmp_path), interpolation=True, **KINDS[request.param], **SMALL).id


def of(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("run_id", [kind], indirect=True)


def opens(name: str, run_id: str, says: dict = SAYS_OF_TEXT) -> str:
    """Open a run's page, and check its title and the reason in `says`; return its text."""
    test = opened(name, run=run_id)
    title, reason = says.get(name, ("", lambda record: ""))
    text = said(test)
    assert not lacks(text, title, reason(Store(store_root()).open(run_id).record)) and not test.error
    assert says is SAYS or len(lacks(text, "ECE", "Temperature")) == 2
    return text.casefold()


@of("choice")
@pytest.mark.cases(4, 2)
@pytest.mark.parametrize("name", RUN_PAGES)
def test_every_page_of_a_run_of_options_opens(name: str, run_id: str) -> None:
    assert opens(name, run_id, SAYS)


@of("generation")
@pytest.mark.cases(3, 2)
@pytest.mark.parametrize("name", RUN_PAGES)
def test_every_page_of_a_run_of_generated_answers_opens(name: str, run_id: str) -> None:
    assert "exact match" in opens(name, run_id) or name not in ("overview", "sparsity")


@of("likelihood")
@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("name", (*RUN_PAGES, "runs", "compare"))
def test_every_page_of_a_run_without_predictions_opens(name: str, run_id: str) -> None:
    text = opens(name, run_id)
    assert lacks(text, "exact match", "mcnemar", "agree") == ["exact match", "mcnemar", "agree"]
    assert name not in ("overview", "sparsity", "interpolation", "examples") or "perplexity" in text


def test_lower_perplexity_is_better_in_every_verdict(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATES, "grafted", (0.7, 2.6, 0.85))
    run = fake_run(Store(empty), kind=GENERATION, metric="perplexity", task="made", sizes=("10%", "0.01%"))
    scores, row = run.record.metrics["test"], METRICS["perplexity"]
    before, graft, after = (scores.states[s]["perplexity"].value for s in ("pretrained", "grafted", "finetuned"))
    assert before > graft > after > 1 and scores.differences["perplexity"].low > 0
    assert scores.recovered is not None and 0 < scores.recovered.value < 1
    says = {
        "examples": [": worse] ", "The graft gives the reference a higher probability on"],
        "overview": [f"perplexity {row.number(before)} → {row.number(graft)}"],
        "sparsity": [": worse]"],
    }
    for page, words in says.items():
        assert not lacks(said(opened(page, run=run.id)), *words), page
    assert f"graft perplexity down to {row.number(graft)}" in "\n".join(labels(opened("runs"), "expander"))


@of("likelihood")
def test_an_example_has_the_probability_of_its_reference(run_id: str) -> None:
    test = with_tables(opened("examples", run=run_id, example="test-0"))
    assert not test.error and " generates " not in said(test) and said(test).count("per token") >= 3
    narrow = next(frame.value for frame in test.dataframe if list(frame.value) == ["example", "grafted", "fine-tuned"])
    assert narrow["grafted"].str.fullmatch(r"\d+\.\d%").all()
    cases = next(box for box in test.selectbox if box.label == "Show")
    assert [option.rpartition(" (")[0] for option in cases.options][1:3] == [
        "likelier by fine-tuned", "likelier by the graft",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("run_id", "query", "says", "omits", "dropped"),
    [
        ("generation", {"area": "confidence_0.5_1_0_0.5"}, [], ["true class"], {"area"}),
        ("generation", {"example": "test-0"}, ["per token", "By slice"], [], set()),
        ("choice", {"area": "confidence_0_0.5_0_0.5"}, ["confidence in the right option, fine-tuned"], ["true class"],
         set()),
        ("choice", {"label": "B", "look": "typed"}, ["right option", "By slice"], [], set()),
    ],
    indirect=["run_id"],
)  # fmt: skip
def test_examples_are_told_without_classes(
    run_id: str, query: dict[str, str], says: list[str], omits: list[str], dropped: set[str]
) -> None:
    test = opened("examples", run=run_id, **query)
    text = said(test)
    assert not lacks(text, *says) and lacks(text, *omits) == omits and not test.error
    assert {*query} - {*test.query_params} == dropped and not {field.label for field in fields(test)} & OF_CLASSES
    assert text.count(" generates ") == (3 if "example" in query else text.count(" generates "))


@of("generation")
def test_a_phone_has_what_is_generated_without_a_number(run_id: str) -> None:
    test = with_tables(opened("examples", run=run_id))
    narrow = table(test, "grafted")
    assert list(narrow) == ["example", "grafted", "fine-tuned"], "one label for all says nothing"
    assert narrow["grafted"].tolist() == table(test, "grafted generates")["grafted generates"].tolist()
    assert "What each model generates." in said(test)


@of("choice")
def test_what_is_right_is_an_option_in_tables_and_figures(run_id: str) -> None:
    test = with_tables(opened("examples", run=run_id))
    drawn = " ".join(chart.proto.spec for chart in charts(test))
    assert "right option, %" in drawn and "true class" not in drawn and len(table(test, "grafted: right option"))
    assert not lacks(said(test), "Confidence in the right option, %.", "Confidence by option")


@of("choice")
def test_no_other_task_is_asked_for_where_labels_are_no_classes(run_id: str) -> None:
    text = said(opened("interpolation", run=run_id))
    assert "--interpolation" in text and lacks(text, "--also", "No other task") == ["--also", "No other task"]

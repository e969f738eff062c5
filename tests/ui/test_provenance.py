"""Tests of a run's provenance: the page shows everything that identifies it, and invents nothing."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from skillviz.core import formats
from skillviz.runs.record import RunRecord
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import library
from skillviz.show import text
from skillviz.ui.pages.overview import overview_page


def facts(record: RunRecord) -> dict[str, str]:
    frame = overview_page.sources(record)
    return dict(zip(frame["what"], frame["value"], strict=True))


def test_models_data_machine_and_versions_are_named(ids: dict[str, str]) -> None:
    found = facts(library().open(ids["movement"]).record)
    assert found["Pre-trained model"] == "demo/tiny-base (bert, float32)"
    assert found["Pre-trained model: sha256"] == "a" * 12 and found["Fine-tuned model: sha256"] == "b" * 12
    assert found["Data: sha256"] == "c" * 12
    assert found["Task"] == "SST-2: negative, positive"
    assert found["Examples"] == "640 train, 60 validation, 120 test"
    assert found["Localizer"] == "movement, seed 0"
    assert "search 1" in found["Time"] and found["Device"] == "cpu, float32"
    assert "torch 2.0.0" in found["Versions"] and found["Commit"] == "0" * 12


def test_what_a_run_does_not_know_is_not_made_up() -> None:
    spec = RunSpec(base="a", finetuned="b", task="mine.yaml")
    found = facts(RunRecord(run_id="x", spec=spec, key="k", status="finished", created=""))
    assert found["Pre-trained model"] == found["Commit"] == found["Readout"] == formats.MISSING
    assert found["Task"] == "mine.yaml"


def script() -> None:
    from skillviz.runs.record import Check, RunRecord
    from skillviz.runs.spec import RunSpec
    from skillviz.ui.pages.overview import overview_page

    checks = (Check(name="good", passed=True), Check(name="bad", passed=False, detail="3 entries too many"))
    spec = RunSpec(base="a", finetuned="b", task="c")
    common = {"run_id": "x", "spec": spec, "key": "k", "status": "finished", "created": ""}
    overview_page.checks(RunRecord(**common, checks=checks))
    overview_page.checks(RunRecord(**common))
    overview_page.notes(RunRecord(**common, notes=("the head is *not* random",)))
    overview_page.notes(RunRecord(**common))


def test_failed_checks_come_first_and_in_words() -> None:
    test = AppTest.from_function(script, default_timeout=60).run()
    said = [markdown.value for markdown in test.markdown]
    assert "bad" in said[0] and "failed" in said[0] and "3 entries too many" in said[0]
    assert "good" in said[1] and "failed" not in said[1]
    assert "no self-checks" in test.caption[0].value
    assert said[2] == r"- the head is \*not\* random"
    assert "nothing unusual" in said[3]

"""Tests of a run's provenance: the page shows everything that identifies it, and invents nothing."""

from skillviz.core import formats
from skillviz.runs.record import RunRecord
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import library
from skillviz.ui.pages.overview import overview_page
from tests.ui.driven import lacks, opened, said


def facts(record: RunRecord) -> dict[str, str]:
    return overview_page.sources(record).set_index("what")["value"].to_dict()


def test_models_data_machine_and_versions_are_named(ids: dict[str, str]) -> None:
    found = facts(library().open(ids["movement"]).record)
    told = {
        "Pre-trained model": "demo/tiny-base (bert, float32)", "Pre-trained model: sha256": "a" * 12,
        "Fine-tuned model: sha256": "b" * 12, "Data: sha256": "c" * 12, "Task": "SST-2: negative, positive",
        "Examples": "640 train, 60 validation, 120 test", "Localizer": "movement, seed 0", "Device": "cpu, float32",
        "Commit": "0" * 12,
    }  # fmt: skip
    assert {name: found[name] for name in told} == told
    assert "search 1" in found["Time"] and "torch 2.0.0" in found["Versions"]


def test_what_a_run_does_not_know_is_not_made_up() -> None:
    spec = RunSpec(base="a", finetuned="b", task="mine.yaml")
    told = dict.fromkeys(("Pre-trained model", "Commit", "Readout"), formats.MISSING) | {"Task": "mine.yaml"}
    assert facts(RunRecord(run_id="x", spec=spec, key="k", status="finished", created="")).items() >= told.items()


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
    test = opened(script)
    bad, good, note, nothing = (markdown.value for markdown in test.markdown)
    assert not lacks(bad, "bad", "failed", "3 entries too many") and "good" in good and "failed" not in good
    assert note == r"- the head is \*not\* random"
    assert "nothing unusual" in nothing and "no self-checks" in said(test, "caption")

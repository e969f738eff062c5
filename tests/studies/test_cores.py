"""How many processes a study takes by itself: two for the toy's own models, one for any that may be large."""

from __future__ import annotations

import pytest

from skillviz.studies.cores import workers_for
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import scale
from skillviz.studies.spec import StudySpec


def study(at: str = "demo", base: str | None = None) -> StudySpec:
    return StudySpec(**EXPERIMENTS["table2"].build(scale(at).with_choices(base)))


def test_two_processes_are_for_models_of_the_demo_world() -> None:
    assert [workers_for(study(), there) for there in (1, 2, 16)] == [1, 2, 2]
    assert workers_for(study(base="org/large"), 16) == 1 and workers_for(study("small"), 16) == 1


def test_the_command_takes_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillviz.studies.cores.cores", lambda: 16)
    assert workers_for(study()) == 2 and workers_for(study(base="org/large")) == 1

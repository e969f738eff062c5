"""Tests of the choice of a job's place: it is offered only if a cluster is set up and sign-in is off."""

from __future__ import annotations

import pytest

from skillviz.jobs.backend import LOCAL
from skillviz.jobs.slurm import SLURM_BACKEND, backend_named
from skillviz.serving.sign_in import User
from skillviz.ui import form


@pytest.mark.parametrize(
    ("is_set_up", "user", "chosen"),
    [(True, None, "slurm"), (False, None, None), (True, User("a", "Ada", {}), None)],
)
def test_the_choice_is_for_one_person_with_a_cluster(
    is_set_up: bool, user: User | None, chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillviz.jobs.slurm.is_set_up", lambda: is_set_up)
    monkeypatch.setattr("skillviz.serving.sign_in.user", lambda: user)
    monkeypatch.setattr("skillviz.ui.controls.segments", lambda *_, **__: "slurm")
    assert form.cluster("where") == chosen
    assert backend_named(chosen) is (SLURM_BACKEND if chosen else LOCAL)

"""Tests of users' stores: their place, their names, and the runs that each user sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillviz.errors import RunNotFound
from skillviz.runs.store import Store, library
from skillviz.serving.settings import RUNS_VARIABLE
from skillviz.serving.sign_in import User, make_store
from skillviz.serving.users import OWNER, USER, shared_root, store_of_user, user_named, user_of
from tests.fake_run import fake_run

SMALL = {"sizes": ("5%",), "layers": 1, "width": 8, "n": {"validation": 20, "test": 20}, "steps": 2}


def test_a_user_is_issuer_and_subject_together() -> None:
    names = {user_named(*who) for who in (("a", "b"), ("a", "c"), ("b", "b"), ("ab", ""), ('a", "b', ""), ("a", "b"))}
    assert len(names) == 5 and [name for name in names if not USER.fullmatch(name)] == []


def test_a_store_knows_whose_it_is_and_a_subject_cannot_choose_a_folder(tmp_path: Path) -> None:
    user = user_named("https://id.example", "../../etc")
    root = store_of_user(tmp_path, user)
    assert root.resolve().parent == tmp_path / "users" and store_of_user(tmp_path, "") == tmp_path
    nobodys = {path: ("", path) for path in (tmp_path, root.parent, root.parent / "sst2-run", root / "run")}
    whose = nobodys | {root: (user, tmp_path)}
    assert {path: (user_of(path), shared_root(path)) for path in whose} == whose


def test_a_user_sees_the_own_runs_the_shared_ones_and_those_that_ship(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, ships = Store(tmp_path / "runs"), Store(tmp_path / "ships")
    monkeypatch.setattr("skillviz.runs.store.shipped_root", lambda: ships.root)
    one, two = (Store(store_of_user(shared.root, user_named("i", name))) for name in "ab")
    own, other, everybodys, shipped = (fake_run(store, **SMALL).id for store in (one, two, shared, ships))
    assert [run.id for run in library(one.root).list()] == [own, everybodys, shipped]
    assert [run.id for run in library(shared.root).list()] == [everybodys, shipped], "users' runs are not shared"
    for name in (other, other[:-3], f"../{two.root.name}/{other}", f"users/{two.root.name}/{other}"):
        for reach in (library(one.root).open, one.delete, shared.open):
            with pytest.raises(RunNotFound):
                reach(name)
    assert two.open(other).id == other


def test_the_store_says_who_its_owner_is_and_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUNS_VARIABLE, str(tmp_path))
    user, owner = user_named("i", "s"), {"issuer": "i", "subject": "s"}
    for name in ("Ada", "Ada Lovelace"):
        make_store(User(user, name, {**owner, "name": name}))
    root = store_of_user(tmp_path, user)
    assert json.loads((root / OWNER).read_text()) == {**owner, "name": "Ada"}
    assert Store(root).list() == [] and Store(tmp_path).folders() == []

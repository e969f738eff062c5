"""Tests of the private folder of a store's worker."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from skillviz.errors import LiveError
from skillviz.live.address import Address, address_of


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_one_address_a_store(tmp_path: Path, own_workers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = address_of(tmp_path / "a")
    assert one == address_of(tmp_path / "b" / ".." / "a") and one != address_of(tmp_path / "b")
    assert one.folder.parent == own_workers and len(str(one.socket)) < 100
    monkeypatch.delenv("SKILLVIZ_LIVE")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert address_of(tmp_path).folder.parent == tmp_path / "skillviz"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "absent"))
    assert "skillviz-" in str(address_of(tmp_path).folder.parent)


def test_a_variable_that_was_set_since_brings_a_worker_that_knows_it(
    tmp_path: Path, own_workers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SKILLVIZ_REAL", raising=False)
    without = address_of(tmp_path)
    monkeypatch.setenv("SKILLVIZ_REAL", str(tmp_path))
    assert address_of(tmp_path) != without
    monkeypatch.delenv("SKILLVIZ_REAL")
    for name in ("SKILLVIZ_RUNS", "SKILLVIZ_ROOTS"):
        monkeypatch.setenv(name, "elsewhere")
    assert address_of(tmp_path) == without


def test_the_folder_is_closed_to_others(tmp_path: Path) -> None:
    address = Address(tmp_path / "live" / "x")
    address.open()
    assert mode(address.folder) == mode(address.folder.parent) == 0o700
    address.folder.chmod(0o755)
    address.open()
    assert mode(address.folder) == 0o700


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "live" / "x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LiveError, match="does not belong to you"):
        Address(tmp_path / "live" / "x").open()


def test_tokens_are_private_and_name_the_socket(tmp_path: Path) -> None:
    address = Address(tmp_path / "live")
    address.open()
    assert address.read_token() == ""
    for token in ("a" * 64, "b" * 64):
        address.publish(token)
        assert address.read_token() == token and mode(address.token) == 0o600
        assert address.socket == address.socket_of(token) and token not in address.socket.name

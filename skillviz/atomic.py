"""Files and folders that a reader sees whole or not at all: write to a draft, fsync, rename."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from skillviz import read_only
from skillviz.errors import BadInput, DiskFull, is_disk_full, without_drafts
from skillviz.locks import lock_at

TEMPORARY = ".part"
REPLACED = ".old"
WORKING = "skillviz"
CLOCK = 2.0  # seconds by which two clocks of one machine may differ
WRITER = re.compile(rf"\.(?P<name>.+)\.(?P<host>\w+)-(?P<pid>\d+)-\w+({re.escape(TEMPORARY)}|{re.escape(REPLACED)})")


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """Has `write` fill a temporary file beside `path`, then puts it in place; raises DiskFull.

    After a crash at any point `path` holds what it held before, or all of the new content. Of several that write
    at once the last one counts. Raises BadInput where something is there that is no file, as a device is.
    """
    read_only.refuse()
    if path.exists() and not path.is_file():
        raise BadInput(f"{path} is a folder, a device or a pipe and cannot be replaced; name a file to write to.")
    draft = _hidden(path)  # a folder: a library may write beside what it is told to write, and be killed there
    with disk_errors(path):
        try:
            draft.mkdir()
            temporary = draft / path.name
            temporary.touch()  # the system's own error where it cannot be: safetensors puts it in words of its own
            mode = stat.S_IMODE(temporary.stat().st_mode)
            write(temporary)
            temporary.chmod(mode)  # safetensors makes files that no other user of the machine can read
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Puts this text in place at once."""
    write_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


@contextmanager
def whole_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """A draft folder beside `target`, which becomes it once the body is done; nothing is left where that fails.

    A folder that is there already is an OSError; with `replace` it stays until the draft is whole and on disk, and
    then makes room. Drafts of it that killed processes left are removed. Raises DiskFull.
    """
    read_only.refuse()
    clear_abandoned(target.parent, target.name)
    draft = _hidden(target)
    with disk_errors(target):
        try:
            draft.mkdir(parents=True)
            yield draft
            mode = stat.S_IMODE(draft.stat().st_mode) & 0o666
            for path in (*draft.rglob("*"), draft):
                if path.is_file():
                    path.chmod(mode)
                _sync(path)
            if replace and target.is_dir():
                old = _hidden(target, REPLACED)  # all that there is, were this process killed between the two lines
                os.replace(target, old)
                try:
                    os.replace(draft, target)
                except BaseException:
                    os.replace(old, target)  # what was there stays there
                    raise
                remove(old, ignore_errors=True)
            else:
                os.replace(draft, target)
            _sync(target.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def working_folder() -> Iterator[Path]:
    """A folder of the system's temporary files, gone after the body; those that killed processes left go as well."""
    target = Path(tempfile.gettempdir()) / WORKING
    clear_abandoned(target.parent, target.name)
    folder = _hidden(target)
    with disk_errors(target):
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def abandoned(folder: Path, name: str | None = None) -> list[Path]:
    """What killed processes of this machine left in a folder: drafts, what was to be removed, and what was to be
    replaced; with a name, only what belongs to this file or folder."""
    if not folder.is_dir():
        return []
    hidden = [path for path in folder.iterdir() if name is None or path.name.startswith(f".{name}.")]
    return [path for path in hidden if name in (None, _target(path).name) and _is_abandoned(path)]


def clear_abandoned(folder: Path, name: str | None = None) -> None:
    """Removes what killed processes left in a folder; what was put aside for a draft that never came is put back."""
    for path in abandoned(folder, name):
        target = _target(path)
        with suppress(OSError):  # another process clears the same
            if path.name.endswith(REPLACED) and not target.exists():
                os.replace(path, target)
            else:
                remove(path)


@contextmanager
def folder_lock(target: Path) -> Iterator[None]:
    """While one process makes this folder others wait; drafts of it that killed processes left are removed."""
    read_only.refuse()
    locks = target.parent / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    with lock_at(locks / f"{target.name}.lock"):
        for left in _drafts(target):
            remove(left, ignore_errors=True)
        yield


def remove_folder(path: Path) -> None:
    """Removes a folder so that no reader sees half of it."""
    read_only.refuse()
    grave = _hidden(path)
    os.rename(path, grave)
    remove(grave)


def remove(path: Path, *, ignore_errors: bool = False) -> None:
    """Removes a folder or a file; of a link the link itself: what it names is somebody else's.

    With `ignore_errors` as much of it as can be removed.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors)
    else:
        with suppress(*([OSError] if ignore_errors else [])):
            path.unlink()


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns "no space left", wrapped by a library or not, into DiskFull; other errors name the target of a draft."""
    try:
        yield
    except DiskFull:
        raise
    except Exception as error:
        names = [name for name in ("filename", "filename2") if isinstance(getattr(error, name, None), str)]
        if is_disk_full(error):
            at = Path(tempfile.gettempdir())
            used = any(Path(getattr(error, name)).is_relative_to(at) for name in names)
            raise _disk_full(at if used and not path.is_relative_to(at) else path) from error
        for name in names:
            setattr(error, name, without_drafts(getattr(error, name)))
        raise


def _disk_full(path: Path) -> DiskFull:
    """The error where `path` cannot be written; the system's folder of temporary files has no name of ours."""
    if path == Path(tempfile.gettempdir()) or path.parent == Path(tempfile.gettempdir()) and path.name == WORKING:
        return DiskFull(
            f"there is no space left for temporary files in {tempfile.gettempdir()}. Free some space, or set TMPDIR to "
            "another folder."
        )
    return DiskFull(
        f"there is no space left to write {path.name} in {path.parent}; it is not stored. "
        "Free some space or choose another folder (--runs-dir, --out)."
    )


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hidden(path: Path, ending: str = TEMPORARY) -> Path:
    """A name beside `path` for a draft: hidden, and of this writer alone, as another may write at the same time."""
    return path.with_name(f".{path.name}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}{ending}")


def _target(hidden: Path) -> Path:
    """What a name of `_hidden` stands for; the path itself where it is none."""
    writer = WRITER.fullmatch(hidden.name)
    return hidden.with_name(writer["name"]) if writer else hidden


def _drafts(target: Path) -> list[Path]:
    """The drafts of this folder or file, and not those of `target.name` with an ending of its own."""
    name = re.compile(rf"\.{re.escape(target.name)}\.[^.]+{re.escape(TEMPORARY)}")
    return [path for path in target.parent.glob(f".*{TEMPORARY}") if name.fullmatch(path.name)]


def _host() -> str:
    """This machine, in eight digits: its name may have any length and letters."""
    return f"{zlib.crc32(os.uname().nodename.encode()):08x}"


def _is_abandoned(draft: Path) -> bool:
    """Whether the process that wrote this draft on this machine is gone; a later one may have its number."""
    writer = WRITER.fullmatch(draft.name)
    if writer is None or writer["host"] != _host():
        return False
    try:
        return psutil.Process(int(writer["pid"])).create_time() > draft.stat().st_mtime + CLOCK
    except psutil.NoSuchProcess:
        return True
    except OSError:  # it is in its place, or removed, just now
        return False


def _sync(path: Path) -> None:
    """Makes sure the file's (or folder's) content is on disk before anything that relies on it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

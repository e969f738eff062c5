"""Write files and folders atomically: fill a draft, fsync it, rename it. A reader sees all of the content or none."""

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

from skillviz.errors import BadInput, DiskFull, is_disk_full, without_drafts
from skillviz.locks import lock_at
from skillviz.serving import read_only

TEMPORARY = ".part"
REPLACED = ".old"
WORKING = "skillviz"
CLOCK = 2.0  # seconds by which two clocks of one machine may differ
WRITER = re.compile(rf"\.(?P<name>.+)\.(?P<host>\w+)-(?P<pid>\d+)-\w+({re.escape(TEMPORARY)}|{re.escape(REPLACED)})")


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it into place.

    After a crash at any point `path` holds the old content or all of the new content. If several processes write at
    once, the last one wins. Raises DiskFull, and BadInput if `path` exists and is not a regular file.
    """
    read_only.refuse()
    if path.exists() and not path.is_file():
        raise BadInput(f"{path} is a folder, a device or a pipe and cannot be replaced; name a file to write to.")
    draft = _hidden(path)  # a folder, because a library may write other files beside its output and be killed meanwhile
    with disk_errors(path):
        try:
            draft.mkdir()
            temporary = draft / path.name
            temporary.touch()  # raises the system's own error if this is not allowed; safetensors would reword it
            mode = stat.S_IMODE(temporary.stat().st_mode)
            write(temporary)
            temporary.chmod(mode)  # safetensors makes files that only their owner can read
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write this text to a file atomically."""
    write_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


@contextmanager
def whole_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a draft folder that becomes `target` when the body succeeds; a failure leaves nothing behind.

    Raises OSError if `target` exists. With `replace` the existing folder stays until the draft is complete and on disk,
    and is then replaced. Drafts of `target` left by killed processes are removed. Raises DiskFull.
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
                old = _hidden(target, REPLACED)  # the only copy, if this process is killed between the two renames
                os.replace(target, old)
                try:
                    os.replace(draft, target)
                except BaseException:
                    os.replace(old, target)  # restore the old folder
                    raise
                remove(old, ignore_errors=True)
            else:
                os.replace(draft, target)
            _sync(target.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def working_folder() -> Iterator[Path]:
    """Yield a temporary folder that is removed after the body; folders left by killed processes are removed too."""
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
    """Return the drafts, removed items and replaced items that killed processes of this machine left in a folder.

    With `name`, only the ones for this file or folder.
    """
    if not folder.is_dir():
        return []
    hidden = [path for path in folder.iterdir() if name is None or path.name.startswith(f".{name}.")]
    return [path for path in hidden if name in (None, _target(path).name) and _is_abandoned(path)]


def clear_abandoned(folder: Path, name: str | None = None) -> None:
    """Remove files left in a folder by killed processes; put back a folder whose replacement was never finished."""
    for path in abandoned(folder, name):
        target = _target(path)
        with suppress(OSError):  # another process is clearing the same files
            if path.name.endswith(REPLACED) and not target.exists():
                os.replace(path, target)
            else:
                remove(path)


@contextmanager
def folder_lock(target: Path) -> Iterator[None]:
    """Hold the lock for making this folder; other processes wait. Drafts left by killed processes are removed."""
    read_only.refuse()
    locks = target.parent / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    with lock_at(locks / f"{target.name}.lock"):
        for left in _drafts(target):
            remove(left, ignore_errors=True)
        yield


def remove_folder(path: Path) -> None:
    """Remove a folder so that no reader sees a part of it."""
    read_only.refuse()
    grave = _hidden(path)
    os.rename(path, grave)
    remove(grave)


def remove(path: Path, *, ignore_errors: bool = False) -> None:
    """Remove a folder or a file. For a symbolic link only the link is removed, not its target.

    With `ignore_errors`, remove as much as possible.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors)
    else:
        with suppress(*([OSError] if ignore_errors else [])):
            path.unlink()


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn "no space left", even wrapped by a library, into DiskFull; other errors name the target, not the draft."""
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
    """Return the error for a full disk. The message for the system's temporary folder names TMPDIR, not `path`."""
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
    """Return the hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hidden(path: Path, ending: str = TEMPORARY) -> Path:
    """Return a hidden name beside `path` for a draft, unique to this writer, since others may write too."""
    return path.with_name(f".{path.name}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}{ending}")


def _target(hidden: Path) -> Path:
    """Return the path that a name made by `_hidden` will become; other paths are returned unchanged."""
    writer = WRITER.fullmatch(hidden.name)
    return hidden.with_name(writer["name"]) if writer else hidden


def _drafts(target: Path) -> list[Path]:
    """Return the drafts of this folder or file, excluding longer names that begin with `target.name` and a dot."""
    name = re.compile(rf"\.{re.escape(target.name)}\.[^.]+{re.escape(TEMPORARY)}")
    return [path for path in target.parent.glob(f".*{TEMPORARY}") if name.fullmatch(path.name)]


def _host() -> str:
    """Return eight hex digits for this machine, because its name may have any length and any letters."""
    return f"{zlib.crc32(os.uname().nodename.encode()):08x}"


def _is_abandoned(draft: Path) -> bool:
    """True if the process that wrote this draft on this machine is gone. A newer process may have taken its pid."""
    writer = WRITER.fullmatch(draft.name)
    if writer is None or writer["host"] != _host():
        return False
    try:
        return psutil.Process(int(writer["pid"])).create_time() > draft.stat().st_mtime + CLOCK
    except psutil.NoSuchProcess:
        return True
    except OSError:  # the draft was renamed or removed just now
        return False


def _sync(path: Path) -> None:
    """Flush the content of a file or folder to disk before any later step relies on it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

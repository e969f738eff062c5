"""The address of a store's worker: a private folder of this user with a socket, a token, a lock and a log.

The folder is not in the store, because a socket's path is limited to about a hundred letters, and a store may be on a
network disk, where sockets do not work. A socket is named after its worker's token, so that a client that reads the
token also has the socket.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from skillviz.errors import LiveError
from skillviz.live.protocol import VERSION
from skillviz.tasks.project import DEPLOYMENT_VARIABLES, OURS, expanded

ENVIRONMENT = "SKILLVIZ_LIVE"
OTHERS = (ENVIRONMENT, *DEPLOYMENT_VARIABLES)
"""Variables that do not affect where the files of a pair or a task are found."""
PRIVATE = 0o700


@dataclass(frozen=True)
class Address:
    """The folder of one worker, and the files in it."""

    folder: Path

    def socket_of(self, token: str) -> Path:
        """Return the Unix domain socket of the worker with this token."""
        return self.folder / f"socket-{token[:8]}"

    @property
    def socket(self) -> Path:
        """The socket of the worker that listens now; the file does not exist without one."""
        return self.socket_of(self.read_token())

    @property
    def token(self) -> Path:
        """The file of the secret that a client must have; readable by this user alone."""
        return self.folder / "token"

    @property
    def lock(self) -> Path:
        """The lock file to hold while starting a worker, so that only one is started."""
        return self.folder / "lock"

    @property
    def lock_of_all(self) -> Path:
        """The lock file to hold while starting a worker of any store, so that their number can be counted."""
        return self.folder.with_name("lock")

    def others(self) -> list[Address]:
        """Return the addresses of this user's other workers, listening or not."""
        return [Address(token.parent) for token in self.folder.parent.glob("*/token") if token.parent != self.folder]

    @property
    def log(self) -> Path:
        """The file of the worker's output."""
        return self.folder / "log.txt"

    def open(self) -> None:
        """Make the folder, or check that it is this user's own and closed to others; raises LiveError."""
        for folder in (self.folder.parent, self.folder):
            folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                raise LiveError(
                    f"{folder} does not belong to you, so no worker can listen there; "
                    f"name another folder in ${ENVIRONMENT}."
                )
            if stat.S_IMODE(status.st_mode) != PRIVATE:
                folder.chmod(PRIVATE)

    def publish(self, token: str) -> None:
        """Write the token of a worker that listens to its file, atomically."""
        draft = self.token.with_name("token.new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token)
        draft.replace(self.token)

    def read_token(self) -> str:
        """Return the token of the worker that listens now; empty without one."""
        try:
            return self.token.read_text()
        except OSError:
            return ""


def address_of(store: Path | str) -> Address:
    """Return the address of a store's worker: one per user, store and version of the protocol.

    A worker keeps the environment variables from its start. A client with other variables, for example after setting a
    missing one, gets another worker.
    """
    places = {n: value for n, value in sorted(os.environ.items()) if n.startswith(OURS) and n not in OTHERS}
    name = hashlib.sha256(f"{VERSION}:{Path(store).resolve()}:{places}".encode()).hexdigest()[:16]
    return Address(_root() / name)


def _root() -> Path:
    """Return the folder of this user's workers: $SKILLVIZ_LIVE, the session's runtime folder, or one in /tmp."""
    if os.environ.get(ENVIRONMENT):
        return Path(expanded(os.environ[ENVIRONMENT]))
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nonexistent")
    if runtime.is_dir() and os.access(runtime, os.W_OK):
        return runtime / "skillviz"
    return Path(tempfile.gettempdir()) / f"skillviz-{os.getuid()}"

"""A stand-in for the Hugging Face Hub on this machine: it hands out folders, as the hub's client asks for them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """Its address, and the paths it was asked for."""

    address: str
    asked: list[str] = field(default_factory=list)

    def environment(self, home: Path) -> dict[str, str]:
        """What makes the client of a new process ask here, with a cache of its own."""
        return {"HF_ENDPOINT": self.address, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}


@contextmanager
def hub_of(models: Mapping[str, Path]) -> Iterator[Hub]:
    """A hub with these models, `org/name` to folder."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(is_head=True)

        def do_GET(self) -> None:
            self._answer(is_head=False)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

        def _answer(self, is_head: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.asked.append(path)
            for name, folder in models.items():
                if path.startswith(f"/api/models/{name}/tree/"):
                    return self._json([
                        {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": _sha1(file)}
                        for file in sorted(folder.iterdir())
                    ])  # fmt: skip
                if path.startswith(f"/api/models/{name}"):
                    files = [{"rfilename": file.name} for file in sorted(folder.iterdir())]
                    return self._json({"id": name, "modelId": name, "sha": COMMIT, "siblings": files})
                if path.startswith(f"/{name}/resolve/"):
                    return self._file(folder / path.rpartition("/")[2], is_head)
            return self.send_error(404)

        def _json(self, value: object) -> None:
            content = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _file(self, file: Path, is_head: bool) -> None:
            if not file.is_file():
                return self.send_error(404)
            self.send_response(200)
            self.send_header("ETag", f'"{_sha1(file)}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(file.stat().st_size))
            self.end_headers()
            if not is_head:
                self.wfile.write(file.read_bytes())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub = Hub(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            server.shutdown()


def _sha1(file: Path) -> str:
    return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()

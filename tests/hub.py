"""A local stand-in of the Hugging Face Hub: it serves folders and accepts uploads, with the hub client's protocol."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_stand_in"
LARGE = ".safetensors"
"""File type that the hub stores as a large file; other files are part of the commit."""


@dataclass
class Commit:
    repository: str
    branch: str
    message: str
    files: dict[str, bytes]


@dataclass
class Hub:
    """A hub with its address, the requested paths, and the uploads.

    `repositories` maps a name to its requested visibility. `user` is the owner of the token, and `role` its
    permission.
    """

    address: str
    models: dict[str, Path]
    datasets: dict[str, Path]
    uploads: Path | None = None
    user: str = "someone"
    role: str = "write"
    asked: list[str] = field(default_factory=list)
    repositories: dict[str, str | None] = field(default_factory=dict)
    branches: set[tuple[str, str]] = field(default_factory=set)
    commits: list[Commit] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)

    def environment(self, home: Path) -> dict[str, str]:
        """Return variables that make the client of a new process use this hub, with a cache of its own."""
        return {"HF_ENDPOINT": self.address, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}


@contextmanager
def hub_of(
    models: Mapping[str, Path], uploads: Path | None = None, datasets: Mapping[str, Path] | None = None
) -> Iterator[Hub]:
    """Yield a hub with these models and data sets (`org/name` -> folder); an upload is saved in `uploads` and
    becomes a model."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(is_head=True)

        def do_GET(self) -> None:
            self._answer(is_head=False)

        def do_POST(self) -> None:
            path = unquote(urlsplit(self.path).path)
            content = self.rfile.read(int(self.headers["Content-Length"]))
            hub.asked.append(path)
            if not self._is_known():
                return self._json({"error": "Invalid username or password."}, 401)
            for name, folder in hub.datasets.items():
                if path.startswith(f"/api/datasets/{name}/paths-info/"):
                    asked = json.loads(content)["paths"]
                    return self._json([file for file in _tree(folder) if file["path"] in asked])
            if path == "/api/validate-yaml":
                return self._json({"errors": [], "warnings": []})
            if path == "/api/repos/create":
                return self._create(json.loads(content))
            if path.endswith(".git/info/lfs/objects/batch"):
                return self._batch(json.loads(content))
            name, deed, branch = _parts(path)
            if name not in hub.repositories:
                return self._json({"error": "Repository not found"}, 404)
            if deed == "branch":
                hub.branches.add((name, branch))
                return self._json({})
            if deed == "preupload":
                mode = {True: "lfs", False: "regular"}
                return self._json({"files": [
                    {"path": file["path"], "uploadMode": mode[file["path"].endswith(LARGE)], "shouldIgnore": False}
                    for file in json.loads(content)["files"]
                ]})  # fmt: skip
            if deed == "commit" and (branch == "main" or (name, branch) in hub.branches):
                return self._commit(name, branch, [json.loads(line) for line in content.splitlines()])
            return self._json({"error": "Not found"}, 404)

        def do_PUT(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            key = self.path.rpartition("/")[2]
            hub.asked.append(self.path)
            if hashlib.sha256(content).hexdigest() != key:
                return self.send_error(400)
            hub.objects[key] = content
            self._json({})

        def log_message(self, format: str, *args: object) -> None:
            del format, args

        def _answer(self, is_head: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.asked.append(path)
            if path == "/api/whoami-v2":
                if not self._is_known():
                    return self._json({"error": "Invalid username or password."}, 401)
                return self._json({
                    "type": "user", "name": hub.user, "orgs": [{"name": "our-lab"}],
                    "auth": {"accessToken": {"role": hub.role, "displayName": "test"}},
                })  # fmt: skip
            for kind, (prefix, folders) in {
                "models": ("", hub.models),
                "datasets": ("/datasets", hub.datasets),
            }.items():
                for name, folder in folders.items():
                    if path.startswith(f"/api/{kind}/{name}/tree/"):
                        return self._json(_tree(folder))
                    if path.startswith(f"/api/{kind}/{name}"):
                        files = [{"rfilename": file.name} for file in sorted(folder.iterdir())]
                        return self._json(
                            {"id": name, "modelId": name, "sha": COMMIT, "siblings": files, **_card(folder)}
                        )
                    if path.startswith(f"{prefix}/{name}/resolve/"):
                        return self._file(folder / path.rpartition("/")[2], is_head)
            return self.send_error(404)

        def _is_known(self) -> bool:
            return self.headers.get("Authorization") == f"Bearer {TOKEN}"

        def _create(self, asked: dict[str, Any]) -> None:
            name = f"{asked['organization'] or hub.user}/{asked['name']}"
            if name in hub.repositories:
                return self._json({"error": "You already created this model repo", "url": f"{hub.address}/{name}"}, 409)
            hub.repositories[name] = asked.get("visibility")
            return self._json({"url": f"{hub.address}/{name}", "name": name})

        def _batch(self, asked: dict[str, Any]) -> None:
            href = f"{hub.address}/large/"
            objects = [{**one, "actions": {"upload": {"href": href + one["oid"]}}} for one in asked["objects"]]
            self._json({"transfer": "basic", "objects": objects})

        def _commit(self, name: str, branch: str, lines: list[dict[str, Any]]) -> None:
            head, *files = lines
            taken = {
                line["value"]["path"]: hub.objects[line["value"]["oid"]] if line["key"] == "lfsFile"
                else base64.b64decode(line["value"]["content"], validate=True)
                for line in files
            }  # fmt: skip
            hub.commits.append(Commit(name, branch, head["value"]["summary"], taken))
            if hub.uploads is not None:
                folder = hub.uploads / name
                folder.mkdir(parents=True, exist_ok=True)
                for file, content in taken.items():
                    (folder / file).write_bytes(content)
                hub.models[name] = folder
            self._json({
                "success": True, "commitOid": COMMIT, "commitUrl": f"{hub.address}/{name}/commit/{COMMIT}",
            })  # fmt: skip

        def _send(self, status: int, length: int, **headers: str) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(length)}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()

        def _json(self, value: object, status: int = 200) -> None:
            content = json.dumps(value).encode()
            self._send(status, len(content), Content_Type="application/json")
            self.wfile.write(content)

        def _file(self, file: Path, is_head: bool) -> None:
            if not file.is_file():
                return self._send(404, 0, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
            self._send(200, file.stat().st_size, ETag=f'"{_sha1(file)}"', X_Repo_Commit=COMMIT)
            if not is_head:
                self.wfile.write(file.read_bytes())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub = Hub(f"http://127.0.0.1:{server.server_port}", dict(models), dict(datasets or {}), uploads)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            server.shutdown()


def _parts(path: str) -> tuple[str, str, str]:
    """Split `/api/models/<org>/<name>/<deed>/<branch>` into (org/name, deed, branch)."""
    parts = path.removeprefix("/api/models/").split("/", 3)
    return ("/".join(parts[:2]), parts[2], parts[3]) if len(parts) == 4 else ("", "", "")


def _tree(folder: Path) -> list[dict[str, Any]]:
    """Return the hub's description of a repository's files."""
    return [
        {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": _sha1(file)}
        for file in sorted(folder.iterdir())
    ]


def _card(folder: Path) -> dict[str, Any]:
    """Return the hub's description of a model's card, here only its license."""
    card = folder / "README.md"
    lines = card.read_text().splitlines() if card.is_file() else []
    found = [line.partition(": ")[2] for line in lines if line.startswith("license: ")]
    return {"cardData": {"license": found[0]}} if found else {}


def _sha1(file: Path) -> str:
    return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()

"""Permission to upload files, and limits on the memory that they take.

Streamlit accepts files from any visitor with an open page, without limit, and keeps them in memory. Here only a page
that draws an uploader permits its visitor to use it, and files in memory have a limit per visitor and in total.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import streamlit as st
from starlette.types import Message, Receive, Scope
from streamlit.runtime import Runtime, exists
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx

from skillviz.serving.settings import settings

PATH = re.compile(r"/_stcore/upload_file/([^/]+)/[^/]+/?$")
MOST_OF_ONE, MOST_OF_ALL = 256 << 20, 1 << 30  # bytes in memory, per visitor and in total
MOST_FILES = 12  # per visitor
REMEMBERED = 10_000  # tabs with an uploader that are remembered
NO_PAGE = 403, "No page that takes a file is open for this visitor."
NO_LENGTH = 411, "An upload says how long it is."
TOO_MUCH_OF_ONE = 413, "Your uploads reach the limit of 12 files or 256 MiB. Remove one first."
TOO_MUCH_OF_ALL = 413, "All visitors' uploads together reach the limit of 1 GiB. Try again later."
Refusal = tuple[int, str]


class TooMuch(Exception):
    """Raised if the received bytes of an upload exceed the limit of all visitors together."""


@dataclass
class _Tab:
    """One session with an uploader: its owner, and the last file of each of its uploaders."""

    owner: str
    files: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class _Upload:
    """An upload in progress: its sender, and its announced and received bytes. The app receives its messages from it.

    Announced bytes count for the sender and received ones for all: an idle upload does not exclude other users.
    """

    owner: str
    announced: int
    receive: Receive
    received: int = 0

    async def __call__(self) -> Message:
        """The next message; raises TooMuch if it passes the limit of all visitors together."""
        message = await self.receive()
        self.received += len(message.get("body", b""))
        if sum(map(sum, _held().values())) + sum(one.received for one in _under_way) > MOST_OF_ALL:
            raise TooMuch
        return message


_tabs: dict[str, _Tab] = {}
_under_way: list[_Upload] = []


def uploader(label: str, kinds: Sequence[str], *, key: str, megabytes: int, owner: str = "", **more: Any) -> Any:
    """Draws Streamlit's uploader for one file of at most `megabytes`, and permits this visitor to use it.

    `owner` is the signed-in user; without one each tab counts separately. The previous file of the uploader is deleted.
    Nothing is drawn if the dashboard is read-only.
    """
    if settings.read_only:
        return None
    context = get_script_run_ctx()
    session = context.session_id if context is not None else ""
    tab = _tabs.pop(session, None) or _Tab(owner or session)
    _tabs[session] = tab  # as the latest tab
    for old in list(_tabs)[:-REMEMBERED]:
        _tabs.pop(old, None)
    file = st.file_uploader(label, kinds, key=key, max_upload_size=megabytes, **more)
    now, before = str(getattr(file, "file_id", "")), tab.files.get(key, "")
    if before and before != now and exists():  # Streamlit keeps the file of an uploader that disappeared with its page
        _store().remove_file(session, before)
    tab.files[key] = now
    return file


@contextmanager
def admitted(scope: Scope, receive: Receive) -> Iterator[tuple[Refusal | None, Receive]]:
    """The reason why an upload is refused, else None, and the `receive` that the app must use; it raises TooMuch.

    Any other request is admitted unchanged.
    """
    found = PATH.search(scope["path"]) if scope["method"] == "PUT" else None
    if found is None:
        yield None, receive
        return
    headers, tab = dict(scope["headers"]), _tabs.get(found[1])
    length = headers.get(b"content-length", b"")
    if tab is None:
        yield NO_PAGE, receive
    # a chunked body may be longer than it states
    elif b"transfer-encoding" in headers or not re.fullmatch(rb"\d{1,15}", length):
        yield NO_LENGTH, receive
    elif not _has_room(tab.owner, int(length)):
        yield TOO_MUCH_OF_ONE, receive
    else:
        upload = _Upload(tab.owner, int(length), receive)
        _under_way.append(upload)
        try:
            yield None, upload
        finally:
            _under_way.remove(upload)


def _has_room(owner: str, size: int) -> bool:
    sessions = {session for session, tab in list(_tabs.items()) if tab.owner == owner}  # pages add tabs meanwhile
    own = [length for session, files in _held().items() if session in sessions for length in files]
    own += [upload.announced for upload in _under_way if upload.owner == owner]
    return len(own) < MOST_FILES and sum(own) + size <= MOST_OF_ONE


def _held() -> dict[str, list[int]]:
    """The sizes of the files in memory, by session."""
    if not exists():
        return {}
    stored = list(_store().file_storage.items())
    return {session: [len(file.data) for file in list(files.values())] for session, files in stored}


def _store() -> MemoryUploadedFileManager:
    """Streamlit's store of uploaded files."""
    return cast(MemoryUploadedFileManager, Runtime.instance().uploaded_file_mgr)

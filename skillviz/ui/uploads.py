"""Who may upload, and how much memory uploaded files may take.

Streamlit takes a file of any visitor whose page is open, as many as one sends, and keeps them in memory. Here a page
that draws an uploader lets its visitor use it, and files in memory have a limit, of one visitor's and of all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import streamlit as st
from starlette.types import Scope
from streamlit.runtime import Runtime, exists
from streamlit.runtime.scriptrunner import get_script_run_ctx

PATH = re.compile(r"/_stcore/upload_file/([^/]+)/[^/]+/?$")
MOST_OF_ONE, MOST_OF_ALL = 256 << 20, 1 << 30  # bytes in memory, of one visitor and of all
MOST_FILES = 12  # of one visitor
REMEMBERED = 10_000  # visitors who were shown an uploader

_shown: dict[str, None] = {}
_coming: Counter[str] = Counter()  # bytes that are being sent, by session


def uploader(label: str, kinds: Sequence[str], *, megabytes: int, **settings: Any) -> Any:
    """Draws Streamlit's uploader for one file of at most so many megabytes, and lets this visitor use it."""
    if (context := get_script_run_ctx()) is not None:
        _shown[context.session_id] = None
        while len(_shown) > REMEMBERED:
            del _shown[next(iter(_shown))]
    return st.file_uploader(label, kinds, max_upload_size=megabytes, **settings)


@contextmanager
def counted(scope: Scope) -> Iterator[tuple[int, str]]:
    """Counts the bytes of an upload while they come; yields a status and a sentence where it is refused, else 0."""
    session = found[1] if (found := PATH.search(scope["path"])) else ""
    if not session or scope["method"] != "PUT":
        yield 0, ""
        return
    length = dict(scope["headers"]).get(b"content-length", b"")
    size = int(length) if re.fullmatch(rb"\d{1,15}", length) else -1
    if refused := _refused(session, size):
        yield refused
        return
    _coming[session] += size
    try:
        yield 0, ""
    finally:
        _coming[session] -= size
        if not _coming[session]:
            del _coming[session]


def _refused(session: str, size: int) -> tuple[int, str] | None:
    if session not in _shown:
        return 403, "No page that takes a file is open for this visitor."
    if size < 0:
        return 411, "An upload says how long it is."
    held = _held()
    own = held.get(session, [])
    if len(own) >= MOST_FILES or sum(own) + _coming[session] + size > MOST_OF_ONE:
        return 413, "You have uploaded as much as one visitor may. Reload the page, or remove files."
    if sum(map(sum, held.values())) + _coming.total() + size > MOST_OF_ALL:
        return 413, "The uploads of all visitors take as much memory as they may. Try again later."
    return None


def _held() -> dict[str, list[int]]:
    """The sizes of the files that are in memory, by session."""
    if not exists():
        return {}
    stored = Runtime.instance().uploaded_file_mgr.file_storage  # type: ignore[attr-defined]
    return {session: [len(file.data) for file in list(files.values())] for session, files in list(stored.items())}

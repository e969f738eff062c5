"""Downloads that take seconds to make: one at a time, shared by equal requests, and only for an open tab.

Streamlit makes files in a few threads that all visitors share. A request that would wait long is therefore refused at
once, so that it holds no thread.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from skillviz.errors import SkillvizError

MOST_WAITING = 3  # visitors being served or waiting; a server has at least five threads for downloads
MOST_KEPT = 128 << 20  # bytes of finished files in memory
LOOK = 0.5  # seconds between checks that a waiting tab is still open
Make = Callable[[io.BytesIO], object]


class Refused(SkillvizError):
    """Raised if a download is not made: another one is in progress, or its tab is closed."""


class Tab:
    """The tab that a script runs for."""

    def __init__(self) -> None:
        context = get_script_run_ctx()
        self.id = context.session_id if context else ""

    @property
    def is_open(self) -> bool:
        """True if its browser is still connected, and always outside of a server."""
        return not (self.id and runtime.exists()) or runtime.get_instance().is_active_session(self.id)


def refuse_closed(tab: Any) -> None:
    """Raises Refused if a tab is closed."""
    if not tab.is_open:
        raise Refused("the tab that asked for this file is closed.")


class _ForTab(io.BytesIO):
    """A file that raises Refused when written to after its tab was closed, which stops its writer."""

    def __init__(self, tab: Any) -> None:
        super().__init__()
        self.tab = tab

    def write(self, content: Any) -> int:
        refuse_closed(self.tab)
        return super().write(content)


class Downloads:
    """The files in progress and the most recent finished ones."""

    def __init__(self, most_waiting: int = MOST_WAITING, most_kept: int = MOST_KEPT) -> None:
        self.most_waiting, self.most_kept = most_waiting, most_kept
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._tabs: set[str] = set()
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable, tab: Any, make: Make) -> bytes:
        """The bytes that `make` writes, or wrote for an equal key; with the key None they are always made.

        Raises Refused if the tab already has a download in progress, if too many others have, or if the tab is closed.
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            if tab.id in self._tabs or len(self._tabs) >= self.most_waiting:
                raise Refused("the server is making other downloads; try again in a minute.")
            self._tabs.add(tab.id)
        try:
            while not self._turn.acquire(timeout=LOOK):
                refuse_closed(tab)
            try:
                return self._made(key, tab, make)
            finally:
                self._turn.release()
        finally:
            with self._lock:
                self._tabs.discard(tab.id)

    def _made(self, key: Hashable, tab: Any, make: Make) -> bytes:
        with self._lock:  # another request may have made it meanwhile
            if key in self._kept:
                return self._kept[key]
        file = _ForTab(tab)
        make(file)
        content = file.getvalue()
        with self._lock:
            if key is not None and len(content) <= self.most_kept:
                self._kept[key] = content
            while sum(map(len, self._kept.values())) > self.most_kept:
                self._kept.popitem(last=False)
        return content


DOWNLOADS = Downloads()

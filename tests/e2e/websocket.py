"""A visitor of the dashboard by Streamlit's own protocol, which costs less than a browser."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from skillviz.ui.page_table import PAGES
from tests.e2e.server import PATIENCE

WAIT = PATIENCE / 1000
LIVE_PAGES = ("surgery", "tour", "interpolation")
STORED_PAGES = tuple(name for name in PAGES if name not in LIVE_PAGES)


@dataclass
class Seen:
    """The visitors' record: seconds of each page, the pages' titles, and the errors."""

    seconds: list[float] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Visitor:
    """A browser as the server sees it: one websocket, one session."""

    def __init__(self, address: str) -> None:
        self.url = f"{address.replace('http', 'ws', 1)}/_stcore/stream"
        self.pages: dict[str, str] = {}

    async def __aenter__(self) -> Visitor:
        self.socket = await websockets.connect(self.url, subprotocols=["streamlit"], max_size=None, open_timeout=WAIT)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.socket.close()

    async def visit(self, page: str, query: str, seen: Seen) -> None:
        """Request a page and wait until its script has ended; record the seconds, and an error that the page shows."""
        message, begun = BackMsg(), time.monotonic()
        message.rerun_script.query_string = query
        message.rerun_script.page_name = page
        message.rerun_script.page_script_hash = self.pages.get(page, "")
        await self.socket.send(message.SerializeToString())
        while True:
            answer = ForwardMsg()
            answer.ParseFromString(await asyncio.wait_for(self.socket.recv(), WAIT))
            kind = answer.WhichOneof("type")
            if kind == "navigation":
                self.pages = {one.url_pathname: one.page_script_hash for one in answer.navigation.app_pages}
            elif kind == "delta" and answer.delta.new_element.WhichOneof("type") == "exception":
                seen.errors.append(f"{page}?{query}: {answer.delta.new_element.exception.message}")
            elif kind == "delta" and answer.delta.new_element.heading.tag == "h1":
                seen.titles.append(answer.delta.new_element.heading.body)
            elif kind == "script_finished" and answer.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                break
        seen.seconds.append(time.monotonic() - begun)

"""`worker`: the process that owns models and answers the live pages; started by them, not by a person."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer


def worker(
    address: Annotated[Path, typer.Option("--address", help="The private folder where the worker is met.")],
    store: Annotated[Path, typer.Option("--store", help="The folder of runs; when it is gone, the worker ends.")],
    idle: Annotated[float, typer.Option("--idle", min=0.1, help="Seconds without a request until it ends.")] = 600,
) -> None:
    """Answer the live pages' questions about models until nobody asks any more."""
    from skillviz.live.address import Address
    from skillviz.live.server import Server, end_on_signals

    server = Server(Address(address), _Late(store), store, idle)
    end_on_signals(server)
    server.serve()


class _Late:
    """Answers by `live.answering`, which needs torch and is imported with the first request: the worker listens
    at once, so that whoever started it does not start another."""

    def __init__(self, store: Path) -> None:
        self.store, self.worker = store, None  # type: Path, Any

    def __call__(self, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        from skillviz.live.answering import answer
        from skillviz.live.request import Worker

        self.worker = self.worker or Worker(self.store)
        return answer(self.worker, operation, arguments)

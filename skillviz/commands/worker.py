"""`worker`: the process that holds models and answers the live pages; started by the pages, not by a user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from skillviz.live.address import Address
from skillviz.live.server import Server, end_on_signals


def worker(
    address: Annotated[Path, typer.Option("--address", help="The private folder where the worker listens.")],
    store: Annotated[Path, typer.Option("--store", help="The folder of runs; the worker stops when it is gone.")],
    idle: Annotated[float, typer.Option("--idle", min=0.1, help="Seconds without a request until it stops.")] = 600,
) -> None:
    """Answer the live pages' questions about models until no more come."""
    state: Any = None

    def answer(operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal state
        # imports torch: only at the first request, so that the worker listens at once and no second worker is started
        from skillviz.live import operations  # imports torch
        from skillviz.live.request import Worker

        state = state or Worker(store)
        return operations.answer(state, operation, arguments)

    server = Server(Address(address), answer, store, idle)
    end_on_signals(server)
    server.serve()

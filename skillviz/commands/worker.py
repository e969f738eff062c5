"""`worker`: the process that holds models and answers the live pages; started by the pages, not by a user."""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import typer

from skillviz.live.client import serve


def worker(
    connection: Annotated[int, typer.Option("--connection", help="The file descriptor of the pipe to the dashboard.")],
    store: Annotated[Path, typer.Option("--store", help="The folder of runs.")],
    idle: Annotated[float, typer.Option("--idle", min=0.1, help="Seconds without a request until it stops.")],
) -> None:
    """Answer the live pages' questions about models until no more come."""
    pipe, state = Connection(connection), None

    def answer(operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal state
        # imports torch: with the first request only, so that a worker that cannot start is noticed at once
        from torch.nn.modules.module import register_module_forward_pre_hook
        from transformers import PreTrainedModel

        from skillviz.live import operations, request  # imports torch

        def stop_if_cancelled(module: Any, _: Any) -> None:
            """Stop between two forward passes, where every graft is undone by the blocks that the error leaves."""
            if isinstance(module, PreTrainedModel) and pipe.poll():
                raise KeyboardInterrupt

        if state is None:
            state = request.Worker(store)
            register_module_forward_pre_hook(stop_if_cancelled)
        return operations.answer(state, operation, arguments)

    serve(pipe, answer, idle)

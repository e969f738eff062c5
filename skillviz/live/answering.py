"""A request's answer: its operation found, its arguments checked, and answers about a run kept beside it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any

from skillviz.errors import BadInput
from skillviz.live.operations import OPERATIONS, ping
from skillviz.live.request import Answer, Asked, Worker

NOT_KEPT = ("ping", "open")


def answer(worker: Worker, operation: str, arguments: Mapping[str, Any]) -> Answer:
    """The operation's answer, with `seconds` it took and whether it was `kept` from before.

    Answers about a run are kept beside it, so that the same request is answered without the model.
    """
    began = time.monotonic()
    function = OPERATIONS.get(operation)
    if function is None:
        raise BadInput(f"'{operation}' is not an operation of the worker; known: {', '.join(OPERATIONS)}.")
    given = dict(arguments)
    first = worker if function is ping else Asked(worker, given.pop("pair", None))
    bound = _bound(function, operation, first, given)
    key = None if isinstance(first, Worker) or operation in NOT_KEPT else first.key(operation, bound)
    found = worker.kept(first, key) if isinstance(first, Asked) else None
    kept = found is not None
    if found is None:
        found = function(first, **bound)
        if isinstance(first, Asked):
            worker.keep(first, key, found)
    return {**found, "kept": kept, "seconds": time.monotonic() - began}


def _bound(function: Callable[..., Answer], name: str, first: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with their defaults; raises BadInput for one that the operation does not have, or that it lacks."""
    signature = inspect.signature(function)
    known = list(signature.parameters)[1:]
    strange = [key for key in given if key not in known]
    if strange:
        raise BadInput(f"'{strange[0]}' is not an argument of '{name}'; known: {', '.join(known) or 'none'}.")
    needed = [key for key in known if signature.parameters[key].default is inspect.Parameter.empty]
    missing = [key for key in needed if key not in given]
    if missing:
        raise BadInput(f"'{name}' needs the argument '{missing[0]}'.")
    bound = signature.bind(first, **given)
    bound.apply_defaults()
    return {key: bound.arguments[key] for key in known}

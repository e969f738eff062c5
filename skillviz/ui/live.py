"""Asking the worker from a page: what a control shows that no run has stored. The page itself holds no model.

A page that asks goes on without an answer: `ask` then has said why, and what would bring it.
"""

from __future__ import annotations

import json
from typing import Any

import streamlit as st

from skillviz.errors import BadModel, LiveError, SkillvizError, Superseded
from skillviz.live.client import Client
from skillviz.live.results import FOLDER
from skillviz.models.fetch import refuse_absent
from skillviz.runs.run import Run
from skillviz.ui import cache, text

CLIENT = "live.client"
WAITING = "Asking the models; the first question loads them."


def ask(run: Run, operation: str, *, topic: str, waiting: str = WAITING, **arguments: Any) -> dict[str, Any] | None:
    """The worker's answer about the run's pair (`live.operations`); None where there is none, which is then said.

    `topic` names the control that asks: of two requests of one topic that wait, the older is given up.
    """
    try:
        _refuse_absent(run)
        with st.spinner(waiting):
            return cache.answer(run, operation, json.dumps(arguments, sort_keys=True), client(), topic)
    except Superseded:
        return None
    except SkillvizError as error:
        explain(run, error, topic)
        return None


def _refuse_absent(run: Run) -> None:
    """Raises ModelNotFound where only models could answer and they are not here: no worker is started to find out."""
    if not (cache.own_store().root / FOLDER / run.id).is_dir():  # kept answers need no model
        for source in (run.spec.base, run.spec.finetuned):
            refuse_absent(source)


def explain(run: Run, error: SkillvizError, topic: str) -> None:
    """Says why there is no answer, and what to do: where weights belong, or that one may try again."""
    said = text.plain(str(error.args[0]))
    if isinstance(error, BadModel):
        st.warning(
            f"This needs the weights of both models, which do not ship with the run: `{run.spec.base}` and "
            f"`{run.spec.finetuned}`. "
            f"What is wrong: {said} Bring the folder back (a relative one is looked for in the folder where the "
            "dashboard was started, then in the project's), or open a run whose weights are here.",
            icon=":material/deployed_code_alert:",
        )
        return
    st.warning(said, icon=":material/error:")
    if isinstance(error, LiveError):
        st.button("Try again", key=f"live.again.{topic}", icon=":material/refresh:")


def client() -> Client:
    """This session's client of the worker."""
    root = cache.own_store().root
    found: Client | None = st.session_state.get(CLIENT)
    if found is None or found.store != root.expanduser().resolve():
        found = st.session_state[CLIENT] = Client(root)
    return found

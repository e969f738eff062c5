"""Requests from a page to the worker, for results that no run has stored. The page itself holds no model.

A page continues without an answer: `ask` has then shown the reason, and a remedy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from skillviz.errors import (
    BadData,
    BadInput,
    BadModel,
    DataNotFound,
    LiveError,
    ModelNotFound,
    SkillvizError,
    Superseded,
    UnsetVariable,
)
from skillviz.live.client import IDLE_SECONDS, Client
from skillviz.models.fetch import refuse_absent
from skillviz.models.preflight import published_base
from skillviz.runs.record import ModelNote
from skillviz.runs.run import Run
from skillviz.runs.store import ANSWERS
from skillviz.serving import sign_in
from skillviz.serving.users import shared_root, user_of
from skillviz.show import text
from skillviz.show.briefs import hero
from skillviz.tasks.reading import is_on_hub_alone
from skillviz.tasks.registry import with_data
from skillviz.tasks.task import Hub, Task
from skillviz.tasks.user_file import has_data
from skillviz.ui import address, cache, controls, fetching
from skillviz.ui.other_tasks import source_of

REMARKS = "live.remarks"  # session key: remarks already on the page, because one page sends several requests
OWN_SECONDS = 120.0  # seconds without a request after which the worker of one of many users ends
CLIENTS: dict[Path, Client] = {}  # of all sessions, by store
NAMED = re.compile(r'"run": "([^"]*)"')  # in the arguments of a request, as JSON
WAITING = "Running the models; the first time loads them."


def begin() -> None:
    """Clears the remarks shown by the last page; called once per script run."""
    st.session_state[REMARKS] = set()


def ask(run: Run, operation: str, *, topic: str, waiting: str = WAITING, **arguments: Any) -> dict[str, Any] | None:
    """Return the worker's answer about the run's pair (`live.operations`); without one, show why and return None.

    `topic` names the control of the request: if two requests of one topic are waiting, the older is dropped.
    """
    try:
        text_of_arguments = json.dumps(arguments, sort_keys=True)
        asked = client(_store_for(run, text_of_arguments))
        if not (asked.store / ANSWERS / run.id).is_dir():  # stored answers need no model
            for source, was_folder in _pair(run).values():
                refuse_absent(source, was_folder)  # checked here, so that no worker is started in vain
        with st.spinner(waiting):
            answer = cache.answer(run, operation, text_of_arguments, asked, topic)
    except Superseded:
        return None
    except SkillvizError as error:
        explain(run, error, topic, arguments.get("task"))
        return None
    remark, shown = answer.get("uncompared"), st.session_state.setdefault(REMARKS, set())
    if remark and remark not in shown:
        st.caption(text.with_code(remark))
        shown.add(remark)
    return answer


def has_models(run: Run) -> bool:
    """True if both models are present, or stored answers about the run, which need no model."""
    own = cache.user_store().root
    return any((store / ANSWERS / run.id).is_dir() for store in (own, shared_root(own))) or not _absent(run)


def wanted(run: Run, name: str, label: str, costs: str, *, of: str, needs_data: bool = True) -> bool:
    """True if the user pressed the button that starts a computation with the models; else shows its cost, `costs`.

    If a model is missing, or with `needs_data` the data of the run's task, it shows that instead of the button. `name`
    and `of` work as in `controls.press`.
    """
    if not has_models(run):
        say_absent(run, name)
        return False
    if needs_data and (task := source_of(run)) is not None:
        try:
            with_data(task)
        except SkillvizError as error:
            explain(run, error, name)
            return False
    with st.container(horizontal=True, vertical_alignment="center"):
        if controls.press(name, label, of=f"{run.id} {of}", icon=":material/play_arrow:"):
            return True
        st.caption(costs, width="stretch")
    return False


def explain(run: Run, error: SkillvizError, topic: str, other: str | None = None) -> None:
    """Shows why there is no answer and the remedy: a download of the weights or the data, or another try.

    `other` is the other task in the request, if any.
    """
    if isinstance(error, ModelNotFound) and say_absent(run, topic):
        return
    if isinstance(error, DataNotFound) and (lacking := _hub_task([other, run.spec.task])):
        assert isinstance(lacking.data, Hub)
        name, title = text.tasks(lacking.name), text.plain(lacking.data.title)
        st.warning(
            f"**{name} is not on this machine.** It is the data set {title} of the Hugging Face Hub.",
            icon=":material/database_off:",
        )
        fetching.data_button(lacking)
        return
    if isinstance(error, BadData | UnsetVariable) and lacks_data(run):
        _explain_no_data(error)
        _offer_opening(run, topic)
        return
    icon = ":material/deployed_code_alert:" if isinstance(error, BadModel) else ":material/error:"
    st.warning(text.with_code(sign_in.sentence_of(error)), icon=icon)
    if isinstance(error, LiveError):
        st.button("Try again", key=f"live.again.{topic}", icon=":material/refresh:")
    if isinstance(error, BadInput):
        _offer_opening(run, topic)


def say_absent(run: Run, topic: str) -> bool:
    """Shows which models are missing, if any, and offers the opening run; returns whether one is missing."""
    absent = _absent(run)
    if absent:
        _explain_absent(run, absent)
        _offer_opening(run, topic)
    return bool(absent)


def _hub_task(names: Sequence[str | None]) -> Task | None:
    """The first of these tasks whose data are on the hub and not in its local cache."""
    for name in filter(None, names):
        task = cache.task_defined(name)
        if is_on_hub_alone(task):
            return task
    return None


def lacks_data(run: Run) -> bool:
    """True if both models are present but not the data of their task, so that the models can only score other texts."""
    task = source_of(run)
    return task is not None and not has_data(task) and not _absent(run)


def _explain_no_data(error: SkillvizError) -> None:
    """Shows that the run's own examples are missing, and lists other uses of the models."""
    st.warning(
        "**This needs the run's own examples.** The data of its task are not on this machine, but the models are: type "
        "a sentence, or score another task on the page Transfer.",
        icon=":material/database_off:",
    )
    with st.expander("Where the data are looked for"):
        st.markdown(text.with_code(sign_in.sentence_of(error)))


def _offer_opening(run: Run, topic: str) -> None:
    """Offers the same page on the run that the dashboard opens with, unless its pair is already shown."""
    opening = hero(cache.briefs())
    if opening is not None and run.spec.finetuned != opening.finetuned:
        st.button(
            "Try this page on the run that the dashboard opens on", key=f"live.opening.{topic}",
            on_click=address.keep, args=(address.RUN, opening.id), icon=":material/school:",
        )  # fmt: skip


def _explain_absent(run: Run, absent: dict[str, str]) -> None:
    """Shows that weights are missing, and offers a download if possible; the searched folders are folded."""
    published = published_base(run.spec.base, run.spec.finetuned)
    lacking = "Neither is on this machine." if len(absent) == 2 else "One of them is not on this machine."
    st.warning(
        f"**This needs the weights of both models.** {lacking} Most runs ship without them.",
        icon=":material/deployed_code_alert:",
    )
    if published is not None:
        fetching.button(published)
    with st.expander("Which weights, and how to get them"):
        st.markdown("\n".join(f"- {role}: {text.with_code(sentence)}" for role, sentence in absent.items()))
        st.markdown("A relative folder is looked for where the dashboard was started, then in the project.")


def _absent(run: Run) -> dict[str, str]:
    """The reasons why models of the pair are missing, by role and source; empty if both are present."""
    missing = {}
    for role, (source, was_folder) in _pair(run).items():
        try:
            refuse_absent(source, was_folder)
        except SkillvizError as error:
            missing[role] = sign_in.sentence_of(error)
    return missing


def _pair(run: Run) -> dict[str, tuple[str, bool]]:
    """The base and fine-tuned model as named by the run, and whether each was a folder rather than from the hub."""
    spec, record = run.spec, run.record
    published = published_base(spec.base, spec.finetuned)
    base = (published, False) if published else (spec.base, _was_folder(record.base))
    finetuned = (spec.finetuned, _was_folder(record.finetuned))
    return {f"{role}, `{one[0]}`": one for role, one in (("Pre-trained", base), ("Fine-tuned", finetuned))}


def _was_folder(note: ModelNote | None) -> bool:
    return note is not None and note.revision is None


def client(root: Path) -> Client:
    """The client of a store's worker, which all sessions share."""
    return CLIENTS.setdefault(root, Client(root, idle_seconds=OWN_SECONDS if user_of(root) else IDLE_SECONDS))


def _store_for(run: Run, arguments: str) -> Path:
    """The store whose worker answers: the shared one if any user could send the request, else the user's own.

    A class that looks at one shared run thus has one worker and one copy of its models. The worker of the shared store
    has no access to users' runs, and its stored answers are the same for all users.
    """
    own = cache.user_store().root
    shared = shared_root(own)
    named = set(NAMED.findall(arguments))
    everybodys = {brief.id for brief in cache.briefs() if not brief.is_of_user}
    is_own = run.path.is_relative_to(own) or str(own) in arguments or not named <= everybodys
    return own if is_own else shared

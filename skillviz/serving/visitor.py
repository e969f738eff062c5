"""The files that a visitor may name: only in a few folders, and not in an address alone.

Anyone can write an address. A file that it names is therefore shown with a button, and read only after a click.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import streamlit as st

from skillviz.core import formats
from skillviz.errors import BadInput
from skillviz.models import fetch
from skillviz.serving import sign_in
from skillviz.serving.guard import LOOPBACK, host_of, public_hosts
from skillviz.serving.settings import MODELS_VARIABLE, OURS, ROOTS_VARIABLE, settings
from skillviz.serving.users import USERS, shared_root, user_of
from skillviz.show import text as words
from skillviz.tasks import registry
from skillviz.tasks.project import (
    NOWHERE,
    app_root,
    expanded,
    located,
    project_root,
)
from skillviz.tasks.task import Files, Task
from skillviz.tasks.user_file import data_files

PASSED_ON = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers that proxies add."""
_LINKED = "visitor.linked"  # session key: by field, the values named in an address and not yet confirmed


def roots() -> tuple[Path, ...]:
    """The folders that may contain a visitor's files.

    For every visitor: the folders in $SKILLVIZ_ROOTS and $SKILLVIZ_MODELS, the shipped models and the visitor's store
    of runs. For a user at this machine (`is_local`) also the home, the working folder, the project's folder, the hub's
    cache, and the folders in other SKILLVIZ_ variables.
    """
    listed = settings.folders(ROOTS_VARIABLE, MODELS_VARIABLE)
    places = [app_root() / fetch.EXAMPLES, sign_in.user_root()]
    if is_local():
        listed += settings.local_folders()
        places += [Path.home(), Path.cwd(), project_root()]
    return tuple(dict.fromkeys(place.resolve() for place in (*(Path(expanded(path)) for path in listed), *places)))


def refuse_variables(text: str) -> str:
    """Returns the text unless it names an environment variable that is not the project's; then raises BadInput.

    For text from a page or a URL: variables in paths are filled in later and may then appear in a message, and secrets
    in the machine's environment, such as a password, must not be shown to everyone who can open the page.
    """
    for match in re.finditer(r"\$(?:\{([^}]*)\}|([A-Za-z0-9_]+))", text):  # like `os.path.expandvars`
        name = match[1] if match[1] is not None else match[2]
        if not name.startswith(OURS):
            raise BadInput(
                f"'{match[0]}' is not filled in: of the environment only variables whose names begin with {OURS} may "
                "stand in what is given on a page; write the path itself."
            )
    return text


def checked_text(text: str) -> str:
    """The text, if it names no file outside `roots` after links are followed.

    Raises BadInput for other files, whether or not they exist, and for environment variables other than the project's.
    """
    refuse_variables(text)
    path = located(text)
    is_name = not path.is_absolute() and ".." not in path.parts and not path.exists()  # a name of a task or on the hub
    inside = path == NOWHERE or any(path.resolve().is_relative_to(root) for root in roots())
    if is_name or (inside and not _is_of_other_user(path.resolve())):
        return text
    if is_local():
        allowed = formats.listed([str(root) for root in roots()], 9)
        way_on = f"Allowed: {allowed}. Move it there, or add its folder to the environment variable {ROOTS_VARIABLE}."
    else:  # a remote visitor may not learn the machine's folders
        way_on = f"Upload the file, or ask whoever runs this dashboard to add its folder to {ROOTS_VARIABLE}."
    raise BadInput(f"'{text}' is outside the folders that this dashboard may read. {way_on}")


def is_local() -> bool:
    """True if the visitor works at this machine, as far as a server can tell.

    False if the server listens on another address or has a public name, if visitors sign in, or if a proxy forwarded
    the request: behind a proxy on this machine, all visitors seem to be local.
    """
    headers = {name.lower(): value for name, value in st.context.headers.items()}
    asked = [host_of(f"//{headers['host']}")] if "host" in headers else []
    asked += [host_of(headers["origin"])] if "origin" in headers else []
    return (
        st.get_option("server.address") in LOOPBACK
        and all(host in LOOPBACK for host in (*public_hosts(), *asked))
        and not any(name in headers for name in PASSED_ON)
        and not sign_in.providers()
    )


def _is_of_other_user(path: Path) -> bool:
    """True if a path is in the users' stores and not in the visitor's own store, whichever folders are roots."""
    own = sign_in.user_root()
    return path.is_relative_to(shared_root(own) / USERS) and not (user_of(own) and path.is_relative_to(own))


def task(name: str) -> Task:
    """The task of this name or file, if its file and its data are under `roots`; raises a SkillvizError.

    This check applies to each task that a page names: in an address, a field, a list or a study's file.
    """
    return allowed(registry.task(checked_text(name)))


def checked_task(text: str) -> str:
    """The text after `checked_text`; if it names a task's file, `task` checks that task too."""
    if text.lower().endswith(registry.YAML) and located(checked_text(text)).is_file():
        task(text)
    return checked_text(text)


def allowed(task: Task) -> Task:
    """The task; raises BadInput if its file or its data are outside `roots`."""
    data = data_files(task).values() if isinstance(task.data, Files) else ()
    for path in (*filter(None, [task.path]), *data):
        checked_text(str(path))
    return task


def note_linked(field: str, values: Sequence[str]) -> None:
    """Remembers the values that an address names in a field."""
    st.session_state.setdefault(_LINKED, {})[field] = set(values)


def is_chosen(field: str, values: Sequence[str], offered: Collection[str]) -> bool:
    """True if no value is only from an address; else draws the button that confirms all values of the address."""
    linked: set[str] = st.session_state.get(_LINKED, {}).get(field, set())
    waiting = [value for value in values if value in linked and value not in offered]
    if waiting:
        named = formats.listed([f"'{words.plain(value)}'" for value in waiting], 3)
        st.info(f"This link names {named}. It is opened only if you click.", icon=":material/link:")
        st.button("Open what the link names", key=f"visitor.{field}", on_click=st.session_state[_LINKED].clear)
    return not waiting

"""Who looks: where the deployment's secrets configure sign-in, each user has a store of runs, and nobody else sees it.

Sign-in is Streamlit's own, by OpenID Connect: a section `[auth]` in `.streamlit/secrets.toml` (docs/deploy.md). Without
it there is one store, of whoever can open the dashboard.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from streamlit.errors import StreamlitSecretNotFoundError

from skillviz import read_only
from skillviz.core import formats
from skillviz.errors import BadInput, NotSignedIn, SkillvizError, visible
from skillviz.runs import quota
from skillviz.runs.store import store_root
from skillviz.runs.users import make_store, store_of_user, user_named
from skillviz.show import text
from skillviz.ui import frame

SECTION = "auth"
PLACES = "STREAMLIT_SECRETS_FILES"
CLIENT = "client_id"  # an entry of each provider's settings
LIBRARY = "authlib"
LONGEST = 30  # letters of a name in the menu
MADE = "sign_in.made"  # in the session: the store that is there
SHARED = "the shared store"
NAMES = ("name", "preferred_username", "email")
"""Claims that say to a person who is signed in."""

_mount = st.components.v2.component(
    "skillviz_linked",
    html="<span></span>",
    js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8"),
)


@dataclass(frozen=True)
class User:
    """Somebody who is signed in; `id` names the store."""

    id: str
    name: str
    owner: Mapping[str, str]


@functools.cache
def providers() -> tuple[str, ...]:
    """The identity providers of the secrets, "" for one without a name; none where nobody has to sign in.

    They are read once: who changes the secrets starts the server again. Raises BadInput for secrets that cannot be
    read, lack a provider, or are not where the environment says: a server that was to ask for sign-in must not go on
    without it. A read-only one needs none.
    """
    try:
        if not any(Path(place).exists() for place in st.get_option("secrets.files")):
            if os.environ.get(PLACES) and not read_only.is_on():
                raise BadInput(f"the file of secrets that {PLACES} names is not there; add it, or unset the variable.")
            return ()
        section = st.secrets.get(SECTION)
    except (StreamlitSecretNotFoundError, OSError) as error:
        raise BadInput("the file of secrets cannot be read; correct it and start the server again.") from error
    if section is None:
        return ()
    if importlib.util.find_spec(LIBRARY) is None:
        raise BadInput("sign-in needs the package Authlib; install it (docs/deploy.md) and start the server again.")
    named = [name for name, part in section.items() if isinstance(part, Mapping) and CLIENT in part]
    if not named and CLIENT not in section:
        raise BadInput(
            f"[{SECTION}] in the secrets names no identity provider; add {CLIENT}, client_secret and "
            "server_metadata_url, and start the server again."
        )
    return tuple(named) if named else ("",)


def user() -> User | None:
    """Who is signed in; None where nobody has to. Raises NotSignedIn where somebody has to, and is not."""
    if not providers():
        return None
    claims = st.user.to_dict()
    if not claims.get("is_logged_in"):
        raise NotSignedIn("this dashboard asks you to sign in; reload the page and sign in.")
    issuer, subject = claims.get("iss"), claims.get("sub")
    if not (isinstance(issuer, str) and issuer and isinstance(subject, str) and subject):
        raise NotSignedIn(
            "the identity provider does not say who you are (`iss` and `sub` are missing), so there is no place for "
            "your runs; tell whoever runs this dashboard."
        )
    name = next((str(claims[claim]) for claim in NAMES if claims.get(claim)), subject)
    owner = {"issuer": issuer, "subject": subject, "name": name}
    return User(user_named(issuer, subject), name, owner)


def owner() -> str:
    """The id of who is signed in, empty where nobody has to; raises NotSignedIn."""
    visitor = user()
    return visitor.id if visitor else ""


def user_root() -> Path:
    """The folder of the visitor's own runs; raises NotSignedIn."""
    return store_of_user(store_root().resolve(), owner())


def sentence_of(error: SkillvizError) -> str:
    """What a visitor reads of an error: its sentence, as `without_places` gives it."""
    return without_places(str(error.args[0]))


def without_places(sentence: str) -> str:
    """A sentence for the visitor: where people sign in, stores have names in it, not their places on the server."""
    if not providers():
        return sentence
    shared = store_root()
    names = {user_root(): "your store", shared.resolve(): SHARED, shared: SHARED}
    for place, name in names.items():
        sentence = sentence.replace(str(place), name)
    return sentence


def is_open() -> bool:
    """Whether pages may be shown; makes a user's store at the first visit. Else `draw` belongs in their place."""
    try:
        visitor = user()
    except SkillvizError:
        return False
    if visitor is not None and st.session_state.get(MADE) != visitor.id and not read_only.is_on():
        with suppress(SkillvizError):  # whoever starts something is told why it cannot be stored
            make_store(store_root().resolve(), visitor.id, dict(visitor.owner))
            st.session_state[MADE] = visitor.id
    return True


def draw() -> None:
    """In place of a page: the buttons that lead to the identity providers."""
    st.set_page_config(page_title="Sign in · skillviz")
    frame.draw()
    st.title("Sign in to skillviz", anchor=False)
    try:
        names = providers()
        if st.user.to_dict().get("is_logged_in"):
            user()
        st.markdown("Your runs are yours alone. Shared runs are shown to everybody who signs in.")
        for name in names:
            label = f"Sign in with {text.plain(name)}" if name else "Sign in"
            st.button(
                label, type="primary", icon=":material/login:", key=f"sign_in.{name}", on_click=_begin, args=(name,)
            )
        _keep_link(waits=True)
    except SkillvizError as error:
        st.error(text.plain(str(error.args[0])), icon=":material/error:")
        if isinstance(error, NotSignedIn):
            st.button("Sign out", key="sign_in.out", on_click=st.logout)


def _begin(name: str) -> None:
    st.login(name or None)


def _keep_link(waits: bool) -> None:
    """Keeps the address of who waits to sign in; takes who has signed in there."""
    with st.container(key="sign-in-link"):
        _mount(key="sign-in.link", data={"waits": waits}, height=1)


def account() -> None:
    """In the menu, for who is signed in: the name, the way out, and what the runs hold."""
    visitor = user()
    if visitor is not None:
        with st.sidebar:
            st.fragment(_account)(visitor)
            _keep_link(waits=False)


def _account(visitor: User) -> None:
    name = visible(visitor.name)  # it is the provider's, or the visitor's own choice
    name = name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
    box = st.popover(text.plain_line(name), icon=":material/account_circle:", key="account", on_change="rerun")
    with box:
        st.button("Sign out", key="account.out", icon=":material/logout:", on_click=st.logout)
        if box.open:  # what the runs hold is counted file by file
            with suppress(NotSignedIn):  # the visitor has just signed out here, and the page comes in a moment
                st.markdown(_held())
                st.caption(f"Your store: `{visitor.id}`")


def _held() -> str:
    """What the user's runs hold, and may hold."""
    try:
        most = quota.most_bytes()
    except BadInput as error:
        return text.plain(str(error.args[0]))
    held = formats.byte_size(quota.bytes_held(user_root()))
    return f"Your runs and data hold **{held}**{f' of {formats.byte_size(most)}' if most is not None else ''}."

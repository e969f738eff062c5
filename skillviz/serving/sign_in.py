"""Sign-in: if the deployment's secrets configure it, each user has a private store of runs.

Sign-in is Streamlit's own, by OpenID Connect: a section `[auth]` in `.streamlit/secrets.toml` (docs/deploy.md). Without
it there is one store, for everyone who can open the dashboard.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from streamlit.errors import StreamlitSecretNotFoundError

from skillviz.atomic import write_text
from skillviz.core import formats
from skillviz.errors import BadInput, NotSignedIn, SkillvizError, visible
from skillviz.runs.store import store_root, written
from skillviz.serving import quota
from skillviz.serving.settings import SECRETS_VARIABLE, settings
from skillviz.serving.users import OWNER, store_of_user, user_named
from skillviz.show import text

SECTION = "auth"
CLIENT = "client_id"  # an entry of each provider's settings
LIBRARY = "authlib"
LONGEST = 30  # characters of a name in the menu
MADE = "sign_in.made"  # session key: the user whose store has been made
SHARED = "the shared store"
NAMES = ("name", "preferred_username", "email")
"""Claims that hold a readable name of the signed-in user, in order of preference."""

_mount = st.components.v2.component(
    "skillviz_linked",
    html="<span></span>",
    js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8"),
)


@dataclass(frozen=True)
class User:
    """A signed-in user; `id` names the store."""

    id: str
    name: str
    owner: dict[str, str]


@functools.cache
def providers() -> tuple[str, ...]:
    """The identity providers in the secrets, "" for one without a name; empty if no sign-in is configured.

    They are read once: a change of the secrets needs a restart of the server. Raises BadInput for secrets that cannot
    be read, lack a provider, or are not where the environment says: a server configured for sign-in must not run
    without it. A read-only server needs no secrets.
    """
    try:
        if not any(Path(place).exists() for place in st.get_option("secrets.files")):
            if settings.has_secrets and not settings.read_only:
                raise BadInput(
                    f"the file of secrets that {SECRETS_VARIABLE} names is not there; add it, or unset the variable."
                )
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
    """The signed-in user; None if no sign-in is configured. Raises NotSignedIn if the visitor has to sign in first."""
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
    """The id of the signed-in user; empty if no sign-in is configured. Raises NotSignedIn."""
    visitor = user()
    return visitor.id if visitor else ""


def user_root() -> Path:
    """The folder of the visitor's own runs; raises NotSignedIn."""
    return store_of_user(store_root().resolve(), owner())


def sentence_of(error: SkillvizError) -> str:
    """The sentence of an error as a visitor may read it, after `without_places`."""
    return without_places(str(error.args[0]))


def without_places(sentence: str) -> str:
    """The sentence with the names of stores in place of their paths on the server, if users sign in."""
    if not providers():
        return sentence
    shared = store_root()
    names = {user_root(): "your store", shared.resolve(): SHARED, shared: SHARED}
    for place, name in names.items():
        sentence = sentence.replace(str(place), name)
    return sentence


def is_open() -> bool:
    """True if pages may be shown; if not, `draw` replaces them. Makes a user's store at the first visit."""
    try:
        visitor = user()
    except SkillvizError:
        return False
    if visitor is not None and st.session_state.get(MADE) != visitor.id and not settings.read_only:
        with suppress(SkillvizError):  # the reason is shown when the user starts something
            make_store(visitor)
            st.session_state[MADE] = visitor.id
    return True


def make_store(visitor: User) -> None:
    """Makes the user's folder, with the owner's identity, if it does not exist; raises StoreError if that fails."""
    root = store_of_user(store_root().resolve(), visitor.id)
    with written(root):
        root.mkdir(parents=True, exist_ok=True)
        if not (root / OWNER).exists():
            write_text(root / OWNER, json.dumps(visitor.owner, indent=1) + "\n")


def draw() -> None:
    """Draws the sign-in page, with a button for each identity provider."""
    st.title("Sign in to skillviz", anchor=False)
    try:
        names = providers()
        if st.user.to_dict().get("is_logged_in"):
            user()
        st.markdown("Your runs are yours alone. Shared runs are shown to everybody who signs in.")
        for name in names:
            label = f"Sign in with {text.plain(name)}" if name else "Sign in"
            st.button(
                label, type="primary", icon=":material/login:", key=f"sign_in.{name}", on_click=st.login,
                args=(name or None,),
            )  # fmt: skip
        _keep_link(waits=True)
    except SkillvizError as error:
        st.error(text.plain(str(error.args[0])), icon=":material/error:")
        if isinstance(error, NotSignedIn):
            st.button("Sign out", key="sign_in.out", on_click=st.logout)


def _keep_link(waits: bool) -> None:
    """Keeps the address while a user has to sign in, and opens it afterwards."""
    with st.container(key="sign-in-link"):
        _mount(key="sign-in.link", data={"waits": waits}, height=1)


def account() -> None:
    """Draws the signed-in user's name in the menu, with the sign-out button and the size of the user's runs."""
    visitor = user()
    if visitor is not None:
        with st.sidebar:
            st.fragment(_account)(visitor)
            _keep_link(waits=False)


def _account(visitor: User) -> None:
    name = visible(visitor.name)  # it is set by the provider or by the user
    name = name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
    box = st.popover(text.plain_line(name), icon=":material/account_circle:", key="account", on_change="rerun")
    with box:
        st.button("Sign out", key="account.out", icon=":material/logout:", on_click=st.logout)
        if box.open:  # the size is counted file by file
            with suppress(NotSignedIn):  # the user has just signed out here; the sign-in page follows
                st.markdown(_held())
                st.caption(f"Your store: `{visitor.id}`")


def _held() -> str:
    """The size of the user's runs and its limit, as a sentence."""
    try:
        most = settings.quota
    except BadInput as error:
        return text.plain(str(error.args[0]))
    held = formats.byte_size(quota.bytes_held(user_root()))
    return f"Your runs and data hold **{held}**{f' of {formats.byte_size(most)}' if most is not None else ''}."

"""Stores of several users of one deployment: folders of runs within a shared one, whose runs all of them see.

<shared>/                     runs for everybody to see; pages change nothing there
<shared>/users/<user>/        the runs of one user, as in any store
<shared>/users/<user>/owner.json
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from skillviz.atomic import write_text
from skillviz.runs.store import written

USERS = "users"
OWNER = "owner.json"
USER = re.compile(r"[0-9a-f]{32}")
"""A user in names of folders and files: nobody can choose it, and it is the same at every sign-in."""


def user_of(root: Path) -> str:
    """The user whose store this folder is; empty for a store that is no user's of a deployment."""
    return root.name if root.parent.name == USERS and USER.fullmatch(root.name) else ""


def shared_root(root: Path) -> Path:
    """The shared store that a user's one lies in; any other store is its own."""
    return root.parent.parent if user_of(root) else root


def store_of_user(shared: Path, user: str) -> Path:
    """The user's folder in a shared store; the shared store itself for no user."""
    return shared / USERS / user if user else shared


def user_named(issuer: str, subject: str) -> str:
    """The user that an identity provider names: no other provider's user is the same, whatever its subject."""
    return hashlib.sha256(json.dumps([issuer, subject]).encode()).hexdigest()[:32]


def make_store(shared: Path, user: str, owner: dict[str, str]) -> None:
    """Makes the user's folder with who it is, where it is not there; raises StoreError where it cannot be made."""
    root = store_of_user(shared, user)
    with written(root):
        root.mkdir(parents=True, exist_ok=True)
        if not (root / OWNER).exists():
            write_text(root / OWNER, json.dumps(owner, indent=1) + "\n")

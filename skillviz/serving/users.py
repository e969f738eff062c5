"""Stores of several users of one deployment: subfolders of a shared store, whose runs all users can see.

<shared>/                     runs that all users see; pages change nothing there
<shared>/users/<user>/        the runs of one user, as in any store
<shared>/users/<user>/owner.json
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

USERS = "users"
OWNER = "owner.json"
USER = re.compile(r"[0-9a-f]{32}")
"""A user's id in names of folders and files. Users cannot choose it, and it is the same at every sign-in."""


def user_of(root: Path) -> str:
    """Return the user whose store this folder is; empty for a store that does not belong to a user of a deployment."""
    return root.name if root.parent.name == USERS and USER.fullmatch(root.name) else ""


def shared_root(root: Path) -> Path:
    """Return the shared store that contains a user's store; any other store is returned unchanged."""
    return root.parent.parent if user_of(root) else root


def store_of_user(shared: Path, user: str) -> Path:
    """Return the user's folder in a shared store; without a user, the shared store itself."""
    return shared / USERS / user if user else shared


def user_named(issuer: str, subject: str) -> str:
    """Return the user id for an identity provider's user. Users of different providers never share an id."""
    return hashlib.sha256(json.dumps([issuer, subject]).encode()).hexdigest()[:32]

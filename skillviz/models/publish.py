"""Publish a folder on the Hugging Face Hub: checks, then one commit.

All requests use the hub's own client. Nothing here runs unless an option requests it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skillviz.errors import BadInput, HubError, first_line

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
LONGEST = 96
MAIN = "main"
LOGIN = "Run `hf auth login`, or set HF_TOKEN to a token with write access."


def check_repository(name: str) -> None:
    """Raise BadInput for an invalid name of a repository; makes no request."""
    if not REPOSITORY.fullmatch(name) or len(name) > LONGEST or ".." in name or "--" in name or name[-1] in ".-":
        raise BadInput(
            f"'{name}' is not a repository of the Hugging Face Hub. Use the form org/name, with letters, digits, "
            f"single '-', '_' and '.', at most {LONGEST} characters."
        )


def check_login(name: str) -> None:
    """Raise HubError if this repository is not writable: offline, no token, or a token without the right."""
    from huggingface_hub import HfApi, constants, get_token  # slow to import, so only before publishing

    if constants.HF_HUB_OFFLINE:
        raise HubError("the Hugging Face Hub is switched off by HF_HUB_OFFLINE. Unset it to publish.")
    if get_token() is None:
        raise HubError(f"you are not logged in to the Hugging Face Hub. {LOGIN}")
    with _as_sentence("log in"):
        user = HfApi().whoami()
    if ((user.get("auth") or {}).get("accessToken") or {}).get("role") == "read":
        raise HubError(f"your token can only read. {LOGIN}")
    spaces = [str(user.get("name")), *(str(org.get("name")) for org in user.get("orgs") or ())]
    space = name.partition("/")[0]
    if space.lower() not in {known.lower() for known in spaces}:
        raise HubError(
            f"you cannot publish under '{space}'. Your user name and organizations are: {', '.join(spaces)}."
        )


def published_license(name: str) -> str | None:
    """Return the license named in a model's card on the hub; None if it names none or cannot be read."""
    from huggingface_hub import HfApi  # see check_login

    try:
        data = HfApi().model_info(name).card_data
    except Exception:  # the client raises errors of three libraries; a card without a license is still a card
        return None
    licence = data.get("license") if data is not None else None
    return licence if isinstance(licence, str) else None


def publish(
    files: dict[str, Path], name: str, *, message: str, private: bool = False, revision: str | None = None
) -> str:
    """Commit these files (name in the repository to path) and return the commit's address; raises HubError.

    A missing repository is created, private if requested; an existing one keeps its visibility. `revision` is a branch,
    created if missing.
    """
    from huggingface_hub import CommitOperationAdd, HfApi  # see check_login

    api = HfApi()
    with _as_sentence(f"publish {name}"):
        api.create_repo(name, private=private or None, exist_ok=True)
        if revision not in (None, MAIN):
            api.create_branch(name, branch=str(revision), exist_ok=True)
        operations: Any = [CommitOperationAdd(path, str(file)) for path, file in sorted(files.items())]
        done = api.create_commit(name, operations, commit_message=message, revision=revision)
    return str(done.commit_url)


@contextmanager
def _as_sentence(deed: str) -> Iterator[None]:
    """Turn all errors of the hub's client into one HubError."""
    from huggingface_hub import constants  # see check_login
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else None
        if status in (401, 403):
            raise HubError(f"the Hugging Face Hub does not let you {deed} (status {status}). {LOGIN}") from error
        raise HubError(f"the Hugging Face Hub refused to {deed}: {first_line(error)}") from error
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, OSError) and error.filename:  # the error of a local file, not of the network
            raise HubError(f"could not {deed}: {error.filename} cannot be read ({error.strerror}).") from error
        # a README refused by the hub raises ValueError, a failed upload RuntimeError
        raise HubError(f"could not {deed} at {constants.ENDPOINT}: {first_line(error)}") from error
    except Exception as error:
        if not type(error).__module__.startswith(("httpx", "httpcore", "hf_xet", "huggingface_hub")):
            raise
        raise HubError(
            f"the Hugging Face Hub cannot be reached at {constants.ENDPOINT}. Check the network, then run the command "
            "again."
        ) from error

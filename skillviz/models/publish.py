"""Publishing a folder on the Hugging Face Hub: what is checked before, and one commit.

Everything goes through the hub's own client. Nothing here is called without an option that asks for it.
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
    """Raises BadInput for what cannot be the name of a repository; asks nobody."""
    if not REPOSITORY.fullmatch(name) or len(name) > LONGEST or ".." in name or "--" in name or name[-1] in ".-":
        raise BadInput(
            f"'{name}' is not a repository of the Hugging Face Hub. Use the form org/name, with letters, digits, "
            f"single '-', '_' and '.', at most {LONGEST} characters."
        )


def check_login(name: str) -> None:
    """Raises HubError where this repository cannot be written to: offline, no token, a token without the right."""
    from huggingface_hub import HfApi, constants, get_token  # heavy: not before something is published

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
    """The license that a model's card on the hub names; None where it names none or cannot be read."""
    from huggingface_hub import HfApi  # see check_login

    try:
        data = HfApi().model_info(name).card_data
    except Exception:  # the client raises from three libraries; a card without a license is still a card
        return None
    licence = data.get("license") if data is not None else None
    return licence if isinstance(licence, str) else None


def publish(
    files: dict[str, Path], name: str, *, message: str, private: bool = False, revision: str | None = None
) -> str:
    """The address of the commit that adds these files (name in the repository to path); raises HubError.

    The repository is made where it is missing, private if asked for; one that is there keeps its visibility.
    `revision` is a branch, made where it is missing.
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
    """Turns whatever the hub's client raises into one HubError."""
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
        if isinstance(error, OSError) and error.filename:  # of a file here, and not of the network
            raise HubError(f"could not {deed}: {error.filename} cannot be read ({error.strerror}).") from error
        # a README that the hub refuses is a ValueError, a failed upload a RuntimeError
        raise HubError(f"could not {deed} at {constants.ENDPOINT}: {first_line(error)}") from error
    except Exception as error:
        if not type(error).__module__.startswith(("httpx", "httpcore", "hf_xet", "huggingface_hub")):
            raise
        raise HubError(
            f"the Hugging Face Hub cannot be reached at {constants.ENDPOINT}. Check the network, then run the command "
            "again."
        ) from error

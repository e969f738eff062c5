"""The settings of a deployment (docs/deploy.md): one object, which alone reads these environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from skillviz.errors import BadInput

OURS = "SKILLVIZ_"  # prefix of the project's environment variables
READONLY_VARIABLE, QUOTA_VARIABLE, OPEN_JOBS_VARIABLE = f"{OURS}READONLY", f"{OURS}QUOTA", f"{OURS}OPEN_JOBS"
LIVE_WORKERS_VARIABLE, ANCESTORS_VARIABLE = f"{OURS}LIVE_WORKERS", f"{OURS}FRAME_ANCESTORS"
RUNS_VARIABLE, MODELS_VARIABLE, ROOTS_VARIABLE = f"{OURS}RUNS", f"{OURS}MODELS", f"{OURS}ROOTS"
SECRETS_VARIABLE = "STREAMLIT_SECRETS_FILES"
HUB_CACHES = ("HF_HOME", "HF_HUB_CACHE")
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
SIZE = re.compile(rf"(\d{{1,9}}(?:\.\d{{1,9}})?) ?({'|'.join(UNITS)})")
COUNT = re.compile(r"[1-9]\d{0,8}")
SITE = re.compile(r"https?://[\w.*-]+(:(\d+|\*))?")
"""The address of a site, such as `https://class.example`; other values are ignored, as they could add directives."""


@dataclass(frozen=True)
class Settings:
    """The settings in an environment. A limit is None if its variable is not set; reading a wrong one raises
    BadInput, so that a typing error does not remove the limit."""

    environment: Mapping[str, str]

    @property
    def read_only(self) -> bool:
        """True if nothing may be started or written."""
        return self._text(READONLY_VARIABLE) not in ("", "0")

    @property
    def runs(self) -> str:
        """The folder of runs as it is written; empty for the usual one."""
        return self.environment.get(RUNS_VARIABLE, "")

    @property
    def has_secrets(self) -> bool:
        """True if a file of secrets is named, so that the dashboard must not run without one."""
        return bool(self.environment.get(SECRETS_VARIABLE))

    @property
    def quota(self) -> int | None:
        """The bytes that the store of one user may hold."""
        if not (text := self._text(QUOTA_VARIABLE)):
            return None
        if (size := SIZE.fullmatch(text)) is None:
            raise BadInput(
                f"{QUOTA_VARIABLE} is '{text}'; allowed are a number and one of {', '.join(UNITS)}, as `2 GiB`."
            )
        return int(float(size[1]) * UNITS[size[2]])

    @property
    def open_jobs(self) -> int | None:
        """The jobs that one user may have queued or running."""
        return self._count(OPEN_JOBS_VARIABLE)

    @property
    def live_workers(self) -> int | None:
        """The workers of live pages, of all users together."""
        return self._count(LIVE_WORKERS_VARIABLE)

    @property
    def frame_ancestors(self) -> list[str]:
        """The other sites that may show the dashboard in a frame."""
        return [name for name in self._text(ANCESTORS_VARIABLE).split() if SITE.fullmatch(name)]

    def folders(self, *variables: str) -> list[str]:
        """The folders that variables list, separated as in PATH."""
        texts = (self.environment.get(name, "") for name in variables)
        return [path for text in texts for path in text.split(os.pathsep) if path]

    def local_folders(self) -> list[str]:
        """The folders in all variables of the project and of the hub's cache."""
        return self.folders(*HUB_CACHES, *(name for name in self.environment if name.startswith(OURS)))

    def _text(self, variable: str) -> str:
        return self.environment.get(variable, "").strip()

    def _count(self, variable: str) -> int | None:
        text = self._text(variable)
        if text and not COUNT.fullmatch(text):
            raise BadInput(f"{variable} is '{text}'; allowed is a whole number from 1 on.")
        return int(text) if text else None


settings = Settings(os.environ)
"""The settings of this process."""

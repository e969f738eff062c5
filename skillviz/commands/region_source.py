"""The region that fine-tuning trains: its file, and the check that it belongs to the base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from skillviz.commands.output import note
from skillviz.core.region import Region
from skillviz.errors import WrongBase
from skillviz.models.checkpoint import read_info
from skillviz.models.fetch import resolve
from skillviz.runs.packed import file_of
from skillviz.runs.run import REGION
from skillviz.runs.store import open_run
from skillviz.tasks.project import expanded


@dataclass(frozen=True)
class RegionSource:
    """A region by the name that was typed, its file (bytes if its run is packed), and its run's id if it has one."""

    named: str
    file: Path | bytes
    run: str | None

    @cached_property
    def region(self) -> Region:
        """The region itself."""
        return Region.load(self.file)

    @cached_property
    def header(self) -> dict[str, Any]:
        """The header of its file, with its origin."""
        return Region.header(self.file)


def region_source(named: str, runs_dir: Path | None = None) -> RegionSource:
    """The region of a file, or the main one of a run: its id, a unique beginning, its folder or key:<spec key>."""
    file = Path(expanded(named))
    if file.is_file() or named.endswith(".safetensors"):
        return RegionSource(named, file, Region.header(file).get("run_id"))
    run = open_run(named, runs_dir)
    return RegionSource(named, file_of(run.path, REGION), run.id)


def check_bases(base: str, regions: Sequence[RegionSource], force: bool = False) -> None:
    """Raises WrongBase if a region was found on another base, according to its file; with `force`, prints a note
    instead.

    A region that does not name its base is used, with a note that its base is unknown.
    """
    origins = {one.named: one.header.get("base_fingerprint") for one in regions}
    info = read_info(resolve(base)) if any(origins.values()) else None
    for named, fingerprint in origins.items():
        if not fingerprint or info is None:
            note(f"The region of {named} does not name the base that it was found on, so the two cannot be compared.")
            continue
        if fingerprint == info.fingerprint:
            continue
        sentence = (
            f"the region of {named} was found on a base with the fingerprint {str(fingerprint)[:12]}; '{info.id}' has "
            f"{info.fingerprint[:12]}"
        )
        if not force:
            raise WrongBase(f"{sentence}. Give that base, or add --force to train the region of this one anyway.")
        note(f"Forced: {sentence}.")

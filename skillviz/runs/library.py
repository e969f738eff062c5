"""All visible runs as one list: the user's own, those shared with the user, and the shipped ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skillviz.errors import RunNotFound, StoreError
from skillviz.runs.run import Run
from skillviz.runs.spec import KEY
from skillviz.runs.store import Store, Unfinished, Unreadable, shipped_root, store_root
from skillviz.serving.users import shared_root
from skillviz.tasks.project import expanded


class Library:
    """Several stores, the user's first; a run id is looked up in all of them."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = stores

    def list(self) -> Sequence[Run]:
        """Return the finished runs, the user's first, each store's newest first."""
        return [run for store in self.stores for run in store.list()]

    def unfinished(self) -> Sequence[Unfinished]:
        """Return the queued, running, failed and cancelled runs."""
        return [entry for store in self.stores for entry in store.unfinished()]

    def unreadable(self) -> Sequence[Unreadable]:
        """Return the folders that cannot be shown, with the reason."""
        return [entry for store in self.stores for entry in store.unreadable()]

    def open(self, run_id: str) -> Run:
        """Return the finished run with this id or unique prefix, or the newest run of the spec in `key:<spec key>`."""
        return self.newest(run_id.removeprefix(KEY)) if run_id.startswith(KEY) else self.store_of(run_id).open(run_id)

    def newest(self, key: str) -> Run:
        """Return the newest finished run of the spec with this key, the user's own first; raises RunNotFound."""
        newest = next((run for run in self.list() if run.record.key == key), None)
        if newest is None:
            raise RunNotFound(f"no run of the spec with the key {key[:12]}... is finished; make it first.")
        return newest

    def store_of(self, run_id: str) -> Store:
        """Return the store that holds this run; raises RunNotFound if no run or several runs match.

        Raises NotReadable if no run matches and a store cannot be listed.
        """
        matches, unlisted = [], None
        for store in self.stores:
            try:
                matches.append((store.resolve(run_id), store))
            except RunNotFound as error:
                if "is the beginning of" in str(error):
                    raise
            except StoreError as error:  # the run may be in one of the other stores
                unlisted = error
        exact = [store for name, store in matches if name == run_id]
        if len(matches) > 1 and not exact:
            names = ", ".join(name for name, _ in matches)
            raise RunNotFound(f"'{run_id}' is the beginning of {len(matches)} runs: {names}. Give more of it.")
        if not matches:
            if unlisted is not None:
                raise unlisted
            places = " or ".join(str(store.root) for store in self.stores)
            raise RunNotFound(
                f"there is no run '{run_id}' in {places}; `python -m skillviz runs list` shows what there is."
            )
        return (exact or [matches[0][1]])[0]


def library(runs_dir: Path | str | None = None) -> Library:
    """Return the user's store (see store_root), the store shared with it (see users), and the shipped runs."""
    root = store_root(runs_dir).resolve()
    roots = dict.fromkeys([root, shared_root(root), shipped_root().resolve()])
    return Library([Store(root) for root in roots])


def open_run(run: str, runs_dir: Path | None = None) -> Run:
    """Return the finished run for an id, a unique prefix or a folder; raises RunNotFound or CorruptRun."""
    folder = Path(expanded(run))
    if (folder / "run.json").is_file():
        folder = folder.resolve()
        return Store(folder.parent).open(folder.name)
    return library(runs_dir).open(run)

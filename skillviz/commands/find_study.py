"""The study that a command names, by its file or by the name of a stored one, and the store that it is looked for in.

Reads pandas and the like: to be imported by a command when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from skillviz.errors import BadInput
from skillviz.runs.library import library
from skillviz.runs.store import Store, store_root
from skillviz.studies.finetuned_model import slug
from skillviz.studies.plan import plan
from skillviz.studies.spec import StudySpec, read_study
from skillviz.studies.store import FILE, FOLDER, open_study, study_path

Wanted = Literal["own", "begun", "tables"]
"""Which store: the user's own always; the first in which the study was begun; the first that has its tables."""
SUFFIXES = (".yaml", ".yml")


def named(given: str, runs_dir: Path | None, wanted: Wanted) -> tuple[StudySpec, Store]:
    """The study of a file or a name, and the store wanted of it; the user's own where none has what is wanted.

    A file comes before a study of that name. Of a file, another store counts only where its tables are of the very
    same study. Raises BadInput where it is neither.
    """
    stores = _stores(runs_dir)
    file = _file(given)
    if file is not None:
        study = read_study(file)
        return study, _first(study, stores, wanted, is_file=True)
    there = [store for store in stores if _study_file(store, given).is_file()]
    if not there:
        raise BadInput(_unknown(given, stores))
    study = read_study(_study_file(there[0], given))
    store = _first(study, stores, wanted)
    held = _study_file(store, given)
    return read_study(held) if held.is_file() else study, store


def with_tables(study: StudySpec, runs_dir: Path | None) -> Store | None:
    """The first store that holds tables of a study of this name; None where none does."""
    return next((store for store in _stores(runs_dir) if _has(study, store, "tables")), None)


def ships(store: Store, runs_dir: Path | None) -> bool:
    """Whether a store is another than the user's own."""
    return store.root.resolve() != store_root(runs_dir).resolve()


def known(stores: Sequence[Store]) -> list[str]:
    """The names of the folders of all stored studies, those too that were written and never begun."""
    return sorted({path.parent.name for store in stores for path in (store.root / FOLDER).glob(f"*/{FILE}")})


def _stores(runs_dir: Path | None) -> list[Store]:
    """The user's own, named as it was given, then those that ship."""
    own = Store(store_root(runs_dir))
    return [own, *(store for store in library(runs_dir).stores if ships(store, runs_dir))]


def _file(given: str) -> Path | None:
    """The study file that is meant, of a folder the one in it; None where no file is."""
    path = Path(given).expanduser()
    found = path / FILE if path.is_dir() else path
    return found if found.is_file() else None


def _study_file(store: Store, name: str) -> Path:
    """Where a store would hold the file of a study of this name."""
    return store.root / FOLDER / (slug(name) or "-") / FILE


def _first(study: StudySpec, stores: Sequence[Store], wanted: Wanted, is_file: bool = False) -> Store:
    """The first store that has what is wanted; else the user's own, which is the first of `stores`."""
    own, *others = stores
    if wanted == "own" or _has(study, own, wanted):
        return own
    key = plan(study).key if is_file else None
    return next((store for store in others if _has(study, store, "tables", key)), own)


def _has(study: StudySpec, store: Store, wanted: Wanted, key: str | None = None) -> bool:
    """Whether a store has a study of this name, begun or with tables; with `key`, of the study with this key."""
    folder = open_study(study_path(store.root, study))
    if folder is None or (wanted == "tables" and not folder.tables()):
        return False
    return key is None or folder.record.key == key


def _unknown(given: str, stores: Sequence[Store]) -> str:
    """What to tell of a text that is neither a file nor a name."""
    names = ", ".join(known(stores)) or "none"
    if given.lower().endswith(SUFFIXES) or "/" in given:
        return f"there is no study file {given}; name a YAML file that is there, or a stored study: {names}."
    return (
        f"'{given}' is neither a stored study nor a study file; stored: {names}. A YAML file of your own will do too."
    )

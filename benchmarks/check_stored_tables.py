"""Checks that every number of every stored table is what it was at an earlier commit.

    python benchmarks/check_stored_tables.py [--base REV] [--runs-dir DIR]

Old tables are read out of git at REV as they lie there; new ones through the package's own readers. Rows are matched
by key: for tables of studies the columns in KEYS, whose texts are formed from today's columns as they were written
then (`lora, rank 8`, `<task> <localizer> <size>`, ...); where rows share a key, also by their order among these. Rows
of runs and scores are matched by their place, as those tables are not written again; numbers of run.json and
score.json by their path. Every number has to be the same to the bit, a missing one missing. Ends with 1 where one is
not, or where a table or row is gone. Intervals are left out, as a better one is made from the same predictions: in
tables of studies all of them and the level of chance, in those of runs and in records those of calibration errors.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skillviz.analysis.older_tables import RENAMED
from skillviz.runs.run import Run, read_record
from skillviz.runs.score import read_score
from skillviz.studies.store import open_study

PROJECT = Path(__file__).resolve().parents[1]
BASE = "cc4edd4"
KEYS = {
    "scores": ("base", "recipe", "setting", "id_task", "task", "split", "method", "localizer", "size", "metric"),
    "differences": ("id_task", "task", "setting", "recipe", "localizer", "size", "a", "b", "metric"),
    "recovered": ("id_task", "setting", "recipe", "localizer", "gain_share"),
    "overlap": ("row", "column", "kind"),
    "isolation": ("kind", "relation"),
    "gain": ("region", "of", "task", "purified"),
    "stages": ("mode", "stage", "task", "metric"),
    "composition": ("task", "localizer", "seed", "layer", "kind", "is_bias"),
    "histogram": ("task", "state", "low_edge"),
    "paths": ("path", "alpha", "id_task", "task", "metric"),
    "stability": ("base", "recipe", "task", "source", "localizer", "size"),
    "sensitivity": ("task", "localizer", "lr", "steps", "bias", "batch_size", "seed", "metric"),
    "checkpoints": ("id_task", "step", "what", "localizer", "size", "metric"),
    "note": ("text",),
}
"""The columns, as they were at the base, that name a row of each table of a study."""
OF_RUNS = ("predictions", "curve", "history", "layers", "interpolation", "interpolation_bins")


CALIBRATION = ("ece", "ece_equal_mass", "ece_difference", "ece_equal_mass_difference")


def is_end(column: str) -> bool:
    """Whether a column of a study's table is part of an interval, says what that is over, or is a level by chance."""
    return column in ("low", "high", "over", "chance") or column.endswith(("_low", "_high"))


def with_old_texts(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Today's table with the texts that several of its columns had been before, one column each."""
    frame = table.copy()

    def joined(separator: str, *columns: str) -> list[str]:
        return [separator.join(filter(None, parts)) for parts in zip(*(frame[c] for c in columns), strict=True)]

    if "readout" in frame:
        frame["setting"] = joined(", ", "setting", "readout")
    if "recipe_b" in frame:
        frame["training"], frame["training_b"] = (
            joined(", ", "recipe", "variant"),
            joined(", ", "recipe_b", "variant_b"),
        )
        frame["recipe"] = joined(" less ", "training", "training_b")
    elif {"recipe", "variant"} <= set(frame):
        frame["recipe"] = joined(", ", "recipe", "variant")
    if "search_variant" in frame:
        purified = frame["search_variant"] == "purified"
        frame["localizer"] = np.where(
            purified, joined(", ", "localizer", "search_variant"), joined(" ", "localizer", "search_variant")
        )
    if name == "composition" and "variant" in frame:
        frame["localizer"] = joined(", ", "localizer", "variant")
    if "row_task" in frame:
        sizes = [_old_size(*pair) for pair in zip(frame["size"], frame["share"], strict=True)]
        for end in ("row", "column"):
            parts = zip(frame[f"{end}_task"], frame[f"{end}_localizer"], sizes, strict=True)
            frame[end] = [f"{task} {localizer} {size}" if localizer else task for task, localizer, size in parts]
    if name == "histogram" and "share" in frame:
        sizes = [_old_size(*pair) for pair in zip(frame["size"], frame["share"], strict=True)]
        frame["state"] = [f"{state} {size}".rstrip() for state, size in zip(frame["state"], sizes, strict=True)]
    if "region_tasks" in frame:
        frame["of"] = frame["region_tasks"].map("+".join)
    if name == "scores":
        frame["id_task"] = frame["id_task"].str.replace(" + ", "+")
    return frame


def _old_size(size: float, share: float) -> str:
    return f"{100 * share:.4g}%" if np.isfinite(share) else f"{size:.0f}" if np.isfinite(size) else ""


class Tally:
    """What was compared, by kind of table, and what is wrong."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.faults: list[str] = []

    def add(self, kind: str, **counts: int) -> None:
        self.counts[kind].update(counts)

    def fault(self, where: str, text: str) -> None:
        self.faults.append(f"{where}: {text}")

    def print(self) -> int:
        print("| kind | tables | rows | numbers | rows that share a key | key |\n|---|---|---|---|---|---|")
        for kind, of in self.counts.items():
            key = ", ".join(KEYS.get(kind, ("its place" if kind in OF_RUNS else "its path in the file",)))
            print(f"| {kind} | {of['tables']:,} | {of['rows']:,} | {of['numbers']:,} | {of['shared']:,} | {key} |")
        total: Counter[str] = sum(self.counts.values(), Counter())
        print(f"\n{total['tables']:,} tables, {total['rows']:,} rows, {total['numbers']:,} numbers compared.")
        print("Every number is what it was." if not self.faults else f"{len(self.faults):,} FAULTS:")
        print("\n".join(self.faults[:50]))
        return 1 if self.faults else 0


def compare(old: pd.DataFrame, new: pd.DataFrame, kind: str, where: str, tally: Tally) -> None:
    """Compares a table's numbers and keys; `kind` not in KEYS is matched by place."""
    shared = 0
    if kind in KEYS:
        keys = list(KEYS[kind])
        new = with_old_texts(new, kind)
        shared = int(old.duplicated(keys, keep=False).sum())
        old, new = (_keyed(frame, keys) for frame in (old, new))
        if set(old.index) != set(new.index):
            gone, more = set(old.index) - set(new.index), set(new.index) - set(old.index)
            tally.fault(where, f"{len(gone)} rows are gone, {len(more)} are new, as {next(iter(gone or more))}")
            return
        new = new.loc[old.index]
    elif len(old) != len(new):
        tally.fault(where, f"{len(new)} rows in place of {len(old)}")
        return
    numbers = 0
    for name in old:
        if kind in KEYS and is_end(name):
            continue
        if name not in new:
            if name not in KEYS.get(kind, ()):
                tally.fault(where, f"the column '{name}' is gone")
            continue
        a, b = old[name], new[name]
        if pd.api.types.is_numeric_dtype(a) and not pd.api.types.is_bool_dtype(a):
            x, y = (values.astype("float64").to_numpy(dtype=np.float64, na_value=np.nan) for values in (a, b))
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            if is_end(name) and "metric" in old:
                same |= old["metric"].isin(CALIBRATION).to_numpy()
            numbers += len(x)
        else:
            same = a.astype(str).to_numpy() == b.astype(str).to_numpy()
        for row in np.flatnonzero(~same)[:3]:
            tally.fault(where, f"{name} of {old.index[row]} is {b.iloc[row]}, was {a.iloc[row]}")
    tally.add(kind, tables=1, rows=len(old), numbers=numbers, shared=shared)


def _keyed(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The frame by its key and by the place among rows of one key."""
    texts = frame[keys].astype(object).where(frame[keys].notna(), None).map(_text)
    numbered = texts.assign(place=texts.groupby(keys, dropna=False, sort=False).cumcount())
    return frame.set_axis(pd.Index(list(numbered.itertuples(index=False, name=None)), tupleize_cols=False))


def _text(value: Any) -> str:
    return repr(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def compare_json(old: Any, new: Any, path: str, where: str, tally: Tally, kind: str) -> None:
    """Compares every number of a record, and that it is there."""
    if isinstance(old, dict):
        for name, value in old.items():
            if name in ("low", "high") and path.rstrip(".").rpartition(".")[2] in CALIBRATION:
                continue
            if not isinstance(new, dict) or name not in new:
                if any(True for _ in _numbers(value)):
                    tally.fault(where, f"{path}{name} is gone")
                continue
            compare_json(value, new[name], f"{path}{name}.", where, tally, kind)
    elif isinstance(old, list):
        if not isinstance(new, list) or len(old) != len(new):
            tally.fault(where, f"{path} has other entries")
            return
        for number, value in enumerate(old):
            compare_json(value, new[number], f"{path}{number}.", where, tally, kind)
    elif isinstance(old, int | float) and not isinstance(old, bool):
        tally.add(kind, numbers=1)
        if old != new:
            tally.fault(where, f"{path} is {new}, was {old}")


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _numbers(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


class Base:
    """The files of the stored runs and studies at a commit."""

    def __init__(self, revision: str, folder: str) -> None:
        self.revision = revision
        names = _git("ls-tree", "-r", "--name-only", revision, folder).decode().splitlines()
        self.names = [name for name in names if name.endswith((".parquet", ".json"))]
        self._reader = subprocess.Popen(
            ["git", "cat-file", "--batch"], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def read(self, name: str) -> bytes:
        """The bytes of a file at the commit."""
        pipe_in, pipe_out = self._reader.stdin, self._reader.stdout
        assert pipe_in is not None and pipe_out is not None
        pipe_in.write(f"{self.revision}:{name}\n".encode())
        pipe_in.flush()
        size = int(pipe_out.readline().split()[2])
        content = pipe_out.read(size)
        pipe_out.read(1)
        return content


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=PROJECT, check=True, capture_output=True).stdout


def check(revision: str, folder: str = "cached_runs") -> Tally:
    """Compares everything that is stored under a folder of the project with what it was at the revision."""
    base, tally = Base(revision, folder), Tally()
    for name in base.names:
        path, where = PROJECT / name, name.removeprefix(f"{folder}/")
        place, kind = where.split("/")[0], path.stem
        try:
            if kind not in ("study",):
                _compare_file(base.read(name), path, place, kind, where, tally)
        except Exception as error:  # whatever it is, the number could not be read as it was
            tally.fault(where, f"{type(error).__name__}: {error}")
    return tally


def _compare_file(content: bytes, path: Path, place: str, kind: str, where: str, tally: Tally) -> None:
    """One stored file against what today's reader makes of it."""
    if path.suffix == ".json":
        if kind == "run":
            record: Any = read_record(path.parent)
        else:
            score = read_score(path.parent)
            if score is None:
                tally.fault(where, "cannot be read")
                return
            record = score.record
        tally.add(path.name, tables=1)
        compare_json(json.loads(content), record.model_dump(mode="json"), "", where, tally, path.name)
        return
    old = pd.read_parquet(io.BytesIO(content))
    if place == "studies":
        study = open_study(path.parent)
        if study is None:
            tally.fault(where, "its study cannot be opened")
            return
        kind = RENAMED.get(kind, kind)
        new = study.table(kind)
    elif place == "scores":
        score = read_score(path.parent)
        if score is None:
            tally.fault(where, "its scores cannot be opened")
            return
        new = score.predictions()
    else:
        run = Run(path.parent, read_record(path.parent))
        new = _of_run(run, kind)
    compare(old, new, kind, where, tally)


def _of_run(run: Run, kind: str) -> pd.DataFrame:
    """A table of a run, of all its data sets."""
    if kind != "predictions":
        table: pd.DataFrame = getattr(run, kind)()
        return table
    return pd.concat([run.predictions(name) for name in run.datasets], ignore_index=True)


def main() -> int:
    """The exit code of the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default=BASE, help=f"the commit to compare with (default {BASE})")
    parser.add_argument("--runs-dir", default="cached_runs", help="folder of stored runs in the project")
    arguments = parser.parse_args()
    return check(arguments.base, arguments.runs_dir).print()


if __name__ == "__main__":
    sys.exit(main())

"""Compute every stored number of a study that depends on an interval again, from stored predictions: `make numbers`.

    python docs/make_numbers.py [--runs-dir DIR]

No model is run. In order: the tables of the studies, the commands of benchmarks/models.json, docs/results.md, the
tables of docs/research/minilm.md, the tables of parts-and-slices.md and checkpoints.md and the boards of baselines.md,
all in docs/research/, docs/lesson-plan.md, and the tables of docs/localizers.md. A study's table keeps its rows and
every other number but the level of chance. A row whose runs or scores are not in the store keeps its intervals. Studies
of real data name their task files: set SKILLVIZ_REAL, or their intervals stay unchanged.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from benchmarks import localizer, localizer_report, model_commands
from benchmarks.frame import RESULTS
from docs import lesson_plan, results, stored_examples
from docs.research import baselines, minilm
from skillviz.analysis.tables import TABLES, check
from skillviz.errors import SkillvizError
from skillviz.runs.store import Store
from skillviz.studies.make_tables import make_tables
from skillviz.studies.plan import study_plan
from skillviz.studies.results import Results
from skillviz.studies.store import StudyFolder, list_studies, write_record, write_tables

FOLLOWING = ("low", "high", "debiased", "over", "chance")
"""The columns that are computed again, with columns of such an ending (`ece_less_ft_low`); other numbers stay."""
ROUNDED = 1e-3
"""The relative tolerance of a share: only one of two tables may have the share of a whole number of entries."""
CLOSE = 1e-9
"""The relative tolerance of a mean over seeds that is summed in another order."""


def follows(column: str) -> bool:
    """True if a column of a study's table is computed again."""
    return column in FOLLOWING or column.endswith(("_low", "_high", "_debiased"))


def renewed(stored: pd.DataFrame, made: pd.DataFrame, name: str) -> tuple[pd.DataFrame, int]:
    """Return the stored table with the intervals of its rows in `made`, and the number of rows that are not in `made`.

    A row is found by its texts, and by its numbers other than the intervals. If those differ, for example because a run
    is gone, the stored row keeps its interval. Shares may differ by rounding.
    """
    columns = [column.name for column in TABLES[name].columns]
    texts = [c for c in columns if not follows(c) and not pd.api.types.is_float_dtype(stored[c])]
    numbers = [c for c in columns if not follows(c) and c not in texts and c != "touched"]  # touched needs the models
    near = np.array([ROUNDED if c == "share" else CLOSE for c in numbers])
    rows: dict[tuple[str, ...], list[int]] = {}
    for place, key in enumerate(made[texts].astype(str).itertuples(index=False, name=None)):
        rows.setdefault(key, []).append(place)
    values, others = (frame[numbers].to_numpy(float) for frame in (made, stored))
    following = [c for c in columns if follows(c)]
    places = np.full(len(stored), -1)
    for row, key in enumerate(stored[texts].astype(str).itertuples(index=False, name=None)):
        known = [i for i, c in enumerate(numbers) if c != "size" or not np.isnan(others[row, i])]
        same = [p for p in rows.get(key, ()) if _is_close(values[p, known], others[row, known], near[known])]
        if same:
            places[row] = same[0]
            rows[key].remove(same[0])
    found = places >= 0
    table = stored.copy()
    for column in following:
        table[column] = table[column].astype(made[column].dtype)
        fresh, before = made[column].to_numpy()[places[found]], table.loc[found, column].to_numpy()
        if pd.api.types.is_float_dtype(fresh):  # a table that is made again without a change stays bit for bit the same
            fresh = np.where(np.isclose(fresh, before, CLOSE, 1e-12, equal_nan=True), before, fresh)
        table.loc[found, column] = fresh
    return check(table, name), int((~found).sum())


def _is_close(made: np.ndarray, stored: np.ndarray, near: np.ndarray) -> bool:
    return bool(np.isclose(made, stored, near, 1e-12, equal_nan=True).all())


def renew(study: StudyFolder, store: Store) -> str:
    """Write the tables of a study with new intervals; return a line about the result."""
    stored = {name: study.table(name) for name in study.tables()}
    try:
        made = make_tables(study.study, Results(study_plan(study.study), store))
    except SkillvizError as error:  # other inputs of a table, such as a model, are not shipped
        made, why = {}, f" ({error.args[0]})"
    else:
        why = ""
    tables, kept = {}, 0
    for name, table in stored.items():
        if any(follows(column.name) for column in TABLES[name].columns):
            tables[name], rows = renewed(table, made.get(name, table.iloc[:0]), name)
            kept += rows
    files = {f: n for f, n in study.record.files.items() if Path(f).stem not in tables}
    files |= write_tables(study.path, tables)
    in_order = {name: files[name] for name in dict.fromkeys((*study.record.files, *files)) if name in files}
    write_record(study.path, study.record.model_copy(update={"files": in_order}))
    return f"{study.name}: {sum(map(len, tables.values()))} rows with intervals, {kept} of them not remade{why}"


def main() -> None:
    """Compute everything again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs-dir", type=Path, default=PROJECT / "cached_runs", help="the store (cached_runs)")
    given = parser.parse_args()
    store = Store(given.runs_dir)
    for study in list_studies(store):
        print(renew(study, store), flush=True)
    sys.argv = sys.argv[:1]
    model_commands.write()
    results.main()
    minilm.main(given.runs_dir)
    stored_examples.main()
    lesson_plan.main()
    baselines.write()
    localizer_report.write(localizer.rows_in(RESULTS))


if __name__ == "__main__":
    main()

"""Remakes every stored number that rests on an interval, from stored predictions: `make numbers`.

    python docs/make_numbers.py [--runs-dir DIR] [--changes REV]

No model is run. In order: the intervals of runs and scores, the tables of the studies, docs/results.md,
docs/demo-world.md, the tables of docs/minilm.md and benchmarks/README.md, those of docs/parts-and-slices.md and
docs/checkpoints.md, the boards of docs/baselines.md, and the goals of docs/localizers.md.
A study's table keeps its rows and every other number but the level of chance; a row whose runs or scores are not in
the store loses the intervals that an older version made for its calibration errors and for its means over several
seeds. `--changes` writes
docs/changed_verdicts.csv: every verdict of the studies' tables, of their claims and of the runs' calibration and
accuracy that is another than at the git revision. Studies of real data name their task files: set SKILLVIZ_REAL, else
theirs stay.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from benchmarks import baselines_report, localizer_report, report
from docs import demo_world, lesson_plan, results, stored_examples
from skillviz.analysis.answers import answers_by_state
from skillviz.analysis.older_tables import RENAMED, read_older
from skillviz.analysis.tables import LAYOUT, TABLES, check
from skillviz.core.intervals import metric_difference
from skillviz.core.metrics import metric_row
from skillviz.core.verdicts import NOT_MEASURED
from skillviz.errors import SkillvizError
from skillviz.runs.interval_table import interval_table
from skillviz.runs.intervals import write
from skillviz.runs.metrics import SCALED
from skillviz.runs.run import RECORD, Run
from skillviz.runs.store import Store
from skillviz.studies.make_tables import make_tables
from skillviz.studies.paper.experiments import verdicts as paper_verdicts
from skillviz.studies.paper.request import VARIABLE
from skillviz.studies.plan import plan
from skillviz.studies.results import Results
from skillviz.studies.store import StudyFolder, list_studies, write_record, write_tables

CHANGES = PROJECT / "docs" / "changed_verdicts.csv"
MINILM_STUDIES = ("minilm-sst2.yaml", "minilm-sst2-others.yaml")
FOLLOWING = ("low", "high", "debiased", "over", "chance")
"""Columns that are made anew, and those that end alike (`ece_less_ft_low`); every other number stays as it is."""
OVER_SEEDS = ("scores", "differences", "recovered", "gain")
"""Tables of means over examples and seeds."""
ONE_KIND_SINCE = "2026-11-23T07:44"
"""When intervals of means over seeds became of one kind (docs/statistics.md); those before are of others."""
Ends = tuple[float, float, str]
"""The ends of an interval, and its verdict."""
NAN = float("nan")
ROUNDED = 1e-3
"""Relative: what a share may differ by where it is that of whole entries in one table only."""
CLOSE = 1e-9
"""Relative: what a mean over seeds may differ by when it is summed in another order."""


def follows(column: str) -> bool:
    """Whether a column of a study's table is made anew."""
    return column in FOLLOWING or column.endswith(("_low", "_high", "_debiased"))


def renewed(stored: pd.DataFrame, made: pd.DataFrame, name: str, of_one_kind: bool = True) -> tuple[pd.DataFrame, int]:
    """The stored table with the intervals of its rows in `made`, and how many rows have none there.

    A row is found by its texts, and by its numbers but for the intervals: where those differ, as where a run is gone,
    the stored row keeps its ends if they are `of_one_kind` or of one seed, and else loses them. Sizes are as they were
    asked for in older tables, so shares may differ by rounding.
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
        if pd.api.types.is_float_dtype(fresh):  # a table that is made again with nothing new stays bit for bit
            fresh = np.where(np.isclose(fresh, before, CLOSE, 1e-12, equal_nan=True), before, fresh)
        table.loc[found, column] = fresh
    if not of_one_kind and name in OVER_SEEDS:
        ends = [column for column in following if column.endswith(("low", "high"))]
        table.loc[~found & (table["seeds"] > 1), ends] = NAN
    return check(table, name), int((~found).sum())


def _is_close(made: np.ndarray, stored: np.ndarray, near: np.ndarray) -> bool:
    return bool(np.isclose(made, stored, near, 1e-12, equal_nan=True).all())


def renew(study: StudyFolder, store: Store) -> str:
    """Writes the tables of a study with their intervals made anew; a line on what came of it."""
    stored = {name: study.table(name) for name in study.tables()}
    try:
        made = make_tables(study.study, Results(plan(study.study), store))
    except SkillvizError as error:  # what a table needs beside runs and scores, such as a model, does not ship
        made, why = {}, f" ({error.args[0]})"
    else:
        why = ""
    tables, kept = {}, 0
    for name, table in stored.items():
        if any(follows(column.name) for column in TABLES[name].columns):
            one_kind = (study.record.finished or "") >= ONE_KIND_SINCE or not has_its_data(study)
            tables[name], rows = renewed(table, made.get(name, table.iloc[:0]), name, one_kind)
            kept += rows
    files = {f: n for f, n in study.record.files.items() if RENAMED.get(Path(f).stem, Path(f).stem) not in tables}
    files |= write_tables(study.path, tables)
    in_order = {name: files[name] for name in dict.fromkeys((*study.record.files, *files)) if name in files}
    write_record(study.path, study.record.model_copy(update={"files": in_order, "layout": LAYOUT}))
    return f"{study.name}: {sum(map(len, tables.values()))} rows with intervals, {kept} of them not remade{why}"


def has_its_data(study: StudyFolder) -> bool:
    """False for a study of real data where SKILLVIZ_REAL does not say where they are."""
    return VARIABLE in os.environ or f"${{{VARIABLE}}}" not in (study.path / "study.yaml").read_text(encoding="utf-8")


def verdicts(table: pd.DataFrame, name: str) -> Iterator[tuple[str, str, float, float, str]]:
    """What each row says: its key, the metric, the ends and the verdict of the difference."""
    words = [c.name for c in TABLES[name].columns if c.dtype == "str" and c.name not in ("metric", "over")]
    sets = {
        "differences": [("", "")], "stages": [("change_", "")],
        "recovered": [("ece_less_ft_", "ece"), ("ece_less_scaled_", "ece")], "isolation": [("", "overlap")],
    }.get(name, [])  # fmt: skip
    for row in table.to_dict("records"):
        size = f" {100 * row['share']:.4g}%" if row.get("share") == row.get("share") and "share" in row else ""
        key = " / ".join(str(row[word]) for word in words if row[word]) + size
        stage = f" stage {row['stage']}" if "stage" in row else ""
        for prefix, metric in sets:
            of = metric or row["metric"]
            low, high = row[f"{prefix}low"], row[f"{prefix}high"]
            yield key + stage + (f" {prefix.strip('_')}" if prefix else ""), of, low, high, _verdict(of, low, high)


def _verdict(metric: str, low: float, high: float) -> str:
    if np.isnan(low) or np.isnan(high):
        return NOT_MEASURED
    if not metric_row(metric).better:
        return "no difference" if low <= 0 <= high else "more" if low > 0 else "less"
    return metric_row(metric).verdict(low, high)


def changed(studies: Sequence[StudyFolder], runs: Sequence[Run], revision: str) -> pd.DataFrame:
    """One row a verdict that is another than at the revision, with the ends before and after.

    Of tables of studies and the claims judged by them; of runs the calibration and accuracy of the graft less that of
    the fine-tuned model, as it is and temperature-scaled, where the stored ends are those before.
    """
    rows: list[dict[str, Any]] = []

    def compare(where: str, table: str, what: str, metric: str, before: Ends, after: Ends) -> None:
        if before[2] != after[2]:
            ends = {f"{name}_{when}": one[i] for when, one in (("before", before), ("after", after))
                    for i, name in enumerate(("low", "high", "verdict"))}  # fmt: skip
            rows.append({"where": where, "table": table, "what": what, "metric": metric, **ends})

    for study in studies:
        now = {name: study.table(name) for name in study.tables()}
        then = {name: old for name in now if (old := _at(revision, study, name)) is not None}
        if not then:  # a study that was not there has no verdict to change
            continue
        for name, old in then.items():
            for (key, metric, *a), (_, _, *b) in zip(verdicts(old, name), verdicts(now[name], name), strict=True):
                compare(study.name, name, key, metric, (a[0], a[1], a[2]), (b[0], b[1], b[2]))
        claims = [paper_verdicts(study.record.experiment, tables, study.record.scale) for tables in (then, now)]
        for one, two in zip(*claims, strict=True):
            compare(study.name, "claim", one.claim, "", (NAN, NAN, one.outcome), (NAN, NAN, two.outcome))
    for run in runs:
        for key, metric, before, after in _of_run(run):
            compare(run.id, "run", key, metric, before, after)
    return pd.DataFrame(rows)


def _of_run(run: Run) -> Iterator[tuple[str, str, Ends, Ends]]:
    """The paired differences of a run's calibration and accuracy: data set, split and rival, the metric, and the
    intervals as stored and of today."""
    content = json.loads((run.path / RECORD).read_text(encoding="utf-8"))
    task = content["task"]["name"]
    sets = [(task, split, scores) for split, scores in content["metrics"].items()]
    sets += [(one["name"], "test", one["scores"]) for one in content.get("transfers", ())]
    for dataset, split, scores in sets:
        answers = answers_by_state(run.predictions(dataset), split, run.labels, run.record.temperature)
        for rival, name in (("finetuned", "differences"), (SCALED, "scaled_differences")):
            for metric in ("ece", "accuracy"):
                stored = scores.get(name, {}).get(metric)
                if stored is None or rival not in answers or stored["low"] is None:
                    continue
                graft, other = answers["grafted"], answers[rival]
                less = metric_difference(graft.logits, other.logits, graft.labels, metric)
                ends = (stored["low"], stored["high"]), (less.low, less.high)
                old, new = ((low, high, _verdict(metric, low, high)) for low, high in ends)
                yield f"{dataset} / {split} / graft less {rival}", metric, old, new


def _at(revision: str, study: StudyFolder, name: str) -> pd.DataFrame | None:
    """The table at a revision with the ends that it was shown with; None where it was not there."""
    for stem in (name, *(old for old, new in RENAMED.items() if new == name)):
        path = f"{study.path.relative_to(PROJECT).as_posix()}/{stem}.parquet"
        done = subprocess.run(["git", "show", f"{revision}:{path}"], cwd=PROJECT, capture_output=True)
        if done.returncode == 0:
            raw = pd.read_parquet(io.BytesIO(done.stdout))
            old = raw if "debiased" in raw or "row_task" in raw else read_older(raw, name, 2 if _is_older(raw) else 3)
            shown = [c for c in raw if follows(c) and c in old and c not in ("low", "high")] if name != "scores" else []
            shown += ["low", "high"] if name != "scores" and "low" in raw else []
            return old.assign(**{column: raw[column].to_numpy() for column in shown})
    return None


def _is_older(raw: pd.DataFrame) -> bool:
    return "variant" not in raw and "recipe" in raw


def main() -> None:
    """Makes everything anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs-dir", type=Path, default=PROJECT / "cached_runs", help="the store (cached_runs)")
    parser.add_argument("--changes", metavar="REV", help="also write docs/changed_verdicts.csv against a git revision")
    given = parser.parse_args()
    store = Store(given.runs_dir)
    intervals = interval_table(store.root)
    if not intervals.empty:
        write(store.root, intervals)
    print(f"{len(intervals):,} intervals of runs and scores", flush=True)
    studies = list_studies(store)
    for study in studies:
        print(renew(study, store), flush=True)
    sys.argv = sys.argv[:1]
    for page in (results, demo_world):
        page.main()
    report.main([PROJECT / "benchmarks" / "studies" / name for name in MINILM_STUDIES], given.runs_dir)
    stored_examples.main()
    lesson_plan.main()
    baselines_report.write()
    localizer_report.write_tables()
    if given.changes:
        changed(list_studies(store), store.list(), given.changes).to_csv(CHANGES, index=False, float_format="%.6f")
        print(f"wrote {CHANGES.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()

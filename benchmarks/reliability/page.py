"""The tables of docs/reliability.md, from the stored results."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.reliability.attempt import stored
from benchmarks.reliability.faults import FAULTS
from benchmarks.reliability.table import ATTEMPTS, PROMISES
from skillviz.core.formats import markdown_table

ROOT = Path(__file__).resolve().parents[2]
RESULTS, FILE = ROOT / "benchmarks" / "results", "reliability.csv"
PAGE = ROOT / "docs" / "reliability.md"
WRITER = "written by python -m benchmarks reliability"


def tables(results: Path = RESULTS) -> dict[str, list[str]]:
    """The lines of each table by its name: the attempts on every promise, and the planted faults."""
    rows = stored(results / FILE)
    return {"attempts": _attempts(rows), "faults": _faults()}


def write() -> None:
    """Puts every table between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in tables().items():
        begin, end = f"<!-- {name}: {WRITER} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n" + "\n".join(lines) + f"\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(text, encoding="utf-8")


def _attempts(rows: pd.DataFrame) -> list[str]:
    """One row an attempt, with the form that tried most often."""
    lines = []
    for attempt in ATTEMPTS.values():
        of = rows[rows["attempt"] == attempt.name].sort_values("tried")
        last = of.iloc[-1] if len(of) else None
        figures = ("not run", "") if last is None else (f"{int(last['tried']):,}", f"{int(last['lost']):,}")
        day = "" if last is None else f"{last['day']}, {last['form']} form"
        command = f"`python -m benchmarks reliability --only {attempt.name}`"
        lines.append((PROMISES[attempt.promise].title, attempt.tries, *figures, day, command))
    return markdown_table(("promise", "tried", "how often", "lost", "run", "command"), lines)


def _faults() -> list[str]:
    lines = [(fault.says, ATTEMPTS[fault.attempt].name, f"`--plant {fault.name}`") for fault in FAULTS.values()]
    return markdown_table(("planted fault", "noticed by", "option"), lines)

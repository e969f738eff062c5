"""Write the tables of docs/research/reliability.md from the stored results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.reliability.attempt import stored
from benchmarks.reliability.faults import FAULTS
from benchmarks.reliability.table import ATTEMPTS, PROMISES
from skillviz.core.formats import markdown_table, number

ROOT = Path(__file__).resolve().parents[2]
RESULTS, FILE, VISITORS = ROOT / "benchmarks" / "results", "reliability.csv", "visitors.json"
PAGE = ROOT / "docs" / "research" / "reliability.md"
WRITER = "written by python -m benchmarks reliability"


def tables(results: Path = RESULTS) -> dict[str, list[str]]:
    """The lines of each table by its name: the attempts on every promise, the planted faults, and many visitors."""
    rows = stored(results / FILE)
    return {"attempts": _attempts(rows), "faults": _faults(), "visitors": _visitors()}


def write() -> None:
    """Put every table between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in tables().items():
        begin, end = f"<!-- {name}: {WRITER} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n" + "\n".join(lines) + f"\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(text, encoding="utf-8")


def _attempts(rows: pd.DataFrame) -> list[str]:
    """Return one row per attempt, for the form with the most tries."""
    lines = []
    for attempt in ATTEMPTS.values():
        of = rows[rows["attempt"] == attempt.name].sort_values("tried")
        last = of.iloc[-1] if len(of) else None
        figures = ("not run", "") if last is None else (f"{int(last['tried']):,}", f"{int(last['lost']):,}")
        day = "" if last is None else f"{last['day']}, {last['form']} form"
        command = f"`python -m benchmarks reliability --only {attempt.name}`"
        lines.append((PROMISES[attempt.promise].title, attempt.tries, *figures, day, command))
    return markdown_table(("promise", "tried", "how often", "lost", "run", "command"), lines)


def _visitors() -> list[str]:
    """Return the measurements of benchmarks/visitors.py, beside their targets."""
    result = json.loads((RESULTS / VISITORS).read_text(encoding="utf-8"))
    (ours, bare), of_class = result["busy"], result["class"]

    def verdict(value: float, target: float, unit: str) -> tuple[str, str]:
        return f"{target:g}{unit}", "met" if value <= target else "missed"

    def errors(rows: list[dict[str, Any]]) -> str:
        return f"{sum(len(row['errors']) for row in rows)} of {sum(row['pages'] for row in rows):,} pages"

    kinds = ", ".join(f"{row['visitors']} {row['what']}" for row in of_class["rows"])
    times = ", ".join(f"{row['p95']:.1f} s ({row['what']})" for row in of_class["rows"])
    ratio, asked = round(ours["p95"] / bare["p95"], 2), f"{ours['visitors']} visitors without a pause, all pages"
    lesson = f"a class for {of_class['minutes']:g} minutes: {kinds}"
    lines = [
        (asked, "pages with an error", errors([ours]), "0", "missed" if ours["errors"] else "met"),
        (asked, "95th percentile, times that of a bare app", f"{ratio:g} ({ours['p95']:.1f} s and {bare['p95']:.1f} s)",
         *verdict(ratio, 2, "")),
        (lesson, "pages with an error", errors(of_class["rows"]), "0",
         "missed" if any(row["errors"] for row in of_class["rows"]) else "met"),
        (lesson, "95th percentile", times, "none", ""),
        *((lesson, f"memory of the {name}, MiB a minute", number(growth, 2), *verdict(growth, 1, ""))
          for name, growth in of_class["growth"].items() if growth is not None),
    ]  # fmt: skip
    return markdown_table(("who", "what", "measured", "target", ""), lines)


def _faults() -> list[str]:
    lines = [(fault.says, ATTEMPTS[fault.attempt].name, f"`--plant {fault.name}`") for fault in FAULTS.values()]
    return markdown_table(("planted fault", "noticed by", "option"), lines)

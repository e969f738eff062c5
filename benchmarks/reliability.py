"""Write the tables of docs/research/reliability.md from the stored results; the attempts are tests/reliability."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from benchmarks.frame import RESULTS, ROOT, fill, verdict
from skillviz.core.formats import markdown_table, number
from tests.reliability.attempts import ATTEMPTS, PROMISES
from tests.reliability.faults import FAULTS

PAGE, COMMAND = ROOT / "docs" / "research" / "reliability.md", "python -m benchmarks reliability"


def tables(rows: pd.DataFrame) -> dict[str, list[str]]:
    """The lines of each table by its name: the attempts on every promise, the planted faults, and many visitors."""
    result = json.loads((RESULTS / "visitors.json").read_text(encoding="utf-8"))
    return {"attempts": attempts(rows), "faults": faults(), "visitors": visitors(result)}


def attempts(rows: pd.DataFrame) -> list[str]:
    """Return one line for each attempt, with its row of results/reliability.csv."""
    by_name, lines = {row["attempt"]: row for row in rows.to_dict("records")}, []
    for name, attempt in ATTEMPTS.items():
        row = by_name.get(name)
        figures = (f"{row['tried']:,}", f"{row['lost']:,}", row["day"]) if row else ("not run", "", "")
        lines.append((PROMISES[attempt.promise], attempt.words, *figures, f"`-k {name}`"))
    return markdown_table(("promise", "tried", "how often", "lost", "day", "option"), lines)


def faults() -> list[str]:
    """Return one line for each planted fault."""
    lines = [(fault.words, fault.attempt, f"`-k {name}`") for name, fault in FAULTS.items()]
    return markdown_table(("planted fault", "noticed by", "option"), lines)


def visitors(result: dict[str, Any]) -> list[str]:
    """Return the measurements of `python -m benchmarks visitors`, beside their targets."""
    (ours, bare), lesson = result["busy"], result["class"]
    times = ", ".join(f"{row['p95']:.1f} s ({row['what']})" for row in lesson["rows"])
    ratio, busy = round(ours["p95"] / bare["p95"], 2), f"{ours['visitors']} visitors without a pause, all pages"
    kinds = ", ".join(f"{row['visitors']} {row['what']}" for row in lesson["rows"])
    of_class = f"a class for {lesson['minutes']:g} minutes: {kinds}"

    def errors(who: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
        count = sum(len(row["errors"]) for row in rows)
        pages = sum(row["pages"] for row in rows)
        return who, "pages with an error", f"{count} of {pages:,} pages", *verdict(count, 0).split(", ")

    return markdown_table(("who", "what", "measured", "target", ""), [
        errors(busy, [ours]),
        (busy, "95th percentile, times that of a bare app", f"{ratio:g} ({ours['p95']:.1f} s and {bare['p95']:.1f} s)",
         *verdict(ratio, 2).split(", ")),
        errors(of_class, lesson["rows"]),
        (of_class, "95th percentile", times, "none", ""),
        *((of_class, f"memory of the {name}, MiB a minute", number(growth, 2), *verdict(growth, 1).split(", "))
          for name, growth in lesson["growth"].items() if growth is not None),
    ])  # fmt: skip


def main() -> None:
    """Write the tables of docs/research/reliability.md from the stored results."""
    fill(PAGE, tables(pd.read_csv(RESULTS / "reliability.csv")), COMMAND)

"""Describe the machine of a measurement, and write the measurement as JSON and as a table in README.md."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Return processor, cores, and the machine's current load."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    return {"cpu": model, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}


def marks(name: str) -> tuple[str, str]:
    """Return the marks in README.md before and after a benchmark's table."""
    title = name.replace("_", " ")
    return f"<!-- {title}: written by benchmarks/{name}.py -->", f"<!-- end of {title} -->"


def written(name: str, result: dict[str, Any], table: str, out: Path) -> None:
    """Write results/<name>.json under `out`, and the table into README.md there, between its marks."""
    (out / "results").mkdir(parents=True, exist_ok=True)
    (out / "results" / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    readme = out / "README.md"
    if readme.is_file():
        begin, end = marks(name)
        before, _, rest = readme.read_text().partition(begin)
        readme.write_text(f"{before}{begin}\n{table}{end}{rest.partition(end)[2]}")


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).is_file() else []

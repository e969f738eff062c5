"""Write the command of each model of the stored studies to models.json: `python benchmarks/model_commands.py`.

A study's model is made by the study's own command; if several studies share one, by the study with the fewest steps.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from skillviz.atomic import write_text
from skillviz.models.fetch import COMMANDS
from skillviz.runs.store import Store, shipped_root
from skillviz.studies.plan import study_plan
from skillviz.studies.store import list_studies
from skillviz.tasks.project import FINETUNED_VARIABLE

OF_STUDIES = f"${{{FINETUNED_VARIABLE}}}/"


def commands() -> dict[str, str]:
    """Return the command that makes each model of all stored studies, by the `finetuned` of its spec."""
    made: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for study in list_studies(Store(shipped_root())):
        steps, command = study_plan(study.study), study.record.command
        for spec in steps.runs if command else ():
            made[spec.finetuned].append((len(steps.steps), command or ""))
    return {name: min(of)[1] for name, of in sorted(made.items()) if name.startswith(OF_STUDIES)}


if __name__ == "__main__":  # entries written by hand stay, entries of studies are made again
    noted = json.loads((PROJECT / COMMANDS).read_text(encoding="utf-8"))
    by_hand = {name: command for name, command in noted.items() if not name.startswith(OF_STUDIES)}
    write_text(PROJECT / COMMANDS, json.dumps(by_hand | commands(), indent=1) + "\n")

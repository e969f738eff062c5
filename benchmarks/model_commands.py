"""Write the command of each model of the stored studies to models.json, as part of `make numbers`.

A study's model is made by the study's own command; if several studies share one, by the study with the fewest steps.
"""

from __future__ import annotations

import json
from collections import defaultdict

from benchmarks.frame import ROOT
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


def write() -> None:
    """Write models.json: the entries made by hand, then those of the stored studies."""
    noted = json.loads((ROOT / COMMANDS).read_text(encoding="utf-8"))
    by_hand = {name: command for name, command in noted.items() if not name.startswith(OF_STUDIES)}
    write_text(ROOT / COMMANDS, json.dumps(by_hand | commands(), indent=1) + "\n")

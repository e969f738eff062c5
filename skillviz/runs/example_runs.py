"""The runs of the example pairs: read the rows of examples/runs.yaml, and make missing pairs and runs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillviz.errors import BadInput
from skillviz.models.examples import ExamplePair, example_bases, example_pairs
from skillviz.models.fetch import EXAMPLES, EXAMPLES_KEPT
from skillviz.models.finetune.training_config import DataSettings
from skillviz.runs.artifact import RunArtifact, Stored, Workshop, newest_runs
from skillviz.runs.process import Report
from skillviz.runs.run import Run
from skillviz.runs.session import Session
from skillviz.runs.spec import RunSpec, key_in, read_spec, region_of
from skillviz.runs.store import Store
from skillviz.tasks import registry
from skillviz.tasks.project import app_root, is_checkout, project_root
from skillviz.tasks.registry import EXAMPLE_TASKS
from skillviz.tasks.yaml_files import read_yaml

if TYPE_CHECKING:
    from skillviz.models.finetune.training import OnStep

TABLE = "runs.yaml"
WHOLE = f"{EXAMPLES_KEPT}/whole"
"""The folder, in the project's root, of the fine-tuned models before rounding; deleted after rounding."""
INTERRUPTED = ("failed", "cancelled")


@dataclass(frozen=True)
class ExampleRun:
    """A run of an example pair. `parts` maps each grouping of its region that is scored to its sample size."""

    name: str
    pair: ExamplePair
    spec: RunSpec
    parts: Mapping[str, int]

    def stored(self, store: Store) -> Run | None:
        """Return the finished run in a store, or None."""
        return newest_runs([self.spec], store).get(self.spec.key())


def example_runs(folder: Path | None = None) -> tuple[ExampleRun, ...]:
    """Return every row of the table, in order, named `pair/run`; raises BadInput if a row cannot be read."""
    path = (folder or app_root() / EXAMPLES) / TABLE
    table = read_yaml(path, TABLE) or {} if path.is_file() else {}
    pairs = {pair.name: pair for pair in example_pairs(folder)}
    if strange := sorted(table.keys() - pairs.keys()):
        raise BadInput(f"{TABLE} has runs of '{strange[0]}', which is no example pair; known: {', '.join(pairs)}.")
    return tuple(run for pair, rows in table.items() for run in _runs_of(pairs[pair], rows))


def chosen(only: Sequence[str], folder: Path | None = None) -> tuple[tuple[ExamplePair, ...], tuple[ExampleRun, ...]]:
    """Return the pairs and runs with these names; all of them if no name is given.

    The name of a pair includes its runs. A run includes its pair and the run whose region it matches. Raises BadInput
    for an unknown name.
    """
    pairs, runs = example_pairs(folder), example_runs(folder)
    known = [*(pair.name for pair in pairs), *(run.name for run in runs)]
    if unknown := [name for name in only if name not in known]:
        raise BadInput(f"'{unknown[0]}' is not an example; known: {', '.join(known)}.")
    if not only:
        return pairs, runs
    wanted = [run for run in runs if run.name in only or run.pair.name in only]
    matched = {key_in(run.spec.options.get("reference")) for run in wanted}
    wanted = [run for run in runs if run in wanted or run.spec.key() in matched]
    names = {*only, *(run.pair.name for run in wanted)}
    return tuple(pair for pair in pairs if pair.name in names), tuple(wanted)


def make_pair(pair: ExamplePair, on_step: OnStep | None = None, device: str = "auto") -> None:
    """Train a pair, resuming an interrupted training, and store the float16 difference from its base."""
    if not is_checkout():
        raise BadInput("examples are built in a checkout of skillviz. Clone the repository and run the command there.")
    from skillviz.models.difference import write_difference  # imports torch
    from skillviz.models.finetune.run import finetune  # imports torch

    whole, base = project_root() / WHOLE / pair.name, example_bases()[pair.base]
    if not (whole / "config.json").is_file():
        finetune(
            pair.base, [registry.task(pair.task)], pair.config(), DataSettings(evaluate_test=True), out=whole,
            device=device, command=pair.command, on_step=on_step,
        )  # fmt: skip
    target = project_root() / pair.finetuned
    target.parent.mkdir(parents=True, exist_ok=True)
    write_difference(pair.base, str(whole), target, hub=base.hub, licence=base.license)
    shutil.rmtree(whole)


def make_run(run: ExampleRun, store: Store, report: Report, session: Session | None = None) -> Run:
    """Return the finished run; an interrupted one is resumed from its checkpoint."""
    key = run.spec.key()
    cut = [entry.id for entry in store.unfinished() if entry.record.key == key and entry.record.status in INTERRUPTED]
    stored = Stored(None, cut[0]) if cut else None
    RunArtifact(run.spec).make(Workshop(store, session or Session(), report=report), run.spec.device, stored)
    made = run.stored(store)
    assert made is not None
    return made


def _runs_of(pair: ExamplePair, rows: Mapping[str, Mapping[str, Any]]) -> list[ExampleRun]:
    named = {"base": pair.base, "finetuned": pair.finetuned, "task": pair.task}
    runs: dict[str, ExampleRun] = {}
    for name, row in rows.items():
        fields = dict(row)
        parts, matched = fields.pop("parts", {}), fields.pop("region_of", None)
        fields["others"] = tuple(f"{EXAMPLE_TASKS}/{task}.yaml" for task in fields.get("others", ()))
        if matched is not None:
            if matched not in runs:
                raise BadInput(f"{TABLE}: '{pair.name}/{name}' matches '{matched}', which is no run before it.")
            fields["options"] = {"reference": region_of(runs[matched].spec, {**named, **fields})}
        runs[name] = ExampleRun(f"{pair.name}/{name}", pair, read_spec({**named, **fields}), parts)
    return list(runs.values())

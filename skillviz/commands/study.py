"""`study`: several runs from one file, and their table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skillviz.commands import options as given
from skillviz.commands.ending import BAD_USE
from skillviz.commands.output import note, print_json, print_rows, progress_bar, say
from skillviz.errors import BadInput
from skillviz.runs.store import Store, store_root

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.runs.spec import RunSpec

app = typer.Typer(help="Make and compare several runs: localizers, sizes, seeds.", no_args_is_help=True)
StudyFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A YAML file: name, defaults (fields of every run), runs (a list).")
]


@app.command()
def run(file: StudyFile, runs_dir: given.RunsDir = None, as_json: given.AsJson = False) -> None:
    """Make every run of a study that is not finished yet; start it again and it goes on where it stopped.

    In the file, lists in localizer, size and seed stand for one run each, in every combination.
    """
    from skillviz.runs import study as engine

    study = engine.read_study(file)
    with progress_bar("study") as advance:
        place = {"text": ""}

        def on_run(number: int, count: int, spec: RunSpec, what: str) -> None:
            place["text"] = f"{number} of {count}"
            note(f"{number} of {count} {what}: {spec.localizer}, {', '.join(spec.sizes)}, seed {spec.seed}")

        outcome = engine.run(
            study,
            Store(store_root(runs_dir)),
            lambda p: advance(p.done, p.total, f"{place['text']}: {p.text}"),
            on_run,
        )
    done, kept, failed = len(outcome.finished), len(outcome.skipped), outcome.failed
    say(f"{study.name}: {done} made, {kept} finished before, {len(failed)} failed, in {store_root(runs_dir)}")
    for spec, failure in failed:
        note(f"{spec.localizer}, {', '.join(spec.sizes)}, seed {spec.seed}: {failure.kind}: {failure.message}")
    if as_json:
        made = {"finished": [r.id for r in outcome.finished], "skipped": [r.id for r in outcome.skipped]}
        print_json({"name": study.name, **made, "failed": [failure.message for _, failure in failed]})
    if failed:
        raise typer.Exit(BAD_USE)


@app.command()
def table(
    file: StudyFile,
    runs_dir: given.RunsDir = None,
    paired: Annotated[
        bool, typer.Option("--differences", help="Each localizer against each other at equal size, paired.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also write it as CSV.")] = None,
    as_json: given.AsJson = False,
) -> None:
    """Print the table of a study's finished runs: mean over seeds, with intervals, by localizer and size."""
    from skillviz.runs import study as engine

    study, store = engine.read_study(file), Store(store_root(runs_dir))
    frame = (engine.differences if paired else engine.table)(study, store)
    if frame.empty:
        raise BadInput(
            f"no run of study '{study.name}' is finished in {store.root}; make them with `study run {file}`."
        )
    if out is not None:
        _write(frame, out)
    print_rows(
        study.name, list(frame.columns), [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
    )
    if as_json:
        print_json({"name": study.name, "rows": _records(frame)})


def _write(frame: pd.DataFrame, out: Path) -> None:
    """The table as CSV, whole or not at all."""
    from skillviz.runs.atomic import write_text

    if not out.absolute().parent.is_dir() or out.is_dir():
        raise BadInput(f"{out} cannot be written: name a file in a folder that exists.")
    write_text(out, frame.to_csv(index=False))


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in row.items()} for row in frame.astype(object).to_dict("records")]

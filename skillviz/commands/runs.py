"""`runs`: list, show, note, verify, mend, export and delete stored runs. Only `export --graft` imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from skillviz.atomic import whole_folder, working_folder, write_file
from skillviz.commands import options
from skillviz.commands.output import (
    estimate_text,
    note,
    print_finding,
    print_json,
    print_rows,
    print_run,
    run_json,
    say,
    writable,
)
from skillviz.core import formats
from skillviz.core.localizers.table import makes_graft
from skillviz.core.metrics import metric_row
from skillviz.core.region_parts import GROUPINGS
from skillviz.errors import BadInput, CorruptRun, StoreError, visible
from skillviz.runs.doctor import Finding, findings, mended
from skillviz.runs.part_scores import stored_parts
from skillviz.runs.run import Run
from skillviz.runs.store import Library, Store, library, open_run, option_of, problems_of, store_root
from skillviz.serving import read_only
from skillviz.show import bound
from skillviz.show.briefs import brief_of, headline_scores, headline_split, matches, run_labels, tags_of
from skillviz.show.bundle import bundle
from skillviz.show.report import page
from skillviz.show.report.sections import Section, sections
from skillviz.show.report.site import INDEX, PLOTLY
from skillviz.show.report.site import site as pages_of
from skillviz.studies.finetuned_model import unreadable_models
from skillviz.studies.store import unreadable_studies
from skillviz.tasks.project import expanded

app = typer.Typer(help="List, show, note, verify, mend, export and delete stored runs.", no_args_is_help=True)
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or its folder.")]


@app.command("list")
def list_runs(
    runs_dir: options.RunsDir = None,
    every: Annotated[bool, typer.Option("--all", help="Include queued, running, failed and cancelled runs.")] = False,
    search: Annotated[
        str,
        typer.Option(
            "--search", metavar="WORDS", help="Only runs whose names, task, localizer or note contain all words; #tag."
        ),
    ] = "",
    as_json: options.AsJson = False,
) -> None:
    """List the finished runs, newest first: yours, then those that ship."""
    stored = library(runs_dir)
    notes = _notes(stored)
    runs, others = stored.list(), stored.unfinished()
    if search:  # only a search needs each run's brief
        runs = [run for run in runs if matches(brief_of(run, is_of_user=False), search, notes.get(run.id, ""))]
    rows = [[*_row(run), " ".join(tags_of(notes.get(run.id, "")))] for run in runs]
    columns = ["run", "task", "method", "size", "share", "graft", "fine-tuned", "tags"]
    shown = len(columns) if any(row[-1] for row in rows) else len(columns) - 1
    print_rows("", columns[:shown], [row[:shown] for row in rows])
    if search and not runs:
        say(f"No run matches '{search}'.")
    elif not runs:
        say(f"No run yet in {store_root(runs_dir)}; `python -m skillviz localize --help` says how to make one.")
    if every:
        records = [entry.record for entry in others]
        reasons = [f"{r.error.message} {r.error.hint}" if r.error else "" for r in records]
        rows = [[r.run_id, r.status, reason] for r, reason in zip(records, reasons, strict=True)]
        print_rows("unfinished", ["run", "status", "why"], rows)
    elif others:
        note(f"{len(others)} more not finished (queued, running, failed or cancelled); --all lists them.")
    for broken in stored.unreadable():
        note(f"{broken.path}: {broken.reason}")
    if as_json:
        unfinished = [{"run_id": entry.id, "status": entry.record.status} for entry in others if every]
        headlines = [run.headline() | {"note": notes.get(run.id, "")} for run in runs]
        print_json({"runs": headlines, "unfinished": unfinished})


def _notes(stored: Library) -> dict[str, str]:
    """The user's notes by run id; a note that cannot be read is named and left out."""
    mine, found = stored.stores[0], {}
    for run_id in sorted(mine.noted()):
        try:
            found[run_id] = mine.note(run_id)
        except StoreError as error:
            note(str(error))
    return found


@app.command("note")
def note_run(
    run: RunName,
    words: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT]", show_default=False, help="The new note; '' removes it. Without it, the note is printed."
        ),
    ] = None,
    runs_dir: options.RunsDir = None,
) -> None:
    """Print or replace your note on a run. Words that begin with # are its tags; `list --search '#tag'` finds them.

    The note is stored beside the run and never in it. It is shown and searched on the page Runs too.
    """
    stored, mine = open_run(run, runs_dir), library(runs_dir).stores[0]
    if words is None:
        say(mine.note(stored.id) or f"No note on {stored.id}.")
        return
    read_only.refuse()
    if stored.root != mine.root:
        raise BadInput(f"{stored.id} is not in {mine.root}, and notes are kept on your own runs only.")
    mine.set_note(stored.id, words)
    say(f"Note on {stored.id} {'stored' if words.strip() else 'removed'}.")


@app.command()
def show(run: RunName, runs_dir: options.RunsDir = None, as_json: options.AsJson = False) -> None:
    """Show one run: its settings, region and scores, and the command that reproduces it."""
    stored = open_run(run, runs_dir)
    record = stored.record
    say(f"{stored.id}\n{stored.path}")
    print_run(stored)
    for check in record.checks:
        say(f"Self-check {'passed' if check.passed else 'FAILED'}: {check.name}. {check.detail}".rstrip())
    if term := bound.variance(record):
        say(bound.finding(term).replace("**", ""))
    say(f"Reproduce: {record.spec.command()}{option_of(store_root(runs_dir))}")
    print_finding(stored)
    if as_json:
        print_json(run_json(stored) | {"bound": bound.terms(record, headline_split(record)).to_dict("records")})


@app.command()
def verify(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="One run; without it, all of them.")] = None,
    runs_dir: options.RunsDir = None,
) -> None:
    """Check every file of a run against the sha256 in its run.json; exit code 2 if one differs."""
    stored = library(runs_dir)
    if run is not None:
        problems = {run: _problems(stored, run)}
    else:
        problems = {entry.id: [problem.sentence for problem in problems_of(entry)] for entry in stored.list()}
        problems |= {str(broken.path): [broken.reason] for broken in stored.unreadable()}
    for name, sentences in problems.items():
        say(f"{name}: {'unchanged' if not sentences else ' '.join(sentences)}")
    broken = [name for name, sentences in problems.items() if sentences]
    if broken:
        raise CorruptRun(
            f"{len(broken)} of {len(problems)} runs are unreadable or not what run.json vouches for: {broken[0]}."
        )


@app.command()
def doctor(
    runs_dir: options.RunsDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is wrong; change nothing.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Find what is wrong in the folder of runs and repair it.

    Leftovers of killed processes are removed. Runs and files that do not match their run.json move to .quarantine in
    the folder of runs; nothing is deleted. Runs that failed can be resumed, so they stay, and so does everything that
    another version of skillviz made.
    """
    store = Store(store_root(runs_dir))
    seen = list(findings(store)) if dry_run else mended(store)
    broken = (*unreadable_studies(store), *unreadable_models())
    seen += [Finding(one.path, one.reason, "left") for one in broken]
    for finding in seen:
        cure = f"to be {finding.cure}" if dry_run and finding.cure != "left" else finding.cure
        say(f"{finding.path}: {cure}. {finding.problem}")
    if not seen:
        say(f"Nothing is wrong in {store.root}.")
    if as_json:
        print_json({"findings": [{"path": str(f.path), "cure": f.cure, "problem": f.problem} for f in seen]})


@app.command()
def export(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs, beginnings of ids, or folders.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The zip file to write.")] = Path("run.zip"),
    with_graft: Annotated[
        bool, typer.Option("--graft", help="Include each graft. Opens the models of each run once more.")
    ] = False,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Include each report as HTML.")] = True,
    runs_dir: options.RunsDir = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write runs as one zip: stored files, tables as CSV and a manifest. --report and --graft add those.

    The manifest lists the SHA-256 of every file, and the parts that are not included.
    """
    stored = list({run.id: run for run in (open_run(name, runs_dir) for name in runs)}.values())
    writable(out, overwrite)
    seen = library(runs_dir)
    reports = {run.id: partial(report_of, run, seen) for run in stored} if with_report else {}
    with working_folder() as folder:
        grafts = _grafts(stored, folder) if with_graft else {}

        def write(part: Path) -> None:
            with part.open("wb") as file:
                bundle(stored, seen, file, reports=reports, grafts=grafts)

        write_file(out, write)
    size = out.stat().st_size
    say(f"{out}: {formats.counted(len(stored), 'run')}, {size:,} bytes.")
    if as_json:
        print_json({"path": str(out), "runs": [run.id for run in stored], "grafts": list(grafts), "bytes": size})


def report_of(run: Run, seen: Library) -> bytes:
    """The run's report as HTML, with its stored part scores, compared with the runs of its store and of `seen`."""
    return page.report_of(run, _chapters(run, seen))


def _chapters(run: Run, seen: Library) -> Sequence[Section]:
    parts = [scores for grouping in GROUPINGS if (scores := stored_parts(seen, run, grouping)) is not None]
    return sections(run, [*seen.list(), *Store(run.root).list()], parts)


def _write_site(runs: Sequence[Run], folder: Path, seen: Library, overwrite: bool) -> None:
    """Write the runs as a folder of pages. An existing site is replaced only on request, any other folder never."""
    held = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    if folder.is_file() or (held and not overwrite):
        raise BadInput(f"{folder} exists already; name another folder, or add --overwrite to replace a site.")
    if foreign := sorted(name for name in held if name != PLOTLY and not name.endswith(".html")):
        raise BadInput(f"{folder} is no site, as it holds {visible(foreign[0])}; name another folder.")
    labels = run_labels([brief_of(run, is_of_user=False) for run in runs])
    with whole_folder(folder.absolute(), replace=True) as draft:
        for name, content in pages_of(runs, labels, partial(_chapters, seen=seen)):
            (draft / name).write_bytes(content)
        files = list(draft.iterdir())
        size = sum(file.stat().st_size for file in files)
    say(f"{folder}: {formats.counted(len(runs), 'run')}, {len(files)} files, {size:,} bytes. Open {folder / INDEX}.")


def _grafts(runs: Sequence[Run], folder: Path) -> dict[str, Path]:
    """The graft of each run that has one, as a file in this folder."""
    from skillviz.runs.graft_of_run import graft_of_run  # imports torch

    files = {}
    for run in runs:
        if makes_graft(run.spec.localizer):
            graft, remarks = graft_of_run(run)
            for remark in remarks:
                note(f"{run.id}: {remark}")
            files[run.id] = folder / f"{run.id}.safetensors"
            graft.save(files[run.id])
    return files


@app.command()
def delete(
    run: RunName,
    runs_dir: options.RunsDir = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete one of your runs, finished or not. Runs that ship are left alone unless --runs-dir names their folder."""
    read_only.refuse()
    folder, store = Path(expanded(run)).resolve(), Store(store_root(runs_dir))
    if (folder / "run.json").is_file() and folder.parent == store.root.resolve():
        run = folder.name
    name = store.resolve(run)
    if not yes and not typer.confirm(f"Delete {name} and all its files?"):
        say("Nothing was deleted.")
        return
    store.delete(name)
    say(f"{name} is deleted.")


def _row(run: Run) -> list[str]:
    record = run.record
    scores = headline_scores(record)
    states = scores.states if scores else {}
    values = [
        estimate_text(states.get(state, {}).get(record.metric), metric_row(record.metric))
        for state in ("grafted", "finetuned")
    ]
    size, share = formats.count(record.size), formats.share(record.share)
    localizer = f"{record.spec.localizer}, stopped" if record.stopped else record.spec.localizer
    return [run.id, record.task_name, localizer, size, share, *values]


def _problems(stored: Library, name: str) -> list[str]:
    folder = Path(expanded(name))
    if (folder / "run.json").is_file():
        folder = folder.resolve()
        return list(Store(folder.parent).verify(folder.name))
    return list(stored.store_of(name).verify(name))


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs, beginnings of ids, or folders.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The HTML file to write.")] = Path(
        "report.html"
    ),
    site: Annotated[
        Path | None,
        typer.Option(
            "--site",
            metavar="DIR",
            show_default=False,
            help="Write a folder instead: an index, one page a run with links to the others, and plotly.js.",
        ),
    ] = None,
    runs_dir: options.RunsDir = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", "--force", help="Replace an existing file or folder.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a run as one HTML file that opens without a network: every figure and table, every word explained.

    It follows the reader's light or dark setting and can be printed. The comparisons of sizes and localizers include
    other runs of the same pair and task, and the scores that `parts` stored are part of the report.

    [bold]Example[/bold]

      python -m skillviz report sst2-roberta -o sst2.html

      python -m skillviz report sst2-roberta mnli-roberta --site my-site
    """
    opened = list({run.id: run for run in (open_run(name, runs_dir) for name in runs)}.values())
    if site is not None:
        _write_site(opened, site, library(runs_dir), overwrite)
        if as_json:
            print_json({"path": str(site), "runs": [run.id for run in opened]})
        return
    if len(opened) > 1:
        raise BadInput(f"{len(opened)} runs do not fit into one file. Add --site DIR, which writes a page for each.")
    (stored,) = opened
    writable(out, overwrite)
    content = report_of(stored, library(runs_dir))
    write_file(out, lambda part: part.write_bytes(content))
    say(f"{out}: run {stored.id}, {len(content):,} bytes.")
    if as_json:
        print_json({"path": str(out), "run_id": stored.id, "bytes": len(content)})

"""`checkpoints`: the training checkpoints of one fine-tuning, each localized, as a table and figures along training."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from skillviz import json_text
from skillviz.analysis.checkpoint_series import COLUMNS, SCORED, checkpoint_points, checkpoint_series
from skillviz.analysis.recovered import GAIN_SHARE
from skillviz.atomic import write_file
from skillviz.commands import options
from skillviz.commands.localize import reporter
from skillviz.commands.output import note, print_json, print_rows, progress_bar, say, writable, write_table
from skillviz.core import formats
from skillviz.core.comparison import Comparison
from skillviz.core.draws import LARGEST_SEED
from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.core.metrics import Metric, metric_row
from skillviz.errors import BadInput, SkillvizError
from skillviz.runs.artifact import RunArtifact, newest_runs
from skillviz.runs.process import gently
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec, read_spec
from skillviz.runs.store import Store, store_root
from skillviz.show import text
from skillviz.show.report.page import series_report
from skillviz.tasks.project import expanded

STATE = "trainer_state.json"
SIZES = ("0.1%", "0.01%", "0.03%", "0.3%", "1%", "3%", "10%")


def checkpoints(
    base: options.Base,
    folders: Annotated[
        list[str],
        typer.Option(
            "--checkpoints",
            metavar="DIR",
            rich_help_panel=options.MODELS,
            help="A folder with checkpoint-<step> folders, as the Trainer of transformers writes them; or each "
            "checkpoint's own folder, repeated.",
        ),
    ],
    task: options.TaskName,
    readout: options.ReadoutOption = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", rich_help_panel=options.SEARCH, help="The localizer.")
    ] = DEFAULT_LOCALIZER,
    size: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="SIZE ...",
            rich_help_panel=options.SEARCH,
            help="Region sizes; the first is the one whose regions are compared, all of them are tried for the gain. "
            f"Default: {' '.join(SIZES)}.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=LARGEST_SEED, rich_help_panel=options.SEARCH, help="Seed of the search.")
    ] = 0,
    k_shot: options.KShot = None,
    data_seed: options.DataSeed = 0,
    max_train: options.MaxTrain = None,
    max_validation: options.MaxValidation = None,
    max_test: options.MaxTest = None,
    device: options.Device = "auto",
    runs_dir: options.RunsDir = None,
    out: options.CsvFile = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE", rich_help_panel=options.WHERE, help="Also write the figures to this HTML file."
        ),
    ] = None,
    convert: options.Convert = False,
    as_json: options.AsJson = False,
) -> None:
    """Localize every training checkpoint of one fine-tuning, and compare them along training (paper, Figure 15).

    For each checkpoint: its score, its calibration, the smallest size that recovers 95% of its gain, and the share of
    the last checkpoint's region that it already holds. Each is an ordinary stored run; finished ones are reused. The
    page Sparsity of each run shows the whole series if its folder is named checkpoint-<step>; the command prints the
    last run. A checkpoint in DIR that cannot be read, for example because its saving was interrupted, is left out.
    More: docs/research/checkpoints.md.

    [bold]Example[/bold]

      python -m skillviz checkpoints --base roberta-base --checkpoints out/ --task sst2 --report series.html
    """
    for file in (out, report):
        writable(file)
    common = {
        "base": base, "task": task, "readout": readout and readout.value, "localizer": method,
        "sizes": tuple(size or SIZES), "seed": seed, "k_shot": k_shot, "data_seed": data_seed, "device": device,
        "max_train": max_train, "max_validation": max_validation, "max_test": max_test,
    }  # fmt: skip
    steps, is_searched = steps_of(folders)
    specs = {step: read_spec({**common, "finetuned": path}) for step, path in steps.items()}
    runs = _localized(specs, Store(store_root(runs_dir)), is_searched)
    table = checkpoint_series(runs)
    metric, ece = metric_row(next(iter(runs.values())).record.metric), metric_row("ece")
    rows = [
        [
            f"{row['step']:,}", *(_cell(row, name, ece if of else metric) for name, (_, of) in SCORED.items()),
            _size(row["size_needed"], row["recovered"]),
            formats.percent_estimate(row["recovered"], row["low"], row["high"]), formats.percent(row["held_of_last"]),
            formats.percent(row["iou"]), formats.by_chance(*(row[name] for name in COLUMNS[-3:])),
        ]
        for row in table.to_dict("records")
    ]  # fmt: skip
    headings = [
        "step", metric.title, f"graft's {metric.title}", "ECE", "graft's ECE", f"size for {GAIN_SHARE:.0%} of the gain",
        "recovered, %", "holds of the last region", "IoU with it", "IoU by chance",
    ]  # fmt: skip
    print_rows(f"{method}, seed {seed}, {table['split'].iloc[0]} set", headings, rows)
    say("By chance: random regions with as many entries in each tensor, and the range of 95% of them.")
    say(f"To see the series in the dashboard, open the run {table['run_id'].iloc[-1]} on the page Sparsity.")
    if out is not None:
        write_table(table, out)
        say(f"{out}: the table.")
    if report is not None:
        points = checkpoint_points({step: [run] for step, run in runs.items()})
        content = series_report(points, f"{len(runs)} checkpoints of {text.short_source(base)}")
        write_file(report, lambda part: part.write_bytes(content))
        say(f"{report}: score, calibration, size needed and overlap, {len(content):,} bytes.")
    if as_json:
        print_json({"checkpoints": table.astype(object).where(table.notna(), None).to_dict("records")})


def steps_of(folders: list[str]) -> tuple[dict[int, str], bool]:
    """Returns a map from training step to folder, and True if the folders were searched for: the checkpoint-<step>
    folders inside a single given folder; otherwise the given folders themselves are used.

    The step is the number at the end of a folder's name. A searched folder without one, such as checkpoint-best, which
    is a copy of another checkpoint, is left out with a note. For a given folder without one, the step is read from its
    trainer_state.json; if no folder has a step, they are numbered in order. Raises BadInput if only some folders have a
    step, if two have the same step, or if fewer than two are left.
    """
    inside = [path for path in Path(expanded(folders[0])).glob("checkpoint-*") if path.is_dir()]
    if is_searched := len(folders) == 1 and bool(inside):
        known = []
        for path in sorted(inside):
            if (step := _in_name(path)) is None:
                note(f"{path} is left out: its name does not tell its step.")
            else:
                known.append((step, str(path)))
    else:
        paths = [Path(expanded(folder)) for folder in folders]
        numbers = [_in_state(path) if (step := _in_name(path)) is None else step for path in paths]
        if all(number is None for number in numbers):
            numbers = list(range(1, len(folders) + 1))
        if None in numbers:
            raise BadInput(
                f"neither the name nor a {STATE} of '{folders[numbers.index(None)]}' tells its step, and others have "
                "one; name its folder checkpoint-<step>."
            )
        known = [(step, folder) for step, folder in zip(numbers, folders, strict=True) if step is not None]
    if len({step for step, _ in known}) < len(known):
        listed = ", ".join(folder for _, folder in known)
        raise BadInput(f"two checkpoints have the same step: {listed}; name each step's folder once.")
    if len(known) < 2:
        raise BadInput(
            f"'{folders[0]}' holds {'one checkpoint' if known and is_searched else 'no checkpoint-<step> folders'}; "
            "give a folder with two or more, or the folders of two or more checkpoints."
        )
    return dict(sorted(known)), is_searched


def _in_name(folder: Path) -> int | None:
    number = re.search(r"(\d+)$", folder.name)
    return int(number[1]) if number else None


def _in_state(folder: Path) -> int | None:
    try:
        step = json_text.read(folder / STATE)["global_step"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) and step > 0 else None


def _cell(row: Mapping[Any, Any], name: str, metric: Metric) -> str:
    return metric.cell(*(row[f"{name}{end}"] for end in ("", "_low", "_high", "_debiased")))


def _size(value: float, recovered: float) -> str:
    return f"{value:,.0f}" if value == value else "none of these" if recovered == recovered else "no gain"


def _localized(specs: dict[int, RunSpec], store: Store, is_searched: bool) -> dict[int, Run]:
    """Returns a finished run of each spec; stored runs that are still current are reused.

    Pairs are checked before the first search. If checkpoints were searched for (`is_searched`), one that cannot be read
    is left out with a note, as long as two others can be read.
    """
    from skillviz.runs.produce import produce  # imports torch
    from skillviz.runs.session import Session

    runs, session, refused = {}, Session(), dict[int, SkillvizError]()
    for step, spec in specs.items():
        try:
            session.preflight(spec)
        except SkillvizError as error:
            refused[step] = error
    if refused and (not is_searched or len(specs) - len(refused) < 2):
        raise next(iter(refused.values()))
    for step, why in refused.items():
        note(f"step {step:,} is left out: {why}")
    fit = {step: spec for step, spec in specs.items() if step not in refused}
    known = newest_runs(fit.values(), store)
    for step, spec in fit.items():
        run = known.get(spec.key())
        change = None if run is None else RunArtifact(spec).changes(run, store, session)
        if run is not None and change is not None and change.comparison is not Comparison.DIFFERENT:
            unknown = f" Whether its sources changed is unknown: {change.why}." if change.why else ""
            note(f"step {step:,}: run {run.id} already exists.{unknown}")
        else:
            with progress_bar(f"step {step:,}", is_whole=False) as advance, gently(reporter(advance)) as progress:
                run = produce(spec, store, progress, session)
        runs[step] = run
    return runs

"""Writes docs/results.md from the stored studies: `python docs/results.py [--runs-dir DIR]`.

Every number comes from a study's tables; words on likely reasons and on what is missing from docs/results_words.yaml.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from docs import results_tables as tables
from skillviz.errors import BadInput
from skillviz.runs.library import Library
from skillviz.runs.store import Store
from skillviz.studies.claims import verdicts
from skillviz.studies.experiments import EXPERIMENTS, Experiment
from skillviz.studies.published import SOURCE
from skillviz.studies.scales import SCALES
from skillviz.studies.store import StudyFolder, list_studies
from skillviz.studies.verdicts import AGREES, DISAGREES, Verdict, main_share
from skillviz.ui import paper_words, text

PAGE, WORDS = PROJECT / "docs" / "results.md", PROJECT / "docs" / "results_words.yaml"
DIGIT = re.compile(r"\d+\.\d+|\d+ ?%")
HEADLINES = (
    (
        "Searched regions against top movement, at equal size",
        "Accuracy (F1 where the task has it) of the graft less that of the graft of the top movement, paired by test "
        "example; a comparison counts as better only where its 95 % interval leaves out zero.",
        tables.against_movement,
    ),
    (
        "Calibration at 95 % of the gain",
        "The smallest region whose validation score brings back 95 % of what fine-tuning gained, scored on test. A "
        "negative difference means that the graft is better calibrated.",
        tables.calibration,
    ),
    (
        "Overlap of related and of unrelated tasks",
        "Regions of one model of several tasks; tasks of one family (sentiment, inference, paraphrase) are related. "
        "Intervals are over mask seeds; the tasks are held fixed.",
        tables.relatives,
    ),
)


def read_words(path: Path = WORDS) -> dict[str, Any]:
    """The words of the page; raises BadInput where a measured number was typed into them."""
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    for place, said in _leaves(found):
        if DIGIT.search(said):
            raise BadInput(f"{path.name}, {place}: '{said}' holds a number; numbers come from the studies alone.")
    return found


def _leaves(values: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from _leaves(value, f"{place}.{name}".lstrip("."))
    elif values is not None:
        yield place, str(values)


def page(studies: Sequence[StudyFolder], words: Mapping[str, Any]) -> str:
    """The whole page."""
    held = whole(studies)
    parts = [*opening(held), *headlines(held, words), *overview(held)]
    for row in EXPERIMENTS.values():
        parts += experiment(row, held, words)
    return "\n".join(parts).rstrip() + "\n"


def whole(studies: Sequence[StudyFolder]) -> list[StudyFolder]:
    """The studies with tables, those that ask for most first: of runs that several have, theirs are told."""
    return sorted((s for s in studies if s.tables()), key=lambda s: (-len(s.record.steps), s.name))


def of(studies: Sequence[StudyFolder], row: Experiment, scale: str) -> list[StudyFolder]:
    """The studies of an experiment at a scale."""
    return [study for study in studies if (study.record.experiment, study.record.scale) == (row.name, scale)]


def opening(studies: Sequence[StudyFolder]) -> list[str]:
    """What the page is, and how it is made anew."""
    return [
        "# Results",
        "",
        f"What the experiments of the paper ({SOURCE}) give here, with intervals, and whether it comes out as there. "
        "Written by `python docs/results.py` from the stored studies; no number is typed. Each study says the command "
        "that made it; the page Paper of the dashboard shows the same beside the published values.",
        "",
        f"Stored: {text.counted(len(studies), 'study')}. A claim **agrees** where at least half of its "
        "comparisons support it and fewer speak against it, by their 95 % intervals; **does not agree** the other way "
        "round; else it is **undecided**.",
        "",
    ]


def headlines(studies: Sequence[StudyFolder], words: Mapping[str, Any]) -> Iterator[str]:
    """The three claims that matter most, counted over all studies of a scale."""
    yield from ("## Three claims", "")
    for title, how, make in HEADLINES:
        yield from (f"### {title}", "", how, "")
        for name, scale in SCALES.items():
            lines = make([study for study in studies if study.record.scale == name])
            yield from (f"**{scale.title}**", "")
            yield from (lines or [f"No result: {_reason(words, 'headlines', title, name)}"])
            yield ""
        if said := _get(words, "remarks", title):
            yield from (said, "")


def overview(studies: Sequence[StudyFolder]) -> Iterator[str]:
    """Every experiment in one line, or in one a study."""
    yield from (
        "## All experiments",
        "",
        "| experiment | scale | command | claims that agree | taken |",
        "| --- " * 5 + "|",
    )
    for row in EXPERIMENTS.values():
        for scale in SCALES:
            found = of(studies, row, scale)
            if not found:
                yield f"| {row.title} | {scale} | `{_command(row, scale)}` | not stored | |"
            for study in found:
                said = _verdicts(study)
                agree = f"{sum(v.outcome == AGREES for v in said)} of {len(said)}" if said else "none in the paper"
                command = study.record.command or _command(row, scale)
                yield f"| {row.title} | {scale} | `{command}` | {agree} | {text.seconds(study.record.seconds)} |"
    yield ""


def experiment(row: Experiment, studies: Sequence[StudyFolder], words: Mapping[str, Any]) -> Iterator[str]:
    """One experiment at every scale."""
    yield from (f"## {row.title}", "", f"{row.question} The paper: {row.finding}", "")
    for name, scale in SCALES.items():
        yield from (f"### {row.title.partition(':')[0]}, {scale.title[:1].lower()}{scale.title[1:]}", "")
        found = of(studies, row, name)
        if not found:
            yield f"Not stored: {_reason(words, 'missing', row.name, name)} `{_command(row, name)}` makes it."
            yield ""
        for study in found:
            yield from told(study, row, words)


def told(study: StudyFolder, row: Experiment, words: Mapping[str, Any]) -> Iterator[str]:
    """Command, time, main table, verdicts with the likely reason, notes of one study."""
    record = study.record
    yield from (f"    {record.command or _command(row, record.scale or '')}", "")
    localized = sum(step.kind == "localize" for step in record.steps.values())
    spent = f"{text.seconds(record.seconds)} (estimated {text.seconds(record.estimated)})"
    yield from (f"{text.counted(localized, 'localization')}; {spent} on {record.device or 'an unnamed device'}.", "")
    main = row.main if row.main in study.tables() else next((t for t in tables.MAIN if t in study.tables()), None)
    if main in tables.MAIN:
        yield from (*tables.MAIN[main](study.table(main), main_share(record.scale)), "")
    found = _verdicts(study)
    for verdict in found:
        yield verdict_line(verdict)
    yield from ([""] if found else [])
    is_otherwise = any(verdict.outcome == DISAGREES for verdict in found)
    said = _get(words, "reasons", study.name) or (_get(words, "reasons", row.name) if is_otherwise else "")
    yield from ([f"Likely reason of what does not agree: {said}", ""] if said else [])
    notes = study.table("note")["text"] if "note" in study.tables() else ()
    yield from (f"- {note}" for note in notes)
    yield from ([""] if len(notes) else [])


def verdict_line(verdict: Verdict) -> str:
    """`- agrees: the claim (4 of 4 comparisons ...): sst2 −5.2 points (...), ...`."""
    shown = [f"{one.where} {paper_words.number(one)}" for one in verdict.comparisons[:6]]
    more = f"; {len(verdict.comparisons) - 6} more" if len(verdict.comparisons) > 6 else ""
    counts = f" {verdict.supporting} support it, {verdict.against} speak against it, {verdict.open} leave it open"
    rest = f"{counts}: {'; '.join(shown)}{more}." if verdict.comparisons else " The study has no row for it."
    return f"- **{verdict.outcome}**: {verdict.claim}{rest}"


def _verdicts(study: StudyFolder) -> list[Verdict]:
    held = {name: study.table(name) for name in study.tables()}
    return verdicts(study.record.experiment, held, study.record.scale)


def _command(row: Experiment, scale: str) -> str:
    return f"python -m skillviz reproduce {row.name} --scale {scale}"


def _get(words: Mapping[str, Any], *names: str) -> str:
    found: Any = words
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found.strip() if isinstance(found, str) else ""


def _reason(words: Mapping[str, Any], kind: str, name: str, scale: str) -> str:
    """Why something is missing at a scale: its own words, else the scale's."""
    return _get(words, kind, name, scale) or _get(words, "missing", "every", scale)


def main() -> None:
    """Rewrites the page."""
    parser = argparse.ArgumentParser(description="Write docs/results.md from the stored studies.")
    parser.add_argument("--runs-dir", type=Path, help="another folder of runs, looked at before cached_runs")
    given = parser.parse_args().runs_dir
    roots = [*([given] if given else []), PROJECT / "cached_runs"]
    studies = list_studies(Library([Store(root) for root in roots]))
    PAGE.write_text(page(studies, read_words()), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(PROJECT)}: {len(whole(studies))} studies")


if __name__ == "__main__":
    main()

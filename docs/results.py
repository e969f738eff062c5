"""Write docs/results.md, and the table of docs/paper.md, from the stored studies.

`python docs/results.py [--runs-dir DIR]`; with `--guide` the table alone.

Every number is from a study's tables; words on likely reasons and missing parts are from docs/results_words.yaml.
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

from benchmarks.frame import fill
from docs import results_claims as headline_claims
from docs import results_tables
from skillviz.core import formats
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED
from skillviz.errors import BadInput
from skillviz.runs.store import Library, Store
from skillviz.show.comparisons import counted
from skillviz.show.paper import NOT_PAIRED
from skillviz.studies.paper.claims import Verdict, counted_comparisons
from skillviz.studies.paper.costs import measured_by
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.experiments import verdicts as paper_verdicts
from skillviz.studies.paper.published_values import SOURCE
from skillviz.studies.paper.request import is_as_requested
from skillviz.studies.paper.scales import SMALL
from skillviz.studies.store import FILE, StudyFolder, list_studies
from skillviz.studies.subject import subject
from skillviz.tasks.readable_names import readable
from skillviz.ui import paper_words

PAGE, WORDS = PROJECT / "docs" / "results.md", PROJECT / "docs" / "results_words.yaml"
GUIDE, ITEMS = PROJECT / "docs" / "paper.md", "every item"
NO_STUDY = {
    "figure1": ("Figure 1: what grafting is", "the graft, under *What is the same*", "a drawing: nothing to measure"),
    "bound": (
        "Appendix D: a bound on the generalization gap",
        "`python -m skillviz runs show RUN`, page *Overview*",
        "its variance term for each run, as a ratio to the vacuous value 1; terms that need training errors are "
        "not measured",
    ),
}
"""Items of the paper that are no study: title, where they are here, and what came out."""
OVER = (
    "Scores are means over seeds, with 95% intervals over test examples and seeds in brackets. ECE has 15 bins and is "
    "the debiased error, which its interval is for; the plug-in value, which papers report, stands behind it "
    "([statistics](statistics.md)). Verdicts on calibration use that interval. Where no predictions are stored, ECE "
    "is the plug-in value and has no interval. *Not paired*: "
    f"{NOT_PAIRED} *Pre-trained* means the base's blocks under the fine-tuned pooler and head. Unless "
    "its command has `--seeds`, a study has one fine-tuned model per task and recipe: seeds are those of the search, "
    "so the intervals do not cover another fine-tuning seed. Studies reuse earlier runs, so their time can be short. "
    "Of two studies of one experiment, the first below is counted."
)
SAID_ONCE = (
    "One fine-tuned model a task and recipe: intervals over seeds are over mask seeds alone.",
    "Nothing was left out.",
)
SHOWN = 2  # for a claim with more comparisons, the page has only the smallest and the largest; the page Paper has all
DIGIT = re.compile(r"\d+\.\d+|\d+ ?%")
VERDICT = re.compile(r"\b(?:confirmed|contradicted|inconclusive|agrees?|claims? (?:is|are|stays?))\b", re.IGNORECASE)
HEADLINES = (
    (
        "Searched regions against top movement, at equal size",
        "Accuracy (F1 where the task uses it) of the graft minus that of the top-movement graft, paired by test "
        "example. A comparison counts as better only if its 95% interval excludes zero. Each recipe and readout is its "
        "own comparison. Runs that several studies share count once.",
        headline_claims.against_movement,
    ),
    (
        "Calibration at 95% of the gain",
        "The smallest region whose validation score recovers 95% of the fine-tuning gain, scored on test. If none "
        "does, the smallest whose test score does, marked `by test`: the fine-tuned model was itself chosen on "
        "validation. A negative difference means that the graft is better calibrated.",
        headline_claims.calibration,
    ),
    (
        "Overlap of related and of unrelated tasks",
        "Regions of one model of several tasks; tasks of one family (sentiment, inference, paraphrase) are related. "
        "Intervals are over mask seeds, for these tasks.",
        headline_claims.relatives,
    ),
)


def read_words(path: Path = WORDS) -> dict[str, Any]:
    """Return the words of the page; raises BadInput if they contain a measured number or a verdict."""
    words: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    for place, sentence in _leaves(words):
        if DIGIT.search(sentence):
            raise BadInput(f"{path.name}, {place}: '{sentence}' holds a number; numbers come from the studies alone.")
        if found := VERDICT.search(sentence):
            raise BadInput(f"{path.name}, {place}: '{found[0]}' is a verdict; verdicts come from the studies alone.")
    return words


def _leaves(values: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from _leaves(value, f"{place}.{name}".lstrip("."))
    elif values is not None:
        yield place, str(values)


def page(studies: Sequence[StudyFolder], words: Mapping[str, Any]) -> str:
    """Return the whole page, from the studies of the scale and those without an experiment."""
    studies = with_tables([s for s in studies if s.record.scale == SMALL.name or s.record.experiment is None])
    first = first_of_each(studies)
    parts = [*opening(studies), *summary(first, words), *headlines(first, words), *overview(studies)]
    for row in EXPERIMENTS.values():
        parts += experiment(row, studies, words)
    parts += others(studies, words)
    return "\n".join(parts).rstrip() + "\n"


def with_tables(studies: Sequence[StudyFolder]) -> list[StudyFolder]:
    """Return the studies with tables: first those that their command still makes, then by number of steps."""
    whole = [study for study in studies if study.tables()]
    return sorted(whole, key=lambda s: (not is_as_requested(s.study), -len(s.record.steps), s.name))


def first_of_each(studies: Sequence[StudyFolder]) -> list[StudyFolder]:
    """Return the first study of each experiment, by which claims are counted."""
    first: dict[str, StudyFolder] = {}
    for study in studies:
        if study.record.experiment is not None:
            first.setdefault(study.record.experiment, study)
    return list(first.values())


def of(studies: Sequence[StudyFolder], row: Experiment) -> list[StudyFolder]:
    """Return the studies of an experiment."""
    return [study for study in studies if study.record.experiment == row.name]


def opening(studies: Sequence[StudyFolder]) -> list[str]:
    """Return the introduction: the page's purpose, and how it is made."""
    return [
        "# Results",
        "",
        f"Which claims of the paper ({SOURCE}) are confirmed here, with intervals. `python docs/results.py` writes "
        "this page from the stored studies; no number is typed. Each study names the command that made it. The page "
        "*Paper* of the dashboard shows the same results beside the published values. All studies are of real text.",
        "",
        f"Stored: {formats.counted(len(studies), 'study')}. A claim is **confirmed** if at least half of its "
        "comparisons that have a 95% interval support it and fewer contradict it. It is **contradicted** in the "
        "opposite case, and **inconclusive** otherwise. Without an interval it is "
        "**not measured**. The tables below have the rows behind the claims. For all tables of a study, run "
        "`python -m skillviz study table NAME --name scores`.",
        "",
        OVER,
        "",
    ]


def summary(studies: Sequence[StudyFolder], words: Mapping[str, Any]) -> Iterator[str]:
    """Yield the summary: the headline claims, all claims, and missing experiments."""
    yield from ("## In two minutes", "")
    once = [verdict for row in EXPERIMENTS.values() for verdict in _of_first(row, studies)]
    yield f"Each claim once, as on the page *Paper*: {paper_words.verdict_counts(once)}."
    yield ""
    yield from (f"- {one[:1].upper()}{one[1:]}." for one in headline_claims.brief(studies))
    verdicts = [(study, verdict) for study in studies for verdict in _verdicts(study)]
    if verdicts:
        yield f"- Of the paper's {formats.counted(len(verdicts), 'claim')} tested here: {_outcomes(verdicts)}."
        several = counted_comparisons(verdict for _, verdict in verdicts)
        if several.n > 1:
            yield f"- Comparisons behind these claims: {counted(several, paper_words.CLAIM_LIMIT)}"
    missing = [row.title.partition(":")[0] for row in EXPERIMENTS.values() if not of(studies, row)]
    if missing:
        yield f"- Not measured: {', '.join(missing)}. `python -m skillviz reproduce all` measures them."
    if sentence := _get(words, "summary"):
        yield from ("", sentence)
    yield ""


def _of_first(row: Experiment, studies: Sequence[StudyFolder]) -> list[Verdict]:
    """Return the first study's verdict on each claim; not measured if there is no study."""
    first = next(iter(of(studies, row)), None)
    return _verdicts(first) if first else row.verdicts({}, None)


def _outcomes(verdicts: Sequence[tuple[StudyFolder, Verdict]]) -> str:
    """Return `7 are confirmed, 2 inconclusive (where), 1 contradicted (where)`."""
    parts = []
    for outcome in (CONFIRMED, INCONCLUSIVE, CONTRADICTED, NOT_MEASURED):
        those = [study for study, verdict in verdicts if verdict.outcome == outcome]
        where = dict.fromkeys(EXPERIMENTS[s.record.experiment or ""].title.partition(":")[0] for s in those)
        names = f" ({', '.join(where)})" if where and outcome != CONFIRMED else ""
        parts += [f"{len(those)} {outcome}{names}"] if those else []
    return ", ".join(parts)


def headlines(studies: Sequence[StudyFolder], words: Mapping[str, Any]) -> Iterator[str]:
    """Yield the three most important claims, counted over all studies."""
    yield from ("## Three claims", "")
    for title, how, make in HEADLINES:
        yield from (f"### {title}", "", how, "")
        yield from (make(studies) or ["Not measured: no stored study has the rows."])
        yield ""
        if remark := _get(words, "remarks", title):
            yield from (remark, "")


def overview(studies: Sequence[StudyFolder]) -> Iterator[str]:
    """Yield one line per experiment, with the number of the paper's claims that are confirmed."""
    yield from ("## All experiments", "")
    yield from formats.markdown_table(
        ("experiment", "claims"),
        [[row.title, " and ".join(map(_agree, of(studies, row))) or NOT_MEASURED] for row in EXPERIMENTS.values()],
    )
    yield ""


def _agree(study: StudyFolder) -> str:
    """Return `2 of 3 confirmed (1 inconclusive)`."""
    verdicts = _verdicts(study)
    others = (INCONCLUSIVE, CONTRADICTED, NOT_MEASURED)
    counts = {one: sum(v.outcome == one for v in verdicts) for one in (CONFIRMED, *others)}
    rest = [f"{counts[one]} {one}" for one in others if counts[one]]
    outcome = f"{counts[CONFIRMED]} of {len(verdicts)} confirmed" + (f" ({', '.join(rest)})" if rest else "")
    return outcome if verdicts else "stored; the paper makes no claim"


def every_item(studies: Sequence[StudyFolder]) -> list[str]:
    """Return the lines of the table of every table and figure of the paper: where it is here, and what came out."""
    first = first_of_each(with_tables([s for s in studies if s.record.scale == SMALL.name]))
    rows = []
    for name in dict.fromkeys((*paper_words.ORDER, "bound", *EXPERIMENTS)):
        if name in EXPERIMENTS:
            row = EXPERIMENTS[name]
            own, command = of(first, row), f"`python -m skillviz reproduce {name}`"
            rows.append([row.title, f"{command}, page *Paper*", _came_out(row, own[0]) if own else _not_measured(row)])
        else:
            rows.append(list(NO_STUDY[name]))
    return formats.markdown_table(("in the paper", "here", "what came out"), rows)


def _came_out(row: Experiment, study: StudyFolder) -> str:
    is_current = is_as_requested(study.study)
    return _agree(study) + ("" if is_current else f" (an earlier study; {_measured_by(row)[:-1]})")


def _not_measured(row: Experiment) -> str:
    return f"{NOT_MEASURED}. {_measured_by(row)}"


def experiment(row: Experiment, studies: Sequence[StudyFolder], words: Mapping[str, Any]) -> Iterator[str]:
    """Yield one experiment: its studies, or the command that measures it."""
    yield from (f"## {row.title}", "", f"{row.question} The paper: {row.finding}", "")
    own = of(studies, row)
    for study in own:
        yield from result(study, row, words)
    if not own:
        why = f" {reason}" if (reason := _get(words, "missing", row.name)) else ""
        yield from (f"**Not measured.**{why} {_measured_by(row)}", "")


def others(studies: Sequence[StudyFolder], words: Mapping[str, Any]) -> Iterator[str]:
    """Yield the studies without an experiment of the paper."""
    unnamed = [study for study in studies if study.record.experiment not in EXPERIMENTS]
    yield from (["## Other studies", ""] if unnamed else [])
    for study in unnamed:
        yield from (f"### {study.record.title or study.name}", "")
        yield from result(study, None, words)


def result(study: StudyFolder, row: Experiment | None, words: Mapping[str, Any]) -> Iterator[str]:
    """Yield command, time, main table, verdicts, remarks and notes of one study."""
    record = study.record
    is_current = row is None or is_as_requested(study.study)
    command = record.command if is_current else ""
    command = command or f"python -m skillviz study run cached_runs/studies/{study.path.name}/{FILE}"
    localized = sum(step.kind == "localize" for step in record.steps.values())
    spent = formats.seconds(record.seconds)
    machine = record.device or _get(words, "machines", study.name) or _get(words, "machines", "every")
    title = formats.listed([readable(task) for task in _tasks(study)], 99)
    work = f"{formats.counted(localized, 'localization')}; {spent} on {machine or 'an unnamed device'}"
    lines = results_tables.of_study(study)
    caption = f" {lines.pop()}" if len(lines) > 1 and not lines[-1].startswith("|") else ""
    table = [line for place, line in enumerate(lines) if line or place < len(lines) - 1]
    yield from (f"**{title}.** `{command}`: {work}.{caption}", "", *table, *([""] if table else []))
    verdicts = _verdicts(study)
    texts = study.table("note")["text"] if "note" in study.tables() else ()
    notes = [f"- {note}" for note in texts if note not in SAID_ONCE]
    lines = [*map(verdict_line, verdicts), *results_tables.stability(study), *notes]
    if row and any(verdict.outcome == NOT_MEASURED for verdict in verdicts):
        lines.append(f"- What is not measured: {_measured_by(row)}")
    yield from ([*lines, ""] if lines else [])
    if remark := _get(words, "studies", study.name):
        yield from (remark, "")
    elif (
        row
        and any(verdict.outcome == CONTRADICTED for verdict in verdicts)
        and (reason := _get(words, "reasons", row.name))
    ):
        yield from (f"Likely reason for the contradiction: {reason}", "")


def verdict_line(verdict: Verdict) -> str:
    """`- confirmed: the claim. 4 of 6 support it, ...`, with each comparison if they are few, else the two ends."""
    if not verdict.comparisons:
        return f"- **{verdict.outcome}**: {verdict.claim} This study has no row for it."
    if len(verdict.comparisons) <= SHOWN:
        shown_ones = "; ".join(f"{one.where} {paper_words.value_words(one)}" for one in verdict.comparisons)
    else:
        measured = [one for one in verdict.comparisons if one.is_measured]
        ends = sorted(measured or verdict.comparisons, key=lambda one: one.value)
        shown_ones = " to ".join(f"{paper_words.value_words(one)} ({one.where})" for one in (ends[0], ends[-1]))
    return f"- **{verdict.outcome}**: {verdict.claim} {paper_words.support(verdict)}: {shown_ones}."


def _verdicts(study: StudyFolder) -> list[Verdict]:
    tables = {name: study.table(name) for name in study.tables()}
    return paper_verdicts(study.record.experiment, tables, study.record.scale)


def _tasks(study: StudyFolder) -> list[str]:
    """Return the tasks on which the study's models are fine-tuned."""
    about = subject(study.study)
    return list(about.models or about.tasks)


def _measured_by(row: Experiment) -> str:
    """Return the command that measures an experiment, and its core-hours."""
    return measured_by(row.name, f"python -m skillviz reproduce {row.name}")


def _get(words: Mapping[str, Any], *names: str) -> str:
    value: Any = words
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value.strip() if isinstance(value, str) else ""


def main() -> None:
    """Rewrite the page."""
    parser = argparse.ArgumentParser(description="Write docs/results.md from the stored studies.")
    parser.add_argument("--runs-dir", type=Path, help="another folder of runs, looked at before cached_runs")
    parser.add_argument("--guide", action="store_true", help="write the table of docs/paper.md alone")
    chosen = parser.parse_args()
    given = chosen.runs_dir
    roots = [*([given] if given else []), PROJECT / "cached_runs"]
    studies = list_studies(Library([Store(root) for root in roots]))
    fill(GUIDE, {ITEMS: every_item(studies)}, "python docs/results.py")
    if chosen.guide:
        return
    PAGE.write_text(page(studies, read_words()), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(PROJECT)}: {len(with_tables(studies))} studies")


if __name__ == "__main__":
    main()

"""The sections of the tasks page: shared entries, gains of regions and unions, stability; other unions live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import streamlit as st

from skillviz.analysis.overlaps import RELATED_LESS_UNRELATED, Shared, shared_with_others
from skillviz.analysis.tables import empty, of_its_own_task
from skillviz.core import formats
from skillviz.core.verdicts import CONFIRMED, CONTRADICTED, INCONCLUSIVE, NOT_MEASURED, ClaimVerdict
from skillviz.plots.overlap import CHANCE
from skillviz.plots.tasks import (
    CHOSEN,
    PURIFIED,
    RANDOM_OF,
    SINGLE,
    TRAINED_ON,
    UNION_OF,
    WITHOUT_RANDOM,
    WITHOUT_SHARED,
)
from skillviz.runs.run import Run
from skillviz.show import tasks as exhibits
from skillviz.show import text
from skillviz.show.comparisons import counted_rows
from skillviz.show.glossary import about
from skillviz.studies.store import StudyFolder
from skillviz.studies.task_unions import EXCLUSIVE, RANDOM, THINNED, TRAINED
from skillviz.tasks.readable_names import RELATED, UNRELATED, family, readable_name, relation
from skillviz.ui import cache, controls, live, page, study_choice, study_words
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import chip_text

TABLES = ("overlap", "isolation", "gain", "stability", "scores", "subsets")
KINDS = {"overlap": "of one region", "iou": "of both (IoU)"}
WHICH = {"single": "of one task", "unions": "unions", "purified": "unions, purified"}
SUBSETS = {EXCLUSIVE: WITHOUT_SHARED, THINNED: WITHOUT_RANDOM, RANDOM: RANDOM_OF, TRAINED: TRAINED_ON}
SHARES = {"overlap": "of one region's entries", "iou": "of the entries of both regions"}


@dataclass(frozen=True)
class TaskTables:
    """The study and its tables by name; a missing table is an empty frame."""

    study: StudyFolder
    tables: Mapping[str, pd.DataFrame]

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The tasks whose regions are stored, tasks of one family together."""
        return tuple(sorted(set(self.tables["overlap"]["row_task"]), key=lambda task: (family(task), task)))

    @cached_property
    def gain(self) -> pd.DataFrame:
        """The table of gains, without the tasks that have no gain."""
        table = self.tables["gain"]
        return table[~table["task"].isin(self.without_gain)]

    @cached_property
    def without_gain(self) -> tuple[str, ...]:
        """The tasks on which the multi-task model has no gain, so that no region can recover a share of it."""
        table = self.tables["gain"]
        known = set(table.loc[table["value"].notna(), "task"])
        return tuple(task for task in self.tasks if task in set(table["task"]) - known)

    @property
    def has_no_gain(self) -> bool:
        """True if gains were computed, and no task has one."""
        return len(self.tables["gain"]) > 0 and self.gain.empty


def read(study: StudyFolder) -> TaskTables:
    """The study's tables; shows an explanation and stops if it has no regions."""
    with page.explained():
        tables = {name: cache.study_table(study, name) for name in TABLES if name in study.tables()}
    if "overlap" not in tables or tables["overlap"].empty:
        study_choice.refuse_unfinished(
            study, "No region of this study is finished yet, so there is nothing to compare. This command resumes it:"
        )

    return cache.computed(
        ("tables",), [study], lambda: TaskTables(study, {name: tables.get(name, empty(name)) for name in TABLES})
    )


def transfers(tables: TaskTables) -> None:
    """Draws, below the maps, the effect of a region on its own task and on others, and the tasks without a gain."""
    kin = {(a, b): relation(a, b) for a in tables.tasks for b in tables.tasks}
    sentences = [transfer(tables.gain, kin), without_gain(tables.without_gain, tables.has_no_gain)]
    for sentence in filter(None, sentences):
        st.markdown(sentence, help=about("gain", "discovery"))


def kind_of() -> str:
    """The chosen measure of shared entries, `overlap` or `iou`."""
    return controls.segments("kind", "Shared entries", tuple(KINDS), "overlap", shown=KINDS.get, help=about("iou"))


def overlap(tables: TaskTables, kind: str) -> None:
    """Draws the map of shared entries."""
    show(exhibits.overlap(tables.tables["overlap"], kind, tables.tasks, theme()), tables.study.name)


def which_of(tables: TaskTables) -> str:
    """The regions whose gains are shown: single, unions or purified unions; empty if there are none."""
    offered = [name for name, rows in _parts(tables).items() if len(rows)]
    if not offered:
        return ""
    return controls.segments(
        "regions", "Gains of regions", offered, offered[0], shown=WHICH.get, help=about("purified")
    )


def gains(tables: TaskTables, which: str) -> None:
    """Draws the map of relative gain; nothing if no task has one, as the sentence above the map says."""
    if tables.has_no_gain:
        return
    if not which:
        st.info("This study has no gains yet: they need the weights of its multi-task model.", icon=":material/info:")
        return
    show(exhibits.gain(_parts(tables)[which], tables.tasks, theme()), tables.study.name)


def _parts(tables: TaskTables) -> dict[str, pd.DataFrame]:
    joint = tables.gain["region_tasks"].map(len) > 1
    return {
        "single": tables.gain[~joint & ~tables.gain["purified"]],
        "unions": tables.gain[joint & ~tables.gain["purified"]],
        "purified": tables.gain[tables.gain["purified"]],
    }


def union(tables: TaskTables) -> None:
    """Draws the choice of any set of tasks, and the gains of their union; nothing if no task has a gain."""
    if tables.has_no_gain:
        return
    st.markdown("## Any set of tasks", help=about("union", "gain"))
    unions = [tasks for tasks in tables.gain["region_tasks"].unique() if len(tasks) > 1]
    unions.sort(key=lambda names: (len({family(name) for name in names}) > 1, len(names)))
    chosen = controls.any_of(
        "union",
        "Unite the regions of",
        tables.tasks,
        unions[0] if unions else tables.tasks[:2],
        shown=readable_name,
        help=study_words.task_titles(tables.tasks) or None,
    )
    if not chosen:
        st.info("Choose one or more tasks. Their regions are grafted together.")
        return
    rows, subset = stored(tables, chosen), of_subset(tables, chosen)
    if rows.empty:
        rows = _live_union(tables, chosen)
    if len(rows):
        rows = pd.concat([rows, subset[rows.columns]], ignore_index=True) if len(subset) else rows
        _draw_union(tables, rows, chosen)
    _shared(tables, subset, chosen)


def _draw_union(tables: TaskTables, rows: pd.DataFrame, chosen: tuple[str, ...]) -> None:
    known = rows[rows["value"].notna()]
    left_out = [task for task in tables.tasks if task in set(rows["task"]) - set(known["task"])]
    st.markdown(union_words(known, chosen, left_out))
    if len(known):
        show(exhibits.union(known, chosen, theme()), tables.study.name)


def stored(tables: TaskTables, chosen: Sequence[str]) -> pd.DataFrame:
    """task, what, value, low, high, n and seeds of the stored union of these tasks; no rows if it is not stored."""
    gain = tables.gain
    same = gain["region_tasks"].map(lambda tasks: set(tasks) == set(chosen)).astype(bool)
    if not same.any():
        return gain.iloc[:0].assign(what="")
    what = gain["purified"].map({True: PURIFIED, False: UNION_OF})
    if len(chosen) == 1:
        what = pd.Series(CHOSEN, index=gain.index)
    parts = [gain.assign(what=what)[same], gain.assign(what=SINGLE)[of_its_own_task(gain) & ~same]]
    return pd.concat(parts, ignore_index=True)[["task", "what", "value", "low", "high", "n", "seeds"]]


def of_subset(tables: TaskTables, chosen: Sequence[str]) -> pd.DataFrame:
    """The rows of `stored` for the nulls of the union, the union without shared entries, and a model of the subset."""
    table = tables.tables["subsets"]
    same = table["region_tasks"].map(lambda tasks: set(tasks) == set(chosen)).astype(bool)
    rows = table[same & table["what"].isin(SUBSETS) & ~table["task"].isin(tables.without_gain)]
    return rows.assign(what=rows["what"].map(SUBSETS)).reset_index(drop=True)


def _shared(tables: TaskTables, subset: pd.DataFrame, chosen: Sequence[str]) -> None:
    """Draws the entries that regions of other tasks share, the effect of removing them, and a model of the subset."""
    runs = regions_of(tables)
    if set(tables.tasks) == set(runs):

        def sentence() -> str:
            counts = shared_with_others({task: run.region() for task, run in runs.items()}, chosen)
            return shared_words(counts, chosen, next(iter(runs.values())).spec.seed)

        with page.explained():
            st.markdown(cache.computed(("shared", *chosen), [tables.study], sentence))
    if len(subset):
        st.markdown(subset_words(subset, chosen, len(tables.tasks)), help=about("matched"))
        return
    with st.expander("Measure it without shared parameters, beside its null and a model of this subset"):
        st.code("python -m skillviz reproduce subsets --scale small", language=None, wrap_lines=True)


def _live_union(tables: TaskTables, chosen: Sequence[str]) -> pd.DataFrame:
    """The same rows, computed live with the regions of the first mask seed, one request per task."""
    runs = regions_of(tables)
    missing = [task for task in chosen if task not in runs]
    if missing:
        _explain(tables, f"The run with the region of {text.tasks(missing[0])} is missing.")
        return tables.gain.iloc[:0]
    first = runs[chosen[0]]
    if not live.has_models(first):
        live.say_absent(first, "union.score")
        _explain(tables, "")
        return tables.gain.iloc[:0]
    names = formats.listed([text.tasks(task) for task in chosen], 8)
    examples = sum(run.record.task.counts.get("test", 0) for run in runs.values() if run.record.task)
    costs = (
        f"The union of {names} is not stored. Scores its graft and both ends on the test sets of "
        f"{formats.counted(len(runs), 'task')}, {formats.counted(examples, 'example')} in all. The first time loads "
        "the models."
    )
    if not live.wanted(first, "union.score", "Score this union", costs, of="~".join(chosen)):
        return tables.gain.iloc[:0]
    expression = (
        {"union": [{"run": runs[task].id} for task in chosen]} if len(chosen) > 1 else {"run": runs[chosen[0]].id}
    )
    among, rows = [run.spec.task for run in runs.values()], []
    what = UNION_OF if len(chosen) > 1 else CHOSEN
    bar = st.progress(0.0, f"0 of {len(runs)} tasks scored")
    for done, (task, run) in enumerate(runs.items(), 1):
        answer = live.ask(run, "union", topic=f"union.{task}", region=expression, among=among)
        if answer is None:
            bar.empty()
            _explain(tables, "")
            return tables.gain.iloc[:0]
        bar.progress(done / len(runs), f"{done} of {len(runs)} tasks scored")
        gain = {name: (answer["gain"] or {}).get(name, float("nan")) for name in ("value", "low", "high")}
        rows.append({"task": task, "what": what, "seeds": 1, "n": answer["n"], **gain})
    bar.empty()
    single = tables.gain[of_its_own_task(tables.gain)].assign(what=SINGLE)
    united = pd.DataFrame(rows)
    return pd.concat([united, single[united.columns]], ignore_index=True) if len(single) else united


def regions_of(tables: TaskTables) -> dict[str, Run]:
    """The run of each task's region with the first mask seed, for tasks whose runs are stored."""
    with page.explained():
        runs = cache.study_runs(tables.study)
    first: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: run.spec.seed):
        first.setdefault(run.record.task_name, run)
    return {task: first[task] for task in tables.tasks if task in first}


def _explain(tables: TaskTables, why: str) -> None:
    stored_sets = sorted({" + ".join(tasks) for tasks in tables.gain["region_tasks"] if len(tasks) > 1})
    listed = f" Stored unions: {formats.listed(list(map(text.tasks, stored_sets)), 20)}." if stored_sets else ""
    st.info(f"{why} This union is not stored, and computing it needs the models.{listed} This command "
            "makes the models and the regions:".strip(), icon=":material/info:")  # fmt: skip
    st.code(study_words.command(tables.study), language=None, wrap_lines=True)


def stability(tables: TaskTables) -> None:
    """Draws the stability of the regions, if the study has it."""
    if len(tables.tables["stability"]):
        show(exhibits.stability(tables.tables["stability"], theme()), tables.study.name)


def isolation(table: pd.DataFrame, kind: str) -> str:
    """The entries shared by related tasks vs unrelated ones; a verdict only if the interval excludes 0."""
    rows = {str(row["relation"]): row for row in table[table["kind"] == kind].to_dict("records")}
    apart = rows.get(UNRELATED)
    if apart is None and RELATED not in rows:
        return "No two regions were compared."
    phrases = [f"related {_share(rows[RELATED])}"] if RELATED in rows else []
    phrases += [f"unrelated {_share(apart)}"] if apart is not None else []
    chance = apart if apart is not None else rows[RELATED]
    level = formats.by_chance(*(chance[name] for name in CHANCE))
    head, difference = _kinship(rows.get(RELATED_LESS_UNRELATED))
    return f"{head}: {', '.join(phrases)} {SHARES[kind]}{difference}; by chance {level}."


def _kinship(row: Mapping[Any, Any] | None) -> tuple[str, str]:
    """The verdict on the paper's claim that related tasks share more, and the difference."""
    if row is None:
        return "No two of these tasks are of one family", ""
    change = f"; difference {formats.points(row['value'])}"
    verdict: ClaimVerdict = NOT_MEASURED
    if formats.missing(row["low"]):
        interval = "one mask seed, so no interval"
    else:
        verdict = CONFIRMED if row["low"] > 0 else CONTRADICTED if row["high"] < 0 else INCONCLUSIVE
        seeds = formats.counted(int(row["seeds"]), "mask seed")
        interval = f"95%: {formats.percent_interval(row['low'], row['high'])}, {seeds}"
    return f"**Related tasks share more** {chip_text(verdict)}", f"{change} ({interval})"


def transfer(gain: pd.DataFrame, related: Mapping[tuple[str, str], str]) -> str:
    """The effect of a task's region on its own task and on others; `related` gives kinship by (region, task)."""
    single = gain[(gain["region_tasks"].map(len) == 1) & gain["value"].notna()]
    if single.empty:
        return ""
    of_own_task = single.loc[of_its_own_task(single), "value"]
    lines, judged, has_intervals = [], [], exhibits.has_intervals(single)
    if len(of_own_task):
        least, most = (f"**{formats.percent(end)}**" for end in (of_own_task.min(), of_own_task.max()))
        span, why = (f"between {least} and {most}", ", depending on the task") if least != most else (least, "")
        lines.append(f"A region recovers {span} of the multi-task model's gain on its own task{why}")
    for kin in (RELATED, UNRELATED):
        pairs = zip(single["region_tasks"], single["task"], strict=True)
        rows = single[[related.get((of, task)) == kin for (of,), task in pairs]]
        if len(rows):
            judged.append(rows)
            if not has_intervals:
                continue
            known = rows.dropna(subset=["low", "high"])
            helped, hurt = int((known["low"] > 0).sum()), int((known["high"] < 0).sum())
            bare = len(rows) - len(known)
            lines.append(
                f"In {formats.counted(len(known), 'pair')} of {kin} tasks, one task's region helps the other in "
                f"{helped} and harms it in {hurt}{f'; {bare} more {NOT_MEASURED}' if bare else ''}"
            )
    several = counted_rows(pd.concat(judged)) if judged and has_intervals else ""
    how = "Each pair is judged by its own interval." if has_intervals else exhibits.NO_INTERVALS
    return " ".join(filter(None, (*(f"{line}." for line in lines), how, several)))


def without_gain(tasks: Sequence[str], is_every_one: bool) -> str:
    """The note that these tasks have no relative gain and are left out, or that none has one; empty if all have one."""
    if not tasks:
        return ""
    named = formats.listed([text.tasks(task) for task in tasks], 8)
    if is_every_one:
        return (
            f"**No task has a gain**: on {named} the multi-task model does no better than the pre-trained one, so "
            "there is no gain to recover."
        )
    return f"Left out of the gains, because the multi-task model is no better there than the pre-trained one: {named}."


def union_words(rows: pd.DataFrame, chosen: Sequence[str], left_out: Sequence[str] = ()) -> str:
    """The gain of the union of these tasks' regions inside and outside it; the tasks left out have no gain."""
    tables = rows[rows["what"] == (UNION_OF if len(chosen) > 1 else CHOSEN)].set_index("task")
    inside = [_brought_back(task, tables.loc[task]) for task in chosen if task in tables.index]
    outside = [_brought_back(str(task), tables.loc[task]) for task in tables.index if task not in chosen]
    what = f"{'union' if len(chosen) > 1 else 'region'} of {formats.listed([text.tasks(task) for task in chosen], 8)}"
    if inside:
        sentence = f"The {what} recovers {formats.listed(inside, 8)}"
        sentence += f"; outside it, {formats.listed(outside, 8)}." if outside else "."
    elif outside:
        sentence = f"Outside it, the {what} recovers {formats.listed(outside, 8)}."
    else:
        sentence = f"There is no gain for the {what} to recover."
    if not left_out:
        return sentence
    names = formats.listed([text.tasks(task) for task in left_out], 8)
    return f"{sentence} On {names} the multi-task model gains nothing."


def shared_words(counts: Shared, chosen: Sequence[str], seed: int) -> str:
    """The size of the union, and the entries that regions of other tasks also hold; of one mask seed."""
    size = f"The {'union' if len(chosen) > 1 else 'region'} has {counts.size:,} parameters (mask seed {seed})"
    if not counts.by_task:
        return f"{size}. No task is outside it, so there is nothing to remove."
    each = [f"{text.tasks(task)} {count:,}" for task, count in counts.by_task.items()]
    share = formats.percent(counts.shared / max(counts.size, 1))
    return f"{size}. Regions of other tasks share {counts.shared:,} of them ({share}): {formats.listed(each, 8)}."


def subset_words(subset: pd.DataFrame, chosen: Sequence[str], tasks: int) -> str:
    """The gains without shared entries, of random entries and of a model of the subset, beside what has none."""

    def gains(what: str, inside: bool = True) -> str:
        rows = subset[(subset["what"] == what) & (subset["task"].isin(chosen) == inside)].to_dict("records")
        each = [_brought_back(str(row["task"]), row) for row in rows]
        return formats.listed(each, 8) if each else chip_text(NOT_MEASURED)

    lines = []
    if tasks > len(chosen):
        for side, where in ((True, "Inside the subset"), (False, "Outside")):
            lines.append(
                f"{where}, the union without shared parameters recovers {gains(WITHOUT_SHARED, side)}; without as many "
                f"random ones {gains(WITHOUT_RANDOM, side)}."
            )
    lines.append(f"As many random parameters in each tensor (the null) recover {gains(RANDOM_OF)}.")
    if len(chosen) > 1 and tasks > len(chosen):
        lines.append(f"A model fine-tuned on this subset alone reaches {gains(TRAINED_ON)}.")
    return " ".join(lines)


def _brought_back(task: str, row: Any) -> str:
    ends = formats.percent_interval(row["low"], row["high"], 0)
    interval = "" if ends == formats.NO_INTERVAL else f" ({ends})"  # `transfer` says that there are none
    return f"**{formats.percent(row['value'], 0)}**{interval} on {text.tasks(task)}"


def _share(row: Mapping[Any, Any]) -> str:
    """`21.4% (18.0–24.9)`."""
    value = formats.percent(row["value"])
    ends = "" if formats.missing(row["low"]) else f" ({formats.percent_interval(row['low'], row['high'])})"
    return value + ends

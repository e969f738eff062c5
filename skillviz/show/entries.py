"""The list of runs as picker and library need it, and the rules for finding one in it. No widgets here."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from skillviz.analysis.variants import differing
from skillviz.core import formats
from skillviz.core.localizers.table import DEFAULT_LOCALIZER
from skillviz.plots.theme import localizer_style
from skillviz.runs.record import RunRecord, Scores
from skillviz.runs.run import Run
from skillviz.show import text
from skillviz.tasks.demo_world import MAIN, PREFIX

LEVELS = ("pair", "localizer", "size", "seed")
DEFAULT_SHARE = 0.001
DEMO_PAIR = (f"{PREFIX}base", f"{PREFIX}pairs/{MAIN}")
LONGEST = 40  # characters of a setting in the picker
# what a run was asked for beside the four levels; two runs that differ in none of these are repetitions
SETTINGS = ("options", "steps", "batch_size", "data_seed", "k_shot", "dtype", "autocast")


@dataclass(frozen=True)
class Entry:
    """One finished run in one line. `pair` are models, task and data together: runs of equal `pair` compare."""

    id: str
    is_of_user: bool
    pair: tuple[str, ...]
    base: str
    finetuned: str
    task: str
    readout: str
    localizer: str
    size: int
    d: int
    seed: int
    settings: tuple[tuple[str, str], ...]
    created: str
    finished: str
    seconds: float
    n: int
    metric: str
    grafted: float | None
    recovered: float | None
    ece: float | None

    @property
    def share(self) -> float:
        """size / d."""
        return self.size / self.d if self.d else math.nan


def entry_of(run: Run, *, is_of_user: bool) -> Entry:
    """The run in one line."""
    record, spec = run.record, run.record.spec
    metric = record.metric
    scores = headline_scores(record)
    return Entry(
        id=run.id,
        is_of_user=is_of_user,
        pair=_pair(record),
        base=spec.base,
        finetuned=spec.finetuned,
        task=record.task_name,
        readout=record.readout or "",
        localizer=spec.localizer,
        size=record.size or 0,
        d=record.d or 0,
        seed=spec.seed,
        settings=tuple((name, json.dumps(getattr(spec, name), sort_keys=True)) for name in SETTINGS),
        created=record.created,
        finished=record.finished or "",
        seconds=sum(record.seconds.values()),
        n=scores.n if scores else 0,
        metric=metric,
        grafted=_value(scores, metric),
        recovered=scores.recovered.value if scores and scores.recovered else None,
        ece=_value(scores, "ece"),
    )


def headline_split(record: RunRecord) -> str:
    """`test`, or `validation` for a run without a test set."""
    return "test" if "test" in record.metrics else "validation"


def headline_scores(record: RunRecord) -> Scores | None:
    """The scores that the pages show first."""
    return record.metrics.get(headline_split(record))


def _pair(record: RunRecord) -> tuple[str, ...]:
    models = [(m.fingerprint or m.source) if m else "" for m in (record.base, record.finetuned)]
    task = record.task
    return (*models, task.name if task else record.spec.task, task.fingerprint if task else "", record.readout or "")


def _value(scores: Scores | None, metric: str) -> float | None:
    estimate = scores.states.get("grafted", {}).get(metric) if scores else None
    return estimate.value if estimate else None


def pair_labels(entries: Sequence[Entry]) -> dict[tuple[str, ...], str]:
    """A short name for each pair, in the order of the entries; equal names get what tells them apart."""
    first: dict[tuple[str, ...], Entry] = {}
    for entry in entries:
        first.setdefault(entry.pair, entry)
    by_label = defaultdict(list)
    for entry in first.values():
        by_label[_pair_label(entry)].append(entry)
    labels = {}
    for label, namesakes in by_label.items():
        for entry, difference in zip(namesakes, _distinctions(namesakes), strict=True):
            labels[entry.pair] = f"{label}{difference}"
    return {pair: labels[pair] for pair in first}


def _pair_label(entry: Entry) -> str:
    base, finetuned = text.last_part(entry.base), text.last_part(entry.finetuned)
    return f"{base} → {finetuned} · {entry.task}"


def _distinctions(namesakes: Sequence[Entry]) -> list[str]:
    """What tells entries of one name apart: the first of readout, examples, data and models that differs for all."""
    if len(namesakes) == 1:
        return [""]
    for words in (
        lambda e: e.readout,
        lambda e: formats.counted(e.n, "example"),
        lambda e: f"data {e.pair[3][:6]}",
        lambda e: f"models {e.pair[0][:6]} {e.pair[1][:6]}",
    ):
        names = [words(entry) for entry in namesakes]
        if len(set(names)) == len(names):
            return [f" · {word}" for word in names]
    return [f" · {i + 1}" for i in range(len(namesakes))]


def demo_choice(entries: Sequence[Entry]) -> Entry | None:
    """The run that the tour is about: the demo world's main pair by the default localizer, the one that ships first."""
    candidates = [e for e in entries if (e.base, e.finetuned) == DEMO_PAIR]
    return min(
        candidates, key=lambda e: (e.localizer != DEFAULT_LOCALIZER, e.is_of_user, e.created, e.id), default=None
    )


def first_choice(entries: Sequence[Entry]) -> Entry:
    """The run to show when none was asked for: the user's newest, else the demo world's, else the most studied pair's
    default at 0.1 %."""
    of_user = [entry for entry in entries if entry.is_of_user]
    if of_user:
        return max(of_user, key=lambda e: e.created)
    demo = demo_choice(entries)
    if demo is not None:
        return demo
    runs = Counter(entry.pair for entry in entries)
    studied = max(entries, key=lambda e: (runs[e.pair], e.created)).pair
    return min(
        (e for e in entries if e.pair == studied),
        key=lambda e: (e.localizer != DEFAULT_LOCALIZER, _distance(e.share, DEFAULT_SHARE), e.seed, e.id),
    )


def level_value(entry: Entry, level: str) -> object:
    """What an entry has at one level of the picker; at the last level it is the run itself."""
    return {"pair": entry.pair, "localizer": entry.localizer, "size": entry.size, "seed": entry.id}[level]


def options(entries: Sequence[Entry], chosen: Entry, level: str) -> list[Entry]:
    """One entry for each value that `level` can take, the levels before it as in `chosen`; sorted."""
    before = LEVELS[: LEVELS.index(level)]
    fitting = [e for e in entries if all(level_value(e, b) == level_value(chosen, b) for b in before)]
    by_value: dict[object, Entry] = {}
    for entry in fitting:
        by_value.setdefault(level_value(entry, level), entry)
    order = {
        "pair": lambda e: _pair_label(e),
        "localizer": lambda e: e.localizer,
        "size": lambda e: e.size,
        "seed": lambda e: (e.seed, e.settings, e.created),
    }[level]
    return sorted(by_value.values(), key=order)


def switched(entries: Sequence[Entry], chosen: Entry, level: str, value: object) -> Entry:
    """The run that keeps most of `chosen` when one level takes another value.

    Earlier levels stay as they are; later ones come as near as the runs allow.
    """
    before = LEVELS[: LEVELS.index(level)]
    fitting = [
        e
        for e in entries
        if level_value(e, level) == value and all(level_value(e, b) == level_value(chosen, b) for b in before)
    ]
    return min(fitting, key=lambda e: _departure(e, chosen))


def _departure(entry: Entry, chosen: Entry) -> tuple[object, ...]:
    """How far an entry is from the chosen one, level by level; the smallest is the nearest."""
    return (
        entry.localizer != chosen.localizer,
        _distance(entry.share, chosen.share),
        entry.seed != chosen.seed,
        entry.settings != chosen.settings,
        entry.seed,
        entry.id,
    )


def _distance(share: float, wanted: float) -> float:
    """How many powers of ten lie between two shares."""
    return abs(math.log10(share / wanted)) if share > 0 and wanted > 0 else math.inf


def level_labels(choices: Sequence[Entry], level: str) -> list[str]:
    """What the picker shows for each of these entries."""
    if level == "pair":
        pairs = pair_labels(choices)
        return [pairs[entry.pair] for entry in choices]
    if level == "localizer":
        return [localizer_style(entry.localizer).title for entry in choices]
    if level == "size":
        return [f"{formats.share(entry.share)} ({formats.count(entry.size)})" for entry in choices]
    # `0`; where settings differ `0 · batch size 1024`; repetitions of one run by their time
    names = list(differing([dict(entry.settings) for entry in choices]))
    labels = [" · ".join([str(e.seed), *_setting_labels(e, names)]) for e in choices]
    twice = {label for label in labels if labels.count(label) > 1}
    return [f"{label} · {e.id[-6:]}" if label in twice else label for label, e in zip(labels, choices, strict=True)]


def _setting_labels(entry: Entry, names: Sequence[str]) -> list[str]:
    """These settings as far as each fits into a box: the expression of a region by hand may be long."""
    settings = dict(entry.settings)
    labels = [setting_words(name, settings[name]) for name in names if settings[name] not in ("null", "{}")]
    return [label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}" for label in labels]


def setting_words(name: str, value: str) -> str:
    """A setting, its value as JSON, in words: `batch size 1024`; a localizer's own options go by their names."""
    setting = json.loads(value)
    if not isinstance(setting, dict):
        return f"{name.replace('_', ' ')} {'default' if setting is None else setting}"
    items = {key: json.dumps(item) if isinstance(item, (dict, list)) else item for key, item in setting.items()}
    options = [f"{key.replace('_', ' ')} {item}" for key, item in items.items()]
    return ", ".join(options) or f"default {name}"

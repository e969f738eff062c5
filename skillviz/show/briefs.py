"""The list of runs for picker and library, and the rules for finding a run in it. No widgets here."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from itertools import combinations
from typing import Any, Literal, TypeVar

from skillviz import json_text
from skillviz.analysis.variants import differing
from skillviz.core import formats
from skillviz.core.localizers.table import DEFAULT_LOCALIZER, EXPRESSION, LOCALIZERS
from skillviz.core.metrics import metric_row
from skillviz.models.finetune.recipes import RECIPES
from skillviz.plots.theme import localizer_style
from skillviz.runs.packed import pack_of
from skillviz.runs.record import RunRecord, Scores
from skillviz.runs.run import REGION, Run
from skillviz.runs.spec import FIT, KINDS, RunSpec, key_in, words_of_region
from skillviz.show import text
from skillviz.studies.finetuned_model import is_by_sgd, recipe_in
from skillviz.tasks.readable_names import readable_name

LEVELS = ("pair", "size", "localizer", "seed")
DEFAULT_SHARE = 0.001
LISTS = 32  # number of cached lists of briefs, such as the lists of stores
TAG = re.compile(r"(?<![^\s(,;])#\w[\w-]*")
"""A tag in a note, such as #talk; `# a heading` has none."""
PATH_SIGNS = re.compile(r"[/\\]")
LONGEST = 40  # characters of a setting in the picker
READOUT_TITLES = {
    "prompt": "label words at the mask",
    "head": "classification head",
    "causal": "likelihood of the answers",
}
# settings of a run besides the four levels; two runs that differ in none of these are repetitions
SETTINGS = ("options", "steps", "batch_size", "data_seed", "k_shot", "dtype", "autocast", "cuda_graphs", "gain")
TITLES = {"cuda_graphs": "CUDA graphs"}
"""The title of a setting that is not simply its name."""
STOPPED = "stopped"  # a setting too: the step after which a user ended the search
DEFAULTS = {name: json.dumps(RunSpec.model_fields[name].get_default(call_default_factory=True)) for name in SETTINGS}
DEFAULTS[STOPPED] = '""'


@dataclass(frozen=True)
class RunBrief:
    """One finished run in one line. `pair` combines models, task and data: runs of equal `pair` can be compared."""

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
    finetuned_score: float | None = None
    scored: tuple[int, tuple[str, ...], bool] = (1, (), False)
    """The number of sizes, the other tasks, and True if the paths between the models were scored."""
    has_classes: bool = True
    is_of_study: bool = False
    """True if it is in a study's file; a run with its own folder is not."""
    trained: int | None = None
    """The steps of the fine-tuning, if they are known."""
    factor: float | None = 1.0
    """The gain of its graft, the factor on the movement; None if each module kind has its own."""

    def __hash__(self) -> int:
        return hash(self.id)  # lists of hundreds are keys

    @property
    def gain(self) -> str:
        """The requested gain of the run, as JSON."""
        return dict(self.settings).get("gain", DEFAULTS["gain"])

    @property
    def has_gain(self) -> bool:
        """True if its grafts may have values other than the fine-tuned ones."""
        return self.gain != DEFAULTS["gain"]

    @property
    def share(self) -> float:
        """size / d."""
        return self.size / self.d if self.d else math.nan


def brief_of(run: Run, *, is_of_user: bool) -> RunBrief:
    """The run in one line."""
    return _brief(run.record, is_of_user, is_of_study=pack_of(run.path) is not None)


def _brief(record: RunRecord, is_of_user: bool, *, is_of_study: bool = False) -> RunBrief:
    spec, metric = record.spec, record.metric
    scores = headline_scores(record)
    models = [(m.fingerprint or m.source) if m else "" for m in (record.base, record.finetuned)]
    task = record.task
    return RunBrief(
        id=record.run_id,
        is_of_user=is_of_user,
        pair=(*models, task.name if task else record.spec.task, task.fingerprint if task else "", record.readout or ""),
        base=spec.base,
        finetuned=spec.finetuned,
        task=record.task_name,
        readout=record.readout or "",
        localizer=spec.localizer,
        size=record.size or 0,
        d=record.d or 0,
        seed=spec.seed,
        settings=(
            *((name, json.dumps(getattr(spec, name), sort_keys=True)) for name in SETTINGS),
            (STOPPED, json.dumps(record.stopped)),
        ),
        created=record.created,
        finished=record.finished or "",
        seconds=sum(record.seconds.values()),
        n=scores.n if scores else 0,
        metric=metric,
        grafted=_value(scores, metric),
        recovered=scores.recovered.value if scores and scores.recovered else None,
        ece=_value(scores, "ece"),
        finetuned_score=_value(scores, metric, "finetuned"),
        scored=(len(spec.sizes), tuple(map(text.last_part, spec.others)), spec.interpolation),
        has_classes=record.has_classes,
        is_of_study=is_of_study,
        trained=record.finetuned.steps if record.finetuned else None,
        factor=record.gain if isinstance(record.gain, float) else None,
    )


class Briefs(tuple[RunBrief, ...]):
    """Briefs whose hash is computed once: a page makes some ten cached calls with a list of a thousand."""

    def __hash__(self) -> int:
        if not hasattr(self, "_hash"):
            self._hash = super().__hash__()
        return self._hash


Told = TypeVar("Told")


def once_for_each_list(tell: Callable[[Sequence[RunBrief]], Told]) -> Callable[[Sequence[RunBrief]], Told]:
    """Caches a function that a page calls several times with the same hundreds of briefs; do not modify its result."""
    told = lru_cache(maxsize=LISTS)(tell)

    @wraps(tell)
    def asked(briefs: Sequence[RunBrief]) -> Told:
        return told(briefs if isinstance(briefs, Briefs) else tuple(briefs))

    return asked


def tags_of(note: str) -> tuple[str, ...]:
    """The tags of a note, its words that begin with #, in their order and each once."""
    return tuple(dict.fromkeys(TAG.findall(note.lower())))


def matches(brief: RunBrief, typed: str, note: str) -> bool:
    """True if the run's id, models, task, localizer and note contain every typed word; a #tag must be a whole tag."""
    names = brief.id, brief.base, brief.finetuned, brief.task, readable_name(brief.task), brief.localizer
    text_of_run, tags = " ".join((*names, note)).lower(), tags_of(note)
    return all(word in tags if TAG.fullmatch(word) else word in text_of_run for word in typed.lower().split())


def headline_split(record: RunRecord) -> str:
    """`test`, or `validation` for a run without a test set."""
    return "test" if "test" in record.metrics else "validation"


def headline_scores(record: RunRecord) -> Scores | None:
    """The scores that the pages show first."""
    return record.metrics.get(headline_split(record))


def _value(scores: Scores | None, metric: str, state: str = "grafted") -> float | None:
    estimate = scores.states.get(state, {}).get(metric) if scores else None
    return estimate.read if estimate else None


Role = Literal["headline", "seed", "variant"]
"""`headline`: the run that represents its models, localizer and size; `seed`: the same with another random seed;
`variant`: other settings, models of another recipe, a repetition, or a search that a user ended.
A user's runs, and runs with their own folder, are variants only by their settings."""
FEW = 0.2  # share of the most studied model's runs below which a model is a study's variant


@once_for_each_list
def roles(briefs: Sequence[RunBrief]) -> Mapping[str, Role]:
    """Each run's role, by id.

    Among the settings that a localizer ran with at one size, the ones nearest to the defaults represent it, and the
    most common among equally near ones. Among the fine-tuned models of one base and task, the main ones have the usual
    recipe and at least FEW of the runs of the most studied one.
    """
    models: dict[tuple[str, str], list[RunBrief]] = defaultdict(list)
    groups: dict[tuple[object, ...], list[RunBrief]] = defaultdict(list)
    for brief in briefs:
        models[brief.base, brief.task].append(brief)
        size = None if _has_outcome_size(brief) else brief.size
        groups[brief.pair, brief.localizer, size].append(brief)
    main = {pair for of_task in models.values() for pair in _main_pairs(of_task)}
    chosen: dict[str, Role] = {}
    for group in groups.values():
        counts = Counter(brief.settings for brief in group)
        settings = min(counts, key=lambda of: (_given(of), -counts[of], of))
        seeds: set[int] = set()
        for brief in sorted(group, key=lambda e: (not e.is_of_user, e.settings != settings, e.seed, e.created, e.id)):
            is_of_main = brief.is_of_user or not brief.is_of_study or brief.pair in main
            is_whole = (STOPPED, DEFAULTS[STOPPED]) in brief.settings
            if not is_of_main or not is_whole or brief.settings != settings or brief.seed in seeds:
                chosen[brief.id] = "variant"
            else:
                chosen[brief.id] = "seed" if seeds else "headline"
                seeds.add(brief.seed)
    return chosen


def usual(briefs: Sequence[RunBrief], shown: Collection[str]) -> list[RunBrief]:
    """The briefs without study variants, but including the runs with these ids and all runs with their settings."""
    role_of = roles(briefs)
    kept = {(e.pair, e.localizer, e.settings) for e in briefs if e.id in shown} if shown else ()
    return [e for e in briefs if role_of[e.id] != "variant" or (kept and (e.pair, e.localizer, e.settings) in kept)]


def other_seeds(briefs: Sequence[RunBrief], like: RunBrief) -> list[RunBrief]:
    """One run of each other seed of the same localizer, pair, size and settings, by seed.

    A size that is an outcome of the search may differ.
    """
    by_seed: dict[int, RunBrief] = {}
    for brief in sorted(briefs, key=lambda e: (e.seed, e.id)):
        same = (brief.pair, brief.localizer, brief.settings) == (like.pair, like.localizer, like.settings)
        if same and brief.seed != like.seed and (brief.size == like.size or _has_outcome_size(like)):
            by_seed.setdefault(brief.seed, brief)
    return list(by_seed.values())


def _main_pairs(briefs: Sequence[RunBrief]) -> list[tuple[str, ...]]:
    """The models that represent one base and task."""
    usual = [brief for brief in briefs if is_by_sgd(brief.finetuned)] or briefs
    runs = Counter(brief.pair for brief in usual)
    return [pair for pair, count in runs.items() if count >= FEW * max(runs.values())]


def _given(settings: Sequence[tuple[str, str]]) -> int:
    """The number of these settings that are not the default."""
    return sum(value != DEFAULTS[name] for name, value in settings)


def is_default(brief: RunBrief) -> bool:
    """True if every setting of the run has its default."""
    return _given(brief.settings) == 0


@once_for_each_list
def pair_labels(briefs: Sequence[RunBrief]) -> Mapping[tuple[str, ...], str]:
    """A short name for each pair, in the order of the briefs: `SST-2 · minilm-l6`.

    If several pairs have one name, the pair with the most runs has it alone; others add their differences: `(AdamW)`,
    `(classification head)`, `(600 test examples)`, `(fine-tuned model 78.8%)`.
    """
    first: dict[tuple[str, ...], RunBrief] = {}
    for brief in briefs:
        first.setdefault(brief.pair, brief)
    runs = Counter(brief.pair for brief in briefs)
    by_label = defaultdict(list)
    for brief in first.values():
        by_label[_pair_label(brief)].append(brief)
    labels = {}
    for label, namesakes in by_label.items():
        most = max(namesakes, key=lambda e: runs[e.pair])
        for brief, words in zip(namesakes, differences(namesakes, OF_PAIR, plain={most}), strict=True):
            labels[brief.pair] = f"{label} ({', '.join(words)})" if words else label
    return {pair: labels[pair] for pair in first}


def _pair_label(brief: RunBrief) -> str:
    return f"{readable_name(brief.task)} · {text.last_part(brief.base)}"


def _model_words(brief: RunBrief) -> str:
    """The recipe of a study's model, or the folder of a model that is not named after its task."""
    if recipe := recipe_in(brief.finetuned):
        return RECIPES[recipe].phrase
    name = text.last_part(brief.finetuned)
    return "" if name in (brief.task, text.last_part(brief.base)) else name


def _level_words(brief: RunBrief) -> str:
    known = brief.finetuned_score is not None
    return f"fine-tuned model {metric_row(brief.metric).number(brief.finetuned_score)}" if known else ""


def _day(brief: RunBrief) -> str:
    return f"made {formats.day(brief.created).split(',')[0]}"


def _time(brief: RunBrief) -> str:
    return f"made {formats.day(brief.created)}"


Facts = tuple[Callable[[RunBrief], str], ...]
OF_PAIR: Facts = (
    _model_words,
    lambda e: READOUT_TITLES.get(e.readout, e.readout),
    lambda e: formats.counted(e.n, "test example"),
    lambda e: f"fine-tuned for {formats.counted(e.trained, 'step')}" if e.trained else "",
    _level_words,
    _day,
    _time,
)
"""Facts that may distinguish two pairs of one name, the most informative first."""
OF_REPETITION: Facts = (
    lambda e: f"scored at {formats.counted(e.scored[0], 'size')}",
    lambda e: (
        f"also scored on {formats.listed([readable_name(task) for task in e.scored[1]])}"
        if e.scored[1]
        else "no other task scored"
    ),
    lambda e: "with paths" if e.scored[2] else "without paths",
    _day,
    _time,
)
"""Like OF_PAIR, for runs that chose the same region and were scored in another way, or at another time."""


def differences(
    briefs: Sequence[RunBrief], facts: Facts, names: Sequence[Hashable] = (), plain: Collection[RunBrief] = ()
) -> list[list[str]]:
    """For each brief, the fewest facts that are true of no other brief with its name; empty for those in `plain`.

    Without `names` all briefs have the same name. Briefs that no facts distinguish are numbered: `repeat 2`.
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for place in sorted(range(len(briefs)), key=lambda place: briefs[place] not in plain):
        groups[names[place] if names else None].append(place)
    words: list[list[str]] = [[] for _ in briefs]
    for group in groups.values():
        told = [[fact(briefs[place]) for fact in facts] if len(group) > 1 else [] for place in group]
        for number, place in enumerate(group):
            others = told[:number] + told[number + 1 :]
            if others and (number or briefs[place] not in plain):  # a second plain one gets words
                words[place] = _fewest(told[number], others) or ([f"repeat {number + 1}"] if number else [])
    return words


def _fewest(told: Sequence[str], others: Sequence[Sequence[str]]) -> list[str]:
    """The fewest of these facts that no other brief has all of, the earlier ones first; empty if there are none.

    The last two, day and time, are only used if the others are not enough.
    """
    for offered in (told[:-2], told):
        known = [place for place, words in enumerate(offered) if words]
        for count in range(1, len(known) + 1):
            for places in combinations(known, count):
                if not any(all(other[place] == told[place] for place in places) for other in others):
                    return [told[place] for place in places]
    return []


OPENING_PAIR = ("examples/models/minilm-l6", "examples/pairs/mr-sgd")
"""Base and fine-tuned model of the run that the dashboard opens on."""
ENOUGH = 0.85
"""The share of the gain that this run recovers, if one of the pair's runs does."""


def hero(briefs: Sequence[RunBrief]) -> RunBrief | None:
    """The run that the dashboard opens on: of OPENING_PAIR by the default localizer, the smallest main size with
    ENOUGH of the gain, or else the largest one, at the lowest seed; None if none is stored."""
    role_of = roles(briefs)
    of_pair = [
        brief for brief in briefs
        if not brief.is_of_user and brief.localizer == DEFAULT_LOCALIZER
        and (brief.base, brief.finetuned) == OPENING_PAIR and role_of[brief.id] == "headline"
    ]  # fmt: skip
    enough = [brief for brief in of_pair if (brief.recovered or 0) >= ENOUGH]
    if enough:
        return min(enough, key=lambda e: (e.size, e.seed, e.id))
    return min(of_pair, key=lambda e: (-e.size, e.seed, e.id), default=None)


def opening_brief(briefs: Sequence[RunBrief]) -> RunBrief:
    """The run of Home and of the tour: the run of `hero` if there is one, otherwise the first choice."""
    return hero(briefs) or first_choice(briefs)


def first_choice(briefs: Sequence[RunBrief]) -> RunBrief:
    """The default run: the user's newest, else the dashboard's opening run, else the most studied pair's default at
    0.1%."""
    of_user = [brief for brief in briefs if brief.is_of_user]
    if of_user:
        return max(of_user, key=lambda e: e.created)
    if shipped := hero(briefs):
        return shipped
    runs = Counter(brief.pair for brief in briefs)
    studied = max(briefs, key=lambda e: (runs[e.pair], e.created)).pair
    return min(
        (e for e in briefs if e.pair == studied),
        key=lambda e: (e.localizer != DEFAULT_LOCALIZER, _distance(e.share, DEFAULT_SHARE), e.seed, e.id),
    )


def level_value(brief: RunBrief, level: str) -> object:
    """A brief's value at one level of the picker; at the last level it is the run itself."""
    return {"pair": brief.pair, "localizer": brief.localizer, "size": brief.size, "seed": brief.id}[level]


def options(briefs: Sequence[RunBrief], chosen: RunBrief, level: str) -> list[RunBrief]:
    """One brief for each value that `level` can take, with the levels before it as in `chosen`; sorted."""
    by_value: dict[object, RunBrief] = {}
    is_first = level == LEVELS[0]
    for brief in briefs:
        if is_first or (brief.pair == chosen.pair and _fits(brief, chosen, level)):  # few have its pair
            by_value.setdefault(level_value(brief, level), brief)
    order = {
        "pair": lambda e: _pair_label(e),
        "size": lambda e: e.size,
        "localizer": lambda e: e.localizer,
        "seed": lambda e: (e.seed, _given(e.settings), e.settings, e.created),
    }[level]
    return sorted(by_value.values(), key=order)


def switched(briefs: Sequence[RunBrief], chosen: RunBrief, level: str, value: object) -> RunBrief:
    """The run that keeps most of `chosen` when one level takes another value.

    Earlier levels do not change; later ones are as near as the runs allow.
    """
    fitting = [e for e in briefs if level_value(e, level) == value and _fits(e, chosen, level)]
    return min(fitting, key=lambda e: _departure(e, chosen))


def _fits(brief: RunBrief, chosen: RunBrief, level: str) -> bool:
    """True if a brief can be chosen at a level: the levels before are as in `chosen`.

    A size that is an outcome of the search cannot be chosen: it is only in the list of its own run, and does not
    restrict other levels.
    """
    is_outcome = _has_outcome_size(brief) or _has_outcome_size(chosen)
    if level == "size" and _has_outcome_size(brief) and brief.localizer != chosen.localizer:
        return False
    before = [name for name in LEVELS[: LEVELS.index(level)] if name != "size" or not is_outcome]
    return all(level_value(brief, name) == level_value(chosen, name) for name in before)


def _has_outcome_size(brief: RunBrief) -> bool:
    row = LOCALIZERS.get(brief.localizer)
    return row is not None and not row.budgeted


def _departure(brief: RunBrief, chosen: RunBrief) -> tuple[object, ...]:
    """The distance of a brief from the chosen one, level by level; the smallest is the nearest."""
    return (
        brief.localizer != chosen.localizer,
        _distance(brief.share, chosen.share),
        brief.seed != chosen.seed,
        brief.settings != chosen.settings,
        brief.seed,
        brief.id,
    )


def _distance(share: float, wanted: float) -> float:
    """The number of powers of ten between two shares."""
    return abs(math.log10(share / wanted)) if share > 0 and wanted > 0 else math.inf


def level_labels(choices: Sequence[RunBrief], level: str) -> list[str]:
    """The picker's labels for these briefs."""
    if level == "pair":
        pairs = pair_labels(choices)
        return [pairs[brief.pair] for brief in choices]
    if level == "localizer":
        return [localizer_style(brief.localizer).title for brief in choices]
    if level == "size":
        return [f"{formats.share(brief.share)} ({formats.count(brief.size)})" for brief in choices]
    # `0`; `0 · batch size 1024` if settings differ, `0 · tuned-b` if folders do, then details that distinguish
    # repetitions
    names = list(differing([dict(brief.settings) for brief in choices]))
    folders = folder_labels(choices)
    labels = [" · ".join([str(e.seed), *setting_labels(e, names), *folders[e.id]]) for e in choices]
    return _told_apart(labels, choices)


@once_for_each_list
def run_labels(briefs: Sequence[RunBrief]) -> Mapping[str, str]:
    """Each run in one line, by id: `CR · minilm-l6 · stagewise · 0.1% · seed 0`, then every setting that is not the
    default, the folders of models with equal weights, and details that distinguish repetitions."""
    pairs, folders = pair_labels(briefs), folder_labels(briefs)
    labels = [
        " · ".join([*_words(brief, pairs[brief.pair], formats.share(brief.share)), *folders[brief.id]])
        for brief in briefs
    ]
    return dict(zip([brief.id for brief in briefs], _told_apart(labels, briefs), strict=True))


def open_label(record: RunRecord, task: str) -> str:
    """The label of an unfinished run of this task, with its requested sizes."""
    brief = replace(_brief(record, is_of_user=True), task=task)
    return " · ".join(_words(brief, _pair_label(brief), ", ".join(record.spec.sizes)))


def _words(brief: RunBrief, pair: str, size: str) -> list[str]:
    names = [name for name, value in brief.settings if value != DEFAULTS[name]]
    title = localizer_style(brief.localizer).title
    return [pair, title, size, f"seed {brief.seed}", *setting_labels(brief, names)]


def repetition_words(names: Sequence[Hashable], briefs: Sequence[RunBrief]) -> list[list[str]]:
    """For each brief, the words that distinguish it from others of the same name; empty unless it is a variant."""
    role_of = roles(briefs)
    return differences(briefs, OF_REPETITION, names, {e for e in briefs if role_of[e.id] != "variant"})


def _told_apart(labels: Sequence[str], briefs: Sequence[RunBrief]) -> list[str]:
    more = repetition_words(labels, briefs)
    return [" · ".join([label, *words]) for label, words in zip(labels, more, strict=True)]


def folder_labels(briefs: Sequence[RunBrief]) -> dict[str, list[str]]:
    """The folders of each run's models, by id, if models of equal weights are in several places: their runs belong
    to one pair and need distinct names. Otherwise empty."""
    places: dict[tuple[str, ...], set[tuple[str, str]]] = defaultdict(set)
    for brief in briefs:
        places[brief.pair].add((brief.base, brief.finetuned))
    labels = {}
    for brief in briefs:
        halves = ((path, {place[half] for place in places[brief.pair]})
                  for half, path in enumerate((brief.base, brief.finetuned)))  # fmt: skip
        labels[brief.id] = [_ending(path, paths) for path, paths in halves if len(paths) > 1]
    return labels


def _ending(path: str, paths: Collection[str]) -> str:
    """The fewest last parts of a path that no other of these paths ends with."""
    parts = PATH_SIGNS.split(path)
    for count in range(1, len(parts) + 1):
        if sum(PATH_SIGNS.split(other)[-count:] == parts[-count:] for other in paths) == 1:
            return "/".join(parts[-count:])
    return path


def setting_labels(brief: RunBrief, names: Sequence[str]) -> list[str]:
    """These settings, each shortened to fit into a box; without the expression of a region built by hand."""
    settings = {name: value for name, value in brief.settings if name != "options" or brief.localizer != EXPRESSION}
    names = [name for name in names if name in settings]
    labels = [
        setting_words(name, settings[name], brief.has_classes) for name in names if settings[name] not in ("null", "{}")
    ]
    return [label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}" for label in labels]


def setting_words(name: str, value: str, has_classes: bool = True) -> str:
    """A setting that is not the default (its value as JSON) in words: `batch size 1024`, `64 examples per class`; a
    localizer's own options keep their names."""
    setting = json_text.loads(value)
    if name == "k_shot":
        return f"{setting} examples{' per class' if has_classes else ''}"
    if name == STOPPED:
        return f"stopped at step {setting}"
    if name == "gain":
        return {FIT: "fitted gain", KINDS: "gain fitted by module kind"}.get(setting) or f"gain {setting:g}"
    title = TITLES.get(name, name.replace("_", " "))
    if setting is True:
        return title
    if not isinstance(setting, dict):
        return f"{title} {setting}"
    return ", ".join(f"{key.replace('_', ' ')} {_option_words(item)}" for key, item in setting.items())


def _option_words(value: Any) -> str:
    """An option's value; for a region, without the path of its file or the key of its run."""
    if isinstance(value, str) and value.endswith(REGION):
        return "a stored region"
    if key_in(value) is not None:
        return f"region of {words_of_region(value).replace('=', ' ').replace('_', ' ')}"
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)

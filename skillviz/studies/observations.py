"""What was measured, one record a model state, task and seed: the common ground of all tables of a study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skillviz.core.localizers.table import LOCALIZERS, has_outcome_size
from skillviz.core.metrics import COMPARED, with_own
from skillviz.errors import SkillvizError
from skillviz.models.finetune.recipes import MODES, RECIPES
from skillviz.runs.evaluate import SCALED, positive
from skillviz.runs.record import Estimate, Scores, TaskNote
from skillviz.runs.run import Run
from skillviz.runs.score import Score
from skillviz.studies.answers import Answers, answers_of
from skillviz.studies.variants import asked_of_model, asked_of_search, told_apart

if TYPE_CHECKING:
    from skillviz.studies.results import Results

GIVEN, LORA = "given", "lora"


@dataclass(frozen=True)
class Observed:
    """One state of one model on one split of one task.

    `member` tells fine-tuned models apart and `seed` searches on one of them. `asked` is the size as it was asked for:
    what groups regions whose size is an outcome. `made` is what the model was asked to be but for its seeds, `variant`
    what the search was; what differs in them is told in `recipe` and `localizer`. `answers` are there for a run's main
    size, and not for the others.
    """

    base: str
    recipe: str
    setting: str
    id_task: str
    task: str
    split: str
    method: str
    localizer: str
    size: float
    share: float
    touched: float
    member: str
    seed: int
    n: int
    note: TaskNote
    readout: str = ""
    asked: str = ""
    made: str = ""
    variant: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    answers: Answers | None = field(default=None, repr=False)
    told: tuple[str, ...] = ()

    @property
    def positive(self) -> int:
        """The positive class of F1."""
        return positive(self.note)

    @property
    def metrics(self) -> list[str]:
        """The metrics told of it: the task's own first, F1 only where it is that."""
        own, *others = with_own(self.note.metric, (*COMPARED, "agreement", "recovered"))
        return [own, *(name for name in others if name in self.values)]

    @property
    def unit(self) -> tuple[str, int]:
        """What tells this observation from the others of its row."""
        return self.member, self.seed

    def named_by_readout(self) -> Observed:
        """The same with the readout in `setting`, where models of several readouts are compared."""
        return replace(self, setting=f"{self.setting}, {self.readout}")


def of_results(results: Results) -> list[Observed]:
    """Everything that the finished runs and scores of a study observed, each state once."""
    found: list[Observed] = []
    for run in results.runs():
        found += of_run(run, _recipe(results, run), _touched(results, run), asked_of_model(results, run))
    for score in results.scores():
        own = of_score(score, _recipe(results, score), _touched(results, score), asked_of_model(results, score))
        mode = results.entry(score).get("mode")
        found += [replace(one, method=MODES[mode]) if mode and one.method == "ft" else one for one in own]
    return once(found)


def once(found: Iterable[Observed]) -> list[Observed]:
    """Each observation once: the ends of a pair are scored in every run on it. Models and localizers asked for in two
    ways are told apart by what differs."""
    kept: dict[tuple[Any, ...], Observed] = {}
    for one in told_apart(list(found)):
        key = (one.base, one.setting, one.readout, one.id_task, one.task, one.split, one.method, one.localizer,
               one.asked, one.member, one.seed)  # fmt: skip
        if key not in kept or (kept[key].answers is None and one.answers is not None):
            kept[key] = one
    return list(kept.values())


def of_run(run: Run, recipe: str = GIVEN, touched: float | None = None, made: str = "") -> Iterator[Observed]:
    """The states of a run on its own task's splits and on other tasks' test sets, and its other sizes."""
    record, spec = run.record, run.spec
    assert record.task is not None
    d = float(record.d or 0)
    lottery = spec.localizer == "lottery"
    common: dict[str, Any] = {
        "base": spec.base, "recipe": recipe, "setting": setting(spec.k_shot), "id_task": record.task.name,
        "readout": record.readout or "", "member": spec.finetuned, "made": made,
        "variant": asked_of_search(spec),
    }  # fmt: skip
    sets: list[tuple[str, str, Scores, tuple[str, ...]]] = [
        (record.task.name, split, scores, ()) for split, scores in record.metrics.items()
    ]
    sets += [(t.name, "test", t.scores, _leak(t, record.task.name)) for t in record.transfers]
    for task, split, scores, told in sets:
        answers = answers_of(run.predictions(task), split, run.labels, record.temperature)
        for state, method, size in _states(run, recipe, touched, d):
            if state not in scores.states or (lottery and state != "grafted"):
                continue
            yield Observed(
                **common, **size, task=task, split=split, method=method, n=scores.n, note=record.task, told=told,
                answers=answers.get(state), **_numbers(scores, state),
            )  # fmt: skip
    yield from _other_sizes(run, common)


def of_score(score: Score, recipe: str = GIVEN, touched: float | None = None, made: str = "") -> Iterator[Observed]:
    """The states of a fine-tuned model that was scored without a region."""
    record, spec = score.record, score.spec
    d = float(record.architecture.d)
    told = _leak(record.transfer, record.task.name) if record.transfer else ()
    frame = score.predictions()
    for split, scores in record.splits.items():
        rows = frame[frame["dataset"] == score.dataset] if "dataset" in frame else frame
        answers = answers_of(rows, split, record.task.labels, record.temperature)
        for state, method, size in _ends(recipe, touched, d):
            if state not in scores.states:
                continue
            yield Observed(
                base=spec.base, recipe=recipe, setting=setting(spec.k_shot), id_task=record.task.name,
                task=score.dataset, split=split, method=method, n=scores.n, note=record.task, member=spec.finetuned,
                readout=record.readout, made=made, told=told, answers=answers.get(state), **size,
                **_numbers(scores, state),
            )  # fmt: skip


def setting(k_shot: int | None) -> str:
    """The training data in words: all, or 64-shot."""
    return f"{k_shot}-shot" if k_shot else "all"


def searched(one: Observed) -> bool:
    """Whether the observation is of a graft of some region."""
    return one.method.startswith("graft") and one.method != "graft_retrain"


def told(found: Sequence[Observed]) -> list[str]:
    """What a study must say about itself: seeds, and test examples that were left out."""
    said = list(dict.fromkeys(sentence for one in found for sentence in one.told))
    members: dict[tuple[str, str], set[str]] = {}
    for one in found:
        members.setdefault((one.recipe, one.id_task), set()).add(one.member)
    if members and max(map(len, members.values())) == 1:
        said.append("One fine-tuned model a task and recipe: intervals over seeds are over mask seeds alone.")
    return said or ["Nothing was left out."]


def _recipe(results: Results, of: Run | Score) -> str:
    return str(results.entry(of).get("recipe") or GIVEN)


def _touched(results: Results, of: Run | Score) -> float | None:
    """Entries that the fine-tuned model differs in from its base, where it was made by the study.

    Of LoRA those of its low-rank factors: merged they change whole matrices, and few numbers were trained.
    """
    member = results.finetuned_of(of)
    if member is None:
        return None
    entry = results.entry(of)
    task, stage = (of.spec.task, entry.get("stage")) if len(member.tasks) > 1 else (None, None)
    try:
        value = results.training_record(member, task, stage)["finetune"].get(
            "trained" if member.recipe == LORA else "touched"
        )
    except (SkillvizError, KeyError):  # the folder of a member may be gone while its scores stay
        return None
    return None if value is None else float(value)


def _ends(recipe: str, touched: float | None, d: float) -> list[tuple[str, str, dict[str, Any]]]:
    """The states without a region: name in the record, method, and columns."""
    whole = {"localizer": "", "size": np.nan, "share": np.nan, "seed": 0, "touched": d if touched is None else touched}
    return [
        ("pretrained", "pretrained", {**whole, "touched": 0.0}),
        ("finetuned", RECIPES[recipe].method if recipe in RECIPES else "ft", whole),
        (SCALED, "ft_scaled", whole),
    ]


def _states(run: Run, recipe: str, touched: float | None, d: float) -> list[tuple[str, str, dict[str, Any]]]:
    size = float(run.record.size or 0)
    own = {
        "localizer": run.spec.localizer, "size": size, "share": size / d if d else np.nan, "seed": run.spec.seed,
        "asked": "" if has_outcome_size(run.spec.localizer) else run.spec.sizes[0],
    }  # fmt: skip
    return [
        *_ends(recipe, touched, d),
        ("grafted", method_of(run), {**own, "touched": size}),
        ("complement", "complement", {**own, "touched": d - size}),
    ]


def method_of(run: Run) -> str:
    """The method that a run's graft is; a search within the biases is one of biases."""
    if run.spec.options.get("within") == "biases":
        return "graft_biases"
    return LOCALIZERS[run.spec.localizer].method


def _numbers(scores: Scores, state: str) -> dict[str, Any]:
    found: dict[str, Estimate] = dict(scores.states[state])
    if state == "grafted":
        extra = {"agreement": scores.agreement, "recovered": scores.recovered}
        found |= {name: value for name, value in extra.items() if value is not None}
    return {
        "values": {name: _number(e.value) for name, e in found.items()},
        "ends": {name: (_number(e.low), _number(e.high)) for name, e in found.items()},
    }


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _other_sizes(run: Run, common: Mapping[str, Any]) -> Iterator[Observed]:
    """The graft at the run's sizes but for the main one, from its curve: numbers without predictions."""
    record, spec = run.record, run.spec
    assert record.task is not None
    if len(record.sizes) < 2:
        return
    curve = run.curve()
    for asked, size in zip(spec.sizes[1:], record.sizes[1:], strict=False):
        rows = curve[curve["size"] == size]
        for split, own in rows.groupby("split", sort=False):
            scores = record.metrics.get(str(split))
            values = dict(zip(own["metric"], own["value"], strict=True))
            ends = {m: (low, high) for m, low, high in zip(own["metric"], own["low"], own["high"], strict=True)}
            yield Observed(
                **common, task=record.task.name, split=str(split), method=method_of(run), localizer=spec.localizer,
                size=float(size), share=size / record.d if record.d else np.nan, touched=float(size), seed=spec.seed,
                n=scores.n if scores else 0, note=record.task, asked=asked, values=values, ends=ends,
            )  # fmt: skip


def _leak(transfer: Any, trained_on: str) -> tuple[str, ...]:
    if not transfer.dropped:
        return ()
    return (
        f"{transfer.name}: {transfer.dropped:,} of {transfer.rows:,} test examples stand in the training data of "
        f"{trained_on} too and are left out.",
    )

"""Names that tell apart what a study asks for in several ways: models of one recipe, searches of one localizer.

Only seeds are averaged over: `seed` and `data_seed` of a fine-tuned model, and `seed` of a localizer. Models of one
base, recipe and task that differ in anything else have what differs beside their recipe, as `lora, rank 8`; searches
beside their localizer, as `learned lr=0.1`. What does not differ is not said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from skillviz.runs.spec import RunSpec
from skillviz.studies.finetuned_model import FineTunedSpec
from skillviz.tasks.project import FINETUNED_VARIABLE

if TYPE_CHECKING:
    from skillviz.runs.run import Run
    from skillviz.runs.score import Score
    from skillviz.studies.observations import Observed
    from skillviz.studies.results import Results

Asked = dict[str, Any]
"""What was asked for, by field; None is the default."""

SEQUENCE = ("mode", "stage")
"""Labels of a sequence's models, which always stand beside its recipe: a model after another stage is another model."""
IN_COLUMNS = {"base", "recipe", "readout", "seed", "data_seed", "regions"}
"""Fields of a model that are columns of their own, seeds, or told otherwise."""
OF_THE_PAIR = {"base", "finetuned", "task", "readout", "seed", "data_seed", "device", "others", "interpolation"}
"""Fields of a region's run that are its model's, seeds, or leave the region as it is."""
MODEL = "model"  # what a model that is there is told by


def asked_of_model(results: Results, of: Run | Score) -> str:
    """What the fine-tuned model of a run or scores was asked to be but for its seeds, as JSON.

    One that was there is told by its path: that it differs from another in a seed alone is not known.
    """
    entry, member = results.entry(of), results.finetuned_of(of)
    if member is None:
        return json.dumps({MODEL: of.spec.finetuned})
    made = {spec.name(): spec for spec in results.plan.finetuned} if member.regions else {}
    sequence = {name: entry[name] for name in SEQUENCE if name in entry}
    return json.dumps({**_asked(member, made), **sequence})


def asked_of_search(spec: RunSpec) -> str:
    """What was asked of a search besides size and seed, as JSON."""
    asked = {"steps": spec.steps, "batch_size": spec.batch_size, **spec.options}
    return json.dumps({name: value for name, value in asked.items() if value is not None}, sort_keys=True)


def told_apart(found: Sequence[Observed]) -> list[Observed]:
    """The observations with what differs among their models in `recipe`, and among their searches in `localizer`."""
    recipes = _differing((_models(one), one.made) for one in found)
    searches = _differing((_searches(one), one.variant) for one in found if one.localizer)
    return [
        replace(
            one,
            recipe=_recipe(one.recipe, one.made, recipes[_models(one)]),
            localizer=_localizer(one, searches[_searches(one)]) if one.localizer else "",
        )
        for one in found
    ]


def named_localizers(results: Results) -> list[str]:
    """For each run of the study its localizer, with what differs among the runs of one task and localizer besides
    size and seeds: base, recipe, training, options."""
    asked = [_asked_of_run(results, run) for run in results.runs()]
    groups = [(r.record.task_name, r.spec.localizer) for r in results.runs()]
    differ = _differing((group, json.dumps(own)) for group, own in zip(groups, asked, strict=True))
    return [
        ", ".join([group[1], *(_words(n, own[n], values) for n, values in differ[group].items() if n in own)])
        for group, own in zip(groups, asked, strict=True)
    ]


def _asked_of_run(results: Results, run: Run) -> Asked:
    """Model and search together; the search's steps and the like under the localizer's name."""
    spec = run.spec
    model = {"recipe": results.entry(run).get("recipe", "given"), **json.loads(asked_of_model(results, run))}
    search = {f"{spec.localizer} {name}": value for name, value in json.loads(asked_of_search(spec)).items()}
    return {"base": spec.base, **model, "readout": spec.readout, **search}


def _models(one: Observed) -> tuple[Hashable, ...]:
    """The models among which differences are told: of one sequence those of its mode."""
    return one.base, one.recipe, one.setting, one.readout, one.id_task, json.loads(one.made or "{}").get("mode")


def _searches(one: Observed) -> tuple[Hashable, ...]:
    return one.id_task, one.method, one.localizer


def _differing(asked: Iterable[tuple[Hashable, str]]) -> dict[Hashable, dict[str, list[Any]]]:
    """For each group the fields in which its members differ, with the values that there are."""
    groups: dict[Hashable, dict[str, Asked]] = {}
    for group, text in asked:
        groups.setdefault(group, {})[text] = json.loads(text or "{}")
    found: dict[Hashable, dict[str, list[Any]]] = {}
    for group, rivals in groups.items():
        names = dict.fromkeys(name for rival in rivals.values() for name in rival)
        values = {name: [rival.get(name) for rival in rivals.values()] for name in names}
        found[group] = {n: own for n, own in values.items() if len({json.dumps(value) for value in own}) > 1}
    return found


def _localizer(one: Observed, differ: Mapping[str, Any]) -> str:
    own = json.loads(one.variant)
    return " ".join([one.localizer, *(f"{name}={own[name]}" for name in differ if name in own)])


def _recipe(recipe: str, made: str, differ: Mapping[str, list[Any]]) -> str:
    own: Asked = json.loads(made or "{}")
    always = [_words(name, own[name], [own[name]]) for name in SEQUENCE if name in own]
    rest = [_words(n, own[n], values) for n, values in differ.items() if n in own and n not in SEQUENCE]
    return ", ".join([recipe, *always, *rest])


def _asked(member: FineTunedSpec, made: Mapping[str, FineTunedSpec]) -> Asked:
    """A model's fields; those of its regions too, of several regions each value once. `made` are the study's models
    by the names of their folders."""
    found = {name: value for name, value in member.model_dump(mode="json").items() if name not in IN_COLUMNS}
    regions = [_region(spec, made) for spec in member.regions]
    for name in dict.fromkeys(name for region in regions for name in region):
        values = [region.get(name) for region in regions]
        found[f"region {name}"] = values[0] if all(value == values[0] for value in values) else values
    return found


def _region(spec: RunSpec, made: Mapping[str, FineTunedSpec]) -> Asked:
    """A region's run, and the model that it was looked for on."""
    fields = spec.model_dump(mode="json", exclude=OF_THE_PAIR)
    options = fields.pop("options")
    sizes = ", ".join(fields.pop("sizes"))
    first, *rest = PurePosixPath(spec.finetuned).parts
    model = made.get(rest[0]) if first == f"${{{FINETUNED_VARIABLE}}}" and rest else None
    tuned = {"recipe": model.recipe, **_asked(model, made)} if model else {MODEL: spec.finetuned}
    tuned.pop("tasks", None)
    return {**fields, "sizes": sizes, **options, **{f"{MODEL} {name}": value for name, value in tuned.items()}}


WORDS: dict[str, Callable[[Any], str]] = {
    "steps": lambda value: f"{value} step{'s' * (value > 1)}",
    "k_shot": lambda value: f"{value}-shot",
    "lr": lambda value: f"lr {value:g}",
    "head": lambda value: f"{value} head",
    "stage": lambda value: f"after stage {value}",
    **dict.fromkeys(("mode", "localizer", "sizes", "optimizer", "recipe", MODEL), str),
}
"""How a field's value is told; others by the field's name before it."""


def _words(name: str, value: Any, rivals: Sequence[Any]) -> str:
    """The value of a field in words. `rivals` are all that it has: files by their names alone where that tells them
    apart."""
    before, _, last = name.rpartition(" ")
    if value is None:
        said = "all examples" if last == "k_shot" else f"{last} by default"
    elif last in ("tasks", MODEL):
        said = _paths(value, rivals) if last == MODEL else f"tasks {_paths(value, rivals)}"
    elif isinstance(value, list | dict):
        said = f"{last} {json.dumps(value)}"
    else:
        said = WORDS.get(last, lambda own: f"{last} {own}")(value)
    return f"{before} {said}".lstrip()


def _paths(value: Any, rivals: Sequence[Any]) -> str:
    """Files or folders joined by +."""
    short = {json.dumps(rival): "+".join(PurePosixPath(path).stem for path in _list(rival)) for rival in rivals}
    return short[json.dumps(value)] if len(set(short.values())) == len(short) else "+".join(map(str, _list(value)))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]

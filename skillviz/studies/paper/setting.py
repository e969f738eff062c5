"""In what a study differs from the paper's setting: told from what its file asks for, not by its scale's name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from skillviz.models.finetune.recipes import RECIPES
from skillviz.studies.paper import setting_words as words
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.paper.scales import DEMO, FEW, SCALES, Scale
from skillviz.studies.plan import plan
from skillviz.studies.spec import StudySpec, listed, merged
from skillviz.studies.step import name_of
from skillviz.tasks.project import located

SEARCH = "stagewise"
CAPS = ("k_shot", "max_train", "max_validation", "max_test")


@dataclass(frozen=True)
class Setting:
    """What a study asks for, each as the different values in the order of the file.

    `data` are the folders of the task files and what is taken of them; `shifts` a task and another that its models
    are scored on; `tuning` how the fine-tuned models come about, `given` those that are there; `rates` those of BitFit
    and LoRA, with the rank; `search` the fields of the default search; `published` the tasks that the published search
    is run on.
    """

    base: tuple[str, ...]
    readout: tuple[tuple[str, str], ...]
    tasks: tuple[str, ...]
    data: tuple[tuple[str, str], ...]
    shifts: tuple[tuple[str, str], ...]
    tuning: tuple[str, ...]
    given: tuple[str, ...]
    rates: tuple[tuple[str, int, float], ...]
    search: tuple[str, ...]
    sizes: tuple[str, ...]
    published: tuple[str, ...]

    def same(self, aspect: str, other: Setting) -> bool:
        """Whether both ask for the same of this, in whatever order."""
        return set(getattr(self, aspect)) == set(getattr(other, aspect))


def setting_differences(study: StudySpec) -> tuple[str, ...]:
    """Sentences on what differs from the paper's setting, model first; none for a study of no experiment.

    A scale's own sentence stands where the study asks for the same as the experiment at that scale. Where the base,
    readout, data, tasks, fine-tuning, seeds or sizes were replaced, the sentence is of what is asked for.
    Raises BadInput where the study cannot be planned.
    """
    row = EXPERIMENTS.get(study.experiment or "")
    if row is None:
        return ()
    plan(study)
    asked, scale = setting_of(study), SCALES.get(study.scale or "")
    usual = setting_of(StudySpec(**row.build(scale))) if scale is not None else None
    own = {name for name in words.ASPECTS if usual is None or not asked.same(name, usual)}
    told = [_told(aspect, asked, own, scale) for aspect in words.OF_SCALES]
    kept = [said.sentence for said in row.differs.get(study.scale or "", ()) if not own & set(said.of)]
    about = {aspect for differs in row.differs.values() for said in differs for aspect in said.of}
    return (*told, *_replaced(asked, own, about), *kept)


def is_demo_world(study: StudySpec) -> bool:
    """Whether its base and all its tasks are those of the demo world, a toy: false where the user replaced either.

    Raises BadInput where the study cannot be planned.
    """
    plan(study)
    asked = setting_of(study)
    world = located(PurePosixPath(DEMO.base).parts[0]).resolve()
    return all(located(text).resolve().is_relative_to(world) for text in (*asked.base, *_files(study)))


def setting_of(study: StudySpec) -> Setting:
    """What a study's entries ask for, of a study that can be planned."""
    entries = [merged(study.defaults, entry) for entry in study.runs]
    pairs = [(entry, task) for entry in entries for task in _tasks(entry)]
    main = [entry for entry in entries if not set(listed(entry.get("recipe"))) & set(FEW)]
    called = {task: _called(task) for entry, own in pairs for task in (own, *_others(entry))}
    return Setting(
        base=_once(str(base) for entry in entries for base in listed(entry.get("base"))),
        readout=_once((_readout(entry), str(_tuned(entry).get("head", ""))) for entry in entries),
        tasks=_once(called[task] for _, task in pairs),
        data=_once((str(Path(task).parent), _json(_caps(entry))) for entry, task in pairs),
        shifts=_once((called[task], called[other]) for entry, task in pairs for other in _others(entry)),
        tuning=_once(map(_tuning, main)),
        given=_once(str(entry["finetuned"]) for entry in main if "finetuned" in entry),
        rates=_once(rate for entry in entries for rate in _rates(entry)),
        search=_once(_search(entry) for entry in entries if _is_searched(entry)),
        sizes=_once(str(size) for entry in entries for size in _sizes(entry)),
        published=_once(called[task] for entry, task in pairs if "learned" in listed(entry.get("localizer"))),
    )


def _told(aspect: str, asked: Setting, own: set[str], scale: Scale | None) -> str:
    """The scale's sentence on that where it holds, or one on what is asked for."""
    is_own = aspect in own or (aspect == "sizes" and ("base" in own or words.is_causal(asked)))
    if scale is not None and not is_own and _holds(aspect, asked, scale):
        return words.SENTENCES[scale.name][aspect]
    told: str = getattr(words, aspect)(asked)
    return told


def _holds(aspect: str, asked: Setting, scale: Scale) -> bool:
    """Whether a scale's sentence is true of an experiment that may do something else than the others at that scale."""
    if aspect == "readout":
        return len({kind for kind, _ in asked.readout}) == 1
    if aspect == "tuning":
        return bool(asked.given) == bool(scale.stored)
    return aspect != "search" or words.mask_seeds(asked) == len(scale.mask_seeds)


def _replaced(asked: Setting, own: set[str], about: set[str]) -> list[str]:
    """Sentences in place of the experiment's, which are `about` some aspects, on those that are the user's `own`."""
    found = [words.tasks(asked)] if "tasks" in own & about and "data" not in own else []
    found += [words.shifts(asked)] if asked.shifts and "shifts" in own & about else []
    found += [words.published(asked)] if "tasks" in own and 0 < len(asked.published) < len(asked.tasks) else []
    return found + ([words.rates(asked)] if asked.rates and own & {"base", "rates"} else [])


def _tuning(entry: Mapping[str, Any]) -> str:
    """How the entry's fine-tuned model comes about: the folder of the pair that is there, or recipe and fields."""
    if "finetuned" in entry:
        return _json({"given": str(Path(str(entry["finetuned"])).parent)})
    fields = {name: value for name, value in _tuned(entry).items() if name not in ("head", "readout")}
    seeds = len(listed(fields.pop("seed", 0)))
    recipes = [recipe or "sgd" for recipe in listed(entry.get("recipe") or "sgd")]
    return _json({"recipe": recipes, **fields, "seeds": seeds})


def _rates(entry: Mapping[str, Any]) -> list[tuple[str, int, float]]:
    """BitFit's and LoRA's learning rate, where the entry names it, with the rank (0 where there is none)."""
    named = [str(recipe) for recipe in listed(entry.get("recipe")) if recipe in ("bitfit", "lora")]
    tuned = _tuned(entry)
    ranks = {recipe: int(tuned.get("rank") or RECIPES[recipe].rank or 0) if recipe == "lora" else 0 for recipe in named}
    return [(recipe, ranks[recipe], float(lr)) for recipe in named for lr in listed(tuned.get("lr"))]


def _search(entry: Mapping[str, Any]) -> str:
    fields = {**entry, **(entry.get("region") or {})}
    kept = {name: fields[name] for name in ("steps", "batch_size") if fields.get(name) is not None}
    return _json({**kept, "seeds": len(listed(entry.get("seed", 0)))})


def _is_searched(entry: Mapping[str, Any]) -> bool:
    return SEARCH in listed(entry.get("localizer")) or (entry.get("region") or {}).get("localizer") == SEARCH


def _sizes(entry: Mapping[str, Any]) -> list[Any]:
    both = (entry, entry.get("region") or {})
    return [size for fields in both for name in ("sizes", "size") for size in listed(fields.get(name))]


def _tasks(entry: Mapping[str, Any]) -> list[str]:
    return [str(task) for task in (*listed(entry.get("task")), *listed(entry.get("tasks")))]


def _others(entry: Mapping[str, Any]) -> list[str]:
    return [str(task) for task in (*listed(entry.get("others")), *listed(entry.get("also")))]


def _files(study: StudySpec) -> tuple[str, ...]:
    return _once(task for entry in study.runs for task in _tasks(merged(study.defaults, entry)))


def _caps(entry: Mapping[str, Any]) -> dict[str, Any]:
    both = (entry, _tuned(entry))
    return {name: fields[name] for fields in both for name in CAPS if fields.get(name) is not None}


def _tuned(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return entry.get("finetune") or {}


def _readout(entry: Mapping[str, Any]) -> str:
    return str(_tuned(entry).get("readout") or entry.get("readout") or "head")


def _called(task: str) -> str:
    """The task's name; where its file cannot be read that of the file, or of the folder of a `task.yaml`."""
    name, path = name_of(task), Path(task)
    return path.parent.name if name == "task" and path.parent.name else name


def _json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, default=str)


def _once(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))

"""From the entries of a study file to steps: what each entry stands for, and what has to be made before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from skillviz.errors import BadInput
from skillviz.models.finetune.recipes import CONTINUAL, MODES, MULTI_TASK, RETRAIN
from skillviz.runs.estimate import METHODS
from skillviz.runs.spec import RunSpec, read_spec
from skillviz.studies.finetuned_model import FineTunedSpec, read_finetuned
from skillviz.studies.regions import KEY, read_recipe, regions_of
from skillviz.studies.score import ScoreSpec, read_score_spec
from skillviz.studies.spec import MOST_COMBINATIONS, OWN, StudySpec, expanded, merged
from skillviz.studies.step import FINETUNE, LOCALIZE, SCORE, Step, name_of, title_of

NONE = "none"  # the localizer of entries that only fine-tune and score
LORA = "lora"
ALIKE = ("sgd", RETRAIN, CONTINUAL)  # recipes that train as sgd does, from the same rates
SHARED = ("base", "readout", "k_shot", "data_seed", "max_train", "max_validation")  # of an entry and its models
INHERITED = (*SHARED, "task", "sizes", "seed", "device", "dtype", "autocast", "max_test")  # of an entry and its region
OF_SCORES = ("k_shot", "data_seed", "max_train", "max_validation", "max_test")

MOST_STEPS = MOST_COMBINATIONS

Labels = dict[str, Any]


@dataclass
class Built:
    """The steps in the order in which they were asked for, each once, and the labels of every asking."""

    steps: list[Step] = field(default_factory=list)
    labels: dict[str, list[Labels]] = field(default_factory=dict)

    def add(self, kind: str, spec: FineTunedSpec | RunSpec | ScoreSpec, needs: tuple[str, ...], labels: Labels) -> str:
        """The key of the step, which is added where it is new."""
        key = spec.key()
        if key not in self.labels:
            self.steps.append(Step(key, kind, title_of(spec, labels), spec, tuple(dict.fromkeys(needs)), labels))
        if labels not in self.labels.setdefault(key, []):
            self.labels[key].append(labels)
        return key


def built(study: StudySpec) -> Built:
    """The steps of all entries; raises BadInput with the number of the entry that is wrong."""
    found = Built()
    for number, entry in enumerate(study.runs, start=1):
        try:
            values = merged(study.defaults, entry)
            own = study.defaults.get("finetune") or {}
            for chosen in expanded(values):
                _Entry(_of_recipe(chosen, values), number, own, found).add()
                if len(found.steps) > MOST_STEPS:
                    raise BadInput(
                        f"with this entry the study has more than {MOST_STEPS:,} steps; write several studies."
                    )
        except BadInput as error:
            raise BadInput(f"study '{study.name}', entry {number} of runs: {error.args[0]}") from error
    _need_regions(found)
    return found


@dataclass
class _Entry:
    """One combination of an entry's values. `own` is what the study's defaults say of fine-tuning."""

    values: dict[str, Any]
    number: int
    own: dict[str, Any]
    built: Built

    def add(self) -> None:
        """Adds the entry's steps and those that they need."""
        self._check()
        recipe = self.values.get("recipe")
        if recipe is None and "finetune" in self.values:
            recipe = "sgd"
        if recipe is None:
            self._study_of(None, str(self.values.get("task", "")), (), {})
        elif recipe == CONTINUAL:
            self._continual()
        elif recipe == MULTI_TASK:
            self._multi_task()
        else:
            self._single(str(recipe))

    def _check(self) -> None:
        """Refuses fields that are unknown, or do not go together."""
        values = self.values
        known = [*RunSpec.model_fields, *OWN]
        if strange := [name for name in values if name not in known]:
            raise BadInput(f"'{strange[0]}' is not a field of a run; known: {', '.join(known)}.")
        if "finetuned" in values and any(values.get(name) is not None for name in ("recipe", "finetune")):
            raise BadInput(
                "give `finetuned` (a model that is there) or `recipe` with `finetune` (one to make), not both."
            )
        for name in ("finetune", "region"):
            _fields(values.get(name, {}), name)
        recipe = values.get("recipe")
        if "tasks" in values and recipe not in (MULTI_TASK, CONTINUAL):
            raise BadInput(f"'tasks' goes with recipe: {MULTI_TASK} or {CONTINUAL}; one task is called `task`.")
        if "mode" in values and (recipe != CONTINUAL or values["mode"] not in MODES):
            raise BadInput(f"'mode' is {' or '.join(MODES)}, and goes with recipe: {CONTINUAL}.")

    def _single(self, recipe: str) -> None:
        """A model of one task."""
        task = self._task()
        regions, needs = self._region(task) if recipe == RETRAIN else ((), ())
        member = self._member(recipe, (task,), regions)
        key = self.built.add(FINETUNE, member, needs, self._of_member(member))
        self._study_of(member, task, (key,), self._of_member(member))

    def _multi_task(self) -> None:
        """One model body for several tasks, each studied with its own head; `task` may name one of them."""
        tasks = self._tasks()
        member = self._member(MULTI_TASK, tasks, ())
        key = self.built.add(FINETUNE, member, (), self._of_member(member))
        wanted = [self._task()] if "task" in self.values else list(tasks)
        if strange := [task for task in wanted if task not in tasks]:
            raise BadInput(f"'{strange[0]}' is not among the tasks of this entry: {', '.join(tasks)}.")
        for task in wanted:
            self._study_of(member, task, (key,), self._of_member(member))

    def _continual(self) -> None:
        """A sequence of tasks, scored after every stage on every task so far."""
        tasks, mode = self._tasks(), self.values.get("mode", "naive")
        found = [self._region(task) for task in tasks] if mode == "grafting" else []
        member = self._member(CONTINUAL, tasks, tuple(run for runs, _ in found for run in runs))
        labels = {**self._of_member(member), "mode": mode}
        key = self.built.add(FINETUNE, member, tuple(need for _, needs in found for need in needs), labels)
        for stage, last in enumerate(tasks, start=1):
            told = {**labels, "stage": stage, "stage_task": last, "stage_task_name": name_of(last)}
            for task in tasks[:stage]:
                self._scored(member.path(task, stage), member.readout, task, (key,), told)

    def _study_of(self, member: FineTunedSpec | None, task: str, needs: tuple[str, ...], labels: Labels) -> None:
        """The entry's run on one pair, or its scores alone where the localizer is none."""
        values = {name: value for name, value in self.values.items() if name not in OWN}
        values["task"] = task or values.get("task")
        if member is not None:
            values |= {"finetuned": member.path(task), "readout": member.readout}
        if values.get("localizer") in (NONE, None) and "localizer" in values:
            read_spec({**_told(values), "localizer": "movement"})  # the fields are right
            self._scored(values["finetuned"], values.get("readout"), task, needs, labels)
            return
        if "also" in self.values:
            values["others"] = self._also()
        values["options"] = self._options(values, task)
        spec = self._run(values)
        self.built.add(LOCALIZE, spec, needs, {**labels, **self._of_run(spec), "role": "run"})

    def _scored(self, finetuned: str, readout: Any, task: str, needs: tuple[str, ...], labels: Labels) -> None:
        """Scores on the task itself, and on each of the other tasks asked for."""
        own = {name: self.values[name] for name in OF_SCORES if self.values.get(name) is not None}
        own |= {"base": self.values["base"], "finetuned": finetuned, "task": task, "readout": readout}
        common = {**labels, **self._common(task), "role": "score"}
        for on in (None, *self._also()):
            spec = read_score_spec({**own, "on": on})
            other = {"on": on, "on_name": name_of(on)} if on else {}
            self.built.add(SCORE, spec, needs, {**common, **other})

    def _region(self, task: str) -> tuple[tuple[RunSpec, ...], tuple[str, ...]]:
        """The run whose region is meant, and its key."""
        asked = self.values.get("region")
        if not asked:
            raise BadInput("this recipe needs `region` (fields of a run): whose region is trained.")
        return self._region_of(asked, task)

    def _region_of(self, asked: dict[str, Any], task: str) -> tuple[tuple[RunSpec, ...], tuple[str, ...]]:
        inherited = {name: self.values[name] for name in INHERITED if name in self.values}
        values = {**inherited, "task": task, **{n: v for n, v in asked.items() if n not in ("recipe", "finetune")}}
        if "size" in values:
            values["sizes"] = [values.pop("size")]
        needs: tuple[str, ...] = ()
        labels: Labels = {}
        if "finetuned" not in values:
            member = self._member_of_region(asked, values)
            labels = self._of_member(member)
            needs = (self.built.add(FINETUNE, member, (), labels),)
            values |= {"finetuned": member.path(), "readout": member.readout}
        spec = self._run(values)
        key = self.built.add(LOCALIZE, spec, needs, {**labels, **self._of_run(spec), "role": "region"})
        return (spec,), (key,)

    def _member_of_region(self, asked: dict[str, Any], values: dict[str, Any]) -> FineTunedSpec:
        """The model of one task on which a region is looked for: fine-tuned as the entry's own but for the region's
        `finetune`; of another recipe, whose rates are others, as the defaults say, with the entry's seed and head."""
        own = self.values.get("finetune") or {}
        is_alike = "recipe" not in asked and self.values.get("recipe", "sgd") in ALIKE
        kept = own if is_alike else {name: own[name] for name in ("seed", "head", "readout") if name in own}
        shared = {name: values[name] for name in SHARED if values.get(name) is not None}
        tuned = {**shared, **self.own, **kept, **_fields(asked.get("finetune") or {}, "finetune")}
        if isinstance(tuned.get("seed"), list):
            raise BadInput("`region` takes one seed in `finetune`; a list belongs to the entry's own.")
        optimizer = tuned.pop("optimizer", None) or "sgd"  # of a model of one task that is its recipe
        return read_finetuned({**tuned, "tasks": (values["task"],), "recipe": asked.get("recipe", optimizer)})

    def _member(self, recipe: str, tasks: tuple[str, ...], regions: tuple[RunSpec, ...]) -> FineTunedSpec:
        shared = {name: self.values[name] for name in SHARED if self.values.get(name) is not None}
        own = self.values.get("finetune") or {}
        return read_finetuned({**shared, **own, "recipe": recipe, "tasks": tasks, "regions": regions})

    def _run(self, values: dict[str, Any]) -> RunSpec:
        spec = read_spec(_told(values))
        if spec.localizer not in METHODS:
            raise BadInput(f"'{spec.localizer}' is not a localizer; known: {', '.join(METHODS)}, {NONE}.")
        return spec

    def _options(self, values: dict[str, Any], task: str) -> Any:
        """The localizer's options; in a recipe by hand, runs that are described by fields become keys."""
        options = values.get("options", {})
        if values.get("localizer") != "recipe" or not isinstance(options, dict) or "recipe" not in options:
            return options
        return {**options, "recipe": self._named(read_recipe(options["recipe"]), task)}

    def _named(self, recipe: Any, task: str) -> Any:
        """A recipe with `{"run": {fields}}` replaced by the key of that run, which is then a step of the study."""
        if isinstance(recipe, list | tuple):
            return [self._named(part, task) for part in recipe]
        if not isinstance(recipe, dict):
            return recipe
        if isinstance(recipe.get("run"), dict):
            _, (key,) = self._region_of(recipe["run"], recipe["run"].get("task", task))
            return {**recipe, "run": f"{KEY}{key}"}
        return {name: self._named(value, task) for name, value in recipe.items()}

    def _task(self) -> str:
        return _text(self.values.get("task"), "task")

    def _tasks(self) -> tuple[str, ...]:
        given = self.values.get("tasks")
        if not isinstance(given, list | tuple):
            raise BadInput("this recipe takes several tasks, as tasks: [sst2, cr].")
        return tuple(_text(task, "tasks") for task in given)

    def _also(self) -> tuple[str, ...]:
        given = self.values.get("also") or ()
        given = given if isinstance(given, list | tuple) else (given,)
        return tuple(_text(task, "also") for task in given)

    def _common(self, task: str) -> Labels:
        """The labels of every step of this entry."""
        found = {"entry": self.number, "base": self.values.get("base"), "task": task, "task_name": name_of(task)}
        kept = {"label": self.values.get("label"), "device": self.values.get("device")}
        if self.values.get("localizer") in (NONE, None) and "seed" in self.values:
            kept["seed"] = self.values["seed"]  # the region's
        return {**found, **{name: value for name, value in kept.items() if value is not None}}

    def _of_member(self, member: FineTunedSpec) -> Labels:
        """The labels of a fine-tuned model."""
        names, task = tuple(name_of(task) for task in member.tasks), "+".join(member.tasks)
        found = {
            **self._common(task), "task_name": "+".join(names),
            "tasks": member.tasks, "recipe": member.recipe, "member_seed": member.seed, "data_seed": member.data_seed,
            "k_shot": member.k_shot, "member": member.key(), "rank": member.rank, "optimizer": member.optimizer,
        }  # fmt: skip
        return {n: v for n, v in found.items() if n == "k_shot" or v is not None}

    def _of_run(self, spec: RunSpec) -> Labels:
        """The labels of a run, beside those of its model."""
        told = {"localizer": spec.localizer, "sizes": spec.sizes, "size": spec.sizes[0], "seed": spec.seed}
        return {**self._common(spec.task), "data_seed": spec.data_seed, "k_shot": spec.k_shot, **told}


def _need_regions(found: Built) -> None:
    """Steps need the runs of the study whose regions they name."""
    for place, step in enumerate(found.steps):
        known = [key for key in regions_of(step.spec) if key in found.labels and key not in step.needs]
        if known:
            needs = (*step.needs, *dict.fromkeys(known))
            found.steps[place] = Step(step.key, step.kind, step.title, step.spec, needs, step.entry)


def _of_recipe(chosen: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """The values without a rank, where several recipes are asked for and this one is not LoRA."""
    tuned, recipes = chosen.get("finetune"), asked.get("recipe")
    if not isinstance(recipes, list) or LORA not in recipes or chosen["recipe"] == LORA or not isinstance(tuned, dict):
        return chosen
    return {**chosen, "finetune": {name: value for name, value in tuned.items() if name != "rank"}}


def _told(values: dict[str, Any]) -> dict[str, Any]:
    """The values without what is none: a default may be taken back so."""
    return {name: value for name, value in values.items() if value is not None}


def _fields(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise BadInput(f"'{name}' takes fields, as {name}: {{seed: 0}}.")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadInput(f"'{name}' names tasks of the registry or YAML files; got {value!r}.")
    return value

"""Turn a study's file into its plan: the steps of its entries, in an order that can be executed.

Nothing is made and no result is needed: the plan depends on the file alone.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from skillviz.core.localizers.table import EXPRESSION, LOCALIZERS
from skillviz.errors import BadInput, refuse
from skillviz.models.adapters import placement_of
from skillviz.models.finetune.recipes import CONTINUAL, MODES, MULTI_TASK, RECIPES, RETRAIN, SENDS, SGD
from skillviz.runs.artifact import FINETUNE, LOCALIZE, SCORE
from skillviz.runs.plan import read_expression
from skillviz.runs.score import ScoreSpec, read_score_spec
from skillviz.runs.spec import KEY, RunSpec, read_spec, region_of
from skillviz.studies.federated import FEDERATED, FederatedSpec, read_federated
from skillviz.studies.finetuned_model import FineTunedSpec, read_finetuned
from skillviz.studies.spec import MOST_COMBINATIONS, OF_ENTRIES, StudySpec, combinations, expanded, listed, merged
from skillviz.studies.step import ARTIFACTS, TABLE, StudyStep, name_of

NONE = "none"  # the localizer of entries that only fine-tune and score
ALIKE = (SGD, RETRAIN, CONTINUAL)  # recipes that train like sgd, from the same rates
SHARED = ("base", "readout", "k_shot", "data_seed", "max_train", "max_validation")  # shared by an entry and its models
INHERITED = (*SHARED, "task", "sizes", "seed", "device", "dtype", "autocast", "cuda_graphs", "max_test")
"""Fields that a region takes from its entry."""
OF_SCORES = ("k_shot", "data_seed", "max_train", "max_validation", "max_test")
OF_SIZE = (("rank", "rank"), ("matrices", "rank"), ("width", "width"))
"""Fields of some recipes only, each with the field of the recipe's row that says so."""
MOST_TASKS = 50
"""The largest number of tasks of one model."""
MOST_STEPS = 10_000
"""The largest number of steps of one study."""
MOST_NEEDED = 50_000
"""The most steps that a study's entries may refer to, counting shared ones each time: such a plan takes seconds."""

Labels = dict[str, Any]


@dataclass(frozen=True)
class StudyPlan:
    """The steps in an order that can be executed.

    `entries` has all labels of a step by its key, one for each entry of the study that asks for it (a step's own
    `entry` is the first of them).
    """

    study: StudySpec
    steps: tuple[StudyStep, ...]
    entries: Mapping[str, tuple[dict[str, Any], ...]] = field(repr=False)

    @cached_property
    def by_key(self) -> dict[str, StudyStep]:
        """The steps by key."""
        return {step.key: step for step in self.steps}

    def of(self, kind: str, **labels: Any) -> list[StudyStep]:
        """Return the steps of a kind that have these labels."""
        return [s for s in self.steps if s.kind == kind and any(fits(entry, labels) for entry in self.entries[s.key])]

    @property
    def runs(self) -> list[RunSpec]:
        """The specs of all runs, in order."""
        return [step.spec for step in self.of(LOCALIZE)]

    @property
    def scores(self) -> list[ScoreSpec]:
        """The specs of all scores, in order."""
        return [step.spec for step in self.of(SCORE)]

    @property
    def finetuned(self) -> list[FineTunedSpec]:
        """The specs of all fine-tuned models, in order."""
        return [step.spec for step in self.of(FINETUNE)]

    @property
    def key(self) -> str:
        """sha256 of the keys of all steps: equal for studies that request the same steps."""
        return hashlib.sha256("\n".join(sorted(step.key for step in self.steps)).encode()).hexdigest()


def study_plan(study: StudySpec) -> StudyPlan:
    """Return the plan of a study; raises BadInput with the number of the entry that is wrong."""
    entries = _steps_of(study)
    steps = _ordered(entries.steps)
    if len({step.spec.base for step in steps}) > 1:  # otherwise steps on several bases have the same title
        steps = [replace(step, title=f"{step.title} on {Path(step.spec.base).name}") for step in steps]
    table = StudyStep(TABLE, TABLE, "make the tables", study.experiment or study.name, tuple(s.key for s in steps), {})
    labels = {key: tuple(of_step) for key, of_step in entries.labels.items()}
    return StudyPlan(study, (*steps, table), {**labels, TABLE: ({},)})


def fits(entry: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """True if a step has these labels; a task may be given as written in the study or by its name."""
    return all(
        name in entry and (entry[name] == value or entry.get(f"{name}_name", ()) == value)
        for name, value in labels.items()
    )


def _ordered(steps: list[StudyStep]) -> list[StudyStep]:
    """Return the steps, each after those that it needs, and the steps of one pair together as far as possible."""
    place = {step.key: number for number, step in enumerate(steps)}
    needs = [{place[need] for need in step.needs if need in place} for step in steps]
    needed_by: dict[int, list[int]] = {}
    for number, needed in enumerate(needs):
        for need in needed:
            needed_by.setdefault(need, []).append(number)
    pairs = [step.pair for step in steps]
    ready = [number for number, needed in enumerate(needs) if not needed]  # sorted, so it is already a heap
    of_pair: dict[Any, list[int]] = {}  # the ready steps of each pair, also as heaps
    for number in ready:
        of_pair.setdefault(pairs[number], []).append(number)
    done, last = dict[int, None](), None
    while len(done) < len(steps):
        number = heapq.heappop(of_pair[last] if last is not None and of_pair.get(last) else ready)
        if number in done:  # already taken from the other heap
            continue
        done[number] = None
        last = pairs[number]
        for later in needed_by.get(number, ()):
            needs[later].remove(number)
            if not needs[later]:
                heapq.heappush(ready, later)
                heapq.heappush(of_pair.setdefault(pairs[later], []), later)
    return [steps[number] for number in done]


@dataclass
class _Steps:
    """The steps in the order of the entries, each once, and the labels of every entry that needs it."""

    steps: list[StudyStep] = field(default_factory=list)
    labels: dict[str, list[Labels]] = field(default_factory=dict)
    labelled: set[tuple[str, str]] = field(default_factory=set)  # for fast search in long lists
    needed: int = 0

    def add(
        self,
        kind: str,
        spec: FineTunedSpec | RunSpec | ScoreSpec | FederatedSpec,
        needs: tuple[str, ...],
        labels: Labels,
    ) -> str:
        """Add the step if it is new, and return its key; raises BadInput if there are too many steps."""
        key = spec.key()
        is_new = key not in self.labels
        self.needed += 1
        if self.needed > MOST_NEEDED or (is_new and len(self.steps) == MOST_STEPS):
            raise BadInput(
                f"with this entry the study has more than {MOST_STEPS:,} steps, or its entries refer to steps more "
                f"than {MOST_NEEDED:,} times; write several studies."
            )
        if is_new:
            title = ARTIFACTS[kind](spec).title(labels)
            self.steps.append(StudyStep(key, kind, title, spec, tuple(dict.fromkeys(needs)), labels))
        if (labelled := (key, repr(labels))) not in self.labelled:
            self.labelled.add(labelled)
            self.labels.setdefault(key, []).append(labels)
        return key


def _steps_of(study: StudySpec) -> _Steps:
    """Return the steps of all entries; raises BadInput with the number of the entry that is wrong."""
    steps, total = _Steps(), 0
    entries = [merged(study.defaults, entry) for entry in study.runs]
    for number, values in enumerate(entries, start=1):
        with _of_entry(study, number):
            total += combinations(values)
            if total > MOST_COMBINATIONS:
                raise BadInput(
                    f"with this entry the lists of the study stand for {total:,} combinations; {MOST_COMBINATIONS:,} "
                    "are the most: write fewer values, or several studies."
                )
    for number, values in enumerate(entries, start=1):
        with _of_entry(study, number):
            finetune = study.defaults.get("finetune") or {}
            for chosen in expanded(values):
                _Entry(_of_recipe(chosen, values), number, finetune, steps).add()
    _need_regions(steps)
    return steps


@contextmanager
def _of_entry(study: StudySpec, number: int) -> Iterator[None]:
    """Add the study's entry to the message of a BadInput."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"study '{study.name}', entry {number} of runs: {error.args[0]}") from error


@dataclass
class _Entry:
    """One combination of an entry's values. `finetune` has the study's defaults for fine-tuning."""

    values: dict[str, Any]
    number: int
    finetune: dict[str, Any]
    steps: _Steps

    def add(self) -> None:
        """Add the entry's steps and those that they need."""
        self._check()
        recipe = self.values.get("recipe")
        if recipe is None and "finetune" in self.values:
            recipe = SGD
        if "federated" in self.values:
            self._federated()
        elif recipe is None:
            self._study_of(None, self._task(), (), {})
        elif recipe == CONTINUAL:
            self._continual()
        elif recipe == MULTI_TASK:
            self._multi_task()
        else:
            self._single(str(recipe))

    def _check(self) -> None:
        """Refuse fields that are unknown or exclude each other."""
        values = self.values
        known = [*RunSpec.model_fields, *OF_ENTRIES]
        if strange := [name for name in values if name not in known]:
            raise BadInput(f"'{strange[0]}' is not a field of a run; known: {', '.join(known)}.")
        if "finetuned" in values and any(values.get(name) is not None for name in ("recipe", "finetune")):
            raise BadInput("give `finetuned` (an existing model) or `recipe` with `finetune` (one to make), not both.")
        for name in ("finetune", "region"):
            _fields(values.get(name, {}), name)
        recipe = values.get("recipe")
        refuse(
            (
                "tasks" in values and recipe not in (MULTI_TASK, CONTINUAL) and "federated" not in values,
                f"'tasks' goes with recipe: {MULTI_TASK} or {CONTINUAL}; one task is called `task`.",
            ),
            (
                "mode" in values and (recipe != CONTINUAL or values["mode"] not in MODES),
                f"'mode' is {' or '.join(MODES)}, and goes with recipe: {CONTINUAL}.",
            ),
        )

    def _single(self, recipe: str) -> None:
        """Add a model of one task."""
        task = self._task()
        regions, needs = self._region(task) if recipe == RETRAIN else ((), ())
        model = self._finetuned(recipe, (task,), regions)
        key = self.steps.add(FINETUNE, model, needs, self._of_model(model))
        self._study_of(model, task, (key,), self._of_model(model))

    def _multi_task(self) -> None:
        """Add one model body for several tasks, each studied with its own head; `task` may select one of them."""
        tasks = self._tasks()
        model = self._finetuned(MULTI_TASK, tasks, ())
        key = self.steps.add(FINETUNE, model, (), self._of_model(model))
        wanted = [self._task()] if "task" in self.values else list(tasks)
        if strange := [task for task in wanted if task not in tasks]:
            raise BadInput(f"'{strange[0]}' is not among the tasks of this entry: {', '.join(tasks)}.")
        for task in wanted:
            self._study_of(model, task, (key,), self._of_model(model))

    def _continual(self) -> None:
        """Add a sequence of tasks, scored after every stage on every task so far."""
        tasks, mode = self._tasks(), self.values.get("mode", "naive")
        regions = [self._region(task) for task in tasks] if mode == "grafting" else []
        model = self._finetuned(CONTINUAL, tasks, tuple(run for runs, _ in regions for run in runs))
        labels = {**self._of_model(model), "mode": mode}
        key = self.steps.add(FINETUNE, model, tuple(need for _, needs in regions for need in needs), labels)
        for stage, last in enumerate(tasks, start=1):
            at_stage = {**labels, "stage": stage, "stage_task": last, "stage_task_name": name_of(last)}
            for task in tasks[:stage]:
                self._scored(model.path(task, stage), model.readout, task, (key,), at_stage)

    def _federated(self) -> None:
        """Add a federation for each value of `send`: one client per task, or clients that share one task's rows."""
        fields, tuning = _fields(self.values["federated"], FEDERATED), self.values.get("finetune") or {}
        tasks = self._tasks() if "tasks" in self.values else (self._task(),)
        shared = {
            name: self.values[name] for name in (*SHARED, "max_test", "seed") if self.values.get(name) is not None
        }
        refuse(
            (self.values.get("recipe", SGD) != SGD, "clients train by plain SGD; leave recipe out beside federated."),
            ("seed" in tuning, "the seed of clients is the entry's; give seed beside federated, not in finetune."),
        )
        tuned = {name: tuning[name] for name in ("head", "batch_size", "lr") if name in tuning}
        for send in listed(fields.get("send", SENDS)):
            spec = read_federated({**shared, **tuned, **fields, "tasks": tasks, "send": send})
            self.steps.add(FEDERATED, spec, (), {**self._common(tasks[0]), "tasks": tasks, "seed": spec.seed})

    def _study_of(self, model: FineTunedSpec | None, task: str, needs: tuple[str, ...], labels: Labels) -> None:
        """Add the entry's run on one pair, or its scores alone if the localizer is none."""
        values = {name: value for name, value in self.values.items() if name not in OF_ENTRIES}
        values["task"] = task or values.get("task")
        if model is not None:
            values |= {"finetuned": model.path(task), "readout": model.readout}
        if values.get("localizer") in (NONE, None) and "localizer" in values:
            read_spec({**_without_none(values), "localizer": "movement"})  # validates the fields
            self._scored(values["finetuned"], values.get("readout"), task, needs, labels)
            return
        if model is not None and placement_of(model.recipe):
            raise BadInput(
                f"the recipe {model.recipe} trains parameters that the base does not have, so no region of its model "
                "can be grafted; write localizer: none, which scores it."
            )
        if "also" in self.values:
            values["others"] = self._also()
        values["options"] = self._options(values, task)
        spec = self._run(values)
        self.steps.add(LOCALIZE, spec, needs, {**labels, **self._of_run(spec), "role": "run"})

    def _scored(self, finetuned: str, readout: Any, task: str, needs: tuple[str, ...], labels: Labels) -> None:
        """Add scores on the task itself, and on each of the entry's other tasks."""
        fields = {name: self.values[name] for name in OF_SCORES if self.values.get(name) is not None}
        fields |= {"base": self.values["base"], "finetuned": finetuned, "task": task, "readout": readout}
        common = {**labels, **self._common(task), "role": "score"}
        for on in (None, *self._also()):
            spec = read_score_spec({**fields, "on": on})
            other = {"on": on, "on_name": name_of(on)} if on else {}
            self.steps.add(SCORE, spec, needs, {**common, **other})

    def _region(self, task: str) -> tuple[tuple[RunSpec, ...], tuple[str, ...]]:
        """Add the run that has the entry's `region`; return its spec and key."""
        region = self.values.get("region")
        if not region:
            raise BadInput("this recipe needs `region` (fields of a run): whose region is trained.")
        return self._region_of(region, task)

    def _region_of(self, region: dict[str, Any], task: str) -> tuple[tuple[RunSpec, ...], tuple[str, ...]]:
        inherited = {name: self.values[name] for name in INHERITED if name in self.values}
        values = {**inherited, "task": task, **{n: v for n, v in region.items() if n not in ("recipe", "finetune")}}
        if "size" in values:
            values["sizes"] = [values.pop("size")]
        needs: tuple[str, ...] = ()
        labels: Labels = {}
        if "finetuned" not in values:
            model = self._model_of_region(region, values)
            labels = self._of_model(model)
            needs = (self.steps.add(FINETUNE, model, (), labels),)
            values |= {"finetuned": model.path(), "readout": model.readout}
        spec = self._run(values)
        key = self.steps.add(LOCALIZE, spec, needs, {**labels, **self._of_run(spec), "role": "region"})
        return (spec,), (key,)

    def _model_of_region(self, region: dict[str, Any], values: dict[str, Any]) -> FineTunedSpec:
        """Return the model of one task on which a region is searched.

        With the entry's recipe it is fine-tuned like the entry's own model, except for the region's `finetune`. With
        another recipe, whose rates differ, it follows the study's defaults, with the entry's seed and head.
        """
        tuning = self.values.get("finetune") or {}
        is_alike = "recipe" not in region and self.values.get("recipe", SGD) in ALIKE
        inherited = tuning if is_alike else {n: tuning[n] for n in ("seed", "head", "readout") if n in tuning}
        shared = {name: values[name] for name in SHARED if values.get(name) is not None}
        tuned = {**shared, **self.finetune, **inherited, **_fields(region.get("finetune") or {}, "finetune")}
        if isinstance(tuned.get("seed"), list):
            raise BadInput("`region` takes one seed in `finetune`; a list belongs to the entry's own.")
        optimizer = tuned.pop("optimizer", None) or SGD  # for a model of one task, the optimizer is its recipe
        return read_finetuned({**tuned, "tasks": (values["task"],), "recipe": region.get("recipe", optimizer)})

    def _finetuned(self, recipe: str, tasks: tuple[str, ...], regions: tuple[RunSpec, ...]) -> FineTunedSpec:
        shared = {name: self.values[name] for name in SHARED if self.values.get(name) is not None}
        tuning = self.values.get("finetune") or {}
        return read_finetuned({**shared, **tuning, "recipe": recipe, "tasks": tasks, "regions": regions})

    def _run(self, values: dict[str, Any]) -> RunSpec:
        spec = read_spec(_without_none(values))
        if spec.localizer not in LOCALIZERS:
            raise BadInput(f"'{spec.localizer}' is not a localizer; known: {', '.join(LOCALIZERS)}, {NONE}.")
        return spec

    def _options(self, values: dict[str, Any], task: str) -> Any:
        """Return the localizer's options; runs that are described by fields in a region option become keys."""
        options, row = values.get("options", {}), LOCALIZERS.get(str(values.get("localizer")))
        name = EXPRESSION if values.get("localizer") == EXPRESSION else row and row.region_option
        if not isinstance(options, dict) or name not in options:
            return options
        if name == EXPRESSION:
            return {**options, name: self._named(read_expression(options[name]), task)}
        named = options[name]
        if not isinstance(named, dict):
            return options
        if list(named) != ["run"] or not isinstance(named["run"], dict):
            raise BadInput(f"'{name}' names a region file, or a run as {name}: {{run: {{localizer: stagewise}}}}.")
        (spec,), _ = self._region_of(named["run"], named["run"].get("task", task))
        return {**options, name: region_of(spec, values)}

    def _named(self, expression: Any, task: str) -> Any:
        """Return an expression with each `{"run": {fields}}` replaced by a key; the run becomes a step."""
        if isinstance(expression, list | tuple):
            return [self._named(part, task) for part in expression]
        if not isinstance(expression, dict):
            return expression
        if isinstance(expression.get("run"), dict):
            _, (key,) = self._region_of(expression["run"], expression["run"].get("task", task))
            return {**expression, "run": f"{KEY}{key}"}
        return {name: self._named(value, task) for name, value in expression.items()}

    def _task(self) -> str:
        return _text(self.values.get("task"), "task")

    def _tasks(self) -> tuple[str, ...]:
        value = self.values.get("tasks")
        if not isinstance(value, list | tuple):
            raise BadInput("this recipe takes several tasks, as tasks: [sst2, cr].")
        if len(value) > MOST_TASKS:
            raise BadInput(f"'tasks' names {len(value):,} tasks; {MOST_TASKS} are the most that one model can have.")
        return tuple(_text(task, "tasks") for task in value)

    def _also(self) -> tuple[str, ...]:
        value = self.values.get("also") or ()
        value = value if isinstance(value, list | tuple) else (value,)
        return tuple(_text(task, "also") for task in value)

    def _common(self, task: str) -> Labels:
        """Return the labels of every step of this entry."""
        labels = {"entry": self.number, "base": self.values.get("base"), "task": task, "task_name": name_of(task)}
        optional = {"label": self.values.get("label"), "device": self.values.get("device")}
        if self.values.get("localizer") in (NONE, None) and "seed" in self.values:
            optional["seed"] = self.values["seed"]  # the region's seed
        return {**labels, **{name: value for name, value in optional.items() if value is not None}}

    def _of_model(self, model: FineTunedSpec) -> Labels:
        """Return the labels of a fine-tuned model."""
        names, task = tuple(name_of(task) for task in model.tasks), "+".join(model.tasks)
        labels = {
            **self._common(task), "task_name": "+".join(names),
            "tasks": model.tasks, "recipe": model.recipe, "finetune_seed": model.seed, "data_seed": model.data_seed,
            "k_shot": model.k_shot, "finetuned_key": model.key(), "rank": model.rank,
            "width": model.width, "matrices": model.matrices, "optimizer": model.optimizer,
        }  # fmt: skip
        return {n: v for n, v in labels.items() if n == "k_shot" or v is not None}

    def _of_run(self, spec: RunSpec) -> Labels:
        """Return the labels of a run, including the entry's."""
        search = {"localizer": spec.localizer, "sizes": spec.sizes, "size": spec.sizes[0], "seed": spec.seed}
        return {**self._common(spec.task), "data_seed": spec.data_seed, "k_shot": spec.k_shot, **search}


def _need_regions(steps: _Steps) -> None:
    """Add the study's runs to the needs of the steps that name their regions."""
    for place, step in enumerate(steps.steps):
        known = [key for key in step.artifact.regions if key in steps.labels and key not in step.needs]
        if known:
            needs = (*step.needs, *dict.fromkeys(known))
            steps.steps[place] = StudyStep(step.key, step.kind, step.title, step.spec, needs, step.entry)


def _of_recipe(chosen: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the values without rank, width and matrices that belong to another of the entry's several recipes."""
    tuned, recipes = chosen.get("finetune"), values.get("recipe")
    if not isinstance(recipes, list) or not isinstance(tuned, dict):
        return chosen
    takers = {name: {row.name for row in RECIPES.values() if getattr(row, of) is not None} for name, of in OF_SIZE}
    foreign = {name for name, of in takers.items() if chosen["recipe"] not in of and of & set(map(str, recipes))}
    return {**chosen, "finetune": {name: value for name, value in tuned.items() if name not in foreign}}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are not None; an entry uses None to remove a default."""
    return {name: value for name, value in values.items() if value is not None}


def _fields(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise BadInput(f"'{name}' takes fields, as {name}: {{seed: 0}}.")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadInput(f"'{name}' names tasks of the registry or YAML files; got {value!r}.")
    return value

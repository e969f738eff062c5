"""Define a study, which is read from YAML: fine-tuned models, runs and scores that belong together."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.dataclasses import dataclass

from skillviz.errors import BadInput
from skillviz.studies.finetuned_model import slug
from skillviz.tasks.project import anchored, located
from skillviz.tasks.refusals import refused
from skillviz.tasks.yaml_files import read_yaml

EXPANDED = ("base", "task", "k_shot", "data_seed", "recipe", "finetune.seed", "localizer", "size", "seed")
"""Fields whose lists mean every combination; the last varies fastest, so that a pair's runs are consecutive."""
OF_ENTRIES = ("recipe", "finetune", "tasks", "mode", "region", "also", "label", "size", "federated")
"""Fields of an entry that a RunSpec does not have."""

MODELS = ("base", "finetuned")
PATHS = (*MODELS, "task", "tasks", "also", "others")
"""Fields of an entry, and of its `region`, that may be paths."""

MOST_COMBINATIONS = 10_000
"""The most combinations of all entries' lists together; more is probably a mistake, and would be planned for minutes.

The largest experiment of the paper, with all its tasks, five samples and five seeds, has 9,425.
"""
LONGEST_NAME = 100
"""The largest number of letters in a study's name, which names a folder."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ExperimentRequest:
    """A request for an experiment of the paper at a scale, with the user's changes of the scale.

    `tasks` and `also` (other data with the same labels) are the scale's names or YAML files; `data` is a folder of
    tasks. `steps` is the number of steps of each search, `train_steps` of each fine-tuning, `sizes` are shares of the
    graftable parameters, the main one first. `samples` is the number of samples of the training data, each with models
    of its own.
    """

    experiment: str
    scale: str = "small"
    base: str | None = None
    data: str | None = None
    tasks: tuple[str, ...] = ()
    seeds: int | None = None
    readout: str | None = None
    finetuned: str | None = None
    also: tuple[str, ...] = ()
    steps: int | None = None
    train_steps: int | None = None
    sizes: tuple[str, ...] = ()
    max_test: int | None = None
    k_shot: int | None = None
    samples: int | None = None

    def command(self) -> str:
        """Return the command line of the request, with paths as they were given."""
        words = ["python", "-m", "skillviz", "reproduce", self.experiment, "--scale", self.scale]
        numbers = ("seeds", "samples", "k_shot", "train_steps", "steps", "max_test")
        for name in ("base", "data", "finetuned", "readout", *numbers):
            if (value := getattr(self, name)) is not None:
                words += [f"--{name.replace('_', '-')}", str(value)]
        words += [word for size in self.sizes for word in ("--sizes", size)]
        words += [word for task in self.tasks for word in ("--tasks", task)]
        return shlex.join([*words, *(word for task in self.also for word in ("--also", task))])


class StudySpec(BaseModel):
    """A study file.

    `defaults` are fields of every entry; `runs` lists the changes of each entry. An entry has the fields of a RunSpec,
    and instead of `finetuned` a `recipe` with `finetune` (fields of a FineTunedSpec): the model is made first. Also:
    `tasks` (multi-task, continual), `mode` (naive or grafting), `region` (fields of a RunSpec, whose region is
    retrained or owned), `also` (other tasks to score on), `label` (a name of its own for tables). `localizer: none`
    only fine-tunes and scores. `federated` (fields of a FederatedSpec) is a federation instead of a run. Lists in
    EXPANDED mean every combination; `sizes` is one run of several sizes. `request` names
    the paper's experiment; callers that rely on it must check that the entries are the experiment's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    title: str = ""
    request: ExperimentRequest | None = None
    defaults: dict[str, Any] = Field(default_factory=dict)
    runs: tuple[dict[str, Any], ...] = Field(min_length=1)

    @field_validator("name")
    @classmethod
    def _can_name_a_folder(cls, value: str) -> str:
        """Refuse a name that cannot name the study's folder."""
        if not slug(value):
            raise ValueError("a name has letters or digits")
        if len(value) > LONGEST_NAME:
            raise ValueError(
                f"a name has {LONGEST_NAME} letters at most, this one {len(value):,}; `title` may be longer"
            )
        return value

    @property
    def experiment(self) -> str | None:
        """The requested experiment."""
        return self.request.experiment if self.request else None

    @property
    def scale(self) -> str | None:
        """The requested scale."""
        return self.request.scale if self.request else None

    @property
    def folder(self) -> str:
        """The name of its folder in a store."""
        return slug(self.name)

    def yaml_text(self) -> str:
        """Return the study as a file, which reads as the same study."""
        content = self.model_dump(mode="json")
        if self.request is not None:
            content["request"] = _filled(content["request"])
        return yaml.safe_dump(_filled(content), sort_keys=False, allow_unicode=True, width=120)


def read_study(path: Path | str, uploaded: bytes | None = None) -> StudySpec:
    """Return the study of a YAML file (safe loader); raises BadInput if it cannot be read or a field is wrong.

    A file that is a plain list of entries is a study named after the file. Paths of tasks and models that exist beside
    the file are resolved from there; other relative paths from the working folder or the project. Nothing is beside an
    uploaded file, whose bytes are given with its name.
    """
    content = read_yaml(Path(path) if uploaded is None else uploaded, f"the study file {path}")
    if isinstance(content, list) and any(isinstance(entry, dict) and "base" in entry for entry in content):
        content = {"name": Path(path).stem, "runs": content}
    if not isinstance(content, dict) or "runs" not in content:  # not a study: the message names none of its keys
        raise BadInput(
            f"the study file {path} must have a name and a list of runs, and may have defaults; or be a list of runs, "
            "each with a base."
        )
    for name in ("defaults", "runs"):
        if name in content and uploaded is None:
            content = {**content, name: _from_folder(content[name], Path(path).parent)}
    try:
        return StudySpec(**content)
    except (ValidationError, TypeError) as error:
        reason = "'{}': {}".format(*refused(error)) if isinstance(error, ValidationError) else str(error)
        raise BadInput(f"the study file {path} must have a name and a list of runs: {reason}.") from error


def _from_folder(value: Any, folder: Path) -> Any:
    """Return entries with absolute paths to the models and task files in the study file's folder, or below."""
    if isinstance(value, list):
        return [_from_folder(item, folder) for item in value]
    if not isinstance(value, dict):
        return value
    placed = {}
    for name, item in value.items():
        if name in PATHS:
            placed[name] = _paths_from_folder(item, folder, is_model=name in MODELS)
        else:
            placed[name] = _from_folder(item, folder) if name == "region" else item
    return placed


def _paths_from_folder(value: Any, folder: Path, is_model: bool) -> Any:
    if isinstance(value, list):
        return [_paths_from_folder(item, folder, is_model) for item in value]
    if not isinstance(value, str):
        return value
    path = anchored(value, folder)
    # a registry task or hub model may have the same name as an unrelated file there
    return path if (located(path).is_dir() if is_model else value.endswith((".yaml", ".yml"))) else value


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", {}, [])}


def listed(value: Any) -> list[Any]:
    """Return the values of an entry's field: the items of its list, its single value, or none."""
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def merged(defaults: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return the entry on top of the defaults; `finetune` and `region` are merged field by field."""
    values = {**defaults, **entry}
    for name in ("finetune", "region"):
        if isinstance(defaults.get(name), dict) and isinstance(entry.get(name), dict):
            values[name] = {**defaults[name], **entry[name]}
    return values


def combinations(values: dict[str, Any]) -> int:
    """Return the number of combinations of the lists in EXPANDED; raises BadInput if it is zero."""
    if "size" in values and "sizes" in values:
        raise BadInput("give `size` (one run each) or `sizes` (one run of several), not both.")
    lists = _choices(values)
    if empty := next((name for name, choices in lists.items() if not choices), None):
        raise BadInput(f"the list of '{empty}' is empty; give one value or more.")
    return prod(map(len, lists.values()))


def expanded(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the lists in EXPANDED; `size` becomes `sizes` of one."""
    lists = _choices(values)
    for combination in itertools.product(*lists.values()):
        chosen = dict(values)
        for name, value in zip(lists, combination, strict=True):
            outer, _, inner = name.partition(".")
            chosen[outer] = {**chosen[outer], inner: value} if inner else value
        if "size" in chosen:
            chosen["sizes"] = [chosen.pop("size")]
        yield chosen


def _choices(values: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the values of each given field in EXPANDED."""
    return {n: value if isinstance(value, list) else [value] for n in EXPANDED if (value := _get(values, n)) != ()}


def _get(values: dict[str, Any], name: str) -> Any:
    """Return the value of a field, written with a dot if it is inside another; () if it is not given."""
    outer, _, inner = name.partition(".")
    value = values.get(outer, ())
    if inner:
        value = value.get(inner, ()) if isinstance(value, dict) else ()
    return value

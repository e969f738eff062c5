"""The settings of a run as one frozen record, with the command and the Python line that make the run again."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from skillviz.core.draws import LARGEST_SEED
from skillviz.core.localizers.table import DEFAULT_LOCALIZER, LOCALIZERS, has_null
from skillviz.core.nulls import LEARNED_SIGNS, NULLS, SHUFFLED
from skillviz.core.region_expression import canonical, parsed
from skillviz.errors import BadInput
from skillviz.models.heads import Readout
from skillviz.tasks.project import anchored, anchored_task
from skillviz.tasks.refusals import DEVICE, validated

Dtype = Literal["float32", "bfloat16", "own"]
KEY = "key:"
"""The prefix of a spec's key, which can replace a run's id and means the spec's newest finished run."""

WORDS = {"base", "finetuned", "task", "readout", "localizer", "sizes"}
FLAGS = {"localizer": "--method", "sizes": "--size"}
DEFAULT_SIZE = "0.1%"
FIT, KINDS, MOST_GAIN = "fit", "kinds", 1000
MOST_DRAWS = 100  # of each null
NO_NULLS, ALL_NULLS = "none", "all"
LEFT_OUT = {
    "others": [], "lean": False, "data_parallel": 1, "cuda_graphs": False, "nulls": "none", "null_draws": 1,
    "gain": 1.0, "outside": "",
}  # fmt: skip
"""Fields omitted from the canonical text while they have these values, so that an unused field changes no key."""


class RunSpec(BaseModel):
    """One localization: a pair, a task, a localizer, one seed, one or more sizes (the main one first).

    `sizes` are kept as typed: an integer is a count, a decimal a share of d, `0.1%` a percentage. `seed` is the
    localizer's, `data_seed` that of the k-shot sample. `others` are further tasks (names or YAML files) with the same
    labels; the states are also scored on their test sets. `dtype` own is bfloat16 if both models' files are in
    bfloat16, otherwise float32. `lean` keeps one model in memory, and fewer candidates. The gradient of a batch is the
    sum of `data_parallel` parts, added in order. `cuda_graphs` records the search's passes, over padded batches.
    `nulls` names the null movements on which the same search also runs, `null_draws` times if they are drawn. `gain` is
    the factor on the movement in the grafts; with `fit` each graft has its own, with `kinds` also one for each module
    kind. `outside` (a run's id or a region
    expression) is a region that the search and its nulls must not use. None means "the default".
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str = Field(min_length=1)
    finetuned: str = Field(min_length=1)
    task: str = Field(min_length=1)
    readout: Readout | None = None
    localizer: str = DEFAULT_LOCALIZER
    options: dict[str, Any] = Field(default_factory=dict)
    sizes: tuple[str, ...] = (DEFAULT_SIZE,)
    seed: int = Field(default=0, ge=0)
    data_seed: int = Field(default=0, ge=0)
    k_shot: int | None = Field(default=None, ge=1)
    steps: int | None = Field(default=None, ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    nulls: Literal["none", "shuffled", "all"] = "none"
    null_draws: int = Field(default=1, ge=1, le=MOST_DRAWS)
    gain: float | Literal["fit", "kinds"] = 1.0
    outside: str = ""
    device: str = Field(default="auto", pattern=DEVICE)
    dtype: Dtype = "float32"
    lean: bool = False
    data_parallel: int = Field(default=1, ge=1)
    autocast: Literal["bfloat16", "float16"] | None = None
    cuda_graphs: bool = False
    max_train: int | None = Field(default=None, ge=1)
    max_validation: int | None = Field(default=None, ge=1)
    max_test: int | None = Field(default=None, ge=1)
    interpolation: bool = False
    others: tuple[str, ...] = ()

    @field_validator("sizes", mode="before")
    @classmethod
    def _as_typed(cls, value: Any) -> Any:
        """Convert numbers from YAML or Python to the text that a user would type."""
        values = [value] if isinstance(value, str | int | float) else value
        if isinstance(values, list | tuple):
            values = tuple(v if isinstance(v, str) else repr(v) for v in values)
            if not values:
                raise ValueError("give at least one size")
        return values

    @field_validator("others", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        """Accept one task without a list."""
        return (value,) if isinstance(value, str) else value

    @field_validator("gain", mode="before")
    @classmethod
    def _as_gain(cls, value: Any) -> Any:
        """Return `fit`, `kinds` or a number, which may be given as a text."""
        if value in (FIT, KINDS):
            return value
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not 0 <= number <= MOST_GAIN:
            raise ValueError(f"it is {value!r}, and must be {FIT}, {KINDS}, or a number from 0 to {MOST_GAIN}")
        return number

    @field_validator("outside", mode="before")
    @classmethod
    def _as_expression(cls, value: Any) -> Any:
        """Return an expression in canonical form; a run's id means the run's region."""
        if isinstance(value, str) and not value.lstrip().startswith("{"):
            return value and canonical({"run": value})
        try:
            return canonical(parsed(value))
        except BadInput as error:
            raise ValueError(str(error)) from error

    @property
    def null_searches(self) -> list[tuple[str, int]]:
        """The searches on null movements, as kind and draw. A kind without random draws is searched once."""
        if not has_null(self.localizer):
            return []
        kinds = [kind for kind in NULLS if self.nulls in (kind, ALL_NULLS)]
        kinds = [kind for kind in kinds if kind != LEARNED_SIGNS or LOCALIZERS[self.localizer].learns_signs]
        return [(kind, draw) for kind in kinds for draw in range(self.null_draws if NULLS[kind].is_drawn else 1)]

    @property
    def fits_gain(self) -> bool:
        """True if gains are fitted on validation examples."""
        return isinstance(self.gain, str)

    def json_text(self) -> str:
        """Return canonical JSON (sorted keys, no spaces), so that equal specs have equal texts."""
        fields = {
            n: value for n, value in self.model_dump(mode="json").items() if n not in LEFT_OUT or value != LEFT_OUT[n]
        }
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def key(self) -> str:
        """Return the sha256 of everything that determines the result. The location of the run is not part of a spec."""
        return hashlib.sha256(self.json_text().encode()).hexdigest()

    def search_fields(self) -> dict[str, Any]:
        """Return a search's settings by field, without size and seed; a region named by key is given in words."""
        fields = {"steps": self.steps, "batch_size": self.batch_size, "outside": self.outside or None, **self.options}
        return {name: words_of_region(fields[name]) for name in sorted(fields) if fields[name] is not None}

    def anchored(self, folder: Path) -> RunSpec:
        """Return the spec with paths relative to `folder` made absolute, so that pages and jobs find them anywhere."""
        pair = {name: anchored(getattr(self, name), folder) for name in ("base", "finetuned")}
        task, *others = (anchored_task(name, folder) for name in (self.task, *self.others))
        options = {n: anchored_task(v, folder) if n == "texts" else v for n, v in self.options.items()}
        return self.model_copy(update={**pair, "task": task, "others": tuple(others), "options": options})

    def command(self) -> str:
        """Return the command line that makes this run again, with only the options that differ from the defaults."""
        words = ["python", "-m", "skillviz", "localize", "--base", self.base, "--finetuned", self.finetuned]
        words += ["--task", self.task] + (["--readout", self.readout] if self.readout else [])
        words += ["--method", self.localizer]
        for size in self.sizes:
            words += ["--size", size]
        for name, value in self._changed().items():
            words += _words(name, value)
        return shlex.join(words)

    def python(self) -> str:
        """Return the Python line that makes this run again."""
        arguments = {"task": self.task, "localizer": self.localizer, "sizes": list(self.sizes)}
        if self.readout:
            arguments["readout"] = self.readout
        arguments |= self._changed()
        named = "".join(f"    {name}={value!r},\n" for name, value in arguments.items())
        pair = f"    base={self.base!r},\n    finetuned={self.finetuned!r},\n"
        return f"import skillviz\n\nrun = skillviz.localize(\n{pair}{named})\n"

    def _changed(self) -> dict[str, Any]:
        """Return the fields outside WORDS whose value is not the default."""
        fields = type(self).model_fields
        values = {name: getattr(self, name) for name in fields if name not in WORDS}
        defaults = {name: fields[name].get_default(call_default_factory=True) for name in values}
        defaults["nulls"] = usual_nulls(self.localizer)  # the default of the command and of the function
        return {name: value for name, value in values.items() if value != defaults[name]}


def usual_nulls(localizer: str) -> str:
    """Return the default nulls of a user's localization; a bare spec, as in studies and quick tries, has none."""
    return SHUFFLED if has_null(localizer) else NO_NULLS


def region_of(spec: RunSpec, beside: Mapping[str, Any]) -> str:
    """Return the region of a spec's run as named in a localizer option of another run.

    An example is `key:<spec key> stagewise batch_size=64`: the search, and the fields of pair, data and size that
    differ from those of the other run.
    """
    fields = {name: value for name, value in spec.search_fields().items() if not isinstance(value, dict)}
    for name in ("base", "task", "readout", "k_shot", "data_seed", "sizes"):
        value, other = getattr(spec, name), beside.get(name)
        if name == "sizes":
            value, other = "+".join(value), other and "+".join(map(str, other))
        if other is not None and value != other:
            fields[name] = value
    return " ".join([f"{KEY}{spec.key()}", spec.localizer, *(f"{name}={value}" for name, value in fields.items())])


def key_in(named: Any) -> str | None:
    """Return the key in a text of `region_of`; None for any other value."""
    return named.removeprefix(KEY).split(" ")[0] if isinstance(named, str) and named.startswith(KEY) else None


def words_of_region(named: Any) -> Any:
    """Return a text of `region_of` without its key, which differs by pair and seed; other values unchanged."""
    return named if key_in(named) is None else named.partition(" ")[2]


def read_spec(values: dict[str, Any]) -> RunSpec:
    """Return the spec of these values; raises BadInput with one sentence if a field is invalid or unknown."""
    spec = validated(RunSpec, values, "the run", "a field of a run")
    for name in ("seed", "data_seed"):  # checked only for new specs, so that a stored run can always be read
        if (seed := getattr(spec, name)) > LARGEST_SEED:
            raise BadInput(f"'{name}' of the run cannot be used: it is {seed}, and must be {LARGEST_SEED:,} or less.")
    return spec


def _words(name: str, value: Any) -> list[str]:
    """Return the command-line words of one field."""
    if name == "options":
        return [word for key, item in value.items() for word in ("--option", f"{key}={json.dumps(item)}")]
    if name == "others":
        return [word for other in value for word in ("--also", other)]
    flag = "--" + name.replace("_", "-")
    return [flag] if value is True else [flag, str(value)]

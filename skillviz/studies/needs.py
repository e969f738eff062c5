"""The needs of a study before its start, from headers and row counts: models, runs, scores, memory and disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from skillviz.core.formats import byte_size, counted
from skillviz.core.size import parse_size
from skillviz.errors import SkillvizError
from skillviz.models.finetune.recipes import CONTINUAL, MULTI_TASK, recipe_row
from skillviz.models.finetune.training_config import BATCH_SIZE
from skillviz.models.preflight import preflight
from skillviz.runs.artifact import FINETUNE, LOCALIZE, SCORE
from skillviz.runs.memory import PROCESS, Facts, facts_of, peak_bytes, published_facts
from skillviz.runs.pace import OTHERS
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.studies.finetuned_model import FineTunedSpec
from skillviz.studies.plan import plan
from skillviz.studies.spec import StudySpec
from skillviz.studies.status import Snapshot
from skillviz.studies.step import TABLE, Step
from skillviz.tasks import registry

DEVICES = ("cpu", "cuda")
FIELDS = {FINETUNE: "models", LOCALIZE: "runs", SCORE: "scores"}
OF_FACTS = {"base", "task", "readout", "k_shot", "data_seed", "max_train", "max_validation", "max_test", "others"}
CUDA_PROCESS = 3e9  # bytes of host memory of a process with torch and a CUDA context; an assumption, not measured here
TOKENIZER = 5e6  # bytes of the files beside a model's weights
RUN_FILES = 1e5  # bytes of a run's or score's small files
OF_AN_EXAMPLE = 10.0  # bytes of a stored prediction, per label and state: numbers compress to about half
ACTIVATIONS = 150.0  # bytes per token, layer and unit of width, in training and in a score's forward passes
BATCHED_TOKENS = 512  # the longest sequence that a batch is padded to
OPTIMIZER_COPIES = {"SGD": 0, "AdamW": 2}
WEIGHT_COPIES = 3
"""Copies of the graftable values beside the trained model's own: the base's, the gradient, and the best check's."""
GRID_MODELS = 3
"""The models that a grid holds at once: the best, the last, and the next.

Measured: a grid on a random RoBERTa-base with two examples per label and two CPU cores peaked at 5.2 GiB; the estimate
is 5.0.
"""


@dataclass(frozen=True)
class Needs:
    """The remaining needs of a study: counts of steps, peak memory, disk.

    `host` is main memory in bytes by device, `device` the GPU's memory in bytes. `unknown` counts the steps whose
    models or data could not be read; they count as no memory.
    """

    models: int
    runs: int
    scores: int
    left: int
    host: Mapping[str, int]
    device: int
    disk: int
    unknown: int = 0

    def sentences(self) -> Iterator[str]:
        """Yield the needs as sentences for the user."""
        yield (
            f"{counted(self.models, 'model')} to fine-tune, {counted(self.runs, 'run')}, "
            f"{counted(self.scores, 'score')}; {counted(self.left, 'step')} left. The time left shows once a step of "
            "each kind is finished."
        )
        yield (
            f"Memory: {byte_size(self.host['cpu'])} on a CPU; with a GPU {byte_size(self.device)} of its memory and "
            f"{byte_size(self.host['cuda'])} of main memory. From the models' headers, for the largest step."
        )
        yield f"Disk: {byte_size(self.disk)} for models, regions and predictions, without downloads."
        if self.unknown:
            yield (
                f"Nothing is known yet of {counted(self.unknown, 'step')}, whose models or data could not be read: "
                "they count as no memory."
            )


def needs(study: StudySpec, store: Store, workers: int = 1) -> Needs:
    """Return the needs of the missing steps; reads headers and data, no weights. Each worker needs the memory."""
    at = Snapshot(plan(study), store)
    left = [step for step in at.plan.steps if not at.is_there(step)]
    steps = [step for step in left if step.kind != TABLE]
    read = dict[str, Facts]()
    known = [(step, facts) for step in steps if (facts := _facts(step, read)) is not None]
    peaks = {
        name: max((_peak(step, replace(facts, device=name)) for step, facts in known), default=0.0) for name in DEVICES
    }
    weights = max((4.0 * facts.parameters for _, facts in known), default=0.0)
    beside = max(1, min(workers, len(steps)))
    return Needs(
        **{field: sum(step.kind == kind for step in left) for kind, field in FIELDS.items()},
        left=len(left),
        host={"cpu": int(beside * peaks["cpu"]), "cuda": int(beside * (CUDA_PROCESS + 2 * weights)) if known else 0},
        device=int(beside * max(0.0, peaks["cuda"] - PROCESS)),
        disk=int(sum(_disk(step, facts) for step, facts in known)),
        unknown=len(steps) - len(known),
    )


def _facts(step: Step, read: dict[str, Facts]) -> Facts | None:
    """Return the facts of a step's largest task."""
    every = [_facts_of(spec, read) for spec in _specs(step)]
    known = [facts for facts in every if facts is not None]
    return max(known, key=lambda facts: (facts.tokens, sum(facts.counts.values()))) if known else None


def _facts_of(spec: RunSpec, read: dict[str, Facts]) -> Facts | None:
    """Return the facts of a run, from the base alone: the fine-tuned model may not exist yet. None if unreadable.

    `read` holds the facts that were read before.
    """
    plain = RunSpec(**spec.model_dump(include=OF_FACTS), finetuned=spec.base, sizes=("1",))
    key = plain.json_text()
    try:
        if key not in read:
            base = preflight(spec.base, spec.base, registry.task(spec.task), spec.readout)
            read[key] = published_facts(plain, base) or facts_of(plain, check=base)
        facts = read[key]
        return replace(facts, sizes=tuple(parse_size(size, facts.d) for size in spec.sizes))
    except SkillvizError:
        return None


def _specs(step: Step) -> list[RunSpec]:
    """Return runs with a step's models and data."""
    if isinstance(step.spec, RunSpec):
        return [step.spec]
    if not isinstance(step.spec, FineTunedSpec):
        return [step.spec.run_spec()]
    shared = {name: getattr(step.spec, name) for name in ("base", "readout", "k_shot", "max_train", "max_validation")}
    return [RunSpec(**shared, finetuned=step.spec.base, task=task) for task in step.spec.tasks]


def _peak(step: Step, facts: Facts) -> float:
    """Return the peak memory in bytes while a step is made, including the process itself."""
    if isinstance(step.spec, RunSpec):
        return peak_bytes(step.spec, facts)
    if not isinstance(step.spec, FineTunedSpec):
        return PROCESS + 8.0 * facts.parameters + ACTIVATIONS * BATCHED_TOKENS * facts.width
    row = recipe_row(step.spec.optimizer or step.spec.recipe)
    models = GRID_MODELS if step.spec.grid not in (None, "none") else 1
    values = (
        4.0 * models * (facts.parameters + WEIGHT_COPIES * facts.d) + 4.0 * OPTIMIZER_COPIES[row.optimizer] * facts.d
    )
    rows = max(row.grid.batch_sizes) if step.spec.grid == "paper" else step.spec.batch_size or BATCH_SIZE
    return PROCESS + values + ACTIVATIONS * rows * min(BATCHED_TOKENS, 2 * facts.tokens) * facts.width * facts.layers


def _disk(step: Step, facts: Facts) -> float:
    """Return the bytes of the files that a step writes."""
    if isinstance(step.spec, FineTunedSpec):
        count = len(step.spec.tasks)
        folders = {MULTI_TASK: count, CONTINUAL: count * (count + 1) // 2}.get(step.spec.recipe, 1)
        return folders * (4.0 * facts.parameters + TOKENIZER)
    states = 2 + 2 * len(facts.sizes)
    rows = sum(facts.counts.get(name, 0) for name in ("validation", "test", OTHERS))
    region = 4.0 * max(facts.sizes) + 12.0 * facts.sizes[0] if isinstance(step.spec, RunSpec) else 0.0
    return RUN_FILES + region + OF_AN_EXAMPLE * rows * states * facts.labels

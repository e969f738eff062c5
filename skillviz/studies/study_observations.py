"""Collect the observations of a study's finished runs and scores: the records from which its tables are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from skillviz.analysis.answers import answers_by_state
from skillviz.analysis.differences import paired
from skillviz.analysis.observations import (
    PAIR_RECIPE,
    Observation,
    TunedModel,
    ends_of,
    leak_sentences,
    numbers_of,
    of_run,
    once,
    sentences,
    setting,
)
from skillviz.analysis.recovered import recovered, without_gain
from skillviz.analysis.scores import score_table
from skillviz.analysis.seeds import resampled_tests
from skillviz.analysis.tables import notes
from skillviz.analysis.variants import MODEL, SEQUENCE, Name, label_variants, path, run_label
from skillviz.errors import SkillvizError
from skillviz.models.finetune.recipes import MODES, recipe_row
from skillviz.runs.run import Run
from skillviz.runs.score import Score
from skillviz.runs.spec import RunSpec
from skillviz.studies.finetuned_model import FineTunedSpec
from skillviz.studies.results import Results
from skillviz.tasks.project import FINETUNED_VARIABLE

IN_COLUMNS = {"base", "recipe", "readout", "seed", "data_seed", "regions"}
"""Fields of a model that are columns of their own, seeds, or handled separately."""
OF_THE_PAIR = {"base", "finetuned", "task", "readout", "seed", "data_seed", "device", "others", "interpolation"}
"""Fields of a region's run that belong to its model, are seeds, or do not affect the region."""


def of_results(results: Results) -> list[Observation]:
    """Return all observations of a study's finished runs and scores, each state once."""
    observations: list[Observation] = []
    for run in results.runs():
        observations += of_run(run, tuned_model(results, run))
    for score in results.scores():
        mode = results.entry(score).get("mode")
        for one in of_score(score, tuned_model(results, score)):
            observations.append(replace(one, method=MODES[mode]) if mode and one.method == "ft" else one)
    return once(observations)


def of_score(score: Score, model: TunedModel | None = None) -> Iterator[Observation]:
    """Yield the states of a fine-tuned model that was scored without a region."""
    record, spec, model = score.record, score.spec, model or TunedModel()
    leaks = leak_sentences(record.transfer, record.task.name) if record.transfer else ()
    frame = score.predictions()
    for split, scores in record.splits.items():
        rows = frame[frame["dataset"] == score.dataset] if "dataset" in frame else frame
        answers = answers_by_state(rows, split, record.task.labels, record.temperature)
        for state, method, columns in ends_of(model, float(record.architecture.d)):
            if state not in scores.states:
                continue
            yield Observation(
                base=spec.base, recipe=model.recipe, setting=setting(spec.k_shot), id_task=record.task.name,
                task=score.dataset, split=split, method=method, n=scores.n, note=record.task, model=spec.finetuned,
                readout=record.readout, model_fields=model.fields, sentences=leaks, answers=answers.get(state),
                **columns, **numbers_of(scores, state),
            )  # fmt: skip


def tuned_model(results: Results, of: Run | Score) -> TunedModel:
    """Return the recipe, the touched entries and the fields of the fine-tuned model of a run or of scores."""
    recipe = str(results.entry(of).get("recipe") or PAIR_RECIPE)
    return TunedModel(recipe, _touched(results, of), model_fields(results, of))


def _touched(results: Results, of: Run | Score) -> float | None:
    """Return the number of entries in which the study's fine-tuned model differs from its base; None for other models.

    For LoRA and adapters the count is of the parameters that were trained: merged, LoRA's change whole matrices, and
    adapters lie between the base's.
    """
    spec = results.finetuned_of(of)
    if spec is None:
        return None
    task, stage = (of.spec.task, results.entry(of).get("stage")) if len(spec.tasks) > 1 else (None, None)
    try:
        record = results.training_record(spec, task, stage)["finetune"]
    except (SkillvizError, KeyError):  # the model's folder may be gone while its scores remain
        return None
    value = record.get("trained" if recipe_row(spec.recipe).adds_parameters else "touched")
    return None if value is None else float(value)


def model_fields(results: Results, of: Run | Score) -> dict[Name, Any]:
    """Return the requested settings of a fine-tuned model by field, without its seeds.

    An existing model has only its path, because it is unknown whether it differs from another in a seed.
    """
    entry, spec = results.entry(of), results.finetuned_of(of)
    if spec is None:
        return {MODEL: of.spec.finetuned}
    by_folder = {one.name(): one for one in results.plan.finetuned} if spec.regions else {}
    return {**_fields(spec, by_folder), **{name: entry[name] for name in SEQUENCE if name in entry}}


def run_variants(results: Results) -> list[str]:
    """Return labels that separate each run from others of its task and localizer.

    They name base, recipe, training and options, but not size and seeds.
    """
    runs = results.runs()
    return label_variants(
        [((run.record.task_name, run.spec.localizer), _run_fields(results, run)) for run in runs], run_label
    )


def finetuned_labels(results: Results) -> Callable[[Run], dict[str, Any]]:
    """Return the labels of a run's step, with the spec of its fine-tuned model without seeds."""

    def labels(run: Run) -> dict[str, Any]:
        spec = results.finetuned_of(run)
        text = None if spec is None else spec.model_copy(update={"seed": 0, "data_seed": 0}).json_text()
        return {**results.entry(run), "finetuned_spec": text}

    return labels


def _run_fields(results: Results, run: Run) -> dict[Name, Any]:
    """The fields of model and search; the search's options, such as its steps, are under the localizer's name."""
    spec = run.spec
    model = {"recipe": results.entry(run).get("recipe", PAIR_RECIPE), **model_fields(results, run)}
    search: dict[Name, Any] = {(spec.localizer, name): value for name, value in spec.search_fields().items()}
    return {"base": spec.base, **model, "readout": spec.readout, **search}


def _fields(spec: FineTunedSpec, by_folder: Mapping[str, FineTunedSpec]) -> dict[Name, Any]:
    """Return the fields of a model and of its regions; a value that all regions share appears once.

    `by_folder` are the study's models by the names of their folders.
    """
    fields: dict[Name, Any] = {n: value for n, value in spec.model_dump(mode="json").items() if n not in IN_COLUMNS}
    if capacity := recipe_row(spec.recipe).capacity:  # its default is a size like the others
        fields |= {capacity[0]: fields[capacity[0]] or capacity[1]}
    regions = [_region_fields(region, by_folder) for region in spec.regions]
    for name in dict.fromkeys(name for region in regions for name in region):
        values = [region.get(name) for region in regions]
        fields["region", *path(name)] = values[0] if all(value == values[0] for value in values) else values
    return fields


def _region_fields(spec: RunSpec, by_folder: Mapping[str, FineTunedSpec]) -> dict[Name, Any]:
    """Return the fields of a region's run and of the model on which it was searched."""
    fields = spec.model_dump(mode="json", exclude=OF_THE_PAIR)
    options = fields.pop("options")
    sizes = ", ".join(fields.pop("sizes"))
    first, *rest = PurePosixPath(spec.finetuned).parts
    model = by_folder.get(rest[0]) if first == f"${{{FINETUNED_VARIABLE}}}" and rest else None
    tuned: dict[Name, Any] = {"recipe": model.recipe, **_fields(model, by_folder)} if model else {MODEL: spec.finetuned}
    tuned.pop("tasks", None)
    return {**fields, "sizes": sizes, **options, **{(MODEL, *path(name)): value for name, value in tuned.items()}}


def score_tables(
    observations: Sequence[Observation], pairs: Sequence[tuple[str, str]], *remarks: str, with_gain: bool = False
) -> dict[str, pd.DataFrame]:
    """Return scores, differences of these pairs of methods, and the note: remarks, then the observations' sentences.

    `with_gain` adds the table recovered, and to the note the tasks without a gain to recover.
    """
    drawn = resampled_tests(observations)
    return {
        "scores": score_table(observations, drawn),
        **({"recovered": recovered(observations, resampled=drawn)} if with_gain else {}),
        "differences": paired(observations, pairs, drawn),
        "note": notes(*remarks, *sentences(observations), *(without_gain(observations, drawn) if with_gain else ())),
    }

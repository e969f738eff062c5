"""Make the tables of a study: its experiment's tables, general ones for other studies, and tables of runs alone."""

from __future__ import annotations

import pandas as pd

from skillviz.analysis import run_tables
from skillviz.analysis.differences import paired
from skillviz.analysis.observations import sentences, with_readouts
from skillviz.analysis.recovered import recovered, without_gain
from skillviz.analysis.run_tables import composition, stability_of_runs
from skillviz.analysis.scores import score_table
from skillviz.analysis.seeds import resampled_tests
from skillviz.analysis.tables import check, notes
from skillviz.core.localizers.table import RIVALS
from skillviz.models.finetune.recipes import FEW, RECIPES
from skillviz.studies.federated import federated_table
from skillviz.studies.paper.experiments import EXPERIMENTS
from skillviz.studies.results import Results
from skillviz.studies.spec import StudySpec
from skillviz.studies.study_observations import finetuned_labels, of_results, run_variants
from skillviz.studies.task_sequence import stages_and_notes
from skillviz.studies.task_unions import overlap_and_notes

MODELS = tuple(RECIPES[name].method for name in FEW)
PAIRS = (
    *(("graft", rival) for rival in (*RIVALS, "ft", "ft_scaled", "pretrained")),
    *((model, "ft") for model in MODELS),
    *((model, "graft") for model in MODELS),
)


def make_tables(study: StudySpec, results: Results) -> dict[str, pd.DataFrame]:
    """Return the tables of a study by name, each checked."""
    experiment = EXPERIMENTS.get(study.experiment or "")
    tables = experiment.tables(results) if experiment else tables_of_any_study(results)
    return {name: check(frame, name) for name, frame in tables.items()}


def tables_of_any_study(results: Results) -> dict[str, pd.DataFrame]:
    """Return the tables of a study without an experiment, from its finished steps.

    A row is one setting over its seeds. The tables are scores, differences, recovered gain, composition and stability;
    for a sequence also its stages, and for regions of one model of several tasks their overlap.
    """
    observations = with_readouts(of_results(results))
    drawn = resampled_tests(observations)
    stages, of_stages = stages_and_notes(results)
    shared, of_shared = overlap_and_notes(results)
    return {
        "scores": score_table(observations, drawn),
        "differences": paired(observations, PAIRS, drawn),
        "recovered": recovered(observations, resampled=drawn),
        "composition": composition(results.runs(), run_variants(results)),
        "stability": stability_of_runs(results.runs(), finetuned_labels(results)),
        **stages,
        **shared,
        **federated_table(results),
        "note": notes(*sentences(observations), *without_gain(observations, drawn), *of_stages, *of_shared),
    }


def tables_of_runs(results: Results) -> dict[str, pd.DataFrame]:
    """`scores` and `differences` of all finished runs, pair by pair, as in analysis.run_tables; valid at any time."""
    runs = results.runs()
    return {"scores": run_tables.table_of_runs(runs), "differences": run_tables.differences(runs)}

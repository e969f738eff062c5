"""Compare all localizers on one task, with several fine-tuned models and the nulls of each search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.core.formats import listed
from skillviz.core.localizers.table import LOCALIZERS, RIVALS
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.setting import SEARCH, SettingRow, sizes_row, tasks_row, trained, tuning_row
from skillviz.studies.study_observations import of_results, score_tables

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

SIZES = (0.001, 0.01)
FINETUNING_SEEDS = [0, 1, 2]
MAIN_SEARCH = "stagewise"
PAIRS = tuple(("graft", rival) for rival in (*RIVALS, "ft", "pretrained"))


def compared() -> list[str]:
    """Return the localizers with grafts of fine-tuned values at any requested size, and the paper's learned mask."""
    return [name for name, row in LOCALIZERS.items() if row.makes_graft and (row.budgeted or name == "learned")]


def entries(scale: Scale) -> list[Entry]:
    """Each localizer on models of three fine-tuning seeds, with one mask seed each, for one task or those requested.

    Every search has a null of shuffled movement at the main size; the main search has all nulls, at every size.
    """
    runs = []
    for task in scale.some("one"):
        model = scale.finetuned_model(task, seed=FINETUNING_SEEDS if scale.seeds == 1 else list(range(scale.seeds)))
        for name in compared():
            if name == MAIN_SEARCH:  # a null is made at a run's main size only, so each size is a run
                runs.append(scale.each(model, name, _sizes(scale, name), seed=0, nulls="all"))
            else:
                runs.append(scale.search(model, name, _sizes(scale, name), seed=0, nulls="shuffled"))
    return runs


def _sizes(scale: Scale, name: str) -> tuple[float, ...]:
    """Return the sizes of a localizer's regions; the learned mask determines its own."""
    sizes = scale.sizes if scale.chosen else SIZES
    return sizes[:1] if name == "learned" else sizes


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return scores, recovered and differences of every localizer's graft."""
    return score_tables(of_results(results), PAIRS, with_gain=True)


def differs(scale: Scale) -> list[SettingRow]:
    """Return its task, its models, and the localizers."""
    names = [LOCALIZERS[name].title for name in compared()]
    return [
        tasks_row(scale, "none", scale.some("one")),
        tuning_row(scale, f"{trained(scale)}; three seeds"),
        SettingRow(SEARCH, "learned mask, top movement, FISH mask, random", listed(names, 99)),
        sizes_row(scale, SIZES),
    ]


LOCALIZERS_COMPARED = Experiment(
    name="localizers",
    title="The localizers",
    question="Which localizer finds the best region, and how far is its graft beyond a null?",
    finding="The paper compares its learned mask with top movement, the FISH mask and random regions, without a null.",
    entries=entries,
    tables=tables,
    makes=("scores", "recovered", "differences", "note"),
    published=(),
    differs=differs,
    shown="curves",
)

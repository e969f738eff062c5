"""Figure 4: the biases alone, and zeros in place of the base's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillviz.core.formats import listed
from skillviz.studies.paper.claims import Claim
from skillviz.studies.paper.comparisons import less
from skillviz.studies.paper.experiment import Experiment
from skillviz.studies.paper.scales import size_text
from skillviz.studies.paper.setting import SettingRow
from skillviz.studies.study_observations import of_results, score_tables

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.paper.scales import Entry, Scale
    from skillviz.studies.results import Results

PAIRS = (("graft", "graft_biases"), ("graft", "graft_lottery"), ("graft_biases", "pretrained"), ("graft_biases", "ft"))
LOTTERY = (0.1, 0.3, 0.5, 0.9)


def entries(scale: Scale) -> list[Entry]:
    """Return a few tasks (or those requested): all biases, the best of them, the lottery ticket to 90%."""
    runs = []
    for task in scale.some("few"):
        model = scale.first(task)
        among_biases = {"options": {"within": "biases"}, "label": "within biases"}
        runs += [
            scale.grafts(task),
            scale.search(model, "biases", scale.sizes[:1]),
            scale.search(model, "learned-ranked", scale.bias_sizes, **among_biases),
            scale.search(model, "lottery", LOTTERY),
        ]
    return runs


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """Return scores and differences; the search within biases is graft_biases of the localizer learned-ranked."""
    observations = [one for one in of_results(results) if one.task == one.id_task]
    return score_tables(
        observations, PAIRS,
        "Lottery: embeddings and head are kept, all other entries outside the region are zero, and nothing is "
        "trained again; the shares are of graftable entries.",
    )  # fmt: skip


def differs(scale: Scale) -> list[SettingRow]:
    """Return the sizes within the biases."""
    return [
        SettingRow(
            "Sizes within the biases", "a curve of sizes", listed([size_text(size) for size in scale.bias_sizes], 9)
        )
    ]


FIGURE4 = Experiment(
    name="figure4",
    title="Figure 4: biases alone, and zero instead of the base",
    question="Are the biases enough as a region? And does a region work when the rest is zero instead of the base?",
    finding="Biases alone do not hold the skill. Keeping a region and zeroing the rest fails up to 90%.",
    entries=entries,
    tables=tables,
    makes=("scores", "differences", "note"),
    claims=(
        Claim("The graft is more accurate than a graft of the biases alone.", less("graft", "graft_biases")),
        Claim(
            "The graft is more accurate than the region with all else set to zero.",
            less("graft", "graft_lottery"),
        ),
    ),
    differs=differs,
    shown="curves",
)

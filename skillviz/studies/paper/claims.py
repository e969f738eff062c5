"""The paper's claims by experiment, each with what judges it; see `verdicts` for how, `comparing` for with what."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from skillviz.studies.comparing import (
    alike,
    before_the_last,
    curves_meet,
    far,
    keeps,
    less,
    near,
    recovers_less,
)
from skillviz.studies.comparing_regions import (
    denser,
    gains,
    helps_itself,
    in_the_middle,
    piles_up,
    related_share_more,
    shares_little,
)
from skillviz.studies.paper.verdicts import Claim, Verdict, judged

CLAIMS: dict[str, tuple[Claim, ...]] = {
    "table1": (
        Claim("A re-trained region is more accurate than its graft.", less("graft_retrain", "graft")),
        Claim("A re-trained region is better calibrated than the whole fine-tune.",
              less("graft_retrain", "ft", "ece", -1)),
        Claim("BitFit is more accurate than the graft.", less("bitfit", "graft")),
        Claim("BitFit is worse calibrated than the graft.", less("bitfit", "graft", "ece")),
    ),
    "table2": (
        Claim("The graft keeps more than 95 % of the fine-tuned score.", keeps(0.95)),
        Claim("The graft is better calibrated than the fine-tuned model.", less("graft", "ft", "ece", -1)),
    ),
    "table3": (
        Claim("For a small shift graft and re-trained region do equally well (within 3 points).",
              alike("graft_retrain", "graft", keep=near)),
        Claim("For a small shift graft and BitFit do equally well (within 3 points).",
              alike("bitfit", "graft", keep=near)),
        Claim("In inference the re-trained region is worse than the graft.",
              less("graft_retrain", "graft", sign=-1, keep=far)),
        Claim("In inference BitFit is worse than the graft.", less("bitfit", "graft", sign=-1, keep=far)),
    ),
    "table4": (
        Claim("Naive training in turn loses what was learned before.",
              before_the_last(less("continual_naive", "independent", sign=-1))),
        Claim("Training in regions keeps more than naive training does.",
              before_the_last(less("continual_graft", "continual_naive"))),
    ),
    "table8": (
        Claim("Less than 10 % of the entries are shared with the FISH mask.", shares_little(0.10)),
        Claim("The graft of the search is more accurate than that of the FISH mask.", less("graft", "graft_fish")),
        Claim("The graft of the search is more accurate than a random one.", less("graft", "graft_random")),
    ),
    "figure2": (
        Claim("At equal size the search beats top movement.", less("graft", "graft_movement")),
        Claim("At equal size the search beats random regions.", less("graft", "graft_random")),
        Claim("The lead over top movement is smaller at the largest size than at the smallest.", curves_meet),
    ),
    "figure3": (
        Claim("With either readout the graft keeps more than 95 % of the fine-tuned score.", keeps(0.95)),
    ),
    "figure4": (
        Claim("The graft is more accurate than one of the biases alone.", less("graft", "graft_biases")),
        Claim("The graft is more accurate than the region with zeros around it.", less("graft", "graft_lottery")),
    ),
    "figure5": (
        Claim("Regions of models tuned with AdamW give back less of the gain.", recovers_less("adamw", "sgd")),
        Claim("An l1 penalty on the movement brings that back.", recovers_less("adamw", "adamw-l1")),
    ),
    "figure6": (
        Claim("More of the fine-tuned model's top probabilities are above 95 % than of the graft's.", piles_up),
    ),
    "figure7": (
        Claim("For a small shift the graft gains nothing over the fine-tuned model (within 3 points).",
              alike("graft", "ft", keep=near)),
        Claim("For a large shift the graft is more accurate than the fine-tuned model.",
              less("graft", "ft", keep=far)),
    ),
    "figure8": (
        Claim("Regions of related tasks overlap more than those of unrelated ones.", related_share_more),
        Claim("A region gives its own task more than regions of unrelated tasks do.", helps_itself),
        Claim("The union of a group gives its tasks 70 % of the gain or more.", gains(0.7, True, False)),
        Claim("After purification that is 80 % or more.", gains(0.8, True, True)),
    ),
    "figure9": (
        Claim("Regions are denser in the middle half of the layers.", in_the_middle),
    ),
    "figure10": (
        Claim("Value matrices hold more than their fair share.", denser(("value",))),
        Claim("The first feed-forward layer holds more than its fair share.", denser(("MLP in",))),
        Claim("LayerNorm holds more than its fair share.", denser(("LayerNorm",))),
    ),
}  # fmt: skip


def verdicts(experiment: str | None, tables: Mapping[str, pd.DataFrame], scale: str | None) -> list[Verdict]:
    """What a study of this experiment says of each of the paper's claims; none where the paper makes none."""
    return judged(CLAIMS.get(experiment or "", ()), tables, scale)

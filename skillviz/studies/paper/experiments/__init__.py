"""The experiments of the paper that can be asked for, one row each; what each does is in studies/exp/<name>.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from skillviz.errors import BadInput
from skillviz.studies.paper.scales import Scale

if TYPE_CHECKING:
    import pandas as pd

    from skillviz.studies.results import Results


class Difference(NamedTuple):
    """A sentence on the setting, true where the study asks for the scale's own of these (fields of a Setting)."""

    sentence: str
    of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A published table or figure as a study.

    `published` are CSVs of studies/published; `makes` the tables of the study, the main one first; `finding` what the
    paper found; `differs`, by scale, what is said of the setting besides the scale's own sentences; `on_other_data`
    that it is about data which a model was not tuned on. The module
    studies/exp/<name>.py has `build(scale)`, the entries of the study file, and `tables(results)`; it is imported when
    one of them is asked for.
    """

    name: str
    title: str
    question: str
    published: tuple[str, ...]
    makes: tuple[str, ...]
    finding: str
    differs: Mapping[str, tuple[Difference, ...]] = field(default_factory=dict)
    on_other_data: bool = False

    @property
    def main(self) -> str:
        """The name of the table that answers the question."""
        return self.makes[0]

    def build(self, scale: Scale) -> dict[str, Any]:
        """The content of the study file at this scale."""
        runs: list[dict[str, Any]] = self._module().build(scale)
        name = f"{self.name}-{scale.name}"
        return {"name": name, "title": self.title, "experiment": self.name, "scale": scale.name, "runs": runs}

    def tables(self, results: Results) -> dict[str, pd.DataFrame]:
        """The study's tables by name, from what of it is finished."""
        made: dict[str, pd.DataFrame] = self._module().tables(results)
        return made

    def differences(self, scale: Scale) -> tuple[str, ...]:
        """Sentences on what differs from the paper's setting, model first: of the study that this scale stands for."""
        from skillviz.studies.paper.setting import setting_differences
        from skillviz.studies.spec import StudySpec

        return setting_differences(StudySpec(**self.build(scale)))

    def _module(self) -> ModuleType:
        return import_module(f"skillviz.studies.paper.experiments.{self.name}")


EXPERIMENTS: dict[str, Experiment] = {
    row.name: row
    for row in (
        Experiment(
            "table1", "Table 1: re-training a region, and BitFit",
            "Is a region, trained anew from the base, as good and as well calibrated as its graft, and are BitFit and "
            "LoRA?",
            ("table1", "table6"), ("scores", "differences", "note"),
            "A re-trained region is a little better than its graft and still calibrated; BitFit is accurate but not.",
            {
                "demo": (
                    Difference("Tasks: three of the demo world instead of SST-2, AG News, QNLI and QQP.", ("tasks",)),
                    Difference(
                        "Steps: 600 for what is trained, where the stored pairs had 1,500 or 3,000.", ("base", "tuning")
                    ),
                    Difference(
                        "Rates: BitFit learns at twelve times the rate of plain SGD: of 5 and 12 times the better one "
                        "on validation data of film-sentiment; LoRA (Table 6 of the paper; rank 8) at 0.005, of four "
                        "rates likewise.",
                        ("base", "rates"),
                    ),
                ),
                "small": (
                    Difference(
                        "Rates: BitFit learns at five times the rate of plain SGD, LoRA (Table 6 of the paper; rank 8) "
                        "at 0.001; no grid.",
                        ("base", "rates"),
                    ),
                ),
            },
        ),
        Experiment(
            "table2", "Table 2: accuracy and calibration of the graft",
            "Does a tiny region hold the fine-tuned skill, and is its graft better calibrated?",
            ("table2",), ("scores", "recovered", "differences", "makeup", "note"),
            "A graft of at most 0.01 % keeps most of the gain and has 40 to 90 % less ECE (4096-shot).",
        ),
        Experiment(
            "table3", "Table 3: other data, after re-training",
            "Does a graft carry over to other data better than a re-trained region or BitFit?",
            ("table3",), ("scores", "differences", "note"),
            "All alike for a small shift; from QNLI to MNLI and SNLI the graft is best, then re-training, then BitFit.",
            {
                "demo": (
                    Difference(
                        "Shifts: films to restaurants and scenes to restaurants instead of SST-2 to Yelp and IMDb and "
                        "QNLI to MNLI and SNLI.",
                        ("shifts",),
                    ),
                ),
                "small": (
                    Difference(
                        "Shift of sentiment: full Yelp reviews only; examples that are in the training data are left "
                        "out.",
                        ("shifts",),
                    ),
                ),
            },
            on_other_data=True,
        ),
        Experiment(
            "table4", "Table 4: tasks learned one after the other",
            "Does a model that learns each task within its region forget the earlier ones less?",
            ("table4",), ("stages", "scores", "differences", "note"),
            "Naive training loses 20 points on the first of three tasks; within regions 1.5 against a model a task.",
            {
                "demo": (
                    Difference(
                        "Tasks: news-inference, news-topic, film-sentiment instead of QNLI, AG News, SST-2.", ("tasks",)
                    ),
                    Difference("Regions of 10 % of the graftable entries, one mask seed.", ("sizes", "search")),
                ),
                "small": (
                    Difference("Regions of 1 % of the graftable entries, one mask seed.", ("sizes", "search")),
                    Difference("Heads: one a task.", ("readout",)),
                ),
            },
        ),
        Experiment(
            "table8", "Table 8: is it the Fisher mask?",
            "Is the searched region the FISH mask, or is a random one as good?",
            ("table8",), ("scores", "overlap", "differences", "note"),
            "The two share about a tenth at most; FISH grafts are worse; random ones are at the pre-trained level.",
            {
                "demo": (
                    Difference("Tasks: two instead of four.", ("tasks",)),
                    Difference("FISH over 256 examples, where the paper tells no number."),
                    Difference("Sizes: 1, 3 and 10 % instead of 0.01, 0.1 and 1 %.", ("sizes",)),
                ),
                "small": (
                    Difference("Tasks: two instead of four.", ("tasks",)),
                    Difference("FISH over 1,024 examples, where the paper tells no number."),
                ),
            },
        ),
        Experiment(
            "figure2", "Figure 2: searched, top movement and random regions by size",
            "How large must a region be to hold the skill, by how it is chosen?",
            ("figures", "table2"), ("scores", "differences", "note"),
            "The searched region is far better at small sizes; the curves meet as it grows.",
        ),
        Experiment(
            "figure3", "Figure 3: prompt against classification-head fine-tuning",
            "Does fine-tuning with a classification head localize as well as with a prompt?",
            ("figures",), ("scores", "differences", "note"),
            "Both localize equally well.",
            {
                "small": (
                    Difference(
                        "The base has no language-model head: only the head readout is asked here.", ("base", "readout")
                    ),
                ),
            },
        ),
        Experiment(
            "figure4", "Figure 4: biases alone, and zero instead of the base",
            "Can the region lie in the biases alone, and does it work with zeros in place of the base's values?",
            ("figures",), ("scores", "differences", "note"),
            "Biases alone do not hold the skill; keeping a region and zeroing the rest fails up to 90 %.",
        ),
        Experiment(
            "figure5", "Figure 5: SGD against AdamW",
            "Does a model that was fine-tuned with AdamW localize, and with an l1 penalty on its movement?",
            ("figures",), ("scores", "differences", "note"),
            "AdamW localizes much worse; an l1 penalty of 0.001 brings localization back.",
        ),
        Experiment(
            "figure6", "Figure 6: how sure the models are",
            "Why is the graft better calibrated: how sure is each model of its answers?",
            ("figures",), ("histogram", "scores", "note"),
            "The fine-tuned model's top probabilities pile up near 1; the graft's are spread.",
        ),
        Experiment(
            "figure7", "Figure 7: out of distribution, by size and on the ways between the models",
            "Does the graft carry over to other data better than the fine-tuned model, and what lies between them?",
            ("figures", "table7"), ("scores", "differences", "paths", "note"),
            "No gain for small shifts; for large ones the graft is 5 points better or more; WiSE on grafts competes.",
            {
                "demo": (Difference("Shifts: films to restaurants and scenes to restaurants.", ("shifts",)),),
                "small": (
                    Difference(
                        "Shifts: sentiment to full Yelp reviews, MNLI to SNLI, QNLI to MNLI and SNLI (two labels).",
                        ("shifts",),
                    ),
                ),
            },
            on_other_data=True,
        ),
        Experiment(
            "figure8", "Figure 8: regions in one model of several tasks",
            "Do the regions of several tasks overlap, and what does one of them, or a union, give each task?",
            ("figures",), ("overlap", "gain", "isolation", "scores", "stability", "note"),
            "Regions hardly overlap, those of related tasks more; a region helps its task and kin; a union most of all "
            "in it, the more after purification.",
            {
                "demo": (
                    Difference("Tasks: four of the demo world instead of eight.", ("tasks",)),
                    Difference("Head: one for all tasks, the language model's.", ("readout",)),
                ),
                "small": (
                    Difference(
                        "Tasks: SST-2, CR, QNLI and MNLI instead of eight (--tasks takes more).", ("tasks",)
                    ),
                    Difference("Heads: one a task, which the pre-trained state has too.", ("readout",)),
                ),
            },
        ),
        Experiment(
            "figure9", "Figure 9: where regions lie, by layer",
            "In which layers do the regions of the tasks lie?",
            ("figures",), ("makeup", "note"),
            "Mostly in the middle layers, AG News apart; entries of LayerNorms are spread evenly.",
        ),
        Experiment(
            "figure10", "Figure 10: where regions lie, by kind of module",
            "In which kinds of modules do the regions of the tasks lie?",
            ("figures",), ("makeup", "note"),
            "The value matrices, the first feed-forward layers and the LayerNorms hold most of them.",
        ),
        Experiment(
            "sensitivity", "The constants of the searches",
            "How far do the published constants of the learned mask carry over, and those of the other searches?",
            (), ("sensitivity", "note"),
            "Not in the paper, which tells one learning rate (1e7), one bias (10) and 100 steps.",
        ),
    )
}  # fmt: skip


def experiment(name: str) -> Experiment:
    """The row of that name; raises BadInput with the known names."""
    if name not in EXPERIMENTS:
        raise BadInput(f"'{name}' is not an experiment; known: {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]

"""Tests of the computed sentences: numbers in bold, and no claim that its interval does not support; of the words in a
study's table; and of alt texts, which give readers who cannot see a figure its values."""

import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.tables import csv_text
from skillviz.core.verdicts import NO_DIFFERENCE, NOT_MEASURED
from skillviz.runs import held_out
from skillviz.runs.record import Architecture, Estimate, RunRecord, Scores, TaskNote
from skillviz.runs.spec import RunSpec
from skillviz.show import alt, checkpoints, continual, interpolation, methods, sentences, studies, tasks, text, transfer
from skillviz.show.table_words import worded
from tests.core.by_hand import by_hand
from tests.plots import frames, study_frames, wise_frames
from tests.studies.fake_tables import FAKE_TABLES
from tests.tables import check, equal, plain, says


def record(metric: str = "accuracy") -> RunRecord:
    spec = RunSpec(base="a/base", finetuned="a/tuned", task="sst2")
    task = TaskNote(name="sst2", labels=("negative", "positive"), metric=metric)
    shape = Architecture(model_type="bert", known=True, d=10_646_784, layers=6)
    return RunRecord(
        run_id="x", spec=spec, key="k", status="finished", created="2026-01-01T00:00:00+00:00",
        task=task, architecture=shape, size=10_646, share=10_646 / 10_646_784,
    )  # fmt: skip


def estimate(value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value=value, low=low, high=high)


def scores(difference: Estimate, *, metric: str = "accuracy", recovered: Estimate | None = None) -> Scores:
    states = {
        "pretrained": {metric: estimate(0.632), "ece": estimate(0.073)},
        "grafted": {metric: estimate(0.801, 0.774, 0.826), "ece": estimate(0.054)},
        "finetuned": {metric: estimate(0.864), "ece": estimate(0.083)},
    }
    recovered = recovered or estimate(0.728, 0.65, 0.80)
    return Scores(n=900, states=states, differences={"ece": difference}, recovered=recovered)


BETTER, WORSE, UNSURE = estimate(-0.029, -0.051, -0.008), estimate(0.03, 0.01, 0.05), estimate(-0.02, -0.05, 0.01)
LOTTERY = RunSpec(base="a/base", finetuned="a/tuned", task="sst2", localizer="lottery")


def with_temperature(**fields: object) -> str:
    return sentences.temperature(record().model_copy(update=fields))


test_what_is_said_of_a_run = says({
    "how little was copied and what it brings back": (
        lambda: sentences.overview(record(), scores(BETTER)),
        ("**0.1%** of the graftable parameters (10,646 of 10,646,784)", "recover **73%** of the gain (95%: 65–80)",
         "accuracy 63.2% → 80.1%, fine-tuned 86.4%", "**Better calibrated**", "ECE 5.4% vs 8.3%",
         "−2.9 points (95%: −5.1 to −0.8)"),
    ),
    "a control brings nothing back": (
        lambda: sentences.overview(record().model_copy(update={"spec": LOTTERY}), scores(BETTER)),
        ("^A control: **0.1%**", "**the rest is zero**", "Accuracy 80.1% (77.4–82.6); with all of them zero", "63.2%",
         "86.4%"),
        ("recover",),
    ),
    "no claim where the interval includes zero": (
        lambda: sentences.overview(record(), scores(UNSURE)),
        ("no clear difference", "n = 900"),
        ("etter calibrated", "orse calibrated"),
    ),
    "no claim without an interval": (lambda: sentences.calibration(scores(estimate(-0.029))), (), ("better",)),
    "a worse graft": (lambda: sentences.overview(record(), scores(WORSE)), ("**Worse calibrated**",)),
    "an undefined gain is not made up": (
        lambda: sentences.overview(record(), scores(UNSURE, recovered=estimate(None))),
        ("interval reaches 0",),
        ("recover **", "no gain to recover"),
    ),
    "F1": (lambda: sentences.overview(record("f1"), scores(UNSURE, metric="f1")), ("F1 63.2",)),
    "equal mass": (
        lambda: sentences.ece_basis(20, True, 1821),
        ("20 bins of equal mass on 1,821 examples", "use equal width"),
        ("below 0",),
    ),
    "equal width": (
        lambda: sentences.ece_basis(20, False, 1821), ("below 0 is shown as 0",), ("use equal width",),
    ),
    "two errors": (
        lambda: sentences.ece_against("finetuned", {"grafted": 0.054, "finetuned": 0.083}, BETTER),
        ("^ECE **5.4%** for the graft, **8.3%** for the fine-tuned model: −",),
    ),
    "one run": (lambda: sentences.library(1, 1, 0), ("^**1 run** on 1 task.$",)),
    "many runs": (lambda: sentences.library(70, 2, 3), ("on 2 tasks; 3 did not finish.$",)),
    "a region chosen in one step": (
        lambda: sentences.one_step(record(), float("nan")), ("without looking at the loss",),
    ),
    "a loss only where there was one": (
        lambda: sentences.one_step(record(), 0.6931), ("**0.69** nats", "10,646"),
    ),
    "a temperature": (
        lambda: with_temperature(temperature=1.37), ("temperature 1.37, fitted on validation data",),
    ),
    "a temperature at an end of its range": (
        lambda: with_temperature(temperature=None, unfitted=held_out.AT_END),
        (f"^{held_out.why_not(held_out.AT_END)}$",),
    ),
    "no temperature": (lambda: with_temperature(temperature=None), ("no validation predictions",)),
})  # fmt: skip


test_verdicts = by_hand(
    ("less ECE", "better", sentences.verdict, "ece", BETTER),
    ("more ECE", "worse", sentences.verdict, "ece", WORSE),
    ("ECE, an interval with zero", NO_DIFFERENCE, sentences.verdict, "ece", UNSURE),
    ("more accuracy", "better", sentences.verdict, "accuracy", WORSE),
    ("less accuracy", "worse", sentences.verdict, "accuracy", BETTER),
    ("less NLL", "better", sentences.verdict, "nll", BETTER),
    ("nothing", NOT_MEASURED, sentences.verdict, "ece", None),
    ("no interval", NOT_MEASURED, sentences.verdict, "ece", estimate(-0.1)),
    ("an interval that ends at zero", NO_DIFFERENCE, sentences.verdict, "ece", estimate(-0.02, -0.04, 0.0)),
    ("an interval without width", NOT_MEASURED, sentences.verdict, "ece", estimate(-0.3, -0.3, -0.3)),
    ("the same predictions twice", NO_DIFFERENCE, sentences.verdict, "ece", estimate(0.0, 0.0, 0.0)),
)


def region(selected: list[int], ratios: list[float], shares: list[float]) -> str:
    """Return the sentence on a region with so many entries by kind and such shares by layer."""
    names = ["value", "MLP in", "LayerNorm"][: len(selected)]
    kinds = pd.DataFrame({"kind": names, "selected": selected, "total": 1000, "density_ratio": ratios})
    return sentences.region(kinds, pd.DataFrame({"layer": range(len(shares)), "share": shares}))


def sparsity(metric: str, **columns: object) -> str:
    """Return what is read from a line of one size, of three seeds unless another number is given."""
    point = {"localizer": "a", "size": 1000, "value": 0.8, "low": 0.7, "high": 0.9, "settings": "", "share": 0.001}
    return sentences.sparsity_reads(pd.DataFrame([{**point, "seeds": 3, **columns}]), metric)


test_what_is_said_of_a_region_and_of_a_line = says({
    "the largest and the densest kind": (
        lambda: region([30, 60, 10], [1.5, 0.8, 4.0], [0.1, 0.3, 0.4, 0.2]),
        ("The module with the most is **MLP in** (60%);", "the densest is **LayerNorm** (4.0× the average density).",
         "**Layers 1–2** hold 70% of the region."),
    ),
    "one layer that holds half": (lambda: region([1], [1.0], [0.2, 0.6, 0.2]), ("**Layer 1** holds 60",)),
    "an empty region": (lambda: region([0], [0.0], [0.0]), ("^The region is empty: nothing was copied.$",)),
    "three seeds": (lambda: sparsity("accuracy"), ("up to 3 seeds",)),
    "one seed": (lambda: sparsity("accuracy", seeds=1), ("one seed",)),
    "a debiased error": (lambda: sparsity("ece", debiased=0.02), ("at the debiased ECE",)),
    "an error as it is": (lambda: sparsity("ece", debiased=np.nan), ("plug-in ECE, without intervals",)),
    "a loss": (lambda: sparsity("nll"), (), ("debiased",)),
    **{
        what: (
            lambda after=after, share=share: sentences.no_gain(
                Scores(n=9, states={"pretrained": {"accuracy": estimate(0.5)}, "finetuned": {"accuracy": after}},
                       recovered=share),
                "accuracy",
            ),
            words,
        )
        for what, after, share, *words in (
            ("no gain", estimate(0.5), None, f"^{plain(sentences.NO_GAIN)}$"),
            ("worse than the base asks for the labels", estimate(0.2), None, "id2label"),
            ("a gain", estimate(0.9), estimate(0.8), "^$"),
        )
    },
})  # fmt: skip


def recipe(stored: str) -> list[str]:
    return worded(pd.DataFrame({"recipe": [stored], "recipe_b": [stored], "variant": ["rank 8"]})).loc[0].tolist()


BREAKS = "95%: 17.6–21.5, fine-tuned - here"
test_names_are_told_in_words = equal({
    **{f"the recipe {stored}": (partial(recipe, stored), [shown, shown, "rank 8"]) for stored, shown in (
        ("sgd", "SGD"), ("continual", "one task after the other"), ("adamw-l1", "AdamW + L1"), ("a new one",) * 2,
    )},
    **{f"the source {source}": (partial(text.short_source, source), shown) for source, shown in (
        ("/data/models/minilm-l6", "minilm-l6"), ("../out/minilm-sst2/", "minilm-sst2"),
        ("microsoft/MiniLM",) * 2, ("org/name@main",) * 2, ("org/name@" + "a1" * 20, "org/name@a1a1a1a"),
        ("C:\\models\\mine", "mine"), ("tasks/mine.yaml",) * 2, ("./tasks/mine.yaml", "mine"),
    )},
    # A generated text is one line that begins no list.
    **{f"the text {written!r}": (partial(text.plain_line, written), shown) for written, shown in (
        ("\nParis\n\n- Rome\n=====", "Paris  - Rome ====="), ("- Rome", r"\- Rome"), ("12. Rome", r"12\. Rome"),
        ("  # Rome", r"\# Rome"), ("Rome, 12. May -",) * 2, (" \n", ""),
    )},
    # A command in a sentence stays code.
    **{f"the sentence {written}": (partial(text.with_code, written, *names), shown) for written, shown, *names in (
        ("set A_B; `run --x '${A_B}'` makes it", r"set A\_B; `run --x '${A_B}'` makes it"), ("a `b", r"a \`b"),
        ("on sst2: `run --task sst2`, my_cr", r"on SST-2\: `run --task sst2`, my\_cr", text.tasks),
        ("on sst2: x", r"on sst2\: x"),  # an error's ids
    )},
    "a label breaks between its words alone": (
        lambda: text.unbroken(BREAKS), BREAKS.replace("–", "–\u2060").replace("e-t", "e-\u2060t"),
    ),
    "the last part of an id": (lambda: text.last_part("microsoft/MiniLM"), "MiniLM"),
    "the last part of a path": (lambda: text.last_part("/data/MiniLM/"), "MiniLM"),
    "a user's names are not read as Markdown": (
        lambda: text.plain("a_b*c [d](e) $x$ :red[f]"), r"a\_b\*c \[d\]\(e\) \$x\$ \:red\[f\]",
    ),
})  # fmt: skip


def test_tasks_have_readable_names_for_readers_and_ids_in_files() -> None:
    gain = FAKE_TABLES["gain"](("cr", "film-reviews"), np.random.default_rng(0))
    shown = tasks.gain(gain, ("cr", "film-reviews"), "light")
    assert csv_text(shown.table) == (ids := csv_text(gain)) and "cr + film-reviews" in ids and "CR" not in ids, (
        "keys stay"
    )
    assert set(shown.figure.layout.xaxis.ticktext) == {"CR", "film-reviews"}
    assert "CR + film-reviews on CR" in shown.alt
    assert set(worded(gain)["region_tasks"]) - {""} == {"CR", "film-reviews", "CR + film-reviews"}
    assert gain["region_tasks"].map(type).eq(tuple).all(), "the argument is left as it is"


STATES = pd.DataFrame({"state": ["grafted", "temperature"], "metric": ["accuracy", "nll"], "value": [0.801, 0.43]})
OF_TEXT = pd.DataFrame({"state": ["grafted"] * 2, "metric": ["exact_match", "perplexity"], "value": [0.5, 8.25]})
HISTORY = pd.DataFrame({"loss": [0.7, None, 0.4], "added": [1000, 20, 3], "removed": [0, 5, 2]})
CELLS = pd.DataFrame(
    {"layer": pd.array([0, 1, None], dtype="Int64"), "kind": ["value", "key", "other"],
     "density_ratio": [0.5, 3.0, 0.0], "movement_share": 0.0}
)  # fmt: skip
BINS = pd.DataFrame(
    {"state": "finetuned", "count": [10, 30], "confidence": [0.6, 0.99], "accuracy": [0.6, 0.89],
     "lower": [0.5, 0.9], "upper": [0.6, 1.0]}
)  # fmt: skip
SIZES = pd.DataFrame(
    {"localizer": ["a", "b", "b"], "share": [0.001, 0.001, 0.01], "value": [0.8, 0.7, 0.75], "settings": ""}
)
test_figures_are_read_out = says({
    "models": (
        lambda: alt.overview(STATES),
        ("^Models side by side. grafted accuracy 80.1%; temperature-scaled NLL 0.430.$",),
    ),
    "generated texts": (
        lambda: alt.overview(OF_TEXT), ("grafted exact match 50.0%; grafted perplexity 8.25",),
    ),
    "a search by its ends": (
        lambda: alt.history(HISTORY),
        ("^Training loss over 3 steps, from 0.700 to 0.400 nats; 1,023 entries were switched on, 7 off.$",),
    ),
    "no search": (lambda: alt.history(HISTORY.iloc[:0]), ("no steps",)),
    "the largest cells first": (
        lambda: alt.region_map(CELLS, "density"), ("densest: layer 1 key 3.0×, layer 0 value 0.50×.$",),
    ),
    "no movement": (lambda: alt.region_map(CELLS, "movement"), ("nothing to show.$",)),
    "over-confidence with its sign": (lambda: alt.reliability(BINS), ("+7.5 points",)),
    "a histogram": (lambda: alt.histogram(BINS), ("fine-tuned: 75.0",)),
    "a localizer with one size, told once": (
        lambda: alt.sparsity(SIZES, "accuracy"), ("a 80.0% at 0.1%;", "b 70.0% at 0.1% and 75.0% at 1%."),
    ),
})  # fmt: skip


ERRORS = {"metric": "ece", "value": 0.083, "debiased": 0.07, "low": 0.06, "high": 0.08}
READ_OUT: dict[str, Callable[[], str]] = {
    "states": lambda: alt.overview(pd.DataFrame([{"state": "grafted", **ERRORS}])),
    "sizes": lambda: alt.sparsity(study_frames.points().assign(share=0.1, localizer="a", settings="", **ERRORS), "ece"),
    "other tasks": lambda: transfer.states_alt(pd.DataFrame([{"dataset": "mr", "state": "grafted", **ERRORS}]), "ece"),
    "methods": lambda: methods.touched_words(study_frames.points().assign(**ERRORS), "ece"),
    "method minus graft": lambda: methods.against_graft(
        study_frames.differences().assign(**ERRORS), "ece", "mr", 0.1, "light"
    ).alt,
    "settings": lambda: studies.settings(
        study_frames.settings().query("metric != 'size'").assign(task="mr", seed=0, share=0.1, **ERRORS),
        "mr", "ece", "light",
    ).alt,
    "checkpoints": lambda: checkpoints.panel(
        frames.checkpoints().query("metric == 'ece'").assign(**ERRORS), "sst2_sentences", "calibration", "light"
    ).alt,
    "paths": lambda: interpolation.paths_alt(wise_frames.points().query("metric == 'ece'").assign(**ERRORS), "ece"),
    "in and out of distribution": lambda: interpolation.trade_alt(
        wise_frames.points().query("metric == 'ece'").assign(**ERRORS), wise_frames.INSIDE, wise_frames.OUTSIDE, "ece"
    ),
    "stages": lambda: continual.stages(frames.stages().assign(**ERRORS), "ece", {}, "light").alt,
}  # fmt: skip


@pytest.mark.cases(3, 3)
@pytest.mark.parametrize("name", READ_OUT)
def test_a_calibration_error_is_read_out_without_its_bias(name: str) -> None:
    check(READ_OUT[name](), ("7.0",), ("8.3",))

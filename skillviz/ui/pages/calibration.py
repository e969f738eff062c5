"""The calibration page's settings, and its verdicts for the chosen bins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.core import formats
from skillviz.core.calibration_error import BINS
from skillviz.core.metrics import metric_row, panels
from skillviz.runs.example_sets import ExampleSet
from skillviz.runs.held_out import why_not
from skillviz.runs.record import SPLITS
from skillviz.runs.run import Run
from skillviz.show import calibration, gain, measures, sentences
from skillviz.show import out_of_scope as scope
from skillviz.show.briefs import headline_split
from skillviz.show.glossary import about
from skillviz.ui import cache, controls, example_sets, page
from skillviz.ui.chart import show, theme
from skillviz.ui.chip import chip_text
from skillviz.ui.page import missing
from skillviz.ui.page_table import PAGES

FEWEST, MOST = 2, 50


@dataclass(frozen=True)
class Choice:
    """The user's choices on the calibration page; `states` in the order of the panels, `within` a named set."""

    split: str
    bins: int
    equal_mass: bool
    smooth: bool
    states: tuple[str, ...]
    within: ExampleSet | None = None
    examples: str = ""  # names split and set in the keys of cached values


def refuse_references(run: Run) -> None:
    """Shows an explanation and stops if the task has reference texts: it then has no classes, and so no confidence."""
    if reason := sentences.no_confidence(run.record):
        scored = formats.listed([metric_row(name).title for name in panels(run.record.metric)], 2)
        with missing("No calibration", reason, "block"):
            st.page_link(PAGES["sparsity"].link(), label=f"See {scored} by region size")
        st.stop()


def controls_of(run: Run, place: DeltaGenerator) -> Choice:
    """Draws the controls and returns the user's choices; `place` names the chosen set of examples."""
    splits = [split for split in reversed(SPLITS) if split in run.record.metrics]
    split = controls.segments("split", "Examples", splits, headline_split(run.record))
    within = example_sets.chosen_set(run, split, place)
    bins = controls.whole("bins", "Bins", FEWEST, MOST, BINS, help=about("ece"))
    kinds = {"width": "equal width", "mass": "equal mass"}
    kind = controls.segments("kind", "Kind of bins", tuple(kinds), "width", shown=kinds.get, help=about("equal_mass"))
    shape = controls.segments("shape", "Reliability", ("bins", "smooth"), "bins", help=about("smece"))
    scaled = False
    if run.record.temperature is not None:
        scaled = controls.switch("scaled", "Temperature-scaled model", True, help=about("temperature"))
    if not run.record.unfitted:
        st.caption(sentences.temperature(run.record))
    before = controls.switch("pretrained", "Pre-trained model", False)
    states = (
        ("grafted", "finetuned") + ((measures.TEMPERATURE,) if scaled else ()) + (("pretrained",) if before else ())
    )
    return Choice(split, bins, kind == "mass", shape == "smooth", states, within, f"{split} {hash(within)}")


def state_logits(run: Run, choice: Choice) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The logits [n, label] of the chosen states and the labels [n], of the named set's examples if there is one."""
    logits, labels = page.state_logits(run, choice.split, choice.states)
    if choice.within is None:
        return logits, labels
    places = measures.places(page.stored_table(run, "predictions"), choice.split)
    rows = [places[example] for example in choice.within.ids]
    return {state: z[rows] for state, z in logits.items()}, labels[rows]


def reliability_bins(
    run: Run, choice: Choice, logits: dict[str, np.ndarray], labels: np.ndarray
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The states' tables by bin: in the chosen bins, and in bins of equal width, because equal mass looks flat."""
    kinds = (choice.equal_mass, False)
    first, second = (
        cache.computed(
            ("bins", choice.examples, *choice.states, str(choice.bins), str(equal_mass)), [run],
            partial(measures.reliability_bins, logits, labels, choice.bins, equal_mass),
        )
        for equal_mass in kinds
    )  # fmt: skip
    return first, second


def verdicts(run: Run, choice: Choice, logits: dict[str, np.ndarray], labels: np.ndarray) -> None:
    """Draws the paired difference in ECE to each rival of the graft with its verdict, the first as a chip, and bins.

    Also shows why there is no temperature-scaled model, if no temperature could be fitted."""
    (verdict, first), *others = calibration.verdicts(logits, labels, choice.bins, choice.equal_mass)
    lines = [f"{chip_text(verdict)} {first}"]
    lines += [f"{formats.capital(verdict)}. {words}" for verdict, words in others]
    st.markdown("  \n".join(lines))
    scaled = "" if choice.within else gain.scaled_errors(run.record, choice.split)  # stored for the whole split
    if scaled:
        st.markdown(f"These are before temperature scaling of the graft. {scaled}", help=about("scale"))
    if why := why_not(run.record.unfitted):
        st.caption(why)
    st.caption(
        sentences.ece_basis(choice.bins, choice.equal_mass, len(labels)), help=about("ece", "debiased", "paired")
    )


def reliability(
    run: Run, choice: Choice, logits: dict[str, np.ndarray], labels: np.ndarray, bins: pd.DataFrame
) -> None:
    """Draws accuracy against confidence in the chosen bins, or smoothed."""
    errors, p_values = cache.computed(
        ("errors", choice.examples, *choice.states, str(choice.bins), str(choice.equal_mass)), [run],
        partial(measures.calibration_of, logits, labels, choice.bins, choice.equal_mass),
    )  # fmt: skip
    if not choice.smooth:
        show(calibration.reliability(bins, theme(), errors=errors, p_values=p_values), run.id)
        return
    curves, smooth = cache.computed(
        ("smooth", choice.examples, *choice.states),
        [run],
        partial(measures.smooth_reliability, logits, labels),
    )
    show(calibration.smooth_reliability(curves, smooth, theme(), errors, p_values), run.id)


def risk(run: Run, choice: Choice, logits: dict[str, np.ndarray], labels: np.ndarray) -> None:
    """Draws the section on answering only the most confident examples, with the graft's verdicts."""
    curves = cache.computed(
        ("risk", choice.examples, *choice.states),
        [run],
        partial(measures.risk_coverage, logits, labels),
    )
    st.markdown(f"## {calibration.RISK_TITLE}", help=about(*calibration.RISK_WORDS, "paired"))
    st.markdown("  \n".join(f"{chip_text(verdict)} {words}" for verdict, words in calibration.risk_verdicts(curves)))
    show(calibration.risk_coverage(curves, theme()), run.id)


def out_of_scope(run: Run) -> None:
    """Draws the section on texts that fit no class; nothing if the run's task has no such texts."""
    outside = page.stored_table(run, "out_of_scope", needed=False)
    if outside.empty:
        return
    predictions = page.stored_table(run, "predictions")
    sure = cache.computed(("out of scope",), [run], lambda: scope.confidences(run, predictions, outside))
    st.markdown(f"## {scope.TITLE}", help=about(*scope.WORDS, "paired"))
    lines = [f"{chip_text(verdict)} {words}" for verdict, words in scope.findings(sure)]
    st.markdown("  \n".join([scope.confidence_words(sure), *lines]))
    show(scope.histogram(sure, theme()), run.id)

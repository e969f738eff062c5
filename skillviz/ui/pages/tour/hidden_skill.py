"""The tour's step on a hidden skill: the accuracy of localizers' grafts, and after *Reveal* the true overlap."""

from __future__ import annotations

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from skillviz.core import formats
from skillviz.plots.known_truth import SERIES
from skillviz.plots.theme import localizer_style
from skillviz.show import known_truth as exhibits
from skillviz.ui import cache, controls, presenter
from skillviz.ui.chart import show, theme
from skillviz.ui.pages.tour import questions
from skillviz.ui.pages.tour.opening_run import OpeningRun
from skillviz.ui.pages.tour.questions import SHARES, Question

AROUND = "tour.around"
BEGIN = "random 1×"
SIZE = 1.0  # regions as large as the true one
HEIGHT = 310  # pixels of the figure


def draw(opening: OpeningRun, left: DeltaGenerator, right: DeltaGenerator, is_revealed: bool) -> Question | None:
    """Draws the choice of distractor on the left and the localizers on the right; None if no leaderboard is stored."""
    board, models = cache.known_truth()
    names = exhibits.distractors(board)
    with left:
        if not names:
            st.info("No skill has been planted and searched for yet: `python -m benchmarks planted` does it.")
            return None
        distractor = controls.select(AROUND, "What else moved", names, BEGIN if BEGIN in names else names[0],
                                     shown=exhibits.AROUND.get)  # fmt: skip
        rows, levels = exhibits.rows_of(board, distractor, SIZE), exhibits.levels(models, distractor)
        best = rows.iloc[int(rows["graft"].argmax())]
        title = localizer_style(str(best["localizer"])).title
        st.caption(
            f"{formats.counted(int(best['models']), 'hidden skill')}; every search may choose as many parameters as "
            f"were trained. The best graft is that of {title}: {formats.percent(best['graft'])}; the true region has "
            f"{formats.percent(levels['true region'])}."
        )
    with right:
        shown = tuple(SERIES) if is_revealed else ("graft",)
        show(exhibits.exhibit(rows, levels, shown, theme(), presenter.unenlarged(HEIGHT)))
    choices = {name: questions.SHARE_CHOICES[name] for name in SHARES}
    found = float(best["precision"])
    answer = next(name for name, (low, high) in SHARES.items() if low <= np.round(found, 4) < high)
    return Question(
        f"How many of the parameters that {title} chose are among those that hold the skill?",
        choices, answer, exhibits.finding(rows, levels),
    )  # fmt: skip


def text(opening: OpeningRun) -> str:
    """The text of the step: the experiment, and the question that accuracy leaves open."""
    return (
        "Does a good graft show *where* the skill is? We trained a skill into chosen parameters of a small model, "
        "so the truth is known, and moved others around them. Then localizers searched for it. The figure shows "
        "how accurate their grafts are: what did they find?"
    )

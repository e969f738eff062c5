"""Tests of the board of hidden skills on its page: the sentence, the figure, the table, and models that failed."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from skillviz.analysis.known_truth import ALONE, EVERYWHERE, MEASURED, SKILL, SMALL
from skillviz.plots.known_truth import SERIES, found
from skillviz.show import known_truth
from tests.plots.facts import read as drawn
from tests.tables import check

SCORES = {
    "movement": {"precision": 0.9, "graft": 0.80, "kept_out": 0.55},
    "stagewise": {"precision": 0.6, "graft": 0.82, "kept_out": 0.75},
}


@pytest.fixture
def board() -> pd.DataFrame:
    """Return two localizers at two sizes with a random and a skill distractor; the first has intervals."""
    common, rows = {"encoder": SMALL, "models": 8, "seeds": 2, **dict.fromkeys(MEASURED, 0.5), "tensor": 2.0}, []
    for distractor, factor, (name, scores) in product(("random 1×", SKILL), (3.0, 1.0), SCORES.items()):
        values = {**common, "distractor": distractor, "factor": factor, "localizer": name, **scores}
        ends = {f"{m}_{end}": values[m] + by if name == "movement" else np.nan
                for m in MEASURED for end, by in (("low", -0.05), ("high", 0.05))}  # fmt: skip
        rows.append({**values, **ends})
    return pd.DataFrame(rows)


LEVELS = {"base": 0.52, "true region": 0.81}
FOUND = {
    "data.*.name": [style.title for style in SERIES.values()], "data.0.x": [80.0, 82.0],
    "data.0.y": ["top movement", "stagewise"], "layout.shapes.*.x0": [52.0, 81.0],
    "data.0.error_x.arrayminus": pytest.approx([5, np.nan], nan_ok=True),  # one seed has no interval
    "layout.xaxis.title.text": "accuracy and precision, %",
}  # fmt: skip


def test_the_sentence_names_the_best_finder_and_the_search_that_was_kept_out(board: pd.DataFrame) -> None:
    rows = known_truth.rows_of(board, "random 1×", 1.0)
    assert list(rows["localizer"]) == ["movement", "stagewise"]
    check(known_truth.finding(rows, LEVELS), (
        "^**Top movement** finds most: 90% of its moved parameters are true, 50% by chance.",
        "that of stagewise: 82.0%, with 60% true ones; the true region has 81.0%, the base 52.0%.",
        "Kept out of the true region, a search reaches 75.0%.$",
    ))  # fmt: skip
    table = known_truth.table(known_truth.rows_of(board, SKILL, 3.0))  # with the interval where there is one
    assert list(table["accuracy of the graft"]) == ["80.0 (75.0–85.0)", "82.0"]
    assert table["rank of the true tensor"].tolist()[1] == "2.0"


def test_sizes_and_distractors_are_those_that_were_searched(board: pd.DataFrame) -> None:
    boards = board, pd.DataFrame(), board.assign(encoder="minilm-l6")  # the grid is the small encoder's
    assert [known_truth.distractors(one) for one in boards] == [["random 1×", SKILL], [], []]
    assert known_truth.sizes(board, SKILL) == [1.0, 3.0]


def test_the_figure_has_a_row_a_localizer_and_hides_what_is_not_revealed(board: pd.DataFrame) -> None:
    rows = known_truth.rows_of(board, SKILL, 1.0)
    before = rows.copy()
    figure = found(rows, LEVELS)
    pd.testing.assert_frame_equal(rows, before)
    assert dict(zip(FOUND, drawn(figure, *FOUND), strict=True)) == FOUND
    hidden, shown = (known_truth.exhibit(rows, LEVELS, names, "dark") for names in (("graft",), tuple(SERIES)))
    assert len(hidden.figure.data) == 1 and "Reveal" in hidden.reads
    assert list(hidden.table) == ["localizer", "models", "seeds", "accuracy of the graft"]
    assert ("true among" in hidden.alt, "true among its moved parameters 90.0%" in shown.alt) == (False, True)
    assert found(rows.iloc[:0], {}).layout.annotations[0].text.startswith("No localizer")


def test_models_that_failed_are_named() -> None:
    made = pd.DataFrame(
        [("two heads", "sgd", ALONE, False), ("two heads", "adamw", ALONE, True), (EVERYWHERE, "sgd", ALONE, False)],
        columns=["place", "maker", "distractor", "counts"],
    )
    assert known_truth.failed(made) == "1 of 2 planted models keep 80% of the gain and count; failed: two heads by sgd."
    assert known_truth.levels(made.assign(base=0.5, true_region=0.8, encoder=SMALL), ALONE) == {
        "base": 0.5,
        "true region": 0.8,
    }

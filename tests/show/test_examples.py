"""Tests of examples as a table: right answers, filters, order, and the sentences computed from them, also on slices."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.analysis.answers import Answers
from skillviz.core.agreement import mcnemar
from skillviz.core.confusion import class_results
from skillviz.core.intervals import metric_difference
from skillviz.core.verdicts import NO_DIFFERENCE
from skillviz.plots.examples import FACTORS
from skillviz.runs.run import Run
from skillviz.runs.store import Store
from skillviz.show import example_table, text
from skillviz.show import examples as examples_words
from skillviz.show.example_table import (
    CASE_TITLES,
    CLASSES,
    OPTIONS,
    SCORED,
    TEXTS,
    AnswerWords,
    Area,
    Filters,
    area_of_box,
    ordered,
    passing,
    read_area,
)
from skillviz.show.slices import by_slice, columns_of, differences, finding, title
from tests.fake_run import fake_run
from tests.tables import check, equal, says

TRUE = "true class"
SMALL = {"layers": 1, "width": 8, "sizes": ("5%",), "steps": 2, "n": {"validation": 20, "test": 120}}
TABLE = pd.DataFrame(
    {
        "finetuned_confidence": [0.0, 0.5, 0.5, 1.0], "grafted_confidence": [0.0, 0.2, 0.8, 1.0],
        "finetuned_margin": [-4.0, 0.1, 0.2, 5.0], "grafted_margin": [-3.0, -1.0, 1.5, 2.0],
        "true": ["a", "b", "a", "b"], "case": ["neither", "finetuned", "both", "both"],
    }
)  # fmt: skip
ends = st.floats(-9, 9).map(lambda x: float(f"{x:.4g}"))
spans = st.tuples(ends, ends).map(lambda two: (min(two), max(two)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fake_run(Store(tmp_path_factory.mktemp("runs")), labels=("entail", "neutral", "contradict"), **SMALL)


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    return example_table.scored(run.predictions(), run.record, "test")


def texts(table: pd.DataFrame, pair: bool = False) -> pd.DataFrame:
    """Return a text for each example, in another order."""
    words = [" ".join(["film"] * (1 + i % 7) + (["not", "Good"] if i % 3 == 0 else [])) for i in range(len(table))]
    second = {"text_b": "second part"} if pair else {}
    return pd.DataFrame({"example_id": table["example_id"], "text_a": words, **second})[::-1].reset_index(drop=True)


@pytest.fixture(scope="module")
def full(table: pd.DataFrame) -> pd.DataFrame:
    return example_table.with_texts(table, texts(table))


def test_each_example_stands_once_in_the_order_of_the_file(run: Run, table: pd.DataFrame, full: pd.DataFrame) -> None:
    assert table["example_id"].tolist() == full["example_id"].tolist() == [f"test-{i}" for i in range(120)]
    assert len(example_table.scored(run.predictions(), run.record, "validation")) == 20


@pytest.mark.parametrize("state", SCORED)
def test_values_are_those_of_the_stored_logits(state: str, run: Run, table: pd.DataFrame) -> None:
    ids, labels, logits = run.logits(state)
    for row in table.iloc[[0, 2, 11, 119]].to_dict("records"):
        at = list(ids).index(row["example_id"])
        z, label = logits[at].astype(float), labels[at]
        share, margin = np.exp(z[label]) / np.exp(z).sum(), z[label] - np.delete(z, label).max()
        told = [row["true"], *(row[f"{state}_{name}"] for name in ("says", "confidence", "margin"))]
        words = [run.labels[label], run.labels[z.argmax()]]
        assert told == [*words, pytest.approx(share, rel=1e-6), pytest.approx(margin, rel=1e-6)]


def test_cases_are_who_is_right(table: pd.DataFrame) -> None:
    graft, tuned = (table[f"{state}_says"] == table["true"] for state in ("grafted", "finetuned"))
    cases = {"both": graft & tuned, "finetuned": ~graft & tuned, "grafted": graft & ~tuned, "neither": ~graft & ~tuned}
    for case, kept in cases.items():
        assert (table["case"] == case).equals(kept) and kept.any()
        assert case == "both" or passing(table, Filters(case)).equals(kept)
    assert {*table["case"]} <= {*CASE_TITLES, "both"}


def test_the_most_moved_are_a_tenth(table: pd.DataFrame) -> None:
    kept, moved = passing(table, Filters("moved")), table["moved"].abs()
    assert moved[kept].min() >= moved[~kept].max()
    assert (kept.sum(), passing(table.head(1), Filters("moved")).sum()) == (12, 1)


def test_filters_by_class_words_and_length(full: pd.DataFrame) -> None:
    assert full["length"].tolist() == [len(t.split()) for t in full["text_a"]]
    is_neutral, words = full["true"] == "neutral", pd.Series([i % 3 == 0 for i in range(120)])
    differ = full["grafted_says"] != full["finetuned_says"]
    for asked, kept in (
        (Filters(), differ | True),
        (Filters("differ"), differ),
        (Filters(label="neutral"), is_neutral),
        (Filters(words=" GOOD  film"), words),
        (Filters(words="goodfilm"), words & False),
        (Filters(words="f.lm"), words & False),
        (Filters(length=(2, 3)), full["length"].isin((2, 3))),
        (Filters("differ", "neutral", (1, 9), "not"), differ & is_neutral & words),
    ):
        assert passing(full, asked).tolist() == kept.tolist(), asked


def test_words_are_looked_for_in_both_texts_of_a_pair(table: pd.DataFrame) -> None:
    both = example_table.with_texts(table, texts(table, pair=True))
    assert [passing(both, Filters(words=words)).sum() for words in ("second", "good second")] == [120, 40]
    assert (example_table.whole_text(both).iloc[0], both["length"].iloc[0]) == ("film not Good ‖ second part", 5)


def test_without_texts_words_and_length_filter_nothing(table: pd.DataFrame) -> None:
    kept = passing(table, Filters(length=(3, 3), words="anything")).all()
    assert (kept, "length" in example_table.sorts(table), example_table.has_texts(table)) == (True, False, False)


@pytest.mark.parametrize(
    ("sort", "column", "sign"),
    [("gained", "moved", -1), ("lost", "moved", 1), ("grafted", "grafted_confidence", 1),
     ("finetuned", "finetuned_confidence", 1), ("length", "length", 1)],
)  # fmt: skip
def test_orders(full: pd.DataFrame, sort: str, column: str, sign: int) -> None:
    assert [(sign * rows[column]).is_monotonic_increasing for rows in (ordered(full, sort), full)] == [True, False]
    assert ordered(full, "file").equals(full) and ordered(full, "moved")["moved"].abs().is_monotonic_decreasing


@pytest.mark.parametrize("listing", [example_table.narrow_listing, example_table.listing])
def test_no_example_is_listed_as_none(listing: Callable[..., pd.DataFrame], table: pd.DataFrame) -> None:
    assert len(listing(table.head(0), TRUE)) == 0


def test_the_listing_has_percent_and_points(table: pd.DataFrame, full: pd.DataFrame) -> None:
    shown, bare = example_table.listing(full, TRUE), example_table.listing(table, TRUE)
    graft, rest, tuned = (100 * table[f"{s}_confidence"].iloc[3] for s in ("grafted", "complement", "finetuned"))
    expected = {"grafted: true class": graft, "complement: true class": rest, "graft − fine-tuned": graft - tuned}
    assert shown.iloc[3][[*expected]].to_dict() == pytest.approx(expected)
    models = [f"{state}: true class" for state in ("pre-trained", "grafted", "fine-tuned")]
    assert list(shown.columns[:5]) == ["text", "true class", *models], "every model's confidence is in sight"
    assert "text" not in bare and len(bare) == 120


def test_a_run_without_complement_is_listed_without_it(run: Run) -> None:
    kept = run.predictions().query("state != 'complement'")
    listed = example_table.listing(example_table.scored(kept, run.record, "test"), TRUE)
    assert len(listed) == 120 and not any("complement" in name for name in listed.columns)


def test_the_scatters_frame_keeps_all_and_marks_what_passes(table: pd.DataFrame) -> None:
    kept = passing(table, Filters("differ"))
    frame = example_table.points(table, kept, "margin", example_table.hovers(table, TRUE))
    assert frame["shown"].tolist() == kept.tolist() and frame["grafted"].tolist() == table["grafted_margin"].tolist()
    harmful = example_table.hovers(table.assign(text_a="<b>&", true="a<b"), TRUE)[0]
    check(harmful, ("&lt;b&gt;&amp;", "true class: a&lt;b"), ("a<b",))


def test_the_hover_has_the_beginning_of_what_is_generated_in_one_line(table: pd.DataFrame) -> None:
    spoken = table.assign(grafted_per_token=0.5, grafted_says="Paris\n- Rome " + "and so on " * 40)
    (said,) = [line for line in example_table.hovers(spoken, TRUE)[0].split("<br>") if line.startswith("grafted says")]
    assert said.startswith("grafted says Paris - Rome and so on") and said.endswith("…") and len(said) < 80


@given(st.text(alphabet="ab ", max_size=120), st.integers(5, 60))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_a_brief_text_is_a_beginning(words: str, most: int) -> None:
    short = example_table.brief(words, most)
    assert short == words if len(words) <= most else words.startswith(short.removesuffix(" …"))
    assert len(short) <= most + 2


def logits(*said: int, classes: int = 2) -> np.ndarray:
    return 3.0 * np.eye(classes)[list(said)]


ALONE = logits(*[1] * 9, *[0] * 11), logits(*[0] * 20), np.zeros(20, dtype=int)
"""A graft that is wrong on nine examples, the fine-tuned model, which is always right, and the labels."""
CHANCE = logits(0, 1, 0, 2, classes=3), logits(1, 0, 2, 2, classes=3), np.array([0, 0, 1, 2])
BOX = {"x": [100.0, 40.0], "y": [12.5, 50.0]}
RESULTS = class_results(
    {"grafted": logits(0, 0, 0, 0, 1, 1, 0, 0), "finetuned": logits(0, 0, 0, 0, 1, 1, 1, 1)},
    np.array([0, 0, 0, 0, 1, 1, 1, 1]), resamples=20,
)  # fmt: skip
test_what_is_said_of_examples = says({
    "the disagreement": (
        lambda: examples_words.disagreement(*ALONE, "test"),
        ("^Accuracy, graft vs fine-tuned: **worse**, −45.0 points (95%: −65.8 to −21.6). ",
         "disagree on **9 of 20** test examples (45.0%, 25.8–65.8)", "fine-tuned alone is right on **9**, the graft "
         f"alone on **0** (McNemar p = {mcnemar(*ALONE).p:.3f})."),
    ),
    "a difference that chance explains is not claimed": (
        lambda: examples_words.disagreement(*CHANCE, "test"),
        ("**no clear difference**, 0.0 points (95%: −60.4 to 60.4).", "neither on 1"),
    ),
    "equal answers": (
        lambda: examples_words.disagreement(logits(0, 1), logits(0, 1), np.array([0, 1]), "validation"),
        ("**0 of 2** validation examples",),
        ("McNemar",),
    ),
    "the worst class with its interval": (
        lambda: examples_words.worst_classes(RESULTS, ("bad", "good")),
        ("^Lowest F1: **good** for the graft (66.7%, ", "**bad** for the fine-tuned model (100.0%, no interval)"),
    ),
    "no class": (
        lambda: examples_words.worst_classes(RESULTS.assign(value=np.nan), ("a", "b")),
        ("^No class was found at all.$",),
    ),
    "a tiny p": (lambda: examples_words.p_value(0.0004), ("^p < 0.001$",)),
    "a p": (lambda: examples_words.p_value(0.0314), ("^p = 0.031$",)),
    "p = 1": (lambda: examples_words.p_value(1.0), ("^p = 1.000$",)),
    "how many pass": (lambda: examples_words.passing_words(5, 20), ("^**5** of 20 examples.$",)),
    "an area in confidence": (
        lambda: Area("confidence", (0.4, 1.0), (0.0, 0.5)).words(CLASSES),
        ("confidence in the true class, fine-tuned 40.0–100.0%, grafted 0.0–50.0",),
    ),
    "an area in margins": (
        lambda: Area("margin", (-1, 2), (0, 1)).words(CLASSES), ("fine-tuned \N{MINUS SIGN}1.00 to 2.00 nats",),
    ),
})  # fmt: skip
RIGHT_HALF = Area("confidence", (0.5, 1.0), (0.2, 1.0))
test_areas_titles_and_verdicts = equal({
    "what lies inside, with its ends": (
        lambda: Area("confidence", (0.5, 1.0), (0.2, 0.8)).inside(TABLE).tolist(), [False, True, True, False],
    ),
    "by margin": (
        lambda: Area("margin", (-4.0, 0.1), (-3.0, -1.0)).inside(TABLE).tolist(), [True, True, False, False],
    ),
    "as a filter": (lambda: passing(TABLE, Filters(area=RIGHT_HALF)).tolist(), [False, True, True, True]),
    "with another filter": (
        lambda: passing(TABLE, Filters(label="b", area=RIGHT_HALF)).tolist(), [False, True, False, True],
    ),
    "every case is one that examples can be filtered by": (
        lambda: {
            case: int(passing(
                TABLE.assign(grafted_says="a", finetuned_says="b", moved=[0.1, 0.2, 0.3, 0.4]), Filters(case)
            ).sum())
            for case in CLASSES.cases
        },
        {"all": 4, "differ": 4, "finetuned": 1, "grafted": 0, "neither": 1, "moved": 1},
    ),
    # A box is in the units of its figure, and may be drawn from any corner.
    "a box of confidences": (
        lambda: area_of_box(BOX, "confidence"), Area("confidence", (0.4, 1.0), (0.125, 0.5)),
    ),
    "a box of margins": (lambda: area_of_box(BOX, "margin"), Area("margin", (40.0, 100.0), (12.5, 50.0))),
    **{f"no area: {written}": (partial(read_area, written), None) for written in (
        None, "", "all", "confidence", "confidence_0_1_0", "confidence_0_1_0_x", "accuracy_0_1_0_1",
        "confidence_1_0_0_1", "confidence_0_1_0_nan", "margin_0_inf_0_1", "confidence_0_1_0_1_1")},
    **{f"the title of the column {name}": (partial(title, name), words) for name, words in (
        ("class", "true class"), ("words", "length in words"), ("source", "source"))},
    "worse": (lambda: examples_words.finding(*ALONE, "test")[0], "worse"),
    "better": (lambda: examples_words.finding(ALONE[1], ALONE[0], ALONE[2], "test")[0], "better"),
})  # fmt: skip


@pytest.mark.parametrize("lost", range(12))
def test_the_verdict_is_that_of_the_interval_beside_it(lost: int) -> None:
    """McNemar's exact test needs two examples more, 6 of 6 instead of 4 of 4, and does not give the verdict."""
    answers = logits(*[1] * lost, *[0] * (400 - lost)), logits(*[0] * 400), np.zeros(400, dtype=int)
    verdict, words = examples_words.finding(*answers, "test")
    shown = words.partition("95%: ")[2].partition(")")[0]
    is_less = metric_difference(*answers, "accuracy").high < 0
    assert (verdict == "worse", " to −" in shown) == (is_less, is_less), shown


def test_a_run_with_one_example(tmp_path: Path) -> None:
    one = fake_run(Store(tmp_path), **{**SMALL, "n": {"validation": 1, "test": 1}})
    assert passing(example_table.scored(one.predictions(), one.record, "test"), Filters("moved")).tolist() == [True]


@given(st.builds(Area, st.sampled_from(["confidence", "margin"]), spans, spans))
def test_the_address_brings_it_back(area: Area) -> None:
    assert read_area(area.written()) == area


@pytest.mark.parametrize(
    ("answers", "own", "foreign"),
    [
        (CLASSES, "true class", ("option", "reference", "token")),
        (OPTIONS, "right option", ("class", "reference", "token")),
        (TEXTS, "reference", ("class", "option", "confiden")),
    ],
)
def test_a_kind_of_task_is_told_in_its_own_words(answers: AnswerWords, own: str, foreign: tuple[str, ...]) -> None:
    measures = [word for measure in answers.measures.values() for word in measure]
    check(
        " ".join([answers.right, answers.one, *measures, *answers.cases.values(), *answers.sorts.values()]),
        (own,),
        foreign,
    )
    keys = answers.cases.keys(), answers.sorts.keys(), answers.measures.keys() - FACTORS.keys()
    assert keys == (CLASSES.cases.keys(), CLASSES.sorts.keys(), set())


LABELS = ("a*b", "other")
N = 400
IDS, Y = np.array([f"test-{n}" for n in range(N)], dtype=object), np.arange(N) % 2
LOGITS = np.where(np.eye(2)[Y] > 0, 2.0, 0.0)
LOST = (Y == 0) & (np.arange(N) % 4 == 0)
# A graft that loses class 0 and nothing else, and the fine-tuned model.
GRAFT, TUNED = Answers(IDS, Y, np.where(LOST[:, None], -LOGITS, LOGITS)), Answers(IDS, Y, LOGITS)
CLASS = columns_of(GRAFT, LABELS, None)


def test_losses_are_named_and_chance_is_said() -> None:
    columns = columns_of(GRAFT, LABELS, pd.DataFrame({"words": np.arange(N)}, index=IDS))
    table = differences(GRAFT, TUNED, columns, "accuracy")
    first, last = (table.iloc[at][["name", "value", "verdict", "holds"]].tolist() for at in (0, -1))
    # The last has no width.
    assert (len(table), first, last[2:]) == (6, ["a*b", -0.5, "worse", True], [NO_DIFFERENCE, False])
    check(finding(table, "accuracy", text.plain), (
        "The graft is worse in accuracy on **true class", r"a\*b",
        "better on 0 of 6 slices. Of 6 comparisons, 5 exclude zero; chance alone would give about 0.3.",
    ))  # fmt: skip
    check(finding(table, "accuracy"), (r"a*b",))
    check(by_slice(table, "accuracy", "light").alt, ("6 slices", "true class: a*b (200) −50.0 points"))


def test_without_other_columns_there_is_the_class() -> None:
    equal, one = (differences(GRAFT, GRAFT, columns, "nll") for columns in (CLASS, CLASS.assign(**{"class": "x"})))
    assert list(CLASS.columns) == ["class"] and one.empty
    check(finding(equal, "nll"), (
        "neither worse nor better in NLL on any of 2 slices.",
    ))  # fmt: skip
    check(finding(one, "nll"), ("nothing to compare",))
    rare = pd.DataFrame({"source": np.where(np.arange(N) < 100, "rare", "usual")}, index=IDS)
    few = differences(GRAFT, TUNED, rare, "nll")
    assert few["low"].isna().tolist() == (few["name"] == "rare").tolist()
    assert finding(few, "nll").endswith("Too small for an interval: 1 slice.")

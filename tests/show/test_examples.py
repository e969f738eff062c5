"""Tests of examples as a table: right answers, filters, order, and the sentences computed from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core import formats
from skillviz.core.agreement import mcnemar
from skillviz.core.confusion import class_results
from skillviz.core.intervals import metric_difference
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
from tests.fake_run import fake_run

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
    labels = ("entail", "neutral", "contradict")
    return fake_run(Store(tmp_path_factory.mktemp("runs")), labels=labels, **SMALL)


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    return example_table.scored(run.predictions(), run.record, "test")


def texts(table: pd.DataFrame, pair: bool = False) -> pd.DataFrame:
    """Return a text for each example, in another order."""
    words = [" ".join(["film"] * (1 + i % 7) + (["not", "Good"] if i % 3 == 0 else [])) for i in range(len(table))]
    frame = pd.DataFrame({"example_id": table["example_id"], "text_a": words})
    frame = frame.assign(text_b=["second part"] * len(frame)) if pair else frame
    return frame.iloc[::-1].reset_index(drop=True)


def test_each_example_stands_once_in_the_order_of_the_file(table: pd.DataFrame) -> None:
    assert table["example_id"].tolist() == [f"test-{i}" for i in range(120)]


def test_values_are_those_of_the_stored_logits(run: Run, table: pd.DataFrame) -> None:
    for state in SCORED:
        ids, labels, logits = run.logits(state)
        for row in table.iloc[[0, 2, 11, 119]].to_dict("records"):
            z = logits[list(ids).index(row["example_id"])].astype(float)
            label = labels[list(ids).index(row["example_id"])]
            shares = np.exp(z) / np.exp(z).sum()
            assert row["true"] == run.labels[label] and row[f"{state}_says"] == run.labels[z.argmax()]
            assert row[f"{state}_confidence"] == pytest.approx(shares[label], rel=1e-6)
            assert row[f"{state}_margin"] == pytest.approx(z[label] - np.delete(z, label).max(), rel=1e-6)


def test_other_data_sets_and_splits_are_left_out(run: Run) -> None:
    assert len(example_table.scored(run.predictions(), run.record, "validation")) == 20


def test_cases_are_who_is_right(table: pd.DataFrame) -> None:
    right = {s: table[f"{s}_says"] == table["true"] for s in ("grafted", "finetuned")}
    expected = {
        "both": right["grafted"] & right["finetuned"],
        "finetuned": ~right["grafted"] & right["finetuned"],
        "grafted": right["grafted"] & ~right["finetuned"],
        "neither": ~right["grafted"] & ~right["finetuned"],
    }
    for case, kept in expected.items():
        assert (table["case"] == case).equals(kept) and kept.any()
        if case != "both":
            assert passing(table, Filters(case)).equals(kept)
    differ = passing(table, Filters("differ"))
    assert differ.equals(table["grafted_says"] != table["finetuned_says"])
    assert passing(table, Filters()).all() and set(table["case"]) <= set(CASE_TITLES) | {"both"}


def test_the_most_moved_are_a_tenth(table: pd.DataFrame) -> None:
    kept = passing(table, Filters("moved"))
    assert kept.sum() == 12
    assert table.loc[kept, "moved"].abs().min() >= table.loc[~kept, "moved"].abs().max()
    assert passing(table.head(1), Filters("moved")).sum() == 1


def test_filters_by_class_words_and_length(table: pd.DataFrame) -> None:
    full = example_table.with_texts(table, texts(table))
    assert full["example_id"].equals(table["example_id"])
    assert full["length"].tolist() == [len(t.split()) for t in full["text_a"]]
    assert set(full[passing(full, Filters(label="neutral"))]["true"]) == {"neutral"}
    words = passing(full, Filters(words=" GOOD  film"))
    assert words.tolist() == [i % 3 == 0 for i in range(120)]
    assert not passing(full, Filters(words="goodfilm")).any() and not passing(full, Filters(words="f.lm")).any()
    short = passing(full, Filters(length=(2, 3)))
    assert set(full[short]["length"]) == {2, 3} and (full[~short]["length"] != 2).all()
    both = passing(full, Filters("differ", "neutral", (1, 9), "not"))
    assert (both == (passing(full, Filters("differ")) & (full["true"] == "neutral") & words)).all()


def test_words_are_looked_for_in_both_texts_of_a_pair(table: pd.DataFrame) -> None:
    full = example_table.with_texts(table, texts(table, pair=True))
    assert passing(full, Filters(words="second")).all() and passing(full, Filters(words="good second")).sum() == 40
    assert example_table.whole_text(full).iloc[0] == "film not Good ‖ second part"
    assert full["length"].iloc[0] == 5


def test_without_texts_words_and_length_filter_nothing(table: pd.DataFrame) -> None:
    assert passing(table, Filters(length=(3, 3), words="anything")).all()
    assert "length" not in example_table.sorts(table) and not example_table.has_texts(table)


@pytest.mark.parametrize(
    ("sort", "column", "sign"),
    [("gained", "moved", -1), ("lost", "moved", 1), ("grafted", "grafted_confidence", 1),
     ("finetuned", "finetuned_confidence", 1), ("length", "length", 1)],
)  # fmt: skip
def test_orders(table: pd.DataFrame, sort: str, column: str, sign: int) -> None:
    full = example_table.with_texts(table, texts(table))
    values = sign * ordered(full, sort)[column]
    assert values.is_monotonic_increasing and not (sign * full[column]).is_monotonic_increasing
    assert ordered(full, "file").equals(full)
    assert ordered(full, "moved")["moved"].abs().is_monotonic_decreasing


def test_no_example_is_listed_as_none(table: pd.DataFrame) -> None:
    assert (
        len(example_table.narrow_listing(table.head(0), TRUE)) == 0 == len(example_table.listing(table.head(0), TRUE))
    )


def test_the_listing_has_percent_and_points(table: pd.DataFrame) -> None:
    shown = example_table.listing(example_table.with_texts(table, texts(table)), TRUE)
    row, source = shown.iloc[3], table.iloc[3]
    assert row["grafted: true class"] == pytest.approx(100 * source["grafted_confidence"])
    assert row["graft − fine-tuned"] == pytest.approx(row["grafted: true class"] - row["fine-tuned: true class"])
    models = [f"{state}: true class" for state in ("pre-trained", "grafted", "fine-tuned")]
    assert list(shown.columns[:5]) == ["text", "true class", *models], "every model's confidence is in sight"
    assert "text" not in example_table.listing(table, TRUE) and len(example_table.listing(table, TRUE)) == 120
    assert row["complement: true class"] == pytest.approx(100 * source["complement_confidence"])


def test_a_run_without_complement_is_listed_without_it(run: Run) -> None:
    predictions = run.predictions()
    listed = example_table.listing(
        example_table.scored(predictions[predictions["state"] != "complement"], run.record, "test"), TRUE
    )
    assert len(listed) == 120 and not any("complement" in name for name in listed.columns)


def test_the_scatters_frame_keeps_all_and_marks_what_passes(table: pd.DataFrame) -> None:
    kept = passing(table, Filters("differ"))
    frame = example_table.points(table, kept, "margin", example_table.hovers(table, TRUE))
    assert frame["shown"].equals(kept.rename("shown")) and frame["grafted"].tolist() == table["grafted_margin"].tolist()
    harmful = table.assign(text_a="<b>&", true="a<b")
    words = example_table.hovers(harmful, TRUE)[0]
    assert "&lt;b&gt;&amp;" in words and "true class: a&lt;b" in words and "a<b" not in words


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


def plain(words: str) -> str:
    return words.replace(formats.SPACE, " ")


def test_the_disagreement_by_hand() -> None:
    labels = np.zeros(20, dtype=int)
    graft, tuned = logits(*[1] * 9, *[0] * 11), logits(*[0] * 20)
    said = plain(examples_words.disagreement(graft, tuned, labels, "test"))
    assert said.startswith("Accuracy, graft vs fine-tuned: **worse**, −45.0 points (95%: −65.8 to −21.6). ")
    assert "disagree on **9 of 20** test examples (45.0%, 25.8–65.8)" in said
    p = mcnemar(graft, tuned, labels).p
    assert f"fine-tuned alone is right on **9**, the graft alone on **0** (McNemar p = {p:.3f})." in said
    assert examples_words.finding(graft, tuned, labels, "test")[0] == "worse"
    assert examples_words.finding(tuned, graft, labels, "test")[0] == "better"


def test_a_difference_that_chance_explains_is_not_claimed() -> None:
    labels = np.array([0, 0, 1, 2])
    said = examples_words.disagreement(logits(0, 1, 0, 2, classes=3), logits(1, 0, 2, 2, classes=3), labels, "test")
    assert "**no clear difference**, 0.0 points (95%: −60.4 to 60.4)." in said and "neither on 1" in said
    same = examples_words.disagreement(logits(0, 1), logits(0, 1), np.array([0, 1]), "validation")
    assert "**0 of 2** validation examples" in same and "McNemar" not in same


def test_the_verdict_is_that_of_the_interval_beside_it() -> None:
    """McNemar's exact test needs two examples more, 6 of 6 instead of 4 of 4, and does not give the verdict."""
    for lost in range(12):
        graft, tuned = logits(*[1] * lost, *[0] * (400 - lost)), logits(*[0] * 400)
        verdict, words = examples_words.finding(graft, tuned, np.zeros(400, dtype=int), "test")
        less = metric_difference(graft, tuned, np.zeros(400, dtype=int), "accuracy")
        assert (verdict == "worse") == (less.high < 0)
        shown = words.partition("95%: ")[2].partition(")")[0]
        assert (verdict == "worse") == (" to −" in shown), shown


@pytest.mark.parametrize(("p", "words"), [(0.0004, "p < 0.001"), (0.0314, "p = 0.031"), (1.0, "p = 1.000")])
def test_p(p: float, words: str) -> None:
    assert examples_words.p_value(p) == words


def test_how_many_pass() -> None:
    assert plain(examples_words.passing_words(5, 20)) == "**5** of 20 examples."


def test_the_worst_class_is_named_with_its_interval() -> None:
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    results = class_results({"grafted": logits(0, 0, 0, 0, 1, 1, 0, 0), "finetuned": logits(*y)}, y, resamples=20)
    said = plain(examples_words.worst_classes(results, ("bad", "good")))
    assert said.startswith("Lowest F1: **good** for the graft (66.7%, ")
    assert "**bad** for the fine-tuned model (100.0%, no interval)" in said
    assert examples_words.worst_classes(results.assign(value=np.nan), ("a", "b")) == "No class was found at all."


def test_a_run_with_one_example(tmp_path: Path) -> None:
    one = fake_run(Store(tmp_path), **{**SMALL, "n": {"validation": 1, "test": 1}})
    table = example_table.scored(one.predictions(), one.record, "test")
    assert len(table) == 1 and passing(table, Filters("moved")).all()


def test_it_holds_what_lies_inside_with_its_ends() -> None:
    assert Area("confidence", (0.5, 1.0), (0.2, 0.8)).inside(TABLE).tolist() == [False, True, True, False]
    assert Area("margin", (-4.0, 0.1), (-3.0, -1.0)).inside(TABLE).tolist() == [True, True, False, False]


def test_it_narrows_what_the_other_filters_leave() -> None:
    area = Area("confidence", (0.5, 1.0), (0.2, 1.0))
    assert passing(TABLE, Filters(area=area)).tolist() == [False, True, True, True]
    assert passing(TABLE, Filters(label="b", area=area)).tolist() == [False, True, False, True]


@given(st.builds(Area, st.sampled_from(["confidence", "margin"]), spans, spans))
def test_the_address_brings_it_back(area: Area) -> None:
    assert read_area(area.written()) == area


@pytest.mark.parametrize(
    "written", [None, "", "all", "confidence", "confidence_0_1_0", "confidence_0_1_0_x", "accuracy_0_1_0_1",
                "confidence_1_0_0_1", "confidence_0_1_0_nan", "margin_0_inf_0_1", "confidence_0_1_0_1_1"]
)  # fmt: skip
def test_what_is_no_area_is_none(written: str | None) -> None:
    assert read_area(written) is None


def test_a_box_is_in_the_units_of_its_figure_and_may_be_drawn_from_any_corner() -> None:
    box = {"x": [100.0, 40.0], "y": [12.5, 50.0]}
    assert area_of_box(box, "confidence") == Area("confidence", (0.4, 1.0), (0.125, 0.5))
    assert area_of_box(box, "margin") == Area("margin", (40.0, 100.0), (12.5, 50.0))


def test_its_words_have_the_units_of_its_measure() -> None:
    said = Area("confidence", (0.4, 1.0), (0.0, 0.5)).words(CLASSES)
    assert "confidence in the true class, fine-tuned 40.0–100.0%, grafted 0.0–50.0" in said
    assert "fine-tuned \N{MINUS SIGN}1.00 to 2.00 nats" in Area("margin", (-1, 2), (0, 1)).words(CLASSES)


def said(answers: AnswerWords) -> str:
    measures = [word for measure in answers.measures.values() for word in measure]
    return " ".join([answers.right, answers.one, *measures, *answers.cases.values(), *answers.sorts.values()])


@pytest.mark.parametrize(
    ("answers", "own", "foreign"),
    [
        (CLASSES, "true class", ("option", "reference", "token")),
        (OPTIONS, "right option", ("class", "reference", "token")),
        (TEXTS, "reference", ("class", "option", "confiden")),
    ],
)
def test_a_kind_of_task_is_told_in_its_own_words(answers: AnswerWords, own: str, foreign: tuple[str, ...]) -> None:
    words = said(answers)
    assert own in words and not [word for word in foreign if word in words]
    assert set(answers.cases) == set(CLASSES.cases) and set(answers.sorts) == set(CLASSES.sorts)
    assert set(answers.measures) <= set(FACTORS)


def test_every_case_is_one_that_examples_can_be_filtered_by() -> None:
    table = TABLE.assign(grafted_says="a", finetuned_says="b", moved=[0.1, 0.2, 0.3, 0.4])
    kept = {case: int(passing(table, Filters(case)).sum()) for case in CLASSES.cases}
    assert kept == {"all": 4, "differ": 4, "finetuned": 1, "grafted": 0, "neither": 1, "moved": 1}

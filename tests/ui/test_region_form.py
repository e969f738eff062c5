"""Tests of the surgery form and its expression: each can be made from the other, and the region is put in words; and of
the names of other regions beside the map."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillviz.core.parameters import KINDS
from skillviz.core.region_expression import canonical, region_of
from skillviz.errors import BadInput
from skillviz.ui.pages.region.region_page import names_beside
from skillviz.ui.pages.surgery.region_form import (
    BIASES,
    HOW,
    JOINS,
    RegionChoices,
    choices_of,
    expression_of,
    meaning,
    rows_of,
    rows_text,
    sentence,
    sizes_offered,
)
from tests.core.test_region_expression import TABLES, expressions, stored_in
from tests.refused import refused
from tests.show.test_entries import entry
from tests.ui.driven import lacks

TABLE = TABLES["bert"]
NAMES = {"one": "stagewise, 0.1%, seed 0", "two": "random, 1%, seed 0"}


def all_choices() -> st.SearchStrategy[RegionChoices]:
    return st.builds(
        RegionChoices,
        how=st.sampled_from([how for how in HOW if how != "typed"]),
        runs=st.sampled_from([("one",), ("two",), ("one", "two")]),
        join=st.sampled_from(list(JOINS)),
        size=st.one_of(st.none(), st.integers(1, 40)),
        layers=st.lists(st.integers(0, 2), unique=True, max_size=2).map(lambda v: tuple(sorted(v))),
        kinds=st.lists(st.sampled_from(KINDS), unique=True, max_size=2).map(
            lambda v: tuple(sorted(v, key=KINDS.index))
        ),
        tensors=st.sampled_from([(), TABLE.names[:1], TABLE.names[1:3]]),
        rows=st.sampled_from(["", "0", "0-2", "0-1, 4"]),
        biases=st.sampled_from(list(BIASES)),
    )


@settings(max_examples=150, deadline=None)
@given(all_choices())
def test_every_form_comes_back_as_the_same_expression(choices: RegionChoices) -> None:
    expression = expression_of(choices)
    again = choices_of(expression)
    assert canonical(expression_of(again)) == canonical(expression) and again.how != "typed"
    assert expression_of(choices_of(expression_of(again))) == expression


@pytest.mark.nightly
@settings(max_examples=150, deadline=None)
@given(expressions(TABLE))
def test_every_expression_has_a_form_of_the_same_region(expression: dict[str, Any]) -> None:
    """Expressions without fields in the form are shown as JSON."""
    own, again = (
        region_of(each, TABLE, stored_in(TABLE)) for each in (expression, expression_of(choices_of(expression)))
    )
    assert own == again


@pytest.mark.parametrize(
    ("expression", "how"),
    [
        ({"run": "one"}, "stored"),
        ({"run": "one", "size": 3}, "stored"),
        ({"union": [{"run": "one"}, {"run": "two"}]}, "stored"),
        ({}, "parts"),
        ({"layers": [0]}, "parts"),
        ({"layers": []}, "typed"),
        ({"union": [{"layers": [0]}, {"run": "one"}]}, "union"),
        ({"intersection": [{"run": "one"}, {"biases": True}]}, "intersection"),
        ({"difference": [{"run": "one"}, {"layers": [0]}]}, "without"),
        ({"difference": [{"layers": [0]}, {"run": "one"}]}, "rest"),
        ({"difference": [{"layers": [0]}, {"union": [{"run": "one"}, {"run": "two"}]}]}, "rest"),
        ({"union": [{"layers": [0]}, {"layers": [1]}]}, "typed"),
        ({"union": [{"run": "one"}, {"run": "one"}]}, "typed"),
        ({"difference": [{"run": "two"}, {"run": "one"}]}, "stored"),
        ({"difference": [{"union": [{"run": "one"}, {"run": "two"}]}, {"run": "one"}]}, "typed"),
    ],
)
def test_what_an_expression_is_shown_as(expression: dict[str, Any], how: str) -> None:
    assert choices_of(expression).how == how


def test_rows_are_read_as_they_are_typed() -> None:
    assert rows_of("0-7, 12") == [[0, 7], [12, 12]] == rows_of(" 0 \N{EN DASH} 7 ;12,")
    assert rows_of("") == [] and rows_text(rows_of("3-3, 5-9")) == "3, 5-9"


test_what_is_no_region_is_refused = refused(
    BadInput,
    *(("write numbers and ranges", rows_of, text)
      for text in ("x", "7-0", "1-2-3", "-4", "1.5", "0-x", "٣", "99999999999")),
    ("choose a stored region", expression_of, RegionChoices()),
)  # fmt: skip


def test_places_on_a_ranking_are_round_and_hold_the_runs_own() -> None:
    assert sizes_offered((222, 44, 889)) == [1, 2, 5, 10, 20, 44, 50, 100, 200, 222, 500, 889]
    assert sizes_offered(()) == [] and sizes_offered((1,)) == [1]
    steps = sizes_offered((10_000_000,))
    assert len(steps) == 22 and max(b / a for a, b in zip(steps, steps[1:], strict=False)) <= 2.5


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ({"layers": [2, 3, 4], "kinds": ["value"], "biases": False}, ["value", "layers 2 to 4"]),
        ({"layers": [0, 2, 3]}, ["layers 0 and 2 to 3"]),
        ({"kinds": ["query", "LayerNorm"], "biases": True}, ["query", "LayerNorm", "biases"]),
        ({"rows": [[0, 7], [12, 12]], "kinds": ["key"]}, ["rows 0 to 7 and 12", "key"]),
        ({"rows": [[3, 3]]}, ["row 3 of"]),
        ({"parameters": ["a.b"], "layers": [1]}, ["layer 1 in", "`a.b`"]),
        ({"parameters": ["a.b", "a.c"]}, ["2 tensors"]),
        ({"run": "one"}, [NAMES["one"]]),
        ({"run": "gone"}, ["`gone`"]),
        ({"run": "two", "size": 1064}, ["1,064", NAMES["two"]]),
        ({"difference": [{"layers": [1]}, {"union": [{"kinds": ["key"]}, {"biases": True}]}]}, ["layer 1", "(", "key"]),
    ],
)  # fmt: skip
def test_an_expression_in_words_names_all_its_parts(expression: dict[str, Any], named: list[str]) -> None:
    assert not lacks(meaning(expression, NAMES), *named)


def test_the_sentence_has_the_size() -> None:
    assert not lacks(sentence({"layers": [2]}, NAMES, 73_728, 10_646_784), "**73,728 entries**", "**0.69%**")


def test_runs_of_the_same_models_are_named_by_what_differs() -> None:
    this, same, other = entry(id="a"), entry(id="b", seed=1), entry(id="c", pair=("x",), task="mrpc")
    names = names_beside([this, same, other], this)
    assert names["b"].replace("\N{NO-BREAK SPACE}", " ") == "stagewise · 0.1% · seed 1"
    assert names["c"].startswith("MRPC · ")

"""Tests of templates: the allowed fields, and the resulting texts."""

import pytest

from skillviz.errors import BadInput
from skillviz.tasks.template import Mask, Place, check_template, parse, places, rendered

PAIR = ("premise", "hypothesis")


def fill(template: str, *texts: str, lmbff_exact: bool = False) -> str:
    parts = parse(template, PAIR if len(texts) == 2 else ("text",))
    values = [place.filled(texts[place.field], lmbff_exact) for place in places(parts)]
    return rendered(parts, values, "[MASK]")


def test_places_and_mask_are_told_apart() -> None:
    assert [type(part) for part in parse("{a-}? <mask>, {b~}", PAIR)] == [Place, str, Mask, str, Place]


@pytest.mark.parametrize("template", ["{text} It was <mask>.", "{a} It was {mask}.", "{text_a} It was [MASK]."])
def test_every_spelling_of_text_and_mask(template: str) -> None:
    assert fill(template, "Fine film.") == "Fine film. It was [MASK]."


def test_column_names_are_places() -> None:
    assert fill("{premise} / {hypothesis~}", "One", "Two") == "One / two"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("Right.", "Right"), ("Right!", "Right"), ("Right?", "Right"), ("Right", "Right"), ("right,", "right,"), ("", "")],
)
def test_minus_drops_a_final_stop_only(text: str, shown: str) -> None:
    assert fill("{a-}? <mask>, {b~}", text, "So it is") == f"{shown}? [MASK], so it is"


def test_lmbff_exact_drops_any_last_character() -> None:
    assert fill("{a-}? <mask>, {b~}", "Right", "So", lmbff_exact=True) == "Righ? [MASK], so"


def test_both_changes_at_once() -> None:
    assert fill("{b-~}", "One.", "Two.") == "two"


def test_texts_with_braces_stay_as_they_are() -> None:
    assert fill("{text}: <mask>", "{text} {b} {{") == "{text} {b} {{: [MASK]"


def test_doubled_braces_are_braces() -> None:
    assert fill("{{{text}}} <mask>", "x") == "{x} [MASK]"


@pytest.mark.parametrize("template", ["{txt} <mask>", "{} <mask>", "{text <mask>", "{text} } <mask>", "{-} <mask>"])
def test_a_strange_brace_is_refused_and_the_allowed_ones_named(template: str) -> None:
    with pytest.raises(BadInput, match=r"is not a place; allowed are \{text\}"):
        parse(template, ("text",))


@pytest.mark.parametrize(
    ("template", "kind", "says"),
    [
        ("{text} was good", "masked", "exactly one <mask>; it has 0"),
        ("<mask> {text} <mask>", "masked", "exactly one <mask>; it has 2"),
        ("{text} was <mask>", "causal", "must end where the answer begins"),
        ("It was <mask>", "masked", "no place for a text"),
    ],
)
def test_templates_that_cannot_be_asked(template: str, kind: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        check_template(template, kind, ("text",), "task 'x'")

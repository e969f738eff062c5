"""Tests of the table of localizers: rows are complete, options are parsed and range-checked, torch is not needed."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

import pytest

from skillviz.core.localizers.table import LOCALIZERS, localizer
from skillviz.errors import BadInput
from tests.test_torch_free import heavy_after


@pytest.mark.parametrize("row", LOCALIZERS.values(), ids=LOCALIZERS)
def test_every_row_is_whole(row) -> None:  # type: ignore[no-untyped-def]
    module, _, function = row.run.partition(":")
    assert callable(getattr(import_module(module), function))
    assert row.sentence.endswith(".") and row.title and row.source
    assert all("option" in f.metadata or "instead" in f.metadata for f in fields(row.options))


@pytest.mark.parametrize("row", LOCALIZERS.values(), ids=LOCALIZERS)
def test_defaults_and_choices_are_in_range_and_what_lies_beyond_is_refused(row) -> None:  # type: ignore[no-untyped-def]
    defaults = row.options()
    for option in row.shown_options:
        assert option.sentence.endswith(".") and option.title
        default = getattr(defaults, option.name)
        assert option.read(default) == default and type(option.read(default)) is type(default)
        assert [option.read(choice) for choice in option.choices] == list(option.choices)
        if option.high is not None:
            row.make_options({option.name: option.high})
            with pytest.raises(BadInput, match=f"between {option.low:g} and {option.high:g}"):
                row.make_options({option.name: option.high * 1.01})
        if option.choices:
            with pytest.raises(BadInput, match=f"use one of {option.choices[0]}"):
                row.make_options({option.name: "luck"})


def test_the_published_values_are_those_of_the_published_mask() -> None:
    """PAPER.md, section 4: only the selection rule and its interval differ from the defaults."""
    options = localizer("learned").shown_options
    assert {o.name for o in options if o.paper != o.default} == {"selection", "score_every"}
    assert all(o.paper is not None for o in options)


def test_it_needs_no_torch() -> None:
    assert heavy_after("skillviz.core.localizers.table") == {}

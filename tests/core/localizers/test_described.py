"""The torch-free description against the table that runs: same localizers, options, defaults, ranges."""

from __future__ import annotations

from dataclasses import fields

import pytest

from skillviz.core.localizers import described, table
from skillviz.errors import BadInput
from tests.test_torch_free import heavy_after

NOT_SHOWN = {"base_indices", "stored"}


@pytest.mark.parametrize("name", table.LOCALIZERS)
def test_it_says_what_the_table_says(name: str) -> None:
    row, said = table.LOCALIZERS[name], described.LOCALIZERS[name]
    assert said.sentence == row.sentence
    assert (said.budgeted, said.nested, said.seeded) == (row.budgeted, row.nested, row.seeded)
    defaults = {f.name: getattr(row.options(), f.name) for f in fields(row.options) if f.name not in NOT_SHOWN}
    assert {option.name: option.default for option in said.options} == defaults
    assert [type(o.default) for o in said.options] == [type(defaults[o.name]) for o in said.options]


def test_the_order_is_the_tables() -> None:
    assert list(described.LOCALIZERS) == list(table.LOCALIZERS)


@pytest.mark.parametrize("name", table.LOCALIZERS)
def test_every_option_is_explained_and_its_range_is_the_tables(name: str) -> None:
    row = table.LOCALIZERS[name]
    for option in described.LOCALIZERS[name].options:
        assert option.sentence.endswith(".") and option.title
        for choice in option.choices:
            row.make_options({option.name: choice})
        if option.most is not None:
            row.make_options({option.name: option.most})
            with pytest.raises(BadInput):
                row.make_options({option.name: option.most * 1.01})


def test_the_published_values_are_those_of_the_published_mask() -> None:
    """PAPER.md, section 4: all but the rule of selection and its rhythm are the defaults."""
    learned = described.LOCALIZERS["learned"]
    differing = {o.name for o in learned.options if o.paper is not None and o.paper != o.default}
    assert differing == {"selection", "score_every"}
    assert all(o.paper is not None for o in learned.options)
    assert learned.option("steps") is learned.options[0] and learned.option("rounds") is None


def test_it_needs_no_torch() -> None:
    assert heavy_after("skillviz.core.localizers.described") == {}

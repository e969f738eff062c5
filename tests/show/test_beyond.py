"""Tests of the runs whose margins over their nulls can be pooled."""

from __future__ import annotations

from skillviz.runs.store import Store, shipped_root
from skillviz.show.beyond import of_other_models
from tests.small_world import opening_run


def test_other_fine_tuned_models_have_the_same_search_and_number_of_steps() -> None:
    """A checkpoint, another recipe, another size and another seed of the search are not pooled."""
    records = [run.record for run in Store(shipped_root()).list()]
    own = opening_run().record
    others = of_other_models(own, records)
    assert sorted(one.spec.finetuned for one in others) == ["models/examples/mr-sgd-1", "models/examples/mr-sgd-2"]
    assert {(one.size, one.spec.localizer, one.spec.seed) for one in others} == {(own.size, "stagewise", 0)}
    assert of_other_models(next(one for one in records if "checkpoint-312" in one.spec.finetuned), records) == []
    assert of_other_models(own.model_copy(update={"finetuned": None}), records) == []

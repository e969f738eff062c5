"""Tests of the library of runs: the label of a task's fold."""

from __future__ import annotations

import warnings

from skillviz.ui.pages.runs import _group_label
from tests.show.test_entries import entry


def test_a_task_of_several_metrics_has_the_best_graft_in_each() -> None:
    scores = [("exact_match", 0.0), ("exact_match", 0.25), ("perplexity", 4.5), ("perplexity", 3.25)]
    entries = [entry(seed=seed, metric=metric, grafted=value) for seed, (metric, value) in enumerate(scores)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for order in (entries, entries[::-1]):
            label = _group_label([*order, entry(seed=9, metric="accuracy", grafted=None)])
            assert label.endswith("· 5 runs · graft exact match up to 25.0% · graft perplexity down to 3.25")

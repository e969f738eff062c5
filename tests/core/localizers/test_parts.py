"""Tests of whole parts of the model: exact counts, options as text, and rankings limited to the biases."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest
import torch

from skillviz.core.composition import composition
from skillviz.core.localizers.candidates import biases_of
from skillviz.core.localizers.learned import learned_ranked
from skillviz.core.localizers.table import RankedOptions, localizer
from skillviz.core.parameters import graftable
from skillviz.core.problem import Problem
from skillviz.errors import BadInput, BadSize
from tests.core.localizers.test_every_localizer import finish
from tests.core.problems import tiny_problem


def found(name: str, problem: Problem, size: int = 5, seed: int = 0, **options: Any) -> np.ndarray:
    row = localizer(name)
    return finish(row.search(problem, size, seed=seed, options=row.make_options(options)))[1].order


def inside(problem: Problem, order: np.ndarray) -> set[str]:
    places = np.searchsorted(problem.table.offsets, order, side="right") - 1
    return {problem.table.names[i] for i in places}


def roberta_shapes() -> dict[str, tuple[int, ...]]:
    """Return the shapes of RoBERTa-base's blocks, with an embedding and a head."""
    h, m = 768, 3072
    block: dict[str, tuple[int, ...]] = {}
    for part in ("self.query", "self.key", "self.value", "output.dense"):
        block |= {f"attention.{part}.weight": (h, h), f"attention.{part}.bias": (h,)}
    block |= {"attention.output.LayerNorm.weight": (h,), "attention.output.LayerNorm.bias": (h,)}
    block |= {"intermediate.dense.weight": (m, h), "intermediate.dense.bias": (m,)}
    block |= {"output.dense.weight": (h, m), "output.dense.bias": (h,)}
    block |= {"output.LayerNorm.weight": (h,), "output.LayerNorm.bias": (h,)}
    blocks = {f"roberta.encoder.layer.{i}.{n}": s for i in range(12) for n, s in block.items()}
    embedding = {"roberta.embeddings.word_embeddings.weight": (50265, h), "roberta.embeddings.LayerNorm.bias": (h,)}
    return {**embedding, **blocks, "classifier.dense.bias": (h,)}


def test_roberta_base_has_101_376_biases_among_its_graftable_entries() -> None:
    """PAPER.md, section 2: the paper's Fig. 4a cannot exceed this share."""
    table = graftable("roberta", roberta_shapes())
    sizes = [p.size for p in table.parameters if p.is_bias]
    assert table.d == 85_054_464 and sum(sizes) == 101_376 and len(sizes) == 12 * 8


@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("gpt2", "causal"), ("distilbert", "prompt")])
def test_biases_are_all_of_them_and_nothing_else(family: str, readout: str) -> None:
    problem = tiny_problem(family, readout, n=4)
    order = found("biases", problem)
    names = [p.name for p in problem.table.parameters if p.name.endswith("bias")]
    assert inside(problem, order) == set(names) and any("norm" in n.lower() or "ln_" in n for n in names)
    assert len(order) == sum(p.size for p in problem.table.parameters if p.name in names)
    assert sorted(order.tolist()) == biases_of(problem).tolist()
    moves = problem.tau[torch.from_numpy(order)].abs()
    assert (moves[:-1] >= moves[1:]).all(), "those that moved most come first"


def test_ties_are_broken_by_place() -> None:
    problem = tiny_problem()
    still = Problem(problem.flat, problem.base, problem.base.clone(), problem.train)
    assert found("biases", still).tolist() == biases_of(still).tolist()
    assert found("layers", still, layers="1").tolist() == sorted(found("layers", still, layers="1").tolist())


def test_a_model_without_biases_is_told() -> None:
    problem = tiny_problem("llama", "causal", n=4)
    with pytest.raises(BadInput, match="no biases"):
        found("biases", problem)


def test_layers_and_kinds_are_whole() -> None:
    problem = tiny_problem()
    table = problem.table
    assert table.layers == 2
    parts = [found("layers", problem, layers=text) for text in ("0", "1")]
    assert sorted(np.concatenate(parts).tolist()) == list(range(problem.d))
    assert {".".join(n.split(".")[2:4]) for n in inside(problem, parts[1])} == {"layer.1"}
    options = localizer("kinds").make_options({"kinds": "value,key"})
    region = localizer("kinds").search(problem, 1, seed=0, options=options)
    rows = composition(finish(region)[1].region(table), table)
    chosen = rows.groupby("kind")["selected"].sum()
    totals = rows.groupby("kind")["total"].sum()
    assert set(chosen[chosen > 0].index) == {"value", "key"}
    assert (chosen[["value", "key"]] == totals[["value", "key"]]).all()
    for name in ("layers", "kinds"):
        steps, whole = finish(localizer(name).search(problem, 1, seed=0, options=localizer(name).make_options({})))
        assert len(whole.order) == problem.d and "every graftable entry" in whole.notes[0]
        assert steps[0].size == problem.d


def test_fused_query_key_value_are_told_apart() -> None:
    problem = tiny_problem("gpt2", "causal", n=4)
    sizes = [len(found("kinds", problem, kinds=kind)) for kind in ("query", "key", "value")]
    fused = sum(p.size for p in problem.table.parameters if p.fused)
    assert len(set(sizes)) == 1 and sum(sizes) == fused


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("layers", [1, 0], "0,1"), ("layers", "3, 1,1", "1,3"), ("layers", 2, "2"), ("layers", "all", "all"),
        ("layers", (5,), "5"), ("kinds", ["value", "query"], "query,value"), ("kinds", "all", "all"),
        ("kinds", "MLP out, attention output", "attention output,MLP out"),
    ],
)  # fmt: skip
def test_options_have_one_form(name: str, given: object, kept: str) -> None:
    assert getattr(localizer(name).make_options({name: given}), name) == kept


@pytest.mark.parametrize(
    ("name", "given"),
    [("layers", v) for v in ("", [], -1, "0,x", "0,all", 1.5, True, None)]
    + [("kinds", v) for v in ("", "queries", "query,all", 3)],
)
def test_options_that_cannot_be_read_are_refused(name: str, given: object) -> None:
    with pytest.raises(BadInput, match=f"{name}=.* or all"):
        localizer(name).make_options({name: given})


def test_what_the_model_lacks_is_told() -> None:
    problem = tiny_problem()
    with pytest.raises(BadInput, match="layer"):
        found("layers", problem, layers=[7])
    with pytest.raises(BadInput):
        found("kinds", problem, kinds="other")


@pytest.mark.parametrize("name", ["movement", "learned-ranked"])
def test_a_ranking_within_the_biases_keeps_to_them_at_exactly_the_size(name: str) -> None:
    problem = tiny_problem(quantum=0.1)
    biases = set(biases_of(problem).tolist())
    options = {"steps": 4, "batch_size": 5} if name == "learned-ranked" else {}
    for size in (1, 7, len(biases)):
        order = found(name, problem, size, within="biases", **options)
        assert len(set(order.tolist())) == size and set(order.tolist()) <= biases
        assert torch.equal(problem.flat.theta, problem.base)
    with pytest.raises(BadSize, match="biases of this model"):
        found(name, problem, len(biases) + 1, within="biases", **options)
    with pytest.raises(BadInput, match="use one of all, biases"):
        found(name, problem, 3, within="weights")


def test_all_is_what_it_was_before_there_was_a_choice() -> None:
    problem = tiny_problem()
    assert np.array_equal(found("movement", problem, 50), found("movement", problem, 50, within="all"))
    assert RankedOptions() == RankedOptions(within="all")


def test_the_mask_within_the_biases_descends_as_the_free_one_does_there() -> None:
    """After one step the scores of biases equal those of the free mask, whose other entries hardly move the model."""
    problem = tiny_problem(n=8)
    biases, d = biases_of(problem), problem.d
    options = {"steps": 1, "batch_size": 8, "lr": 1e6}
    free = np.array(found("learned-ranked", problem, d, **options))
    held = found("learned-ranked", problem, 40, within="biases", **options)
    of_free = [i for i in free.tolist() if i in set(biases.tolist())][:40]
    assert exp(-10) < 1e-4 and len(set(held.tolist()) & set(of_free)) >= 38


def test_a_mask_that_departs_from_movement_lets_go_of_what_it_may_not_have() -> None:
    problem = tiny_problem()
    options = RankedOptions(steps=3, batch_size=5, base="movement", base_share=0.5, within="biases")
    order = finish(learned_ranked(problem, 30, seed=0, options=options))[1].order
    assert set(order.tolist()) <= set(biases_of(problem).tolist())

"""Tests of attributions: they sum to the difference, agree with slow twins, and are exact for a linear model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import LayerConductance

from skillviz.errors import BadInput
from skillviz.models.attribution import (
    ANSWER,
    BLOCK,
    attribute,
    conductance,
    embeddings_replaced,
    explained,
    integrated_gradients,
    log_odds,
    module_names,
    special,
)
from tests.models.examples import FITTING, ModelPair, Region, examples, refuses, some_region
from tests.reference import attribution as twin

pytestmark = pytest.mark.slow


@pytest.fixture
def encoded(pair: ModelPair, tmp_path: Path) -> Any:
    return examples(tmp_path, pair, rows=4, labels=pair.model.config.num_labels if pair.readout_name == "head" else 2)


@pytest.mark.cases(0, 5)
@pytest.mark.parametrize(("family", "readout"), FITTING)
def test_attributions_add_up(pair: ModelPair, encoded: Any, family: str, readout: str) -> None:
    """Check every family and readout: the gap falls with the steps, special tokens get zero, and nothing is changed."""
    before, baseline = pair.flat.theta.clone(), "mask" if readout == "prompt" else "pad"
    most = 1000 if family == "opt" else 100  # kinks of ReLU, and padding of zero length under a LayerNorm
    coarse, fine = (
        attribute(pair, encoded, "finetuned", target=1, row=1, baseline=baseline, steps=steps) for steps in (2, most)
    )
    assert len(fine.tokens) == len(encoded.input_ids[1]) == len(fine.values)
    assert abs(fine.gap) < 0.01 * np.abs(fine.values).sum() and abs(fine.gap) <= abs(coarse.gap) + 1e-3
    special = np.isin(
        encoded.input_ids[1], [i for i in pair.tokenizer.all_special_ids if i != pair.tokenizer.unk_token_id]
    )
    assert not fine.values[special].any() and fine.values[~special].any() and torch.equal(pair.flat.theta, before)
    with pair.at("finetuned"):
        wanted = twin.log_odds(pair.objective(encoded).logits(np.array([1]))[0].tolist(), 1)
    assert fine.score == pytest.approx(wanted, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    ("family", "readout"), [("bert", "head"), ("roberta", "prompt"), ("gpt2", "causal"), ("opt", "head")]
)
def test_conductance_adds_up_in_every_layer(pair: ModelPair, encoded: Any, readout: str) -> None:
    coarse, fine = (
        conductance(pair, encoded, "pretrained", target=0, row=2, baseline="zero", steps=steps) for steps in (10, 200)
    )
    moved, shape = fine.score - fine.reference, (2, len(fine.tokens))
    assert [(kind, part.shape) for kind, part in fine.parts.items()] == [
        (kind, shape) for kind in [BLOCK, "MLP out", "attention output"]
    ]
    np.testing.assert_allclose(fine.parts[BLOCK].sum(axis=1), moved, rtol=0.02, atol=5e-3)
    assert abs(fine.gap) < abs(coarse.gap) and abs(fine.gap) == np.abs(fine.parts[BLOCK].sum(axis=1) - moved).max()
    assert (fine.tokens[-1] == ANSWER) is (readout == "causal")
    assert np.abs(fine.parts["MLP out"].sum(axis=1) - moved).max() > 0.01  # a part of the effect bypasses it


@pytest.mark.parametrize("options", [{"labels": 4}])
def test_integrated_gradients_equal_the_slow_twin(pair: ModelPair, encoded: Any) -> None:
    found = attribute(pair, encoded, "finetuned", target=2, row=3, steps=60)
    start, end, score = by_hand(pair, encoded, 3, target=2)
    with pair.at("finetuned"):
        values = twin.integrated_gradients(score, start, end, 400)[0].sum(-1).numpy()
    np.testing.assert_allclose(found.values, values, rtol=2e-3, atol=2e-4)
    assert np.abs(found.values + values).max() > 1e-2  # an error of sign would show


def test_conductance_equals_the_slow_twin_and_captum(pair: ModelPair, encoded: Any) -> None:
    found = conductance(pair, encoded, "finetuned", target=1, row=0, steps=100)
    start, end, score = by_hand(pair, encoded, 0, target=1)
    names = module_names(pair.table)
    assert names[BLOCK, 1] == "bert.encoder.layer.1" and names["MLP out", 0] == "bert.encoder.layer.0.output.dense"
    with pair.at("finetuned"):
        case = explained(pair, encoded, 1, 0)
        theirs = LayerConductance(case.score, pair.model.get_submodule(names["attention output", 1])).attribute(
            case.end, baselines=case.start, n_steps=200, method="riemann_trapezoid"
        )
        slow = {
            place: twin.conductance(score, pair.model.get_submodule(name), start, end, 200).numpy()
            for place, name in names.items()
        }
    slow[BLOCK, "captum"] = theirs[0].sum(-1).detach().numpy()
    for (part, layer), values in slow.items():
        own = found.parts["attention output"][1] if layer == "captum" else found.parts[part][layer]
        np.testing.assert_allclose(own, values, rtol=0.02, atol=5e-3)


def by_hand(pair: ModelPair, encoded: Any, row: int, target: int) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """Return both ends of the path of a tiny BERT's example, with [PAD] for each word, and its log odds by the twin."""
    ids, tokenizer = torch.tensor(encoded.input_ids[row]), pair.tokenizer
    kept = torch.isin(ids, torch.tensor([tokenizer.cls_token_id, tokenizer.sep_token_id]))
    embed = pair.model.get_input_embeddings()
    start, end = (embed(one)[None].detach() for one in (torch.where(kept, ids, tokenizer.pad_token_id), ids))
    types = torch.tensor(encoded.token_type_ids[row])[None]
    return start, end, lambda x: twin.head_log_odds(pair.model, x, types, target)


@pytest.mark.parametrize(("steps", "chunk"), [(2, None), (7, 2), (7, 1)])
def test_a_linear_score_is_attributed_exactly(steps: int, chunk: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, start, end = (torch.randn(1, 5, 3, generator=generator) for _ in range(3))
    torch.testing.assert_close(
        integrated_gradients(lambda x: (x * weight).sum(dim=(1, 2)) + 4, start, end, steps, chunk),
        weight * (end - start),
    )


@pytest.mark.parametrize("target", range(3))
def test_log_odds(target: int) -> None:
    logits = torch.tensor([[1.0, -2.0, 0.5], [0.0, 30.0, 1.0]])
    assert log_odds(logits, target).tolist() == pytest.approx(
        [twin.log_odds(row.double().tolist(), target) for row in logits], rel=1e-5
    )
    torch.testing.assert_close(log_odds(logits + 7, target), log_odds(logits, target))


@pytest.mark.parametrize("baseline", ["pad", "mask", "zero"])
@pytest.mark.parametrize(("family", "readout"), [("roberta", "prompt")])
def test_baselines_differ_in_where_the_path_starts(pair: ModelPair, encoded: Any, baseline: str) -> None:
    case, layer = explained(pair, encoded, 0, 0, baseline), pair.model.get_input_embeddings()
    kept = (case.start == case.end).all(-1)[0].numpy()
    assert kept[[0, -1, encoded.positions[0]]].all() and kept.sum() == 3
    assert torch.equal(
        case.start[0, 1], {"pad": layer.weight[1], "mask": layer.weight[4], "zero": torch.zeros(16)}[baseline]
    )
    torch.testing.assert_close(case.end[0], layer(torch.tensor(encoded.input_ids[0])))


def test_special_tokens_are_told_and_unknown_words_are_none(pair: ModelPair) -> None:
    ids = [40, *pair.tokenizer.convert_tokens_to_ids(["[CLS]", "[UNK]", "[MASK]", "[SEP]"])]
    assert special(np.array(ids), pair.tokenizer).tolist() == [False, True, False, True, True]


def test_states_differ_and_the_ends_are_grafts(pair: ModelPair, encoded: Any) -> None:
    wide, empty = some_region(pair, 0.3), Region.empty(pair.table.shapes)
    asked = {"pretrained": None, "finetuned": None, "grafted": wide, "grafted again": wide, "grafted empty": empty}
    values = {
        name: attribute(pair, encoded, name.split()[0], region, target=1).values for name, region in asked.items()
    }
    for one, other, equal in (
        ("pretrained", "finetuned", False),
        ("grafted", "finetuned", False),
        ("grafted", "grafted again", True),
        ("grafted empty", "pretrained", True),
    ):
        assert (np.array_equal if equal else np.allclose)(values[one], values[other]) is equal, (one, other)


def test_the_hook_leaves_with_its_context(pair: ModelPair) -> None:
    ids = {"input_ids": torch.tensor([[2, 40, 41, 3]])}
    plain = pair.model(**ids).logits
    with embeddings_replaced(pair.model, torch.zeros(1, 2, 16)):
        assert not torch.equal(pair.model(**ids).logits, plain)
    assert torch.equal(pair.model(**ids).logits, plain)


@pytest.mark.parametrize("family", ["gpt2"])
@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"target": 2}, "classes 0 to 1"),
        ({"target": 0, "row": 9}, "examples are 0 to"),
        ({"target": 0, "steps": 1}, "2 to 1000"),
        ({"target": 0, "baseline": "noise"}, "pad, mask, zero"),
        ({"target": 0, "baseline": "mask"}, "no mask token"),
    ],
)
def test_what_cannot_be_asked(pair: ModelPair, encoded: Any, asked: dict[str, Any], word: str) -> None:
    refuses(BadInput, word, attribute, pair, encoded, "finetuned", **asked)

"""Tests of attributions: they sum to the difference, agree with slow twins, and are exact for a linear model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

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
from skillviz.models.pair import ModelPair
from tests.models.examples import FITTING, examples, open_pair, some_region
from tests.reference import attribution as twin

pytestmark = pytest.mark.slow


@pytest.mark.cases(0, 5)
@pytest.mark.parametrize(("family", "readout"), FITTING)
def test_attributions_add_up(tmp_path: Path, family: str, readout: str) -> None:
    """Check every family and readout: the gap falls with the steps, special tokens get zero, and nothing is changed."""
    pair = open_pair(tmp_path, family, readout)
    encoded, before = examples(tmp_path, pair, rows=4), pair.flat.theta.clone()
    baseline = "mask" if readout == "prompt" else "pad"
    most = 1000 if family == "opt" else 100  # kinks of ReLU, and padding of zero length under a LayerNorm
    coarse, fine = (
        attribute(pair, encoded, "finetuned", target=1, row=1, baseline=baseline, steps=steps) for steps in (2, most)
    )
    assert len(fine.tokens) == len(encoded.input_ids[1]) == len(fine.values)
    assert abs(fine.gap) < 0.01 * np.abs(fine.values).sum()
    assert abs(fine.gap) <= abs(coarse.gap) + 1e-3
    special = np.isin(
        encoded.input_ids[1], [i for i in pair.tokenizer.all_special_ids if i != pair.tokenizer.unk_token_id]
    )
    assert not fine.values[special].any() and fine.values[~special].any()
    assert torch.equal(pair.flat.theta, before)
    logits = pair.objective(encoded)
    with pair.at("finetuned"):
        assert fine.score == pytest.approx(
            twin.log_odds(logits.logits(np.array([1]))[0].tolist(), 1), rel=1e-3, abs=1e-4
        )


@pytest.mark.parametrize(
    ("family", "readout"), [("bert", "head"), ("roberta", "prompt"), ("gpt2", "causal"), ("opt", "head")]
)
def test_conductance_adds_up_in_every_layer(tmp_path: Path, family: str, readout: str) -> None:
    pair = open_pair(tmp_path, family, readout)
    encoded = examples(tmp_path, pair, rows=4)
    coarse, fine = (
        conductance(pair, encoded, "pretrained", target=0, row=2, baseline="zero", steps=steps) for steps in (10, 200)
    )
    moved = fine.score - fine.reference
    assert list(fine.parts) == [BLOCK, "MLP out", "attention output"]
    assert all(part.shape == (2, len(fine.tokens)) for part in fine.parts.values())
    np.testing.assert_allclose(fine.parts[BLOCK].sum(axis=1), moved, rtol=0.02, atol=5e-3)
    assert abs(fine.gap) < abs(coarse.gap) and abs(fine.gap) == np.abs(fine.parts[BLOCK].sum(axis=1) - moved).max()
    assert (fine.tokens[-1] == ANSWER) is (readout == "causal")
    assert np.abs(fine.parts["MLP out"].sum(axis=1) - moved).max() > 0.01  # a part of the effect bypasses it


def test_integrated_gradients_equal_the_slow_twin(tmp_path: Path) -> None:
    pair = open_pair(tmp_path, "bert", "head", labels=4)
    encoded = examples(tmp_path, pair, rows=4, labels=4)
    found = attribute(pair, encoded, "finetuned", target=2, row=3, steps=60)
    start, end, types = by_hand(pair, encoded, 3)
    with pair.at("finetuned"):
        values = twin.integrated_gradients(
            lambda x: twin.head_log_odds(pair.model, x, types, 2), start, end, 400
        )[0].sum(-1)  # fmt: skip
    np.testing.assert_allclose(found.values, values.numpy(), rtol=2e-3, atol=2e-4)
    assert np.abs(found.values + values.numpy()).max() > 1e-2  # an error of sign would show


def test_conductance_equals_the_slow_twin_and_captum(tmp_path: Path) -> None:
    from captum.attr import LayerConductance

    pair = open_pair(tmp_path, "bert", "head")
    encoded = examples(tmp_path, pair, rows=4)
    found = conductance(pair, encoded, "finetuned", target=1, row=0, steps=100)
    start, end, types = by_hand(pair, encoded, 0)
    names = module_names(pair.table)
    assert names[BLOCK, 1] == "bert.encoder.layer.1" and names["MLP out", 0] == "bert.encoder.layer.0.output.dense"
    with pair.at("finetuned"):
        case = explained(pair, encoded, 1, 0)
        for (part, layer), name in names.items():
            module = pair.model.get_submodule(name)
            slow = twin.conductance(
                lambda x: twin.head_log_odds(pair.model, x, types, 1), module, start, end, 200
            )  # fmt: skip
            np.testing.assert_allclose(found.parts[part][layer], slow.numpy(), rtol=0.02, atol=5e-3)
        theirs = LayerConductance(case.score, pair.model.get_submodule(names["attention output", 1])).attribute(
            case.end, baselines=case.start, n_steps=200, method="riemann_trapezoid"
        )
    np.testing.assert_allclose(
        found.parts["attention output"][1], theirs[0].sum(-1).detach().numpy(), rtol=0.02, atol=5e-3
    )


def by_hand(pair: ModelPair, encoded: Any, row: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return both ends of the path of a tiny BERT's example, with [PAD] for each word, and the token types."""
    ids = torch.tensor(encoded.input_ids[row])
    special = [pair.tokenizer.cls_token_id, pair.tokenizer.sep_token_id]
    padded = torch.tensor([i if i in special else pair.tokenizer.pad_token_id for i in ids.tolist()])
    embed = pair.model.get_input_embeddings()
    return embed(padded)[None].detach(), embed(ids)[None].detach(), torch.tensor(encoded.token_type_ids[row])[None]


def test_a_linear_score_is_attributed_exactly() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, start, end = (torch.randn(1, 5, 3, generator=generator) for _ in range(3))
    for steps, chunk in ((2, None), (7, 2), (7, 1)):
        values = integrated_gradients(lambda x: (x * weight).sum(dim=(1, 2)) + 4, start, end, steps, chunk)
        torch.testing.assert_close(values, weight * (end - start))


def test_log_odds() -> None:
    logits = torch.tensor([[1.0, -2.0, 0.5], [0.0, 30.0, 1.0]])
    for row in logits:
        for target in range(3):
            wanted = twin.log_odds(row.double().tolist(), target)
            assert float(log_odds(row[None], target)) == pytest.approx(wanted, rel=1e-5)
    torch.testing.assert_close(log_odds(logits + 7, 1), log_odds(logits, 1))


@pytest.mark.parametrize("baseline", ["pad", "mask", "zero"])
def test_baselines_differ_in_where_the_path_starts(tmp_path: Path, baseline: str) -> None:
    pair = open_pair(tmp_path, "roberta", "prompt")
    encoded = examples(tmp_path, pair, rows=4)
    case = explained(pair, encoded, 0, 0, baseline)
    kept = (case.start == case.end).all(-1)[0].numpy()
    place = encoded.positions[0]
    assert kept[[0, -1, place]].all() and kept.sum() == 3
    layer = pair.model.get_input_embeddings()
    wanted = {"pad": layer.weight[1], "mask": layer.weight[4], "zero": torch.zeros(16)}[baseline]
    assert torch.equal(case.start[0, 1], wanted)
    torch.testing.assert_close(case.end[0], layer(torch.tensor(encoded.input_ids[0])))


def test_special_tokens_are_told_and_unknown_words_are_none(tmp_path: Path) -> None:
    tokenizer = open_pair(tmp_path).tokenizer
    ids = [tokenizer.cls_token_id, tokenizer.unk_token_id, 40, tokenizer.mask_token_id, tokenizer.sep_token_id]
    assert special(np.array(ids), tokenizer).tolist() == [True, False, False, True, True]


def test_states_differ_and_the_ends_are_grafts(tmp_path: Path) -> None:
    pair = open_pair(tmp_path)
    encoded, region = examples(tmp_path, pair, rows=4), some_region(pair, 0.3)
    values = {s: attribute(pair, encoded, s, region, target=1).values for s in ("pretrained", "finetuned", "grafted")}
    assert not np.allclose(values["pretrained"], values["finetuned"])
    assert not np.allclose(values["grafted"], values["finetuned"])
    assert np.array_equal(attribute(pair, encoded, "grafted", region, target=1).values, values["grafted"])
    empty = attribute(pair, encoded, "grafted", some_region(pair, 0) - some_region(pair, 0), target=1)
    assert np.array_equal(empty.values, values["pretrained"])


def test_the_hook_leaves_with_its_context(tmp_path: Path) -> None:
    pair = open_pair(tmp_path)
    ids = {"input_ids": torch.tensor([[2, 40, 41, 3]])}
    plain = pair.model(**ids).logits
    with embeddings_replaced(pair.model, torch.zeros(1, 2, 16)):
        replaced = pair.model(**ids).logits
    assert not torch.equal(plain, replaced) and torch.equal(pair.model(**ids).logits, plain)


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
def test_what_cannot_be_asked(tmp_path: Path, asked: dict[str, Any], word: str) -> None:
    pair = open_pair(tmp_path, "gpt2", "head")
    encoded = examples(tmp_path, pair, rows=4)
    with pytest.raises(BadInput, match=word):
        attribute(pair, encoded, "finetuned", **asked)

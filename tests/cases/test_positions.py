"""Test that a text longer than a model's positions is truncated to fit, in every family."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from skillviz.core.architectures import FAMILIES
from skillviz.models.pair import load_pair
from skillviz.models.tokenizer import fit_together, load_tokenizer, places
from skillviz.tasks.splits import load
from skillviz.tasks.user_file import read_task
from tests.cases.build import evaluated, task_file, tiny_rows
from tests.tiers import first
from tests.tiny import tiny_tokenizer
from tests.tiny_families import family_model, family_pair
from tests.tiny_tokenizers import POSITIONS

FROM_PADDING = (
    "roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "esm", "xmod", "data2vec-text",
    "roberta-prelayernorm", "xlm-roberta-xl", "ibert",
)  # fmt: skip
"""Families that count positions from the padding id, including LUKE, whose model of 500,000 entities is a slow test."""
OTHERS = ("bert", "gpt2", "nystromformer", "opt", "bart", "llama", "t5", "xglm")
LONG = [{"text": " ".join(row["text"] for row in tiny_rows(40, seed=seed)), "label": seed % 2} for seed in range(4)]


def unlimited(folder: Path) -> None:
    """Save the tokenizer again without a maximum length."""
    tokenizer = tiny_tokenizer("roberta")
    before, tokenizer.model_max_length = tokenizer.model_max_length, 10**30
    tokenizer.save_pretrained(folder)
    tokenizer.model_max_length = before


@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("family", ["roberta", "mpnet", "esm"])
def test_evaluate_shortens_texts_to_the_positions(tmp_path: Path, family: str) -> None:
    base, tuned = family_pair(tmp_path, family)
    for folder in (base, tuned):
        unlimited(folder)
    task = task_file(tmp_path / "task", LONG, LONG, max_length=512)
    accuracy, result = evaluated(base, tuned, task, readout="head")
    assert accuracy in (0, 0.25, 0.5, 0.75, 1)
    assert f"test: 4 of 4 texts were shortened to {POSITIONS} tokens (the most that the model takes)." in result.notes


@pytest.mark.cases(14, 22)
@pytest.mark.parametrize("family", first(FAMILIES, (*FROM_PADDING, *OTHERS).__contains__))
def test_the_limit_is_what_the_family_takes(tmp_path: Path, family: str) -> None:
    """The model runs at the limit; one more token fails if the model has a position table."""
    model = family_model(family)
    model.config.save_pretrained(tmp_path)
    unlimited(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    fit_together(model, tokenizer)
    limit = min(int(tokenizer.model_max_length), 512)
    assert run(model, limit).isfinite().all()
    if family in FROM_PADDING:
        assert limit == POSITIONS
    if list(places(model)):
        with pytest.raises((IndexError, RuntimeError)):
            run(model, limit + 1)


@pytest.mark.parametrize("family", ["t5", "mt5", "funnel"])
def test_distances_have_no_end(tmp_path: Path, family: str) -> None:
    """Old files of these families give a number of positions, which limits nothing."""
    model = family_model(family)
    model.config.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "n_positions": 40, "max_position_embeddings": 40}))
    unlimited(tmp_path)
    assert load_tokenizer(tmp_path).model_max_length > 512 and run(model, 100).isfinite().all()


def run(model: torch.nn.Module, tokens: int) -> torch.Tensor:
    """Return the model's scores for an input of this many tokens."""
    ids = torch.full((1, tokens), 20)
    ids[0, 0], ids[0, -1] = 0, 2
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


@pytest.mark.parametrize(("stated", "wanted"), [(None, POSITIONS), (512, POSITIONS), (20, 20)])
def test_a_pair_knows_its_limit(tmp_path: Path, stated: int | None, wanted: int) -> None:
    base, tuned = family_pair(tmp_path, "mpnet")
    for folder in (base, tuned):
        unlimited(folder)
    changes = {} if stated is None else {"max_length": stated}
    task = read_task(task_file(tmp_path / "task", LONG, LONG, **changes))
    pair = load_pair(base, tuned, task=task, device="cpu")
    assert pair.limit(task) == wanted
    assert {len(ids) for ids in pair.encode(task, load(task).test).input_ids} == {wanted}

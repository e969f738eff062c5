"""Tests of the recipes: the parameters that each trains, its optimizer against torch's, and refused settings."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from skillviz.api import finetune
from skillviz.core.parameters import graftable
from skillviz.core.region import Region
from skillviz.errors import BadInput, BadModel
from skillviz.models.finetune.grid import Attempt, search
from skillviz.models.finetune.recipes import RECIPES, check_use, grid_of, paper_steps, recipe_row
from skillviz.models.finetune.region_lock import MovedOutside, RegionLock
from skillviz.models.finetune.trainable_model import open_trainable
from skillviz.models.finetune.training import Diverged, Trainer, TrainStep, add_l1_gradient, descend, training_data
from skillviz.models.finetune.training_config import DataSettings, TrainingConfig
from skillviz.models.pair import load_pair
from skillviz.tasks.registry import task
from tests.tiny import tiny_pair, tiny_task


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Return the tiny task with two labels."""
    return task(tiny_task(tmp_path_factory.mktemp("data"), rows=64))


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return a bare BERT encoder, the usual form of a pre-trained model."""
    return tiny_pair(tmp_path_factory.mktemp("bert"), "bert", "head")[0]


def told(folder):
    return json.loads((folder / "finetune.json").read_text())


def table_of(folder):
    """Return the graftable parameters of a fine-tuned folder."""
    shapes = {name: tuple(t.shape) for name, t in load_file(folder / "model.safetensors").items()}
    return graftable("bert", shapes)


def moved(base, folder):
    """Return name -> mask of the entries of the blocks that differ from the base's."""
    before, after = load_file(base / "model.safetensors"), load_file(folder / "model.safetensors")
    return {n: after[n] != before[n.removeprefix("bert.")] for n in after if n.removeprefix("bert.") in before}


def region_of(bare, tiny, tmp_path, share=0.1, seed=0):
    """Return a random region of the tiny BERT, by the names of its classification model."""
    finetune(str(bare), tiny, out=tmp_path / f"shapes{seed}", steps=1, device="cpu")
    shapes = table_of(tmp_path / f"shapes{seed}").shapes
    d = Region.full(shapes).size
    chosen = np.random.default_rng(seed).permutation(d)[: int(share * d)]
    return Region.from_flat(chosen, shapes)


def test_the_table_has_all_and_an_unknown_name_lists_them():
    wanted = ["sgd", "adamw", "adamw-l1", "bitfit", "lora", "graft-retrain", "multi-task", "continual"]
    assert list(RECIPES) == wanted
    assert all(row.sentence.endswith(".") and row.source and row.trained for row in RECIPES.values())
    with pytest.raises(BadInput, match="known: sgd, adamw, adamw-l1, bitfit"):
        recipe_row("adam")


def test_presets_are_the_paper_s():
    assert (paper_steps(2, 64), paper_steps(3, 4096), paper_steps(2, 4095)) == (2048, 24_576, 131_040)
    grid = grid_of(recipe_row("sgd"), "paper", 8)
    assert (grid.batch_sizes, grid.rates) == ((2, 4, 8), (1e-2, 5e-3, 1e-3))
    assert grid_of(recipe_row("adamw"), "paper", 8).rates == (1e-5, 2e-5, 5e-5)
    assert max(grid_of(recipe_row("bitfit"), "paper", 8).rates) == 10 * max(grid.rates)
    assert grid_of(recipe_row("sgd"), "quick", 16).batch_sizes == (16,)
    assert grid_of(recipe_row("sgd"), "none", 8) is None
    assert len(TrainingConfig(grid="paper").points()) == 9


def test_the_linear_rate_ends_near_zero_and_warms_up():
    settings = TrainingConfig("adamw", steps=10, lr=1.0).settings()
    assert [settings.rate(s) for s in (1, 2, 10)] == pytest.approx([1.0, 0.9, 0.1])
    warm = TrainingConfig("lora", steps=100, lr=1.0).settings()
    assert [warm.rate(s) for s in (3, 6, 7, 100)] == pytest.approx([0.5, 1.0, 1.0, 1 / 94])


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("graft-retrain", {}, "--region"),
        ("sgd", {"rank": 2}, "rank goes with the recipe lora"),
        ("sgd", {"tasks": 2}, "learns one task"),
        ("sgd", {"regions": 1}, "regions go with graft-retrain"),
        ("graft-retrain", {"regions": 2}, "takes one region; got 2"),
        ("lora", {"rank": 0}, "1 or more"),
        ("bitfit", {"matrices": 2}, "matrices goes with the recipe lora"),
        ("lora", {"matrices": 0}, "1 or more, or leave it out"),
        ("multi-task", {}, "several tasks"),
        ("multi-task", {"tasks": 2, "mode": "naive"}, "recipe continual"),
        ("continual", {"tasks": 2, "mode": "forgetful"}, "known: naive, grafting"),
        ("continual", {"tasks": 2, "mode": "grafting"}, "region per task"),
        ("continual", {"tasks": 3, "mode": "grafting", "regions": 2}, "3 tasks and 2 regions"),
        ("continual", {"tasks": 2, "mode": "naive", "regions": 2}, "leave out the regions"),
        ("continual", {"tasks": 2, "grid": "quick"}, "no grid"),
        ("sgd", {"grid": "paper", "lr": 0.1}, "leave out the rate"),
        ("sgd", {"grid": "large"}, "known: none, quick, paper"),
        ("adamw", {"optimizer": "sgd"}, "its own optimizer"),
        ("adamw", {"optimizer": "sgd"}, "goes with graft-retrain, multi-task and continual"),
        ("graft-retrain", {"regions": 1, "optimizer": "lion"}, "known: sgd, adamw, adamw-l1"),
        ("multi-task", {"tasks": 2, "optimizer": "lion"}, "known: sgd, adamw, adamw-l1"),
        ("bitfit", {"extra_trained": True}, "decides what is trained"),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_sentence(name, options, says):
    with pytest.raises(BadInput, match=says):
        check_use(name, **options)


def test_bitfit_changes_only_biases(bare, tiny, tmp_path):
    found = finetune(str(bare), tiny, out=tmp_path / "out", recipe="bitfit", steps=20, device="cpu")
    changed = moved(bare, tmp_path / "out")
    table = table_of(tmp_path / "out")
    biases = {p.name for p in table.parameters if p.is_bias}
    free = {name for name, mask in changed.items() if mask.any() and "pooler" not in name}
    # softmax ignores a key's bias: its gradient is zero except for rounding.
    assert biases - {name for name in biases if "key" in name} <= free <= biases
    assert any("LayerNorm.bias" in name for name in biases)
    record = told(tmp_path / "out")
    assert record["trained"] == found.trained == sum(p.size for p in table.parameters if p.is_bias)
    assert record["touched"] == sum(int(changed[name].sum()) for name in biases)
    assert (record["recipe"], record["settings"]["lr"]) == ("bitfit", 5e-2)


def test_bitfit_needs_biases(tiny, tmp_path):
    base = tiny_pair(tmp_path, "llama", "head")[0]
    with pytest.raises(BadModel, match="no biases"):
        finetune(str(base), tiny, out=tmp_path / "out", recipe="bitfit", steps=1, device="cpu")


@pytest.mark.nightly
def test_graft_retrain_changes_only_the_region(bare, tiny, tmp_path):
    region = region_of(bare, tiny, tmp_path)
    found = finetune(
        str(bare), tiny, out=tmp_path / "out", recipe="graft-retrain", region=region, steps=120, lr=0.3, device="cpu"
    )
    before, after = load_file(bare / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    for name in region.shapes:
        old, new = before[name.removeprefix("bert.")], after[name]
        outside = ~torch.from_numpy(region.mask(name))
        assert torch.equal(old[outside].view(torch.int32), new[outside].view(torch.int32)), name
        assert name not in region.indices or name.endswith("key.bias") or not torch.equal(old, new), name
    record = told(tmp_path / "out")
    assert 0 < record["touched"] <= record["trained"] == found.trained == region.size
    assert record["region"] == {"size": region.size, "d": region.d, "sha256": region.sha256()}
    pair = load_pair(bare, tmp_path / "out")
    assert int((pair.base != pair.finetuned).sum()) == record["touched"]


@pytest.mark.parametrize("planted", ["mask", "decay"])
def test_a_planted_error_in_the_mask_is_found(planted, bare, tiny, tmp_path, monkeypatch):
    region = region_of(bare, tiny, tmp_path)

    def decays_all(self, amount):
        for parameter in self.parameters.values():
            parameter.data.mul_(1 - amount)

    monkeypatch.setattr(RegionLock, planted, (lambda self: None) if planted == "mask" else decays_all)
    with pytest.raises(MovedOutside, match="entries outside the region moved"):
        finetune(
            str(bare), tiny, out=tmp_path / "out", recipe="graft-retrain", region=region, steps=3, lr=0.3, device="cpu"
        )
    assert not (tmp_path / "out").exists()


def test_a_region_of_other_shapes_is_refused(bare, tiny, tmp_path):
    other = Region({"x": np.array([0])}, {"x": (3,)})
    with pytest.raises(BadInput, match="another architecture"):
        finetune(str(bare), tiny, out=tmp_path / "o", recipe="graft-retrain", region=other, steps=1, device="cpu")


def test_the_l1_gradient_is_autograd_s():
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn(50, dtype=torch.float64, generator=generator, requires_grad=True)
    pre = torch.randn(50, dtype=torch.float64, generator=generator)
    with torch.no_grad():
        pre[:10] = theta[:10]
    loss = (theta**3).sum() + 0.001 * (theta - pre).abs().sum()
    (wanted,) = torch.autograd.grad(loss, theta)
    theta.grad = (3 * theta**2).detach()
    add_l1_gradient([(theta, pre)], 0.001)
    assert torch.allclose(theta.grad, wanted, rtol=0, atol=1e-15)
    assert torch.equal(theta.grad[:10], (3 * theta**2).detach()[:10])


@pytest.mark.parametrize(("name", "weight"), [("adamw", 0.0), ("adamw-l1", 0.001)])
def test_adamw_is_torch_s_with_a_linear_rate(name, weight, bare, tiny, tmp_path):
    settings = TrainingConfig(name, steps=6, lr=0.01).settings()
    ours, twin = (trainer_of(bare, tiny, settings) for _ in range(2))
    list(ours.steps())
    slow_twin(twin, weight)
    for one, other in zip(ours.model.trained, twin.model.trained, strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-7)


def trainer_of(bare, tiny, settings):
    model = open_trainable(str(bare), tiny, settings, torch.device("cpu"))
    (data,) = training_data([tiny], DataSettings(), "head")
    return Trainer(model, data, settings)


def slow_twin(trainer, weight):
    """Write out six steps: the penalty is in the loss, the rate follows torch's own schedule."""
    model = trainer.model
    optimizer = torch.optim.AdamW(model.groups(1e-4), lr=0.01)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 - done / 6)
    start = [value.clone() for _, value in model.moving]
    for step in range(1, 7):
        optimizer.zero_grad()
        trainer.backward(step)
        if weight:
            moved = sum((p - s).abs().sum() for (p, _), s in zip(model.moving, start, strict=True))
            (weight * moved).backward()
        torch.nn.utils.clip_grad_norm_(model.trained, 1.0)
        optimizer.step()
        falling.step()


@pytest.mark.nightly
def test_the_penalty_keeps_entries_near_the_base(bare, tiny, tmp_path):
    options = {"steps": 50, "lr": 0.003, "device": "cpu"}
    distances = {}
    for name in ("adamw", "adamw-l1"):
        pair = load_pair(bare, finetune(str(bare), tiny, out=tmp_path / name, recipe=name, **options).path)
        distances[name] = float((pair.finetuned - pair.base).abs().sum())
    assert distances["adamw-l1"] < distances["adamw"]


def test_the_grid_keeps_the_best_on_validation(bare, tiny, tmp_path):
    seen = []
    found = finetune(str(bare), tiny, out=tmp_path / "out", grid="quick", steps=15, device="cpu", progress=seen.append)
    stored = told(tmp_path / "out")["grid"]
    assert [(p["batch_size"], p["lr"]) for p in stored] == [(8, 1e-2), (8, 5e-3), (8, 1e-3)]
    chosen = [p for p in stored if p["chosen"]]
    assert len(chosen) == 1 and chosen[0]["value"] == max(p["value"] for p in stored)
    assert found.scores["validation"]["accuracy"] == chosen[0]["value"]
    assert told(tmp_path / "out")["settings"]["lr"] == chosen[0]["lr"]
    assert [r.step for r in seen] == list(range(1, 46)) and {r.steps for r in seen} == {45}


def fake(values):
    """Return an attempt that scores these values; None stands for a loss of NaN."""
    values = iter(values)

    def attempt(settings, on_step):
        value = next(values)
        if value is None:
            raise Diverged("the loss became nan")
        on_step(TrainStep(1, 1, 0.0, 0.0))
        return Attempt(settings, [], [], 1, value, 0.5)

    return attempt


def test_of_equal_points_the_first_and_a_diverged_one_is_on_record():
    points = TrainingConfig(grid="quick").points()
    found = search(points, fake([None, 0.7, 0.7]), lambda record: None)
    assert found.best.settings.lr == 5e-3
    assert [p["value"] for p in found.points] == [None, 0.7, 0.7]
    assert [p["chosen"] for p in found.points] == [False, True, False]
    with pytest.raises(Diverged):
        search(points, fake([None, None, None]), lambda record: None)


def test_sgd_is_the_plain_loop(bare, tiny):
    """The paper's loop, written out with torch.optim.SGD, gives the same bits."""
    settings = TrainingConfig(steps=5, lr=0.1).settings()
    ours, twin = (trainer_of(bare, tiny, settings) for _ in range(2))
    list(ours.steps())
    optimizer = torch.optim.SGD(twin.model.groups(1e-4), lr=0.1)
    for step in range(1, 6):
        optimizer.zero_grad()
        twin.backward(step)
        torch.nn.utils.clip_grad_norm_(twin.model.trained, 1.0)
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.model.trained, twin.model.trained, strict=True))


@pytest.mark.parametrize("name", ["sgd", "graft-retrain"])
@pytest.mark.parametrize("planted", [float("nan"), float("inf")])
def test_a_gradient_that_is_no_number_ends_training_before_anything_moves(name, planted, bare, tiny, tmp_path):
    """The loss may still be finite then, and after the last step there would be no other check."""
    settings = TrainingConfig(name, steps=2).settings()
    region = region_of(bare, tiny, tmp_path) if name == "graft-retrain" else None
    model = open_trainable(str(bare), tiny, settings, torch.device("cpu"), region)
    before = model.copy()

    def backward(step):
        for p in model.trained:
            p.grad = torch.full_like(p, planted if step == 2 else 0.0)
        return 1.0

    with pytest.raises(Diverged, match=r"gradient's norm became \w+ at step 2 of 2.*--lr"):
        list(descend(model, replace(settings, weight_decay=0.0), backward, lambda: 0.0))
    assert all(torch.equal(a, b) for a, b in zip(before, model.copy(), strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sgd", "adamw-l1", "bitfit", "lora", "graft-retrain"])
def test_every_recipe_runs_on_cuda(name, bare, tiny, tmp_path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    region = region_of(bare, tiny, tmp_path) if name == "graft-retrain" else None
    done = finetune(str(bare), tiny, out=tmp_path / "out", recipe=name, region=region, steps=5, device="cuda")
    load_pair(bare, tmp_path / "out")
    assert done.touched > 0


def test_the_last_step_is_kept_where_it_is_asked_for() -> None:
    last = TrainingConfig(readout="prompt", steps=700, keep="last").settings()
    assert last.check_every == last.steps == 700 and TrainingConfig(steps=700).settings().check_every < 700
    with pytest.raises(BadInput, match="best, last"):
        TrainingConfig(keep="first").settings()

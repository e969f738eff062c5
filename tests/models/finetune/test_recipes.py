"""Tests of the recipes: the parameters that each trains, its optimizer against torch's, and refused settings; and of
LoRA in training: after merging, an ordinary model has peft's own logits."""

from dataclasses import replace
from functools import partial
from operator import attrgetter

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForMaskedLM

from skillviz.api import finetune
from skillviz.core.architectures import FAMILIES
from skillviz.core.parameters import graftable
from skillviz.errors import BadInput, BadModel
from skillviz.models.finetune.grid import Attempt, search
from skillviz.models.finetune.recipes import RECIPES, check_use, grid_of, paper_steps, recipe_row
from skillviz.models.finetune.trainable_model import Adapter, adapted, open_trainable
from skillviz.models.finetune.training import Diverged, Trainer, TrainStep, add_l1_gradient, descend, training_data
from tests.core.by_hand import near
from tests.models.finetune.trained import (
    DataSettings,
    MovedOutside,
    RegionLock,
    TrainingConfig,
    by_hand,
    differing,
    first,
    load_pair,
    refused,
    refuses,
    region_of,
    tiny_model,
    told,
    weights,
)
from tests.tiny_families import ONE_A_SCHEME, family_model


@pytest.fixture
def tune(bare, tiny, tmp_path):
    """Return a function that fine-tunes the encoder in the folder `out`."""
    return partial(finetune, str(bare), tiny, out=tmp_path / "out", device="cpu")


@pytest.fixture(scope="module")
def region(bare, tiny):
    return region_of(bare, tiny, share=0.1)


def test_the_table_has_all_and_an_unknown_name_lists_them():
    told = [name for name, row in RECIPES.items() if row.sentence.endswith(".") and row.source and row.trained]
    assert told == [
        "sgd", "adamw", "adamw-l1", "bitfit", "lora", "adapter-houlsby", "adapter-pfeiffer", "graft-retrain",
        "multi-task", "continual",
    ]  # fmt: skip

    refuses(BadInput, "known: sgd, adamw, adamw-l1, bitfit", recipe_row, "adam")


test_what_does_not_go_together_is_refused_in_a_sentence = refused(
    BadInput,
    *((says, partial(check_use, name, **options)) for name, options, says in (
        ("graft-retrain", {}, "--region"),
        ("sgd", {"rank": 2}, "rank goes with the recipe lora"),
        ("sgd", {"tasks": 2}, "learns one task"),
        ("sgd", {"regions": 1}, "regions go with graft-retrain"),
        ("graft-retrain", {"regions": 2}, "takes one region; got 2"),
        ("lora", {"rank": 0}, "1 or more"),
        ("lora", {"width": 2}, "width goes with the recipe adapter-houlsby and adapter-pfeiffer"),
        ("adapter-houlsby", {"rank": 2}, "rank goes with the recipe lora"),
        ("adapter-pfeiffer", {"width": 0}, "the paper: 1, 2, 16, 64"),
        ("adapter-pfeiffer", {"width": 100_001}, "give at most 100,000"),
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
    )),
)  # fmt: skip


def test_bitfit_changes_only_biases(bare, tune):
    found = tune(recipe="bitfit", steps=20)
    before, after = {f"bert.{name}": tensor for name, tensor in weights(bare).items()}, weights(found.path)
    biases = {
        p.name
        for p in graftable("bert", {name: tuple(tensor.shape) for name, tensor in after.items()}).parameters
        if p.is_bias
    }
    free = {name for name in differing(before, after) & before.keys() if "pooler" not in name}
    # softmax ignores a key's bias: its gradient is zero except for rounding.
    assert biases - {name for name in biases if "key" in name} <= free <= biases
    assert any("LayerNorm.bias" in name for name in biases)
    wanted = {
        "trained": sum(after[name].numel() for name in biases),
        "touched": sum(int((after[name] != before[name]).sum()) for name in biases),
        "recipe": "bitfit",
    }
    record = told(found.path)
    assert ({name: record[name] for name in wanted}, found.trained, record["settings"]["lr"]) == (
        wanted, wanted["trained"], 5e-2,
    )  # fmt: skip


@pytest.mark.nightly
def test_graft_retrain_changes_only_the_region(bare, tune, region):
    found = tune(recipe="graft-retrain", region=region, steps=120, lr=0.3)
    after = weights(found.path)
    before = {name: tensor for name in after if (tensor := weights(bare).get(name.removeprefix("bert."))) is not None}
    outside = {name: ~torch.from_numpy(region.mask(name)) for name in region.shapes}
    assert not differing(*({name: side[name][outside[name]] for name in outside} for side in (before, after)))
    moved = {name for name in region.indices if not torch.equal(before[name], after[name])}
    assert [name for name in region.indices.keys() - moved if not name.endswith("key.bias")] == []
    record, pair = told(found.path), load_pair(bare, found.path)
    assert 0 < record["touched"] <= record["trained"] == found.trained == region.size
    assert (record["region"], int((pair.base != pair.finetuned).sum())) == (
        {"size": region.size, "d": region.d, "sha256": region.sha256()},
        record["touched"],
    )


@pytest.mark.parametrize("planted", ["mask", "decay"])
def test_a_planted_error_in_the_mask_is_found(planted, tune, region, tmp_path, monkeypatch):
    def decays_all(self, amount):
        for parameter in self.parameters.values():
            parameter.data.mul_(1 - amount)

    monkeypatch.setattr(RegionLock, planted, (lambda self: None) if planted == "mask" else decays_all)
    refuses(
        MovedOutside, "entries outside the region moved", tune, recipe="graft-retrain", region=region, steps=3, lr=0.3
    )
    assert not (tmp_path / "out").exists()


def test_the_l1_gradient_is_autograd_s():
    theta, pre = torch.randn(2, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    pre[:10] = theta[:10]
    theta.requires_grad_()
    (wanted,) = torch.autograd.grad((theta**3).sum() + 0.001 * (theta - pre).abs().sum(), theta)
    theta.grad = (3 * theta**2).detach()
    add_l1_gradient([(theta, pre)], 0.001)
    assert torch.allclose(theta.grad, wanted, rtol=0, atol=1e-15)
    assert torch.equal(theta.grad[:10], (3 * theta**2).detach()[:10])


@pytest.mark.parametrize(
    ("name", "kind", "lr", "weight", "bound"),
    [
        ("sgd", torch.optim.SGD, 0.1, 0.0, {"rtol": 0, "atol": 0}),
        ("adamw", torch.optim.AdamW, 0.01, 0.0, {"rtol": 1e-5, "atol": 1e-7}),
        ("adamw-l1", torch.optim.AdamW, 0.01, 0.001, {"rtol": 1e-5, "atol": 1e-7}),
    ],
    ids=["sgd", "adamw", "adamw-l1"],
)
def test_a_recipe_is_torch_s_own_optimizer_in_a_plain_loop(name, kind, lr, weight, bound, bare, tiny):
    """Six steps written out: the penalty is in the loss, the rate of AdamW follows torch's own schedule. The paper's
    loop with SGD gives the same bits."""
    settings = TrainingConfig(name, steps=6, lr=lr).settings()
    (data,) = training_data([tiny], DataSettings(), "head")
    ours, twin = (Trainer(opened(bare, tiny, settings), data, settings) for _ in range(2))
    list(ours.steps())
    model, optimizer = twin.model, kind(twin.model.groups(1e-4), lr=lr)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 if name == "sgd" else 1 - done / 6)
    start = [value.clone() for _, value in model.moving]
    for step in range(1, 7):
        optimizer.zero_grad()
        twin.backward(step)
        if weight:
            moved = sum((p - s).abs().sum() for (p, _), s in zip(model.moving, start, strict=True))
            (weight * moved).backward()
        torch.nn.utils.clip_grad_norm_(model.trained, 1.0)
        optimizer.step()
        falling.step()
    torch.testing.assert_close([*ours.model.trained], [*model.trained], **bound)


def opened(bare, tiny, settings, region=None):
    return open_trainable(str(bare), tiny, settings, torch.device("cpu"), region)


@pytest.mark.nightly
def test_the_penalty_keeps_entries_near_the_base(bare, tune, tmp_path):
    pairs = [
        load_pair(bare, tune(out=tmp_path / name, recipe=name, steps=50, lr=0.003).path)
        for name in ("adamw", "adamw-l1")
    ]
    plain, near = (float((pair.finetuned - pair.base).abs().sum()) for pair in pairs)
    assert near < plain


def test_the_grid_keeps_the_best_on_validation(tune):
    seen = []
    found = tune(grid="quick", steps=15, progress=seen.append)
    record = told(found.path)
    assert [(p["batch_size"], p["lr"]) for p in record["grid"]] == [(8, 1e-2), (8, 5e-3), (8, 1e-3)]
    (chosen,) = [p for p in record["grid"] if p["chosen"]]
    assert chosen["value"] == found.scores["validation"]["accuracy"] == max(p["value"] for p in record["grid"])
    assert (record["settings"]["lr"], [(r.step, r.steps) for r in seen]) == (
        chosen["lr"], [(step, 45) for step in range(1, 46)],
    )  # fmt: skip


def attempt(scores, settings, on_step):
    """Return an attempt with the score of its rate; None stands for a loss of NaN."""
    if scores[settings.lr] is None:
        raise Diverged("the loss became nan")
    on_step(TrainStep(1, 1, 0.0, 0.0))
    return Attempt(settings, [], [], 1, scores[settings.lr], 0.5)


def test_of_equal_points_the_first_and_a_diverged_one_is_on_record():
    points, scores = TrainingConfig(grid="quick").points(), {1e-2: None, 5e-3: 0.7, 1e-3: 0.7}
    found = search(points, partial(attempt, scores), lambda record: None)
    assert found.best.settings.lr == 5e-3 and [(p["value"], p["chosen"]) for p in found.points] == [
        (None, False),
        (0.7, True),
        (0.7, False),
    ]
    refuses(Diverged, None, search, points, partial(attempt, dict.fromkeys(scores)), lambda record: None)


@pytest.mark.parametrize("name", ["sgd", "graft-retrain"])
@pytest.mark.parametrize("planted", [float("nan"), float("inf")])
def test_a_gradient_that_is_no_number_ends_training_before_anything_moves(name, planted, bare, tiny, region):
    """The loss may still be finite then, and after the last step there would be no other check."""
    settings = replace(TrainingConfig(name, steps=2).settings(), weight_decay=0.0)
    model = opened(bare, tiny, settings, region if name == "graft-retrain" else None)
    before = model.copy()

    def backward(step):
        for p in model.trained:
            p.grad = torch.full_like(p, planted if step == 2 else 0.0)
        return 1.0

    refuses(
        Diverged,
        r"gradient's norm became \w+ at step 2 of 2.*--lr",
        list,
        descend(model, settings, backward, lambda: 0.0),
    )
    assert not differing(dict(enumerate(before)), dict(enumerate(model.copy())))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sgd", "adamw-l1", "bitfit", "lora", "graft-retrain"])
def test_every_recipe_runs_on_cuda(name, bare, tune, region):
    done = tune(recipe=name, region=region if name == "graft-retrain" else None, steps=5, device="cuda")
    assert load_pair(bare, done.path).d > 0 and done.touched > 0


# The names of query and value, from the families' modeling files.
TARGETS = {
    "bert": ["query", "value"],
    "gpt2": ["c_attn"],
    "llama": ["q_proj", "v_proj"],
    "distilbert": ["q_lin", "v_lin"],
}


def shapes_of(model):
    return {name: tuple(p.shape) for name, p in model.named_parameters()}


def table_of(family, model):
    return graftable(family, shapes_of(model), model.config.to_dict())


def moved(pair):
    """Return the parameters of which an entry moved."""
    return {
        name
        for name, mask in zip(pair.table.names, pair.flat.views(pair.base != pair.finetuned), strict=True)
        if mask.any()
    }


@pytest.mark.nightly
@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("gpt2", "head"), ("llama", "causal")])
def test_lora_is_merged_into_an_ordinary_folder(base, family, readout, tiny, tmp_path):
    found = finetune(
        str(base), tiny, out=tmp_path / "out", recipe="lora", rank=2, readout=readout, steps=30, lr=0.05, device="cpu"
    )
    assert [name for name in weights(found.path) if "lora" in name] == []
    pair, record = load_pair(base, found.path), told(found.path)
    targets = [p for p in pair.table.parameters if p.name.endswith(tuple(f"{n}.weight" for n in TARGETS[family]))]
    assert (moved(pair), record["trained"]) == ({p.name for p in targets}, sum(2 * sum(p.shape) for p in targets))
    assert record["touched"] <= sum(p.size for p in targets)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_merged_logits_are_peft_s(family):
    model, twin = tiny_model(family, "head"), tiny_model(family, "head")
    shapes, adapter = shapes_of(model), Adapter(model, table_of(family, model), rank=2, seed=0)
    joined = get_peft_model(
        twin, LoraConfig(r=2, lora_alpha=8, target_modules=TARGETS[family], fan_in_fan_out=family == "gpt2")
    )
    theirs = {n: p for n, p in joined.named_parameters() if ".lora_" in n}
    generator = torch.Generator().manual_seed(1)
    for (_, mine), (_, other) in zip(sorted(adapter.parameters.items()), sorted(theirs.items()), strict=True):
        assert mine.shape == other.shape
        mine.data.normal_(0, 0.2, generator=generator)
        other.data.copy_(mine.data)
    model.config.pad_token_id = twin.config.pad_token_id = 0
    wanted, merged = logits(joined.eval()), adapter.merge().eval()
    assert torch.allclose(logits(merged), wanted, rtol=1e-4, atol=1e-5) and shapes_of(merged) == shapes


def test_rank_one_on_roberta_base_trains_36864_entries():
    with torch.device("meta"):
        model = AutoModelForMaskedLM.from_config(AutoConfig.for_model("roberta"))
    assert Adapter(model, graftable("roberta", shapes_of(model)), rank=1, seed=0).size == 36_864


WITHOUT = ("fnet", "ibert", "squeezebert", "xlnet")  # no attention, or its matrices are not linear layers


@pytest.mark.cases(3, 8)
@pytest.mark.parametrize(
    "family", first(FAMILIES, ("bert", "gpt2", "llama", "t5", "fnet").__contains__, ONE_A_SCHEME.__contains__)
)
def test_every_family_of_the_table_is_adapted_and_merged_or_refused(family):
    model = family_model(family)
    shapes, table = shapes_of(model), table_of(family, model)
    if family in WITHOUT:
        refuses(BadModel, f"no linear layer of this '{family}' model", Adapter, model, table, rank=2, seed=0)
        return
    model.config.pad_token_id = 1
    before, adapter = logits(model), Adapter(model, table, rank=2, seed=0)
    for factor in adapter.parameters.values():
        torch.nn.init.normal_(factor, 0, 0.2)
    wanted, merged = logits(model.eval()), logits(adapter.merge().eval())
    assert torch.allclose(merged, wanted, rtol=1e-4, atol=1e-4) and not torch.equal(wanted, before)
    assert shapes_of(model) == shapes


@torch.inference_mode()
def logits(model):
    return model(input_ids=torch.tensor([[5, 6, 7, 8, 2]])).logits


def test_a_family_without_known_modules_is_refused():
    refuses(
        BadModel,
        "known as query or value",
        Adapter,
        tiny_model("bert", "head"),
        graftable("strange", {"layers.0.w.weight": (2, 2)}),
        rank=1,
        seed=0,
    )


@pytest.mark.parametrize("family", TARGETS)
def test_fewer_matrices_are_the_last_ones_value_first(family):
    """Compare with a loop: layer by layer from the last, the last name of a layer's targets first."""
    model = tiny_model(family, "head")
    table = table_of(family, model)
    wanted = [
        p.name.removesuffix(".weight")
        for layer in reversed(range(max(p.layer for p in table.parameters) + 1))
        for leaf in reversed(TARGETS[family])
        for p in table.parameters
        if p.layer == layer and p.name.endswith(f".{leaf}.weight")
    ]
    assert (adapted(model, table), [adapted(model, table, n) for n in range(1, len(wanted))]) == (
        wanted,
        [wanted[:n] for n in range(1, len(wanted))],
    )
    refuses(
        BadInput,
        f"matrices is {len(wanted) + 1}, but the model has {len(wanted)} query",
        adapted,
        model,
        table,
        len(wanted) + 1,
    )


def test_an_adapter_on_one_matrix_changes_that_one_and_counts_its_factors(bare, tune):
    found = tune(recipe="lora", rank=1, matrices=1, steps=30, lr=0.05)
    pair, record = load_pair(bare, found.path), told(found.path)
    (target,) = adapted(pair.model, pair.table, 1)
    assert target.endswith("value") and moved(pair) == {f"{target}.weight"}
    size = sum(pair.table.shapes[f"{target}.weight"])
    assert (found.trained, record["trained"], record["settings"]["matrices"]) == (size, size, 1)


KEPT_LAST = TrainingConfig(readout="prompt", steps=700, keep="last").settings()
test_by_hand = by_hand(
    *((f"the paper's steps for {labels} labels, {k}-shot", steps, paper_steps, labels, k)
      for labels, k, steps in ((2, 64, 2048), (3, 4096, 24_576), (2, 4095, 131_040))),
    *((f"the paper's rates of {name}", rates, lambda name=name: grid_of(recipe_row(name), "paper", 8).rates)
      for name, rates in (("sgd", (1e-2, 5e-3, 1e-3)), ("adamw", (1e-5, 2e-5, 5e-5)))),
    ("the paper's batch sizes", (2, 4, 8), lambda: grid_of(recipe_row("sgd"), "paper", 8).batch_sizes),
    ("a rate of bitfit is ten times that of sgd", 1e-1, lambda: max(grid_of(recipe_row("bitfit"), "paper", 8).rates)),
    ("the paper's grid has nine points", 9, lambda: len(TrainingConfig(grid="paper").points())),
    ("a quick grid takes the given batch size", (16,), lambda: grid_of(recipe_row("sgd"), "quick", 16).batch_sizes),
    ("no grid", None, grid_of, recipe_row("sgd"), "none", 8),
    *((f"the linear rate of {name} at step {step} of {steps}", near(rate),
       TrainingConfig(name, steps=steps, lr=1.0).settings().rate, step)
      for name, steps, rates in (  # it warms up, and ends near zero
        ("adamw", 10, {1: 1.0, 2: 0.9, 10: 0.1}), ("lora", 100, {3: 0.5, 6: 1.0, 7: 1.0, 100: 1 / 94}))
      for step, rate in rates.items()),
    ("the last step is kept where it is asked for", (700, 700), attrgetter("check_every", "steps"), KEPT_LAST),
    ("and else the best of several", True, lambda: TrainingConfig(steps=700).settings().check_every < 700),
)  # fmt: skip

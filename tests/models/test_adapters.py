"""Tests of adapters: their exact number, the identity at first, what is trained, and a stored model beside its base."""

import json
from functools import partial
from math import erf, sqrt
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForMaskedLM

from skillviz.api import finetune
from skillviz.core.architectures import FAMILIES
from skillviz.core.parameters import graftable
from skillviz.errors import BadInput, BadModel, CorruptFile, OtherVersion, PairMismatch, WrongBase
from skillviz.models import adapters
from skillviz.models.bottleneck import Bottleneck, insert
from skillviz.models.finetune.training import Trainer, training_data
from skillviz.models.frozen_tensors import strip
from skillviz.models.predict import predict
from skillviz.models.preflight import preflight
from skillviz.runs.plan import checked_spec
from skillviz.runs.spec import RunSpec
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import StudySpec
from skillviz.tasks.encode import encode
from skillviz.tasks.splits import load
from tests.core.by_hand import by_hand
from tests.models.examples import change_config, change_json, change_weights
from tests.models.finetune.trained import (
    DataSettings,
    Task,
    TrainingConfig,
    first,
    hashes,
    load_pair,
    open_trainable,
    refuses,
    tiny_model,
    tiny_tokenizer,
    told,
)
from tests.tiny import FAMILIES as TINY
from tests.tiny_families import ONE_A_SCHEME, family_model

RECIPES = {"adapter-houlsby": 2, "adapter-pfeiffer": 1}
"""Each recipe, and its adapters in a layer."""
FILE = "adapter_model.safetensors"
CPU = {"device": "cpu"}


def formula(layers: int, a_layer: int, size: int, width: int) -> int:
    """Return the parameters of adapters: two matrices and two biases each."""
    return layers * a_layer * (2 * size * width + width + size)


def table_of(model: Any, family: str) -> Any:
    return graftable(family, {n: tuple(p.shape) for n, p in model.named_parameters()}, model.config.to_dict())


def inserted(model: Any, family: str, placement: str, width: int, seed: int = 0) -> Any:
    return insert(model, table_of(model, family), placement, width, seed)


@torch.inference_mode()
def logits(model: Any) -> torch.Tensor:
    return model(input_ids=torch.tensor([[5, 6, 7, 8, 2]])).logits


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("family", TINY)
def test_the_count_is_exact_and_a_new_adapter_changes_no_bit(family: str, recipe: str) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        model = tiny_model(family, "head").to(dtype)
        model.config.pad_token_id = 0
        names, before = {n for n, _ in model.named_parameters()}, logits(model)
        made = inserted(model, family, adapters.placement_of(recipe), 3)
        assert torch.equal(logits(model), before) and {p.dtype for p in made.parameters()} == {dtype}
        assert sum(p.numel() for p in made.parameters()) == formula(2, RECIPES[recipe], 16, 3)
        assert names == {n for n, _ in model.named_parameters() if not n.startswith(adapters.PREFIX)}
        made["1"]["feed_forward"].up.bias.data[0] = 1.0  # a planted change is seen
        assert not torch.equal(logits(model), before)


def roberta_count(placement: str, width: int) -> int:
    with torch.device("meta"):
        model = AutoModelForMaskedLM.from_config(AutoConfig.for_model("roberta"))
    shapes = adapters.shapes(table_of(model, "roberta"), placement, width)
    return sum(torch.Size(shape).numel() for shape in shapes.values())


test_roberta_base_by_hand = by_hand(
    ("Houlsby of width 1", 24 * (2 * 768 + 769), roberta_count, "houlsby", 1),
    ("Pfeiffer of width 1", 12 * (2 * 768 + 769), roberta_count, "pfeiffer", 1),
    ("Pfeiffer of width 64", 1_189_632, roberta_count, "pfeiffer", 64),
)


@pytest.mark.parametrize("placement", adapters.PLACEMENTS)
def test_a_bottleneck_is_its_formula(placement: str) -> None:
    made = Bottleneck(4, 2, placement).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(3, 4, dtype=torch.float64)
    (w, b), (v, c) = ((one.weight.tolist(), one.bias.tolist()) for one in (made.down, made.up))
    twin = []
    for row in x.tolist():
        inner = [sum(w[j][i] * row[i] for i in range(4)) + b[j] for j in range(2)]
        inner = [max(0.0, z) if placement == "pfeiffer" else z * (1 + erf(z / sqrt(2))) / 2 for z in inner]
        twin.append([row[i] + sum(v[i][j] * inner[j] for j in range(2)) + c[i] for i in range(4)])
    assert torch.allclose(made(x), torch.tensor(twin, dtype=torch.float64), rtol=1e-12)
    x.requires_grad_()
    assert torch.autograd.gradcheck(made, x)


WITHOUT = {"houlsby": {"fnet", "ibert", "squeezebert", "xlnet", "mobilebert", "jetmoe"}}
WITHOUT["pfeiffer"] = WITHOUT["houlsby"] - {"fnet", "xlnet"}
"""Families without one linear layer per part: no attention, no linear layers, or several, as mixtures of experts."""


@pytest.mark.cases(3, 8)
@pytest.mark.parametrize(
    "family", first(FAMILIES, ("bert", "gpt2", "t5", "mixtral").__contains__, ONE_A_SCHEME.__contains__)
)
def test_every_family_gets_adapters_that_are_used_or_is_refused(family: str) -> None:
    for placement in adapters.PLACEMENTS:
        model = family_model(family)
        table = table_of(model, family)
        if family in WITHOUT[placement] or any("expert" in kind for kind in table.kinds):
            refuses(BadModel, f"a '{family}' model does not have one", insert, model, table, placement, 2)
            continue
        model.config.pad_token_id = 1
        before, made = logits(model), insert(model, table, placement, 2)
        assert torch.equal(logits(model), before)
        model.requires_grad_(True)
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, 0, 0.5)
        model(input_ids=torch.tensor([[5, 6, 7, 8, 2]])).logits.square().sum().backward()
        assert not torch.equal(logits(model), before)
        for name, target in adapters.places(table, placement).items():  # canine does not use its last stack here
            grads = (made.get_parameter(f"{name}.up.bias").grad, model.get_parameter(f"{target}.weight").grad)
            assert (grads[0] is None) == (grads[1] is None), name


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("family", "readout"), [("bert", "head"), ("roberta", "prompt"), ("gpt2", "causal")])
def test_only_adapters_and_head_get_a_gradient(base: Path, readout: str, tiny: Task, recipe: str) -> None:
    settings = TrainingConfig(recipe, readout, width=3, steps=2).settings()
    model = open_trainable(str(base), tiny, settings, torch.device("cpu"))
    (data,) = training_data([tiny], DataSettings(), readout)
    Trainer(model, data, settings).backward(1)
    own = {n for n, p in model.model.named_parameters() if p.grad is not None}
    assert {n for n in own if not n.startswith(adapters.PREFIX)} == set(model.head)
    assert model.trained_body == formula(2, RECIPES[recipe], 16, 3) and model.touched() == 0
    list(Trainer(model, data, settings).steps())
    model.finish()
    assert model.touched() == 0


@pytest.fixture(params=["head", "linear", "prompt", "causal"])
def stored(request: pytest.FixtureRequest, tmp_path: Path, tiny: Task) -> tuple[Path, Path, Any]:
    """Return a base, the folder of a model with adapters, and the result of its training."""
    kind = request.param
    family = "gpt2" if kind == "causal" else "bert"
    readout = "head" if kind == "linear" else kind
    tiny_model(family, "bare" if readout == "head" else readout).save_pretrained(tmp_path / "base")
    tiny_tokenizer(family).save_pretrained(tmp_path / "base")
    found = finetune(
        str(tmp_path / "base"), tiny, out=tmp_path / "out", recipe="adapter-houlsby", width=3, readout=readout,
        steps=30, lr=0.01, head="linear" if kind == "linear" else "own", **CPU,
    )  # fmt: skip
    return tmp_path / "base", found.path, found


def test_a_stored_model_scores_as_trained_and_its_base_is_exact(stored: Any, tiny: Task) -> None:
    base, folder, found = stored
    assert {p.name for p in folder.glob("*.safetensors")} == {FILE}
    pair = load_pair(base, folder, task=tiny, is_scored=True, **CPU)
    data = encode(tiny, load(tiny).validation, pair.tokenizer, pair.readout_name)
    right = (predict(pair, data, "finetuned").argmax(1) == data.labels).mean()
    assert right == pytest.approx(found.scores["validation"]["accuracy"])
    tensors = load_file(folder / FILE)
    assert set(tensors) == {*pair.head(), *pair.outside}
    for name, tensor in tensors.items():
        held = pair.outside[name][1] if name in pair.outside else pair.head()[name]
        assert torch.equal(held, tensor)
    before = predict(pair, data, "pretrained")
    for module in pair.model.modules():
        module._forward_hooks.clear()
    assert (predict(pair, data, "pretrained") == before).all()
    assert told(folder)["trained"] == found.trained == formula(2, 2, 16, 3) and found.touched == 0


@pytest.mark.parametrize("stored", ["head"], indirect=True)
def test_what_does_not_fit_is_refused_by_its_class(stored: Any, tiny: Task, tmp_path: Path) -> None:
    base, folder, _ = stored
    check = preflight(base, folder, tiny)
    assert check.fits and f"{formula(2, 2, 16, 3):,} parameters" in check.notes[0]
    refuses(BadInput, "no region of it can be grafted", load_pair, base, folder, **CPU)
    spec = RunSpec(base=str(base), finetuned=str(folder), task=str(tiny.path), sizes=("1%",))
    refuses(BadInput, "no region of it can be grafted", checked_spec, spec, tiny, {}, check, None)
    refuses(BadInput, "is an adapter", strip, folder, str(base))
    refuses(BadModel, "is an adapter", preflight, folder, base)
    facts = json.loads((folder / "adapter_config.json").read_text())[adapters.FIELD]
    for changes, error in (
        ({"width": 4}, PairMismatch), ({"placement": "pfeiffer"}, PairMismatch), ({"placement": "lora"}, CorruptFile),
        ({"width": "3"}, CorruptFile), ({"layout": 99}, OtherVersion), ({"fingerprint": "0" * 64}, WrongBase),
    ):  # fmt: skip
        change_json(folder / "adapter_config.json", **{adapters.FIELD: {**facts, **changes}})
        assert type(preflight(base, folder).errors[0]) is error, changes
    change_json(folder / "adapter_config.json", **{adapters.FIELD: facts})
    kept = (folder / FILE).read_bytes()
    change_weights(
        folder,
        lambda t: {**t, "bert.encoder.layer.0.attention.self.query.bias": t["adapters.0.attention.up.bias"]},
        FILE,
    )
    assert "query.bias', a parameter of the base" in preflight(base, folder).problems[0]
    (folder / FILE).write_bytes(kept)
    change_weights(folder, lambda t: {n: v for n, v in t.items() if n != "adapters.0.attention.up.bias"}, FILE)
    assert "'adapters.0.attention.up.bias' of the adapters 'out' is missing" in preflight(base, folder).problems[0]


def test_a_study_scores_it_and_refuses_a_search_before_training() -> None:
    entry = {"base": "org/b", "task": "sst2", "recipe": "adapter-pfeiffer", "finetune": {"width": 2}}
    found = study_plan(StudySpec(name="s", runs=[{**entry, "localizer": "none"}]))
    assert "adapter-pfeiffer, width 2, seed 0" in found.steps[0].title
    refuses(BadInput, "localizer: none", study_plan, StudySpec(name="s", runs=[{**entry, "localizer": "stagewise"}]))


def test_the_seed_draws_the_adapters(bare: Path, tiny: Task, tmp_path: Path) -> None:
    run = partial(finetune, str(bare), tiny, recipe="adapter-pfeiffer", width=1, steps=3, **CPU)
    outs = (("one", 0), ("again", 0), ("other", 1))
    one, again, other = (hashes(run(out=tmp_path / name, seed=seed).path) for name, seed in outs)
    assert one == again != other

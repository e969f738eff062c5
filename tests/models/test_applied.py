"""Tests of a graft on its base as an ordinary folder: dtypes, heads, and errors; of the folder for mergekit: its
recipe, computed by mergekit's documentation, gives the grafted model; and as an adapter: with peft and the base it
gives the graft's logits, and reports its limits."""

import dataclasses
import errno
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import yaml
from peft import PeftModel

from skillviz.errors import BadInput, CorruptFile, DiskFull, RandomHead, WrongBase
from skillviz.models.fetch import hub_name
from skillviz.models.load import auto_class
from skillviz.models.peft_adapter import FILE, Adapter, write_adapter
from skillviz.runs.export import write_mergekit
from tests.hub import COMMIT
from tests.models.examples import (
    Graft,
    ModelPair,
    Region,
    applied,
    change_weights,
    differing,
    drop_tokenizer,
    load_pair,
    opened_base,
    refuses,
    save_applied,
    some_region,
    strip,
    tiny_pair,
    weights,
)
from tests.reference.task_arithmetic import merged
from tests.tiny_families import family_pair, family_readout


@pytest.mark.parametrize(
    ("options", "wider"),
    [
        ({"base_dtype": torch.float32, "dtype": torch.float32}, torch.float32),
        ({"base_dtype": torch.float16, "dtype": torch.float32}, torch.float32),
        ({"base_dtype": torch.float16, "dtype": torch.float16}, torch.float16),
        ({"base_dtype": torch.bfloat16, "dtype": torch.bfloat16}, torch.bfloat16),
        ({"base_dtype": torch.bfloat16, "dtype": torch.float16}, torch.float32),
    ],
)
def test_the_result_has_the_wider_dtype_and_loses_nothing(
    pair: ModelPair, base: Path, graft: Graft, options: dict[str, torch.dtype], wider: torch.dtype
) -> None:
    values, head = ({n: t.to(options["dtype"]) for n, t in part.items()} for part in (graft.values, graft.head))
    model = applied(base, dataclasses.replace(graft, values=values, head=head)).model
    assert {p.dtype for p in model.parameters()} == {wider}
    ours = {name: model.get_parameter(name).float() for name in (*pair.table.names, *head)}
    with pair.at("grafted", graft.region):
        assert not differing(ours, {name: pair.model.get_parameter(name) for name in ours})


@pytest.mark.parametrize(("family", "readout"), [("gpt2", "head"), ("llama", "head"), ("opt", "causal")])
def test_it_opens_as_a_pair_with_the_same_padding(pair: ModelPair, base: Path, graft: Graft, tmp_path: Path) -> None:
    save_applied(applied(base, graft), tmp_path / "out")
    again = load_pair(base, tmp_path / "out", device="cpu")
    assert again.model.config.pad_token_id == pair.model.config.pad_token_id
    assert int((again.base != again.finetuned).sum()) <= 200


def test_another_base_is_refused_unless_forced(graft: Graft, tmp_path: Path) -> None:
    other, _ = tiny_pair(tmp_path / "b", seed=9)
    refuses(WrongBase, "--force", applied, other, graft)
    assert applied(other, graft, force=True).notes[0].startswith("Forced")


@pytest.mark.parametrize(
    ("part", "name", "kind", "words"),
    [("head", "classifier.weight", RandomHead, "classifier"), ("header", "readout", CorruptFile, "readout")],
)
def test_a_graft_without_its_head_or_readout_is_refused(
    base: Path, graft: Graft, part: str, name: str, kind: type[Exception], words: str
) -> None:
    rest = {key: value for key, value in getattr(graft, part).items() if key != name and part == "header"}
    refuses(kind, words, applied, base, dataclasses.replace(graft, **{part: rest}))


@pytest.mark.cases(4, 4)
@pytest.mark.parametrize(
    "strange",
    [
        {"config": {"pad_token_id": -7}}, {"vocabulary": {"rows": 9, "tokens": [{"id": 2**40, "content": "a"}]}},
        {"base": "x"}, {"base": []}, {"base": {"id": 3}}, {"base": {"fingerprint": 2**70}}, {"readout": "tail"},
        {"readout": {}}, {"config": [1]}, {"config": {"architecture": 1}}, {"config": {"architecture": [1]}},
        {"config": {"id2label": 3}}, {"config": {"id2label": {"a": "b"}}}, {"config": {"pad_token_id": "x"}},
        {"vocabulary": {"rows": 9.0}}, *({"config": {"pad_token_id": number}} for number in (10**12, True, 3.0)),
    ],
)  # fmt: skip
def test_a_header_of_another_kind_is_refused(base: Path, graft: Graft, strange: dict[str, Any]) -> None:
    other = dataclasses.replace(graft, header={**graft.header, **strange})
    refuses(CorruptFile, "of the graft's header cannot be read: it is ", applied, base, other)


def test_a_base_without_tokenizer_is_said(base: Path, graft: Graft, tmp_path: Path) -> None:
    drop_tokenizer(base)
    result = applied(base, graft)
    save_applied(result, tmp_path / "out")
    assert result.tokenizer is None and "tokenizer" in result.notes[-1] and weights(tmp_path / "out")


def test_a_full_disk_leaves_the_old_folder(
    base: Path, graft: Graft, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = applied(base, graft)
    (out / "kept").write_text("kept")
    refuses(BadInput, "not empty", save_applied, result, out)
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr(result.model, "save_pretrained", full)
    refuses(DiskFull, None, save_applied, result, out, overwrite=True)
    hidden = [p.name for p in out.parent.iterdir() if p.name.startswith(".")]
    assert ((out / "kept").read_text(), hidden) == ("kept", [])


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the empty folder to write."""
    folder = tmp_path / "written"
    folder.mkdir()
    return folder


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize(
    ("family", "readout"), [("bert", "head"), ("roberta", "prompt"), ("gpt2", "causal"), ("llama", "head")]
)
def test_the_recipe_gives_the_grafted_model(base: Path, graft: Graft, out: Path) -> None:
    assert write_mergekit(out, opened_base(base, graft), graft) == "./base"
    result, before, after = merged(out), weights(out / "base"), weights(out / "graft")
    # base + (graft - base) rounds twice.
    torch.testing.assert_close(result, after, rtol=2.0**-22, atol=2.0**-24)
    moved = {name: (after[name] != before[name]).flatten().nonzero()[:, 0].tolist() for name in before}
    outside = {name: {*places} - {*graft.region.indices.get(name, ())} for name, places in moved.items()}
    whole = applied(base, graft).model.state_dict()
    assert outside == {name: set() for name in result} and not differing({name: whole[name] for name in after}, after)
    assert sum(map(len, moved.values())) > 50
    # The task vector matters: without it the recipe gives the base.
    recipe = yaml.safe_load((out / "mergekit.yml").read_text())
    recipe["parameters"]["lambda"] = 0.0
    (out / "mergekit.yml").write_text(yaml.safe_dump(recipe))
    assert not differing(merged(out), before)


@pytest.mark.parametrize("family", ["roberta"])
@pytest.mark.parametrize(("readout", "named"), [("prompt", True), ("head", False)])
def test_a_base_of_the_hub_is_named_and_not_written(
    base: Path, tuned: Path, out: Path, tmp_path: Path, named: bool
) -> None:
    """In the hub's cache, a masked language model has the grafted model's tensors; a bare encoder does not."""
    snapshot = Path(shutil.copytree(base, tmp_path / "models--some--encoder" / "snapshots" / COMMIT))
    pair = load_pair(snapshot, tuned, device="cpu")
    graft = pair.graft(some_region(pair, size=50))
    told = write_mergekit(out, opened_base(snapshot, graft), graft)
    recipe = yaml.safe_load((out / "mergekit.yml").read_text())
    assert (told, hub_name(snapshot)) == (f"some/encoder@{COMMIT}" if named else "./base", ("some/encoder", COMMIT))
    assert (recipe["base_model"], (out / "base").exists()) == (told, not named)


# peft adds sparse tensors without setting torch's check of their invariants.
sparse = pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
CASES = [
    ("bert", "head"), ("roberta", "prompt"), ("distilbert", "head"), ("roberta", "head"), ("llama", "head"),
    ("opt", "causal"), ("bert", "prompt"), ("distilbert", "prompt"), ("gpt_neox", "head"), ("llama", "causal"),
]  # fmt: skip
IDS = torch.randint(5, 20, (4, 9), generator=torch.Generator().manual_seed(1))
QUERY = "bert.encoder.layer.0.attention.self.query.weight"


def written(out: Path, base: Path, graft: Graft) -> Adapter:
    return write_adapter(out, opened_base(base, graft).model, graft, str(base))


def opened(base: Path, adapter: Path, readout: str, pad: int | None, dtype: torch.dtype = torch.float32) -> Any:
    """Open the base with the adapter like a user of peft."""
    labels = {"num_labels": 2} if readout == "head" else {}
    model = auto_class(readout).from_pretrained(base, dtype=dtype, **labels).float()
    model.config.pad_token_id = pad
    return PeftModel.from_pretrained(model, str(adapter)).eval()


@torch.no_grad()
def logits(model: Any, ids: torch.Tensor = IDS) -> torch.Tensor:
    return model(input_ids=ids).logits


def checked(out: Path, base: Path, graft: Graft, readout: str, ids: torch.Tensor = IDS) -> Adapter:
    """Return the written adapter; check that peft's logits with it are the graft's, and not the base's."""
    whole, adapter = applied(base, graft).model, written(out, base, graft)
    wanted = logits(whole, ids)
    assert torch.equal(logits(opened(base, out, readout, whole.config.pad_token_id), ids), wanted)
    assert not torch.equal(wanted, logits(opened_base(base, graft).model, ids))
    return adapter


@sparse
@pytest.mark.cases(2, 2)
@pytest.mark.parametrize(("family", "readout"), CASES)
def test_peft_gives_the_logits_of_the_graft(base: Path, graft: Graft, out: Path, readout: str) -> None:
    assert checked(out, base, graft, readout).difference == 0
    # Check that one missing entry changes the logits.
    name = next(n for n, tensor in weights(out, FILE).items() if n.endswith("shira_weight") and tensor.any())
    change_weights(out, lambda tensors: {**tensors, name: torch.zeros_like(tensors[name])}, FILE)
    whole = applied(base, graft).model
    assert not torch.equal(logits(opened(base, out, readout, whole.config.pad_token_id)), logits(whole))


@sparse
@pytest.mark.cases(1, 2)
@pytest.mark.parametrize("family", ["t5", "apertus", "mixtral"])
def test_small_modules_of_other_kinds_are_stored_whole(tmp_path: Path, out: Path, family: str) -> None:
    """Check T5's table of positions, Apertus' activation with buffers, and a router; experts are refused."""
    base, tuned = family_pair(tmp_path, family)
    pair = load_pair(base, tuned, device="cpu")
    region = some_region(pair, size=400)
    small = Region({n: i for n, i in region.indices.items() if ".experts." not in n}, region.shapes)
    if small != region:
        refuses(BadInput, "belongs to a MixtralExperts", written, out, base, pair.graft(region))
    checked(out, base, pair.graft(small), family_readout(family), torch.tensor([[5, 6, 7, 8, 2]]))


@sparse
def test_merged_it_is_the_grafted_model(base: Path, graft: Graft, out: Path) -> None:
    whole = applied(base, graft).model
    written(out, base, graft)
    assert not differing(
        dict(opened(base, out, "head", whole.config.pad_token_id).merge_and_unload().named_parameters()),
        dict(whole.named_parameters()),
    )


@sparse
def test_the_base_of_a_float16_difference_is_rounded_first(base: Path, tuned: Path, out: Path) -> None:
    strip(tuned, base, dtype="float16")
    pair = load_pair(base, tuned, device="cpu")
    graft = pair.graft(some_region(pair, size=200))
    whole = applied(base, graft)
    ours = {name: whole.model.get_parameter(name).float() for name in pair.table.names}
    with pair.at("grafted", graft.region):
        assert whole.info.rounded and not differing(ours, {name: pair.model.get_parameter(name) for name in ours})
    written(out, base, graft)
    pad, expected = whole.model.config.pad_token_id, logits(whole.model.float())
    assert torch.equal(logits(opened(base, out, "head", pad, torch.float16)), expected)
    assert not torch.equal(logits(opened(base, out, "head", pad)), expected)


@sparse
@pytest.mark.parametrize("readout", ["prompt"])
def test_a_value_that_no_difference_reaches_is_within_the_bound_that_is_said(
    pair: ModelPair, base: Path, out: Path
) -> None:
    graft = pair.graft(Region({QUERY: np.arange(5)}, pair.table.shapes))
    # Values far smaller than the base's lose their last digits in base + difference.
    graft.values[QUERY][:] = torch.tensor([1e-9, -3e-8, 7e-7, 1.2345678e-5, 0.0])
    adapter = written(out, base, graft)
    joined, plain = (
        model.get_parameter(QUERY).flatten()[:5]
        for model in (opened(base, out, "prompt", None).merge_and_unload(), pair.model)
    )
    error, movement = ((graft.values[QUERY] - values).abs() for values in (joined, plain))
    assert 0 < float(error.max()) == pytest.approx(adapter.difference, rel=1e-6)
    assert bool((error <= 2.0**-24 * movement * (1 + 1e-6)).all())


@sparse
@pytest.mark.parametrize("readout", ["prompt"])
def test_a_region_without_a_matrix_is_held_too(pair: ModelPair, base: Path, out: Path) -> None:
    vectors = {n: np.arange(3) for n, shape in pair.table.shapes.items() if len(shape) == 1}
    adapter = checked(out, base, pair.graft(Region(vectors, pair.table.shapes)), "prompt")
    assert (adapter.sparse, adapter.biases > 0, adapter.whole > 0) == (0, True, True)


@sparse
@pytest.mark.parametrize("readout", ["prompt"])
def test_a_matrix_that_is_filled_densely_is_stored_whole(pair: ModelPair, base: Path, out: Path) -> None:
    entries = {QUERY: np.arange(200), QUERY.replace("query", "key"): np.arange(9)}
    adapter = checked(out, base, pair.graft(Region(entries, pair.table.shapes)), "prompt")
    assert (adapter.sparse, adapter.whole, adapter.rank) == (1, 1, 1)


@sparse
@pytest.mark.parametrize(
    ("family", "readout", "share", "words"),
    [
        ("gpt2", "causal", 0.1, r"belongs to a Conv1D, and peft's sparse adapter \(SHiRA\) supports nn.Linear"),
        ("bert", "prompt", 1, "an adapter would be larger than the model"),
    ],
)
def test_what_an_adapter_cannot_hold_is_refused(
    pair: ModelPair, base: Path, out: Path, share: float, words: str
) -> None:
    refuses(BadInput, words, written, out, base, pair.graft(some_region(pair, share)))

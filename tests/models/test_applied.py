"""Tests of a graft on its base as an ordinary folder: dtypes, heads, and errors; and of the folder for mergekit: its
recipe, computed by mergekit's documentation, gives the grafted model."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import yaml

from skillviz.api import Graft, ModelPair, load_pair
from skillviz.errors import BadInput, CorruptFile, DiskFull, RandomHead, WrongBase
from skillviz.models.applied import applied, opened_base, save_applied
from skillviz.models.fetch import hub_name
from skillviz.runs.export import write_mergekit
from tests.hub import COMMIT
from tests.models.examples import differing, drop_tokenizer, some_region, weights
from tests.reference.task_arithmetic import merged
from tests.refused import refuses
from tests.tiny import tiny_pair


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
    refuses(
        CorruptFile,
        "of the graft's header cannot be read: it is ",
        applied,
        base,
        dataclasses.replace(graft, header={**graft.header, **strange}),
    )


def test_a_base_without_tokenizer_is_said(base: Path, graft: Graft, tmp_path: Path) -> None:
    drop_tokenizer(base)
    result = applied(base, graft)
    assert result.tokenizer is None and "tokenizer" in result.notes[-1]
    save_applied(result, tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_a_full_disk_leaves_the_old_folder(
    base: Path, graft: Graft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, out = applied(base, graft), tmp_path / "out"
    out.mkdir()
    (out / "kept").write_text("kept")
    refuses(BadInput, "not empty", save_applied, result, out)
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr(result.model, "save_pretrained", full)
    refuses(DiskFull, None, save_applied, result, out, overwrite=True)
    assert (out / "kept").read_text() == "kept"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the empty folder to write."""
    folder = tmp_path / "mergekit"
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
    assert result.keys() == before.keys() and outside == {name: set() for name in before}
    assert sum(map(len, moved.values())) > 50
    whole = applied(base, graft).model.state_dict()
    assert not differing({name: whole[name] for name in after}, after)
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
    assert told == (f"some/encoder@{COMMIT}" if named else "./base") and hub_name(snapshot) == ("some/encoder", COMMIT)
    assert (out / "base").exists() is not named
    assert yaml.safe_load((out / "mergekit.yml").read_text())["base_model"] == told

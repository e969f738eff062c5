"""Tests of pairs from elsewhere: pickled weights, a model stored as a difference, and the warnings of the pages."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from skillviz.core.temperature import Temperature
from skillviz.models import convert
from skillviz.models.pair import load_pair
from skillviz.runs.held_out import AT_END, UNKNOWN_TASK, why_not
from skillviz.runs.store import Store
from skillviz.tasks.project import CACHE_VARIABLE
from tests.cli.calls import call, done, refused
from tests.cli.conftest import QUICK, Members, members_of
from tests.models.folders import drop
from tests.tiny import tiny_pair, tiny_task

SEEN = "the validation examples are train rows"


@pytest.mark.nightly
@pytest.mark.parametrize(("is_elsewhere", "is_cut"), [(True, True), (False, True), (True, False)])
def test_validation_cut_from_rows_that_a_model_may_have_seen(
    is_elsewhere: bool, is_cut: bool, pair: tuple[Path, Path], task_file: Path, tmp_path: Path, user_runs: Path
) -> None:
    """With a validation file the pair was trained on every train row, so both models saw a cut of them."""
    tuned = shutil.copytree(pair[1], tmp_path / "tuned")
    if is_elsewhere:
        (tuned / "finetune.json").unlink()
    task = shutil.copytree(task_file.parent, tmp_path / "task") / task_file.name
    if is_cut:
        task.write_text(task.read_text().replace("  validation: validation.jsonl\n", ""))
    words = members_of(pair[0], tuned, task)
    said = done("localize", *words, "--size", "5%", *QUICK)
    (run,) = Store(user_runs).list()
    assert (SEEN in said.out, any(SEEN in note for note in run.record.notes)) == (is_cut, is_cut)
    assert why_not(UNKNOWN_TASK) in done("evaluate", *words, "--device", "cpu").out


@pytest.mark.nightly
def test_a_temperature_at_the_end_of_its_range_is_told_as_on_the_page(
    pair: tuple[Path, Path], task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = members_of(*pair, task_file)
    for value, at_bound in ((0.02, True), (50.0, True), (1.5, False)):
        fit = Temperature(value, at_bound)
        monkeypatch.setattr("skillviz.runs.held_out.temperature_fit", lambda *_, fit=fit: fit)
        localized = done("localize", *models, "--size", "5%", *QUICK, "--runs-dir", tmp_path / str(value))
        for said in (localized, done("evaluate", *models, "--device", "cpu")):
            assert [words in said.out for words in (why_not(AT_END), "fine-tuned, scaled")] == [at_bound, not at_bound]


@pytest.mark.slow
def test_moved_embeddings_and_the_bases_own_pooler_are_told(tmp_path: Path, user_runs: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", move_embeddings=True)
    words, pooler = members_of(base, tuned, tiny_task(tmp_path / "task")), "The base's own pooler"
    said = done("localize", *words, "--size", "5%", *QUICK)
    assert "outside what can be grafted" in said.out and pooler in said.out and pooler in call("preflight", *words).out
    drop(base, "pooler")
    assert pooler not in call("preflight", *words).out


@pytest.mark.slow
def test_a_pair_of_pickled_weights_from_preflight_to_a_run(
    members: Members, task_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    folder = shutil.copytree(members[3], tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    converted = members_of(members[1], folder, task_file)
    refused(call("preflight", *converted))
    assert "sha256" in done("preflight", *converted, "--convert").err and convert.wanted.get() is None
    # The conversion is found, and nothing pickled is read.
    words = ("--size", "1%", *QUICK, "--json", "--runs-dir")
    made, same = (
        done("localize", *pair, *words, tmp_path / name) for pair, name in ((converted, "runs"), (members, "same"))
    )
    one, other = (load_file(next((tmp_path / name).glob("*/region.safetensors"))) for name in ("runs", "same"))
    assert one.keys() == other.keys() and [name for name in one if not torch.equal(one[name], other[name])] == []
    assert made.json["metrics"] == same.json["metrics"]


def test_a_difference_is_half_a_pair(pair: tuple[Path, Path], tmp_path: Path) -> None:
    (base, tuned), out = pair, tmp_path / "small"
    names = ("difference", "--base", base, "--finetuned", tuned, "--out", out)
    told = done(*names, "--hub", "some/encoder", "--license", "Apache-2.0", "--json").json
    stored, whole = load_file(out / "model.safetensors"), load_file(tuned / "model.safetensors")
    left_out, size = len(whole) - len(stored), (out / "model.safetensors").stat().st_size
    assert [told[name] for name in ("kept", "left_out", "bytes")] == [len(stored), left_out, size] and left_out > 0
    one, other = load_pair(base, out), load_pair(base, tuned)
    assert torch.equal(one.finetuned, other.finetuned.half().float())
    card = (out / "README.md").read_text()
    facts = ('\nlicense: "apache-2.0"', one.base_info.fingerprint, "before rounding")
    assert card.startswith('---\nbase_model: "some/encoder"\n') and [word for word in facts if word not in card] == []
    assert card.count("\n---\n") == 1
    refused(call(*names), "--overwrite")
    done(*names, "--overwrite")
    assert "some/encoder" not in (out / "README.md").read_text()


def test_two_models_that_are_no_pair_leave_nothing(pair: tuple[Path, Path], tmp_path: Path) -> None:
    other, _ = tiny_pair(tmp_path / "other", "roberta", "prompt")
    refused(call("difference", "--base", other, "--finetuned", pair[1], "--out", tmp_path / "small"))
    assert not (tmp_path / "small").exists()

"""Tests of pairs: `preflight` and `localize` check the same in the same words; public pairs, pairs from elsewhere."""

import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import huggingface_hub
import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import BartConfig, BartForConditionalGeneration

from skillviz import cli
from skillviz.commands import preflight
from skillviz.core.temperature import Temperature
from skillviz.models import convert
from skillviz.models.pair import load_pair
from skillviz.models.public_pairs import public_pairs
from skillviz.runs import produce
from skillviz.runs.held_out import AT_END, UNKNOWN_TASK, why_not
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store
from skillviz.tasks.project import CACHE_VARIABLE
from tests.cli.calls import call, done, in_one_line, refused
from tests.cli.conftest import QUICK, Members, members_of
from tests.models.folders import change_config, drop
from tests.tiny import tiny_pair, tiny_task, tiny_tokenizer

ROWS = public_pairs()


def without_masked_template(folder: Path) -> Members:
    task = tiny_task(folder)
    text = yaml.safe_load(task.read_text())
    task.write_text(yaml.safe_dump({**text, "template": {"causal": text["template"]["causal"]}}))
    return members_of(*tiny_pair(folder, "bert", "prompt"), task)


def with_code_of_its_own(folder: Path) -> Members:
    pair = tiny_pair(folder)
    for model in pair:
        change_config(model, model_type="mynet", auto_map={"AutoModelForSequenceClassification": "mynet.Net"})
    return members_of(*pair, tiny_task(folder))


def encoder_and_decoder(folder: Path) -> Members:
    sizes = {f"{part}_{name}": n for part in ("encoder", "decoder") for name, n in
             (("layers", 1), ("attention_heads", 2), ("ffn_dim", 8))}  # fmt: skip
    tokenizer = tiny_tokenizer("bert")
    config = BartConfig(vocab_size=len(tokenizer), d_model=8, max_position_embeddings=64, pad_token_id=0, **sizes)
    for seed, name in enumerate(("base", "finetuned")):
        torch.manual_seed(seed)
        BartForConditionalGeneration(config).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return *members_of(folder / "base", folder / "finetuned", tiny_task(folder)), "--readout", "causal"


def with_a_shorter_head(folder: Path) -> Members:
    """Make a pair of a family without a row in the table; its missing head shows only when the model is built."""
    base, _ = tiny_pair(folder, "bert")
    change_config(base, architectures=["BertForSequenceClassification"], model_type="bert-generation")
    return members_of(base, shutil.copytree(base, folder / "other"), tiny_task(folder))


def plain(folder: Path, *more: str) -> Members:
    return *members_of(*tiny_pair(folder), tiny_task(folder)), *more


def without_data(folder: Path) -> Members:
    typed = plain(folder)
    (folder / "train.jsonl").unlink()
    return typed


REFUSED = {
    "no masked template": (without_masked_template, "has no masked template"),
    "custom code": (with_code_of_its_own, "cannot be opened for the head readout"),
    "encoder and decoder": (encoder_and_decoder, "encoder-decoder with a language-model head"),
    "a head that is not in the files": (with_a_shorter_head, "head"),
    "a size": (lambda folder: plain(folder, "--size", "200%"), "200%"),
    "an option": (lambda folder: plain(folder, "--option", "colour=red"), "colour"),
    "another task": (lambda folder: plain(folder, "--also", "trec"), "trec"),
    "a device": (lambda folder: plain(folder, "--device", "cuda:99"), "device"),
    "a data set": (without_data, "train.jsonl"),
}


@pytest.mark.cases(4, 5)
@pytest.mark.parametrize("name", REFUSED)
def test_what_localize_refuses_preflight_refuses_in_the_same_words(name: str, tmp_path: Path, user_runs: Path) -> None:
    make, words = REFUSED[name]
    typed = make(tmp_path)
    checked = call("preflight", *typed)
    refused(checked, words)
    refused(call("localize", *typed), in_one_line(checked.err))


def test_they_have_the_same_options() -> None:
    commands = cli.typer.main.get_command(cli.app).commands
    typed, checked = ({word.name: word.default for word in commands[n].params} for n in ("localize", "preflight"))
    assert set(typed) - set(checked) == {"parts", "detach"}, "what is no part of the run"
    both = typed.keys() & checked.keys() - {"task"}
    assert {name: checked[name] for name in both} == {name: typed[name] for name in both}


@pytest.mark.slow
def test_the_work_is_that_of_what_is_asked_for(members, user_runs: Path) -> None:
    words = ("preflight", *members, "--json")
    more = ("--size", "10%", "5%", "1%", "--interpolation", "--steps", "400")
    usual, wider, half = (call(*words, *own).json for own in ((), more, ("--dtype", "bfloat16")))
    assert usual["work"].startswith("2 searches with ") and wider["work"].startswith("4 searches with "), "and a null"
    assert half["bytes"] < usual["bytes"]


def test_no_weights_are_read(members, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce.Session, "pair", lambda *_: pytest.fail("the pair was loaded"))
    done("preflight", *members)


def test_it_says_what_is_done_to_the_data(members) -> None:
    said = call("preflight", *members, "--max-test", "10", "--json")
    told = [line for line in said.out.splitlines() if line.startswith("test: 10 of ")]
    assert len(told) == 1 and told[0].endswith("rows, drawn with seed 0.") and told[0] in said.json["notes"]


@pytest.mark.parametrize(("memory", "fits"), [("64GB", True), ("100MB", False)])
def test_memory_says_which_mode_fits(members, memory: str, fits: bool) -> None:
    said = done("preflight", *members, "--memory", memory, "--json")
    assert ("The ordinary mode fits" if fits else "Neither fits") in said.out
    assert {name: mode["fits"] for name, mode in said.json["modes"].items()} == {"ordinary": fits, "lean": fits}
    refused(call("preflight", *members, "--memory", "0GB"), "not a size of memory")


def mode(name: str, needs: float, budget: float, refused: str = "") -> preflight.Mode:
    spec = RunSpec(base="a", finetuned="b", task="c", lean=name == "lean")
    return preflight.Mode(
        name, "--lean" if name == "lean" else "", spec, int(needs), (needs <= budget and not refused), refused
    )


@pytest.mark.parametrize(
    ("ordinary", "lean", "refused", "asked_lean", "says"),
    [
        (80e9, 20e9, "", False, "Use --lean."),
        (80e9, 20e9, "", True, "The lean mode fits."),
        (10e9, 9e9, "", True, "Leave out --lean: the ordinary mode fits."),
        (80e9, 20e9, "learned has no lean mode.", False, "Neither fits: take a smaller model"),
    ],
)
def test_the_mode_to_use_is_the_first_that_fits(
    ordinary: float, lean: float, refused: str, asked_lean: bool, says: str
) -> None:
    found = [mode("ordinary", ordinary, 24e9), mode("lean", lean, 24e9, refused)]
    text = preflight.mode_words(found, RunSpec(base="a", finetuned="b", task="c", lean=asked_lean), int(24e9))
    assert says in text
    assert ("cannot be used" in text, text.count(" mode needs ")) == (bool(refused), 1 if refused else 2)


@pytest.mark.parametrize("command", ["preflight", "localize"])
def test_both_refuse_what_lean_mode_has_not_and_a_folder_that_cannot_be_written(members, tmp_path: Path, command: str):
    refused(call(command, *members, "--method", "learned", "--lean"), "stagewise", "leave out --lean")
    (tmp_path / "file").touch()
    refused(call(command, *members, "--runs-dir", tmp_path / "file"), "cannot be written", "--runs-dir")
    done("preflight", *members, "--runs-dir", tmp_path / "new" / "runs")
    assert [path.name for path in tmp_path.iterdir()] == ["file"], "preflight leaves nothing behind"


def test_test_examples_that_are_training_examples_are_counted(pair, tmp_path: Path) -> None:
    task, file = tiny_task(tmp_path, rows=48), tmp_path / "train.jsonl"
    test, train = (
        [json.loads(line)["text"] for line in path.read_text().splitlines()] for path in (tmp_path / "test.jsonl", file)
    )
    file.write_text(file.read_text() + json.dumps({"text": test[0].upper(), "label": 0}) + "\n")
    said = call("preflight", *members_of(*pair, task), "--json")
    assert (
        f"{len({*test} & {*train}) + 1} of {len(test)} test examples" in said.out and "flatter every score" in said.out
    )


def test_every_pair_is_listed_with_its_facts_and_how_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("asked the hub"))
    said = done("pairs", "--json")
    assert not said.err and said.json == {"pairs": [row.model_dump(mode="json") for row in ROWS]}
    for row in ROWS:
        lines = [line for line in said.out.splitlines() if row.finetuned in line and row.license in line]
        (cells,) = [line.split() for line in lines if not line.startswith("{")]
        assert (*cells[:3], cells[-1]) == (row.task, row.base, row.finetuned, row.weights)
        assert f"{row.parameters / 1e6:.1f}" in cells
    assert ROWS[0].localize_command() in said.out
    assert next(command for row in ROWS if (command := row.convert_command())) in said.out


def test_an_id_that_the_hub_no_longer_has_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        Mock(side_effect=type("RepositoryNotFoundError", (Exception,), {})("404\nwith details")),
    )
    said = call("preflight", "--base", ROWS[0].base, "--finetuned", ROWS[0].finetuned)
    refused(said, f"'{ROWS[0].base}'", "the hub has no such model")
    assert "details" not in said.err


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

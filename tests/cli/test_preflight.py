"""Test that `preflight` and `localize` have the same options, checks and messages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import huggingface_hub
import pytest
import torch
import yaml
from transformers import BartConfig, BartForConditionalGeneration

from skillviz import cli
from skillviz.commands import localize, preflight
from skillviz.models.public_pairs import public_pairs
from skillviz.runs import produce
from skillviz.runs.spec import RunSpec
from tests.cli.calls import call
from tests.tiny import tiny_pair, tiny_task, tiny_tokenizer

Options = list[str | Path]
ROWS = public_pairs()


def members(base: Path, finetuned: Path, task: Path) -> Options:
    return ["--base", base, "--finetuned", finetuned, "--task", task]


def without_masked_template(folder: Path) -> Options:
    task = tiny_task(folder)
    text = yaml.safe_load(task.read_text())
    task.write_text(yaml.safe_dump({**text, "template": {"causal": text["template"]["causal"]}}))
    return members(*tiny_pair(folder, "bert", "prompt"), task)


def with_code_of_its_own(folder: Path) -> Options:
    pair = tiny_pair(folder)
    for model in pair:
        config = json.loads((model / "config.json").read_text())
        config |= {"model_type": "mynet", "auto_map": {"AutoModelForSequenceClassification": "mynet.Net"}}
        (model / "config.json").write_text(json.dumps(config))
    return members(*pair, tiny_task(folder))


def encoder_and_decoder(folder: Path) -> Options:
    sizes = {f"{part}_{name}": n for part in ("encoder", "decoder") for name, n in
             (("layers", 1), ("attention_heads", 2), ("ffn_dim", 8))}  # fmt: skip
    tokenizer = tiny_tokenizer("bert")
    for seed, name in enumerate(("base", "finetuned")):
        torch.manual_seed(seed)
        config = BartConfig(vocab_size=len(tokenizer), d_model=8, max_position_embeddings=64, pad_token_id=0, **sizes)
        BartForConditionalGeneration(config).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return [*members(folder / "base", folder / "finetuned", tiny_task(folder)), "--readout", "causal"]


def with_a_shorter_head(folder: Path) -> Options:
    """Make a pair of a family without a row in the table; its missing head shows only when the model is built."""
    base, _ = tiny_pair(folder, "bert")
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "architectures": ["BertForSequenceClassification"]}))
    other = folder / "other"
    shutil.copytree(base, other)
    for model in (base, other):
        text = (model / "config.json").read_text().replace('"model_type": "bert"', '"model_type": "bert-generation"')
        (model / "config.json").write_text(text)
    return members(base, other, tiny_task(folder))


def plain(folder: Path, *more: str) -> Options:
    return [*members(*tiny_pair(folder), tiny_task(folder)), *more]


def without_data(folder: Path) -> Options:
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
    run, checked = call("localize", *typed), call("preflight", *typed)
    assert run.code == checked.code == 2 and words in checked.err, checked
    sentence = checked.err.strip()
    assert " ".join(sentence.split()) in " ".join(run.err.split()), (sentence, run.err)


def test_they_have_the_same_options() -> None:
    typed = {word.name: word for word in cli.typer.main.get_command(cli.app).commands["localize"].params}
    checked = {word.name: word for word in cli.typer.main.get_command(cli.app).commands["preflight"].params}
    assert set(typed) - set(checked) == {"parts", "detach"}, "what is no part of the run"
    assert all(checked[name].default == typed[name].default for name in typed.keys() & checked.keys() - {"task"})


@pytest.mark.slow
def test_the_work_is_that_of_what_is_asked_for(pair, task_file, user_runs: Path) -> None:
    typed = members(*pair, task_file)
    usual = call("preflight", *typed, "--json").json
    more = call("preflight", *typed, "--size", "10%", "5%", "1%", "--interpolation", "--steps", "400", "--json").json
    assert usual["work"].startswith("2 searches with ") and more["work"].startswith("4 searches with "), "and a null"
    half = call("preflight", *typed, "--dtype", "bfloat16", "--json").json
    assert half["bytes"] < usual["bytes"]


def test_no_weights_are_read(pair, task_file, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce.Session, "pair", lambda *_: pytest.fail("the pair was loaded"))
    assert call("preflight", *members(*pair, task_file)).code == 0


def test_it_says_what_is_done_to_the_data(pair, task_file) -> None:
    said = call("preflight", *members(*pair, task_file), "--max-test", "10", "--json")
    told = [line for line in said.out.splitlines() if line.startswith("test: 10 of ")]
    assert len(told) == 1 and told[0].endswith("rows, drawn with seed 0.") and told[0] in said.json["notes"]


@pytest.mark.parametrize(
    ("memory", "says"),
    [("64GB", "The ordinary mode fits"), ("100MB", "Neither fits"), ("0GB", "not a size of memory")],
)
def test_memory_says_which_mode_fits(tmp_path: Path, memory: str, says: str) -> None:
    pair = tiny_pair(tmp_path)
    said = call("preflight", *members(*pair, tiny_task(tmp_path)), "--memory", memory, "--json")
    assert says in said.out + said.err and said.code == (2 if memory == "0GB" else 0)
    if said.code == 0:
        modes = said.json["modes"]
        assert modes["ordinary"]["fits"] == modes["lean"]["fits"] == (memory == "64GB")


def mode(name: str, needs: float, budget: float, refused: str = "") -> preflight.Mode:
    spec = RunSpec(base="a", finetuned="b", task="c", lean=name == "lean")
    fits = needs <= budget and not refused
    return preflight.Mode(name, "--lean" if name == "lean" else "", spec, int(needs), fits, refused)


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
    assert says in text and ("cannot be used" in text) == bool(refused)
    assert text.count(" mode needs ") == (1 if refused else 2)


def test_a_localizer_that_lean_mode_has_not_is_refused_before_it_runs(tmp_path: Path) -> None:
    pair = members(*tiny_pair(tmp_path), tiny_task(tmp_path))
    for command in ("preflight", "localize"):
        said = call(command, *pair, "--method", "learned", "--lean")
        words = " ".join((said.out + said.err).split())
        assert said.code == 2 and "stagewise" in words and "leave out --lean" in words


def test_a_folder_of_runs_that_cannot_be_written_is_refused_by_both(pair, task_file, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for command in ("preflight", "localize"):
        said = call(command, *members(*pair, task_file), "--runs-dir", tmp_path / "file")
        assert said.code == 2 and "cannot be written" in said.err and "--runs-dir" in said.err, said.err
    assert call("preflight", *members(*pair, task_file), "--runs-dir", tmp_path / "new" / "runs").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["file"], "preflight leaves nothing behind"


def test_test_examples_that_are_training_examples_are_counted(pair, tmp_path: Path) -> None:
    task = tiny_task(tmp_path, rows=48)
    train, test = ((tmp_path / f"{split}.jsonl").read_text().splitlines() for split in ("train", "test"))
    text = json.loads(test[0])["text"].upper()
    (tmp_path / "train.jsonl").write_text(
        "\n".join([*train, json.dumps({**json.loads(train[0]), "text": text})]) + "\n"
    )
    first = len({json.loads(row)["text"] for row in test} & {json.loads(row)["text"] for row in train})
    said = call("preflight", *members(*pair, task), "--json")
    assert f"{first + 1} of {len(test)} test examples" in said.out and "flatter every score" in said.out


def test_every_pair_is_listed_with_its_facts_and_how_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: pytest.fail("asked the hub"))
    said = call("pairs", "--json")
    assert said.code == 0 and not said.err
    assert said.json == {"pairs": [row.model_dump(mode="json") for row in ROWS]}
    lines = said.out.splitlines()
    for row in ROWS:
        (line,) = [line for line in lines if row.finetuned in line and row.license in line and not line.startswith("{")]
        cells = line.split()
        assert cells[:3] == [row.task, row.base, row.finetuned] and cells[-1] == row.weights
        assert f"{row.parameters / 1e6:.1f}" in line
    assert ROWS[0].localize_command() in said.out
    assert next(command for row in ROWS if (command := row.convert_command())) in said.out


def test_an_id_that_the_hub_no_longer_has_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str, **options: object) -> str:
        raise type("RepositoryNotFoundError", (Exception,), {})("404\nwith details")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", gone)
    row = ROWS[0]
    said = call("preflight", "--base", row.base, "--finetuned", row.finetuned)
    assert said.code == 2 and f"'{row.base}'" in said.err and "the hub has no such model" in said.err
    assert "Traceback" not in said.err and "details" not in said.err

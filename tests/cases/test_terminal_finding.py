"""Tests of the end of `localize` and `runs show`: the finding, the reason if little is recovered, then the notes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from transformers import BertForSequenceClassification

from skillviz.core import formats
from skillviz.runs.store import Store
from skillviz.show.entries import headline_scores
from skillviz.show.finding import finding
from tests.cases.build import bert, fit, saved, task_file, tiny_rows
from tests.cli.calls import Said, call
from tests.tiny import tiny_pair, tiny_tokenizer

NUMBER = r"[\d.,−–-]+%?"


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], Path]:
    """Return options for a pair in which AdamW moved all parameters, with another task and a path; and the runs."""
    folder = tmp_path_factory.mktemp("dense")
    tokenizer, model = tiny_tokenizer("bert"), bert()
    base = saved(folder / "base", model, tokenizer)
    tuned = BertForSequenceClassification.from_pretrained(base)
    tuned.bert.embeddings.requires_grad_(False)  # so that the full region gives the fine-tuned model
    train, test = tiny_rows(80), tiny_rows(60, seed=1)
    fit(tuned, tokenizer, train, steps=50)
    task = task_file(folder / "own", train, test)
    other = task_file(folder / "other", tiny_rows(8, seed=2), tiny_rows(30, seed=3))
    members = [
        "--base",
        base,
        "--finetuned",
        saved(folder / "tuned", tuned, tokenizer),
        "--task",
        task,
        "--device",
        "cpu",
    ]
    return [*members, "--method", "random", "--also", other, "--interpolation", "--seed", "3"], folder / "runs"


@pytest.fixture(scope="module")
def little(dense: tuple[list[object], Path]) -> Said:
    options, runs = dense
    return call("localize", *options, "--size", "0.1%", "--runs-dir", runs)


def order(out: str, *words: str) -> list[int]:
    """Return the position of each word in the output; all must be present."""
    places = [out.find(word) for word in words]
    assert -1 not in places, [word for word, place in zip(words, places, strict=True) if place < 0]
    return places


def test_the_finding_is_behind_the_tables_and_the_notes_are_last(little: Said) -> None:
    places = order(
        little.out, "test, n = 60", "validation, n =", "graft by region size", "other, test, n = 30",
        "from the base to the fine-tuned model and to the graft, own", "stored in", "Test set, 60 examples: ",
        "Little is recovered: ", "Next: ", "Notes:",
    )  # fmt: skip
    assert places == sorted(places)
    lines = little.out.rstrip().splitlines()
    notes = lines[lines.index("Notes:") + 1 :]
    assert notes and all(line.startswith("- ") for line in notes)


def test_the_numbers_are_those_of_the_run(little: Said, dense: tuple[list[object], Path]) -> None:
    (run,) = [run for run in Store(dense[1]).list() if run.spec.sizes == ("0.1%",)]
    scores = headline_scores(run.record)
    assert scores is not None and scores.recovered is not None and scores.recovered.value is not None
    line = next(line for line in little.out.splitlines() if line.startswith("Test set"))
    assert formats.share(run.record.share) in line and "**" not in line
    interval = formats.percent_interval(scores.recovered.low, scores.recovered.high, 0)
    assert f"recover {formats.percent(scores.recovered.value, 0)} of the gain (95%: {interval})" in line
    assert formats.percent(scores.states["grafted"]["ece"].value) in line and "alibrat" in line


def test_an_adamw_fine_tune_is_said_to_spread_its_change(little: Said) -> None:
    (why,) = [line for line in little.out.splitlines() if line.startswith("Little is recovered")]
    assert "moved nearly every parameter" in why and re.search(r"holds 0\.\d+% of the squared movement", why)
    assert "a longer step in this region, with --gain fit, or larger regions, with --size 0.3% 1% 3%." in little.out


@pytest.mark.nightly
def test_a_size_of_the_run_that_is_enough_is_named(dense: tuple[list[object], Path]) -> None:
    options, runs = dense
    said = call("localize", *options, "--size", "0.1%", "100%", "--runs-dir", runs)
    assert said.code == 0, said.err
    told = said.out[said.out.index("Little is recovered") : said.out.index("Notes:")]
    assert re.search(r"\n100(\.0)?% of the parameters recover 100% of it\.\n", told) and "Next:" not in told, told


@pytest.mark.nightly
def test_a_sparse_change_is_not_called_spread(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", "head", steps=60)
    task = task_file(tmp_path / "own", tiny_rows(80), tiny_rows(60, seed=1))
    import torch
    from safetensors.torch import load_file, save_file

    weights, before = load_file(tuned / "model.safetensors"), load_file(base / "model.safetensors")
    ends = {name: next((n for n in before if name.endswith(n) or n.endswith(name)), "") for name in weights}
    for name, tensor in weights.items():
        if (other := ends[name]) and before[other].shape == tensor.shape and ".layer." in name:
            change = tensor - before[other]
            kept = change.abs() >= change.abs().flatten().topk(max(1, change.numel() // 100)).values[-1]
            weights[name] = torch.where(kept, tensor, before[other])
    save_file(weights, tuned / "model.safetensors", metadata={"format": "pt"})
    members = ["--base", base, "--finetuned", tuned, "--task", task, "--device", "cpu"]
    said = call("localize", *members, "--method", "random", "--size", "0.1%", "--runs-dir", tmp_path / "runs")
    assert said.code == 0, said.err
    assert "moved nearly every parameter" not in said.out


def test_runs_show_ends_alike(little: Said, dense: tuple[list[object], Path]) -> None:
    (run,) = [run for run in Store(dense[1]).list() if run.spec.sizes == ("0.1%",)]
    said = call("runs", "show", run.id, "--runs-dir", dense[1])
    tail = "\n".join(finding(run))
    assert tail in said.out and tail in little.out
    assert said.out[said.out.index("Notes:") :].rstrip() == little.out[little.out.index("Notes:") :].rstrip()
    assert order(said.out, "test, n = 60", "validation, n =", "Reproduce:", "Test set, 60", "Notes:") == sorted(
        order(said.out, "test, n = 60", "validation, n =", "Reproduce:", "Test set, 60", "Notes:")
    )

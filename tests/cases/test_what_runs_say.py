"""Tests of what a run says: in odd terminals, at its end, of its notes and the time left, and as an object's repr."""

import json
import os
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertForSequenceClassification

import skillviz
from skillviz.commands import process
from skillviz.core import formats
from skillviz.core.batches import Batches
from skillviz.jobs.job import JobProgress
from skillviz.jobs.words import run_progress
from skillviz.runs.folder import RunFolder
from skillviz.runs.pace import Pace, Scored
from skillviz.runs.plan import planned
from skillviz.runs.process import Progress
from skillviz.runs.store import library
from skillviz.show.briefs import headline_scores
from skillviz.show.finding import finding
from skillviz.tasks.registry import task as read_task
from skillviz.tasks.splits import load
from tests.cases.build import (
    Region,
    Rows,
    Run,
    RunSpec,
    Session,
    Store,
    bert,
    evaluate,
    fit,
    load_lean,
    preflight,
    produce,
    saved,
    task_file,
    tiny_pair,
    tiny_rows,
    tiny_task,
    tiny_tokenizer,
)
from tests.cli.calls import PROJECT, Said, call, done
from tests.runs.conftest import made
from tests.tables import says

PYTHON = f"'{sys.executable}' -m skillviz"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell line with the command as $S; for a pipe, `code` is the exit code of its first part."""
    given = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(PROJECT), "S": PYTHON, **environment}
    words = ["bash", "-c", f"set -o pipefail; {line}"]
    return subprocess.run(words, env={**os.environ, **given}, capture_output=True, timeout=300)


@pytest.mark.slow
@pytest.mark.cases(1, 2)
@pytest.mark.parametrize(
    ("encoding", "terminal"),
    [
        ("ascii", {"PYTHONIOENCODING": "ascii"}),
        ("cp1252", {"PYTHONIOENCODING": "cp1252"}),
        ("ascii", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    ],
)
def test_every_sign_is_written_in_the_terminal_s_encoding(made: Run, encoding: str, terminal: dict[str, str]) -> None:
    said = shell(f"eval $S runs show '{made.path}' --json", **terminal)
    words = said.stdout.decode(encoding)
    assert (said.returncode, said.stderr) == (0, b"")
    assert made.id in words and "-" in words and "\ufffd" not in words


@pytest.mark.nightly
def test_a_run_is_stored_though_nobody_reads_on(tmp_path: Path) -> None:
    """The reader closes after the first line, before the search begins, and the terminal cannot print a dash."""
    base, finetuned = tiny_pair(tmp_path)
    words = f"localize --base '{base}' --finetuned '{finetuned}' --task '{tiny_task(tmp_path)}' --size 5%"
    said = shell(
        f"eval $S {words} --steps 2 --device cpu --runs-dir '{tmp_path}/runs' | true", PYTHONIOENCODING="ascii"
    )
    (run,) = Store(tmp_path / "runs").list()
    assert b"Traceback" not in said.stderr and b"Standard output was closed" in said.stderr, said.stderr.decode()
    assert (said.returncode, run.record.status, Store(tmp_path / "runs").verify(run.id)) == (2, "finished", [])


@pytest.mark.cases(1, 1)
@pytest.mark.parametrize(
    ("place", "words"),
    [(">&-", "was closed"), ("> /dev/full", "No space left on device"), ("| true", "was closed"), (">&- 2>&-", "")],
)
def test_an_output_that_takes_nothing_is_told_at_the_end(made: Run, place: str, words: str) -> None:
    said = shell(f"eval $S runs show '{made.path}' --json {place}")
    assert said.returncode == 2 and b"Traceback" not in said.stderr
    assert words in said.stderr.decode() and len(said.stderr.splitlines()) == bool(words)


@pytest.mark.nightly
def test_where_only_the_remarks_are_lost_the_result_is_whole(made: Run) -> None:
    said = shell(f"eval $S runs show '{made.path}' --json 2>&-")
    assert said.returncode == 0 and made.id.encode() in said.stdout.splitlines()[-1]
    assert shell("eval $S runs show nothing-like-it 2>&-").returncode == 2


def test_what_is_written_after_an_error_or_to_a_closed_descriptor_is_lost_and_in_no_file(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    sink = process.Sink(writer)
    assert ([sink.write(b"abc"), sink.write(b"abcd")], sink.has_lost, type(sink.error)) == (
        [3, 4],
        True,
        BrokenPipeError,
    )
    os.close(writer)
    closed = process.Sink(writer)
    with (tmp_path / "file").open("wb") as file:
        assert (file.fileno() != writer, closed.write(b"lost"), closed.isatty()) == (True, 4, False)
    assert closed.error is not None and (tmp_path / "file").read_bytes() == b""
    os.close(writer)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@pytest.mark.parametrize("text", ["5.0 (4.1–6.2)", "naïve · 3 × 4 → 12", "half \ud800", "日本"])
def test_signs_are_replaced_one_by_one(text: str, encoding: str) -> None:
    process.codecs.register_error(process.ERRORS, process._plainer)
    written = text.encode(encoding, process.ERRORS).decode(encoding)
    assert written and {sign for sign in text if sign.isascii()} <= set(written)


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], Path]:
    """Return options for a pair in which AdamW moved all parameters, with another task and a path; and the runs."""
    folder, tokenizer = tmp_path_factory.mktemp("dense"), tiny_tokenizer("bert")
    base = saved(folder / "base", bert(), tokenizer)
    tuned = BertForSequenceClassification.from_pretrained(base)
    tuned.bert.embeddings.requires_grad_(False)  # so that the full region gives the fine-tuned model
    train, test = tiny_rows(80), tiny_rows(60, seed=1)
    fit(tuned, tokenizer, train, steps=50)
    task = task_file(folder / "own", train, test)
    other = task_file(folder / "other", tiny_rows(8, seed=2), tiny_rows(30, seed=3))
    members = ["--base", base, "--finetuned", saved(folder / "tuned", tuned, tokenizer), "--task", task]
    search = ["--device", "cpu", "--method", "random", "--also", other, "--interpolation", "--seed", "3"]
    return [*members, *search], folder / "runs"


@pytest.fixture(scope="module")
def little(dense: tuple[list[object], Path]) -> Said:
    options, runs = dense
    return done("localize", *options, "--size", "0.1%", "--runs-dir", runs)


def are_in_order(out: str, *words: str) -> bool:
    places = [out.index(word) for word in words]
    return places == sorted(places)


def test_the_finding_is_behind_the_tables_and_the_notes_are_last(little: Said) -> None:
    assert are_in_order(
        little.out, "test, n = 60", "validation, n =", "graft by region size", "other, test, n = 30",
        "from the base to the fine-tuned model and to the graft, own", "stored in", "Test set, 60 examples: ",
        "Little is recovered: ", "Next: ", "Notes:",
    )  # fmt: skip
    lines = little.out.rstrip().splitlines()
    assert {line[:2] for line in lines[lines.index("Notes:") + 1 :]} == {"- "}


def test_the_numbers_are_those_of_the_run(little: Said, dense: tuple[list[object], Path]) -> None:
    (run,) = [run for run in Store(dense[1]).list() if run.spec.sizes == ("0.1%",)]
    scores = headline_scores(run.record)
    line = next(line for line in little.out.splitlines() if line.startswith("Test set"))
    assert formats.share(run.record.share) in line and "**" not in line
    interval = formats.percent_interval(scores.recovered.low, scores.recovered.high, 0)
    assert f"recover {formats.percent(scores.recovered.value, 0)} of the gain (95%: {interval})" in line
    assert formats.percent(scores.states["grafted"]["ece"].value) in line and "alibrat" in line
    # runs show ends alike
    said, tail = call("runs", "show", run.id, "--runs-dir", dense[1]), "\n".join(finding(run))
    assert tail in said.out and tail in little.out
    assert said.out[said.out.index("Notes:") :].rstrip() == little.out[little.out.index("Notes:") :].rstrip()
    assert are_in_order(said.out, "test, n = 60", "validation, n =", "Reproduce:", "Test set, 60", "Notes:")


def test_an_adamw_fine_tune_is_said_to_spread_its_change(little: Said) -> None:
    (why,) = [line for line in little.out.splitlines() if line.startswith("Little is recovered")]
    assert "moved nearly every parameter" in why and re.search(r"holds 0\.\d+% of the squared movement", why)
    assert "a longer step in this region, with --gain fit, or larger regions, with --size 0.3% 1% 3%." in little.out


@pytest.mark.nightly
def test_a_size_of_the_run_that_is_enough_is_named(dense: tuple[list[object], Path]) -> None:
    options, runs = dense
    said = done("localize", *options, "--size", "0.1%", "100%", "--runs-dir", runs)
    told = said.out[said.out.index("Little is recovered") : said.out.index("Notes:")]
    assert re.search(r"\n100(\.0)?% of the parameters recover 100% of it\.\n", told) and "Next:" not in told, told


@pytest.mark.nightly
def test_a_sparse_change_is_not_called_spread(tmp_path: Path) -> None:
    base, tuned = tiny_pair(tmp_path, "bert", "head", steps=60)
    task = task_file(tmp_path / "own", tiny_rows(80), tiny_rows(60, seed=1))
    weights, before = load_file(tuned / "model.safetensors"), load_file(base / "model.safetensors")
    ends = {name: next((n for n in before if name.endswith(n) or n.endswith(name)), "") for name in weights}
    for name, tensor in weights.items():
        if (other := ends[name]) and before[other].shape == tensor.shape and ".layer." in name:
            change = (tensor - before[other]).abs()
            kept = change >= change.flatten().topk(max(1, change.numel() // 100)).values[-1]
            weights[name] = torch.where(kept, tensor, before[other])
    save_file(weights, tuned / "model.safetensors", metadata={"format": "pt"})
    members = ["--base", base, "--finetuned", tuned, "--task", task, "--device", "cpu"]
    said = done("localize", *members, "--method", "random", "--size", "0.1%", "--runs-dir", tmp_path / "runs")
    assert "moved nearly every parameter" not in said.out


NOTES = {
    "validation drawn from train": ({}, {}, "the validation examples are train rows"),
    "test rows that are train rows": ({"again": 5}, {}, " of 45 test examples have the text of a training example"),
    "an option that the localizer lacks": ({}, {"steps": 7}, "has no steps; the value given is not used"),
    "few rows of each split": ({}, {"max_test": 10, "k_shot": 8}, "test: 10 of 40 rows"),
    "a size that is an outcome": ({}, {"localizer": "learned", "steps": 2}, "sets its own size"),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    base, finetuned = tiny_pair(tmp_path_factory.mktemp("pair"), steps=5)
    return {"base": str(base), "finetuned": str(finetuned), "device": "cpu"}


@pytest.mark.cases(2, 2)
@pytest.mark.parametrize("case", NOTES)
def test_every_surface_has_the_notes_of_the_run(case: str, pair: dict[str, str], tmp_path: Path) -> None:
    data, options, wanted = NOTES[case]
    train, test = tiny_rows(64), tiny_rows(40, seed=1)
    kept = [{"text": f"{row['text']} once", "label": row["label"]} for row in test]
    members = {**pair, "task": str(task_file(tmp_path / "task", train, kept + train[: data.get("again", 0)]))}
    spec = RunSpec(**{"localizer": "movement", "sizes": ("5%",), **members, **options})

    before = planned(spec, Session(), library()).notes
    assert any(wanted in note for note in before), before
    stored = produce(spec, Store(tmp_path / "runs")).record.notes
    later = [note for note in stored[len(before) :] if not re.search("^Learned mask|moved in fine-tuning", note)]
    assert (stored[: len(before)], later) == (before, [])

    words = ["preflight", *(f"--{name}={value}" for name, value in members.items()), "--method", spec.localizer,
             "--size", "5%", *(f"--{name.replace('_', '-')}={value}" for name, value in options.items()
             if name != "localizer"), "--runs-dir", tmp_path / "runs", "--json"]  # fmt: skip
    said = call(*words)
    printed = " ".join(said.out[: said.out.index("{")].split())
    unsaid = [note for note in before if " ".join(note.split()) not in printed]
    assert (tuple(said.json["notes"]), unsaid) == (before, [])


EACH = 0.004  # seconds per token on the test's clock


class Clock:
    """A clock that advances only when examples pass through the model."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, real = 100.0, Batches.batch

        def batch(batches: Batches, rows: np.ndarray, *others: Any) -> Any:
            self.now += EACH * float(batches.lengths[rows].sum())
            return real(batches, rows, *others)

        monkeypatch.setattr(Batches, "batch", batch)
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


@pytest.mark.slow
@pytest.mark.cases(1, 3)
@pytest.mark.parametrize(
    "changes",
    [
        {"localizer": "stagewise", "steps": 12},
        {"localizer": "stagewise", "steps": 12, "interpolation": True, "sizes": ("5%", "2%")},
        {"localizer": "frank-wolfe", "steps": 8, "interpolation": True},
        {"localizer": "movement", "interpolation": True, "sizes": ("5%", "2%", "1%")},
    ],
)
def test_the_time_left_that_is_told_is_what_it_takes(
    pair: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    task = task_file(tmp_path / "own", tiny_rows(96), tiny_rows(40, seed=1))
    long = [{"text": " ".join([row["text"]] * 3), "label": row["label"]} for row in tiny_rows(60, seed=3)]
    other = task_file(tmp_path / "other", tiny_rows(8, seed=2), long)
    clock, told, say = Clock(monkeypatch), list[tuple[float, float | None, str]](), RunFolder.event

    def event(folder: RunFolder, **fields: Any) -> None:
        told.append((clock.now, fields.get("left"), fields.get("phase", "")))
        say(folder, **fields)

    monkeypatch.setattr(RunFolder, "event", event)
    heard = list[tuple[float, str]]()
    fields = {"sizes": ("5%",), "batch_size": 16, "task": str(task), "others": (str(other),), **pair, **changes}
    produce(RunSpec(**fields), Store(tmp_path / "runs"), lambda progress: heard.append((clock.now, progress.text)))
    *_, end = (now for now, text in heard if text.startswith("checking both ends"))
    known = [(end - now, left) for now, left, _ in told if left is not None and now < end]
    assert len(known) > 5 and [left for _, left in known] == [
        pytest.approx(taken, rel=0.25, abs=1.0) for taken, _ in known
    ]
    assert {left for _, left, phase in told if phase == "load"} == {None}, "nothing is known of the search"


def test_the_newest_minute_counts() -> None:
    """Regression: it announced 10 minutes at 20 s, 5 at 17 min and 37 at 18 min, because other work slowed the run."""
    pace = Pace()
    assert pace.left(100) is None and pace.left(0) == 0.0
    for count, seconds, left in ((600, 1.0, pytest.approx(100)), (180, 3.0, pytest.approx(300, rel=0.01))):
        for _ in range(count):
            pace.add(10, seconds)
        assert pace.left(1000) == left


def test_longer_texts_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    scored = Scored(examples=110, tokens=100 * 10 + 10 * 600)
    assert scored.left is None
    for now, examples, tokens, is_new, left in (
        (1.0, 100, 1000, True, 6.0),  # a tenth of the examples, and six sevenths of the tokens
        (1.0, 4, 4000, False, 2.0),  # an earlier attempt's scores measure nothing
        (2.0, 3, 1000, True, pytest.approx(1.0)),  # each measurement starts where the last one ended
    ):
        clock[0] = now
        scored.add(examples, tokens, is_new=is_new)
        assert scored.left == left and (is_new or scored.pace.work == 1000)


test_words_say_that_nothing_is_measured = says({
    end: (partial(run_progress, progress), (f"{end}$",)) for progress, end in (
        (JobProgress("load"), "time left: not measured yet"),
        (JobProgress("search", 3, 50, seconds_left=240.0), "about 4 min left"),
        (JobProgress("evaluate", seconds_left=0.0), "longer than measured so far"))
})  # fmt: skip


LONGEST = 160
FACTS = {
    "ModelPair": ("4,448 graftable", "head readout", "base → finetuned"),
    "LeanPair": (),
    "Graft": ("40 of 4,448", "head"),
    "Region": ("40 of 4,448", "0.899"),
    "Problem": ("44 training examples", "4 to judge by"),
    "Encoded": ("24 examples", "2 labels"),
    "Splits": ("train 44", "test 24"),
    "Preflight": ("4,448 graftable", "fits"),
    "ModelInfo": (),
    "ParameterTable": (),
    "Evaluation": ("n = 24", "Accuracy", "grafted"),
    "Run": (),
}


@pytest.fixture(scope="module")
def objects(pair: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder, base, finetuned = tmp_path_factory.mktemp("objects"), pair["base"], pair["finetuned"]
    file = task_file(folder / "own", tiny_rows(48), tiny_rows(24, seed=1))
    spec, session, task = RunSpec(**pair, task=str(file), localizer="movement"), Session(), read_task(file)
    opened, encoded = session.pair(spec), session.encoded(spec)
    region, check = Region.from_flat(range(40), opened.table.shapes), preflight(base, finetuned, task)
    return {
        "ModelPair": opened,
        "LeanPair": load_lean(base, finetuned, task=task, device="cpu"),
        "Graft": opened.graft(region),
        "Region": region,
        "Problem": opened.problem(encoded["train"], encoded["validation"]),
        "Encoded": encoded["test"],
        "Splits": load(task),
        "Preflight": check,
        "ModelInfo": check.base,
        "ParameterTable": opened.table,
        "Evaluation": evaluate(base, finetuned, file, region=region, device="cpu"),
        "Run": skillviz.localize(
            base, finetuned, file, size="5%", method="movement", device="cpu", runs_dir=folder / "runs"
        ),  # fmt: skip
    }


@pytest.mark.cases(5, 3)
@pytest.mark.parametrize("name", FACTS)
def test_an_object_alone_in_a_cell_is_one_short_line(name: str, objects: dict[str, Any]) -> None:
    line = repr(objects[name])
    assert line.startswith(f"{name}(") and line.endswith(")") and "\n" not in line and len(line) <= LONGEST, line
    assert "tensor(" not in line and "array(" not in line
    assert [fact for fact in FACTS[name] if fact.lower() not in line.lower()] == [], line


def test_a_pair_that_does_not_fit_says_why(tmp_path: Path) -> None:
    one, other = (tiny_pair(tmp_path / family, family)[0] for family in ("bert", "gpt2"))
    assert "does not fit: " in repr(preflight(one, other))


@pytest.mark.nightly
def test_the_names_of_figures_are_names(objects: dict[str, Any]) -> None:
    plots = objects["Run"].plot
    line, names = repr(plots), plots.names()
    assert line.startswith("Plots(overview, region, ") and "names()" in line and len(line) <= LONGEST
    method, _, name = names[0].partition(".")
    assert (type(names), {type(one) for one in names}) == (list, {str}) and len(getattr(plots, method)(name).data)

"""Check that bad input is refused in a sentence: every reader on mutated inputs, with limits on memory and time."""

import json
import os
import resource
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

from skillviz import jobs
from skillviz.cli import app
from skillviz.commands.process import sentence_for
from skillviz.core.graft import Graft
from skillviz.core.region import Region
from skillviz.errors import MOST_LETTERS, SkillvizError
from skillviz.models.checkpoint import INDEX, SINGLE
from skillviz.models.finetune.journal import TrainingState
from skillviz.models.pair import load_pair
from skillviz.models.preflight import preflight
from skillviz.runs import store
from skillviz.runs.checkpoint import Checkpoint
from skillviz.runs.run import Run
from skillviz.runs.search import Searched
from skillviz.runs.store import Store
from skillviz.show.report import page as report_page
from skillviz.studies.plan import study_plan
from skillviz.studies.spec import read_study
from skillviz.tasks.uploaded import Upload, rows_of
from skillviz.tasks.user_file import read_task
from skillviz.ui.page_table import PAGES
from tests.fake_run import fake_run
from tests.models.test_lora import adapter
from tests.reliability.engine import SMALL, forked, killed
from tests.reliability.mutations import NASTY, of_bytes, of_json, of_safetensors, of_yaml
from tests.tiny import tiny_pair, tiny_task

MEMORY = 2 * 2**30
"""Bytes that reading one input may use beyond the process's current memory: the limit on the docs page."""
SECONDS = 60.0
BATCH = 40
SENTENCE = MOST_LETTERS + 100
REPORTED = 12  # one in this number of the accepted mutated records is rendered as a whole report

Draw = np.random.Generator
Action = Callable[[], object]


@dataclass(frozen=True)
class Reader:
    """A reader of one kind of input; `make(draw)` returns an action that may raise SkillvizError."""

    name: str
    share: float
    """The weight of this reader among all tries."""
    make: Callable[[Draw], Action]


def mutated(number: int, work: Path) -> Iterator[str]:
    """Yield the losses of mutated inputs over all readers, a share for each."""
    environment = {"SKILLVIZ_RUNS": str(work / "runs"), "SKILLVIZ_ROOTS": str(work)}
    few = mock.patch.object(store, "shipped_root", lambda: work / "nothing")  # the shipped store has hundreds of runs
    with few, mock.patch.dict(os.environ, environment):
        for reader in (readers := _readers(work)):
            yield from _tried(reader, max(2, round(number * reader.share / sum(one.share for one in readers))))


def _tried(reader: Reader, number: int) -> Iterator[str]:
    """Yield the effect of each of `number` inputs on a child process that reads them one by one."""
    done = 0
    while done < number:
        batch = min(BATCH, number - done)
        source, sink = os.pipe()
        child = forked(lambda first=done, count=batch, sink=sink: _child(reader, first, count, sink))
        os.close(sink)
        answers, ending = _answers(source, batch)
        code = killed(child)
        os.close(source)
        yield from (f"{reader.name} {done + at}: {answer}" if answer else "" for at, answer in enumerate(answers))
        if len(answers) < batch:
            yield f"{reader.name} {done + len(answers)}: {ending or f'the process ended with {code}'}"
        done += min(batch, len(answers) + 1)


def _answers(source: int, count: int) -> tuple[list[str], str]:
    """Return the lines that a child writes, one per input, and the reason if there are fewer."""
    text, ends = b"", time.monotonic() + SECONDS
    while text.count(b"\n") < count:
        if not select.select([source], [], [], max(0.0, ends - time.monotonic()))[0]:
            return [json.loads(line) for line in text.splitlines()], f"no answer in {SECONDS:.0f} s"
        piece = os.read(source, 1 << 16)
        if not piece:
            break
        text, ends = text + piece, time.monotonic() + SECONDS
    return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()], ""


def _child(reader: Reader, first: int, count: int, sink: int) -> None:
    """Read `count` inputs; write "" for each that is read or refused as promised, else a description of the failure."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (_held() + MEMORY, resource.RLIM_INFINITY))
    for at in range(first, first + count):
        action = reader.make(np.random.default_rng([at, len(reader.name)]))
        answer = ""
        try:
            action()
        except SkillvizError as error:
            if "\n" in str(error) or len(str(error)) > SENTENCE:
                answer = f"its refusal is no sentence: {str(error)[:200]!r}"
        except Exception as error:
            if sentence_for(error) is None:  # memory and disk have sentences of their own
                answer = f"{type(error).__name__}: {str(error)[:200]}"
        os.write(sink, json.dumps(answer).encode() + b"\n")


def _held() -> int:
    """Return the bytes of data that this process has, as the limit counts them."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmData"].split()[0]) * 1024


def _readers(work: Path) -> list[Reader]:
    """Return all readers, on a store, a pair and files made for them."""
    torch.set_num_threads(1)
    store = Store(work / "runs")
    run = fake_run(store, **SMALL)
    tiny_pair(work / "pair", steps=1)
    _sharded(work / "pair" / "finetuned")
    shutil.copytree(work / "pair" / "base", work / "pair" / MUTE, ignore=shutil.ignore_patterns("*token*", "vocab*"))
    tiny_task(work / "task")
    tiny_task(work / "task of three", labels=3)  # as many as the adapter has
    adapter(work / "pair" / "adapter", work / "pair" / "base", "bert")
    region, graft = work / "region.safetensors", work / "graft.safetensors"
    run.region().save(region)
    Graft.of(run.region(), {n: torch.ones(s) for n, s in run.region().shapes.items()}).save(graft)
    Checkpoint({}, {}, 0.0, Searched({9: np.arange(9)}), {"a": torch.ones(4)}).write(work / "checkpoint.safetensors")
    TrainingState([{"step": 1}], 0.5, [torch.ones(2)]).write(work / "training.safetensors", "stamp")
    (work / "study.yaml").write_text(STUDY.format(work=work))
    _write_rows(work)
    mute, of_adapter = partial(_of_model, base_kind=MUTE), partial(_of_model, labels=3)
    rows: tuple[tuple[Any, ...], ...] = (
        ("run.json", 3, _of_run, run, "run.json", of_json, _shown),
        ("run.json (bytes)", 1, _of_run, run, "run.json", of_bytes, _shown),
        ("Parquet of a run", 2, _of_run, run, "predictions.parquet", of_bytes, _tables),
        ("region", 2, _of_file, region, of_safetensors, lambda path: (Region.header(path), Region.load(path))),
        ("graft", 2, _of_file, graft, of_safetensors, Graft.load),
        ("checkpoint", 1, _of_file, work / "checkpoint.safetensors", of_safetensors, Checkpoint.read),
        ("training state", 1, _of_file, work / "training.safetensors", of_safetensors,
         lambda path: TrainingState.read(path, "stamp")),
        ("task file", 2, _of_file, work / "task" / "task.yaml", of_yaml, read_task),
        ("study file", 2, _of_file, work / "study.yaml", of_yaml, lambda path: study_plan(read_study(path))),
        ("configuration of a model", 1, _of_model, work, "finetuned", "config.json", of_json),
        ("tokenizer of a model", 0.5, mute, work, "finetuned", "tokenizer.json", of_json),
        ("settings of a tokenizer", 0.5, mute, work, "finetuned", "tokenizer_config.json", of_json),
        ("settings of an adapter", 1, of_adapter, work, "adapter", "adapter_config.json", of_json),
        ("index of a model", 0.5, _of_model, work, "sharded", INDEX, of_json),
        ("weights of a model", 1, _of_model, work, "finetuned", SINGLE, of_safetensors),
        ("job notes", 1, _of_job, store, run),
        ("uploads", 0.4, _of_upload, work),
        ("addresses", 0.4, _of_address, run),
        ("commands", 1, _of_command, run, work),
    )  # fmt: skip
    return [Reader(name, share, partial(make, *given)) for name, share, make, *given in rows]


MUTE = "base-without-tokenizer"
"""The base without a tokenizer, so that the fine-tuned model's tokenizer is read."""
STUDY = """\
name: mutated
title: A study
about: Of nothing.
defaults: {{base: {work}/pair/base, task: {work}/task/task.yaml, sizes: [1%]}}
runs:
  - {{finetuned: {work}/pair/finetuned, localizer: [movement, random], seed: [0, 1]}}
"""


def _of_file(original: Path, mutation: Any, read: Callable[[Path], object], draw: Draw) -> Action:
    path = original.with_name(f"mutated-{original.name}")
    path.write_bytes(mutation(original.read_bytes(), draw))
    return lambda: read(path)


def _of_run(run: Run, name: str, mutation: Any, read: Callable[[Store, Draw], object], draw: Draw) -> Action:
    """Return an action on a copy of a run with one mutated file."""
    store = Store(run.path.parent.parent / "mutated")
    shutil.rmtree(store.root, ignore_errors=True)
    path = shutil.copytree(run.path, store.root / run.id) / name
    content, size = mutation(path.read_bytes(), draw), path.stat().st_size
    path.write_bytes(content if name == "run.json" else content[:size].ljust(size, b"\0"))
    return lambda: read(store, draw)


def _shown(store: Store, draw: Draw) -> None:
    """Use a record in the same way as lists, jobs and reports."""
    jobs.list(store, finished=True)
    for run in store.list():
        run.headline()
        store.verify(run.id)
        if draw.integers(REPORTED) == 0:
            report_page.report(run, [run], [])
    for name in [path.name for path in store.folders()]:
        store.look(name)


def _tables(store: Store, draw: Draw) -> None:
    for run in store.list():
        run.predictions()
        run.logits("grafted")


def _of_model(
    work: Path, kind: str, name: str, mutation: Any, draw: Draw, base_kind: str = "base", labels: int = 2
) -> Action:
    """Return an action that checks a fine-tuned model with one mutated file, and opens it like a run."""
    shutil.rmtree(work / "pair" / "mutated", ignore_errors=True)
    copy = shutil.copytree(work / "pair" / kind, work / "pair" / "mutated")
    (copy / name).write_bytes(mutation((copy / name).read_bytes(), draw))
    task = read_task(work / ("task" if labels == 2 else "task of three") / "task.yaml")
    base = str(work / "pair" / base_kind)

    def opened() -> None:
        preflight(base, str(copy), task).raise_first()
        load_pair(base, str(copy), task=task, device="cpu")

    return opened


def _sharded(folder: Path) -> None:
    """Make a copy of a model whose weights are in two files."""
    copy = shutil.copytree(folder, folder.with_name("sharded"))
    tensors = load_file(copy / SINGLE)
    (copy / SINGLE).unlink()
    files = {name: f"model-{1 + number % 2}.safetensors" for number, name in enumerate(tensors)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in tensors if files[name] == file}, copy / file, {"format": "pt"})
    (copy / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))


def _of_job(store: Store, run: Run, draw: Draw) -> Action:
    """Return an action on process.json, launch.json and events of a running run."""
    notes = {
        "process.json": {"pid": 1, "host": os.uname().nodename, "jobs": ["12_3"], "end": "FAILED"},
        "launch.json": {"cwd": "/tmp", "slot": "cpu"},
        "events.jsonl": {"time": 1.0, "phase": "search", "step": 1, "total": 3, "search": 1, "searches": 1, "loss": 0.5,
                         "size": 3, "added": 1, "removed": 0, "left": 3.0},
    }  # fmt: skip
    record = json.loads((run.path / "run.json").read_text()) | {"status": "running", "files": {}}
    watched = Store(store.root.parent / "watched")
    shutil.rmtree(watched.root, ignore_errors=True)
    work = watched.root / run.id / "work"
    work.mkdir(parents=True)
    (work.parent / "run.json").write_text(json.dumps(record))
    chosen = list(notes)[int(draw.integers(len(notes)))]
    for name, note in notes.items():
        content = json.dumps(note).encode()
        (work / name).write_bytes((of_json(content, draw) if name == chosen else content) + b"\n")
    return lambda: (jobs.list(watched), jobs.progress(watched, run.id), jobs.steps(watched, run.id))


SUFFIXES = ("csv", "jsonl", "json", "parquet")


def _write_rows(work: Path) -> None:
    """Write the rows that are uploaded, in every format."""
    rows = pd.DataFrame({"text": ["a good film", "a bad one", "so so"] * 5, "label": ["yes", "no", "no"] * 5})
    rows.to_csv(work / "rows.csv", index=False)
    rows.to_json(work / "rows.jsonl", orient="records", lines=True)
    rows.to_json(work / "rows.json", orient="records")
    rows.to_parquet(work / "rows.parquet")


def _of_upload(work: Path, draw: Draw) -> Action:
    suffix = SUFFIXES[int(draw.integers(len(SUFFIXES)))]
    content = (of_json if suffix == "json" else of_bytes)((work / f"rows.{suffix}").read_bytes(), draw)
    return lambda: rows_of(Upload(f"rows.{suffix}", content))


def _of_address(run: Run, draw: Draw) -> Action:
    names = (
        "run", "size", "new.size", "new.source", "new.file", "new.base", "new.finetuned", "new.study", "length",
        "study", "runs", "metric", "split", "alpha", "layer", "tensor", "order", "min", "example", "bins",
    )  # fmt: skip

    values = [str(value)[:6000] for value in NASTY] + [run.id, run.id[:-1], "file"]
    page = list(PAGES)[int(draw.integers(len(PAGES)))]
    test = AppTest.from_file(str(PAGES[page].path), default_timeout=SECONDS)
    for name in draw.choice(names, int(draw.integers(1, 5)), replace=False):
        test.query_params[str(name)] = values[int(draw.integers(len(values)))]

    def opened() -> None:
        if found := test.run().exception:
            raise AssertionError(f"{page} with {dict(test.query_params)} shows {found[0].message[:200]}")

    return opened


def _of_command(run: Run, work: Path, draw: Draw) -> Action:
    words = (
        ["runs", "show"], ["runs", "verify"], ["runs", "list", "--runs-dir"], ["report"], ["jobs", "status"],
        ["preflight", "--base", str(work / "pair" / "base"), "--finetuned"], ["study", "show"], ["apply", "--graft"],
        ["localize", "--base", str(work / "pair/base"), "--finetuned", str(work / "pair/finetuned"), "--task",
         str(work / "task/task.yaml"), "--method", "movement", "--size"],
        ["localize", "--base", str(work / "pair/base"), "--finetuned", str(work / "pair/finetuned"), "--size", "5",
         "--task"],
        ["export", run.id, "--out"], ["parts", run.id, "--out"], ["slices"], ["demo", "--out"],
    )  # fmt: skip

    chosen, value = words[int(draw.integers(len(words)))], str(NASTY[int(draw.integers(len(NASTY)))])
    os.chdir(work)

    def called() -> None:
        done = CliRunner().invoke(app, [*chosen, value], prog_name="skillviz")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise AssertionError(f"{' '.join(chosen)[:80]} {value[:60]!r}: {done.exception!r}") from done.exception

    return called

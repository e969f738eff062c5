"""Measure the live pages' times on the example pair: a sentence, an explanation, a region by hand, a quick search.

Requests are sent to the worker in the same way as by the page, after the pair is loaded. Each is repeated with other
texts or regions, because a stored answer costs nothing. The search is the tour's job, from its start to the finished
run. Targets are for two quiet cores.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.frame import RESULTS, machine, store, verdict
from skillviz import jobs
from skillviz.core.draws import CONTROLS
from skillviz.core.formats import markdown_table
from skillviz.live.client import Client
from skillviz.runs.run import Run
from skillviz.runs.spec import RunSpec
from skillviz.runs.store import Store, shipped_root
from skillviz.show.briefs import brief_of, opening_brief
from skillviz.ui.pages.tour.steps import QUICK

LOAD, SENTENCE, EXPLAIN, LAYERS, REGION, BESIDE, SEARCH = (
    "worker and pair are loaded", "a typed sentence, three models", "explain it: tokens, three models",
    "the same by layers", "graft a region by hand, 200 sentences", "the page Surgery: graft, complement, two controls",
    "a quick localization in the tour, with its process",
)  # fmt: skip
TARGETS = {SENTENCE: 0.3, EXPLAIN: 4.0, REGION: 3.0, SEARCH: 45.0}
"""Target seconds."""
TEXTS = (
    "A slow start, but the last hour is a joy.", "I have rarely been so bored by a film.",
    "The plot makes no sense and the songs go on for ever, yet my children loved every minute of it.",
    "Warm, funny and a little too long.", "Nobody in this room can act.",
)  # fmt: skip
SHOWN = ("pretrained", "grafted", "finetuned")
SAMPLE, LONGEST = 200, 600.0


def opening_run() -> Run:
    """Return the run that the dashboard opens on."""
    store = Store(shipped_root())
    return store.open(opening_brief([brief_of(run, is_of_user=False) for run in store.list()]).id)


def measure(run: Run, folder: Path, searches: int) -> list[dict[str, Any]]:
    """Return one row per request: number of repetitions, median and longest seconds."""
    client, pair = Client(folder), {"run": run.id}
    seconds: dict[str, list[float]] = {}

    @contextmanager
    def timed(what: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        seconds.setdefault(what, []).append(time.perf_counter() - begun)

    def score(expression: Mapping[str, Any], **arguments: Any) -> None:
        client.ask(
            "evaluate_region", pair=pair, region=dict(expression), split="test", sample=SAMPLE, timeout=LONGEST,
            **arguments,
        )  # fmt: skip

    with timed(LOAD):
        client.ask("open", pair=pair, timeout=LONGEST)
    try:
        for text in TEXTS:
            about: dict[str, Any] = {"pair": pair, "states": list(SHOWN), "timeout": LONGEST}
            with timed(SENTENCE):
                client.ask("score_text", texts=[text], **about)
            with timed(EXPLAIN):
                client.ask("attribute", text=text, **about)
            with timed(LAYERS):
                client.ask("attribute", text=text, method="layer-conductance", **about)
        for expression in regions(run):
            with timed(REGION):
                score(expression, states=["grafted"])
        for expression in regions(run, len(TEXTS)):
            with timed(BESIDE):  # as on the page: one request per model, for its progress bar
                for state in ("grafted", "complement"):
                    score(expression, states=[state])
                for control in CONTROLS:
                    score(expression, states=[], controls=[control])
    finally:
        assert client.process is not None
        client.process.terminate()
    for number in range(searches):
        with timed(SEARCH):
            search(run, Store(folder), number)
    return [
        {
            "what": what, "n": len(taken), "median": round(float(np.median(taken)), 3), "longest": round(max(taken), 3),
            "target": TARGETS.get(what),
        }
        for what, taken in seconds.items()
    ]  # fmt: skip


def regions(run: Run, first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield different regions as from the form of Surgery: a layer's part of the run's region, or a layer."""
    layers = run.record.architecture.layers if run.record.architecture else 1
    for number in range(first, first + 3):
        layer = number % layers
        yield {"intersection": [{"run": run.id}, {"layers": [layer]}]} if number % 2 else {"layers": [layer]}


def search(run: Run, runs: Store, number: int) -> None:
    """Run the tour's job on the run's pair, each time with another seed, because an existing run is not made again."""
    same = {name: getattr(run.spec, name) for name in ("base", "finetuned", "task", "readout", "localizer")}
    spec = RunSpec(**same, sizes=run.spec.sizes[:1], **{**QUICK, "seed": QUICK["seed"] + number})
    job = jobs.start(spec, runs)
    while (now := jobs.status(runs, job.run_id)).is_open:
        time.sleep(0.2)
    if now.status != "finished":
        raise RuntimeError(f"the search ended as {now.status}; its log is in {runs.root / job.run_id}")


def table(result: dict[str, Any]) -> list[str]:
    """Return the result as a Markdown table, with the run and the machine."""
    at, rows = result["machine"], result["rows"]
    targets = ["" if row["target"] is None else verdict(row["median"], row["target"]) for row in rows]
    cells = [
        [row["what"], str(row["n"]), f"{row['median']:.2f}", f"{row['longest']:.2f}", target]
        for row, target in zip(rows, targets, strict=True)
    ]
    return [
        *markdown_table(("what", "n", "median, s", "longest, s", "target"), cells), "",
        f"Run `{result['run']}`; {at['cpu']}, {at['cores']} cores; load at the start {at['load']}.",
    ]  # fmt: skip


def main(run_id: str = "", searches: int = 3, results: Path = RESULTS) -> None:
    """Measure the live pages on the run that the dashboard opens on, or on another."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    at, run = machine(), Store(shipped_root()).open(run_id) if run_id else opening_run()
    with TemporaryDirectory(prefix="skillviz-live-") as folder:
        rows = measure(run, Path(folder) / "runs", searches)
    result = {"run": run.id, "machine": at, "rows": rows}
    store("live", result, table(result), results)

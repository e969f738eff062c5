"""Measure the memory of a localization, relative to the model's own bytes, by localizer and by size of the model.

    python -m benchmarks memory [--shape 11M --shape 45M] [--localizer stagewise] [--results FOLDER]
    python -m benchmarks memory --gpu

Each row is measured in its own process. A pair of random weights of a Llama's shape (BERT's for the smallest) is
written to files, opened and searched. The row has the process's peak of resident memory less the memory after loading
the interpreter and its libraries. For the activations, another process makes a bare forward and backward pass of the
same batches on the same model, and frees every gradient immediately; its peak beyond the model is the activations. With
--gpu a pair of 7 B is searched on a GPU limited to 24 GB; the peak is of the memory that torch holds there. Rows of
other shapes stay as they are stored. After each row memory.json is written, and the table into benchmarks/README.md and
docs/large-models.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated, Any

import typer

from benchmarks.frame import RESULTS, ROOT, machine, store
from skillviz.core.formats import byte_size, markdown_table

PAGE = ROOT / "docs" / "large-models.md"
SIZE_SHARE = 0.001
STEPS, BATCH, TOKENS = 1, 4, 16
LOCALIZERS = ("stagewise", "frank-wolfe", "first-order", "movement", "random")
BARE = "bare pass"
ON_GPU = "lean, on a GPU"
GPU_LIMIT, GPU_STEPS, GPU_BATCH, GPU_TOKENS = 24e9, 3, 128, 32


@dataclass(frozen=True)
class Shape:
    """The shape of a model; `dtype` is the type of its files and of the model in memory."""

    name: str
    family: str
    width: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    dtype: str

    def config(self) -> Any:
        """Return the configuration of transformers, for a classifier of two labels."""
        from transformers import AutoConfig

        own = {"num_key_value_heads": self.heads, "tie_word_embeddings": True} if self.family == "llama" else {}
        return AutoConfig.for_model(
            self.family, hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=self.heads,
            intermediate_size=self.inner, vocab_size=self.vocabulary, num_labels=2, pad_token_id=0, **own,
        )  # fmt: skip


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("11M", "bert", 384, 6, 12, 1536, 2000, "float32"),
        Shape("45M", "llama", 512, 12, 8, 1376, 4000, "float32"),
        Shape("134M", "llama", 768, 18, 12, 2048, 8000, "bfloat16"),
        Shape("470M", "llama", 1280, 23, 20, 3424, 16000, "bfloat16"),
        Shape("1100M", "llama", 2048, 21, 32, 5504, 32000, "bfloat16"),
    )
}
SEVEN = Shape("7B", "llama", 4096, 32, 32, 11008, 32000, "bfloat16")
"""Not measured on a CPU, where its rows are extrapolated."""
EVERY = {**SHAPES, SEVEN.name: SEVEN}


@dataclass(frozen=True)
class Measured:
    """One process: bytes of the model, bytes at the peak beyond the libraries, clock and processor seconds of the
    search, parameters and graftable entries."""

    shape: str
    what: str
    mode: str
    model: int
    peak: int
    seconds: float
    processor: float
    parameters: int
    d: int

    def over_model(self, bare: Measured) -> float:
        """Return the peak without the activations, by the bare pass of the shape, over the model's bytes."""
        return (self.peak - bare.activations) / self.model

    @property
    def activations(self) -> int:
        """The bytes of a bare pass beyond its model."""
        return max(0, self.peak - self.model)

    def cells(self, model: str, size: float, peak: float, bare: Measured, factor: float = 1) -> tuple[str, ...]:
        """Return the row of the table; seconds are of one processor, independent of other work, on a GPU of a clock."""
        seconds = self.seconds if self.mode == ON_GPU else self.processor
        return (model, EVERY[self.shape].dtype, self.what, self.mode, byte_size(size), byte_size(peak),
                f"{self.over_model(bare):.2f}", f"{seconds * factor:,.0f}")  # fmt: skip


def make_pair(shape: Shape, folder: Path, device: str = "cpu") -> None:
    """Write the pair: random weights, and the same with every tenth entry of each block moved a little."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging

    from tests.tiny_tokenizers import tiny_tokenizer

    logging.disable_progress_bar()
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForSequenceClassification.from_config(shape.config(), dtype=getattr(torch, shape.dtype))
    for name in ("base", "finetuned"):
        model.config.architectures = [type(model).__name__]
        (folder / name).mkdir(parents=True)
        model.config.save_pretrained(folder / name)
        tiny_tokenizer(shape.family).save_pretrained(folder / name)
        # one copy: tensors are moved in place between the two
        save_file(dict(model.named_parameters()), folder / name / "model.safetensors", metadata={"format": "pt"})
        for parameter_name, parameter in model.named_parameters():
            if "layer" in parameter_name:
                flat = parameter.data.view(-1)[::10]
                flat += (0.05 * torch.randn(len(flat), device=device)).to(flat.dtype)


def child(shape: Shape, folder: Path, what: str, mode: str) -> Measured:
    """Open the pair and search, in this process, which does nothing else."""
    import numpy as np
    import torch

    from skillviz.core.encoded import Encoded
    from skillviz.core.lean import LeanModel
    from skillviz.core.localizers.table import LEAN_CANDIDATES, localizer
    from skillviz.models.lean_pair import load_lean
    from skillviz.models.pair import load_pair

    torch.set_num_threads(int(os.environ.get("SKILLVIZ_THREADS", "1")))
    from transformers import AutoModelForSequenceClassification  # noqa: F401 the libraries come before the ruler

    is_gpu = mode == ON_GPU
    usual, on_gpu = ("cpu", STEPS, BATCH, TOKENS), ("cuda:0", GPU_STEPS, GPU_BATCH, GPU_TOKENS)
    device, steps, batch, tokens = on_gpu if is_gpu else usual
    if is_gpu:
        share = GPU_LIMIT / torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, share))
    else:
        _warm(shape)
    before = peak(device)
    load = load_pair if mode == "ordinary" else load_lean
    pair = load(folder / "base", folder / "finetuned", device=device, dtype=shape.dtype)
    model = sum(p.numel() * p.element_size() for p in pair.model.parameters())
    rng = np.random.default_rng(0)
    rows = [rng.integers(5, 60, size=tokens).astype(np.int64) for _ in range(2 * batch)]
    encoded = Encoded([str(i) for i in range(len(rows))], rows, np.arange(len(rows)) % 2, 2)
    problem = pair.problem(encoded)
    begun, spent = perf_counter(), process_time()
    if what == BARE:
        assert isinstance(pair.flat, LeanModel)
        problem.watch(torch.arange(1))
        for parameter in pair.flat.parameters:
            parameter.requires_grad_(True)
        problem.train.backward(np.arange(batch))
    else:
        row = localizer(what)
        wanted = {"steps": steps, "batch_size": batch, "examples": batch, "candidate_share": LEAN_CANDIDATES}
        options = row.make_options({name: value for name, value in wanted.items() if row.option(name)})
        for _ in row.search(problem, max(1, int(SIZE_SHARE * pair.d)), seed=0, options=options):
            pass
    parameters = sum(p.numel() for p in pair.model.parameters())
    return Measured(
        shape.name, what, mode, model, peak(device) - before, round(perf_counter() - begun, 2),
        round(process_time() - spent, 2), parameters, pair.d,
    )  # fmt: skip


def _warm(shape: Shape) -> None:
    """Run a tiny model once, so that the libraries' own buffers exist before the memory is measured."""
    import torch
    from transformers import AutoModelForSequenceClassification

    small = Shape("tiny", shape.family, 64, 1, 2, 64, 100, shape.dtype)
    model = AutoModelForSequenceClassification.from_config(small.config(), dtype=getattr(torch, shape.dtype))
    model(input_ids=torch.ones(2, 4, dtype=torch.long)).logits.sum().backward()


def peak(device: str = "cpu") -> int:
    """Return the most bytes that were resident in this process, or that torch held on the GPU, at one time."""
    if device != "cpu":
        import torch

        return torch.cuda.max_memory_allocated()
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measured(shape: Shape, folder: Path, what: str, mode: str) -> Measured:
    """Return the row of one process."""
    # the allocator returns memory at once, so that freed memory does not count as used
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}
    return Measured(**json.loads(_process("child", shape.name, str(folder), what, mode, env=environment)))


def _process(*words: str, **options: Any) -> str:
    """Return the last line that this file prints in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return (done.stdout.splitlines() or [""])[-1]


def rows_of(shape: Shape, localizers: Sequence[str], is_ordinary: bool, mode: str = "lean") -> Iterator[Measured]:
    """Yield all rows of a shape: the bare pass, each localizer in this mode, and the first in the ordinary mode.

    `mode` is lean, or ON_GPU for a GPU limited to GPU_LIMIT bytes.
    """
    with TemporaryDirectory(prefix="skillviz-memory-") as work:
        _process("make", shape.name, work, "cuda" if mode == ON_GPU else "cpu")
        ordinary = [(localizers[0], "ordinary")] if is_ordinary else []
        for what, how in (*((name, mode) for name in (BARE, *localizers)), *ordinary):
            yield measured(shape, Path(work), what, how)


def table(rows: Sequence[Measured]) -> list[str]:
    """Return the Markdown table, with extrapolated rows labeled."""
    bares = {row.shape: row for row in rows if row.what == BARE}
    measured = [row for row in rows if row.what != BARE]
    head = ("model", "dtype", "localizer", "mode", "model's bytes", "peak", "peak without activations, over model",
            "seconds")  # fmt: skip
    lines = [
        row.cells(f"{row.parameters / 1e6:,.0f} M", row.model, row.peak, bares[row.shape]) for row in measured
    ]  # fmt: skip
    return markdown_table(head, [*lines, *extrapolated(measured, bares)])


def extrapolated(rows: Sequence[Measured], bares: dict[str, Measured]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of 7 B: memory by the ratio of the largest measured bfloat16 shape, time in proportion."""
    narrow = [row for row in rows if row.mode != ON_GPU and EVERY[row.shape].dtype == "bfloat16"]
    largest = max(narrow, key=lambda row: row.parameters, default=None)
    parameters = SEVEN.layers * (4 * SEVEN.width**2 + 3 * SEVEN.width * SEVEN.inner) + SEVEN.vocabulary * SEVEN.width
    for row in narrow:
        if largest is not None and row.shape == largest.shape:
            bare = bares[row.shape]
            peak = row.over_model(bare) * 2 * parameters + bare.activations * SEVEN.width / EVERY[row.shape].width
            name = f"{parameters / 1e6:,.0f} M, extrapolated"
            yield row.cells(name, 2 * parameters, peak, bare, parameters / row.parameters)


def stored(results: Path) -> list[Measured]:
    """Return the rows of memory.json in a folder; none if there is no file."""
    path = results / "memory.json"
    return [Measured(**row) for row in json.loads(path.read_text())["rows"]] if path.is_file() else []


def main(
    shape: Annotated[list[str] | None, typer.Option(help=f"{', '.join(SHAPES)}; repeatable.")] = None,
    localizer: Annotated[list[str] | None, typer.Option(help="Repeatable.")] = None,
    ordinary_below: Annotated[float, typer.Option(help="Millions of parameters.")] = 600,
    gpu: Annotated[bool, typer.Option("--gpu", help="7 B on a GPU of 24 GB.")] = False,
    results: Path = RESULTS,
) -> None:
    """Measure the memory of a localization, relative to the model's own bytes; rows of other shapes are kept."""
    names = [SEVEN.name] if gpu else shape or list(SHAPES)
    rows = [row for row in stored(results) if row.shape not in names]
    for name in names:
        is_ordinary = not gpu and float(name.rstrip("M")) < ordinary_below
        for row in rows_of(EVERY[name], localizer or LOCALIZERS, is_ordinary, ON_GPU if gpu else "lean"):
            rows = sorted((*rows, row), key=lambda one: one.parameters)
            found = {"machine": machine(), "rows": [asdict(one) for one in rows]}
            store("memory", found, table(rows), results, PAGE)


if __name__ == "__main__":  # one process of a measurement
    step, name, place, *more = sys.argv[1:]
    if step == "make":
        make_pair(EVERY[name], Path(place), *more)
    else:
        print(json.dumps(asdict(child(EVERY[name], Path(place), *more))))

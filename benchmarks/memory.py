"""Measure the memory of a localization, relative to the model's own bytes, by localizer and by size of the model.

    python benchmarks/memory.py [--shapes 11M 45M 134M 470M 1100M] [--localizers stagewise movement] [--out benchmarks]
    python benchmarks/memory.py --gpu [--out benchmarks]

Each row is measured in its own process. A pair of random weights of a Llama's shape (BERT's for the smallest) is
written to files, opened and searched. The row has the process's peak of resident memory less the memory after loading
the interpreter and its libraries. For the activations, another process makes a bare forward and backward pass of the
same batches on the same model, and frees every gradient immediately; its peak beyond the model is the activations. With
--gpu a pair of 7 B is searched on a GPU limited to 24 GB; the peak is of the memory that torch holds there. Rows of
other shapes stay as they are stored. After each row it writes memory.json, and the table into README.md beside this
file and into docs/large-models.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.machine import machine, marks, written
from skillviz.core.formats import byte_size

NAME = "memory"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "large-models.md"
BOUND = 1.35
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

    @property
    def told_seconds(self) -> float:
        """Seconds of one processor, independent of other work on the machine; on a GPU clock seconds."""
        return self.seconds if self.mode == ON_GPU else self.processor


def shape_of(name: str) -> Shape:
    """Return the shape of this name."""
    return SEVEN if name == SEVEN.name else SHAPES[name]


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
    device, steps, batch, tokens = (
        ("cuda:0", GPU_STEPS, GPU_BATCH, GPU_TOKENS) if is_gpu else ("cpu", STEPS, BATCH, TOKENS)
    )
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
    words = [sys.executable, __file__, "--child", shape.name, str(folder), what, mode]
    # the allocator returns memory at once, so that freed memory does not count as used
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def rows_of(shape: Shape, localizers: Sequence[str], ordinary: bool = True, mode: str = "lean") -> Iterator[Measured]:
    """Yield all rows of a shape: the bare pass, each localizer in this mode, and the first in the ordinary mode.

    `mode` is lean or ON_GPU.
    """
    with TemporaryDirectory(prefix="skillviz-memory-") as work:
        device = "cuda" if mode == ON_GPU else "cpu"
        subprocess.run([sys.executable, __file__, "--make", shape.name, work, device], check=True, capture_output=True)
        for name in (BARE, *localizers):
            yield measured(shape, Path(work), name, mode)
        if ordinary:
            yield measured(shape, Path(work), localizers[0], "ordinary")


def seven_on_gpu(localizers: Sequence[str]) -> Iterator[Measured]:
    """Return the rows of a pair of 7 B on a GPU limited to GPU_LIMIT bytes."""
    return rows_of(SEVEN, localizers, ordinary=False, mode=ON_GPU)


def over_model(row: Measured, bare: Measured | None) -> float:
    """Return the peak without the activations, over the model's bytes; with them if no bare pass was measured."""
    return (row.peak - (max(0, bare.peak - bare.model) if bare else 0)) / row.model


def table(rows: Sequence[Measured]) -> str:
    """Return the Markdown table, with extrapolated rows labeled."""
    lines = [
        "| model | dtype | localizer | mode | model's bytes | peak | peak without activations, over model | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    bares = {row.shape: row for row in rows if row.what == BARE}
    for row in rows:
        if row.what != BARE:
            lines.append(
                f"| {row.parameters / 1e6:,.0f} M | {shape_of(row.shape).dtype} | {row.what} | {row.mode} | "
                f"{byte_size(row.model)} | {byte_size(row.peak)} | {over_model(row, bares.get(row.shape)):.2f} | "
                f"{row.told_seconds:,.0f} |"
            )
    lines += [*extrapolated(rows), ""]
    return "\n".join(lines)


def extrapolated(rows: Sequence[Measured]) -> Iterator[str]:
    """Yield the rows of 7 B: memory by the ratio of the largest measured bfloat16 shape, time in proportion."""
    narrow = [row for row in rows if row.mode != ON_GPU and SHAPES[row.shape].dtype == "bfloat16"]
    if not narrow:
        return
    largest = max(narrow, key=lambda row: row.parameters)
    bare = next((row for row in rows if row.shape == largest.shape and row.what == BARE), None)
    parameters = SEVEN.layers * (4 * SEVEN.width**2 + 3 * SEVEN.width * SEVEN.inner) + SEVEN.vocabulary * SEVEN.width
    factor = parameters / largest.parameters
    for row in rows:
        if row.shape == largest.shape and row.what != BARE:
            ratio = over_model(row, bare)
            kept = max(0, bare.peak - bare.model) if bare else 0
            activations = kept * SEVEN.width / SHAPES[row.shape].width
            peak = ratio * 2 * parameters + activations
            yield (
                f"| {parameters / 1e6:,.0f} M, extrapolated | bfloat16 | {row.what} | {row.mode} | "
                f"{byte_size(2 * parameters)} | {byte_size(peak)} | {ratio:.2f} | {row.told_seconds * factor:,.0f} |"
            )


def stored(out: Path) -> list[Measured]:
    """Return the rows of memory.json in a folder's results; none if there is no file."""
    path = out / "results" / f"{NAME}.json"
    return [Measured(**row) for row in json.loads(path.read_text())["rows"]] if path.is_file() else []


def write(rows: Sequence[Measured], out: Path) -> None:
    """Write memory.json and the table into README.md of a folder, and also into the docs page if it is this folder."""
    written(NAME, {"machine": machine(), "rows": [asdict(row) for row in rows]}, table(rows), out)
    if out.resolve() == Path(__file__).resolve().parent:
        begin, end = marks(NAME)
        before, _, rest = PAGE.read_text().partition(begin)
        PAGE.write_text(f"{before}{begin}\n{table(rows)}{end}{rest.partition(end)[2]}")


def main() -> None:
    """Measure, print and write."""
    if len(sys.argv) > 1 and sys.argv[1] == "--make":
        make_pair(shape_of(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
        return
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        shape, folder, what, mode = sys.argv[2:]
        print(json.dumps(asdict(child(shape_of(shape), Path(folder), what, mode))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--localizers", nargs="+", default=list(LOCALIZERS))
    parser.add_argument("--ordinary-below", type=float, default=600, help="millions of parameters")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--gpu", action="store_true", help="7 B on a GPU of 24 GB; keeps the stored rows")
    given = parser.parse_args()
    shapes = [SEVEN.name] if given.gpu else given.shapes
    kept = [row for row in stored(given.out) if row.shape not in shapes]
    parts = (
        seven_on_gpu(given.localizers) if given.gpu
        else rows_of(SHAPES[name], given.localizers, float(name.rstrip("M")) < given.ordinary_below)
        for name in shapes
    )  # fmt: skip
    new: list[Measured] = []
    for row in chain.from_iterable(parts):
        new.append(row)
        rows = sorted((*kept, *new), key=lambda one: one.parameters)
        write(rows, given.out)
        bare = next(one for one in rows if one.shape == row.shape)
        print(f"{row.shape} {row.what} {row.mode}: {row.peak / row.model:.2f}, without activations "
              f"{over_model(row, bare):.2f}, {row.seconds} s", flush=True)  # fmt: skip
    print(table(stored(given.out)))


if __name__ == "__main__":
    main()

"""Why a run failed, in words: the error's class, its sentence, and what to do."""

from __future__ import annotations

import errno

from skillviz.errors import BadInput, BadModel, DiskFull, LiveError, NoDevice, SkillvizError, StoreError
from skillviz.runs.record import Failure

BUG = "bug"
OUT_OF_MEMORY = "out of memory"

# the first class that fits wins
HINTS: tuple[tuple[type[SkillvizError], str], ...] = (
    (BadInput, "Change the value that the sentence names and start the run again."),
    (BadModel, "Check both models with `python -m skillviz preflight --base ... --finetuned ...`."),
    (NoDevice, "Choose --device cpu or auto."),
    (LiveError, "Ask again; the worker starts anew where it has ended."),
    (DiskFull, "Free some space or choose another folder with --runs-dir."),
    (StoreError, "Check the folder of runs and its rights."),
)
MEMORY_HINT = "Use --device cpu, --dtype bfloat16, a smaller --batch-size, --max-train, or a smaller model."
NO_MEMORY = (  # in errors that have no class of their own
    "can't allocate memory", "cuda error: out of memory", "cuda out of memory", "hip out of memory",
    "cublas_status_alloc_failed", "cudnn_status_alloc_failed", "cusparse_status_alloc_failed",
    "cufft_alloc_failed", "std::bad_alloc", "cannot allocate memory",
)  # fmt: skip
BUG_HINT = "This is an error in skillviz, not in your input; please report it with the log of the run."


def failure_of(error: BaseException) -> Failure:
    """How run.json tells of this error. Everything outside the tree of errors.py is a bug, but for memory."""
    if is_out_of_memory(error):
        return Failure(kind=OUT_OF_MEMORY, message=first_line(error), hint=MEMORY_HINT)
    if isinstance(error, SkillvizError):
        hint = next((hint for kind, hint in HINTS if isinstance(error, kind)), "")
        return Failure(kind=type(error).__name__, message=str(error.args[0]) if error.args else "", hint=hint)
    return Failure(kind=BUG, message=f"{type(error).__name__}: {first_line(error)}", hint=BUG_HINT)


def is_out_of_memory(error: BaseException) -> bool:
    """True for every way of saying it, of Python, the system, CUDA and its libraries; torch is not needed to tell."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in NO_MEMORY)


def first_line(error: BaseException) -> str:
    """The error's text without the pages that some libraries add."""
    return str(error).strip().split("\n")[0][:500]

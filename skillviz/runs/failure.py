"""Why a run failed, in words: the error's class, its sentence, and what to do."""

from __future__ import annotations

from skillviz.errors import BadInput, BadModel, DiskFull, NoDevice, SkillvizError, StoreError
from skillviz.runs.record import Failure

BUG = "bug"
OUT_OF_MEMORY = "out of memory"

# the first class that fits wins
HINTS: tuple[tuple[type[SkillvizError], str], ...] = (
    (BadInput, "Change the value that the sentence names and start the run again."),
    (BadModel, "Check both models with `python -m skillviz preflight --base ... --finetuned ...`."),
    (NoDevice, "Choose --device cpu or auto."),
    (DiskFull, "Free some space or choose another folder with --runs-dir."),
    (StoreError, "Check the folder of runs and its rights."),
)
MEMORY_HINT = "Use --device cpu, --dtype bfloat16, a smaller --batch-size, --max-train, or a smaller model."
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
    """True for Python's, CUDA's and the CPU allocator's way of saying it; torch is not needed to tell."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
    )


def first_line(error: BaseException) -> str:
    """The error's text without the pages that some libraries add."""
    return str(error).strip().split("\n")[0][:500]

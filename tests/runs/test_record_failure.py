"""Tests of errors in run.json: the class, one sentence, and the fix."""

from __future__ import annotations

import errno

import pytest

from skillviz import errors
from skillviz.errors import BUG, OUT_OF_MEMORY, SkillvizError, advice, is_out_of_memory
from skillviz.runs.record_failure import failure_of


class OutOfMemoryError(RuntimeError):
    """An error with the class name of torch.cuda's."""


class AcceleratorError(RuntimeError):
    """An error with the class name that torch gives to errors of a device's driver."""


def tree(kind: type[SkillvizError]) -> list[type[SkillvizError]]:
    return [kind, *(k for child in kind.__subclasses__() for k in tree(child))]


@pytest.mark.parametrize("kind", [k for k in tree(SkillvizError) if k.__module__ == errors.__name__][1:])
def test_every_error_of_the_tree_has_a_hint(kind: type[SkillvizError]) -> None:
    failure = failure_of(kind("what was wrong."))
    assert failure.kind == kind.__name__
    assert failure.message == "what was wrong."
    assert failure.hint == kind.hint and advice(failure.kind) is kind


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be reported asynchronously"),
        RuntimeError("std::bad_alloc"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_all_ways_to_run_out_of_memory_are_known(error: Exception) -> None:
    assert is_out_of_memory(error)
    failure = failure_of(error)
    assert failure.kind == OUT_OF_MEMORY and "--batch-size" in failure.hint and "\n" not in failure.message


def test_anything_else_is_a_bug_and_says_which() -> None:
    failure = failure_of(ZeroDivisionError("division by zero\nand more"))
    assert failure.kind == BUG
    assert failure.message == "ZeroDivisionError: division by zero"
    assert not is_out_of_memory(RuntimeError("shape mismatch"))
    assert not is_out_of_memory(AcceleratorError("CUDA error: device-side assert triggered"))
    assert not is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED"))

"""The errors a user can cause, as one small tree.

SkillvizError                the interface shows its sentence; anything else is a bug and shows as one
├── BadInput                 a value that was typed or given
│   ├── UnknownTask
│   ├── UnknownLocalizer
│   ├── BadSize              a region size outside 1..d, or unreadable
│   ├── BadData              a missing column, a label outside `labels`, no rows
│   └── BadLabelWord         a label word that the readout cannot score
├── BadModel                 a model that cannot be used
│   ├── ModelNotFound
│   ├── UnsafeWeights        pickled weights; only safetensors are read
│   ├── CorruptFile          a file that is cut short or is not what it claims
│   ├── PairMismatch         base and fine-tuned model do not fit each other
│   ├── RandomHead           a head that would be made up at load
│   └── WrongBase            a graft or region of another base
├── NoDevice                 a device that this machine does not have
├── LiveError                the worker behind the live pages did not answer
│   └── Superseded           a newer request took this one's place
└── StoreError               the folder of runs
    ├── RunNotFound
    ├── CorruptRun           a file differs from what its run vouches for
    ├── WrongCheckpoint      a checkpoint of another spec, other weights or data, or one that cannot be read
    ├── NewerSchema          written by a later version of skillviz
    └── DiskFull
"""

import errno
import os

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SkillvizError(Exception):
    """One clear sentence: what was wrong, what is allowed, what to do."""

    def __str__(self) -> str:
        return f"{type(self).__name__}: {super().__str__()}"


class BadInput(SkillvizError):
    """A value that was typed or given."""


class UnknownTask(BadInput):
    """A task name that is neither in the registry nor a YAML file."""


class UnknownLocalizer(BadInput):
    """A localizer name that is not in the table."""


class BadSize(BadInput):
    """A region size outside 1..d, or one that cannot be read."""


class BadData(BadInput):
    """A missing file or column, a label outside `labels`, no rows."""


class BadLabelWord(BadInput):
    """A label word that the readout cannot score."""


class BadModel(SkillvizError):
    """A model that cannot be used."""


class ModelNotFound(BadModel):
    """Neither a folder nor an id that can be had."""


class UnsafeWeights(BadModel):
    """Pickled weights; only safetensors are read."""


class CorruptFile(BadModel):
    """A file that is cut short or is not what it claims to be."""


class PairMismatch(BadModel):
    """Base and fine-tuned model do not fit each other."""


class RandomHead(BadModel):
    """A head that would be made up at load."""


class WrongBase(BadModel):
    """A graft that was made for another base model, or a region that was found on another."""


class NoDevice(SkillvizError):
    """A device that this machine does not have."""


class LiveError(SkillvizError):
    """The worker behind the live pages could not be started, was ended, or took too long."""


class Superseded(LiveError):
    """A newer request of the same session and topic took this one's place; its answer is on the way."""


class StoreError(SkillvizError):
    """The folder of runs."""


class RunNotFound(StoreError):
    """No finished run of that id."""


class CorruptRun(StoreError):
    """A file differs from what its run vouches for."""


class WrongCheckpoint(StoreError):
    """A checkpoint of another spec, other weights or other data, or one that cannot be read."""


class NewerSchema(StoreError):
    """Written by a later version of skillviz."""


class DiskFull(StoreError):
    """No space left where something is written, or the file would be larger than the system lets it be."""


def is_disk_full(error: BaseException) -> bool:
    """Whether this error, or one that it wraps, says that no more can be written.

    safetensors, tokenizers and datasets have errors of their own, in which only the system's words tell.
    """
    found: BaseException | None = error
    while found is not None:
        words = str(found)
        if getattr(found, "errno", None) in FULL or any(os.strerror(code) in words for code in FULL):
            return True
        found = found.__cause__ or found.__context__
    return False

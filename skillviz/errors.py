"""The errors that a user can cause, as a tree of classes; each class has its own advice.

SkillvizError                the interface shows its sentence; any other error is a bug and is shown as one
├── BadInput                 a value that was typed or given
│   ├── UnknownTask
│   ├── UnknownLocalizer
│   ├── BadSize              a region size outside 1..d, or unreadable
│   ├── UnsetVariable        a path with an environment variable that is not set
│   ├── BadData              a missing column, a label outside `labels`, no rows
│   │   └── DataNotFound     a data set of the hub that is not on this machine and cannot be downloaded
│   └── BadLabelWord         a label word that the readout cannot score
├── BadModel                 a model that cannot be used
│   ├── ModelNotFound
│   ├── UnsafeWeights        pickled weights; only safetensors are read
│   ├── CorruptFile          a file that is cut short or is not what it claims
│   ├── PairMismatch         base and fine-tuned model do not fit each other
│   ├── RandomHead           a head whose weights are missing and would be random
│   └── WrongBase            a graft or region of another base
├── HubError                 the Hugging Face Hub: no login, no network, or a refusal
├── NoDevice                 a device that this machine does not have
├── NotEnoughMemory          a run that needs more memory than is free
├── NoCluster                a cluster that is not here, is not set up, or refuses the job
├── NotSignedIn              the deployment requires sign-in
├── NoClass                  a class of a hosted tour that has ended or is full, or one class too many
├── LiveError                the worker behind the live pages did not answer
│   └── Superseded           a newer request took this one's place
└── StoreError               the folder of runs
    ├── RunNotFound
    ├── CorruptRun           a file differs from its hash or size in the run's record
    ├── NotReadable          the system refuses a file or folder, or a text is not UTF-8
    ├── WrongCheckpoint      a checkpoint of another spec, other weights or data, or one that cannot be read
    ├── OtherVersion         made by another version of skillviz
    ├── ReadOnly             SKILLVIZ_READONLY is set: nothing is started or written
    ├── OverQuota            a user has as much as the deployment allows
    └── DiskFull
"""

import errno
import os
import re
from dataclasses import dataclass
from typing import ClassVar

BUG, OUT_OF_MEMORY, KILLED, UNKNOWN = "bug", "out of memory", "killed", "unknown"
TIME_LIMIT, NODE_FAILURE, PREEMPTED = "time limit", "node failure", "preempted"
"""The names, in a record, of ends that are not an error of the tree."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_MEMORY = (  # parts of error messages that have no class of their own
    "can't allocate memory", "cuda error: out of memory", "cuda out of memory", "hip out of memory",
    "cublas_status_alloc_failed", "cudnn_status_alloc_failed", "cusparse_status_alloc_failed",
    "cufft_alloc_failed", "std::bad_alloc", "cannot allocate memory",
)  # fmt: skip


MOST_LETTERS = 2_000
"""The longest sentence of an error, in characters; our longest, which list all allowed names, have about 900."""


_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""All control characters except tab and newline, marks of writing direction, and unprintable lone surrogates."""
_DRAFT = re.compile(
    r"(?:(?<=[/'\"\s(])|^)\.(?=\S)(?P<name>[^/'\"\n]+?)\.[0-9a-f]{8}-\d+-[0-9a-f]{8}\.(?:part|old)"
    r"(?:/(?P=name)(?=$|[\s'\",;:)]))?"
)
"""A draft's name as made by `skillviz.atomic`, with the file of the same name inside. Users do not know drafts."""


class SkillvizError(Exception):
    """An error with one clear sentence: what is wrong, what is allowed, what to do.

    `title` is the heading of the failure, `hint` the advice at a terminal, `page_hint` the advice on a page.
    """

    title: ClassVar[str] = "Failed"
    hint: ClassVar[str] = ""
    page_hint: ClassVar[str] = "Look at the log below."

    def __init__(self, sentence: str = "", *more: object) -> None:
        super().__init__(_shortened(sentence), *more)

    def __str__(self) -> str:
        return f"{type(self).__name__}: {super().__str__()}"


class BadInput(SkillvizError):
    """A value that was typed or given."""

    title = "Invalid value"
    hint = "Change that value and start the run again."
    page_hint = "Change it in the form and start again."


class UnknownTask(BadInput):
    """A task name that is neither in the registry nor a YAML file."""


class UnknownLocalizer(BadInput):
    """A localizer name that is not in the table."""


class BadSize(BadInput):
    """A region size outside 1..d, or one that cannot be read."""


class UnsetVariable(BadInput):
    """A path with an environment variable that is not set: `variable` in `path`."""

    variable: str = ""
    path: str = ""


class BadData(BadInput):
    """A missing file or column, a label outside `labels`, no rows."""

    title = "Bad data"
    page_hint = "Correct the data, then resume; or choose another task in the form."


class DataNotFound(BadData):
    """A data set of the hub that is not on this machine and cannot be downloaded."""


class BadLabelWord(BadInput):
    """A label word that the readout cannot score."""


class BadModel(SkillvizError):
    """A model that cannot be used."""

    title = "This model cannot be used"
    hint = "Check both models with `python -m skillviz preflight --base ... --finetuned ...`."
    page_hint = "Restore the model, or choose another in the form."


class ModelNotFound(BadModel):
    """A model name that is neither a folder nor an id that can be downloaded."""


class UnsafeWeights(BadModel):
    """Pickled weights; only safetensors are read."""


class CorruptFile(BadModel):
    """A file that is cut short or is not what it claims to be."""


class PairMismatch(BadModel):
    """A base and a fine-tuned model that do not fit each other."""


class RandomHead(BadModel):
    """A head whose weights are not stored, so that loading would make them up."""


class WrongBase(BadModel):
    """A graft made for another base model, or a region found on another base model."""


class HubError(SkillvizError):
    """A publication on the Hugging Face Hub that failed."""

    title = "Not published"
    hint = "Nothing was changed on this machine; correct what the sentence names and run the command again."
    page_hint = "Publish it from a terminal: the sentence says what is missing."


class NoDevice(SkillvizError):
    """A device that this machine does not have."""

    title = "No such device"
    hint = "Choose --device cpu or auto."
    page_hint = "Choose another device in the form."


class NotEnoughMemory(SkillvizError):
    """A run that needs more memory than is free; known before it starts."""

    title = "Not enough memory"
    hint = "`python -m skillviz preflight` with the same options says what each mode needs."
    page_hint = "Choose lean mode, bfloat16 or a smaller model; or wait until other jobs have ended, then resume."


class NoCluster(SkillvizError):
    """A cluster that this machine does not have, that is not set up, or that refuses the job."""

    title = "No cluster"
    hint = "Leave out --cluster to use this machine, or see docs/jobs.md."
    page_hint = "Choose this machine, or correct the cluster settings."


class NotSignedIn(SkillvizError):
    """The deployment requires sign-in, and no user is signed in or the identity provider does not name the user."""

    title = "Not signed in"
    hint = "Sign in on the dashboard."
    page_hint = "Reload the page and sign in."


class NoClass(SkillvizError):
    """A class of a hosted tour has ended, never existed or is full, or the server hosts no more classes."""

    title = "No such class"
    page_hint = hint = "Ask your teacher for the link."


class LiveError(SkillvizError):
    """The worker behind the live pages could not be started, was stopped, or took too long."""

    hint = "Try again; a stopped worker is restarted."


class Superseded(LiveError):
    """A newer request of the same session and topic replaced this one; its answer is on the way."""


class StoreError(SkillvizError):
    """An error of the folder of runs."""

    hint = "Check the folder of runs and its rights."


class RunNotFound(StoreError):
    """No finished run with that id."""


class CorruptRun(StoreError):
    """A file that differs from its hash or size in the run's record."""


class NotReadable(StoreError):
    """A file or folder that the system refuses to read, or a text that is not UTF-8. Its content is unknown."""

    hint = "Check its rights and the disk, then try again."


class WrongCheckpoint(StoreError):
    """A checkpoint of another spec, other weights or other data, or one that cannot be read."""


class OtherVersion(StoreError):
    """A record made by another version of skillviz, with another layout or unknown fields."""

    title = "Another version of skillviz"
    hint = "Make it again, or open it with the version that made it."
    page_hint = "Make it again, or open it with the version that made it."


class ReadOnly(StoreError):
    """SKILLVIZ_READONLY is set: nothing is started, written or downloaded."""

    title = "Read-only"
    hint = "Unset SKILLVIZ_READONLY, or run it elsewhere."
    page_hint = "Install skillviz to run it yourself."


class OverQuota(StoreError):
    """A user with as many bytes or open jobs as the deployment allows."""

    title = "Over quota"
    hint = "Delete runs that you no longer need, then resume."
    page_hint = "Delete runs that you no longer need, then resume."


class DiskFull(StoreError):
    """No space is left to write to, or the file would be larger than the system allows."""

    title = "The disk is full"
    hint = "Free some space or choose another folder with --runs-dir."
    page_hint = "Free some space, then resume."


@dataclass(frozen=True)
class End:
    """The advice for an end that is not an error of the tree."""

    title: str
    hint: str
    page_hint: str


ENDS = {
    BUG: End(
        "A bug in skillviz",
        "This is a bug in skillviz, not in your input; please report it with the run's log.",
        "This is a bug in skillviz, not in your input. Please report it with the log below.",
    ),
    OUT_OF_MEMORY: End(
        "Out of memory",
        "Use --device cpu, --dtype bfloat16, a smaller --batch-size, --max-train, or a smaller model.",
        "Choose bfloat16, another device, fewer examples a step, or a smaller model.",
    ),
    KILLED: End(
        "Killed",
        "Resume it: it was killed, or the machine ran out of memory or disk space.",
        "It was killed, or the machine ran out of memory or disk space. It can resume where it stopped.",
    ),
    UNKNOWN: End(
        "It may still run elsewhere",
        "Resume it only if it has ended there; nothing resumes it by itself.",
        "Resume it only if it has ended there. Nothing resumes it by itself.",
    ),
    TIME_LIMIT: End(
        "Time limit reached",
        "Raise `time` in the cluster settings, then resume it: it continues from its last checkpoint.",
        "Raise `time` in the cluster settings, then resume. It continues from its last checkpoint.",
    ),
    NODE_FAILURE: End(
        "Node failure",
        "The cluster lost the node and did not restart the job. Resume it: it continues from its last checkpoint.",
        "The cluster lost the node and did not restart the job. It can resume from its last checkpoint.",
    ),
    PREEMPTED: End(
        "Preempted",
        "A job with a higher priority took the node. Resume it: it continues from its last checkpoint.",
        "A job with a higher priority took the node. It can resume from its last checkpoint.",
    ),
}


def error_class(name: str) -> type[SkillvizError] | None:
    """Return the error class with this name, as used in records and messages; None for any other word."""
    kind = globals().get(name)
    return kind if isinstance(kind, type) and issubclass(kind, SkillvizError) else None


def advice(kind: str) -> End | type[SkillvizError]:
    """Return the object with `title`, `hint` and `page_hint` for a failure named in a record."""
    return ENDS.get(kind) or error_class(kind) or SkillvizError


def refuse(*rules: tuple[object, str], error: type[SkillvizError] = BadInput) -> None:
    """Raise the error with the sentence of the first rule whose condition is true."""
    for is_broken, sentence in rules:
        if is_broken:
            raise error(sentence)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class name if it has no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def visible(text: str) -> str:
    """Return the text with control characters and marks of writing direction escaped as `\\x1b`.

    Names from untrusted sources could otherwise move a terminal's cursor or hide the text beside them. Drafts get their
    final names.
    """
    return without_drafts(_UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text))


def without_drafts(text: str) -> str:
    """Return the text with each hidden draft of `skillviz.atomic` replaced by the name of its file or folder."""
    while (named := _DRAFT.sub(r"\g<name>", text)) != text:  # a draft may contain another draft
        text = named
    return text


def without_folder(sentence: str, folder: object) -> str:
    """Return an error's sentence in which the files of a draft or working folder are shown by name only."""
    return sentence.replace(f"{without_drafts(str(folder))}{os.sep}", "")


def _shortened(sentence: str) -> str:
    """Return the sentence on one line, since quoted errors may span several; a very long one keeps its two ends."""
    sentence = " ".join(line.strip() for line in sentence.splitlines()) if "\n" in sentence else sentence
    sentence = visible(sentence)
    if len(sentence) <= MOST_LETTERS:
        return sentence
    end = MOST_LETTERS // 4
    return f"{sentence[: MOST_LETTERS - end]} […] {sentence[-end:]}"


def is_disk_full(error: BaseException) -> bool:
    """True if this error, or one that it wraps, says that the disk is full.

    safetensors, tokenizers and datasets raise their own errors, where only the system's message identifies the cause.
    """
    cause: BaseException | None = error
    while cause is not None:
        words = str(cause)
        if getattr(cause, "errno", None) in FULL or any(os.strerror(code) in words for code in FULL):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def is_out_of_memory(error: BaseException) -> bool:
    """True if the error means out of memory in Python, the system, CUDA or its libraries. Needs no torch."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in NO_MEMORY)

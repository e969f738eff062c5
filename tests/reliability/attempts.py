"""The promises of docs/research/reliability.md, and the attempts to break them, in the page's order.

Each attempt is a function of the number of tries and an empty folder. It yields each try's loss in a sentence, "" for
none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from skillviz.core.localizers.table import LOCALIZERS
from tests.reliability import (
    bad_input,
    bad_run,
    checkpoint_hash,
    kills,
    resume,
    right_numbers,
    strangers,
)

LOST, RESUME, BAD_INPUT, ONE_BAD, NUMBERS, CHECKPOINT = "lost", "resume", "input", "one-bad", "numbers", "checkpoint"
STRANGERS = "strangers"
PROMISES = {
    LOST: "No run is lost or half there",
    RESUME: "Resume is exact",
    BAD_INPUT: "Bad input is refused in a sentence",
    ONE_BAD: "One bad run never hides the others",
    STRANGERS: "Strangers stay out",
    NUMBERS: "The numbers are right",
    CHECKPOINT: "A damaged checkpoint is noticed",
}


@dataclass(frozen=True)
class Attempt:
    """One way to break a promise, tried `short` or `long` times; if `short` is 0, the short form omits it."""

    promise: str
    words: str
    """The attempt in words, for the page."""
    tries: Callable[[int, Path], Iterator[str]]
    short: int
    long: int
    needs_gpu: bool = False


ATTEMPTS = {
    "random-kills": Attempt(
        LOST, "kill -9 at a random moment; a third again during the resume", kills.random_kills, 3, 1000
    ),
    "kills-at-steps": Attempt(
        LOST, "kill -9 before each step on the disk, of a run and of its resume", kills.kills_at_every_step, 3, 1000
    ),
    "power-cuts": Attempt(
        LOST, "power cut before each step on the disk: what is not synced loses half its bytes", kills.power_cuts,
        3, 1000,
    ),
    "full-disks": Attempt(LOST, "no room on the disk from each step on", kills.full_disks, 6, 1000),
    "read-only": Attempt(LOST, "each read and write of a store that cannot be written", kills.read_only, 20, 20),
    "at-once": Attempt(
        LOST, "four processes start equal runs, or resume one run, at the same moment", kills.at_once, 4, 100
    ),
    "clock-steps": Attempt(
        LOST, "the clock is set by 10 s to 3 years while a run is made", kills.clock_steps, 4, 100
    ),
    "linked-stores": Attempt(
        LOST, "a link out of the folder of runs, in six places; doctor, resume and delete", bad_run.linked, 6, 300
    ),
    "real-kills": Attempt(
        LOST, "kill -9 of the real engine on a tiny pair at a random moment", resume.real_kills, 2, 100
    ),
    "job-kills": Attempt(
        LOST, "kill -9 of a job's real process at a random moment from its start on", resume.job_kills, 0, 8
    ),
    "server-kills": Attempt(
        LOST, "kill -9 of the dashboard's server while it makes pages beside a job", resume.server_kills, 0, 4
    ),
    "worker-kills": Attempt(
        LOST, "kill -9 of the live pages' worker at a random moment of an answer or its start", resume.worker_kills,
        0, 50,
    ),
    "localizers": Attempt(
        RESUME, "every localizer, interrupted at a random report and resumed", resume.localizers,
        3, 20 * len(LOCALIZERS),
    ),
    "fine-tuning": Attempt(
        RESUME, "fine-tuning by every recipe, killed after a random step and called again", resume.finetuning, 2, 200
    ),
    "localizers-gpu": Attempt(
        RESUME, "the same of localizers, on a GPU by deterministic algorithms", resume.localizers_on_gpu,
        0, 3 * len(LOCALIZERS), needs_gpu=True,
    ),
    "fine-tuning-gpu": Attempt(
        RESUME, "the same of fine-tuning, on a GPU by deterministic algorithms", resume.finetuning_on_gpu,
        0, 20, needs_gpu=True,
    ),
    "mutated-input": Attempt(
        BAD_INPUT, "mutated inputs of 19 readers: no crash, hang, other error, or more than 2 GiB of memory",
        bad_input.mutated, 38, 10_200,
    ),
    "bad-runs": Attempt(
        ONE_BAD, "21 kinds of damage to one of four runs; list, jobs, verify and doctor", bad_run.damaged, 21, 1050
    ),
    "visitor-paths": Attempt(
        STRANGERS, "paths that a visitor types, through folders, links and variables", strangers.visitor_paths,
        2000, 100_000,
    ),
    "markup": Attempt(
        STRANGERS, "names of random markup and formulas; report, notebook card and CSV", strangers.markup, 20, 1000
    ),
    "public-demo": Attempt(
        STRANGERS, "each action that starts or writes, with SKILLVIZ_READONLY=1", strangers.public_demo, 10, 200
    ),
    "other-programs": Attempt(
        NUMBERS, "values of scikit-learn, torchmetrics and netcal on random and edge cases", right_numbers.reference,
        10_000, 10_000,
    ),
    "stored-numbers": Attempt(
        NUMBERS, "metrics in run.json of shipped runs, computed again from predictions", right_numbers.stored, 6, 1000
    ),
    "checkpoint-bits": Attempt(
        CHECKPOINT, "a changed bit, or 64 zeroed bytes, in a checkpoint", checkpoint_hash.damaged, 400, 10_000
    ),
}  # fmt: skip

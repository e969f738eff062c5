"""The table of promises and of the attempts to break them."""

from __future__ import annotations

from benchmarks.reliability.attempt import Attempt, Promise
from skillviz.core.localizers.table import LOCALIZERS

LOST, RESUME, BAD_INPUT, ONE_BAD, NUMBERS, CHECKPOINT = "lost", "resume", "input", "one-bad", "numbers", "checkpoint"
STRANGERS = "strangers"

PROMISES = {
    promise.name: promise
    for promise in (
        Promise(LOST, "No run is lost or half there"),
        Promise(RESUME, "Resume is exact"),
        Promise(BAD_INPUT, "Bad input is refused in a sentence"),
        Promise(ONE_BAD, "One bad run never hides the others"),
        Promise(STRANGERS, "Strangers stay out"),
        Promise(NUMBERS, "The numbers are right"),
        Promise(CHECKPOINT, "A damaged checkpoint is noticed"),
    )
}

HERE = "benchmarks.reliability"
KILLS, RESUMES, PROCESSES = f"{HERE}.kills", f"{HERE}.resume", f"{HERE}.processes"
ATTEMPTS = {
    attempt.name: attempt
    for attempt in (
        Attempt("random-kills", LOST, "kill -9 at a random moment; a third again during the resume",
                f"{KILLS}:random_kills", 3, 1000),
        Attempt("kills-at-steps", LOST, "kill -9 before each step on the disk, of a run and of its resume",
                f"{KILLS}:kills_at_every_step", 3, 1000),
        Attempt("power-cuts", LOST, "power cut before each step on the disk: what is not synced loses half its bytes",
                f"{KILLS}:power_cuts", 3, 1000),
        Attempt("full-disks", LOST, "no room on the disk from each step on", f"{KILLS}:full_disks", 6, 1000),
        Attempt("read-only", LOST, "each read and write of a store that cannot be written",
                f"{KILLS}:read_only", 20, 20),
        Attempt("at-once", LOST, "four processes start equal runs, or resume one run, at the same moment",
                f"{KILLS}:at_once", 4, 100),
        Attempt("clock-steps", LOST, "the clock is set by 10 s to 3 years while a run is made",
                f"{KILLS}:clock_steps", 4, 100),
        Attempt("linked-stores", LOST, "a link out of the folder of runs, in six places; doctor, resume and delete",
                f"{HERE}.linked_store:linked", 6, 300),
        Attempt("real-kills", LOST, "kill -9 of the real engine on a tiny pair at a random moment",
                f"{RESUMES}:real_kills", 2, 100),
        Attempt("job-kills", LOST, "kill -9 of a job's real process at a random moment from its start on",
                f"{PROCESSES}:job_kills", 0, 8),
        Attempt("server-kills", LOST, "kill -9 of the dashboard's server while it makes pages beside a job",
                f"{PROCESSES}:server_kills", 0, 4),
        Attempt("worker-kills", LOST, "kill -9 of the live pages' worker at a random moment of an answer or its start",
                f"{PROCESSES}:worker_kills", 0, 50),
        Attempt("localizers", RESUME, "every localizer, interrupted at a random report and resumed",
                f"{RESUMES}:localizers", 3, 20 * len(LOCALIZERS)),
        Attempt("fine-tuning", RESUME, "fine-tuning by every recipe, killed after a random step and called again",
                f"{RESUMES}:finetuning", 2, 200),
        Attempt("localizers-gpu", RESUME, "the same of localizers, on a GPU by deterministic algorithms",
                f"{RESUMES}:localizers_on_gpu", 0, 3 * len(LOCALIZERS), needs_gpu=True),
        Attempt("fine-tuning-gpu", RESUME, "the same of fine-tuning, on a GPU by deterministic algorithms",
                f"{RESUMES}:finetuning_on_gpu", 0, 20, needs_gpu=True),
        Attempt("mutated-input", BAD_INPUT,
                "mutated inputs of 19 readers: no crash, hang, other error, or more than 2 GiB of memory",
                f"{HERE}.bad_input:mutated", 38, 10_200),
        Attempt("bad-runs", ONE_BAD, "21 kinds of damage to one of four runs; list, jobs, verify and doctor",
                f"{HERE}.bad_run:damaged", 21, 1050),
        Attempt("visitor-paths", STRANGERS, "paths that a visitor types, through folders, links and variables",
                f"{HERE}.strangers:visitor_paths", 2000, 100_000),
        Attempt("markup", STRANGERS, "names of random markup and formulas; report, notebook card and CSV",
                f"{HERE}.strangers:markup", 20, 1000),
        Attempt("public-demo", STRANGERS, "each action that starts or writes, with SKILLVIZ_READONLY=1",
                f"{HERE}.strangers:public_demo", 10, 200),
        Attempt("other-programs", NUMBERS, "values of scikit-learn, torchmetrics and netcal on random and edge cases",
                f"{HERE}.right_numbers:reference", 10_000, 10_000),
        Attempt("stored-numbers", NUMBERS, "metrics in run.json of shipped runs, computed again from predictions",
                f"{HERE}.right_numbers:stored", 6, 1000),
        Attempt("checkpoint-bits", CHECKPOINT, "a changed bit, or 64 zeroed bytes, in a checkpoint",
                f"{HERE}.checkpoint_hash:damaged", 400, 10_000),
    )
}  # fmt: skip

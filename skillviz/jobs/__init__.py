"""Runs and studies in processes that outlive the program that started them: start, watch, cancel, resume."""

from skillviz.jobs.control import cancel, keep, resume, start, start_study, submit_study
from skillviz.jobs.job import Job, JobProgress
from skillviz.jobs.watch import events, growing, log_tail, newest_first, pieces, progress, run_job, status, steps
from skillviz.jobs.watch import listed as list

__all__ = [
    "Job", "JobProgress", "cancel", "events", "growing", "keep", "list", "log_tail", "newest_first",
    "pieces", "progress", "resume", "run_job", "start", "start_study", "status", "submit_study", "steps",
]  # fmt: skip

"""Runs made by processes of their own, which outlive whoever asked for them: start, watch, cancel, resume."""

from skillviz.jobs.control import cancel, resume, start, status
from skillviz.jobs.control import listed as list
from skillviz.jobs.job import Job, JobProgress
from skillviz.jobs.watch import events, log_tail, pieces, progress, steps

__all__ = [
    "Job", "JobProgress", "cancel", "events", "list", "log_tail", "pieces", "progress", "resume", "start", "status",
    "steps",
]  # fmt: skip

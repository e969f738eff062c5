"""Where a job runs, this machine or a cluster: a choice on Launch and Studies, where there are cluster settings."""

from __future__ import annotations

from skillviz.errors import SkillvizError
from skillviz.jobs import cluster
from skillviz.runs.slurm_queue import SLURM
from skillviz.ui import controls, sign_in

HERE = "here"
TITLES = {HERE: "This machine", SLURM: "Slurm cluster"}


def choose(key: str) -> str | None:
    """The cluster that was chosen; None for this machine, and without a control where no cluster is set up.

    People who sign in take turns on this machine: the cluster's queue knows one user alone, whose server this is.
    """
    if not cluster.is_set_up() or sign_in.user() is not None:
        return None
    chosen = controls.segments(
        key, "Where", tuple(TITLES), HERE, shown=TITLES.get,
        help="On the cluster, jobs wait in its queue and continue after time limits and lost nodes. Its settings are "
        "in cluster.yaml (docs/jobs.md).",
    )  # fmt: skip
    return None if chosen == HERE else chosen


def refusal() -> str:
    """Why nothing can be submitted from here; empty where it can, should Slurm answer when it is asked."""
    try:
        cluster.checked_settings()
    except SkillvizError as error:
        return str(error.args[0])
    return ""

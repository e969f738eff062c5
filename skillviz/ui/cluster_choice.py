"""The choice between this machine and a cluster for a job, on Launch and Studies, if a cluster is set up."""

from __future__ import annotations

from skillviz.errors import SkillvizError
from skillviz.jobs import slurm
from skillviz.runs.slurm_queue import SLURM
from skillviz.serving import sign_in
from skillviz.ui import controls

HERE = "here"
TITLES = {HERE: "This machine", SLURM: "Slurm cluster"}


def choose(key: str) -> str | None:
    """The chosen cluster, None for this machine; no control is drawn if no cluster is set up.

    Users who sign in take turns on this machine: the cluster's queue knows only one user, the owner of this server.
    """
    if not slurm.is_set_up() or sign_in.user() is not None:
        return None
    chosen = controls.segments(
        key, "Where", tuple(TITLES), HERE, shown=TITLES.get,
        help="On the cluster, jobs wait in its queue and continue after time limits and lost nodes. Its settings are "
        "in cluster.yaml (docs/jobs.md).",
    )  # fmt: skip
    return None if chosen == HERE else chosen


def refusal() -> str:
    """The reason why nothing can be submitted from here; empty if it can, provided that Slurm answers."""
    try:
        slurm.checked_settings()
    except SkillvizError as error:
        return str(error.args[0])
    return ""

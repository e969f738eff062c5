"""What a run of the demo world does not show, in one sentence, to be said wherever such a run is seen."""

from __future__ import annotations

from skillviz.core import formats
from skillviz.tasks.demo_world import PREFIX

PAPER_D, PAPER_SHARE = 85_054_464, 0.0001  # PAPER.md, section 2
PAGE = "docs/demo-world.md"


def is_toy(base: str) -> bool:
    """Whether a run's base is one of the demo world's."""
    return base.startswith(PREFIX)


def caution(base: str, d: int | None, share: float | None) -> str:
    """Beside a run; empty where its base is none of the demo world's."""
    if not is_toy(base):
        return ""
    return (
        f"**Demo world**: a toy with {formats.count(d)} graftable entries, of which the region takes "
        f"{formats.share(share)}. "
        f"{papers()} What else it does not show: {PAGE}."
    )


def comparison_caution(names: list[str]) -> str:
    """Beside a comparison; `names` are the runs of the demo world among those compared, none for an empty text."""
    if not names:
        return ""
    listed = formats.listed([f"**{name}**" for name in names], len(names))
    return (
        f"{listed} of the **demo world**, a toy with under a million graftable entries, which needs a larger share of "
        f"them. {papers()} What else it does not show: {PAGE}."
    )


def papers() -> str:
    """What the share is in the models of the paper."""
    return (
        f"The paper's models have about {PAPER_D / 1e6:.0f} million, and about {formats.share(PAPER_SHARE)} of them is "
        "enough for most of its tasks."
    )

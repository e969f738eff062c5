"""What a run of the demo world does not show, in one sentence, to be said wherever such a run is seen."""

from __future__ import annotations

from skillviz.core import formats
from skillviz.show import text
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
        f"**Demo world**: a toy with {formats.count(d)} graftable parameters; the region is {formats.share(share)} of "
        f"them. {papers()} Limits: {PAGE}."
    )


def comparison_caution(names: list[str], compared: int) -> str:
    """Under a comparison of so many runs; `names` are those of the demo world, none for an empty text."""
    if not names:
        return ""
    which = "" if len(names) == compared else f" ({formats.listed([text.plain(name) for name in names], len(names))})"
    return (
        f"**Demo world**{which}: a toy with under a million graftable parameters, so the skill needs a larger share of "
        f"them. {papers()} Limits: {PAGE}."
    )


def papers() -> str:
    """What the share is in the models of the paper."""
    return (
        f"The paper's models have about {PAPER_D / 1e6:.0f} million, and about {formats.share(PAPER_SHARE)} is enough "
        "for most tasks."
    )

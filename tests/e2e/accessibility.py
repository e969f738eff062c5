"""Findings of axe on a page, Streamlit's and skillviz's, and the order of its headings.

Tests and docs/screenshots.py read them.

axe-core is a script in the package axe-playwright-python; it is added to the page and fetches nothing.
"""

from dataclasses import dataclass
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT

GRAVE = ("serious", "critical")


@dataclass(frozen=True)
class Streamlits:
    """A finding in Streamlit's own markup, which no setting or style of skillviz changes."""

    rule: str
    selector: str
    reason: str


STREAMLITS = (
    Streamlits(
        "list", "[data-testid='stSidebarNavItems']",
        "the menu's groups are div elements between the list and its items",
    ),
    Streamlits(
        "listitem", "[data-testid='stSidebarNavItems'] li",
        "the menu's groups are div elements between the list and its items",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One element that breaks one rule of axe; `reason` is set if the element is Streamlit's."""

    rule: str
    impact: str
    html: str
    message: str
    reason: str

    @property
    def is_ours(self) -> bool:
        """True if skillviz must fix the finding."""
        return not self.reason

    def __str__(self) -> str:
        return f"{self.impact} {self.rule}: {self.html[:200]} ({self.message[:200]})"


# Each element that breaks a rule, with the row numbers of `known` that match its rule and selector.
RUN = """known => axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations.flatMap(rule =>
  rule.nodes.map(node => {
    const element = [node.target].flat(9).reduce((root, step) => {
      const found = root && (root.shadowRoot || root).querySelector(step); return found; }, document);
    return {rule: rule.id, impact: rule.impact, html: node.html, message: node.failureSummary || "",
      known: known.findIndex(row => row.rule === rule.id && element && element.matches(row.selector))}; })))"""

HEADINGS = """() => [...document.querySelectorAll("[data-testid=stMain] :is(h1, h2, h3, h4, h5, h6)")]
  .filter(heading => heading.checkVisibility())
  .map(heading => [Number(heading.tagName[1]), heading.innerText.trim()])"""


def findings(page: Any) -> list[Finding]:
    """Return the serious and critical findings on the current page."""
    page.evaluate(AXE_SCRIPT)
    found = page.evaluate(RUN, [{"rule": row.rule, "selector": row.selector} for row in STREAMLITS])
    return [
        Finding(
            one["rule"], one["impact"], one["html"], " ".join(one["message"].split()),
            STREAMLITS[one["known"]].reason if one["known"] >= 0 else "",
        )
        for one in found if one["impact"] in GRAVE
    ]  # fmt: skip


def out_of_order(page: Any) -> list[str]:
    """Return the headings that skip a level, or a first heading that is not the page's only h1."""
    levels = page.evaluate(HEADINGS)
    pairs = zip(levels, levels[1:], strict=False)
    wrong = [f"h{level} {text!r} follows h{before}" for (before, _), (level, text) in pairs
             if level > before + 1 or level == 1]  # fmt: skip
    return wrong if levels and levels[0][0] == 1 else [f"the first heading is not h1: {levels[:1]}", *wrong]

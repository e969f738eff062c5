"""The page table: every page of the dashboard, its group, its question, and the navigation made of them.

Because a folder is called `pages/`, a first visit straight to `/region` on a fresh server runs that file
without dashboard.py. So the table lives here, and a page that finds no navigation installs it itself.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from skillviz.show.entries import demo_choice
from skillviz.tasks.project import PROJECT
from skillviz.ui import address, cache

GROUPS = ("Start", "This run", "Many runs", "Reference")
MENU = "pages.menu"  # in a session that has been through `install`
PRESENT, YES = "present", "yes"  # in the address, and only there: with it the menu is hidden
installed: ContextVar[bool] = ContextVar("installed", default=False)


@dataclass(frozen=True)
class PageEntry:
    """One page: `name` is its file, its URL and the word in the code; `question` is its heading.

    `experiments` are those of the paper whose tables the page shows, its first one before the others.
    """

    name: str
    title: str
    group: str
    question: str
    experiments: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Its script."""
        return PROJECT / "pages" / f"{self.name}.py"

    def link(self) -> StreamlitPage:
        """The page as Streamlit's navigation, links and switches want it."""
        return st.Page(self.path, title=self.title, url_path=self.name)


PAGES = {
    entry.name: entry
    for entry in (
        PageEntry("tour", "Tour", "Start", "How much of a model is a skill?"),
        PageEntry("runs", "Runs", "Start", "Which runs are there?"),
        PageEntry("launch", "Launch", "Start", "Which skill shall be localized?"),
        PageEntry("overview", "Overview", "This run", "How much of the skill fits into this region?"),
        PageEntry("region", "Region", "This run", "Where does the skill lie?"),
        PageEntry("sparsity", "Sparsity", "This run", "How small can the region be?"),
        PageEntry("calibration", "Calibration", "This run", "How sure is the model, and is it right to be?"),
        PageEntry("interpolation", "Interpolation", "This run", "What lies between the models?"),
        PageEntry("transfer", "Transfer", "This run", "Does the skill carry over to other tasks?"),
        PageEntry("examples", "Examples", "This run", "Which examples does the graft get right, and why?"),
        PageEntry("surgery", "Surgery", "This run", "What does a region built by hand carry?"),
        PageEntry("compare", "Compare", "Many runs", "How do several runs differ?"),
        PageEntry(
            "methods", "Methods", "Many runs", "What else gives the skill by touching as little?",
            ("table1", "table3", "figure5", "table8", "figure4"),
        ),
        PageEntry("tasks", "Tasks", "Many runs", "Do the skills of several tasks share parameters?", ("figure8",)),
        PageEntry("continual", "Continual", "Many runs", "Does a new skill cost the old ones?", ("table4",)),
        PageEntry("studies", "Studies", "Many runs", "Which experiments have been made?"),
        PageEntry("paper", "Paper", "Reference", "Does it come out as in the paper?"),
    )
}  # fmt: skip


def navigation() -> StreamlitPage:
    """The page that the address asks for, which is caught up with first; draws the menu. Call once a script run."""
    installed.set(True)
    address.catch_up()  # before there is a menu to go on with
    groups: dict[str, list[StreamlitPage]] = {
        group: [entry.link() for entry in PAGES.values() if entry.group == group] for group in GROUPS
    }
    landing = st.Page(_landing, title="skillviz", default=True, visibility="hidden")
    # not 'region' -> '' but its own address for every page, so that a copied link names what it shows
    shown = {group: links for group, links in groups.items() if links}
    place: Literal["hidden", "sidebar"] = "hidden" if is_presented() else "sidebar"
    return st.navigation({**shown, "": [landing]}, position=place, expanded=True)


def is_presented() -> bool:
    """Whether the address asks for the presenter mode: large type and no menu."""
    return st.query_params.get(PRESENT) == YES


def install() -> None:
    """Sees to menu and address when a page runs without dashboard.py; does nothing otherwise.

    From here on the server runs dashboard.py, so the page is begun anew: what is drawn in this very run would
    belong to dashboard.py, and the first change of a widget would be lost.
    """
    if installed.get():
        return
    if MENU not in st.session_state:
        st.session_state[MENU] = True
        navigation()
        st.rerun()
    address.catch_up()


def _landing() -> None:
    """The address without a page: the run that it names, else the tour, else what there is."""
    entries = cache.entries()
    name = "overview" if entries else "runs"
    if address.RUN not in st.query_params and demo_choice(entries) is not None:
        name = "tour"
    st.switch_page(PAGES[name].link(), query_params=st.query_params.to_dict())

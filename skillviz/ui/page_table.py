"""The page table: every page of the dashboard with its group and question, and the navigation made from it.

Because the folder is named `pages/`, the first visit to an address such as `/region` on a fresh server runs that file
without dashboard.py. The table is therefore in this module, and a page without navigation installs it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from skillviz.errors import SkillvizError
from skillviz.runs.folder import OPEN
from skillviz.serving import sign_in
from skillviz.serving.settings import settings
from skillviz.tasks.project import app_root
from skillviz.ui import address, cache, frame, script

GROUPS = ("Start", "This run", "Many runs", "Reference")
HOME = "home"  # the page at the address without a name
MENU = "pages.menu"  # session key: `install` has been called
PRESENT, YES = "present", "yes"  # only in the address, never in the session: hides the menu
FIGURE = "figure"  # in the address of an embedded page: the figure that is shown alone (ui/embed.py)
installed: ContextVar[bool] = ContextVar("installed", default=False)


@dataclass(frozen=True)
class PageRow:
    """One page: `name` is its file, its URL and its word in the code; `icon` a Material symbol; `question` its heading.

    `experiments` are the experiments of the paper whose tables the page shows, the main one first. With `takes_boards`
    it also shows users' own studies that compare a graft with other regions of equal size. A page that `starts` jobs is
    not in the menu if the dashboard is read-only.
    """

    name: str
    icon: str
    title: str
    group: str
    question: str
    experiments: tuple[str, ...] = ()
    takes_boards: bool = False
    starts: bool = False

    @property
    def path(self) -> Path:
        """The path of the page's script."""
        return app_root() / "pages" / f"{self.name}.py"

    def link(self, badge: str = "", instead: Callable[[], None] | None = None) -> StreamlitPage:
        """The page as an object for Streamlit's navigation, links and switches; `badge` follows its title.

        With `instead`, that function draws the page at its address.
        """
        return st.Page(
            instead or self.path, title=f"{self.title}{badge}", icon=f":material/{self.icon}:", url_path=self.name,
            default=self.name == HOME, visibility="hidden" if self.starts and settings.read_only else "visible",
        )  # fmt: skip


PAGES = {
    row.name: row
    for row in (
        PageRow(HOME, "home", "Home", "Start", "A tiny region carries the skill"),
        PageRow("tour", "school", "Tour", "Start", "How much of the model is the skill?"),
        PageRow("runs", "inventory_2", "Runs", "Start", "Runs"),
        PageRow("launch", "play_circle", "Launch", "Start", "Find a skill in your model", starts=True),
        PageRow("jobs", "pending_actions", "Jobs", "Start", "Jobs", starts=True),
        PageRow("overview", "dashboard", "Overview", "This run", "How much of the skill is in this region?"),
        PageRow("region", "grid_on", "Region", "This run", "Where is the skill?"),
        PageRow("sparsity", "show_chart", "Sparsity", "This run", "How small can the region be?"),
        PageRow("calibration", "speed", "Calibration", "This run", "Is the model's confidence justified?"),
        PageRow(
            "interpolation", "linear_scale", "Interpolation", "This run", "Between the base and the fine-tuned model"
        ),
        PageRow("transfer", "move_up", "Transfer", "This run", "Does the skill transfer?"),
        PageRow("examples", "format_quote", "Examples", "This run", "Which examples change?"),
        PageRow("surgery", "build", "Surgery", "This run", "Build your own region"),
        PageRow("compare", "compare_arrows", "Compare", "Many runs", "Compare runs"),
        PageRow(
            "methods", "category", "Methods", "Many runs", "Grafting vs other small updates",
            ("table1", "table3", "table6", "table7", "figure5", "table8", "figure4"), takes_boards=True,
        ),
        PageRow(
            "tasks", "hub", "Tasks", "Many runs", "Do tasks share parameters?",
            ("figure8", "figure11", "figure12", "figure13", "figure14", "subsets"),
        ),
        PageRow("continual", "timeline", "Continual", "Many runs", "Learning tasks in sequence", ("table4",)),
        PageRow("studies", "science", "Studies", "Many runs", "Studies"),
        PageRow("paper", "menu_book", "Paper", "Reference", "Paper vs skillviz"),
    )
}  # fmt: skip


def navigation() -> StreamlitPage:
    """Draws the menu and returns the page of the address, after `address.catch_up`; call it once per script run.

    An address without a page name but with a run opens that run. Before signing in, a user gets the sign-in page at
    every address.
    """
    script.begin()
    installed.set(True)
    # before the menu: without an icon, Streamlit would fetch the icon of the menu's entry from a public host
    st.set_page_config(page_icon=frame.BRAND / "mark-light.svg")
    address.catch_up()  # before the menu can be used to switch pages
    if not sign_in.is_open():
        return st.navigation([row.link(instead=_sign_in) for row in PAGES.values()], position="hidden")
    groups: dict[str, list[StreamlitPage]] = {
        group: [row.link(_badge(row.name)) for row in PAGES.values() if row.group == group] for group in GROUPS
    }
    shown = {group: links for group, links in groups.items() if links}
    place: Literal["hidden", "sidebar"] = "hidden" if is_presented() or st.context.is_embedded else "sidebar"
    chosen = st.navigation(shown, position=place, expanded=True)
    if place == "sidebar":
        sign_in.account()
    if chosen.url_path == PAGES[HOME].link().url_path and address.RUN in st.query_params:
        st.switch_page(PAGES["overview"].link(), query_params=st.query_params.to_dict())
    return chosen


def _sign_in() -> None:
    st.set_page_config(page_title="Sign in · skillviz")
    frame.draw()
    sign_in.draw()


def _badge(name: str) -> str:
    """The number of running and waiting jobs as a suffix for the title of their page; else empty."""
    if name != "jobs":
        return ""
    with suppress(SkillvizError):  # the pages explain a store that cannot be read
        if count := sum(run.record.status in OPEN for run in cache.others()[0]):
            return f" ({count})"
    return ""


def is_presented() -> bool:
    """True if the address asks for presenter mode: large type and no menu."""
    return st.query_params.get(PRESENT) == YES


def install() -> None:
    """Sets up menu and address if a page runs without dashboard.py; otherwise does nothing.

    From then on the server runs dashboard.py, so the page is restarted: elements drawn in this script run would belong
    to dashboard.py, and the first change of a widget would be lost.
    """
    if installed.get():
        return
    if MENU not in st.session_state:
        st.session_state[MENU] = True
        navigation()
        st.rerun()
    script.begin()
    address.catch_up()

"""Paper vs skillviz. A scoreboard of the paper's claims; a click opens the experiment with its figure and table."""

from skillviz.ui import page
from skillviz.ui.pages.paper import view

page.begin_without_run("paper")
if (item := view.claims()) is not None:
    if not item.is_published_only:  # else its values stand above the scoreboard
        view.experiment(item)
        view.values(item)
    view.further(item)

"""The page "Paper vs skillviz": a scoreboard of the paper's claims; a click opens an experiment's figure and table."""

from skillviz.ui import page
from skillviz.ui.pages.paper import paper_page

page.begin_without_run("paper")
if (item := paper_page.claims()) is not None:
    if not item.is_published_only:  # otherwise its values are above the scoreboard
        paper_page.experiment(item)
        paper_page.values(item)
    paper_page.further(item)
